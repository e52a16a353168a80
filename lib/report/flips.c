#include "lib/report/flips.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/report/words.h"

#define TEXT_CHARS 240

static double margin_of(const infq_item *it)
{
    double best = -INFINITY;

    if (it->n < 2 || it->gold < 0 || it->gold >= it->n)
        return NAN;
    for (int64_t i = 0; i < it->n; i++)
        if (i != it->gold && it->ll[i] > best)
            best = it->ll[i];
    return it->ll[it->gold] - best;
}

static int64_t pick_of(const infq_item *it, const char *metric)
{
    return strcmp(metric, "acc_norm") == 0 ? it->pick_norm : strcmp(metric, "acc_bytes") == 0 ? it->pick_bytes : it->pick;
}

static infq_status keep_tail(infq_arena *arena, const char *s, size_t n, const char **out, infq_err *err)
{
    char *tail = infq_tail(s, n, TEXT_CHARS), *copy = NULL;
    infq_status st = tail ? infq_arena_strdup(arena, tail, &copy, err) : infq_err_set(err, INFQ_E_NOMEM, "no memory for a text");

    infq_mem_free(tail);
    if (!st)
        *out = copy;
    return st;
}

static infq_status choice(infq_arena *arena, const infq_doc *d, int64_t i, const char **out, infq_err *err)
{
    if (i < 0 || i >= d->n_requests)
        return 0;
    return keep_tail(arena, d->requests[i].continuation, d->requests[i].n_continuation, out, err);
}

static const infq_doc *find_doc(const infq_task *task, int64_t doc)
{
    int64_t n = infq_task_count(task), from = doc < n ? doc : 0; // documents mostly stand at their own index

    for (int64_t k = 0; k < n; k++) {
        const infq_doc *d = infq_task_get(task, (from + k) % n);
        if (d->doc == doc)
            return d;
    }
    return NULL;
}

static infq_status add_texts(infq_arena *arena, const infq_task *task, const infq_item *x, const infq_item *y, infq_flip *f, infq_err *err)
{
    const infq_doc *d = find_doc(task, x->doc);

    if (!d || d->n_requests < 1)
        return 0;
    INFQ_TRY(keep_tail(arena, d->requests[0].context, d->requests[0].n_context, &f->text, err));
    if (x->kind != INFQ_ITEM_CHOICE)
        return choice(arena, d, 0, &f->answer, err);
    INFQ_TRY(choice(arena, d, x->gold, &f->answer, err));
    INFQ_TRY(choice(arena, d, pick_of(x, f->metric), &f->said_first, err));
    return choice(arena, d, pick_of(y, f->metric), &f->said_second, err);
}

static infq_status next_flip(infq_arena *arena, infq_flip **list, int64_t n, infq_err *err)
{
    infq_flip *grown;

    if (n & (n - 1)) // room doubles at 1, 2, 4, ...
        return 0;
    INFQ_TRY(infq_arena_alloc(arena, n ? 2 * (size_t)n : 1, sizeof(*grown), "changed items", (void **)&grown, err));
    if (n)
        memcpy(grown, *list, (size_t)n * sizeof(*grown));
    *list = grown;
    return 0;
}

infq_status infq_flips_find(infq_arena *arena, const infq_items *a, const infq_items *b, const infq_task *task, const char *name,
                            const char *metric, infq_flip **list, int64_t *n, infq_err *err)
{
    if (infq_items_count(a) != infq_items_count(b))
        return infq_err_set(err, INFQ_E_MISMATCH, "%s: %lld items and %lld items", name, (long long)infq_items_count(a),
                            (long long)infq_items_count(b));
    for (int64_t i = 0; i < infq_items_count(a); i++) {
        const infq_item *x = infq_items_get(a, i), *y = infq_items_get(b, i);
        double before, after;
        if (x->doc != y->doc || x->kind != y->kind || x->n != y->n)
            return infq_err_set(err, INFQ_E_MISMATCH, "%s: item %lld is not the same on both sides", name, (long long)i);
        if (!infq_item_metric_get(x, metric, &before) || !infq_item_metric_get(y, metric, &after) || before == after)
            continue;
        INFQ_TRY(next_flip(arena, list, *n, err));
        (*list)[*n] = (infq_flip){.task = name, .metric = metric, .doc = x->doc, .first = before, .second = after,
                                  .margin_first = margin_of(x), .margin_second = margin_of(y)};
        if (task)
            INFQ_TRY(add_texts(arena, task, x, y, &(*list)[*n], err));
        ++*n;
    }
    return 0;
}

