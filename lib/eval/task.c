#include "lib/eval/task.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/eval/corpus.h"

#define MAX_FILE ((size_t)2 << 30)
#define MAX_CHOICES 256

typedef struct layout layout;

struct infq_task {
    const layout *layout;
    infq_arena *arena;
    infq_doc *docs;
    int64_t n, cap;
    infq_buf labels;      /* companion file of answers, one a line (PIQA) */
    size_t labels_at;
    bool has_labels;
    char name[128], digest[65];
};

/* Turns a row into requests. t->arena holds what they point to. */
typedef infq_status (*prompt_fn)(infq_task *t, const cJSON *row, infq_doc *out, infq_err *err);

struct layout {
    const char *name;
    const char *fields[3];   /* a file whose first row has them all has this layout; none: only when named */
    infq_task_kind kind;
    const char *metric;
    prompt_fn prompt;
};

static infq_status need_str(const cJSON *row, const char *key, const char **out, infq_err *err)
{
    const char *s;

    INFQ_TRY(infq_json_str(row, key, NULL, &s, err));
    if (!s) {
        infq_err_set(err, INFQ_E_FORMAT, "%s is missing", key);
        return INFQ_E_FORMAT; // spelled out, so that callers are seen to have a value otherwise
    }
    *out = s;
    return 0;
}

static infq_status need_array(const cJSON *row, const char *key, const cJSON **out, infq_err *err)
{
    const cJSON *a = infq_json_get(row, key);
    int n = cJSON_IsArray(a) ? cJSON_GetArraySize(a) : -1;

    if (n < 1 || n > MAX_CHOICES)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not a list of 1 to %d entries", key, MAX_CHOICES);
    *out = a;
    return 0;
}

/* An index written as a number, or as a string of one. */
static infq_status need_index(const cJSON *row, const char *key, int64_t n, int64_t *out, infq_err *err)
{
    const cJSON *v = infq_json_get(row, key);
    int64_t i = -1;

    if (cJSON_IsBool(v))
        i = cJSON_IsTrue(v);
    else if (cJSON_IsString(v)) {
        if (!infq_parse_i64(v->valuestring, 0, MAX_CHOICES, &i))
            i = -1;
    } else {
        INFQ_TRY(infq_json_i64(row, key, -1, &i, err));
    }
    if (i < 0 || i >= n)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not an index from 0 to %lld", key, (long long)(n - 1));
    *out = i;
    return 0;
}

static infq_status set_size(infq_task *t, infq_doc *d, int64_t n, infq_err *err)
{
    d->n_requests = n;
    return infq_arena_calloc(t->arena, (size_t)n, sizeof(*d->requests), "choices", (void **)&d->requests, err);
}

/* Request i: context, delimiter + choice; the lengths are those of the choice alone. */
static infq_status put(infq_task *t, infq_doc *d, int64_t i, const char *context, const char *delimiter, const char *choice,
                       infq_err *err)
{
    infq_request *r = &d->requests[i];
    char *cont;
    size_t n_delim = strlen(delimiter), n = strlen(choice);

    // choices of one item usually share their context
    if (i > 0 && strcmp(context, d->requests[i - 1].context) == 0) {
        r->context = d->requests[i - 1].context;
    } else {
        char *copy;
        INFQ_TRY(infq_arena_strdup(t->arena, context, &copy, err));
        r->context = copy;
    }
    r->n_context = strlen(context);
    INFQ_TRY(infq_arena_alloc(t->arena, n_delim + n + 1, 1, "choice", (void **)&cont, err));
    memcpy(cont, delimiter, n_delim);
    memcpy(cont + n_delim, choice, n + 1);
    r->continuation = cont;
    r->n_continuation = n_delim + n;
    r->chars = (int64_t)infq_utf8_count(choice, n);
    r->bytes = (int64_t)n;
    return 0;
}

