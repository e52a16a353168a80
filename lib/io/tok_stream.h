/* Text of tokens as they come: what a token looks like can depend on those before it (leading blanks, characters of several
 * tokens), so each is decoded behind a few earlier ones, and text goes out only up to whole characters. */
#ifndef INFQ_IO_TOK_STREAM_H
#define INFQ_IO_TOK_STREAM_H

#include "lib/io/tokenizer.h"

typedef struct {
    size_t from, shown;    /* ids[from..shown) are decoded in front of ids[shown..), whose text is not out yet */
    infq_buf before, with; /* text of ids[from..shown), of all from `from` on */
} infq_tok_stream;

/* n_context: tokens of the list that are not put out themselves, a prompt. */
void infq_tok_stream_init(infq_tok_stream *s, size_t n_context);
void infq_tok_stream_deinit(infq_tok_stream *s);
/* ids: the whole list so far, of the same tokens as before and more. Appends the new text to `to`; nothing while the last
 * tokens end inside a character, unless `last`. */
infq_status infq_tok_stream_more(infq_tok_stream *s, const infq_tokenizer *t, const infq_ids *ids, bool skip_special, bool last,
                                 infq_buf *to, infq_err *err);

#endif
