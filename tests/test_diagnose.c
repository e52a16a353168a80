/* Diagnosis on the demo model and compressed versions of it made here: trials equal models that really hold the replaced matrices. */
#include "tests/testlib.h"

#include "lib/base/par.h"
#include "lib/compress/quantize.h"
#include "lib/eval/corpus.h"
#include "lib/eval/diagnose_int.h"
#include "lib/eval/kld.h"

#define DEMO "evals/demo-model"
#define TOKENS 384
#define WINDOW 128

static infq_backend *backend;
static infq_corpus *corpus;
static infq_tokenizer *tokenizer;
static const infq_log quiet;

typedef struct {
    infq_checkpoint *ck;
    infq_model *m;
} opened;

static opened open_one(const char *path)
{
    infq_model_options mo = infq_model_options_default();
    opened o;
    infq_err err;

    ck_ok(infq_checkpoint_open(path, &quiet, &o.ck, &err), err);
    ck_ok(infq_model_open(o.ck, backend, &mo, &o.m, &err), err);
    return o;
}

static void close_one(opened *o)
{
    infq_model_close(o->m);
    infq_checkpoint_close(o->ck);
}

static void setup(void)
{
    infq_err err;

    infq_par_threads_set(1);
    ck_ok(infq_backend_open("cpu", &backend, &err), err);
    ck_ok(infq_corpus_open("evals/calib.txt", INFQ_CORPUS_PLAIN, true, 0, &corpus, &err), err);
    ck_ok(infq_tokenizer_open(DEMO, &tokenizer, &err), err);
}

static void teardown(void)
{
    infq_tokenizer_free(tokenizer);
    infq_corpus_free(corpus);
    infq_backend_close(backend);
    ck_assert_uint_eq(infq_mem_stats_get().n_live, 0);
}

/* The demo model with only the modules of one pattern quantized (NULL: all targets); path in a static buffer. */
static const char *compressed(const char *scheme, const char *method, const char *only)
{
    static char path[4][600];
    static int turn;
    static char other[300];
    char *dst = path[turn = (turn + 1) % 4];
    infq_plan_options o = infq_plan_options_default();
    infq_quantize_options qo = {.verify = false};
    const char *ignore[1] = {other};
    infq_quantize_result *r;
    infq_checkpoint *ck;
    infq_plan *p;
    infq_err err;

    snprintf(dst, sizeof(path[0]), "%s/q", test_tmpdir());
    o.scheme = infq_scheme_find(scheme);
    o.method = infq_method_find(method);
    o.group_size = infq_elem_bits(o.scheme->codec.elem) == 4 ? 64 : 0;
    o.out = dst;
    if (only) {
        snprintf(other, sizeof(other), "re:(?!%s$).*", only);
        o.ignore = ignore;
        o.n_ignore = 1;
    }
    ck_ok(infq_checkpoint_open(DEMO, &quiet, &ck, &err), err);
    ck_ok(infq_plan_make(ck, &o, &p, &err), err);
    ck_ok(infq_quantize_run(p, &qo, NULL, &r, &err), err);
    infq_quantize_result_free(r);
    infq_plan_free(p);
    infq_checkpoint_close(ck);
    return dst;
}

static infq_diagnose_options small(bool by_module)
{
    infq_diagnose_options o = infq_diagnose_options_default();

    o.by_module = by_module;
    o.window = WINDOW;
    o.max_tokens = TOKENS;
    return o;
}

static infq_diagnose_result diagnose_with(const char *path, bool by_module, const char *eight)
{
    infq_diagnose_options o = small(by_module);
    opened p = open_one(DEMO), q = open_one(path), e = {0};
    infq_diagnose_result r;
    infq_err err;

    if (eight) {
        e = open_one(eight);
        o.eight = e.m;
        o.ck_eight = e.ck;
    }
    ck_ok(infq_diagnose_run(p.m, q.m, p.ck, q.ck, tokenizer, infq_corpus_get(corpus, 0)->text, infq_corpus_get(corpus, 0)->n, &o, &r, &err), err);
    close_one(&p);
    close_one(&q);
    if (eight)
        close_one(&e);
    return r;
}

static infq_diagnose_result diagnose(const char *path, bool by_module)
{
    return diagnose_with(path, by_module, NULL);
}

