/* Log-softmax of rows of logits on the host: what scores are made of. */
#ifndef INFQ_BACKEND_SOFTMAX_H
#define INFQ_BACKEND_SOFTMAX_H

#include <stdint.h>

/* For each row x [n_cols] (stride n_cols, n_cols >= 1): top = index of the largest (ties: the lowest), lse = ln sum_i e^x_i as max + ln sum e^(x - max);
 * exponentials in F32 (1 ulp), added in F32 four at a time and then in F64, so the error of lse is below 4e-7. Not finite when a logit is NaN
 * or +infinity. Parallel over rows; a row's bits depend on the row and the CPU level only. */
void infq_logsumexp_rows(const float *x, int64_t n_rows, int64_t n_cols, int32_t *top, double *lse);

#endif
