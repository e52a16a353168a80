/* Statistics against specs/vectors/statistics.json: normal_cdf, normal_quantile, t_cdf, t_quantile, chi2_quantile, chi2_sf, f_sf,
 * binomial_tail, mcnemar_exact, wilson (and Clopper-Pearson), tango, multiplicity (Holm, BH), tost, clustered_se,
 * percentile_linear, sample_size_paired, minimal_detectable_gap, ppl_ratio_guard, corpus_perplexity (its standard errors), bootstrap_splitmix64,
 * sign_flip_exact, run_label_permutation, combine_p, crossed_items_runs, group_stderr, self_flip_relation, self_flip_from_sd,
 * e_process_fixed_lambda, e_process_plugin, alpha_spending, group_sequential_bounds. The rest is in test_band, test_gate (reference_scaled, worked
 * examples), test_noise (repeatability), test_simulate (rules, operating characteristics), test_items and test_eval. */
#include "tests/testlib.h"

#include "lib/eval/pooling.h"
#include "lib/eval/resample.h"
#include "lib/eval/sequential.h"
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

static int numbers(const cJSON *list, double *out, int cap)
{
    const cJSON *v;
    int n = 0;

    cJSON_ArrayForEach(v, list) {
        ck_assert_int_lt(n, cap);
        out[n++] = v->valuedouble;
    }
    return n;
}

START_TEST(bootstrap_equals_golden)
{
    const cJSON *o, *v;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("bootstrap_splitmix64")) {
        infq_splitmix r = infq_splitmix_seed((uint64_t)whole(o, "seed"));
        double d[32], means[1000];
        int n = numbers(infq_json_get(o, "d"), d, 32), below = 0;
        infq_moments m;
        cJSON_ArrayForEach(v, infq_json_get(o, "first_outputs_as_strings"))
            ck_assert_uint_eq(infq_splitmix_next(&r), strtoull(v->valuestring, NULL, 10));
        ck_assert_int_eq(whole(o, "replicates"), 1000);
        infq_bootstrap_means(d, n, (uint64_t)whole(o, "seed"), 1000, means);
        m = infq_moments_of(means, 1000);
        close_to(o, "mean_of_replicates", m.mean);
        close_to(o, "sd_of_replicates", m.sd);
        for (int i = 0; i < 1000; i++)
            below += means[i] < 0;
        close_to(o, "share_below_zero", below / 1000.0);
        ck_assert_double_eq_tol(m.mean * 1000 * n, num(o, "sum_of_all_draws"), 1e-6);
        infq_sort(means, 1000);
        close_to(o, "q05", infq_percentile(means, 1000, 0.05));
        close_to(o, "q50", infq_percentile(means, 1000, 0.5));
        close_to(o, "q95", infq_percentile(means, 1000, 0.95));
    }
}
END_TEST

START_TEST(permutation_tests_equal_golden)
{
    const cJSON *o;
    infq_permutation p;
    infq_err err;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("sign_flip_exact")) {
        double d[32];
        int n = numbers(infq_json_get(o, "d"), d, 32);
        ck_ok(infq_sign_flip(d, n, 1, 1000, &p, &err), err);
        ck_assert(p.exact);
        close_to(o, "p_degradation", p.p_degradation);
        close_to(o, "p_two_sided", p.p_two_sided);
    }
    cJSON_ArrayForEach(o, group("run_label_permutation")) {
        double a[32], b[32];
        int na = numbers(infq_json_get(o, "original"), a, 32), nb = numbers(infq_json_get(o, "compressed"), b, 32);
        ck_ok(infq_run_labels(a, na, b, nb, 1, 1000, &p, &err), err);
        ck_assert(p.exact);
        close_to(o, "p_degradation", p.p_degradation);
        close_to(o, "p_two_sided", p.p_two_sided);
    }
}
END_TEST

