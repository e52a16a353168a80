/* infeval perturb: the same tasks asked otherwise; does the gap between two models depend on how one asks? */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/eval/perturb.h"
#include "tools/cmd_eval.h"

#define NAME "infeval perturb"
#define MAX_ROWS 64
#define MAX_ORDERS 8 /* shifts of the choices */

typedef struct {
    opt_list tasks, data;
    const char *axes, *items, *bos, *metric, *backend;
    int64_t limit, shots, seeds, batch, threads;
    double margin, alpha;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "tasks", 't', OPT_LIST, "T[,T...]", "as for infeval MODEL", AT(tasks), 0, 0 },
    { "data", 0, OPT_LIST, "DIR", "as for infeval MODEL", AT(data), 0, 0 },
    { "axes", 0, OPT_STR, "A[,A...]", "what changes: order (of the choices), examples (other few-shot examples), format\n"
      "(blank line, one line, two blanks, parentheses) (all)", AT(axes), 0, 0 },
    { "seeds", 0, OPT_I64, "N", "sets of examples (3)", AT(seeds), 1, 32 },
    { "shots", 0, OPT_I64, "N", "examples in front of each item (the task's own number)", AT(shots), 0, 1000 },
    { "limit", 0, OPT_I64, "N", "use the first N items of each task (all)", AT(limit), 1, 1e12 },
    { "margin", 0, OPT_F64, "X", "a gap beyond X under any perturbation makes a pass fragile (0.01)", AT(margin), 1e-9, 1 },
    { "alpha", 0, OPT_F64, "A", "one-sided error rate of the verdict on the task as it is (0.05)", AT(alpha), 1e-9, 0.5 },
    { "metric", 0, OPT_STR, "NAME", "acc, acc_norm, ... (the task's own)", AT(metric), 0, 0 },
    { "items", 0, OPT_STR, "DIR", "keep every item as scored; a stopped run goes on from them", AT(items), 0, 0 },
    { "bos", 0, OPT_STR, "RULE", "texts begin with BOS: model, always, never (model)", AT(bos), 0, 0 },
    { "batch", 0, OPT_I64, "N", "items a forward pass (by tokens); scores do not depend on it", AT(batch), 1, 4096 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); scores do not depend on it", AT(threads), 1, 4096 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] ORIGINAL COMPRESSED --tasks T", "Shows whether the gap between two models depends on how tasks are asked.",
    "Each perturbation is applied to both models. A perturbation that changes nothing of a task (choices\n"
    "that its prompt does not list, no examples) is left out there. A pass whose gap exceeds the margin\n"
    "under some perturbation is called FRAGILE; that changes no verdict and no exit code.",
    rows, sizeof(rows) / sizeof(rows[0]), 2, 2,
};

/* One way to ask. */
typedef struct {
    char label[64];
    int64_t rotate, seed;
    infq_task_format format;
} variation;

/* One task under all variations that change it. */
typedef struct {
    char name[128];
    int n;
    char digests[MAX_ROWS][65];
    char labels[MAX_ROWS][64];
    infq_items *items[2][MAX_ROWS];
    infq_perturb_task result;
} perturbed;

typedef struct {
    const options *o;
    const infq_log *log;
    infq_gate_options gate;
    infq_bos bos;
    eval_model m[2];
    char names[2][128], settings[192];
    perturbed *tasks;
    int n_tasks;
} perturb_run;

static infq_status list_variations(const options *o, variation *v, int *n, infq_err *err)
{
    bool order = !o->axes, examples = !o->axes, format = !o->axes;

    for (const char *s = o->axes ? o->axes : ""; *s;) {
        size_t len = strcspn(s, ",");
        if (len == 5 && strncmp(s, "order", len) == 0)
            order = true;
        else if (len == 8 && strncmp(s, "examples", len) == 0)
            examples = true;
        else if (len == 6 && strncmp(s, "format", len) == 0)
            format = true;
        else
            return infq_err_set(err, INFQ_E_USAGE, "--axes %.*s: order, examples or format is wanted", (int)len, s);
        s += len + (s[len] == ',');
    }
    *n = 0;
    v[(*n)++] = (variation){ .label = "as it is", .seed = -1 };
    for (int64_t k = 1; order && k < MAX_ORDERS; k++, ++*n) {
        v[*n] = (variation){ .rotate = k, .seed = -1 };
        snprintf(v[*n].label, sizeof(v[*n].label), "order %lld", (long long)k);
    }
    for (int64_t k = 1; examples && k <= o->seeds; k++, ++*n) {
        v[*n] = (variation){ .seed = k };
        snprintf(v[*n].label, sizeof(v[*n].label), "examples %lld", (long long)k);
    }
    for (int f = INFQ_FORMAT_PLAIN + 1; format && f < INFQ_FORMAT_COUNT; f++, ++*n) {
        v[*n] = (variation){ .seed = -1, .format = (infq_task_format)f };
        snprintf(v[*n].label, sizeof(v[*n].label), "format: %s", infq_task_format_names[f]);
    }
    return 0;
}

