#include "lib/compress/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/backend/search.h"
#include "lib/base/par.h"
#include "lib/base/str.h"

#define WINDOW_BYTES ((size_t)1 << 20) /* of each side that is mapped at a time: less than what quantizing itself holds */
#define PIECE ((int64_t)256 << 10) /* bytes of a copied tensor compared at a time */

infq_verify_options infq_verify_options_default(void)
{
    return (infq_verify_options){.tp = 1};
}

double infq_verify_limit(const infq_codec *c)
{
    return infq_elem_bits(c->elem) >= 8 ? 0.1 : 0.4;
}

// Scales that a module has only one of, 1 where it has none: engines that fuse modules take one for all.
typedef struct {
    float outer, tensor, act;
} whole_scales;

typedef struct {
    const infq_log *log;
    infq_checkpoint *ck, *src;
    infq_reader *reader;
    infq_modules *modules;
    infq_codec *codecs;      // one a module; elem NONE: dense
    whole_scales *whole;     // one a module
    bool *dense_pruned;      // one a module: pruned and stored as plain floats
    cJSON *receipt;          // infq.json or NULL
    infq_pruned of_receipt;
    const infq_pruned *pruned;
    infq_arena *a;           // one module's weight
    infq_verify_report *r;
    float **scratch;         // one a thread
    size_t scratch_floats;
    uint64_t done, total;
} verifying;

#define ADD(v, fail, ...) INFQ_TRY(infq_findings_add(&(v)->r->findings, fail, err, __VA_ARGS__))

// Sums over one part of the rows, and the first thing that is wrong in it.
typedef struct {
    double sq_err, sq_sum;
    int64_t zeros;
    int64_t bad_row, bad_col;
    const char *what;        // NULL: nothing wrong
} part;

typedef struct {
    const verifying *v;
    const infq_weight *w;
    const infq_ck_tensor *src;
    const uint8_t *src_data;
    bool pruned;
    int64_t row0, n_rows, step;
    part *parts;
} row_job;

// Bits of row r behind its last code; ggml blocks have none.
static bool padding_is_zero(const infq_weight *w, int64_t r)
{
    const uint8_t *row = (const uint8_t *)w->codes.data + (size_t)r * w->codes.row_bytes;
    size_t bits = (size_t)infq_elem_bits(w->codec.elem), used = (size_t)w->n_cols * bits, tight = (used + 7) / 8;

    if (bits > 8)
        return true;
    if (used % 8 && row[tight - 1] >> (used % 8))
        return false;
    for (size_t i = tight; i < w->codes.row_bytes; i++)
        if (row[i])
            return false;
    return true;
}

static void check_row(const infq_weight *w, int64_t r, const float *dec, part *p)
{
    int64_t step = w->codec.group_cols > 0 && !w->order ? w->codec.group_cols : w->order ? 1 : w->n_cols, bad;

    if (p->what)
        return;
    p->bad_row = r;
    for (int64_t c = 0; w->codec.scale != INFQ_ELEM_NONE && c < w->n_cols; c += step) {
        float s = infq_weight_scale_at(w, r, c);
        if (!isfinite(s) || s < 0.0f) {
            p->bad_col = c;
            p->what = "has a scale that is negative or not finite";
            return;
        }
    }
    bad = infq_first_nonfinite(dec, w->n_cols);
    if (bad >= 0) {
        p->bad_col = bad;
        p->what = "decodes to a value that is not finite";
    } else if (!padding_is_zero(w, r)) {
        p->bad_col = w->n_cols;
        p->what = "has padding bits that are not zero";
    }
}

static void check_pruned_row(const row_job *j, int64_t r, const float *dec, const float *ref, part *p)
{
    const infq_pruned *d = j->v->pruned;
    bool updated = d->updated || j->w->codec.scale != INFQ_ELEM_NONE;
    int64_t col = 0;
    const char *what = infq_sparsity_check_row(&d->s, updated, dec, ref, j->w->n_cols, &col, &p->zeros);

    if (what && !p->what) {
        p->what = what;
        p->bad_row = r;
        p->bad_col = col;
    }
}

