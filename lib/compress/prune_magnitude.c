/* Magnitude pruning: the smallest |w| become zero. Nothing is measured. docs/methods/prune.md. */
#include "lib/base/mem.h"
#include "lib/compress/method_int.h"

infq_status infq_magnitude_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    infq_status st;
    void *t;

    INFQ_TRY(infq_mem_new((size_t)(n_rows * a->spec.n_cols), sizeof(float), "pruned rows", &t, err));
    st = infq_prune_rows(a->sparsity, NULL, x, n_rows, a->spec.n_cols, t, err);
    if (!st)
        st = infq_prune_store(a, x, t, n_rows, out, err);
    infq_mem_free(t);
    return st;
}
