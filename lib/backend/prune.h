/* Pruning kernels: which weights become zero, and sparse error feedback (SparseGPT in the R-factor form).
 *
 * They decide stored bits: the same operations in the same order on every processor, so equal weights and statistics give equal masks and
 * values for any number of threads. */
#ifndef INFQ_BACKEND_PRUNE_H
#define INFQ_BACKEND_PRUNE_H

#include "lib/backend/moments.h"

#define INFQ_PRUNE_MAX_M 64

/* How many weights become zero, and which are compared with each other. */
typedef struct {
    double fraction;   /* share of zeros, 0 < fraction < 1; 0: nothing is pruned. With a pattern: 1 - n / m */
    int32_t n, m;      /* at most n values other than zero in each m consecutive columns; m 0: no pattern */
    bool whole;        /* the weights of the whole matrix are compared, not those of each row; never with a pattern */
} infq_sparsity;

/* Zeros among the first n of a row (or, with `whole`, of the matrix): fraction * n, rounded half up. With a pattern n is a multiple of m. */
int64_t infq_prune_count(const infq_sparsity *s, int64_t n);

/* keep[i] = 0 for the n_drop smallest keys, 1 for the others; of equal keys the lower index goes first. */
void infq_prune_choose(const uint32_t *key, int64_t n, int64_t n_drop, uint8_t *keep);

/* out = x with zeros (+0) where the score |x_ij| * scale_j is smallest; scale NULL: 1. x, out: [n_rows][n_cols] F32, finite; out may be x.
 * Compared: each row's columns, each m consecutive columns of a row, or (whole) all. Exact counts, ties by index. Parallel over rows. NOMEM.
 * Sources: magnitude; Sun et al. 2023 (2306.11695) with scale_j = ||X_j||_2. */
infq_status infq_prune_rows(const infq_sparsity *s, const float *scale, const float *x, int64_t n_rows, int64_t n_cols, float *out,
                            infq_err *err);
/* Heap that infq_prune_rows holds while it runs, with the present number of threads. */
size_t infq_prune_scratch_bytes(const infq_sparsity *s, int64_t n_rows, int64_t n_cols);

/* tr(E H E^T) summed over rows, E = W - W^, in the scale of H, and zeros of W^. */
typedef struct {
    double plain, feedback;
    int64_t plain_zeros, zeros;
} infq_prune_loss;
/* Sparse error feedback on rows w [n_rows][n_cols], t_i = w_i + sum_{j<i} (w_j - q_j) r_ji. At the start of each block of 128 columns in
 * processing order (with a pattern: of the least common multiple of 4 and m) v_i is what t_i would be if none of the block's columns were
 * pruned (q_j = t_j), and the smallest v_i^2 d_i of each row decide which columns become zero; then the columns go one by one with feedback,
 * q_i = 0 where masked, else t_i, or with ranges its rounded value. Each row has infq_prune_count zeros at least. With a pattern, columns that belong together must be
 * processed together (INFQ_ORDER_NATURAL, or INFQ_ORDER_GROUP with groups of m).
 * ranges NULL: no rounding; else scales and zeros of `out` are read as by infq_feedback_rows and the values of t are rounded under them.
 * t [n_rows][n_cols], natural order: values before rounding, 0 where masked. plain: the same without shifts (t = w: w_i^2 d_i decide);
 * t of that is written to plain_t if not NULL. Parallel over panels of 32 rows; bytes do not depend on threads or CPU level. NOMEM.
 * Source: Frantar and Alistarh 2023 (2301.00774), scores w^2 / [H^-1]_jj = t^2 R_jj^2; algorithms.md 2.1, 4.1. */
infq_status infq_prune_feedback(const infq_factor *f, const infq_sparsity *s, const infq_quant_spec *ranges, const infq_quant_out *out,
                                const float *w, int64_t n_rows, float *t, float *plain_t, infq_prune_loss *loss, infq_err *err);

#endif
