/* Element types of tensors as safetensors names them, and the scalar codecs of small floats. */
#ifndef INFQ_TENSOR_DTYPE_H
#define INFQ_TENSOR_DTYPE_H

#include <stdint.h>

#include "lib/base/err.h"

/* X(id, safetensors name, bits). Order of the reference enumeration, smallest first (formats.md 1.2):
 * the writer sorts by it. */
#define INFQ_DTYPE_MAP(X)                                                                          \
    X(BOOL, "BOOL", 8)                                                                             \
    X(F4, "F4", 4)                                                                                 \
    X(F6_E2M3, "F6_E2M3", 6)                                                                       \
    X(F6_E3M2, "F6_E3M2", 6)                                                                       \
    X(U8, "U8", 8)                                                                                 \
    X(I8, "I8", 8)                                                                                 \
    X(F8_E5M2, "F8_E5M2", 8)                                                                       \
    X(F8_E4M3, "F8_E4M3", 8)                                                                       \
    X(F8_E8M0, "F8_E8M0", 8)                                                                       \
    X(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8)                                                               \
    X(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8)                                                               \
    X(I16, "I16", 16)                                                                              \
    X(U16, "U16", 16)                                                                              \
    X(F16, "F16", 16)                                                                              \
    X(BF16, "BF16", 16)                                                                            \
    X(I32, "I32", 32)                                                                              \
    X(U32, "U32", 32)                                                                              \
    X(F32, "F32", 32)                                                                              \
    X(C64, "C64", 64)                                                                              \
    X(F64, "F64", 64)                                                                              \
    X(I64, "I64", 64)                                                                              \
    X(U64, "U64", 64)

typedef enum {
#define X(id, name, bits) INFQ_DTYPE_##id,
    INFQ_DTYPE_MAP(X)
#undef X
        INFQ_DTYPE_COUNT
} infq_dtype;

const char *infq_dtype_name(infq_dtype t);
int infq_dtype_bits(infq_dtype t);
/* Case sensitive; false if unknown. */
bool infq_dtype_parse(const char *name, infq_dtype *out);
/* F64 F32 F16 BF16 F8_E4M3 F8_E5M2: types that hold weights as plain floats. */
bool infq_dtype_is_float(infq_dtype t);

/* Scalar codecs. Encoders round to nearest, ties to even. F16 and BF16 overflow to infinity as IEEE
 * does, NaN stays NaN (quiet). The FP8 encoders saturate finite values and infinity at +-448 (57344), NaN
 * stays NaN (0x7f | sign); zero keeps its sign. E2M1: saturates at 6, NaN is undefined (callers refuse
 * it before). E8M0 encode: PyTorch's cast (formats.md 6). Checked against specs/vectors. */
float infq_f16_decode(uint16_t h);
uint16_t infq_f16_encode(float x);
float infq_bf16_decode(uint16_t h);
uint16_t infq_bf16_encode(float x);
float infq_e4m3_decode(uint8_t b);
uint8_t infq_e4m3_encode(float x);
float infq_e5m2_decode(uint8_t b);
uint8_t infq_e5m2_encode(float x);
float infq_e2m1_decode(uint8_t code);   /* low nibble */
uint8_t infq_e2m1_encode(float x);
float infq_e8m0_decode(uint8_t b);
uint8_t infq_e8m0_encode(float x);
float infq_nf4_decode(uint8_t code);

/* Rounds to nearest, ties to even, in the current (default) rounding mode; |x| < 2^31. */
int32_t infq_rne(float x);

/* n elements of a float dtype to or from F32; src and dst need no alignment. Reading also knows F8_E8M0 and F4 (low
 * nibble first). UNSUPPORTED for others.
 * Narrowing F64 rounds to nearest even once. */
infq_status infq_dtype_to_f32(infq_dtype t, const void *src, int64_t n, float *dst, infq_err *err);
infq_status infq_dtype_from_f32(infq_dtype t, const float *src, int64_t n, void *dst, infq_err *err);

/* Index of the first element that is NaN or infinite, -1 if none. */
int64_t infq_first_nonfinite(const float *x, int64_t n);

#endif
