#include <string.h>

#include "kernels/cpu/quant_int.h"
#include "lib/base/cpu.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

#define CONVERT_GRAIN (INT64_C(1) << 16) /* elements; less is not worth a second thread */
#define QUANT_GRAIN (INT64_C(1) << 15)

static const quant_ops *ops_now(void)
{
#if defined(__x86_64__)
    infq_cpu_level level = infq_cpu_level_get();

    if (level >= INFQ_CPU_AVX512)
        return &infq_quant_avx512;
    if (level >= INFQ_CPU_AVX2)
        return &infq_quant_avx2;
#endif
    return &infq_quant_scalar;
}

infq_status infq_quant_job_init(const infq_quant_spec *s, int64_t n_rows, quant_job *job, infq_err *err)
{
    const infq_codec *c = &s->codec;
    char name[80];
    bool ok = c->scale == INFQ_ELEM_F32 || c->scale == INFQ_ELEM_F16 || c->scale == INFQ_ELEM_BF16;

    memset(job, 0, sizeof(*job));
    job->codec = *c;
    job->weight = s->weight;
    job->n_rows = n_rows;
    job->n_cols = s->n_cols;
    job->asym = c->zero == INFQ_ZERO_INT;
    job->fp8 = c->elem == INFQ_ELEM_E4M3;
    job->group_rows = c->group_rows > 0 ? c->group_rows : (int32_t)(n_rows > 0 ? n_rows : 1);
    job->group_cols = c->group_cols > 0 ? c->group_cols : (int32_t)s->n_cols;
    if (c->elem == INFQ_ELEM_U4 || c->elem == INFQ_ELEM_U8) {
        float levels = c->elem == INFQ_ELEM_U4 ? 15.0f : 255.0f;
        job->offset = (levels + 1.0f) * 0.5f;
        job->lo = -job->offset;
        job->hi = job->offset - 1.0f;
        job->denom = job->asym ? levels : levels * 0.5f;
    } else if (c->elem == INFQ_ELEM_I8 && !job->asym) {
        job->lo = -127.0f;
        job->hi = 127.0f;
        job->denom = 127.0f;
    } else if (job->fp8) {
        job->denom = 448.0f;
    } else {
        ok = false;
    }
    if (!ok || c->zero == INFQ_ZERO_FLOAT || (job->fp8 && job->asym) || c->outer ||
        (job->asym && job->group_rows > 1))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "no quantizer for %s", infq_codec_describe(c, name, sizeof(name)));
    if (s->n_cols < 1 || s->n_cols > QUANT_MAX_COLS || n_rows > INT32_MAX)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "no quantizer for %lld rows of %lld columns", (long long)n_rows,
                            (long long)s->n_cols);
    // Measured on SmolLM2: 8-bit integers gain nothing from a smaller range; the symmetric limits leave room for the
    // rounding of BF16 scales inside 0.7 .. 15/14 of the plain scale.
    job->search = s->range == INFQ_RANGE_SEARCH && job->group_rows == 1 && (c->elem == INFQ_ELEM_U4 || job->fp8);
    job->given = s->range == INFQ_RANGE_GIVEN;
    job->f_lo = s->weight ? 0.55f : 0.705f; // columns that matter little may be cut off
    job->f_hi = job->fp8 || job->asym ? 1.015f : 1.085f;
    job->n_groups = (s->n_cols + job->group_cols - 1) / job->group_cols;
    job->row_bytes = infq_codec_row_bytes(c, s->n_cols);
    job->scale_bytes = (size_t)infq_elem_bits(c->scale) / 8;
    return INFQ_E_OK;
}

static bool by_lane(const quant_job *job)
{
    return !job->given && job->group_rows == 1 && (job->search || job->asym);
}

// Floats of transposed groups (values and importances) and bytes of codes, both multiples of 64 bytes.
static bool scratch_size(const quant_job *job, size_t *n_floats, size_t *n_bytes)
{
    *n_floats = by_lane(job) ? 16 * (size_t)job->group_cols : 0;
    *n_bytes = ((size_t)job->n_cols + 16 + 63) / 64 * 64;
    return infq_mul_size(*n_floats, 2 * sizeof(float), &(size_t){ 0 });
}

size_t infq_quant_scratch_bytes(const infq_quant_spec *s, int64_t n_rows)
{
    quant_job job;
    infq_err err;
    size_t n_floats, n_bytes;

    if (infq_quant_job_init(s, n_rows, &job, &err) || !scratch_size(&job, &n_floats, &n_bytes))
        return 0;
    return (size_t)infq_par_threads() * (2 * sizeof(float) * n_floats + n_bytes) + (size_t)n_rows * sizeof(quant_row);
}

typedef struct {
    const quant_job *job;
    const quant_ops *ops;
    uint8_t *scratch;
    size_t n_floats, n_bytes;
} quant_task;

