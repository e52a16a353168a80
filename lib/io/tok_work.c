#include "lib/io/tok_work.h"

#include <string.h>

#define FIRST_SLOTS 512
#define MAX_SLOTS ((size_t)1 << 17)

infq_status infq_tok_work_new(size_t n_text, infq_tok_work **out, infq_err *err)
{
    infq_tok_work *w;
    infq_status st;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*w), "tokenizer state", &p, err));
    w = p;
    memset(w, 0, sizeof(*w));
    for (size_t i = 0; i < sizeof(w->bufs) / sizeof(*w->bufs); i++)
        infq_buf_init(&w->bufs[i]);
    infq_buf_init(&w->key);
    infq_buf_init(&w->keys);
    infq_ids_init(&w->values);
    infq_ids_init(&w->swap);
    w->use_cache = n_text > 1024; // short texts repeat too few words
    st = infq_tok_match_new(&w->match, err);
    if (st) {
        infq_tok_work_free(w);
        return st;
    }
    *out = w;
    return INFQ_E_OK;
}

void infq_tok_work_free(infq_tok_work *w)
{
    if (!w)
        return;
    infq_tok_match_free(w->match);
    for (size_t i = 0; i < sizeof(w->bufs) / sizeof(*w->bufs); i++)
        infq_buf_deinit(&w->bufs[i]);
    infq_buf_deinit(&w->key);
    infq_buf_deinit(&w->keys);
    infq_ids_deinit(&w->values);
    infq_ids_deinit(&w->swap);
    infq_mem_free(w->slots);
    infq_mem_free(w->prev);
    infq_mem_free(w->next);
    infq_mem_free(w->heap);
    infq_mem_free(w->order);
    infq_mem_free(w);
}

infq_tok_match *infq_tok_work_match(infq_tok_work *w)
{
    return w->match;
}

infq_buf *infq_tok_work_buf(infq_tok_work *w, size_t i)
{
    INFQ_BUG_ON(i >= sizeof(w->bufs) / sizeof(*w->bufs));
    return &w->bufs[i];
}

uint64_t infq_tok_work_steps(const infq_tok_work *w)
{
    return w->n_steps;
}

uint64_t infq_tok_cache_hash(const char *s, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u;

    for (; n >= 8; s += 8, n -= 8) {
        h = (h ^ infq_load_u64le(s)) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    if (n) {
        char tail[8] = { 0 };
        memcpy(tail, s, n);
        h = (h ^ infq_load_u64le(tail)) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

static infq_tok_cached *find(infq_tok_cached *slots, size_t cap, const char *keys, uint64_t hash,
                             const char *s, size_t n)
{
    size_t i = (size_t)hash & (cap - 1);

    while (slots[i].n_key && (slots[i].hash != hash || slots[i].n_key != n ||
                              memcmp(keys + slots[i].key_at, s, n) != 0))
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

bool infq_tok_cache_get(const infq_tok_work *w, uint64_t hash, const char *s, size_t n,
                        infq_ids *ids)
{
    const infq_tok_cached *c;

    if (!w->cap_slots)
        return false;
    c = find(w->slots, w->cap_slots, w->keys.data, hash, s, n);
    if (!c->n_key)
        return false;
    if (c->n_ids == 1)
        infq_ids_push(ids, w->values.data[c->ids_at]);
    else
        infq_ids_append(ids, w->values.data + c->ids_at, c->n_ids);
    return true;
}

static bool grow(infq_tok_work *w)
{
    size_t cap = w->cap_slots ? 4 * w->cap_slots : FIRST_SLOTS;
    infq_tok_cached *slots;

    if (cap > MAX_SLOTS) {
        memset(w->slots, 0, w->cap_slots * sizeof(*w->slots));
        w->n_slots = 0;
        infq_buf_clear(&w->keys);
        infq_ids_clear(&w->values);
        return true;
    }
    slots = infq_mem_calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < w->cap_slots; i++) {
        const infq_tok_cached *c = &w->slots[i];
        if (c->n_key)
            *find(slots, cap, w->keys.data, c->hash, w->keys.data + c->key_at, c->n_key) = *c;
    }
    infq_mem_free(w->slots);
    w->slots = slots;
    w->cap_slots = cap;
    return true;
}

void infq_tok_cache_put(infq_tok_work *w, uint64_t hash, const char *s, size_t n,
                        const int32_t *ids, size_t n_ids)
{
    size_t key_at, ids_at;

    if (n == 0 || n_ids > UINT16_MAX || (2 * (w->n_slots + 1) > w->cap_slots && !grow(w)))
        return;
    key_at = w->keys.n;
    ids_at = w->values.n;
    infq_buf_add(&w->keys, s, n);
    infq_ids_append(&w->values, ids, n_ids);
    if (w->keys.failed || w->values.failed) {
        w->use_cache = false;
        return;
    }
    *find(w->slots, w->cap_slots, w->keys.data, hash, s, n) =
        (infq_tok_cached){ hash, (uint32_t)key_at, (uint32_t)ids_at, (uint16_t)n, (uint16_t)n_ids };
    w->n_slots++;
}
