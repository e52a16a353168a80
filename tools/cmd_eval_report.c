#include "tools/cmd_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/report/flips.h"

#define MAX_FLIPS 200 /* kept of a comparison in its JSON */

infq_verdict_view eval_verdict_view(const eval_run *r, int m)
{
    const infq_decision *d = &r->decision[m];

    return (infq_verdict_view){ .original = r->names[0], .compressed = r->names[m], .tasks = d->tasks, .suite = &d->suite,
                                .policy = &r->policy, .policy_path = r->o->policy, .policy_late = r->policy_late,
                                .noise_source = r->noise[0] ? r->noise[0]->source : NULL, .stop = d->stopped ? &d->stop : NULL,
                                .left_out = d->left_out, .n_left_out = d->n_left_out, .groups = r->gaps[m], .n_groups = r->n_gaps[m] };
}

static int scores_of(const eval_task *t, int model, infq_score *sc, infq_err *err, infq_status *st)
{
    int n = 0;

    *st = infq_score_summary(t->items[model], sc, INFQ_ITEM_METRICS, &n, err);
    return n;
}

/* Every metric of every model. */
static infq_status scores_text(const eval_run *r, infq_buf *to, infq_err *err)
{
    infq_buf_fmt(to, "%-36s %-24s %7s", "task", "model", "items");
    infq_buf_str(to, "  metrics (standard error)\n");
    for (int i = 0; i < r->n_tasks; i++) {
        for (int m = 0; m < r->n_models; m++) {
            infq_score sc[INFQ_ITEM_METRICS];
            infq_status st;
            int n = scores_of(&r->tasks[i], m, sc, err, &st);
            if (st)
                return st;
            infq_buf_fmt(to, "%-36.36s %-24.24s %7lld ", infq_task_name(r->tasks[i].task), r->names[m],
                         (long long)infq_items_count(r->tasks[i].items[m]));
            for (int k = 0; k < n; k++) {
                infq_buf_fmt(to, " %s %.4f", sc[k].name, sc[k].mean);
                if (isfinite(sc[k].se))
                    infq_buf_fmt(to, " (%.4f)", sc[k].se);
            }
            infq_buf_char(to, '\n');
        }
    }
    INFQ_TRY(eval_groups_text(r, to, err));
    infq_buf_char(to, '\n');
    return 0;
}

static void compare_text(const eval_run *r, infq_buf *to)
{
    for (int m = 1; m < r->n_models; m++) {
        infq_verdict_view v = eval_verdict_view(r, m);
        if (r->n_models == 2) {
            infq_verdict_text(&v, to);
            infq_buf_char(to, '\n');
        }
        infq_buf_fmt(to, "%s (first) against %s (second)\n", r->names[0], r->names[m]);
        if (r->n_models > 2 && r->n_tasks > 1)
            infq_buf_fmt(to, "mean gap %+.4f [%+.4f, %+.4f]\n", v.suite->gap, v.suite->ci.lo, v.suite->ci.hi);
        infq_verdict_table(&v, to);
        infq_buf_char(to, '\n');
    }
}

static void ppl_text(const eval_run *r, const eval_text *t, infq_buf *to)
{
    const infq_ppl_result *p = &t->result[0];

    infq_buf_fmt(to, "perplexity of %s: convention %s, window %lld, %lld windows, %lld tokens scored\n", t->name,
                 infq_ppl_name(p->convention), (long long)p->window, (long long)p->n_windows, (long long)p->n_tokens);
    for (int m = 0; m < r->n_models; m++) {
        p = &t->result[m];
        infq_buf_fmt(to, "  %-24.24s", r->names[m]);
        if (p->convention == INFQ_PPL_ROLLING)
            infq_buf_fmt(to, " word %.4f, byte %.6f, bits per byte %.6f", p->word_ppl, p->byte_ppl, p->bits_per_byte);
        else
            infq_buf_fmt(to, " %.4f", p->ppl);
        if (isfinite(p->se) && p->convention != INFQ_PPL_ROLLING)
            infq_buf_fmt(to, " (%.4f)", p->ppl * p->se);
        if (m > 0)
            infq_buf_fmt(to, ", ln ratio %+.6f", t->ln_ratio[m]);
        if (m > 0 && isfinite(t->ln_ratio_se[m])) // one window has no spread
            infq_buf_fmt(to, " (%.6f)", t->ln_ratio_se[m]);
        if (m > 0)
            infq_buf_fmt(to, ", x %.5f", exp(t->ln_ratio[m]));
        infq_buf_char(to, '\n');
    }
    infq_buf_char(to, '\n');
}

