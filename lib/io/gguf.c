/* Reader of GGUF files, versions 2 and 3. The verdicts are the reference loader's, except that shapes whose product
 * overflows are refused (formats.md 5.1). */
#include "lib/io/gguf.h"

#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/cursor.h"
#include "lib/base/str.h"

#define STRING_MAX ((uint64_t)1 << 30)
#define NAME_MAX_BYTES 63
#define MIN_KV_BYTES 14     /* key of one byte, type, value of one byte */
#define MIN_TENSOR_BYTES 24 /* empty name, no dimensions */

struct infq_gguf {
    infq_arena *arena; /* keys and names */
    infq_gguf_value *values;
    size_t n_values;
    infq_map *keys;
    infq_gguf_tensor *tensors;
    size_t n_tensors;
    infq_map *names;
    uint64_t alignment;
};

// Bytes of a scalar of each kind; 0: string or array.
static const uint8_t kind_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
#define N_KINDS (sizeof(kind_bytes) / sizeof(kind_bytes[0]))

static infq_status truncated(const infq_cursor *c, const char *what, infq_err *err)
{
    return infq_err_set(err, INFQ_E_FORMAT, "%s: truncated, %zu bytes long and %zu more needed at byte %zu", what,
                        c->size, c->fail_want, c->fail_pos);
}

static bool string_bytes(infq_cursor *c, const uint8_t **s, uint64_t *n)
{
    *n = infq_cursor_u64le(c);
    if (c->failed)
        return false;
    if (*n > STRING_MAX || *n > SIZE_MAX) {
        c->failed = true;
        c->fail_pos = c->pos;
        c->fail_want = (size_t)*n;
        return false;
    }
    *s = infq_cursor_take(c, (size_t)*n);
    return *s != NULL;
}

// A key or name as a C string of the arena.
static infq_status read_name(infq_gguf *g, infq_cursor *c, const char *what, size_t max, const char **out,
                             infq_err *err)
{
    const uint8_t *s = NULL;
    uint64_t n;
    void *p;

    if (!string_bytes(c, &s, &n))
        return truncated(c, what, err);
    if (n > max)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %llu bytes long, at most %zu are allowed", what,
                            (unsigned long long)n, max);
    if (memchr(s, 0, (size_t)n))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: holds a zero byte", what);
    INFQ_TRY(infq_arena_alloc(g->arena, (size_t)n + 1, 1, what, &p, err));
    memcpy(p, s, (size_t)n);
    ((char *)p)[n] = '\0';
    *out = p;
    return INFQ_E_OK;
}

static infq_status read_value(infq_cursor *c, infq_gguf_value *v, infq_err *err)
{
    uint32_t kind = infq_cursor_u32le(c);

    v->n = 1;
    v->is_array = kind == INFQ_GGUF_ARRAY;
    if (v->is_array) {
        kind = infq_cursor_u32le(c);
        v->n = infq_cursor_u64le(c);
    }
    if (c->failed)
        return truncated(c, "value", err);
    if (kind >= N_KINDS)
        return infq_err_set(err, INFQ_E_FORMAT, "unknown value type %u", kind);
    if (kind == INFQ_GGUF_ARRAY)
        return infq_err_set(err, INFQ_E_FORMAT, "an array of arrays");
    v->kind = (infq_gguf_kind)kind;
    v->data = c->data + c->pos;
    if (kind == INFQ_GGUF_STRING) {
        const uint8_t *s;
        uint64_t n;
        if (v->n > infq_cursor_left(c) / 8)
            return infq_err_set(err, INFQ_E_FORMAT, "%llu strings do not fit into the %zu bytes left",
                                (unsigned long long)v->n, infq_cursor_left(c));
        for (uint64_t i = 0; i < v->n; i++)
            if (!string_bytes(c, &s, &n))
                return truncated(c, "string", err);
        v->n_data = (size_t)(c->data + c->pos - v->data);
        return INFQ_E_OK;
    }
    if (v->n > infq_cursor_left(c) / kind_bytes[kind])
        return infq_err_set(err, INFQ_E_FORMAT, "%llu values do not fit into the %zu bytes left",
                            (unsigned long long)v->n, infq_cursor_left(c));
    v->n_data = (size_t)v->n * kind_bytes[kind];
    return infq_cursor_take(c, v->n_data) ? INFQ_E_OK : truncated(c, "value", err);
}

