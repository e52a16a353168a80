#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/base/str.h"
#include "tools/cmd.h"
#include "tools/commands.h"
#include "tools/compress_run.h"

#define NAME "infq quantize"

typedef struct {
    int64_t bits, threads, tp, effort, calib_tokens, window, seed;
    double damping, sparsity;
    const char *pattern, *scheme, *method, *format, *group, *out, *engine, *calib;
    opt_list ignore, include, types;
    uint64_t mem_limit, shard_bytes;
    bool asym, force, dry_run, allow_fallback, no_verify, json, quiet;
} options;

/* Rules of --type; the patterns live in store. */
typedef struct {
    infq_plan_rule v[OPT_LIST_MAX];
    char store[OPT_LIST_MAX][256];
} rule_list;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "bits", 'b', OPT_I64, "N", "4 (W4A16) or 8 (W8A16); 4 unless --scheme is given", AT(bits), 1, 64 },
    { "scheme", 's', OPT_STR, "NAME", "W4A16, W4A16_ASYM, W8A16, W8A8-INT8, FP8 or FP8-BLOCK", AT(scheme), 0, 0 },
    { "method", 'm', OPT_STR, "NAME", "search: range search weighted by the weights, with --calib by the\n"
      "energy of the inputs (default)\n"
      "rtn: round to nearest, range = largest magnitude\n"
      "gptq: search, then each column moved by the errors of those before it", AT(method), 0, 0 },
    { "effort", 'e', OPT_I64, "N", "0: search without data; 1: search with statistics; 2: gptq (0)", AT(effort), 0, 2 },
    { "calib", 0, OPT_STR, "DATA", "text that statistics come from (plain, .gz, JSON Lines with \"text\"),\n"
      "or self: the model writes it (self when a method needs data)", AT(calib), 0, 0 },
    { "calib-tokens", 0, OPT_I64, "N", "tokens of it (32768)", AT(calib_tokens), 2, 1 << 30 },
    { "calib-window", 0, OPT_I64, "N", "tokens of a window (512)", AT(window), 2, 1 << 20 },
    { "damping", 0, OPT_F64, "X", "gptq: added to second moments, a fraction of their mean diagonal (0.01)", AT(damping), 1e-6, 1 },
    { "seed", 0, OPT_I64, "N", "of self-written calibration data (1)", AT(seed), 0, 0 },
    { "group-size", 'g', OPT_STR, "N", "weights that share a scale, or channel for whole rows; by default\n"
      "the largest of 128, 64, 32 that divides every quantized row", AT(group), 0, 0 },
    { "asym", 0, OPT_FLAG, NULL, "with zero points (4 bits)", AT(asym), 0, 0 },
    { "sparsity", 0, OPT_F64, "X", "gptq: this share of the weights becomes zero in the same pass", AT(sparsity), 0, 0 },
    { "pattern", 0, OPT_STR, "N:M", "gptq: at most N values other than zero in each M columns (2:4)", AT(pattern), 0, 0 },
    { "format", 0, OPT_STR, "NAME", "how the output is stored: compressed-tensors", AT(format), 0, 0 },
    { "ignore", 0, OPT_LIST, "PATTERN", "modules that stay as they are; may be repeated", AT(ignore), 0, 0 },
    { "include", 0, OPT_LIST, "PATTERN", "modules to quantize although they are left out by default\n"
      "(lm_head); may be repeated", AT(include), 0, 0 },
    { "type", 0, OPT_LIST, "PATTERN=TYPE", "what becomes of the matrices that PATTERN matches: a scheme, with :N or :channel for its\n"
      "groups, or keep; may be repeated, the first that matches counts", AT(types), 0, 0 },
    { "output", 'o', OPT_STR, "OUT", "name of the result; MODEL-SCHEME beside the input by default", AT(out), 0, 0 },
    { "force", 'f', OPT_FLAG, NULL, "replace OUT if it is there", AT(force), 0, 0 },
    { "dry-run", 'n', OPT_FLAG, NULL, "print the plan, write nothing", AT(dry_run), 0, 0 },
    { "allow-fallback", 0, OPT_FLAG, NULL, "keep matrices whose rows the group size does not divide, and list them",
      AT(allow_fallback), 0, 0 },
    { "for", 0, OPT_STR, "ENGINE", "refuse what this engine does not load: vllm", AT(engine), 0, 0 },
    { "tp", 0, OPT_I64, "N", "devices that --for splits the model over (1)", AT(tp), 1, 1024 },
    { "mem-limit", 0, OPT_SIZE, "SIZE", "stay below this much resident memory, or refuse (exit code 5)", AT(mem_limit), 0, 0 },
    { "shard-size", 0, OPT_SIZE, "SIZE", "tensor bytes of a shard at most (5GB)", AT(shard_bytes), 0, 0 },
    { "no-verify", 0, OPT_FLAG, NULL, "publish without decoding and comparing first", AT(no_verify), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); the result does not depend on it", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "plan or report as one JSON object", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error, no plan", AT(quiet), 0, 0 },
    { "tp", 0, OPT_NEED, "for", NULL, 0, 0, 0 },
    { "calib-tokens", 0, OPT_NEED, "calib,method,effort", NULL, 0, 0, 0 },
    { "calib-window", 0, OPT_NEED, "calib,method,effort", NULL, 0, 0, 0 },
    { "seed", 0, OPT_NEED, "calib,method,effort", NULL, 0, 0, 0 },
    { "damping", 0, OPT_NEED, "method,effort", NULL, 0, 0, 0 },
    { "sparsity", 0, OPT_NEED, "method,effort", NULL, 0, 0, 0 },
    { "pattern", 0, OPT_NEED, "method,effort", NULL, 0, 0, 0 },
};
const opt_spec cmd_quantize_spec = {
    NAME, "[options] MODEL", "Stores a model's linear layers in fewer bits.",
    "MODEL is a model folder or a .safetensors file. Embeddings, lm_head, routers, norms and biases stay as\n"
    "they are. A PATTERN is a module's whole name, its last part (lm_head, down_proj), or re: and a regular\n"
    "expression that matches from the start of the name; one that matches nothing is an error. The result\n"
    "appears under its name only when it is complete and verified; a killed run goes on where it stopped.\n"
    "Exit code: 0 done, 1 verification failed, 2 wrong usage, 3 input not usable, 4 disk, 5 memory.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

static infq_status choose_scheme(const options *o, infq_plan_options *p, infq_err *err)
{
    const char *name = o->scheme;

    if (o->bits && o->bits != 4 && o->bits != 8)
        return infq_err_set(err, INFQ_E_USAGE, "--bits %lld: 4 or 8 is wanted", (long long)o->bits);
    if (name && o->bits)
        return infq_err_set(err, INFQ_E_USAGE, "--bits and --scheme exclude each other");
    if (!name)
        name = o->bits == 8 ? "W8A16" : "W4A16";
    p->scheme = infq_scheme_find(name);
    if (!p->scheme)
        return infq_err_set(err, INFQ_E_USAGE, "unknown scheme %s (see %s --help)", name, NAME);
    if (!o->asym)
        return INFQ_E_OK;
    if (p->scheme->codec.elem != INFQ_ELEM_U4)
        return infq_err_set(err, INFQ_E_USAGE, "--asym needs 4 bits: no engine has a kernel for %s with zero points",
                            p->scheme->name);
    p->scheme = infq_scheme_find("W4A16_ASYM");
    return INFQ_E_OK;
}

/* "re:.*down_proj=W8A16:64", split behind the last "=". */
static infq_status read_rule(const char *text, infq_plan_rule *out, char *store, size_t cap, infq_err *err)
{
    const char *eq = strrchr(text, '=');
    char *group;

    if (!eq || eq == text || strlen(text) >= cap)
        return infq_err_set(err, INFQ_E_USAGE, "--type %.80s: PATTERN=SCHEME, PATTERN=SCHEME:GROUP or PATTERN=keep is wanted", text);
    strcpy(store, text);
    store[eq - text] = '\0';
    *out = (infq_plan_rule){store, NULL, 0};
    eq = store + (eq - text) + 1;
    if (strcmp(eq, "keep") == 0)
        return 0;
    group = strchr(eq, ':');
    if (group)
        *group++ = '\0';
    out->scheme = infq_scheme_find(eq);
    if (!out->scheme)
        return infq_err_set(err, INFQ_E_USAGE, "--type %s: unknown scheme %s (see %s --help), or keep", store, eq, NAME);
    if (group && strcmp(group, "channel") == 0)
        out->group_size = INFQ_GROUP_CHANNEL;
    else if (group && (!infq_parse_i64(group, 8, 1 << 20, &out->group_size) || out->group_size % 8))
        return infq_err_set(err, INFQ_E_USAGE, "--type %s: group size %s is neither a multiple of 8 nor channel", store, group);
    return 0;
}

static infq_status read_rules(const options *o, rule_list *rules, infq_plan_options *p, infq_err *err)
{
    for (int i = 0; i < o->types.n; i++)
        INFQ_TRY(read_rule(o->types.v[i], &rules->v[i], rules->store[i], sizeof(rules->store[i]), err));
    p->rules = rules->v;
    p->n_rules = (size_t)o->types.n;
    return 0;
}

static infq_status plan_options(const options *o, rule_list *rules, infq_plan_options *p, infq_err *err)
{
    *p = infq_plan_options_default();
    INFQ_TRY(choose_scheme(o, p, err));
    INFQ_TRY(read_rules(o, rules, p, err));
    if (o->method && !(p->method = infq_method_find(o->method)))
        return infq_err_set(err, INFQ_E_USAGE, "unknown method %s (see %s --help)", o->method, NAME);
    if (o->format && (!(p->format = infq_format_find(o->format)) || strcmp(o->format, "dense") == 0))
        return infq_err_set(err, INFQ_E_USAGE, "unknown output format %s (see %s --help)", o->format, NAME);
    if (o->group && strcmp(o->group, "channel") == 0)
        p->group_size = INFQ_GROUP_CHANNEL;
    else if (o->group && (!infq_parse_i64(o->group, 8, 1 << 20, &p->group_size) || p->group_size % 8))
        return infq_err_set(err, INFQ_E_USAGE, "--group-size %s is neither a multiple of 8 nor channel", o->group);
    p->ignore = o->ignore.v;
    p->n_ignore = (size_t)o->ignore.n;
    p->include = o->include.v;
    p->n_include = (size_t)o->include.n;
    p->allow_fallback = o->allow_fallback;
    p->out = o->out;
    p->mem_limit = o->mem_limit;
    p->shard_bytes = o->shard_bytes;
    p->engine = o->engine;
    p->tp = o->tp;
    if (o->method && o->effort >= 0)
        return infq_err_set(err, INFQ_E_USAGE, "--effort and --method exclude each other");
    if (o->effort == 2)
        p->method = infq_method_find("gptq");
    if (o->effort == 0 && o->calib)
        return infq_err_set(err, INFQ_E_USAGE, "--effort 0 uses no data, so --calib would do nothing");
    if (o->calib && strcmp(p->method->name, "rtn") == 0)
        return infq_err_set(err, INFQ_E_USAGE, "method rtn uses no data, so --calib would do nothing");
    INFQ_TRY(infq_sparsity_make(o->sparsity, o->pattern, &p->sparsity, err));
    if (!isnan(o->damping)) {
        if (!(p->method->needs & INFQ_NEEDS_MOMENT))
            return infq_err_set(err, INFQ_E_USAGE, "method %s has no damping", p->method->name);
        p->damping = o->damping;
    }
    return INFQ_E_OK;
}

static void hits_text(const infq_plan *p, infq_buf *to)
{
    for (size_t i = 0; i < p->o.n_ignore; i++)
        infq_buf_fmt(to, "  --ignore %s: matches %lld modules\n", p->o.ignore[i], (long long)p->ignore_hits[i]);
    for (size_t i = 0; i < p->o.n_include; i++)
        infq_buf_fmt(to, "  --include %s: matches %lld modules\n", p->o.include[i], (long long)p->include_hits[i]);
    for (size_t i = 0; i < p->o.n_rules; i++)
        infq_buf_fmt(to, "  --type %s: %lld matrices to %s\n", p->o.rules[i].pattern, (long long)p->rule_hits[i],
                     p->o.rules[i].scheme ? p->o.rules[i].scheme->name : "keep");
}

static void plan_text(const infq_plan *p, infq_buf *to)
{
    char a[32], b[32], what[80];
    const infq_plan_entry *first = NULL;

    for (size_t i = 0; i < p->n; i++) // one that no rule decides, if there is any
        if (p->v[i].fate == INFQ_FATE_QUANTIZE && (!first || (first->rule && !p->v[i].rule)))
            first = &p->v[i];
    infq_buf_fmt(to, "plan: %s -> %s\n", infq_checkpoint_path(p->ck), p->out);
    infq_buf_fmt(to, "  %zu matrices to %s%s, method %s, format %s\n", p->n_quantized, infq_codec_describe(&first->codec, what, sizeof(what)),
                 p->o.n_rules ? " or as rules say" : "", p->o.method->name, p->o.format->name);
    if (p->o.sparsity.fraction > 0.0)
        infq_buf_fmt(to, "  pruned in the same pass: %s\n", infq_sparsity_describe(&p->o.sparsity, what, sizeof(what)));
    infq_buf_fmt(to, "  %zu tensors copied%s\n", p->n_copied,
                 p->n_tied ? "; lm_head equals the embedding it is tied to and is stored once" : "");
    hits_text(p, to);
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].fallback)
            infq_buf_fmt(to, "  fallback: %s stays %s, rows of %lld\n", p->v[i].module->name,
                         infq_dtype_name(p->v[i].tensor->dtype), (long long)p->v[i].tensor->shape[1]);
    infq_buf_fmt(to, "  %s -> %s, %.2f bits per weight (%.2f in quantized matrices)\n",
                 infq_format_bytes((double)p->bytes_in, a, sizeof(a)), infq_format_bytes((double)p->bytes_out, b, sizeof(b)),
                 p->bits_per_weight, p->bits_per_weight_quantized);
    compress_needs_text(p, to);
}

