/* Log-likelihoods of token sequences, with common beginnings computed once.
 *
 * The forward pass runs with `invariant`, and attention gives a row the same bits whether the keys before it were computed with it or lie in the
 * cache (docs/design/backend.md). So a result is a function of model and sequence alone: it does not depend on what else is in a
 * batch, on which beginnings are shared, on the order, or on the threads. */
#ifndef INFQ_EVAL_LIKELIHOOD_H
#define INFQ_EVAL_LIKELIHOOD_H

#include "lib/base/arena.h"
#include "lib/model/model.h"

/* One row of logits and one token asked of it. */
typedef struct {
    int64_t row;
    int32_t id;
} infq_row_target;
/* Log-probabilities lp[i] of targets (ascending rows) and whether each is the argmax (greedy, may be NULL), from hidden rows; logits are
 * made in chunks of rows, so memory is bounded. NUMERIC if logits are not finite; *bad (may be NULL) is then the first such target. */
infq_status infq_score_rows(infq_model *m, const float *hidden, int64_t n_rows, const infq_row_target *targets, int64_t n_targets,
                            double *lp, bool *greedy, int64_t *bad, infq_err *err);

/* A sequence and what is asked of it: the log-probabilities of ids[n_ctx..n), each behind all ids before it. All but the last id are fed. */
typedef struct {
    const int32_t *ids;    /* borrowed */
    int64_t n, n_ctx;      /* 1 <= n_ctx <= n; n_ctx == n asks nothing */
    double ll;             /* out: sum of natural log-probabilities in order of the tokens; 0 when nothing is asked */
    bool greedy;           /* out: every token asked for is the argmax of its row */
} infq_query;

typedef struct {
    bool share;            /* compute common beginnings once */
    size_t cache_bytes;    /* aim for the KV cache of a batch; a single query may need more */
} infq_likelihood_options;
infq_likelihood_options infq_likelihood_options_default(void); /* share, 64 MB */

typedef struct infq_likelihood infq_likelihood;
infq_status infq_likelihood_new(infq_model *m, const infq_likelihood_options *o, infq_likelihood **out, infq_err *err);
void infq_likelihood_free(infq_likelihood *l);
/* Runs the queries as one batch. What all of them begin with is kept for the next call (the examples in front of a task's items). On NUMERIC
 * infq_likelihood_bad tells the query. */
infq_status infq_likelihood_run(infq_likelihood *l, infq_query *q, int64_t n, infq_err *err);
/* The query at which the last run met logits that are not finite, and the first stage whose values are not (0: the embedding, 1..n_layers: behind that
 * block, n_layers + 1: the final norm, n_layers + 2: the head). */
typedef struct {
    int64_t query;
    int stage;
} infq_likelihood_bad;
infq_likelihood_bad infq_likelihood_bad_get(const infq_likelihood *l);
/* Bytes of cache that queries take in a batch which begin with n_shared tokens in common, each going on with about n_own: for whoever fills
 * batches. The beginning is counted once for all, what goes on for one query. */
size_t infq_likelihood_shared_bytes(const infq_likelihood *l, int64_t n_shared);
size_t infq_likelihood_own_bytes(const infq_likelihood *l, int64_t n_own);
/* Since new: tokens that were asked to be fed, and that went through the model. */
typedef struct {
    int64_t asked, computed;
} infq_likelihood_count;
infq_likelihood_count infq_likelihood_count_get(const infq_likelihood *l);

#endif
