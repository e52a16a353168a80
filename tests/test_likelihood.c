/* Log-likelihoods: shared beginnings change no bit and save work; where values stop to be finite; the log-softmax behind them. */
#include "lib/eval/likelihood.h"

#include <math.h>
#include <string.h>

#include "lib/backend/softmax.h"
#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "tests/tiny_model.h"

static infq_err err;

typedef struct {
    infq_backend *be;
    infq_checkpoint *ck;
    infq_model *m;
} opened;

static opened open_model(const char *path)
{
    infq_model_options mo = infq_model_options_default();
    opened o;

    ck_ok(infq_backend_open("cpu", &o.be, &err), err);
    ck_ok(infq_checkpoint_open(path, NULL, &o.ck, &err), err);
    ck_ok(infq_model_open(o.ck, o.be, &mo, &o.m, &err), err);
    return o;
}

static void close_model(opened *o)
{
    infq_model_close(o->m);
    infq_checkpoint_close(o->ck);
    infq_backend_close(o->be);
}

#define N 12
#define LONG 160

/* Examples of 100 tokens (more than a page) in front of all; pairs that share more; one that is the beginning of another; one that asks nothing. */
static void make_queries(int32_t ids[N][LONG], infq_query q[N])
{
    infq_rng rng = infq_rng_seed(3);

    for (int i = 0; i < N; i++) {
        int64_t common = i == 0 ? 0 : i % 2 ? 100 : 120, n = 130 + 2 * i;
        for (int64_t t = 0; t < LONG; t++)
            ids[i][t] = i > 0 && t < common ? ids[i - 1][t] : (int32_t)infq_rng_below(&rng, 64);
        q[i] = (infq_query){ .ids = ids[i], .n = n, .n_ctx = n - 1 - i % 5 };
    }
    memcpy(ids[5], ids[4], sizeof(ids[5]));
    q[5].n = q[4].n - 3; // ends inside query 4
    q[5].n_ctx = q[5].n - 2;
    q[7].n_ctx = q[7].n;
    q[8].n_ctx = 1;      // asks for everything
}

START_TEST(shared_beginnings_change_no_bit_and_are_computed_once)
{
    static int32_t ids[N][LONG];
    const char *dir = test_tmpdir();
    TINY_PATH(path, dir, "m");
    infq_query want[N], got[N];
    opened o;

    tiny_write(path, TINY_DEFAULT);
    o = open_model(path);
    make_queries(ids, want);
    for (int threads = 1; threads <= 3; threads += 2)
        for (int share = 0; share < 2; share++) {
            infq_likelihood_options lo = infq_likelihood_options_default();
            infq_likelihood_count first, second;
            infq_likelihood *l;
            infq_par_threads_set(threads);
            lo.share = share;
            ck_ok(infq_likelihood_new(o.m, &lo, &l, &err), err);
            make_queries(ids, got);
            ck_ok(infq_likelihood_run(l, got, N, &err), err);
            first = infq_likelihood_count_get(l);
            if (threads == 1 && !share)
                memcpy(want, got, sizeof(want));
            for (int i = 0; i < N; i++) {
                ck_assert_msg(memcmp(&got[i].ll, &want[i].ll, sizeof(double)) == 0, "share %d, %d threads, query %d: %.17g, %.17g", share,
                              threads, i, got[i].ll, want[i].ll);
                ck_assert(got[i].greedy == want[i].greedy);
            }
            ck_assert(want[7].ll == 0.0 && want[8].ll < -100.0);
            // Backwards, and again: what all begin with may be kept from the call before.
            for (int i = 0; i < N; i++) {
                got[i] = want[N - 1 - i];
                got[i].ll = 0;
            }
            ck_ok(infq_likelihood_run(l, got, N, &err), err);
            for (int i = 0; i < N; i++)
                ck_assert(memcmp(&got[i].ll, &want[N - 1 - i].ll, sizeof(double)) == 0);
            second = infq_likelihood_count_get(l);
            ck_assert_int_eq(second.asked, 2 * first.asked);
            if (share)
                ck_assert_int_lt(first.computed, first.asked * 3 / 4);
            else
                ck_assert_int_eq(first.computed, first.asked);
            infq_likelihood_free(l);
        }
    close_model(&o);
}
END_TEST

