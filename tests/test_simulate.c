/* Operating characteristics against specs/vectors/statistics.json (operating_characteristics, sequential_operating_characteristics, recovery_rule_example)
 * with fewer draws: the golden tolerance plus four standard errors of the draws made here; exact sums; the gate's self-check. */
#include "tests/gate_pairs.h"

#include "lib/base/par.h"
#include "lib/eval/exact.h"
#include "lib/eval/self_check.h"
#include "lib/eval/simulate.h"

#define DRAWS 10000

static cJSON *golden;
static infq_policy policy; /* too large for a stack */

static const cJSON *group(const char *name)
{
    const cJSON *g;

    if (!golden)
        golden = test_json(test_shared_path("specs/vectors/statistics.json"));
    g = infq_json_get(golden, name);
    ck_assert_msg(g != NULL, "no golden values for %s", name);
    return g;
}

static double num(const cJSON *o, const char *key)
{
    return infq_json_get(o, key)->valuedouble;
}

static void near_rate(double got, double want, double tolerance, int64_t draws, const char *what)
{
    double bound = tolerance + 4 * sqrt(fmax(want * (1 - want), 1e-4) / (double)draws);

    ck_assert_msg(fabs(got - want) <= bound, "%s: %.4f, should be %.4f within %.4f", what, got, want, bound);
}

static void design_equals(const cJSON *want, const cJSON *gap_list, const infq_band_design *d, const char *what)
{
    double gaps[8] = {0};
    infq_rates r[8];
    int n = 0;
    const cJSON *g;
    infq_err err;

    cJSON_ArrayForEach(g, gap_list)
        gaps[n++] = -g->valuedouble;
    ck_ok(infq_simulate_band(d, gaps, n, DRAWS, 1, r, &err), err);
    for (int i = 0; i < n; i++) {
        const cJSON *pair = cJSON_GetArrayItem(want, i);
        near_rate(r[i].pass, cJSON_GetArrayItem(pair, 0)->valuedouble, 0.01, DRAWS, what);
        near_rate(r[i].fail, cJSON_GetArrayItem(pair, 1)->valuedouble, 0.01, DRAWS, what);
    }
}

START_TEST(criterion_by_numbers_of_runs_equals_golden)
{
    static const char *const kappas[2] = {"kappa_1.959964", "kappa_1"};
    const cJSON *oc, *row;

    TEST_NEEDS_SHARED();
    oc = group("operating_characteristics");
    for (int k = 0; k < 2; k++) {
        cJSON_ArrayForEach(row, infq_json_get(oc, kappas[k])) {
            infq_band_design d = {.runs_a = atoi(row->string), .runs_b = atoi(row->string), .sd_b = 1, .pooled_df = true, .band = infq_band_options_default()};
            if (k == 1)
                d.band.kappa = 1;
            design_equals(row, infq_json_get(oc, "gap"), &d, row->string);
        }
    }
}
END_TEST

START_TEST(criterion_by_designs_equals_golden)
{
    static const struct {
        const char *key;
        infq_band_design d;
    } designs[] = {{"paired_R5_rho0.5", {.runs_a = 5, .runs_b = 5, .paired = true, .rho = 0.5, .sd_b = 1}},
                   {"paired_R10_rho0.5", {.runs_a = 10, .runs_b = 10, .paired = true, .rho = 0.5, .sd_b = 1}},
                   {"paired_R10_rho0.9", {.runs_a = 10, .runs_b = 10, .paired = true, .rho = 0.9, .sd_b = 1}},
                   {"unpaired_RA10_RB5", {.runs_a = 10, .runs_b = 5, .sd_b = 1}},
                   {"unpaired_RA20_RB5", {.runs_a = 20, .runs_b = 5, .sd_b = 1}},
                   {"unpaired_RA10_RB3", {.runs_a = 10, .runs_b = 3, .sd_b = 1}},
                   {"unpaired_RA10_RB10_sdB2", {.runs_a = 10, .runs_b = 10, .sd_b = 2}}};
    const cJSON *oc;

    TEST_NEEDS_SHARED();
    oc = infq_json_get(group("operating_characteristics"), "designs_kappa_1.959964");
    for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
        infq_band_design d = designs[i].d;
        d.band = infq_band_options_default();
        ck_assert_msg(infq_json_get(oc, designs[i].key) != NULL, "no golden design %s", designs[i].key);
        design_equals(infq_json_get(oc, designs[i].key), infq_json_get(oc, "gap"), &d, designs[i].key);
    }
}
END_TEST

