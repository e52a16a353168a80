/* Windows of texts in item files: what a stopped run left is taken up, and gives the same numbers. Real model: stories260k (1 MB). */
#include "tests/stories.h"

#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/par.h"
#include "lib/eval/corpus.h"
#include "lib/eval/kld.h"
#include "lib/eval/ppl.h"
#include "lib/eval/reference.h"

static stories real;
static infq_corpus *corpus;
static const infq_log quiet;
static char path[600];

static void open_model(void)
{
    infq_err err;

    snprintf(path, sizeof(path), "%s/windows.jsonl", test_tmpdir());
    unlink(path);
    real = stories_open();
    ck_ok(infq_corpus_open(test_shared_path("data/wikitext-2/wiki.test.raw"), INFQ_CORPUS_WIKI_PAGES, true, 4, &corpus, &err), err);
}

static void close_model(void)
{
    infq_corpus_free(corpus);
    stories_close(&real);
}

static infq_window_store store_open(void)
{
    infq_item_key key;
    infq_window_store s;
    infq_err err;

    memset(&key, 0, sizeof(key));
    strcpy(key.task, "text");
    ck_ok(infq_items_new(&key, &s.items, &err), err);
    ck_ok(infq_item_log_open(path, s.items, &s.log, &err), err);
    return s;
}

static void store_close(infq_window_store *s)
{
    infq_err err;

    ck_ok(infq_item_log_close(s->log, &err), err);
    infq_items_free(s->items);
}

static void read_file(infq_buf *b)
{
    infq_err err;

    infq_buf_clear(b);
    ck_ok(infq_file_read(path, 1 << 24, b, &err), err);
}

/* Measures with the item file: *there windows were in it before. Results are compared as bytes. */
typedef void (*measure_fn)(const infq_window_store *s, void *out);

static void measure_ppl(const infq_window_store *s, void *out)
{
    infq_ppl_options po = {.convention = INFQ_PPL_ROLLING, .window = 100, .max_tokens = 900, .store = s};
    infq_ppl_result *r = out;
    infq_err err;

    ck_ok(infq_ppl_measure(real.model, real.tok, corpus, &po, r, &err), err);
    infq_mem_free(r->windows); // a pointer is not compared
    r->windows = NULL;
}

static void measure_kld(const infq_window_store *s, void *out)
{
    static const infq_numerics rough = {.activations = INFQ_ELEM_BF16, .residual = INFQ_ELEM_BF16, .kv = INFQ_ELEM_E4M3}, exact = {.activations = INFQ_ELEM_NONE};
    infq_kld_options ko = {.window = 64, .max_tokens = 3000, .numerics_p = &exact, .numerics_q = &rough, .store = s};
    infq_err err;

    ck_ok(infq_kld_measure(real.model, real.model, real.tok, infq_corpus_get(corpus, 1)->text, infq_corpus_get(corpus, 1)->n, &ko, out, &err), err);
}

static void measure_reference(const infq_window_store *s, void *out)
{
    static const infq_numerics rough = {.activations = INFQ_ELEM_BF16, .residual = INFQ_ELEM_BF16, .kv = INFQ_ELEM_E4M3}, exact = {.activations = INFQ_ELEM_NONE};
    infq_reference_options o = infq_reference_options_default();
    infq_reference *ref;
    char file[620];
    infq_err err;

    o.window = 64;
    o.max_tokens = 3000;
    o.top = 40;
    snprintf(file, sizeof(file), "%s.ref", path);
    ck_ok(infq_model_set_numerics(real.model, &exact, &err), err);
    if (!infq_path_exists(file))
        ck_ok(infq_reference_write(file, real.model, real.tok, infq_corpus_get(corpus, 1)->text, infq_corpus_get(corpus, 1)->n, &o, &err), err);
    ck_ok(infq_reference_open(file, &ref, &err), err);
    ck_ok(infq_model_set_numerics(real.model, &rough, &err), err);
    ck_ok(infq_reference_measure(ref, real.model, real.tok, s, &quiet, out, &err), err);
    infq_reference_close(ref);
}

static const struct {
    measure_fn measure;
    size_t size;
} kinds[] = {{measure_ppl, sizeof(infq_ppl_result)}, {measure_kld, sizeof(infq_kld_result)}, {measure_reference, sizeof(infq_kld_result)}};

