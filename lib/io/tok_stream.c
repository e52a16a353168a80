#include "lib/io/tok_stream.h"

#include <string.h>

#define CONTEXT_TOKENS 8

void infq_tok_stream_init(infq_tok_stream *s, size_t n_context)
{
    s->shown = n_context;
    s->from = n_context > CONTEXT_TOKENS ? n_context - CONTEXT_TOKENS : 0;
    infq_buf_init(&s->before);
    infq_buf_init(&s->with);
}

void infq_tok_stream_deinit(infq_tok_stream *s)
{
    infq_buf_deinit(&s->before);
    infq_buf_deinit(&s->with);
}

infq_status infq_tok_stream_more(infq_tok_stream *s, const infq_tokenizer *t, const infq_ids *ids, bool skip_special, bool last,
                                 infq_buf *to, infq_err *err)
{
    bool broken;

    infq_buf_clear(&s->before);
    infq_buf_clear(&s->with);
    INFQ_TRY(infq_tokenizer_decode(t, ids->data + s->from, s->shown - s->from, skip_special, &s->before, err));
    INFQ_TRY(infq_tokenizer_decode(t, ids->data + s->from, ids->n - s->from, skip_special, &s->with, err));
    broken = s->with.n >= 3 && memcmp(s->with.data + s->with.n - 3, "\xef\xbf\xbd", 3) == 0;
    if (broken && !last && ids->n - s->shown < CONTEXT_TOKENS)
        return INFQ_E_OK;
    if (s->with.n > s->before.n)
        infq_buf_add(to, s->with.data + s->before.n, s->with.n - s->before.n);
    s->from = s->shown;
    s->shown = ids->n;
    return infq_buf_status(to, err);
}
