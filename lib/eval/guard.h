/* Guards of specs 2.10: figures that may turn a pass into undecided or fail, never the reverse. Pure functions of plain numbers.
 *
 * A limit that is NAN is not asked. What was asked but not measured is reported as such; whether that stops a pass is the policy's `require`. */
#ifndef INFQ_EVAL_GUARD_H
#define INFQ_EVAL_GUARD_H

#include "lib/eval/band.h"
#include "lib/eval/pair.h"

typedef struct {
    double flips;             /* largest share of changed items; the cap is the larger of this and 3 psi0 */
    double kld, kld_p99;      /* KL divergence from the original: mean, 99 % */
    double kld_noise;         /* the mean as a multiple of the original's self-noise */
    double same_top;          /* smallest share of equal top tokens */
    double ln_ppl;            /* margin of ln(perplexity ratio) */
    double format;            /* margin of the rise of invalid and of truncated answers */
    double length_lo, length_hi; /* of the ratio of mean lengths */
    double jitter;            /* confidence of the F test on run variances */
} infq_guard_limits;
infq_guard_limits infq_guard_limits_default(void); /* format 0.01, length 0.95..1.05, jitter 0.99; the others not asked */

/* Distance of the compressed model from the original on a text; NAN where not measured. */
typedef struct {
    double kld, kld_se, kld_p99, same_top, same_top_se, ln_ratio, ln_ratio_se;
    int64_t n_windows;        /* clusters of the standard errors */
    double self_kld;          /* of the original between two of its own runs (the noise record) */
} infq_distance;

typedef enum {
    INFQ_GUARD_FLIPS, INFQ_GUARD_INVALID, INFQ_GUARD_TRUNCATED, INFQ_GUARD_LENGTH, INFQ_GUARD_JITTER,
    INFQ_GUARD_KLD, INFQ_GUARD_KLD_P99, INFQ_GUARD_KLD_NOISE, INFQ_GUARD_SAME_TOP, INFQ_GUARD_LN_PPL
} infq_guard_kind;
#define INFQ_GUARD_KINDS 10
const char *infq_guard_name(infq_guard_kind k);  /* "flips", "same_top", ... */

typedef struct {
    infq_guard_kind kind;
    bool measured;
    double value, limit;
    infq_interval ci;         /* NAN where a guard has none */
    infq_verdict verdict;     /* UNDECIDED when not measured */
} infq_guard;
#define INFQ_MAX_GUARDS INFQ_GUARD_KINDS
typedef struct {
    int n;
    infq_guard g[INFQ_MAX_GUARDS];
} infq_guards;

/* k of n items changed; psi0 NAN: not known. conf: two-sided, 0.95. Wilson's interval against the cap. */
void infq_guard_flips(infq_guards *to, int64_t k, int64_t n, double psi0, const infq_guard_limits *l, double conf);
/* Invalid answers, truncated answers (Tango), lengths. Marks that are not known are left out: nothing was generated. */
void infq_guard_format(infq_guards *to, const infq_pair_mark *invalid, const infq_pair_mark *truncated, int64_t n,
                       const infq_guard_limits *l, double alpha);
void infq_guard_length(infq_guards *to, double ratio, double lo, double hi, const infq_guard_limits *l);
/* F = sd_b^2 / sd_a^2 over runs; above the quantile it is undecided, it never fails. Left out when the original's runs are all equal: there is
 * nothing to compare with. */
void infq_guard_jitter(infq_guards *to, double sd_a, double df_a, double sd_b, double df_b, const infq_guard_limits *l);
/* KL divergence, same top token, perplexity ratio; d NULL: asked, not measured. */
void infq_guard_distance(infq_guards *to, const infq_distance *d, const infq_guard_limits *l, double alpha);
/* FAIL if one fails, UNDECIDED if a measured one is, else PASS; those that were not measured do not count. */
infq_verdict infq_guards_verdict(const infq_guards *g);

#endif
