/* Bump allocator for work with one lifetime. Blocks are aligned to 64 bytes; under ASan each is
 * followed by a redzone. Nothing is freed singly: mark and release, or deinit. */
#ifndef INFQ_BASE_ARENA_H
#define INFQ_BASE_ARENA_H

#include "lib/base/mem.h"

typedef struct infq_arena infq_arena;
typedef struct {
    size_t chunk, used;
} infq_mark;

infq_status infq_arena_new(size_t chunk_bytes, infq_arena **out, infq_err *err);
void infq_arena_free(infq_arena *a);

/* n * n_bytes_each bytes; alloc leaves them uninitialised. NOMEM names `what`. */
infq_status infq_arena_alloc(infq_arena *a, size_t n, size_t n_bytes_each, const char *what, void **out,
                             infq_err *err);
infq_status infq_arena_calloc(infq_arena *a, size_t n, size_t n_bytes_each, const char *what, void **out,
                              infq_err *err);
infq_status infq_arena_strdup(infq_arena *a, const char *s, char **out, infq_err *err);

infq_mark infq_arena_mark(const infq_arena *a);
void infq_arena_release(infq_arena *a, infq_mark m);  /* frees all allocated after m */
size_t infq_arena_bytes(const infq_arena *a);                  /* held from the heap */

#endif
