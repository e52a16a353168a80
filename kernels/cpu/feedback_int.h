/* What error feedback and its factor hand to the kernels. */
#ifndef INFQ_KERNELS_CPU_FEEDBACK_INT_H
#define INFQ_KERNELS_CPU_FEEDBACK_INT_H

#include "kernels/cpu/quant_int.h"
#include "lib/backend/prune.h"

#define FEEDBACK_ROWS 32    /* rows a panel */
#define FEEDBACK_FLUSH 64   /* columns whose losses are summed in F32; a multiple of 4 */
#define CHOLESKY_BLOCK 64

typedef struct {
    double loss, sq_err;
    int64_t n_zero; /* sparse: zeros of what was returned */
} feedback_row;

/* factor->r: packed by four columns: for c = 0, 4, .. the rows j = 0 .. c + 3 of columns c .. c + 3, zero at and below the diagonal. */
typedef struct {
    const quant_job *job;       /* x: weights; scales, zeros: the ranges */
    const infq_factor *factor;
    bool plain;                 /* no feedback: only the loss of plain rounding */
    float *t;                   /* moved values or NULL */
    feedback_row *rows;         /* [n_rows] */
    const infq_sparsity *sparsity; /* sparse_panel only, which also takes a job without ranges (n_groups 0) */
    int64_t block;              /* columns whose mask is decided at once, a multiple of 4 */
} feedback_job;

/* Floats of scratch a thread. */
static inline size_t feedback_floats(const quant_job *job)
{
    return (size_t)(3 * job->n_cols + 3 * job->n_groups) * FEEDBACK_ROWS;
}

typedef struct {
    void (*panel)(const feedback_job *f, int64_t row0, int64_t n_live, float *scratch);
    void (*sparse_panel)(const feedback_job *f, int64_t row0, int64_t n_live, float *scratch);
    void (*update)(double *a, int64_t n, int64_t k0, int64_t nk, const double *turned, int64_t i0, int64_t i1);
    void (*solve)(double *a, int64_t n, int64_t k0, int64_t nk, double *turned, int64_t i0, int64_t i1);
} feedback_ops;

extern const feedback_ops infq_feedback_scalar, infq_feedback_avx2, infq_feedback_avx512;
/* That of the present CPU level. */
const feedback_ops *infq_feedback_ops_now(void);

#endif
