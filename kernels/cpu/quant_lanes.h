/* Sixteen F32 lanes, spelled for AVX-512, for AVX2 (two halves) and in plain C. Every operation gives the same bits in all
 * three: no fused products, min and max return the second operand when the first is not smaller (larger), sums use one tree. */
#ifndef INFQ_KERNELS_CPU_QUANT_LANES_H
#define INFQ_KERNELS_CPU_QUANT_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LANES 16

#if defined(__AVX512F__)

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

static inline vf v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline vf v_set(float a) { return _mm512_set1_ps(a); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vf v_sel(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vi v_bits(vf a) { return _mm512_castps_si512(a); }
static inline vf v_float(vi a) { return _mm512_castsi512_ps(a); }
static inline vi i_set(uint32_t a) { return _mm512_set1_epi32((int)a); }
static inline vi i_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi i_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi i_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi i_or(vi a, vi b) { return _mm512_or_si512(a, b); }
#define i_shr(a, n) _mm512_srli_epi32(a, n)
static inline vi i_sel(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }
static inline vi i_of(vf a) { return _mm512_cvtps_epi32(a); }
static inline void i_store_u8(uint8_t *p, vi a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a)); }

static inline float v_sum(vf a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

static inline float v_top(vf a)
{
    return _mm512_reduce_max_ps(a);
}

#elif defined(__AVX2__)

typedef struct {
    __m256 a, b;
} vf;
typedef struct {
    __m256i a, b;
} vi;
typedef vf vm;

#define V2(name, op)                                                                               \
    static inline vf name(vf x, vf y) { return (vf){ op(x.a, y.a), op(x.b, y.b) }; }
#define I2(name, op)                                                                               \
    static inline vi name(vi x, vi y) { return (vi){ op(x.a, y.a), op(x.b, y.b) }; }
V2(v_add, _mm256_add_ps)
V2(v_sub, _mm256_sub_ps)
V2(v_mul, _mm256_mul_ps)
V2(v_div, _mm256_div_ps)
V2(v_min, _mm256_min_ps)
V2(v_max, _mm256_max_ps)
I2(i_add, _mm256_add_epi32)
I2(i_sub, _mm256_sub_epi32)
I2(i_and, _mm256_and_si256)
I2(i_or, _mm256_or_si256)
#undef V2
#undef I2
static inline vf v_load(const float *p) { return (vf){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) }; }
static inline void v_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline vf v_set(float x) { return (vf){ _mm256_set1_ps(x), _mm256_set1_ps(x) }; }
static inline vm v_lt(vf x, vf y)
{
    return (vm){ _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ) };
}
static inline vf v_sel(vm m, vf x, vf y)
{
    return (vf){ _mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b) };
}
static inline vi v_bits(vf x) { return (vi){ _mm256_castps_si256(x.a), _mm256_castps_si256(x.b) }; }
static inline vf v_float(vi x) { return (vf){ _mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b) }; }
static inline vi i_set(uint32_t x) { return (vi){ _mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x) }; }
static inline vi i_shr(vi x, int n) { return (vi){ _mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n) }; }
static inline vi i_sel(vm m, vi x, vi y) { return v_bits(v_sel(m, v_float(x), v_float(y))); }
static inline vi i_of(vf x) { return (vi){ _mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b) }; }
static inline void i_store_u8(uint8_t *p, vi x)
{
    __m256i low = _mm256_set1_epi32(0xff);
    __m256i w = _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low));

    w = _mm256_permute4x64_epi64(w, 0xd8);  // the pack works by halves: bring the words into order
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}

static inline float v_sum(vf x)
{
    __m256 h = _mm256_add_ps(x.a, x.b);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

static inline float v_top(vf x)
{
    __m256 h = _mm256_max_ps(x.a, x.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

#else

typedef struct {
    float v[LANES];
} vf;
typedef struct {
    uint32_t v[LANES];
} vi;
typedef vi vm;

#define EACH for (int l = 0; l < LANES; l++)
#define V2(name, expr)                                                                             \
    static inline vf name(vf a, vf b)                                                              \
    {                                                                                              \
        EACH a.v[l] = expr;                                                                        \
        return a;                                                                                  \
    }
#define I2(name, expr)                                                                             \
    static inline vi name(vi a, vi b)                                                              \
    {                                                                                              \
        EACH a.v[l] = expr;                                                                        \
        return a;                                                                                  \
    }
V2(v_add, a.v[l] + b.v[l])
V2(v_sub, a.v[l] - b.v[l])
V2(v_mul, a.v[l] * b.v[l])
V2(v_div, a.v[l] / b.v[l])
V2(v_min, a.v[l] < b.v[l] ? a.v[l] : b.v[l])
V2(v_max, a.v[l] > b.v[l] ? a.v[l] : b.v[l])
I2(i_add, a.v[l] + b.v[l])
I2(i_sub, a.v[l] - b.v[l])
I2(i_and, a.v[l] & b.v[l])
I2(i_or, a.v[l] | b.v[l])
#undef V2
#undef I2
static inline vf v_load(const float *p)
{
    vf a;

    memcpy(&a, p, sizeof(a));
    return a;
}
static inline void v_store(float *p, vf a) { memcpy(p, &a, sizeof(a)); }
static inline vf v_set(float x)
{
    vf a;

    EACH a.v[l] = x;
    return a;
}
static inline vi i_set(uint32_t x)
{
    vi a;

    EACH a.v[l] = x;
    return a;
}
static inline vi v_bits(vf a)
{
    vi b;

    memcpy(&b, &a, sizeof(b));
    return b;
}
static inline vf v_float(vi a)
{
    vf b;

    memcpy(&b, &a, sizeof(b));
    return b;
}
static inline vm v_lt(vf a, vf b)
{
    vm m;

    EACH m.v[l] = a.v[l] < b.v[l] ? UINT32_MAX : 0;
    return m;
}
static inline vi i_sel(vm m, vi a, vi b)
{
    EACH a.v[l] = (m.v[l] & a.v[l]) | (~m.v[l] & b.v[l]);
    return a;
}
static inline vf v_sel(vm m, vf a, vf b) { return v_float(i_sel(m, v_bits(a), v_bits(b))); }
static inline vi i_shr(vi a, int n)
{
    EACH a.v[l] >>= n;
    return a;
}
static inline vi i_of(vf a)
{
    vi b;

    EACH b.v[l] = (uint32_t)(int32_t)a.v[l];
    return b;
}
static inline void i_store_u8(uint8_t *p, vi a) { EACH p[l] = (uint8_t)a.v[l]; }

static inline float v_sum(vf a)
{
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++)
            a.v[l] += a.v[l + n];
    return a.v[0];
}

static inline float v_top(vf a)
{
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++)
            a.v[l] = a.v[l] > a.v[l + n] ? a.v[l] : a.v[l + n];
    return a.v[0];
}
#undef EACH

#endif

/* Nearest integer, ties to even, for |a| < 2^22: the sum with 1.5 * 2^23 has no fraction. i_of wants integral values. */
static inline vf v_rne(vf a)
{
    vf magic = v_set(12582912.0f);

    return v_sub(v_add(a, magic), magic);
}
static inline vf v_abs(vf a) { return v_float(i_and(v_bits(a), i_set(0x7fffffff))); }
/* First n (1..16) of 16 floats, the rest 0. */
static inline vf v_load_part(const float *p, int64_t n)
{
    float part[LANES] = { 0 };

    memcpy(part, p, (size_t)n * sizeof(float));
    return v_load(part);
}

#endif
