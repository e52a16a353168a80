/* Distribution metrics: breakdowns, top-k agreement, stored references and their bounds. Real model: stories260k (1 MB). */
#include "tests/stories.h"

#include "lib/base/par.h"
#include "lib/base/rng.h"
#include "lib/eval/corpus.h"
#include "lib/eval/kld.h"
#include "lib/eval/reference_int.h"

static stories real;
static infq_corpus *corpus;
static const infq_log quiet;

static void open_model(void)
{
    infq_err err;

    real = stories_open();
    ck_ok(infq_corpus_open(test_shared_path("data/wikitext-2/wiki.test.raw"), INFQ_CORPUS_PLAIN, true, 0, &corpus, &err), err);
}

static void close_model(void)
{
    infq_corpus_free(corpus);
    stories_close(&real);
}

#define TEXT infq_corpus_get(corpus, 0)->text, 20000

static const infq_numerics rough = {.activations = INFQ_ELEM_BF16, .residual = INFQ_ELEM_BF16, .kv = INFQ_ELEM_E4M3};
static const infq_numerics exact = {.activations = INFQ_ELEM_NONE};

START_TEST(a_token_has_the_class_of_how_it_begins)
{
    static const struct {
        const char *text;
        infq_token_class c;
    } cases[] = {{"", INFQ_TOKEN_SPECIAL}, {" ", INFQ_TOKEN_SPACE}, {"\n\n\t", INFQ_TOKEN_SPACE}, {" the", INFQ_TOKEN_WORD}, {"\nThe", INFQ_TOKEN_WORD},
                 {"ing", INFQ_TOKEN_CONTINUATION}, {"\xc3\xa9t\xc3\xa9", INFQ_TOKEN_CONTINUATION}, {" \xc3\xa9t", INFQ_TOKEN_WORD}, {"7", INFQ_TOKEN_DIGIT},
                 {" 1990", INFQ_TOKEN_DIGIT}, {",", INFQ_TOKEN_PUNCTUATION}, {" @-", INFQ_TOKEN_PUNCTUATION}, {"\xe2\x80\x94", INFQ_TOKEN_PUNCTUATION},
                 {"\xc3\x97", INFQ_TOKEN_PUNCTUATION}, {"\xc2\xbf", INFQ_TOKEN_PUNCTUATION}, {"\xd0\xb6", INFQ_TOKEN_OTHER}, {" \xe6\x97\xa5", INFQ_TOKEN_OTHER},
                 {"\xef\xbf\xbd", INFQ_TOKEN_OTHER}, {"\xe6", INFQ_TOKEN_OTHER}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(infq_token_class_of(cases[i].text, strlen(cases[i].text)) == cases[i].c, "\"%s\" is %s", cases[i].text,
                      infq_token_class_name(infq_token_class_of(cases[i].text, strlen(cases[i].text))));
}
END_TEST

/* Ids of a text, each with its class as the whole vocabulary's list says. */
START_TEST(classes_of_a_vocabulary_see_leading_blanks)
{
    static const char *const folders[] = {"data/tokenizer-smollm2", "data/tokenizer-open-llama", "data/tokenizer-gpt2"};
    static const infq_token_class want[] = {INFQ_TOKEN_WORD, INFQ_TOKEN_WORD, INFQ_TOKEN_DIGIT, INFQ_TOKEN_PUNCTUATION};
    infq_tokenizer *t;
    infq_ids ids;
    uint8_t *c;
    infq_err err;

    TEST_NEEDS_SHARED();
    ck_ok(infq_tokenizer_open(test_shared_path(folders[_i]), &t, &err), err);
    infq_ids_init(&ids);
    ck_ok(infq_tokenizer_encode(t, "On the house 7,", 15, 0, &ids, &err), err);
    ck_ok(infq_token_classes(t, infq_tokenizer_size(t) + 5, &c, &err), err);
    ck_assert_int_ge(ids.n, 5);
    ck_assert_int_eq(c[ids.data[1]], want[0]);
    ck_assert_int_eq(c[ids.data[2]], want[1]);
    ck_assert_int_eq(c[ids.data[ids.n - 2]], want[2]);
    ck_assert_int_eq(c[ids.data[ids.n - 1]], want[3]);
    ck_assert_int_eq(c[infq_tokenizer_size(t) + 4], INFQ_TOKEN_SPECIAL);
    if (infq_tokenizer_bos(t) >= 0)
        ck_assert_int_eq(c[infq_tokenizer_bos(t)], INFQ_TOKEN_SPECIAL);
    infq_mem_free(c);
    infq_ids_deinit(&ids);
    infq_tokenizer_free(t);
}
END_TEST

START_TEST(the_likeliest_come_first_and_ties_keep_their_order)
{
    const float x[] = {1, 5, 3, 5, 4, -2, 3};
    const int32_t want[] = {1, 3, 4, 2, 6, 0, 5}, other[] = {3, 1, 0, 9};
    int32_t got[7];

    for (int64_t k = 1; k <= 7; k++) {
        infq_top_k(x, 7, got, k);
        ck_assert(memcmp(got, want, (size_t)k * sizeof(*got)) == 0);
    }
    ck_assert_double_eq(infq_top_common(want, other, 4), 0.5);
}
END_TEST

static double group_sum(const infq_kld_group *g, int n, int64_t *count, double *share)
{
    double s = 0;

    *count = 0;
    *share = 0;
    for (int i = 0; i < n; i++) {
        *count += g[i].n;
        *share += g[i].share;
        s += g[i].n ? g[i].kld_mean * (double)g[i].n : 0;
    }
    return s;
}

START_TEST(breakdowns_add_up_to_the_whole)
{
    infq_kld_options ko = {.window = 100, .max_tokens = 1000, .numerics_p = &exact, .numerics_q = &rough};
    infq_kld_result r;
    int64_t n, binned = 0;
    double share;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    ck_ok(infq_kld_measure(real.model, real.model, real.tok, TEXT, &ko, &r, &err), err);
    ck_assert(r.all.kld_mean > 1e-6 && r.all.kld_mean < 0.1);
    ck_assert(r.all.same_top > 0.8 && r.all.same_top < 1);
    ck_assert(r.all.top_k > 0.8 && r.all.top_k < 1);
    ck_assert_double_eq(r.all.kld_lower, r.all.kld_mean);
    ck_assert_double_eq(r.all.kld_upper, r.all.kld_mean);
    ck_assert_double_eq_tol(group_sum(r.classes, INFQ_TOKEN_CLASS_COUNT, &n, &share), r.all.kld_mean * 990, 1e-9);
    ck_assert_int_eq(n, 990);
    ck_assert_double_eq_tol(share, 1, 1e-9);
    ck_assert_double_eq_tol(group_sum(r.positions, r.n_positions, &n, &share), r.all.kld_mean * 990, 1e-9);
    ck_assert_int_eq(n, 990);
    ck_assert_int_eq(r.n_positions, 8); /* 0, 1, 2-3, ... 64-98 */
    ck_assert_str_eq(r.positions[3].name, "4-7");
    ck_assert_str_eq(r.positions[7].name, "64-98");
    ck_assert_int_eq(r.positions[3].n, 40);
    for (int i = 0; i < INFQ_KLD_BINS; i++)
        binned += r.histogram[i];
    ck_assert_int_eq(binned, 990);
    ck_assert_double_eq_tol(infq_kld_bin_edge(1), 1e-6, 1e-18);
    ck_assert_double_eq_tol(infq_kld_bin_edge(INFQ_KLD_BINS - 1), 100, 1e-9);
    close_model();
}
END_TEST

START_TEST(a_group_mean_is_the_mean_of_its_positions)
{
    infq_kld_row rows[12] = {{.kld = 0}};
    const uint8_t classes[12] = {2, 2, 3, 2, 3, 3, 2, 2, 2, 2, 2, 4};
    infq_kld_result r;
    infq_err err;

    for (int i = 0; i < 12; i++)
        rows[i] = (infq_kld_row){.kld = i, .nll_p = 1, .nll_q = 1.5, .same_top = i % 2};
    ck_ok(infq_kld_finish(rows, classes, 3, 4, &r, &err), err);
    ck_assert_double_eq(r.classes[3].kld_mean, (2 + 4 + 5) / 3.0);
    ck_assert_double_eq_tol(r.classes[3].share, 11 / 66.0, 1e-12);
    ck_assert_double_eq_tol(r.classes[3].same_top, 1 / 3.0, 1e-12);
    ck_assert_double_eq_tol(r.classes[3].ln_ratio, 0.5, 1e-12);
    /* windows as clusters: sums 2 of 1, 9 of 2, 0 of 0; r = 11/3; residuals -5/3, 5/3, 0 */
    ck_assert_double_eq_tol(r.classes[3].kld_se, sqrt(1.5 * 2 * 25 / 9.0) / 3, 1e-12);
    ck_assert(isnan(r.classes[4].kld_se)); /* one window only */
    ck_assert_int_eq(r.classes[5].n, 0);
    ck_assert_double_eq(r.positions[1].kld_mean, (1 + 5 + 9) / 3.0);
}
END_TEST

START_TEST(selection_puts_the_kth_smallest_in_its_place)
{
    infq_rng rng = infq_rng_seed(3);
    float x[257], before;

    for (int round = 0; round < 300; round++) {
        int64_t n = 1 + (int64_t)infq_rng_below(&rng, 257), k = (int64_t)infq_rng_below(&rng, (uint64_t)n), smaller = 0, equal = 0;
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)infq_rng_below(&rng, round % 3 ? 1000 : 4); /* many ties */
        infq_select(x, n, k);
        before = x[k];
        for (int64_t i = 0; i < n; i++) {
            smaller += x[i] < before;
            equal += x[i] == before;
            ck_assert(i < k ? x[i] <= before : x[i] >= before);
        }
        ck_assert(smaller <= k && k < smaller + equal);
    }
}
END_TEST

