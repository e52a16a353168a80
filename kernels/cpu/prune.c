/* Contract: lib/backend/prune.h. */
#include "lib/backend/prune.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/feedback_int.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

#define SHORT 16             /* keys up to here are ranked by comparing all pairs */
#define GRAIN (INT64_C(1) << 15)

int64_t infq_prune_count(const infq_sparsity *s, int64_t n)
{
    return s->m ? n / s->m * (s->m - s->n) : (int64_t)floor(s->fraction * (double)n + 0.5);
}

static void rank_all(const uint32_t *key, int64_t n, int64_t n_drop, uint8_t *keep)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = 0;
        for (int64_t j = 0; j < n; j++)
            rank += key[j] < key[i] || (key[j] == key[i] && j < i);
        keep[i] = rank >= n_drop;
    }
}

// The n_drop-th smallest key, digit by digit of 8 bits; *n_equal: how many keys of that value are dropped.
static uint32_t threshold(const uint32_t *key, int64_t n, int64_t n_drop, int64_t *n_equal)
{
    uint32_t prefix = 0;
    int64_t left = n_drop;

    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t count[256] = { 0 };
        uint32_t mask = shift == 24 ? 0 : ~UINT32_C(0) << (shift + 8), digit = 0;
        for (int64_t i = 0; i < n; i++)
            count[key[i] >> shift & 255] += (key[i] & mask) == prefix;
        while (left > count[digit])
            left -= count[digit++];
        prefix |= digit << shift;
    }
    *n_equal = left;
    return prefix;
}

void infq_prune_choose(const uint32_t *key, int64_t n, int64_t n_drop, uint8_t *keep)
{
    int64_t n_equal;
    uint32_t at;

    if (n_drop <= 0) {
        memset(keep, 1, (size_t)n);
        return;
    }
    if (n <= SHORT) {
        rank_all(key, n, n_drop, keep);
        return;
    }
    at = threshold(key, n, n_drop, &n_equal);
    for (int64_t i = 0; i < n; i++)
        keep[i] = key[i] > at || (key[i] == at && n_equal-- <= 0);
}

typedef struct {
    const infq_sparsity *s;
    const float *scale, *x;
    float *out;
    int64_t n_rows, n_cols;
    uint32_t *key;   // n_cols a thread; whole: n_rows * n_cols
    uint8_t *keep;
} mask_job;

static void keys_of(const mask_job *j, const float *x, uint32_t *key)
{
    for (int64_t c = 0; c < j->n_cols; c++) {
        float score = fabsf(x[c]) * (j->scale ? j->scale[c] : 1.0f);
        memcpy(&key[c], &score, sizeof(score));
    }
}

static void apply(const mask_job *j, const float *x, const uint8_t *keep, float *out)
{
    for (int64_t c = 0; c < j->n_cols; c++)
        out[c] = keep[c] ? x[c] : 0.0f;
}

static void mask_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const mask_job *j = ctx;
    uint32_t *key = j->key + thread * j->n_cols;
    uint8_t *keep = j->keep + thread * j->n_cols;
    int64_t group = j->s->m ? j->s->m : j->n_cols, drop = infq_prune_count(j->s, group);

    for (int64_t r = begin; r < end; r++) {
        keys_of(j, j->x + r * j->n_cols, key);
        for (int64_t c = 0; c < j->n_cols; c += group)
            infq_prune_choose(key + c, group, drop, keep + c);
        apply(j, j->x + r * j->n_cols, keep, j->out + r * j->n_cols);
    }
}

static void whole_keys(void *ctx, int64_t begin, int64_t end, int thread)
{
    const mask_job *j = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        keys_of(j, j->x + r * j->n_cols, j->key + r * j->n_cols);
}

static void whole_apply(void *ctx, int64_t begin, int64_t end, int thread)
{
    const mask_job *j = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        apply(j, j->x + r * j->n_cols, j->keep + r * j->n_cols, j->out + r * j->n_cols);
}

static int64_t n_keys(const infq_sparsity *s, int64_t n_rows, int64_t n_cols)
{
    return n_cols * (s->whole ? n_rows : infq_par_threads());
}

size_t infq_prune_scratch_bytes(const infq_sparsity *s, int64_t n_rows, int64_t n_cols)
{
    return (size_t)n_keys(s, n_rows, n_cols) * (sizeof(uint32_t) + 1);
}

