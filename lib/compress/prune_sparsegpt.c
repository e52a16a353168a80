/* SparseGPT: columns one by one, the errors of pruned weights taken up by the columns behind them (lib/backend/prune.h). Frantar and Alistarh
 * 2023 (2301.00774); algorithms.md 2.1, 4.1. docs/methods/prune.md. */
#include "lib/base/mem.h"
#include "lib/compress/method_int.h"

infq_status infq_sparsegpt_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    int64_t n = n_rows * a->spec.n_cols;
    float *t, *plain;
    infq_prune_loss loss;
    infq_status st;
    void *mem;

    if (!a->factor)
        return infq_wanda_rows(a, x, n_rows, out, err);
    INFQ_TRY(infq_mem_new((size_t)n, 2 * sizeof(float), "pruned rows", &mem, err));
    t = mem;
    plain = t + n;
    st = infq_prune_feedback(a->factor, a->sparsity, NULL, NULL, x, n_rows, t, plain, &loss, err);
    // Few tokens can make feedback worse than a mask alone: what is better stays.
    if (!st)
        st = infq_prune_store(a, x, loss.feedback < loss.plain ? t : plain, n_rows, out, err);
    infq_mem_free(mem);
    return st;
}
