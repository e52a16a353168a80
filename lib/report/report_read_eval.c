/* Scores, distances and decisions: infq.eval.v1 and infq.gate.v1. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/report/report_int.h"
#include "lib/report/words.h"

static infq_status read_models(infq_report *r, const cJSON *doc, infq_err *err)
{
    const cJSON *m;

    cJSON_ArrayForEach(m, infq_json_get(doc, "models")) {
        const char *name, *path;
        infq_report_model *to;
        INFQ_TRY(infq_report_str(m, "name", &name, err));
        INFQ_TRY(infq_report_str(m, "path", &path, err));
        if (!name)
            return infq_err_set(err, INFQ_E_FORMAT, "a model has no name");
        INFQ_TRY(infq_report_model_get(r, name, path, &to, err));
        INFQ_TRY(infq_report_num(m, "bytes", &to->bytes, err));
        INFQ_TRY(infq_report_num(m, "bits_per_weight", &to->bits, err));
        if (!infq_json_get(m, "decode_tokens_per_s"))
            continue; // another document may bring them
        INFQ_TRY(infq_report_num(m, "decode_tokens_per_s", &to->decode, err));
        INFQ_TRY(infq_report_num(m, "prefill_tokens_per_s", &to->prefill, err));
        INFQ_TRY(infq_report_num(m, "ttft_p90_ms", &to->ttft_p90, err));
    }
    return 0;
}

/* Mean of the deciding metrics, model by model in the document's order. */
static infq_status read_scores(infq_report *r, const cJSON *doc, infq_err *err)
{
    const cJSON *models = infq_json_get(doc, "models"), *tasks = infq_json_get(doc, "tasks"), *t;
    int n_tasks = cJSON_GetArraySize(tasks), m = 0;
    const cJSON *model;

    cJSON_ArrayForEach(model, models) {
        const char *name, *path;
        infq_report_model *to;
        double sum = 0;
        INFQ_TRY(infq_report_str(model, "name", &name, err));
        INFQ_TRY(infq_report_str(model, "path", &path, err));
        INFQ_TRY(infq_report_model_get(r, name, path, &to, err));
        cJSON_ArrayForEach(t, tasks) {
            const char *metric;
            double v;
            INFQ_TRY(infq_report_str(t, "decides", &metric, err));
            INFQ_TRY(infq_report_num(cJSON_GetArrayItem(infq_json_get(t, "scores"), m), metric ? metric : "acc", &v, err));
            sum += v;
        }
        if (n_tasks > 0)
            to->score = sum / n_tasks;
        m++;
    }
    return 0;
}

static infq_status read_task(infq_report *r, infq_report_comparison *c, const cJSON *o, infq_err *err)
{
    infq_report_task *t;
    const char *verdict;

    INFQ_TRY(infq_report_grow(r, &c->tasks, &c->n_tasks, sizeof(*t), (void **)&t, err));
    INFQ_TRY(infq_report_str(o, "task", &t->task, err));
    INFQ_TRY(infq_report_str(o, "metric", &t->metric, err));
    INFQ_TRY(infq_report_int(o, "items", &t->n, err));
    INFQ_TRY(infq_report_int(o, "lost", &t->lost, err));
    INFQ_TRY(infq_report_int(o, "won", &t->won, err));
    INFQ_TRY(infq_report_num(o, "score_first", &t->first, err));
    INFQ_TRY(infq_report_num(o, "score_second", &t->second, err));
    INFQ_TRY(infq_report_num(o, "gap", &t->gap, err));
    INFQ_TRY(infq_report_interval(o, "interval", &t->lo, &t->hi, err));
    INFQ_TRY(infq_report_num(o, "noise_limit", &t->noise, err));
    INFQ_TRY(infq_report_str(o, "reason", &t->reason, err));
    INFQ_TRY(infq_report_str(o, "verdict", &verdict, err));
    t->verdict = infq_report_verdict_of(verdict);
    t->task = t->task ? t->task : "";
    t->metric = t->metric ? t->metric : "";
    c->n += t->n;
    c->lost += t->lost;
    c->won += t->won;
    return 0;
}

