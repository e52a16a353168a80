/* Reader of safetensors files. The header is cut at its top level, member by member, so that a header of 100 MB never
 * becomes a tree: each member is checked by the strict JSON grammar and read on its own. Numbers are read from the
 * text, since cJSON keeps doubles only (2.0 would pass for 2, and offsets past 2^53 would be rounded); strings with
 * escapes are decoded by cJSON. */
#include "lib/io/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/io/safetensors_int.h"

struct infq_st {
    infq_st_tensor *tensors;
    size_t n, cap;
    const char **meta; /* key and value in turn */
    size_t n_meta, cap_meta;
    char *text; /* decoded names and metadata; at most as long as the header */
    size_t text_n;
    infq_map *names;
    bool seen_meta;
};

typedef struct {
    const char *p, *end;
} span;

// The reference reader's errors, then those of the strict reading. They end every message in brackets.
static const char *const rules[] = { "HeaderTooSmall",
                                     "HeaderTooLarge",
                                     "InvalidHeaderLength",
                                     "InvalidHeader",
                                     "InvalidHeaderDeserialization",
                                     "InvalidOffset",
                                     "ValidationOverflow",
                                     "MisalignedSlice",
                                     "TensorInvalidInfo",
                                     "MetadataIncompleteBuffer",
                                     "DuplicateName",
                                     "ArrayEntry",
                                     "TooManyDimensions",
                                     "NulInText" };

const char *infq_st_reject_name(const infq_err *err)
{
    const char *open = strrchr(err->msg, '[');

    if (!open)
        return "";
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        size_t n = strlen(rules[i]);
        if (strncmp(open + 1, rules[i], n) == 0 && strcmp(open + 1 + n, "]") == 0)
            return rules[i];
    }
    return "";
}

char *infq_st_quote(const char *name, char out[INFQ_ST_QUOTED])
{
    size_t n = strlen(name), room = INFQ_ST_QUOTED - 6, at = 0;
    bool cut = n > room;

    if (cut)
        n = room;
    while (cut && n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
        n--;
    out[at++] = '"';
    for (size_t i = 0; i < n; i++)
        out[at++] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    snprintf(out + at, INFQ_ST_QUOTED - at, cut ? "...\"" : "\"");
    return out;
}

// Files that people take for safetensors, by their first bytes.
static const char *foreign_kind(const uint8_t *data, size_t size)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *what;
    } kinds[] = { { "PK\3\4", 4, "a zip archive, as PyTorch's save writes" },
                  { "\x80\2", 2, "a pickle, as old PyTorch files are" },
                  { "\x80\3", 2, "a pickle" },
                  { "\x80\4", 2, "a pickle" },
                  { "\x80\5", 2, "a pickle" },
                  { "GGUF", 4, "a GGUF file" },
                  { "version https://git-lfs", 23, "a git-lfs pointer, the file itself was not downloaded" },
                  { "\x1f\x8b", 2, "a gzip file" },
                  { "\x89HDF", 4, "an HDF5 file" },
                  { "<!DOCTYPE", 9, "a web page" },
                  { "<html", 5, "a web page" } };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (size >= kinds[i].n && memcmp(data, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].what;
    return NULL;
}

// Finds the header; every length is compared with the size of the file before use.
static infq_status find_header(const uint8_t *data, size_t size, span *header, infq_err *err)
{
    uint64_t n;
    const char *kind;

    if (size < 8)
        return infq_err_set(err, INFQ_E_FORMAT, "truncated: %zu bytes long, a header needs at least 8 [HeaderTooSmall]",
                            size);
    n = infq_load_u64le(data);
    kind = foreign_kind(data, size);
    if (n > INFQ_ST_HEADER_MAX) {
        if (kind)
            return infq_err_set(err, INFQ_E_FORMAT, "%s, not safetensors [HeaderTooLarge]", kind);
        return infq_err_set(err, INFQ_E_FORMAT, "header length %llu is over the limit of %llu, not a safetensors file "
                                                "[HeaderTooLarge]",
                            (unsigned long long)n, INFQ_ST_HEADER_MAX);
    }
    if (n > size - 8) {
        if (kind)
            return infq_err_set(err, INFQ_E_FORMAT, "%s, not safetensors [InvalidHeaderLength]", kind);
        return infq_err_set(err, INFQ_E_FORMAT,
                            "truncated: %zu bytes long, the header alone ends at byte %llu [InvalidHeaderLength]", size,
                            (unsigned long long)n + 8);
    }
    header->p = (const char *)data + 8;
    header->end = header->p + n;
    return INFQ_E_OK;
}

