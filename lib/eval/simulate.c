#include "lib/eval/simulate.h"

#include <math.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/par.h"
#include "lib/eval/resample.h"

#define T_GRID 4096

/* Upper quantile of t at level alpha over u = 1 / df in [0, 1], by a parabola through three neighbours (error below 1e-8). */
typedef struct {
    double t[T_GRID + 3];
} t_table;

static void fill_table(t_table *q, double alpha)
{
    q->t[0] = infq_norm_quantile(1 - alpha);
    for (int i = 1; i < T_GRID + 3; i++)
        q->t[i] = infq_t_quantile(1 - alpha, (double)T_GRID / i);
}

static double t_at(const t_table *q, double df)
{
    double x = T_GRID / df, f;
    int i = x < T_GRID ? (int)x : T_GRID;

    f = x - i;
    return q->t[i] * (1 - f) * (2 - f) / 2 + q->t[i + 1] * f * (2 - f) - q->t[i + 2] * f * (1 - f) / 2;
}

typedef struct {
    const infq_band_design *d;
    const double *gaps;
    int n_gaps;
    uint64_t seed;
    t_table t, t_half;
    double chi_hi, chi_hi_half, chi_lo;
    bool insignificant; /* the rule of others */
    uint8_t *verdict;  /* [n_draws][n_gaps]: 0 undecided, 1 pass, 2 fail */
} band_sim;

/* Sample variance of n normal runs with mean 0 and sd 1, and their mean. */
static double run_variance(infq_splitmix *r, int n, double *mean)
{
    double s = 0, v = 0;
    double x[256];

    for (int j = 0; j < n; j++) {
        x[j] = infq_splitmix_normal(r);
        s += x[j];
    }
    *mean = s / n;
    for (int j = 0; j < n; j++)
        v += (x[j] - *mean) * (x[j] - *mean);
    return v / (n - 1);
}

/* Runs of both sides at gap 0. */
static infq_band_input draw_runs(const infq_band_design *d, infq_splitmix *r)
{
    infq_band_input in = {.nu = d->runs_a - 1, .paired = d->paired, .runs_a = d->runs_a, .runs_b = d->runs_b};
    double ma, mb, va, vb;

    if (d->paired) {
        double a[256], b[256], other = sqrt(1 - d->rho * d->rho);
        for (int j = 0; j < d->runs_a; j++) {
            a[j] = infq_splitmix_normal(r);
            b[j] = d->sd_b * (d->rho * a[j] + other * infq_splitmix_normal(r));
        }
        return infq_band_paired(a, b, d->runs_a, 1);
    }
    va = run_variance(r, d->runs_a, &ma);
    vb = run_variance(r, d->runs_b, &mb) * d->sd_b * d->sd_b;
    in.gap = mb * d->sd_b - ma;
    in.s = sqrt(va);
    va /= d->runs_a;
    vb /= d->runs_b;
    in.se = sqrt(va + vb);
    in.df = (va + vb) * (va + vb) / (va * va / (d->runs_a - 1) + vb * vb / (d->runs_b - 1));
    if (d->pooled_df)
        in.df = d->runs_a + d->runs_b - 2;
    return in;
}

/* The same decision as infq_band_decide, with quantiles from tables. */
static uint8_t decide(const band_sim *s, const infq_band_input *in, double limit)
{
    const infq_band_design *d = s->d;
    double t = t_at(&s->t, in->df), floor = d->floor * limit;
    bool half = d->band.exact_level;
    double upper = infq_band_upper(in, &d->band, half ? t_at(&s->t_half, in->df) : t, half ? s->chi_hi_half : s->chi_hi);
    double lower = infq_band_lower(in, &d->band, t, s->chi_lo), tf = half ? t_at(&s->t_half, in->df) : t;

    // TOST at the floor rejects when the interval gap -+ t se lies inside; worse than the floor when it lies below
    if (in->gap < 0 && lower > 0 && (d->floor == 0 || in->gap + floor < -t * in->se))
        return 2;
    if (upper <= 0 || (d->floor > 0 && in->gap - tf * in->se > -floor && in->gap + tf * in->se < floor))
        return 1;
    return 0;
}