static void row_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const row_job *j = ctx;
    const infq_weight *w = j->w;
    float *dec = j->v->scratch[thread], *ref = dec + w->n_cols;
    size_t row_bytes = j->src ? (size_t)(j->src->n_bytes / (uint64_t)w->n_rows) : 0;

    for (int64_t b = begin; b < end; b++) {
        part p = {0};
        int64_t to = (b + 1) * j->step < j->n_rows ? (b + 1) * j->step : j->n_rows;
        for (int64_t i = b * j->step; i < to; i++) {
            int64_t r = j->row0 + i;
            infq_err err;
            infq_weight_decode_row(w, r, dec);
            check_row(w, r, dec, &p);
            if (j->src && infq_convert_to_f32(j->src->dtype, j->src_data + (size_t)r * row_bytes, w->n_cols, ref, &err))
                continue;
            if (j->pruned)
                check_pruned_row(j, r, dec, j->src ? ref : NULL, &p);
            if (!j->src)
                continue;
            for (int64_t c = 0; c < w->n_cols; c++) {
                double d = (double)dec[c] - (double)ref[c];
                p.sq_err += d * d;
                p.sq_sum += (double)ref[c] * (double)ref[c];
            }
        }
        j->parts[b] = p;
    }
}

// Gives back what was read of the module's tensors and of its source.
static void drop_rows(const verifying *v, const infq_ck_tensor *codes, const infq_weight *w, const infq_ck_tensor *src,
                      int64_t row0, int64_t n)
{
    size_t src_row = src ? (size_t)(src->n_bytes / (uint64_t)w->n_rows) : 0;

    infq_checkpoint_drop(v->ck, codes, (uint64_t)row0 * w->codes.row_bytes, (uint64_t)(row0 + n) * w->codes.row_bytes);
    if (src)
        infq_checkpoint_drop(v->src, src, (uint64_t)row0 * src_row, (uint64_t)(row0 + n) * src_row);
}

static infq_status compare_rows(verifying *v, const infq_module *m, const infq_weight *w, const infq_ck_tensor *src, part *sum,
                                bool pruned, infq_err *err)
{
    const infq_ck_tensor *codes = infq_checkpoint_get(v->ck, m->tensor);
    int64_t window = (int64_t)(WINDOW_BYTES / sizeof(uint16_t)) / w->n_cols, n_parts;
    row_job j = {.v = v, .w = w, .src = src, .pruned = pruned, .step = 16};
    void *mem;

    *sum = (part){0};
    window = window < 64 ? 64 : window & ~(int64_t)63; // parts begin at the same rows whatever the window is
    n_parts = (window + j.step - 1) / j.step;
    INFQ_TRY(infq_arena_alloc(v->a, (size_t)n_parts, sizeof(part), "sums", &mem, err));
    j.parts = mem;
    j.src_data = src ? infq_checkpoint_data(v->src, src) : NULL;
    for (j.row0 = 0; j.row0 < w->n_rows; j.row0 += window) {
        int64_t n;
        j.n_rows = w->n_rows - j.row0 < window ? w->n_rows - j.row0 : window;
        n = (j.n_rows + j.step - 1) / j.step;
        infq_par_for(n, 1, row_part, &j);
        for (int64_t b = 0; b < n; b++) {
            sum->sq_err += j.parts[b].sq_err;
            sum->sq_sum += j.parts[b].sq_sum;
            sum->zeros += j.parts[b].zeros;
            if (!sum->what && j.parts[b].what) {
                sum->what = j.parts[b].what;
                sum->bad_row = j.parts[b].bad_row;
                sum->bad_col = j.parts[b].bad_col;
            }
        }
        drop_rows(v, codes, w, src, j.row0, j.n_rows);
    }
    return INFQ_E_OK;
}

// Zeros of a pruned matrix against the ledger, and as a share of the whole.
static infq_status check_zeros(verifying *v, const infq_module *m, const infq_weight *w, const infq_pruned_row *want, int64_t zeros,
                               infq_err *err)
{
    const infq_sparsity *s = &v->pruned->s;

    v->r->n_pruned++;
    v->r->zeros += zeros;
    v->r->pruned_weights += w->n_rows * w->n_cols;
    if (want->zeros >= 0 && zeros != want->zeros)
        ADD(v, true, "%s holds %lld zeros, the ledger says %lld", m->name, (long long)zeros, (long long)want->zeros);
    else if (s->whole && zeros < infq_prune_count(s, w->n_rows * w->n_cols))
        ADD(v, true, "%s holds %lld zeros, fewer than %g of its weights", m->name, (long long)zeros, s->fraction);
    return INFQ_E_OK;
}

