#include "lib/eval/kld.h"

#include <math.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/eval/stats.h"

#define CHUNK_ROWS 32    /* rows of logits of each model held at once */
#define PASS_TOKENS 2048 /* windows share a forward pass up to this many tokens */

infq_kld_row infq_kld_of(const float *p, const float *q, int64_t vocab, int32_t target)
{
    double sum_p = 0, sum_q = 0, cross = 0, max_p, max_q, ln_p, ln_q;
    int64_t top_p = 0, top_q = 0;
    infq_kld_row r;

    for (int64_t v = 1; v < vocab; v++) {
        top_p = p[v] > p[top_p] ? v : top_p;
        top_q = q[v] > q[top_q] ? v : top_q;
    }
    max_p = p[top_p];
    max_q = q[top_q];
    for (int64_t v = 0; v < vocab; v++) {
        double a = p[v] - max_p, b = q[v] - max_q, e = exp(a);
        sum_p += e;
        sum_q += exp(b);
        cross += e * (a - b);
    }
    ln_p = log(sum_p);
    ln_q = log(sum_q);
    r.kld = cross / sum_p - ln_p + ln_q;
    r.nll_p = ln_p - (p[target] - max_p);
    r.nll_q = ln_q - (q[target] - max_q);
    r.same_top = top_p == top_q;
    return r;
}

/* Mean of a field over positions first.. of each window into means [n_windows]. */
typedef double (*row_value)(const infq_kld_row *r);

static double value_kld(const infq_kld_row *r)
{
    return r->kld;
}

static double value_top(const infq_kld_row *r)
{
    return r->same_top;
}

static double value_ratio(const infq_kld_row *r)
{
    return r->nll_q - r->nll_p;
}

static double value_p(const infq_kld_row *r)
{
    return r->nll_p;
}

static double value_q(const infq_kld_row *r)
{
    return r->nll_q;
}

static double value_dp(const infq_kld_row *r)
{
    return exp(-r->nll_q) - exp(-r->nll_p);
}

static double value_dp2(const infq_kld_row *r)
{
    return value_dp(r) * value_dp(r);
}

static infq_moments over_windows(const infq_kld_row *rows, int64_t n_windows, int64_t per_window, int64_t first, row_value f,
                                 double *means)
{
    for (int64_t w = 0; w < n_windows; w++) {
        double s = 0;
        for (int64_t i = first; i < per_window; i++)
            s += f(&rows[w * per_window + i]);
        means[w] = s / (double)(per_window - first);
    }
    return infq_moments_of(means, n_windows);
}

infq_status infq_kld_summarize(const infq_kld_row *rows, int64_t n_windows, int64_t per_window, int64_t first,
                               infq_kld_summary *out, infq_err *err)
{
    infq_kld_summary s;
    infq_moments m;
    double *x = NULL;
    int64_t n = 0;

    if (n_windows < 1 || first >= per_window)
        return infq_err_set(err, INFQ_E_USAGE, "no positions to summarize");
    // room for every position, used for the windows' means first
    INFQ_TRY(infq_mem_new((size_t)(n_windows * per_window), sizeof(*x), "positions", (void **)&x, err));
    memset(&s, 0, sizeof(s));
    m = over_windows(rows, n_windows, per_window, first, value_kld, x);
    s.kld_mean = m.mean;
    s.kld_se = m.se;
    m = over_windows(rows, n_windows, per_window, first, value_top, x);
    s.same_top = m.mean;
    s.same_top_se = m.se;
    m = over_windows(rows, n_windows, per_window, first, value_ratio, x);
    s.ln_ratio = m.mean;
    s.ln_ratio_se = m.se;
    s.ppl_p = exp(over_windows(rows, n_windows, per_window, first, value_p, x).mean);
    s.ppl_q = exp(over_windows(rows, n_windows, per_window, first, value_q, x).mean);
    s.dp_mean = over_windows(rows, n_windows, per_window, first, value_dp, x).mean;
    m = over_windows(rows, n_windows, per_window, first, value_dp2, x);
    s.dp_rms = sqrt(m.mean);
    s.dp_rms_se = s.dp_rms > 0 ? m.se / (2 * s.dp_rms) : 0;
    for (int64_t w = 0; w < n_windows; w++)
        for (int64_t i = first; i < per_window; i++)
            x[n++] = rows[w * per_window + i].kld;
    infq_sort(x, n);
    s.n = n;
    s.kld_median = infq_percentile(x, n, 0.5);
    s.kld_p90 = infq_percentile(x, n, 0.9);
    s.kld_p95 = infq_percentile(x, n, 0.95);
    s.kld_p99 = infq_percentile(x, n, 0.99);
    s.kld_p999 = infq_percentile(x, n, 0.999);
    s.kld_max = x[n - 1];
    infq_mem_free(x);
    *out = s;
    return 0;
}

