#include "lib/base/zip.h"

#include <string.h>
#include <zlib.h>

#include "lib/base/cursor.h"

#define EOCD_BYTES 22
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30

/* The record at the end, behind which a comment of at most 65535 bytes stands. */
static const uint8_t *find_end(const uint8_t *data, size_t n)
{
    size_t least = n > EOCD_BYTES + 65535 ? n - EOCD_BYTES - 65535 : 0;

    for (size_t at = n < EOCD_BYTES ? 0 : n - EOCD_BYTES; n >= EOCD_BYTES; at--) {
        if (memcmp(data + at, "PK\5\6", 4) == 0)
            return data + at;
        if (at == least)
            break;
    }
    return NULL;
}

static infq_status inflate_raw(const uint8_t *src, size_t n_src, size_t n_dst, infq_buf *out, infq_err *err)
{
    z_stream z;
    char *dst = infq_mem_alloc(n_dst + 1);
    int rc;

    if (!dst)
        return infq_err_set(err, INFQ_E_NOMEM, "a member of %zu bytes does not fit in memory", n_dst);
    memset(&z, 0, sizeof(z));
    z.next_in = (Bytef *)(uintptr_t)src; // zlib takes it unqualified and does not write
    z.avail_in = (uInt)n_src;
    z.next_out = (Bytef *)dst;
    z.avail_out = (uInt)n_dst;
    rc = inflateInit2(&z, -MAX_WBITS);
    if (rc == Z_OK) {
        rc = inflate(&z, Z_FINISH);
        inflateEnd(&z);
    }
    if (rc == Z_STREAM_END && z.total_out == n_dst)
        infq_buf_add(out, dst, n_dst);
    infq_mem_free(dst);
    if (rc != Z_STREAM_END || z.total_out != n_dst)
        return infq_err_set(err, INFQ_E_FORMAT, "the archive's data is broken");
    return infq_buf_status(out, err);
}

/* The member whose central entry is e. */
static infq_status extract(const uint8_t *data, size_t n, const uint8_t *e, size_t max_bytes, infq_buf *out, infq_err *err)
{
    uint32_t method = infq_load_u16le(e + 10), crc = infq_load_u32le(e + 16);
    size_t packed = infq_load_u32le(e + 20), size = infq_load_u32le(e + 24), at = infq_load_u32le(e + 42), from = out->n;

    if (infq_load_u16le(e + 8) & 1)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the archive is encrypted");
    if (method != 0 && method != 8)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the archive's compression method %u is not known", method);
    if (size > max_bytes)
        return infq_err_set(err, INFQ_E_FORMAT, "the member has %zu bytes, at most %zu are read", size, max_bytes);
    if (at > n || n - at < LOCAL_BYTES || memcmp(data + at, "PK\3\4", 4) != 0)
        return infq_err_set(err, INFQ_E_FORMAT, "the archive's entry points nowhere");
    at += LOCAL_BYTES + infq_load_u16le(data + at + 26) + infq_load_u16le(data + at + 28);
    if (at > n || n - at < packed || (method == 0 && packed != size))
        return infq_err_set(err, INFQ_E_FORMAT, "the archive is cut");
    if (method == 8)
        INFQ_TRY(inflate_raw(data + at, packed, size, out, err));
    else
        infq_buf_add(out, data + at, size);
    INFQ_TRY(infq_buf_status(out, err));
    if (crc32(crc32(0, NULL, 0), (const Bytef *)out->data + from, (uInt)size) != crc)
        return infq_err_set(err, INFQ_E_FORMAT, "the member's checksum is wrong");
    return 0;
}

infq_status infq_zip_member(const uint8_t *data, size_t n, const char *name, size_t max_bytes, infq_buf *out, infq_err *err)
{
    const uint8_t *end = find_end(data, n);
    size_t at, count, n_name = strlen(name);

    if (!end)
        return infq_err_set(err, INFQ_E_FORMAT, "not a zip archive");
    at = infq_load_u32le(end + 16);
    count = infq_load_u16le(end + 10);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *e = data + at;
        size_t len;
        if (at > n || n - at < ENTRY_BYTES || memcmp(e, "PK\1\2", 4) != 0)
            return infq_err_set(err, INFQ_E_FORMAT, "the archive's list of files is broken");
        len = infq_load_u16le(e + 28);
        if (n - at - ENTRY_BYTES < len)
            return infq_err_set(err, INFQ_E_FORMAT, "the archive's list of files is cut");
        if (len == n_name && memcmp(e + ENTRY_BYTES, name, len) == 0)
            return extract(data, n, e, max_bytes, out, err);
        at += ENTRY_BYTES + len + infq_load_u16le(e + 30) + infq_load_u16le(e + 32);
    }
    return infq_err_set(err, INFQ_E_NOT_FOUND, "the archive has no %s", name);
}