// ---- one stored position ----------------------------------------------------------------------------------------------

#define VOCAB 400

typedef struct {
    float p[VOCAB], q[VOCAB], scratch[VOCAB];
    int32_t ids[64];
    float lp[64];
} position;

static void random_position(position *x, infq_rng *rng, double error)
{
    for (int v = 0; v < VOCAB; v++) {
        x->p[v] = (float)(3 * infq_rng_normal(rng));
        x->q[v] = x->p[v] + (float)(error * infq_rng_normal(rng));
    }
}

/* Row of P with `top` and `samples`, compared with Q; *truth: everything known. */
static infq_kld_row stored(position *x, int64_t top, int64_t samples, uint64_t seed, infq_reference_rest *rest, infq_kld_row *truth)
{
    infq_reference_row row = {.ids = x->ids, .lp = x->lp};
    float p[VOCAB], q[VOCAB];

    *truth = infq_kld_of(x->p, x->q, VOCAB, 7);
    memcpy(p, x->p, sizeof(p));
    memcpy(q, x->q, sizeof(q));
    infq_reference_row_make(p, VOCAB, 7, top, samples, seed, &row);
    return infq_reference_row_compare(&row, top, samples, q, VOCAB, 7, x->scratch, rest);
}

START_TEST(bounds_hold_for_every_position)
{
    infq_rng rng = infq_rng_seed(5);
    static position x;

    for (int round = 0; round < 400; round++) {
        infq_reference_rest rest;
        infq_kld_row truth, r;
        random_position(&x, &rng, round % 4 ? 0.7 : 0.02);
        r = stored(&x, 10 + round % 30, 1 + round % 20, (uint64_t)round, &rest, &truth);
        ck_assert_msg(r.lower <= truth.kld + 1e-6 && truth.kld <= r.upper + 1e-6, "round %d: %g is not in %g .. %g", round, truth.kld, r.lower, r.upper);
        ck_assert_double_eq_tol(r.nll_p, truth.nll_p, 1e-12);
        ck_assert_double_eq_tol(r.nll_q, truth.nll_q, 1e-12);
        ck_assert(r.same_top == truth.same_top && r.common == truth.common);
    }
}
END_TEST

