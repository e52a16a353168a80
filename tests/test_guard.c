/* Guards of specs 2.10: the golden perplexity ratio (ppl_ratio_guard), Wilson caps, paired marks, jitter; what was not measured. */
#include "tests/testlib.h"

#include "lib/eval/guard.h"

static infq_guard only(const infq_guards *g)
{
    ck_assert_int_eq(g->n, 1);
    return g->g[0];
}

static infq_distance nothing(void)
{
    return (infq_distance){NAN, NAN, NAN, NAN, NAN, NAN, NAN, 8, NAN};
}

START_TEST(perplexity_ratio_passes_as_the_golden_one_does)
{
    cJSON *all;
    const cJSON *o;
    infq_guard_limits l = infq_guard_limits_default();
    infq_distance d = nothing();
    infq_guards g = {0};

    TEST_NEEDS_SHARED();
    all = test_json(test_shared_path("specs/vectors/statistics.json"));
    o = cJSON_GetArrayItem(infq_json_get(all, "ppl_ratio_guard"), 0);
    d.ln_ratio = infq_json_get(o, "ln_ratio")->valuedouble;
    d.ln_ratio_se = infq_json_get(o, "se")->valuedouble;
    l.ln_ppl = infq_json_get(o, "margin")->valuedouble;
    infq_guard_distance(&g, &d, &l, 0.05);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_PASS);
    ck_assert_double_eq_tol(only(&g).ci.lo, cJSON_GetArrayItem(infq_json_get(o, "ci90"), 0)->valuedouble, 1e-12);
    ck_assert_double_eq_tol(only(&g).ci.hi, cJSON_GetArrayItem(infq_json_get(o, "ci90"), 1)->valuedouble, 1e-12);
    g.n = 0;
    infq_guard_distance(&g, &d, &l, 0.0005); /* p is 0.00081 */
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_UNDECIDED);
    d.ln_ratio = 0.02;
    g.n = 0;
    infq_guard_distance(&g, &d, &l, 0.05);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_FAIL);
    cJSON_Delete(all);
}
END_TEST

START_TEST(changed_items_are_held_against_profile_and_self_flips)
{
    infq_guard_limits l = infq_guard_limits_default();
    infq_guards g = {0};

    infq_guard_flips(&g, 10, 1000, NAN, &l, 0.95);
    ck_assert_int_eq(g.n, 0); /* no cap, no question */
    l.flips = 0.02;
    infq_guard_flips(&g, 10, 1000, NAN, &l, 0.95);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_PASS);
    g.n = 0;
    infq_guard_flips(&g, 18, 1000, NAN, &l, 0.95);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_UNDECIDED);
    g.n = 0;
    infq_guard_flips(&g, 40, 1000, NAN, &l, 0.95);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_FAIL);
    g.n = 0;
    infq_guard_flips(&g, 40, 1000, 0.02, &l, 0.95); /* the original changes 2 % of its own answers */
    ck_assert_double_eq_tol(only(&g).limit, 0.06, 1e-15);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_PASS);
}
END_TEST

START_TEST(answers_that_break_are_paired)
{
    infq_guard_limits l = infq_guard_limits_default();
    infq_pair_mark none = {0}, same = {.known = true, .a = 20, .b = 20}, more = {.known = true, .a = 20, .b = 80, .lost = 62, .won = 2};
    infq_guards g = {0};

    infq_guard_format(&g, &none, &none, 2000, &l, 0.05);
    ck_assert_int_eq(g.n, 0);
    infq_guard_format(&g, &same, &none, 2000, &l, 0.05);
    ck_assert_int_eq(only(&g).kind, INFQ_GUARD_INVALID);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_PASS);
    g.n = 0;
    infq_guard_format(&g, &none, &more, 2000, &l, 0.05);
    ck_assert_int_eq(only(&g).kind, INFQ_GUARD_TRUNCATED);
    ck_assert_double_eq_tol(only(&g).value, 0.03, 1e-15);
    ck_assert(only(&g).ci.lo < 0.03 && only(&g).ci.hi > 0.03);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_FAIL);
}
END_TEST

