/* What a verdict says: the sentence in plain words for every reason, and the members of its JSON. */
#include "tests/gate_pairs.h"

#include "lib/report/verdict.h"

#define OURS "infq=1 bos=model"

static infq_policy policy; /* too large for a stack */

/* A suite of tasks with so many losses and gains of n items each, under `policy`; the text of its verdict in out. */
static void text_of(const int64_t (*counts)[2], int n_tasks, int64_t n, const infq_noise *noise, bool sequential, char *out, size_t cap)
{
    infq_decision_input in = {.n = n_tasks, .policy = &policy, .noise_a = noise, .sequential = sequential};
    infq_pair *pairs[4];
    infq_decision d;
    infq_verdict_view v;
    infq_buf text;
    infq_err err;

    for (int t = 0; t < n_tasks; t++) {
        infq_items *a, *b;
        char name[8];
        snprintf(name, sizeof(name), "t%d", t);
        gate_sides(name, OURS, counts[t][0], counts[t][1], n, &a, &b);
        pairs[t] = gate_pair_of(a, b);
        infq_items_free(a);
        infq_items_free(b);
    }
    in.pairs = pairs;
    ck_ok(infq_decide(&in, &d, &err), err);
    v = (infq_verdict_view){.original = "a", .compressed = "b", .tasks = d.tasks, .suite = &d.suite, .policy = &policy, .policy_late = -1,
                            .stop = d.stopped ? &d.stop : NULL, .noise_source = noise ? noise->source : NULL};
    infq_buf_init(&text);
    infq_verdict_text(&v, &text);
    snprintf(out, cap, "%s", text.data);
    infq_buf_deinit(&text);
    infq_decision_free(&d);
    for (int t = 0; t < n_tasks; t++)
        infq_pair_free(pairs[t]);
}

static infq_noise *record(const int64_t *right, int runs, int64_t n)
{
    infq_items *items[16];
    infq_noise *r;
    infq_err err;

    ck_ok(infq_noise_new(runs, &r, &err), err);
    for (int j = 0; j < runs; j++) {
        items[j] = gate_run("t0", OURS, right[j], n);
        snprintf(r->labels[j], sizeof(r->labels[j]), "seed=%d", j);
    }
    ck_ok(infq_noise_add_task(r, (const infq_items *const *)items, NULL, 0, &err), err);
    snprintf(r->source, sizeof(r->source), "orders");
    r->reproducible = true;
    for (int j = 0; j < runs; j++)
        infq_items_free(items[j]);
    return r;
}

static void says(const char *text, const char *words)
{
    ck_assert_msg(strstr(text, words) != NULL, "\"%s\" is not in:\n%s", words, text);
}

START_TEST(a_pass_names_gap_interval_and_noise)
{
    static const int64_t right[6] = {2000, 2016, 1984, 2010, 1992, 1998}, counts[1][2] = {{12, 8}};
    infq_noise *r = record(right, 6, 4000);
    char text[4000];
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    text_of(counts, 1, 4000, r, false, text, sizeof(text));
    says(text, "PASS: the compressed model loses 0.1 points (90 % interval -0.3 to +0.1); the original's own run-to-run noise is +-0.8\n");
    says(text, "T1 (these items): pass, within noise");
    says(text, "T2 (items like these): pass; a loss of 1 point or more is refuted");
    says(text, "noise: orders");
    says(text, policy.sha256[0] ? "policy: default, sha256 " : "");
    infq_noise_free(r);
}
END_TEST

START_TEST(no_noise_measured_is_said)
{
    static const int64_t same[1][2] = {{0, 0}}, more[1][2] = {{24, 4}};
    char text[4000];
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    text_of(same, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "PASS: no item changed (90 % interval ");
    says(text, "; the original's run-to-run noise was not measured\n");
    says(text, "margin: policy floor 0.25, not noise");
    text_of(more, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "UNDECIDED: the compressed model loses 0.5 points");
    says(text, "to say whether that is noise, measure it: infeval noise ORIGINAL, then --noise FILE");
    policy.gate.noise = INFQ_NOISE_OFF;
    text_of(more, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "PASS: ");
    says(text, "T1 (these items): not asked; margin: policy, not noise");
    policy.gate.noise = INFQ_NOISE_REQUIRED;
    text_of(same, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "the policy requires noise, which was not measured");
}
END_TEST