static infq_status put_all(infq_task *t, infq_doc *d, const char *context, const cJSON *choices, infq_err *err)
{
    const cJSON *c;
    int64_t i = 0;

    INFQ_TRY(set_size(t, d, cJSON_GetArraySize(choices), err));
    cJSON_ArrayForEach(c, choices) {
        if (!cJSON_IsString(c))
            return infq_err_set(err, INFQ_E_FORMAT, "choice %lld is not a string", (long long)i);
        INFQ_TRY(put(t, d, i++, context, " ", c->valuestring, err));
    }
    return 0;
}

static const char *plain_delimiter(const char *context, const char *choice)
{
    size_t n = strlen(context);

    if (n == 0 || infq_rstrip(context, n) < n || infq_lstrip(choice, strlen(choice)) > 0)
        return "";
    return " ";
}

static infq_status prompt_plain(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *context, *delimiter;
    const cJSON *choices, *c;
    int64_t i = 0;

    // "query" is what some public sets call the context
    INFQ_TRY(need_str(row, infq_json_get(row, "context") || !infq_json_get(row, "query") ? "context" : "query", &context, err));
    INFQ_TRY(infq_json_str(row, "delimiter", NULL, &delimiter, err));
    INFQ_TRY(need_array(row, "choices", &choices, err));
    INFQ_TRY(need_index(row, "gold", cJSON_GetArraySize(choices), &d->gold, err));
    INFQ_TRY(set_size(t, d, cJSON_GetArraySize(choices), err));
    cJSON_ArrayForEach(c, choices) {
        const char *s = c->valuestring;
        if (!cJSON_IsString(c))
            return infq_err_set(err, INFQ_E_FORMAT, "choice %lld is not a string", (long long)i);
        INFQ_TRY(put(t, d, i, context, delimiter ? delimiter : plain_delimiter(context, s), s, err));
        if (s[0] == ' ' && !delimiter) { // the choice brought its own delimiter
            d->requests[i].chars--;
            d->requests[i].bytes--;
        }
        i++;
    }
    return 0;
}

/* HellaSwag: "ctx" is ready to use; the original fields are cleaned and joined. */
static infq_status prompt_hellaswag(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const cJSON *endings, *e;
    const char *a, *b, *label, *ctx;
    infq_buf context, text;
    infq_status st;
    int64_t i = 0;
    bool original = infq_json_get(row, "ctx_a") && infq_json_get(row, "activity_label");

    INFQ_TRY(need_array(row, "endings", &endings, err));
    INFQ_TRY(need_index(row, "label", cJSON_GetArraySize(endings), &d->gold, err));
    INFQ_TRY(set_size(t, d, cJSON_GetArraySize(endings), err));
    infq_buf_init(&context);
    infq_buf_init(&text);
    if (original) {
        st = need_str(row, "ctx_a", &a, err);
        if (!st)
            st = infq_json_str(row, "ctx_b", "", &b, err);
        if (!st)
            st = need_str(row, "activity_label", &label, err);
        if (!st) {
            infq_buf_fmt(&text, "%s: %s ", label, a);
            infq_capitalize(b, strlen(b), &text);
            infq_clean_hellaswag(text.data, text.n, &context);
        }
    } else {
        st = need_str(row, "ctx", &ctx, err);
        if (!st)
            infq_buf_str(&context, ctx);
    }
    cJSON_ArrayForEach(e, endings) {
        if (st)
            break;
        if (!cJSON_IsString(e)) {
            st = infq_err_set(err, INFQ_E_FORMAT, "ending %lld is not a string", (long long)i);
            break;
        }
        infq_buf_clear(&text);
        if (original)
            infq_clean_hellaswag(e->valuestring, strlen(e->valuestring), &text);
        else
            infq_buf_str(&text, e->valuestring);
        st = infq_buf_status(&text, err);
        if (!st)
            st = infq_buf_status(&context, err);
        if (!st)
            st = put(t, d, i++, context.data, " ", text.data, err);
    }
    infq_buf_deinit(&context);
    infq_buf_deinit(&text);
    return st;
}

