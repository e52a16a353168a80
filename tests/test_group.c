/* Groups and suites: who belongs to them, weights, errors. Golden: group_stderr of specs/vectors/statistics.json. */
#include "tests/testlib.h"

#include "lib/eval/group.h"

static infq_catalog *catalog(void)
{
    infq_catalog *c;
    infq_err err;

    ck_ok(infq_catalog_new(&c, &err), err);
    return c;
}

static const infq_group *find(const infq_groups *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->g[i].name, name) == 0)
            return &s->g[i];
    return NULL;
}

START_TEST(all_of_mmlu_counts_by_items_and_has_its_four_parts)
{
    infq_catalog *c = catalog();
    infq_group_task t[57];
    infq_groups s;
    infq_err err;
    int n = 0, parts = 0;
    double mean[57], se[57], right = 0;
    char words[64];

    for (int i = 0; i < infq_catalog_count(c); i++) {
        const infq_manifest *m = infq_catalog_get(c, i);
        if (!infq_manifest_in(m, "mmlu"))
            continue;
        ck_assert_int_lt(n, 57);
        mean[n] = (double)(n % 5) / 10;
        se[n] = 0.01;
        t[n++] = (infq_group_task){m->name, infq_manifest_split(m, "test")->files[0].items, -1, -1};
        right += mean[n - 1] * (double)t[n - 1].items;
    }
    ck_assert_int_eq(n, 57);
    ck_ok(infq_groups_find(c, t, n, NULL, 0, &s, &err), err);
    ck_assert_int_eq(s.n, 5);
    ck_assert_str_eq(s.g[0].name, "mmlu");
    ck_assert_int_eq(s.g[0].n_items, 14042); // the whole test set
    ck_assert_double_eq_tol(infq_group_score_of(&s.g[0], mean, se).mean, right / 14042, 1e-12);
    infq_group_words(&s.g[0], words, sizeof(words));
    ck_assert_str_eq(words, "57 tasks, by items");
    for (int i = 1; i < 5; i++) {
        ck_assert_int_eq(s.g[i].kind, INFQ_GROUP_SUBGROUP);
        parts += s.g[i].n;
    }
    ck_assert_int_eq(parts, 57);
    ck_assert_int_eq(find(&s, "mmlu_stem")->n, 19);
    ck_assert_int_eq(find(&s, "mmlu_humanities")->n, 13);
    ck_assert_int_eq(find(&s, "mmlu_social_sciences")->n, 12);
    ck_assert_int_eq(find(&s, "mmlu_other")->n, 13);
    infq_groups_free(&s);
    infq_catalog_free(c);
}
END_TEST

START_TEST(paradigms_of_blimp_count_alike_and_missing_ones_are_told)
{
    infq_catalog *c = catalog();
    const infq_group_task t[] = {{"blimp_adjunct_island", 1000, -1, -1}, {"hellaswag", 10042, -1, -1}, {"blimp_passive_1", 100, -1, -1},
                                 {"blimp_causative", 0, -1, -1}};
    const double mean[] = {0.9, 0.3, 0.5, 0.1}, se[] = {0.01, 0.9, 0.02, 0.9};
    infq_groups s;
    infq_group_score x;
    char words[64];
    infq_err err;

    ck_ok(infq_groups_find(c, t, 4, NULL, 0, &s, &err), err);
    ck_assert_int_eq(s.n, 1);
    ck_assert_int_eq(s.g[0].n, 2);
    x = infq_group_score_of(&s.g[0], mean, se);
    ck_assert_double_eq_tol(x.mean, 0.7, 1e-15);
    ck_assert_double_eq_tol(x.se, sqrt(0.01 * 0.01 + 0.02 * 0.02) / 2, 1e-15);
    infq_group_words(&s.g[0], words, sizeof(words));
    ck_assert_str_eq(words, "2 of 67 tasks, each alike");
    infq_groups_free(&s);
    infq_catalog_free(c);
}
END_TEST

START_TEST(an_entry_of_a_suite_that_is_a_group_counts_once)
{
    infq_catalog *c = catalog();
    const char *const suites[] = {"mine", "single"};
    const infq_group_task t[] = {{"hellaswag", 400, 0, 0}, {"mmlu_anatomy", 100, 0, 2}, {"mmlu_virology", 300, 0, 2}, {"piqa", 400, 0, 1}, {"copa", 9, 1, 4}};
    const double mean[] = {0.5, 0.2, 0.6, 0.8, 1}, se[] = {0.02, 0.04, 0.02, 0.01, 1};
    infq_groups s;
    infq_group_score x;
    char words[64];
    infq_err err;

    ck_ok(infq_groups_find(c, t, 5, suites, 2, &s, &err), err);
    ck_assert_int_eq(s.n, 2); // mmlu with two tasks; areas have one each, the second suite one entry
    ck_assert_ptr_nonnull(find(&s, "mmlu"));
    x = infq_group_score_of(find(&s, "mine"), mean, se);
    ck_assert_double_eq_tol(x.mean, (0.5 + 0.8 + (0.25 * 0.2 + 0.75 * 0.6)) / 3, 1e-15);
    ck_assert_double_eq_tol(x.se, sqrt(0.02 * 0.02 + 0.01 * 0.01 + 0.01 * 0.01 + 0.015 * 0.015) / 3, 1e-15);
    infq_group_words(find(&s, "mine"), words, sizeof(words));
    ck_assert_str_eq(words, "3 entries, each alike");
    infq_groups_free(&s);
    infq_catalog_free(c);
}
END_TEST