static void quant_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const quant_task *t = ctx;
    uint8_t *p = t->scratch + (size_t)thread * (2 * sizeof(float) * t->n_floats + t->n_bytes);
    quant_scratch s = { (float *)(void *)p, (float *)(void *)p + t->n_floats, p + 2 * sizeof(float) * t->n_floats };

    t->ops->rows(t->job, begin, end, &s);
}

// Adds the rows' figures in row order; the first scale that overflowed is the error.
static infq_status collect(const quant_job *job, infq_quant_out *out, infq_err *err)
{
    for (int64_t r = 0; r < job->n_rows; r++)
        if (job->rows[r].bad)
            return infq_err_set(err, INFQ_E_NUMERIC, "the scale of row %lld, group %lld overflows %s", (long long)r,
                                (long long)job->rows[r].bad - 1, infq_elem_name(job->codec.scale));
    for (int64_t r = 0; r < job->n_rows; r++) {
        out->sq_err += job->rows[r].sq_err;
        out->sq_sum += job->rows[r].sq_sum;
        out->n_zero_groups += job->rows[r].n_zero;
        out->n_clipped += job->rows[r].n_clipped;
    }
    return INFQ_E_OK;
}

infq_status infq_quant_rows(const infq_quant_spec *s, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    quant_job job;
    quant_task task = { &job, ops_now(), NULL, 0, 0 };
    int64_t grain;
    infq_status st;
    void *rows = NULL, *scratch = NULL;

    INFQ_TRY(infq_quant_job_init(s, n_rows, &job, err));
    if (n_rows <= 0)
        return INFQ_E_OK;
    if (!scratch_size(&job, &task.n_floats, &task.n_bytes))
        return infq_err_set(err, INFQ_E_NOMEM, "groups of %d columns overflow", (int)job.group_cols);
    st = infq_mem_new((size_t)n_rows, sizeof(quant_row), "figures of the rows", &rows, err);
    if (st)
        goto done;
    st = infq_mem_new((size_t)infq_par_threads(), 2 * sizeof(float) * task.n_floats + task.n_bytes, "quantizer scratch",
                      &scratch, err);
    if (st)
        goto done;
    memset(rows, 0, (size_t)n_rows * sizeof(quant_row));
    job.x = x;
    job.codes = out->codes;
    job.scales = out->scales;
    job.zeros = out->zeros;
    job.rows = rows;
    task.scratch = scratch;
    grain = (QUANT_GRAIN + s->n_cols - 1) / s->n_cols;
    grain = (grain + job.group_rows - 1) / job.group_rows * job.group_rows;
    infq_par_for(n_rows, grain, quant_part, &task);
    st = collect(&job, out, err);
done:
    infq_mem_free(scratch);
    infq_mem_free(rows);
    return st;
}

typedef struct {
    const quant_ops *ops;
    infq_dtype type;
    const uint8_t *src;
    uint8_t *dst;
    size_t src_bytes, dst_bytes; /* an element */
} convert_task;

static void to_f32_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const convert_task *t = ctx;
    const void *src = t->src + (size_t)begin * t->src_bytes;
    float *dst = (float *)(void *)t->dst + begin;
    infq_err err;

    (void)thread;
    if (!t->ops->to_f32(t->type, src, end - begin, dst))
        INFQ_BUG_ON(infq_dtype_to_f32(t->type, src, end - begin, dst, &err));
}

static void from_f32_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const convert_task *t = ctx;
    const float *src = (const float *)(const void *)t->src + begin;
    void *dst = t->dst + (size_t)begin * t->dst_bytes;
    infq_err err;

    (void)thread;
    if (!t->ops->from_f32(t->type, src, end - begin, dst))
        INFQ_BUG_ON(infq_dtype_from_f32(t->type, src, end - begin, dst, &err));
}

infq_status infq_convert_to_f32(infq_dtype t, const void *src, int64_t n, float *dst, infq_err *err)
{
    convert_task task = { ops_now(), t, src, (uint8_t *)dst, (size_t)infq_dtype_bits(t) / 8, sizeof(float) };

    if (!infq_dtype_is_float(t))
        return infq_dtype_to_f32(t, src, n, dst, err);  // says what it cannot read
    infq_par_for(n, CONVERT_GRAIN, to_f32_part, &task);
    return INFQ_E_OK;
}

infq_status infq_convert_from_f32(infq_dtype t, const float *src, int64_t n, void *dst, infq_err *err)
{
    convert_task task = { ops_now(), t, (const uint8_t *)src, dst, sizeof(float), (size_t)infq_dtype_bits(t) / 8 };

    if (!infq_dtype_is_float(t))
        return infq_dtype_from_f32(t, src, n, dst, err);
    infq_par_for(n, CONVERT_GRAIN, from_f32_part, &task);
    return INFQ_E_OK;
}
