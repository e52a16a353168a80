#include "lib/compress/convert.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/backend/search.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/json_edit.h"
#include "lib/base/str.h"
#include "lib/compress/convert_int.h"

bool infq_convert_dtype(const char *text, infq_dtype *out)
{
    static const struct {
        const char *name;
        infq_dtype dtype;
    } t[] = { { "f32", INFQ_DTYPE_F32 },         { "float32", INFQ_DTYPE_F32 }, { "f16", INFQ_DTYPE_F16 },
              { "float16", INFQ_DTYPE_F16 },     { "bf16", INFQ_DTYPE_BF16 },   { "bfloat16", INFQ_DTYPE_BF16 },
              { "f8_e4m3", INFQ_DTYPE_F8_E4M3 }, { "f8_e5m2", INFQ_DTYPE_F8_E5M2 } };

    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
        if (strcasecmp(text, t[i].name) == 0) {
            *out = t[i].dtype;
            return true;
        }
    return false;
}

const char *infq_convert_torch_name(infq_dtype t)
{
    switch (t) {
    case INFQ_DTYPE_F32:
        return "float32";
    case INFQ_DTYPE_F16:
        return "float16";
    case INFQ_DTYPE_F8_E4M3:
        return "float8_e4m3fn";
    case INFQ_DTYPE_F8_E5M2:
        return "float8_e5m2";
    default:
        return "bfloat16";
    }
}

static double largest_finite(infq_dtype t)
{
    // Half-way to the next power of two's first value: from here on rounding gives infinity.
    return t == INFQ_DTYPE_F16 ? 65520.0 : t == INFQ_DTYPE_BF16 ? 0x1.ffp127 : INFINITY;
}

infq_status infq_convert_put(infq_folder *to, const char *name, infq_dtype dtype, const float *x, int64_t first, int64_t n,
                             void *buf, infq_err *err)
{
    size_t width = (size_t)infq_dtype_bits(dtype) / 8;
    bool fp8 = dtype == INFQ_DTYPE_F8_E4M3 || dtype == INFQ_DTYPE_F8_E5M2;
    double limit = largest_finite(dtype);

    for (int64_t i = 0; i < n; i++) {
        if (fp8 && !isfinite(x[i]))
            return infq_err_set(err, INFQ_E_NUMERIC, "%s: element %lld is %s, which %s cannot be made from", name,
                                (long long)(first + i), isnan(x[i]) ? "NaN" : "infinite", infq_dtype_name(dtype));
        if (isfinite(x[i]) && fabs(x[i]) >= limit)
            return infq_err_set(err, INFQ_E_NUMERIC, "%s: element %lld is %g, beyond the range of %s", name,
                                (long long)(first + i), x[i], infq_dtype_name(dtype));
    }
    INFQ_TRY(infq_convert_from_f32(dtype, x, n, buf, err));
    return infq_folder_write(to, name, (uint64_t)first * width, buf, (size_t)n * width, err);
}

infq_status infq_convert_check_space(const infq_folder *f, const char *path, uint64_t extra, infq_err *err)
{
    uint64_t free_bytes, need = infq_folder_total_bytes(f) + extra;

    INFQ_TRY(infq_disk_free(path, &free_bytes, err));
    if (need > free_bytes)
        return infq_err_set(err, INFQ_E_NOSPACE, "%s: not enough disk space: %llu bytes are needed, %llu are free", path,
                            (unsigned long long)need, (unsigned long long)free_bytes);
    return INFQ_E_OK;
}

typedef struct {
    const infq_checkpoint *ck;
    const infq_convert_options *o;
    const infq_log *log;
    infq_reader *reader;     // when dequantizing
    infq_modules *modules;
    infq_folder *to;
    infq_arena *arena;
    float *x;                // INFQ_CONVERT_STEP values, or one row if longer
    void *buf;
    size_t shard;            // being written
    bool writing;
    infq_convert_report rep;
} job;

