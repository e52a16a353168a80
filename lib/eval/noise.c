#include "lib/eval/noise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/mem.h"

#define SCHEMA "infq.noise.v1"
#define MAX_FILE ((size_t)256 << 20)
#define BAND 0.05 /* each tail of the interval of a standard deviation */

infq_status infq_noise_new(int n_runs, infq_noise **out, infq_err *err)
{
    infq_noise *r = NULL;
    infq_status st;

    if (n_runs < 2 || n_runs > INFQ_NOISE_MAX_RUNS)
        return infq_err_set(err, INFQ_E_USAGE, "noise is measured with 2 to %d runs, not %d", INFQ_NOISE_MAX_RUNS, n_runs);
    INFQ_TRY(infq_mem_new(1, sizeof(*r), "noise record", (void **)&r, err));
    memset(r, 0, sizeof(*r));
    r->n_runs = n_runs;
    r->kld_mean = r->kld_p99 = r->same_top = NAN;
    st = infq_mem_new((size_t)n_runs, sizeof(*r->labels), "labels of runs", (void **)&r->labels, err);
    if (!st)
        st = infq_mem_new(INFQ_NOISE_MAX_TASKS, sizeof(*r->tasks), "tasks of the noise record", (void **)&r->tasks, err);
    if (st) {
        infq_noise_free(r);
        return st;
    }
    memset(r->labels, 0, (size_t)n_runs * sizeof(*r->labels));
    memset(r->tasks, 0, INFQ_NOISE_MAX_TASKS * sizeof(*r->tasks));
    *out = r;
    return 0;
}

void infq_noise_free(infq_noise *r)
{
    if (!r)
        return;
    for (int i = 0; r->tasks && i < r->n_tasks; i++)
        infq_mem_free(r->tasks[i].scores);
    infq_mem_free(r->tasks);
    infq_mem_free(r->labels);
    infq_mem_free(r);
}

/* Interval of a standard deviation with nu degrees of freedom. */
static infq_interval sd_interval(double sd, double nu)
{
    return (infq_interval){sd * sqrt(nu / infq_chi2_quantile(1 - BAND, nu)), sd * sqrt(nu / infq_chi2_quantile(BAND, nu))};
}

static double limit_of(double sd)
{
    return infq_norm_quantile(0.975) * M_SQRT2 * sd;
}

static void derive(infq_noise_task *t, int n_runs)
{
    infq_moments m = infq_moments_of(t->scores, n_runs);

    t->mean = m.mean;
    t->sd = m.sd;
    t->sd_ci = sd_interval(m.sd, n_runs - 1);
    t->limit = limit_of(m.sd);
    t->sd_full = m.sd * sqrt((double)t->n_items / (double)t->n_full);
}

/* Room for one more task; counted only when it is whole. */
static infq_status next_task(infq_noise *r, infq_noise_task **out, infq_err *err)
{
    infq_noise_task *t = &r->tasks[r->n_tasks];

    if (r->n_tasks == INFQ_NOISE_MAX_TASKS)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "more than %d tasks in one noise record", INFQ_NOISE_MAX_TASKS);
    memset(t, 0, sizeof(*t));
    t->rescored = 1;
    INFQ_TRY(infq_mem_new((size_t)r->n_runs, sizeof(*t->scores), "scores of runs", (void **)&t->scores, err));
    *out = t;
    return 0;
}

static infq_status same_items(const infq_items *a, const infq_items *b, const char *run, infq_err *err)
{
    int64_t n = infq_items_count(a);

    if (infq_items_count(b) != n)
        return infq_err_set(err, INFQ_E_MISMATCH, "%s: %lld items, the first run has %lld", run, (long long)infq_items_count(b), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const infq_item *x = infq_items_get(a, i), *y = infq_items_get(b, i);
        if (x->doc != y->doc || strcmp(x->request, y->request) != 0)
            return infq_err_set(err, INFQ_E_MISMATCH, "%s: item %lld is not that of the first run (document %lld)", run, (long long)i,
                                (long long)x->doc);
    }
    return 0;
}

/* Pairs of runs whose value of one item differs; sorts the column. */
static double differing_pairs(double *column, int n_runs)
{
    double equal = 0;

    infq_sort(column, n_runs);
    for (int at = 0, end; at < n_runs; at = end) {
        for (end = at + 1; end < n_runs && column[end] == column[at]; end++)
            ;
        equal += (double)(end - at) * (end - at - 1) / 2;
    }
    return (double)n_runs * (n_runs - 1) / 2 - equal;
}

