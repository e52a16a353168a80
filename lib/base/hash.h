/* SHA-256 (OpenSSL libcrypto) as lower-case hex. */
#ifndef INFQ_BASE_HASH_H
#define INFQ_BASE_HASH_H

#include <stdint.h>

#include "lib/base/err.h"

typedef struct infq_sha256 infq_sha256;
infq_status infq_sha256_new(infq_sha256 **out, infq_err *err);
void infq_sha256_free(infq_sha256 *h);
infq_status infq_sha256_add(infq_sha256 *h, const void *p, size_t n, infq_err *err);
infq_status infq_sha256_end(infq_sha256 *h, char hex[65], infq_err *err);
infq_status infq_sha256_of(const void *p, size_t n, char hex[65], infq_err *err);
infq_status infq_sha256_file(const char *path, char hex[65], infq_err *err);

#endif
