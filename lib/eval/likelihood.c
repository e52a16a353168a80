#include "lib/eval/likelihood.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/backend/softmax.h"

#define CHUNK_ROWS 64        /* rows of logits held at once */
#define KEEP_FROM 64         /* tokens that keeping a beginning for the next batch must save in this one */
#define EXTEND_FROM 32       /* tokens by which a kept beginning must grow to be computed anew */
#define SHARE_FROM 2         /* tokens of a beginning that some queries share */
#define LEVELS 2             /* passes: what queries share, then the rest; a pass reads every weight, so more do not pay */

infq_status infq_score_rows(infq_model *m, const float *hidden, int64_t n_rows, const infq_row_target *targets, int64_t n_targets,
                            double *lp, bool *greedy, int64_t *bad, infq_err *err)
{
    int64_t vocab = infq_model_config(m)->vocab, width = infq_model_config(m)->hidden, at = 0;
    float *logits = NULL;
    size_t n_logits;
    int32_t top[CHUNK_ROWS];
    double lse[CHUNK_ROWS];
    infq_status st = 0;

    if (n_rows == 0 || n_targets == 0)
        return 0;
    if (!infq_mul_size((size_t)(n_rows < CHUNK_ROWS ? n_rows : CHUNK_ROWS), (size_t)vocab, &n_logits))
        return infq_err_set(err, INFQ_E_NOMEM, "logits of %lld entries do not fit in memory", (long long)vocab);
    INFQ_TRY(infq_mem_new(n_logits, sizeof(float), "logits", (void **)&logits, err));
    for (int64_t row = 0; row < n_rows && at < n_targets && !st; row += CHUNK_ROWS) {
        int64_t rows = n_rows - row < CHUNK_ROWS ? n_rows - row : CHUNK_ROWS;
        if (targets[at].row >= row + rows)
            continue;
        st = infq_model_logits(m, hidden + row * width, rows, true, logits, err);
        if (!st)
            infq_logsumexp_rows(logits, rows, vocab, top, lse);
        for (; !st && at < n_targets && targets[at].row < row + rows; at++) {
            int64_t r = targets[at].row - row;
            lp[at] = (double)logits[r * vocab + targets[at].id] - lse[r];
            if (greedy)
                greedy[at] = top[r] == targets[at].id;
            if (!isfinite(lp[at]) && !st) {
                st = infq_err_set(err, INFQ_E_NUMERIC, "the model's logits are not finite");
                if (bad)
                    *bad = at;
            }
        }
    }
    infq_mem_free(logits);
    return st;
}

struct infq_likelihood {
    infq_model *m;
    infq_likelihood_options o;
    infq_arena *arena;       /* of a batch */
    infq_seq *kept;          /* cache of kept_ids[0..n_kept), NULL when nothing is kept */
    int32_t *kept_ids;
    float *kept_hidden;      /* [n_kept][hidden] */
    int64_t n_kept;
    infq_likelihood_bad bad;
    infq_likelihood_count count;
};

/* Tokens start..end of queries lo..hi of the sorted list, computed once. */
typedef struct {
    int64_t parent;          /* -1: what is kept, or nothing */
    int64_t lo, hi, start, end;
    int64_t from;            /* first position whose hidden row is asked for; end: none */
    int64_t n_children, row0;
    int level;
    infq_seq *seq;
} node;

/* A query in the sorted list. */
typedef struct {
    infq_query *q;
    int64_t index, n_fed, slot; /* slot: of its first log-probability */
} entry;

typedef struct {
    infq_likelihood *l;
    entry *e;
    int64_t n;
    node *nodes;
    int64_t n_nodes, base;   /* base: tokens that are kept */
    double *lp;
    bool *greedy;
    infq_err *err;
} batch;

infq_likelihood_options infq_likelihood_options_default(void)
{
    return (infq_likelihood_options){.share = true, .cache_bytes = (size_t)64 << 20};
}

