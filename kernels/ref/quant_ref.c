#include "kernels/ref/quant_ref.h"

#include <math.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/mem.h"

#define CHUNK 256
#define MARGIN (1.0f - 1.0f / 16384.0f)

// One group in one row, scaled by the power of two p so that its largest magnitude lies in [1, 2).
typedef struct {
    const float *x, *u; // [n]
    int64_t n;
    const infq_codec *codec;
    float p, need, f_lo, f_hi, lo, hi; // lo, hi: symmetric codes
} group;

typedef struct {
    float err, s, zero;
} choice;

// As the vector units do it: the second operand unless the first is smaller (larger).
static float lesser(float a, float b)
{
    return a < b ? a : b;
}

static float greater(float a, float b)
{
    return a > b ? a : b;
}

static float power_for(float a)
{
    int e;

    frexpf(a, &e);
    e = a == 0.0f || e - 1 < -100 ? -100 : e - 1 > 100 ? 100 : e - 1;
    return ldexpf(1.0f, -e);
}

static float round_scale(infq_elem e, float s)
{
    if (e == INFQ_ELEM_BF16)
        return greater(infq_bf16_decode(infq_bf16_encode(s)), infq_bf16_decode(1));
    if (e == INFQ_ELEM_F16)
        return greater(infq_f16_decode(infq_f16_encode(s)), infq_f16_decode(1));
    return greater(s, ldexpf(1.0f, -149));
}

static float stored(const group *g, float s)
{
    return round_scale(g->codec->scale, s * (1.0f / g->p)) * g->p;
}

static float limited(const group *g, float s)
{
    return stored(g, greater(lesser(s, g->need * g->f_hi), g->need * g->f_lo));
}

// Code relative to the zero point, or the E4M3 value.
static float code_of(const group *g, float t, float lo, float hi)
{
    if (g->codec->elem == INFQ_ELEM_E4M3)
        return infq_e4m3_decode(infq_e4m3_encode(t));
    return (float)infq_rne(lesser(greater(t, lo), hi));
}

static float error_of(const group *g, float s, float lo, float hi)
{
    float inv = 1.0f / s, total = 0.0f;

    for (int64_t begin = 0; begin < g->n; begin += CHUNK) {
        float acc = 0.0f;
        for (int64_t j = begin; j < g->n && j < begin + CHUNK; j++) {
            float d = g->x[j] - code_of(g, g->x[j] * inv, lo, hi) * s;
            acc += d * d * g->u[j];
        }
        total += acc;
    }
    return total;
}

static void keep(choice *best, float err, float s, float zero)
{
    if (err < best->err)
        *best = (choice){ err, s, zero };
}

typedef struct {
    float u, uq, uqq, ux, uxq;
} sums;

static sums sums_of(const group *g, float s, float lo, float hi)
{
    sums total = { 0 };
    float inv = 1.0f / s;

    for (int64_t begin = 0; begin < g->n; begin += CHUNK) {
        sums a = { 0 };
        for (int64_t j = begin; j < g->n && j < begin + CHUNK; j++) {
            float q = code_of(g, g->x[j] * inv, lo, hi), uq = g->u[j] * q, ux = g->u[j] * g->x[j];
            a.u += g->u[j];
            a.uq += uq;
            a.uqq += uq * q;
            a.ux += ux;
            a.uxq += ux * q;
        }
        total = (sums){ total.u + a.u, total.uq + a.uq, total.uqq + a.uqq, total.ux + a.ux, total.uxq + a.uxq };
    }
    return total;
}

