#include "lib/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static atomic_size_t fail_at, die_at;

void infq_file_fail_at(size_t n)
{
    atomic_store(&fail_at, n);
}

void infq_file_die_at(size_t n)
{
    atomic_store(&die_at, n);
}

// True when the test hook says that this write, fsync or rename fails; sets errno as a full disk does.
static bool planned_failure(void)
{
    size_t n = atomic_load(&die_at);

    if (n > 0 && atomic_fetch_sub(&die_at, 1) == 1)
        raise(SIGKILL);
    n = atomic_load(&fail_at);
    if (n == 0)
        return false;
    atomic_store(&fail_at, n - 1);
    if (n == 1)
        errno = ENOSPC;
    return n == 1;
}

static infq_status open_error(const char *path, infq_err *err)
{
    return infq_err_set(err, errno == ENOENT || errno == ENOTDIR ? INFQ_E_NOT_FOUND : INFQ_E_IO, "%s: %s", path,
                        strerror(errno));
}

infq_status infq_filemap_open(const char *path, infq_filemap *out, infq_err *err)
{
    struct stat sb;
    void *p;
    // Without O_NONBLOCK, opening a pipe that nobody writes to waits for ever; regular files do not care.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return open_error(path, err);
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode)) {
        close(fd);
        return infq_err_set(err, INFQ_E_FORMAT, "%s: not a regular file", path);
    }
    out->data = (const uint8_t *)"";
    out->size = (size_t)sb.st_size;
    if (sb.st_size > 0) {
        p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            infq_status st = infq_err_set(err, INFQ_E_NOMEM, "%s: cannot map %lld bytes: %s", path,
                                          (long long)sb.st_size, strerror(errno));
            close(fd);
            return st;
        }
        out->data = p;
    }
    close(fd);
    return INFQ_E_OK;
}

void infq_filemap_close(infq_filemap *m)
{
    if (m->size)
        munmap((void *)m->data, m->size);
    m->data = NULL;
    m->size = 0;
}

// Whole pages inside [offset, offset + n_bytes); outer: pages touched by the range.
static void advise(const infq_filemap *m, size_t offset, size_t n_bytes, int advice, bool outer)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin, end;

    if (!m->size || offset >= m->size)
        return;
    if (n_bytes > m->size - offset)
        n_bytes = m->size - offset;
    begin = outer ? offset / page * page : (offset + page - 1) / page * page;
    end = offset + n_bytes;
    if (!outer && end < m->size)
        end = end / page * page;
    if (begin < end)
        madvise((void *)(m->data + begin), end - begin, advice);
}

void infq_filemap_drop(const infq_filemap *m, size_t offset, size_t n_bytes)
{
    advise(m, offset, n_bytes, MADV_DONTNEED, false);
}

void infq_filemap_ahead(const infq_filemap *m, size_t offset, size_t n_bytes)
{
    advise(m, offset, n_bytes, MADV_WILLNEED, true);
}

bool infq_path_exists(const char *path)
{
    struct stat sb;

    return lstat(path, &sb) == 0;
}