infq_status infq_likelihood_new(infq_model *m, const infq_likelihood_options *o, infq_likelihood **out, infq_err *err)
{
    infq_likelihood *l;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*l), "log-likelihoods", (void **)&l, err));
    l->m = m;
    l->o = *o;
    l->bad = (infq_likelihood_bad){-1, -1};
    st = infq_arena_new((size_t)1 << 18, &l->arena, err);
    if (st)
        infq_mem_free(l);
    else
        *out = l;
    return st;
}

static void forget(infq_likelihood *l)
{
    infq_seq_free(l->kept);
    infq_mem_free(l->kept_ids);
    infq_mem_free(l->kept_hidden);
    l->kept = NULL;
    l->kept_ids = NULL;
    l->kept_hidden = NULL;
    l->n_kept = 0;
}

void infq_likelihood_free(infq_likelihood *l)
{
    if (!l)
        return;
    forget(l);
    infq_arena_free(l->arena);
    infq_mem_free(l);
}

infq_likelihood_bad infq_likelihood_bad_get(const infq_likelihood *l)
{
    return l->bad;
}

infq_likelihood_count infq_likelihood_count_get(const infq_likelihood *l)
{
    return l->count;
}

size_t infq_likelihood_shared_bytes(const infq_likelihood *l, int64_t n_shared)
{
    return infq_model_kv_bytes(infq_model_config(l->m), n_shared);
}

size_t infq_likelihood_own_bytes(const infq_likelihood *l, int64_t n_own)
{
    size_t whole = infq_model_kv_bytes(infq_model_config(l->m), n_own);

    return n_own > INFQ_BRIEF_TOKENS ? whole : whole / (size_t)infq_model_config(l->m)->n_layers;
}

static int64_t common(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b)
{
    int64_t n = n_a < n_b ? n_a : n_b, i = 0;

    while (i < n && a[i] == b[i])
        i++;
    return i;
}

static int by_ids(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int64_t i = common(x->q->ids, x->n_fed, y->q->ids, y->n_fed);

    if (i < x->n_fed && i < y->n_fed)
        return x->q->ids[i] < y->q->ids[i] ? -1 : 1;
    if (x->n_fed != y->n_fed)
        return x->n_fed < y->n_fed ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static infq_status sort_queries(batch *b, infq_query *q, int64_t n)
{
    int64_t slots = 0;

    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)n, sizeof(*b->e), "queries", (void **)&b->e, b->err));
    INFQ_TRY(infq_arena_alloc(b->l->arena, 2 * (size_t)n, sizeof(*b->nodes), "nodes", (void **)&b->nodes, b->err));
    for (int64_t i = 0; i < n; i++) {
        INFQ_BUG_ON(q[i].n_ctx < 1 || q[i].n_ctx > q[i].n);
        b->e[i] = (entry){&q[i], i, q[i].n > q[i].n_ctx ? q[i].n - 1 : 0, slots};
        slots += q[i].n - q[i].n_ctx;
        b->l->count.asked += b->e[i].n_fed;
    }
    b->n = n;
    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)slots + 1, sizeof(*b->lp), "log-probabilities", (void **)&b->lp, b->err));
    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)slots + 1, sizeof(*b->greedy), "flags", (void **)&b->greedy, b->err));
    qsort(b->e, (size_t)n, sizeof(*b->e), by_ids);
    return 0;
}

static int64_t add_node(batch *b, int64_t parent, int level, int64_t lo, int64_t hi, int64_t start, int64_t end)
{
    node *d = &b->nodes[b->n_nodes];

    *d = (node){.parent = parent, .lo = lo, .hi = hi, .start = start, .end = end, .from = end, .level = level};
    for (int64_t i = lo; i < hi; i++)
        if (b->e[i].q->n_ctx - 1 < d->from)
            d->from = b->e[i].q->n_ctx - 1;
    if (d->from < start)
        d->from = start;
    if (parent >= 0)
        b->nodes[parent].n_children++;
    return b->n_nodes++;
}

