#include "lib/eval/task.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/eval/task_int.h"

struct infq_task {
    infq_arena *arena;
    infq_doc *docs;
    int64_t n, cap;
    infq_task_kind kind;
    int64_t shots;
    infq_task_generation generation;
    char name[128], metric[24], digest[65], path[1024];
};

infq_task_options infq_task_options_default(void)
{
    return (infq_task_options){.shots = -1, .fewshot_seed = -1};
}

static infq_status add_doc(infq_task *t, const infq_doc *d, infq_err *err)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * (size_t)t->cap : 256, n_bytes;
        void *p;
        if (!infq_mul_size(cap, sizeof(*t->docs), &n_bytes) || !(p = infq_mem_realloc(t->docs, n_bytes)))
            return infq_err_set(err, INFQ_E_NOMEM, "%zu items do not fit in memory", cap);
        t->docs = p;
        t->cap = (int64_t)cap;
    }
    t->docs[t->n++] = *d;
    return 0;
}

static infq_status join_texts(infq_arena *a, const char *one, const char *two, const char **out, size_t *n, infq_err *err)
{
    char *p;

    *n = strlen(one) + strlen(two);
    INFQ_TRY(infq_arena_alloc(a, *n + 1, 1, "text of an item", (void **)&p, err));
    snprintf(p, *n + 1, "%s%s", one, two);
    *out = p;
    return 0;
}

/* Requests of a rendered row behind `front`. */
static infq_status make_doc(infq_arena *a, const row_prompt *p, const row_text *row, const char *front, infq_doc *d, infq_err *err)
{
    d->gold = row->gold;
    d->truth = row->truth;
    d->n_requests = row->n;
    INFQ_TRY(infq_arena_calloc(a, (size_t)row->n, sizeof(*d->requests), "choices", (void **)&d->requests, err));
    for (int64_t i = 0; i < row->n; i++) {
        infq_request *r = &d->requests[i];
        const char *measured = p->by_context ? row->contexts[i] : row->choices[i];
        if (i > 0 && row->contexts[i] == row->contexts[i - 1]) {
            r->context = d->requests[i - 1].context;
            r->n_context = d->requests[i - 1].n_context;
        } else {
            INFQ_TRY(join_texts(a, front, row->contexts[i], &r->context, &r->n_context, err));
        }
        INFQ_TRY(join_texts(a, row->delimiters[i], row->choices[i], &r->continuation, &r->n_continuation, err));
        r->bytes = (int64_t)strlen(measured);
        r->chars = (int64_t)infq_utf8_count(measured, (size_t)r->bytes);
    }
    return 0;
}

static infq_status digest_doc(infq_sha256 *h, const infq_doc *d, infq_err *err)
{
    uint8_t head[4];

    infq_store_u32le(head, (uint32_t)d->n_requests);
    INFQ_TRY(infq_sha256_add(h, head, 4, err));
    for (int64_t i = 0; i < d->n_requests; i++) {
        const infq_request *r = &d->requests[i];
        bool right = d->truth ? d->truth[i] : d->gold == i;
        uint8_t n[4][4];
        infq_store_u32le(n[0], (uint32_t)r->n_context);
        infq_store_u32le(n[1], (uint32_t)r->n_continuation);
        infq_store_u32le(n[2], (uint32_t)r->bytes);
        infq_store_u32le(n[3], right);
        INFQ_TRY(infq_sha256_add(h, n, sizeof(n), err));
        INFQ_TRY(infq_sha256_add(h, r->context, r->n_context, err));
        INFQ_TRY(infq_sha256_add(h, r->continuation, r->n_continuation, err));
    }
    return d->row ? infq_sha256_add(h, d->row, strlen(d->row) + 1, err) : 0; // answers may be judged by it
}

static infq_status check_id(infq_map *ids, infq_arena *a, const char *id, int64_t doc, infq_err *err)
{
    char *copy;
    int64_t other;

    if (!id[0])
        return 0;
    INFQ_TRY(infq_arena_strdup(a, id, &copy, err));
    other = infq_map_put(ids, copy, strlen(copy), doc);
    if (other == -2)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for ids");
    return other < 0 ? 0 : infq_err_set(err, INFQ_E_FORMAT, "id %.60s is that of item %lld too", id, (long long)other);
}

typedef struct {
    infq_task *t;
    task_examples *x;
    const infq_task_options *o;
    infq_sha256 *hash;
    infq_map *ids;
    infq_arena *spare;   /* of items beyond the limit */
} item_job;

