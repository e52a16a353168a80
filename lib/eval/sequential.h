/* Stopping early (specs 2.9): betting processes that may be looked at after every item, and error spending for few planned looks.
 *
 * Sources: Waudby-Smith and Ramdas 2024 (betting), Lan and DeMets 1983 (spending), Armitage, McPherson and Rowe 1969 (recursive integration). Golden
 * values: e_process_fixed_lambda, e_process_plugin, alpha_spending, group_sequential_bounds, sequential_operating_characteristics. */
#ifndef INFQ_EVAL_SEQUENTIAL_H
#define INFQ_EVAL_SEQUENTIAL_H

#include <stdint.h>

#include "lib/base/err.h"

/* Two wealth processes on differences d in [-1, 1] with margin > 0: E bets that the mean is above -margin, G that it is below. Under mean <= -margin E
 * exceeds 1/alpha at any time with probability at most alpha (Ville's inequality), G likewise under mean >= -margin. */
typedef struct {
    double margin;
    double log_e, log_g;           /* ln E, ln G */
    double max_log_e, max_log_g;   /* largest so far: what was rejected stays rejected */
    double n, mean, m2;            /* of the past with one pseudo-item: mean 0, m2 0.05; m2 adds (d - mean before)^2 */
} infq_betting;
infq_betting infq_betting_start(double margin);
/* Stakes for the next item, from the past alone: a = (mean + margin) / (v + (mean + margin)^2), v = m2 / n; up = a clipped to 0..1/2 / (1 - margin), down =
 * -a clipped to 0..1/2 / (1 + margin). */
void infq_betting_stakes(const infq_betting *b, double *up, double *down);
/* Next difference; one outside [-1, 1] or not a number makes both processes lose all. */
void infq_betting_add(infq_betting *b, double d);
/* The same with stakes that were chosen beforehand. */
void infq_betting_add_staked(infq_betting *b, double d, double up, double down);
bool infq_betting_passes(const infq_betting *b, double alpha); /* "worse by the margin" is rejected: max E >= 1 / alpha */
bool infq_betting_fails(const infq_betting *b, double alpha);

/* Cumulative error spent at information fraction t in (0, 1], one-sided level alpha. */
typedef enum { INFQ_SPEND_OBRIEN_FLEMING, INFQ_SPEND_POCOCK } infq_spending;
double infq_spending_of(infq_spending f, double alpha, double t);
/* z[k] for looks at fractions t[0] < ... < t[n - 1] = 1: crossing at look k, not before, has probability spent(t[k]) - spent(t[k - 1]) when there is no
 * effect. Absolute error below 1e-8. USAGE if fractions do not ascend within (0, 1] or n is not 1..INFQ_MAX_LOOKS. */
#define INFQ_MAX_LOOKS 20
infq_status infq_group_bounds(infq_spending f, double alpha, const double *t, int n, double *z, infq_err *err);

#endif
