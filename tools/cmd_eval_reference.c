/* infeval reference: stores an original's next-token distributions on a text, so that compressed models are measured alone. */
#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/file.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "tools/cmd_eval.h"

#define NAME "infeval reference"

typedef struct {
    const char *text, *output, *backend;
    int64_t window, tokens, top, samples, seed, threads;
    bool force, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "text", 't', OPT_STR, "FILE", "plain, .gz, or JSON Lines with \"text\"", AT(text), 0, 0 },
    { "output", 'o', OPT_STR, "FILE", "what is written", AT(output), 0, 0 },
    { "window", 0, OPT_I64, "N", "tokens of a window, each with an empty context (512)", AT(window), 4, 1e7 },
    { "tokens", 0, OPT_I64, "N", "use the first N tokens (32768)", AT(tokens), 1, 1e12 },
    { "top", 0, OPT_I64, "K", "likeliest tokens kept of each position (128)", AT(top), 10, 4096 },
    { "samples", 0, OPT_I64, "S", "tokens sampled from the rest (16)", AT(samples), 1, 256 },
    { "seed", 0, OPT_I64, "N", "of the samples (1)", AT(seed), 0, 0 },
    { "force", 'f', OPT_FLAG, NULL, "replace an existing file", AT(force), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); the file does not depend on it", AT(threads), 1, 4096 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] --text FILE -o FILE MODEL", "Stores an original's next-token distributions on a text, for infeval --reference.",
    "Kept are the likeliest tokens, a seeded sample of the rest and what the rest sums to: some 900 bytes\n"
    "a token instead of 200,000. The divergence measured against it is an unbiased estimate between two\n"
    "bounds; perplexities and the share of equal top tokens are exact.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

static infq_status write_it(const options *o, const char *path, const infq_log *log, infq_err *err)
{
    infq_reference_options ro = infq_reference_options_default();
    infq_backend *be = NULL;
    infq_corpus *c = NULL;
    eval_model m = { 0 };
    infq_status st;

    INFQ_TRY(cmd_keep_input(o->output, o->text, err));
    INFQ_TRY(cmd_keep_input(o->output, path, err));
    ro.window = o->window;
    ro.max_tokens = o->tokens;
    ro.top = o->top;
    ro.samples = o->samples;
    ro.seed = (uint64_t)o->seed;
    ro.replace = o->force;
    ro.log = log;
    eval_model_name(path, ro.model, sizeof(ro.model));
    snprintf(ro.text, sizeof(ro.text), "%s", infq_path_base(o->text));
    INFQ_TRY(infq_corpus_open(o->text, INFQ_CORPUS_PLAIN, true, 0, &c, err));
    st = infq_backend_open(o->backend, &be, err);
    if (!st)
        st = eval_model_open(path, be, log, true, &m, err);
    if (!st) {
        memcpy(ro.model_digest, m.digest, sizeof(ro.model_digest));
        snprintf(ro.settings, sizeof(ro.settings), "infq=%s backend=%s cpu=%s", INFQ_VERSION, be->ops.name,
                 infq_cpu_level_name(infq_cpu_level_get()));
        st = infq_reference_write(o->output, m.model, m.tok, infq_corpus_get(c, 0)->text, infq_corpus_get(c, 0)->n, &ro, err);
    }
    eval_model_close(&m);
    infq_backend_close(be);
    infq_corpus_free(c);
    return st;
}

static infq_status tell(const options *o, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 0);
    infq_reference *r = NULL;
    const infq_reference_info *i;

    INFQ_TRY(infq_reference_open(o->output, &r, err));
    i = infq_reference_info_get(r);
    if (!o->json) {
        infq_buf_fmt(to, "%s: %s on %s, %lld windows of %lld tokens, the %lld likeliest of %lld and %lld of the rest\n", o->output, i->model,
                     i->text, (long long)i->n_windows, (long long)i->window, (long long)i->top, (long long)i->vocab, (long long)i->samples);
    } else {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "schema", INFQ_REFERENCE_SCHEMA);
        infq_jw_key_str(&w, "file", o->output);
        infq_jw_key_str(&w, "model", i->model);
        infq_jw_key_str(&w, "model_digest", i->model_digest);
        infq_jw_key_str(&w, "tokenizer", i->tokenizer);
        infq_jw_key_str(&w, "text", i->text);
        infq_jw_key_str(&w, "ids_digest", i->ids_digest);
        infq_jw_key_i64(&w, "window", i->window);
        infq_jw_key_i64(&w, "windows", i->n_windows);
        infq_jw_key_i64(&w, "top", i->top);
        infq_jw_key_i64(&w, "samples", i->samples);
        infq_jw_end_obj(&w);
        infq_buf_char(to, '\n');
    }
    infq_reference_close(r);
    return infq_buf_status(to, err);
}

int cmd_eval_reference(int argc, char **argv)
{
    infq_reference_options d = infq_reference_options_default();
    options o = { .backend = "auto", .top = d.top, .samples = d.samples, .seed = (int64_t)d.seed };
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
    if (!o.text || !o.output) {
        infq_err_set(&err, INFQ_E_USAGE, "--text FILE and -o FILE are wanted");
        return cmd_fail(NAME, &err);
    }
    infq_par_threads_set((int)o.threads);
    infq_buf_init(&doc);
    log = cmd_log(&sink, NAME, o.quiet);
    st = write_it(&o, argv[0], &log, &err);
    cmd_log_end(&sink);
    if (!st)
        st = tell(&o, &doc, &err);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(NAME, &err) : 0;
}
