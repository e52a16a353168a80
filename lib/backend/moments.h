/* Calibration kernels: statistics of layer inputs, and error feedback (GPTQ in the R-factor form).
 *
 * Sums over tokens may differ in the last bits between processors (matrix products of a library, in fixed blocks, so never with
 * the number of threads). What decides stored bits from given statistics (factor, feedback) is computed with the
 * same operations in the same order on every processor: equal statistics give equal bytes. */
#ifndef INFQ_BACKEND_MOMENTS_H
#define INFQ_BACKEND_MOMENTS_H

#include "lib/backend/search.h"

/* Adds rows x [n_rows][n_cols] to the second moment: h[i][j] += sum_t x_ti x_tj for j <= i; F32 products of at most 512 rows,
 * added in F64. The strict upper triangle is left alone. Parallel. NOMEM. */
infq_status infq_moment_add(const float *x, int64_t n_rows, int64_t n_cols, double *h, infq_err *err);
/* Adds to sums of squares and raises the absolute maxima of n_cols channels; either may be NULL. Returns the index of the first
 * element that is not finite, -1 if there is none (sums are then still added). */
int64_t infq_channels_add(const float *x, int64_t n_rows, int64_t n_cols, double *sq, float *absmax);

/* A damped second moment, columns in processing order, as R diag(R)^-1 (unit upper) and diag(R)^2 of H = R R^T (algorithms.md
 * 2.1). */
typedef struct {
    int64_t n;
    int32_t *order;   /* [n] column that is processed i-th */
    float *r;         /* [n][n] row-major, strict upper triangle in processing order: r[j][i], j < i */
    float *d;         /* [n] R_ii^2 */
    double damping;   /* fraction of the mean diagonal that was added */
} infq_factor;
typedef enum {
    INFQ_ORDER_NATURAL,
    INFQ_ORDER_ACT,       /* diagonal of H descending, ties by index */
    INFQ_ORDER_GROUP      /* the same inside each group, groups by their largest diagonal (GAR) */
} infq_order;
/* h: lower triangle [n][n], overwritten. A diagonal of 0 (a channel that never spoke) becomes the mean, so that the column is
 * only rounded. damping is a fraction of the mean diagonal; while a pivot is not positive it is doubled, at most to 0.1 (the
 * value used is in out->damping). NUMERIC: not finite, no energy, or not positive definite even then. */
infq_status infq_factor_make(double *h, int64_t n, double damping, infq_order order, int64_t group_cols, infq_factor *out,
                             infq_err *err);
void infq_factor_free(infq_factor *f);

/* tr(E H E^T) summed over rows, E = W - W^, in the scale of h. */
typedef struct {
    double plain, plain_sq_err;  /* of plain rounding, and its sum (w - w^)^2 */
    double feedback, sq_err;     /* of what was returned */
} infq_feedback_loss;
/* Error feedback on rows w [n_rows][n_cols] under ranges that are already stored in out (scales, zeros): column by column in
 * processing order, each value is moved by the errors of the columns before it, t_i = w_i + sum_{j<i} (w_j - q_j) r_ji, and
 * rounded. Writes the moved values to t [n_rows][n_cols] (natural order): rounding them under the same ranges gives the codes
 * (infq_quant_rows with INFQ_RANGE_GIVEN). group_rows 1 or, for blocks, any. Parallel over rows; bytes do not depend on
 * threads or CPU level. Source: Frantar et al. 2022 (2210.17323), LDLQ form of Chee et al. 2023; algorithms.md 2.1. */
infq_status infq_feedback_rows(const infq_factor *f, const infq_quant_spec *s, const float *w, int64_t n_rows,
                               const infq_quant_out *out, float *t, infq_feedback_loss *loss, infq_err *err);

#endif
