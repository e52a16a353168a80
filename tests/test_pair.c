/* Two sides joined item by item, and sample logs of the reference harness (specs 6.4). */
#include "tests/gate_pairs.h"

#define SETTINGS "infq=1 bos=model"

static infq_items *loaded(const char *name, const char *text, const infq_items_options *o)
{
    char path[4200];
    infq_items *s;
    infq_err err;

    snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
    ck_ok(infq_items_load_with(path, o, &s, &err), err);
    return s;
}

START_TEST(items_are_joined_by_document_in_any_order)
{
    static const bool right[4] = {true, false, true, true};
    infq_items *a = gate_items("t", SETTINGS, right, 4), *b = gate_items("t", SETTINGS, right, 4);
    infq_pair *p;

    infq_items_get(b, 0)->doc = 3; /* 3, 1, 2, 0: other items were scored first */
    infq_items_get(b, 3)->doc = 0;
    strcpy(infq_items_get(b, 0)->request, infq_items_get(a, 3)->request);
    strcpy(infq_items_get(b, 3)->request, infq_items_get(a, 0)->request);
    p = gate_pair_of(a, b);
    ck_assert_int_eq(p->n, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(p->doc[i], i);
        ck_assert_double_eq(p->d[i], 0);
    }
    ck_assert(p->binary);
    ck_assert(isnan(p->flip_rate_a));
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(runs_become_means_scores_and_flips)
{
    const infq_items *a[3] = {gate_run("t", SETTINGS, 5, 10), gate_run("t", SETTINGS " seed=2", 6, 10), gate_run("t", SETTINGS " seed=3", 5, 10)};
    const infq_items *b[2] = {gate_run("t", SETTINGS, 4, 10), gate_run("t", SETTINGS " seed=2", 4, 10)};
    infq_pair *p;
    infq_err err;

    ck_ok(infq_pair_new(a, 3, b, 2, NULL, &p, &err), err);
    ck_assert(!p->binary);
    ck_assert_double_eq_tol(p->scores_a[1], 0.6, 1e-15);
    ck_assert_double_eq_tol(p->scores_b[1], 0.4, 1e-15);
    ck_assert_double_eq_tol(p->x[5], 1.0 / 3, 1e-15);
    ck_assert_double_eq_tol(p->d[4], -1, 1e-15);
    ck_assert_double_eq_tol(p->flip_rate_a, 2.0 / 3 / 10, 1e-15); /* item 5 differs in two of three pairs */
    ck_assert(isnan(p->crossed.mean));
    infq_pair_free(p);
    ck_ok(infq_pair_new(a, 2, b, 2, NULL, &p, &err), err);
    ck_assert_double_eq_tol(p->crossed.mean, -0.15, 1e-15);
    infq_pair_free(p);
    for (int i = 0; i < 3; i++)
        infq_items_free((infq_items *)a[i]);
    for (int i = 0; i < 2; i++)
        infq_items_free((infq_items *)b[i]);
}
END_TEST

START_TEST(the_first_difference_is_named)
{
    static const struct {
        const char *what;
        const char *says;
    } cases[] = {{"twice", "document 2 is there twice"}, {"missing", "document 4 is on one side only"}, {"request", "document 1 was asked with other tokens"},
                 {"gold", "document 3 differs in kind, choices or answer"}, {"settings", "settings differs"}, {"metric", "has no metric f1"}};

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        infq_items *a = gate_run("t", SETTINGS, 3, 5), *b = gate_run("t", k == 4 ? "infq=2 bos=model" : SETTINGS, 3, 5);
        infq_pair *p;
        infq_err err;
        infq_status st;
        if (k == 0)
            infq_items_get(b, 3)->doc = 2;
        if (k == 1)
            infq_items_get(b, 4)->doc = 9;
        if (k == 2)
            strcpy(infq_items_get(b, 1)->request, "ffff");
        if (k == 3)
            infq_items_get(b, 3)->gold = 1;
        st = infq_pair_new((const infq_items *const *)&a, 1, (const infq_items *const *)&b, 1, k == 5 ? "f1" : NULL, &p, &err);
        ck_assert_msg(st == (k == 5 ? INFQ_E_UNSUPPORTED : INFQ_E_MISMATCH), "%s: %s", cases[k].what, err.msg);
        ck_assert_msg(strstr(err.msg, cases[k].says) != NULL, "%s: %s", cases[k].what, err.msg);
        infq_items_free(a);
        infq_items_free(b);
    }
}
END_TEST

