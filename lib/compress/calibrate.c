/* The driver of calibrated methods: block by block, inputs from blocks that are quantized already.
 *
 *   run the block on every window, statistics of each site's inputs ─▶ factor ─▶ method, matrix by matrix ─▶ write
 *   put the quantized matrices into the model, run the block again: its outputs are the next block's inputs
 *
 * One block's outputs and statistics are held at a time, and the residual stream of all windows. */
#include <math.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/mem.h"
#include "lib/compress/quantize_int.h"

#define ROW_BYTES ((int64_t)8 << 20) /* floats of a matrix that a method sees at a time */
#define PRUNE_GROUP 16 /* columns that stay together in the order of sparse feedback without a pattern */

typedef struct {
    int64_t n;          /* columns */
    double *h, *sq;     /* [n][n] lower triangle if the method asks for it; [n] */
    float *weight;      /* [n] importance: mean square, divided by its mean */
    infq_factor factor;
    int64_t n_rows;     /* tokens seen */
} site_stats;

typedef struct {
    const infq_plan *p;
    const infq_log *log;
    infq_folder *folder;
    infq_quantize_resume *resume;
    infq_quantize_result *r;
    infq_backend *be;
    infq_model *m;
    infq_reader *reader;
    infq_seq *scratch;
    float *x, *copy;    /* [n_windows][window][hidden], [window][hidden] */
    int *site_of;       /* [parts] site whose input this part is the first to read, -1 */
    infq_arena *arena;  /* outputs of the block */
    int64_t layer;
    site_stats site[INFQ_SITE_COUNT];
    int64_t window;     /* being run */
    infq_status hook_st;
    infq_err hook_err;
} calibration;

static bool wants_moment(const calibration *c)
{
    return (c->p->o.method->needs & INFQ_NEEDS_MOMENT) != 0;
}

// Which part of the model shows a site's input: the first matrix of the site in each block.
static infq_status find_parts(calibration *c, infq_err *err)
{
    int64_t n = infq_model_part_count(c->m);
    int64_t layer = -1;
    bool seen[INFQ_SITE_COUNT] = { false };
    void *p;

    INFQ_TRY(infq_mem_new((size_t)n, sizeof(int), "parts", &p, err));
    c->site_of = p;
    for (int64_t i = 0; i < n; i++) {
        infq_model_part part = infq_model_part_get(c->m, i);
        infq_site s = infq_site_of(infq_role_of(part.module));
        c->site_of[i] = -1;
        if (part.layer != layer)
            memset(seen, 0, sizeof(seen));
        layer = part.layer;
        if (part.cols == 0 || part.layer < 0 || s == INFQ_SITE_COUNT || seen[s])
            continue;
        seen[s] = true;
        c->site_of[i] = (int)s;
    }
    return INFQ_E_OK;
}

static infq_status add_inputs(calibration *c, infq_site which, const float *x, int64_t n_rows, infq_err *err)
{
    site_stats *s = &c->site[which];
    int64_t bad = infq_channels_add(x, n_rows, s->n, s->sq, NULL);

    if (bad >= 0)
        return infq_err_set(err, INFQ_E_NUMERIC, "layer %lld, input of %s: window %lld, token %lld, channel %lld is not finite",
                            (long long)c->layer, infq_site_name(which), (long long)c->window,
                            (long long)(s->n_rows % c->p->o.calib->window + bad / s->n), (long long)(bad % s->n));
    s->n_rows += n_rows;
    return s->h ? infq_moment_add(x, n_rows, s->n, s->h, err) : INFQ_E_OK;
}

static void on_input(void *ctx, int64_t part, const float *x, int64_t n_tokens, int64_t cols)
{
    calibration *c = ctx;

    if (c->hook_st || c->site_of[part] < 0)
        return;
    INFQ_BUG_ON(cols != c->site[c->site_of[part]].n);
    c->hook_st = add_inputs(c, (infq_site)c->site_of[part], x, n_tokens, &c->hook_err);
}

