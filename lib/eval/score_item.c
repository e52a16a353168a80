#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/eval/score_int.h"

/* Context of the request before, in ids: choices of an item usually share it. */
typedef struct {
    const char *text;
    infq_ids ids;
} context_ids;

static infq_status encode(const infq_tokenizer *tok, infq_bos bos, const infq_request *r, context_ids *c, infq_ids *ids, int64_t *n_ctx,
                          infq_err *err)
{
    int32_t prefix = infq_tokenizer_prefix(tok);
    size_t skip;

    if (c->text != r->context) {
        infq_ids_clear(&c->ids);
        c->text = r->context;
        INFQ_TRY(infq_encode_context(tok, bos, r->context, r->n_context, &c->ids, err));
        if (c->ids.n == 0) {
            if (prefix < 0)
                return infq_err_set(err, INFQ_E_UNSUPPORTED, "an empty context needs a BOS or EOS token, the tokenizer has neither");
            infq_ids_push(&c->ids, prefix);
        }
        INFQ_TRY(infq_ids_status(&c->ids, err));
    }
    infq_ids_append(ids, c->ids.data, c->ids.n);
    *n_ctx = (int64_t)c->ids.n;
    INFQ_TRY(infq_encode_continuation(tok, bos, r->context, r->n_context, r->continuation, r->n_continuation, c->ids.n, ids, err));
    // a continuation that begins with the prefix token itself has it as its context
    skip = r->n_context == 0 && (int64_t)ids->n > *n_ctx && ids->data[*n_ctx] == prefix;
    memmove(ids->data + *n_ctx, ids->data + *n_ctx + skip, (ids->n - (size_t)*n_ctx - skip) * sizeof(*ids->data));
    ids->n -= skip;
    return infq_ids_status(ids, err);
}

/* Too long: the last limit + 1 tokens stay, all but the last of them fed. A context of one token at least stays. */
static void cut_front(int64_t limit, int64_t n_ctx, infq_query *q, int64_t *lost)
{
    int64_t drop = q->n - (limit + 1);

    q->n_ctx = n_ctx;
    if (drop <= 0)
        return;
    q->ids += drop;
    q->n -= drop;
    q->n_ctx = n_ctx > drop ? n_ctx - drop : 1;
    *lost = drop > *lost ? drop : *lost;
}

infq_status infq_score_encode(const infq_tokenizer *tok, infq_bos bos, int64_t limit, const infq_doc *d, infq_arena *arena, infq_score_input *out,
                              infq_err *err)
{
    context_ids c = {NULL, {0}};
    infq_ids ids;
    infq_status st;

    *out = (infq_score_input){.doc = d};
    infq_ids_init(&c.ids);
    infq_ids_init(&ids);
    st = infq_arena_calloc(arena, (size_t)d->n_requests, sizeof(*out->q), "queries", (void **)&out->q, err);
    for (int64_t i = 0; i < d->n_requests && !st; i++) {
        infq_query *q = &out->q[i];
        int32_t *copy;
        int64_t n_ctx = 0;
        infq_ids_clear(&ids);
        st = encode(tok, bos, &d->requests[i], &c, &ids, &n_ctx, err);
        if (!st)
            st = infq_arena_alloc(arena, ids.n, sizeof(*copy), "token ids", (void **)&copy, err);
        if (st)
            break;
        memcpy(copy, ids.data, ids.n * sizeof(*copy));
        q->ids = copy;
        q->n = (int64_t)ids.n;
        cut_front(limit, n_ctx, q, &out->cut);
    }
    infq_ids_deinit(&c.ids);
    infq_ids_deinit(&ids);
    return st;
}

static infq_status add_word(infq_sha256 *h, int64_t v, infq_err *err)
{
    uint8_t word[4];

    infq_store_u32le(word, (uint32_t)v);
    return infq_sha256_add(h, word, 4, err);
}

infq_status infq_score_digest(const infq_score_input *in, char hex[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st = infq_sha256_new(&h, err);

    for (int64_t i = 0; i < in->doc->n_requests && !st; i++) {
        const infq_query *q = &in->q[i];
        st = add_word(h, q->n_ctx, err);
        if (!st)
            st = add_word(h, q->n - q->n_ctx, err);
        for (int64_t k = 0; k < q->n && !st; k++)
            st = add_word(h, q->ids[k], err);
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    if (!st)
        hex[16] = '\0';
    return st;
}

infq_status infq_score_item_new(const infq_task *task, const infq_doc *d, infq_items *items, infq_item **out, infq_err *err)
{
    infq_item *it;

    INFQ_TRY(infq_items_add(items, d->n_requests, &it, err));
    it->doc = d->doc;
    it->kind = infq_task_kind_of(task) == INFQ_TASK_TARGET ? INFQ_ITEM_TARGET : INFQ_ITEM_CHOICE;
    it->gold = it->kind == INFQ_ITEM_CHOICE ? d->gold : -1;
    memcpy(it->cluster, d->cluster, sizeof(it->cluster));
    if (d->truth)
        INFQ_TRY(infq_items_truth(items, it, d->truth, err));
    for (int64_t k = 0; k < it->n; k++) {
        it->chars[k] = d->requests[k].chars;
        it->bytes[k] = d->requests[k].bytes;
    }
    *out = it;
    return 0;
}

infq_status infq_score_check_earlier(const infq_task *task, int64_t n, const int64_t *order, infq_items *items, infq_err *err)
{
    infq_items_keep(items, n);
    for (int64_t i = 0; i < infq_items_count(items); i++) {
        const infq_item *it = infq_items_get(items, i);
        const infq_doc *doc = infq_task_get(task, order ? order[i] : i);
        if (it->doc != doc->doc || it->n != doc->n_requests)
            return infq_err_set(err, INFQ_E_EXISTS,
                                "the item file holds document %lld where %lld comes (a line is missing, or another order): "
                                "remove it or name another",
                                (long long)it->doc, (long long)doc->doc);
    }
    return 0;
}
