/* Vectors of 8 floats; see simd_scalar.h. */
#ifndef INFQ_KERNELS_CPU_SIMD_AVX2_H
#define INFQ_KERNELS_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "lib/tensor/dtype.h"

#define VW 8
typedef __m256 vf;

static inline vf v_set1(float a) { return _mm256_set1_ps(a); }
static inline vf v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf v_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline float v_sum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline vf v_pow2(vf n)
{
    __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));

    return _mm256_castsi256_ps(_mm256_slli_epi32(i, 23));
}
static inline vf v_le_select(vf x, vf y, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LE_OQ));
}
static inline vf v_nan_of(vf x, vf y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
static inline vf v_load_bf16(const uint8_t *p)
{
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
static inline vf v_load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline vf v_load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline vf v_load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* As F16 with the same bits moved, which is the value times 2^-8 (subnormals too); 0x7f is NaN. */
static inline vf v_load_e4m3(const uint8_t *p)
{
    __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)p));
    __m128i mag = _mm_and_si128(b, _mm_set1_epi16(0x7f));
    __m128i h = _mm_or_si128(_mm_slli_epi16(_mm_xor_si128(b, mag), 8), _mm_slli_epi16(mag, 7));

    h = _mm_or_si128(
        h, _mm_and_si128(_mm_cmpeq_epi16(mag, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7e00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(h), _mm256_set1_ps(256.0f));
}
static inline void v_load2_e4m3(const uint8_t *p, vf *a, vf *b)
{
    __m256i h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)), 7);

    h = _mm256_and_si256(h, _mm256_set1_epi16((short)0xbfff));
    *a = _mm256_cvtph_ps(_mm256_castsi256_si128(h));
    *b = _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1));
}
static inline bool any_e4m3_nan(const uint8_t *p, int64_t n)
{
    const __m256i sign = _mm256_set1_epi8((char)0x80), ones = _mm256_set1_epi8((char)0xff);
    __m256i m = _mm256_setzero_si256();
    int64_t i = 0;
    bool any;

    for (; i + 32 <= n; i += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + i));
        m = _mm256_or_si256(m, _mm256_cmpeq_epi8(_mm256_or_si256(v, sign), ones));
    }
    any = _mm256_movemask_epi8(m) != 0;
    for (; i < n; i++)
        any |= (p[i] & 0x7f) == 0x7f;
    return any;
}
static inline vf v_load_f32(const uint8_t *p)
{
    return _mm256_loadu_ps((const float *)(const void *)p);
}
static inline void v_load_u4(const uint8_t *p, vf *a, vf *b)
{
    __m128i v = _mm_loadl_epi64((const __m128i *)p), m = _mm_set1_epi8(15);
    __m128i c = _mm_unpacklo_epi8(_mm_and_si128(v, m), _mm_and_si128(_mm_srli_epi16(v, 4), m));

    *a = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(c));
    *b = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(c, 8)));
}
static inline void v_transpose(const float *x, int64_t ldx, float *out, int64_t ldo)
{
    __m256 r[8], t[8];

    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(x + i * ldx);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + i * ldo, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * ldo, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

#endif