static infq_status prompt_blimp(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *good, *bad;

    INFQ_TRY(need_str(row, "sentence_good", &good, err));
    INFQ_TRY(need_str(row, "sentence_bad", &bad, err));
    INFQ_TRY(set_size(t, d, 2, err));
    INFQ_TRY(put(t, d, 0, "", " ", good, err));
    return put(t, d, 1, "", " ", bad, err);
}

/* "Question: {q}\nAnswer:" into buf. */
static infq_status question(infq_buf *buf, const char *before, const char *q, const char *after, infq_err *err)
{
    infq_buf_str(buf, before);
    infq_buf_str(buf, q);
    infq_buf_str(buf, after);
    return infq_buf_status(buf, err);
}

static infq_status next_label(infq_task *t, int64_t *gold, infq_err *err)
{
    char text[16];
    size_t n = 0;

    while (t->labels_at < t->labels.n && infq_is_space((unsigned char)t->labels.data[t->labels_at]))
        t->labels_at++;
    while (t->labels_at < t->labels.n && !infq_is_space((unsigned char)t->labels.data[t->labels_at]) && n + 1 < sizeof(text))
        text[n++] = t->labels.data[t->labels_at++];
    text[n] = '\0';
    if (!infq_parse_i64(text, 0, 1, gold))
        return infq_err_set(err, INFQ_E_FORMAT, "the file of labels has no 0 or 1 for this row");
    return 0;
}

static infq_status prompt_piqa(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *goal, *sol[2];
    infq_buf q;
    infq_status st;

    INFQ_TRY(need_str(row, "goal", &goal, err));
    INFQ_TRY(need_str(row, "sol1", &sol[0], err));
    INFQ_TRY(need_str(row, "sol2", &sol[1], err));
    if (infq_json_get(row, "label"))
        INFQ_TRY(need_index(row, "label", 2, &d->gold, err));
    else if (t->has_labels)
        INFQ_TRY(next_label(t, &d->gold, err));
    else
        return infq_err_set(err, INFQ_E_FORMAT, "label is missing, and so is the file of labels beside it (NAME-labels.lst)");
    INFQ_TRY(set_size(t, d, 2, err));
    infq_buf_init(&q);
    st = question(&q, "Question: ", goal, "\nAnswer:", err);
    for (int i = 0; i < 2 && !st; i++)
        st = put(t, d, i, q.data, " ", sol[i], err);
    infq_buf_deinit(&q);
    return st;
}

/* Choices as {"text": [...], "label": [...]} or [{"text", "label"}...], into one list each. */
static infq_status labelled_choices(const cJSON *choices, cJSON *texts, cJSON *labels, infq_err *err)
{
    const cJSON *c;

    if (cJSON_IsArray(choices)) {
        cJSON_ArrayForEach(c, choices) {
            const char *text, *label;
            INFQ_TRY(need_str(c, "text", &text, err));
            INFQ_TRY(need_str(c, "label", &label, err));
            cJSON_AddItemToArray(texts, cJSON_CreateString(text));
            cJSON_AddItemToArray(labels, cJSON_CreateString(label));
        }
    } else {
        const cJSON *a, *b;
        INFQ_TRY(need_array(choices, "text", &a, err));
        INFQ_TRY(need_array(choices, "label", &b, err));
        cJSON_ArrayForEach(c, a)
            cJSON_AddItemToArray(texts, cJSON_CreateString(cJSON_IsString(c) ? c->valuestring : ""));
        cJSON_ArrayForEach(c, b)
            cJSON_AddItemToArray(labels, cJSON_CreateString(cJSON_IsString(c) ? c->valuestring : ""));
    }
    if (cJSON_GetArraySize(texts) != cJSON_GetArraySize(labels) || cJSON_GetArraySize(texts) == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "choices has %d texts and %d labels", cJSON_GetArraySize(texts),
                            cJSON_GetArraySize(labels));
    return 0;
}

