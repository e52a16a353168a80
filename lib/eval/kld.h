/* Distance of a compressed model's next-token distributions from the original's on the same tokens (specs 1.5). Both models run in lock-step,
 * window by window; nothing is stored but a few numbers a position, and logits exist for a few rows at a time. */
#ifndef INFQ_EVAL_KLD_H
#define INFQ_EVAL_KLD_H

#include "lib/eval/score.h"

/* One position: P the original, Q the compressed model. */
typedef struct {
    double kld;           /* sum_v P(v) (ln P(v) - ln Q(v)), nats */
    double nll_p, nll_q;  /* of the true token */
    bool same_top;        /* equal argmax, ties: lowest index */
} infq_kld_row;
/* From two rows of logits; F64 throughout. p and q have `vocab` entries, 0 <= target < vocab. */
infq_kld_row infq_kld_of(const float *p, const float *q, int64_t vocab, int32_t target);

typedef struct {
    int64_t n;            /* positions */
    double kld_mean, kld_se /* over windows; NaN for one */, kld_median, kld_p90, kld_p95, kld_p99, kld_p999, kld_max;
    double same_top, same_top_se;
    double dp_mean, dp_rms, dp_rms_se; /* change of the true token's probability */
    double ppl_p, ppl_q, ln_ratio, ln_ratio_se;
} infq_kld_summary;

typedef struct {
    int64_t window, n_windows, n_tokens;
    infq_kld_summary all;  /* positions 0 .. window - 2 */
    infq_kld_summary half; /* window / 2 .. window - 2 */
} infq_kld_result;

typedef struct {
    int64_t window;       /* 0: 512, or the models' maximum */
    int64_t max_tokens;   /* first tokens of the text; 0: 32768 */
    const infq_log *log;
} infq_kld_options;

/* Windows of the text's first tokens, without special tokens, each with an empty context. MISMATCH when the vocabularies differ in rows
 * that the tokenizer uses; rows beyond the shorter one are cut. */
infq_status infq_kld_measure(infq_model *p, infq_model *q, const infq_tokenizer *tok, const char *text, size_t n,
                             const infq_kld_options *o, infq_kld_result *out, infq_err *err);
/* Summary of rows [n_windows][per_window], positions from `first` on. */
infq_status infq_kld_summarize(const infq_kld_row *rows, int64_t n_windows, int64_t per_window, int64_t first,
                               infq_kld_summary *out, infq_err *err);

#endif
