/* infeval ORIGINAL COMPRESSED --sequential: both models go through the items in one random order and stop when the items have decided. */
#include <math.h>
#include <string.h>

#include "tools/cmd_eval.h"

#define CHUNK 16 /* items of every task between two looks, on average */

typedef struct {
    int64_t target;
} hook_state;

static infq_status stop_at_target(void *ctx, const infq_items *items, bool *stop, infq_err *err)
{
    (void)err;
    *stop = infq_items_count(items) >= ((const hook_state *)ctx)->target;
    return 0;
}

typedef struct {
    eval_run *r;
    const eval_model *models[2];
    infq_item_log *logs[2][EVAL_MAX_TASKS];
    const infq_schedule *schedule;
    int64_t *counts;          /* [n_tasks] items wanted, then items at hand */
    double **d;               /* [n_tasks][items] differences in schedule order */
    int64_t *have;            /* differences filled in */
} sequential;

static infq_status score_to(sequential *q, int m, int k, int64_t target, const infq_log *log, infq_err *err)
{
    eval_task *t = &q->r->tasks[k];
    infq_score_options so = infq_score_options_default();
    hook_state h = { target };

    if (infq_items_count(t->items[m]) >= target)
        return 0;
    so.bos = q->r->bos;
    so.batch = q->r->o->batch;
    so.log = log;
    so.order = q->schedule->order[k];
    so.hook = stop_at_target;
    so.hook_ctx = &h;
    return infq_score_task(q->models[m]->model, q->models[m]->tok, t->task, &so, t->items[m], q->logs[m][k], err);
}

/* Differences of the items that both models have. */
static infq_status take_differences(sequential *q, int k, infq_err *err)
{
    eval_task *t = &q->r->tasks[k];
    const infq_policy_task *listed = infq_policy_find(&q->r->policy, infq_task_name(t->task));
    const char *metric = infq_policy_metric(&q->r->policy, listed);
    int64_t a = infq_items_count(t->items[0]), b = infq_items_count(t->items[1]), n = a < b ? a : b;
    double sign;

    metric = metric ? metric : infq_task_metric(t->task);
    sign = infq_metric_sign(metric);
    for (int64_t i = q->have[k]; i < n; i++) {
        const infq_item *x = infq_items_get(t->items[0], i), *y = infq_items_get(t->items[1], i);
        double vx, vy;
        if (!infq_item_metric_get(x, metric, &vx) || !infq_item_metric_get(y, metric, &vy))
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: document %lld has no metric %s", infq_task_name(t->task), (long long)x->doc,
                                metric);
        q->d[k][i] = sign * (vy - vx);
    }
    q->have[k] = n;
    return 0;
}

static infq_status run_until_decided(sequential *q, const infq_log *log, infq_err *err)
{
    int n = q->schedule->n_tasks;
    bool done = false;

    for (int64_t steps = 0; !done;) {
        steps += (int64_t)CHUNK * n;
        infq_schedule_counts(q->schedule, steps, q->counts);
        for (int k = 0; k < n; k++) {
            INFQ_TRY(score_to(q, 0, k, q->counts[k], log, err));
            INFQ_TRY(score_to(q, 1, k, q->counts[k], log, err));
            INFQ_TRY(take_differences(q, k, err));
        }
        infq_stopper_advance(q->r->stopper, (const double *const *)q->d, q->have, &done);
    }
    // items were scored in batches, so there are some behind the one that decided: they stay in the files and do not count
    infq_schedule_counts(q->schedule, infq_stopper_seen(q->r->stopper), q->counts);
    for (int k = 0; k < n; k++)
        for (int m = 0; m < 2; m++)
            infq_items_truncate(q->r->tasks[k].items[m], q->counts[k]);
    return 0;
}

/* The schedule of all tasks, their item files, room for the differences. */
static infq_status prepare(sequential *q, infq_err *err)
{
    eval_run *r = q->r;
    int64_t sizes[EVAL_MAX_TASKS];
    int n = 0;

    for (int i = 0; i < r->n_tasks; i++) {
        if (!infq_policy_find(&r->policy, infq_task_name(r->tasks[i].task)))
            return infq_err_set(err, INFQ_E_USAGE, "--sequential: the policy does not list task %s", infq_task_name(r->tasks[i].task));
        sizes[n++] = infq_task_count(r->tasks[i].task);
    }
    INFQ_TRY(infq_schedule_new(sizes, n, r->policy.gate.weights, r->policy.seed, &r->schedule, err));
    q->schedule = r->schedule;
    INFQ_TRY(infq_stopper_new(&r->policy, q->schedule, infq_decision_gap_limit(&r->policy, r->noise[0], r->noise[1]), &r->stopper, err));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*q->counts), "items wanted", (void **)&q->counts, err));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*q->have), "items at hand", (void **)&q->have, err));
    memset(q->have, 0, (size_t)n * sizeof(*q->have));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*q->d), "differences", (void **)&q->d, err));
    memset(q->d, 0, (size_t)n * sizeof(*q->d));
    for (int k = 0; k < n; k++) {
        INFQ_TRY(infq_mem_new((size_t)sizes[k], sizeof(**q->d), "differences", (void **)&q->d[k], err));
        for (int m = 0; m < 2; m++)
            INFQ_TRY(eval_items_open(r, m, q->models[m], &r->tasks[k], r->settings, &q->logs[m][k], err));
    }
    return 0;
}

infq_status eval_sequential(eval_run *r, const eval_model *a, const eval_model *b, const infq_log *log, infq_err *err)
{
    sequential *q = NULL;
    infq_status st;
    infq_err other;

    INFQ_TRY(infq_mem_new(1, sizeof(*q), "run in turn", (void **)&q, err));
    memset(q, 0, sizeof(*q));
    q->r = r;
    q->models[0] = a;
    q->models[1] = b;
    st = prepare(q, err);
    if (!st)
        st = run_until_decided(q, log, err);
    for (int m = 0; m < 2; m++) {
        for (int k = 0; k < EVAL_MAX_TASKS; k++) {
            infq_status closed = infq_item_log_close(q->logs[m][k], &other);
            if (!st && closed) {
                *err = other;
                st = closed;
            }
        }
    }
    for (int k = 0; q->d && k < q->schedule->n_tasks; k++)
        infq_mem_free(q->d[k]);
    infq_mem_free(q->d);
    infq_mem_free(q->have);
    infq_mem_free(q->counts);
    infq_mem_free(q);
    return st;
}
