/* Manifests: the compiled-in ones are whole (their prompts: test_eval_goldens.c), equal data gives equal tasks whatever the file, mistakes are named
 * by file, line and key. */
#include "tests/testlib.h"

#include <sys/stat.h>

#include "lib/eval/corpus.h"
#include "lib/eval/pyrandom.h"
#include "lib/eval/task.h"

static infq_catalog *catalog(void)
{
    infq_catalog *c;
    infq_err err;

    ck_ok(infq_catalog_new(&c, &err), err);
    return c;
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[600];
    infq_err err;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
}

START_TEST(compiled_in_manifests_say_source_licence_and_hash)
{
    infq_catalog *c = catalog();

    ck_assert_int_gt(infq_catalog_count(c), 150);
    for (int i = 0; i < infq_catalog_count(c); i++) {
        const infq_manifest *m = infq_catalog_get(c, i);
        bool fetched = false;
        if (strncmp(m->name, "plain", 5) == 0)
            continue;
        ck_assert_msg(m->source && m->licence && m->language, "%s", m->name);
        for (int k = 0; k < m->n_splits; k++) {
            for (int f = 0; f < m->splits[k].n_files; f++) {
                const infq_task_file *t = &m->splits[k].files[f];
                fetched = fetched || t->url;
                ck_assert_msg(!t->url || (t->sha256 && strstr(t->url, "https://") == t->url), "%s: %s", m->name, t->path);
                ck_assert_msg(!t->join_url || t->join_sha256, "%s: %s", m->name, t->join_path);
            }
        }
        ck_assert_msg(fetched || strncmp(m->name, "demo_", 5) == 0 || strcmp(m->name, "french_ppl") == 0, "%s cannot be fetched", m->name);
    }
    infq_catalog_free(c);
}
END_TEST

START_TEST(suites_name_tasks_that_exist)
{
    infq_catalog *c = catalog();

    ck_assert_int_ge(infq_catalog_suite_count(c), 4);
    for (int i = 0; i < infq_catalog_suite_count(c); i++) {
        const infq_suite *s = infq_catalog_suite_get(c, i);
        for (int k = 0; k < s->n_entries; k++) {
            bool found = infq_catalog_find(c, s->entries[k].task) != NULL;
            for (int t = 0; t < infq_catalog_count(c); t++)
                found = found || infq_manifest_in(infq_catalog_get(c, t), s->entries[k].task);
            ck_assert_msg(found, "suite %s: no task or group %s", s->name, s->entries[k].task);
        }
    }
    infq_catalog_free(c);
}
END_TEST

/* Digest of a task when only file `entry` of its split is there. */
static void digest_by(const char *name, int entry, char out[65])
{
    infq_task_options o = infq_task_options_default();
    const char *dirs[1];
    infq_data_dirs d = {dirs, 1};
    infq_catalog *c = catalog();
    const infq_manifest *m = infq_catalog_find(c, name);
    infq_task_split *s = (infq_task_split *)(uintptr_t)infq_manifest_split(m, m->split); /* ours: the catalog is this function's */
    infq_task_file f = s->files[entry];
    infq_task *t;
    infq_err err;

    dirs[0] = test_shared_path("data");
    s->files[0] = f;
    s->n_files = 1;
    ck_ok(infq_task_open_manifest(m, &d, &o, &t, &err), err);
    strcpy(out, infq_task_digest(t));
    infq_task_free(t);
    infq_catalog_free(c);
}

START_TEST(the_same_data_in_another_file_is_the_same_task)
{
    static const char *const names[] = {"arc_easy", "arc_challenge", "winogrande", "openbookqa"};

    TEST_NEEDS_SHARED();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char a[65], b[65];
        digest_by(names[i], 0, a);
        digest_by(names[i], 1, b);
        ck_assert_msg(strcmp(a, b) == 0, "%s", names[i]);
    }
}
END_TEST

