#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/eval/score.h"
#include "lib/io/chat.h"
#include "lib/io/tok_stream.h"
#include "lib/model/model.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define NAME "infq generate"

typedef struct {
    const char *prompt, *system, *backend;
    int64_t max_tokens, top_k, seed, threads;
    double temperature, top_p;
    bool chat, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "prompt", 'p', OPT_STR, "TEXT", "text to go on from (empty: from BOS)", AT(prompt), 0, 0 },
    { "chat", 0, OPT_FLAG, NULL, "the prompt is a user's message: rendered with the model's chat template", AT(chat), 0, 0 },
    { "system", 0, OPT_STR, "TEXT", "with --chat: the system message in front", AT(system), 0, 0 },
    { "max-tokens", 'n', OPT_I64, "N", "tokens to generate at most (64)", AT(max_tokens), 1, 1e6 },
    { "temperature", 0, OPT_F64, "X", "0 takes the likeliest token, 1 samples as the model says (0)", AT(temperature), 0, 100 },
    { "top-k", 0, OPT_I64, "N", "sample from the N likeliest tokens (0: all)", AT(top_k), 0, 1e6 },
    { "top-p", 0, OPT_F64, "X", "sample from the likeliest tokens that sum to X (1: all)", AT(top_p), 1e-6, 1 },
    { "seed", 0, OPT_I64, "N", "of the sampling (1)", AT(seed), 0, 9e15 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all)", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object instead of the text", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
    { "system", 0, OPT_NEED, "chat", NULL, 0, 0, 0 },
    { "top-k", 0, OPT_NEED, "temperature", NULL, 0, 0, 0 },
    { "top-p", 0, OPT_NEED, "temperature", NULL, 0, 0, 0 },
    { "seed", 0, OPT_NEED, "temperature", NULL, 0, 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] MODEL", "Writes text with a model, to look at it.",
    "The text follows the prompt on standard output as it is made; it ends at an end-of-sequence token, after\n"
    "--max-tokens, or where the context is full. Special tokens written out in the prompt count as such. With --chat a template that asks for the\n"
    "day is told today's; one BOS token stands in front where the tokenizer adds one, never two.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

typedef struct {
    infq_checkpoint *ck;
    infq_backend *be;
    infq_model *m;
    infq_tokenizer *tok;
    infq_seq *seq;
    float *hidden, *logits;
    int64_t n_choices;    // ids from here on are padding of the embedding: no token, never chosen
    infq_ids ids;         // prompt, then what was generated
    size_t n_prompt;
    infq_tok_stream stream;
    infq_buf text;        // all that is out
    int64_t ttft_ns, total_ns;
    const char *stopped;  // "eos", "length" or "context"
} session;

// Puts out the text of the new tokens.
static infq_status show(session *s, bool print, bool last, infq_err *err)
{
    size_t from = s->text.n, n;

    INFQ_TRY(infq_tok_stream_more(&s->stream, s->tok, &s->ids, true, last, &s->text, err));
    n = s->text.n - from;
    if (print && n > 0 && (fwrite(s->text.data + from, 1, n, stdout) != n || fflush(stdout)))
        return infq_err_set(err, INFQ_E_IO, "standard output cannot be written");
    return INFQ_E_OK;
}

// The rendered chat template of the folder.
static infq_status render(const char *path, const options *o, infq_buf *to, infq_err *err)
{
    infq_chat *c = NULL;
    time_t now = time(NULL);
    struct tm tm;
    char date[16];
    infq_status st;

    INFQ_TRY(infq_chat_open(path, &c, err));
    strftime(date, sizeof(date), "%Y-%m-%d", localtime_r(&now, &tm));
    st = infq_chat_prompt(c, o->system, o->prompt, strlen(o->prompt), date, to, err);
    infq_chat_free(c);
    return st;
}

static infq_status encode_prompt(session *s, const char *path, const options *o, infq_err *err)
{
    infq_buf text;
    infq_status st = INFQ_E_OK;

    infq_buf_init(&text);
    if (o->chat)
        st = render(path, o, &text, err);
    else
        infq_buf_str(&text, o->prompt);
    if (!st)
        st = infq_buf_status(&text, err);
    if (!st)
        st = infq_encode_text(s->tok, INFQ_BOS_MODEL, text.data, text.n, &s->ids, err);
    infq_buf_deinit(&text);
    return st;
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
    s->n_choices = infq_tokenizer_size(s->tok);
    if (s->n_choices > c->vocab)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: the tokenizer has %lld ids, the embedding only %lld rows", path,
                            (long long)s->n_choices, (long long)c->vocab);
    INFQ_TRY(encode_prompt(s, path, o, err));
    if (s->ids.n == 0 && infq_tokenizer_prefix(s->tok) >= 0)
        infq_ids_push(&s->ids, infq_tokenizer_prefix(s->tok));
    INFQ_TRY(infq_ids_status(&s->ids, err));
    if (s->ids.n == 0)
        return infq_err_set(err, INFQ_E_USAGE, "--prompt is empty and %s has no BOS token", path);
    if ((int64_t)s->ids.n > c->max_positions)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the prompt has %zu tokens, the context of %s holds %lld", s->ids.n, path,
                            (long long)c->max_positions);
    s->n_prompt = s->ids.n;
    infq_tok_stream_init(&s->stream, s->n_prompt);
    return infq_seq_new(s->m, &s->seq, err);
}

