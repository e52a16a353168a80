#include "tests/testlib.h"

#include "lib/base/yaml.h"

static infq_yaml *parsed(const char *text)
{
    infq_yaml *y;
    infq_err err;

    ck_ok(infq_yaml_parse(text, strlen(text), "t.yaml", &y, &err), err);
    return y;
}

static void refused(const char *text, const char *message)
{
    infq_yaml *y;
    infq_err err;

    ck_assert_int_eq(infq_yaml_parse(text, strlen(text), "t.yaml", &y, &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, message);
}

static void equals_json(const char *yaml, const char *json)
{
    infq_yaml *y = parsed(yaml);
    infq_err err;
    cJSON *want;

    ck_ok(infq_json_parse(json, strlen(json), "json", &want, &err), err);
    ck_assert_msg(cJSON_Compare(infq_yaml_root(y), want, true), "%s is not %s", yaml, json);
    cJSON_Delete(want);
    infq_yaml_free(y);
}

START_TEST(scalars_have_the_types_of_the_core_schema)
{
    equals_json("a: 1\nb: -2.5e3\nc: 0x1F\nd: 0o17\ne: .5\nf: 1.\n", "{\"a\":1,\"b\":-2500,\"c\":31,\"d\":15,\"e\":0.5,\"f\":1}");
    equals_json("[true, False, null, ~, yes, no, on, '1', \"true\", 1.2.3, 0x, 1e]",
                "[true,false,null,null,\"yes\",\"no\",\"on\",\"1\",\"true\",\"1.2.3\",\"0x\",\"1e\"]");
    equals_json("a:\nb: ''\n", "{\"a\":null,\"b\":\"\"}");
    equals_json("# nothing\n", "null");
    equals_json("", "null");
}
END_TEST

START_TEST(blocks_keep_their_lines_and_json_is_yaml)
{
    equals_json("a: |\n  Q: {x}\n\n  A:\nb: >-\n  one\n  two\nc: \"x\\ny\"\n",
                "{\"a\":\"Q: {x}\\n\\nA:\\n\",\"b\":\"one two\",\"c\":\"x\\ny\"}");
    equals_json("{\"a\": [1, {\"b\": null}], \"c\": \"\\u00e9\"}", "{\"a\":[1,{\"b\":null}],\"c\":\"\xc3\xa9\"}");
    equals_json("- a: 1\n  b: [x, y]\n- - z\n", "[{\"a\":1,\"b\":[\"x\",\"y\"]},[\"z\"]]");
}
END_TEST

START_TEST(every_node_knows_its_line)
{
    infq_yaml *y = parsed("a: 1\nb:\n  - x\n  - c: 2\n    d: [3,\n        4]\n");
    const cJSON *root = infq_yaml_root(y), *b = infq_json_get(root, "b"), *d = infq_json_get(cJSON_GetArrayItem(b, 1), "d");

    ck_assert_int_eq(infq_yaml_line(y, infq_json_get(root, "a")), 1);
    ck_assert_int_eq(infq_yaml_line(y, b), 2);
    ck_assert_int_eq(infq_yaml_line(y, cJSON_GetArrayItem(b, 0)), 3);
    ck_assert_int_eq(infq_yaml_line(y, cJSON_GetArrayItem(b, 1)), 4);
    ck_assert_int_eq(infq_yaml_line(y, d), 5);
    ck_assert_int_eq(infq_yaml_line(y, cJSON_GetArrayItem(d, 1)), 6);
    ck_assert_int_eq(infq_yaml_line(y, NULL), 0);
    infq_yaml_free(y);
}
END_TEST

START_TEST(what_could_mean_something_else_is_refused_with_its_line)
{
    char deep[256];
    infq_yaml *y;
    infq_err err;

    refused("a: 1\nb: 2\na: 3\n", "t.yaml:3: a: key stands twice");
    refused("a: &x 1\nb: *x\n", "t.yaml:1: anchors (&) are not supported");
    refused("b: *x\n", "t.yaml:1: aliases (*) are not supported");
    refused("a: !!str 1\n", "t.yaml:1: tags (!) are not supported");
    refused("a: !x [1]\n", "t.yaml:1: tags and anchors are not supported");
    refused("a: 1\n<<: {b: 1}\n", "t.yaml:2: merge keys (<<) are not supported");
    refused("[1]: 2\n", "t.yaml:1: a key must be a word");
    refused("a: .nan\n", "t.yaml:1: a number that is not finite");
    refused("a: 1e999\n", "t.yaml:1: a number that is not finite");
    refused("a: \"x\\0y\"\n", "t.yaml:1: text holds a NUL character");
    refused("a: 1\n---\nb: 2\n", "t.yaml:2: a second document; one is wanted");
    refused("a: [1,\n", "t.yaml:2: did not find expected node content");
    // libyaml's words: "violate" up to 0.2.2, "violates" later
    ck_assert_int_eq(infq_yaml_parse("a: 1\n\tb: 2\n", 11, "t.yaml", &y, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "t.yaml:2: found a tab character that violate"));
    memset(deep, '[', 200);
    deep[200] = '\0';
    refused(deep, "t.yaml:1: nested too deeply");
}
END_TEST

START_TEST(text_that_is_not_utf8_is_refused)
{
    infq_yaml *y;
    infq_err err;

    ck_assert_int_eq(infq_yaml_parse("a: \xff\n", 5, "t.yaml", &y, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "t.yaml: byte 3"));
}
END_TEST

typedef struct {
    const char *name;
    int64_t count;
    double share;
    bool on;
    int mode;
    const cJSON *parts, *words, *map;
} settings;

static const char *const modes[] = {"fast", "slow", NULL};
#define AT(m) offsetof(settings, m)
static const infq_yaml_field fields[] = {
    {"name", INFQ_YAML_STR, true, AT(name), 0, 0, NULL},
    {"count", INFQ_YAML_I64, false, AT(count), 1, 10, NULL},
    {"share", INFQ_YAML_F64, false, AT(share), 0, 0, NULL},
    {"on", INFQ_YAML_BOOL, false, AT(on), 0, 0, NULL},
    {"mode", INFQ_YAML_ENUM, false, AT(mode), 0, 0, modes},
    {"parts", INFQ_YAML_LIST, false, AT(parts), 0, 0, NULL},
    {"words", INFQ_YAML_STRS, false, AT(words), 0, 0, NULL},
    {"map", INFQ_YAML_MAP, false, AT(map), 0, 0, NULL},
};

static infq_status read_settings(const infq_yaml *y, settings *s, infq_err *err)
{
    *s = (settings){.count = 7, .share = 0.25};
    return infq_yaml_fields(y, infq_yaml_root(y), fields, sizeof(fields) / sizeof(fields[0]), s, err);
}

START_TEST(a_table_reads_an_object)
{
    infq_yaml *y = parsed("name: x\ncount: 3\non: true\nmode: slow\nparts: [1, 2]\nwords: one\nmap: {k: v}\nshare:\n");
    settings s;
    infq_err err;
    const cJSON *e;

    ck_ok(read_settings(y, &s, &err), err);
    ck_assert_str_eq(s.name, "x");
    ck_assert_int_eq(s.count, 3);
    ck_assert_double_eq(s.share, 0.25);
    ck_assert(s.on);
    ck_assert_int_eq(s.mode, 1);
    e = infq_yaml_first(s.parts);
    ck_assert_double_eq(e->valuedouble, 1);
    e = infq_yaml_next(s.parts, e);
    ck_assert_double_eq(e->valuedouble, 2);
    ck_assert_ptr_null(infq_yaml_next(s.parts, e));
    e = infq_yaml_first(s.words);
    ck_assert_str_eq(e->valuestring, "one");
    ck_assert_ptr_null(infq_yaml_next(s.words, e));
    ck_assert_str_eq(infq_json_get(s.map, "k")->valuestring, "v");
    infq_yaml_free(y);
}
END_TEST

START_TEST(a_table_names_file_line_and_key)
{
    static const char *const bad[][2] = {
        {"name: x\ncuont: 3\n", "t.yaml:2: cuont: unknown key, count was probably meant"},
        {"name: x\nqqqqqq: 3\n", "t.yaml:2: qqqqqq: unknown key"},
        {"\ncount: 3\n", "t.yaml:2: name is missing"},
        {"name: 5\n", "t.yaml:1: name: text is wanted; put it in quotes"},
        {"name: [x]\n", "t.yaml:1: name: text is wanted"},
        {"name: x\ncount: 1.5\n", "t.yaml:2: count: a whole number is wanted"},
        {"name: x\ncount: 11\n", "t.yaml:2: count: 11 is not in 1 to 10"},
        {"name: x\nshare: a\n", "t.yaml:2: share: a number is wanted"},
        {"name: x\non: yes\n", "t.yaml:2: on: true or false is wanted"},
        {"name: x\nmode: quick\n", "t.yaml:2: mode: one of fast, slow is wanted"},
        {"name: x\nwords: [a,\n 3]\n", "t.yaml:3: words: text is wanted; put it in quotes"},
        {"name: x\nwords: 3\n", "t.yaml:2: words: text is wanted; put it in quotes"},
        {"name: x\nmap: 3\n", "t.yaml:2: map: keys with values are wanted"},
        {"- 1\n", "t.yaml:1: keys with values are wanted"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_yaml *y = parsed(bad[i][0]);
        settings s;
        infq_err err;
        ck_assert_int_eq(read_settings(y, &s, &err), INFQ_E_FORMAT);
        ck_assert_str_eq(err.msg, bad[i][1]);
        infq_yaml_free(y);
    }
}
END_TEST

START_TEST(the_nearest_word_is_found)
{
    static const char *const names[] = {"quantize", "convert", "verify", "gate"};

    ck_assert_str_eq(infq_nearest("quantise", names, 4), "quantize");
    ck_assert_str_eq(infq_nearest("veirfy", names, 4), "verify");
    ck_assert_str_eq(infq_nearest("gat", names, 4), "gate");
    ck_assert_ptr_null(infq_nearest("benchmark", names, 4));
    ck_assert_ptr_null(infq_nearest("x", names, 0));
}
END_TEST

START_TEST(variables_are_put_in_and_lines_stay)
{
    infq_yaml *y = parsed("a: x_${n}_${t}.csv\nb:\n  - ${n}\n  - ${l}\nc: $5 $${n}\n"), *e;
    const char *json = "{\"n\": 3, \"t\": \"test\", \"l\": [1, 2]}", *want = "{\"a\":\"x_3_test.csv\",\"b\":[3,[1,2]],\"c\":\"$5 ${n}\"}";
    cJSON *vars, *w;
    infq_err err;

    ck_ok(infq_json_parse(json, strlen(json), "vars", &vars, &err), err);
    ck_ok(infq_json_parse(want, strlen(want), "want", &w, &err), err);
    ck_ok(infq_yaml_expand(y, vars, &e, &err), err);
    ck_assert(cJSON_Compare(infq_yaml_root(e), w, true));
    ck_assert_int_eq(infq_yaml_line(e, cJSON_GetArrayItem(infq_json_get(infq_yaml_root(e), "b"), 1)), 4);
    ck_assert_int_eq(infq_yaml_line(e, infq_json_get(infq_yaml_root(e), "c")), 5);
    infq_yaml_free(e);
    infq_yaml_free(y);
    y = parsed("a: 1\nb: ${tt}\n");
    ck_assert_int_eq(infq_yaml_expand(y, vars, &e, &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, "t.yaml:2: b: no variable tt, t was probably meant");
    infq_yaml_free(y);
    y = parsed("a: x${l}\n");
    ck_assert_int_eq(infq_yaml_expand(y, vars, &e, &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, "t.yaml:1: a: variable l is no text");
    infq_yaml_free(y);
    cJSON_Delete(vars);
    cJSON_Delete(w);
}
END_TEST

START_TEST(files_are_named_in_messages)
{
    char path[512];
    infq_yaml *y;
    infq_err err;

    snprintf(path, sizeof(path), "%s/a.yaml", test_tmpdir());
    ck_assert_int_eq(infq_yaml_load(path, 1000, &y, &err), INFQ_E_NOT_FOUND);
    ck_ok(infq_file_write_atomic(path, "a: 1\n", 5, false, &err), err);
    ck_ok(infq_yaml_load(path, 1000, &y, &err), err);
    infq_yaml_free(y);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("yaml");
    TCase *tc = tcase_create("parse");

    tcase_add_test(tc, scalars_have_the_types_of_the_core_schema);
    tcase_add_test(tc, blocks_keep_their_lines_and_json_is_yaml);
    tcase_add_test(tc, every_node_knows_its_line);
    tcase_add_test(tc, what_could_mean_something_else_is_refused_with_its_line);
    tcase_add_test(tc, text_that_is_not_utf8_is_refused);
    tcase_add_test(tc, variables_are_put_in_and_lines_stay);
    tcase_add_test(tc, files_are_named_in_messages);
    suite_add_tcase(s, tc);
    tc = tcase_create("fields");
    tcase_add_test(tc, a_table_reads_an_object);
    tcase_add_test(tc, a_table_names_file_line_and_key);
    tcase_add_test(tc, the_nearest_word_is_found);
    suite_add_tcase(s, tc);
    return test_main(s);
}
