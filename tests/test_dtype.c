#include "tests/testlib.h"

#include "lib/base/rng.h"
#include "lib/tensor/dtype.h"

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

static uint32_t hex_of(const cJSON *s)
{
    return (uint32_t)strtoul(s->valuestring, NULL, 16);
}

static const cJSON *member(const cJSON *obj, const char *key)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(obj, key);

    ck_assert_msg(m != NULL, "no member %s", key);
    return m;
}

// Value of a code by the definition of its format: sign, exponent, fraction, in double.
static double defined(uint32_t code, int exp_bits, int man_bits, int bias)
{
    uint32_t man = code & ((1u << man_bits) - 1), exp = code >> man_bits & ((1u << exp_bits) - 1);
    double v = exp ? ldexp(1.0 + man / (double)(1u << man_bits), (int)exp - bias)
                   : ldexp(man / (double)(1u << man_bits), 1 - bias);

    return code >> (exp_bits + man_bits) & 1 ? -v : v;
}

START_TEST(dtype_names_round_trip)
{
    infq_dtype t;

    for (int i = 0; i < INFQ_DTYPE_COUNT; i++) {
        ck_assert(infq_dtype_parse(infq_dtype_name((infq_dtype)i), &t));
        ck_assert_int_eq(t, i);
    }
    ck_assert(!infq_dtype_parse("bf16", &t));
    ck_assert(!infq_dtype_parse("", &t));
    ck_assert_int_eq(infq_dtype_bits(INFQ_DTYPE_F4), 4);
    ck_assert_int_eq(infq_dtype_bits(INFQ_DTYPE_I64), 64);
}
END_TEST

START_TEST(f16_decodes_every_pattern_as_defined)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float got = infq_f16_decode((uint16_t)h);
        if ((h & 0x7c00) != 0x7c00) {
            ck_assert_msg(bits_of(got) == bits_of((float)defined(h, 5, 10, 15)), "%04x gives %g", h, got);
            ck_assert_uint_eq(infq_f16_encode(got), h);
        } else if (h & 0x3ff) {
            ck_assert_msg(isnan(got), "%04x gives %g", h, got);
            ck_assert_uint_eq(infq_f16_encode(got), h | 0x200);
        } else {
            ck_assert_msg(isinf(got) && (signbit(got) != 0) == (h >> 15 != 0), "%04x gives %g", h, got);
            ck_assert_uint_eq(infq_f16_encode(got), h);
        }
    }
}
END_TEST

// Midpoints of neighbours go to the even code, their F32 neighbours to the nearer one; both signs.
#define CHECK_MIDPOINTS(decode, encode, first, last, sign)                                          \
    for (uint32_t c = first; c < last; c++) {                                                       \
        double a = decode(c), b = decode(c + 1);                                                    \
        float mid = (float)((a + b) / 2);                                                           \
        uint32_t even = c & 1 ? c + 1 : c;                                                          \
        ck_assert_msg((double)mid == (a + b) / 2, "midpoint above %x is not exact", c);             \
        ck_assert_msg(encode(mid) == even, "%a gives %x, not %x", mid, encode(mid), even);          \
        ck_assert_msg(encode(-mid) == (even | sign), "%a gives %x", -mid, encode(-mid));            \
        ck_assert_uint_eq(encode(nextafterf(mid, 0.0f)), c);                                        \
        ck_assert_uint_eq(encode(nextafterf(mid, INFINITY)), c + 1);                                \
        ck_assert_uint_eq(encode(-nextafterf(mid, INFINITY)), ((c + 1) | sign));                    \
    }

static float f16_value(uint32_t c)
{
    return infq_f16_decode((uint16_t)c);
}
static float e4m3_value(uint32_t c)
{
    return infq_e4m3_decode((uint8_t)c);
}
static float e5m2_value(uint32_t c)
{
    return infq_e5m2_decode((uint8_t)c);
}
static float e2m1_value(uint32_t c)
{
    return infq_e2m1_decode((uint8_t)c);
}