START_TEST(the_upper_bound_is_reached_by_the_worst_rest)
{
    /* Outside the 10 kept P sits on the two least likely tokens of Q, at the cap: the bound's own extreme point. */
    infq_rng rng = infq_rng_seed(6);
    static position x;
    infq_reference_rest rest;
    infq_kld_row truth, r;

    for (int v = 0; v < VOCAB; v++) {
        x.q[v] = (float)infq_rng_normal(&rng);
        x.p[v] = v < 12 ? 1.0f : -200.0f; /* twelve equal ones */
    }
    x.q[10] = -8;
    x.q[11] = -9;
    /* two samples: both of the rest's two tokens become known; one: one of them */
    r = stored(&x, 10, 2, 1, &rest, &truth);
    ck_assert_double_eq_tol(r.lower, truth.kld, 1e-6);
    ck_assert_double_eq_tol(r.upper, truth.kld, 1e-6);
    for (uint64_t seed = 1; seed < 20; seed++) {
        r = stored(&x, 10, 1, seed, &rest, &truth);
        ck_assert_double_eq_tol(r.upper, truth.kld, 1e-5);
        ck_assert_double_lt(r.lower, truth.kld - 0.05);
    }
}
END_TEST

START_TEST(estimates_have_no_bias_and_the_error_they_state)
{
    enum { N = 4000 };
    static position x;
    static infq_kld_row rows[N];
    static infq_reference_rest rest[N];
    infq_rng rng = infq_rng_seed(7);
    infq_kld_row truth;
    double sum = 0, want = 0, var = 0, plain = 0;

    for (int i = 0; i < N; i++) {
        random_position(&x, &rng, _i ? 0.8 : 0.05);
        rows[i] = stored(&x, 10, 8, (uint64_t)i * 77, &rest[i], &truth);
        want += truth.kld / N;
        plain += rest[i].p * rest[i].p * (rest[i].aa - rest[i].a * rest[i].a) / 7 / N / N;
    }
    infq_reference_finish(rows, rest, N, 8);
    for (int i = 0; i < N; i++) {
        sum += rows[i].kld / N;
        var += rows[i].sample_var / N / N;
    }
    ck_assert_msg(fabs(sum - want) < 4 * sqrt(var), "%g, should be %g, stated error %g", sum, want, sqrt(var));
    ck_assert_double_lt(sqrt(var), 0.05 * want);
    if (_i == 0) /* small errors: the control takes nearly all of the noise */
        ck_assert_double_lt(var, 0.02 * plain);
}
END_TEST

