/* Distance of a compressed model's next-token distributions from the original's on the same tokens (specs 1.5). Both models run in lock-step,
 * window by window; nothing is stored but a few numbers a position, and logits exist for a few rows at a time. reference.h gives the same
 * result against a stored original. */
#ifndef INFQ_EVAL_KLD_H
#define INFQ_EVAL_KLD_H

#include "lib/base/json.h"
#include "lib/eval/score.h"
#include "lib/eval/token_class.h"
#include "lib/eval/window_store.h"

#define INFQ_KLD_TOP 10 /* tokens of the top-k agreement */

/* One position: P the original, Q the compressed model. */
typedef struct {
    double kld;           /* sum_v P(v) (ln P(v) - ln Q(v)), nats */
    double lower, upper;  /* bounds of kld; equal to it when P is known entirely */
    double sample_var;    /* of kld, when a part of it is sampled; 0: exact */
    double nll_p, nll_q;  /* of the true token */
    bool same_top;        /* equal argmax, ties: lowest index */
    double common;        /* share of the INFQ_KLD_TOP likeliest tokens (ties: lowest index) that both have */
} infq_kld_row;
/* From two rows of logits; F64 throughout. p and q have `vocab` entries, 0 <= target < vocab. */
infq_kld_row infq_kld_of(const float *p, const float *q, int64_t vocab, int32_t target);
/* Indices of the k largest of x [n], largest first, ties: lowest index; k <= n. */
void infq_top_k(const float *x, int64_t n, int32_t *index, int64_t k);
/* Share of k indices that two lists have in common. */
double infq_top_common(const int32_t *a, const int32_t *b, int64_t k);

typedef struct {
    int64_t n;            /* positions */
    double kld_mean, kld_se /* over windows; NaN for one */, kld_median, kld_p90, kld_p95, kld_p99, kld_p999, kld_max;
    double kld_lower, kld_upper; /* bounds of the mean: equal to it in lock-step */
    double kld_sample_se; /* of the mean, from sampling alone (draws taken as independent): 0 in lock-step */
    double same_top, same_top_se;
    double top_k;         /* mean share of common tokens among the INFQ_KLD_TOP likeliest */
    double dp_mean, dp_rms, dp_rms_se; /* change of the true token's probability */
    double ppl_p, ppl_q, ln_ratio, ln_ratio_se;
} infq_kld_summary;

/* Positions of one kind. Standard errors: ratio of sums with windows as clusters. */
typedef struct {
    char name[24];
    int64_t n;
    double kld_mean, kld_se;
    double share;         /* of the sum of all positions' divergence */
    double same_top, ln_ratio;
} infq_kld_group;

#define INFQ_KLD_POSITIONS 32
#define INFQ_KLD_BINS 34

typedef struct {
    int64_t window, n_windows, n_tokens;
    infq_kld_summary all;  /* positions 0 .. window - 2 */
    infq_kld_summary half; /* window / 2 .. window - 2 */
    infq_kld_group classes[INFQ_TOKEN_CLASS_COUNT]; /* by the class of the true token */
    infq_kld_group positions[INFQ_KLD_POSITIONS];   /* by place in the window: 0, 1, 2-3, 4-7, ... */
    int n_positions;
    int64_t histogram[INFQ_KLD_BINS]; /* positions by divergence: bin 0 below 1e-6, bin i from 10^(-6 + (i-1)/4), the last from 100 on */
} infq_kld_result;
/* Lower edge of a bin, 0 for the first. */
double infq_kld_bin_edge(int bin);

typedef struct {
    int64_t window;       /* 0: 512, or the models' maximum */
    int64_t max_tokens;   /* first tokens of the text; 0: 32768 */
    /* NULL: as the models are set. Otherwise put in place before each pass of that side: a model against itself under two numerics gives
     * the self-noise of the divergence (specs 2.10). */
    const infq_numerics *numerics_p, *numerics_q;
    const infq_window_store *store; /* rows of kld, nll_p, nll_q, same_top, common; NULL: nothing is kept */
    const infq_log *log;
} infq_kld_options;

/* Windows of the text's first tokens, without special tokens, each with an empty context. MISMATCH when the vocabularies differ in rows
 * that the tokenizer uses; rows beyond the shorter one are cut. */
infq_status infq_kld_measure(infq_model *p, infq_model *q, const infq_tokenizer *tok, const char *text, size_t n,
                             const infq_kld_options *o, infq_kld_result *out, infq_err *err);
/* Summary of rows [n_windows][per_window], positions from `first` on. */
infq_status infq_kld_summarize(const infq_kld_row *rows, int64_t n_windows, int64_t per_window, int64_t first,
                               infq_kld_summary *out, infq_err *err);
/* Everything of a result but n_tokens, from rows [n_windows][per_window] and the class of each position's true token. */
infq_status infq_kld_finish(const infq_kld_row *rows, const uint8_t *classes, int64_t n_windows, int64_t per_window,
                            infq_kld_result *out, infq_err *err);

/* The result as members of an open object (docs/design/evaluation.md), and as lines of text. */
void infq_kld_json(const infq_kld_result *r, infq_jw *w);
void infq_kld_text(const infq_kld_result *r, infq_buf *to);

#endif
