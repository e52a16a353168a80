#include "tools/calib_data.h"

#include <string.h>

#include "lib/eval/corpus.h"

static infq_status from_model(const infq_checkpoint *ck, const infq_tokenizer *tok, int64_t window, int64_t n_windows, uint64_t seed,
                              const infq_log *log, infq_calib *out, infq_err *err)
{
    infq_model_options mo = { .max_context = window };
    infq_backend *be = NULL;
    infq_model *m = NULL;
    infq_status st = infq_backend_open("auto", &be, err);

    if (!st)
        st = infq_model_open(ck, be, &mo, &m, err);
    if (!st)
        st = infq_calib_self(m, infq_tokenizer_prefix(tok), window, n_windows, seed, log, out, err);
    infq_model_close(m);
    infq_backend_close(be);
    return st;
}

static infq_status from_file(const infq_tokenizer *tok, const char *path, int64_t window, int64_t n_windows, const infq_log *log,
                             infq_calib *out, infq_err *err)
{
    const char *base = strrchr(path, '/');
    infq_corpus *c = NULL;
    infq_ids ids;
    infq_status st;

    infq_ids_init(&ids);
    st = infq_corpus_open(path, INFQ_CORPUS_PLAIN, true, 0, &c, err);
    for (size_t i = 0; !st && i < infq_corpus_count(c) && (int64_t)ids.n < window * n_windows; i++) {
        const infq_corpus_doc *d = infq_corpus_get(c, i);
        // No more text than can be needed: a token has 16 bytes at most on average.
        size_t most = (size_t)(window * n_windows) * 16, n = d->n < most ? d->n : most;
        st = infq_tokenizer_encode(tok, d->text, n, 0, &ids, err);
    }
    if (!st)
        st = infq_ids_status(&ids, err);
    if (!st)
        st = infq_calib_from_ids(ids.data, (int64_t)ids.n, window, n_windows, base ? base + 1 : path, log, out, err);
    infq_corpus_free(c);
    infq_ids_deinit(&ids);
    return st;
}

infq_status calib_data_load(const infq_checkpoint *ck, const char *spec, int64_t window, int64_t n_windows, uint64_t seed,
                            const infq_log *log, infq_calib *out, infq_err *err)
{
    infq_tokenizer *tok;
    infq_status st;

    INFQ_TRY(infq_tokenizer_open(infq_checkpoint_path(ck), &tok, err));
    st = strcmp(spec, "self") == 0 ? from_model(ck, tok, window, n_windows, seed, log, out, err)
                                   : from_file(tok, spec, window, n_windows, log, out, err);
    infq_tokenizer_free(tok);
    return st;
}
