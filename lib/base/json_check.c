/* Strict grammar check of JSON text; builds nothing. cJSON is laxer (02, lone surrogates, repeated keys). */
#include <stdint.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/str.h"

#define MAX_DEPTH 128

typedef struct {
    const char *p, *end, *start, *what;
    infq_err *err;
    int depth;
} scan;

static infq_status bad(const scan *s, const char *why)
{
    size_t line = 1, column = 1;

    for (const char *q = s->start; q < s->p; q++) {
        column++;
        if (*q == '\n') {
            line++;
            column = 1;
        }
    }
    return infq_err_set(s->err, INFQ_E_FORMAT, "%s: line %zu column %zu: %s", s->what, line, column, why);
}

static void blanks(scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static int hex4(const char *p, const char *end, unsigned *out)
{
    unsigned v = 0;

    if (end - p < 4)
        return 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        if (c >= '0' && c <= '9')
            v = v << 4 | (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (unsigned)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            v = v << 4 | (unsigned)(c - 'A' + 10);
        else
            return 0;
    }
    *out = v;
    return 1;
}

static infq_status escape(scan *s)
{
    unsigned u, low;

    s->p++;
    if (s->p >= s->end)
        return bad(s, "text ends inside a string");
    if (*s->p && strchr("\"\\/bfnrt", *s->p)) {
        s->p++;
        return INFQ_E_OK;
    }
    if (*s->p != 'u' || !hex4(s->p + 1, s->end, &u))
        return bad(s, "invalid escape in a string");
    if (u >= 0xdc00 && u <= 0xdfff)
        return bad(s, "lone surrogate in a string");
    s->p += 5;
    if (u >= 0xd800 && u <= 0xdbff) {
        if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u' || !hex4(s->p + 2, s->end, &low) || low < 0xdc00 ||
            low > 0xdfff)
            return bad(s, "lone surrogate in a string");
        s->p += 6;
    }
    return INFQ_E_OK;
}

static infq_status string(scan *s)
{
    if (s->p >= s->end || *s->p != '"')
        return bad(s, "a string was expected");
    s->p++;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20)
            return bad(s, "control character in a string");
        if (*s->p == '\\')
            INFQ_TRY(escape(s));
        else
            s->p++;
    }
    if (s->p >= s->end)
        return bad(s, "text ends inside a string");
    s->p++;
    return INFQ_E_OK;
}

static int digits(scan *s)
{
    const char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from;
}

static infq_status number(scan *s)
{
    if (*s->p == '-')
        s->p++;
    if (s->p < s->end && *s->p == '0')
        s->p++;
    else if (!digits(s))
        return bad(s, "invalid number");
    if (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        return bad(s, "number with a leading zero");
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!digits(s))
            return bad(s, "invalid number");
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        if (!digits(s))
            return bad(s, "invalid number");
    }
    return INFQ_E_OK;
}

static infq_status word(scan *s, const char *w)
{
    size_t n = strlen(w);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
        return bad(s, "a value was expected");
    s->p += n;
    return INFQ_E_OK;
}

static infq_status value(scan *s);

// Keys are compared as written; two spellings of one key by different escapes pass here and cJSON keeps the first.
static infq_status members(scan *s, infq_map **keys)
{
    for (;;) {
        const char *key;
        int64_t seen;

        blanks(s);
        key = s->p;
        INFQ_TRY(string(s));
        if (!*keys)
            INFQ_TRY(infq_map_new(8, keys, s->err));
        seen = infq_map_put(*keys, key, (size_t)(s->p - key), 1);
        if (seen == -2)
            return infq_err_set(s->err, INFQ_E_NOMEM, "%s: table of keys", s->what);
        if (seen >= 0) {
            s->p = key;
            return bad(s, "a key appears twice in one object");
        }
        blanks(s);
        if (s->p >= s->end || *s->p != ':')
            return bad(s, "a colon was expected");
        s->p++;
        INFQ_TRY(value(s));
        blanks(s);
        if (s->p < s->end && *s->p == ',') {
            s->p++;
            continue;
        }
        if (s->p < s->end && *s->p == '}') {
            s->p++;
            return INFQ_E_OK;
        }
        return bad(s, "a comma or } was expected");
    }
}

static infq_status object(scan *s)
{
    infq_map *keys = NULL;
    infq_status st;

    s->p++;
    blanks(s);
    if (s->p < s->end && *s->p == '}') {
        s->p++;
        return INFQ_E_OK;
    }
    st = members(s, &keys);
    infq_map_free(keys);
    return st;
}

static infq_status array(scan *s)
{
    s->p++;
    blanks(s);
    if (s->p < s->end && *s->p == ']') {
        s->p++;
        return INFQ_E_OK;
    }
    for (;;) {
        INFQ_TRY(value(s));
        blanks(s);
        if (s->p < s->end && *s->p == ',')
            s->p++;
        else if (s->p < s->end && *s->p == ']') {
            s->p++;
            return INFQ_E_OK;
        } else
            return bad(s, "a comma or ] was expected");
    }
}

static infq_status value(scan *s)
{
    infq_status st;

    blanks(s);
    if (s->p >= s->end)
        return bad(s, "a value was expected");
    if (++s->depth > MAX_DEPTH)
        return bad(s, "nested deeper than 128");
    switch (*s->p) {
    case '{':
        st = object(s);
        break;
    case '[':
        st = array(s);
        break;
    case '"':
        st = string(s);
        break;
    case 't':
        st = word(s, "true");
        break;
    case 'f':
        st = word(s, "false");
        break;
    case 'n':
        st = word(s, "null");
        break;
    default:
        st = *s->p == '-' || (*s->p >= '0' && *s->p <= '9') ? number(s) : bad(s, "a value was expected");
    }
    s->depth--;
    return st;
}

infq_status infq_json_check(const char *text, size_t n, const char *what, infq_err *err)
{
    scan s = { text, text + n, text, what, err, 0 };
    size_t good = infq_utf8_check(text, n);

    if (good < n) {
        s.p = text + good;
        return bad(&s, "not UTF-8");
    }
    INFQ_TRY(value(&s));
    blanks(&s);
    return s.p == s.end ? INFQ_E_OK : bad(&s, "characters after the end of the value");
}