static infq_status read_more(infq_report *r, infq_report_comparison *c, const cJSON *list, infq_err *err)
{
    const cJSON *s;

    cJSON_ArrayForEach(s, list) {
        const char **slot;
        if (!cJSON_IsString(s))
            return infq_err_set(err, INFQ_E_FORMAT, "reasons holds something that is no text");
        INFQ_TRY(infq_report_grow(r, &c->more, &c->n_more, sizeof(*slot), (void **)&slot, err));
        *slot = s->valuestring;
    }
    return 0;
}

/* A path of items stands for the model or file at its end. */
static infq_status side_name(infq_report *r, const char **name, infq_err *err)
{
    infq_buf b;
    infq_status st;

    if (!strchr(*name, '/'))
        return 0;
    infq_buf_init(&b);
    infq_buf_str(&b, infq_path_base(*name));
    while (b.n > 0 && b.data[b.n - 1] == '/')
        b.data[--b.n] = '\0';
    st = infq_report_text(r, &b, name, err);
    infq_buf_deinit(&b);
    return st;
}

/* Guards of a suite that were measured or asked for; what they mean for the verdict is in the verdict. */
static infq_status read_guards(infq_report *r, const cJSON *suite, infq_err *err)
{
    const cJSON *g;

    cJSON_ArrayForEach(g, infq_json_get(suite, "guards")) {
        const char *name, *verdict;
        double value, limit, lo, hi;
        char a[24], b[24];
        infq_buf text;
        INFQ_TRY(infq_report_str(g, "guard", &name, err));
        INFQ_TRY(infq_report_str(g, "verdict", &verdict, err));
        INFQ_TRY(infq_report_num(g, "value", &value, err));
        INFQ_TRY(infq_report_num(g, "limit", &limit, err));
        INFQ_TRY(infq_report_interval(g, "interval", &lo, &hi, err));
        if (!name)
            return infq_err_set(err, INFQ_E_FORMAT, "a guard has no name");
        infq_buf_init(&text);
        if (isnan(value))
            infq_buf_fmt(&text, "not measured; limit %s", infq_figure(limit, b));
        else
            infq_buf_fmt(&text, "%s, limit %s", infq_figure(value, a), infq_figure(limit, b));
        if (!isnan(lo))
            infq_buf_fmt(&text, " (interval %s to %s)", infq_figure(lo, a), infq_figure(hi, b));
        INFQ_TRY(infq_report_check_add(r, "guard", name, infq_report_verdict_of(verdict), false, &text, err));
    }
    return 0;
}

/* An object with first, second, tasks, suite, verdict. */
static infq_status read_comparison(infq_report *r, const cJSON *o, bool alone, bool beside, infq_err *err)
{
    const cJSON *tasks = infq_json_get(o, "tasks"), *suite = infq_json_get(o, "suite"), *t;
    infq_report_comparison *c;
    const char *verdict;
    double alpha;

    INFQ_TRY(infq_report_grow(r, &r->comparisons, &r->n_comparisons, sizeof(*c), (void **)&c, err));
    INFQ_TRY(infq_report_str(o, "first", &c->first, err));
    INFQ_TRY(infq_report_str(o, "second", &c->second, err));
    INFQ_TRY(infq_report_str(o, "summary", &c->sentence, err));
    INFQ_TRY(infq_report_str(o, "verdict", &verdict, err));
    if (!c->first || !c->second || !cJSON_IsArray(tasks) || !cJSON_IsObject(suite))
        return infq_err_set(err, INFQ_E_FORMAT, "a comparison lacks first, second, tasks or suite");
    c->first_items = c->first;
    c->second_items = c->second;
    INFQ_TRY(side_name(r, &c->first, err));
    INFQ_TRY(side_name(r, &c->second, err));
    c->verdict = infq_report_verdict_of(verdict);
    c->alone = alone;
    c->beside = beside;
    cJSON_ArrayForEach(t, tasks)
        INFQ_TRY(read_task(r, c, t, err));
    INFQ_TRY(infq_report_num(suite, "gap", &c->gap, err));
    INFQ_TRY(infq_report_interval(suite, "interval", &c->lo, &c->hi, err));
    INFQ_TRY(infq_report_num(suite, "margin", &c->margin, err));
    INFQ_TRY(infq_report_num(suite, "noise_limit", &c->noise, err));
    INFQ_TRY(infq_json_f64(suite, "alpha", 0.05, &alpha, err));
    c->confidence = 1 - 2 * alpha;
    INFQ_TRY(read_guards(r, suite, err));
    INFQ_TRY(infq_flips_read(r->store->arena, o, &c->flips, &c->n_flips, &c->n_changed, err));
    return read_more(r, c, infq_json_get(o, "reasons"), err);
}