/* values: [n_runs][n], and room for one column behind */
static infq_status fill(infq_noise_task *t, const infq_items *const *runs, int n_runs, double *values, infq_err *err)
{
    int64_t n = t->n_items;
    double pairs = 0, *column = &values[n_runs * n];

    for (int j = 0; j < n_runs; j++) {
        char run[32];
        snprintf(run, sizeof(run), "run %d", j + 1);
        INFQ_TRY(same_items(runs[0], runs[j], run, err));
        for (int64_t i = 0; i < n; i++) {
            const infq_item *it = infq_items_get(runs[j], i);
            double *v = &values[j * n + i];
            if (!infq_item_metric_get(it, t->metric, v))
                return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: document %lld has no metric %s", run, (long long)it->doc, t->metric);
            if (!isfinite(*v))
                return infq_err_set(err, INFQ_E_NUMERIC, "%s: document %lld: %s is not finite", run, (long long)it->doc, t->metric);
        }
        t->scores[j] = infq_sum(&values[j * n], n) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int j = 0; j < n_runs; j++)
            column[j] = values[j * n + i];
        pairs += differing_pairs(column, n_runs);
    }
    t->flip_rate = pairs / ((double)n * n_runs * (n_runs - 1) / 2);
    return 0;
}

infq_status infq_noise_add_task(infq_noise *r, const infq_items *const *runs, const char *metric, int64_t n_full, infq_err *err)
{
    const infq_item_key *key = infq_items_key(runs[0]);
    int64_t n = infq_items_count(runs[0]);
    infq_noise_task *t;
    double *values = NULL;
    infq_status st;

    if (!metric)
        metric = key->metric[0] ? key->metric : "acc";
    if (n < 1 || (n_full != 0 && n_full < n))
        return infq_err_set(err, INFQ_E_USAGE, "%s: %lld items of %lld", key->task, (long long)n, (long long)n_full);
    if (infq_noise_find(r, key->task))
        return infq_err_set(err, INFQ_E_USAGE, "%s is in the noise record already", key->task);
    INFQ_TRY(next_task(r, &t, err));
    snprintf(t->task, sizeof(t->task), "%s", key->task);
    snprintf(t->task_digest, sizeof(t->task_digest), "%s", key->task_digest);
    snprintf(t->metric, sizeof(t->metric), "%s", metric);
    t->n_items = n;
    t->n_full = n_full ? n_full : n;
    st = infq_mem_new((size_t)(n + 1) * (size_t)r->n_runs, sizeof(*values), "scores of all runs", (void **)&values, err);
    if (!st)
        st = fill(t, runs, r->n_runs, values, err);
    infq_mem_free(values);
    if (st) {
        infq_mem_free(t->scores);
        t->scores = NULL;
        return infq_err_in(err, "%s", key->task);
    }
    derive(t, r->n_runs);
    if (!r->tokenizer[0])
        snprintf(r->tokenizer, sizeof(r->tokenizer), "%s", key->tokenizer);
    r->n_tasks++;
    return 0;
}

const infq_noise_task *infq_noise_find(const infq_noise *r, const char *task)
{
    for (int i = 0; i < r->n_tasks; i++)
        if (strcmp(r->tasks[i].task, task) == 0)
            return &r->tasks[i];
    return NULL;
}

bool infq_noise_paired(const infq_noise *a, const infq_noise *b)
{
    if (a->n_runs != b->n_runs)
        return false;
    for (int i = 0; i < a->n_runs; i++) {
        if (!a->labels[i][0] || strcmp(a->labels[i], b->labels[i]) != 0)
            return false;
        for (int k = 0; k < i; k++)
            if (strcmp(a->labels[i], a->labels[k]) == 0)
                return false;
    }
    return true;
}

