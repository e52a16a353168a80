#include "lib/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"

infq_status infq_json_parse(const char *text, size_t n, const char *what, cJSON **out, infq_err *err)
{
    cJSON *tree;

    INFQ_TRY(infq_json_check(text, n, what, err));
    tree = cJSON_ParseWithLengthOpts(text, n, NULL, false);
    if (!tree)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: not readable as JSON", what);
    *out = tree;
    return INFQ_E_OK;
}

infq_status infq_json_load(const char *path, size_t max_bytes, cJSON **out, infq_err *err)
{
    infq_buf b;
    infq_status st;

    infq_buf_init(&b);
    st = infq_file_read(path, max_bytes, &b, err);
    if (!st)
        st = infq_json_parse(b.data, b.n, path, out, err);
    infq_buf_deinit(&b);
    return st;
}

const cJSON *infq_json_get(const cJSON *obj, const char *key)
{
    const cJSON *v = cJSON_IsObject(obj) ? cJSON_GetObjectItemCaseSensitive(obj, key) : NULL;

    return v && !cJSON_IsNull(v) ? v : NULL;
}

infq_status infq_json_i64(const cJSON *obj, const char *key, int64_t dflt, int64_t *out, infq_err *err)
{
    const cJSON *v = infq_json_get(obj, key);

    if (!v) {
        *out = dflt;
        return INFQ_E_OK;
    }
    if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) || fabs(v->valuedouble) > 9007199254740992.0)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not a whole number", key);
    *out = (int64_t)v->valuedouble;
    return INFQ_E_OK;
}

infq_status infq_json_f64(const cJSON *obj, const char *key, double dflt, double *out, infq_err *err)
{
    const cJSON *v = infq_json_get(obj, key);

    if (!v) {
        *out = dflt;
        return INFQ_E_OK;
    }
    if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not a number", key);
    *out = v->valuedouble;
    return INFQ_E_OK;
}

infq_status infq_json_bool(const cJSON *obj, const char *key, bool dflt, bool *out, infq_err *err)
{
    const cJSON *v = infq_json_get(obj, key);

    if (v && !cJSON_IsBool(v))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not true or false", key);
    *out = v ? cJSON_IsTrue(v) : dflt;
    return INFQ_E_OK;
}

infq_status infq_json_str(const cJSON *obj, const char *key, const char *dflt, const char **out, infq_err *err)
{
    const cJSON *v = infq_json_get(obj, key);

    if (v && !cJSON_IsString(v))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not a text", key);
    *out = v ? v->valuestring : dflt;
    return INFQ_E_OK;
}

infq_jw infq_jw_over(infq_buf *to, int indent)
{
    infq_jw w = { to, indent, 0, true, false };

    return w;
}

static void newline(infq_jw *w)
{
    if (!w->indent)
        return;
    infq_buf_char(w->to, '\n');
    for (int i = 0; i < w->depth * w->indent; i++)
        infq_buf_char(w->to, ' ');
}

// Comma and line break before a value or key.
static void before(infq_jw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (!w->first)
        infq_buf_char(w->to, ',');
    if (w->depth)
        newline(w);
    w->first = false;
}

static void opened(infq_jw *w, char c)
{
    before(w);
    infq_buf_char(w->to, c);
    w->depth++;
    w->first = true;
}

static void closed(infq_jw *w, char c)
{
    w->depth--;
    if (!w->first)
        newline(w);
    infq_buf_char(w->to, c);
    w->first = false;
}

void infq_jw_obj(infq_jw *w)
{
    opened(w, '{');
}

void infq_jw_end_obj(infq_jw *w)
{
    closed(w, '}');
}

void infq_jw_arr(infq_jw *w)
{
    opened(w, '[');
}

void infq_jw_end_arr(infq_jw *w)
{
    closed(w, ']');
}

static void quoted(infq_jw *w, const char *s, size_t n)
{
    infq_buf_char(w->to, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') {
            infq_buf_char(w->to, '\\');
            infq_buf_char(w->to, (char)c);
        } else if (c == '\n')
            infq_buf_str(w->to, "\\n");
        else if (c == '\t')
            infq_buf_str(w->to, "\\t");
        else if (c == '\r')
            infq_buf_str(w->to, "\\r");
        else if (c < 0x20 || c == 0x7f)
            infq_buf_fmt(w->to, "\\u%04x", c);
        else
            infq_buf_char(w->to, (char)c);
    }
    infq_buf_char(w->to, '"');
}

void infq_jw_key(infq_jw *w, const char *key)
{
    before(w);
    quoted(w, key, strlen(key));
    infq_buf_str(w->to, w->indent ? ": " : ":");
    w->after_key = true;
}

void infq_jw_strn(infq_jw *w, const char *s, size_t n)
{
    before(w);
    quoted(w, s, n);
}

void infq_jw_str(infq_jw *w, const char *s)
{
    infq_jw_strn(w, s, strlen(s));
}

void infq_jw_i64(infq_jw *w, int64_t v)
{
    before(w);
    infq_buf_fmt(w->to, "%lld", (long long)v);
}

void infq_jw_f64(infq_jw *w, double v)
{
    char text[40];

    before(w);
    if (!isfinite(v)) {
        infq_buf_str(w->to, "null");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    infq_buf_str(w->to, text);
}

void infq_jw_bool(infq_jw *w, bool v)
{
    before(w);
    infq_buf_str(w->to, v ? "true" : "false");
}

void infq_jw_null(infq_jw *w)
{
    before(w);
    infq_buf_str(w->to, "null");
}

void infq_jw_tree(infq_jw *w, const cJSON *t)
{
    const cJSON *c;

    if (cJSON_IsObject(t) || cJSON_IsArray(t)) {
        bool object = cJSON_IsObject(t);
        opened(w, object ? '{' : '[');
        cJSON_ArrayForEach(c, t)
        {
            if (object)
                infq_jw_key(w, c->string);
            infq_jw_tree(w, c);
        }
        closed(w, object ? '}' : ']');
    } else if (cJSON_IsString(t))
        infq_jw_str(w, t->valuestring);
    else if (cJSON_IsNumber(t) && t->valuedouble == floor(t->valuedouble) && fabs(t->valuedouble) < 9e15)
        infq_jw_i64(w, (int64_t)t->valuedouble);
    else if (cJSON_IsNumber(t))
        infq_jw_f64(w, t->valuedouble);
    else if (cJSON_IsBool(t))
        infq_jw_bool(w, cJSON_IsTrue(t));
    else
        infq_jw_null(w);
}

void infq_jw_key_str(infq_jw *w, const char *key, const char *s)
{
    infq_jw_key(w, key);
    infq_jw_str(w, s);
}

void infq_jw_key_i64(infq_jw *w, const char *key, int64_t v)
{
    infq_jw_key(w, key);
    infq_jw_i64(w, v);
}

void infq_jw_key_f64(infq_jw *w, const char *key, double v)
{
    infq_jw_key(w, key);
    infq_jw_f64(w, v);
}

void infq_jw_key_bool(infq_jw *w, const char *key, bool v)
{
    infq_jw_key(w, key);
    infq_jw_bool(w, v);
}
