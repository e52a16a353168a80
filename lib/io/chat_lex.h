/* Tokens of a chat template, white space control done. */
#ifndef INFQ_IO_CHAT_LEX_H
#define INFQ_IO_CHAT_LEX_H

#include "lib/base/arena.h"

typedef enum {
    CHAT_T_TEXT,        /* s: what is printed as it is */
    CHAT_T_BLOCK,       /* {% */
    CHAT_T_END_BLOCK,   /* %} */
    CHAT_T_PRINT,       /* {{ */
    CHAT_T_END_PRINT,   /* }} */
    CHAT_T_NAME, CHAT_T_STR, CHAT_T_INT, CHAT_T_FLOAT,
    CHAT_T_OP,          /* s: + == ** and so on */
    CHAT_T_EOF
} chat_token_kind;

typedef struct {
    chat_token_kind kind;
    int line;
    const char *s;      /* in the arena or the source; STR: with escapes resolved */
    size_t n;
    int64_t i;
    double f;
} chat_token;

/* All tokens, EOF at the end. The text is UTF-8. */
infq_status infq_chat_lex(infq_arena *a, const char *text, size_t n, chat_token **out, int64_t *n_out, infq_err *err);

#endif
