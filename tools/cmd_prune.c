#include <math.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/base/str.h"
#include "tools/cmd.h"
#include "tools/commands.h"
#include "tools/compress_run.h"

#define NAME "infq prune"

typedef struct {
    int64_t threads, tp, calib_tokens, window, seed;
    double sparsity, damping;
    const char *pattern, *method, *compare, *out, *engine, *calib;
    opt_list ignore;
    uint64_t mem_limit, shard_bytes;
    bool force, dry_run, force_pruned, no_verify, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "sparsity", 's', OPT_F64, "X", "share of the weights that become zero, between 0 and 1", AT(sparsity), 0, 0 },
    { "pattern", 0, OPT_STR, "N:M", "at most N values other than zero in each M consecutive columns (2:4)", AT(pattern), 0, 0 },
    { "method", 'm', OPT_STR, "NAME", "wanda: smallest magnitude times norm of the input channel (default)\n"
      "sparsegpt: kept weights take up the errors of those removed\n"
      "magnitude: smallest magnitude, no data", AT(method), 0, 0 },
    { "compare", 0, OPT_STR, "WHAT", "weights that are compared with each other: row (default) or layer, the\n"
      "whole matrix", AT(compare), 0, 0 },
    { "calib", 0, OPT_STR, "DATA", "text that statistics come from (plain, .gz, JSON Lines with \"text\"),\n"
      "or self: the model writes it (self)", AT(calib), 0, 0 },
    { "calib-tokens", 0, OPT_I64, "N", "tokens of it (32768)", AT(calib_tokens), 2, 1 << 30 },
    { "calib-window", 0, OPT_I64, "N", "tokens of a window (512)", AT(window), 2, 1 << 20 },
    { "damping", 0, OPT_F64, "X", "sparsegpt: added to second moments, a fraction of their mean diagonal (0.01)", AT(damping), 1e-6, 1 },
    { "seed", 0, OPT_I64, "N", "of self-written calibration data (1)", AT(seed), 0, 0 },
    { "ignore", 0, OPT_LIST, "PATTERN", "modules that stay as they are; may be repeated", AT(ignore), 0, 0 },
    { "force-pruned", 0, OPT_FLAG, NULL, "go on although the model is full of zeros already", AT(force_pruned), 0, 0 },
    { "output", 'o', OPT_STR, "OUT", "name of the result; MODEL-SPARSE-50 beside the input by default", AT(out), 0, 0 },
    { "force", 'f', OPT_FLAG, NULL, "replace OUT if it is there", AT(force), 0, 0 },
    { "dry-run", 'n', OPT_FLAG, NULL, "print the plan, write nothing", AT(dry_run), 0, 0 },
    { "for", 0, OPT_STR, "ENGINE", "refuse what this engine does not load: vllm", AT(engine), 0, 0 },
    { "tp", 0, OPT_I64, "N", "devices that --for splits the model over (1)", AT(tp), 1, 1024 },
    { "mem-limit", 0, OPT_SIZE, "SIZE", "stay below this much resident memory, or refuse (exit code 5)", AT(mem_limit), 0, 0 },
    { "shard-size", 0, OPT_SIZE, "SIZE", "tensor bytes of a shard at most (5GB)", AT(shard_bytes), 0, 0 },
    { "no-verify", 0, OPT_FLAG, NULL, "publish without comparing first", AT(no_verify), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); the result does not depend on it", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "plan or report as one JSON object", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error, no plan", AT(quiet), 0, 0 },
    { "tp", 0, OPT_NEED, "for", NULL, 0, 0, 0 },
};
const opt_spec cmd_prune_spec = {
    NAME, "[options] MODEL", "Sets the weights of a model's linear layers to zero where they matter least.",
    "MODEL is a model folder or, with method magnitude, a .safetensors file. Embeddings, lm_head, routers, norms\n"
    "and biases stay as they are. Weights keep their type and the file its size: less memory comes with\n"
    "infq quantize --method gptq --sparsity, which prunes and quantizes in one pass. The result appears under\n"
    "its name only when it is complete and verified; a killed run goes on where it stopped.\n"
    "Exit code: 0 done, 1 verification failed, 2 wrong usage, 3 input not usable, 4 disk, 5 memory.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

static infq_status method_options(const options *o, infq_plan_options *p, infq_err *err)
{
    if (o->method && !(p->method = infq_prune_method_find(o->method)))
        return infq_err_set(err, INFQ_E_USAGE, "unknown method %s (see %s --help)", o->method, NAME);
    if (!p->method->needs && (o->calib || o->calib_tokens || o->window || o->seed >= 0))
        return infq_err_set(err, INFQ_E_USAGE, "method %s uses no data, so --calib and what goes with it would do nothing", p->method->name);
    if (o->compare && strcmp(o->compare, "row") && strcmp(o->compare, "layer"))
        return infq_err_set(err, INFQ_E_USAGE, "--compare %s: row or layer is wanted", o->compare);
    if (o->compare && o->pattern)
        return infq_err_set(err, INFQ_E_USAGE, "--compare and --pattern exclude each other: a pattern compares each M columns");
    p->sparsity.whole = o->compare && strcmp(o->compare, "layer") == 0;
    if (p->sparsity.whole && (p->method->needs & INFQ_NEEDS_MOMENT))
        return infq_err_set(err, INFQ_E_USAGE, "--compare layer does not go with method %s, which decides 128 columns of a row at a time",
                            p->method->name);
    if (!isnan(o->damping) && !(p->method->needs & INFQ_NEEDS_MOMENT))
        return infq_err_set(err, INFQ_E_USAGE, "method %s has no damping", p->method->name);
    if (!isnan(o->damping))
        p->damping = o->damping;
    return INFQ_E_OK;
}

static infq_status plan_options(const options *o, infq_plan_options *p, infq_err *err)
{
    *p = infq_plan_options_prune();
    INFQ_TRY(infq_sparsity_make(o->sparsity, o->pattern, &p->sparsity, err));
    if (p->sparsity.fraction == 0.0)
        return infq_err_set(err, INFQ_E_USAGE, "--sparsity X or --pattern N:M is needed");
    INFQ_TRY(method_options(o, p, err));
    p->ignore = o->ignore.v;
    p->n_ignore = (size_t)o->ignore.n;
    p->force_pruned = o->force_pruned;
    p->out = o->out;
    p->mem_limit = o->mem_limit;
    p->shard_bytes = o->shard_bytes;
    p->engine = o->engine;
    p->tp = o->tp;
    return INFQ_E_OK;
}

static void take_options(const options *o, const infq_plan_options *p, compress_command *c)
{
    c->dry_run = o->dry_run;
    c->force = o->force;
    c->no_verify = o->no_verify;
    c->json = o->json;
    c->quiet = o->quiet;
    c->calib = !p->method->needs ? NULL : o->calib ? o->calib : "self";
    c->calib_tokens = o->calib_tokens ? o->calib_tokens : 32768;
    c->calib_window = o->window ? o->window : 512;
    c->seed = o->seed >= 0 ? (uint64_t)o->seed : 1;
}

static void plan_text(const infq_plan *p, infq_buf *to)
{
    char what[64];

    infq_buf_fmt(to, "plan: %s -> %s\n", infq_checkpoint_path(p->ck), p->out);
    infq_buf_fmt(to, "  %zu matrices to %s, method %s; %zu tensors copied%s\n", p->n_quantized,
                 infq_sparsity_describe(&p->o.sparsity, what, sizeof(what)), p->o.method->name, p->n_copied,
                 p->n_tied ? "; lm_head equals the embedding it is tied to and is stored once" : "");
    for (size_t i = 0; i < p->o.n_ignore; i++)
        infq_buf_fmt(to, "  --ignore %s: matches %lld modules\n", p->o.ignore[i], (long long)p->ignore_hits[i]);
    compress_needs_text(p, to);
}

static void plan_json(const infq_plan *p, infq_jw *w)
{
    infq_jw_key(w, "plan");
    infq_jw_obj(w);
    infq_jw_key(w, "sparsity");
    infq_sparsity_json(&p->o.sparsity, infq_plan_updates(p), w);
    infq_jw_key_str(w, "method", p->o.method->name);
    infq_jw_key_i64(w, "tensors_pruned", (int64_t)p->n_quantized);
    infq_jw_key_i64(w, "tensors_copied", (int64_t)p->n_copied);
    infq_jw_key_i64(w, "tensors_tied", (int64_t)p->n_tied);
    infq_jw_key_i64(w, "weights", p->weights);
    infq_jw_key_i64(w, "weights_pruned", p->weights_quantized);
    infq_jw_key_i64(w, "file_bytes_out", (int64_t)p->bytes_out);
    compress_needs_json(p, w);
    infq_jw_end_obj(w);
}

static void report_text(const infq_plan *p, const infq_quantize_result *r, infq_buf *to)
{
    const infq_verify_report *v = r->verified;
    char a[32], what[64];

    infq_buf_fmt(to, "%s %s\n", r->published ? "wrote" : "not published:", p->out);
    infq_buf_fmt(to, "  asked %s, achieved %.4f %% zeros in %zu matrices, %.2f %% of all weights\n",
                 infq_sparsity_describe(&p->o.sparsity, what, sizeof(what)), 100.0 * (double)r->zeros / (double)p->weights_quantized, p->n_quantized,
                 100.0 * (double)r->zeros / (double)p->weights);
    infq_buf_fmt(to, "  %.1f s, verification %.1f s, peak memory %s\n", r->seconds, r->seconds_verify,
                 infq_format_bytes((double)infq_mem_rss_peak(), a, sizeof(a)));
    if (r->n_resumed)
        infq_buf_fmt(to, "  %zu tensors taken over from an interrupted run\n", r->n_resumed);
    if (!v)
        return;
    infq_buf_fmt(to, "verified: %s, %zu matrices with their zeros, kept values %s, %zu tensors and %zu side files equal\n",
                 v->findings.n_fail ? "FAIL" : "pass", v->n_pruned, infq_plan_updates(p) ? "updated as declared" : "equal", v->n_copied, v->n_side);
    for (size_t i = 0; i < v->findings.n; i++)
        if (v->findings.v[i].fail)
            infq_buf_fmt(to, "  FAIL %s\n", v->findings.v[i].text);
}

static void report_json(const infq_plan *p, const infq_quantize_result *r, infq_jw *w)
{
    infq_jw_key_bool(w, "published", r->published);
    infq_jw_key_i64(w, "bytes_written", (int64_t)r->bytes_written);
    infq_jw_key_i64(w, "zeros", r->zeros);
    infq_jw_key_f64(w, "sparsity", (double)r->zeros / (double)p->weights_quantized);
    infq_jw_key_f64(w, "seconds", r->seconds);
    infq_jw_key_f64(w, "seconds_verify", r->seconds_verify);
    infq_jw_key_i64(w, "peak_memory_bytes", (int64_t)infq_mem_rss_peak());
    infq_jw_key_i64(w, "tensors_resumed", (int64_t)r->n_resumed);
    infq_jw_key(w, "verification");
    if (r->verified)
        infq_verify_report_json(r->verified, w);
    else
        infq_jw_null(w);
}

int cmd_prune(int argc, char **argv)
{
    options o = {.sparsity = NAN, .tp = 1, .seed = -1, .damping = NAN};
    infq_plan_options po;
    compress_command c = {.name = NAME, .schema = "infq.prune.v1", .plan_text = plan_text, .plan_json = plan_json,
                          .report_text = report_text, .report_json = report_json};
    int n_args;
    bool done = false, passed = true;
    infq_err err;

    if (opt_parse(&cmd_prune_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    infq_par_threads_set((int)o.threads);
    if (plan_options(&o, &po, &err))
        return cmd_fail(NAME, &err);
    take_options(&o, &po, &c);
    if (compress_run(&c, argv[0], &po, &passed, &err))
        return cmd_fail(NAME, &err);
    return passed ? 0 : 1;
}
