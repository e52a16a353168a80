/* Between task.c (items, digest), task_source.c (data files), task_examples.c (few-shot), task_file.c (users' own files) and task_prompt.c (one row). */
#ifndef INFQ_EVAL_TASK_INT_H
#define INFQ_EVAL_TASK_INT_H

#include "lib/base/arena.h"
#include "lib/eval/pyrandom.h"
#include "lib/eval/task.h"
#include "lib/io/prompt.h"

#define TASK_MAX_FILE ((size_t)2 << 30)
#define TASK_MAX_SHOTS 1000

/* A list of texts: one template that gives it, or one for each. */
typedef struct {
    infq_prompt *p[64];
    int n;
} prompt_list;

/* Parsed templates of one file's rows. */
typedef struct {
    infq_prompt *description, *context, *target, *gold, *answer, *labels, *delimiter, *cluster, *id;
    prompt_list contexts, options, choices;
    bool by_context, wikihow;
    infq_task_kind kind;
    int64_t rotate;
    infq_task_format format;
} row_prompt;

/* What one row says; all texts in the arena. */
typedef struct {
    const char **contexts;        /* [n], equal pointers when there is one for all */
    const char **choices;         /* [n]; TARGET, GENERATE: the target */
    const char **delimiters;      /* [n] */
    uint8_t *truth;               /* [n] or NULL */
    int64_t n, gold;
    const char *cluster, *id;     /* "" none */
} row_text;

infq_status infq_row_prompt_open(const infq_task_prompt *p, infq_task_kind kind, row_prompt *out, infq_err *err);
void infq_row_prompt_free(row_prompt *p);
/* Appends a context in another look. */
void infq_task_reformat(infq_task_format format, const char *context, infq_buf *to);
/* Renders a row. FORMAT names the rule; the caller adds file and line. */
infq_status infq_row_render(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err);

/* A data file opened: rows with their prompt, the companion file's lines, the fields that all rows have. */
typedef struct {
    const infq_manifest *m;
    const infq_task_file *file;
    infq_buf text, join, common;
    size_t join_at;
    int64_t row;         /* the next one of the file */
    infq_rows *rows;
    row_prompt prompt;
    infq_fields *fields;
    char path[1024];
} row_source;

/* hashed: contents must have the hashes that the manifest says. */
infq_status infq_source_open(row_source *s, const infq_manifest *m, const infq_task_file *f, const char *path, bool hashed,
                             const infq_task_options *o, infq_err *err);
void infq_source_close(row_source *s);
/* Renders the next row into the arena; *end behind the last. *json: GENERATE, the row as JSON, in the arena too; else NULL. */
infq_status infq_source_next(row_source *s, infq_arena *a, row_text *row, const char **json, char where[32], bool *end, infq_err *err);
/* Whole content, with the hash checked unless sha256 is NULL. MISMATCH says both. */
infq_status infq_source_read(const char *path, const char *sha256, infq_buf *out, infq_err *err);
/* fn on the first file of a split that is there. */
typedef infq_status (*infq_with_file_fn)(void *ctx, const infq_task_file *f, const char *path, infq_err *err);
infq_status infq_with_split(const infq_manifest *m, const char *split, const infq_data_dirs *dirs, infq_with_file_fn fn, void *ctx,
                            infq_err *err);

/* What stands in front of items: fixed text, then examples, the same for all or drawn for each. */
typedef struct {
    infq_arena *arena;
    const char **texts;
    int64_t n, cap, shots;
    infq_buf fixed;      /* with its separator */
    bool random, same_split; /* same_split: examples are items of the task, and none is its own */
    infq_pyrandom draw;
} task_examples;

infq_status infq_examples_new(task_examples *x, infq_err *err); /* none */
infq_status infq_examples_open(task_examples *x, const infq_manifest *m, const infq_data_dirs *dirs, const infq_task_options *o,
                               int64_t shots, infq_err *err);
void infq_examples_free(task_examples *x);
/* Appends what stands in front of item `doc`; items come in order, as drawing goes on from one to the next. */
infq_status infq_examples_put(task_examples *x, int64_t doc, infq_buf *out, infq_err *err);

/* A task without items. */
infq_status infq_task_new(const infq_manifest *m, const infq_task_options *o, infq_task **out, infq_err *err);
void infq_task_set_name(infq_task *t, const char *name);
/* Items and digest. */
infq_status infq_task_fill(infq_task *t, row_source *s, task_examples *x, const infq_task_options *o, infq_err *err);

#endif