static void blanks(span *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static void skip_string(span *s)
{
    s->p++;
    while (s->p < s->end && *s->p != '"')
        s->p += *s->p == '\\' && s->end - s->p > 1 ? 2 : 1;
    if (s->p < s->end)
        s->p++;
}

// Cuts one value up to the comma or bracket that follows it; what it holds is checked by the caller.
static span cut_value(span *s)
{
    size_t depth = 0;
    span v;

    blanks(s);
    v.p = s->p;
    for (; s->p < s->end; s->p++) {
        char c = *s->p;
        if (c == '"') {
            skip_string(s);
            s->p--;
        } else if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth-- == 0)
            break;
        else if (c == ',' && depth == 0)
            break;
    }
    v.end = s->p;
    while (v.end > v.p && (v.end[-1] == ' ' || v.end[-1] == '\t' || v.end[-1] == '\n' || v.end[-1] == '\r'))
        v.end--;
    return v;
}

// Cuts "key": value. False if the text does not go on so.
static bool cut_member(span *s, span *key, span *value)
{
    blanks(s);
    if (s->p >= s->end || *s->p != '"')
        return false;
    key->p = s->p;
    skip_string(s);
    key->end = s->p;
    blanks(s);
    if (s->p >= s->end || *s->p != ':')
        return false;
    s->p++;
    *value = cut_value(s);
    return true;
}

static infq_status bad_json(infq_err *err, const char *what)
{
    return infq_err_set(err, INFQ_E_FORMAT, "header: %s [InvalidHeaderDeserialization]", what);
}

// Strict grammar of one piece of the header.
static infq_status check_piece(span v, const char *what, infq_err *err)
{
    infq_status st = infq_json_check(v.p, (size_t)(v.end - v.p), what, err);
    char why[sizeof(err->msg)];

    if (st != INFQ_E_FORMAT)
        return st;
    memcpy(why, err->msg, sizeof(why));
    return infq_err_set(err, st, "header: %.190s [InvalidHeaderDeserialization]", why);
}

static bool holds_nul(span v)
{
    for (const char *p = v.p; p + 6 <= v.end; p++)
        if (*p == '\\') {
            if (memcmp(p, "\\u0000", 6) == 0)
                return true;
            p++;
        }
    return false;
}

// Decodes a checked JSON string into the text block. The block cannot overflow: no string grows by decoding.
static infq_status decode(infq_st *st, span v, const char **out, infq_err *err)
{
    size_t n = (size_t)(v.end - v.p) - 2;
    char *to = st->text + st->text_n;
    cJSON *s;

    if (!memchr(v.p + 1, '\\', n)) {
        memcpy(to, v.p + 1, n);
        to[n] = '\0';
        st->text_n += n + 1;
        *out = to;
        return INFQ_E_OK;
    }
    if (holds_nul(v))
        return infq_err_set(err, INFQ_E_FORMAT, "header: a name or text holds the character U+0000 [NulInText]");
    s = cJSON_ParseWithLength(v.p, (size_t)(v.end - v.p));
    if (!cJSON_IsString(s)) {
        cJSON_Delete(s);
        return infq_err_set(err, INFQ_E_NOMEM, "a name of the header");
    }
    n = strlen(s->valuestring);
    memcpy(to, s->valuestring, n + 1);
    cJSON_Delete(s);
    st->text_n += n + 1;
    *out = to;
    return INFQ_E_OK;
}

// A checked JSON number that is a plain unsigned integer.
static bool whole_number(span v, uint64_t *out)
{
    uint64_t x = 0;

    if (v.p == v.end)
        return false;
    for (const char *p = v.p; p < v.end; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(x, 10u, &x) || __builtin_add_overflow(x, (uint64_t)(*p - '0'), &x))
            return false;
    *out = x;
    return true;
}

// Numbers of a checked JSON array, at most cap of them; *n counts all.
static bool whole_numbers(span v, uint64_t *out, size_t cap, size_t *n)
{
    *n = 0;
    if (v.p == v.end || *v.p != '[')
        return false;
    v.p++;
    v.end--;
    blanks(&v);
    if (v.p == v.end)
        return true;
    for (;;) {
        uint64_t x;
        if (!whole_number(cut_value(&v), &x))
            return false;
        if (*n < cap)
            out[*n] = x;
        ++*n;
        if (v.p == v.end)
            return true;
        v.p++;
    }
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4 };

