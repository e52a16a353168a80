#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/ifeval_int.h"

#define MAX_INSTRUCTIONS 64

typedef struct {
    const infq_ifeval_kind *kind;
    infq_ifeval_args args;
} instruction;

struct infq_ifeval {
    cJSON *kwargs;          // a copy that the arguments' text is borrowed from
    int64_t n;
    instruction *list;
};

int infq_ifeval_n_kinds(void)
{
    return infq_ifeval_kinds_n;
}

const char *infq_ifeval_kind_name(int i)
{
    return infq_ifeval_kinds[i].name;
}

infq_status infq_ifeval_add_regex(infq_ifeval_args *a, const char *pattern, unsigned flags, infq_err *err)
{
    if (a->n_regex == IFEVAL_MAX_WORDS)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "more than %d words", IFEVAL_MAX_WORDS);
    INFQ_TRY(infq_regex_new(pattern, flags, &a->regex[a->n_regex], err));
    a->n_regex++;
    return INFQ_E_OK;
}

static const infq_ifeval_kind *find_kind(const char *name)
{
    for (int i = 0; i < infq_ifeval_kinds_n; i++)
        if (strcmp(infq_ifeval_kinds[i].name, name) == 0)
            return &infq_ifeval_kinds[i];
    return NULL;
}

static infq_status read_text(const cJSON *o, const char *key, const char **out, infq_err *err)
{
    INFQ_TRY(infq_json_str(o, key, NULL, out, err));
    if (!*out)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is missing", key);
    return INFQ_E_OK;
}

static infq_status read_words(const cJSON *o, const char *key, infq_ifeval_args *a, infq_err *err)
{
    const cJSON *list = infq_json_get(o, key), *w;

    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) == 0 || cJSON_GetArraySize(list) > IFEVAL_MAX_WORDS)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is no list of 1 to %d words", key, IFEVAL_MAX_WORDS);
    cJSON_ArrayForEach(w, list) {
        if (!cJSON_IsString(w))
            return infq_err_set(err, INFQ_E_FORMAT, "%s holds something that is no word", key);
        a->words[a->n_words++] = w->valuestring;
    }
    return INFQ_E_OK;
}

static infq_status read_args(const infq_ifeval_kind *k, const cJSON *o, infq_ifeval_args *a, infq_err *err)
{
    const char *relation;

    if (k->number) {
        INFQ_TRY(infq_json_i64(o, k->number, -1, &a->number, err));
        if (a->number < 0)
            return infq_err_set(err, INFQ_E_FORMAT, "%s is missing or negative", k->number);
    }
    if (k->relation) {
        INFQ_TRY(read_text(o, k->relation, &relation, err));
        a->less_than = strcmp(relation, "less than") == 0;
        if (!a->less_than && strcmp(relation, "at least") != 0)
            return infq_err_set(err, INFQ_E_FORMAT, "%s is neither \"less than\" nor \"at least\"", k->relation);
    }
    if (k->text)
        INFQ_TRY(read_text(o, k->text, &a->text, err));
    if (k->list)
        INFQ_TRY(read_words(o, k->list, a, err));
    INFQ_TRY(infq_json_i64(o, "nth_paragraph", 1, &a->paragraph, err));
    for (int i = 0; i < 3 && k->patterns[i]; i++)
        INFQ_TRY(infq_ifeval_add_regex(a, k->patterns[i], k->flags, err));
    return k->prepare ? k->prepare(a, err) : INFQ_E_OK;
}

static infq_status read_all(infq_ifeval *e, const cJSON *ids, infq_err *err)
{
    for (int64_t i = 0; i < e->n; i++) {
        const cJSON *id = cJSON_GetArrayItem(ids, (int)i), *o = cJSON_GetArrayItem(e->kwargs, (int)i);
        instruction *in = &e->list[i];

        if (!cJSON_IsString(id) || !(cJSON_IsObject(o) || cJSON_IsNull(o)))
            return infq_err_set(err, INFQ_E_FORMAT, "instruction %lld: its name is no text or its kwargs no object",
                                (long long)i);
        in->kind = find_kind(id->valuestring);
        if (!in->kind)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "unknown instruction %.80s", id->valuestring);
        if (read_args(in->kind, o, &in->args, err))
            return infq_err_in(err, "%s", in->kind->name);
    }
    return INFQ_E_OK;
}