START_TEST(early_stopping_equals_golden)
{
    const int64_t draws = 200;
    const cJSON *row;

    TEST_NEEDS_SHARED();
    infq_err err;
    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    cJSON_ArrayForEach(row, infq_json_get(group("sequential_operating_characteristics"), "rows")) {
        const cJSON *v = infq_json_get(row, "v");
        double median = cJSON_GetArrayItem(v, 2)->valuedouble;
        infq_stop_rates s;
        char what[64];
        if (num(row, "D") == -0.01 && num(row, "psi") > 0.02)
            continue; // whole lengths of 14,042 items: the 2 % row and `infeval simulate` show the boundary
        snprintf(what, sizeof(what), "psi %g, gap %g", num(row, "psi"), num(row, "D"));
        ck_ok(infq_simulate_stop(&policy, num(row, "psi"), num(row, "D"), 14042, draws, 3, &s, &err), err);
        near_rate(s.rates.pass, cJSON_GetArrayItem(v, 0)->valuedouble, 0.03, draws, what);
        near_rate(s.rates.fail, cJSON_GetArrayItem(v, 1)->valuedouble, 0.03, draws, what);
        if (median < 14042)
            ck_assert_msg(fabs(s.median / median - 1) < 0.1 + 4 * 1.25 * 0.6 / sqrt(draws), "%s: median %.0f, should be %.0f", what, s.median,
                          median);
    }
}
END_TEST

START_TEST(rules_of_others_equal_golden_and_their_nature)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("recovery_rule_example"))
        ck_assert_double_eq_tol(infq_rule_ratio(num(o, "base"), (int64_t)num(o, "n"), num(o, "psi"), num(o, "threshold_rounded"), -num(o, "true_gap")),
                                num(o, "p_accept"), 1e-10);
    /* "not significant" passes more easily with less data */
    ck_assert_double_gt(infq_rule_unpaired(0.75, 300, 0.08, 0.05, -0.03), infq_rule_unpaired(0.75, 3000, 0.08, 0.05, -0.03));
    ck_assert_double_gt(infq_rule_mcnemar(300, 0.08, 0.05, -0.03), 0.5);
    ck_assert_double_lt(infq_rule_mcnemar(3000, 0.08, 0.05, -0.03), 0.01);
}
END_TEST

START_TEST(draws_do_not_depend_on_threads)
{
    const double gap = -1;
    infq_band_design d = {.runs_a = 5, .runs_b = 5, .sd_b = 1, .band = infq_band_options_default()};
    infq_rates one, two, other;
    infq_err err;

    infq_par_threads_set(1);
    ck_ok(infq_simulate_band(&d, &gap, 1, 3000, 5, &one, &err), err);
    infq_par_threads_set(2);
    ck_ok(infq_simulate_band(&d, &gap, 1, 3000, 5, &two, &err), err);
    ck_ok(infq_simulate_band(&d, &gap, 1, 3000, 6, &other, &err), err);
    ck_assert_double_eq(one.pass, two.pass);
    ck_assert_double_eq(one.fail, two.fail);
    ck_assert(one.pass != other.pass || one.fail != other.fail);
    d.runs_b = 1;
    ck_assert_int_eq(infq_simulate_band(&d, &gap, 1, 100, 5, &one, &err), INFQ_E_USAGE);
}
END_TEST

