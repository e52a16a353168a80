#include "lib/eval/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/eval/score_int.h"
#include "lib/eval/stats.h"

#define AUTO_TOKENS 2048     /* tokens a batch when its size is chosen here */
#define AUTO_ITEMS 256
#define MAX_TOKENS 16384     /* of a batch of any size */
#define CACHE_SHARE 4        /* a batch's cache may take this part of the weights' bytes, where that is more than the default */

infq_score_options infq_score_options_default(void)
{
    return (infq_score_options){.bos = INFQ_BOS_MODEL};
}

typedef struct {
    infq_score_input in;
    int64_t n_tokens;        /* fed if the choices' common beginning is computed once */
    size_t cache;            /* bytes, about */
} unit;

typedef struct {
    infq_model *m;
    const infq_tokenizer *tok;
    const infq_score_options *o;
    const infq_task *task;
    infq_likelihood *engine;
    int64_t limit;           /* longest input */
    size_t cache_bytes;      /* of a batch */
    int64_t total;
    infq_arena *arena;       /* of the batch */
} scorer;

static infq_status prepare(const scorer *s, const infq_doc *d, unit *u, infq_err *err)
{
    memset(u, 0, sizeof(*u));
    INFQ_TRY(infq_score_encode(s->tok, s->o->bos, s->limit, d, s->arena, &u->in, err));
    for (int64_t i = 0; i < d->n_requests; i++) {
        const infq_query *q = &u->in.q[i], *before = i > 0 ? &u->in.q[i - 1] : NULL;
        int64_t shared = 0;
        while (before && shared + 1 < q->n && shared + 1 < before->n && q->ids[shared] == before->ids[shared])
            shared++;
        u->n_tokens += q->n - 1 - shared;
        u->cache += infq_likelihood_own_bytes(s->engine, q->n - shared);
        if (i == 1)
            u->cache += infq_likelihood_shared_bytes(s->engine, shared);
    }
    return 0;
}

static int64_t doc_at(const scorer *s, int64_t i)
{
    return s->o->order ? s->o->order[i] : i;
}

/* Encodes items from `at` until the batch is full: by items, tokens, cache. At least one. */
static infq_status fill_batch(const scorer *s, int64_t at, unit *units, int64_t cap, int64_t *n, infq_err *err)
{
    int64_t tokens = 0, room = s->o->batch > 0 ? MAX_TOKENS : AUTO_TOKENS;
    size_t cache = 0;

    for (*n = 0; *n < cap && at + *n < s->total && (*n == 0 || (tokens < room && cache < s->cache_bytes)); ++*n) {
        int64_t doc = doc_at(s, at + *n);
        infq_status st = prepare(s, infq_task_get(s->task, doc), &units[*n], err);
        if (st)
            return infq_err_in(err, "item %lld", (long long)doc);
        tokens += units[*n].n_tokens;
        cache += units[*n].cache;
    }
    return 0;
}

/* "the model's logits are not finite": of which item, and from which layer on. */
static infq_status name_item(const scorer *s, const unit *units, int64_t n, infq_err *err)
{
    infq_likelihood_bad bad = infq_likelihood_bad_get(s->engine);
    int64_t layers = infq_model_config(s->m)->n_layers, at = bad.query;
    char where[64] = "";

    if (err->code != INFQ_E_NUMERIC || bad.query < 0)
        return err->code;
    if (bad.stage == 0)
        snprintf(where, sizeof(where), ", nor are the embeddings");
    else if (bad.stage > 0 && bad.stage <= layers)
        snprintf(where, sizeof(where), ", nor is what layer %d leaves", bad.stage - 1);
    else if (bad.stage == layers + 1)
        snprintf(where, sizeof(where), ", nor is what the final norm leaves");
    for (int64_t i = 0; i < n; at -= units[i++].in.doc->n_requests)
        if (at < units[i].in.doc->n_requests)
            return infq_err_set(err, INFQ_E_NUMERIC, "item %lld, choice %lld: the model's logits are not finite%s",
                                (long long)units[i].in.doc->doc, (long long)at, where);
    return err->code;
}

