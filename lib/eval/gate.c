#include "lib/eval/gate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/eval/exact.h"
#include "lib/eval/resample.h"

#define MAX_ITEMS 1000000000 /* a plan beyond this is no plan */
#define SIGN_SEED 1          /* of the permutation test on graded scores */
#define SIGN_DRAWS 20000
#define REPLICATES 2000      /* of the bootstrap */

static const char *const verdict_names[] = {"pass", "fail", "undecided"};

const char *infq_verdict_name(infq_verdict v)
{
    return verdict_names[v];
}

int infq_verdict_exit(infq_verdict v)
{
    return v == INFQ_VERDICT_PASS ? 0 : v == INFQ_VERDICT_FAIL ? 1 : 6;
}

infq_gate_options infq_gate_options_default(void)
{
    return (infq_gate_options){.margin = 0.01, .alpha = 0.05, .power = 0.8, .band = infq_band_options_default(),
                               .guards = infq_guard_limits_default()};
}

static const char *const reason_names[] = {"t1", "t2", "task", "guard", "shift", "missing", "all"};

const char *infq_gate_reason_name(infq_gate_reason r)
{
    return reason_names[r];
}

/* Not-a-number gives no verdict but undecided, never a pass. */
static infq_verdict decide(double p_pass, double p_fail, double alpha)
{
    if (p_fail < alpha)
        return INFQ_VERDICT_FAIL;
    return p_pass < alpha ? INFQ_VERDICT_PASS : INFQ_VERDICT_UNDECIDED;
}

/* Items beyond n_now for a wanted total; at least 1, since the present number did not decide. */
static int64_t further(double wanted, int64_t n_now)
{
    double more = ceil(wanted) - (double)n_now;

    if (!(wanted < MAX_ITEMS))
        return -1;
    return more < 1 ? 1 : (int64_t)more;
}

#define FEW_CHANGES 100 /* from here on Tango's test errs at most 5.2 % for 5 % (infeval simulate) */

infq_verdict infq_gate_t2(int64_t b, int64_t c, int64_t n, double margin, double alpha, double *p_exact)
{
    infq_prob p = infq_norm_cdf(infq_tango_score(b, c, n, -margin));
    infq_verdict v = decide(p.q, p.p, alpha);
    double tail = v == INFQ_VERDICT_PASS ? p.q : p.p;

    *p_exact = NAN;
    // far out in the tail the exact p is below alpha, too
    if (v == INFQ_VERDICT_UNDECIDED || tail < alpha / 8 || b + c >= FEW_CHANGES)
        return v;
    *p_exact = infq_tango_exact_p(b, c, n, margin, v == INFQ_VERDICT_PASS);
    return isnan(*p_exact) || *p_exact < alpha ? v : INFQ_VERDICT_UNDECIDED;
}

/* Smallest n at which no flip at all passes: the case where the normal formula, having no variance, would say 0. */
static double items_without_flips(const infq_gate_options *o)
{
    int64_t lo = 0, hi = 1;
    double exact;

    while (hi < MAX_ITEMS && infq_gate_t2(0, 0, hi, o->margin, o->alpha, &exact) != INFQ_VERDICT_PASS)
        hi *= 2;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (infq_gate_t2(0, 0, mid, o->margin, o->alpha, &exact) == INFQ_VERDICT_PASS)
            hi = mid;
        else
            lo = mid;
    }
    return (double)hi;
}

/* psi: second moment of one item's difference around 0, clusters counted in. */
static void plan_more(infq_gate_task *t, double psi, const infq_gate_options *o)
{
    double beta = 1 - o->power, floor_n = t->binary ? items_without_flips(o) : 0, n;

    t->more_items = t->more_items_no_gap = 0;
    t->expect_pass = t->gap > -o->margin;
    if (t->t2 != INFQ_VERDICT_UNDECIDED)
        return;
    if (t->gap == -o->margin) {
        t->more_items = -1;
    } else {
        n = infq_items_needed(psi, t->gap, o->margin, o->alpha, beta);
        t->more_items = further(t->expect_pass && n < floor_n ? floor_n : n, t->n);
    }
    n = infq_items_needed(psi, 0, o->margin, o->alpha, beta);
    t->more_items_no_gap = further(n < floor_n ? floor_n : n, t->n);
}

/* What every task begins with: T2 alone decides, nothing else was asked. */
static void begin(infq_gate_task *t, int64_t n)
{
    t->n = t->n_clusters = n;
    t->runs_a = t->runs_b = 1;
    t->band_asked = false;
    memset(&t->band, 0, sizeof(t->band));
    memset(&t->guards, 0, sizeof(t->guards));
    t->p_labels = t->p_exact = NAN;
    t->crossed = infq_crossed_of(NULL, 0, 0);
    t->bootstrap = (infq_interval){NAN, NAN};
    t->runs_needed = 0;
    t->runs_expected = INFQ_VERDICT_UNDECIDED;
}

