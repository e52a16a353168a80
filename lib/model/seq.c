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
static infq_status take_page(infq_model *m, float **out, infq_err *err)
{
    void *list, *page;

    if (m->n_free > 0) {
        *out = m->free_pages[--m->n_free];
        return INFQ_E_OK;
    }
    list = infq_mem_realloc(m->free_pages, (size_t)(m->n_pages + 1) * sizeof(float *));
    if (!list)
        return infq_err_set(err, INFQ_E_NOMEM, "the list of cache pages needs memory");
    m->free_pages = list;
    if (m->be->ops.alloc(m->be->state, infq_page_bytes(&m->c), &page, err))
        return infq_err_in(err, "cache page %lld", (long long)m->n_pages);
    m->n_pages++;
    *out = page;
    return INFQ_E_OK;
}

infq_status infq_seq_reserve(infq_seq *s, int64_t n, infq_err *err)
{
    int64_t want = (n + INFQ_KV_PAGE - 1) / INFQ_KV_PAGE;
    size_t floats = page_floats(&s->m->c);

    INFQ_TRY(grow_table(s, want, err));
    while (s->n_pages < want) {
        float *page = NULL;
        INFQ_TRY(take_page(s->m, &page, err));
        for (int64_t l = 0; l < s->m->c.n_layers; l++) {
            s->k[l * s->cap_pages + s->n_pages] = page + (size_t)(2 * l) * floats;
            s->v[l * s->cap_pages + s->n_pages] = page + (size_t)(2 * l + 1) * floats;
        }
        s->pages[s->n_pages++] = page;
    }
    return INFQ_E_OK;
}

static void give_pages(infq_seq *s, int64_t keep)
{
    while (s->n_pages > keep)
        s->m->free_pages[s->m->n_free++] = s->pages[--s->n_pages];
}

void infq_seq_free(infq_seq *s)
{
    if (!s)
        return;
    give_pages(s, 0);
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

    if (len < 0 || len > s->len)
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