static infq_status run_units(const scorer *s, unit *units, int64_t n, infq_err *err)
{
    infq_query *all;
    int64_t n_q = 0, at = 0;

    for (int64_t i = 0; i < n; i++)
        n_q += units[i].in.doc->n_requests;
    INFQ_TRY(infq_arena_alloc(s->arena, (size_t)n_q, sizeof(*all), "queries", (void **)&all, err));
    for (int64_t i = 0; i < n; at += units[i++].in.doc->n_requests)
        memcpy(all + at, units[i].in.q, (size_t)units[i].in.doc->n_requests * sizeof(*all));
    if (infq_likelihood_run(s->engine, all, n_q, err))
        return name_item(s, units, n, err);
    for (int64_t i = 0, k = 0; i < n; k += units[i++].in.doc->n_requests)
        memcpy(units[i].in.q, all + k, (size_t)units[i].in.doc->n_requests * sizeof(*all));
    return 0;
}

static infq_status put_item(const scorer *s, const unit *u, infq_items *items, infq_item_log *log, infq_err *err)
{
    infq_item *it;

    INFQ_TRY(infq_score_item_new(s->task, u->in.doc, items, &it, err));
    it->cut = u->in.cut;
    INFQ_TRY(infq_score_digest(&u->in, it->request, err));
    for (int64_t k = 0; k < it->n; k++) {
        it->ll[k] = u->in.q[k].ll;
        it->greedy[k] = u->in.q[k].greedy;
        it->n_tokens[k] = u->in.q[k].n - u->in.q[k].n_ctx;
    }
    infq_item_finish(it);
    return log ? infq_item_log_add(log, it, err) : 0;
}

static infq_status score_batches(scorer *s, unit *units, int64_t cap, infq_items *items, infq_item_log *log, infq_err *err)
{
    bool stop = false;
    int64_t n;

    for (int64_t at = infq_items_count(items); at < s->total && !stop; at += n) {
        infq_mark mark = infq_arena_mark(s->arena);
        infq_status st;
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld of %lld items", (long long)at, (long long)s->total);
        st = fill_batch(s, at, units, cap, &n, err);
        if (!st)
            st = run_units(s, units, n, err);
        for (int64_t i = 0; i < n && !st; i++)
            st = put_item(s, &units[i], items, log, err);
        infq_arena_release(s->arena, mark);
        INFQ_TRY(st);
        infq_progress(s->o->log, infq_task_name(s->task), (uint64_t)(at + n), (uint64_t)s->total);
        if (s->o->hook)
            INFQ_TRY(s->o->hook(s->o->hook_ctx, items, &stop, err));
    }
    return 0;
}

infq_status infq_score_task(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_score_options *o,
                            infq_items *items, infq_item_log *log, infq_err *err)
{
    infq_likelihood_options lo = infq_likelihood_options_default();
    scorer s = {.m = m, .tok = tok, .o = o, .task = task, .limit = o->context};
    int64_t cap = o->batch > 0 ? o->batch : AUTO_ITEMS;
    unit *units = NULL;
    infq_status st;

    if (infq_task_kind_of(task) == INFQ_TASK_GENERATE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s generates text, which has no log-likelihoods", infq_task_name(task));
    s.total = o->order && o->n_order > 0 ? o->n_order : infq_task_count(task);
    if (s.limit <= 0 || s.limit > infq_model_config(m)->max_positions)
        s.limit = infq_model_config(m)->max_positions;
    lo.share = !o->no_sharing;
    if (infq_model_weight_bytes(m) / CACHE_SHARE > lo.cache_bytes)
        lo.cache_bytes = infq_model_weight_bytes(m) / CACHE_SHARE;
    s.cache_bytes = lo.cache_bytes;
    st = infq_score_check_earlier(task, s.total, o->order, items, err);
    if (!st)
        st = infq_arena_new((size_t)1 << 18, &s.arena, err);
    if (!st)
        st = infq_likelihood_new(m, &lo, &s.engine, err);
    if (!st)
        st = infq_mem_new((size_t)cap, sizeof(*units), "batch", (void **)&units, err);
    if (!st)
        st = score_batches(&s, units, cap, items, log, err);
    infq_mem_free(units);
    infq_likelihood_free(s.engine);
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
