#include "lib/eval/generate.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/eval/extract.h"
#include "lib/io/tok_stream.h"

#define PASS_TOKENS 512                    /* of prompts in one pass, beside the sequences that go on */
#define DEFAULT_BATCH 32
#define CACHE_BYTES ((size_t)2 << 30)
#define AHEAD 8                            /* results that wait for an earlier one: so many batches at most */
#define SHARE_FROM 32                      /* tokens of a common beginning that are worth a copy of the cache */
#define LOGIT_ROWS 32

static const char *const stop_names[] = { "eos", "stop", "length" };

const char *infq_finish_name(infq_finish s)
{
    return stop_names[s];
}

infq_generate_options infq_generate_options_default(void)
{
    return (infq_generate_options){ .bos = INFQ_BOS_MODEL, .max_tokens = 256, .sample = infq_sample_options_default() };
}

/* A prompt that is running or whose result waits. */
typedef struct {
    int64_t index;
    infq_ids ids;             /* prompt, then what was generated */
    size_t n_prompt;
    int64_t n_cut;
    infq_seq *seq;            /* NULL: not running (yet, or any more) */
    size_t cache_bytes;       /* that it will take at most */
    infq_rng rng;
    infq_tok_stream stream;
    infq_buf raw;             /* text with special tokens, to look for stops */
    infq_finish stop;
    bool finished;
    char request[17];
} slot;

typedef struct {
    infq_model *m;
    const infq_tokenizer *tok;
    const infq_generate_options *o;
    const infq_generate_sink *sink;
    int64_t context, batch, n_choices, n;
    int64_t next, written;    /* the next prompt to begin, the next result to hand over */
    slot *slots;              /* [n_slots] ring: prompt i is in slot i % n_slots */
    int64_t n_slots, n_running;
    size_t cache_bytes;       /* of all that is running */
    slot *waiting;            /* encoded, but its cache does not fit yet */
    infq_seq *base;           /* the cache of an earlier prompt, and its tokens */
    infq_ids base_ids;
    infq_segment *segs;       /* [batch] of one pass */
    slot **of;                /* the slot of each segment */
    float *hidden, *logits;
} generator;

infq_status infq_generate_digest(const infq_generate_options *o, const int32_t *ids, int64_t n_ids, const char *text,
                                 size_t n_text, char out[17], infq_err *err)
{
    infq_sha256 *h = NULL;
    char head[160], hex[65];
    uint8_t word[4];
    infq_status st;

    INFQ_TRY(infq_sha256_new(&h, err));
    snprintf(head, sizeof(head), "%lld %lld %.17g %lld %.17g %llu", (long long)n_ids, (long long)o->max_tokens,
             o->sample.temperature, (long long)o->sample.top_k,
             o->sample.top_p, o->sample.temperature > 0 ? (unsigned long long)o->sample.seed : 0);
    st = infq_sha256_add(h, head, strlen(head) + 1, err);
    for (int i = 0; i < o->n_stops && !st; i++)
        st = infq_sha256_add(h, o->stops[i], strlen(o->stops[i]) + 1, err);
    for (int64_t i = 0; i < n_ids && !st; i++) {
        infq_store_u32le(word, (uint32_t)ids[i]);
        st = infq_sha256_add(h, word, 4, err);
    }
    if (!st && text)
        st = infq_sha256_add(h, text, n_text, err);
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    if (!st) {
        memcpy(out, hex, 16);
        out[16] = '\0';
    }
    return st;
}

static void slot_init(slot *s)
{
    memset(s, 0, sizeof(*s));
    infq_ids_init(&s->ids);
    infq_tok_stream_init(&s->stream, 0);
    infq_buf_init(&s->raw);
}

static void slot_end(slot *s)
{
    infq_seq_free(s->seq);
    infq_ids_deinit(&s->ids);
    infq_tok_stream_deinit(&s->stream);
    infq_buf_deinit(&s->raw);
    slot_init(s);
}