START_TEST(encoders_round_to_nearest_even_at_every_midpoint)
{
    CHECK_MIDPOINTS(f16_value, infq_f16_encode, 0, 0x7bff, 0x8000u)
    CHECK_MIDPOINTS(e4m3_value, infq_e4m3_encode, 0, 0x7e, 0x80u)
    CHECK_MIDPOINTS(e5m2_value, infq_e5m2_encode, 0, 0x7b, 0x80u)
    CHECK_MIDPOINTS(e2m1_value, infq_e2m1_encode, 0, 7, 8u)
}
END_TEST

START_TEST(f16_and_bf16_overflow_to_infinity)
{
    ck_assert_uint_eq(infq_f16_encode(65519.996f), 0x7bff);
    ck_assert_uint_eq(infq_f16_encode(65520.0f), 0x7c00);
    ck_assert_uint_eq(infq_f16_encode(-3e38f), 0xfc00);
    ck_assert_uint_eq(infq_f16_encode(INFINITY), 0x7c00);
    ck_assert_uint_eq(infq_f16_encode(float_of(0x33000000)), 0);      // 2^-25: half of the least step
    ck_assert_uint_eq(infq_f16_encode(float_of(0x33000001)), 1);
    ck_assert_uint_eq(infq_bf16_encode(float_of(0x7f7fffff)), 0x7f80);
    ck_assert_uint_eq(infq_bf16_encode(float_of(0x7f7f7fff)), 0x7f7f);
    ck_assert_uint_eq(infq_bf16_encode(float_of(0x3f808000)), 0x3f80);
    ck_assert_uint_eq(infq_bf16_encode(float_of(0x3f818000)), 0x3f82);
    ck_assert_uint_eq(infq_bf16_encode(float_of(0x7f800001)), 0x7fc0);
    ck_assert_uint_eq(infq_bf16_encode(float_of(0xffffffff)), 0xffff);
}
END_TEST

START_TEST(bf16_keeps_every_pattern)
{
    for (uint32_t h = 0; h < 65536; h++) {
        ck_assert_uint_eq(bits_of(infq_bf16_decode((uint16_t)h)), h << 16);
        if ((h & 0x7f80) != 0x7f80 || !(h & 0x7f))
            ck_assert_uint_eq(infq_bf16_encode(infq_bf16_decode((uint16_t)h)), h);
    }
}
END_TEST

START_TEST(fp8_decodes_every_code_as_defined)
{
    for (uint32_t c = 0; c < 256; c++) {
        if ((c & 0x7f) == 0x7f)
            ck_assert(isnan(infq_e4m3_decode((uint8_t)c)));
        else
            ck_assert_uint_eq(bits_of(e4m3_value(c)), bits_of((float)defined(c, 4, 3, 7)));
        if ((c & 0x7f) < 0x7c)
            ck_assert_uint_eq(bits_of(e5m2_value(c)), bits_of((float)defined(c, 5, 2, 15)));
        else
            ck_assert_msg((c & 3 ? isnan(e5m2_value(c)) : isinf(e5m2_value(c))) != 0, "%02x", c);
    }
}
END_TEST

static void check_fp8_file(const char *rel, float (*decode)(uint8_t), uint8_t (*encode)(float))
{
    cJSON *j = test_json(test_shared_path(rel));
    const cJSON *table = member(j, "decode_f32_hex"), *it;
    int c = 0, n = 0;

    ck_assert_int_eq(cJSON_GetArraySize(table), 256);
    cJSON_ArrayForEach(it, table)
    {
        float got = decode((uint8_t)c), want = float_of(hex_of(it));
        ck_assert_msg(isnan(want) ? isnan(got) : bits_of(got) == bits_of(want), "code %02x: %g, %g", c, got, want);
        c++;
    }
    cJSON_ArrayForEach(it, member(j, "encode"))
    {
        float x = float_of(hex_of(member(it, "f32_hex")));
        uint32_t want = hex_of(member(it, "saturating")), got = encode(x);
        if (isnan(x))
            ck_assert_msg((got & 0x7f) == 0x7f, "NaN gives %02x", got);
        else
            ck_assert_msg(got == want, "%a: %02x, not %02x", x, got, want);
        n++;
    }
    ck_assert_int_eq(n, 148);
    cJSON_Delete(j);
}

