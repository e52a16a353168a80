#include "lib/eval/window_int.h"

#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"

#define PASS_TOKENS 2048 /* windows share a forward pass up to this many tokens */

infq_status infq_windows_cut(const infq_tokenizer *tok, const char *text, size_t n, int64_t window, int64_t max_tokens,
                             int64_t max_positions, infq_windows *out, infq_err *err)
{
    infq_windows w = {.window = window > 0 ? window : INFQ_WINDOW_DEFAULT};
    int64_t limit = max_tokens > 0 ? max_tokens : INFQ_WINDOW_TOKENS, have;
    infq_status st;

    if (window <= 0 && w.window > max_positions)
        w.window = max_positions;
    if (w.window < 4 || w.window > max_positions)
        return infq_err_set(err, INFQ_E_USAGE, "--window %lld: 4 to %lld positions are possible here", (long long)w.window,
                            (long long)max_positions);
    infq_ids_init(&w.ids);
    st = infq_tokenizer_encode(tok, text, n, 0, &w.ids, err);
    if (!st)
        st = infq_ids_status(&w.ids, err);
    have = (int64_t)w.ids.n < limit ? (int64_t)w.ids.n : limit;
    w.n_windows = have / w.window;
    if (!st && w.n_windows < 1)
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "the text gives %lld tokens, less than one window of %lld", (long long)have,
                          (long long)w.window);
    if (st) {
        infq_ids_deinit(&w.ids);
        return st;
    }
    *out = w;
    return 0;
}

void infq_windows_free(infq_windows *w)
{
    infq_ids_deinit(&w->ids);
    w->n_windows = 0;
}

const int32_t *infq_windows_get(const infq_windows *w, int64_t i)
{
    return w->ids.data + i * w->window;
}

int32_t infq_windows_target(const infq_windows *w, int64_t window, int64_t i)
{
    return w->ids.data[window * w->window + i + 1];
}

infq_status infq_windows_digest(const infq_windows *w, char hex[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st = infq_sha256_new(&h, err);

    for (int64_t i = 0; i < w->n_windows * w->window && !st; i++) {
        uint8_t word[4];
        infq_store_u32le(word, (uint32_t)w->ids.data[i]);
        st = infq_sha256_add(h, word, 4, err);
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}

infq_status infq_windows_classes(const infq_windows *w, const infq_tokenizer *tok, int64_t vocab, uint8_t **out, infq_err *err)
{
    int64_t per = w->window - 1;
    uint8_t *of_id = NULL, *c = NULL;
    infq_status st = infq_token_classes(tok, vocab, &of_id, err);

    if (!st)
        st = infq_mem_new((size_t)(w->n_windows * per), 1, "token classes", (void **)&c, err);
    for (int64_t i = 0; i < w->n_windows * per && !st; i++) {
        int32_t id = infq_windows_target(w, i / per, i % per);
        if (id < 0 || id >= vocab)
            st = infq_err_set(err, INFQ_E_NUMERIC, "token id %d is outside the vocabulary of %lld", (int)id, (long long)vocab);
        else
            c[i] = of_id[id];
    }
    infq_mem_free(of_id);
    if (st) {
        infq_mem_free(c);
        return st;
    }
    *out = c;
    return 0;
}

infq_status infq_window_run_init(infq_window_run *r, infq_model *m, const infq_windows *w, int64_t group, infq_err *err)
{
    const infq_config *c = infq_model_config(m);
    size_t n;
    infq_status st;

    *r = (infq_window_run){.m = m, .per = w->window - 1, .vocab = c->vocab, .width = c->hidden};
    r->group = group > 0 ? group : PASS_TOKENS / w->window > 0 ? PASS_TOKENS / w->window : 1;
    r->group = r->group < w->n_windows ? r->group : w->n_windows;
    if (!infq_mul_size((size_t)(r->group * r->per), (size_t)r->width, &n))
        return infq_err_set(err, INFQ_E_NOMEM, "windows of %lld tokens do not fit in memory", (long long)w->window);
    st = infq_mem_new(n, sizeof(float), "hidden states", (void **)&r->hidden, err);
    if (!st)
        st = infq_mem_new((size_t)r->group, sizeof(*r->seqs), "sequences", (void **)&r->seqs, err);
    if (!st)
        st = infq_mem_new((size_t)r->group, sizeof(*r->segs), "segments", (void **)&r->segs, err);
    if (st)
        infq_window_run_free(r);
    return st;
}

void infq_window_run_free(infq_window_run *r)
{
    infq_mem_free(r->hidden);
    infq_mem_free(r->seqs);
    infq_mem_free(r->segs);
    memset(r, 0, sizeof(*r));
}

infq_status infq_window_run_group(infq_window_run *r, const infq_windows *w, int64_t first, int64_t n, const infq_forward_options *f,
                                  infq_err *err)
{
    infq_forward_options fo = *f;
    infq_status st = 0;

    fo.invariant = true;
    memset(r->seqs, 0, (size_t)n * sizeof(*r->seqs));
    for (int64_t i = 0; i < n && !st; i++) {
        st = infq_seq_new(r->m, &r->seqs[i], err);
        r->segs[i] = (infq_segment){r->seqs[i], infq_windows_get(w, first + i), r->per, r->per};
    }
    if (!st)
        st = infq_model_forward(r->m, r->segs, n, &fo, r->hidden, err);
    for (int64_t i = 0; i < n; i++)
        infq_seq_free(r->seqs[i]);
    return st;
}
