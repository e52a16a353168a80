#include "lib/base/yaml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "lib/base/file.h"
#include "lib/base/str.h"

#define MAX_DEPTH 64

typedef struct {
    const cJSON *node;
    int64_t line;
} mark;

struct infq_yaml {
    cJSON *root;
    char *name;
    infq_buf marks;      /* of mark, by address once the tree is complete */
};

typedef struct {
    infq_yaml *y;
    yaml_parser_t p;
    infq_err *err;
} reader;

static infq_status fail_at(const reader *r, const yaml_mark_t *at, const char *rule)
{
    return infq_err_set(r->err, INFQ_E_FORMAT, "%s:%zu: %s", r->y->name, at->line + 1, rule);
}

static infq_status next_event(reader *r, yaml_event_t *e)
{
    if (yaml_parser_parse(&r->p, e))
        return 0;
    if (r->p.error == YAML_MEMORY_ERROR)
        return infq_err_set(r->err, INFQ_E_NOMEM, "%s: no memory", r->y->name);
    if (r->p.error == YAML_READER_ERROR) {
        return infq_err_set(r->err, INFQ_E_FORMAT, "%s: byte %zu: %s", r->y->name, r->p.problem_offset,
                            r->p.problem ? r->p.problem : "no text");
    }
    return fail_at(r, &r->p.problem_mark, r->p.problem ? r->p.problem : "not YAML");
}

static infq_status keep(reader *r, const cJSON *node, const yaml_mark_t *at)
{
    mark m = {node, (int64_t)at->line + 1};

    if (!node)
        return infq_err_set(r->err, INFQ_E_NOMEM, "%s: no memory", r->y->name);
    infq_buf_add(&r->y->marks, &m, sizeof(m));
    return infq_buf_status(&r->y->marks, r->err);
}

static bool all_digits(const char *s)
{
    return *s && strspn(s, "0123456789") == strlen(s);
}

/* [-+]?(0o[0-7]+|0x[0-9a-fA-F]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?) */
static bool is_number(const char *s, double *out)
{
    const char *t = s + (*s == '-' || *s == '+');
    size_t whole, part = 0;

    if (t[0] == '0' && (t[1] == 'o' || t[1] == 'x')) {
        const char *set = t[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
        if (!t[2] || strspn(t + 2, set) != strlen(t + 2) || strlen(t + 2) > 15)
            return false;
        *out = (double)strtoll(t + 2, NULL, t[1] == 'o' ? 8 : 16) * (*s == '-' ? -1 : 1);
        return true;
    }
    whole = strspn(t, "0123456789");
    t += whole;
    if (*t == '.') {
        part = strspn(t + 1, "0123456789");
        t += 1 + part;
    }
    if (whole + part == 0)
        return false;
    if (*t == 'e' || *t == 'E') {
        t += 1 + (t[1] == '-' || t[1] == '+');
        if (!all_digits(t))
            return false;
    } else if (*t) {
        return false;
    }
    *out = strtod(s, NULL);
    return true;
}

static bool is_one_of(const char *s, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(s, *names) == 0)
            return true;
    return false;
}

static infq_status scalar(reader *r, const yaml_event_t *e, cJSON **out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL}, *const yes[] = {"true", "True", "TRUE", NULL},
                             *const no[] = {"false", "False", "FALSE", NULL};
    static const char *const odd[] = {".inf", ".Inf", ".INF", "-.inf", "-.Inf", "-.INF", "+.inf", "+.Inf", "+.INF",
                                      ".nan", ".NaN", ".NAN", NULL};
    const char *s = (const char *)e->data.scalar.value;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    double v;

    if (e->data.scalar.tag)
        return fail_at(r, &e->start_mark, "tags (!) are not supported");
    if (e->data.scalar.anchor)
        return fail_at(r, &e->start_mark, "anchors (&) are not supported");
    if (strlen(s) != e->data.scalar.length)
        return fail_at(r, &e->start_mark, "text holds a NUL character");
    if (plain && is_one_of(s, nulls))
        *out = cJSON_CreateNull();
    else if (plain && is_one_of(s, yes))
        *out = cJSON_CreateTrue();
    else if (plain && is_one_of(s, no))
        *out = cJSON_CreateFalse();
    else if (plain && is_number(s, &v))
        *out = cJSON_CreateNumber(v);
    else
        *out = cJSON_CreateString(s);
    if ((plain && is_one_of(s, odd)) || (*out && cJSON_IsNumber(*out) && !isfinite((*out)->valuedouble))) {
        cJSON_Delete(*out);
        *out = NULL;
        return fail_at(r, &e->start_mark, "a number that is not finite");
    }
    return 0;
}

