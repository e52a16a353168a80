/* infeval diagnose: where a compressed model loses, layer by layer or matrix by matrix, and what exceptions would cost. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/eval/diagnose.h"
#include "tools/cmd_eval.h"
#include "tools/eval_eight.h"

#define NAME "infeval diagnose"
#define SHOWN 20    /* units in the table without --all */
#define OUTLIERS 10 /* channels told */

typedef struct {
    const char *text, *by, *backend, *eight;
    int64_t window, tokens, threads, exceptions;
    double goal;
    bool all, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "text", 't', OPT_STR, "FILE", "plain, .gz, or JSON Lines with \"text\"", AT(text), 0, 0 },
    { "by", 0, OPT_STR, "UNIT", "what is replaced at a time: layer, module (layer)", AT(by), 0, 0 },
    { "tokens", 0, OPT_I64, "N", "use the first N tokens (1024)", AT(tokens), 1, 1e12 },
    { "window", 0, OPT_I64, "N", "tokens of a window, each with an empty context (256)", AT(window), 4, 1e7 },
    { "goal", 0, OPT_F64, "X", "suggest exceptions until the expected divergence is X of the present one (0.5)", AT(goal), 0, 1 },
    { "exceptions", 0, OPT_I64, "N", "suggest N at most (16)", AT(exceptions), 0, 10000 },
    { "eight", 0, OPT_STR, "FOLDER", "8-bit version of ORIGINAL that 8-bit prices come from (made in TMPDIR, removed)", AT(eight), 0, 0 },
    { "all", 'a', OPT_FLAG, NULL, "show every unit, in the model's order, not the 20 worst", AT(all), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); results do not depend on it", AT(threads), 1, 4096 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] --text FILE ORIGINAL COMPRESSED", "Shows where a compressed model loses, and what exceptions would cost.",
    "One layer of the original at a time is replaced by its compressed version, and the KL divergence\n"
    "from the original measured. Then the exceptions that buy most for their bits are suggested, with\n"
    "their price at 8 bits and as in the original, and measured together.",
    rows, sizeof(rows) / sizeof(rows[0]), 2, 2,
};

typedef struct {
    const options *o;
    const infq_diagnose_result *r;
    const infq_model *m;
    const char *type;       /* of exceptions at 8 bits, as infq quantize --type takes it; "": none */
    char names[2][128];
} report;

static void percent(double v, const char *form, char out[16])
{
    snprintf(out, 16, isfinite(v) ? form : "-", 100 * v);
}

static void unit_text(const infq_diagnose_unit *u, infq_buf *to)
{
    char output[16], clipped[16];

    percent(u->output_error, "%.3f %%", output);
    percent(u->clipped, "%.4f %%", clipped);
    infq_buf_fmt(to, "%-36.36s %10.6f %10.6f %6.1f %% %8.2f %% %10s %8.2f %% %11s %6.2f\n", u->name, u->kld, u->kld_se, 100 * u->share, 100 * u->same_top,
                 output, 100 * u->weight_error, clipped, u->bits_q / (double)u->params);
}

static void order_units(const report *x, int64_t *order)
{
    const infq_diagnose_unit *u = x->r->units;

    for (int64_t i = 0; i < x->r->n_units; i++) {
        int64_t at = i;
        order[i] = i;
        for (; !x->o->all && at > 0 && u[order[at]].kld > u[order[at - 1]].kld; at--) {
            int64_t t = order[at];
            order[at] = order[at - 1];
            order[at - 1] = t;
        }
    }
}

/* An outlier and what it weighs: its share of the matrix's error times the unit's divergence. */
typedef struct {
    infq_diagnose_channel c;
    infq_model_part part;
    double weight;
} outlier;

/* q, k and v (gate and up) read one input: the channel is told once. */
static bool told(const outlier *list, int n, const outlier *x)
{
    for (int i = 0; i < n; i++)
        if (list[i].part.layer == x->part.layer && list[i].c.channel == x->c.channel &&
            infq_site_of(infq_role_of(list[i].part.module)) == infq_site_of(infq_role_of(x->part.module)))
            return true;
    return false;
}

static void outliers_text(const report *x, infq_buf *to)
{
    outlier best[OUTLIERS], *at;
    int n = 0;

    for (int found = 1; found && n < OUTLIERS; n += found) {
        at = &best[n];
        found = 0;
        for (int64_t i = 0; i < x->r->n_units; i++)
            for (int k = 0; k < x->r->units[i].n_channels; k++) {
                const infq_diagnose_unit *u = &x->r->units[i];
                outlier o = { u->channels[k], infq_model_part_get(x->m, u->channels[k].part), u->channels[k].share * u->kld };
                if (o.c.share < 0.01 || (found && o.weight <= at->weight) || told(best, n, &o))
                    continue;
                *at = o;
                found = 1;
            }
    }
    if (n > 0)
        infq_buf_fmt(to, "\noutlier channels (inputs of at least %.0f times the median channel), by their share of the damage:\n", INFQ_DIAGNOSE_OUTLIER);
    for (int i = 0; i < n; i++)
        infq_buf_fmt(to, "  %s, channel %lld: %.0f x the median, %.1f %% of the matrix's output error\n", best[i].part.module,
                     (long long)best[i].c.channel, best[i].c.size, 100 * best[i].c.share);
}