static void clear_site(site_stats *s)
{
    if (s->h)
        memset(s->h, 0, (size_t)(s->n * s->n) * sizeof(double));
    memset(s->sq, 0, (size_t)s->n * sizeof(double));
    infq_factor_free(&s->factor);
    s->n_rows = 0;
}

static infq_status run_windows(calibration *c, bool keep, infq_err *err)
{
    const infq_calib *d = c->p->o.calib;
    int64_t n = d->window * infq_model_config(c->m)->hidden;
    infq_forward_options o = { .ctx = c, .on_input = keep ? NULL : on_input };

    c->hook_st = INFQ_E_OK;
    for (c->window = 0; c->window < d->n_windows; c->window++) {
        float *x = c->x + c->window * n;
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted; run the same command again to go on");
        if (!keep) {
            memcpy(c->copy, x, (size_t)n * sizeof(float));
            x = c->copy;
        }
        INFQ_TRY(infq_model_block(c->m, c->layer, c->scratch, x, d->window, &o, err));
        if (c->hook_st) {
            *err = c->hook_err;
            return c->hook_st;
        }
    }
    return INFQ_E_OK;
}

// Importance and, for methods that ask, the factor; a second moment that cannot be factored leaves weighted rounding.
static infq_status finish_site(calibration *c, infq_site which, int64_t group_cols, infq_err *err)
{
    const infq_sparsity *sparse = &c->p->o.sparsity;
    site_stats *s = &c->site[which];
    double mean = 0.0;
    infq_status st;

    for (int64_t i = 0; i < s->n; i++)
        mean += s->sq[i] / (double)s->n;
    for (int64_t i = 0; i < s->n; i++)
        s->weight[i] = mean > 0.0 ? (float)(s->sq[i] / mean) : 1.0f;
    if (!s->h)
        return INFQ_E_OK;
    // Columns of a pattern stay together; without one, groups of 16 by energy did best (docs/methods/prune.md).
    if (sparse->fraction > 0.0)
        group_cols = sparse->m ? sparse->m : PRUNE_GROUP;
    st = infq_factor_make(s->h, s->n, c->p->o.damping, sparse->fraction > 0.0 ? INFQ_ORDER_GROUP : INFQ_ORDER_ACT, group_cols, &s->factor, err);
    if (st == INFQ_E_NUMERIC) {
        infq_warn(c->log, "layer %lld, %s: %s; no error feedback", (long long)c->layer, infq_site_name(which),
                  err->msg);
        return INFQ_E_OK;
    }
    if (!st && s->factor.damping > c->p->o.damping)
        infq_warn(c->log, "layer %lld, %s: damping raised to %g", (long long)c->layer, infq_site_name(which), s->factor.damping);
    return st;
}

static infq_status source_rows(const calibration *c, const infq_plan_entry *e, int64_t row0, int64_t n_rows, float *x, infq_err *err)
{
    int64_t cols = e->tensor->shape[1], bad;
    size_t row_bytes = (size_t)(e->tensor->n_bytes / (uint64_t)e->tensor->shape[0]);
    const uint8_t *src = (const uint8_t *)infq_checkpoint_data(c->p->ck, e->tensor) + (size_t)row0 * row_bytes;

    INFQ_TRY(infq_convert_to_f32(e->tensor->dtype, src, n_rows * cols, x, err));
    bad = infq_first_nonfinite(x, n_rows * cols);
    if (bad >= 0)
        return infq_err_set(err, INFQ_E_NUMERIC, "%s: element [%lld, %lld] is %s", e->tensor->name, (long long)(row0 + bad / cols),
                            (long long)(bad % cols), isnan(x[bad]) ? "not a number" : "infinite");
    return INFQ_E_OK;
}

