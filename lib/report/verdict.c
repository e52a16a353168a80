#include "lib/report/verdict.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const shouted[] = {"PASS", "FAIL", "UNDECIDED"};

/* Digits after the point that show a figure of this size in points. */
static int digits(double points)
{
    double a = fabs(points);

    return a >= 0.095 || a == 0 ? 1 : a >= 0.0095 ? 2 : 3;
}

static void gap_words(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;
    double gap = 100 * s->gap, lo = 100 * s->ci.lo, hi = 100 * s->ci.hi;
    int d = digits(hi - lo);

    if (s->b + s->c == 0)
        infq_buf_str(to, "no item changed");
    else if (fabs(gap) < 0.5 * pow(10, -d))
        infq_buf_str(to, "the compressed model scores the same");
    else
        infq_buf_fmt(to, "the compressed model %s %.*f points", gap < 0 ? "loses" : "gains", d, fabs(gap));
    infq_buf_fmt(to, " (%.0f %% interval %+.*f to %+.*f)", 100 * (1 - 2 * v->policy->gate.alpha), d, lo, d, hi);
}

static void noise_words(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;
    double limit = 100 * s->band.limit;

    if (s->band_asked && !isnan(limit))
        infq_buf_fmt(to, "; the original's own run-to-run noise is +-%.*f", digits(limit), limit);
    else
        infq_buf_str(to, "; the original's run-to-run noise was not measured");
}

/* "1 point", "0.5 points" of a fraction. */
static void points(double fraction, infq_buf *to)
{
    infq_buf_fmt(to, "%g point%s", 100 * fraction, 100 * fraction == 1 ? "" : "s");
}

/* "12,345" */
static void grouped(int64_t n, infq_buf *to)
{
    char digits_of[32];
    int len = snprintf(digits_of, sizeof(digits_of), "%lld", (long long)n);

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && isdigit((unsigned char)digits_of[i - 1]))
            infq_buf_char(to, ',');
        infq_buf_char(to, digits_of[i]);
    }
}

static void more_items(int64_t n, bool expect_pass, infq_buf *to)
{
    if (n < 0) {
        infq_buf_str(to, "the gap lies at the margin, so no number of items would decide");
        return;
    }
    infq_buf_str(to, "about ");
    grouped(n, to);
    infq_buf_fmt(to, " more items would decide, most likely %s", expect_pass ? "pass" : "fail");
}

static void refuted(double margin, const char *side, double p, infq_buf *to)
{
    infq_buf_str(to, "a loss of ");
    points(margin, to);
    infq_buf_fmt(to, " or %s is refuted (p = %.3g)", side, p);
}

static void undecided_t1(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;

    if (s->band.reason == INFQ_BAND_NO_NOISE)
        infq_buf_str(to, "to say whether that is noise, measure it: infeval noise ORIGINAL, then --noise FILE");
    else if (s->band.reason == INFQ_BAND_NO_RUNS)
        infq_buf_str(to, "one run of an engine whose scores may vary: give several runs of both, or noise records, or declare it reproducible");
    else if (s->runs_needed > 0)
        infq_buf_fmt(to, "%d runs a side would decide whether that is noise, most likely %s", s->runs_needed,
                     infq_verdict_name(s->runs_expected));
    else
        infq_buf_fmt(to, "no number of runs up to %d would decide whether that is noise", INFQ_BAND_MAX_RUNS);
}

static const char *guard_words(infq_guard_kind k)
{
    static const char *const words[INFQ_GUARD_KINDS] = {
        "share of changed items", "rise of invalid answers", "rise of truncated answers", "ratio of mean lengths",
        "variance of runs over the original's", "mean KL divergence", "99 % KL divergence", "mean KL divergence", "equal top tokens",
        "ln of the perplexity ratio"};

    return words[k];
}

