#include "lib/eval/kld.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/eval/stats.h"
#include "lib/eval/window_int.h"

#define CHUNK_ROWS 32 /* rows of logits of each model held at once */
#define BIN_LOW (-6.0) /* log10 of the first edge */
#define BINS_A_DECADE 4
#define STORED 5 /* numbers of a position in item files (kld.h) */

void infq_top_k(const float *x, int64_t n, int32_t *index, int64_t k)
{
    int64_t have = 0;

    for (int64_t v = 0; v < n && k > 0; v++) {
        int64_t at;
        if (have == k && !(x[v] > x[index[k - 1]]))
            continue;
        at = have < k ? have++ : k - 1;
        for (; at > 0 && x[v] > x[index[at - 1]]; at--)
            index[at] = index[at - 1];
        index[at] = (int32_t)v;
    }
}

double infq_top_common(const int32_t *a, const int32_t *b, int64_t k)
{
    int n = 0;

    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            n += a[i] == b[j];
    return (double)n / (double)k;
}

infq_kld_row infq_kld_of(const float *p, const float *q, int64_t vocab, int32_t target)
{
    int32_t top_p[INFQ_KLD_TOP], top_q[INFQ_KLD_TOP];
    int64_t k = vocab < INFQ_KLD_TOP ? vocab : INFQ_KLD_TOP;
    double sum_p = 0, sum_q = 0, cross = 0, max_p, max_q, ln_p, ln_q;
    infq_kld_row r;

    infq_top_k(p, vocab, top_p, k);
    infq_top_k(q, vocab, top_q, k);
    max_p = p[top_p[0]];
    max_q = q[top_q[0]];
    for (int64_t v = 0; v < vocab; v++) {
        double a = p[v] - max_p, b = q[v] - max_q, e = exp(a);
        sum_p += e;
        sum_q += exp(b);
        cross += e * (a - b);
    }
    ln_p = log(sum_p);
    ln_q = log(sum_q);
    r.sample_var = 0;
    r.kld = r.lower = r.upper = cross / sum_p - ln_p + ln_q;
    r.nll_p = ln_p - (p[target] - max_p);
    r.nll_q = ln_q - (q[target] - max_q);
    r.same_top = top_p[0] == top_q[0];
    r.common = infq_top_common(top_p, top_q, k);
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

static double value_lower(const infq_kld_row *r)
{
    return r->lower;
}

static double value_upper(const infq_kld_row *r)
{
    return r->upper;
}

static double value_sample_var(const infq_kld_row *r)
{
    return r->sample_var;
}

static double value_common(const infq_kld_row *r)
{
    return r->common;
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
    s.kld_lower = over_windows(rows, n_windows, per_window, first, value_lower, x).mean;
    s.kld_upper = over_windows(rows, n_windows, per_window, first, value_upper, x).mean;
    s.kld_sample_se = sqrt(over_windows(rows, n_windows, per_window, first, value_sample_var, x).mean / (double)(n_windows * (per_window - first)));
    s.top_k = over_windows(rows, n_windows, per_window, first, value_common, x).mean;
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

double infq_kld_bin_edge(int bin)
{
    return bin <= 0 ? 0 : pow(10, BIN_LOW + (double)(bin - 1) / BINS_A_DECADE);
}

static int bin_of(double kld)
{
    double at;

    if (!(kld >= infq_kld_bin_edge(1)))
        return 0;
    at = floor((log10(kld) - BIN_LOW) * BINS_A_DECADE + 1e-9) + 1;
    return at < INFQ_KLD_BINS - 1 ? (int)at : INFQ_KLD_BINS - 1;
}

/* Which group a position belongs to. */
typedef struct {
    const uint8_t *classes;
    int64_t per_window;
} grouping;
typedef int (*group_of)(const grouping *g, int64_t i);

static int group_class(const grouping *g, int64_t i)
{
    return g->classes[i];
}

static int group_position(const grouping *g, int64_t i)
{
    int64_t at = i % g->per_window;
    int k = 0;

    for (; at > 0; at >>= 1)
        k++;
    return k;
}

/* Sums of one group in each window: num, den [n_windows]. */
static void fill_group(const infq_kld_row *rows, const grouping *g, group_of which, int group, int64_t n_windows, double total, double *num,
                       double *den, infq_kld_group *out)
{
    double sum = 0, top = 0, ratio = 0;
    int64_t n = 0, n_in = 0;
    infq_ratio r;

    for (int64_t w = 0; w < n_windows; w++) {
        num[w] = den[w] = 0;
        for (int64_t i = w * g->per_window; i < (w + 1) * g->per_window; i++) {
            if (which(g, i) != group)
                continue;
            num[w] += rows[i].kld;
            den[w] += 1;
            top += rows[i].same_top;
            ratio += value_ratio(&rows[i]);
        }
        sum += num[w];
        n += (int64_t)den[w];
        n_in += den[w] > 0;
    }
    r = infq_ratio_of(num, den, n_windows);
    out->n = n;
    out->kld_mean = n ? sum / (double)n : NAN;
    out->kld_se = n_in > 1 ? r.se : NAN; // one window says nothing about others
    out->share = total > 0 ? sum / total : 0;
    out->same_top = n ? top / (double)n : NAN;
    out->ln_ratio = n ? ratio / (double)n : NAN;
}

infq_status infq_kld_finish(const infq_kld_row *rows, const uint8_t *classes, int64_t n_windows, int64_t per_window,
                            infq_kld_result *out, infq_err *err)
{
    grouping g = {classes, per_window};
    infq_kld_result r;
    double *num, total = 0;
    infq_status st;

    memset(&r, 0, sizeof(r));
    r.window = per_window + 1;
    r.n_windows = n_windows;
    r.n_tokens = n_windows * r.window;
    INFQ_TRY(infq_mem_new((size_t)(2 * n_windows), sizeof(*num), "groups of positions", (void **)&num, err));
    st = infq_kld_summarize(rows, n_windows, per_window, 0, &r.all, err);
    if (!st)
        st = infq_kld_summarize(rows, n_windows, per_window, r.window / 2, &r.half, err);
    for (int64_t i = 0; i < n_windows * per_window && !st; i++) {
        total += rows[i].kld;
        r.histogram[bin_of(rows[i].kld)]++;
    }
    for (int k = 0; k < INFQ_TOKEN_CLASS_COUNT && !st; k++) {
        snprintf(r.classes[k].name, sizeof(r.classes[k].name), "%s", infq_token_class_name((infq_token_class)k));
        fill_group(rows, &g, group_class, k, n_windows, total, num, num + n_windows, &r.classes[k]);
    }
    for (int64_t from = 0; from < per_window && !st; from = from ? 2 * from : 1) {
        int64_t to = 2 * from < per_window ? 2 * from : per_window;
        infq_kld_group *p = &r.positions[r.n_positions];
        snprintf(p->name, sizeof(p->name), from < 2 ? "%lld" : "%lld-%lld", (long long)from, (long long)to - 1);
        fill_group(rows, &g, group_position, r.n_positions, n_windows, total, num, num + n_windows, p);
        r.n_positions++;
    }
    infq_mem_free(num);
    if (!st)
        *out = r;
    return st;
}

/* The two sides of a comparison. */
typedef struct {
    infq_window_run run[2];
    const infq_numerics *numerics[2];
    float *logits[2];
    int64_t vocab;            /* compared entries */
    const infq_windows *w;
    const infq_window_store *store;
    double *stored;           /* [window - 1][STORED] when there is a store */
    infq_kld_row *rows;       /* [n_windows][window - 1] */
} pair;

typedef struct {
    const pair *p;
    int64_t first;            /* position of the chunk's first row, over all windows */
} chunk_job;

static void chunk_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const chunk_job *j = ctx;
    const pair *p = j->p;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = j->first + i, per = p->run[0].per;
        p->rows[at] = infq_kld_of(p->logits[0] + i * p->run[0].vocab, p->logits[1] + i * p->run[1].vocab, p->vocab,
                                  infq_windows_target(p->w, at / per, at % per));
    }
}

