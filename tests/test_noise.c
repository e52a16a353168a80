/* The noise record: figures of specs/vectors/statistics.json (repeatability, self_flip_relation), writing and reading, refusals. */
#include "tests/testlib.h"

#include "lib/eval/noise.h"

#define N 500

/* Items of one run: item i is right when i < n_right, but `moved` right ones at the end are swapped for wrong ones behind them. */
static infq_items *run_items(const char *task, int64_t n, int64_t n_right, int64_t moved)
{
    infq_item_key key = {.task_digest = "d", .tokenizer = "k", .metric = "acc", .settings = "bos=model"};
    infq_items *s;
    infq_err err;

    snprintf(key.task, sizeof(key.task), "%s", task);
    ck_ok(infq_items_new(&key, &s, &err), err);
    for (int64_t i = 0; i < n; i++) {
        infq_item *it;
        bool right = i < n_right - moved || (i >= n_right && i < n_right + moved);
        ck_ok(infq_items_add(s, 2, &it, &err), err);
        it->doc = i;
        it->gold = 0;
        snprintf(it->request, sizeof(it->request), "%lld", (long long)i);
        it->ll[0] = right ? -1 : -2;
        it->ll[1] = right ? -2 : -1;
        infq_item_finish(it);
    }
    return s;
}

static infq_noise *record_of(const char *task, int64_t n, const int64_t *right, int n_runs, int64_t n_full)
{
    infq_items *runs[16];
    infq_noise *r;
    infq_err err;

    ck_ok(infq_noise_new(n_runs, &r, &err), err);
    for (int j = 0; j < n_runs; j++) {
        runs[j] = run_items(task, n, right[j], 0);
        snprintf(r->labels[j], sizeof(r->labels[j]), "seed=%d", j);
    }
    ck_ok(infq_noise_add_task(r, (const infq_items *const *)runs, NULL, n_full, &err), err);
    for (int j = 0; j < n_runs; j++)
        infq_items_free(runs[j]);
    return r;
}

