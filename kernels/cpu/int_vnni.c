/* Few-row products on integer codes with AVX-512 VNNI. A vector holds 64 code bytes; vpdpbusd adds
 * 4 products of unsigned codes and signed activation bytes in each of 16 lanes, exactly. With
 * activations of 16 bits in two bytes (prep.inc), a lane holds the exact sum of 8 (U4) or 4 (U8)
 * products, which then takes its scales in F32. Weight scales come 16 at a time and are spread over
 * the lanes by a permutation. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/prep.inc"

/* Activations of one vector of codes. U4: 128 columns, even ones against low nibbles, odd ones
 * against high nibbles. */
typedef struct {
    int8_t even_hi[64], even_lo[64], odd_hi[64], odd_lo[64];
    float scale[16];
    int32_t zero[16]; /* -8 * the lane's sum of q, for codes with the implied midpoint */
    float sum[16];    /* the lane's sum of q */
} block_u4;

typedef struct {
    int8_t hi[64], lo[64];
    float scale[16];
    int32_t zero[16]; /* -128 * sum */
    float sum[16];
} block_u8;

size_t infq_prep_u4_bytes_vnni(int64_t n_cols)
{
    return (size_t)((n_cols + 127) / 128) * sizeof(block_u4);
}

void infq_prep_u4_vnni(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out)
{
    block_u4 *b = (block_u4 *)(void *)out;

    (void)w;
    for (int64_t c = 0; c < n_cols; c += 128, b++)
        for (int g = 0; g < 4; g++) {
            prep_nibbles(x, c + g * PREP_GROUP, n_cols, b->even_hi + 16 * g, b->even_lo + 16 * g,
                         b->odd_hi + 16 * g, b->odd_lo + 16 * g, b->scale + 4 * g, b->sum + 4 * g);
            for (int l = 4 * g; l < 4 * g + 4; l++)
                b->zero[l] = -8 * (int32_t)b->sum[l]; // a sum of 8 values of 16 bits is exact in F32
        }
}

size_t infq_prep_u8_bytes_vnni(int64_t n_cols)
{
    return (size_t)((n_cols + 63) / 64) * sizeof(block_u8);
}

void infq_prep_u8_vnni(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out)
{
    block_u8 *b = (block_u8 *)(void *)out;

    (void)w;
    for (int64_t c = 0; c < n_cols; c += 64, b++)
        for (int g = 0; g < 2; g++) {
            int64_t at = c + g * PREP_GROUP,
                    n = n_cols - at < PREP_GROUP ? n_cols - at : PREP_GROUP;
            int16_t q[PREP_GROUP] = { 0 };
            float s = n > 0 ? prep_group(x + at, n, q) : 0.0f;
            for (int i = 0; i < PREP_GROUP; i++)
                prep_split(q[i], &b->hi[PREP_GROUP * g + i], &b->lo[PREP_GROUP * g + i]);
            for (int l = 0; l < 8; l++) {
                int32_t sum = q[4 * l] + q[4 * l + 1] + q[4 * l + 2] + q[4 * l + 3];
                b->scale[8 * g + l] = s;
                b->zero[8 * g + l] = -128 * sum;
                b->sum[8 * g + l] = (float)sum;
            }
        }
}

/* Up to 16 values of a scale or zero row from index g0, as F32; the rest 0. */
static inline __attribute__((always_inline)) __m512 load_scales(const int elem, const uint8_t *p,
                                                                int64_t g0, int64_t n)
{
    __mmask16 m = n - g0 >= 16 ? 0xffff : (__mmask16)((1u << (n - g0)) - 1u);

    if (elem == INFQ_ELEM_F32)
        return _mm512_maskz_loadu_ps(m, p + g0 * 4);
    if (elem == INFQ_ELEM_U8)
        return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, p + g0)));
    if (elem == INFQ_ELEM_F16)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p + g0 * 2));
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p + g0 * 2)), 16));
}

