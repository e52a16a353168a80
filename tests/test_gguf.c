#include "tests/testlib.h"

#include "lib/base/cursor.h"
#include "lib/io/gguf.h"
#include "lib/io/safetensors.h"

static infq_err err;

// Where our reading differs from the reference loader: it accepts shapes whose product overflows.
static bool expected(const cJSON *c)
{
    if (strcmp(infq_json_get(c, "name")->valuestring, "dims_overflow") == 0)
        return false;
    return cJSON_IsTrue(infq_json_get(c, "accept"));
}

START_TEST(reader_gives_the_verdict_of_every_golden_case)
{
    cJSON *all;
    const cJSON *c;
    int n = 0;

    TEST_NEEDS_SHARED();
    all = test_json(test_shared_path("specs/vectors/gguf_cases.json"));
    cJSON_ArrayForEach(c, infq_json_get(all, "cases"))
    {
        const char *name = infq_json_get(c, "name")->valuestring;
        size_t size;
        uint8_t *data = test_hex(infq_json_get(c, "hex")->valuestring, &size);
        infq_gguf *g = NULL;
        infq_status rc = infq_gguf_parse(data, size, &g, &err);

        n++;
        ck_assert_msg((rc == 0) == expected(c), "%s: %s", name, rc ? err.msg : "accepted");
        infq_gguf_free(g);
        infq_mem_free(data);
    }
    ck_assert_int_eq(n, 41);
    cJSON_Delete(all);
}
END_TEST

// A small writer: bytes are appended in file order.
static void u32(infq_buf *b, uint32_t v)
{
    uint8_t p[4];

    infq_store_u32le(p, v);
    infq_buf_add(b, p, 4);
}

static void u64(infq_buf *b, uint64_t v)
{
    uint8_t p[8];

    infq_store_u64le(p, v);
    infq_buf_add(b, p, 8);
}

static void text(infq_buf *b, const char *s)
{
    u64(b, strlen(s));
    infq_buf_str(b, s);
}

static infq_buf small_file(void)
{
    infq_buf b;

    infq_buf_init(&b);
    infq_buf_str(&b, "GGUF");
    u32(&b, 3);
    u64(&b, 2); // tensors
    u64(&b, 4); // keys
    text(&b, "a.f64");
    u32(&b, INFQ_GGUF_F64);
    u64(&b, 0xc00c000000000000u); // -3.5
    text(&b, "a.i8");
    u32(&b, INFQ_GGUF_I8);
    infq_buf_char(&b, (char)-5);
    text(&b, "a.words");
    u32(&b, INFQ_GGUF_ARRAY);
    u32(&b, INFQ_GGUF_STRING);
    u64(&b, 3);
    text(&b, "one");
    text(&b, "");
    text(&b, "three");
    text(&b, "a.list");
    u32(&b, INFQ_GGUF_ARRAY);
    u32(&b, INFQ_GGUF_U16);
    u64(&b, 2);
    infq_buf_add(&b, "\1\0\377\377", 4);
    text(&b, "w");
    u32(&b, 2);
    u64(&b, 3); // ne[0]: fastest
    u64(&b, 2);
    u32(&b, 0); // F32
    u64(&b, 0);
    text(&b, "v");
    u32(&b, 1);
    u64(&b, 32);
    u32(&b, 8); // Q8_0
    u64(&b, 32);
    while (b.n % 32)
        infq_buf_char(&b, '\0');
    for (int i = 0; i < 32 + 64; i++)
        infq_buf_char(&b, (char)i);
    return b;
}

