#include "lib/eval/server.h"

#include <math.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/extract.h"
#include "lib/eval/score_int.h"
#include "lib/eval/server_int.h"

#define MAX_STOPS_SENT 4 /* more are refused by some servers; all are applied here */

static const cJSON *first_choice(const cJSON *reply)
{
    const cJSON *choices = infq_json_get(reply, "choices");

    return cJSON_IsArray(choices) ? choices->child : NULL;
}

static int64_t usage_of(const cJSON *reply, const char *key)
{
    const cJSON *n = infq_json_get(infq_json_get(reply, "usage"), key);

    return cJSON_IsNumber(n) && n->valuedouble >= 0 && n->valuedouble < 1e9 ? (int64_t)n->valuedouble : -1;
}

// Log-likelihoods

/* The document last asked for, in ids. */
typedef struct {
    infq_arena *arena;
    infq_mark empty;         /* of the arena */
    int64_t doc;             /* -1: none */
    infq_score_input in;
} in_ids;

typedef struct {
    infq_server *s;
    const infq_task *task;
    infq_items *items;
    infq_item_log *log;
    int64_t *n_across;
    int64_t *doc_of;         /* document of each request, and its place there */
    int64_t *place;
    infq_item *item;
    in_ids asked, answered;  /* with a tokenizer: the documents whose requests are made, and whose replies come */
} scoring;

static const infq_request *request_of(const scoring *x, int64_t i)
{
    return &infq_task_get(x->task, x->doc_of[i])->requests[x->place[i]];
}

static infq_status query_of(const scoring *x, int64_t i, in_ids *kept, const infq_query **out, infq_err *err)
{
    const infq_server_options *o = infq_server_options_of(x->s);

    if (kept->doc != x->doc_of[i]) {
        infq_arena_release(kept->arena, kept->empty);
        kept->doc = -1;
        INFQ_TRY(infq_score_encode(o->tok, o->bos, INT64_MAX / 2, infq_task_get(x->task, x->doc_of[i]), kept->arena, &kept->in, err));
        kept->doc = x->doc_of[i];
    }
    *out = &kept->in.q[x->place[i]];
    return INFQ_E_OK;
}

static infq_status put_scored(scoring *x, int64_t i, infq_jw *w, infq_err *err)
{
    const infq_request *q = request_of(x, i);
    const infq_query *ids;
    infq_buf prompt;
    infq_status st;

    infq_jw_key(w, "prompt");
    if (infq_server_options_of(x->s)->tok) {
        INFQ_TRY(query_of(x, i, &x->asked, &ids, err));
        infq_jw_arr(w);
        for (int64_t k = 0; k < ids->n; k++)
            infq_jw_i64(w, ids->ids[k]);
        infq_jw_end_arr(w);
        return INFQ_E_OK;
    }
    infq_buf_init(&prompt);
    infq_buf_add(&prompt, q->context, q->n_context);
    infq_buf_add(&prompt, q->continuation, q->n_continuation);
    infq_jw_strn(w, prompt.data, prompt.n);
    st = infq_buf_status(&prompt, err);
    infq_buf_deinit(&prompt);
    return st;
}

static infq_status make_score(void *ctx, int64_t i, infq_buf *body, infq_err *err)
{
    scoring *x = ctx;
    infq_jw w = infq_jw_over(body, 0);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "model", infq_server_options_of(x->s)->model);
    INFQ_TRY(put_scored(x, i, &w, err));
    infq_jw_key_i64(&w, "max_tokens", 1);
    infq_jw_key_i64(&w, "temperature", 0);
    infq_jw_key_bool(&w, "echo", true);
    infq_jw_key_i64(&w, "logprobs", 1);
    infq_jw_end_obj(&w);
    return INFQ_E_OK;
}

// Whether no other token is likelier than this one.
static bool is_top(const cJSON *tops, int j, double lp)
{
    const cJSON *o = cJSON_GetArrayItem(tops, j), *v;

    cJSON_ArrayForEach(v, o)
        if (cJSON_IsNumber(v) && v->valuedouble > lp)
            return false;
    return cJSON_IsObject(o);
}

/* What a reply says of the prompt's tokens. */
typedef struct {
    const cJSON *values, *tops;  /* token_logprobs, top_logprobs */
    const cJSON *offsets;        /* text_offset; NULL if not there */
    const char *first;           /* text of the first token; NULL if not told */
    int64_t n, size;             /* tokens of the prompt, entries of the arrays */
} echoed;