START_TEST(a_stopped_measurement_goes_on_and_ends_with_the_same_bits)
{
    union {
        infq_ppl_result ppl;
        infq_kld_result kld;
    } plain, kept, again;
    infq_window_store s;
    infq_buf whole, now;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    memset(&plain, 0, sizeof(plain));
    kept = again = plain;
    infq_buf_init(&whole);
    infq_buf_init(&now);
    kinds[_i].measure(NULL, &plain);
    s = store_open();
    kinds[_i].measure(&s, &kept);
    store_close(&s);
    ck_assert_int_eq(memcmp(&plain, &kept, kinds[_i].size), 0);
    read_file(&whole);
    for (int k = 0; k < 4; k++) {
        // killed in the middle of a line, or of the first line, or behind the last
        size_t keep = k == 0 ? 20 : k == 3 ? whole.n : whole.n * (size_t)k / 3 + 7;
        ck_ok(infq_file_write_atomic(path, whole.data, keep, true, &err), err);
        s = store_open();
        ck_assert_int_eq(infq_items_count(s.items) > 0, k > 0);
        memset(&again, 0, sizeof(again));
        kinds[_i].measure(&s, &again);
        store_close(&s);
        ck_assert_int_eq(memcmp(&plain, &again, kinds[_i].size), 0);
        read_file(&now);
        ck_assert_uint_eq(now.n, whole.n);
        ck_assert_int_eq(memcmp(now.data, whole.data, whole.n), 0);
    }
    infq_buf_deinit(&whole);
    infq_buf_deinit(&now);
    close_model();
}
END_TEST

START_TEST(stored_numbers_are_what_counts_and_windows_of_another_text_are_refused)
{
    infq_ppl_options po = {.convention = INFQ_PPL_GPTQ, .window = 64, .max_tokens = 640};
    infq_ppl_result r, changed;
    infq_window_store s;
    infq_corpus *other;
    infq_buf b;
    char *at;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    infq_buf_init(&b);
    s = store_open();
    po.store = &s;
    infq_corpus_free(corpus);
    ck_ok(infq_corpus_open(test_shared_path("data/wikitext-2/wiki.test.raw"), INFQ_CORPUS_WIKI_RAW, true, 0, &corpus, &err), err);
    ck_ok(infq_ppl_measure(real.model, real.tok, corpus, &po, &r, &err), err);
    store_close(&s);
    read_file(&b);
    at = strstr(b.data, "\"rows\":[[") + 9;
    ck_assert(at[0] >= '0' && at[0] <= '9');
    at[0] = at[0] == '9' ? '8' : (char)(at[0] + 1); // one nll larger by 1: of 63 in the first of 10 windows
    ck_ok(infq_file_write_atomic(path, b.data, b.n, true, &err), err);
    s = store_open();
    ck_ok(infq_ppl_measure(real.model, real.tok, corpus, &po, &changed, &err), err);
    ck_assert_double_eq_tol(fabs(changed.mean_nll - r.mean_nll), 1.0 / 630, 1e-12);
    infq_ppl_result_free(&changed);
    ck_ok(infq_corpus_open(test_shared_path("data/wikitext-2/wiki.test.raw"), INFQ_CORPUS_WIKI_ROWS, true, 0, &other, &err), err);
    ck_assert_int_eq(infq_ppl_measure(real.model, real.tok, other, &po, &changed, &err), INFQ_E_EXISTS);
    ck_assert_msg(strstr(err.msg, "is not of this text"), "%s", err.msg);
    po.window = 32;
    ck_assert_int_eq(infq_ppl_measure(real.model, real.tok, corpus, &po, &changed, &err), INFQ_E_EXISTS);
    store_close(&s);
    infq_corpus_free(other);
    infq_ppl_result_free(&r);
    infq_buf_deinit(&b);
    close_model();
}
END_TEST

START_TEST(malformed_windows_are_refused)
{
    static const char *const bad[] = {"\"rows\":[]", "\"rows\":[[]]", "\"rows\":[[1,2],[3]]", "\"rows\":[1,2]", "\"rows\":[[\"1\"]]", "\"rows\":[[null]]",
                                      "\"rows\":7", "\"tokens\":1"};

    snprintf(path, sizeof(path), "%s/bad.jsonl", test_tmpdir());
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char line[200];
        infq_items *items;
        infq_err err;
        int n = snprintf(line, sizeof(line), "{\"doc\":0,\"kind\":\"window\",\"request\":\"00\",%s,\"metrics\":{}}\n", bad[i]);
        ck_ok(infq_file_write_atomic(path, line, (size_t)n, true, &err), err);
        ck_assert_msg(infq_items_load(path, &items, &err) != 0, "%s", bad[i]);
        ck_assert_msg(strstr(err.msg, "rows") && strstr(err.msg, "line 1"), "%s", err.msg);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("window_store");
    TCase *c = tcase_create("windows");

    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_stopped_measurement_goes_on_and_ends_with_the_same_bits, 0, 3);
    tcase_add_test(c, stored_numbers_are_what_counts_and_windows_of_another_text_are_refused);
    tcase_add_test(c, malformed_windows_are_refused);
    suite_add_tcase(s, c);
    return test_main(s);
}
