/* Changes one top-level member of JSON text and leaves every other byte as it was (config.json keeps its order, spelling and
 * white space). The text was checked by infq_json_parse before and is an object. */
#ifndef INFQ_BASE_JSON_EDIT_H
#define INFQ_BASE_JSON_EDIT_H

#include "lib/base/buf.h"

/* Replaces the value of `key`, or appends the member behind the last one in the text's own indentation. value is JSON text. */
infq_status infq_json_set(const char *text, size_t n, const char *key, const char *value, infq_buf *out, infq_err *err);
/* Removes the member with its comma; a text without it is copied. */
infq_status infq_json_remove(const char *text, size_t n, const char *key, infq_buf *out, infq_err *err);

#endif
