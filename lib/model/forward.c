/* One forward pass for all rows of arch.c. A batch is cut into chunks of at most INFQ_CHUNK tokens; in a chunk the linear
 * layers see all rows at once, attention goes sequence by sequence. Nothing is allocated between the first and the last layer. */
#include <string.h>

#include "lib/base/par.h"
#include "lib/model/model_int.h"

#define TRY_DEVICE(m, p, n, what)                                                                  \
    do {                                                                                           \
        void *old_ = (p);                                                                          \
        (p) = NULL;                                                                                \
        infq_status dev_st_ = infq_model_device((m), &old_, (n), sizeof(*(p)), (what), err);       \
        (p) = old_;                                                                                \
        if (dev_st_)                                                                               \
            return dev_st_;                                                                        \
    } while (0)

static infq_status reserve_work(infq_model *m, int64_t n, infq_err *err)
{
    const infq_config *c = &m->c;
    infq_work *w = &m->work;
    int64_t cap = w->n_tokens, q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;

    if (n <= cap)
        return INFQ_E_OK;
    cap = 2 * cap > n ? 2 * cap : n;
    cap = cap > INFQ_CHUNK ? INFQ_CHUNK : cap;
    w->n_tokens = 0;
    TRY_DEVICE(m, w->x, cap * c->hidden, "the residual stream");
    TRY_DEVICE(m, w->h, cap * c->hidden, "layer inputs");
    TRY_DEVICE(m, w->qkv, cap * (q + 2 * kv), "queries, keys and values");
    TRY_DEVICE(m, w->att, cap * q, "attention outputs");
    TRY_DEVICE(m, w->gate, cap * c->ffn, "feed-forward rows");
    TRY_DEVICE(m, w->up, cap * c->ffn, "feed-forward rows");
    TRY_DEVICE(m, w->ids, cap, "token ids");
    TRY_DEVICE(m, w->positions, cap, "positions");
    w->n_tokens = cap;
    return INFQ_E_OK;
}

static infq_status reserve_rows(infq_model *m, int64_t n, infq_err *err)
{
    infq_work *w = &m->work;

    if (n <= w->n_rows)
        return INFQ_E_OK;
    w->n_rows = 0;
    TRY_DEVICE(m, w->rows, n * m->c.hidden, "hidden rows");
    TRY_DEVICE(m, w->logits, n * m->c.vocab, "logits");
    w->n_rows = n;
    return INFQ_E_OK;
}

// The rotary table grows by doubling; its values do not depend on how far it reaches.
static infq_status reserve_rope(infq_model *m, int64_t n, infq_err *err)
{
    int64_t n_rot = infq_rope_n_rot(&m->c), cap = m->n_cos_sin ? m->n_cos_sin : 256;
    void *host;
    infq_status st;

    if (n_rot == 0 || n <= m->n_cos_sin)
        return INFQ_E_OK;
    while (cap < n)
        cap *= 2;
    cap = cap > m->max_context ? m->max_context : cap;
    m->n_cos_sin = 0;
    TRY_DEVICE(m, m->cos_sin, cap * n_rot, "the rotary table");
    INFQ_TRY(infq_mem_new((size_t)(cap * n_rot), sizeof(float), "the rotary table", &host, err));
    infq_rope_table(&m->c, m->max_context, 0, cap, host);
    st = m->be->ops.upload(m->be->state, m->cos_sin, host, (size_t)(cap * n_rot) * sizeof(float), err);
    infq_mem_free(host);
    if (!st)
        m->n_cos_sin = cap;
    return st;
}

