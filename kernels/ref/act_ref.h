/* Activation quantization of W8A8 and FP8 schemes: one definition for the reference and the CPU
 * backend, so that both multiply exactly the same values. Written so that compilers vectorise it
 * with the flags of the file that includes it; every operation is rounded by IEEE rules, so all
 * instances agree bit for bit. */
#ifndef INFQ_KERNELS_REF_ACT_REF_H
#define INFQ_KERNELS_REF_ACT_REF_H

#include <math.h>
#include <string.h>

#include "lib/tensor/weight.h"

#define INFQ_ACT_E4M3_MAX 448.0f

/* Largest |x|, NaN when a value is NaN: the bits of |x| order as integers, with NaN above infinity.
 */
static inline float infq_act_absmax(const float *x, int64_t n)
{
    int32_t m = 0;
    float f;

    for (int64_t i = 0; i < n; i++) {
        int32_t b;
        memcpy(&b, &x[i], sizeof(b));
        b &= 0x7fffffff;
        m = b > m ? b : m;
    }
    memcpy(&f, &m, sizeof(f));
    return f;
}

static inline float infq_act_i8_round(float x, float s)
{
    float v = rintf(x / s);

    v = v > 127.0f ? 127.0f : v;
    return v < -127.0f ? -127.0f : v;
}

/* Symmetric int8 of one row: s = absmax/127, q = rne(x/s) in -127..127; returns s. An all-zero row
 * (or one whose s would be 0) gives s = 0 and codes 0; a row with NaN or infinity gives s = NaN and
 * codes 0, so that the product is NaN. */
static inline float infq_act_i8_row(const float *x, int64_t n, int8_t *q)
{
    float s = infq_act_absmax(x, n) / 127.0f;

    if (!(s > 0.0f) || isinf(s)) {
        for (int64_t i = 0; i < n; i++)
            q[i] = 0;
        return s == 0.0f ? 0.0f : NAN;
    }
    for (int64_t i = 0; i < n; i++)
        q[i] = (int8_t)(int32_t)infq_act_i8_round(x[i], s);
    return s;
}

/* Nearest E4M3 value, ties to even, saturating: equal to decode(encode(y)) of lib/tensor/dtype.h.
 * Below 2^-6 the grid is the multiples of 2^-9; above, 3 bits of mantissa. */
static inline float infq_act_e4m3_round(float y)
{
    const float magic = 24576.0f; // 1.5 * 2^14: adding it leaves multiples of 2^-9
    uint32_t b, a;
    float big, small, mag;

    memcpy(&b, &y, sizeof(b));
    a = b & 0x7fffffffu;
    memcpy(&mag, &a, sizeof(mag));
    small = (mag + magic) - magic;
    a = (a + 0x7ffffu + (a >> 20 & 1u)) & 0xfff00000u;
    memcpy(&big, &a, sizeof(big));
    mag = mag < 0.015625f ? small : big;
    mag = mag > INFQ_ACT_E4M3_MAX ? INFQ_ACT_E4M3_MAX : mag;
    return copysignf(mag, y);
}

static inline void infq_act_e4m3_span(const float *x, int64_t n, float s, float *dst)
{
    if (!(s > 0.0f) || isinf(s)) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = s == 0.0f ? 0.0f : NAN;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], r = infq_act_e4m3_round(v / s) * s;
        dst[i] = v == v ? r : v; // NaN stays
    }
}

/* x' of one row under codec.act: quantized and decoded again. NONE copies. dst may be x. */
static inline void infq_act_row(infq_act act, float act_scale, const float *x, int64_t n,
                                float *dst)
{
    switch (act) {
    case INFQ_ACT_NONE:
        memmove(dst, x, (size_t)n * sizeof(float));
        return;
    case INFQ_ACT_I8_TOKEN: {
        float s = infq_act_absmax(x, n) / 127.0f;
        bool ok = s > 0.0f && !isinf(s);
        for (int64_t i = 0; i < n; i++)
            dst[i] = ok ? infq_act_i8_round(x[i], s) * s : s == 0.0f ? 0.0f : NAN;
        return;
    }
    case INFQ_ACT_E4M3_TOKEN:
        infq_act_e4m3_span(x, n, infq_act_absmax(x, n) / INFQ_ACT_E4M3_MAX, dst);
        return;
    case INFQ_ACT_E4M3_GROUP128:
        for (int64_t i = 0; i < n; i += 128) {
            int64_t m = n - i < 128 ? n - i : 128;
            infq_act_e4m3_span(x + i, m, infq_act_absmax(x + i, m) / INFQ_ACT_E4M3_MAX, dst + i);
        }
        return;
    case INFQ_ACT_E4M3_TENSOR:
        infq_act_e4m3_span(x, n, act_scale, dst);
        return;
    }
}

#endif
