/* What infq_quant_rows hands to the kernels: one job, the same for every ISA. */
#ifndef INFQ_KERNELS_CPU_QUANT_INT_H
#define INFQ_KERNELS_CPU_QUANT_INT_H

#include "lib/backend/search.h"

#define QUANT_MAX_COLS (1 << 24)  /* column numbers are exact in F32 */
#define QUANT_CHUNK 256           /* terms of a sum before it is added to the total */
#define QUANT_ROWS 16             /* rows whose ranges are found before they are encoded */
#define QUANT_FACTORS 25          /* trial scales of the symmetric and float searches */
#define QUANT_FACTORS_ASYM 12
/* A trial replaces plain rounding only when it is better by more than the error of the sums: 1 - 2^-14. */
#define QUANT_MARGIN 0.99993896484375f
#define QUANT_ZERO_SCALE 9.5367431640625e-7f /* 2^-20, exact in F32, F16 and BF16: scale of an all-zero group */

/* Figures of one row, added up in row order afterwards. bad: 1 + the first group whose scale overflows. */
typedef struct {
    double sq_err, sq_sum;
    int64_t n_zero, n_clipped, bad;
} quant_row;

/* Trial scales are f * need for f_lo..f_hi, and no stored scale leaves that range but for its own rounding. */
typedef struct {
    infq_codec codec;
    const float *weight;          /* [n_cols] or NULL */
    const float *x;
    int64_t n_rows, n_cols, n_groups; /* groups a row */
    int32_t group_rows, group_cols;   /* never 0 */
    size_t row_bytes, scale_bytes;
    bool fp8, asym, search, given; /* given: ranges are there already */
    float lo, hi, offset;         /* codes relative to the zero point, and what is added to store them */
    float denom;                  /* scale = largest magnitude (range, if asym) / denom */
    float f_lo, f_hi;
    uint8_t *codes, *scales, *zeros;
    quant_row *rows;
} quant_job;

/* Floats and bytes of scratch that one thread needs. */
typedef struct {
    float *xt, *ut;               /* [group_cols][16] each, only when ranges are tried */
    uint8_t *row;                 /* [n_cols + 16] codes of a row, a byte each */
} quant_scratch;

typedef struct {
    /* Rows row0..row1-1; row0 a multiple of group_rows. */
    void (*rows)(const quant_job *job, int64_t row0, int64_t row1, const quant_scratch *s);
    /* Types with a vector form; the rest goes to lib/tensor. True when done. */
    bool (*to_f32)(infq_dtype t, const void *src, int64_t n, float *dst);
    bool (*from_f32)(infq_dtype t, const float *src, int64_t n, void *dst);
} quant_ops;

extern const quant_ops infq_quant_scalar, infq_quant_avx2, infq_quant_avx512;

/* Fills the job but for x, outputs and rows; UNSUPPORTED for a codec that is not quantized here. */
infq_status infq_quant_job_init(const infq_quant_spec *s, int64_t n_rows, quant_job *job, infq_err *err);

#endif