START_TEST(every_set_in_the_shared_data_opens)
{
    infq_task_options o = infq_task_options_default();
    const char *dirs[1];
    infq_data_dirs d = {dirs, 1};
    infq_catalog *c;
    infq_err err;
    int opened = 0, missing = 0;

    TEST_NEEDS_SHARED();
    dirs[0] = test_shared_path("data");
    c = catalog();
    for (int i = 0; i < infq_catalog_count(c); i++) {
        const infq_manifest *m = infq_catalog_get(c, i);
        infq_task *t;
        infq_status st;
        if (m->kind == INFQ_TASK_TEXT || m->kind == INFQ_TASK_GENERATE || strcmp(m->name, "plain") == 0)
            continue;
        st = infq_task_open_manifest(m, &d, &o, &t, &err);
        if (st == INFQ_E_NOT_FOUND) {
            missing++;
            continue;
        }
        ck_assert_msg(st == 0, "%s: %s", m->name, err.msg);
        for (int k = 0; k < infq_manifest_split(m, m->split)->n_files; k++) {
            int64_t n = infq_manifest_split(m, m->split)->files[k].items;
            if (n == infq_task_count(t))
                n = 0;
            if (n == 0) {
                opened++;
                break;
            }
            ck_assert_msg(k + 1 < infq_manifest_split(m, m->split)->n_files, "%s has %lld items", m->name, (long long)infq_task_count(t));
        }
        infq_task_free(t);
    }
    ck_assert_int_ge(opened, 40 + 34 + 8 + 8);
    ck_assert_int_eq(missing, 17 + 33 + 2 + 15); /* MMLU, BLiMP, TruthfulQA's examples, the demo's own folder */
    infq_catalog_free(c);
}
END_TEST

static const char head[] = "name: t\nkind: choice\nabout: x\n";

