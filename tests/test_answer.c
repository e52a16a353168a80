/* Answers of generation tasks: the reference's judgements, lists of answers, instructions, item lines. */
#include "lib/eval/answer.h"

#include "lib/eval/score.h"
#include "tests/testlib.h"

static infq_err err;

static infq_items *items_new(void)
{
    infq_item_key key;
    infq_items *s = NULL;

    memset(&key, 0, sizeof(key));
    strcpy(key.task, "t");
    strcpy(key.metric, "exact");
    ck_ok(infq_items_new(&key, &s, &err), err);
    return s;
}

static infq_item *judged(infq_items *s, const char *rule, const char *text, const char *stop, const char *target, const char *row)
{
    infq_answers *a = NULL;
    infq_item *it;

    ck_ok(infq_answers_open(rule, NULL, &a, &err), err);
    ck_ok(infq_items_add(s, 1, &it, &err), err);
    it->doc = infq_items_count(s) - 1;
    it->kind = INFQ_ITEM_GENERATE;
    it->n_tokens[0] = 12;
    strcpy(it->request, "0123456789abcdef");
    ck_ok(infq_items_text(s, text, strlen(text), &it->text, &err), err);
    ck_ok(infq_items_text(s, stop, strlen(stop), &it->stop, &err), err);
    ck_ok(infq_answers_judge(a, s, it, text, strlen(text), target, row, &err), err);
    infq_answers_close(a);
    return it;
}

static double metric(const infq_item *it, const char *name)
{
    double v = -1;

    ck_assert_msg(infq_item_metric_get(it, name, &v), "no metric %s", name);
    return v;
}

static double exact_match(const cJSON *item, const char *filter)
{
    return infq_json_get(infq_json_get(infq_json_get(item, "metrics"), filter), "exact_match")->valuedouble;
}

// Item by item: extracted answer and score of the two filters.
static int golden(const char *model, const char *task, const char *rule, const char *first, const char *first_name,
                  const char *second,
                  const char *second_name)
{
    char rel[200];
    infq_items *s = items_new();
    infq_buf file;
    int n = 0;

    snprintf(rel, sizeof(rel), "goldens/evals/%s/%s.jsonl", model, task);
    infq_buf_init(&file);
    ck_ok(infq_file_read(test_shared_path(rel), (size_t)1 << 26, &file, &err), err);
    for (char *line = file.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
        cJSON *o = NULL;
        infq_item *it;
        *end = '\0';
        ck_ok(infq_json_parse(line, strlen(line), task, &o, &err), err);
        it = judged(s, rule, infq_json_get(o, "output")->valuestring, "eos", infq_json_get(o, "target")->valuestring, NULL);
        ck_assert_str_eq(it->answer, infq_json_get(infq_json_get(o, "extracted"), first_name)->valuestring);
        ck_assert_double_eq(metric(it, first), exact_match(o, first_name));
        ck_assert_double_eq(metric(it, second), exact_match(o, second_name));
        cJSON_Delete(o);
    }
    infq_buf_deinit(&file);
    infq_items_free(s);
    return n;
}

START_TEST(golden_answers_are_judged_as_the_reference_does)
{
    TEST_NEEDS_SHARED();
    for (int m = 0; m < 2; m++) {
        const char *model = m ? "smollm2-135m" : "stories260k";
        ck_assert_int_ge(golden(model, "gsm8k", "gsm8k", "exact_strict", "strict-match", "exact_flexible", "flexible-extract"),
                         8);
        ck_assert_int_ge(golden(model, "mgsm_direct_fr", "mgsm", "exact_flexible", "flexible-extract", "exact_whole",
                                "remove_whitespace"), 8);
    }
}
END_TEST

START_TEST(numbers_are_taken_and_compared)
{
    infq_items *s = items_new();
    infq_item *it = judged(s, "gsm8k", "So 3 + 4 = 7.\n#### $7", "eos", "work\n#### 7", NULL);

    ck_assert_double_eq(metric(it, "exact_strict"), 0);
    ck_assert_double_eq(metric(it, "exact_flexible"), 1);
    ck_assert_double_eq(metric(it, "invalid"), 1);
    ck_assert_double_eq(metric(it, "truncated"), 0);
    ck_assert_double_eq(metric(it, "length"), 12);
    ck_assert_str_eq(it->answer, "[invalid]");
    ck_assert_str_eq(it->target, "work\n#### 7");
    it = judged(s, "cot", "We see. The answer is 1,200.", "length", "1200", NULL);
    ck_assert_double_eq(metric(it, "exact_strict"), 1);
    ck_assert_double_eq(metric(it, "truncated"), 1);
    infq_items_free(s);
}
END_TEST

START_TEST(any_of_several_answers_is_right)
{
    infq_items *s = items_new();

    ck_assert_double_eq(metric(judged(s, "words", " The Eiffel tower!\n", "eos", "[\"Big Ben\", \"eiffel tower\"]", NULL),
                               "exact"), 1);
    ck_assert_double_eq(metric(judged(s, "words", "Eiffel", "eos", "[\"Big Ben\", \"eiffel tower\"]", NULL), "exact"), 0);
    ck_assert_double_eq(metric(judged(s, "exact", " yes ", "eos", "yes", NULL), "exact"), 1);
    ck_assert_double_eq(metric(judged(s, "exact", "Yes", "eos", "yes", NULL), "exact"), 0);
    infq_items_free(s);
}
END_TEST