START_TEST(reader_reverses_dimensions_and_gives_offsets_of_the_file)
{
    infq_buf b = small_file();
    infq_gguf *g = NULL;
    const infq_gguf_tensor *w, *v;

    ck_ok(infq_gguf_parse((uint8_t *)b.data, b.n, &g, &err), err);
    ck_assert_uint_eq(infq_gguf_count(g), 2);
    w = infq_gguf_get(g, 0);
    v = infq_gguf_find(g, "v");
    ck_assert_str_eq(w->name, "w");
    ck_assert_int_eq(w->n_dims, 2);
    ck_assert_int_eq(w->shape[0], 2);
    ck_assert_int_eq(w->shape[1], 3);
    ck_assert_int_eq(w->n_elems, 6);
    ck_assert_uint_eq(w->n_bytes, 24);
    ck_assert_uint_eq(w->offset, b.n - 96);
    ck_assert_ptr_eq(v, infq_gguf_get(g, 1));
    ck_assert_uint_eq(v->n_bytes, 34);
    ck_assert_uint_eq(v->offset, b.n - 64);
    ck_assert_ptr_null(infq_gguf_find(g, "x"));
    ck_assert_ptr_null(infq_gguf_get(g, 2));
    infq_gguf_free(g);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(reader_reads_numbers_strings_and_arrays)
{
    static const char *const words[] = { "one", "", "three" };
    infq_buf b = small_file();
    infq_gguf *g = NULL;
    const infq_gguf_value *v;
    uint64_t pos = 0, n;
    const char *s;
    double x;

    ck_ok(infq_gguf_parse((uint8_t *)b.data, b.n, &g, &err), err);
    ck_assert_uint_eq(infq_gguf_value_count(g), 4);
    ck_assert(infq_gguf_number(infq_gguf_value_find(g, "a.f64"), 0, &x));
    ck_assert_double_eq(x, -3.5);
    ck_assert(infq_gguf_number(infq_gguf_value_find(g, "a.i8"), 0, &x));
    ck_assert_double_eq(x, -5);
    v = infq_gguf_value_find(g, "a.list");
    ck_assert(infq_gguf_number(v, 1, &x));
    ck_assert_double_eq(x, 65535);
    ck_assert(!infq_gguf_number(v, 2, &x));
    v = infq_gguf_value_find(g, "a.words");
    ck_assert(!infq_gguf_number(v, 0, &x));
    for (int i = 0; i < 3; i++) {
        ck_assert(infq_gguf_string(v, &pos, &s, &n));
        ck_assert_uint_eq(n, strlen(words[i]));
        ck_assert_int_eq(memcmp(s, words[i], (size_t)n), 0);
    }
    ck_assert(!infq_gguf_string(v, &pos, &s, &n));
    ck_assert_ptr_null(infq_gguf_value_find(g, "b"));
    ck_assert_str_eq(infq_gguf_value_get(g, 3)->key, "a.list");
    infq_gguf_free(g);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(reader_refuses_every_prefix)
{
    infq_buf b = small_file();

    for (size_t n = 0; n < b.n; n++) {
        infq_gguf *g = NULL;
        uint8_t *copy = infq_mem_alloc(n);
        memcpy(copy, b.data, n);
        ck_assert_msg(infq_gguf_parse(copy, n, &g, &err) == INFQ_E_FORMAT, "%zu of %zu bytes", n, b.n);
        infq_mem_free(copy);
    }
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(reader_allocates_nothing_for_counts_that_cannot_fit)
{
    infq_buf b;
    infq_gguf *g = NULL;

    infq_buf_init(&b);
    infq_buf_str(&b, "GGUF");
    u32(&b, 3);
    u64(&b, 0);
    u64(&b, (uint64_t)1 << 60);
    infq_mem_peak_reset();
    ck_assert_int_eq(infq_gguf_parse((uint8_t *)b.data, b.n, &g, &err), INFQ_E_FORMAT);
    ck_assert_uint_lt(infq_mem_stats_get().peak_bytes, 1 << 20);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(reader_calls_big_endian_files_by_name)
{
    infq_buf b = small_file();
    infq_gguf *g = NULL;

    memcpy(b.data + 4, "\0\0\0\3", 4);
    ck_assert_int_eq(infq_gguf_parse((uint8_t *)b.data, b.n, &g, &err), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "big-endian"));
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(reader_fails_cleanly_at_every_allocation)
{
    infq_buf b = small_file();
    infq_gguf *g = NULL;
    size_t live = infq_mem_stats_get().n_live, at;

    for (at = 1; at < 1000; at++) {
        infq_mem_fail_at(at);
        if (infq_gguf_parse((uint8_t *)b.data, b.n, &g, &err) == 0)
            break;
        infq_mem_fail_at(0);
        ck_assert_int_eq(err.code, INFQ_E_NOMEM);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
    }
    infq_mem_fail_at(0);
    ck_assert_uint_gt(at, 4);
    infq_gguf_free(g);
    infq_buf_deinit(&b);
}
END_TEST

// Every stored type beside its decoded values: same names, same shapes, rows of whole blocks.
START_TEST(reader_agrees_with_the_decoded_golden_files)
{
    static const char *const types[] = { "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k",
                                         "q5_k", "q6_k", "iq4_nl", "iq4_xs" };

    TEST_NEEDS_SHARED();
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char rel[128];
        infq_filemap m, d;
        infq_gguf *g = NULL;
        infq_st *st = NULL;
        snprintf(rel, sizeof(rel), "goldens/quantized/gguf/%s.gguf", types[i]);
        ck_ok(infq_filemap_open(test_shared_path(rel), &m, &err), err);
        snprintf(rel, sizeof(rel), "goldens/quantized/gguf/%s.decoded.safetensors", types[i]);
        ck_ok(infq_filemap_open(test_shared_path(rel), &d, &err), err);
        ck_ok(infq_gguf_parse(m.data, m.size, &g, &err), err);
        ck_ok(infq_st_parse(d.data, d.size, &st, &err), err);
        ck_assert_uint_ge(infq_gguf_count(g), 1);
        for (size_t k = 0; k < infq_gguf_count(g); k++) {
            const infq_gguf_tensor *t = infq_gguf_get(g, k);
            const infq_st_tensor *x = infq_st_find(st, t->name);
            ck_assert_msg(x != NULL, "%s: no decoded %s", types[i], t->name);
            ck_assert_int_eq(x->n_dims, t->n_dims);
            ck_assert_int_eq(x->shape[x->n_dims - 1], t->shape[t->n_dims - 1]);
            ck_assert_uint_le(t->offset + t->n_bytes, m.size);
        }
        infq_gguf_free(g);
        infq_st_free(st);
        infq_filemap_close(&m);
        infq_filemap_close(&d);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("reader");

    tcase_add_test(t, reader_gives_the_verdict_of_every_golden_case);
    tcase_add_test(t, reader_reverses_dimensions_and_gives_offsets_of_the_file);
    tcase_add_test(t, reader_reads_numbers_strings_and_arrays);
    tcase_add_test(t, reader_refuses_every_prefix);
    tcase_add_test(t, reader_allocates_nothing_for_counts_that_cannot_fit);
    tcase_add_test(t, reader_calls_big_endian_files_by_name);
    tcase_add_test(t, reader_fails_cleanly_at_every_allocation);
    tcase_add_test(t, reader_agrees_with_the_decoded_golden_files);
    suite_add_tcase(s, t);
    return test_main(s);
}