// ---- files --------------------------------------------------------------------------------------------------------------

static infq_reference_options small_reference(void)
{
    infq_reference_options o = infq_reference_options_default();

    o.window = 64;
    o.max_tokens = 640;
    o.top = 40;
    snprintf(o.model, sizeof(o.model), "stories");
    snprintf(o.text, sizeof(o.text), "wiki");
    return o;
}

START_TEST(a_stored_original_gives_the_distance_of_both_in_lock_step)
{
    infq_reference_options o = small_reference();
    infq_kld_options ko = {.window = 64, .max_tokens = 640, .numerics_p = &exact, .numerics_q = &rough};
    infq_kld_result live, r;
    infq_reference *ref;
    char path[600];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(path, sizeof(path), "%s/ref", test_tmpdir());
    ck_ok(infq_reference_write(path, real.model, real.tok, TEXT, &o, &err), err);
    ck_ok(infq_kld_measure(real.model, real.model, real.tok, TEXT, &ko, &live, &err), err); /* leaves the real.model rough */
    ck_ok(infq_reference_open(path, &ref, &err), err);
    ck_assert_int_eq(infq_reference_info_get(ref)->n_windows, 10);
    ck_assert_str_eq(infq_reference_info_get(ref)->model, "stories");
    ck_ok(infq_reference_measure(ref, real.model, real.tok, NULL, &quiet, &r, &err), err);
    ck_assert_double_eq(r.all.same_top, live.all.same_top);
    ck_assert_double_eq(r.all.top_k, live.all.top_k);
    ck_assert_double_eq_tol(r.all.ln_ratio, live.all.ln_ratio, 1e-12);
    ck_assert_double_eq_tol(r.half.ppl_p, live.half.ppl_p, 1e-9);
    ck_assert_double_eq_tol(r.all.dp_rms, live.all.dp_rms, 1e-12);
    ck_assert(r.all.kld_lower <= live.all.kld_mean + 1e-6 && live.all.kld_mean <= r.all.kld_upper + 1e-6);
    ck_assert_double_eq_tol(r.all.kld_mean, live.all.kld_mean, 0.02 * live.all.kld_mean);
    ck_assert_double_lt(fabs(r.all.kld_mean - live.all.kld_mean), 4 * r.all.kld_sample_se + 1e-7);
    ck_assert_int_eq(r.classes[INFQ_TOKEN_WORD].n, live.classes[INFQ_TOKEN_WORD].n);
    infq_reference_close(ref);
    close_model();
}
END_TEST