static int worst_first(const void *a, const void *b)
{
    const infq_flip *x = a, *y = b;
    double dx = x->margin_second - x->margin_first, dy = y->margin_second - y->margin_first;
    bool lost_x = x->second < x->first, lost_y = y->second < y->first;
    int by_name;

    if (lost_x != lost_y)
        return lost_x ? -1 : 1;
    if (isnan(dx) != isnan(dy))
        return isnan(dx) ? 1 : -1;
    if (dx < dy || dx > dy)
        return dx < dy ? -1 : 1;
    by_name = strcmp(x->task, y->task);
    return by_name ? by_name : (x->doc > y->doc) - (x->doc < y->doc);
}

void infq_flips_sort(infq_flip *list, int64_t n)
{
    if (n > 1)
        qsort(list, (size_t)n, sizeof(*list), worst_first);
}

static void text_member(infq_jw *w, const char *key, const char *v)
{
    if (v)
        infq_jw_key_str(w, key, v);
}

void infq_flips_write(const infq_flip *list, int64_t n, int64_t most, infq_jw *w)
{
    infq_jw_key_i64(w, "changed", n);
    infq_jw_key(w, "flips");
    infq_jw_arr(w);
    for (int64_t i = 0; i < n && i < most; i++) {
        const infq_flip *f = &list[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "task", f->task);
        infq_jw_key_i64(w, "doc", f->doc);
        infq_jw_key_str(w, "metric", f->metric);
        infq_jw_key_f64(w, "first", f->first);
        infq_jw_key_f64(w, "second", f->second);
        infq_jw_key_f64(w, "margin_first", f->margin_first);
        infq_jw_key_f64(w, "margin_second", f->margin_second);
        text_member(w, "text", f->text);
        text_member(w, "answer", f->answer);
        text_member(w, "said_first", f->said_first);
        text_member(w, "said_second", f->said_second);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

infq_status infq_flips_read(infq_arena *arena, const cJSON *o, infq_flip **list, int64_t *n, int64_t *n_changed, infq_err *err)
{
    const cJSON *e;

    INFQ_TRY(infq_json_i64(o, "changed", 0, n_changed, err));
    cJSON_ArrayForEach(e, infq_json_get(o, "flips")) {
        infq_flip f;
        INFQ_TRY(infq_json_str(e, "task", "", &f.task, err));
        INFQ_TRY(infq_json_str(e, "metric", "", &f.metric, err));
        INFQ_TRY(infq_json_i64(e, "doc", -1, &f.doc, err));
        INFQ_TRY(infq_json_f64(e, "first", NAN, &f.first, err));
        INFQ_TRY(infq_json_f64(e, "second", NAN, &f.second, err));
        INFQ_TRY(infq_json_f64(e, "margin_first", NAN, &f.margin_first, err));
        INFQ_TRY(infq_json_f64(e, "margin_second", NAN, &f.margin_second, err));
        INFQ_TRY(infq_json_str(e, "text", NULL, &f.text, err));
        INFQ_TRY(infq_json_str(e, "answer", NULL, &f.answer, err));
        INFQ_TRY(infq_json_str(e, "said_first", NULL, &f.said_first, err));
        INFQ_TRY(infq_json_str(e, "said_second", NULL, &f.said_second, err));
        INFQ_TRY(next_flip(arena, list, *n, err));
        (*list)[(*n)++] = f;
    }
    return 0;
}
