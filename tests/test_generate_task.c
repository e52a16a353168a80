/* Generation tasks end to end: the compiled-in manifests on the shared data with stories260k against the reference, items, resuming, chat,
 * reasoning, export and import. */
#include "lib/eval/generate_task.h"

#include <unistd.h>

#include "lib/base/par.h"
#include "lib/eval/answer.h"
#include "tests/testlib.h"

static infq_err err;
static infq_backend *backend;
static infq_checkpoint *checkpoint;
static infq_writer writer;
static infq_tokenizer *tokenizer;

static void open_writer(const char *path)
{
    infq_model_options mo = infq_model_options_default();
    infq_log log = { 0 };

    infq_par_threads_set(1);
    ck_ok(infq_backend_open("cpu", &backend, &err), err);
    ck_ok(infq_checkpoint_open(path, &log, &checkpoint, &err), err);
    ck_ok(infq_model_open(checkpoint, backend, &mo, &writer.model, &err), err);
    ck_ok(infq_tokenizer_open(path, &tokenizer, &err), err);
    writer.tok = tokenizer;
}

static void close_writer(void)
{
    infq_tokenizer_free(tokenizer);
    infq_model_close(writer.model);
    infq_checkpoint_close(checkpoint);
    infq_backend_close(backend);
}

// A compiled-in task on the shared data.
static infq_task *task_of(const char *name, int64_t limit)
{
    infq_catalog *c = NULL;
    const infq_manifest *m;
    infq_task_options o = infq_task_options_default();
    const char *dir = test_shared_path("data");
    infq_data_dirs dirs = { &dir, 1 };
    infq_task *t = NULL;

    o.limit = limit;
    ck_ok(infq_catalog_new(&c, &err), err);
    m = infq_catalog_find(c, name);
    ck_assert_msg(m != NULL, "no task %s", name);
    ck_ok(infq_task_open_manifest(m, &dirs, &o, &t, &err), err);
    infq_catalog_free(c);
    return t;
}

static infq_items *items_of(const infq_task *t)
{
    infq_item_key key;
    infq_items *s = NULL;

    memset(&key, 0, sizeof(key));
    snprintf(key.task, sizeof(key.task), "%s", infq_task_name(t));
    snprintf(key.metric, sizeof(key.metric), "%s", infq_task_metric(t));
    snprintf(key.task_digest, sizeof(key.task_digest), "%s", infq_task_digest(t));
    ck_ok(infq_items_new(&key, &s, &err), err);
    return s;
}

START_TEST(every_generation_task_runs)
{
    static const char *const names[] = { "gsm8k", "mgsm_en", "mgsm_fr", "ifeval", "humaneval", "mbpp" };
    infq_generate_task_options o = infq_generate_task_options_default();

    TEST_NEEDS_SHARED();
    open_writer(test_shared_path("data/model-stories260k/hf"));
    o.generate.max_tokens = 12;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        infq_task *t = task_of(names[i], 3);
        infq_items *items = items_of(t);
        infq_generate_counts c;
        double v;

        ck_ok(infq_generate_task(&writer, t, &o, items, NULL, &err), err);
        c = infq_generate_count(items);
        ck_assert_int_eq(c.n, 3);
        ck_assert(c.length > 0 && c.length <= 12);
        ck_assert_int_le(c.truncated, 3);
        if (infq_task_generation_of(t)->extract[0] != 'c') // code is judged elsewhere
            ck_assert_msg(infq_item_metric_get(infq_items_get(items, 0), infq_task_metric(t), &v), "%s: no %s", names[i],
                          infq_task_metric(t));
        infq_items_free(items);
        infq_task_free(t);
    }
    close_writer();
}
END_TEST

static infq_task *own_task(const char *dir, const char *rows)
{
    static const char manifest[] = "name: own\nkind: generate\nabout: x\nmetric: exact\nfiles: {test: [{path: own.jsonl}]}\n"
                                   "prompt: {context: '{{q}}', target: '{{a}}'}\n"
                                   "generate: {max_tokens: 10, stop: ['.'], extract: exact, chat: true}\n";
    infq_catalog *c = NULL;
    infq_task_options o = infq_task_options_default();
    infq_data_dirs dirs = { &dir, 1 };
    infq_task *t = NULL;
    char path[300];
    FILE *f;

    snprintf(path, sizeof(path), "%s/own.jsonl", dir);
    f = fopen(path, "w");
    fputs(rows, f);
    fclose(f);
    ck_ok(infq_catalog_new(&c, &err), err);
    ck_ok(infq_catalog_add(c, manifest, strlen(manifest), "own.yaml", "", &err), err);
    ck_ok(infq_task_open_manifest(infq_catalog_find(c, "own"), &dirs, &o, &t, &err), err);
    infq_catalog_free(c);
    return t;
}

