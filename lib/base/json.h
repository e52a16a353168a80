/* JSON on cJSON, with the strictness that file formats need. */
#ifndef INFQ_BASE_JSON_H
#define INFQ_BASE_JSON_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "lib/base/buf.h"

/* RFC 8259 to the letter, checked before cJSON sees the text: UTF-8, numbers (no 02, .5, 1.), escapes (no
 * lone surrogates), no trailing bytes, nesting at most 128, no key twice in one object. FORMAT with line
 * and column. The tree is freed with cJSON_Delete. `what` names the text in messages ("config.json"). */
infq_status infq_json_parse(const char *text, size_t n, const char *what, cJSON **out, infq_err *err);
/* The check alone, for readers that cut huge documents into members themselves. */
infq_status infq_json_check(const char *text, size_t n, const char *what, infq_err *err);
/* Reads a file (at most max_bytes) and parses it. */
infq_status infq_json_load(const char *path, size_t max_bytes, cJSON **out, infq_err *err);

/* Typed members. get: absent or null gives the default, another type is FORMAT naming the key. */
infq_status infq_json_i64(const cJSON *obj, const char *key, int64_t dflt, int64_t *out, infq_err *err);
infq_status infq_json_f64(const cJSON *obj, const char *key, double dflt, double *out, infq_err *err);
infq_status infq_json_bool(const cJSON *obj, const char *key, bool dflt, bool *out, infq_err *err);
/* Borrowed from the tree. */
infq_status infq_json_str(const cJSON *obj, const char *key, const char *dflt, const char **out, infq_err *err);
/* Case-sensitive member, NULL if absent or JSON null. */
const cJSON *infq_json_get(const cJSON *obj, const char *key);

/* Writer of our own documents: strings escaped, doubles with 17 significant digits cut to the shortest
 * that reads back equal, non-finite as null. indent 0 = one line. Order is the order of the calls. */
typedef struct {
    infq_buf *to;
    int indent, depth;
    bool first, after_key;
} infq_jw;
infq_jw infq_jw_over(infq_buf *to, int indent);
void infq_jw_obj(infq_jw *w);
void infq_jw_end_obj(infq_jw *w);
void infq_jw_arr(infq_jw *w);
void infq_jw_end_arr(infq_jw *w);
void infq_jw_key(infq_jw *w, const char *key);
void infq_jw_str(infq_jw *w, const char *s);
void infq_jw_strn(infq_jw *w, const char *s, size_t n);
void infq_jw_i64(infq_jw *w, int64_t v);
void infq_jw_f64(infq_jw *w, double v);
void infq_jw_bool(infq_jw *w, bool v);
void infq_jw_null(infq_jw *w);
void infq_jw_tree(infq_jw *w, const cJSON *tree);
/* Key and value. */
void infq_jw_key_str(infq_jw *w, const char *key, const char *s);
void infq_jw_key_i64(infq_jw *w, const char *key, int64_t v);
void infq_jw_key_f64(infq_jw *w, const char *key, double v);
void infq_jw_key_bool(infq_jw *w, const char *key, bool v);

#endif
