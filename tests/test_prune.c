#include "lib/compress/sparsity.h"

#include <math.h>

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/compress/quantize.h"
#include "tests/tiny_model.h"

#define HALF ((infq_sparsity){ .fraction = 0.5 })
#define TWO_OF_FOUR ((infq_sparsity){ .fraction = 0.5, .n = 2, .m = 4 })

static float *normal(int64_t n, double sd, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);
    float *x = infq_mem_alloc((size_t)n * sizeof(float));

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(infq_rng_normal(&rng) * sd);
    return x;
}

/* Second moment of correlated channels of different size. */
static double *moment(int64_t n_rows, int64_t n, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);
    float *x = infq_mem_alloc((size_t)(n_rows * n) * sizeof(float));
    double *h = infq_mem_calloc((size_t)(n * n), sizeof(double));
    infq_err err;

    for (int64_t t = 0; t < n_rows; t++) {
        double common = infq_rng_normal(&rng);
        for (int64_t c = 0; c < n; c++)
            x[t * n + c] = (float)((0.7 * common + infq_rng_normal(&rng)) * (c % 17 == 3 ? 8.0 : 0.3 + (double)(c % 5)));
    }
    ck_ok(infq_moment_add(x, n_rows, n, h, &err), err);
    infq_mem_free(x);
    return h;
}

static double sym(const double *h, int64_t n, int64_t i, int64_t j)
{
    return i >= j ? h[i * n + j] : h[j * n + i];
}

/* tr(E (H + damping) E^T) in F64. */
static double proxy(const double *h, const float *w, const float *q, int64_t n_rows, int64_t n)
{
    double total = 0.0, mean = 0.0;

    for (int64_t i = 0; i < n; i++)
        mean += h[i * n + i] / (double)n;
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                total += ((double)w[r * n + i] - q[r * n + i]) * ((double)w[r * n + j] - q[r * n + j]) *
                         (sym(h, n, i, j) + (i == j ? 0.01 * mean : 0.0));
    return total;
}

START_TEST(the_smallest_keys_are_dropped_and_ties_by_index)
{
    uint32_t key[300];
    uint8_t keep[300];
    infq_rng rng = infq_rng_seed(1);

    for (int n = 1; n <= 300; n += n < 20 ? 1 : 37)
        for (int spread = 1; spread <= 4; spread++)
            for (int drop = 0; drop <= n; drop += 1 + n / 7) {
                int kept = 0;
                for (int i = 0; i < n; i++)
                    key[i] = (uint32_t)infq_rng_below(&rng, spread == 1 ? 3 : spread == 2 ? 200 : spread == 3 ? 100000 : UINT32_MAX);
                infq_prune_choose(key, n, drop, keep);
                for (int i = 0; i < n; i++) {
                    int rank = 0;
                    for (int j = 0; j < n; j++)
                        rank += key[j] < key[i] || (key[j] == key[i] && j < i);
                    ck_assert_int_eq(keep[i], rank >= drop);
                    kept += keep[i];
                }
                ck_assert_int_eq(kept, n - drop);
            }
}
END_TEST