static infq_status check_segments(infq_model *m, const infq_segment *segs, int64_t n_segs, infq_err *err)
{
    for (int64_t i = 0; i < n_segs; i++) {
        const infq_segment *g = &segs[i];

        if (g->seq->m != m || g->seq->in_batch)
            return infq_err_set(err, INFQ_E_USAGE, "a sequence is of another model, or twice in one batch");
        g->seq->in_batch = true;
        if (g->n_tokens < 0 || g->n_last < 0 || g->n_last > g->n_tokens)
            return infq_err_set(err, INFQ_E_USAGE, "hidden states of %lld of %lld tokens are asked for",
                                (long long)g->n_last, (long long)g->n_tokens);
        if (g->seq->brief && (g->seq->spent || g->n_tokens > INFQ_BRIEF_TOKENS))
            return infq_err_set(err, INFQ_E_USAGE, "a brief sequence has one pass, of at most %d tokens", INFQ_BRIEF_TOKENS);
        if (g->n_tokens > m->max_context - g->seq->len)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%lld tokens behind %lld exceed the context of %lld",
                                (long long)g->n_tokens, (long long)g->seq->len, (long long)m->max_context);
        for (int64_t t = 0; t < g->n_tokens; t++)
            if (g->tokens[t] < 0 || g->tokens[t] >= m->c.vocab)
                return infq_err_set(err, INFQ_E_NUMERIC, "token id %d is outside the vocabulary of %lld", (int)g->tokens[t],
                                    (long long)m->c.vocab);
    }
    return INFQ_E_OK;
}

// What the layers need to know of one chunk.
typedef struct {
    infq_model *m;
    const infq_forward_options *o;
    int64_t n, n_pieces;
    const float *x;      /* host: the residual stream to start with, NULL: the tokens' embedding */
} chunk;

#define MOST_PRODUCTS 3

// y[i] = x . weight of p[i]: products of one input.
static infq_status products(const chunk *k, const infq_param *const *p, float *const *y, int64_t n, const float *x, infq_err *err)
{
    infq_model *m = k->m;
    infq_matmul_args a[MOST_PRODUCTS];

    if (k->o->on_input) {
        INFQ_TRY(m->be->ops.download(m->be->state, m->host_x, x, (size_t)(k->n * p[0]->cols) * sizeof(float), err));
        for (int64_t i = 0; i < n; i++)
            k->o->on_input(k->o->ctx, p[i]->part, m->host_x, k->n, p[i]->cols);
    }
    for (int64_t i = 0; i < n; i++)
        a[i] = (infq_matmul_args){ .w = p[i]->w, .x = x, .bias = p[i]->bias, .y = y[i], .n_tokens = k->n, .invariant = k->o->invariant };
    return m->be->ops.matmul(m->be->state, a, n, err);
}

static infq_status matmul(const chunk *k, const infq_param *p, const float *x, float *y, infq_err *err)
{
    return products(k, &p, &y, 1, x, err);
}

static infq_status norm(const chunk *k, const infq_param *p, const float *x, float *y, int64_t n_rows, int64_t n_cols,
                        infq_err *err)
{
    const infq_backend_ops *ops = &k->m->be->ops;
    infq_norm_args a = { .x = x, .gain = p->gain, .bias = p->bias, .y = y, .n_rows = n_rows, .n_cols = n_cols,
                         .x_stride = n_cols, .y_stride = n_cols, .eps = (float)k->m->c.norm_eps };

    if (p->rows == k->m->c.hidden && (k->m->c.arch->flags & INFQ_ARCH_LAYERNORM))
        return ops->layernorm(k->m->be->state, &a, err);
    return ops->rmsnorm(k->m->be->state, &a, err);
}

static infq_status add(const chunk *k, const float *x, infq_err *err)
{
    infq_add_args a = { .x = x, .y = k->m->work.x, .n = k->n * k->m->c.hidden };

    return k->m->be->ops.add(k->m->be->state, &a, err);
}

static infq_status stage(const chunk *k, int which, const float *x, infq_err *err)
{
    infq_model *m = k->m;

    if (!k->o->on_stage)
        return INFQ_E_OK;
    INFQ_TRY(m->be->ops.download(m->be->state, m->host_x, x, (size_t)(k->n * m->c.hidden) * sizeof(float), err));
    k->o->on_stage(k->o->ctx, which, m->host_x, k->n, m->c.hidden);
    return INFQ_E_OK;
}

