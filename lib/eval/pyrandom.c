#include "lib/eval/pyrandom.h"

#include <string.h>

#include "lib/base/mem.h"

#define N 624
#define M 397

void infq_pyrandom_seed(infq_pyrandom *r, uint32_t seed)
{
    uint32_t *s = r->state;
    int i = 1;

    s[0] = 19650218u;
    for (int k = 1; k < N; k++)
        s[k] = 1812433253u * (s[k - 1] ^ (s[k - 1] >> 30)) + (uint32_t)k;
    for (int k = 0; k < N; k++) { // a key of one word
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + seed;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    for (int k = 0; k < N - 1; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - (uint32_t)i;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
    r->at = N;
}

static void refill(infq_pyrandom *r)
{
    uint32_t *s = r->state;

    for (int k = 0; k < N; k++) {
        uint32_t y = (s[k] & 0x80000000u) | (s[(k + 1) % N] & 0x7fffffffu);
        s[k] = s[(k + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    r->at = 0;
}

uint32_t infq_pyrandom_bits(infq_pyrandom *r, int n)
{
    uint32_t y;

    if (r->at >= N)
        refill(r);
    y = r->state[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    y ^= y >> 18;
    return y >> (32 - n);
}

/* Below n, without bias: draws of n's bit length until one fits. */
static int64_t below(infq_pyrandom *r, int64_t n)
{
    int bits = 64 - __builtin_clzll((unsigned long long)n);
    int64_t x;

    do
        x = infq_pyrandom_bits(r, bits);
    while (x >= n);
    return x;
}

static bool is_in(const int64_t *list, int64_t n, int64_t x)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

infq_status infq_pyrandom_sample(infq_pyrandom *r, int64_t n, int64_t k, int64_t *out, infq_err *err)
{
    int64_t set_size = 21, *pool;

    // Python keeps a list of what is left when that is smaller than a set of what is taken; both draw differently
    for (int64_t p = 1; k > 5; p *= 4) {
        if (p >= 3 * k) {
            set_size += p;
            break;
        }
    }
    if (n > set_size) {
        for (int64_t i = 0; i < k; i++) {
            do
                out[i] = below(r, n);
            while (is_in(out, i, out[i]));
        }
        return 0;
    }
    INFQ_TRY(infq_mem_new((size_t)(n > 0 ? n : 1), sizeof(*pool), "a sample", (void **)&pool, err));
    for (int64_t i = 0; i < n; i++)
        pool[i] = i;
    for (int64_t i = 0; i < k; i++) {
        int64_t at = below(r, n - i);
        out[i] = pool[at];
        pool[at] = pool[n - i - 1];
    }
    infq_mem_free(pool);
    return 0;
}
