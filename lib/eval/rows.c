#include "lib/eval/rows.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/base/text.h"

#define MAX_FIELDS 256

const char *const infq_rows_names[] = {"jsonl", "json", "csv", "tsv", "six-lines", NULL};

struct infq_rows {
    infq_rows_options o;
    const char *text;
    size_t n, at;
    int64_t line;        /* of text[at], from 1 */
    cJSON *tree;         /* JSON */
    const cJSON *next;
    int64_t entry;
    infq_buf document, json, field;
    infq_buf names;      /* CSV, TSV with a header: NUL-terminated, one behind the other */
    int n_names;
};

infq_rows_layout infq_rows_layout_of(const char *path)
{
    char name[64];
    size_t n = strlen(path);

    n -= infq_str_ends(path, ".gz") ? 3 : 0;
    snprintf(name, sizeof(name), "%.*s", n < 60 ? (int)n : 60, path + (n < 60 ? 0 : n - 60));
    if (infq_str_ends(name, ".csv"))
        return INFQ_ROWS_CSV;
    if (infq_str_ends(name, ".tsv"))
        return INFQ_ROWS_TSV;
    if (infq_str_ends(name, ".txt"))
        return INFQ_ROWS_SIX;
    return infq_str_ends(name, ".json") ? INFQ_ROWS_JSON : INFQ_ROWS_JSONL;
}

static infq_status open_json(infq_rows *r, infq_err *err)
{
    const cJSON *list, *c;
    infq_jw w;

    INFQ_TRY(infq_json_parse(r->text, r->n, "the document", &r->tree, err));
    list = r->o.member ? infq_json_get(r->tree, r->o.member) : r->tree;
    if (!cJSON_IsArray(list)) {
        return r->o.member ? infq_err_set(err, INFQ_E_FORMAT, "%s is no list", r->o.member)
                           : infq_err_set(err, INFQ_E_FORMAT, "the document is no list");
    }
    r->next = list->child;
    if (!r->o.member)
        return 0;
    infq_buf_clear(&r->document);
    w = infq_jw_over(&r->document, 0);
    infq_jw_obj(&w);
    cJSON_ArrayForEach(c, r->tree) {
        if (c == list)
            continue;
        infq_jw_key(&w, c->string);
        infq_jw_tree(&w, c);
    }
    infq_jw_end_obj(&w);
    return infq_buf_status(&r->document, err);
}

/* The next field, unquoted, to r->field; *last: a line ends behind it. */
static infq_status next_field(infq_rows *r, bool *last, infq_err *err)
{
    bool csv = r->o.layout == INFQ_ROWS_CSV, quoted;
    char sep = csv ? ',' : '\t';

    infq_buf_clear(&r->field);
    quoted = csv && r->at < r->n && r->text[r->at] == '"';
    if (quoted) {
        int64_t from = r->line;
        for (r->at++;; r->at++) {
            if (r->at >= r->n)
                return infq_err_set(err, INFQ_E_FORMAT, "the quote of line %lld does not end", (long long)from);
            if (r->text[r->at] == '"') {
                if (r->at + 1 >= r->n || r->text[r->at + 1] != '"')
                    break;
                r->at++;
            }
            r->line += r->text[r->at] == '\n';
            infq_buf_char(&r->field, r->text[r->at]);
        }
        r->at++;
    } else {
        size_t end = r->at;
        while (end < r->n && r->text[end] != sep && r->text[end] != '\n')
            end++;
        infq_buf_add(&r->field, r->text + r->at, end - r->at);
        r->at = end;
        if ((end == r->n || r->text[end] == '\n') && r->field.n > 0 && r->field.data[r->field.n - 1] == '\r')
            r->field.data[--r->field.n] = '\0';
    }
    if (r->at < r->n && r->text[r->at] == '\r' && (r->at + 1 == r->n || r->text[r->at + 1] == '\n'))
        r->at++;
    *last = r->at >= r->n || r->text[r->at] == '\n';
    if (!*last && r->text[r->at] != sep)
        return infq_err_set(err, INFQ_E_FORMAT, "a quoted field is followed by something else than a comma");
    r->line += *last && r->at < r->n;
    r->at += r->at < r->n;
    return infq_buf_status(&r->field, err);
}

static infq_status read_header(infq_rows *r, infq_err *err)
{
    bool last = false;

    while (!last) {
        if (r->n_names++ == MAX_FIELDS)
            return infq_err_set(err, INFQ_E_FORMAT, "more than %d columns", MAX_FIELDS);
        INFQ_TRY(next_field(r, &last, err));
        infq_buf_add(&r->names, r->field.data, r->field.n + 1);
    }
    return infq_buf_status(&r->names, err);
}

infq_status infq_rows_open(const char *text, size_t n, const infq_rows_options *o, infq_rows **out, infq_err *err)
{
    infq_rows *r = infq_mem_calloc(1, sizeof(*r));
    infq_status st = 0;

    if (!r)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for rows");
    r->o = *o;
    r->text = text;
    r->n = n;
    r->line = 1;
    infq_buf_init(&r->document);
    infq_buf_init(&r->json);
    infq_buf_init(&r->field);
    infq_buf_init(&r->names);
    infq_buf_str(&r->document, "{}");
    r->at = infq_bom_length(text, n);
    if (o->layout == INFQ_ROWS_JSON)
        st = open_json(r, err);
    else if (o->header)
        st = read_header(r, err);
    if (st)
        infq_rows_free(r);
    else
        *out = r;
    return st;
}

