#include "lib/eval/encode.h"

#include <string.h>

#include "lib/base/text.h"

infq_status infq_encode_text(const infq_tokenizer *tok, infq_bos bos, const char *text, size_t n, infq_ids *ids, infq_err *err)
{
    size_t at = ids->n;
    int32_t id = infq_tokenizer_bos(tok);

    if (bos == INFQ_BOS_ALWAYS && id < 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the tokenizer has no BOS token to put in front");
    if (bos == INFQ_BOS_ALWAYS && !infq_tokenizer_add_bos(tok))
        infq_ids_push(ids, id);
    INFQ_TRY(infq_tokenizer_encode(tok, text, n, bos == INFQ_BOS_NEVER ? 0 : INFQ_TOK_SPECIAL, ids, err));
    // a rendered chat template brings its own BOS
    if (bos != INFQ_BOS_NEVER && id >= 0 && ids->n - at >= 2 && ids->data[at] == id && ids->data[at + 1] == id) {
        memmove(ids->data + at, ids->data + at + 1, (ids->n - at - 1) * sizeof(*ids->data));
        ids->n--;
    }
    return infq_ids_status(ids, err);
}

infq_status infq_encode_context(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context, infq_ids *ctx, infq_err *err)
{
    return n_context == 0 ? 0 : infq_encode_text(tok, bos, context, infq_rstrip(context, n_context), ctx, err);
}

infq_status infq_encode_continuation(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context,
                                     const char *continuation, size_t n_continuation, size_t n_ctx, infq_ids *cont, infq_err *err)
{
    infq_buf whole;
    infq_ids all;
    infq_status st;

    if (n_context == 0) {
        INFQ_TRY(infq_tokenizer_encode(tok, continuation, n_continuation, 0, cont, err));
        return infq_ids_status(cont, err);
    }
    infq_buf_init(&whole);
    infq_ids_init(&all);
    infq_buf_add(&whole, context, n_context);
    infq_buf_add(&whole, continuation, n_continuation);
    st = infq_buf_status(&whole, err);
    if (!st)
        st = infq_encode_text(tok, bos, whole.data, whole.n, &all, err);
    if (!st && all.n > n_ctx)
        infq_ids_append(cont, all.data + n_ctx, all.n - n_ctx);
    if (!st)
        st = infq_ids_status(cont, err);
    infq_buf_deinit(&whole);
    infq_ids_deinit(&all);
    return st;
}

infq_status infq_encode_pair(const infq_tokenizer *tok, infq_bos bos, const char *context, size_t n_context,
                             const char *continuation, size_t n_continuation, infq_ids *ctx, infq_ids *cont, infq_err *err)
{
    size_t before = ctx->n;

    INFQ_TRY(infq_encode_context(tok, bos, context, n_context, ctx, err));
    return infq_encode_continuation(tok, bos, context, n_context, continuation, n_continuation, ctx->n - before, cont, err);
}