// One member of a tensor's entry. n_bytes holds the end of the range until the tiling is checked.
static infq_status entry_member(infq_st *st, infq_st_tensor *t, span key, span v, unsigned *has, infq_err *err)
{
    const char *name, *text;
    uint64_t x[INFQ_MAX_DIMS];
    size_t n, mark = st->text_n;
    unsigned flag;
    char q[INFQ_ST_QUOTED];

    INFQ_TRY(decode(st, key, &name, err));
    flag = strcmp(name, "dtype") == 0          ? HAS_DTYPE
           : strcmp(name, "shape") == 0        ? HAS_SHAPE
           : strcmp(name, "data_offsets") == 0 ? HAS_OFFSETS
                                               : 0;
    st->text_n = mark;
    infq_st_quote(t->name, q);
    if (*has & flag)
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: a field is there twice [InvalidHeaderDeserialization]", q);
    *has |= flag;
    if (flag == HAS_DTYPE) {
        if (*v.p != '"')
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: dtype is not a text [InvalidHeaderDeserialization]", q);
        INFQ_TRY(decode(st, v, &text, err));
        st->text_n = mark;
        if (!infq_dtype_parse(text, &t->dtype))
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: unknown dtype %.20s [InvalidHeaderDeserialization]", q,
                                text);
    } else if (flag == HAS_SHAPE) {
        if (!whole_numbers(v, x, INFQ_MAX_DIMS, &n))
            return infq_err_set(err, INFQ_E_FORMAT,
                                "tensor %s: shape is not a list of whole numbers [InvalidHeaderDeserialization]", q);
        if (n > INFQ_MAX_DIMS)
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: %zu dimensions, at most %d are read [TooManyDimensions]",
                                q, n, INFQ_MAX_DIMS);
        t->n_dims = (int)n;
        for (size_t i = 0; i < n; i++)
            t->shape[i] = x[i] > INT64_MAX ? -1 : (int64_t)x[i]; // -1: refused as overflow in its turn
    } else if (flag == HAS_OFFSETS) {
        if (!whole_numbers(v, x, 2, &n) || n != 2)
            return infq_err_set(err, INFQ_E_FORMAT,
                                "tensor %s: data_offsets are not two whole numbers [InvalidHeaderDeserialization]", q);
        t->offset = x[0];
        t->n_bytes = x[1];
    }
    return INFQ_E_OK;
}

static infq_status new_tensor(infq_st *st, infq_st_tensor **out, infq_err *err)
{
    if (st->n == st->cap) {
        size_t more = st->cap ? 2 * st->cap : 64;
        infq_st_tensor *grown = infq_mem_realloc(st->tensors, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "list of %zu tensors", more);
        st->tensors = grown;
        st->cap = more;
    }
    *out = &st->tensors[st->n++];
    memset(*out, 0, sizeof(**out));
    return INFQ_E_OK;
}

static infq_status entry(infq_st *st, const char *name, span v, infq_err *err)
{
    infq_st_tensor *t = NULL;
    unsigned has = 0;
    char q[INFQ_ST_QUOTED];

    infq_st_quote(name, q);
    if (*v.p == '[')
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: its entry is a list, not an object [ArrayEntry]", q);
    if (*v.p != '{')
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: its entry is not an object [InvalidHeaderDeserialization]",
                            q);
    INFQ_TRY(new_tensor(st, &t, err));
    t->name = name;
    v.p++;
    v.end--;
    for (span key, value; cut_member(&v, &key, &value); v.p += v.p < v.end)
        INFQ_TRY(entry_member(st, t, key, value, &has, err));
    if (has != (HAS_DTYPE | HAS_SHAPE | HAS_OFFSETS))
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: %s is missing [InvalidHeaderDeserialization]", q,
                            !(has & HAS_DTYPE)   ? "dtype"
                            : !(has & HAS_SHAPE) ? "shape"
                                                 : "data_offsets");
    return INFQ_E_OK;
}

static infq_status add_meta(infq_st *st, const char *s, infq_err *err)
{
    if (st->n_meta == st->cap_meta) {
        size_t more = st->cap_meta ? 2 * st->cap_meta : 16;
        const char **grown = infq_mem_realloc(st->meta, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "metadata");
        st->meta = grown;
        st->cap_meta = more;
    }
    st->meta[st->n_meta++] = s;
    return INFQ_E_OK;
}