static infq_status embed(const chunk *k, infq_err *err)
{
    infq_model *m = k->m;
    const infq_backend_ops *ops = &m->be->ops;
    size_t n_bytes = (size_t)k->n * sizeof(int32_t);
    infq_param *positions = infq_model_param(m, m->c.n_layers, INFQ_SLOT_POSITIONS);
    infq_embed_args a = { .w = infq_model_param(m, m->c.n_layers, INFQ_SLOT_EMBED)->w, .ids = m->work.ids,
                          .y = m->work.x, .n_tokens = k->n };

    INFQ_TRY(ops->upload(m->be->state, m->work.ids, m->host_ids, n_bytes, err));
    INFQ_TRY(ops->upload(m->be->state, m->work.positions, m->host_positions, n_bytes, err));
    INFQ_TRY(ops->embed(m->be->state, &a, err));
    if (!positions->w)
        return INFQ_E_OK;
    a = (infq_embed_args){ .w = positions->w, .ids = m->work.positions, .y = m->work.h, .n_tokens = k->n };
    INFQ_TRY(ops->embed(m->be->state, &a, err));
    return add(k, m->work.h, err);
}

// Where q, k and v of a chunk lie: one fused product, or three with tight rows.
typedef struct {
    float *q, *k, *v;
    int64_t q_stride, kv_stride;
} qkv_view;

static infq_status project(const chunk *c, int64_t layer, qkv_view *out, infq_err *err)
{
    infq_model *m = c->m;
    const infq_param *fused = infq_model_param(m, layer, INFQ_SLOT_QKV);
    int64_t q = m->c.n_heads * m->c.head_dim, kv = m->c.n_kv_heads * m->c.head_dim;
    float *at = m->work.qkv, *h = m->work.h;

    if (fused->w) {
        *out = (qkv_view){ at, at + q, at + q + kv, q + 2 * kv, q + 2 * kv };
        return matmul(c, fused, h, at, err);
    }
    *out = (qkv_view){ at, at + c->n * q, at + c->n * (q + kv), q, kv };
    const infq_param *three[] = { infq_model_param(m, layer, INFQ_SLOT_Q), infq_model_param(m, layer, INFQ_SLOT_K),
                                  infq_model_param(m, layer, INFQ_SLOT_V) };
    float *y[] = { out->q, out->k, out->v };
    return products(c, three, y, 3, h, err);
}

static infq_status rotate(const chunk *c, int64_t layer, const qkv_view *x, infq_err *err)
{
    infq_model *m = c->m;
    const infq_config *cfg = &m->c;
    infq_rope_args a = { .x = x->q, .n_tokens = c->n, .n_heads = cfg->n_heads, .head_dim = cfg->head_dim,
                         .stride = x->q_stride, .n_rot = infq_rope_n_rot(cfg), .positions = m->work.positions,
                         .cos_sin = m->cos_sin };

    if (cfg->qk_norm) {
        INFQ_TRY(norm(c, infq_model_param(m, layer, INFQ_SLOT_Q_NORM), x->q, x->q, c->n * cfg->n_heads, cfg->head_dim, err));
        INFQ_TRY(norm(c, infq_model_param(m, layer, INFQ_SLOT_K_NORM), x->k, x->k, c->n * cfg->n_kv_heads, cfg->head_dim,
                      err));
    }
    if (a.n_rot == 0 || cfg->no_rope[layer])
        return INFQ_E_OK;
    INFQ_TRY(m->be->ops.rope(m->be->state, &a, err));
    a.x = x->k;
    a.n_heads = cfg->n_kv_heads;
    a.stride = x->kv_stride;
    return m->be->ops.rope(m->be->state, &a, err);
}

