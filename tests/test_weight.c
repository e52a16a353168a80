#include "tests/testlib.h"

#include "lib/base/rng.h"
#include "lib/tensor/weight.h"

static uint32_t hex_of(const cJSON *s)
{
    return (uint32_t)strtoul(s->valuestring, NULL, 16);
}

static infq_weight weight_of(infq_elem e, int64_t rows, int64_t cols, int group, const void *codes,
                             const float *scales)
{
    infq_weight w = { .codec = { .elem = e, .group_rows = 1, .group_cols = group, .scale = INFQ_ELEM_F32 },
                      .n_rows = rows, .n_cols = cols, .outer = 1.0f };

    w.codes = (infq_view){ codes, infq_codec_row_bytes(&w.codec, cols) };
    w.scales = (infq_view){ scales, 4 * (size_t)infq_weight_scale_cols(&w) };
    return w;
}

START_TEST(packed_integers_equal_the_shared_vectors)
{
    static const infq_elem by_bits[9] = { [2] = INFQ_ELEM_U2, [3] = INFQ_ELEM_U3, [4] = INFQ_ELEM_U4,
                                          [8] = INFQ_ELEM_U8 };
    cJSON *j;
    const cJSON *it;
    int n = 0;

    TEST_NEEDS_SHARED();
    j = test_json(test_shared_path("specs/vectors/int4_compressed_tensors.json"));
    cJSON_ArrayForEach(it, cJSON_GetObjectItem(j, "cases"))
    {
        int bits = cJSON_GetObjectItem(it, "num_bits")->valueint, rows, cols, r = 0;
        const cJSON *values = cJSON_GetObjectItem(it, "values_signed"), *row;

        if (cJSON_GetObjectItem(it, "packed_dim")->valueint != 1 || by_bits[bits] == INFQ_ELEM_NONE)
            continue;
        rows = cJSON_GetArraySize(values);
        cols = cJSON_GetArraySize(cJSON_GetArrayItem(values, 0));
        cJSON_ArrayForEach(row, cJSON_GetObjectItem(it, "packed_words_hex"))
        {
            uint8_t stored[256] = { 0 }, again[256];
            float scale = 0.25f, y[64];
            infq_weight w = weight_of(by_bits[bits], 1, cols, 0, stored, &scale);
            int n_words = cJSON_GetArraySize(row);
            infq_err err;

            for (int k = 0; k < 4 * n_words; k++)
                stored[k] = (uint8_t)(hex_of(cJSON_GetArrayItem(row, k / 4)) >> (k % 4 * 8));
            ck_ok(infq_weight_check(&w, &err), err);
            infq_weight_decode_row(&w, 0, y);
            for (int c = 0; c < cols; c++) {
                int want = cJSON_GetArrayItem(cJSON_GetArrayItem(values, r), c)->valueint;
                ck_assert_int_eq(infq_weight_code_at(&w, 0, c), want + (1 << (bits - 1)));
                ck_assert_float_eq(y[c], (float)want * 0.25f);
            }
            ck_ok(infq_weight_encode_row(&w, 0, y, again, &err), err);
            ck_assert_mem_eq(again, stored, infq_codec_row_bytes(&w.codec, cols));
            r++;
        }
        ck_assert_int_eq(r, rows);
        n++;
    }
    ck_assert_int_ge(n, 4);
    cJSON_Delete(j);
}
END_TEST

START_TEST(e2m1_nibbles_are_low_first_as_in_the_shared_vector)
{
    cJSON *j;
    const cJSON *codes;
    uint8_t *bytes;
    size_t n;
    float scale = 1.0f;
    infq_weight w;

    TEST_NEEDS_SHARED();
    j = test_json(test_shared_path("specs/vectors/fp4_packing.json"));
    codes = cJSON_GetObjectItem(j, "codes");
    bytes = test_hex(cJSON_GetObjectItem(cJSON_GetObjectItem(j, "low_nibble_first"), "hex")->valuestring, &n);
    ck_assert_uint_eq(n, 8);
    w = weight_of(INFQ_ELEM_E2M1, 1, 16, 16, bytes, &scale);
    for (int c = 0; c < 16; c++)
        ck_assert_int_eq(infq_weight_code_at(&w, 0, c), cJSON_GetArrayItem(codes, c)->valueint);
    infq_mem_free(bytes);
    cJSON_Delete(j);
}
END_TEST

