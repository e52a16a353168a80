/* Task files: local JSON Lines (plain or .gz) turned into contexts and continuations.
 *
 * A set with layout of its own is a row of the table in task.c (name, telling fields, prompt function). Every other file has the plain
 * layout {"context": str, "choices": [str...], "gold": int}, optionally "delimiter": str. Without one a blank is put between context
 * and choice, unless the context is empty or ends, or the choice begins, with white space. */
#ifndef INFQ_EVAL_TASK_H
#define INFQ_EVAL_TASK_H

#include <stdint.h>

#include "lib/base/err.h"

typedef enum {
    INFQ_TASK_CHOICE, /* the likeliest of several continuations; acc, acc_norm, acc_bytes */
    INFQ_TASK_TARGET  /* one continuation; acc = it is greedy, perplexity */
} infq_task_kind;

/* Borrowed from the task. */
typedef struct {
    const char *context, *continuation;
    size_t n_context, n_continuation;
    int64_t chars, bytes; /* of the choice without its delimiter: code points, UTF-8 bytes */
} infq_request;

typedef struct {
    int64_t doc;          /* index in the file, from 0, blank lines not counted */
    int64_t gold;         /* 0 for TARGET */
    int64_t n_requests;
    infq_request *requests;
} infq_doc;

typedef struct infq_task infq_task;
/* spec is FILE or NAME=FILE, NAME one of infq_task_kind_name's rows or any label for a plain file. At most `limit` documents (0: all).
 * FORMAT with file, line, rule; USAGE for an unknown NAME whose file is not plain. */
infq_status infq_task_open(const char *spec, int64_t limit, infq_task **out, infq_err *err);
void infq_task_free(infq_task *t);
const char *infq_task_name(const infq_task *t);    /* "hellaswag", "blimp_adjunct_island", or the file's base name */
const char *infq_task_digest(const infq_task *t);  /* SHA-256 of layout and file */
infq_task_kind infq_task_kind_of(const infq_task *t);
const char *infq_task_metric(const infq_task *t);  /* the one that decides: "acc" or "acc_norm" */
int64_t infq_task_count(const infq_task *t);
const infq_doc *infq_task_get(const infq_task *t, int64_t i);
/* Whether spec names a running text (first byte that is not blank is no brace) and not a task. */
infq_status infq_task_is_text(const char *spec, bool *is_text, infq_err *err);
/* Names of the rows, for help. */
size_t infq_task_layout_count(void);
const char *infq_task_layout_name(size_t i);

#endif
