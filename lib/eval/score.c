#include "lib/eval/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/eval/corpus.h"
#include "lib/eval/stats.h"

#define CHUNK_ROWS 64        /* rows of logits held at once */
#define AUTO_TOKENS 1024     /* tokens a forward pass when the batch is chosen here */
#define AUTO_ITEMS 64
#define MAX_TOKENS 8192      /* of a batch of any size: bounds the cache */
#define SHARE_FROM 8         /* tokens of context from which a common prefix is worth a fork */

infq_status infq_encode_text(const infq_tokenizer *tok, infq_bos bos, const char *text, size_t n, infq_ids *ids, infq_err *err)
{
    size_t at = ids->n;
    int32_t id = infq_tokenizer_bos(tok);

    if (bos == INFQ_BOS_ALWAYS && id < 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the tokenizer has no BOS token to put in front");
    if (bos == INFQ_BOS_ALWAYS && !infq_tokenizer_add_bos(tok))
        infq_ids_push(ids, id);
    INFQ_TRY(infq_tokenizer_encode(tok, text, n, bos == INFQ_BOS_NEVER ? 0 : INFQ_TOK_SPECIAL, ids, err));
    // a rendered chat template brings its own BOS
    if (bos != INFQ_BOS_NEVER && id >= 0 && ids->n - at >= 2 && ids->data[at] == id && ids->data[at + 1] == id) {
        memmove(ids->data + at, ids->data + at + 1, (ids->n - at - 1) * sizeof(*ids->data));
        ids->n--;
    }
    return infq_ids_status(ids, err);
}

infq_status infq_encode_pair(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context,
                             const char *continuation, size_t n_continuation, infq_ids *ctx, infq_ids *cont, infq_err *err)
{
    size_t kept = infq_rstrip(context, n_context), n_ctx = ctx->n;
    infq_buf whole;
    infq_ids all;
    infq_status st;

    if (n_context == 0) {
        INFQ_TRY(infq_tokenizer_encode(tok, continuation, n_continuation, 0, cont, err));
        return infq_ids_status(cont, err);
    }
    INFQ_TRY(infq_encode_text(tok, bos, context, kept, ctx, err));
    infq_buf_init(&whole);
    infq_ids_init(&all);
    infq_buf_add(&whole, context, n_context);
    infq_buf_add(&whole, continuation, n_continuation);
    st = infq_buf_status(&whole, err);
    if (!st)
        st = infq_encode_text(tok, bos, whole.data, whole.n, &all, err);
    n_ctx = ctx->n - n_ctx;
    if (!st && all.n > n_ctx)
        infq_ids_append(cont, all.data + n_ctx, all.n - n_ctx);
    if (!st)
        st = infq_ids_status(cont, err);
    infq_buf_deinit(&whole);
    infq_ids_deinit(&all);
    return st;
}

typedef struct {
    const float *logits;
    int64_t vocab, row0;           /* logits hold rows row0.. */
    const infq_row_target *targets;
    int64_t first;                 /* targets of this chunk begin here */
    double *lp;
    bool *greedy;
} rows_job;

/* Each target of the chunk on its own: the rows' normalisers are recomputed where several targets share a row, which only a context's last
 * row has. */
static void rows_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const rows_job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const infq_row_target *t = &j->targets[j->first + i];
        const float *row = j->logits + (t->row - j->row0) * j->vocab;
        j->lp[j->first + i] = infq_logprob(row, j->vocab, t->id);
        if (j->greedy)
            j->greedy[j->first + i] = infq_argmax(row, j->vocab) == t->id;
    }
}