static void guard_line(const infq_guard *g, infq_buf *to)
{
    infq_buf_fmt(to, "%s %.4g", guard_words(g->kind), g->value);
    if (!isnan(g->ci.lo))
        infq_buf_fmt(to, " [%.4g, %.4g]", g->ci.lo, g->ci.hi);
    if (g->kind == INFQ_GUARD_JITTER)
        infq_buf_fmt(to, " (F test at %.4g)", g->limit);
    else
        infq_buf_fmt(to, " (limit %.4g)", g->limit);
}

static const infq_guard *deciding_guard(const infq_verdict_view *v)
{
    const infq_gate_suite *s = v->suite;
    const infq_guards *own = s->worst >= 0 ? &v->tasks[s->worst].guards : &s->guards;

    // an index into the suite's guards, unless only a task's guard has that verdict
    if (s->guard < s->guards.n && s->guards.g[s->guard].verdict == s->verdict)
        return &s->guards.g[s->guard];
    return &own->g[s->guard];
}

static void task_words(const infq_verdict_view *v, const infq_gate_task *t, infq_buf *to)
{
    infq_buf_fmt(to, "%s alone loses %.1f points ", t->task, -100 * t->gap);
    if (t->band_asked && t->band.verdict == INFQ_VERDICT_FAIL && t->t2 != INFQ_VERDICT_FAIL) {
        infq_buf_str(to, t->band.reason == INFQ_BAND_BEYOND_CAP ? "on these items, beyond the cap of " : "on these items, beyond its noise and the floor of ");
        points(t->band.reason == INFQ_BAND_BEYOND_CAP ? v->policy->gate.band.cap : v->policy->gate.band.floor, to);
    } else {
        infq_buf_fmt(to, "(p = %.3g after correction for %d tasks)", v->suite->worst_p, v->suite->n_tasks);
    }
}

static void reason_words(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;
    const infq_gate_options *o = &v->policy->gate;
    bool fail = s->verdict == INFQ_VERDICT_FAIL;

    switch (s->reason) {
    case INFQ_GATE_T1:
        if (!fail)
            undecided_t1(v, to);
        else if (s->band.reason == INFQ_BAND_BEYOND_CAP)
            infq_buf_str(to, "on these items it is beyond the cap of ");
        else
            infq_buf_str(to, "on these items it is beyond the noise and the floor of ");
        if (fail)
            points(s->band.reason == INFQ_BAND_BEYOND_CAP ? o->band.cap : o->band.floor, to);
        break;
    case INFQ_GATE_T2:
        if (fail)
            refuted(o->margin, "less", s->p_fail, to);
        else if (v->stop)
            infq_buf_str(to, "the items were used up before either side was refuted");
        else
            more_items(s->more_items, s->expect_pass, to);
        break;
    case INFQ_GATE_TASK:
        if (fail)
            task_words(v, &v->tasks[s->worst], to);
        else
            infq_buf_fmt(to, "%s alone is %s", v->tasks[s->worst].task,
                         v->tasks[s->worst].verdict == INFQ_VERDICT_FAIL ? "a fail before correction for the number of tasks" : "undecided");
        break;
    case INFQ_GATE_GUARD:
        guard_line(deciding_guard(v), to);
        break;
    case INFQ_GATE_SHIFT:
        infq_buf_fmt(to, "the shift is measurable (p = %.3g), which this policy does not let pass",
                     s->band.p_shift < o->alpha ? s->band.p_shift : s->p_degradation);
        break;
    case INFQ_GATE_MISSING:
        infq_buf_fmt(to, "the policy requires %s, which was not measured", s->missing);
        break;
    case INFQ_GATE_ALL:
        break;
    }
}

void infq_verdict_sentence(const infq_verdict_view *v, infq_buf *to)
{
    infq_buf_fmt(to, "%s: ", shouted[v->suite->verdict]);
    gap_words(v, to);
    noise_words(v, to);
    if (v->suite->verdict != INFQ_VERDICT_PASS) {
        infq_buf_str(to, "; ");
        reason_words(v, to);
    }
}

