#include "lib/tensor/ggml.h"

#include <math.h>
#include <string.h>

#include "lib/base/cursor.h"

// formats.md 5.2, by id. Types whose block is not described there (the other IQ types) are left out.
static const struct {
    uint8_t id;
    uint16_t block, bytes;
    const char *name;
    infq_elem elem;
} types[] = {
    { 0, 1, 4, "F32", INFQ_ELEM_F32 },       { 1, 1, 2, "F16", INFQ_ELEM_F16 },
    { 2, 32, 18, "Q4_0", INFQ_ELEM_Q4_0 },   { 3, 32, 20, "Q4_1", INFQ_ELEM_Q4_1 },
    { 6, 32, 22, "Q5_0", INFQ_ELEM_NONE },   { 7, 32, 24, "Q5_1", INFQ_ELEM_NONE },
    { 8, 32, 34, "Q8_0", INFQ_ELEM_Q8_0 },   { 9, 32, 36, "Q8_1", INFQ_ELEM_NONE },
    { 10, 256, 84, "Q2_K", INFQ_ELEM_NONE }, { 11, 256, 110, "Q3_K", INFQ_ELEM_NONE },
    { 12, 256, 144, "Q4_K", INFQ_ELEM_NONE }, { 13, 256, 176, "Q5_K", INFQ_ELEM_NONE },
    { 14, 256, 210, "Q6_K", INFQ_ELEM_NONE }, { 15, 256, 292, "Q8_K", INFQ_ELEM_NONE },
    { 20, 32, 18, "IQ4_NL", INFQ_ELEM_NONE }, { 23, 256, 136, "IQ4_XS", INFQ_ELEM_NONE },
    { 24, 1, 1, "I8", INFQ_ELEM_NONE },      { 25, 1, 2, "I16", INFQ_ELEM_NONE },
    { 26, 1, 4, "I32", INFQ_ELEM_NONE },     { 27, 1, 8, "I64", INFQ_ELEM_NONE },
    { 28, 1, 8, "F64", INFQ_ELEM_F64 },      { 30, 1, 2, "BF16", INFQ_ELEM_BF16 },
    { 34, 256, 54, "TQ1_0", INFQ_ELEM_NONE }, { 35, 256, 66, "TQ2_0", INFQ_ELEM_NONE },
    { 39, 32, 17, "MXFP4", INFQ_ELEM_NONE }, { 40, 64, 36, "NVFP4", INFQ_ELEM_NONE },
    { 41, 128, 18, "Q1_0", INFQ_ELEM_NONE }, { 42, 64, 18, "Q2_0", INFQ_ELEM_NONE },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

bool infq_ggml_type(uint32_t id, const char **name, int *block, int *block_bytes)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].id == id) {
            *name = types[i].name;
            *block = types[i].block;
            *block_bytes = types[i].bytes;
            return true;
        }
    return false;
}

infq_elem infq_ggml_elem(uint32_t id)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].id == id)
            return types[i].elem;
    return INFQ_ELEM_NONE;
}

static void q4_0_decode(const uint8_t *b, float *y)
{
    float d = infq_f16_decode(infq_load_u16le(b));

    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b[2 + j] & 15) - 8) * d;
        y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
    }
}

static void q4_1_decode(const uint8_t *b, float *y)
{
    float d = infq_f16_decode(infq_load_u16le(b)), m = infq_f16_decode(infq_load_u16le(b + 2));

    for (int j = 0; j < 16; j++) {
        y[j] = (float)(b[4 + j] & 15) * d + m;
        y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
    }
}

static void q8_0_decode(const uint8_t *b, float *y)
{
    float d = infq_f16_decode(infq_load_u16le(b));

    for (int j = 0; j < 32; j++)
        y[j] = (float)(int8_t)b[2 + j] * d;
}

// 1/d; 0 where d is 0 or so small that the inverse overflows: the half then stores 0 as well.
static float inverse(float d)
{
    float id = d != 0.0f ? 1.0f / d : 0.0f;

    return isfinite(id) ? id : 0.0f;
}

