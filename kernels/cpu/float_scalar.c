#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/simd_scalar.h"

#define FN(name) infq_##name##_scalar
#define PANEL INFQ_PANEL_SCALAR
#define NV_MAX 8
#define NR 4

#include "kernels/cpu/math.inc"

#include "kernels/cpu/decode.inc"
#include "kernels/cpu/few.inc"
#include "kernels/cpu/gemm.inc"
#include "kernels/cpu/ops.inc"
