#include "tests/testlib.h"

#include "lib/base/cursor.h"
#include "lib/base/str.h"
#include "lib/io/safetensors.h"

static infq_err err;

// A file with this header (padded by nothing) and n_data zero bytes.
static uint8_t *file_of(const char *header, size_t n_data, size_t *n)
{
    size_t h = strlen(header);
    uint8_t *p = infq_mem_calloc(1, 8 + h + n_data + 1);

    infq_store_u64le(p, h);
    memcpy(p + 8, header, h);
    *n = 8 + h + n_data;
    return p;
}

static infq_status parse_header(const char *header, size_t n_data, infq_st **st)
{
    size_t n;
    uint8_t *p = file_of(header, n_data, &n);
    infq_status rc = infq_st_parse(p, n, st, &err);

    infq_mem_free(p);
    return rc;
}

static void refused(const char *header, size_t n_data, const char *rule, const char *says)
{
    infq_st *st = NULL;

    ck_assert_int_ne(parse_header(header, n_data, &st), 0);
    ck_assert_str_eq(infq_st_reject_name(&err), rule);
    ck_assert_msg(strstr(err.msg, says) != NULL, "message \"%s\" does not say \"%s\"", err.msg, says);
}

// Where the strict reading differs from the reference reader, and the rule that refuses.
static const char *const exceptions[][2] = { { "dup_tensor_identical", "DuplicateName" },
                                             { "dup_tensor_differs", "DuplicateName" },
                                             { "dup_tensor_disjoint", "DuplicateName" },
                                             { "tensor_as_array", "ArrayEntry" } };

static const char *expected_rule(const cJSON *c)
{
    const char *name = infq_json_get(c, "name")->valuestring;

    for (size_t i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++)
        if (strcmp(exceptions[i][0], name) == 0)
            return exceptions[i][1];
    return cJSON_IsTrue(infq_json_get(c, "accept")) ? NULL : infq_json_get(c, "reference_error")->valuestring;
}

START_TEST(reader_gives_the_verdict_of_every_golden_case)
{
    cJSON *all;
    const cJSON *c;
    int n = 0;

    TEST_NEEDS_SHARED();
    all = test_json(test_shared_path("specs/vectors/safetensors_cases.json"));
    cJSON_ArrayForEach(c, infq_json_get(all, "cases"))
    {
        const char *name = infq_json_get(c, "name")->valuestring, *rule = expected_rule(c);
        size_t size;
        uint8_t *data = test_hex(infq_json_get(c, "hex")->valuestring, &size);
        infq_st *st = NULL;
        infq_status rc = infq_st_parse(data, size, &st, &err);

        n++;
        if (rule) {
            ck_assert_msg(rc != 0, "%s is accepted", name);
            ck_assert_msg(strcmp(infq_st_reject_name(&err), rule) == 0, "%s: %s, expected %s", name, err.msg, rule);
        } else {
            const cJSON *names = infq_json_get(c, "tensor_names"), *t;
            ck_assert_msg(rc == 0, "%s is refused: %s", name, err.msg);
            ck_assert_int_eq((int)infq_st_count(st), cJSON_GetArraySize(names));
            cJSON_ArrayForEach(t, names)
                ck_assert_msg(infq_st_find(st, t->valuestring) != NULL, "%s: no %s", name, t->valuestring);
        }
        infq_st_free(st);
        infq_mem_free(data);
    }
    ck_assert_int_eq(n, 61);
    cJSON_Delete(all);
}
END_TEST

START_TEST(reader_names_both_tensors_of_an_overlap)
{
    refused("{\"embed\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
            "\"lm_head\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
            24, "InvalidOffset", "\"embed\" and \"lm_head\" overlap");
}
END_TEST

START_TEST(reader_counts_the_bytes_that_no_tensor_covers)
{
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[16,20]}}", 20, "InvalidOffset", "16 bytes before");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 20, "MetadataIncompleteBuffer",
            "16 bytes at the end");
}
END_TEST

