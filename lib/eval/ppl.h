/* Perplexity by the three conventions behind published numbers (specs 1.4). Values of different conventions or windows are not comparable, so
 * both travel with the number. */
#ifndef INFQ_EVAL_PPL_H
#define INFQ_EVAL_PPL_H

#include "lib/eval/corpus.h"
#include "lib/eval/score.h"
#include "lib/eval/window_store.h"

typedef enum {
    INFQ_PPL_GPTQ,     /* windows of L, remainder dropped, all L - 1 targets, mean of window means; BOS at the very start only */
    INFQ_PPL_LLAMACPP, /* windows of n, targets n/2 + 1 .. n - 1, BOS replaces each window's first token, mean over tokens */
    INFQ_PPL_ROLLING   /* every token of a document once, one token of left context, prefix token in front; words and bytes */
} infq_ppl_convention;
const char *infq_ppl_name(infq_ppl_convention c);             /* "gptq" */
bool infq_ppl_find(const char *name, infq_ppl_convention *out);
int64_t infq_ppl_default_window(infq_ppl_convention c, int64_t max_positions); /* 2048, 512, the model's maximum */

/* Windows of a rolling evaluation: targets ids[begin..end), fed from ids[feed_from] on; feed_from = -1 means the prefix token. */
typedef struct {
    int64_t feed_from, begin, end;
} infq_window;
/* Number of windows for n tokens; fills at most cap. length >= 1 tokens fed at most, context_len tokens of left context. */
int64_t infq_rolling_windows(int64_t n, int64_t length, int64_t context_len, infq_window *out, int64_t cap);

typedef struct {
    infq_ppl_convention convention;
    int64_t window;     /* 0: the convention's default */
    int64_t max_tokens; /* of each text; 0: all */
    infq_bos bos;
    const infq_window_store *store; /* rows of one number, -ln p of each target; NULL: nothing is kept */
    const infq_log *log;
} infq_ppl_options;

/* One scored window: sum of -ln p and of its square over n targets. */
typedef struct {
    int64_t doc, n;
    double nll, nll2;
} infq_ppl_window;

typedef struct {
    infq_ppl_convention convention;
    int64_t window, n_windows, n_tokens /* scored */, n_docs, words, bytes;
    infq_ppl_window *windows;  /* owned; in order */
    double mean_nll;           /* what is exponentiated */
    double se;                 /* of mean_nll: over windows (gptq), tokens as independent (llamacpp), documents (rolling, byte level) */
    double ppl;                /* exp(mean_nll); rolling: per token */
    double word_ppl, byte_ppl, bits_per_byte; /* rolling only, else NaN */
} infq_ppl_result;

/* UNSUPPORTED when a text has less than one window (two for llamacpp). */
infq_status infq_ppl_measure(infq_model *m, const infq_tokenizer *tok, const infq_corpus *c, const infq_ppl_options *o,
                             infq_ppl_result *out, infq_err *err);
void infq_ppl_result_free(infq_ppl_result *r);
/* Paired ln(ppl_b / ppl_a) over the same windows, with its standard error over windows (or documents, rolling). MISMATCH if they differ. */
infq_status infq_ppl_ratio(const infq_ppl_result *a, const infq_ppl_result *b, double *ln_ratio, double *se, int64_t *n,
                           infq_err *err);

#endif
