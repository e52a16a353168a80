/* Two sides of one task, item against item: what the gate decides on.
 *
 * A side is one set of items or several runs of the same. Items are joined by document. Sides are refused, with the first difference
 * named, when task, task digest, tokenizer, metric or settings differ (specs 2.11), a document is missing or there twice, or was asked with other
 * tokens, choices or answer; runs of one side may differ in settings, since they vary on purpose. */
#ifndef INFQ_EVAL_PAIR_H
#define INFQ_EVAL_PAIR_H

#include "lib/eval/item.h"
#include "lib/eval/pooling.h"

/* Generated answers: in how many items a mark is set. lost: only on the compressed side, won: only on the original's. */
typedef struct {
    bool known;
    int64_t a, b, lost, won;
} infq_pair_mark;

typedef struct {
    char task[128], task_digest[65], metric[24], tokenizer[65], settings[192];
    char model_a[256], model_b[256], digest_a[65], digest_b[65];
    int64_t n;
    double *x, *y, *d;          /* [n] score of the original, of the compressed, y - x, in order of documents; means over runs */
    int64_t *doc;               /* [n] */
    int runs_a, runs_b;
    double *scores_a, *scores_b; /* [runs] mean over items of each run */
    bool binary;                /* one run a side and every score 0 or 1 */
    int64_t *cluster;           /* [n] items of equal value belong together; NULL: every item alone */
    int64_t n_clusters;
    infq_crossed crossed;       /* items by runs, when both sides have as many runs; NAN otherwise. Says most when run j of both belong together */
    double flip_rate_a;         /* psi0 of the original from its runs; NAN with one run */
    infq_pair_mark invalid, truncated; /* metrics "invalid" and "truncated" of the items (0/1), first run */
    bool has_length;
    double length_ratio;        /* mean of metric "length", compressed over original, with the interval of 95 % (delta method) */
    double length_lo, length_hi;
    double *marks[6];           /* [n] each or NULL: invalid, truncated, length of the original, then of the compressed */
} infq_pair;

/* 1 when larger values of the metric are better, -1 otherwise ("brier", "perplexity"): scores are turned so that larger is better. */
double infq_metric_sign(const char *metric);
/* metric NULL: what the items say decides, "acc" if they say nothing. NUMERIC for scores that are not finite. */
infq_status infq_pair_new(const infq_items *const *a, int runs_a, const infq_items *const *b, int runs_b, const char *metric,
                          infq_pair **out, infq_err *err);
void infq_pair_free(infq_pair *p);
/* names[i]: cluster of document i, for documents 0..n_names - 1; FORMAT when a document of the pair has none (""). */
infq_status infq_pair_set_clusters(infq_pair *p, char *const *names, int64_t n_names, infq_err *err);
/* Keeps items order[0..n - 1] (indices into the present ones) and counts anew: what a run that stopped early has seen. One run a side. */
infq_status infq_pair_cut(infq_pair *p, const int64_t *order, int64_t n, infq_err *err);

#endif
