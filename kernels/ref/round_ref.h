/* The rounding operation (infq_round_args): one definition for the reference and the CPU backend, integer arithmetic and single
 * IEEE operations only, so that every instance gives the same bits. */
#ifndef INFQ_KERNELS_REF_ROUND_REF_H
#define INFQ_KERNELS_REF_ROUND_REF_H

#include "kernels/ref/act_ref.h"
#include "lib/backend/backend.h"

/* Standardised sum of the eight bytes of a mixed word: mean 8 * 127.5, variance 8 * (256^2 - 1) / 12. */
static inline float infq_round_z(uint64_t seed, uint32_t bits, int64_t col)
{
    uint64_t h = seed + 0x9e3779b97f4a7c15u * (uint64_t)(col + 1) + ((uint64_t)bits << 32 | bits);
    const uint64_t low = 0x00ff00ff00ff00ffu;

    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u; // splitmix64's finisher
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    h ^= h >> 31;
    h = (h & low) + (h >> 8 & low);                         // four sums of two
    h = (h & 0x0000ffff0000ffffu) + (h >> 16 & 0x0000ffff0000ffffu);
    h = (h & 0xffffffffu) + (h >> 32);
    return ((float)(int32_t)h - 1020.0f) * 0.0047841962f; // 1 / sqrt(43690)
}

static inline float infq_round_bf16(float x)
{
    uint32_t u;
    float y;

    memcpy(&u, &x, sizeof(u));
    u = (u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
    u &= 0xffff0000;
    memcpy(&y, &u, sizeof(y));
    return y;
}

static inline void infq_round_row(const infq_round_args *a, float *x)
{
    int64_t n = a->n_cols;

    for (int64_t c = 0; a->eps > 0.0f && c < n; c++) {
        uint32_t bits;
        memcpy(&bits, &x[c], sizeof(bits));
        x[c] *= 1.0f + a->eps * infq_round_z(a->seed, bits, c);
    }
    switch (a->to) {
    case INFQ_ELEM_BF16:
        for (int64_t c = 0; c < n; c++)
            x[c] = infq_round_bf16(x[c]);
        break;
    case INFQ_ELEM_F16:
        for (int64_t c = 0; c < n; c++)
            x[c] = infq_f16_decode(infq_f16_encode(x[c]));
        break;
    case INFQ_ELEM_E4M3:
        for (int64_t c = 0; c < n; c++)
            x[c] = infq_act_e4m3_round(x[c]);
        break;
    default:
        break;
    }
}

#endif