START_TEST(reader_finds_one_name_spelled_with_different_escapes)
{
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
            2, "DuplicateName", "\"a\" is there twice");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"sh\\u0061pe\":[2],\"data_offsets\":[0,1]}}", 1,
            "InvalidHeaderDeserialization", "twice");
}
END_TEST

START_TEST(reader_refuses_zero_characters_in_names)
{
    refused("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "NulInText", "U+0000");
}
END_TEST

START_TEST(reader_takes_a_written_backslash_before_u0000_as_text)
{
    infq_st *st = NULL;

    ck_ok(parse_header("{\"a\\\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, &st), err);
    ck_assert_ptr_nonnull(infq_st_find(st, "a\\u0000"));
    infq_st_free(st);
}
END_TEST

START_TEST(reader_refuses_nine_dimensions_and_reads_eight)
{
    infq_st *st = NULL;

    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "TooManyDimensions",
            "9 dimensions");
    ck_ok(parse_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,2,1,1,1,1],\"data_offsets\":[0,2]}}", 2, &st), err);
    ck_assert_int_eq(infq_st_get(st, 0)->n_dims, 8);
    ck_assert_int_eq(infq_st_get(st, 0)->n_elems, 2);
    infq_st_free(st);
}
END_TEST

START_TEST(reader_orders_tensors_by_offset_with_offsets_of_the_file)
{
    const char *h = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},\"z\":{\"dtype\":\"F32\",\"shape\":[0,3],"
                    "\"data_offsets\":[4,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";
    infq_st *st = NULL;

    ck_ok(parse_header(h, 6, &st), err);
    ck_assert_str_eq(infq_st_get(st, 0)->name, "a");
    ck_assert_str_eq(infq_st_get(st, 1)->name, "z");
    ck_assert_str_eq(infq_st_get(st, 2)->name, "b");
    ck_assert_uint_eq(infq_st_get(st, 2)->offset, 8 + strlen(h) + 4);
    ck_assert_int_eq(infq_st_get(st, 0)->n_elems, 1);
    ck_assert_int_eq(infq_st_get(st, 1)->n_elems, 0);
    ck_assert_ptr_null(infq_st_get(st, 3));
    ck_assert_ptr_null(infq_st_find(st, "c"));
    infq_st_free(st);
}
END_TEST

START_TEST(reader_calls_foreign_files_by_their_kind)
{
    static const char zip[] = "PK\3\4\24\0\0\0\10\10\0\0\0\0\0\0\0\0", pickle[] = "\x80\2}q\0(X\4\0\0\0";
    infq_st *st = NULL;

    ck_assert_int_eq(infq_st_parse((const uint8_t *)zip, sizeof(zip), &st, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "zip"));
    ck_assert_int_eq(infq_st_parse((const uint8_t *)pickle, sizeof(pickle), &st, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "pickle"));
}
END_TEST

START_TEST(reader_says_how_long_a_truncated_file_is)
{
    static const size_t lengths[] = { 0, 7, 8, 30, 72 };
    size_t n;
    uint8_t *p = file_of("{\"t\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16, &n);

    ck_assert_uint_eq(n, 81);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        infq_st *st = NULL;
        char says[40];
        ck_assert_int_eq(infq_st_parse(p, lengths[i], &st, &err), INFQ_E_FORMAT);
        snprintf(says, sizeof(says), "truncated: %zu bytes long", lengths[i]);
        ck_assert_msg(strstr(err.msg, says) != NULL, "%s", err.msg);
    }
    infq_mem_free(p);
}
END_TEST

