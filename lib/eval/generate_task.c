#include "lib/eval/generate_task.h"

#include <string.h>

#include "lib/base/json.h"
#include "lib/eval/answer.h"
#include "lib/eval/extract.h"

bool infq_chat_use_find(const char *name, infq_chat_use *out)
{
    static const char *const names[] = { "task", "always", "never" };

    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (infq_chat_use)i;
            return true;
        }
    }
    return false;
}

infq_generate_task_options infq_generate_task_options_default(void)
{
    infq_generate_task_options o = { .generate = infq_generate_options_default(), .think_open = "<think>", .think_close = "</think>" };

    o.generate.max_tokens = 0;
    return o;
}

infq_status infq_generate_uses_chat(const infq_writer *w, const infq_task *task, const infq_generate_task_options *o, bool *out,
                                    infq_err *err)
{
    bool has = w->server || w->chat;

    if (o->chat == INFQ_CHAT_ALWAYS && !has)
        return infq_err_set(err, INFQ_E_NOT_FOUND, "the model has no chat template");
    *out = o->chat == INFQ_CHAT_ALWAYS || (o->chat == INFQ_CHAT_TASK && has && infq_task_generation_of(task)->chat);
    return INFQ_E_OK;
}

typedef struct {
    const infq_writer *w;
    const infq_task *task;
    const infq_generate_task_options *o;
    infq_answers *answers;
    infq_items *items;
    infq_item_log *log;
    bool chat;
} writing;

static infq_status give_prompt(void *ctx, int64_t i, infq_buf *text, infq_err *err)
{
    const writing *x = ctx;
    const infq_request *q = &infq_task_get(x->task, i)->requests[0];

    if (x->chat && !x->w->server)
        return infq_chat_prompt(x->w->chat, x->o->system, q->context, q->n_context, NULL, text, err);
    infq_buf_add(text, q->context, q->n_context);
    return infq_buf_status(text, err);
}

static infq_status take_text(void *ctx, const infq_generated *g, infq_err *err)
{
    writing *x = ctx;
    const infq_doc *d = infq_task_get(x->task, g->index);
    const char *stop = infq_finish_name(g->stop);
    size_t from = x->o->think_close ? infq_strip_reasoning(g->text, g->n_text, x->o->think_open, x->o->think_close) : 0;
    infq_item *it;

    INFQ_TRY(infq_items_add(x->items, 1, &it, err));
    it->kind = INFQ_ITEM_GENERATE;
    it->doc = d->doc;
    it->n_tokens[0] = g->n_tokens;
    it->cut = g->n_cut;
    memcpy(it->request, g->request, strlen(g->request) + 1);
    INFQ_TRY(infq_items_text(x->items, g->text, g->n_text, &it->text, err));
    INFQ_TRY(infq_items_text(x->items, stop, strlen(stop), &it->stop, err));
    if (infq_answers_judge(x->answers, x->items, it, it->text + from, g->n_text - from, infq_doc_target(d), d->row, err))
        return infq_err_in(err, "item %lld", (long long)d->doc);
    return x->log ? infq_item_log_add(x->log, it, err) : INFQ_E_OK;
}

static infq_status write_all(writing *x, infq_err *err)
{
    const infq_task_generation *t = infq_task_generation_of(x->task);
    infq_generate_options g = x->o->generate;
    infq_generate_sink sink = { give_prompt, take_text, x };
    int64_t first = infq_items_count(x->items), n = infq_task_count(x->task);

    g.stops = t->stops;
    g.n_stops = t->n_stops;
    g.what = infq_task_name(x->task);
    if (g.max_tokens <= 0)
        g.max_tokens = t->max_tokens;
    if (x->w->server)
        return infq_server_generate(x->w->server, x->chat, x->o->system, first, n, &g, &sink, err);
    return infq_generate(x->w->model, x->w->tok, first, n, &g, &sink, err);
}

infq_status infq_generate_task(const infq_writer *w, const infq_task *task, const infq_generate_task_options *o, infq_items *items,
                               infq_item_log *log, infq_err *err)
{
    writing x = { .w = w, .task = task, .o = o, .items = items, .log = log };
    const infq_task_generation *t = infq_task_generation_of(task);
    infq_status st;

    st = infq_generate_uses_chat(w, task, o, &x.chat, err);
    if (!st)
        st = infq_answers_open(t->extract, t->regex.pattern ? &t->regex : NULL, &x.answers, err);
    if (!st)
        st = write_all(&x, err);
    infq_answers_close(x.answers);
    return st ? infq_err_in(err, "%s", infq_task_name(task)) : INFQ_E_OK;
}

infq_generate_counts infq_generate_count(const infq_items *items)
{
    infq_generate_counts c = { .n = infq_items_count(items) };

    for (int64_t i = 0; i < c.n; i++) {
        const infq_item *it = infq_items_get(items, i);
        double invalid = 0;
        infq_item_metric_get(it, "invalid", &invalid);
        infq_item_metric_get(it, "empty", &invalid);
        c.invalid += invalid != 0;
        c.truncated += strcmp(it->stop, infq_finish_name(INFQ_FINISH_LENGTH)) == 0;
        c.cut += it->cut > 0;
        c.length += (double)it->n_tokens[0] / (double)c.n;
    }
    return c;
}
