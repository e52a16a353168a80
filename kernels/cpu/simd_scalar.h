/* Vectors of one float in plain C: the contract of simd_avx2.h and simd_avx512.h, which say nothing
 * twice. The .inc files are written over these names. vf: VW floats.  v_fma(a, b, c) = a * b + c,
 * rounded once where the ISA has it.  v_sum: fixed tree. v_round: nearest, ties to even.  v_max,
 * v_min: the second operand when one is NaN. v_pow2(n): 2^n for whole n in -126..127.  Loads need
 * no alignment. */
#ifndef INFQ_KERNELS_CPU_SIMD_SCALAR_H
#define INFQ_KERNELS_CPU_SIMD_SCALAR_H

#include <math.h>
#include <string.h>

#include "lib/tensor/dtype.h"

#define VW 1
typedef float vf;

static inline vf v_set1(float a) { return a; }
static inline vf v_load(const float *p)
{
    float f;
    memcpy(&f, p, 4);
    return f;
}
static inline void v_store(float *p, vf a) { *p = a; }
static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_div(vf a, vf b) { return a / b; }
static inline vf v_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf v_max(vf a, vf b) { return a > b ? a : b; }
static inline vf v_min(vf a, vf b) { return a < b ? a : b; }
static inline vf v_round(vf a) { return rintf(a); }
static inline float v_sum(vf a) { return a; }
static inline vf v_pow2(vf n)
{
    uint32_t b = (uint32_t)((int32_t)n + 127) << 23;
    float f;

    memcpy(&f, &b, 4);
    return f;
}
/* a where x <= y, else b */
static inline vf v_le_select(vf x, vf y, vf a, vf b) { return x <= y ? a : b; }
/* x where x is NaN, else y */
static inline vf v_nan_of(vf x, vf y) { return x != x ? x : y; }
static inline vf v_load_bf16(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, 2);
    return infq_bf16_decode(h);
}
static inline vf v_load_f16(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, 2);
    return infq_f16_decode(h);
}
static inline vf v_load_u8(const uint8_t *p) { return (float)*p; }
static inline vf v_load_i8(const uint8_t *p) { return (float)(int8_t)*p; }
static inline vf v_load_e4m3(const uint8_t *p) { return infq_e4m3_decode(*p); }
/* 2 * VW values times 2^-8, anything for NaN (speed: see simd_avx512.h). */
static inline void v_load2_e4m3(const uint8_t *p, vf *a, vf *b)
{
    *a = infq_e4m3_decode(p[0]) * (1.0f / 256.0f);
    *b = infq_e4m3_decode(p[1]) * (1.0f / 256.0f);
}
/* Whether one of n bytes is an E4M3 NaN. */
static inline bool any_e4m3_nan(const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if ((p[i] & 0x7f) == 0x7f)
            return true;
    return false;
}
static inline vf v_load_f32(const uint8_t *p) { return v_load((const float *)(const void *)p); }
/* 2 * VW codes of VW bytes, low nibble first. */
static inline void v_load_u4(const uint8_t *p, vf *a, vf *b)
{
    *a = (float)(*p & 15);
    *b = (float)(*p >> 4);
}
/* out[k * ldo + i] = x[i * ldx + k] for VW rows and VW columns. */
static inline void v_transpose(const float *x, int64_t ldx, float *out, int64_t ldo)
{
    (void)ldx;
    (void)ldo;
    *out = *x;
}

#endif
