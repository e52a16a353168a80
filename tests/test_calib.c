#include "tests/testlib.h"

#include <math.h>
#include <string.h>

#include "lib/backend/moments.h"
#include "lib/base/cpu.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"
#include "lib/base/rng.h"

/* Inputs with correlated channels of very different size, and their exact second moment. */
static float *inputs(int64_t n_rows, int64_t n, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);
    float *x = infq_mem_alloc((size_t)(n_rows * n) * sizeof(float));

    for (int64_t t = 0; t < n_rows; t++) {
        double common = infq_rng_normal(&rng);
        for (int64_t c = 0; c < n; c++)
            x[t * n + c] = (float)((0.7 * common + infq_rng_normal(&rng)) * (c % 17 == 3 ? 8.0 : 0.3 + (double)(c % 5)));
    }
    return x;
}

static float *weights(int64_t n_rows, int64_t n, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);
    float *w = infq_mem_alloc((size_t)(n_rows * n) * sizeof(float));

    for (int64_t i = 0; i < n_rows * n; i++)
        w[i] = (float)(infq_rng_normal(&rng) * 0.05);
    return w;
}

static double *moment(const float *x, int64_t n_rows, int64_t n)
{
    double *h = infq_mem_calloc((size_t)(n * n), sizeof(double));
    infq_err err;

    ck_ok(infq_moment_add(x, n_rows, n, h, &err), err);
    return h;
}

static double sym(const double *h, int64_t n, int64_t i, int64_t j)
{
    return i >= j ? h[i * n + j] : h[j * n + i];
}

START_TEST(moments_equal_plain_sums_for_any_number_of_threads)
{
    const int64_t shapes[][2] = { { 1, 1 }, { 5, 3 }, { 700, 40 }, { 513, 200 }, { 1030, 577 } };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        int64_t T = shapes[s][0], n = shapes[s][1];
        float *x = inputs(T, n, 1);
        double *h, *again;
        infq_par_threads_set(1);
        h = moment(x, T, n);
        infq_par_threads_set(3);
        again = moment(x, T, n);
        ck_assert_int_eq(memcmp(h, again, (size_t)(n * n) * sizeof(double)), 0);
        for (int64_t i = 0; i < n; i += 1 + n / 13)
            for (int64_t j = 0; j < n; j += 1 + n / 11) {
                double want = 0.0, size = 0.0;
                for (int64_t t = 0; t < T; t++) {
                    want += (double)x[t * n + i] * x[t * n + j];
                    size += fabs((double)x[t * n + i] * x[t * n + j]);
                }
                // F32 sums of 512 terms: errors of about sqrt(512) * 2^-24 of the sum of magnitudes.
                ck_assert_double_le(fabs(h[i * n + j] - (j <= i ? want : 0.0)), 2e-6 * size);
            }
        infq_mem_free(x);
        infq_mem_free(h);
        infq_mem_free(again);
    }
}
END_TEST

START_TEST(channels_give_squares_maxima_and_the_first_bad_element)
{
    float x[3][4] = { { 1, -2, 0, 3 }, { 0.5f, 1, 0, -4 }, { -1, 0, 0, 2 } };
    double sq[4] = { 0 };
    float top[4] = { 0 };

    ck_assert_int_eq(infq_channels_add(&x[0][0], 3, 4, sq, top), -1);
    ck_assert(sq[0] == 2.25 && sq[1] == 5.0 && sq[2] == 0.0 && sq[3] == 29.0);
    ck_assert(top[0] == 1.0f && top[1] == 2.0f && top[2] == 0.0f && top[3] == 4.0f);
    x[1][2] = -INFINITY;
    x[2][0] = NAN;
    ck_assert_int_eq(infq_channels_add(&x[0][0], 3, 4, NULL, NULL), 6);
}
END_TEST