infq_status infq_score_rows(infq_model *m, const float *hidden, int64_t n_rows, const infq_row_target *targets, int64_t n_targets,
                            double *lp, bool *greedy, infq_err *err)
{
    int64_t vocab = infq_model_config(m)->vocab, width = infq_model_config(m)->hidden, at = 0;
    float *logits = NULL;
    size_t n_logits;
    infq_status st;

    if (n_rows == 0 || n_targets == 0)
        return 0;
    if (!infq_mul_size((size_t)(n_rows < CHUNK_ROWS ? n_rows : CHUNK_ROWS), (size_t)vocab, &n_logits))
        return infq_err_set(err, INFQ_E_NOMEM, "logits of %lld entries do not fit in memory", (long long)vocab);
    INFQ_TRY(infq_mem_new(n_logits, sizeof(float), "logits", (void **)&logits, err));
    st = 0;
    for (int64_t row = 0; row < n_rows && !st; row += CHUNK_ROWS) {
        int64_t rows = n_rows - row < CHUNK_ROWS ? n_rows - row : CHUNK_ROWS, n = 0;
        rows_job job = {logits, vocab, row, targets, at, lp, greedy};
        while (at + n < n_targets && targets[at + n].row < row + rows)
            n++;
        if (n == 0)
            continue;
        st = infq_model_logits(m, hidden + row * width, rows, true, logits, err);
        if (!st)
            infq_par_for(n, 1, rows_part, &job);
        at += n;
    }
    infq_mem_free(logits);
    for (int64_t i = 0; i < n_targets && !st; i++)
        if (!isfinite(lp[i]))
            st = infq_err_set(err, INFQ_E_NUMERIC, "the model's logits are not finite");
    return st;
}

infq_score_options infq_score_options_default(void)
{
    return (infq_score_options){.bos = INFQ_BOS_MODEL};
}

/* One continuation in ids: what is fed is ctx and all of cont but its last token. */
typedef struct {
    int32_t *ids;              /* ctx, then cont */
    int64_t n_ctx, n_cont;
    int64_t first_row;         /* row of the first target in pass one, -1 when shared or empty */
} prepared;

typedef struct {
    const infq_doc *doc;
    infq_item *item;
    prepared *req;
    int64_t n_tokens;          /* in both passes together */
    bool shared;               /* one prefill of the context, then a fork a continuation */
    int64_t ctx_row;           /* of the context's last token, when shared */
    infq_seq *seq;
} unit;

/* Rows and segments of a pass, filled by the walk over its units. */
typedef struct {
    infq_segment *segs;
    infq_row_target *targets;
    double *lp;
    bool *greedy;
    int64_t n_segs, n_targets, n_rows;
} pass;

typedef struct {
    infq_model *m;
    const infq_tokenizer *tok;
    const infq_score_options *o;
    int64_t limit;             /* longest input */
    infq_arena *arena;         /* of the batch */
} scorer;

static infq_status prepare_request(const scorer *s, const infq_request *r, prepared *p, bool *cut, infq_err *err)
{
    infq_ids ctx, cont;
    infq_status st;
    int64_t n, drop, skip = 0;
    int32_t prefix = infq_tokenizer_prefix(s->tok);

    infq_ids_init(&ctx);
    infq_ids_init(&cont);
    st = infq_encode_pair(s->tok, s->o->bos, r->context, r->n_context, r->continuation, r->n_continuation, &ctx, &cont, err);
    if (!st && ctx.n == 0) {
        if (cont.n > 0 && cont.data[0] == prefix)
            skip = 1;
        if (prefix < 0)
            st = infq_err_set(err, INFQ_E_UNSUPPORTED, "an empty context needs a BOS or EOS token, the tokenizer has neither");
        else
            infq_ids_push(&ctx, prefix);
        if (!st)
            st = infq_ids_status(&ctx, err);
    }
    if (st)
        goto done;
    p->n_ctx = (int64_t)ctx.n;
    p->n_cont = (int64_t)cont.n - skip;
    n = p->n_ctx + p->n_cont;
    st = infq_arena_alloc(s->arena, (size_t)n, sizeof(int32_t), "token ids", (void **)&p->ids, err);
    if (st)
        goto done;
    memcpy(p->ids, ctx.data, ctx.n * sizeof(int32_t));
    memcpy(p->ids + ctx.n, cont.data + skip, (size_t)p->n_cont * sizeof(int32_t));
    // too long: the last limit + 1 tokens, all but the last of them fed
    drop = n - (s->limit + 1);
    if (drop > 0) {
        *cut = true;
        p->ids += drop;
        p->n_ctx -= drop;
        if (p->n_ctx < 1) { // the continuation alone exceeds the window
            p->n_cont += p->n_ctx - 1;
            p->n_ctx = 1;
        }
    }
done:
    infq_ids_deinit(&ctx);
    infq_ids_deinit(&cont);
    return st;
}

