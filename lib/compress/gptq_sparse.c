/* Sparse and quantized in one pass: SparseGPT's masks, with the errors of rounding fed back beside those of pruning (lib/backend/prune.h). Ranges are
 * searched on what pruning alone leaves, so that weights which will be zero do not narrow the range of those that stay. Frantar and Alistarh 2023
 * (2301.00774) 3.4; algorithms.md 4.1. docs/methods/prune.md. */
#include <math.h>

#include "lib/base/mem.h"
#include "lib/compress/method_int.h"

// Errors against x and zeros of what is stored.
static void count(const infq_quant_spec *s, const float *x, int64_t n_rows, const infq_quant_out *codes, float *row, infq_quant_out *out)
{
    infq_weight w = { .codec = s->codec, .n_rows = n_rows, .n_cols = s->n_cols, .outer = 1.0f };

    w.codes = (infq_view){ codes->codes, infq_codec_row_bytes(&s->codec, s->n_cols) };
    w.scales = (infq_view){ codes->scales, (size_t)infq_weight_scale_cols(&w) * (size_t)infq_elem_bits(s->codec.scale) / 8 };
    w.zeros = (infq_view){ codes->zeros, codes->zeros ? (size_t)infq_weight_scale_cols(&w) : 0 };
    for (int64_t r = 0; r < n_rows; r++, x += s->n_cols) {
        infq_weight_decode_row(&w, r, row);
        for (int64_t c = 0; c < s->n_cols; c++) {
            double d = (double)x[c] - (double)row[c];
            out->sq_err += d * d;
            out->sq_sum += (double)x[c] * (double)x[c];
            out->n_zeros += row[c] == 0.0f;
        }
    }
}

// Values t with their zeros, under ranges searched on them; with a factor they are moved once more under these ranges.
static infq_status quantize(const infq_method_args *a, const float *x, int64_t n_rows, float *t, float *plain, infq_quant_out *codes, infq_err *err)
{
    infq_quant_spec spec = a->spec;
    infq_quant_out given;
    infq_prune_loss loss;
    infq_status st;

    spec.range = INFQ_RANGE_SEARCH;
    INFQ_TRY(infq_quant_rows(&spec, t, n_rows, codes, err));
    if (!a->factor)
        return INFQ_E_OK;
    INFQ_TRY(infq_prune_feedback(a->factor, a->sparsity, &spec, codes, x, n_rows, t, plain, &loss, err));
    given = *codes;
    given.n_clipped = 0;
    spec.range = INFQ_RANGE_GIVEN;
    st = infq_quant_rows(&spec, loss.feedback < loss.plain ? t : plain, n_rows, &given, err);
    codes->n_clipped = given.n_clipped;
    return st;
}

infq_status infq_gptq_sparse_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    int64_t n = n_rows * a->spec.n_cols;
    infq_quant_out codes = { .codes = out->codes, .scales = out->scales, .zeros = out->zeros };
    infq_prune_loss loss;
    float *t, *plain;
    infq_status st;
    void *mem;

    INFQ_TRY(infq_mem_new((size_t)n, 2 * sizeof(float), "pruned rows", &mem, err));
    t = mem;
    plain = t + n;
    if (a->factor) {
        st = infq_prune_feedback(a->factor, a->sparsity, NULL, NULL, x, n_rows, t, plain, &loss, err);
        if (!st)
            st = quantize(a, x, n_rows, loss.feedback < loss.plain ? t : plain, loss.feedback < loss.plain ? plain : t, &codes, err);
    } else {
        st = infq_wanda_mask(a, x, n_rows, t, err);
        if (!st)
            st = quantize(a, x, n_rows, t, plain, &codes, err);
    }
    if (!st) {
        count(&a->spec, x, n_rows, &codes, t, out);
        out->n_zero_groups += codes.n_zero_groups;
        out->n_clipped += codes.n_clipped;
    }
    infq_mem_free(mem);
    return st;
}
