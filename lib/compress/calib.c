#include "lib/compress/calib.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#define SELF_BATCH 8 /* windows written at a time: as many rows as the fast products take */

static infq_status new_calib(int64_t window, int64_t n_windows, const char *source, infq_calib *c, infq_err *err)
{
    size_t n;
    void *p;

    *c = (infq_calib){ .n_windows = n_windows, .window = window };
    snprintf(c->source, sizeof(c->source), "%s", source);
    if (!infq_mul_size((size_t)window, (size_t)n_windows, &n))
        return infq_err_set(err, INFQ_E_USAGE, "too many calibration tokens");
    INFQ_TRY(infq_mem_new(n, sizeof(int32_t), "calibration tokens", &p, err));
    c->ids = p;
    return INFQ_E_OK;
}

static infq_status digest(infq_calib *c, infq_err *err)
{
    return infq_sha256_of(c->ids, (size_t)(c->n_windows * c->window) * sizeof(int32_t), c->digest, err);
}

infq_status infq_calib_from_ids(const int32_t *ids, int64_t n, int64_t window, int64_t n_windows, const char *source,
                                const infq_log *log, infq_calib *out, infq_err *err)
{
    int64_t have = n / window;
    infq_status st;

    if (n < 2)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %lld usable tokens, calibration needs at least 2", source, (long long)n);
    if (have == 0) {
        window = n;
        have = 1;
    }
    if (have < n_windows)
        infq_warn(log, "%s: %lld windows of %lld tokens instead of %lld; statistics of few tokens are unsure", source, (long long)have,
                  (long long)window, (long long)n_windows);
    INFQ_TRY(new_calib(window, have < n_windows ? have : n_windows, source, out, err));
    memcpy(out->ids, ids, (size_t)(out->n_windows * window) * sizeof(int32_t));
    st = digest(out, err);
    if (st)
        infq_calib_free(out);
    return st;
}

// Windows that are written together.
typedef struct {
    infq_model *m;
    infq_seq *seq[SELF_BATCH];
    infq_rng rng[SELF_BATCH];
    float *hidden, *logits;
} writers;

static infq_status write_windows(writers *w, const infq_calib *c, int64_t first, int64_t n, int32_t prefix, const infq_log *log,
                                 infq_err *err)
{
    const infq_config *cfg = infq_model_config(w->m);
    infq_forward_options fo = { .invariant = false };
    infq_segment segs[SELF_BATCH];

    for (int64_t i = 0; i < n; i++) {
        infq_seq_truncate(w->seq[i], 0);
        c->ids[(first + i) * c->window] = prefix >= 0 ? prefix : 0;
    }
    for (int64_t t = 0; t + 1 < c->window; t++) {
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted");
        for (int64_t i = 0; i < n; i++)
            segs[i] = (infq_segment){ w->seq[i], c->ids + (first + i) * c->window + t, 1, 1 };
        INFQ_TRY(infq_model_forward(w->m, segs, n, &fo, w->hidden, err));
        INFQ_TRY(infq_model_logits(w->m, w->hidden, n, false, w->logits, err));
        for (int64_t i = 0; i < n; i++) {
            // The first words are drawn wide, so that windows begin differently.
            infq_sample_options so = { .temperature = t < 4 ? 1.5 : 0.8 + 0.1 * (double)((first + i) % 5), .top_k = 0, .top_p = 1.0 };
            c->ids[(first + i) * c->window + t + 1] = infq_sample(&so, &w->rng[i], w->logits + i * cfg->vocab, cfg->vocab);
        }
        infq_progress(log, "writing calibration text", (uint64_t)(first * c->window + t * n), (uint64_t)(c->n_windows * c->window));
    }
    return INFQ_E_OK;
}

infq_status infq_calib_self(infq_model *m, int32_t prefix, int64_t window, int64_t n_windows, uint64_t seed, const infq_log *log,
                            infq_calib *out, infq_err *err)
{
    const infq_config *c = infq_model_config(m);
    writers w = { .m = m };
    infq_status st = new_calib(window, n_windows, "self", out, err);
    void *p = NULL;

    if (!st)
        out->seed = seed;
    if (!st && !(st = infq_mem_new((size_t)(SELF_BATCH * c->hidden), sizeof(float), "hidden states", &p, err)))
        w.hidden = p;
    if (!st && !(st = infq_mem_new((size_t)(SELF_BATCH * c->vocab), sizeof(float), "logits", &p, err)))
        w.logits = p;
    for (int64_t i = 0; !st && i < SELF_BATCH; i++)
        st = infq_seq_new(m, &w.seq[i], err);
    for (int64_t at = 0; !st && at < n_windows; at += SELF_BATCH) {
        for (int64_t i = 0; i < SELF_BATCH; i++)
            w.rng[i] = infq_rng_seed(seed + (uint64_t)(at + i));
        st = write_windows(&w, out, at, n_windows - at < SELF_BATCH ? n_windows - at : SELF_BATCH, prefix, log, err);
    }
    if (!st)
        st = digest(out, err);
    for (int i = 0; i < SELF_BATCH; i++)
        infq_seq_free(w.seq[i]);
    infq_mem_free(w.hidden);
    infq_mem_free(w.logits);
    if (st)
        infq_calib_free(out);
    return st;
}

void infq_calib_free(infq_calib *c)
{
    infq_mem_free(c->ids);
    *c = (infq_calib){ 0 };
}
