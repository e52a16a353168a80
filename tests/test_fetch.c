/* Downloads from file:// addresses, and files out of zip archives. */
#include "tests/testlib.h"

#include <zlib.h>

#include "lib/base/cursor.h"
#include "lib/base/fetch.h"
#include "lib/base/zip.h"

static const char *url_of(const char *text)
{
    static char url[600];
    char path[512];
    infq_err err;

    snprintf(path, sizeof(path), "%s/a.txt", test_tmpdir());
    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
    snprintf(url, sizeof(url), "file://%s", path);
    return url;
}

START_TEST(a_file_address_is_read_up_to_the_limit)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    infq_buf_str(&b, "x");
    ck_ok(infq_fetch(url_of("hello"), 5, "a", NULL, &b, &err), err);
    ck_assert_str_eq(b.data, "xhello");
    ck_assert_int_eq(infq_fetch(url_of("hello!"), 5, "a", NULL, &b, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_fetch("file:///nowhere/at/all", 5, "a", NULL, &b, &err), INFQ_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "file:///nowhere/at/all"));
    ck_assert_int_eq(infq_fetch("http://127.0.0.1:1/x", 5, "a", NULL, &b, &err), INFQ_E_IO);
    infq_buf_deinit(&b);
}
END_TEST

static void put16(infq_buf *b, unsigned v)
{
    uint8_t p[2];

    infq_store_u16le(p, (uint16_t)v);
    infq_buf_add(b, p, 2);
}

static void put32(infq_buf *b, uint32_t v)
{
    uint8_t p[4];

    infq_store_u32le(p, v);
    infq_buf_add(b, p, 4);
}

/* Adds a local entry and its line of the central list. */
static void add_member(infq_buf *zip, infq_buf *list, const char *name, const char *text, bool deflate_it)
{
    uint8_t packed[4096];
    size_t n = strlen(text), n_packed = n;
    uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)n), at = (uint32_t)zip->n;
    infq_buf *to[2] = {zip, list};

    memcpy(packed, text, n);
    if (deflate_it) {
        z_stream z;
        memset(&z, 0, sizeof(z));
        ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
        z.next_in = (Bytef *)(uintptr_t)text;
        z.avail_in = (uInt)n;
        z.next_out = packed;
        z.avail_out = sizeof(packed);
        ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
        n_packed = z.total_out;
        deflateEnd(&z);
    }
    for (int i = 0; i < 2; i++) {
        infq_buf_add(to[i], i == 0 ? "PK\3\4" : "PK\1\2", 4);
        if (i == 1)
            put16(to[i], 20);
        put16(to[i], 20);
        put16(to[i], 0);
        put16(to[i], deflate_it ? 8 : 0);
        put32(to[i], 0);
        put32(to[i], crc);
        put32(to[i], (uint32_t)n_packed);
        put32(to[i], (uint32_t)n);
        put16(to[i], (unsigned)strlen(name));
        put16(to[i], 0);
        if (i == 1) {
            put16(to[i], 0);
            put32(to[i], 0);
            put32(to[i], 0);
            put32(to[i], at);
        }
        infq_buf_str(to[i], name);
    }
    infq_buf_add(zip, packed, n_packed);
}

static void finish_zip(infq_buf *zip, infq_buf *list, unsigned count)
{
    uint32_t at = (uint32_t)zip->n;

    infq_buf_add(zip, list->data, list->n);
    infq_buf_add(zip, "PK\5\6", 4);
    put32(zip, 0);
    put16(zip, count);
    put16(zip, count);
    put32(zip, (uint32_t)list->n);
    put32(zip, at);
    put16(zip, 3);
    infq_buf_str(zip, "bye");
    infq_buf_deinit(list);
}

static void make_zip(infq_buf *zip)
{
    infq_buf list;

    infq_buf_init(zip);
    infq_buf_init(&list);
    add_member(zip, &list, "dir/a.txt", "stored text", false);
    add_member(zip, &list, "dir/b.txt", "packed packed packed packed packed text", true);
    finish_zip(zip, &list, 2);
}

START_TEST(members_of_an_archive_come_out_by_name)
{
    infq_buf zip, out;
    infq_err err;

    make_zip(&zip);
    infq_buf_init(&out);
    ck_ok(infq_zip_member((const uint8_t *)zip.data, zip.n, "dir/a.txt", 100, &out, &err), err);
    ck_assert_str_eq(out.data, "stored text");
    ck_ok(infq_zip_member((const uint8_t *)zip.data, zip.n, "dir/b.txt", 100, &out, &err), err);
    ck_assert_str_eq(out.data, "stored textpacked packed packed packed packed text");
    ck_assert_int_eq(infq_zip_member((const uint8_t *)zip.data, zip.n, "dir/b.tx", 100, &out, &err), INFQ_E_NOT_FOUND);
    ck_assert_int_eq(infq_zip_member((const uint8_t *)zip.data, zip.n, "dir/b.txt", 10, &out, &err), INFQ_E_FORMAT);
    infq_buf_deinit(&out);
    infq_buf_deinit(&zip);
}
END_TEST

/* Every cut and every changed byte gives an error or the right text, and never a read outside. */
START_TEST(broken_archives_are_refused)
{
    infq_buf zip, out;
    infq_err err;

    make_zip(&zip);
    infq_buf_init(&out);
    for (size_t n = 0; n < zip.n; n++) {
        char *part = infq_mem_alloc(n + 1); // its own block, so that a sanitizer sees reads behind it
        memcpy(part, zip.data, n);
        infq_buf_clear(&out);
        if (n + 3 < zip.n) // the comment may be cut
            ck_assert_int_ne(infq_zip_member((const uint8_t *)part, n, "dir/b.txt", 100, &out, &err), 0);
        infq_mem_free(part);
    }
    for (size_t i = 0; i < zip.n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            zip.data[i] ^= (char)(1 << bit);
            infq_buf_clear(&out);
            if (infq_zip_member((const uint8_t *)zip.data, zip.n, "dir/b.txt", 100, &out, &err) == 0)
                ck_assert_str_eq(out.data, "packed packed packed packed packed text");
            zip.data[i] ^= (char)(1 << bit);
        }
    }
    infq_buf_deinit(&out);
    infq_buf_deinit(&zip);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fetch");
    TCase *t = tcase_create("fetch");

    tcase_add_test(t, a_file_address_is_read_up_to_the_limit);
    tcase_add_test(t, members_of_an_archive_come_out_by_name);
    tcase_add_test(t, broken_archives_are_refused);
    suite_add_tcase(s, t);
    return test_main(s);
}
