/* Values of chat templates: truth, order, equality and text as Python has them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/io/chat_int.h"

infq_status infq_chat_fail(chat_run *r, infq_status code, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return infq_err_set(r->err, code, "line %d: %s", r->line, text);
}

static infq_status check_bytes(chat_run *r, size_t more)
{
    if (more > CHAT_MAX_BYTES || r->out->n > CHAT_MAX_BYTES || infq_arena_bytes(r->arena) + more > CHAT_MAX_BYTES)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the template takes more than %zu bytes", CHAT_MAX_BYTES);
    return INFQ_E_OK;
}

infq_status infq_chat_step(chat_run *r)
{
    if (++r->steps > CHAT_MAX_STEPS)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the template takes more than %d steps", CHAT_MAX_STEPS);
    return r->steps % 256 ? INFQ_E_OK : check_bytes(r, 0);
}

chat_value infq_chat_none(void)
{
    return (chat_value){ .type = CHAT_NONE };
}

chat_value infq_chat_undefined(const char *name)
{
    return (chat_value){ .type = CHAT_UNDEFINED, .u.missing = name };
}

chat_value infq_chat_bool(bool b)
{
    return (chat_value){ .type = CHAT_BOOL, .u.b = b };
}

chat_value infq_chat_int(int64_t i)
{
    return (chat_value){ .type = CHAT_INT, .u.i = i };
}

chat_value infq_chat_float(double f)
{
    return (chat_value){ .type = CHAT_FLOAT, .u.f = f };
}

chat_value infq_chat_strn(const char *s, size_t n)
{
    return (chat_value){ .type = CHAT_STR, .u.str = { s, n } };
}

const char *infq_chat_type_name(const chat_value *v)
{
    static const char *const names[] = { "undefined", "none", "boolean", "integer", "float", "string", "list", "dict",
                                         "namespace", "macro", "function", "method", "loop" };

    return names[v->type];
}

bool infq_chat_true(const chat_value *v)
{
    switch (v->type) {
    case CHAT_UNDEFINED:
    case CHAT_NONE:
        return false;
    case CHAT_BOOL:
        return v->u.b;
    case CHAT_INT:
        return v->u.i != 0;
    case CHAT_FLOAT:
        return v->u.f != 0;
    case CHAT_STR:
        return v->u.str.n > 0;
    case CHAT_LIST:
        return v->u.list->n > 0;
    case CHAT_DICT:
        return v->u.dict->n > 0;
    default:
        return true;
    }
}

infq_status infq_chat_text(chat_run *r, const char *s, size_t n, chat_value *out)
{
    void *p;

    INFQ_TRY(infq_chat_step(r));
    INFQ_TRY(check_bytes(r, n));
    INFQ_TRY(infq_arena_alloc(r->arena, n + 1, 1, "text", &p, r->err));
    if (n > 0)
        memcpy(p, s, n);
    ((char *)p)[n] = '\0';
    *out = infq_chat_strn(p, n);
    return INFQ_E_OK;
}

infq_status infq_chat_take(chat_run *r, infq_buf *b, chat_value *out)
{
    infq_status st = infq_buf_status(b, r->err);

    if (!st)
        st = infq_chat_text(r, b->data, b->n, out);
    infq_buf_deinit(b);
    return st;
}

// Doubles room for values of n_arrays parallel arrays.
static infq_status grow(chat_run *r, chat_value **v, int64_t n, int64_t *cap, infq_err *err)
{
    int64_t more = *cap ? 2 * *cap : 4;
    void *p;

    INFQ_TRY(infq_arena_alloc(r->arena, (size_t)more, sizeof(**v), "values", &p, err));
    if (n > 0)
        memcpy(p, *v, (size_t)n * sizeof(**v));
    *v = p;
    *cap = more;
    return INFQ_E_OK;
}

static int depth_of(const chat_value *v)
{
    return v->type == CHAT_LIST ? v->u.list->depth : v->type == CHAT_DICT ? v->u.dict->depth : 0;
}

static infq_status deepen(chat_run *r, int *depth, const chat_value *v)
{
    int d = depth_of(v) + 1;

    if (d > CHAT_MAX_DEPTH)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "lists nested deeper than %d", CHAT_MAX_DEPTH);
    if (d > *depth)
        *depth = d;
    return INFQ_E_OK;
}

infq_status infq_chat_list_new(chat_run *r, chat_value *out)
{
    void *p;

    INFQ_TRY(infq_chat_step(r));
    INFQ_TRY(infq_arena_calloc(r->arena, 1, sizeof(chat_list), "list", &p, r->err));
    *out = (chat_value){ .type = CHAT_LIST, .u.list = p };
    out->u.list->depth = 1;
    return INFQ_E_OK;
}

infq_status infq_chat_list_add(chat_run *r, chat_list *l, chat_value v)
{
    INFQ_TRY(infq_chat_step(r));
    INFQ_TRY(deepen(r, &l->depth, &v));
    if (l->n == l->cap)
        INFQ_TRY(grow(r, &l->v, l->n, &l->cap, r->err));
    l->v[l->n++] = v;
    return INFQ_E_OK;
}

infq_status infq_chat_dict_new(chat_run *r, chat_value *out)
{
    void *p;

    INFQ_TRY(infq_chat_step(r));
    INFQ_TRY(infq_arena_calloc(r->arena, 1, sizeof(chat_dict), "dict", &p, r->err));
    *out = (chat_value){ .type = CHAT_DICT, .u.dict = p };
    out->u.dict->depth = 1;
    return INFQ_E_OK;
}

static bool is_number(const chat_value *v)
{
    return v->type == CHAT_BOOL || v->type == CHAT_INT || v->type == CHAT_FLOAT;
}

static double as_double(const chat_value *v)
{
    return v->type == CHAT_FLOAT ? v->u.f : v->type == CHAT_INT ? (double)v->u.i : (double)v->u.b;
}

static int64_t as_int(const chat_value *v)
{
    return v->type == CHAT_BOOL ? v->u.b : v->u.i;
}

// Everything but lists and dicts.
static bool same_scalar(const chat_value *a, const chat_value *b)
{
    if (is_number(a) && is_number(b)) {
        if (a->type != CHAT_FLOAT && b->type != CHAT_FLOAT)
            return as_int(a) == as_int(b);
        return as_double(a) == as_double(b);
    }
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case CHAT_UNDEFINED:
    case CHAT_NONE:
        return true;
    case CHAT_STR:
        return a->u.str.n == b->u.str.n && memcmp(a->u.str.s, b->u.str.s, a->u.str.n) == 0;
    case CHAT_NAMESPACE:
        return a->u.dict == b->u.dict;
    case CHAT_MACRO:
        return a->u.macro == b->u.macro;
    case CHAT_FUNCTION:
        return a->u.function == b->u.function;
    default:
        return false;
    }
}

const chat_value *infq_chat_dict_get(const chat_dict *d, const chat_value *key)
{
    for (int64_t i = 0; i < d->n; i++)
        if (same_scalar(&d->keys[i], key))
            return &d->values[i];
    return NULL;
}

const chat_value *infq_chat_dict_find(const chat_dict *d, const char *key)
{
    chat_value k = infq_chat_strn(key, strlen(key));

    return infq_chat_dict_get(d, &k);
}

infq_status infq_chat_dict_put(chat_run *r, chat_dict *d, chat_value key, chat_value v)
{
    chat_value *there = (chat_value *)infq_chat_dict_get(d, &key);
    int64_t cap = d->cap;

    INFQ_TRY(infq_chat_step(r));
    if (key.type > CHAT_STR || key.type == CHAT_UNDEFINED)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a %s as the key of a dict", infq_chat_type_name(&key));
    INFQ_TRY(deepen(r, &d->depth, &v));
    if (there) {
        *there = v;
        return INFQ_E_OK;
    }
    if (d->n == d->cap) {
        INFQ_TRY(grow(r, &d->keys, d->n, &cap, r->err));
        INFQ_TRY(grow(r, &d->values, d->n, &d->cap, r->err));
    }
    d->keys[d->n] = key;
    d->values[d->n++] = v;
    return INFQ_E_OK;
}

static infq_status equal_lists(chat_run *r, const chat_list *a, const chat_list *b, bool *out)
{
    *out = a->n == b->n && a->tuple == b->tuple;
    for (int64_t i = 0; i < a->n && *out && a != b; i++)
        INFQ_TRY(infq_chat_equal(r, &a->v[i], &b->v[i], out));
    return INFQ_E_OK;
}

static infq_status equal_dicts(chat_run *r, const chat_dict *a, const chat_dict *b, bool *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; i < a->n && *out && a != b; i++) {
        const chat_value *other = infq_chat_dict_get(b, &a->keys[i]);
        *out = other != NULL;
        if (other)
            INFQ_TRY(infq_chat_equal(r, &a->values[i], other, out));
    }
    return INFQ_E_OK;
}

infq_status infq_chat_equal(chat_run *r, const chat_value *a, const chat_value *b, bool *out)
{
    INFQ_TRY(infq_chat_step(r));
    if (a->type == CHAT_LIST && b->type == CHAT_LIST)
        return equal_lists(r, a->u.list, b->u.list, out);
    if (a->type == CHAT_DICT && b->type == CHAT_DICT)
        return equal_dicts(r, a->u.dict, b->u.dict, out);
    if (a->type == CHAT_METHOD || b->type == CHAT_METHOD || a->type == CHAT_LOOP || b->type == CHAT_LOOP)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "comparing a %s", infq_chat_type_name(a->type == CHAT_METHOD ? a : b));
    *out = same_scalar(a, b);
    return INFQ_E_OK;
}

infq_status infq_chat_compare(chat_run *r, const chat_value *a, const chat_value *b, int *out)
{
    INFQ_TRY(infq_chat_step(r));
    if (is_number(a) && is_number(b)) {
        double x = as_double(a), y = as_double(b);
        if (isnan(x) || isnan(y))
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "ordering a number that is none");
        if (a->type != CHAT_FLOAT && b->type != CHAT_FLOAT)
            *out = as_int(a) < as_int(b) ? -1 : as_int(a) > as_int(b);
        else
            *out = x < y ? -1 : x > y;
        return INFQ_E_OK;
    }
    if (a->type == CHAT_STR && b->type == CHAT_STR) { // bytes of UTF-8 are in the order of code points
        size_t n = a->u.str.n < b->u.str.n ? a->u.str.n : b->u.str.n;
        int c = memcmp(a->u.str.s, b->u.str.s, n);
        *out = c ? (c < 0 ? -1 : 1) : a->u.str.n < b->u.str.n ? -1 : a->u.str.n > b->u.str.n;
        return INFQ_E_OK;
    }
    if (a->type == CHAT_LIST && b->type == CHAT_LIST && a->u.list->tuple == b->u.list->tuple) {
        const chat_list *x = a->u.list, *y = b->u.list;
        *out = 0;
        for (int64_t i = 0; i < x->n && i < y->n; i++) {
            bool same;
            INFQ_TRY(infq_chat_equal(r, &x->v[i], &y->v[i], &same));
            if (!same)
                return infq_chat_compare(r, &x->v[i], &y->v[i], out);
        }
        *out = x->n < y->n ? -1 : x->n > y->n;
        return INFQ_E_OK;
    }
    return infq_chat_fail(r, INFQ_E_FORMAT, "a %s and a %s have no order", infq_chat_type_name(a), infq_chat_type_name(b));
}

infq_status infq_chat_contains(chat_run *r, const chat_value *in, const chat_value *what, bool *out)
{
    *out = false;
    switch (in->type) {
    case CHAT_STR:
        if (what->type != CHAT_STR)
            return infq_chat_fail(r, INFQ_E_FORMAT, "a %s cannot be in a string", infq_chat_type_name(what));
        *out = what->u.str.n == 0 || memmem(in->u.str.s, in->u.str.n, what->u.str.s, what->u.str.n) != NULL;
        return INFQ_E_OK;
    case CHAT_LIST:
        for (int64_t i = 0; i < in->u.list->n && !*out; i++)
            INFQ_TRY(infq_chat_equal(r, &in->u.list->v[i], what, out));
        return INFQ_E_OK;
    case CHAT_DICT:
        if (what->type == CHAT_LIST || what->type == CHAT_DICT)
            return infq_chat_fail(r, INFQ_E_FORMAT, "a %s cannot be the key of a dict", infq_chat_type_name(what));
        *out = infq_chat_dict_get(in->u.dict, what) != NULL;
        return INFQ_E_OK;
    case CHAT_UNDEFINED:
        return INFQ_E_OK;
    default:
        return infq_chat_fail(r, INFQ_E_FORMAT, "nothing can be in a %s", infq_chat_type_name(in));
    }
}

// As repr(float): the fewest digits that read back equal, fixed notation for exponents -4 .. 15.
static void put_float(double f, infq_buf *to)
{
    char e[40], digits[24];
    int n = 0, exp10, p;

    if (!isfinite(f)) {
        infq_buf_str(to, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (p = 0; p < 17; p++) {
        snprintf(e, sizeof(e), "%.*e", p, f);
        if (strtod(e, NULL) == f)
            break;
    }
    for (const char *c = e; *c && *c != 'e'; c++)
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    exp10 = atoi(strchr(e, 'e') + 1);
    if (e[0] == '-')
        infq_buf_char(to, '-');
    if (exp10 < -4 || exp10 >= 16) {
        infq_buf_char(to, digits[0]);
        if (n > 1)
            infq_buf_char(to, '.');
        infq_buf_add(to, digits + 1, (size_t)(n - 1));
        infq_buf_fmt(to, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));
        return;
    }
    if (exp10 < 0)
        infq_buf_str(to, "0.");
    for (int i = exp10; i < -1; i++)
        infq_buf_char(to, '0');
    for (int i = 0; i < n || i <= exp10; i++) {
        infq_buf_char(to, i < n ? digits[i] : '0');
        if (i == exp10)
            infq_buf_str(to, i + 1 < n ? "." : ".0");
    }
}

static void put_repr_char(uint32_t cp, const char *s, size_t len, char quote, infq_buf *to)
{
    if (cp == '\\' || cp == (uint32_t)quote)
        infq_buf_fmt(to, "\\%c", (int)cp);
    else if (cp == '\n')
        infq_buf_str(to, "\\n");
    else if (cp == '\r')
        infq_buf_str(to, "\\r");
    else if (cp == '\t')
        infq_buf_str(to, "\\t");
    else if (infq_is_printable(cp))
        infq_buf_add(to, s, len);
    else
        infq_buf_fmt(to, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
}

static void put_repr_str(const char *s, size_t n, infq_buf *to)
{
    char quote = memchr(s, '\'', n) && !memchr(s, '"', n) ? '"' : '\'';
    size_t len;

    infq_buf_char(to, quote);
    for (size_t at = 0; at < n; at += len) {
        uint32_t cp = infq_utf8_next(s + at, n - at, &len);
        put_repr_char(cp, s + at, len, quote, to);
    }
    infq_buf_char(to, quote);
}

static infq_status repr_list(chat_run *r, const chat_list *l, infq_buf *to)
{
    infq_buf_char(to, l->tuple ? '(' : '[');
    for (int64_t i = 0; i < l->n; i++) {
        if (i > 0)
            infq_buf_str(to, ", ");
        INFQ_TRY(infq_chat_repr(r, &l->v[i], to));
    }
    if (l->tuple && l->n == 1)
        infq_buf_char(to, ',');
    infq_buf_char(to, l->tuple ? ')' : ']');
    return INFQ_E_OK;
}

infq_status infq_chat_repr(chat_run *r, const chat_value *v, infq_buf *to)
{
    INFQ_TRY(infq_chat_step(r));
    if (to->n > CHAT_MAX_BYTES)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the template makes more than %zu bytes", CHAT_MAX_BYTES);
    switch (v->type) {
    case CHAT_UNDEFINED:
        infq_buf_str(to, "Undefined");
        return INFQ_E_OK;
    case CHAT_NONE:
        infq_buf_str(to, "None");
        return INFQ_E_OK;
    case CHAT_BOOL:
        infq_buf_str(to, v->u.b ? "True" : "False");
        return INFQ_E_OK;
    case CHAT_INT:
        infq_buf_fmt(to, "%lld", (long long)v->u.i);
        return INFQ_E_OK;
    case CHAT_FLOAT:
        put_float(v->u.f, to);
        return INFQ_E_OK;
    case CHAT_STR:
        put_repr_str(v->u.str.s, v->u.str.n, to);
        return INFQ_E_OK;
    case CHAT_LIST:
        return repr_list(r, v->u.list, to);
    case CHAT_DICT:
        infq_buf_char(to, '{');
        for (int64_t i = 0; i < v->u.dict->n; i++) {
            if (i > 0)
                infq_buf_str(to, ", ");
            INFQ_TRY(infq_chat_repr(r, &v->u.dict->keys[i], to));
            infq_buf_str(to, ": ");
            INFQ_TRY(infq_chat_repr(r, &v->u.dict->values[i], to));
        }
        infq_buf_char(to, '}');
        return INFQ_E_OK;
    default:
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "the text of a %s", infq_chat_type_name(v));
    }
}

infq_status infq_chat_str(chat_run *r, const chat_value *v, infq_buf *to)
{
    if (v->type == CHAT_STR)
        infq_buf_add(to, v->u.str.s, v->u.str.n);
    else if (v->type != CHAT_UNDEFINED)
        return infq_chat_repr(r, v, to);
    return INFQ_E_OK;
}

infq_status infq_chat_str_value(chat_run *r, const chat_value *v, chat_value *out)
{
    infq_buf b;
    infq_status st;

    if (v->type == CHAT_STR) {
        *out = *v;
        return INFQ_E_OK;
    }
    infq_buf_init(&b);
    st = infq_chat_str(r, v, &b);
    if (!st)
        return infq_chat_take(r, &b, out);
    infq_buf_deinit(&b);
    return st;
}

infq_status infq_chat_items_of(chat_run *r, const chat_value *v, chat_list **out)
{
    chat_value l;
    size_t len;

    if (v->type == CHAT_LIST) {
        *out = v->u.list;
        return INFQ_E_OK;
    }
    INFQ_TRY(infq_chat_list_new(r, &l));
    if (v->type == CHAT_DICT) {
        for (int64_t i = 0; i < v->u.dict->n; i++)
            INFQ_TRY(infq_chat_list_add(r, l.u.list, v->u.dict->keys[i]));
    } else if (v->type == CHAT_STR) {
        for (size_t at = 0; at < v->u.str.n; at += len) {
            infq_utf8_next(v->u.str.s + at, v->u.str.n - at, &len);
            INFQ_TRY(infq_chat_list_add(r, l.u.list, infq_chat_strn(v->u.str.s + at, len)));
        }
    } else if (v->type != CHAT_UNDEFINED) {
        return infq_chat_fail(r, INFQ_E_FORMAT, "a %s cannot be gone through", infq_chat_type_name(v));
    }
    *out = l.u.list;
    return INFQ_E_OK;
}

int64_t infq_chat_str_len(const chat_value *v)
{
    return (int64_t)infq_utf8_count(v->u.str.s, v->u.str.n);
}