void infq_gate_binary_quick(int64_t b, int64_t c, int64_t n, const infq_gate_options *o, infq_gate_task *out)
{
    infq_prob p;

    begin(out, n);
    out->binary = true;
    out->b = b;
    out->c = c;
    out->gap = (double)(c - b) / (double)n;
    out->psi = (double)(b + c) / (double)n;
    out->sd = n > 1 ? sqrt((out->psi - out->gap * out->gap) * (double)n / (double)(n - 1)) : NAN;
    out->se = out->sd / sqrt((double)n);
    out->ci = infq_tango_interval(b, c, n, 1 - 2 * o->alpha);
    out->statistic = infq_tango_score(b, c, n, -o->margin);
    p = infq_norm_cdf(out->statistic);
    out->p_pass = p.q;
    out->p_fail = p.p;
    out->mcnemar = (infq_mcnemar){NAN, NAN, NAN};
    out->p_shift = out->p_degradation = NAN;
    out->t2 = out->verdict = infq_gate_t2(b, c, n, o->margin, o->alpha, &out->p_exact);
}

void infq_gate_binary(int64_t b, int64_t c, int64_t n, const infq_gate_options *o, infq_gate_task *out)
{
    infq_gate_binary_quick(b, c, n, o, out);
    out->mcnemar = infq_mcnemar_exact(b, c);
    out->p_shift = out->mcnemar.p_two_sided;
    out->p_degradation = out->mcnemar.p_degradation;
    plan_more(out, out->psi, o);
}

infq_status infq_gate_graded(const double *d, const int64_t *cluster, int64_t n, const infq_gate_options *o, infq_gate_task *out,
                             infq_err *err)
{
    infq_permutation shift;

    INFQ_TRY(infq_gate_graded_quick(d, cluster, n, o, out, err));
    INFQ_TRY(infq_sign_flip(d, n, SIGN_SEED, SIGN_DRAWS, &shift, err));
    out->p_shift = shift.p_two_sided;
    out->p_degradation = shift.p_degradation;
    return 0;
}

infq_status infq_gate_graded_quick(const double *d, const int64_t *cluster, int64_t n, const infq_gate_options *o, infq_gate_task *out,
                                   infq_err *err)
{
    infq_moments m = infq_moments_of(d, n);
    int64_t df = n - 1;
    double t;

    begin(out, n);
    out->binary = false;
    out->se = m.se;
    if (cluster)
        INFQ_TRY(infq_cluster_se(d, cluster, n, &out->se, &df, err));
    out->n_clusters = df + 1;
    out->b = out->c = 0;
    for (int64_t i = 0; i < n; i++) {
        out->b += d[i] < 0;
        out->c += d[i] > 0;
    }
    out->gap = m.mean;
    out->psi = (double)(out->b + out->c) / (double)n;
    out->sd = m.sd;
    t = df > 0 ? infq_t_quantile(1 - o->alpha, (double)df) : NAN;
    out->ci = (infq_interval){m.mean - t * out->se, m.mean + t * out->se};
    out->mcnemar = (infq_mcnemar){NAN, NAN, NAN};
    out->p_shift = out->p_degradation = NAN;
    out->statistic = out->p_pass = out->p_fail = NAN;
    if (df > 0) {
        out->p_pass = infq_tost_test(m.mean, out->se, (double)df, o->margin).p_lower;
        out->statistic = (m.mean + o->margin) / out->se;
        out->p_fail = out->se > 0 ? infq_t_cdf(out->statistic, (double)df).p : 1 - out->p_pass;
    }
    out->t2 = out->verdict = decide(out->p_pass, out->p_fail, o->alpha);
    plan_more(out, out->se * out->se * (double)n + m.mean * m.mean, o);
    return 0;
}

static infq_status refuse_record(const char *field, const char *a, const char *b, infq_err *err)
{
    return infq_err_set(err, INFQ_E_MISMATCH, "the noise record does not fit: %s differs: %.80s, items have %.80s", field,
                        infq_first_difference(a, b), infq_first_difference(b, a));
}