static infq_status item_path(const perturb_run *x, int m, const perturbed *p, char *out, size_t cap, infq_err *err)
{
    char safe[128], digest[17];
    int len;

    if (mkdir(x->o->items, 0777) && errno != EEXIST)
        return infq_err_set(err, INFQ_E_IO, "%s: %s", x->o->items, strerror(errno));
    len = snprintf(out, cap, "%s/%s", x->o->items, m ? "compressed" : "original");
    if (len < (int)cap && mkdir(out, 0777) && errno != EEXIST)
        return infq_err_set(err, INFQ_E_IO, "%s: %s", out, strerror(errno));
    snprintf(safe, sizeof(safe), "%s", p->name);
    for (char *c = safe; *c; c++)
        *c = *c == '/' ? '_' : *c;
    snprintf(digest, sizeof(digest), "%.16s", p->digests[p->n]);
    len = snprintf(out, cap, "%s/%s/%s.%s.jsonl", x->o->items, m ? "compressed" : "original", safe, digest);
    return len < (int)cap ? 0 : infq_err_set(err, INFQ_E_IO, "%.40s...: the path is too long", x->o->items);
}

/* Model m on the variation that p->n stands for. */
static infq_status score(perturb_run *x, int m, const infq_task *t, perturbed *p, infq_err *err)
{
    infq_score_options so = infq_score_options_default();
    infq_item_log *out = NULL;
    infq_item_key key;
    char path[4096];
    infq_err other;
    infq_status st, closed;

    so.bos = x->bos;
    so.batch = x->o->batch;
    so.log = x->log;
    memset(&key, 0, sizeof(key));
    snprintf(key.model, sizeof(key.model), "%s", x->names[m]);
    memcpy(key.model_digest, x->m[m].digest, sizeof(key.model_digest));
    snprintf(key.tokenizer, sizeof(key.tokenizer), "%s", infq_tokenizer_digest(x->m[m].tok));
    snprintf(key.task, sizeof(key.task), "%s", p->name);
    snprintf(key.task_digest, sizeof(key.task_digest), "%s", p->digests[p->n]);
    snprintf(key.metric, sizeof(key.metric), "%s", infq_task_metric(t));
    snprintf(key.settings, sizeof(key.settings), "%s", x->settings);
    INFQ_TRY(infq_items_new(&key, &p->items[m][p->n], err));
    if (x->o->items) {
        INFQ_TRY(item_path(x, m, p, path, sizeof(path), err));
        INFQ_TRY(infq_item_log_open(path, p->items[m][p->n], &out, err));
    }
    st = infq_score_task(x->m[m].model, x->m[m].tok, t, &so, p->items[m][p->n], out, err);
    closed = infq_item_log_close(out, &other);
    if (!st && closed) {
        *err = other;
        st = closed;
    }
    return st;
}

static infq_status add_task(perturb_run *x, const infq_task *t, const variation *v, bool first, infq_err *err)
{
    perturbed *p = NULL;

    if (infq_task_kind_of(t) == INFQ_TASK_GENERATE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: generated answers are not perturbed", infq_task_name(t));
    if (first) {
        INFQ_TRY(infq_task_metric_check(t, x->o->metric ? x->o->metric : infq_task_metric(t), err));
        p = &x->tasks[x->n_tasks++];
        snprintf(p->name, sizeof(p->name), "%s", infq_task_name(t));
    }
    for (int i = 0; i < x->n_tasks && !p; i++)
        if (strcmp(x->tasks[i].name, infq_task_name(t)) == 0)
            p = &x->tasks[i];
    if (!p)
        return infq_err_set(err, INFQ_E_BUG, "%s appears under %s only", infq_task_name(t), v->label);
    for (int k = 0; k < p->n; k++)
        if (strcmp(p->digests[k], infq_task_digest(t)) == 0)
            return 0; // asks what has been asked
    snprintf(p->digests[p->n], sizeof(p->digests[0]), "%s", infq_task_digest(t));
    snprintf(p->labels[p->n], sizeof(p->labels[0]), "%s", v->label);
    for (int m = 0; m < 2; m++)
        INFQ_TRY(score(x, m, t, p, err));
    p->n++;
    return 0;
}

static infq_status ask(perturb_run *x, const variation *v, bool first, infq_err *err)
{
    eval_options eo = { .bos = "model", .shots = x->o->shots, .fewshot_seed = v->seed, .rotate = v->rotate, .format = v->format,
                        .limit = x->o->limit, .data = x->o->data };
    eval_run *r = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*r), "run", (void **)&r, err));
    memset(r, 0, sizeof(*r));
    r->o = &eo;
    r->log = x->log;
    st = eval_tasks_add(r, &x->o->tasks, false, err);
    if (!st && r->n_tasks == 0)
        st = infq_err_set(err, INFQ_E_USAGE, "nothing to ask: give --tasks");
    if (!st && r->n_texts > 0)
        st = infq_err_set(err, INFQ_E_USAGE, "%s is a text; perturbations are for tasks", r->texts[0].name);
    for (int i = 0; i < r->n_tasks && !st; i++)
        st = add_task(x, r->tasks[i].task, v, first, err);
    eval_run_free(r);
    return st;
}

