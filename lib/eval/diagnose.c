#include "lib/eval/diagnose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/eval/diagnose_int.h"
#include "lib/eval/stats.h"
#include "lib/eval/window_int.h"

#define CHUNK_ROWS 32
#define STAGE_BYTES ((int64_t)192 << 20)  /* of the original's residual stream held at once */
#define TRIAL_BYTES ((int64_t)128 << 20)  /* of trials' hidden states held at once */

infq_diagnose_options infq_diagnose_options_default(void)
{
    return (infq_diagnose_options){.window = 256, .max_tokens = 1024, .goal = 0.5, .max_exceptions = 16};
}

void infq_diagnose_result_free(infq_diagnose_result *r)
{
    infq_mem_free(r->units);
    infq_mem_free(r->exceptions);
    memset(r, 0, sizeof(*r));
}

/* A model that is run on the windows: m with some of its parts exchanged for the other one's. */
typedef struct {
    infq_model *m, *other;    /* other: lends its parts */
    const int64_t *parts;
    int64_t n_parts;
    int64_t first_layer;      /* starts here with the original's stream; -1: from the tokens */
    double *kld, *top;        /* [n_windows] means over positions */
    double moved, added;      /* sums of the output error */
} trial;

typedef struct {
    infq_model *p, *q;
    const infq_diagnose_options *o;
    infq_diagnose_part *parts;
    int64_t n_parts;
    const infq_windows *w;
    infq_window_run run;      /* of p: buffers for a group of windows; q has the same shape */
    int64_t layers, width, vocab, per;
    float **stage;            /* [layers + 1] the original's stream before each block, after the last: [group * per][width] */
    int64_t at_stage;         /* rows seen of the present forward pass */
    float *hidden_p, *hidden; /* [group * per][width]; [trials a batch][group * per][width] */
    float *logits;            /* [CHUNK_ROWS][vocab] */
    double *prob;             /* [CHUNK_ROWS][vocab] the original's */
    double entropy[CHUNK_ROWS];
    int32_t top_p[CHUNK_ROWS];
    double kld[CHUNK_ROWS];
    bool same[CHUNK_ROWS];
    trial *present;           /* whose output error is being taken */
    int64_t batch;            /* trials that `hidden` has room for */
    int64_t n_runs, done;     /* for progress */
} diagnosis;

// ---- the original -----------------------------------------------------------------------------------------------------

static void keep_stage(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden)
{
    diagnosis *d = ctx;

    if (stage == 0)
        d->at_stage += n_tokens; // rows up to the end of this part of the batch
    if (stage <= d->layers)
        memcpy(d->stage[stage] + (d->at_stage - n_tokens) * hidden, x, (size_t)(n_tokens * hidden) * sizeof(float));
}

static void see_input(void *ctx, int64_t part, const float *x, int64_t n_tokens, int64_t cols)
{
    diagnosis *d = ctx;
    infq_diagnose_part *p = &d->parts[part];

    if (!p->changed || !p->input2)
        return;
    p->n_inputs += n_tokens;
    for (int64_t t = 0; t < n_tokens; t++)
        for (int64_t c = 0; c < cols; c++)
            p->input2[c] += (double)x[t * cols + c] * x[t * cols + c];
    for (int64_t i = 0; p->act_limit > 0 && i < n_tokens * cols; i++)
        p->n_beyond += fabsf(x[i]) > p->act_limit;
}

static infq_status run_original(diagnosis *d, int64_t first, int64_t n, bool keep, infq_err *err)
{
    infq_forward_options f = {.on_stage = keep ? keep_stage : NULL, .on_input = keep ? see_input : NULL, .ctx = d};

    d->at_stage = 0;
    INFQ_TRY(infq_window_run_group(&d->run, d->w, first, n, &f, err));
    memcpy(d->hidden_p, d->run.hidden, (size_t)(n * d->per * d->width) * sizeof(float));
    return 0;
}

// ---- trials -----------------------------------------------------------------------------------------------------------

static void exchange(const trial *t)
{
    for (int64_t i = 0; i < t->n_parts; i++)
        infq_model_swap(t->m, t->other, t->parts[i]);
}

