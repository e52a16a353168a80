/* Statistics against specs/vectors/statistics.json: normal_cdf, normal_quantile, t_cdf, t_quantile, chi2_quantile, chi2_sf, f_sf,
 * binomial_tail, mcnemar_exact, wilson (and Clopper-Pearson), tango, multiplicity (Holm, BH), tost, clustered_se,
 * percentile_linear, sample_size_paired, minimal_detectable_gap, ppl_ratio_guard, corpus_perplexity (its standard errors). */
#include "tests/testlib.h"

#include "lib/eval/stats.h"

static cJSON *golden;

static const cJSON *group(const char *name)
{
    const cJSON *g;

    if (!golden)
        golden = test_json(test_shared_path("specs/vectors/statistics.json"));
    g = infq_json_get(golden, name);
    ck_assert_msg(g && cJSON_GetArraySize(g) > 0, "no golden values for %s", name);
    return g;
}

static double num(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    ck_assert_msg(cJSON_IsNumber(v), "golden value %s is missing", key);
    return v->valuedouble;
}

static int64_t whole(const cJSON *o, const char *key)
{
    return (int64_t)num(o, key);
}

static void close_to(const cJSON *o, const char *key, double got)
{
    double want = num(o, key);
    char *text = cJSON_PrintUnformatted(o);

    ck_assert_msg(fabs(got - want) <= 1e-10 * fabs(want) + 1e-300, "%s is %.17g, should be %.17g in %.300s", key, got, want, text);
    cJSON_free(text);
}

START_TEST(normal_distribution_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("normal_cdf")) {
        infq_prob r = infq_norm_cdf(num(o, "x"));
        close_to(o, "p", r.p);
        close_to(o, "q", r.q);
    }
    cJSON_ArrayForEach(o, group("normal_quantile"))
        close_to(o, "z", infq_norm_quantile(num(o, "p")));
}
END_TEST

START_TEST(t_distribution_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("t_cdf")) {
        infq_prob r = infq_t_cdf(num(o, "t"), num(o, "df"));
        close_to(o, "p", r.p);
        close_to(o, "q", r.q);
    }
    cJSON_ArrayForEach(o, group("t_quantile"))
        close_to(o, "t", infq_t_quantile(num(o, "p"), num(o, "df")));
}
END_TEST

START_TEST(chi_square_and_f_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("chi2_quantile"))
        close_to(o, "x", infq_chi2_quantile(num(o, "p"), num(o, "df")));
    cJSON_ArrayForEach(o, group("chi2_sf"))
        close_to(o, "q", infq_chi2_cdf(num(o, "x"), num(o, "df")).q);
    cJSON_ArrayForEach(o, group("f_sf"))
        close_to(o, "q", infq_f_cdf(num(o, "x"), num(o, "df1"), num(o, "df2")).q);
}
END_TEST

START_TEST(binomial_tails_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("binomial_tail")) {
        int a = 0, b = 1;
        infq_prob r;
        sscanf(infq_json_get(o, "p")->valuestring, "%d/%d", &a, &b);
        r = infq_binom_tails(whole(o, "k"), whole(o, "n"), (double)a / b);
        close_to(o, "P_le", r.p);
        close_to(o, "P_ge", r.q);
    }
}
END_TEST

START_TEST(mcnemar_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("mcnemar_exact")) {
        infq_mcnemar m = infq_mcnemar_exact(whole(o, "b"), whole(o, "c"));
        close_to(o, "p_two_sided", m.p_two_sided);
        close_to(o, "p_degradation", m.p_degradation);
        close_to(o, "p_mid_two_sided", m.p_mid);
    }
}
END_TEST

START_TEST(proportion_intervals_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("wilson")) {
        infq_interval w = infq_wilson(whole(o, "k"), whole(o, "n"), num(o, "conf"));
        infq_interval cp = infq_clopper_pearson(whole(o, "k"), whole(o, "n"), num(o, "conf"));
        close_to(o, "lo", w.lo);
        close_to(o, "hi", w.hi);
        close_to(o, "cp_lo", cp.lo);
        close_to(o, "cp_hi", cp.hi);
    }
}
END_TEST

START_TEST(tango_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("tango")) {
        int64_t b = whole(o, "b"), c = whole(o, "c"), n = whole(o, "n");
        double score = infq_tango_score(b, c, n, -num(o, "margin"));
        infq_interval ci = infq_tango_interval(b, c, n, num(o, "conf"));
        if (num(o, "T_at_minus_margin") == 0)
            ck_assert_double_eq_tol(score, 0, 1e-12);
        else
            close_to(o, "T_at_minus_margin", score);
        close_to(o, "p_ni_score", infq_norm_cdf(score).q);
        close_to(o, "lo", ci.lo);
        close_to(o, "hi", ci.hi);
    }
}
END_TEST

START_TEST(tango_mirrors_when_losses_and_gains_swap)
{
    infq_interval a = infq_tango_interval(7, 3, 90, 0.9), m = infq_tango_interval(3, 7, 90, 0.9);

    ck_assert_double_eq_tol(a.lo, -m.hi, 1e-12);
    ck_assert_double_eq_tol(a.hi, -m.lo, 1e-12);
    ck_assert_double_eq_tol(infq_tango_score(7, 3, 90, -0.02), -infq_tango_score(3, 7, 90, 0.02), 1e-12);
}
END_TEST