static void row_text(const infq_perturb_row *r, infq_buf *to)
{
    char ci[48];

    snprintf(ci, sizeof(ci), "[%+.4f, %+.4f]", r->ci.lo, r->ci.hi);
    infq_buf_fmt(to, "  %-28s %8.4f %8.4f %+8.4f  %s\n", r->label, r->score_a, r->score_b, r->gap, ci);
}

static void task_text(const infq_perturb_task *t, const infq_gate_options *g, infq_buf *to)
{
    infq_buf_fmt(to, "%s, %lld items, %s\n  %-28s %8s %8s %8s  %s\n", t->task, (long long)t->n_items, t->metric, "asked", "first", "second", "gap",
                 "interval of the gap");
    for (int i = 0; i < t->n_rows; i++)
        row_text(&t->rows[i], to);
    if (t->n_rows == 1) {
        infq_buf_str(to, "  no perturbation changes this task\n\n");
        return;
    }
    infq_buf_fmt(to, "  mean gap %+.4f, from %+.4f to %+.4f; standard error with items random %.4f, perturbations random %.4f", t->gap, t->gap_min, t->gap_max,
                 t->crossed.se_items_only, t->crossed.se_runs_only);
    if (isfinite(t->crossed.se_both))
        infq_buf_fmt(to, ", both %.4f", t->crossed.se_both);
    if (isfinite(t->p))
        infq_buf_fmt(to, "\n  do gaps differ between perturbations? F %.2f, p = %.3g", t->f, t->p);
    infq_buf_fmt(to, "\n  as it is: %s", infq_verdict_name(t->verdict));
    if (t->fragile)
        infq_buf_fmt(to, ", FRAGILE: the gap reaches %.4f, beyond the margin of %g", t->largest, g->margin);
    infq_buf_str(to, "\n\n");
}

static void task_json(const infq_perturb_task *t, infq_jw *w)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "task", t->task);
    infq_jw_key_str(w, "metric", t->metric);
    infq_jw_key_i64(w, "items", t->n_items);
    infq_jw_key(w, "perturbations");
    infq_jw_arr(w);
    for (int i = 0; i < t->n_rows; i++) {
        const infq_perturb_row *r = &t->rows[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "asked", r->label);
        infq_jw_key_f64(w, "score_first", r->score_a);
        infq_jw_key_f64(w, "score_second", r->score_b);
        infq_jw_key_f64(w, "gap", r->gap);
        infq_jw_key(w, "interval");
        infq_jw_arr(w);
        infq_jw_f64(w, r->ci.lo);
        infq_jw_f64(w, r->ci.hi);
        infq_jw_end_arr(w);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_key_f64(w, "gap", t->gap);
    infq_jw_key_f64(w, "gap_min", t->gap_min);
    infq_jw_key_f64(w, "gap_max", t->gap_max);
    infq_jw_key_f64(w, "ms_item", t->crossed.ms_item);
    infq_jw_key_f64(w, "ms_perturbation", t->crossed.ms_run);
    infq_jw_key_f64(w, "ms_residual", t->crossed.ms_resid);
    infq_jw_key_f64(w, "se_both", t->crossed.se_both);
    infq_jw_key_f64(w, "se_items", t->crossed.se_items_only);
    infq_jw_key_f64(w, "se_perturbations", t->crossed.se_runs_only);
    infq_jw_key_f64(w, "f", t->f);
    infq_jw_key_f64(w, "p", t->p);
    infq_jw_key_str(w, "verdict", infq_verdict_name(t->verdict));
    infq_jw_key_bool(w, "fragile", t->fragile);
    infq_jw_end_obj(w);
}

