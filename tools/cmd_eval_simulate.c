/* infeval simulate: how often the gate's rules are wrong, and other people's beside them. The tables of docs/results.md. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/eval/simulate.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

#define SIMULATE "infeval simulate"
#define N_GAPS 8
#define STOP_ITEMS 14042

typedef struct {
    int64_t draws, stop_draws, seed, threads;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "draws", 0, OPT_I64, "N", "experiments of each T1 design (100000)", AT(draws), 100, 1e8 },
    { "stop-draws", 0, OPT_I64, "N", "runs of each early-stopping row (4000)", AT(stop_draws), 100, 1e7 },
    { "seed", 0, OPT_I64, "N", "of the experiments (1)", AT(seed), 0, 9e15 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); figures do not depend on it", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    SIMULATE, "[options]", "How often the gate is wrong when the truth is known, by simulation and exact sums.",
    "T1's criterion for numbers of runs and designs, with and without its floor; T2's exact error rates; early\n"
    "stopping against tests of fixed size; the rules of others. The same seed gives the same figures.",
    rows, sizeof(rows) / sizeof(rows[0]), 0, 0,
};

/* Rows of one table: a label and numbers. A table is filled by a function and printed twice, as text and as JSON. */
#define MAX_COLUMNS 18
#define MAX_ROWS 40
typedef struct {
    const char *key, *title;
    int n_columns, n_rows;
    char columns[MAX_COLUMNS][24];
    char labels[MAX_ROWS][64];
    double v[MAX_ROWS][MAX_COLUMNS];
} table;

static double *row(table *t, const char *label)
{
    snprintf(t->labels[t->n_rows], sizeof(*t->labels), "%s", label);
    return t->v[t->n_rows++];
}

static void column(table *t, const char *name)
{
    snprintf(t->columns[t->n_columns++], sizeof(*t->columns), "%s", name);
}

/* Two columns a gap. */
static void gap_columns(table *t, const double *gaps, int n)
{
    for (int g = 0; g < n; g++) {
        char name[24];
        snprintf(name, sizeof(name), "pass at %g", gaps[g]);
        column(t, name);
        snprintf(name, sizeof(name), "fail at %g", gaps[g]);
        column(t, name);
    }
}

static infq_status band_row(table *t, const char *label, const infq_band_design *d, const double *gaps, int n, const options *o,
                            infq_err *err)
{
    double worse[N_GAPS], *v = row(t, label);
    infq_rates r[N_GAPS];

    for (int g = 0; g < n; g++)
        worse[g] = -gaps[g];
    INFQ_TRY(infq_simulate_band(d, worse, n, o->draws, (uint64_t)o->seed, r, err));
    for (int g = 0; g < n; g++) {
        v[2 * g] = r[g].pass;
        v[2 * g + 1] = r[g].fail;
    }
    return 0;
}

static const double all_gaps[N_GAPS] = { 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3 };

static infq_status runs_with(table *t, bool pooled, const options *o, infq_err *err)
{
    static const struct {
        double kappa;
        int runs;
    } designs[] = { { 0, 3 }, { 0, 5 }, { 0, 10 }, { 0, 20 }, { 0, 40 }, { 1, 5 }, { 1, 10 }, { 1, 20 }, { 1, 40 } };

    gap_columns(t, all_gaps, N_GAPS);
    for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
        infq_band_design d = { .runs_a = designs[i].runs, .runs_b = designs[i].runs, .sd_b = 1, .pooled_df = pooled,
                               .band = infq_band_options_default() };
        char label[64];
        if (designs[i].kappa > 0)
            d.band.kappa = designs[i].kappa;
        snprintf(label, sizeof(label), "kappa %.4g, %d runs a side", d.band.kappa, designs[i].runs);
        INFQ_TRY(band_row(t, label, &d, all_gaps, N_GAPS, o, err));
    }
    return 0;
}

static infq_status t1_runs(table *t, const options *o, infq_err *err)
{
    return runs_with(t, true, o, err);
}

static infq_status t1_welch(table *t, const options *o, infq_err *err)
{
    return runs_with(t, false, o, err);
}