static infq_status put_labelled(infq_task *t, infq_doc *d, const char *context, const cJSON *choices, const char *answer,
                                infq_err *err)
{
    cJSON *texts = cJSON_CreateArray(), *labels = cJSON_CreateArray();
    const cJSON *c;
    infq_status st = texts && labels ? labelled_choices(choices, texts, labels, err)
                                     : infq_err_set(err, INFQ_E_NOMEM, "no memory for choices");
    int64_t i = 0;

    d->gold = -1;
    if (!st) {
        cJSON_ArrayForEach(c, labels) {
            if (strcmp(c->valuestring, answer) == 0)
                d->gold = i;
            i++;
        }
        if (d->gold < 0)
            st = infq_err_set(err, INFQ_E_FORMAT, "answerKey %.20s is none of the labels", answer);
    }
    if (!st)
        st = put_all(t, d, context, texts, err);
    cJSON_Delete(texts);
    cJSON_Delete(labels);
    return st;
}

static infq_status prompt_arc(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const cJSON *q = infq_json_get(row, "question"), *choices = infq_json_get(row, "choices");
    const char *stem, *answer;
    infq_buf text;
    infq_status st;

    if (cJSON_IsObject(q)) {
        choices = infq_json_get(q, "choices");
        INFQ_TRY(need_str(q, "stem", &stem, err));
    } else {
        INFQ_TRY(need_str(row, "question", &stem, err));
    }
    INFQ_TRY(need_str(row, "answerKey", &answer, err));
    infq_buf_init(&text);
    st = question(&text, "Question: ", stem, "\nAnswer:", err);
    if (!st)
        st = put_labelled(t, d, text.data, choices, answer, err);
    infq_buf_deinit(&text);
    return st;
}

static infq_status prompt_openbookqa(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *stem, *answer;

    INFQ_TRY(need_str(row, "question_stem", &stem, err));
    INFQ_TRY(need_str(row, "answerKey", &answer, err));
    return put_labelled(t, d, stem, infq_json_get(row, "choices"), answer, err);
}

/* Two contexts, one common tail. */
static infq_status prompt_winogrande(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *sentence, *option[2], *answer, *hole, *tail;
    infq_buf a, b;
    infq_status st = 0;
    size_t n;

    INFQ_TRY(need_str(row, "sentence", &sentence, err));
    INFQ_TRY(need_str(row, "option1", &option[0], err));
    INFQ_TRY(need_str(row, "option2", &option[1], err));
    INFQ_TRY(need_str(row, "answer", &answer, err));
    hole = strchr(sentence, '_');
    if (!hole)
        return infq_err_set(err, INFQ_E_FORMAT, "sentence has no _");
    if ((answer[0] != '1' && answer[0] != '2') || answer[1])
        return infq_err_set(err, INFQ_E_FORMAT, "answer is neither 1 nor 2");
    d->gold = answer[0] - '1';
    INFQ_TRY(set_size(t, d, 2, err));
    infq_buf_init(&a);
    infq_buf_init(&b);
    tail = hole + 1;
    tail += infq_lstrip(tail, strlen(tail));
    n = infq_rstrip(tail, strlen(tail));
    infq_buf_add(&b, tail, n);
    for (int i = 0; i < 2 && !st; i++) {
        infq_buf_clear(&a);
        infq_buf_add(&a, sentence, (size_t)(hole - sentence));
        infq_buf_str(&a, option[i]);
        st = infq_buf_status(&a, err);
        if (!st)
            st = infq_buf_status(&b, err);
        if (!st)
            st = put(t, d, i, a.data, " ", b.data, err);
        // what differs here is the context, and the reference takes its length
        d->requests[i].chars = (int64_t)infq_utf8_count(a.data, a.n);
        d->requests[i].bytes = (int64_t)a.n;
    }
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
    return st;
}

