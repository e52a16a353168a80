/* What --tasks names: tasks, groups and suites of the manifests, users' manifests, files, folders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "tools/cmd_eval.h"

/* Settings of a suite's entry; 0 and -1: the options' own. */
typedef struct {
    int64_t limit, tokens, shots;
} entry_settings;

static void add_dir(eval_dirs *l, const char *dir)
{
    if (dir[0] && l->dirs.n < EVAL_MAX_DIRS)
        l->v[l->dirs.n++] = dir;
}

void eval_dirs_of(const opt_list *given, eval_dirs *l)
{
    const char *env = getenv("INFQ_DATA");

    l->dirs = (infq_data_dirs){ l->v, 0 };
    for (int i = 0; i < given->n; i++)
        add_dir(l, given->v[i]);
    snprintf(l->env, sizeof(l->env), "%s", env ? env : "");
    for (char *s = l->env; *s;) {
        char *end = s + strcspn(s, ":");
        bool more = *end == ':';
        *end = '\0';
        add_dir(l, s);
        s = end + more;
    }
    add_dir(l, "data");
    add_dir(l, "evals");
}

static infq_status new_text(eval_run *r, const char *name, const char *path, eval_text **out, infq_err *err)
{
    eval_text *t = &r->texts[r->n_texts];

    if (r->n_texts == EVAL_MAX_TEXTS)
        return infq_err_set(err, INFQ_E_USAGE, "more than %d texts", EVAL_MAX_TEXTS);
    if (snprintf(t->path, sizeof(t->path), "%s", path) >= (int)sizeof(t->path))
        return infq_err_set(err, INFQ_E_IO, "%.60s...: the path is too long", path);
    snprintf(t->name, sizeof(t->name), "%s", name);
    t->limit = r->o->limit;
    t->window = r->o->window;
    t->tokens = r->o->tokens;
    t->convention = r->convention;
    r->n_texts++;
    *out = t;
    return 0;
}

infq_status eval_text_add(eval_run *r, const char *item, bool ppl, bool kld, infq_err *err)
{
    bool wiki = infq_str_starts(item, "wikitext=") && !infq_path_exists(item);
    const char *path = wiki ? item + 9 : item;
    eval_text *t;

    if (!infq_path_exists(path) || infq_path_is_dir(path))
        return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: no such file", path);
    INFQ_TRY(new_text(r, path, path, &t, err));
    t->form = wiki ? EVAL_FORM_WIKI : EVAL_FORM_PLAIN;
    t->ppl = ppl;
    t->kld = kld;
    return 0;
}

static infq_status keep_task(eval_run *r, infq_task *take_t, infq_err *err)
{
    for (int i = 0; i < r->n_tasks; i++) {
        if (strcmp(infq_task_name(r->tasks[i].task), infq_task_name(take_t)) == 0) {
            infq_err_set(err, INFQ_E_USAGE, "two tasks are called %s; say NAME=FILE", infq_task_name(take_t));
            infq_task_free(take_t);
            return err->code;
        }
    }
    r->tasks[r->n_tasks++].task = take_t;
    return 0;
}

static infq_task_options task_options(const eval_options *o, const entry_settings *e)
{
    infq_task_options t = infq_task_options_default();

    // what the command line says goes before what a suite says
    t.limit = o->limit > 0 ? o->limit : e->limit;
    t.shots = o->shots >= 0 ? o->shots : e->shots;
    t.fewshot_seed = o->fewshot_seed;
    t.rotate = o->rotate;
    t.format = o->format;
    return t;
}

static infq_status room_for_task(const eval_run *r, infq_err *err)
{
    return r->n_tasks < EVAL_MAX_TASKS ? 0 : infq_err_set(err, INFQ_E_USAGE, "more than %d tasks", EVAL_MAX_TASKS);
}

static infq_status add_manifest_text(eval_run *r, const infq_manifest *m, const infq_data_dirs *dirs, const entry_settings *e, bool kld,
                                     infq_err *err)
{
    static const eval_form forms[] = { EVAL_FORM_PLAIN, EVAL_FORM_LINES, EVAL_FORM_WIKI };
    const infq_task_file *f;
    char *path;
    eval_text *t;
    infq_status st;

    INFQ_TRY(infq_manifest_locate(m, infq_manifest_split(m, m->split), dirs, &path, &f, err));
    st = infq_manifest_check(f, path, err);
    if (!st)
        st = new_text(r, m->name, path, &t, err);
    infq_mem_free(path);
    INFQ_TRY(st);
    t->form = forms[m->text.form];
    t->lines = m->text.lines;
    t->ppl = !kld;
    t->kld = kld;
    if (!r->o->convention && !infq_ppl_find(m->text.convention, &t->convention))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: convention %s is none of gptq, llamacpp, rolling", m->name, m->text.convention);
    t->window = r->o->window > 0 ? r->o->window : m->text.window;
    t->tokens = r->o->tokens > 0 ? r->o->tokens : e->tokens > 0 ? e->tokens : m->text.tokens;
    t->limit = r->o->limit > 0 ? r->o->limit : e->limit;
    return 0;
}

