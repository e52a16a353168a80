#include "lib/tensor/weight.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/tensor/ggml.h"

static const struct {
    const char *name;
    int bits, block;
} elems[INFQ_ELEM_COUNT] = {
#define X(id, name, bits, block) { name, bits, block },
    INFQ_ELEM_MAP(X)
#undef X
};

const char *infq_elem_name(infq_elem e)
{
    return (unsigned)e < INFQ_ELEM_COUNT ? elems[e].name : "unknown";
}

int infq_elem_bits(infq_elem e)
{
    return (unsigned)e < INFQ_ELEM_COUNT ? elems[e].bits : 0;
}

int infq_elem_block(infq_elem e)
{
    return (unsigned)e < INFQ_ELEM_COUNT ? elems[e].block : 1;
}

infq_elem infq_elem_of_dtype(infq_dtype t)
{
    switch (t) {
    case INFQ_DTYPE_F64: return INFQ_ELEM_F64;
    case INFQ_DTYPE_F32: return INFQ_ELEM_F32;
    case INFQ_DTYPE_F16: return INFQ_ELEM_F16;
    case INFQ_DTYPE_BF16: return INFQ_ELEM_BF16;
    case INFQ_DTYPE_F8_E4M3: return INFQ_ELEM_E4M3;
    case INFQ_DTYPE_F8_E5M2: return INFQ_ELEM_E5M2;
    default: return INFQ_ELEM_NONE;
    }
}

infq_dtype infq_dtype_of_elem(infq_elem e)
{
    switch (e) {
    case INFQ_ELEM_F64: return INFQ_DTYPE_F64;
    case INFQ_ELEM_F32: return INFQ_DTYPE_F32;
    case INFQ_ELEM_F16: return INFQ_DTYPE_F16;
    case INFQ_ELEM_BF16: return INFQ_DTYPE_BF16;
    case INFQ_ELEM_E4M3: return INFQ_DTYPE_F8_E4M3;
    default: INFQ_BUG_ON(e != INFQ_ELEM_E5M2); return INFQ_DTYPE_F8_E5M2;
    }
}

bool infq_elem_is_float(infq_elem e)
{
    return e == INFQ_ELEM_F64 || e == INFQ_ELEM_F32 || e == INFQ_ELEM_F16 || e == INFQ_ELEM_BF16 ||
           e == INFQ_ELEM_E4M3 || e == INFQ_ELEM_E5M2;
}

// Unsigned integer codes; I8 is signed.
static bool is_uint(infq_elem e)
{
    return e == INFQ_ELEM_U8 || e == INFQ_ELEM_U4 || e == INFQ_ELEM_U3 || e == INFQ_ELEM_U2;
}

static bool is_int(infq_elem e)
{
    return is_uint(e) || e == INFQ_ELEM_I8;
}

static int64_t ceil_div(int64_t n, int64_t d)
{
    return n / d + (n % d != 0);
}

int64_t infq_weight_scale_rows(const infq_weight *w)
{
    if (w->codec.scale == INFQ_ELEM_NONE)
        return 0;
    return w->codec.group_rows > 0 ? ceil_div(w->n_rows, w->codec.group_rows) : 1;
}

int64_t infq_weight_scale_cols(const infq_weight *w)
{
    if (w->codec.scale == INFQ_ELEM_NONE)
        return 0;
    return w->codec.group_cols > 0 ? ceil_div(w->n_cols, w->codec.group_cols) : 1;
}

size_t infq_codec_row_bytes(const infq_codec *c, int64_t n_cols)
{
    int block = infq_elem_block(c->elem);
    size_t bits = (size_t)infq_elem_bits(c->elem);

    if (block > 1)
        return (size_t)ceil_div(n_cols, block) * (bits / 8);
    // Whole bytes and rest apart, so that the product cannot overflow before it is divided.
    return (size_t)(n_cols / 8) * bits + ((size_t)(n_cols % 8) * bits + 7) / 8;
}

