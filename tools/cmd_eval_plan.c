/* infeval plan: how many items and runs a verdict needs, before anything is run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/eval/pooling.h"
#include "lib/eval/simulate.h"
#include "tools/commands.h"
#include "tools/gate_items.h"

#define PLAN "infeval plan"
#define DRAWS 20000
#define STOP_DRAWS 500
#define STOP_SEED 11
#define MAX_PLAN 2000000 /* items of a sequential plan */

typedef struct {
    const char *policy, *profile;
    double margin, alpha, power, psi, psi0, gap;
    int64_t n_items;
    opt_list noise;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "policy", 0, OPT_STR, "FILE", "policy that will decide (infeval gate --help)", AT(policy), 0, 0 },
    { "profile", 0, OPT_STR, "NAME", "built-in policy (default)", AT(profile), 0, 0 },
    { "margin", 0, OPT_F64, "X", "largest loss of score that may pass (0.01)", AT(margin), 1e-9, 1 },
    { "alpha", 0, OPT_F64, "A", "one-sided error rate of either verdict (0.05)", AT(alpha), 1e-9, 0.5 },
    { "power", 0, OPT_F64, "P", "chance of the right verdict (0.8)", AT(power), 0.5, 0.999999 },
    { "psi", 0, OPT_F64, "X", "share of items that change; from pilot items, or 0.05", AT(psi), 1e-6, 1 },
    { "psi0", 0, OPT_F64, "X", "share of the original's own items that change from run to run: the noise of N items", AT(psi0), 1e-9, 1 },
    { "gap", 0, OPT_F64, "X", "true gap to plan for, negative = worse (0)", AT(gap), -1, 1 },
    { "n", 'n', OPT_I64, "N", "items there are: what they can show", AT(n_items), 1, 1e12 },
    { "noise", 0, OPT_LIST, "FILE", "record of infeval noise of the original: runs for T1", AT(noise), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    PLAN, "[options] [ORIGINAL_ITEMS COMPRESSED_ITEMS]", "Items and runs that a verdict needs.",
    "Pilot items of both models give the share of items that change, task by task. Without them --psi says it.",
    rows, sizeof(rows) / sizeof(rows[0]), 0, 2,
};

/* What one flip rate needs. */
typedef struct {
    char task[128];
    int64_t n;               /* items there are, 0: not said */
    double psi;
    double items, items_no_gap, items_tost; /* fixed size */
    double detectable;       /* gap that n items show; NAN without n */
    double power;            /* of n items at the planned gap, exact; NAN without n */
    infq_stop_rates stop;    /* stopping early at `items` items times 3 at most */
    int64_t stop_max;
} plan_row;

typedef struct {
    const options *o;
    infq_policy policy;
    int n;
    plan_row *rows;
    infq_noise *noise;
    int n_designs;
    struct {
        int runs_a, runs_b;
        infq_rates none, limit;
    } designs[5];
} plan;

static infq_status fill_row(plan *p, plan_row *r, infq_err *err)
{
    const infq_gate_options *g = &p->policy.gate;
    double beta = 1 - g->power, gap = p->o->gap, psi = r->psi < fabs(gap) ? fabs(gap) : r->psi;

    r->items = gap == -g->margin ? INFINITY : ceil(infq_items_needed(psi, gap, g->margin, g->alpha, beta));
    r->items_no_gap = ceil(infq_items_needed(r->psi, 0, g->margin, g->alpha, beta));
    r->items_tost = ceil(infq_items_needed_tost(r->psi, g->margin, g->alpha, beta));
    r->detectable = r->power = NAN;
    if (r->n > 0) {
        infq_rates x = infq_exact_tango(r->n, psi, gap, g->margin, g->alpha);
        r->detectable = infq_detectable_gap(r->psi, r->n, 2 * g->alpha, g->power);
        r->power = gap > -g->margin ? x.pass : x.fail;
    }
    r->stop_max = r->n > 0 ? r->n : isfinite(r->items) && 3 * r->items < MAX_PLAN ? (int64_t)(3 * r->items) : MAX_PLAN;
    r->stop = (infq_stop_rates){ { NAN, NAN }, NAN };
    if (!isfinite(r->items))
        return 0;
    return infq_simulate_stop(&p->policy, psi, gap, r->stop_max, STOP_DRAWS, STOP_SEED, &r->stop, err);
}

