/* infeval: scores of one or several models; two are compared and decided on. */
#include "tools/cmd_eval.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/cpu.h"
#include "lib/base/file.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "tools/commands.h"

#define AT(member) offsetof(eval_options, member)
static const opt_row rows[] = {
    { "tasks", 't', OPT_LIST, "T[,T...]", "tasks, groups or suites (infeval tasks lists them); a manifest of yours, T.yaml; a\n"
      "file of items, FILE.jsonl[.gz], .csv, or NAME=FILE read as task NAME reads its own; a\n"
      "folder stands for its *.jsonl; a file of running text is taken as one for --ppl or\n"
      "--metrics kld", AT(tasks), 0, 0 },
    { "data", 0, OPT_LIST, "DIR", "look for tasks' data in DIR first (then INFQ_DATA, ./data, ./evals)", AT(data), 0, 0 },
    { "skip-missing", 0, OPT_FLAG, NULL, "leave out tasks whose data is not there, with a warning", AT(skip_missing), 0, 0 },
    { "shots", 0, OPT_I64, "N", "examples in front of each item (the task's own number)", AT(shots), 0, 1000 },
    { "fewshot-seed", 0, OPT_I64, "N", "draw the examples at random with this seed", AT(fewshot_seed), 0, 4294967295.0 },
    { "rotate", 0, OPT_I64, "N", "shift listed options by N places, where a task lists them", AT(rotate), 0, 1000 },
    { "ppl", 0, OPT_LIST, "FILE", "perplexity of a text (plain, .gz, JSON Lines with \"text\"); wikitext=FILE reads\n"
      "the raw file of that set as the convention asks", AT(ppl), 0, 0 },
    { "convention", 0, OPT_STR, "NAME", "of perplexity: gptq, llamacpp, rolling (the task's; gptq for files)", AT(convention), 0, 0 },
    { "window", 0, OPT_I64, "N", "tokens of a window (2048, 512, the model's maximum; KL divergence: 512)", AT(window), 4, 1e7 },
    { "tokens", 0, OPT_I64, "N", "use the first N tokens of a text (all; KL divergence: 32768)", AT(tokens), 1, 1e12 },
    { "metrics", 0, OPT_LIST, "M[,M]", "kld: KL divergence of each further model from the first, on the texts given", AT(metrics), 0, 0 },
    { "reference", 0, OPT_LIST, "FILE", "KL divergence of each model from what infeval reference stored of an original", AT(references), 0, 0 },
    { "limit", 0, OPT_I64, "N", "use the first N items of each task (all)", AT(limit), 1, 1e12 },
    { "bos", 0, OPT_STR, "RULE", "texts begin with BOS: model, always, never (model)", AT(bos), 0, 0 },
    { "batch", 0, OPT_I64, "N", "items a forward pass (by tokens); scores do not depend on it", AT(batch), 1, 4096 },
    { "threads", 0, OPT_I64, "N", "processors to use (all); scores do not depend on it", AT(threads), 1, 4096 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "items", 0, OPT_STR, "PATH", "write every item as scored; goes on with what is there. A file for one model and\n"
      "task, otherwise a folder: PATH/MODEL/TASK.jsonl", AT(items), 0, 0 },
    { "policy", 0, OPT_STR, "FILE", "every number that the verdict depends on, written before the run (infeval gate --help)", AT(policy), 0, 0 },
    { "profile", 0, OPT_STR, "NAME", "built-in policy: default, strict, 8-bit, 6-bit, 4-bit, 3-bit (default)", AT(profile), 0, 0 },
    { "noise", 0, OPT_LIST, "FILE", "record of infeval noise: of the original, and once more of the compressed model", AT(noise), 0, 0 },
    { "sequential", 0, OPT_FLAG, NULL, "two models in turn over the items in random order; stops when they have decided", AT(sequential), 0, 0 },
    { "margin", 0, OPT_F64, "X", "largest loss of score that may pass (0.01)", AT(margin), 1e-9, 1 },
    { "alpha", 0, OPT_F64, "A", "one-sided error rate of either verdict (0.05)", AT(alpha), 1e-9, 0.5 },
    { "power", 0, OPT_F64, "P", "of the plan for more items (0.8)", AT(power), 0.5, 0.999999 },
    { "metric", 0, OPT_STR, "NAME", "that decides: acc, acc_norm, acc_bytes (the task's own)", AT(metric), 0, 0 },
    { "chat", 0, OPT_STR, "RULE", "prompts of generation through the chat template: task (as it says), always, never", AT(chat), 0, 0 },
    { "system", 0, OPT_STR, "TEXT", "system message in front of such prompts", AT(system), 0, 0 },
    { "reasoning", 0, OPT_STR, "RULE", "strip what stands between <think> and </think> before answers are taken, or keep (strip)",
      AT(reasoning), 0, 0 },
    { "max-tokens", 0, OPT_I64, "N", "of a generated text (the task's)", AT(max_tokens), 1, 1e6 },
    { "temperature", 0, OPT_F64, "X", "of generation; 0 takes the likeliest token (0)", AT(temperature), 0, 100 },
    { "top-k", 0, OPT_I64, "N", "sample from the N likeliest tokens (0: all)", AT(top_k), 0, 1e6 },
    { "top-p", 0, OPT_F64, "X", "sample from the likeliest tokens that sum to X (1: all)", AT(top_p), 1e-6, 1 },
    { "seed", 0, OPT_I64, "N", "of the sampling (1)", AT(seed), 0, 9e15 },
    { "export", 0, OPT_STR, "PATH", "write generated texts as completions, one JSON object a line: a file for one task,\n"
      "otherwise a folder", AT(export), 0, 0 },
    { "server", 0, OPT_STR, "URL", "an OpenAI-compatible server in place of MODEL; INFQ_API_KEY is its key, if set", AT(server), 0, 0 },
    { "model", 0, OPT_STR, "NAME", "what the server calls its model", AT(model), 0, 0 },
    { "tokenizer", 0, OPT_STR, "MODEL", "folder of the server's model: likelihoods are asked with its token ids", AT(tokenizer), 0, 0 },
    { "parallel", 0, OPT_I64, "N", "requests to the server at a time (8)", AT(parallel), 1, 256 },
    { "rate", 0, OPT_F64, "X", "requests a second at most (0: no limit)", AT(rate), 0, 1e6 },
    { "retries", 0, OPT_I64, "N", "of a request that the server or the network refused for now (6)", AT(retries), 0, 1000 },
    { "timeout", 0, OPT_I64, "SECONDS", "for one request; then it is sent again (600)", AT(timeout), 1, 86400 },
    { "bench", 0, OPT_LIST, "FILE", "speed of a model, as infbench --json printed it; may be repeated", AT(benches), 0, 0 },
    { "speed", 0, OPT_FLAG, NULL, "measure the speed of each model here, one request at a time", AT(speed), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_eval_spec = {
    EVAL_NAME, "[options] MODEL [MODEL...]", "Scores models on tasks and texts; decides whether a compressed model is still good.",
    "One model: scores. Several: each against the first, with paired intervals. Two: ORIGINAL and\n"
    "COMPRESSED, with a verdict. Exit code: 0 done or pass, 1 fail, 6 undecided, 3 not comparable.\n"
    "infeval gate ORIGINAL_ITEMS COMPRESSED_ITEMS decides on stored items.",
    rows, sizeof(rows) / sizeof(rows[0]), 0, EVAL_MAX_MODELS,
};

static infq_status add_reference(eval_run *r, const char *path, infq_err *err)
{
    eval_text *t = &r->texts[r->n_texts];

    if (r->n_texts == EVAL_MAX_TEXTS)
        return infq_err_set(err, INFQ_E_USAGE, "more than %d texts", EVAL_MAX_TEXTS);
    snprintf(t->path, sizeof(t->path), "%s", path);
    snprintf(t->name, sizeof(t->name), "%s", path);
    INFQ_TRY(infq_reference_open(path, &t->reference, err));
    r->n_texts++;
    return 0;
}

static infq_status wants_kld(const eval_options *o, bool *kld, infq_err *err)
{
    *kld = false;
    for (int i = 0; i < o->metrics.n; i++) {
        for (const char *s = o->metrics.v[i]; *s;) {
            size_t n = strcspn(s, ",");
            if (n == 3 && strncmp(s, "kld", 3) == 0)
                *kld = true;
            else
                return infq_err_set(err, INFQ_E_USAGE, "--metrics %.*s: only kld is known", (int)n, s);
            s += n + (s[n] == ',');
        }
    }
    return 0;
}

/* Options that would do nothing on what was given. */
static infq_status refuse_idle(const eval_run *r, infq_err *err)
{
    const eval_options *o = r->o;
    const struct {
        const char *name;
        bool given, idle;
        const char *why;
    } rules[] = {
        { "convention", o->convention, r->n_texts == 0, "is about texts: give --ppl" },
        { "window", o->window, r->n_texts == 0, "is about texts: give --ppl" },
        { "tokens", o->tokens, r->n_texts == 0, "is about texts: give --ppl" },
        { "margin", !isnan(o->margin), r->n_models < 2, "is for comparing models: give the original and another" },
        { "alpha", !isnan(o->alpha), r->n_models < 2, "is for comparing models: give the original and another" },
        { "power", !isnan(o->power), r->n_models < 2, "is for comparing models: give the original and another" },
        { "policy", o->policy, r->n_models < 2, "is for comparing models: give the original and another" },
        { "profile", o->profile, r->n_models < 2, "is for comparing models: give the original and another" },
        { "metric", o->metric, r->n_models < 2, "is for comparing models: give the original and another" },
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].given && rules[i].idle)
            return infq_err_set(err, INFQ_E_USAGE, "--%s %s", rules[i].name, rules[i].why);
    return 0;
}

static infq_status read_inputs(eval_run *r, infq_err *err)
{
    const eval_options *o = r->o;
    bool kld;

    INFQ_TRY(eval_bos_find(o->bos, &r->bos, err));
    if (!infq_ppl_find(o->convention ? o->convention : "gptq", &r->convention))
        return infq_err_set(err, INFQ_E_USAGE, "--convention %s: gptq, llamacpp or rolling is wanted", o->convention);
    INFQ_TRY(wants_kld(o, &kld, err));
    if (kld && r->n_models < 2)
        return infq_err_set(err, INFQ_E_USAGE, "--metrics kld compares models: give the original and another");
    INFQ_TRY(eval_tasks_add(r, &o->tasks, kld, err));
    for (int i = 0; i < o->ppl.n; i++)
        INFQ_TRY(eval_text_add(r, o->ppl.v[i], true, kld, err));
    if (kld && r->n_texts == 0)
        return infq_err_set(err, INFQ_E_USAGE, "--metrics kld needs a text: --ppl FILE or --tasks FILE.txt");
    for (int i = 0; i < o->references.n; i++)
        INFQ_TRY(add_reference(r, o->references.v[i], err));
    for (int i = 0; i < r->n_tasks && r->n_models > 1; i++) {
        const infq_task_generation *g = infq_task_generation_of(r->tasks[i].task);
        if (g && !infq_answers_judges(g->extract))
            return infq_err_set(err, INFQ_E_USAGE, "%s is judged elsewhere: one model at a time with --items and --export, then infeval "
                                "import and infeval gate", infq_task_name(r->tasks[i].task));
    }
    if (r->n_tasks == 0 && r->n_texts == 0)
        return infq_err_set(err, INFQ_E_USAGE, "nothing to evaluate: give --tasks, --ppl or --reference");
    return refuse_idle(r, err);
}

/* Things that leave an item file a model. */
static int count_item_files(const eval_run *r)
{
    int n = r->n_tasks;

    for (int i = 0; i < r->n_texts; i++)
        n += r->texts[i].ppl + (r->texts[i].kld || r->texts[i].reference);
    return n;
}

infq_status eval_items_path(const eval_run *r, int m, const char *name, char *out, size_t cap, infq_err *err)
{
    const char *base = r->o->items;
    size_t n = strlen(base);
    bool file = r->n_models == 1 && count_item_files(r) == 1 && !infq_path_is_dir(base) && base[n - 1] != '/';
    char safe[256];
    int len;

    if (file) {
        len = snprintf(out, cap, "%s", base);
    } else {
        if (mkdir(base, 0777) && errno != EEXIST)
            return infq_err_set(err, INFQ_E_IO, "%s: %s", base, strerror(errno));
        len = snprintf(out, cap, "%s/%s", base, r->names[m]);
        if (len < (int)cap && mkdir(out, 0777) && errno != EEXIST)
            return infq_err_set(err, INFQ_E_IO, "%s: %s", out, strerror(errno));
        snprintf(safe, sizeof(safe), "%s", name);
        for (char *c = safe; *c; c++)
            *c = *c == '/' ? '_' : *c;
        len = snprintf(out, cap, "%s/%s/%s.jsonl", base, r->names[m], safe);
    }
    return len < (int)cap ? 0 : infq_err_set(err, INFQ_E_IO, "%.40s...: the path is too long", base);
}

/* What the first item's input begins with: differences of templates and BOS show here. */
static infq_status first_ids(const eval_run *r, const eval_model *l, eval_task *t, infq_err *err)
{
    const infq_request *q = &infq_task_get(t->task, 0)->requests[0];
    infq_ids ctx, cont;
    infq_status st;

    infq_ids_init(&ctx);
    infq_ids_init(&cont);
    st = infq_encode_pair(l->tok, r->bos, q->context, q->n_context, q->continuation, q->n_continuation, &ctx, &cont, err);
    if (!st && ctx.n == 0)
        infq_ids_push(&ctx, infq_tokenizer_prefix(l->tok));
    if (!st)
        infq_ids_append(&ctx, cont.data, cont.n);
    t->n_first_ids = ctx.n < 8 ? (int)ctx.n : 8;
    for (int i = 0; i < t->n_first_ids; i++)
        t->first_ids[i] = ctx.data[i];
    infq_ids_deinit(&ctx);
    infq_ids_deinit(&cont);
    return st;
}

infq_status eval_items_open(eval_run *r, int m, const eval_model *l, eval_task *t, const char *settings, infq_item_log **out,
                            infq_err *err)
{
    infq_item_key key;
    char path[4096];

    memset(&key, 0, sizeof(key));
    snprintf(key.model, sizeof(key.model), "%s", r->names[m]);
    if (l)
        memcpy(key.model_digest, l->digest, sizeof(key.model_digest));
    snprintf(key.tokenizer, sizeof(key.tokenizer), "%s", r->tokenizer[m]);
    snprintf(key.task, sizeof(key.task), "%s", infq_task_name(t->task));
    snprintf(key.task_digest, sizeof(key.task_digest), "%s", infq_task_digest(t->task));
    snprintf(key.metric, sizeof(key.metric), "%s", infq_task_metric(t->task));
    snprintf(key.settings, sizeof(key.settings), "%s", settings);
    if (m == 0 && l && infq_task_kind_of(t->task) != INFQ_TASK_GENERATE)
        INFQ_TRY(first_ids(r, l, t, err));
    INFQ_TRY(infq_items_new(&key, &t->items[m], err));
    if (!r->o->items)
        return 0;
    INFQ_TRY(eval_items_path(r, m, key.task, path, sizeof(path), err));
    INFQ_TRY(infq_item_log_open(path, t->items[m], out, err));
    // items that were there before this run: the policy should have been, too
    if (m > 0 && infq_items_count(t->items[m]) > 0 && r->policy_late != 1) {
        const char *const one = path;
        return gate_policy_late(r->o->policy, &one, 1, &r->policy_late, err);
    }
    return 0;
}

/* What is not there yet, by the model or by the server. */
static infq_status score_rest(const eval_run *r, const eval_model *l, infq_server *server, eval_writing *w, eval_task *t,
                              infq_items *items, infq_item_log *out, infq_err *err)
{
    infq_score_options so = infq_score_options_default();
    int64_t across = 0;

    if (infq_task_kind_of(t->task) == INFQ_TASK_GENERATE)
        return infq_generate_task(&w->by, t->task, &w->o, items, out, err);
    if (server) {
        INFQ_TRY(infq_server_score_task(server, t->task, items, out, &across, err));
        if (across > 0)
            infq_warn(r->log, "%s: %lld tokens reach across the end of a context and count as continuation",
                      infq_task_name(t->task), (long long)across);
        return 0;
    }
    so.bos = r->bos;
    so.batch = r->o->batch;
    so.log = r->log;
    return infq_score_task(l->model, l->tok, t->task, &so, items, out, err);
}

infq_status eval_score_one(eval_run *r, int m, const eval_model *l, infq_server *server, eval_task *t, infq_err *err)
{
    eval_writing w = { .chat = NULL };
    char settings[sizeof(r->settings)];
    infq_item_log *out = NULL;
    infq_err other;
    infq_status st, closed;

    memcpy(settings, r->settings, sizeof(settings));
    if (infq_task_kind_of(t->task) == INFQ_TASK_GENERATE)
        INFQ_TRY(eval_writing_open(r, m, l, server, t->task, &w, settings, sizeof(settings), err));
    st = eval_items_open(r, m, l, t, settings, &out, err);
    if (!st)
        st = score_rest(r, l, server, &w, t, t->items[m], out, err);
    closed = infq_item_log_close(out, &other);
    eval_writing_close(&w);
    if (!st && closed) {
        *err = other;
        st = closed;
    }
    return st;
}

static infq_status take_tokenizer(eval_run *r, int m, const eval_model *l, infq_err *err)
{
    snprintf(r->tokenizer[m], sizeof(r->tokenizer[m]), "%s", infq_tokenizer_digest(l->tok));
    memcpy(r->digest[m], l->digest, sizeof(r->digest[m]));
    if (strcmp(r->tokenizer[m], r->tokenizer[0]) != 0)
        return infq_err_set(err, INFQ_E_MISMATCH, "not comparable: tokenizer.json of %s is not that of %s", r->paths[m], r->paths[0]);
    return 0;
}

static infq_status measure_tasks(eval_run *r, int m, const eval_model *l, infq_err *err)
{
    for (int i = 0; i < r->n_tasks; i++)
        INFQ_TRY(eval_score_one(r, m, l, NULL, &r->tasks[i], err));
    return 0;
}

/* The original stays open while a later step needs it: KL divergence, items in turn. */
static infq_status measure(eval_run *r, infq_backend *be, const infq_log *log, infq_err *err)
{
    bool keep = r->o->sequential, digest = r->o->items != NULL || r->o->noise.n > 0;
    eval_model base, other;
    infq_status st;

    for (int i = 0; i < r->n_texts; i++)
        keep = keep || r->texts[i].kld;
    memset(&other, 0, sizeof(other));
    INFQ_TRY(eval_model_open(r->paths[0], be, log, digest, &base, err));
    st = take_tokenizer(r, 0, &base, err);
    if (!st && !r->o->sequential)
        st = measure_tasks(r, 0, &base, err);
    if (!st)
        st = eval_cost_measure(r, 0, &base, be, log, err);
    if (!st)
        st = eval_texts_measure(r, 0, &base, &base, log, err);
    if (!keep)
        eval_model_close(&base);
    for (int m = 1; m < r->n_models && !st; m++) {
        st = eval_model_open(r->paths[m], be, log, digest, &other, err);
        if (!st)
            st = take_tokenizer(r, m, &other, err);
        if (!st && r->o->sequential)
            st = eval_sequential(r, &base, &other, log, err);
        else if (!st)
            st = measure_tasks(r, m, &other, err);
        if (!st)
            st = eval_cost_measure(r, m, &other, be, log, err);
        if (!st)
            st = eval_texts_measure(r, m, &base, &other, log, err);
        eval_model_close(&other);
    }
    eval_model_close(&base);
    return st;
}

/* The first text whose distance was measured: what the guards look at. */
static const infq_distance *distance_of(const eval_run *r, int m, infq_distance *out)
{
    for (int i = 0; i < r->n_texts; i++) {
        const infq_kld_summary *k = &r->texts[i].distance[m].all;
        if (!r->texts[i].kld && !r->texts[i].reference)
            continue;
        *out = (infq_distance){k->kld_mean, k->kld_se, k->kld_p99, k->same_top, k->same_top_se, k->ln_ratio, k->ln_ratio_se,
                               r->texts[i].distance[m].n_windows, r->noise[0] ? r->noise[0]->kld_mean : NAN};
        return out;
    }
    return NULL;
}

static infq_status decide(eval_run *r, int m, infq_pair **pairs, infq_err *err)
{
    infq_decision_input in = { .pairs = pairs, .policy = &r->policy, .noise_a = r->noise[0], .noise_b = r->noise[m], .stopper = r->stopper };
    infq_distance d;

    for (int i = 0; i < r->n_tasks; i++) {
        const infq_policy_task *listed = infq_policy_find(&r->policy, infq_task_name(r->tasks[i].task));
        const infq_items *a = r->tasks[i].items[0], *b = r->tasks[i].items[m];
        INFQ_TRY(infq_pair_new(&a, 1, &b, 1, listed ? infq_policy_metric(&r->policy, listed) : NULL, &pairs[i], err));
        in.n++;
    }
    in.distance = distance_of(r, m, &d);
    return infq_decide(&in, &r->decision[m], err);
}

static infq_status compare(eval_run *r, infq_err *err)
{
    infq_pair *pairs[EVAL_MAX_TASKS] = { NULL };
    infq_status st = 0;

    INFQ_TRY(eval_groups_find(r, err));
    if (r->n_tasks == 0 || r->n_models < 2)
        return eval_many_compare(r, err);
    INFQ_TRY(gate_noise_load(&r->o->noise, r->digest[0], r->n_models == 2 ? r->digest[1] : "", &r->noise[0], &r->noise[1], err));
    for (int m = 1; m < r->n_models && !st; m++) {
        st = decide(r, m, pairs, err);
        for (int i = 0; i < r->n_tasks; i++) {
            infq_pair_free(pairs[i]);
            pairs[i] = NULL;
        }
    }
    if (!st)
        st = eval_groups_compare(r, err);
    return st ? st : eval_many_compare(r, err);
}

/* Models by the last part of their path; equal ones get a number. */
static void name_models(eval_run *r)
{
    for (int m = 0; m < r->n_models; m++) {
        char base[112];
        int same = 1;
        eval_model_name(r->paths[m], base, sizeof(base));
        for (int k = 0; k < m; k++) {
            char earlier[112];
            eval_model_name(r->paths[k], earlier, sizeof(earlier));
            same += strcmp(base, earlier) == 0;
        }
        if (same > 1)
            snprintf(r->names[m], sizeof(r->names[m]), "%s-%d", base, same);
        else
            snprintf(r->names[m], sizeof(r->names[m]), "%s", base);
    }
}

void eval_run_free(eval_run *r)
{
    eval_many_free(r);
    for (int i = 0; i < r->n_tasks; i++) {
        infq_task_free(r->tasks[i].task);
        for (int m = 0; m < r->n_models; m++)
            infq_items_free(r->tasks[i].items[m]);
    }
    for (int i = 0; i < r->n_texts; i++) {
        for (int m = 0; m < r->n_models; m++)
            infq_ppl_result_free(&r->texts[i].result[m]);
        infq_reference_close(r->texts[i].reference);
    }
    for (int m = 0; m < EVAL_MAX_MODELS; m++) {
        infq_decision_free(&r->decision[m]);
        infq_noise_free(r->noise[m]);
        infq_mem_free(r->gaps[m]);
    }
    infq_groups_free(&r->groups);
    infq_stopper_free(r->stopper);
    infq_schedule_free(r->schedule);
    infq_catalog_free(r->catalog);
    infq_mem_free(r);
}

/* Refused before a model is opened. */
static infq_status check_options(const eval_run *r, infq_err *err)
{
    if (r->o->sequential && (r->n_models != 2 || r->n_tasks == 0))
        return infq_err_set(err, INFQ_E_USAGE, "--sequential compares two models on tasks: give ORIGINAL, COMPRESSED and --tasks");
    for (int i = 0; i < r->n_tasks && r->o->sequential; i++)
        if (infq_task_kind_of(r->tasks[i].task) == INFQ_TASK_GENERATE)
            return infq_err_set(err, INFQ_E_USAGE, "--sequential scores likelihoods, %s generates", infq_task_name(r->tasks[i].task));
    for (int i = 0; i < r->n_tasks && r->n_models > 1; i++) {
        const infq_policy_task *listed = infq_policy_find(&r->policy, infq_task_name(r->tasks[i].task));
        const char *metric = listed ? infq_policy_metric(&r->policy, listed) : NULL;
        if (listed)
            INFQ_TRY(infq_task_metric_check(r->tasks[i].task, metric ? metric : infq_task_metric(r->tasks[i].task), err));
    }
    if (r->o->noise.n > 0 && r->n_models < 2)
        return infq_err_set(err, INFQ_E_USAGE, "--noise is for comparing models: give the original and another");
    return 0;
}

static infq_status evaluate(eval_run *r, infq_buf *doc, infq_err *err)
{
    infq_backend *be = NULL;
    infq_status st;

    INFQ_TRY(read_inputs(r, err));
    INFQ_TRY(check_options(r, err));
    if (r->o->server) {
        st = eval_server_measure(r, err);
    } else {
        INFQ_TRY(infq_backend_open(r->o->backend, &be, err));
        eval_settings(be, r->o->bos, r->settings, sizeof(r->settings));
        st = measure(r, be, r->log, err);
        infq_backend_close(be);
    }
    if (!st)
        st = eval_export(r, err);
    if (!st)
        st = compare(r, err);
    if (!st)
        st = r->o->json ? eval_report_json(r, doc, err) : eval_report_text(r, doc, err);
    return st;
}

static infq_status check_models(const eval_options *o, int n, infq_err *err)
{
    if (!o->server && o->model)
        return infq_err_set(err, INFQ_E_USAGE, "--model names a server's model: --server is missing");
    if (!o->server && o->tokenizer)
        return infq_err_set(err, INFQ_E_USAGE, "--tokenizer is for a server's model: --server is missing");
    if (!o->server)
        return n > 0 ? 0 : infq_err_set(err, INFQ_E_USAGE, "MODEL is missing (infeval --help)");
    if (!o->model)
        return infq_err_set(err, INFQ_E_USAGE, "--server needs --model NAME, what the server calls its model");
    return n == 0 ? 0 : infq_err_set(err, INFQ_E_USAGE, "--server stands in place of MODEL; compare with infeval gate on stored items");
}

int cmd_eval(int argc, char **argv)
{
    eval_options o = { .bos = "model", .shots = -1, .fewshot_seed = -1, .backend = "auto", .margin = NAN, .alpha = NAN, .power = NAN,
                       .chat = "task", .reasoning = "strip", .top_p = 1, .seed = 1, .parallel = 8, .retries = 6, .timeout = 600 };
    eval_run *r = NULL;
    infq_buf doc;
    cmd_sink sink;
    infq_log log;
    infq_err err;
    infq_status st;
    int n_args, code = 0;
    bool done;

    if (opt_parse(&cmd_eval_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(EVAL_NAME, &err);
    if (done)
        return 0;
    if (check_models(&o, n_args, &err) || infq_mem_new(1, sizeof(*r), "run", (void **)&r, &err))
        return cmd_fail(EVAL_NAME, &err);
    r->o = &o;
    r->policy_late = -1;
    r->n_models = o.server ? 1 : n_args;
    memcpy(r->paths, o.server ? (char **)&o.model : argv, (size_t)r->n_models * sizeof(*argv));
    name_models(r);
    infq_par_threads_set((int)o.threads);
    infq_buf_init(&doc);
    log = cmd_log(&sink, EVAL_NAME, o.quiet);
    r->log = &log;
    st = gate_policy(o.policy, o.profile, o.margin, o.alpha, o.power, o.metric, false, &r->policy, &err);
    if (!st && o.policy)
        r->policy_late = 0; // read before anything is scored
    if (!st)
        st = evaluate(r, &doc, &err);
    cmd_log_end(&sink);
    if (!st)
        st = cmd_print(&doc, &err);
    if (!st && r->n_models == 2 && r->n_tasks > 0)
        code = infq_verdict_exit(r->decision[1].suite.verdict);
    infq_buf_deinit(&doc);
    eval_run_free(r);
    return st ? cmd_fail(EVAL_NAME, &err) : code;
}
