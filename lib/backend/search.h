/* Compression kernels: decide stored bits, so every ISA computes them with the same 16 lanes and the same tree. The CPU
 * table is filled once in kernels/cpu/table.c; kernels/ref holds the plain C truth. */
#ifndef INFQ_BACKEND_SEARCH_H
#define INFQ_BACKEND_SEARCH_H

#include "lib/tensor/weight.h"

typedef enum { INFQ_RANGE_RTN, INFQ_RANGE_SEARCH, INFQ_RANGE_GIVEN } infq_range;

/* What one row range is quantized to. */
typedef struct {
    infq_codec codec;     /* integer U4/U8/I8 with scale, or E4M3 with scale */
    infq_range range;
    const float *weight;  /* [n_cols] importance of each input column, or NULL: u = w^2 + mean(w^2) of the group */
    int64_t n_cols;
} infq_quant_spec;

/* Result arrays, tight rows, caller's: codes [n_rows][row_bytes], scales [scale rows][scale cols] of codec.scale, zeros
 * [scale rows][scale cols] U8 or NULL. All figures are added to. */
typedef struct {
    uint8_t *codes;
    uint8_t *scales;
    uint8_t *zeros;
    int64_t n_zero_groups;   /* all-zero groups */
    int64_t n_clipped;       /* values cut off by more than half a step (E4M3: beyond 464 scales) */
    double sq_err, sq_sum;   /* sum (w - w^)^2 and w^2, added in row order */
    int64_t n_zeros;         /* values that are zero; counted by pruning methods only */
} infq_quant_out;

/* Quantizes n_rows rows x [n_rows][n_cols] F32 (finite: checked before by the caller). n_rows is a multiple of group_rows or
 * the last part; with group_rows 0 it is the whole matrix. Scales are positive and rounded to codec.scale (F32, F16, BF16)
 * before codes are computed; a scale that would round to 0 is raised to the smallest positive value of its type; all-zero
 * groups get scale 2^-20 and decode to exact zeros. RTN: largest magnitude / 7.5 (U4), / 127.5 (U8), / 127 (I8, codes
 * -127..127), / 448 (E4M3); asymmetric: (max - min) / (2^b - 1), the better of the two whole zero points. SEARCH (U4 and E4M3
 * with group_rows 1; elsewhere the same as RTN) takes the trial scale of 0.705 (with `weight`: 0.55) to 1.085
 * (asymmetric and E4M3: to 1.015) of that with the least sum u (w - w^)^2, never a worse one. GIVEN: scales and zeros of `out` are read, only codes are made.
 * Bytes and figures do not depend on threads or CPU level. Parallel over rows. NUMERIC when a scale overflows its type,
 * UNSUPPORTED for other codecs. Sources: algorithms.md 1.1, 1.2, 2.10; docs/methods/rtn.md, docs/methods/search.md. */
infq_status infq_quant_rows(const infq_quant_spec *s, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
/* Heap that infq_quant_rows holds while it runs, with the present number of threads; for memory plans. */
size_t infq_quant_scratch_bytes(const infq_quant_spec *s, int64_t n_rows);

/* Any float dtype to F32, SIMD and threads where they help, equal to infq_dtype_to_f32 (NaN by class); and F32 back. */
infq_status infq_convert_to_f32(infq_dtype t, const void *src, int64_t n, float *dst, infq_err *err);
infq_status infq_convert_from_f32(infq_dtype t, const float *src, int64_t n, void *dst, infq_err *err);

#endif