START_TEST(repeatability_equals_golden)
{
    const cJSON *g, *run;
    cJSON *all;
    int64_t right[16];
    int n_runs = 0;
    infq_noise *r;

    TEST_NEEDS_SHARED();
    all = test_json(test_shared_path("specs/vectors/statistics.json"));
    g = cJSON_GetArrayItem(infq_json_get(all, "repeatability"), 0);
    cJSON_ArrayForEach(run, infq_json_get(g, "runs"))
        right[n_runs++] = llround(run->valuedouble * N);
    r = record_of("gsm8k", N, right, n_runs, 0);
    ck_assert_int_eq(r->n_runs, 10);
    ck_assert_double_eq_tol(r->tasks[0].mean, infq_json_get(g, "mean")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(r->tasks[0].sd, infq_json_get(g, "s_r")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(r->tasks[0].limit, infq_json_get(g, "limit_normal")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(r->tasks[0].sd_ci.lo, infq_json_get(g, "s_lower_95")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(r->tasks[0].sd_ci.hi, infq_json_get(g, "s_upper_95")->valuedouble, 1e-12);
    ck_assert_double_eq(r->tasks[0].sd_full, r->tasks[0].sd);
    infq_noise_free(r);
    cJSON_Delete(all);
}
END_TEST

START_TEST(flip_rate_is_the_mean_over_pairs_of_runs)
{
    /* runs 0 and 1 equal, run 2 moves 3 right answers elsewhere: 6 items differ in two of three pairs */
    infq_items *runs[3] = {run_items("t", 100, 60, 0), run_items("t", 100, 60, 0), run_items("t", 100, 60, 3)};
    infq_noise *r;
    infq_err err;

    ck_ok(infq_noise_new(3, &r, &err), err);
    ck_ok(infq_noise_add_task(r, (const infq_items *const *)runs, NULL, 0, &err), err);
    ck_assert_double_eq_tol(r->tasks[0].flip_rate, 0.06 * 2 / 3, 1e-15);
    ck_assert_double_eq(r->tasks[0].sd, 0);
    ck_assert_double_eq(r->tasks[0].limit, 0);
    infq_noise_free(r);
    for (int j = 0; j < 3; j++)
        infq_items_free(runs[j]);
}
END_TEST

START_TEST(fewer_items_do_not_widen_the_band)
{
    const int64_t right[4] = {50, 53, 49, 52};
    infq_noise *part = record_of("t", 100, right, 4, 1600), *all = record_of("t", 100, right, 4, 0);

    ck_assert_double_eq_tol(part->tasks[0].sd_full, all->tasks[0].sd_full / 4, 1e-15);
    ck_assert_double_eq(part->tasks[0].sd, all->tasks[0].sd);
    infq_noise_free(part);
    infq_noise_free(all);
}
END_TEST

START_TEST(a_record_is_read_as_it_was_written)
{
    const int64_t right[3] = {50, 53, 49};
    infq_noise *r = record_of("t", 100, right, 3, 400), *back;
    infq_buf text;
    char path[4200];
    infq_err err;

    snprintf(r->model, sizeof(r->model), "m");
    snprintf(r->source, sizeof(r->source), "numerics");
    r->reproducible = true;
    r->kld_mean = 1e-4;
    infq_buf_init(&text);
    ck_ok(infq_noise_write(r, &text, &err), err);
    snprintf(path, sizeof(path), "%s/noise.json", test_tmpdir());
    ck_ok(infq_file_write_atomic(path, text.data, text.n, false, &err), err);
    ck_ok(infq_noise_load(path, &back, &err), err);
    ck_assert_int_eq(back->n_runs, 3);
    ck_assert_str_eq(back->labels[2], "seed=2");
    ck_assert_str_eq(back->source, "numerics");
    ck_assert(back->reproducible);
    ck_assert_double_eq(back->kld_mean, 1e-4);
    ck_assert(isnan(back->kld_p99));
    ck_assert_double_eq(back->tasks[0].sd_full, r->tasks[0].sd_full);
    ck_assert_double_eq(back->tasks[0].flip_rate, r->tasks[0].flip_rate);
    ck_assert_ptr_eq(infq_noise_find(back, "t"), &back->tasks[0]);
    ck_assert_ptr_null(infq_noise_find(back, "u"));
    ck_assert(infq_noise_paired(r, back));
    snprintf(back->labels[1], sizeof(back->labels[1]), "seed=9");
    ck_assert(!infq_noise_paired(r, back));
    infq_noise_free(back);
    infq_noise_free(r);
    infq_buf_deinit(&text);
}
END_TEST

START_TEST(equal_labels_are_no_list_of_variations)
{
    const int64_t right[2] = {50, 53};
    infq_noise *a = record_of("t", 100, right, 2, 0), *b = record_of("t", 100, right, 2, 0);

    for (int j = 0; j < 2; j++) {
        snprintf(a->labels[j], sizeof(a->labels[j]), "same");
        snprintf(b->labels[j], sizeof(b->labels[j]), "same");
    }
    ck_assert(!infq_noise_paired(a, b));
    infq_noise_free(a);
    infq_noise_free(b);
}
END_TEST

START_TEST(runs_of_other_items_are_refused)
{
    infq_items *runs[2] = {run_items("t", 20, 10, 0), run_items("t", 20, 10, 0)};
    infq_noise *r;
    infq_err err;

    ck_assert_int_eq(infq_noise_new(1, &r, &err), INFQ_E_USAGE);
    ck_ok(infq_noise_new(2, &r, &err), err);
    infq_items_get(runs[1], 7)->doc = 8;
    ck_assert_int_eq(infq_noise_add_task(r, (const infq_items *const *)runs, NULL, 0, &err), INFQ_E_MISMATCH);
    ck_assert_msg(strstr(err.msg, "run 2: item 7") != NULL, "%s", err.msg);
    infq_items_get(runs[1], 7)->doc = 7;
    ck_assert_int_eq(infq_noise_add_task(r, (const infq_items *const *)runs, NULL, 10, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_noise_add_task(r, (const infq_items *const *)runs, "f1", 0, &err), INFQ_E_UNSUPPORTED);
    ck_assert_int_eq(r->n_tasks, 0);
    ck_ok(infq_noise_add_task(r, (const infq_items *const *)runs, NULL, 0, &err), err);
    ck_assert_int_eq(infq_noise_add_task(r, (const infq_items *const *)runs, NULL, 0, &err), INFQ_E_USAGE);
    infq_noise_free(r);
    infq_items_free(runs[0]);
    infq_items_free(runs[1]);
}
END_TEST

START_TEST(broken_records_are_refused)
{
    static const char *const text[] = {
        "{\"schema\":\"other\",\"runs\":[\"a\",\"b\"],\"tasks\":[]}",
        "{\"schema\":\"infq.noise.v1\",\"runs\":[\"a\"],\"tasks\":[]}",
        "{\"schema\":\"infq.noise.v1\",\"runs\":[\"a\",\"b\"],\"tasks\":[{\"task\":\"t\",\"items\":5,\"scores\":[1],\"flip_rate\":0}]}",
        "{\"schema\":\"infq.noise.v1\",\"runs\":[\"a\",\"b\"],\"tasks\":[{\"task\":\"t\",\"items\":5,\"scores\":[1,null],\"flip_rate\":0}]}",
        "{\"schema\":\"infq.noise.v1\",\"runs\":[\"a\",\"b\"],\"tasks\":[{\"task\":\"t\",\"items\":5,\"scores\":[1,1],\"flip_rate\":2}]}",
        "{\"schema\":\"infq.noise.v1\",\"runs\":[\"a\",\"b\"],\"tasks\":[{\"task\":\"t\",\"items\":5,\"items_full\":4,\"scores\":[1,1],\"flip_rate\":0}]}",
        "{\"schema\":\"infq.noise.v1\",\"runs\":[\"a\",7],\"tasks\":[]}",
    };

    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        char path[4200];
        infq_noise *r;
        infq_err err;
        snprintf(path, sizeof(path), "%s/%zu.json", test_tmpdir(), i);
        ck_ok(infq_file_write_atomic(path, text[i], strlen(text[i]), false, &err), err);
        ck_assert_msg(infq_noise_load(path, &r, &err) != 0, "%s was read", text[i]);
        ck_assert_msg(strstr(err.msg, ".json") != NULL, "%s", err.msg);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("noise");
    TCase *t = tcase_create("record");

    tcase_add_test(t, repeatability_equals_golden);
    tcase_add_test(t, flip_rate_is_the_mean_over_pairs_of_runs);
    tcase_add_test(t, fewer_items_do_not_widen_the_band);
    tcase_add_test(t, a_record_is_read_as_it_was_written);
    tcase_add_test(t, equal_labels_are_no_list_of_variations);
    tcase_add_test(t, runs_of_other_items_are_refused);
    tcase_add_test(t, broken_records_are_refused);
    suite_add_tcase(s, t);
    return test_main(s);
}