bool infq_path_is_dir(const char *path)
{
    struct stat sb;

    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

bool infq_path_is_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

infq_status infq_path_is_inside(const char *path, const char *dir, bool *yes, infq_err *err)
{
    char *a = realpath(path, NULL), *b = realpath(dir, NULL);
    size_t n = b ? strlen(b) : 0;
    infq_status st = 0;

    if (!a || !b)
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", a ? dir : path, strerror(errno));
    else
        *yes = strncmp(a, b, n) == 0 && (a[n] == '/' || (n > 0 && b[n - 1] == '/'));
    free(a); // what realpath made
    free(b);
    return st;
}

infq_status infq_path_join(const char *dir, const char *name, char **out, infq_err *err)
{
    size_t n = strlen(dir), m = strlen(name), total;
    char *p;

    while (n > 1 && dir[n - 1] == '/')
        n--;
    if (!infq_add_size(n, m + 2, &total) || !(p = infq_mem_alloc(total)))
        return infq_err_set(err, INFQ_E_NOMEM, "path %s/%s", dir, name);
    memcpy(p, dir, n);
    p[n] = '/';
    memcpy(p + n + 1, name, m + 1);
    *out = p;
    return INFQ_E_OK;
}

const char *infq_path_base(const char *path)
{
    const char *base = path;

    for (const char *p = path; *p; p++)
        if (*p == '/' && p[1] && p[1] != '/')
            base = p + 1;
    return base;
}

infq_status infq_file_read(const char *path, size_t max_bytes, infq_buf *out, infq_err *err)
{
    infq_filemap m;
    infq_status st;

    INFQ_TRY(infq_filemap_open(path, &m, err));
    if (m.size > max_bytes)
        st = infq_err_set(err, INFQ_E_FORMAT, "%s: %zu bytes, at most %zu are read", path, m.size, max_bytes);
    else {
        infq_buf_add(out, m.data, m.size);
        st = infq_buf_status(out, err);
        if (st)
            infq_err_in(err, "%s", path);
    }
    infq_filemap_close(&m);
    return st;
}

infq_status infq_disk_free(const char *path, uint64_t *n_bytes, infq_err *err)
{
    struct statvfs v;
    char *p = infq_mem_strdup(path), *slash;
    infq_status st = INFQ_E_OK;

    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "%s", path);
    // The path itself need not exist yet: ask its nearest existing folder.
    while (statvfs(p, &v)) {
        slash = strrchr(p, '/');
        if (!slash || slash == p) {
            if (statvfs(slash ? "/" : ".", &v))
                st = infq_err_set(err, INFQ_E_IO, "%s: %s", path, strerror(errno));
            break;
        }
        *slash = '\0';
    }
    infq_mem_free(p);
    if (!st)
        *n_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

infq_status infq_dir_list(const char *path, char ***names, size_t *n, infq_err *err)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char **list = NULL;
    size_t count = 0, cap = 0;

    if (!d)
        return open_error(path, err);
    while ((e = readdir(d))) {
        char *copy;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (count == cap) {
            size_t more = cap ? 2 * cap : 32;
            char **grown = infq_mem_realloc(list, more * sizeof(*list));
            if (!grown)
                goto nomem;
            list = grown;
            cap = more;
        }
        copy = infq_mem_strdup(e->d_name);
        if (!copy)
            goto nomem;
        list[count++] = copy;
    }
    closedir(d);
    if (count)
        qsort(list, count, sizeof(*list), by_name);
    *names = list;
    *n = count;
    return INFQ_E_OK;
nomem:
    closedir(d);
    infq_dir_list_free(list, count);
    return infq_err_set(err, INFQ_E_NOMEM, "%s: list of files", path);
}

void infq_dir_list_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        infq_mem_free(names[i]);
    infq_mem_free(names);
}

infq_status infq_dir_remove(const char *path, infq_err *err)
{
    struct stat sb;
    char **names = NULL;
    size_t n = 0;
    infq_status st = INFQ_E_OK;

    if (lstat(path, &sb))
        return errno == ENOENT ? INFQ_E_OK : infq_err_set(err, INFQ_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(sb.st_mode))
        return infq_err_set(err, INFQ_E_IO, "%s: not a folder", path);
    INFQ_TRY(infq_dir_list(path, &names, &n, err));
    for (size_t i = 0; !st && i < n; i++) {
        char *child = NULL;
        st = infq_path_join(path, names[i], &child, err);
        if (st)
            break;
        if (lstat(child, &sb) == 0 && S_ISDIR(sb.st_mode))
            st = infq_dir_remove(child, err);
        else if (unlink(child) && errno != ENOENT)
            st = infq_err_set(err, INFQ_E_IO, "%s: %s", child, strerror(errno));
        infq_mem_free(child);
    }
    infq_dir_list_free(names, n);
    if (!st && rmdir(path) && errno != ENOENT)
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", path, strerror(errno));
    return st;
}

struct infq_outfile {
    char *path;
    int fd;
    uint64_t pos;
    uint64_t unsent;         // bytes written since the last write_behind
};

static infq_status out_error(const char *path, uint64_t at, const char *what, infq_err *err)
{
    if (errno == EFAULT) // the bytes come from a map
        return infq_err_set(err, INFQ_E_IO, "%s: stopped at byte %llu: the file that is read became shorter", path,
                            (unsigned long long)at);
    return infq_err_set(err, INFQ_E_IO, "%s: %s failed at byte %llu: %s", path, what, (unsigned long long)at,
                        strerror(errno));
}

infq_status infq_outfile_create(const char *path, infq_outfile **out, infq_err *err)
{
    infq_outfile *f;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*f), path, &p, err));
    f = p;
    f->path = infq_mem_strdup(path);
    f->fd = f->path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (f->fd < 0) {
        infq_status st;
        if (!f->path)
            st = infq_err_set(err, INFQ_E_NOMEM, "%s", path);
        else
            st = infq_err_set(err, errno == EEXIST ? INFQ_E_EXISTS : INFQ_E_IO, "%s: %s", path, strerror(errno));
        infq_mem_free(f->path);
        infq_mem_free(f);
        return st;
    }
    *out = f;
    return INFQ_E_OK;
}

