#include "lib/recipe/contents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"

#define SCHEMA "infq.digests.v1"
#define MAX_CACHE ((size_t)1 << 28)
#define MAX_DEPTH 32
#define STEP ((size_t)16 << 20)

struct infq_contents {
    char *cache;       /* NULL: none */
    cJSON *known;      /* path -> "size:mtime:ctime:inode:sha256" */
    bool changed;
};

infq_status infq_contents_open(const char *cache, infq_contents **out, infq_err *err)
{
    infq_contents *c = NULL;
    cJSON *doc = NULL;
    const cJSON *files;
    infq_err ignored;

    INFQ_TRY(infq_mem_new(1, sizeof(*c), "digests", (void **)&c, err));
    memset(c, 0, sizeof(*c));
    if (cache && infq_path_exists(cache) && !infq_json_load(cache, MAX_CACHE, &doc, &ignored)) { // one that cannot be read is made anew
        const cJSON *schema = infq_json_get(doc, "schema");
        files = infq_json_get(doc, "files");
        if (cJSON_IsString(schema) && strcmp(schema->valuestring, SCHEMA) == 0 && cJSON_IsObject(files))
            c->known = cJSON_DetachItemFromObjectCaseSensitive(doc, "files");
        cJSON_Delete(doc);
    }
    if (!c->known)
        c->known = cJSON_CreateObject();
    c->cache = cache ? infq_mem_strdup(cache) : NULL;
    if (!c->known || (cache && !c->cache)) {
        infq_contents_free(c);
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for digests");
    }
    *out = c;
    return 0;
}

void infq_contents_free(infq_contents *c)
{
    if (!c)
        return;
    cJSON_Delete(c->known);
    infq_mem_free(c->cache);
    infq_mem_free(c);
}

infq_status infq_contents_save(infq_contents *c, infq_err *err)
{
    infq_buf b;
    infq_jw w;
    infq_status st;

    if (!c->cache || !c->changed)
        return 0;
    infq_buf_init(&b);
    w = infq_jw_over(&b, 1);
    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", SCHEMA);
    infq_jw_key(&w, "files");
    infq_jw_tree(&w, c->known);
    infq_jw_end_obj(&w);
    infq_buf_char(&b, '\n');
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_file_write_atomic(c->cache, b.data, b.n, true, err);
    infq_buf_deinit(&b);
    c->changed = c->changed && st;
    return st;
}

/* As infq_sha256_file, but stops when asked to. */
static infq_status hash_file(const char *path, char hex[65], infq_err *err)
{
    infq_filemap map = {NULL, 0};
    infq_sha256 *h = NULL;
    infq_status st;

    INFQ_TRY(infq_filemap_open(path, &map, err));
    st = infq_sha256_new(&h, err);
    for (size_t at = 0; !st && at < map.size; at += STEP) {
        size_t n = map.size - at < STEP ? map.size - at : STEP;
        st = infq_interrupted ? infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted while reading %.160s", path)
                              : infq_sha256_add(h, map.data + at, n, err);
        infq_filemap_drop(&map, at, n);
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    infq_filemap_close(&map);
    return st;
}

static void stamp(const struct stat *sb, char *out, size_t cap)
{
    snprintf(out, cap, "%lld:%lld.%09ld:%lld.%09ld:%lld:", (long long)sb->st_size, (long long)sb->st_mtim.tv_sec, sb->st_mtim.tv_nsec,
             (long long)sb->st_ctim.tv_sec, sb->st_ctim.tv_nsec, (long long)sb->st_ino);
}

static infq_status file_digest(infq_contents *c, const char *path, char hex[65], uint64_t *n_bytes, infq_err *err)
{
    const cJSON *known = cJSON_GetObjectItemCaseSensitive(c->known, path);
    struct stat before, after;
    char mark[160], entry[240];
    cJSON *v;

    if (stat(path, &before))
        return infq_err_set(err, errno == ENOENT ? INFQ_E_NOT_FOUND : INFQ_E_IO, "%.180s: %s", path, strerror(errno));
    if (n_bytes)
        *n_bytes = (uint64_t)before.st_size;
    stamp(&before, mark, sizeof(mark));
    if (cJSON_IsString(known) && strncmp(known->valuestring, mark, strlen(mark)) == 0 && strlen(known->valuestring) == strlen(mark) + 64) {
        memcpy(hex, known->valuestring + strlen(mark), 65);
        return 0;
    }
    INFQ_TRY(hash_file(path, hex, err));
    if (!c->cache || stat(path, &after) || after.st_mtim.tv_sec != before.st_mtim.tv_sec || after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
        return 0; // it changed meanwhile: nothing to remember
    snprintf(entry, sizeof(entry), "%s%s", mark, hex);
    cJSON_DeleteItemFromObjectCaseSensitive(c->known, path);
    v = cJSON_CreateString(entry);
    if (!v || !cJSON_AddItemToObject(c->known, path, v)) {
        cJSON_Delete(v);
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for digests");
    }
    c->changed = true;
    return 0;
}

/* Names in a folder sort differently from paths when one name begins another ("a" and "a.b" against "a/x"), so paths are gathered first. */
typedef struct {
    char **v;
    size_t n, cap;
} paths;

static infq_status add_path(paths *p, char *name, infq_err *err)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        char **grown = infq_mem_realloc(p->v, cap * sizeof(*grown));
        if (!grown) {
            infq_mem_free(name);
            return infq_err_set(err, INFQ_E_NOMEM, "no memory for a list of files");
        }
        p->v = grown;
        p->cap = cap;
    }
    p->v[p->n++] = name;
    return 0;
}

