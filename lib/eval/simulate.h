/* Operating characteristics: how often a rule passes and fails when the truth is known (specs 2.3, 2.7, 2.9).
 *
 * Draws come from SplitMix64, one seed a draw, so that figures do not depend on the number of threads. Golden values: operating_characteristics,
 * sequential_operating_characteristics, recovery_rule_example. */
#ifndef INFQ_EVAL_SIMULATE_H
#define INFQ_EVAL_SIMULATE_H

#include "lib/eval/band.h"
#include "lib/eval/policy.h"

typedef struct {
    double pass, fail;
} infq_rates;

/* Design of a T1 experiment. Run scores are normal. */
typedef struct {
    int runs_a, runs_b;
    bool paired;
    double rho;          /* correlation of paired runs */
    double sd_b;         /* of the compressed model's runs, the original's being 1 */
    bool pooled_df;      /* not paired: runs_a + runs_b - 2 degrees of freedom, as the tables of specs 2.7 with equal variances; otherwise Welch's, as the
                          * gate takes them */
    double floor;        /* in units of the true noise limit; 0: the criterion alone, without floor and cap */
    infq_band_options band; /* floor and cap here are not looked at */
} infq_band_design;
/* Rates at n_gaps true gaps, in units of the true noise limit kappa sqrt(2) sigma; negative = worse. With a floor the cap is infinite. */
infq_status infq_simulate_band(const infq_band_design *d, const double *gaps, int n_gaps, int64_t n_draws, uint64_t seed, infq_rates *out,
                               infq_err *err);

/* The rule "no significant difference between the runs": share of experiments whose two-sided p (Welch, or paired) exceeds alpha. */
infq_status infq_simulate_insignificant(const infq_band_design *d, const double *gaps, int n_gaps, int64_t n_draws, uint64_t seed,
                                        double *accepted, infq_err *err);

/* Early stopping on one task of 0/1 scores with flip rate psi and true gap, at most n_max items. median: of the items looked at. */
typedef struct {
    infq_rates rates;
    double median;
} infq_stop_rates;
infq_status infq_simulate_stop(const infq_policy *p, double psi, double gap, int64_t n_max, int64_t n_draws, uint64_t seed,
                               infq_stop_rates *out, infq_err *err);

/* T2 of fixed size on n items of 0/1 scores: exact sums over losses and gains, to 1e-9. */
infq_rates infq_exact_tango(int64_t n, double psi, double gap, double margin, double alpha);
/* Number of items, to a tenth of a percent, with which that test has the power (pass for gaps above -margin, fail below); 0: none up to n_max. */
int64_t infq_items_for_power(double psi, double gap, double margin, double alpha, double power, int64_t n_max);

/* Rules of others: probability to let a true gap pass.
 * Ratio of scores, rounded to two decimals, at least `threshold` (llm-compressor's tests); normal approximation as in the golden values. */
double infq_rule_ratio(double base, int64_t n, double psi, double threshold, double gap);
/* "No significant difference": two-sided unpaired z-test of two proportions (lm-evaluation-harness's comparator), normal approximation. */
double infq_rule_unpaired(double base, int64_t n, double psi, double alpha, double gap);
/* The same with McNemar's exact test. Exact. */
double infq_rule_mcnemar(int64_t n, double psi, double alpha, double gap);

#endif