infq_noise_suite infq_noise_suite_of(const infq_noise *r)
{
    infq_noise_suite s = {NAN, NAN, NAN, {NAN, NAN}};
    double v = 0, v2 = 0, nu = r->n_runs - 1;

    if (r->n_tasks == 0)
        return s;
    for (int i = 0; i < r->n_tasks; i++) {
        double w = r->tasks[i].sd_full / r->n_tasks;
        v += w * w;
        v2 += w * w * w * w / nu;
    }
    s.sd = sqrt(v);
    s.nu = v2 > 0 ? v * v / v2 : nu;
    s.limit = limit_of(s.sd);
    s.sd_ci = sd_interval(s.sd, s.nu);
    return s;
}

static void write_interval(infq_jw *w, const char *key, infq_interval ci)
{
    infq_jw_key(w, key);
    infq_jw_arr(w);
    infq_jw_f64(w, ci.lo);
    infq_jw_f64(w, ci.hi);
    infq_jw_end_arr(w);
}

static void write_task(infq_jw *w, const infq_noise_task *t, int n_runs)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "task", t->task);
    infq_jw_key_str(w, "task_digest", t->task_digest);
    infq_jw_key_str(w, "metric", t->metric);
    infq_jw_key_i64(w, "items", t->n_items);
    infq_jw_key_i64(w, "items_full", t->n_full);
    infq_jw_key(w, "scores");
    infq_jw_arr(w);
    for (int j = 0; j < n_runs; j++)
        infq_jw_f64(w, t->scores[j]);
    infq_jw_end_arr(w);
    infq_jw_key_f64(w, "flip_rate", t->flip_rate);
    infq_jw_key_f64(w, "rescored", t->rescored);
    infq_jw_key_f64(w, "mean", t->mean);
    infq_jw_key_f64(w, "sd", t->sd);
    write_interval(w, "sd_interval", t->sd_ci);
    infq_jw_key_f64(w, "limit", t->limit);
    infq_jw_key_f64(w, "sd_full", t->sd_full);
    infq_jw_end_obj(w);
}

infq_status infq_noise_write(const infq_noise *r, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 1);
    infq_noise_suite s = infq_noise_suite_of(r);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", SCHEMA);
    infq_jw_key_str(&w, "model", r->model);
    infq_jw_key_str(&w, "model_digest", r->model_digest);
    infq_jw_key_str(&w, "tokenizer", r->tokenizer);
    infq_jw_key_str(&w, "settings", r->settings);
    infq_jw_key_str(&w, "source", r->source);
    infq_jw_key_bool(&w, "reproducible", r->reproducible);
    infq_jw_key(&w, "runs");
    infq_jw_arr(&w);
    for (int j = 0; j < r->n_runs; j++)
        infq_jw_str(&w, r->labels[j]);
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "tasks");
    infq_jw_arr(&w);
    for (int i = 0; i < r->n_tasks; i++)
        write_task(&w, &r->tasks[i], r->n_runs);
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "suite");
    infq_jw_obj(&w);
    infq_jw_key_f64(&w, "sd", s.sd);
    infq_jw_key_f64(&w, "df", s.nu);
    write_interval(&w, "sd_interval", s.sd_ci);
    infq_jw_key_f64(&w, "limit", s.limit);
    infq_jw_end_obj(&w);
    infq_jw_key(&w, "distribution");
    infq_jw_obj(&w);
    infq_jw_key_f64(&w, "kld_mean", r->kld_mean);
    infq_jw_key_f64(&w, "kld_p99", r->kld_p99);
    infq_jw_key_f64(&w, "same_top", r->same_top);
    infq_jw_end_obj(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}

static infq_status read_text(const cJSON *o, const char *key, char *out, size_t cap, infq_err *err)
{
    const char *v;

    INFQ_TRY(infq_json_str(o, key, "", &v, err));
    if (strlen(v) >= cap)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is longer than %zu bytes", key, cap - 1);
    strcpy(out, v);
    return 0;
}

static infq_status read_scores(const cJSON *o, infq_noise_task *t, int n_runs, infq_err *err)
{
    const cJSON *a = infq_json_get(o, "scores"), *v;
    int j = 0;

    if (!cJSON_IsArray(a) || cJSON_GetArraySize(a) != n_runs)
        return infq_err_set(err, INFQ_E_FORMAT, "scores is not a list of %d numbers, one a run", n_runs);
    cJSON_ArrayForEach(v, a) {
        if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
            return infq_err_set(err, INFQ_E_NUMERIC, "score of run %d is no finite number", j + 1);
        t->scores[j++] = v->valuedouble;
    }
    return 0;
}

