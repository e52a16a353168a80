/* Item files, task files, text preparation: everything that needs no model. Golden: goldens/evals/preprocess.json, the texts, lengths, picks
 * and metrics of goldens/evals/stories260k, word_and_byte_counts and multiple_choice_scoring of specs/vectors/statistics.json. */
#include "tests/testlib.h"

#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/str.h"
#include "lib/eval/corpus.h"
#include "lib/eval/item.h"
#include "lib/eval/ppl.h"
#include "lib/eval/score.h"
#include "lib/eval/task.h"

static const char *str(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    ck_assert_msg(cJSON_IsString(v), "golden text %s is missing", key);
    return v->valuestring;
}

static char *tmp_file(const char *name, const char *text)
{
    static char path[4][512];
    static int at;
    infq_err err;

    at = (at + 1) % 4;
    snprintf(path[at], sizeof(path[at]), "%s/%s", test_tmpdir(), name);
    ck_ok(infq_file_write_atomic(path[at], text, strlen(text), true, &err), err);
    return path[at];
}

START_TEST(hellaswag_texts_are_cleaned_as_the_reference_does)
{
    cJSON *g;
    const cJSON *o;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/preprocess.json"));
    cJSON_ArrayForEach(o, infq_json_get(g, "hellaswag")) {
        cJSON *row = cJSON_CreateObject(), *ends = cJSON_CreateArray();
        char *text;
        infq_task *t;
        infq_err err;
        cJSON_AddStringToObject(row, "activity_label", str(o, "activity_label"));
        cJSON_AddStringToObject(row, "ctx_a", str(o, "ctx_a"));
        cJSON_AddStringToObject(row, "ctx_b", str(o, "ctx_b"));
        cJSON_AddItemToArray(ends, cJSON_CreateString(str(o, "ending")));
        cJSON_AddItemToObject(row, "endings", ends);
        cJSON_AddStringToObject(row, "label", "0");
        text = cJSON_PrintUnformatted(row);
        ck_ok(infq_task_open(tmp_file("h.jsonl", text), 0, &t, &err), err);
        ck_assert_str_eq(infq_task_get(t, 0)->requests[0].context, str(o, "query"));
        ck_assert_str_eq(infq_task_get(t, 0)->requests[0].continuation + 1, str(o, "choice"));
        infq_task_free(t);
        cJSON_free(text);
        cJSON_Delete(row);
    }
    cJSON_Delete(g);
}
END_TEST

START_TEST(wikitext_pages_are_detokenised_as_the_reference_does)
{
    cJSON *g;
    const cJSON *o;
    infq_buf b;
    infq_err err;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/preprocess.json"));
    infq_buf_init(&b);
    cJSON_ArrayForEach(o, infq_json_get(g, "wikitext")) {
        const char *page = str(o, "page");
        infq_buf_clear(&b);
        ck_ok(infq_detokenize_wikitext(page, strlen(page), &b, &err), err);
        ck_assert_str_eq(b.data, str(o, "text"));
        ck_assert_int_eq(infq_count_words(page, strlen(page)), infq_json_get(o, "words")->valueint);
        ck_assert_int_eq(strlen(page), infq_json_get(o, "bytes")->valueint);
    }
    infq_buf_deinit(&b);
    cJSON_Delete(g);
}
END_TEST

START_TEST(winogrande_has_two_contexts_and_one_tail)
{
    cJSON *g;
    const cJSON *o;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/preprocess.json"));
    cJSON_ArrayForEach(o, infq_json_get(g, "winogrande")) {
        char *text = cJSON_PrintUnformatted(infq_json_get(o, "doc"));
        const cJSON *ctx = infq_json_get(o, "contexts");
        infq_task *t;
        const infq_doc *d;
        infq_err err;
        ck_ok(infq_task_open(tmp_file("w.jsonl", text), 0, &t, &err), err);
        d = infq_task_get(t, 0);
        for (int i = 0; i < 2; i++) {
            ck_assert_str_eq(d->requests[i].context, cJSON_GetArrayItem(ctx, i)->valuestring);
            ck_assert_str_eq(d->requests[i].continuation + 1, str(o, "tail"));
        }
        ck_assert_int_eq(d->gold, infq_json_get(o, "gold")->valueint);
        infq_task_free(t);
        cJSON_free(text);
    }
    cJSON_Delete(g);
}
END_TEST

