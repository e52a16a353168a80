/* Filters and tests of chat templates: a row each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/io/chat_int.h"

typedef struct {
    const char *name;
    infq_status (*apply)(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out);
} filter_row;

typedef struct {
    const char *name;
    int n_args;
    infq_status (*apply)(chat_run *r, const chat_value *v, const chat_args *a, bool *out);
} test_row;

static bool is_integer(const chat_value *v)
{
    return v->type == CHAT_INT || v->type == CHAT_BOOL;
}

static infq_status int_arg(chat_run *r, const chat_args *a, int i, const char *name, int64_t dflt, int64_t *out)
{
    chat_value v = infq_chat_int(dflt);

    infq_chat_arg(a, i, name, &v);
    if (!is_integer(&v))
        return infq_chat_fail(r, INFQ_E_FORMAT, "%s is a %s, not an integer", name, infq_chat_type_name(&v));
    *out = v.type == CHAT_BOOL ? v.u.b : v.u.i;
    return INFQ_E_OK;
}

static bool bool_arg(const chat_args *a, int i, const char *name)
{
    chat_value v = infq_chat_bool(false);

    infq_chat_arg(a, i, name, &v);
    return infq_chat_true(&v);
}

// item.a.b.0 as `attribute` names it; no attribute: the item.
static infq_status attribute_of(chat_run *r, const chat_value *item, const chat_value *path, chat_value *out)
{
    const char *s = path->u.str.s, *end;

    *out = *item;
    if (path->type == CHAT_NONE)
        return INFQ_E_OK;
    if (path->type == CHAT_INT)
        return infq_chat_subscript(r, item, path, out);
    if (path->type != CHAT_STR)
        return infq_chat_fail(r, INFQ_E_FORMAT, "an attribute is named by a %s", infq_chat_type_name(path));
    for (end = s + path->u.str.n; s <= end; ) {
        const char *dot = memchr(s, '.', (size_t)(end - s));
        size_t n = (size_t)((dot ? dot : end) - s);
        chat_value key = infq_chat_strn(s, n), of = *out;
        if (n > 0 && n < 9 && strspn(s, "0123456789") >= n)
            key = infq_chat_int(atoi(s));
        INFQ_TRY(infq_chat_subscript(r, &of, &key, out));
        s += n + 1;
    }
    return INFQ_E_OK;
}

// Strings without case unless case_sensitive.
static infq_status fold(chat_run *r, chat_value *v, bool sensitive)
{
    chat_value t = *v;

    return v->type == CHAT_STR && !sensitive ? infq_chat_case(r, "lower", &t, v) : INFQ_E_OK;
}

// Text filters

static infq_status f_case(chat_run *r, const char *how, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value s;

    INFQ_TRY(infq_chat_args_check(r, how, a, 0, 0, ""));
    INFQ_TRY(infq_chat_str_value(r, v, &s));
    return infq_chat_case(r, how, &s, out);
}

static infq_status f_upper(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return f_case(r, "upper", v, a, out);
}

static infq_status f_lower(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return f_case(r, "lower", v, a, out);
}

static infq_status f_capitalize(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return f_case(r, "capitalize", v, a, out);
}

static infq_status f_string(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "string", a, 0, 0, ""));
    return infq_chat_str_value(r, v, out);
}

static infq_status f_trim(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value chars = infq_chat_none();

    INFQ_TRY(infq_chat_args_check(r, "trim", a, 0, 1, "chars"));
    infq_chat_arg(a, 0, "chars", &chars);
    if (chars.type != CHAT_NONE && chars.type != CHAT_STR)
        return infq_chat_fail(r, INFQ_E_FORMAT, "trim with a %s", infq_chat_type_name(&chars));
    INFQ_TRY(infq_chat_str_value(r, v, out));
    infq_chat_strip(&out->u.str.s, &out->u.str.n, chars.type == CHAT_NONE ? NULL : &chars, true, true);
    return INFQ_E_OK;
}

static infq_status f_replace(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value s, from = infq_chat_none(), to = infq_chat_none(), count = infq_chat_none();

    INFQ_TRY(infq_chat_args_check(r, "replace", a, 2, 3, "old new count"));
    infq_chat_arg(a, 0, "old", &from);
    infq_chat_arg(a, 1, "new", &to);
    infq_chat_arg(a, 2, "count", &count);
    INFQ_TRY(infq_chat_str_value(r, v, &s));
    INFQ_TRY(infq_chat_str_value(r, &from, &from));
    INFQ_TRY(infq_chat_str_value(r, &to, &to));
    return infq_chat_replace(r, &s, &from, &to, count.type == CHAT_INT ? count.u.i : -1, out);
}

// The first n characters.
static size_t prefix_bytes(const chat_value *s, int64_t n)
{
    size_t at = 0, len;

    for (; n > 0 && at < s->u.str.n; n--, at += len)
        infq_utf8_next(s->u.str.s + at, s->u.str.n - at, &len);
    return at;
}

static infq_status f_truncate(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value s, end = infq_chat_strn("...", 3);
    int64_t length, leeway;
    infq_buf t;
    size_t n;

    INFQ_TRY(infq_chat_args_check(r, "truncate", a, 0, 4, "length killwords end leeway"));
    INFQ_TRY(int_arg(r, a, 0, "length", 255, &length));
    INFQ_TRY(int_arg(r, a, 3, "leeway", 5, &leeway));
    infq_chat_arg(a, 2, "end", &end);
    INFQ_TRY(infq_chat_str_value(r, v, &s));
    if (end.type != CHAT_STR || length < infq_chat_str_len(&end) || leeway < 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "truncate to less than its end");
    *out = s;
    if (infq_chat_str_len(&s) <= length + leeway)
        return INFQ_E_OK;
    n = prefix_bytes(&s, length - infq_chat_str_len(&end));
    for (size_t i = n; i > 0 && !bool_arg(a, 1, "killwords"); i--) { // up to the last blank, if there is one
        if (s.u.str.s[i - 1] == ' ') {
            n = i - 1;
            break;
        }
    }
    infq_buf_init(&t);
    infq_buf_add(&t, s.u.str.s, n);
    infq_buf_add(&t, end.u.str.s, end.u.str.n);
    return infq_chat_take(r, &t, out);
}

static infq_status f_indent(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value s, lines, pad = infq_chat_none();
    bool first = bool_arg(a, 1, "first"), blank = bool_arg(a, 2, "blank");
    chat_args none = { 0 };
    int64_t width = 4;
    infq_buf t;

    INFQ_TRY(infq_chat_args_check(r, "indent", a, 0, 3, "width first blank"));
    infq_chat_arg(a, 0, "width", &pad);
    if (pad.type != CHAT_STR)
        INFQ_TRY(int_arg(r, a, 0, "width", 4, &width));
    if (width > 1000)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "indent of more than 1000");
    INFQ_TRY(infq_chat_str_value(r, v, &s));
    infq_buf_init(&t); // a newline more, as the filter does
    infq_buf_add(&t, s.u.str.s, s.u.str.n);
    infq_buf_char(&t, '\n');
    INFQ_TRY(infq_chat_take(r, &t, &s));
    INFQ_TRY(infq_chat_method_call(r, &s, "splitlines", &none, &lines));
    infq_buf_init(&t);
    for (int64_t i = 0; i < lines.u.list->n; i++) {
        const chat_value *l = &lines.u.list->v[i];
        if (i > 0)
            infq_buf_char(&t, '\n');
        if (i > 0 ? l->u.str.n > 0 || blank : first) {
            if (pad.type == CHAT_STR)
                infq_buf_add(&t, pad.u.str.s, pad.u.str.n);
            for (int64_t k = 0; pad.type != CHAT_STR && k < width; k++)
                infq_buf_char(&t, ' ');
        }
        infq_buf_add(&t, l->u.str.s, l->u.str.n);
    }
    return infq_chat_take(r, &t, out);
}

static infq_status f_tojson(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_json_style style = { -1, false, false, ", ", ": " };
    chat_value x = infq_chat_none();
    infq_buf t;
    infq_status st;

    INFQ_TRY(infq_chat_args_check(r, "tojson", a, 0, 3, "ensure_ascii indent sort_keys"));
    infq_chat_arg(a, -1, "indent", &x);
    if (a->n > 0)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "tojson with arguments that have no name");
    style.ascii = bool_arg(a, -1, "ensure_ascii");
    style.sort_keys = bool_arg(a, -1, "sort_keys");
    if (x.type != CHAT_NONE) {
        INFQ_TRY(int_arg(r, a, -1, "indent", 0, &style.indent));
        if (style.indent < 0 || style.indent > 100)
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "tojson with an indent of %lld", (long long)style.indent);
        style.item_sep = ",";
    }
    infq_buf_init(&t);
    st = infq_chat_to_json(r, v, &style, 0, &t);
    if (!st)
        return infq_chat_take(r, &t, out);
    infq_buf_deinit(&t);
    return st;
}

static infq_status f_safe(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    (void)v;
    (void)a;
    (void)out;
    return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the filter safe anywhere but at the end of {{ }}");
}

// Numbers

static infq_status f_abs(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "abs", a, 0, 0, ""));
    if (v->type == CHAT_FLOAT)
        *out = infq_chat_float(fabs(v->u.f));
    else if (is_integer(v) && (v->type == CHAT_BOOL || v->u.i > INT64_MIN))
        *out = infq_chat_int(v->type == CHAT_BOOL ? v->u.b : v->u.i < 0 ? -v->u.i : v->u.i);
    else
        return infq_chat_fail(r, INFQ_E_FORMAT, "abs of a %s", infq_chat_type_name(v));
    return INFQ_E_OK;
}

static infq_status f_int(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    char text[64];
    const char *s = v->u.str.s;
    size_t n = v->u.str.n;
    int64_t whole;
    double f;

    INFQ_TRY(infq_chat_args_check(r, "int", a, 0, 1, "default"));
    *out = infq_chat_int(0);
    infq_chat_arg(a, 0, "default", out);
    if (is_integer(v)) {
        *out = infq_chat_int(v->type == CHAT_BOOL ? v->u.b : v->u.i);
    } else if (v->type == CHAT_FLOAT && fabs(v->u.f) < 9e18) {
        *out = infq_chat_int((int64_t)v->u.f);
    } else if (v->type == CHAT_STR) {
        infq_chat_strip(&s, &n, NULL, true, true);
        if (n == 0 || n >= sizeof(text))
            return INFQ_E_OK;
        memcpy(text, s, n);
        text[n] = '\0';
        if (strspn(text, "+-0123456789") == n && infq_parse_i64(text + (text[0] == '+'), INT64_MIN, INT64_MAX, &whole))
            *out = infq_chat_int(whole);
        else if (strspn(text, "+-0123456789.eE") == n && infq_parse_f64(text, -9e18, 9e18, &f))
            *out = infq_chat_int((int64_t)f);
    }
    return INFQ_E_OK;
}

static infq_status f_float(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    char text[64];
    double f;

    INFQ_TRY(infq_chat_args_check(r, "float", a, 0, 1, "default"));
    *out = infq_chat_float(0);
    infq_chat_arg(a, 0, "default", out);
    if (v->type == CHAT_FLOAT)
        *out = *v;
    else if (is_integer(v))
        *out = infq_chat_float(v->type == CHAT_BOOL ? v->u.b : (double)v->u.i);
    else if (v->type == CHAT_STR && v->u.str.n > 0 && v->u.str.n < sizeof(text)) {
        memcpy(text, v->u.str.s, v->u.str.n);
        text[v->u.str.n] = '\0';
        if (strspn(text, "+-0123456789.eE") == v->u.str.n && infq_parse_f64(text, -INFINITY, INFINITY, &f))
            *out = infq_chat_float(f);
    }
    return INFQ_E_OK;
}

// Lists

static infq_status f_length(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "length", a, 0, 0, ""));
    if (v->type == CHAT_STR)
        *out = infq_chat_int(infq_chat_str_len(v));
    else if (v->type == CHAT_LIST)
        *out = infq_chat_int(v->u.list->n);
    else if (v->type == CHAT_DICT)
        *out = infq_chat_int(v->u.dict->n);
    else if (v->type == CHAT_UNDEFINED)
        *out = infq_chat_int(0);
    else
        return infq_chat_fail(r, INFQ_E_FORMAT, "a %s has no length", infq_chat_type_name(v));
    return INFQ_E_OK;
}

static infq_status end_of(chat_run *r, const chat_value *v, const chat_args *a, bool last, chat_value *out)
{
    chat_list *l;

    INFQ_TRY(infq_chat_args_check(r, last ? "last" : "first", a, 0, 0, ""));
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    *out = l->n > 0 ? l->v[last ? l->n - 1 : 0] : infq_chat_undefined("the item of an empty list");
    return INFQ_E_OK;
}

static infq_status f_first(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return end_of(r, v, a, false, out);
}

static infq_status f_last(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return end_of(r, v, a, true, out);
}

static infq_status f_list(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_list *l;

    INFQ_TRY(infq_chat_args_check(r, "list", a, 0, 0, ""));
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < l->n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, l->v[i]));
    return INFQ_E_OK;
}

static infq_status f_reverse(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_list *l;
    infq_buf t;

    INFQ_TRY(infq_chat_args_check(r, "reverse", a, 0, 0, ""));
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    if (v->type == CHAT_STR) {
        infq_buf_init(&t);
        for (int64_t i = l->n - 1; i >= 0; i--)
            infq_buf_add(&t, l->v[i].u.str.s, l->v[i].u.str.n);
        return infq_chat_take(r, &t, out);
    }
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = l->n - 1; i >= 0; i--)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, l->v[i]));
    return INFQ_E_OK;
}

static infq_status f_join(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value sep = infq_chat_strn("", 0), path = infq_chat_none(), x;
    chat_list *l;
    infq_buf t;
    infq_status st = INFQ_E_OK;

    INFQ_TRY(infq_chat_args_check(r, "join", a, 0, 2, "d attribute"));
    infq_chat_arg(a, 0, "d", &sep);
    infq_chat_arg(a, 1, "attribute", &path);
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    infq_buf_init(&t);
    for (int64_t i = 0; i < l->n && !st; i++) {
        if (i > 0)
            st = infq_chat_str(r, &sep, &t);
        if (!st)
            st = attribute_of(r, &l->v[i], &path, &x);
        if (!st)
            st = infq_chat_str(r, &x, &t);
    }
    if (!st)
        return infq_chat_take(r, &t, out);
    infq_buf_deinit(&t);
    return st;
}

typedef struct {
    chat_value key, v;
} keyed;

// Stable, by key; `reverse` keeps equal ones in order too, as Python does.
static infq_status sort_keyed(chat_run *r, keyed *k, keyed *spare, int64_t n, bool reverse)
{
    int64_t half = n / 2, i = 0, j = half, c;

    if (n < 2)
        return INFQ_E_OK;
    INFQ_TRY(sort_keyed(r, k, spare, half, reverse));
    INFQ_TRY(sort_keyed(r, k + half, spare, n - half, reverse));
    for (int64_t at = 0; at < n; at++) {
        int order = 0;
        if (i < half && j < n)
            INFQ_TRY(infq_chat_compare(r, &k[i].key, &k[j].key, &order));
        c = reverse ? -order : order;
        spare[at] = j == n || (i < half && c <= 0) ? k[i++] : k[j++];
    }
    memcpy(k, spare, (size_t)n * sizeof(*k));
    return INFQ_E_OK;
}

static infq_status sorted(chat_run *r, const chat_list *l, const chat_value *path, bool sensitive, bool reverse, chat_value *out)
{
    void *p;
    keyed *k;

    INFQ_TRY(infq_arena_alloc(r->arena, (size_t)(2 * l->n + 1), sizeof(keyed), "sorted values", &p, r->err));
    k = p;
    for (int64_t i = 0; i < l->n; i++) {
        k[i].v = l->v[i];
        INFQ_TRY(attribute_of(r, &l->v[i], path, &k[i].key));
        INFQ_TRY(fold(r, &k[i].key, sensitive));
    }
    INFQ_TRY(sort_keyed(r, k, k + l->n, l->n, reverse));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < l->n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, k[i].v));
    return INFQ_E_OK;
}

static infq_status f_sort(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value path = infq_chat_none();
    chat_list *l;

    INFQ_TRY(infq_chat_args_check(r, "sort", a, 0, 3, "reverse case_sensitive attribute"));
    infq_chat_arg(a, 2, "attribute", &path);
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    return sorted(r, l, &path, bool_arg(a, 1, "case_sensitive"), bool_arg(a, 0, "reverse"), out);
}

static infq_status f_dictsort(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value by = infq_chat_strn("key", 3), pairs;
    chat_args none = { 0 };

    INFQ_TRY(infq_chat_args_check(r, "dictsort", a, 0, 3, "case_sensitive by reverse"));
    infq_chat_arg(a, 1, "by", &by);
    if (v->type != CHAT_DICT)
        return infq_chat_fail(r, INFQ_E_FORMAT, "dictsort of a %s", infq_chat_type_name(v));
    INFQ_TRY(infq_chat_method_call(r, v, "items", &none, &pairs));
    by = infq_chat_int(by.type == CHAT_STR && by.u.str.n == 5);
    return sorted(r, pairs.u.list, &by, bool_arg(a, 0, "case_sensitive"), bool_arg(a, 2, "reverse"), out);
}

static infq_status f_items(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    if (v->type == CHAT_UNDEFINED)
        return infq_chat_list_new(r, out);
    if (v->type != CHAT_DICT)
        return infq_chat_fail(r, INFQ_E_FORMAT, "items of a %s", infq_chat_type_name(v));
    return infq_chat_method_call(r, v, "items", a, out);
}

static infq_status f_unique(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value path = infq_chat_none(), seen, key;
    chat_list *l;

    INFQ_TRY(infq_chat_args_check(r, "unique", a, 0, 2, "case_sensitive attribute"));
    infq_chat_arg(a, 1, "attribute", &path);
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    INFQ_TRY(infq_chat_list_new(r, out));
    INFQ_TRY(infq_chat_list_new(r, &seen));
    for (int64_t i = 0; i < l->n; i++) {
        bool there;
        INFQ_TRY(attribute_of(r, &l->v[i], &path, &key));
        INFQ_TRY(fold(r, &key, bool_arg(a, 0, "case_sensitive")));
        INFQ_TRY(infq_chat_contains(r, &seen, &key, &there));
        if (there)
            continue;
        INFQ_TRY(infq_chat_list_add(r, seen.u.list, key));
        INFQ_TRY(infq_chat_list_add(r, out->u.list, l->v[i]));
    }
    return INFQ_E_OK;
}

static infq_status extreme(chat_run *r, const chat_value *v, const chat_args *a, int sign, chat_value *out)
{
    chat_value path = infq_chat_none(), best = infq_chat_none(), key;
    chat_list *l;
    int c = 0;

    INFQ_TRY(infq_chat_args_check(r, sign < 0 ? "min" : "max", a, 0, 2, "case_sensitive attribute"));
    infq_chat_arg(a, 1, "attribute", &path);
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    *out = infq_chat_undefined("the extreme of an empty list");
    for (int64_t i = 0; i < l->n; i++) {
        INFQ_TRY(attribute_of(r, &l->v[i], &path, &key));
        INFQ_TRY(fold(r, &key, bool_arg(a, 0, "case_sensitive")));
        if (i > 0)
            INFQ_TRY(infq_chat_compare(r, &key, &best, &c));
        if (i > 0 && c * sign <= 0)
            continue;
        best = key;
        *out = l->v[i];
    }
    return INFQ_E_OK;
}

static infq_status f_min(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return extreme(r, v, a, -1, out);
}

static infq_status f_max(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return extreme(r, v, a, 1, out);
}

static infq_status f_sum(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value path = infq_chat_none(), x, total = infq_chat_int(0);
    chat_list *l;

    INFQ_TRY(infq_chat_args_check(r, "sum", a, 0, 2, "attribute start"));
    infq_chat_arg(a, 0, "attribute", &path);
    infq_chat_arg(a, 1, "start", &total);
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    for (int64_t i = 0; i < l->n; i++) {
        chat_value before = total;
        INFQ_TRY(attribute_of(r, &l->v[i], &path, &x));
        INFQ_TRY(infq_chat_add(r, &before, &x, &total));
    }
    *out = total;
    return INFQ_E_OK;
}

static infq_status f_default(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    INFQ_TRY(infq_chat_args_check(r, "default", a, 0, 2, "default_value boolean"));
    *out = infq_chat_strn("", 0);
    infq_chat_arg(a, 0, "default_value", out);
    if (v->type != CHAT_UNDEFINED && (infq_chat_true(v) || !bool_arg(a, 1, "boolean")))
        *out = *v;
    return INFQ_E_OK;
}

// Arguments behind the first `skip`.
static chat_args rest(const chat_args *a, int skip)
{
    chat_args b = *a;

    b.n = a->n > skip ? a->n - skip : 0;
    memmove(b.v, b.v + skip, (size_t)b.n * sizeof(b.v[0]));
    return b;
}

static infq_status named_row(chat_run *r, const chat_value *name, const char *what, const void *(*find)(const char *),
                             const void **out)
{
    char text[40];

    if (name->type != CHAT_STR || name->u.str.n >= sizeof(text))
        return infq_chat_fail(r, INFQ_E_FORMAT, "a %s is named by a %s", what, infq_chat_type_name(name));
    memcpy(text, name->u.str.s, name->u.str.n);
    text[name->u.str.n] = '\0';
    *out = find(text);
    return *out ? INFQ_E_OK : infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the %s %s", what, text);
}

static infq_status f_map(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    chat_value path = infq_chat_none(), dflt = infq_chat_undefined(NULL), x;
    chat_args more = rest(a, 1);
    const void *row = NULL;
    chat_list *l;

    infq_chat_arg(a, -1, "attribute", &path);
    infq_chat_arg(a, -1, "default", &dflt);
    if (a->n == 0)
        INFQ_TRY(infq_chat_args_check(r, "map", a, 1, 2, "attribute default"));
    else
        INFQ_TRY(named_row(r, &a->v[0], "filter", infq_chat_filter_find, &row));
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < l->n; i++) {
        if (row)
            INFQ_TRY(infq_chat_filter_apply(r, row, &l->v[i], &more, &x));
        else
            INFQ_TRY(attribute_of(r, &l->v[i], &path, &x));
        if (!row && x.type == CHAT_UNDEFINED && dflt.type != CHAT_UNDEFINED)
            x = dflt;
        INFQ_TRY(infq_chat_list_add(r, out->u.list, x));
    }
    return INFQ_E_OK;
}

// select and its relatives: items whose value (or attribute) passes a test, or is true.
static infq_status chosen(chat_run *r, const chat_value *v, const chat_args *a, bool by_attribute, bool keep, chat_value *out)
{
    chat_value path = infq_chat_none(), x;
    int skip = by_attribute ? 1 : 0;
    chat_args more = rest(a, skip + 1);
    const void *row = NULL;
    chat_list *l;

    if (by_attribute && a->n == 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "selectattr and rejectattr need an attribute");
    if (by_attribute)
        path = a->v[0];
    if (a->n > skip)
        INFQ_TRY(named_row(r, &a->v[skip], "test", infq_chat_test_find, &row));
    INFQ_TRY(infq_chat_items_of(r, v, &l));
    INFQ_TRY(infq_chat_list_new(r, out));
    for (int64_t i = 0; i < l->n; i++) {
        bool yes;
        INFQ_TRY(attribute_of(r, &l->v[i], &path, &x));
        yes = infq_chat_true(&x);
        if (row)
            INFQ_TRY(infq_chat_test_apply(r, row, &x, &more, &yes));
        if (yes == keep)
            INFQ_TRY(infq_chat_list_add(r, out->u.list, l->v[i]));
    }
    return INFQ_E_OK;
}

static infq_status f_select(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return chosen(r, v, a, false, true, out);
}

static infq_status f_reject(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return chosen(r, v, a, false, false, out);
}

static infq_status f_selectattr(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return chosen(r, v, a, true, true, out);
}

static infq_status f_rejectattr(chat_run *r, const chat_value *v, const chat_args *a, chat_value *out)
{
    return chosen(r, v, a, true, false, out);
}

static const filter_row filters[] = {
    { "abs", f_abs },           { "capitalize", f_capitalize }, { "count", f_length },     { "d", f_default },
    { "default", f_default },   { "dictsort", f_dictsort },     { "first", f_first },      { "float", f_float },
    { "indent", f_indent },     { "int", f_int },               { "items", f_items },      { "join", f_join },
    { "last", f_last },         { "length", f_length },         { "list", f_list },        { "lower", f_lower },
    { "map", f_map },           { "max", f_max },               { "min", f_min },          { "reject", f_reject },
    { "rejectattr", f_rejectattr }, { "replace", f_replace },   { "reverse", f_reverse },  { "safe", f_safe },
    { "select", f_select },     { "selectattr", f_selectattr }, { "sort", f_sort },        { "string", f_string },
    { "sum", f_sum },           { "tojson", f_tojson },         { "trim", f_trim },        { "truncate", f_truncate },
    { "unique", f_unique },     { "upper", f_upper },
};

const void *infq_chat_filter_find(const char *name)
{
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (strcmp(filters[i].name, name) == 0)
            return &filters[i];
    return NULL;
}

infq_status infq_chat_filter_apply(chat_run *r, const void *row, const chat_value *v, const chat_args *a, chat_value *out)
{
    const filter_row *f = row;
    chat_value in = *v;

    return f->apply(r, &in, a, out);
}

// Tests

static infq_status t_defined(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    (void)r;
    (void)a;
    *out = v->type != CHAT_UNDEFINED;
    return INFQ_E_OK;
}

static infq_status t_undefined(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    (void)r;
    (void)a;
    *out = v->type == CHAT_UNDEFINED;
    return INFQ_E_OK;
}

// Tests that look at the type alone: a bit for each type that passes.
#define BIT(t) (1u << (t))

static infq_status of_type(const chat_value *v, unsigned types, bool *out)
{
    *out = (types >> v->type & 1u) != 0;
    return INFQ_E_OK;
}

#define TYPE_TEST(fn, types) \
    static infq_status fn(chat_run *r, const chat_value *v, const chat_args *a, bool *out) \
    { \
        (void)r; \
        (void)a; \
        return of_type(v, types, out); \
    }
TYPE_TEST(t_none, BIT(CHAT_NONE))
TYPE_TEST(t_boolean, BIT(CHAT_BOOL))
TYPE_TEST(t_integer, BIT(CHAT_INT))
TYPE_TEST(t_float, BIT(CHAT_FLOAT))
TYPE_TEST(t_number, BIT(CHAT_BOOL) | BIT(CHAT_INT) | BIT(CHAT_FLOAT))
TYPE_TEST(t_string, BIT(CHAT_STR))
TYPE_TEST(t_mapping, BIT(CHAT_DICT))
TYPE_TEST(t_iterable, BIT(CHAT_STR) | BIT(CHAT_LIST) | BIT(CHAT_DICT) | BIT(CHAT_UNDEFINED) | BIT(CHAT_LOOP))
TYPE_TEST(t_sequence, BIT(CHAT_STR) | BIT(CHAT_LIST) | BIT(CHAT_DICT) | BIT(CHAT_UNDEFINED))
TYPE_TEST(t_callable, BIT(CHAT_MACRO) | BIT(CHAT_FUNCTION) | BIT(CHAT_METHOD))

static infq_status t_true(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    (void)r;
    (void)a;
    *out = v->type == CHAT_BOOL && v->u.b;
    return INFQ_E_OK;
}

static infq_status t_false(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    (void)r;
    (void)a;
    *out = v->type == CHAT_BOOL && !v->u.b;
    return INFQ_E_OK;
}

static infq_status remainder_is(chat_run *r, const chat_value *v, int64_t by, int64_t want, bool *out)
{
    int64_t x = v->type == CHAT_BOOL ? v->u.b : v->u.i;

    if (!is_integer(v) || by == 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "the remainder of a %s", infq_chat_type_name(v));
    *out = by == -1 ? want == 0 : (x % by + by) % by == want;
    return INFQ_E_OK;
}

static infq_status t_even(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    (void)a;
    return remainder_is(r, v, 2, 0, out);
}

static infq_status t_odd(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    (void)a;
    return remainder_is(r, v, 2, 1, out);
}

static infq_status t_divisibleby(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    int64_t by;

    INFQ_TRY(int_arg(r, a, 0, "num", 0, &by));
    return remainder_is(r, v, by, 0, out);
}

static infq_status t_eq(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    return infq_chat_equal(r, v, &a->v[0], out);
}

static infq_status t_ne(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    INFQ_TRY(infq_chat_equal(r, v, &a->v[0], out));
    *out = !*out;
    return INFQ_E_OK;
}

static infq_status t_lt(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    int c;

    INFQ_TRY(infq_chat_compare(r, v, &a->v[0], &c));
    *out = c < 0;
    return INFQ_E_OK;
}

static infq_status t_le(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    int c;

    INFQ_TRY(infq_chat_compare(r, v, &a->v[0], &c));
    *out = c <= 0;
    return INFQ_E_OK;
}

static infq_status t_gt(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    INFQ_TRY(t_le(r, v, a, out));
    *out = !*out;
    return INFQ_E_OK;
}

static infq_status t_ge(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    INFQ_TRY(t_lt(r, v, a, out));
    *out = !*out;
    return INFQ_E_OK;
}

static infq_status t_in(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    return infq_chat_contains(r, &a->v[0], v, out);
}

// Identity, where it follows from the value.
static infq_status t_sameas(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    if (v->type == a->v[0].type && v->type != CHAT_NONE && v->type != CHAT_BOOL)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "sameas of a %s", infq_chat_type_name(v));
    *out = v->type == a->v[0].type && (v->type == CHAT_NONE || v->u.b == a->v[0].u.b);
    return INFQ_E_OK;
}

static infq_status t_lower(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    chat_value s;

    (void)a;
    INFQ_TRY(infq_chat_str_value(r, v, &s));
    *out = infq_is_lower(s.u.str.s, s.u.str.n);
    return INFQ_E_OK;
}

static infq_status t_upper(chat_run *r, const chat_value *v, const chat_args *a, bool *out)
{
    chat_value s;

    (void)a;
    INFQ_TRY(infq_chat_str_value(r, v, &s));
    *out = infq_is_upper(s.u.str.s, s.u.str.n);
    return INFQ_E_OK;
}

static const test_row tests[] = {
    { "defined", 0, t_defined },   { "undefined", 0, t_undefined }, { "none", 0, t_none },         { "boolean", 0, t_boolean },
    { "integer", 0, t_integer },   { "float", 0, t_float },         { "number", 0, t_number },     { "string", 0, t_string },
    { "mapping", 0, t_mapping },   { "iterable", 0, t_iterable },   { "sequence", 0, t_sequence }, { "callable", 0, t_callable },
    { "true", 0, t_true },         { "false", 0, t_false },         { "even", 0, t_even },         { "odd", 0, t_odd },
    { "lower", 0, t_lower },       { "upper", 0, t_upper },         { "divisibleby", 1, t_divisibleby },
    { "eq", 1, t_eq },             { "equalto", 1, t_eq },          { "==", 1, t_eq },             { "ne", 1, t_ne },
    { "!=", 1, t_ne },             { "lt", 1, t_lt },               { "lessthan", 1, t_lt },       { "<", 1, t_lt },
    { "le", 1, t_le },             { "<=", 1, t_le },               { "gt", 1, t_gt },             { "greaterthan", 1, t_gt },
    { ">", 1, t_gt },              { "ge", 1, t_ge },               { ">=", 1, t_ge },             { "in", 1, t_in },
    { "sameas", 1, t_sameas },
};

const void *infq_chat_test_find(const char *name)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strcmp(tests[i].name, name) == 0)
            return &tests[i];
    return NULL;
}

infq_status infq_chat_test_apply(chat_run *r, const void *row, const chat_value *v, const chat_args *a, bool *out)
{
    const test_row *t = row;

    if (a->n != t->n_args || a->n_named > 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "the test %s takes %d arguments, not %d", t->name, t->n_args, a->n + a->n_named);
    return t->apply(r, v, a, out);
}
