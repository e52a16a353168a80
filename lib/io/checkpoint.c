/* Opening of model folders and bare files; the rules are in the header and in docs/format/folder.md. */
#include "lib/io/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/io/safetensors_int.h"

#define CONFIG_MAX ((size_t)64 << 20)
#define INDEX_MAX ((size_t)256 << 20)
#define INDEX_NAME "model.safetensors.index.json"
#define ONE_FILE "model.safetensors"

typedef struct {
    char *name;
    infq_filemap map;
    infq_st *st;
    bool indexed; /* named by the index */
} shard;

typedef struct {
    const char *key, *value;
} meta_pair;

struct infq_checkpoint {
    char *path;
    bool bare;
    shard *shards;
    size_t n_shards;
    infq_ck_tensor *tensors;
    size_t n_tensors;
    infq_map *names;
    cJSON *config;
    infq_buf config_text;
    char **sides;
    size_t n_sides;
    meta_pair *meta;
    size_t n_meta;
};

/* Only while opening a folder. */
typedef struct {
    infq_checkpoint *ck;
    const infq_log *log;
    char **files; /* of the folder, sorted */
    size_t n_files;
    infq_map *in_folder;   /* file name to its place in files */
    cJSON *index;          /* NULL if there is none */
    const cJSON *map;      /* its weight_map */
    infq_map *indexed;     /* tensor names of the index */
    infq_map *index_files; /* file names of the index */
} opening;

/* Names for a message, as many as fit. */
typedef struct {
    char text[120];
    size_t used, n, shown;
} name_list;

// Where a message would drown in a long path, its end is what tells files apart.
static const char *tail(const char *path)
{
    size_t n = strlen(path);

    return n > 100 ? path + n - 100 : path;
}

static const char *folder_name(const opening *o)
{
    return tail(infq_path_base(o->ck->path));
}

static void list_add(name_list *l, const char *name)
{
    size_t room = sizeof(l->text) - l->used, n;

    l->n++;
    n = strlen(name) + (l->shown ? 2 : 0);
    if (l->shown != l->n - 1 || (l->shown && n >= room))
        return;
    snprintf(l->text + l->used, room, "%s%s", l->shown ? ", " : "", name);
    l->used += n < room ? n : room - 1;
    l->shown++;
}

static infq_status missing(const opening *o, const char *who, const name_list *l, infq_err *err)
{
    char more[32] = "";

    if (l->n > l->shown)
        snprintf(more, sizeof(more), " and %zu more", l->n - l->shown);
    return infq_err_set(err, INFQ_E_FORMAT, "%.50s: %s %zu file%s absent: %s%s", folder_name(o), who, l->n,
                        l->n == 1 ? " that is" : "s that are", l->text, more);
}


static infq_status put(infq_map *m, const char *key, int64_t value, infq_err *err)
{
    return infq_map_put(m, key, strlen(key), value) == -2 ? infq_err_set(err, INFQ_E_NOMEM, "table of names")
                                                          : INFQ_E_OK;
}

static bool has(const infq_map *m, const char *key)
{
    return m && infq_map_get(m, key, strlen(key)) >= 0;
}

static infq_status open_shard(infq_checkpoint *ck, const char *path, const char *name, bool indexed, infq_err *err)
{
    shard *s = &ck->shards[ck->n_shards];

    s->name = infq_mem_strdup(name);
    if (!s->name)
        return infq_err_set(err, INFQ_E_NOMEM, "shard %s", name);
    ck->n_shards++;
    s->indexed = indexed;
    INFQ_TRY(infq_filemap_open(path, &s->map, err));
    if (infq_st_parse(s->map.data, s->map.size, &s->st, err))
        return infq_err_in(err, "%s", tail(path));
    return INFQ_E_OK;
}

static void close_shard(shard *s)
{
    infq_st_free(s->st);
    infq_filemap_close(&s->map);
    infq_mem_free(s->name);
    memset(s, 0, sizeof(*s));
}