static infq_status read_values(infq_gguf *g, infq_cursor *c, uint64_t n, infq_err *err)
{
    void *p;

    if (n > infq_cursor_left(c) / MIN_KV_BYTES)
        return infq_err_set(err, INFQ_E_FORMAT, "%llu key-value pairs do not fit into the %zu bytes left",
                            (unsigned long long)n, infq_cursor_left(c));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*g->values), "key-value pairs", &p, err));
    g->values = p;
    INFQ_TRY(infq_map_new((size_t)n, &g->keys, err));
    for (size_t i = 0; i < n; i++) {
        infq_gguf_value *v = &g->values[i];
        int64_t seen;
        INFQ_TRY(read_name(g, c, "key", SIZE_MAX, &v->key, err));
        if (!*v->key)
            return infq_err_set(err, INFQ_E_FORMAT, "key %zu is empty", i);
        seen = infq_map_put(g->keys, v->key, strlen(v->key), (int64_t)i);
        if (seen == -2)
            return infq_err_set(err, INFQ_E_NOMEM, "table of keys");
        if (seen >= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "key %.80s is there twice", v->key);
        if (read_value(c, v, err))
            return infq_err_in(err, "key %.80s", v->key);
        g->n_values++;
    }
    return INFQ_E_OK;
}

static infq_status read_alignment(infq_gguf *g, infq_err *err)
{
    const infq_gguf_value *v = infq_gguf_value_find(g, "general.alignment");

    g->alignment = 32;
    if (!v)
        return INFQ_E_OK;
    if (v->is_array || v->kind != INFQ_GGUF_U32)
        return infq_err_set(err, INFQ_E_FORMAT, "general.alignment is not a u32");
    g->alignment = infq_load_u32le(v->data);
    if (g->alignment == 0 || (g->alignment & (g->alignment - 1)))
        return infq_err_set(err, INFQ_E_FORMAT, "general.alignment %llu is not a power of two",
                            (unsigned long long)g->alignment);
    return INFQ_E_OK;
}

// Shape, type and size of one tensor; n_bytes is exact.
static infq_status read_shape(infq_cursor *c, infq_gguf_tensor *t, infq_err *err)
{
    uint32_t n_dims = infq_cursor_u32le(c);
    int block = 1, block_bytes = 0;
    const char *type = "";
    size_t n_bytes;

    if (!c->failed && n_dims > 4)
        return infq_err_set(err, INFQ_E_FORMAT, "%u dimensions, at most 4 are allowed", n_dims);
    t->n_elems = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        int64_t d = (int64_t)infq_cursor_u64le(c);
        if (d < 0)
            return infq_err_set(err, INFQ_E_FORMAT, "dimension %u is negative", i);
        t->shape[n_dims - 1 - i] = d;
    }
    t->type = infq_cursor_u32le(c);
    t->offset = infq_cursor_u64le(c);
    if (c->failed)
        return truncated(c, "tensor list", err);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < t->n_dims; i++)
        if (!infq_mul_i64(t->n_elems, t->shape[i], &t->n_elems))
            return infq_err_set(err, INFQ_E_FORMAT, "its shape overflows");
    if (!infq_ggml_type(t->type, &type, &block, &block_bytes))
        return infq_err_set(err, INFQ_E_FORMAT, "unknown or retired ggml type %u", t->type);
    if ((t->n_dims ? t->shape[t->n_dims - 1] : 1) % block)
        return infq_err_set(err, INFQ_E_FORMAT, "rows of %lld elements are no whole number of %s blocks of %d",
                            (long long)(t->n_dims ? t->shape[t->n_dims - 1] : 1), type, block);
    if (!infq_mul_size((size_t)(t->n_elems / block), (size_t)block_bytes, &n_bytes))
        return infq_err_set(err, INFQ_E_FORMAT, "its size overflows");
    t->n_bytes = n_bytes;
    return INFQ_E_OK;
}

