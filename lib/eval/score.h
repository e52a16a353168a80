/* Log-likelihoods of continuations under a model (specs 1.2), the scores of task items made of them.
 *
 * Scores are bitwise independent of batch size, order of items and threads: the forward pass runs with `invariant`, every decision about
 * sharing a prefix depends on one item alone, and sums run over an item's tokens in order. */
#ifndef INFQ_EVAL_SCORE_H
#define INFQ_EVAL_SCORE_H

#include "lib/base/log.h"
#include "lib/eval/item.h"
#include "lib/eval/task.h"
#include "lib/io/tokenizer.h"
#include "lib/model/model.h"

/* Whether texts begin with BOS. MODEL: as the tokenizer's own rule says, but never twice. */
typedef enum { INFQ_BOS_MODEL, INFQ_BOS_ALWAYS, INFQ_BOS_NEVER } infq_bos;

/* Ids of a text at the beginning of a sequence. ALWAYS needs a tokenizer with a BOS token (UNSUPPORTED). Appends. */
infq_status infq_encode_text(const infq_tokenizer *tok, infq_bos bos, const char *text, size_t n, infq_ids *ids, infq_err *err);
/* The pair as the reference harness splits it: trailing white space of the context moves to the continuation, both are encoded together,
 * and the ids are split by the length of the context's own encoding. An empty context leaves ctx empty and encodes the
 * continuation without special tokens. Appends to ctx and cont. */
infq_status infq_encode_pair(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context,
                             const char *continuation, size_t n_continuation, infq_ids *ctx, infq_ids *cont, infq_err *err);

/* One row of logits and one token asked of it. */
typedef struct {
    int64_t row;
    int32_t id;
} infq_row_target;
/* Log-probabilities lp[i] of targets (ascending rows) and whether each is the argmax (greedy, may be NULL), from hidden rows; logits are
 * made in chunks of rows, so memory is bounded. NUMERIC if logits are not finite. */
infq_status infq_score_rows(infq_model *m, const float *hidden, int64_t n_rows, const infq_row_target *targets, int64_t n_targets,
                            double *lp, bool *greedy, infq_err *err);

/* Asked after every batch with all items scored so far; *stop (false before) ends the task there, which is no error. */
typedef infq_status (*infq_score_hook)(void *ctx, const infq_items *items, bool *stop, infq_err *err);

typedef struct {
    infq_bos bos;
    int64_t context;   /* longest input; 0 = the model's max_position_embeddings */
    int64_t batch;     /* items a forward pass; 0 = by the number of tokens */
    const infq_log *log;
    /* Early stopping (specs 2.9): items must come in a random order that both models share. */
    const int64_t *order;  /* permutation of the task's items, borrowed: the i-th item scored is order[i]; NULL: as in the file */
    int64_t n_order;       /* with an order: score its first n_order items only; 0: all */
    infq_score_hook hook;  /* NULL: none. With one, items are scored in exactly this order, batch by batch */
    void *hook_ctx;
} infq_score_options;
infq_score_options infq_score_options_default(void);

/* Scores items items->count.. of the task (what is there already was scored by an interrupted run) and appends them to items and,
 * if not NULL, to the log. INTERRUPTED after a signal. */
infq_status infq_score_task(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_score_options *o,
                            infq_items *items, infq_item_log *log, infq_err *err);

/* Aggregate of one metric over items: mean, standard error s / sqrt(n). */
typedef struct {
    char name[24];
    int64_t n;
    double mean, se;
} infq_score;
/* Fills at most `cap` scores in the order of the items' metrics; TARGET items also give "perplexity" = exp(-mean ll) with the
 * error of ln carried over; "inst_..." of GENERATE items are pooled over the instructions of all items, items as clusters. Their
 * number in *n_out. */
infq_status infq_score_summary(const infq_items *items, infq_score *out, int cap, int *n_out, infq_err *err);

#endif
