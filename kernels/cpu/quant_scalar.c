#include "kernels/cpu/quant_kernel.inc"

#include "kernels/cpu/feedback.inc"
#include "kernels/cpu/prune.inc"

const quant_ops infq_quant_scalar = { quant_rows, convert_to_f32, convert_from_f32 };
const feedback_ops infq_feedback_scalar = { feedback_panel, sparse_panel, cholesky_update, cholesky_solve };
