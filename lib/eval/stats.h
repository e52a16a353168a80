/* Statistics of the gate: distributions, paired tests, intervals. Pure functions of plain numbers.
 *
 * Orientation: b = losses (original right, compressed wrong), c = gains, n = items, D = (c - b) / n. Tails are computed as tails
 * (relative accuracy about 1e-12), never as 1 - p. Arguments outside a function's domain give NaN. Sources: Tango 1998 (paired
 * proportions), Wilson 1927, Clopper and Pearson 1934, Lentz's continued fractions. Golden values: specs/vectors/statistics.json. */
#ifndef INFQ_EVAL_STATS_H
#define INFQ_EVAL_STATS_H

#include <stdint.h>

#include "lib/base/err.h"

/* Probability and its complement, each accurate in its own tail. */
typedef struct {
    double p, q;
} infq_prob;

infq_prob infq_norm_cdf(double x);                       /* p = P(Z <= x), q = P(Z >= x) */
double infq_norm_quantile(double p);
double infq_log_gamma(double a);                         /* ln Gamma(a), a > 0 */
infq_prob infq_beta_inc(double a, double b, double x, double y); /* regularised I_x(a,b); y = 1 - x, given apart */
infq_prob infq_gamma_inc(double a, double x);            /* regularised P(a,x), Q(a,x) */
infq_prob infq_t_cdf(double t, double df);               /* df > 0, may be fractional; INFINITY = normal */
double infq_t_quantile(double p, double df);
infq_prob infq_chi2_cdf(double x, double df);
double infq_chi2_quantile(double p, double df);
infq_prob infq_f_cdf(double x, double df1, double df2);
/* p = P(X <= k), q = P(X >= k) of Bin(n, prob): both include k. */
infq_prob infq_binom_tails(int64_t k, int64_t n, double prob);

/* Exact McNemar test on b losses and c gains. */
typedef struct {
    double p_two_sided, p_degradation /* P(Bin(b+c, 1/2) >= b) */, p_mid;
} infq_mcnemar;
infq_mcnemar infq_mcnemar_exact(int64_t b, int64_t c);

typedef struct {
    double lo, hi;
} infq_interval;
infq_interval infq_wilson(int64_t k, int64_t n, double conf);
infq_interval infq_clopper_pearson(int64_t k, int64_t n, double conf);
/* Score statistic of H0: gap = lambda; with variance 0 it is +-INFINITY or 0 by the sign of the numerator. Decreasing in lambda. */
double infq_tango_score(int64_t b, int64_t c, int64_t n, double lambda);
/* Variance of D under the constraint gap = lambda (the square of the statistic's denominator). */
double infq_tango_var(int64_t b, int64_t c, int64_t n, double lambda);
infq_interval infq_tango_interval(int64_t b, int64_t c, int64_t n, double conf);

/* P(worse than -margin is refuted) of a mean gap: lower and upper one-sided p of TOST. df INFINITY = normal; SE 0 decides by D. */
typedef struct {
    double p_lower, p_upper, p_tost;
} infq_tost;
infq_tost infq_tost_test(double gap, double se, double df, double margin);

/* Compensated sum (Neumaier) in the order given. */
double infq_sum(const double *x, int64_t n);
typedef struct {
    int64_t n;
    double mean, sd /* n - 1 */, se;
} infq_moments;
infq_moments infq_moments_of(const double *x, int64_t n); /* n = 0: NaN; n = 1: sd and se NaN */
/* Standard error of the mean of d when items of equal cluster belong together (CR1), NaN for one cluster; df = clusters - 1. */
infq_status infq_cluster_se(const double *d, const int64_t *cluster, int64_t n, double *se, int64_t *df, infq_err *err);
/* r = sum(num) / sum(den) with its standard error by the delta method, records as clusters. */
typedef struct {
    double r, se;
} infq_ratio;
infq_ratio infq_ratio_of(const double *num, const double *den, int64_t n);
/* Linear interpolation at index f * (n - 1) of the sorted values. x is sorted ascending by the caller. */
double infq_percentile(const double *sorted, int64_t n, double f);
void infq_sort(double *x, int64_t n);

/* Adjusted p-values into adj (ties keep the input order). NUMERIC if one is no probability. */
infq_status infq_holm(const double *p, int n, double *adj, infq_err *err);
infq_status infq_benjamini_hochberg(const double *p, int n, double *adj, infq_err *err);

/* Items that a paired non-inferiority test needs for power 1 - beta, given flip rate psi and true gap; before rounding up. */
double infq_items_needed(double psi, double gap, double margin, double alpha, double beta);
/* The same for two-sided equivalence at gap 0. */
double infq_items_needed_tost(double psi, double margin, double alpha, double beta);
/* Smallest true gap that n items show with the power (two-sided alpha). */
double infq_detectable_gap(double psi, int64_t n, double alpha, double power);

#endif
