#include "lib/eval/gate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"

#define MAX_ITEMS 1000000000 /* a plan beyond this is no plan */

static const char *const verdict_names[] = {"pass", "fail", "undecided"};

const char *infq_verdict_name(infq_verdict v)
{
    return verdict_names[v];
}

int infq_verdict_exit(infq_verdict v)
{
    return v == INFQ_VERDICT_PASS ? 0 : v == INFQ_VERDICT_FAIL ? 1 : 6;
}

infq_gate_options infq_gate_options_default(void)
{
    return (infq_gate_options){.margin = 0.01, .alpha = 0.05, .power = 0.8};
}

/* Not-a-number gives no verdict but undecided, never a pass. */
static infq_verdict decide(double p_pass, double p_fail, double alpha)
{
    if (p_fail < alpha)
        return INFQ_VERDICT_FAIL;
    return p_pass < alpha ? INFQ_VERDICT_PASS : INFQ_VERDICT_UNDECIDED;
}

/* Items beyond n_now for a wanted total; at least 1, since the present number did not decide. */
static int64_t further(double wanted, int64_t n_now)
{
    double more = ceil(wanted) - (double)n_now;

    if (!(wanted < MAX_ITEMS))
        return -1;
    return more < 1 ? 1 : (int64_t)more;
}

/* Smallest n at which no flip at all passes: the case where the normal formula, having no variance, would say 0. */
static double items_without_flips(const infq_gate_options *o)
{
    int64_t lo = 0, hi = 1;

    while (hi < MAX_ITEMS && infq_norm_cdf(infq_tango_score(0, 0, hi, -o->margin)).q >= o->alpha)
        hi *= 2;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (infq_norm_cdf(infq_tango_score(0, 0, mid, -o->margin)).q < o->alpha)
            hi = mid;
        else
            lo = mid;
    }
    return (double)hi;
}

/* var: of one item's difference around the gap; psi: its second moment around 0. */
static void plan_more(infq_gate_task *t, double psi, const infq_gate_options *o)
{
    double beta = 1 - o->power, floor_n = t->binary ? items_without_flips(o) : 0, n;

    t->more_items = t->more_items_no_gap = 0;
    t->expect_pass = t->gap > -o->margin;
    if (t->verdict != INFQ_VERDICT_UNDECIDED)
        return;
    if (t->gap == -o->margin) {
        t->more_items = -1;
    } else {
        n = infq_items_needed(psi, t->gap, o->margin, o->alpha, beta);
        t->more_items = further(t->expect_pass && n < floor_n ? floor_n : n, t->n);
    }
    n = infq_items_needed(psi, 0, o->margin, o->alpha, beta);
    t->more_items_no_gap = further(n < floor_n ? floor_n : n, t->n);
}

void infq_gate_binary(int64_t b, int64_t c, int64_t n, const infq_gate_options *o, infq_gate_task *out)
{
    infq_prob p;

    out->binary = true;
    out->n = n;
    out->b = b;
    out->c = c;
    out->gap = (double)(c - b) / (double)n;
    out->psi = (double)(b + c) / (double)n;
    out->sd = n > 1 ? sqrt((out->psi - out->gap * out->gap) * (double)n / (double)(n - 1)) : NAN;
    out->ci = infq_tango_interval(b, c, n, 1 - 2 * o->alpha);
    out->statistic = infq_tango_score(b, c, n, -o->margin);
    p = infq_norm_cdf(out->statistic);
    out->p_pass = p.q;
    out->p_fail = p.p;
    out->mcnemar = infq_mcnemar_exact(b, c);
    out->verdict = decide(out->p_pass, out->p_fail, o->alpha);
    plan_more(out, out->psi, o);
}

