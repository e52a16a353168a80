/* The gate: worked_examples of specs/vectors/statistics.json (T2 blocks of W1 to W4, W6, W8; Holm of W7), case B50, refusals. */
#include "tests/testlib.h"

#include "lib/eval/gate.h"

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

/* n items; the first b are right in a only, the next c in b only. */
static void make_items(infq_items **a, infq_items **b, int64_t losses, int64_t gains, int64_t n)
{
    infq_item_key key = {.task = "t", .task_digest = "d", .tokenizer = "k", .metric = "acc", .settings = "bos=model"};
    infq_err err;

    ck_ok(infq_items_new(&key, a, &err), err);
    ck_ok(infq_items_new(&key, b, &err), err);
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            infq_item *it;
            bool right = i < losses ? k == 0 : i < losses + gains ? k == 1 : i % 2;
            ck_ok(infq_items_add(k ? *b : *a, 2, &it, &err), err);
            it->doc = i;
            it->gold = 0;
            snprintf(it->request, sizeof(it->request), "%016llx", (unsigned long long)i);
            it->ll[0] = right ? -1 : -2;
            it->ll[1] = right ? -2 : -1;
            infq_item_finish(it);
        }
    }
}

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
