/* Chat templates: every golden of the reference, refusals by name, bounds. */
#include "lib/io/chat.h"
#include "tests/testlib.h"

static infq_err err;

// Renders with the variables given as JSON; the text is in `out`.
static infq_status render(const char *text, const char *vars, infq_buf *out)
{
    infq_chat *c = NULL;
    infq_status st = infq_chat_parse(text, strlen(text), &c, &err);

    infq_buf_init(out);
    if (!st)
        st = infq_chat_render(c, vars, strlen(vars), NULL, out, &err);
    infq_chat_free(c);
    return st;
}

static void renders(const char *text, const char *vars, const char *want)
{
    infq_buf out;

    ck_ok(render(text, vars, &out), err);
    ck_assert_msg(strcmp(out.data, want) == 0, "template <%s>\n gives <%s>\nwanted <%s>", text, out.data, want);
    infq_buf_deinit(&out);
}

static void refuses(const char *text, const char *vars, infq_status code, const char *says)
{
    infq_buf out;
    infq_status st = render(text, vars, &out);

    ck_assert_msg(st == code, "template <%.200s>: status %d (%s), wanted %d; text <%.200s>", text, st, st ? err.msg : "", code,
                  out.data);
    ck_assert_msg(strstr(err.msg, says) != NULL, "template <%.200s>: <%s> does not say <%s>", text, err.msg, says);
    ck_assert_uint_eq(out.n, 0);
    infq_buf_deinit(&out);
}

static void merge(cJSON *into, const cJSON *from)
{
    const cJSON *v;

    cJSON_ArrayForEach(v, from) {
        cJSON_DeleteItemFromObjectCaseSensitive(into, v->string);
        cJSON_AddItemToObject(into, v->string, cJSON_Duplicate(v, true));
    }
}

START_TEST(every_golden_conversation_is_rendered_byte_by_byte)
{
    cJSON *g;
    const cJSON *c;
    int n_text = 0, n_error = 0;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/chat/chat_templates.json"));
    cJSON_ArrayForEach(c, infq_json_get(g, "cases")) {
        const char *name = infq_json_get(c, "template")->valuestring, *talk = infq_json_get(c, "conversation")->valuestring;
        const char *text = infq_json_get(infq_json_get(g, "templates"), name)->valuestring;
        const cJSON *want = infq_json_get(c, "text");
        cJSON *vars = cJSON_CreateObject();
        infq_buf json, out;
        infq_jw w;
        infq_status st;

        merge(vars, infq_json_get(g, "tokens"));
        merge(vars, infq_json_get(g, "defaults"));
        merge(vars, infq_json_get(infq_json_get(g, "conversations"), talk));
        infq_buf_init(&json);
        w = infq_jw_over(&json, 0);
        infq_jw_tree(&w, vars);
        st = render(text, json.data, &out);
        if (want) {
            ck_assert_msg(st == 0, "%s, %s: %s", name, talk, st ? err.msg : "");
            ck_assert_msg(strcmp(out.data, want->valuestring) == 0, "%s, %s:\n<%s>\nwanted\n<%s>", name, talk, out.data,
                          want->valuestring);
            n_text++;
        } else {
            ck_assert_msg(st != 0, "%s, %s: rendered, the reference says %s", name, talk, infq_json_get(c, "error")->valuestring);
            n_error++;
        }
        infq_buf_deinit(&out);
        infq_buf_deinit(&json);
        cJSON_Delete(vars);
    }
    cJSON_Delete(g);
    ck_assert_int_ge(n_text, 145);
    ck_assert_int_ge(n_error, 14);
}
END_TEST

START_TEST(white_space_around_tags_goes_as_in_jinja)
{
    renders("a\n  {% if true %}  \nb\n  {% endif %}\nc\n", "{}", "a\n  \nb\nc");
    renders("{% if true %}\n x\n{%- endif %}\n\ny", "{}", " x\ny");
    renders("a  {{- 'b' -}}  \n c", "{}", "abc");
    renders("a\n   {{ 'b' }}\nc", "{}", "a\n   b\nc");
    renders("a {#- gone -#} b", "{}", "ab");
    renders("  {%+ if true %}x{% endif +%}\ny", "{}", "  x\ny");
    renders("{% raw %}{{ x }}{% if %}{% endraw %}\n.", "{}", "{{ x }}{% if %}.");
    renders("a\r\nb\rc\r\n", "{}", "a\nb\nc");
    renders("{{ {'a': {'b': 1}}['a']['b'] }}}", "{}", "1}");
}
END_TEST

