#include "lib/eval/item_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/arena.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/eval/corpus.h"

#define SCHEMA "infq.items/1"
#define MAX_FILE ((size_t)8 << 30)
#define MAX_CONTINUATIONS 4096

struct infq_item_log {
    FILE *f;
    char path[4096];
};

static const char *const kind_names[] = {"choice", "target", "generate", "window"};

infq_status infq_items_new(const infq_item_key *key, infq_items **out, infq_err *err)
{
    infq_items *s;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*s), "items", (void **)&s, err));
    memset(s, 0, sizeof(*s));
    s->key = *key;
    st = infq_arena_new((size_t)1 << 18, &s->arena, err);
    if (st)
        infq_mem_free(s);
    else
        *out = s;
    return st;
}

void infq_items_free(infq_items *s)
{
    if (!s)
        return;
    infq_arena_free(s->arena);
    infq_mem_free(s->items);
    infq_mem_free(s);
}

void infq_items_keep(infq_items *s, int64_t n)
{
    if (s->n > n)
        s->n = n;
}

int64_t infq_items_count(const infq_items *s)
{
    return s->n;
}

void infq_items_truncate(infq_items *s, int64_t n)
{
    if (n >= 0 && n < s->n)
        s->n = n;
}

infq_item *infq_items_get(const infq_items *s, int64_t i)
{
    return s->items[i];
}

const infq_item_key *infq_items_key(const infq_items *s)
{
    return &s->key;
}

/* The five arrays lie behind the item in one block: widest first. */
infq_status infq_items_add(infq_items *s, int64_t n, infq_item **out, infq_err *err)
{
    infq_item *it;
    size_t each = sizeof(double) + 3 * sizeof(int64_t) + sizeof(bool), n_bytes;
    char *block;

    if (n < 0 || n > MAX_CONTINUATIONS || !infq_mul_size((size_t)n, each, &n_bytes))
        return infq_err_set(err, INFQ_E_FORMAT, "%lld continuations in one item", (long long)n);
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * (size_t)s->cap : 256, size;
        void *p;
        if (!infq_mul_size(cap, sizeof(*s->items), &size) || !(p = infq_mem_realloc(s->items, size)))
            return infq_err_set(err, INFQ_E_NOMEM, "%zu items do not fit in memory", cap);
        s->items = p;
        s->cap = (int64_t)cap;
    }
    INFQ_TRY(infq_arena_calloc(s->arena, 1, sizeof(*it) + n_bytes, "item", (void **)&block, err));
    it = (infq_item *)block;
    it->n = n;
    it->gold = -1;
    it->parts = 1;
    it->ll = (double *)(block + sizeof(*it));
    it->n_tokens = (int64_t *)(it->ll + n);
    it->chars = it->n_tokens + n;
    it->bytes = it->chars + n;
    it->greedy = (bool *)(it->bytes + n);
    s->items[s->n++] = it;
    *out = it;
    return 0;
}

infq_status infq_items_add_copy(infq_items *s, const infq_item *it, infq_err *err)
{
    infq_item *c, own;

    INFQ_TRY(infq_items_add(s, it->n, &c, err));
    own = *c; // its arrays
    *c = *it;
    c->ll = own.ll;
    c->n_tokens = own.n_tokens;
    c->chars = own.chars;
    c->bytes = own.bytes;
    c->greedy = own.greedy;
    memcpy(c->ll, it->ll, (size_t)it->n * sizeof(*it->ll));
    memcpy(c->n_tokens, it->n_tokens, (size_t)it->n * sizeof(*it->n_tokens));
    memcpy(c->chars, it->chars, (size_t)it->n * sizeof(*it->chars));
    memcpy(c->bytes, it->bytes, (size_t)it->n * sizeof(*it->bytes));
    memcpy(c->greedy, it->greedy, (size_t)it->n * sizeof(*it->greedy));
    return it->truth ? infq_items_truth(s, c, it->truth, err) : 0;
}

infq_status infq_items_truth(infq_items *s, infq_item *it, const uint8_t *truth, infq_err *err)
{
    uint8_t *copy;

    INFQ_TRY(infq_arena_alloc(s->arena, (size_t)it->n, 1, "answers of an item", (void **)&copy, err));
    memcpy(copy, truth, (size_t)it->n);
    it->truth = copy;
    return 0;
}