static infq_status open_named(opening *o, const char *name, bool indexed, infq_err *err)
{
    char *path = NULL;
    infq_status st = infq_path_join(o->ck->path, name, &path, err);

    if (!st)
        st = open_shard(o->ck, path, name, indexed, err);
    infq_mem_free(path);
    return st;
}

// The index: its form, its files, and that they are all there.
static infq_status read_index(opening *o, infq_err *err)
{
    char *path = NULL;
    const cJSON *e;
    name_list absent = { .n = 0 };
    infq_status st;

    INFQ_TRY(infq_path_join(o->ck->path, INDEX_NAME, &path, err));
    st = infq_json_load(path, INDEX_MAX, &o->index, err);
    infq_mem_free(path);
    INFQ_TRY(st);
    o->map = infq_json_get(o->index, "weight_map");
    if (!cJSON_IsObject(o->map))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: no weight_map in " INDEX_NAME, folder_name(o));
    INFQ_TRY(infq_map_new(o->n_files, &o->index_files, err));
    INFQ_TRY(infq_map_new(64, &o->indexed, err));
    cJSON_ArrayForEach(e, o->map)
    {
        const char *file = e->valuestring;
        char q[INFQ_ST_QUOTED];
        if (!cJSON_IsString(e) || !*file || strchr(file, '/') || strcmp(file, "..") == 0)
            return infq_err_set(err, INFQ_E_FORMAT, "%.100s: the index gives tensor %s no plain file name",
                                folder_name(o), infq_st_quote(e->string, q));
        if (!has(o->index_files, file) && !has(o->in_folder, file))
            list_add(&absent, file);
        INFQ_TRY(put(o->index_files, file, 1, err));
        INFQ_TRY(put(o->indexed, e->string, 1, err));
    }
    return absent.n ? missing(o, "the index names", &absent, err) : INFQ_E_OK;
}

// A file beside the index: a stray copy of indexed tensors is left out, tensors of its own (MTP heads) are kept.
static infq_status judge_extra(opening *o, infq_err *err)
{
    shard *s = &o->ck->shards[o->ck->n_shards - 1];
    size_t n = infq_st_count(s->st), n_known = 0;
    const char *known = "", *own = "";
    char q[INFQ_ST_QUOTED];

    for (size_t i = 0; i < n; i++) {
        const char *name = infq_st_get(s->st, i)->name;
        if (has(o->indexed, name)) {
            n_known++;
            known = name;
        } else
            own = name;
    }
    if (n_known && n_known < n)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "%.40s: %.60s is not in the index, but holds its tensor %.50s beside others of its own (%.50s)",
                            folder_name(o), s->name, known, own);
    if (n_known) {
        infq_warn(o->log, "%s: %s is not named by the index and repeats its tensors; it is left out", folder_name(o),
                  s->name);
        close_shard(s);
        o->ck->n_shards--;
    } else if (n)
        infq_warn(o->log, "%s: %s is not named by the index; its %zu tensors (%s, ...) are kept", folder_name(o),
                  s->name, n, infq_st_quote(own, q));
    return INFQ_E_OK;
}

// Length of the part before "-00001-of-00003.safetensors", and the count; false for other names.
static bool numbered(const char *name, size_t *prefix, int64_t *count)
{
    static const char form[] = "-ddddd-of-ddddd.safetensors";
    size_t n = strlen(name), m = sizeof(form) - 1;
    char digits[6];

    if (n < m)
        return false;
    for (size_t i = 0; i < m; i++) {
        char c = name[n - m + i];
        if (form[i] == 'd' ? c < '0' || c > '9' : c != form[i])
            return false;
    }
    memcpy(digits, name + n - m + 10, 5);
    digits[5] = '\0';
    *prefix = n - m;
    return infq_parse_i64(digits, 1, 99999, count);
}

