/* Exact counterpart of Tango's score test for few changed items, where its normal reference errs: with margin 1 point and 200 items of which 2 % change, a
 * loss of exactly the margin looks worse than it in 7.3 % of cases instead of 5 %; 268 items without a change would pass although a model that only
 * loses, 1 item in 100, shows none in 6.8 % of cases. */
#ifndef INFQ_EVAL_EXACT_H
#define INFQ_EVAL_EXACT_H

#include <stdbool.h>
#include <stdint.h>

/* Largest probability, over flip rates, of a score statistic at least as extreme as that of b losses and c gains in n items when the true gap is -margin:
 * as large (pass: "worse by the margin" is asked to be refuted) or as small (fail). Flip rates are those of the 99.9 % interval of the one seen,
 * and 0.001 is added for that (Berger and Boos 1994). Unconditional, so it never errs more often than it says. For few changed items: NAN when more than
 * some 1,500 losses are likely. */
double infq_tango_exact_p(int64_t b, int64_t c, int64_t n, double margin, bool pass);

#endif