static infq_status t1_designs(table *t, const options *o, infq_err *err)
{
    static const double gaps[4] = { 0, 0.5, 1, 2 };
    static const struct {
        const char *label;
        infq_band_design d;
    } designs[] = {
        { "paired, 5 runs, correlation 0.5", { .runs_a = 5, .runs_b = 5, .paired = true, .rho = 0.5, .sd_b = 1 } },
        { "paired, 10 runs, correlation 0.5", { .runs_a = 10, .runs_b = 10, .paired = true, .rho = 0.5, .sd_b = 1 } },
        { "paired, 10 runs, correlation 0.9", { .runs_a = 10, .runs_b = 10, .paired = true, .rho = 0.9, .sd_b = 1 } },
        { "10 runs and 5", { .runs_a = 10, .runs_b = 5, .sd_b = 1 } },
        { "20 runs and 5", { .runs_a = 20, .runs_b = 5, .sd_b = 1 } },
        { "10 runs and 3", { .runs_a = 10, .runs_b = 3, .sd_b = 1 } },
        { "10 runs and 10, compressed sd doubled", { .runs_a = 10, .runs_b = 10, .sd_b = 2 } },
    };

    gap_columns(t, gaps, 4);
    for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
        infq_band_design d = designs[i].d;
        d.band = infq_band_options_default();
        INFQ_TRY(band_row(t, designs[i].label, &d, gaps, 4, o, err));
    }
    return 0;
}

/* "Criterion or floor": the gap is the larger of the two limits, where either alone errs alpha. */
static infq_status t1_floor(table *t, const options *o, infq_err *err)
{
    static const double floors[] = { 0.5, 0.8, 1, 1.2, 2 };

    column(t, "pass");
    column(t, "fail");
    column(t, "pass, exact level");
    column(t, "fail, exact level");
    for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
        double gap = -(floors[i] > 1 ? floors[i] : 1), *v;
        char label[64];
        snprintf(label, sizeof(label), "floor %g of the noise limit", floors[i]);
        v = row(t, label);
        for (int exact = 0; exact < 2; exact++) {
            infq_band_design d = { .runs_a = 10, .runs_b = 10, .sd_b = 1, .floor = floors[i], .band = infq_band_options_default() };
            infq_rates r;
            d.band.exact_level = exact;
            INFQ_TRY(infq_simulate_band(&d, &gap, 1, o->draws, (uint64_t)o->seed, &r, err));
            v[2 * exact] = r.pass;
            v[2 * exact + 1] = r.fail;
        }
    }
    return 0;
}

/* The rule of others on the same runs. */
static infq_status t1_others(table *t, const options *o, infq_err *err)
{
    static const int runs[] = { 3, 5, 10, 20, 40 };

    for (int g = 0; g < N_GAPS; g++) {
        char name[24];
        snprintf(name, sizeof(name), "pass at %g", all_gaps[g]);
        column(t, name);
    }
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        infq_band_design d = { .runs_a = runs[i], .runs_b = runs[i], .sd_b = 1, .band = infq_band_options_default() };
        char label[64];
        snprintf(label, sizeof(label), "%d runs a side", runs[i]);
        INFQ_TRY(infq_simulate_insignificant(&d, all_gaps, N_GAPS, o->draws, (uint64_t)o->seed, row(t, label), err));
    }
    return 0;
}

static infq_status t2_exact(table *t, const options *o, infq_err *err)
{
    static const int64_t sizes[] = { 200, 400, 1172, 4000, 10042, 14042 };
    static const double psi[] = { 0.02, 0.05, 0.10 };

    (void)o;
    (void)err;
    column(t, "pass at the margin");
    column(t, "fail at the margin");
    column(t, "pass at gap 0");
    column(t, "fail at twice it");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizeof(psi) / sizeof(psi[0]); k++) {
            infq_rates at = infq_exact_tango(sizes[i], psi[k], -0.01, 0.01, 0.05), none = infq_exact_tango(sizes[i], psi[k], 0, 0.01, 0.05);
            char label[64];
            double *v;
            snprintf(label, sizeof(label), "%lld items, %g %% change", (long long)sizes[i], 100 * psi[k]);
            v = row(t, label);
            v[0] = at.pass;
            v[1] = at.fail;
            v[2] = none.pass;
            v[3] = infq_exact_tango(sizes[i], psi[k], -0.02, 0.01, 0.05).fail;
        }
    }
    return 0;
}

/* Items of a fixed-size test with the power that stopping early reached; NAN where that power is not worth the name. */
static double fixed_size(double psi, double gap, const infq_stop_rates *s)
{
    double power = gap > -0.01 ? s->rates.pass : s->rates.fail;

    if (gap == -0.01 || power < 0.5)
        return NAN;
    // beyond 99.9 % no one plans, and simulation cannot tell it from 1
    return (double)infq_items_for_power(psi, gap, 0.01, 0.05, power < 0.999 ? power : 0.999, 200000);
}

