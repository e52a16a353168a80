/* GPTQ: ranges by weighted search on the original rows (static groups), columns in order of their energy, each value moved by the errors of
 * those before it (lib/backend/moments.h). Frantar et al. 2022; algorithms.md 2.1. docs/methods/gptq.md. */
#include "lib/base/mem.h"
#include "lib/compress/method_int.h"

infq_status infq_gptq_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    infq_quant_spec spec = a->spec;
    infq_feedback_loss loss;
    infq_quant_out first = *out;
    infq_status st;
    void *t;

    if (a->sparsity)
        return infq_gptq_sparse_rows(a, x, n_rows, out, err);
    spec.range = INFQ_RANGE_SEARCH;
    first.sq_err = first.sq_sum = 0.0;
    first.n_zero_groups = first.n_clipped = 0;
    INFQ_TRY(infq_quant_rows(&spec, x, n_rows, &first, err));
    if (!a->factor)
        goto keep;
    INFQ_TRY(infq_mem_new((size_t)(n_rows * spec.n_cols), sizeof(float), "moved rows", &t, err));
    st = infq_feedback_rows(a->factor, &spec, x, n_rows, out, t, &loss, err);
    // Few tokens can make feedback worse than rounding: what is better stays.
    if (!st && loss.feedback < loss.plain) {
        infq_quant_out moved = first;
        moved.n_clipped = 0;
        spec.range = INFQ_RANGE_GIVEN;
        st = infq_quant_rows(&spec, t, n_rows, &moved, err);
        first.n_clipped = moved.n_clipped;
        first.sq_err = loss.sq_err;
    }
    infq_mem_free(t);
    if (st)
        return st;
keep:
    out->sq_err += first.sq_err;
    out->sq_sum += first.sq_sum;
    out->n_zero_groups += first.n_zero_groups;
    out->n_clipped += first.n_clipped;
    return INFQ_E_OK;
}
