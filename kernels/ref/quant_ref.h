/* Plain C truth of infq_quant_rows (lib/backend/search.h): equal bytes and figures, one group after another. */
#ifndef INFQ_KERNELS_REF_QUANT_REF_H
#define INFQ_KERNELS_REF_QUANT_REF_H

#include "lib/backend/search.h"

infq_status infq_quant_rows_ref(const infq_quant_spec *s, const float *x, int64_t n_rows, infq_quant_out *out,
                                infq_err *err);

#endif