static infq_status add_manifest(eval_run *r, const infq_manifest *m, const infq_data_dirs *dirs, const entry_settings *e, bool kld, infq_err *err)
{
    infq_task_options to = task_options(r->o, e);
    infq_task *t;
    infq_status st;

    if (m->kind == INFQ_TASK_TEXT) {
        st = add_manifest_text(r, m, dirs, e, kld, err);
    } else {
        INFQ_TRY(room_for_task(r, err));
        st = infq_task_open_manifest(m, dirs, &to, &t, err);
        if (!st)
            st = keep_task(r, t, err);
    }
    if (st == INFQ_E_NOT_FOUND && r->o->skip_missing) {
        infq_warn(r->log, "left out: %s", err->msg);
        return 0;
    }
    return st;
}

static infq_status unknown(const infq_catalog *c, const char *name, infq_err *err)
{
    const char *near = infq_catalog_nearest(c, name);

    return infq_err_set(err, INFQ_E_NOT_FOUND, "%.80s: no such file, task, group or suite%s%s%s; infeval tasks lists them", name,
                        near ? ", " : "", near ? near : "", near ? " was probably meant" : "");
}

/* A task or every task of a group. */
static infq_status each_named(const infq_catalog *c, const char *name, eval_manifest_fn fn, void *ctx, infq_err *err)
{
    const infq_manifest *m = infq_catalog_find(c, name);
    int n = 0;

    if (m)
        return fn(ctx, m, err);
    for (int i = 0; i < infq_catalog_count(c); i++) {
        m = infq_catalog_get(c, i);
        if (!infq_manifest_in(m, name))
            continue;
        INFQ_TRY(fn(ctx, m, err));
        n++;
    }
    return n > 0 ? 0 : unknown(c, name, err);
}

infq_status eval_catalog_each(infq_catalog *c, const char *name, eval_manifest_fn fn, void *ctx, infq_err *err)
{
    int tasks = infq_catalog_count(c);
    const infq_suite *s;

    if (infq_path_exists(name) && (infq_str_ends(name, ".yaml") || infq_str_ends(name, ".yml"))) {
        INFQ_TRY(infq_catalog_load(c, name, err));
        for (int i = tasks; i < infq_catalog_count(c); i++)
            INFQ_TRY(fn(ctx, infq_catalog_get(c, i), err));
        return 0;
    }
    s = infq_catalog_suite_find(c, name);
    for (int i = 0; s && i < s->n_entries; i++)
        INFQ_TRY(each_named(c, s->entries[i].task, fn, ctx, err));
    return s ? 0 : each_named(c, name, fn, ctx, err);
}

/* What add_manifest needs, for each task of a group. */
typedef struct {
    eval_run *r;
    const infq_data_dirs *dirs;
    const entry_settings *e;
    bool kld;
} adder;

static infq_status add_each(void *ctx, const infq_manifest *m, infq_err *err)
{
    const adder *a = ctx;

    return add_manifest(a->r, m, a->dirs, a->e, a->kld, err);
}

static infq_status add_named(eval_run *r, const char *name, const infq_data_dirs *dirs, const entry_settings *e, bool kld, infq_err *err)
{
    return each_named(r->catalog, name, add_each, &(adder){ r, dirs, e, kld }, err);
}

static infq_status add_suite(eval_run *r, const infq_suite *s, const infq_data_dirs *dirs, bool kld, infq_err *err)
{
    if (r->n_suites == EVAL_MAX_SUITES)
        return infq_err_set(err, INFQ_E_USAGE, "more than %d suites", EVAL_MAX_SUITES);
    snprintf(r->suites[r->n_suites++], sizeof(r->suites[0]), "%s", s->name);
    for (int i = 0; i < s->n_entries; i++) {
        const infq_suite_entry *e = &s->entries[i];
        entry_settings set = { e->limit, e->tokens, e->shots };
        int before = r->n_tasks;
        if (add_named(r, e->task, dirs, &set, kld, err))
            return infq_err_in(err, "suite %s", s->name);
        for (int k = before; k < r->n_tasks; k++) {
            r->tasks[k].suite = r->n_suites;
            r->tasks[k].entry = i;
        }
    }
    return 0;
}