START_TEST(rolling_windows_cover_every_token_once)
{
    cJSON *g;
    const cJSON *o;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/preprocess.json"));
    cJSON_ArrayForEach(o, infq_json_get(g, "rolling_windows")) {
        const cJSON *want = infq_json_get(o, "windows"), *tokens = infq_json_get(o, "tokens");
        infq_window w[32];
        int64_t n = infq_rolling_windows(cJSON_GetArraySize(tokens), infq_json_get(o, "max_length")->valueint,
                                         infq_json_get(o, "context_len")->valueint, w, 32);
        ck_assert_int_eq(n, cJSON_GetArraySize(want));
        for (int64_t i = 0; i < n; i++) {
            const cJSON *x = cJSON_GetArrayItem(want, (int)i), *ctx = infq_json_get(x, "ctx_ids"), *ids = infq_json_get(x, "ids");
            int64_t from = w[i].feed_from < 0 ? w[i].begin - 1 : w[i].feed_from;
            ck_assert_int_eq(w[i].begin - from, cJSON_GetArraySize(ctx));
            ck_assert_int_eq(w[i].end - w[i].begin, cJSON_GetArraySize(ids));
            for (int64_t k = w[i].begin; k < w[i].end; k++)
                ck_assert_int_eq(cJSON_GetArrayItem(tokens, (int)k)->valueint,
                                 cJSON_GetArrayItem(ids, (int)(k - w[i].begin))->valueint);
            if (w[i].feed_from >= 0)
                ck_assert_int_eq(cJSON_GetArrayItem(tokens, (int)from)->valueint, cJSON_GetArrayItem(ctx, 0)->valueint);
        }
    }
    cJSON_Delete(g);
}
END_TEST

/* A golden file's texts, lengths, gold, and what follows from its log-likelihoods. */
static void check_golden_task(const char *spec, const char *golden)
{
    infq_task *t;
    infq_items *gold_items;
    infq_item_key key = {.task = "x"};
    infq_buf text;
    infq_err err;
    size_t at = 0;
    int64_t i = 0;

    infq_buf_init(&text);
    ck_ok(infq_task_open(spec, 0, &t, &err), err);
    ck_ok(infq_items_new(&key, &gold_items, &err), err);
    ck_ok(infq_corpus_read(test_shared_path(golden), (size_t)1 << 30, &text, &err), err);
    while (at < text.n) {
        char *end = memchr(text.data + at, '\n', text.n - at);
        size_t n = end ? (size_t)(end - text.data) - at : text.n - at;
        cJSON *o;
        const cJSON *contexts, *requests, *metric;
        const infq_doc *d = infq_task_get(t, i);
        infq_item *it;
        ck_ok(infq_json_parse(text.data + at, n, golden, &o, &err), err);
        contexts = infq_json_get(o, "contexts");
        requests = infq_json_get(o, "requests");
        ck_assert_int_eq(d->n_requests, cJSON_GetArraySize(requests));
        ck_ok(infq_items_add(gold_items, d->n_requests, &it, &err), err);
        it->kind = infq_task_kind_of(t) == INFQ_TASK_TARGET ? INFQ_ITEM_TARGET : INFQ_ITEM_CHOICE;
        it->gold = d->gold;
        for (int k = 0; k < d->n_requests; k++) {
            const cJSON *r = cJSON_GetArrayItem(requests, k);
            const infq_request *q = &d->requests[k];
            ck_assert_str_eq(q->context, str(cJSON_GetArrayItem(contexts, infq_json_get(r, "ctx")->valueint), "text"));
            ck_assert_str_eq(q->continuation, str(r, "cont"));
            it->ll[k] = infq_json_get(r, "ll")->valuedouble;
            it->greedy[k] = cJSON_IsTrue(infq_json_get(r, "greedy"));
            it->chars[k] = q->chars;
            it->bytes[k] = q->bytes;
            if (infq_json_get(o, "chars")) {
                ck_assert_int_eq(q->chars, cJSON_GetArrayItem(infq_json_get(o, "chars"), k)->valueint);
                ck_assert_int_eq(q->bytes, cJSON_GetArrayItem(infq_json_get(o, "bytes"), k)->valueint);
            }
        }
        infq_item_finish(it);
        if (it->kind == INFQ_ITEM_CHOICE) {
            ck_assert_int_eq(d->gold, infq_json_get(o, "gold")->valueint);
            ck_assert_int_eq(it->pick, infq_json_get(o, "pick")->valueint);
            ck_assert_int_eq(it->pick_norm, infq_json_get(o, "pick_norm")->valueint);
            ck_assert_int_eq(it->pick_bytes, infq_json_get(o, "pick_bytes")->valueint);
        }
        cJSON_ArrayForEach(metric, infq_json_get(o, "metrics")) {
            double v;
            if (infq_item_metric_get(it, metric->string, &v))
                ck_assert_double_eq_tol(v, metric->valuedouble, 1e-9);
        }
        cJSON_Delete(o);
        at += n + 1;
        i++;
    }
    ck_assert_int_gt(i, 0);
    infq_buf_deinit(&text);
    infq_items_free(gold_items);
    infq_task_free(t);
}

