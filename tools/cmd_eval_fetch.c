/* infeval fetch: data files of tasks by their published addresses, checked by hash. The only command that reaches the network for data. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/fetch.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/zip.h"
#include "lib/eval/corpus.h"
#include "tools/cmd_eval.h"

#define NAME "infeval fetch"
#define MAX_BYTES ((size_t)1 << 30)

typedef struct {
    opt_list data;
    bool dry_run, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "data", 0, OPT_LIST, "DIR", "where to put files (the first folder of INFQ_DATA, else ./data); what lies in any data\n"
      "folder already is not fetched", AT(data), 0, 0 },
    { "dry-run", 'n', OPT_FLAG, NULL, "say what would be fetched, with address, hash and licence", AT(dry_run), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] NAME...", "Downloads data of tasks by their published addresses and checks it by SHA-256.",
    "NAME: a task, group or suite, or a manifest of yours. Nothing is kept whose hash differs. Licences are\n"
    "the publishers'; --dry-run names them.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 64,
};

typedef struct {
    const options *o;
    const infq_data_dirs *dirs;
    const char *to;         /* folder */
    infq_log log;
    int n_fetched, n_there;
} fetcher;

/* Makes the folders that lead to path. */
static infq_status make_folders(const char *path, infq_err *err)
{
    char dir[2048];

    if (snprintf(dir, sizeof(dir), "%s", path) >= (int)sizeof(dir))
        return infq_err_set(err, INFQ_E_IO, "%.60s...: the path is too long", path);
    for (char *s = dir + 1; (s = strchr(s, '/')) != NULL; s++) {
        *s = '\0';
        if (mkdir(dir, 0777) && errno != EEXIST)
            return infq_err_set(err, INFQ_E_IO, "%s: %s", dir, strerror(errno));
        *s = '/';
    }
    return 0;
}

/* What lies behind url, a member of a zip archive taken out. */
static infq_status download(const fetcher *f, const char *url, infq_buf *out, infq_err *err)
{
    const char *member = strchr(url, '#');
    char plain[1024];
    infq_buf archive;
    infq_status st;

    if (!member)
        return infq_fetch(url, MAX_BYTES, infq_path_base(url), &f->log, out, err);
    if (snprintf(plain, sizeof(plain), "%.*s", (int)(member - url), url) >= (int)sizeof(plain))
        return infq_err_set(err, INFQ_E_FORMAT, "%.60s...: the address is too long", url);
    infq_buf_init(&archive);
    st = infq_fetch(plain, MAX_BYTES, infq_path_base(plain), &f->log, &archive, err);
    if (!st) {
        st = infq_zip_member((const uint8_t *)archive.data, archive.n, member + 1, MAX_BYTES, out, err);
        if (st)
            infq_err_in(err, "%s", plain);
    }
    infq_buf_deinit(&archive);
    return st;
}

/* The hash is that of the content, so a .gz is unpacked for it and kept packed. */
static infq_status check_hash(const infq_buf *data, const char *sha256, const char *url, infq_err *err)
{
    char hex[65];
    infq_buf content;
    infq_status st;

    infq_buf_init(&content);
    st = infq_corpus_unpack(data->data, data->n, MAX_BYTES, &content, err);
    if (!st)
        st = infq_sha256_of(content.data, content.n, hex, err);
    infq_buf_deinit(&content);
    if (!st && strcmp(hex, sha256) != 0)
        st = infq_err_set(err, INFQ_E_MISMATCH, "%s: sha256 is %.16s..., %.16s... is wanted; nothing was kept", url, hex, sha256);
    return st;
}

