#include "lib/eval/band.h"

#include <math.h>
#include <string.h>

/* Means of equal counts differ by rounding alone: spreads below this are none, gaps so close to a margin lie at it. */
#define ROUNDING 1e-12

static double no_rounding(double sd)
{
    return sd < ROUNDING ? 0 : sd;
}

infq_band_options infq_band_options_default(void)
{
    return (infq_band_options){.alpha = 0.05, .kappa = infq_norm_quantile(0.975), .floor = 0.0025, .cap = 0.01};
}

static const char *const reason_names[] = {"within noise",       "below the floor", "beyond noise", "beyond the cap",
                                           "neither is shown",   "no runs",         "noise not measured"};

const char *infq_band_reason_name(infq_band_reason r)
{
    return reason_names[r];
}

infq_band_input infq_band_paired(const double *a, const double *b, int runs, double s_scale)
{
    infq_moments ma = infq_moments_of(a, runs), mb = infq_moments_of(b, runs);
    infq_band_input in = {.gap = mb.mean - ma.mean, .df = runs - 1, .nu = runs - 1, .paired = true, .runs_a = runs, .runs_b = runs};
    double s = 0;

    for (int j = 0; j < runs; j++) {
        double d = b[j] - a[j] - in.gap;
        s += d * d;
    }
    in.sd_pair = runs > 1 ? no_rounding(sqrt(s / (runs - 1))) : NAN;
    in.se = in.sd_pair / sqrt(runs);
    in.sd_a = no_rounding(ma.sd);
    in.sd_b = no_rounding(mb.sd);
    in.s = in.sd_a * s_scale;
    return in;
}

/* Fills se and df from sd and numbers of runs. */
static void welch(infq_band_input *in)
{
    double va = in->sd_a * in->sd_a / in->runs_a, vb = in->sd_b * in->sd_b / in->runs_b, v = va + vb;

    in->se = sqrt(v);
    in->df = v > 0 ? v * v / (va * va / (in->runs_a - 1) + vb * vb / (in->runs_b - 1)) : in->runs_a + in->runs_b - 2;
}

infq_band_input infq_band_unpaired(const double *a, int runs_a, const double *b, int runs_b, double s_scale)
{
    infq_moments ma = infq_moments_of(a, runs_a), mb = infq_moments_of(b, runs_b);
    infq_band_input in = {.gap = mb.mean - ma.mean, .nu = runs_a - 1, .runs_a = runs_a, .runs_b = runs_b};

    in.sd_a = no_rounding(ma.sd);
    in.sd_b = no_rounding(mb.sd);
    in.sd_pair = NAN;
    in.s = in.sd_a * s_scale;
    welch(&in);
    return in;
}

infq_band_input infq_band_exact(double gap, double s, double nu)
{
    return (infq_band_input){.gap = gap, .se = 0, .df = INFINITY, .s = s, .nu = nu, .sd_pair = NAN, .sd_a = NAN, .sd_b = NAN,
                             .runs_a = 1, .runs_b = 1};
}

/* Sums of variances and of their squares over degrees of freedom (Satterthwaite). */
static void add_task(infq_band_input *sum, const infq_band_input *t, double w, double *v, double *v2, double *s2, double *s4)
{
    double a = w * w * t->se * t->se, b = w * w * t->s * t->s;

    sum->gap += w * t->gap;
    *v += a;
    *v2 += a * a / t->df;
    *s2 += b;
    *s4 += b * b / t->nu;
}

static void finish_sum(infq_band_input *sum, double v, double v2, double s2, double s4, double nu_if_zero)
{
    sum->se = sqrt(v);
    sum->df = v2 > 0 ? v * v / v2 : INFINITY;
    sum->s = sqrt(s2);
    sum->nu = s4 > 0 ? s2 * s2 / s4 : nu_if_zero;
    sum->sd_pair = sum->sd_a = sum->sd_b = NAN;
}

infq_band_input infq_band_sum(const infq_band_input *t, const double *w, int n)
{
    infq_band_input sum = {0};
    double v = 0, v2 = 0, s2 = 0, s4 = 0;

    if (n == 1)
        return t[0];
    for (int i = 0; i < n; i++)
        add_task(&sum, &t[i], w[i], &v, &v2, &s2, &s4);
    finish_sum(&sum, v, v2, s2, s4, t[0].nu);
    return sum;
}

static double square(double x)
{
    return x * x;
}


double infq_band_upper(const infq_band_input *in, const infq_band_options *o, double t, double chi)
{
    double s2 = 2 * o->kappa * o->kappa * in->s * in->s, h = in->se == 0 ? 0 : t * in->se;
    double d = o->allow_gain && in->gap > 0 ? 0 : in->gap;
    double em = d * d - in->se * in->se, es = -s2;
    double cm = o->allow_gain ? square(fmax(0, h - in->gap)) : square(fabs(in->gap) + h);
    double cs = s2 > 0 ? -s2 * in->nu / chi : -s2;

    return em + es + sqrt(square(cm - em) + square(cs - es));
}

double infq_band_lower(const infq_band_input *in, const infq_band_options *o, double t, double chi)
{
    double s2 = 2 * o->kappa * o->kappa * in->s * in->s, h = in->se == 0 ? 0 : t * in->se;
    double em = in->gap * in->gap - in->se * in->se, es = -s2, lm = square(fmax(0, fabs(in->gap) - h));
    double ls = s2 > 0 ? -s2 * in->nu / chi : -s2;

    return em + es - sqrt(square(em - lm) + square(es - ls));
}