static infq_status request_digest(const unit *u, char hex[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st = infq_sha256_new(&h, err);

    for (int64_t i = 0; i < u->doc->n_requests && !st; i++) {
        const prepared *p = &u->req[i];
        uint8_t word[4];
        int64_t head[2] = {p->n_ctx, p->n_cont};
        for (int k = 0; k < 2 && !st; k++) {
            infq_store_u32le(word, (uint32_t)head[k]);
            st = infq_sha256_add(h, word, 4, err);
        }
        for (int64_t k = 0; k < p->n_ctx + p->n_cont && !st; k++) {
            infq_store_u32le(word, (uint32_t)p->ids[k]);
            st = infq_sha256_add(h, word, 4, err);
        }
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}

static infq_status prepare_unit(const scorer *s, const infq_doc *d, unit *u, infq_err *err)
{
    int64_t total = 0;
    bool cut = false, equal = d->n_requests > 1;

    memset(u, 0, sizeof(*u));
    u->doc = d;
    INFQ_TRY(infq_arena_calloc(s->arena, (size_t)d->n_requests, sizeof(*u->req), "requests", (void **)&u->req, err));
    for (int64_t i = 0; i < d->n_requests; i++) {
        prepared *p = &u->req[i];
        INFQ_TRY(prepare_request(s, &d->requests[i], p, &cut, err));
        total += p->n_ctx + p->n_cont;
        equal = equal && p->n_ctx == u->req[0].n_ctx &&
                memcmp(p->ids, u->req[0].ids, (size_t)p->n_ctx * sizeof(int32_t)) == 0;
    }
    u->shared = equal && !cut && u->req[0].n_ctx >= SHARE_FROM;
    u->n_tokens = u->shared ? total - (d->n_requests - 1) * u->req[0].n_ctx : total;
    return 0;
}

static infq_status pass_room(const scorer *s, int64_t n_segs, int64_t n_targets, pass *p, infq_err *err)
{
    memset(p, 0, sizeof(*p));
    INFQ_TRY(infq_arena_calloc(s->arena, (size_t)n_segs, sizeof(*p->segs), "segments", (void **)&p->segs, err));
    INFQ_TRY(infq_arena_calloc(s->arena, (size_t)n_targets, sizeof(*p->targets), "targets", (void **)&p->targets, err));
    INFQ_TRY(infq_arena_calloc(s->arena, (size_t)n_targets, sizeof(*p->lp), "scores", (void **)&p->lp, err));
    return infq_arena_calloc(s->arena, (size_t)n_targets, sizeof(*p->greedy), "flags", (void **)&p->greedy, err);
}

static void add_segment(pass *p, infq_seq *seq, const int32_t *ids, int64_t n, int64_t n_last)
{
    p->segs[p->n_segs++] = (infq_segment){seq, ids, n, n_last};
    p->n_rows += n_last;
}

static void add_target(pass *p, int64_t row, int32_t id)
{
    p->targets[p->n_targets++] = (infq_row_target){row, id};
}

/* Pass one: contexts of shared units, whole requests of the others. */
static infq_status plan_first(const scorer *s, unit *units, int64_t n, pass *p, infq_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        unit *u = &units[i];
        if (u->shared) {
            INFQ_TRY(infq_seq_new(s->m, &u->seq, err));
            u->ctx_row = p->n_rows;
            add_segment(p, u->seq, u->req[0].ids, u->req[0].n_ctx, 1);
            for (int64_t k = 0; k < u->doc->n_requests; k++)
                if (u->req[k].n_cont > 0)
                    add_target(p, u->ctx_row, u->req[k].ids[u->req[k].n_ctx]);
            continue;
        }
        for (int64_t k = 0; k < u->doc->n_requests; k++) {
            prepared *r = &u->req[k];
            infq_seq *seq;
            r->first_row = p->n_rows;
            if (r->n_cont == 0)
                continue;
            INFQ_TRY(infq_seq_new(s->m, &seq, err));
            add_segment(p, seq, r->ids, r->n_ctx + r->n_cont - 1, r->n_cont);
            for (int64_t t = 0; t < r->n_cont; t++)
                add_target(p, r->first_row + t, r->ids[r->n_ctx + t]);
        }
    }
    return 0;
}

/* Pass two: the rest of each continuation behind a fork of its context. */
static infq_status plan_second(unit *units, int64_t n, pass *p, infq_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        unit *u = &units[i];
        if (!u->shared)
            continue;
        for (int64_t k = 0; k < u->doc->n_requests; k++) {
            prepared *r = &u->req[k];
            infq_seq *fork;
            if (r->n_cont < 2)
                continue;
            r->first_row = p->n_rows;
            INFQ_TRY(infq_seq_fork(u->seq, r->n_ctx, &fork, err));
            add_segment(p, fork, r->ids + r->n_ctx, r->n_cont - 1, r->n_cont - 1);
            for (int64_t t = 1; t < r->n_cont; t++)
                add_target(p, r->first_row + t - 1, r->ids[r->n_ctx + t]);
        }
    }
    return 0;
}

