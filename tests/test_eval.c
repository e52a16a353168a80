/* Scores of a real model: the splits of encode_pair.json, perplexity, KL divergence (case B51), and bitwise independence of batch and threads
 * (case B49). Scores against the reference: test_eval_goldens.c. */
#include "tests/testlib.h"

#include "lib/base/par.h"
#include "lib/eval/kld.h"
#include "lib/eval/ppl.h"
#include "lib/eval/score.h"

static infq_backend *backend;
static infq_checkpoint *checkpoint;
static infq_model *model;
static infq_tokenizer *tokenizer;

/* Each test runs in a child, which opens the model anew: 1 MB. */
static void open_model(void)
{
    const char *path = test_shared_path("data/model-stories260k/hf");
    infq_model_options mo = infq_model_options_default();
    infq_log log = {0};
    infq_err err;

    infq_par_threads_set(1); /* so small that threads would only wait for each other */
    ck_ok(infq_backend_open("cpu", &backend, &err), err);
    ck_ok(infq_checkpoint_open(path, &log, &checkpoint, &err), err);
    ck_ok(infq_model_open(checkpoint, backend, &mo, &model, &err), err);
    ck_ok(infq_tokenizer_open(path, &tokenizer, &err), err);
}

static void close_model(void)
{
    infq_tokenizer_free(tokenizer);
    infq_model_close(model);
    infq_checkpoint_close(checkpoint);
    infq_backend_close(backend);
}

static void check_ids(const cJSON *want, const infq_ids *got, const char *what, int at)
{
    ck_assert_msg(cJSON_GetArraySize(want) == (int)got->n, "%s %d: %zu ids, should be %d", what, at, got->n,
                  cJSON_GetArraySize(want));
    for (size_t i = 0; i < got->n; i++)
        ck_assert_msg(cJSON_GetArrayItem(want, (int)i)->valueint == got->data[i], "%s %d: id %zu is %d, should be %d", what, at, i,
                      got->data[i], cJSON_GetArrayItem(want, (int)i)->valueint);
}

START_TEST(pairs_are_split_as_the_reference_does)
{
    static const char *const toks[][2] = {{"smollm2", "data/tokenizer-smollm2"}, {"gpt2", "data/tokenizer-gpt2"},
                                          {"gpt-neox-20b", "data/tokenizer-gpt-neox-20b"},
                                          {"stories260k", "data/model-stories260k/hf"}};
    cJSON *g;
    const cJSON *pairs;
    infq_err err;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("goldens/evals/encode_pair.json"));
    pairs = infq_json_get(g, "pairs");
    for (size_t k = 0; k < sizeof(toks) / sizeof(toks[0]); k++) {
        const cJSON *split = infq_json_get(infq_json_get(g, "split"), toks[k][0]);
        infq_tokenizer *t;
        ck_ok(infq_tokenizer_open(test_shared_path(toks[k][1]), &t, &err), err);
        for (int i = 0; i < cJSON_GetArraySize(pairs); i++) {
            const cJSON *p = cJSON_GetArrayItem(pairs, i), *want = cJSON_GetArrayItem(split, i);
            const char *ctx = cJSON_GetArrayItem(p, 0)->valuestring, *cont = cJSON_GetArrayItem(p, 1)->valuestring;
            infq_ids a, b;
            if (strcmp(ctx, "<s>") == 0 && strcmp(toks[k][0], "stories260k") == 0)
                continue; /* the vectors were made without the rule that BOS is never put twice; see the next test */
            infq_ids_init(&a);
            infq_ids_init(&b);
            ck_ok(infq_encode_pair(t, INFQ_BOS_MODEL, ctx, strlen(ctx), cont, strlen(cont), &a, &b, &err), err);
            check_ids(cJSON_GetArrayItem(want, 0), &a, toks[k][0], i);
            check_ids(cJSON_GetArrayItem(want, 1), &b, toks[k][0], i);
            infq_ids_deinit(&a);
            infq_ids_deinit(&b);
        }
        infq_tokenizer_free(t);
    }
    cJSON_Delete(g);
}
END_TEST