static const char rows[] = "{\"q\": \"The cat is in the\", \"a\": \"x\", \"task_id\": \"T/0\"}\n"
                           "{\"q\": \"Anna and\", \"a\": \"y\", \"task_id\": 7}\n{\"q\": \"The box\", \"a\": \"z\"}\n";

START_TEST(an_interrupted_run_goes_on_to_the_same_file)
{
    const char *dir = test_tmpdir();
    char whole[300], parts[300];
    infq_generate_task_options o = infq_generate_task_options_default();
    infq_task *t;
    infq_items *items;
    infq_item_log *log = NULL;
    infq_buf a, b;

    open_writer("evals/demo-model");
    t = own_task(dir, rows);
    snprintf(whole, sizeof(whole), "%s/whole.jsonl", dir);
    snprintf(parts, sizeof(parts), "%s/parts.jsonl", dir);
    for (int k = 0; k < 2; k++) {
        items = items_of(t);
        ck_ok(infq_item_log_open(k ? parts : whole, items, &log, &err), err);
        if (k) {
            ck_assert_int_eq(infq_items_count(items), 1); // what is left of the file below
            o.generate.batch = 1;
        }
        ck_ok(infq_generate_task(&writer, t, &o, items, log, &err), err);
        ck_ok(infq_item_log_close(log, &err), err);
        infq_items_free(items);
        infq_buf_init(k ? &b : &a);
        ck_ok(infq_file_read(k ? parts : whole, (size_t)1 << 20, k ? &b : &a, &err), err);
        if (!k) { // key, one item, a torn second
            FILE *f = fopen(parts, "w");
            size_t n = (size_t)(strchr(strchr(a.data, '\n') + 1, '\n') - a.data) + 30;
            fwrite(a.data, 1, n, f);
            fclose(f);
        }
    }
    ck_assert_str_eq(a.data, b.data);
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
    infq_task_free(t);
    close_writer();
}
END_TEST

START_TEST(prompts_go_through_the_template_when_task_or_user_says)
{
    infq_generate_task_options o = infq_generate_task_options_default();
    infq_chat *chat = NULL;
    infq_task *t;
    char request[3][17];
    bool uses;

    open_writer("evals/demo-model");
    t = own_task(test_tmpdir(), rows);
    ck_ok(infq_chat_parse("{% for m in messages %}{{ m.content }} . {% endfor %}", 53, &chat, &err), err);
    for (int k = 0; k < 3; k++) {
        infq_items *items = items_of(t);
        writer.chat = k == 0 ? NULL : chat;
        o.chat = k == 2 ? INFQ_CHAT_NEVER : INFQ_CHAT_TASK;
        ck_ok(infq_generate_uses_chat(&writer, t, &o, &uses, &err), err);
        ck_assert_int_eq(uses, k == 1);
        ck_ok(infq_generate_task(&writer, t, &o, items, NULL, &err), err);
        strcpy(request[k], infq_items_get(items, 0)->request);
        infq_items_free(items);
    }
    ck_assert_str_eq(request[0], request[2]);
    ck_assert_str_ne(request[0], request[1]);
    writer.chat = NULL;
    o.chat = INFQ_CHAT_ALWAYS;
    ck_assert_int_eq(infq_generate_uses_chat(&writer, t, &o, &uses, &err), INFQ_E_NOT_FOUND);
    infq_chat_free(chat);
    infq_task_free(t);
    close_writer();
}
END_TEST