// A matrix that is quantized, pruned, or both.
static infq_status check_changed(verifying *v, const infq_module *m, const infq_weight *w, const infq_pruned_row *pruned, infq_err *err)
{
    infq_verify_row *row = &v->r->rows[v->r->n_rows++];
    const infq_ck_tensor *src = NULL;
    char name[600], *copy;
    part sum;

    INFQ_TRY(infq_arena_strdup(v->r->names, m->name, &copy, err));
    *row = (infq_verify_row){copy, w->codec, w->n_rows, w->n_cols, 0.0, pruned ? 1.0 : infq_verify_limit(&w->codec), pruned != NULL, 0};
    if (v->src) {
        snprintf(name, sizeof(name), "%s.weight", m->name);
        src = infq_checkpoint_find(v->src, name);
        if (!src)
            ADD(v, true, "%s is changed here, but the source has no such matrix", m->name);
        else if (src->n_dims != 2 || src->shape[0] != w->n_rows || src->shape[1] != w->n_cols ||
                 infq_elem_of_dtype(src->dtype) == INFQ_ELEM_NONE) {
            ADD(v, true, "%s is [%lld, %lld] here, which does not fit the source", m->name, (long long)w->n_rows,
                (long long)w->n_cols);
            src = NULL;
        }
    }
    INFQ_TRY(compare_rows(v, m, w, src, &sum, pruned != NULL, err));
    if (sum.what)
        ADD(v, true, "%s %s at [%lld, %lld]", m->name, sum.what, (long long)sum.bad_row, (long long)sum.bad_col);
    row->zeros = sum.zeros;
    if (pruned)
        INFQ_TRY(check_zeros(v, m, w, pruned, sum.zeros, err));
    if (!src)
        return INFQ_E_OK;
    row->relative_error = sum.sq_sum > 0.0 ? sqrt(sum.sq_err / sum.sq_sum) : sum.sq_err > 0.0 ? 1.0 : 0.0;
    v->r->worst = row->relative_error > v->r->worst ? row->relative_error : v->r->worst;
    if (!(row->relative_error <= row->limit))
        ADD(v, true, "%s: relative error %.4f is above %.2f", m->name, row->relative_error, row->limit);
    return INFQ_E_OK;
}

// Gives back what was read of all tensors that the module is stored as: its scales are read whole, codes in windows.
static void drop_module(const verifying *v, const infq_module *m)
{
    char name[600];

    for (size_t i = 0; infq_format_parts[i]; i++) {
        const infq_ck_tensor *t = NULL;
        if (snprintf(name, sizeof(name), "%s.%s", m->name, infq_format_parts[i]) < (int)sizeof(name))
            t = infq_checkpoint_find(v->ck, name);
        if (t)
            infq_checkpoint_drop(v->ck, t, 0, t->n_bytes);
    }
}

static const infq_pruned_row *pruned_row(const verifying *v, const infq_module *m)
{
    char name[600];

    snprintf(name, sizeof(name), "%s.weight", m->name);
    return infq_pruned_find(v->pruned, name);
}

static infq_status check_modules(verifying *v, infq_err *err)
{
    for (size_t i = 0; i < infq_modules_count(v->modules); i++) {
        const infq_module *m = infq_modules_get(v->modules, i);
        infq_mark mark = infq_arena_mark(v->a);
        infq_weight w;
        infq_status st;
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted");
        v->whole[i] = (whole_scales){1.0f, 1.0f, 1.0f};
        if (m->n_rows == 0 || m->n_cols == 0)
            continue;
        st = infq_reader_read(v->reader, m->name, v->a, &w, err);
        if (st == INFQ_E_NOMEM)
            return st;
        if (st) {
            infq_err why = *err;
            ADD(v, true, "%s", why.msg);
        } else if (w.codec.scale != INFQ_ELEM_NONE) {
            v->codecs[i] = w.codec;
            v->whole[i].outer = w.outer;
            if (!w.codec.group_rows && !w.codec.group_cols)
                v->whole[i].tensor = infq_weight_scale_at(&w, 0, 0);
            if (w.codec.act == INFQ_ACT_E4M3_TENSOR)
                v->whole[i].act = w.act_scale;
            INFQ_TRY(check_changed(v, m, &w, pruned_row(v, m), err));
        } else if (pruned_row(v, m)) {
            v->dense_pruned[i] = true;
            INFQ_TRY(check_changed(v, m, &w, pruned_row(v, m), err));
        } else if (infq_reader_expects(v->reader, m->name) && m->role != INFQ_ROLE_ROUTER) {
            ADD(v, true, "%s is stored as it was, but quantization_config targets it", m->name);
        }
        drop_module(v, m);
        v->done += infq_checkpoint_get(v->ck, m->tensor)->n_bytes;
        infq_progress(v->log, "verifying", v->done, v->total);
        infq_arena_release(v->a, mark);
    }
    return INFQ_E_OK;
}

