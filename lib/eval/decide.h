/* From paired items to a verdict under a policy: what `infeval gate`, `infeval A B` and recipes share. */
#ifndef INFQ_EVAL_DECIDE_H
#define INFQ_EVAL_DECIDE_H

#include "lib/eval/policy.h"
#include "lib/eval/stopping.h"

typedef struct {
    infq_pair *const *pairs;        /* [n], changed by early stopping: cut to what was seen */
    int n;
    const infq_policy *policy;
    const infq_noise *noise_a, *noise_b; /* records of the original and of the compressed model, or NULL */
    bool paired_runs;               /* several runs a side were made under one list of variations, j with j */
    const infq_distance *distance;  /* or NULL */
    bool sequential;                /* look at the items in the policy's random order and stop when they decide */
    const infq_stopper *stopper;    /* a run that has stopped already, pairs holding what it saw; or NULL */
} infq_decision_input;

typedef struct {
    int n;                          /* tasks that decide */
    infq_gate_task *tasks;
    infq_gate_suite suite;
    bool stopped;
    infq_stop stop;                 /* when stopped */
    int n_left_out;
    char (*left_out)[128];          /* tasks that the policy does not list */
} infq_decision;

/* MISMATCH when the policy lists a task that is not there, or a noise record does not fit. USAGE when stopping early is asked of several runs a side.
 * infq_decision_free afterwards, also after failure. */
infq_status infq_decide(const infq_decision_input *in, infq_decision *out, infq_err *err);
void infq_decision_free(infq_decision *d);

/* Largest gap at which T1 can pass when it rests on the items at hand; INFINITY when it rests on runs, or is not asked. */
double infq_decision_gap_limit(const infq_policy *p, const infq_noise *noise_a, const infq_noise *noise_b);

#endif