START_TEST(fp8_equals_the_shared_vectors)
{
    TEST_NEEDS_SHARED();
    check_fp8_file("specs/vectors/fp8_e4m3.json", infq_e4m3_decode, infq_e4m3_encode);
    check_fp8_file("specs/vectors/fp8_e5m2.json", infq_e5m2_decode, infq_e5m2_encode);
}
END_TEST

START_TEST(e4m3_casts_as_the_shared_case_says)
{
    cJSON *j;
    const cJSON *x, *want;

    TEST_NEEDS_SHARED();
    j = test_json(test_shared_path("cases/files/B18-e4m3-cast.json"));
    x = member(j, "f32_hex");
    want = member(j, "e4m3_hex");
    ck_assert_int_gt(cJSON_GetArraySize(x), 20);
    for (int i = 0; i < cJSON_GetArraySize(x); i++)
        ck_assert_uint_eq(infq_e4m3_encode(float_of(hex_of(cJSON_GetArrayItem(x, i)))),
                          hex_of(cJSON_GetArrayItem(want, i)));
    cJSON_Delete(j);
}
END_TEST

START_TEST(fp8_saturates_and_keeps_nan_and_signed_zero)
{
    ck_assert_uint_eq(infq_e4m3_encode(465.0f), 0x7e);
    ck_assert_uint_eq(infq_e4m3_encode(-INFINITY), 0xfe);
    ck_assert_uint_eq(infq_e4m3_encode(-0.0f), 0x80);
    ck_assert_uint_eq(infq_e4m3_encode(-NAN) & 0x7f, 0x7f);
    ck_assert_uint_eq(infq_e5m2_encode(1e30f), 0x7b);
    ck_assert_uint_eq(infq_e5m2_encode(INFINITY), 0x7b);
    ck_assert_uint_eq(infq_e5m2_encode(-0.0f), 0x80);
    ck_assert_uint_eq(infq_e5m2_encode(NAN) & 0x7f, 0x7f);
    ck_assert_uint_eq(infq_e2m1_encode(-1e9f), 15);
}
END_TEST

START_TEST(small_floats_equal_the_shared_vectors)
{
    cJSON *j;
    const cJSON *it;
    int c = 0;

    TEST_NEEDS_SHARED();
    j = test_json(test_shared_path("specs/vectors/small_floats.json"));
    cJSON_ArrayForEach(it, member(j, "e2m1_decode"))
    {
        ck_assert_double_eq(infq_e2m1_decode((uint8_t)c), it->valuedouble);
        c++;
    }
    ck_assert_int_eq(c, 16);
    cJSON_ArrayForEach(it, member(j, "e2m1_encode_rne_saturating"))
        ck_assert_msg(infq_e2m1_encode((float)member(it, "value")->valuedouble) == member(it, "code")->valueint,
                      "%g", member(it, "value")->valuedouble);
    c = 0;
    cJSON_ArrayForEach(it, member(j, "e8m0_decode_f32_hex"))
    {
        float got = infq_e8m0_decode((uint8_t)c);
        ck_assert_msg(c == 255 ? isnan(got) : bits_of(got) == hex_of(it), "e8m0 %d", c);
        c++;
    }
    cJSON_ArrayForEach(it, member(j, "e8m0_encode"))
        ck_assert_uint_eq(infq_e8m0_encode(float_of(hex_of(member(it, "f32_hex")))),
                          hex_of(member(it, "round_to_nearest")));
    c = 0;
    cJSON_ArrayForEach(it, member(j, "nf4_table_f32_hex"))
        ck_assert_uint_eq(bits_of(infq_nf4_decode((uint8_t)c++)), hex_of(it));
    ck_assert_int_eq(c, 16);
    cJSON_Delete(j);
}
END_TEST

START_TEST(e8m0_keeps_powers_and_rejects_infinity)
{
    for (int e = -127; e <= 127; e++)
        ck_assert_uint_eq(infq_e8m0_encode(ldexpf(1.0f, e)), (unsigned)(e + 127));
    ck_assert_uint_eq(infq_e8m0_encode(INFINITY), 0xff);
    ck_assert_uint_eq(infq_e8m0_encode(-2.0f), 128);
}
END_TEST

