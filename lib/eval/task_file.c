/* A user's own file: which manifest reads it. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/corpus.h"
#include "lib/eval/task_int.h"

/* File name without folder, .gz and extension. */
static void base_name(const char *path, char *out, size_t cap)
{
    static const char *const ends[] = {".gz", ".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt"};

    snprintf(out, cap, "%s", infq_path_base(path));
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (infq_str_ends(out, ends[i]) && strlen(out) > strlen(ends[i]))
            out[strlen(out) - strlen(ends[i])] = '\0';
}

/* How many of the file's telling fields the row has: all of them, or 0. */
static int matches(const infq_task_file *f, const cJSON *row)
{
    int n = 0;

    for (const cJSON *e = f->detect ? infq_yaml_first(f->detect) : NULL; e; e = infq_yaml_next(f->detect, e), n++)
        if (!infq_json_get(row, e->valuestring))
            return 0;
    return n;
}

/* Whether a manifest goes by label: its name or group is it, or begins or is begun by it at a _. */
static bool goes_by(const infq_manifest *m, const char *label)
{
    const char *names[] = {m->name, m->group};

    for (int i = 0; i < 2; i++) {
        size_t a = names[i] ? strlen(names[i]) : 0, b = strlen(label), n = a < b ? a : b;
        if (n > 0 && strncmp(names[i], label, n) == 0 && (a == b || (a > b ? names[i][n] : label[n]) == '_'))
            return true;
    }
    return false;
}

typedef struct {
    const infq_manifest *m;
    const infq_task_file *f;
    infq_rows_options rows;
    int score;
} choice;

/* The user's file: its content and how its name says it is laid out. */
typedef struct {
    const char *path;
    infq_buf text;
    infq_rows_options rows;
} own_file;

/* First row as an object, NULL at the end of the file. */
static infq_status first_row(const own_file *u, const infq_rows_options *o, cJSON **out, infq_err *err)
{
    infq_rows *rows;
    const char *json;
    char where[32];
    size_t n;
    infq_status st;

    *out = NULL;
    INFQ_TRY(infq_rows_open(u->text.data, u->text.n, o, &rows, err));
    st = infq_rows_next(rows, &json, &n, where, err);
    if (!st && json)
        st = infq_json_parse(json, n, where, out, err);
    infq_rows_free(rows);
    return st;
}

/* Whether an entry of a manifest reads the file: all of its telling fields are in the first row; with none, its name was said. */
static void consider(const own_file *u, const infq_manifest *m, bool named, choice *best)
{
    const infq_task_split *s = m->kind == INFQ_TASK_TEXT ? NULL : infq_manifest_split(m, m->split);

    for (int i = 0; s && i < s->n_files; i++) {
        const infq_task_file *f = &s->files[i];
        infq_rows_options rows = f->rows.layout == u->rows.layout ? f->rows : u->rows;
        cJSON *row = NULL;
        infq_err ignored;
        int score;
        if (!named && !f->detect)
            continue;
        if (first_row(u, &rows, &row, &ignored) == 0 && row) {
            score = f->detect ? matches(f, row) : f->rows.layout == u->rows.layout;
            if (score > best->score)
                *best = (choice){m, f, rows, score};
        }
        cJSON_Delete(row);
    }
}

static infq_status choose(const infq_catalog *c, const own_file *u, const char *label, choice *best, infq_err *err)
{
    cJSON *row;

    *best = (choice){0};
    for (int pass = 0; pass < 2 && !best->m; pass++) { // the exact name first
        for (int i = 0; label[0] && i < infq_catalog_count(c) && !best->m; i++) {
            const infq_manifest *m = infq_catalog_get(c, i);
            if (pass == 0 ? strcmp(m->name, label) == 0 : goes_by(m, label))
                consider(u, m, true, best);
        }
    }
    for (int i = 0; !best->m && i < infq_catalog_count(c); i++)
        consider(u, infq_catalog_get(c, i), false, best);
    if (best->m)
        return 0;
    INFQ_TRY(first_row(u, &u->rows, &row, err));
    if (!row)
        return infq_err_set(err, INFQ_E_FORMAT, "holds no items");
    cJSON_Delete(row);
    if (label[0])
        return infq_err_set(err, INFQ_E_USAGE, "%s is not a task we know, and the rows are not {context, choices, gold}", label);
    return infq_err_set(err, INFQ_E_FORMAT, "the rows are not {context, choices, gold} nor of a task we know; say NAME=FILE");
}

