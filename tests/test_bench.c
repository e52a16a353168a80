#include "tests/testlib.h"

#include "lib/base/rng.h"
#include "lib/bench/latency.h"

// n requests: due at 0, first token after ttft_ms[i], then n_tokens - 1 tokens itl_ms apart.
static infq_request_record *make(int64_t n, const double *ttft_ms, double itl_ms, int64_t n_tokens, int64_t *times)
{
    static infq_request_record r[1000];

    for (int64_t i = 0; i < n; i++) {
        r[i].due_ns = 1000;
        r[i].n_prompt = 8;
        r[i].n_tokens = n_tokens;
        r[i].token_ns = times + i * n_tokens;
        for (int64_t k = 0; k < n_tokens; k++)
            r[i].token_ns[k] = 1000 + (int64_t)((ttft_ms[i] + itl_ms * (double)k) * 1e6);
    }
    return r;
}

START_TEST(targets_need_percentile_metric_limit_and_unit)
{
    static const char *const bad[] = { "ttft < 200ms",   "mean ttft < 200ms", "p ttft < 200ms", "p90 < 200ms",
                                       "p90 ttft 200ms", "p90 ttft < 200",    "p90 ttft < ms",  "p0 ttft < 1ms",
                                       "p100 ttft < 1s", "p90 ttft < 2h",     "",               "p90 ttft < 0ms" };
    infq_target t;
    infq_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(infq_target_parse(bad[i], &t, &err) == INFQ_E_USAGE, "%s", bad[i]);
    ck_ok(infq_target_parse("p99.9 itl <= 1.5 s", &t, &err), err);
    ck_assert_double_eq_tol(t.percentile, 0.999, 1e-12);
    ck_assert_int_eq(t.metric, INFQ_METRIC_ITL);
    ck_assert_double_eq_tol(t.limit_ms, 1500, 1e-9);
    ck_ok(infq_target_parse("p90 ttft<200ms", &t, &err), err);
    ck_assert_double_eq_tol(t.limit_ms, 200, 1e-9);
}
END_TEST

START_TEST(metrics_follow_their_definitions)
{
    double ttft[3] = { 10, 20, 30 };
    static int64_t times[3 * 5];
    infq_request_record *r = make(3, ttft, 2, 5, times);
    infq_latency_summary s;
    infq_err err;

    ck_ok(infq_latency_summarize(r, 3, INFQ_METRIC_TTFT, &s, &err), err);
    ck_assert_int_eq(s.n, 3);
    ck_assert_double_eq_tol(s.p_ms[0], 20, 1e-6);
    ck_assert_double_eq_tol(s.p_ms[1], 28, 1e-6); // linear interpolation at 0.9 * 2
    ck_assert(isinf(s.hi_ms[1]));
    ck_ok(infq_latency_summarize(r, 3, INFQ_METRIC_ITL, &s, &err), err);
    ck_assert_int_eq(s.n, 12);
    ck_assert_double_eq_tol(s.p_ms[3], 2, 1e-6);
    ck_ok(infq_latency_summarize(r, 3, INFQ_METRIC_E2E, &s, &err), err);
    ck_assert_double_eq_tol(s.p_ms[0], 28, 1e-6);
    ck_ok(infq_latency_summarize(r, 3, INFQ_METRIC_TPOT, &s, &err), err);
    ck_assert_double_eq_tol(s.mean_ms, 2, 1e-6);
}
END_TEST

START_TEST(interval_ranks_equal_the_binomial_ones)
{
    // Median of 20 values: ranks 6 and 15 (tables of distribution-free intervals, e.g. Conover).
    double ttft[20];
    static int64_t times[20];
    infq_latency_summary s;
    infq_err err;

    for (int i = 0; i < 20; i++)
        ttft[i] = i + 1;
    ck_ok(infq_latency_summarize(make(20, ttft, 0, 1, times), 20, INFQ_METRIC_TTFT, &s, &err), err);
    ck_assert_double_eq_tol(s.lo_ms[0], 6, 1e-6);
    ck_assert_double_eq_tol(s.hi_ms[0], 15, 1e-6);
}
END_TEST

START_TEST(target_is_met_only_with_enough_requests)
{
    double ttft[100];
    static int64_t times[100];
    infq_target t;
    infq_target_result d;
    infq_err err;

    for (int i = 0; i < 100; i++)
        ttft[i] = 100;
    ck_ok(infq_target_parse("p90 ttft < 200ms", &t, &err), err);
    ck_ok(infq_target_decide(&t, make(28, ttft, 0, 1, times), 28, &d, &err), err);
    ck_assert_int_eq(d.verdict, INFQ_TARGET_UNDECIDED); // 0.9^28 = 0.052
    ck_assert_int_eq(d.n_needed, 29);
    ck_ok(infq_target_decide(&t, make(29, ttft, 0, 1, times), 29, &d, &err), err);
    ck_assert_int_eq(d.verdict, INFQ_TARGET_MET); // 0.9^29 = 0.047
    for (int i = 0; i < 12; i++)
        ttft[i * 2] = 300;
    ck_ok(infq_target_decide(&t, make(29, ttft, 0, 1, times), 29, &d, &err), err);
    ck_assert_int_eq(d.verdict, INFQ_TARGET_NOT_MET);
}
END_TEST

START_TEST(verdicts_are_wrong_no_more_often_than_they_say)
{
    // A target that is just violated (11 % over at p90): "met" must be rare; a clear one must be found.
    infq_rng rng = infq_rng_seed(5);
    static int64_t times[300];
    double ttft[300];
    infq_target t;
    infq_target_result d;
    infq_err err;
    int met = 0, found = 0;

    ck_ok(infq_target_parse("p90 ttft < 200ms", &t, &err), err);
    for (int run = 0; run < 400; run++) {
        for (int i = 0; i < 300; i++)
            ttft[i] = infq_rng_f64(&rng) < 0.11 ? 300 : 100;
        ck_ok(infq_target_decide(&t, make(300, ttft, 0, 1, times), 300, &d, &err), err);
        met += d.verdict == INFQ_TARGET_MET;
        for (int i = 0; i < 300; i++)
            ttft[i] = infq_rng_f64(&rng) < 0.04 ? 300 : 100;
        ck_ok(infq_target_decide(&t, make(300, ttft, 0, 1, times), 300, &d, &err), err);
        found += d.verdict == INFQ_TARGET_MET;
    }
    ck_assert_int_le(met, 20);   // 5 % of 400; expected about 6
    ck_assert_int_ge(found, 360);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bench");
    TCase *t = tcase_create("latency");

    tcase_add_test(t, targets_need_percentile_metric_limit_and_unit);
    tcase_add_test(t, metrics_follow_their_definitions);
    tcase_add_test(t, interval_ranks_equal_the_binomial_ones);
    tcase_add_test(t, target_is_met_only_with_enough_requests);
    tcase_add_test(t, verdicts_are_wrong_no_more_often_than_they_say);
    suite_add_tcase(s, t);
    return test_main(s);
}
