/* Methods that have a file of their own. */
#ifndef INFQ_COMPRESS_METHOD_INT_H
#define INFQ_COMPRESS_METHOD_INT_H

#include "lib/compress/method.h"

infq_status infq_gptq_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
/* Pruned and quantized in one pass: what infq_gptq_rows does when a->sparsity is set. */
infq_status infq_gptq_sparse_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
infq_status infq_magnitude_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
infq_status infq_wanda_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
infq_status infq_sparsegpt_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);

/* Rows x with zeros at the smallest |x_ij| * root of importance_j, or |x_ij| without statistics; t: [n_rows][n_cols]. */
infq_status infq_wanda_mask(const infq_method_args *a, const float *x, int64_t n_rows, float *t, infq_err *err);
/* Stores pruned rows t in the float type of the codec and counts errors against x and zeros; t becomes what was stored. */
infq_status infq_prune_store(const infq_method_args *a, const float *x, float *t, int64_t n_rows, infq_quant_out *out, infq_err *err);

#endif
