/* Vectors of 16 floats; see simd_scalar.h. */
#ifndef INFQ_KERNELS_CPU_SIMD_AVX512_H
#define INFQ_KERNELS_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "lib/tensor/dtype.h"

#define VW 16
typedef __m512 vf;

static inline vf v_set1(float a) { return _mm512_set1_ps(a); }
static inline vf v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf v_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline float v_sum(vf a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline vf v_pow2(vf n)
{
    __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));

    return _mm512_castsi512_ps(_mm512_slli_epi32(i, 23));
}
static inline vf v_le_select(vf x, vf y, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LE_OQ), b, a);
}
static inline vf v_nan_of(vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), y, x);
}
static inline vf v_load_bf16(const uint8_t *p)
{
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}
static inline vf v_load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline vf v_load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf v_load_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf v_load_e4m3(const uint8_t *p)
{
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    __m256i mag = _mm256_and_si256(b, _mm256_set1_epi16(0x7f));
    __m256i h =
        _mm256_or_si256(_mm256_slli_epi16(_mm256_xor_si256(b, mag), 8), _mm256_slli_epi16(mag, 7));

    h = _mm256_or_si256(h, _mm256_and_si256(_mm256_cmpeq_epi16(mag, _mm256_set1_epi16(0x7f)),
                                            _mm256_set1_epi16(0x7e00)));
    return _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(256.0f));
}
/* 2 * VW values times 2^-8, anything for NaN: the sign-extended byte moved by 7 has the sign twice,
 * in bits 15 and 14. */
static inline void v_load2_e4m3(const uint8_t *p, vf *a, vf *b)
{
    __m512i h = _mm512_slli_epi16(_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p)), 7);

    h = _mm512_and_si512(h, _mm512_set1_epi16((short)0xbfff));
    *a = _mm512_cvtph_ps(_mm512_castsi512_si256(h));
    *b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1));
}
/* Whether one of n bytes is an E4M3 NaN. */
static inline bool any_e4m3_nan(const uint8_t *p, int64_t n)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80), ones = _mm512_set1_epi8((char)0xff);
    __mmask64 m = 0;
    int64_t i = 0;

    for (; i + 64 <= n; i += 64)
        m |= _mm512_cmpeq_epi8_mask(_mm512_or_si512(_mm512_loadu_si512(p + i), sign), ones);
    if (i < n) {
        __mmask64 t = ((__mmask64)1 << (n - i)) - 1;
        m |= _mm512_cmpeq_epi8_mask(_mm512_or_si512(_mm512_maskz_loadu_epi8(t, p + i), sign), ones);
    }
    return m != 0;
}
static inline vf v_load_f32(const uint8_t *p) { return _mm512_loadu_ps(p); }
static inline void v_load_u4(const uint8_t *p, vf *a, vf *b)
{
    __m128i v = _mm_loadu_si128((const __m128i *)p), m = _mm_set1_epi8(15);
    __m128i lo = _mm_and_si128(v, m), hi = _mm_and_si128(_mm_srli_epi16(v, 4), m);

    *a = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(lo, hi)));
    *b = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpackhi_epi8(lo, hi)));
}
static inline void v_transpose(const float *x, int64_t ldx, float *out, int64_t ldo)
{
    __m512 r[16], t[16];

    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_ps(x + i * ldx);
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    // r[4b + j], lane l: rows 4b..4b+3 of column 4l + j
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        __m512 a = _mm512_shuffle_f32x4(r[j], r[j + 4], 0x88),
               b = _mm512_shuffle_f32x4(r[j], r[j + 4], 0xdd);
        __m512 c = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0x88),
               d = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0xdd);
        _mm512_storeu_ps(out + j * ldo, _mm512_shuffle_f32x4(a, c, 0x88));
        _mm512_storeu_ps(out + (j + 4) * ldo, _mm512_shuffle_f32x4(b, d, 0x88));
        _mm512_storeu_ps(out + (j + 8) * ldo, _mm512_shuffle_f32x4(a, c, 0xdd));
        _mm512_storeu_ps(out + (j + 12) * ldo, _mm512_shuffle_f32x4(b, d, 0xdd));
    }
}

#endif