void infq_rows_free(infq_rows *r)
{
    if (!r)
        return;
    cJSON_Delete(r->tree);
    infq_buf_deinit(&r->document);
    infq_buf_deinit(&r->json);
    infq_buf_deinit(&r->field);
    infq_buf_deinit(&r->names);
    infq_mem_free(r);
}

const char *infq_rows_document(const infq_rows *r)
{
    return r->document.data;
}

/* Next line without its end, blank ones passed over; false at the end of the text. */
static bool next_line(infq_rows *r, const char **line, size_t *n)
{
    while (r->at < r->n) {
        const char *s = r->text + r->at, *end = memchr(s, '\n', r->n - r->at);
        size_t len = end ? (size_t)(end - s) : r->n - r->at;
        r->at += len + (end ? 1 : 0);
        r->line += end ? 1 : 0;
        len -= len > 0 && s[len - 1] == '\r';
        if (infq_rstrip(s, len) == 0)
            continue;
        *line = s;
        *n = len;
        return true;
    }
    return false;
}

static infq_status next_jsonl(infq_rows *r, const char **json, size_t *n)
{
    if (!next_line(r, json, n))
        *json = NULL;
    return 0;
}

static infq_status next_json(infq_rows *r, const char **json, size_t *n, infq_err *err)
{
    infq_jw w;

    if (!r->next) {
        *json = NULL;
        return 0;
    }
    if (!cJSON_IsObject(r->next))
        return infq_err_set(err, INFQ_E_FORMAT, "not an object");
    infq_buf_clear(&r->json);
    w = infq_jw_over(&r->json, 0);
    infq_jw_tree(&w, r->next);
    r->next = r->next->next;
    *json = r->json.data;
    *n = r->json.n;
    return infq_buf_status(&r->json, err);
}

static infq_status next_table(infq_rows *r, const char **json, size_t *n, infq_err *err)
{
    const char *name = r->names.data;
    bool last = false;
    infq_jw w;
    int i = 0;

    while (r->at < r->n && (r->text[r->at] == '\n' || r->text[r->at] == '\r')) // blank lines
        r->line += r->text[r->at++] == '\n';
    if (r->at >= r->n) {
        *json = NULL;
        return 0;
    }
    infq_buf_clear(&r->json);
    w = infq_jw_over(&r->json, 0);
    infq_jw_obj(&w);
    for (; !last; i++) {
        char number[16];
        if (i == (r->o.header ? r->n_names : MAX_FIELDS))
            return infq_err_set(err, INFQ_E_FORMAT, "more than %d columns", i);
        INFQ_TRY(next_field(r, &last, err));
        snprintf(number, sizeof(number), "c%d", i);
        infq_jw_key(&w, r->o.header ? name : number);
        infq_jw_strn(&w, r->field.data, r->field.n);
        name += r->o.header ? strlen(name) + 1 : 0;
    }
    if (r->o.header && i != r->n_names)
        return infq_err_set(err, INFQ_E_FORMAT, "%d columns, the header has %d", i, r->n_names);
    infq_jw_end_obj(&w);
    *json = r->json.data;
    *n = r->json.n;
    return infq_buf_status(&r->json, err);
}

static infq_status next_six(infq_rows *r, const char **json, size_t *n, infq_err *err)
{
    const char *line;
    size_t len;
    infq_jw w;

    if (!next_line(r, &line, &len)) {
        *json = NULL;
        return 0;
    }
    infq_buf_clear(&r->json);
    w = infq_jw_over(&r->json, 0);
    infq_jw_obj(&w);
    for (int i = 0; i < 6; i++) {
        if (i > 0 && !next_line(r, &line, &len))
            return infq_err_set(err, INFQ_E_FORMAT, "an item has six lines, the file ends after %d of them", i);
        if (i < 2)
            infq_jw_key(&w, i == 0 ? "ctx" : "label");
        if (i == 2) {
            infq_jw_key(&w, "endings");
            infq_jw_arr(&w);
        }
        infq_jw_strn(&w, line, len);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    *json = r->json.data;
    *n = r->json.n;
    return infq_buf_status(&r->json, err);
}

/* Line of the next row: blank lines are passed over first. */
static int64_t row_line(const infq_rows *r)
{
    int64_t line = r->line;
    size_t at = r->at;

    while (at < r->n) {
        const char *end = memchr(r->text + at, '\n', r->n - at);
        size_t len = end ? (size_t)(end - r->text) - at : r->n - at;
        if (infq_rstrip(r->text + at, len) > 0)
            break;
        at += len + 1;
        line++;
    }
    return line;
}

infq_status infq_rows_next(infq_rows *r, const char **json, size_t *n, char where[32], infq_err *err)
{
    if (r->o.layout == INFQ_ROWS_JSON)
        snprintf(where, 32, "entry %lld", (long long)r->entry++);
    else
        snprintf(where, 32, "line %lld", (long long)row_line(r));
    *n = 0;
    switch (r->o.layout) {
    case INFQ_ROWS_JSONL:
        return next_jsonl(r, json, n);
    case INFQ_ROWS_JSON:
        return next_json(r, json, n, err);
    case INFQ_ROWS_SIX:
        return next_six(r, json, n, err);
    case INFQ_ROWS_CSV:
    case INFQ_ROWS_TSV:
        break;
    }
    return next_table(r, json, n, err);
}
