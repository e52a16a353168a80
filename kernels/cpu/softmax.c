/* Contract: lib/backend/softmax.h. */
#include "lib/backend/softmax.h"

#include "kernels/cpu/cpu_int.h"
#include "lib/base/par.h"

typedef struct {
    const float *x;
    int64_t n_cols;
    int32_t *top;
    double *lse;
} rows_job;

static void rows_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const rows_job *j = ctx;
    const infq_cpu_kernels *k = infq_cpu_kernels_get();

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        j->lse[r] = k->logsumexp(j->x + r * j->n_cols, j->n_cols, &j->top[r]);
}

void infq_logsumexp_rows(const float *x, int64_t n_rows, int64_t n_cols, int32_t *top, double *lse)
{
    rows_job j = { x, n_cols, top, lse };

    infq_par_for(n_rows, 1, rows_part, &j);
}