/* The exceptions as infq quantize takes them: --ignore 're:model\\.layers\\.3\\..*' --ignore model.layers.0.mlp.down_proj, or with a type for
 * those that have a price there, --type 're:model\\.layers\\.3\\..*=W8A16:64'. */
static void options_text(const report *x, const char *type, infq_buf *to)
{
    for (int64_t i = 0; i < x->r->n_exceptions; i++) {
        const infq_diagnose_exception *e = &x->r->exceptions[i];
        if (type && isnan(e->bits_eight))
            continue;
        for (int k = 0; k < e->n_units; k++) {
            const infq_diagnose_unit *u = &x->r->units[e->unit[k]];
            infq_buf_fmt(to, " %s %s", type ? "--type" : "--ignore", u->block ? "'re:" : "");
            for (const char *c = u->name; *c; c++) {
                if (u->block && *c == '.')
                    infq_buf_char(to, '\\');
                infq_buf_char(to, *c);
            }
            infq_buf_str(to, u->block ? "\\..*" : "");
            if (type)
                infq_buf_fmt(to, "=%s", type);
            infq_buf_str(to, u->block ? "'" : "");
        }
    }
}

static void exception_name(const report *x, const infq_diagnose_exception *e, char out[256])
{
    snprintf(out, 256, "%s%s", x->r->units[e->unit[0]].name, e->n_units > 1 ? " and fused" : "");
}

/* One table a price: what it costs, what the model then has, what it gains, alone and for a bit. */
static void prices_text(const report *x, bool eight, infq_buf *to)
{
    const infq_diagnose_result *r = x->r;
    double bits = r->bits_q / (double)r->params;

    infq_buf_fmt(to, "%-44s %12s %12s %12s %12s %12s\n", eight ? "at 8 bits" : "as in the original", "price (bits)", "then (bits)", "gain", "gain a bit",
                 "expected");
    for (int64_t i = 0; i < r->n_exceptions; i++) {
        const infq_diagnose_exception *e = &r->exceptions[i];
        double price = eight ? e->bits_eight : e->bits, gain = eight ? e->kld - e->kld_eight : e->kld;
        char name[256];
        if (isnan(price))
            continue;
        exception_name(x, e, name);
        bits += price;
        infq_buf_fmt(to, "%-44.44s %+12.4f %12.3f %12.6f %12.4g %12.6f\n", name, price, bits, gain, gain / price, eight ? e->expected_eight : e->expected);
    }
    infq_buf_fmt(to, "measured with all of them: KL divergence %.6f (%.6f), same top token %.2f %%\n", eight ? r->kld_eight : r->kld_kept,
                 eight ? r->kld_eight_se : r->kld_kept_se, 100 * (eight ? r->same_top_eight : r->same_top_kept));
    infq_buf_str(to, "infq quantize");
    options_text(x, eight ? x->type : NULL, to);
    infq_buf_char(to, '\n');
}

static bool has_eight(const infq_diagnose_result *r)
{
    for (int64_t i = 0; i < r->n_exceptions; i++)
        if (!isnan(r->exceptions[i].bits_eight))
            return true;
    return false;
}

static void exceptions_text(const report *x, infq_buf *to)
{
    const infq_diagnose_result *r = x->r;

    if (r->n_exceptions == 0)
        return;
    infq_buf_fmt(to, "\nsuggested exceptions, best for their bits first; now %.3f bits a weight. Gain: divergence of the unit alone that goes away\n",
                 r->bits_q / (double)r->params);
    if (has_eight(r)) {
        prices_text(x, true, to);
        infq_buf_char(to, '\n');
    }
    prices_text(x, false, to);
}

