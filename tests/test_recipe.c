/* Recipes read into command lines, digests by content, the journal, receipts and what happens to them when a byte changes. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/recipe/contents.h"
#include "lib/recipe/journal.h"
#include "lib/recipe/recipe.h"
#include "lib/recipe/release.h"
#include "tests/testlib.h"

static const infq_recipe_key make_keys[] = {
    {"bits", INFQ_RECIPE_VALUE, false, false, false, false, false, NULL},
    {"group-size", INFQ_RECIPE_VALUE, false, false, false, false, false, NULL},
    {"fast", INFQ_RECIPE_FLAG, false, false, false, false, false, NULL},
    {"type", INFQ_RECIPE_RULES, false, false, false, false, false, NULL},
    {"json", INFQ_RECIPE_FLAG, false, false, false, false, true, NULL},
    {"output", INFQ_RECIPE_VALUE, false, false, false, true, false, ".out"},
    {"model", INFQ_RECIPE_VALUE, true, true, true, false, false, NULL},
};
static const infq_recipe_key look_keys[] = {
    {"limit", INFQ_RECIPE_VALUE, false, false, false, false, false, NULL},
    {"with", INFQ_RECIPE_LIST, false, false, true, false, false, NULL},
    {"models", INFQ_RECIPE_LIST, true, true, true, false, false, NULL},
};
static const infq_recipe_kind kinds[] = {{"make", make_keys, 7, true}, {"look", look_keys, 3, false}};

static const char *write_file(const char *dir, const char *name, const char *text)
{
    const char *path = test_in(dir, name);
    infq_err err;

    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
    return path;
}

static infq_status load(const char *dir, const char *text, const char *const *sets, int n_sets, infq_recipe **out, infq_err *err)
{
    return infq_recipe_load(write_file(dir, "r.yaml", text), kinds, 2, sets, n_sets, NULL, out, err);
}

static const char whole[] = "recipe: demo\n"
                           "about: for the test\n"
                           "variables:\n"
                           "  model:\n"
                           "  bits: 4\n"
                           "  out: ${model}-W${bits}\n"
                           "  limit: \"\"\n"
                           "steps:\n"
                           "  - make:\n"
                           "      model: ${model}\n"
                           "      bits: ${bits}\n"
                           "      group_size: channel\n"
                           "      fast: true\n"
                           "      output: ${out}\n"
                           "      type:\n"
                           "        - {match: [down_proj, \"re:.*up=.*\"], scheme: W8A16, group_size: 64}\n"
                           "        - {match: lm_head, keep: true}\n"
                           "  - look:\n"
                           "      name: before\n"
                           "      models: ${model}\n"
                           "      limit: ${limit}\n"
                           "  - look:\n"
                           "      name: after\n"
                           "      when: make is pass and before is not fail or error\n"
                           "      decides: false\n"
                           "      on_fail: stop\n"
                           "      models: [\"${make.output}\", \"${make.model}\"]\n"
                           "      with: [\"${before.result}\", \"${before.models.base}\", \"${run}\", \"${state}\", \"${recipe_dir}/x\"]\n";

static void check_argv(const infq_recipe_step *s, const char *const *want, int n)
{
    ck_assert_int_eq(s->argc, n);
    for (int i = 0; i < n; i++)
        ck_assert_str_eq(s->argv[i], want[i]);
    ck_assert_ptr_null(s->argv[n]);
}

START_TEST(steps_become_command_lines)
{
    static const char *const make[] = {"make", "--bits=4", "--group-size=channel", "--fast", "--type=down_proj=W8A16:64",
                                       "--type=re:.*up=.*=W8A16:64", "--type=lm_head=keep", "--output=a/m-W4", "--", "a/m"};
    static const char *const before[] = {"look", "--", "a/m"}; // an empty value asks for nothing
    const char *dir = test_tmpdir();
    char x[700], *after[] = {"look", "--with=demo.run/before.json", "--with=m", "--with=demo.run", "--with=demo.run/after.state.json", x, "--",
                             "a/m-W4", "a/m"};
    infq_recipe *r;
    infq_err err;

    ck_ok(load(dir, whole, (const char *const[]){"model=a/m"}, 1, &r, &err), err);
    ck_assert_str_eq(r->name, "demo");
    ck_assert_str_eq(r->about, "for the test");
    ck_assert_int_eq(r->n_steps, 3);
    ck_assert_str_eq(infq_recipe_run(r), "demo.run");
    check_argv(&r->steps[0], make, 10);
    check_argv(&r->steps[1], before, 3);
    snprintf(x, sizeof(x), "--with=%s/x", dir);
    check_argv(&r->steps[2], (const char *const *)after, 9);
    ck_assert_str_eq(r->steps[0].outputs[0], "a/m-W4");
    ck_assert_int_eq(r->steps[0].n_inputs, 1);
    ck_assert_int_eq(r->steps[2].n_inputs, 7);
    ck_assert(r->steps[0].stops && !r->steps[1].stops && r->steps[2].stops);
    ck_assert(r->steps[1].decides && !r->steps[2].decides);
    ck_assert_int_eq(r->steps[2].line, 22);
    ck_assert_int_eq(r->n_vars, 4);
    ck_assert_str_eq(r->vars[2].value, "\"a/m-W4\"");
    infq_recipe_free(r);
}
END_TEST

START_TEST(sets_go_before_defaults_and_the_last_one_counts)
{
    const char *dir = test_tmpdir();
    infq_recipe *r;
    infq_err err;

    ck_ok(load(dir, whole, (const char *const[]){"model=x", "bits=2", "bits=8", "limit=20", "out=a=b"}, 5, &r, &err), err);
    ck_assert_str_eq(r->steps[0].argv[1], "--bits=8");
    ck_assert_str_eq(r->steps[0].outputs[0], "a=b");
    ck_assert_str_eq(r->steps[1].argv[1], "--limit=20");
    ck_assert_str_eq(r->vars[1].value, "8"); // a number, as in the file
    infq_recipe_free(r);
}
END_TEST

START_TEST(outputs_have_a_place_of_their_own_by_default)
{
    infq_recipe *r;
    infq_err err;

    ck_ok(load(test_tmpdir(), "recipe: t\nsteps:\n  - make: {model: m}\n", NULL, 0, &r, &err), err);
    ck_assert_str_eq(r->steps[0].outputs[0], "t.run/make.out");
    infq_recipe_free(r);
}
END_TEST

START_TEST(conditions_are_what_they_say)
{
    static const char text[] = "recipe: t\nsteps:\n  - make: {name: a, model: m}\n  - make: {name: b, model: m}\n"
                               "  - look: {name: c, models: m, when: a is pass or undecided and b is not fail or skipped}\n"
                               "  - look: {name: d, models: m, when: always}\n";
    infq_recipe *r;
    infq_err err;

    ck_ok(load(test_tmpdir(), text, NULL, 0, &r, &err), err);
    for (int a = INFQ_STEP_PASS; a <= INFQ_STEP_SKIPPED; a++)
        for (int b = INFQ_STEP_PASS; b <= INFQ_STEP_SKIPPED; b++) {
            infq_step_state s[] = {(infq_step_state)a, (infq_step_state)b};
            bool want = (a == INFQ_STEP_PASS || a == INFQ_STEP_UNDECIDED) && b != INFQ_STEP_FAIL && b != INFQ_STEP_SKIPPED;
            ck_assert_int_eq(infq_recipe_holds(&r->steps[2], s), want);
            ck_assert(infq_recipe_holds(&r->steps[3], s));
        }
    ck_assert(r->steps[3].always && !r->steps[2].always);
    infq_recipe_free(r);
}
END_TEST

START_TEST(bad_recipes_name_line_key_and_what_was_meant)
{
    static const struct {
        const char *text, *says[3];
    } bad[] = {
        {"recipe: t\nstep:\n  - make: {model: m}\n", {"r.yaml:2: step: ", "steps was probably meant"}},
        {"recipe: t\n", {"steps is missing"}},
        {"steps:\n  - make: {model: m}\n", {"recipe is missing"}},
        {"recipe: a/b\nsteps:\n  - make: {model: m}\n", {"r.yaml:1: recipe: "}},
        {"recipe: t\nsteps: []\n", {"r.yaml:2: steps: ", "1 to 64"}},
        {"recipe: t\nsteps:\n  - mkae: {model: m}\n", {"r.yaml:3: mkae: ", "make was probably meant"}},
        {"recipe: t\nsteps:\n  - make: {model: m}\n    look: {models: m}\n", {"r.yaml:3: ", "one kind"}},
        {"recipe: t\nsteps:\n  - make:\n      model: m\n      group_sise: 4\n", {"r.yaml:5: group_sise: ", "group_size was probably meant"}},
        {"recipe: t\nsteps:\n  - make:\n      model: m\n      wehn: always\n", {"r.yaml:5: wehn: ", "when was probably meant"}},
        {"recipe: t\nsteps:\n  - make:\n      model: m\n      json: true\n", {"r.yaml:5: json: ", "set by infq run"}},
        {"recipe: t\nsteps:\n  - make: {bits: 4}\n", {"r.yaml:3: ", "model is missing"}},
        {"recipe: t\nsteps:\n  - make: {model: m, fast: 1}\n", {"fast: true or false"}},
        {"recipe: t\nsteps:\n  - make: {model: m, bits: [4]}\n", {"bits: text or a number"}},
        {"recipe: t\nsteps:\n  - make: {model: m, type: [{match: a}]}\n", {"either scheme or keep"}},
        {"recipe: t\nsteps:\n  - make: {model: m, type: [{match: a, keep: true, scheme: b}]}\n", {"either scheme or keep"}},
        {"recipe: t\nsteps:\n  - make: {model: m, type: [{macth: a, keep: true}]}\n", {"macth: ", "match was probably meant"}},
        {"recipe: t\nsteps:\n  - make: {model: m, type: [{match: a, keep: true, group_size: 8}]}\n", {"group_size: belongs to a scheme"}},
        {"recipe: t\nsteps:\n  - make: {model: m}\n  - make: {model: m}\n", {"r.yaml:4: ", "another step is called make"}},
        {"recipe: t\nsteps:\n  - make:\n      name: a b\n      model: m\n", {"r.yaml:4: name: "}},
        {"recipe: t\nsteps:\n  - make:\n      model: ${modle}\nvariables: {model: x}\n", {"r.yaml:4: model: ", "model was probably meant"}},
        {"recipe: t\nsteps:\n  - look: {models: \"${make.output}\"}\n  - make: {model: m}\n", {"r.yaml:3: ", "no variable make.output"}},
        {"recipe: t\nvariables:\n  model:\nsteps:\n  - make: {model: \"${model}\"}\n", {"r.yaml:3: model: ", "--set model="}},
        {"recipe: t\nvariables:\n  a: {b: c}\nsteps:\n  - make: {model: m}\n", {"r.yaml:3: a: "}},
        {"recipe: t\nvariables:\n  b: ${a}\n  a: 1\nsteps:\n  - make: {model: m}\n", {"r.yaml:3: b: ", "no variable a"}},
        {"recipe: t\nsteps:\n  - make: {name: one, model: m}\n  - look: {models: m, when: oen is pass}\n", {"r.yaml:4: when: ", "oen", "one"}},
        {"recipe: t\nsteps:\n  - look: {models: m, when: look is pass}\n", {"when: no step before"}},
        {"recipe: t\nsteps:\n  - make: {model: m}\n  - look: {models: m, when: make is good}\n", {"when: ", "not good"}},
        {"recipe: t\nsteps:\n  - make: {model: m}\n  - look: {models: m, when: make pass}\n", {"when: "}},
        {"recipe: t\nsteps:\n  - make: {model: m}\n  - look: {models: m, when: make is pass make is fail}\n", {"when: and is wanted"}},
        {"recipe: t\nsteps:\n  - make: {model: m, on_fail: halt}\n", {"on_fail: stop or continue"}},
        {"recipe: t\nsteps:\n  - make: {model: m, decides: maybe}\n", {"decides: true or false"}},
        {"recipe: t\nsteps:\n  - make: {model: \"\"}\n", {"model is empty"}},
        {"recipe: t\nsteps:\n  - make: [\n", {"r.yaml:"}},
    };
    const char *dir = test_tmpdir();

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_recipe *r = NULL;
        infq_err err = {0, ""};
        ck_assert_msg(load(dir, bad[i].text, NULL, 0, &r, &err) == INFQ_E_FORMAT, "case %zu: %s", i, err.msg);
        for (int k = 0; k < 3 && bad[i].says[k]; k++)
            ck_assert_msg(strstr(err.msg, bad[i].says[k]) != NULL, "case %zu: %s", i, err.msg);
    }
}
END_TEST

START_TEST(sets_of_unknown_variables_are_refused)
{
    infq_recipe *r;
    infq_err err;

    ck_assert_int_eq(load(test_tmpdir(), whole, (const char *const[]){"model=x", "btis=4"}, 2, &r, &err), INFQ_E_USAGE);
    ck_assert_msg(strstr(err.msg, "btis") && strstr(err.msg, "bits"), "%s", err.msg);
    ck_assert_int_eq(load(test_tmpdir(), whole, (const char *const[]){"model"}, 1, &r, &err), INFQ_E_USAGE);
    ck_assert_int_eq(load(test_tmpdir(), whole, (const char *const[]){"=x"}, 1, &r, &err), INFQ_E_USAGE);
}
END_TEST

START_TEST(recipe_survives_running_out_of_memory)
{
    const char *path = write_file(test_tmpdir(), "r.yaml", whole);
    size_t live = infq_mem_stats_get().n_live;
    bool done = false;

    for (size_t n = 1; !done; n++) {
        infq_recipe *r = NULL;
        infq_err err = {0, ""};
        infq_status st;
        infq_mem_fail_at(n);
        st = infq_recipe_load(path, kinds, 2, (const char *const[]){"model=m"}, 1, NULL, &r, &err);
        infq_mem_fail_at(0);
        ck_assert_msg(!st || st == INFQ_E_NOMEM, "%s", err.msg);
        done = !st;
        infq_recipe_free(r);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
        ck_assert_uint_lt(n, 20000);
    }
}
END_TEST

static void digest(const char *cache, const char *path, char hex[65])
{
    infq_contents *c;
    infq_err err;

    ck_ok(infq_contents_open(cache, &c, &err), err);
    ck_ok(infq_contents_digest(c, path, hex, &err), err);
    ck_ok(infq_contents_save(c, &err), err);
    infq_contents_free(c);
}

START_TEST(folder_digest_is_that_of_its_sorted_list)
{
    static const char *const names[] = {"a.b", "a/x", "a/y/z", "b"}; // '.' sorts before '/'
    const char *dir = test_tmpdir(), *top = test_in(dir, "top");
    char want[65], got[65], hex[65];
    infq_buf lines;
    infq_err err;

    ck_assert_int_eq(mkdir(top, 0777), 0);
    ck_assert_int_eq(mkdir(test_in(top, "a"), 0777), 0);
    ck_assert_int_eq(mkdir(test_in(top, "a/y"), 0777), 0);
    infq_buf_init(&lines);
    for (int i = 0; i < 4; i++) {
        write_file(top, names[i], names[i]);
        ck_ok(infq_sha256_of(names[i], strlen(names[i]), hex, &err), err);
        infq_buf_fmt(&lines, "%s  %s\n", hex, names[i]);
    }
    write_file(top, INFQ_RELEASE_NAME, "left out");
    ck_ok(infq_sha256_of(lines.data, lines.n, want, &err), err);
    digest(NULL, top, got);
    ck_assert_str_eq(got, want);
    write_file(top, "a/y/z", "other");
    digest(NULL, top, got);
    ck_assert_str_ne(got, want);
    infq_buf_deinit(&lines);
}
END_TEST

START_TEST(digests_are_kept_only_while_the_file_is_the_same)
{
    const char *dir = test_tmpdir(), *cache = test_in(dir, "cache.json"), *file = write_file(dir, "f", "one");
    char first[65], again[65], other[65], fresh[65];
    infq_buf text;
    infq_err err;

    digest(cache, file, first);
    digest(cache, file, again);
    ck_assert_str_eq(first, again);
    // a wrong entry is believed as long as the file's marks are the same: that is what the cache does
    infq_buf_init(&text);
    ck_ok(infq_file_read(cache, 1 << 16, &text, &err), err);
    memcpy(strstr(text.data, first), "0000", 4);
    ck_ok(infq_file_write_atomic(cache, text.data, text.n, true, &err), err);
    digest(cache, file, again);
    ck_assert_int_eq(strncmp(again, "0000", 4), 0);
    write_file(dir, "f", "two"); // same size, another inode and other times
    digest(cache, file, other);
    digest(NULL, file, fresh);
    ck_assert_str_eq(other, fresh);
    ck_ok(infq_file_write_atomic(cache, "{]", 2, true, &err), err); // a broken cache is made anew
    digest(cache, file, other);
    ck_assert_str_eq(other, fresh);
    infq_buf_deinit(&text);
}
END_TEST

static cJSON *entry(const char *name, const char *key)
{
    cJSON *e = cJSON_CreateObject();

    cJSON_AddStringToObject(e, "name", name);
    cJSON_AddStringToObject(e, "key", key);
    return e;
}

START_TEST(journal_keeps_whole_lines_and_the_last_of_each_step)
{
    const char *dir = test_in(test_tmpdir(), "run"), *file;
    infq_journal *j;
    infq_err err;
    struct stat before, after;
    FILE *f;

    ck_ok(infq_journal_open(dir, &j, &err), err);
    ck_ok(infq_journal_add(j, entry("a", "1"), &err), err);
    ck_ok(infq_journal_add(j, entry("b", "2"), &err), err);
    ck_ok(infq_journal_add(j, entry("a", "3"), &err), err);
    infq_journal_close(j);
    file = test_in(dir, "journal.jsonl");
    ck_assert_int_eq(stat(file, &before), 0);
    f = fopen(file, "a");
    fputs("{\"name\":\"c\",\"ke", f); // a kill in the middle of a line
    fclose(f);
    ck_ok(infq_journal_open(dir, &j, &err), err);
    ck_assert_str_eq(infq_json_get(infq_journal_find(j, "a"), "key")->valuestring, "3");
    ck_assert_str_eq(infq_json_get(infq_journal_find(j, "b"), "key")->valuestring, "2");
    ck_assert_ptr_null(infq_journal_find(j, "c"));
    infq_journal_close(j);
    ck_assert_int_eq(stat(file, &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size); // the torn line is gone
    f = fopen(file, "a");
    fputs("{}\n", f);
    fclose(f);
    ck_assert_int_eq(infq_journal_open(dir, &j, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "journal.jsonl") && strstr(err.msg, "line 4"), "%s", err.msg);
}
END_TEST

START_TEST(journal_lets_one_run_in_at_a_time)
{
    const char *dir = test_in(test_tmpdir(), "run");
    infq_journal *j;
    infq_err err;
    int status;
    pid_t pid;

    ck_ok(infq_journal_open(dir, &j, &err), err);
    pid = fork();
    if (pid == 0) {
        infq_journal *mine;
        infq_err other;
        _exit(infq_journal_open(dir, &mine, &other) == INFQ_E_EXISTS ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    infq_journal_close(j);
    ck_ok(infq_journal_open(dir, &j, &err), err);
    infq_journal_close(j);
}
END_TEST

/* A run of one step that made a model, as infq run leaves it. */
static void make_run(const char *dir)
{
    const char *run = test_in(dir, "run"), *model = test_in(dir, "model"), *source = write_file(dir, "source", "source");
    char hex_model[65], hex_source[65], hex_recipe[65], hex_result[65], line[4000];
    infq_journal *j;
    cJSON *e;
    infq_err err;

    ck_assert_int_eq(mkdir(model, 0777), 0);
    write_file(model, "a", "first file");
    write_file(model, "b", "second file");
    write_file(dir, "r.yaml", "recipe: t\n");
    ck_ok(infq_journal_open(run, &j, &err), err);
    write_file(run, "verify.json", "{\"passed\": true}");
    digest(NULL, model, hex_model);
    digest(NULL, source, hex_source);
    digest(NULL, test_in(dir, "r.yaml"), hex_recipe);
    digest(NULL, test_in(run, "verify.json"), hex_result);
    snprintf(line, sizeof(line),
             "{\"name\":\"q\",\"kind\":\"quantize\",\"key\":\"k\",\"inputs\":[{\"path\":\"%s\",\"sha256\":\"%s\"}],"
             "\"outputs\":[{\"path\":\"%s\",\"sha256\":\"%s\"}]}", source, hex_source, model, hex_model);
    ck_ok(infq_json_parse(line, strlen(line), "line", &e, &err), err);
    ck_ok(infq_journal_add(j, e, &err), err);
    snprintf(line, sizeof(line),
             "{\"name\":\"verify\",\"kind\":\"verify\",\"key\":\"k\",\"inputs\":[{\"path\":\"%s\",\"sha256\":\"%s\"}],"
             "\"outputs\":[{\"path\":\"%s/verify.json\",\"sha256\":\"%s\"}]}", model, hex_model, run, hex_result);
    ck_ok(infq_json_parse(line, strlen(line), "line", &e, &err), err);
    ck_ok(infq_journal_add(j, e, &err), err);
    infq_journal_close(j);
    snprintf(line, sizeof(line),
             "{\"schema\":\"infq.run.v1\",\"recipe\":\"t\",\"recipe_path\":\"%s/r.yaml\",\"recipe_sha256\":\"%s\",\"version\":\"0\","
             "\"build_sha256\":\"b\",\"variables\":{},\"steps\":[{\"name\":\"q\",\"kind\":\"quantize\",\"state\":\"pass\",\"exit\":0},"
             "{\"name\":\"verify\",\"kind\":\"verify\",\"state\":\"pass\",\"exit\":0}],\"verdict\":\"pass\",\"exit\":0}", dir, hex_recipe);
    write_file(run, "run.json", line);
}

