/* One row of a task: templates filled, answers found. */
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/corpus.h"
#include "lib/eval/task_int.h"

#define MAX_CHOICES 4096

static infq_status parse(const char *text, infq_prompt **out, infq_err *err)
{
    return text ? infq_prompt_parse(text, out, err) : 0;
}

static infq_status parse_list(const cJSON *list, prompt_list *out, infq_err *err)
{
    const cJSON *e;

    for (e = list ? infq_yaml_first(list) : NULL; e; e = infq_yaml_next(list, e)) {
        if (out->n == (int)(sizeof(out->p) / sizeof(out->p[0])))
            return infq_err_set(err, INFQ_E_FORMAT, "more than %d templates in a list", out->n);
        INFQ_TRY(infq_prompt_parse(e->valuestring, &out->p[out->n], err));
        out->n++;
    }
    return 0;
}

infq_status infq_row_prompt_open(const infq_task_prompt *p, infq_task_kind kind, row_prompt *out, infq_err *err)
{
    infq_status st;

    memset(out, 0, sizeof(*out));
    out->kind = kind;
    out->by_context = p->by_context;
    out->wikihow = p->clean == 1;
    st = parse(p->description, &out->description, err);
    if (!st)
        st = parse(p->context, &out->context, err);
    if (!st)
        st = parse(p->target, &out->target, err);
    if (!st)
        st = parse(p->gold, &out->gold, err);
    if (!st)
        st = parse(p->answer, &out->answer, err);
    if (!st)
        st = parse(p->labels, &out->labels, err);
    if (!st)
        st = parse(p->delimiter, &out->delimiter, err);
    if (!st)
        st = parse(p->cluster, &out->cluster, err);
    if (!st)
        st = parse(p->id, &out->id, err);
    if (!st)
        st = parse_list(p->contexts, &out->contexts, err);
    if (!st)
        st = parse_list(p->options, &out->options, err);
    if (!st)
        st = parse_list(p->choices, &out->choices, err);
    if (st)
        infq_row_prompt_free(out);
    return st;
}

void infq_row_prompt_free(row_prompt *p)
{
    prompt_list *lists[] = {&p->contexts, &p->options, &p->choices};
    infq_prompt *single[] = {p->description, p->context, p->target, p->gold, p->answer, p->labels, p->delimiter, p->cluster, p->id};

    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        infq_prompt_free(single[i]);
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < lists[l]->n; i++)
            infq_prompt_free(lists[l]->p[i]);
    memset(p, 0, sizeof(*p));
}

static infq_status keep(infq_arena *a, const char *s, bool wikihow, const char **out, infq_err *err)
{
    infq_buf b;
    char *copy = NULL;
    infq_status st;

    infq_buf_init(&b);
    if (wikihow)
        infq_clean_hellaswag(s, strlen(s), &b);
    else
        infq_buf_str(&b, s);
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_arena_strdup(a, b.data, &copy, err);
    infq_buf_deinit(&b);
    *out = copy;
    return st;
}

/* key: of the manifest, for messages. */
static infq_status text_of(const infq_prompt *p, infq_fields *f, infq_arena *a, bool wikihow, const char *key, const char **out,
                           infq_err *err)
{
    infq_buf b;
    infq_status st;

    infq_buf_init(&b);
    st = infq_prompt_text(p, f, &b, err);
    if (!st && memchr(b.data, '\0', b.n))
        st = infq_err_set(err, INFQ_E_FORMAT, "a text holds a NUL character");
    if (!st)
        st = keep(a, b.data, wikihow, out, err);
    infq_buf_deinit(&b);
    return st ? infq_err_in(err, "%s", key) : 0;
}

/* The texts of a list, as a JSON array of strings. */
static infq_status list_of(const prompt_list *l, infq_fields *f, cJSON **out, infq_err *err)
{
    cJSON *v = NULL, *e;
    infq_status st;
    int i = 0;

    if (l->n == 1)
        INFQ_TRY(infq_prompt_value(l->p[0], f, &v, err));
    if (!cJSON_IsArray(v)) {
        cJSON_Delete(v);
        v = cJSON_CreateArray();
        for (int k = 0; v && k < l->n; k++) {
            infq_buf b;
            infq_buf_init(&b);
            st = infq_prompt_text(l->p[k], f, &b, err);
            if (!st && (!(e = cJSON_CreateString(b.data)) || !cJSON_AddItemToArray(v, e)))
                st = infq_err_set(err, INFQ_E_NOMEM, "no memory");
            infq_buf_deinit(&b);
            if (st) {
                cJSON_Delete(v);
                return st;
            }
        }
    }
    if (!v)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory");
    st = 0;
    cJSON_ArrayForEach(e, v) {
        if (!cJSON_IsString(e) && !st)
            st = infq_err_set(err, INFQ_E_FORMAT, "entry %d is no text", i);
        i++;
    }
    if (!st && (i == 0 || i > MAX_CHOICES))
        st = infq_err_set(err, INFQ_E_FORMAT, i ? "%d entries, at most %d" : "no entries", i, MAX_CHOICES);
    if (st)
        cJSON_Delete(v);
    else
        *out = v;
    return st;
}

