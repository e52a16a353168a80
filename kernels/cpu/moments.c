/* Contract: lib/backend/moments.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/feedback_int.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

#define MOMENT_TILE 192  /* columns a tile: one thread's product */
#define MOMENT_ROWS 512  /* tokens summed in F32 */
#define MAX_DAMPING 0.1

const feedback_ops *infq_feedback_ops_now(void)
{
#if defined(__x86_64__)
    infq_cpu_level level = infq_cpu_level_get();

    if (level >= INFQ_CPU_AVX512)
        return &infq_feedback_avx512;
    if (level >= INFQ_CPU_AVX2)
        return &infq_feedback_avx2;
#endif
    return &infq_feedback_scalar;
}

/* ---- second moments ---- */

typedef struct {
    const float *x;
    double *h;
    float *scratch;
    int64_t n_rows, n_cols, n_tiles;
    volatile int failed;
} moment_job;

// Tile number i of the lower triangle, row by row.
static void moment_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    moment_job *m = ctx;
    float *tile = m->scratch + (size_t)thread * MOMENT_TILE * MOMENT_TILE;

    for (int64_t at = begin; at < end; at++) {
        int64_t a = 0, b = at;
        while (b > a)
            b -= ++a;
        int64_t i0 = a * MOMENT_TILE, j0 = b * MOMENT_TILE;
        int64_t ni = m->n_cols - i0 < MOMENT_TILE ? m->n_cols - i0 : MOMENT_TILE;
        int64_t nj = m->n_cols - j0 < MOMENT_TILE ? m->n_cols - j0 : MOMENT_TILE;
        for (int64_t t = 0; t < m->n_rows; t += MOMENT_ROWS) {
            int64_t nt = m->n_rows - t < MOMENT_ROWS ? m->n_rows - t : MOMENT_ROWS;
            const float *x = m->x + t * m->n_cols;
            if (!infq_dnnl_f32_tn(ni, nj, nt, x + i0, m->n_cols, x + j0, m->n_cols, tile, MOMENT_TILE))
                m->failed = 1;
            for (int64_t i = 0; i < ni; i++)
                for (int64_t j = 0; j < nj && j0 + j <= i0 + i; j++)
                    m->h[(i0 + i) * m->n_cols + j0 + j] += (double)tile[i * MOMENT_TILE + j];
        }
    }
}

infq_status infq_moment_add(const float *x, int64_t n_rows, int64_t n_cols, double *h, infq_err *err)
{
    int64_t n = (n_cols + MOMENT_TILE - 1) / MOMENT_TILE;
    moment_job m = { .x = x, .h = h, .n_rows = n_rows, .n_cols = n_cols, .n_tiles = n * (n + 1) / 2 };
    void *mem;

    INFQ_TRY(infq_mem_new((size_t)infq_par_threads(), MOMENT_TILE * MOMENT_TILE * sizeof(float), "a tile", &mem, err));
    m.scratch = mem;
    infq_par_for(m.n_tiles, 1, moment_part, &m);
    infq_mem_free(mem);
    if (m.failed)
        return infq_err_set(err, INFQ_E_DEVICE, "oneDNN refused a product of %lld rows by %lld columns", (long long)n_rows,
                            (long long)n_cols);
    return INFQ_E_OK;
}

int64_t infq_channels_add(const float *x, int64_t n_rows, int64_t n_cols, double *sq, float *absmax)
{
    int64_t bad = -1;

    for (int64_t t = 0; t < n_rows; t++) {
        const float *row = x + t * n_cols;
        float sum = 0.0f;
        for (int64_t c = 0; c < n_cols; c++)
            sum += row[c] * 0.0f; // NaN exactly when one element is not finite
        for (int64_t c = 0; sum != 0.0f && c < n_cols && bad < 0; c++)
            if (!isfinite(row[c]))
                bad = t * n_cols + c;
        for (int64_t c = 0; sq && c < n_cols; c++)
            sq[c] += (double)row[c] * row[c];
        for (int64_t c = 0; absmax && c < n_cols; c++) {
            float a = fabsf(row[c]);
            absmax[c] = a > absmax[c] ? a : absmax[c];
        }
    }
    return bad;
}

/* ---- factor ---- */

typedef struct {
    const feedback_ops *ops;
    double *a, *turned;
    int64_t n, k0, nk, from;
    bool update;
} cholesky_job;

static void cholesky_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const cholesky_job *c = ctx;

    (void)thread;
    if (c->update)
        c->ops->update(c->a, c->n, c->k0, c->nk, c->turned, c->from + begin, c->from + end);
    else
        c->ops->solve(c->a, c->n, c->k0, c->nk, c->turned, c->from + begin, c->from + end);
}

