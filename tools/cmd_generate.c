#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/io/tokenizer.h"
#include "lib/model/model.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define NAME "infq generate"

typedef struct {
    const char *prompt, *backend;
    int64_t max_tokens, top_k, seed, threads;
    double temperature, top_p;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "prompt", 'p', OPT_STR, "TEXT", "text to go on from (empty: from BOS)", AT(prompt), 0, 0 },
    { "max-tokens", 'n', OPT_I64, "N", "tokens to generate at most (64)", AT(max_tokens), 1, 1e6 },
    { "temperature", 0, OPT_F64, "X", "0 takes the likeliest token, 1 samples as the model says (0)", AT(temperature), 0, 100 },
    { "top-k", 0, OPT_I64, "N", "sample from the N likeliest tokens (0: all)", AT(top_k), 0, 1e6 },
    { "top-p", 0, OPT_F64, "X", "sample from the likeliest tokens that sum to X (1: all)", AT(top_p), 1e-6, 1 },
    { "seed", 0, OPT_I64, "N", "of the sampling (1)", AT(seed), 0, 9e15 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all)", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object instead of the text", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] MODEL", "Writes text with a model, to look at it.",
    "The text follows the prompt on standard output as it is made; it ends at an end-of-sequence token or after\n"
    "--max-tokens. Special tokens written out in the prompt count as such.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

typedef struct {
    infq_checkpoint *ck;
    infq_backend *be;
    infq_model *m;
    infq_tokenizer *tok;
    infq_seq *seq;
    float *hidden, *logits;
    infq_ids prompt, out;
    infq_buf text;        // decoded so far
    size_t n_shown;       // bytes of it that are on standard output
    int64_t ttft_ns, total_ns;
    const char *stopped;  // "eos" or "length"
} session;

static bool is_eos(const infq_config *c, int32_t id)
{
    for (int i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id)
            return true;
    return false;
}

// Bytes of text that end with a whole character: the last one may still lack bytes.
static size_t whole_characters(const infq_buf *t)
{
    size_t n = t->n, from;

    // A replacement character at the end stands for bytes that the next token may complete.
    if (n >= 3 && memcmp(t->data + n - 3, "\xef\xbf\xbd", 3) == 0)
        return n - 3;
    for (from = n; from > 0 && n - from < 4; from--)
        if (((unsigned char)t->data[from - 1] & 0xc0) != 0x80)
            break;
    if (from > 0)
        from--;
    return from + infq_utf8_check(t->data + from, n - from);
}

static infq_status show(session *s, bool last, infq_err *err)
{
    size_t n;

    infq_buf_clear(&s->text);
    INFQ_TRY(infq_tokenizer_decode(s->tok, s->out.data, s->out.n, true, &s->text, err));
    n = last ? s->text.n : whole_characters(&s->text);
    if (n > s->n_shown) {
        if (fwrite(s->text.data + s->n_shown, 1, n - s->n_shown, stdout) != n - s->n_shown || fflush(stdout))
            return infq_err_set(err, INFQ_E_IO, "standard output cannot be written");
        s->n_shown = n;
    }
    return INFQ_E_OK;
}

static infq_status open_all(session *s, const char *path, const options *o, const infq_log *log, infq_err *err)
{
    infq_model_options mo = infq_model_options_default();
    const infq_config *c;
    void *p;

    INFQ_TRY(infq_checkpoint_open(path, log, &s->ck, err));
    INFQ_TRY(infq_backend_open(o->backend, &s->be, err));
    INFQ_TRY(infq_model_open(s->ck, s->be, &mo, &s->m, err));
    INFQ_TRY(infq_tokenizer_open(path, &s->tok, err));
    c = infq_model_config(s->m);
    INFQ_TRY(infq_mem_new((size_t)c->hidden, sizeof(float), "hidden state", &p, err));
    s->hidden = p;
    INFQ_TRY(infq_mem_new((size_t)c->vocab, sizeof(float), "logits", &p, err));
    s->logits = p;
    INFQ_TRY(infq_tokenizer_encode(s->tok, o->prompt, strlen(o->prompt), INFQ_TOK_SPECIAL, &s->prompt, err));
    if (s->prompt.n == 0 && infq_tokenizer_prefix(s->tok) >= 0)
        infq_ids_push(&s->prompt, infq_tokenizer_prefix(s->tok));
    INFQ_TRY(infq_ids_status(&s->prompt, err));
    if (s->prompt.n == 0)
        return infq_err_set(err, INFQ_E_USAGE, "--prompt is empty and %s has no BOS token", path);
    return infq_seq_new(s->m, &s->seq, err);
}