// Global scales multiply block scales that were made against them: with another one every value is wrong. Scales of whole
// tensors can be changed by requantizing, which loaders do and which costs precision only.
static infq_status check_fused(verifying *v, infq_err *err)
{
    for (size_t i = 0; i < infq_modules_count(v->modules); i++) {
        const infq_module *m = infq_modules_get(v->modules, i);
        size_t f = m->fused < 0 ? i : (size_t)m->fused;
        const char *first = infq_modules_get(v->modules, f)->name;
        whole_scales a = v->whole[i], b = v->whole[f];
        if (a.outer != b.outer)
            ADD(v, true, "%s and %s have different global scales, but engines fuse them", m->name, first);
        if (a.tensor != b.tensor)
            ADD(v, false, "%s and %s have different scales of the whole tensor; engines that fuse them requantize to the larger",
                m->name, first);
        if (a.act != b.act)
            ADD(v, false, "%s and %s have different input scales; engines that fuse them take the larger", m->name, first);
    }
    return INFQ_E_OK;
}

// Some bytes of a copied tensor, compared in pieces; what[] gets bits a piece.
#define N_PIECES (WINDOW_BYTES / PIECE)
typedef struct {
    const verifying *v;
    const infq_ck_tensor *t;
    const uint8_t *a, *b;    // b NULL: no source
    int64_t n;               // bytes
    uint8_t what[N_PIECES];  // 1: differs, 2: not finite
} copy_job;

static void copy_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    copy_job *j = ctx;
    float *x = j->v->scratch[thread];
    int64_t at = (int64_t)j->v->scratch_floats, width = infq_dtype_bits(j->t->dtype) / 8;
    bool is_float = infq_elem_of_dtype(j->t->dtype) != INFQ_ELEM_NONE;

    for (int64_t i = begin; i < end; i++) {
        int64_t from = i * PIECE, n = j->n - from < PIECE ? j->n - from : PIECE;
        j->what[i] = j->b && memcmp(j->a + from, j->b + from, (size_t)n) ? 1 : 0;
        for (int64_t e = 0; is_float && e < n / width; e += at) {
            int64_t m = n / width - e < at ? n / width - e : at;
            infq_err err;
            if (!infq_convert_to_f32(j->t->dtype, j->a + from + e * width, m, x, &err) && infq_first_nonfinite(x, m) >= 0)
                j->what[i] |= 2;
        }
    }
}

static infq_status check_copy(verifying *v, const infq_ck_tensor *t, const infq_ck_tensor *src, infq_err *err)
{
    const uint8_t *a = infq_checkpoint_data(v->ck, t), *b = src ? infq_checkpoint_data(v->src, src) : NULL;
    copy_job j = {.v = v, .t = t};
    uint8_t all = 0;

    if (src) {
        bool same = src->dtype == t->dtype && src->n_dims == t->n_dims && src->n_bytes == t->n_bytes;
        for (int d = 0; same && d < t->n_dims; d++)
            same = src->shape[d] == t->shape[d];
        if (!same) {
            ADD(v, true, "%s has another dtype or shape than in the source", t->name);
            return INFQ_E_OK;
        }
    }
    for (uint64_t at = 0; at < t->n_bytes; at += WINDOW_BYTES) {
        uint64_t end = t->n_bytes - at < WINDOW_BYTES ? t->n_bytes : at + WINDOW_BYTES;
        j.a = a + at;
        j.b = b ? b + at : NULL;
        j.n = (int64_t)(end - at);
        memset(j.what, 0, sizeof(j.what));
        infq_par_for((j.n + PIECE - 1) / PIECE, 1, copy_part, &j);
        for (size_t i = 0; i < N_PIECES; i++)
            all |= j.what[i];
        infq_checkpoint_drop(v->ck, t, at, end);
        if (src)
            infq_checkpoint_drop(v->src, src, at, end);
    }
    if (all & 1)
        ADD(v, true, "%s differs from the source", t->name);
    if (all & 2)
        ADD(v, false, "%s holds a value that is not finite", t->name);
    v->r->n_copied += src && !(all & 1);
    v->done += t->n_bytes;
    infq_progress(v->log, "verifying", v->done, v->total);
    return INFQ_E_OK;
}