// Lower factor of the block on the diagonal, in place.
static bool diagonal_block(double *a, int64_t n, int64_t k0, int64_t nk)
{
    for (int64_t c = 0; c < nk; c++) {
        double *row = a + (k0 + c) * n + k0;
        for (int64_t j = 0; j <= c; j++) {
            const double *o = a + (k0 + j) * n + k0;
            double s = row[j];
            for (int64_t k = 0; k < j; k++)
                s -= row[k] * o[k];
            if (j < c)
                row[j] = s / o[j];
            else if (!(s > 0.0 && s < INFINITY))
                return false;
            else
                row[j] = sqrt(s);
        }
    }
    return true;
}

// a = L L^T, lower triangle in place; false when a pivot is not positive. turned: [CHOLESKY_BLOCK][n].
static bool cholesky(double *a, int64_t n, double *turned)
{
    cholesky_job c = { .ops = infq_feedback_ops_now(), .a = a, .turned = turned, .n = n };

    for (int64_t k0 = 0; k0 < n; k0 += CHOLESKY_BLOCK) {
        c.k0 = k0;
        c.nk = n - k0 < CHOLESKY_BLOCK ? n - k0 : CHOLESKY_BLOCK;
        c.from = k0 + c.nk;
        if (!diagonal_block(a, n, k0, c.nk))
            return false;
        c.update = false;
        infq_par_for(n - c.from, 16, cholesky_part, &c);
        c.update = true;
        infq_par_for(n - c.from, 16, cholesky_part, &c);
    }
    return true;
}

typedef struct {
    double key, group_key;
    int32_t group, column;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;

    if (x->group_key != y->group_key)
        return x->group_key < y->group_key ? 1 : -1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return x->column < y->column ? -1 : 1;
}

static infq_status make_order(const double *h, int64_t n, infq_order how, int64_t group_cols, int32_t *order, infq_err *err)
{
    void *mem;
    ranked *r;

    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*r), "order of columns", &mem, err));
    r = mem;
    for (int64_t i = 0; i < n; i++) {
        int32_t g = how == INFQ_ORDER_GROUP ? (int32_t)(i / group_cols) : 0;
        r[i] = (ranked){ how == INFQ_ORDER_NATURAL ? 0.0 : h[i * n + i], 0.0, g, (int32_t)i };
    }
    for (int64_t i = 0; how == INFQ_ORDER_GROUP && i < n; i++) {
        int64_t first = r[i].group * group_cols, end = first + group_cols < n ? first + group_cols : n;
        for (int64_t j = first; j < end; j++)
            r[i].group_key = fmax(r[i].group_key, r[j].key);
    }
    qsort(r, (size_t)n, sizeof(*r), by_rank);
    for (int64_t i = 0; i < n; i++)
        order[i] = r[i].column;
    infq_mem_free(mem);
    return INFQ_E_OK;
}

static double lower(const double *h, int64_t n, int64_t i, int64_t j)
{
    return i > j ? h[i * n + j] : h[j * n + i];
}

// R = reversed lower factor of the reversed matrix; packed as feedback_int.h says.
static void pack_factor(const double *l, int64_t n, infq_factor *f)
{
    float *r = f->r;

    for (int64_t i = 0; i < n; i++) {
        double d = l[(n - 1 - i) * n + n - 1 - i];
        f->d[i] = (float)(d * d);
    }
    for (int64_t c = 0; c < n; r += 4 * (c + 4), c += 4)
        for (int64_t j = 0; j < c + 4; j++)
            for (int64_t k = 0; k < 4; k++) {
                int64_t i = c + k, a = n - 1 - j, b = n - 1 - i;
                r[4 * j + k] = i < n && j < i ? (float)(l[a * n + b] / l[b * n + b]) : 0.0f;
            }
}

static size_t packed_floats(int64_t n)
{
    size_t b = (size_t)(n + 3) / 4;

    return 8 * b * (b + 1);
}

void infq_factor_free(infq_factor *f)
{
    infq_mem_free(f->order);
    infq_mem_free(f->r);
    infq_mem_free(f->d);
    *f = (infq_factor){ 0 };
}

static infq_status alloc_factor(int64_t n, infq_factor *f, double **a, double **turned, infq_err *err)
{
    void *p;

    INFQ_TRY(infq_mem_new((size_t)n, sizeof(int32_t), "order of columns", &p, err));
    f->order = p;
    INFQ_TRY(infq_mem_new(packed_floats(n), sizeof(float), "factor", &p, err));
    f->r = p;
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(float), "factor", &p, err));
    f->d = p;
    INFQ_TRY(infq_mem_new((size_t)n * (size_t)n, sizeof(double), "second moments", &p, err));
    *a = p;
    INFQ_TRY(infq_mem_new((size_t)n * CHOLESKY_BLOCK, sizeof(double), "second moments", &p, err));
    *turned = p;
    return INFQ_E_OK;
}

