#include "lib/eval/self_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/eval/resample.h"


static const char *const state_names[] = {"ok", "too few", "broken"};

/* Largest share of wrong answers that a simulation of a right one shows once in a thousand times. */
static double slack(double rate, int64_t n)
{
    return rate + 3.1 * sqrt(rate * (1 - rate) / (double)n);
}

/* Losses and gains of 0/1 items that change as often as these, with this gap. */
static void draw_counts(const infq_pair *p, double gap, infq_splitmix *r, int64_t *b, int64_t *c)
{
    double psi = 0, lost;

    for (int64_t i = 0; i < p->n; i++)
        psi += p->d[i] != 0;
    psi /= (double)p->n;
    psi = psi < fabs(gap) ? fabs(gap) : psi;
    lost = (psi - gap) / 2;
    *b = *c = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double u = infq_splitmix_unit(r);
        *b += u < lost;
        *c += u >= lost && u < psi;
    }
}

/* What a suite takes from a task: a test of its own is not asked. */
static void set_counts(int64_t b, int64_t c, int64_t n, infq_gate_task *t)
{
    *t = (infq_gate_task){.binary = true, .n = n, .b = b, .c = c, .gap = (double)(c - b) / (double)n, .p_fail = 1, .p_exact = NAN};
    t->psi = (double)(b + c) / (double)n;
    t->se = sqrt((t->psi - t->gap * t->gap) / (double)(n - 1));
}

/* One resampled task: signs drawn anew, then a gap planted. */
static infq_status draw_task(const infq_pair *p, double gap, infq_splitmix *r, double *d, const infq_gate_options *o, infq_gate_task *t,
                             infq_err *err)
{
    int64_t b, c;

    if (p->binary && !p->cluster) {
        draw_counts(p, gap, r, &b, &c);
        set_counts(b, c, p->n, t);
        return 0;
    }
    for (int64_t i = 0; i < p->n; i++) {
        // clusters keep their sign together, so that what they share stays shared
        infq_splitmix own = infq_splitmix_seed(r->state ^ (uint64_t)(p->cluster ? p->cluster[i] : 0) * 0x9e3779b97f4a7c15u);
        uint64_t sign = p->cluster ? infq_splitmix_next(&own) : infq_splitmix_next(r);
        d[i] = gap + (sign >> 63 ? p->d[i] : -p->d[i]);
    }
    infq_splitmix_next(r);
    return infq_gate_graded_quick(d, p->cluster, p->n, o, t, err);
}

/* Rates for a single task of 0/1 items, whose test is exact where few items change: every pair of small counts is asked once. */
#define MEMO 128
static infq_status count_rates(const infq_pair *p, const infq_gate_options *o, double gap, uint64_t seed, infq_rates *out, infq_err *err)
{
    int8_t *memo = NULL; /* verdict + 1; 0: not asked yet */
    int64_t count[3] = {0};

    INFQ_TRY(infq_mem_new(MEMO * MEMO, 1, "verdicts", (void **)&memo, err));
    memset(memo, 0, MEMO * MEMO);
    for (int64_t j = 0; j < INFQ_SELF_CHECK_DRAWS; j++) {
        infq_splitmix r = infq_splitmix_seed(seed + (uint64_t)j * 0x632be59bd9b4e019u);
        int64_t b, c;
        double exact;
        infq_verdict v;
        draw_counts(p, gap, &r, &b, &c);
        if (b < MEMO && c < MEMO && memo[b * MEMO + c])
            v = (infq_verdict)(memo[b * MEMO + c] - 1);
        else
            v = infq_gate_t2(b, c, p->n, o->margin, o->alpha, &exact);
        if (b < MEMO && c < MEMO)
            memo[b * MEMO + c] = (int8_t)(v + 1);
        count[v]++;
    }
    infq_mem_free(memo);
    *out = (infq_rates){(double)count[INFQ_VERDICT_PASS] / INFQ_SELF_CHECK_DRAWS, (double)count[INFQ_VERDICT_FAIL] / INFQ_SELF_CHECK_DRAWS};
    return 0;
}

