#include "lib/bench/latency.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/eval/stats.h"

const double infq_latency_percentiles[4] = { 0.50, 0.90, 0.95, 0.99 };

static const char *const metric_names[] = { "ttft", "itl", "tpot", "e2e" };

const char *infq_metric_name(infq_metric m)
{
    return metric_names[m];
}

const char *infq_target_verdict_name(infq_target_verdict v)
{
    static const char *const names[] = { "met", "not met", "undecided" };

    return names[v];
}

// Number of values that one request gives.
static int64_t count_of(const infq_request_record *r, infq_metric m)
{
    if (m == INFQ_METRIC_ITL)
        return r->n_tokens > 1 ? r->n_tokens - 1 : 0;
    if (m == INFQ_METRIC_TPOT)
        return r->n_tokens > 1;
    return r->n_tokens > 0;
}

static double value_ms(const infq_request_record *r, infq_metric m, int64_t i)
{
    int64_t last = r->n_tokens - 1;

    switch (m) {
    case INFQ_METRIC_TTFT:
        return (double)(r->token_ns[0] - r->due_ns) * 1e-6;
    case INFQ_METRIC_ITL:
        return (double)(r->token_ns[i + 1] - r->token_ns[i]) * 1e-6;
    case INFQ_METRIC_TPOT:
        return (double)(r->token_ns[last] - r->token_ns[0]) * 1e-6 / (double)last;
    default:
        return (double)(r->token_ns[last] - r->due_ns) * 1e-6;
    }
}

// All values in order of requests; *values is the caller's to free.
static infq_status collect(const infq_request_record *r, int64_t n, infq_metric m, double **values, int64_t *n_values,
                           infq_err *err)
{
    int64_t total = 0, k = 0;
    void *p;

    for (int64_t i = 0; i < n; i++)
        total += count_of(&r[i], m);
    INFQ_TRY(infq_mem_new((size_t)total + 1, sizeof(double), "latency values", &p, err));
    *values = p;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < count_of(&r[i], m); j++)
            (*values)[k++] = value_ms(&r[i], m, j);
    *n_values = total;
    return INFQ_E_OK;
}

// Exact interval of the q-quantile of independent values: ranks from the binomial distribution.
static void rank_interval(const double *sorted, int64_t n, double q, double *lo, double *hi)
{
    int64_t a = 0, b = n + 1;

    // Largest a with P(Bin(n, q) < a) <= 0.025, smallest b with P(Bin(n, q) >= b) <= 0.025.
    for (int64_t k = 1; k <= n; k++) {
        infq_prob t = infq_binom_tails(k - 1, n, q); // p = P(X <= k-1)
        if (t.p <= 0.025)
            a = k;
        if (b > n && 1 - t.p <= 0.025)
            b = k;
    }
    *lo = a >= 1 ? sorted[a - 1] : 0;
    *hi = b <= n ? sorted[b - 1] : INFINITY;
}

#define N_RESAMPLES 1000

// Bootstrap over requests: whole requests are drawn with replacement, their values pooled.
static infq_status request_bootstrap(const infq_request_record *r, int64_t n, infq_metric m, infq_latency_summary *out,
                                     infq_err *err)
{
    infq_rng rng = infq_rng_seed(20240607);
    double *pool = NULL, *stat = NULL;
    int64_t largest = 0;
    infq_status st;
    void *p;

    for (int64_t i = 0; i < n; i++)
        if (count_of(&r[i], m) > largest)
            largest = count_of(&r[i], m);
    INFQ_TRY(infq_mem_new((size_t)(n * largest) + 1, sizeof(double), "bootstrap", &p, err));
    pool = p;
    st = infq_mem_new(4 * N_RESAMPLES, sizeof(double), "bootstrap", &p, err);
    if (st)
        goto done;
    stat = p;
    for (int b = 0; b < N_RESAMPLES; b++) {
        int64_t k = 0;
        for (int64_t i = 0; i < n; i++) {
            const infq_request_record *pick = &r[infq_rng_below(&rng, (uint64_t)n)];
            for (int64_t j = 0; j < count_of(pick, m); j++)
                pool[k++] = value_ms(pick, m, j);
        }
        infq_sort(pool, k);
        for (int q = 0; q < 4; q++)
            stat[q * N_RESAMPLES + b] = infq_percentile(pool, k, infq_latency_percentiles[q]);
    }
    for (int q = 0; q < 4; q++) {
        infq_sort(stat + q * N_RESAMPLES, N_RESAMPLES);
        out->lo_ms[q] = infq_percentile(stat + q * N_RESAMPLES, N_RESAMPLES, 0.025);
        out->hi_ms[q] = infq_percentile(stat + q * N_RESAMPLES, N_RESAMPLES, 0.975);
    }
done:
    infq_mem_free(stat);
    infq_mem_free(pool);
    return st;
}

infq_status infq_latency_summarize(const infq_request_record *r, int64_t n, infq_metric m, infq_latency_summary *out,
                                   infq_err *err)
{
    infq_latency_summary s;
    double *values = NULL;
    infq_status st = INFQ_E_OK;
    int64_t n_values;

    memset(&s, 0, sizeof(s));
    INFQ_TRY(collect(r, n, m, &values, &n_values, err));
    s.n = n_values;
    if (n_values) {
        s.mean_ms = infq_sum(values, n_values) / (double)n_values;
        infq_sort(values, n_values);
        for (int q = 0; q < 4; q++) {
            s.p_ms[q] = infq_percentile(values, n_values, infq_latency_percentiles[q]);
            rank_interval(values, n_values, infq_latency_percentiles[q], &s.lo_ms[q], &s.hi_ms[q]);
        }
        if (m == INFQ_METRIC_ITL)
            st = request_bootstrap(r, n, m, &s, err);
    }
    infq_mem_free(values);
    if (!st)
        *out = s;
    return st;
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ')
        p++;
    return p;
}