START_TEST(rne_takes_ties_to_even)
{
    ck_assert_int_eq(infq_rne(0.5f), 0);
    ck_assert_int_eq(infq_rne(1.5f), 2);
    ck_assert_int_eq(infq_rne(-2.5f), -2);
    ck_assert_int_eq(infq_rne(-3.5f), -4);
    ck_assert_int_eq(infq_rne(2.5000002f), 3);
}
END_TEST

START_TEST(arrays_convert_without_alignment)
{
    static const infq_dtype types[] = { INFQ_DTYPE_F64, INFQ_DTYPE_F32, INFQ_DTYPE_F16, INFQ_DTYPE_BF16,
                                        INFQ_DTYPE_F8_E4M3, INFQ_DTYPE_F8_E5M2 };
    uint8_t raw[1 + 8 * 37];
    float x[37], y[37];
    infq_rng rng = infq_rng_seed(1);
    infq_err err;

    for (int i = 0; i < 37; i++)
        x[i] = infq_e5m2_decode(infq_e5m2_encode((float)infq_rng_normal(&rng)));  // no mantissa that E4M3 lacks
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        ck_assert(infq_dtype_is_float(types[t]));
        ck_ok(infq_dtype_from_f32(types[t], x, 37, raw + 1, &err), err);
        ck_ok(infq_dtype_to_f32(types[t], raw + 1, 37, y, &err), err);
        for (int i = 0; i < 37; i++)
            if (types[t] != INFQ_DTYPE_F8_E4M3 || fabsf(x[i]) >= 0.015625f)
                ck_assert_uint_eq(bits_of(x[i]), bits_of(y[i]));
    }
    ck_assert_int_eq(infq_dtype_to_f32(INFQ_DTYPE_I32, raw, 1, y, &err), INFQ_E_UNSUPPORTED);
    ck_assert_int_eq(infq_dtype_from_f32(INFQ_DTYPE_BOOL, x, 1, raw, &err), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "BOOL"));
}
END_TEST

START_TEST(f64_narrows_once)
{
    double d = 1.0 + ldexp(1.0, -24) + ldexp(1.0, -50);  // above the tie: up; rounding twice would go down
    float x;
    infq_err err;

    ck_ok(infq_dtype_to_f32(INFQ_DTYPE_F64, &d, 1, &x, &err), err);
    ck_assert_uint_eq(bits_of(x), 0x3f800001);
}
END_TEST

START_TEST(first_nonfinite_names_the_first)
{
    static float x[5000];

    ck_assert_int_eq(infq_first_nonfinite(x, 5000), -1);
    x[4999] = INFINITY;
    ck_assert_int_eq(infq_first_nonfinite(x, 5000), 4999);
    ck_assert_int_eq(infq_first_nonfinite(x, 4999), -1);
    x[1030] = -INFINITY;
    x[1029] = NAN;
    ck_assert_int_eq(infq_first_nonfinite(x, 5000), 1029);
    ck_assert_int_eq(infq_first_nonfinite(x, 0), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtype");
    TCase *t = tcase_create("codecs");

    tcase_add_test(t, dtype_names_round_trip);
    tcase_add_test(t, f16_decodes_every_pattern_as_defined);
    tcase_add_test(t, encoders_round_to_nearest_even_at_every_midpoint);
    tcase_add_test(t, f16_and_bf16_overflow_to_infinity);
    tcase_add_test(t, bf16_keeps_every_pattern);
    tcase_add_test(t, fp8_decodes_every_code_as_defined);
    tcase_add_test(t, fp8_equals_the_shared_vectors);
    tcase_add_test(t, e4m3_casts_as_the_shared_case_says);
    tcase_add_test(t, fp8_saturates_and_keeps_nan_and_signed_zero);
    tcase_add_test(t, small_floats_equal_the_shared_vectors);
    tcase_add_test(t, e8m0_keeps_powers_and_rejects_infinity);
    tcase_add_test(t, rne_takes_ties_to_even);
    tcase_add_test(t, arrays_convert_without_alignment);
    tcase_add_test(t, f64_narrows_once);
    tcase_add_test(t, first_nonfinite_names_the_first);
    suite_add_tcase(s, t);
    return test_main(s);
}