static infq_status factorize(double *h, int64_t n, double damping, infq_factor *f, double *a, double *turned, infq_err *err)
{
    double mean = 0.0;
    int64_t live = 0;

    for (int64_t i = 0; i < n; i++) {
        mean += h[i * n + i];
        live += h[i * n + i] != 0.0;
    }
    if (!isfinite(mean))
        return infq_err_set(err, INFQ_E_NUMERIC, "the inputs' second moments are not finite");
    mean /= live > 0 ? (double)live : 1.0;
    if (mean < 1e-20)
        return infq_err_set(err, INFQ_E_NUMERIC, "the inputs have no energy");
    for (int64_t i = 0; i < n; i++)
        if (h[i * n + i] == 0.0)
            h[i * n + i] = mean;
    for (f->damping = damping;; f->damping = f->damping * 2 > MAX_DAMPING && f->damping < MAX_DAMPING ? MAX_DAMPING : f->damping * 2) {
        if (f->damping > MAX_DAMPING && f->damping > damping)
            return infq_err_set(err, INFQ_E_NUMERIC, "the inputs' second moments are not positive definite, even with damping %g",
                                MAX_DAMPING);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                a[i * n + j] = lower(h, n, f->order[n - 1 - i], f->order[n - 1 - j]) + (i == j ? f->damping * mean : 0.0);
        if (cholesky(a, n, turned))
            return INFQ_E_OK;
    }
}

infq_status infq_factor_make(double *h, int64_t n, double damping, infq_order order, int64_t group_cols, infq_factor *out,
                             infq_err *err)
{
    infq_factor f = { .n = n };
    double *a = NULL, *turned = NULL;
    infq_status st = alloc_factor(n, &f, &a, &turned, err);

    if (!st)
        st = make_order(h, n, order, group_cols > 0 ? group_cols : n, f.order, err);
    if (!st)
        st = factorize(h, n, damping, &f, a, turned, err);
    if (!st)
        pack_factor(a, n, &f);
    infq_mem_free(a);
    infq_mem_free(turned);
    if (st)
        infq_factor_free(&f);
    else
        *out = f;
    return st;
}

/* ---- feedback ---- */

typedef struct {
    const feedback_job *f;
    const feedback_ops *ops;
    float *scratch;
} feedback_task;

static void feedback_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const feedback_task *t = ctx;
    int64_t n_rows = t->f->job->n_rows;
    float *scratch = t->scratch + (size_t)thread * feedback_floats(t->f->job);

    for (int64_t p = begin; p < end; p++) {
        int64_t row0 = p * FEEDBACK_ROWS, n = n_rows - row0 < FEEDBACK_ROWS ? n_rows - row0 : FEEDBACK_ROWS;
        t->ops->panel(t->f, row0, n, scratch);
    }
}

static void sum_rows(const feedback_job *f, double *loss, double *sq_err)
{
    for (int64_t r = 0; r < f->job->n_rows; r++) {
        *loss += f->rows[r].loss;
        *sq_err += f->rows[r].sq_err;
    }
}

infq_status infq_feedback_rows(const infq_factor *f, const infq_quant_spec *s, const float *w, int64_t n_rows,
                               const infq_quant_out *out, float *t, infq_feedback_loss *loss, infq_err *err)
{
    quant_job job;
    feedback_job fj = { .job = &job, .factor = f };
    feedback_task task = { .f = &fj, .ops = infq_feedback_ops_now() };
    int64_t n_panels = (n_rows + FEEDBACK_ROWS - 1) / FEEDBACK_ROWS;
    void *mem, *rows;
    infq_status st;

    INFQ_TRY(infq_quant_job_init(s, n_rows, &job, err));
    INFQ_BUG_ON(f->n != s->n_cols);
    job.x = w;
    job.scales = out->scales;
    job.zeros = out->zeros;
    INFQ_TRY(infq_mem_new((size_t)infq_par_threads(), feedback_floats(&job) * sizeof(float), "rows under feedback", &mem, err));
    st = infq_mem_new((size_t)n_rows, sizeof(feedback_row), "figures of rows", &rows, err);
    if (st) {
        infq_mem_free(mem);
        return st;
    }
    task.scratch = mem;
    fj.rows = rows;
    *loss = (infq_feedback_loss){ 0 };
    fj.plain = true;
    infq_par_for(n_panels, 1, feedback_part, &task);
    sum_rows(&fj, &loss->plain, &loss->plain_sq_err);
    fj.plain = false;
    fj.t = t;
    infq_par_for(n_panels, 1, feedback_part, &task);
    sum_rows(&fj, &loss->feedback, &loss->sq_err);
    infq_mem_free(rows);
    infq_mem_free(mem);
    return INFQ_E_OK;
}