/* Nodes for queries lo..hi, which agree before `start`. */
static void build(batch *b, int64_t lo, int64_t hi, int64_t start, int64_t parent, int level)
{
    const entry *e = b->e;
    int64_t shared, i = lo;

    if (hi - lo == 1 || level + 1 >= LEVELS || !b->l->o.share) {
        for (; i < hi; i++)
            if (e[i].n_fed > start)
                add_node(b, parent, level, i, i + 1, start, e[i].n_fed);
        return;
    }
    shared = common(e[lo].q->ids, e[lo].n_fed, e[hi - 1].q->ids, e[hi - 1].n_fed);
    if (shared - start >= SHARE_FROM) {
        parent = add_node(b, parent, level, lo, hi, start, shared);
        start = shared;
        level++;
    }
    for (; i < hi && e[i].n_fed == shared; i++) // ends where the others go on
        if (shared > start)
            add_node(b, parent, level, i, i + 1, start, shared);
    while (i < hi) {
        int64_t end = i + 1;
        while (end < hi && e[end].q->ids[shared] == e[i].q->ids[shared])
            end++;
        build(b, i, end, start, parent, level);
        i = end;
    }
}

/* Sequences of a level's nodes behind the parent's, or what is kept: brief ones where nobody goes on from them. */
static infq_status open_seqs(batch *b, int level)
{
    for (int64_t i = 0; i < b->n_nodes; i++) {
        node *d = &b->nodes[i];
        const infq_seq *before = d->parent >= 0 ? b->nodes[d->parent].seq : b->base > 0 ? b->l->kept : NULL;
        if (d->level != level)
            continue;
        if (d->n_children == 0 && d->end - d->start <= INFQ_BRIEF_TOKENS)
            INFQ_TRY(infq_seq_brief(b->l->m, before, d->start, &d->seq, b->err));
        else if (before)
            INFQ_TRY(infq_seq_fork(before, d->start, &d->seq, b->err));
        else
            INFQ_TRY(infq_seq_new(b->l->m, &d->seq, b->err));
    }
    return 0;
}

/* Targets that node rows (from position `from` to `end`, the first being row0) answer, in order of rows. */
static int64_t put_targets(const batch *b, int64_t lo, int64_t hi, int64_t from, int64_t end, int64_t row0, infq_row_target *t, int64_t *slot)
{
    int64_t n = 0;

    for (int64_t p = from; p < end; p++) {
        for (int64_t i = lo; i < hi; i++) {
            const entry *e = &b->e[i];
            if (p < e->q->n_ctx - 1 || p >= e->n_fed)
                continue;
            if (t) {
                t[n] = (infq_row_target){row0 + p - from, e->q->ids[p + 1]};
                slot[n] = e->slot + p - (e->q->n_ctx - 1);
            }
            n++;
        }
    }
    return n;
}

/* First stage with a value that is not finite. */
static void watch_stage(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden)
{
    int *first = ctx;

    for (int64_t i = 0; *first < 0 && i < n_tokens * hidden; i++)
        if (!isfinite(x[i]))
            *first = stage;
}

/* Runs the query by itself to see where values stop to be finite. */
static void find_stage(infq_likelihood *l, const infq_query *q)
{
    int first = -1;
    infq_forward_options f = {.invariant = true, .on_stage = watch_stage, .ctx = &first};
    infq_segment g = {.tokens = q->ids, .n_tokens = q->n - 1};
    infq_err ignored;

    if (infq_seq_new(l->m, &g.seq, &ignored))
        return;
    if (infq_model_forward(l->m, &g, 1, &f, NULL, &ignored) == 0)
        l->bad.stage = first >= 0 ? first : (int)infq_model_config(l->m)->n_layers + 2;
    infq_seq_free(g.seq);
}

