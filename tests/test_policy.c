/* Policies: profiles, documents, canonical text and hash; refusals with line and key. */
#include "tests/testlib.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/eval/policy.h"

static infq_policy policy; /* too large for a stack */

static const char *written(const char *name, const char *text)
{
    static char path[4200];
    infq_err err;

    snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
    return path;
}

static void canonical(const infq_policy *p, char *out, size_t cap)
{
    infq_buf text;
    infq_jw w;

    infq_buf_init(&text);
    w = infq_jw_over(&text, 0);
    infq_policy_write(p, &w);
    snprintf(out, cap, "%s", text.data);
    infq_buf_deinit(&text);
}

START_TEST(profiles_hold_the_published_thresholds)
{
    static const struct {
        const char *name;
        double ln_ppl, kld, same_top, flips;
    } want[] = {{"8-bit", 0.002, 0.002, 0.975, 0.02}, {"6-bit", 0.005, 0.006, 0.96, 0.03}, {"4-bit", 0.03, 0.03, 0.915, 0.08}, {"3-bit", 0.1, 0.1, 0.85, 0.12}};
    infq_err err;

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        ck_ok(infq_policy_builtin(want[i].name, &policy, &err), err);
        ck_assert_double_eq(policy.gate.guards.ln_ppl, want[i].ln_ppl);
        ck_assert_double_eq(policy.gate.guards.kld, want[i].kld);
        ck_assert_double_eq(policy.gate.guards.same_top, want[i].same_top);
        ck_assert_double_eq(policy.gate.guards.flips, want[i].flips);
        ck_assert_double_eq(policy.gate.margin, 0.01); /* the tests are the same for all */
    }
    ck_ok(infq_policy_builtin("strict", &policy, &err), err);
    ck_assert_double_eq(policy.gate.band.kappa, 1);
    ck_assert(policy.gate.strict);
    ck_assert_int_eq(infq_policy_builtin("5-bit", &policy, &err), INFQ_E_USAGE);
    ck_assert_msg(strstr(err.msg, "4-bit") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(spelling_does_not_change_the_hash_and_values_do)
{
    char yaml[65], json[65];
    infq_err err;

    ck_ok(infq_policy_load(written("a.yaml", "margin: 0.01 # as by default\nname: default\n\nguards:\n  format: 1e-2\n"), &policy, &err), err);
    strcpy(yaml, policy.sha256);
    ck_ok(infq_policy_load(written("b.json", "{\"name\": \"default\", \"alpha\": 0.05}"), &policy, &err), err);
    strcpy(json, policy.sha256);
    ck_assert_str_eq(yaml, json);
    ck_ok(infq_policy_builtin("default", &policy, &err), err);
    ck_assert_str_eq(policy.sha256, yaml);
    ck_ok(infq_policy_load(written("c.yaml", "name: default\nmargin: 0.011\n"), &policy, &err), err);
    ck_assert_str_ne(policy.sha256, yaml);
}
END_TEST

START_TEST(the_canonical_text_reads_back_to_itself)
{
    static char text[20000];
    char hash[65];
    infq_err err;

    ck_ok(infq_policy_load(written("p.yaml", "name: release\nprofile: 4-bit\nalpha: 0.025\nnoise: required\nrun_looks: 3\n"
                                             "tasks:\n  - hellaswag\n  - {task: arc, metric: acc_norm, margin: 0.02}\n"
                                             "guards: {kld: 0.05, jitter: 0.999}\nrequire: [kld, flips]\nlooks: [0.5, 1]\nstop: pocock\nseed: 9\n"),
                           &policy, &err), err);
    ck_assert_double_eq_tol(policy.gate.band.alpha, 0.025 / 3, 1e-15);
    ck_assert_int_eq(policy.gate.noise, INFQ_NOISE_REQUIRED);
    ck_assert_int_eq(policy.gate.require, 1u << INFQ_GUARD_KLD | 1u << INFQ_GUARD_FLIPS);
    ck_assert_int_eq(policy.stop, INFQ_STOP_POCOCK);
    ck_assert_double_eq(policy.gate.guards.kld, 0.05);
    ck_assert_double_eq(policy.gate.guards.flips, 0.08); /* of the profile */
    ck_assert_int_eq(policy.n_tasks, 2);
    ck_assert_str_eq(infq_policy_metric(&policy, infq_policy_find(&policy, "arc")), "acc_norm");
    ck_assert_ptr_null(infq_policy_metric(&policy, infq_policy_find(&policy, "hellaswag")));
    ck_assert_double_eq(infq_policy_options(&policy, infq_policy_find(&policy, "arc")).margin, 0.02);
    ck_assert_ptr_null(infq_policy_find(&policy, "piqa"));
    strcpy(hash, policy.sha256);
    canonical(&policy, text, sizeof(text));
    ck_ok(infq_policy_load(written("q.json", text), &policy, &err), err);
    ck_assert_str_eq(policy.sha256, hash);
}
END_TEST

START_TEST(broken_policies_are_refused_by_line_and_key)
{
    static const char *const bad[][2] = {
        {"margn: 0.01\n", ":1: margn"},
        {"margin: 0.01\nalpha: 0.7\n", ":2: alpha"},
        {"name: x\nprofile: 5-bit\n", ":2: profile"},
        {"tasks:\n  - a\n  - a\n", "listed twice"},
        {"tasks: [{metric: acc}]\n", "task"},
        {"require: [speed]\n", "speed cannot be required"},
        {"noise: sometimes\n", ":1: noise"},
        {"floor: 0.02\n", "floor 0.02 is not below cap 0.01"},
        {"looks: [0.5, 0.25, 1]\n", "ascend"},
        {"looks: [0.5]\n", "the last one is 1"},
        {"guards: {kdl: 1}\n", "kdl"},
        {"schema: infq.policy/2\n", "schema"},
        {"- a\n", ":1"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_err err;
        ck_assert_msg(infq_policy_load(written("bad.yaml", bad[i][0]), &policy, &err) != 0, "%s was read", bad[i][0]);
        ck_assert_msg(strstr(err.msg, bad[i][1]) != NULL, "%s", err.msg);
        ck_assert_msg(strstr(err.msg, "bad.yaml") != NULL, "%s", err.msg);
    }
}
END_TEST

START_TEST(a_policy_written_after_the_run_is_told_by_the_files)
{
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char old[4200], young[4200];
    int64_t w, began;
    infq_err err;

    strcpy(old, written("old", "x"));
    strcpy(young, written("young", "y"));
    ck_assert_int_eq(utimensat(AT_FDCWD, old, times, 0), 0);
    ck_ok(infq_policy_written_ns(old, &w, &err), err);
    ck_assert_int_eq(w, 1000LL * 1000000000);
    ck_ok(infq_policy_run_began_ns(young, &began, &err), err);
    ck_assert_int_lt(w, began);
    ck_ok(infq_policy_run_began_ns(old, &began, &err), err); /* copied with its times: the content is old */
    ck_assert_int_eq(began, w);
    ck_assert_int_eq(infq_policy_written_ns("/nowhere/at/all", &w, &err), INFQ_E_IO);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("policy");
    TCase *t = tcase_create("policies");

    tcase_add_test(t, profiles_hold_the_published_thresholds);
    tcase_add_test(t, spelling_does_not_change_the_hash_and_values_do);
    tcase_add_test(t, the_canonical_text_reads_back_to_itself);
    tcase_add_test(t, broken_policies_are_refused_by_line_and_key);
    tcase_add_test(t, a_policy_written_after_the_run_is_told_by_the_files);
    suite_add_tcase(s, t);
    return test_main(s);
}