// Without an index, the names say how many shards there should be.
static infq_status check_numbers(const opening *o, infq_err *err)
{
    size_t last_prefix = SIZE_MAX, prefix;
    const char *last = "";
    int64_t count, last_count = 0;
    name_list absent = { .n = 0 };

    for (size_t i = 0; i < o->n_files; i++) {
        const char *f = o->files[i];
        if (!numbered(f, &prefix, &count))
            continue;
        if (prefix == last_prefix && count == last_count && strncmp(f, last, prefix) == 0)
            continue;
        last = f;
        last_prefix = prefix;
        last_count = count;
        for (int64_t k = 1; k <= count; k++) {
            char name[300];
            snprintf(name, sizeof(name), "%.*s-%05d-of-%05d.safetensors", (int)prefix, f, (int)k, (int)count);
            if (!has(o->in_folder, name))
                list_add(&absent, name);
        }
    }
    return absent.n ? missing(o, "the shards' names count", &absent, err) : INFQ_E_OK;
}

// Mistral's folders hold the whole model a second time in its own naming.
static bool is_consolidated(const char *name)
{
    return infq_str_starts(name, "consolidated") && infq_str_ends(name, ".safetensors");
}

// Without an index, a model.safetensors is the whole model, as for every loader of such folders.
static infq_status open_single(opening *o, infq_err *err)
{
    for (size_t i = 0; i < o->n_files; i++)
        if (infq_str_ends(o->files[i], ".safetensors") && strcmp(o->files[i], ONE_FILE) != 0)
            infq_warn(o->log, "%s: %s lies beside " ONE_FILE " and no index names it; it is left out", folder_name(o),
                      o->files[i]);
    return open_named(o, ONE_FILE, false, err);
}

static infq_status open_shards(opening *o, infq_err *err)
{
    bool others = false;

    if (!o->index && has(o->in_folder, ONE_FILE))
        return open_single(o, err);
    for (size_t i = 0; i < o->n_files; i++) {
        const char *f = o->files[i];
        if (o->index ? has(o->index_files, f) : infq_str_ends(f, ".safetensors") && !is_consolidated(f)) {
            INFQ_TRY(open_named(o, f, o->index != NULL, err));
            others = true;
        }
    }
    for (size_t i = 0; i < o->n_files; i++) {
        const char *f = o->files[i];
        if (has(o->index_files, f) || !infq_str_ends(f, ".safetensors") || (!o->index && !is_consolidated(f)))
            continue;
        if (is_consolidated(f) && others) {
            infq_warn(o->log, "%s: %s holds the model a second time; it is left out", folder_name(o), f);
            continue;
        }
        INFQ_TRY(open_named(o, f, false, err));
        if (o->index)
            INFQ_TRY(judge_extra(o, err));
    }
    return INFQ_E_OK;
}

static infq_status no_shards(const opening *o, infq_err *err)
{
    for (size_t i = 0; i < o->n_files; i++) {
        const char *f = o->files[i];
        bool torch = infq_str_ends(f, ".bin") || infq_str_ends(f, ".pt") || infq_str_ends(f, ".pth");
        if (torch || infq_str_ends(f, ".gguf"))
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%.60s: no *.safetensors file; %.60s is %s", folder_name(o), f,
                                torch ? "a PyTorch file, which must be converted first"
                                      : "a GGUF file, which is given by its own path");
    }
    return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: no *.safetensors file in this folder", tail(o->ck->path));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const shard *)a)->name, ((const shard *)b)->name);
}