static infq_status stopping_with(table *t, infq_stop_rule rule, const options *o, infq_err *err)
{
    static const struct {
        double psi, gap;
    } rows_of[] = { { 0.01, 0 },     { 0.02, 0 },      { 0.02, -0.0025 }, { 0.02, -0.005 }, { 0.02, -0.01 }, { 0.02, -0.02 },
                    { 0.05, 0 },     { 0.05, -0.0025 }, { 0.05, -0.005 },  { 0.05, -0.01 },  { 0.05, -0.02 }, { 0.05, -0.03 },
                    { 0.1, 0 },      { 0.1, -0.0025 },  { 0.1, -0.005 },   { 0.1, -0.01 },   { 0.1, -0.02 },  { 0.1, -0.03 },
                    { 0.15, -0.1 } };
    infq_policy *p = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*p), "policy", (void **)&p, err));
    st = infq_policy_builtin("default", p, err);
    p->stop = rule;
    column(t, "pass");
    column(t, "fail");
    column(t, "median items");
    column(t, "fixed size, same power");
    column(t, "ratio");
    for (size_t i = 0; i < sizeof(rows_of) / sizeof(rows_of[0]) && !st; i++) {
        infq_stop_rates s;
        char label[64];
        double *v;
        snprintf(label, sizeof(label), "%g %% change, gap %+g points", 100 * rows_of[i].psi, 100 * rows_of[i].gap);
        v = row(t, label);
        st = infq_simulate_stop(p, rows_of[i].psi, rows_of[i].gap, STOP_ITEMS, o->stop_draws, (uint64_t)o->seed, &s, err);
        if (st)
            break;
        v[0] = s.rates.pass;
        v[1] = s.rates.fail;
        v[2] = s.median;
        v[3] = fixed_size(rows_of[i].psi, rows_of[i].gap, &s);
        v[4] = v[2] / v[3];
    }
    infq_mem_free(p);
    return st;
}

static infq_status stop_betting(table *t, const options *o, infq_err *err)
{
    return stopping_with(t, INFQ_STOP_BETTING, o, err);
}

static infq_status stop_looks(table *t, const options *o, infq_err *err)
{
    return stopping_with(t, INFQ_STOP_OBRIEN_FLEMING, o, err);
}

static infq_status rules(table *t, const options *o, infq_err *err)
{
    static const int64_t sizes[] = { 100, 300, 1000, 3000, 10000 };
    static const double gaps[] = { 0.01, 0.02, 0.03, 0.04, 0.05 };

    (void)o;
    (void)err;
    column(t, "ratio >= 0.95");
    column(t, "unpaired p > 0.05");
    column(t, "McNemar p > 0.05");
    column(t, "T2 passes");
    column(t, "T2 fails");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizeof(gaps) / sizeof(gaps[0]); k++) {
            infq_rates r = infq_exact_tango(sizes[i], 0.08, -gaps[k], 0.01, 0.05);
            char label[64];
            double *v;
            snprintf(label, sizeof(label), "%lld items, true loss %g points", (long long)sizes[i], 100 * gaps[k]);
            v = row(t, label);
            v[0] = infq_rule_ratio(0.75, sizes[i], 0.08, 0.95, -gaps[k]);
            v[1] = infq_rule_unpaired(0.75, sizes[i], 0.08, 0.05, -gaps[k]);
            v[2] = infq_rule_mcnemar(sizes[i], 0.08, 0.05, -gaps[k]);
            v[3] = r.pass;
            v[4] = r.fail;
        }
    }
    return 0;
}

typedef infq_status (*fill_fn)(table *t, const options *o, infq_err *err);
static const struct {
    const char *key, *title;
    fill_fn fill;
} tables[] = {
    { "t1_runs", "T1's criterion alone, 2 R - 2 degrees of freedom (specs 2.7); gaps in units of the true noise limit, the boundary", t1_runs },
    { "t1_welch", "The same with Welch's degrees of freedom, as the gate decides", t1_welch },
    { "t1_designs", "T1's criterion, kappa 1.96, other designs", t1_designs },
    { "t1_floor", "T1 with its floor, 10 runs a side, at the larger of floor and noise limit", t1_floor },
    { "t1_others", "The rule \"no significant difference between the runs\" (p > 0.05) on the same runs: how often it lets pass", t1_others },
    { "t2_exact", "T2 (Tango), margin 1 point, alpha 5 %: exact", t2_exact },
    { "stop_betting", "Early stopping by betting, margin 1 point, alpha 5 %, at most 14,042 items", stop_betting },
    { "stop_looks", "The same with looks at 1/4, 1/2, 3/4, 1 of the items (O'Brien-Fleming)", stop_looks },
    { "rules", "Rules of others, base score 0.75, 8 % of the items change: how often they let a true loss pass", rules },
};
#define N_TABLES ((int)(sizeof(tables) / sizeof(tables[0])))

