/* Compression kernels: decide stored bits, so every ISA computes them with the same 16 lanes and the same tree. The CPU
 * table is filled once in kernels/cpu/table.c; kernels/ref holds the plain C truth. */
#ifndef INFQ_BACKEND_SEARCH_H
#define INFQ_BACKEND_SEARCH_H

#include "lib/tensor/weight.h"

typedef enum { INFQ_RANGE_RTN, INFQ_RANGE_SEARCH } infq_range;

/* What one row range is quantized to. */
typedef struct {
    infq_codec codec;     /* integer U4/U8/I8 with scale, or E4M3 with scale */
    infq_range range;
    const float *weight;  /* [n_cols] importance of each input column, or NULL: u = w^2 + mean(w^2) of the group */
    int64_t n_cols;
} infq_quant_spec;

/* Result arrays, tight rows, caller's: codes [n_rows][row_bytes], scales [scale rows][scale cols] of codec.scale, zeros
 * [scale rows][scale cols] U8 or NULL. n_zero_groups and n_clipped are added to. */
typedef struct {
    uint8_t *codes;
    uint8_t *scales;
    uint8_t *zeros;
    int64_t n_zero_groups, n_clipped;
    double sq_err, sq_sum; /* sum (w - w^)^2 and w^2, added in row order */
} infq_quant_out;

/* Quantizes n_rows rows x [n_rows][n_cols] F32 (finite: checked before by the caller). n_rows is a multiple of
 * group_rows or the last part. Scales are rounded to codec.scale before codes are computed; a scale that would round to 0
 * is raised to the smallest positive value of its type; all-zero groups get scale 1 (codes 0). Bytes do not depend on threads or CPU level.
 * NUMERIC when a scale overflows its type. Sources: algorithms.md 1.1, 1.2, 2.10. */
infq_status infq_quant_rows(const infq_quant_spec *s, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);

/* Any float dtype to F32, SIMD where there is one, equal to infq_dtype_to_f32; and F32 back. */
infq_status infq_convert_to_f32(infq_dtype t, const void *src, int64_t n, float *dst, infq_err *err);
infq_status infq_convert_from_f32(infq_dtype t, const float *src, int64_t n, void *dst, infq_err *err);

#endif
