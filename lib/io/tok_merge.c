/* The merging itself: the pair of lowest rank first, the leftmost among equals, until none is left.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/io/tok_work.h"

#define NO_RANK UINT32_MAX
#define NO_ENTRY UINT32_MAX
#define MANY 4096 /* symbols from which a table of all ranks pays */

size_t infq_tok_merge_short(const infq_tok_bpe *b, infq_tok_work *w, int32_t *id, size_t n)
{
    uint32_t rank[INFQ_TOK_SHORT];
    int32_t merged[INFQ_TOK_SHORT];

    for (size_t i = 0; i + 1 < n; i++) {
        const infq_tok_pair *p = infq_tok_bpe_pair(b, id[i], id[i + 1]);
        rank[i] = p ? p->rank : NO_RANK;
        merged[i] = p ? p->id : -1;
    }
    while (n > 1) {
        size_t best = 0;

        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        w->n_steps += n;
        if (rank[best] == NO_RANK)
            break;
        id[best] = merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            if (i + 1 < n) {
                rank[i] = rank[i + 1];
                merged[i] = merged[i + 1];
            }
        }
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const infq_tok_pair *p = infq_tok_bpe_pair(b, id[i], id[i + 1]);
            rank[i] = p ? p->rank : NO_RANK;
            merged[i] = p ? p->id : -1;
        }
    }
    return n;
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= x)
            break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

static infq_status heap_push(infq_tok_work *w, size_t *n, uint64_t x, infq_err *err)
{
    size_t i;

    if (*n == w->cap_heap) {
        size_t cap = w->cap_heap ? 2 * w->cap_heap : 1024, n_bytes;
        uint64_t *grown =
            infq_mul_size(cap, sizeof(x), &n_bytes) ? infq_mem_realloc(w->heap, n_bytes) : NULL;
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "merges of a long word");
        w->heap = grown;
        w->cap_heap = cap;
    }
    for (i = (*n)++; i > 0 && w->heap[(i - 1) / 2] > x; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = x;
    return INFQ_E_OK;
}

static infq_status links_reserve(infq_tok_work *w, size_t n, infq_err *err)
{
    size_t n_bytes;
    void *prev, *next;

    if (n > INT32_MAX || !infq_mul_size(n, sizeof(*w->prev), &n_bytes))
        return infq_err_set(err, INFQ_E_UNSUPPORTED,
                            "a word of %zu symbols, at most 2147483647 are possible", n);
    if (n <= w->cap_links)
        return INFQ_E_OK;
    prev = infq_mem_realloc(w->prev, n_bytes);
    if (prev)
        w->prev = prev;
    next = prev ? infq_mem_realloc(w->next, n_bytes) : NULL;
    if (!next)
        return infq_err_set(err, INFQ_E_NOMEM, "merges of a long word");
    w->next = next;
    w->cap_links = n;
    return INFQ_E_OK;
}

// The symbol at `at` takes in its right neighbour.
static void join(infq_tok_work *w, int32_t *id, size_t at, int32_t merged)
{
    int32_t right = w->next[at];

    id[at] = merged;
    id[right] = -1;
    w->next[at] = w->next[right];
    if (w->next[at] >= 0)
        w->prev[w->next[at]] = (int32_t)at;
}

/* A heap of rank << 32 | position. An entry is stale when the pair at its position now has another
 * rank. Merged-away symbols get id -1. O(n log n). */
static infq_status merge_by_heap(const infq_tok_bpe *b, infq_tok_work *w, int32_t *id, size_t n,
                                 infq_err *err)
{
    size_t n_heap = 0;

    for (size_t i = 0; i < n; i++) {
        const infq_tok_pair *p = i + 1 < n ? infq_tok_bpe_pair(b, id[i], id[i + 1]) : NULL;
        if (p)
            INFQ_TRY(heap_push(w, &n_heap, (uint64_t)p->rank << 32 | i, err));
    }
    w->n_steps += n;
    while (n_heap) {
        uint64_t top = w->heap[0];
        size_t at = (uint32_t)top;
        int32_t right = w->next[at];
        const infq_tok_pair *p =
            id[at] >= 0 && right >= 0 ? infq_tok_bpe_pair(b, id[at], id[right]) : NULL;

        w->heap[0] = w->heap[--n_heap];
        if (n_heap)
            sift_down(w->heap, n_heap, 0);
        w->n_steps++;
        if (!p || p->rank != top >> 32)
            continue;
        join(w, id, at, p->id);
        p = w->prev[at] >= 0 ? infq_tok_bpe_pair(b, id[w->prev[at]], id[at]) : NULL;
        if (p)
            INFQ_TRY(heap_push(w, &n_heap, (uint64_t)p->rank << 32 | (uint32_t)w->prev[at], err));
        p = w->next[at] >= 0 ? infq_tok_bpe_pair(b, id[at], id[w->next[at]]) : NULL;
        if (p)
            INFQ_TRY(heap_push(w, &n_heap, (uint64_t)p->rank << 32 | at, err));
    }
    return INFQ_E_OK;
}

/* One list of positions a rank, for vocabularies in which every pair ranks behind the merges that
 * make its parts: then all positions of a rank are known when its turn comes, and nothing is sorted
 * but the few lists out of order. */
typedef struct {
    uint32_t *head; // by rank: newest entry
    infq_tok_entry *entries;
    size_t n_entries, cap_entries;
    uint32_t free;   // list of unused entries
    size_t n_active; // ranks in w->heap
} lists;

