/* Inside of the CPU backend: the kernel table that each ISA fills, and what the kernels are given.
 * Kernels are reached only through infq_cpu_kernels_get(). Suffixes name the ISA; "few" kernels
 * read weights as they are stored. */
#ifndef INFQ_KERNELS_CPU_CPU_INT_H
#define INFQ_KERNELS_CPU_CPU_INT_H

#include "lib/backend/backend.h"
#include "lib/base/cpu.h"

/* Rows of few-row products in one call at most; more go through the many-row path. */
#define INFQ_CPU_FEW 8

/* A product with few rows, y[t][n] for weight rows r0 <= n < r1. x: the rows as F32 (after FP8
 * activation quantization); prep: per token what the kind's prep function made of its row,
 * prep_stride bytes apart; x_scale: I8_TOKEN scales. */
typedef struct {
    const infq_weight *w;
    const float *x;
    const uint8_t *prep;
    size_t prep_stride;
    const float *x_scale;
    const float *bias;
    float *y;
    int64_t n_tokens;
    float *row; /* scratch of this thread, [n_cols], for kernels that decode */
} infq_cpu_few;
typedef void (*infq_cpu_few_fn)(const infq_cpu_few *a, int64_t r0, int64_t r1);

/* Quantized form of one activation row for the integer kernels. */
typedef struct {
    size_t (*n_bytes)(int64_t n_cols);
    void (*make)(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out);
} infq_cpu_prep;

/* A tile product of the invariant path: out[n * pw + m] = sum_k panel[k * pw + m] * w[n * ldw + k]
 * for the n_vec vectors of a panel and n_rows weight rows, each sum in order of k with one fused
 * accumulator. */
typedef struct {
    int panel; /* rows of x a full panel */
    int lanes; /* panel widths are multiples of this */
    /* Packs rows m0.. of x [n_tokens][n_cols] into panel[k * pw + m], zero padded; pw = its width.
     */
    void (*pack)(const float *x, int64_t n_cols, int64_t n_rows, int64_t pw, float *panel);
    void (*tile)(const float *panel, int64_t pw, const float *w, int64_t ldw, int64_t n_rows,
                 int64_t n_cols, float *out);
} infq_cpu_gemm;

typedef struct {
    infq_cpu_level level;
    /* Equal to infq_weight_decode_row bit for bit. */
    void (*decode_row)(const infq_weight *w, int64_t r, float *dst);
    /* Activation quantization of kernels/ref/act_ref.h. */
    void (*act_row)(infq_act act, float act_scale, const float *x, int64_t n, float *dst);
    float (*act_i8_row)(const float *x, int64_t n, int8_t *q);
    infq_cpu_gemm gemm;
    infq_cpu_few_fn few_f32, few_bf16, few_f16, few_e4m3; /* dense or scaled floats */
    infq_cpu_few_fn few_any;                              /* decodes a row, then F32 */
    infq_cpu_few_fn few_u4, few_u8;                       /* NULL: few_any */
    infq_cpu_few_fn few_i8;                               /* W8A8: exact integer sums */
    infq_cpu_prep prep_u4, prep_u8;
    void (*rmsnorm)(const infq_norm_args *a, int64_t r0, int64_t r1);
    void (*layernorm)(const infq_norm_args *a, int64_t r0, int64_t r1);
    void (*rope)(const infq_rope_args *a, int64_t t0, int64_t t1);
    void (*glu)(const infq_glu_args *a, int64_t r0, int64_t r1);
    void (*add)(const infq_add_args *a, int64_t i0, int64_t i1);
    void (*round)(const infq_round_args *a, int64_t r0, int64_t r1);
    double (*logsumexp)(const float *x, int64_t n, int32_t *top);
    /* One block of `attend_rows` consecutive (token, head) rows of one kv head; scratch from
     * attend_floats. */
    int attend_rows;
    int64_t (*attend_floats)(const infq_attention_args *a);
    void (*attend)(const infq_attention_args *a, int64_t kv_head, int64_t block, float *scratch);
} infq_cpu_kernels;

/* The table of the level in use. */
const infq_cpu_kernels *infq_cpu_kernels_get(void);

