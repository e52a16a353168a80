#include "lib/base/json_edit.h"

#include <string.h>

// Where a member lies: [begin, end) from its key's quote to the end of its value.
typedef struct {
    size_t begin, value, end;
    bool found;
    size_t prev_end;   // end of the member in front, or just behind '{'
    size_t first;      // first member's key, or the closing brace
    size_t last_end;   // end of the last member, or just behind '{'
    size_t next;       // next member's key, or the closing brace
} place;

static size_t blanks(const char *s, size_t n, size_t i)
{
    while (i < n && strchr(" \t\r\n", s[i]))
        i++;
    return i;
}

static size_t string_end(const char *s, size_t n, size_t i)
{
    for (i++; i < n && s[i] != '"'; i++)
        if (s[i] == '\\')
            i++;
    return i + 1;
}

static size_t value_end(const char *s, size_t n, size_t i)
{
    int depth = 0;

    if (s[i] == '"')
        return string_end(s, n, i);
    if (s[i] != '{' && s[i] != '[') {
        while (i < n && !strchr(",}] \t\r\n", s[i]))
            i++;
        return i;
    }
    while (i < n) {
        if (s[i] == '"') {
            i = string_end(s, n, i);
            continue;
        }
        depth += (s[i] == '{' || s[i] == '[') - (s[i] == '}' || s[i] == ']');
        i++;
        if (depth == 0)
            return i;
    }
    return n;
}

static infq_status locate(const char *s, size_t n, const char *key, place *p, infq_err *err)
{
    size_t i = blanks(s, n, 0), klen = strlen(key);

    memset(p, 0, sizeof(*p));
    if (i >= n || s[i] != '{')
        return infq_err_set(err, INFQ_E_FORMAT, "the JSON text is not an object");
    p->prev_end = p->last_end = ++i;
    i = blanks(s, n, i);
    p->first = i;
    while (i < n && s[i] == '"') {
        size_t begin = i, kend = string_end(s, n, i), v, end;
        bool hit = kend - begin - 2 == klen && memcmp(s + begin + 1, key, klen) == 0;

        v = blanks(s, n, blanks(s, n, kend) + 1);
        end = v < n ? value_end(s, n, v) : n;
        if (hit) {
            p->found = true;
            p->begin = begin;
            p->value = v;
            p->end = end;
            p->prev_end = p->last_end;
        }
        p->last_end = end;
        i = blanks(s, n, end);
        if (i < n && s[i] == ',')
            i = blanks(s, n, i + 1);
        if (hit)
            p->next = i;
    }
    if (i >= n || s[i] != '}')
        return infq_err_set(err, INFQ_E_FORMAT, "the JSON text is malformed");
    return INFQ_E_OK;
}

infq_status infq_json_set(const char *text, size_t n, const char *key, const char *value, infq_buf *out, infq_err *err)
{
    size_t open = blanks(text, n, 0) + 1;
    place p;

    INFQ_TRY(locate(text, n, key, &p, err));
    if (p.found) {
        infq_buf_add(out, text, p.value);
        infq_buf_str(out, value);
        infq_buf_add(out, text + p.end, n - p.end);
    } else {
        bool any = p.last_end != open;
        infq_buf_add(out, text, p.last_end);
        if (any)
            infq_buf_char(out, ',');
        infq_buf_add(out, text + open, p.first - open); // white space in front of the first member
        infq_buf_fmt(out, "\"%s\": ", key);
        infq_buf_str(out, value);
        infq_buf_add(out, text + p.last_end, n - p.last_end);
    }
    return infq_buf_status(out, err);
}

infq_status infq_json_remove(const char *text, size_t n, const char *key, infq_buf *out, infq_err *err)
{
    place p;

    INFQ_TRY(locate(text, n, key, &p, err));
    if (!p.found)
        infq_buf_add(out, text, n);
    else if (text[p.next] == '"') { // a member follows: cut up to it
        infq_buf_add(out, text, p.begin);
        infq_buf_add(out, text + p.next, n - p.next);
    } else { // the last one: cut from the end of the one in front
        infq_buf_add(out, text, p.prev_end);
        infq_buf_add(out, text + p.end, n - p.end);
    }
    return infq_buf_status(out, err);
}
