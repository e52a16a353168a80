#include "lib/tensor/dtype.h"

#include <math.h>
#include <string.h>

#include "lib/base/cursor.h"

static const struct {
    const char *name;
    int bits;
} dtypes[INFQ_DTYPE_COUNT] = {
#define X(id, name, bits) { name, bits },
    INFQ_DTYPE_MAP(X)
#undef X
};

const char *infq_dtype_name(infq_dtype t)
{
    return (unsigned)t < INFQ_DTYPE_COUNT ? dtypes[t].name : "unknown";
}

int infq_dtype_bits(infq_dtype t)
{
    return (unsigned)t < INFQ_DTYPE_COUNT ? dtypes[t].bits : 0;
}

bool infq_dtype_parse(const char *name, infq_dtype *out)
{
    for (int i = 0; i < INFQ_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (infq_dtype)i;
            return true;
        }
    return false;
}

bool infq_dtype_is_float(infq_dtype t)
{
    return t == INFQ_DTYPE_F64 || t == INFQ_DTYPE_F32 || t == INFQ_DTYPE_F16 || t == INFQ_DTYPE_BF16 ||
           t == INFQ_DTYPE_F8_E4M3 || t == INFQ_DTYPE_F8_E5M2;
}

static uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

static float float_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

int32_t infq_rne(float x)
{
    return (int32_t)lrintf(x);
}

// Value of a small float with `man` mantissa bits, no infinity treated: sign aside.
static float small_decode(uint32_t code, int man, int bias)
{
    uint32_t exp = code >> man, frac = code & ((1u << man) - 1);

    if (exp == 0)
        return ldexpf((float)frac, 1 - bias - man);
    return float_of((uint32_t)((int)exp - bias + 127) << 23 | frac << (23 - man));
}

// Code of |x| finite in a format with `man` mantissa bits, nearest, ties to even. Below the smallest normal the sum
// with 2^23 steps rounds to whole steps; above, the carry of the mantissa runs into the exponent as it should.
static uint32_t small_encode(uint32_t mag, int man, int bias)
{
    uint32_t min_normal = (uint32_t)(1 - bias + 127) << 23;
    int cut = 23 - man;

    if (mag < min_normal) {
        uint32_t magic = (uint32_t)(1 - bias - man + 23 + 127) << 23;
        return bits_of(float_of(mag) + float_of(magic)) - magic;
    }
    mag += ((1u << (cut - 1)) - 1) + (mag >> cut & 1);
    return (mag >> cut) - ((uint32_t)(127 - bias) << man);
}

float infq_f16_decode(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;

    if (mag >= 0x7c00)
        return float_of(sign | 0x7f800000 | (mag & 0x3ff) << 13 | (mag > 0x7c00 ? 0x400000 : 0));
    return float_of(sign | bits_of(small_decode(mag, 10, 15)));
}

uint16_t infq_f16_encode(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;

    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x47800000)  // 65536 and more; 65520 and more reach 0x7c00 by the carry
        return (uint16_t)(sign | 0x7c00);
    return (uint16_t)(sign | small_encode(mag, 10, 15));
}