/* nr rows from r, all tokens. u4: nibbles or bytes. scale: elem of scales; zero: NONE, U8 or F32
 * zeros. */
static inline __attribute__((always_inline)) void int_rows(const infq_cpu_few *a, const int nr,
                                                           int64_t r, const bool u4,
                                                           const int scale, const int zero)
{
    const infq_weight *w = a->w;
    const int lane_cols = u4 ? 8 : 4, vec_cols = 16 * lane_cols;
    int64_t n_cols = w->n_cols, n_blocks = (n_cols + vec_cols - 1) / vec_cols;
    // Groups are powers of two from 32, or the whole row: then the shift leaves 0.
    int shift = w->codec.group_cols > 0 ? __builtin_ctz((unsigned)w->codec.group_cols) : 62;
    int64_t n_groups = ((n_cols - 1) >> shift) + 1;
    int64_t row_bytes = u4 ? (n_cols + 1) / 2 : n_cols, n_last = row_bytes - (n_blocks - 1) * 64;
    __mmask64 tail = n_last >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n_last) - 1;
    int64_t chunk = w->codec.group_cols > 0 ? w->codec.group_cols / lane_cols
                                            : n_blocks; // blocks that 16 scales cover
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i lane_col =
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(lane_cols));
    const __m128i shift_v = _mm_cvtsi32_si128(shift);
    const uint8_t *code[4], *sc[4], *zp[4];

    for (int i = 0; i < nr; i++) {
        int64_t gr = infq_cpu_scale_row(&w->codec, r + i);
        code[i] = (const uint8_t *)w->codes.data + (size_t)(r + i) * w->codes.row_bytes;
        sc[i] = (const uint8_t *)w->scales.data + (size_t)gr * w->scales.row_bytes;
        zp[i] = zero == INFQ_ELEM_NONE
                    ? NULL
                    : (const uint8_t *)w->zeros.data + (size_t)gr * w->zeros.row_bytes;
        // Scales are a thin stream of their own that no hardware prefetcher keeps ahead of.
        _mm_prefetch((const char *)sc[i] + SCALE_AHEAD, _MM_HINT_T0);
        if (zero != INFQ_ELEM_NONE)
            _mm_prefetch((const char *)zp[i] + SCALE_AHEAD, _MM_HINT_T0);
    }
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const uint8_t *prep = a->prep + (size_t)t * a->prep_stride;
        __m512 total[4], s[4], z[4];
        for (int i = 0; i < nr; i++)
            total[i] = z[i] = _mm512_setzero_ps();
        for (int64_t b0 = 0; b0 < n_blocks; b0 += chunk) {
            int64_t g0 = (b0 * vec_cols) >> shift,
                    b1 = b0 + chunk < n_blocks ? b0 + chunk : n_blocks;
            for (int i = 0; i < nr; i++) {
                s[i] = load_scales(scale, sc[i], g0, n_groups);
                if (zero != INFQ_ELEM_NONE)
                    z[i] = load_scales(zero, zp[i], g0, n_groups);
            }
            for (int64_t b = b0; b < b1; b++) {
                const block_u4 *x4 = (const block_u4 *)(const void *)prep + b;
                const block_u8 *x8 = (const block_u8 *)(const void *)prep + b;
                __mmask64 m = b == n_blocks - 1 ? tail : ~(__mmask64)0;
                __m512i col =
                    _mm512_add_epi32(lane_col, _mm512_set1_epi32((int)((b - b0) * vec_cols)));
                __m512i at = _mm512_srl_epi32(col, shift_v);
                __m512 sx = _mm512_loadu_ps(u4 ? x4->scale : x8->scale);
                __m512 sum = _mm512_loadu_ps(u4 ? x4->sum : x8->sum);
                __m512i mid = _mm512_loadu_si512(u4 ? x4->zero : x8->zero);
                for (int i = 0; i < nr; i++) {
                    __m512i v = _mm512_maskz_loadu_epi8(m, code[i] + b * 64);
                    __m512i hi = _mm512_setzero_si512(), lo = zero == INFQ_ELEM_NONE ? mid : hi;
                    __m512 f;
                    _mm_prefetch((const char *)code[i] + b * 64 + CODE_AHEAD, _MM_HINT_T0);
                    if (u4) {
                        __m512i even = _mm512_and_si512(v, nibble),
                                odd = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
                        hi = _mm512_dpbusd_epi32(hi, even, _mm512_loadu_si512(x4->even_hi));
                        lo = _mm512_dpbusd_epi32(lo, even, _mm512_loadu_si512(x4->even_lo));
                        hi = _mm512_dpbusd_epi32(hi, odd, _mm512_loadu_si512(x4->odd_hi));
                        lo = _mm512_dpbusd_epi32(lo, odd, _mm512_loadu_si512(x4->odd_lo));
                    } else {
                        hi = _mm512_dpbusd_epi32(hi, v, _mm512_loadu_si512(x8->hi));
                        lo = _mm512_dpbusd_epi32(lo, v, _mm512_loadu_si512(x8->lo));
                    }
                    f = _mm512_cvtepi32_ps(_mm512_add_epi32(lo, _mm512_slli_epi32(hi, 8)));
                    if (zero != INFQ_ELEM_NONE)
                        f = _mm512_fnmadd_ps(_mm512_permutexvar_ps(at, z[i]), sum, f);
                    total[i] = _mm512_fmadd_ps(
                        f, _mm512_mul_ps(sx, _mm512_permutexvar_ps(at, s[i])), total[i]);
                }
            }
        }
        for (int i = 0; i < nr; i++) {
            __m256 h = _mm256_add_ps(_mm512_castps512_ps256(total[i]),
                                     _mm512_extractf32x8_ps(total[i], 1));
            __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
            q = _mm_add_ps(q, _mm_movehl_ps(q, q));
            q = _mm_add_ss(q, _mm_movehdup_ps(q));
            a->y[t * w->n_rows + r + i] = _mm_cvtss_f32(q) + (a->bias ? a->bias[r + i] : 0.0f);
        }
    }
}

