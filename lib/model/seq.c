/* The paged cache: sequences take whole pages from the model's pool and give them back. */
#include <string.h>

#include "lib/model/model_int.h"

static size_t page_floats(const infq_config *c)
{
    return (size_t)c->n_kv_heads * INFQ_KV_PAGE * (size_t)c->head_dim; // K or V of one layer
}

size_t infq_page_bytes(const infq_config *c)
{
    return 2 * (size_t)c->n_layers * page_floats(c) * sizeof(float);
}

size_t infq_model_kv_bytes(const infq_config *c, int64_t n_positions)
{
    return (size_t)((n_positions + INFQ_KV_PAGE - 1) / INFQ_KV_PAGE) * infq_page_bytes(c);
}

infq_status infq_seq_new(infq_model *m, infq_seq **out, infq_err *err)
{
    infq_seq *s = infq_mem_calloc(1, sizeof(*s));

    if (!s)
        return infq_err_set(err, INFQ_E_NOMEM, "a sequence needs memory");
    s->m = m;
    *out = s;
    return INFQ_E_OK;
}

// Room for page pointers of n pages.
static infq_status grow_table(infq_seq *s, int64_t n, infq_err *err)
{
    int64_t layers = s->m->c.n_layers, cap = s->cap_pages ? s->cap_pages : 4;
    void *pages, *k, *v;

    if (n <= s->cap_pages)
        return INFQ_E_OK;
    while (cap < n)
        cap *= 2;
    pages = infq_mem_calloc((size_t)cap, sizeof(float *));
    k = infq_mem_calloc((size_t)(cap * layers), sizeof(float *));
    v = infq_mem_calloc((size_t)(cap * layers), sizeof(float *));
    if (!pages || !k || !v) {
        infq_mem_free(pages);
        infq_mem_free(k);
        infq_mem_free(v);
        return infq_err_set(err, INFQ_E_NOMEM, "a table of %lld cache pages needs memory", (long long)cap);
    }
    if (s->n_pages)
        memcpy(pages, s->pages, (size_t)s->n_pages * sizeof(float *));
    for (int64_t l = 0; s->n_pages && l < layers; l++) {
        memcpy((float **)k + l * cap, s->k + l * s->cap_pages, (size_t)s->n_pages * sizeof(float *));
        memcpy((float **)v + l * cap, s->v + l * s->cap_pages, (size_t)s->n_pages * sizeof(float *));
    }
    infq_mem_free(s->pages);
    infq_mem_free(s->k);
    infq_mem_free(s->v);
    s->pages = pages;
    s->k = k;
    s->v = v;
    s->cap_pages = cap;
    return INFQ_E_OK;
}

// One page from the pool, or a new one. The free list always has room for every page that exists.
static infq_status take_page(infq_model *m, infq_page_pool *p, size_t n_bytes, float **out, infq_err *err)
{
    void *list, *page;

    if (p->n_free > 0) {
        *out = p->free[--p->n_free];
        return INFQ_E_OK;
    }
    list = infq_mem_realloc(p->free, (size_t)(p->n_all + 1) * sizeof(float *));
    if (!list)
        return infq_err_set(err, INFQ_E_NOMEM, "the list of cache pages needs memory");
    p->free = list;
    if (m->be->ops.alloc(m->be->state, n_bytes, &page, err))
        return infq_err_in(err, "cache page %lld", (long long)p->n_all);
    p->n_all++;
    *out = page;
    return INFQ_E_OK;
}

void infq_page_pool_end(infq_model *m, infq_page_pool *p)
{
    INFQ_BUG_ON(p->n_free != p->n_all); // sequences are freed before their model
    for (int64_t i = 0; i < p->n_free; i++)
        m->be->ops.free(m->be->state, p->free[i]);
    infq_mem_free(p->free);
}

static infq_page_pool *pool_of(const infq_seq *s)
{
    return s->brief ? &s->m->layer_pages : &s->m->pages;
}

infq_status infq_seq_reserve(infq_seq *s, int64_t n, infq_err *err)
{
    int64_t want = (n + INFQ_KV_PAGE - 1) / INFQ_KV_PAGE;
    size_t floats = page_floats(&s->m->c);

    INFQ_TRY(grow_table(s, want, err));
    while (s->n_pages < want) {
        size_t per_layer = s->brief ? 0 : 2 * floats;
        float *page = NULL;
        INFQ_TRY(take_page(s->m, pool_of(s), s->brief ? 2 * floats * sizeof(float) : infq_page_bytes(&s->m->c), &page, err));
        for (int64_t l = 0; l < s->m->c.n_layers; l++) {
            s->k[l * s->cap_pages + s->n_pages] = page + (size_t)l * per_layer;
            s->v[l * s->cap_pages + s->n_pages] = page + (size_t)l * per_layer + floats;
        }
        s->pages[s->n_pages++] = page;
    }
    return INFQ_E_OK;
}

