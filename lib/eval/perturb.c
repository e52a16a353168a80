#include "lib/eval/perturb.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"

void infq_perturb_free(infq_perturb_task *t)
{
    infq_mem_free(t->rows);
    memset(t, 0, sizeof(*t));
}

static infq_status value_of(const infq_items *s, int64_t i, const char *metric, double *out, infq_err *err)
{
    const infq_item *it = infq_items_get(s, i);

    if (!infq_item_metric_get(it, metric, out))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "document %lld has no metric %s", (long long)it->doc, metric);
    return 0;
}

/* Column j of the differences, d [n_items][n]. */
static infq_status differences(const infq_items *a, const infq_items *b, const infq_items *first, const char *metric, double *d, int j, int n,
                               infq_err *err)
{
    if (infq_items_count(a) != infq_items_count(first))
        return infq_err_set(err, INFQ_E_MISMATCH, "%lld items, as it is %lld", (long long)infq_items_count(a), (long long)infq_items_count(first));
    for (int64_t i = 0; i < infq_items_count(a); i++) {
        double x, y;
        if (infq_items_get(a, i)->doc != infq_items_get(first, i)->doc)
            return infq_err_set(err, INFQ_E_MISMATCH, "item %lld is document %lld, as it is %lld", (long long)i,
                                (long long)infq_items_get(a, i)->doc, (long long)infq_items_get(first, i)->doc);
        INFQ_TRY(value_of(a, i, metric, &x, err));
        INFQ_TRY(value_of(b, i, metric, &y, err));
        d[i * n + j] = y - x;
    }
    return 0;
}

static infq_status fill(const infq_items *const *a, const infq_items *const *b, const char *const *labels, int n, const char *metric,
                        const infq_gate_options *o, double *d, infq_perturb_task *t, infq_err *err)
{
    infq_gate_task g;

    for (int j = 0; j < n; j++) {
        infq_perturb_row *r = &t->rows[j];
        infq_status st = infq_gate_items(a[j], b[j], metric, o, &g, err);
        if (!st)
            st = differences(a[j], b[j], a[0], g.metric, d, j, n, err);
        if (st)
            return infq_err_in(err, "%s", labels[j]);
        *r = (infq_perturb_row){.score_a = g.score_a, .score_b = g.score_b, .gap = g.gap, .ci = g.ci};
        snprintf(r->label, sizeof(r->label), "%s", labels[j]);
        if (j == 0) {
            snprintf(t->metric, sizeof(t->metric), "%s", g.metric);
            t->verdict = g.t2;
            t->gap_min = t->gap_max = g.gap;
        }
        t->gap += g.gap / n;
        t->gap_min = fmin(t->gap_min, g.gap);
        t->gap_max = fmax(t->gap_max, g.gap);
    }
    return 0;
}

infq_status infq_perturb_compare(const infq_items *const *a, const infq_items *const *b, const char *const *labels, int n, const char *metric,
                                 const infq_gate_options *o, infq_perturb_task *out, infq_err *err)
{
    infq_perturb_task t;
    int64_t n_items = infq_items_count(a[0]);
    double *d = NULL;
    infq_status st;

    memset(&t, 0, sizeof(t));
    if (n < 1 || n_items < 1)
        return infq_err_set(err, INFQ_E_USAGE, "nothing to compare");
    snprintf(t.task, sizeof(t.task), "%s", infq_items_key(a[0])->task);
    t.n_items = n_items;
    t.n_rows = n;
    st = infq_mem_new((size_t)n, sizeof(*t.rows), "perturbations", (void **)&t.rows, err);
    if (!st)
        st = infq_mem_new((size_t)n_items, (size_t)n * sizeof(double), "differences", (void **)&d, err);
    if (!st)
        st = fill(a, b, labels, n, metric, o, d, &t, err);
    if (!st) {
        t.crossed = infq_crossed_of(d, n_items, n);
        t.f = t.p = NAN;
        if (n > 1 && n_items > 1 && t.crossed.ms_resid > 0) {
            t.f = t.crossed.ms_run / t.crossed.ms_resid;
            t.p = infq_f_cdf(t.f, n - 1, (double)(n - 1) * (double)(n_items - 1)).q;
        }
        t.largest = fmax(-t.gap_min, t.gap_max);
        t.fragile = t.verdict == INFQ_VERDICT_PASS && t.largest > o->margin;
    }
    infq_mem_free(d);
    if (st) {
        infq_perturb_free(&t);
        return st;
    }
    *out = t;
    return 0;
}
