#include "lib/base/hash.h"
#include "lib/eval/gen.h"
#include "tests/testlib.h"

/* Folder of the committed files: the tests run from the root of the tree. */
#define EVALS "evals"

static infq_buf text_of(uint64_t seed, size_t n_bytes, bool marks)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_gen_text(seed, n_bytes, marks, &b, &err), err);
    return b;
}

static infq_buf items_of(int kind, int n)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_gen_items(kind, INFQ_GEN_TASK_SEED, n, &b, &err), err);
    return b;
}

START_TEST(text_is_the_same_bytes_on_every_machine)
{
    static const struct {
        uint64_t seed;
        const char *sha256;
    } pinned[] = {{1, "6a4a789fff244db45fc8a9bdf2638e9e87eb547c5696b0615374b9bdd11e9303"},
                  {2, "15358da86cf3058c69165bf652ee0eb3310d8f101a2cd1c70ec28ce68ecf84ae"}};

    for (int i = 0; i < 2; i++) {
        infq_buf b = text_of(pinned[i].seed, 20000, false);
        infq_err err;
        char hex[65];

        ck_ok(infq_sha256_of(b.data, 20000, hex, &err), err);
        ck_assert_str_eq(hex, pinned[i].sha256);
        infq_buf_deinit(&b);
    }
}
END_TEST

