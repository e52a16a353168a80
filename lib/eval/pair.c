#include "lib/eval/pair.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/eval/stats.h"

/* Items of one run in the order of their documents. */
typedef struct {
    const infq_item **it;
    int64_t n;
} ordered;

static int by_doc(const void *a, const void *b)
{
    const infq_item *x = *(const infq_item *const *)a, *y = *(const infq_item *const *)b;

    return (x->doc > y->doc) - (x->doc < y->doc);
}

static infq_status order_items(const infq_items *s, const char *side, ordered *out, infq_err *err)
{
    int64_t n = infq_items_count(s);

    out->n = n;
    INFQ_TRY(infq_mem_new((size_t)(n > 0 ? n : 1), sizeof(*out->it), "items in order", (void **)&out->it, err));
    for (int64_t i = 0; i < n; i++)
        out->it[i] = infq_items_get(s, i);
    qsort(out->it, (size_t)n, sizeof(*out->it), by_doc);
    for (int64_t i = 1; i < n; i++)
        if (out->it[i]->doc == out->it[i - 1]->doc)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: document %lld is there twice (%s)", (long long)out->it[i]->doc, side);
    return 0;
}

/* settings: whether they must be equal, too. */
static infq_status same_key(const infq_items *a, const infq_items *b, bool settings, infq_err *err)
{
    infq_item_key x = *infq_items_key(a), y = *infq_items_key(b);
    const char *va, *vb, *field;

    if (!settings)
        x.settings[0] = '\0';
    field = infq_item_key_differs(&x, &y, &va, &vb);
    if (field)
        return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: %s differs: %.80s and %.80s", field,
                            infq_first_difference(va, vb), infq_first_difference(vb, va));
    return 0;
}

static infq_status same_documents(const ordered *a, const ordered *b, infq_err *err)
{
    int64_t n = a->n < b->n ? a->n : b->n;

    for (int64_t i = 0; i < n; i++) {
        const infq_item *x = a->it[i], *y = b->it[i];
        if (x->doc != y->doc)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: document %lld is on one side only",
                                (long long)(x->doc < y->doc ? x->doc : y->doc));
        if (strcmp(x->request, y->request) != 0)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: document %lld was asked with other tokens (%.16s and %.16s)",
                                (long long)x->doc, x->request, y->request);
        if (x->gold != y->gold || x->kind != y->kind || x->n != y->n)
            return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: document %lld differs in kind, choices or answer",
                                (long long)x->doc);
    }
    if (a->n != b->n)
        return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: %lld items and %lld items", (long long)a->n, (long long)b->n);
    return 0;
}

/* Adds one run's scores to sum[n]; *binary stays true while all are 0 or 1. */
static infq_status add_run(const ordered *run, const char *metric, double *sum, double *score, bool *binary, infq_err *err)
{
    double total = 0;

    for (int64_t i = 0; i < run->n; i++) {
        double v;
        if (!infq_item_metric_get(run->it[i], metric, &v))
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "document %lld has no metric %s", (long long)run->it[i]->doc, metric);
        if (!isfinite(v))
            return infq_err_set(err, INFQ_E_NUMERIC, "document %lld: %s is not finite", (long long)run->it[i]->doc, metric);
        *binary = *binary && (v == 0 || v == 1);
        sum[i] += v;
        total += v; // exact for 0/1; the mean of graded scores is taken from the items below
    }
    *score = total / (double)run->n;
    return 0;
}

/* Whether two values of a column of runs differ, counted over all pairs. */
static double differing(const double *v, int runs)
{
    double k = 0;

    for (int i = 0; i < runs; i++)
        for (int j = 0; j < i; j++)
            k += v[i] != v[j];
    return k;
}

static void self_flips(infq_pair *p, const ordered *a)
{
    double k = 0, v[64];
    int runs = p->runs_a < 64 ? p->runs_a : 64;

    p->flip_rate_a = NAN;
    if (runs < 2)
        return;
    for (int64_t i = 0; i < p->n; i++) {
        for (int j = 0; j < runs; j++)
            infq_item_metric_get(a[j].it[i], p->metric, &v[j]);
        k += differing(v, runs);
    }
    p->flip_rate_a = k / ((double)p->n * runs * (runs - 1) / 2);
}