infq_status infq_items_text(infq_items *s, const char *text, size_t n, const char **out, infq_err *err)
{
    char *copy;

    INFQ_TRY(infq_arena_alloc(s->arena, n + 1, 1, "text of an item", (void **)&copy, err));
    if (n > 0)
        memcpy(copy, text, n);
    copy[n] = '\0';
    *out = copy;
    return 0;
}

void infq_item_metric_add(infq_item *it, const char *name, double value)
{
    infq_item_metric *m = &it->metrics[it->n_metrics++];

    INFQ_BUG_ON(it->n_metrics > INFQ_ITEM_METRICS);
    snprintf(m->name, sizeof(m->name), "%s", name);
    m->value = value;
}

/* Index of the largest ll / length; a length of 0 counts as 1, as an empty choice has no length to share by. */
static int64_t best(const infq_item *it, const int64_t *length)
{
    int64_t at = 0;
    double top = -INFINITY;

    for (int64_t i = 0; i < it->n; i++) {
        double v = it->ll[i] / (length && length[i] > 0 ? (double)length[i] : 1);
        if (i == 0 || v > top) {
            top = v;
            at = i;
        }
    }
    return at;
}

static bool is_right(const infq_item *it, int64_t pick)
{
    return it->truth ? it->truth[pick] : pick == it->gold;
}

/* Share of probability on the right answers, relative to the likeliest so that nothing underflows as a whole. */
static double true_share(const infq_item *it)
{
    double right = 0, all = 0;

    for (int64_t i = 0; i < it->n; i++) {
        double p = exp(it->ll[i] - it->ll[it->pick]);
        all += p;
        right += it->truth[i] ? p : 0;
    }
    return right / all;
}

void infq_item_finish(infq_item *it)
{
    it->n_metrics = 0;
    it->pick = best(it, NULL);
    it->pick_norm = best(it, it->chars);
    it->pick_bytes = best(it, it->bytes);
    if (it->kind == INFQ_ITEM_CHOICE) {
        infq_item_metric_add(it, "acc", is_right(it, it->pick));
        infq_item_metric_add(it, "acc_norm", is_right(it, it->pick_norm));
        infq_item_metric_add(it, "acc_bytes", is_right(it, it->pick_bytes));
        if (it->truth)
            infq_item_metric_add(it, "mc2", true_share(it));
    } else {
        infq_item_metric_add(it, "acc", it->greedy[0]);
        infq_item_metric_add(it, "ll", it->ll[0]);
    }
}

bool infq_item_metric_get(const infq_item *it, const char *name, double *out)
{
    for (int i = 0; i < it->n_metrics; i++) {
        if (strcmp(it->metrics[i].name, name) == 0) {
            *out = it->metrics[i].value;
            return true;
        }
    }
    return false;
}

static void write_counts(infq_jw *w, const char *key, const int64_t *v, int64_t n)
{
    infq_jw_key(w, key);
    infq_jw_arr(w);
    for (int64_t i = 0; i < n; i++)
        infq_jw_i64(w, v[i]);
    infq_jw_end_arr(w);
}

/* Members of choice and target items between the request and the metrics. */
static void write_scores(const infq_item *it, infq_jw *w)
{
    if (it->kind == INFQ_ITEM_CHOICE)
        infq_jw_key_i64(w, "gold", it->gold);
    infq_jw_key(w, "ll");
    infq_jw_arr(w);
    for (int64_t i = 0; i < it->n; i++)
        infq_jw_f64(w, it->ll[i]);
    infq_jw_end_arr(w);
    write_counts(w, "tokens", it->n_tokens, it->n);
    infq_jw_key(w, "greedy");
    infq_jw_arr(w);
    for (int64_t i = 0; i < it->n; i++)
        infq_jw_bool(w, it->greedy[i]);
    infq_jw_end_arr(w);
    write_counts(w, "chars", it->chars, it->n);
    write_counts(w, "bytes", it->bytes, it->n);
    if (it->cut > 0)
        infq_jw_key_i64(w, "cut", it->cut);
    if (it->kind != INFQ_ITEM_CHOICE)
        return;
    if (it->truth) {
        infq_jw_key(w, "truth");
        infq_jw_arr(w);
        for (int64_t i = 0; i < it->n; i++)
            infq_jw_i64(w, it->truth[i]);
        infq_jw_end_arr(w);
    }
    infq_jw_key_i64(w, "pick", it->pick);
    infq_jw_key_i64(w, "pick_norm", it->pick_norm);
    infq_jw_key_i64(w, "pick_bytes", it->pick_bytes);
}

