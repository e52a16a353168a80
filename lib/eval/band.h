/* Test T1 of specs 2.6: on these items, is the gap between two models within the original's own run-to-run noise?
 *
 * The criterion is reference-scaled: H0 "gap^2 >= theta sigma_r^2", theta = 2 kappa^2, is rejected when a linearised upper limit of gap^2 - theta
 * sigma_r^2 is at most 0 (Howe 1974; Hyslop, Hsuan and Holder 2000). A floor keeps an exact engine from failing on trifles, a cap keeps a noisy one
 * from waving damage through. Pure functions of plain numbers. Golden values: reference_scaled, worked_examples W1 to W5. */
#ifndef INFQ_EVAL_BAND_H
#define INFQ_EVAL_BAND_H

#include "lib/eval/stats.h"

typedef enum { INFQ_VERDICT_PASS, INFQ_VERDICT_FAIL, INFQ_VERDICT_UNDECIDED } infq_verdict;

typedef struct {
    double alpha;      /* one-sided level: 0.05 */
    double kappa;      /* width of the band in sd of a difference of two runs: 1.959964; strict 1 */
    double floor, cap; /* gaps below the floor always pass, beyond the cap never: 0.0025, 0.01 */
    bool allow_gain;   /* a compressed model may be better than the band */
    bool exact_level;  /* criterion and floor each at alpha / 2, so that "either" keeps alpha */
} infq_band_options;
infq_band_options infq_band_options_default(void);

/* What the runs say. All in units of the score (fractions). */
typedef struct {
    double gap;        /* mean over runs, compressed minus original; negative = worse */
    double se, df;     /* of the gap over runs; 0 and INFINITY for a reproducible engine with one run a side; NAN: not known */
    double s, nu;      /* the original's sd over runs, of the whole task (specs 2.4 rule 3), with its degrees of freedom; NAN: not measured */
    /* for the plan of more runs: sd whose square / runs is se^2 (paired), or both sides' (not paired) */
    bool paired;
    double sd_pair, sd_a, sd_b;
    int runs_a, runs_b;
} infq_band_input;
/* Runs under one list of variations, j against j. runs >= 2; s_scale = sqrt(items / items of the whole task) multiplies s. */
infq_band_input infq_band_paired(const double *a, const double *b, int runs, double s_scale);
/* Independent runs, Welch. runs_b 1 gives se NAN. */
infq_band_input infq_band_unpaired(const double *a, int runs_a, const double *b, int runs_b, double s_scale);
/* One run a side of a reproducible engine; s and nu as measured elsewhere, or NAN. */
infq_band_input infq_band_exact(double gap, double s, double nu);
/* Weighted sum of tasks, weights summing to 1; degrees of freedom by Satterthwaite. s is NAN as soon as one task's is. */
infq_band_input infq_band_sum(const infq_band_input *t, const double *w, int n);

typedef enum {
    INFQ_BAND_WITHIN,          /* pass: the criterion */
    INFQ_BAND_BELOW_FLOOR,     /* pass: the floor */
    INFQ_BAND_BEYOND_NOISE,    /* fail: beyond noise limit and floor */
    INFQ_BAND_BEYOND_CAP,      /* fail: beyond the cap */
    INFQ_BAND_UNCLEAR,         /* undecided */
    INFQ_BAND_NO_RUNS,         /* undecided: standard error of the gap unknown */
    INFQ_BAND_NO_NOISE         /* undecided: noise not measured, gap not below the floor */
} infq_band_reason;
const char *infq_band_reason_name(infq_band_reason r); /* "within noise", ... */

typedef struct {
    infq_band_input in;
    double t;                       /* quantile 1 - alpha */
    infq_interval ci;               /* gap -+ t se: confidence 1 - 2 alpha */
    double limit;                   /* noise limit kappa sqrt(2) s, NAN when not measured */
    double upper, lower;            /* criterion: pass if upper <= 0, fail if lower > 0; NAN when not measured */
    double p_floor, p_cap;          /* TOST */
    double p_beyond_floor, p_beyond_cap; /* P(T <= (gap + margin) / se): small = worse than the margin */
    double p_shift;                 /* two-sided p of "no shift at all"; NAN with se 0 */
    infq_verdict verdict;
    infq_band_reason reason;
} infq_band;
/* alpha_lower: level of `lower` (Bonferroni in a search over tasks), usually alpha. */
void infq_band_decide(const infq_band_input *in, const infq_band_options *o, double alpha_lower, infq_band *out);

/* The criterion's limits with quantiles given: t = t(1 - alpha, df), chi = chi-square(1 - alpha, nu) for the upper one, chi-square(alpha, nu) for the
 * lower one. What infq_band_decide computes, for simulations that need millions. */
double infq_band_upper(const infq_band_input *in, const infq_band_options *o, double t, double chi);
double infq_band_lower(const infq_band_input *in, const infq_band_options *o, double t, double chi);

/* Smallest number of runs up to 400, more than there are, at which the present estimates decide, with the verdict; 0 if none does. n tasks with weights
 * w as in infq_band_sum. */
#define INFQ_BAND_MAX_RUNS 400
int infq_band_runs_needed(const infq_band_input *t, const double *w, int n, const infq_band_options *o, infq_verdict *expected);

#endif