static infq_kld_result distance(const char *path)
{
    infq_kld_options o = {.window = WINDOW, .max_tokens = TOKENS};
    opened p = open_one(DEMO), q = open_one(path);
    infq_kld_result r;
    infq_err err;

    ck_ok(infq_kld_measure(p.m, q.m, tokenizer, infq_corpus_get(corpus, 0)->text, infq_corpus_get(corpus, 0)->n, &o, &r, &err), err);
    close_one(&p);
    close_one(&q);
    return r;
}

START_TEST(a_trial_equals_the_model_that_holds_the_matrix)
{
    static const char *const modules[] = {"model.layers.0.mlp.down_proj", "model.layers.4.self_attn.o_proj"};
    const char *path = compressed("W4A16", "rtn", modules[_i]);
    infq_diagnose_result r = diagnose(path, true);
    infq_kld_result k = distance(path);

    ck_assert_int_eq(r.n_units, 1);
    ck_assert_str_eq(r.units[0].name, modules[_i]);
    ck_assert_double_gt(r.units[0].kld, 0);
    ck_assert_double_eq(r.units[0].kld, r.kld); /* it is the whole difference, and starts in the middle with the same bits */
    ck_assert_double_eq_tol(r.kld, k.all.kld_mean, 1e-9);
    ck_assert_double_eq_tol(r.kld_se, k.all.kld_se, 1e-9);
    ck_assert_double_eq_tol(r.units[0].same_top, k.all.same_top, 1e-12);
    ck_assert_double_eq(r.units[0].share, 1);
    /* kept as an exception nothing is left */
    ck_assert_int_eq(r.n_exceptions, 1);
    ck_assert_double_eq_tol(r.kld_kept, 0, 1e-12);
    ck_assert_double_eq(r.same_top_kept, 1);
    ck_assert_double_eq_tol(r.exceptions[0].bits, (r.units[0].bits_p - r.units[0].bits_q) / (double)r.params, 1e-12);
    ck_assert_double_eq_tol(r.bits_p, 16.0 * (double)r.params, 1);
    infq_diagnose_result_free(&r);
}
END_TEST

START_TEST(layers_add_up_from_their_matrices)
{
    const char *path = compressed("W4A16", "rtn", NULL);
    infq_diagnose_result l = diagnose(path, false), m = diagnose(path, true);
    infq_kld_result k = distance(path);
    double shares = 0;

    ck_assert_int_eq(l.n_units, 5);
    ck_assert_int_eq(m.n_units, 35);
    ck_assert_str_eq(l.units[3].name, "model.layers.3");
    ck_assert(l.units[3].block && !m.units[3].block);
    ck_assert_double_eq(l.kld, m.kld);
    ck_assert_double_eq_tol(l.kld, k.all.kld_mean, 1e-9);
    ck_assert(l.kld_sum > 0.5 * l.kld && l.kld_sum < 2 * l.kld);
    for (int64_t i = 0; i < 5; i++) {
        double bits = 0, sum = 0;
        for (int64_t j = 7 * i; j < 7 * i + 7; j++) {
            ck_assert_int_eq(m.units[j].layer, i);
            bits += m.units[j].bits_q;
            sum += m.units[j].kld;
            ck_assert_double_gt(m.units[j].output_error, 0);
        }
        ck_assert_int_eq(l.units[i].n_parts, 7);
        ck_assert_double_eq_tol(l.units[i].bits_q, bits, 1e-6);
        ck_assert(l.units[i].kld > 0.4 * sum && l.units[i].kld < 2.5 * sum);
        ck_assert_double_eq_tol(l.units[i].weight_error, 0.11, 0.03); /* 4 bits in groups of 64 */
        ck_assert(l.units[i].output_error > 1e-4 && l.units[i].output_error < 0.2);
        shares += l.units[i].share;
    }
    ck_assert_double_eq_tol(shares, 1, 1e-9);
    infq_diagnose_result_free(&l);
    infq_diagnose_result_free(&m);
}
END_TEST