/* Moves the first `by` entries behind the others, so that answers follow their options. */
static void rotate(cJSON *list, int64_t by)
{
    for (int64_t i = 0; i < by; i++)
        cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(list, 0));
}

static infq_status keep_list(const cJSON *list, infq_arena *a, bool wikihow, const char ***out, infq_err *err)
{
    const char **v;
    const cJSON *e;
    int64_t i = 0;

    INFQ_TRY(infq_arena_alloc(a, (size_t)cJSON_GetArraySize(list), sizeof(*v), "texts", (void **)&v, err));
    cJSON_ArrayForEach(e, list)
        INFQ_TRY(keep(a, e->valuestring, wikihow, &v[i++], err));
    *out = v;
    return 0;
}

/* An index: a number, text of one, true or false. */
static infq_status index_of(const cJSON *v, int64_t n, int64_t *out, infq_err *err)
{
    int64_t i = -1;

    if (cJSON_IsBool(v))
        i = cJSON_IsTrue(v);
    else if (cJSON_IsNumber(v) && v->valuedouble == (double)(int64_t)v->valuedouble)
        i = (int64_t)v->valuedouble;
    else if (!cJSON_IsString(v) || !infq_parse_i64(v->valuestring, 0, MAX_CHOICES, &i))
        return infq_err_set(err, INFQ_E_FORMAT, "no index of a choice");
    if (i < 0 || i >= n)
        return infq_err_set(err, INFQ_E_FORMAT, "%lld is not an index from 0 to %lld", (long long)i, (long long)(n - 1));
    *out = i;
    return 0;
}

static infq_status truth_of(const cJSON *list, infq_arena *a, row_text *out, infq_err *err)
{
    const cJSON *e;
    int64_t i = 0;

    if (cJSON_GetArraySize(list) != out->n)
        return infq_err_set(err, INFQ_E_FORMAT, "%d answers for %lld choices", cJSON_GetArraySize(list), (long long)out->n);
    INFQ_TRY(infq_arena_alloc(a, (size_t)out->n, 1, "answers", (void **)&out->truth, err));
    out->gold = -1;
    cJSON_ArrayForEach(e, list) {
        bool yes = cJSON_IsTrue(e) || (cJSON_IsNumber(e) && e->valuedouble == 1);
        if (!yes && !cJSON_IsFalse(e) && !(cJSON_IsNumber(e) && e->valuedouble == 0))
            return infq_err_set(err, INFQ_E_FORMAT, "answer %lld is neither 0 nor 1", (long long)i);
        if (yes && out->gold < 0)
            out->gold = i;
        out->truth[i++] = yes;
    }
    return out->gold < 0 ? infq_err_set(err, INFQ_E_FORMAT, "no choice is right") : 0;
}

static infq_status label_of(const cJSON *labels, const char *answer, row_text *out, infq_err *err)
{
    const cJSON *e;
    int64_t i = 0;

    if (!cJSON_IsArray(labels) || cJSON_GetArraySize(labels) != out->n)
        return infq_err_set(err, INFQ_E_FORMAT, "%d labels for %lld choices", cJSON_GetArraySize(labels), (long long)out->n);
    out->gold = -1;
    cJSON_ArrayForEach(e, labels) {
        if (cJSON_IsString(e) && strcmp(e->valuestring, answer) == 0 && out->gold < 0)
            out->gold = i;
        i++;
    }
    return out->gold < 0 ? infq_err_set(err, INFQ_E_FORMAT, "the answer %.20s is none of the labels", answer) : 0;
}

static infq_status answer_of(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err)
{
    int64_t by = p->options.n > 0 ? p->rotate % out->n : 0;
    cJSON *v = NULL;
    const char *answer;
    infq_status st;

    if (p->gold) {
        INFQ_TRY(infq_prompt_value(p->gold, f, &v, err));
        if (cJSON_IsArray(v)) {
            rotate(v, by);
            st = truth_of(v, a, out, err);
        } else {
            st = index_of(v, out->n, &out->gold, err);
            if (!st)
                out->gold = (out->gold - by + out->n) % out->n;
        }
    } else {
        INFQ_TRY(text_of(p->answer, f, a, false, "answer", &answer, err));
        INFQ_TRY(infq_prompt_value(p->labels, f, &v, err));
        rotate(v, by);
        st = label_of(v, answer, out, err);
    }
    cJSON_Delete(v);
    return st;
}

/* "auto": a blank, unless white space is there already or nothing is in front. */
static const char *auto_delimiter(const char *context, const char *choice)
{
    size_t n = strlen(context);

    return n == 0 || infq_rstrip(context, n) < n || infq_lstrip(choice, strlen(choice)) > 0 ? "" : " ";
}