static infq_status echo_of(const cJSON *reply, echoed *e, infq_err *err)
{
    const cJSON *lp = infq_json_get(first_choice(reply), "logprobs"), *offsets = infq_json_get(lp, "text_offset");

    e->values = infq_json_get(lp, "token_logprobs");
    e->tops = infq_json_get(lp, "top_logprobs");
    e->size = cJSON_IsArray(e->values) ? cJSON_GetArraySize(e->values) : 0;
    e->offsets = cJSON_IsArray(offsets) && cJSON_GetArraySize(offsets) == e->size ? offsets : NULL;
    e->first = cJSON_GetStringValue(cJSON_GetArrayItem(infq_json_get(lp, "tokens"), 0));
    e->n = usage_of(reply, "prompt_tokens");
    if (e->n < 0 || e->n > e->size)
        e->n = e->size - 1;
    return e->size > 1 ? INFQ_E_OK : infq_err_set(err, INFQ_E_UNSUPPORTED, "the server does not echo the prompt with log-probabilities");
}

static infq_status add_token(const echoed *e, int64_t j, const cJSON *v, infq_item *it, int64_t k, infq_err *err)
{
    if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "token %lld has no log-probability%s", (long long)j,
                            j == 0 ? ": the context is empty and the server puts no BOS in front; --tokenizer MODEL puts one" : "");
    it->ll[k] += v->valuedouble;
    it->greedy[k] = it->greedy[k] && is_top(e->tops, (int)j, v->valuedouble);
    it->n_tokens[k]++;
    return INFQ_E_OK;
}

// The prompt went as ids: the echo holds exactly these.
static infq_status sum_ids(const scoring *x, const infq_query *q, const echoed *e, int64_t k, infq_err *err)
{
    int64_t j = 0;
    const cJSON *v;

    if (e->n != q->n)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%lld tokens were sent, the server counts %lld", (long long)q->n, (long long)e->n);
    for (v = e->values->child; v && j < q->n; v = v->next, j++)
        if (j >= q->n_ctx)
            INFQ_TRY(add_token(e, j, v, x->item, k, err));
    return INFQ_E_OK;
}

/* Offsets count characters from the beginning of what the server echoes, where a BOS token may stand in front of the prompt. The offset of
 * the generated token, which stands behind the prompt, tells by how much they are moved; it is the length of the first token, or the
 * server's offsets are not those of the text (of a tokenizer that parts characters, or drops blanks). */
static infq_status text_moved(const infq_request *q, const echoed *e, int64_t *moved, int64_t *n_all, infq_err *err)
{
    bool bos = cJSON_IsNull(e->values->child) && !(e->first && q->n_context > 0 && infq_str_starts(q->context, e->first));
    double length;

    *n_all = (int64_t)(infq_utf8_count(q->context, q->n_context) + infq_utf8_count(q->continuation, q->n_continuation));
    *moved = 0;
    if (!e->offsets)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the server does not tell text offsets; --tokenizer MODEL does without");
    if (e->n == e->size)
        return INFQ_E_OK;
    length = cJSON_GetArrayItem(e->offsets, 1)->valuedouble;
    *moved = (int64_t)cJSON_GetArrayItem(e->offsets, (int)e->n)->valuedouble - *n_all;
    if (*moved != 0 && (!bos || length != (double)*moved))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the server's text offsets do not fit the prompt; --tokenizer MODEL does without");
    return INFQ_E_OK;
}

static infq_status sum_text(const scoring *x, const infq_request *q, const echoed *e, int64_t k, infq_err *err)
{
    double n_ctx = (double)infq_utf8_count(q->context, infq_rstrip(q->context, q->n_context));
    int64_t n_all, moved, j = 0;
    const cJSON *v, *at;

    INFQ_TRY(text_moved(q, e, &moved, &n_all, err));
    for (v = e->values->child, at = e->offsets->child; v && at && j < e->n; v = v->next, at = at->next, j++) {
        double from = at->valuedouble - (double)moved, to = (at->next ? at->next->valuedouble : (double)n_all) - (double)moved;
        if (from < n_ctx && to <= n_ctx)
            continue;
        if (from < n_ctx)
            ++*x->n_across;
        INFQ_TRY(add_token(e, j, v, x->item, k, err));
    }
    return INFQ_E_OK;
}

