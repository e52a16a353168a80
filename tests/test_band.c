/* Test T1 against specs/vectors/statistics.json: reference_scaled, worked_examples W1 to W5, and its properties (specs 2.12). */
#include "tests/testlib.h"

#include "lib/eval/band.h"

static cJSON *golden;

static const cJSON *group(const char *name)
{
    if (!golden)
        golden = test_json(test_shared_path("specs/vectors/statistics.json"));
    return infq_json_get(golden, name);
}

static const cJSON *example(const char *name)
{
    const cJSON *g = infq_json_get(group("worked_examples"), name);

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

/* Scores of the runs of one side. */
static int runs_of(const cJSON *e, const char *key, double *out)
{
    const cJSON *v;
    int r = 0;

    cJSON_ArrayForEach(v, infq_json_get(e, key))
        out[r++] = v->valuedouble / num(e, "n");
    return r;
}

static infq_band_input input_of(const cJSON *e)
{
    double a[16], b[16];
    int ra = runs_of(e, "correct_original", a), rb = runs_of(e, "correct_compressed", b);

    return cJSON_IsTrue(infq_json_get(e, "paired_runs")) ? infq_band_paired(a, b, ra, 1) : infq_band_unpaired(a, ra, b, rb, 1);
}

static infq_verdict verdict_named(const char *v)
{
    return strcmp(v, "PASS") == 0 ? INFQ_VERDICT_PASS : strcmp(v, "FAIL") == 0 ? INFQ_VERDICT_FAIL : INFQ_VERDICT_UNDECIDED;
}

START_TEST(criterion_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("reference_scaled")) {
        infq_band_options opt = infq_band_options_default();
        infq_band_input in = {.gap = num(o, "D"), .se = num(o, "se"), .df = num(o, "df"), .s = sqrt(num(o, "s2_ref")), .nu = num(o, "nu")};
        infq_band b;
        opt.kappa = num(o, "kappa");
        infq_band_decide(&in, &opt, opt.alpha, &b);
        close_to(o, "t", b.t);
        close_to(o, "upper", b.upper);
        close_to(o, "lower", b.lower);
        ck_assert_int_eq(b.upper <= 0, cJSON_IsTrue(infq_json_get(o, "pass")));
        ck_assert_int_eq(b.lower > 0, cJSON_IsTrue(infq_json_get(o, "fail")));
    }
}
END_TEST

static void equals_example(const cJSON *e, const infq_band *b)
{
    const cJSON *ci = infq_json_get(e, "ci90");

    close_to(e, "D", b->in.gap);
    close_to(e, "df", b->in.df);
    close_to(e, "nu", b->in.nu);
    ck_assert_double_eq_tol(b->in.s * b->in.s / num(e, "s2_ref"), 1, 1e-9);
    close_to(e, "noise_limit_point", b->limit);
    close_to(e, "crit_upper", b->upper);
    close_to(e, "crit_lower", b->lower);
    close_to(e, "p_tost_floor", b->p_floor);
    close_to(e, "p_tost_cap", b->p_cap);
    ck_assert_double_eq_tol(b->ci.lo, cJSON_GetArrayItem(ci, 0)->valuedouble, 1e-12);
    ck_assert_double_eq_tol(b->ci.hi, cJSON_GetArrayItem(ci, 1)->valuedouble, 1e-12);
}

START_TEST(worked_examples_equal_golden)
{
    static const char *const names[] = {"W1", "W2", "W3", "W4"};
    static const infq_band_reason reasons[] = {INFQ_BAND_WITHIN, INFQ_BAND_BEYOND_CAP, INFQ_BAND_UNCLEAR, INFQ_BAND_BELOW_FLOOR};

    TEST_NEEDS_SHARED();
    for (int i = 0; i < 4; i++) {
        infq_band_options o = infq_band_options_default();
        const cJSON *e = example(names[i]);
        infq_band_input in = input_of(e);
        infq_band b;
        infq_band_decide(&in, &o, o.alpha, &b);
        close_to(e, "se_fixed_items", b.in.se);
        close_to(e, "t95", b.t);
        close_to(e, "p_worse_than_floor", b.p_beyond_floor);
        close_to(e, "p_worse_than_cap", b.p_beyond_cap);
        ck_assert_double_eq_tol(b.in.gap / b.in.se, num(e, "t_detect"), 1e-6);
        ck_assert_double_eq_tol(b.p_shift / 2, num(e, "p_detect_one_sided"), 1e-9);
        equals_example(e, &b);
        ck_assert_int_eq(b.verdict, verdict_named(infq_json_get(e, "T1")->valuestring));
        ck_assert_int_eq(b.reason, reasons[i]);
    }
}
END_TEST