/* Two-way decomposition of the differences. */
static infq_status cross(infq_pair *p, const ordered *a, const ordered *b, infq_err *err)
{
    int runs = p->runs_a;
    double *d = NULL, sign = infq_metric_sign(p->metric);

    p->crossed = infq_crossed_of(NULL, 0, 0);
    if (runs < 2 || runs != p->runs_b)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)p->n * (size_t)runs, sizeof(*d), "differences of runs", (void **)&d, err));
    for (int64_t i = 0; i < p->n; i++) {
        for (int j = 0; j < runs; j++) {
            double x = 0, y = 0;
            infq_item_metric_get(a[j].it[i], p->metric, &x);
            infq_item_metric_get(b[j].it[i], p->metric, &y);
            d[i * runs + j] = sign * (y - x);
        }
    }
    p->crossed = infq_crossed_of(d, p->n, runs);
    infq_mem_free(d);
    return 0;
}

static const char *const mark_names[3] = {"invalid", "truncated", "length"};

/* Marks of the first runs; a metric that one item lacks is not known at all. */
static infq_status take_marks(infq_pair *p, const ordered *a, const ordered *b, infq_err *err)
{
    for (int k = 0; k < 6; k++) {
        const ordered *run = k < 3 ? a : b;
        bool known = true;
        INFQ_TRY(infq_mem_new((size_t)p->n, sizeof(double), "marks of answers", (void **)&p->marks[k], err));
        for (int64_t i = 0; i < p->n && known; i++)
            known = infq_item_metric_get(run->it[i], mark_names[k % 3], &p->marks[k][i]);
        if (!known) {
            infq_mem_free(p->marks[k]);
            p->marks[k] = NULL;
        }
    }
    return 0;
}

static infq_pair_mark count_mark(const double *x, const double *y, int64_t n)
{
    infq_pair_mark m = {0};

    m.known = x && y;
    for (int64_t i = 0; i < n && m.known; i++) {
        m.a += x[i] != 0;
        m.b += y[i] != 0;
        m.lost += x[i] == 0 && y[i] != 0;
        m.won += x[i] != 0 && y[i] == 0;
    }
    return m;
}

/* Figures that follow from the marks. */
static void count_marks(infq_pair *p)
{
    double z = infq_norm_quantile(0.975);
    infq_ratio r = {NAN, NAN};

    p->invalid = count_mark(p->marks[0], p->marks[3], p->n);
    p->truncated = count_mark(p->marks[1], p->marks[4], p->n);
    if (p->marks[2] && p->marks[5])
        r = infq_ratio_of(p->marks[5], p->marks[2], p->n);
    p->has_length = isfinite(r.r);
    p->length_ratio = r.r;
    p->length_lo = r.r - z * r.se;
    p->length_hi = r.r + z * r.se;
}

