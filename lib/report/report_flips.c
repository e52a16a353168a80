/* Changed items of comparisons whose document brings none, from item files. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/report/report_int.h"

/* DIR/MODEL/TASK.jsonl as infeval writes it, or what a gate document names: a file or a folder. */
static bool items_path(const infq_report *r, const char *side, const char *task, char *out, size_t cap)
{
    char safe[128];
    int n;

    snprintf(safe, sizeof(safe), "%s", task);
    for (char *c = safe; *c; c++)
        *c = *c == '/' ? '_' : *c;
    n = snprintf(out, cap, "%s/%s/%s.jsonl", r->store->items ? r->store->items : ".", side, safe);
    if (r->store->items && n < (int)cap && infq_path_exists(out))
        return true;
    n = infq_path_is_dir(side) ? snprintf(out, cap, "%s/%s.jsonl", side, safe) : snprintf(out, cap, "%s", side);
    return n < (int)cap && infq_path_exists(out) && !infq_path_is_dir(out);
}

static infq_status one_task(infq_report *r, infq_report_comparison *c, const infq_report_task *t, infq_err *err)
{
    infq_items *a = NULL, *b = NULL;
    char path_a[2048], path_b[2048];
    infq_status st;

    if (!items_path(r, c->first_items, t->task, path_a, sizeof(path_a)) || !items_path(r, c->second_items, t->task, path_b, sizeof(path_b)))
        return 0;
    st = infq_items_load(path_a, &a, err);
    if (!st)
        st = infq_items_load(path_b, &b, err);
    if (!st && infq_items_count(a) != t->n)
        st = infq_err_set(err, INFQ_E_MISMATCH, "%s holds %lld items, the result was made from %lld", path_a, (long long)infq_items_count(a),
                          (long long)t->n);
    if (!st)
        st = infq_flips_find(r->store->arena, a, b, NULL, t->task, t->metric, &c->flips, &c->n_flips, err);
    infq_items_free(a);
    infq_items_free(b);
    return st;
}

infq_status infq_report_find_flips(infq_report *r, const infq_report_options *o, infq_err *err)
{
    for (int i = 0; i < r->n_comparisons; i++) {
        infq_report_comparison *c = &r->comparisons[i];
        if (c->n_changed == 0) {
            for (int k = 0; k < c->n_tasks; k++)
                INFQ_TRY(one_task(r, c, &c->tasks[k], err));
            c->n_changed = c->n_flips;
            infq_flips_sort(c->flips, c->n_flips);
        }
        if (c->n_flips > o->max_flips)
            c->n_flips = o->max_flips;
    }
    return 0;
}