START_TEST(rows_groups_and_whole_matrices_lose_exactly_their_share)
{
    const int64_t rows = 37, n = 240;
    float *w = normal(rows * n, 1.0, 2), *scale = normal(n, 1.0, 3), *out = infq_mem_alloc((size_t)(rows * n) * sizeof(float));
    const infq_sparsity ways[] = { HALF, { .fraction = 0.3 }, TWO_OF_FOUR, { .fraction = 0.75, .n = 2, .m = 8 }, { .fraction = 0.5, .whole = true },
                                   { .fraction = 2.0 / 3, .n = 1, .m = 3 } };
    infq_err err;

    for (int64_t i = 0; i < n; i++)
        scale[i] = fabsf(scale[i]);
    for (size_t s = 0; s < sizeof(ways) / sizeof(ways[0]); s++) {
        int64_t all = 0, bad = 0;
        ck_ok(infq_prune_rows(&ways[s], scale, w, rows, n, out, &err), err);
        for (int64_t r = 0; r < rows; r++) {
            int64_t zeros = 0;
            float dropped = 0.0f, kept = INFINITY;
            ck_assert_ptr_null(infq_sparsity_check_row(&ways[s], false, out + r * n, w + r * n, n, &bad, &zeros));
            all += zeros;
            if (!ways[s].whole)
                ck_assert_int_eq(zeros, infq_prune_count(&ways[s], n));
            for (int64_t c = 0; c < n && !ways[s].m && !ways[s].whole; c++) {
                float score = fabsf(w[r * n + c]) * scale[c];
                dropped = out[r * n + c] == 0.0f ? fmaxf(dropped, score) : dropped;
                kept = out[r * n + c] == 0.0f ? kept : fminf(kept, score);
            }
            ck_assert(dropped < kept);
        }
        ck_assert_int_eq(all, ways[s].whole ? infq_prune_count(&ways[s], rows * n) : rows * infq_prune_count(&ways[s], n));
    }
    infq_mem_free(w);
    infq_mem_free(scale);
    infq_mem_free(out);
}
END_TEST

typedef struct {
    float *t, *plain;
    infq_prune_loss loss;
} sparse;

static sparse sparse_run(const double *h, const infq_sparsity *s, const float *w, int64_t rows, int64_t n)
{
    double *copy = infq_mem_alloc((size_t)(n * n) * sizeof(double));
    sparse r = { infq_mem_alloc((size_t)(rows * n) * sizeof(float)), infq_mem_alloc((size_t)(rows * n) * sizeof(float)), { .zeros = 0 } };
    infq_factor f;
    infq_err err;

    memcpy(copy, h, (size_t)(n * n) * sizeof(double));
    ck_ok(infq_factor_make(copy, n, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), err);
    ck_ok(infq_prune_feedback(&f, s, NULL, NULL, w, rows, r.t, r.plain, &r.loss, &err), err);
    infq_factor_free(&f);
    infq_mem_free(copy);
    return r;
}

static void sparse_drop(sparse *r)
{
    infq_mem_free(r->t);
    infq_mem_free(r->plain);
}

