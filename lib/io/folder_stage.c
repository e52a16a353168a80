#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/str.h"
#include "lib/io/folder_int.h"

#define JOURNAL_HEAD "infq journal 1\n"
#define LEDGER_PREFIX "infq.ledger-"

static infq_status io_error(const char *path, const char *what, infq_err *err)
{
    return infq_err_set(err, errno == ENOENT ? INFQ_E_NOT_FOUND : INFQ_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

static infq_status make_paths(infq_stage *g, const char *path, infq_err *err)
{
    size_t n = strlen(path);
    infq_buf b;

    while (n > 1 && path[n - 1] == '/')
        n--;
    if (!n || strcmp(path, ".") == 0 || strcmp(path, "..") == 0 || (n == 1 && *path == '/'))
        return infq_err_set(err, INFQ_E_USAGE, "'%s' cannot be an output", path);
    g->out = infq_mem_strndup(path, n);
    if (!g->out)
        return infq_err_set(err, INFQ_E_NOMEM, "%s", path);
    infq_buf_init(&b);
    infq_buf_fmt(&b, "%s.partial", g->out);
    g->partial = infq_buf_take(&b);
    if (!g->partial)
        return infq_err_set(err, INFQ_E_NOMEM, "%s", path);
    INFQ_TRY(infq_path_join(g->partial, ".lock", &g->lock, err));
    INFQ_TRY(infq_path_join(g->partial, ".journal", &g->journal, err));
    INFQ_TRY(infq_path_join(g->partial, ".old", &g->old, err));
    return infq_path_join(g->partial, "model", &g->model, err);
}

static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

// The model that is read is never replaced: not itself, not a folder around it, not one of its files.
static infq_status check_source(const infq_stage *g, infq_err *err)
{
    char *out = g->source ? realpath(g->out, NULL) : NULL, *source = g->source ? realpath(g->source, NULL) : NULL;
    infq_status st = INFQ_E_OK;

    if (out && source && (strcmp(out, source) == 0 || is_below(source, out) || (g->bare && is_below(out, source))))
        st = infq_err_set(err, INFQ_E_USAGE, "%s is %s: it is not replaced, name another output", g->out,
                          strcmp(out, source) == 0 ? "the model that is read"
                          : is_below(source, out)  ? "a folder around the model that is read"
                                                   : "a file of the model that is read");
    free(out); // realpath's own blocks
    free(source);
    return st;
}

// A folder that --force may replace: empty, or with weights or our receipt in it and no folder, since no output of ours holds one.
static infq_status check_folder(const infq_stage *g, infq_err *err)
{
    char **names = NULL;
    size_t n = 0;
    bool model;
    const char *folder = NULL;
    infq_status st = infq_dir_list(g->out, &names, &n, err);

    if (st)
        return st;
    model = n == 0;
    for (size_t i = 0; !st && i < n; i++) {
        char *path = NULL;
        model |= infq_str_ends(names[i], ".safetensors") || strcmp(names[i], "infq.json") == 0;
        st = infq_path_join(g->out, names[i], &path, err);
        if (!st && infq_path_is_dir(path))
            folder = names[i];
        infq_mem_free(path);
    }
    if (!st && !model)
        st = infq_err_set(err, INFQ_E_EXISTS, "%s holds files but no model, and is not replaced", g->out);
    else if (!st && folder)
        st = infq_err_set(err, INFQ_E_EXISTS, "%s holds a folder (%s), and is not replaced", g->out, folder);
    infq_dir_list_free(names, n);
    return st;
}

// What --force may replace: a file by a file, a model folder (or an empty one) by a folder.
static infq_status check_replaceable(const infq_stage *g, infq_err *err)
{
    struct stat sb;

    if (lstat(g->out, &sb))
        return INFQ_E_OK;
    if (!g->force)
        return infq_err_set(err, INFQ_E_EXISTS, "%s exists, --force replaces it", g->out);
    INFQ_TRY(check_source(g, err));
    if (g->bare)
        return S_ISREG(sb.st_mode) ? INFQ_E_OK
                                   : infq_err_set(err, INFQ_E_EXISTS, "%s is not a file, and is not replaced", g->out);
    if (!S_ISDIR(sb.st_mode))
        return infq_err_set(err, INFQ_E_EXISTS, "%s is not a folder, and is not replaced", g->out);
    return check_folder(g, err);
}

// An OUT.partial that somebody else made is left alone.
static infq_status check_ours(const infq_stage *g, infq_err *err)
{
    char **names = NULL;
    size_t n = 0;
    struct stat sb;

    if (lstat(g->partial, &sb) == 0 && !S_ISDIR(sb.st_mode))
        return infq_err_set(err, INFQ_E_EXISTS, "%s is in the way: not a folder", g->partial);
    if (infq_path_exists(g->lock) || infq_dir_list(g->partial, &names, &n, err))
        return INFQ_E_OK; // ours, or just gone: then it is made anew
    infq_dir_list_free(names, n);
    // The lock may have been made between the two looks.
    return n == 0 || infq_path_exists(g->lock)
               ? INFQ_E_OK
               : infq_err_set(err, INFQ_E_EXISTS, "%s is in the way: not made by infq", g->partial);
}

// The file that we locked may have been removed meanwhile by the process that held it: then try again.
static infq_status take_lock(infq_stage *g, infq_err *err)
{
    for (int tries = 0; tries < 100; tries++) {
        struct stat held, there;
        int fd;
        if (mkdir(g->partial, 0777) == 0)
            ;
        else if (errno != EEXIST)
            return io_error(g->partial, "cannot make the folder", err);
        else
            INFQ_TRY(check_ours(g, err));
        fd = open(g->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0) {
            infq_status st = io_error(g->lock, "cannot open", err);
            rmdir(g->partial); // only if it is empty
            return st;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
            close(fd);
            return infq_err_set(err, INFQ_E_EXISTS, "%s is being written by another process", g->out);
        }
        // Other failures of flock: a file system without locks; two runs at once are then not noticed.
        if (fstat(fd, &held) == 0 && stat(g->lock, &there) == 0 && held.st_ino == there.st_ino &&
            held.st_dev == there.st_dev) {
            g->lock_fd = fd;
            return INFQ_E_OK;
        }
        close(fd);
    }
    return infq_err_set(err, INFQ_E_EXISTS, "%s is being written by other processes", g->out);
}

static infq_status add_done(infq_stage *g, const char *name, size_t n, infq_err *err)
{
    if (g->n_done == g->cap_done) {
        size_t more = g->cap_done ? 2 * g->cap_done : 16;
        char **grown = infq_mem_realloc(g->done, more * sizeof(*grown));
        if (!grown)
            return infq_err_set(err, INFQ_E_NOMEM, "journal");
        g->done = grown;
        g->cap_done = more;
    }
    g->done[g->n_done] = infq_mem_strndup(name, n);
    if (!g->done[g->n_done])
        return infq_err_set(err, INFQ_E_NOMEM, "journal");
    g->n_done++;
    return INFQ_E_OK;
}

// Finished shards of an earlier run with our fingerprint; anything unreadable counts as none.
static infq_status read_journal(infq_stage *g, infq_err *err)
{
    char head[sizeof(JOURNAL_HEAD) + sizeof("fingerprint \n") + 64];
    infq_status st = INFQ_E_OK;
    infq_err ignored;
    infq_buf b;

    infq_buf_init(&b);
    snprintf(head, sizeof(head), JOURNAL_HEAD "fingerprint %s\n", g->fingerprint);
    if (*g->fingerprint && !infq_file_read(g->journal, (size_t)64 << 20, &b, &ignored) && infq_str_starts(b.data, head))
        for (const char *at = b.data + strlen(head), *end; !st && (end = strchr(at, '\n')); at = end + 1)
            if (infq_str_starts(at, "done "))
                st = add_done(g, at + 5, (size_t)(end - at) - 5, err);
    infq_buf_deinit(&b);
    return st;
}

static infq_status write_journal(const infq_stage *g, infq_err *err)
{
    infq_status st;
    infq_buf b;

    infq_buf_init(&b);
    infq_buf_fmt(&b, JOURNAL_HEAD "fingerprint %s\n", g->fingerprint);
    for (size_t i = 0; i < g->n_done; i++)
        infq_buf_fmt(&b, "done %s\n", g->done[i]);
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_file_write_atomic(g->journal, b.data, b.n, true, err);
    infq_buf_deinit(&b);
    return st;
}

// Starting: removes what is in model/ but the finished shards and the ledgers. Publishing: removes the ledgers.
static infq_status sweep(const infq_stage *g, bool publishing, infq_err *err)
{
    char **names = NULL;
    size_t n = 0;
    infq_status st = INFQ_E_OK;

    INFQ_TRY(infq_dir_list(g->model, &names, &n, err));
    for (size_t i = 0; !st && i < n; i++) {
        char *path = NULL;
        bool ledger = infq_str_starts(names[i], LEDGER_PREFIX);
        if (publishing ? !ledger : ledger || infq_stage_is_done(g, names[i]))
            continue;
        st = infq_path_join(g->model, names[i], &path, err);
        if (!st && unlink(path) && errno != ENOENT)
            st = io_error(path, "cannot remove", err);
        infq_mem_free(path);
    }
    infq_dir_list_free(names, n);
    return st;
}

// A replacement cut short between its two renames is undone; between rename and removal it is finished.
static infq_status settle_old(infq_stage *g, infq_err *err)
{
    if (!infq_path_exists(g->old))
        return INFQ_E_OK;
    if (infq_path_exists(g->out))
        return infq_dir_remove(g->old, err);
    return infq_file_rename(g->old, g->out, false, err);
}

static infq_status prepare(infq_stage *g, infq_err *err)
{
    INFQ_TRY(settle_old(g, err));
    INFQ_TRY(check_replaceable(g, err));
    INFQ_TRY(read_journal(g, err));
    if (!g->n_done)
        INFQ_TRY(infq_dir_remove(g->model, err));
    if (mkdir(g->model, 0777) && errno != EEXIST)
        return io_error(g->model, "cannot make the folder", err);
    INFQ_TRY(sweep(g, false, err));
    return write_journal(g, err);
}

infq_status infq_stage_init(infq_stage *g, const infq_folder_options *o, infq_err *err)
{
    infq_status st;

    memset(g, 0, sizeof(*g));
    g->lock_fd = -1;
    g->bare = o->bare;
    g->force = o->force;
    memcpy(g->fingerprint, o->fingerprint, sizeof(g->fingerprint));
    g->fingerprint[64] = '\0';
    INFQ_TRY(make_paths(g, o->path, err));
    if (o->source && !(g->source = infq_mem_strdup(o->source)))
        return infq_err_set(err, INFQ_E_NOMEM, "%s", o->source);
    INFQ_TRY(check_replaceable(g, err));
    INFQ_TRY(take_lock(g, err));
    st = prepare(g, err);
    if (st && !g->n_done)
        infq_stage_remove(g);
    return st;
}

bool infq_stage_is_done(const infq_stage *g, const char *shard)
{
    for (size_t i = 0; i < g->n_done; i++)
        if (strcmp(g->done[i], shard) == 0)
            return true;
    return false;
}

infq_status infq_stage_mark_done(infq_stage *g, const char *shard, infq_err *err)
{
    INFQ_TRY(infq_dir_sync(g->model, err));
    INFQ_TRY(add_done(g, shard, strlen(shard), err));
    return write_journal(g, err);
}

infq_status infq_stage_forget(infq_stage *g, size_t i, infq_err *err)
{
    char *path = NULL;
    infq_status st = INFQ_E_OK;

    INFQ_TRY(infq_path_join(g->model, g->done[i], &path, err));
    if (unlink(path) && errno != ENOENT)
        st = io_error(path, "cannot remove", err);
    infq_mem_free(path);
    infq_mem_free(g->done[i]);
    g->done[i] = g->done[--g->n_done];
    return st;
}

static infq_status sync_parent(const infq_stage *g, infq_err *err)
{
    const char *slash = strrchr(g->out, '/');
    char *dir;
    infq_status st;

    dir = slash ? infq_mem_strndup(g->out, slash == g->out ? 1 : (size_t)(slash - g->out)) : infq_mem_strdup(".");
    if (!dir)
        return infq_err_set(err, INFQ_E_NOMEM, "%s", g->out);
    st = infq_dir_sync(dir, err);
    infq_mem_free(dir);
    return st;
}

static infq_status publish_bare(infq_stage *g, infq_err *err)
{
    char *file = NULL;
    infq_status st;

    INFQ_TRY(infq_path_join(g->model, infq_path_base(g->out), &file, err));
    st = infq_file_rename(file, g->out, g->force, err);
    infq_mem_free(file);
    return st;
}

static infq_status publish_folder(infq_stage *g, infq_err *err)
{
    infq_status st;
    infq_err ignored;

    if (!infq_path_exists(g->out))
        return infq_file_rename(g->model, g->out, false, err);
    INFQ_TRY(check_replaceable(g, err));
    INFQ_TRY(infq_file_rename(g->out, g->old, false, err));
    st = infq_file_rename(g->model, g->out, false, err);
    if (st)
        infq_file_rename(g->old, g->out, false, &ignored); // if this fails too, the next run does it
    return st;
}

infq_status infq_stage_publish(infq_stage *g, infq_err *err)
{
    INFQ_TRY(sweep(g, true, err));
    INFQ_TRY(infq_dir_sync(g->model, err));
    INFQ_TRY(g->bare ? publish_bare(g, err) : publish_folder(g, err));
    return sync_parent(g, err);
}

void infq_stage_remove(infq_stage *g)
{
    infq_err ignored;
    infq_buf tmp;
    bool left = infq_dir_remove(g->model, &ignored);

    // With OUT gone, .old is the only copy of what was there.
    if (infq_path_exists(g->out))
        infq_dir_remove(g->old, &ignored);
    infq_buf_init(&tmp);
    infq_buf_fmt(&tmp, "%s.partial", g->journal); // left by a kill while the journal was written
    if (!tmp.failed)
        unlink(tmp.data);
    infq_buf_deinit(&tmp);
    left |= unlink(g->journal) && errno != ENOENT;
    if (left || infq_path_exists(g->old))
        return; // the lock marks the folder as ours, so that the next run may settle it
    unlink(g->lock);
    rmdir(g->partial);
}

void infq_stage_deinit(infq_stage *g)
{
    for (size_t i = 0; i < g->n_done; i++)
        infq_mem_free(g->done[i]);
    infq_mem_free(g->done);
    if (g->lock_fd >= 0)
        close(g->lock_fd);
    infq_mem_free(g->source);
    infq_mem_free(g->out);
    infq_mem_free(g->partial);
    infq_mem_free(g->lock);
    infq_mem_free(g->journal);
    infq_mem_free(g->old);
    infq_mem_free(g->model);
    memset(g, 0, sizeof(*g));
    g->lock_fd = -1;
}