START_TEST(multiplicity_corrections_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("multiplicity")) {
        const cJSON *p = infq_json_get(o, "p"), *holm = infq_json_get(o, "holm"), *bh = infq_json_get(o, "bh");
        double in[16], a[16], b[16];
        int n = cJSON_GetArraySize(p);
        infq_err err;
        ck_assert_int_le(n, 16);
        for (int i = 0; i < n; i++)
            in[i] = cJSON_GetArrayItem(p, i)->valuedouble;
        ck_ok(infq_holm(in, n, a, &err), err);
        ck_ok(infq_benjamini_hochberg(in, n, b, &err), err);
        for (int i = 0; i < n; i++) {
            ck_assert_double_eq_tol(a[i], cJSON_GetArrayItem(holm, i)->valuedouble, 1e-15);
            ck_assert_double_eq_tol(b[i], cJSON_GetArrayItem(bh, i)->valuedouble, 1e-15);
        }
    }
}
END_TEST

START_TEST(corrections_refuse_what_is_no_probability)
{
    double p[2] = {0.1, NAN}, adj[2];
    infq_err err;

    ck_assert_int_eq(infq_holm(p, 2, adj, &err), INFQ_E_NUMERIC);
    p[1] = 1.5;
    ck_assert_int_eq(infq_benjamini_hochberg(p, 2, adj, &err), INFQ_E_NUMERIC);
}
END_TEST

START_TEST(tost_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("tost")) {
        const cJSON *df = infq_json_get(o, "df");
        infq_tost t = infq_tost_test(num(o, "D"), num(o, "se"), df ? df->valuedouble : INFINITY, num(o, "margin"));
        close_to(o, "p_lower", t.p_lower);
        close_to(o, "p_upper", t.p_upper);
        close_to(o, "p_tost", t.p_tost);
    }
}
END_TEST

START_TEST(tost_without_spread_decides_by_the_gap)
{
    ck_assert_double_eq(infq_tost_test(-0.009, 0, 5, 0.01).p_tost, 0);
    ck_assert_double_eq(infq_tost_test(-0.011, 0, 5, 0.01).p_tost, 1);
    ck_assert(isnan(infq_tost_test(NAN, 0, 5, 0.01).p_tost));
}
END_TEST

START_TEST(clustered_standard_error_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("clustered_se")) {
        const cJSON *d = infq_json_get(o, "d"), *cl = infq_json_get(o, "cluster");
        double x[64], se;
        int64_t id[64], n = cJSON_GetArraySize(d), df;
        infq_err err;
        for (int i = 0; i < n; i++) {
            x[i] = cJSON_GetArrayItem(d, i)->valuedouble;
            id[i] = cJSON_GetArrayItem(cl, i)->valuestring[0];
        }
        ck_ok(infq_cluster_se(x, id, n, &se, &df, &err), err);
        close_to(o, "se_cluster_CR1", se);
        close_to(o, "se_naive", infq_moments_of(x, n).se);
        ck_assert_int_eq(df, whole(o, "df"));
    }
}
END_TEST

START_TEST(percentile_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("percentile_linear")) {
        const cJSON *x = infq_json_get(o, "x");
        double v[32];
        int n = cJSON_GetArraySize(x);
        for (int i = 0; i < n; i++)
            v[i] = cJSON_GetArrayItem(x, i)->valuedouble;
        infq_sort(v, n);
        close_to(o, "value", infq_percentile(v, n, num(o, "q")));
    }
}
END_TEST

START_TEST(sample_sizes_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("sample_size_paired")) {
        close_to(o, "n_noninferiority_real",
                 infq_items_needed(num(o, "psi"), num(o, "assumed_D"), num(o, "margin"), num(o, "alpha"), num(o, "beta")));
        if (infq_json_get(o, "n_tost_real"))
            close_to(o, "n_tost_real", infq_items_needed_tost(num(o, "psi"), num(o, "margin"), num(o, "alpha"), num(o, "beta")));
    }
    cJSON_ArrayForEach(o, group("minimal_detectable_gap"))
        close_to(o, "mde", infq_detectable_gap(num(o, "psi"), whole(o, "n"), num(o, "alpha_two_sided"), num(o, "power")));
}
END_TEST

START_TEST(paired_perplexity_ratio_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("ppl_ratio_guard")) {
        const cJSON *a = infq_json_get(o, "window_nll_original"), *b = infq_json_get(o, "window_nll_compressed");
        double d[32];
        int n = cJSON_GetArraySize(a);
        infq_moments m;
        for (int i = 0; i < n; i++)
            d[i] = cJSON_GetArrayItem(b, i)->valuedouble - cJSON_GetArrayItem(a, i)->valuedouble;
        m = infq_moments_of(d, n);
        close_to(o, "ln_ratio", m.mean);
        close_to(o, "se", m.se);
        close_to(o, "p_ni", infq_tost_test(-m.mean, m.se, n - 1, num(o, "margin")).p_lower);
    }
}
END_TEST

