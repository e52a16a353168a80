#include "lib/io/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/io/folder_int.h"
#include "lib/io/safetensors_int.h"

#define SHARD_BYTES 5000000000u /* what transformers 4 writes; readers take any size */
#define INDEX_NAME "model.safetensors.index.json"

typedef struct {
    infq_st_tensor t; /* name owned; offset that of the shard file once sealed */
    size_t shard;
    uint64_t n_written;
} entry;

typedef struct {
    char *name;
    size_t first, n; /* tensors in declared order */
    infq_st_layout *layout;
    infq_outfile *file; /* NULL until the first write, and when done */
    bool done, earlier; /* finished; by an earlier run */
} shard;

struct infq_folder {
    infq_stage stage;
    uint64_t shard_bytes;
    entry *entries;
    size_t n, cap;
    infq_map *names;
    char **meta; /* key and value in turn, owned */
    size_t n_meta, cap_meta;
    shard *shards;
    size_t n_shards;
    bool sealed;
};

static void free_folder(infq_folder *f)
{
    for (size_t i = 0; i < f->n_shards; i++) {
        infq_outfile_free(f->shards[i].file);
        infq_st_layout_free(f->shards[i].layout);
        infq_mem_free(f->shards[i].name);
    }
    infq_mem_free(f->shards);
    infq_map_free(f->names);
    for (size_t i = 0; i < f->n; i++)
        infq_mem_free((char *)f->entries[i].t.name);
    infq_mem_free(f->entries);
    for (size_t i = 0; i < f->n_meta; i++)
        infq_mem_free(f->meta[i]);
    infq_mem_free(f->meta);
    infq_stage_deinit(&f->stage);
    infq_mem_free(f);
}

infq_status infq_folder_begin(const infq_folder_options *o, infq_folder **out, infq_err *err)
{
    infq_folder *f;
    infq_status st;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*f), "output folder", &p, err));
    f = p;
    f->shard_bytes = o->bare ? UINT64_MAX : o->shard_bytes ? o->shard_bytes : SHARD_BYTES;
    st = infq_stage_init(&f->stage, o, err);
    if (!st) {
        st = infq_map_new(256, &f->names, err);
        if (st && !f->stage.n_done)
            infq_stage_remove(&f->stage);
    }
    if (st) {
        free_folder(f);
        return st;
    }
    *out = f;
    return INFQ_E_OK;
}

void infq_folder_abort(infq_folder *f, bool keep_partial)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_shards; i++) {
        infq_outfile_free(f->shards[i].file);
        f->shards[i].file = NULL;
    }
    if (!keep_partial || !f->stage.n_done)
        infq_stage_remove(&f->stage);
    free_folder(f);
}

infq_status infq_folder_declare(infq_folder *f, const char *name, infq_dtype dtype, int n_dims, const int64_t *shape,
                                infq_err *err)
{
    entry *e;
    char q[INFQ_ST_QUOTED];
    int64_t seen;

    INFQ_BUG_ON(f->sealed || n_dims < 0 || n_dims > INFQ_MAX_DIMS);
    if (f->n == f->cap) {
        size_t more = f->cap ? 2 * f->cap : 256;
        entry *grown = infq_mem_realloc(f->entries, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "list of %zu tensors", more);
        f->entries = grown;
        f->cap = more;
    }
    e = &f->entries[f->n];
    memset(e, 0, sizeof(*e));
    e->t.name = name;
    e->t.dtype = dtype;
    e->t.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        e->t.shape[i] = shape[i];
    INFQ_TRY(infq_st_measure(&e->t, err));
    e->t.name = infq_mem_strdup(name);
    if (!e->t.name)
        return infq_err_set(err, INFQ_E_NOMEM, "tensor %s", infq_st_quote(name, q));
    seen = infq_map_put(f->names, e->t.name, strlen(name), (int64_t)f->n);
    if (seen != -1) {
        infq_mem_free((char *)e->t.name);
        return seen == -2 ? infq_err_set(err, INFQ_E_NOMEM, "table of names")
                          : infq_err_set(err, INFQ_E_FORMAT, "tensor %s would be written twice", infq_st_quote(name, q));
    }
    f->n++;
    return INFQ_E_OK;
}

