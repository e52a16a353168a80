/* An original's next-token distributions on a text, stored small: the likeliest tokens of each position with their log-probabilities, a sample of the
 * rest and what the rest sums to. Then each compressed model is measured alone. Bytes: docs/format/reference.md.
 *
 * Let T be the `top` likeliest tokens of P, t = 1 - P(T), S tokens sampled from P outside T (systematic sampling, seeded by position), K = T and the
 * distinct ones of S, u = 1 - P(K), c the smallest probability in T. Stored: ln P on T and S, t, h = sum over v not in T of P ln P, ln P of the true token.
 * All of Q is known. Then KLD = A + B, A = sum over K of P (ln P - ln Q), and
 *
 *   lower:  B >= u ln(u / Q(not K))                                  (log sum inequality; the data-processing bound of the merged rest)
 *   upper:  B <= h' - c * (sum of ln Q of the m least likely tokens not in K) - r * (ln Q of the next),
 *           h' = h - sum over S of P ln P, m = floor(u / c), r = u - m c: -sum P ln Q is linear in P and largest, under P <= c and
 *           sum P = u, where P sits on the smallest Q.
 *   estimate: A over T + t * mean over S, with repetition, of (ln P - ln Q + beta (Q/P - 1)) - beta (Q(not T) - t), what `kld` of a position is.
 *           Unbiased for any fixed beta; beta is the value of least variance over all positions together.
 *
 * The bounds hold up to the rounding of stored log-probabilities to F32 (relative 1e-7 of ln P). Perplexities, the change of the true token's
 * probability and same-top are exact. */
#ifndef INFQ_EVAL_REFERENCE_H
#define INFQ_EVAL_REFERENCE_H

#include "lib/eval/kld.h"

#define INFQ_REFERENCE_SCHEMA "infq.reference/1"

typedef struct {
    int64_t window, max_tokens; /* as in infq_kld_options */
    int64_t top;                /* 10..4096: 128 */
    int64_t samples;            /* 1..256: 16 */
    uint64_t seed;              /* of the samples */
    bool replace;               /* an existing file */
    char model[256], model_digest[65], text[256], settings[192]; /* recorded; model_digest may be "" */
    const infq_log *log;
} infq_reference_options;
infq_reference_options infq_reference_options_default(void);

/* Runs the model on the text and writes `path` (complete or not at all). EXISTS without replace. */
infq_status infq_reference_write(const char *path, infq_model *m, const infq_tokenizer *tok, const char *text, size_t n,
                                 const infq_reference_options *o, infq_err *err);

typedef struct {
    int64_t window, n_windows, vocab, top, samples;
    uint64_t seed;
    char model[256], model_digest[65], tokenizer[65], text[256], ids_digest[65], settings[192];
} infq_reference_info;

typedef struct infq_reference infq_reference;
/* Maps and checks the file: FORMAT for what is no reference, is cut short or altered (its hash is the last thing in it). */
infq_status infq_reference_open(const char *path, infq_reference **out, infq_err *err);
void infq_reference_close(infq_reference *r);
const infq_reference_info *infq_reference_info_get(const infq_reference *r);

/* Distance of a model from the stored original. MISMATCH when its tokenizer is another one, its vocabulary is smaller or its context is shorter than
 * the windows. Percentiles and the histogram are those of the estimates. store: NULL, or where windows are kept, rows of kld over the stored tokens,
 * lower, upper, nll_p, nll_q, same_top, common, and of the sampled rest p, surplus, a, b, aa, ab, bb (reference_int.h). */
infq_status infq_reference_measure(const infq_reference *r, infq_model *m, const infq_tokenizer *tok, const infq_window_store *store,
                                   const infq_log *log, infq_kld_result *out, infq_err *err);

#endif