static void free_seqs(pass *p, unit *units, int64_t n)
{
    for (int64_t i = 0; i < p->n_segs; i++) {
        for (int64_t k = 0; k < n; k++)
            if (units[k].seq == p->segs[i].seq)
                units[k].seq = NULL;
        infq_seq_free(p->segs[i].seq);
    }
    p->n_segs = 0;
}

static infq_status run_pass(const scorer *s, pass *p, infq_err *err)
{
    infq_forward_options f = {.invariant = true};
    float *hidden = NULL;
    size_t n_floats;
    infq_status st;

    if (p->n_segs == 0)
        return 0;
    if (!infq_mul_size((size_t)p->n_rows, (size_t)infq_model_config(s->m)->hidden, &n_floats))
        return infq_err_set(err, INFQ_E_NOMEM, "%lld rows do not fit in memory", (long long)p->n_rows);
    INFQ_TRY(infq_mem_new(n_floats, sizeof(float), "hidden states", (void **)&hidden, err));
    st = infq_model_forward(s->m, p->segs, p->n_segs, &f, hidden, err);
    if (!st)
        st = infq_score_rows(s->m, hidden, p->n_rows, p->targets, p->n_targets, p->lp, p->greedy, err);
    infq_mem_free(hidden);
    return st;
}

/* Targets were added in the same order, so each pass is read by one moving index. */
static void collect(unit *units, int64_t n, const pass *one, const pass *two)
{
    int64_t a = 0, b = 0;

    for (int64_t i = 0; i < n; i++) {
        unit *u = &units[i];
        infq_item *it = u->item;
        for (int64_t k = 0; k < it->n; k++) {
            const prepared *r = &u->req[k];
            double ll = 0;
            bool greedy = true;
            int64_t from_one = u->shared ? (r->n_cont > 0) : r->n_cont;
            for (int64_t t = 0; t < r->n_cont; t++) {
                const pass *p = t < from_one ? one : two;
                int64_t at = t < from_one ? a++ : b++;
                ll += p->lp[at];
                greedy = greedy && p->greedy[at];
            }
            it->ll[k] = ll;
            it->greedy[k] = greedy;
            it->n_tokens[k] = r->n_cont;
            it->chars[k] = u->doc->requests[k].chars;
            it->bytes[k] = u->doc->requests[k].bytes;
        }
        infq_item_finish(it);
    }
}