START_TEST(prompts_of_public_sets_equal_golden)
{
    static const char *const sets[][2] = {
        {"hellaswag/hellaswag_val_first1000.jsonl", "hellaswag"}, {"piqa/valid.jsonl", "piqa"},
        {"arc/ARC-Easy-Test.jsonl", "arc_easy"}, {"arc/ARC-Challenge-Test.jsonl", "arc_challenge"},
        {"winogrande/winogrande_val.jsonl", "winogrande"}, {"boolq/boolq_val_first500.jsonl", "boolq"},
        {"openbookqa/openbookqa_test.jsonl", "openbookqa"}, {"copa/copa.jsonl", "copa"},
        {"lambada-openai/lambada_test_first500.jsonl", "lambada_openai"}, {"blimp/adjunct_island.jsonl", "blimp_adjunct_island"},
        {"blimp/anaphor_number_agreement.jsonl.gz", "blimp_anaphor_number_agreement"},
        {"blimp/determiner_noun_agreement_2.jsonl.gz", "blimp_determiner_noun_agreement_2"},
        {"blimp/npi_present_1.jsonl.gz", "blimp_npi_present_1"}};

    TEST_NEEDS_SHARED();
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        char spec[1200], golden[200];
        snprintf(spec, sizeof(spec), "%s=%s/data/%s", sets[i][1], test_shared(), sets[i][0]);
        snprintf(golden, sizeof(golden), "goldens/evals/stories260k/%s.jsonl%s", sets[i][1],
                 strcmp(sets[i][1], "boolq") == 0 ? ".gz" : "");
        check_golden_task(spec, golden);
    }
}
END_TEST

START_TEST(layouts_are_told_by_their_fields)
{
    infq_task *t;
    infq_err err;

    TEST_NEEDS_SHARED();
    ck_ok(infq_task_open(test_shared_path("data/blimp/adjunct_island.jsonl"), 5, &t, &err), err);
    ck_assert_str_eq(infq_task_name(t), "blimp_adjunct_island");
    ck_assert_int_eq(infq_task_count(t), 5);
    infq_task_free(t);
    ck_ok(infq_task_open(test_shared_path("data/hellaswag/hellaswag_val_first1000.jsonl"), 0, &t, &err), err);
    ck_assert_str_eq(infq_task_metric(t), "acc_norm");
    ck_assert_int_eq(infq_task_count(t), 1000);
    infq_task_free(t);
}
END_TEST

