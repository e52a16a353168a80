/* Early stopping over the items of a suite (specs 2.9): the order of items, and the rule that looks at them.
 *
 * A schedule fixes before the run which item comes when. Each step draws a task with its weight in the suite and takes that task's next item in an order
 * of its own, so that the difference of every step has the suite's gap as its mean, whatever came before: what betting needs. It ends with the first task
 * that has no item left (equal weights), or with all items (weights by size). */
#ifndef INFQ_EVAL_STOPPING_H
#define INFQ_EVAL_STOPPING_H

#include "lib/eval/policy.h"

typedef struct {
    int n_tasks;
    int64_t n_steps;
    int32_t *task;        /* [n_steps] task of each step */
    int64_t **order;      /* [n_tasks] permutation of the task's items */
    int64_t *n_items;     /* [n_tasks] */
} infq_schedule;
infq_status infq_schedule_new(const int64_t *n_items, int n_tasks, infq_gate_weights weights, uint64_t seed, infq_schedule **out,
                              infq_err *err);
void infq_schedule_free(infq_schedule *s);
/* counts[n_tasks]: items of each task among the first `steps` steps. */
void infq_schedule_counts(const infq_schedule *s, int64_t steps, int64_t *counts);

/* What a stopped run says; valid however often it was asked. */
typedef struct {
    infq_stop_rule rule;
    uint64_t seed;
    int64_t n_seen, n_steps, n_items; /* steps looked at, in the schedule, items there are */
    infq_verdict t2;                  /* of the suite */
    int task;                         /* a single task that failed, -1 */
    double p_pass, p_fail;            /* betting: 1 / max E, 1 / max G, valid at any time; otherwise NAN */
    int look;                         /* error spending: looks taken, with the last statistic and its bound */
    double z, bound;
} infq_stop;

typedef struct infq_stopper infq_stopper;
/* gap_limit: a pass stops only while the gap so far is smaller than this (the floor, when T1 rests on it; INFINITY otherwise). The schedule is borrowed. */
infq_status infq_stopper_new(const infq_policy *p, const infq_schedule *s, double gap_limit, infq_stopper **out, infq_err *err);
void infq_stopper_free(infq_stopper *s);
/* Takes the steps that the items at hand allow: d[t][i] is the difference of the i-th item of task t in schedule order, have[t] their number. *done when
 * the verdict stands or the schedule ends. */
void infq_stopper_advance(infq_stopper *s, const double *const *d, const int64_t *have, bool *done);
int64_t infq_stopper_seen(const infq_stopper *s);
infq_stop infq_stopper_result(const infq_stopper *s);
/* Replaces the fixed-size T2 of a task that was seen in part by what betting says of it alone. t: index in the schedule. */
void infq_stopper_task(const infq_stopper *s, int t, const infq_gate_options *o, infq_gate_task *task);

#endif