static infq_status tell_text(const report *x, infq_buf *to, infq_err *err)
{
    const infq_diagnose_result *r = x->r;
    int64_t *order = NULL, n = x->o->all || r->n_units < SHOWN ? r->n_units : SHOWN;

    INFQ_TRY(infq_mem_new((size_t)r->n_units, sizeof(*order), "order of units", (void **)&order, err));
    order_units(x, order);
    infq_buf_fmt(to, "%s against %s: %lld windows of %lld tokens\n", x->names[1], x->names[0], (long long)r->n_windows, (long long)r->window);
    infq_buf_fmt(to, "everything replaced: KL divergence %.6f (%.6f), same top token %.2f %%\n", r->kld, r->kld_se, 100 * r->same_top);
    infq_buf_fmt(to, "one %s at a time: %lld of them changed, the sum of their divergences is %.6f, %.2f of the whole\n\n", x->o->by,
                 (long long)r->n_units, r->kld_sum, r->kld_sum / r->kld);
    infq_buf_fmt(to, "%-36s %10s %10s %8s %10s %10s %10s %11s %6s\n", "replaced", "divergence", "(error)", "share", "same top", "output", "weights",
                 "clipped", "bits");
    for (int64_t i = 0; i < n; i++)
        unit_text(&r->units[order[i]], to);
    if (n < r->n_units)
        infq_buf_fmt(to, "... and %lld more (--all)\n", (long long)(r->n_units - n));
    outliers_text(x, to);
    exceptions_text(x, to);
    infq_mem_free(order);
    return infq_buf_status(to, err);
}

static void unit_json(const report *x, const infq_diagnose_unit *u, infq_jw *w)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "name", u->name);
    infq_jw_key_i64(w, "layer", u->layer);
    infq_jw_key_i64(w, "parts", u->n_parts);
    infq_jw_key_i64(w, "params", u->params);
    infq_jw_key_f64(w, "bits_original", u->bits_p);
    infq_jw_key_f64(w, "bits_compressed", u->bits_q);
    infq_jw_key_f64(w, "kld", u->kld);
    infq_jw_key_f64(w, "kld_stderr", u->kld_se);
    infq_jw_key_f64(w, "share", u->share);
    infq_jw_key_f64(w, "same_top", u->same_top);
    infq_jw_key_f64(w, "output_error", u->output_error);
    infq_jw_key_f64(w, "weight_error", u->weight_error);
    infq_jw_key_f64(w, "clipped", u->clipped);
    infq_jw_key_f64(w, "input_clipped", u->input_clipped);
    infq_jw_key(w, "outliers");
    infq_jw_arr(w);
    for (int k = 0; k < u->n_channels; k++) {
        infq_model_part p = infq_model_part_get(x->m, u->channels[k].part);
        infq_jw_obj(w);
        infq_jw_key_str(w, "module", p.module);
        infq_jw_key_i64(w, "channel", u->channels[k].channel);
        infq_jw_key_f64(w, "size", u->channels[k].size);
        infq_jw_key_f64(w, "share", u->channels[k].share);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
}

/* The options of infq quantize as one string. */
static infq_status put_options(const report *x, const char *key, const char *type, infq_jw *w, infq_err *err)
{
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    options_text(x, type, &text);
    infq_jw_key(w, key);
    infq_jw_strn(w, text.n > 0 ? text.data + 1 : "", text.n > 0 ? text.n - 1 : 0);
    st = infq_buf_status(&text, err);
    infq_buf_deinit(&text);
    return st;
}