static infq_status list_push(infq_tok_work *w, lists *l, uint32_t rank, size_t at, infq_err *err)
{
    uint32_t e = l->free;

    if (e != NO_ENTRY) {
        l->free = l->entries[e].next;
    } else {
        if (l->n_entries == l->cap_entries) {
            size_t cap = l->cap_entries ? 2 * l->cap_entries : 8192;
            infq_tok_entry *grown =
                cap < NO_ENTRY ? infq_mem_realloc(l->entries, cap * sizeof(*grown)) : NULL;
            if (!grown)
                return infq_err_set(err, INFQ_E_NOMEM, "merges of a long word");
            l->entries = grown;
            l->cap_entries = cap;
        }
        e = (uint32_t)l->n_entries++;
    }
    l->entries[e] = (infq_tok_entry){ (uint32_t)at, l->head[rank] };
    if (l->head[rank] == NO_ENTRY)
        INFQ_TRY(heap_push(w, &l->n_active, rank, err));
    l->head[rank] = e;
    return INFQ_E_OK;
}

static int by_position(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

// Takes the positions of a rank out of its list, ascending, into w->order.
static infq_status list_take(infq_tok_work *w, lists *l, uint32_t rank, size_t *n, infq_err *err)
{
    bool ascending = true;
    size_t i = 0;

    *n = 0;
    for (uint32_t e = l->head[rank]; e != NO_ENTRY; e = l->entries[e].next)
        ++*n;
    if (*n > w->cap_order) {
        uint32_t *grown = infq_mem_realloc(w->order, *n * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "merges of a long word");
        w->order = grown;
        w->cap_order = *n;
    }
    i = *n;
    for (uint32_t e = l->head[rank], next; e != NO_ENTRY; e = next) { // newest first
        next = l->entries[e].next;
        w->order[--i] = l->entries[e].at;
        ascending &= i + 1 == *n || w->order[i] <= w->order[i + 1];
        l->entries[e].next = l->free;
        l->free = e;
    }
    l->head[rank] = NO_ENTRY;
    if (!ascending)
        qsort(w->order, *n, sizeof(*w->order), by_position);
    return INFQ_E_OK;
}

static infq_status merge_rank(const infq_tok_bpe *b, infq_tok_work *w, lists *l, int32_t *id,
                              uint32_t rank, infq_err *err)
{
    size_t n;

    INFQ_TRY(list_take(w, l, rank, &n, err));
    w->n_steps += n;
    for (size_t i = 0; i < n; i++) {
        size_t at = w->order[i];
        const infq_tok_pair *p =
            id[at] >= 0 && w->next[at] >= 0 ? infq_tok_bpe_pair(b, id[at], id[w->next[at]]) : NULL;

        if (!p || p->rank != rank)
            continue;
        join(w, id, at, p->id);
        p = w->prev[at] >= 0 ? infq_tok_bpe_pair(b, id[w->prev[at]], id[at]) : NULL;
        if (p)
            INFQ_TRY(list_push(w, l, p->rank, (size_t)w->prev[at], err));
        p = w->next[at] >= 0 ? infq_tok_bpe_pair(b, id[at], id[w->next[at]]) : NULL;
        if (p)
            INFQ_TRY(list_push(w, l, p->rank, at, err));
    }
    return INFQ_E_OK;
}

static infq_status run_lists(const infq_tok_bpe *b, infq_tok_work *w, lists *l, int32_t *id,
                             size_t n, infq_err *err)
{
    for (size_t i = 0; i + 1 < n; i++) {
        const infq_tok_pair *p = infq_tok_bpe_pair(b, id[i], id[i + 1]);
        if (p)
            INFQ_TRY(list_push(w, l, p->rank, i, err));
    }
    w->n_steps += n;
    while (l->n_active) {
        uint32_t rank = (uint32_t)w->heap[0];

        w->heap[0] = w->heap[--l->n_active];
        if (l->n_active)
            sift_down(w->heap, l->n_active, 0);
        INFQ_TRY(merge_rank(b, w, l, id, rank, err));
    }
    return INFQ_E_OK;
}

static infq_status merge_by_rank(const infq_tok_bpe *b, infq_tok_work *w, int32_t *id, size_t n,
                                 infq_err *err)
{
    lists l = { .free = NO_ENTRY };
    infq_status st;
    void *p;

    INFQ_TRY(infq_mem_new(b->n_ranks, sizeof(*l.head), "merges of a long word", &p, err));
    l.head = p;
    memset(l.head, 0xff, b->n_ranks * sizeof(*l.head));
    st = run_lists(b, w, &l, id, n, err);
    infq_mem_free(l.entries);
    infq_mem_free(l.head);
    return st;
}

infq_status infq_tok_merge_long(const infq_tok_bpe *b, infq_tok_work *w, int32_t *id, size_t *count,
                                infq_err *err)
{
    size_t n = *count, k = 0;

    INFQ_TRY(links_reserve(w, n, err));
    for (size_t i = 0; i < n; i++) {
        w->prev[i] = (int32_t)i - 1;
        w->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    if (b->in_order && n >= MANY)
        INFQ_TRY(merge_by_rank(b, w, id, n, err));
    else
        INFQ_TRY(merge_by_heap(b, w, id, n, err));
    for (size_t i = 0; i < n; i++)
        if (id[i] >= 0)
            id[k++] = id[i];
    *count = k;
    return INFQ_E_OK;
}