/* Change of the block's output against what the block adds, in its own block. */
static void take_output(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden)
{
    diagnosis *d = ctx;
    trial *t = d->present;
    const float *in, *out;

    if (stage != t->first_layer + 1 || t->first_layer >= d->layers)
        return;
    in = d->stage[stage - 1] + d->at_stage * hidden;
    out = d->stage[stage] + d->at_stage * hidden;
    for (int64_t i = 0; i < n_tokens * hidden; i++) {
        double e = (double)x[i] - out[i], a = (double)out[i] - in[i];
        t->moved += e * e;
        t->added += a * a;
    }
    d->at_stage += n_tokens;
}

static infq_status run_trial(diagnosis *d, trial *t, int64_t first, int64_t n, float *hidden, infq_err *err)
{
    bool inside = t->first_layer >= 0;
    infq_forward_options f = {.on_stage = inside ? take_output : NULL, .ctx = d, .x = inside ? d->stage[t->first_layer] : NULL,
                              .first_layer = inside ? t->first_layer : 0};
    infq_model *own = d->run.m;
    infq_status st;

    if (infq_interrupted)
        return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld of %lld runs", (long long)d->done, (long long)d->n_runs);
    d->present = t;
    d->at_stage = 0;
    d->run.m = t->m;
    exchange(t);
    st = infq_window_run_group(&d->run, d->w, first, n, &f, err);
    exchange(t);
    d->run.m = own;
    if (!st)
        memcpy(hidden, d->run.hidden, (size_t)(n * d->per * d->width) * sizeof(float));
    infq_progress(d->o->log, "diagnosis", (uint64_t)++d->done, (uint64_t)d->n_runs);
    return st;
}

// ---- divergence: rows of one chunk ---------------------------------------------------------------------------------------

/* Probabilities of the original and sum p ln p. */
static void original_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    diagnosis *d = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const float *z = d->logits + i * d->vocab;
        double *p = d->prob + i * d->vocab, sum = 0, dot = 0, top;
        d->top_p[i] = infq_argmax(z, d->vocab);
        top = z[d->top_p[i]];
        for (int64_t v = 0; v < d->vocab; v++) {
            p[v] = exp(z[v] - top);
            sum += p[v];
            dot += p[v] * (z[v] - top);
        }
        for (int64_t v = 0; v < d->vocab; v++)
            p[v] /= sum;
        d->entropy[i] = dot / sum - log(sum);
    }
}

static void trial_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    diagnosis *d = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const float *z = d->logits + i * d->vocab;
        const double *p = d->prob + i * d->vocab;
        int32_t best = infq_argmax(z, d->vocab);
        double sum = 0, dot = 0, top = z[best];
        for (int64_t v = 0; v < d->vocab; v++) {
            sum += exp(z[v] - top);
            dot += p[v] * (z[v] - top);
        }
        d->kld[i] = d->entropy[i] - dot + log(sum);
        if (d->kld[i] < 0) // rounding: it is 0
            d->kld[i] = 0;
        d->same[i] = best == d->top_p[i];
    }
}

/* Divergence of trials[0..n_trials) whose hidden states are in d->hidden, on windows first.. */
static infq_status compare_trials(diagnosis *d, trial *trials, int64_t n_trials, int64_t first, int64_t n, infq_err *err)
{
    int64_t rows = n * d->per;
    infq_status st = 0;

    for (int64_t row = 0; row < rows && !st; row += CHUNK_ROWS) {
        int64_t count = rows - row < CHUNK_ROWS ? rows - row : CHUNK_ROWS;
        INFQ_TRY(infq_model_logits(d->p, d->hidden_p + row * d->width, count, true, d->logits, err));
        infq_par_for(count, 1, original_part, d);
        for (int64_t k = 0; k < n_trials && !st; k++) {
            trial *t = &trials[k];
            exchange(t);
            st = infq_model_logits(t->m, d->hidden + (k * d->run.group * d->per + row) * d->width, count, true, d->logits, err);
            exchange(t);
            if (st)
                break;
            infq_par_for(count, 1, trial_part, d);
            for (int64_t i = 0; i < count; i++) {
                int64_t window = first + (row + i) / d->per;
                t->kld[window] += d->kld[i];
                t->top[window] += d->same[i];
                if (!isfinite(d->kld[i]))
                    return infq_err_set(err, INFQ_E_NUMERIC, "logits are not finite (window %lld)", (long long)window);
            }
        }
    }
    for (int64_t k = 0; k < n_trials && !st; k++)
        for (int64_t window = first; window < first + n; window++) {
            trials[k].kld[window] /= (double)d->per;
            trials[k].top[window] /= (double)d->per;
        }
    return st;
}

