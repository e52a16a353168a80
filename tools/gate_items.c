#include "tools/gate_items.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"

static infq_status side_room(gate_side *s, infq_err *err)
{
    if (!s->tasks) {
        INFQ_TRY(infq_mem_new(EVAL_MAX_TASKS, sizeof(*s->tasks), "tasks of a side", (void **)&s->tasks, err));
        memset(s->tasks, 0, EVAL_MAX_TASKS * sizeof(*s->tasks));
    }
    if (s->n_paths % 64 == 0) {
        char **p = infq_mem_realloc(s->paths, (size_t)(s->n_paths + 64) * sizeof(*p));
        if (!p)
            return infq_err_set(err, INFQ_E_NOMEM, "no memory for the names of item files");
        s->paths = p;
    }
    return 0;
}

static gate_task_items *find_task(gate_side *s, const char *task)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->tasks[i].task, task) == 0)
            return &s->tasks[i];
    return NULL;
}

/* *windows: the file holds windows of a text, which no verdict of tasks is made of, and was left out. */
static infq_status add_file(gate_side *s, const char *path, const infq_items_options *o, bool *windows, infq_err *err)
{
    infq_items *items = NULL;
    gate_task_items *t;
    char task[128];

    INFQ_TRY(side_room(s, err));
    INFQ_TRY(infq_items_load_with(path, o, &items, err));
    if (infq_items_get(items, 0)->kind == INFQ_ITEM_WINDOW) {
        infq_items_free(items);
        *windows = true;
        return 0;
    }
    snprintf(task, sizeof(task), "%s", infq_items_key(items)->task);
    if (!task[0])
        snprintf(task, sizeof(task), "%.*s", (int)strcspn(infq_path_base(path), "."), infq_path_base(path));
    t = find_task(s, task);
    if (!t && s->n == EVAL_MAX_TASKS) {
        infq_items_free(items);
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: more than %d tasks", path, EVAL_MAX_TASKS);
    }
    if (!t) {
        t = &s->tasks[s->n++];
        memcpy(t->task, task, sizeof(t->task));
    }
    if (t->n_runs == GATE_MAX_RUNS) {
        infq_items_free(items);
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: more than %d runs of %s", path, GATE_MAX_RUNS, task);
    }
    t->runs[t->n_runs++] = items;
    s->paths[s->n_paths] = infq_mem_strdup(path);
    if (!s->paths[s->n_paths])
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for the name of %s", path);
    s->n_paths++;
    return 0;
}

static infq_status add_folder(gate_side *s, const char *dir, const infq_items_options *o, infq_err *err)
{
    char **names = NULL;
    size_t n = 0;
    int before = s->n_paths;
    bool windows = false;
    infq_status st;

    INFQ_TRY(infq_dir_list(dir, &names, &n, err));
    st = 0;
    for (size_t i = 0; i < n && !st; i++) {
        char *path = NULL;
        if (!infq_str_ends(names[i], ".jsonl") && !infq_str_ends(names[i], ".jsonl.gz"))
            continue;
        st = infq_path_join(dir, names[i], &path, err);
        if (!st)
            st = add_file(s, path, o, &windows, err);
        infq_mem_free(path);
    }
    infq_dir_list_free(names, n);
    if (!st && s->n_paths == before)
        st = infq_err_set(err, INFQ_E_NOT_FOUND, "%s: holds no item files%s (*.jsonl)", dir, windows ? " but those of texts" : "");
    return st;
}

infq_status gate_side_add(gate_side *s, const char *path, const infq_items_options *o, infq_err *err)
{
    bool windows = false;

    if (infq_path_is_dir(path))
        return add_folder(s, path, o, err);
    INFQ_TRY(add_file(s, path, o, &windows, err));
    return windows ? infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: holds windows of a text, the gate decides on items of tasks", path) : 0;
}

void gate_side_free(gate_side *s)
{
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->tasks[i].n_runs; j++)
            infq_items_free(s->tasks[i].runs[j]);
    for (int i = 0; i < s->n_paths; i++)
        infq_mem_free(s->paths[i]);
    infq_mem_free(s->tasks);
    infq_mem_free(s->paths);
    memset(s, 0, sizeof(*s));
}

static infq_status pair_task(const gate_task_items *a, const gate_task_items *b, const infq_policy *p, infq_pair **out, infq_err *err)
{
    const infq_policy_task *listed = infq_policy_find(p, a->task);
    infq_status st = infq_pair_new((const infq_items *const *)a->runs, a->n_runs, (const infq_items *const *)b->runs, b->n_runs,
                                   listed ? infq_policy_metric(p, listed) : NULL, out, err);

    if (st)
        return infq_err_in(err, "%s", a->task);
    if (!(*out)->task[0])
        memcpy((*out)->task, a->task, sizeof((*out)->task));
    return 0;
}

infq_status gate_sides_pair(const gate_side *a, const gate_side *b, const infq_policy *p, infq_pair **pairs, int *n, infq_err *err)
{
    *n = 0;
    if (a->n == 1 && b->n == 1) {
        INFQ_TRY(pair_task(&a->tasks[0], &b->tasks[0], p, &pairs[0], err));
        *n = 1;
        return 0;
    }
    for (int i = 0; i < b->n; i++)
        if (!find_task((gate_side *)a, b->tasks[i].task))
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: the original has no items of %s", b->tasks[i].task);
    for (int i = 0; i < a->n; i++) {
        const gate_task_items *t = find_task((gate_side *)b, a->tasks[i].task);
        if (!t)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: the compressed model has no items of %s", a->tasks[i].task);
        INFQ_TRY(pair_task(&a->tasks[i], t, p, &pairs[i], err));
        ++*n;
    }
    return 0;
}