static void receipt_of(const char *dir, infq_buf *to)
{
    infq_contents *c;
    infq_err err;

    infq_buf_init(to);
    ck_ok(infq_contents_open(NULL, &c, &err), err);
    ck_ok(infq_release_write(test_in(dir, "run"), test_in(dir, "model"), c, to, &err), err);
    infq_contents_free(c);
}

/* Whether a receipt holds: nothing differs, nothing of the model is missing. */
static bool holds(const char *path, infq_release_check *kept)
{
    infq_release_check check;
    infq_contents *c;
    infq_err err;
    bool good;

    ck_ok(infq_contents_open(NULL, &c, &err), err);
    good = infq_release_verify(path, NULL, c, &check, &err) == 0;
    infq_contents_free(c);
    if (!good)
        return false;
    good = check.n_differs == 0 && !check.required_absent;
    if (kept)
        *kept = check;
    else
        infq_release_check_deinit(&check);
    return good;
}

START_TEST(receipt_holds_and_every_changed_byte_of_it_shows)
{
    const char *dir = test_tmpdir(), *path;
    infq_release_check check;
    infq_buf text;
    infq_err err;
    int fd;

    make_run(dir);
    receipt_of(dir, &text);
    path = test_in(test_in(dir, "model"), INFQ_RELEASE_NAME);
    ck_ok(infq_file_write_atomic(path, text.data, text.n, true, &err), err);
    ck_assert(holds(path, &check));
    ck_assert_uint_eq(check.n_absent, 0);
    ck_assert_str_eq(check.verdict, "pass");
    infq_release_check_deinit(&check);
    ck_assert(holds(test_in(dir, "model"), NULL)); // found in the folder
    fd = open(path, O_WRONLY);
    for (size_t i = 0; i < text.n; i++) {
        char other = (char)(text.data[i] ^ 1);
        ck_assert_int_eq(pwrite(fd, &other, 1, (off_t)i), 1);
        ck_assert_msg(!holds(path, NULL), "byte %zu may change", i);
        ck_assert_int_eq(pwrite(fd, &text.data[i], 1, (off_t)i), 1);
    }
    close(fd);
    ck_assert(holds(path, NULL));
    infq_buf_deinit(&text);
}
END_TEST