START_TEST(reader_reads_files_of_other_writers)
{
    static const char *const folders[] = { "", "dtypes", "sharded" };
    int n_files = 0;

    TEST_NEEDS_SHARED();
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        const char *dir = test_in(test_shared_path("data/safetensors-samples"), folders[i]);
        char **names;
        size_t n;
        ck_ok(infq_dir_list(dir, &names, &n, &err), err);
        for (size_t k = 0; k < n; k++) {
            infq_filemap m;
            infq_st *st = NULL;
            uint64_t bytes = 0;
            if (!infq_str_ends(names[k], ".safetensors"))
                continue;
            ck_ok(infq_filemap_open(test_in(dir, names[k]), &m, &err), err);
            ck_ok(infq_st_parse(m.data, m.size, &st, &err), err);
            for (size_t t = 0; t < infq_st_count(st); t++)
                bytes += infq_st_get(st, t)->n_bytes;
            ck_assert_uint_ge(infq_st_count(st), 1);
            ck_assert_uint_eq(bytes + 8 + infq_load_u64le(m.data), m.size); // every byte has its tensor
            infq_st_free(st);
            infq_filemap_close(&m);
            n_files++;
        }
        infq_dir_list_free(names, n);
    }
    ck_assert_int_eq(n_files, 9);
}
END_TEST