static infq_status text_digest(const infq_doc *d, char out[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st = infq_sha256_new(&h, err);

    for (int64_t k = 0; k < d->n_requests && !st; k++) {
        const infq_request *q = &d->requests[k];
        int64_t n[2] = { (int64_t)q->n_context, (int64_t)q->n_continuation };
        st = infq_sha256_add(h, n, sizeof(n), err);
        if (!st)
            st = infq_sha256_add(h, q->context, q->n_context, err);
        if (!st)
            st = infq_sha256_add(h, q->continuation, q->n_continuation, err);
    }
    if (!st)
        st = infq_sha256_end(h, out, err);
    infq_sha256_free(h);
    if (!st)
        out[16] = '\0';
    return st;
}

static infq_status take_score(void *ctx, int64_t i, const cJSON *reply, infq_err *err)
{
    scoring *x = ctx;
    const infq_doc *d = infq_task_get(x->task, x->doc_of[i]);
    int64_t k = x->place[i];
    const infq_query *q = NULL;
    echoed e;

    INFQ_TRY(echo_of(reply, &e, err));
    if (infq_server_options_of(x->s)->tok)
        INFQ_TRY(query_of(x, i, &x->answered, &q, err));
    if (k == 0) {
        INFQ_TRY(infq_score_item_new(x->task, d, x->items, &x->item, err));
        INFQ_TRY(q ? infq_score_digest(&x->answered.in, x->item->request, err) : text_digest(d, x->item->request, err));
    }
    x->item->ll[k] = 0;
    x->item->greedy[k] = true;
    INFQ_TRY(q ? sum_ids(x, q, &e, k, err) : sum_text(x, &d->requests[k], &e, k, err));
    if (k + 1 < d->n_requests)
        return INFQ_E_OK;
    infq_item_finish(x->item);
    if (x->log)
        INFQ_TRY(infq_item_log_add(x->log, x->item, err));
    infq_progress(infq_server_options_of(x->s)->log, infq_task_name(x->task), (uint64_t)infq_items_count(x->items),
                  (uint64_t)infq_task_count(x->task));
    return INFQ_E_OK;
}

infq_status infq_server_score_task(infq_server *s, const infq_task *task, infq_items *items, infq_item_log *log,
                                   int64_t *n_across, infq_err *err)
{
    scoring x = { .s = s, .task = task, .items = items, .log = log, .n_across = n_across, .asked.doc = -1, .answered.doc = -1 };
    infq_server_job job = { "/completions", make_score, take_score, &x };
    int64_t n = 0, at = 0, first;
    void *p;
    infq_status st;

    INFQ_TRY(infq_score_check_earlier(task, infq_task_count(task), NULL, items, err));
    first = infq_items_count(items);
    for (int64_t i = first; i < infq_task_count(task); i++)
        n += infq_task_get(task, i)->n_requests;
    INFQ_TRY(infq_mem_new((size_t)(2 * n + 1), sizeof(int64_t), "requests", &p, err));
    x.doc_of = p;
    x.place = x.doc_of + n;
    for (int64_t i = first; i < infq_task_count(task); i++) {
        for (int64_t k = 0; k < infq_task_get(task, i)->n_requests; k++, at++) {
            x.doc_of[at] = i;
            x.place[at] = k;
        }
    }
    *n_across = 0;
    st = infq_arena_new((size_t)1 << 16, &x.asked.arena, err);
    if (!st)
        st = infq_arena_new((size_t)1 << 16, &x.answered.arena, err);
    if (!st) {
        x.asked.empty = infq_arena_mark(x.asked.arena);
        x.answered.empty = infq_arena_mark(x.answered.arena);
        st = infq_server_run(s, 0, n, &job, err);
    }
    infq_arena_free(x.asked.arena);
    infq_arena_free(x.answered.arena);
    infq_mem_free(p);
    return st ? infq_err_in(err, "%s", infq_task_name(task)) : INFQ_E_OK;
}

// Texts

typedef struct {
    infq_server *s;
    bool chat;
    const char *system;
    const infq_generate_options *o;
    const infq_generate_sink *sink;
    int64_t n;
} texts;

static void put_message(infq_jw *w, const char *role, const char *text, size_t n)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "role", role);
    infq_jw_key(w, "content");
    infq_jw_strn(w, text, n);
    infq_jw_end_obj(w);
}

