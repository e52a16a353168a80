/* The only place that calls malloc. Counts calls and live bytes; can fail the n-th call for tests. */
#ifndef INFQ_BASE_MEM_H
#define INFQ_BASE_MEM_H

#include <stdint.h>

#include "lib/base/err.h"

/* *out = a * b (a + b); false on overflow, *out untouched. */
bool infq_mul_size(size_t a, size_t b, size_t *out);
bool infq_add_size(size_t a, size_t b, size_t *out);
bool infq_mul_i64(int64_t a, int64_t b, int64_t *out);

/* Uninitialised / zeroed block of n_bytes, aligned to 64. NULL when out of memory; n_bytes = 0 gives a
 * block that may be freed. Free with infq_mem_free only. */
void *infq_mem_alloc(size_t n_bytes);
void *infq_mem_calloc(size_t n, size_t n_bytes_each);
/* Keeps the first min(old, n_bytes) bytes. On failure NULL, and p stays valid. */
void *infq_mem_realloc(void *p, size_t n_bytes);
void infq_mem_free(void *p);
char *infq_mem_strdup(const char *s);
char *infq_mem_strndup(const char *s, size_t n);

/* As alloc/calloc, with the error set: "<what> needs <n> bytes". *out written only on success. */
infq_status infq_mem_new(size_t n, size_t n_bytes_each, const char *what, void **out, infq_err *err);

typedef struct {
    size_t n_calls;     /* allocations since start */
    size_t n_live;      /* blocks not freed */
    size_t live_bytes;
    size_t peak_bytes;  /* largest live_bytes since infq_mem_peak_reset */
} infq_mem_stats;
infq_mem_stats infq_mem_stats_get(void);
void infq_mem_peak_reset(void);

/* Makes the n-th allocation from now fail (1 = the next), once; 0 switches it off. */
void infq_mem_fail_at(size_t n);

/* Peak resident set of the process so far, and the resident set now, in bytes (0 if unknown). */
size_t infq_mem_rss_peak(void);
size_t infq_mem_rss_now(void);

#endif