/* One side's turn: numerics are the model's, and both sides may be the same model. */
static infq_status take_turn(const pair *p, int k, infq_err *err)
{
    return p->numerics[k] ? infq_model_set_numerics(p->run[k].m, p->numerics[k], err) : 0;
}

/* Hidden states of both for n windows, then logits a chunk at a time. */
static infq_status run_group(pair *p, int64_t first, int64_t n, infq_err *err)
{
    infq_forward_options f = {.invariant = true};
    int64_t per = p->run[0].per, n_rows = n * per;

    for (int k = 0; k < 2; k++) {
        INFQ_TRY(take_turn(p, k, err));
        INFQ_TRY(infq_window_run_group(&p->run[k], p->w, first, n, &f, err));
    }
    for (int64_t row = 0; row < n_rows; row += CHUNK_ROWS) {
        int64_t count = n_rows - row < CHUNK_ROWS ? n_rows - row : CHUNK_ROWS;
        chunk_job job = {p, first * per + row};
        for (int k = 0; k < 2; k++) {
            INFQ_TRY(take_turn(p, k, err));
            INFQ_TRY(infq_model_logits(p->run[k].m, p->run[k].hidden + row * p->run[k].width, count, true, p->logits[k], err));
        }
        infq_par_for(count, 1, chunk_part, &job);
    }
    for (int64_t i = first * per; i < first * per + n_rows; i++)
        if (!isfinite(p->rows[i].kld) || !isfinite(p->rows[i].nll_p) || !isfinite(p->rows[i].nll_q))
            return infq_err_set(err, INFQ_E_NUMERIC, "a model's logits are not finite (window %lld, position %lld)", (long long)(i / per),
                                (long long)(i % per));
    return 0;
}