static infq_items *made_up(const infq_task *t)
{
    infq_items *s = items_of(t);
    infq_answers *a = NULL;

    ck_ok(infq_answers_open("code", NULL, &a, &err), err);
    for (int64_t i = 0; i < infq_task_count(t); i++) {
        infq_item *it;
        ck_ok(infq_items_add(s, 1, &it, &err), err);
        it->kind = INFQ_ITEM_GENERATE;
        it->doc = i;
        it->text = "    return \"x\"\n";
        it->stop = "eos";
        ck_ok(infq_answers_judge(a, s, it, it->text, strlen(it->text), "", NULL, &err), err);
    }
    infq_answers_close(a);
    return s;
}

static infq_status import_text(const infq_task *t, infq_items *s, const char *dir, const char *text)
{
    char path[300];
    FILE *f;

    snprintf(path, sizeof(path), "%s/scores.jsonl", dir);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return infq_generate_import(t, s, path, "passed", &err);
}

START_TEST(completions_go_out_and_scores_come_back)
{
    const char *dir = test_tmpdir();
    char path[300];
    infq_task *t = own_task(dir, rows);
    infq_items *s = made_up(t);
    infq_buf out;
    double v;

    snprintf(path, sizeof(path), "%s/out.jsonl", dir);
    ck_ok(infq_generate_export(t, s, path, &err), err);
    infq_buf_init(&out);
    ck_ok(infq_file_read(path, (size_t)1 << 20, &out, &err), err);
    ck_assert_str_eq(out.data, "{\"task_id\":\"T/0\",\"completion\":\"    return \\\"x\\\"\\n\",\"doc\":0}\n"
                               "{\"task_id\":7,\"completion\":\"    return \\\"x\\\"\\n\",\"doc\":1}\n"
                               "{\"task_id\":2,\"completion\":\"    return \\\"x\\\"\\n\",\"doc\":2}\n");
    ck_assert_int_eq(infq_generate_export(t, s, path, &err), INFQ_E_EXISTS);
    infq_buf_deinit(&out);
    ck_ok(import_text(t, s, dir, "{\"task_id\": 7, \"passed\": true}\n\n{\"doc\": 2, \"score\": 0.25}\n{\"task_id\":\"T/0\",\"score\":false}"),
          err);
    ck_assert(infq_item_metric_get(infq_items_get(s, 0), "passed", &v) && v == 0);
    ck_assert(infq_item_metric_get(infq_items_get(s, 1), "passed", &v) && v == 1);
    ck_assert(infq_item_metric_get(infq_items_get(s, 2), "passed", &v) && v == 0.25);
    infq_items_free(s);
    infq_task_free(t);
}
END_TEST

START_TEST(scores_that_do_not_fit_are_named)
{
    static const struct {
        const char *text;
        infq_status code;
        const char *says;
    } bad[] = {
        { "{\"doc\": 0, \"score\": 1}\n{\"doc\": 1, \"score\": 1}\n", INFQ_E_FORMAT, "item 2 has no score" },
        { "{\"doc\": 9, \"score\": 1}\n", INFQ_E_FORMAT, "line 1: doc or task_id names none" },
        { "{\"doc\": 0, \"score\": 1}\n{\"task_id\": \"T/0\", \"score\": 1}\n", INFQ_E_FORMAT, "line 2: a second score for item 0" },
        { "{\"doc\": 0, \"score\": 1.5}\n", INFQ_E_NUMERIC, "line 1: the score is not between" },
        { "{\"doc\": 0}\n", INFQ_E_FORMAT, "neither score nor passed" },
        { "{\"doc\": 0,\n", INFQ_E_FORMAT, "line 1" },
    };
    const char *dir = test_tmpdir();
    infq_task *t = own_task(dir, rows);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_items *s = made_up(t);
        ck_assert_int_eq(import_text(t, s, dir, bad[i].text), bad[i].code);
        ck_assert_msg(strstr(err.msg, bad[i].says) != NULL, "<%s> does not say <%s>", err.msg, bad[i].says);
        infq_items_free(s);
    }
    infq_task_free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("generate_task");
    TCase *t = tcase_create("tasks");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_generation_task_runs);
    tcase_add_test(t, an_interrupted_run_goes_on_to_the_same_file);
    tcase_add_test(t, prompts_go_through_the_template_when_task_or_user_says);
    tcase_add_test(t, completions_go_out_and_scores_come_back);
    tcase_add_test(t, scores_that_do_not_fit_are_named);
    suite_add_tcase(s, t);
    return test_main(s);
}
