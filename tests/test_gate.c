/* The gate: worked_examples of specs/vectors/statistics.json (T2 blocks of W1 to W4, W6, W8; Holm of W7; verdicts of tasks and of the suite W5), case B50,
 * what T1 rests on, guards, refusals. */
#include "tests/gate_pairs.h"

static cJSON *golden;

static const cJSON *example(const char *name)
{
    const cJSON *g;

    if (!golden)
        golden = test_json(test_shared_path("specs/vectors/statistics.json"));
    g = infq_json_get(infq_json_get(golden, "worked_examples"), name);
    ck_assert_msg(g != NULL, "no worked example %s", name);
    return g;
}

static double num(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    ck_assert_msg(cJSON_IsNumber(v), "golden value %s is missing", key);
    return v->valuedouble;
}

static void close_to(const cJSON *o, const char *key, double got)
{
    double want = num(o, key);

    ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want), "%s is %.17g, should be %.17g", key, got, want);
}

static infq_verdict verdict_of(const cJSON *o)
{
    const char *v = infq_json_get(o, "verdict")->valuestring;

    return strcmp(v, "PASS") == 0 ? INFQ_VERDICT_PASS : strcmp(v, "FAIL") == 0 ? INFQ_VERDICT_FAIL : INFQ_VERDICT_UNDECIDED;
}

static infq_gate_task binary_example(const cJSON *t2)
{
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t;

    memset(&t, 0, sizeof(t));
    o.margin = num(t2, "margin");
    infq_gate_binary((int64_t)num(t2, "b"), (int64_t)num(t2, "c"), (int64_t)num(t2, "n"), &o, &t);
    return t;
}

/* W1's item differences from its histogram. */
static infq_gate_task graded_example(const cJSON *t2)
{
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t;
    const cJSON *bin;
    static double d[2000];
    int64_t n = 0;
    infq_err err;

    memset(&t, 0, sizeof(t));
    cJSON_ArrayForEach(bin, infq_json_get(t2, "histogram_of_item_mean_difference"))
        for (int i = 0; i < bin->valueint; i++)
            d[n++] = atof(bin->string);
    ck_ok(infq_gate_graded(d, NULL, n, &o, &t, &err), err);
    return t;
}

START_TEST(binary_worked_examples_equal_golden)
{
    static const char *const names[] = {"W2", "W3", "W4", "W6_pooled_items"};

    TEST_NEEDS_SHARED();
    for (int i = 0; i < 4; i++) {
        const cJSON *e = example(names[i]), *t2 = infq_json_get(e, "T2") ? infq_json_get(e, "T2") : e, *ci;
        infq_gate_task t = binary_example(t2);
        close_to(t2, "D", t.gap);
        close_to(t2, "T_score", t.statistic);
        close_to(t2, "p_ni", t.p_pass);
        close_to(t2, "p_worse_than_margin", t.p_fail);
        close_to(t2, "psi", t.psi);
        close_to(t2, "mcnemar_p_two_sided", t.mcnemar.p_two_sided);
        close_to(t2, "mcnemar_p_degradation", t.mcnemar.p_degradation);
        ci = infq_json_get(t2, "score_ci90");
        ck_assert_double_eq_tol(t.ci.lo, cJSON_GetArrayItem(ci, 0)->valuedouble, 1e-12);
        ck_assert_double_eq_tol(t.ci.hi, cJSON_GetArrayItem(ci, 1)->valuedouble, 1e-12);
        ck_assert_int_eq(t.verdict, verdict_of(t2));
    }
}
END_TEST

START_TEST(undecided_example_says_how_many_items_decide)
{
    const cJSON *t2;
    infq_gate_task t;

    TEST_NEEDS_SHARED();
    t2 = infq_json_get(example("W3"), "T2");
    t = binary_example(t2);
    ck_assert_int_eq(t.more_items + t.n, (int64_t)num(t2, "n_required_power80_at_observed_D"));
    ck_assert_int_eq(t.more_items_no_gap + t.n, (int64_t)num(t2, "n_required_power80_at_D0"));
    ck_assert(t.expect_pass);
}
END_TEST