/* The published algorithm in F64: inverse by elimination, columns that remain are updated, masks of blocks from updated weights, here row by row. */
static void published(const double *h, int64_t n, const infq_sparsity *s, int64_t block, const float *w, double *q)
{
    double *a = infq_mem_alloc((size_t)(n * n) * sizeof(double)), *m = infq_mem_alloc((size_t)(n * n) * sizeof(double)), mean = 0.0;
    double *v = infq_mem_alloc((size_t)n * sizeof(double)), *pivot = infq_mem_alloc((size_t)n * sizeof(double));
    bool *zero = infq_mem_calloc((size_t)n, sizeof(bool));

    for (int64_t i = 0; i < n; i++)
        mean += h[i * n + i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            m[i * n + j] = sym(h, n, i, j) + (i == j ? 0.01 * mean : 0.0);
    test_inverse(m, n, a);
    // Rows of the upper Cholesky factor of the inverse, unscaled: row i holds A_i,j of the columns that remain, its pivot A_ii.
    for (int64_t i = 0; i < n; i++) {
        pivot[i] = a[i * n + i];
        for (int64_t r = i + 1; r < n; r++)
            for (int64_t k = i + 1; k < n; k++)
                a[r * n + k] -= a[r * n + i] * a[i * n + k] / pivot[i];
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = w[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t b1 = i + block < n ? i + block : n, group = s->m ? s->m : b1 - i;
        for (int64_t g = i; i % block == 0 && g < b1; g += group) {
            int64_t drop = s->m ? s->m - s->n : infq_prune_count(s, b1) - infq_prune_count(s, i);
            for (int64_t c = g; c < g + group; c++) {
                int64_t rank = 0;
                for (int64_t o = g; o < g + group; o++)
                    rank += v[o] * v[o] / pivot[o] < v[c] * v[c] / pivot[c];
                zero[c] = rank < drop;
            }
        }
        q[i] = zero[i] ? 0.0 : v[i];
        for (int64_t j = n - 1; j >= i; j--)
            v[j] -= (v[i] - q[i]) / pivot[i] * a[i * n + j];
    }
    infq_mem_free(a);
    infq_mem_free(m);
    infq_mem_free(v);
    infq_mem_free(pivot);
    infq_mem_free(zero);
}

START_TEST(sparse_feedback_is_the_published_loop)
{
    const int64_t n = 192, rows = 33;
    const infq_sparsity ways[] = { HALF, TWO_OF_FOUR, { .fraction = 0.75, .n = 2, .m = 8 }, { .fraction = 0.3 } };
    const int64_t blocks[] = { 128, 4, 8, 128 };
    double *h = moment(600, n, 4), q[192];
    float *w = normal(rows * n, 0.05, 5);
    sparse r = sparse_run(h, &ways[_i], w, rows, n);
    int64_t differ = 0;

    for (int64_t row = 0; row < rows; row++) {
        published(h, n, &ways[_i], blocks[_i], w + row * n, q);
        for (int64_t i = 0; i < n; i++)
            differ += fabs(q[i] - r.t[row * n + i]) > 2e-5;
    }
    // A mask decided by the last bits of F32 would move the rest of its row: none is seen here.
    ck_assert_int_eq(differ, 0);
    sparse_drop(&r);
    infq_mem_free(h);
    infq_mem_free(w);
}
END_TEST

START_TEST(losses_are_the_trace_and_feedback_lowers_it)
{
    const int64_t n = 260, rows = 45;
    const infq_sparsity ways[] = { HALF, TWO_OF_FOUR, { .fraction = 0.6, .n = 2, .m = 5 }, { .fraction = 0.9 } };
    double *h = moment(900, n, 6), moved, plain;
    float *w = normal(rows * n, 0.05, 7);
    sparse r = sparse_run(h, &ways[_i], w, rows, n);
    int64_t zeros = 0, bad;

    moved = proxy(h, w, r.t, rows, n);
    plain = proxy(h, w, r.plain, rows, n);
    // F32 sums of 64 columns against F64
    ck_assert_double_le(fabs(r.loss.feedback / moved - 1), 1e-5);
    ck_assert_double_le(fabs(r.loss.plain / plain - 1), 1e-5);
    ck_assert_double_lt(moved, 0.9 * plain);
    for (int64_t i = 0; i < rows; i++)
        ck_assert_ptr_null(infq_sparsity_check_row(&ways[_i], true, r.t + i * n, w + i * n, n, &bad, &zeros));
    ck_assert_int_eq(zeros, r.loss.zeros);
    ck_assert_int_eq(zeros, rows * infq_prune_count(&ways[_i], n));
    zeros = 0;
    for (int64_t i = 0; i < rows; i++)
        ck_assert_ptr_null(infq_sparsity_check_row(&ways[_i], false, r.plain + i * n, w + i * n, n, &bad, &zeros));
    ck_assert_int_eq(zeros, r.loss.plain_zeros);
    sparse_drop(&r);
    infq_mem_free(h);
    infq_mem_free(w);
}
END_TEST

START_TEST(without_correlation_the_mask_is_that_of_magnitude)
{
    const int64_t n = 128, rows = 35;
    float *w = normal(rows * n, 0.05, 8), *mask = infq_mem_alloc((size_t)(rows * n) * sizeof(float));
    double *h = infq_mem_calloc((size_t)(n * n), sizeof(double));
    infq_sparsity s = _i ? TWO_OF_FOUR : HALF;
    infq_err err;
    sparse r;

    for (int64_t i = 0; i < n; i++)
        h[i * n + i] = 2.0;
    r = sparse_run(h, &s, w, rows, n);
    ck_ok(infq_prune_rows(&s, NULL, w, rows, n, mask, &err), err);
    ck_assert_int_eq(memcmp(r.t, mask, (size_t)(rows * n) * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(r.plain, mask, (size_t)(rows * n) * sizeof(float)), 0);
    ck_assert_double_eq(r.loss.plain, r.loss.feedback);
    sparse_drop(&r);
    infq_mem_free(h);
    infq_mem_free(w);
    infq_mem_free(mask);
}
END_TEST

START_TEST(masks_and_values_do_not_depend_on_threads_or_cpu_level)
{
    const int64_t n = 300, rows = 100;
    const infq_sparsity ways[] = { HALF, TWO_OF_FOUR, { .fraction = 0.4, .n = 3, .m = 5 } };
    const infq_codec codec = { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 60, .scale = INFQ_ELEM_BF16 };
    infq_quant_spec spec = { .codec = codec, .range = INFQ_RANGE_RTN, .n_cols = n };
    float *w = normal(rows * n, 0.05, 10), *first = NULL;
    double *h = moment(700, n, 9), *copy = infq_mem_alloc((size_t)(n * n) * sizeof(double)), loss0 = 0.0;
    size_t bytes = (size_t)(rows * n) * sizeof(float);
    infq_err err;

    for (int level = (int)infq_cpu_level_max(); level >= 0; level--)
        for (int threads = 1; threads <= 3; threads += 2) {
            infq_quant_out out = { .codes = infq_mem_alloc(bytes), .scales = infq_mem_alloc(bytes) };
            float *all = infq_mem_alloc(3 * bytes), *t = all, *q = all + rows * n, *mask = q + rows * n;
            infq_prune_loss loss;
            infq_factor f;
            ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
            infq_par_threads_set(threads);
            memcpy(copy, h, (size_t)(n * n) * sizeof(double));
            ck_ok(infq_factor_make(copy, n, 0.01, INFQ_ORDER_NATURAL, 0, &f, &err), err);
            ck_ok(infq_prune_feedback(&f, &ways[_i], NULL, NULL, w, rows, t, NULL, &loss, &err), err);
            ck_ok(infq_quant_rows(&spec, t, rows, &out, &err), err);
            ck_ok(infq_prune_feedback(&f, &ways[_i], &spec, &out, w, rows, q, NULL, &loss, &err), err);
            ck_ok(infq_prune_rows(&ways[_i], f.d, w, rows, n, mask, &err), err);
            infq_factor_free(&f);
            infq_mem_free(out.codes);
            infq_mem_free(out.scales);
            if (!first) {
                first = all;
                loss0 = loss.feedback;
                continue;
            }
            ck_assert_int_eq(memcmp(all, first, 3 * bytes), 0);
            ck_assert_double_eq(loss.feedback, loss0);
            infq_mem_free(all);
        }
    infq_mem_free(first);
    infq_mem_free(copy);
    infq_mem_free(h);
    infq_mem_free(w);
}
END_TEST

START_TEST(patterns_and_shares_are_read_whole)
{
    infq_sparsity s;
    infq_err err;
    char text[64];

    ck_ok(infq_sparsity_make(NAN, "2:4", &s, &err), err);
    ck_assert(s.n == 2 && s.m == 4 && s.fraction == 0.5);
    ck_assert_str_eq(infq_sparsity_name(&s, text, sizeof(text)), "2-4");
    ck_ok(infq_sparsity_make(0.75, "1:4", &s, &err), err);
    ck_ok(infq_sparsity_make(0.625, NULL, &s, &err), err);
    ck_assert_str_eq(infq_sparsity_name(&s, text, sizeof(text)), "62.5");
    ck_ok(infq_sparsity_make(NAN, NULL, &s, &err), err);
    ck_assert_double_eq(s.fraction, 0.0);
    const char *const bad[] = { "4:4", "5:4", "0:4", "2", "2:4x", ":", "2:65", "-1:4", "" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_int_eq(infq_sparsity_make(NAN, bad[i], &s, &err), INFQ_E_USAGE);
    const double shares[] = { 0.0, 1.0, -0.5, 1.5, INFINITY };
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        ck_assert_int_eq(infq_sparsity_make(shares[i], NULL, &s, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_sparsity_make(0.6, "2:4", &s, &err), INFQ_E_USAGE);
}
END_TEST

/* ---- whole models ---- */

static infq_status prune(const char *src, const char *dst, infq_plan_options o, infq_quantize_result **out, infq_err *err)
{
    infq_quantize_options qo = { .verify = true };
    infq_quantize_result *r = NULL;
    infq_checkpoint *ck;
    infq_plan *p = NULL;
    infq_status st;

    o.out = dst;
    INFQ_TRY(infq_checkpoint_open(src, NULL, &ck, err));
    st = infq_plan_make(ck, &o, &p, err);
    if (!st)
        st = infq_quantize_run(p, &qo, NULL, &r, err);
    infq_plan_free(p);
    infq_checkpoint_close(ck);
    if (out)
        *out = r;
    else
        infq_quantize_result_free(r);
    return st;
}

static infq_plan_options options(const char *method, infq_sparsity s)
{
    infq_plan_options o = infq_plan_options_prune();

    o.method = infq_prune_method_find(method);
    o.sparsity = s;
    return o;
}

START_TEST(every_method_prunes_a_model_and_the_result_verifies)
{
    static const infq_dtype types[] = { INFQ_DTYPE_BF16, INFQ_DTYPE_F16, INFQ_DTYPE_F32 };
    const infq_sparsity ways[] = { HALF, TWO_OF_FOUR, { .fraction = 0.4, .whole = true } };
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    tiny_options tiny = TINY_DEFAULT;
    infq_calib calib;
    infq_err err;

    tiny.file.dtype = types[_i];
    tiny_write(src, tiny);
    tiny_calib(&calib);
    for (size_t m = 0; m < infq_prune_method_count(); m++)
        for (size_t s = 0; s < 3; s++) {
            infq_plan_options o = options(infq_prune_method_get(m)->name, ways[s]);
            char first[640], again[640];
            infq_quantize_result *r;
            infq_verify_report *v;
            infq_verify_options vo = infq_verify_options_default();
            if (ways[s].whole && (o.method->needs & INFQ_NEEDS_MOMENT))
                continue;
            o.calib = o.method->needs ? &calib : NULL;
            snprintf(first, sizeof(first), "%s/a%zu-%zu", dir, m, s);
            snprintf(again, sizeof(again), "%s/b%zu-%zu", dir, m, s);
            infq_par_threads_set(1);
            ck_ok(prune(src, first, o, &r, &err), err);
            ck_assert_msg(r->published, "%s", r->verified->findings.n ? r->verified->findings.v[0].text : "");
            ck_assert_uint_eq(r->verified->n_pruned, 14);
            ck_assert_int_eq(r->zeros, r->verified->zeros);
            // Rows of even length have their exact half; of a whole matrix the count is rounded once.
            ck_assert_double_le(fabs((double)r->zeros - ways[s].fraction * (double)r->verified->pruned_weights), 14 * 0.5);
            infq_quantize_result_free(r);
            // From the receipt, as infq verify does.
            ck_ok(infq_verify_run(first, &vo, NULL, &v, &err), err);
            ck_assert_msg(v->findings.n == 0, "%s", v->findings.v ? v->findings.v[0].text : "");
            ck_assert(v->with_source && v->n_pruned == 14);
            infq_verify_report_free(v);
            tiny_same_file(src, first, "config.json");
            infq_par_threads_set(3);
            ck_ok(prune(src, again, o, NULL, &err), err);
            tiny_same_file(first, again, "model.safetensors");
            tiny_same_file(first, again, "infq.json");
        }
    infq_calib_free(&calib);
}
END_TEST

START_TEST(sparse_and_quantized_in_one_pass_keeps_the_zeros_in_every_scheme)
{
    const infq_sparsity ways[] = { HALF, TWO_OF_FOUR };
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    infq_calib calib;
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    tiny_calib(&calib);
    for (size_t i = 0; i < infq_scheme_count(); i++) {
        infq_plan_options o = infq_plan_options_default();
        char dst[640];
        infq_quantize_result *r;
        o.scheme = infq_scheme_get(i);
        o.method = infq_method_find("gptq");
        o.sparsity = ways[i % 2];
        o.calib = &calib;
        snprintf(dst, sizeof(dst), "%s/q%zu", dir, i);
        ck_ok(prune(src, dst, o, &r, &err), err);
        ck_assert_msg(r->published, "%s: %s", o.scheme->name, r->verified->findings.n ? r->verified->findings.v[0].text : "");
        ck_assert_uint_eq(r->verified->n_pruned, 14);
        ck_assert_double_ge((double)r->zeros / (double)r->verified->pruned_weights, 0.5);
        infq_quantize_result_free(r);
    }
    infq_calib_free(&calib);
}
END_TEST

START_TEST(what_cannot_be_pruned_is_refused_by_name)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "dst");
    TINY_PATH(again, dir, "again");
    TINY_PATH(bad, dir, "bad");
    tiny_options tiny = TINY_DEFAULT;
    infq_plan_options o = options("magnitude", HALF);
    infq_err err;

    tiny_write(src, tiny);
    ck_assert_int_eq(prune(src, dst, options("wanda", HALF), NULL, &err), INFQ_E_USAGE);    // no data
    ck_assert_int_eq(prune(src, dst, options("magnitude", (infq_sparsity){ 0 }), NULL, &err), INFQ_E_USAGE);
    ck_assert_int_eq(prune(src, dst, options("magnitude", (infq_sparsity){ .fraction = 0.4, .n = 3, .m = 5 }), NULL, &err), INFQ_E_USAGE);
    ck_assert_msg(strstr(err.msg, "3:5 does not divide the rows of model.layers.0") != NULL, "%s", err.msg);
    ck_assert_int_eq(prune(src, dst, options("magnitude", (infq_sparsity){ .fraction = 0.001 }), NULL, &err), INFQ_E_USAGE);
    o.scheme = infq_scheme_find("W4A16");
    ck_assert_int_eq(prune(src, dst, o, NULL, &err), INFQ_E_USAGE);
    o = infq_plan_options_default();
    o.sparsity = HALF;
    ck_assert_int_eq(prune(src, dst, o, NULL, &err), INFQ_E_USAGE);                        // search does not prune
    ck_ok(prune(src, dst, options("magnitude", HALF), NULL, &err), err);
    ck_assert_int_eq(prune(dst, again, options("magnitude", HALF), NULL, &err), INFQ_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.msg, "50.0 % of its weights are zero already") != NULL, "%s", err.msg);
    o = options("magnitude", (infq_sparsity){ .fraction = 0.7 });
    o.force_pruned = true;
    ck_ok(prune(dst, again, o, NULL, &err), err);
    tiny.bad_tensor = "model.layers.1.mlp.up_proj.weight";
    tiny.bad_value = NAN;
    tiny_write(src, tiny);
    ck_assert_int_eq(prune(src, bad, options("magnitude", HALF), NULL, &err), INFQ_E_NUMERIC);
    ck_assert_msg(strstr(err.msg, "model.layers.1.mlp.up_proj.weight: element [3, 5] is not a number") != NULL, "%s", err.msg);
}
END_TEST

// Changes one BF16 weight of a stored matrix and verifies again.
static infq_verify_report *verify_changed(const char *model, const char *tensor, int64_t at, bool to_zero)
{
    infq_verify_options vo = infq_verify_options_default();
    TINY_PATH(file, model, "model.safetensors");
    infq_checkpoint *ck;
    const infq_ck_tensor *t;
    infq_verify_report *v;
    uint64_t offset;
    const uint16_t *x;
    uint16_t value = to_zero ? 0 : 0x3e80;
    FILE *f;
    infq_err err;

    ck_ok(infq_checkpoint_open(model, NULL, &ck, &err), err);
    t = infq_checkpoint_find(ck, tensor);
    x = infq_checkpoint_data(ck, t);
    while ((x[at] != 0) != to_zero) // the next zero, or the next value that is not
        at++;
    offset = t->offset + 2 * (uint64_t)at;
    infq_checkpoint_close(ck);
    f = fopen(file, "r+b");
    ck_assert(f && fseek(f, (long)offset, SEEK_SET) == 0 && fwrite(&value, 2, 1, f) == 1 && fclose(f) == 0);
    ck_ok(infq_verify_run(model, &vo, NULL, &v, &err), err);
    return v;
}

START_TEST(a_bare_file_tells_what_was_pruned)
{
    const char *dir = test_tmpdir(), *const ignore[] = { "re:.*up_proj" };
    TINY_PATH(src, dir, "src.safetensors");
    TINY_PATH(dst, dir, "dst.safetensors");
    infq_verify_options vo = infq_verify_options_default();
    infq_plan_options o = options("magnitude", (infq_sparsity){ .fraction = 0.3, .whole = _i });
    tiny_options tiny = TINY_DEFAULT;
    infq_verify_report *v;
    infq_err err;

    tiny.file.bare = true;
    tiny_write(src, tiny);
    o.ignore = ignore;
    o.n_ignore = 1;
    ck_ok(prune(src, dst, o, NULL, &err), err);
    ck_ok(infq_verify_run(dst, &vo, NULL, &v, &err), err);
    ck_assert(v->findings.n == 0 && v->n_pruned == 12 && !v->with_source);
    infq_verify_report_free(v);
    vo.source = src;
    ck_ok(infq_verify_run(dst, &vo, NULL, &v, &err), err);
    ck_assert(v->findings.n == 0 && v->n_pruned == 12 && v->with_source);
    infq_verify_report_free(v);
}
END_TEST

START_TEST(verify_sees_a_weight_that_came_back_or_changed_or_went)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "dst");
    const char *matrix = "model.layers.1.self_attn.o_proj.weight";
    infq_verify_report *v;
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    ck_ok(prune(src, dst, options("magnitude", _i ? TWO_OF_FOUR : HALF), NULL, &err), err);
    v = verify_changed(dst, matrix, 1000, false); // a zero becomes 0.25
    ck_assert_uint_eq(v->findings.n_fail, 2);
    ck_assert_msg(strstr(v->findings.v[0].text, "differs from the source at") != NULL, "%s", v->findings.v[0].text);
    ck_assert_msg(strstr(v->findings.v[1].text, "the ledger says 8192") != NULL, "%s", v->findings.v[1].text);
    infq_verify_report_free(v);
    v = verify_changed(dst, matrix, 5000, true);  // and another weight becomes 0: the count is right again
    ck_assert_uint_ge(v->findings.n_fail, 1);
    infq_verify_report_free(v);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prune");
    TCase *t = tcase_create("kernels"), *m = tcase_create("models");

    tcase_add_test(t, the_smallest_keys_are_dropped_and_ties_by_index);
    tcase_add_test(t, rows_groups_and_whole_matrices_lose_exactly_their_share);
    tcase_add_loop_test(t, sparse_feedback_is_the_published_loop, 0, 4);
    tcase_add_loop_test(t, losses_are_the_trace_and_feedback_lowers_it, 0, 4);
    tcase_add_loop_test(t, without_correlation_the_mask_is_that_of_magnitude, 0, 2);
    tcase_add_loop_test(t, masks_and_values_do_not_depend_on_threads_or_cpu_level, 0, 3);
    tcase_add_test(t, patterns_and_shares_are_read_whole);
    tcase_add_loop_test(m, every_method_prunes_a_model_and_the_result_verifies, 0, 3);
    tcase_add_test(m, sparse_and_quantized_in_one_pass_keeps_the_zeros_in_every_scheme);
    tcase_add_test(m, what_cannot_be_pruned_is_refused_by_name);
    tcase_add_loop_test(m, a_bare_file_tells_what_was_pruned, 0, 2);
    tcase_add_loop_test(m, verify_sees_a_weight_that_came_back_or_changed_or_went, 0, 2);
    tcase_set_timeout(m, 60);
    suite_add_tcase(s, t);
    suite_add_tcase(s, m);
    return test_main(s);
}
