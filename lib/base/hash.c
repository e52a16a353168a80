#include "lib/base/hash.h"

#include <openssl/evp.h>

#include "lib/base/file.h"

struct infq_sha256 {
    EVP_MD_CTX *ctx;
};

static infq_status failed(infq_err *err)
{
    return infq_err_set(err, INFQ_E_NOMEM, "sha-256 failed in the crypto library");
}

infq_status infq_sha256_new(infq_sha256 **out, infq_err *err)
{
    infq_sha256 *h;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*h), "sha-256", &p, err));
    h = p;
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        infq_sha256_free(h);
        return failed(err);
    }
    *out = h;
    return INFQ_E_OK;
}

void infq_sha256_free(infq_sha256 *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    infq_mem_free(h);
}

infq_status infq_sha256_add(infq_sha256 *h, const void *p, size_t n, infq_err *err)
{
    return EVP_DigestUpdate(h->ctx, p, n) == 1 ? INFQ_E_OK : failed(err);
}

infq_status infq_sha256_end(infq_sha256 *h, char hex[65], infq_err *err)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (EVP_DigestFinal_ex(h->ctx, md, &n) != 1 || n != 32)
        return failed(err);
    for (unsigned i = 0; i < 32; i++) {
        hex[2 * i] = digits[md[i] >> 4];
        hex[2 * i + 1] = digits[md[i] & 15];
    }
    hex[64] = '\0';
    return INFQ_E_OK;
}

infq_status infq_sha256_of(const void *p, size_t n, char hex[65], infq_err *err)
{
    infq_sha256 *h;
    infq_status st;

    INFQ_TRY(infq_sha256_new(&h, err));
    st = infq_sha256_add(h, p, n, err);
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}

infq_status infq_sha256_file(const char *path, char hex[65], infq_err *err)
{
    const size_t step = (size_t)8 << 20;
    infq_sha256 *h = NULL;
    infq_filemap m;
    infq_status st;

    INFQ_TRY(infq_filemap_open(path, &m, err));
    st = infq_sha256_new(&h, err);
    for (size_t at = 0; !st && at < m.size; at += step) {
        size_t n = m.size - at < step ? m.size - at : step;
        st = infq_sha256_add(h, m.data + at, n, err);
        infq_filemap_drop(&m, at, n);
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    infq_filemap_close(&m);
    return st;
}