static infq_status next_token(session *s, const infq_sample_options *so, infq_rng *rng, int32_t *id, infq_err *err)
{
    infq_forward_options fo = { .invariant = false };
    size_t done = (size_t)infq_seq_len(s->seq);
    infq_segment seg = { s->seq, s->ids.data + done, (int64_t)(s->ids.n - done), 1 };
    int64_t bad;

    INFQ_TRY(infq_model_forward(s->m, &seg, 1, &fo, s->hidden, err));
    INFQ_TRY(infq_model_logits(s->m, s->hidden, 1, false, s->logits, err));
    bad = infq_first_nonfinite(s->logits, s->n_choices);
    if (bad >= 0)
        return infq_err_set(err, INFQ_E_NUMERIC, "the logit of token %lld after %zu tokens is not finite", (long long)bad,
                            s->ids.n);
    *id = infq_sample(so, rng, s->logits, s->n_choices);
    return INFQ_E_OK;
}

static infq_status generate(session *s, const options *o, infq_err *err)
{
    const infq_config *c = infq_model_config(s->m);
    infq_sample_options so = { .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p,
                               .seed = (uint64_t)o->seed };
    infq_rng rng = infq_rng_seed(so.seed);
    int64_t t0 = infq_time_ns();
    int32_t id = 0;

    s->stopped = "length";
    for (int64_t i = 0; i < o->max_tokens; i++) {
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld tokens", (long long)i);
        INFQ_TRY(next_token(s, &so, &rng, &id, err));
        if (i == 0)
            s->ttft_ns = infq_time_ns() - t0;
        if (infq_config_is_eos(c, id)) {
            s->stopped = "eos";
            break;
        }
        infq_ids_push(&s->ids, id);
        INFQ_TRY(infq_ids_status(&s->ids, err));
        INFQ_TRY(show(s, !o->json, false, err));
        if ((int64_t)s->ids.n > c->max_positions) {
            s->stopped = "context";
            break;
        }
    }
    s->total_ns = infq_time_ns() - t0;
    return show(s, !o->json, true, err);
}

// The loop with all threads standing by from the prompt to the last token.
typedef struct {
    session *s;
    const options *o;
    infq_err *err;
    infq_status st;
} generate_call;

static void generate_in_team(void *ctx)
{
    generate_call *c = ctx;

    c->st = generate(c->s, c->o, c->err);
}

static infq_status run(session *s, const options *o, infq_err *err)
{
    generate_call c = { s, o, err, INFQ_E_OK };

    infq_par_team(generate_in_team, &c);
    return c.st;
}

// BOS tokens that the prompt begins with: more than one is a mistake of template and tokenizer together.
static int64_t leading_bos(const session *s)
{
    size_t n = 0;

    while (n < s->n_prompt && s->ids.data[n] == infq_tokenizer_bos(s->tok))
        n++;
    return (int64_t)n;
}

static infq_status finish(session *s, const options *o, infq_err *err)
{
    infq_buf doc;
    infq_jw w;
    infq_status st;

    if (!o->json) {
        putchar('\n');
        return INFQ_E_OK;
    }
    infq_buf_init(&doc);
    w = infq_jw_over(&doc, 0);
    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.generate.v1");
    infq_jw_key_i64(&w, "prompt_tokens", (int64_t)s->n_prompt);
    infq_jw_key_i64(&w, "prompt_bos", leading_bos(s));
    infq_jw_key(&w, "tokens");
    infq_jw_arr(&w);
    for (size_t i = s->n_prompt; i < s->ids.n; i++)
        infq_jw_i64(&w, s->ids.data[i]);
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "text");
    infq_jw_strn(&w, s->text.data, s->text.n);
    infq_jw_key_str(&w, "stopped", s->stopped);
    infq_jw_key_f64(&w, "ttft_ms", (double)s->ttft_ns * 1e-6);
    infq_jw_key_f64(&w, "total_ms", (double)s->total_ns * 1e-6);
    infq_jw_end_obj(&w);
    infq_buf_char(&doc, '\n');
    st = cmd_print(&doc, err);
    infq_buf_deinit(&doc);
    return st;
}

int cmd_generate(int argc, char **argv)
{
    options o = { .prompt = "", .backend = "auto", .max_tokens = 64, .seed = 1, .top_p = 1 };
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
    infq_ids_init(&s.ids);
    infq_tok_stream_init(&s.stream, 0);
    infq_buf_init(&s.text);
    log = cmd_log(&sink, NAME, o.quiet);
    st = open_all(&s, argv[0], &o, &log, &err);
    if (!st)
        st = run(&s, &o, &err);
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
    infq_ids_deinit(&s.ids);
    infq_tok_stream_deinit(&s.stream);
    infq_buf_deinit(&s.text);
    return st ? cmd_fail(NAME, &err) : 0;
}