static void t1_text(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;
    const infq_band *b = &s->band;

    if (!s->band_asked) {
        infq_buf_str(to, "  T1 (these items): not asked; margin: policy, not noise\n");
        return;
    }
    infq_buf_fmt(to, "  T1 (these items): %s, %s; gap %+.3f", infq_verdict_name(b->verdict), infq_band_reason_name(b->reason), 100 * b->in.gap);
    if (b->in.se > 0)
        infq_buf_fmt(to, " [%+.3f, %+.3f] over runs", 100 * b->ci.lo, 100 * b->ci.hi);
    if (isnan(b->limit))
        infq_buf_fmt(to, "; margin: policy floor %g, not noise\n", 100 * v->policy->gate.band.floor);
    else
        infq_buf_fmt(to, "; noise limit %.3f, criterion %.3g (passes up to 0), floor %g, cap %g\n", 100 * b->limit, b->upper,
                     100 * v->policy->gate.band.floor, 100 * v->policy->gate.band.cap);
}

static void t2_text(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;
    double margin = v->policy->gate.margin;

    infq_buf_fmt(to, "  T2 (items like these): %s; ", infq_verdict_name(s->t2));
    if (s->t2 == INFQ_VERDICT_PASS) {
        refuted(margin, "more", s->p_pass, to);
    } else if (s->t2 == INFQ_VERDICT_FAIL) {
        refuted(margin, "less", s->p_fail, to);
    } else if (v->stop) {
        infq_buf_str(to, "neither side of ");
        points(margin, to);
        infq_buf_str(to, " is refuted");
    } else {
        more_items(s->more_items, s->expect_pass, to);
    }
    infq_buf_char(to, '\n');
}

static void stop_text(const infq_verdict_view *v, infq_buf *to)
{
    const infq_stop *st = v->stop;

    if (!st)
        return;
    infq_buf_fmt(to, "  stopped after %lld of %lld items (%s, order of seed %llu); the interval is not corrected for that\n",
                 (long long)st->n_seen, (long long)st->n_items, infq_stop_rule_name(st->rule), (unsigned long long)st->seed);
}

static void guards_text(const infq_verdict_view *v, infq_buf *to)
{
    for (int i = 0; i < v->suite->guards.n; i++) {
        const infq_guard *g = &v->suite->guards.g[i];
        infq_buf_fmt(to, "  guard %s: ", infq_guard_name(g->kind));
        if (g->measured) {
            infq_buf_fmt(to, "%s; ", infq_verdict_name(g->verdict));
            guard_line(g, to);
            infq_buf_char(to, '\n');
        } else {
            infq_buf_str(to, "not measured\n");
        }
    }
}

static void policy_text(const infq_verdict_view *v, infq_buf *to)
{
    infq_buf_fmt(to, "  policy: %s, sha256 %.16s, %s\n", v->policy->name, v->policy->sha256, v->policy_path ? v->policy_path : "built in");
    if (v->policy_late == 1)
        infq_buf_str(to, "  NOTE: the policy was written after the run began: it was not fixed beforehand\n");
    for (int i = 0; i < v->n_left_out; i++)
        infq_buf_fmt(to, "%s%s", i ? ", " : "  not in the policy, left out: ", v->left_out[i]);
    if (v->n_left_out)
        infq_buf_char(to, '\n');
}

/* What decided, a line each, indented by two blanks. */
static void reasons_text(const infq_verdict_view *v, infq_buf *to)
{
    const infq_gate_suite *s = v->suite;

    infq_buf_fmt(to, "  %lld items of %d task%s, %lld changed: %lld lost, %lld won", (long long)s->n, s->n_tasks, s->n_tasks == 1 ? "" : "s",
                 (long long)(s->b + s->c), (long long)s->b, (long long)s->c);
    if (s->n_tasks > 1 && s->variance_share > 1.5 / s->n_tasks)
        infq_buf_fmt(to, "; most of the uncertainty, %.0f %%, comes from %s", 100 * s->variance_share, v->tasks[s->most_variance].task);
    infq_buf_char(to, '\n');
    t1_text(v, to);
    t2_text(v, to);
    stop_text(v, to);
    if (s->verdict == INFQ_VERDICT_PASS && s->shift)
        infq_buf_fmt(to, "  the shift is measurable (p = %.3g), but inside the band\n",
                     s->band_asked && s->band.p_shift < v->policy->gate.alpha ? s->band.p_shift : s->p_degradation);
    else if (s->n_tasks == 1 && v->tasks[0].binary && !v->stop)
        infq_buf_fmt(to, "  exact McNemar test for any shift: p = %.4g\n", v->tasks[0].mcnemar.p_two_sided);
    guards_text(v, to);
    if (v->noise_source)
        infq_buf_fmt(to, "  noise: %s\n", v->noise_source);
    policy_text(v, to);
}