static void patterns_json(infq_jw *w, const char *key, const char *const *v, const int64_t *hits, size_t n)
{
    infq_jw_key(w, key);
    infq_jw_arr(w);
    for (size_t i = 0; i < n; i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "pattern", v[i]);
        infq_jw_key_i64(w, "matches", hits[i]);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void plan_json(const infq_plan *p, infq_jw *w)
{
    char name[64];

    infq_plan_scheme_name(p, name, sizeof(name));
    infq_jw_key(w, "plan");
    infq_jw_obj(w);
    infq_jw_key_str(w, "scheme", name);
    infq_jw_key_str(w, "method", p->o.method->name);
    infq_jw_key_str(w, "format", p->o.format->name);
    infq_jw_key_i64(w, "group_size", p->group_size);
    if (p->o.sparsity.fraction > 0.0) {
        infq_jw_key(w, "sparsity");
        infq_sparsity_json(&p->o.sparsity, true, w);
    }
    infq_jw_key_i64(w, "tensors_quantized", (int64_t)p->n_quantized);
    infq_jw_key_i64(w, "tensors_copied", (int64_t)p->n_copied);
    infq_jw_key_i64(w, "tensors_tied", (int64_t)p->n_tied);
    infq_jw_key(w, "fallbacks");
    infq_jw_arr(w);
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].fallback)
            infq_jw_str(w, p->v[i].tensor->name);
    infq_jw_end_arr(w);
    patterns_json(w, "ignore", p->o.ignore, p->ignore_hits, p->o.n_ignore);
    patterns_json(w, "include", p->o.include, p->include_hits, p->o.n_include);
    infq_jw_key_i64(w, "weights", p->weights);
    infq_jw_key_i64(w, "weights_quantized", p->weights_quantized);
    infq_jw_key_f64(w, "bits_per_weight", p->bits_per_weight);
    infq_jw_key_f64(w, "bits_per_weight_quantized", p->bits_per_weight_quantized);
    infq_jw_key_i64(w, "tensor_bytes_in", (int64_t)p->bytes_in);
    infq_jw_key_i64(w, "file_bytes_out", (int64_t)p->bytes_out);
    compress_needs_json(p, w);
    infq_jw_end_obj(w);
}