// The module that this tensor is a part of, if it is stored quantized; its weight in *w.
static const infq_module *quantized_module(job *j, const infq_ck_tensor *t, infq_weight *w, infq_status *st, infq_err *err)
{
    const char *dot = strrchr(t->name, '.');
    const infq_module *m;
    char *base;

    *st = INFQ_E_OK;
    if (!j->reader || !dot || !infq_format_is_part(t->name))
        return NULL;
    base = infq_mem_strndup(t->name, (size_t)(dot - t->name));
    if (!base) {
        *st = infq_err_set(err, INFQ_E_NOMEM, "%s", t->name);
        return NULL;
    }
    m = infq_modules_by_name(j->modules, base);
    infq_mem_free(base);
    if (!m)
        return NULL;
    *st = infq_reader_read(j->reader, m->name, j->arena, w, err);
    return !*st && w->codec.scale != INFQ_ELEM_NONE ? m : NULL;
}

static infq_dtype target(const job *j, const infq_ck_tensor *t)
{
    bool plain = t->dtype == INFQ_DTYPE_F64 || t->dtype == INFQ_DTYPE_F32 || t->dtype == INFQ_DTYPE_F16 ||
                 t->dtype == INFQ_DTYPE_BF16 || t->dtype == INFQ_DTYPE_F8_E4M3 || t->dtype == INFQ_DTYPE_F8_E5M2 ||
                 t->dtype == INFQ_DTYPE_F8_E8M0 || t->dtype == INFQ_DTYPE_F4;

    return j->o->cast && plain ? j->o->dtype : t->dtype;
}

static infq_dtype dense_dtype(const job *j)
{
    return j->o->cast ? j->o->dtype : INFQ_DTYPE_BF16;
}

// First part of a module in checkpoint order stands for the whole.
static bool stands_for(const infq_module *m, const job *j, const infq_ck_tensor *t)
{
    return infq_checkpoint_get(j->ck, m->tensor) == t;
}

static infq_status weight_name(const infq_module *m, infq_buf *out, infq_err *err)
{
    infq_buf_clear(out);
    infq_buf_fmt(out, "%s.weight", m->name);
    return infq_buf_status(out, err);
}

static infq_status declare_all(job *j, infq_err *err)
{
    infq_buf name;
    infq_status st = INFQ_E_OK;

    infq_buf_init(&name);
    for (size_t i = 0; !st && i < infq_checkpoint_count(j->ck); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(j->ck, i);
        infq_mark mark = infq_arena_mark(j->arena);
        infq_weight w;
        const infq_module *m = quantized_module(j, t, &w, &st, err);

        if (!st && m && stands_for(m, j, t)) {
            int64_t shape[2] = { w.n_rows, w.n_cols };
            st = weight_name(m, &name, err);
            if (!st)
                st = infq_folder_declare(j->to, name.data, dense_dtype(j), 2, shape, err);
        } else if (!st && !m)
            st = infq_folder_declare(j->to, t->name, target(j, t), t->n_dims, t->shape, err);
        infq_arena_release(j->arena, mark);
    }
    infq_buf_deinit(&name);
    return st;
}

static infq_status copy_bytes(job *j, const infq_ck_tensor *t, infq_err *err)
{
    const uint64_t step = (uint64_t)8 << 20;
    const uint8_t *src = infq_checkpoint_data(j->ck, t);

    for (uint64_t at = 0; at < t->n_bytes; at += step) {
        uint64_t n = t->n_bytes - at < step ? t->n_bytes - at : step;
        INFQ_TRY(infq_folder_write(j->to, t->name, at, src + at, (size_t)n, err));
        infq_checkpoint_drop(j->ck, t, at, at + n);
    }
    return INFQ_E_OK;
}

