/* Early stopping: schedules, the rule over several tasks, decisions on stored items. */
#include "tests/gate_pairs.h"

#define OURS "infq=1 bos=model"

static infq_policy policy; /* too large for a stack */

START_TEST(a_schedule_takes_every_item_once_and_tasks_by_weight)
{
    static const int64_t sizes[3] = {40, 60, 50};
    infq_schedule *s, *again, *other;
    int64_t counts[3];
    bool seen[60];
    infq_err err;

    ck_ok(infq_schedule_new(sizes, 3, INFQ_WEIGHTS_SIZE, 7, &s, &err), err);
    ck_ok(infq_schedule_new(sizes, 3, INFQ_WEIGHTS_SIZE, 7, &again, &err), err);
    ck_ok(infq_schedule_new(sizes, 3, INFQ_WEIGHTS_SIZE, 8, &other, &err), err);
    ck_assert_int_eq(s->n_steps, 150);
    ck_assert_mem_eq(s->task, again->task, 150 * sizeof(*s->task));
    ck_assert_mem_eq(s->order[1], again->order[1], 60 * sizeof(**s->order));
    ck_assert_mem_ne(s->order[1], other->order[1], 60 * sizeof(**s->order));
    infq_schedule_counts(s, 150, counts);
    for (int t = 0; t < 3; t++) {
        ck_assert_int_eq(counts[t], sizes[t]);
        memset(seen, 0, sizeof(seen));
        for (int64_t i = 0; i < sizes[t]; i++) {
            ck_assert(!seen[s->order[t][i]]);
            seen[s->order[t][i]] = true;
        }
    }
    infq_schedule_free(s);
    ck_ok(infq_schedule_new(sizes, 3, INFQ_WEIGHTS_EQUAL, 7, &s, &err), err);
    infq_schedule_counts(s, s->n_steps, counts);
    ck_assert(counts[0] == 40 || counts[1] == 60 || counts[2] == 50); /* ends with the first task that is used up */
    ck_assert_int_gt(counts[1], 25);
    infq_schedule_free(s);
    infq_schedule_free(again);
    infq_schedule_free(other);
}
END_TEST

/* The rule over stored items of tasks with so many losses and gains each. */
static infq_decision stopped(const int64_t *losses, const int64_t *gains, int n_tasks, int64_t n)
{
    infq_decision_input in = {.n = n_tasks, .policy = &policy, .sequential = true};
    infq_pair *pairs[4];
    infq_decision d;
    infq_err err;

    for (int t = 0; t < n_tasks; t++) {
        infq_items *a, *b;
        char name[8];
        snprintf(name, sizeof(name), "t%d", t);
        gate_sides(name, OURS, losses[t], gains[t], n, &a, &b);
        pairs[t] = gate_pair_of(a, b);
        infq_items_free(a);
        infq_items_free(b);
    }
    in.pairs = pairs;
    ck_ok(infq_decide(&in, &d, &err), err);
    for (int t = 0; t < n_tasks; t++)
        infq_pair_free(pairs[t]);
    return d;
}