static inline __attribute__((always_inline)) void int_range(const infq_cpu_few *a, int64_t r0,
                                                            int64_t r1, const bool u4,
                                                            const int scale, const int zero)
{
    int64_t r = r0;

    for (; r + 4 <= r1; r += 4)
        int_rows(a, 4, r, u4, scale, zero);
    for (; r < r1; r++)
        int_rows(a, 1, r, u4, scale, zero);
}

#define INT_VARIANTS(bits, u4)                                                                     \
    static void u##bits##_bf16(const infq_cpu_few *a, int64_t r0, int64_t r1)                      \
    {                                                                                              \
        int_range(a, r0, r1, u4, INFQ_ELEM_BF16, INFQ_ELEM_NONE);                                  \
    }                                                                                              \
    static void u##bits##_f16(const infq_cpu_few *a, int64_t r0, int64_t r1)                       \
    {                                                                                              \
        int_range(a, r0, r1, u4, INFQ_ELEM_F16, INFQ_ELEM_NONE);                                   \
    }                                                                                              \
    static void u##bits##_f32(const infq_cpu_few *a, int64_t r0, int64_t r1)                       \
    {                                                                                              \
        int_range(a, r0, r1, u4, INFQ_ELEM_F32, INFQ_ELEM_NONE);                                   \
    }                                                                                              \
    static void u##bits##_zero(const infq_cpu_few *a, int64_t r0, int64_t r1)                      \
    {                                                                                              \
        bool z8 = a->w->codec.zero == INFQ_ZERO_INT;                                               \
        infq_elem s = a->w->codec.scale;                                                           \
                                                                                                   \
        if (s == INFQ_ELEM_BF16 && z8)                                                             \
            int_range(a, r0, r1, u4, INFQ_ELEM_BF16, INFQ_ELEM_U8);                                \
        else if (s == INFQ_ELEM_F16 && z8)                                                         \
            int_range(a, r0, r1, u4, INFQ_ELEM_F16, INFQ_ELEM_U8);                                 \
        else if (z8)                                                                               \
            int_range(a, r0, r1, u4, INFQ_ELEM_F32, INFQ_ELEM_U8);                                 \
        else if (s == INFQ_ELEM_BF16)                                                              \
            int_range(a, r0, r1, u4, INFQ_ELEM_BF16, INFQ_ELEM_F32);                               \
        else if (s == INFQ_ELEM_F16)                                                               \
            int_range(a, r0, r1, u4, INFQ_ELEM_F16, INFQ_ELEM_F32);                                \
        else                                                                                       \
            int_range(a, r0, r1, u4, INFQ_ELEM_F32, INFQ_ELEM_F32);                                \
    }                                                                                              \
    void infq_few_u##bits##_vnni(const infq_cpu_few *a, int64_t r0, int64_t r1)                    \
    {                                                                                              \
        if (a->w->codec.zero != INFQ_ZERO_NONE)                                                    \
            u##bits##_zero(a, r0, r1);                                                             \
        else if (a->w->codec.scale == INFQ_ELEM_BF16)                                              \
            u##bits##_bf16(a, r0, r1);                                                             \
        else if (a->w->codec.scale == INFQ_ELEM_F16)                                               \
            u##bits##_f16(a, r0, r1);                                                              \
        else                                                                                       \
            u##bits##_f32(a, r0, r1);                                                              \
    }