static infq_status exceptions_json(const report *x, infq_jw *w, infq_err *err)
{
    const infq_diagnose_result *r = x->r;

    infq_jw_key(w, "exceptions");
    infq_jw_arr(w);
    for (int64_t i = 0; i < r->n_exceptions; i++) {
        const infq_diagnose_exception *e = &r->exceptions[i];
        infq_jw_obj(w);
        infq_jw_key(w, "units");
        infq_jw_arr(w);
        for (int k = 0; k < e->n_units; k++)
            infq_jw_str(w, r->units[e->unit[k]].name);
        infq_jw_end_arr(w);
        infq_jw_key_f64(w, "bits_per_weight", e->bits);
        infq_jw_key_f64(w, "share", e->share);
        infq_jw_key_f64(w, "gain", e->kld);
        infq_jw_key_f64(w, "gain_a_bit", e->kld / e->bits);
        infq_jw_key_f64(w, "expected_kld", e->expected);
        infq_jw_key(w, "at_8_bits");
        infq_jw_obj(w);
        infq_jw_key_f64(w, "bits_per_weight", e->bits_eight);
        infq_jw_key_f64(w, "gain", e->kld - e->kld_eight);
        infq_jw_key_f64(w, "gain_a_bit", (e->kld - e->kld_eight) / e->bits_eight);
        infq_jw_key_f64(w, "expected_kld", e->expected_eight);
        infq_jw_end_obj(w);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_key(w, "with_exceptions");
    infq_jw_obj(w);
    infq_jw_key_f64(w, "kld", r->kld_kept);
    infq_jw_key_f64(w, "kld_stderr", r->kld_kept_se);
    infq_jw_key_f64(w, "same_top", r->same_top_kept);
    infq_jw_end_obj(w);
    infq_jw_key(w, "with_exceptions_at_8_bits");
    infq_jw_obj(w);
    infq_jw_key_f64(w, "kld", r->kld_eight);
    infq_jw_key_f64(w, "kld_stderr", r->kld_eight_se);
    infq_jw_key_f64(w, "same_top", r->same_top_eight);
    infq_jw_end_obj(w);
    INFQ_TRY(put_options(x, "options_original", NULL, w, err));
    return has_eight(r) ? put_options(x, "options_8_bits", x->type, w, err) : 0;
}

static infq_status tell_json(const report *x, infq_buf *to, infq_err *err)
{
    const infq_diagnose_result *r = x->r;
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.diagnose.v1");
    infq_jw_key_str(&w, "version", INFQ_VERSION);
    infq_jw_key_str(&w, "original", x->names[0]);
    infq_jw_key_str(&w, "compressed", x->names[1]);
    infq_jw_key_str(&w, "by", x->o->by);
    infq_jw_key_i64(&w, "window", r->window);
    infq_jw_key_i64(&w, "windows", r->n_windows);
    infq_jw_key_i64(&w, "params", r->params);
    infq_jw_key_f64(&w, "bits_original", r->bits_p);
    infq_jw_key_f64(&w, "bits_compressed", r->bits_q);
    infq_jw_key_f64(&w, "kld", r->kld);
    infq_jw_key_f64(&w, "kld_stderr", r->kld_se);
    infq_jw_key_f64(&w, "same_top", r->same_top);
    infq_jw_key_f64(&w, "kld_sum", r->kld_sum);
    infq_jw_key(&w, "units");
    infq_jw_arr(&w);
    for (int64_t i = 0; i < r->n_units; i++)
        unit_json(x, &r->units[i], &w);
    infq_jw_end_arr(&w);
    INFQ_TRY(exceptions_json(x, &w, err));
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}

static infq_status run(const options *o, char **paths, const infq_log *log, infq_buf *doc, infq_err *err)
{
    infq_diagnose_options d = infq_diagnose_options_default();
    infq_diagnose_result r = { .n_units = 0 };
    report x = { .o = o, .r = &r };
    infq_backend *be = NULL;
    infq_corpus *c = NULL;
    eval_model m[2] = { { 0 }, { 0 } };
    eval_eight eight = { .type = "" };
    infq_status st;

    d.by_module = strcmp(o->by, "module") == 0;
    d.window = o->window;
    d.max_tokens = o->tokens;
    d.goal = o->goal;
    d.max_exceptions = o->exceptions;
    d.log = log;
    INFQ_TRY(infq_corpus_open(o->text, INFQ_CORPUS_PLAIN, true, 0, &c, err));
    st = infq_backend_open(o->backend, &be, err);
    for (int k = 0; k < 2 && !st; k++) {
        eval_model_name(paths[k], x.names[k], sizeof(x.names[k]));
        st = eval_model_open(paths[k], be, log, false, &m[k], err);
    }
    if (!st && strcmp(infq_tokenizer_digest(m[0].tok), infq_tokenizer_digest(m[1].tok)) != 0)
        st = infq_err_set(err, INFQ_E_MISMATCH, "not comparable: tokenizer.json of %s is not that of %s", paths[1], paths[0]);
    if (!st && o->exceptions > 0)
        st = eval_eight_open(o->eight, paths[0], &m[1], be, log, &eight, err);
    d.eight = eight.m.model;
    d.ck_eight = eight.m.ck;
    x.type = eight.type;
    if (!st)
        st = infq_diagnose_run(m[0].model, m[1].model, m[0].ck, m[1].ck, m[0].tok, infq_corpus_get(c, 0)->text, infq_corpus_get(c, 0)->n, &d, &r, err);
    x.m = m[0].model;
    if (!st)
        st = o->json ? tell_json(&x, doc, err) : tell_text(&x, doc, err);
    infq_diagnose_result_free(&r);
    eval_eight_close(&eight);
    eval_model_close(&m[0]);
    eval_model_close(&m[1]);
    infq_backend_close(be);
    infq_corpus_free(c);
    return st;
}

int cmd_eval_diagnose(int argc, char **argv)
{
    infq_diagnose_options d = infq_diagnose_options_default();
    options o = { .by = "layer", .backend = "auto", .window = d.window, .tokens = d.max_tokens, .goal = d.goal, .exceptions = d.max_exceptions };
    infq_buf doc;
    cmd_sink sink;
    infq_log log;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    if (!o.text || (strcmp(o.by, "layer") != 0 && strcmp(o.by, "module") != 0)) {
        infq_err_set(&err, INFQ_E_USAGE, o.text ? "--by %.40s: layer or module is wanted" : "--text FILE is wanted", o.by);
        return cmd_fail(NAME, &err);
    }
    infq_par_threads_set((int)o.threads);
    infq_buf_init(&doc);
    log = cmd_log(&sink, NAME, o.quiet);
    st = run(&o, argv, &log, &doc, &err);
    cmd_log_end(&sink);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(NAME, &err) : 0;
}
