#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/simd_avx2.h"

#define FN(name) infq_##name##_avx2
#define PANEL INFQ_PANEL_AVX2
#define NV_MAX 2
#define NR 6

#include "kernels/cpu/math.inc"

#include "kernels/cpu/decode.inc"
#include "kernels/cpu/few.inc"
#include "kernels/cpu/gemm.inc"
#include "kernels/cpu/ops.inc"