START_TEST(exceptions_come_in_fused_groups_best_for_their_bits_first)
{
    const char *path = compressed("W4A16", "rtn", NULL);
    infq_diagnose_result r = diagnose(path, true);
    double left = 1;

    ck_assert_int_ge(r.n_exceptions, 2);
    for (int64_t i = 0; i < r.n_exceptions; i++) {
        const infq_diagnose_exception *e = &r.exceptions[i];
        const infq_diagnose_unit *u = &r.units[e->unit[0]];
        int want = strstr(u->name, "self_attn.q_proj") ? 3 : strstr(u->name, "mlp.gate_proj") ? 2 : 1;
        ck_assert_msg(e->n_units == want, "%s: %d matrices together", u->name, e->n_units);
        ck_assert_ptr_null(strstr(u->name, "k_proj"));
        if (i > 0)
            ck_assert_double_ge(r.exceptions[i - 1].share / r.exceptions[i - 1].bits, e->share / e->bits);
        left -= e->share;
        ck_assert_double_eq_tol(e->expected, r.kld * left, 1e-9);
    }
    ck_assert(left <= 0.5 || r.n_exceptions == 16);
    ck_assert_double_lt(r.kld_kept, 0.8 * r.kld);
    ck_assert_double_gt(r.kld_kept, 0);
    infq_diagnose_result_free(&r);
}
END_TEST

/* With one matrix changed, what is measured at 8 bits is the divergence of the model that stores just it so. */
START_TEST(the_price_at_8_bits_is_measured)
{
    static const char only[] = "model.layers.2.mlp.down_proj";
    infq_diagnose_result r = diagnose_with(compressed("W4A16", "rtn", only), true, compressed("W8A16", "search", NULL));
    infq_kld_result want = distance(compressed("W8A16", "search", only));
    const infq_diagnose_exception *e = &r.exceptions[0];

    ck_assert_int_eq(r.n_exceptions, 1);
    ck_assert_double_gt(e->bits_eight, 0);
    ck_assert_double_lt(e->bits_eight, e->bits);
    ck_assert_double_eq_tol(e->bits_eight, e->bits * (8.125 - 4.25) / (16 - 4.25), 1e-9); // groups of 128 and 64 with scales of 16 bits
    // Both measure the same model; sums over windows are added in another order.
    ck_assert_double_eq_tol(r.kld_eight, want.all.kld_mean, 1e-9 + 1e-6 * want.all.kld_mean);
    ck_assert_double_eq_tol(e->kld_eight, want.all.kld_mean, 1e-9 + 1e-6 * want.all.kld_mean);
    ck_assert_double_eq_tol(e->expected_eight, r.kld_eight, 1e-6 * r.kld);
    ck_assert_double_gt((e->kld - e->kld_eight) / e->bits_eight, e->kld / e->bits); // the cheaper exception
    infq_diagnose_result_free(&r);
}
END_TEST

START_TEST(exceptions_at_8_bits_cost_less_and_gain_nearly_as_much)
{
    infq_diagnose_result r = diagnose_with(compressed("W4A16", "rtn", NULL), false, compressed("W8A16", "search", NULL));
    infq_diagnose_result same;

    ck_assert_int_ge(r.n_exceptions, 2);
    for (int64_t i = 0; i < r.n_exceptions; i++) {
        ck_assert_double_lt(r.exceptions[i].bits_eight, 0.5 * r.exceptions[i].bits);
        ck_assert_double_lt(r.exceptions[i].kld_eight, 0.1 * r.exceptions[i].kld);
    }
    ck_assert_double_lt(r.kld_eight, 0.8 * r.kld);
    infq_diagnose_result_free(&r);
    // a model that is at 8 bits already has no such price
    same = diagnose_with(compressed("W8A16", "search", NULL), false, compressed("W8A16", "search", NULL));
    for (int64_t i = 0; i < same.n_exceptions; i++)
        ck_assert(isnan(same.exceptions[i].bits_eight) && isnan(same.exceptions[i].expected_eight));
    infq_diagnose_result_free(&same);
}
END_TEST

