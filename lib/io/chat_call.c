/* Functions and methods that chat templates call. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/io/chat_int.h"

void infq_chat_arg(const chat_args *a, int i, const char *name, chat_value *out)
{
    if (i >= 0 && i < a->n)
        *out = a->v[i];
    for (int k = 0; name && k < a->n_named; k++)
        if (strcmp(a->names[k], name) == 0)
            *out = a->named[k];
}

infq_status infq_chat_args_check(chat_run *r, const char *what, const chat_args *a, int lo, int hi, const char *names)
{
    int n = a->n + a->n_named;

    for (int i = 0; i < a->n_named; i++) {
        const char *hit = names;
        size_t len = strlen(a->names[i]);
        while ((hit = strstr(hit, a->names[i])) != NULL && !((hit == names || hit[-1] == ' ') && (hit[len] == ' ' || !hit[len])))
            hit++;
        if (!hit)
            return infq_chat_fail(r, INFQ_E_FORMAT, "%s has no argument %s", what, a->names[i]);
    }
    if (n < lo || n > hi)
        return infq_chat_fail(r, INFQ_E_FORMAT, "%s takes %d to %d arguments, not %d", what, lo, hi, n);
    return INFQ_E_OK;
}

static infq_status need_string(chat_run *r, const char *what, const chat_value *v)
{
    if (v->type == CHAT_STR)
        return INFQ_E_OK;
    return infq_chat_fail(r, INFQ_E_FORMAT, "%s needs a string, not a %s", what, infq_chat_type_name(v));
}

static infq_status need_int(chat_run *r, const char *what, const chat_value *v, int64_t *out)
{
    if (v->type != CHAT_INT && v->type != CHAT_BOOL)
        return infq_chat_fail(r, INFQ_E_FORMAT, "%s needs an integer, not a %s", what, infq_chat_type_name(v));
    *out = v->type == CHAT_BOOL ? v->u.b : v->u.i;
    return INFQ_E_OK;
}

// Functions

static infq_status fn_range(chat_run *r, const chat_args *a, chat_value *out)
{
    int64_t at[3] = { 0, 0, 1 };

    INFQ_TRY(infq_chat_args_check(r, "range", a, 1, 3, ""));
    for (int i = 0; i < a->n; i++)
        INFQ_TRY(need_int(r, "range", &a->v[i], &at[i]));
    if (a->n == 1) {
        at[1] = at[0];
        at[0] = 0;
    }
    if (at[2] == 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "range with a step of 0");
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = at[0]; at[2] > 0 ? i < at[1] : i > at[1]; ) {
        if (out->u.list->n == CHAT_MAX_RANGE)
            return infq_chat_fail(r, INFQ_E_FORMAT, "a range of more than %d items", CHAT_MAX_RANGE);
        INFQ_TRY(infq_chat_list_add(r, out->u.list, infq_chat_int(i)));
        if (__builtin_add_overflow(i, at[2], &i))
            break;
    }
    return INFQ_E_OK;
}

// dict(...) and namespace(...): a dict, then keywords.
static infq_status fn_dict(chat_run *r, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_dict_new(r, out));
    if (a->n > 1 || (a->n == 1 && a->v[0].type != CHAT_DICT))
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a dict made of anything but keywords and a dict");
    for (int64_t i = 0; a->n == 1 && i < a->v[0].u.dict->n; i++)
        INFQ_TRY(infq_chat_dict_put(r, out->u.dict, a->v[0].u.dict->keys[i], a->v[0].u.dict->values[i]));
    for (int i = 0; i < a->n_named; i++)
        INFQ_TRY(infq_chat_dict_put(r, out->u.dict, infq_chat_strn(a->names[i], strlen(a->names[i])), a->named[i]));
    return INFQ_E_OK;
}

static infq_status fn_namespace(chat_run *r, const chat_args *a, chat_value *out)
{
    INFQ_TRY(fn_dict(r, a, out));
    out->type = CHAT_NAMESPACE;
    return INFQ_E_OK;
}

static infq_status fn_raise(chat_run *r, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "raise_exception", a, 1, 1, "message"));
    *out = infq_chat_none();
    infq_chat_arg(a, 0, "message", out);
    INFQ_TRY(infq_chat_str_value(r, out, out));
    return infq_chat_fail(r, INFQ_E_FORMAT, "the template refuses the conversation: %.*s",
                     out->u.str.n > 120 ? 120 : (int)out->u.str.n, out->u.str.s);
}

static infq_status fn_strftime_now(chat_run *r, const chat_args *a, chat_value *out)
{
    struct tm tm;
    time_t t;
    char text[200], form[100];
    size_t n;

    INFQ_TRY(infq_chat_args_check(r, "strftime_now", a, 1, 1, ""));
    INFQ_TRY(need_string(r, "strftime_now", &a->v[0]));
    memset(&tm, 0, sizeof(tm));
    if (sscanf(r->date, "%4d-%2d-%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday) != 3 || a->v[0].u.str.n >= sizeof(form))
        return infq_chat_fail(r, INFQ_E_FORMAT, "strftime_now: no date YYYY-MM-DD, or a long format");
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    t = timegm(&tm);
    gmtime_r(&t, &tm); // fills the day of the week
    snprintf(form, sizeof(form), "%.*s", (int)a->v[0].u.str.n, a->v[0].u.str.s);
    n = strftime(text, sizeof(text), form, &tm);
    return infq_chat_text(r, text, n, out);
}

static infq_status fn_lacking(chat_run *r, const chat_args *a, chat_value *out)
{
    (void)a;
    (void)out;
    return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "cycler, joiner or lipsum");
}

static const struct {
    const char *name;
    infq_status (*call)(chat_run *r, const chat_args *a, chat_value *out);
} functions[] = {
    { "range", fn_range },
    { "dict", fn_dict },
    { "namespace", fn_namespace },
    { "raise_exception", fn_raise },
    { "strftime_now", fn_strftime_now },
    { "cycler", fn_lacking },
    { "joiner", fn_lacking },
    { "lipsum", fn_lacking },
};

int infq_chat_function_find(const char *name)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(functions[i].name, name) == 0)
            return (int)i;
    return -1;
}

infq_status infq_chat_function_call(chat_run *r, int row, const chat_args *a, chat_value *out)
{
    return functions[row].call(r, a, out);
}

// What methods and filters share

// Whether the character at s is one of `set` (NULL: white space).
static bool in_set(const char *s, size_t len, uint32_t cp, const chat_value *set)
{
    size_t l;

    if (!set)
        return infq_is_space(cp);
    for (size_t at = 0; at < set->u.str.n; at += l) {
        infq_utf8_next(set->u.str.s + at, set->u.str.n - at, &l);
        if (l == len && memcmp(s, set->u.str.s + at, l) == 0)
            return true;
    }
    return false;
}

void infq_chat_strip(const char **s, size_t *n, const chat_value *chars, bool left, bool right)
{
    while (left && *n > 0) {
        size_t len;
        uint32_t cp = infq_utf8_next(*s, *n, &len);
        if (!in_set(*s, len, cp, chars))
            break;
        *s += len;
        *n -= len;
    }
    while (right && *n > 0) {
        size_t at = *n - 1, len;
        uint32_t cp;
        while (at > 0 && ((unsigned char)(*s)[at] & 0xc0) == 0x80)
            at--;
        cp = infq_utf8_next(*s + at, *n - at, &len);
        if (!in_set(*s + at, len, cp, chars))
            break;
        *n = at;
    }
}

infq_status infq_chat_replace(chat_run *r, const chat_value *s, const chat_value *from, const chat_value *to, int64_t count,
                             chat_value *out)
{
    const char *at = s->u.str.s, *end = at + s->u.str.n;
    infq_buf t;

    INFQ_TRY(need_string(r, "replace", s));
    INFQ_TRY(need_string(r, "replace", from));
    INFQ_TRY(need_string(r, "replace", to));
    if (from->u.str.n == 0)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "replace of the empty string");
    if (to->u.str.n > from->u.str.n && s->u.str.n / from->u.str.n > CHAT_MAX_BYTES / to->u.str.n)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a text of more than %zu bytes", CHAT_MAX_BYTES);
    infq_buf_init(&t);
    while (count != 0) {
        const char *hit = memmem(at, (size_t)(end - at), from->u.str.s, from->u.str.n);
        if (!hit)
            break;
        infq_buf_add(&t, at, (size_t)(hit - at));
        infq_buf_add(&t, to->u.str.s, to->u.str.n);
        at = hit + from->u.str.n;
        count -= count > 0;
    }
    infq_buf_add(&t, at, (size_t)(end - at));
    return infq_chat_take(r, &t, out);
}

infq_status infq_chat_case(chat_run *r, const char *how, const chat_value *s, chat_value *out)
{
    infq_buf t;
    bool whole = true;

    infq_buf_init(&t);
    if (strcmp(how, "lower") == 0)
        infq_lower(s->u.str.s, s->u.str.n, &t);
    else if (strcmp(how, "capitalize") == 0)
        infq_capitalize(s->u.str.s, s->u.str.n, &t);
    else
        whole = infq_upper(s->u.str.s, s->u.str.n, &t);
    if (whole)
        return infq_chat_take(r, &t, out);
    infq_buf_deinit(&t);
    return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the upper case of a character that becomes several");
}

// Methods of strings

static infq_status add_part(chat_run *r, chat_value *list, const char *from, const char *to)
{
    return infq_chat_list_add(r, list->u.list, infq_chat_strn(from, (size_t)(to - from)));
}

static infq_status split_blanks(chat_run *r, const chat_value *s, int64_t most, chat_value *out)
{
    const char *at = s->u.str.s, *end = at + s->u.str.n;
    size_t len;

    for (;;) {
        const char *from;
        at += infq_lstrip(at, (size_t)(end - at));
        if (at == end)
            return INFQ_E_OK;
        if (most >= 0 && out->u.list->n == most)
            return add_part(r, out, at, end);
        for (from = at; at < end && !infq_is_space(infq_utf8_next(at, (size_t)(end - at), &len)); at += len)
            ;
        INFQ_TRY(add_part(r, out, from, at));
    }
}

static infq_status m_split(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    const char *at = s->u.str.s, *end = at + s->u.str.n;
    chat_value sep = infq_chat_none(), most = infq_chat_int(-1);
    int64_t n = -1;

    INFQ_TRY(infq_chat_args_check(r, "split", a, 0, 2, "sep maxsplit"));
    infq_chat_arg(a, 0, "sep", &sep);
    infq_chat_arg(a, 1, "maxsplit", &most);
    INFQ_TRY(need_int(r, "split", &most, &n));
    INFQ_TRY(infq_chat_list_new(r, out));
    if (sep.type == CHAT_NONE)
        return split_blanks(r, s, n, out);
    INFQ_TRY(need_string(r, "split", &sep));
    if (sep.u.str.n == 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "split at the empty string");
    while (n < 0 || out->u.list->n < n) {
        const char *hit = memmem(at, (size_t)(end - at), sep.u.str.s, sep.u.str.n);
        if (!hit)
            break;
        INFQ_TRY(add_part(r, out, at, hit));
        at = hit + sep.u.str.n;
    }
    return add_part(r, out, at, end);
}

// The last place of `what` in s[0..n), -1 if none.
static int64_t find_last(const char *s, size_t n, const chat_value *what)
{
    for (int64_t i = (int64_t)n - (int64_t)what->u.str.n; i >= 0; i--)
        if (memcmp(s + i, what->u.str.s, what->u.str.n) == 0)
            return i;
    return -1;
}

static infq_status m_rsplit(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    chat_value sep = infq_chat_none(), most = infq_chat_int(-1), part;
    size_t end = s->u.str.n;
    int64_t n = -1;

    INFQ_TRY(infq_chat_args_check(r, "rsplit", a, 0, 2, "sep maxsplit"));
    infq_chat_arg(a, 0, "sep", &sep);
    infq_chat_arg(a, 1, "maxsplit", &most);
    INFQ_TRY(need_int(r, "rsplit", &most, &n));
    if (n < 0)
        return m_split(r, s, &(chat_args){ .n = 1, .v = { sep } }, out);
    if (sep.type != CHAT_STR || sep.u.str.n == 0)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "rsplit at white space with a limit");
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t at; out->u.list->n < n && (at = find_last(s->u.str.s, end, &sep)) >= 0; end = (size_t)at)
        INFQ_TRY(add_part(r, out, s->u.str.s + (size_t)at + sep.u.str.n, s->u.str.s + end));
    INFQ_TRY(infq_chat_list_add(r, out->u.list, infq_chat_strn(s->u.str.s, end)));
    for (int64_t i = 0, k = out->u.list->n - 1; i < k; i++, k--) {
        part = out->u.list->v[i];
        out->u.list->v[i] = out->u.list->v[k];
        out->u.list->v[k] = part;
    }
    return INFQ_E_OK;
}

static infq_status strip(chat_run *r, const char *name, const chat_value *s, const chat_args *a, bool left, bool right,
                         chat_value *out)
{
    chat_value chars = infq_chat_none();

    INFQ_TRY(infq_chat_args_check(r, name, a, 0, 1, ""));
    infq_chat_arg(a, 0, NULL, &chars);
    if (chars.type != CHAT_NONE)
        INFQ_TRY(need_string(r, name, &chars));
    *out = *s;
    infq_chat_strip(&out->u.str.s, &out->u.str.n, chars.type == CHAT_NONE ? NULL : &chars, left, right);
    return INFQ_E_OK;
}

static infq_status m_strip(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    return strip(r, "strip", s, a, true, true, out);
}

static infq_status m_lstrip(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    return strip(r, "lstrip", s, a, true, false, out);
}

static infq_status m_rstrip(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    return strip(r, "rstrip", s, a, false, true, out);
}

static bool has_affix(const chat_value *s, const chat_value *affix, bool at_end)
{
    size_t n = affix->u.str.n;

    return s->u.str.n >= n && memcmp(s->u.str.s + (at_end ? s->u.str.n - n : 0), affix->u.str.s, n) == 0;
}

// One affix, or a tuple of them.
static infq_status affix(chat_run *r, const char *name, const chat_value *s, const chat_args *a, bool at_end, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, name, a, 1, 1, ""));
    *out = infq_chat_bool(false);
    if (a->v[0].type == CHAT_LIST && a->v[0].u.list->tuple) {
        for (int64_t i = 0; i < a->v[0].u.list->n; i++) {
            INFQ_TRY(need_string(r, name, &a->v[0].u.list->v[i]));
            out->u.b = out->u.b || has_affix(s, &a->v[0].u.list->v[i], at_end);
        }
        return INFQ_E_OK;
    }
    INFQ_TRY(need_string(r, name, &a->v[0]));
    out->u.b = has_affix(s, &a->v[0], at_end);
    return INFQ_E_OK;
}

static infq_status m_startswith(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    return affix(r, "startswith", s, a, false, out);
}

static infq_status m_endswith(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    return affix(r, "endswith", s, a, true, out);
}

static infq_status m_removeprefix(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    INFQ_TRY(affix(r, "removeprefix", s, a, false, out));
    *out = out->u.b ? infq_chat_strn(s->u.str.s + a->v[0].u.str.n, s->u.str.n - a->v[0].u.str.n) : *s;
    return INFQ_E_OK;
}

static infq_status m_removesuffix(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    INFQ_TRY(affix(r, "removesuffix", s, a, true, out));
    *out = out->u.b ? infq_chat_strn(s->u.str.s, s->u.str.n - a->v[0].u.str.n) : *s;
    return INFQ_E_OK;
}

static infq_status m_lower(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "lower", a, 0, 0, ""));
    return infq_chat_case(r, "lower", s, out);
}

static infq_status m_upper(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "upper", a, 0, 0, ""));
    return infq_chat_case(r, "upper", s, out);
}

static infq_status m_capitalize(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "capitalize", a, 0, 0, ""));
    return infq_chat_case(r, "capitalize", s, out);
}

static infq_status m_replace(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    int64_t count = -1;

    INFQ_TRY(infq_chat_args_check(r, "replace", a, 2, 3, ""));
    if (a->n == 3)
        INFQ_TRY(need_int(r, "replace", &a->v[2], &count));
    return infq_chat_replace(r, s, &a->v[0], &a->v[1], count, out);
}

static infq_status m_join(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    chat_list *items;
    infq_buf t;

    INFQ_TRY(infq_chat_args_check(r, "join", a, 1, 1, ""));
    INFQ_TRY(infq_chat_items_of(r, &a->v[0], &items));
    for (int64_t i = 0; i < items->n; i++)
        INFQ_TRY(need_string(r, "join", &items->v[i]));
    infq_buf_init(&t);
    for (int64_t i = 0; i < items->n; i++) {
        if (i > 0)
            infq_buf_add(&t, s->u.str.s, s->u.str.n);
        infq_buf_add(&t, items->v[i].u.str.s, items->v[i].u.str.n);
    }
    return infq_chat_take(r, &t, out);
}

static infq_status m_find(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    const char *hit;

    INFQ_TRY(infq_chat_args_check(r, "find", a, 1, 1, ""));
    INFQ_TRY(need_string(r, "find", &a->v[0]));
    hit = memmem(s->u.str.s, s->u.str.n, a->v[0].u.str.s, a->v[0].u.str.n);
    *out = infq_chat_int(hit ? (int64_t)infq_utf8_count(s->u.str.s, (size_t)(hit - s->u.str.s)) : -1);
    return INFQ_E_OK;
}

static infq_status m_rfind(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    int64_t at;

    INFQ_TRY(infq_chat_args_check(r, "rfind", a, 1, 1, ""));
    INFQ_TRY(need_string(r, "rfind", &a->v[0]));
    at = find_last(s->u.str.s, s->u.str.n, &a->v[0]);
    *out = infq_chat_int(at < 0 ? -1 : (int64_t)infq_utf8_count(s->u.str.s, (size_t)at));
    return INFQ_E_OK;
}

static infq_status m_count(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    const char *at = s->u.str.s, *end = at + s->u.str.n, *hit;
    int64_t n = 0;

    INFQ_TRY(infq_chat_args_check(r, "count", a, 1, 1, ""));
    INFQ_TRY(need_string(r, "count", &a->v[0]));
    if (a->v[0].u.str.n == 0)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "count of the empty string");
    for (; (hit = memmem(at, (size_t)(end - at), a->v[0].u.str.s, a->v[0].u.str.n)) != NULL; n++)
        at = hit + a->v[0].u.str.n;
    *out = infq_chat_int(n);
    return INFQ_E_OK;
}

static infq_status m_splitlines(chat_run *r, const chat_value *s, const chat_args *a, chat_value *out)
{
    const char *at = s->u.str.s, *end = at + s->u.str.n, *from = at;
    size_t len;

    INFQ_TRY(infq_chat_args_check(r, "splitlines", a, 0, 0, ""));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (; at < end; at += len) {
        uint32_t cp = infq_utf8_next(at, (size_t)(end - at), &len);
        if (!((cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029))
            continue;
        INFQ_TRY(add_part(r, out, from, at));
        len += cp == '\r' && at + 1 < end && at[1] == '\n';
        from = at + len;
    }
    return from < end ? add_part(r, out, from, end) : INFQ_E_OK;
}

// Methods of dicts

static infq_status m_get(chat_run *r, const chat_value *d, const chat_args *a, chat_value *out)
{
    const chat_value *hit;

    INFQ_TRY(infq_chat_args_check(r, "get", a, 1, 2, ""));
    hit = infq_chat_dict_get(d->u.dict, &a->v[0]);
    *out = infq_chat_none();
    infq_chat_arg(a, 1, NULL, out);
    if (hit)
        *out = *hit;
    return INFQ_E_OK;
}

static infq_status m_items(chat_run *r, const chat_value *d, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "items", a, 0, 0, ""));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < d->u.dict->n; i++) {
        chat_value pair;
        INFQ_TRY(infq_chat_list_new(r, &pair));
        pair.u.list->tuple = true;
        INFQ_TRY(infq_chat_list_add(r, pair.u.list, d->u.dict->keys[i]));
        INFQ_TRY(infq_chat_list_add(r, pair.u.list, d->u.dict->values[i]));
        INFQ_TRY(infq_chat_list_add(r, out->u.list, pair));
    }
    return INFQ_E_OK;
}

static infq_status m_keys(chat_run *r, const chat_value *d, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "keys", a, 0, 0, ""));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < d->u.dict->n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, d->u.dict->keys[i]));
    return INFQ_E_OK;
}

static infq_status m_values(chat_run *r, const chat_value *d, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "values", a, 0, 0, ""));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < d->u.dict->n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, d->u.dict->values[i]));
    return INFQ_E_OK;
}

typedef infq_status (*method_fn)(chat_run *r, const chat_value *self, const chat_args *a, chat_value *out);

/* Python's methods by type; those without a function are known and refused. */
static const struct {
    chat_type type;
    const char *name;
    method_fn call;
} methods[] = {
    { CHAT_STR, "split", m_split },
    { CHAT_STR, "rsplit", m_rsplit },
    { CHAT_STR, "strip", m_strip },
    { CHAT_STR, "lstrip", m_lstrip },
    { CHAT_STR, "rstrip", m_rstrip },
    { CHAT_STR, "startswith", m_startswith },
    { CHAT_STR, "endswith", m_endswith },
    { CHAT_STR, "removeprefix", m_removeprefix },
    { CHAT_STR, "removesuffix", m_removesuffix },
    { CHAT_STR, "lower", m_lower },
    { CHAT_STR, "upper", m_upper },
    { CHAT_STR, "capitalize", m_capitalize },
    { CHAT_STR, "replace", m_replace },
    { CHAT_STR, "join", m_join },
    { CHAT_STR, "find", m_find },
    { CHAT_STR, "rfind", m_rfind },
    { CHAT_STR, "count", m_count },
    { CHAT_STR, "splitlines", m_splitlines },
    { CHAT_DICT, "get", m_get },
    { CHAT_DICT, "items", m_items },
    { CHAT_DICT, "keys", m_keys },
    { CHAT_DICT, "values", m_values },
};

