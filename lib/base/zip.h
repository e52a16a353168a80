/* One file out of a zip archive (stored or deflated; no encryption, no zip64). Format: PKWARE APPNOTE 6.3.10, 4.3 and 4.5. */
#ifndef INFQ_BASE_ZIP_H
#define INFQ_BASE_ZIP_H

#include "lib/base/buf.h"

/* Appends the member `name` of the archive in data[0..n). NOT_FOUND when there is none of that name; FORMAT for broken archives, a wrong
 * checksum, more than max_bytes; UNSUPPORTED for other compression. */
infq_status infq_zip_member(const uint8_t *data, size_t n, const char *name, size_t max_bytes, infq_buf *out, infq_err *err);

#endif