static infq_status score(batch *b, const float *hidden, int64_t n_rows, const infq_row_target *t, const int64_t *slot, int64_t n)
{
    double *lp;
    bool *greedy;
    int64_t bad = -1;
    infq_status st;

    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)n, sizeof(*lp), "log-probabilities", (void **)&lp, b->err));
    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)n, sizeof(*greedy), "flags", (void **)&greedy, b->err));
    st = infq_score_rows(b->l->m, hidden, n_rows, t, n, lp, greedy, &bad, b->err);
    for (int64_t i = 0; i < n && !st; i++) {
        b->lp[slot[i]] = lp[i];
        b->greedy[slot[i]] = greedy[i];
    }
    for (int64_t i = 0; bad >= 0 && i < b->n; i++) {
        const entry *e = &b->e[i];
        if (slot[bad] < e->slot || slot[bad] >= e->slot + e->q->n - e->q->n_ctx)
            continue;
        b->l->bad = (infq_likelihood_bad){e->index, -1};
        find_stage(b->l, e->q);
        break;
    }
    return st;
}

/* Makes and scores the rows of one level. */
static infq_status run_level(batch *b, int level)
{
    infq_likelihood *l = b->l;
    infq_forward_options f = {.invariant = true};
    infq_segment *segs;
    infq_row_target *t;
    float *hidden = NULL;
    int64_t n_segs = 0, n_rows = 0, n = 0, *slot, at = 0;
    size_t n_floats;
    infq_status st;

    for (int64_t i = 0; i < b->n_nodes; i++) {
        node *d = &b->nodes[i];
        if (d->level != level)
            continue;
        d->row0 = n_rows;
        n_rows += d->end - d->from;
        n += put_targets(b, d->lo, d->hi, d->from, d->end, 0, NULL, NULL);
        n_segs++;
    }
    if (n_segs == 0)
        return 0;
    INFQ_TRY(infq_arena_alloc(l->arena, (size_t)n_segs, sizeof(*segs), "segments", (void **)&segs, b->err));
    INFQ_TRY(infq_arena_alloc(l->arena, (size_t)n + 1, sizeof(*t), "targets", (void **)&t, b->err));
    INFQ_TRY(infq_arena_alloc(l->arena, (size_t)n + 1, sizeof(*slot), "slots", (void **)&slot, b->err));
    INFQ_TRY(open_seqs(b, level));
    n_segs = 0;
    for (int64_t i = 0; i < b->n_nodes; i++) {
        node *d = &b->nodes[i];
        if (d->level != level)
            continue;
        segs[n_segs++] = (infq_segment){d->seq, b->e[d->lo].q->ids + d->start, d->end - d->start, d->end - d->from};
        at += put_targets(b, d->lo, d->hi, d->from, d->end, d->row0, t + at, slot + at);
        l->count.computed += d->end - d->start;
    }
    if (!infq_mul_size((size_t)n_rows + 1, (size_t)infq_model_config(l->m)->hidden, &n_floats))
        return infq_err_set(b->err, INFQ_E_NOMEM, "%lld rows do not fit in memory", (long long)n_rows);
    INFQ_TRY(infq_mem_new(n_floats, sizeof(float), "hidden states", (void **)&hidden, b->err));
    st = infq_model_forward(l->m, segs, n_segs, &f, hidden, b->err);
    if (!st)
        st = score(b, hidden, n_rows, t, slot, n);
    infq_mem_free(hidden);
    for (int64_t i = 0; i < b->n_nodes; i++) { // nobody goes on from these
        node *d = &b->nodes[i];
        if (d->level == level && d->n_children == 0) {
            infq_seq_free(d->seq);
            d->seq = NULL;
        }
    }
    return st;
}

