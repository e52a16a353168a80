#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/eval/diagnose_int.h"
#include "lib/format/format.h"

/* A part as both files have it. */
typedef struct {
    infq_weight w[2];
    float *vector[2], *bias[2];
    int64_t n_bias;
    bool matrix;
} stored;

/* Codes at the end of a range: the largest one, and the smallest. Elements without such an end (dense floats, ggml blocks): false. */
static bool range_of(const infq_codec *c, int32_t *lo, int32_t *hi, double *half_step)
{
    *half_step = 0.5; // in units of the scale
    switch (c->elem) {
    case INFQ_ELEM_U2:
    case INFQ_ELEM_U3:
    case INFQ_ELEM_U4:
    case INFQ_ELEM_U8:
        *lo = 0;
        *hi = (1 << infq_elem_bits(c->elem)) - 1;
        return true;
    case INFQ_ELEM_I8:
        *lo = -127;
        *hi = 127;
        return true;
    case INFQ_ELEM_E4M3:
        if (c->scale == INFQ_ELEM_NONE)
            return false;
        *lo = 0xfe;
        *hi = 0x7e;
        *half_step = 16; // between 448 and what would be the next, 480
        return true;
    case INFQ_ELEM_E2M1:
        *lo = 15;
        *hi = 7;
        *half_step = 1;
        return true;
    default:
        return false;
    }
}

/* Whether w lies beyond what its group can hold: the code is the last one and the error more than half a step. A twentieth of a step more is left
 * to the scale's own rounding, which moves the end of the range. */
static bool is_clipped(const infq_weight *q, int64_t r, int64_t c, double w, double got)
{
    int32_t lo, hi, code;
    double half, s;

    if (!range_of(&q->codec, &lo, &hi, &half))
        return false;
    s = fabs((double)infq_weight_scale_at(q, r, c)) * fabs((double)q->outer);
    if (!(fabs(w - got) > half * s * 1.1))
        return false;
    code = infq_weight_code_at(q, r, c);
    return q->codec.elem == INFQ_ELEM_I8 ? code <= lo || code >= hi : code == lo || code == hi;
}

typedef struct {
    const stored *s;
    infq_diagnose_part *parts;
    float *rows;             /* [threads][2][widest] */
    int64_t widest;
} compare_job;

static void compare_matrix(const stored *s, infq_diagnose_part *p, float *a, float *b)
{
    int32_t lo, hi;
    double half;
    bool has_range = range_of(&s->w[1].codec, &lo, &hi, &half);

    p->n_clipped = has_range ? 0 : -1;
    for (int64_t r = 0; r < s->w[0].n_rows; r++) {
        infq_weight_decode_row(&s->w[0], r, a);
        infq_weight_decode_row(&s->w[1], r, b);
        for (int64_t c = 0; c < s->w[0].n_cols; c++) {
            double d = (double)a[c] - b[c];
            p->ref2 += (double)a[c] * a[c];
            p->err2 += d * d;
            if (d != 0 && p->column_err2)
                p->column_err2[c] += d * d;
            if (d != 0 && has_range)
                p->n_clipped += is_clipped(&s->w[1], r, c, a[c], b[c]);
        }
    }
}

static void compare_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    compare_job *j = ctx;
    float *a = j->rows + (int64_t)thread * 2 * j->widest;

    for (int64_t i = begin; i < end; i++) {
        const stored *s = &j->s[i];
        infq_diagnose_part *p = &j->parts[i];
        if (s->matrix)
            compare_matrix(s, p, a, a + j->widest);
        for (int64_t k = 0; s->vector[0] && k < p->id.rows; k++) {
            double d = (double)s->vector[0][k] - s->vector[1][k];
            p->err2 += d * d;
            p->ref2 += (double)s->vector[0][k] * s->vector[0][k];
        }
        for (int64_t k = 0; s->bias[0] && k < s->n_bias; k++) {
            double d = (double)s->bias[0][k] - s->bias[1][k];
            p->err2 += d * d;
        }
        p->changed = p->err2 > 0 || (s->matrix && s->w[0].codec.act != s->w[1].codec.act);
    }
}

/* Dense vector of both files; absent in both (a bias): NULL. */
static infq_status read_vector(const infq_reader *const r[2], const char *name, infq_arena *arena, float *out[2], int64_t *n, double bits[2],
                               const infq_checkpoint *const ck[2], infq_err *err)
{
    for (int k = 0; k < 2; k++) {
        const infq_ck_tensor *t = infq_checkpoint_find(ck[k], name);
        int64_t len;
        if (!t)
            continue;
        INFQ_TRY(infq_reader_vector(r[k], name, arena, &out[k], &len, err));
        if (out[0] && k == 1 && len != *n)
            return infq_err_set(err, INFQ_E_MISMATCH, "%s: %lld elements in one model, %lld in the other", name, (long long)*n, (long long)len);
        *n = len;
        bits[k] += (double)len * infq_dtype_bits(t->dtype);
    }
    if (!out[0] != !out[1]) // zeros that one writer stores (config.c lets no others pass)
        out[0] = out[1] = NULL;
    return 0;
}

