/* Rotary frequencies: formats.md 2.4, all in double. */
#include <math.h>

#include "lib/model/config.h"

#define PI 3.14159265358979323846

int64_t infq_rope_n_rot(const infq_config *c)
{
    if (c->rope.type == INFQ_ROPE_NONE)
        return 0;
    return (int64_t)((double)c->head_dim * c->rope.partial) / 2 * 2;
}

static double yarn_magnitude(double factor, double m)
{
    return factor > 1.0 ? 0.1 * m * log(factor) + 1.0 : 1.0;
}

// Dimension that turns `turns` times within the original context.
static double yarn_dim(const infq_rope_config *r, int64_t d, double turns)
{
    return (double)d * log((double)r->original_max_positions / (turns * 2.0 * PI)) / (2.0 * log(r->base));
}

static double yarn(const infq_rope_config *r, int64_t d, double *inv)
{
    double lo = yarn_dim(r, d, r->beta_fast), hi = yarn_dim(r, d, r->beta_slow);

    if (r->truncate) {
        lo = floor(lo);
        hi = ceil(hi);
    }
    lo = fmax(lo, 0.0);
    hi = fmin(hi, (double)(d - 1));
    if (lo == hi)
        hi += 0.001;
    for (int64_t i = 0; i < d / 2; i++) {
        double ramp = fmin(fmax(((double)i - lo) / (hi - lo), 0.0), 1.0); // 0: kept, 1: interpolated
        inv[i] = inv[i] / r->factor * ramp + inv[i] * (1.0 - ramp);
    }
    if (r->attention_factor >= 0.0)
        return r->attention_factor;
    if (r->mscale > 0.0 && r->mscale_all_dim > 0.0)
        return yarn_magnitude(r->factor, r->mscale) / yarn_magnitude(r->factor, r->mscale_all_dim);
    return yarn_magnitude(r->factor, 1.0);
}

static void llama3(const infq_rope_config *r, int64_t d, double *inv)
{
    double lo = r->low_freq_factor, hi = r->high_freq_factor;

    for (int64_t i = 0; i < d / 2; i++) {
        double turns = (double)r->original_max_positions * inv[i] / (2.0 * PI);
        double s = fmin(fmax((turns - lo) / (hi - lo), 0.0), 1.0);
        inv[i] = (1.0 - s) * inv[i] / r->factor + s * inv[i];
    }
}

static double longrope(const infq_rope_config *r, int64_t d, int64_t length, double *inv)
{
    const double *ext = length > r->original_max_positions ? r->long_factor : r->short_factor;

    for (int64_t i = 0; i < d / 2; i++)
        inv[i] /= ext[i];
    if (r->attention_factor >= 0.0)
        return r->attention_factor;
    return r->factor > 1.0 ? sqrt(1.0 + log(r->factor) / log((double)r->original_max_positions)) : 1.0;
}

double infq_rope_freqs(const infq_config *c, int64_t length, double *inv)
{
    const infq_rope_config *r = &c->rope;
    int64_t d = infq_rope_n_rot(c);
    double base = r->base;

    if (r->type == INFQ_ROPE_DYNAMIC && length > r->original_max_positions && d > 2)
        base *= pow(r->factor * (double)length / (double)r->original_max_positions - (r->factor - 1.0),
                    (double)d / (double)(d - 2));
    for (int64_t i = 0; i < d / 2; i++)
        inv[i] = pow(base, -2.0 * (double)i / (double)d);
    switch (r->type) {
    case INFQ_ROPE_LINEAR:
        for (int64_t i = 0; i < d / 2; i++)
            inv[i] /= r->factor;
        break;
    case INFQ_ROPE_YARN:
        return yarn(r, d, inv);
    case INFQ_ROPE_LONGROPE:
        return longrope(r, d, length, inv);
    case INFQ_ROPE_LLAMA3:
        llama3(r, d, inv);
        break;
    case INFQ_ROPE_NONE:
    case INFQ_ROPE_DEFAULT:
    case INFQ_ROPE_DYNAMIC:
        break;
    }
    return 1.0;
}

void infq_rope_table(const infq_config *c, int64_t length, int64_t pos0, int64_t n, float *cos_sin)
{
    double inv[INFQ_MAX_ROPE_PAIRS], scale = infq_rope_freqs(c, length, inv);
    int64_t n_rot = infq_rope_n_rot(c), half = n_rot / 2;

    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)(pos0 + p) * inv[i];
            cos_sin[p * n_rot + i] = (float)(cos(angle) * scale);
            cos_sin[p * n_rot + half + i] = (float)(sin(angle) * scale);
        }
}