// F64 to F32. odd: cut off, with the last bit set when anything was cut: rounding that to a shorter type then gives what rounding
// the F64 once would give. (Nearest twice would take 1 + 2^-9 + 2^-40 for a tie.) Otherwise to nearest. Index of the first finite
// value that becomes infinite, -1 if there is none.
static int64_t narrow_f64(const uint8_t *src, int64_t n, bool odd, float *dst)
{
    int64_t over = -1;

    for (int64_t i = 0; i < n; i++) {
        uint64_t u = infq_load_u64le(src + 8 * i);
        uint32_t bits;
        double d;
        float f;
        memcpy(&d, &u, sizeof(d));
        f = (float)d;
        if (odd && isfinite(d) && !isfinite(f))
            f = d < 0 ? -FLT_MAX : FLT_MAX;
        else if (over < 0 && isfinite(d) && !isfinite(f))
            over = i;
        if (odd && isfinite(f) && (double)f != d) {
            memcpy(&bits, &f, sizeof(bits));
            bits -= fabs((double)f) > fabs(d);
            bits |= 1;
            memcpy(&f, &bits, sizeof(f));
        }
        dst[i] = f;
    }
    return over;
}

static infq_status cast_tensor(job *j, const infq_ck_tensor *t, infq_err *err)
{
    const uint8_t *src = infq_checkpoint_data(j->ck, t);
    uint64_t bits = (uint64_t)infq_dtype_bits(t->dtype); // pieces hold an even number of elements: whole bytes

    for (int64_t at = 0; at < t->n_elems; at += INFQ_CONVERT_STEP) {
        int64_t n = t->n_elems - at < INFQ_CONVERT_STEP ? t->n_elems - at : INFQ_CONVERT_STEP;
        if (t->dtype == INFQ_DTYPE_F64) {
            int64_t over = narrow_f64(src + (uint64_t)at * 8, n, j->o->dtype != INFQ_DTYPE_F32, j->x);
            if (over >= 0)
                return infq_err_set(err, INFQ_E_NUMERIC, "%s: element %lld is beyond the range of F32", t->name,
                                    (long long)(at + over));
        } else {
            INFQ_TRY(infq_convert_to_f32(t->dtype, src + (uint64_t)at * bits / 8, n, j->x, err));
        }
        INFQ_TRY(infq_convert_put(j->to, t->name, j->o->dtype, j->x, at, n, j->buf, err));
        infq_checkpoint_drop(j->ck, t, (uint64_t)at * bits / 8, (uint64_t)(at + n) * bits / 8);
    }
    j->rep.n_cast++;
    return INFQ_E_OK;
}

static infq_status decode_module(job *j, const infq_weight *w, const char *name, infq_err *err)
{
    int64_t rows = INFQ_CONVERT_STEP / w->n_cols;

    if (rows < 1)
        rows = 1;
    for (int64_t r = 0; r < w->n_rows; r += rows) {
        int64_t n = w->n_rows - r < rows ? w->n_rows - r : rows;
        for (int64_t k = 0; k < n; k++)
            infq_weight_decode_row(w, r + k, j->x + k * w->n_cols);
        INFQ_TRY(infq_convert_put(j->to, name, dense_dtype(j), j->x, r * w->n_cols, n * w->n_cols, j->buf, err));
    }
    j->rep.n_decoded++;
    return INFQ_E_OK;
}

static infq_status write_one(job *j, const infq_ck_tensor *t, infq_buf *name, infq_err *err)
{
    infq_mark mark = infq_arena_mark(j->arena);
    infq_status st;
    infq_weight w;
    const infq_module *m = quantized_module(j, t, &w, &st, err);
    size_t shard;
    bool done;

    if (st || (m && !stands_for(m, j, t)))
        goto out;
    if (m)
        st = weight_name(m, name, err);
    if (!st)
        st = infq_folder_where(j->to, m ? name->data : t->name, &shard, &done, err);
    if (st || done)
        goto out;
    if (j->writing && shard != j->shard)
        st = infq_folder_shard_done(j->to, j->shard, err);
    if (st)
        goto out;
    j->writing = true;
    j->shard = shard;
    if (m)
        st = decode_module(j, &w, name->data, err);
    else if (target(j, t) != t->dtype)
        st = cast_tensor(j, t, err);
    else
        st = copy_bytes(j, t, err);
out:
    infq_arena_release(j->arena, mark);
    return st;
}

