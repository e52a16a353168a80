/* Distribution metrics as JSON and as text. */
#include <math.h>
#include <stdio.h>

#include "lib/eval/kld.h"

static void summary_json(const char *key, const infq_kld_summary *s, infq_jw *w)
{
    infq_jw_key(w, key);
    infq_jw_obj(w);
    infq_jw_key_i64(w, "positions", s->n);
    infq_jw_key_f64(w, "kld_mean", s->kld_mean);
    infq_jw_key_f64(w, "kld_stderr", s->kld_se);
    infq_jw_key_f64(w, "kld_lower", s->kld_lower);
    infq_jw_key_f64(w, "kld_upper", s->kld_upper);
    infq_jw_key_f64(w, "kld_sampling_stderr", s->kld_sample_se);
    infq_jw_key_f64(w, "kld_median", s->kld_median);
    infq_jw_key_f64(w, "kld_p90", s->kld_p90);
    infq_jw_key_f64(w, "kld_p95", s->kld_p95);
    infq_jw_key_f64(w, "kld_p99", s->kld_p99);
    infq_jw_key_f64(w, "kld_p999", s->kld_p999);
    infq_jw_key_f64(w, "kld_max", s->kld_max);
    infq_jw_key_f64(w, "same_top", s->same_top);
    infq_jw_key_f64(w, "same_top_stderr", s->same_top_se);
    infq_jw_key_f64(w, "top_10", s->top_k);
    infq_jw_key_f64(w, "delta_p_mean", s->dp_mean);
    infq_jw_key_f64(w, "delta_p_rms", s->dp_rms);
    infq_jw_key_f64(w, "delta_p_rms_stderr", s->dp_rms_se);
    infq_jw_key_f64(w, "ppl_first", s->ppl_p);
    infq_jw_key_f64(w, "ppl_second", s->ppl_q);
    infq_jw_key_f64(w, "ln_ratio", s->ln_ratio);
    infq_jw_key_f64(w, "ln_ratio_stderr", s->ln_ratio_se);
    infq_jw_end_obj(w);
}

static void groups_json(const char *key, const infq_kld_group *g, int n, infq_jw *w)
{
    infq_jw_key(w, key);
    infq_jw_arr(w);
    for (int i = 0; i < n; i++) {
        if (g[i].n == 0)
            continue;
        infq_jw_obj(w);
        infq_jw_key_str(w, "name", g[i].name);
        infq_jw_key_i64(w, "positions", g[i].n);
        infq_jw_key_f64(w, "kld_mean", g[i].kld_mean);
        infq_jw_key_f64(w, "kld_stderr", g[i].kld_se);
        infq_jw_key_f64(w, "share", g[i].share);
        infq_jw_key_f64(w, "same_top", g[i].same_top);
        infq_jw_key_f64(w, "ln_ratio", g[i].ln_ratio);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

void infq_kld_json(const infq_kld_result *r, infq_jw *w)
{
    infq_jw_key_i64(w, "window", r->window);
    infq_jw_key_i64(w, "windows", r->n_windows);
    summary_json("all", &r->all, w);
    summary_json("half", &r->half, w);
    groups_json("token_classes", r->classes, INFQ_TOKEN_CLASS_COUNT, w);
    groups_json("places", r->positions, r->n_positions, w);
    infq_jw_key(w, "histogram");
    infq_jw_arr(w);
    for (int i = 0; i < INFQ_KLD_BINS; i++) {
        infq_jw_arr(w);
        infq_jw_f64(w, infq_kld_bin_edge(i));
        infq_jw_i64(w, r->histogram[i]);
        infq_jw_end_arr(w);
    }
    infq_jw_end_arr(w);
}

static void summary_text(const char *what, const infq_kld_summary *s, infq_buf *to)
{
    infq_buf_fmt(to, "  %s: %lld positions\n", what, (long long)s->n);
    infq_buf_fmt(to, "    KL divergence %.6f (%.6f), median %.6f, p90 %.6f, p95 %.6f, p99 %.6f, p99.9 %.6f, largest %.6f\n",
                 s->kld_mean, s->kld_se, s->kld_median, s->kld_p90, s->kld_p95, s->kld_p99, s->kld_p999, s->kld_max);
    if (s->kld_lower < s->kld_upper)
        infq_buf_fmt(to, "    estimated from the stored part of the original, sampling error %.6f; it bounds the mean to %.6f .. %.6f\n",
                     s->kld_sample_se, s->kld_lower, s->kld_upper);
    infq_buf_fmt(to, "    same top token %.3f %% (%.3f), in common of the %d likeliest %.2f %%\n", 100 * s->same_top, 100 * s->same_top_se,
                 INFQ_KLD_TOP, 100 * s->top_k);
    infq_buf_fmt(to, "    change of the true token's probability: mean %+.3f %%, rms %.3f %% (%.3f)\n", 100 * s->dp_mean, 100 * s->dp_rms,
                 100 * s->dp_rms_se);
    infq_buf_fmt(to, "    perplexity %.4f and %.4f, ln ratio %+.6f (%.6f)\n", s->ppl_p, s->ppl_q, s->ln_ratio, s->ln_ratio_se);
}

static void groups_text(const char *title, const infq_kld_group *g, int n, infq_buf *to)
{
    infq_buf_fmt(to, "  %-16s %9s %10s %11s %7s %9s %10s\n", title, "positions", "divergence", "(error)", "share", "same top", "ln ratio");
    for (int i = 0; i < n; i++) {
        char se[24] = "";
        if (g[i].n == 0)
            continue;
        if (isfinite(g[i].kld_se))
            snprintf(se, sizeof(se), "(%.6f)", g[i].kld_se);
        infq_buf_fmt(to, "    %-14s %9lld %10.6f %11s %5.1f %% %7.2f %% %+10.6f\n", g[i].name, (long long)g[i].n, g[i].kld_mean, se,
                     100 * g[i].share, 100 * g[i].same_top, g[i].ln_ratio);
    }
}

void infq_kld_text(const infq_kld_result *r, infq_buf *to)
{
    summary_text("all positions", &r->all, to);
    summary_text("second half of each window", &r->half, to);
    groups_text("by true token", r->classes, INFQ_TOKEN_CLASS_COUNT, to);
    groups_text("by place", r->positions, r->n_positions, to);
}
