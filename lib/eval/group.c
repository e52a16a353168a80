#include "lib/eval/group.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"

/* Tasks of the catalog that belong to a group. */
static int size_in_catalog(const infq_catalog *c, const char *name)
{
    int n = 0;

    for (int i = 0; i < infq_catalog_count(c); i++)
        n += infq_manifest_in(infq_catalog_get(c, i), name);
    return n;
}

static infq_status new_group(infq_groups *s, const char *name, infq_group_kind kind, infq_mean mean, int room, infq_group **out, infq_err *err)
{
    infq_group *p = infq_mem_realloc(s->g, (size_t)(s->n + 1) * sizeof(*p));

    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for groups");
    s->g = p;
    p = &s->g[s->n++];
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->kind = kind;
    p->mean = mean;
    INFQ_TRY(infq_mem_new((size_t)room, sizeof(*p->task), "tasks of a group", (void **)&p->task, err));
    INFQ_TRY(infq_mem_new((size_t)room, sizeof(*p->items), "tasks of a group", (void **)&p->items, err));
    INFQ_TRY(infq_mem_new((size_t)room, sizeof(*p->weight), "tasks of a group", (void **)&p->weight, err));
    *out = p;
    return 0;
}

static void take(infq_group *g, int i, const infq_group_task *t)
{
    g->task[g->n] = i;
    g->items[g->n++] = t->items;
    g->n_items += t->items;
}

/* Weights of members from `from` to the end as their mean says, their sum `whole`. */
static void weigh(infq_group *g, int from, infq_mean mean, double whole)
{
    double total = 0;

    for (int k = from; k < g->n; k++)
        total += (double)g->items[k];
    for (int k = from; k < g->n; k++)
        g->weight[k] = whole * (mean == INFQ_MEAN_ITEMS ? (double)g->items[k] / total : 1.0 / (g->n - from));
}

static void drop_last(infq_groups *s)
{
    infq_group *g = &s->g[--s->n];

    infq_mem_free(g->task);
    infq_mem_free(g->items);
    infq_mem_free(g->weight);
}

static bool known(const infq_groups *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->g[i].name, name) == 0)
            return true;
    return false;
}

static infq_status add_group(const infq_catalog *c, const infq_group_task *t, int n, const char *name, infq_group_kind kind, infq_mean mean,
                             infq_groups *s, infq_err *err)
{
    infq_group *g;

    if (!name || known(s, name))
        return 0;
    INFQ_TRY(new_group(s, name, kind, mean, n, &g, err));
    g->of = size_in_catalog(c, name);
    for (int i = 0; i < n; i++) {
        const infq_manifest *m = infq_catalog_find(c, t[i].name);
        if (m && infq_manifest_in(m, name) && t[i].items > 0)
            take(g, i, &t[i]);
    }
    g->n_entries = g->n;
    weigh(g, 0, mean, 1);
    if (g->n < 2)
        drop_last(s);
    return 0;
}

/* How the tasks of a suite's entry are averaged: as their group says, if it says anything. */
static infq_mean mean_of_entry(const infq_catalog *c, const char *task)
{
    const infq_manifest *m = infq_catalog_find(c, task);

    return m && m->mean == INFQ_MEAN_ITEMS ? INFQ_MEAN_ITEMS : INFQ_MEAN_TASKS;
}

static infq_status add_suite(const infq_catalog *c, const infq_group_task *t, int n, const char *name, int suite, infq_groups *s, infq_err *err)
{
    infq_group *g;
    int entries = 0, last = -1;

    for (int i = 0; i < n; i++)
        if (t[i].suite == suite && t[i].items > 0)
            last = t[i].entry > last ? t[i].entry : last;
    INFQ_TRY(new_group(s, name, INFQ_GROUP_SUITE, INFQ_MEAN_TASKS, n, &g, err));
    for (int pass = 0; pass < 2; pass++) { // the number of entries, then their weights
        g->n = 0;
        g->n_items = 0;
        for (int e = 0; e <= last; e++) {
            int from = g->n;
            for (int i = 0; i < n; i++)
                if (t[i].suite == suite && t[i].entry == e && t[i].items > 0)
                    take(g, i, &t[i]);
            if (g->n == from)
                continue;
            entries += pass == 0;
            if (pass == 1)
                weigh(g, from, mean_of_entry(c, t[g->task[from]].name), 1.0 / entries);
        }
    }
    g->n_entries = g->of = entries;
    if (entries < 2)
        drop_last(s);
    return 0;
}

infq_status infq_groups_find(const infq_catalog *c, const infq_group_task *t, int n, const char *const *suites, int n_suites, infq_groups *out,
                             infq_err *err)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < n; i++) {
        const infq_manifest *m = infq_catalog_find(c, t[i].name);
        if (!m || m->mean == INFQ_MEAN_NONE)
            continue;
        INFQ_TRY(add_group(c, t, n, m->group, INFQ_GROUP_GROUP, m->mean, out, err));
        INFQ_TRY(add_group(c, t, n, m->subgroup, INFQ_GROUP_SUBGROUP, m->mean, out, err));
    }
    for (int k = 0; k < n_suites; k++)
        INFQ_TRY(add_suite(c, t, n, suites[k], k, out, err));
    return 0;
}

void infq_groups_free(infq_groups *s)
{
    while (s->n > 0)
        drop_last(s);
    infq_mem_free(s->g);
    s->g = NULL;
}

infq_group_score infq_group_score_of(const infq_group *g, const double *mean, const double *se)
{
    infq_group_score s = {0, 0, 0};

    for (int k = 0; k < g->n; k++) {
        int i = g->task[k];
        double n = (double)g->items[k];
        s.mean += g->weight[k] * mean[i];
        s.se += g->weight[k] * g->weight[k] * se[i] * se[i];
        s.pooled += (n - 1) * n * se[i] * se[i];
    }
    s.se = sqrt(s.se);
    s.pooled = sqrt(s.pooled / (double)(g->n_items - g->n) / (double)g->n_items);
    return s;
}

bool infq_group_gap_of(const infq_group *g, const infq_gate_task *const *t, const infq_gate_options *o, infq_group_gap *out)
{
    double z = infq_norm_quantile(1 - o->alpha), var = 0;

    *out = (infq_group_gap){.group = g};
    for (int k = 0; k < g->n; k++) {
        const infq_gate_task *x = t[g->task[k]];
        double w = g->weight[k];
        if (!x)
            return false;
        out->n += x->n;
        out->b += x->b;
        out->c += x->c;
        out->score_a += w * x->score_a;
        out->score_b += w * x->score_b;
        out->gap += w * x->gap;
        var += w * w * infq_gate_task_var(x, o);
    }
    out->se = sqrt(var);
    out->ci = (infq_interval){out->gap - z * out->se, out->gap + z * out->se};
    return true;
}

void infq_group_words(const infq_group *g, char *out, size_t cap)
{
    char of[32] = "";

    if (g->n < g->of)
        snprintf(of, sizeof(of), " of %d", g->of);
    if (g->kind == INFQ_GROUP_SUITE)
        snprintf(out, cap, "%d entries, each alike", g->n_entries);
    else
        snprintf(out, cap, "%d%s tasks, %s", g->n, of, g->mean == INFQ_MEAN_ITEMS ? "by items" : "each alike");
}