static infq_status value(reader *r, const yaml_event_t *e, int depth, cJSON **out);

static infq_status sequence(reader *r, int depth, cJSON *list)
{
    for (;;) {
        yaml_event_t e;
        cJSON *v = NULL;
        bool end;
        yaml_mark_t at;
        infq_status st;

        INFQ_TRY(next_event(r, &e));
        end = e.type == YAML_SEQUENCE_END_EVENT;
        at = e.start_mark;
        st = end ? 0 : value(r, &e, depth, &v);
        yaml_event_delete(&e);
        if (st || end)
            return st;
        cJSON_AddItemToArray(list, v);
        INFQ_TRY(keep(r, v, &at));
    }
}

static infq_status key_of(reader *r, const yaml_event_t *e, const cJSON *object, char **key)
{
    const char *s = (const char *)e->data.scalar.value;

    if (e->type != YAML_SCALAR_EVENT)
        return fail_at(r, &e->start_mark, "a key must be a word");
    if (e->data.scalar.tag || e->data.scalar.anchor)
        return fail_at(r, &e->start_mark, "tags and anchors are not supported");
    if (strlen(s) != e->data.scalar.length || strcmp(s, "<<") == 0)
        return fail_at(r, &e->start_mark, "merge keys (<<) are not supported");
    if (cJSON_GetObjectItemCaseSensitive(object, s))
        return infq_err_set(r->err, INFQ_E_FORMAT, "%s:%zu: %.80s: key stands twice", r->y->name, e->start_mark.line + 1, s);
    *key = infq_mem_strdup(s);
    return *key ? 0 : infq_err_set(r->err, INFQ_E_NOMEM, "%s: no memory", r->y->name);
}

static infq_status mapping(reader *r, int depth, cJSON *object)
{
    for (;;) {
        yaml_event_t e;
        cJSON *v = NULL;
        char *key = NULL;
        yaml_mark_t at;
        infq_status st;
        bool end;

        INFQ_TRY(next_event(r, &e));
        end = e.type == YAML_MAPPING_END_EVENT;
        at = e.start_mark;
        st = end ? 0 : key_of(r, &e, object, &key);
        yaml_event_delete(&e);
        if (st || end)
            return st;
        st = next_event(r, &e);
        if (!st) {
            st = value(r, &e, depth, &v);
            yaml_event_delete(&e);
        }
        if (!st && v && !cJSON_AddItemToObject(object, key, v)) {
            cJSON_Delete(v);
            v = NULL;
        }
        if (!st)
            st = keep(r, v, &at);
        infq_mem_free(key);
        INFQ_TRY(st);
    }
}

/* The node that event e begins; NULL in *out when memory ran out. */
static infq_status value(reader *r, const yaml_event_t *e, int depth, cJSON **out)
{
    infq_status st;

    if (depth > MAX_DEPTH)
        return fail_at(r, &e->start_mark, "nested too deeply");
    if (e->type == YAML_SCALAR_EVENT)
        return scalar(r, e, out);
    if (e->type == YAML_ALIAS_EVENT)
        return fail_at(r, &e->start_mark, "aliases (*) are not supported");
    if (e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor || e->data.sequence_start.tag
                                             : e->data.mapping_start.anchor || e->data.mapping_start.tag)
        return fail_at(r, &e->start_mark, "tags and anchors are not supported");
    *out = e->type == YAML_SEQUENCE_START_EVENT ? cJSON_CreateArray() : cJSON_CreateObject();
    if (!*out)
        return 0;
    st = e->type == YAML_SEQUENCE_START_EVENT ? sequence(r, depth + 1, *out) : mapping(r, depth + 1, *out);
    if (st) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return st;
}

static infq_status document(reader *r)
{
    static const yaml_event_type_t head[] = {YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT};
    yaml_event_t e;
    infq_status st;

    for (int i = 0; i < 2; i++) {
        bool end;
        INFQ_TRY(next_event(r, &e));
        end = e.type != head[i];
        yaml_event_delete(&e);
        if (end) { // nothing but comments
            r->y->root = cJSON_CreateNull();
            return r->y->root ? 0 : infq_err_set(r->err, INFQ_E_NOMEM, "%s: no memory", r->y->name);
        }
    }
    INFQ_TRY(next_event(r, &e));
    st = value(r, &e, 0, &r->y->root);
    if (!st)
        st = keep(r, r->y->root, &e.start_mark);
    yaml_event_delete(&e);
    for (int i = 0; i < 2 && !st; i++) { // the end of the document, then of the stream
        st = next_event(r, &e);
        if (!st && i == 1 && e.type != YAML_STREAM_END_EVENT)
            st = fail_at(r, &e.start_mark, "a second document; one is wanted");
        if (!st)
            yaml_event_delete(&e);
    }
    return st;
}