static infq_status gather(const char *root, const char *sub, int depth, paths *to, infq_err *err)
{
    char **names = NULL, *dir = NULL;
    size_t n = 0;
    infq_status st;

    if (depth > MAX_DEPTH)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%.160s: folders nested too deeply", root);
    INFQ_TRY(infq_path_join(root, sub, &dir, err));
    st = infq_dir_list(dir, &names, &n, err);
    for (size_t i = 0; i < n && !st; i++) {
        char *name = NULL, *path = NULL;
        if (!*sub && strcmp(names[i], INFQ_RELEASE_NAME) == 0)
            continue;
        if (*sub) {
            st = infq_path_join(sub, names[i], &name, err);
        } else {
            name = infq_mem_strdup(names[i]);
            st = name ? 0 : infq_err_set(err, INFQ_E_NOMEM, "no memory for a list of files");
        }
        if (!st)
            st = infq_path_join(root, name, &path, err);
        if (!st && infq_path_is_dir(path)) {
            st = gather(root, name, depth + 1, to, err);
            infq_mem_free(name);
        } else if (!st) {
            st = add_path(to, name, err);
        } else {
            infq_mem_free(name);
        }
        infq_mem_free(path);
    }
    infq_dir_list_free(names, n);
    infq_mem_free(dir);
    return st;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

infq_status infq_contents_each(infq_contents *c, const char *path, infq_contents_fn fn, void *ctx, infq_err *err)
{
    paths list = {NULL, 0, 0};
    char hex[65];
    uint64_t bytes;
    infq_status st;

    if (!infq_path_is_dir(path)) {
        INFQ_TRY(file_digest(c, path, hex, &bytes, err));
        return fn(ctx, "", bytes, hex, err);
    }
    st = gather(path, "", 0, &list, err);
    if (list.n > 1)
        qsort(list.v, list.n, sizeof(*list.v), by_bytes);
    for (size_t i = 0; i < list.n && !st; i++) {
        char *full = NULL;
        st = infq_path_join(path, list.v[i], &full, err);
        if (!st)
            st = file_digest(c, full, hex, &bytes, err);
        if (!st)
            st = fn(ctx, list.v[i], bytes, hex, err);
        infq_mem_free(full);
    }
    infq_dir_list_free(list.v, list.n);
    return st;
}

static infq_status add_line(void *ctx, const char *name, uint64_t n_bytes, const char *hex, infq_err *err)
{
    infq_buf line;
    infq_status st;

    (void)n_bytes;
    infq_buf_init(&line);
    infq_buf_fmt(&line, "%s  %s\n", hex, name);
    st = infq_buf_status(&line, err);
    if (!st)
        st = infq_sha256_add(ctx, line.data, line.n, err);
    infq_buf_deinit(&line);
    return st;
}

infq_status infq_contents_digest(infq_contents *c, const char *path, char hex[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st;

    if (!infq_path_is_dir(path))
        return file_digest(c, path, hex, NULL, err);
    INFQ_TRY(infq_sha256_new(&h, err));
    st = infq_contents_each(c, path, add_line, h, err);
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}