START_TEST(plain_files_get_a_blank_between_context_and_choice)
{
    // an editor's byte order mark in front
    const char *rows = "\xef\xbb\xbf{\"context\": \"a b\", \"choices\": [\"c\", \" d\", \"\\u00e9t\\u00e9\"], \"gold\": 2}\n\n"
                       "{\"context\": \"\", \"choices\": [\"c\", \"d\"], \"gold\": 0}\n"
                       "{\"context\": \"a\\n\", \"choices\": [\"c\", \"d\"], \"gold\": 0}\n"
                       "{\"context\": \"a\", \"choices\": [\"c\", \"d\"], \"gold\": 1, \"delimiter\": \"\"}";
    infq_task *t;
    infq_err err;
    const infq_doc *d;
    bool is_text = true;

    ck_ok(infq_task_open(tmp_file("plain.jsonl", rows), 0, &t, &err), err);
    ck_ok(infq_task_is_text(tmp_file("plain.jsonl", rows), &is_text, &err), err);
    ck_assert(!is_text);
    ck_assert_str_eq(infq_task_name(t), "plain");
    ck_assert_int_eq(infq_task_count(t), 4);
    d = infq_task_get(t, 0);
    ck_assert_str_eq(d->requests[0].continuation, " c");
    ck_assert_str_eq(d->requests[1].continuation, " d");
    ck_assert_int_eq(d->requests[1].chars, 1);
    ck_assert_int_eq(d->requests[2].chars, 3);
    ck_assert_int_eq(d->requests[2].bytes, 5);
    ck_assert_str_eq(infq_task_get(t, 1)->requests[0].continuation, "c");
    ck_assert_str_eq(infq_task_get(t, 2)->requests[0].continuation, "c");
    ck_assert_str_eq(infq_task_get(t, 3)->requests[1].continuation, "d");
    ck_assert_int_eq(infq_task_get(t, 3)->doc, 3);
    infq_task_free(t);
}
END_TEST

START_TEST(broken_task_rows_are_named_by_line)
{
    static const char *const bad[][2] = {
        {"{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": 1}\n", "line 1: gold: 1 is not an index from 0 to 0"},
        {"{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": 0}\n{\"context\": \"a\", \"choices\": [], \"gold\": 0}\n", "line 2: choices: no entries"},
        {"{\"context\": \"a\", \"choices\": [\"b\", 3], \"gold\": 0}\n", "line 1: choices: entry 1 is no text"},
        {"{\"choices\": [\"b\"], \"gold\": 0}\n", "line 1: context: context is undefined"},
        {"{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": 0}\n{broken\n", "line 2"},
        {"{\"goal\": \"a\", \"sol1\": \"b\", \"sol2\": \"c\"}\n", "line 1: gold: label is undefined"},
        {"{\"sentence\": \"a\", \"option1\": \"b\", \"option2\": \"c\", \"answer\": \"1\"}\n", "line 1: choices: an item is undefined"},
        {"{\"x\": 1}\n", "rows are not {context, choices, gold}"},
        {"\n\n", "holds no items"}};
    infq_task *t;
    infq_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(infq_task_open(tmp_file("bad.jsonl", bad[i][0]), 0, &t, &err), INFQ_E_FORMAT);
        ck_assert_msg(strstr(err.msg, bad[i][1]) && strstr(err.msg, "bad.jsonl"), "case %zu: %s", i, err.msg);
    }
    ck_assert_int_eq(infq_task_open("/nowhere/x.jsonl", 0, &t, &err), INFQ_E_NOT_FOUND);
}
END_TEST

START_TEST(words_and_bytes_are_counted_as_the_reference_does)
{
    cJSON *g;
    const cJSON *o;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("specs/vectors/statistics.json"));
    cJSON_ArrayForEach(o, infq_json_get(g, "word_and_byte_counts")) {
        const char *s = str(o, "text");
        ck_assert_int_eq(infq_count_words(s, strlen(s)), infq_json_get(o, "words")->valueint);
        ck_assert_int_eq(strlen(s), infq_json_get(o, "bytes")->valueint);
    }
    cJSON_Delete(g);
}
END_TEST