START_TEST(bos_is_put_once_always_or_never)
{
    infq_ids ids;
    infq_err err;
    infq_tokenizer *smollm;

    TEST_NEEDS_SHARED();
    open_model();
    infq_ids_init(&ids);
    ck_ok(infq_encode_text(tokenizer, INFQ_BOS_MODEL, "<s>x", 4, &ids, &err), err);
    ck_assert(ids.data[0] == 1 && ids.data[1] != 1);
    infq_ids_clear(&ids);
    ck_ok(infq_encode_text(tokenizer, INFQ_BOS_NEVER, "x", 1, &ids, &err), err);
    ck_assert_int_ne(ids.data[0], 1);
    infq_ids_clear(&ids);
    ck_ok(infq_tokenizer_open(test_shared_path("data/tokenizer-smollm2"), &smollm, &err), err);
    ck_ok(infq_encode_text(smollm, INFQ_BOS_MODEL, "x", 1, &ids, &err), err);
    ck_assert_uint_eq(ids.n, 1);
    infq_ids_clear(&ids);
    if (infq_tokenizer_bos(smollm) >= 0) {
        ck_ok(infq_encode_text(smollm, INFQ_BOS_ALWAYS, "x", 1, &ids, &err), err);
        ck_assert_uint_eq(ids.n, 2);
        ck_assert_int_eq(ids.data[0], infq_tokenizer_bos(smollm));
    } else {
        ck_assert_int_eq(infq_encode_text(smollm, INFQ_BOS_ALWAYS, "x", 1, &ids, &err), INFQ_E_UNSUPPORTED);
    }
    infq_tokenizer_free(smollm);
    infq_ids_deinit(&ids);
    close_model();
}
END_TEST

static infq_items *score_set(const char *spec, int64_t limit, int64_t batch)
{
    infq_score_options so = infq_score_options_default();
    infq_item_key key = {.task = "t", .metric = "acc"};
    infq_items *items;
    infq_task *task;
    infq_err err;

    so.batch = batch;
    ck_ok(infq_task_open(spec, limit, &task, &err), err);
    ck_ok(infq_items_new(&key, &items, &err), err);
    ck_ok(infq_score_task(model, tokenizer, task, &so, items, NULL, &err), err);
    ck_assert_int_eq(infq_items_count(items), infq_task_count(task));
    infq_task_free(task);
    return items;
}

static void same_bits(const infq_items *a, const infq_items *b, const char *what)
{
    for (int64_t i = 0; i < infq_items_count(b); i++) {
        const infq_item *x = infq_items_get(a, i), *y = infq_items_get(b, i);
        ck_assert_msg(memcmp(x->ll, y->ll, (size_t)x->n * sizeof(double)) == 0, "%s: item %lld: %.17g and %.17g", what, (long long)i,
                      x->ll[0], y->ll[0]);
        ck_assert_str_eq(x->request, y->request);
        ck_assert(memcmp(x->greedy, y->greedy, (size_t)x->n * sizeof(bool)) == 0);
    }
}

START_TEST(scores_do_not_depend_on_batch_threads_or_company)
{
    static const int64_t batches[] = {1, 3, 32};
    char spec[2][1200];

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(spec[0], sizeof(spec[0]), "hellaswag=%s/data/hellaswag/hellaswag_val_first1000.jsonl", test_shared());
    snprintf(spec[1], sizeof(spec[1]), "blimp=%s/data/blimp/adjunct_island.jsonl", test_shared());
    for (int s = 0; s < 2; s++) {
        infq_items *ref = score_set(spec[s], 24, 0);
        for (int k = 0; k < 3; k++) {
            infq_items *b = score_set(spec[s], 24, batches[k]);
            same_bits(ref, b, "batch");
            infq_items_free(b);
        }
        infq_par_threads_set(2);
        infq_items *two = score_set(spec[s], 24, 0);
        same_bits(ref, two, "two threads");
        infq_par_threads_set(1);
        infq_items *few = score_set(spec[s], 7, 5); /* fewer neighbours */
        same_bits(ref, few, "fewer items");
        infq_items_free(two);
        infq_items_free(few);
        infq_items_free(ref);
    }
    close_model();
}
END_TEST