static int by_node(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const mark *)a)->node, y = (uintptr_t)((const mark *)b)->node;

    return (x > y) - (x < y);
}

infq_status infq_yaml_parse(const char *text, size_t n, const char *what, infq_yaml **out, infq_err *err)
{
    reader r;
    infq_yaml *y = infq_mem_calloc(1, sizeof(*y));
    infq_status st;

    if (!y)
        return infq_err_set(err, INFQ_E_NOMEM, "%s: no memory", what);
    infq_buf_init(&y->marks);
    y->name = infq_mem_strdup(what);
    r.y = y;
    r.err = err;
    if (!y->name || !yaml_parser_initialize(&r.p)) {
        infq_yaml_free(y);
        return infq_err_set(err, INFQ_E_NOMEM, "%s: no memory", what);
    }
    yaml_parser_set_encoding(&r.p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.p, (const unsigned char *)text, n);
    st = document(&r);
    yaml_parser_delete(&r.p);
    if (st) {
        infq_yaml_free(y);
        return st;
    }
    qsort(y->marks.data, y->marks.n / sizeof(mark), sizeof(mark), by_node);
    *out = y;
    return 0;
}

infq_status infq_yaml_load(const char *path, size_t max_bytes, infq_yaml **out, infq_err *err)
{
    infq_buf b;
    infq_status st;

    infq_buf_init(&b);
    st = infq_file_read(path, max_bytes, &b, err);
    if (!st)
        st = infq_yaml_parse(b.data, b.n, path, out, err);
    infq_buf_deinit(&b);
    return st;
}

void infq_yaml_free(infq_yaml *y)
{
    if (!y)
        return;
    cJSON_Delete(y->root);
    infq_buf_deinit(&y->marks);
    infq_mem_free(y->name);
    infq_mem_free(y);
}

const cJSON *infq_yaml_root(const infq_yaml *y)
{
    return y->root;
}

int64_t infq_yaml_line(const infq_yaml *y, const cJSON *node)
{
    mark key = {node, 0};
    const mark *m = bsearch(&key, y->marks.data, y->marks.n / sizeof(mark), sizeof(mark), by_node);

    return m ? m->line : 0;
}

typedef struct {
    const infq_yaml *from;
    infq_yaml *to;
    const cJSON *vars;
    infq_err *err;
} expander;

static infq_status variable(const expander *x, const cJSON *node, const char *name, size_t n, const cJSON **out)
{
    const char *names[64], *near;
    const cJSON *v;
    char word[64];
    size_t n_names = 0;

    snprintf(word, sizeof(word), "%.*s", (int)n, name);
    *out = cJSON_GetObjectItemCaseSensitive(x->vars, word);
    if (*out)
        return 0;
    cJSON_ArrayForEach(v, x->vars)
        if (n_names < 64)
            names[n_names++] = v->string;
    near = infq_nearest(word, names, n_names);
    return near ? infq_yaml_err(x->from, node, x->err, "no variable %s, %s was probably meant", word, near)
                : infq_yaml_err(x->from, node, x->err, "no variable %s", word);
}

static infq_status put_variable(const expander *x, const cJSON *node, const cJSON *v, infq_buf *to)
{
    char number[32];

    if (cJSON_IsString(v)) {
        infq_buf_str(to, v->valuestring);
    } else if (cJSON_IsNumber(v)) {
        snprintf(number, sizeof(number), "%.15g", v->valuedouble);
        infq_buf_str(to, number);
    } else if (cJSON_IsBool(v)) {
        infq_buf_str(to, cJSON_IsTrue(v) ? "true" : "false");
    } else {
        return infq_yaml_err(x->from, node, x->err, "variable %.40s is no text", v->string ? v->string : "");
    }
    return 0;
}

/* Text with its variables; *whole is set instead when it is nothing but one variable. */
static infq_status expand_text(const expander *x, const cJSON *node, infq_buf *to, const cJSON **whole)
{
    const char *s = node->valuestring;

    *whole = NULL;
    while (*s) {
        const char *end;
        const cJSON *v;
        if (strncmp(s, "$${", 3) == 0) {
            infq_buf_str(to, "${");
            s += 3;
            continue;
        }
        if (strncmp(s, "${", 2) != 0) {
            infq_buf_char(to, *s++);
            continue;
        }
        end = strchr(s, '}');
        if (!end)
            return infq_yaml_err(x->from, node, x->err, "${ without }");
        INFQ_TRY(variable(x, node, s + 2, (size_t)(end - s - 2), &v));
        if (s == node->valuestring && !end[1]) {
            *whole = v;
            return 0;
        }
        INFQ_TRY(put_variable(x, node, v, to));
        s = end + 1;
    }
    return infq_buf_status(to, x->err);
}