// The whole matrix in the arena, quantized rows by rows.
static infq_status quantize_entry(calibration *c, size_t entry, infq_weight *w, infq_err *err)
{
    const infq_plan_entry *e = &c->p->v[entry];
    const site_stats *s = &c->site[infq_site_of(e->module->role)];
    int64_t rows = e->tensor->shape[0], cols = e->tensor->shape[1], unit = e->codec.group_rows > 32 ? e->codec.group_rows : 32;
    int64_t step = ROW_BYTES / (cols * (int64_t)sizeof(float)) / unit * unit;
    infq_method_args a = { .spec = { .codec = e->codec, .n_cols = cols, .weight = s->weight }, .factor = s->factor.r ? &s->factor : NULL,
                           .sparsity = infq_plan_entry_sparsity(c->p, e) };
    infq_ledger_row *l = &c->r->rows[entry];
    void *codes, *scales, *zeros = NULL, *x;
    infq_quant_out out = { 0 };
    int64_t scale_cols, scale_rows;
    infq_status st = INFQ_E_OK;

    step = step < unit ? unit : step;
    if (c->p->o.sparsity.whole || (e->codec.group_rows == 0 && e->codec.scale != INFQ_ELEM_NONE))
        step = rows;
    step = step > rows ? rows : step;
    *w = (infq_weight){ .codec = e->codec, .n_rows = rows, .n_cols = cols, .outer = 1.0f };
    scale_cols = infq_weight_scale_cols(w);
    scale_rows = infq_weight_scale_rows(w);
    w->codes.row_bytes = infq_codec_row_bytes(&e->codec, cols);
    w->scales.row_bytes = (size_t)scale_cols * (size_t)infq_elem_bits(e->codec.scale) / 8;
    INFQ_TRY(infq_arena_alloc(c->arena, (size_t)rows, w->codes.row_bytes, "quantized rows", &codes, err));
    INFQ_TRY(infq_arena_alloc(c->arena, (size_t)scale_rows, w->scales.row_bytes, "scales", &scales, err));
    if (e->codec.zero == INFQ_ZERO_INT)
        INFQ_TRY(infq_arena_alloc(c->arena, (size_t)scale_rows, (size_t)scale_cols, "zero points", &zeros, err));
    INFQ_TRY(infq_mem_new((size_t)(step * cols), sizeof(float), "rows being quantized", &x, err));
    *l = (infq_ledger_row){ 0 };
    for (int64_t r0 = 0; !st && r0 < rows; r0 += step) {
        int64_t n = rows - r0 < step ? rows - r0 : step, g0 = e->codec.group_rows > 0 ? r0 / e->codec.group_rows : 0;
        out.codes = (uint8_t *)codes + (size_t)r0 * w->codes.row_bytes;
        out.scales = (uint8_t *)scales + (size_t)g0 * w->scales.row_bytes;
        out.zeros = zeros ? (uint8_t *)zeros + g0 * scale_cols : NULL;
        st = source_rows(c, e, r0, n, x, err);
        if (!st && c->p->o.method->rows(&a, x, n, &out, err))
            st = infq_err_in(err, "%s, rows from %lld", e->tensor->name, (long long)r0);
    }
    infq_mem_free(x);
    l->sq_err = out.sq_err;
    l->sq_sum = out.sq_sum;
    l->zero_groups = out.n_zero_groups;
    l->clipped = out.n_clipped;
    l->zeros = out.n_zeros;
    w->codes.data = codes;
    w->scales.data = scales;
    w->zeros = (infq_view){ zeros, zeros ? (size_t)scale_cols : 0 };
    return st;
}

static bool in_layer(const calibration *c, const infq_plan_entry *e)
{
    return e->fate == INFQ_FATE_QUANTIZE && e->module->layer == c->layer && e->module->expert < 0 &&
           infq_site_of(e->module->role) != INFQ_SITE_COUNT;
}

static infq_status write_entry(calibration *c, size_t i, const infq_weight *w, infq_err *err)
{
    const infq_plan *p = c->p;

    if (c->resume->done[i])
        return INFQ_E_OK;
    INFQ_TRY(p->o.format->write(w, 0, w->n_rows, p->v[i].module->name, c->folder, err));
    c->resume->done[i] = true;
    return infq_resume_entry_written(c->resume, p, i, c->r->rows, c->folder, err);
}