/* All trials on all windows, a group of windows at a time, as many trials at once as fit. */
static infq_status run_trials(diagnosis *d, trial *trials, int64_t n_trials, int64_t batch, bool keep, infq_err *err)
{
    for (int64_t w = 0; w < d->w->n_windows; w += d->run.group) {
        int64_t n = d->w->n_windows - w < d->run.group ? d->w->n_windows - w : d->run.group;
        INFQ_TRY(run_original(d, w, n, keep, err));
        for (int64_t k = 0; k < n_trials; k += batch) {
            int64_t m = n_trials - k < batch ? n_trials - k : batch;
            for (int64_t i = 0; i < m; i++)
                INFQ_TRY(run_trial(d, &trials[k + i], w, n, d->hidden + i * d->run.group * d->per * d->width, err));
            INFQ_TRY(compare_trials(d, trials + k, m, w, n, err));
        }
    }
    return 0;
}

// ---- units --------------------------------------------------------------------------------------------------------------

/* Trials and units in step; one more trial at the end is the whole compressed model. */
typedef struct {
    trial *trials;
    int64_t n_units;
    int64_t *changed, n_changed; /* indices of changed parts, in order; units own runs of it */
    double *means;               /* [n_trials][2][n_windows] */
    infq_diagnose_result *r;
} plan;

static bool same_unit(const diagnosis *d, const infq_diagnose_part *a, const infq_diagnose_part *b)
{
    return !d->o->by_module && a->id.layer >= 0 && a->id.layer < d->layers && a->id.layer == b->id.layer;
}

/* "model.layers.3.mlp.up_proj" becomes "model.layers.3". */
static void cut_behind_layer(char *name, int64_t layer)
{
    char number[24];
    char *at;

    snprintf(number, sizeof(number), ".%lld.", (long long)layer);
    at = strstr(name, number);
    if (at)
        at[strlen(number) - 1] = '\0';
}

static void describe_unit(const diagnosis *d, const int64_t *parts, int64_t n, infq_diagnose_unit *u)
{
    double err2 = 0, ref2 = 0, clipped = 0, in = 0, beyond = 0;
    int64_t n_ranged = 0;

    memset(u, 0, sizeof(*u));
    u->layer = d->parts[parts[0]].id.layer;
    u->block = u->layer >= 0 && u->layer < d->layers && !d->o->by_module;
    snprintf(u->name, sizeof(u->name), "%s", d->parts[parts[0]].id.module);
    if (u->block)
        cut_behind_layer(u->name, u->layer);
    u->n_parts = n;
    for (int64_t i = 0; i < n; i++) {
        const infq_diagnose_part *p = &d->parts[parts[i]];
        u->params += p->params;
        u->bits_p += p->bits_p;
        u->bits_q += p->bits_q;
        err2 += p->err2;
        ref2 += p->ref2;
        if (p->n_clipped >= 0) {
            clipped += (double)p->n_clipped;
            n_ranged += p->params;
        }
        if (p->act_limit > 0) {
            in += (double)(p->n_inputs * p->id.cols);
            beyond += (double)p->n_beyond;
        }
    }
    u->weight_error = ref2 > 0 ? sqrt(err2 / ref2) : 0;
    u->clipped = n_ranged > 0 ? clipped / (double)n_ranged : NAN;
    u->input_clipped = in > 0 ? beyond / in : NAN;
}

/* Outliers of one matrix among the unit's channels, those with the largest shares kept. */
static infq_status add_channels(const infq_diagnose_part *p, int64_t part, infq_diagnose_unit *u, infq_err *err)
{
    double *sorted, median, total = 0;

    if (!p->column_err2 || p->n_inputs == 0)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)p->id.cols, sizeof(*sorted), "channels", (void **)&sorted, err));
    memcpy(sorted, p->input2, (size_t)p->id.cols * sizeof(*sorted));
    infq_sort(sorted, p->id.cols);
    median = infq_percentile(sorted, p->id.cols, 0.5);
    infq_mem_free(sorted);
    for (int64_t c = 0; c < p->id.cols; c++)
        total += p->column_err2[c] * p->input2[c];
    for (int64_t c = 0; c < p->id.cols; c++) {
        infq_diagnose_channel x = {part, c, median > 0 ? sqrt(p->input2[c] / median) : 0, total > 0 ? p->column_err2[c] * p->input2[c] / total : 0};
        int at;
        if (x.size < INFQ_DIAGNOSE_OUTLIER)
            continue;
        if (u->n_channels == INFQ_DIAGNOSE_CHANNELS && x.share <= u->channels[u->n_channels - 1].share)
            continue;
        at = u->n_channels < INFQ_DIAGNOSE_CHANNELS ? u->n_channels++ : u->n_channels - 1;
        for (; at > 0 && x.share > u->channels[at - 1].share; at--)
            u->channels[at] = u->channels[at - 1];
        u->channels[at] = x;
    }
    return 0;
}