START_TEST(ratio_by_the_delta_method_equals_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("corpus_perplexity")) {
        const cJSON *docs = infq_json_get(o, "docs_loglik_words_bytes"), *d;
        double nll[16], words[16], bytes[16];
        int n = 0;
        infq_ratio w, b;
        cJSON_ArrayForEach(d, docs) {
            nll[n] = -cJSON_GetArrayItem(d, 0)->valuedouble;
            words[n] = cJSON_GetArrayItem(d, 1)->valuedouble;
            bytes[n++] = cJSON_GetArrayItem(d, 2)->valuedouble;
        }
        w = infq_ratio_of(nll, words, n);
        b = infq_ratio_of(nll, bytes, n);
        close_to(o, "word_perplexity", exp(w.r));
        close_to(o, "byte_perplexity", exp(b.r));
        close_to(o, "bits_per_byte", b.r / M_LN2);
        close_to(o, "ln_word_ppl_se_ratio_estimator", w.se);
        close_to(o, "ln_byte_ppl_se_ratio_estimator", b.se);
    }
}
END_TEST

START_TEST(distributions_keep_their_identities)
{
    /* df 1 and 2 have closed forms; quantiles invert; exact McNemar values are small fractions */
    ck_assert_double_eq_tol(infq_t_cdf(3, 1).q, 0.5 - atan(3) / M_PI, 1e-14);
    ck_assert_double_eq_tol(infq_t_cdf(-2.5, 2).p, 0.5 - 2.5 / (2 * sqrt(2 + 6.25)), 1e-14);
    ck_assert_double_eq_tol(infq_chi2_cdf(7, 2).q, exp(-3.5), 1e-14);
    for (double p = 1e-9; p < 0.5; p *= 3) {
        ck_assert_double_eq_tol(infq_norm_cdf(infq_norm_quantile(p)).p / p, 1, 1e-13);
        ck_assert_double_eq_tol(infq_t_cdf(infq_t_quantile(p, 7.5), 7.5).p / p, 1, 1e-13);
        ck_assert_double_eq_tol(infq_chi2_cdf(infq_chi2_quantile(p, 5), 5).p / p, 1, 1e-13);
    }
    ck_assert_double_eq_tol(infq_mcnemar_exact(9, 3).p_two_sided, 299.0 / 2048, 1e-15);
    ck_assert_double_eq(infq_mcnemar_exact(0, 0).p_two_sided, 1);
    ck_assert_double_eq_tol(infq_beta_inc(40, 70, 0.3, 0.7).p + infq_beta_inc(70, 40, 0.7, 0.3).p, 1, 1e-14);
}
END_TEST

START_TEST(values_outside_a_domain_are_not_a_number)
{
    ck_assert(isnan(infq_norm_quantile(-0.1)));
    ck_assert(isnan(infq_norm_quantile(NAN)));
    ck_assert(isnan(infq_t_cdf(1, 0).p));
    ck_assert(isnan(infq_t_cdf(NAN, 5).p));
    ck_assert(isnan(infq_binom_tails(1, 5, 1.5).p));
    ck_assert(isnan(infq_wilson(6, 5, 0.95).lo));
    ck_assert(isnan(infq_tango_interval(3, 3, 5, 0.9).lo));
    ck_assert(isnan(infq_moments_of(NULL, 0).mean));
}
END_TEST

START_TEST(sums_do_not_lose_small_terms)
{
    double x[4] = {1, 1e100, 1, -1e100};

    ck_assert_double_eq(infq_sum(x, 4), 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stats");
    TCase *t = tcase_create("golden");
    TCase *p = tcase_create("properties");

    tcase_add_test(t, normal_distribution_equals_golden);
    tcase_add_test(t, t_distribution_equals_golden);
    tcase_add_test(t, chi_square_and_f_equal_golden);
    tcase_add_test(t, binomial_tails_equal_golden);
    tcase_add_test(t, mcnemar_equals_golden);
    tcase_add_test(t, proportion_intervals_equal_golden);
    tcase_add_test(t, tango_equals_golden);
    tcase_add_test(t, multiplicity_corrections_equal_golden);
    tcase_add_test(t, tost_equals_golden);
    tcase_add_test(t, clustered_standard_error_equals_golden);
    tcase_add_test(t, percentile_equals_golden);
    tcase_add_test(t, sample_sizes_equal_golden);
    tcase_add_test(t, paired_perplexity_ratio_equals_golden);
    tcase_add_test(t, ratio_by_the_delta_method_equals_golden);
    tcase_add_test(p, tango_mirrors_when_losses_and_gains_swap);
    tcase_add_test(p, corrections_refuse_what_is_no_probability);
    tcase_add_test(p, tost_without_spread_decides_by_the_gap);
    tcase_add_test(p, distributions_keep_their_identities);
    tcase_add_test(p, values_outside_a_domain_are_not_a_number);
    tcase_add_test(p, sums_do_not_lose_small_terms);
    suite_add_tcase(s, t);
    suite_add_tcase(s, p);
    return test_main(s);
}