START_TEST(expressions_follow_python)
{
    renders("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1 + 2 * 3 }}", "{}", "3 -4 2 3.5 1024 7");
    renders("{{ 1.0 }} {{ 1e16 }} {{ 1.5e-7 }} {{ 0.1 }} {{ 100000.0 }}", "{}", "1.0 1e+16 1.5e-07 0.1 100000.0");
    renders("{{ x }} {{ y }} {{ z }}", "{\"x\": 1.0, \"y\": 1, \"z\": [1, 2.50, null, true, \"it's\"]}",
            "1.0 1 [1, 2.5, None, True, \"it's\"]");
    renders("{{ 'é' in 'café' }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ not 1 == 2 }}", "{}", "True True False True");
    renders("{{ 'añb'[1] }} {{ 'añb'[-1] }} {{ 'añb'[::-1] }} {{ 'añb'[1:] }} {{ [1,2,3][:-1] }}", "{}",
            "ñ b bña ñb [1, 2]");
    renders("{{ (1,) }} {{ (1, 'a') }} {{ () }} {{ {'a': 1} }}", "{}", "(1,) (1, 'a') () {'a': 1}");
    renders("{{ 'a' 'b' ~ 1 ~ none }}", "{}", "ab1None");
    renders("{{ x | default('d') }} {{ '' | default('e', true) }} {{ x is defined }} {{ x }}.", "{}", "d e False .");
    renders("{{ '\\x41\\u00e9\\n\\'' }}", "{}", "Aé\n'");
    renders("{{ m.a }}{{ m['b'] }}{{ m.get('c', 3) }}{{ m.items() | length }}", "{\"m\": {\"a\": 1, \"b\": 2}}", "1232");
    renders("{{ true if x else 'no' }}{{ 'never' if x }}", "{}", "no");
}
END_TEST