// Keys and values of one piece go into its pages, then its queries look at them.
static infq_status attend(const chunk *c, int64_t layer, const qkv_view *x, const infq_piece *p, infq_err *err)
{
    infq_model *m = c->m;
    const infq_config *cfg = &m->c;
    infq_seq *s = p->seq;
    float **k_pages = s->k + layer * s->cap_pages, **v_pages = s->v + layer * s->cap_pages;
    int64_t y_stride = cfg->n_heads * cfg->head_dim;
    double scale = cfg->attn_scale / (cfg->attn_scale_by_layer ? (double)(layer + 1) : 1.0);
    infq_kv_store_args st = { .x = x->k + p->row0 * x->kv_stride, .pages = k_pages, .n_tokens = p->n, .pos0 = p->pos0,
                              .n_kv_heads = cfg->n_kv_heads, .head_dim = cfg->head_dim, .x_stride = x->kv_stride,
                              .turned = true };
    infq_attention_args a = { .q = x->q + p->row0 * x->q_stride, .y = m->work.att + p->row0 * y_stride,
                              .k_pages = (const float *const *)k_pages, .v_pages = (const float *const *)v_pages,
                              .n_tokens = p->n, .pos0 = p->pos0, .n_heads = cfg->n_heads,
                              .n_kv_heads = cfg->n_kv_heads, .head_dim = cfg->head_dim, .q_stride = x->q_stride,
                              .y_stride = y_stride, .window = cfg->window[layer], .scale = (float)scale };

    INFQ_TRY(infq_seq_enter_layer(s, layer, err));
    INFQ_TRY(m->be->ops.kv_store(m->be->state, &st, err));
    st.x = x->v + p->row0 * x->kv_stride;
    st.pages = v_pages;
    st.turned = false;
    INFQ_TRY(m->be->ops.kv_store(m->be->state, &st, err));
    return m->be->ops.attention(m->be->state, &a, err);
}

static infq_status feed_forward(const chunk *c, int64_t layer, infq_err *err)
{
    infq_model *m = c->m;
    const infq_param *gate = infq_model_param(m, layer, INFQ_SLOT_GATE);
    const infq_param *two[] = { infq_model_param(m, layer, INFQ_SLOT_UP), gate };
    infq_work *w = &m->work;
    float *y[] = { w->up, w->gate };
    int64_t n = m->c.ffn;
    infq_glu_args a = { .gate = w->up, .y = w->up, .n_rows = c->n, .n_cols = n, .gate_stride = n, .up_stride = n,
                        .y_stride = n, .fn = m->c.act };

    if (gate->w) {
        a.gate = w->gate;
        a.up = w->up;
    }
    INFQ_TRY(products(c, two, y, gate->w ? 2 : 1, w->h, err));
    INFQ_TRY(m->be->ops.glu(m->be->state, &a, err));
    return matmul(c, infq_model_param(m, layer, INFQ_SLOT_DOWN), w->up, w->h, err);
}

static infq_status block(const chunk *c, int64_t layer, infq_err *err)
{
    infq_model *m = c->m;
    infq_work *w = &m->work;
    int64_t hidden = m->c.hidden;
    qkv_view x;

    INFQ_TRY(norm(c, infq_model_param(m, layer, INFQ_SLOT_ATTN_NORM), w->x, w->h, c->n, hidden, err));
    INFQ_TRY(project(c, layer, &x, err));
    INFQ_TRY(rotate(c, layer, &x, err));
    for (int64_t i = 0; i < c->n_pieces; i++)
        INFQ_TRY(attend(c, layer, &x, &m->piece[i], err));
    INFQ_TRY(matmul(c, infq_model_param(m, layer, INFQ_SLOT_O), w->att, w->h, err));
    INFQ_TRY(add(c, w->h, err));
    INFQ_TRY(norm(c, infq_model_param(m, layer, INFQ_SLOT_MLP_NORM), w->x, w->h, c->n, hidden, err));
    INFQ_TRY(feed_forward(c, layer, err));
    INFQ_TRY(add(c, w->h, err));
    return stage(c, (int)layer + 1, w->x, err);
}