// Indices of the quantized entries with the largest errors, worst first; their number.
#define N_WORST 5
static size_t worst(const infq_plan *p, const infq_quantize_result *r, size_t out[N_WORST])
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++) {
        size_t at = n;
        if (p->v[i].fate != INFQ_FATE_QUANTIZE)
            continue;
        while (at > 0 && infq_ledger_error(&r->rows[i]) > infq_ledger_error(&r->rows[out[at - 1]]))
            at--;
        if (at >= N_WORST)
            continue;
        n += n < N_WORST;
        for (size_t k = n - 1; k > at; k--)
            out[k] = out[k - 1];
        out[at] = i;
    }
    return n;
}

static void verified_text(const infq_verify_report *v, infq_buf *to)
{
    infq_buf_fmt(to, "verified: %s, %zu matrices decoded, largest relative error %.4f, %zu tensors and %zu side files equal\n",
                 v->findings.n_fail ? "FAIL" : "pass", v->n_rows, v->worst, v->n_copied, v->n_side);
    for (size_t i = 0; i < v->findings.n; i++)
        if (v->findings.v[i].fail)
            infq_buf_fmt(to, "  FAIL %s\n", v->findings.v[i].text);
}

static void report_text(const infq_plan *p, const infq_quantize_result *r, infq_buf *to)
{
    size_t w[N_WORST], n = worst(p, r, w), n_side = infq_checkpoint_side_count(p->ck);
    char a[32], b[32], c[32];

    infq_buf_fmt(to, "%s %s\n", r->published ? "wrote" : "not published:", p->out);
    infq_buf_fmt(to, "  asked %s, achieved %.3f bits per weight overall, %.3f in %zu quantized matrices\n", p->o.scheme->name,
                 p->bits_per_weight, p->bits_per_weight_quantized, p->n_quantized);
    infq_buf_fmt(to, "  size %s -> %s (%.1f %%), %.1f s (%.2f GB/s), verification %.1f s, peak memory %s\n",
                 infq_format_bytes((double)p->bytes_in, a, sizeof(a)), infq_format_bytes((double)r->bytes_written, b, sizeof(b)),
                 100.0 * (double)r->bytes_written / (double)p->bytes_in, r->seconds,
                 r->seconds > 0 ? (double)p->bytes_in / r->seconds * 1e-9 : 0.0, r->seconds_verify,
                 infq_format_bytes((double)infq_mem_rss_peak(), c, sizeof(c)));
    if (r->n_resumed)
        infq_buf_fmt(to, "  %zu tensors taken over from an interrupted run\n", r->n_resumed);
    infq_buf_fmt(to, "  groups that hold only zeros: %lld; codes cut off at the range's end: %lld\n", (long long)r->zero_groups,
                 (long long)r->clipped);
    if (p->o.sparsity.fraction > 0.0)
        infq_buf_fmt(to, "  zeros: %.4f %% of the quantized weights\n", 100.0 * (double)r->zeros / (double)p->weights_quantized);
    for (size_t i = 0; i < n; i++)
        infq_buf_fmt(to, "  %s %s: relative error %.4f\n", i ? "     " : "worst", p->v[w[i]].module->name,
                     infq_ledger_error(&r->rows[w[i]]));
    for (size_t i = 0; i < n_side && !infq_checkpoint_is_bare(p->ck); i++)
        infq_buf_fmt(to, "%s%s", i ? ", " : "  side files: ", infq_checkpoint_side_name(p->ck, i));
    if (n_side && !infq_checkpoint_is_bare(p->ck))
        infq_buf_char(to, '\n');
    if (r->verified)
        verified_text(r->verified, to);
}

