#include "lib/base/rng.h"

#include <math.h>

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

infq_rng infq_rng_seed(uint64_t seed)
{
    infq_rng r;

    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&seed);
    return r;
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t infq_rng_u64(infq_rng *r)
{
    uint64_t *s = r->s, out = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

uint64_t infq_rng_below(infq_rng *r, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;

    do
        x = infq_rng_u64(r);
    while (x >= limit);
    return x % n;
}

double infq_rng_f64(infq_rng *r)
{
    return (double)(infq_rng_u64(r) >> 11) * 0x1p-53;
}

double infq_rng_normal(infq_rng *r)
{
    // Box and Muller; the second value is thrown away so that the state stays plain.
    double u = 1.0 - infq_rng_f64(r), v = infq_rng_f64(r);

    return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * v);
}