START_TEST(suite_of_worked_examples_equals_golden)
{
    const double w[3] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
    infq_band_options o = infq_band_options_default();
    infq_band_input t[3], in;
    const cJSON *e;
    infq_band b;

    TEST_NEEDS_SHARED();
    e = example("W5_suite");
    t[0] = input_of(example("W1"));
    t[1] = input_of(example("W3"));
    t[2] = input_of(example("W4"));
    in = infq_band_sum(t, w, 3);
    infq_band_decide(&in, &o, o.alpha, &b);
    close_to(e, "se", b.in.se);
    equals_example(e, &b);
    ck_assert_int_eq(b.verdict, INFQ_VERDICT_PASS);
}
END_TEST

START_TEST(undecided_example_says_how_many_runs_decide)
{
    const double w = 1;
    infq_band_options o = infq_band_options_default();
    infq_verdict expected = INFQ_VERDICT_UNDECIDED;
    const cJSON *want;
    infq_band_input in;

    TEST_NEEDS_SHARED();
    in = input_of(example("W3"));
    want = infq_json_get(example("W3"), "T1_runs_to_decision_at_current_estimates");
    ck_assert_int_eq(infq_band_runs_needed(&in, &w, 1, &o, &expected), (int)num(want, "runs"));
    ck_assert_int_eq(expected, verdict_named(infq_json_get(want, "expected")->valuestring));
}
END_TEST

static infq_band decided(const infq_band_input *in, const infq_band_options *o)
{
    infq_band b;

    infq_band_decide(in, o, o->alpha, &b);
    return b;
}

START_TEST(no_noise_hides_a_gap_beyond_the_cap)
{
    infq_band_options o = infq_band_options_default();

    for (double s = 1e-4; s < 1; s *= 3) {
        infq_band_input in = {.gap = -0.0101, .se = s / 3, .df = 8, .s = s, .nu = 9};
        ck_assert_int_ne(decided(&in, &o).verdict, INFQ_VERDICT_PASS);
        in.gap = 0.0101;
        ck_assert_int_ne(decided(&in, &o).verdict, INFQ_VERDICT_PASS);
        in = infq_band_exact(-0.0101, s, 9);
        ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_FAIL);
    }
}
END_TEST

START_TEST(a_reproducible_engine_is_decided_by_floor_and_cap)
{
    infq_band_options o = infq_band_options_default();
    infq_band_input in = infq_band_exact(-0.0024, NAN, NAN);

    ck_assert_int_eq(decided(&in, &o).reason, INFQ_BAND_BELOW_FLOOR);
    in.gap = -0.0026;
    ck_assert_int_eq(decided(&in, &o).reason, INFQ_BAND_NO_NOISE);
    in.gap = 0.0026;
    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
    in.gap = -0.0101;
    ck_assert_int_eq(decided(&in, &o).reason, INFQ_BAND_BEYOND_CAP);
    /* with noise measured: D^2 against theta s^2 nu / quantile */
    in = infq_band_exact(-0.004, 0.003, 9);
    ck_assert_int_eq(decided(&in, &o).reason, INFQ_BAND_WITHIN);
    ck_assert_double_eq_tol(decided(&in, &o).upper, 0.004 * 0.004 - 2 * o.kappa * o.kappa * 9e-6 * 9 / infq_chi2_quantile(0.95, 9), 1e-15);
    in.gap = -0.009;
    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
}
END_TEST

START_TEST(one_run_of_an_engine_that_varies_never_passes)
{
    const double a[5] = {0.5, 0.51, 0.49, 0.5, 0.5}, b[1] = {0.5};
    infq_band_options o = infq_band_options_default();
    infq_band_input in = infq_band_unpaired(a, 5, b, 1, 1);

    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_eq(decided(&in, &o).reason, INFQ_BAND_NO_RUNS);
    in = infq_band_paired(a, b, 1, 1);
    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
}
END_TEST

