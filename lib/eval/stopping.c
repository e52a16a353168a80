#include "lib/eval/stopping.h"

#include <math.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/eval/resample.h"

infq_status infq_schedule_new(const int64_t *n_items, int n_tasks, infq_gate_weights weights, uint64_t seed, infq_schedule **out,
                              infq_err *err)
{
    infq_splitmix r = infq_splitmix_seed(seed);
    infq_schedule *s = NULL;
    int64_t total = 0, *left = NULL;
    infq_status st;

    if (n_tasks < 1)
        return infq_err_set(err, INFQ_E_USAGE, "no task to stop early on");
    for (int t = 0; t < n_tasks; t++) {
        if (n_items[t] < 1)
            return infq_err_set(err, INFQ_E_USAGE, "task %d has no items", t + 1);
        total += n_items[t];
    }
    INFQ_TRY(infq_mem_new(1, sizeof(*s), "schedule", (void **)&s, err));
    memset(s, 0, sizeof(*s));
    s->n_tasks = n_tasks;
    st = infq_mem_new((size_t)total, sizeof(*s->task), "schedule", (void **)&s->task, err);
    if (!st)
        st = infq_mem_new((size_t)n_tasks, sizeof(*s->order), "orders", (void **)&s->order, err);
    if (!st) {
        memset(s->order, 0, (size_t)n_tasks * sizeof(*s->order));
        st = infq_mem_new(2 * (size_t)n_tasks, sizeof(*s->n_items), "numbers of items", (void **)&s->n_items, err);
    }
    for (int t = 0; t < n_tasks && !st; t++) {
        st = infq_mem_new((size_t)n_items[t], sizeof(**s->order), "order of items", (void **)&s->order[t], err);
        if (!st)
            infq_splitmix_shuffle(&r, s->order[t], n_items[t]);
    }
    if (st) {
        infq_schedule_free(s);
        return st;
    }
    left = s->n_items + n_tasks;
    memcpy(s->n_items, n_items, (size_t)n_tasks * sizeof(*n_items));
    memcpy(left, n_items, (size_t)n_tasks * sizeof(*n_items));
    while (s->n_steps < total) {
        int64_t k = infq_splitmix_below(&r, weights == INFQ_WEIGHTS_SIZE ? total - s->n_steps : n_tasks);
        int t = (int)k;
        if (weights == INFQ_WEIGHTS_SIZE)
            for (t = 0; k >= left[t]; t++)
                k -= left[t];
        if (left[t] == 0)
            break; // the step's mean would no longer be the suite's gap
        left[t]--;
        s->task[s->n_steps++] = t;
    }
    *out = s;
    return 0;
}

void infq_schedule_free(infq_schedule *s)
{
    if (!s)
        return;
    for (int t = 0; s->order && t < s->n_tasks; t++)
        infq_mem_free(s->order[t]);
    infq_mem_free(s->order);
    infq_mem_free(s->n_items);
    infq_mem_free(s->task);
    infq_mem_free(s);
}

void infq_schedule_counts(const infq_schedule *s, int64_t steps, int64_t *counts)
{
    memset(counts, 0, (size_t)s->n_tasks * sizeof(*counts));
    for (int64_t i = 0; i < steps && i < s->n_steps; i++)
        counts[s->task[i]]++;
}

/* One task so far. */
typedef struct {
    infq_betting bet;
    int64_t n, b, c;
    double sum, squares;
    bool binary;
} progress;

struct infq_stopper {
    const infq_schedule *s;
    infq_stop_rule rule;
    double alpha, margin, gap_limit;
    uint64_t seed;
    infq_gate_weights weights;
    int n_looks, look;
    double looks[INFQ_MAX_LOOKS], bounds[INFQ_MAX_LOOKS], z;
    int64_t at;
    infq_betting bet;
    infq_verdict t2;
    int failed;
    progress *tasks;
};

infq_status infq_stopper_new(const infq_policy *p, const infq_schedule *s, double gap_limit, infq_stopper **out, infq_err *err)
{
    infq_stopper *x = NULL;
    infq_status st = 0;

    INFQ_TRY(infq_mem_new(1, sizeof(*x), "stopping rule", (void **)&x, err));
    memset(x, 0, sizeof(*x));
    *x = (infq_stopper){.s = s, .rule = p->stop, .alpha = p->gate.alpha, .margin = p->gate.margin, .gap_limit = gap_limit, .seed = p->seed,
                        .weights = p->gate.weights, .n_looks = p->n_looks, .bet = infq_betting_start(p->gate.margin),
                        .t2 = INFQ_VERDICT_UNDECIDED, .failed = -1, .z = NAN};
    memcpy(x->looks, p->looks, sizeof(x->looks));
    if (p->stop != INFQ_STOP_BETTING)
        st = infq_group_bounds(p->stop == INFQ_STOP_POCOCK ? INFQ_SPEND_POCOCK : INFQ_SPEND_OBRIEN_FLEMING, x->alpha, x->looks, x->n_looks,
                               x->bounds, err);
    if (!st)
        st = infq_mem_new((size_t)s->n_tasks, sizeof(*x->tasks), "tasks so far", (void **)&x->tasks, err);
    if (st) {
        infq_stopper_free(x);
        return st;
    }
    for (int t = 0; t < s->n_tasks; t++)
        x->tasks[t] = (progress){.bet = infq_betting_start(p->gate.margin), .binary = true};
    *out = x;
    return 0;
}

void infq_stopper_free(infq_stopper *s)
{
    if (s)
        infq_mem_free(s->tasks);
    infq_mem_free(s);
}

