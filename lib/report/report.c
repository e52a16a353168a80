#include "lib/report/report_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/report/words.h"

#define MAX_DOC ((size_t)1 << 28)

static const char *const verdict_names[] = {"", "pass", "fail", "undecided", "refused"};

const char *infq_report_verdict_name(infq_report_verdict v)
{
    return verdict_names[v];
}

infq_report_verdict infq_report_verdict_of(const char *name)
{
    if (!name)
        return INFQ_REPORT_NONE;
    if (strcmp(name, "met") == 0)
        return INFQ_REPORT_PASS;
    if (strcmp(name, "not met") == 0)
        return INFQ_REPORT_FAIL;
    for (int i = 1; i < 5; i++)
        if (strcmp(name, verdict_names[i]) == 0)
            return (infq_report_verdict)i;
    return INFQ_REPORT_NONE;
}

infq_report_options infq_report_options_default(void)
{
    return (infq_report_options){.max_flips = 100};
}

infq_status infq_report_new(const char *title, infq_report **out, infq_err *err)
{
    infq_report *r = NULL;
    char *copy;
    infq_status st = infq_mem_new(1, sizeof(*r), "report", (void **)&r, err);

    if (st)
        return st;
    memset(r, 0, sizeof(*r));
    st = infq_mem_new(1, sizeof(*r->store), "report", (void **)&r->store, err);
    if (!st) {
        memset(r->store, 0, sizeof(*r->store));
        st = infq_arena_new(65536, &r->store->arena, err);
    }
    if (!st)
        st = infq_arena_strdup(r->store->arena, title, &copy, err);
    if (st) {
        infq_report_free(r);
        return st;
    }
    r->title = copy;
    *out = r;
    return 0;
}

void infq_report_free(infq_report *r)
{
    if (!r)
        return;
    if (r->store) {
        for (int i = 0; i < r->store->n_docs; i++)
            cJSON_Delete(r->store->docs[i]);
        infq_arena_free(r->store->arena);
        infq_mem_free(r->store);
    }
    infq_mem_free(r);
}

infq_status infq_report_grow(infq_report *r, void *list, int *n, size_t size, void **entry, infq_err *err)
{
    void *old, *grown;

    memcpy(&old, list, sizeof(old));
    grown = old;
    if ((*n & (*n - 1)) == 0) { // room doubles at 1, 2, 4, ...; what is left behind lives in the arena until the end
        INFQ_TRY(infq_arena_calloc(r->store->arena, *n ? 2 * (size_t)*n : 1, size, "report", &grown, err));
        if (*n)
            memcpy(grown, old, (size_t)*n * size);
        memcpy(list, &grown, sizeof(grown));
    }
    *entry = (char *)grown + (size_t)*n * size;
    ++*n;
    return 0;
}

infq_status infq_report_model_get(infq_report *r, const char *name, const char *path, infq_report_model **out, infq_err *err)
{
    infq_report_model *m;

    for (int i = 0; i < r->n_models; i++) {
        m = &r->models[i];
        if (path && m->path ? strcmp(path, m->path) == 0 : strcmp(name, m->name) == 0) {
            m->path = m->path ? m->path : path;
            *out = m;
            return 0;
        }
    }
    INFQ_TRY(infq_report_grow(r, &r->models, &r->n_models, sizeof(*m), (void **)&m, err));
    *m = (infq_report_model){name, path, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, false, INFQ_REPORT_NONE};
    *out = m;
    return 0;
}

infq_status infq_report_setting(infq_report *r, const char *key, const char *value, infq_err *err)
{
    infq_report_pair *p;

    for (int i = 0; i < r->n_settings; i++)
        if (strcmp(r->settings[i].key, key) == 0 && strcmp(r->settings[i].value, value) == 0)
            return 0;
    INFQ_TRY(infq_report_grow(r, &r->settings, &r->n_settings, sizeof(*p), (void **)&p, err));
    *p = (infq_report_pair){key, value};
    return 0;
}

infq_status infq_report_check_add(infq_report *r, const char *group, const char *name, infq_report_verdict v, bool decides, infq_buf *text,
                                  infq_err *err)
{
    infq_report_check *c;
    infq_status st = infq_report_grow(r, &r->checks, &r->n_checks, sizeof(*c), (void **)&c, err);

    if (!st) {
        *c = (infq_report_check){group, name, "", v, decides};
        st = infq_report_text(r, text, &c->text, err);
    }
    infq_buf_deinit(text);
    return st;
}

infq_status infq_report_text(infq_report *r, const infq_buf *b, const char **out, infq_err *err)
{
    char *copy;

    INFQ_TRY(infq_buf_status(b, err));
    INFQ_TRY(infq_arena_strdup(r->store->arena, b->data, &copy, err));
    *out = copy;
    return 0;
}

infq_status infq_report_num(const cJSON *o, const char *key, double *out, infq_err *err)
{
    return infq_json_f64(o, key, NAN, out, err);
}

infq_status infq_report_int(const cJSON *o, const char *key, int64_t *out, infq_err *err)
{
    return infq_json_i64(o, key, 0, out, err);
}