void infq_item_write(const infq_item *it, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key_i64(&w, "doc", it->doc);
    infq_jw_key_str(&w, "kind", kind_names[it->kind]);
    infq_jw_key_str(&w, "request", it->request);
    if (it->cluster[0])
        infq_jw_key_str(&w, "cluster", it->cluster);
    if (it->kind == INFQ_ITEM_GENERATE)
        infq_item_generate_write(it, &w);
    else if (it->kind == INFQ_ITEM_WINDOW)
        infq_item_window_write(it, &w);
    else
        write_scores(it, &w);
    infq_jw_key(&w, "metrics");
    infq_jw_obj(&w);
    for (int i = 0; i < it->n_metrics; i++)
        infq_jw_key_f64(&w, it->metrics[i].name, it->metrics[i].value);
    infq_jw_end_obj(&w);
    infq_jw_end_obj(&w);
}

typedef struct {
    const char *name;
    size_t offset, cap;
} key_field;

#define FIELD(f) {#f, offsetof(infq_item_key, f), sizeof(((infq_item_key *)0)->f)}
static const key_field key_fields[] = {FIELD(model), FIELD(model_digest), FIELD(task), FIELD(task_digest), FIELD(tokenizer),
                                       FIELD(metric), FIELD(settings)};
#define N_KEY_FIELDS (sizeof(key_fields) / sizeof(key_fields[0]))

static void write_key(const infq_item_key *key, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_arr(&w);
    infq_jw_str(&w, SCHEMA);
    infq_jw_obj(&w);
    for (size_t i = 0; i < N_KEY_FIELDS; i++) {
        infq_jw_key(&w, key_fields[i].name);
        infq_jw_str(&w, (const char *)key + key_fields[i].offset);
    }
    infq_jw_end_obj(&w);
    infq_jw_end_arr(&w);
}

static infq_status read_key(const cJSON *line, infq_item_key *key, infq_err *err)
{
    const cJSON *schema = cJSON_GetArrayItem(line, 0), *o = cJSON_GetArrayItem(line, 1);

    if (!cJSON_IsString(schema) || strcmp(schema->valuestring, SCHEMA) != 0 || !cJSON_IsObject(o))
        return infq_err_set(err, INFQ_E_FORMAT, "the first line is not [\"%s\", {...}]", SCHEMA);
    for (size_t i = 0; i < N_KEY_FIELDS; i++) {
        const char *v;
        INFQ_TRY(infq_json_str(o, key_fields[i].name, "", &v, err));
        if (strlen(v) >= key_fields[i].cap)
            return infq_err_set(err, INFQ_E_FORMAT, "%s is longer than %zu bytes", key_fields[i].name, key_fields[i].cap - 1);
        memset((char *)key + key_fields[i].offset, 0, key_fields[i].cap);
        strcpy((char *)key + key_fields[i].offset, v);
    }
    return 0;
}

// settings without what tells a run from others of one declared variation; the labels are those of infeval noise.
static void without_run(const char *s, char *out, size_t cap)
{
    static const char *const own[] = {"k_parts=", "seed=", "batch=", "order=", "carried"};
    const char *run = strstr(s, INFQ_SETTINGS_RUN);
    size_t n = run ? (size_t)(run - s) + strlen(INFQ_SETTINGS_RUN) : strlen(s);

    memcpy(out, s, n);
    for (const char *p = s + n; *p;) {
        size_t len = strcspn(p, " "), skip = 0;
        for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
            skip |= strncmp(p, own[i], strlen(own[i])) == 0;
        if (!skip && n + len + 1 < cap) {
            memcpy(out + n, p, len);
            n += len;
            out[n++] = ' ';
        }
        p += len + (p[len] == ' ');
    }
    out[n] = '\0';
}

bool infq_settings_comparable(const char *a, const char *b)
{
    char x[sizeof(((infq_item_key *)0)->settings) + 2], y[sizeof(x)];

    if (!a[0] || !b[0])
        return true;
    without_run(a, x, sizeof(x));
    without_run(b, y, sizeof(y));
    return strcmp(x, y) == 0;
}

const char *infq_first_difference(const char *a, const char *b)
{
    size_t i = 0;

    while (a[i] && a[i] == b[i])
        i++;
    while (i && a[i - 1] != ' ')
        i--;
    return a + (i < 40 ? 0 : i);
}