/* The record's figures of the task, NULL if it has none. side: digest of the model the record must be of. */
static infq_status record_of(const infq_noise *r, const infq_pair *p, const char *digest, const infq_noise_task **out, infq_err *err)
{
    const infq_noise_task *t;
    const char *base;
    size_t n;

    *out = NULL;
    if (!r)
        return 0;
    if (r->model_digest[0] && digest[0] && strcmp(r->model_digest, digest) != 0)
        return refuse_record("model_digest", r->model_digest, digest, err);
    if (r->tokenizer[0] && p->tokenizer[0] && strcmp(r->tokenizer, p->tokenizer) != 0)
        return refuse_record("tokenizer", r->tokenizer, p->tokenizer, err);
    base = strstr(p->settings, INFQ_SETTINGS_RUN); // runs of the record, or others like them
    n = base ? (size_t)(base - p->settings) : strlen(p->settings);
    if (r->settings[0] && p->settings[0] && (strlen(r->settings) != n || strncmp(r->settings, p->settings, n) != 0))
        return refuse_record("settings", r->settings, p->settings, err);
    t = infq_noise_find(r, p->task);
    if (!t)
        return 0;
    if (t->task_digest[0] && p->task_digest[0] && strcmp(t->task_digest, p->task_digest) != 0)
        return refuse_record("task_digest", t->task_digest, p->task_digest, err);
    if (strcmp(t->metric, p->metric) != 0)
        return refuse_record("metric", t->metric, p->metric, err);
    *out = t;
    return 0;
}

static double whole_task_scale(const infq_noise_task *t)
{
    return t ? sqrt((double)t->n_items / (double)t->n_full) : 1;
}

static infq_status band_input(const infq_pair *p, const infq_noise *noise_a, const infq_noise *noise_b, bool paired_runs,
                              const infq_gate_options *o, infq_band_input *in, double *psi0, infq_err *err)
{
    const infq_noise_task *a, *b;
    double gap = infq_sum(p->d, p->n) / (double)p->n, s = NAN, nu = NAN, sign = infq_metric_sign(p->metric);
    bool drawn = strstr(p->settings, INFQ_SETTINGS_RUN); // one of many that the declared variation could have made
    bool exact = o->reproducible || (!drawn && (strncmp(p->settings, "infq=", 5) == 0 || (noise_a && noise_a->reproducible)));

    INFQ_TRY(record_of(noise_a, p, p->digest_a, &a, err));
    INFQ_TRY(record_of(noise_b, p, p->digest_b, &b, err));
    *psi0 = a ? a->flip_rate : p->flip_rate_a;
    if (a) {
        s = a->sd_full;
        nu = noise_a->n_runs - 1;
    } else if (p->runs_a > 1) {
        s = infq_moments_of(p->scores_a, p->runs_a).sd;
        nu = p->runs_a - 1;
    }
    if (p->runs_a > 1 && p->runs_b > 1) {
        if (paired_runs && p->runs_a != p->runs_b)
            return infq_err_set(err, INFQ_E_USAGE, "%s: %d and %d runs cannot be paired", p->task, p->runs_a, p->runs_b);
        *in = paired_runs ? infq_band_paired(p->scores_a, p->scores_b, p->runs_a, whole_task_scale(a))
                          : infq_band_unpaired(p->scores_a, p->runs_a, p->scores_b, p->runs_b, whole_task_scale(a));
    } else if (a && b && a->n_items == b->n_items) {
        *in = infq_noise_paired(noise_a, noise_b)
                  ? infq_band_paired(a->scores, b->scores, noise_a->n_runs, whole_task_scale(a))
                  : infq_band_unpaired(a->scores, noise_a->n_runs, b->scores, noise_b->n_runs, whole_task_scale(a));
        in->gap *= sign;
    } else {
        *in = infq_band_exact(gap, s, nu);
        if (!exact) // one run of an engine that may give another score next time
            in->se = in->df = NAN;
    }
    return 0;
}

/* T1 under the policy's rule for noise that was not measured. */
static void judge_band(const infq_band_input *in, const infq_gate_options *o, double alpha_lower, infq_band *out)
{
    infq_band_decide(in, &o->band, alpha_lower, out);
    if (!isnan(in->s))
        return;
    if (o->noise == INFQ_NOISE_REQUIRED || (o->noise == INFQ_NOISE_OPTIONAL && out->verdict == INFQ_VERDICT_FAIL)) {
        out->verdict = INFQ_VERDICT_UNDECIDED;
        out->reason = isnan(in->se) ? INFQ_BAND_NO_RUNS : INFQ_BAND_NO_NOISE;
    }
}

static infq_verdict worse_of(infq_verdict a, infq_verdict b)
{
    if (a == INFQ_VERDICT_FAIL || b == INFQ_VERDICT_FAIL)
        return INFQ_VERDICT_FAIL;
    return a == INFQ_VERDICT_PASS && b == INFQ_VERDICT_PASS ? INFQ_VERDICT_PASS : INFQ_VERDICT_UNDECIDED;
}