typedef struct {
    infq_model *model[2];
    int64_t rows_vocab[2], width[2];
    int64_t vocab;            /* compared entries */
    float *hidden[2], *logits[2];
    infq_seq **seqs;
    infq_segment *segs;
    int64_t window, group;    /* windows a pass */
} pair;

typedef struct {
    const pair *p;
    const int32_t *targets;
    infq_kld_row *rows;
    int64_t first;
} chunk_job;

static void chunk_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const chunk_job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        j->rows[j->first + i] = infq_kld_of(j->p->logits[0] + i * j->p->rows_vocab[0], j->p->logits[1] + i * j->p->rows_vocab[1],
                                            j->p->vocab, j->targets[j->first + i]);
}

/* Windows ids[0 .. n * window): hidden states of both, then logits a chunk at a time. targets, rows: [n * (window - 1)]. */
static infq_status run_group(pair *p, const int32_t *ids, int64_t n, const int32_t *targets, infq_kld_row *rows, infq_err *err)
{
    infq_forward_options f = {.invariant = true};
    int64_t n_rows = n * (p->window - 1);
    infq_status st = 0;

    for (int k = 0; k < 2 && !st; k++) {
        memset(p->seqs, 0, (size_t)n * sizeof(*p->seqs));
        for (int64_t w = 0; w < n && !st; w++) {
            st = infq_seq_new(p->model[k], &p->seqs[w], err);
            p->segs[w] = (infq_segment){p->seqs[w], ids + w * p->window, p->window - 1, p->window - 1};
        }
        if (!st)
            st = infq_model_forward(p->model[k], p->segs, n, &f, p->hidden[k], err);
        for (int64_t w = 0; w < n; w++)
            infq_seq_free(p->seqs[w]);
    }
    for (int64_t row = 0; row < n_rows && !st; row += CHUNK_ROWS) {
        int64_t count = n_rows - row < CHUNK_ROWS ? n_rows - row : CHUNK_ROWS;
        chunk_job job = {p, targets, rows, row};
        for (int k = 0; k < 2 && !st; k++)
            st = infq_model_logits(p->model[k], p->hidden[k] + row * p->width[k], count, true, p->logits[k], err);
        if (!st)
            infq_par_for(count, 1, chunk_part, &job);
    }
    for (int64_t i = 0; i < n_rows && !st; i++)
        if (!isfinite(rows[i].kld) || !isfinite(rows[i].nll_p) || !isfinite(rows[i].nll_q))
            st = infq_err_set(err, INFQ_E_NUMERIC, "a model's logits are not finite");
    return st;
}

static infq_status pair_vocab(pair *p, const infq_tokenizer *tok, infq_err *err)
{
    int64_t a = p->rows_vocab[0], b = p->rows_vocab[1], small = a < b ? a : b;

    // rows that no token has are padding: they may differ in number
    if (a != b && small < infq_tokenizer_size(tok))
        return infq_err_set(err, INFQ_E_MISMATCH, "vocabularies of %lld and %lld rows, the tokenizer uses %lld", (long long)a,
                            (long long)b, (long long)infq_tokenizer_size(tok));
    p->vocab = small;
    return 0;
}

static infq_status pair_room(pair *p, infq_err *err)
{
    for (int k = 0; k < 2; k++) {
        size_t n_hidden, n_logits;
        if (!infq_mul_size((size_t)(p->group * (p->window - 1)), (size_t)p->width[k], &n_hidden) ||
            !infq_mul_size(CHUNK_ROWS, (size_t)p->rows_vocab[k], &n_logits))
            return infq_err_set(err, INFQ_E_NOMEM, "windows of %lld tokens do not fit in memory", (long long)p->window);
        INFQ_TRY(infq_mem_new(n_hidden, sizeof(float), "hidden states", (void **)&p->hidden[k], err));
        INFQ_TRY(infq_mem_new(n_logits, sizeof(float), "logits", (void **)&p->logits[k], err));
    }
    INFQ_TRY(infq_mem_new((size_t)p->group, sizeof(*p->seqs), "sequences", (void **)&p->seqs, err));
    return infq_mem_new((size_t)p->group, sizeof(*p->segs), "segments", (void **)&p->segs, err);
}