/* Rates of the suite's T2 when every task has this gap. */
static infq_status t2_rates(infq_pair *const *pairs, int n, const infq_policy *p, double gap, uint64_t seed, infq_rates *out, infq_err *err)
{
    infq_gate_options bare = p->gate;
    infq_gate_task *t = NULL;
    double *d = NULL;
    int64_t longest = 1, pass = 0, fail = 0;
    infq_status st;

    if (n == 1 && pairs[0]->binary && !pairs[0]->cluster)
        return count_rates(pairs[0], &p->gate, gap, seed, out, err);
    bare.noise = INFQ_NOISE_OFF;
    for (int k = 0; k < n; k++)
        longest = pairs[k]->n > longest ? pairs[k]->n : longest;
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*t), "tasks", (void **)&t, err));
    memset(t, 0, (size_t)n * sizeof(*t));
    st = infq_mem_new((size_t)longest, sizeof(*d), "differences", (void **)&d, err);
    for (int64_t j = 0; j < INFQ_SELF_CHECK_DRAWS && !st; j++) {
        infq_splitmix r = infq_splitmix_seed(seed + (uint64_t)j * 0x632be59bd9b4e019u);
        infq_gate_suite s;
        for (int k = 0; k < n && !st; k++)
            st = draw_task(pairs[k], gap, &r, d, &bare, &t[k], err);
        if (!st)
            st = infq_gate_combine(t, n, NULL, NULL, &bare, &s, err);
        if (!st) {
            pass += s.t2 == INFQ_VERDICT_PASS;
            fail += s.t2 == INFQ_VERDICT_FAIL;
        }
    }
    infq_mem_free(d);
    infq_mem_free(t);
    *out = (infq_rates){(double)pass / INFQ_SELF_CHECK_DRAWS, (double)fail / INFQ_SELF_CHECK_DRAWS};
    return st;
}

static void add_row(infq_self_check *c, const char *what, infq_rates rates, double wanted, infq_check_state state)
{
    infq_check_row *r = &c->rows[c->n++];

    snprintf(r->what, sizeof(r->what), "%s", what);
    r->rates = rates;
    r->wanted = wanted;
    r->state = state;
}

/* A rate that must stay below a bound. */
static infq_check_state bounded(double rate, double bound, int64_t n_draws)
{
    return rate > slack(bound, n_draws) ? INFQ_CHECK_BROKEN : INFQ_CHECK_OK;
}

static infq_status check_items(infq_pair *const *pairs, int n, const infq_policy *p, infq_self_check *c, infq_err *err)
{
    const infq_gate_options *o = &p->gate;
    infq_gate_task *t = NULL;
    infq_gate_suite s;
    infq_rates r;
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*t), "tasks", (void **)&t, err));
    memset(t, 0, (size_t)n * sizeof(*t));
    for (int k = 0; k < n; k++)
        infq_gate_binary(0, 0, pairs[k]->n, o, &t[k]);
    st = infq_gate_combine(t, n, NULL, NULL, o, &s, err);
    infq_mem_free(t);
    if (st)
        return st;
    add_row(c, "T2, the original against itself: passes", (infq_rates){s.t2 == INFQ_VERDICT_PASS, s.t2 == INFQ_VERDICT_FAIL}, 1,
            s.t2 == INFQ_VERDICT_PASS ? INFQ_CHECK_OK : s.t2 == INFQ_VERDICT_FAIL ? INFQ_CHECK_BROKEN : INFQ_CHECK_WEAK);
    INFQ_TRY(t2_rates(pairs, n, p, 0, 1, &r, err));
    add_row(c, "T2, these changes with signs drawn anew (gap 0): passes", r, o->power,
            bounded(r.fail, o->alpha, INFQ_SELF_CHECK_DRAWS) == INFQ_CHECK_BROKEN ? INFQ_CHECK_BROKEN
            : r.pass < o->power ? INFQ_CHECK_WEAK : INFQ_CHECK_OK);
    INFQ_TRY(t2_rates(pairs, n, p, -o->margin, 2, &r, err));
    // the tests of large samples are approximate: 0.2 points beyond alpha is their own, not a fault of the gate
    add_row(c, "T2, a loss planted at the margin: passes or fails at most so often", r, o->alpha,
            bounded(r.pass > r.fail ? r.pass : r.fail, o->alpha + 0.002, INFQ_SELF_CHECK_DRAWS));
    INFQ_TRY(t2_rates(pairs, n, p, -2 * o->band.cap, 3, &r, err));
    add_row(c, "T2, a loss of twice the cap planted: fails", r, o->power,
            r.pass > slack(o->alpha, INFQ_SELF_CHECK_DRAWS) && 2 * o->band.cap > o->margin ? INFQ_CHECK_BROKEN
            : r.fail < o->power ? INFQ_CHECK_WEAK : INFQ_CHECK_OK);
    return 0;
}