void infq_verdict_text(const infq_verdict_view *v, infq_buf *to)
{
    infq_verdict_sentence(v, to);
    infq_buf_char(to, '\n');
    reasons_text(v, to);
}

void infq_verdict_table(const infq_verdict_view *v, infq_buf *to)
{
    infq_buf_fmt(to, "%-32s %7s %-11s %8s %8s %8s  %-20s %5s %5s %7s  %s\n", "task", "items", "metric", "first", "second", "gap",
                 "interval of the gap", "lost", "won", "noise", "verdict");
    for (int i = 0; i < v->suite->n_tasks; i++) {
        const infq_gate_task *t = &v->tasks[i];
        char ci[48], noise[16];
        snprintf(ci, sizeof(ci), "[%+.4f, %+.4f]", t->ci.lo, t->ci.hi);
        snprintf(noise, sizeof(noise), t->band_asked && !isnan(t->band.limit) ? "%.4f" : "-", t->band.limit);
        infq_buf_fmt(to, "%-32.32s %7lld %-11s %8.4f %8.4f %+8.4f  %-20s %5lld %5lld %7s  %s\n", t->task, (long long)t->n, t->metric,
                     t->score_a, t->score_b, t->gap, ci, (long long)t->b, (long long)t->c, noise, infq_verdict_name(t->verdict));
    }
    for (int i = 0; i < v->n_groups; i++) {
        const infq_group_gap *g = &v->groups[i];
        char ci[48], words[64];
        snprintf(ci, sizeof(ci), "[%+.4f, %+.4f]", g->ci.lo, g->ci.hi);
        infq_group_words(g->group, words, sizeof(words));
        infq_buf_fmt(to, "%-32.32s %7lld %-11s %8.4f %8.4f %+8.4f  %-20s %5lld %5lld %7s  [%s]\n", g->group->name, (long long)g->n, "mean", g->score_a,
                     g->score_b, g->gap, ci, (long long)g->b, (long long)g->c, "", words);
    }
}

static void interval(infq_jw *w, const char *key, infq_interval ci)
{
    infq_jw_key(w, key);
    infq_jw_arr(w);
    infq_jw_f64(w, ci.lo);
    infq_jw_f64(w, ci.hi);
    infq_jw_end_arr(w);
}

static void band_json(bool asked, const infq_band *b, int runs_needed, infq_verdict expected, infq_jw *w)
{
    infq_jw_key(w, "t1");
    infq_jw_obj(w);
    infq_jw_key_bool(w, "asked", asked);
    if (asked) {
        infq_jw_key_str(w, "verdict", infq_verdict_name(b->verdict));
        infq_jw_key_str(w, "reason", infq_band_reason_name(b->reason));
        infq_jw_key_f64(w, "gap", b->in.gap);
        infq_jw_key_f64(w, "se", b->in.se);
        infq_jw_key_f64(w, "df", b->in.df);
        interval(w, "interval", b->ci);
        infq_jw_key_i64(w, "runs_first", b->in.runs_a);
        infq_jw_key_i64(w, "runs_second", b->in.runs_b);
        infq_jw_key_bool(w, "paired", b->in.paired);
        infq_jw_key_f64(w, "noise_sd", b->in.s);
        infq_jw_key_f64(w, "noise_df", b->in.nu);
        infq_jw_key_f64(w, "noise_limit", b->limit);
        infq_jw_key_f64(w, "upper", b->upper);
        infq_jw_key_f64(w, "lower", b->lower);
        infq_jw_key_f64(w, "p_floor", b->p_floor);
        infq_jw_key_f64(w, "p_cap", b->p_cap);
        infq_jw_key_f64(w, "p_beyond_floor", b->p_beyond_floor);
        infq_jw_key_f64(w, "p_beyond_cap", b->p_beyond_cap);
        infq_jw_key_f64(w, "p_shift", b->p_shift);
        infq_jw_key_str(w, "margin", isnan(b->limit) ? "policy floor, not noise" : "measured noise");
        if (b->verdict == INFQ_VERDICT_UNDECIDED && !isnan(b->limit)) {
            infq_jw_key_i64(w, "runs_needed", runs_needed);
            if (runs_needed > 0)
                infq_jw_key_str(w, "runs_expected", infq_verdict_name(expected));
        }
    }
    infq_jw_end_obj(w);
}

