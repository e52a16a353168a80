#include "lib/base/arena.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define REDZONE 64
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define REDZONE 0
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

typedef struct {
    char *data;
    size_t cap, used;
} chunk;

struct infq_arena {
    chunk *chunks;
    size_t n, cap, chunk_bytes;
};

infq_status infq_arena_new(size_t chunk_bytes, infq_arena **out, infq_err *err)
{
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(infq_arena), "arena", &p, err));
    *out = p;
    (*out)->chunk_bytes = chunk_bytes ? chunk_bytes : 65536;
    return INFQ_E_OK;
}

static void drop_chunk(chunk *c)
{
    UNPOISON(c->data, c->cap);
    infq_mem_free(c->data);
}

void infq_arena_free(infq_arena *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->n; i++)
        drop_chunk(&a->chunks[i]);
    infq_mem_free(a->chunks);
    infq_mem_free(a);
}

static bool add_chunk(infq_arena *a, size_t at_least)
{
    chunk c = { NULL, at_least > a->chunk_bytes ? at_least : a->chunk_bytes, 0 };

    if (a->n == a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 8;
        chunk *grown = infq_mem_realloc(a->chunks, cap * sizeof(chunk));
        if (!grown)
            return false;
        a->chunks = grown;
        a->cap = cap;
    }
    c.data = infq_mem_alloc(c.cap);
    if (!c.data)
        return false;
    POISON(c.data, c.cap);
    a->chunks[a->n++] = c;
    return true;
}

infq_status infq_arena_alloc(infq_arena *a, size_t n, size_t n_bytes_each, const char *what, void **out,
                             infq_err *err)
{
    size_t n_bytes, need;
    chunk *c;

    if (!infq_mul_size(n, n_bytes_each, &n_bytes) || !infq_add_size(n_bytes, 63 + REDZONE, &need))
        return infq_err_set(err, INFQ_E_NOMEM, "%s: %zu times %zu bytes overflow", what, n, n_bytes_each);
    need = need / 64 * 64 + (REDZONE ? REDZONE - (REDZONE % 64) : 0);
    if (a->n == 0 || a->chunks[a->n - 1].cap - a->chunks[a->n - 1].used < need)
        if (!add_chunk(a, need))
            return infq_err_set(err, INFQ_E_NOMEM, "%s needs %zu bytes", what, n_bytes);
    c = &a->chunks[a->n - 1];
    *out = c->data + c->used;
    UNPOISON(c->data + c->used, n_bytes);
    c->used += need;
    return INFQ_E_OK;
}

infq_status infq_arena_calloc(infq_arena *a, size_t n, size_t n_bytes_each, const char *what, void **out,
                              infq_err *err)
{
    INFQ_TRY(infq_arena_alloc(a, n, n_bytes_each, what, out, err));
    memset(*out, 0, n * n_bytes_each);
    return INFQ_E_OK;
}

infq_status infq_arena_strdup(infq_arena *a, const char *s, char **out, infq_err *err)
{
    size_t n = strlen(s) + 1;
    void *p;

    INFQ_TRY(infq_arena_alloc(a, n, 1, "string", &p, err));
    memcpy(p, s, n);
    *out = p;
    return INFQ_E_OK;
}

infq_mark infq_arena_mark(const infq_arena *a)
{
    infq_mark m = { a->n, a->n ? a->chunks[a->n - 1].used : 0 };

    return m;
}

void infq_arena_release(infq_arena *a, infq_mark m)
{
    INFQ_BUG_ON(m.chunk > a->n);
    while (a->n > m.chunk)
        drop_chunk(&a->chunks[--a->n]);
    if (a->n) {
        chunk *c = &a->chunks[a->n - 1];
        INFQ_BUG_ON(m.used > c->used);
        POISON(c->data + m.used, c->cap - m.used);
        c->used = m.used;
    }
}

size_t infq_arena_bytes(const infq_arena *a)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++)
        n += a->chunks[i].cap;
    return n;
}