static infq_status write_all(job *j, infq_err *err)
{
    infq_buf name;
    infq_status st = INFQ_E_OK;
    uint64_t done = 0, total = 0;

    for (size_t i = 0; i < infq_checkpoint_count(j->ck); i++)
        total += infq_checkpoint_get(j->ck, i)->n_bytes;
    infq_buf_init(&name);
    for (size_t i = 0; !st && i < infq_checkpoint_count(j->ck); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(j->ck, i);
        infq_progress(j->log, t->name, done, total);
        if (infq_interrupted)
            st = infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted at %s", t->name);
        else
            st = write_one(j, t, &name, err);
        done += t->n_bytes;
        j->rep.n_tensors++;
    }
    infq_buf_deinit(&name);
    if (!st && j->writing)
        st = infq_folder_shard_done(j->to, j->shard, err);
    return st;
}

static infq_status write_config(job *j, infq_err *err)
{
    const infq_buf *text = infq_checkpoint_config_text(j->ck);
    const cJSON *config = infq_checkpoint_config(j->ck);
    const char *key = config && infq_json_get(config, "dtype") ? "dtype" : "torch_dtype";
    infq_buf a, b;
    infq_status st = INFQ_E_OK;
    char type[32];

    if (!config)
        return INFQ_E_OK;
    infq_buf_init(&a);
    infq_buf_init(&b);
    infq_buf_add(&a, text->data, text->n);
    if (j->o->dequantize) {
        st = infq_json_remove(a.data, a.n, "quantization_config", &b, err);
        infq_buf_clear(&a);
        infq_buf_add(&a, b.data, b.n);
        infq_buf_clear(&b);
    }
    if (!st && (j->o->cast || j->o->dequantize) && infq_json_get(config, key)) {
        snprintf(type, sizeof(type), "\"%s\"", infq_convert_torch_name(dense_dtype(j)));
        st = infq_json_set(a.data, a.n, key, type, &b, err);
        infq_buf_clear(&a);
        infq_buf_add(&a, b.data, b.n);
    }
    if (!st)
        st = infq_buf_status(&a, err);
    if (!st)
        st = infq_folder_put(j->to, "config.json", a.data, a.n, err);
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
    return st;
}

static infq_status copy_sides(job *j, infq_err *err)
{
    for (size_t i = 0; i < infq_checkpoint_side_count(j->ck); i++) {
        const char *name = infq_checkpoint_side_name(j->ck, i);
        char *from = NULL;
        infq_status st;
        INFQ_TRY(infq_path_join(infq_checkpoint_path(j->ck), name, &from, err));
        st = infq_folder_copy(j->to, from, name, err);
        infq_mem_free(from);
        if (st)
            return st;
    }
    return INFQ_E_OK;
}

// Everything that decides the bytes: options, and which files the source is.
static infq_status fingerprint(const job *j, char hex[65], infq_err *err)
{
    infq_buf b;
    infq_status st;

    infq_buf_init(&b);
    infq_buf_fmt(&b, "convert %s %d %d %d %llu\n", INFQ_VERSION, j->o->cast, (int)j->o->dtype, j->o->dequantize,
                 (unsigned long long)j->o->shard_bytes);
    st = infq_checkpoint_identity(j->ck, &b, err);
    if (!st)
        st = infq_sha256_of(b.data, b.n, hex, err);
    infq_buf_deinit(&b);
    return st;
}

