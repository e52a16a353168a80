/* Classes of tokens by their text, for breakdowns of distribution metrics: where a compressed model loses. */
#ifndef INFQ_EVAL_TOKEN_CLASS_H
#define INFQ_EVAL_TOKEN_CLASS_H

#include "lib/io/tokenizer.h"

/* The first that holds. "Begins" means behind leading white space. A letter is ASCII, or Latin with marks (U+00C0..U+024F, U+1E00..U+1EFF). */
typedef enum {
    INFQ_TOKEN_SPECIAL,      /* stands for no text: BOS, padding, ids that the tokenizer lacks */
    INFQ_TOKEN_SPACE,        /* white space alone, newlines among it */
    INFQ_TOKEN_WORD,         /* white space, then a letter: a word starts */
    INFQ_TOKEN_CONTINUATION, /* begins with a letter: a word goes on (or starts behind no white space) */
    INFQ_TOKEN_DIGIT,        /* begins with 0..9 */
    INFQ_TOKEN_PUNCTUATION,  /* begins with another ASCII character, or one of U+00A1..U+00BF, U+00D7, U+00F7, U+2010..U+206F */
    INFQ_TOKEN_OTHER,        /* another script, or a piece of a character */
    INFQ_TOKEN_CLASS_COUNT
} infq_token_class;
const char *infq_token_class_name(infq_token_class c); /* "special", "space", "word start", ... */
infq_token_class infq_token_class_of(const char *text, size_t n);
/* Class of each id 0 .. vocab - 1, infq_mem_free. A token's text is what it adds behind another token, so that a leading blank that
 * decoders drop at a text's beginning counts. */
infq_status infq_token_classes(const infq_tokenizer *tok, int64_t vocab, uint8_t **out, infq_err *err);

#endif