static infq_status plan_units(diagnosis *d, plan *x, infq_err *err)
{
    int64_t n_windows = d->w->n_windows;

    INFQ_TRY(infq_mem_new((size_t)d->n_parts, sizeof(*x->changed), "changed parts", (void **)&x->changed, err));
    for (int64_t i = 0; i < d->n_parts; i++)
        if (d->parts[i].changed)
            x->changed[x->n_changed++] = i;
    if (x->n_changed == 0)
        return infq_err_set(err, INFQ_E_MISMATCH, "the two models hold the same weights");
    for (int64_t i = 0; i < x->n_changed; i++)
        x->n_units += i == 0 || !same_unit(d, &d->parts[x->changed[i - 1]], &d->parts[x->changed[i]]);
    INFQ_TRY(infq_mem_new((size_t)x->n_units + 1, sizeof(*x->trials), "trials", (void **)&x->trials, err));
    INFQ_TRY(infq_mem_new((size_t)(x->n_units + 1) * 2, (size_t)n_windows * sizeof(double), "means", (void **)&x->means, err));
    INFQ_TRY(infq_mem_new((size_t)x->n_units, sizeof(*x->r->units), "units", (void **)&x->r->units, err));
    memset(x->trials, 0, (size_t)(x->n_units + 1) * sizeof(*x->trials));
    memset(x->means, 0, (size_t)((x->n_units + 1) * 2 * n_windows) * sizeof(double));
    for (int64_t i = 0, u = -1; i < x->n_changed; i++) {
        const infq_diagnose_part *p = &d->parts[x->changed[i]];
        if (i == 0 || !same_unit(d, &d->parts[x->changed[i - 1]], p))
            x->trials[++u] = (trial){.m = d->p, .other = d->q, .parts = x->changed + i, .first_layer = p->id.layer};
        x->trials[u].n_parts++;
    }
    x->trials[x->n_units] = (trial){.m = d->q, .first_layer = -1};
    for (int64_t u = 0; u <= x->n_units; u++) {
        x->trials[u].kld = x->means + 2 * u * n_windows;
        x->trials[u].top = x->trials[u].kld + n_windows;
    }
    return 0;
}

static infq_status read_units(const diagnosis *d, plan *x, infq_err *err)
{
    infq_diagnose_result *r = x->r;
    int64_t n = d->w->n_windows;
    infq_moments m;

    r->n_units = x->n_units;
    for (int64_t u = 0; u < x->n_units; u++) {
        const trial *t = &x->trials[u];
        infq_diagnose_unit *v = &r->units[u];
        describe_unit(d, t->parts, t->n_parts, v);
        m = infq_moments_of(t->kld, n);
        v->kld = m.mean;
        v->kld_se = m.se;
        v->same_top = infq_moments_of(t->top, n).mean;
        v->output_error = t->added > 0 ? t->moved / t->added : NAN;
        r->kld_sum += v->kld;
        for (int64_t i = 0; i < t->n_parts; i++)
            INFQ_TRY(add_channels(&d->parts[t->parts[i]], t->parts[i], v, err));
    }
    for (int64_t u = 0; u < x->n_units; u++)
        r->units[u].share = r->kld_sum > 0 ? r->units[u].kld / r->kld_sum : 0;
    m = infq_moments_of(x->trials[x->n_units].kld, n);
    r->kld = m.mean;
    r->kld_se = m.se;
    r->same_top = infq_moments_of(x->trials[x->n_units].top, n).mean;
    for (int64_t i = 0; i < d->n_parts; i++) {
        r->params += d->parts[i].params;
        r->bits_p += d->parts[i].bits_p;
        r->bits_q += d->parts[i].bits_q;
    }
    return 0;
}

// ---- exceptions -----------------------------------------------------------------------------------------------------------