/* Windows that the item file holds; *n: how many. */
static infq_status take_stored(pair *p, int64_t *n, infq_err *err)
{
    int64_t per = p->run[0].per;
    const double *x = NULL;
    char digest[17];

    for (*n = 0; p->store && *n < p->w->n_windows; ++*n) {
        INFQ_TRY(infq_window_digest(infq_windows_get(p->w, *n), p->w->window, digest, err));
        INFQ_TRY(infq_window_store_find(p->store, *n, digest, per, STORED, &x, err));
        if (!x)
            return 0;
        for (int64_t i = 0; i < per; i++, x += STORED)
            p->rows[*n * per + i] = (infq_kld_row){.kld = x[0], .lower = x[0], .upper = x[0], .nll_p = x[1], .nll_q = x[2],
                                                   .same_top = x[3] != 0, .common = x[4]};
    }
    return 0;
}

static infq_status store_windows(const pair *p, int64_t first, int64_t n, infq_err *err)
{
    int64_t per = p->run[0].per;
    char digest[17];

    for (int64_t w = first; p->store && w < first + n; w++) {
        for (int64_t i = 0; i < per; i++) {
            const infq_kld_row *r = &p->rows[w * per + i];
            const double x[STORED] = {r->kld, r->nll_p, r->nll_q, r->same_top, r->common};
            memcpy(p->stored + i * STORED, x, sizeof(x));
        }
        INFQ_TRY(infq_window_digest(infq_windows_get(p->w, w), p->w->window, digest, err));
        INFQ_TRY(infq_window_store_add(p->store, w, digest, p->stored, per, STORED, err));
    }
    return 0;
}

static infq_status pair_open(pair *p, infq_model *const m[2], const infq_tokenizer *tok, infq_err *err)
{
    int64_t a = infq_model_config(m[0])->vocab, b = infq_model_config(m[1])->vocab, small = a < b ? a : b;
    size_t n;

    // rows that no token has are padding: they may differ in number
    if (a != b && small < infq_tokenizer_size(tok))
        return infq_err_set(err, INFQ_E_MISMATCH, "vocabularies of %lld and %lld rows, the tokenizer uses %lld", (long long)a,
                            (long long)b, (long long)infq_tokenizer_size(tok));
    p->vocab = small;
    for (int k = 0; k < 2; k++) {
        INFQ_TRY(infq_window_run_init(&p->run[k], m[k], p->w, 0, err));
        if (!infq_mul_size(CHUNK_ROWS, (size_t)p->run[k].vocab, &n))
            return infq_err_set(err, INFQ_E_NOMEM, "logits of %lld entries do not fit in memory", (long long)p->run[k].vocab);
        INFQ_TRY(infq_mem_new(n, sizeof(float), "logits", (void **)&p->logits[k], err));
    }
    if (p->store)
        INFQ_TRY(infq_mem_new((size_t)p->run[0].per * STORED, sizeof(*p->stored), "positions", (void **)&p->stored, err));
    return infq_mem_new((size_t)(p->w->n_windows * p->run[0].per), sizeof(*p->rows), "positions", (void **)&p->rows, err);
}

static void pair_close(pair *p)
{
    for (int k = 0; k < 2; k++) {
        infq_window_run_free(&p->run[k]);
        infq_mem_free(p->logits[k]);
    }
    infq_mem_free(p->stored);
    infq_mem_free(p->rows);
}

infq_status infq_kld_measure(infq_model *mp, infq_model *mq, const infq_tokenizer *tok, const char *text, size_t n_text,
                             const infq_kld_options *o, infq_kld_result *out, infq_err *err)
{
    const infq_config *c[2] = {infq_model_config(mp), infq_model_config(mq)};
    int64_t max = c[0]->max_positions < c[1]->max_positions ? c[0]->max_positions : c[1]->max_positions;
    infq_model *m[2] = {mp, mq};
    infq_windows w;
    pair p = {.w = &w, .store = o->store, .numerics = {o->numerics_p, o->numerics_q}};
    uint8_t *classes = NULL;
    int64_t done = 0;
    infq_status st;

    INFQ_TRY(infq_windows_cut(tok, text, n_text, o->window, o->max_tokens, max, &w, err));
    st = pair_open(&p, m, tok, err);
    if (!st)
        st = infq_windows_classes(&w, tok, p.vocab, &classes, err);
    if (!st)
        st = take_stored(&p, &done, err);
    for (int64_t i = done; i < w.n_windows && !st; i += p.run[0].group) {
        int64_t n = w.n_windows - i < p.run[0].group ? w.n_windows - i : p.run[0].group;
        if (infq_interrupted)
            st = infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld windows", (long long)i);
        if (!st)
            st = run_group(&p, i, n, err);
        if (!st)
            st = store_windows(&p, i, n, err);
        if (!st)
            infq_progress(o->log, "KL divergence", (uint64_t)(i + n), (uint64_t)w.n_windows);
    }
    if (!st)
        st = infq_kld_finish(p.rows, classes, w.n_windows, w.window - 1, out, err);
    infq_mem_free(classes);
    pair_close(&p);
    infq_windows_free(&w);
    return st;
}