START_TEST(lengths_pass_inside_their_range_and_fail_when_surely_outside)
{
    static const struct {
        double ratio, lo, hi;
        infq_verdict verdict;
    } cases[] = {{1.02, 0.99, 1.05, INFQ_VERDICT_PASS}, {1.08, 1.03, 1.13, INFQ_VERDICT_UNDECIDED}, {1.12, 1.07, 1.17, INFQ_VERDICT_FAIL},
                 {0.9, 0.87, 0.93, INFQ_VERDICT_FAIL}, {0.94, 0.9, 0.98, INFQ_VERDICT_UNDECIDED}};
    infq_guard_limits l = infq_guard_limits_default();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        infq_guards g = {0};
        infq_guard_length(&g, cases[i].ratio, cases[i].lo, cases[i].hi, &l);
        ck_assert_int_eq(only(&g).verdict, cases[i].verdict);
    }
}
END_TEST

START_TEST(jitter_is_undecided_and_never_fails)
{
    infq_guard_limits l = infq_guard_limits_default();
    infq_guards g = {0};

    infq_guard_jitter(&g, 0.003, 9, 0.004, 4, &l);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_PASS);
    g.n = 0;
    infq_guard_jitter(&g, 0.003, 9, 0.03, 4, &l);
    ck_assert_int_eq(only(&g).verdict, INFQ_VERDICT_UNDECIDED);
    g.n = 0;
    infq_guard_jitter(&g, 0, 9, 0.03, 4, &l); /* nothing to compare with */
    infq_guard_jitter(&g, NAN, 0, NAN, 0, &l);
    ck_assert_int_eq(g.n, 0);
}
END_TEST

START_TEST(distance_guards_decide_by_windows)
{
    infq_guard_limits l = infq_guard_limits_default();
    infq_distance d = nothing();
    infq_guards g = {0};

    l.kld = 0.03;
    l.kld_noise = 10;
    l.same_top = 0.9;
    d.kld = 0.031;
    d.kld_se = 0.002;
    d.same_top = 0.93;
    d.same_top_se = 0.005;
    d.self_kld = 0.01;
    infq_guard_distance(&g, &d, &l, 0.05);
    ck_assert_int_eq(g.n, 3);
    ck_assert_int_eq(g.g[0].verdict, INFQ_VERDICT_UNDECIDED); /* above, but not surely */
    ck_assert_int_eq(g.g[1].kind, INFQ_GUARD_KLD_NOISE);
    ck_assert_int_eq(g.g[1].verdict, INFQ_VERDICT_PASS);
    ck_assert_int_eq(g.g[2].verdict, INFQ_VERDICT_PASS);
    ck_assert_int_eq(infq_guards_verdict(&g), INFQ_VERDICT_UNDECIDED);
    d.kld = 0.05;
    g.n = 0;
    infq_guard_distance(&g, &d, &l, 0.05);
    ck_assert_int_eq(infq_guards_verdict(&g), INFQ_VERDICT_FAIL);
}
END_TEST

START_TEST(what_was_not_measured_stands_in_the_list_and_stops_nothing)
{
    infq_guard_limits l = infq_guard_limits_default();
    infq_guards g = {0};

    l.kld = 0.03;
    l.kld_p99 = 1;
    l.ln_ppl = 0.01;
    infq_guard_distance(&g, NULL, &l, 0.05);
    ck_assert_int_eq(g.n, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert(!g.g[i].measured);
        ck_assert_int_ne(g.g[i].verdict, INFQ_VERDICT_PASS);
    }
    ck_assert_int_eq(infq_guards_verdict(&g), INFQ_VERDICT_PASS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("guard");
    TCase *t = tcase_create("guards");

    tcase_add_test(t, perplexity_ratio_passes_as_the_golden_one_does);
    tcase_add_test(t, changed_items_are_held_against_profile_and_self_flips);
    tcase_add_test(t, answers_that_break_are_paired);
    tcase_add_test(t, lengths_pass_inside_their_range_and_fail_when_surely_outside);
    tcase_add_test(t, jitter_is_undecided_and_never_fails);
    tcase_add_test(t, distance_guards_decide_by_windows);
    tcase_add_test(t, what_was_not_measured_stands_in_the_list_and_stops_nothing);
    suite_add_tcase(s, t);
    return test_main(s);
}