static void table_text(const table *t, infq_buf *to)
{
    infq_buf_fmt(to, "%s\n%-40s", t->title, "");
    for (int c = 0; c < t->n_columns; c++)
        infq_buf_fmt(to, " %*s", (int)strlen(t->columns[c]) > 8 ? (int)strlen(t->columns[c]) : 8, t->columns[c]);
    infq_buf_char(to, '\n');
    for (int i = 0; i < t->n_rows; i++) {
        infq_buf_fmt(to, "%-40s", t->labels[i]);
        for (int c = 0; c < t->n_columns; c++) {
            int width = (int)strlen(t->columns[c]) > 8 ? (int)strlen(t->columns[c]) : 8;
            if (isnan(t->v[i][c]))
                infq_buf_fmt(to, " %*s", width, "-");
            else
                infq_buf_fmt(to, t->v[i][c] > 50 ? " %*.0f" : " %*.4f", width, t->v[i][c]);
        }
        infq_buf_char(to, '\n');
    }
    infq_buf_char(to, '\n');
}

static void table_json(const table *t, infq_jw *w)
{
    infq_jw_key(w, t->key);
    infq_jw_obj(w);
    infq_jw_key_str(w, "title", t->title);
    infq_jw_key(w, "columns");
    infq_jw_arr(w);
    for (int c = 0; c < t->n_columns; c++)
        infq_jw_str(w, t->columns[c]);
    infq_jw_end_arr(w);
    infq_jw_key(w, "rows");
    infq_jw_arr(w);
    for (int i = 0; i < t->n_rows; i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "label", t->labels[i]);
        infq_jw_key(w, "values");
        infq_jw_arr(w);
        for (int c = 0; c < t->n_columns; c++)
            infq_jw_f64(w, t->v[i][c]);
        infq_jw_end_arr(w);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
}

/* Largest rate of wrong answers at the boundary over the designs of T1: the columns that say so. */
static void worst_t1(const table *t, double *pass, double *fail)
{
    for (int c = 0; c < t->n_columns; c++) {
        double *worst = strcmp(t->columns[c], "pass at 1") == 0 ? pass : strcmp(t->columns[c], "fail at 1") == 0 ? fail : NULL;
        for (int i = 0; i < t->n_rows && worst; i++)
            *worst = fmax(*worst, t->v[i][c]);
    }
}

static infq_status simulate(const options *o, const infq_log *log, infq_buf *doc, infq_err *err)
{
    table *t = NULL;
    double pass = 0, fail = 0;
    infq_jw w = infq_jw_over(doc, 0);
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)N_TABLES, sizeof(*t), "tables", (void **)&t, err));
    memset(t, 0, (size_t)N_TABLES * sizeof(*t));
    st = 0;
    for (int i = 0; i < N_TABLES && !st; i++) {
        t[i].key = tables[i].key;
        t[i].title = tables[i].title;
        st = tables[i].fill(&t[i], o, err);
        infq_progress(log, "simulations", (uint64_t)(i + 1), (uint64_t)N_TABLES);
    }
    if (!st) {
        for (int i = 0; i < N_TABLES; i++)
            if (tables[i].fill != t1_others)
                worst_t1(&t[i], &pass, &fail);
        if (o->json) {
            infq_jw_obj(&w);
            infq_jw_key_str(&w, "schema", "infq.simulate.v1");
            infq_jw_key_i64(&w, "draws", o->draws);
            infq_jw_key_i64(&w, "stop_draws", o->stop_draws);
            infq_jw_key_i64(&w, "seed", o->seed);
            infq_jw_key_f64(&w, "t1_worst_pass", pass);
            infq_jw_key_f64(&w, "t1_worst_fail", fail);
            for (int i = 0; i < N_TABLES; i++)
                table_json(&t[i], &w);
            infq_jw_end_obj(&w);
            infq_buf_char(doc, '\n');
        } else {
            infq_buf_fmt(doc, "T1's criterion is wrong at its boundary at most so often over all designs: passes %.2f %%, fails %.2f %%\n\n",
                         100 * pass, 100 * fail);
            for (int i = 0; i < N_TABLES; i++)
                table_text(&t[i], doc);
        }
    }
    infq_mem_free(t);
    return st;
}

int cmd_eval_simulate(int argc, char **argv)
{
    options o = { .draws = 100000, .stop_draws = 4000, .seed = 1 };
    int n_args;
    bool done;
    infq_buf doc;
    cmd_sink sink;
    infq_log log;
    infq_err err;
    infq_status st;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(SIMULATE, &err);
    if (done)
        return 0;
    infq_par_threads_set((int)o.threads);
    infq_buf_init(&doc);
    log = cmd_log(&sink, SIMULATE, o.quiet);
    st = simulate(&o, &log, &doc, &err);
    cmd_log_end(&sink);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(SIMULATE, &err) : 0;
}
