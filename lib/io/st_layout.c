/* Layout of a safetensors file to be written: what the reference writer would write, byte for byte (formats.md 1.4). */
#include <stdlib.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/io/safetensors_int.h"

struct infq_st_layout {
    infq_st_tensor *tensors; /* names are owned */
    size_t n, cap;
    char **meta; /* key and value in turn, owned */
    size_t n_meta, cap_meta;
    infq_buf header;
    infq_map *names;
    uint64_t data_bytes;
    bool sealed;
};

infq_status infq_st_layout_new(infq_st_layout **out, infq_err *err)
{
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(**out), "file layout", &p, err));
    *out = p;
    infq_buf_init(&(*out)->header);
    return INFQ_E_OK;
}

void infq_st_layout_free(infq_st_layout *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        infq_mem_free((char *)l->tensors[i].name);
    for (size_t i = 0; i < l->n_meta; i++)
        infq_mem_free(l->meta[i]);
    infq_mem_free(l->tensors);
    infq_mem_free(l->meta);
    infq_map_free(l->names);
    infq_buf_deinit(&l->header);
    infq_mem_free(l);
}

static infq_status check_text(const char *s, infq_err *err)
{
    char q[INFQ_ST_QUOTED];
    size_t n = strlen(s);

    if (infq_utf8_check(s, n) < n)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not UTF-8", infq_st_quote(s, q));
    return INFQ_E_OK;
}

infq_status infq_st_layout_add(infq_st_layout *l, const char *name, infq_dtype dtype, int n_dims,
                               const int64_t *shape, infq_err *err)
{
    infq_st_tensor t = { .name = name, .dtype = dtype, .n_dims = n_dims };
    char q[INFQ_ST_QUOTED];
    uint64_t total;

    INFQ_BUG_ON(l->sealed);
    if (n_dims < 0 || n_dims > INFQ_MAX_DIMS)
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: %d dimensions, at most %d are written",
                            infq_st_quote(name, q), n_dims, INFQ_MAX_DIMS);
    if (strcmp(name, "__metadata__") == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "a tensor cannot be called __metadata__");
    INFQ_TRY(check_text(name, err));
    for (int i = 0; i < n_dims; i++)
        t.shape[i] = shape[i];
    INFQ_TRY(infq_st_measure(&t, err));
    if (__builtin_add_overflow(l->data_bytes, t.n_bytes, &total) || total > INT64_MAX - 2 * INFQ_ST_HEADER_MAX)
        return infq_err_set(err, INFQ_E_FORMAT, "tensor %s: the file's size overflows", infq_st_quote(name, q));
    if (l->n == l->cap) {
        size_t more = l->cap ? 2 * l->cap : 64;
        infq_st_tensor *grown = infq_mem_realloc(l->tensors, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "list of %zu tensors", more);
        l->tensors = grown;
        l->cap = more;
    }
    t.name = infq_mem_strdup(name);
    if (!t.name)
        return infq_err_set(err, INFQ_E_NOMEM, "tensor %s", infq_st_quote(name, q));
    l->tensors[l->n++] = t;
    l->data_bytes = total;
    return INFQ_E_OK;
}

infq_status infq_st_layout_meta(infq_st_layout *l, const char *key, const char *value, infq_err *err)
{
    char q[INFQ_ST_QUOTED];

    INFQ_BUG_ON(l->sealed);
    INFQ_TRY(check_text(key, err));
    INFQ_TRY(check_text(value, err));
    if (strcmp(key, "format") == 0)
        return INFQ_E_OK; // ours is always pt
    for (size_t i = 0; i < l->n_meta; i += 2)
        if (strcmp(l->meta[i], key) == 0) {
            if (strcmp(l->meta[i + 1], value) == 0)
                return INFQ_E_OK;
            return infq_err_set(err, INFQ_E_MISMATCH, "metadata key %s has two values", infq_st_quote(key, q));
        }
    if (l->n_meta == l->cap_meta) {
        size_t more = l->cap_meta ? 2 * l->cap_meta : 16;
        char **grown = infq_mem_realloc(l->meta, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "metadata");
        l->meta = grown;
        l->cap_meta = more;
    }
    l->meta[l->n_meta] = infq_mem_strdup(key);
    l->meta[l->n_meta + 1] = infq_mem_strdup(value);
    l->n_meta += 2; // both are freed with the layout, NULL too
    if (!l->meta[l->n_meta - 2] || !l->meta[l->n_meta - 1])
        return infq_err_set(err, INFQ_E_NOMEM, "metadata key %s", infq_st_quote(key, q));
    return INFQ_E_OK;
}

