#include "lib/eval/pooling.h"

#include <float.h>
#include <math.h>

#include "lib/eval/stats.h"

infq_group_se infq_group_se_of(const int64_t *n, const double *se, int n_tasks)
{
    double pooled = 0, by_size = 0, equal = 0, total = 0;

    for (int k = 0; k < n_tasks; k++)
        total += (double)n[k];
    for (int k = 0; k < n_tasks; k++) {
        double nk = (double)n[k], v = se[k] * se[k];
        pooled += (nk - 1) * v * nk;
        by_size += nk * nk / (total * total) * v;
        equal += v;
    }
    return (infq_group_se){sqrt(pooled / (total - n_tasks) / total), sqrt(by_size), sqrt(equal) / n_tasks};
}

infq_combined infq_combine_p(const double *p, int n)
{
    infq_combined c = {0, 0, 0, 0};

    for (int i = 0; i < n; i++) {
        double v = p[i] < DBL_MIN ? DBL_MIN : p[i] > 1 - DBL_EPSILON ? 1 - DBL_EPSILON : p[i];
        c.z -= infq_norm_quantile(v);
        c.x2 -= 2 * log(v);
    }
    c.z /= sqrt(n);
    c.stouffer = infq_norm_cdf(c.z).q;
    c.fisher = infq_chi2_cdf(c.x2, 2 * n).q;
    return c;
}

infq_crossed infq_crossed_of(const double *d, int64_t n_items, int64_t n_runs)
{
    infq_crossed c = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double n = (double)n_items, r = (double)n_runs, ss_item = 0, ss_run = 0, ss_all = 0, both;

    if (n_items < 2 || n_runs < 2)
        return c;
    c.mean = infq_sum(d, n_items * n_runs) / (n * r);
    for (int64_t i = 0; i < n_items; i++) {
        double m = infq_sum(d + i * n_runs, n_runs) / r - c.mean;
        ss_item += r * m * m;
        for (int64_t j = 0; j < n_runs; j++) {
            double e = d[i * n_runs + j] - c.mean;
            ss_all += e * e;
        }
    }
    for (int64_t j = 0; j < n_runs; j++) {
        double m = 0;
        for (int64_t i = 0; i < n_items; i++)
            m += d[i * n_runs + j];
        m = m / n - c.mean;
        ss_run += n * m * m;
    }
    c.ms_item = ss_item / (n - 1);
    c.ms_run = ss_run / (r - 1);
    c.ms_resid = (ss_all - ss_item - ss_run) / ((n - 1) * (r - 1));
    c.var_item = (c.ms_item - c.ms_resid) / r;
    c.var_run = (c.ms_run - c.ms_resid) / n;
    both = c.ms_item + c.ms_run - c.ms_resid;
    c.se_both = both >= 0 ? sqrt(both / (n * r)) : NAN;
    c.se_items_only = sqrt(c.ms_item / (n * r));
    c.se_runs_only = sqrt(c.ms_run / (n * r));
    return c;
}

double infq_self_flip_sd(double psi0, int64_t n)
{
    return sqrt(psi0 / (2 * (double)n));
}

double infq_self_flip_rate(double sd, int64_t n)
{
    return 2 * (double)n * sd * sd;
}
