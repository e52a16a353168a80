/* Data files of a task: found, checked, read row by row. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/eval/corpus.h"
#include "lib/eval/task_int.h"

/* The file's content, checked against its hash if the manifest has one. */
infq_status infq_source_read(const char *path, const char *sha256, infq_buf *out, infq_err *err)
{
    char hex[65];

    INFQ_TRY(infq_corpus_read(path, TASK_MAX_FILE, out, err));
    if (!sha256)
        return 0;
    INFQ_TRY(infq_sha256_of(out->data, out->n, hex, err));
    if (strcmp(hex, sha256) != 0) {
        return infq_err_set(err, INFQ_E_MISMATCH, "%s: sha256 is %.16s..., the manifest wants %.16s...: other data than the task's; give it as "
                            "NAME=FILE to score it as your own", path, hex, sha256);
    }
    return 0;
}

infq_status infq_manifest_check(const infq_task_file *f, const char *path, infq_err *err)
{
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = infq_source_read(path, f->sha256, &text, err);
    infq_buf_deinit(&text);
    return st;
}

void infq_source_close(row_source *s)
{
    infq_rows_free(s->rows);
    infq_row_prompt_free(&s->prompt);
    infq_fields_free(s->fields);
    infq_buf_deinit(&s->text);
    infq_buf_deinit(&s->join);
    infq_buf_deinit(&s->common);
}

/* The companion of valid.jsonl is valid-labels.lst, so that of mine.jsonl is mine-labels.lst beside it. */
static infq_status open_join(row_source *s, const char *path, bool hashed, infq_err *err)
{
    const char *base = infq_path_base(path), *own, *join;
    size_t stem, n;
    char name[1024];

    if (!s->file->join_path)
        return 0;
    own = infq_path_base(s->file->path);
    join = infq_path_base(s->file->join_path);
    stem = strcspn(own, ".");
    n = (size_t)(base - path);
    if (strncmp(own, join, stem) == 0) {
        join += stem;
        n += strcspn(base, ".");
    }
    if (snprintf(name, sizeof(name), "%.*s%s", (int)n, path, join) >= (int)sizeof(name) || !infq_path_exists(name))
        return 0; // rows that have the field need no companion
    return infq_source_read(name, hashed ? s->file->join_sha256 : NULL, &s->join, err);
}

/* Fields that every row has besides its own: the document's other members as "file", the variant's variables. */
static infq_status common_fields(row_source *s, infq_err *err)
{
    infq_jw w = infq_jw_over(&s->common, 0);
    const cJSON *v;
    cJSON *document = NULL;

    INFQ_TRY(infq_json_parse(infq_rows_document(s->rows), strlen(infq_rows_document(s->rows)), "the document", &document, err));
    infq_jw_obj(&w);
    infq_jw_key(&w, "file");
    infq_jw_tree(&w, document);
    cJSON_Delete(document);
    cJSON_ArrayForEach(v, s->m->vars) {
        if (!v->string)
            continue;
        infq_jw_key(&w, v->string);
        infq_jw_tree(&w, v);
    }
    infq_jw_end_obj(&w);
    return infq_buf_status(&s->common, err);
}

infq_status infq_source_open(row_source *s, const infq_manifest *m, const infq_task_file *f, const char *path, bool hashed,
                             const infq_task_options *o, infq_err *err)
{
    infq_task_prompt p;
    infq_status st;

    memset(s, 0, sizeof(*s));
    s->m = m;
    s->file = f;
    snprintf(s->path, sizeof(s->path), "%s", path);
    infq_buf_init(&s->text);
    infq_buf_init(&s->join);
    infq_buf_init(&s->common);
    st = infq_source_read(path, hashed ? f->sha256 : NULL, &s->text, err);
    if (!st)
        st = open_join(s, path, hashed, err);
    if (!st)
        st = infq_manifest_prompt(m, f, &p, err);
    if (!st)
        st = infq_row_prompt_open(&p, m->kind, &s->prompt, err);
    if (!st)
        st = infq_fields_new(&s->fields, err);
    if (!st) {
        st = infq_rows_open(s->text.data, s->text.n, &f->rows, &s->rows, err);
        if (!st)
            st = common_fields(s, err);
        if (st)
            infq_err_in(err, "%s", path);
    }
    s->prompt.rotate = o->rotate;
    s->prompt.format = o->format;
    if (st)
        infq_source_close(s);
    return st;
}

/* The next line of the companion file as a field. */
static infq_status join_field(row_source *s, infq_err *err)
{
    const char *at = s->join.data + s->join_at, *end;
    cJSON *v;
    char *line;
    size_t n;
    infq_status st;

    if (!s->file->join_path || s->join.n == 0)
        return 0;
    if (s->join_at >= s->join.n)
        return infq_err_set(err, INFQ_E_FORMAT, "%s has no line for this row", s->file->join_path);
    end = memchr(at, '\n', s->join.n - s->join_at);
    n = end ? (size_t)(end - at) : s->join.n - s->join_at;
    s->join_at += n + 1;
    line = infq_mem_strndup(at, infq_rstrip(at, n));
    v = line ? cJSON_CreateString(line) : NULL;
    infq_mem_free(line);
    if (!v)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for a row");
    st = infq_fields_set(s->fields, s->file->join_field, v, err);
    cJSON_Delete(v);
    return st;
}

/* Renders the next row into the arena; *end behind the last. *json is the row, borrowed. */
infq_status infq_source_next(row_source *s, infq_arena *a, row_text *row, const char **json, char where[32], bool *end, infq_err *err)
{
    const char *text = NULL;
    char *copy;
    size_t n;
    infq_status st;

    *json = NULL;
    do {
        st = infq_rows_next(s->rows, &text, &n, where, err);
        *end = !st && (!text || (s->file->to > 0 && s->row >= s->file->to));
        if (*end)
            return 0;
        infq_fields_clear(s->fields);
        if (!st)
            st = infq_fields_add(s->fields, s->common.data, s->common.n, err);
        if (!st)
            st = infq_fields_add(s->fields, text, n, err);
        if (!st)
            st = join_field(s, err);
    } while (!st && s->row++ < s->file->from);
    if (!st)
        st = infq_row_render(&s->prompt, s->fields, a, row, err);
    if (!st && s->prompt.kind == INFQ_TASK_GENERATE) {
        st = infq_arena_alloc(a, n + 1, 1, "row", (void **)&copy, err);
        if (!st) {
            memcpy(copy, text, n);
            copy[n] = '\0';
            *json = copy;
        }
    }
    return st ? infq_err_in(err, "%s: %s", s->path, where) : 0;
}

infq_status infq_with_split(const infq_manifest *m, const char *split, const infq_data_dirs *dirs, infq_with_file_fn fn, void *ctx,
                            infq_err *err)
{
    const infq_task_file *f;
    char *path;
    infq_status st;

    INFQ_TRY(infq_manifest_locate(m, infq_manifest_split(m, split), dirs, &path, &f, err));
    st = fn(ctx, f, path, err);
    infq_mem_free(path);
    return st;
}
