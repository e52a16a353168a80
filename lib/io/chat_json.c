/* JSON in and out of chat templates. cJSON does not tell 1 from 1.0, which Python prints differently, so numbers are
 * read here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/io/chat_int.h"

typedef struct {
    chat_run *r;
    const char *s;     /* RFC 8259, checked, NUL-terminated */
    size_t at;
} reader;

static void skip_space(reader *j)
{
    while (j->s[j->at] == ' ' || j->s[j->at] == '\t' || j->s[j->at] == '\n' || j->s[j->at] == '\r')
        j->at++;
}

static uint32_t hex4(const char *s)
{
    char part[5];

    memcpy(part, s, 4);
    part[4] = '\0';
    return (uint32_t)strtoul(part, NULL, 16);
}

static infq_status read_string(reader *j, chat_value *out)
{
    infq_buf b;

    infq_buf_init(&b);
    for (j->at++; j->s[j->at] != '"'; j->at++) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        char c = j->s[j->at], u[4];
        uint32_t cp;

        if (c != '\\') {
            infq_buf_char(&b, c);
            continue;
        }
        c = j->s[++j->at];
        if (c != 'u') {
            infq_buf_char(&b, to[strchr(from, c) - from]);
            continue;
        }
        cp = hex4(j->s + j->at + 1);
        j->at += 4;
        if (cp >= 0xd800 && cp < 0xdc00) { // the check has seen the second half
            cp = 0x10000 + ((cp - 0xd800) << 10) + (hex4(j->s + j->at + 3) - 0xdc00);
            j->at += 6;
        }
        infq_buf_add(&b, u, infq_utf8_put(cp, u));
    }
    j->at++;
    return infq_chat_take(j->r, &b, out);
}

static infq_status read_number(reader *j, chat_value *out)
{
    const char *from = j->s + j->at;
    size_t n = strspn(from, "+-0123456789.eE");
    char *end;

    j->at += n;
    if (strcspn(from, ".eE") < n) {
        *out = infq_chat_float(strtod(from, &end));
        return INFQ_E_OK;
    }
    errno = 0;
    *out = infq_chat_int(strtoll(from, &end, 10));
    if (errno)
        return infq_chat_fail(j->r, INFQ_E_UNSUPPORTED, "the integer %.*s is too large", n > 40 ? 40 : (int)n, from);
    return INFQ_E_OK;
}

static infq_status read_value(reader *j, chat_value *out);

static infq_status read_object(reader *j, chat_value *out)
{
    INFQ_TRY(infq_chat_dict_new(j->r, out));
    j->at++;
    for (skip_space(j); j->s[j->at] != '}'; skip_space(j)) {
        chat_value key, v;
        if (j->s[j->at] == ',')
            j->at++;
        skip_space(j);
        INFQ_TRY(read_string(j, &key));
        skip_space(j);
        j->at++; // colon
        INFQ_TRY(read_value(j, &v));
        INFQ_TRY(infq_chat_dict_put(j->r, out->u.dict, key, v));
    }
    j->at++;
    return INFQ_E_OK;
}

static infq_status read_array(reader *j, chat_value *out)
{
    INFQ_TRY(infq_chat_list_new(j->r, out));
    j->at++;
    for (skip_space(j); j->s[j->at] != ']'; skip_space(j)) {
        chat_value v;
        if (j->s[j->at] == ',')
            j->at++;
        INFQ_TRY(read_value(j, &v));
        INFQ_TRY(infq_chat_list_add(j->r, out->u.list, v));
    }
    j->at++;
    return INFQ_E_OK;
}

// Nesting is bounded by the check before.
static infq_status read_value(reader *j, chat_value *out)
{
    skip_space(j);
    switch (j->s[j->at]) {
    case '{':
        return read_object(j, out);
    case '[':
        return read_array(j, out);
    case '"':
        return read_string(j, out);
    case 't':
        j->at += 4;
        *out = infq_chat_bool(true);
        return INFQ_E_OK;
    case 'f':
        j->at += 5;
        *out = infq_chat_bool(false);
        return INFQ_E_OK;
    case 'n':
        j->at += 4;
        *out = infq_chat_none();
        return INFQ_E_OK;
    default:
        return read_number(j, out);
    }
}

infq_status infq_chat_from_json(chat_run *r, const char *text, size_t n, chat_value *out)
{
    reader j = { r, text, 0 };
    char *copy;
    infq_status st;

    INFQ_TRY(infq_json_check(text, n, "chat variables", r->err));
    copy = infq_mem_strndup(text, n);
    if (!copy)
        return infq_err_set(r->err, INFQ_E_NOMEM, "chat variables of %zu bytes need memory", n);
    j.s = copy;
    st = read_value(&j, out);
    infq_mem_free(copy);
    return st;
}