static void band_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    band_sim *s = ctx;
    double limit = s->d->band.kappa * M_SQRT2;

    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        infq_splitmix r = infq_splitmix_seed(s->seed + (uint64_t)k * 0x632be59bd9b4e019u);
        infq_band_input in = draw_runs(s->d, &r);
        double gap = in.gap;
        for (int g = 0; g < s->n_gaps; g++) {
            in.gap = gap + s->gaps[g] * limit;
            s->verdict[k * s->n_gaps + g] = s->insignificant ? fabs(in.gap) < t_at(&s->t_half, in.df) * in.se : decide(s, &in, limit);
        }
    }
}

static infq_status simulate(const infq_band_design *d, bool insignificant, const double *gaps, int n_gaps, int64_t n_draws, uint64_t seed,
                            infq_rates *out, infq_err *err)
{
    band_sim *s = NULL;
    infq_status st;

    if (d->runs_a < 2 || d->runs_b < 2 || d->runs_a > 256 || d->runs_b > 256 || (d->paired && d->runs_a != d->runs_b) || n_draws < 1)
        return infq_err_set(err, INFQ_E_USAGE, "%d and %d runs cannot be simulated", d->runs_a, d->runs_b);
    INFQ_TRY(infq_mem_new(1, sizeof(*s), "simulation", (void **)&s, err));
    memset(s, 0, sizeof(*s));
    s->d = d;
    s->gaps = gaps;
    s->n_gaps = n_gaps;
    s->seed = seed;
    s->insignificant = insignificant;
    fill_table(&s->t, d->band.alpha);
    fill_table(&s->t_half, d->band.alpha / 2);
    s->chi_hi = infq_chi2_quantile(1 - d->band.alpha, d->runs_a - 1);
    s->chi_hi_half = infq_chi2_quantile(1 - d->band.alpha / 2, d->runs_a - 1);
    s->chi_lo = infq_chi2_quantile(d->band.alpha, d->runs_a - 1);
    st = infq_mem_new((size_t)n_draws, (size_t)n_gaps, "verdicts", (void **)&s->verdict, err);
    if (!st) {
        infq_par_for(n_draws, 64, band_part, s);
        for (int g = 0; g < n_gaps; g++) {
            int64_t count[3] = {0};
            for (int64_t k = 0; k < n_draws; k++)
                count[s->verdict[k * n_gaps + g]]++;
            out[g] = (infq_rates){(double)count[1] / (double)n_draws, (double)count[2] / (double)n_draws};
        }
    }
    infq_mem_free(s->verdict);
    infq_mem_free(s);
    return st;
}

infq_status infq_simulate_band(const infq_band_design *d, const double *gaps, int n_gaps, int64_t n_draws, uint64_t seed, infq_rates *out,
                               infq_err *err)
{
    return simulate(d, false, gaps, n_gaps, n_draws, seed, out, err);
}

infq_status infq_simulate_insignificant(const infq_band_design *d, const double *gaps, int n_gaps, int64_t n_draws, uint64_t seed,
                                        double *accepted, infq_err *err)
{
    infq_rates *r = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)n_gaps, sizeof(*r), "rates", (void **)&r, err));
    st = simulate(d, true, gaps, n_gaps, n_draws, seed, r, err);
    for (int g = 0; g < n_gaps && !st; g++)
        accepted[g] = r[g].pass;
    infq_mem_free(r);
    return st;
}

typedef struct {
    const infq_policy *p;
    double p_loss, p_change;
    int64_t n_max;
    uint64_t seed;
    double bounds[INFQ_MAX_LOOKS];
    double *seen;      /* [n_draws] */
    uint8_t *verdict;
} stop_sim;

static int draw_item(const stop_sim *s, infq_splitmix *r)
{
    double u = infq_splitmix_unit(r);

    return u < s->p_loss ? -1 : u < s->p_change ? 1 : 0;
}