static float search_sym(const group *g, float s0, float denom)
{
    float top = g->need * denom, step = (g->f_hi - g->f_lo) / 24.0f, err0 = error_of(g, s0, g->lo, g->hi), s;
    bool fp8 = g->codec->elem == INFQ_ELEM_E4M3;
    choice best = { err0, s0, 0.0f };

    s = limited(g, fp8 ? g->need : top / g->hi);
    keep(&best, error_of(g, s, g->lo, g->hi), s, 0.0f);
    s = limited(g, fp8 ? g->need : top / -g->lo);
    keep(&best, error_of(g, s, g->lo, g->hi), s, 0.0f);
    s = limited(g, g->need * g->f_hi);
    keep(&best, error_of(g, s, g->lo, g->hi), s, 0.0f);
    for (int f = 0; f < 24; f++) {
        s = limited(g, g->need * (g->f_lo + (float)f * step));
        keep(&best, error_of(g, s, g->lo, g->hi), s, 0.0f);
    }
    if (!fp8) {
        static const float around[3] = { 1.0f, 0.994f, 1.006f };
        sums a = sums_of(g, best.s, g->lo, g->hi);
        float fit = a.uxq / a.uqq;
        for (int k = 0; k < 3; k++) {
            s = limited(g, fit * around[k]);
            keep(&best, error_of(g, s, g->lo, g->hi), s, 0.0f);
        }
    }
    return best.err < err0 * MARGIN ? best.s : s0;
}

static void try_zero(const group *g, choice *best, float s, float zero, float levels)
{
    keep(best, error_of(g, s, 0.0f - zero, levels - zero), s, zero);
}

// Whole zero points below and above z, inside 0..levels.
static void zeros_around(float z, float levels, float out[2])
{
    z = lesser(greater(z, 0.0f), levels);
    out[0] = floorf(z);
    out[1] = ceilf(z);
}

static void refit_asym(const group *g, choice *best, float levels)
{
    choice now = *best;
    sums a = sums_of(g, now.s, 0.0f - now.zero, levels - now.zero);
    float det = a.u * a.uqq - a.uq * a.uq, zero[3];
    float s = (a.u * a.uxq - a.ux * a.uq) / det, m = (a.uqq * a.ux - a.uq * a.uxq) / det;

    zeros_around(now.zero - m / s, levels, zero);
    zero[2] = now.zero;
    for (int k = 0; k < 3; k++) {
        float d = now.zero - zero[k];
        float fit = (a.uxq + d * a.ux) / (a.uqq + (2.0f * d * a.uq + d * d * a.u));
        try_zero(g, best, limited(g, fit), zero[k], levels);
    }
}

static choice search_asym(const group *g, float s0, float mn, float mx, float levels, bool search)
{
    float zero[2], step = (g->f_hi - g->f_lo) / 11.0f, err0;
    choice plain, best;

    zeros_around(0.0f - mn / s0, levels, zero);
    plain = (choice){ error_of(g, s0, 0.0f - zero[0], levels - zero[0]), s0, zero[0] };
    try_zero(g, &plain, s0, zero[1], levels);
    if (!search)
        return plain;
    err0 = plain.err;
    best = plain;
    for (int f = 0; f < 12; f++) {
        float s = limited(g, g->need * (g->f_lo + (float)f * step));
        zeros_around(levels * 0.5f - (mn + mx) * 0.5f / s, levels, zero);
        try_zero(g, &best, s, zero[0], levels);
        try_zero(g, &best, s, zero[1], levels);
    }
    for (int round = 0; round < 3; round++)
        refit_asym(g, &best, levels);
    return best.err < err0 * MARGIN ? best : plain;
}

// What the element type asks of ranges and codes.
typedef struct {
    float denom, lo, hi, offset, f_hi;
    bool asym, search;
} limits;

static bool limits_of(const infq_quant_spec *s, limits *l)
{
    const infq_codec *c = &s->codec;

    memset(l, 0, sizeof(*l));
    l->asym = c->zero == INFQ_ZERO_INT;
    switch (c->elem) {
    case INFQ_ELEM_U4: *l = (limits){ l->asym ? 15.0f : 7.5f, -8, 7, 8, 0, l->asym, false }; break;
    case INFQ_ELEM_U8: *l = (limits){ l->asym ? 255.0f : 127.5f, -128, 127, 128, 0, l->asym, false }; break;
    case INFQ_ELEM_I8: *l = (limits){ 127, -127, 127, 0, 0, l->asym, false }; break;
    case INFQ_ELEM_E4M3: l->denom = 448; break;
    default: return false;
    }
    l->f_hi = l->asym || c->elem == INFQ_ELEM_E4M3 ? 1.015f : 1.085f;
    l->search = s->range == INFQ_RANGE_SEARCH && c->group_rows == 1 &&
                (c->elem == INFQ_ELEM_U4 || c->elem == INFQ_ELEM_E4M3);
    if (l->asym && (c->elem == INFQ_ELEM_I8 || c->elem == INFQ_ELEM_E4M3 || c->group_rows != 1))
        return false;
    return c->zero != INFQ_ZERO_FLOAT && !c->outer &&
           (c->scale == INFQ_ELEM_F32 || c->scale == INFQ_ELEM_F16 || c->scale == INFQ_ELEM_BF16);
}