static void put_string(const char *s, size_t n, bool ascii, infq_buf *to)
{
    size_t len;

    infq_buf_char(to, '"');
    for (size_t at = 0; at < n; at += len) {
        static const char from[] = "\"\\\b\f\n\r\t", esc[] = "\"\\bfnrt";
        uint32_t cp = infq_utf8_next(s + at, n - at, &len);
        const char *hit = cp > 0 && cp < 0x80 ? strchr(from, (int)cp) : NULL;

        if (hit)
            infq_buf_fmt(to, "\\%c", esc[hit - from]);
        else if (cp < 0x20 || (ascii && cp > 0x7e && cp < 0x10000))
            infq_buf_fmt(to, "\\u%04x", (unsigned)cp);
        else if (ascii && cp >= 0x10000)
            infq_buf_fmt(to, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                         (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
        else
            infq_buf_add(to, s + at, len);
    }
    infq_buf_char(to, '"');
}

static void new_line(const chat_json_style *s, int64_t level, infq_buf *to)
{
    if (s->indent < 0)
        return;
    infq_buf_char(to, '\n');
    for (int64_t i = 0; i < s->indent * level; i++)
        infq_buf_char(to, ' ');
}

static infq_status put_key(chat_run *r, const chat_value *k, const chat_json_style *s, infq_buf *to)
{
    infq_buf b;
    infq_status st = INFQ_E_OK;

    if (k->type == CHAT_STR) {
        put_string(k->u.str.s, k->u.str.n, s->ascii, to);
        return INFQ_E_OK;
    }
    infq_buf_init(&b); // numbers, booleans and none become strings
    st = infq_chat_to_json(r, k, s, 0, &b);
    put_string(b.data, b.n, s->ascii, to);
    infq_buf_deinit(&b);
    return st;
}

// Indices of the keys in the order of output.
static infq_status key_order(chat_run *r, const chat_dict *d, bool sorted, int64_t **out)
{
    void *p;
    int64_t *at;

    INFQ_TRY(infq_arena_alloc(r->arena, (size_t)d->n + 1, sizeof(int64_t), "keys", &p, r->err));
    at = p;
    for (int64_t i = 0; i < d->n; i++) {
        int64_t k = i;
        for (; sorted && k > 0; k--) {
            int c;
            INFQ_TRY(infq_chat_compare(r, &d->keys[at[k - 1]], &d->keys[i], &c));
            if (c <= 0)
                break;
            at[k] = at[k - 1];
        }
        at[k] = i;
    }
    *out = at;
    return INFQ_E_OK;
}

static infq_status put_dict(chat_run *r, const chat_dict *d, const chat_json_style *s, int64_t level, infq_buf *to)
{
    int64_t *order;

    INFQ_TRY(key_order(r, d, s->sort_keys, &order));
    infq_buf_char(to, '{');
    for (int64_t i = 0; i < d->n; i++) {
        if (i > 0)
            infq_buf_str(to, s->item_sep);
        new_line(s, level + 1, to);
        INFQ_TRY(put_key(r, &d->keys[order[i]], s, to));
        infq_buf_str(to, s->key_sep);
        INFQ_TRY(infq_chat_to_json(r, &d->values[order[i]], s, level + 1, to));
    }
    if (d->n > 0)
        new_line(s, level, to);
    infq_buf_char(to, '}');
    return INFQ_E_OK;
}

infq_status infq_chat_to_json(chat_run *r, const chat_value *v, const chat_json_style *s, int64_t level, infq_buf *to)
{
    INFQ_TRY(infq_chat_step(r));
    if (to->n > CHAT_MAX_BYTES)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the template makes more than %zu bytes", CHAT_MAX_BYTES);
    switch (v->type) {
    case CHAT_NONE:
        infq_buf_str(to, "null");
        return INFQ_E_OK;
    case CHAT_BOOL:
        infq_buf_str(to, v->u.b ? "true" : "false");
        return INFQ_E_OK;
    case CHAT_INT:
        return infq_chat_repr(r, v, to);
    case CHAT_FLOAT:
        if (v->u.f - v->u.f != 0)
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "tojson of a number that is not finite");
        return infq_chat_repr(r, v, to);
    case CHAT_STR:
        put_string(v->u.str.s, v->u.str.n, s->ascii, to);
        return INFQ_E_OK;
    case CHAT_LIST:
        infq_buf_char(to, '[');
        for (int64_t i = 0; i < v->u.list->n; i++) {
            if (i > 0)
                infq_buf_str(to, s->item_sep);
            new_line(s, level + 1, to);
            INFQ_TRY(infq_chat_to_json(r, &v->u.list->v[i], s, level + 1, to));
        }
        if (v->u.list->n > 0)
            new_line(s, level, to);
        infq_buf_char(to, ']');
        return INFQ_E_OK;
    case CHAT_DICT:
        return put_dict(r, v->u.dict, s, level, to);
    default:
        return infq_chat_fail(r, INFQ_E_FORMAT, "tojson of a %s", infq_chat_type_name(v));
    }
}
