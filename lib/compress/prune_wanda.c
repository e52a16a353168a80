/* Wanda: the smallest |w_ij| ||X_j||_2 become zero, X_j the j-th channel of the inputs. Sun et al. 2023 (2306.11695); algorithms.md 4.1.
 * docs/methods/prune.md. */
#include <math.h>

#include "lib/base/mem.h"
#include "lib/compress/method_int.h"

infq_status infq_wanda_mask(const infq_method_args *a, const float *x, int64_t n_rows, float *t, infq_err *err)
{
    float *norm;
    infq_status st;
    void *mem;

    if (!a->spec.weight)
        return infq_prune_rows(a->sparsity, NULL, x, n_rows, a->spec.n_cols, t, err);
    INFQ_TRY(infq_mem_new((size_t)a->spec.n_cols, sizeof(float), "norms of channels", &mem, err));
    norm = mem;
    for (int64_t i = 0; i < a->spec.n_cols; i++) // of mean squares: the norms but for a common factor
        norm[i] = sqrtf(a->spec.weight[i]);
    st = infq_prune_rows(a->sparsity, norm, x, n_rows, a->spec.n_cols, t, err);
    infq_mem_free(mem);
    return st;
}

infq_status infq_wanda_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    infq_status st;
    void *t;

    INFQ_TRY(infq_mem_new((size_t)(n_rows * a->spec.n_cols), sizeof(float), "pruned rows", &t, err));
    st = infq_wanda_mask(a, x, n_rows, t, err);
    if (!st)
        st = infq_prune_store(a, x, t, n_rows, out, err);
    infq_mem_free(t);
    return st;
}