START_TEST(the_file_does_not_depend_on_threads)
{
    infq_reference_options o = small_reference();
    infq_buf a, b;
    char path[600];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(path, sizeof(path), "%s/ref", test_tmpdir());
    infq_buf_init(&a);
    infq_buf_init(&b);
    ck_ok(infq_reference_write(path, real.model, real.tok, TEXT, &o, &err), err);
    ck_ok(infq_file_read(path, (size_t)1 << 26, &a, &err), err);
    ck_assert_int_eq(infq_reference_write(path, real.model, real.tok, TEXT, &o, &err), INFQ_E_EXISTS);
    o.replace = true;
    infq_par_threads_set(2);
    ck_ok(infq_reference_write(path, real.model, real.tok, TEXT, &o, &err), err);
    ck_ok(infq_file_read(path, (size_t)1 << 26, &b, &err), err);
    ck_assert(a.n == b.n && memcmp(a.data, b.data, a.n) == 0);
    ck_assert_uint_le(a.n, 10 * 64 * 4 + 10 * 63 * (24 + 56 * 6) + 1024); /* 360 bytes a position */
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
    close_model();
}
END_TEST

static void refused(const char *path, const infq_buf *b, size_t n, const char *what)
{
    infq_reference *ref;
    infq_err err;

    ck_ok(infq_file_write_atomic(path, b->data, n, true, &err), err);
    ck_assert_msg(infq_reference_open(path, &ref, &err) == INFQ_E_FORMAT, "%s", what);
}