/* Value of r[j][i] in the packed layout. */
static double packed(const infq_factor *f, int64_t j, int64_t i)
{
    int64_t c = i / 4 * 4, b = c / 4;

    return f->r[8 * b * (b + 1) + 4 * j + i % 4];
}

START_TEST(factor_gives_the_damped_matrix_back)
{
    const int64_t n = 150;
    const infq_order orders[] = { INFQ_ORDER_NATURAL, INFQ_ORDER_ACT, INFQ_ORDER_GROUP };
    float *x = inputs(400, n, 2);

    for (int o = 0; o < 3; o++) {
        double *h = moment(x, 400, n), mean = 0.0;
        infq_factor f;
        infq_err err;
        bool seen[150] = { false };

        for (int64_t i = 0; i < n; i++)
            mean += h[i * n + i] / (double)n;
        ck_ok(infq_factor_make(h, n, 0.01, orders[o], 32, &f, &err), err);
        ck_assert_double_eq(f.damping, 0.01);
        for (int64_t a = 0; a < n; a++) {
            seen[f.order[a]] = true;
            for (int64_t b = 0; b < n; b++) {
                // H = (R D^-1) D^2 (R D^-1)^T with D = diag(R).
                double s = 0.0, want = sym(h, n, f.order[a], f.order[b]) + (a == b ? 0.01 * mean : 0.0);
                for (int64_t k = a > b ? a : b; k < n; k++)
                    s += (k == a ? 1.0 : packed(&f, a, k)) * f.d[k] * (k == b ? 1.0 : packed(&f, b, k));
                ck_assert_double_le(fabs(s - want), 1e-5 * sqrt(h[f.order[a] * n + f.order[a]] * h[f.order[b] * n + f.order[b]]) + 1e-5 * mean);
            }
        }
        for (int64_t i = 0; i < n; i++)
            ck_assert(seen[i]);
        for (int64_t i = 1; i < n && orders[o] == INFQ_ORDER_ACT; i++)
            ck_assert(h[f.order[i - 1] * n + f.order[i - 1]] >= h[f.order[i] * n + f.order[i]]);
        for (int64_t i = 0; i < n && orders[o] == INFQ_ORDER_GROUP; i++)
            ck_assert_int_eq(f.order[i] / 32, f.order[i / 32 * 32] / 32 + (f.order[i / 32 * 32] / 32 == 4 && i % 32 >= 22));
        infq_factor_free(&f);
        infq_mem_free(h);
    }
    infq_mem_free(x);
}
END_TEST

START_TEST(factor_raises_damping_until_it_holds_and_refuses_what_cannot)
{
    // A negative eigenvalue of 3 % of the mean diagonal: 0.01 and 0.02 fail, 0.04 holds.
    double h[4] = { 1.0, 0.0, 1.03, 1.0 }, none[4] = { 0 }, wrong[4] = { 1.0, 0.0, 2.0, 1.0 }, nan[4] = { NAN, 0, 0, 1 };
    infq_factor f;
    infq_err err;

    ck_ok(infq_factor_make(h, 2, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), err);
    ck_assert_double_eq(f.damping, 0.04);
    infq_factor_free(&f);
    ck_assert_int_eq(infq_factor_make(none, 2, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), INFQ_E_NUMERIC);
    ck_assert_int_eq(infq_factor_make(wrong, 2, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), INFQ_E_NUMERIC);
    ck_assert_int_eq(infq_factor_make(nan, 2, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), INFQ_E_NUMERIC);
    ck_assert_uint_eq(infq_mem_stats_get().n_live, 0);
}
END_TEST

/* What one matrix becomes: ranges by plain rounding, feedback, codes. */
typedef struct {
    infq_quant_out out;
    float *t, *back;
    infq_feedback_loss loss;
    size_t n_codes;
} result;