static infq_status read_task(infq_noise *r, const cJSON *o, infq_err *err)
{
    infq_noise_task *t;
    infq_status st;

    INFQ_TRY(next_task(r, &t, err));
    r->n_tasks++; // what it owns is freed with the record
    INFQ_TRY(read_text(o, "task", t->task, sizeof(t->task), err));
    INFQ_TRY(read_text(o, "task_digest", t->task_digest, sizeof(t->task_digest), err));
    INFQ_TRY(read_text(o, "metric", t->metric, sizeof(t->metric), err));
    st = read_scores(o, t, r->n_runs, err);
    if (!st)
        st = infq_json_i64(o, "items", 0, &t->n_items, err);
    if (!st)
        st = infq_json_i64(o, "items_full", t->n_items, &t->n_full, err);
    if (!st)
        st = infq_json_f64(o, "flip_rate", NAN, &t->flip_rate, err);
    if (!st)
        st = infq_json_f64(o, "rescored", 1, &t->rescored, err);
    if (!st && (t->n_items < 1 || t->n_full < t->n_items))
        st = infq_err_set(err, INFQ_E_FORMAT, "items %lld and items_full %lld do not fit", (long long)t->n_items, (long long)t->n_full);
    if (!st && !(t->flip_rate >= 0 && t->flip_rate <= 1 && t->rescored >= 0 && t->rescored <= 1))
        st = infq_err_set(err, INFQ_E_FORMAT, "flip_rate or rescored is no share");
    if (st)
        return infq_err_in(err, "%s", t->task);
    derive(t, r->n_runs);
    return 0;
}

static infq_status read_record(const cJSON *o, infq_noise **out, infq_err *err)
{
    const cJSON *runs = infq_json_get(o, "runs"), *tasks = infq_json_get(o, "tasks"), *d = infq_json_get(o, "distribution"), *v;
    const char *schema;
    infq_noise *r = NULL;
    int j = 0;

    INFQ_TRY(infq_json_str(o, "schema", "", &schema, err));
    if (strcmp(schema, SCHEMA) != 0 || !cJSON_IsArray(runs) || !cJSON_IsArray(tasks))
        return infq_err_set(err, INFQ_E_FORMAT, "is no noise record (schema %s, runs, tasks)", SCHEMA);
    INFQ_TRY(infq_noise_new(cJSON_GetArraySize(runs), &r, err));
    *out = r;
    INFQ_TRY(read_text(o, "model", r->model, sizeof(r->model), err));
    INFQ_TRY(read_text(o, "model_digest", r->model_digest, sizeof(r->model_digest), err));
    INFQ_TRY(read_text(o, "tokenizer", r->tokenizer, sizeof(r->tokenizer), err));
    INFQ_TRY(read_text(o, "settings", r->settings, sizeof(r->settings), err));
    INFQ_TRY(read_text(o, "source", r->source, sizeof(r->source), err));
    INFQ_TRY(infq_json_bool(o, "reproducible", false, &r->reproducible, err));
    cJSON_ArrayForEach(v, runs) {
        if (!cJSON_IsString(v) || strlen(v->valuestring) >= sizeof(*r->labels))
            return infq_err_set(err, INFQ_E_FORMAT, "label of run %d is no text of at most %zu bytes", j + 1, sizeof(*r->labels) - 1);
        strcpy(r->labels[j++], v->valuestring);
    }
    if (d) {
        INFQ_TRY(infq_json_f64(d, "kld_mean", NAN, &r->kld_mean, err));
        INFQ_TRY(infq_json_f64(d, "kld_p99", NAN, &r->kld_p99, err));
        INFQ_TRY(infq_json_f64(d, "same_top", NAN, &r->same_top, err));
    }
    cJSON_ArrayForEach(v, tasks)
        INFQ_TRY(read_task(r, v, err));
    return 0;
}

infq_status infq_noise_load(const char *path, infq_noise **out, infq_err *err)
{
    infq_noise *r = NULL;
    cJSON *o = NULL;
    infq_status st;

    INFQ_TRY(infq_json_load(path, MAX_FILE, &o, err));
    st = read_record(o, &r, err);
    cJSON_Delete(o);
    if (st) {
        infq_noise_free(r);
        return infq_err_in(err, "%s", path);
    }
    *out = r;
    return 0;
}