static infq_status gather_tensors(infq_checkpoint *ck, infq_err *err)
{
    size_t n = 0, at = 0;
    void *p;

    if (ck->n_shards > 1)
        qsort(ck->shards, ck->n_shards, sizeof(*ck->shards), by_name);
    for (size_t s = 0; s < ck->n_shards; s++)
        n += infq_st_count(ck->shards[s].st);
    INFQ_TRY(infq_mem_new(n, sizeof(*ck->tensors), "list of tensors", &p, err));
    ck->tensors = p;
    INFQ_TRY(infq_map_new(n, &ck->names, err));
    for (size_t s = 0; s < ck->n_shards; s++)
        for (size_t i = 0; i < infq_st_count(ck->shards[s].st); i++, at++) {
            const infq_st_tensor *t = infq_st_get(ck->shards[s].st, i);
            infq_ck_tensor *c = &ck->tensors[at];
            size_t n_name = strlen(t->name);
            int64_t seen = infq_map_put(ck->names, t->name, n_name, (int64_t)at);
            char q[INFQ_ST_QUOTED];
            if (n_name > INFQ_CK_NAME_MAX)
                return infq_err_set(err, INFQ_E_UNSUPPORTED, "%.60s: tensor %s: a name of %zu bytes, at most %d are handled",
                                    ck->shards[s].name, infq_st_quote(t->name, q), n_name, INFQ_CK_NAME_MAX);
            if (seen == -2)
                return infq_err_set(err, INFQ_E_NOMEM, "table of %zu names", n);
            if (seen >= 0)
                return infq_err_set(err, INFQ_E_FORMAT, "tensor %s is in two files: %.60s and %.60s",
                                    infq_st_quote(t->name, q), ck->shards[ck->tensors[seen].shard].name,
                                    ck->shards[s].name);
            c->name = t->name;
            c->dtype = t->dtype;
            c->n_dims = t->n_dims;
            memcpy(c->shape, t->shape, sizeof(c->shape));
            c->n_elems = t->n_elems;
            c->n_bytes = t->n_bytes;
            c->offset = t->offset;
            c->shard = (int)s;
        }
    ck->n_tensors = n;
    return INFQ_E_OK;
}

// Index and shards must name the same tensors in the same files; a wrong total is only warned of.
static infq_status compare_index(const opening *o, infq_err *err)
{
    const infq_checkpoint *ck = o->ck;
    const cJSON *e, *total = infq_json_get(infq_json_get(o->index, "metadata"), "total_size");
    uint64_t n_bytes = 0;
    char q[INFQ_ST_QUOTED];

    cJSON_ArrayForEach(e, o->map)
    {
        const infq_ck_tensor *t = infq_checkpoint_find(ck, e->string);
        const char *file = t ? ck->shards[t->shard].name : "no file";
        if (!t || strcmp(file, e->valuestring) != 0)
            return infq_err_set(err, INFQ_E_FORMAT, "%.40s: the index says that tensor %s is in %.50s, but it is in %.50s",
                                folder_name(o), infq_st_quote(e->string, q), e->valuestring, file);
    }
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const infq_ck_tensor *t = &ck->tensors[i];
        if (!ck->shards[t->shard].indexed)
            continue;
        if (!has(o->indexed, t->name))
            return infq_err_set(err, INFQ_E_FORMAT, "%.60s: tensor %s of %.60s is not in the index", folder_name(o),
                                infq_st_quote(t->name, q), ck->shards[t->shard].name);
        n_bytes += t->n_bytes;
    }
    if (cJSON_IsNumber(total) && total->valuedouble != (double)n_bytes)
        infq_warn(o->log, "%s: total_size of the index is %.0f, its tensors have %llu bytes", folder_name(o),
                  total->valuedouble, (unsigned long long)n_bytes);
    return INFQ_E_OK;
}

// Other containers of weights, and what describes them.
static bool is_weights(const char *name)
{
    static const char *const ends[] = { ".safetensors", ".safetensors.index.json", ".bin.index.json", ".pt", ".pth",
                                        ".gguf",        ".h5",                     ".msgpack",        ".onnx" };

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (infq_str_ends(name, ends[i]))
            return true;
    return infq_str_starts(name, "pytorch_model") && infq_str_ends(name, ".bin");
}