double infq_weight_bits(const infq_weight *w)
{
    double codes = (double)infq_codec_row_bytes(&w->codec, w->n_cols) * 8.0 * (double)w->n_rows;
    double groups = (double)infq_weight_scale_rows(w) * (double)infq_weight_scale_cols(w);
    int zero_bits = 0;

    if (w->codec.zero == INFQ_ZERO_INT)
        zero_bits = infq_elem_bits(w->codec.elem);
    else if (w->codec.zero == INFQ_ZERO_FLOAT)
        zero_bits = 32;
    return codes + groups * (infq_elem_bits(w->codec.scale) + zero_bits) + (w->codec.outer ? 32.0 : 0.0);
}

static bool scale_elem_ok(infq_elem e)
{
    return e == INFQ_ELEM_F32 || e == INFQ_ELEM_F16 || e == INFQ_ELEM_BF16 || e == INFQ_ELEM_E4M3 ||
           e == INFQ_ELEM_E8M0;
}

static infq_status check_codec(const infq_codec *c, infq_err *err)
{
    if (c->elem == INFQ_ELEM_NONE || (unsigned)c->elem >= INFQ_ELEM_COUNT || c->elem == INFQ_ELEM_E8M0)
        return infq_err_set(err, INFQ_E_FORMAT, "%s cannot be the element of a weight", infq_elem_name(c->elem));
    if (c->scale != INFQ_ELEM_NONE && !scale_elem_ok(c->scale))
        return infq_err_set(err, INFQ_E_FORMAT, "%s cannot be the type of a scale", infq_elem_name(c->scale));
    if (infq_elem_block(c->elem) > 1 && (c->scale != INFQ_ELEM_NONE || c->zero != INFQ_ZERO_NONE))
        return infq_err_set(err, INFQ_E_FORMAT, "%s blocks hold their own scales", infq_elem_name(c->elem));
    if ((is_int(c->elem) || c->elem == INFQ_ELEM_E2M1) && c->scale == INFQ_ELEM_NONE)
        return infq_err_set(err, INFQ_E_FORMAT, "%s codes need a scale", infq_elem_name(c->elem));
    if (c->zero != INFQ_ZERO_NONE && !is_int(c->elem))
        return infq_err_set(err, INFQ_E_FORMAT, "%s codes have no zero point", infq_elem_name(c->elem));
    if ((unsigned)c->zero > INFQ_ZERO_FLOAT)
        return infq_err_set(err, INFQ_E_FORMAT, "unknown kind of zero point %d", (int)c->zero);
    if (c->group_rows < 0 || c->group_cols < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "group of %d x %d is negative", (int)c->group_rows,
                            (int)c->group_cols);
    return INFQ_E_OK;
}

static infq_status check_view(const infq_view *v, int64_t n_rows, size_t row_bytes, const char *what, infq_err *err)
{
    size_t total;

    if (!v->data && n_rows > 0 && row_bytes > 0)
        return infq_err_set(err, INFQ_E_FORMAT, "%s missing", what);
    if (n_rows > 1 && v->row_bytes < row_bytes)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: rows of %zu bytes, %zu needed", what, v->row_bytes, row_bytes);
    if (!infq_mul_size((size_t)n_rows, v->row_bytes, &total))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %lld rows of %zu bytes overflow", what, (long long)n_rows,
                            v->row_bytes);
    return INFQ_E_OK;
}