START_TEST(picks_follow_the_length_they_are_divided_by)
{
    infq_item_key key = {.task = "x"};
    infq_items *s;
    infq_item *it;
    infq_err err;
    double acc;

    /* multiple_choice_scoring: "a cat", "naive cafe" with accents, two ideographs */
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_ok(infq_items_add(s, 3, &it, &err), err);
    memcpy(it->ll, (double[3]){-4, -9, -5.5}, sizeof(double[3]));
    memcpy(it->chars, (int64_t[3]){5, 10, 2}, sizeof(int64_t[3]));
    memcpy(it->bytes, (int64_t[3]){5, 12, 6}, sizeof(int64_t[3]));
    it->gold = 1;
    infq_item_finish(it);
    ck_assert_int_eq(it->pick, 0);
    ck_assert_int_eq(it->pick_norm, 0);
    ck_assert_int_eq(it->pick_bytes, 1);
    ck_assert(infq_item_metric_get(it, "acc_bytes", &acc) && acc == 1);
    /* ties: lowest index */
    memcpy(it->ll, (double[3]){-4, -4, -4}, sizeof(double[3]));
    infq_item_finish(it);
    ck_assert_int_eq(it->pick, 0);
    infq_items_free(s);
}
END_TEST

static infq_item_key test_key(void)
{
    return (infq_item_key){.model = "m", .model_digest = "01", .tokenizer = "02", .task = "t", .task_digest = "03", .metric = "acc",
                           .settings = "bos=model"};
}

static void add_test_item(infq_items *s, int64_t doc, infq_item **out)
{
    infq_err err;

    ck_ok(infq_items_add(s, 2, out, &err), err);
    (*out)->doc = doc;
    (*out)->gold = 1;
    snprintf((*out)->request, sizeof((*out)->request), "%016llx", (unsigned long long)doc * 77);
    (*out)->ll[0] = -1.0 / 3 - (double)doc;
    (*out)->ll[1] = -2.5;
    (*out)->n_tokens[0] = 3;
    (*out)->n_tokens[1] = 1;
    (*out)->greedy[1] = true;
    (*out)->chars[0] = (*out)->chars[1] = 4;
    (*out)->bytes[0] = (*out)->bytes[1] = 5;
    infq_item_finish(*out);
}

START_TEST(item_files_read_back_what_was_written)
{
    char path[512];
    infq_item_key key = test_key();
    infq_items *s, *r;
    infq_item_log *l;
    infq_err err;

    snprintf(path, sizeof(path), "%s/items.jsonl", test_tmpdir());
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_ok(infq_item_log_open(path, s, &l, &err), err);
    for (int i = 0; i < 5; i++) {
        infq_item *it;
        add_test_item(s, i, &it);
        ck_ok(infq_item_log_add(l, it, &err), err);
    }
    ck_ok(infq_item_log_close(l, &err), err);
    ck_ok(infq_items_load(path, &r, &err), err);
    ck_assert_int_eq(infq_items_count(r), 5);
    ck_assert_str_eq(infq_items_key(r)->settings, "bos=model");
    ck_assert_str_eq(infq_items_key(r)->model_digest, "01");
    for (int i = 0; i < 5; i++) {
        const infq_item *a = infq_items_get(s, i), *b = infq_items_get(r, i);
        ck_assert(a->ll[0] == b->ll[0] && a->ll[1] == b->ll[1]); /* bit for bit */
        ck_assert_str_eq(a->request, b->request);
        ck_assert_int_eq(b->gold, 1);
        ck_assert_int_eq(a->pick, b->pick);
        ck_assert(b->greedy[1] && !b->greedy[0]);
        ck_assert_int_eq(b->n_tokens[0], 3);
        ck_assert_int_eq(a->n_metrics, b->n_metrics);
        ck_assert_double_eq(a->metrics[0].value, b->metrics[0].value);
    }
    infq_items_free(r);
    infq_items_free(s);
}
END_TEST

