/* One scored thing as one JSON line: written as it is scored, readable back, resumable.
 *
 * The first line of a file is an array, ["infq.items/1", {"model", "model_digest", "tokenizer", "task", "task_digest",
 * "metric", "settings"}]: what the scores depend on. Every other line is an object (docs/design/evaluation.md):
 *   doc (index in the task's file), kind "choice" | "target" | "generate" | "window", request (first 16 hex digits of SHA-256 over all
 *   token ids that were fed and scored), metrics {name: value}, and
 *   choice, target: gold, ll (sum of natural log-probabilities, one a continuation), tokens (scored, one a continuation), greedy,
 *   chars, bytes, pick, pick_norm, pick_bytes; truth where several answers are right, cut where an input lost tokens;
 *   generate: text, tokens (written), stop, answer, target, and where they say something parts, cut;
 *   window (of a text, window_store.h): rows, one list of numbers a scored position.
 * An item's line depends on the model and on that item alone: not on the file's name or its other items, batch size, threads or
 * time. Sample logs of the reference harness (specs 6.4) are read too: log-likelihoods and greedy flags of choices, every metric that
 * is a number, for generated answers also "invalid" (the filter found nothing) and "length" (code points); the task's name comes from
 * the file's. */
#ifndef INFQ_EVAL_ITEM_H
#define INFQ_EVAL_ITEM_H

#include <stdint.h>

#include "lib/base/buf.h"

typedef enum { INFQ_ITEM_CHOICE, INFQ_ITEM_TARGET, INFQ_ITEM_GENERATE, INFQ_ITEM_WINDOW } infq_item_kind;

#define INFQ_ITEM_METRICS 8
typedef struct {
    char name[24];
    double value;
} infq_item_metric;

typedef struct {
    int64_t doc;
    infq_item_kind kind;
    char request[65];      /* hex; "" when unknown */
    int64_t gold;          /* CHOICE only, -1 otherwise */
    int64_t n;             /* continuations */
    double *ll;            /* [n] */
    int64_t *n_tokens, *chars, *bytes; /* [n] */
    bool *greedy;          /* [n] */
    const uint8_t *truth;  /* CHOICE with several right answers: [n] 0 or 1, else NULL */
    int64_t pick, pick_norm, pick_bytes;
    const char *text, *answer, *target, *stop; /* GENERATE: what was written, what was taken from it, what is right ("" unknown), why it
                                                * ended; n is 1, n_tokens[0] counts what was written, ll is not used. Else NULL */
    int64_t parts;         /* GENERATE: instructions that metrics "inst_..." are shares of; 1 for other tasks */
    int64_t cut;           /* tokens that the (longest) input lost in front to fit the context */
    const double *rows;    /* WINDOW: [n_rows][width], n is 0; else NULL */
    int64_t n_rows, width;
    int n_metrics;
    infq_item_metric metrics[INFQ_ITEM_METRICS];
    char cluster[17];      /* 16 hex digits of SHA-256 over what the item shares with others (a passage); "" when it stands alone */
} infq_item;

/* What scores depend on; compared field by field. */
typedef struct {
    char model[256], model_digest[65], tokenizer[65], task[128], task_digest[65], metric[24], settings[192];
} infq_item_key;

typedef struct infq_items infq_items;
infq_status infq_items_new(const infq_item_key *key, infq_items **out, infq_err *err);
void infq_items_free(infq_items *s);
/* A new item with room for n continuations, all zero; pointers stay valid until free. */
infq_status infq_items_add(infq_items *s, int64_t n, infq_item **out, infq_err *err);
/* The same with the contents of an item of any set. */
infq_status infq_items_add_copy(infq_items *s, const infq_item *it, infq_err *err);
/* Forgets all behind the first n. */
void infq_items_keep(infq_items *s, int64_t n);
int64_t infq_items_count(const infq_items *s);
void infq_items_truncate(infq_items *s, int64_t n); /* forgets items from the n-th on */
infq_item *infq_items_get(const infq_items *s, int64_t i);
const infq_item_key *infq_items_key(const infq_items *s);
/* Reads a file, ours or a sample log. FORMAT with file, line, rule; numbers that are not finite are NUMERIC. */
infq_status infq_items_load(const char *path, infq_items **out, infq_err *err);
/* What to take from a sample log of the reference harness; our own files are read whole. */
typedef struct {
    const char *filter;   /* NULL: the first one in the file */
    const char *cluster;  /* key of "doc" whose value items share ("passage"), NULL: none */
} infq_items_options;
infq_items_options infq_items_options_default(void);
infq_status infq_items_load_with(const char *path, const infq_items_options *o, infq_items **out, infq_err *err);

/* A copy of s[0..n), terminated, that lives as long as the items. */
infq_status infq_items_text(infq_items *s, const char *text, size_t n, const char **out, infq_err *err);

/* Which choices are right, when several may be: a copy. */
infq_status infq_items_truth(infq_items *s, infq_item *it, const uint8_t *truth, infq_err *err);

/* Fills picks (ties: lowest index) and the metrics acc, acc_norm, acc_bytes, with several right answers also mc2 = sum of e^ll over them / over all
 * (CHOICE), or acc, ll (TARGET), from ll, gold, truth, lengths. */
void infq_item_finish(infq_item *it);
/* Appends a metric; at most INFQ_ITEM_METRICS. */
void infq_item_metric_add(infq_item *it, const char *name, double value);
/* Value of a metric by name; false if the item has none. */
bool infq_item_metric_get(const infq_item *it, const char *name, double *out);

/* Appends the line without newline. */
void infq_item_write(const infq_item *it, infq_buf *to);

/* An item file being written. */
typedef struct infq_item_log infq_item_log;
/* Creates path, or goes on with it: complete items that are there are read into s (which has the key), a torn last line is cut.
 * EXISTS when the file was made with another key (the first difference is named), is no item file or is being written by another
 * process. The file is locked until close. */
infq_status infq_item_log_open(const char *path, infq_items *s, infq_item_log **out, infq_err *err);
infq_status infq_item_log_add(infq_item_log *l, const infq_item *it, infq_err *err);
infq_status infq_item_log_close(infq_item_log *l, infq_err *err); /* flushes; frees also on failure */
/* In settings: behind it stands the variation of a run of infeval noise. */
#define INFQ_SETTINGS_RUN " run: "
/* Whether items made under these settings may be compared: equal, or runs of one declared variation that differ in their seeds
 * (and in what is drawn from them) only; "" is comparable with all. At most as long as infq_item_key.settings. */
bool infq_settings_comparable(const char *a, const char *b);
/* The part of a from the word in which it first differs from b; a itself where that word is near its start. */
const char *infq_first_difference(const char *a, const char *b);
/* Name of the first field in which two keys differ ("model" and "model_digest" left out), NULL if none. Fields that one side does not
 * know ("") are not compared; settings as infq_settings_comparable says. */
const char *infq_item_key_differs(const infq_item_key *a, const infq_item_key *b, const char **va, const char **vb);

#endif
