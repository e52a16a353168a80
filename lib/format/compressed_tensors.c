/* Layouts: docs/format/compressed-tensors.md. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/format/ct_int.h"
#include "lib/format/formats_int.h"

#define NAME_CAP 600

static bool ct_probe(const infq_checkpoint *ck)
{
    const cJSON *q, *method;
    cJSON *own;
    infq_err err;
    bool yes;

    if (infq_format_quant_config(ck, &q, &own, &err))
        return false;
    method = q ? infq_json_get(q, "quant_method") : NULL;
    yes = cJSON_IsString(method) && strcmp(method->valuestring, "compressed-tensors") == 0;
    cJSON_Delete(own);
    return yes;
}

static infq_status ct_open(const infq_checkpoint *ck, void **state, infq_err *err)
{
    const cJSON *q;
    cJSON *own;
    infq_ct_config *c = NULL;
    infq_status st;

    INFQ_TRY(infq_format_quant_config(ck, &q, &own, err));
    st = infq_ct_config_parse(q, &c, err);
    cJSON_Delete(own);
    if (st)
        return infq_err_in(err, "%s", infq_checkpoint_path(ck));
    *state = c;
    return INFQ_E_OK;
}

static void ct_close(void *state)
{
    infq_ct_config_free(state);
}

// What one read works on.
typedef struct {
    const infq_checkpoint *ck;
    const char *module;
    const infq_ct_group *g;
    infq_arena *a;
    infq_weight *w;
} reading;

static const infq_ck_tensor *part(const reading *r, const char *suffix)
{
    char name[NAME_CAP];

    snprintf(name, sizeof(name), "%s.%s", r->module, suffix);
    return infq_checkpoint_find(r->ck, name);
}

static infq_status need(const reading *r, const char *suffix, infq_dtype dtype, int64_t rows, int64_t cols,
                        const infq_ck_tensor **out, infq_err *err)
{
    const infq_ck_tensor *t = part(r, suffix);

    if (!t)
        return infq_err_set(err, INFQ_E_FORMAT, "%s.%s is missing", r->module, suffix);
    if (t->dtype != dtype)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: dtype %s, the format asks for %s", t->name, infq_dtype_name(t->dtype),
                            infq_dtype_name(dtype));
    if (t->n_dims != 2 || (rows >= 0 && t->shape[0] != rows) || (cols >= 0 && t->shape[1] != cols))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: shape does not fit, expected [%lld, %lld]", t->name, (long long)rows,
                            (long long)cols);
    *out = t;
    return INFQ_E_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

// Scale granularity of the group, as codec fields, and the shape of its scales.
static void grain(const infq_ct_group *g, infq_weight *w, int64_t *rows, int64_t *cols)
{
    infq_codec *c = &w->codec;

    c->group_rows = g->strategy == INFQ_CT_TENSOR ? 0 : g->strategy == INFQ_CT_BLOCK ? g->block_rows : 1;
    c->group_cols = g->strategy == INFQ_CT_BLOCK ? g->block_cols : g->group_size;
    *rows = c->group_rows ? ceil_div(w->n_rows, c->group_rows) : 1;
    *cols = c->group_cols ? ceil_div(w->n_cols, c->group_cols) : 1;
}

static infq_status read_scales(const reading *r, int64_t *rows, int64_t *cols, infq_err *err)
{
    const infq_ck_tensor *t = part(r, "weight_scale");

    grain(r->g, r->w, rows, cols);
    if (!t)
        return infq_err_set(err, INFQ_E_FORMAT, "%s.weight_scale is missing", r->module);
    r->w->codec.scale = r->g->kind == INFQ_CT_MXFP4 && t->dtype == INFQ_DTYPE_U8 ? INFQ_ELEM_E8M0 : infq_elem_of_dtype(t->dtype);
    if (r->g->kind == INFQ_CT_NVFP4 ? r->w->codec.scale != INFQ_ELEM_E4M3
        : r->g->kind == INFQ_CT_MXFP4 ? r->w->codec.scale != INFQ_ELEM_E8M0
        : r->w->codec.scale != INFQ_ELEM_F32 && r->w->codec.scale != INFQ_ELEM_BF16 && r->w->codec.scale != INFQ_ELEM_F16)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: dtype %s is no scale of this format", t->name, infq_dtype_name(t->dtype));
    // A single scale may be written [], [1] or [1, 1].
    if (*rows * *cols == 1 ? t->n_elems != 1 : t->n_dims != 2 || t->shape[0] != *rows || t->shape[1] != *cols)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: shape does not fit, expected [%lld, %lld]", t->name, (long long)*rows,
                            (long long)*cols);
    r->w->scales.data = infq_checkpoint_data(r->ck, t);
    r->w->scales.row_bytes = (size_t)*cols * (size_t)infq_elem_bits(r->w->codec.scale) / 8;
    return INFQ_E_OK;
}

// A packed zero point: every column is one stream of b-bit values along the rows.
static infq_status read_packed_zeros(const reading *r, int64_t rows, int64_t cols, infq_err *err)
{
    const infq_ck_tensor *t;
    int bits = r->g->bits;
    int64_t per_word = 32 / bits;
    const uint8_t *p;
    uint8_t *z;
    void *mem;

    if (rows == 1 && r->w->codec.group_rows == 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: zero point of a whole tensor is not supported", r->module);
    INFQ_TRY(need(r, "weight_zero_point", INFQ_DTYPE_I32, ceil_div(rows * bits, 32), cols, &t, err));
    INFQ_TRY(infq_arena_alloc(r->a, (size_t)rows, (size_t)cols, "zero points", &mem, err));
    z = mem;
    p = infq_checkpoint_data(r->ck, t);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t c = 0; c < cols; c++) {
            uint32_t word = infq_load_u32le(p + 4 * ((row / per_word) * cols + c));
            z[row * cols + c] = (uint8_t)(word >> (row % per_word * bits) & ((1u << bits) - 1));
        }
    r->w->codec.zero = INFQ_ZERO_INT;
    r->w->zeros = (infq_view){z, (size_t)cols};
    return INFQ_E_OK;
}

// Unpacked zero points are I8 in the units of I8 codes: kept as floats, which hold them exactly.
static infq_status read_plain_zeros(const reading *r, int64_t rows, int64_t cols, infq_err *err)
{
    const infq_ck_tensor *t = part(r, "weight_zero_point");
    const int8_t *p;
    float *z;
    void *mem;

    if (!t)
        return infq_err_set(err, INFQ_E_FORMAT, "%s.weight_zero_point is missing", r->module);
    if (t->dtype != INFQ_DTYPE_I8 || t->n_elems != rows * cols)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: expected I8 [%lld, %lld]", t->name, (long long)rows, (long long)cols);
    INFQ_TRY(infq_arena_alloc(r->a, (size_t)(rows * cols), sizeof(float), "zero points", &mem, err));
    z = mem;
    p = infq_checkpoint_data(r->ck, t);
    for (int64_t i = 0; i < rows * cols; i++)
        z[i] = (float)p[i];
    r->w->codec.zero = INFQ_ZERO_FLOAT;
    r->w->zeros = (infq_view){z, (size_t)cols * sizeof(float)};
    return INFQ_E_OK;
}

// weight_g_idx: group of each column. All -1 means that it was never filled in.
static infq_status read_order(const reading *r, int64_t n_groups, infq_err *err)
{
    const infq_ck_tensor *t = part(r, "weight_g_idx");
    int64_t n = r->w->n_cols, unset = 0;
    const uint8_t *p;
    int32_t *order;
    void *mem;

    if (!t)
        return r->g->act_order ? infq_err_set(err, INFQ_E_FORMAT, "%s.weight_g_idx is missing", r->module) : INFQ_E_OK;
    if (t->dtype != INFQ_DTYPE_I32 || t->n_elems != n)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: expected I32 [%lld]", t->name, (long long)n);
    INFQ_TRY(infq_arena_alloc(r->a, (size_t)n, sizeof(*order), "column order", &mem, err));
    order = mem;
    p = infq_checkpoint_data(r->ck, t);
    for (int64_t c = 0; c < n; c++) {
        order[c] = (int32_t)infq_load_u32le(p + 4 * c);
        unset += order[c] == -1;
    }
    if (unset == n)
        return INFQ_E_OK;
    for (int64_t c = 0; c < n; c++)
        if (order[c] < 0 || order[c] >= n_groups)
            return infq_err_set(err, INFQ_E_FORMAT, "%s: column %lld names group %d of %lld", t->name, (long long)c, order[c],
                                (long long)n_groups);
    r->w->order = order;
    return INFQ_E_OK;
}

static infq_status read_float(const reading *r, const char *suffix, float *out, infq_err *err)
{
    const infq_ck_tensor *t = part(r, suffix);

    if (!t)
        return infq_err_set(err, INFQ_E_FORMAT, "%s.%s is missing", r->module, suffix);
    if (t->n_elems != 1)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: one value expected", t->name);
    INFQ_TRY(infq_dtype_to_f32(t->dtype, infq_checkpoint_data(r->ck, t), 1, out, err));
    if (!isfinite(*out) || *out <= 0.0f)
        return infq_err_set(err, INFQ_E_NUMERIC, "%s: %g is not a positive number", t->name, (double)*out);
    return INFQ_E_OK;
}

static infq_status read_codes(const reading *r, infq_err *err)
{
    const infq_ct_group *g = r->g;
    infq_weight *w = r->w;
    const infq_ck_tensor *t, *shape;

    if (g->kind == INFQ_CT_PACK) {
        shape = part(r, "weight_shape");
        if (!shape || shape->dtype != INFQ_DTYPE_I64 || shape->n_elems != 2)
            return infq_err_set(err, INFQ_E_FORMAT, "%s.weight_shape, two I64, is missing", r->module);
        w->n_rows = (int64_t)infq_load_u64le(infq_checkpoint_data(r->ck, shape));
        w->n_cols = (int64_t)infq_load_u64le((const uint8_t *)infq_checkpoint_data(r->ck, shape) + 8);
        if (w->n_rows < 1 || w->n_cols < 1 || w->n_rows > (int64_t)1 << 40 || w->n_cols > (int64_t)1 << 40)
            return infq_err_set(err, INFQ_E_FORMAT, "%s: [%lld, %lld] is no shape", shape->name, (long long)w->n_rows,
                                (long long)w->n_cols);
        INFQ_TRY(need(r, "weight_packed", INFQ_DTYPE_I32, w->n_rows, ceil_div(w->n_cols * g->bits, 32), &t, err));
        w->codec.elem = g->bits == 2 ? INFQ_ELEM_U2 : g->bits == 4 ? INFQ_ELEM_U4 : INFQ_ELEM_U8;
        w->codes.row_bytes = 4 * (size_t)t->shape[1];
    } else if (g->kind == INFQ_CT_NVFP4 || g->kind == INFQ_CT_MXFP4) {
        INFQ_TRY(need(r, "weight_packed", INFQ_DTYPE_U8, -1, -1, &t, err));
        w->n_rows = t->shape[0];
        w->n_cols = 2 * t->shape[1];
        w->codec.elem = INFQ_ELEM_E2M1;
        w->codes.row_bytes = (size_t)t->shape[1];
    } else {
        INFQ_TRY(need(r, "weight", g->is_float ? INFQ_DTYPE_F8_E4M3 : INFQ_DTYPE_I8, -1, -1, &t, err));
        w->n_rows = t->shape[0];
        w->n_cols = t->shape[1];
        w->codec.elem = g->is_float ? INFQ_ELEM_E4M3 : INFQ_ELEM_I8;
        w->codes.row_bytes = (size_t)t->shape[1];
    }
    w->codes.data = infq_checkpoint_data(r->ck, t);
    return INFQ_E_OK;
}

static infq_status ct_read(const void *state, const infq_checkpoint *ck, const char *module, infq_arena *a,
                           infq_weight *out, infq_err *err)
{
    infq_weight w = {.outer = 1.0f};
    reading r = {.ck = ck, .module = module, .g = infq_ct_config_match(state, module), .a = a, .w = &w};
    int64_t rows, cols;
    float divisor;

    if (!part(&r, "weight_packed") && !part(&r, "weight_scale"))
        return infq_dense_read(ck, module, out, err);
    if (!r.g)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is stored quantized, but quantization_config does not target it", module);
    INFQ_TRY(read_codes(&r, err));
    INFQ_TRY(read_scales(&r, &rows, &cols, err));
    w.codec.act = r.g->act;
    if (!r.g->symmetric)
        INFQ_TRY(r.g->kind == INFQ_CT_PACK ? read_packed_zeros(&r, rows, cols, err) : read_plain_zeros(&r, rows, cols, err));
    if (r.g->strategy == INFQ_CT_GROUP)
        INFQ_TRY(read_order(&r, cols, err));
    if (r.g->kind == INFQ_CT_NVFP4) {
        INFQ_TRY(read_float(&r, "weight_global_scale", &divisor, err));
        w.codec.outer = true;
        w.outer = 1.0f / divisor;
    }
    if (w.codec.act == INFQ_ACT_E4M3_TENSOR)
        INFQ_TRY(read_float(&r, "input_scale", &w.act_scale, err));
    *out = w;
    return INFQ_E_OK;
}

static bool scale_dtype(infq_elem e, infq_dtype *out)
{
    *out = e == INFQ_ELEM_F32 ? INFQ_DTYPE_F32 : e == INFQ_ELEM_F16 ? INFQ_DTYPE_F16 : INFQ_DTYPE_BF16;
    return e == INFQ_ELEM_F32 || e == INFQ_ELEM_F16 || e == INFQ_ELEM_BF16;
}

static bool is_packed(const infq_codec *c)
{
    return c->elem == INFQ_ELEM_U4 || c->elem == INFQ_ELEM_U8;
}

static infq_status ct_layout(const infq_codec *c, int64_t n_rows, int64_t n_cols, infq_layout *out, infq_err *err)
{
    int64_t sr = c->group_rows ? ceil_div(n_rows, c->group_rows) : 1, sc = c->group_cols ? ceil_div(n_cols, c->group_cols) : 1;
    infq_layout l = {0};
    infq_dtype scale;
    int bits = infq_elem_bits(c->elem);
    char what[80];

    if (!scale_dtype(c->scale, &scale) || c->outer || c->group_rows == 0 ||
        (c->group_cols && n_cols % c->group_cols && c->group_rows == 1))
        goto cannot;
    if (is_packed(c) && c->act == INFQ_ACT_NONE && c->group_rows == 1) {
        l.t[l.n++] = (infq_layout_tensor){"weight_packed", INFQ_DTYPE_I32, 2, {n_rows, ceil_div(n_cols * bits, 32)}};
        l.t[l.n++] = (infq_layout_tensor){"weight_scale", scale, 2, {sr, sc}};
        l.t[l.n++] = (infq_layout_tensor){"weight_shape", INFQ_DTYPE_I64, 1, {2, 0}};
        if (c->zero == INFQ_ZERO_INT)
            l.t[l.n++] = (infq_layout_tensor){"weight_zero_point", INFQ_DTYPE_I32, 2, {ceil_div(sr * bits, 32), sc}};
        else if (c->zero != INFQ_ZERO_NONE)
            goto cannot;
    } else if (c->zero == INFQ_ZERO_NONE && ((c->elem == INFQ_ELEM_I8 && c->act == INFQ_ACT_I8_TOKEN && c->group_rows == 1) ||
                                             c->elem == INFQ_ELEM_E4M3)) {
        infq_dtype codes = c->elem == INFQ_ELEM_I8 ? INFQ_DTYPE_I8 : INFQ_DTYPE_F8_E4M3;
        l.t[l.n++] = (infq_layout_tensor){"weight", codes, 2, {n_rows, n_cols}};
        l.t[l.n++] = (infq_layout_tensor){"weight_scale", scale, 2, {sr, sc}};
    } else {
        goto cannot;
    }
    *out = l;
    return INFQ_E_OK;
cannot:
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "compressed-tensors cannot hold a [%lld, %lld] matrix as %s",
                        (long long)n_rows, (long long)n_cols, infq_codec_describe(c, what, sizeof(what)));
}

// A matrix may lie on both sides of a shard's end; what an interrupted run has finished needs no writing.
static infq_status put(infq_folder *to, const char *name, uint64_t offset, const void *p, size_t n, infq_err *err)
{
    size_t shard;
    bool done;

    INFQ_TRY(infq_folder_where(to, name, &shard, &done, err));
    return done ? INFQ_E_OK : infq_folder_write(to, name, offset, p, n, err);
}

// n rows of `tight` bytes each, every row padded with zeros to `stored` bytes in the file.
static infq_status put_rows(infq_folder *to, const char *module, const char *suffix, const infq_view *v, int64_t row0,
                            int64_t n, size_t tight, size_t stored, infq_err *err)
{
    char name[NAME_CAP];
    uint8_t *tmp;
    infq_status st;
    void *mem;

    snprintf(name, sizeof(name), "%s.%s", module, suffix);
    if (v->row_bytes == tight && stored == tight)
        return put(to, name, (uint64_t)row0 * stored, v->data, (size_t)n * tight, err);
    INFQ_TRY(infq_mem_new((size_t)n, stored, name, &mem, err));
    tmp = mem;
    for (int64_t r = 0; r < n; r++) {
        memcpy(tmp + (size_t)r * stored, (const uint8_t *)v->data + (size_t)r * v->row_bytes, tight);
        memset(tmp + (size_t)r * stored + tight, 0, stored - tight);
    }
    st = put(to, name, (uint64_t)row0 * stored, tmp, (size_t)n * stored, err);
    infq_mem_free(tmp);
    return st;
}

// Zero points are packed along the rows, so a part must begin at a whole word: row0 is a multiple of 8.
static infq_status put_zeros(const infq_weight *w, int64_t row0, int64_t cols, const char *module, infq_folder *to, infq_err *err)
{
    int bits = infq_elem_bits(w->codec.elem);
    int64_t per_word = 32 / bits, n_words = ceil_div(w->n_rows, per_word);
    char name[NAME_CAP];
    uint8_t *tmp;
    infq_status st;
    void *mem;

    INFQ_BUG_ON(row0 % per_word);
    snprintf(name, sizeof(name), "%s.weight_zero_point", module);
    INFQ_TRY(infq_mem_new((size_t)n_words, (size_t)cols * 4, name, &mem, err));
    tmp = mem;
    for (int64_t i = 0; i < n_words; i++)
        for (int64_t c = 0; c < cols; c++) {
            uint32_t word = 0;
            for (int64_t k = 0; k < per_word && i * per_word + k < w->n_rows; k++) {
                const uint8_t *row = (const uint8_t *)w->zeros.data + (size_t)(i * per_word + k) * w->zeros.row_bytes;
                word |= (uint32_t)row[c] << (k * bits);
            }
            infq_store_u32le(tmp + 4 * (i * cols + c), word);
        }
    st = put(to, name, (uint64_t)(row0 / per_word) * (uint64_t)cols * 4, tmp, (size_t)(n_words * cols) * 4, err);
    infq_mem_free(tmp);
    return st;
}

static infq_status ct_write(const infq_weight *w, int64_t row0, int64_t n_rows_total, const char *module, infq_folder *to,
                            infq_err *err)
{
    const infq_codec *c = &w->codec;
    size_t tight = infq_codec_row_bytes(c, w->n_cols), scale_tight;
    int64_t sr = infq_weight_scale_rows(w), sc = infq_weight_scale_cols(w);
    bool packed = is_packed(c);
    char name[NAME_CAP];
    uint8_t shape[16];

    scale_tight = (size_t)sc * (size_t)infq_elem_bits(c->scale) / 8;
    INFQ_TRY(put_rows(to, module, packed ? "weight_packed" : "weight", &w->codes, row0, w->n_rows, tight,
                      packed ? (tight + 3) / 4 * 4 : tight, err));
    INFQ_TRY(put_rows(to, module, "weight_scale", &w->scales, row0 / c->group_rows, sr, scale_tight, scale_tight, err));
    if (c->zero == INFQ_ZERO_INT)
        INFQ_TRY(put_zeros(w, row0, sc, module, to, err));
    if (!packed || row0)
        return INFQ_E_OK;
    infq_store_u64le(shape, (uint64_t)n_rows_total);
    infq_store_u64le(shape + 8, (uint64_t)w->n_cols);
    snprintf(name, sizeof(name), "%s.weight_shape", module);
    return put(to, name, 0, shape, sizeof(shape), err);
}

static void act_object(const infq_codec *c, infq_jw *to)
{
    if (c->act == INFQ_ACT_NONE) {
        infq_jw_null(to);
        return;
    }
    infq_jw_obj(to);
    infq_jw_key_i64(to, "num_bits", 8);
    infq_jw_key_str(to, "type", c->act == INFQ_ACT_I8_TOKEN ? "int" : "float");
    infq_jw_key_bool(to, "symmetric", true);
    infq_jw_key_str(to, "strategy", c->act == INFQ_ACT_E4M3_GROUP128 ? "group" : "token");
    if (c->act == INFQ_ACT_E4M3_GROUP128) {
        infq_jw_key_i64(to, "group_size", 128);
    }
    infq_jw_key_bool(to, "dynamic", true);
    infq_jw_end_obj(to);
}

// Loaders refuse members that they do not know, so only what they ask for is written.
static void weights_object(const infq_codec *c, infq_jw *to)
{
    bool block = c->group_rows > 1;

    infq_jw_obj(to);
    infq_jw_key_i64(to, "num_bits", infq_elem_bits(c->elem));
    infq_jw_key_str(to, "type", c->elem == INFQ_ELEM_E4M3 ? "float" : "int");
    infq_jw_key_bool(to, "symmetric", c->zero == INFQ_ZERO_NONE);
    infq_jw_key_str(to, "strategy", block ? "block" : c->group_cols ? "group" : "channel");
    if (block) {
        infq_jw_key(to, "block_structure");
        infq_jw_arr(to);
        infq_jw_i64(to, c->group_rows);
        infq_jw_i64(to, c->group_cols);
        infq_jw_end_arr(to);
    } else if (c->group_cols) {
        infq_jw_key_i64(to, "group_size", c->group_cols);
    }
    infq_jw_key_bool(to, "dynamic", false);
    infq_jw_end_obj(to);
}

static const char *format_name(const infq_codec *c)
{
    return is_packed(c) ? "pack-quantized" : c->elem == INFQ_ELEM_I8 ? "int-quantized" : "float-quantized";
}

static bool alike(const infq_codec *a, const infq_codec *b)
{
    return a->elem == b->elem && a->group_rows == b->group_rows && a->group_cols == b->group_cols && a->zero == b->zero &&
           a->act == b->act;
}

// Modules of one codec; with one codec in the whole model the class name says it all but for embeddings.
static void group_object(const infq_written *w, size_t n, const infq_codec *c, bool only, infq_jw *to)
{
    infq_jw_obj(to);
    infq_jw_key(to, "targets");
    infq_jw_arr(to);
    if (only)
        infq_jw_str(to, "Linear");
    for (size_t i = 0; i < n; i++)
        if (w[i].codec.elem != INFQ_ELEM_NONE && alike(&w[i].codec, c) &&
            (!only || infq_role_of(w[i].module) == INFQ_ROLE_EMBED))
            infq_jw_str(to, w[i].module);
    infq_jw_end_arr(to);
    infq_jw_key(to, "weights");
    weights_object(c, to);
    infq_jw_key(to, "input_activations");
    act_object(c, to);
    infq_jw_key(to, "output_activations");
    infq_jw_null(to);
    if (!only) {
        infq_jw_key_str(to, "format", format_name(c));
    }
    infq_jw_end_obj(to);
}

// Index of the first module with a new codec at or after i; n when there is none.
static size_t next_codec(const infq_written *w, size_t n, size_t i)
{
    for (; i < n; i++) {
        size_t j = 0;
        if (w[i].codec.elem == INFQ_ELEM_NONE)
            continue;
        while (j < i && (w[j].codec.elem == INFQ_ELEM_NONE || !alike(&w[j].codec, &w[i].codec)))
            j++;
        if (j == i)
            return i;
    }
    return n;
}

static infq_status ct_config(const infq_written *w, size_t n, const infq_scheme *s, infq_jw *to, infq_err *err)
{
    size_t first = next_codec(w, n, 0), second = first < n ? next_codec(w, n, first + 1) : n;
    bool only = second == n, head = false;
    char key[32];

    (void)s;
    if (first == n)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "nothing is quantized, so there is no quantization_config to write");
    infq_jw_obj(to);
    infq_jw_key_str(to, "quant_method", "compressed-tensors");
    infq_jw_key_str(to, "format", only ? format_name(&w[first].codec) : "mixed-precision");
    infq_jw_key_str(to, "quantization_status", "compressed");
    infq_jw_key(to, "config_groups");
    infq_jw_obj(to);
    for (size_t i = first, g = 0; i < n; i = next_codec(w, n, i + 1), g++) {
        snprintf(key, sizeof(key), "group_%zu", g);
        infq_jw_key(to, key);
        group_object(w, n, &w[i].codec, only, to);
    }
    infq_jw_end_obj(to);
    infq_jw_key(to, "ignore");
    infq_jw_arr(to);
    for (size_t i = 0; i < n; i++) {
        head |= strcmp(w[i].module, "lm_head") == 0;
        if (w[i].codec.elem == INFQ_ELEM_NONE && infq_role_of(w[i].module) != INFQ_ROLE_EMBED)
            infq_jw_str(to, w[i].module);
    }
    // A tied head is no tensor, yet a Linear of the model.
    if (!head)
        infq_jw_str(to, "lm_head");
    infq_jw_end_arr(to);
    infq_jw_key(to, "kv_cache_scheme");
    infq_jw_null(to);
    infq_jw_end_obj(to);
    return infq_buf_status(to->to, err);
}

static bool ct_expects(const void *state, const char *module)
{
    return infq_ct_config_match(state, module) != NULL;
}

const infq_format infq_format_compressed_tensors = {
    .name = "compressed-tensors",
    .probe = ct_probe,
    .open = ct_open,
    .close = ct_close,
    .read = ct_read,
    .layout = ct_layout,
    .write = ct_write,
    .config = ct_config,
    .expects = ct_expects,
};