START_TEST(an_interrupted_item_file_is_taken_up)
{
    char path[512];
    infq_item_key key = test_key();
    infq_items *s, *again;
    infq_item_log *l;
    infq_item *it;
    infq_buf whole, later;
    infq_err err;

    snprintf(path, sizeof(path), "%s/items.jsonl", test_tmpdir());
    infq_buf_init(&whole);
    infq_buf_init(&later);
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_ok(infq_item_log_open(path, s, &l, &err), err);
    for (int i = 0; i < 4; i++) {
        add_test_item(s, i, &it);
        ck_ok(infq_item_log_add(l, it, &err), err);
    }
    ck_ok(infq_item_log_close(l, &err), err);
    ck_ok(infq_file_read(path, 1 << 20, &whole, &err), err);
    /* the last line is torn, at every possible byte of it */
    for (size_t cut = 1; cut < 100; cut += 7) {
        ck_assert_int_eq(truncate(path, (off_t)(whole.n - cut)), 0);
        ck_ok(infq_items_new(&key, &again, &err), err);
        ck_ok(infq_item_log_open(path, again, &l, &err), err);
        ck_assert_int_eq(infq_items_count(again), 3);
        add_test_item(again, 3, &it);
        ck_ok(infq_item_log_add(l, it, &err), err);
        ck_ok(infq_item_log_close(l, &err), err);
        infq_buf_clear(&later);
        ck_ok(infq_file_read(path, 1 << 20, &later, &err), err);
        ck_assert_str_eq(later.data, whole.data);
        infq_items_free(again);
    }
    infq_buf_deinit(&whole);
    infq_buf_deinit(&later);
    infq_items_free(s);
}
END_TEST

START_TEST(an_item_file_of_another_run_is_not_touched)
{
    infq_item_key key = test_key();
    infq_items *s;
    infq_item_log *l;
    infq_item *it;
    infq_err err;
    char path[512];

    snprintf(path, sizeof(path), "%s/items.jsonl", test_tmpdir());
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_ok(infq_item_log_open(path, s, &l, &err), err);
    add_test_item(s, 0, &it);
    ck_ok(infq_item_log_add(l, it, &err), err);
    ck_ok(infq_item_log_close(l, &err), err);
    infq_items_free(s);
    strcpy(key.settings, "bos=never");
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_assert_int_eq(infq_item_log_open(path, s, &l, &err), INFQ_E_EXISTS);
    ck_assert_msg(strstr(err.msg, "settings") && strstr(err.msg, "bos=never"), "%s", err.msg);
    infq_items_free(s);
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_assert_int_eq(infq_item_log_open(tmp_file("notes.txt", "my notes\nmore\n"), s, &l, &err), INFQ_E_EXISTS);
    infq_items_free(s);
}
END_TEST

START_TEST(texts_of_others_without_a_line_end_are_not_touched)
{
    static const char *const texts[] = {"my notes", "[\"infq.item", "[", "{\"doc\":0,\"kind\":\"target\",\"ll\":[-1]}\n",
                                        "\n[\"infq.items/1\",{}]\n"};
    static const bool ours[] = {false, true, true, false, false};
    infq_item_key key = test_key();

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *path = tmp_file("notes.txt", texts[i]);
        infq_items *s;
        infq_item_log *l;
        infq_buf b;
        infq_err err;
        ck_ok(infq_items_new(&key, &s, &err), err);
        infq_buf_init(&b);
        if (ours[i]) { // the torn first line of a killed run
            ck_ok(infq_item_log_open(path, s, &l, &err), err);
            ck_ok(infq_item_log_close(l, &err), err);
        } else {
            ck_assert_int_eq(infq_item_log_open(path, s, &l, &err), INFQ_E_EXISTS);
            ck_ok(infq_file_read(path, 1000, &b, &err), err);
            ck_assert_str_eq(b.data, texts[i]);
        }
        infq_buf_deinit(&b);
        infq_items_free(s);
    }
}
END_TEST