static bool align_up(size_t x, uint64_t alignment, size_t *out)
{
    if (!infq_add_size(x, (size_t)alignment - 1, &x))
        return false;
    *out = x & ~((size_t)alignment - 1);
    return true;
}

static infq_status read_tensors(infq_gguf *g, infq_cursor *c, uint64_t n, infq_err *err)
{
    size_t expected = 0;
    void *p;

    if (n > infq_cursor_left(c) / MIN_TENSOR_BYTES)
        return infq_err_set(err, INFQ_E_FORMAT, "%llu tensors do not fit into the %zu bytes left",
                            (unsigned long long)n, infq_cursor_left(c));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*g->tensors), "tensor list", &p, err));
    g->tensors = p;
    INFQ_TRY(infq_map_new((size_t)n, &g->names, err));
    for (size_t i = 0; i < n; i++) {
        infq_gguf_tensor *t = &g->tensors[i];
        size_t padded = 0;
        int64_t seen;
        INFQ_TRY(read_name(g, c, "tensor name", NAME_MAX_BYTES, &t->name, err));
        seen = infq_map_put(g->names, t->name, strlen(t->name), (int64_t)i);
        if (seen == -2)
            return infq_err_set(err, INFQ_E_NOMEM, "table of names");
        if (seen >= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s is there twice", t->name);
        if (read_shape(c, t, err))
            return infq_err_in(err, "tensor %s", t->name);
        if (t->offset != expected)
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: offset %llu, but the tensors before it end at %zu",
                                t->name, (unsigned long long)t->offset, expected);
        if (!align_up((size_t)t->n_bytes, g->alignment, &padded) || !infq_add_size(expected, padded, &expected))
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: its size overflows", t->name);
        g->n_tensors++;
    }
    return INFQ_E_OK;
}

// Offsets become those of the file; every tensor, padding included, must lie inside it.
static infq_status place(infq_gguf *g, const infq_cursor *c, infq_err *err)
{
    size_t data_at, end, padded = 0;
    const infq_gguf_tensor *last;

    if (!g->n_tensors)
        return INFQ_E_OK;
    last = &g->tensors[g->n_tensors - 1];
    if (!align_up(c->pos, g->alignment, &data_at) || !align_up((size_t)last->n_bytes, g->alignment, &padded) ||
        !infq_add_size((size_t)last->offset, padded, &end) || !infq_add_size(end, data_at, &end))
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: its place overflows", last->name);
    if (end > c->size)
        return infq_err_set(err, INFQ_E_FORMAT, "truncated: %zu bytes long, tensor %s with its padding ends at %zu",
                            c->size, last->name, end);
    for (size_t i = 0; i < g->n_tensors; i++)
        g->tensors[i].offset += data_at;
    return INFQ_E_OK;
}

static infq_status read_file(infq_gguf *g, infq_cursor *c, infq_err *err)
{
    const uint8_t *magic = infq_cursor_take(c, 4);
    uint32_t version = infq_cursor_u32le(c);
    int64_t n_tensors = (int64_t)infq_cursor_u64le(c);
    int64_t n_values = (int64_t)infq_cursor_u64le(c);

    if (magic && memcmp(magic, "GGUF", 4) != 0)
        return infq_err_set(err, INFQ_E_FORMAT, "not a GGUF file");
    if (c->failed)
        return truncated(c, "header", err);
    if (version != 2 && version != 3)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "GGUF version %u, 2 and 3 are read%s", version,
                            version == 3u << 24 ? " (a big-endian file)" : "");
    if (n_tensors < 0 || n_values < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "a negative count of %s", n_tensors < 0 ? "tensors" : "keys");
    INFQ_TRY(infq_arena_new((size_t)64 << 10, &g->arena, err));
    INFQ_TRY(read_values(g, c, (uint64_t)n_values, err));
    INFQ_TRY(read_alignment(g, err));
    INFQ_TRY(read_tensors(g, c, (uint64_t)n_tensors, err));
    return place(g, c, err);
}