static void guards_json(const infq_guards *g, infq_jw *w)
{
    infq_jw_key(w, "guards");
    infq_jw_arr(w);
    for (int i = 0; i < g->n; i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "guard", infq_guard_name(g->g[i].kind));
        infq_jw_key_bool(w, "measured", g->g[i].measured);
        infq_jw_key_f64(w, "value", g->g[i].value);
        infq_jw_key_f64(w, "limit", g->g[i].limit);
        interval(w, "interval", g->g[i].ci);
        infq_jw_key_str(w, "verdict", infq_verdict_name(g->g[i].verdict));
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

/* What keeps a task from passing, "" if nothing does. */
static const char *task_reason(const infq_gate_task *t)
{
    if (t->verdict == INFQ_VERDICT_PASS)
        return "";
    if (t->band_asked && t->band.verdict == t->verdict)
        return infq_band_reason_name(t->band.reason);
    if (t->t2 == t->verdict)
        return t->t2 == INFQ_VERDICT_FAIL ? "loses more than the margin" : "too few items";
    return "a guard";
}

static void task_json(const infq_gate_task *t, infq_jw *w)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "task", t->task);
    infq_jw_key_str(w, "metric", t->metric);
    infq_jw_key_i64(w, "items", t->n);
    if (t->n_clusters != t->n)
        infq_jw_key_i64(w, "clusters", t->n_clusters);
    infq_jw_key_f64(w, "score_first", t->score_a);
    infq_jw_key_f64(w, "score_second", t->score_b);
    infq_jw_key_f64(w, "score_first_se", t->se_a);
    infq_jw_key_f64(w, "score_second_se", t->se_b);
    infq_jw_key_f64(w, "gap", t->gap);
    infq_jw_key_f64(w, "se", t->se);
    interval(w, "interval", t->ci);
    if (!isnan(t->bootstrap.lo))
        interval(w, "interval_bootstrap", t->bootstrap);
    infq_jw_key_i64(w, "lost", t->b);
    infq_jw_key_i64(w, "won", t->c);
    infq_jw_key_f64(w, "flip_rate", t->psi);
    infq_jw_key_f64(w, "flip_rate_of_first", t->psi0);
    infq_jw_key_str(w, "test", t->binary ? "tango" : t->n_clusters != t->n ? "clustered_t" : "paired_t");
    infq_jw_key_f64(w, "statistic", t->statistic);
    infq_jw_key_f64(w, "p_pass", t->p_pass);
    infq_jw_key_f64(w, "p_fail", t->p_fail);
    if (!isnan(t->p_exact))
        infq_jw_key_f64(w, "p_exact", t->p_exact);
    infq_jw_key_str(w, "t2", infq_verdict_name(t->t2));
    band_json(t->band_asked, &t->band, t->runs_needed, t->runs_expected, w);
    guards_json(&t->guards, w);
    if (t->binary) {
        infq_jw_key_f64(w, "mcnemar_p_two_sided", t->mcnemar.p_two_sided);
        infq_jw_key_f64(w, "mcnemar_p_degradation", t->mcnemar.p_degradation);
    }
    infq_jw_key_f64(w, "p_shift", t->p_shift);
    if (!isnan(t->p_labels))
        infq_jw_key_f64(w, "p_run_labels", t->p_labels);
    if (!isnan(t->crossed.mean)) {
        infq_jw_key(w, "items_by_runs");
        infq_jw_obj(w);
        infq_jw_key_f64(w, "var_item", t->crossed.var_item);
        infq_jw_key_f64(w, "var_run", t->crossed.var_run);
        infq_jw_key_f64(w, "se_both", t->crossed.se_both);
        infq_jw_key_f64(w, "se_items_only", t->crossed.se_items_only);
        infq_jw_key_f64(w, "se_runs_only", t->crossed.se_runs_only);
        infq_jw_end_obj(w);
    }
    infq_jw_key_f64(w, "noise_limit", t->band_asked ? t->band.limit : NAN);
    infq_jw_key_str(w, "reason", task_reason(t));
    infq_jw_key_str(w, "verdict", infq_verdict_name(t->verdict));
    if (t->t2 == INFQ_VERDICT_UNDECIDED) {
        infq_jw_key_i64(w, "more_items", t->more_items);
        infq_jw_key_i64(w, "more_items_without_gap", t->more_items_no_gap);
        infq_jw_key_str(w, "expected", t->expect_pass ? "pass" : "fail");
    }
    infq_jw_end_obj(w);
}

