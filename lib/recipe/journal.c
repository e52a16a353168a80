#include "lib/recipe/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"

#define MAX_FILE ((size_t)1 << 28)

struct infq_journal {
    char *path;
    int fd, lock;      /* -1: read only */
    cJSON *lines;      /* array, in order */
};

/* Complete lines only; *end is the offset behind the last one. */
static infq_status read_lines(infq_journal *j, size_t *end, infq_err *err)
{
    infq_buf text;
    infq_status st = 0;
    size_t at = 0;
    int number = 0;

    *end = 0;
    if (!infq_path_exists(j->path))
        return 0;
    infq_buf_init(&text);
    st = infq_file_read(j->path, MAX_FILE, &text, err);
    while (!st && at < text.n) {
        const char *nl = memchr(text.data + at, '\n', text.n - at);
        cJSON *line = NULL;
        char what[64];
        if (!nl)
            break;
        snprintf(what, sizeof(what), "line %d", ++number);
        st = infq_json_parse(text.data + at, (size_t)(nl - text.data) - at, what, &line, err);
        if (!st && (!cJSON_IsObject(line) || !cJSON_IsString(infq_json_get(line, "name")) || !cJSON_IsString(infq_json_get(line, "key"))))
            st = infq_err_set(err, INFQ_E_FORMAT, "%s is no step", what);
        if (st) {
            cJSON_Delete(line);
            infq_err_in(err, "%.160s", j->path);
            break;
        }
        cJSON_AddItemToArray(j->lines, line);
        at = (size_t)(nl - text.data) + 1;
    }
    *end = at;
    infq_buf_deinit(&text);
    return st;
}

static infq_status new_journal(const char *dir, infq_journal **out, infq_err *err)
{
    infq_journal *j = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*j), "journal", (void **)&j, err));
    memset(j, 0, sizeof(*j));
    j->fd = j->lock = -1;
    j->lines = cJSON_CreateArray();
    st = j->lines ? infq_path_join(dir, "journal.jsonl", &j->path, err) : infq_err_set(err, INFQ_E_NOMEM, "no memory for the journal");
    if (st)
        infq_journal_close(j);
    else
        *out = j;
    return st;
}

void infq_journal_close(infq_journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0)
        close(j->fd);
    if (j->lock >= 0)
        close(j->lock);
    cJSON_Delete(j->lines);
    infq_mem_free(j->path);
    infq_mem_free(j);
}

static infq_status take_lock(infq_journal *j, const char *dir, infq_err *err)
{
    char *path = NULL;
    infq_status st = infq_path_join(dir, "lock", &path, err);

    if (st)
        return st;
    // not closed on exec: a step that outlives a killed run keeps the folder locked until it ends
    j->lock = open(path, O_RDWR | O_CREAT, 0666);
    if (j->lock < 0)
        st = infq_err_set(err, INFQ_E_IO, "%.180s: %s", path, strerror(errno));
    else if (flock(j->lock, LOCK_EX | LOCK_NB))
        st = infq_err_set(err, INFQ_E_EXISTS, "%.180s: another run works in this folder", dir);
    infq_mem_free(path);
    return st;
}

infq_status infq_journal_open(const char *dir, infq_journal **out, infq_err *err)
{
    infq_journal *j = NULL;
    size_t end = 0;
    infq_status st;

    if (mkdir(dir, 0777) && errno != EEXIST)
        return infq_err_set(err, INFQ_E_IO, "%.180s: %s", dir, strerror(errno));
    INFQ_TRY(new_journal(dir, &j, err));
    st = take_lock(j, dir, err);
    if (!st)
        st = read_lines(j, &end, err);
    if (!st) {
        j->fd = open(j->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (j->fd < 0 || ftruncate(j->fd, (off_t)end) || lseek(j->fd, (off_t)end, SEEK_SET) < 0)
            st = infq_err_set(err, INFQ_E_IO, "%.180s: %s", j->path, strerror(errno));
    }
    if (st)
        infq_journal_close(j);
    else
        *out = j;
    return st;
}

infq_status infq_journal_read(const char *dir, infq_journal **out, infq_err *err)
{
    infq_journal *j = NULL;
    size_t end;
    infq_status st;

    INFQ_TRY(new_journal(dir, &j, err));
    st = read_lines(j, &end, err);
    if (st)
        infq_journal_close(j);
    else
        *out = j;
    return st;
}

const cJSON *infq_journal_find(const infq_journal *j, const char *name)
{
    const cJSON *line, *last = NULL;

    cJSON_ArrayForEach(line, j->lines)
        if (strcmp(infq_json_get(line, "name")->valuestring, name) == 0)
            last = line;
    return last;
}

infq_status infq_journal_add(infq_journal *j, cJSON *entry, infq_err *err)
{
    infq_buf b;
    infq_jw w;
    infq_status st;

    infq_buf_init(&b);
    w = infq_jw_over(&b, 0);
    infq_jw_tree(&w, entry);
    infq_buf_char(&b, '\n');
    st = infq_buf_status(&b, err);
    for (size_t at = 0; !st && at < b.n;) {
        ssize_t n = write(j->fd, b.data + at, b.n - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            st = infq_err_set(err, INFQ_E_IO, "%.180s: %s", j->path, strerror(errno));
        else
            at += (size_t)n;
    }
    if (!st && fsync(j->fd))
        st = infq_err_set(err, INFQ_E_IO, "%.180s: %s", j->path, strerror(errno));
    infq_buf_deinit(&b);
    if (st || !cJSON_AddItemToArray(j->lines, entry)) {
        cJSON_Delete(entry);
        return st ? st : infq_err_set(err, INFQ_E_NOMEM, "no memory for the journal");
    }
    return 0;
}