static void expect_change(const char *dir, const char *file, const char *was, const char *now, const char *says)
{
    infq_release_check check;
    bool found = false;

    write_file(dir, file, now);
    ck_assert_msg(!holds(test_in(dir, "model"), &check), "%s may change", file);
    for (size_t i = 0; i < check.n; i++)
        found = found || (check.v[i].state == INFQ_RELEASE_DIFFERS && strstr(check.v[i].what, says));
    ck_assert_msg(found, "%s is not named", says);
    infq_release_check_deinit(&check);
    if (was)
        write_file(dir, file, was);
    else
        unlink(test_in(dir, file));
    ck_assert(holds(test_in(dir, "model"), NULL));
}

START_TEST(one_byte_of_what_a_receipt_names_shows)
{
    const char *dir = test_tmpdir();
    infq_release_check check;
    infq_buf text;
    infq_err err;

    make_run(dir);
    receipt_of(dir, &text);
    ck_ok(infq_file_write_atomic(test_in(test_in(dir, "model"), INFQ_RELEASE_NAME), text.data, text.n, true, &err), err);
    expect_change(dir, "model/a", "first file", "first filf", "a");
    expect_change(dir, "model/extra", NULL, "x", "extra"); // a file more
    expect_change(dir, "source", "source", "Source", "source");
    expect_change(dir, "r.yaml", "recipe: t\n", "recipe: u\n", "r.yaml");
    expect_change(dir, "run/verify.json", "{\"passed\": true}", "{\"passed\":false}", "verify.json");
    // what is not here is told; a file of the model must be here
    unlink(test_in(dir, "source"));
    ck_assert(holds(test_in(dir, "model"), &check));
    ck_assert_uint_eq(check.n_absent, 1);
    infq_release_check_deinit(&check);
    unlink(test_in(dir, "model/b"));
    ck_assert(!holds(test_in(dir, "model"), NULL));
    infq_buf_deinit(&text);
}
END_TEST