/* Matrices that engines run as one must be kept together: q, k, v and gate, up. */
static bool go_together(const infq_diagnose_unit *a, const infq_diagnose_unit *b)
{
    infq_site s = infq_site_of(infq_role_of(a->name));

    return a->layer == b->layer && s != INFQ_SITE_COUNT && s == infq_site_of(infq_role_of(b->name));
}

static infq_status suggest(const diagnosis *d, infq_diagnose_result *r, infq_err *err)
{
    infq_diagnose_exception *e;
    double left = 1;
    int64_t n = 0;

    INFQ_TRY(infq_mem_new((size_t)r->n_units, sizeof(*e), "exceptions", (void **)&e, err));
    r->exceptions = e;
    for (int64_t u = 0; u < r->n_units; u++) {
        const infq_diagnose_unit *v = &r->units[u];
        infq_diagnose_exception *to = n > 0 && d->o->by_module && e[n - 1].n_units < 4 && go_together(&r->units[e[n - 1].unit[0]], v) ? &e[n - 1] : NULL;
        if (!to) {
            to = &e[n++];
            *to = (infq_diagnose_exception){.n_units = 0};
        }
        to->unit[to->n_units++] = u;
        to->bits += (v->bits_p - v->bits_q) / (double)r->params;
        to->share += v->share;
        to->kld += v->kld;
    }
    for (int64_t i = 0; i < n && i < d->o->max_exceptions && left > d->o->goal; i++) {
        int64_t best = i;
        infq_diagnose_exception t;
        for (int64_t k = i + 1; k < n; k++)
            if (e[k].bits > 0 && (e[best].bits <= 0 || e[k].share * e[best].bits > e[best].share * e[k].bits))
                best = k;
        if (e[best].bits <= 0 || e[best].share <= 0)
            break;
        t = e[best];
        e[best] = e[i];
        e[i] = t;
        left -= t.share;
        e[i].expected = r->kld * (left > 0 ? left : 0);
        r->n_exceptions = i + 1;
    }
    return 0;
}

/* Parts of exceptions first .. first + n - 1; their number. */
static int64_t parts_of(const plan *x, int64_t first, int64_t n, int64_t *parts)
{
    int64_t count = 0;

    for (int64_t i = first; i < first + n; i++)
        for (int k = 0; k < x->r->exceptions[i].n_units; k++) {
            const trial *u = &x->trials[x->r->exceptions[i].unit[k]];
            memcpy(parts + count, u->parts, (size_t)u->n_parts * sizeof(*parts));
            count += u->n_parts;
        }
    return count;
}

static void take_means(const diagnosis *d, const trial *t, double *kld, double *se, double *top)
{
    infq_moments m = infq_moments_of(t->kld, d->w->n_windows);

    *kld = m.mean;
    *se = m.se;
    *top = infq_moments_of(t->top, d->w->n_windows).mean;
}

/* Bits that each exception costs at 8 bits, a weight of the model. */
static infq_status price_eight(diagnosis *d, const plan *x, infq_err *err)
{
    infq_diagnose_part *eight;
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)d->n_parts, sizeof(*eight), "parts", (void **)&eight, err));
    memset(eight, 0, (size_t)d->n_parts * sizeof(*eight));
    st = infq_diagnose_parts(d->p, d->o->ck_eight, d->o->ck_eight, eight, err);
    for (int64_t i = 0; i < x->r->n_exceptions && !st; i++) {
        infq_diagnose_exception *e = &x->r->exceptions[i];
        e->bits_eight = 0;
        for (int k = 0; k < e->n_units; k++) {
            const trial *u = &x->trials[e->unit[k]];
            for (int64_t j = 0; j < u->n_parts; j++)
                e->bits_eight += (eight[u->parts[j]].bits_q - d->parts[u->parts[j]].bits_q) / (double)x->r->params;
        }
        if (!(e->bits_eight > 0)) // no less is stored now
            e->bits_eight = NAN;
    }
    infq_diagnose_parts_free(eight, d->n_parts);
    return st;
}