// Scale (and zero point) of the group of rows row0..row1-1, columns col..col+n-1. buf: [2 n].
static float range_of(const infq_quant_spec *spec, const limits *l, const float *x, int64_t row0, int64_t row1,
                      int64_t col, int64_t n, float *buf, float *zero)
{
    float mn = 0.0f, mx = 0.0f, top, total = 0.0f, s0;
    group g = { buf, buf + n, n, &spec->codec, 1.0f, 0.0f, spec->weight ? 0.55f : 0.705f, l->f_hi, l->lo, l->hi };

    for (int64_t r = row0; r < row1; r++)
        for (int64_t j = 0; j < n; j++) {
            mn = fminf(mn, x[r * spec->n_cols + col + j]);
            mx = fmaxf(mx, x[r * spec->n_cols + col + j]);
        }
    top = fmaxf(mx, -mn);
    *zero = l->offset;
    if (top == 0.0f)
        return ldexpf(1.0f, -20);
    g.p = power_for(top);
    g.need = (l->asym ? mx * g.p - mn * g.p : top * g.p) / l->denom;
    s0 = stored(&g, g.need);
    if (!l->search && !l->asym)
        return s0 * (1.0f / g.p);
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        float acc = 0.0f;
        for (int64_t j = begin; j < n && j < begin + CHUNK; j++) {
            buf[j] = x[row0 * spec->n_cols + col + j] * g.p;
            acc += buf[j] * buf[j];
        }
        total += acc;
    }
    for (int64_t j = 0; j < n; j++)
        buf[n + j] = !l->search       ? 1.0f
                     : spec->weight ? spec->weight[col + j]
                                    : buf[j] * buf[j] + total / (float)n;
    if (l->asym) {
        choice c = search_asym(&g, s0, mn * g.p, mx * g.p, l->denom, l->search);
        *zero = c.zero;
        return c.s * (1.0f / g.p);
    }
    return search_sym(&g, s0, l->denom) * (1.0f / g.p);
}

static void store_scale(infq_elem e, uint8_t *scales, int64_t g, float s)
{
    infq_dtype t = e == INFQ_ELEM_BF16 ? INFQ_DTYPE_BF16 : e == INFQ_ELEM_F16 ? INFQ_DTYPE_F16 : INFQ_DTYPE_F32;
    infq_err err;

    INFQ_BUG_ON(infq_dtype_from_f32(t, &s, 1, scales + (size_t)g * (size_t)(infq_elem_bits(e) / 8), &err));
}

static float tree_sum(float a[16])
{
    for (int n = 8; n > 0; n /= 2)
        for (int l = 0; l < n; l++)
            a[l] += a[l + n];
    return a[0];
}