/* T1 with the design at hand. */
static infq_status check_runs(const infq_decision *d, const infq_policy *p, infq_self_check *c, infq_err *err)
{
    const infq_band_input *in = &d->tasks[0].band.in;
    const double gaps[3] = {0, -1, -2 * p->gate.band.cap / d->suite.band.limit};
    infq_band_design design = {.runs_a = in->runs_a, .runs_b = in->runs_b, .sd_b = 1, .band = p->gate.band};
    infq_rates r[3];

    if (!d->suite.band_asked || !(d->suite.band.limit > 0) || in->runs_a < 2 || in->runs_b < 2)
        return 0;
    design.sd_b = in->sd_a > 0 ? in->sd_b / in->sd_a : 1;
    if (in->paired && in->sd_a > 0 && in->sd_b > 0) {
        double rho = (in->sd_a * in->sd_a + in->sd_b * in->sd_b - in->sd_pair * in->sd_pair) / (2 * in->sd_a * in->sd_b);
        design.paired = true;
        design.rho = rho < -1 ? -1 : rho > 1 ? 1 : rho;
    }
    INFQ_TRY(infq_simulate_band(&design, gaps, 3, 20000, 4, r, err));
    add_row(c, "T1, no gap, with these runs: passes", r[0], p->gate.power,
            bounded(r[0].fail, p->gate.alpha, 20000) == INFQ_CHECK_BROKEN ? INFQ_CHECK_BROKEN
            : r[0].pass < p->gate.power ? INFQ_CHECK_WEAK : INFQ_CHECK_OK);
    add_row(c, "T1, a gap at the noise limit: passes or fails at most so often", r[1], p->gate.alpha,
            bounded(r[1].pass > r[1].fail ? r[1].pass : r[1].fail, p->gate.alpha + 0.002, 20000));
    add_row(c, "T1, a loss of twice the cap: fails", r[2], p->gate.power, r[2].fail < p->gate.power ? INFQ_CHECK_WEAK : INFQ_CHECK_OK);
    return 0;
}

infq_status infq_self_check_run(infq_pair *const *pairs, int n, const infq_decision *d, const infq_policy *p, infq_self_check *out,
                                infq_err *err)
{
    infq_self_check c = {.verdict = INFQ_VERDICT_PASS};

    INFQ_TRY(check_items(pairs, n, p, &c, err));
    INFQ_TRY(check_runs(d, p, &c, err));
    for (int i = 0; i < c.n; i++) {
        if (c.rows[i].state == INFQ_CHECK_BROKEN)
            c.verdict = INFQ_VERDICT_FAIL;
        else if (c.rows[i].state == INFQ_CHECK_WEAK && c.verdict == INFQ_VERDICT_PASS)
            c.verdict = INFQ_VERDICT_UNDECIDED;
    }
    *out = c;
    return 0;
}

void infq_self_check_text(const infq_self_check *c, infq_buf *to)
{
    static const char *const words[] = {"the gate answers rightly on items like these",
                                        "the gate is WRONG on items like these more often than stated",
                                        "nothing is wrong, but these items or runs are too few for the power that the policy states"};

    infq_buf_fmt(to, "self-check: %s\n", words[c->verdict]);
    infq_buf_fmt(to, "%-68s %8s %8s %8s  %s\n", "case", "pass", "fail", "wanted", "state");
    for (int i = 0; i < c->n; i++)
        infq_buf_fmt(to, "%-68s %8.4f %8.4f %8.4f  %s\n", c->rows[i].what, c->rows[i].rates.pass, c->rows[i].rates.fail, c->rows[i].wanted,
                     state_names[c->rows[i].state]);
}

void infq_self_check_json(const infq_self_check *c, infq_jw *w)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "schema", "infq.gate-self-check.v1");
    infq_jw_key(w, "cases");
    infq_jw_arr(w);
    for (int i = 0; i < c->n; i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "case", c->rows[i].what);
        infq_jw_key_f64(w, "pass", c->rows[i].rates.pass);
        infq_jw_key_f64(w, "fail", c->rows[i].rates.fail);
        infq_jw_key_f64(w, "wanted", c->rows[i].wanted);
        infq_jw_key_str(w, "state", state_names[c->rows[i].state]);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_key_str(w, "verdict", infq_verdict_name(c->verdict));
    infq_jw_end_obj(w);
}
