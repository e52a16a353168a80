/* infeval import: scores that were given elsewhere, by unit tests or a judge, put into an item file. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

#define NAME "infeval import"

typedef struct {
    opt_list data;
    const char *out, *task, *metric;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "output", 'o', OPT_STR, "FILE", "the item file to write", AT(out), 0, 0 },
    { "task", 't', OPT_STR, "NAME", "the items' task: its rows tell which item a task_id is", AT(task), 0, 0 },
    { "data", 0, OPT_LIST, "DIR", "look for the task's data in DIR first (then INFQ_DATA, ./data, ./evals)", AT(data), 0, 0 },
    { "metric", 0, OPT_STR, "NAME", "what the scores are called (score; passed where a task says so)", AT(metric), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] -o FILE ITEMS SCORES", "Puts scores that were given elsewhere into an item file.",
    "ITEMS is what infeval --items wrote; SCORES are lines of JSON, each with \"doc\" (as in ITEMS) or \"task_id\" (as in\n"
    "the task's data), and \"score\" from 0 to 1 or \"passed\". Every item needs exactly one. The file written holds all\n"
    "metrics, and infeval gate decides on the new one.",
    rows, sizeof(rows) / sizeof(rows[0]), 2, 2,
};

static infq_status open_task(const options *o, infq_task **out, infq_err *err)
{
    infq_task_options to = infq_task_options_default();
    infq_catalog *c = NULL;
    const infq_manifest *m;
    eval_dirs dirs;
    infq_status st;

    *out = NULL;
    if (!o->task)
        return 0;
    eval_dirs_of(&o->data, &dirs);
    INFQ_TRY(infq_catalog_new(&c, err));
    m = infq_catalog_find(c, o->task);
    st = m ? infq_task_open_manifest(m, &dirs.dirs, &to, out, err)
           : infq_err_set(err, INFQ_E_USAGE, "--task %s: no such task (infeval tasks lists them)", o->task);
    infq_catalog_free(c);
    return st;
}

static infq_status check_task(const infq_task *task, const infq_items *items, infq_err *err)
{
    const infq_item_key *k = infq_items_key(items);

    if (infq_items_count(items) == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "no items");
    if (!task)
        return 0;
    if (infq_task_kind_of(task) != INFQ_TASK_GENERATE || infq_items_count(items) > infq_task_count(task) ||
        strcmp(k->task_digest, infq_task_digest(task)) != 0)
        return infq_err_set(err, INFQ_E_MISMATCH, "the items are those of %s, which is not the task %s as its data is here",
                            k->task,
                            infq_task_name(task));
    return 0;
}

static infq_status write_items(const infq_items *from, const char *metric, const char *path, infq_err *err)
{
    infq_item_key key = *infq_items_key(from);
    infq_items *to = NULL;
    infq_item_log *log = NULL;
    infq_err other;
    infq_status st, closed;

    if (infq_path_exists(path))
        return infq_err_set(err, INFQ_E_EXISTS, "%s is there already", path);
    snprintf(key.metric, sizeof(key.metric), "%s", metric);
    INFQ_TRY(infq_items_new(&key, &to, err));
    st = infq_item_log_open(path, to, &log, err);
    for (int64_t i = 0; i < infq_items_count(from) && !st; i++)
        st = infq_item_log_add(log, infq_items_get(from, i), err);
    closed = infq_item_log_close(log, &other);
    infq_items_free(to);
    if (!st && closed) {
        *err = other;
        st = closed;
    }
    return st;
}

static infq_status import_scores(const options *o, const char *items_path, const char *scores, infq_err *err)
{
    infq_items *items = NULL;
    infq_task *task = NULL;
    const char *metric = o->metric;
    infq_score sc[INFQ_ITEM_METRICS];
    int n = 0;
    infq_status st = open_task(o, &task, err);

    if (!st)
        st = infq_items_load(items_path, &items, err);
    if (!st)
        st = check_task(task, items, err);
    if (!st && !metric) // a task whose items nothing here can judge names its metric
        metric = task && !infq_answers_judges(infq_task_generation_of(task)->extract) ? infq_task_metric(task) : "score";
    if (!st)
        st = infq_generate_import(task, items, scores, metric, err);
    if (!st)
        st = write_items(items, metric, o->out, err);
    if (!st)
        st = infq_score_summary(items, sc, INFQ_ITEM_METRICS, &n, err);
    for (int i = 0; i < n && !st; i++)
        if (strcmp(sc[i].name, metric) == 0)
            printf("%s %.4f (%.4f), %lld items\n", metric, sc[i].mean, sc[i].se, (long long)sc[i].n);
    infq_items_free(items);
    infq_task_free(task);
    return st;
}

int cmd_eval_import(int argc, char **argv)
{
    options o = { .out = NULL };
    infq_err err;
    int n_args;
    bool done;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    if (!o.out) {
        infq_err_set(&err, INFQ_E_USAGE, "-o FILE is missing");
        return cmd_fail(NAME, &err);
    }
    return import_scores(&o, argv[0], argv[1], &err) ? cmd_fail(NAME, &err) : 0;
}