static infq_weight as_weight(const infq_codec *c, const infq_quant_out *o, int64_t n_rows, int64_t n)
{
    infq_weight w = { .codec = *c, .n_rows = n_rows, .n_cols = n, .outer = 1.0f };

    w.codes = (infq_view){ o->codes, infq_codec_row_bytes(c, n) };
    w.scales = (infq_view){ o->scales, (size_t)infq_weight_scale_cols(&w) * (size_t)infq_elem_bits(c->scale) / 8 };
    if (c->zero == INFQ_ZERO_INT)
        w.zeros = (infq_view){ o->zeros, (size_t)infq_weight_scale_cols(&w) };
    return w;
}

static result run(const infq_codec *c, const infq_factor *f, const float *w, int64_t n_rows, int64_t n)
{
    infq_quant_spec s = { .codec = *c, .range = INFQ_RANGE_RTN, .n_cols = n };
    result r = { .n_codes = infq_codec_row_bytes(c, n) * (size_t)n_rows };
    infq_weight q;
    infq_err err;

    r.out.codes = infq_mem_alloc(r.n_codes);
    r.out.scales = infq_mem_alloc((size_t)(n_rows * n) * 4);
    r.out.zeros = infq_mem_alloc((size_t)(n_rows * n));
    r.t = infq_mem_alloc((size_t)(n_rows * n) * sizeof(float));
    r.back = infq_mem_alloc((size_t)(n_rows * n) * sizeof(float));
    ck_ok(infq_quant_rows(&s, w, n_rows, &r.out, &err), err);
    ck_ok(infq_feedback_rows(f, &s, w, n_rows, &r.out, r.t, &r.loss, &err), err);
    s.range = INFQ_RANGE_GIVEN;
    ck_ok(infq_quant_rows(&s, r.t, n_rows, &r.out, &err), err);
    q = as_weight(c, &r.out, n_rows, n);
    for (int64_t i = 0; i < n_rows; i++)
        infq_weight_decode_row(&q, i, r.back + i * n);
    return r;
}

static void drop(result *r)
{
    infq_mem_free(r->out.codes);
    infq_mem_free(r->out.scales);
    infq_mem_free(r->out.zeros);
    infq_mem_free(r->t);
    infq_mem_free(r->back);
}

static const infq_codec codecs[] = {
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = INFQ_ELEM_BF16 },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = INFQ_ELEM_F16, .zero = INFQ_ZERO_INT },
    { .elem = INFQ_ELEM_U8, .group_rows = 1, .scale = INFQ_ELEM_F32 },
    { .elem = INFQ_ELEM_I8, .group_rows = 1, .scale = INFQ_ELEM_F32 },
    { .elem = INFQ_ELEM_E4M3, .group_rows = 1, .scale = INFQ_ELEM_F32 },
    { .elem = INFQ_ELEM_E4M3, .group_rows = 16, .group_cols = 32, .scale = INFQ_ELEM_F32 },
};
#define N_CODECS ((int)(sizeof(codecs) / sizeof(codecs[0])))

/* tr(E (H + damping) E^T) in F64. */
static double proxy(const double *h, double damping, const float *w, const float *q, int64_t n_rows, int64_t n)
{
    double total = 0.0, mean = 0.0;

    for (int64_t i = 0; i < n; i++)
        mean += h[i * n + i] / (double)n;
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++) {
            double ei = (double)w[r * n + i] - q[r * n + i];
            for (int64_t j = 0; j < n; j++)
                total += ei * ((double)w[r * n + j] - q[r * n + j]) * (sym(h, n, i, j) + (i == j ? damping * mean : 0.0));
        }
    return total;
}