/* Float kernels, one instance of the .inc files per ISA, and the integer kernels beside them. */
#define INFQ_CPU_DECLARE(isa)                                                                      \
    void infq_decode_row_##isa(const infq_weight *w, int64_t r, float *dst);                       \
    void infq_act_row_##isa(infq_act act, float act_scale, const float *x, int64_t n, float *dst); \
    float infq_act_i8_row_##isa(const float *x, int64_t n, int8_t *q);                             \
    void infq_gemm_pack_##isa(const float *x, int64_t n_cols, int64_t n_rows, int64_t pw,          \
                              float *panel);                                                       \
    void infq_gemm_tile_##isa(const float *panel, int64_t pw, const float *w, int64_t ldw,         \
                              int64_t n_rows, int64_t n_cols, float *out);                         \
    void infq_few_f32_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                        \
    void infq_few_bf16_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                       \
    void infq_few_f16_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                        \
    void infq_few_e4m3_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                       \
    void infq_few_any_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                        \
    void infq_rmsnorm_##isa(const infq_norm_args *a, int64_t r0, int64_t r1);                      \
    void infq_layernorm_##isa(const infq_norm_args *a, int64_t r0, int64_t r1);                    \
    void infq_rope_##isa(const infq_rope_args *a, int64_t t0, int64_t t1);                         \
    void infq_glu_##isa(const infq_glu_args *a, int64_t r0, int64_t r1);                           \
    void infq_add_##isa(const infq_add_args *a, int64_t i0, int64_t i1);                           \
    void infq_round_##isa(const infq_round_args *a, int64_t r0, int64_t r1);                       \
    double infq_logsumexp_##isa(const float *x, int64_t n, int32_t *top);                          \
    int64_t infq_attend_floats_##isa(const infq_attention_args *a);                                \
    void infq_attend_##isa(const infq_attention_args *a, int64_t kv_head, int64_t block,           \
                           float *scratch);
#define INFQ_CPU_DECLARE_INT(isa)                                                                  \
    void infq_few_u4_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                         \
    void infq_few_u8_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                         \
    void infq_few_i8_##isa(const infq_cpu_few *a, int64_t r0, int64_t r1);                         \
    size_t infq_prep_u4_bytes_##isa(int64_t n_cols);                                               \
    void infq_prep_u4_##isa(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out);   \
    size_t infq_prep_u8_bytes_##isa(int64_t n_cols);                                               \
    void infq_prep_u8_##isa(const float *x, int64_t n_cols, const infq_weight *w, uint8_t *out);
INFQ_CPU_DECLARE(scalar)
INFQ_CPU_DECLARE(avx2)
INFQ_CPU_DECLARE(avx512)
INFQ_CPU_DECLARE_INT(avx2)
INFQ_CPU_DECLARE_INT(vnni)
void infq_few_i8_scalar(const infq_cpu_few *a, int64_t r0, int64_t r1);

/* Vectors a panel and weight rows a tile of the invariant product, by registers. */
enum { INFQ_PANEL_SCALAR = 8, INFQ_PANEL_AVX2 = 16, INFQ_PANEL_AVX512 = 48 };

struct infq_pweight {
    infq_weight w; /* views borrowed from the caller */
    enum {
        INFQ_FEW_ANY,
        INFQ_FEW_F32,
        INFQ_FEW_BF16,
        INFQ_FEW_F16,
        INFQ_FEW_E4M3,
        INFQ_FEW_U4,
        INFQ_FEW_U8,
        INFQ_FEW_I8
    } kind;
    size_t n_bytes;
};

/* Growable 64-aligned scratch. */
typedef struct {
    void *p;
    size_t cap;
} infq_cpu_scratch;
infq_status infq_cpu_scratch_need(infq_cpu_scratch *s, size_t n_bytes, infq_err *err);

/* Used from one calling thread; the threads of an op take slices of `threads`. */
typedef struct {
    infq_cpu_scratch x, prep, panel, threads;
} infq_cpu_state;
/* n_bytes (rounded up to 64) for each thread that the next region may use: slice i is *base + i *
 * *stride. */
infq_status infq_cpu_threads_need(infq_cpu_state *s, size_t n_bytes, uint8_t **base, size_t *stride,
                                  infq_err *err);

