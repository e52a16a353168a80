#include "lib/eval/exact.h"

#include <math.h>

#include "lib/eval/stats.h"

#define OUTSIDE 0.001 /* share of flip rates left out, added to p */
#define GRID 16
#define MAX_LOSSES 2048

static double pmf_of(int64_t k, int64_t m, double q)
{
    return exp(infq_log_gamma((double)m + 1) - infq_log_gamma((double)k + 1) - infq_log_gamma((double)(m - k) + 1) + (double)k * log(q) +
               (double)(m - k) * log1p(-q));
}

/* P(C >= k) of Bin(m, q) for small counts: terms from k outwards, away from the mean. */
static double at_least(int64_t k, int64_t m, double q)
{
    double odds = q / (1 - q), term, sum = 0;

    if (k <= 0 || k > m)
        return k <= 0;
    if (q <= 0)
        return 0;
    if ((double)k > (double)m * q) {
        term = pmf_of(k, m, q);
        for (; k <= m && term > 1e-18; k++) {
            sum += term;
            term *= (double)(m - k) * odds / (double)(k + 1);
        }
        return sum;
    }
    term = pmf_of(--k, m, q); // 1 - P(C <= k - 1)
    for (; k >= 0 && term > 1e-18; k--) {
        sum += term;
        term *= (double)k / ((double)(m - k + 1) * odds);
    }
    return 1 - sum;
}

/* first[b']: smallest c' with T(b', c') >= t (pass), > t (fail). T rises with c' and falls with b', so it does not fall as b' rises. */
static void upper_side(int64_t n, int64_t last, double margin, double t, bool pass, int64_t *first)
{
    int64_t c = 0;

    for (int64_t b = 0; b <= last; b++) {
        while (c <= n - b) {
            double score = infq_tango_score(b, c, n, -margin);
            if (pass ? score >= t : score > t)
                break;
            c++;
        }
        first[b] = c;
    }
}

/* P(c' >= first[b']), or below, with losses of probability p and gains of probability q. */
static double tail(int64_t n, double p, double q, int64_t last, const int64_t *first, bool pass)
{
    double sum = 0, pmf = exp((double)n * log1p(-p)), mode = (double)n * p;

    for (int64_t b = 0; b <= last; b++) {
        if (pmf > 1e-12) {
            double upper = at_least(first[b], n - b, q / (1 - p));
            sum += pmf * (pass ? upper : 1 - upper);
        } else if ((double)b > mode) {
            break; // the rest is less than what GRID leaves open
        }
        pmf *= (double)(n - b) / (double)(b + 1) * p / (1 - p);
    }
    return sum;
}

double infq_tango_exact_p(int64_t b, int64_t c, int64_t n, double margin, bool pass)
{
    infq_interval psi = infq_clopper_pearson(b + c, n, 1 - OUTSIDE);
    double t = infq_tango_score(b, c, n, -margin), lo = psi.lo > margin ? psi.lo : margin, hi = psi.hi > lo ? psi.hi : lo, worst = 0, most;
    int64_t first[MAX_LOSSES + 1], last;

    if (isnan(psi.lo))
        return NAN;
    t += (pass ? -1e-12 : 1e-12) * fabs(t); // equal statistics count
    hi = hi < 1 ? hi : 1 - 1e-9;
    most = (double)n * (hi + margin) / 2;
    last = (int64_t)(most + 12 * sqrt(most) + 40);
    last = last < n ? last : n;
    if (last > MAX_LOSSES)
        return NAN; // not few: Tango's own p holds
    upper_side(n, last, margin, t, pass, first);
    for (int i = 0; i <= GRID; i++) {
        double f = lo * pow(hi / lo, (double)i / GRID), x = tail(n, (f + margin) / 2, (f - margin) / 2, last, first, pass);
        worst = x > worst ? x : worst;
    }
    return worst + OUTSIDE < 1 ? worst + OUTSIDE : 1;
}