START_TEST(runs_of_one_variation_are_comparable_whatever_their_seeds)
{
    static const struct {
        const char *a, *b;
        bool same;
    } t[] = {
        {"infq=1 run: kv=BF16 k_parts=9 seed=1", "infq=1 run: kv=BF16 k_parts=4 seed=2 carried", true},
        {"infq=1 run: kv=BF16 seed=1", "infq=1 run: kv=BF16 seed=1", true},
        {"infq=1 run: kv=BF16 seed=1", "infq=1 run: kv=F16 seed=1", false},
        {"infq=1 run: kv=BF16 seed=1", "infq=2 run: kv=BF16 seed=1", false},
        {"infq=1 run: kv=BF16 seed=1", "infq=1", false},
        {"infq=1 seed=1", "infq=1 seed=2", false},
        {"infq=1 run: a", "infq=1 run: a b", false},
        {"", "infq=1", true},
    };

    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
        if (infq_settings_comparable(t[i].a, t[i].b) != t[i].same || infq_settings_comparable(t[i].b, t[i].a) != t[i].same)
            ck_abort_msg("%s, %s", t[i].a, t[i].b);
    ck_assert_str_eq(infq_first_difference("a=1 b=2", "a=1 b=3"), "a=1 b=2");
    ck_assert_str_eq(infq_first_difference("a long line of settings that are the same seed=1 kv=2", "a long line of settings that are the same seed=2 kv=2"),
                     "seed=1 kv=2");
}
END_TEST

