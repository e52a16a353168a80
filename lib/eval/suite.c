/* The gate's verdict over several tasks (gate.h). */
#include <math.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/eval/gate.h"
#include "lib/eval/pooling.h"

#define MAX_ITEMS 1e9 /* a plan beyond this is no plan */

static double square(double x)
{
    return x * x;
}

double infq_gate_task_var(const infq_gate_task *t, const infq_gate_options *o)
{
    if (t->binary && t->b + t->c == 0)
        return infq_tango_var(0, 0, t->n, -o->margin);
    return square(t->se);
}

static infq_verdict decide(double p_pass, double p_fail, double alpha)
{
    if (p_fail < alpha)
        return INFQ_VERDICT_FAIL;
    return p_pass < alpha ? INFQ_VERDICT_PASS : INFQ_VERDICT_UNDECIDED;
}

static void plan_suite(infq_gate_suite *s, const infq_gate_options *o)
{
    double z = infq_norm_quantile(1 - o->alpha) + infq_norm_quantile(o->power), wanted;

    s->expect_pass = s->gap > -o->margin;
    s->more_items = 0;
    if (s->t2 != INFQ_VERDICT_UNDECIDED)
        return;
    // the variance falls as 1 / n when every task grows alike
    wanted = (double)s->n * square(s->se * z / (s->gap + o->margin));
    if (s->gap == -o->margin || !(wanted < MAX_ITEMS))
        s->more_items = -1;
    else
        s->more_items = wanted - (double)s->n < 1 ? 1 : (int64_t)(ceil(wanted) - (double)s->n);
}

/* T2 over the stratified item differences. */
static void test_items(const infq_gate_task *t, const double *w, const infq_gate_options *o, infq_gate_suite *s)
{
    double var = 0, most = -1, z = infq_norm_quantile(1 - o->alpha);
    infq_tost r;

    for (int i = 0; i < s->n_tasks; i++) {
        double v = square(w[i]) * infq_gate_task_var(&t[i], o);
        s->n += t[i].n;
        s->b += t[i].b;
        s->c += t[i].c;
        s->score_a += w[i] * t[i].score_a;
        s->score_b += w[i] * t[i].score_b;
        s->gap += w[i] * t[i].gap;
        var += v;
        if (v > most) {
            most = v;
            s->most_variance = i;
        }
    }
    s->se = sqrt(var);
    s->variance_share = var > 0 ? most / var : NAN;
    r = infq_tost_test(s->gap, s->se, INFINITY, o->margin);
    s->statistic = (s->gap + o->margin) / s->se;
    s->p_pass = r.p_lower;
    s->p_fail = s->se > 0 ? infq_norm_cdf(s->statistic).p : 1 - r.p_lower;
    s->ci = (infq_interval){s->gap - z * s->se, s->gap + z * s->se};
    s->t2 = decide(s->p_pass, s->p_fail, o->alpha);
    plan_suite(s, o);
}

/* One-sided p of "no loss"; for 0/1 scores the mid-p, whose mean without a shift is 1/2. */
static double loss_p(const infq_gate_task *t)
{
    if (!t->binary)
        return t->p_degradation;
    return (infq_binom_tails(t->b, t->b + t->c, 0.5).q + infq_binom_tails(t->b + 1, t->b + t->c, 0.5).q) / 2;
}

/* Bands whose noise was not measured may not fail under the policy's rule. */
static bool band_may_fail(const infq_gate_task *t, const infq_gate_options *o)
{
    return t->band_asked && (!isnan(t->band.in.s) || o->noise == INFQ_NOISE_FLOOR);
}

/* Search for tasks that failed: Holm on the p-values of each test, level alpha / n on the criterion's lower limit. Smallest adjusted p of each task in
 * p[n]; room[3 n]. */