static double weight(const infq_stopper *x, int t)
{
    double total = 0;

    if (x->weights == INFQ_WEIGHTS_EQUAL)
        return 1.0 / x->s->n_tasks;
    for (int i = 0; i < x->s->n_tasks; i++)
        total += (double)x->s->n_items[i];
    return (double)x->s->n_items[t] / total;
}

/* Weighted mean of the tasks' gaps; a task without an item yet counts as 0. */
static double gap_so_far(const infq_stopper *x)
{
    double gap = 0;

    for (int t = 0; t < x->s->n_tasks; t++)
        if (x->tasks[t].n > 0)
            gap += weight(x, t) * x->tasks[t].sum / (double)x->tasks[t].n;
    return gap;
}

/* Every task has been looked at. */
static bool all_seen(const infq_stopper *x)
{
    for (int t = 0; t < x->s->n_tasks; t++)
        if (x->tasks[t].n == 0)
            return false;
    return true;
}

/* T2's statistic on what was seen: Tango's for one task of 0/1 scores, stratified otherwise. */
static double statistic(const infq_stopper *x)
{
    double var = 0;

    if (x->s->n_tasks == 1 && x->tasks[0].binary)
        return infq_tango_score(x->tasks[0].b, x->tasks[0].c, x->tasks[0].n, -x->margin);
    for (int t = 0; t < x->s->n_tasks; t++) {
        const progress *k = &x->tasks[t];
        double n = (double)k->n, w = weight(x, t), v;
        if (k->n < 2)
            return NAN;
        v = (k->squares - k->sum * k->sum / n) / (n - 1) / n;
        if (k->binary && k->b + k->c == 0)
            v = infq_tango_var(0, 0, k->n, -x->margin);
        var += w * w * v;
    }
    return (gap_so_far(x) + x->margin) / sqrt(var);
}

static void look_at(infq_stopper *x)
{
    x->z = statistic(x);
    if (x->z >= x->bounds[x->look] && x->t2 == INFQ_VERDICT_UNDECIDED)
        x->t2 = INFQ_VERDICT_PASS;
    else if (x->z <= -x->bounds[x->look])
        x->t2 = INFQ_VERDICT_FAIL;
    x->look++;
}

static void step(infq_stopper *x, int t, double d)
{
    progress *k = &x->tasks[t];

    k->n++;
    k->b += d < 0;
    k->c += d > 0;
    k->sum += d;
    k->squares += d * d;
    k->binary = k->binary && (d == 0 || d == 1 || d == -1);
    x->at++;
    if (x->rule == INFQ_STOP_BETTING) {
        infq_betting_add(&x->bet, d);
        infq_betting_add(&k->bet, d);
        if (infq_betting_fails(&x->bet, x->alpha))
            x->t2 = INFQ_VERDICT_FAIL;
        else if (x->t2 == INFQ_VERDICT_UNDECIDED && infq_betting_passes(&x->bet, x->alpha))
            x->t2 = INFQ_VERDICT_PASS;
        // "some task failed" is a search: its level is shared
        if (x->failed < 0 && x->s->n_tasks > 1 && infq_betting_fails(&k->bet, x->alpha / x->s->n_tasks))
            x->failed = t;
        return;
    }
    while (x->look < x->n_looks && (double)x->at >= x->looks[x->look] * (double)x->s->n_steps)
        look_at(x);
}

void infq_stopper_advance(infq_stopper *x, const double *const *d, const int64_t *have, bool *done)
{
    *done = false;
    while (!*done) {
        int t;
        if (x->at == x->s->n_steps) {
            *done = true;
            break;
        }
        t = x->s->task[x->at];
        if (x->tasks[t].n >= have[t])
            break;
        step(x, t, d[t][x->tasks[t].n]);
        *done = all_seen(x) && (x->t2 == INFQ_VERDICT_FAIL || x->failed >= 0 ||
                                (x->t2 == INFQ_VERDICT_PASS && fabs(gap_so_far(x)) < x->gap_limit));
    }
}

int64_t infq_stopper_seen(const infq_stopper *x)
{
    return x->at;
}

static double p_of(double max_log)
{
    double p = exp(-max_log);

    return p < 1 ? p : 1;
}

infq_stop infq_stopper_result(const infq_stopper *x)
{
    infq_stop r = {.rule = x->rule, .seed = x->seed, .n_seen = x->at, .n_steps = x->s->n_steps, .t2 = x->t2, .task = x->failed,
                   .p_pass = NAN, .p_fail = NAN, .look = x->look, .z = x->z, .bound = NAN};

    for (int t = 0; t < x->s->n_tasks; t++)
        r.n_items += x->s->n_items[t];
    if (x->rule == INFQ_STOP_BETTING) {
        r.p_pass = p_of(x->bet.max_log_e);
        r.p_fail = p_of(x->bet.max_log_g);
    } else if (x->look > 0) {
        r.bound = x->bounds[x->look - 1];
    }
    return r;
}

void infq_stopper_task(const infq_stopper *x, int t, const infq_gate_options *o, infq_gate_task *task)
{
    const infq_betting *b = &x->tasks[t].bet;

    task->p_pass = task->p_fail = NAN;
    task->t2 = INFQ_VERDICT_UNDECIDED;
    if (x->rule == INFQ_STOP_BETTING) {
        task->p_pass = p_of(b->max_log_e);
        task->p_fail = p_of(b->max_log_g);
        task->t2 = infq_betting_fails(b, x->alpha) ? INFQ_VERDICT_FAIL
                   : infq_betting_passes(b, x->alpha) ? INFQ_VERDICT_PASS : INFQ_VERDICT_UNDECIDED;
    }
    infq_gate_conclude(task, o);
}
