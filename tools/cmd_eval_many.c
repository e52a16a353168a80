/* Several models side by side: sizes, speeds, the front, and whether a larger one is worth its size. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "lib/bench/bench.h"
#include "lib/report/inspect.h"
#include "lib/report/words.h"
#include "tools/cmd_eval.h"

#define MAX_BENCH ((size_t)1 << 24)

/* A short bench: enough to tell formats apart, no proof of a target. */
static infq_status measure_speed(const eval_model *l, infq_backend *be, const infq_log *log, eval_cost *c, infq_err *err)
{
    infq_bench_options o = infq_bench_options_default();
    infq_bench_result b;

    memset(&b, 0, sizeof(b));
    o.n_warmup = 1;
    o.n_repeats = 8;
    INFQ_TRY(infq_bench_run(l->model, be, &o, log, &b, err));
    c->decode = b.decode_tokens_per_s;
    c->prefill = b.prefill_tokens_per_s;
    c->ttft_p90 = b.latency[INFQ_METRIC_TTFT].p_ms[1];
    infq_bench_result_deinit(&b);
    return 0;
}

static infq_status read_bench(eval_run *r, const char *path, infq_err *err)
{
    cJSON *doc = NULL;
    const char *model, *schema;
    char name[128];
    infq_status st;
    bool found = false;

    INFQ_TRY(infq_json_load(path, MAX_BENCH, &doc, err));
    st = infq_json_str(doc, "schema", "", &schema, err);
    if (!st)
        st = infq_json_str(doc, "model", "", &model, err);
    if (!st && (strcmp(schema, "infq.bench.v1") != 0 || !model[0]))
        st = infq_err_set(err, INFQ_E_FORMAT, "is no result of infbench --json");
    if (!st)
        eval_model_name(model, name, sizeof(name));
    for (int m = 0; !st && m < r->n_models; m++) {
        char mine[128];
        eval_model_name(r->paths[m], mine, sizeof(mine));
        if (strcmp(r->paths[m], model) != 0 && strcmp(mine, name) != 0)
            continue;
        found = true;
        st = infq_json_f64(doc, "decode_tokens_per_s", NAN, &r->cost[m].decode, err);
        if (!st)
            st = infq_json_f64(doc, "prefill_tokens_per_s", NAN, &r->cost[m].prefill, err);
        if (!st)
            st = infq_json_f64(infq_json_get(infq_json_get(doc, "latency_ms"), "ttft"), "p90", NAN, &r->cost[m].ttft_p90, err);
    }
    if (!st && !found)
        st = infq_err_set(err, INFQ_E_MISMATCH, "is of %.80s, which is none of the models here", model);
    cJSON_Delete(doc);
    return st ? infq_err_in(err, "%s", path) : 0;
}

infq_status eval_cost_measure(eval_run *r, int m, const eval_model *l, infq_backend *be, const infq_log *log, infq_err *err)
{
    infq_inspect in;
    eval_cost *c = &r->cost[m];

    *c = (eval_cost){NAN, NAN, NAN, NAN, NAN};
    INFQ_TRY(infq_inspect_run(l->ck, &in, err));
    c->bytes = (double)in.tensor_bytes;
    c->bits = in.bits_per_weight;
    return r->o->speed ? measure_speed(l, be, log, c, err) : 0;
}

double eval_mean_score(const eval_run *r, int m)
{
    if (r->n_models < 2 || r->n_tasks == 0)
        return NAN;
    return m == 0 ? r->decision[1].suite.score_a : r->decision[m].suite.score_b;
}

static infq_status compare_pair(eval_run *r, int smaller, int larger, infq_err *err)
{
    eval_neighbours *p = &r->near[r->n_near];
    int n = 0;

    INFQ_TRY(infq_mem_new((size_t)r->n_tasks, sizeof(*p->tasks), "comparisons", (void **)&p->tasks, err));
    r->n_near++;
    p->smaller = smaller;
    p->larger = larger;
    memset(p->tasks, 0, (size_t)r->n_tasks * sizeof(*p->tasks));
    for (int i = 0; i < r->n_tasks; i++) {
        const infq_policy_task *listed = infq_policy_find(&r->policy, infq_task_name(r->tasks[i].task));
        if (!listed)
            continue;
        INFQ_TRY(infq_gate_items(r->tasks[i].items[smaller], r->tasks[i].items[larger], infq_policy_metric(&r->policy, listed),
                                 &r->policy.gate, &p->tasks[n++], err));
    }
    return infq_gate_combine(p->tasks, n, NULL, NULL, &r->policy.gate, &p->suite, err);
}

infq_status eval_many_compare(eval_run *r, infq_err *err)
{
    double bytes[EVAL_MAX_MODELS], worth[EVAL_MAX_MODELS];
    int order[EVAL_MAX_MODELS], n = 0;

    for (int i = 0; i < r->o->benches.n; i++)
        INFQ_TRY(read_bench(r, r->o->benches.v[i], err));
    if (r->n_models < 2 || r->n_tasks == 0)
        return 0;
    for (int m = 0; m < r->n_models; m++) {
        bytes[m] = r->cost[m].bytes;
        worth[m] = eval_mean_score(r, m);
    }
    infq_front(bytes, worth, r->n_models, r->front);
    for (int m = 1; m < r->n_models; m++) { // all but the first, by size
        int at = n++;
        for (; at > 0 && bytes[order[at - 1]] > bytes[m]; at--)
            order[at] = order[at - 1];
        order[at] = m;
    }
    for (int i = 0; i + 1 < n; i++)
        INFQ_TRY(compare_pair(r, order[i], order[i + 1], err));
    return 0;
}