/* oneDNN on the calling thread alone. y[m * ldy + n] = sum_k x[m * n_k + k] * w[n * n_k + k];
 * false: refused. The int8 product is exact; it needs a machine with VNNI. */
bool infq_dnnl_f32(int64_t n_m, int64_t n_n, int64_t n_k, const float *x, const float *w, float *y,
                   int64_t ldy);
/* y = a^T b: a [n_k][n_m] with row stride lda, b [n_k][n_n]. */
bool infq_dnnl_f32_tn(int64_t n_m, int64_t n_n, int64_t n_k, const float *a, int64_t lda, const float *b, int64_t ldb,
                      float *y, int64_t ldy);
bool infq_dnnl_i8(int64_t n_m, int64_t n_n, int64_t n_k, const int8_t *x, const int8_t *w,
                  int64_t ldw, int32_t *y);

infq_status infq_cpu_weight_prepare(void *state, const infq_weight *w, infq_pweight **out,
                                    infq_err *err);
infq_status infq_cpu_matmul(void *state, const infq_matmul_args *a, int64_t n, infq_err *err);

/* Epilogue of the int8 product, the same on every path. */
static inline float infq_cpu_i8_out(int32_t sum, float x_scale, float w_scale, const float *bias,
                                    int64_t n)
{
    return (float)sum * (x_scale * w_scale) + (bias ? bias[n] : 0.0f);
}

/* Row of scales (and zeros) for weight row r. Division is slow and nearly always by 1. */
static inline int64_t infq_cpu_scale_row(const infq_codec *c, int64_t r)
{
    return c->group_rows == 1   ? r
           : c->group_rows == 0 ? 0
                                : (int64_t)((uint32_t)r / (uint32_t)c->group_rows);
}

/* The scale row of weight row r, NULL without scales. */
static inline const uint8_t *infq_cpu_scales_of(const infq_weight *w, int64_t r)
{
    if (w->codec.scale == INFQ_ELEM_NONE)
        return NULL;
    return (const uint8_t *)w->scales.data +
           (size_t)infq_cpu_scale_row(&w->codec, r) * w->scales.row_bytes;
}

/* Element g of a scale row, decoded to F32; 1 without scales. */
static inline float infq_cpu_scale_in(infq_elem e, const uint8_t *p, int64_t g)
{
    switch (e) {
    case INFQ_ELEM_NONE:
        return 1.0f;
    case INFQ_ELEM_F32: {
        float f;
        __builtin_memcpy(&f, p + g * 4, 4);
        return f;
    }
    case INFQ_ELEM_BF16: {
        uint16_t h;
        uint32_t b;
        float f;
        __builtin_memcpy(&h, p + g * 2, 2);
        b = (uint32_t)h << 16;
        __builtin_memcpy(&f, &b, 4);
        return f;
    }
    case INFQ_ELEM_F16: {
        uint16_t h;
        __builtin_memcpy(&h, p + g * 2, 2);
        return infq_f16_decode(h);
    }
    case INFQ_ELEM_E4M3:
        return infq_e4m3_decode(p[g]);
    default:
        return infq_e8m0_decode(p[g]);
    }
}

/* Scale of column group g in weight row r. */
static inline float infq_cpu_scale(const infq_weight *w, int64_t r, int64_t g)
{
    return infq_cpu_scale_in(w->codec.scale, infq_cpu_scales_of(w, r), g);
}

/* Zero point of an integer group in code units. */
static inline float infq_cpu_zero(const infq_weight *w, int64_t r, int64_t g)
{
    const uint8_t *p;
    float f;

    if (w->codec.zero == INFQ_ZERO_NONE)
        return w->codec.elem == INFQ_ELEM_U4 ? 8.0f : w->codec.elem == INFQ_ELEM_U8 ? 128.0f : 0.0f;
    p = (const uint8_t *)w->zeros.data +
        (size_t)infq_cpu_scale_row(&w->codec, r) * w->zeros.row_bytes;
    if (w->codec.zero == INFQ_ZERO_INT)
        return (float)p[g];
    __builtin_memcpy(&f, p + g * 4, 4);
    return f;
}

#endif