START_TEST(order_of_unpaired_runs_and_scale_change_nothing)
{
    double a[6] = {0.700, 0.704, 0.698, 0.701, 0.703, 0.699}, b[5] = {0.699, 0.702, 0.697, 0.700, 0.698};
    double a2[6] = {0.699, 0.703, 0.701, 0.698, 0.704, 0.700}, b2[5] = {0.698, 0.700, 0.697, 0.702, 0.699};
    infq_band_options o = infq_band_options_default(), o8 = o;
    infq_band_input x = infq_band_unpaired(a, 6, b, 5, 1), y = infq_band_unpaired(a2, 6, b2, 5, 1), z;

    ck_assert_double_eq_tol(decided(&x, &o).upper, decided(&y, &o).upper, 1e-15);
    for (int i = 0; i < 6; i++)
        a[i] *= 8;
    for (int i = 0; i < 5; i++)
        b[i] *= 8;
    o8.floor *= 8;
    o8.cap *= 8;
    z = infq_band_unpaired(a, 6, b, 5, 1);
    ck_assert_double_eq_tol(decided(&z, &o8).upper / 64, decided(&x, &o).upper, 1e-15);
    ck_assert_double_eq_tol(decided(&z, &o8).p_floor, decided(&x, &o).p_floor, 1e-12);
    ck_assert_int_eq(decided(&z, &o8).verdict, decided(&x, &o).verdict);
}
END_TEST

START_TEST(gains_are_a_change_too_unless_allowed)
{
    infq_band_options o = infq_band_options_default(), gain = o;
    infq_band_input in = {.gap = 0.02, .se = 0.001, .df = 8, .s = 0.002, .nu = 9};

    gain.allow_gain = true;
    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
    ck_assert_int_eq(decided(&in, &gain).verdict, INFQ_VERDICT_PASS);
    in.gap = -0.02;
    ck_assert_int_eq(decided(&in, &gain).verdict, INFQ_VERDICT_FAIL);
}
END_TEST

START_TEST(exact_level_asks_more_of_both_halves)
{
    infq_band_options o = infq_band_options_default(), half = o;
    infq_band_input in = {.gap = -0.00219, .se = 0.00062, .df = 20.8, .s = 0.00138, .nu = 9.93};

    half.exact_level = true;
    ck_assert_int_eq(decided(&in, &o).reason, INFQ_BAND_WITHIN);
    ck_assert_int_eq(decided(&in, &half).verdict, INFQ_VERDICT_UNDECIDED);
    TEST_NEEDS_SHARED();
    in = input_of(example("W4"));
    ck_assert_int_eq(decided(&in, &half).verdict, INFQ_VERDICT_PASS);
}
END_TEST

START_TEST(not_a_number_decides_nothing)
{
    infq_band_options o = infq_band_options_default();
    infq_band_input in = {.gap = NAN, .se = 0.001, .df = 8, .s = 0.002, .nu = 9};

    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
    in.gap = 0;
    in.se = NAN;
    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
    in = infq_band_exact(NAN, 0.002, 9);
    ck_assert_int_eq(decided(&in, &o).verdict, INFQ_VERDICT_UNDECIDED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("band");
    TCase *g = tcase_create("golden"), *p = tcase_create("properties");

    tcase_add_test(g, criterion_equals_golden);
    tcase_add_test(g, worked_examples_equal_golden);
    tcase_add_test(g, suite_of_worked_examples_equals_golden);
    tcase_add_test(g, undecided_example_says_how_many_runs_decide);
    tcase_add_test(p, no_noise_hides_a_gap_beyond_the_cap);
    tcase_add_test(p, a_reproducible_engine_is_decided_by_floor_and_cap);
    tcase_add_test(p, one_run_of_an_engine_that_varies_never_passes);
    tcase_add_test(p, order_of_unpaired_runs_and_scale_change_nothing);
    tcase_add_test(p, gains_are_a_change_too_unless_allowed);
    tcase_add_test(p, exact_level_asks_more_of_both_halves);
    tcase_add_test(p, not_a_number_decides_nothing);
    suite_add_tcase(s, g);
    suite_add_tcase(s, p);
    return test_main(s);
}
