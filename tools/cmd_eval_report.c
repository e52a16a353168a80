#include "tools/cmd_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/report/flips.h"

#define MAX_FLIPS 200 /* kept of a comparison in its JSON */

void eval_gate_header(infq_buf *to)
{
    infq_buf_fmt(to, "%-36s %7s %-9s %8s %8s %8s  %-20s %5s %5s  %s\n", "task", "items", "metric", "first", "second", "gap",
                 "interval of the gap", "lost", "won", "verdict");
}

void eval_gate_line(const infq_gate_task *t, infq_buf *to)
{
    char ci[48];

    snprintf(ci, sizeof(ci), "[%+.4f, %+.4f]", t->ci.lo, t->ci.hi);
    infq_buf_fmt(to, "%-36.36s %7lld %-9s %8.4f %8.4f %+8.4f  %-20s %5lld %5lld  %s\n", t->task, (long long)t->n, t->metric,
                 t->score_a, t->score_b, t->gap, ci, (long long)t->b, (long long)t->c, infq_verdict_name(t->verdict));
}

void eval_verdict_text(const infq_gate_suite *s, const infq_gate_task *const *t, const infq_gate_options *o, infq_buf *to)
{
    int64_t lost = 0, won = 0;

    for (int i = 0; i < s->n_tasks; i++) {
        lost += t[i]->b;
        won += t[i]->c;
    }
    infq_buf_fmt(to, "verdict: %s\n", infq_verdict_name(s->verdict));
    infq_buf_fmt(to, "  gap %+.4f [%+.4f, %+.4f] at %.0f %% confidence, margin %g; %lld of %lld items changed, %lld lost, %lld won\n",
                 s->gap, s->ci.lo, s->ci.hi, 100 * (1 - 2 * o->alpha), o->margin, (long long)(lost + won), (long long)s->n,
                 (long long)lost, (long long)won);
    if (s->verdict == INFQ_VERDICT_PASS)
        infq_buf_fmt(to, "  a loss of %g or more is refuted (p = %.3g < %g)\n", o->margin, s->p_pass, o->alpha);
    else if (s->verdict == INFQ_VERDICT_FAIL && s->p_fail < o->alpha)
        infq_buf_fmt(to, "  a loss of %g or less is refuted (p = %.3g < %g)\n", o->margin, s->p_fail, o->alpha);
    else if (s->verdict == INFQ_VERDICT_FAIL)
        infq_buf_fmt(to, "  %s lost more than %g (p = %.3g after correction for %d tasks)\n", t[s->worst]->task, o->margin,
                     s->worst_p, s->n_tasks);
    else if (s->more_items < 0)
        infq_buf_str(to, "  the gap lies at the margin: more items would not decide\n");
    else
        infq_buf_fmt(to, "  about %lld more items would decide at the present gap; expected: %s\n", (long long)s->more_items,
                     s->expect_pass ? "pass" : "fail");
    if (s->n_tasks == 1 && t[0]->binary)
        infq_buf_fmt(to, "  exact McNemar test for any shift: p = %.4g\n", t[0]->mcnemar.p_two_sided);
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
    infq_buf_char(to, '\n');
    return 0;
}