infq_status infq_ifeval_new(const cJSON *doc, infq_ifeval **out, infq_err *err)
{
    const cJSON *ids = infq_json_get(doc, "instruction_id_list"), *kwargs = infq_json_get(doc, "kwargs");
    infq_ifeval *e = NULL;
    void *p;
    infq_status st;

    if (!cJSON_IsArray(ids) || !cJSON_IsArray(kwargs) || cJSON_GetArraySize(ids) != cJSON_GetArraySize(kwargs) ||
        cJSON_GetArraySize(ids) < 1 || cJSON_GetArraySize(ids) > MAX_INSTRUCTIONS)
        return infq_err_set(err, INFQ_E_FORMAT, "instruction_id_list and kwargs are not lists of one length, 1 to %d",
                            MAX_INSTRUCTIONS);
    INFQ_TRY(infq_mem_new(1, sizeof(*e), "instructions", &p, err));
    e = p;
    *e = (infq_ifeval){ .n = cJSON_GetArraySize(ids) };
    e->kwargs = cJSON_Duplicate(kwargs, true);
    st = e->kwargs ? infq_mem_new((size_t)e->n, sizeof(*e->list), "instructions", &p, err)
                   : infq_err_set(err, INFQ_E_NOMEM, "instructions need memory");
    if (!st) {
        e->list = p;
        memset(e->list, 0, (size_t)e->n * sizeof(*e->list));
        st = read_all(e, ids, err);
    }
    if (st)
        infq_ifeval_free(e);
    else
        *out = e;
    return st;
}

void infq_ifeval_free(infq_ifeval *e)
{
    if (!e)
        return;
    for (int64_t i = 0; e->list && i < e->n; i++)
        for (int k = 0; k < e->list[i].args.n_regex; k++)
            infq_regex_free(e->list[i].args.regex[k]);
    infq_mem_free(e->list);
    cJSON_Delete(e->kwargs);
    infq_mem_free(e);
}

int64_t infq_ifeval_count(const infq_ifeval *e)
{
    return e->n;
}

static void add_trimmed(const char *s, size_t n, infq_buf *out)
{
    size_t from;

    n = infq_rstrip(s, n);
    from = infq_lstrip(s, n);
    infq_buf_add(out, s + from, n - from);
}

static void add_without_stars(const infq_buf *from, infq_buf *out)
{
    for (size_t i = 0; i < from->n; i++)
        if (from->data[i] != '*')
            infq_buf_char(out, from->data[i]);
}

#define N_VARIANTS 8

/* The answer, without its first line, its last, both (trimmed); then each of the four without stars. */
static infq_status make_variants(const char *s, size_t n, infq_buf *v, infq_err *err)
{
    const char *first = memchr(s, '\n', n), *last = memrchr(s, '\n', n), *end = s + n;

    infq_buf_add(&v[0], s, n);
    if (first) {
        add_trimmed(first + 1, (size_t)(end - first - 1), &v[1]);
        add_trimmed(s, (size_t)(last - s), &v[2]);
        if (last > first)
            add_trimmed(first + 1, (size_t)(last - first - 1), &v[3]);
    }
    for (int i = 0; i < 4; i++) {
        add_without_stars(&v[i], &v[4 + i]);
        INFQ_TRY(infq_buf_status(&v[i], err));
        INFQ_TRY(infq_buf_status(&v[4 + i], err));
    }
    return INFQ_E_OK;
}

static infq_status follows(const instruction *in, const infq_buf *text, bool *ok, infq_err *err)
{
    *ok = false;
    if (infq_lstrip(text->data, text->n) == text->n)
        return INFQ_E_OK;
    if (in->kind->check(&in->args, text->data, text->n, ok, err))
        return infq_err_in(err, "%s", in->kind->name);
    return INFQ_E_OK;
}

infq_status infq_ifeval_check(infq_ifeval *e, const char *answer, size_t n, bool *strict, bool *loose, infq_err *err)
{
    infq_buf v[N_VARIANTS], whole;
    infq_status st = INFQ_E_OK;
    size_t len;
    char u[4];

    infq_buf_init(&whole); // broken UTF-8 is read as U+FFFD
    for (size_t at = 0; at < n; at += len) {
        uint32_t cp = infq_utf8_next(answer + at, n - at, &len);
        infq_buf_add(&whole, u, infq_utf8_put(cp, u));
    }
    for (int k = 0; k < N_VARIANTS; k++)
        infq_buf_init(&v[k]);
    st = infq_buf_status(&whole, err);
    if (!st)
        st = make_variants(whole.data, whole.n, v, err);
    for (int64_t i = 0; i < e->n && !st; i++) {
        st = follows(&e->list[i], &v[0], &strict[i], err);
        loose[i] = strict[i];
        for (int k = 1; k < N_VARIANTS && !st && !loose[i]; k++)
            st = follows(&e->list[i], &v[k], &loose[i], err);
    }
    for (int k = 0; k < N_VARIANTS; k++)
        infq_buf_deinit(&v[k]);
    infq_buf_deinit(&whole);
    return st;
}