START_TEST(drawn_permutations_are_near_the_exact_ones)
{
    /* 24 differences are too many for every sign; 11 ones lost and 3 won is McNemar's test */
    double d[24], a[14], b[14];
    infq_permutation p;
    infq_err err;

    for (int i = 0; i < 24; i++)
        d[i] = i < 16 ? -1 : 1;
    ck_ok(infq_sign_flip(d, 24, 7, 200000, &p, &err), err);
    ck_assert(!p.exact);
    ck_assert_double_eq_tol(p.p_degradation, infq_mcnemar_exact(16, 8).p_degradation, 0.003);
    ck_assert_double_eq_tol(p.p_two_sided, infq_mcnemar_exact(16, 8).p_two_sided, 0.003);
    for (int i = 0; i < 14; i++) {
        a[i] = i % 5;
        b[i] = i % 5 - 1.5;
    }
    ck_ok(infq_run_labels(a, 14, b, 14, 3, 100000, &p, &err), err);
    ck_assert(!p.exact);
    ck_assert_double_lt(p.p_degradation, 0.01);
    ck_ok(infq_run_labels(a, 14, a, 14, 3, 100000, &p, &err), err);
    ck_assert_double_gt(p.p_two_sided, 0.9);
}
END_TEST

START_TEST(figures_over_tasks_and_runs_equal_golden)
{
    const cJSON *o, *row;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("combine_p")) {
        double p[16];
        infq_combined c = infq_combine_p(p, numbers(infq_json_get(o, "p"), p, 16));
        close_to(o, "stouffer_z", c.z);
        close_to(o, "stouffer_p", c.stouffer);
        close_to(o, "fisher_x2", c.x2);
        close_to(o, "fisher_p", c.fisher);
    }
    cJSON_ArrayForEach(o, group("group_stderr")) {
        double n[16], se[16];
        int64_t items[16];
        int k = numbers(infq_json_get(o, "n"), n, 16);
        infq_group_se g;
        numbers(infq_json_get(o, "se"), se, 16);
        for (int i = 0; i < k; i++)
            items[i] = (int64_t)n[i];
        g = infq_group_se_of(items, se, k);
        close_to(o, "pooled_harness_style", g.pooled);
        close_to(o, "stratified_size_weighted", g.by_size);
        close_to(o, "macro_equal_weight", g.equal);
    }
    cJSON_ArrayForEach(o, group("crossed_items_runs")) {
        double d[64];
        int n = 0, runs = 0;
        infq_crossed c;
        cJSON_ArrayForEach(row, infq_json_get(o, "d"))
            n += runs = numbers(row, d + n, 64 - n);
        c = infq_crossed_of(d, n / runs, runs);
        ck_assert_double_eq(c.mean, num(o, "D"));
        close_to(o, "MS_item", c.ms_item);
        close_to(o, "MS_run", c.ms_run);
        close_to(o, "MS_resid", c.ms_resid);
        close_to(o, "var_item", c.var_item);
        close_to(o, "var_run", c.var_run);
        close_to(o, "se_both_random", c.se_both);
        close_to(o, "se_items_only", c.se_items_only);
        close_to(o, "se_runs_only", c.se_runs_only);
    }
}
END_TEST

START_TEST(noise_and_flips_of_the_original_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("self_flip_relation")) {
        double sd = infq_self_flip_sd(num(o, "psi0"), whole(o, "n"));
        close_to(o, "sd_run", sd);
        close_to(o, "sd_difference", sd * M_SQRT2);
        close_to(o, "repeatability_limit", sd * M_SQRT2 * infq_norm_quantile(0.975));
    }
    cJSON_ArrayForEach(o, group("self_flip_from_sd"))
        close_to(o, "psi0", infq_self_flip_rate(num(o, "sd_run"), whole(o, "n")));
}
END_TEST

START_TEST(betting_processes_equal_golden)
{
    const cJSON *o;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("e_process_fixed_lambda")) {
        double d[32], e[32], g[32];
        int n = numbers(infq_json_get(o, "d"), d, 32);
        infq_betting b = infq_betting_start(num(o, "margin"));
        numbers(infq_json_get(o, "E_pass"), e, 32);
        numbers(infq_json_get(o, "E_fail"), g, 32);
        for (int i = 0; i < n; i++) {
            infq_betting_add_staked(&b, d[i], num(o, "lambda"), num(o, "lambda"));
            ck_assert_double_eq_tol(exp(b.log_e), e[i], 1e-12);
            ck_assert_double_eq_tol(exp(b.log_g), g[i], 1e-12);
        }
    }
    cJSON_ArrayForEach(o, group("e_process_plugin")) {
        double d[32], e[32], g[32], up[32], down[32];
        int n = numbers(infq_json_get(o, "d"), d, 32);
        infq_betting b = infq_betting_start(num(o, "margin"));
        numbers(infq_json_get(o, "E_pass"), e, 32);
        numbers(infq_json_get(o, "E_fail"), g, 32);
        numbers(infq_json_get(o, "lambda_pass"), up, 32);
        numbers(infq_json_get(o, "lambda_fail"), down, 32);
        for (int i = 0; i < n; i++) {
            double u, v;
            infq_betting_stakes(&b, &u, &v);
            ck_assert_double_eq_tol(u, up[i], 1e-12);
            ck_assert_double_eq_tol(v, down[i], 1e-12);
            infq_betting_add(&b, d[i]);
            ck_assert_double_eq_tol(exp(b.log_e), e[i], 1e-12);
            ck_assert_double_eq_tol(exp(b.log_g), g[i], 1e-12);
        }
    }
}
END_TEST