/* Flip rates of pilot items, task by task. */
static infq_status pilot(plan *p, char **args, infq_err *err)
{
    infq_items_options io = infq_items_options_default();
    gate_side a = { 0 }, b = { 0 };
    infq_pair *pairs[EVAL_MAX_TASKS] = { NULL };
    int n = 0;
    infq_status st = gate_side_add(&a, args[0], &io, err);

    if (!st)
        st = gate_side_add(&b, args[1], &io, err);
    if (!st)
        st = gate_sides_pair(&a, &b, &p->policy, pairs, &n, err);
    for (int i = 0; i < n && !st; i++) {
        plan_row *r = &p->rows[p->n++];
        int64_t changed = 0;
        for (int64_t k = 0; k < pairs[i]->n; k++)
            changed += pairs[i]->d[k] != 0;
        memcpy(r->task, pairs[i]->task, sizeof(r->task));
        r->n = p->o->n_items ? p->o->n_items : pairs[i]->n;
        // no change in n items says that psi is small, not that it is 0: the upper limit of 50 % confidence
        r->psi = changed > 0 ? (double)changed / (double)pairs[i]->n : infq_clopper_pearson(0, pairs[i]->n, 0).hi;
    }
    for (int i = 0; i < n; i++)
        infq_pair_free(pairs[i]);
    gate_side_free(&a);
    gate_side_free(&b);
    return st;
}

/* All tasks together: the flip rate that one task of as many items would need for the same error. */
static void add_suite(plan *p)
{
    plan_row *all = &p->rows[p->n];
    double var = 0, weight;
    int64_t n = 0;

    for (int i = 0; i < p->n; i++)
        n += p->rows[i].n;
    for (int i = 0; i < p->n; i++) {
        weight = p->policy.gate.weights == INFQ_WEIGHTS_SIZE ? (double)p->rows[i].n / (double)n : 1.0 / p->n;
        var += weight * weight * p->rows[i].psi / (double)p->rows[i].n;
    }
    snprintf(all->task, sizeof(all->task), "all %d tasks", p->n);
    all->n = n;
    all->psi = var * (double)n < 1 ? var * (double)n : 1;
    p->n++;
}

/* T1: passes without a gap, and errs at the limit, for runs of the original there are and fresh ones. */
static infq_status plan_runs(plan *p, infq_err *err)
{
    static const int runs[] = { 3, 5, 10, 20, 40 };
    const double gaps[2] = { 0, -1 };
    infq_rates r[2];

    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        infq_band_design d = { .runs_a = p->noise ? p->noise->n_runs : runs[i], .runs_b = runs[i], .sd_b = 1, .band = p->policy.gate.band };
        INFQ_TRY(infq_simulate_band(&d, gaps, 2, DRAWS, 5, r, err));
        p->designs[p->n_designs].runs_a = d.runs_a;
        p->designs[p->n_designs].runs_b = d.runs_b;
        p->designs[p->n_designs].none = r[0];
        p->designs[p->n_designs++].limit = r[1];
    }
    return 0;
}