static void group_json(infq_jw *w, const char *key, const infq_group_se *g)
{
    infq_jw_key(w, key);
    infq_jw_obj(w);
    infq_jw_key_f64(w, "equal_weights", g->equal);
    infq_jw_key_f64(w, "by_size", g->by_size);
    infq_jw_key_f64(w, "pooled", g->pooled);
    infq_jw_end_obj(w);
}

static void suite_json(const infq_verdict_view *v, infq_jw *w)
{
    const infq_gate_suite *s = v->suite;

    infq_jw_key(w, "suite");
    infq_jw_obj(w);
    infq_jw_key_i64(w, "tasks", s->n_tasks);
    infq_jw_key_i64(w, "items", s->n);
    infq_jw_key_f64(w, "score_first", s->score_a);
    infq_jw_key_f64(w, "score_second", s->score_b);
    group_json(w, "score_first_se", &s->group_a);
    group_json(w, "score_second_se", &s->group_b);
    infq_jw_key_f64(w, "gap", s->gap);
    infq_jw_key_f64(w, "se", s->se);
    interval(w, "interval", s->ci);
    infq_jw_key_i64(w, "lost", s->b);
    infq_jw_key_i64(w, "won", s->c);
    infq_jw_key_f64(w, "statistic", s->statistic);
    infq_jw_key_f64(w, "p_pass", s->p_pass);
    infq_jw_key_f64(w, "p_fail", s->p_fail);
    infq_jw_key_str(w, "t2", infq_verdict_name(s->t2));
    band_json(s->band_asked, &s->band, s->runs_needed, s->runs_expected, w);
    guards_json(&s->guards, w);
    infq_jw_key_f64(w, "noise_limit", s->band_asked ? s->band.limit : NAN);
    infq_jw_key_f64(w, "margin", v->policy->gate.margin);
    infq_jw_key_f64(w, "alpha", v->policy->gate.alpha);
    infq_jw_key_f64(w, "worst_task_p_fail_adjusted", s->worst_p);
    if (s->worst >= 0)
        infq_jw_key_str(w, "worst_task", v->tasks[s->worst].task);
    infq_jw_key_str(w, "most_variance", v->tasks[s->most_variance].task);
    infq_jw_key_f64(w, "variance_share", s->variance_share);
    infq_jw_key_f64(w, "p_degradation", s->p_degradation);
    infq_jw_key_bool(w, "shift_measurable", s->shift);
    infq_jw_key_str(w, "reason", infq_gate_reason_name(s->reason));
    if (s->missing)
        infq_jw_key_str(w, "missing", s->missing);
    if (s->t2 == INFQ_VERDICT_UNDECIDED) {
        infq_jw_key_i64(w, "more_items", s->more_items);
        infq_jw_key_str(w, "expected", s->expect_pass ? "pass" : "fail");
    }
    infq_jw_end_obj(w);
}