START_TEST(betting_rejects_once_and_for_all_and_loses_all_to_a_broken_item)
{
    infq_betting b = infq_betting_start(0.01);

    for (int i = 0; i < 1000; i++)
        infq_betting_add(&b, 0);
    ck_assert(infq_betting_passes(&b, 0.05));
    ck_assert(!infq_betting_fails(&b, 0.05));
    for (int i = 0; i < 200; i++)
        infq_betting_add(&b, -1);
    ck_assert(infq_betting_passes(&b, 0.05)); /* at any time */
    b = infq_betting_start(0.01);
    for (int i = 0; i < 100; i++)
        infq_betting_add(&b, -1);
    ck_assert(infq_betting_fails(&b, 0.05));
    ck_assert(!infq_betting_passes(&b, 0.05));
    infq_betting_add(&b, NAN);
    ck_assert(!infq_betting_fails(&b, 0.05));
    ck_assert(!infq_betting_passes(&b, 0.05));
}
END_TEST

static infq_spending spending_named(const char *name)
{
    return strcmp(name, "pocock_type") == 0 ? INFQ_SPEND_POCOCK : INFQ_SPEND_OBRIEN_FLEMING;
}

START_TEST(error_spending_and_its_bounds_equal_golden)
{
    const cJSON *o;
    infq_err err;

    TEST_NEEDS_SHARED();
    cJSON_ArrayForEach(o, group("alpha_spending")) {
        close_to(o, "obrien_fleming_type", infq_spending_of(INFQ_SPEND_OBRIEN_FLEMING, num(o, "alpha"), num(o, "t")));
        close_to(o, "pocock_type", infq_spending_of(INFQ_SPEND_POCOCK, num(o, "alpha"), num(o, "t")));
    }
    cJSON_ArrayForEach(o, group("group_sequential_bounds")) {
        double t[INFQ_MAX_LOOKS], want[INFQ_MAX_LOOKS], z[INFQ_MAX_LOOKS];
        int n = numbers(infq_json_get(o, "looks"), t, INFQ_MAX_LOOKS);
        numbers(infq_json_get(o, "z"), want, INFQ_MAX_LOOKS);
        ck_ok(infq_group_bounds(spending_named(infq_json_get(o, "spending")->valuestring), num(o, "alpha_one_sided"), t, n, z, &err), err);
        for (int k = 0; k < n; k++)
            ck_assert_double_eq_tol(z[k] / want[k], 1, num(o, "rtol"));
    }
}
END_TEST

START_TEST(looks_that_do_not_ascend_are_refused)
{
    double z[3], back[3] = {0.5, 0.25, 1}, beyond[2] = {0.5, 1.5};
    infq_err err;

    ck_assert_int_eq(infq_group_bounds(INFQ_SPEND_POCOCK, 0.05, back, 3, z, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_group_bounds(INFQ_SPEND_POCOCK, 0.05, beyond, 2, z, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_group_bounds(INFQ_SPEND_POCOCK, 0.05, back, 0, z, &err), INFQ_E_USAGE);
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
    tcase_add_test(t, bootstrap_equals_golden);
    tcase_add_test(t, permutation_tests_equal_golden);
    tcase_add_test(t, figures_over_tasks_and_runs_equal_golden);
    tcase_add_test(t, noise_and_flips_of_the_original_equal_golden);
    tcase_add_test(t, betting_processes_equal_golden);
    tcase_add_test(t, error_spending_and_its_bounds_equal_golden);
    tcase_add_test(p, drawn_permutations_are_near_the_exact_ones);
    tcase_add_test(p, betting_rejects_once_and_for_all_and_loses_all_to_a_broken_item);
    tcase_add_test(p, looks_that_do_not_ascend_are_refused);
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