START_TEST(mistakes_are_named_by_file_line_and_key)
{
    static const char *const bad[][2] = {
        {"files: {test: {path: a.jsonl}}\nprompt: {contxt: a, choices: b, gold: '0'}\n", "m.yaml:5: contxt: unknown key, context was probably meant"},
        {"files: {test: {path: a.jsonl}}\nprompt: {context: a, gold: '0'}\n", "prompt of a choice needs choices or options"},
        {"files: {test: {path: a.jsonl}}\nprompt: {context: a, choices: b}\n", "and gold or answer with labels"},
        {"files: {test: {path: a.jsonl}}\nprompt: {choices: b, gold: '0'}\n", "prompt needs context, or contexts"},
        {"files: {test: {path: /a.jsonl}}\n", "m.yaml:4: path: a path below a data folder is wanted"},
        {"files: {test: {path: ../a.jsonl}}\n", "m.yaml:4: path: a path below a data folder is wanted"},
        {"files: {test: {path: a, url: 'https://x/y'}}\n", "m.yaml:4: test: an url needs a sha256"},
        {"files: {test: {path: a, sha256: abc}}\n", "m.yaml:4: sha256: 64 small hexadecimal digits are wanted"},
        {"files: {test: {path: a, url: 'ftp://x', sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}\n", "m.yaml:4: url: a https:// or file:// address is wanted"},
        {"files: {dev: {path: a}}\n", "files has no split test"},
        {"files: {test: []}\n", "m.yaml:4: test: at least one file is wanted"},
        {"files: {test: {path: a}}\nprompt: {context: '{{a', choices: b, gold: '0'}\n", "m.yaml:5: context: "},
        {"files: {test: {path: a}}\nprompt: {context: a, choices: b, gold: '0'}\nfewshot: {split: dev}\n", "m.yaml:6: fewshot: files has no split dev"},
        {"files: {test: {path: a}}\nprompt: {context: a, choices: b, gold: '0'}\nfewshot: {count: 2}\n", "count needs a split"},
        {"files: {test: {path: a}}\ntext: {form: plain, convention: gptq}\n", "text belongs to kind text"},
        {"files: {test: {path: 'a_${x}'}}\nvariants: [{y: 1}]\n", "m.yaml:4: path: no variable x"},
        {"tasks: [a]\n", "tasks belongs to kind suite"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_catalog *c = catalog();
        char text[1000];
        infq_err err;
        snprintf(text, sizeof(text), "%s%s", head, bad[i][0]);
        ck_assert_msg(infq_catalog_add(c, text, strlen(text), "m.yaml", "", &err) != 0, "case %zu is accepted", i);
        ck_assert_msg(strstr(err.msg, bad[i][1]) && strstr(err.msg, "m.yaml"), "case %zu: %s", i, err.msg);
        infq_catalog_free(c);
    }
}
END_TEST

START_TEST(a_name_is_given_once)
{
    const char *text = "name: hellaswag\nkind: choice\nabout: x\nfiles: {test: {path: a}}\nprompt: {context: a, choices: b, gold: '0'}\n";
    infq_catalog *c = catalog();
    infq_err err;

    ck_assert_int_eq(infq_catalog_add(c, text, strlen(text), "m.yaml", "", &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, "m.yaml:1: name: another task or suite is called hellaswag");
    ck_assert_str_eq(infq_catalog_nearest(c, "helaswag"), "hellaswag");
    infq_catalog_free(c);
}
END_TEST

/* A manifest of the user's own beside its data. */
static const char *user_folder(const char *yaml, const char *data)
{
    const char *dir = test_tmpdir();

    put(dir, "mine.yaml", yaml);
    put(dir, "mine.csv", data);
    return dir;
}

static infq_status open_user(const char *dir, const infq_task_options *o, infq_task **t, infq_err *err)
{
    infq_data_dirs none = {NULL, 0};
    infq_catalog *c = catalog();
    char path[600];
    infq_status st;

    snprintf(path, sizeof(path), "%s/mine.yaml", dir);
    st = infq_catalog_load(c, path, err);
    if (!st)
        st = infq_task_open_manifest(infq_catalog_find(c, "mine"), &none, o, t, err);
    infq_catalog_free(c);
    return st;
}

static const char mine[] = "name: mine\nkind: choice\nabout: x\nfiles:\n  test: {path: mine.csv, header: true}\nprompt:\n"
                           "  context: \"{{q}} {{options|join('/')}}?\"\n  options: [\"{{a}}\", \"{{b}}\"]\n  labels: \"{{['x', 'y']}}\"\n"
                           "  answer: \"{{right}}\"\n  id: \"{{id}}\"\nfewshot: {split: test, count: 1}\n";

START_TEST(a_users_table_with_a_template_is_a_task)
{
    const char *dir = user_folder(mine, "id,q,a,b,right\r\n1,\"what, now\",one,\"two \"\"2\"\"\",y\r\n2,\"or\nnot\",three,four,x\r\n");
    infq_task_options o = infq_task_options_default();
    infq_task *t;
    infq_err err;

    ck_ok(open_user(dir, &o, &t, &err), err);
    ck_assert_int_eq(infq_task_count(t), 2);
    ck_assert_int_eq(infq_task_get(t, 0)->gold, 1);
    ck_assert_str_eq(infq_task_get(t, 0)->requests[0].context, "or\nnot three/four? three\n\nwhat, now one/two \"2\"?");
    ck_assert_str_eq(infq_task_get(t, 0)->requests[1].continuation, " two \"2\"");
    ck_assert_str_eq(infq_task_get(t, 1)->requests[0].context, "what, now one/two \"2\"? two \"2\"\n\nor\nnot three/four?");
    infq_task_free(t);
    o.shots = 0;
    o.rotate = 1;
    ck_ok(open_user(dir, &o, &t, &err), err);
    ck_assert_str_eq(infq_task_get(t, 0)->requests[0].context, "what, now two \"2\"/one?");
    ck_assert_int_eq(infq_task_get(t, 0)->gold, 0);
    ck_assert_int_eq(infq_task_get(t, 1)->gold, 1);
    infq_task_free(t);
    o.shots = 2;
    ck_assert_int_eq(open_user(dir, &o, &t, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "2 rows, 3 examples are wanted"));
}
END_TEST

START_TEST(broken_tables_and_double_ids_are_named)
{
    static const char *const bad[][2] = {
        {"id,q,a,b,right\n1,x,a,b,y\n1,y,a,b,x\n", "mine.csv: line 3: id 1 is that of item 0 too"},
        {"id,q,a,b,right\n1,x,a,b\n", "mine.csv: line 2: 4 columns, the header has 5"},
        {"id,q,a,b,right\n1,\"x,a,b,y\n", "the quote of line 2 does not end"},
        {"id,q,a,b,right\n1,\"x\"y,a,b,y\n", "line 2: a quoted field is followed by something else"},
        {"id,q,a,b,right\n1,x,a,b,z\n", "line 2: labels: the answer z is none of the labels"},
        {"id,q,a,b,right\n", "holds no items"},
        {"id,q,a,b\n1,x,a,b\n", "line 2: labels: answer: right is undefined"},
    };
    infq_task_options o = infq_task_options_default();

    o.shots = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_task *t;
        infq_err err;
        ck_assert_int_eq(open_user(user_folder(mine, bad[i][0]), &o, &t, &err), INFQ_E_FORMAT);
        ck_assert_msg(strstr(err.msg, bad[i][1]), "case %zu: %s", i, err.msg);
    }
}
END_TEST

START_TEST(missing_and_other_files_say_what_is_wanted)
{
    infq_task_options o = infq_task_options_default();
    const char *dir = test_tmpdir(), *dirs[1] = {dir};
    infq_data_dirs d = {dirs, 1};
    infq_catalog *c = catalog();
    char sub[512];
    infq_task *t;
    infq_err err;

    ck_assert_int_eq(infq_task_open_manifest(infq_catalog_find(c, "copa"), &d, &o, &t, &err), INFQ_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "copa: copa/copa.jsonl is in no data folder; infeval fetch copa gets it (sha256 595dca44dec54c84...) from "
                                          "https://"));
    snprintf(sub, sizeof(sub), "%s/copa", dir);
    mkdir(sub, 0777);
    put(sub, "copa.jsonl", "{\"query\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": 0}\n");
    ck_assert_int_eq(infq_task_open_manifest(infq_catalog_find(c, "copa"), &d, &o, &t, &err), INFQ_E_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.msg, "the manifest wants 595dca44dec54c84"));
    infq_catalog_free(c);
}
END_TEST