static infq_status generate(session *s, const options *o, infq_err *err)
{
    const infq_config *c = infq_model_config(s->m);
    infq_sample_options so = infq_sample_options_default();
    infq_forward_options fo = { false, NULL, NULL };
    infq_rng rng = infq_rng_seed((uint64_t)o->seed);
    infq_segment seg = { s->seq, s->prompt.data, (int64_t)s->prompt.n, 1 };
    int64_t t0 = infq_time_ns();
    int32_t id;

    so.temperature = o->temperature;
    so.top_k = o->top_k;
    so.top_p = o->top_p;
    so.seed = (uint64_t)o->seed;
    s->stopped = "length";
    for (int64_t i = 0; i < o->max_tokens && !infq_interrupted; i++) {
        INFQ_TRY(infq_model_forward(s->m, &seg, 1, &fo, s->hidden, err));
        INFQ_TRY(infq_model_logits(s->m, s->hidden, 1, false, s->logits, err));
        id = infq_sample(&so, &rng, s->logits, c->vocab);
        if (i == 0)
            s->ttft_ns = infq_time_ns() - t0;
        if (is_eos(c, id)) {
            s->stopped = "eos";
            break;
        }
        infq_ids_push(&s->out, id);
        INFQ_TRY(infq_ids_status(&s->out, err));
        if (!o->json)
            INFQ_TRY(show(s, false, err));
        if (infq_seq_len(s->seq) + 1 > c->max_positions)
            break;
        seg.tokens = &id;
        seg.n_tokens = 1;
    }
    s->total_ns = infq_time_ns() - t0;
    return INFQ_E_OK;
}

static infq_status finish(session *s, const options *o, infq_err *err)
{
    infq_buf doc;
    infq_jw w;
    infq_status st;

    if (!o->json) {
        INFQ_TRY(show(s, true, err));
        putchar('\n');
        return INFQ_E_OK;
    }
    infq_buf_clear(&s->text);
    INFQ_TRY(infq_tokenizer_decode(s->tok, s->out.data, s->out.n, true, &s->text, err));
    infq_buf_init(&doc);
    w = infq_jw_over(&doc, 0);
    infq_jw_obj(&w);
    infq_jw_key(&w, "schema");
    infq_jw_str(&w, "infq.generate.v1");
    infq_jw_key(&w, "prompt_tokens");
    infq_jw_i64(&w, (int64_t)s->prompt.n);
    infq_jw_key(&w, "tokens");
    infq_jw_arr(&w);
    for (size_t i = 0; i < s->out.n; i++)
        infq_jw_i64(&w, s->out.data[i]);
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "text");
    infq_jw_strn(&w, s->text.data, s->text.n);
    infq_jw_key(&w, "stopped");
    infq_jw_str(&w, s->stopped);
    infq_jw_key(&w, "ttft_ms");
    infq_jw_f64(&w, (double)s->ttft_ns * 1e-6);
    infq_jw_key(&w, "total_ms");
    infq_jw_f64(&w, (double)s->total_ns * 1e-6);
    infq_jw_end_obj(&w);
    infq_buf_char(&doc, '\n');
    st = cmd_print(&doc, err);
    infq_buf_deinit(&doc);
    return st;
}

int cmd_generate(int argc, char **argv)
{
    options o = { "", "auto", 64, 0, 1, 0, 0, 1, false, false };
    session s;
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
    infq_par_threads_set((int)o.threads);
    memset(&s, 0, sizeof(s));
    infq_buf_init(&s.text);
    log = cmd_log(&sink, NAME, o.quiet);
    st = open_all(&s, argv[0], &o, &log, &err);
    if (!st)
        st = generate(&s, &o, &err);
    if (!st)
        st = finish(&s, &o, &err);
    cmd_log_end(&sink);
    infq_seq_free(s.seq);
    infq_tokenizer_free(s.tok);
    infq_model_close(s.m);
    infq_backend_close(s.be);
    infq_checkpoint_close(s.ck);
    infq_mem_free(s.hidden);
    infq_mem_free(s.logits);
    infq_ids_deinit(&s.prompt);
    infq_ids_deinit(&s.out);
    infq_buf_deinit(&s.text);
    return st ? cmd_fail(NAME, &err) : 0;
}
