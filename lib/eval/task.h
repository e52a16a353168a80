/* Tasks: rows of a data file turned into contexts and continuations by a manifest. */
#ifndef INFQ_EVAL_TASK_H
#define INFQ_EVAL_TASK_H

#include <stdint.h>

#include "lib/eval/answer.h"
#include "lib/eval/manifest.h"

/* Borrowed from the task. */
typedef struct {
    const char *context, *continuation;
    size_t n_context, n_continuation;
    int64_t chars, bytes; /* of the choice without its delimiter: code points, UTF-8 bytes */
} infq_request;

typedef struct {
    int64_t doc;          /* index in the file, from 0, blank lines not counted */
    int64_t gold;         /* index of the right (first right) choice; 0 for TARGET and GENERATE */
    int64_t n_requests;   /* TARGET, GENERATE: 1, whose continuation is the target */
    infq_request *requests;
    const uint8_t *truth; /* 0 or 1 for each choice when the manifest's gold is a list, else NULL */
    char cluster[17];     /* as infq_item's */
    const char *row;      /* GENERATE: the row as JSON, else NULL */
} infq_doc;

/* Neutral changes of how contexts look (specs 2.5), in items and examples alike; a context without the place keeps its look. */
typedef enum {
    INFQ_FORMAT_PLAIN,      /* as the manifest says */
    INFQ_FORMAT_BLANK_LINE, /* a blank line in front of the last line ("Answer:") */
    INFQ_FORMAT_ONE_LINE,   /* a blank instead of the newline there */
    INFQ_FORMAT_TWO_BLANKS, /* two blanks behind the first colon that one follows ("Question:  ") */
    INFQ_FORMAT_PAREN,      /* lines "A. text" become "(A) text" */
    INFQ_FORMAT_COUNT
} infq_task_format;
extern const char *const infq_task_format_names[]; /* "plain", "blank line", ... */

typedef struct {
    int64_t limit;        /* documents, 0: all */
    int64_t shots;        /* examples in front, -1: the manifest's count */
    int64_t fewshot_seed; /* -1: as the manifest says; else examples are drawn at random with this seed */
    int64_t rotate;       /* option k of the prompt is option (k + rotate) mod n of the file (multiple-choice manifests with `options`) */
    infq_task_format format;
} infq_task_options;
infq_task_options infq_task_options_default(void);

/* How a GENERATE task's texts are made and judged; texts live as long as the task. */
typedef struct {
    const char *const *stops;
    int n_stops;
    int64_t max_tokens;
    const char *extract;     /* row of lib/eval/answer.h */
    infq_answer_regex regex; /* of extract "regex", else empty */
    bool chat;            /* the context is a user's message */
} infq_task_generation;

typedef struct infq_task infq_task;
/* A manifest's task from the user's data. NOT_FOUND says where a missing file can be had; MISMATCH: it has another hash; FORMAT with file, line,
 * rule for rows: not what the manifest wants, empty choice, answer out of range, id twice. UNSUPPORTED for kind text. */
infq_status infq_task_open_manifest(const infq_manifest *m, const infq_data_dirs *dirs, const infq_task_options *o, infq_task **out,
                                    infq_err *err);
/* A user's own file, read by manifest `label` (name or group, or the first whose name begins so), or by the one that the first row's fields tell
 * when label is "" or unknown; `label` is then the task's name. Hashes are not asked for. */
infq_status infq_task_open_file(const infq_catalog *c, const char *label, const char *path, const infq_task_options *o, infq_task **out,
                                infq_err *err);
/* FILE or NAME=FILE with the compiled-in manifests. */
infq_status infq_task_open(const char *spec, int64_t limit, infq_task **out, infq_err *err);
void infq_task_free(infq_task *t);
const char *infq_task_name(const infq_task *t);    /* "hellaswag", "blimp_adjunct_island", or the file's base name */
const char *infq_task_digest(const infq_task *t);  /* SHA-256 of kind and of all that is asked, whatever the limit: texts, lengths, answers */
infq_task_kind infq_task_kind_of(const infq_task *t);
const char *infq_task_metric(const infq_task *t);  /* the one that decides: "acc", "acc_norm", "mc2" ... */
/* Metric k that the task's items will have; NULL behind the last. */
const char *infq_task_metric_get(const infq_task *t, int k);
/* USAGE, with those there are, when the task's items will have no such metric. */
infq_status infq_task_metric_check(const infq_task *t, const char *metric, infq_err *err);
const char *infq_task_path(const infq_task *t);    /* the data file that was read */
const infq_task_generation *infq_task_generation_of(const infq_task *t); /* NULL unless GENERATE */
/* The target of a TARGET or GENERATE item, its delimiter left out. */
const char *infq_doc_target(const infq_doc *d);
int64_t infq_task_count(const infq_task *t);       /* within the limit */
const infq_doc *infq_task_get(const infq_task *t, int64_t i);
/* Splits NAME=FILE (unless a file is called so) into label and file. */
const char *infq_task_spec(const char *spec, char *label, size_t cap);
/* Whether spec names a running text (first byte that is not blank is no brace or bracket, name no table's) and not a task. */
infq_status infq_task_is_text(const char *spec, bool *is_text, infq_err *err);

#endif
