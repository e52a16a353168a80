/* Generation: the reference's tokens and texts, independence of batch, company, threads and shared beginnings, stops, lengths. */
#include "lib/eval/generate.h"

#include "lib/base/par.h"
#include "lib/eval/extract.h"
#include "lib/io/tok_stream.h"
#include "tests/testlib.h"

static infq_err err;
static infq_backend *backend;
static infq_checkpoint *checkpoint;
static infq_model *model;
static infq_tokenizer *tokenizer;

static void open_model(const char *path)
{
    infq_model_options mo = infq_model_options_default();
    infq_log log = { 0 };

    infq_par_threads_set(1);
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

#define MAX_PROMPTS 16

// What came back, by prompt.
typedef struct {
    int n;
    const char *prompts[MAX_PROMPTS];
    char *texts[MAX_PROMPTS];
    infq_ids ids[MAX_PROMPTS];
    infq_finish stop[MAX_PROMPTS];
    int64_t n_prompt[MAX_PROMPTS], n_cut[MAX_PROMPTS], last;
    char request[MAX_PROMPTS][17];
} talk;

static infq_status give_prompt(void *ctx, int64_t i, infq_buf *text, infq_err *e)
{
    talk *t = ctx;

    infq_buf_str(text, t->prompts[i]);
    return infq_buf_status(text, e);
}

static infq_status take_result(void *ctx, const infq_generated *g, infq_err *e)
{
    talk *t = ctx;
    int64_t i = g->index;

    (void)e;
    ck_assert_int_eq(i, t->last + 1); // in order
    t->last = i;
    t->texts[i] = infq_mem_strndup(g->text, g->n_text);
    infq_ids_init(&t->ids[i]);
    infq_ids_append(&t->ids[i], g->tokens, (size_t)g->n_tokens);
    t->stop[i] = g->stop;
    t->n_prompt[i] = g->n_prompt;
    t->n_cut[i] = g->n_cut;
    memcpy(t->request[i], g->request, 17);
    return INFQ_E_OK;
}

static infq_status generate(talk *t, const infq_generate_options *o)
{
    infq_generate_sink sink = { give_prompt, take_result, t };

    t->last = -1;
    return infq_generate(model, tokenizer, 0, t->n, o, &sink, &err);
}

static void talk_free(talk *t)
{
    for (int i = 0; i < t->n; i++) {
        infq_mem_free(t->texts[i]);
        infq_ids_deinit(&t->ids[i]);
        t->texts[i] = NULL;
    }
}

// The two best logits behind a sequence.
static double gap_behind(const int32_t *ids, int64_t n)
{
    infq_forward_options fo = { .invariant = true };
    const infq_config *c = infq_model_config(model);
    float *h = malloc((size_t)c->hidden * sizeof(float)), *z = malloc((size_t)c->vocab * sizeof(float)), best, next = -1e30f;
    infq_seq *s = NULL;
    infq_segment seg;
    int32_t top;

    ck_ok(infq_seq_new(model, &s, &err), err);
    seg = (infq_segment){ s, ids, n, 1 };
    ck_ok(infq_model_forward(model, &seg, 1, &fo, h, &err), err);
    ck_ok(infq_model_logits(model, h, 1, true, z, &err), err);
    top = infq_argmax(z, c->vocab);
    best = z[top];
    for (int64_t i = 0; i < c->vocab; i++)
        if (i != top && z[i] > next)
            next = z[i];
    infq_seq_free(s);
    free(h);
    free(z);
    return (double)best - (double)next;
}

static void same_as_golden(const char *task, int64_t max_tokens, const char *const *stops, int n_stops)
{
    char rel[200];
    infq_buf file;
    cJSON *items[MAX_PROMPTS];
    infq_generate_options o = infq_generate_options_default();
    talk t = { 0 };
    int n_equal = 0;

    snprintf(rel, sizeof(rel), "goldens/evals/stories260k/%s.jsonl", task);
    infq_buf_init(&file);
    ck_ok(infq_file_read(test_shared_path(rel), (size_t)1 << 26, &file, &err), err);
    for (char *line = file.data, *end; (end = strchr(line, '\n')) != NULL && t.n < MAX_PROMPTS; line = end + 1, t.n++) {
        *end = '\0';
        ck_ok(infq_json_parse(line, strlen(line), task, &items[t.n], &err), err);
        t.prompts[t.n] = infq_json_get(items[t.n], "prompt")->valuestring;
    }
    o.max_tokens = max_tokens;
    o.stops = stops;
    o.n_stops = n_stops;
    ck_ok(generate(&t, &o), err);
    for (int i = 0; i < t.n; i++) {
        const cJSON *want = infq_json_get(items[i], "new_ids"), *fed = infq_json_get(items[i], "prompt_ids");
        int n = cJSON_GetArraySize(want), k = 0;

        ck_assert_int_eq(t.n_prompt[i], cJSON_GetArraySize(fed));
        while (k < n && k < (int)t.ids[i].n && cJSON_GetArrayItem(want, k)->valueint == t.ids[i].data[k])
            k++;
        if (k == n && k == (int)t.ids[i].n) {
            ck_assert_str_eq(t.texts[i], infq_json_get(items[i], "output")->valuestring);
            n_equal++;
        } else { // where they part, two tokens must be equally good
            infq_ids all;
            infq_ids_init(&all);
            for (int p = 0; p < cJSON_GetArraySize(fed); p++)
                infq_ids_push(&all, cJSON_GetArrayItem(fed, p)->valueint);
            infq_ids_append(&all, t.ids[i].data, (size_t)k);
            ck_assert_msg(gap_behind(all.data, (int64_t)all.n) < 2e-4, "%s %d: token %d of %d differs", task, i, k, n);
            infq_ids_deinit(&all);
        }
        cJSON_Delete(items[i]);
    }
    ck_assert_int_ge(t.n, 8);
    ck_assert_int_ge(n_equal, t.n - 1);
    talk_free(&t);
    infq_buf_deinit(&file);
}

START_TEST(golden_prompts_give_the_reference_tokens_and_texts)
{
    static const char *const en[] = { "Question:", "</s>", "<|im_end|>" }, *const fr[] = { "Question :", "</s>", "<|im_end|>" };

    TEST_NEEDS_SHARED();
    open_model(test_shared_path("data/model-stories260k/hf"));
    same_as_golden("gsm8k", 256, en, 3);
    same_as_golden("mgsm_direct_fr", 96, fr, 3);
    close_model();
}
END_TEST

static const char *const prompts[] = {
    "", "The cat", "The old farmer", "the red box is in the kitchen . the blue", "Anna has 3 apples and 4 pears . how many", "A",
    "The cat and",
    "long long long long long long long long long long long long long long long long long long long long long long long long "
    "long long",
};

static talk ask(const infq_generate_options *o, int first, int n)
{
    talk t = { .n = n };

    for (int i = 0; i < n; i++)
        t.prompts[i] = prompts[(first + i) % 8];
    ck_ok(generate(&t, o), err);
    return t;
}

static void same_answer(const talk *a, int i, const talk *b, int k, const char *what)
{
    ck_assert_msg(strcmp(a->texts[i], b->texts[k]) == 0, "%s, prompt %d: <%s> and <%s>", what, i, a->texts[i], b->texts[k]);
    ck_assert_uint_eq(a->ids[i].n, b->ids[k].n);
    ck_assert_str_eq(a->request[i], b->request[k]);
    ck_assert_int_eq(a->stop[i], b->stop[k]);
}

START_TEST(results_do_not_depend_on_batch_threads_or_company)
{
    infq_generate_options o = infq_generate_options_default();
    talk all, other;

    open_model("evals/demo-model");
    o.max_tokens = 40;
    for (int sampled = 0; sampled < 2; sampled++) {
        o.sample.temperature = sampled;
        o.sample.top_k = 20;
        o.batch = 1;
        all = ask(&o, 0, 8);
        for (int64_t batch = 2; batch <= 9; batch += 3) {
            o.batch = batch;
            infq_par_threads_set((int)batch % 3 + 1);
            other = ask(&o, 0, 8);
            for (int i = 0; i < 8; i++)
                same_answer(&all, i, &other, i, "other batch");
            talk_free(&other);
        }
        if (!sampled) { // the stream of a prompt is chosen by its place
            other = ask(&o, 3, 5);
            for (int i = 0; i < 5; i++)
                same_answer(&other, i, &all, 3 + i, "other company");
            talk_free(&other);
        }
        talk_free(&all);
    }
    close_model();
}
END_TEST

START_TEST(a_shared_beginning_changes_no_bit)
{
    infq_generate_options o = infq_generate_options_default();
    char shots[3][1200], *at;
    talk together = { .n = 3 }, alone;

    open_model("evals/demo-model");
    o.max_tokens = 24;
    for (int i = 0; i < 3; i++) {
        at = shots[i];
        for (int k = 0; k < 12; k++)
            at += sprintf(at, "the red box is in the kitchen . where is box %d ? in the kitchen .\n", k);
        sprintf(at, "the %s box is in the garden . where is it ?", i == 0 ? "red" : i == 1 ? "blue" : "old");
        together.prompts[i] = shots[i];
    }
    ck_ok(generate(&together, &o), err);
    for (int i = 0; i < 3; i++) {
        alone = (talk){ .n = 1, .prompts = { shots[i] } };
        ck_ok(generate(&alone, &o), err);
        same_answer(&alone, 0, &together, i, "alone");
        talk_free(&alone);
    }
    talk_free(&together);
    close_model();
}
END_TEST

START_TEST(text_ends_at_stops_that_cross_tokens)
{
    infq_generate_options o = infq_generate_options_default();
    talk free_run, cut;
    char stop[8];
    const char *stops[] = { "never there", stop }, *found;

    open_model("evals/demo-model");
    o.max_tokens = 40;
    free_run = ask(&o, 1, 1);
    ck_assert_uint_ge(strlen(free_run.texts[0]), 30);
    for (size_t from = 3; from < 20; from += 4) { // any piece of the text, wherever tokens end
        memcpy(stop, free_run.texts[0] + from, 5);
        stop[5] = '\0';
        found = strstr(free_run.texts[0], stop);
        o.stops = stops;
        o.n_stops = 2;
        cut = ask(&o, 1, 1);
        ck_assert_int_eq(cut.stop[0], INFQ_FINISH_STRING);
        ck_assert_uint_eq(strlen(cut.texts[0]), (size_t)(found - free_run.texts[0]));
        ck_assert_uint_lt(cut.ids[0].n, free_run.ids[0].n);
        talk_free(&cut);
    }
    talk_free(&free_run);
    close_model();
}
END_TEST

START_TEST(length_and_window_are_kept)
{
    infq_generate_options o = infq_generate_options_default();
    talk t;

    open_model("evals/demo-model");
    o.max_tokens = 5;
    o.context = 20;
    t = ask(&o, 7, 1);
    ck_assert_int_eq(t.n_prompt[0], 15);
    ck_assert_int_gt(t.n_cut[0], 0);
    ck_assert(t.stop[0] == INFQ_FINISH_EOS || t.ids[0].n == 5);
    talk_free(&t);
    o.max_tokens = 20;
    t = (talk){ .n = 1, .prompts = { "a" } };
    ck_assert_int_eq(generate(&t, &o), INFQ_E_UNSUPPORTED);
    close_model();
}
END_TEST

START_TEST(sampling_follows_its_seed)
{
    infq_generate_options o = infq_generate_options_default();
    talk a, b, c;

    open_model("evals/demo-model");
    o.max_tokens = 30;
    o.sample.temperature = 1;
    a = ask(&o, 0, 4);
    b = ask(&o, 0, 4);
    o.sample.seed = 7;
    c = ask(&o, 0, 4);
    for (int i = 0; i < 4; i++)
        same_answer(&a, i, &b, i, "same seed");
    ck_assert(strcmp(a.texts[1], c.texts[1]) != 0 || strcmp(a.texts[2], c.texts[2]) != 0);
    ck_assert_str_ne(a.request[1], c.request[1]);
    talk_free(&a);
    talk_free(&b);
    talk_free(&c);
    close_model();
}
END_TEST

START_TEST(failed_allocations_are_errors_without_leaks)
{
    infq_generate_options o = infq_generate_options_default();
    size_t live;
    infq_status st = INFQ_E_NOMEM;

    open_model("evals/demo-model");
    o.max_tokens = 3;
    talk warm = ask(&o, 0, 3);
    talk_free(&warm);
    live = infq_mem_stats_get().n_live;
    for (size_t n = 1; st == INFQ_E_NOMEM && n < 4000; n += n < 60 ? 1 : 13) {
        talk t = { .n = 3, .prompts = { prompts[0], prompts[1], prompts[2] } };
        infq_mem_fail_at(n);
        st = generate(&t, &o);
        infq_mem_fail_at(0);
        talk_free(&t);
        ck_assert_msg(st == 0 || st == INFQ_E_NOMEM, "allocation %zu: %s", n, err.msg);
        ck_assert_msg(infq_mem_stats_get().n_live <= live + 8, "allocation %zu: %zu blocks left over", n,
                      infq_mem_stats_get().n_live - live);
    }
    ck_assert_int_eq(st, 0);
    close_model();
}
END_TEST

START_TEST(streamed_text_is_the_whole_text)
{
    const char *text = "Caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80 it's  two blanks";
    infq_ids ids, part;
    infq_buf whole, streamed;
    infq_tok_stream s;

    TEST_NEEDS_SHARED();
    ck_ok(infq_tokenizer_open(test_shared_path("data/tokenizer-smollm2"), &tokenizer, &err), err);
    infq_ids_init(&ids);
    infq_buf_init(&whole);
    infq_buf_init(&streamed);
    infq_tok_stream_init(&s, 0);
    ck_ok(infq_tokenizer_encode(tokenizer, text, strlen(text), 0, &ids, &err), err);
    ck_ok(infq_tokenizer_decode(tokenizer, ids.data, ids.n, true, &whole, &err), err);
    for (size_t n = 1; n <= ids.n; n++) {
        part = ids;
        part.n = n;
        ck_ok(infq_tok_stream_more(&s, tokenizer, &part, true, n == ids.n, &streamed, &err), err);
        ck_assert_uint_eq(strncmp(whole.data, streamed.data, streamed.n), 0); // only whole characters are out
    }
    ck_assert_str_eq(streamed.data, whole.data);
    infq_tok_stream_deinit(&s);
    infq_buf_deinit(&whole);
    infq_buf_deinit(&streamed);
    infq_ids_deinit(&ids);
    infq_tokenizer_free(tokenizer);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("generate");
    TCase *t = tcase_create("text");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, golden_prompts_give_the_reference_tokens_and_texts);
    tcase_add_test(t, results_do_not_depend_on_batch_threads_or_company);
    tcase_add_test(t, a_shared_beginning_changes_no_bit);
    tcase_add_test(t, text_ends_at_stops_that_cross_tokens);
    tcase_add_test(t, length_and_window_are_kept);
    tcase_add_test(t, sampling_follows_its_seed);
    tcase_add_test(t, failed_allocations_are_errors_without_leaks);
    tcase_add_test(t, streamed_text_is_the_whole_text);
    suite_add_tcase(s, t);
    return test_main(s);
}