static infq_status search_failures(const infq_gate_task *t, int n, const infq_gate_options *o, double *p, double *room, infq_err *err)
{
    double *adj = room, *q = room + n, *cap = room + 2 * n;

    for (int i = 0; i < n; i++)
        q[i] = isnan(t[i].p_fail) ? 1 : t[i].gap < -o->margin && t[i].p_exact > t[i].p_fail ? t[i].p_exact : t[i].p_fail;
    INFQ_TRY(infq_holm(q, n, p, err));
    for (int i = 0; i < n; i++)
        q[i] = band_may_fail(&t[i], o) && !isnan(t[i].band.p_beyond_cap) ? t[i].band.p_beyond_cap : 1;
    INFQ_TRY(infq_holm(q, n, cap, err));
    for (int i = 0; i < n; i++)
        q[i] = band_may_fail(&t[i], o) && !isnan(t[i].band.p_beyond_floor) ? t[i].band.p_beyond_floor : 1;
    INFQ_TRY(infq_holm(q, n, adj, err));
    for (int i = 0; i < n; i++) {
        infq_band strict;
        p[i] = cap[i] < p[i] ? cap[i] : p[i];
        if (!band_may_fail(&t[i], o) || adj[i] >= p[i])
            continue;
        infq_band_decide(&t[i].band.in, &o->band, o->band.alpha / n, &strict);
        if (t[i].gap < 0 && strict.lower > 0)
            p[i] = adj[i];
    }
    return 0;
}

static void suite_band(const infq_gate_task *t, const double *w, const infq_gate_options *o, infq_band_input *in, infq_gate_suite *s)
{
    infq_band_input sum;

    s->band_asked = true;
    for (int i = 0; i < s->n_tasks; i++) {
        s->band_asked = s->band_asked && t[i].band_asked;
        in[i] = t[i].band.in;
    }
    if (!s->band_asked)
        return;
    sum = infq_band_sum(in, w, s->n_tasks);
    infq_band_decide(&sum, &o->band, o->band.alpha, &s->band);
    if (isnan(sum.s) && (o->noise == INFQ_NOISE_REQUIRED || (o->noise == INFQ_NOISE_OPTIONAL && s->band.verdict == INFQ_VERDICT_FAIL))) {
        s->band.verdict = INFQ_VERDICT_UNDECIDED;
        s->band.reason = isnan(sum.se) ? INFQ_BAND_NO_RUNS : INFQ_BAND_NO_NOISE;
    }
    if (s->band.verdict == INFQ_VERDICT_UNDECIDED)
        s->runs_needed = infq_band_runs_needed(in, w, s->n_tasks, &o->band, &s->runs_expected);
}

static void add_mark(infq_pair_mark *sum, const infq_pair_mark *m)
{
    sum->known = sum->known && m->known;
    sum->a += m->a;
    sum->b += m->b;
    sum->lost += m->lost;
    sum->won += m->won;
}

/* The least good of the tasks' guards of one kind. */
static void take_worst(const infq_gate_task *t, infq_guard_kind kind, infq_gate_suite *s)
{
    const infq_guard *worst = NULL;

    for (int i = 0; i < s->n_tasks; i++) {
        for (int k = 0; k < t[i].guards.n; k++) {
            const infq_guard *g = &t[i].guards.g[k];
            // pass < undecided < fail
            static const int rank[] = {0, 2, 1};
            if (g->kind == kind && (!worst || rank[g->verdict] > rank[worst->verdict]))
                worst = g;
        }
    }
    if (worst)
        s->guards.g[s->guards.n++] = *worst;
}

/* Variances of the weighted sums of runs, degrees of freedom by Satterthwaite. */
static void suite_jitter(const infq_gate_task *t, const double *w, const infq_gate_options *o, infq_gate_suite *s)
{
    double a = 0, a2 = 0, b = 0, b2 = 0;

    for (int i = 0; i < s->n_tasks; i++) {
        const infq_band_input *in = &t[i].band.in;
        double va = square(w[i] * in->sd_a), vb = square(w[i] * in->sd_b);
        a += va;
        a2 += va * va / (in->runs_a - 1);
        b += vb;
        b2 += vb * vb / (in->runs_b - 1);
    }
    if (s->band_asked && a > 0 && b > 0)
        infq_guard_jitter(&s->guards, sqrt(a), a * a / a2, sqrt(b), b * b / b2, &o->guards);
}