static void report_json(const infq_plan *p, const infq_quantize_result *r, infq_jw *w)
{
    size_t k[N_WORST], n = worst(p, r, k);

    infq_jw_key_bool(w, "published", r->published);
    infq_jw_key_i64(w, "bytes_written", (int64_t)r->bytes_written);
    infq_jw_key_f64(w, "seconds", r->seconds);
    infq_jw_key_f64(w, "seconds_verify", r->seconds_verify);
    infq_jw_key_i64(w, "peak_memory_bytes", (int64_t)infq_mem_rss_peak());
    infq_jw_key_i64(w, "tensors_resumed", (int64_t)r->n_resumed);
    if (p->o.sparsity.fraction > 0.0)
        infq_jw_key_i64(w, "zeros", r->zeros);
    infq_jw_key_i64(w, "zero_groups", r->zero_groups);
    infq_jw_key_i64(w, "clipped", r->clipped);
    infq_jw_key(w, "side_files");
    infq_jw_arr(w);
    for (size_t i = 0; i < infq_checkpoint_side_count(p->ck) && !infq_checkpoint_is_bare(p->ck); i++)
        infq_jw_str(w, infq_checkpoint_side_name(p->ck, i));
    infq_jw_end_arr(w);
    infq_jw_key(w, "worst");
    infq_jw_arr(w);
    for (size_t i = 0; i < n; i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "module", p->v[k[i]].module->name);
        infq_jw_key_f64(w, "relative_error", infq_ledger_error(&r->rows[k[i]]));
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_key(w, "verification");
    if (r->verified)
        infq_verify_report_json(r->verified, w);
    else
        infq_jw_null(w);
}