START_TEST(fails_and_open_questions_give_their_reason)
{
    static const int64_t lost[1][2] = {{300, 20}}, few[1][2] = {{4, 1}}, one_bad[3][2] = {{2, 2}, {60, 2}, {2, 2}}, beyond[1][2] = {{62, 10}};
    static const int64_t right[3] = {2000, 2000, 2001};
    infq_noise *r = record(right, 3, 4000);
    char text[4000];
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    text_of(lost, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "FAIL: the compressed model loses 7.0 points");
    says(text, "; a loss of 1 point or less is refuted (p = ");
    text_of(few, 1, 200, NULL, false, text, sizeof(text));
    says(text, "UNDECIDED: ");
    says(text, "more items would decide, most likely ");
    text_of(one_bad, 3, 2000, NULL, false, text, sizeof(text));
    says(text, "FAIL: ");
    says(text, "t1 alone loses 2.9 points (p = ");
    says(text, "after correction for 3 tasks)");
    text_of(beyond, 1, 4000, r, false, text, sizeof(text));
    says(text, "on these items it is beyond the cap of 1 point");
    policy.gate.guards.flips = 0.001;
    text_of(few, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "guard flips: ");
    policy.gate.guards.flips = 1e-6;
    text_of((const int64_t[1][2]){{40, 40}}, 1, 4000, NULL, false, text, sizeof(text));
    says(text, "FAIL: ");
    says(text, "share of changed items 0.02 [");
    infq_noise_free(r);
}
END_TEST

START_TEST(a_run_that_stopped_early_says_where)
{
    static const int64_t none[1][2] = {{0, 0}};
    char text[4000];
    infq_err err;

    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    text_of(none, 1, 4000, NULL, true, text, sizeof(text));
    says(text, "PASS: ");
    says(text, " of 4000 items (betting, order of seed 1)");
}
END_TEST

START_TEST(json_holds_what_programs_ask_for)
{
    static const char *const members[] = {"tasks", "suite", "policy", "policy_sha256", "summary", "reasons", "verdict"};
    static const char *const of_suite[] = {"gap", "interval", "margin", "alpha", "noise_limit", "t1", "t2", "guards", "reason"};
    infq_decision_input in = {.n = 1, .policy = &policy};
    infq_items *a, *b;
    infq_pair *p;
    infq_decision d;
    infq_verdict_view v;
    infq_buf text;
    infq_jw w;
    cJSON *o;
    infq_err err;

    ck_ok(infq_policy_builtin("4-bit", &policy, &err), err);
    gate_sides("t0", OURS, 3, 2, 400, &a, &b);
    p = gate_pair_of(a, b);
    in.pairs = &p;
    ck_ok(infq_decide(&in, &d, &err), err);
    v = (infq_verdict_view){.original = "a", .compressed = "b", .tasks = d.tasks, .suite = &d.suite, .policy = &policy, .policy_late = 1};
    infq_buf_init(&text);
    w = infq_jw_over(&text, 0);
    infq_jw_obj(&w);
    infq_verdict_json(&v, &w);
    infq_jw_end_obj(&w);
    ck_ok(infq_json_parse(text.data, text.n, "verdict", &o, &err), err);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        ck_assert_msg(cJSON_GetObjectItem(o, members[i]) != NULL, "no %s", members[i]);
    for (size_t i = 0; i < sizeof(of_suite) / sizeof(of_suite[0]); i++)
        ck_assert_msg(cJSON_GetObjectItem(infq_json_get(o, "suite"), of_suite[i]) != NULL, "no %s in suite", of_suite[i]);
    ck_assert_str_eq(infq_json_get(o, "policy_sha256")->valuestring, policy.sha256);
    ck_assert(cJSON_IsFalse(infq_json_get(o, "policy_written_before_the_run")));
    ck_assert_int_eq(cJSON_GetArraySize(infq_json_get(infq_json_get(o, "suite"), "guards")), 4); /* flips, and three not measured */
    cJSON_Delete(o);
    infq_buf_clear(&text);
    infq_verdict_text(&v, &text);
    says(text.data, "NOTE: the policy was written after the run began");
    says(text.data, "guard kld: not measured");
    infq_buf_deinit(&text);
    infq_decision_free(&d);
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("verdict");
    TCase *t = tcase_create("words");

    tcase_add_test(t, a_pass_names_gap_interval_and_noise);
    tcase_add_test(t, no_noise_measured_is_said);
    tcase_add_test(t, fails_and_open_questions_give_their_reason);
    tcase_add_test(t, a_run_that_stopped_early_says_where);
    tcase_add_test(t, json_holds_what_programs_ask_for);
    suite_add_tcase(s, t);
    return test_main(s);
}
