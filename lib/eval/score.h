/* Scores of task items by log-likelihood (specs 1.2). An item's score is a function of model and item alone (likelihood.h). */
#ifndef INFQ_EVAL_SCORE_H
#define INFQ_EVAL_SCORE_H

#include "lib/base/log.h"
#include "lib/eval/encode.h"
#include "lib/eval/item.h"
#include "lib/eval/likelihood.h"
#include "lib/eval/task.h"

/* Asked after every batch with all items scored so far; *stop (false before) ends the task there, which is no error. */
typedef infq_status (*infq_score_hook)(void *ctx, const infq_items *items, bool *stop, infq_err *err);

typedef struct {
    infq_bos bos;
    int64_t context;   /* longest input; 0 = the model's max_position_embeddings */
    int64_t batch;     /* items a batch; 0 = by tokens and cache */
    bool no_sharing;   /* compute every input whole, to show that sharing changes nothing */
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
