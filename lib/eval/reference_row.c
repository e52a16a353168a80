#include <math.h>

#include "lib/base/rng.h"
#include "lib/eval/reference_int.h"

static double log_sum(const float *x, int64_t n)
{
    double top = -INFINITY, sum = 0;

    for (int64_t v = 0; v < n; v++)
        top = x[v] > top ? (double)x[v] : top;
    for (int64_t v = 0; v < n; v++)
        sum += exp(x[v] - top);
    return top + log(sum);
}

/* Tokens at equal steps of the rest's mass, from a seeded start: each token's expected count is samples * P / t. logits: the top ones are
 * -INFINITY. */
static void sample_rest(const float *logits, int64_t vocab, double lse, double rest, int64_t samples, uint64_t seed, int32_t *ids, float *lp)
{
    infq_rng rng = infq_rng_seed(seed);
    double step = rest / (double)samples, next = step * infq_rng_f64(&rng), at = 0;
    int64_t n = 0, last = 0;

    for (int64_t v = 0; v < vocab && n < samples; v++) {
        if (logits[v] == -INFINITY)
            continue;
        last = v;
        for (at += exp(logits[v] - lse); n < samples && next < at; next += step, n++) {
            ids[n] = (int32_t)v;
            lp[n] = (float)(logits[v] - lse);
        }
    }
    for (; n < samples; n++) { // rounding at the very end
        ids[n] = (int32_t)last;
        lp[n] = (float)(logits[last] - lse);
    }
}

void infq_reference_row_make(float *logits, int64_t vocab, int32_t target, int64_t top, int64_t samples, uint64_t seed, infq_reference_row *row)
{
    double lse = log_sum(logits, vocab);

    row->nll = lse - logits[target];
    row->rest = row->rest_plogp = 0;
    infq_top_k(logits, vocab, row->ids, top);
    for (int64_t i = 0; i < top; i++) {
        row->lp[i] = (float)(logits[row->ids[i]] - lse);
        logits[row->ids[i]] = -INFINITY;
    }
    for (int64_t v = 0; v < vocab; v++) {
        double l = logits[v] - lse, p = exp(l);
        row->rest += p;
        row->rest_plogp += p > 0 ? p * l : 0;
    }
    sample_rest(logits, vocab, lse, row->rest, samples, seed, row->ids + top, row->lp + top);
}

void infq_select(float *x, int64_t n, int64_t k)
{
    int64_t lo = 0, hi = n - 1;

    while (lo < hi) {
        int64_t i = lo, j = hi, mid = lo + (hi - lo) / 2;
        float a = x[lo], b = x[mid], c = x[hi];
        float pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j) {
                float t = x[i];
                x[i++] = x[j];
                x[j--] = t;
            }
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            return;
    }
}

/* Largest value of -sum P ln Q outside the known tokens, given that P sums to u there and no part exceeds c: logits hold -INFINITY for the
 * known ones. */
static double worst_cross(const float *logits, int64_t vocab, double lse, double u, double c, float *scratch)
{
    double sum = 0, whole = floor(u / c);
    int64_t n = 0, m;

    for (int64_t v = 0; v < vocab; v++)
        if (logits[v] != -INFINITY)
            scratch[n++] = logits[v];
    if (n == 0)
        return 0;
    m = whole < (double)n ? (int64_t)whole : n - 1; // rounding: u is at most n c
    infq_select(scratch, n, m);
    for (int64_t i = 0; i < m; i++)
        sum += scratch[i] - lse;
    return -c * sum - (u - (double)m * c) * (scratch[m] - lse);
}

infq_kld_row infq_reference_row_compare(const infq_reference_row *row, int64_t top, int64_t samples, float *logits, int64_t vocab,
                                        int32_t target, float *scratch, infq_reference_rest *rest)
{
    int32_t mine[INFQ_KLD_TOP];
    double lse = log_sum(logits, vocab), known = 0, u = row->rest, h = row->rest_plogp, c = exp(row->lp[top - 1]);
    double q_rest = 0, q_unknown, lq = 0, n = (double)samples;
    infq_kld_row r;

    infq_top_k(logits, vocab, mine, INFQ_KLD_TOP);
    r.same_top = mine[0] == row->ids[0];
    r.common = infq_top_common(mine, row->ids, INFQ_KLD_TOP);
    r.nll_p = row->nll;
    r.nll_q = lse - logits[target];
    for (int64_t i = 0; i < top; i++) {
        known += exp(row->lp[i]) * (row->lp[i] - (logits[row->ids[i]] - lse));
        logits[row->ids[i]] = -INFINITY;
    }
    r.kld = known;
    for (int64_t v = 0; v < vocab; v++)
        q_rest += exp(logits[v] - lse);
    q_unknown = q_rest;
    *rest = (infq_reference_rest){.p = row->rest, .surplus = q_rest - row->rest};
    for (int64_t i = top; i < top + samples; i++) {
        double p = exp(row->lp[i]), a, b;
        bool again = i > top && row->ids[i] == row->ids[i - 1];
        lq = again ? lq : logits[row->ids[i]] - lse;
        a = row->lp[i] - lq;
        b = expm1(-a);
        rest->a += a / n;
        rest->b += b / n;
        rest->aa += a * a / n;
        rest->ab += a * b / n;
        rest->bb += b * b / n;
        if (again)
            continue;
        known += p * (row->lp[i] - lq);
        u -= p;
        h -= p * row->lp[i];
        q_unknown -= exp(lq);
        logits[row->ids[i]] = -INFINITY;
    }
    r.sample_var = 0;
    r.lower = r.upper = known;
    if (u > 1e-12) {
        r.lower += q_unknown > 0 ? u * (log(u) - log(q_unknown)) : 0;
        r.upper += h + worst_cross(logits, vocab, lse, u, c, scratch);
    }
    return r;
}

void infq_reference_finish(infq_kld_row *rows, const infq_reference_rest *rest, int64_t n_rows, int64_t samples)
{
    double ab = 0, bb = 0, beta;

    for (int64_t i = 0; i < n_rows; i++) {
        const infq_reference_rest *r = &rest[i];
        ab += r->p * r->p * (r->ab - r->a * r->b);
        bb += r->p * r->p * (r->bb - r->b * r->b);
    }
    beta = bb > 0 ? -ab / bb : 0;
    for (int64_t i = 0; i < n_rows; i++) {
        const infq_reference_rest *r = &rest[i];
        double var = r->aa - r->a * r->a + 2 * beta * (r->ab - r->a * r->b) + beta * beta * (r->bb - r->b * r->b);
        rows[i].kld += r->p * (r->a + beta * r->b) - beta * r->surplus;
        rows[i].sample_var = samples > 1 ? r->p * r->p * (var > 0 ? var : 0) / (double)(samples - 1) : NAN;
    }
}