static infq_status metadata(infq_st *st, span v, infq_err *err)
{
    if (st->seen_meta)
        return bad_json(err, "__metadata__ is there twice");
    st->seen_meta = true;
    if (*v.p == 'n')
        return INFQ_E_OK;
    if (*v.p != '{')
        return bad_json(err, "__metadata__ is not an object");
    v.p++;
    v.end--;
    for (span key, value; cut_member(&v, &key, &value); v.p += v.p < v.end) {
        const char *s;
        INFQ_TRY(decode(st, key, &s, err));
        INFQ_TRY(add_meta(st, s, err));
        if (*value.p != '"')
            return bad_json(err, "a value of __metadata__ is not a text");
        INFQ_TRY(decode(st, value, &s, err));
        INFQ_TRY(add_meta(st, s, err));
    }
    return INFQ_E_OK;
}

static infq_status top_member(infq_st *st, span key, span value, infq_err *err)
{
    char what[INFQ_ST_QUOTED + 8];
    char q[INFQ_ST_QUOTED];
    const char *name;

    INFQ_TRY(check_piece(key, "a name", err));
    INFQ_TRY(decode(st, key, &name, err));
    snprintf(what, sizeof(what), "tensor %s", infq_st_quote(name, q));
    INFQ_TRY(check_piece(value, what, err));
    return strcmp(name, "__metadata__") == 0 ? metadata(st, value, err) : entry(st, name, value, err);
}

static infq_status read_header(infq_st *st, span h, infq_err *err)
{
    size_t n = (size_t)(h.end - h.p), good = infq_utf8_check(h.p, n);

    if (good < n)
        return infq_err_set(err, INFQ_E_FORMAT, "header: byte %zu is not UTF-8 [InvalidHeader]", good);
    st->text = infq_mem_alloc(n);
    if (!st->text)
        return infq_err_set(err, INFQ_E_NOMEM, "names of a header of %zu bytes", n);
    blanks(&h);
    if (h.p == h.end || *h.p != '{')
        return bad_json(err, "not a JSON object");
    h.p++;
    blanks(&h);
    if (h.p < h.end && *h.p == '}')
        h.p++;
    else
        for (;;) {
            span key, value;
            if (!cut_member(&h, &key, &value))
                return bad_json(err, "a name and a colon were expected");
            INFQ_TRY(top_member(st, key, value, err));
            if (h.p == h.end || *h.p == ']')
                return bad_json(err, "the object does not end");
            if (*h.p++ == '}')
                break;
        }
    blanks(&h);
    return h.p == h.end ? INFQ_E_OK : bad_json(err, "characters after the end of the object");
}

static int by_range(const void *a, const void *b)
{
    const infq_st_tensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

infq_status infq_st_measure(infq_st_tensor *t, infq_err *err)
{
    size_t bits;
    char q[INFQ_ST_QUOTED];

    t->n_elems = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (t->shape[i] < 0 || !infq_mul_i64(t->n_elems, t->shape[i], &t->n_elems))
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: its shape overflows [ValidationOverflow]",
                                infq_st_quote(t->name, q));
    if (!infq_mul_size((size_t)t->n_elems, (size_t)infq_dtype_bits(t->dtype), &bits))
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: its size in bits overflows [ValidationOverflow]",
                            infq_st_quote(t->name, q));
    if (bits % 8)
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: %lld elements of %s are no whole number of bytes "
                                                "[MisalignedSlice]",
                            infq_st_quote(t->name, q), (long long)t->n_elems, infq_dtype_name(t->dtype));
    t->n_bytes = bits / 8;
    return INFQ_E_OK;
}

static infq_status bad_offset(const infq_st_tensor *prev, const infq_st_tensor *t, uint64_t expected, infq_err *err)
{
    char q[INFQ_ST_QUOTED], r[INFQ_ST_QUOTED];
    unsigned long long begin = t->offset, end = t->n_bytes;

    infq_st_quote(t->name, q);
    if (end < begin)
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: data_offsets end at %llu, before they begin at %llu "
                                                "[InvalidOffset]",
                            q, end, begin);
    if (prev && begin < expected)
        return infq_err_set(err, INFQ_E_FORMAT, "tensors %s and %s overlap: one ends at byte %llu, the other begins at "
                                                "%llu [InvalidOffset]",
                            infq_st_quote(prev->name, r), q, (unsigned long long)expected, begin);
    return infq_err_set(err, INFQ_E_FORMAT, "%llu bytes before tensor %s are not covered by any tensor [InvalidOffset]",
                        begin - (unsigned long long)expected, q);
}