static infq_status score_units(const scorer *s, unit *units, int64_t n, infq_err *err)
{
    pass one, two;
    int64_t n_req = 0, n_targets = 0;
    infq_status st;

    for (int64_t i = 0; i < n; i++) {
        n_req += units[i].doc->n_requests + 1;
        for (int64_t k = 0; k < units[i].doc->n_requests; k++)
            n_targets += units[i].req[k].n_cont;
    }
    INFQ_TRY(pass_room(s, n_req, n_targets, &one, err));
    INFQ_TRY(pass_room(s, n_req, n_targets, &two, err));
    st = plan_first(s, units, n, &one, err);
    if (!st)
        st = run_pass(s, &one, err);
    if (!st)
        st = plan_second(units, n, &two, err);
    if (!st)
        st = run_pass(s, &two, err);
    if (!st)
        collect(units, n, &one, &two);
    free_seqs(&two, units, n);
    free_seqs(&one, units, n);
    for (int64_t i = 0; i < n; i++)
        infq_seq_free(units[i].seq);
    return st;
}

static int64_t count_of(const infq_score_options *o, const infq_task *task)
{
    return o->order && o->n_order > 0 ? o->n_order : infq_task_count(task);
}

/* Encodes items from `at` until the batch is full; at least one. */
static infq_status fill_batch(const scorer *s, const infq_task *task, int64_t at, unit *units, int64_t cap, int64_t *n,
                              infq_err *err)
{
    int64_t tokens = 0, n_docs = count_of(s->o, task);
    int64_t room = s->o->batch > 0 ? MAX_TOKENS : AUTO_TOKENS;

    for (*n = 0; *n < cap && at + *n < n_docs && (*n == 0 || tokens < room); ++*n) {
        int64_t doc = s->o->order ? s->o->order[at + *n] : at + *n;
        infq_status st = prepare_unit(s, infq_task_get(task, doc), &units[*n], err);
        if (st)
            return infq_err_in(err, "item %lld", (long long)doc);
        tokens += units[*n].n_tokens;
    }
    return 0;
}

static infq_status score_batch(const scorer *s, const infq_task *task, unit *units, int64_t n, infq_items *items,
                               infq_item_log *log, infq_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        infq_item *it;
        INFQ_TRY(infq_items_add(items, units[i].doc->n_requests, &it, err));
        it->doc = units[i].doc->doc;
        it->kind = infq_task_kind_of(task) == INFQ_TASK_TARGET ? INFQ_ITEM_TARGET : INFQ_ITEM_CHOICE;
        it->gold = it->kind == INFQ_ITEM_CHOICE ? units[i].doc->gold : -1;
        INFQ_TRY(request_digest(&units[i], it->request, err));
        it->request[16] = '\0';
        units[i].item = it;
    }
    INFQ_TRY(score_units(s, units, n, err));
    for (int64_t i = 0; i < n && log; i++)
        INFQ_TRY(infq_item_log_add(log, units[i].item, err));
    return 0;
}

/* Items of an earlier run must be those of the task, in the same order; more than are asked for are left out. */
static infq_status check_earlier(const infq_score_options *o, const infq_task *task, infq_items *items, infq_err *err)
{
    infq_items_keep(items, count_of(o, task));
    for (int64_t i = 0; i < infq_items_count(items); i++) {
        const infq_item *it = infq_items_get(items, i);
        const infq_doc *doc = infq_task_get(task, o->order ? o->order[i] : i);
        if (it->doc != doc->doc || it->n != doc->n_requests)
            return infq_err_set(err, INFQ_E_EXISTS,
                                "the item file holds document %lld where %lld comes (a line is missing, or another order): "
                                "remove it or name another",
                                (long long)it->doc, (long long)doc->doc);
    }
    return 0;
}