// Index of the quantized or pruned module that a tensor belongs to, -1 if it stands for itself.
static int64_t owner(const verifying *v, const char *tensor)
{
    const char *dot = strrchr(tensor, '.');
    const infq_module *m;
    char name[600];
    int64_t at;

    if (!dot || (size_t)(dot - tensor) >= sizeof(name))
        return -1;
    snprintf(name, sizeof(name), "%.*s", (int)(dot - tensor), tensor);
    m = infq_modules_by_name(v->modules, name);
    if (!m)
        return -1;
    at = m - infq_modules_get(v->modules, 0);
    return v->codecs[at].elem != INFQ_ELEM_NONE || v->dense_pruned[at] ? at : -1;
}

static infq_status check_tensors(verifying *v, infq_err *err)
{
    for (size_t i = 0; i < infq_checkpoint_count(v->ck); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(v->ck, i), *src;
        if (infq_format_is_part(t->name) && owner(v, t->name) >= 0)
            continue;
        src = v->src ? infq_checkpoint_find(v->src, t->name) : NULL;
        if (v->src && !src)
            ADD(v, true, "%s is superfluous: the source has no such tensor", t->name);
        else
            INFQ_TRY(check_copy(v, t, src, err));
    }
    return INFQ_E_OK;
}

static infq_status check_missing(verifying *v, infq_err *err)
{
    bool tied = infq_config_ties_head(infq_checkpoint_config(v->ck));

    for (size_t i = 0; i < infq_checkpoint_count(v->src); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(v->src, i);
        if (infq_checkpoint_find(v->ck, t->name) || (infq_str_ends(t->name, ".weight") && owner(v, t->name) >= 0))
            continue;
        if (tied && infq_str_ends(t->name, "lm_head.weight"))
            continue; // stored once, as the embedding
        ADD(v, true, "%s of the source is missing", t->name);
    }
    return INFQ_E_OK;
}

// Pages are given back as soon as they are compared: a tokenizer's file may be larger than all that quantizing holds.
static bool same_bytes(const infq_filemap *x, const infq_filemap *y)
{
    bool same = x->size == y->size;

    for (size_t at = 0; same && at < x->size; at += WINDOW_BYTES) {
        size_t n = x->size - at < WINDOW_BYTES ? x->size - at : WINDOW_BYTES;
        same = memcmp(x->data + at, y->data + at, n) == 0;
        infq_filemap_drop(x, at, n);
        infq_filemap_drop(y, at, n);
    }
    return same;
}

static infq_status check_side(verifying *v, const char *name, infq_err *err)
{
    char *a = NULL, *b = NULL;
    infq_filemap x = {0}, y = {0};
    infq_status st = infq_path_join(infq_checkpoint_path(v->src), name, &a, err);
    bool equal;

    if (!st)
        st = infq_path_join(infq_checkpoint_path(v->ck), name, &b, err);
    if (!st && !infq_path_exists(b)) {
        st = infq_findings_add(&v->r->findings, true, err, "side file %s is missing", name);
    } else if (!st && !(st = infq_filemap_open(a, &x, err))) {
        st = infq_filemap_open(b, &y, err);
        equal = !st && same_bytes(&x, &y);
        if (!st && !equal)
            st = infq_findings_add(&v->r->findings, true, err, "side file %s differs from the source's", name);
        v->r->n_side += equal;
        infq_filemap_close(&x);
        if (y.data)
            infq_filemap_close(&y);
    }
    infq_mem_free(a);
    infq_mem_free(b);
    return st;
}

