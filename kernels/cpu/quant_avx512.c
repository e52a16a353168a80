#include "kernels/cpu/quant_kernel.inc"

const quant_ops infq_quant_avx512 = { quant_rows, convert_to_f32, convert_from_f32 };