// Codes of columns col..end-1 of a row, at most 256 of them, and their figures.
static void encode_run(const infq_codec *c, const limits *l, const float *x, int64_t col, int64_t end, float s,
                       float zero, uint8_t *codes, infq_quant_out *row)
{
    float err[16] = { 0 }, sum[16] = { 0 }, p = power_for(s);
    float lo = l->asym ? -zero : l->lo, hi = l->asym ? l->denom - zero : l->hi;
    double back = 1.0 / ((double)p * (double)p);

    for (int64_t j = col; j < end; j++) {
        float v = x[j] / s, q, d;
        int at = (int)((j - col) % 16);
        if (c->elem == INFQ_ELEM_E4M3) {
            codes[j] = infq_e4m3_encode(v);
            q = infq_e4m3_decode(codes[j]);
            row->n_clipped += fabsf(v) > 464.0f;
        } else {
            q = (float)infq_rne(fminf(fmaxf(v, lo), hi));
            row->n_clipped += v < lo - 0.5f || v > hi + 0.5f;
            if (c->elem == INFQ_ELEM_U4)
                codes[j / 2] |= (uint8_t)((int)(q + zero) << (j % 2 * 4));
            else
                codes[j] = (uint8_t)(int)(q + zero);
        }
        d = (x[j] - q * s) * p;
        err[at] += d * d;
        sum[at] += x[j] * p * (x[j] * p);
    }
    row->sq_err += (double)tree_sum(err) * back;
    row->sq_sum += (double)tree_sum(sum) * back;
}

static void encode_row(const infq_quant_spec *spec, const limits *l, const float *x, const float *scales,
                       const float *zeros, int64_t step, uint8_t *codes, infq_quant_out *out)
{
    infq_quant_out row = { 0 };

    memset(codes, 0, infq_codec_row_bytes(&spec->codec, spec->n_cols));
    for (int64_t col = 0; col < spec->n_cols;) {
        int64_t gc = col / step, end = (gc + 1) * step < spec->n_cols ? (gc + 1) * step : spec->n_cols;
        end = end - col > CHUNK ? col + CHUNK : end;
        encode_run(&spec->codec, l, x, col, end, scales[gc], zeros[gc], codes, &row);
        col = end;
    }
    out->n_clipped += row.n_clipped;
    out->sq_err += row.sq_err;
    out->sq_sum += row.sq_sum;
}

infq_status infq_quant_rows_ref(const infq_quant_spec *s, const float *x, int64_t n_rows, infq_quant_out *out,
                                infq_err *err)
{
    int64_t step = s->codec.group_cols > 0 ? s->codec.group_cols : s->n_cols, n_groups = (s->n_cols + step - 1) / step;
    int64_t rows = s->codec.group_rows > 0 ? s->codec.group_rows : n_rows;
    size_t row_bytes = infq_codec_row_bytes(&s->codec, s->n_cols);
    limits l;
    float *scales;
    void *mem = NULL;

    if (!limits_of(s, &l))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "no quantizer for %s", infq_elem_name(s->codec.elem));
    INFQ_TRY(infq_mem_new(2 * (size_t)(s->n_cols + n_groups), sizeof(float), "quantizer", &mem, err));
    scales = (float *)mem + 2 * s->n_cols;
    for (int64_t r0 = 0; r0 < n_rows; r0 += rows) {
        int64_t r1 = r0 + rows < n_rows ? r0 + rows : n_rows;
        for (int64_t gc = 0; gc < n_groups; gc++) {
            int64_t col = gc * step, n = s->n_cols - col < step ? s->n_cols - col : step, g = r0 / rows * n_groups + gc;
            scales[gc] = range_of(s, &l, x, r0, r1, col, n, mem, &scales[n_groups + gc]);
            if (!isfinite(scales[gc])) {
                infq_mem_free(mem);
                return infq_err_set(err, INFQ_E_NUMERIC, "the scale of row %lld, group %lld overflows %s",
                                    (long long)r0, (long long)gc, infq_elem_name(s->codec.scale));
            }
            store_scale(s->codec.scale, out->scales, g, scales[gc]);
            if (l.asym)
                out->zeros[g] = (uint8_t)scales[n_groups + gc];
        }
        for (int64_t r = r0; r < r1; r++)
            encode_row(s, &l, x + r * s->n_cols, scales, scales + n_groups, step, out->codes + (size_t)r * row_bytes, out);
        for (int64_t gc = 0; gc < n_groups; gc++) {
            bool empty = true;
            for (int64_t r = r0; r < r1 && empty; r++)
                for (int64_t c = gc * step; c < (gc + 1) * step && c < s->n_cols && empty; c++)
                    empty = x[r * s->n_cols + c] == 0.0f;
            out->n_zero_groups += empty;
        }
    }
    infq_mem_free(mem);
    return INFQ_E_OK;
}