infq_status infq_weight_check(const infq_weight *w, infq_err *err)
{
    const infq_codec *c = &w->codec;
    int64_t s_rows, s_cols, cells;
    int block;

    INFQ_TRY(check_codec(c, err));
    block = infq_elem_block(c->elem);
    if (w->n_rows < 0 || w->n_cols < 0 || !infq_mul_i64(w->n_rows, w->n_cols, &cells))
        return infq_err_set(err, INFQ_E_FORMAT, "shape [%lld, %lld] is out of range", (long long)w->n_rows,
                            (long long)w->n_cols);
    if (w->n_cols % block)
        return infq_err_set(err, INFQ_E_FORMAT, "rows of %lld are no multiple of the %s block of %d",
                            (long long)w->n_cols, infq_elem_name(c->elem), block);
    INFQ_TRY(check_view(&w->codes, w->n_rows, infq_codec_row_bytes(c, w->n_cols), "codes", err));
    s_rows = infq_weight_scale_rows(w);
    s_cols = infq_weight_scale_cols(w);
    if (s_rows)
        INFQ_TRY(check_view(&w->scales, s_rows, (size_t)s_cols * (size_t)(infq_elem_bits(c->scale) / 8), "scales",
                            err));
    if (c->zero != INFQ_ZERO_NONE)
        INFQ_TRY(check_view(&w->zeros, s_rows, (size_t)s_cols * (c->zero == INFQ_ZERO_INT ? 1 : 4), "zeros", err));
    if (w->order)
        for (int64_t i = 0; i < w->n_cols; i++)
            if (w->order[i] < 0 || w->order[i] >= s_cols)
                return infq_err_set(err, INFQ_E_FORMAT, "column %lld is in group %d of %lld", (long long)i,
                                    (int)w->order[i], (long long)s_cols);
    if (!isfinite(w->outer) || (!c->outer && w->outer != 1.0f))
        return infq_err_set(err, INFQ_E_FORMAT, "outer scale %g", (double)w->outer);
    if (c->act == INFQ_ACT_E4M3_TENSOR && !(isfinite(w->act_scale) && w->act_scale > 0.0f))
        return infq_err_set(err, INFQ_E_FORMAT, "activation scale %g", (double)w->act_scale);
    return INFQ_E_OK;
}

char *infq_codec_describe(const infq_codec *c, char *out, size_t cap)
{
    static const char *const acts[] = { "", ", A8 int per token", ", A8 fp8 per token", ", A8 fp8 per 128",
                                        ", A8 fp8 static" };
    char group[48], kind[32];

    if (is_int(c->elem))
        snprintf(kind, sizeof(kind), "W%d %s", infq_elem_bits(c->elem), c->zero == INFQ_ZERO_NONE ? "sym" : "asym");
    else
        snprintf(kind, sizeof(kind), "%s", infq_elem_name(c->elem));
    if (c->scale == INFQ_ELEM_NONE) {
        snprintf(out, cap, "%s", kind);
        return out;
    }
    if (c->group_rows > 1)
        snprintf(group, sizeof(group), "block %dx%d", (int)c->group_rows, (int)c->group_cols);
    else if (c->group_cols > 0)
        snprintf(group, sizeof(group), "g%d", (int)c->group_cols);
    else
        snprintf(group, sizeof(group), "%s", c->group_rows == 1 ? "channel" : "tensor");
    snprintf(out, cap, "%s %s, %s scales%s", kind, group, infq_elem_name(c->scale),
             (unsigned)c->act <= INFQ_ACT_E4M3_TENSOR ? acts[c->act] : "");
    return out;
}

static const uint8_t *row_of(const infq_view *v, int64_t r)
{
    return (const uint8_t *)v->data + (size_t)r * v->row_bytes;
}

static int64_t group_row(const infq_weight *w, int64_t r)
{
    return w->codec.group_rows > 0 ? r / w->codec.group_rows : 0;
}

static int64_t group_col(const infq_weight *w, int64_t c)
{
    if (w->order)
        return w->order[c];
    return w->codec.group_cols > 0 ? c / w->codec.group_cols : 0;
}

static float load_scale(infq_elem e, const uint8_t *p, int64_t i)
{
    uint32_t u;
    float f;

    switch (e) {
    case INFQ_ELEM_F16: return infq_f16_decode(infq_load_u16le(p + 2 * i));
    case INFQ_ELEM_BF16: return infq_bf16_decode(infq_load_u16le(p + 2 * i));
    case INFQ_ELEM_E4M3: return infq_e4m3_decode(p[i]);
    case INFQ_ELEM_E8M0: return infq_e8m0_decode(p[i]);
    default: break;
    }
    u = infq_load_u32le(p + 4 * i);
    memcpy(&f, &u, sizeof(f));
    return f;
}

static float scale_in(const infq_weight *w, int64_t gr, int64_t gc)
{
    return w->codec.scale == INFQ_ELEM_NONE ? 1.0f : load_scale(w->codec.scale, row_of(&w->scales, gr), gc);
}