infq_status infq_target_parse(const char *text, infq_target *out, infq_err *err)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = { { "us", 1e-3 }, { "ms", 1 }, { "s", 1e3 } };
    const char *p = skip_blanks(text);
    infq_target t = { 0, INFQ_METRIC_COUNT, 0, text };
    char number[32];
    size_t k;

    if (*p != 'p' && *p != 'P')
        return infq_err_set(err, INFQ_E_USAGE,
                            "target \"%s\" names no percentile: write for example \"p90 ttft < 200ms\"", text);
    k = strspn(p + 1, "0123456789.");
    if (k == 0 || k >= sizeof(number))
        return infq_err_set(err, INFQ_E_USAGE, "target \"%s\": a number belongs behind p, as in p90", text);
    memcpy(number, p + 1, k);
    number[k] = '\0';
    if (!infq_parse_f64(number, 1, 99.99, &t.percentile))
        return infq_err_set(err, INFQ_E_USAGE, "target \"%s\": the percentile must lie between 1 and 99.99", text);
    t.percentile /= 100;
    p = skip_blanks(p + 1 + k);
    for (int m = 0; m < INFQ_METRIC_COUNT; m++)
        if (strncasecmp(p, metric_names[m], strlen(metric_names[m])) == 0) {
            t.metric = (infq_metric)m;
            p = skip_blanks(p + strlen(metric_names[m]));
            break;
        }
    if (t.metric == INFQ_METRIC_COUNT)
        return infq_err_set(err, INFQ_E_USAGE, "target \"%s\": the metric must be ttft, itl, tpot or e2e", text);
    if (*p != '<')
        return infq_err_set(err, INFQ_E_USAGE, "target \"%s\": < and a limit belong behind the metric", text);
    p = skip_blanks(p + 1 + (p[1] == '='));
    k = strspn(p, "0123456789.");
    if (k == 0 || k >= sizeof(number))
        return infq_err_set(err, INFQ_E_USAGE, "target \"%s\": a time is wanted behind <", text);
    memcpy(number, p, k);
    number[k] = '\0';
    p = skip_blanks(p + k);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(p, units[i].unit) == 0 && infq_parse_f64(number, 0, 1e12, &t.limit_ms) && t.limit_ms > 0) {
            t.limit_ms *= units[i].ms;
            *out = t;
            return INFQ_E_OK;
        }
    return infq_err_set(err, INFQ_E_USAGE, "target \"%s\": the limit needs a unit: us, ms or s", text);
}

// Requests with no value over the limit that are needed until the upper 95 % limit is at most 1 - q.
static int64_t needed_without_failure(double q)
{
    return (int64_t)ceil(log(0.05) / log(q));
}

infq_status infq_target_decide(const infq_target *t, const infq_request_record *r, int64_t n, infq_target_result *out,
                               infq_err *err)
{
    infq_target_result res;
    double *share = NULL, *values = NULL, allowed = 1 - t->percentile;
    int64_t used = 0, n_over = 0, n_values = 0;
    infq_moments mo;
    infq_interval cp;
    infq_status st;
    void *p;

    memset(&res, 0, sizeof(res));
    INFQ_TRY(infq_mem_new((size_t)n + 1, sizeof(double), "target", &p, err));
    share = p;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = count_of(&r[i], t->metric), over = 0;
        for (int64_t j = 0; j < k; j++)
            over += value_ms(&r[i], t->metric, j) >= t->limit_ms;
        if (k) {
            share[used++] = (double)over / (double)k;
            n_over += over > 0;
        }
    }
    st = collect(r, n, t->metric, &values, &n_values, err);
    if (st)
        goto done;
    if (used == 0) {
        st = infq_err_set(err, INFQ_E_USAGE, "target \"%s\": the run has no value of %s", t->text,
                          metric_names[t->metric]);
        goto done;
    }
    infq_sort(values, n_values);
    res.value_ms = infq_percentile(values, n_values, t->percentile);
    rank_interval(values, n_values, t->percentile, &res.lo_ms, &res.hi_ms);
    mo = infq_moments_of(share, used);
    res.share_over = mo.mean;
    res.n_requests = used;
    cp = infq_clopper_pearson(n_over, used, 0.90); // each end one-sided 95 %
    res.share_lo = cp.lo;
    res.share_hi = cp.hi;
    if (t->metric == INFQ_METRIC_ITL && used > 1 && mo.sd > 0) {
        double half = infq_t_quantile(0.95, (double)(used - 1)) * mo.se;
        res.share_lo = fmax(0, mo.mean - half);
        res.share_hi = fmin(1, mo.mean + half);
    } else if (t->metric == INFQ_METRIC_ITL && mo.mean > 0 && mo.mean < 1) {
        // Equal shares say nothing about their spread.
        res.share_lo = 0;
        res.share_hi = 1;
    }
    if (res.share_hi <= allowed)
        res.verdict = INFQ_TARGET_MET;
    else if (res.share_lo > allowed)
        res.verdict = INFQ_TARGET_NOT_MET;
    else {
        int64_t k = used;
        res.verdict = INFQ_TARGET_UNDECIDED;
        if (n_over == 0)
            k = needed_without_failure(t->percentile);
        else
            while (k < 1000000 && infq_clopper_pearson(n_over, k, 0.90).hi > allowed)
                k += k / 64 + 1;
        res.n_needed = k > used ? k : used + 1;
    }
    *out = res;
done:
    infq_mem_free(values);
    infq_mem_free(share);
    return st;
}
