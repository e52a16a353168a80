/* Prompt templates: the templates of evals/ in small, and what is refused. */
#include "tests/testlib.h"

#include "lib/io/prompt.h"

static infq_prompt *parsed(const char *text)
{
    infq_prompt *p;
    infq_err err;

    ck_ok(infq_prompt_parse(text, &p, &err), err);
    return p;
}

static infq_fields *fields(const char *json)
{
    infq_fields *f;
    infq_err err;

    ck_ok(infq_fields_new(&f, &err), err);
    ck_ok(infq_fields_add(f, json, strlen(json), &err), err);
    return f;
}

static void renders(const char *template, const char *row, const char *want)
{
    infq_prompt *p = parsed(template);
    infq_fields *f = fields(row);
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    for (int i = 0; i < 2; i++) { // a run leaves nothing behind
        infq_buf_clear(&b);
        ck_ok(infq_prompt_text(p, f, &b, &err), err);
        ck_assert_str_eq(b.data, want);
    }
    infq_buf_deinit(&b);
    infq_fields_free(f);
    infq_prompt_free(p);
}

static void fails(const char *template, const char *row, const char *message)
{
    infq_prompt *p = parsed(template);
    infq_fields *f = fields(row);
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_assert_int_eq(infq_prompt_text(p, f, &b, &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, message);
    ck_assert_uint_eq(b.n, 0);
    infq_buf_deinit(&b);
    infq_fields_free(f);
    infq_prompt_free(p);
}

START_TEST(prompts_are_filled_with_the_fields_of_a_row)
{
    renders("Question: {{goal}}\nAnswer:", "{\"goal\": \"How?\"}", "Question: How?\nAnswer:");
    renders("{{text.split(' ')[:-1]|join(' ')}}", "{\"text\": \"one two  three\"}", "one two ");
    renders("{{sentence.split('_', 1)[0] ~ option1}}", "{\"sentence\": \"A _ b _.\", \"option1\": \"cat\"}", "A cat");
    renders("{{label}}: {{a}} {{b|capitalize}}", "{\"label\": \"X\", \"a\": \"y.\", \"b\": \"the END\"}", "X: y. The end");
    renders("about {{subject.replace('_', ' ')}}.\n\n", "{\"subject\": \"a_b_c\"}", "about a b c.\n\n");
    renders("plain { } text", "{}", "plain { } text");
    renders("", "{}", "");
}
END_TEST

START_TEST(what_is_missing_fails_unless_a_default_is_named)
{
    fails("Q: {{question}}", "{\"qestion\": \"x\"}", "question is undefined");
    fails("{{a.b}}", "{\"a\": {\"c\": 1}}", "b is undefined");
    fails("{{a[3]}}", "{\"a\": [1]}", "an item is undefined");
    fails("{{(a.b)|upper}}", "{\"a\": {}}", "b is undefined");
    fails("\n{% if a %}x{% endif %}", "{}", "line 2: a is undefined");
    renders("[{{a|default('none')}}{{b.c|d('!')}}]", "{\"b\": {}}", "[none!]");
    renders("{{'yes' if a is defined else 'no'}}", "{}", "no");
    fails("{{b.c|default('!')}}", "{}", "b is undefined");
}
END_TEST

START_TEST(an_expression_alone_gives_its_value)
{
    static const char *const cases[][3] = {
        {"{{endings}}", "{\"endings\": [\"a\", \"b\"]}", "[\"a\",\"b\"]"},
        {"{{choices.text}}", "{\"choices\": {\"text\": [\"a\"], \"label\": [\"A\"]}}", "[\"a\"]"},
        {"{{t.keys()|list}}", "{\"t\": {\"z\": 1, \"a\": 0}}", "[\"z\",\"a\"]"},
        {"{{t.values()|list}}", "{\"t\": {\"z\": 1, \"a\": 0}}", "[1,0]"},
        {"{{choices|map(attribute='text')|list}}", "{\"choices\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}", "[\"a\",\"b\"]"},
        {"{{gold}}", "{\"gold\": 3}", "3"},
        {"{{gold}}", "{\"gold\": true}", "true"},
        {"{{a}}{{a}}", "{\"a\": 1}", "\"11\""},
        {"yes", "{}", "\"yes\""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        infq_prompt *p = parsed(cases[i][0]);
        infq_fields *f = fields(cases[i][1]);
        infq_err err;
        cJSON *v, *want;
        ck_ok(infq_prompt_value(p, f, &v, &err), err);
        ck_ok(infq_json_parse(cases[i][2], strlen(cases[i][2]), "want", &want, &err), err);
        ck_assert_msg(cJSON_Compare(v, want, true), "%s", cases[i][0]);
        cJSON_Delete(v);
        cJSON_Delete(want);
        infq_fields_free(f);
        infq_prompt_free(p);
    }
}
END_TEST

START_TEST(later_fields_hide_earlier_ones_until_cleared)
{
    infq_prompt *p = parsed("{{a}}{{b}}");
    infq_fields *f = fields("{\"a\": 1, \"b\": 2}");
    cJSON *v = cJSON_CreateString("x");
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_fields_set(f, "a", v, &err), err);
    ck_ok(infq_prompt_text(p, f, &b, &err), err);
    ck_assert_str_eq(b.data, "x2");
    infq_fields_clear(f);
    ck_assert_int_eq(infq_prompt_text(p, f, &b, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_fields_add(f, "[1]", 3, &err), INFQ_E_FORMAT);
    cJSON_Delete(v);
    infq_buf_deinit(&b);
    infq_fields_free(f);
    infq_prompt_free(p);
}
END_TEST

START_TEST(broken_templates_are_refused)
{
    infq_prompt *p;
    infq_err err;

    ck_assert_int_eq(infq_prompt_parse("{{a", &p, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_prompt_parse("{{a|nonsense}}", &p, &err), INFQ_E_UNSUPPORTED);
    ck_assert_int_eq(infq_prompt_parse("{% include 'x' %}", &p, &err), INFQ_E_UNSUPPORTED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prompt");
    TCase *tc = tcase_create("prompt");

    tcase_add_test(tc, prompts_are_filled_with_the_fields_of_a_row);
    tcase_add_test(tc, what_is_missing_fails_unless_a_default_is_named);
    tcase_add_test(tc, an_expression_alone_gives_its_value);
    tcase_add_test(tc, later_fields_hide_earlier_ones_until_cleared);
    tcase_add_test(tc, broken_templates_are_refused);
    suite_add_tcase(s, tc);
    return test_main(s);
}