static infq_status restore(calibration *c, infq_err *err)
{
    for (size_t i = 0; i < c->p->n; i++) {
        const infq_plan_entry *e = &c->p->v[i];
        infq_weight w;
        if (!in_layer(c, e))
            continue;
        INFQ_TRY(infq_reader_read(c->reader, e->module->name, c->arena, &w, err));
        INFQ_TRY(infq_model_set_weight(c->m, c->layer, e->module->role, &w, err));
        infq_checkpoint_drop(c->p->ck, e->tensor, 0, e->tensor->n_bytes);
    }
    return INFQ_E_OK;
}

static infq_status run_layer(calibration *c, infq_err *err)
{
    infq_mark mark = infq_arena_mark(c->arena);
    bool finished[INFQ_SITE_COUNT] = { false };

    for (int s = 0; s < INFQ_SITE_COUNT; s++)
        clear_site(&c->site[s]);
    INFQ_TRY(run_windows(c, false, err));
    for (size_t i = 0; i < c->p->n; i++) {
        const infq_plan_entry *e = &c->p->v[i];
        infq_site s = e->module ? infq_site_of(e->module->role) : INFQ_SITE_COUNT;
        infq_weight w;
        if (!in_layer(c, e))
            continue;
        if (!finished[s])
            INFQ_TRY(finish_site(c, s, e->codec.group_cols, err));
        finished[s] = true;
        INFQ_TRY(quantize_entry(c, i, &w, err));
        INFQ_TRY(infq_model_set_weight(c->m, c->layer, e->module->role, &w, err));
        INFQ_TRY(write_entry(c, i, &w, err));
    }
    INFQ_TRY(run_windows(c, true, err));
    INFQ_TRY(restore(c, err));
    infq_arena_release(c->arena, mark);
    return INFQ_E_OK;
}

// Source and output bytes of the largest block, columns of its widest matrix.
static void largest_block(const infq_plan *p, int64_t n_layers, uint64_t *src, uint64_t *out)
{
    *src = *out = 0;
    for (int64_t l = 0; l < n_layers; l++) {
        uint64_t in_l = 0, out_l = 0;
        for (size_t i = 0; i < p->n; i++)
            if (p->v[i].module && p->v[i].module->layer == l) {
                in_l += p->v[i].tensor->n_bytes;
                out_l += p->v[i].bytes_out;
            }
        *src = in_l > *src ? in_l : *src;
        *out = out_l > *out ? out_l : *out;
    }
}

infq_status infq_calibrate_bytes(const infq_plan *p, uint64_t *bytes, infq_err *err)
{
    const infq_calib *d = p->o.calib;
    bool moment = (p->o.method->needs & INFQ_NEEDS_MOMENT) != 0;
    infq_config c;
    uint64_t src, out, n = 0, widest = 0, chunk, rows = (uint64_t)ROW_BYTES, tokens = (uint64_t)(d->window * d->n_windows);

    INFQ_TRY(infq_config_read(p->ck, &c, err));
    largest_block(p, c.n_layers, &src, &out);
    for (int s = 0; s < INFQ_SITE_COUNT; s++) {
        uint64_t w = (uint64_t)infq_site_width(&c, (infq_site)s);
        n += 12 * w + (moment ? 8 * w * w + 2 * w * w : 0); // sums, second moments, packed factor
        widest = w > widest ? w : widest;
    }
    n += moment ? 8 * widest * widest + 512 * widest : 0;   // the matrix being factored
    n += 4 * (tokens + (uint64_t)d->window) * (uint64_t)c.hidden;
    for (size_t i = 0; p->o.sparsity.whole && i < p->n; i++)
        if (p->v[i].fate == INFQ_FATE_QUANTIZE && 4 * (uint64_t)p->v[i].tensor->n_elems > rows)
            rows = 4 * (uint64_t)p->v[i].tensor->n_elems;
    n += (uint64_t)(1 + moment + (p->o.sparsity.fraction > 0.0)) * rows + (p->o.sparsity.whole ? rows / 4 * 5 : 0) + (uint64_t)p->threads * 3 * 32 * 4 * widest;
    // The engine: a chunk's buffers, the hook's copy, decoded tiles of each thread and oneDNN's copies of them, the cache of one window.
    chunk = (uint64_t)(d->window < 512 ? d->window : 512);
    n += 4 * chunk * (uint64_t)(2 * c.hidden + 2 * (c.n_heads + c.n_kv_heads) * c.head_dim + 2 * c.ffn) + 4 * 512 * widest;
    n += (uint64_t)p->threads * (4 * 96 * widest + ((uint64_t)2 << 20)) + infq_model_kv_bytes(&c, d->window);
    *bytes = n + src + out;
    return INFQ_E_OK;
}

