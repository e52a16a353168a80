#include "lib/eval/sequential.h"

#include <math.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/eval/stats.h"

#define PRIOR_N 1.0
#define PRIOR_VAR 0.05

infq_betting infq_betting_start(double margin)
{
    return (infq_betting){.margin = margin, .n = PRIOR_N, .mean = 0, .m2 = PRIOR_N * PRIOR_VAR};
}

static double clip(double x, double hi)
{
    return x < 0 ? 0 : x > hi ? hi : x;
}

void infq_betting_stakes(const infq_betting *b, double *up, double *down)
{
    double edge = b->mean + b->margin, a = edge / (b->m2 / b->n + edge * edge);

    *up = clip(a, 0.5 / (1 - b->margin));
    *down = clip(-a, 0.5 / (1 + b->margin));
}

void infq_betting_add_staked(infq_betting *b, double d, double up, double down)
{
    double before = b->mean;

    if (!(d >= -1 && d <= 1)) {
        b->log_e = b->log_g = b->max_log_e = b->max_log_g = -INFINITY;
        return;
    }
    b->log_e += log1p(up * (d + b->margin));
    b->log_g += log1p(-down * (d + b->margin));
    if (b->log_e > b->max_log_e)
        b->max_log_e = b->log_e;
    if (b->log_g > b->max_log_g)
        b->max_log_g = b->log_g;
    b->n++;
    b->mean += (d - before) / b->n;
    b->m2 += (d - before) * (d - before);
}

void infq_betting_add(infq_betting *b, double d)
{
    double up, down;

    infq_betting_stakes(b, &up, &down);
    infq_betting_add_staked(b, d, up, down);
}

bool infq_betting_passes(const infq_betting *b, double alpha)
{
    return b->max_log_e >= -log(alpha);
}

bool infq_betting_fails(const infq_betting *b, double alpha)
{
    return b->max_log_g >= -log(alpha);
}

double infq_spending_of(infq_spending f, double alpha, double t)
{
    if (!(t > 0))
        return 0;
    if (t >= 1)
        return alpha;
    if (f == INFQ_SPEND_POCOCK)
        return alpha * log1p((M_E - 1) * t);
    return 2 * infq_norm_cdf(infq_norm_quantile(1 - alpha / 2) / sqrt(t)).q;
}

/* Gauss-Legendre panels between far below 0 and the last boundary, on the scale of the Brownian motion. */
#define PANELS 48
#define NODES 8
#define GRID (PANELS * NODES)
static const double gl_x[NODES / 2] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
static const double gl_w[NODES / 2] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};

typedef struct {
    double x[GRID], wf[GRID]; /* nodes; weight times density of "not crossed so far" */
} density;

static void nodes(density *g, double lo, double hi)
{
    double half = (hi - lo) / (2 * PANELS);

    for (int p = 0; p < PANELS; p++) {
        double mid = lo + (2 * p + 1) * half;
        for (int i = 0; i < NODES / 2; i++) {
            int at = p * NODES + 2 * i;
            g->x[at] = mid - half * gl_x[i];
            g->x[at + 1] = mid + half * gl_x[i];
            g->wf[at] = g->wf[at + 1] = half * gl_w[i];
        }
    }
}

static double normal_density(double x, double sd)
{
    return exp(-x * x / (2 * sd * sd)) / (sd * sqrt(2 * M_PI));
}

/* Probability of first crossing x at the next look, a time dt later. */
static double crossing(const density *g, double x, double dt)
{
    double p = 0, sd = sqrt(dt);

    for (int i = 0; i < GRID; i++)
        p += g->wf[i] * infq_norm_cdf((x - g->x[i]) / sd).q;
    return p;
}

/* Boundary on the motion's scale whose first crossing has probability `spend`. */
static double boundary(const density *g, double dt, double t, double spend)
{
    double lo = -9 * sqrt(t), hi = 9 * sqrt(t);

    for (int i = 0; i < 200 && hi - lo > 1e-14; i++) {
        double mid = (lo + hi) / 2;
        if (crossing(g, mid, dt) > spend)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

static void next_density(const density *g, density *next, double hi, double dt, double t)
{
    double sd = sqrt(dt);

    nodes(next, -9 * sqrt(t), hi);
    for (int k = 0; k < GRID; k++) {
        double f = 0;
        for (int i = 0; i < GRID; i++)
            f += g->wf[i] * normal_density(next->x[k] - g->x[i], sd);
        next->wf[k] *= f;
    }
}

infq_status infq_group_bounds(infq_spending f, double alpha, const double *t, int n, double *z, infq_err *err)
{
    density *g = NULL;
    double spent = 0;

    if (n < 1 || n > INFQ_MAX_LOOKS)
        return infq_err_set(err, INFQ_E_USAGE, "%d looks: 1 to %d are possible", n, INFQ_MAX_LOOKS);
    for (int k = 0; k < n; k++)
        if (!(t[k] > (k ? t[k - 1] : 0) && t[k] <= 1))
            return infq_err_set(err, INFQ_E_USAGE, "look %d: fractions ascend within 0..1", k + 1);
    INFQ_TRY(infq_mem_new(2, sizeof(*g), "grid of the boundaries", (void **)&g, err));
    for (int k = 0; k < n; k++) {
        double now = infq_spending_of(f, alpha, t[k]), spend = now - spent, x;
        density *at = &g[k % 2], *next = &g[(k + 1) % 2];
        spent = now;
        if (k == 0) {
            z[0] = -infq_norm_quantile(spend);
            x = z[0] * sqrt(t[0]);
            nodes(next, -9 * sqrt(t[0]), x);
            for (int i = 0; i < GRID; i++)
                next->wf[i] *= normal_density(next->x[i], sqrt(t[0]));
            continue;
        }
        x = boundary(at, t[k] - t[k - 1], t[k], spend);
        z[k] = x / sqrt(t[k]);
        if (k + 1 < n)
            next_density(at, next, x, t[k] - t[k - 1], t[k]);
    }
    infq_mem_free(g);
    return 0;
}