START_TEST(graded_worked_example_equals_golden)
{
    const cJSON *t2;
    infq_gate_task t;

    TEST_NEEDS_SHARED();
    t2 = infq_json_get(example("W1"), "T2");
    t = graded_example(t2);
    close_to(t2, "D", t.gap);
    close_to(t2, "sd_item", t.sd);
    close_to(t2, "T", t.statistic);
    close_to(t2, "p_ni", t.p_pass);
    ck_assert_int_eq(t.verdict, verdict_of(t2));
}
END_TEST

START_TEST(suite_worked_example_equals_golden)
{
    const cJSON *e;
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t[3];
    infq_gate_suite s;
    infq_err err;

    TEST_NEEDS_SHARED();
    e = example("W8_suite_T2");
    t[0] = graded_example(infq_json_get(example("W1"), "T2"));
    t[1] = binary_example(infq_json_get(example("W3"), "T2"));
    t[2] = binary_example(infq_json_get(example("W4"), "T2"));
    ck_ok(infq_gate_combine(t, 3, NULL, NULL, &o, &s, &err), err);
    close_to(e, "D", s.gap);
    close_to(e, "se_items", s.se);
    close_to(e, "T", s.statistic);
    close_to(e, "p_ni", s.p_pass);
    ck_assert_int_eq(s.verdict, verdict_of(e));
}
END_TEST

START_TEST(holm_of_worked_example_equals_golden)
{
    const cJSON *e, *p, *want;
    double in[4], adj[4];
    infq_err err;

    TEST_NEEDS_SHARED();
    e = example("W7_holm_on_fail_p");
    p = infq_json_get(e, "p_worse_than_floor");
    want = infq_json_get(e, "holm");
    for (int i = 0; i < 4; i++)
        in[i] = cJSON_GetArrayItem(p, i)->valuedouble;
    ck_ok(infq_holm(in, 4, adj, &err), err);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(adj[i] / cJSON_GetArrayItem(want, i)->valuedouble, 1, 1e-12);
}
END_TEST