static infq_status gather_sides(opening *o, infq_err *err)
{
    infq_checkpoint *ck = o->ck;
    void *p;

    INFQ_TRY(infq_mem_new(o->n_files, sizeof(*ck->sides), "list of side files", &p, err));
    ck->sides = p;
    for (size_t i = 0; i < o->n_files; i++) {
        const char *f = o->files[i];
        char *path = NULL;
        struct stat sb;
        int rc;
        if (strcmp(f, "config.json") == 0 || strcmp(f, "infq.json") == 0 || has(o->index_files, f) ||
            infq_str_ends(f, ".safetensors") || strcmp(f, INDEX_NAME) == 0)
            continue;
        INFQ_TRY(infq_path_join(ck->path, f, &path, err));
        rc = stat(path, &sb);
        infq_mem_free(path);
        if (rc || !S_ISREG(sb.st_mode) || is_weights(f)) {
            if (*f != '.')
                infq_warn(o->log, "%s: %s %s is left out", folder_name(o),
                          rc                    ? "broken link"
                          : S_ISDIR(sb.st_mode) ? "folder"
                          : S_ISREG(sb.st_mode) ? "other weights"
                                                : "special file",
                          f);
            continue;
        }
        ck->sides[ck->n_sides] = infq_mem_strdup(f);
        if (!ck->sides[ck->n_sides])
            return infq_err_set(err, INFQ_E_NOMEM, "list of side files");
        ck->n_sides++;
    }
    return INFQ_E_OK;
}

static infq_status read_config(opening *o, infq_err *err)
{
    infq_checkpoint *ck = o->ck;
    char *path = NULL;
    infq_status st;

    if (!has(o->in_folder, "config.json"))
        return INFQ_E_OK;
    INFQ_TRY(infq_path_join(ck->path, "config.json", &path, err));
    st = infq_file_read(path, CONFIG_MAX, &ck->config_text, err);
    if (!st)
        st = infq_json_parse(ck->config_text.data, ck->config_text.n, tail(path), &ck->config, err);
    if (!st && !cJSON_IsObject(ck->config))
        st = infq_err_set(err, INFQ_E_FORMAT, "%s: not a JSON object", tail(path));
    infq_mem_free(path);
    return st;
}

static infq_status open_folder(opening *o, infq_err *err)
{
    infq_checkpoint *ck = o->ck;
    void *p;

    INFQ_TRY(infq_dir_list(ck->path, &o->files, &o->n_files, err));
    INFQ_TRY(infq_map_new(o->n_files, &o->in_folder, err));
    for (size_t i = 0; i < o->n_files; i++)
        INFQ_TRY(put(o->in_folder, o->files[i], (int64_t)i, err));
    INFQ_TRY(infq_mem_new(o->n_files, sizeof(*ck->shards), "list of shards", &p, err));
    ck->shards = p;
    if (has(o->in_folder, INDEX_NAME))
        INFQ_TRY(read_index(o, err));
    else if (!has(o->in_folder, ONE_FILE))
        INFQ_TRY(check_numbers(o, err));
    INFQ_TRY(read_config(o, err));
    INFQ_TRY(open_shards(o, err));
    if (!ck->n_shards)
        return no_shards(o, err);
    INFQ_TRY(gather_tensors(ck, err));
    if (o->index)
        INFQ_TRY(compare_index(o, err));
    return gather_sides(o, err);
}

static infq_status open_bare(infq_checkpoint *ck, infq_err *err)
{
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*ck->shards), "file", &p, err));
    ck->shards = p;
    ck->bare = true;
    INFQ_TRY(open_shard(ck, ck->path, infq_path_base(ck->path), false, err));
    return gather_tensors(ck, err);
}