START_TEST(text_is_whole_documents_that_reach_the_size)
{
    infq_buf b = text_of(5, 3000, false);

    ck_assert_uint_ge(b.n, 3000);
    ck_assert_uint_lt(b.n, 3000 + 600);
    ck_assert_int_eq(b.data[b.n - 1], '\n');
    ck_assert_ptr_null(strstr(b.data, "\n\n"));
    ck_assert_ptr_null(memchr(b.data, '\t', b.n));
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(longer_text_begins_with_the_shorter_one)
{
    infq_buf a = text_of(7, 2000, false);
    infq_buf b = text_of(7, 9000, false);

    ck_assert_uint_lt(a.n, b.n);
    ck_assert_mem_eq(a.data, b.data, a.n);
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(marks_stand_once_a_document_before_a_blank_and_change_nothing_else)
{
    infq_buf marked = text_of(9, 20000, true);
    infq_buf plain = text_of(9, marked.n, false);
    size_t n = 0;
    int marks = 0;

    for (size_t i = 0; i < marked.n; i++) {
        if (marked.data[i] == '\t') {
            marks++;
            ck_assert_int_eq(marked.data[i + 1], ' ');
            continue;
        }
        ck_assert_int_eq(marked.data[i], plain.data[n++]);
        if (marked.data[i] == '\n') {
            ck_assert_int_eq(marks, 1);
            marks = 0;
        }
    }
    infq_buf_deinit(&marked);
    infq_buf_deinit(&plain);
}
END_TEST

/* Parses one line and checks its form; the tree is the caller's. */
static cJSON *item_checked(const char *line, size_t n, const char *name)
{
    cJSON *item;
    infq_err err;
    const char *context;
    const cJSON *choices;
    int64_t gold;
    int n_choices;

    ck_ok(infq_json_parse(line, n, name, &item, &err), err);
    ck_ok(infq_json_str(item, "context", "", &context, &err), err);
    ck_ok(infq_json_i64(item, "gold", -1, &gold, &err), err);
    choices = infq_json_get(item, "choices");
    n_choices = cJSON_GetArraySize(choices);
    ck_assert_int_ge(n_choices, 2);
    ck_assert_int_le(n_choices, 4);
    ck_assert_int_ge(gold, 0);
    ck_assert_int_lt(gold, n_choices);
    ck_assert_uint_gt(strlen(context), 0);
    ck_assert_int_ne(context[strlen(context) - 1], ' ');
    for (int i = 0; i < n_choices; i++) {
        const char *c = cJSON_GetArrayItem(choices, i)->valuestring;

        ck_assert_int_eq(c[0], ' ');
        ck_assert_uint_ge(strlen(c), 2);
        ck_assert_int_ne(c[1], ' ');
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(c, cJSON_GetArrayItem(choices, j)->valuestring);
    }
    return item;
}

START_TEST(every_item_has_a_valid_gold_and_distinct_choices)
{
    infq_buf b = items_of(_i, INFQ_GEN_TASK_ITEMS);
    int n = 0, at_first = 0;
    const char *line = b.data;

    while (*line) {
        const char *end = strchr(line, '\n');
        cJSON *item = item_checked(line, (size_t)(end - line), infq_gen_kind_name(_i));

        at_first += infq_json_get(item, "gold")->valueint == 0;
        cJSON_Delete(item);
        line = end + 1;
        n++;
    }
    ck_assert_int_eq(n, INFQ_GEN_TASK_ITEMS);
    // always answering with the first choice must not pay: 200 items, at most half plus 4
    // deviations
    ck_assert_int_le(at_first, 128);
    ck_assert_int_ge(at_first, 20);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(no_item_stands_in_the_training_text)
{
    infq_buf text = text_of(11, 1000000, false);
    infq_buf b = items_of(_i, 40);
    infq_buf whole;
    infq_err err;
    const char *line = b.data;

    infq_buf_init(&whole);
    while (*line) {
        const char *end = strchr(line, '\n');
        cJSON *item = item_checked(line, (size_t)(end - line), "item");
        const char *context;
        int gold = infq_json_get(item, "gold")->valueint;

        ck_ok(infq_json_str(item, "context", "", &context, &err), err);
        infq_buf_clear(&whole);
        infq_buf_fmt(&whole, "\n%s%s", context,
                     cJSON_GetArrayItem(infq_json_get(item, "choices"), gold)->valuestring);
        ck_assert_msg(!strstr(text.data, whole.data), "%s is in the text", whole.data);
        cJSON_Delete(item);
        line = end + 1;
    }
    infq_buf_deinit(&whole);
    infq_buf_deinit(&b);
    infq_buf_deinit(&text);
}
END_TEST

START_TEST(more_items_than_the_grammar_has_is_a_usage_error)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_assert_int_eq(infq_gen_items(1, 1, 2000, &b, &err), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "count has only"));
    ck_assert_int_eq(infq_gen_items(infq_gen_n_kinds(), 1, 10, &b, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_gen_items(0, 1, 0, &b, &err), INFQ_E_USAGE);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(failing_allocations_give_an_error_and_leak_nothing)
{
    bool through = false;

    for (size_t n = 1; n < 200 && !through; n++) {
        infq_buf b;
        infq_err err;
        infq_status st;
        size_t live = infq_mem_stats_get().n_live;

        infq_buf_init(&b);
        infq_mem_fail_at(n);
        st = infq_gen_items(0, 3, 20, &b, &err);
        if (!st)
            st = infq_gen_text(3, 2000, false, &b, &err);
        infq_mem_fail_at(0);
        if (st)
            ck_assert_int_eq(st, INFQ_E_NOMEM);
        through = !st;
        infq_buf_deinit(&b);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
    }
    ck_assert(through);
}
END_TEST

/* Committed file equals generated bytes. */
static void file_equals(const char *path, const infq_buf *want)
{
    infq_buf got;
    infq_err err;

    infq_buf_init(&got);
    ck_ok(infq_file_read(path, 1 << 20, &got, &err), err);
    ck_assert_msg(got.n == want->n && !memcmp(got.data, want->data, got.n),
                  "%s is not what the generator makes", path);
    infq_buf_deinit(&got);
}

START_TEST(committed_task_sets_are_what_the_generator_makes)
{
    infq_buf b = items_of(_i, INFQ_GEN_TASK_ITEMS);
    char path[64];

    snprintf(path, sizeof path, EVALS "/tasks/%s.jsonl", infq_gen_kind_name(_i));
    file_equals(path, &b);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(tasks_are_written_as_one_file_a_kind)
{
    const char *dir = test_tmpdir();
    char **names;
    size_t n;
    infq_err err;

    // a set that cannot be filled leaves no file of any set
    ck_assert_int_eq(infq_gen_tasks(dir, INFQ_GEN_TASK_SEED, 1000, &err), INFQ_E_USAGE);
    ck_ok(infq_dir_list(dir, &names, &n, &err), err);
    ck_assert_uint_eq(n, 0);
    infq_dir_list_free(names, n);
    ck_ok(infq_gen_tasks(dir, INFQ_GEN_TASK_SEED, 5, &err), err);
    ck_ok(infq_dir_list(dir, &names, &n, &err), err);
    ck_assert_uint_eq(n, (size_t)infq_gen_n_kinds());
    infq_dir_list_free(names, n);
    for (int k = 0; k < infq_gen_n_kinds(); k++) {
        infq_buf b = items_of(k, 5);
        char path[512];

        snprintf(path, sizeof path, "%s/%s.jsonl", dir, infq_gen_kind_name(k));
        file_equals(path, &b);
        infq_buf_deinit(&b);
    }
}
END_TEST

START_TEST(committed_calibration_text_is_what_the_generator_makes)
{
    infq_buf b = text_of(INFQ_GEN_CALIB_SEED, INFQ_GEN_CALIB_BYTES, false);

    file_equals(EVALS "/calib.txt", &b);
    infq_buf_deinit(&b);
}
END_TEST

static int64_t config_i64(const cJSON *config, const char *key)
{
    infq_err err;
    int64_t v;

    ck_ok(infq_json_i64(config, key, -1, &v, &err), err);
    return v;
}

START_TEST(demo_model_files_belong_together)
{
    cJSON *config = test_json(EVALS "/demo-model/config.json");
    cJSON *tokenizer = test_json(EVALS "/demo-model/tokenizer.json");
    cJSON *generation = test_json(EVALS "/demo-model/generation_config.json");
    int64_t hidden = config_i64(config, "hidden_size"),
            ffn = config_i64(config, "intermediate_size");
    int64_t vocab = config_i64(config, "vocab_size"),
            layers = config_i64(config, "num_hidden_layers");
    int64_t width = config_i64(config, "head_dim");
    int64_t q = width * config_i64(config, "num_attention_heads");
    int64_t kv = width * config_i64(config, "num_key_value_heads");
    int64_t n = vocab * hidden + hidden;
    const cJSON *entries = infq_json_get(infq_json_get(tokenizer, "model"), "vocab");
    infq_filemap map;
    infq_err err;
    uint64_t head = 0;

    n += layers * (2 * hidden + 2 * hidden * q + 2 * hidden * kv + 3 * hidden * ffn);
    ck_assert_int_eq(cJSON_GetArraySize(entries), vocab);
    ck_assert_int_eq(infq_json_get(entries, "<s>")->valueint, config_i64(config, "bos_token_id"));
    ck_assert_int_eq(infq_json_get(entries, "</s>")->valueint,
                     config_i64(generation, "eos_token_id"));
    ck_assert_int_eq(hidden % 128, 0);
    ck_assert_int_eq(ffn % 128, 0);
    ck_assert_int_eq(q % 128, 0);
    ck_ok(infq_filemap_open(EVALS "/demo-model/model.safetensors", &map, &err), err);
    for (int i = 0; i < 8; i++)
        head |= (uint64_t)map.data[i] << (8 * i);
    ck_assert_uint_eq(map.size, 8 + head + 2 * (uint64_t)n);
    ck_assert_uint_lt(map.size, 3000000);
    infq_filemap_close(&map);
    cJSON_Delete(config);
    cJSON_Delete(tokenizer);
    cJSON_Delete(generation);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gen");
    TCase *text = tcase_create("text");
    TCase *items = tcase_create("items");
    TCase *files = tcase_create("files");

    tcase_add_test(text, text_is_the_same_bytes_on_every_machine);
    tcase_add_test(text, text_is_whole_documents_that_reach_the_size);
    tcase_add_test(text, longer_text_begins_with_the_shorter_one);
    tcase_add_test(text, marks_stand_once_a_document_before_a_blank_and_change_nothing_else);
    tcase_add_test(text, failing_allocations_give_an_error_and_leak_nothing);
    suite_add_tcase(s, text);
    tcase_add_loop_test(items, every_item_has_a_valid_gold_and_distinct_choices, 0,
                        infq_gen_n_kinds());
    tcase_add_loop_test(items, no_item_stands_in_the_training_text, 0, infq_gen_n_kinds());
    tcase_add_test(items, more_items_than_the_grammar_has_is_a_usage_error);
    tcase_add_test(items, tasks_are_written_as_one_file_a_kind);
    suite_add_tcase(s, items);
    tcase_add_loop_test(files, committed_task_sets_are_what_the_generator_makes, 0,
                        infq_gen_n_kinds());
    tcase_add_test(files, committed_calibration_text_is_what_the_generator_makes);
    tcase_add_test(files, demo_model_files_belong_together);
    suite_add_tcase(s, files);
    return test_main(s);
}
