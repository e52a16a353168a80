/* One type for every stored matrix: a logical [n_rows = out, n_cols = in] matrix and how it is coded.
 *
 *   value[r][c] = (code[r][c] - zero[g]) * scale[g] * outer,   g = group of (r, c)
 *
 * Readers (lib/format) make weights, methods (lib/compress) change them, writers store them, backends run
 * them. Integer codes of 2 to 8 bits are kept unsigned (q + 2^(bits-1)), as compressed-tensors' packed
 * layout, GPTQ and ggml store them, so that files are mapped without a copy; I8 is two's complement
 * (int-quantized files). docs/design/weight.md says why. */
#ifndef INFQ_TENSOR_WEIGHT_H
#define INFQ_TENSOR_WEIGHT_H

#include "lib/base/arena.h"
#include "lib/tensor/dtype.h"

/* X(id, name, bits an element, elements a block: 1, or the ggml block's) */
#define INFQ_ELEM_MAP(X)                                                                           \
    X(NONE, "none", 0, 1)                                                                          \
    X(F64, "F64", 64, 1)                                                                           \
    X(F32, "F32", 32, 1)                                                                           \
    X(F16, "F16", 16, 1)                                                                           \
    X(BF16, "BF16", 16, 1)                                                                         \
    X(I8, "I8", 8, 1)                                                                              \
    X(U8, "U8", 8, 1)                                                                              \
    X(U4, "U4", 4, 1)                                                                              \
    X(U3, "U3", 3, 1)                                                                              \
    X(U2, "U2", 2, 1)                                                                              \
    X(E4M3, "F8_E4M3", 8, 1)                                                                       \
    X(E5M2, "F8_E5M2", 8, 1)                                                                       \
    X(E2M1, "F4_E2M1", 4, 1)                                                                       \
    X(E8M0, "F8_E8M0", 8, 1)                                                                       \
    X(Q8_0, "Q8_0", 272, 32)                                                                       \
    X(Q4_0, "Q4_0", 144, 32)                                                                       \
    X(Q4_1, "Q4_1", 160, 32)

typedef enum {
#define X(id, name, bits, block) INFQ_ELEM_##id,
    INFQ_ELEM_MAP(X)
#undef X
        INFQ_ELEM_COUNT
} infq_elem;

const char *infq_elem_name(infq_elem e);
int infq_elem_bits(infq_elem e);   /* a block's bits for ggml types */
int infq_elem_block(infq_elem e);  /* elements a block; rows must be a multiple of it */
/* Dense float element of a dtype, NONE if the dtype is not one; and back. */
infq_elem infq_elem_of_dtype(infq_dtype t);
infq_dtype infq_dtype_of_elem(infq_elem e); /* of plain floats only (infq_elem_is_float) */
bool infq_elem_is_float(infq_elem e);  /* F64 F32 F16 BF16 E4M3 E5M2 */

typedef enum {
    INFQ_ZERO_NONE, /* integer codes: the implied midpoint 2^(bits-1) (0 for I8); floats: 0 */
    INFQ_ZERO_INT,  /* stored integer, same offset as the codes: U8 array [groups] */
    INFQ_ZERO_FLOAT /* stored F32, in units of codes */
} infq_zero;

/* What a linear layer does to its input before the product (W8A8 and FP8 schemes). */
typedef enum {
    INFQ_ACT_NONE,
    INFQ_ACT_I8_TOKEN,     /* symmetric, dynamic: s = absmax/127 a row, codes -127..127 */
    INFQ_ACT_E4M3_TOKEN,   /* dynamic: s = absmax/448 a row */
    INFQ_ACT_E4M3_GROUP128,/* dynamic: s = absmax/448 for each 128 columns of a row */
    INFQ_ACT_E4M3_TENSOR   /* static: s = weight.act_scale */
} infq_act;

typedef struct {
    infq_elem elem;
    int32_t group_rows, group_cols; /* what shares a scale; 0 = all. tensor 0x0, channel 1x0, group 1x64, block 128x128 */
    infq_elem scale;                /* F32 F16 BF16 E4M3 E8M0; NONE for dense and ggml blocks */
    infq_zero zero;
    bool outer;                     /* second F32 scale over the whole tensor (NVFP4, as a multiplier) */
    infq_act act;
} infq_codec;

/* Rows lie row_bytes apart; views borrow from the checkpoint, an arena, or the caller. */
typedef struct {
    const void *data;
    size_t row_bytes;
} infq_view;

typedef struct {
    infq_codec codec;
    int64_t n_rows, n_cols;
    infq_view codes;  /* low bits first inside a byte (LSB-first stream a row) */
    infq_view scales; /* [ceil(n_rows/group_rows)][ceil(n_cols/group_cols)] of codec.scale */
    infq_view zeros;  /* same shape: U8 (INT) or F32 (FLOAT) */
    const int32_t *order; /* [n_cols] group of each column, NULL when c / group_cols */
    float outer;      /* 1 unless codec.outer */
    float act_scale;  /* E4M3_TENSOR only */
} infq_weight;

/* Number of scale rows and columns, 0 when there is no scale. */
int64_t infq_weight_scale_rows(const infq_weight *w);
int64_t infq_weight_scale_cols(const infq_weight *w);
/* Tight row size of the codes in bytes: ceil(n_cols * bits / 8), or blocks. */
size_t infq_codec_row_bytes(const infq_codec *c, int64_t n_cols);
/* Stored bits: codes + scales + zeros (+ outer), tight. */
double infq_weight_bits(const infq_weight *w);
/* Dimensions, divisibility, pointers, group sizes make sense; FORMAT says what does not. */
infq_status infq_weight_check(const infq_weight *w, infq_err *err);
/* "W4 sym g64, BF16 scales" into out. */
char *infq_codec_describe(const infq_codec *c, char *out, size_t cap);

/* The truth for every kernel: row r decoded to F32, dst [n_cols]. (code - zero) exact in F32, then one
 * F32 product with the scale (and one with outer). r in 0..n_rows-1. */
void infq_weight_decode_row(const infq_weight *w, int64_t r, float *dst);
/* The scale, zero (in code units) and raw code of one element; for verify and tests. */
float infq_weight_scale_at(const infq_weight *w, int64_t r, int64_t c);
float infq_weight_zero_at(const infq_weight *w, int64_t r, int64_t c);
int32_t infq_weight_code_at(const infq_weight *w, int64_t r, int64_t c);

/* Encodes one row x [n_cols] given scales and zeros already stored in w (rounded to codec.scale): nearest
 * code, ties to even, clamped, into codes (writable, tight row). Scale 0 is refused (NUMERIC), as is a
 * non-finite x. The product with 1/scale is not used: q = rne(x / s). */
infq_status infq_weight_encode_row(const infq_weight *w, int64_t r, const float *x, uint8_t *codes, infq_err *err);

#endif
