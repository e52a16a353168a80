/* What scoring by the engine and by a server share: a task's document as token ids, its digest, its item. */
#ifndef INFQ_EVAL_SCORE_INT_H
#define INFQ_EVAL_SCORE_INT_H

#include "lib/eval/score.h"

/* A document in ids. */
typedef struct {
    const infq_doc *doc;
    infq_query *q;           /* [n_requests]; results not set */
    int64_t cut;             /* most tokens that an input lost in front */
} infq_score_input;
/* limit: tokens fed at most; an input that is longer loses its front. The ids live in the arena. UNSUPPORTED for an empty context when the
 * tokenizer has neither BOS nor EOS. */
infq_status infq_score_encode(const infq_tokenizer *tok, infq_bos bos, int64_t limit, const infq_doc *d, infq_arena *arena, infq_score_input *out,
                              infq_err *err);
/* First 16 hex digits of SHA-256 over lengths and ids. */
infq_status infq_score_digest(const infq_score_input *in, char hex[65], infq_err *err);
/* A new item of the task with all that is known before it is scored. */
infq_status infq_score_item_new(const infq_task *task, const infq_doc *d, infq_items *items, infq_item **out, infq_err *err);
/* Items of an earlier run must be those of the task, in the same order (NULL: the file's); more than n are left out. EXISTS if not. */
infq_status infq_score_check_earlier(const infq_task *task, int64_t n, const int64_t *order, infq_items *items, infq_err *err);

#endif
