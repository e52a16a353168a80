/* Resampling with a generator of its own, so that the same seed gives the same figures on every machine (specs 2.11): SplitMix64, an index is the
 * high 64 bits of u * n. Golden values: bootstrap_splitmix64, sign_flip_exact, run_label_permutation. */
#ifndef INFQ_EVAL_RESAMPLE_H
#define INFQ_EVAL_RESAMPLE_H

#include <stdint.h>

#include "lib/base/err.h"

typedef struct {
    uint64_t state;
} infq_splitmix;
infq_splitmix infq_splitmix_seed(uint64_t seed);
uint64_t infq_splitmix_next(infq_splitmix *r);
int64_t infq_splitmix_below(infq_splitmix *r, int64_t n); /* 0..n-1, n >= 1 */
double infq_splitmix_unit(infq_splitmix *r);              /* [0, 1), 53 bits */
double infq_splitmix_normal(infq_splitmix *r);            /* by the quantile of one draw: one draw a value */
/* Fisher and Yates; order[n] becomes a permutation of 0..n-1. */
void infq_splitmix_shuffle(infq_splitmix *r, int64_t *order, int64_t n);

/* means[i] of n draws with replacement from d, replicate after replicate. n >= 1. */
void infq_bootstrap_means(const double *d, int64_t n, uint64_t seed, int64_t n_replicates, double *means);

/* p_degradation: P(statistic at most the observed one), p_two_sided: P(at least as far from 0), under the null. `exact`: every arrangement was
 * counted; otherwise n_draws of them and (1 + hits) / (1 + n_draws). */
typedef struct {
    double p_degradation, p_two_sided;
    bool exact;
} infq_permutation;
/* Mean of paired differences when each sign is a coin. Exact up to 20 differences that are not 0. */
infq_status infq_sign_flip(const double *d, int64_t n, uint64_t seed, int64_t n_draws, infq_permutation *out, infq_err *err);
/* mean(b) - mean(a) when the labels of the n_a + n_b runs are drawn anew. Exact up to 200,000 arrangements. */
infq_status infq_run_labels(const double *a, int n_a, const double *b, int n_b, uint64_t seed, int64_t n_draws, infq_permutation *out,
                            infq_err *err);

#endif