/* Trials of exceptions: [0] all put back, [1] all at 8 bits, [2..] each of them at 8 bits in the original. */
static infq_status measure_exceptions(diagnosis *d, const plan *x, trial *t, double *means, int64_t *parts, infq_err *err)
{
    infq_diagnose_result *r = x->r;
    int64_t n_windows = d->w->n_windows, n = d->o->eight ? r->n_exceptions + 2 : 1, at;
    double gained = 0;

    at = parts_of(x, 0, r->n_exceptions, parts);
    t[0] = (trial){.m = d->q, .other = d->p, .parts = parts, .n_parts = at, .first_layer = -1};
    t[1] = (trial){.m = d->q, .other = d->o->eight, .parts = parts, .n_parts = at, .first_layer = -1};
    at = 0;
    for (int64_t i = 2; i < n; i++) {
        int64_t count = parts_of(x, i - 2, 1, parts + at); // the same places again: exceptions stand in order
        t[i] = (trial){.m = d->p, .other = d->o->eight, .parts = parts + at, .n_parts = count,
                       .first_layer = r->units[r->exceptions[i - 2].unit[0]].layer};
        at += count;
    }
    for (int64_t i = 0; i < n; i++) {
        t[i].kld = means + 2 * i * n_windows;
        t[i].top = t[i].kld + n_windows;
    }
    INFQ_TRY(run_trials(d, t, n, d->batch, false, err));
    take_means(d, &t[0], &r->kld_kept, &r->kld_kept_se, &r->same_top_kept);
    if (!d->o->eight)
        return 0;
    take_means(d, &t[1], &r->kld_eight, &r->kld_eight_se, &r->same_top_eight);
    for (int64_t i = 0; i < r->n_exceptions; i++) {
        infq_diagnose_exception *e = &r->exceptions[i];
        double left;
        if (isnan(e->bits_eight))
            continue;
        e->kld_eight = infq_moments_of(t[i + 2].kld, n_windows).mean;
        gained += e->kld - e->kld_eight;
        left = r->kld_sum > 0 ? 1 - gained / r->kld_sum : 1;
        e->expected_eight = r->kld * (left > 0 ? left : 0);
    }
    return 0;
}

/* The compressed model with all exceptions put back, and at 8 bits. */
static infq_status try_exceptions(diagnosis *d, const plan *x, infq_err *err)
{
    infq_diagnose_result *r = x->r;
    size_t n = (size_t)r->n_exceptions + 2, n_means = n * 2 * (size_t)d->w->n_windows;
    int64_t *parts = NULL;
    double *means = NULL;
    trial *t = NULL;
    infq_status st = 0;

    r->kld_kept = r->kld_kept_se = r->same_top_kept = NAN;
    r->kld_eight = r->kld_eight_se = r->same_top_eight = NAN;
    for (int64_t i = 0; i < r->n_exceptions; i++)
        r->exceptions[i].bits_eight = r->exceptions[i].kld_eight = r->exceptions[i].expected_eight = NAN;
    if (r->n_exceptions == 0)
        return 0;
    if (d->o->eight)
        st = price_eight(d, x, err);
    d->n_runs = d->done + (d->o->eight ? (int64_t)n : 1) * ((d->w->n_windows + d->run.group - 1) / d->run.group);
    if (!st)
        st = infq_mem_new((size_t)x->n_changed, sizeof(*parts), "exceptions", (void **)&parts, err);
    if (!st)
        st = infq_mem_new(n, sizeof(*t), "trials", (void **)&t, err);
    if (!st)
        st = infq_mem_new(n_means, sizeof(*means), "means", (void **)&means, err);
    if (!st) {
        memset(means, 0, n_means * sizeof(*means));
        st = measure_exceptions(d, x, t, means, parts, err);
    }
    infq_mem_free(parts);
    infq_mem_free(t);
    infq_mem_free(means);
    return st;
}

// ---- all of it ------------------------------------------------------------------------------------------------------------

static infq_status buffers(diagnosis *d, int64_t batch, infq_err *err)
{
    size_t rows = (size_t)(d->run.group * d->per), n;

    INFQ_TRY(infq_mem_new((size_t)d->layers + 1, sizeof(*d->stage), "stages", (void **)&d->stage, err));
    memset(d->stage, 0, (size_t)(d->layers + 1) * sizeof(*d->stage));
    for (int64_t l = 0; l <= d->layers; l++)
        INFQ_TRY(infq_mem_new(rows * (size_t)d->width, sizeof(float), "the residual stream", (void **)&d->stage[l], err));
    INFQ_TRY(infq_mem_new(rows * (size_t)d->width, sizeof(float), "hidden states", (void **)&d->hidden_p, err));
    if (!infq_mul_size(rows * (size_t)d->width, (size_t)batch, &n))
        return infq_err_set(err, INFQ_E_NOMEM, "hidden states of %lld trials do not fit in memory", (long long)batch);
    INFQ_TRY(infq_mem_new(n, sizeof(float), "hidden states", (void **)&d->hidden, err));
    INFQ_TRY(infq_mem_new((size_t)(CHUNK_ROWS * d->vocab), sizeof(float), "logits", (void **)&d->logits, err));
    return infq_mem_new((size_t)(CHUNK_ROWS * d->vocab), sizeof(double), "probabilities", (void **)&d->prob, err);
}