const char *infq_item_key_differs(const infq_item_key *a, const infq_item_key *b, const char **va, const char **vb)
{
    for (size_t i = 2; i < N_KEY_FIELDS; i++) {
        *va = (const char *)a + key_fields[i].offset;
        *vb = (const char *)b + key_fields[i].offset;
        bool same = key_fields[i].offset == offsetof(infq_item_key, settings) ? infq_settings_comparable(*va, *vb)
                                                                              : strcmp(*va, *vb) == 0;
        if ((*va)[0] && (*vb)[0] && !same)
            return key_fields[i].name;
    }
    return NULL;
}

static infq_status read_counts(const cJSON *o, const char *key, int64_t n, int64_t *out, infq_err *err)
{
    const cJSON *a = infq_json_get(o, key);

    if (!a)
        return 0;
    if (!cJSON_IsArray(a) || cJSON_GetArraySize(a) != n)
        return infq_err_set(err, INFQ_E_FORMAT, "%s has %d entries, ll has %lld", key, cJSON_GetArraySize(a), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const cJSON *v = cJSON_GetArrayItem(a, (int)i);
        if (cJSON_IsBool(v))
            out[i] = cJSON_IsTrue(v);
        else if (cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 9e15)
            out[i] = (int64_t)v->valuedouble;
        else
            return infq_err_set(err, INFQ_E_FORMAT, "%s holds something that is no count", key);
    }
    return 0;
}

static infq_status read_metrics(const cJSON *o, infq_item *it, infq_err *err)
{
    const cJSON *v;

    it->n_metrics = 0;
    cJSON_ArrayForEach(v, o) {
        if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
            return infq_err_set(err, INFQ_E_NUMERIC, "metric %.20s is no finite number", v->string);
        if (it->n_metrics == INFQ_ITEM_METRICS || strlen(v->string) >= sizeof(it->metrics[0].name))
            return infq_err_set(err, INFQ_E_FORMAT, "more than %d metrics, or a long name", INFQ_ITEM_METRICS);
        infq_item_metric_add(it, v->string, v->valuedouble);
    }
    return 0;
}

/* What choice and target items hold besides. */
static infq_status read_scores(infq_items *s, const cJSON *o, infq_item *it, infq_err *err)
{
    const cJSON *ll = infq_json_get(o, "ll");
    int64_t n = it->n, *flags = NULL;
    uint8_t *truth;
    infq_status st;

    INFQ_TRY(infq_json_i64(o, "gold", -1, &it->gold, err));
    INFQ_TRY(infq_json_i64(o, "pick", 0, &it->pick, err));
    INFQ_TRY(infq_json_i64(o, "pick_norm", 0, &it->pick_norm, err));
    INFQ_TRY(infq_json_i64(o, "pick_bytes", 0, &it->pick_bytes, err));
    for (int64_t i = 0; i < n; i++) {
        const cJSON *v = cJSON_GetArrayItem(ll, (int)i);
        if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
            return infq_err_set(err, INFQ_E_NUMERIC, "ll holds something that is no finite number");
        it->ll[i] = v->valuedouble;
    }
    INFQ_TRY(read_counts(o, "tokens", n, it->n_tokens, err));
    INFQ_TRY(read_counts(o, "chars", n, it->chars, err));
    INFQ_TRY(read_counts(o, "bytes", n, it->bytes, err));
    INFQ_TRY(infq_json_i64(o, "cut", 0, &it->cut, err));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*flags) + 1, "flags", (void **)&flags, err));
    truth = (uint8_t *)(flags + n);
    st = read_counts(o, "greedy", n, flags, err);
    for (int64_t i = 0; !st && i < n; i++)
        it->greedy[i] = flags[i] != 0;
    if (!st && infq_json_get(o, "truth")) {
        st = read_counts(o, "truth", n, flags, err);
        for (int64_t i = 0; !st && i < n; i++)
            truth[i] = flags[i] != 0;
        if (!st)
            st = infq_items_truth(s, it, truth, err);
    }
    infq_mem_free(flags);
    return st;
}