typedef struct {
    int64_t stop_at, asked;
} stopper;

static infq_status stop_at(void *ctx, const infq_items *items, bool *stop, infq_err *err)
{
    stopper *s = ctx;

    (void)err;
    s->asked++;
    *stop = infq_items_count(items) >= s->stop_at;
    return 0;
}

START_TEST(scoring_follows_an_order_and_stops_when_the_hook_says)
{
    static const int64_t order[] = {5, 0, 3, 7, 1, 6, 2, 4};
    stopper s = {.stop_at = 5};
    infq_score_options so = infq_score_options_default();
    infq_item_key key = {.task = "t"};
    infq_items *ref, *items;
    infq_task *task;
    char spec[1200];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(spec, sizeof(spec), "hellaswag=%s/data/hellaswag/hellaswag_val_first1000.jsonl", test_shared());
    ref = score_set(spec, 8, 0);
    ck_ok(infq_task_open(spec, 8, &task, &err), err);
    ck_ok(infq_items_new(&key, &items, &err), err);
    so.batch = 2;
    so.order = order;
    so.hook = stop_at;
    so.hook_ctx = &s;
    ck_ok(infq_score_task(model, tokenizer, task, &so, items, NULL, &err), err);
    ck_assert_int_eq(infq_items_count(items), 6);
    ck_assert_int_eq(s.asked, 3);
    for (int64_t i = 0; i < 6; i++) {
        const infq_item *x = infq_items_get(items, i), *y = infq_items_get(ref, order[i]);
        ck_assert_int_eq(x->doc, y->doc);
        ck_assert_str_eq(x->request, y->request);
        ck_assert_double_eq(x->ll[0], y->ll[0]);
    }
    infq_items_free(items);
    infq_items_free(ref);
    infq_task_free(task);
    close_model();
}
END_TEST

START_TEST(shared_prefix_changes_nothing_but_rounding)
{
    /* the same choice alone and among others: one is run whole, the other behind a fork */
    const char *one = "{\"context\": \"Once upon a time there was a little girl named\", \"choices\": [\"Lily and her dog\"], \"gold\": 0}\n";
    const char *two = "{\"context\": \"Once upon a time there was a little girl named\", "
                      "\"choices\": [\"Lily and her dog\", \"Tom\"], \"gold\": 0}\n";
    char a[600], b[600];
    infq_items *x, *y;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(a, sizeof(a), "%s/a.jsonl", test_tmpdir());
    snprintf(b, sizeof(b), "%s/b.jsonl", test_tmpdir());
    ck_ok(infq_file_write_atomic(a, one, strlen(one), true, &err), err);
    ck_ok(infq_file_write_atomic(b, two, strlen(two), true, &err), err);
    x = score_set(a, 0, 0);
    y = score_set(b, 0, 0);
    ck_assert_double_eq_tol(infq_items_get(x, 0)->ll[0], infq_items_get(y, 0)->ll[0], 1e-4);
    infq_items_free(x);
    infq_items_free(y);
    close_model();
}
END_TEST

