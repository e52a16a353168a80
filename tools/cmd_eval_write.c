/* Generation and servers for infeval: what writes texts, exports, scores from a server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/hash.h"
#include "tools/cmd_eval.h"

void eval_writing_close(eval_writing *w)
{
    infq_chat_free(w->chat);
    w->chat = NULL;
}

static infq_status options_of(const eval_options *o, infq_bos bos, const infq_log *log, infq_generate_task_options *out,
                              infq_err *err)
{
    *out = infq_generate_task_options_default();
    out->generate.bos = bos;
    out->generate.max_tokens = o->max_tokens;
    out->generate.batch = o->batch;
    out->generate.log = log;
    out->generate.sample = (infq_sample_options){ o->temperature, o->top_k, o->top_p, (uint64_t)o->seed };
    out->system = o->system;
    if (!infq_chat_use_find(o->chat, &out->chat))
        return infq_err_set(err, INFQ_E_USAGE, "--chat %s: task, always or never is wanted", o->chat);
    if (strcmp(o->reasoning, "keep") == 0)
        out->think_close = NULL;
    else if (strcmp(o->reasoning, "strip") != 0)
        return infq_err_set(err, INFQ_E_USAGE, "--reasoning %s: strip or keep is wanted", o->reasoning);
    if (o->server && o->top_k > 0)
        return infq_err_set(err, INFQ_E_USAGE, "--top-k is no option of such servers");
    return 0;
}

// The template of the model's folder, NULL if it has none; not asked for when prompts go as they are.
static infq_status open_chat(const char *path, const infq_task *task, infq_chat_use use, infq_chat **out, infq_err *err)
{
    infq_status st;

    *out = NULL;
    if (use == INFQ_CHAT_NEVER || (use == INFQ_CHAT_TASK && !infq_task_generation_of(task)->chat))
        return 0;
    st = infq_chat_open(path, out, err);
    return st == INFQ_E_NOT_FOUND ? 0 : st;
}

// Everything that changes a text and is not the task's, appended.
static infq_status describe(const eval_options *o, const eval_writing *w, bool chat, char *settings, size_t cap, infq_err *err)
{
    char system[65] = "";
    infq_buf t;
    infq_status st;

    if (chat && o->system)
        INFQ_TRY(infq_sha256_of(o->system, strlen(o->system), system, err));
    infq_buf_init(&t);
    infq_buf_fmt(&t, "%s chat=%.12s reasoning=%s", settings, !chat ? "no" : w->chat ? infq_chat_digest(w->chat) : "server",
                 o->reasoning);
    if (system[0])
        infq_buf_fmt(&t, " system=%.8s", system);
    if (o->max_tokens > 0)
        infq_buf_fmt(&t, " max_tokens=%lld", (long long)o->max_tokens);
    if (o->temperature > 0)
        infq_buf_fmt(&t, " temperature=%g top_k=%lld top_p=%g seed=%lld", o->temperature, (long long)o->top_k, o->top_p,
                     (long long)o->seed);
    st = infq_buf_status(&t, err);
    if (!st && t.n >= cap)
        st = infq_err_set(err, INFQ_E_USAGE, "the settings are longer than %zu characters: %.100s", cap - 1, t.data);
    if (!st)
        memcpy(settings, t.data, t.n + 1);
    infq_buf_deinit(&t);
    return st;
}

infq_status eval_writing_open(const eval_run *r, int m, const eval_model *l, infq_server *server, const infq_task *task,
                              eval_writing *out,
                              char *settings, size_t cap, infq_err *err)
{
    bool chat = false;
    infq_status st;

    memset(out, 0, sizeof(*out));
    INFQ_TRY(options_of(r->o, r->bos, r->log, &out->o, err));
    if (!server)
        INFQ_TRY(open_chat(r->paths[m], task, out->o.chat, &out->chat, err));
    out->by = (infq_writer){ l ? l->model : NULL, l ? l->tok : NULL, out->chat, server };
    st = infq_generate_uses_chat(&out->by, task, &out->o, &chat, err);
    if (st)
        infq_err_in(err, "%s", r->names[m]);
    else
        st = describe(r->o, out, chat, settings, cap, err);
    if (st)
        eval_writing_close(out);
    else if (!chat && infq_task_generation_of(task)->chat && out->o.chat == INFQ_CHAT_TASK)
        infq_warn(r->log, "%s has no chat template: the prompts of %s go as they are", r->names[m], infq_task_name(task));
    return st;
}

infq_status eval_export(const eval_run *r, infq_err *err)
{
    const char *to = r->o->export;
    char path[4096];
    int n = 0;

    if (!to)
        return 0;
    for (int i = 0; i < r->n_tasks; i++)
        n += infq_task_kind_of(r->tasks[i].task) == INFQ_TASK_GENERATE;
    if (n == 0 || r->n_models != 1)
        return infq_err_set(err, INFQ_E_USAGE, "--export needs one model and a task that generates");
    if (n > 1 && mkdir(to, 0777) && errno != EEXIST)
        return infq_err_set(err, INFQ_E_IO, "%s: %s", to, strerror(errno));
    for (int i = 0; i < r->n_tasks; i++) {
        const eval_task *t = &r->tasks[i];
        if (infq_task_kind_of(t->task) != INFQ_TASK_GENERATE)
            continue;
        if (snprintf(path, sizeof(path), n > 1 ? "%s/%s.jsonl" : "%s", to, infq_task_name(t->task)) >= (int)sizeof(path))
            return infq_err_set(err, INFQ_E_IO, "%.40s...: the path is too long", to);
        INFQ_TRY(infq_generate_export(t->task, t->items[0], path, err));
    }
    return 0;
}

static infq_status measure_with(eval_run *r, const infq_server_options *so, infq_err *err)
{
    infq_server *s = NULL;
    infq_status st = 0;

    INFQ_TRY(infq_server_open(so, &s, err));
    for (int i = 0; i < r->n_tasks && !st; i++)
        st = eval_score_one(r, 0, NULL, s, &r->tasks[i], err);
    if (!st && infq_server_retried(s) > 0)
        infq_warn(r->log, "%lld requests were sent again", (long long)infq_server_retried(s));
    infq_server_close(s);
    return st;
}

infq_status eval_server_measure(eval_run *r, infq_err *err)
{
    infq_server_options so = infq_server_options_default();
    infq_tokenizer *tok = NULL;
    infq_status st;

    so.url = r->o->server;
    so.model = r->o->model;
    so.key = getenv("INFQ_API_KEY");
    so.parallel = r->o->parallel;
    so.retries = r->o->retries;
    so.timeout_s = (double)r->o->timeout;
    so.rate = r->o->rate;
    so.bos = r->bos;
    so.log = r->log;
    if (r->n_texts > 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "perplexity and KL divergence need the model itself, not a server");
    snprintf(r->settings, sizeof(r->settings), "infq=%s server", INFQ_VERSION);
    if (r->o->tokenizer) {
        INFQ_TRY(infq_tokenizer_open(r->o->tokenizer, &tok, err));
        snprintf(r->tokenizer[0], sizeof(r->tokenizer[0]), "%s", infq_tokenizer_digest(tok));
        snprintf(r->settings, sizeof(r->settings), "infq=%s server ids bos=%s", INFQ_VERSION, r->o->bos);
    }
    so.tok = tok;
    st = measure_with(r, &so, err);
    infq_tokenizer_free(tok);
    return st;
}