// The final norm, on the rows that are wanted (on all of them for the stage hook).
static infq_status finish(const chunk *c, infq_err *err)
{
    infq_model *m = c->m;
    const infq_param *p = infq_model_param(m, m->c.n_layers, INFQ_SLOT_FINAL_NORM);
    int64_t hidden = m->c.hidden;

    if (c->o->on_stage) {
        INFQ_TRY(norm(c, p, m->work.x, m->work.h, c->n, hidden, err));
        INFQ_TRY(stage(c, (int)m->c.n_layers + 1, m->work.h, err));
    }
    for (int64_t i = 0; i < c->n_pieces; i++) {
        const infq_piece *e = &m->piece[i];
        if (e->n_hidden == 0)
            continue;
        INFQ_TRY(norm(c, p, m->work.x + (e->row0 + e->n - e->n_hidden) * hidden, m->work.h, e->n_hidden, hidden, err));
        INFQ_TRY(m->be->ops.download(m->be->state, e->hidden, m->work.h, (size_t)(e->n_hidden * hidden) * sizeof(float),
                                     err));
    }
    return INFQ_E_OK;
}

static infq_status run_chunk(const chunk *c, infq_err *err)
{
    infq_model *m = c->m;

    if (c->x) {
        INFQ_TRY(m->be->ops.upload(m->be->state, m->work.x, c->x, (size_t)(c->n * m->c.hidden) * sizeof(float), err));
        INFQ_TRY(m->be->ops.upload(m->be->state, m->work.positions, m->host_positions, (size_t)c->n * sizeof(int32_t), err));
    } else {
        INFQ_TRY(embed(c, err));
        INFQ_TRY(stage(c, 0, m->work.x, err));
    }
    for (int64_t l = c->x ? c->o->first_layer : 0; l < m->c.n_layers; l++)
        INFQ_TRY(block(c, l, err));
    return finish(c, err);
}

// How far the batch has been cut into chunks.
typedef struct {
    int64_t seg, done;   /* segment, tokens of it that earlier chunks took */
    float *hidden;       /* where the next wanted row goes */
} cut;

// Takes pieces until the chunk is full or the batch ends.
static void next_chunk(chunk *k, const infq_segment *segs, int64_t n_segs, cut *at)
{
    infq_model *m = k->m;

    k->n = k->n_pieces = 0;
    while (at->seg < n_segs && k->n < INFQ_CHUNK) {
        const infq_segment *g = &segs[at->seg];
        int64_t room = INFQ_CHUNK - k->n, n = g->n_tokens - at->done < room ? g->n_tokens - at->done : room;
        int64_t end = at->done + n, first = g->n_tokens - g->n_last;

        if (g->seq->brief && n < g->n_tokens)
            break; // whole in the next one
        if (n > 0) {
            infq_piece *p = &m->piece[k->n_pieces++];
            *p = (infq_piece){ .seq = g->seq, .row0 = k->n, .n = n, .pos0 = g->seq->len + at->done, .hidden = at->hidden };
            p->n_hidden = end > first ? end - (at->done > first ? at->done : first) : 0;
            at->hidden += p->n_hidden * m->c.hidden;
            memcpy(m->host_ids + k->n, g->tokens + at->done, (size_t)n * sizeof(int32_t));
            for (int64_t t = 0; t < n; t++)
                m->host_positions[k->n + t] = (int32_t)(p->pos0 + t);
        }
        k->n += n;
        at->done = end;
        if (end == g->n_tokens) {
            at->seg++;
            at->done = 0;
        }
    }
}