static infq_status open_all(calibration *c, infq_err *err)
{
    const infq_calib *d = c->p->o.calib;
    infq_model_options mo = { .max_context = d->window };
    const infq_config *cfg;
    size_t n;
    void *p;

    INFQ_TRY(infq_backend_open("auto", &c->be, err));
    INFQ_TRY(infq_model_open(c->p->ck, c->be, &mo, &c->m, err));
    INFQ_TRY(infq_reader_open(c->p->ck, &c->reader, err));
    INFQ_TRY(infq_arena_new((size_t)4 << 20, &c->arena, err));
    INFQ_TRY(infq_seq_new(c->m, &c->scratch, err));
    INFQ_TRY(find_parts(c, err));
    cfg = infq_model_config(c->m);
    if (!infq_mul_size((size_t)(d->window * d->n_windows), (size_t)cfg->hidden, &n))
        return infq_err_set(err, INFQ_E_NOMEM, "%lld calibration windows are too many", (long long)d->n_windows);
    INFQ_TRY(infq_mem_new(n, sizeof(float), "calibration activations", &p, err));
    c->x = p;
    INFQ_TRY(infq_mem_new((size_t)(d->window * cfg->hidden), sizeof(float), "calibration activations", &p, err));
    c->copy = p;
    for (int s = 0; s < INFQ_SITE_COUNT; s++) {
        site_stats *st = &c->site[s];
        st->n = infq_site_width(cfg, (infq_site)s);
        INFQ_TRY(infq_mem_new((size_t)st->n, sizeof(double), "statistics", &p, err));
        st->sq = p;
        INFQ_TRY(infq_mem_new((size_t)st->n, sizeof(float), "statistics", &p, err));
        st->weight = p;
        if (!wants_moment(c))
            continue;
        INFQ_TRY(infq_mem_new((size_t)(st->n * st->n), sizeof(double), "second moments", &p, err));
        st->h = p;
    }
    return INFQ_E_OK;
}

static infq_status walk(calibration *c, infq_err *err)
{
    const infq_calib *d = c->p->o.calib;
    const infq_config *cfg = infq_model_config(c->m);

    for (int64_t i = 0; i < d->n_windows; i++)
        INFQ_TRY(infq_model_embed(c->m, d->ids + i * d->window, d->window, c->x + i * d->window * cfg->hidden, err));
    for (c->layer = 0; c->layer < cfg->n_layers; c->layer++) {
        infq_progress(c->log, "calibrating", (uint64_t)c->layer, (uint64_t)cfg->n_layers);
        INFQ_TRY(run_layer(c, err));
    }
    return INFQ_E_OK;
}

static void close_all(calibration *c)
{
    for (int s = 0; s < INFQ_SITE_COUNT; s++) {
        infq_factor_free(&c->site[s].factor);
        infq_mem_free(c->site[s].h);
        infq_mem_free(c->site[s].sq);
        infq_mem_free(c->site[s].weight);
    }
    infq_mem_free(c->x);
    infq_mem_free(c->copy);
    infq_mem_free(c->site_of);
    infq_seq_free(c->scratch);
    infq_reader_close(c->reader);
    infq_model_close(c->m);
    infq_backend_close(c->be);
    infq_arena_free(c->arena);
}

infq_status infq_calibrate(const infq_plan *p, const infq_log *log, infq_folder *f, infq_quantize_resume *resume,
                           infq_quantize_result *r, infq_err *err)
{
    calibration c = { .p = p, .log = log, .folder = f, .resume = resume, .r = r };
    infq_status st = open_all(&c, err);

    if (!st)
        st = walk(&c, err);
    close_all(&c);
    return st;
}
