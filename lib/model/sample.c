#include <math.h>
#include <string.h>

#include "lib/model/model.h"

double infq_logprob(const float *logits, int64_t vocab, int32_t id)
{
    float top = logits[infq_argmax(logits, vocab)];
    double sum = 0.0;

    for (int64_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - (double)top);
    return (double)logits[id] - (double)top - log(sum);
}

int32_t infq_argmax(const float *x, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return (int32_t)best;
}

infq_sample_options infq_sample_options_default(void)
{
    return (infq_sample_options){ .temperature = 0.0, .top_k = 0, .top_p = 1.0, .seed = 0 };
}

// Non-negative floats order as their bits do.
static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static void measure(const float *p, int64_t n, float at_least, int64_t *count, double *sum)
{
    *count = 0;
    *sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        if (p[i] >= at_least) {
            ++*count;
            *sum += (double)p[i];
        }
}

// Largest threshold whose set {p >= threshold} has at least k members and a sum of at least mass: bisection over bits.
static float threshold(const float *p, int64_t n, int64_t k, double mass)
{
    uint32_t lo = 0, hi = 0x3f800000u; // p is 1 at most: the largest has weight exp(0)
    int64_t count;
    double sum;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        measure(p, n, float_of(mid), &count, &sum);
        if (count >= k && sum >= mass)
            lo = mid;
        else
            hi = mid - 1;
    }
    return float_of(lo);
}

// Sets all below the threshold to zero; of those equal to it the first `keep` stay (keep < 0: all).
static void cut_below(float *p, int64_t n, float at_least, int64_t keep)
{
    for (int64_t i = 0; i < n; i++)
        if (p[i] < at_least || (p[i] == at_least && keep >= 0 && keep-- <= 0))
            p[i] = 0.0f;
}

int32_t infq_sample(const infq_sample_options *o, infq_rng *rng, float *logits, int64_t vocab)
{
    int32_t best = infq_argmax(logits, vocab);
    float top = logits[best], t;
    int64_t count;
    double sum, u;

    if (!(o->temperature > 0.0))
        return best;
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = (float)exp(((double)logits[i] - (double)top) / o->temperature);
    if (o->top_k > 0 && o->top_k < vocab) {
        t = threshold(logits, vocab, o->top_k, 0.0);
        measure(logits, vocab, nextafterf(t, 2.0f), &count, &sum);
        cut_below(logits, vocab, t, o->top_k - count);
    }
    measure(logits, vocab, 0.0f, &count, &sum);
    if (o->top_p < 1.0)
        cut_below(logits, vocab, threshold(logits, vocab, 1, o->top_p * sum), -1);
    measure(logits, vocab, 0.0f, &count, &sum);
    u = infq_rng_f64(rng) * sum;
    for (int64_t i = 0; i < vocab; i++) {
        u -= (double)logits[i];
        if (u < 0.0 && logits[i] > 0.0f)
            return (int32_t)i;
    }
    return best;
}