static infq_status expand(const expander *x, const cJSON *node, cJSON **out);

static infq_status expand_children(const expander *x, const cJSON *node, cJSON *into)
{
    const cJSON *c;

    cJSON_ArrayForEach(c, node) {
        cJSON *v = NULL;
        INFQ_TRY(expand(x, c, &v));
        if (cJSON_IsArray(into) ? !cJSON_AddItemToArray(into, v) : !cJSON_AddItemToObject(into, c->string, v)) {
            cJSON_Delete(v);
            return infq_err_set(x->err, INFQ_E_NOMEM, "%s: no memory", x->to->name);
        }
    }
    return 0;
}

static infq_status expand(const expander *x, const cJSON *node, cJSON **out)
{
    mark m = {NULL, infq_yaml_line(x->from, node)};
    infq_status st = 0;

    *out = NULL;
    if (cJSON_IsString(node)) {
        const cJSON *whole;
        infq_buf text;
        infq_buf_init(&text);
        st = expand_text(x, node, &text, &whole);
        if (!st)
            *out = whole ? cJSON_Duplicate(whole, true) : cJSON_CreateString(text.data);
        infq_buf_deinit(&text);
    } else if (cJSON_IsArray(node) || cJSON_IsObject(node)) {
        *out = cJSON_IsArray(node) ? cJSON_CreateArray() : cJSON_CreateObject();
        if (*out)
            st = expand_children(x, node, *out);
    } else {
        *out = cJSON_Duplicate(node, false);
    }
    if (!st && !*out)
        st = infq_err_set(x->err, INFQ_E_NOMEM, "%s: no memory", x->to->name);
    m.node = *out;
    infq_buf_add(&x->to->marks, &m, sizeof(m));
    if (!st)
        st = infq_buf_status(&x->to->marks, x->err);
    if (st) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return st;
}

infq_status infq_yaml_expand(const infq_yaml *y, const cJSON *vars, infq_yaml **out, infq_err *err)
{
    return infq_yaml_expand_node(y, y->root, vars, out, err);
}

infq_status infq_yaml_expand_node(const infq_yaml *y, const cJSON *node, const cJSON *vars, infq_yaml **out, infq_err *err)
{
    expander x = {y, infq_mem_calloc(1, sizeof(*y)), vars, err};
    infq_status st;

    if (!x.to)
        return infq_err_set(err, INFQ_E_NOMEM, "%s: no memory", y->name);
    infq_buf_init(&x.to->marks);
    x.to->name = infq_mem_strdup(y->name);
    st = x.to->name ? expand(&x, node, &x.to->root) : infq_err_set(err, INFQ_E_NOMEM, "%s: no memory", y->name);
    if (st) {
        infq_yaml_free(x.to);
        return st;
    }
    qsort(x.to->marks.data, x.to->marks.n / sizeof(mark), sizeof(mark), by_node);
    *out = x.to;
    return 0;
}

infq_status infq_yaml_err(const infq_yaml *y, const cJSON *node, infq_err *err, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return infq_err_set(err, INFQ_E_FORMAT, "%s:%lld: %.60s%s%s", y->name, (long long)infq_yaml_line(y, node),
                        node && node->string ? node->string : "", node && node->string ? ": " : "", text);
}

const cJSON *infq_yaml_first(const cJSON *list)
{
    return cJSON_IsArray(list) ? list->child : list;
}

const cJSON *infq_yaml_next(const cJSON *list, const cJSON *entry)
{
    return entry == list ? NULL : entry->next;
}

/* Restricted Damerau-Levenshtein distance of words of at most 63 bytes. */
static size_t edits(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t row[3][64];

    for (size_t j = 0; j <= n_b; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n_a % 3][n_b];
}