START_TEST(one_writer_at_a_time_and_regular_files_only)
{
    infq_item_key key = test_key();
    infq_items *s;
    infq_item_log *l, *second;
    infq_err err;
    char path[512];

    snprintf(path, sizeof(path), "%s/items.jsonl", test_tmpdir());
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_ok(infq_item_log_open(path, s, &l, &err), err);
    ck_assert_int_eq(infq_item_log_open(path, s, &second, &err), INFQ_E_EXISTS);
    ck_assert(infq_str_ends(err.msg, "being written by another process"));
    ck_ok(infq_item_log_close(l, &err), err);
    ck_ok(infq_item_log_open(path, s, &l, &err), err);
    ck_ok(infq_item_log_close(l, &err), err);
    snprintf(path, sizeof(path), "%s/pipe", test_tmpdir());
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(infq_item_log_open(path, s, &l, &err), INFQ_E_EXISTS);
    ck_assert(infq_str_ends(err.msg, "not a regular file"));
    infq_items_free(s);
}
END_TEST

START_TEST(sample_logs_of_the_reference_are_read)
{
    const char *log =
        "{\"doc_id\":0,\"doc\":{},\"filter\":\"strict\",\"metrics\":[\"acc\"],\"doc_hash\":\"aa\",\"prompt_hash\":\"bb\",\"acc\":1.0}\n"
        "{\"doc_id\":0,\"doc\":{},\"filter\":\"loose\",\"metrics\":[\"acc\"],\"doc_hash\":\"aa\",\"prompt_hash\":\"bb\",\"acc\":0.0}\n"
        "{\"doc_id\":1,\"doc\":{},\"filter\":\"strict\",\"metrics\":[\"acc\"],\"doc_hash\":\"cc\",\"prompt_hash\":\"dd\",\"acc\":0.0}\n";
    infq_items *s;
    infq_err err;
    double v;

    ck_ok(infq_items_load(tmp_file("samples.jsonl", log), &s, &err), err);
    ck_assert_int_eq(infq_items_count(s), 2);
    ck_assert(infq_item_metric_get(infq_items_get(s, 0), "acc", &v) && v == 1);
    ck_assert_int_eq(infq_items_get(s, 1)->doc, 1);
    ck_assert_str_ne(infq_items_get(s, 0)->request, infq_items_get(s, 1)->request);
    infq_items_free(s);
}
END_TEST

START_TEST(broken_item_lines_are_named)
{
    static const char *const bad[][2] = {
        {"{\"task\":\"t\",\"doc\":0,\"kind\":\"choice\",\"request\":\"00\",\"ll\":[1e999]}\n", "line 1"},
        {"{\"task\":\"t\",\"doc\":0,\"kind\":\"choice\",\"request\":\"00\",\"ll\":[-1,null]}\n", "line 1: ll holds"},
        {"{\"task\":\"t\",\"doc\":0,\"kind\":\"song\",\"request\":\"00\",\"ll\":[-1]}\n", "line 1: kind"},
        {"{\"task\":\"t\",\"doc\":0,\"kind\":\"choice\",\"request\":\"00\",\"ll\":[-1],\"tokens\":[1,2]}\n", "tokens has 2"},
        {"[\"infq.items/9\",{}]\n", "first line"},
        {"{\"doc_id\":0,\"metrics\":[\"acc\"]}\n", "no metric"},
        {"", "holds no items"}};
    infq_items *s;
    infq_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_status st = infq_items_load(tmp_file("bad.jsonl", bad[i][0]), &s, &err);
        ck_assert_msg(st == INFQ_E_FORMAT || st == INFQ_E_NUMERIC, "case %zu: status %d", i, (int)st);
        ck_assert_msg(strstr(err.msg, bad[i][1]) && strstr(err.msg, "bad.jsonl"), "case %zu: %s", i, err.msg);
    }
}
END_TEST

