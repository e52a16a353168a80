/* Class-P perturbations: other looks of contexts, what they change of a task, the decomposition and the FRAGILE flag. */
#include "tests/testlib.h"

#include "lib/eval/perturb.h"
#include "lib/eval/task_int.h"

START_TEST(contexts_change_their_look_and_nothing_else)
{
    static const char text[] = "Question: which one?\nA. cat\nB. dog: big\nAnswer:";
    static const char *const want[INFQ_FORMAT_COUNT] = {text, "Question: which one?\nA. cat\nB. dog: big\n\nAnswer:",
                                                        "Question: which one?\nA. cat\nB. dog: big Answer:",
                                                        "Question:  which one?\nA. cat\nB. dog: big\nAnswer:",
                                                        "Question: which one?\n(A) cat\n(B) dog: big\nAnswer:"};

    for (int f = 0; f < INFQ_FORMAT_COUNT; f++) {
        infq_buf b;
        infq_buf_init(&b);
        infq_task_reformat((infq_task_format)f, text, &b);
        ck_assert_str_eq(b.data, want[f]);
        infq_buf_clear(&b);
        infq_task_reformat((infq_task_format)f, "The cat sat on", &b); /* has none of the places */
        ck_assert_str_eq(b.data, "The cat sat on");
        infq_buf_clear(&b);
        infq_task_reformat((infq_task_format)f, "", &b);
        ck_assert_str_eq(b.data, "");
        infq_buf_deinit(&b);
        ck_assert_ptr_nonnull(infq_task_format_names[f]);
    }
    ck_assert_ptr_null(infq_task_format_names[INFQ_FORMAT_COUNT]);
}
END_TEST

static infq_task *open_mine(const infq_task_options *o)
{
    static const char yaml[] = "name: mine\nkind: choice\nabout: x\nfiles:\n  test: {path: mine.csv, header: true}\nprompt:\n"
                               "  context: \"Q: {{q}}\\nA. {{options[0]}}\\nB. {{options[1]}}\\nAnswer:\"\n  options: [\"{{a}}\", \"{{b}}\"]\n"
                               "  choices: [A, B]\n  labels: \"{{['x', 'y']}}\"\n  answer: \"{{right}}\"\nfewshot: {split: test, count: 1}\n";
    static const char data[] = "q,a,b,right\none,u,v,x\ntwo,p,q,y\nthree,r,s,x\n";
    const char *dir = test_tmpdir();
    infq_data_dirs none = {NULL, 0};
    infq_catalog *c;
    infq_task *t;
    char path[600];
    infq_err err;

    snprintf(path, sizeof(path), "%s/mine.csv", dir);
    ck_ok(infq_file_write_atomic(path, data, strlen(data), true, &err), err);
    snprintf(path, sizeof(path), "%s/mine.yaml", dir);
    ck_ok(infq_file_write_atomic(path, yaml, strlen(yaml), true, &err), err);
    ck_ok(infq_catalog_new(&c, &err), err);
    ck_ok(infq_catalog_load(c, path, &err), err);
    ck_ok(infq_task_open_manifest(infq_catalog_find(c, "mine"), &none, o, &t, &err), err);
    infq_catalog_free(c);
    return t;
}

START_TEST(a_format_changes_items_examples_and_digest)
{
    infq_task_options o = infq_task_options_default();
    infq_task *a = open_mine(&o), *b;

    o.format = INFQ_FORMAT_PAREN;
    b = open_mine(&o);
    ck_assert_str_eq(infq_task_get(a, 1)->requests[0].context, "Q: one\nA. u\nB. v\nAnswer: A\n\nQ: two\nA. p\nB. q\nAnswer:");
    ck_assert_str_eq(infq_task_get(b, 1)->requests[0].context, "Q: one\n(A) u\n(B) v\nAnswer: A\n\nQ: two\n(A) p\n(B) q\nAnswer:");
    ck_assert_str_eq(infq_task_get(b, 1)->requests[1].continuation, " B");
    ck_assert_int_eq(infq_task_get(b, 1)->gold, 1);
    ck_assert_str_ne(infq_task_digest(a), infq_task_digest(b));
    infq_task_free(b);
    o.format = INFQ_FORMAT_PLAIN;
    o.rotate = 2; /* of two choices: once around */
    b = open_mine(&o);
    ck_assert_str_eq(infq_task_digest(a), infq_task_digest(b));
    infq_task_free(a);
    infq_task_free(b);
}
END_TEST

/* Items of n documents with metric acc = right[i]; digest and documents shared. */
static infq_items *items_of(const double *right, int64_t n, int64_t first_doc)
{
    infq_item_key key = {.task = "t", .task_digest = "d", .tokenizer = "k", .metric = "acc", .settings = "s"};
    infq_items *s;
    infq_err err;

    ck_ok(infq_items_new(&key, &s, &err), err);
    for (int64_t i = 0; i < n; i++) {
        infq_item *it;
        ck_ok(infq_items_add(s, 2, &it, &err), err);
        it->doc = first_doc + i;
        it->gold = 0;
        it->ll[0] = right[i] > 0 ? -1 : -2;
        it->ll[1] = -1.5;
        infq_item_finish(it);
    }
    return s;
}