START_TEST(what_all_begin_with_is_kept_for_the_next_call)
{
    static int32_t ids[N][LONG];
    const char *dir = test_tmpdir();
    TINY_PATH(path, dir, "m");
    infq_likelihood_options lo = infq_likelihood_options_default();
    infq_likelihood_count first, second;
    infq_likelihood *l;
    infq_query q[N];
    opened o;

    tiny_write(path, TINY_DEFAULT);
    o = open_model(path);
    make_queries(ids, q);
    ck_ok(infq_likelihood_new(o.m, &lo, &l, &err), err);
    ck_ok(infq_likelihood_run(l, q + 1, 2, &err), err); // 100 tokens in common
    first = infq_likelihood_count_get(l);
    ck_ok(infq_likelihood_run(l, q + 1, 2, &err), err);
    second = infq_likelihood_count_get(l);
    ck_assert_int_le(second.computed - first.computed, first.computed - 90);
    infq_likelihood_free(l);
    close_model(&o);
}
END_TEST

START_TEST(a_value_that_is_not_finite_names_query_and_layer)
{
    static int32_t ids[N][LONG];
    const char *dir = test_tmpdir();
    TINY_PATH(path, dir, "m");
    tiny_options how = TINY_DEFAULT;
    infq_likelihood_options lo = infq_likelihood_options_default();
    infq_likelihood *l;
    infq_query q[N];
    opened o;

    how.bad_tensor = "model.layers.1.mlp.down_proj.weight";
    how.bad_value = NAN;
    tiny_write(path, how);
    o = open_model(path);
    make_queries(ids, q);
    ck_ok(infq_likelihood_new(o.m, &lo, &l, &err), err);
    ck_assert_int_eq(infq_likelihood_run(l, q, N, &err), INFQ_E_NUMERIC);
    ck_assert(infq_likelihood_bad_get(l).query >= 0 && infq_likelihood_bad_get(l).query < N);
    ck_assert_int_eq(infq_likelihood_bad_get(l).stage, 2); // behind block 1, counted from 0
    infq_likelihood_free(l);
    close_model(&o);
}
END_TEST

START_TEST(logsumexp_equals_f64_sums_on_every_level)
{
    const int64_t widths[] = { 1, 2, 15, 16, 17, 63, 1000, 49152 };
    float *x = infq_mem_alloc(3 * 49152 * sizeof(float));
    infq_rng rng = infq_rng_seed(8);

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
        for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
            int64_t n = widths[w];
            int32_t top[3], again[3];
            double lse[3], lse_again[3];
            ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
            for (int64_t i = 0; i < 3 * n; i++)
                x[i] = (float)(infq_rng_normal(&rng) * 5.0 + (i / n == 1 ? -3000.0 : 60.0));
            x[2 * n + n / 2] = x[2 * n + n - 1] = 200.0f; // a tie
            infq_par_threads_set(1);
            infq_logsumexp_rows(x, 3, n, top, lse);
            infq_par_threads_set(3);
            infq_logsumexp_rows(x, 3, n, again, lse_again);
            ck_assert_mem_eq(lse, lse_again, sizeof(lse));
            ck_assert_mem_eq(top, again, sizeof(top));
            for (int r = 0; r < 3; r++) {
                double sum = 0.0;
                int32_t best = 0;
                for (int64_t i = 1; i < n; i++)
                    best = x[r * n + i] > x[r * n + best] ? (int32_t)i : best;
                for (int64_t i = 0; i < n; i++)
                    sum += exp((double)x[r * n + i] - (double)x[r * n + best]);
                ck_assert_int_eq(top[r], best);
                ck_assert_double_le(fabs(lse[r] - ((double)x[r * n + best] + log(sum))), 4e-7);
            }
            x[n / 2] = NAN;
            x[n + n / 2] = INFINITY;
            x[2 * n + n / 2] = -INFINITY;
            infq_logsumexp_rows(x, 3, n, top, lse);
            ck_assert(!isfinite(lse[0]) && !isfinite(lse[1]));
            ck_assert(isfinite(lse[2]) == (n > 1));
        }
    infq_mem_free(x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("likelihood");
    TCase *t = tcase_create("queries");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, shared_beginnings_change_no_bit_and_are_computed_once);
    tcase_add_test(t, what_all_begin_with_is_kept_for_the_next_call);
    tcase_add_test(t, a_value_that_is_not_finite_names_query_and_layer);
    tcase_add_test(t, logsumexp_equals_f64_sums_on_every_level);
    suite_add_tcase(s, t);
    return test_main(s);
}