/* Our line. */
static infq_status read_item(infq_items *s, const cJSON *o, infq_err *err)
{
    const cJSON *ll = infq_json_get(o, "ll");
    const char *kind, *request, *cluster;
    infq_item *it;
    int64_t n = cJSON_IsArray(ll) ? cJSON_GetArraySize(ll) : -1;
    int k = INFQ_ITEM_WINDOW;

    INFQ_TRY(infq_json_str(o, "kind", "", &kind, err));
    INFQ_TRY(infq_json_str(o, "request", "", &request, err));
    INFQ_TRY(infq_json_str(o, "cluster", "", &cluster, err));
    while (k >= 0 && strcmp(kind, kind_names[k]) != 0)
        k--;
    if (k == INFQ_ITEM_GENERATE)
        n = 1;
    if (k == INFQ_ITEM_WINDOW)
        n = 0;
    else if (n < 1)
        return infq_err_set(err, INFQ_E_FORMAT, "ll is not a list of numbers");
    INFQ_TRY(infq_items_add(s, n, &it, err));
    INFQ_TRY(infq_json_i64(o, "doc", -1, &it->doc, err));
    if (k < 0 || it->doc < 0 || strlen(request) >= sizeof(it->request) || strlen(cluster) >= sizeof(it->cluster))
        return infq_err_set(err, INFQ_E_FORMAT, "kind, doc, request or cluster is missing or not as it should be");
    it->kind = (infq_item_kind)k;
    strcpy(it->request, request);
    strcpy(it->cluster, cluster);
    if (it->kind == INFQ_ITEM_GENERATE)
        INFQ_TRY(infq_item_generate_read(s, o, it, err));
    else if (it->kind == INFQ_ITEM_WINDOW)
        INFQ_TRY(infq_item_window_read(s, o, it, err));
    else
        INFQ_TRY(read_scores(s, o, it, err));
    return read_metrics(infq_json_get(o, "metrics"), it, err);
}

static infq_status read_line(infq_items *s, const char *line, size_t n, size_t number, const infq_items_options *from, infq_err *err)
{
    cJSON *o = NULL;
    char what[64];
    infq_status st;

    snprintf(what, sizeof(what), "line %zu", number);
    INFQ_TRY(infq_json_parse(line, n, what, &o, err));
    if (cJSON_IsArray(o) && number == 1)
        st = read_key(o, &s->key, err);
    else if (infq_json_get(o, "doc_id"))
        st = infq_sample_read(s, o, from, err);
    else
        st = read_item(s, o, err);
    cJSON_Delete(o);
    return st ? infq_err_in(err, "line %zu", number) : 0;
}

/* Reads complete lines; *end is the offset behind the last one. A last line without newline counts only if `last_too`. */
static infq_status read_lines(infq_items *s, const char *text, size_t n, bool last_too, const infq_items_options *o, size_t *end,
                              infq_err *err)
{
    size_t at = 0, number = 0;

    while (at < n) {
        const char *nl = memchr(text + at, '\n', n - at);
        size_t len = nl ? (size_t)(nl - text) - at : n - at;
        number++;
        if (!nl && !last_too)
            break;
        if (infq_rstrip(text + at, len) > 0)
            INFQ_TRY(read_line(s, text + at, len, number, o, err));
        at += len + (nl ? 1 : 0);
    }
    *end = at;
    return 0;
}

infq_items_options infq_items_options_default(void)
{
    return (infq_items_options){NULL, NULL};
}

infq_status infq_items_load(const char *path, infq_items **out, infq_err *err)
{
    infq_items_options o = infq_items_options_default();

    return infq_items_load_with(path, &o, out, err);
}

infq_status infq_items_load_with(const char *path, const infq_items_options *o, infq_items **out, infq_err *err)
{
    infq_item_key none;
    infq_items *s = NULL;
    infq_buf text;
    infq_status st;
    size_t end;

    memset(&none, 0, sizeof(none));
    infq_buf_init(&text);
    st = infq_items_new(&none, &s, err);
    if (!st)
        st = infq_corpus_read(path, MAX_FILE, &text, err);
    if (st)
        goto done;
    st = read_lines(s, text.data, text.n, true, o, &end, err);
    if (!st && s->n == 0 && o->filter)
        st = infq_err_set(err, INFQ_E_FORMAT, "holds no items of filter %s", o->filter);
    else if (!st && s->n == 0)
        st = infq_err_set(err, INFQ_E_FORMAT, "holds no items");
    if (!st && !s->key.task[0])
        infq_sample_task_of(path, s->key.task, sizeof(s->key.task));
    if (st)
        infq_err_in(err, "%s", path);
done:
    infq_buf_deinit(&text);
    if (st)
        infq_items_free(s);
    else
        *out = s;
    return st;
}

static infq_status not_ours(const char *path, infq_err *err)
{
    return infq_err_set(err, INFQ_E_EXISTS, "%s is there and is no item file of ours: remove it or name another", path);
}