START_TEST(not_a_number_is_refused)
{
    infq_items *a = gate_run("t", SETTINGS, 3, 5), *b = gate_run("t", SETTINGS, 3, 5);
    infq_pair *p;
    infq_err err;

    infq_items_get(b, 2)->metrics[0].value = NAN;
    ck_assert_int_eq(infq_pair_new((const infq_items *const *)&a, 1, (const infq_items *const *)&b, 1, NULL, &p, &err), INFQ_E_NUMERIC);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(cutting_keeps_what_was_seen)
{
    static const int64_t order[3] = {4, 0, 2};
    infq_items *a, *b;
    infq_pair *p;
    infq_err err;

    gate_sides("t", SETTINGS, 1, 1, 6, &a, &b); /* item 0 lost, item 1 won */
    p = gate_pair_of(a, b);
    ck_ok(infq_pair_cut(p, order, 3, &err), err);
    ck_assert_int_eq(p->n, 3);
    ck_assert_int_eq(p->doc[0], 4);
    ck_assert_double_eq(p->d[1], -1);
    ck_assert_double_eq_tol(p->scores_a[0] - p->scores_b[0], 1.0 / 3, 1e-15);
    ck_assert_int_eq(infq_pair_cut(p, order, 4, &err), INFQ_E_USAGE);
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(clusters_come_from_names_or_items)
{
    char *names[4] = {"one", "two", "one", "two"};
    infq_items *a = gate_run("t", SETTINGS, 2, 4), *b = gate_run("t", SETTINGS, 1, 4);
    infq_pair *p = gate_pair_of(a, b);
    infq_err err;

    ck_assert_ptr_null(p->cluster);
    ck_ok(infq_pair_set_clusters(p, names, 4, &err), err);
    ck_assert_int_eq(p->n_clusters, 2);
    ck_assert_int_eq(p->cluster[0], p->cluster[2]);
    ck_assert_int_ne(p->cluster[0], p->cluster[1]);
    names[3] = "";
    ck_assert_int_eq(infq_pair_set_clusters(p, names, 4, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "document 3") != NULL, "%s", err.msg);
    infq_pair_free(p);
    strcpy(infq_items_get(a, 0)->cluster, "00ff00ff00ff00ff");
    strcpy(infq_items_get(a, 1)->cluster, "00ff00ff00ff00ff");
    p = gate_pair_of(a, b);
    ck_assert_int_eq(p->n_clusters, 3); /* two together, two alone */
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

START_TEST(marks_of_generated_answers_are_counted)
{
    infq_items *a = gate_run("t", SETTINGS, 4, 8), *b = gate_run("t", SETTINGS, 4, 8);
    infq_pair *p;

    for (int i = 0; i < 8; i++) {
        infq_item_metric_add(infq_items_get(a, i), "invalid", i == 0);
        infq_item_metric_add(infq_items_get(b, i), "invalid", i == 0 || i == 1 || i == 2);
        infq_item_metric_add(infq_items_get(a, i), "length", 10);
        infq_item_metric_add(infq_items_get(b, i), "length", 12);
    }
    p = gate_pair_of(a, b);
    ck_assert(p->invalid.known);
    ck_assert_int_eq(p->invalid.lost, 2);
    ck_assert_int_eq(p->invalid.won, 0);
    ck_assert(!p->truncated.known);
    ck_assert_double_eq_tol(p->length_ratio, 1.2, 1e-15);
    infq_pair_free(p);
    infq_items_free(a);
    infq_items_free(b);
}
END_TEST

/* As the harness writes them: leaves of responses are text, arguments a tree, hashes 64 hex digits. */
#define CHOICE(id, gold, first, second, acc)                                                                                      \
    "{\"doc_id\":" #id ",\"doc\":{\"passage\":\"p" #gold "\",\"question\":\"q\"},\"target\":\"" #gold "\",\"arguments\":{\"gen_args_0\":{"  \
    "\"arg_0\":\"q\",\"arg_1\":\" no\"},\"gen_args_1\":{\"arg_0\":\"q\",\"arg_1\":\" yes\"}},\"resps\":[[[\"" first "\",\"False\"]],[[\"" \
    second "\",\"True\"]]],\"filtered_resps\":[[\"" first "\",\"False\"],[\"" second "\",\"True\"]],\"filter\":\"none\",\"metrics\":[\"acc\"," \
    "\"acc_norm\"],\"doc_hash\":\"000000000000000000000000000000000000000000000000000000000000d00" #id "\",\"prompt_hash\":\""            \
    "00000000000000000000000000000000000000000000000000000000000000b" #id "\",\"target_hash\":\"00\",\"acc\":" acc ",\"acc_norm\":" acc "}\n"

START_TEST(sample_logs_of_choices_hold_scores_and_likelihoods)
{
    const char *log = CHOICE(0, 1, "-12.5", "-3.25", "1.0") CHOICE(1, 0, "-9.0", "-2.5", "0.0");
    infq_items_options o = infq_items_options_default();
    infq_items *s = loaded("samples_boolq_2026-01-31T12-00-00.123456.jsonl", log, &o);
    const infq_item *it = infq_items_get(s, 0);
    double v;

    ck_assert_str_eq(infq_items_key(s)->task, "boolq");
    ck_assert_str_eq(infq_items_key(s)->metric, "acc");
    ck_assert_int_eq(it->kind, INFQ_ITEM_CHOICE);
    ck_assert_int_eq(it->n, 2);
    ck_assert_double_eq(it->ll[0], -12.5);
    ck_assert(!it->greedy[0] && it->greedy[1]);
    ck_assert_int_eq(it->gold, 1);
    ck_assert_int_eq(it->pick, 1);
    ck_assert(infq_item_metric_get(it, "acc_norm", &v) && v == 1);
    ck_assert_str_ne(it->request, infq_items_get(s, 1)->request);
    infq_items_free(s);
    o.cluster = "passage";
    s = loaded("samples_boolq_2026-01-31T12-00-00.jsonl", log, &o);
    ck_assert_str_eq(infq_items_key(s)->task, "boolq");
    ck_assert_int_eq(strlen(infq_items_get(s, 0)->cluster), 16);
    ck_assert_str_ne(infq_items_get(s, 0)->cluster, infq_items_get(s, 1)->cluster);
    infq_items_free(s);
}
END_TEST

#define GENERATED(id, filter, taken, score)                                                                                         \
    "{\"doc_id\":" #id ",\"doc\":{\"question\":\"q\"},\"target\":\"#### 5\",\"arguments\":{\"gen_args_0\":{\"arg_0\":\"q\",\"arg_1\":{\"until\":[" \
    "\"\\n\\n\"],\"do_sample\":false}}},\"resps\":[[\"The answer is \\u00e9 5.\"]],\"filtered_resps\":[\"" taken "\"],\"filter\":\"" filter     \
    "\",\"metrics\":[\"exact_match\",\"inst\"],\"doc_hash\":\"aa\",\"prompt_hash\":\"bb\",\"target_hash\":\"cc\",\"exact_match\":" score         \
    ",\"inst\":[true,false]}\n"

START_TEST(sample_logs_of_answers_tell_what_is_invalid)
{
    const char *log = GENERATED(0, "strict-match", "[invalid]", "0.0") GENERATED(0, "flexible-extract", "5", "1.0")
        GENERATED(1, "strict-match", "5", "true") GENERATED(1, "flexible-extract", "5", "1.0");
    infq_items_options o = infq_items_options_default();
    infq_items *s = loaded("samples_gsm8k_2026-01-31T12-00-00.5.jsonl", log, &o);
    char path[4200];
    infq_err err;
    double v;

    ck_assert_int_eq(infq_items_count(s), 2);
    ck_assert(infq_item_metric_get(infq_items_get(s, 0), "invalid", &v) && v == 1);
    ck_assert(infq_item_metric_get(infq_items_get(s, 0), "length", &v) && v == 18);
    ck_assert(infq_item_metric_get(infq_items_get(s, 1), "exact_match", &v) && v == 1); /* true counts as 1 */
    ck_assert(!infq_item_metric_get(infq_items_get(s, 1), "inst", &v));
    infq_items_free(s);
    o.filter = "flexible-extract";
    s = loaded("samples_gsm8k_2026-01-31T12-00-01.jsonl", log, &o);
    ck_assert(infq_item_metric_get(infq_items_get(s, 0), "exact_match", &v) && v == 1);
    infq_items_free(s);
    o.filter = "other";
    snprintf(path, sizeof(path), "%s/x.jsonl", test_tmpdir());
    ck_ok(infq_file_write_atomic(path, log, strlen(log), true, &err), err);
    ck_assert_int_eq(infq_items_load_with(path, &o, &s, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "filter other") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(broken_sample_logs_are_named)
{
    static const char *const bad[][2] = {
        {"{\"doc_id\":0,\"metrics\":[\"acc\"],\"acc\":NaN}\n", "line 1"},
        {"{\"doc_id\":-1,\"metrics\":[\"acc\"],\"acc\":1}\n", "doc_id is missing"},
        {"{\"doc_id\":0,\"metrics\":[\"bleu\"],\"bleu\":[1,2]}\n", "no metric with a number"},
        {"{\"doc_id\":0,\"metrics\":[\"acc\"],\"acc\":1}\n{\"doc_id\":1,\"metrics\"", "line 2"},
    };
    infq_items_options o = infq_items_options_default();

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char path[4200];
        infq_items *s;
        infq_err err;
        snprintf(path, sizeof(path), "%s/bad.jsonl", test_tmpdir());
        ck_ok(infq_file_write_atomic(path, bad[i][0], strlen(bad[i][0]), true, &err), err);
        ck_assert_msg(infq_items_load_with(path, &o, &s, &err) != 0, "%s was read", bad[i][0]);
        ck_assert_msg(strstr(err.msg, bad[i][1]) != NULL, "%s", err.msg);
    }
}
END_TEST

/* Likelihoods of goldens/evals in the harness's shape: the harness computed both, so the pick must be the metric. */
START_TEST(golden_items_survive_the_harness_shape)
{
    cJSON *line;
    char *text, *at, *end;
    infq_buf raw, log;
    infq_items_options o = infq_items_options_default();
    infq_items *s;
    infq_err err;
    int64_t right = 0;

    TEST_NEEDS_SHARED();
    infq_buf_init(&raw);
    infq_buf_init(&log);
    ck_ok(infq_file_read(test_shared_path("goldens/evals/smollm2-135m/copa.jsonl"), (size_t)1 << 26, &raw, &err), err);
    for (at = raw.data; *at; at = end + 1) {
        const cJSON *r;
        bool first = true;
        end = strchr(at, '\n');
        ck_ok(infq_json_parse(at, (size_t)(end - at), "golden", &line, &err), err);
        infq_buf_fmt(&log, "{\"doc_id\":%d,\"target\":\"%d\",\"filter\":\"none\",\"metrics\":[\"acc\"],\"acc\":%g,\"filtered_resps\":[",
                     infq_json_get(line, "doc")->valueint, infq_json_get(line, "gold")->valueint,
                     infq_json_get(infq_json_get(line, "metrics"), "acc")->valuedouble);
        cJSON_ArrayForEach(r, infq_json_get(line, "requests")) {
            infq_buf_fmt(&log, "%s[\"%.17g\",\"%s\"]", first ? "" : ",", infq_json_get(r, "ll")->valuedouble,
                         cJSON_IsTrue(infq_json_get(r, "greedy")) ? "True" : "False");
            first = false;
        }
        infq_buf_str(&log, "]}\n");
        cJSON_Delete(line);
    }
    text = infq_buf_take(&log);
    s = loaded("samples_copa_2026-01-31T12-00-00.jsonl", text, &o);
    ck_assert_int_ge(infq_items_count(s), 50);
    for (int64_t i = 0; i < infq_items_count(s); i++) {
        const infq_item *it = infq_items_get(s, i);
        double acc;
        ck_assert(infq_item_metric_get(it, "acc", &acc));
        ck_assert_int_eq(it->pick == it->gold, acc == 1);
        right += acc == 1;
    }
    ck_assert_int_gt(right, 0);
    infq_items_free(s);
    infq_mem_free(text);
    infq_buf_deinit(&raw);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pair");
    TCase *p = tcase_create("pairs"), *l = tcase_create("sample logs");

    tcase_add_test(p, items_are_joined_by_document_in_any_order);
    tcase_add_test(p, runs_become_means_scores_and_flips);
    tcase_add_test(p, the_first_difference_is_named);
    tcase_add_test(p, runs_of_one_variation_are_comparable_whatever_their_seeds);
    tcase_add_test(p, not_a_number_is_refused);
    tcase_add_test(p, cutting_keeps_what_was_seen);
    tcase_add_test(p, clusters_come_from_names_or_items);
    tcase_add_test(p, marks_of_generated_answers_are_counted);
    tcase_add_test(l, sample_logs_of_choices_hold_scores_and_likelihoods);
    tcase_add_test(l, sample_logs_of_answers_tell_what_is_invalid);
    tcase_add_test(l, broken_sample_logs_are_named);
    tcase_add_test(l, golden_items_survive_the_harness_shape);
    suite_add_tcase(s, p);
    suite_add_tcase(s, l);
    return test_main(s);
}