START_TEST(losses_are_the_trace_and_feedback_lowers_it)
{
    const int64_t n = 97, n_rows = 45;
    float *x = inputs(500, n, 3), *w = weights(n_rows, n, 4);
    double *h = moment(x, 500, n), plain, moved, sq = 0.0;
    infq_quant_spec s = { .codec = codecs[_i], .range = INFQ_RANGE_RTN, .n_cols = n };
    infq_factor f;
    infq_err err;
    result r;
    infq_weight q;
    float *rtn = infq_mem_alloc((size_t)(n_rows * n) * sizeof(float));

    ck_ok(infq_factor_make(h, n, 0.01, INFQ_ORDER_ACT, 0, &f, &err), err);
    r = run(&codecs[_i], &f, w, n_rows, n);
    moved = proxy(h, 0.01, w, r.back, n_rows, n);
    ck_assert_double_le(fabs(r.loss.feedback / moved - 1), 1e-3);
    for (int64_t i = 0; i < n_rows * n; i++)
        sq += ((double)w[i] - r.back[i]) * ((double)w[i] - r.back[i]);
    ck_assert_double_le(fabs(r.loss.sq_err / sq - 1), 1e-4);
    // Plain rounding under the same ranges.
    ck_ok(infq_quant_rows(&s, w, n_rows, &r.out, &err), err);
    q = as_weight(&codecs[_i], &r.out, n_rows, n);
    for (int64_t i = 0; i < n_rows; i++)
        infq_weight_decode_row(&q, i, rtn + i * n);
    plain = proxy(h, 0.01, w, rtn, n_rows, n);
    ck_assert_double_le(fabs(r.loss.plain / plain - 1), 1e-3);
    ck_assert_double_lt(moved, 0.8 * plain);
    infq_mem_free(rtn);
    drop(&r);
    infq_factor_free(&f);
    infq_mem_free(h);
    infq_mem_free(x);
    infq_mem_free(w);
}
END_TEST

START_TEST(without_correlation_feedback_is_plain_rounding)
{
    const int64_t n = 66, n_rows = 35;
    float *w = weights(n_rows, n, 5);
    double *h = infq_mem_calloc((size_t)(n * n), sizeof(double));
    infq_factor f;
    infq_err err;
    result r;

    for (int64_t i = 0; i < n; i++)
        h[i * n + i] = 2.0;
    ck_ok(infq_factor_make(h, n, 0.01, INFQ_ORDER_ACT, 0, &f, &err), err);
    r = run(&codecs[_i], &f, w, n_rows, n);
    ck_assert_int_eq(memcmp(r.t, w, (size_t)(n_rows * n) * sizeof(float)), 0);
    ck_assert_double_eq(r.loss.plain, r.loss.feedback);
    drop(&r);
    infq_factor_free(&f);
    infq_mem_free(h);
    infq_mem_free(w);
}
END_TEST

/* The published loop (inverse of H, updates of the columns that remain), in F64, for one row of a symmetric 4-bit code. */
static void published_loop(const double *damped, int64_t n, const float *w, const float *scale, double *q)
{
    double *a = infq_mem_alloc((size_t)(n * n) * sizeof(double)), *v = infq_mem_alloc((size_t)n * sizeof(double));

    double *m = infq_mem_alloc((size_t)(n * n) * sizeof(double));
    memcpy(m, damped, (size_t)(n * n) * sizeof(double));
    test_inverse(m, n, a);
    for (int64_t i = 0; i < n; i++)
        v[i] = w[i];
    for (int64_t i = 0; i < n; i++) {
        double c = nearbyint(v[i] / scale[i]), e;
        q[i] = (c < -8 ? -8 : c > 7 ? 7 : c) * scale[i];
        e = (v[i] - q[i]) / a[i * n + i];
        for (int64_t j = i; j < n; j++)
            v[j] -= e * a[i * n + j];
        // The inverse of the remaining columns' moment: eliminate column i.
        for (int64_t r = i + 1; r < n; r++)
            for (int64_t k = i + 1; k < n; k++)
                a[r * n + k] -= a[r * n + i] * a[i * n + k] / a[i * n + i];
    }
    infq_mem_free(a);
    infq_mem_free(m);
    infq_mem_free(v);
}