static void take_gap(infq_report_model *m, const infq_report_comparison *c)
{
    m->gap = c->gap;
    m->lo = c->lo;
    m->hi = c->hi;
    m->verdict = c->verdict;
}

static infq_status read_comparisons(infq_report *r, const cJSON *doc, infq_err *err)
{
    const cJSON *list = infq_json_get(doc, "comparisons"), *o;
    bool many = cJSON_GetArraySize(list) > 1;

    cJSON_ArrayForEach(o, list) {
        const infq_report_comparison *c;
        infq_report_model *m;
        INFQ_TRY(read_comparison(r, o, !many, false, err));
        c = &r->comparisons[r->n_comparisons - 1];
        INFQ_TRY(infq_report_model_get(r, c->second, NULL, &m, err));
        take_gap(m, c);
    }
    cJSON_ArrayForEach(o, infq_json_get(doc, "neighbours"))
        INFQ_TRY(read_comparison(r, o, false, true, err));
    return 0;
}

static infq_status read_ppl(infq_report *r, const cJSON *doc, const cJSON *text, const cJSON *o, infq_err *err)
{
    const cJSON *models = infq_json_get(doc, "models"), *m;
    infq_report_ppl *p;
    size_t n = (size_t)cJSON_GetArraySize(infq_json_get(o, "models"));
    int i = 0;

    INFQ_TRY(infq_report_grow(r, &r->ppl, &r->n_ppl, sizeof(*p), (void **)&p, err));
    INFQ_TRY(infq_report_str(text, "file", &p->file, err));
    INFQ_TRY(infq_report_str(o, "convention", &p->convention, err));
    INFQ_TRY(infq_report_int(o, "window", &p->window, err));
    INFQ_TRY(infq_report_int(o, "tokens_scored", &p->tokens, err));
    p->file = p->file ? p->file : "";
    p->convention = p->convention ? p->convention : "";
    INFQ_TRY(infq_arena_alloc(r->store->arena, n, sizeof(*p->names), "names", (void **)&p->names, err));
    INFQ_TRY(infq_arena_alloc(r->store->arena, 4 * n, sizeof(double), "perplexities", (void **)&p->ppl, err));
    p->nll_se = p->ppl + n;
    p->ln_ratio = p->ppl + 2 * n;
    p->ln_ratio_se = p->ppl + 3 * n;
    cJSON_ArrayForEach(m, infq_json_get(o, "models")) {
        const char *name;
        double word;
        INFQ_TRY(infq_report_str(cJSON_GetArrayItem(models, i), "name", &name, err));
        p->names[i] = name ? name : "";
        INFQ_TRY(infq_report_num(m, "word_ppl", &word, err));
        INFQ_TRY(infq_report_num(m, "ppl", &p->ppl[i], err));
        if (!isnan(word))
            p->ppl[i] = word; // what the rolling convention publishes
        INFQ_TRY(infq_report_num(m, "nll_stderr", &p->nll_se[i], err));
        INFQ_TRY(infq_report_num(m, "ln_ratio", &p->ln_ratio[i], err));
        INFQ_TRY(infq_report_num(m, "ln_ratio_stderr", &p->ln_ratio_se[i], err));
        i++;
    }
    p->n_models = i;
    return 0;
}

static infq_status read_histogram(infq_report_kld *k, const cJSON *list, infq_err *err)
{
    const cJSON *bin;

    cJSON_ArrayForEach(bin, list) {
        const cJSON *edge = cJSON_GetArrayItem(bin, 0), *count = cJSON_GetArrayItem(bin, 1);
        if (!cJSON_IsNumber(edge) || !cJSON_IsNumber(count) || k->n_bins == INFQ_REPORT_BINS || count->valuedouble < 0 ||
            count->valuedouble > 9e15 || (k->n_bins > 0 && !(edge->valuedouble > k->edge[k->n_bins - 1])))
            return infq_err_set(err, INFQ_E_FORMAT, "histogram is no list of at most %d [edge, count], edges rising", INFQ_REPORT_BINS);
        k->edge[k->n_bins] = edge->valuedouble;
        k->count[k->n_bins++] = (int64_t)count->valuedouble;
    }
    return 0;
}