void infq_gate_conclude(infq_gate_task *t, const infq_gate_options *o)
{
    t->verdict = t->t2;
    if (t->band_asked)
        t->verdict = worse_of(t->verdict, t->band.verdict);
    t->verdict = worse_of(t->verdict, infq_guards_verdict(&t->guards));
    if (o->strict_detect && t->verdict == INFQ_VERDICT_PASS && t->p_shift < o->alpha)
        t->verdict = INFQ_VERDICT_UNDECIDED;
}

static infq_status bootstrap_gap(const infq_pair *p, const infq_gate_options *o, infq_gate_task *out, infq_err *err)
{
    double *means = NULL;

    INFQ_TRY(infq_mem_new(REPLICATES, sizeof(*means), "resampled gaps", (void **)&means, err));
    infq_bootstrap_means(p->d, p->n, SIGN_SEED, REPLICATES, means);
    infq_sort(means, REPLICATES);
    out->bootstrap = (infq_interval){infq_percentile(means, REPLICATES, o->alpha), infq_percentile(means, REPLICATES, 1 - o->alpha)};
    infq_mem_free(means);
    return 0;
}

static infq_status test_items(const infq_pair *p, const infq_gate_options *o, infq_gate_task *out, infq_err *err)
{
    int64_t losses = 0, gains = 0;

    for (int64_t i = 0; i < p->n; i++) {
        losses += p->d[i] < 0;
        gains += p->d[i] > 0;
    }
    if (p->binary && !p->cluster)
        infq_gate_binary(losses, gains, p->n, o, out);
    else
        INFQ_TRY(infq_gate_graded(p->d, p->cluster, p->n, o, out, err));
    snprintf(out->task, sizeof(out->task), "%s", p->task);
    snprintf(out->metric, sizeof(out->metric), "%s", p->metric);
    out->runs_a = p->runs_a;
    out->runs_b = p->runs_b;
    out->score_a = infq_sum(p->x, p->n) / (double)p->n;
    out->score_b = infq_sum(p->y, p->n) / (double)p->n;
    out->se_a = infq_moments_of(p->x, p->n).se;
    out->se_b = infq_moments_of(p->y, p->n).se;
    if (p->runs_a > 1 && p->runs_b > 1) {
        infq_permutation labels;
        INFQ_TRY(infq_run_labels(p->scores_a, p->runs_a, p->scores_b, p->runs_b, SIGN_SEED, SIGN_DRAWS, &labels, err));
        out->p_labels = labels.p_two_sided;
    }
    return out->binary || p->cluster ? 0 : bootstrap_gap(p, o, out, err);
}

infq_status infq_gate_pair(const infq_pair *p, const infq_noise *noise_a, const infq_noise *noise_b, bool paired_runs, int n_tasks,
                           const infq_gate_options *o, infq_gate_task *out, infq_err *err)
{
    const double one = 1;
    infq_gate_task t;
    infq_band_input in;

    memset(&t, 0, sizeof(t));
    INFQ_TRY(test_items(p, o, &t, err));
    INFQ_TRY(band_input(p, noise_a, noise_b, paired_runs, o, &in, &t.psi0, err));
    t.invalid = p->invalid;
    t.truncated = p->truncated;
    t.crossed = p->crossed;
    infq_guard_flips(&t.guards, t.b + t.c, t.n, t.psi0, &o->guards, 1 - 0.05 / n_tasks);
    infq_guard_format(&t.guards, &p->invalid, &p->truncated, t.n, &o->guards, o->alpha);
    if (p->has_length)
        infq_guard_length(&t.guards, p->length_ratio, p->length_lo, p->length_hi, &o->guards);
    infq_guard_jitter(&t.guards, in.sd_a, in.runs_a - 1, in.sd_b, in.runs_b - 1, &o->guards);
    if (o->noise != INFQ_NOISE_OFF) {
        t.band_asked = true;
        judge_band(&in, o, o->band.alpha, &t.band);
        if (isfinite(t.band.p_shift))
            t.p_shift = t.band.p_shift;
        if (t.band.verdict == INFQ_VERDICT_UNDECIDED)
            t.runs_needed = infq_band_runs_needed(&in, &one, 1, &o->band, &t.runs_expected);
    }
    infq_gate_conclude(&t, o);
    *out = t;
    return 0;
}

infq_status infq_gate_items(const infq_items *a, const infq_items *b, const char *metric, const infq_gate_options *o,
                            infq_gate_task *out, infq_err *err)
{
    infq_pair *p = NULL;
    infq_status st;

    INFQ_TRY(infq_pair_new(&a, 1, &b, 1, metric, &p, err));
    st = infq_gate_pair(p, NULL, NULL, false, 1, o, out, err);
    infq_pair_free(p);
    return st;
}