void infq_gate_graded(const double *d, int64_t n, const infq_gate_options *o, infq_gate_task *out)
{
    infq_moments m = infq_moments_of(d, n);
    double df = (double)(n - 1), t = n > 1 ? infq_t_quantile(1 - o->alpha, df) : NAN;

    out->binary = false;
    out->n = n;
    out->b = out->c = 0;
    for (int64_t i = 0; i < n; i++) {
        out->b += d[i] < 0;
        out->c += d[i] > 0;
    }
    out->gap = m.mean;
    out->psi = (double)(out->b + out->c) / (double)n;
    out->sd = m.sd;
    out->ci = (infq_interval){m.mean - t * m.se, m.mean + t * m.se};
    out->mcnemar = (infq_mcnemar){NAN, NAN, NAN};
    out->statistic = out->p_pass = out->p_fail = NAN;
    if (n > 1) {
        out->p_pass = infq_tost_test(m.mean, m.se, df, o->margin).p_lower;
        out->statistic = (m.mean + o->margin) / m.se;
        out->p_fail = m.se > 0 ? infq_t_cdf(out->statistic, df).p : 1 - out->p_pass;
    }
    out->verdict = decide(out->p_pass, out->p_fail, o->alpha);
    plan_more(out, m.sd * m.sd + m.mean * m.mean, o);
}

/* Variance of a task's mean difference. A task without one change has none by the formula; its score variance at the margin stands in, so
 * that few items without change do not count as certainty. */
static double task_var(const infq_gate_task *t, const infq_gate_options *o)
{
    double var = t->sd * t->sd / (double)t->n;

    if (t->binary && t->b + t->c == 0)
        return infq_tango_var(0, 0, t->n, -o->margin);
    return var;
}

static void plan_suite(infq_gate_suite *s, const infq_gate_options *o)
{
    double z = infq_norm_quantile(1 - o->alpha) + infq_norm_quantile(o->power);

    s->expect_pass = s->gap > -o->margin;
    s->more_items = 0;
    if (s->verdict != INFQ_VERDICT_UNDECIDED)
        return;
    if (s->gap == -o->margin || !isfinite(s->se)) {
        s->more_items = -1;
        return;
    }
    // the variance falls as 1 / n when every task grows alike
    s->more_items = further((double)s->n * s->se * s->se * z * z / ((s->gap + o->margin) * (s->gap + o->margin)), s->n);
}

infq_status infq_gate_combine(const infq_gate_task *t, int n, const infq_gate_options *o, infq_gate_suite *out, infq_err *err)
{
    infq_gate_suite s = {.n_tasks = n, .worst = -1, .worst_p = NAN};
    double var = 0, z = infq_norm_quantile(1 - o->alpha), *p = NULL, *adj;
    infq_status st;
    infq_tost r;

    if (n < 1)
        return infq_err_set(err, INFQ_E_USAGE, "no task to decide on");
    INFQ_TRY(infq_mem_new(2 * (size_t)n, sizeof(*p), "p-values", (void **)&p, err));
    adj = p + n;
    for (int i = 0; i < n; i++) {
        s.n += t[i].n;
        s.gap += t[i].gap / n;
        var += task_var(&t[i], o) / ((double)n * n);
        p[i] = isnan(t[i].p_fail) ? 1 : t[i].p_fail;
    }
    s.se = sqrt(var);
    r = infq_tost_test(s.gap, s.se, INFINITY, o->margin);
    s.statistic = (s.gap + o->margin) / s.se;
    s.p_pass = r.p_lower;
    s.p_fail = s.se > 0 ? infq_norm_cdf(s.statistic).p : 1 - r.p_lower;
    s.ci = (infq_interval){s.gap - z * s.se, s.gap + z * s.se};
    st = infq_holm(p, n, adj, err);
    for (int i = 0; i < n && !st; i++) {
        if (s.worst < 0 || adj[i] < s.worst_p) {
            s.worst = i;
            s.worst_p = adj[i];
        }
    }
    infq_mem_free(p);
    if (st)
        return st;
    if (n == 1) { // a suite of one is that task
        s.statistic = t[0].statistic;
        s.p_pass = t[0].p_pass;
        s.p_fail = t[0].p_fail;
        s.ci = t[0].ci;
        s.verdict = t[0].verdict;
        s.more_items = t[0].more_items;
        s.expect_pass = t[0].expect_pass;
    } else {
        s.verdict = decide(s.p_pass, s.p_fail, o->alpha);
        if (s.worst_p < o->alpha)
            s.verdict = INFQ_VERDICT_FAIL;
        plan_suite(&s, o);
    }
    *out = s;
    return 0;
}