// Text of the prompt as ids, cut on the left to what leaves room for the answer.
static infq_status encode(generator *g, slot *s, infq_err *err)
{
    int64_t room = g->context - g->o->max_tokens;
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = g->sink->prompt(g->sink->ctx, s->index, &text, err);
    if (!st)
        st = infq_buf_status(&text, err);
    if (!st)
        st = infq_encode_text(g->tok, g->o->bos, text.data, text.n, &s->ids, err);
    infq_buf_deinit(&text);
    if (st)
        return st;
    if (s->ids.n == 0 && infq_tokenizer_prefix(g->tok) >= 0)
        infq_ids_push(&s->ids, infq_tokenizer_prefix(g->tok));
    INFQ_TRY(infq_ids_status(&s->ids, err));
    if (s->ids.n == 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "an empty prompt needs a BOS or EOS token, the tokenizer has neither");
    if ((int64_t)s->ids.n > room) {
        s->n_cut = (int64_t)s->ids.n - room;
        memmove(s->ids.data, s->ids.data + s->n_cut, (size_t)room * sizeof(*s->ids.data));
        s->ids.n = (size_t)room;
    }
    s->n_prompt = s->ids.n;
    return INFQ_E_OK;
}

// Tokens that the earlier prompt and this one begin with, the last of the prompt apart: its hidden state is needed.
static int64_t common_beginning(const generator *g, const slot *s)
{
    size_t n = 0, most = s->n_prompt - 1 < g->base_ids.n ? s->n_prompt - 1 : g->base_ids.n;

    while (n < most && g->base_ids.data[n] == s->ids.data[n])
        n++;
    return (int64_t)n;
}

static infq_status encode_next(generator *g, infq_err *err)
{
    slot *s = &g->slots[g->next % g->n_slots];

    s->index = g->next++;
    INFQ_TRY(encode(g, s, err));
    INFQ_TRY(infq_generate_digest(g->o, s->ids.data, (int64_t)s->n_prompt, NULL, 0, s->request, err));
    s->rng = infq_rng_seed(g->o->sample.seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(s->index + 1));
    s->cache_bytes = infq_model_kv_bytes(infq_model_config(g->m), (int64_t)s->n_prompt + g->o->max_tokens);
    g->waiting = s;
    return INFQ_E_OK;
}

static infq_status start(generator *g, slot *s, infq_err *err)
{
    int64_t common = g->base ? common_beginning(g, s) : 0;

    if (common >= SHARE_FROM)
        INFQ_TRY(infq_seq_fork(g->base, common, &s->seq, err));
    else
        INFQ_TRY(infq_seq_new(g->m, &s->seq, err));
    g->n_running++;
    g->cache_bytes += s->cache_bytes;
    g->waiting = NULL;
    return INFQ_E_OK;
}

// Starts prompts while sequences are free, caches fit and no result has to wait too long.
static infq_status admit(generator *g, infq_err *err)
{
    while (g->n_running < g->batch) {
        if (!g->base && g->n_running > 0)
            return INFQ_E_OK; // the first prompt alone, so that the others can share its beginning
        if (!g->waiting) {
            if (g->next == g->n || g->next == g->written + g->n_slots)
                return INFQ_E_OK;
            if (encode_next(g, err))
                return infq_err_in(err, "item %lld", (long long)(g->next - 1));
        }
        if (g->n_running > 0 && g->cache_bytes + g->waiting->cache_bytes > CACHE_BYTES)
            return INFQ_E_OK;
        INFQ_TRY(start(g, g->waiting, err));
    }
    return INFQ_E_OK;
}

// One token of each sequence that goes on; prompts as far as the pass has room, the earliest first.
static int64_t fill_pass(generator *g)
{
    int64_t n = 0, room = PASS_TOKENS;

    for (int64_t i = g->written; i < g->next; i++) {
        slot *s = &g->slots[i % g->n_slots];
        int64_t done, left;
        if (!s->seq)
            continue;
        done = infq_seq_len(s->seq);
        left = (int64_t)s->ids.n - done;
        if (left > 1 && left > room) {
            if (room == 0)
                continue;
            left = room;
        }
        if (left > 1)
            room -= left;
        g->segs[n] = (infq_segment){ s->seq, s->ids.data + done, left, done + left == (int64_t)s->ids.n };
        g->of[n++] = s;
    }
    return n;
}

