/* infeval noise: how much a model's own scores move from run to run, as a record that the gate takes its margin from. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/eval/noise_run.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

#define NAME "infeval noise"
#define REPEAT_ITEMS 20 /* of the first task, scored twice to see whether the engine repeats itself */

typedef struct {
    opt_list tasks, data;
    const char *source, *activations, *kv, *text, *output, *items, *bos, *metric, *backend;
    int64_t shots, runs, seed, limit, tokens, batch, threads;
    double roundoff;
    bool every_item, force, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "tasks", 't', OPT_LIST, "T[,T...]", "as for infeval MODEL", AT(tasks), 0, 0 },
    { "data", 0, OPT_LIST, "DIR", "as for infeval MODEL", AT(data), 0, 0 },
    { "shots", 0, OPT_I64, "N", "as for infeval MODEL", AT(shots), 0, 1000 },
    { "runs", 'r', OPT_I64, "R", "runs of each task (10)", AT(runs), 2, 1000 },
    { "source", 0, OPT_STR, "S", "what varies: orders (products summed in another order each run, as kernels chosen by batch\n"
      "and prefix do), roundoff (seeded round-off of F32), repeat (nothing but the batch) (orders)", AT(source), 0, 0 },
    { "activations", 0, OPT_STR, "T", "orders, repeat: bf16, f16, f32 (bf16)", AT(activations), 0, 0 },
    { "kv", 0, OPT_STR, "T", "cache: bf16, f16, f8_e4m3, f32 (as activations)", AT(kv), 0, 0 },
    { "roundoff", 0, OPT_F64, "E", "relative size of the round-off (2^-9, BF16's)", AT(roundoff), 1e-12, 0.12 },
    { "seed", 0, OPT_I64, "N", "of the first run; the others count on (1)", AT(seed), 0, 1e15 },
    { "limit", 0, OPT_I64, "N", "use the first N items of each task; the margin is that of the whole task (all)", AT(limit), 1, 1e12 },
    { "every-item", 0, OPT_FLAG, NULL, "score every item in every run, not only those near a tie", AT(every_item), 0, 0 },
    { "text", 0, OPT_STR, "FILE", "also the self-noise of the distribution: KL divergence of run 2 from run 1", AT(text), 0, 0 },
    { "tokens", 0, OPT_I64, "N", "of the text (8192)", AT(tokens), 1, 1e12 },
    { "tokens", 0, OPT_NEED, "text", NULL, 0, 0, 0 },
    { "output", 'o', OPT_STR, "FILE", "write the record; what it holds already is not measured again", AT(output), 0, 0 },
    { "items", 0, OPT_STR, "DIR", "keep every run's items; a stopped measurement goes on from them", AT(items), 0, 0 },
    { "force", 'f', OPT_FLAG, NULL, "replace a record that was made otherwise", AT(force), 0, 0 },
    { "force", 0, OPT_NEED, "output", NULL, 0, 0, 0 },
    { "metric", 0, OPT_STR, "NAME", "acc, acc_norm, ... (the task's own)", AT(metric), 0, 0 },
    { "bos", 0, OPT_STR, "RULE", "texts begin with BOS: model, always, never (model)", AT(bos), 0, 0 },
    { "batch", 0, OPT_I64, "N", "items a forward pass (by tokens); scores do not depend on it", AT(batch), 1, 4096 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); scores do not depend on it", AT(threads), 1, 4096 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "the record on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_eval_noise_spec = {
    NAME, "[options] MODEL --tasks T [-o FILE]", "Measures how much a model's own scores move from run to run.",
    "The engine repeats itself bit by bit, so the variation is declared: what a server's numerics do\n"
    "(orders), or round-off. The record holds, for each task, the standard deviation over runs with its\n"
    "interval, the repeatability limit of ISO 5725 and the share of answers that flip; infeval gate reads\n"
    "it with --noise. Measure the original once: the record is keyed by model, tasks and settings.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

/* How well a task's runs went, beside the record. */
typedef struct {
    double near;
    int64_t n_checked, n_check_flips;
    bool measured, short_cut;
} task_note;

typedef struct {
    const options *o;
    const infq_log *log;
    infq_noise_options no;
    eval_run *r;            /* the tasks */
    eval_model m;
    infq_noise *rec;
    task_note notes[INFQ_NOISE_MAX_TASKS];
} noise_run;

static infq_status elem_of(const char *option, const char *name, bool fp8, infq_elem *out, infq_err *err)
{
    static const infq_elem known[] = { INFQ_ELEM_BF16, INFQ_ELEM_F16, INFQ_ELEM_E4M3 };

    *out = INFQ_ELEM_NONE;
    if (strcasecmp(name, "f32") == 0)
        return 0;
    for (int i = 0; i < (fp8 ? 3 : 2); i++) {
        if (strcasecmp(name, infq_elem_name(known[i])) == 0) {
            *out = known[i];
            return 0;
        }
    }
    return infq_err_set(err, INFQ_E_USAGE, "--%s %.40s: bf16, f16%s or f32 is wanted", option, name, fp8 ? ", f8_e4m3" : "");
}

static infq_status read_options(noise_run *x, infq_err *err)
{
    const options *o = x->o;
    infq_noise_options *n = &x->no;

    *n = infq_noise_options_default();
    if (!infq_noise_source_find(o->source, &n->source))
        return infq_err_set(err, INFQ_E_USAGE, "--source %.40s: orders, roundoff or repeat is wanted", o->source);
    INFQ_TRY(elem_of("activations", o->activations, false, &n->activations, err));
    INFQ_TRY(elem_of("kv", o->kv ? o->kv : o->activations, true, &n->kv, err));
    INFQ_TRY(eval_bos_find(o->bos, &x->r->bos, err));
    n->score.bos = x->r->bos;
    n->score.batch = o->batch;
    n->n_runs = (int)o->runs;
    n->seed = (uint64_t)o->seed;
    n->roundoff = o->roundoff;
    n->limit = o->limit;
    n->every_item = o->every_item;
    n->folder = o->items;
    n->log = x->log;
    if (o->items && mkdir(o->items, 0777) && errno != EEXIST)
        return infq_err_set(err, INFQ_E_IO, "%s: %s", o->items, strerror(errno));
    return 0;
}

static infq_status new_record(noise_run *x, const char *path, infq_err *err)
{
    infq_noise *n;

    INFQ_TRY(infq_noise_new(x->no.n_runs, &x->rec, err));
    n = x->rec;
    eval_model_name(path, n->model, sizeof(n->model));
    memcpy(n->model_digest, x->m.digest, sizeof(n->model_digest));
    snprintf(n->tokenizer, sizeof(n->tokenizer), "%s", infq_tokenizer_digest(x->m.tok));
    memcpy(n->settings, x->r->settings, sizeof(n->settings));
    snprintf(n->source, sizeof(n->source), "%s", infq_noise_source_name(x->no.source));
    for (int j = 0; j < n->n_runs; j++)
        infq_noise_label(&x->no, j, n->labels[j], sizeof(n->labels[j]));
    return 0;
}

/* Takes up the record of an earlier measurement if that was of the same model, settings and runs. */
static infq_status take_up(noise_run *x, infq_err *err)
{
    infq_noise *old = NULL, *new = x->rec;
    const char *what = NULL;

    if (!x->o->output || x->o->force || !infq_path_exists(x->o->output))
        return 0;
    INFQ_TRY(infq_noise_load(x->o->output, &old, err));
    if (strcmp(old->model_digest, new->model_digest) != 0)
        what = "of another model";
    else if (strcmp(old->settings, new->settings) != 0)
        what = "made with other settings";
    else if (strcmp(old->source, new->source) != 0 || !infq_noise_paired(old, new))
        what = "made of other runs";
    if (what) {
        infq_noise_free(old);
        return infq_err_set(err, INFQ_E_EXISTS, "%.120s is %s; name another file, or --force", x->o->output, what);
    }
    infq_noise_free(new);
    x->rec = old;
    return 0;
}

static infq_status save(const noise_run *x, infq_err *err)
{
    infq_buf text;
    infq_status st;

    if (!x->o->output)
        return 0;
    infq_buf_init(&text);
    st = infq_noise_write(x->rec, &text, err);
    if (!st)
        st = infq_file_write_atomic(x->o->output, text.data, text.n, true, err);
    infq_buf_deinit(&text);
    return st;
}

/* The record's task if it is this one with as many items. */
static infq_status known_task(const noise_run *x, const infq_task *t, bool *known, infq_err *err)
{
    const infq_noise_task *k = infq_noise_find(x->rec, infq_task_name(t));
    const char *metric = x->o->metric ? x->o->metric : infq_task_metric(t);
    int64_t n = infq_task_count(t), want = x->o->limit > 0 && x->o->limit < n ? x->o->limit : n;

    *known = k != NULL;
    if (k && (strcmp(k->task_digest, infq_task_digest(t)) != 0 || k->n_items != want || k->n_full != n || strcmp(k->metric, metric) != 0))
        return infq_err_set(err, INFQ_E_EXISTS, "%.100s holds %s with other items or metric; name another file, or --force", x->o->output, k->task);
    return 0;
}

static infq_status measure_task(noise_run *x, int i, infq_err *err)
{
    const infq_task *t = x->r->tasks[i].task;
    infq_item_key key;
    infq_noise_runs runs;
    bool known;
    infq_status st;

    INFQ_TRY(known_task(x, t, &known, err));
    if (known)
        return 0;
    memset(&key, 0, sizeof(key));
    memcpy(key.model, x->rec->model, sizeof(key.model));
    memcpy(key.model_digest, x->rec->model_digest, sizeof(key.model_digest));
    memcpy(key.tokenizer, x->rec->tokenizer, sizeof(key.tokenizer));
    memcpy(key.settings, x->rec->settings, sizeof(key.settings));
    snprintf(key.task, sizeof(key.task), "%s", infq_task_name(t));
    snprintf(key.task_digest, sizeof(key.task_digest), "%s", infq_task_digest(t));
    snprintf(key.metric, sizeof(key.metric), "%s", x->o->metric ? x->o->metric : infq_task_metric(t));
    INFQ_TRY(infq_noise_run_task(x->m.model, x->m.tok, t, &x->no, &key, &runs, err));
    st = infq_noise_add_task(x->rec, (const infq_items *const *)runs.items, key.metric, runs.n_full, err);
    if (!st) {
        x->rec->tasks[x->rec->n_tasks - 1].rescored = runs.rescored;
        x->notes[i] = (task_note){ runs.near, runs.n_checked, runs.n_check_flips, true, runs.short_cut };
    }
    infq_noise_runs_free(&runs);
    return st ? st : save(x, err);
}

static infq_status self_noise(noise_run *x, infq_err *err)
{
    infq_numerics a = infq_noise_numerics(&x->no, 0), b = infq_noise_numerics(&x->no, 1), before = *infq_model_numerics(x->m.model);
    infq_kld_options ko = { .max_tokens = x->o->tokens, .numerics_p = &a, .numerics_q = &b, .log = x->no.log };
    infq_kld_result k;
    infq_corpus *c = NULL;
    infq_status st;

    if (!x->o->text || isfinite(x->rec->kld_mean))
        return 0;
    INFQ_TRY(infq_corpus_open(x->o->text, INFQ_CORPUS_PLAIN, true, 0, &c, err));
    st = infq_kld_measure(x->m.model, x->m.model, x->m.tok, infq_corpus_get(c, 0)->text, infq_corpus_get(c, 0)->n, &ko, &k, err);
    infq_corpus_free(c);
    if (st)
        return infq_err_in(err, "%s", x->o->text);
    x->rec->kld_mean = k.all.kld_mean;
    x->rec->kld_p99 = k.all.kld_p99;
    x->rec->same_top = k.all.same_top;
    INFQ_TRY(infq_model_set_numerics(x->m.model, &before, err));
    return save(x, err);
}

static infq_status measure(noise_run *x, const char *path, infq_backend *be, infq_err *err)
{
    INFQ_TRY(eval_model_open(path, be, x->no.log, true, &x->m, err));
    INFQ_TRY(new_record(x, path, err));
    INFQ_TRY(take_up(x, err));
    if (x->rec->n_tasks == 0)
        INFQ_TRY(infq_noise_repeats(x->m.model, x->m.tok, x->r->tasks[0].task, &x->no, REPEAT_ITEMS, &x->rec->reproducible, err));
    for (int i = 0; i < x->r->n_tasks; i++)
        INFQ_TRY(measure_task(x, i, err));
    return self_noise(x, err);
}

static void tell_task(const infq_noise_task *t, infq_buf *to)
{
    char ci[40], kept[24];

    snprintf(ci, sizeof(ci), "[%.5f, %.5f]", t->sd_ci.lo, t->sd_ci.hi);
    snprintf(kept, sizeof(kept), "%.0f %%", 100 * t->rescored);
    infq_buf_fmt(to, "%-32.32s %7lld %-9s %8.4f %8.5f %-19s %8.5f %8.5f %7.3f %% %8s\n", t->task, (long long)t->n_items, t->metric, t->mean, t->sd,
                 ci, t->limit, t->sd_full, 100 * t->flip_rate, kept);
}

static infq_status tell(const noise_run *x, infq_buf *to, infq_err *err)
{
    const infq_noise *n = x->rec;
    infq_noise_suite s = infq_noise_suite_of(n);

    if (x->o->json)
        return infq_noise_write(n, to, err);
    infq_buf_fmt(to, "noise of %s: %d runs, %s varies; %s\n", n->model, n->n_runs, n->source,
                 n->reproducible ? "the engine repeats itself bit by bit, so this variation is declared" : "the engine does not repeat itself");
    infq_buf_fmt(to, "first run: %s\n\n", n->labels[0]);
    infq_buf_fmt(to, "%-32s %7s %-9s %8s %8s %-19s %8s %8s %9s %8s\n", "task", "items", "metric", "mean", "sd", "90 % interval", "limit", "sd whole",
                 "flips", "rescored");
    for (int i = 0; i < n->n_tasks; i++)
        tell_task(&n->tasks[i], to);
    infq_buf_fmt(to, "\nsuite: sd %.5f [%.5f, %.5f], repeatability limit %.5f (two runs differ by less in 95 of 100 pairs)\n", s.sd, s.sd_ci.lo,
                 s.sd_ci.hi, s.limit);
    for (int i = 0; i < x->r->n_tasks; i++) {
        const task_note *k = &x->notes[i];
        if (!k->measured)
            infq_buf_fmt(to, "%s: taken from the record, not measured again\n", infq_task_name(x->r->tasks[i].task));
        else if (k->n_check_flips > 0)
            infq_buf_fmt(to, "%s: %lld of %lld items far from a tie flipped, so every item was scored in every run\n",
                         infq_task_name(x->r->tasks[i].task), (long long)k->n_check_flips, (long long)k->n_checked);
        else if (k->short_cut)
            infq_buf_fmt(to, "%s: items within %.3f of a tie were scored in every run; of %lld others scored twice none flipped\n",
                         infq_task_name(x->r->tasks[i].task), k->near, (long long)k->n_checked);
    }
    if (isfinite(n->kld_mean))
        infq_buf_fmt(to, "self-noise of the distribution: KL divergence %.3g, 99 %% %.3g, same top token %.3f %%\n", n->kld_mean, n->kld_p99,
                     100 * n->same_top);
    return infq_buf_status(to, err);
}

/* --force replaces records, never what the measurement reads. */
static infq_status keep_inputs(const noise_run *x, const char *model, infq_err *err)
{
    const options *o = x->o;

    if (!o->output)
        return 0;
    INFQ_TRY(cmd_keep_input(o->output, model, err));
    for (int i = 0; i < x->r->n_tasks; i++)
        INFQ_TRY(cmd_keep_input(o->output, infq_task_path(x->r->tasks[i].task), err));
    for (int i = 0; i < o->tasks.n; i++) // manifests of one's own
        INFQ_TRY(cmd_keep_input(o->output, o->tasks.v[i], err));
    return o->text ? cmd_keep_input(o->output, o->text, err) : 0;
}

static infq_status run_all(noise_run *x, eval_options *eo, char **argv, infq_buf *doc, infq_err *err)
{
    infq_backend *be = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*x->r), "run", (void **)&x->r, err));
    memset(x->r, 0, sizeof(*x->r));
    eo->data = x->o->data;
    eo->shots = x->o->shots;
    x->r->log = x->no.log;
    x->r->o = eo; // without a limit: the record knows how many items there are
    INFQ_TRY(read_options(x, err));
    INFQ_TRY(eval_tasks_add(x->r, &x->o->tasks, false, err));
    if (x->r->n_tasks == 0)
        return infq_err_set(err, INFQ_E_USAGE, "nothing to measure: give --tasks");
    if (x->r->n_texts > 0)
        return infq_err_set(err, INFQ_E_USAGE, "%s is a text; --text FILE measures the self-noise of the distribution", x->r->texts[0].name);
    for (int i = 0; i < x->r->n_tasks; i++) {
        const infq_task *t = x->r->tasks[i].task;
        INFQ_TRY(infq_task_metric_check(t, x->o->metric ? x->o->metric : infq_task_metric(t), err));
    }
    INFQ_TRY(keep_inputs(x, argv[0], err));
    INFQ_TRY(infq_backend_open(x->o->backend, &be, err));
    eval_settings(be, x->o->bos, x->r->settings, sizeof(x->r->settings));
    st = measure(x, argv[0], be, err);
    if (!st)
        st = tell(x, doc, err);
    eval_model_close(&x->m);
    infq_backend_close(be);
    return st;
}

int cmd_eval_noise(int argc, char **argv)
{
    infq_noise_options d = infq_noise_options_default();
    options o = { .shots = -1, .source = "orders", .activations = "bf16", .bos = "model", .backend = "auto", .runs = d.n_runs, .seed = (int64_t)d.seed,
                  .roundoff = d.roundoff, .tokens = 8192 };
    eval_options eo = { .bos = "model", .fewshot_seed = -1 };
    noise_run *x = NULL;
    infq_buf doc;
    cmd_sink sink;
    infq_log log;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    if (opt_parse(&cmd_eval_noise_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    if (infq_mem_new(1, sizeof(*x), "run", (void **)&x, &err))
        return cmd_fail(NAME, &err);
    memset(x, 0, sizeof(*x));
    x->o = &o;
    x->log = &log;
    infq_par_threads_set((int)o.threads);
    infq_buf_init(&doc);
    log = cmd_log(&sink, NAME, o.quiet);
    st = run_all(x, &eo, argv, &doc, &err);
    cmd_log_end(&sink);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_noise_free(x->rec);
    if (x->r)
        eval_run_free(x->r);
    infq_mem_free(x);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(NAME, &err) : 0;
}