static infq_status make_plan(plan *p, int n_args, char **args, infq_err *err)
{
    INFQ_TRY(gate_policy(p->o->policy, p->o->profile, p->o->margin, p->o->alpha, p->o->power, NULL, false, &p->policy, err));
    if (n_args == 1)
        return infq_err_set(err, INFQ_E_USAGE, "pilot items are those of two models: give both sides");
    if (!isnan(p->o->psi0) && p->o->n_items == 0 && n_args == 0)
        return infq_err_set(err, INFQ_E_USAGE, "--psi0 says the noise of so many items: give -n, too");
    if (p->o->noise.n > 1)
        return infq_err_set(err, INFQ_E_USAGE, "--noise: the original's record alone is planned with");
    INFQ_TRY(infq_mem_new(EVAL_MAX_TASKS + 1, sizeof(*p->rows), "rows of the plan", (void **)&p->rows, err));
    memset(p->rows, 0, (EVAL_MAX_TASKS + 1) * sizeof(*p->rows));
    if (p->o->noise.n == 1)
        INFQ_TRY(infq_noise_load(p->o->noise.v[0], &p->noise, err));
    if (n_args == 2) {
        INFQ_TRY(pilot(p, args, err));
    } else {
        plan_row *r = &p->rows[p->n++];
        snprintf(r->task, sizeof(r->task), "any task");
        r->n = p->o->n_items;
        r->psi = isnan(p->o->psi) ? 0.05 : p->o->psi;
    }
    if (p->n > 1)
        add_suite(p);
    for (int i = 0; i < p->n; i++) {
        if (n_args == 2 && !isnan(p->o->psi))
            p->rows[i].psi = p->o->psi;
        INFQ_TRY(fill_row(p, &p->rows[i], err));
    }
    return plan_runs(p, err);
}

static void count_text(double v, infq_buf *to)
{
    if (isfinite(v))
        infq_buf_fmt(to, " %10.0f", v);
    else
        infq_buf_fmt(to, " %10s", "never");
}

/* What the self-flip rate makes of the last row's items (specs 2.1). */
static double noise_sd(const plan *p)
{
    return infq_self_flip_sd(p->o->psi0, p->rows[p->n - 1].n);
}

static double noise_limit(const plan *p)
{
    return p->policy.gate.band.kappa * M_SQRT2 * noise_sd(p);
}

static void plan_text(const plan *p, infq_buf *to)
{
    const infq_gate_options *g = &p->policy.gate;

    infq_buf_fmt(to, "in points: margin %g, planned gap %+g; alpha %g, power %g\n\n", 100 * g->margin, 100 * p->o->gap, g->alpha, g->power);
    infq_buf_fmt(to, "%-28s %8s %7s %10s %10s %10s %12s %10s %10s\n", "T2: items", "there", "change", "needed", "at gap 0", "two-sided",
                 "stops early", "power", "shows gap");
    for (int i = 0; i < p->n; i++) {
        const plan_row *r = &p->rows[i];
        infq_buf_fmt(to, "%-28.28s", r->task);
        if (r->n > 0)
            infq_buf_fmt(to, " %8lld", (long long)r->n);
        else
            infq_buf_fmt(to, " %8s", "-");
        infq_buf_fmt(to, " %6.2f%%", 100 * r->psi);
        count_text(r->items, to);
        count_text(r->items_no_gap, to);
        count_text(r->items_tost, to);
        if (isnan(r->stop.median) || (p->o->gap > -g->margin ? r->stop.rates.pass : r->stop.rates.fail) < 0.5)
            infq_buf_fmt(to, " %12s", "mostly not");
        else
            infq_buf_fmt(to, " %12.0f", r->stop.median);
        if (r->n > 0)
            infq_buf_fmt(to, " %10.3f %10.4f\n", r->power, r->detectable);
        else
            infq_buf_fmt(to, " %10s %10s\n", "-", "-");
    }
    infq_buf_str(to, "\nneeded: for the planned gap; stops early: median items of --sequential (mostly not: over\n"
                     "half of the runs do not decide with the items there are); power: of the items there are, exact;\n"
                     "shows gap: smallest true gap that they show, two-sided\n\n");
    infq_buf_fmt(to, "%-28s %12s %12s %12s\n", "T1: runs", "no gap", "at the limit", "at the limit");
    infq_buf_fmt(to, "%-28s %12s %12s %12s\n", "original, compressed", "passes", "passes", "fails");
    for (int i = 0; i < p->n_designs; i++) {
        char runs[40];
        snprintf(runs, sizeof(runs), "%d, %d", p->designs[i].runs_a, p->designs[i].runs_b);
        infq_buf_fmt(to, "%-28s %12.3f %12.3f %12.3f\n", runs, p->designs[i].none.pass, p->designs[i].limit.pass, p->designs[i].limit.fail);
    }
    if (!isnan(p->o->psi0) && p->rows[p->n - 1].n > 0)
        infq_buf_fmt(to, "\nan original that changes %.2f %% of its answers from run to run: sd of a score of %lld items %.3f points, limit of two "
                     "runs %.3f points\n", 100 * p->o->psi0, (long long)p->rows[p->n - 1].n, 100 * noise_sd(p), 100 * noise_limit(p));
    if (p->noise) {
        infq_noise_suite s = infq_noise_suite_of(p->noise);
        infq_buf_fmt(to, "\nnoise of the original (%s, %d runs): limit %.3f points over the suite\n", p->noise->source, p->noise->n_runs,
                     100 * s.limit);
        for (int i = 0; i < p->noise->n_tasks; i++)
            infq_buf_fmt(to, "  %-26.26s limit %.3f points, %.2f %% of its own items change\n", p->noise->tasks[i].task,
                         100 * g->band.kappa * M_SQRT2 * p->noise->tasks[i].sd_full, 100 * p->noise->tasks[i].flip_rate);
    }
}

