/* Downloads by libcurl: https:// and file:// only, redirects followed, certificates checked. Nothing is fetched unless a user's command asks. */
#ifndef INFQ_BASE_FETCH_H
#define INFQ_BASE_FETCH_H

#include "lib/base/buf.h"
#include "lib/base/log.h"

/* Appends what url holds; progress in bytes, named `what`. NOT_FOUND: the server (or file system) has no such thing; IO with the reason otherwise;
 * FORMAT beyond max_bytes; INTERRUPTED after a signal. */
infq_status infq_fetch(const char *url, size_t max_bytes, const char *what, const infq_log *log, infq_buf *out, infq_err *err);

#endif