infq_status infq_folder_meta(infq_folder *f, const char *key, const char *value, infq_err *err)
{
    INFQ_BUG_ON(f->sealed);
    if (f->n_meta == f->cap_meta) {
        size_t more = f->cap_meta ? 2 * f->cap_meta : 16;
        char **grown = infq_mem_realloc(f->meta, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "metadata");
        f->meta = grown;
        f->cap_meta = more;
    }
    f->meta[f->n_meta] = infq_mem_strdup(key);
    f->meta[f->n_meta + 1] = infq_mem_strdup(value);
    f->n_meta += 2; // both are freed with f, NULL too
    if (!f->meta[f->n_meta - 2] || !f->meta[f->n_meta - 1])
        return infq_err_set(err, INFQ_E_NOMEM, "metadata");
    return INFQ_E_OK;
}

// Greedy in declared order; a tensor above the limit has a shard of its own. At least one shard.
static infq_status split(infq_folder *f, infq_err *err)
{
    uint64_t bytes = 0;
    void *p;

    INFQ_TRY(infq_mem_new(f->n + 1, sizeof(*f->shards), "list of shards", &p, err));
    f->shards = p;
    f->n_shards = 1;
    for (size_t i = 0; i < f->n; i++) {
        entry *e = &f->entries[i];
        shard *s = &f->shards[f->n_shards - 1];
        if (s->n && e->t.n_bytes && (bytes > f->shard_bytes || e->t.n_bytes > f->shard_bytes - bytes)) {
            s = &f->shards[f->n_shards++];
            s->first = i;
            bytes = 0;
        }
        e->shard = f->n_shards - 1;
        s->n++;
        if (__builtin_add_overflow(bytes, e->t.n_bytes, &bytes))
            return infq_err_set(err, INFQ_E_FORMAT, "the output's size overflows");
    }
    return INFQ_E_OK;
}

static infq_status name_shard(const infq_folder *f, size_t i, infq_err *err)
{
    shard *s = &f->shards[i];
    infq_buf b;

    infq_buf_init(&b);
    if (f->stage.bare)
        infq_buf_str(&b, infq_path_base(f->stage.out));
    else if (f->n_shards == 1)
        infq_buf_str(&b, "model.safetensors");
    else
        infq_buf_fmt(&b, "model-%05zu-of-%05zu.safetensors", i + 1, f->n_shards);
    s->name = infq_buf_take(&b);
    return s->name ? INFQ_E_OK : infq_err_set(err, INFQ_E_NOMEM, "name of a shard");
}

static infq_status lay_out(infq_folder *f, shard *s, infq_err *err)
{
    INFQ_TRY(infq_st_layout_new(&s->layout, err));
    for (size_t i = 0; i < f->n_meta; i += 2)
        INFQ_TRY(infq_st_layout_meta(s->layout, f->meta[i], f->meta[i + 1], err));
    for (size_t i = s->first; i < s->first + s->n; i++) {
        const infq_st_tensor *t = &f->entries[i].t;
        INFQ_TRY(infq_st_layout_add(s->layout, t->name, t->dtype, t->n_dims, t->shape, err));
    }
    INFQ_TRY(infq_st_layout_seal(s->layout, err));
    for (size_t i = s->first; i < s->first + s->n; i++)
        f->entries[i].t.offset = infq_st_layout_find(s->layout, f->entries[i].t.name)->offset;
    return INFQ_E_OK;
}

static infq_status shard_path(const infq_folder *f, const shard *s, char **path, infq_err *err)
{
    return infq_path_join(f->stage.model, s->name, path, err);
}

// A shard of an earlier run counts when it has the planned length and header.
static infq_status check_done(infq_folder *f, shard *s, infq_err *err)
{
    const infq_buf *h = infq_st_layout_header(s->layout);
    infq_filemap m;
    infq_err ignored;
    char *path = NULL;

    if (!infq_stage_is_done(&f->stage, s->name))
        return INFQ_E_OK;
    INFQ_TRY(shard_path(f, s, &path, err));
    if (!infq_filemap_open(path, &m, &ignored)) {
        s->done = m.size == infq_st_layout_file_bytes(s->layout) && memcmp(m.data, h->data, h->n) == 0;
        s->earlier = s->done;
        infq_filemap_close(&m);
    }
    infq_mem_free(path);
    return INFQ_E_OK;
}

