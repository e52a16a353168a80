#include <string.h>

#include "lib/io/tok_int.h"
#include "lib/io/tok_work.h"

#define PAGES (0x110000 >> 8)

void infq_tok_bpe_init(infq_tok_bpe *b, const infq_tok_vocab *v)
{
    memset(b, 0, sizeof(*b));
    b->vocab = v;
    b->unk = -1;
    for (size_t i = 0; i < 256; i++)
        b->byte_id[i] = -1;
}

void infq_tok_bpe_deinit(infq_tok_bpe *b)
{
    if (b->pages)
        for (size_t i = 0; i < PAGES; i++)
            infq_mem_free(b->pages[i]);
    infq_mem_free(b->pages);
    infq_mem_free(b->pairs);
    infq_mem_free(b->seams);
    memset(b, 0, sizeof(*b));
}

infq_status infq_tok_bpe_char_set(infq_tok_bpe *b, uint32_t cp, int32_t id, infq_err *err)
{
    int32_t **page;

    if (!b->pages) {
        b->pages = infq_mem_calloc(PAGES, sizeof(*b->pages));
        if (!b->pages)
            return infq_err_set(err, INFQ_E_NOMEM, "table of characters");
    }
    page = &b->pages[cp >> 8];
    if (!*page) {
        *page = infq_mem_alloc(256 * sizeof(**page));
        if (!*page)
            return infq_err_set(err, INFQ_E_NOMEM, "table of characters");
        memset(*page, 0xff, 256 * sizeof(**page));
    }
    (*page)[cp & 255] = id;
    return INFQ_E_OK;
}

static int32_t char_id(const infq_tok_bpe *b, uint32_t cp)
{
    const int32_t *page = b->pages ? b->pages[cp >> 8] : NULL;

    return page ? page[cp & 255] : -1;
}

static size_t slot_of(uint64_t key, size_t cap)
{
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key >> 32 ^ key) & (cap - 1);
}

static infq_tok_pair *pair_slot(infq_tok_pair *pairs, size_t cap, uint64_t key)
{
    size_t i = slot_of(key, cap);

    while (pairs[i].id >= 0 && pairs[i].key != key)
        i = (i + 1) & (cap - 1);
    return &pairs[i];
}

static infq_status pairs_grow(infq_tok_bpe *b, infq_err *err)
{
    size_t cap = b->cap_pairs ? 2 * b->cap_pairs : 1024, n_bytes;
    infq_tok_pair *pairs =
        infq_mul_size(cap, sizeof(*pairs), &n_bytes) ? infq_mem_alloc(n_bytes) : NULL;

    if (!pairs)
        return infq_err_set(err, INFQ_E_NOMEM, "table of merges");
    for (size_t i = 0; i < cap; i++)
        pairs[i].id = -1;
    for (size_t i = 0; i < b->cap_pairs; i++)
        if (b->pairs[i].id >= 0)
            *pair_slot(pairs, cap, b->pairs[i].key) = b->pairs[i];
    infq_mem_free(b->pairs);
    b->pairs = pairs;
    b->cap_pairs = cap;
    return INFQ_E_OK;
}

infq_status infq_tok_bpe_pair_add(infq_tok_bpe *b, int32_t left, int32_t right, uint32_t rank,
                                  int32_t id, infq_err *err)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    infq_tok_pair *p;

    if (2 * (b->n_pairs + 1) > b->cap_pairs)
        INFQ_TRY(pairs_grow(b, err));
    p = pair_slot(b->pairs, b->cap_pairs, key);
    b->n_pairs += p->id < 0;
    *p = (infq_tok_pair){ key, rank, id };
    return INFQ_E_OK;
}

const infq_tok_pair *infq_tok_bpe_pair(const infq_tok_bpe *b, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const infq_tok_pair *p;

    if (!b->cap_pairs)
        return NULL;
    p = pair_slot(b->pairs, b->cap_pairs, key);
    return p->id >= 0 ? p : NULL;
}

