/* Between reference.c (the file) and reference_row.c (the arithmetic of one position). */
#ifndef INFQ_EVAL_REFERENCE_INT_H
#define INFQ_EVAL_REFERENCE_INT_H

#include "lib/eval/reference.h"

#define INFQ_REFERENCE_TOP_MAX 4096
#define INFQ_REFERENCE_SAMPLES_MAX 256

/* One stored position; ids and lp: top first, largest probability first, then the samples in order of their ids. */
typedef struct {
    double nll, rest, rest_plogp; /* -ln P of the true token; t and h of reference.h */
    int32_t *ids;                 /* [top + samples] */
    float *lp;
} infq_reference_row;

/* Fills row from logits [vocab], which it overwrites. seed: of this position. */
void infq_reference_row_make(float *logits, int64_t vocab, int32_t target, int64_t top, int64_t samples, uint64_t seed, infq_reference_row *row);
/* What the samples of one position say: means over them of a = ln P - ln Q, b = Q / P - 1 and of their products; surplus = Q(not T) - t, which
 * t * b estimates without bias. */
typedef struct {
    double p, surplus, a, b, aa, ab, bb;
} infq_reference_rest;

/* Compares a model's logits [vocab], which it overwrites, with a row; scratch: [vocab]. kld is the part over T only until
 * infq_reference_finish; not finite when the logits are not. */
infq_kld_row infq_reference_row_compare(const infq_reference_row *row, int64_t top, int64_t samples, float *logits, int64_t vocab,
                                        int32_t target, float *scratch, infq_reference_rest *rest);
/* Adds the estimate of the rest to each row: t * a + beta * (t * b - surplus), beta = -cov(a, b) / var(b) pooled over all rows with weight t^2: the
 * best multiple of a quantity whose mean is known (near 1 for small errors, near 0 for large ones). */
void infq_reference_finish(infq_kld_row *rows, const infq_reference_rest *rest, int64_t n_rows, int64_t samples);
/* Puts the k-th smallest (from 0) of x [n] at x[k], smaller ones before it, larger ones behind; 0 <= k < n. */
void infq_select(float *x, int64_t n, int64_t k);

#endif