START_TEST(reader_reads_a_large_header_fast_and_in_bounded_memory)
{
    const size_t n = 60000;
    infq_buf b;
    infq_st *st = NULL;
    int64_t before;

    infq_buf_init(&b);
    infq_buf_add(&b, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; i < n; i++)
        infq_buf_fmt(&b, "%s\"model.layers.%06zu.weight\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                     i ? "," : "", i, 2 * i, 2 * i + 2);
    infq_buf_str(&b, "}");
    infq_store_u64le(b.data, b.n - 8);
    for (size_t i = 0; i < n; i++)
        infq_buf_add(&b, "\0\0", 2);
    ck_ok(infq_buf_status(&b, &err), err);
    infq_mem_peak_reset();
    before = (int64_t)infq_mem_stats_get().live_bytes;
    ck_ok(infq_st_parse((uint8_t *)b.data, b.n, &st, &err), err);
    ck_assert_uint_eq(infq_st_count(st), n);
    ck_assert_str_eq(infq_st_find(st, "model.layers.059999.weight")->name, "model.layers.059999.weight");
    // Text of the header, twice the list while it grows, the map: 7 times the header is ample, a tree takes more.
    ck_assert_int_lt((int64_t)infq_mem_stats_get().peak_bytes - before, (int64_t)(7 * b.n));
    infq_st_free(st);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(reader_fails_cleanly_at_every_allocation)
{
    size_t n, live = infq_mem_stats_get().n_live;
    uint8_t *p = file_of("{\"__metadata__\":{\"k\":\"v\"},\"a\\n\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
                         &n);
    infq_st *st = NULL;
    size_t at;

    for (at = 1; at < 1000; at++) {
        infq_mem_fail_at(at);
        if (infq_st_parse(p, n, &st, &err) == 0)
            break;
        infq_mem_fail_at(0);
        ck_assert_int_eq(err.code, INFQ_E_NOMEM);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live + 1);
    }
    infq_mem_fail_at(0);
    ck_assert_uint_gt(at, 5);
    infq_st_free(st);
    infq_mem_free(p);
}
END_TEST

static void add(infq_st_layout *l, const char *name, infq_dtype t, int64_t rows, int64_t cols)
{
    int64_t shape[2] = { rows, cols };

    ck_ok(infq_st_layout_add(l, name, t, cols < 0 ? 1 : 2, shape, &err), err);
}

static infq_st_layout *sample_layout(bool reversed)
{
    static const struct {
        const char *name;
        infq_dtype t;
        int64_t rows, cols;
    } items[] = { { "b", INFQ_DTYPE_U8, 3, -1 },      { "a", INFQ_DTYPE_U8, 5, -1 },   { "w", INFQ_DTYPE_BF16, 3, 3 },
                  { "q\"\n\xc3\xa9", INFQ_DTYPE_I32, 1, 3 }, { "z", INFQ_DTYPE_F32, 0, 4 }, { "d", INFQ_DTYPE_F64, 1, -1 } };
    const size_t n = sizeof(items) / sizeof(items[0]);
    infq_st_layout *l = NULL;

    ck_ok(infq_st_layout_new(&l, &err), err);
    for (size_t k = 0; k < n; k++) {
        size_t i = reversed ? n - 1 - k : k;
        add(l, items[i].name, items[i].t, items[i].rows, items[i].cols);
    }
    ck_ok(infq_st_layout_meta(l, "made_by", "a test", &err), err);
    ck_ok(infq_st_layout_meta(l, "format", "tf", &err), err);
    ck_ok(infq_st_layout_seal(l, &err), err);
    return l;
}

START_TEST(writer_orders_by_dtype_then_name_with_metadata_first)
{
    static const char begin[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"made_by\":\"a test\"},"
        "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[8,8]},\"q\\\"\\n\xc3\xa9\":";
    static const char *const order[] = { "d", "z", "q\"\n\xc3\xa9", "w", "a", "b" };
    infq_st_layout *l = sample_layout(false);
    const infq_buf *h = infq_st_layout_header(l);

    ck_assert_uint_eq(infq_st_layout_count(l), 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_str_eq(infq_st_layout_get(l, i)->name, order[i]);
    ck_assert_msg(infq_str_starts(h->data + 8, begin), "%s", h->data + 8);
    infq_st_layout_free(l);
}
END_TEST

START_TEST(writer_gives_the_same_bytes_for_any_order_of_adding)
{
    infq_st_layout *a = sample_layout(false), *b = sample_layout(true);

    ck_assert_uint_eq(infq_st_layout_header(a)->n, infq_st_layout_header(b)->n);
    ck_assert_mem_eq(infq_st_layout_header(a)->data, infq_st_layout_header(b)->data, infq_st_layout_header(a)->n);
    infq_st_layout_free(a);
    infq_st_layout_free(b);
}
END_TEST

START_TEST(writer_aligns_data_to_8_and_every_tensor_to_its_elements)
{
    infq_st_layout *l = sample_layout(false);

    ck_assert_uint_eq(infq_st_layout_header(l)->n % 8, 0);
    ck_assert_uint_eq(infq_st_layout_get(l, 0)->offset, infq_st_layout_header(l)->n);
    for (size_t i = 0; i < infq_st_layout_count(l); i++) {
        const infq_st_tensor *t = infq_st_layout_get(l, i);
        ck_assert_uint_eq(t->offset % (uint64_t)((infq_dtype_bits(t->dtype) + 7) / 8), 0);
        ck_assert_ptr_eq(infq_st_layout_find(l, t->name), t);
    }
    infq_st_layout_free(l);
}
END_TEST

START_TEST(reader_reads_what_the_writer_laid_out)
{
    infq_st_layout *l = sample_layout(false);
    size_t n = (size_t)infq_st_layout_file_bytes(l);
    uint8_t *p = infq_mem_calloc(1, n);
    const char *key, *value;
    infq_st *st = NULL;

    memcpy(p, infq_st_layout_header(l)->data, infq_st_layout_header(l)->n);
    ck_ok(infq_st_parse(p, n, &st, &err), err);
    ck_assert_uint_eq(infq_st_count(st), infq_st_layout_count(l));
    for (size_t i = 0; i < infq_st_count(st); i++) {
        const infq_st_tensor *a = infq_st_get(st, i), *b = infq_st_layout_find(l, a->name);
        ck_assert_ptr_nonnull(b);
        ck_assert_uint_eq(a->offset, b->offset);
        ck_assert_uint_eq(a->n_bytes, b->n_bytes);
        ck_assert_int_eq(a->dtype, b->dtype);
    }
    ck_assert_uint_eq(infq_st_meta_count(st), 2);
    infq_st_meta_get(st, 1, &key, &value);
    ck_assert_str_eq(key, "made_by");
    ck_assert_str_eq(value, "a test");
    infq_st_free(st);
    infq_mem_free(p);
    infq_st_layout_free(l);
}
END_TEST

START_TEST(writer_makes_legal_json_without_tensors)
{
    infq_st_layout *l = NULL;
    infq_st *st = NULL;
    const infq_buf *h;

    ck_ok(infq_st_layout_new(&l, &err), err);
    ck_ok(infq_st_layout_seal(l, &err), err);
    h = infq_st_layout_header(l);
    ck_assert_uint_eq(infq_st_layout_file_bytes(l), h->n);
    ck_assert_str_eq(h->data + 8, "{\"__metadata__\":{\"format\":\"pt\"}}");
    ck_ok(infq_st_parse((const uint8_t *)h->data, h->n, &st, &err), err);
    ck_assert_uint_eq(infq_st_count(st), 0);
    infq_st_free(st);
    infq_st_layout_free(l);
}
END_TEST

START_TEST(writer_refuses_duplicates_overflow_odd_nibbles_and_broken_names)
{
    int64_t huge[2] = { INT64_MAX, 2 }, odd[1] = { 3 };
    infq_st_layout *l = NULL;

    ck_ok(infq_st_layout_new(&l, &err), err);
    ck_assert_int_eq(infq_st_layout_add(l, "h", INFQ_DTYPE_U8, 2, huge, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_st_layout_add(l, "h", INFQ_DTYPE_F64, 1, huge, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_st_layout_add(l, "f4", INFQ_DTYPE_F4, 1, odd, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_st_layout_add(l, "\xff", INFQ_DTYPE_U8, 1, odd, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_st_layout_add(l, "__metadata__", INFQ_DTYPE_U8, 1, odd, &err), INFQ_E_FORMAT);
    ck_ok(infq_st_layout_meta(l, "k", "1", &err), err);
    ck_ok(infq_st_layout_meta(l, "k", "1", &err), err);
    ck_assert_int_eq(infq_st_layout_meta(l, "k", "2", &err), INFQ_E_MISMATCH);
    add(l, "a", INFQ_DTYPE_U8, 3, -1);
    add(l, "a", INFQ_DTYPE_F32, 3, -1);
    ck_assert_int_eq(infq_st_layout_seal(l, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "\"a\""));
    infq_st_layout_free(l);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("safetensors");
    TCase *r = tcase_create("reader"), *w = tcase_create("writer");

    tcase_add_test(r, reader_gives_the_verdict_of_every_golden_case);
    tcase_add_test(r, reader_names_both_tensors_of_an_overlap);
    tcase_add_test(r, reader_counts_the_bytes_that_no_tensor_covers);
    tcase_add_test(r, reader_finds_one_name_spelled_with_different_escapes);
    tcase_add_test(r, reader_refuses_zero_characters_in_names);
    tcase_add_test(r, reader_takes_a_written_backslash_before_u0000_as_text);
    tcase_add_test(r, reader_refuses_nine_dimensions_and_reads_eight);
    tcase_add_test(r, reader_orders_tensors_by_offset_with_offsets_of_the_file);
    tcase_add_test(r, reader_calls_foreign_files_by_their_kind);
    tcase_add_test(r, reader_says_how_long_a_truncated_file_is);
    tcase_add_test(r, reader_reads_files_of_other_writers);
    tcase_add_test(r, reader_reads_a_large_header_fast_and_in_bounded_memory);
    tcase_add_test(r, reader_fails_cleanly_at_every_allocation);
    tcase_add_test(w, writer_orders_by_dtype_then_name_with_metadata_first);
    tcase_add_test(w, writer_gives_the_same_bytes_for_any_order_of_adding);
    tcase_add_test(w, writer_aligns_data_to_8_and_every_tensor_to_its_elements);
    tcase_add_test(w, reader_reads_what_the_writer_laid_out);
    tcase_add_test(w, writer_makes_legal_json_without_tensors);
    tcase_add_test(w, writer_refuses_duplicates_overflow_odd_nibbles_and_broken_names);
    suite_add_tcase(s, r);
    suite_add_tcase(s, w);
    return test_main(s);
}