static void buffers_free(diagnosis *d)
{
    for (int64_t l = 0; d->stage && l <= d->layers; l++)
        infq_mem_free(d->stage[l]);
    infq_mem_free(d->stage);
    infq_mem_free(d->hidden_p);
    infq_mem_free(d->hidden);
    infq_mem_free(d->logits);
    infq_mem_free(d->prob);
    infq_window_run_free(&d->run);
}

/* As many as fit in n_bytes, at least one. */
static int64_t fitting(int64_t n_bytes, int64_t each, int64_t most)
{
    int64_t n = n_bytes / (each > 0 ? each : 1);

    n = n < 1 ? 1 : n;
    return n < most ? n : most;
}

static infq_status diagnose(diagnosis *d, plan *x, infq_err *err)
{
    int64_t each = d->per * d->width * (int64_t)sizeof(float), group, batch;

    INFQ_TRY(plan_units(d, x, err));
    group = fitting(STAGE_BYTES, each * (d->layers + 1), d->w->n_windows);
    d->batch = batch = fitting(TRIAL_BYTES, each * group, x->n_units + 1);
    INFQ_TRY(infq_window_run_init(&d->run, d->p, d->w, group, err));
    INFQ_TRY(buffers(d, batch, err));
    d->n_runs = (x->n_units + 2) * ((d->w->n_windows + d->run.group - 1) / d->run.group);
    INFQ_TRY(run_trials(d, x->trials, x->n_units + 1, batch, true, err));
    INFQ_TRY(read_units(d, x, err));
    INFQ_TRY(suggest(d, x->r, err));
    return try_exceptions(d, x, err);
}

infq_status infq_diagnose_run(infq_model *p, infq_model *q, const infq_checkpoint *ck_p, const infq_checkpoint *ck_q, const infq_tokenizer *tok,
                              const char *text, size_t n, const infq_diagnose_options *o, infq_diagnose_result *out, infq_err *err)
{
    infq_diagnose_options d0 = infq_diagnose_options_default();
    const infq_config *c = infq_model_config(p);
    infq_diagnose_result r;
    infq_windows w;
    diagnosis *d = NULL;
    plan x = {.r = &r};
    infq_status st;

    memset(&r, 0, sizeof(r));
    INFQ_TRY(infq_model_same_parts(p, q, err));
    if (o->eight)
        INFQ_TRY(infq_model_same_parts(p, o->eight, err));
    INFQ_TRY(infq_windows_cut(tok, text, n, o->window > 0 ? o->window : d0.window, o->max_tokens > 0 ? o->max_tokens : d0.max_tokens,
                              c->max_positions, &w, err));
    r.window = w.window;
    r.n_windows = w.n_windows;
    st = infq_mem_new(1, sizeof(*d), "diagnosis", (void **)&d, err);
    if (!st) {
        *d = (diagnosis){.p = p, .q = q, .o = o, .n_parts = infq_model_part_count(p), .w = &w, .layers = c->n_layers, .width = c->hidden,
                         .vocab = c->vocab, .per = w.window - 1};
        st = infq_mem_new((size_t)d->n_parts, sizeof(*d->parts), "parts", (void **)&d->parts, err);
    }
    if (!st) {
        memset(d->parts, 0, (size_t)d->n_parts * sizeof(*d->parts));
        st = infq_diagnose_parts(p, ck_p, ck_q, d->parts, err);
    }
    if (!st)
        st = diagnose(d, &x, err);
    if (d) {
        infq_diagnose_parts_free(d->parts, d->n_parts);
        buffers_free(d);
    }
    infq_mem_free(d);
    infq_mem_free(x.trials);
    infq_mem_free(x.changed);
    infq_mem_free(x.means);
    infq_windows_free(&w);
    if (st) {
        infq_diagnose_result_free(&r);
        return st;
    }
    *out = r;
    return 0;
}