static infq_status comparable(const infq_items *a, const infq_items *b, infq_err *err)
{
    const char *va, *vb, *field = infq_item_key_differs(infq_items_key(a), infq_items_key(b), &va, &vb);
    int64_t n = infq_items_count(a) < infq_items_count(b) ? infq_items_count(a) : infq_items_count(b);

    if (field)
        return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: %s differs: %.80s and %.80s", field, va, vb);
    for (int64_t i = 0; i < n; i++) {
        const infq_item *x = infq_items_get(a, i), *y = infq_items_get(b, i);
        if (x->doc != y->doc)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: item %lld is document %lld and document %lld", (long long)i,
                                (long long)x->doc, (long long)y->doc);
        if (strcmp(x->request, y->request) != 0)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: document %lld was asked with other tokens (%.16s and %.16s)",
                                (long long)x->doc, x->request, y->request);
        if (x->gold != y->gold || x->kind != y->kind || x->n != y->n)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: document %lld differs in kind, choices or answer",
                                (long long)x->doc);
    }
    if (infq_items_count(a) != infq_items_count(b))
        return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: %lld items and %lld items", (long long)infq_items_count(a),
                            (long long)infq_items_count(b));
    return 0;
}

static infq_status values(const infq_items *s, const char *metric, double *x, bool *binary, infq_err *err)
{
    for (int64_t i = 0; i < infq_items_count(s); i++) {
        const infq_item *it = infq_items_get(s, i);
        if (!infq_item_metric_get(it, metric, &x[i]))
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "document %lld has no metric %s", (long long)it->doc, metric);
        if (!isfinite(x[i]))
            return infq_err_set(err, INFQ_E_NUMERIC, "document %lld: %s is not finite", (long long)it->doc, metric);
        *binary = *binary && (x[i] == 0 || x[i] == 1);
    }
    return 0;
}

infq_status infq_gate_items(const infq_items *a, const infq_items *b, const char *metric, const infq_gate_options *o,
                            infq_gate_task *out, infq_err *err)
{
    int64_t n = infq_items_count(a), losses = 0, gains = 0;
    double *x = NULL, *y, *d;
    infq_gate_task t;
    bool binary = true;
    infq_status st;

    if (!metric)
        metric = infq_items_key(a)->metric[0] ? infq_items_key(a)->metric : "acc";
    INFQ_TRY(comparable(a, b, err));
    INFQ_TRY(infq_mem_new(3 * (size_t)(n > 0 ? n : 1), sizeof(*x), "paired items", (void **)&x, err));
    y = x + n;
    d = y + n;
    memset(&t, 0, sizeof(t));
    st = n > 0 ? values(a, metric, x, &binary, err) : infq_err_set(err, INFQ_E_FORMAT, "no items to compare");
    if (!st)
        st = values(b, metric, y, &binary, err);
    if (!st) {
        for (int64_t i = 0; i < n; i++) {
            d[i] = y[i] - x[i];
            losses += d[i] < 0;
            gains += d[i] > 0;
        }
        t.score_a = infq_sum(x, n) / (double)n;
        t.score_b = infq_sum(y, n) / (double)n;
        snprintf(t.task, sizeof(t.task), "%s", infq_items_key(a)->task);
        snprintf(t.metric, sizeof(t.metric), "%s", metric);
        if (binary)
            infq_gate_binary(losses, gains, n, o, &t);
        else
            infq_gate_graded(d, n, o, &t);
        *out = t;
    }
    infq_mem_free(x);
    return st;
}