static infq_status delimit(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err)
{
    const char **v, *d;

    INFQ_TRY(text_of(p->delimiter, f, a, false, "delimiter", &d, err));
    INFQ_TRY(infq_arena_alloc(a, (size_t)out->n, sizeof(*v), "delimiters", (void **)&v, err));
    for (int64_t i = 0; i < out->n; i++) {
        v[i] = strcmp(d, "auto") == 0 ? auto_delimiter(out->contexts[i], out->choices[i]) : d;
        // a choice that brought its own blank gives it to the delimiter
        if (strcmp(d, "auto") == 0 && !v[i][0] && out->choices[i][0] == ' ') {
            v[i] = " ";
            out->choices[i]++;
        }
        // nothing to score; a cleaned text of a public set may be empty behind its delimiter
        if (!out->choices[i][0] && (strcmp(d, "auto") == 0 || !d[0]) && p->kind != INFQ_TASK_GENERATE)
            return infq_err_set(err, INFQ_E_FORMAT, "choice %lld is empty", (long long)i);
    }
    out->delimiters = v;
    return 0;
}

static infq_status contexts_of(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err)
{
    const char **v;
    cJSON *list = NULL;
    infq_status st;

    if (p->contexts.n > 0) {
        INFQ_TRY(list_of(&p->contexts, f, &list, err));
        st = keep_list(list, a, p->wikihow, &out->contexts, err);
        if (!st && cJSON_GetArraySize(list) != out->n)
            st = infq_err_set(err, INFQ_E_FORMAT, "%d contexts for %lld choices", cJSON_GetArraySize(list), (long long)out->n);
        cJSON_Delete(list);
        return st;
    }
    INFQ_TRY(infq_arena_alloc(a, (size_t)out->n, sizeof(*v), "contexts", (void **)&v, err));
    INFQ_TRY(text_of(p->context, f, a, p->wikihow, "context", &v[0], err));
    for (int64_t i = 1; i < out->n; i++)
        v[i] = v[0];
    out->contexts = v;
    return 0;
}

static infq_status choices_of(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err)
{
    cJSON *options = NULL, *choices = NULL;
    infq_status st = 0;

    if (p->options.n > 0) {
        INFQ_TRY(list_of(&p->options, f, &options, err));
        rotate(options, p->rotate % cJSON_GetArraySize(options));
        st = infq_fields_set(f, "options", options, err);
    }
    if (!st && p->choices.n > 0)
        st = list_of(&p->choices, f, &choices, err);
    if (!st) {
        const cJSON *scored = choices ? choices : options;
        out->n = cJSON_GetArraySize(scored);
        st = keep_list(scored, a, p->wikihow, &out->choices, err);
    }
    cJSON_Delete(options);
    cJSON_Delete(choices);
    return st;
}

static infq_status target_of(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err)
{
    const char **v;

    out->n = 1;
    INFQ_TRY(infq_arena_calloc(a, 1, sizeof(*v), "target", (void **)&v, err));
    v[0] = "";
    if (p->target)
        INFQ_TRY(text_of(p->target, f, a, false, "target", &v[0], err));
    if (p->kind == INFQ_TASK_TARGET && !v[0][0])
        return infq_err_set(err, INFQ_E_FORMAT, "the target is empty");
    out->choices = v;
    return 0;
}

/* Contexts in the look asked for; those that are one text stay one. */
static infq_status reformat_all(const row_prompt *p, infq_arena *a, row_text *out, infq_err *err)
{
    const char **v;
    infq_status st = 0;

    if (p->format == INFQ_FORMAT_PLAIN)
        return 0;
    INFQ_TRY(infq_arena_alloc(a, (size_t)out->n, sizeof(*v), "contexts", (void **)&v, err));
    for (int64_t i = 0; i < out->n && !st; i++) {
        infq_buf text;
        char *copy;
        if (i > 0 && out->contexts[i] == out->contexts[0]) {
            v[i] = v[0];
            continue;
        }
        infq_buf_init(&text);
        infq_task_reformat(p->format, out->contexts[i], &text);
        st = infq_buf_status(&text, err);
        if (!st)
            st = infq_arena_strdup(a, text.data, &copy, err);
        if (!st)
            v[i] = copy;
        infq_buf_deinit(&text);
    }
    out->contexts = v;
    return st;
}

infq_status infq_row_render(const row_prompt *p, infq_fields *f, infq_arena *a, row_text *out, infq_err *err)
{
    memset(out, 0, sizeof(*out));
    out->cluster = out->id = "";
    if (p->cluster)
        INFQ_TRY(text_of(p->cluster, f, a, false, "cluster", &out->cluster, err));
    if (p->id)
        INFQ_TRY(text_of(p->id, f, a, false, "id", &out->id, err));
    if (p->kind == INFQ_TASK_CHOICE) {
        if (choices_of(p, f, a, out, err))
            return infq_err_in(err, "choices");
        if (answer_of(p, f, a, out, err))
            return infq_err_in(err, p->gold ? "gold" : "labels");
    } else {
        INFQ_TRY(target_of(p, f, a, out, err));
    }
    if (contexts_of(p, f, a, out, err))
        return p->contexts.n > 0 ? infq_err_in(err, "contexts") : err->code;
    INFQ_TRY(reformat_all(p, a, out, err));
    return delimit(p, f, a, out, err);
}