static infq_status fetch_file(fetcher *f, const char *path, const char *url, const char *sha256, infq_err *err)
{
    char to[2048];
    infq_buf data;
    bool packed;
    infq_status st;

    infq_buf_init(&data);
    st = download(f, url, &data, err);
    if (!st)
        st = check_hash(&data, sha256, url, err);
    packed = data.n > 2 && (uint8_t)data.data[0] == 0x1f && (uint8_t)data.data[1] == 0x8b;
    if (!st && snprintf(to, sizeof(to), "%s/%s%s", f->to, path, packed ? ".gz" : "") >= (int)sizeof(to))
        st = infq_err_set(err, INFQ_E_IO, "%.60s...: the path is too long", f->to);
    if (!st)
        st = make_folders(to, err);
    if (!st)
        st = infq_file_write_atomic(to, data.data, data.n, false, err);
    if (!st) {
        f->n_fetched++;
        printf("%s\n", to);
    }
    infq_buf_deinit(&data);
    return st;
}

static infq_status fetch_one(fetcher *f, const infq_manifest *m, const char *path, const char *url, const char *sha256, infq_err *err)
{
    if (!f->o->dry_run)
        return fetch_file(f, path, url, sha256, err);
    printf("%s/%s\n  from %s\n  sha256 %s\n  licence %s\n", f->to, path, url, sha256, m->licence ? m->licence : "not said");
    return 0;
}

/* The second file that belongs to rows, unless it is there. */
static infq_status fetch_join(fetcher *f, const infq_manifest *m, const infq_task_file *file, infq_err *err)
{
    infq_task_file join = { .path = file->join_path };
    infq_task_split alone = { "", &join, 1 };
    const infq_task_file *which;
    char *path;
    infq_err ignored;

    if (!file->join_url)
        return 0;
    if (infq_manifest_locate(m, &alone, f->dirs, &path, &which, &ignored) == 0) {
        infq_mem_free(path);
        return 0;
    }
    return fetch_one(f, m, file->join_path, file->join_url, file->join_sha256, err);
}

static infq_status fetch_split(fetcher *f, const infq_manifest *m, const infq_task_split *s, infq_err *err)
{
    const infq_task_file *there, *file = NULL;
    char *path;
    infq_err ignored;

    if (infq_manifest_locate(m, s, f->dirs, &path, &there, &ignored) == 0) {
        f->n_there++;
        infq_mem_free(path);
        return fetch_join(f, m, there, err);
    }
    for (int i = s->n_files - 1; i >= 0; i--)
        if (s->files[i].url)
            file = &s->files[i];
    if (!file) {
        // rows for examples that nobody publishes in a checked form are the user's to bring
        if (strcmp(s->name, m->split) != 0)
            return 0;
        return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: %s has no address to fetch it from; see %s", m->name, s->files[0].path,
                            m->home ? m->home : "its source");
    }
    INFQ_TRY(fetch_one(f, m, file->path, file->url, file->sha256, err));
    return fetch_join(f, m, file, err);
}

static infq_status fetch_task(void *ctx, const infq_manifest *m, infq_err *err)
{
    fetcher *f = ctx;

    for (int i = 0; i < m->n_splits; i++)
        INFQ_TRY(fetch_split(f, m, &m->splits[i], err));
    return 0;
}

static infq_status fetch_all(fetcher *f, infq_catalog *c, char **names, int n, infq_err *err)
{
    for (int i = 0; i < n; i++)
        INFQ_TRY(eval_catalog_each(c, names[i], fetch_task, f, err));
    return 0;
}

int cmd_eval_fetch(int argc, char **argv)
{
    options o = { 0 };
    fetcher f = { .o = &o };
    infq_catalog *c = NULL;
    eval_dirs dirs;
    cmd_sink sink;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    eval_dirs_of(&o.data, &dirs);
    f.dirs = &dirs.dirs;
    f.to = dirs.dirs.v[0];
    f.log = cmd_log(&sink, NAME, o.quiet);
    st = infq_catalog_new(&c, &err);
    if (!st)
        st = fetch_all(&f, c, argv, n_args, &err);
    cmd_log_end(&sink);
    infq_catalog_free(c);
    if (st)
        return cmd_fail(NAME, &err);
    if (!o.quiet && !o.dry_run)
        fprintf(stderr, "%s: %d fetched, %d there already\n", NAME, f.n_fetched, f.n_there);
    return 0;
}