void eval_many_free(eval_run *r)
{
    for (int i = 0; i < r->n_near; i++)
        infq_mem_free(r->near[i].tasks);
}

/* "B gains 0.4 points against A (90 % interval -0.1 to +0.9): not told apart, the smaller one will do" */
static void neighbour_words(const eval_run *r, const eval_neighbours *p, infq_buf *to)
{
    infq_report_comparison c = {.first = r->names[p->smaller], .second = r->names[p->larger], .gap = p->suite.gap, .lo = p->suite.ci.lo,
                                .hi = p->suite.ci.hi, .confidence = 1 - 2 * r->policy.gate.alpha, .margin = NAN, .noise = NAN, .beside = true};

    infq_comparison_sentence(&c, to);
    infq_buf_str(to, c.lo > 0 ? ": the larger one is better" : c.hi < 0 ? ": the smaller one is better" : ": not told apart, the smaller one will do");
}

/* Smallest model that passes against the first; -1: none. */
static int smallest_pass(const eval_run *r)
{
    int best = -1;

    for (int m = 1; m < r->n_models; m++)
        if (r->decision[m].suite.verdict == INFQ_VERDICT_PASS && (best < 0 || r->cost[m].bytes < r->cost[best].bytes))
            best = m;
    return best;
}

static void answer_words(const eval_run *r, infq_buf *to)
{
    int best = smallest_pass(r);
    char a[32], b[24];

    if (best < 0)
        infq_buf_fmt(to, "None of the others is shown to lose less than %s points against %s", infq_points(r->policy.gate.margin, false, b), r->names[0]);
    else
        infq_buf_fmt(to, "The smallest model that loses less than %s points against %s is %s (%s)", infq_points(r->policy.gate.margin, false, b),
                     r->names[0], r->names[best], infq_format_bytes(r->cost[best].bytes, a, sizeof(a)));
}

static void many_row(const eval_run *r, int m, bool speed, infq_buf *to)
{
    const eval_cost *c = &r->cost[m];
    char size[32], gap[48] = "", a[24], b[24], d[24];

    if (m > 0)
        snprintf(gap, sizeof(gap), "%s [%s, %s]", infq_points(r->decision[m].suite.gap, true, a), infq_points(r->decision[m].suite.ci.lo, true, b),
                 infq_points(r->decision[m].suite.ci.hi, true, d));
    infq_buf_fmt(to, "%-28.28s %9s %6.2f %6s  %-22s", r->names[m], infq_format_bytes(c->bytes, size, sizeof(size)), c->bits,
                 infq_points(eval_mean_score(r, m), false, a), gap);
    if (speed)
        infq_buf_fmt(to, " %9s %9s", infq_figure(c->decode, a), infq_figure(c->ttft_p90, b));
    infq_buf_fmt(to, "  %-5s %s\n", r->front[m] ? "yes" : "", m > 0 ? infq_verdict_name(r->decision[m].suite.verdict) : "");
}

void eval_many_text(const eval_run *r, infq_buf *to)
{
    bool speed = false;

    for (int m = 0; m < r->n_models; m++)
        speed = speed || !isnan(r->cost[m].decode);
    answer_words(r, to);
    infq_buf_str(to, "\n\n");
    infq_buf_fmt(to, "%-28s %9s %6s %6s  %-22s", "model", "size", "bits", "score", "gap to the first");
    if (speed)
        infq_buf_fmt(to, " %9s %9s", "decode/s", "TTFT P90");
    infq_buf_fmt(to, "  %-5s %s\n", "front", "verdict");
    for (int m = 0; m < r->n_models; m++)
        many_row(r, m, speed, to);
    infq_buf_str(to, "scores and gaps in points, mean of all tasks; front: no model is at most as large and at least as good\n");
    for (int i = 0; i < r->n_near; i++) {
        neighbour_words(r, &r->near[i], to);
        infq_buf_char(to, '\n');
    }
    infq_buf_char(to, '\n');
}

void eval_cost_json(const eval_cost *c, infq_jw *w)
{
    infq_jw_key_f64(w, "bytes", c->bytes);
    infq_jw_key_f64(w, "bits_per_weight", c->bits);
    if (isnan(c->decode))
        return;
    infq_jw_key_f64(w, "decode_tokens_per_s", c->decode);
    infq_jw_key_f64(w, "prefill_tokens_per_s", c->prefill);
    infq_jw_key_f64(w, "ttft_p90_ms", c->ttft_p90);
}

static void words_json(infq_jw *w, const char *key, infq_buf *words)
{
    infq_jw_key_str(w, key, words->data);
    infq_buf_clear(words);
}

infq_status eval_many_json(const eval_run *r, infq_jw *w, infq_err *err)
{
    infq_buf words;
    infq_status st;

    infq_buf_init(&words);
    answer_words(r, &words);
    words_json(w, "answer", &words);
    infq_jw_key(w, "neighbours");
    infq_jw_arr(w);
    for (int k = 0; k < r->n_near; k++) {
        const eval_neighbours *p = &r->near[k];
        infq_jw_obj(w);
        infq_jw_key_str(w, "first", r->names[p->smaller]);
        infq_jw_key_str(w, "second", r->names[p->larger]);
        neighbour_words(r, p, &words);
        words_json(w, "summary", &words);
        infq_verdict_numbers_json(&(infq_verdict_view){ .tasks = p->tasks, .suite = &p->suite, .policy = &r->policy }, w);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    st = infq_buf_status(&words, err);
    infq_buf_deinit(&words);
    return st;
}
