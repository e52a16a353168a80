/* Groups and suites in infeval's answers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cmd_eval.h"

infq_status eval_groups_find(eval_run *r, infq_err *err)
{
    infq_group_task *t = NULL;
    const char *suites[EVAL_MAX_SUITES];
    infq_status st;

    if (r->n_tasks < 2)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)r->n_tasks, sizeof(*t), "groups", (void **)&t, err));
    for (int i = 0; i < r->n_suites; i++)
        suites[i] = r->suites[i];
    for (int i = 0; i < r->n_tasks; i++)
        t[i] = (infq_group_task){ infq_task_name(r->tasks[i].task), infq_items_count(r->tasks[i].items[0]), r->tasks[i].suite - 1, r->tasks[i].entry };
    st = infq_groups_find(r->catalog, t, r->n_tasks, suites, r->n_suites, &r->groups, err);
    infq_mem_free(t);
    return st;
}

infq_status eval_groups_compare(eval_run *r, infq_err *err)
{
    const infq_gate_task **t = NULL;
    infq_status st = 0;

    if (r->groups.n == 0 || r->n_models < 2)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)r->n_tasks, sizeof(*t), "groups", (void **)&t, err));
    for (int m = 1; m < r->n_models; m++) {
        const infq_decision *d = &r->decision[m];
        st = infq_mem_new((size_t)r->groups.n, sizeof(*r->gaps[m]), "groups", (void **)&r->gaps[m], err);
        if (st)
            break;
        for (int i = 0; i < r->n_tasks; i++) {
            t[i] = NULL;
            for (int k = 0; k < d->n; k++)
                if (strcmp(d->tasks[k].task, infq_task_name(r->tasks[i].task)) == 0)
                    t[i] = &d->tasks[k];
        }
        for (int g = 0; g < r->groups.n; g++)
            r->n_gaps[m] += infq_group_gap_of(&r->groups.g[g], t, &r->policy.gate, &r->gaps[m][r->n_gaps[m]]);
    }
    infq_mem_free(t);
    return st;
}

/* Scores of every task of one model. */
typedef struct {
    infq_score score[EVAL_MAX_TASKS][INFQ_ITEM_METRICS];
    int n[EVAL_MAX_TASKS];
    double mean[EVAL_MAX_TASKS], se[EVAL_MAX_TASKS];
} all_scores;

/* Whether means of the metric are its mean over tasks: sums of logarithms and what is made from them are not. */
static bool can_be_averaged(const char *metric)
{
    return strcmp(metric, "ll") != 0 && strcmp(metric, "perplexity") != 0;
}

/* The metric's mean over the group; false when a member has no such metric. */
static bool score_of(all_scores *a, const infq_group *g, const char *metric, infq_group_score *out)
{
    for (int k = 0; k < g->n; k++) {
        int i = g->task[k];
        bool there = false;
        for (int j = 0; j < a->n[i] && !there; j++) {
            there = strcmp(a->score[i][j].name, metric) == 0;
            a->mean[i] = a->score[i][j].mean;
            a->se[i] = a->score[i][j].se;
        }
        if (!there)
            return false;
    }
    *out = infq_group_score_of(g, a->mean, a->se);
    return true;
}

typedef void (*score_fn)(void *ctx, const char *metric, const infq_group_score *s);

static void each_score(all_scores *a, const infq_group *g, score_fn fn, void *ctx)
{
    for (int j = 0; j < a->n[g->task[0]]; j++) {
        const char *metric = a->score[g->task[0]][j].name;
        infq_group_score s;
        if (can_be_averaged(metric) && score_of(a, g, metric, &s))
            fn(ctx, metric, &s);
    }
}

static infq_status load(const eval_run *r, int m, all_scores *a, infq_err *err)
{
    for (int i = 0; i < r->n_tasks; i++)
        INFQ_TRY(infq_score_summary(r->tasks[i].items[m], a->score[i], INFQ_ITEM_METRICS, &a->n[i], err));
    return 0;
}

static void score_text(void *ctx, const char *metric, const infq_group_score *s)
{
    infq_buf *to = ctx;

    infq_buf_fmt(to, " %s %.4f", metric, s->mean);
    if (isfinite(s->se))
        infq_buf_fmt(to, " (%.4f)", s->se);
}

infq_status eval_groups_text(const eval_run *r, infq_buf *to, infq_err *err)
{
    all_scores *a = NULL;
    infq_status st = 0;

    if (r->groups.n == 0)
        return 0;
    INFQ_TRY(infq_mem_new(1, sizeof(*a), "scores", (void **)&a, err));
    for (int g = 0; g < r->groups.n && !st; g++) {
        for (int m = 0; m < r->n_models && !st; m++) {
            const infq_group *x = &r->groups.g[g];
            char words[64];
            st = load(r, m, a, err);
            if (st)
                break;
            infq_group_words(x, words, sizeof(words));
            infq_buf_fmt(to, "%-36.36s %-24.24s %7lld ", x->name, r->names[m], (long long)x->n_items);
            each_score(a, x, score_text, to);
            infq_buf_fmt(to, "  [%s]\n", words);
        }
    }
    infq_mem_free(a);
    return st;
}

static void score_json(void *ctx, const char *metric, const infq_group_score *s)
{
    infq_jw *w = ctx;
    char key[48];

    infq_jw_key_f64(w, metric, s->mean);
    snprintf(key, sizeof(key), "%.23s_stderr", metric);
    infq_jw_key_f64(w, key, s->se);
    snprintf(key, sizeof(key), "%.23s_stderr_pooled", metric);
    infq_jw_key_f64(w, key, s->pooled);
}

static infq_status group_json(const eval_run *r, const infq_group *g, all_scores *a, infq_jw *w, infq_err *err)
{
    static const char *const kinds[] = { "group", "subgroup", "suite" };
    char words[64];

    infq_group_words(g, words, sizeof(words));
    infq_jw_obj(w);
    infq_jw_key_str(w, "group", g->name);
    infq_jw_key_str(w, "kind", kinds[g->kind]);
    infq_jw_key_str(w, "mean", words);
    infq_jw_key_i64(w, "items", g->n_items);
    infq_jw_key(w, "tasks");
    infq_jw_obj(w);
    for (int k = 0; k < g->n; k++)
        infq_jw_key_f64(w, infq_task_name(r->tasks[g->task[k]].task), g->weight[k]);
    infq_jw_end_obj(w);
    infq_jw_key(w, "scores");
    infq_jw_arr(w);
    for (int m = 0; m < r->n_models; m++) {
        INFQ_TRY(load(r, m, a, err));
        infq_jw_obj(w);
        each_score(a, g, score_json, w);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
    return 0;
}

infq_status eval_groups_json(const eval_run *r, infq_jw *w, infq_err *err)
{
    all_scores *a = NULL;
    infq_status st = 0;

    INFQ_TRY(infq_mem_new(1, sizeof(*a), "scores", (void **)&a, err));
    infq_jw_key(w, "groups");
    infq_jw_arr(w);
    for (int g = 0; g < r->groups.n && !st; g++)
        st = group_json(r, &r->groups.g[g], a, w, err);
    infq_jw_end_arr(w);
    infq_mem_free(a);
    return st;
}