static void plan_json(const plan *p, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.plan.v1");
    infq_jw_key(&w, "policy");
    infq_policy_write(&p->policy, &w);
    infq_jw_key_str(&w, "policy_sha256", p->policy.sha256);
    infq_jw_key_f64(&w, "gap", p->o->gap);
    infq_jw_key(&w, "tasks");
    infq_jw_arr(&w);
    for (int i = 0; i < p->n; i++) {
        const plan_row *r = &p->rows[i];
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "task", r->task);
        infq_jw_key_i64(&w, "items", r->n);
        infq_jw_key_f64(&w, "flip_rate", r->psi);
        infq_jw_key_f64(&w, "items_needed", r->items);
        infq_jw_key_f64(&w, "items_needed_without_gap", r->items_no_gap);
        infq_jw_key_f64(&w, "items_needed_two_sided", r->items_tost);
        infq_jw_key_f64(&w, "power", r->power);
        infq_jw_key_f64(&w, "detectable_gap", r->detectable);
        infq_jw_key_f64(&w, "stop_median", r->stop.median);
        infq_jw_key_f64(&w, "stop_pass", r->stop.rates.pass);
        infq_jw_key_f64(&w, "stop_fail", r->stop.rates.fail);
        infq_jw_key_i64(&w, "stop_at_most", r->stop_max);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    if (!isnan(p->o->psi0) && p->rows[p->n - 1].n > 0) {
        infq_jw_key_f64(&w, "noise_sd", noise_sd(p));
        infq_jw_key_f64(&w, "noise_limit", noise_limit(p));
    }
    infq_jw_key(&w, "runs");
    infq_jw_arr(&w);
    for (int i = 0; i < p->n_designs; i++) {
        infq_jw_obj(&w);
        infq_jw_key_i64(&w, "original", p->designs[i].runs_a);
        infq_jw_key_i64(&w, "compressed", p->designs[i].runs_b);
        infq_jw_key_f64(&w, "pass_without_gap", p->designs[i].none.pass);
        infq_jw_key_f64(&w, "pass_at_limit", p->designs[i].limit.pass);
        infq_jw_key_f64(&w, "fail_at_limit", p->designs[i].limit.fail);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}

int cmd_eval_plan(int argc, char **argv)
{
    options o = { .margin = NAN, .alpha = NAN, .power = NAN, .psi = NAN, .psi0 = NAN };
    plan *p = NULL;
    int n_args;
    bool done;
    infq_buf doc;
    infq_err err;
    infq_status st;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(PLAN, &err);
    if (done)
        return 0;
    if (infq_mem_new(1, sizeof(*p), "plan", (void **)&p, &err))
        return cmd_fail(PLAN, &err);
    memset(p, 0, sizeof(*p));
    p->o = &o;
    infq_buf_init(&doc);
    st = make_plan(p, n_args, argv, &err);
    if (!st && o.json)
        plan_json(p, &doc);
    else if (!st)
        plan_text(p, &doc);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    infq_noise_free(p->noise);
    infq_mem_free(p->rows);
    infq_mem_free(p);
    return st ? cmd_fail(PLAN, &err) : 0;
}