// What the journal names and is no finished shard of ours must not reach the output.
static infq_status forget_others(infq_folder *f, infq_err *err)
{
    for (size_t i = f->stage.n_done; i-- > 0;) {
        bool ours = false;
        for (size_t k = 0; k < f->n_shards; k++)
            ours |= f->shards[k].done && strcmp(f->shards[k].name, f->stage.done[i]) == 0;
        if (!ours)
            INFQ_TRY(infq_stage_forget(&f->stage, i, err));
    }
    return INFQ_E_OK;
}

infq_status infq_folder_seal(infq_folder *f, infq_err *err)
{
    INFQ_BUG_ON(f->sealed);
    INFQ_TRY(split(f, err));
    for (size_t i = 0; i < f->n_shards; i++) {
        INFQ_TRY(name_shard(f, i, err));
        INFQ_TRY(lay_out(f, &f->shards[i], err));
        INFQ_TRY(check_done(f, &f->shards[i], err));
    }
    INFQ_TRY(forget_others(f, err));
    f->sealed = true;
    return INFQ_E_OK;
}

uint64_t infq_folder_total_bytes(const infq_folder *f)
{
    uint64_t total = 0;

    for (size_t i = 0; i < f->n_shards; i++)
        total += infq_st_layout_file_bytes(f->shards[i].layout);
    return total;
}

size_t infq_folder_shard_count(const infq_folder *f)
{
    return f->n_shards;
}

static infq_status find(const infq_folder *f, const char *name, entry **out, infq_err *err)
{
    int64_t i = infq_map_get(f->names, name, strlen(name));
    char q[INFQ_ST_QUOTED];

    INFQ_BUG_ON(!f->sealed);
    if (i < 0)
        return infq_err_set(err, INFQ_E_BUG, "tensor %s was not declared", infq_st_quote(name, q));
    *out = &f->entries[i];
    return INFQ_E_OK;
}

infq_status infq_folder_where(const infq_folder *f, const char *name, size_t *shard_at, bool *done, infq_err *err)
{
    entry *e = NULL;

    INFQ_TRY(find(f, name, &e, err));
    *shard_at = e->shard;
    *done = f->shards[e->shard].done;
    return INFQ_E_OK;
}

// Creates the file with its header.
static infq_status open_shard(const infq_folder *f, shard *s, infq_err *err)
{
    const infq_buf *h = infq_st_layout_header(s->layout);
    char *path = NULL;
    infq_status st;

    if (s->file)
        return INFQ_E_OK;
    INFQ_TRY(shard_path(f, s, &path, err));
    st = infq_outfile_create(path, &s->file, err);
    infq_mem_free(path);
    return st ? st : infq_outfile_write_at(s->file, 0, h->data, h->n, err);
}

infq_status infq_folder_write(infq_folder *f, const char *name, uint64_t offset, const void *p, size_t n, infq_err *err)
{
    entry *e = NULL;
    shard *s;
    char q[INFQ_ST_QUOTED];

    INFQ_TRY(find(f, name, &e, err));
    s = &f->shards[e->shard];
    if (offset > e->t.n_bytes || n > e->t.n_bytes - offset)
        return infq_err_set(err, INFQ_E_BUG, "tensor %s: %zu bytes at %llu are written, it has %llu",
                            infq_st_quote(name, q), n, (unsigned long long)offset, (unsigned long long)e->t.n_bytes);
    if (s->earlier)
        return INFQ_E_OK;
    if (s->done)
        return infq_err_set(err, INFQ_E_BUG, "tensor %s: its shard %s is finished", infq_st_quote(name, q), s->name);
    INFQ_TRY(open_shard(f, s, err));
    INFQ_TRY(infq_outfile_write_at(s->file, e->t.offset + offset, p, n, err));
    e->n_written += n;
    return INFQ_E_OK;
}