// Ranges must tile the data exactly; then offsets become those of the file.
static infq_status check_ranges(infq_st *st, size_t data_at, size_t size, infq_err *err)
{
    uint64_t expected = 0;
    size_t whole;
    char q[INFQ_ST_QUOTED];

    for (size_t i = 0; i < st->n; i++) {
        infq_st_tensor *t = &st->tensors[i];
        uint64_t begin = t->offset, end = t->n_bytes;
        if (begin != expected || end < begin)
            return bad_offset(i ? t - 1 : NULL, t, expected, err);
        INFQ_TRY(infq_st_measure(t, err));
        if (t->n_bytes != end - begin)
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: %lld elements of %s need %llu bytes, its range has %llu "
                                                    "[TensorInvalidInfo]",
                                infq_st_quote(t->name, q), (long long)t->n_elems, infq_dtype_name(t->dtype),
                                (unsigned long long)t->n_bytes, (unsigned long long)(end - begin));
        t->offset = begin + data_at;
        expected = end;
    }
    if (!infq_add_size(expected, data_at, &whole))
        return infq_err_set(err, INFQ_E_FORMAT, "the tensors' size overflows [MetadataIncompleteBuffer]");
    if (whole > size)
        return infq_err_set(err, INFQ_E_FORMAT, "truncated: %zu bytes long, %zu expected [MetadataIncompleteBuffer]",
                            size, whole);
    if (whole < size)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "%zu bytes at the end are not covered by any tensor [MetadataIncompleteBuffer]",
                            size - whole);
    return INFQ_E_OK;
}

// Names are compared decoded, so different escapes of one name are found too.
static infq_status check_names(infq_st *st, infq_err *err)
{
    char q[INFQ_ST_QUOTED];

    INFQ_TRY(infq_map_new(st->n, &st->names, err));
    for (size_t i = 0; i < st->n; i++) {
        const char *name = st->tensors[i].name;
        int64_t seen = infq_map_put(st->names, name, strlen(name), (int64_t)i);
        if (seen == -2)
            return infq_err_set(err, INFQ_E_NOMEM, "table of %zu names", st->n);
        if (seen >= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s is there twice [DuplicateName]", infq_st_quote(name, q));
    }
    return INFQ_E_OK;
}

infq_status infq_st_parse(const uint8_t *data, size_t size, infq_st **out, infq_err *err)
{
    infq_st *st = NULL;
    infq_status rc;
    span header = { NULL, NULL };
    void *p;

    INFQ_TRY(find_header(data, size, &header, err));
    INFQ_TRY(infq_mem_new(1, sizeof(*st), "safetensors header", &p, err));
    st = p;
    rc = read_header(st, header, err);
    if (!rc && st->n)
        qsort(st->tensors, st->n, sizeof(*st->tensors), by_range);
    if (!rc)
        rc = check_names(st, err);
    if (!rc)
        rc = check_ranges(st, (size_t)(header.end - (const char *)data), size, err);
    if (rc) {
        infq_st_free(st);
        return rc;
    }
    *out = st;
    return INFQ_E_OK;
}

void infq_st_free(infq_st *st)
{
    if (!st)
        return;
    infq_map_free(st->names);
    infq_mem_free(st->text);
    infq_mem_free(st->meta);
    infq_mem_free(st->tensors);
    infq_mem_free(st);
}

size_t infq_st_count(const infq_st *st)
{
    return st->n;
}

const infq_st_tensor *infq_st_get(const infq_st *st, size_t i)
{
    return i < st->n ? &st->tensors[i] : NULL;
}

const infq_st_tensor *infq_st_find(const infq_st *st, const char *name)
{
    int64_t i = infq_map_get(st->names, name, strlen(name));

    return i < 0 ? NULL : &st->tensors[i];
}

size_t infq_st_meta_count(const infq_st *st)
{
    return st->n_meta / 2;
}

void infq_st_meta_get(const infq_st *st, size_t i, const char **key, const char **value)
{
    *key = st->meta[2 * i];
    *value = st->meta[2 * i + 1];
}