static uint8_t nibble(float v)
{
    int q = (int)v;

    return (uint8_t)(q < 15 ? q : 15);
}

static bool store_half(float v, uint8_t *p)
{
    uint16_t h = infq_f16_encode(v);

    infq_store_u16le(p, h);
    return (h & 0x7c00) != 0x7c00;
}

static bool q4_0_encode(const float *x, uint8_t *b)
{
    float best = 0.0f, d, id;

    for (int j = 0; j < 32; j++)
        if (fabsf(x[j]) > fabsf(best))
            best = x[j];
    d = best / -8.0f;
    id = inverse(d);
    for (int j = 0; j < 16; j++)
        b[2 + j] = (uint8_t)(nibble(x[j] * id + 8.5f) | nibble(x[j + 16] * id + 8.5f) << 4);
    return store_half(d, b);
}

static bool q4_1_encode(const float *x, uint8_t *b)
{
    float min = x[0], max = x[0], d, id;

    for (int j = 1; j < 32; j++) {
        min = x[j] < min ? x[j] : min;
        max = x[j] > max ? x[j] : max;
    }
    d = (max - min) / 15.0f;
    if (!isfinite(d))
        return false;
    id = inverse(d);
    for (int j = 0; j < 16; j++)
        b[4 + j] = (uint8_t)(nibble((x[j] - min) * id + 0.5f) | nibble((x[j + 16] - min) * id + 0.5f) << 4);
    return store_half(d, b) && store_half(min, b + 2);
}

static bool q8_0_encode(const float *x, uint8_t *b)
{
    float amax = 0.0f, d, id;

    for (int j = 0; j < 32; j++)
        amax = fabsf(x[j]) > amax ? fabsf(x[j]) : amax;
    d = amax / 127.0f;
    id = inverse(d);
    for (int j = 0; j < 32; j++)
        b[2 + j] = (uint8_t)(int8_t)roundf(x[j] * id);
    return store_half(d, b);
}

infq_status infq_ggml_decode(infq_elem e, const void *src, int64_t n, float *dst, infq_err *err)
{
    const uint8_t *b = src;

    if (e != INFQ_ELEM_Q4_0 && e != INFQ_ELEM_Q4_1 && e != INFQ_ELEM_Q8_0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s is not a ggml block type", infq_elem_name(e));
    if (n % 32)
        return infq_err_set(err, INFQ_E_FORMAT, "%lld elements are no whole blocks of 32", (long long)n);
    for (int64_t i = 0; i < n; i += 32, b += infq_elem_bits(e) / 8) {
        if (e == INFQ_ELEM_Q4_0)
            q4_0_decode(b, dst + i);
        else if (e == INFQ_ELEM_Q4_1)
            q4_1_decode(b, dst + i);
        else
            q8_0_decode(b, dst + i);
    }
    return INFQ_E_OK;
}

infq_status infq_ggml_encode(infq_elem e, const float *src, int64_t n, void *dst, infq_err *err)
{
    uint8_t *b = dst;
    int64_t bad;

    if (e != INFQ_ELEM_Q4_0 && e != INFQ_ELEM_Q4_1 && e != INFQ_ELEM_Q8_0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s is not a ggml block type", infq_elem_name(e));
    if (n % 32)
        return infq_err_set(err, INFQ_E_FORMAT, "%lld elements are no whole blocks of 32", (long long)n);
    bad = infq_first_nonfinite(src, n);
    if (bad >= 0)
        return infq_err_set(err, INFQ_E_NUMERIC, "element %lld is not finite", (long long)bad);
    for (int64_t i = 0; i < n; i += 32, b += infq_elem_bits(e) / 8) {
        bool fits = e == INFQ_ELEM_Q4_0   ? q4_0_encode(src + i, b)
                    : e == INFQ_ELEM_Q4_1 ? q4_1_encode(src + i, b)
                                          : q8_0_encode(src + i, b);
        if (!fits)
            return infq_err_set(err, INFQ_E_NUMERIC, "the scale of the block at element %lld overflows f16",
                                (long long)i);
    }
    return INFQ_E_OK;
}