infq_status infq_gguf_parse(const uint8_t *data, size_t size, infq_gguf **out, infq_err *err)
{
    infq_cursor c = infq_cursor_over(data, size);
    infq_status st;
    infq_gguf *g;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*g), "GGUF header", &p, err));
    g = p;
    st = read_file(g, &c, err);
    if (st) {
        infq_gguf_free(g);
        return st;
    }
    *out = g;
    return INFQ_E_OK;
}

void infq_gguf_free(infq_gguf *g)
{
    if (!g)
        return;
    infq_map_free(g->names);
    infq_map_free(g->keys);
    infq_mem_free(g->tensors);
    infq_mem_free(g->values);
    infq_arena_free(g->arena);
    infq_mem_free(g);
}

size_t infq_gguf_count(const infq_gguf *g)
{
    return g->n_tensors;
}

const infq_gguf_tensor *infq_gguf_get(const infq_gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const infq_gguf_tensor *infq_gguf_find(const infq_gguf *g, const char *name)
{
    int64_t i = infq_map_get(g->names, name, strlen(name));

    return i < 0 ? NULL : &g->tensors[i];
}

const infq_gguf_value *infq_gguf_value_find(const infq_gguf *g, const char *key)
{
    int64_t i = infq_map_get(g->keys, key, strlen(key));

    return i < 0 ? NULL : &g->values[i];
}

size_t infq_gguf_value_count(const infq_gguf *g)
{
    return g->n_values;
}

const infq_gguf_value *infq_gguf_value_get(const infq_gguf *g, size_t i)
{
    return i < g->n_values ? &g->values[i] : NULL;
}

bool infq_gguf_number(const infq_gguf_value *v, uint64_t i, double *out)
{
    const uint8_t *p;
    uint32_t u;
    uint64_t w;
    float f;

    if (i >= v->n || (unsigned)v->kind >= N_KINDS || !kind_bytes[v->kind])
        return false;
    p = v->data + i * kind_bytes[v->kind];
    switch (v->kind) {
    case INFQ_GGUF_U8:
        *out = p[0];
        return true;
    case INFQ_GGUF_I8:
        *out = (int8_t)p[0];
        return true;
    case INFQ_GGUF_BOOL:
        *out = p[0] != 0;
        return true;
    case INFQ_GGUF_U16:
        *out = infq_load_u16le(p);
        return true;
    case INFQ_GGUF_I16:
        *out = (int16_t)infq_load_u16le(p);
        return true;
    case INFQ_GGUF_U32:
        *out = infq_load_u32le(p);
        return true;
    case INFQ_GGUF_I32:
        *out = (int32_t)infq_load_u32le(p);
        return true;
    case INFQ_GGUF_F32:
        u = infq_load_u32le(p);
        memcpy(&f, &u, sizeof(f));
        *out = (double)f;
        return true;
    case INFQ_GGUF_U64:
        *out = (double)infq_load_u64le(p);
        return true;
    case INFQ_GGUF_I64:
        *out = (double)(int64_t)infq_load_u64le(p);
        return true;
    case INFQ_GGUF_F64:
        w = infq_load_u64le(p);
        memcpy(out, &w, sizeof(w));
        return true;
    default:
        return false;
    }
}

bool infq_gguf_string(const infq_gguf_value *v, uint64_t *pos, const char **s, uint64_t *n)
{
    // *pos is a byte offset; the bounds of every string were checked by the parser.
    if (v->kind != INFQ_GGUF_STRING || *pos >= v->n_data)
        return false;
    *n = infq_load_u64le(v->data + *pos);
    *s = (const char *)v->data + *pos + 8;
    *pos += 8 + *n;
    return true;
}
