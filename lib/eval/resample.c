#include "lib/eval/resample.h"

#include <math.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/eval/stats.h"

#define EXACT_SIGNS 20
#define EXACT_LABELS 200000
#define SLACK 1e-9 /* two sums of the same terms in another order count as equal: relative to the sum of magnitudes */

infq_splitmix infq_splitmix_seed(uint64_t seed)
{
    return (infq_splitmix){seed};
}

uint64_t infq_splitmix_next(infq_splitmix *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t infq_splitmix_below(infq_splitmix *r, int64_t n)
{
    return (int64_t)(((unsigned __int128)infq_splitmix_next(r) * (uint64_t)n) >> 64);
}

double infq_splitmix_unit(infq_splitmix *r)
{
    return (double)(infq_splitmix_next(r) >> 11) * 0x1p-53;
}

double infq_splitmix_normal(infq_splitmix *r)
{
    return infq_norm_quantile(((double)(infq_splitmix_next(r) >> 12) + 0.5) * 0x1p-52);
}

void infq_splitmix_shuffle(infq_splitmix *r, int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t j = infq_splitmix_below(r, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

void infq_bootstrap_means(const double *d, int64_t n, uint64_t seed, int64_t n_replicates, double *means)
{
    infq_splitmix r = infq_splitmix_seed(seed);

    for (int64_t k = 0; k < n_replicates; k++) {
        double s = 0;
        for (int64_t i = 0; i < n; i++)
            s += d[infq_splitmix_below(&r, n)];
        means[k] = s / (double)n;
    }
}

/* Counts arrangements against what was seen. */
typedef struct {
    double seen, slack;
    int64_t lower, outside, total;
} tally;

static void count(tally *t, double s)
{
    t->lower += s <= t->seen + t->slack;
    t->outside += fabs(s) >= fabs(t->seen) - t->slack;
    t->total++;
}

static infq_permutation shares(const tally *t, bool exact)
{
    int64_t add = exact ? 0 : 1; // a drawn arrangement: the one seen is counted, too

    return (infq_permutation){(double)(t->lower + add) / (double)(t->total + add), (double)(t->outside + add) / (double)(t->total + add),
                              exact};
}

infq_status infq_sign_flip(const double *d, int64_t n, uint64_t seed, int64_t n_draws, infq_permutation *out, infq_err *err)
{
    double *x = NULL, magnitude = 0;
    int64_t k = 0;
    tally t = {0};

    INFQ_TRY(infq_mem_new((size_t)(n > 0 ? n : 1), sizeof(*x), "differences", (void **)&x, err));
    for (int64_t i = 0; i < n; i++) {
        if (d[i] == 0)
            continue; // its sign changes nothing
        x[k++] = d[i];
        magnitude += fabs(d[i]);
    }
    t.seen = infq_sum(x, k);
    t.slack = SLACK * magnitude;
    if (k <= EXACT_SIGNS) {
        for (uint64_t mask = 0; mask < (uint64_t)1 << k; mask++) {
            double s = 0;
            for (int64_t i = 0; i < k; i++)
                s += mask >> i & 1 ? -x[i] : x[i];
            count(&t, s);
        }
    } else {
        infq_splitmix r = infq_splitmix_seed(seed);
        for (int64_t j = 0; j < n_draws; j++) {
            uint64_t bits = 0;
            double s = 0;
            for (int64_t i = 0; i < k; i++) {
                if (i % 64 == 0)
                    bits = infq_splitmix_next(&r);
                s += bits >> (i % 64) & 1 ? -x[i] : x[i];
            }
            count(&t, s);
        }
    }
    *out = shares(&t, k <= EXACT_SIGNS);
    infq_mem_free(x);
    return 0;
}

/* Number of ways to choose k of n, at most EXACT_LABELS + 1. */
static int64_t ways(int n, int k)
{
    double w = 1;

    for (int i = 1; i <= k; i++)
        w = w * (n - k + i) / i;
    return w > EXACT_LABELS ? EXACT_LABELS + 1 : llround(w);
}

/* Next set of k indices out of n in ascending order; false after the last. */
static bool next_choice(int *at, int k, int n)
{
    int i = k - 1;

    while (i >= 0 && at[i] == n - k + i)
        i--;
    if (i < 0)
        return false;
    at[i]++;
    for (int j = i + 1; j < k; j++)
        at[j] = at[j - 1] + 1;
    return true;
}

static double gap_of(const double *x, double total, const int *first, int n_a, int n)
{
    double s = 0;

    for (int i = 0; i < n_a; i++)
        s += x[first[i]];
    return (total - s) / (n - n_a) - s / n_a;
}

infq_status infq_run_labels(const double *a, int n_a, const double *b, int n_b, uint64_t seed, int64_t n_draws, infq_permutation *out,
                            infq_err *err)
{
    int n = n_a + n_b, *first = NULL;
    double *x = NULL, total, magnitude = 0;
    bool exact = ways(n, n_a) <= EXACT_LABELS;
    tally t = {0};
    infq_status st;

    if (n_a < 1 || n_b < 1)
        return infq_err_set(err, INFQ_E_USAGE, "%d and %d runs cannot be compared", n_a, n_b);
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*x), "runs", (void **)&x, err));
    st = infq_mem_new((size_t)n, sizeof(*first), "labels", (void **)&first, err);
    if (st)
        goto done;
    memcpy(x, a, (size_t)n_a * sizeof(*x));
    memcpy(x + n_a, b, (size_t)n_b * sizeof(*x));
    total = infq_sum(x, n);
    for (int i = 0; i < n; i++) {
        first[i] = i;
        magnitude += fabs(x[i]);
    }
    t.seen = gap_of(x, total, first, n_a, n);
    t.slack = SLACK * magnitude;
    if (exact) {
        do
            count(&t, gap_of(x, total, first, n_a, n));
        while (next_choice(first, n_a, n));
    } else {
        infq_splitmix r = infq_splitmix_seed(seed);
        for (int64_t j = 0; j < n_draws; j++) {
            for (int i = 0; i < n_a; i++) { // the first n_a places of a shuffle
                int k = i + (int)infq_splitmix_below(&r, n - i), keep = first[i];
                first[i] = first[k];
                first[k] = keep;
            }
            count(&t, gap_of(x, total, first, n_a, n));
        }
    }
    *out = shares(&t, exact);
done:
    infq_mem_free(first);
    infq_mem_free(x);
    return st;
}
