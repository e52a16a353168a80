/* Figures over several tasks, tests or runs. Golden values: group_stderr, combine_p, crossed_items_runs, self_flip_relation. */
#ifndef INFQ_EVAL_POOLING_H
#define INFQ_EVAL_POOLING_H

#include <stdint.h>

/* Standard error of a group's score from the errors of its n_tasks tasks of n[k] items. */
typedef struct {
    double pooled;     /* as the reference harness: items thrown together, sqrt(sum (n_k - 1) se_k^2 n_k / (N - K) / N) */
    double by_size;    /* of the mean over all items: sqrt(sum (n_k / N)^2 se_k^2) */
    double equal;      /* of the mean over tasks: sqrt(sum se_k^2) / K */
} infq_group_se;
infq_group_se infq_group_se_of(const int64_t *n, const double *se, int n_tasks);

/* One p-value from n independent one-sided ones: Stouffer (sum of normal quantiles / sqrt n) and Fisher (-2 sum ln p, 2 n degrees of freedom). p of 0 or
 * 1 count as the nearest number that has a quantile. */
typedef struct {
    double z, stouffer, x2, fisher;
} infq_combined;
infq_combined infq_combine_p(const double *p, int n);

/* Two-way decomposition of differences d[item * n_runs + run] without replication (specs 2.5): items by runs (or perturbations). */
typedef struct {
    double mean, ms_item, ms_run, ms_resid;
    double var_item, var_run;                     /* components; may be negative by chance */
    double se_both, se_items_only, se_runs_only;  /* of the mean: both random (NAN if its estimate is negative), runs fixed, items fixed */
} infq_crossed;
infq_crossed infq_crossed_of(const double *d, int64_t n_items, int64_t n_runs); /* both >= 2, else NAN */

/* sd of one run's score of n 0/1 items that flip on their own with rate psi0: sqrt(psi0 / 2n); and back. */
double infq_self_flip_sd(double psi0, int64_t n);
double infq_self_flip_rate(double sd, int64_t n);

#endif
