#include "lib/eval/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

#define CF_MAX 20000
#define TINY 1e-300

infq_prob infq_norm_cdf(double x)
{
    return (infq_prob){0.5 * erfc(-x * M_SQRT1_2), 0.5 * erfc(x * M_SQRT1_2)};
}

/* Lower-tail quantile for p <= 1/2: Acklam's rational start (1e-9), then Halley steps on the tail itself. */
static double norm_quantile_low(double p)
{
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                               1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                               6.680131188771972e+01, -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                               -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    double x;

    if (p < 0.02425) {
        double q = sqrt(-2 * log(p));
        x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
            ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    } else {
        double q = p - 0.5, r = q * q;
        x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
            (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
    }
    for (int i = 0; i < 2; i++) {
        double e = infq_norm_cdf(x).p - p;
        double u = e * sqrt(2 * M_PI) * exp(x * x / 2);
        x -= u / (1 + x * u / 2);
    }
    return x;
}

double infq_norm_quantile(double p)
{
    if (!(p >= 0 && p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? -INFINITY : INFINITY;
    if (p == 0.5)
        return 0;
    return p < 0.5 ? norm_quantile_low(p) : -norm_quantile_low(1 - p);
}

/* ln Gamma without the C library's global sign. a > 0. */
double infq_log_gamma(double a)
{
    int sign;

    return lgamma_r(a, &sign);
}

/* e - ln(1 + e) without cancellation. */
static double log1p_gap(double e)
{
    double r, r2, s = 0;

    if (fabs(e) > 0.4)
        return e - log1p(e);
    r = e / (2 + e);
    r2 = r * r;
    for (int k = 41; k >= 3; k -= 2)
        s = s * r2 + 1.0 / k;
    return r * (e - 2 * r2 * s);
}

/* Stirling's remainder of ln Gamma, a >= 10. */
static double stirling_rest(double a)
{
    double w = 1 / (a * a);

    return ((((((-691.0 / 360360) * w + 1.0 / 1188) * w - 1.0 / 1680) * w + 1.0 / 1260) * w - 1.0 / 360) * w + 1.0 / 12) / a;
}

/* x^a y^b / B(a,b). Large arguments by the deviance form, which keeps relative accuracy where log-gammas would cancel. */
static double beta_front(double a, double b, double x, double y)
{
    double l, z, rest;

    if (a < 10 || b < 10)
        return exp(a * log(x) + b * log(y) + infq_log_gamma(a + b) - infq_log_gamma(a) - infq_log_gamma(b));
    l = a > b ? (a + b) * y - b : a - (a + b) * x;
    z = a * log1p_gap(-l / a) + b * log1p_gap(l / b);
    rest = stirling_rest(a) + stirling_rest(b) - stirling_rest(a + b);
    return sqrt(a * b / (2 * M_PI * (a + b))) * exp(-z - rest);
}

/* Continued fraction of the incomplete beta function (Lentz), for x below the switch. */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1), h;

    if (fabs(d) < TINY)
        d = TINY;
    d = 1 / d;
    h = d;
    for (int m = 1; m <= CF_MAX; m++) {
        double num = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double step;
        d = 1 + num * d;
        c = 1 + num / c;
        d = 1 / (fabs(d) < TINY ? TINY : d);
        c = fabs(c) < TINY ? TINY : c;
        h *= d * c;
        num = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + num * d;
        c = 1 + num / c;
        d = 1 / (fabs(d) < TINY ? TINY : d);
        c = fabs(c) < TINY ? TINY : c;
        step = d * c;
        h *= step;
        if (fabs(step - 1) < 1e-16)
            break;
    }
    return h;
}

infq_prob infq_beta_inc(double a, double b, double x, double y)
{
    double front;

    if (!(a > 0 && b > 0 && x >= 0 && y >= 0))
        return (infq_prob){NAN, NAN};
    if (x == 0 || y == 0)
        return x == 0 ? (infq_prob){0, 1} : (infq_prob){1, 0};
    front = beta_front(a, b, x, y);
    if (x <= (a + 1) / (a + b + 2)) {
        double p = front * beta_fraction(a, b, x) / a;
        return (infq_prob){p, 1 - p};
    } else {
        double q = front * beta_fraction(b, a, y) / b;
        return (infq_prob){1 - q, q};
    }
}

infq_prob infq_gamma_inc(double a, double x)
{
    double front, s, term;

    if (!(a > 0 && x >= 0))
        return (infq_prob){NAN, NAN};
    if (x == 0 || x == INFINITY)
        return x == 0 ? (infq_prob){0, 1} : (infq_prob){1, 0};
    if (a < 10)
        front = exp(a * log(x) - x - infq_log_gamma(a));
    else
        front = exp(-a * log1p_gap((x - a) / a) - stirling_rest(a)) * sqrt(a / (2 * M_PI));
    if (x < a + 1) {
        s = term = 1 / a;
        for (int n = 1; n < CF_MAX && term > s * 1e-17; n++) {
            term *= x / (a + n);
            s += term;
        }
        return (infq_prob){front * s, 1 - front * s};
    } else {
        double b = x + 1 - a, c = 1 / TINY, d = 1 / b, h = d;
        for (int n = 1; n < CF_MAX; n++) {
            double num = -n * (n - a), step;
            b += 2;
            d = num * d + b;
            c = b + num / c;
            d = 1 / (fabs(d) < TINY ? TINY : d);
            c = fabs(c) < TINY ? TINY : c;
            step = d * c;
            h *= step;
            if (fabs(step - 1) < 1e-16)
                break;
        }
        return (infq_prob){1 - front * h, front * h};
    }
}

infq_prob infq_t_cdf(double t, double df)
{
    double tail, d;

    if (!(df > 0) || isnan(t))
        return (infq_prob){NAN, NAN};
    if (df == INFINITY)
        return infq_norm_cdf(t);
    if (isinf(t))
        return t > 0 ? (infq_prob){1, 0} : (infq_prob){0, 1};
    d = df + t * t;
    tail = 0.5 * infq_beta_inc(df / 2, 0.5, df / d, t * t / d).p;
    return t > 0 ? (infq_prob){1 - tail, tail} : (infq_prob){tail, 1 - tail};
}

/* Smallest double x in [lo, hi] with f(x) >= target, f increasing. Ends when the bracket cannot be halved. */
typedef double (*mono_fn)(const void *ctx, double x);
static double bisect(mono_fn f, const void *ctx, double target, double lo, double hi)
{
    for (int i = 0; i < 2200; i++) {
        double mid = lo + (hi - lo) / 2;
        if (!(mid > lo && mid < hi))
            break;
        if (f(ctx, mid) < target)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

static double t_negative_tail(const void *ctx, double t)
{
    return -infq_t_cdf(t, *(const double *)ctx).q;
}

/* t with upper tail q <= 1/2. */
static double t_upper(double q, double df)
{
    double hi = 1;

    while (infq_t_cdf(hi, df).q > q && hi < 1e300)
        hi *= 2;
    return bisect(t_negative_tail, &df, -q, 0, hi);
}

double infq_t_quantile(double p, double df)
{
    if (!(df > 0) || !(p >= 0 && p <= 1))
        return NAN;
    if (df == INFINITY || p == 0 || p == 0.5 || p == 1)
        return infq_norm_quantile(p);
    return p < 0.5 ? -t_upper(p, df) : t_upper(1 - p, df);
}

infq_prob infq_chi2_cdf(double x, double df)
{
    return infq_gamma_inc(df / 2, x / 2);
}

static double chi2_lower(const void *ctx, double x)
{
    return infq_chi2_cdf(x, *(const double *)ctx).p;
}

static double chi2_negative_upper(const void *ctx, double x)
{
    return -infq_chi2_cdf(x, *(const double *)ctx).q;
}

double infq_chi2_quantile(double p, double df)
{
    double hi = 1;

    if (!(df > 0) || !(p >= 0 && p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? 0 : INFINITY;
    while (infq_chi2_cdf(hi, df).p < p)
        hi *= 2;
    return p < 0.5 ? bisect(chi2_lower, &df, p, 0, hi) : bisect(chi2_negative_upper, &df, -(1 - p), 0, hi);
}

infq_prob infq_f_cdf(double x, double df1, double df2)
{
    double d = df1 * x + df2;

    return infq_beta_inc(df1 / 2, df2 / 2, df1 * x / d, df2 / d);
}

infq_prob infq_binom_tails(int64_t k, int64_t n, double prob)
{
    infq_prob r;

    if (n < 0 || !(prob >= 0 && prob <= 1))
        return (infq_prob){NAN, NAN};
    r.p = k < 0 ? 0 : k >= n ? 1 : infq_beta_inc((double)(n - k), (double)(k + 1), 1 - prob, prob).p;
    r.q = k <= 0 ? 1 : k > n ? 0 : infq_beta_inc((double)k, (double)(n - k + 1), prob, 1 - prob).p;
    return r;
}

/* P(X = k) of Bin(n, 1/2). */
static double binom_half(int64_t k, int64_t n)
{
    if (k == 0 || k == n)
        return exp2(-(double)n);
    /* C(n,k) 2^-n = x^(k+1) y^(n-k+1) / B(k+1, n-k+1) * 4 / (n+1) at x = y = 1/2 */
    return beta_front((double)(k + 1), (double)(n - k + 1), 0.5, 0.5) * 4 / (double)(n + 1);
}

infq_mcnemar infq_mcnemar_exact(int64_t b, int64_t c)
{
    infq_mcnemar r = {1, 1, 1};
    int64_t n = b + c, small = b < c ? b : c;
    double tail;

    if (b < 0 || c < 0)
        return (infq_mcnemar){NAN, NAN, NAN};
    if (n == 0)
        return r;
    tail = infq_binom_tails(small, n, 0.5).p;
    r.p_two_sided = 2 * tail < 1 ? 2 * tail : 1;
    r.p_degradation = infq_binom_tails(b, n, 0.5).q;
    r.p_mid = b == c ? 1 : 2 * tail - binom_half(small, n);
    return r;
}

infq_interval infq_wilson(int64_t k, int64_t n, double conf)
{
    double z = infq_norm_quantile(0.5 + conf / 2), p, d, mid, half;
    infq_interval r;

    if (n <= 0 || k < 0 || k > n)
        return (infq_interval){NAN, NAN};
    p = (double)k / (double)n;
    d = 1 + z * z / (double)n;
    mid = p + z * z / (2 * (double)n);
    half = z * sqrt((p * (1 - p) + z * z / (4 * (double)n)) / (double)n);
    r.lo = k == 0 ? 0 : (mid - half) / d;
    r.hi = k == n ? 1 : (mid + half) / d;
    return r;
}

static double binom_ge(const void *ctx, double prob)
{
    const int64_t *kn = ctx;

    return infq_binom_tails(kn[0], kn[1], prob).q;
}

static double binom_negative_le(const void *ctx, double prob)
{
    const int64_t *kn = ctx;

    return -infq_binom_tails(kn[0], kn[1], prob).p;
}

infq_interval infq_clopper_pearson(int64_t k, int64_t n, double conf)
{
    int64_t kn[2] = {k, n};
    double tail = (1 - conf) / 2;
    infq_interval r;

    if (n <= 0 || k < 0 || k > n)
        return (infq_interval){NAN, NAN};
    r.lo = k == 0 ? 0 : bisect(binom_ge, kn, tail, 0, 1);
    r.hi = k == n ? 1 : bisect(binom_negative_le, kn, -tail, 0, 1);
    return r;
}

double infq_tango_var(int64_t b, int64_t c, int64_t n, double lambda)
{
    double big_a = 2 * (double)n;
    double big_b = (2 * (double)n - (double)c + (double)b) * lambda - (double)(b + c);
    double big_c = -(double)b * lambda * (1 - lambda);
    double disc = big_b * big_b - 4 * big_a * big_c, q;

    if (n <= 0)
        return NAN;
    q = (sqrt(disc > 0 ? disc : 0) - big_b) / (2 * big_a);
    q = 2 * q + lambda * (1 - lambda);
    return q > 0 ? q / (double)n : 0;
}

double infq_tango_score(int64_t b, int64_t c, int64_t n, double lambda)
{
    double num = (double)(c - b) - (double)n * lambda, var = infq_tango_var(b, c, n, lambda);

    if (isnan(var))
        return NAN;
    if (var == 0)
        return num > 0 ? INFINITY : num < 0 ? -INFINITY : 0;
    return num / ((double)n * sqrt(var));
}

static double tango_negative(const void *ctx, double lambda)
{
    const int64_t *bcn = ctx;

    return -infq_tango_score(bcn[0], bcn[1], bcn[2], lambda);
}

infq_interval infq_tango_interval(int64_t b, int64_t c, int64_t n, double conf)
{
    int64_t bcn[3] = {b, c, n};
    double z = infq_norm_quantile(0.5 + conf / 2), d;

    if (n <= 0 || b < 0 || c < 0 || b + c > n)
        return (infq_interval){NAN, NAN};
    d = (double)(c - b) / (double)n;
    return (infq_interval){b == n ? -1 : bisect(tango_negative, bcn, -z, -1, d),
                           c == n ? 1 : bisect(tango_negative, bcn, z, d, 1)};
}

infq_tost infq_tost_test(double gap, double se, double df, double margin)
{
    infq_tost r;

    if (isnan(gap) || !(se >= 0)) {
        r.p_lower = r.p_upper = r.p_tost = NAN;
        return r;
    }
    if (se == 0) {
        r.p_lower = gap > -margin ? 0 : gap < -margin ? 1 : 0.5;
        r.p_upper = gap < margin ? 0 : gap > margin ? 1 : 0.5;
    } else {
        r.p_lower = infq_t_cdf((gap + margin) / se, df).q;
        r.p_upper = infq_t_cdf((margin - gap) / se, df).q;
    }
    r.p_tost = r.p_lower > r.p_upper ? r.p_lower : r.p_upper;
    return r;
}

double infq_sum(const double *x, int64_t n)
{
    double s = 0, rest = 0;

    for (int64_t i = 0; i < n; i++) {
        double t = s + x[i];
        rest += fabs(s) >= fabs(x[i]) ? (s - t) + x[i] : (x[i] - t) + s;
        s = t;
    }
    return isfinite(rest) ? s + rest : s;
}

infq_moments infq_moments_of(const double *x, int64_t n)
{
    infq_moments m = {n, NAN, NAN, NAN};
    double s = 0, rest = 0;

    if (n <= 0)
        return m;
    m.mean = infq_sum(x, n) / (double)n;
    if (n == 1)
        return m;
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - m.mean, v = d * d, t = s + v;
        rest += s >= v ? (s - t) + v : (v - t) + s;
        s = t;
    }
    m.sd = sqrt((s + rest) / (double)(n - 1));
    m.se = m.sd / sqrt((double)n);
    return m;
}

typedef struct {
    int64_t cluster, at;
} cluster_key;

static int by_cluster(const void *a, const void *b)
{
    const cluster_key *x = a, *y = b;

    if (x->cluster != y->cluster)
        return x->cluster < y->cluster ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

infq_status infq_cluster_se(const double *d, const int64_t *cluster, int64_t n, double *se, int64_t *df, infq_err *err)
{
    cluster_key *keys = NULL;
    double mean, total = 0;
    int64_t n_clusters = 0;

    if (n <= 0)
        return infq_err_set(err, INFQ_E_USAGE, "%lld items have no standard error", (long long)n);
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*keys), "cluster order", (void **)&keys, err));
    mean = infq_sum(d, n) / (double)n;
    for (int64_t i = 0; i < n; i++)
        keys[i] = (cluster_key){cluster[i], i};
    qsort(keys, (size_t)n, sizeof(*keys), by_cluster);
    for (int64_t i = 0; i < n;) {
        double s = 0;
        int64_t j = i;
        for (; j < n && keys[j].cluster == keys[i].cluster; j++)
            s += d[keys[j].at] - mean;
        total += s * s;
        n_clusters++;
        i = j;
    }
    infq_mem_free(keys);
    *df = n_clusters - 1;
    *se = n_clusters < 2 ? NAN : sqrt((double)n_clusters / (double)(n_clusters - 1) * total) / (double)n;
    return 0;
}

infq_ratio infq_ratio_of(const double *num, const double *den, int64_t n)
{
    infq_ratio r = {NAN, NAN};
    double total = infq_sum(den, n), s = 0;

    if (n <= 0 || total == 0)
        return r;
    r.r = infq_sum(num, n) / total;
    if (n < 2)
        return r;
    for (int64_t i = 0; i < n; i++) {
        double e = num[i] - r.r * den[i];
        s += e * e;
    }
    r.se = sqrt((double)n / (double)(n - 1) * s) / fabs(total);
    return r;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void infq_sort(double *x, int64_t n)
{
    if (n > 1)
        qsort(x, (size_t)n, sizeof(*x), by_value);
}

double infq_percentile(const double *sorted, int64_t n, double f)
{
    double at, part;
    int64_t i;

    if (n <= 0 || !(f >= 0 && f <= 1))
        return NAN;
    at = f * (double)(n - 1);
    i = (int64_t)at;
    part = at - (double)i;
    return i + 1 >= n ? sorted[n - 1] : sorted[i] + part * (sorted[i + 1] - sorted[i]);
}

typedef struct {
    double p;
    int at;
} p_key;

static int by_p(const void *a, const void *b)
{
    const p_key *x = a, *y = b;

    if (x->p != y->p)
        return x->p < y->p ? -1 : 1;
    return x->at - y->at;
}

/* Sorted copy of p, refusing what is no probability. */
static infq_status p_sorted(const double *p, int n, p_key **out, infq_err *err)
{
    p_key *k = NULL;

    for (int i = 0; i < n; i++)
        if (!(p[i] >= 0 && p[i] <= 1))
            return infq_err_set(err, INFQ_E_NUMERIC, "p-value %d is %g", i, p[i]);
    INFQ_TRY(infq_mem_new((size_t)(n > 0 ? n : 1), sizeof(*k), "p-values", (void **)&k, err));
    for (int i = 0; i < n; i++)
        k[i] = (p_key){p[i], i};
    qsort(k, (size_t)n, sizeof(*k), by_p);
    *out = k;
    return 0;
}

infq_status infq_holm(const double *p, int n, double *adj, infq_err *err)
{
    p_key *k = NULL;
    double run = 0;

    INFQ_TRY(p_sorted(p, n, &k, err));
    for (int i = 0; i < n; i++) {
        double v = k[i].p * (n - i);
        run = v > run ? v : run;
        adj[k[i].at] = run < 1 ? run : 1;
    }
    infq_mem_free(k);
    return 0;
}

infq_status infq_benjamini_hochberg(const double *p, int n, double *adj, infq_err *err)
{
    p_key *k = NULL;
    double run = 1;

    INFQ_TRY(p_sorted(p, n, &k, err));
    for (int i = n - 1; i >= 0; i--) {
        double v = k[i].p * n / (i + 1);
        run = v < run ? v : run;
        adj[k[i].at] = run;
    }
    infq_mem_free(k);
    return 0;
}

static double square(double x)
{
    return x * x;
}

double infq_items_needed(double psi, double gap, double margin, double alpha, double beta)
{
    double z = infq_norm_quantile(1 - alpha) + infq_norm_quantile(1 - beta);

    return (psi - gap * gap) * z * z / square(margin + gap);
}

double infq_items_needed_tost(double psi, double margin, double alpha, double beta)
{
    double z = infq_norm_quantile(1 - alpha) + infq_norm_quantile(1 - beta / 2);

    return psi * z * z / square(margin);
}

double infq_detectable_gap(double psi, int64_t n, double alpha, double power)
{
    double z = infq_norm_quantile(1 - alpha / 2) + infq_norm_quantile(power);

    return z * sqrt(psi / (double)n);
}