static infq_status run_batch(infq_model *m, const infq_segment *segs, int64_t n_segs, const infq_forward_options *o,
                             float *hidden, infq_err *err)
{
    int64_t n = 0, longest = 0;
    chunk k = { .m = m, .o = o, .x = o->x };
    cut at = { .hidden = hidden };

    if (o->x && (o->first_layer < 0 || o->first_layer > m->c.n_layers))
        return infq_err_set(err, INFQ_E_USAGE, "a start before block %lld of %lld", (long long)o->first_layer, (long long)m->c.n_layers);
    INFQ_TRY(check_segments(m, segs, n_segs, err));
    for (int64_t i = 0; i < n_segs; i++) {
        int64_t end = segs[i].seq->len + segs[i].n_tokens;
        INFQ_TRY(infq_seq_reserve(segs[i].seq, end, err));
        longest = end > longest ? end : longest;
        n += segs[i].n_tokens;
    }
    INFQ_TRY(reserve_work(m, n < INFQ_CHUNK ? n : INFQ_CHUNK, err));
    INFQ_TRY(reserve_rope(m, longest, err));
    for (next_chunk(&k, segs, n_segs, &at); k.n > 0; next_chunk(&k, segs, n_segs, &at)) {
        INFQ_TRY(run_chunk(&k, err));
        k.x = k.x ? k.x + k.n * m->c.hidden : NULL;
    }
    for (int64_t i = 0; i < n_segs; i++) {
        segs[i].seq->len += segs[i].n_tokens;
        segs[i].seq->spent = segs[i].seq->brief;
    }
    return INFQ_E_OK;
}

// A batch as the team of threads sees it.
typedef struct {
    infq_model *m;
    const infq_segment *segs;
    int64_t n_segs;
    const infq_forward_options *o;
    float *hidden;
    infq_err *err;
    infq_status st;
} batch;

static void batch_in_team(void *ctx)
{
    batch *b = ctx;

    b->st = run_batch(b->m, b->segs, b->n_segs, b->o, b->hidden, b->err);
}

infq_status infq_model_forward(infq_model *m, const infq_segment *segs, int64_t n_segs, const infq_forward_options *o,
                               float *hidden, infq_err *err)
{
    batch b = { .m = m, .segs = segs, .n_segs = n_segs, .o = o, .hidden = hidden, .err = err };

    infq_par_team(batch_in_team, &b);
    for (int64_t i = 0; i < n_segs; i++)
        segs[i].seq->in_batch = false;
    return b.st;
}

// Rows [done, done + n) of one sequence that starts at position 0, as the chunk of a batch.
static void one_piece(chunk *k, infq_seq *s, int64_t done, int64_t n)
{
    infq_model *m = k->m;

    k->n = n;
    k->n_pieces = 1;
    m->piece[0] = (infq_piece){ .seq = s, .n = n, .pos0 = done };
    for (int64_t t = 0; t < n; t++)
        m->host_positions[t] = (int32_t)(done + t);
}

infq_status infq_model_embed(infq_model *m, const int32_t *tokens, int64_t n_tokens, float *x, infq_err *err)
{
    infq_forward_options o = { 0 };
    chunk k = { .m = m, .o = &o };

    for (int64_t t = 0; t < n_tokens; t++)
        if (tokens[t] < 0 || tokens[t] >= m->c.vocab)
            return infq_err_set(err, INFQ_E_NUMERIC, "token id %d is outside the vocabulary of %lld", (int)tokens[t],
                                (long long)m->c.vocab);
    INFQ_TRY(reserve_work(m, n_tokens < INFQ_CHUNK ? n_tokens : INFQ_CHUNK, err));
    for (int64_t at = 0; at < n_tokens; at += k.n) {
        one_piece(&k, NULL, at, n_tokens - at < INFQ_CHUNK ? n_tokens - at : INFQ_CHUNK);
        memcpy(m->host_ids, tokens + at, (size_t)k.n * sizeof(int32_t));
        INFQ_TRY(embed(&k, err));
        INFQ_TRY(m->be->ops.download(m->be->state, x + at * m->c.hidden, m->work.x,
                                     (size_t)(k.n * m->c.hidden) * sizeof(float), err));
    }
    return INFQ_E_OK;
}