/* Item `doc` from its row; kept while within the limit, hashed in any case. */
static infq_status add_item(item_job *j, row_source *s, const row_text *row, const char *json, int64_t doc, infq_err *err)
{
    bool keep = j->o->limit == 0 || doc < j->o->limit;
    infq_arena *a = keep ? j->t->arena : j->spare;
    infq_doc d = {.doc = doc, .row = json};
    infq_buf front;
    infq_status st = 0;

    infq_buf_init(&front);
    if (s->prompt.description)
        st = infq_prompt_text(s->prompt.description, s->fields, &front, err);
    if (!st)
        st = infq_examples_put(j->x, doc, &front, err);
    if (!st)
        st = check_id(j->ids, j->spare, row->id, doc, err);
    if (!st && row->cluster[0]) {
        char hex[65];
        st = infq_sha256_of(row->cluster, strlen(row->cluster), hex, err);
        snprintf(d.cluster, sizeof(d.cluster), "%.16s", hex);
    }
    if (!st)
        st = make_doc(a, &s->prompt, row, front.data, &d, err);
    if (!st)
        st = digest_doc(j->hash, &d, err);
    if (!st && keep)
        st = add_doc(j->t, &d, err);
    infq_buf_deinit(&front);
    return st;
}

static infq_status read_items(item_job *j, row_source *s, infq_err *err)
{
    bool end = false;

    for (int64_t doc = 0; !end; doc++) {
        bool keep = j->o->limit == 0 || doc < j->o->limit;
        const char *json;
        char where[32];
        row_text row;
        infq_status st = infq_source_next(s, keep ? j->t->arena : j->spare, &row, &json, where, &end, err);
        if (!st && !end) {
            st = add_item(j, s, &row, json, doc, err);
            if (st)
                infq_err_in(err, "%s: %s", s->path, where);
        }
        INFQ_TRY(st);
    }
    return j->t->n > 0 ? 0 : infq_err_set(err, INFQ_E_FORMAT, "%s: holds no items", s->path);
}

/* All that texts and judgements depend on. */
static infq_status digest_generation(const infq_task_generation *g, infq_sha256 *h, infq_err *err)
{
    const infq_answer_regex *x = &g->regex;
    char head[96];

    snprintf(head, sizeof(head), "%lld %d %d%d%d%d %d %d", (long long)g->max_tokens, g->chat, x->last, x->ignore_case,
             x->ignore_punctuation, x->any, g->n_stops, x->n_ignore);
    INFQ_TRY(infq_sha256_add(h, head, strlen(head) + 1, err));
    INFQ_TRY(infq_sha256_add(h, g->extract, strlen(g->extract) + 1, err));
    if (x->pattern)
        INFQ_TRY(infq_sha256_add(h, x->pattern, strlen(x->pattern) + 1, err));
    for (int i = 0; i < g->n_stops; i++)
        INFQ_TRY(infq_sha256_add(h, g->stops[i], strlen(g->stops[i]) + 1, err));
    for (int i = 0; i < x->n_ignore; i++)
        INFQ_TRY(infq_sha256_add(h, x->ignore[i], strlen(x->ignore[i]) + 1, err));
    return 0;
}

static infq_status begin_digest(const infq_task *t, infq_sha256 **out, infq_err *err)
{
    const char *kind = infq_task_kind_names[t->kind];


    INFQ_TRY(infq_sha256_new(out, err));
    INFQ_TRY(infq_sha256_add(*out, kind, strlen(kind) + 1, err));
    return t->kind == INFQ_TASK_GENERATE ? digest_generation(&t->generation, *out, err) : 0;
}

/* Everything but the name, from an opened source. */
infq_status infq_task_fill(infq_task *t, row_source *s, task_examples *x, const infq_task_options *o, infq_err *err)
{
    item_job j = {.t = t, .x = x, .o = o};
    infq_status st = begin_digest(t, &j.hash, err);

    memcpy(t->path, s->path, sizeof(t->path));
    if (!st)
        st = infq_arena_new((size_t)1 << 18, &j.spare, err);
    if (!st)
        st = infq_map_new(1024, &j.ids, err);
    if (!st)
        st = read_items(&j, s, err);
    if (!st)
        st = infq_sha256_end(j.hash, t->digest, err);
    infq_sha256_free(j.hash);
    infq_map_free(j.ids);
    infq_arena_free(j.spare);
    return st;
}

static infq_status copy_text(infq_task *t, const char *s, const char **out, infq_err *err)
{
    char *copy = NULL;

    if (s)
        INFQ_TRY(infq_arena_strdup(t->arena, s, &copy, err));
    *out = copy;
    return 0;
}

static infq_status copy_texts(infq_task *t, const cJSON *list, const char *const **out, int *n, infq_err *err)
{
    const char **v;

    *n = 0;
    for (const cJSON *e = infq_yaml_first(list); e; e = infq_yaml_next(list, e))
        ++*n;
    INFQ_TRY(infq_arena_alloc(t->arena, (size_t)*n + 1, sizeof(*v), "texts of a task", (void **)&v, err));
    *out = v;
    for (const cJSON *e = infq_yaml_first(list); e; e = infq_yaml_next(list, e))
        INFQ_TRY(copy_text(t, e->valuestring, v++, err));
    return 0;
}