// Starts writing to the disk while the caller goes on, so that the fsync at the end has little left to wait for.
#define WRITE_BEHIND_BYTES ((uint64_t)32 << 20)
static void write_behind(infq_outfile *f)
{
    if (f->unsent < WRITE_BEHIND_BYTES)
        return;
    f->unsent = 0;
    // A file system that cannot do it loses time, nothing else: fsync decides.
    (void)!sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

infq_status infq_outfile_write_at(infq_outfile *f, uint64_t offset, const void *p, size_t n, infq_err *err)
{
    const char *src = p;

    while (n) {
        ssize_t w = planned_failure() ? -1 : pwrite(f->fd, src, n > (1u << 30) ? 1u << 30 : n, (off_t)offset);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return out_error(f->path, offset, "write", err);
        src += w;
        offset += (uint64_t)w;
        n -= (size_t)w;
        f->unsent += (uint64_t)w;
    }
    write_behind(f);
    return INFQ_E_OK;
}

infq_status infq_outfile_write(infq_outfile *f, const void *p, size_t n, infq_err *err)
{
    INFQ_TRY(infq_outfile_write_at(f, f->pos, p, n, err));
    f->pos += n;
    return INFQ_E_OK;
}

infq_status infq_outfile_sync(infq_outfile *f, infq_err *err)
{
    return planned_failure() || fsync(f->fd) ? out_error(f->path, f->pos, "fsync", err) : INFQ_E_OK;
}

infq_status infq_outfile_finish(infq_outfile *f, infq_err *err)
{
    infq_status st = infq_outfile_sync(f, err);

    if (!st) {
        if (close(f->fd))
            st = out_error(f->path, f->pos, "close", err);
        f->fd = -1;
    }
    if (st) {
        infq_outfile_free(f);
        return st;
    }
    infq_mem_free(f->path);
    infq_mem_free(f);
    return INFQ_E_OK;
}

void infq_outfile_free(infq_outfile *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    unlink(f->path);
    infq_mem_free(f->path);
    infq_mem_free(f);
}

infq_status infq_dir_sync(const char *dir, infq_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    infq_status st = INFQ_E_OK;

    if (fd < 0)
        return open_error(dir, err);
    // Some file systems cannot fsync a folder (EINVAL); the rename is as durable as they make it.
    if (planned_failure() || (fsync(fd) && errno != EINVAL))
        st = infq_err_set(err, INFQ_E_IO, "%s: fsync failed: %s", dir, strerror(errno));
    close(fd);
    return st;
}

infq_status infq_file_rename(const char *from, const char *to, bool replace, infq_err *err)
{
    int rc = -1;

    if (!planned_failure()) {
        rc = replace ? rename(from, to) : renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
        // Not every file system knows the flag.
        if (rc && !replace && (errno == EINVAL || errno == ENOSYS)) {
            errno = EEXIST;
            rc = infq_path_exists(to) ? -1 : rename(from, to);
        }
    }
    if (!rc)
        return INFQ_E_OK;
    if (errno == EEXIST && !replace)
        return infq_err_set(err, INFQ_E_EXISTS, "%s exists", to);
    return infq_err_set(err, INFQ_E_IO, "%s: rename failed: %s", to, strerror(errno));
}

infq_status infq_file_write_atomic(const char *path, const void *p, size_t n, bool replace, infq_err *err)
{
    infq_outfile *f = NULL;
    infq_buf tmp;
    infq_status st;

    if (!replace && infq_path_exists(path))
        return infq_err_set(err, INFQ_E_EXISTS, "%s exists", path);
    infq_buf_init(&tmp);
    infq_buf_fmt(&tmp, "%s.partial", path);
    st = infq_buf_status(&tmp, err);
    if (!st && unlink(tmp.data) && errno != ENOENT)
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", tmp.data, strerror(errno));
    if (!st)
        st = infq_outfile_create(tmp.data, &f, err);
    if (!st) {
        st = infq_outfile_write(f, p, n, err);
        if (st)
            infq_outfile_free(f);
        else
            st = infq_outfile_finish(f, err);
    }
    if (!st && (planned_failure() || rename(tmp.data, path))) {
        st = infq_err_set(err, INFQ_E_IO, "%s: rename failed: %s", path, strerror(errno));
        unlink(tmp.data);
    }
    infq_buf_deinit(&tmp);
    return st;
}

infq_status infq_file_copy(const char *from, const char *to, infq_err *err)
{
    const size_t step = (size_t)8 << 20;
    infq_outfile *f = NULL;
    infq_filemap m;
    infq_status st;

    INFQ_TRY(infq_filemap_open(from, &m, err));
    st = infq_outfile_create(to, &f, err);
    for (size_t at = 0; !st && at < m.size; at += step) {
        size_t n = m.size - at < step ? m.size - at : step;
        st = infq_outfile_write(f, m.data + at, n, err);
        infq_filemap_drop(&m, at, n);
    }
    if (f) {
        if (st)
            infq_outfile_free(f);
        else
            st = infq_outfile_finish(f, err);
    }
    infq_filemap_close(&m);
    return st;
}