/* Computes ids[0..n) anew as what is kept. */
static infq_status keep(infq_likelihood *l, const int32_t *ids, int64_t n, infq_err *err)
{
    infq_forward_options f = {.invariant = true};
    int64_t from;
    infq_segment g;
    float *hidden;
    size_t width = (size_t)infq_model_config(l->m)->hidden, n_floats;
    int32_t *copy;
    infq_status st;

    if (l->kept && common(l->kept_ids, l->n_kept, ids, n) < l->n_kept)
        forget(l);
    from = l->n_kept;
    if (!infq_mul_size((size_t)n, width, &n_floats))
        return infq_err_set(err, INFQ_E_NOMEM, "%lld rows do not fit in memory", (long long)n);
    copy = infq_mem_realloc(l->kept_ids, (size_t)n * sizeof(*copy));
    if (copy)
        l->kept_ids = copy;
    hidden = copy ? infq_mem_realloc(l->kept_hidden, n_floats * sizeof(*hidden)) : NULL;
    if (!hidden)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for %lld rows", (long long)n);
    l->kept_hidden = hidden;
    memcpy(l->kept_ids, ids, (size_t)n * sizeof(*ids));
    if (!l->kept)
        INFQ_TRY(infq_seq_new(l->m, &l->kept, err));
    g = (infq_segment){l->kept, ids + from, n - from, n - from};
    st = infq_model_forward(l->m, &g, 1, &f, hidden + (size_t)from * width, err);
    if (st) {
        forget(l);
        return st;
    }
    l->n_kept = n;
    l->count.computed += n - from;
    return 0;
}

/* What all queries begin with is taken from, or put into, what is kept; at least one fed token stays for each query's own node or none. */
static infq_status take_base(batch *b)
{
    infq_likelihood *l = b->l;
    const entry *first = &b->e[0], *last = &b->e[b->n - 1];
    int64_t shared = common(first->q->ids, first->n_fed, last->q->ids, last->n_fed), have;

    b->base = 0;
    if (!l->o.share || b->n < 2)
        return 0;
    have = common(l->kept_ids, l->n_kept, first->q->ids, shared);
    // a shorter beginning than last time stays good for both
    if (have > 0 && have < l->n_kept) {
        infq_seq_truncate(l->kept, have);
        l->n_kept = have;
    }
    if ((have == 0 && shared * (b->n - 1) >= KEEP_FROM) || (have > 0 && shared - have >= EXTEND_FROM)) {
        INFQ_TRY(keep(l, first->q->ids, shared, b->err));
        have = shared;
    }
    b->base = have;
    return 0;
}

/* Rows of the kept part that queries ask of. */
static infq_status score_base(batch *b)
{
    infq_row_target *t;
    int64_t *slot, n = put_targets(b, 0, b->n, 0, b->base, 0, NULL, NULL);

    if (n == 0)
        return 0;
    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)n, sizeof(*t), "targets", (void **)&t, b->err));
    INFQ_TRY(infq_arena_alloc(b->l->arena, (size_t)n, sizeof(*slot), "slots", (void **)&slot, b->err));
    put_targets(b, 0, b->n, 0, b->base, 0, t, slot);
    // rows in front of the first one asked of make no logits
    return score(b, b->l->kept_hidden, b->base, t, slot, n);
}

static void sum_up(batch *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        infq_query *q = b->e[i].q;
        q->ll = 0;
        q->greedy = true;
        for (int64_t k = 0; k < q->n - q->n_ctx; k++) {
            q->ll += b->lp[b->e[i].slot + k];
            q->greedy = q->greedy && b->greedy[b->e[i].slot + k];
        }
    }
}

infq_status infq_likelihood_run(infq_likelihood *l, infq_query *q, int64_t n, infq_err *err)
{
    infq_mark mark = infq_arena_mark(l->arena);
    batch b = {.l = l, .err = err};
    infq_status st;

    l->bad = (infq_likelihood_bad){-1, -1};
    if (n == 0)
        return 0;
    st = sort_queries(&b, q, n);
    if (!st)
        st = take_base(&b);
    if (!st) {
        build(&b, 0, n, b.base, -1, 0);
        st = score_base(&b);
    }
    for (int level = 0; level < LEVELS && !st; level++)
        st = run_level(&b, level);
    for (int64_t i = 0; i < b.n_nodes; i++)
        infq_seq_free(b.nodes[i].seq);
    if (!st)
        sum_up(&b);
    infq_arena_release(l->arena, mark);
    return st;
}