START_TEST(inputs_longer_than_the_window_keep_their_end)
{
    infq_score_options so = infq_score_options_default();
    infq_item_key key = {.task = "t"};
    infq_buf text;
    infq_task *task;
    infq_items *items;
    char path[600];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    infq_buf_init(&text);
    infq_buf_str(&text, "{\"context\": \"");
    for (int i = 0; i < 60; i++)
        infq_buf_str(&text, "the cat and the dog ran to the park. ");
    infq_buf_str(&text, "\", \"choices\": [\"They were happy.\", \"They were sad and very far from home.\"], \"gold\": 0}\n");
    infq_buf_str(&text, "{\"context\": \"A\", \"choices\": [\"");
    for (int i = 0; i < 40; i++)
        infq_buf_str(&text, "big red ball ");
    infq_buf_str(&text, "\", \"b\"], \"gold\": 0}\n");
    snprintf(path, sizeof(path), "%s/long.jsonl", test_tmpdir());
    ck_ok(infq_file_write_atomic(path, text.data, text.n, true, &err), err);
    so.context = 64;
    ck_ok(infq_task_open(path, 0, &task, &err), err);
    ck_ok(infq_items_new(&key, &items, &err), err);
    ck_ok(infq_score_task(model, tokenizer, task, &so, items, NULL, &err), err);
    ck_assert(isfinite(infq_items_get(items, 0)->ll[0]));
    ck_assert_int_lt(infq_items_get(items, 0)->n_tokens[0], 30);
    ck_assert_int_eq(infq_items_get(items, 1)->n_tokens[0], 64); /* the continuation alone exceeds the window */
    infq_items_free(items);
    infq_task_free(task);
    infq_buf_deinit(&text);
    close_model();
}
END_TEST

/* -ln p of ids[i] given ids[from..i), each in a pass of its own. */
static double nll_alone(const int32_t *ids, int64_t from, int64_t i)
{
    int64_t vocab = infq_model_config(model)->vocab;
    infq_forward_options f = {.invariant = true};
    float *hidden = infq_mem_alloc((size_t)infq_model_config(model)->hidden * sizeof(float));
    float *logits = infq_mem_alloc((size_t)vocab * sizeof(float));
    infq_seq *seq;
    infq_segment seg;
    infq_err err;
    double lp;

    ck_ok(infq_seq_new(model, &seq, &err), err);
    seg = (infq_segment){seq, ids + from, i - from, 1};
    ck_ok(infq_model_forward(model, &seg, 1, &f, hidden, &err), err);
    ck_ok(infq_model_logits(model, hidden, 1, true, logits, &err), err);
    lp = infq_logprob(logits, vocab, ids[i]);
    infq_seq_free(seq);
    infq_mem_free(hidden);
    infq_mem_free(logits);
    return -lp;
}

START_TEST(window_conventions_follow_their_formulas)
{
    const char *text = "Once upon a time, there was a little girl named Lily. She loved to play in the park with her dog. One day they saw a "
                       "big tree and a red ball. The dog ran fast and Lily laughed. They went home when the sun was low.";
    char path[600];
    infq_ppl_options po = {.window = 16};
    infq_ppl_result r;
    infq_corpus *c;
    infq_ids ids;
    infq_err err;
    int64_t n;
    double sum = 0;

    TEST_NEEDS_SHARED();
    open_model();
    infq_ids_init(&ids);
    snprintf(path, sizeof(path), "%s/t.txt", test_tmpdir());
    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
    ck_ok(infq_corpus_open(path, INFQ_CORPUS_PLAIN, true, 0, &c, &err), err);
    ck_ok(infq_encode_text(tokenizer, INFQ_BOS_MODEL, text, strlen(text), &ids, &err), err);
    n = (int64_t)ids.n / 16;
    ck_assert_int_ge(n, 3);
    for (int64_t w = 0; w < n; w++)
        for (int64_t i = 1; i < 16; i++)
            sum += nll_alone(ids.data, w * 16, w * 16 + i) / 15;
    po.convention = INFQ_PPL_GPTQ;
    ck_ok(infq_ppl_measure(model, tokenizer, c, &po, &r, &err), err);
    ck_assert_int_eq(r.n_windows, n);
    ck_assert_double_eq_tol(r.mean_nll, sum / (double)n, 1e-5);
    ck_assert_double_eq_tol(r.ppl, exp(sum / (double)n), 1e-3);
    infq_ppl_result_free(&r);
    sum = 0;
    for (int64_t w = 0; w < n; w++) {
        ids.data[w * 16] = infq_tokenizer_bos(tokenizer);
        for (int64_t i = 9; i < 16; i++)
            sum += nll_alone(ids.data, w * 16, w * 16 + i);
    }
    po.convention = INFQ_PPL_LLAMACPP;
    ck_ok(infq_ppl_measure(model, tokenizer, c, &po, &r, &err), err);
    ck_assert_int_eq(r.n_tokens, n * 7);
    ck_assert_double_eq_tol(r.mean_nll, sum / (double)(n * 7), 1e-5);
    infq_ppl_result_free(&r);
    po.window = 400;
    ck_assert_int_eq(infq_ppl_measure(model, tokenizer, c, &po, &r, &err), INFQ_E_UNSUPPORTED);
    po.window = 1000000;
    ck_assert_int_eq(infq_ppl_measure(model, tokenizer, c, &po, &r, &err), INFQ_E_USAGE);
    infq_ids_deinit(&ids);
    infq_corpus_free(c);
    close_model();
}
END_TEST