static void put_prompt(const texts *x, infq_jw *w, const infq_buf *prompt)
{
    if (!x->chat) {
        infq_jw_key(w, "prompt");
        infq_jw_strn(w, prompt->data, prompt->n);
        return;
    }
    infq_jw_key(w, "messages");
    infq_jw_arr(w);
    if (x->system)
        put_message(w, "system", x->system, strlen(x->system));
    put_message(w, "user", prompt->data, prompt->n);
    infq_jw_end_arr(w);
}

static infq_status make_text(void *ctx, int64_t i, infq_buf *body, infq_err *err)
{
    const texts *x = ctx;
    infq_jw w = infq_jw_over(body, 0);
    infq_buf prompt;
    infq_status st;

    infq_buf_init(&prompt);
    st = x->sink->prompt(x->sink->ctx, i, &prompt, err);
    if (!st)
        st = infq_buf_status(&prompt, err);
    if (!st) {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "model", infq_server_options_of(x->s)->model);
        put_prompt(x, &w, &prompt);
        infq_jw_key_i64(&w, "max_tokens", x->o->max_tokens);
        infq_jw_key_f64(&w, "temperature", x->o->sample.temperature);
        if (x->o->sample.temperature > 0) {
            infq_jw_key_f64(&w, "top_p", x->o->sample.top_p);
            infq_jw_key_i64(&w, "seed", (int64_t)(x->o->sample.seed + (uint64_t)i) & INT32_MAX);
        }
        if (x->o->n_stops > 0) {
            infq_jw_key(&w, "stop");
            infq_jw_arr(&w);
            for (int k = 0; k < x->o->n_stops && k < MAX_STOPS_SENT; k++)
                infq_jw_str(&w, x->o->stops[k]);
            infq_jw_end_arr(&w);
        }
        infq_jw_end_obj(&w);
    }
    infq_buf_deinit(&prompt);
    return st;
}

// The text of a reply; content null (a refusal, or reasoning only) is empty.
static infq_status text_of(const texts *x, const cJSON *reply, const char **out, infq_err *err)
{
    const cJSON *c = first_choice(reply), *t = x->chat ? infq_json_get(infq_json_get(c, "message"),
                                                                       "content") : infq_json_get(c, "text");

    if (!c || (!x->chat && !cJSON_IsString(t)))
        return infq_err_set(err, INFQ_E_FORMAT, "the reply has no choices with a text");
    *out = cJSON_IsString(t) ? t->valuestring : "";
    return INFQ_E_OK;
}

static infq_status take_text(void *ctx, int64_t i, const cJSON *reply, infq_err *err)
{
    const texts *x = ctx;
    const cJSON *why = infq_json_get(first_choice(reply), "finish_reason");
    infq_generated g = { .index = i, .n_tokens = usage_of(reply, "completion_tokens"), .n_prompt = usage_of(reply,
        "prompt_tokens") };
    infq_buf prompt;
    char request[17];
    bool stopped;
    infq_status st;

    INFQ_TRY(text_of(x, reply, &g.text, err));
    infq_buf_init(&prompt);
    st = x->sink->prompt(x->sink->ctx, i, &prompt, err);
    if (!st)
        st = infq_generate_digest(x->o, NULL, 0, prompt.data, prompt.n, request, err);
    infq_buf_deinit(&prompt);
    if (st)
        return st;
    g.n_text = infq_cut_at_stop(g.text, strlen(g.text), x->o->stops, x->o->n_stops, &stopped);
    g.n_tokens = g.n_tokens < 0 ? 0 : g.n_tokens;
    g.n_prompt = g.n_prompt < 0 ? 0 : g.n_prompt;
    g.stop = stopped ? INFQ_FINISH_STRING
             : cJSON_IsString(why) && strcmp(why->valuestring, "length") == 0 ? INFQ_FINISH_LENGTH : INFQ_FINISH_EOS;
    g.request = request;
    INFQ_TRY(x->sink->done(x->sink->ctx, &g, err));
    infq_progress(infq_server_options_of(x->s)->log, x->o->what ? x->o->what : "text", (uint64_t)(i + 1), (uint64_t)x->n);
    return INFQ_E_OK;
}

infq_status infq_server_generate(infq_server *s, bool chat, const char *system, int64_t first, int64_t n,
                                 const infq_generate_options *o,
                                 const infq_generate_sink *sink, infq_err *err)
{
    texts x = { s, chat, system, o, sink, n };
    infq_server_job job = { chat ? "/chat/completions" : "/completions", make_text, take_text, &x };

    return infq_server_run(s, first, n, &job, err);
}