START_TEST(statements_scope_their_names)
{
    renders("{% set x = 1 %}{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}", "{}", "1");
    renders("{% set n = namespace(x=1) %}{% for i in range(3) %}{% set n.x = i %}{% endfor %}{{ n.x }}", "{}", "2");
    renders("{% for i in [] %}a{% else %}none{% endfor %}", "{}", "none");
    renders("{% for i in range(9) if i % 2 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}", "{}",
            "1/4:1 2/4:3 3/4:5 4/4:7 ");
    renders("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "{}", "a1b2");
    renders("{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}"
            "{{ i }}{% endfor %}", "{}", "02");
    renders("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}", "{}", "1213");
    renders("{% set t | upper %}a{{ 1 }}{% endset %}{{ t }}", "{}", "A1");
    renders("{% set a, b = 1, 2 %}{{ a + b }}", "{}", "3");
    renders("{{ '%s' | replace('%', '&') }}{{ 'x' | tojson | safe }}", "{}", "&s\"x\"");
}
END_TEST

START_TEST(filters_follow_jinja)
{
    renders("{{ ['b', 'A', 'c'] | sort | join(',') }} {{ [3, 1, 2] | sort(reverse=true) }}", "{}", "A,b,c [3, 2, 1]");
    renders("{{ 'a b c d e f g h' | truncate(9) }}", "{}", "a b c...");
    renders("{{ [{'r': 'x', 'n': 1}, {'r': 'y', 'n': 2}] | selectattr('r', 'equalto', 'y') | map(attribute='n') | list }}",
            "{}", "[2]");
    renders("{{ 'a\n\nb' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}", "{}", "a\n\n  b|  a\n  b");
    renders("{{ {'b': 1, 'a': [], 'c': {}} | tojson(indent=2) }}", "{}", "{\n  \"b\": 1,\n  \"a\": [],\n  \"c\": {}\n}");
    renders("{{ 'é\"\\\\' | tojson }} {{ 'é' | tojson(ensure_ascii=true) }}", "{}", "\"é\\\"\\\\\" \"\\u00e9\"");
    renders("{{ ' 12 ' | int + 1 }} {{ 'x' | int(5) }} {{ '1.5' | float }} {{ [1, 2] | sum }}", "{}", "13 5 1.5 3");
    renders("{{ [1, 5, 2] | max }} {{ ['b', 'a', 'B'] | unique | list }} {{ 'abc' | reverse }}", "{}", "5 ['b', 'a'] cba");
    renders("{{ 'a,b,,c'.split(',') }} {{ 'a  b'.split() }} {{ 'a.b.c'.rsplit('.', 1) }}", "{}",
            "['a', 'b', '', 'c'] ['a', 'b'] ['a.b', 'c']");
}
END_TEST

START_TEST(what_we_lack_is_refused_by_name_and_line)
{
    refuses("a\n{% include 'x' %}", "{}", INFQ_E_UNSUPPORTED, "line 2: the tag include");
    refuses("{{ x | groupby('a') }}", "{}", INFQ_E_UNSUPPORTED, "the filter groupby");
    refuses("\n\n{{ 1 is escaped }}", "{}", INFQ_E_UNSUPPORTED, "line 3: the test escaped");
    refuses("{{ 'a'.zfill(3) }}", "{}", INFQ_E_UNSUPPORTED, "the method zfill");
    refuses("{{ ('a' | safe) + 'b' }}", "{}", INFQ_E_UNSUPPORTED, "safe");
    refuses("{% for i in x recursive %}{% endfor %}", "{}", INFQ_E_UNSUPPORTED, "recursive");
    refuses("{% set ns = namespace(a=1) %}{% for i in [1] if ns.a %}{% endfor %}", "{}", INFQ_E_UNSUPPORTED, "namespace");
    refuses("{{ 'ﬁ' | upper }}", "{}", INFQ_E_UNSUPPORTED, "upper case");
    refuses("{{ 9223372036854775807 + 1 }}", "{}", INFQ_E_UNSUPPORTED, "64 bits");
}
END_TEST

START_TEST(what_jinja_refuses_is_malformed)
{
    refuses("{% if x %}a", "{}", INFQ_E_FORMAT, "endif");
    refuses("a{{ x", "{}", INFQ_E_FORMAT, "{{ is not closed");
    refuses("{% endif %}", "{}", INFQ_E_FORMAT, "endif");
    refuses("{{ 'a' + 1 }}", "{}", INFQ_E_FORMAT, "cannot be added");
    refuses("{{ x.y.z }}", "{\"x\": {}}", INFQ_E_FORMAT, "y is undefined");
    refuses("\n{{ raise_exception('No ' ~ 'way') }}", "{}", INFQ_E_FORMAT,
            "line 2: the template refuses the conversation: No way");
    refuses("{% break %}", "{}", INFQ_E_FORMAT, "outside a loop");
    refuses("{{ (1 }}", "{}", INFQ_E_FORMAT, "line 1");
    refuses("{{ 'abc }}", "{}", INFQ_E_FORMAT, "does not end");
    refuses("{{ 1 }}", "[]", INFQ_E_FORMAT, "no JSON object");
    refuses("{{ 1 // 0 }}", "{}", INFQ_E_FORMAT, "division by zero");
    refuses("{{ x() }}", "{}", INFQ_E_FORMAT, "x is undefined");
}
END_TEST

START_TEST(a_hostile_template_takes_bounded_steps_and_memory)
{
    char deep[5000];
    refuses("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", "{}", INFQ_E_UNSUPPORTED,
            "takes more than");
    refuses("{% set n = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}", "{}",
            INFQ_E_UNSUPPORTED, "bytes");
    refuses("{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}", "{}", INFQ_E_UNSUPPORTED,
            "nested");
    refuses("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}", INFQ_E_UNSUPPORTED, "nested");
    refuses("{{ 'x' * 99999999999 }}", "{}", INFQ_E_UNSUPPORTED, "bytes");
    memset(deep, '(', sizeof(deep));
    memcpy(deep, "{{", 2);
    deep[sizeof(deep) - 1] = '\0';
    refuses(deep, "{}", INFQ_E_UNSUPPORTED, "brackets");
    memset(deep, '-', sizeof(deep));
    memcpy(deep, "{{ ", 3);
    strcpy(deep + sizeof(deep) - 6, " 1 }}");
    refuses(deep, "{}", INFQ_E_UNSUPPORTED, "nested");
}
END_TEST

START_TEST(failed_allocations_are_errors_without_leaks)
{
    static const char text[] = "{% macro m(a) %}{{ a | upper }}{% endmacro %}{% set n = namespace(x=[]) %}{% for k in messages %}"
                               "{% set n.x = n.x + [k.content] %}{{ m(k.content) ~ k | tojson(indent=2) }}{% endfor %}{{ n.x | join }}";
    static const char vars[] = "{\"messages\": [{\"content\": \"a\"}, {\"content\": \"b\"}]}";
    infq_status st = INFQ_E_NOMEM;
    size_t live = infq_mem_stats_get().n_live, n;

    for (n = 1; st == INFQ_E_NOMEM && n < 500; n++) {
        infq_chat *c = NULL;
        infq_buf out;

        infq_buf_init(&out);
        infq_mem_fail_at(n);
        st = infq_chat_parse(text, strlen(text), &c, &err);
        if (!st)
            st = infq_chat_render(c, vars, strlen(vars), NULL, &out, &err);
        infq_mem_fail_at(0);
        ck_assert_msg(st == 0 || st == INFQ_E_NOMEM, "allocation %d: %s", (int)n, err.msg);
        infq_buf_deinit(&out);
        infq_chat_free(c);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
    }
    ck_assert_int_eq(st, 0);
    ck_assert_uint_gt(n, 10);
}
END_TEST

static void put(const char *dir, const char *name, const char *text)
{
    char path[512];
    FILE *f;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void prompt_of(const char *dir, const char *system, const char *want)
{
    infq_chat *c = NULL;
    infq_buf out;

    infq_buf_init(&out);
    ck_ok(infq_chat_open(dir, &c, &err), err);
    ck_ok(infq_chat_prompt(c, system, "hi", 2, NULL, &out, &err), err);
    ck_assert_str_eq(out.data, want);
    infq_buf_deinit(&out);
    infq_chat_free(c);
}

START_TEST(a_folder_gives_its_template_and_tokens)
{
    static const char text[] = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}";
    const char *dir = test_tmpdir();
    char config[600];
    infq_chat *c = NULL;

    ck_assert_int_eq(infq_chat_open(dir, &c, &err), INFQ_E_NOT_FOUND);
    snprintf(config, sizeof(config),
            "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"chat_template\": \"%s\"}", text);
    put(dir, "tokenizer_config.json", config);
    prompt_of(dir, NULL, "<s>[user]hi</s>");
    prompt_of(dir, "S", "<s>[system]S</s>[user]hi</s>");
    snprintf(config, sizeof(config),
             "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"no\"}, "
             "{\"name\": \"default\", \"template\": \"yes\"}]}");
    put(dir, "tokenizer_config.json", config);
    prompt_of(dir, NULL, "yes");
    put(dir, "chat_template.jinja", "file {{ strftime_now('%d %b %Y') }}\n");
    prompt_of(dir, NULL, "file 26 Jul 2024");
    put(dir, "chat_template.jinja", "\n{% bad %}");
    ck_assert_int_eq(infq_chat_open(dir, &c, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "line 2"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("chat");
    TCase *t = tcase_create("templates");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_golden_conversation_is_rendered_byte_by_byte);
    tcase_add_test(t, white_space_around_tags_goes_as_in_jinja);
    tcase_add_test(t, expressions_follow_python);
    tcase_add_test(t, statements_scope_their_names);
    tcase_add_test(t, filters_follow_jinja);
    tcase_add_test(t, what_we_lack_is_refused_by_name_and_line);
    tcase_add_test(t, what_jinja_refuses_is_malformed);
    tcase_add_test(t, a_hostile_template_takes_bounded_steps_and_memory);
    tcase_add_test(t, failed_allocations_are_errors_without_leaks);
    tcase_add_test(t, a_folder_gives_its_template_and_tokens);
    suite_add_tcase(s, t);
    return test_main(s);
}