static void compare_text(const eval_run *r, infq_buf *to)
{
    for (int m = 1; m < r->n_models; m++) {
        const infq_gate_task *t[EVAL_MAX_TASKS];
        infq_buf_fmt(to, "%s (first) against %s (second)\n", r->names[0], r->names[m]);
        eval_gate_header(to);
        for (int i = 0; i < r->n_tasks; i++) {
            t[i] = &r->tasks[i].gate[m];
            eval_gate_line(t[i], to);
        }
        if (r->n_models == 2)
            eval_verdict_text(&r->suite[m], t, &r->gate, to);
        else if (r->n_tasks > 1)
            infq_buf_fmt(to, "mean gap %+.4f [%+.4f, %+.4f]\n", r->suite[m].gap, r->suite[m].ci.lo, r->suite[m].ci.hi);
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
    if (r->n_tasks > 0)
        INFQ_TRY(scores_text(r, to, err));
    for (int i = 0; i < r->n_texts; i++) {
        if (r->texts[i].ppl)
            ppl_text(r, &r->texts[i], to);
        if (r->texts[i].kld || r->texts[i].reference)
            kld_text(r, &r->texts[i], to);
    }
    if (r->n_tasks > 0 && r->n_models > 1)
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

static void interval(infq_jw *w, infq_interval ci)
{
    infq_jw_key(w, "interval");
    infq_jw_arr(w);
    infq_jw_f64(w, ci.lo);
    infq_jw_f64(w, ci.hi);
    infq_jw_end_arr(w);
}

void eval_gate_json(const infq_gate_task *t, infq_jw *w)
{
    text(w, "task", t->task);
    text(w, "metric", t->metric);
    count(w, "items", t->n);
    number(w, "score_first", t->score_a);
    number(w, "score_second", t->score_b);
    number(w, "gap", t->gap);
    interval(w, t->ci);
    count(w, "lost", t->b);
    count(w, "won", t->c);
    number(w, "flip_rate", t->psi);
    text(w, "test", t->binary ? "tango" : "paired_t");
    number(w, "statistic", t->statistic);
    number(w, "p_pass", t->p_pass);
    number(w, "p_fail", t->p_fail);
    if (t->binary) {
        number(w, "mcnemar_p_two_sided", t->mcnemar.p_two_sided);
        number(w, "mcnemar_p_degradation", t->mcnemar.p_degradation);
    }
    text(w, "verdict", infq_verdict_name(t->verdict));
    if (t->verdict == INFQ_VERDICT_UNDECIDED) {
        count(w, "more_items", t->more_items);
        count(w, "more_items_without_gap", t->more_items_no_gap);
        text(w, "expected", t->expect_pass ? "pass" : "fail");
    }
}

void eval_suite_json(const infq_gate_suite *s, const infq_gate_options *o, infq_jw *w)
{
    infq_jw_key(w, "suite");
    infq_jw_obj(w);
    count(w, "tasks", s->n_tasks);
    count(w, "items", s->n);
    number(w, "gap", s->gap);
    number(w, "se", s->se);
    interval(w, s->ci);
    number(w, "statistic", s->statistic);
    number(w, "p_pass", s->p_pass);
    number(w, "p_fail", s->p_fail);
    number(w, "margin", o->margin);
    number(w, "alpha", o->alpha);
    number(w, "worst_task_p_fail_adjusted", s->worst_p);
    if (s->verdict == INFQ_VERDICT_UNDECIDED) {
        count(w, "more_items", s->more_items);
        text(w, "expected", s->expect_pass ? "pass" : "fail");
    }
    infq_jw_end_obj(w);
}

static infq_status task_json(const eval_run *r, const eval_task *t, infq_jw *w, infq_err *err)
{
    infq_jw_obj(w);
    text(w, "task", infq_task_name(t->task));
    text(w, "task_digest", infq_task_digest(t->task));
    count(w, "items", infq_task_count(t->task));
    text(w, "decides", r->o->metric ? r->o->metric : infq_task_metric(t->task));
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
        st = infq_flips_find(arena, t->items[0], t->items[m], t->task, t->gate[m].task, t->gate[m].metric, &list, &n, err);
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
        infq_jw_obj(w);
        text(w, "first", r->names[0]);
        text(w, "second", r->names[m]);
        infq_jw_key(w, "tasks");
        infq_jw_arr(w);
        for (int i = 0; i < r->n_tasks; i++) {
            infq_jw_obj(w);
            eval_gate_json(&r->tasks[i].gate[m], w);
            infq_jw_end_obj(w);
        }
        infq_jw_end_arr(w);
        eval_suite_json(&r->suite[m], &r->gate, w);
        text(w, "verdict", infq_verdict_name(r->suite[m].verdict));
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
    infq_jw_key(&w, "texts");
    infq_jw_arr(&w);
    for (int i = 0; i < r->n_texts; i++)
        text_json(r, &r->texts[i], &w);
    infq_jw_end_arr(&w);
    if (r->n_tasks > 0 && r->n_models > 1)
        INFQ_TRY(compare_json(r, &w, err));
    if (r->n_tasks > 0 && r->n_models == 2)
        text(&w, "verdict", infq_verdict_name(r->suite[1].verdict));
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}