infq_status infq_tok_bpe_check_order(infq_tok_bpe *b, infq_err *err)
{
    int64_t *made_at; // 1 + the highest rank that makes the token, 0: none does
    void *p;

    INFQ_TRY(infq_mem_new((size_t)b->vocab->n, sizeof(*made_at), "order of merges", &p, err));
    made_at = p;
    memset(made_at, 0, (size_t)b->vocab->n * sizeof(*made_at));
    for (size_t i = 0; i < b->cap_pairs; i++) {
        const infq_tok_pair *m = &b->pairs[i];
        if (m->id >= 0 && made_at[m->id] <= m->rank)
            made_at[m->id] = (int64_t)m->rank + 1;
    }
    b->in_order = true;
    for (size_t i = 0; i < b->cap_pairs; i++) {
        const infq_tok_pair *m = &b->pairs[i];
        if (m->id < 0)
            continue;
        if (made_at[m->key >> 32] > m->rank || made_at[(uint32_t)m->key] > m->rank)
            b->in_order = false;
        if (m->rank >= b->n_ranks)
            b->n_ranks = m->rank + 1;
    }
    infq_mem_free(made_at);
    return INFQ_E_OK;
}

static uint64_t *seam_slot(uint64_t *seams, size_t cap, uint64_t key)
{
    size_t i = slot_of(key, cap);

    while (seams[i] && seams[i] != key)
        i = (i + 1) & (cap - 1);
    return &seams[i];
}

static infq_status seams_grow(infq_tok_bpe *b, infq_err *err)
{
    size_t cap = b->cap_seams ? 2 * b->cap_seams : 1024;
    uint64_t *seams = infq_mem_calloc(cap, sizeof(*seams));

    if (!seams)
        return infq_err_set(err, INFQ_E_NOMEM, "table of merges");
    for (size_t i = 0; i < b->cap_seams; i++)
        if (b->seams[i])
            *seam_slot(seams, cap, b->seams[i]) = b->seams[i];
    infq_mem_free(b->seams);
    b->seams = seams;
    b->cap_seams = cap;
    return INFQ_E_OK;
}

static uint64_t seam_key(uint32_t left, uint32_t right)
{
    return ((uint64_t)left << 32 | right) + 1;
}

infq_status infq_tok_bpe_seams_add(infq_tok_bpe *b, const char *s, size_t n, infq_err *err)
{
    uint32_t last = 0;

    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = infq_tok_next(s + i, n - i, &len);
        if (i > 0) {
            uint64_t *slot;
            if (2 * (b->n_seams + 1) > b->cap_seams)
                INFQ_TRY(seams_grow(b, err));
            slot = seam_slot(b->seams, b->cap_seams, seam_key(last, cp));
            b->n_seams += *slot == 0;
            *slot = seam_key(last, cp);
        }
        last = cp;
    }
    return INFQ_E_OK;
}

// True if no merge can join text on both sides of this place.
static bool is_cut(const infq_tok_bpe *b, uint32_t left, uint32_t right)
{
    int32_t l = char_id(b, left), r = char_id(b, right);

    if (l < 0 || l >= INFQ_TOK_PSEUDO || r < 0 || r >= INFQ_TOK_PSEUDO)
        return false;
    return !b->cap_seams || !*seam_slot(b->seams, b->cap_seams, seam_key(left, right));
}

// Id of the character s[0..n) with the prefix (not first) and suffix (last) of the model, -1 if
// unknown.
static infq_status symbol_id(const infq_tok_bpe *b, infq_tok_work *w, const char *s, size_t n,
                             bool first, bool last, int32_t *id, infq_err *err)
{
    infq_buf *key = &w->key;
    size_t len;

    if (!b->prefix.n && !b->suffix.n) {
        *id = char_id(b, infq_tok_next(s, n, &len));
        return INFQ_E_OK;
    }
    infq_buf_clear(key);
    if (!first)
        infq_buf_add(key, b->prefix.p, b->prefix.n);
    infq_buf_add(key, s, n);
    if (last)
        infq_buf_add(key, b->suffix.p, b->suffix.n);
    INFQ_TRY(infq_buf_status(key, err));
    *id = (int32_t)infq_map_get(b->vocab->map, key->data, key->n);
    return INFQ_E_OK;
}