START_TEST(a_task_that_fails_fails_the_suite)
{
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t[2];
    infq_gate_suite s;
    infq_err err;

    memset(t, 0, sizeof(t));
    infq_gate_binary(90, 10, 400, &o, &t[0]);
    infq_gate_binary(10, 400, 4000, &o, &t[1]);
    ck_assert_int_eq(t[0].verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(t[1].verdict, INFQ_VERDICT_PASS);
    ck_ok(infq_gate_combine(t, 2, NULL, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(s.worst, 0);
}
END_TEST

START_TEST(few_items_without_a_flip_decide_nothing)
{
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t[2];
    infq_gate_suite s;
    infq_err err;

    memset(t, 0, sizeof(t));
    infq_gate_binary(0, 0, 20, &o, &t[0]);
    infq_gate_binary(0, 0, 20, &o, &t[1]);
    ck_assert_int_eq(t[0].verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_gt(t[0].more_items, 0);
    ck_ok(infq_gate_combine(t, 2, NULL, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_UNDECIDED);
    /* the promised number is enough */
    infq_gate_binary(0, 0, t[0].n + t[0].more_items, &o, &t[1]);
    ck_assert_int_eq(t[1].verdict, INFQ_VERDICT_PASS);
    infq_gate_binary(0, 0, t[0].n + t[0].more_items - 1, &o, &t[1]);
    ck_assert_int_eq(t[1].verdict, INFQ_VERDICT_UNDECIDED);
}
END_TEST

START_TEST(swapping_losses_and_gains_mirrors_the_test)
{
    infq_gate_options plus = infq_gate_options_default(), minus = plus;
    infq_gate_task a, b;

    minus.margin = -plus.margin;
    infq_gate_binary(40, 25, 900, &plus, &a);
    infq_gate_binary(25, 40, 900, &minus, &b);
    ck_assert_double_eq_tol(a.statistic, -b.statistic, 1e-12);
    ck_assert_double_eq_tol(a.p_pass, b.p_fail, 1e-12);
    ck_assert_double_eq_tol(a.ci.lo, -b.ci.hi, 1e-12);
}
END_TEST

START_TEST(scaling_scores_and_margin_together_changes_nothing)
{
    double d[6] = {0.1, -0.3, 0.2, 0, -0.1, 0.05}, e[6];
    infq_gate_options o = infq_gate_options_default(), o10 = o;
    infq_gate_task a, b;
    infq_err err;

    for (int i = 0; i < 6; i++)
        e[i] = d[i] * 8;
    o10.margin = o.margin * 8;
    ck_ok(infq_gate_graded(d, NULL, 6, &o, &a, &err), err);
    ck_ok(infq_gate_graded(e, NULL, 6, &o10, &b, &err), err);
    ck_assert_double_eq_tol(a.p_pass, b.p_pass, 1e-12);
    ck_assert_int_eq(a.verdict, b.verdict);
}
END_TEST

START_TEST(not_a_number_never_passes)
{
    double d[3] = {0, NAN, 0};
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t;
    infq_err err;

    ck_ok(infq_gate_graded(d, NULL, 3, &o, &t, &err), err);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_UNDECIDED);
    ck_ok(infq_gate_graded(d, NULL, 1, &o, &t, &err), err);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_UNDECIDED);
}
END_TEST

/* n items; the first `losses` are right in a only, the next `gains` in b only. */
static void make_items(infq_items **a, infq_items **b, int64_t losses, int64_t gains, int64_t n)
{
    gate_sides("t", "bos=model", losses, gains, n, a, b);
}

/* T1 of an example from its runs, beside the T2 that t holds already. */
static void add_band(const cJSON *e, const infq_gate_options *o, infq_gate_task *t)
{
    const cJSON *v;
    double a[16], b[16], n = num(e, "n");
    int ra = 0, rb = 0;
    infq_band_input in;

    cJSON_ArrayForEach(v, infq_json_get(e, "correct_original"))
        a[ra++] = v->valuedouble / n;
    cJSON_ArrayForEach(v, infq_json_get(e, "correct_compressed"))
        b[rb++] = v->valuedouble / n;
    in = cJSON_IsTrue(infq_json_get(e, "paired_runs")) ? infq_band_paired(a, b, ra, 1) : infq_band_unpaired(a, ra, b, rb, 1);
    infq_band_decide(&in, &o->band, o->band.alpha, &t->band);
    t->band_asked = true;
    infq_gate_conclude(t, o);
}

START_TEST(verdicts_of_worked_examples_equal_golden)
{
    static const char *const names[] = {"W1", "W2", "W3", "W4"};
    infq_gate_options o = infq_gate_options_default(), strict = o, detect = o;
    infq_gate_task t[4], suite[3];
    infq_gate_suite s;
    infq_err err;
    const cJSON *w5;

    TEST_NEEDS_SHARED();
    strict.strict = true;
    detect.strict_detect = true;
    for (int i = 0; i < 4; i++) {
        const cJSON *e = example(names[i]), *t2 = infq_json_get(e, "T2");
        const char *want = infq_json_get(e, "task_verdict")->valuestring;
        t[i] = i == 0 ? graded_example(t2) : binary_example(t2);
        add_band(e, &o, &t[i]);
        ck_assert_msg(t[i].verdict == (strcmp(want, "PASS") == 0   ? INFQ_VERDICT_PASS
                                       : strcmp(want, "FAIL") == 0 ? INFQ_VERDICT_FAIL : INFQ_VERDICT_UNDECIDED),
                      "%s is %s, should be %s", names[i], infq_verdict_name(t[i].verdict), want);
    }
    /* W5: the macro average of W1, W3, W4 passes T1 by a hair although W3 alone is undecided */
    suite[0] = t[0];
    suite[1] = t[2];
    suite[2] = t[3];
    w5 = example("W5_suite");
    ck_ok(infq_gate_combine(suite, 3, NULL, NULL, &o, &s, &err), err);
    close_to(w5, "D", s.band.in.gap);
    close_to(w5, "se", s.band.in.se);
    close_to(w5, "df", s.band.in.df);
    close_to(w5, "nu", s.band.in.nu);
    close_to(w5, "noise_limit_point", s.band.limit);
    close_to(w5, "crit_upper", s.band.upper);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_PASS);
    ck_ok(infq_gate_combine(suite, 3, NULL, NULL, &strict, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_eq(s.reason, INFQ_GATE_TASK);
    ck_assert_int_eq(s.worst, 1);
    ck_ok(infq_gate_combine(suite, 3, NULL, NULL, &detect, &s, &err), err);
    ck_assert(s.shift);
    ck_assert_int_eq(s.reason, INFQ_GATE_SHIFT);
    /* W2 fails, and the suite with it, after correction for four tasks */
    ck_ok(infq_gate_combine(t, 4, NULL, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(s.worst, 1);
}
END_TEST

/* One task of 4000 items with so many losses and gains, decided under o. */
static infq_gate_task decided(const char *settings, int64_t losses, int64_t gains, const infq_noise *noise_a, const infq_noise *noise_b,
                              const infq_gate_options *o)
{
    infq_items *a, *b;
    infq_gate_task t;
    infq_pair *p;
    infq_err err;

    gate_sides("t", settings, losses, gains, 4000, &a, &b);
    p = gate_pair_of(a, b);
    ck_ok(infq_gate_pair(p, noise_a, noise_b, false, 1, o, &t, &err), err);
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
    return t;
}

#define OURS "infq=1 bos=model"

START_TEST(noise_that_was_not_measured_is_used_as_the_policy_says)
{
    static const struct {
        infq_noise_use use;
        infq_verdict small, between, beyond; /* gaps of 0.2, 0.5 and 1.1 points: below the floor, between, beyond the cap */
    } cases[] = {{INFQ_NOISE_OPTIONAL, INFQ_VERDICT_PASS, INFQ_VERDICT_UNDECIDED, INFQ_VERDICT_UNDECIDED},
                 {INFQ_NOISE_REQUIRED, INFQ_VERDICT_UNDECIDED, INFQ_VERDICT_UNDECIDED, INFQ_VERDICT_UNDECIDED},
                 {INFQ_NOISE_FLOOR, INFQ_VERDICT_PASS, INFQ_VERDICT_UNDECIDED, INFQ_VERDICT_FAIL},
                 {INFQ_NOISE_OFF, INFQ_VERDICT_PASS, INFQ_VERDICT_PASS, INFQ_VERDICT_UNDECIDED}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        infq_gate_options o = infq_gate_options_default();
        o.noise = cases[i].use;
        ck_assert_int_eq(decided(OURS, 12, 4, NULL, NULL, &o).verdict, cases[i].small);
        ck_assert_int_eq(decided(OURS, 24, 4, NULL, NULL, &o).verdict, cases[i].between);
        ck_assert_int_eq(decided(OURS, 52, 8, NULL, NULL, &o).verdict, cases[i].beyond);
    }
}
END_TEST

START_TEST(one_run_of_an_unknown_engine_never_passes)
{
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t = decided("filter=none", 0, 0, NULL, NULL, &o);

    ck_assert_int_eq(t.t2, INFQ_VERDICT_PASS);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_eq(t.band.reason, INFQ_BAND_NO_RUNS);
    o.reproducible = true;
    ck_assert_int_eq(decided("filter=none", 0, 0, NULL, NULL, &o).verdict, INFQ_VERDICT_PASS);
}
END_TEST

/* A record of runs whose right answers are counted, out of n. */
static infq_noise *record(const char *settings, const int64_t *right, int runs, int64_t n, int64_t n_full)
{
    infq_items *items[16];
    infq_noise *r;
    infq_err err;

    ck_ok(infq_noise_new(runs, &r, &err), err);
    for (int j = 0; j < runs; j++) {
        items[j] = gate_run("t", settings, right[j], n);
        snprintf(r->labels[j], sizeof(r->labels[j]), "seed=%d", j);
    }
    ck_ok(infq_noise_add_task(r, (const infq_items *const *)items, NULL, n_full, &err), err);
    r->reproducible = true;
    for (int j = 0; j < runs; j++)
        infq_items_free(items[j]);
    return r;
}

START_TEST(measured_noise_widens_the_band_and_fewer_items_do_not)
{
    static const int64_t a[6] = {2000, 2016, 1984, 2010, 1992, 1998}, b[6] = {1990, 2006, 1974, 2000, 1982, 1990};
    infq_gate_options o = infq_gate_options_default();
    infq_noise *ra = record(OURS, a, 6, 4000, 0), *rb = record(OURS, b, 6, 4000, 0), *part = record(OURS, a, 6, 4000, 40000);
    infq_gate_task t = decided(OURS, 24, 4, ra, NULL, &o); /* gap -0.5 points: between floor and cap */

    ck_assert_double_gt(ra->tasks[0].sd, 0.002);
    ck_assert_int_eq(t.band.reason, INFQ_BAND_WITHIN);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_PASS);
    ck_assert_double_eq_tol(t.psi0, ra->tasks[0].flip_rate, 1e-15);
    t = decided(OURS, 24, 4, part, NULL, &o); /* the same noise of a tenth of the task */
    ck_assert_double_eq_tol(t.band.limit, o.band.kappa * M_SQRT2 * ra->tasks[0].sd / sqrt(10), 1e-15);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_gt(t.runs_needed, 6);
    t = decided(OURS, 0, 0, ra, rb, &o); /* the gap is that of the runs, paired by their labels */
    ck_assert(t.band.in.paired);
    ck_assert_double_eq_tol(t.band.in.gap, -(10 + 10 + 10 + 10 + 10 + 8) / 6.0 / 4000, 1e-12);
    ck_assert_int_eq(t.band.verdict, INFQ_VERDICT_PASS);
    infq_noise_free(ra);
    infq_noise_free(rb);
    infq_noise_free(part);
}
END_TEST

// Items of one run of infeval noise are one draw of many: their gap is no exact one, although the engine repeats itself bit by bit.
START_TEST(one_drawn_run_is_not_taken_for_an_exact_score)
{
    static const int64_t right[6] = {2000, 2004, 1996, 2001, 1999, 2000};
    infq_gate_options o = infq_gate_options_default();
    infq_noise *r = record(OURS, right, 6, 4000, 0);

    snprintf(r->settings, sizeof(r->settings), "%s", OURS);
    o.noise = INFQ_NOISE_FLOOR;
    ck_assert_int_eq(decided(OURS, 52, 8, r, NULL, &o).band.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(decided(OURS INFQ_SETTINGS_RUN "kv=BF16 seed=3", 52, 8, r, NULL, &o).band.verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_eq(decided(OURS INFQ_SETTINGS_RUN "kv=BF16 seed=3", 0, 0, r, NULL, &o).band.reason, INFQ_BAND_NO_RUNS);
    infq_noise_free(r);
}
END_TEST

START_TEST(a_noise_record_of_something_else_is_refused)
{
    static const int64_t right[3] = {5, 6, 5};
    static const char *const says[] = {"settings differs", "tokenizer differs", "model_digest differs", "task_digest differs", "metric differs"};
    infq_gate_options o = infq_gate_options_default();
    infq_items *a, *b;
    infq_pair *p;

    gate_sides("t", OURS, 1, 1, 10, &a, &b);
    p = gate_pair_of(a, b);
    strcpy(p->digest_a, "m");
    for (int i = 0; i < 5; i++) {
        infq_noise *r = record(OURS, right, 3, 10, 0);
        infq_gate_task t;
        infq_err err;
        snprintf(r->settings, sizeof(r->settings), "%s", i == 0 ? "infq=2" : OURS);
        snprintf(r->tokenizer, sizeof(r->tokenizer), "%s", i == 1 ? "other" : "k");
        snprintf(r->model_digest, sizeof(r->model_digest), "%s", i == 2 ? "n" : "m");
        snprintf(r->tasks[0].task_digest, sizeof(r->tasks[0].task_digest), "%s", i == 3 ? "e" : "d");
        snprintf(r->tasks[0].metric, sizeof(r->tasks[0].metric), "%s", i == 4 ? "acc_norm" : "acc");
        ck_assert_int_eq(infq_gate_pair(p, r, NULL, false, 1, &o, &t, &err), INFQ_E_MISMATCH);
        ck_assert_msg(strstr(err.msg, says[i]) != NULL, "%s", err.msg);
        infq_noise_free(r);
    }
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(guards_take_a_pass_back_and_never_give_one)
{
    infq_gate_options o = infq_gate_options_default();
    infq_distance far = {.kld = 0.5, .kld_se = 0.01, .kld_p99 = 4, .same_top = 0.7, .same_top_se = 0.01, .ln_ratio = 0.4, .ln_ratio_se = 0.01,
                         .n_windows = 30, .self_kld = NAN},
                  near = {.kld = 0.001, .kld_se = 1e-5, .kld_p99 = 0.01, .same_top = 0.99, .same_top_se = 0.001, .ln_ratio = 1e-4,
                          .ln_ratio_se = 1e-4, .n_windows = 30, .self_kld = NAN};
    infq_gate_suite s;
    infq_gate_task t;
    infq_err err;

    o.guards.kld = 0.03;
    t = decided(OURS, 0, 0, NULL, NULL, &o);
    ck_ok(infq_gate_combine(&t, 1, &far, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(s.reason, INFQ_GATE_GUARD);
    ck_ok(infq_gate_combine(&t, 1, &near, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_PASS);
    ck_ok(infq_gate_combine(&t, 1, NULL, NULL, &o, &s, &err), err); /* asked, not measured, not required */
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_PASS);
    o.require = 1u << INFQ_GUARD_KLD;
    ck_ok(infq_gate_combine(&t, 1, NULL, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_str_eq(s.missing, "kld");
    t = decided(OURS, 24, 4, NULL, NULL, &o); /* undecided by T1: a near distribution changes nothing */
    ck_ok(infq_gate_combine(&t, 1, &near, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_eq(s.reason, INFQ_GATE_T1);
}
END_TEST

START_TEST(a_failure_among_many_tasks_must_survive_correction)
{
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task t[12];
    infq_gate_suite s;
    infq_err err;

    memset(t, 0, sizeof(t));
    for (int i = 0; i < 12; i++)
        infq_gate_binary(10, 12, 2000, &o, &t[i]);
    infq_gate_binary(72, 30, 2000, &o, &t[5]); /* p of failing 0.04: nothing among twelve */
    ck_assert_int_eq(t[5].verdict, INFQ_VERDICT_FAIL);
    ck_ok(infq_gate_combine(t, 12, NULL, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.worst, 5);
    ck_assert_double_gt(s.worst_p, 0.05);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_UNDECIDED); /* no pass while a task fails, no fail before correction */
    infq_gate_binary(140, 30, 2000, &o, &t[5]);
    ck_ok(infq_gate_combine(t, 12, NULL, NULL, &o, &s, &err), err);
    ck_assert_int_eq(s.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(s.reason, INFQ_GATE_TASK);
}
END_TEST

START_TEST(clustered_items_need_more_of_them)
{
    infq_gate_options o = infq_gate_options_default();
    double d[400];
    int64_t cluster[400];
    infq_gate_task alone, together;
    infq_err err;

    for (int i = 0; i < 400; i++) {
        cluster[i] = i / 10;
        d[i] = i / 10 % 8 == 0 ? (i / 80 % 2 ? 1 : -1) : 0; /* whole clusters change */
    }
    ck_ok(infq_gate_graded(d, NULL, 400, &o, &alone, &err), err);
    ck_ok(infq_gate_graded(d, cluster, 400, &o, &together, &err), err);
    ck_assert_int_eq(together.n_clusters, 40);
    ck_assert_double_gt(together.se, 3 * alone.se);
    ck_assert_int_gt(together.more_items_no_gap, 9 * alone.more_items_no_gap);
}
END_TEST

START_TEST(paired_items_use_the_exact_paired_test)
{
    infq_gate_options o = infq_gate_options_default();
    infq_items *a, *b;
    infq_gate_task t;
    infq_err err;

    make_items(&a, &b, 20, 6, 220); /* case B50 */
    ck_ok(infq_gate_items(a, b, NULL, &o, &t, &err), err);
    ck_assert_int_eq(t.b, 20);
    ck_assert_int_eq(t.c, 6);
    ck_assert_double_eq_tol(t.mcnemar.p_two_sided, 0.009355306625366211, 1e-15);
    ck_assert_double_eq_tol(t.gap, -14.0 / 220, 1e-15);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_FAIL);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(items_that_do_not_belong_together_are_refused)
{
    infq_gate_options o = infq_gate_options_default();
    infq_items *a, *b;
    infq_gate_task t;
    infq_err err;
    infq_item *extra;

    make_items(&a, &b, 1, 1, 10);
    infq_items_get(b, 4)->request[3] = 'f';
    ck_assert_int_eq(infq_gate_items(a, b, NULL, &o, &t, &err), INFQ_E_MISMATCH);
    ck_assert_msg(strstr(err.msg, "document 4") != NULL, "%s", err.msg);
    infq_items_get(b, 4)->request[3] = '0';
    infq_items_get(b, 7)->doc = 8;
    ck_assert_int_eq(infq_gate_items(a, b, NULL, &o, &t, &err), INFQ_E_MISMATCH);
    ck_assert_msg(strstr(err.msg, "document 8 is there twice") != NULL, "%s", err.msg);
    infq_items_get(b, 7)->doc = 11;
    ck_assert_int_eq(infq_gate_items(a, b, NULL, &o, &t, &err), INFQ_E_MISMATCH);
    ck_assert_msg(strstr(err.msg, "document 7 is on one side only") != NULL, "%s", err.msg);
    infq_items_get(b, 7)->doc = 7;
    ck_ok(infq_gate_items(a, b, NULL, &o, &t, &err), err);
    ck_ok(infq_items_add(b, 2, &extra, &err), err);
    ck_assert_int_eq(infq_gate_items(a, b, NULL, &o, &t, &err), INFQ_E_MISMATCH);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(keys_that_differ_are_named)
{
    infq_item_key k1 = {.task = "t", .tokenizer = "x", .settings = "bos=model"}, k2 = k1;
    infq_gate_options o = infq_gate_options_default();
    infq_items *a, *b;
    infq_gate_task t;
    infq_err err;

    strcpy(k2.settings, "bos=never");
    strcpy(k2.model, "other"); /* models are meant to differ */
    ck_ok(infq_items_new(&k1, &a, &err), err);
    ck_ok(infq_items_new(&k2, &b, &err), err);
    ck_assert_int_eq(infq_gate_items(a, b, NULL, &o, &t, &err), INFQ_E_MISMATCH);
    ck_assert_msg(strstr(err.msg, "settings") && strstr(err.msg, "bos=never"), "%s", err.msg);
    ck_assert_ptr_null(strstr(err.msg, "other"));
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(verdicts_have_the_exit_codes_of_the_tools)
{
    ck_assert_int_eq(infq_verdict_exit(INFQ_VERDICT_PASS), 0);
    ck_assert_int_eq(infq_verdict_exit(INFQ_VERDICT_FAIL), 1);
    ck_assert_int_eq(infq_verdict_exit(INFQ_VERDICT_UNDECIDED), 6);
    ck_assert_int_eq(infq_status_exit(INFQ_E_MISMATCH), 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gate");
    TCase *g = tcase_create("golden"), *p = tcase_create("properties"), *i = tcase_create("items");

    tcase_add_test(g, binary_worked_examples_equal_golden);
    tcase_add_test(g, undecided_example_says_how_many_items_decide);
    tcase_add_test(g, graded_worked_example_equals_golden);
    tcase_add_test(g, suite_worked_example_equals_golden);
    tcase_add_test(g, holm_of_worked_example_equals_golden);
    tcase_add_test(g, verdicts_of_worked_examples_equal_golden);
    tcase_add_test(p, noise_that_was_not_measured_is_used_as_the_policy_says);
    tcase_add_test(p, one_run_of_an_unknown_engine_never_passes);
    tcase_add_test(p, measured_noise_widens_the_band_and_fewer_items_do_not);
    tcase_add_test(p, one_drawn_run_is_not_taken_for_an_exact_score);
    tcase_add_test(p, a_noise_record_of_something_else_is_refused);
    tcase_add_test(p, guards_take_a_pass_back_and_never_give_one);
    tcase_add_test(p, a_failure_among_many_tasks_must_survive_correction);
    tcase_add_test(p, clustered_items_need_more_of_them);
    tcase_add_test(p, a_task_that_fails_fails_the_suite);
    tcase_add_test(p, few_items_without_a_flip_decide_nothing);
    tcase_add_test(p, swapping_losses_and_gains_mirrors_the_test);
    tcase_add_test(p, scaling_scores_and_margin_together_changes_nothing);
    tcase_add_test(p, not_a_number_never_passes);
    tcase_add_test(p, verdicts_have_the_exit_codes_of_the_tools);
    tcase_add_test(i, paired_items_use_the_exact_paired_test);
    tcase_add_test(i, items_that_do_not_belong_together_are_refused);
    tcase_add_test(i, keys_that_differ_are_named);
    suite_add_tcase(s, g);
    suite_add_tcase(s, p);
    suite_add_tcase(s, i);
    return test_main(s);
}