infq_status infq_folder_shard_done(infq_folder *f, size_t shard_at, infq_err *err)
{
    shard *s = &f->shards[shard_at];
    infq_outfile *file;
    char q[INFQ_ST_QUOTED];

    INFQ_BUG_ON(!f->sealed || shard_at >= f->n_shards);
    if (s->done)
        return INFQ_E_OK;
    for (size_t i = s->first; i < s->first + s->n; i++) {
        const entry *e = &f->entries[i];
        if (e->n_written != e->t.n_bytes)
            return infq_err_set(err, INFQ_E_BUG, "tensor %s: %llu of %llu bytes were written",
                                infq_st_quote(e->t.name, q), (unsigned long long)e->n_written,
                                (unsigned long long)e->t.n_bytes);
    }
    INFQ_TRY(open_shard(f, s, err));
    file = s->file;
    s->file = NULL;
    INFQ_TRY(infq_outfile_finish(file, err));
    s->done = true;
    return infq_stage_mark_done(&f->stage, s->name, err);
}

static infq_status side_path(const infq_folder *f, const char *name, char **path, infq_err *err)
{
    if (f->stage.bare)
        return infq_err_set(err, INFQ_E_USAGE, "%s: a single file has no side files (%s)", f->stage.out, name);
    if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "'%s' is not a plain file name", name);
    return infq_path_join(f->stage.model, name, path, err);
}

infq_status infq_folder_put(infq_folder *f, const char *name, const void *p, size_t n, infq_err *err)
{
    infq_outfile *file = NULL;
    char *path = NULL;
    infq_status st;

    INFQ_TRY(side_path(f, name, &path, err));
    st = infq_outfile_create(path, &file, err);
    infq_mem_free(path);
    INFQ_TRY(st);
    st = infq_outfile_write(file, p, n, err);
    if (st) {
        infq_outfile_free(file);
        return st;
    }
    return infq_outfile_finish(file, err);
}

infq_status infq_folder_copy(infq_folder *f, const char *from_path, const char *name, infq_err *err)
{
    char *path = NULL;
    infq_status st;

    INFQ_TRY(side_path(f, name, &path, err));
    st = infq_file_copy(from_path, path, err);
    infq_mem_free(path);
    return st;
}

const char *infq_folder_partial_path(const infq_folder *f)
{
    return f->stage.model;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const entry *const *)a)->t.name, (*(const entry *const *)b)->t.name);
}

// As transformers writes it: two spaces, names sorted, a line feed at the end.
static infq_status write_index(infq_folder *f, infq_err *err)
{
    const entry **sorted;
    uint64_t total = 0;
    infq_status st;
    infq_buf b;
    infq_jw w;
    void *p;

    INFQ_TRY(infq_mem_new(f->n, sizeof(*sorted), "index", &p, err));
    sorted = p;
    for (size_t i = 0; i < f->n; i++) {
        sorted[i] = &f->entries[i];
        total += sorted[i]->t.n_bytes;
    }
    if (f->n)
        qsort(sorted, f->n, sizeof(*sorted), by_name);
    infq_buf_init(&b);
    w = infq_jw_over(&b, 2);
    infq_jw_obj(&w);
    infq_jw_key(&w, "metadata");
    infq_jw_obj(&w);
    infq_jw_key_i64(&w, "total_size", (int64_t)total);
    infq_jw_end_obj(&w);
    infq_jw_key(&w, "weight_map");
    infq_jw_obj(&w);
    for (size_t i = 0; i < f->n; i++) {
        infq_jw_key_str(&w, sorted[i]->t.name, f->shards[sorted[i]->shard].name);
    }
    infq_jw_end_obj(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(&b, '\n');
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_folder_put(f, INDEX_NAME, b.data, b.n, err);
    infq_buf_deinit(&b);
    infq_mem_free(sorted);
    return st;
}

static infq_status finish(infq_folder *f, infq_err *err)
{
    INFQ_BUG_ON(!f->sealed);
    for (size_t i = 0; i < f->n_shards; i++)
        if (!f->shards[i].done)
            return infq_err_set(err, INFQ_E_BUG, "%s was not finished", f->shards[i].name);
    if (f->n_shards > 1)
        INFQ_TRY(write_index(f, err));
    return infq_stage_publish(&f->stage, err);
}

infq_status infq_folder_commit(infq_folder *f, infq_err *err)
{
    infq_status st = finish(f, err);

    infq_folder_abort(f, st == INFQ_E_EXISTS);
    return st;
}