/* Whatever the size and the flip rate, a gap at the margin gives a wrong answer in at most 5.2 % of cases. */
START_TEST(wrong_answers_at_the_margin_stay_below_what_is_stated)
{
    static const int64_t sizes[] = {60, 130, 200, 270, 400, 800};
    static const double psi[] = {0.0100001, 0.02, 0.04, 0.1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizeof(psi) / sizeof(psi[0]); k++) {
            infq_rates r = infq_exact_tango(sizes[i], psi[k], -0.01, 0.01, 0.05);
            ck_assert_msg(r.pass <= 0.052 && r.fail <= 0.052, "%lld items, psi %g: passes %.4f, fails %.4f", (long long)sizes[i], psi[k], r.pass,
                          r.fail);
        }
    }
}
END_TEST

START_TEST(exact_test_has_its_closed_forms)
{
    /* no change in n items: the model that only loses, with probability 0.01 each, shows that in 0.99^n of cases */
    ck_assert_double_eq_tol(infq_tango_exact_p(0, 0, 300, 0.01, true), pow(0.99, 300) + 0.001, 1e-6);
    ck_assert_double_gt(infq_tango_exact_p(0, 0, 290, 0.01, true), 0.05);
    ck_assert_double_lt(infq_tango_exact_p(0, 0, 310, 0.01, true), 0.05);
    /* all of ten items lost: most likely, at that gap, when every item changes: (1 + 0.01) / 2 each */
    ck_assert_double_eq_tol(infq_tango_exact_p(10, 0, 10, 0.01, false), 0.001 + pow(0.505, 10), 1e-6);
    ck_assert(isnan(infq_tango_exact_p(7, 7, 10, 0.01, true)));
}
END_TEST

START_TEST(items_for_a_power_reach_it)
{
    int64_t n = infq_items_for_power(0.05, 0, 0.01, 0.05, 0.9, 100000);

    ck_assert_int_gt(n, 4282 * 98 / 100); /* the formula's number, within its own error */
    ck_assert_int_lt(n, 4282 * 103 / 100);
    ck_assert_double_ge(infq_exact_tango(n, 0.05, 0, 0.01, 0.05).pass, 0.9);
    ck_assert_int_eq(infq_items_for_power(0.05, 0, 0.01, 0.05, 0.9, 1000), 0);
}
END_TEST

static infq_self_check checked(int64_t losses, int64_t gains, int64_t n)
{
    infq_decision_input in = {.n = 1, .policy = &policy};
    infq_items *a, *b;
    infq_self_check c;
    infq_decision d;
    infq_pair *p;
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    gate_sides("t", "infq=1", losses, gains, n, &a, &b);
    p = gate_pair_of(a, b);
    in.pairs = &p;
    ck_ok(infq_decide(&in, &d, &err), err);
    ck_ok(infq_self_check_run(&p, 1, &d, &policy, &c, &err), err);
    infq_decision_free(&d);
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
    return c;
}

START_TEST(self_check_finds_enough_items_good_and_few_items_weak)
{
    infq_self_check enough = checked(60, 50, 6000), few = checked(6, 5, 300);

    ck_assert_int_eq(enough.verdict, INFQ_VERDICT_PASS);
    ck_assert_int_eq(few.verdict, INFQ_VERDICT_UNDECIDED);
    for (int i = 0; i < few.n; i++)
        ck_assert_int_ne(few.rows[i].state, INFQ_CHECK_BROKEN);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("simulate");
    TCase *g = tcase_create("golden"), *p = tcase_create("properties");

    tcase_set_timeout(g, 120);
    tcase_set_timeout(p, 120);
    tcase_add_test(g, criterion_by_numbers_of_runs_equals_golden);
    tcase_add_test(g, criterion_by_designs_equals_golden);
    tcase_add_test(g, early_stopping_equals_golden);
    tcase_add_test(g, rules_of_others_equal_golden_and_their_nature);
    tcase_add_test(p, draws_do_not_depend_on_threads);
    tcase_add_test(p, wrong_answers_at_the_margin_stay_below_what_is_stated);
    tcase_add_test(p, exact_test_has_its_closed_forms);
    tcase_add_test(p, items_for_a_power_reach_it);
    tcase_add_test(p, self_check_finds_enough_items_good_and_few_items_weak);
    suite_add_tcase(s, g);
    suite_add_tcase(s, p);
    return test_main(s);
}