static infq_status check_folder(verifying *v, infq_err *err)
{
    const cJSON *a = infq_checkpoint_config(v->src), *b = infq_checkpoint_config(v->ck);
    cJSON *rest = NULL;
    bool equal;

    if (infq_checkpoint_is_bare(v->ck) || infq_checkpoint_is_bare(v->src))
        return INFQ_E_OK;
    for (size_t i = 0; i < infq_checkpoint_side_count(v->src); i++)
        INFQ_TRY(check_side(v, infq_checkpoint_side_name(v->src, i), err));
    if (!a)
        return INFQ_E_OK;
    rest = cJSON_Duplicate(b, true);
    if (b && !rest)
        return infq_err_set(err, INFQ_E_NOMEM, "config.json");
    cJSON_DeleteItemFromObjectCaseSensitive(rest, "quantization_config");
    equal = rest && cJSON_Compare(a, rest, true);
    cJSON_Delete(rest);
    if (!equal)
        ADD(v, true, "config.json differs from the source's beyond quantization_config");
    return INFQ_E_OK;
}

// What a bare file's metadata tell of its pruning.
static infq_status load_metadata(verifying *v, infq_err *err)
{
    for (size_t i = 0; i < infq_checkpoint_meta_count(v->ck); i++) {
        const char *key, *value;
        infq_checkpoint_meta_get(v->ck, i, &key, &value);
        if (strcmp(key, "infq_pruned") == 0)
            return infq_json_parse(value, strlen(value), "metadata infq_pruned", &v->receipt, err);
    }
    return INFQ_E_OK;
}

// infq.json, if there is one that can be read.
static infq_status load_receipt(verifying *v, infq_err *err)
{
    char *name = NULL;
    infq_err quiet;

    if (infq_checkpoint_is_bare(v->ck))
        return load_metadata(v, err);
    INFQ_TRY(infq_path_join(infq_checkpoint_path(v->ck), "infq.json", &name, err));
    if (infq_json_load(name, (size_t)1 << 30, &v->receipt, &quiet))
        v->receipt = NULL;
    infq_mem_free(name);
    return INFQ_E_OK;
}

// The source that infq.json names, if it is still there.
static void source_of_receipt(const verifying *v, char *out, size_t cap)
{
    const cJSON *source = v->receipt ? infq_json_get(v->receipt, "source") : NULL;
    const char *path = NULL;
    infq_err quiet;

    out[0] = '\0';
    if (source && !infq_json_str(source, "path", NULL, &path, &quiet) && path && infq_path_exists(path))
        snprintf(out, cap, "%s", path);
}

static infq_status prepare(verifying *v, const char *path, const infq_verify_options *o, infq_err *err)
{
    int64_t cols = 1;
    size_t n;
    void *mem;

    INFQ_TRY(infq_checkpoint_open(path, v->log, &v->ck, err));
    INFQ_TRY(infq_arena_new((size_t)64 << 10, &v->r->names, err));
    INFQ_TRY(load_receipt(v, err));
    v->pruned = o->pruned ? o->pruned : &v->of_receipt;
    if (!o->pruned && v->receipt && infq_pruned_read(v->receipt, &v->of_receipt, err))
        return infq_err_in(err, "infq.json");
    if (o->source)
        snprintf(v->r->source, sizeof(v->r->source), "%s", o->source);
    else
        source_of_receipt(v, v->r->source, sizeof(v->r->source));
    if (v->r->source[0])
        INFQ_TRY(infq_checkpoint_open(v->r->source, NULL, &v->src, err));
    v->r->with_source = v->src != NULL;
    INFQ_TRY(infq_reader_open(v->ck, &v->reader, err));
    INFQ_TRY(infq_modules_find(v->ck, &v->modules, err));
    INFQ_TRY(infq_arena_new((size_t)64 << 10, &v->a, err));
    n = infq_modules_count(v->modules) + 1;
    v->codecs = infq_mem_calloc(n, sizeof(*v->codecs));
    v->whole = infq_mem_calloc(n, sizeof(*v->whole));
    v->dense_pruned = infq_mem_calloc(n, sizeof(*v->dense_pruned));
    v->r->rows = infq_mem_calloc(n, sizeof(*v->r->rows));
    v->scratch = infq_mem_calloc((size_t)infq_par_threads(), sizeof(*v->scratch));
    if (!v->codecs || !v->whole || !v->dense_pruned || !v->r->rows || !v->scratch)
        return infq_err_set(err, INFQ_E_NOMEM, "verification");
    for (size_t i = 0; i + 1 < n; i++)
        if (infq_modules_get(v->modules, i)->n_cols > cols)
            cols = infq_modules_get(v->modules, i)->n_cols;
    v->scratch_floats = 2 * (size_t)(cols > 4096 ? cols : 4096);
    for (int t = 0; t < infq_par_threads(); t++) {
        INFQ_TRY(infq_mem_new(v->scratch_floats, sizeof(float), "rows being compared", &mem, err));
        v->scratch[t] = mem;
    }
    for (size_t i = 0; i < infq_checkpoint_count(v->ck); i++)
        v->total += infq_checkpoint_get(v->ck, i)->n_bytes;
    return INFQ_E_OK;
}