static double t_of(const infq_band_input *in, double alpha)
{
    return in->se == 0 ? 0 : infq_t_quantile(1 - alpha, in->df);
}

static double criterion_upper(const infq_band_input *in, const infq_band_options *o, double alpha)
{
    return infq_band_upper(in, o, t_of(in, alpha), in->s > 0 ? infq_chi2_quantile(1 - alpha, in->nu) : 1);
}

static double criterion_lower(const infq_band_input *in, const infq_band_options *o, double alpha)
{
    return infq_band_lower(in, o, t_of(in, alpha), in->s > 0 ? infq_chi2_quantile(alpha, in->nu) : 1);
}

/* p of equivalence within the margin; without the upper side when gains are allowed. */
static double equivalence(const infq_band_input *in, double margin, bool allow_gain)
{
    double at = fabs(fabs(in->gap) - margin) < ROUNDING ? copysign(margin, in->gap) : in->gap;
    infq_tost r = infq_tost_test(at, in->se, in->df, margin);

    return allow_gain ? r.p_lower : r.p_tost;
}

static double beyond(const infq_band_input *in, double margin)
{
    if (in->se == 0)
        return in->gap > -margin + ROUNDING ? 1 : in->gap < -margin - ROUNDING ? 0 : 0.5;
    return infq_t_cdf((in->gap + margin) / in->se, in->df).p;
}

/* Comparisons are written so that not-a-number passes and fails nothing. */
static infq_verdict decide(const infq_band *b, const infq_band_options *o, double upper, infq_band_reason *reason)
{
    double half = o->exact_level ? o->alpha / 2 : o->alpha;
    bool measured = !isnan(b->in.s);

    if (b->p_beyond_cap < o->alpha) {
        *reason = INFQ_BAND_BEYOND_CAP;
        return INFQ_VERDICT_FAIL;
    }
    if (b->in.gap < 0 && b->lower > 0 && b->p_beyond_floor < o->alpha) {
        *reason = INFQ_BAND_BEYOND_NOISE;
        return INFQ_VERDICT_FAIL;
    }
    if (b->p_cap < o->alpha && (upper <= 0 || b->p_floor < half)) {
        *reason = upper <= 0 ? INFQ_BAND_WITHIN : INFQ_BAND_BELOW_FLOOR;
        return INFQ_VERDICT_PASS;
    }
    *reason = isnan(b->in.se) ? INFQ_BAND_NO_RUNS : measured ? INFQ_BAND_UNCLEAR : INFQ_BAND_NO_NOISE;
    return INFQ_VERDICT_UNDECIDED;
}

void infq_band_decide(const infq_band_input *in, const infq_band_options *o, double alpha_lower, infq_band *out)
{
    double h = in->se == 0 ? 0 : infq_t_quantile(1 - o->alpha, in->df) * in->se, upper;

    memset(out, 0, sizeof(*out));
    out->in = *in;
    out->t = in->df > 0 ? infq_t_quantile(1 - o->alpha, in->df) : NAN;
    out->ci = (infq_interval){in->gap - h, in->gap + h};
    out->limit = o->kappa * M_SQRT2 * in->s;
    out->upper = criterion_upper(in, o, o->alpha);
    out->lower = criterion_lower(in, o, alpha_lower);
    upper = o->exact_level ? criterion_upper(in, o, o->alpha / 2) : out->upper;
    out->p_floor = equivalence(in, o->floor, o->allow_gain);
    out->p_cap = equivalence(in, o->cap, o->allow_gain);
    out->p_beyond_floor = beyond(in, o->floor);
    out->p_beyond_cap = beyond(in, o->cap);
    out->p_shift = in->se > 0 ? 2 * infq_t_cdf(fabs(in->gap) / in->se, in->df).q : NAN;
    out->verdict = decide(out, o, upper, &out->reason);
}

/* The input as it would be with r runs a side (the original may have more already) and the same gap and standard deviations. */
static infq_band_input with_runs(const infq_band_input *in, int r)
{
    infq_band_input n = *in;

    if (in->se == 0 && in->runs_b <= 1) { // only the noise is measured more often
        n.nu = r - 1;
        return n;
    }
    n.runs_b = r;
    n.runs_a = in->runs_a > r ? in->runs_a : r;
    n.nu = n.runs_a - 1;
    if (in->paired) {
        n.df = r - 1;
        n.se = in->sd_pair / sqrt(r);
    } else {
        welch(&n);
    }
    return n;
}

int infq_band_runs_needed(const infq_band_input *t, const double *w, int n, const infq_band_options *o, infq_verdict *expected)
{
    int from = 2;

    for (int i = 0; i < n; i++) {
        int have = t[i].se == 0 && t[i].runs_b <= 1 ? (int)t[i].nu + 1 : t[i].runs_b;
        if (!isfinite(t[i].s) || !isfinite(t[i].gap))
            return 0;
        from = have + 1 > from ? have + 1 : from;
    }
    for (int r = from; r <= INFQ_BAND_MAX_RUNS; r++) {
        infq_band_input sum = {0};
        double v = 0, v2 = 0, s2 = 0, s4 = 0;
        infq_band b;
        for (int i = 0; i < n; i++) {
            infq_band_input one = with_runs(&t[i], r);
            add_task(&sum, &one, w[i], &v, &v2, &s2, &s4);
        }
        finish_sum(&sum, v, v2, s2, s4, r - 1);
        if (isnan(sum.se))
            return 0;
        infq_band_decide(&sum, o, o->alpha, &b);
        if (b.verdict != INFQ_VERDICT_UNDECIDED) {
            *expected = b.verdict;
            return r;
        }
    }
    return 0;
}