START_TEST(a_gap_is_stratified_and_its_error_that_of_the_pairs)
{
    infq_catalog *c = catalog();
    const infq_group_task names[] = {{"mmlu_anatomy", 100, -1, -1}, {"piqa", 200, -1, -1}, {"mmlu_virology", 300, -1, -1}};
    infq_gate_options o = infq_gate_options_default();
    infq_gate_task a, b, p;
    const infq_gate_task *t[] = {&a, &p, &b};
    infq_groups s;
    infq_group_gap g;
    infq_err err;

    infq_gate_binary(9, 4, 100, &o, &a);
    infq_gate_binary(0, 0, 300, &o, &b);
    infq_gate_binary(50, 1, 200, &o, &p);
    ck_ok(infq_groups_find(c, names, 3, NULL, 0, &s, &err), err);
    ck_assert_int_eq(s.n, 1);
    ck_assert(infq_group_gap_of(&s.g[0], t, &o, &g));
    ck_assert_int_eq(g.n, 400);
    ck_assert_int_eq(g.b, 9);
    ck_assert_double_eq_tol(g.gap, -5.0 / 400, 1e-15);
    // 300 items without a flip are no certainty: the score variance at the margin
    ck_assert_double_eq_tol(g.se, sqrt(a.se * a.se / 16 + 9.0 / 16 * infq_tango_var(0, 0, 300, -o.margin)), 1e-15);
    ck_assert_double_eq_tol(g.ci.hi - g.gap, infq_norm_quantile(0.95) * g.se, 1e-12);
    t[2] = NULL;
    ck_assert(!infq_group_gap_of(&s.g[0], t, &o, &g));
    infq_groups_free(&s);
    infq_catalog_free(c);
}
END_TEST

START_TEST(errors_equal_golden_by_items_each_alike_and_as_the_reference_harness_pools_them)
{
    cJSON *doc;
    const cJSON *o;
    int n = 0;

    TEST_NEEDS_SHARED();
    doc = test_json(test_shared_path("specs/vectors/statistics.json"));
    cJSON_ArrayForEach(o, infq_json_get(doc, "group_stderr")) {
        const cJSON *sizes = infq_json_get(o, "n");
        int task[16], k = cJSON_GetArraySize(sizes);
        double mean[16] = {0}, se[16], weight[16];
        int64_t items[16];
        infq_group g = {.n = k, .task = task, .items = items, .weight = weight};
        infq_group_score x;
        ck_assert_int_le(k, 16);
        for (int i = 0; i < k; i++) {
            task[i] = i;
            items[i] = (int64_t)cJSON_GetArrayItem(sizes, i)->valuedouble;
            se[i] = cJSON_GetArrayItem(infq_json_get(o, "se"), i)->valuedouble;
            g.n_items += items[i];
        }
        for (int i = 0; i < k; i++)
            weight[i] = (double)items[i] / (double)g.n_items;
        x = infq_group_score_of(&g, mean, se);
        ck_assert_double_eq_tol(x.pooled, infq_json_get(o, "pooled_harness_style")->valuedouble, 1e-14);
        ck_assert_double_eq_tol(x.se, infq_json_get(o, "stratified_size_weighted")->valuedouble, 1e-14);
        for (int i = 0; i < k; i++)
            weight[i] = 1.0 / k;
        ck_assert_double_eq_tol(infq_group_score_of(&g, mean, se).se, infq_json_get(o, "macro_equal_weight")->valuedouble, 1e-14);
        n++;
    }
    ck_assert_int_gt(n, 0);
    cJSON_Delete(doc);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("group");
    TCase *c = tcase_create("group");

    tcase_add_test(c, all_of_mmlu_counts_by_items_and_has_its_four_parts);
    tcase_add_test(c, paradigms_of_blimp_count_alike_and_missing_ones_are_told);
    tcase_add_test(c, an_entry_of_a_suite_that_is_a_group_counts_once);
    tcase_add_test(c, a_gap_is_stratified_and_its_error_that_of_the_pairs);
    tcase_add_test(c, errors_equal_golden_by_items_each_alike_and_as_the_reference_harness_pools_them);
    suite_add_tcase(s, c);
    return test_main(s);
}