START_TEST(kl_of_a_hand_made_pair_is_right)
{
    cJSON *g;
    const cJSON *kl;
    double mean = 0;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("cases/files/B51-kl.json"));
    kl = infq_json_get(g, "kl");
    for (int i = 0; i < 2; i++) {
        const cJSON *p = cJSON_GetArrayItem(infq_json_get(g, "p_logits"), i), *q = cJSON_GetArrayItem(infq_json_get(g, "q_logits"), i);
        float a[4], b[4];
        infq_kld_row r;
        for (int k = 0; k < 4; k++) {
            a[k] = (float)cJSON_GetArrayItem(p, k)->valuedouble;
            b[k] = (float)cJSON_GetArrayItem(q, k)->valuedouble;
        }
        r = infq_kld_of(a, b, 4, 0);
        ck_assert_double_eq_tol(r.kld, cJSON_GetArrayItem(kl, i)->valuedouble, 1e-9);
        ck_assert_double_eq(infq_kld_of(a, a, 4, 0).kld, 0);
        mean += r.kld / 2;
    }
    ck_assert_double_eq_tol(mean, infq_json_get(g, "mean")->valuedouble, 1e-9);
    cJSON_Delete(g);
}
END_TEST

START_TEST(distribution_metrics_equal_golden)
{
    cJSON *g;
    const cJSON *o, *p, *q;
    infq_kld_row rows[3];
    infq_kld_summary s;
    infq_err err;

    TEST_NEEDS_SHARED();
    g = test_json(test_shared_path("specs/vectors/statistics.json"));
    o = cJSON_GetArrayItem(infq_json_get(g, "distribution_metrics"), 0);
    p = infq_json_get(o, "logits_original");
    q = infq_json_get(o, "logits_compressed");
    for (int i = 0; i < 3; i++) {
        float a[4], b[4];
        for (int k = 0; k < 4; k++) {
            a[k] = (float)cJSON_GetArrayItem(cJSON_GetArrayItem(p, i), k)->valuedouble;
            b[k] = (float)cJSON_GetArrayItem(cJSON_GetArrayItem(q, i), k)->valuedouble;
        }
        rows[i] = infq_kld_of(a, b, 4, cJSON_GetArrayItem(infq_json_get(o, "labels"), i)->valueint);
    }
    /* logits are F32 here, the golden ones are not: 1e-6 */
    ck_ok(infq_kld_summarize(rows, 3, 1, 0, &s, &err), err);
    ck_assert_double_eq_tol(s.kld_mean, infq_json_get(o, "kld_mean")->valuedouble, 1e-6);
    ck_assert_double_eq_tol(s.kld_se, infq_json_get(o, "kld_se")->valuedouble, 1e-6);
    ck_assert_double_eq_tol(s.dp_mean, infq_json_get(o, "delta_p_mean")->valuedouble, 1e-6);
    ck_assert_double_eq_tol(s.dp_rms, infq_json_get(o, "delta_p_rms")->valuedouble, 1e-6);
    ck_assert_double_eq_tol(s.ppl_p, infq_json_get(o, "ppl_original")->valuedouble, 1e-5);
    ck_assert_double_eq_tol(s.ppl_q, infq_json_get(o, "ppl_compressed")->valuedouble, 1e-5);
    ck_assert_double_eq_tol(s.ln_ratio, infq_json_get(o, "ln_ppl_ratio")->valuedouble, 1e-6);
    ck_assert_double_eq_tol(s.ln_ratio_se, infq_json_get(o, "ln_ppl_ratio_se_paired")->valuedouble, 1e-6);
    ck_assert_double_eq_tol(s.same_top, infq_json_get(o, "same_top_mean")->valuedouble, 1e-12);
    cJSON_Delete(g);
}
END_TEST

