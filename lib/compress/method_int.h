/* Methods that have a file of their own. */
#ifndef INFQ_COMPRESS_METHOD_INT_H
#define INFQ_COMPRESS_METHOD_INT_H

#include "lib/compress/method.h"

infq_status infq_gptq_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);

#endif
