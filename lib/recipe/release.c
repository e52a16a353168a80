/* Writing the receipt of a run. */
#include "lib/recipe/release.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/recipe/journal.h"
#include "lib/recipe/release_int.h"

#define MAX_DOC ((size_t)1 << 28)

// Results that are small and that a reader wants at hand; the others are named by their digest.
static const char *const embedded[] = {"verify", "gate", "bench"};

static infq_status load_in(const char *dir, const char *name, cJSON **out, infq_err *err)
{
    char *path = NULL;
    infq_status st = infq_path_join(dir, name, &path, err);

    if (!st)
        st = infq_json_load(path, MAX_DOC, out, err);
    infq_mem_free(path);
    return st;
}

static infq_status put_file(void *ctx, const char *name, uint64_t n_bytes, const char *hex, infq_err *err)
{
    infq_jw *w = ctx;

    infq_jw_obj(w);
    infq_jw_key_str(w, "name", name);
    infq_jw_key_i64(w, "bytes", (int64_t)n_bytes);
    infq_jw_key_str(w, "sha256", hex);
    infq_jw_end_obj(w);
    return infq_buf_status(w->to, err);
}

static infq_status put_model(const char *model, infq_contents *c, infq_jw *w, infq_err *err)
{
    char hex[65];
    char *ledger = NULL;
    infq_status st;

    infq_jw_key(w, "model");
    infq_jw_obj(w);
    infq_jw_key_str(w, "path", model);
    infq_jw_key(w, "files");
    infq_jw_arr(w);
    INFQ_TRY(infq_contents_each(c, model, put_file, w, err));
    infq_jw_end_arr(w);
    INFQ_TRY(infq_contents_digest(c, model, hex, err));
    infq_jw_key_str(w, "sha256", hex);
    st = infq_path_join(model, "infq.json", &ledger, err);
    if (!st && infq_path_exists(ledger)) { // fates of all tensors, hashes of the source
        st = infq_contents_digest(c, ledger, hex, err);
        infq_jw_key_str(w, "ledger_sha256", hex);
    }
    infq_mem_free(ledger);
    infq_jw_end_obj(w);
    return st;
}

static const char *text_in(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    return cJSON_IsString(v) ? v->valuestring : "";
}

static bool ended_well(const cJSON *step)
{
    const char *state = text_in(step, "state");

    return strcmp(state, "pass") == 0 || strcmp(state, "fail") == 0 || strcmp(state, "undecided") == 0;
}

/* What the run's state says of every step, and what the journal adds for those that ended. */
static infq_status put_steps(const cJSON *state, const infq_journal *j, infq_jw *w, infq_err *err)
{
    static const char *const from_journal[] = {"key", "began", "seconds", "inputs", "outputs"};
    const cJSON *step;

    infq_jw_key(w, "steps");
    infq_jw_arr(w);
    cJSON_ArrayForEach(step, infq_json_get(state, "steps")) {
        const cJSON *entry = ended_well(step) ? infq_journal_find(j, text_in(step, "name")) : NULL, *v;
        infq_jw_obj(w);
        cJSON_ArrayForEach(v, step) {
            infq_jw_key(w, v->string);
            infq_jw_tree(w, v);
        }
        if (ended_well(step) && !entry)
            return infq_err_set(err, INFQ_E_FORMAT, "the journal does not know step %.80s", text_in(step, "name"));
        for (size_t i = 0; entry && i < sizeof(from_journal) / sizeof(from_journal[0]); i++) {
            if (!(v = infq_json_get(entry, from_journal[i])))
                continue;
            infq_jw_key(w, from_journal[i]);
            infq_jw_tree(w, v);
        }
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    return 0;
}

static infq_status put_results(const char *run, const cJSON *state, infq_jw *w, infq_err *err)
{
    const cJSON *step;

    infq_jw_key(w, "results");
    infq_jw_obj(w);
    cJSON_ArrayForEach(step, infq_json_get(state, "steps")) {
        char name[80];
        cJSON *doc = NULL;
        bool wanted = false;
        for (size_t i = 0; i < sizeof(embedded) / sizeof(embedded[0]); i++)
            wanted = wanted || strcmp(text_in(step, "kind"), embedded[i]) == 0;
        if (!wanted || !ended_well(step))
            continue;
        snprintf(name, sizeof(name), "%.60s.json", text_in(step, "name"));
        INFQ_TRY(load_in(run, name, &doc, err));
        infq_jw_key(w, text_in(step, "name"));
        infq_jw_tree(w, doc);
        cJSON_Delete(doc);
    }
    infq_jw_end_obj(w);
    return 0;
}

static infq_status put_all(const char *run, const char *model, const cJSON *state, infq_contents *c, infq_jw *w, infq_err *err)
{
    static const char *const members[] = {"recipe", "recipe_path", "recipe_sha256", "version", "build_sha256", "variables"};
    infq_journal *j = NULL;
    infq_status st;

    infq_jw_obj(w);
    infq_jw_key_str(w, "schema", INFQ_RELEASE_SCHEMA);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        infq_jw_key(w, members[i]);
        infq_jw_tree(w, infq_json_get(state, members[i]));
    }
    if (model)
        INFQ_TRY(put_model(model, c, w, err));
    INFQ_TRY(infq_journal_read(run, &j, err));
    st = put_steps(state, j, w, err);
    infq_journal_close(j);
    if (!st)
        st = put_results(run, state, w, err);
    infq_jw_key_str(w, "verdict", text_in(state, "verdict"));
    infq_jw_key(w, "exit");
    infq_jw_tree(w, infq_json_get(state, "exit"));
    infq_jw_key_str(w, "digest", INFQ_RELEASE_ZEROS);
    infq_jw_end_obj(w);
    infq_buf_char(w->to, '\n');
    return st;
}

infq_status infq_release_write(const char *run, const char *model, infq_contents *c, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 1);
    cJSON *state = NULL;
    size_t from = to->n;
    char hex[65];
    infq_status st;

    INFQ_TRY(load_in(run, "run.json", &state, err));
    if (strcmp(text_in(state, "schema"), "infq.run.v1") != 0)
        st = infq_err_set(err, INFQ_E_FORMAT, "%.160s: run.json is no state of a run", run);
    else
        st = put_all(run, model, state, c, &w, err);
    cJSON_Delete(state);
    if (!st)
        st = infq_buf_status(to, err);
    if (!st)
        st = infq_sha256_of(to->data + from, to->n - from, hex, err);
    if (!st) // the zeros stand before "\n}\n
        memcpy(to->data + to->n - 68, hex, 64);
    return st;
}