static const char *lacking(chat_type t)
{
    switch (t) {
    case CHAT_STR:
        return " casefold center encode expandtabs format format_map index isalnum isalpha isascii isdecimal isdigit isidentifier"
               " islower isnumeric isprintable isspace istitle isupper ljust maketrans partition rindex rjust rpartition"
               " swapcase title translate zfill ";
    case CHAT_LIST:
        return " append clear copy count extend index insert pop remove reverse sort ";
    case CHAT_DICT:
        return " clear copy fromkeys pop popitem setdefault update ";
    case CHAT_LOOP:
        return " cycle changed ";
    default:
        return "";
    }
}

static method_fn find_method(chat_type t, const char *name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (methods[i].type == t && strcmp(methods[i].name, name) == 0)
            return methods[i].call;
    return NULL;
}

bool infq_chat_method_exists(const chat_value *self, const char *name)
{
    char blank[80];

    if (find_method(self->type, name))
        return true;
    if (strlen(name) + 3 > sizeof(blank))
        return false;
    snprintf(blank, sizeof(blank), " %s ", name);
    return strstr(lacking(self->type), blank) != NULL;
}

infq_status infq_chat_method_call(chat_run *r, const chat_value *self, const char *name, const chat_args *a, chat_value *out)
{
    method_fn f = find_method(self->type, name);

    if (!f)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the method %s of a %s", name, infq_chat_type_name(self));
    return f(r, self, a, out);
}