START_TEST(altered_and_foreign_files_are_refused)
{
    infq_reference_options o = small_reference();
    infq_tokenizer *other;
    infq_reference *ref;
    infq_kld_result r;
    infq_buf b;
    char path[600], bad[600];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(path, sizeof(path), "%s/ref", test_tmpdir());
    snprintf(bad, sizeof(bad), "%s.bad", path);
    infq_buf_init(&b);
    o.max_tokens = 128;
    ck_ok(infq_reference_write(path, real.model, real.tok, TEXT, &o, &err), err);
    ck_ok(infq_reference_open(path, &ref, &err), err);
    ck_ok(infq_tokenizer_open(test_shared_path("data/tokenizer-gpt2"), &other, &err), err);
    ck_assert_int_eq(infq_reference_measure(ref, real.model, other, NULL, &quiet, &r, &err), INFQ_E_MISMATCH);
    infq_tokenizer_free(other);
    infq_reference_close(ref);
    ck_ok(infq_file_read(path, (size_t)1 << 26, &b, &err), err);
    refused(bad, &b, b.n - 1, "cut short");
    refused(bad, &b, 40, "cut inside the header");
    refused(bad, &b, 0, "empty");
    for (size_t at = 0; at < b.n; at += 1 + b.n / 37) {
        b.data[at] ^= 4;
        refused(bad, &b, b.n, "one bit changed");
        b.data[at] ^= 4;
    }
    infq_buf_add(&b, "x", 1);
    refused(bad, &b, b.n, "a byte too long");
    o.replace = true;
    o.top = 512;
    ck_assert_int_eq(infq_reference_write(bad, real.model, real.tok, TEXT, &o, &err), INFQ_E_USAGE);
    o.top = 40;
    o.window = 4096;
    ck_assert_int_eq(infq_reference_write(bad, real.model, real.tok, TEXT, &o, &err), INFQ_E_USAGE);
    infq_buf_deinit(&b);
    close_model();
}
END_TEST

START_TEST(a_failed_write_leaves_nothing)
{
    infq_reference_options o = small_reference();
    char path[600], part[620];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_model();
    snprintf(path, sizeof(path), "%s/ref", test_tmpdir());
    o.max_tokens = 128;
    snprintf(part, sizeof(part), "%s.first", path); /* the real.model's buffers, kept, grow here */
    ck_ok(infq_reference_write(part, real.model, real.tok, TEXT, &o, &err), err);
    snprintf(part, sizeof(part), "%s.partial", path);
    for (size_t n = 1; n < 40; n++) {
        size_t live = infq_mem_stats_get().n_live;
        infq_file_fail_at(n);
        if (!infq_reference_write(path, real.model, real.tok, TEXT, &o, &err)) {
            infq_file_fail_at(0);
            ck_assert_int_ge(n, 4);
            close_model();
            return;
        }
        infq_file_fail_at(0);
        ck_assert_msg(!infq_path_exists(path) && !infq_path_exists(part), "write %zu", n);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
    }
    ck_abort_msg("40 writes were not enough");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("distance");
    TCase *c = tcase_create("classes"), *k = tcase_create("breakdown"), *p = tcase_create("position"), *f = tcase_create("file");

    tcase_add_test(c, a_token_has_the_class_of_how_it_begins);
    tcase_add_loop_test(c, classes_of_a_vocabulary_see_leading_blanks, 0, 3);
    tcase_add_test(k, the_likeliest_come_first_and_ties_keep_their_order);
    tcase_add_test(k, breakdowns_add_up_to_the_whole);
    tcase_add_test(k, a_group_mean_is_the_mean_of_its_positions);
    tcase_add_test(p, selection_puts_the_kth_smallest_in_its_place);
    tcase_add_test(p, bounds_hold_for_every_position);
    tcase_add_test(p, the_upper_bound_is_reached_by_the_worst_rest);
    tcase_add_loop_test(p, estimates_have_no_bias_and_the_error_they_state, 0, 2);
    tcase_set_timeout(f, 60);
    tcase_add_test(f, a_stored_original_gives_the_distance_of_both_in_lock_step);
    tcase_add_test(f, the_file_does_not_depend_on_threads);
    tcase_add_test(f, altered_and_foreign_files_are_refused);
    tcase_add_test(f, a_failed_write_leaves_nothing);
    suite_add_tcase(s, c);
    suite_add_tcase(s, k);
    suite_add_tcase(s, p);
    suite_add_tcase(s, f);
    return test_main(s);
}