START_TEST(the_decomposition_equals_golden)
{
    cJSON *all;
    const cJSON *g, *d, *row;
    infq_items *a[3], *b[3];
    const char *labels[] = {"as it is", "order 1", "format: one line"};
    infq_gate_options o = infq_gate_options_default();
    infq_perturb_task t;
    double x[3][6], y[3][6];
    int i = 0;
    infq_err err;

    TEST_NEEDS_SHARED();
    all = test_json(test_shared_path("specs/vectors/statistics.json"));
    g = cJSON_GetArrayItem(infq_json_get(all, "crossed_items_runs"), 0);
    d = infq_json_get(g, "d");
    cJSON_ArrayForEach(row, d) {
        for (int j = 0; j < 3; j++) {
            double v = cJSON_GetArrayItem(row, j)->valuedouble;
            x[j][i] = v < 0; /* right before and wrong after, or the other way */
            y[j][i] = v > 0;
        }
        i++;
    }
    for (int j = 0; j < 3; j++) {
        a[j] = items_of(x[j], 6, 0);
        b[j] = items_of(y[j], 6, 0);
    }
    ck_ok(infq_perturb_compare((const infq_items *const *)a, (const infq_items *const *)b, labels, 3, NULL, &o, &t, &err), err);
    ck_assert_int_eq(t.n_rows, 3);
    ck_assert_str_eq(t.rows[2].label, "format: one line");
    ck_assert_double_eq_tol(t.gap, infq_json_get(g, "D")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(t.crossed.ms_item, infq_json_get(g, "MS_item")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(t.crossed.ms_run, infq_json_get(g, "MS_run")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(t.crossed.ms_resid, infq_json_get(g, "MS_resid")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(t.crossed.se_both, infq_json_get(g, "se_both_random")->valuedouble, 1e-12);
    ck_assert_double_eq_tol(t.f, 0.16666666666666666 / 0.3, 1e-12);
    ck_assert_double_eq_tol(t.p, infq_f_cdf(t.f, 2, 10).q, 1e-12);
    ck_assert_double_eq_tol(t.rows[1].gap, 1 / 6.0, 1e-12);
    ck_assert_double_eq_tol(t.largest, 1 / 6.0, 1e-12);
    infq_perturb_free(&t);
    for (int j = 0; j < 3; j++) {
        infq_items_free(a[j]);
        infq_items_free(b[j]);
    }
    cJSON_Delete(all);
}
END_TEST

START_TEST(a_pass_that_depends_on_how_one_asks_is_fragile)
{
    enum { N = 1000 };
    static double same[N], lost[N];
    const char *labels[] = {"as it is", "format: blank line"};
    infq_gate_options o = infq_gate_options_default();
    infq_perturb_task t;
    infq_items *a[2], *b[2], *other;
    infq_err err;

    for (int i = 0; i < N; i++)
        same[i] = i % 2;
    memcpy(lost, same, sizeof(lost));
    for (int i = 1; i < 60; i += 2) /* 30 right answers lost: 3 points */
        lost[i] = 0;
    a[0] = items_of(same, N, 0);
    b[0] = items_of(same, N, 0);
    a[1] = items_of(same, N, 0);
    b[1] = items_of(lost, N, 0);
    ck_ok(infq_perturb_compare((const infq_items *const *)a, (const infq_items *const *)b, labels, 2, NULL, &o, &t, &err), err);
    ck_assert_int_eq(t.verdict, INFQ_VERDICT_PASS);
    ck_assert_double_eq_tol(t.largest, 0.03, 1e-12);
    ck_assert(t.fragile);
    ck_assert_double_lt(t.p, 1e-6);
    infq_perturb_free(&t);
    o.margin = 0.05;
    ck_ok(infq_perturb_compare((const infq_items *const *)a, (const infq_items *const *)b, labels, 2, NULL, &o, &t, &err), err);
    ck_assert(!t.fragile);
    infq_perturb_free(&t);
    /* one row: nothing to decompose */
    ck_ok(infq_perturb_compare((const infq_items *const *)a, (const infq_items *const *)b, labels, 1, NULL, &o, &t, &err), err);
    ck_assert(isnan(t.p) && !t.fragile);
    infq_perturb_free(&t);
    other = a[1];
    a[1] = items_of(same, N, 1);
    infq_items_free(b[1]);
    b[1] = items_of(same, N, 1);
    ck_assert_int_eq(infq_perturb_compare((const infq_items *const *)a, (const infq_items *const *)b, labels, 2, NULL, &o, &t, &err), INFQ_E_MISMATCH);
    ck_assert_str_eq(err.msg, "format: blank line: item 0 is document 1, as it is 0");
    infq_items_free(other);
    for (int j = 0; j < 2; j++) {
        infq_items_free(a[j]);
        infq_items_free(b[j]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("perturb");
    TCase *t = tcase_create("perturb");

    tcase_add_test(t, contexts_change_their_look_and_nothing_else);
    tcase_add_test(t, a_format_changes_items_examples_and_digest);
    tcase_add_test(t, the_decomposition_equals_golden);
    tcase_add_test(t, a_pass_that_depends_on_how_one_asks_is_fragile);
    suite_add_tcase(s, t);
    return test_main(s);
}