START_TEST(codes_are_those_of_the_published_loop)
{
    const int64_t n = 64, n_rows = 33;
    float *x = inputs(300, n, 6), *w = weights(n_rows, n, 7), scale[64];
    double *h = moment(x, 300, n), *damped = infq_mem_alloc((size_t)(n * n) * sizeof(double)), mean = 0.0, q[64];
    infq_factor f;
    infq_err err;
    result r;
    int64_t differ = 0;

    for (int64_t i = 0; i < n; i++)
        mean += h[i * n + i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            damped[i * n + j] = sym(h, n, i, j) + (i == j ? 0.01 * mean : 0.0);
    ck_ok(infq_factor_make(h, n, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), err);
    r = run(&codecs[0], &f, w, n_rows, n);
    for (int64_t row = 0; row < n_rows; row++) {
        for (int64_t i = 0; i < n; i++)
            scale[i] = infq_bf16_decode((uint16_t)(r.out.scales[(row * 2 + i / 32) * 2] | r.out.scales[(row * 2 + i / 32) * 2 + 1] << 8));
        published_loop(damped, n, w + row * n, scale, q);
        for (int64_t i = 0; i < n; i++)
            differ += fabs(q[i] - r.back[row * n + i]) > 1e-6;
    }
    // A tie decided by the last bit of F32 moves the rest of its row: none is seen here.
    ck_assert_int_eq(differ, 0);
    drop(&r);
    infq_factor_free(&f);
    infq_mem_free(damped);
    infq_mem_free(h);
    infq_mem_free(x);
    infq_mem_free(w);
}
END_TEST

START_TEST(bytes_do_not_depend_on_threads_or_cpu_level)
{
    const int64_t n = 200, n_rows = 100;
    float *x = inputs(500, n, 8), *w = weights(n_rows, n, 9);
    double *h = moment(x, 500, n), *copy = infq_mem_alloc((size_t)(n * n) * sizeof(double));
    result first = { .t = NULL };
    infq_err err;

    for (int level = (int)infq_cpu_level_max(); level >= 0; level--)
        for (int threads = 1; threads <= 3; threads += 2) {
            infq_factor f;
            result r;
            ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
            infq_par_threads_set(threads);
            memcpy(copy, h, (size_t)(n * n) * sizeof(double));
            ck_ok(infq_factor_make(copy, n, 0.01, INFQ_ORDER_ACT, 0, &f, &err), err);
            r = run(&codecs[_i], &f, w, n_rows, n);
            infq_factor_free(&f);
            if (!first.t) {
                first = r;
                continue;
            }
            ck_assert_int_eq(memcmp(r.t, first.t, (size_t)(n_rows * n) * sizeof(float)), 0);
            ck_assert_int_eq(memcmp(r.out.codes, first.out.codes, r.n_codes), 0);
            ck_assert(r.loss.feedback == first.loss.feedback && r.loss.plain == first.loss.plain);
            drop(&r);
        }
    drop(&first);
    infq_mem_free(copy);
    infq_mem_free(h);
    infq_mem_free(x);
    infq_mem_free(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("calib");
    TCase *t = tcase_create("kernels");

    tcase_add_test(t, moments_equal_plain_sums_for_any_number_of_threads);
    tcase_add_test(t, channels_give_squares_maxima_and_the_first_bad_element);
    tcase_add_test(t, factor_gives_the_damped_matrix_back);
    tcase_add_test(t, factor_raises_damping_until_it_holds_and_refuses_what_cannot);
    tcase_add_loop_test(t, losses_are_the_trace_and_feedback_lowers_it, 0, N_CODECS);
    tcase_add_loop_test(t, without_correlation_feedback_is_plain_rounding, 0, N_CODECS);
    tcase_add_test(t, codes_are_those_of_the_published_loop);
    tcase_add_loop_test(t, bytes_do_not_depend_on_threads_or_cpu_level, 0, N_CODECS);
    suite_add_tcase(s, t);
    return test_main(s);
}
