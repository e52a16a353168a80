/* infeval tasks: what can be named, and whether its data is there. */
#include <stdio.h>
#include <string.h>

#include "tools/cmd_eval.h"

#define NAME "infeval tasks"
#define MAX_TASKS 4096
#define SMALL_GROUP 4 /* groups of more tasks are one line */

typedef struct {
    opt_list data;
    bool json, all;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "data", 0, OPT_LIST, "DIR", "as for infeval MODEL", AT(data), 0, 0 },
    { "all", 'a', OPT_FLAG, NULL, "every task of every group", AT(all), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] [NAME...]", "Lists suites, groups and tasks, and which have their data.",
    "NAME: a task, group or suite, or a manifest of yours; then every task of it is listed.",
    rows, sizeof(rows) / sizeof(rows[0]), 0, 64,
};

typedef struct {
    const infq_catalog *c;
    const infq_data_dirs *dirs;
    bool names, all;        /* some were named; otherwise groups, or all tasks */
    bool named[MAX_TASKS];
} lister;

static bool is_there(const lister *l, const infq_manifest *m)
{
    const infq_task_file *f;
    char *path = NULL;
    infq_err err;
    bool there = true;

    for (int i = 0; i < m->n_splits && there; i++) {
        const infq_task_split *s = &m->splits[i];
        // rows to draw examples from are only needed when examples are asked for
        if (m->fewshot.count == 0 && strcmp(s->name, m->split) != 0 && (!m->fewshot.text || strcmp(s->name, m->fewshot.text) != 0))
            continue;
        there = infq_manifest_locate(m, s, l->dirs, &path, &f, &err) == 0;
        if (there)
            infq_mem_free(path);
    }
    return there;
}

/* Marks in order of the catalog. */
static infq_status mark(void *ctx, const infq_manifest *m, infq_err *err)
{
    lister *l = ctx;

    (void)err;
    for (int i = 0; i < infq_catalog_count(l->c) && i < MAX_TASKS; i++)
        if (infq_catalog_get(l->c, i) == m)
            l->named[i] = true;
    return 0;
}

/* Whether a task is the first of its group (alone without one), and how many that has. */
static bool is_first(const infq_catalog *c, int at, int *size, int *there, const lister *l)
{
    const infq_manifest *m = infq_catalog_get(c, at);
    bool first = true;

    *size = *there = 0;
    for (int i = 0; i < infq_catalog_count(c); i++) {
        const infq_manifest *o = infq_catalog_get(c, i);
        if (o != m && (!m->group || !o->group || strcmp(o->group, m->group) != 0))
            continue;
        first = first && i >= at;
        ++*size;
        *there += is_there(l, o);
    }
    return first;
}

static void line(const char *name, const char *data, const char *about, infq_buf *to)
{
    infq_buf_fmt(to, "  %-42s %-10s %.90s\n", name, data, about);
}

static void list_text(const lister *l, infq_buf *to)
{
    if (!l->names) {
        infq_buf_str(to, "suites:\n");
        for (int i = 0; i < infq_catalog_suite_count(l->c); i++)
            line(infq_catalog_suite_get(l->c, i)->name, "", infq_catalog_suite_get(l->c, i)->about, to);
        infq_buf_str(to, "groups and tasks (data there of how many):\n");
    }
    for (int i = 0; i < infq_catalog_count(l->c); i++) {
        const infq_manifest *m = infq_catalog_get(l->c, i);
        char data[32], name[64];
        int size, there;
        bool is_first_of;
        if (l->names && !l->named[i])
            continue;
        if (!l->names && strcmp(m->name, "plain") == 0)
            continue; // how users' own files are read
        is_first_of = is_first(l->c, i, &size, &there, l);
        if (l->names || l->all || size <= SMALL_GROUP) {
            line(m->name, is_there(l, m) ? "there" : "missing", m->about, to);
            continue;
        }
        if (!is_first_of)
            continue;
        snprintf(data, sizeof(data), "%d/%d", there, size);
        snprintf(name, sizeof(name), "%s%s", size > 1 ? m->group : m->name, size > 1 ? " (group)" : "");
        line(name, data, m->about, to);
    }
}

static void list_json(const lister *l, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.tasks.v1");
    infq_jw_key(&w, "suites");
    infq_jw_arr(&w);
    for (int i = 0; i < infq_catalog_suite_count(l->c); i++)
        infq_jw_str(&w, infq_catalog_suite_get(l->c, i)->name);
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "tasks");
    infq_jw_arr(&w);
    for (int i = 0; i < infq_catalog_count(l->c); i++) {
        const infq_manifest *m = infq_catalog_get(l->c, i);
        if (l->names && !l->named[i])
            continue;
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "name", m->name);
        infq_jw_key_str(&w, "group", m->group ? m->group : "");
        infq_jw_key_str(&w, "kind", infq_task_kind_names[m->kind]);
        infq_jw_key_str(&w, "metric", m->metric);
        infq_jw_key_str(&w, "licence", m->licence ? m->licence : "");
        infq_jw_key_str(&w, "source", m->source ? m->source : "");
        infq_jw_key(&w, "there");
        infq_jw_bool(&w, is_there(l, m));
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}

int cmd_eval_list(int argc, char **argv)
{
    options o = { 0 };
    lister l = { 0 };
    eval_dirs dirs;
    infq_catalog *c = NULL;
    infq_buf doc;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    infq_buf_init(&doc);
    st = infq_catalog_new(&c, &err);
    eval_dirs_of(&o.data, &dirs);
    l.c = c;
    l.dirs = &dirs.dirs;
    l.names = n_args > 0;
    l.all = o.all;
    for (int i = 0; i < n_args && !st; i++)
        st = eval_catalog_each(c, argv[i], mark, &l, &err);
    if (!st) {
        (o.json ? list_json : list_text)(&l, &doc);
        st = cmd_print(&doc, &err);
    }
    infq_buf_deinit(&doc);
    infq_catalog_free(c);
    return st ? cmd_fail(NAME, &err) : 0;
}