START_TEST(a_search_that_clips_shows_in_the_clipped_share)
{
    infq_diagnose_result rtn = diagnose(compressed("W4A16", "rtn", NULL), false), search = diagnose(compressed("W4A16", "search", NULL), false),
                         fp8 = diagnose(compressed("FP8", "rtn", NULL), false);

    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq(rtn.units[i].clipped, 0);
        ck_assert(search.units[i].clipped > 1e-4 && search.units[i].clipped < 0.05);
        ck_assert_double_eq(fp8.units[i].clipped, 0);
        ck_assert(isnan(rtn.units[i].input_clipped)); /* no static scale */
    }
    infq_diagnose_result_free(&rtn);
    infq_diagnose_result_free(&search);
    infq_diagnose_result_free(&fp8);
}
END_TEST

START_TEST(activation_quantization_alone_is_a_change)
{
    infq_diagnose_result a = diagnose(compressed("W8A8-INT8", "rtn", NULL), false), w = diagnose(compressed("W8A16", "rtn", NULL), false);

    ck_assert_int_eq(a.n_units, 5);
    ck_assert_double_gt(a.kld, 1.5 * w.kld); /* the same weights, rounded inputs */
    infq_diagnose_result_free(&a);
    infq_diagnose_result_free(&w);
}
END_TEST

START_TEST(the_models_are_as_they_were_and_equal_ones_are_refused)
{
    infq_diagnose_options o = small(true);
    opened p = open_one(DEMO), q = open_one(compressed("W4A16", "rtn", NULL)), same = open_one(DEMO);
    infq_kld_options ko = {.window = WINDOW, .max_tokens = TOKENS};
    infq_kld_result before, after;
    infq_diagnose_result r;
    const char *text = infq_corpus_get(corpus, 0)->text;
    size_t n = infq_corpus_get(corpus, 0)->n;
    infq_err err;

    ck_ok(infq_kld_measure(p.m, q.m, tokenizer, text, n, &ko, &before, &err), err);
    ck_ok(infq_diagnose_run(p.m, q.m, p.ck, q.ck, tokenizer, text, n, &o, &r, &err), err);
    ck_ok(infq_kld_measure(p.m, q.m, tokenizer, text, n, &ko, &after, &err), err);
    ck_assert_double_eq(before.all.kld_mean, after.all.kld_mean);
    infq_diagnose_result_free(&r);
    ck_assert_int_eq(infq_diagnose_run(p.m, same.m, p.ck, same.ck, tokenizer, text, n, &o, &r, &err), INFQ_E_MISMATCH);
    infq_interrupted = 2;
    ck_assert_int_eq(infq_diagnose_run(p.m, q.m, p.ck, q.ck, tokenizer, text, n, &o, &r, &err), INFQ_E_INTERRUPTED);
    infq_interrupted = 0;
    ck_ok(infq_kld_measure(p.m, q.m, tokenizer, text, n, &ko, &after, &err), err);
    ck_assert_double_eq(before.all.kld_mean, after.all.kld_mean);
    close_one(&same);
    close_one(&q);
    close_one(&p);
}
END_TEST

START_TEST(results_do_not_depend_on_threads)
{
    const char *path = compressed("W4A16", "rtn", NULL);
    infq_diagnose_result a, b;

    infq_par_threads_set(2);
    a = diagnose(path, false);
    infq_par_threads_set(1);
    b = diagnose(path, false);
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq(a.units[i].kld, b.units[i].kld);
        ck_assert_double_eq(a.units[i].output_error, b.units[i].output_error);
        ck_assert_double_eq(a.units[i].weight_error, b.units[i].weight_error);
    }
    infq_diagnose_result_free(&a);
    infq_diagnose_result_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("diagnose");
    TCase *t = tcase_create("trials");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_trial_equals_the_model_that_holds_the_matrix, 0, 2);
    tcase_add_test(t, layers_add_up_from_their_matrices);
    tcase_add_test(t, exceptions_come_in_fused_groups_best_for_their_bits_first);
    tcase_add_test(t, the_price_at_8_bits_is_measured);
    tcase_add_test(t, exceptions_at_8_bits_cost_less_and_gain_nearly_as_much);
    tcase_add_test(t, a_search_that_clips_shows_in_the_clipped_share);
    tcase_add_test(t, activation_quantization_alone_is_a_change);
    tcase_add_test(t, the_models_are_as_they_were_and_equal_ones_are_refused);
    tcase_add_test(t, results_do_not_depend_on_threads);
    suite_add_tcase(s, t);
    return test_main(s);
}