START_TEST(instructions_are_pooled_over_items)
{
    static const char one[] = "{\"instruction_id_list\":[\"punctuation:no_comma\"],\"kwargs\":[{}]}";
    static const char three[] = "{\"instruction_id_list\":[\"punctuation:no_comma\",\"startend:quotation\",\"detectable_format:title\"],"
                                "\"kwargs\":[{},{},{}]}";
    infq_items *s = items_new();
    infq_item *it = judged(s, "ifeval", "no", "eos", "", one);
    infq_score sc[INFQ_ITEM_METRICS];
    int n;

    ck_assert_double_eq(metric(it, "prompt_strict"), 1);
    it = judged(s, "ifeval", "no", "eos", "", three);
    ck_assert_double_eq(metric(it, "prompt_strict"), 0);
    ck_assert_double_eq_tol(metric(it, "inst_strict"), 1.0 / 3, 1e-15);
    ck_assert_int_eq(it->parts, 3);
    ck_ok(infq_score_summary(s, sc, INFQ_ITEM_METRICS, &n, &err), err);
    for (int i = 0; i < n; i++) {
        if (strcmp(sc[i].name, "prompt_strict") == 0)
            ck_assert_double_eq_tol(sc[i].mean, 0.5, 1e-15);
        if (strcmp(sc[i].name, "inst_strict") == 0) // 2 of 4, not the mean of 1 and 1/3
            ck_assert_double_eq_tol(sc[i].mean, 0.5, 1e-15);
        if (strcmp(sc[i].name, "inst_loose") == 0)
            ck_assert_double_gt(sc[i].se, 0);
    }
    infq_items_free(s);
}
END_TEST

START_TEST(items_are_written_and_read_back)
{
    const char *dir = test_tmpdir();
    char path[300];
    infq_items *s = items_new(), *back = NULL;
    infq_item_log *log = NULL;
    infq_item *it, *b;
    infq_buf one, two;

    snprintf(path, sizeof(path), "%s/items.jsonl", dir);
    ck_ok(infq_item_log_open(path, s, &log, &err), err);
    it = judged(s, "gsm8k", "quotes \" and\nlines \xc3\xa9 #### 5", "stop", "5", NULL);
    it->cut = 3;
    ck_ok(infq_item_log_add(log, it, &err), err);
    it = judged(s, "code", "", "length", "", NULL);
    ck_assert_double_eq(metric(it, "empty"), 1);
    ck_ok(infq_item_log_add(log, it, &err), err);
    ck_ok(infq_item_log_close(log, &err), err);
    ck_ok(infq_items_load(path, &back, &err), err);
    ck_assert_int_eq(infq_items_count(back), 2);
    for (int i = 0; i < 2; i++) {
        infq_buf_init(&one);
        infq_buf_init(&two);
        it = infq_items_get(s, i);
        b = infq_items_get(back, i);
        infq_item_write(it, &one);
        infq_item_write(b, &two);
        ck_assert_str_eq(one.data, two.data);
        ck_assert_str_eq(it->text, b->text);
        ck_assert_int_eq(b->kind, INFQ_ITEM_GENERATE);
        infq_buf_deinit(&one);
        infq_buf_deinit(&two);
    }
    ck_assert_int_eq(infq_items_get(back, 0)->cut, 3);
    infq_items_free(s);
    infq_items_free(back);
}
END_TEST

START_TEST(metrics_are_known_before_anything_is_judged)
{
    static const char *const row = "{\"key\":1,\"prompt\":\"x\",\"instruction_id_list\":[\"punctuation:no_comma\"],\"kwargs\":[{}]}";
    infq_items *s = items_new();

    for (int i = 0; i < infq_answers_count(); i++) {
        const char *rule = infq_answers_name(i);
        const infq_item *it;
        int n = 0;
        if (strcmp(rule, "regex") == 0) // as exact, with an expression of the task
            continue;
        it = judged(s, rule, "#### 4", "eos", strcmp(rule, "words") == 0 ? "[\"4\"]" : "4", strcmp(rule, "ifeval") == 0 ? row : NULL);
        for (; infq_answers_metric(rule, n); n++)
            metric(it, infq_answers_metric(rule, n));
        ck_assert_msg(n == it->n_metrics, "%s: %d metrics, %d announced", rule, it->n_metrics, n);
    }
    ck_assert_ptr_null(infq_answers_metric("no such rule", 0));
    ck_assert_ptr_null(infq_answers_metric("exact", -1));
    infq_items_free(s);
}
END_TEST

START_TEST(unknown_rules_and_bad_targets_are_named)
{
    infq_answers *a = NULL;
    infq_items *s = items_new();
    infq_item *it;

    ck_assert_int_eq(infq_answers_open("gsm9k", NULL, &a, &err), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "gsm8k, mgsm"));
    ck_ok(infq_answers_open("words", NULL, &a, &err), err);
    ck_ok(infq_items_add(s, 1, &it, &err), err);
    it->stop = "eos";
    ck_assert_int_eq(infq_answers_judge(a, s, it, "x", 1, "no list", NULL, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_answers_judge(a, s, it, "x", 1, "[1]", NULL, &err), INFQ_E_FORMAT);
    infq_answers_close(a);
    for (int i = 0; i < infq_answers_count(); i++) {
        ck_ok(infq_answers_open(infq_answers_name(i), NULL, &a, &err), err);
        infq_answers_close(a);
    }
    infq_items_free(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer");
    TCase *t = tcase_create("judging");

    tcase_add_test(t, golden_answers_are_judged_as_the_reference_does);
    tcase_add_test(t, numbers_are_taken_and_compared);
    tcase_add_test(t, any_of_several_answers_is_right);
    tcase_add_test(t, instructions_are_pooled_over_items);
    tcase_add_test(t, items_are_written_and_read_back);
    tcase_add_test(t, metrics_are_known_before_anything_is_judged);
    tcase_add_test(t, unknown_rules_and_bad_targets_are_named);
    suite_add_tcase(s, t);
    return test_main(s);
}
