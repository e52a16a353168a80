/* Few-row products on integer codes with AVX2. U4: vpmaddubsw of codes (at most 15) and signed
 * activation bytes cannot saturate (4 * 15 * 127 < 32768), so the 16-bit activations of prep.inc
 * give exact sums in 8 lanes of 8 products. U8 and I8: codes widened to 16 bits, vpmaddwd. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/prep.inc"

/* 64 columns: even ones against low nibbles, odd ones against high nibbles; lanes 0-3 hold the
 * first 32 columns. */
typedef struct {
    int8_t even_hi[32], even_lo[32], odd_hi[32], odd_lo[32];
    float scale[8];
    float sum[8]; /* the lane's sum of q */
} block_u4;

/* 32 columns */
typedef struct {
    int16_t q[PREP_GROUP];
    float scale, sum, pad[6];
} block_u8;

size_t infq_prep_u4_bytes_avx2(int64_t n_cols)
{
    return (size_t)((n_cols + 63) / 64) * sizeof(block_u4);
}

void infq_prep_u4_avx2(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out)
{
    block_u4 *b = (block_u4 *)(void *)out;

    (void)w;
    for (int64_t c = 0; c < n_cols; c += 64, b++)
        for (int g = 0; g < 2; g++)
            prep_nibbles(x, c + g * PREP_GROUP, n_cols, b->even_hi + 16 * g, b->even_lo + 16 * g,
                         b->odd_hi + 16 * g, b->odd_lo + 16 * g, b->scale + 4 * g, b->sum + 4 * g);
}

size_t infq_prep_u8_bytes_avx2(int64_t n_cols)
{
    return (size_t)((n_cols + 31) / 32) * sizeof(block_u8);
}

void infq_prep_u8_avx2(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out)
{
    block_u8 *b = (block_u8 *)(void *)out;

    (void)w;
    for (int64_t c = 0; c < n_cols; c += PREP_GROUP, b++) {
        int32_t sum = 0;
        b->scale = prep_group(x + c, n_cols - c < PREP_GROUP ? n_cols - c : PREP_GROUP, b->q);
        for (int i = 0; i < PREP_GROUP; i++)
            sum += b->q[i];
        b->sum = (float)sum;
    }
}

static inline float sum8(__m256 a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline __m256i load_tail(const uint8_t *p, int64_t n)
{
    uint8_t b[32] = { 0 };

    memcpy(b, p, (size_t)n);
    return _mm256_loadu_si256((const __m256i *)(const void *)b);
}

void infq_few_u4_avx2(const infq_cpu_few *a, int64_t r0, int64_t r1)
{
    const infq_weight *w = a->w;
    int64_t n_cols = w->n_cols, n_blocks = (n_cols + 63) / 64, row_bytes = (n_cols + 1) / 2;
    // Groups are powers of two from 32, or the whole row.
    int shift = w->codec.group_cols > 0 ? __builtin_ctz((unsigned)w->codec.group_cols) : 62;
    const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);

    for (int64_t r = r0; r < r1; r++) {
        const uint8_t *p = (const uint8_t *)w->codes.data + (size_t)r * w->codes.row_bytes;
        _mm_prefetch((const char *)w->scales.data +
                         (size_t)infq_cpu_scale_row(&w->codec, r) * w->scales.row_bytes +
                         SCALE_AHEAD,
                     _MM_HINT_T0);
        for (int64_t t = 0; t < a->n_tokens; t++) {
            const block_u4 *x =
                (const block_u4 *)(const void *)(a->prep + (size_t)t * a->prep_stride);
            __m256 total = _mm256_setzero_ps(), s = total, z = total;
            int64_t group = -1;
            for (int64_t b = 0; b < n_blocks; b++, x++) {
                int64_t n = row_bytes - b * 32, ga = (b * 64) >> shift,
                        gb = b * 64 + 32 < n_cols ? (b * 64 + 32) >> shift : ga;
                __m256i v = n >= 32
                                ? _mm256_loadu_si256((const __m256i *)(const void *)(p + b * 32))
                                : load_tail(p + b * 32, n);
                __m256i even = _mm256_and_si256(v, nibble),
                        odd = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble), hi, lo;
                __m256 f;
                _mm_prefetch((const char *)p + b * 32 + CODE_AHEAD, _MM_HINT_T0);
                if (ga != group || gb != ga) {
                    s = _mm256_set_m128(_mm_set1_ps(infq_cpu_scale(w, r, gb)),
                                        _mm_set1_ps(infq_cpu_scale(w, r, ga)));
                    z = _mm256_set_m128(_mm_set1_ps(infq_cpu_zero(w, r, gb)),
                                        _mm_set1_ps(infq_cpu_zero(w, r, ga)));
                    group = ga == gb ? ga : -1;
                }
#define X(part) _mm256_loadu_si256((const __m256i *)(const void *)x->part)
                hi = _mm256_add_epi16(_mm256_maddubs_epi16(even, X(even_hi)),
                                      _mm256_maddubs_epi16(odd, X(odd_hi)));
                lo = _mm256_add_epi16(_mm256_maddubs_epi16(even, X(even_lo)),
                                      _mm256_maddubs_epi16(odd, X(odd_lo)));
#undef X
                hi = _mm256_slli_epi32(_mm256_madd_epi16(hi, ones), 8);
                f = _mm256_cvtepi32_ps(_mm256_add_epi32(hi, _mm256_madd_epi16(lo, ones)));
                f = _mm256_fnmadd_ps(z, _mm256_loadu_ps(x->sum), f);
                total = _mm256_fmadd_ps(f, _mm256_mul_ps(_mm256_loadu_ps(x->scale), s), total);
            }
            a->y[t * w->n_rows + r] = sum8(total) + (a->bias ? a->bias[r] : 0.0f);
        }
    }
}

