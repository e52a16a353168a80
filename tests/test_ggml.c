#include "tests/testlib.h"

#include "lib/base/rng.h"
#include "lib/tensor/ggml.h"

static const struct {
    const char *name;
    infq_elem elem;
} known[] = { { "q8_0", INFQ_ELEM_Q8_0 }, { "q4_0", INFQ_ELEM_Q4_0 }, { "q4_1", INFQ_ELEM_Q4_1 } };

static infq_elem elem_of(const char *type)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(type, known[i].name) == 0)
            return known[i].elem;
    return INFQ_ELEM_NONE;
}

static uint32_t hex_at(const cJSON *array, int i)
{
    return (uint32_t)strtoul(cJSON_GetArrayItem(array, i)->valuestring, NULL, 16);
}

static void check_decode(infq_elem e, const uint8_t *bytes, const cJSON *want)
{
    float y[32];
    infq_err err;

    ck_ok(infq_ggml_decode(e, bytes, 32, y, &err), err);
    for (int i = 0; i < 32; i++) {
        uint32_t u;
        memcpy(&u, &y[i], 4);
        ck_assert_msg(u == hex_at(want, i), "%s element %d: %08x, not %08x", infq_elem_name(e), i, u,
                      hex_at(want, i));
    }
}

START_TEST(blocks_equal_the_shared_vectors_both_ways)
{
    cJSON *j;
    const cJSON *b;
    int n = 0;

    TEST_NEEDS_SHARED();
    j = test_json(test_shared_path("specs/vectors/ggml_blocks.json"));
    cJSON_ArrayForEach(b, cJSON_GetObjectItem(j, "blocks"))
    {
        infq_elem e = elem_of(cJSON_GetObjectItem(b, "type")->valuestring);
        const cJSON *in = cJSON_GetObjectItem(j, "input_f32_bits");
        uint8_t out[34], *want;
        size_t size;
        float x[32];
        infq_err err;

        if (e == INFQ_ELEM_NONE)
            continue;
        n++;
        for (int i = 0; i < 32; i++) {
            uint32_t u = hex_at(in, i);
            memcpy(&x[i], &u, 4);
        }
        want = test_hex(cJSON_GetObjectItem(b, "bytes_hex")->valuestring, &size);
        ck_assert_uint_eq(size, (size_t)infq_elem_bits(e) / 8);
        ck_ok(infq_ggml_encode(e, x, 32, out, &err), err);
        ck_assert_mem_eq(out, want, size);
        check_decode(e, want, cJSON_GetObjectItem(b, "dequant_bits"));
        infq_mem_free(want);
    }
    ck_assert_int_eq(n, 3);
    n = 0;
    cJSON_ArrayForEach(b, cJSON_GetObjectItem(j, "random_bytes_blocks"))
    {
        infq_elem e = elem_of(cJSON_GetObjectItem(b, "type")->valuestring);
        uint8_t *bytes;
        size_t size;

        if (e == INFQ_ELEM_NONE)
            continue;
        n++;
        bytes = test_hex(cJSON_GetObjectItem(b, "bytes_hex")->valuestring, &size);
        check_decode(e, bytes, cJSON_GetObjectItem(b, "dequant_bits"));
        infq_mem_free(bytes);
    }
    ck_assert_int_ge(n, 3);
    cJSON_Delete(j);
}
END_TEST