float infq_bf16_decode(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t infq_bf16_encode(float x)
{
    uint32_t u = bits_of(x);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float infq_e4m3_decode(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, mag = b & 0x7f;

    return float_of(sign | (mag == 0x7f ? 0x7fc00000 : bits_of(small_decode(mag, 3, 7))));
}

uint8_t infq_e4m3_encode(float x)
{
    uint32_t u = bits_of(x), sign = u >> 24 & 0x80, mag = u & 0x7fffffff, code;

    if (mag > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    code = mag >= 0x43e00000 ? 0x7e : small_encode(mag, 3, 7);
    return (uint8_t)(sign | code);
}

float infq_e5m2_decode(uint8_t b)
{
    return infq_f16_decode((uint16_t)(b << 8));
}

uint8_t infq_e5m2_encode(float x)
{
    uint32_t u = bits_of(x), sign = u >> 24 & 0x80, mag = u & 0x7fffffff, code;

    if (mag > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    code = mag >= 0x47600000 ? 0x7b : small_encode(mag, 2, 15);
    return (uint8_t)(sign | code);
}

float infq_e2m1_decode(uint8_t code)
{
    static const float table[8] = { 0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f };

    return code & 8 ? -table[code & 7] : table[code & 7];
}

uint8_t infq_e2m1_encode(float x)
{
    uint32_t u = bits_of(x), sign = u >> 28 & 8, mag = u & 0x7fffffff, code;

    code = mag >= 0x40a00000 ? (mag > 0x40a00000 ? 7 : 6) : small_encode(mag, 1, 1);
    return (uint8_t)(sign | code);
}

float infq_e8m0_decode(uint8_t b)
{
    return float_of(b == 0xff ? 0x7fc00000 : b == 0 ? 0x400000 : (uint32_t)b << 23);
}

uint8_t infq_e8m0_encode(float x)
{
    uint32_t mag = bits_of(x) & 0x7fffffff, exp = mag >> 23, frac = mag & 0x7fffff;

    if (exp == 0xff)
        return 0xff;
    // Half goes up but for subnormal inputs, where the "exponent" 0 is already the even one.
    return (uint8_t)(exp + (frac > 0x400000 || (frac == 0x400000 && exp > 0)));
}

float infq_nf4_decode(uint8_t code)
{
    static const uint32_t table[16] = {
        0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0x00000000,
        0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a, 0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000,
    };

    return float_of(table[code & 15]);
}

infq_status infq_dtype_to_f32(infq_dtype t, const void *src, int64_t n, float *dst, infq_err *err)
{
    const uint8_t *p = src;

    switch (t) {
    case INFQ_DTYPE_F64:
        for (int64_t i = 0; i < n; i++) {
            uint64_t u = infq_load_u64le(p + 8 * i);
            double d;
            memcpy(&d, &u, sizeof(d));
            dst[i] = (float)d;
        }
        break;
    case INFQ_DTYPE_F32:
        for (int64_t i = 0; i < n; i++)
            dst[i] = float_of(infq_load_u32le(p + 4 * i));
        break;
    case INFQ_DTYPE_F16:
        for (int64_t i = 0; i < n; i++)
            dst[i] = infq_f16_decode(infq_load_u16le(p + 2 * i));
        break;
    case INFQ_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            dst[i] = infq_bf16_decode(infq_load_u16le(p + 2 * i));
        break;
    case INFQ_DTYPE_F8_E4M3:
        for (int64_t i = 0; i < n; i++)
            dst[i] = infq_e4m3_decode(p[i]);
        break;
    case INFQ_DTYPE_F8_E5M2:
        for (int64_t i = 0; i < n; i++)
            dst[i] = infq_e5m2_decode(p[i]);
        break;
    case INFQ_DTYPE_F8_E8M0:
        for (int64_t i = 0; i < n; i++)
            dst[i] = infq_e8m0_decode(p[i]);
        break;
    case INFQ_DTYPE_F4:
        for (int64_t i = 0; i < n; i++)
            dst[i] = infq_e2m1_decode((uint8_t)(p[i / 2] >> 4 * (i % 2)));
        break;
    default:
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s does not hold floats that can be read as f32",
                            infq_dtype_name(t));
    }
    return INFQ_E_OK;
}

infq_status infq_dtype_from_f32(infq_dtype t, const float *src, int64_t n, void *dst, infq_err *err)
{
    uint8_t *p = dst;

    switch (t) {
    case INFQ_DTYPE_F64:
        for (int64_t i = 0; i < n; i++) {
            double d = src[i];
            uint64_t u;
            memcpy(&u, &d, sizeof(u));
            infq_store_u64le(p + 8 * i, u);
        }
        break;
    case INFQ_DTYPE_F32:
        for (int64_t i = 0; i < n; i++)
            infq_store_u32le(p + 4 * i, bits_of(src[i]));
        break;
    case INFQ_DTYPE_F16:
        for (int64_t i = 0; i < n; i++)
            infq_store_u16le(p + 2 * i, infq_f16_encode(src[i]));
        break;
    case INFQ_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            infq_store_u16le(p + 2 * i, infq_bf16_encode(src[i]));
        break;
    case INFQ_DTYPE_F8_E4M3:
        for (int64_t i = 0; i < n; i++)
            p[i] = infq_e4m3_encode(src[i]);
        break;
    case INFQ_DTYPE_F8_E5M2:
        for (int64_t i = 0; i < n; i++)
            p[i] = infq_e5m2_encode(src[i]);
        break;
    default:
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "f32 values cannot be stored as %s", infq_dtype_name(t));
    }
    return INFQ_E_OK;
}

int64_t infq_first_nonfinite(const float *x, int64_t n)
{
    // Blocks first, so that the common case runs without a branch an element.
    for (int64_t i = 0; i < n; i += 1024) {
        int64_t end = n - i < 1024 ? n : i + 1024;
        uint32_t top = 0;

        for (int64_t j = i; j < end; j++) {
            uint32_t mag = bits_of(x[j]) & 0x7fffffff;
            top = mag > top ? mag : top;
        }
        for (int64_t j = i; top >= 0x7f800000 && j < end; j++)
            if ((bits_of(x[j]) & 0x7fffffff) >= 0x7f800000)
                return j;
    }
    return -1;
}