START_TEST(a_model_has_no_distance_from_itself)
{
    infq_kld_options ko = {.window = 64, .max_tokens = 640};
    infq_kld_result r;
    infq_ppl_options po = {.convention = INFQ_PPL_GPTQ, .window = 64, .max_tokens = 640, .bos = INFQ_BOS_NEVER};
    infq_ppl_result p;
    infq_corpus *c;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    ck_ok(infq_corpus_open(test_shared_path("data/wikitext-2/wiki.test.raw"), INFQ_CORPUS_PLAIN, true, 0, &c, &err), err);
    ck_ok(infq_kld_measure(model, model, tokenizer, infq_corpus_get(c, 0)->text, 20000, &ko, &r, &err), err);
    ck_assert_int_eq(r.n_windows, 10);
    ck_assert_int_eq(r.all.n, 630);
    ck_assert_int_eq(r.half.n, 310);
    ck_assert_double_eq_tol(r.all.kld_mean, 0, 1e-12);
    ck_assert_double_eq_tol(r.all.kld_max, 0, 1e-9);
    ck_assert_double_eq(r.all.same_top, 1);
    ck_assert_double_eq(r.all.dp_rms, 0);
    ck_assert_double_eq(r.all.ln_ratio, 0);
    /* its perplexity is the one measured alone on the same windows */
    ck_ok(infq_ppl_measure(model, tokenizer, c, &po, &p, &err), err);
    /* exponentials in F32 there, in F64 here: log-sums agree to 4e-7 (lib/backend/softmax.h) */
    ck_assert_double_eq_tol(r.all.ppl_p / p.ppl, 1, 4e-7);
    ko.max_tokens = 32;
    ck_assert_int_eq(infq_kld_measure(model, model, tokenizer, infq_corpus_get(c, 0)->text, 2000, &ko, &r, &err), INFQ_E_UNSUPPORTED);
    infq_ppl_result_free(&p);
    infq_corpus_free(c);
    close_model();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval");
    TCase *e = tcase_create("encoding"), *t = tcase_create("scores"), *p = tcase_create("perplexity"), *k = tcase_create("kld");

    tcase_add_test(e, pairs_are_split_as_the_reference_does);
    tcase_add_test(e, bos_is_put_once_always_or_never);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, scores_do_not_depend_on_batch_threads_or_company);
    tcase_add_test(t, scoring_follows_an_order_and_stops_when_the_hook_says);
    tcase_add_test(t, shared_prefix_changes_nothing_but_rounding);
    tcase_add_test(t, inputs_longer_than_the_window_keep_their_end);
    tcase_set_timeout(p, 120);
    tcase_add_test(p, window_conventions_follow_their_formulas);
    tcase_add_test(k, kl_of_a_hand_made_pair_is_right);
    tcase_add_test(k, distribution_metrics_equal_golden);
    tcase_add_test(k, a_model_has_no_distance_from_itself);
    suite_add_tcase(s, e);
    suite_add_tcase(s, t);
    suite_add_tcase(s, p);
    suite_add_tcase(s, k);
    return test_main(s);
}