static infq_status prepare(job *j, infq_err *err)
{
    infq_folder_options fo;
    infq_reader *probe = NULL;
    int64_t longest = INFQ_CONVERT_STEP;
    void *p;

    INFQ_TRY(infq_reader_open(j->ck, &probe, err));
    if (strcmp(infq_reader_format(probe), "dense") != 0 && (j->o->cast || j->o->dequantize)) {
        if (!j->o->dequantize) {
            infq_status st = infq_err_set(err, INFQ_E_USAGE, "%s is quantized (%s): add --dequantize to change its type",
                                          infq_checkpoint_path(j->ck), infq_reader_format(probe));
            infq_reader_close(probe);
            return st;
        }
        j->reader = probe;
        INFQ_TRY(infq_modules_find(j->ck, &j->modules, err));
        for (size_t i = 0; i < infq_modules_count(j->modules); i++)
            if (infq_modules_get(j->modules, i)->n_cols > longest)
                longest = infq_modules_get(j->modules, i)->n_cols;
    } else
        infq_reader_close(probe);
    INFQ_TRY(infq_arena_new(65536, &j->arena, err));
    INFQ_TRY(infq_mem_new((size_t)longest, sizeof(float), "conversion", &p, err));
    j->x = p;
    INFQ_TRY(infq_mem_new((size_t)longest, sizeof(float), "conversion", &p, err));
    j->buf = p;
    memset(&fo, 0, sizeof(fo));
    fo.path = j->o->out_path;
    fo.source = infq_checkpoint_path(j->ck);
    fo.bare = infq_str_ends(j->o->out_path, ".safetensors");
    fo.force = j->o->force;
    fo.shard_bytes = j->o->shard_bytes;
    INFQ_TRY(fingerprint(j, fo.fingerprint, err));
    return infq_folder_begin(&fo, &j->to, err);
}

static infq_status run(job *j, infq_err *err)
{
    bool bare = infq_str_ends(j->o->out_path, ".safetensors");

    for (size_t i = 0; i < infq_checkpoint_meta_count(j->ck); i++) {
        const char *key, *value;
        infq_checkpoint_meta_get(j->ck, i, &key, &value);
        if (strcmp(key, "format") != 0)
            INFQ_TRY(infq_folder_meta(j->to, key, value, err));
    }
    INFQ_TRY(declare_all(j, err));
    INFQ_TRY(infq_folder_seal(j->to, err));
    INFQ_TRY(infq_convert_check_space(j->to, j->o->out_path, 1 << 20, err));
    INFQ_TRY(write_all(j, err));
    if (!bare) {
        INFQ_TRY(write_config(j, err));
        INFQ_TRY(copy_sides(j, err));
    }
    j->rep.bytes_out = infq_folder_total_bytes(j->to);
    j->rep.n_shards = infq_folder_shard_count(j->to);
    return INFQ_E_OK;
}

infq_status infq_convert_run(const infq_checkpoint *ck, const infq_convert_options *o, const infq_log *log,
                             infq_convert_report *out, infq_err *err)
{
    job j;
    infq_status st;

    memset(&j, 0, sizeof(j));
    j.ck = ck;
    j.o = o;
    j.log = log;
    for (size_t i = 0; i < infq_checkpoint_shard_count(ck); i++)
        j.rep.bytes_in += infq_checkpoint_shard_bytes(ck, i);
    st = infq_str_ends(o->out_path, ".gguf")
             ? infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: GGUF files are read, not written", o->out_path)
             : prepare(&j, err);
    if (!st)
        st = run(&j, err);
    if (!st) {
        infq_folder *to = j.to;
        j.to = NULL;
        st = infq_folder_commit(to, err);
    }
    if (j.to)
        infq_folder_abort(j.to, st == INFQ_E_INTERRUPTED);
    infq_mem_free(j.x);
    infq_mem_free(j.buf);
    infq_arena_free(j.arena);
    infq_modules_free(j.modules);
    infq_reader_close(j.reader);
    if (!st)
        *out = j.rep;
    return st;
}