/* The label, what the manifest calls such a file, or the file's name. */
static infq_status name_file(infq_task *t, const own_file *u, const choice *best, const char *label, infq_err *err)
{
    char base[128];
    cJSON *row = NULL;
    infq_prompt *p = NULL;
    infq_fields *f = NULL;
    infq_buf b;
    infq_status st;

    base_name(u->path, base, sizeof(base));
    infq_task_set_name(t, label[0] ? label : base);
    if (!best->m->called || (label[0] && (!best->m->group || strcmp(label, best->m->group) != 0)))
        return 0;
    infq_buf_init(&b);
    st = infq_prompt_parse(best->m->called, &p, err);
    if (!st)
        st = infq_fields_new(&f, err);
    if (!st)
        st = first_row(u, &best->rows, &row, err);
    for (const cJSON *v = row ? row->child : NULL; v && !st; v = v->next)
        st = infq_fields_set(f, v->string, v, err);
    if (!st && infq_prompt_text(p, f, &b, err) == 0 && b.n > 0) // without those fields the file keeps its name
        infq_task_set_name(t, b.data);
    cJSON_Delete(row);
    infq_buf_deinit(&b);
    infq_prompt_free(p);
    infq_fields_free(f);
    return st;
}

static infq_status fill_from_file(infq_task *t, const own_file *u, const choice *best, const infq_task_options *o, infq_err *err)
{
    infq_task_file f = *best->f;
    task_examples x;
    row_source s;
    infq_status st;

    f.rows = best->rows;
    INFQ_TRY(infq_examples_new(&x, err));
    st = infq_source_open(&s, best->m, &f, u->path, false, o, err);
    if (!st) {
        st = infq_task_fill(t, &s, &x, o, err);
        infq_source_close(&s);
    }
    infq_examples_free(&x);
    return st;
}

infq_status infq_task_open_file(const infq_catalog *c, const char *label, const char *path, const infq_task_options *o, infq_task **out,
                                infq_err *err)
{
    own_file u = {.path = path, .rows = {.layout = infq_rows_layout_of(path)}};
    infq_task_options own = *o;
    infq_task *t = NULL;
    choice best;
    infq_status st;

    if (o->shots > 0)
        return infq_err_set(err, INFQ_E_USAGE, "%s: examples in front need a manifest with a split to take them from", path);
    own.shots = 0;
    u.rows.header = u.rows.layout == INFQ_ROWS_CSV || u.rows.layout == INFQ_ROWS_TSV;
    infq_buf_init(&u.text);
    st = infq_source_read(path, NULL, &u.text, err);
    if (!st) {
        st = choose(c, &u, label, &best, err);
        if (st)
            infq_err_in(err, "%s", path);
    }
    if (!st)
        st = infq_task_new(best.m, &own, &t, err);
    if (!st)
        st = name_file(t, &u, &best, label, err);
    infq_buf_deinit(&u.text);
    if (!st)
        st = fill_from_file(t, &u, &best, &own, err);
    if (st)
        infq_task_free(t);
    else
        *out = t;
    return st;
}

const char *infq_task_spec(const char *spec, char *label, size_t cap)
{
    const char *eq = strchr(spec, '='), *slash = strchr(spec, '/');

    label[0] = '\0';
    if (!eq || eq == spec || (slash && slash < eq) || (size_t)(eq - spec) >= cap || infq_path_exists(spec))
        return spec;
    memcpy(label, spec, (size_t)(eq - spec));
    label[eq - spec] = '\0';
    return eq + 1;
}

infq_status infq_task_open(const char *spec, int64_t limit, infq_task **out, infq_err *err)
{
    infq_task_options o = infq_task_options_default();
    infq_catalog *c;
    char label[128];
    const char *path = infq_task_spec(spec, label, sizeof(label));
    infq_status st;

    INFQ_TRY(infq_catalog_new(&c, err));
    o.limit = limit;
    st = infq_task_open_file(c, label, path, &o, out, err);
    infq_catalog_free(c);
    return st;
}

infq_status infq_task_is_text(const char *spec, bool *is_text, infq_err *err)
{
    char label[128];
    const char *path = infq_task_spec(spec, label, sizeof(label));
    infq_rows_layout layout = infq_rows_layout_of(path);
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = infq_corpus_read(path, TASK_MAX_FILE, &text, err);
    if (!st) {
        size_t mark = infq_bom_length(text.data, text.n), n = mark + infq_lstrip(text.data + mark, text.n - mark);
        *is_text = !label[0] && layout != INFQ_ROWS_CSV && layout != INFQ_ROWS_TSV && n < text.n && text.data[n] != '{' &&
                   text.data[n] != '[';
    }
    infq_buf_deinit(&text);
    return st;
}
