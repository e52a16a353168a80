#include "lib/eval/guard.h"

#include <math.h>

static const char *const names[INFQ_GUARD_KINDS] = {"flips", "invalid", "truncated", "length", "jitter",
                                                    "kld", "kld_p99", "kld_noise", "same_top", "ln_ppl"};

const char *infq_guard_name(infq_guard_kind k)
{
    return names[k];
}

infq_guard_limits infq_guard_limits_default(void)
{
    return (infq_guard_limits){.flips = NAN, .kld = NAN, .kld_p99 = NAN, .kld_noise = NAN, .same_top = NAN, .ln_ppl = NAN,
                               .format = 0.01, .length_lo = 0.95, .length_hi = 1.05, .jitter = 0.99};
}

/* pass and fail are conditions that not-a-number makes false. */
static void add(infq_guards *to, infq_guard_kind kind, double value, double limit, infq_interval ci, bool pass, bool fail)
{
    infq_guard g = {.kind = kind, .measured = !isnan(value), .value = value, .limit = limit, .ci = ci};

    g.verdict = fail ? INFQ_VERDICT_FAIL : pass ? INFQ_VERDICT_PASS : INFQ_VERDICT_UNDECIDED;
    if (to->n < INFQ_MAX_GUARDS)
        to->g[to->n++] = g;
}

static const infq_interval none = {NAN, NAN};

void infq_guard_flips(infq_guards *to, int64_t k, int64_t n, double psi0, const infq_guard_limits *l, double conf)
{
    infq_interval ci = infq_wilson(k, n, conf);
    double cap = 3 * psi0 > l->flips ? 3 * psi0 : l->flips; // psi0 not known: the comparison is false

    if (isnan(l->flips))
        return;
    add(to, INFQ_GUARD_FLIPS, (double)k / (double)n, cap, ci, ci.hi <= cap, ci.lo > cap);
}

/* Non-inferiority of a rate that should not rise: an item newly marked is a loss. */
static void rate(infq_guards *to, infq_guard_kind kind, const infq_pair_mark *m, int64_t n, double margin, double alpha)
{
    infq_interval ci;
    infq_prob p;

    if (!m->known)
        return;
    p = infq_norm_cdf(infq_tango_score(m->lost, m->won, n, -margin));
    ci = infq_tango_interval(m->lost, m->won, n, 1 - 2 * alpha);
    add(to, kind, (double)(m->b - m->a) / (double)n, margin, (infq_interval){-ci.hi, -ci.lo}, p.q < alpha, p.p < alpha);
}

void infq_guard_format(infq_guards *to, const infq_pair_mark *invalid, const infq_pair_mark *truncated, int64_t n,
                       const infq_guard_limits *l, double alpha)
{
    if (isnan(l->format))
        return;
    rate(to, INFQ_GUARD_INVALID, invalid, n, l->format, alpha);
    rate(to, INFQ_GUARD_TRUNCATED, truncated, n, l->format, alpha);
}

void infq_guard_length(infq_guards *to, double ratio, double lo, double hi, const infq_guard_limits *l)
{
    bool low = ratio < 1;

    if (isnan(l->length_lo))
        return;
    add(to, INFQ_GUARD_LENGTH, ratio, low ? l->length_lo : l->length_hi, (infq_interval){lo, hi},
        ratio >= l->length_lo && ratio <= l->length_hi, hi < l->length_lo || lo > l->length_hi);
}

void infq_guard_jitter(infq_guards *to, double sd_a, double df_a, double sd_b, double df_b, const infq_guard_limits *l)
{
    double f = sd_b * sd_b / (sd_a * sd_a);

    if (isnan(l->jitter) || !(df_a > 0) || !(df_b > 0) || !isfinite(f))
        return;
    add(to, INFQ_GUARD_JITTER, f, l->jitter, none, infq_f_cdf(f, df_b, df_a).q >= 1 - l->jitter, false);
}

void infq_guard_distance(infq_guards *to, const infq_distance *d, const infq_guard_limits *l, double alpha)
{
    infq_distance x = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, NAN};
    double df, t;

    if (d)
        x = *d;
    df = (double)x.n_windows - 1;
    t = df > 0 ? infq_t_quantile(1 - alpha, df) : NAN;
    if (!isnan(l->kld)) {
        infq_interval ci = {x.kld - t * x.kld_se, x.kld + t * x.kld_se};
        add(to, INFQ_GUARD_KLD, x.kld, l->kld, ci, x.kld <= l->kld, ci.lo > l->kld);
    }
    if (!isnan(l->kld_p99))
        add(to, INFQ_GUARD_KLD_P99, x.kld_p99, l->kld_p99, none, x.kld_p99 <= l->kld_p99, false);
    if (!isnan(l->kld_noise)) {
        double cap = l->kld_noise * x.self_kld;
        infq_interval ci = {x.kld - t * x.kld_se, x.kld + t * x.kld_se};
        add(to, INFQ_GUARD_KLD_NOISE, isnan(cap) ? NAN : x.kld, cap, ci, x.kld <= cap, ci.lo > cap);
    }
    if (!isnan(l->same_top)) {
        infq_interval ci = {x.same_top - t * x.same_top_se, x.same_top + t * x.same_top_se};
        add(to, INFQ_GUARD_SAME_TOP, x.same_top, l->same_top, ci, ci.lo >= l->same_top, ci.hi < l->same_top);
    }
    if (!isnan(l->ln_ppl)) {
        infq_interval ci = {x.ln_ratio - t * x.ln_ratio_se, x.ln_ratio + t * x.ln_ratio_se};
        infq_tost r = infq_tost_test(-x.ln_ratio, x.ln_ratio_se, df, l->ln_ppl);
        bool worse = x.ln_ratio_se > 0 && infq_t_cdf((l->ln_ppl - x.ln_ratio) / x.ln_ratio_se, df).p < alpha;
        add(to, INFQ_GUARD_LN_PPL, x.ln_ratio, l->ln_ppl, ci, r.p_lower < alpha, worse);
    }
}

infq_verdict infq_guards_verdict(const infq_guards *g)
{
    infq_verdict v = INFQ_VERDICT_PASS;

    for (int i = 0; i < g->n; i++) {
        if (!g->g[i].measured)
            continue;
        if (g->g[i].verdict == INFQ_VERDICT_FAIL)
            return INFQ_VERDICT_FAIL;
        if (g->g[i].verdict == INFQ_VERDICT_UNDECIDED)
            v = INFQ_VERDICT_UNDECIDED;
    }
    return v;
}