void infq_few_u8_avx2(const infq_cpu_few *a, int64_t r0, int64_t r1)
{
    const infq_weight *w = a->w;
    int64_t n_cols = w->n_cols;
    int shift = w->codec.group_cols > 0 ? __builtin_ctz((unsigned)w->codec.group_cols) : 62;
    const bool mid = w->codec.zero == INFQ_ZERO_NONE;
    const __m256i flip = _mm256_set1_epi16(mid ? 128 : 0);

    for (int64_t r = r0; r < r1; r++) {
        const uint8_t *p = (const uint8_t *)w->codes.data + (size_t)r * w->codes.row_bytes;
        _mm_prefetch((const char *)w->scales.data +
                         (size_t)infq_cpu_scale_row(&w->codec, r) * w->scales.row_bytes +
                         SCALE_AHEAD,
                     _MM_HINT_T0);
        for (int64_t t = 0; t < a->n_tokens; t++) {
            const block_u8 *x =
                (const block_u8 *)(const void *)(a->prep + (size_t)t * a->prep_stride);
            __m256 total = _mm256_setzero_ps();
            float s = 0.0f, z = 0.0f, zeros = 0.0f;
            int64_t group = -1;
            for (int64_t c = 0; c < n_cols; c += PREP_GROUP, x++) {
                int64_t n = n_cols - c, at = c >> shift;
                __m256i v = n >= 32 ? _mm256_loadu_si256((const __m256i *)(const void *)(p + c))
                                    : load_tail(p + c, n);
                __m256i q0 = _mm256_loadu_si256((const __m256i *)(const void *)x->q);
                __m256i q1 = _mm256_loadu_si256((const __m256i *)(const void *)(x->q + 16)), d;
                _mm_prefetch((const char *)p + c + CODE_AHEAD, _MM_HINT_T0);
                if (at != group) {
                    s = infq_cpu_scale(w, r, at);
                    z = mid ? 0.0f : infq_cpu_zero(w, r, at);
                    group = at;
                }
                d = _mm256_madd_epi16(
                    _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(v)), flip), q0);
                d = _mm256_add_epi32(
                    d, _mm256_madd_epi16(
                           _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm256_extracti128_si256(v, 1)),
                                            flip),
                           q1));
                total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d), _mm256_set1_ps(x->scale * s), total);
                zeros = fmaf(-z * x->sum, x->scale * s, zeros);
            }
            a->y[t * w->n_rows + r] = sum8(total) + zeros + (a->bias ? a->bias[r] : 0.0f);
        }
    }
}

void infq_few_i8_avx2(const infq_cpu_few *a, int64_t r0, int64_t r1)
{
    const infq_weight *w = a->w;
    int64_t n = w->n_cols;

    for (int64_t r = r0; r < r1; r++) {
        const uint8_t *p = (const uint8_t *)w->codes.data + (size_t)r * w->codes.row_bytes;
        for (int64_t t = 0; t < a->n_tokens; t++) {
            const uint8_t *x = a->prep + (size_t)t * a->prep_stride;
            __m256i acc = _mm256_setzero_si256();
            __m128i q;
            int32_t d;
            int64_t k = 0;
            for (; k + 16 <= n; k += 16) {
                if (k % 64 == 0)
                    _mm_prefetch((const char *)p + k + CODE_AHEAD, _MM_HINT_T0);
                __m256i u =
                    _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p + k)));
                __m256i v =
                    _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + k)));
                acc = _mm256_add_epi32(acc, _mm256_madd_epi16(u, v));
            }
            q = _mm_add_epi32(_mm256_castsi256_si128(acc), _mm256_extracti128_si256(acc, 1));
            q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
            d = _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
            for (; k < n; k++)
                d += (int32_t)(int8_t)p[k] * (int8_t)x[k];
            a->y[t * w->n_rows + r] =
                infq_cpu_i8_out(d, a->x_scale[t], infq_cpu_scale(w, r, 0), a->bias, r);
        }
    }
}
