/* Completions for programs that run them, and the scores that come back. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/corpus.h"
#include "lib/eval/generate_task.h"

#define MAX_SCORES ((size_t)1 << 30)

// The row's task_id as it is written there, else the document's number.
static infq_status put_id(const infq_doc *d, infq_jw *w, infq_err *err)
{
    cJSON *row = NULL;
    const cJSON *id;

    INFQ_TRY(infq_json_parse(d->row, strlen(d->row), "row", &row, err));
    id = infq_json_get(row, "task_id");
    infq_jw_key(w, "task_id");
    if (id)
        infq_jw_tree(w, id);
    else
        infq_jw_i64(w, d->doc);
    cJSON_Delete(row);
    return INFQ_E_OK;
}

infq_status infq_generate_export(const infq_task *task, const infq_items *items, const char *path, infq_err *err)
{
    infq_outfile *f = NULL;
    infq_buf line;
    infq_status st;

    INFQ_TRY(infq_outfile_create(path, &f, err));
    infq_buf_init(&line);
    st = INFQ_E_OK;
    for (int64_t i = 0; i < infq_items_count(items) && !st; i++) {
        const infq_item *it = infq_items_get(items, i);
        infq_jw w = infq_jw_over(&line, 0);

        infq_buf_clear(&line);
        infq_jw_obj(&w);
        st = put_id(infq_task_get(task, i), &w, err);
        infq_jw_key_str(&w, "completion", it->text);
        infq_jw_key_i64(&w, "doc", it->doc);
        infq_jw_end_obj(&w);
        infq_buf_char(&line, '\n');
        if (!st)
            st = infq_buf_status(&line, err);
        if (!st)
            st = infq_outfile_write(f, line.data, line.n, err);
    }
    infq_buf_deinit(&line);
    if (!st)
        return infq_outfile_finish(f, err);
    infq_outfile_free(f);
    return st;
}

// Text of an id, whatever its type.
static infq_status id_text(const cJSON *id, infq_buf *out, infq_err *err)
{
    infq_jw w = infq_jw_over(out, 0);

    infq_buf_clear(out);
    infq_jw_tree(&w, id);
    return infq_buf_status(out, err);
}

typedef struct {
    infq_map *by_id;         /* text of task_id -> place among the items */
    infq_items *items;
    bool *seen;
    const char *metric;
    infq_buf text;
} importing;

static infq_status map_ids(importing *m, const infq_task *task, char **keys, infq_err *err)
{
    for (int64_t i = 0; i < infq_items_count(m->items); i++) {
        const infq_doc *d = infq_task_get(task, i);
        cJSON *row = NULL;
        const cJSON *id;
        infq_status st = infq_json_parse(d->row, strlen(d->row), "row", &row, err);

        id = st ? NULL : infq_json_get(row, "task_id");
        if (id)
            st = id_text(id, &m->text, err);
        if (id && !st) {
            keys[i] = infq_mem_strndup(m->text.data, m->text.n);
            if (!keys[i] || infq_map_put(m->by_id, keys[i], strlen(keys[i]), i) == -2)
                st = infq_err_set(err, INFQ_E_NOMEM, "ids need memory");
        }
        cJSON_Delete(row);
        if (st)
            return st;
    }
    return INFQ_E_OK;
}

static infq_status place_of(importing *m, const cJSON *o, int64_t *out, infq_err *err)
{
    const cJSON *id = infq_json_get(o, "task_id");
    int64_t doc = -1;

    *out = -1;
    INFQ_TRY(infq_json_i64(o, "doc", -1, &doc, err));
    for (int64_t i = 0; doc >= 0 && i < infq_items_count(m->items) && *out < 0; i++)
        if (infq_items_get(m->items, i)->doc == doc)
            *out = i;
    if (doc < 0 && id) {
        INFQ_TRY(id_text(id, &m->text, err));
        *out = infq_map_get(m->by_id, m->text.data, m->text.n);
    }
    if (*out < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "doc or task_id names none of the items");
    if (m->seen[*out])
        return infq_err_set(err, INFQ_E_FORMAT, "a second score for item %lld", (long long)infq_items_get(m->items, *out)->doc);
    m->seen[*out] = true;
    return INFQ_E_OK;
}