static infq_status prompt_boolq(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *passage, *q;
    infq_buf text;
    infq_status st;

    INFQ_TRY(need_str(row, "passage", &passage, err));
    INFQ_TRY(need_str(row, "question", &q, err));
    INFQ_TRY(need_index(row, infq_json_get(row, "answer") ? "answer" : "label", 2, &d->gold, err));
    INFQ_TRY(set_size(t, d, 2, err));
    infq_buf_init(&text);
    infq_buf_str(&text, passage);
    st = question(&text, "\nQuestion: ", q, "?\nAnswer:", err);
    if (!st)
        st = put(t, d, 0, text.data, " ", "no", err);
    if (!st)
        st = put(t, d, 1, text.data, " ", "yes", err);
    infq_buf_deinit(&text);
    return st;
}

/* The choice has one blank of its own, the delimiter adds another; the first counts as part of the choice. */
static infq_status prompt_copa(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *query;
    const cJSON *choices, *c;
    infq_buf text;
    infq_status st = 0;
    int64_t i = 0;

    INFQ_TRY(need_str(row, "query", &query, err));
    INFQ_TRY(need_array(row, "choices", &choices, err));
    INFQ_TRY(need_index(row, "gold", cJSON_GetArraySize(choices), &d->gold, err));
    INFQ_TRY(set_size(t, d, cJSON_GetArraySize(choices), err));
    infq_buf_init(&text);
    cJSON_ArrayForEach(c, choices) {
        if (!cJSON_IsString(c))
            st = infq_err_set(err, INFQ_E_FORMAT, "choice %lld is not a string", (long long)i);
        if (st)
            break;
        infq_buf_clear(&text);
        infq_buf_char(&text, ' ');
        infq_lower_first(c->valuestring, strlen(c->valuestring), &text);
        st = infq_buf_status(&text, err);
        if (!st)
            st = put(t, d, i++, query, " ", text.data, err);
    }
    infq_buf_deinit(&text);
    return st;
}

static infq_status prompt_lambada(infq_task *t, const cJSON *row, infq_doc *d, infq_err *err)
{
    const char *text, *last;
    infq_buf context;
    infq_status st;

    INFQ_TRY(need_str(row, "text", &text, err));
    last = strrchr(text, ' ');
    INFQ_TRY(set_size(t, d, 1, err));
    infq_buf_init(&context);
    infq_buf_add(&context, text, last ? (size_t)(last - text) : 0);
    st = infq_buf_status(&context, err);
    if (!st)
        st = put(t, d, 0, context.data, " ", last ? last + 1 : text, err);
    infq_buf_deinit(&context);
    return st;
}

static const layout layouts[] = {
    {"hellaswag", {"endings", "label"}, INFQ_TASK_CHOICE, "acc_norm", prompt_hellaswag},
    {"blimp", {"sentence_good", "sentence_bad"}, INFQ_TASK_CHOICE, "acc", prompt_blimp},
    {"piqa", {"goal", "sol1", "sol2"}, INFQ_TASK_CHOICE, "acc", prompt_piqa},
    {"arc", {"question", "answerKey"}, INFQ_TASK_CHOICE, "acc_norm", prompt_arc},
    {"openbookqa", {"question_stem", "answerKey"}, INFQ_TASK_CHOICE, "acc_norm", prompt_openbookqa},
    {"winogrande", {"sentence", "option1", "option2"}, INFQ_TASK_CHOICE, "acc", prompt_winogrande},
    {"boolq", {"passage", "question"}, INFQ_TASK_CHOICE, "acc", prompt_boolq},
    {"copa", {0}, INFQ_TASK_CHOICE, "acc", prompt_copa},
    {"lambada", {0}, INFQ_TASK_TARGET, "acc", prompt_lambada},
    {"plain", {"choices", "gold"}, INFQ_TASK_CHOICE, "acc", prompt_plain},
};
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