static float zero_in(const infq_weight *w, int64_t gr, int64_t gc)
{
    if (w->codec.zero == INFQ_ZERO_INT) {
        uint8_t z = row_of(&w->zeros, gr)[gc];
        return w->codec.elem == INFQ_ELEM_I8 ? (float)(int8_t)z : (float)z;
    }
    if (w->codec.zero == INFQ_ZERO_FLOAT)
        return load_scale(INFQ_ELEM_F32, row_of(&w->zeros, gr), gc);
    return is_uint(w->codec.elem) ? (float)(1 << (infq_elem_bits(w->codec.elem) - 1)) : 0.0f;
}

float infq_weight_scale_at(const infq_weight *w, int64_t r, int64_t c)
{
    return scale_in(w, group_row(w, r), group_col(w, c));
}

float infq_weight_zero_at(const infq_weight *w, int64_t r, int64_t c)
{
    return zero_in(w, group_row(w, r), group_col(w, c));
}

// Element c of a row of codes; ggml blocks and dense floats have none.
static int32_t code_in(infq_elem e, const uint8_t *row, int64_t c)
{
    int bits = infq_elem_bits(e), at;
    size_t bit;
    uint32_t v;

    if (e == INFQ_ELEM_I8)
        return (int8_t)row[c];
    if (bits == 8)
        return row[c];
    if (bits == 4)
        return row[c / 2] >> (c % 2 * 4) & 15;
    bit = (size_t)c * (size_t)bits;
    at = (int)(bit % 8);
    v = row[bit / 8];
    if (at + bits > 8)
        v |= (uint32_t)row[bit / 8 + 1] << 8;
    return (int32_t)(v >> at & ((1u << bits) - 1));
}

int32_t infq_weight_code_at(const infq_weight *w, int64_t r, int64_t c)
{
    const uint8_t *row = row_of(&w->codes, r);
    infq_elem e = w->codec.elem;

    if (infq_elem_bits(e) <= 8)
        return code_in(e, row, c);
    row += (size_t)(c / 32) * (size_t)(infq_elem_bits(e) / 8);
    c %= 32;
    switch (e) {
    case INFQ_ELEM_Q8_0: return (int8_t)row[2 + c];
    case INFQ_ELEM_Q4_0: return row[2 + c % 16] >> (c / 16 * 4) & 15;
    case INFQ_ELEM_Q4_1: return row[4 + c % 16] >> (c / 16 * 4) & 15;
    default: return 0;
    }
}

static infq_dtype dtype_of(infq_elem e)
{
    switch (e) {
    case INFQ_ELEM_F64: return INFQ_DTYPE_F64;
    case INFQ_ELEM_F16: return INFQ_DTYPE_F16;
    case INFQ_ELEM_BF16: return INFQ_DTYPE_BF16;
    case INFQ_ELEM_E4M3: return INFQ_DTYPE_F8_E4M3;
    case INFQ_ELEM_E5M2: return INFQ_DTYPE_F8_E5M2;
    default: return INFQ_DTYPE_F32;
    }
}

// Raw codes as floats, before zero and scale.
static void decode_codes(const infq_weight *w, const uint8_t *row, float *dst)
{
    infq_elem e = w->codec.elem;
    infq_err err;

    if (infq_elem_block(e) > 1) {
        INFQ_BUG_ON(infq_ggml_decode(e, row, w->n_cols, dst, &err));
    } else if (infq_elem_is_float(e)) {
        INFQ_BUG_ON(infq_dtype_to_f32(dtype_of(e), row, w->n_cols, dst, &err));
    } else if (e == INFQ_ELEM_E2M1) {
        for (int64_t c = 0; c < w->n_cols; c++)
            dst[c] = infq_e2m1_decode((uint8_t)code_in(e, row, c));
    } else if (e == INFQ_ELEM_U4) {
        for (int64_t c = 0; c < w->n_cols; c++)
            dst[c] = (float)(row[c / 2] >> (c % 2 * 4) & 15);
    } else {
        for (int64_t c = 0; c < w->n_cols; c++)
            dst[c] = (float)code_in(e, row, c);
    }
}

