/* Texts to token ids as the reference harness does it (specs 1.2). */
#ifndef INFQ_EVAL_ENCODE_H
#define INFQ_EVAL_ENCODE_H

#include "lib/io/tokenizer.h"

/* Whether texts begin with BOS. MODEL: as the tokenizer's own rule says, but never twice. */
typedef enum { INFQ_BOS_MODEL, INFQ_BOS_ALWAYS, INFQ_BOS_NEVER } infq_bos;

/* Ids of a text at the beginning of a sequence. ALWAYS needs a tokenizer with a BOS token (UNSUPPORTED). Appends. */
infq_status infq_encode_text(const infq_tokenizer *tok, infq_bos bos, const char *text, size_t n, infq_ids *ids, infq_err *err);
/* The pair as the reference harness splits it: trailing white space of the context moves to the continuation, both are encoded together,
 * and the ids are split by the length of the context's own encoding. An empty context leaves ctx empty and encodes the
 * continuation without special tokens. Appends to ctx and cont. */
infq_status infq_encode_pair(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context,
                             const char *continuation, size_t n_continuation, infq_ids *ctx, infq_ids *cont, infq_err *err);
/* Its two halves, for contexts that several continuations share; n_ctx: ids of the context by itself. */
infq_status infq_encode_context(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context, infq_ids *ctx, infq_err *err);
infq_status infq_encode_continuation(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context,
                                     const char *continuation, size_t n_continuation, size_t n_ctx, infq_ids *cont, infq_err *err);

#endif