/* Counts and run variances are taken over all tasks; lengths are a matter of each. */
static void suite_guards(const infq_gate_task *t, const double *w, const infq_distance *distance, const infq_gate_options *o,
                         infq_gate_suite *s)
{
    infq_pair_mark invalid = {.known = true}, truncated = {.known = true};
    double psi0 = 0;

    if (s->n_tasks == 1) {
        s->guards = t[0].guards;
    } else {
        for (int i = 0; i < s->n_tasks; i++) {
            add_mark(&invalid, &t[i].invalid);
            add_mark(&truncated, &t[i].truncated);
            psi0 += t[i].psi0 * (double)t[i].n / (double)s->n;
        }
        infq_guard_flips(&s->guards, s->b + s->c, s->n, psi0, &o->guards, 0.95);
        infq_guard_format(&s->guards, &invalid, &truncated, s->n, &o->guards, o->alpha);
        take_worst(t, INFQ_GUARD_LENGTH, s);
        suite_jitter(t, w, o, s);
    }
    infq_guard_distance(&s->guards, distance, &o->guards, o->alpha);
}

/* Index of the first guard with this verdict that was measured, -1. */
static int guard_with(const infq_guards *g, infq_verdict v)
{
    for (int i = 0; i < g->n; i++)
        if (g->g[i].measured && g->g[i].verdict == v)
            return i;
    return -1;
}

static const char *missing_of(const infq_gate_suite *s, const infq_gate_options *o)
{
    if (o->noise == INFQ_NOISE_REQUIRED && isnan(s->band.in.s))
        return "noise";
    for (int k = 0; k < INFQ_GUARD_KINDS; k++) {
        bool there = false;
        for (int i = 0; i < s->guards.n; i++)
            there = there || ((int)s->guards.g[i].kind == k && s->guards.g[i].measured);
        if (o->require >> k & 1 && !there)
            return infq_guard_name((infq_guard_kind)k);
    }
    return NULL;
}

static infq_verdict because(infq_gate_suite *s, infq_gate_reason reason, infq_verdict v)
{
    s->reason = reason;
    return v;
}

/* Fails first, in the order T1, T2, tasks, guards. */
static infq_verdict failure(const infq_gate_task *t, const infq_gate_options *o, infq_gate_suite *s)
{
    if (s->band_asked && s->band.verdict == INFQ_VERDICT_FAIL)
        return because(s, INFQ_GATE_T1, INFQ_VERDICT_FAIL);
    if (s->t2 == INFQ_VERDICT_FAIL)
        return because(s, INFQ_GATE_T2, INFQ_VERDICT_FAIL);
    if (s->n_tasks > 1 && s->worst_p < o->alpha)
        return because(s, INFQ_GATE_TASK, INFQ_VERDICT_FAIL);
    s->guard = guard_with(&s->guards, INFQ_VERDICT_FAIL);
    if (s->guard >= 0)
        return because(s, INFQ_GATE_GUARD, INFQ_VERDICT_FAIL);
    for (int i = 0; i < s->n_tasks && s->n_tasks > 1; i++) {
        int k = guard_with(&t[i].guards, INFQ_VERDICT_FAIL);
        if (k >= 0) {
            s->worst = i;
            s->guard = k;
            return because(s, INFQ_GATE_GUARD, INFQ_VERDICT_FAIL);
        }
    }
    return INFQ_VERDICT_UNDECIDED;
}

static infq_verdict verdict_of(const infq_gate_task *t, const infq_gate_options *o, infq_gate_suite *s)
{
    infq_verdict v = failure(t, o, s);

    if (v == INFQ_VERDICT_FAIL)
        return v;
    s->missing = missing_of(s, o);
    if (s->missing)
        return because(s, INFQ_GATE_MISSING, INFQ_VERDICT_UNDECIDED);
    if (s->t2 == INFQ_VERDICT_UNDECIDED)
        return because(s, INFQ_GATE_T2, INFQ_VERDICT_UNDECIDED);
    if (s->band_asked && s->band.verdict == INFQ_VERDICT_UNDECIDED)
        return because(s, INFQ_GATE_T1, INFQ_VERDICT_UNDECIDED);
    for (int i = 0; i < s->n_tasks && s->n_tasks > 1; i++) {
        if (t[i].verdict == INFQ_VERDICT_FAIL || (o->strict && t[i].verdict != INFQ_VERDICT_PASS)) {
            s->worst = i;
            return because(s, INFQ_GATE_TASK, INFQ_VERDICT_UNDECIDED);
        }
    }
    s->guard = guard_with(&s->guards, INFQ_VERDICT_UNDECIDED);
    if (s->guard >= 0)
        return because(s, INFQ_GATE_GUARD, INFQ_VERDICT_UNDECIDED);
    if (o->strict_detect && s->shift)
        return because(s, INFQ_GATE_SHIFT, INFQ_VERDICT_UNDECIDED);
    return because(s, INFQ_GATE_ALL, INFQ_VERDICT_PASS);
}