void infq_weight_decode_row(const infq_weight *w, int64_t r, float *dst)
{
    int64_t gr = group_row(w, r), step = w->codec.group_cols > 0 ? w->codec.group_cols : w->n_cols;

    decode_codes(w, row_of(&w->codes, r), dst);
    if (w->codec.scale == INFQ_ELEM_NONE)
        return;
    for (int64_t c = 0; c < w->n_cols;) {
        int64_t end = w->order ? c + 1 : w->n_cols - c < step ? w->n_cols : c + step, g = group_col(w, c);
        float s = scale_in(w, gr, g), z = zero_in(w, gr, g);

        for (; c < end; c++)
            dst[c] = (dst[c] - z) * s;
    }
    if (w->codec.outer)
        for (int64_t c = 0; c < w->n_cols; c++)
            dst[c] *= w->outer;
}

static void store_code(infq_elem e, uint8_t *row, int64_t c, int32_t code)
{
    int bits = infq_elem_bits(e);
    size_t bit = (size_t)c * (size_t)bits;

    if (bits == 8) {
        row[c] = (uint8_t)code;
        return;
    }
    row[bit / 8] |= (uint8_t)(code << (bit % 8));
    if (bit % 8 + (size_t)bits > 8)
        row[bit / 8 + 1] |= (uint8_t)(code >> (8 - bit % 8));
}

// Nearest code of x under one scale and zero point.
static int32_t nearest(infq_elem e, float x, float s, float z, bool float_zero)
{
    int bits = infq_elem_bits(e);
    float v = x / s, lo, hi;

    if (e == INFQ_ELEM_E4M3)
        return infq_e4m3_encode(v);
    if (e == INFQ_ELEM_E5M2)
        return infq_e5m2_encode(v);
    if (e == INFQ_ELEM_E2M1)
        return infq_e2m1_encode(v);
    lo = e == INFQ_ELEM_I8 ? -128.0f : 0.0f;
    hi = e == INFQ_ELEM_I8 ? 127.0f : (float)((1 << bits) - 1);
    // An integer zero is added after rounding, so that ties fall as they do without one.
    v = float_zero ? v + z : v;
    v = v < -1024.0f ? -1024.0f : v > 1024.0f ? 1024.0f : v;
    v = (float)infq_rne(v) + (float_zero ? 0.0f : z);
    return (int32_t)(v < lo ? lo : v > hi ? hi : v);
}

infq_status infq_weight_encode_row(const infq_weight *w, int64_t r, const float *x, uint8_t *codes, infq_err *err)
{
    infq_elem e = w->codec.elem;
    int64_t bad = infq_first_nonfinite(x, w->n_cols), gr = group_row(w, r);

    if (bad >= 0)
        return infq_err_set(err, INFQ_E_NUMERIC, "element [%lld, %lld] is not finite", (long long)r, (long long)bad);
    if (infq_elem_block(e) > 1)
        return infq_ggml_encode(e, x, w->n_cols, codes, err);
    if (w->codec.scale == INFQ_ELEM_NONE)
        return infq_dtype_from_f32(dtype_of(e), x, w->n_cols, codes, err);
    if (infq_elem_bits(e) > 8)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s with a scale", infq_elem_name(e));
    memset(codes, 0, infq_codec_row_bytes(&w->codec, w->n_cols));
    for (int64_t c = 0; c < w->n_cols; c++) {
        int64_t g = group_col(w, c);
        float s = scale_in(w, gr, g) * (w->codec.outer ? w->outer : 1.0f);

        if (s == 0.0f || !isfinite(s))
            return infq_err_set(err, INFQ_E_NUMERIC, "scale [%lld, %lld] is %g", (long long)gr, (long long)g,
                                (double)s);
        store_code(e, codes, c, nearest(e, x[c], s, zero_in(w, gr, g), w->codec.zero == INFQ_ZERO_FLOAT));
    }
    return INFQ_E_OK;
}