INT_VARIANTS(4, true)
INT_VARIANTS(8, false)

/* W8A8. u8 = w + 128 against signed x, less 128 * sum(x), which stands behind the codes in prep.
 * Wrapping 32-bit sums: the difference is exact whenever the true sum fits. */
static inline __attribute__((always_inline)) void i8_rows(const infq_cpu_few *a, const int nr,
                                                          int64_t r)
{
    const infq_weight *w = a->w;
    int64_t n = w->n_cols, n_main = n - n % 64;
    __mmask64 tail = ((__mmask64)1 << (n % 64)) - 1;
    const __m512i flip = _mm512_set1_epi8((char)-128);

    for (int64_t t = 0; t < a->n_tokens; t++) {
        const uint8_t *x = a->prep + (size_t)t * a->prep_stride;
        const uint8_t *p = (const uint8_t *)w->codes.data + (size_t)r * w->codes.row_bytes;
        __m512i acc[4], ones = _mm512_set1_epi8(1), sum = _mm512_setzero_si512();
        for (int i = 0; i < nr; i++)
            acc[i] = _mm512_setzero_si512();
        for (int64_t k = 0; k < n; k += 64) {
            __mmask64 m = k < n_main ? ~(__mmask64)0 : tail;
            __m512i xv = _mm512_maskz_loadu_epi8(m, x + k);
            sum = _mm512_dpbusd_epi32(sum, ones, xv);
            for (int i = 0; i < nr; i++) {
                __m512i wv = _mm512_maskz_loadu_epi8(m, p + (size_t)i * w->codes.row_bytes + k);
                _mm_prefetch((const char *)p + (size_t)i * w->codes.row_bytes + k + CODE_AHEAD,
                             _MM_HINT_T0);
                acc[i] = _mm512_dpbusd_epi32(acc[i], _mm512_xor_si512(wv, flip), xv);
            }
        }
        for (int i = 0; i < nr; i++) {
            __m512i d = _mm512_sub_epi32(acc[i], _mm512_slli_epi32(sum, 7));
            a->y[t * w->n_rows + r + i] =
                infq_cpu_i8_out(_mm512_reduce_add_epi32(d), a->x_scale[t],
                                infq_cpu_scale(w, r + i, 0), a->bias, r + i);
        }
    }
}

void infq_few_i8_vnni(const infq_cpu_few *a, int64_t r0, int64_t r1)
{
    int64_t r = r0;

    for (; r + 4 <= r1; r += 4)
        i8_rows(a, 4, r);
    for (; r < r1; r++)
        i8_rows(a, 1, r);
}