static infq_status tell(const perturb_run *x, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 0);

    if (!x->o->json) {
        infq_buf_fmt(to, "%s (first) against %s (second)\n\n", x->names[0], x->names[1]);
        for (int i = 0; i < x->n_tasks; i++)
            task_text(&x->tasks[i].result, &x->gate, to);
        return infq_buf_status(to, err);
    }
    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.perturb.v1");
    infq_jw_key_str(&w, "first", x->names[0]);
    infq_jw_key_str(&w, "second", x->names[1]);
    infq_jw_key_str(&w, "settings", x->settings);
    infq_jw_key_f64(&w, "margin", x->gate.margin);
    infq_jw_key(&w, "tasks");
    infq_jw_arr(&w);
    for (int i = 0; i < x->n_tasks; i++)
        task_json(&x->tasks[i].result, &w);
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}

static infq_status compare(perturb_run *x, infq_err *err)
{
    for (int i = 0; i < x->n_tasks; i++) {
        perturbed *p = &x->tasks[i];
        const char *labels[MAX_ROWS];
        for (int k = 0; k < p->n; k++)
            labels[k] = p->labels[k];
        if (infq_perturb_compare((const infq_items *const *)p->items[0], (const infq_items *const *)p->items[1], labels, p->n, x->o->metric,
                                 &x->gate, &p->result, err))
            return infq_err_in(err, "%s", p->name);
    }
    return 0;
}

static infq_status measure(perturb_run *x, char **paths, infq_backend *be, infq_err *err)
{
    variation v[MAX_ROWS];
    int n = 0;

    INFQ_TRY(list_variations(x->o, v, &n, err));
    for (int m = 0; m < 2; m++) {
        eval_model_name(paths[m], x->names[m], sizeof(x->names[m]));
        INFQ_TRY(eval_model_open(paths[m], be, x->log, x->o->items != NULL, &x->m[m], err));
    }
    if (strcmp(infq_tokenizer_digest(x->m[0].tok), infq_tokenizer_digest(x->m[1].tok)) != 0)
        return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: tokenizer.json of %s is not that of %s", paths[1], paths[0]);
    for (int k = 0; k < n; k++)
        INFQ_TRY(ask(x, &v[k], k == 0, err));
    return compare(x, err);
}

static void run_free(perturb_run *x)
{
    for (int i = 0; x->tasks && i < x->n_tasks; i++) {
        for (int k = 0; k < MAX_ROWS; k++) {
            infq_items_free(x->tasks[i].items[0][k]);
            infq_items_free(x->tasks[i].items[1][k]);
        }
        infq_perturb_free(&x->tasks[i].result);
    }
    infq_mem_free(x->tasks);
    eval_model_close(&x->m[0]);
    eval_model_close(&x->m[1]);
}

static infq_status run(perturb_run *x, char **paths, infq_buf *doc, infq_err *err)
{
    infq_backend *be = NULL;
    infq_status st;

    INFQ_TRY(eval_bos_find(x->o->bos, &x->bos, err));
    INFQ_TRY(infq_mem_new(EVAL_MAX_TASKS, sizeof(*x->tasks), "tasks", (void **)&x->tasks, err));
    memset(x->tasks, 0, EVAL_MAX_TASKS * sizeof(*x->tasks));
    st = infq_backend_open(x->o->backend, &be, err);
    if (!st) {
        eval_settings(be, x->o->bos, x->settings, sizeof(x->settings));
        st = measure(x, paths, be, err);
    }
    if (!st)
        st = tell(x, doc, err);
    run_free(x);
    infq_backend_close(be);
    return st;
}

int cmd_eval_perturb(int argc, char **argv)
{
    infq_gate_options g = infq_gate_options_default();
    options o = { .bos = "model", .backend = "auto", .shots = -1, .seeds = 3, .margin = g.margin, .alpha = g.alpha };
    perturb_run x = { .o = &o };
    infq_buf doc;
    cmd_sink sink;
    infq_log log;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    g.margin = o.margin;
    g.alpha = o.alpha;
    x.gate = g;
    infq_par_threads_set((int)o.threads);
    infq_buf_init(&doc);
    log = cmd_log(&sink, NAME, o.quiet);
    x.log = &log;
    st = run(&x, argv, &doc, &err);
    cmd_log_end(&sink);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(NAME, &err) : 0;
}