static void take_options(const options *o, const infq_plan_options *p, compress_command *c)
{
    c->dry_run = o->dry_run;
    c->force = o->force;
    c->no_verify = o->no_verify;
    c->json = o->json;
    c->quiet = o->quiet;
    c->calib = o->calib ? o->calib : o->effort > 0 || p->method->needs ? "self" : NULL;
    c->calib_tokens = o->calib_tokens;
    c->calib_window = o->window;
    c->seed = (uint64_t)o->seed;
}

int cmd_quantize(int argc, char **argv)
{
    options o = {.tp = 1, .effort = -1, .calib_tokens = 32768, .window = 512, .seed = 1, .damping = NAN, .sparsity = NAN};
    rule_list rules;
    infq_plan_options po;
    compress_command c = {.name = NAME, .schema = "infq.quantize.v1", .plan_text = plan_text, .plan_json = plan_json,
                          .report_text = report_text, .report_json = report_json};
    int n_args;
    bool done = false, passed = true;
    infq_err err;

    if (opt_parse(&cmd_quantize_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    infq_par_threads_set((int)o.threads);
    if (plan_options(&o, &rules, &po, &err))
        return cmd_fail(NAME, &err);
    take_options(&o, &po, &c);
    if (compress_run(&c, argv[0], &po, &passed, &err))
        return cmd_fail(NAME, &err);
    return passed ? 0 : 1;
}