infq_status infq_score_task(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_score_options *o,
                            infq_items *items, infq_item_log *log, infq_err *err)
{
    scorer s = {m, tok, o, o->context, NULL};
    int64_t cap = o->batch > 0 ? o->batch : AUTO_ITEMS, n, total = count_of(o, task);
    unit *units = NULL;
    bool stop = false;
    infq_status st;

    if (infq_task_kind_of(task) == INFQ_TASK_GENERATE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s generates text, which has no log-likelihoods", infq_task_name(task));
    if (s.limit <= 0 || s.limit > infq_model_config(m)->max_positions)
        s.limit = infq_model_config(m)->max_positions;
    if (check_earlier(o, task, items, err))
        return infq_err_in(err, "%s", infq_task_name(task));
    INFQ_TRY(infq_arena_new((size_t)1 << 18, &s.arena, err));
    st = infq_mem_new((size_t)cap, sizeof(*units), "batch", (void **)&units, err);
    for (int64_t at = infq_items_count(items); at < total && !st && !stop; at += n) {
        infq_mark mark = infq_arena_mark(s.arena);
        if (infq_interrupted)
            st = infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld of %lld items", (long long)at, (long long)total);
        if (!st)
            st = fill_batch(&s, task, at, units, cap, &n, err);
        if (!st)
            st = score_batch(&s, task, units, n, items, log, err);
        infq_arena_release(s.arena, mark);
        if (!st)
            infq_progress(o->log, infq_task_name(task), (uint64_t)(at + n), (uint64_t)total);
        if (!st && o->hook)
            st = o->hook(o->hook_ctx, items, &stop, err);
    }
    infq_mem_free(units);
    infq_arena_free(s.arena);
    return st ? infq_err_in(err, "%s", infq_task_name(task)) : 0;
}

/* Share of instructions followed, over all instructions; shares x of the items become counts. */
static infq_status pool(const infq_items *items, double *x, infq_score *sc, infq_err *err)
{
    double *parts;
    infq_ratio r;

    INFQ_TRY(infq_mem_new((size_t)sc->n, sizeof(*parts), "instructions", (void **)&parts, err));
    for (int64_t i = 0; i < sc->n; i++) {
        parts[i] = (double)infq_items_get(items, i)->parts;
        x[i] *= parts[i];
    }
    r = infq_ratio_of(x, parts, sc->n);
    infq_mem_free(parts);
    sc->mean = r.r;
    sc->se = r.se;
    return 0;
}

infq_status infq_score_summary(const infq_items *items, infq_score *out, int cap, int *n_out, infq_err *err)
{
    int64_t n = infq_items_count(items);
    const infq_item *first = n > 0 ? infq_items_get(items, 0) : NULL;
    double *x = NULL;
    infq_status st = infq_mem_new((size_t)(n > 0 ? n : 1), sizeof(*x), "scores", (void **)&x, err);

    *n_out = 0;
    for (int k = 0; !st && first && k < first->n_metrics && *n_out < cap; k++) {
        infq_score *sc = &out[*n_out];
        infq_moments mo;
        for (int64_t i = 0; i < n && !st; i++)
            if (!infq_item_metric_get(infq_items_get(items, i), first->metrics[k].name, &x[i]))
                st = infq_err_set(err, INFQ_E_FORMAT, "item %lld has no %s", (long long)i, first->metrics[k].name);
        if (st)
            break;
        mo = infq_moments_of(x, n);
        *sc = (infq_score){.n = n, .mean = mo.mean, .se = mo.se};
        memcpy(sc->name, first->metrics[k].name, sizeof(sc->name));
        if (strcmp(sc->name, "ll") == 0 && first->kind == INFQ_ITEM_TARGET) { // reported as what users know
            snprintf(sc->name, sizeof(sc->name), "perplexity");
            sc->mean = exp(-mo.mean);
            sc->se = sc->mean * mo.se;
        }
        if (first->kind == INFQ_ITEM_GENERATE && infq_str_starts(sc->name, "inst_"))
            st = pool(items, x, sc, err);
        ++*n_out;
    }
    infq_mem_free(x);
    return st;
}