static void pair_free(pair *p)
{
    for (int k = 0; k < 2; k++) {
        infq_mem_free(p->hidden[k]);
        infq_mem_free(p->logits[k]);
    }
    infq_mem_free(p->seqs);
    infq_mem_free(p->segs);
}

static infq_status run_windows(pair *p, const infq_ids *ids, int64_t n_windows, const infq_log *log, infq_kld_row *rows,
                               infq_err *err)
{
    int64_t per = p->window - 1;
    int32_t *targets = NULL;
    infq_status st = infq_mem_new((size_t)(p->group * per), sizeof(*targets), "targets", (void **)&targets, err);

    for (int64_t w = 0; w < n_windows && !st; w += p->group) {
        int64_t n = n_windows - w < p->group ? n_windows - w : p->group;
        const int32_t *start = ids->data + w * p->window;
        for (int64_t i = 0; i < n; i++)
            memcpy(targets + i * per, start + i * p->window + 1, (size_t)per * sizeof(*targets));
        if (infq_interrupted)
            st = infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld windows", (long long)w);
        if (!st)
            st = run_group(p, start, n, targets, rows + w * per, err);
        if (!st)
            infq_progress(log, "KL divergence", (uint64_t)(w + n), (uint64_t)n_windows);
    }
    infq_mem_free(targets);
    return st;
}

infq_status infq_kld_measure(infq_model *mp, infq_model *mq, const infq_tokenizer *tok, const char *text, size_t n_text,
                             const infq_kld_options *o, infq_kld_result *out, infq_err *err)
{
    const infq_config *c[2] = {infq_model_config(mp), infq_model_config(mq)};
    int64_t max = c[0]->max_positions < c[1]->max_positions ? c[0]->max_positions : c[1]->max_positions;
    int64_t limit = o->max_tokens > 0 ? o->max_tokens : 32768;
    pair p = {.model = {mp, mq}, .rows_vocab = {c[0]->vocab, c[1]->vocab}, .width = {c[0]->hidden, c[1]->hidden}};
    infq_kld_result r;
    infq_kld_row *rows = NULL;
    infq_ids ids;
    infq_status st;

    memset(&r, 0, sizeof(r));
    infq_ids_init(&ids);
    p.window = r.window = o->window > 0 ? o->window : max < 512 ? max : 512;
    if (p.window < 4 || p.window > max)
        return infq_err_set(err, INFQ_E_USAGE, "--window %lld: 4 to %lld positions are possible with these models",
                            (long long)p.window, (long long)max);
    st = pair_vocab(&p, tok, err);
    if (!st)
        st = infq_tokenizer_encode(tok, text, n_text, 0, &ids, err);
    if (!st)
        st = infq_ids_status(&ids, err);
    if (st)
        goto done;
    r.n_tokens = (int64_t)ids.n < limit ? (int64_t)ids.n : limit;
    r.n_windows = r.n_tokens / p.window;
    r.n_tokens = r.n_windows * p.window;
    if (r.n_windows < 1) {
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "the text gives %lld tokens, less than one window of %lld",
                          (long long)((int64_t)ids.n < limit ? (int64_t)ids.n : limit), (long long)p.window);
        goto done;
    }
    p.group = PASS_TOKENS / p.window > 0 ? PASS_TOKENS / p.window : 1;
    p.group = p.group < r.n_windows ? p.group : r.n_windows;
    st = pair_room(&p, err);
    if (!st)
        st = infq_mem_new((size_t)(r.n_windows * (p.window - 1)), sizeof(*rows), "positions", (void **)&rows, err);
    if (!st)
        st = run_windows(&p, &ids, r.n_windows, o->log, rows, err);
    if (!st)
        st = infq_kld_summarize(rows, r.n_windows, p.window - 1, 0, &r.all, err);
    if (!st)
        st = infq_kld_summarize(rows, r.n_windows, p.window - 1, p.window / 2, &r.half, err);
    if (!st)
        *out = r;
done:
    infq_mem_free(rows);
    infq_ids_deinit(&ids);
    pair_free(&p);
    return st;
}
