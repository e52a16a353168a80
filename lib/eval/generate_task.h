/* Generation tasks: prompts of a task's documents through a model (or a server), answers judged, items written and exported. */
#ifndef INFQ_EVAL_GENERATE_TASK_H
#define INFQ_EVAL_GENERATE_TASK_H

#include "lib/eval/generate.h"
#include "lib/eval/server.h"
#include "lib/io/chat.h"

/* Whether prompts go through the chat template: as the task says (and the model has one), always, never. */
typedef enum { INFQ_CHAT_TASK, INFQ_CHAT_ALWAYS, INFQ_CHAT_NEVER } infq_chat_use;
bool infq_chat_use_find(const char *name, infq_chat_use *out); /* "task", "always", "never" */

typedef struct {
    infq_generate_options generate; /* max_tokens 0: the task's; stops are the task's always */
    infq_chat_use chat;
    const char *system;             /* message in front of the user's, NULL: none */
    const char *think_open, *think_close; /* what stands between these is taken off before answers are extracted; close NULL: kept */
} infq_generate_task_options;
infq_generate_task_options infq_generate_task_options_default(void); /* "<think>", "</think>" */

/* What writes the texts: a model with its tokenizer and template (NULL: it has none), or a server. */
typedef struct {
    infq_model *model;
    const infq_tokenizer *tok;
    const infq_chat *chat;
    infq_server *server;            /* not NULL: instead of the model */
} infq_writer;

/* Whether the task's prompts go through a template with these options: what settings must tell. NOT_FOUND when that is asked for always and the
 * model has none. */
infq_status infq_generate_uses_chat(const infq_writer *w, const infq_task *task, const infq_generate_task_options *o, bool *out,
                                    infq_err *err);
/* Writes items infq_items_count(items) .. of the task, appended to items and, if not NULL, to the log, in order. */
infq_status infq_generate_task(const infq_writer *w, const infq_task *task, const infq_generate_task_options *o, infq_items *items,
                               infq_item_log *log, infq_err *err);

/* Counts over items of a generation task. */
typedef struct {
    int64_t n, truncated, invalid, cut; /* cut: prompts that lost tokens in front */
    double length;                      /* mean, tokens */
} infq_generate_counts;
infq_generate_counts infq_generate_count(const infq_items *items);

/* Completions as lines of JSON for the data set's own program: {"task_id" (as in the row, else the document's number), "completion", "doc"}.
 * EXISTS when the file is there. */
infq_status infq_generate_export(const infq_task *task, const infq_items *items, const char *path, infq_err *err);
/* Scores given elsewhere (unit tests, a judge), lines of JSON: "doc", or "task_id" that the task's rows tell; and "score" (0..1) or "passed".
 * Sets the metric on every item; FORMAT names the line: unknown or twice, no score, an item left without one. */
infq_status infq_generate_import(const infq_task *task, infq_items *items, const char *path, const char *metric, infq_err *err);

#endif