static infq_status read_part(const infq_reader *const r[2], const infq_checkpoint *const ck[2], infq_arena *arena, stored *s,
                             infq_diagnose_part *p, infq_err *err)
{
    double bits[2] = {0, 0};
    char name[256];
    int64_t n = 0;

    s->matrix = p->id.cols > 0;
    p->n_clipped = -1;
    p->params = p->id.rows * (s->matrix ? p->id.cols : 1);
    if (s->matrix) {
        for (int k = 0; k < 2; k++) {
            INFQ_TRY(infq_reader_read(r[k], p->id.module, arena, &s->w[k], err));
            bits[k] = infq_weight_bits(&s->w[k]);
        }
        if (s->w[0].n_rows != s->w[1].n_rows || s->w[0].n_cols != s->w[1].n_cols)
            return infq_err_set(err, INFQ_E_MISMATCH, "%s: stored in two shapes", p->id.module);
        if (s->w[1].codec.act == INFQ_ACT_E4M3_TENSOR)
            p->act_limit = 448 * s->w[1].act_scale;
    } else {
        infq_buf full;
        infq_status st;
        infq_buf_init(&full);
        infq_buf_fmt(&full, "%s.weight", p->id.module);
        st = infq_buf_status(&full, err);
        if (!st)
            st = read_vector(r, full.data, arena, s->vector, &n, bits, ck, err);
        infq_buf_deinit(&full);
        INFQ_TRY(st);
    }
    if (snprintf(name, sizeof(name), "%s.bias", p->id.module) < (int)sizeof(name))
        INFQ_TRY(read_vector(r, name, arena, s->bias, &s->n_bias, bits, ck, err));
    p->params += s->bias[0] ? s->n_bias : 0;
    p->bits_p = bits[0];
    p->bits_q = bits[1];
    // Conv1D: rows are the input channels; such matrices are stored dense, and what changed of them is told without channels
    if (!s->matrix || p->id.conv1d)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)p->id.cols, sizeof(double), "channels", (void **)&p->column_err2, err));
    INFQ_TRY(infq_mem_new((size_t)p->id.cols, sizeof(double), "channels", (void **)&p->input2, err));
    memset(p->column_err2, 0, (size_t)p->id.cols * sizeof(double));
    memset(p->input2, 0, (size_t)p->id.cols * sizeof(double));
    return 0;
}

static infq_status compare_all(const stored *s, infq_diagnose_part *parts, int64_t n, infq_err *err)
{
    compare_job j = {s, parts, NULL, 1};
    size_t floats;

    for (int64_t i = 0; i < n; i++)
        if (s[i].matrix && s[i].w[0].n_cols > j.widest)
            j.widest = s[i].w[0].n_cols;
    if (!infq_mul_size((size_t)j.widest, 2 * (size_t)infq_par_threads(), &floats))
        return infq_err_set(err, INFQ_E_NOMEM, "rows of %lld columns do not fit in memory", (long long)j.widest);
    INFQ_TRY(infq_mem_new(floats, sizeof(float), "rows", (void **)&j.rows, err));
    infq_par_for(n, 1, compare_part, &j);
    infq_mem_free(j.rows);
    return 0;
}

infq_status infq_diagnose_parts(const infq_model *p, const infq_checkpoint *ck_p, const infq_checkpoint *ck_q, infq_diagnose_part *parts,
                                infq_err *err)
{
    const infq_checkpoint *const ck[2] = {ck_p, ck_q};
    int64_t n = infq_model_part_count(p);
    infq_reader *r[2] = {NULL, NULL};
    infq_arena *arena = NULL;
    stored *s = NULL;
    infq_status st = infq_mem_new((size_t)n, sizeof(*s), "parts", (void **)&s, err);

    if (!st)
        memset(s, 0, (size_t)n * sizeof(*s));
    if (!st)
        st = infq_arena_new((size_t)1 << 16, &arena, err);
    for (int k = 0; k < 2 && !st; k++)
        st = infq_reader_open(ck[k], &r[k], err);
    for (int64_t i = 0; i < n && !st; i++) {
        parts[i].id = infq_model_part_get(p, i);
        st = read_part((const infq_reader *const *)r, ck, arena, &s[i], &parts[i], err);
    }
    if (!st)
        st = compare_all(s, parts, n, err);
    infq_reader_close(r[0]);
    infq_reader_close(r[1]);
    infq_arena_free(arena);
    infq_mem_free(s);
    return st;
}

void infq_diagnose_parts_free(infq_diagnose_part *parts, int64_t n)
{
    for (int64_t i = 0; parts && i < n; i++) {
        infq_mem_free(parts[i].column_err2);
        infq_mem_free(parts[i].input2);
    }
    infq_mem_free(parts);
}