static void groups_json(const infq_verdict_view *v, infq_jw *w)
{
    infq_jw_key(w, "groups");
    infq_jw_arr(w);
    for (int i = 0; i < v->n_groups; i++) {
        const infq_group_gap *g = &v->groups[i];
        char words[64];
        infq_group_words(g->group, words, sizeof(words));
        infq_jw_obj(w);
        infq_jw_key_str(w, "group", g->group->name);
        infq_jw_key_str(w, "mean", words);
        infq_jw_key_i64(w, "items", g->n);
        infq_jw_key_f64(w, "score_first", g->score_a);
        infq_jw_key_f64(w, "score_second", g->score_b);
        infq_jw_key_f64(w, "gap", g->gap);
        infq_jw_key_f64(w, "se", g->se);
        interval(w, "interval", g->ci);
        infq_jw_key_i64(w, "lost", g->b);
        infq_jw_key_i64(w, "won", g->c);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void stop_json(const infq_stop *st, infq_jw *w)
{
    infq_jw_key(w, "stop");
    infq_jw_obj(w);
    infq_jw_key_str(w, "rule", infq_stop_rule_name(st->rule));
    infq_jw_key_i64(w, "seed", (int64_t)st->seed);
    infq_jw_key_i64(w, "items_seen", st->n_seen);
    infq_jw_key_i64(w, "items_scheduled", st->n_steps);
    infq_jw_key_i64(w, "items", st->n_items);
    infq_jw_key_str(w, "t2", infq_verdict_name(st->t2));
    infq_jw_key_i64(w, "looks", st->look);
    infq_jw_key_f64(w, "z", st->z);
    infq_jw_key_f64(w, "bound", st->bound);
    infq_jw_end_obj(w);
}

void infq_verdict_numbers_json(const infq_verdict_view *v, infq_jw *w)
{
    infq_jw_key(w, "tasks");
    infq_jw_arr(w);
    for (int i = 0; i < v->suite->n_tasks; i++)
        task_json(&v->tasks[i], w);
    infq_jw_end_arr(w);
    suite_json(v, w);
}

static void words_json(const infq_verdict_view *v, infq_jw *w)
{
    infq_buf text;

    infq_buf_init(&text);
    infq_verdict_sentence(v, &text);
    infq_jw_key_str(w, "summary", text.data);
    infq_buf_clear(&text);
    reasons_text(v, &text);
    infq_jw_key(w, "reasons");
    infq_jw_arr(w);
    for (size_t at = 0; at < text.n;) {
        size_t len = strcspn(text.data + at, "\n"), blanks = strspn(text.data + at, " ");
        infq_jw_strn(w, text.data + at + blanks, len - blanks);
        at += len + 1;
    }
    infq_jw_end_arr(w);
    infq_buf_deinit(&text);
}

void infq_verdict_json(const infq_verdict_view *v, infq_jw *w)
{
    infq_verdict_numbers_json(v, w);
    if (v->n_groups > 0)
        groups_json(v, w);
    if (v->stop)
        stop_json(v->stop, w);
    infq_jw_key(w, "policy");
    infq_policy_write(v->policy, w);
    infq_jw_key_str(w, "policy_sha256", v->policy->sha256);
    infq_jw_key_str(w, "policy_file", v->policy_path ? v->policy_path : "");
    if (v->policy_late >= 0)
        infq_jw_key_bool(w, "policy_written_before_the_run", v->policy_late == 0);
    infq_jw_key(w, "left_out");
    infq_jw_arr(w);
    for (int i = 0; i < v->n_left_out; i++)
        infq_jw_str(w, v->left_out[i]);
    infq_jw_end_arr(w);
    if (v->noise_source)
        infq_jw_key_str(w, "noise_source", v->noise_source);
    words_json(v, w);
    infq_jw_key_str(w, "verdict", infq_verdict_name(v->suite->verdict));
}