const char *infq_nearest(const char *word, const char *const *names, size_t n)
{
    size_t n_word = strlen(word), least = n_word / 3 + 1;
    const char *best = NULL;

    for (size_t i = 0; n_word < 64 && i < n; i++) {
        size_t len = strlen(names[i]), d;
        if (len >= 64)
            continue;
        d = edits(word, n_word, names[i], len);
        if (d < least || (d == least && !best)) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

static infq_status unknown_key(const infq_yaml *y, const cJSON *v, const infq_yaml_field *fields, size_t n_fields, infq_err *err)
{
    const char *names[128];
    const char *near;
    size_t n = n_fields < 128 ? n_fields : 128;

    for (size_t i = 0; i < n; i++)
        names[i] = fields[i].key;
    near = infq_nearest(v->string, names, n);
    return near ? infq_yaml_err(y, v, err, "unknown key, %s was probably meant", near) : infq_yaml_err(y, v, err, "unknown key");
}

static infq_status put_number(const infq_yaml *y, const cJSON *v, const infq_yaml_field *f, void *to, infq_err *err)
{
    if (!cJSON_IsNumber(v))
        return infq_yaml_err(y, v, err, "a number is wanted");
    if (f->kind == INFQ_YAML_I64 && (v->valuedouble != floor(v->valuedouble) || fabs(v->valuedouble) > 9007199254740992.0))
        return infq_yaml_err(y, v, err, "a whole number is wanted");
    if (f->lo != f->hi && (v->valuedouble < f->lo || v->valuedouble > f->hi))
        return infq_yaml_err(y, v, err, "%.15g is not in %.15g to %.15g", v->valuedouble, f->lo, f->hi);
    if (f->kind == INFQ_YAML_I64)
        *(int64_t *)to = (int64_t)v->valuedouble;
    else
        *(double *)to = v->valuedouble;
    return 0;
}

static infq_status put_enum(const infq_yaml *y, const cJSON *v, const infq_yaml_field *f, int *to, infq_err *err)
{
    char list[120];
    size_t n = 0;

    for (int i = 0; cJSON_IsString(v) && f->names[i]; i++) {
        if (strcmp(v->valuestring, f->names[i]) == 0) {
            *to = i;
            return 0;
        }
    }
    list[0] = '\0';
    for (int i = 0; f->names[i] && n < sizeof(list); i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", f->names[i]);
    return infq_yaml_err(y, v, err, "one of %s is wanted", list);
}

static infq_status put_field(const infq_yaml *y, const cJSON *v, const infq_yaml_field *f, void *to, infq_err *err)
{
    switch (f->kind) {
    case INFQ_YAML_STR:
        if (cJSON_IsNumber(v) || cJSON_IsBool(v))
            return infq_yaml_err(y, v, err, "text is wanted; put it in quotes");
        if (!cJSON_IsString(v))
            return infq_yaml_err(y, v, err, "text is wanted");
        *(const char **)to = v->valuestring;
        return 0;
    case INFQ_YAML_I64:
    case INFQ_YAML_F64:
        return put_number(y, v, f, to, err);
    case INFQ_YAML_BOOL:
        if (!cJSON_IsBool(v))
            return infq_yaml_err(y, v, err, "true or false is wanted");
        *(bool *)to = cJSON_IsTrue(v);
        return 0;
    case INFQ_YAML_ENUM:
        return put_enum(y, v, f, to, err);
    case INFQ_YAML_STRS:
        for (const cJSON *e = infq_yaml_first(v); e; e = infq_yaml_next(v, e))
            if (!cJSON_IsString(e))
                return infq_yaml_err(y, e, err, "%s%stext is wanted; put it in quotes", e != v ? f->key : "", e != v ? ": " : "");
        break;
    case INFQ_YAML_MAP:
        if (!cJSON_IsObject(v))
            return infq_yaml_err(y, v, err, "keys with values are wanted");
        break;
    case INFQ_YAML_LIST:
    case INFQ_YAML_ANY:
        break;
    }
    *(const cJSON **)to = v;
    return 0;
}

infq_status infq_yaml_fields(const infq_yaml *y, const cJSON *obj, const infq_yaml_field *fields, size_t n_fields, void *out,
                             infq_err *err)
{
    const cJSON *v;

    if (!cJSON_IsObject(obj))
        return infq_yaml_err(y, obj, err, "keys with values are wanted");
    cJSON_ArrayForEach(v, obj) {
        size_t i;
        for (i = 0; i < n_fields && strcmp(v->string, fields[i].key) != 0; i++)
            ;
        if (i == n_fields)
            return unknown_key(y, v, fields, n_fields, err);
        if (!cJSON_IsNull(v))
            INFQ_TRY(put_field(y, v, &fields[i], (char *)out + fields[i].offset, err));
    }
    for (size_t i = 0; i < n_fields; i++)
        if (fields[i].required && !infq_json_get(obj, fields[i].key))
            return infq_yaml_err(y, obj, err, "%s is missing", fields[i].key);
    return 0;
}