START_TEST(groups_and_zeros_choose_scale_and_offset)
{
    // Two rows of 6 columns in groups of 4: the second group of a row is short.
    static const uint8_t codes[2][3] = { { 0x21, 0x43, 0x65 }, { 0xba, 0xdc, 0xfe } }, zeros[2][2] = { { 1, 5 }, { 10, 0 } };
    static const float scales[2][2] = { { 1.0f, 0.5f }, { 2.0f, -1.0f } };
    static const float want[2][6] = { { 0, 1, 2, 3, 0, 0.5f }, { 0, 2, 4, 6, -14, -15 } };
    infq_weight w = weight_of(INFQ_ELEM_U4, 2, 6, 4, codes, &scales[0][0]);
    float y[6];
    infq_err err;

    w.codec.zero = INFQ_ZERO_INT;
    w.zeros = (infq_view){ zeros, 2 };
    ck_ok(infq_weight_check(&w, &err), err);
    ck_assert_int_eq(infq_weight_scale_cols(&w), 2);
    for (int r = 0; r < 2; r++) {
        uint8_t again[3];
        infq_weight_decode_row(&w, r, y);
        for (int c = 0; c < 6; c++) {
            ck_assert_float_eq(y[c], want[r][c]);
            ck_assert_float_eq(infq_weight_scale_at(&w, r, c), scales[r][c / 4]);
            ck_assert_float_eq(infq_weight_zero_at(&w, r, c), zeros[r][c / 4]);
        }
        ck_ok(infq_weight_encode_row(&w, r, y, again, &err), err);
        ck_assert_mem_eq(again, codes[r], 3);
    }
}
END_TEST

START_TEST(order_gives_each_column_its_group)
{
    static const int8_t codes[4] = { 1, 2, 3, -128 };
    static const float scales[2] = { 1.0f, 10.0f };
    static const int32_t order[4] = { 1, 0, 1, 0 };
    infq_weight w = weight_of(INFQ_ELEM_I8, 1, 4, 2, codes, scales);
    float y[4];
    infq_err err;

    w.order = order;
    ck_ok(infq_weight_check(&w, &err), err);
    infq_weight_decode_row(&w, 0, y);
    ck_assert_float_eq(y[0], 10);
    ck_assert_float_eq(y[1], 2);
    ck_assert_float_eq(y[2], 30);
    ck_assert_float_eq(y[3], -128);
}
END_TEST

START_TEST(blocks_span_rows_and_columns)
{
    uint8_t codes[3][5];
    static const float scales[2][2] = { { 1.0f, 2.0f }, { 4.0f, 8.0f } };
    infq_weight w = { .codec = { .elem = INFQ_ELEM_E4M3, .group_rows = 2, .group_cols = 3, .scale = INFQ_ELEM_F32 },
                      .n_rows = 3, .n_cols = 5, .codes = { codes, 5 }, .scales = { scales, 8 }, .outer = 1.0f };
    float y[5];
    infq_err err;

    memset(codes, 0x38, sizeof(codes));  // 1.0
    ck_ok(infq_weight_check(&w, &err), err);
    for (int r = 0; r < 3; r++) {
        infq_weight_decode_row(&w, r, y);
        for (int c = 0; c < 5; c++)
            ck_assert_float_eq(y[c], scales[r / 2][c / 3]);
    }
    w.codec.outer = true;
    w.outer = 0.5f;
    infq_weight_decode_row(&w, 2, y);
    ck_assert_float_eq(y[4], 4.0f);
    ck_assert_double_eq(infq_weight_bits(&w), 15 * 8 + 4 * 32 + 32);
}
END_TEST

START_TEST(encode_then_decode_is_stable_for_every_element)
{
    static const infq_elem elems[] = { INFQ_ELEM_U2, INFQ_ELEM_U3, INFQ_ELEM_U4, INFQ_ELEM_U8, INFQ_ELEM_I8,
                                       INFQ_ELEM_E4M3, INFQ_ELEM_E5M2, INFQ_ELEM_E2M1 };
    infq_rng rng = infq_rng_seed(7);
    float x[67], y[67], z[67], scales[3] = { 0.013f, 0.021f, 0.3f };
    uint8_t a[67], b[67];
    infq_err err;

    for (int i = 0; i < 67; i++)
        x[i] = (float)infq_rng_normal(&rng);
    for (size_t k = 0; k < sizeof(elems) / sizeof(elems[0]); k++) {
        infq_weight w = weight_of(elems[k], 1, 67, 32, a, scales);
        ck_ok(infq_weight_encode_row(&w, 0, x, a, &err), err);
        infq_weight_decode_row(&w, 0, y);
        ck_ok(infq_weight_encode_row(&w, 0, y, b, &err), err);
        ck_assert_mem_eq(a, b, infq_codec_row_bytes(&w.codec, 67));
        w.codes.data = b;
        infq_weight_decode_row(&w, 0, z);
        ck_assert_mem_eq(y, z, sizeof(y));
    }
}
END_TEST