static uint8_t run_betting(const stop_sim *s, infq_splitmix *r, double *seen)
{
    infq_betting b = infq_betting_start(s->p->gate.margin);

    for (int64_t i = 0; i < s->n_max; i++) {
        infq_betting_add(&b, draw_item(s, r));
        *seen = (double)(i + 1);
        if (infq_betting_fails(&b, s->p->gate.alpha))
            return 2;
        if (infq_betting_passes(&b, s->p->gate.alpha))
            return 1;
    }
    return 0;
}

static uint8_t run_looks(const stop_sim *s, infq_splitmix *r, double *seen)
{
    int64_t b = 0, c = 0, i = 0;

    for (int k = 0; k < s->p->n_looks; k++) {
        double z;
        for (; (double)i < s->p->looks[k] * (double)s->n_max; i++) {
            int d = draw_item(s, r);
            b += d < 0;
            c += d > 0;
        }
        *seen = (double)i;
        z = infq_tango_score(b, c, i, -s->p->gate.margin);
        if (z >= s->bounds[k])
            return 1;
        if (z <= -s->bounds[k])
            return 2;
    }
    return 0;
}

static void stop_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    stop_sim *s = ctx;

    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        infq_splitmix r = infq_splitmix_seed(s->seed + (uint64_t)k * 0x632be59bd9b4e019u);
        s->verdict[k] = s->p->stop == INFQ_STOP_BETTING ? run_betting(s, &r, &s->seen[k]) : run_looks(s, &r, &s->seen[k]);
    }
}

infq_status infq_simulate_stop(const infq_policy *p, double psi, double gap, int64_t n_max, int64_t n_draws, uint64_t seed,
                               infq_stop_rates *out, infq_err *err)
{
    stop_sim s = {.p = p, .p_loss = (psi - gap) / 2, .p_change = psi, .n_max = n_max, .seed = seed};
    int64_t count[3] = {0};
    infq_status st;

    if (!(psi >= fabs(gap) && psi <= 1) || n_max < 1 || n_draws < 1)
        return infq_err_set(err, INFQ_E_USAGE, "a flip rate of %g cannot make a gap of %g", psi, gap);
    if (p->stop != INFQ_STOP_BETTING)
        INFQ_TRY(infq_group_bounds(p->stop == INFQ_STOP_POCOCK ? INFQ_SPEND_POCOCK : INFQ_SPEND_OBRIEN_FLEMING, p->gate.alpha, p->looks,
                                   p->n_looks, s.bounds, err));
    INFQ_TRY(infq_mem_new((size_t)n_draws, sizeof(*s.seen), "stops", (void **)&s.seen, err));
    st = infq_mem_new((size_t)n_draws, 1, "verdicts", (void **)&s.verdict, err);
    if (!st) {
        infq_par_for(n_draws, 1, stop_part, &s);
        for (int64_t k = 0; k < n_draws; k++)
            count[s.verdict[k]]++;
        infq_sort(s.seen, n_draws);
        out->rates = (infq_rates){(double)count[1] / (double)n_draws, (double)count[2] / (double)n_draws};
        out->median = infq_percentile(s.seen, n_draws, 0.5);
    }
    infq_mem_free(s.verdict);
    infq_mem_free(s.seen);
    return st;
}

/* ln of n! / (b! c! (n - b - c)!) p^b q^c (1 - p - q)^(n - b - c). */
static double log_trinomial(int64_t n, int64_t b, int64_t c, double p, double q)
{
    double rest = 1 - p - q, l = infq_log_gamma((double)n + 1) - infq_log_gamma((double)b + 1) - infq_log_gamma((double)c + 1) -
                                 infq_log_gamma((double)(n - b - c) + 1);

    if ((b > 0 && p <= 0) || (c > 0 && q <= 0) || (n - b - c > 0 && rest <= 0))
        return -INFINITY;
    return l + (b ? (double)b * log(p) : 0) + (c ? (double)c * log(q) : 0) + (n - b - c ? (double)(n - b - c) * log(rest) : 0);
}

/* Range of a binomial count that holds all but 1e-12. */
static void likely(int64_t n, double p, int64_t *lo, int64_t *hi)
{
    double mean = (double)n * p, half = 8 * sqrt((double)n * p * (1 - p)) + 24;

    *lo = mean - half > 0 ? (int64_t)(mean - half) : 0;
    *hi = mean + half < (double)n ? (int64_t)(mean + half) : n;
}