// Each key once: the first shard's value stays, another value is warned of.
static infq_status gather_meta(infq_checkpoint *ck, const infq_log *log, infq_err *err)
{
    infq_map *keys = NULL;
    size_t n = 0;
    infq_status st;
    void *p;

    for (size_t s = 0; s < ck->n_shards; s++)
        n += infq_st_meta_count(ck->shards[s].st);
    INFQ_TRY(infq_mem_new(n, sizeof(*ck->meta), "metadata", &p, err));
    ck->meta = p;
    st = infq_map_new(n, &keys, err);
    for (size_t s = 0; !st && s < ck->n_shards; s++)
        for (size_t i = 0; !st && i < infq_st_meta_count(ck->shards[s].st); i++) {
            meta_pair m;
            int64_t seen;
            infq_st_meta_get(ck->shards[s].st, i, &m.key, &m.value);
            seen = infq_map_put(keys, m.key, strlen(m.key), (int64_t)ck->n_meta);
            if (seen == -2)
                st = infq_err_set(err, INFQ_E_NOMEM, "metadata");
            else if (seen == -1)
                ck->meta[ck->n_meta++] = m;
            else if (strcmp(ck->meta[seen].value, m.value) != 0)
                infq_warn(log, "%s: metadata key %s has another value in an earlier file, which is kept",
                          ck->shards[s].name, m.key);
        }
    infq_map_free(keys);
    return st;
}

infq_status infq_checkpoint_open(const char *path, const infq_log *log, infq_checkpoint **out, infq_err *err)
{
    opening o = { .log = log };
    infq_checkpoint *ck;
    infq_status st = INFQ_E_OK;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*ck), "checkpoint", &p, err));
    o.ck = ck = p;
    infq_buf_init(&ck->config_text);
    ck->path = infq_mem_strdup(path);
    if (!ck->path)
        st = infq_err_set(err, INFQ_E_NOMEM, "%s", tail(path));
    else
        st = infq_path_is_dir(path) ? open_folder(&o, err) : open_bare(ck, err);
    if (!st)
        st = gather_meta(ck, log, err);
    infq_map_free(o.in_folder);
    infq_map_free(o.index_files);
    infq_map_free(o.indexed);
    cJSON_Delete(o.index);
    infq_dir_list_free(o.files, o.n_files);
    if (st) {
        infq_checkpoint_close(ck);
        return st;
    }
    *out = ck;
    return INFQ_E_OK;
}

void infq_checkpoint_close(infq_checkpoint *ck)
{
    if (!ck)
        return;
    for (size_t i = 0; i < ck->n_shards; i++)
        close_shard(&ck->shards[i]);
    infq_dir_list_free(ck->sides, ck->n_sides);
    infq_mem_free(ck->meta);
    infq_map_free(ck->names);
    infq_mem_free(ck->tensors);
    infq_mem_free(ck->shards);
    cJSON_Delete(ck->config);
    infq_buf_deinit(&ck->config_text);
    infq_mem_free(ck->path);
    infq_mem_free(ck);
}

const char *infq_checkpoint_path(const infq_checkpoint *ck)
{
    return ck->path;
}

bool infq_checkpoint_is_bare(const infq_checkpoint *ck)
{
    return ck->bare;
}

const cJSON *infq_checkpoint_config(const infq_checkpoint *ck)
{
    return ck->config;
}

const infq_buf *infq_checkpoint_config_text(const infq_checkpoint *ck)
{
    return ck->config ? &ck->config_text : NULL;
}

size_t infq_checkpoint_count(const infq_checkpoint *ck)
{
    return ck->n_tensors;
}

const infq_ck_tensor *infq_checkpoint_get(const infq_checkpoint *ck, size_t i)
{
    return i < ck->n_tensors ? &ck->tensors[i] : NULL;
}

const infq_ck_tensor *infq_checkpoint_find(const infq_checkpoint *ck, const char *name)
{
    int64_t i = infq_map_get(ck->names, name, strlen(name));

    return i < 0 ? NULL : &ck->tensors[i];
}

const void *infq_checkpoint_data(const infq_checkpoint *ck, const infq_ck_tensor *t)
{
    return ck->shards[t->shard].map.data + t->offset;
}

void infq_checkpoint_drop(const infq_checkpoint *ck, const infq_ck_tensor *t, uint64_t begin, uint64_t end)
{
    if (begin < end && end <= t->n_bytes)
        infq_filemap_drop(&ck->shards[t->shard].map, (size_t)(t->offset + begin), (size_t)(end - begin));
}

size_t infq_checkpoint_shard_count(const infq_checkpoint *ck)
{
    return ck->n_shards;
}