/* A user's manifest: what it defines is run. */
static infq_status add_yaml(eval_run *r, const char *path, const infq_data_dirs *dirs, const entry_settings *e, bool kld, infq_err *err)
{
    int tasks = infq_catalog_count(r->catalog), suites = infq_catalog_suite_count(r->catalog);

    INFQ_TRY(infq_catalog_load(r->catalog, path, err));
    for (int i = tasks; i < infq_catalog_count(r->catalog); i++)
        INFQ_TRY(add_manifest(r, infq_catalog_get(r->catalog, i), dirs, e, kld, err));
    for (int i = suites; i < infq_catalog_suite_count(r->catalog); i++)
        INFQ_TRY(add_suite(r, infq_catalog_suite_get(r->catalog, i), dirs, kld, err));
    return 0;
}

static infq_status add_file(eval_run *r, const char *item, const entry_settings *e, bool kld, infq_err *err)
{
    infq_task_options to = task_options(r->o, e);
    char label[128];
    const char *path = infq_task_spec(item, label, sizeof(label));
    bool is_text = false;
    infq_task *t;

    INFQ_TRY(infq_task_is_text(item, &is_text, err));
    if (is_text || (strcmp(label, "wikitext") == 0 && infq_path_exists(path)))
        return eval_text_add(r, item, !kld, kld, err);
    INFQ_TRY(room_for_task(r, err));
    INFQ_TRY(infq_task_open_file(r->catalog, label, path, &to, &t, err));
    return keep_task(r, t, err);
}

static infq_status add_folder(eval_run *r, const char *dir, const entry_settings *e, bool kld, infq_err *err)
{
    char **names = NULL;
    size_t n = 0;
    int before = r->n_tasks;
    infq_status st = 0;

    INFQ_TRY(infq_dir_list(dir, &names, &n, err));
    for (size_t i = 0; i < n && !st; i++) {
        char *path = NULL;
        if (!infq_str_ends(names[i], ".jsonl") && !infq_str_ends(names[i], ".jsonl.gz"))
            continue;
        st = infq_path_join(dir, names[i], &path, err);
        if (!st)
            st = add_file(r, path, e, kld, err);
        infq_mem_free(path);
    }
    infq_dir_list_free(names, n);
    if (!st && r->n_tasks == before)
        st = infq_err_set(err, INFQ_E_NOT_FOUND, "%s: holds no task files (*.jsonl)", dir);
    return st;
}

/* Names go before files, so that a folder called like a task hides nothing; ./NAME is the folder. */
static infq_status add_part(eval_run *r, const char *item, const infq_data_dirs *dirs, bool kld, infq_err *err)
{
    const entry_settings none = { 0, 0, -1 };
    const infq_suite *suite = infq_catalog_suite_find(r->catalog, item);
    char label[128];
    const char *path = infq_task_spec(item, label, sizeof(label));

    if (suite)
        return add_suite(r, suite, dirs, kld, err);
    if (infq_catalog_find(r->catalog, item))
        return add_named(r, item, dirs, &none, kld, err);
    if (infq_path_is_dir(item))
        return add_folder(r, item, &none, kld, err);
    if (infq_path_exists(item) && (infq_str_ends(item, ".yaml") || infq_str_ends(item, ".yml")))
        return add_yaml(r, item, dirs, &none, kld, err);
    if (label[0] || infq_path_exists(path) || strpbrk(item, "/."))
        return add_file(r, item, &none, kld, err);
    return add_named(r, item, dirs, &none, kld, err);
}

infq_status eval_catalog_need(eval_run *r, infq_err *err)
{
    return r->catalog ? 0 : infq_catalog_new(&r->catalog, err);
}

/* Entries are split at commas unless a file is called so. */
infq_status eval_tasks_add(eval_run *r, const opt_list *list, bool kld, infq_err *err)
{
    eval_dirs dirs;

    INFQ_TRY(eval_catalog_need(r, err));
    eval_dirs_of(&r->o->data, &dirs);
    for (int i = 0; i < list->n; i++) {
        const char *s = list->v[i];
        bool whole = infq_path_exists(s);
        while (*s) {
            size_t n = whole ? strlen(s) : strcspn(s, ",");
            char *part = infq_mem_strndup(s, n);
            infq_status st = part ? 0 : infq_err_set(err, INFQ_E_NOMEM, "no memory for the list of tasks");
            if (!st && n > 0)
                st = add_part(r, part, &dirs.dirs, kld, err);
            infq_mem_free(part);
            INFQ_TRY(st);
            s += n + (s[n] == ',');
        }
    }
    return 0;
}