// A block of one sequence as the team of threads sees it.
typedef struct {
    chunk k;
    int64_t layer, n_tokens;
    infq_seq *scratch;
    float *x;
    infq_err *err;
    infq_status st;
} block_call;

static infq_status run_block(block_call *b)
{
    infq_model *m = b->k.m;
    const infq_backend_ops *ops = &m->be->ops;
    int64_t H = m->c.hidden;

    for (int64_t at = 0; at < b->n_tokens; at += b->k.n) {
        one_piece(&b->k, b->scratch, at, b->n_tokens - at < INFQ_CHUNK ? b->n_tokens - at : INFQ_CHUNK);
        size_t n_bytes = (size_t)(b->k.n * H) * sizeof(float);
        INFQ_TRY(ops->upload(m->be->state, m->work.positions, m->host_positions, (size_t)b->k.n * sizeof(int32_t), b->err));
        INFQ_TRY(ops->upload(m->be->state, m->work.x, b->x + at * H, n_bytes, b->err));
        INFQ_TRY(block(&b->k, b->layer, b->err));
        INFQ_TRY(ops->download(m->be->state, b->x + at * H, m->work.x, n_bytes, b->err));
    }
    return INFQ_E_OK;
}

static void block_in_team(void *ctx)
{
    block_call *b = ctx;

    b->st = run_block(b);
}

infq_status infq_model_block(infq_model *m, int64_t layer, infq_seq *scratch, float *x, int64_t n_tokens,
                             const infq_forward_options *o, infq_err *err)
{
    block_call b = { .k = { .m = m, .o = o }, .layer = layer, .n_tokens = n_tokens, .scratch = scratch, .x = x, .err = err };

    if (n_tokens > m->max_context)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%lld tokens exceed the context of %lld", (long long)n_tokens,
                            (long long)m->max_context);
    INFQ_TRY(infq_seq_reserve(scratch, n_tokens, err));
    INFQ_TRY(reserve_work(m, n_tokens < INFQ_CHUNK ? n_tokens : INFQ_CHUNK, err));
    INFQ_TRY(reserve_rope(m, n_tokens, err));
    infq_par_team(block_in_team, &b);
    return b.st;
}

infq_status infq_model_logits(infq_model *m, const float *hidden, int64_t n_rows, bool invariant, float *logits,
                              infq_err *err)
{
    const infq_backend_ops *ops = &m->be->ops;
    int64_t H = m->c.hidden, V = m->c.vocab;
    infq_matmul_args a = { .w = infq_model_param(m, m->c.n_layers, m->c.tied ? INFQ_SLOT_EMBED : INFQ_SLOT_HEAD)->w,
                           .invariant = invariant };

    INFQ_TRY(reserve_rows(m, n_rows < INFQ_LOGIT_ROWS ? n_rows : INFQ_LOGIT_ROWS, err));
    a.x = m->work.rows;
    a.y = m->work.logits;
    for (int64_t r = 0; r < n_rows; r += INFQ_LOGIT_ROWS) {
        a.n_tokens = n_rows - r < INFQ_LOGIT_ROWS ? n_rows - r : INFQ_LOGIT_ROWS;
        INFQ_TRY(ops->upload(m->be->state, m->work.rows, hidden + r * H, (size_t)(a.n_tokens * H) * sizeof(float), err));
        INFQ_TRY(ops->matmul(m->be->state, &a, 1, err));
        INFQ_TRY(ops->download(m->be->state, logits + r * V, m->work.logits, (size_t)(a.n_tokens * V) * sizeof(float), err));
    }
    return INFQ_E_OK;
}