size_t infq_task_layout_count(void)
{
    return N_LAYOUTS;
}

const char *infq_task_layout_name(size_t i)
{
    return layouts[i].name;
}

/* A row by name; "arc_easy" and the like mean the row that they begin with. */
static const layout *layout_named(const char *name)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        size_t n = strlen(layouts[i].name);
        if (strncmp(name, layouts[i].name, n) == 0 && (name[n] == '\0' || name[n] == '_'))
            return &layouts[i];
    }
    return NULL;
}

static const layout *layout_of_row(const cJSON *row)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        const layout *l = &layouts[i];
        bool all = l->fields[0] != NULL;
        for (int k = 0; k < 3 && l->fields[k]; k++)
            all = all && infq_json_get(row, l->fields[k]);
        if (all)
            return l;
    }
    return NULL;
}

/* File name without folder, .gz and extension. */
static void base_name(const char *path, char *out, size_t cap)
{
    static const char *const ends[] = {".gz", ".jsonl", ".json", ".ndjson"};

    snprintf(out, cap, "%s", infq_path_base(path));
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (infq_str_ends(out, ends[i]) && strlen(out) > strlen(ends[i]))
            out[strlen(out) - strlen(ends[i])] = '\0';
}

static infq_status choose_layout(infq_task *t, const char *label, const char *path, const cJSON *row, infq_err *err)
{
    const layout *named = label[0] ? layout_named(label) : NULL;
    const char *uid;

    t->layout = named ? named : layout_of_row(row);
    if (!t->layout && label[0])
        return infq_err_set(err, INFQ_E_USAGE, "%s is not a task we know, and the rows are not {context, choices, gold}", label);
    if (!t->layout)
        return infq_err_set(err, INFQ_E_FORMAT, "the rows are not {context, choices, gold} nor of a task we know; say NAME=FILE");
    if (label[0])
        snprintf(t->name, sizeof(t->name), "%s", label);
    else
        base_name(path, t->name, sizeof(t->name));
    if (t->layout->prompt == prompt_blimp && (!label[0] || strcmp(label, "blimp") == 0)) {
        INFQ_TRY(infq_json_str(row, "UID", NULL, &uid, err));
        if (uid)
            snprintf(t->name, sizeof(t->name), "blimp_%s", uid);
    }
    return 0;
}

static infq_status load_labels(infq_task *t, const char *path, infq_err *err)
{
    char name[4096], *end;

    if (snprintf(name, sizeof(name) - 16, "%s", path) >= (int)sizeof(name) - 16)
        return 0;
    end = strstr(name, ".jsonl");
    if (!end)
        return 0;
    strcpy(end, "-labels.lst");
    if (!infq_path_exists(name))
        return 0;
    t->has_labels = true;
    return infq_corpus_read(name, MAX_FILE, &t->labels, err);
}

static infq_status add_row(infq_task *t, const cJSON *row, infq_err *err)
{
    infq_doc d = {.doc = t->n};

    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * (size_t)t->cap : 256, n_bytes;
        void *p;
        if (!infq_mul_size(cap, sizeof(*t->docs), &n_bytes) || !(p = infq_mem_realloc(t->docs, n_bytes)))
            return infq_err_set(err, INFQ_E_NOMEM, "%zu items do not fit in memory", cap);
        t->docs = p;
        t->cap = (int64_t)cap;
    }
    INFQ_TRY(t->layout->prompt(t, row, &d, err));
    t->docs[t->n++] = d;
    return 0;
}

