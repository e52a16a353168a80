/* Operations of the reference backend that need no weights (ref_ops.c). They ignore the state, so
 * that any CPU-memory backend may borrow them. */
#ifndef INFQ_KERNELS_REF_REF_INT_H
#define INFQ_KERNELS_REF_REF_INT_H

#include "lib/backend/backend.h"

infq_status infq_ref_rmsnorm(void *state, const infq_norm_args *a, infq_err *err);
infq_status infq_ref_layernorm(void *state, const infq_norm_args *a, infq_err *err);
infq_status infq_ref_rope(void *state, const infq_rope_args *a, infq_err *err);
infq_status infq_ref_attention(void *state, const infq_attention_args *a, infq_err *err);
infq_status infq_ref_kv_store(void *state, const infq_kv_store_args *a, infq_err *err);
infq_status infq_ref_glu(void *state, const infq_glu_args *a, infq_err *err);
infq_status infq_ref_add(void *state, const infq_add_args *a, infq_err *err);
infq_status infq_ref_round(void *state, const infq_round_args *a, infq_err *err);

#endif