START_TEST(files_of_public_sets_are_read_by_name)
{
    static const char *const specs[][3] = {
        {"mmlu", "data/mmlu/test/anatomy_test.csv", "mmlu"}, {"mmlu_x", "data/mmlu/test/anatomy_test.csv", "mmlu_x"},
        {"bigbench", "data/bigbench/snarks.json", "bigbench"}, {"arc_hard", "data/arc/ARC-Challenge-Test.jsonl", "arc_hard"},
        {"hellaswag", "data/hellaswag/hellaswag_val_first400.txt", "hellaswag"}, {"", "data/blimp/adjunct_island.jsonl", "blimp_adjunct_island"},
        {"winogrande", "data/winogrande/winogrande.jsonl", "winogrande"}};
    infq_catalog *c;
    infq_task_options o = infq_task_options_default();

    TEST_NEEDS_SHARED();
    c = catalog();
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        infq_task *t;
        infq_err err;
        ck_ok(infq_task_open_file(c, specs[i][0], test_shared_path(specs[i][1]), &o, &t, &err), err);
        ck_assert_str_eq(infq_task_name(t), specs[i][2]);
        infq_task_free(t);
    }
    infq_catalog_free(c);
}
END_TEST

START_TEST(random_examples_are_drawn_as_python_does)
{
    /* python3 -c "import random; r = random.Random(1234); print(r.sample(range(n), k), r.sample(range(n), 3))" */
    static const int64_t want[3][14] = {{200, 5, 199, 112, 29, 1, 23, 149, 8, 171}, {20, 5, 14, 3, 0, 2, 1, 2, 3, 11},
                                        {1000, 1, 989, 796}};

    for (int i = 0; i < 3; i++) {
        infq_pyrandom r;
        int64_t got[16];
        infq_err err;
        infq_pyrandom_seed(&r, 1234);
        ck_ok(infq_pyrandom_sample(&r, want[i][0], want[i][1], got, &err), err);
        ck_assert_int_eq(memcmp(got, want[i] + 2, (size_t)want[i][1] * sizeof(int64_t)), 0);
        ck_ok(infq_pyrandom_sample(&r, want[i][0], want[i][1], got, &err), err);
        ck_assert_int_eq(got[0], want[i][2 + want[i][1]]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("manifest");
    TCase *t = tcase_create("catalog");

    tcase_add_test(t, compiled_in_manifests_say_source_licence_and_hash);
    tcase_add_test(t, suites_name_tasks_that_exist);
    tcase_add_test(t, mistakes_are_named_by_file_line_and_key);
    tcase_add_test(t, a_name_is_given_once);
    suite_add_tcase(s, t);
    t = tcase_create("prompts");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_same_data_in_another_file_is_the_same_task);
    tcase_add_test(t, every_set_in_the_shared_data_opens);
    tcase_add_test(t, random_examples_are_drawn_as_python_does);
    suite_add_tcase(s, t);
    t = tcase_create("files");
    tcase_add_test(t, a_users_table_with_a_template_is_a_task);
    tcase_add_test(t, broken_tables_and_double_ids_are_named);
    tcase_add_test(t, missing_and_other_files_say_what_is_wanted);
    tcase_add_test(t, files_of_public_sets_are_read_by_name);
    suite_add_tcase(s, t);
    return test_main(s);
}