START_TEST(equal_models_pass_early_and_bad_ones_fail_early)
{
    static const int64_t none[2] = {0, 0}, many[2] = {300, 320}, few[2] = {20, 20}, one_bad[2] = {0, 900};
    infq_decision d;
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    d = stopped(none, none, 2, 3000);
    ck_assert_int_eq(d.suite.verdict, INFQ_VERDICT_PASS);
    ck_assert(d.stopped);
    ck_assert_int_lt(d.stop.n_seen, 1000);
    ck_assert_double_le(d.suite.p_pass, 0.05);
    ck_assert_int_eq(d.suite.n, d.stop.n_seen);
    infq_decision_free(&d);
    d = stopped(many, few, 2, 3000);
    ck_assert_int_eq(d.suite.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(d.suite.reason, INFQ_GATE_T2);
    ck_assert_int_lt(d.stop.n_seen, 1000);
    infq_decision_free(&d);
    d = stopped(one_bad, none, 2, 3000); /* the suite fails long before the good task could be used up */
    ck_assert_int_eq(d.suite.verdict, INFQ_VERDICT_FAIL);
    infq_decision_free(&d);
}
END_TEST

START_TEST(a_pass_waits_until_the_gap_is_within_its_band)
{
    static const int64_t losses[1] = {24}, gains[1] = {4};
    infq_decision d;
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    ck_assert_double_eq(infq_decision_gap_limit(&policy, NULL, NULL), 0.0025);
    policy.gate.noise = INFQ_NOISE_OFF;
    ck_assert(isinf(infq_decision_gap_limit(&policy, NULL, NULL)));
    d = stopped(losses, gains, 1, 4000);
    ck_assert_int_eq(d.suite.verdict, INFQ_VERDICT_PASS);
    ck_assert_int_lt(d.stop.n_seen, 4000);
    ck_assert_double_le(d.stop.p_pass, 0.05);
    infq_decision_free(&d);
    policy.gate.noise = INFQ_NOISE_OPTIONAL;
    d = stopped(losses, gains, 1, 4000);
    ck_assert(d.suite.verdict != INFQ_VERDICT_PASS || fabs(d.suite.gap) < 0.0025);
    infq_decision_free(&d);
}
END_TEST

START_TEST(planned_looks_decide_at_their_fractions_only)
{
    static const int64_t none[1] = {0}, many[1] = {300};
    infq_decision d;
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    policy.stop = INFQ_STOP_OBRIEN_FLEMING;
    ck_ok(infq_policy_seal(&policy, &err), err);
    d = stopped(many, none, 1, 4000);
    ck_assert_int_eq(d.suite.verdict, INFQ_VERDICT_FAIL);
    ck_assert_int_eq(d.stop.n_seen, 1000);
    ck_assert_int_eq(d.stop.look, 1);
    ck_assert_double_eq_tol(d.stop.bound, 3.749551837, 1e-6);
    infq_decision_free(&d);
    d = stopped(none, none, 1, 4000);
    ck_assert_int_eq(d.suite.verdict, INFQ_VERDICT_PASS);
    ck_assert_int_eq(d.stop.n_seen % 1000, 0);
    infq_decision_free(&d);
}
END_TEST

START_TEST(nothing_depends_on_how_items_arrive)
{
    static const int64_t size[1] = {500};
    double d[500];
    const double *list[1] = {d};
    infq_schedule *s;
    infq_stopper *a, *b;
    infq_err err;
    bool done = false;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    ck_ok(infq_schedule_new(size, 1, INFQ_WEIGHTS_EQUAL, 1, &s, &err), err);
    ck_ok(infq_stopper_new(&policy, s, INFINITY, &a, &err), err);
    ck_ok(infq_stopper_new(&policy, s, INFINITY, &b, &err), err);
    for (int i = 0; i < 500; i++)
        d[i] = i % 9 == 4 ? -1 : i % 50 == 7 ? 1 : 0;
    infq_stopper_advance(a, list, size, &done);
    ck_assert(done);
    for (int64_t have = 1; have <= 500; have += 13) {
        infq_stopper_advance(b, list, &have, &done);
        if (done)
            break;
    }
    ck_assert(done);
    ck_assert_int_eq(infq_stopper_seen(a), infq_stopper_seen(b));
    ck_assert_int_eq(infq_stopper_result(a).t2, INFQ_VERDICT_FAIL);
    ck_assert_double_eq(infq_stopper_result(a).p_fail, infq_stopper_result(b).p_fail);
    infq_stopper_free(a);
    infq_stopper_free(b);
    infq_schedule_free(s);
}
END_TEST

START_TEST(tasks_outside_the_policy_are_left_out_and_missing_ones_refused)
{
    infq_decision_input in = {.n = 2, .policy = &policy};
    infq_pair *pairs[2];
    infq_decision d;
    infq_err err;
    infq_items *a, *b;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    policy.n_tasks = 1;
    strcpy(policy.tasks[0].task, "t1");
    policy.tasks[0].margin = 0.05;
    for (int t = 0; t < 2; t++) {
        gate_sides(t ? "t1" : "t0", OURS, t ? 20 : 900, 10, 2000, &a, &b);
        pairs[t] = gate_pair_of(a, b);
        infq_items_free(a);
        infq_items_free(b);
    }
    in.pairs = pairs;
    ck_ok(infq_decide(&in, &d, &err), err);
    ck_assert_int_eq(d.n, 1);
    ck_assert_int_eq(d.n_left_out, 1);
    ck_assert_str_eq(d.left_out[0], "t0");
    ck_assert_int_eq(d.tasks[0].t2, INFQ_VERDICT_PASS); /* by its own margin */
    infq_decision_free(&d);
    strcpy(policy.tasks[0].task, "t9");
    ck_assert_int_eq(infq_decide(&in, &d, &err), INFQ_E_MISMATCH);
    ck_assert_msg(strstr(err.msg, "t9") != NULL, "%s", err.msg);
    infq_decision_free(&d);
    infq_pair_free(pairs[0]);
    infq_pair_free(pairs[1]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stopping");
    TCase *t = tcase_create("stopping");

    tcase_add_test(t, a_schedule_takes_every_item_once_and_tasks_by_weight);
    tcase_add_test(t, equal_models_pass_early_and_bad_ones_fail_early);
    tcase_add_test(t, a_pass_waits_until_the_gap_is_within_its_band);
    tcase_add_test(t, planned_looks_decide_at_their_fractions_only);
    tcase_add_test(t, nothing_depends_on_how_items_arrive);
    tcase_add_test(t, tasks_outside_the_policy_are_left_out_and_missing_ones_refused);
    suite_add_tcase(s, t);
    return test_main(s);
}