static bool push_bytes(const infq_tok_bpe *b, const char *s, size_t n, infq_ids *to)
{
    for (size_t i = 0; i < n; i++)
        if (b->byte_id[(uint8_t)s[i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        infq_ids_push(to, b->byte_id[(uint8_t)s[i]]);
    return true;
}

// First symbols of a word. Without prefix and suffix its place in the pre-token does not matter.
static infq_status symbols(const infq_tok_bpe *b, infq_tok_work *w, const char *s, size_t n,
                           infq_ids *to, infq_err *err)
{
    bool after_unk = false;

    for (size_t i = 0, len; i < n; i += len) {
        int32_t id;

        infq_tok_next(s + i, n - i, &len);
        INFQ_TRY(symbol_id(b, w, s + i, len, i == 0, i + len == n, &id, err));
        if (id >= 0) {
            infq_ids_push(to, id);
            after_unk = false;
        } else if (b->byte_fallback && push_bytes(b, s + i, len, to)) {
            after_unk = false;
        } else if (b->unk >= 0) {
            if (!after_unk || !b->fuse_unk)
                infq_ids_push(to, b->unk);
            after_unk = true;
        }
    }
    w->n_steps += n;
    return infq_ids_status(to, err);
}

// Replaces left-over pseudo characters from `start` on as unknown ones.
static infq_status drop_pseudo(const infq_tok_bpe *b, infq_tok_work *w, infq_ids *ids, size_t start,
                               infq_err *err)
{
    bool after_unk = false;
    size_t i = start;

    while (i < ids->n && ids->data[i] < INFQ_TOK_PSEUDO)
        i++;
    if (i == ids->n)
        return INFQ_E_OK;
    infq_ids_clear(&w->swap);
    infq_ids_append(&w->swap, ids->data + start, ids->n - start);
    INFQ_TRY(infq_ids_status(&w->swap, err));
    ids->n = start;
    for (i = 0; i < w->swap.n; i++) {
        int32_t id = w->swap.data[i];
        char text[4];
        bool unk = id == b->unk;

        if (id >= INFQ_TOK_PSEUDO)
            unk = !b->byte_fallback ||
                  !push_bytes(b, text, infq_utf8_put((uint32_t)(id - INFQ_TOK_PSEUDO), text), ids);
        else if (!unk)
            infq_ids_push(ids, id);
        if (unk && b->unk >= 0 && !(after_unk && b->fuse_unk))
            infq_ids_push(ids, b->unk);
        after_unk = unk;
    }
    return infq_ids_status(ids, err);
}

// Appends the ids of a word that no merge leaves.
static infq_status merge_word(const infq_tok_bpe *b, infq_tok_work *w, const char *s, size_t n,
                              infq_ids *ids, infq_err *err)
{
    size_t start = ids->n, count;

    INFQ_TRY(symbols(b, w, s, n, ids, err));
    count = ids->n - start;
    if (count > INFQ_TOK_SHORT)
        INFQ_TRY(infq_tok_merge_long(b, w, ids->data + start, &count, err));
    else if (count > 1)
        count = infq_tok_merge_short(b, w, ids->data + start, count);
    ids->n = start + count;
    return b->has_pseudo ? drop_pseudo(b, w, ids, start, err) : INFQ_E_OK;
}

static infq_status word(const infq_tok_bpe *b, infq_tok_work *w, const char *s, size_t n,
                        infq_ids *ids, infq_err *err)
{
    size_t start = ids->n;
    uint64_t hash;

    if (n > INFQ_TOK_CACHED || !w->use_cache)
        return merge_word(b, w, s, n, ids, err);
    hash = infq_tok_cache_hash(s, n);
    if (infq_tok_cache_get(w, hash, s, n, ids))
        return infq_ids_status(ids, err);
    INFQ_TRY(merge_word(b, w, s, n, ids, err));
    INFQ_TRY(infq_ids_status(ids, err));
    infq_tok_cache_put(w, hash, s, n, ids->data + start, ids->n - start);
    return INFQ_E_OK;
}

infq_status infq_tok_bpe_encode(const infq_tok_bpe *b, infq_tok_work *w, const char *s, size_t n,
                                infq_ids *ids, infq_err *err)
{
    size_t from = 0;
    uint32_t last = 0;

    if (b->ignore_merges) {
        int64_t id = infq_map_get(b->vocab->map, s, n);
        if (id >= 0) {
            infq_ids_push(ids, (int32_t)id);
            return infq_ids_status(ids, err);
        }
    }
    if (n <= INFQ_TOK_CACHED || !b->can_cut)
        return word(b, w, s, n, ids, err);
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = infq_tok_next(s + i, n - i, &len);
        if (i > from && is_cut(b, last, cp)) {
            INFQ_TRY(word(b, w, s + from, i - from, ids, err));
            from = i;
        }
        last = cp;
    }
    return word(b, w, s + from, n - from, ids, err);
}