// Ends the sequence after token `id` if it has to.
static infq_status take(generator *g, slot *s, int32_t id, infq_err *err)
{
    infq_ids made = { 0 };
    bool stopped = false;

    if (infq_config_is_eos(infq_model_config(g->m), id)) {
        s->stop = INFQ_FINISH_EOS;
        s->finished = true;
        return INFQ_E_OK;
    }
    infq_ids_push(&s->ids, id);
    INFQ_TRY(infq_ids_status(&s->ids, err));
    if (g->o->n_stops > 0) {
        made.data = s->ids.data + s->n_prompt;
        made.n = s->ids.n - s->n_prompt;
        INFQ_TRY(infq_tok_stream_more(&s->stream, g->tok, &made, false, false, &s->raw, err));
        infq_cut_at_stop(s->raw.data, s->raw.n, g->o->stops, g->o->n_stops, &stopped);
    }
    if (stopped) {
        s->stop = INFQ_FINISH_STRING;
        s->finished = true;
    } else if ((int64_t)(s->ids.n - s->n_prompt) >= g->o->max_tokens) {
        s->stop = INFQ_FINISH_LENGTH;
        s->finished = true;
    }
    return INFQ_E_OK;
}

// Logits of the rows of a pass, a token for each.
static infq_status choose(generator *g, slot *const *of, int64_t n_rows, infq_err *err)
{
    int64_t hidden = infq_model_config(g->m)->hidden, vocab = infq_model_config(g->m)->vocab;

    for (int64_t r = 0; r < n_rows; r += LOGIT_ROWS) {
        int64_t n = n_rows - r < LOGIT_ROWS ? n_rows - r : LOGIT_ROWS;
        INFQ_TRY(infq_model_logits(g->m, g->hidden + r * hidden, n, true, g->logits, err));
        for (int64_t i = 0; i < n; i++) {
            slot *s = of[r + i];
            float *z = g->logits + i * vocab;
            int64_t bad = infq_first_nonfinite(z, g->n_choices);
            if (bad >= 0)
                return infq_err_set(err, INFQ_E_NUMERIC, "item %lld: the logit of token %lld after %zu tokens is not finite",
                                    (long long)s->index, (long long)bad, s->ids.n);
            INFQ_TRY(take(g, s, infq_sample(&g->o->sample, &s->rng, z, g->n_choices), err));
        }
    }
    return INFQ_E_OK;
}

// Keeps the cache of a prompt that has just been computed, if what was kept has no beginning in common with it.
static infq_status keep_base(generator *g, const slot *s, infq_err *err)
{
    infq_seq *copy = NULL;

    if (g->base && common_beginning(g, s) >= SHARE_FROM)
        return INFQ_E_OK;
    if (g->base && s->n_prompt <= SHARE_FROM)
        return INFQ_E_OK;
    INFQ_TRY(infq_seq_fork(s->seq, (int64_t)s->n_prompt, &copy, err));
    infq_seq_free(g->base);
    g->base = copy;
    infq_ids_clear(&g->base_ids);
    infq_ids_append(&g->base_ids, s->ids.data, s->n_prompt);
    return infq_ids_status(&g->base_ids, err);
}

static infq_status pass(generator *g, infq_err *err)
{
    infq_forward_options fo = { .invariant = true };
    int64_t n = fill_pass(g), n_rows = 0;

    INFQ_TRY(infq_model_forward(g->m, g->segs, n, &fo, g->hidden, err));
    for (int64_t i = 0; i < n; i++) {
        if (g->segs[i].n_last == 0)
            continue;
        if (g->of[i]->ids.n == g->of[i]->n_prompt)
            INFQ_TRY(keep_base(g, g->of[i], err));
        g->of[n_rows++] = g->of[i];
    }
    INFQ_TRY(choose(g, g->of, n_rows, err));
    for (int64_t i = 0; i < n_rows; i++) {
        if (!g->of[i]->finished)
            continue;
        infq_seq_free(g->of[i]->seq);
        g->of[i]->seq = NULL;
        g->n_running--;
        g->cache_bytes -= g->of[i]->cache_bytes;
    }
    return INFQ_E_OK;
}

static void replace_nul(infq_buf *text)
{
    infq_buf old;

    if (!memchr(text->data, '\0', text->n))
        return;
    old = *text;
    infq_buf_init(text);
    for (size_t i = 0; i < old.n; i++)
        if (old.data[i])
            infq_buf_char(text, old.data[i]);
        else
            infq_buf_str(text, "\xef\xbf\xbd");
    infq_buf_deinit(&old);
}

