/* Text from a model for many prompts at once: continuous batches, one result a prompt, in the order of the prompts.
 *
 * A result is a function of the model, its own prompt and the options: bitwise independent of batch, of the other prompts,
 * of threads and of whether a prompt's beginning was computed once for several. The forward pass runs with `invariant`, and
 * every prompt draws from a stream of its own. */
#ifndef INFQ_EVAL_GENERATE_H
#define INFQ_EVAL_GENERATE_H

#include "lib/base/log.h"
#include "lib/eval/score.h"

typedef enum {
    INFQ_FINISH_EOS,     /* the model ended the text */
    INFQ_FINISH_STRING,  /* a stop string occurred */
    INFQ_FINISH_LENGTH   /* max_tokens, or the model's window: the answer is truncated */
} infq_finish;
const char *infq_finish_name(infq_finish s); /* "eos", "stop", "length" */

typedef struct {
    infq_bos bos;
    int64_t max_tokens;          /* of a result; 256 */
    const char *const *stops;    /* the text ends in front of the earliest one; also across tokens, special ones included */
    int n_stops;
    infq_sample_options sample;  /* temperature 0: the likeliest token. seed: of all prompts together */
    int64_t context;             /* longest sequence; 0: the model's max_position_embeddings. A prompt longer than
                                  * context - max_tokens keeps its end */
    int64_t batch;               /* sequences that run together; 0: 32. Fewer while their caches would take more than 2 GiB */
    const infq_log *log;
    const char *what;            /* names the work in progress lines */
} infq_generate_options;
infq_generate_options infq_generate_options_default(void);

/* Borrowed until the callback returns. */
typedef struct {
    int64_t index;               /* of the prompt */
    const char *text;            /* up to the stop string, special tokens left out; valid UTF-8 */
    size_t n_text;
    const int32_t *tokens;       /* generated, the stop's included, the end-of-sequence token apart; NULL from a server */
    int64_t n_tokens;
    int64_t n_prompt, n_cut;     /* tokens fed; tokens that were cut from the front of the prompt */
    infq_finish stop;
    const char *request;         /* first 16 hex digits of SHA-256 over what was asked */
} infq_generated;

/* Where prompts come from and results go. */
typedef struct {
    /* Appends the text of prompt i, chat templates applied. Asked in order, by servers' clients twice. */
    infq_status (*prompt)(void *ctx, int64_t i, infq_buf *text, infq_err *err);
    infq_status (*done)(void *ctx, const infq_generated *g, infq_err *err);
    void *ctx;
} infq_generate_sink;

/* Prompts first .. n - 1. INTERRUPTED after a signal; NUMERIC for logits that are not finite, naming the prompt; UNSUPPORTED when
 * max_tokens leaves no room for a prompt. */
infq_status infq_generate(infq_model *m, const infq_tokenizer *tok, int64_t first, int64_t n, const infq_generate_options *o,
                          const infq_generate_sink *sink, infq_err *err);

/* The digest of a request: what was fed, stops, lengths, sampling. For servers prompt ids are NULL and the text counts. */
infq_status infq_generate_digest(const infq_generate_options *o, const int32_t *ids, int64_t n_ids, const char *text,
                                 size_t n_text, char out[17], infq_err *err);

#endif