static infq_status read_rows(infq_task *t, const char *label, const char *path, const infq_buf *text, int64_t limit, infq_err *err)
{
    size_t at = 0, line = 0;

    while (at < text->n && (limit == 0 || t->n < limit)) {
        const char *s = text->data + at, *end = memchr(s, '\n', text->n - at);
        size_t n = end ? (size_t)(end - s) : text->n - at;
        cJSON *row = NULL;
        char what[64];
        infq_status st;
        at += n + 1;
        line++;
        if (infq_rstrip(s, n) == 0)
            continue;
        snprintf(what, sizeof(what), "line %zu", line);
        st = infq_json_parse(s, n, what, &row, err);
        if (!st && !t->layout)
            st = choose_layout(t, label, path, row, err);
        if (!st && !cJSON_IsObject(row))
            st = infq_err_set(err, INFQ_E_FORMAT, "not an object");
        if (!st) {
            st = add_row(t, row, err);
            if (st)
                infq_err_in(err, "line %zu", line);
        }
        cJSON_Delete(row);
        INFQ_TRY(st);
    }
    if (t->n == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "holds no items");
    return 0;
}

/* NAME=FILE, unless a file is called so. */
static const char *split_spec(const char *spec, char *label, size_t cap)
{
    const char *eq = strchr(spec, '='), *slash = strchr(spec, '/');

    label[0] = '\0';
    if (!eq || eq == spec || (slash && slash < eq) || (size_t)(eq - spec) >= cap || infq_path_exists(spec))
        return spec;
    memcpy(label, spec, (size_t)(eq - spec));
    label[eq - spec] = '\0';
    return eq + 1;
}

static infq_status digest_task(infq_task *t, const infq_buf *text, infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st = infq_sha256_new(&h, err);

    if (!st)
        st = infq_sha256_add(h, t->layout->name, strlen(t->layout->name) + 1, err);
    if (!st)
        st = infq_sha256_add(h, text->data, text->n, err);
    if (!st)
        st = infq_sha256_add(h, t->labels.data, t->labels.n, err);
    if (!st)
        st = infq_sha256_end(h, t->digest, err);
    infq_sha256_free(h);
    return st;
}

infq_status infq_task_open(const char *spec, int64_t limit, infq_task **out, infq_err *err)
{
    infq_task *t = NULL;
    infq_buf text;
    char label[128];
    const char *path = split_spec(spec, label, sizeof(label));
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*t), "task", (void **)&t, err));
    memset(t, 0, sizeof(*t));
    infq_buf_init(&t->labels);
    infq_buf_init(&text);
    st = infq_arena_new((size_t)1 << 18, &t->arena, err);
    if (!st)
        st = infq_corpus_read(path, MAX_FILE, &text, err);
    if (st)
        goto done;
    st = load_labels(t, path, err);
    if (!st)
        st = read_rows(t, label, path, &text, limit, err);
    if (!st)
        st = digest_task(t, &text, err);
    if (st)
        infq_err_in(err, "%s", path);
done:
    infq_buf_deinit(&text);
    if (st)
        infq_task_free(t);
    else
        *out = t;
    return st;
}

void infq_task_free(infq_task *t)
{
    if (!t)
        return;
    infq_arena_free(t->arena);
    infq_mem_free(t->docs);
    infq_buf_deinit(&t->labels);
    infq_mem_free(t);
}

const char *infq_task_name(const infq_task *t)
{
    return t->name;
}

const char *infq_task_digest(const infq_task *t)
{
    return t->digest;
}

infq_task_kind infq_task_kind_of(const infq_task *t)
{
    return t->layout->kind;
}

const char *infq_task_metric(const infq_task *t)
{
    return t->layout->metric;
}

int64_t infq_task_count(const infq_task *t)
{
    return t->n;
}

const infq_doc *infq_task_get(const infq_task *t, int64_t i)
{
    return &t->docs[i];
}

infq_status infq_task_is_text(const char *spec, bool *is_text, infq_err *err)
{
    char label[128];
    const char *path = split_spec(spec, label, sizeof(label));
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = infq_corpus_read(path, MAX_FILE, &text, err);
    if (!st) {
        size_t n = infq_lstrip(text.data, text.n);
        *is_text = n < text.n && text.data[n] != '{';
    }
    infq_buf_deinit(&text);
    return st;
}