START_TEST(ids_have_names_and_sizes)
{
    const char *name;
    int block, bytes;

    ck_assert(infq_ggml_type(12, &name, &block, &bytes));
    ck_assert_str_eq(name, "Q4_K");
    ck_assert_int_eq(block, 256);
    ck_assert_int_eq(bytes, 144);
    ck_assert(!infq_ggml_type(4, &name, &block, &bytes));
    ck_assert(!infq_ggml_type(4000000000u, &name, &block, &bytes));
    for (uint32_t id = 0; id < 64; id++) {
        infq_elem e = infq_ggml_elem(id);
        if (e == INFQ_ELEM_NONE)
            continue;
        ck_assert(infq_ggml_type(id, &name, &block, &bytes));
        ck_assert_str_eq(name, infq_elem_name(e));
        ck_assert_int_eq(block, infq_elem_block(e));
        ck_assert_int_eq(bytes * 8, infq_elem_bits(e));
    }
    ck_assert_int_eq(infq_ggml_elem(8), INFQ_ELEM_Q8_0);
    ck_assert_int_eq(infq_ggml_elem(14), INFQ_ELEM_NONE);
}
END_TEST

START_TEST(errors_stay_within_half_a_step)
{
    infq_rng rng = infq_rng_seed(3);
    float x[64], y[64];
    uint8_t b[68];
    infq_err err;

    for (int i = 0; i < 64; i++)
        x[i] = (float)infq_rng_normal(&rng);
    ck_ok(infq_ggml_encode(INFQ_ELEM_Q8_0, x, 64, b, &err), err);
    ck_ok(infq_ggml_decode(INFQ_ELEM_Q8_0, b, 64, y, &err), err);
    for (int i = 0; i < 64; i++) {
        float d = infq_f16_decode((uint16_t)(b[i / 32 * 34] | b[i / 32 * 34 + 1] << 8));
        // Half a step, and the rounding of d to F16 (2^-11 of up to 127 steps).
        ck_assert_float_le(fabsf(x[i] - y[i]), d * (0.5f + 127.0f / 2048.0f));
    }
}
END_TEST

START_TEST(tiny_and_zero_blocks_stay_finite)
{
    float x[32], y[32];
    uint8_t b[34];
    infq_err err;

    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        for (int p = -149; p < -20; p += 8) {
            for (int i = 0; i < 32; i++)
                x[i] = p < -148 ? 0.0f : ldexpf(i % 2 ? 1.0f : -0.5f, p);
            ck_ok(infq_ggml_encode(known[k].elem, x, 32, b, &err), err);
            ck_ok(infq_ggml_decode(known[k].elem, b, 32, y, &err), err);
            for (int i = 0; i < 32; i++)
                ck_assert_msg(fabsf(x[i] - y[i]) <= fabsf(x[1]), "%s 2^%d: %g for %g", known[k].name, p, y[i], x[i]);
        }
}
END_TEST

START_TEST(bad_input_is_refused)
{
    float x[33] = { 0 };
    uint8_t b[68];
    infq_err err;

    x[5] = NAN;
    ck_assert_int_eq(infq_ggml_encode(INFQ_ELEM_Q4_0, x, 32, b, &err), INFQ_E_NUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "element 5"));
    x[5] = 1e30f;
    ck_assert_int_eq(infq_ggml_encode(INFQ_ELEM_Q4_0, x, 32, b, &err), INFQ_E_NUMERIC);
    x[5] = 3e38f;
    x[6] = -3e38f;
    ck_assert_int_eq(infq_ggml_encode(INFQ_ELEM_Q4_1, x, 32, b, &err), INFQ_E_NUMERIC);
    ck_assert_int_eq(infq_ggml_encode(INFQ_ELEM_Q8_0, x, 33, b, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_ggml_decode(INFQ_ELEM_U4, b, 32, x, &err), INFQ_E_UNSUPPORTED);
    ck_assert_int_eq(infq_ggml_decode(INFQ_ELEM_Q4_1, b, 31, x, &err), INFQ_E_FORMAT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ggml");
    TCase *t = tcase_create("blocks");

    tcase_add_test(t, blocks_equal_the_shared_vectors_both_ways);
    tcase_add_test(t, ids_have_names_and_sizes);
    tcase_add_test(t, errors_stay_within_half_a_step);
    tcase_add_test(t, tiny_and_zero_blocks_stay_finite);
    tcase_add_test(t, bad_input_is_refused);
    suite_add_tcase(s, t);
    return test_main(s);
}