static void give_pages(infq_seq *s, int64_t keep)
{
    infq_page_pool *p = pool_of(s);

    while (s->n_pages > keep)
        p->free[p->n_free++] = s->pages[--s->n_pages];
}

void infq_seq_free(infq_seq *s)
{
    if (!s)
        return;
    give_pages(s, s->n_borrowed);
    infq_mem_free(s->pages);
    infq_mem_free(s->k);
    infq_mem_free(s->v);
    infq_mem_free(s);
}

int64_t infq_seq_len(const infq_seq *s)
{
    return s->len;
}

void infq_seq_truncate(infq_seq *s, int64_t len)
{
    INFQ_BUG_ON(s->brief);
    if (len >= s->len)
        return;
    s->len = len > 0 ? len : 0;
    give_pages(s, (s->len + INFQ_KV_PAGE - 1) / INFQ_KV_PAGE);
}

infq_status infq_seq_fork(const infq_seq *s, int64_t len, infq_seq **out, infq_err *err)
{
    const infq_backend_ops *ops = &s->m->be->ops;
    size_t n_bytes = infq_page_bytes(&s->m->c);
    infq_seq *f = NULL;
    void *host = NULL;
    infq_status st;

    if (s->brief || len < 0 || len > s->len)
        return infq_err_set(err, INFQ_E_USAGE, "a sequence of %lld tokens cannot be forked after %lld", (long long)s->len,
                            (long long)len);
    st = infq_seq_new(s->m, &f, err);
    if (!st)
        st = infq_seq_reserve(f, len, err);
    if (!st && f->n_pages)
        st = infq_mem_new(n_bytes, 1, "a cache page on its way", &host, err);
    for (int64_t p = 0; !st && p < f->n_pages; p++) {
        st = ops->download(s->m->be->state, host, s->pages[p], n_bytes, err);
        if (!st)
            st = ops->upload(s->m->be->state, f->pages[p], host, n_bytes, err);
    }
    infq_mem_free(host);
    if (st) {
        infq_seq_free(f);
        return st;
    }
    f->len = len;
    *out = f;
    return INFQ_E_OK;
}

infq_status infq_seq_brief(infq_model *m, const infq_seq *base, int64_t len, infq_seq **out, infq_err *err)
{
    infq_seq *s = NULL;
    infq_status st;

    if (len < 0 || len > (base ? base->len : 0) || (base && base->brief))
        return infq_err_set(err, INFQ_E_USAGE, "a sequence of %lld tokens cannot be gone on from after %lld",
                            (long long)(base ? base->len : 0), (long long)len);
    if (!m->host_page)
        INFQ_TRY(infq_mem_new(page_floats(&m->c), sizeof(float), "a cache page on its way", (void **)&m->host_page, err));
    INFQ_TRY(infq_seq_new(m, &s, err));
    s->brief = true;
    s->base = base;
    st = grow_table(s, (len + INFQ_KV_PAGE - 1) / INFQ_KV_PAGE, err);
    if (st) {
        infq_seq_free(s);
        return st;
    }
    s->n_borrowed = s->n_pages = len / INFQ_KV_PAGE;
    for (int64_t l = 0; s->n_borrowed > 0 && l < m->c.n_layers; l++) {
        memcpy(s->k + l * s->cap_pages, base->k + l * base->cap_pages, (size_t)s->n_borrowed * sizeof(float *));
        memcpy(s->v + l * s->cap_pages, base->v + l * base->cap_pages, (size_t)s->n_borrowed * sizeof(float *));
    }
    s->len = len;
    *out = s;
    return INFQ_E_OK;
}

infq_status infq_seq_enter_layer(const infq_seq *s, int64_t layer, infq_err *err)
{
    const infq_backend_ops *ops = &s->m->be->ops;
    size_t n_bytes = page_floats(&s->m->c) * sizeof(float);
    int64_t p = s->n_borrowed;
    const infq_seq *b = s->base;

    if (!s->brief || s->len % INFQ_KV_PAGE == 0)
        return INFQ_E_OK;
    for (int v = 0; v < 2; v++) {
        float *const *from = v ? b->v : b->k, *const *to = v ? s->v : s->k;
        INFQ_TRY(ops->download(s->m->be->state, s->m->host_page, from[layer * b->cap_pages + p], n_bytes, err));
        INFQ_TRY(ops->upload(s->m->be->state, to[layer * s->cap_pages + p], s->m->host_page, n_bytes, err));
    }
    return INFQ_E_OK;
}