static int file_order(const void *a, const void *b)
{
    const infq_st_tensor *x = a, *y = b;

    return x->dtype != y->dtype ? (x->dtype > y->dtype ? -1 : 1) : strcmp(x->name, y->name);
}

static void write_json(infq_st_layout *l)
{
    infq_jw w = infq_jw_over(&l->header, 0);

    infq_jw_obj(&w);
    infq_jw_key(&w, "__metadata__");
    infq_jw_obj(&w);
    infq_jw_key_str(&w, "format", "pt");
    for (size_t i = 0; i < l->n_meta; i += 2) {
        infq_jw_key_str(&w, l->meta[i], l->meta[i + 1]);
    }
    infq_jw_end_obj(&w);
    for (size_t i = 0; i < l->n; i++) {
        const infq_st_tensor *t = &l->tensors[i];
        infq_jw_key(&w, t->name);
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "dtype", infq_dtype_name(t->dtype));
        infq_jw_key(&w, "shape");
        infq_jw_arr(&w);
        for (int d = 0; d < t->n_dims; d++)
            infq_jw_i64(&w, t->shape[d]);
        infq_jw_end_arr(&w);
        infq_jw_key(&w, "data_offsets");
        infq_jw_arr(&w);
        infq_jw_i64(&w, (int64_t)t->offset);
        infq_jw_i64(&w, (int64_t)(t->offset + t->n_bytes));
        infq_jw_end_arr(&w);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_obj(&w);
}

infq_status infq_st_layout_seal(infq_st_layout *l, infq_err *err)
{
    uint64_t at = 0;
    char q[INFQ_ST_QUOTED];

    INFQ_BUG_ON(l->sealed);
    if (l->n)
        qsort(l->tensors, l->n, sizeof(*l->tensors), file_order);
    infq_map_free(l->names);
    l->names = NULL;
    INFQ_TRY(infq_map_new(l->n, &l->names, err));
    for (size_t i = 0; i < l->n; i++) {
        infq_st_tensor *t = &l->tensors[i];
        int64_t seen = infq_map_put(l->names, t->name, strlen(t->name), (int64_t)i);
        if (seen == -2)
            return infq_err_set(err, INFQ_E_NOMEM, "table of %zu names", l->n);
        if (seen >= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "tensor %s would be written twice", infq_st_quote(t->name, q));
        t->offset = at;
        at += t->n_bytes;
    }
    infq_buf_clear(&l->header);
    infq_buf_add(&l->header, "\0\0\0\0\0\0\0\0", 8);
    write_json(l);
    while (l->header.n % 8 && !l->header.failed)
        infq_buf_char(&l->header, ' ');
    INFQ_TRY(infq_buf_status(&l->header, err));
    if (l->header.n - 8 > INFQ_ST_HEADER_MAX)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "a header of %zu bytes is over the format's limit of %llu",
                            l->header.n - 8, INFQ_ST_HEADER_MAX);
    infq_store_u64le(l->header.data, l->header.n - 8);
    for (size_t i = 0; i < l->n; i++)
        l->tensors[i].offset += l->header.n;
    l->sealed = true;
    return INFQ_E_OK;
}

uint64_t infq_st_layout_file_bytes(const infq_st_layout *l)
{
    return l->header.n + l->data_bytes;
}

const infq_buf *infq_st_layout_header(const infq_st_layout *l)
{
    return &l->header;
}

const infq_st_tensor *infq_st_layout_find(const infq_st_layout *l, const char *name)
{
    int64_t i = l->names ? infq_map_get(l->names, name, strlen(name)) : -1;

    return i < 0 ? NULL : &l->tensors[i];
}

size_t infq_st_layout_count(const infq_st_layout *l)
{
    return l->n;
}

const infq_st_tensor *infq_st_layout_get(const infq_st_layout *l, size_t i)
{
    return i < l->n ? &l->tensors[i] : NULL;
}