static infq_status copy_generation(infq_task *t, const infq_task_generate *g, infq_err *err)
{
    infq_task_generation *to = &t->generation;

    to->max_tokens = g->max_tokens;
    to->chat = g->chat;
    to->regex.last = g->pick == 1;
    to->regex.ignore_case = g->ignore_case;
    to->regex.ignore_punctuation = g->ignore_punctuation;
    to->regex.any = g->any;
    INFQ_TRY(copy_text(t, g->extract, &to->extract, err));
    INFQ_TRY(copy_text(t, g->pattern, &to->regex.pattern, err));
    INFQ_TRY(copy_texts(t, g->ignore, &to->regex.ignore, &to->regex.n_ignore, err));
    return copy_texts(t, g->stop, &to->stops, &to->n_stops, err);
}

infq_status infq_task_new(const infq_manifest *m, const infq_task_options *o, infq_task **out, infq_err *err)
{
    infq_task *t;
    infq_status st;

    if (m->kind == INFQ_TASK_TEXT)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s is a text, which has no items of its own", m->name);
    INFQ_TRY(infq_mem_new(1, sizeof(*t), "task", (void **)&t, err));
    t->kind = m->kind;
    t->shots = o->shots >= 0 ? o->shots : m->fewshot.count;
    snprintf(t->metric, sizeof(t->metric), "%s", m->metric);
    st = infq_arena_new((size_t)1 << 18, &t->arena, err);
    if (!st && t->kind == INFQ_TASK_GENERATE)
        st = copy_generation(t, &m->generate, err);
    if (st)
        infq_task_free(t);
    else
        *out = t;
    return st;
}

typedef struct {
    infq_task *t;
    task_examples *x;
    const infq_manifest *m;
    const infq_task_options *o;
} task_job;

static infq_status load_items(void *ctx, const infq_task_file *f, const char *path, infq_err *err)
{
    task_job *j = ctx;
    row_source s;
    infq_status st;

    INFQ_TRY(infq_source_open(&s, j->m, f, path, true, j->o, err));
    st = infq_task_fill(j->t, &s, j->x, j->o, err);
    infq_source_close(&s);
    return st;
}

infq_status infq_task_open_manifest(const infq_manifest *m, const infq_data_dirs *dirs, const infq_task_options *o, infq_task **out,
                                    infq_err *err)
{
    infq_task *t = NULL;
    task_examples x;
    infq_status st;

    INFQ_TRY(infq_task_new(m, o, &t, err));
    snprintf(t->name, sizeof(t->name), "%s", m->name);
    st = infq_examples_open(&x, m, dirs, o, t->shots, err);
    if (!st) {
        st = infq_with_split(m, m->split, dirs, load_items, &(task_job){t, &x, m, o}, err);
        infq_examples_free(&x);
    }
    if (st)
        infq_task_free(t);
    else
        *out = t;
    return st;
}

void infq_task_set_name(infq_task *t, const char *name)
{
    snprintf(t->name, sizeof(t->name), "%s", name);
}

void infq_task_free(infq_task *t)
{
    if (!t)
        return;
    infq_arena_free(t->arena);
    infq_mem_free(t->docs);
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
    return t->kind;
}

const char *infq_task_path(const infq_task *t)
{
    return t->path;
}

const char *infq_task_metric_get(const infq_task *t, int k)
{
    static const char *const of_choice[] = {"acc", "acc_norm", "acc_bytes", "mc2"}, *const of_target[] = {"acc", "ll"};

    if (t->kind == INFQ_TASK_GENERATE)
        return infq_answers_metric(t->generation.extract, k);
    if (t->kind == INFQ_TASK_CHOICE)
        return k >= 0 && k < (t->docs[0].truth ? 4 : 3) ? of_choice[k] : NULL;
    return k >= 0 && k < 2 ? of_target[k] : NULL;
}

infq_status infq_task_metric_check(const infq_task *t, const char *metric, infq_err *err)
{
    char known[160] = "";
    size_t n = 0;

    for (int k = 0; infq_task_metric_get(t, k); k++) {
        const char *name = infq_task_metric_get(t, k);
        if (strcmp(name, metric) == 0)
            return 0;
        if (n + strlen(name) + 3 < sizeof(known))
            n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", k ? ", " : "", name);
    }
    return infq_err_set(err, INFQ_E_USAGE, "%.60s has no metric %.30s: %s", t->name, metric, known);
}

const char *infq_task_metric(const infq_task *t)
{
    return t->metric;
}

const infq_task_generation *infq_task_generation_of(const infq_task *t)
{
    return t->kind == INFQ_TASK_GENERATE ? &t->generation : NULL;
}

const char *infq_doc_target(const infq_doc *d)
{
    return d->requests[0].continuation + (d->requests[0].n_continuation - (size_t)d->requests[0].bytes);
}

int64_t infq_task_count(const infq_task *t)
{
    return t->n;
}

const infq_doc *infq_task_get(const infq_task *t, int64_t i)
{
    return &t->docs[i];
}