/* Numbers the clusters of the items; items without one stay alone. */
static infq_status clusters(infq_pair *p, const ordered *a, infq_err *err)
{
    bool any = false;
    int64_t alone = -1;

    for (int64_t i = 0; i < p->n; i++)
        any = any || a->it[i]->cluster[0];
    if (!any)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)p->n, sizeof(*p->cluster), "clusters", (void **)&p->cluster, err));
    for (int64_t i = 0; i < p->n; i++) {
        // 60 bits of the digest; negative numbers are left for items that stand alone
        p->cluster[i] = a->it[i]->cluster[0] ? (int64_t)(strtoull(a->it[i]->cluster, NULL, 16) >> 4) : alone--;
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static infq_status count_clusters(infq_pair *p, infq_err *err)
{
    int64_t *c = NULL;

    p->n_clusters = p->n;
    if (!p->cluster)
        return 0;
    INFQ_TRY(infq_mem_new((size_t)p->n, sizeof(*c), "clusters", (void **)&c, err));
    memcpy(c, p->cluster, (size_t)p->n * sizeof(*c));
    qsort(c, (size_t)p->n, sizeof(*c), by_number);
    p->n_clusters = 1;
    for (int64_t i = 1; i < p->n; i++)
        p->n_clusters += c[i] != c[i - 1];
    infq_mem_free(c);
    return 0;
}

static infq_status alloc_pair(const infq_items *a, int64_t n, int runs_a, int runs_b, infq_pair **out, infq_err *err)
{
    const infq_item_key *key = infq_items_key(a);
    infq_pair *p = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*p), "pair", (void **)&p, err));
    memset(p, 0, sizeof(*p));
    p->n = n;
    p->runs_a = runs_a;
    p->runs_b = runs_b;
    memcpy(p->task, key->task, sizeof(p->task));
    memcpy(p->task_digest, key->task_digest, sizeof(p->task_digest));
    memcpy(p->tokenizer, key->tokenizer, sizeof(p->tokenizer));
    memcpy(p->settings, key->settings, sizeof(p->settings));
    st = infq_mem_new(3 * (size_t)n + (size_t)(runs_a + runs_b), sizeof(double), "paired scores", (void **)&p->x, err);
    if (!st)
        st = infq_mem_new((size_t)n, sizeof(*p->doc), "documents", (void **)&p->doc, err);
    if (st) {
        infq_pair_free(p);
        return st;
    }
    memset(p->x, 0, (3 * (size_t)n + (size_t)(runs_a + runs_b)) * sizeof(double));
    p->y = p->x + n;
    p->d = p->y + n;
    p->scores_a = p->d + n;
    p->scores_b = p->scores_a + runs_a;
    *out = p;
    return 0;
}

double infq_metric_sign(const char *metric)
{
    static const char *const names[] = {"brier", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "invalid", "truncated"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(metric, names[i]) == 0)
            return -1;
    return 1;
}

/* runs: a's, then b's, in order. */
static infq_status fill(infq_pair *p, const ordered *runs, infq_err *err)
{
    const ordered *a = runs, *b = runs + p->runs_a;
    double sign = infq_metric_sign(p->metric);
    bool binary = sign > 0;

    for (int j = 0; j < p->runs_a + p->runs_b; j++) {
        bool first = j < p->runs_a;
        INFQ_TRY(same_documents(&runs[0], &runs[j], err));
        INFQ_TRY(add_run(&runs[j], p->metric, first ? p->x : p->y, &p->scores_a[j], &binary, err));
        p->scores_a[j] *= sign;
    }
    for (int64_t i = 0; i < p->n; i++) {
        p->x[i] *= sign / p->runs_a;
        p->y[i] *= sign / p->runs_b;
        p->d[i] = p->y[i] - p->x[i];
        p->doc[i] = a->it[i]->doc;
    }
    p->binary = binary && p->runs_a == 1 && p->runs_b == 1;
    self_flips(p, a);
    INFQ_TRY(cross(p, a, b, err));
    INFQ_TRY(take_marks(p, a, b, err));
    count_marks(p);
    INFQ_TRY(clusters(p, a, err));
    return count_clusters(p, err);
}