/* Sum over losses and gains of what `judge` says, as 1 pass, 2 fail. */
typedef int (*judge_fn)(const void *ctx, int64_t b, int64_t c, int64_t n);
static infq_rates sum_over_counts(int64_t n, double psi, double gap, judge_fn judge, const void *ctx)
{
    double p = (psi - gap) / 2, q = (psi + gap) / 2;
    int64_t b_lo, b_hi, c_lo, c_hi;
    infq_rates r = {0, 0};

    if (p + q > 1 - 1e-9) // every item changes: leave the ratio of terms below a number
        q = 1 - 1e-9 - p;
    likely(n, p, &b_lo, &b_hi);
    likely(n, q, &c_lo, &c_hi);
    for (int64_t b = b_lo; b <= b_hi; b++) {
        double x = c_lo <= n - b ? exp(log_trinomial(n, b, c_lo, p, q)) : 0;
        for (int64_t c = c_lo; c <= c_hi && b + c <= n; c++) {
            int v = x > 1e-16 ? judge(ctx, b, c, n) : 0;
            r.pass += v == 1 ? x : 0;
            r.fail += v == 2 ? x : 0;
            x *= (double)(n - b - c) / (double)(c + 1) * q / (1 - p - q);
        }
    }
    return r;
}

typedef struct {
    double margin, alpha;
} tango_rule;

static int tango_judge(const void *ctx, int64_t b, int64_t c, int64_t n)
{
    const tango_rule *t = ctx;
    double p_exact;
    infq_verdict v = infq_gate_t2(b, c, n, t->margin, t->alpha, &p_exact);

    return v == INFQ_VERDICT_FAIL ? 2 : v == INFQ_VERDICT_PASS ? 1 : 0;
}

infq_rates infq_exact_tango(int64_t n, double psi, double gap, double margin, double alpha)
{
    tango_rule t = {margin, alpha};

    return sum_over_counts(n, psi, gap, tango_judge, &t);
}

/* Probability of the right verdict. */
static double power_of(int64_t n, double psi, double gap, double margin, double alpha)
{
    infq_rates r = infq_exact_tango(n, psi, gap, margin, alpha);

    return gap > -margin ? r.pass : r.fail;
}

int64_t infq_items_for_power(double psi, double gap, double margin, double alpha, double power, int64_t n_max)
{
    double guess = infq_items_needed(psi, gap, margin, alpha, 1 - power);
    int64_t lo = 0, hi = guess < 20 ? 20 : guess < (double)n_max ? (int64_t)guess : n_max;

    // the formula is close; power rises with n but for steps of single items, which a tenth of a percent does not see
    while (power_of(hi, psi, gap, margin, alpha) < power) {
        if (hi >= n_max)
            return 0;
        lo = hi;
        hi = hi + hi / 4 < n_max ? hi + hi / 4 + 1 : n_max;
    }
    while (hi - lo > hi / 1000 + 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (power_of(mid, psi, gap, margin, alpha) < power)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

double infq_rule_ratio(double base, int64_t n, double psi, double threshold, double gap)
{
    double effective = base * (1 - (threshold - 0.005)); // rounding lets half a unit of the last digit through

    return infq_norm_cdf((effective + gap) / sqrt(psi / (double)n)).p;
}

double infq_rule_unpaired(double base, int64_t n, double psi, double alpha, double gap)
{
    double other = base + gap, se = sqrt((base * (1 - base) + other * (1 - other)) / (double)n);
    double z = infq_norm_quantile(1 - alpha / 2), sd = sqrt((psi - gap * gap) / (double)n);

    return infq_norm_cdf((z * se - gap) / sd).p - infq_norm_cdf((-z * se - gap) / sd).p;
}

static int mcnemar_judge(const void *ctx, int64_t b, int64_t c, int64_t n)
{
    (void)n;
    return infq_mcnemar_exact(b, c).p_two_sided > *(const double *)ctx;
}

double infq_rule_mcnemar(int64_t n, double psi, double alpha, double gap)
{
    return sum_over_counts(n, psi, gap, mcnemar_judge, &alpha).pass;
}
