/* Reports as one JSON object, schema infq.report.v1 (docs/format/reports.md). */
#include <math.h>

#include "lib/report/report.h"

static void num(infq_jw *w, const char *key, double v)
{
    if (!isnan(v))
        infq_jw_key_f64(w, key, v);
}

static void str(infq_jw *w, const char *key, const char *v)
{
    if (v && *v)
        infq_jw_key_str(w, key, v);
}

static void interval(infq_jw *w, double lo, double hi)
{
    if (isnan(lo))
        return;
    infq_jw_key(w, "interval");
    infq_jw_arr(w);
    infq_jw_f64(w, lo);
    infq_jw_f64(w, hi);
    infq_jw_end_arr(w);
}

static void models(const infq_report *r, infq_jw *w)
{
    infq_jw_key(w, "models");
    infq_jw_arr(w);
    for (int i = 0; i < r->n_models; i++) {
        const infq_report_model *m = &r->models[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "name", m->name);
        str(w, "path", m->path);
        num(w, "bytes", m->bytes);
        num(w, "bits_per_weight", m->bits);
        num(w, "score", m->score);
        num(w, "gap", m->gap);
        interval(w, m->lo, m->hi);
        num(w, "kld_mean", m->kld);
        num(w, "kld_stderr", m->kld_se);
        num(w, "ln_ratio", m->ln_ratio);
        num(w, "decode_tokens_per_s", m->decode);
        num(w, "prefill_tokens_per_s", m->prefill);
        num(w, "ttft_p90_ms", m->ttft_p90);
        infq_jw_key_bool(w, "front", m->front);
        str(w, "verdict", infq_report_verdict_name(m->verdict));
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void tasks(const infq_report_comparison *c, infq_jw *w)
{
    infq_jw_key(w, "tasks");
    infq_jw_arr(w);
    for (int i = 0; i < c->n_tasks; i++) {
        const infq_report_task *t = &c->tasks[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "task", t->task);
        infq_jw_key_str(w, "metric", t->metric);
        infq_jw_key_i64(w, "items", t->n);
        num(w, "score_first", t->first);
        num(w, "score_second", t->second);
        num(w, "gap", t->gap);
        interval(w, t->lo, t->hi);
        infq_jw_key_i64(w, "lost", t->lost);
        infq_jw_key_i64(w, "won", t->won);
        num(w, "noise_limit", t->noise);
        str(w, "reason", t->reason);
        str(w, "verdict", infq_report_verdict_name(t->verdict));
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void comparisons(const infq_report *r, infq_jw *w)
{
    infq_jw_key(w, "comparisons");
    infq_jw_arr(w);
    for (int i = 0; i < r->n_comparisons; i++) {
        const infq_report_comparison *c = &r->comparisons[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "first", c->first);
        infq_jw_key_str(w, "second", c->second);
        infq_jw_key_str(w, "sentence", c->sentence);
        infq_jw_key_bool(w, "beside", c->beside);
        num(w, "gap", c->gap);
        interval(w, c->lo, c->hi);
        num(w, "confidence", c->confidence);
        num(w, "margin", c->margin);
        num(w, "noise_limit", c->noise);
        infq_jw_key_i64(w, "items", c->n);
        infq_jw_key_i64(w, "lost", c->lost);
        infq_jw_key_i64(w, "won", c->won);
        infq_jw_key(w, "reasons");
        infq_jw_arr(w);
        for (int k = 0; k < c->n_more; k++)
            infq_jw_str(w, c->more[k]);
        infq_jw_end_arr(w);
        tasks(c, w);
        infq_flips_write(c->flips, c->n_changed, c->n_flips, w);
        str(w, "verdict", infq_report_verdict_name(c->verdict));
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void distances(const infq_report *r, infq_jw *w)
{
    infq_jw_key(w, "distances");
    infq_jw_arr(w);
    for (int i = 0; i < r->n_kld; i++) {
        const infq_report_kld *k = &r->kld[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "text", k->text);
        infq_jw_key_str(w, "model", k->model);
        infq_jw_key_i64(w, "positions", k->n);
        num(w, "kld_mean", k->mean);
        num(w, "kld_stderr", k->se);
        num(w, "kld_median", k->median);
        num(w, "kld_p99", k->p99);
        num(w, "kld_max", k->max);
        num(w, "same_top", k->same_top);
        num(w, "ln_ratio", k->ln_ratio);
        num(w, "ln_ratio_stderr", k->ln_ratio_se);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void perplexities(const infq_report *r, infq_jw *w)
{
    infq_jw_key(w, "perplexities");
    infq_jw_arr(w);
    for (int i = 0; i < r->n_ppl; i++) {
        const infq_report_ppl *p = &r->ppl[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "file", p->file);
        infq_jw_key_str(w, "convention", p->convention);
        infq_jw_key_i64(w, "window", p->window);
        infq_jw_key_i64(w, "tokens_scored", p->tokens);
        infq_jw_key(w, "models");
        infq_jw_arr(w);
        for (int m = 0; m < p->n_models; m++) {
            infq_jw_obj(w);
            infq_jw_key_str(w, "name", p->names[m]);
            num(w, "ppl", p->ppl[m]);
            num(w, "nll_stderr", p->nll_se[m]);
            num(w, "ln_ratio", p->ln_ratio[m]);
            num(w, "ln_ratio_stderr", p->ln_ratio_se[m]);
            infq_jw_end_obj(w);
        }
        infq_jw_end_arr(w);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

infq_status infq_report_json(const infq_report *r, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 1);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.report.v1");
    infq_jw_key_str(&w, "title", r->title);
    str(&w, "verdict", infq_report_verdict_name(r->verdict));
    str(&w, "sentence", r->sentence);
    models(r, &w);
    infq_jw_key(&w, "checks");
    infq_jw_arr(&w);
    for (int i = 0; i < r->n_checks; i++) {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "group", r->checks[i].group);
        infq_jw_key_str(&w, "name", r->checks[i].name);
        infq_jw_key_str(&w, "text", r->checks[i].text);
        str(&w, "verdict", infq_report_verdict_name(r->checks[i].verdict));
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    comparisons(r, &w);
    distances(r, &w);
    perplexities(r, &w);
    infq_jw_key(&w, "settings");
    infq_jw_arr(&w);
    for (int i = 0; i < r->n_settings; i++) {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "key", r->settings[i].key);
        infq_jw_key_str(&w, "value", r->settings[i].value);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}