/* A suite of one is that task: its exact tests stand in for the normal reference. */
static void take_only_task(const infq_gate_task *t, infq_gate_suite *s)
{
    s->se = t->se;
    s->statistic = t->statistic;
    s->p_pass = t->p_pass;
    s->p_fail = t->p_fail;
    s->ci = t->ci;
    s->t2 = t->t2;
    s->more_items = t->more_items;
    s->expect_pass = t->expect_pass;
    s->p_degradation = t->p_degradation;
}

/* Errors of the two scores alone; room[n] doubles, sizes[n]. */
static void group_errors(const infq_gate_task *t, double *room, int64_t *sizes, infq_gate_suite *s)
{
    for (int i = 0; i < s->n_tasks; i++) {
        sizes[i] = t[i].n;
        room[i] = t[i].se_a;
    }
    s->group_a = infq_group_se_of(sizes, room, s->n_tasks);
    for (int i = 0; i < s->n_tasks; i++)
        room[i] = t[i].se_b;
    s->group_b = infq_group_se_of(sizes, room, s->n_tasks);
}

static void shift_of(const infq_gate_task *t, const infq_gate_options *o, double *p, infq_gate_suite *s)
{
    for (int i = 0; i < s->n_tasks; i++)
        p[i] = loss_p(&t[i]);
    s->p_degradation = infq_combine_p(p, s->n_tasks).stouffer;
    if (s->n_tasks == 1)
        s->p_degradation = t[0].p_degradation;
    s->shift = s->p_degradation < o->alpha || (s->band_asked && s->band.p_shift < o->alpha);
}

infq_status infq_gate_combine(const infq_gate_task *t, int n, const infq_distance *distance, const infq_gate_stopped *stopped,
                              const infq_gate_options *o, infq_gate_suite *out, infq_err *err)
{
    infq_gate_suite s = {.n_tasks = n, .worst = -1, .worst_p = NAN, .guard = -1};
    double *w = NULL, *p, *room, total = 0;
    infq_band_input *in = NULL;
    int64_t *sizes = NULL;
    infq_status st;

    if (n < 1)
        return infq_err_set(err, INFQ_E_USAGE, "no task to decide on");
    INFQ_TRY(infq_mem_new(5 * (size_t)n, sizeof(*w), "p-values", (void **)&w, err));
    st = infq_mem_new((size_t)n, sizeof(*in), "runs of tasks", (void **)&in, err);
    if (!st)
        st = infq_mem_new((size_t)n, sizeof(*sizes), "sizes of tasks", (void **)&sizes, err);
    p = w + n;
    room = p + n;
    if (!st)
        st = search_failures(t, n, o, p, room, err);
    if (!st) {
        for (int i = 0; i < n; i++) {
            total += (double)t[i].n;
            if (s.worst < 0 || p[i] < s.worst_p) {
                s.worst = i;
                s.worst_p = p[i];
            }
        }
        for (int i = 0; i < n; i++)
            w[i] = o->weights == INFQ_WEIGHTS_SIZE ? (double)t[i].n / total : 1.0 / n;
        test_items(t, w, o, &s);
        if (n == 1)
            take_only_task(&t[0], &s);
        if (stopped) {
            s.t2 = stopped->t2;
            s.p_pass = stopped->p_pass;
            s.p_fail = stopped->p_fail;
            s.statistic = NAN;
        }
        suite_band(t, w, o, in, &s);
        suite_guards(t, w, distance, o, &s);
        group_errors(t, p, sizes, &s);
        shift_of(t, o, p, &s);
        s.verdict = verdict_of(t, o, &s);
        *out = s;
    }
    infq_mem_free(sizes);
    infq_mem_free(in);
    infq_mem_free(w);
    return st;
}