static void kld_text(const eval_run *r, const eval_text *t, infq_buf *to)
{
    const infq_reference_info *f = t->reference ? infq_reference_info_get(t->reference) : NULL;

    for (int m = f ? 0 : 1; m < r->n_models; m++) {
        const infq_kld_result *k = &t->distance[m];
        infq_buf_fmt(to, "KL divergence of %s from %s on %s: %lld windows of %lld tokens\n", r->names[m], f ? f->model : r->names[0],
                     f ? f->text : t->path, (long long)k->n_windows, (long long)k->window);
        infq_kld_text(k, to);
        infq_buf_char(to, '\n');
    }
}

infq_status eval_report_text(const eval_run *r, infq_buf *to, infq_err *err)
{
    if (r->n_tasks > 0 && r->n_models > 2)
        eval_many_text(r, to);
    if (r->n_tasks > 0 && r->n_models == 2) // the answer first
        compare_text(r, to);
    if (r->n_tasks > 0)
        INFQ_TRY(scores_text(r, to, err));
    for (int i = 0; i < r->n_texts; i++) {
        if (r->texts[i].ppl)
            ppl_text(r, &r->texts[i], to);
        if (r->texts[i].kld || r->texts[i].reference)
            kld_text(r, &r->texts[i], to);
    }
    if (r->n_tasks > 0 && r->n_models > 2)
        compare_text(r, to);
    return infq_buf_status(to, err);
}

static void number(infq_jw *w, const char *key, double v)
{
    infq_jw_key(w, key);
    infq_jw_f64(w, v);
}

static void count(infq_jw *w, const char *key, int64_t v)
{
    infq_jw_key(w, key);
    infq_jw_i64(w, v);
}

static void text(infq_jw *w, const char *key, const char *v)
{
    infq_jw_key(w, key);
    infq_jw_str(w, v);
}