// The finished text: decoded as a whole, cut at its stop.
static infq_status hand_over(generator *g, slot *s, infq_err *err)
{
    infq_buf text;
    bool stopped;
    infq_generated r = { .index = s->index, .tokens = s->ids.data + s->n_prompt, .n_tokens = (int64_t)(s->ids.n - s->n_prompt),
                         .n_prompt = (int64_t)s->n_prompt, .n_cut = s->n_cut, .stop = s->stop, .request = s->request };
    infq_status st;

    infq_buf_init(&text);
    st = infq_tokenizer_decode(g->tok, r.tokens, (size_t)r.n_tokens, true, &text, err);
    if (!st) {
        replace_nul(&text);
        st = infq_buf_status(&text, err);
    }
    if (!st) {
        r.text = text.data;
        r.n_text = infq_cut_at_stop(text.data, text.n, g->o->stops, g->o->n_stops, &stopped);
        st = g->sink->done(g->sink->ctx, &r, err);
    }
    infq_buf_deinit(&text);
    return st;
}

static infq_status flush(generator *g, infq_err *err)
{
    while (g->written < g->next && g->slots[g->written % g->n_slots].finished) {
        slot *s = &g->slots[g->written % g->n_slots];
        INFQ_TRY(hand_over(g, s, err));
        slot_end(s);
        g->written++;
        infq_progress(g->o->log, g->o->what ? g->o->what : "text", (uint64_t)g->written, (uint64_t)g->n);
    }
    return INFQ_E_OK;
}

static infq_status loop(generator *g, infq_err *err)
{
    while (g->written < g->n) {
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld of %lld items", (long long)g->written,
                                (long long)g->n);
        INFQ_TRY(admit(g, err));
        INFQ_TRY(pass(g, err));
        INFQ_TRY(flush(g, err));
    }
    return INFQ_E_OK;
}

// The loop with all threads standing by.
typedef struct {
    generator *g;
    infq_err *err;
    infq_status st;
} loop_call;

static void loop_in_team(void *ctx)
{
    loop_call *c = ctx;

    c->st = loop(c->g, c->err);
}

static infq_status open(generator *g, infq_err *err)
{
    const infq_config *c = infq_model_config(g->m);
    void *p;

    g->context = g->o->context > 0 && g->o->context < c->max_positions ? g->o->context : c->max_positions;
    if (g->o->max_tokens < 1 || g->o->max_tokens >= g->context)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%lld tokens to generate leave no room for a prompt in a context of %lld",
                            (long long)g->o->max_tokens, (long long)g->context);
    g->n_choices = infq_tokenizer_size(g->tok);
    if (g->n_choices > c->vocab)
        return infq_err_set(err, INFQ_E_FORMAT, "the tokenizer has %lld ids, the embedding only %lld rows",
                            (long long)g->n_choices,
                            (long long)c->vocab);
    g->batch = g->o->batch > 0 ? g->o->batch : DEFAULT_BATCH;
    g->n_slots = AHEAD * g->batch;
    INFQ_TRY(infq_mem_new((size_t)g->n_slots, sizeof(slot), "sequences", &p, err));
    g->slots = p;
    for (int64_t i = 0; i < g->n_slots; i++)
        slot_init(&g->slots[i]);
    INFQ_TRY(infq_mem_new((size_t)g->batch, sizeof(*g->segs), "segments", &p, err));
    g->segs = p;
    INFQ_TRY(infq_mem_new((size_t)g->batch, sizeof(*g->of), "segments", &p, err));
    g->of = p;
    INFQ_TRY(infq_mem_new((size_t)(g->batch * c->hidden), sizeof(float), "hidden states", &p, err));
    g->hidden = p;
    INFQ_TRY(infq_mem_new((size_t)((g->batch < LOGIT_ROWS ? g->batch : LOGIT_ROWS) * c->vocab), sizeof(float), "logits", &p,
                          err));
    g->logits = p;
    return INFQ_E_OK;
}

infq_status infq_generate(infq_model *m, const infq_tokenizer *tok, int64_t first, int64_t n, const infq_generate_options *o,
                          const infq_generate_sink *sink, infq_err *err)
{
    generator g = { .m = m, .tok = tok, .o = o, .sink = sink, .n = n, .next = first, .written = first };
    loop_call c = { &g, err, INFQ_E_OK };

    infq_ids_init(&g.base_ids);
    c.st = open(&g, err);
    if (!c.st)
        infq_par_team(loop_in_team, &c);
    for (int64_t i = 0; g.slots && i < g.n_slots; i++)
        slot_end(&g.slots[i]);
    infq_seq_free(g.base);
    infq_ids_deinit(&g.base_ids);
    infq_mem_free(g.slots);
    infq_mem_free(g.segs);
    infq_mem_free(g.of);
    infq_mem_free(g.hidden);
    infq_mem_free(g.logits);
    return c.st;
}