START_TEST(receipt_of_a_chain_that_does_not_hold_together_is_refused)
{
    const char *dir = test_tmpdir();
    char hex[65], *at;
    infq_release_check check;
    infq_buf text;
    infq_err err;
    bool told = false;

    make_run(dir);
    receipt_of(dir, &text);
    digest(NULL, test_in(dir, "model"), hex);
    at = strstr(strstr(text.data, "\"verify\""), hex); // what verify read, made to differ from what q wrote
    *at = *at == '0' ? '1' : '0';
    ck_ok(infq_file_write_atomic(test_in(dir, "receipt.json"), text.data, text.n, true, &err), err);
    ck_assert(!holds(test_in(dir, "receipt.json"), &check));
    for (size_t i = 0; i < check.n; i++)
        told = told || strstr(check.v[i].text, "than the step before wrote");
    ck_assert(told);
    infq_release_check_deinit(&check);
    infq_buf_deinit(&text);
}
END_TEST

START_TEST(what_is_no_receipt_is_refused)
{
    const char *dir = test_tmpdir();
    infq_release_check check;
    infq_contents *c;
    infq_err err;

    ck_ok(infq_contents_open(NULL, &c, &err), err);
    ck_assert_int_eq(infq_release_verify(dir, NULL, c, &check, &err), INFQ_E_NOT_FOUND);
    ck_assert_int_eq(infq_release_verify(write_file(dir, "x.json", "{\"schema\":\"other\"}"), NULL, c, &check, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "other") != NULL, "%s", err.msg);
    ck_assert_int_eq(infq_release_verify(write_file(dir, "y.json", "{"), NULL, c, &check, &err), INFQ_E_FORMAT);
    infq_contents_free(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("recipe");
    TCase *t = tcase_create("recipe");

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, steps_become_command_lines);
    tcase_add_test(t, sets_go_before_defaults_and_the_last_one_counts);
    tcase_add_test(t, outputs_have_a_place_of_their_own_by_default);
    tcase_add_test(t, conditions_are_what_they_say);
    tcase_add_test(t, bad_recipes_name_line_key_and_what_was_meant);
    tcase_add_test(t, sets_of_unknown_variables_are_refused);
    tcase_add_test(t, recipe_survives_running_out_of_memory);
    tcase_add_test(t, folder_digest_is_that_of_its_sorted_list);
    tcase_add_test(t, digests_are_kept_only_while_the_file_is_the_same);
    tcase_add_test(t, journal_keeps_whole_lines_and_the_last_of_each_step);
    tcase_add_test(t, journal_lets_one_run_in_at_a_time);
    tcase_add_test(t, receipt_holds_and_every_changed_byte_of_it_shows);
    tcase_add_test(t, one_byte_of_what_a_receipt_names_shows);
    tcase_add_test(t, receipt_of_a_chain_that_does_not_hold_together_is_refused);
    tcase_add_test(t, what_is_no_receipt_is_refused);
    return test_main(s);
}