infq_status infq_report_str(const cJSON *o, const char *key, const char **out, infq_err *err)
{
    return infq_json_str(o, key, NULL, out, err);
}

infq_status infq_report_interval(const cJSON *o, const char *key, double *lo, double *hi, infq_err *err)
{
    const cJSON *a = infq_json_get(o, key), *x = cJSON_GetArrayItem(a, 0), *y = cJSON_GetArrayItem(a, 1);

    *lo = *hi = NAN;
    if (!a)
        return 0;
    if (cJSON_GetArraySize(a) != 2)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is no pair of numbers", key);
    if (cJSON_IsNumber(x) && cJSON_IsNumber(y)) { // null where the interval is not known
        *lo = x->valuedouble;
        *hi = y->valuedouble;
    }
    return 0;
}

typedef struct {
    const char *schema;
    infq_status (*read)(infq_report *r, const cJSON *doc, infq_err *err);
} reader;
static const reader readers[] = {
    {"infq.eval.v1", infq_report_read_eval},   {"infq.gate.v1", infq_report_read_gate},
    {"infq.bench.v1", infq_report_read_bench}, {"infq.verify.v1", infq_report_read_verify},
    {"infq.run.v1", infq_report_read_run},
};

infq_status infq_report_add(infq_report *r, cJSON *doc, const char *what, infq_err *err)
{
    const char *schema = NULL;
    cJSON **slot;
    infq_status st = infq_report_grow(r, &r->store->docs, &r->store->n_docs, sizeof(*slot), (void **)&slot, err);

    if (st) {
        cJSON_Delete(doc);
        return st;
    }
    *slot = doc;
    if (!cJSON_IsObject(doc) || infq_json_str(doc, "schema", NULL, &schema, err) || !schema)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: is no result: an object with a schema is wanted", what);
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (strcmp(readers[i].schema, schema) == 0)
            return readers[i].read(r, doc, err) ? infq_err_in(err, "%s", what) : 0;
    }
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: schema %.60s is none that a report is made of", what, schema);
}

infq_status infq_report_add_file(infq_report *r, const char *path, infq_err *err)
{
    cJSON *doc = NULL;

    INFQ_TRY(infq_json_load(path, MAX_DOC, &doc, err));
    return infq_report_add(r, doc, path, err);
}

/* Front over size and score; over size and divergence when there are no scores. */
static infq_status mark_front(infq_report *r, infq_err *err)
{
    double *cost;
    bool *on, scores = false;
    size_t n = (size_t)r->n_models;

    if (n < 2)
        return 0;
    INFQ_TRY(infq_arena_alloc(r->store->arena, 2 * n, sizeof(*cost), "front", (void **)&cost, err));
    INFQ_TRY(infq_arena_alloc(r->store->arena, n, sizeof(*on), "front", (void **)&on, err));
    for (size_t i = 0; i < n; i++)
        scores = scores || !isnan(r->models[i].score);
    for (size_t i = 0; i < n; i++) {
        const infq_report_model *m = &r->models[i];
        cost[i] = m->bytes;
        cost[n + i] = scores ? m->score : i == 0 ? 0 : -m->kld; // the original lies at distance 0
    }
    infq_front(cost, cost + n, (int)n, on);
    for (size_t i = 0; i < n; i++)
        r->models[i].front = on[i];
    return 0;
}

/* The whole is what its worst part is. */
static void add_verdict(infq_report *r, infq_report_verdict v, const char *sentence)
{
    static const int rank[] = {0, 1, 3, 2, 4}; // none, pass, fail, undecided, refused
    const bool worse = rank[v] > rank[r->verdict];

    if (worse)
        r->verdict = v;
    if (sentence && (worse || !r->sentence))
        r->sentence = sentence;
}

infq_status infq_report_finish(infq_report *r, const infq_report_options *o, infq_err *err)
{
    if (o->items)
        r->store->items = o->items;
    INFQ_TRY(infq_report_find_flips(r, o, err));
    INFQ_TRY(mark_front(r, err));
    for (int i = 0; i < r->n_comparisons; i++) {
        infq_report_comparison *c = &r->comparisons[i];
        if (!c->sentence) {
            infq_buf b;
            infq_status st;
            infq_buf_init(&b);
            infq_comparison_sentence(c, &b);
            st = infq_report_text(r, &b, &c->sentence, err);
            infq_buf_deinit(&b);
            if (st)
                return st;
        }
        if (c->alone)
            add_verdict(r, c->verdict, c->sentence);
    }
    for (int i = 0; i < r->n_checks; i++)
        if (r->checks[i].decides)
            add_verdict(r, r->checks[i].verdict, r->checks[i].text);
    return 0;
}

static const infq_report_format formats[] = {
    {"html", ".html", infq_report_html},
    {"md", ".md", infq_report_markdown},
    {"xml", ".xml", infq_report_junit},
    {"json", ".json", infq_report_json},
};

const infq_report_format *infq_report_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const infq_report_format *infq_report_format_of_path(const char *path)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (infq_str_ends(path, formats[i].suffix))
            return &formats[i];
    return NULL;
}
