/* Answers taken from text and compared: the reference's vectors, stops, reasoning. */
#include "lib/eval/extract.h"
#include "tests/testlib.h"

static infq_err err;

static void extracts(const char *pattern, bool last, const char *text, const char *want)
{
    infq_extract *x = NULL;
    infq_buf out;
    bool found;

    infq_buf_init(&out);
    ck_ok(infq_extract_new(pattern, last, &x, &err), err);
    ck_ok(infq_extract_apply(x, text, strlen(text), &out, &found, &err), err);
    ck_assert_msg(strcmp(out.data, want) == 0, "<%s> of <%s> gives <%s>, not <%s>", pattern ? pattern : "all", text, out.data,
                  want);
    ck_assert_int_eq(found, strcmp(want, INFQ_EXTRACT_INVALID) != 0);
    infq_buf_deinit(&out);
    infq_extract_free(x);
}

static const char *text_of(const cJSON *o, const char *key)
{
    return infq_json_get(o, key)->valuestring;
}

START_TEST(golden_outputs_give_the_reference_answers)
{
    cJSON *g;
    const cJSON *c;
    int n = 0;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/extract.json"));
    cJSON_ArrayForEach(c, infq_json_get(g, "extract")) {
        extracts(text_of(infq_json_get(g, "strict"), "regex_pattern"), false, text_of(c, "output"), text_of(c, "strict"));
        extracts(text_of(infq_json_get(g, "flexible"), "regex_pattern"), true, text_of(c, "output"), text_of(c, "flexible"));
        extracts(NULL, false, text_of(c, "output"), text_of(c, "blanks_removed"));
        n++;
    }
    ck_assert_int_ge(n, 35);
    cJSON_Delete(g);
}
END_TEST

static void matches(const infq_match_rule *rule, const char *a, const char *b, bool want)
{
    infq_match *m = NULL;
    bool same;

    ck_ok(infq_match_new(rule, &m, &err), err);
    ck_ok(infq_match_equal(m, a, strlen(a), b, strlen(b), &same, &err), err);
    ck_assert_msg(same == want, "<%s> and <%s>: %s", a, b, same ? "equal" : "not equal");
    infq_match_free(m);
}

static const char *const gsm8k_ignore[] = { ",", "\\$", "(?s).*#### ", "\\.$" };
static const infq_match_rule gsm8k = { gsm8k_ignore, 4, true, false, false, false };

START_TEST(golden_pairs_match_as_the_reference_says)
{
    const infq_match_rule plain = { 0 }, no_punctuation = { NULL, 0, true, true, false, false };
    cJSON *g;
    const cJSON *c;
    int n = 0;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/extract.json"));
    cJSON_ArrayForEach(c, infq_json_get(g, "match")) {
        const char *a = text_of(c, "prediction"), *b = text_of(c, "target");
        matches(&gsm8k, a, b, infq_json_get(c, "gsm8k")->valuedouble == 1);
        matches(&no_punctuation, a, b, infq_json_get(c, "no_punctuation")->valuedouble == 1);
        matches(&plain, a, b, infq_json_get(c, "plain")->valuedouble == 1);
        n++;
    }
    ck_assert_int_ge(n, 40);
    cJSON_Delete(g);
}
END_TEST

START_TEST(extraction_takes_groups_and_ends)
{
    extracts("#### (-?[0-9.,]+)", false, "a #### 3 b #### 4", "3");
    extracts("#### (-?[0-9.,]+)", true, "a #### 3 b #### 4", "4");
    extracts("(x)|(y*)z", false, "z", "[invalid]");
    extracts("(a)|(b)", true, "a b", "b");
    extracts("\\w+", true, " one  deux\xc3\xa9 ", "deux\xc3\xa9");
    extracts("The answer is (.+?)\\.", false, "So. The answer is  42 . The answer is 3.", "42");
    extracts(NULL, false, "\n \t ", "");
    extracts(".+", false, "a\xff z", "a\xef\xbf\xbd z");
}
END_TEST

START_TEST(matching_ignores_what_it_is_told_to)
{
    const infq_match_rule words = { NULL, 0, true, true, false, true }, numbers = { NULL, 0, false, false, true, false };

    matches(&gsm8k, "$1,234.", "Steps\nmore\n#### 1234", true);
    matches(&gsm8k, "12", "13", false);
    matches(&words, " The  Eiffel-Tower!", "eiffeltower", true);
    matches(&words, "An apple and the pear", "apple and pear", true);
    matches(&numbers, "a1b2", "ab", true);
    matches(&words, "", "the", true);
}
END_TEST

START_TEST(broken_expressions_are_named)
{
    infq_extract *x = NULL;
    const char *bad[] = { "(" };
    infq_match_rule r = { bad, 1, false, false, false, false };
    infq_match *m = NULL;

    ck_assert_int_eq(infq_extract_new("a(b", false, &x, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "a(b"));
    ck_assert_int_eq(infq_match_new(&r, &m, &err), INFQ_E_FORMAT);
    ck_ok(infq_extract_new("(a+)+$", false, &x, &err), err);
    infq_extract_free(x);
}
END_TEST

static void cuts(const char *text, const char *const *stops, int n, size_t want)
{
    bool stopped;

    ck_assert_uint_eq(infq_cut_at_stop(text, strlen(text), stops, n, &stopped), want);
    ck_assert_int_eq(stopped, want < strlen(text));
}

START_TEST(text_ends_at_the_earliest_stop)
{
    const char *stops[] = { "Question:", "\n\n", "" }, *overlap[] = { "cd", "bcde" };

    cuts("a\n\nQuestion: b", stops, 3, 1);
    cuts("aQuestion: b\n\n", stops, 3, 1);
    cuts("a Question b", stops, 3, 12);
    cuts("abcdef", overlap, 2, 1);
    cuts("", stops, 3, 0);
}
END_TEST

static void strips(const char *text, const char *open, const char *want)
{
    ck_assert_str_eq(text + infq_strip_reasoning(text, strlen(text), open, "</think>"), want);
}

START_TEST(reasoning_in_front_of_the_answer_goes)
{
    strips("<think>\na 5\n</think>\n\n7", "<think>", "7");
    strips("a 5 </think> 7", "<think>", "7");
    strips("<think>x</think>y<think>z</think> w", "<think>", "w");
    strips("7", "<think>", "7");
    strips("<think>never closed 9", "<think>", "");
    strips("<think>never closed 9", NULL, "<think>never closed 9");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("extract");
    TCase *t = tcase_create("answers");

    tcase_add_test(t, golden_outputs_give_the_reference_answers);
    tcase_add_test(t, golden_pairs_match_as_the_reference_says);
    tcase_add_test(t, extraction_takes_groups_and_ends);
    tcase_add_test(t, matching_ignores_what_it_is_told_to);
    tcase_add_test(t, broken_expressions_are_named);
    tcase_add_test(t, text_ends_at_the_earliest_stop);
    tcase_add_test(t, reasoning_in_front_of_the_answer_goes);
    suite_add_tcase(s, t);
    return test_main(s);
}