START_TEST(compressed_texts_are_unpacked_and_broken_ones_refused)
{
    infq_buf a, b, raw;
    infq_err err;
    char *path;

    TEST_NEEDS_SHARED();
    infq_buf_init(&a);
    infq_buf_init(&b);
    infq_buf_init(&raw);
    ck_ok(infq_corpus_read(test_shared_path("data/wikitext-2/test.txt.gz"), (size_t)1 << 26, &a, &err), err);
    ck_assert_uint_gt(a.n, 1000000);
    ck_assert_int_eq(infq_corpus_read(test_shared_path("data/wikitext-2/test.txt.gz"), 1000, &b, &err), INFQ_E_FORMAT);
    ck_ok(infq_file_read(test_shared_path("data/wikitext-2/test.txt.gz"), (size_t)1 << 26, &raw, &err), err);
    path = tmp_file("cut.gz", "");
    ck_ok(infq_file_write_atomic(path, raw.data, raw.n / 2, true, &err), err);
    infq_buf_clear(&b);
    ck_assert_int_eq(infq_corpus_read(path, (size_t)1 << 26, &b, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "truncated"), "%s", err.msg);
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
    infq_buf_deinit(&raw);
}
END_TEST

START_TEST(texts_become_documents_by_their_form)
{
    const char *wiki = " \n = A = \n \n one , two \n \n = B = \n = = part = = \n three\n";
    infq_corpus *c;
    infq_err err;

    ck_ok(infq_corpus_open(tmp_file("w.raw", wiki), INFQ_CORPUS_WIKI_PAGES, false, 0, &c, &err), err);
    ck_assert_int_eq(infq_corpus_count(c), 2);
    ck_assert_str_eq(infq_corpus_get(c, 0)->text, " = A =\n\none, two\n");
    infq_corpus_free(c);
    ck_ok(infq_corpus_open(tmp_file("w.raw", " \n a \n"), INFQ_CORPUS_WIKI_ROWS, false, 0, &c, &err), err);
    ck_assert_str_eq(infq_corpus_get(c, 0)->text, "\n\n a \n");
    infq_corpus_free(c);
    ck_ok(infq_corpus_open(tmp_file("t.jsonl", "\xef\xbb\xbf{\"text\":\"x y\"}\n{\"text\":\"z\"}\n"), INFQ_CORPUS_PLAIN, false, 0, &c, &err), err);
    ck_assert_int_eq(infq_corpus_count(c), 2);
    ck_assert_int_eq(infq_corpus_get(c, 0)->words, 2);
    infq_corpus_free(c);
    ck_assert_int_eq(infq_corpus_open(tmp_file("e.txt", ""), INFQ_CORPUS_PLAIN, false, 0, &c, &err), INFQ_E_FORMAT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("items");
    TCase *p = tcase_create("preparation"), *t = tcase_create("tasks"), *i = tcase_create("items");

    tcase_add_test(p, hellaswag_texts_are_cleaned_as_the_reference_does);
    tcase_add_test(p, wikitext_pages_are_detokenised_as_the_reference_does);
    tcase_add_test(p, winogrande_has_two_contexts_and_one_tail);
    tcase_add_test(p, rolling_windows_cover_every_token_once);
    tcase_add_test(p, words_and_bytes_are_counted_as_the_reference_does);
    tcase_add_test(p, compressed_texts_are_unpacked_and_broken_ones_refused);
    tcase_add_test(p, texts_become_documents_by_their_form);
    tcase_add_test(t, prompts_of_public_sets_equal_golden);
    tcase_add_test(t, layouts_are_told_by_their_fields);
    tcase_add_test(t, plain_files_get_a_blank_between_context_and_choice);
    tcase_add_test(t, broken_task_rows_are_named_by_line);
    tcase_add_test(i, picks_follow_the_length_they_are_divided_by);
    tcase_add_test(i, item_files_read_back_what_was_written);
    tcase_add_test(i, an_interrupted_item_file_is_taken_up);
    tcase_add_test(i, an_item_file_of_another_run_is_not_touched);
    tcase_add_test(i, texts_of_others_without_a_line_end_are_not_touched);
    tcase_add_test(i, one_writer_at_a_time_and_regular_files_only);
    tcase_add_test(i, sample_logs_of_the_reference_are_read);
    tcase_add_test(i, broken_item_lines_are_named);
    suite_add_tcase(s, p);
    suite_add_tcase(s, t);
    suite_add_tcase(s, i);
    return test_main(s);
}