/* The beginning of a first line that a killed run left unfinished; anything else without a newline is somebody's text. */
static bool is_torn_key(const char *text, size_t n)
{
    static const char begin[] = "[\"" SCHEMA "\"";
    size_t m = sizeof(begin) - 1;

    return memcmp(text, begin, n < m ? n : m) == 0;
}

/* Items of an interrupted run, if the file has the same key. *end: bytes to keep, 0 to begin anew. */
static infq_status take_up(const char *path, infq_items *s, size_t *end, infq_err *err)
{
    infq_items_options none = infq_items_options_default();
    infq_item_key want = s->key;
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = infq_file_read(path, MAX_FILE, &text, err);
    if (st || text.n == 0) {
        *end = 0;
        goto done;
    }
    if (!is_torn_key(text.data, text.n) || read_lines(s, text.data, text.n, false, &none, end, err)) {
        st = not_ours(path, err);
        goto done;
    }
    for (size_t i = 0; i < N_KEY_FIELDS && !st && *end > 0; i++) { // a torn first line leaves nothing to compare
        const char *a = (const char *)&s->key + key_fields[i].offset, *b = (const char *)&want + key_fields[i].offset;
        if (strcmp(a, b) != 0)
            st = infq_err_set(err, INFQ_E_EXISTS, "%s was made with another %s (%.60s, not %.60s): remove it or name another",
                              path, key_fields[i].name, a, b);
    }
done:
    s->key = want;
    infq_buf_deinit(&text);
    return st;
}

/* Opens the file for one writer at a time. A file system without locks does not notice a second one. */
static infq_status open_locked(const char *path, FILE **out, infq_err *err)
{
    struct stat sb;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);

    if (fd < 0)
        return infq_err_set(err, INFQ_E_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode)) {
        close(fd);
        return infq_err_set(err, INFQ_E_EXISTS, "%s: not a regular file", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return infq_err_set(err, INFQ_E_EXISTS, "%s is being written by another process", path);
    }
    *out = fdopen(fd, "r+b");
    if (!*out) {
        close(fd);
        return infq_err_set(err, INFQ_E_NOMEM, "%s", path);
    }
    return 0;
}

/* Cuts what is behind `end`; writes the first line of a new file. */
static infq_status begin_at(infq_item_log *l, const infq_item_key *key, size_t end, infq_err *err)
{
    infq_buf line;
    infq_status st = 0;

    if (ftruncate(fileno(l->f), (off_t)end) || fseeko(l->f, (off_t)end, SEEK_SET))
        return infq_err_set(err, INFQ_E_IO, "%s: %s", l->path, strerror(errno));
    if (end > 0)
        return 0;
    infq_buf_init(&line);
    write_key(key, &line);
    infq_buf_char(&line, '\n');
    st = infq_buf_status(&line, err);
    if (!st && (fwrite(line.data, 1, line.n, l->f) != line.n || fflush(l->f)))
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", l->path, strerror(errno));
    infq_buf_deinit(&line);
    return st;
}

infq_status infq_item_log_open(const char *path, infq_items *s, infq_item_log **out, infq_err *err)
{
    infq_item_log *l = NULL;
    infq_status st;
    size_t end = 0;

    if (strlen(path) >= sizeof(l->path))
        return infq_err_set(err, INFQ_E_IO, "%s: the path is too long", path);
    INFQ_TRY(infq_mem_new(1, sizeof(*l), "item file", (void **)&l, err));
    strcpy(l->path, path);
    st = open_locked(path, &l->f, err);
    if (!st)
        st = take_up(path, s, &end, err);
    if (!st)
        st = begin_at(l, &s->key, end, err);
    if (st) {
        if (l->f)
            fclose(l->f);
        infq_mem_free(l);
        return st;
    }
    *out = l;
    return 0;
}

infq_status infq_item_log_add(infq_item_log *l, const infq_item *it, infq_err *err)
{
    infq_buf line;
    infq_status st;

    infq_buf_init(&line);
    infq_item_write(it, &line);
    infq_buf_char(&line, '\n');
    st = infq_buf_status(&line, err);
    if (!st && (fwrite(line.data, 1, line.n, l->f) != line.n || fflush(l->f)))
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", l->path, strerror(errno));
    infq_buf_deinit(&line);
    return st;
}

infq_status infq_item_log_close(infq_item_log *l, infq_err *err)
{
    infq_status st = 0;

    if (!l)
        return 0;
    if (fflush(l->f) || fsync(fileno(l->f)))
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", l->path, strerror(errno));
    fclose(l->f);
    infq_mem_free(l);
    return st;
}
