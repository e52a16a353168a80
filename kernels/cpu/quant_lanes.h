/* Sixteen F32 lanes, spelled for AVX-512, for AVX2 (two halves) and for any processor. Every operation gives the same bits in all
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

/* Quarters in the vector extension of gcc and clang: what every processor has, and plain C to the sanitizers. */
typedef float f4 __attribute__((vector_size(16)));
typedef uint32_t u4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef struct {
    f4 a, b, c, d;
} vf;
typedef struct {
    u4 a, b, c, d;
} vi;
typedef vi vm;

#define OF2(type, name, op)                                                                        \
    static inline type name(type x, type y)                                                        \
    {                                                                                              \
        return (type){ x.a op y.a, x.b op y.b, x.c op y.c, x.d op y.d };                           \
    }
OF2(vf, v_add, +)
OF2(vf, v_sub, -)
OF2(vf, v_mul, *)
OF2(vf, v_div, /)
OF2(vi, i_add, +)
OF2(vi, i_sub, -)
OF2(vi, i_and, &)
OF2(vi, i_or, |)
#undef OF2
static inline vf v_load(const float *p)
{
    vf x;

    memcpy(&x, p, sizeof(x));
    return x;
}
static inline void v_store(float *p, vf x) { memcpy(p, &x, sizeof(x)); }
static inline vf v_set(float x)
{
    f4 q = { x, x, x, x };

    return (vf){ q, q, q, q };
}
static inline vi i_set(uint32_t x)
{
    u4 q = { x, x, x, x };

    return (vi){ q, q, q, q };
}
static inline vi v_bits(vf x) { return (vi){ (u4)x.a, (u4)x.b, (u4)x.c, (u4)x.d }; }
static inline vf v_float(vi x) { return (vf){ (f4)x.a, (f4)x.b, (f4)x.c, (f4)x.d }; }
static inline vm v_lt(vf x, vf y)
{
    return (vm){ (u4)(x.a < y.a), (u4)(x.b < y.b), (u4)(x.c < y.c), (u4)(x.d < y.d) };
}
static inline vi i_sel(vm m, vi x, vi y)
{
    return (vi){ (m.a & x.a) | (~m.a & y.a), (m.b & x.b) | (~m.b & y.b), (m.c & x.c) | (~m.c & y.c),
                 (m.d & x.d) | (~m.d & y.d) };
}
static inline vf v_sel(vm m, vf x, vf y) { return v_float(i_sel(m, v_bits(x), v_bits(y))); }
static inline vf v_min(vf x, vf y) { return v_sel(v_lt(x, y), x, y); }
static inline vf v_max(vf x, vf y) { return v_sel(v_lt(y, x), x, y); }
static inline vi i_shr(vi x, int n) { return (vi){ x.a >> n, x.b >> n, x.c >> n, x.d >> n }; }
static inline vi i_of(vf x)
{
    return (vi){ (u4)__builtin_convertvector(x.a, i4), (u4)__builtin_convertvector(x.b, i4),
                 (u4)__builtin_convertvector(x.c, i4), (u4)__builtin_convertvector(x.d, i4) };
}
static inline void i_store_u8(uint8_t *p, vi x)
{
    uint32_t v[LANES];

    memcpy(v, &x, sizeof(v));
    for (int l = 0; l < LANES; l++)
        p[l] = (uint8_t)v[l];
}

static inline float v_sum(vf x)
{
    f4 q = (x.a + x.c) + (x.b + x.d);

    return (q[0] + q[2]) + (q[1] + q[3]);
}

static inline float v_top(vf x)
{
    float v[LANES], top;

    v_store(v, x);
    top = v[0];
    for (int l = 1; l < LANES; l++)
        top = top > v[l] ? top : v[l];
    return top;
}

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