static infq_status read_distance(infq_report *r, const char *file, const cJSON *o, infq_err *err)
{
    const cJSON *all = infq_json_get(o, "all");
    infq_report_model *m;
    infq_report_kld *k;

    INFQ_TRY(infq_report_grow(r, &r->kld, &r->n_kld, sizeof(*k), (void **)&k, err));
    k->text = file;
    INFQ_TRY(infq_report_str(o, "model", &k->model, err));
    if (!k->model || !all)
        return infq_err_set(err, INFQ_E_FORMAT, "a distance lacks model or all");
    INFQ_TRY(infq_report_int(all, "positions", &k->n, err));
    INFQ_TRY(infq_report_num(all, "kld_mean", &k->mean, err));
    INFQ_TRY(infq_report_num(all, "kld_stderr", &k->se, err));
    INFQ_TRY(infq_report_num(all, "kld_median", &k->median, err));
    INFQ_TRY(infq_report_num(all, "kld_p99", &k->p99, err));
    INFQ_TRY(infq_report_num(all, "kld_max", &k->max, err));
    INFQ_TRY(infq_report_num(all, "same_top", &k->same_top, err));
    INFQ_TRY(infq_report_num(all, "ln_ratio", &k->ln_ratio, err));
    INFQ_TRY(infq_report_num(all, "ln_ratio_stderr", &k->ln_ratio_se, err));
    INFQ_TRY(read_histogram(k, infq_json_get(o, "histogram"), err));
    INFQ_TRY(infq_report_model_get(r, k->model, NULL, &m, err));
    if (isnan(m->kld)) {
        m->kld = k->mean;
        m->kld_se = k->se;
        m->ln_ratio = k->ln_ratio;
    }
    return 0;
}

static infq_status read_texts(infq_report *r, const cJSON *doc, infq_err *err)
{
    const cJSON *text, *o;

    cJSON_ArrayForEach(text, infq_json_get(doc, "texts")) {
        const char *file;
        INFQ_TRY(infq_report_str(text, "file", &file, err));
        o = infq_json_get(text, "perplexity");
        if (o)
            INFQ_TRY(read_ppl(r, doc, text, o, err));
        cJSON_ArrayForEach(o, infq_json_get(text, "distance"))
            INFQ_TRY(read_distance(r, file ? file : "", o, err));
    }
    return 0;
}

static infq_status read_settings(infq_report *r, const cJSON *doc, infq_err *err)
{
    static const char *const keys[] = {"version", "settings", "cpu_level", "items", "policy_sha256", "policy_file", "noise_source"};
    const cJSON *policy = infq_json_get(doc, "policy");
    const char *name;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *v;
        INFQ_TRY(infq_report_str(doc, keys[i], &v, err));
        if (v && *v)
            INFQ_TRY(infq_report_setting(r, keys[i], v, err));
    }
    if (cJSON_IsBool(infq_json_get(doc, "policy_written_before_the_run")))
        INFQ_TRY(infq_report_setting(r, "policy written before the run",
                                     cJSON_IsTrue(infq_json_get(doc, "policy_written_before_the_run")) ? "yes" : "no", err));
    INFQ_TRY(infq_report_str(policy, "name", &name, err));
    return name ? infq_report_setting(r, "policy", name, err) : 0;
}

infq_status infq_report_read_eval(infq_report *r, const cJSON *doc, infq_err *err)
{
    const char *items, *answer;

    INFQ_TRY(infq_report_str(doc, "answer", &answer, err));
    r->sentence = answer ? answer : r->sentence; // of several models; a verdict takes its place
    INFQ_TRY(infq_report_str(doc, "items", &items, err));
    r->store->items = items ? items : r->store->items;
    INFQ_TRY(read_models(r, doc, err));
    INFQ_TRY(read_scores(r, doc, err));
    INFQ_TRY(read_comparisons(r, doc, err));
    INFQ_TRY(read_texts(r, doc, err));
    return read_settings(r, doc, err);
}

infq_status infq_report_read_gate(infq_report *r, const cJSON *doc, infq_err *err)
{
    const infq_report_comparison *c;

    INFQ_TRY(read_comparison(r, doc, true, false, err));
    c = &r->comparisons[r->n_comparisons - 1];
    for (int i = 0; i < r->n_models; i++)
        if (strcmp(r->models[i].name, c->second) == 0)
            take_gap(&r->models[i], c);
    return read_settings(r, doc, err);
}