infq_status infq_prune_rows(const infq_sparsity *s, const float *scale, const float *x, int64_t n_rows, int64_t n_cols, float *out,
                            infq_err *err)
{
    mask_job j = { .s = s, .scale = scale, .x = x, .out = out, .n_rows = n_rows, .n_cols = n_cols };
    int64_t n = n_keys(s, n_rows, n_cols), grain = (GRAIN + n_cols - 1) / n_cols;
    void *mem;

    INFQ_BUG_ON(s->m && (n_cols % s->m || s->whole));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(uint32_t) + 1, "scores of weights", &mem, err));
    j.key = mem;
    j.keep = (uint8_t *)(j.key + n);
    if (s->whole) {
        infq_par_for(n_rows, grain, whole_keys, &j);
        infq_prune_choose(j.key, n, infq_prune_count(s, n), j.keep);
        infq_par_for(n_rows, grain, whole_apply, &j);
    } else {
        infq_par_for(n_rows, grain, mask_part, &j);
    }
    infq_mem_free(mem);
    return INFQ_E_OK;
}

/* ---- sparse feedback ---- */

typedef struct {
    const feedback_job *f;
    float *scratch;
} sparse_task;

static size_t sparse_floats(const feedback_job *f)
{
    return feedback_floats(f->job) + 2 * (size_t)f->block * FEEDBACK_ROWS + 2 * (size_t)f->block;
}

static void sparse_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const sparse_task *t = ctx;
    int64_t n_rows = t->f->job->n_rows;

    for (int64_t p = begin; p < end; p++) {
        int64_t row0 = p * FEEDBACK_ROWS, n = n_rows - row0 < FEEDBACK_ROWS ? n_rows - row0 : FEEDBACK_ROWS;
        infq_feedback_ops_now()->sparse_panel(t->f, row0, n, t->scratch + (size_t)thread * sparse_floats(t->f));
    }
}

static void run(feedback_job *f, sparse_task *task, bool plain, float *t, double *loss, int64_t *zeros)
{
    f->plain = plain;
    f->t = t;
    infq_par_for((f->job->n_rows + FEEDBACK_ROWS - 1) / FEEDBACK_ROWS, 1, sparse_part, task);
    *loss = 0.0;
    *zeros = 0;
    for (int64_t r = 0; r < f->job->n_rows; r++) {
        *loss += f->rows[r].loss;
        *zeros += f->rows[r].n_zero;
    }
}

static int64_t block_of(const infq_sparsity *s)
{
    return !s->m ? 128 : s->m % 4 == 0 ? s->m : s->m % 2 == 0 ? 2 * (int64_t)s->m : 4 * (int64_t)s->m;
}

infq_status infq_prune_feedback(const infq_factor *factor, const infq_sparsity *s, const infq_quant_spec *ranges, const infq_quant_out *out,
                                const float *w, int64_t n_rows, float *t, float *plain_t, infq_prune_loss *loss, infq_err *err)
{
    quant_job job = { .n_rows = n_rows, .n_cols = factor->n, .group_rows = 1, .group_cols = 1 };
    feedback_job f = { .job = &job, .factor = factor, .sparsity = s, .block = block_of(s) };
    sparse_task task = { .f = &f };
    void *mem, *rows;
    infq_status st;

    if (ranges) {
        INFQ_TRY(infq_quant_job_init(ranges, n_rows, &job, err));
        job.scales = out->scales;
        job.zeros = out->zeros;
    }
    INFQ_BUG_ON(s->whole || factor->n != job.n_cols || (s->m && job.n_cols % s->m));
    job.x = w;
    INFQ_TRY(infq_mem_new((size_t)infq_par_threads(), sparse_floats(&f) * sizeof(float), "rows under feedback", &mem, err));
    st = infq_mem_new((size_t)n_rows, sizeof(feedback_row), "figures of rows", &rows, err);
    if (!st) {
        task.scratch = mem;
        f.rows = rows;
        run(&f, &task, true, plain_t, &loss->plain, &loss->plain_zeros);
        run(&f, &task, false, t, &loss->feedback, &loss->zeros);
        infq_mem_free(rows);
    }
    infq_mem_free(mem);
    return st;
}
