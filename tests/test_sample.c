#include "lib/model/model.h"
#include "tests/testlib.h"

START_TEST(temperature_zero_takes_the_first_of_the_largest)
{
    float x[] = { 1.0f, 3.0f, 3.0f, -2.0f };
    infq_sample_options o = infq_sample_options_default();
    infq_rng rng = infq_rng_seed(1);

    ck_assert_int_eq(infq_sample(&o, &rng, x, 4), 1);
}
END_TEST

START_TEST(log_probabilities_sum_to_one_and_survive_large_logits)
{
    float x[] = { 5000.0f, 4999.0f, 4990.0f };
    double sum = 0.0, z = 1.0 + exp(-1.0) + exp(-10.0);

    for (int i = 0; i < 3; i++)
        sum += exp(infq_logprob(x, 3, i));
    ck_assert_double_eq_tol(sum, 1.0, 1e-14);
    ck_assert_double_eq_tol(infq_logprob(x, 3, 1), -1.0 - log(z), 1e-14);
}
END_TEST

// Draws n times from the same logits and counts.
static void draw(const infq_sample_options *o, const float *logits, int vocab, int n, int *count)
{
    infq_rng rng = infq_rng_seed(o->seed);
    float x[16];

    memset(count, 0, (size_t)vocab * sizeof(int));
    for (int i = 0; i < n; i++) {
        memcpy(x, logits, (size_t)vocab * sizeof(float));
        count[infq_sample(o, &rng, x, vocab)]++;
    }
}

START_TEST(frequencies_follow_the_softmax_at_the_temperature)
{
    static const float x[] = { 0.0f, 1.0f, 2.0f, -1.0f };
    infq_sample_options o = { .temperature = 0.7, .top_k = 0, .top_p = 1.0, .seed = 11 };
    double z = 0.0;
    int count[4];

    for (int i = 0; i < 4; i++)
        z += exp(x[i] / 0.7);
    draw(&o, x, 4, 20000, count);
    for (int i = 0; i < 4; i++) { // five standard deviations of a binomial share
        double p = exp(x[i] / 0.7) / z;
        ck_assert_double_eq_tol(count[i] / 20000.0, p, 5.0 * sqrt(p * (1.0 - p) / 20000.0));
    }
}
END_TEST

START_TEST(top_k_keeps_exactly_k_also_among_equals)
{
    static const float x[] = { 1.0f, 2.0f, 1.0f, 1.0f, 0.0f };
    infq_sample_options o = { .temperature = 1.0, .top_k = 3, .top_p = 1.0, .seed = 5 };
    int count[5];

    draw(&o, x, 5, 2000, count);
    ck_assert_int_gt(count[0], 0);
    ck_assert_int_gt(count[1], 0);
    ck_assert_int_gt(count[2], 0);
    ck_assert_int_eq(count[3] + count[4], 0);
    o.top_k = 1;
    draw(&o, x, 5, 100, count);
    ck_assert_int_eq(count[1], 100);
}
END_TEST

START_TEST(top_p_keeps_the_smallest_set_that_reaches_it)
{
    float x[4]; // probabilities 0.5, 0.3, 0.15, 0.05
    static const double p[] = { 0.15, 0.5, 0.05, 0.3 };
    infq_sample_options o = { .temperature = 1.0, .top_k = 0, .top_p = 0.79, .seed = 5 };
    int count[4];

    for (int i = 0; i < 4; i++)
        x[i] = (float)log(p[i]);
    draw(&o, x, 4, 2000, count);
    ck_assert_int_eq(count[0] + count[2], 0);
    ck_assert_int_gt(count[1], 0);
    ck_assert_int_gt(count[3], 0);
    o.top_p = 0.81;
    draw(&o, x, 4, 2000, count);
    ck_assert_int_gt(count[0], 0);
    ck_assert_int_eq(count[2], 0);
    o.top_p = 1e-9;
    draw(&o, x, 4, 50, count);
    ck_assert_int_eq(count[1], 50);
}
END_TEST

START_TEST(a_seed_gives_the_same_draws_again)
{
    static const float x[] = { 0.0f, 0.1f, 0.2f, 0.3f };
    infq_sample_options o = { .temperature = 1.3, .top_k = 0, .top_p = 0.95, .seed = 77 };
    infq_rng a = infq_rng_seed(o.seed), b = infq_rng_seed(o.seed);

    for (int i = 0; i < 200; i++) {
        float u[4], v[4];
        memcpy(u, x, sizeof(u));
        memcpy(v, x, sizeof(v));
        ck_assert_int_eq(infq_sample(&o, &a, u, 4), infq_sample(&o, &b, v, 4));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sample");
    TCase *t = tcase_create("sample");

    tcase_add_test(t, temperature_zero_takes_the_first_of_the_largest);
    tcase_add_test(t, log_probabilities_sum_to_one_and_survive_large_logits);
    tcase_add_test(t, frequencies_follow_the_softmax_at_the_temperature);
    tcase_add_test(t, top_k_keeps_exactly_k_also_among_equals);
    tcase_add_test(t, top_p_keeps_the_smallest_set_that_reaches_it);
    tcase_add_test(t, a_seed_gives_the_same_draws_again);
    suite_add_tcase(s, t);
    return test_main(s);
}