static infq_status check_all(verifying *v, const infq_verify_options *o, infq_err *err)
{
    if (strcmp(infq_reader_format(v->reader), "dense") == 0 && !v->pruned->n)
        ADD(v, false, "nothing is quantized here (no quantization_config)");
    INFQ_TRY(check_modules(v, err));
    INFQ_TRY(check_fused(v, err));
    INFQ_TRY(check_tensors(v, err));
    if (v->src) {
        INFQ_TRY(check_missing(v, err));
        INFQ_TRY(check_folder(v, err));
    }
    return infq_engine_check(o->engine, o->tp, v->modules, v->codecs, infq_checkpoint_config(v->ck), &v->r->findings, err);
}

uint64_t infq_verify_bytes(size_t n_tensors, uint64_t n_bytes, int64_t n_cols, int threads)
{
    const uint64_t touched = (uint64_t)11 << 19, entry = 2048; // libraries' pages that are needed here first, heap: measured
    uint64_t row = (uint64_t)(n_cols > 4096 ? n_cols : 4096) * sizeof(float);

    // scales are at most a 32nd of the values: as stored, and as floats
    return touched + n_tensors * entry + 2 * WINDOW_BYTES + (uint64_t)threads * 2 * row + 3 * (n_bytes / 32);
}

void infq_verify_report_free(infq_verify_report *r)
{
    if (!r)
        return;
    infq_findings_deinit(&r->findings);
    infq_mem_free(r->rows);
    infq_arena_free(r->names);
    infq_mem_free(r);
}

infq_status infq_verify_run(const char *path, const infq_verify_options *o, const infq_log *log, infq_verify_report **out,
                            infq_err *err)
{
    verifying v = {.log = log, .r = infq_mem_calloc(1, sizeof(infq_verify_report))};
    infq_status st;

    if (!v.r)
        return infq_err_set(err, INFQ_E_NOMEM, "verification");
    st = prepare(&v, path, o, err);
    if (!st)
        st = check_all(&v, o, err);
    for (int t = 0; v.scratch && t < infq_par_threads(); t++)
        infq_mem_free(v.scratch[t]);
    infq_mem_free(v.scratch);
    infq_mem_free(v.whole);
    infq_mem_free(v.dense_pruned);
    infq_mem_free(v.of_receipt.v);
    cJSON_Delete(v.receipt);
    infq_mem_free(v.codecs);
    infq_arena_free(v.a);
    infq_modules_free(v.modules);
    infq_reader_close(v.reader);
    infq_checkpoint_close(v.src);
    infq_checkpoint_close(v.ck);
    if (st) {
        infq_verify_report_free(v.r);
        return st;
    }
    *out = v.r;
    return INFQ_E_OK;
}

void infq_verify_report_json(const infq_verify_report *r, infq_jw *to)
{
    infq_jw_obj(to);
    infq_jw_key_bool(to, "passed", r->findings.n_fail == 0);
    infq_jw_key_bool(to, "compared_with_source", r->with_source);
    infq_jw_key_i64(to, "matrices", (int64_t)r->n_rows);
    if (r->n_pruned) {
        infq_jw_key_i64(to, "pruned_matrices", (int64_t)r->n_pruned);
        infq_jw_key_i64(to, "zeros", r->zeros);
        infq_jw_key_f64(to, "sparsity", (double)r->zeros / (double)r->pruned_weights);
    }
    infq_jw_key_f64(to, "largest_relative_error", r->worst);
    infq_jw_key_i64(to, "tensors_equal", (int64_t)r->n_copied);
    infq_jw_key_i64(to, "side_files_equal", (int64_t)r->n_side);
    infq_jw_key(to, "findings");
    infq_jw_arr(to);
    for (size_t i = 0; i < r->findings.n; i++) {
        infq_jw_obj(to);
        infq_jw_key_bool(to, "fails", r->findings.v[i].fail);
        infq_jw_key_str(to, "text", r->findings.v[i].text);
        infq_jw_end_obj(to);
    }
    infq_jw_end_arr(to);
    infq_jw_end_obj(to);
}