START_TEST(encode_refuses_zero_scales_and_bad_values)
{
    float x[4] = { 1, 2, 3, 4 }, scale = 0.0f;
    uint8_t codes[4] = { 0 };
    infq_weight w = weight_of(INFQ_ELEM_U8, 1, 4, 0, codes, &scale);
    infq_err err;

    ck_assert_int_eq(infq_weight_encode_row(&w, 0, x, codes, &err), INFQ_E_NUMERIC);
    scale = 1.0f;
    x[2] = INFINITY;
    ck_assert_int_eq(infq_weight_encode_row(&w, 0, x, codes, &err), INFQ_E_NUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "[0, 2]"));
}
END_TEST

START_TEST(check_refuses_what_cannot_be)
{
    float scales[8] = { 1 };
    uint8_t codes[64] = { 0 };
    int32_t order[4] = { 0, 1, 2, 0 };
    infq_weight good = weight_of(INFQ_ELEM_U4, 1, 4, 2, codes, scales), w;
    infq_err err;

    ck_ok(infq_weight_check(&good, &err), err);
#define REFUSED(change)                                                                            \
    w = good;                                                                                      \
    change;                                                                                        \
    ck_assert_msg(infq_weight_check(&w, &err) == INFQ_E_FORMAT, "accepted: %s", #change)
    REFUSED(w.codes.data = NULL);
    REFUSED(w.scales.data = NULL);
    REFUSED(w.codec.scale = INFQ_ELEM_NONE);
    REFUSED(w.codec.scale = INFQ_ELEM_U4);
    REFUSED(w.codec.zero = INFQ_ZERO_INT);
    REFUSED(w.codec.group_cols = -1);
    REFUSED(w.n_rows = -1);
    REFUSED(w.n_rows = INT64_MAX; w.n_cols = 3);
    REFUSED(w.n_rows = 2; w.codes.row_bytes = 1);
    REFUSED(w.codec.elem = INFQ_ELEM_NONE);
    REFUSED(w.codec.elem = INFQ_ELEM_E8M0);
    REFUSED(w.order = order);
    REFUSED(w.outer = 2.0f);
    REFUSED(w.codec.act = INFQ_ACT_E4M3_TENSOR);
    REFUSED(w.codec.elem = INFQ_ELEM_E4M3; w.codec.zero = INFQ_ZERO_FLOAT);
    REFUSED(w.codec.elem = INFQ_ELEM_Q8_0);
    REFUSED(w.codec.elem = INFQ_ELEM_Q8_0; w.codec.scale = INFQ_ELEM_NONE);
#undef REFUSED
}
END_TEST

START_TEST(sizes_and_descriptions_are_what_is_stored)
{
    infq_codec c = { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = INFQ_ELEM_BF16 };
    infq_weight w = { .codec = c, .n_rows = 10, .n_cols = 640, .outer = 1.0f };
    char text[80];

    ck_assert_uint_eq(infq_codec_row_bytes(&c, 5), 3);
    c.elem = INFQ_ELEM_U3;
    ck_assert_uint_eq(infq_codec_row_bytes(&c, 11), 5);
    c.elem = INFQ_ELEM_Q8_0;
    ck_assert_uint_eq(infq_codec_row_bytes(&c, 64), 68);
    ck_assert_double_eq(infq_weight_bits(&w) / 6400, 4.25);
    w.codec.zero = INFQ_ZERO_INT;
    ck_assert_double_eq(infq_weight_bits(&w) / 6400, 4.3125);
    ck_assert_str_eq(infq_codec_describe(&w.codec, text, sizeof(text)), "W4 asym g64, BF16 scales");
    w.codec = (infq_codec){ .elem = INFQ_ELEM_E4M3, .group_rows = 1, .scale = INFQ_ELEM_F32, .act = INFQ_ACT_E4M3_TOKEN };
    ck_assert_str_eq(infq_codec_describe(&w.codec, text, sizeof(text)),
                     "F8_E4M3 channel, F32 scales, A8 fp8 per token");
    w.codec = (infq_codec){ .elem = INFQ_ELEM_BF16 };
    ck_assert_str_eq(infq_codec_describe(&w.codec, text, sizeof(text)), "BF16");
    ck_assert_double_eq(infq_weight_bits(&w), 16 * 6400);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("weight");
    TCase *t = tcase_create("codec");

    tcase_add_test(t, packed_integers_equal_the_shared_vectors);
    tcase_add_test(t, e2m1_nibbles_are_low_first_as_in_the_shared_vector);
    tcase_add_test(t, groups_and_zeros_choose_scale_and_offset);
    tcase_add_test(t, order_gives_each_column_its_group);
    tcase_add_test(t, blocks_span_rows_and_columns);
    tcase_add_test(t, encode_then_decode_is_stable_for_every_element);
    tcase_add_test(t, encode_refuses_zero_scales_and_bad_values);
    tcase_add_test(t, check_refuses_what_cannot_be);
    tcase_add_test(t, sizes_and_descriptions_are_what_is_stored);
    suite_add_tcase(s, t);
    return test_main(s);
}
