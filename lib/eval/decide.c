#include "lib/eval/decide.h"

#include <math.h>
#include <string.h>

#include "lib/base/mem.h"

double infq_decision_gap_limit(const infq_policy *p, const infq_noise *noise_a, const infq_noise *noise_b)
{
    const infq_gate_options *g = &p->gate;
    infq_noise_suite s;
    double limit;

    if (g->noise == INFQ_NOISE_OFF || (noise_a && noise_b) || (!noise_a && g->noise == INFQ_NOISE_REQUIRED))
        return INFINITY;
    if (!noise_a)
        return g->band.floor;
    s = infq_noise_suite_of(noise_a);
    limit = g->band.kappa * M_SQRT2 * s.sd * sqrt(s.nu / infq_chi2_quantile(1 - g->band.alpha, s.nu));
    return limit > g->band.floor ? limit : g->band.floor;
}

/* Pairs that the policy lists, in its order if it has one; the others are left out. */
static infq_status choose(const infq_decision_input *in, infq_pair **chosen, infq_decision *out, infq_err *err)
{
    const infq_policy *p = in->policy;
    int n = 0;

    for (int i = 0; i < p->n_tasks; i++) {
        bool there = false;
        for (int k = 0; k < in->n && !there; k++)
            there = strcmp(in->pairs[k]->task, p->tasks[i].task) == 0;
        if (!there)
            return infq_err_set(err, INFQ_E_MISMATCH, "the policy asks for task %s, which has no items", p->tasks[i].task);
    }
    for (int k = 0; k < in->n; k++) {
        if (infq_policy_find(p, in->pairs[k]->task))
            chosen[n++] = in->pairs[k];
        else
            memcpy(out->left_out[out->n_left_out++], in->pairs[k]->task, sizeof(*out->left_out));
    }
    if (n == 0)
        return infq_err_set(err, INFQ_E_USAGE, "no task to decide on");
    out->n = n;
    return 0;
}

/* Early stopping over stored items: d in the schedule's order, then the pairs are cut to what was seen. */
static infq_status stop_early(const infq_decision_input *in, infq_pair **pairs, infq_schedule *s, infq_stopper **stopper, infq_err *err)
{
    int n = s->n_tasks;
    double **d = NULL;
    int64_t *counts = NULL;
    bool done;
    infq_status st;

    INFQ_TRY(infq_stopper_new(in->policy, s, infq_decision_gap_limit(in->policy, in->noise_a, in->noise_b), stopper, err));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*d), "differences", (void **)&d, err));
    memset(d, 0, (size_t)n * sizeof(*d));
    st = infq_mem_new((size_t)n, sizeof(*counts), "items seen", (void **)&counts, err);
    for (int t = 0; t < n && !st; t++) {
        st = infq_mem_new((size_t)pairs[t]->n, sizeof(**d), "differences", (void **)&d[t], err);
        for (int64_t i = 0; i < pairs[t]->n && !st; i++)
            d[t][i] = pairs[t]->d[s->order[t][i]];
    }
    if (!st) {
        infq_stopper_advance(*stopper, (const double *const *)d, s->n_items, &done);
        infq_schedule_counts(s, infq_stopper_seen(*stopper), counts);
    }
    for (int t = 0; t < n && !st; t++)
        if (counts[t] > 0)
            st = infq_pair_cut(pairs[t], s->order[t], counts[t], err);
    for (int t = 0; t < n; t++)
        infq_mem_free(d[t]);
    infq_mem_free(d);
    infq_mem_free(counts);
    return st;
}

static infq_status make_schedule(const infq_decision_input *in, infq_pair **pairs, int n, infq_schedule **s, infq_err *err)
{
    int64_t *sizes = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*sizes), "numbers of items", (void **)&sizes, err));
    st = 0;
    for (int t = 0; t < n && !st; t++) {
        sizes[t] = pairs[t]->n;
        if (pairs[t]->runs_a > 1 || pairs[t]->runs_b > 1)
            st = infq_err_set(err, INFQ_E_USAGE, "%s: items of several runs cannot be stopped early", pairs[t]->task);
    }
    if (!st)
        st = infq_schedule_new(sizes, n, in->policy->gate.weights, in->policy->seed, s, err);
    infq_mem_free(sizes);
    return st;
}

static infq_status judge(const infq_decision_input *in, infq_pair **pairs, const infq_stopper *stopper, infq_decision *out, infq_err *err)
{
    infq_gate_stopped stopped;

    for (int t = 0; t < out->n; t++) {
        infq_gate_options o = infq_policy_options(in->policy, infq_policy_find(in->policy, pairs[t]->task));
        INFQ_TRY(infq_gate_pair(pairs[t], in->noise_a, in->noise_b, in->paired_runs, out->n, &o, &out->tasks[t], err));
        if (stopper)
            infq_stopper_task(stopper, t, &o, &out->tasks[t]);
    }
    if (stopper) {
        out->stopped = true;
        out->stop = infq_stopper_result(stopper);
        stopped = (infq_gate_stopped){out->stop.t2, out->stop.p_pass, out->stop.p_fail};
    }
    return infq_gate_combine(out->tasks, out->n, in->distance, stopper ? &stopped : NULL, &in->policy->gate, &out->suite, err);
}

infq_status infq_decide(const infq_decision_input *in, infq_decision *out, infq_err *err)
{
    infq_pair **pairs = NULL;
    infq_schedule *s = NULL;
    infq_stopper *own = NULL;
    size_t room = (size_t)(in->n > 0 ? in->n : 1);
    infq_status st;

    memset(out, 0, sizeof(*out));
    INFQ_TRY(infq_mem_new(room, sizeof(*pairs), "tasks", (void **)&pairs, err));
    st = infq_mem_new(room, sizeof(*out->tasks), "tasks", (void **)&out->tasks, err);
    if (!st)
        st = infq_mem_new(room, sizeof(*out->left_out), "tasks left out", (void **)&out->left_out, err);
    if (!st)
        st = choose(in, pairs, out, err);
    if (!st && in->sequential && !in->stopper) {
        st = make_schedule(in, pairs, out->n, &s, err);
        if (!st)
            st = stop_early(in, pairs, s, &own, err);
    }
    if (!st)
        st = judge(in, pairs, own ? own : in->stopper, out, err);
    infq_stopper_free(own);
    infq_schedule_free(s);
    infq_mem_free(pairs);
    return st;
}

void infq_decision_free(infq_decision *d)
{
    infq_mem_free(d->tasks);
    infq_mem_free(d->left_out);
    memset(d, 0, sizeof(*d));
}
