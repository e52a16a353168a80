#include "lib/eval/exact.h"

#include <math.h>

#include "lib/eval/stats.h"

#define OUTSIDE 0.001 /* share of flip rates left out, added to p */
#define GRID 16

/* P(T(b', c') >= t), or <= t, with losses of probability p and gains of probability q. T rises with c' and falls with b', so for each b' it is a tail of a
 * binomial that begins no earlier than that of the b' before. */
static double tail(int64_t n, double p, double q, double margin, double t, bool pass)
{
    double sum = 0, pmf = exp((double)n * log1p(-p));
    int64_t first = 0, last = (int64_t)((double)n * p + 12 * sqrt((double)n * p) + 40);

    for (int64_t b = 0; b <= n && b <= last; b++) {
        infq_prob c;
        // the smallest c' whose statistic lies on the upper side
        while (first <= n - b && (pass ? infq_tango_score(b, first, n, -margin) < t : infq_tango_score(b, first, n, -margin) <= t))
            first++;
        c = first > n - b ? (infq_prob){1, 0} : infq_binom_tails(first, n - b, q / (1 - p));
        if (pass)
            sum += pmf * c.q;
        else if (first > 0)
            sum += pmf * (first > n - b ? 1 : infq_binom_tails(first - 1, n - b, q / (1 - p)).p);
        pmf *= (double)(n - b) / (double)(b + 1) * p / (1 - p);
    }
    return sum;
}

double infq_tango_exact_p(int64_t b, int64_t c, int64_t n, double margin, bool pass)
{
    infq_interval psi = infq_clopper_pearson(b + c, n, 1 - OUTSIDE);
    double t = infq_tango_score(b, c, n, -margin), lo = psi.lo > margin ? psi.lo : margin, hi = psi.hi > lo ? psi.hi : lo, worst = 0;

    if (isnan(psi.lo))
        return NAN;
    t += (pass ? -1e-12 : 1e-12) * fabs(t); // equal statistics count
    hi = hi < 1 ? hi : 1 - 1e-9;
    for (int i = 0; i <= GRID; i++) {
        double f = lo * pow(hi / lo, (double)i / GRID), x = tail(n, (f + margin) / 2, (f - margin) / 2, margin, t, pass);
        worst = x > worst ? x : worst;
    }
    return worst + OUTSIDE < 1 ? worst + OUTSIDE : 1;
}
