/* tokenizer.json and tokenizer.model: BPE, byte-level and SentencePiece style. Format:
 * docs/format/tokenizer.md. */
#ifndef INFQ_IO_TOKENIZER_H
#define INFQ_IO_TOKENIZER_H

#include "lib/base/buf.h"
#include "lib/base/json.h"

typedef struct infq_tokenizer infq_tokenizer;

/* From a model folder: tokenizer.json, without one tokenizer.model; BOS and EOS from
 * tokenizer_config.json, then special_tokens_map.json, then the post-processor's template. An
 * add_bos_token or add_eos_token of tokenizer_config.json decides over the template. UNSUPPORTED
 * names the component that we lack. */
infq_status infq_tokenizer_open(const char *folder, infq_tokenizer **out, infq_err *err);
/* From the bytes of a tokenizer.json, or of a SentencePiece BPE model (a protobuf; special tokens
 * written out in text are plain text there, and BOS is added with INFQ_TOK_SPECIAL if the model has
 * one). */
infq_status infq_tokenizer_parse(const char *json, size_t n, infq_tokenizer **out, infq_err *err);
infq_status infq_tokenizer_parse_sentencepiece(const void *data, size_t n, infq_tokenizer **out,
                                               infq_err *err);
void infq_tokenizer_free(infq_tokenizer *t);

#define INFQ_TOK_SPECIAL 1u /* run the post-processor (BOS and the like) */
#define INFQ_TOK_PLAIN 2u   /* special tokens written out in the text are plain text */
/* Appends the ids of text[0..n). Invalid UTF-8 is read as U+FFFD. Linear time. Thread-safe on one
 * tokenizer. */
infq_status infq_tokenizer_encode(const infq_tokenizer *t, const char *text, size_t n,
                                  unsigned flags, infq_ids *ids, infq_err *err);
/* Appends the text of the ids. FORMAT for ids outside the vocabulary. */
infq_status infq_tokenizer_decode(const infq_tokenizer *t, const int32_t *ids, size_t n,
                                  bool skip_special, infq_buf *text, infq_err *err);
int64_t infq_tokenizer_size(const infq_tokenizer *t);                  /* largest id + 1 */
int32_t infq_tokenizer_id(const infq_tokenizer *t, const char *token); /* -1 if absent */
/* -1 when there is none. add_bos: whether the post-processor puts BOS in front. */
int32_t infq_tokenizer_bos(const infq_tokenizer *t);
int32_t infq_tokenizer_eos(const infq_tokenizer *t);
bool infq_tokenizer_add_bos(const infq_tokenizer *t);
/* Token that stands in for an empty context: BOS, else EOS, else -1 (evaluation.md 1.2, rule 3). */
int32_t infq_tokenizer_prefix(const infq_tokenizer *t);
/* SHA-256 of the bytes of tokenizer.json or tokenizer.model. */
const char *infq_tokenizer_digest(const infq_tokenizer *t);

#endif
