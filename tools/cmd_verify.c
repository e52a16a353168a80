#include <stdio.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/compress/verify.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define NAME "infq verify"

typedef struct {
    const char *source, *engine;
    int64_t tp, threads;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "source", 0, OPT_STR, "MODEL", "the model that OUT was made from; by default the one that infq.json names,\n"
      "if it is still there, otherwise only the file itself is checked", AT(source), 0, 0 },
    { "for", 0, OPT_STR, "ENGINE", "also check the loader rules of this engine: vllm", AT(engine), 0, 0 },
    { "tp", 0, OPT_I64, "N", "devices that --for splits the model over (1)", AT(tp), 1, 1024 },
    { "tp", 0, OPT_NEED, "for", NULL, 0, 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all)", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "the report as one JSON object", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_verify_spec = {
    NAME, "[options] OUT", "Decodes a quantized or pruned model with the reference decoder and compares it with its source.",
    "Checked: configuration, code ranges, scales, values that are not finite, the relative error of every\n"
    "matrix (at most 0.1 for 8 bits, 0.4 below), scales that engines share, other tensors and side files\n"
    "byte for byte, missing and superfluous tensors; of pruned matrices the zeros that infq.json tells of, the\n"
    "pattern, and that kept weights are the source's unless the method changes them. Exit code: 0 all passed, 1 something failed.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

static void report_text(const char *path, const infq_verify_report *r, infq_buf *to)
{
    char what[80];

    bool dense = r->n_rows && r->rows[0].codec.scale == INFQ_ELEM_NONE;

    infq_buf_fmt(to, "%s: %zu %s matrices", path, r->n_rows, dense ? "pruned" : "quantized");
    if (r->n_rows)
        infq_buf_fmt(to, " (%s)", infq_codec_describe(&r->rows[0].codec, what, sizeof(what)));
    if (r->n_pruned)
        infq_buf_fmt(to, ", %.4f %% zeros in %zu of them", 100.0 * (double)r->zeros / (double)r->pruned_weights, r->n_pruned);
    if (r->with_source)
        infq_buf_fmt(to, "\ncompared with %s: largest relative error %.4f, %zu tensors and %zu side files equal\n", r->source,
                     r->worst, r->n_copied, r->n_side);
    else
        infq_buf_str(to, "\nno source to compare with: only the files themselves were checked\n");
    for (size_t i = 0; i < r->findings.n; i++)
        infq_buf_fmt(to, "%s %s\n", r->findings.v[i].fail ? "FAIL" : "warn", r->findings.v[i].text);
    infq_buf_fmt(to, "result: %s\n", r->findings.n_fail ? "FAIL" : "pass");
}

static void report_json(const char *path, const infq_verify_report *r, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);
    char what[80];

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.verify.v1");
    infq_jw_key_str(&w, "model", path);
    infq_jw_key(&w, "source");
    if (r->with_source)
        infq_jw_str(&w, r->source);
    else
        infq_jw_null(&w);
    infq_jw_key(&w, "result");
    infq_verify_report_json(r, &w);
    infq_jw_key(&w, "matrices");
    infq_jw_arr(&w);
    for (size_t i = 0; i < r->n_rows; i++) {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "module", r->rows[i].name);
        infq_jw_key_str(&w, "codec", infq_codec_describe(&r->rows[i].codec, what, sizeof(what)));
        infq_jw_key_f64(&w, "relative_error", r->rows[i].relative_error);
        if (r->rows[i].pruned)
            infq_jw_key_i64(&w, "zeros", r->rows[i].zeros);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}

static infq_status run(const options *o, const char *path, cmd_sink *sink, bool *passed, infq_err *err)
{
    infq_log log = cmd_log(sink, NAME, o->quiet);
    infq_verify_options vo = {.source = o->source, .engine = o->engine, .tp = o->tp};
    infq_verify_report *r = NULL;
    infq_buf text;
    infq_status st = infq_verify_run(path, &vo, &log, &r, err);

    cmd_log_end(sink);
    if (st)
        return st;
    infq_buf_init(&text);
    if (o->json)
        report_json(path, r, &text);
    else
        report_text(path, r, &text);
    st = cmd_print(&text, err);
    infq_buf_deinit(&text);
    *passed = r->findings.n_fail == 0;
    infq_verify_report_free(r);
    return st;
}

int cmd_verify(int argc, char **argv)
{
    options o = {.tp = 1};
    cmd_sink sink;
    int n_args;
    bool done = false, passed = true;
    infq_err err;

    if (opt_parse(&cmd_verify_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    infq_par_threads_set((int)o.threads);
    if (run(&o, argv[0], &sink, &passed, &err))
        return cmd_fail(NAME, &err);
    return passed ? 0 : 1;
}