static infq_status score_of(const cJSON *o, double *out, infq_err *err)
{
    const cJSON *score = infq_json_get(o, "score"), *passed = infq_json_get(o, "passed");

    if (cJSON_IsNumber(score))
        *out = score->valuedouble;
    else if (cJSON_IsBool(score ? score : passed))
        *out = cJSON_IsTrue(score ? score : passed);
    else
        return infq_err_set(err, INFQ_E_FORMAT, "neither score nor passed");
    if (!(*out >= 0 && *out <= 1))
        return infq_err_set(err, INFQ_E_NUMERIC, "the score is not between 0 and 1");
    return INFQ_E_OK;
}

static infq_status import_line(importing *m, const char *line, size_t n, infq_err *err)
{
    cJSON *o = NULL;
    int64_t at = 0;
    double score = 0;
    infq_status st;

    INFQ_TRY(infq_json_parse(line, n, "score", &o, err));
    st = place_of(m, o, &at, err);
    if (!st)
        st = score_of(o, &score, err);
    if (!st) {
        infq_item *it = infq_items_get(m->items, at);
        int k = 0;
        while (k < it->n_metrics && strcmp(it->metrics[k].name, m->metric) != 0)
            k++;
        if (k < it->n_metrics)
            it->metrics[k].value = score;
        else if (it->n_metrics < INFQ_ITEM_METRICS)
            infq_item_metric_add(it, m->metric, score);
        else
            st = infq_err_set(err, INFQ_E_FORMAT, "the item has %d metrics already", INFQ_ITEM_METRICS);
    }
    cJSON_Delete(o);
    return st;
}

static infq_status import_lines(importing *m, const infq_buf *file, infq_err *err)
{
    size_t at = 0;

    for (int64_t number = 1; at < file->n; number++) {
        const char *end = memchr(file->data + at, '\n', file->n - at);
        size_t n = end ? (size_t)(end - file->data) - at : file->n - at;

        if (infq_lstrip(file->data + at, n) < n && import_line(m, file->data + at, n, err))
            return infq_err_in(err, "line %lld", (long long)number);
        at += n + (end ? 1 : 0);
    }
    for (int64_t i = 0; i < infq_items_count(m->items); i++)
        if (!m->seen[i])
            return infq_err_set(err, INFQ_E_FORMAT, "item %lld has no score", (long long)infq_items_get(m->items, i)->doc);
    return INFQ_E_OK;
}

infq_status infq_generate_import(const infq_task *task, infq_items *items, const char *path, const char *metric, infq_err *err)
{
    importing m = { .items = items, .metric = metric };
    int64_t n = infq_items_count(items);
    char **keys = NULL;
    infq_buf file;
    void *p;
    infq_status st;

    if (strlen(metric) >= sizeof(((infq_item_metric *)0)->name))
        return infq_err_set(err, INFQ_E_USAGE, "the metric's name is longer than %zu bytes", sizeof(((infq_item_metric *)0)->name) - 1);
    infq_buf_init(&file);
    infq_buf_init(&m.text);
    st = infq_corpus_read(path, MAX_SCORES, &file, err);
    if (!st)
        st = infq_map_new((size_t)n + 1, &m.by_id, err);
    if (!st && !(st = infq_mem_new((size_t)n + 1, sizeof(*keys), "ids", &p, err)))
        keys = p;
    if (!st && !(st = infq_mem_new((size_t)n + 1, sizeof(bool), "flags", &p, err)))
        m.seen = p;
    if (!st && task)
        st = map_ids(&m, task, keys, err);
    if (!st) {
        st = import_lines(&m, &file, err);
        if (st)
            infq_err_in(err, "%s", path);
    }
    for (int64_t i = 0; keys && i < n; i++)
        infq_mem_free(keys[i]);
    infq_mem_free(keys);
    infq_mem_free(m.seen);
    infq_map_free(m.by_id);
    infq_buf_deinit(&m.text);
    infq_buf_deinit(&file);
    return st;
}