const char *infq_checkpoint_shard_name(const infq_checkpoint *ck, size_t i)
{
    return ck->shards[i].name;
}

uint64_t infq_checkpoint_shard_bytes(const infq_checkpoint *ck, size_t i)
{
    return ck->shards[i].map.size;
}

size_t infq_checkpoint_side_count(const infq_checkpoint *ck)
{
    return ck->n_sides;
}

const char *infq_checkpoint_side_name(const infq_checkpoint *ck, size_t i)
{
    return ck->sides[i];
}

static infq_status shard_identity(const infq_checkpoint *ck, size_t i, infq_buf *to, infq_err *err)
{
    struct stat sb;
    char *path = NULL;
    infq_status st = INFQ_E_OK;

    if (!ck->bare)
        INFQ_TRY(infq_path_join(ck->path, ck->shards[i].name, &path, err));
    if (stat(path ? path : ck->path, &sb))
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", path ? path : ck->path, strerror(errno));
    else
        infq_buf_fmt(to, "%s|%lld|%llu.%llu|%lld.%09ld|%lld.%09ld\n", ck->shards[i].name, (long long)sb.st_size,
                     (unsigned long long)sb.st_dev, (unsigned long long)sb.st_ino, (long long)sb.st_mtim.tv_sec,
                     sb.st_mtim.tv_nsec, (long long)sb.st_ctim.tv_sec, sb.st_ctim.tv_nsec);
    infq_mem_free(path);
    return st;
}

infq_status infq_checkpoint_identity(const infq_checkpoint *ck, infq_buf *to, infq_err *err)
{
    for (size_t i = 0; i < ck->n_shards; i++)
        INFQ_TRY(shard_identity(ck, i, to, err));
    if (ck->config)
        infq_buf_add(to, ck->config_text.data, ck->config_text.n);
    return infq_buf_status(to, err);
}

// Name with its zero byte, length, content.
static infq_status digest_file(infq_sha256 *h, const char *name, const uint8_t *data, size_t n, infq_err *err)
{
    uint8_t length[8];

    infq_store_u64le(length, n);
    INFQ_TRY(infq_sha256_add(h, name, strlen(name) + 1, err));
    INFQ_TRY(infq_sha256_add(h, length, sizeof(length), err));
    return data ? infq_sha256_add(h, data, n, err) : INFQ_E_OK;
}

static infq_status digest_all(const infq_checkpoint *ck, const infq_log *log, infq_sha256 *h, infq_err *err)
{
    const size_t step = (size_t)8 << 20;
    uint64_t done = 0, total = 0;

    for (size_t s = 0; s < ck->n_shards; s++)
        total += ck->shards[s].map.size;
    for (size_t s = 0; s < ck->n_shards; s++) {
        const infq_filemap *m = &ck->shards[s].map;
        INFQ_TRY(digest_file(h, ck->shards[s].name, NULL, m->size, err));
        for (size_t at = 0; at < m->size; at += step) {
            size_t n = m->size - at < step ? m->size - at : step;
            if (infq_interrupted)
                return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted while hashing %s", ck->shards[s].name);
            INFQ_TRY(infq_sha256_add(h, m->data + at, n, err));
            infq_filemap_drop(m, at, n);
            done += n;
            infq_progress(log, ck->shards[s].name, done, total);
        }
    }
    return ck->config ? digest_file(h, "config.json", (const uint8_t *)ck->config_text.data, ck->config_text.n, err)
                      : INFQ_E_OK;
}

infq_status infq_checkpoint_digest(const infq_checkpoint *ck, const infq_log *log, char hex[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st;

    INFQ_TRY(infq_sha256_new(&h, err));
    st = digest_all(ck, log, h, err);
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}

size_t infq_checkpoint_meta_count(const infq_checkpoint *ck)
{
    return ck->n_meta;
}

void infq_checkpoint_meta_get(const infq_checkpoint *ck, size_t i, const char **key, const char **value)
{
    *key = ck->meta[i].key;
    *value = ck->meta[i].value;
}
