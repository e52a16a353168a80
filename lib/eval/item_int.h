/* Lines that other files than item.c write and read: generated items, sample logs. */
#ifndef INFQ_EVAL_ITEM_INT_H
#define INFQ_EVAL_ITEM_INT_H

#include "lib/base/arena.h"
#include "lib/base/json.h"
#include "lib/eval/item.h"

struct infq_items {
    infq_item_key key;
    infq_arena *arena;
    infq_item **items;     /* each in the arena, so that pointers stay */
    int64_t n, cap;
};

/* Members of the open object: text, tokens, stop, answer, target, parts, cut. */
void infq_item_generate_write(const infq_item *it, infq_jw *w);
infq_status infq_item_generate_read(infq_items *s, const cJSON *o, infq_item *it, infq_err *err);

/* The same of windows: rows. */
void infq_item_window_write(const infq_item *it, infq_jw *w);
infq_status infq_item_window_read(infq_items *s, const cJSON *o, infq_item *it, infq_err *err);

/* One line of a sample log; lines of another filter are passed over. */
infq_status infq_sample_read(infq_items *s, const cJSON *line, const infq_items_options *o, infq_err *err);
/* "samples_TASK_2026-01-31T12-00-00.000000.jsonl" gives TASK; out stays as it is for other names. */
void infq_sample_task_of(const char *path, char *out, size_t cap);

#endif