infq_status infq_pair_new(const infq_items *const *a, int runs_a, const infq_items *const *b, int runs_b, const char *metric,
                          infq_pair **out, infq_err *err)
{
    const infq_item_key *key = infq_items_key(a[0]), *other = infq_items_key(b[0]);
    int n_runs = runs_a + runs_b;
    ordered *runs = NULL;
    infq_pair *p = NULL;
    infq_status st;

    if (runs_a < 1 || runs_b < 1)
        return infq_err_set(err, INFQ_E_USAGE, "a side without a run cannot be compared");
    for (int j = 0; j < n_runs; j++)
        INFQ_TRY(same_key(a[0], j < runs_a ? a[j] : b[j - runs_a], j == runs_a || (j > runs_a && runs_a == 1), err));
    if (infq_items_count(a[0]) == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "no items to compare");
    INFQ_TRY(infq_mem_new((size_t)n_runs, sizeof(*runs), "runs", (void **)&runs, err));
    memset(runs, 0, (size_t)n_runs * sizeof(*runs));
    st = alloc_pair(a[0], infq_items_count(a[0]), runs_a, runs_b, &p, err);
    for (int j = 0; j < n_runs && !st; j++)
        st = order_items(j < runs_a ? a[j] : b[j - runs_a], j < runs_a ? "original" : "compressed", &runs[j], err);
    if (!st) {
        snprintf(p->metric, sizeof(p->metric), "%s", metric ? metric : key->metric[0] ? key->metric : "acc");
        memcpy(p->model_a, key->model, sizeof(p->model_a));
        memcpy(p->model_b, other->model, sizeof(p->model_b));
        memcpy(p->digest_a, key->model_digest, sizeof(p->digest_a));
        memcpy(p->digest_b, other->model_digest, sizeof(p->digest_b));
        st = fill(p, runs, err);
    }
    for (int j = 0; j < n_runs; j++)
        infq_mem_free(runs[j].it);
    infq_mem_free(runs);
    if (st)
        infq_pair_free(p);
    else
        *out = p;
    return st;
}

void infq_pair_free(infq_pair *p)
{
    if (!p)
        return;
    infq_mem_free(p->x);
    infq_mem_free(p->doc);
    infq_mem_free(p->cluster);
    for (int k = 0; k < 6; k++)
        infq_mem_free(p->marks[k]);
    infq_mem_free(p);
}

infq_status infq_pair_set_clusters(infq_pair *p, char *const *names, int64_t n_names, infq_err *err)
{
    infq_map *map = NULL;
    infq_status st;

    if (!p->cluster)
        INFQ_TRY(infq_mem_new((size_t)p->n, sizeof(*p->cluster), "clusters", (void **)&p->cluster, err));
    INFQ_TRY(infq_map_new((size_t)n_names, &map, err));
    st = 0;
    for (int64_t i = 0; i < p->n && !st; i++) {
        int64_t doc = p->doc[i], first;
        if (doc >= n_names || !names[doc][0]) {
            st = infq_err_set(err, INFQ_E_FORMAT, "document %lld has no cluster", (long long)doc);
            break;
        }
        first = infq_map_put(map, names[doc], strlen(names[doc]), doc);
        if (first == -2)
            st = infq_err_set(err, INFQ_E_NOMEM, "no memory for the clusters");
        p->cluster[i] = first >= 0 ? first : doc;
    }
    infq_map_free(map);
    return st ? st : count_clusters(p, err);
}

static void permute(double *v, double *room, const int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        room[i] = v[order[i]];
    memcpy(v, room, (size_t)n * sizeof(*v));
}

static void permute_whole(int64_t *v, int64_t *room, const int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        room[i] = v[order[i]];
    memcpy(v, room, (size_t)n * sizeof(*v));
}

infq_status infq_pair_cut(infq_pair *p, const int64_t *order, int64_t n, infq_err *err)
{
    double *room = NULL;

    if (n < 1 || n > p->n || p->runs_a != 1 || p->runs_b != 1)
        return infq_err_set(err, INFQ_E_USAGE, "%lld of %lld items of one run cannot be kept", (long long)n, (long long)p->n);
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*room), "items kept", (void **)&room, err));
    permute(p->x, room, order, n);
    permute(p->y, room, order, n);
    permute(p->d, room, order, n);
    for (int k = 0; k < 6; k++)
        if (p->marks[k])
            permute(p->marks[k], room, order, n);
    permute_whole(p->doc, (int64_t *)room, order, n);
    if (p->cluster)
        permute_whole(p->cluster, (int64_t *)room, order, n);
    infq_mem_free(room);
    p->n = n;
    p->scores_a[0] = infq_sum(p->x, n) / (double)n;
    p->scores_b[0] = infq_sum(p->y, n) / (double)n;
    count_marks(p);
    return count_clusters(p, err);
}
