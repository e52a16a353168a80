/* Reading a receipt and everything it names again. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/recipe/release.h"
#include "lib/recipe/release_int.h"

#define MAX_DOC ((size_t)1 << 28)

typedef struct {
    infq_release_check *out;
    infq_contents *c;
    const char *base;    /* of relative paths, NULL: the current folder */
    cJSON *seen;         /* digest by path of what was looked at */
    infq_err *err;
} checker;

static infq_status keep(checker *x, const char *s, const char **out)
{
    char *copy;

    INFQ_TRY(infq_arena_strdup(x->out->texts, s, &copy, x->err));
    *out = copy;
    return 0;
}

static infq_status add(checker *x, infq_release_state state, const char *what, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static infq_status add(checker *x, infq_release_state state, const char *what, const char *fmt, ...)
{
    infq_release_check *o = x->out;
    infq_release_line *l;
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (o->n == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 64;
        infq_release_line *grown = infq_mem_realloc(o->v, cap * sizeof(*grown));
        if (!grown)
            return infq_err_set(x->err, INFQ_E_NOMEM, "no memory for what was checked");
        o->v = grown;
        o->cap = cap;
    }
    l = &o->v[o->n];
    INFQ_TRY(keep(x, what, &l->what));
    INFQ_TRY(keep(x, text, &l->text));
    l->state = state;
    o->n++;
    o->n_differs += state == INFQ_RELEASE_DIFFERS;
    o->n_absent += state == INFQ_RELEASE_ABSENT;
    return 0;
}

static const char *text_in(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    return cJSON_IsString(v) ? v->valuestring : "";
}

/* base + path unless path is absolute; infq_mem_free. */
static infq_status resolve(const checker *x, const char *base, const char *path, char **out)
{
    if (path[0] == '/' || !base) {
        *out = infq_mem_strdup(path);
        return *out ? 0 : infq_err_set(x->err, INFQ_E_NOMEM, "no memory for a path");
    }
    return infq_path_join(base, path, out, x->err);
}

/* A file or folder against its digest. */
static infq_status check_path(checker *x, const char *path, const char *want)
{
    char *full = NULL, hex[65];
    infq_status st;

    if (strcmp(text_in(x->seen, path), want) == 0)
        return 0; // each once, unless it is said to have had two contents
    if (!cJSON_AddStringToObject(x->seen, path, want))
        return infq_err_set(x->err, INFQ_E_NOMEM, "no memory for what was checked");
    INFQ_TRY(resolve(x, x->base, path, &full));
    if (!infq_path_exists(full)) {
        st = add(x, INFQ_RELEASE_ABSENT, path, "is not here");
    } else {
        st = infq_contents_digest(x->c, full, hex, x->err);
        if (!st && strcmp(hex, want) != 0)
            st = add(x, INFQ_RELEASE_DIFFERS, path, "SHA-256 is %.16s..., the receipt says %.16s...", hex, want);
        else if (!st)
            st = add(x, INFQ_RELEASE_OK, path, "%s", "");
    }
    infq_mem_free(full);
    return st;
}

/* Every other byte of the text counts: the digest's own place is filled with zeros. */
static infq_status check_digest(checker *x, const infq_buf *text, const cJSON *doc)
{
    const char *want = text_in(doc, "digest"), *at = strlen(want) == 64 ? strstr(text->data, want) : NULL;
    char hex[65], *copy;
    infq_status st;

    if (!at || strstr(at + 1, want))
        return add(x, INFQ_RELEASE_DIFFERS, "receipt", "holds no digest of its own text");
    copy = infq_mem_strndup(text->data, text->n);
    if (!copy)
        return infq_err_set(x->err, INFQ_E_NOMEM, "no memory for the receipt");
    memset(copy + (at - text->data), '0', 64);
    st = infq_sha256_of(copy, text->n, hex, x->err);
    infq_mem_free(copy);
    if (st)
        return st;
    if (strcmp(hex, want) != 0)
        return add(x, INFQ_RELEASE_DIFFERS, "receipt", "its text was changed: SHA-256 is %.16s..., it says %.16s...", hex, want);
    return add(x, INFQ_RELEASE_OK, "receipt", "%s", "");
}

typedef struct {
    checker *x;
    const cJSON *files;
    const char *folder;
    size_t n_seen;
} model_check;

static infq_status check_model_file(void *ctx, const char *name, uint64_t n_bytes, const char *hex, infq_err *err)
{
    model_check *m = ctx;
    const cJSON *f;

    (void)err;
    cJSON_ArrayForEach(f, m->files) {
        if (strcmp(text_in(f, "name"), name) != 0)
            continue;
        m->n_seen++;
        if (strcmp(text_in(f, "sha256"), hex) != 0)
            return add(m->x, INFQ_RELEASE_DIFFERS, *name ? name : m->folder, "SHA-256 is %.16s..., the receipt says %.16s... (%llu bytes)", hex,
                       text_in(f, "sha256"), (unsigned long long)n_bytes);
        return add(m->x, INFQ_RELEASE_OK, *name ? name : m->folder, "%s", "");
    }
    return add(m->x, INFQ_RELEASE_DIFFERS, name, "is in the model's folder and not in the receipt");
}

/* Files of the released model: those that lie around the receipt when it is in the model's folder. */
static infq_status check_model(checker *x, const cJSON *doc, const char *folder)
{
    const cJSON *model = infq_json_get(doc, "model"), *f;
    model_check m = {x, infq_json_get(model, "files"), folder, 0};
    char *path = NULL;
    infq_status st;

    if (!model)
        return 0;
    st = folder ? resolve(x, NULL, folder, &path) : resolve(x, x->base, text_in(model, "path"), &path);
    if (st)
        return st;
    m.folder = path;
    if (!infq_path_exists(path)) {
        x->out->required_absent = true;
        st = add(x, INFQ_RELEASE_ABSENT, path, "the model is not here");
    } else {
        st = infq_contents_each(x->c, path, check_model_file, &m, x->err);
        cJSON_ArrayForEach(f, m.files) {
            char *full = NULL;
            if (st || !text_in(f, "name")[0])
                continue;
            st = infq_path_join(path, text_in(f, "name"), &full, x->err);
            if (!st && !infq_path_exists(full)) {
                x->out->required_absent = true;
                st = add(x, INFQ_RELEASE_ABSENT, text_in(f, "name"), "is missing from the model");
            }
            infq_mem_free(full);
        }
    }
    infq_mem_free(path);
    return st;
}

/* Digest that the last step before `limit` recorded for a path it wrote, NULL if none did. */
static const char *made_digest(const cJSON *steps, const cJSON *limit, const char *path)
{
    const cJSON *s, *o;
    const char *found = NULL;

    cJSON_ArrayForEach(s, steps) {
        if (s == limit)
            break;
        cJSON_ArrayForEach(o, infq_json_get(s, "outputs"))
            if (strcmp(text_in(o, "path"), path) == 0)
                found = text_in(o, "sha256");
    }
    return found;
}

/* The chain within the receipt: what a step read is what an earlier one wrote. Then the files themselves, each once. */
static infq_status check_steps(checker *x, const cJSON *doc)
{
    const cJSON *steps = infq_json_get(doc, "steps"), *s, *o;

    cJSON_ArrayForEach(s, steps) {
        cJSON_ArrayForEach(o, infq_json_get(s, "inputs")) {
            const char *path = text_in(o, "path"), *made = made_digest(steps, s, path);
            if (made && strcmp(made, text_in(o, "sha256")) != 0)
                INFQ_TRY(add(x, INFQ_RELEASE_DIFFERS, path, "%.60s read it with another SHA-256 than the step before wrote", text_in(s, "name")));
            else if (!made)
                INFQ_TRY(check_path(x, path, text_in(o, "sha256")));
        }
        cJSON_ArrayForEach(o, infq_json_get(s, "outputs"))
            if (made_digest(steps, NULL, text_in(o, "path")) == text_in(o, "sha256"))
                INFQ_TRY(check_path(x, text_in(o, "path"), text_in(o, "sha256")));
    }
    return 0;
}

/* Results that are told in the receipt are those of the files it names. */
static infq_status check_results(checker *x, const cJSON *doc)
{
    const cJSON *steps = infq_json_get(doc, "steps"), *s, *o, *r;

    cJSON_ArrayForEach(r, infq_json_get(doc, "results")) {
        cJSON_ArrayForEach(s, steps) {
            if (strcmp(text_in(s, "name"), r->string) != 0)
                continue;
            cJSON_ArrayForEach(o, infq_json_get(s, "outputs")) {
                char *full = NULL, name[100];
                cJSON *file = NULL;
                infq_err ignored;
                bool same = true;
                snprintf(name, sizeof(name), "%.80s.json", r->string);
                if (strcmp(infq_path_base(text_in(o, "path")), name) != 0)
                    continue;
                INFQ_TRY(resolve(x, x->base, text_in(o, "path"), &full));
                if (infq_path_exists(full) && !infq_json_load(full, MAX_DOC, &file, &ignored))
                    same = cJSON_Compare(file, r, true);
                cJSON_Delete(file);
                infq_mem_free(full);
                if (!same)
                    INFQ_TRY(add(x, INFQ_RELEASE_DIFFERS, text_in(o, "path"), "says something else than the receipt"));
            }
        }
    }
    return 0;
}

static infq_status check_release(checker *x, const infq_buf *text, const cJSON *doc, const char *folder)
{
    snprintf(x->out->verdict, sizeof(x->out->verdict), "%s", text_in(doc, "verdict"));
    INFQ_TRY(check_digest(x, text, doc));
    INFQ_TRY(check_model(x, doc, folder));
    INFQ_TRY(check_path(x, text_in(doc, "recipe_path"), text_in(doc, "recipe_sha256")));
    INFQ_TRY(check_steps(x, doc));
    return check_results(x, doc);
}

/* infq.json of infq quantize: the source's files. */
static infq_status check_quantize(checker *x, const cJSON *doc)
{
    const cJSON *source = infq_json_get(doc, "source"), *f;
    const char *root = text_in(source, "path");
    char *full = NULL, *path = NULL;
    infq_status st = resolve(x, x->base, root, &full);

    cJSON_ArrayForEach(f, infq_json_get(source, "files")) {
        if (st)
            break;
        if (infq_path_exists(full) && !infq_path_is_dir(full))
            st = check_path(x, full, text_in(f, "sha256")); // a bare file
        else if (!(st = infq_path_join(full, text_in(f, "name"), &path, x->err)))
            st = check_path(x, path, text_in(f, "sha256"));
        infq_mem_free(path);
        path = NULL;
    }
    if (!st && text_in(source, "config_sha256")[0] && !(st = infq_path_join(full, "config.json", &path, x->err)))
        st = check_path(x, path, text_in(source, "config_sha256"));
    infq_mem_free(path);
    infq_mem_free(full);
    return st;
}

/* The receipt that a folder holds; infq_mem_free. *folder: set when it is the release receipt of that folder. */
static infq_status find_receipt(const char *path, char **out, bool *release, infq_err *err)
{
    static const char *const names[] = {INFQ_RELEASE_NAME, "receipt.json", "infq.json"};

    *release = false;
    if (!infq_path_is_dir(path)) {
        *out = infq_mem_strdup(path);
        *release = strcmp(infq_path_base(path), INFQ_RELEASE_NAME) == 0;
        return *out ? 0 : infq_err_set(err, INFQ_E_NOMEM, "no memory for a path");
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        INFQ_TRY(infq_path_join(path, names[i], out, err));
        if (infq_path_exists(*out)) {
            *release = i == 0;
            return 0;
        }
        infq_mem_free(*out);
        *out = NULL;
    }
    return infq_err_set(err, INFQ_E_NOT_FOUND, "%.160s: holds no receipt (%s, %s, %s)", path, names[0], names[1], names[2]);
}

/* Folder of a file's path; infq_mem_free. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? infq_mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : infq_mem_strdup(".");
}

static infq_status verify(checker *x, const char *file, bool release)
{
    infq_buf text;
    cJSON *doc = NULL;
    char *folder = NULL;
    infq_status st;

    infq_buf_init(&text);
    st = infq_file_read(file, MAX_DOC, &text, x->err);
    if (!st)
        st = infq_json_parse(text.data, text.n, file, &doc, x->err);
    if (!st && strcmp(text_in(doc, "schema"), INFQ_RELEASE_SCHEMA) == 0) {
        folder = release ? folder_of(file) : NULL;
        st = release && !folder ? infq_err_set(x->err, INFQ_E_NOMEM, "no memory for a path") : check_release(x, &text, doc, folder);
    } else if (!st && strcmp(text_in(doc, "schema"), "infq.receipt.v1") == 0) {
        st = check_quantize(x, doc);
    } else if (!st) {
        st = infq_err_set(x->err, INFQ_E_FORMAT, "%.160s: is no receipt (schema %.40s)", file, text_in(doc, "schema"));
    }
    infq_mem_free(folder);
    cJSON_Delete(doc);
    infq_buf_deinit(&text);
    return st;
}

infq_status infq_release_verify(const char *path, const char *base, infq_contents *c, infq_release_check *out, infq_err *err)
{
    checker x = {out, c, base, cJSON_CreateObject(), err};
    char *file = NULL;
    bool release = false;
    infq_status st;

    memset(out, 0, sizeof(*out));
    st = infq_arena_new(8192, &out->texts, err);
    if (st) {
        cJSON_Delete(x.seen);
        return st;
    }
    st = x.seen ? find_receipt(path, &file, &release, err) : infq_err_set(err, INFQ_E_NOMEM, "no memory for what was checked");
    if (!st)
        st = verify(&x, file, release);
    infq_mem_free(file);
    cJSON_Delete(x.seen);
    if (st)
        infq_release_check_deinit(out);
    return st;
}

void infq_release_check_deinit(infq_release_check *c)
{
    infq_mem_free(c->v);
    infq_arena_free(c->texts);
    memset(c, 0, sizeof(*c));
}
