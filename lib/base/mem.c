#include "lib/base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every block starts with its size; the header keeps the block aligned to 64. */
#define HEADER 64

static atomic_size_t n_calls, n_live, live_bytes, peak_bytes, fail_at;

bool infq_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool infq_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

bool infq_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

// True when the test hook says that this call fails.
static bool planned_failure(void)
{
    size_t n;

    atomic_fetch_add(&n_calls, 1);
    n = atomic_load(&fail_at);
    if (n == 0)
        return false;
    atomic_store(&fail_at, n - 1);
    return n == 1;
}

static void account(size_t n_bytes)
{
    size_t now = atomic_fetch_add(&live_bytes, n_bytes) + n_bytes;
    size_t peak = atomic_load(&peak_bytes);

    while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now))
        ;
}

void *infq_mem_alloc(size_t n_bytes)
{
    size_t total;
    void *mem;
    char *p;

    if (planned_failure() || !infq_add_size(n_bytes, HEADER, &total) || posix_memalign(&mem, HEADER, total))
        return NULL;
    p = mem;
    memcpy(p, &n_bytes, sizeof(n_bytes));
    atomic_fetch_add(&n_live, 1);
    account(n_bytes);
    return p + HEADER;
}

void *infq_mem_calloc(size_t n, size_t n_bytes_each)
{
    size_t n_bytes;
    void *p;

    if (!infq_mul_size(n, n_bytes_each, &n_bytes))
        return NULL;
    p = infq_mem_alloc(n_bytes);
    if (p)
        memset(p, 0, n_bytes);
    return p;
}

static size_t size_of(const void *p)
{
    size_t n_bytes;

    memcpy(&n_bytes, (const char *)p - HEADER, sizeof(n_bytes));
    return n_bytes;
}

void *infq_mem_realloc(void *p, size_t n_bytes)
{
    size_t old;
    void *q;

    if (!p)
        return infq_mem_alloc(n_bytes);
    old = size_of(p);
    q = infq_mem_alloc(n_bytes);
    if (!q)
        return NULL;
    memcpy(q, p, old < n_bytes ? old : n_bytes);
    infq_mem_free(p);
    return q;
}

void infq_mem_free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub(&live_bytes, size_of(p));
    atomic_fetch_sub(&n_live, 1);
    free((char *)p - HEADER);
}

char *infq_mem_strndup(const char *s, size_t n)
{
    size_t n_bytes;
    char *p;

    if (!infq_add_size(n, 1, &n_bytes))
        return NULL;
    p = infq_mem_alloc(n_bytes);
    if (p) {
        memcpy(p, s, n);
        p[n] = '\0';
    }
    return p;
}

char *infq_mem_strdup(const char *s)
{
    return infq_mem_strndup(s, strlen(s));
}

infq_status infq_mem_new(size_t n, size_t n_bytes_each, const char *what, void **out, infq_err *err)
{
    void *p = infq_mem_calloc(n, n_bytes_each);

    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "%s needs %zu times %zu bytes", what, n, n_bytes_each);
    *out = p;
    return INFQ_E_OK;
}

infq_mem_stats infq_mem_stats_get(void)
{
    infq_mem_stats s = { atomic_load(&n_calls), atomic_load(&n_live), atomic_load(&live_bytes),
                         atomic_load(&peak_bytes) };

    return s;
}

void infq_mem_peak_reset(void)
{
    atomic_store(&peak_bytes, atomic_load(&live_bytes));
}

void infq_mem_fail_at(size_t n)
{
    atomic_store(&fail_at, n);
}

// Not getrusage: its maximum is inherited from the process that started us.
size_t infq_mem_rss_peak(void)
{
    char line[128];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "VmHWM: %lu kB", &kib) == 1)
            break;
    fclose(f);
    return kib * (size_t)1024;
}

size_t infq_mem_rss_now(void)
{
    unsigned long total, resident;
    FILE *f = fopen("/proc/self/statm", "r");
    size_t n_bytes = 0;

    if (!f)
        return 0;
    if (fscanf(f, "%lu %lu", &total, &resident) == 2)
        n_bytes = resident * (size_t)sysconf(_SC_PAGESIZE);
    fclose(f);
    return n_bytes;
}
