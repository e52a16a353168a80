/* Items made for tests of the gate. */
#ifndef INFQ_TESTS_GATE_PAIRS_H
#define INFQ_TESTS_GATE_PAIRS_H

#include "tests/testlib.h"

#include "lib/eval/decide.h"

/* A set of 0/1 choice items: document i is right when right[i]. settings as given. */
static inline infq_items *gate_items(const char *task, const char *settings, const bool *right, int64_t n)
{
    infq_item_key key = {.task_digest = "d", .tokenizer = "k", .metric = "acc"};
    infq_items *s;
    infq_err err;

    snprintf(key.task, sizeof(key.task), "%s", task);
    snprintf(key.settings, sizeof(key.settings), "%s", settings);
    ck_ok(infq_items_new(&key, &s, &err), err);
    for (int64_t i = 0; i < n; i++) {
        infq_item *it;
        ck_ok(infq_items_add(s, 2, &it, &err), err);
        it->doc = i;
        it->gold = 0;
        snprintf(it->request, sizeof(it->request), "%016llx", (unsigned long long)i);
        it->ll[0] = right[i] ? -1 : -2;
        it->ll[1] = right[i] ? -2 : -1;
        infq_item_finish(it);
    }
    return s;
}

/* Both sides: the first `losses` documents are right on the original's side only, the next `gains` on the other only, every second of the rest on both. */
static inline void gate_sides(const char *task, const char *settings, int64_t losses, int64_t gains, int64_t n, infq_items **a, infq_items **b)
{
    bool *x = calloc((size_t)n, 1), *y = calloc((size_t)n, 1);

    for (int64_t i = 0; i < n; i++) {
        x[i] = i < losses || (i >= losses + gains && i % 2);
        y[i] = (i >= losses && i < losses + gains) || (i >= losses + gains && i % 2);
    }
    *a = gate_items(task, settings, x, n);
    *b = gate_items(task, settings, y, n);
    free(x);
    free(y);
}

/* A run with `n_right` right answers out of n, the first ones. */
static inline infq_items *gate_run(const char *task, const char *settings, int64_t n_right, int64_t n)
{
    bool *x = calloc((size_t)n, 1);
    infq_items *s;

    for (int64_t i = 0; i < n_right; i++)
        x[i] = true;
    s = gate_items(task, settings, x, n);
    free(x);
    return s;
}

static inline infq_pair *gate_pair_of(const infq_items *a, const infq_items *b)
{
    infq_pair *p;
    infq_err err;

    ck_ok(infq_pair_new(&a, 1, &b, 1, NULL, &p, &err), err);
    return p;
}

#endif
