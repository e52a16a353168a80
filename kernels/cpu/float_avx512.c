#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/simd_avx512.h"

#define FN(name) infq_##name##_avx512
#define PANEL INFQ_PANEL_AVX512
#define NV_MAX 3
#define NR 8

#include "kernels/cpu/math.inc"

#include "kernels/cpu/decode.inc"
#include "kernels/cpu/few.inc"
#include "kernels/cpu/gemm.inc"
#include "kernels/cpu/ops.inc"