static infq_status task_json(const eval_run *r, const eval_task *t, infq_jw *w, infq_err *err)
{
    infq_jw_obj(w);
    text(w, "task", infq_task_name(t->task));
    text(w, "task_digest", infq_task_digest(t->task));
    count(w, "items", infq_task_count(t->task));
    text(w, "decides", r->policy.metric[0] ? r->policy.metric : infq_task_metric(t->task));
    infq_jw_key(w, "first_ids");
    infq_jw_arr(w);
    for (int i = 0; i < t->n_first_ids; i++)
        infq_jw_i64(w, t->first_ids[i]);
    infq_jw_end_arr(w);
    infq_jw_key(w, "scores");
    infq_jw_arr(w);
    for (int m = 0; m < r->n_models; m++) {
        infq_score sc[INFQ_ITEM_METRICS];
        infq_status st;
        int n = scores_of(t, m, sc, err, &st);
        if (st)
            return st;
        infq_jw_obj(w);
        for (int k = 0; k < n; k++) {
            char key[40];
            snprintf(key, sizeof(key), "%.23s_stderr", sc[k].name);
            number(w, sc[k].name, sc[k].mean);
            number(w, key, sc[k].se);
        }
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
    return 0;
}

static void ppl_json(const eval_run *r, const eval_text *t, infq_jw *w)
{
    infq_jw_key(w, "perplexity");
    infq_jw_obj(w);
    text(w, "convention", infq_ppl_name(t->result[0].convention));
    count(w, "window", t->result[0].window);
    count(w, "windows", t->result[0].n_windows);
    count(w, "tokens_scored", t->result[0].n_tokens);
    infq_jw_key(w, "models");
    infq_jw_arr(w);
    for (int m = 0; m < r->n_models; m++) {
        const infq_ppl_result *p = &t->result[m];
        infq_jw_obj(w);
        number(w, "ppl", p->ppl);
        number(w, "nll", p->mean_nll);
        number(w, "nll_stderr", p->se);
        if (p->convention == INFQ_PPL_ROLLING) {
            number(w, "word_ppl", p->word_ppl);
            number(w, "byte_ppl", p->byte_ppl);
            number(w, "bits_per_byte", p->bits_per_byte);
            count(w, "words", p->words);
            count(w, "bytes", p->bytes);
            count(w, "documents", p->n_docs);
        }
        if (m > 0) {
            number(w, "ln_ratio", t->ln_ratio[m]);
            number(w, "ln_ratio_stderr", t->ln_ratio_se[m]);
        }
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
}

static void text_json(const eval_run *r, const eval_text *t, infq_jw *w)
{
    infq_jw_obj(w);
    text(w, "file", t->path);
    if (t->ppl)
        ppl_json(r, t, w);
    if (t->reference) {
        infq_jw_key(w, "reference");
        infq_jw_obj(w);
        text(w, "model", infq_reference_info_get(t->reference)->model);
        text(w, "model_digest", infq_reference_info_get(t->reference)->model_digest);
        text(w, "text", infq_reference_info_get(t->reference)->text);
        text(w, "ids_digest", infq_reference_info_get(t->reference)->ids_digest);
        count(w, "top", infq_reference_info_get(t->reference)->top);
        infq_jw_end_obj(w);
    }
    if (t->kld || t->reference) {
        infq_jw_key(w, "distance");
        infq_jw_arr(w);
        for (int m = t->reference ? 0 : 1; m < r->n_models; m++) {
            infq_jw_obj(w);
            text(w, "model", r->names[m]);
            infq_kld_json(&t->distance[m], w);
            infq_jw_end_obj(w);
        }
        infq_jw_end_arr(w);
    }
    infq_jw_end_obj(w);
}

/* What changed between models 0 and m, with texts while the tasks are at hand. */
static infq_status flips_json(const eval_run *r, int m, infq_jw *w, infq_err *err)
{
    infq_arena *arena = NULL;
    infq_flip *list = NULL;
    int64_t n = 0;
    infq_status st = infq_arena_new(65536, &arena, err);

    for (int i = 0; i < r->n_tasks && !st; i++) {
        const eval_task *t = &r->tasks[i];
        for (int k = 0; k < r->decision[m].n && !st; k++) {
            const infq_gate_task *g = &r->decision[m].tasks[k];
            if (strcmp(g->task, infq_task_name(t->task)) == 0)
                st = infq_flips_find(arena, t->items[0], t->items[m], t->task, g->task, g->metric, &list, &n, err);
        }
    }
    infq_flips_sort(list, n);
    if (!st)
        infq_flips_write(list, n, MAX_FLIPS, w);
    infq_arena_free(arena);
    return st;
}

static infq_status compare_json(const eval_run *r, infq_jw *w, infq_err *err)
{
    infq_jw_key(w, "comparisons");
    infq_jw_arr(w);
    for (int m = 1; m < r->n_models; m++) {
        infq_verdict_view v = eval_verdict_view(r, m);
        infq_jw_obj(w);
        text(w, "first", r->names[0]);
        text(w, "second", r->names[m]);
        infq_verdict_json(&v, w);
        INFQ_TRY(flips_json(r, m, w, err));
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    return r->n_models > 2 ? eval_many_json(r, w, err) : 0;
}

infq_status eval_report_json(const eval_run *r, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    text(&w, "schema", "infq.eval.v1");
    text(&w, "version", INFQ_VERSION);
    text(&w, "cpu_level", infq_cpu_level_name(infq_cpu_level_get()));
    count(&w, "threads", infq_par_threads());
    text(&w, "settings", r->settings);
    if (r->o->items)
        text(&w, "items", r->o->items);
    infq_jw_key(&w, "models");
    infq_jw_arr(&w);
    for (int m = 0; m < r->n_models; m++) {
        infq_jw_obj(&w);
        text(&w, "name", r->names[m]);
        text(&w, "path", r->paths[m]);
        text(&w, "tokenizer", r->tokenizer[m]);
        eval_cost_json(&r->cost[m], &w);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "tasks");
    infq_jw_arr(&w);
    for (int i = 0; i < r->n_tasks; i++)
        INFQ_TRY(task_json(r, &r->tasks[i], &w, err));
    infq_jw_end_arr(&w);
    if (r->groups.n > 0)
        INFQ_TRY(eval_groups_json(r, &w, err));
    infq_jw_key(&w, "texts");
    infq_jw_arr(&w);
    for (int i = 0; i < r->n_texts; i++)
        text_json(r, &r->texts[i], &w);
    infq_jw_end_arr(&w);
    if (r->n_tasks > 0 && r->n_models > 1)
        INFQ_TRY(compare_json(r, &w, err));
    if (r->n_tasks > 0 && r->n_models == 2)
        text(&w, "verdict", infq_verdict_name(r->decision[1].suite.verdict));
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}
