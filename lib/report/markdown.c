/* Reports as Markdown (GitHub's and GitLab's tables), short enough for a comment on a pull request. */
#include <math.h>
#include <stdio.h>

#include "lib/base/str.h"
#include "lib/report/words.h"

#define MAX_FLIPS 20

static void cell(infq_buf *to, const char *s)
{
    infq_buf_str(to, " ");
    infq_markdown_text(to, s ? s : "");
    infq_buf_str(to, " |");
}

static void gap_cell(infq_buf *to, double gap, double lo, double hi)
{
    char a[24], b[24], c[24];

    if (isnan(gap))
        infq_buf_str(to, "  |");
    else if (isnan(lo))
        infq_buf_fmt(to, " %s |", infq_points(gap, true, a));
    else
        infq_buf_fmt(to, " %s (%s to %s) |", infq_points(gap, true, a), infq_points(lo, true, b), infq_points(hi, true, c));
}

static void models(const infq_report *r, infq_buf *to)
{
    infq_buf_str(to, "| model | size | bits a weight | score | gap in points | KL divergence | decode tokens/s | TTFT P90 ms | front |\n"
                     "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
    for (int i = 0; i < r->n_models; i++) {
        const infq_report_model *m = &r->models[i];
        char a[32];
        infq_buf_char(to, '|');
        cell(to, m->name);
        cell(to, isnan(m->bytes) ? "" : infq_format_bytes(m->bytes, a, sizeof(a)));
        cell(to, infq_figure(m->bits, a));
        cell(to, infq_points(m->score, false, a));
        gap_cell(to, m->gap, m->lo, m->hi);
        cell(to, infq_figure(m->kld, a));
        cell(to, infq_figure(m->decode, a));
        cell(to, infq_figure(m->ttft_p90, a));
        cell(to, m->front ? "yes" : "");
        infq_buf_char(to, '\n');
    }
    infq_buf_char(to, '\n');
}

static void tasks(const infq_report_comparison *c, infq_buf *to)
{
    infq_buf_fmt(to, "| task | items | metric | %s", "first | second | gap in points (interval) | lost | won | verdict |\n");
    infq_buf_str(to, "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |\n");
    for (int i = 0; i < c->n_tasks; i++) {
        const infq_report_task *t = &c->tasks[i];
        char a[24], b[24];
        infq_buf_char(to, '|');
        cell(to, t->task);
        infq_buf_fmt(to, " %lld |", (long long)t->n);
        cell(to, t->metric);
        cell(to, infq_points(t->first, false, a));
        cell(to, infq_points(t->second, false, b));
        gap_cell(to, t->gap, t->lo, t->hi);
        infq_buf_fmt(to, " %lld | %lld |", (long long)t->lost, (long long)t->won);
        cell(to, infq_report_verdict_name(t->verdict));
        infq_buf_char(to, '\n');
    }
    infq_buf_char(to, '\n');
}

static void flips(const infq_report_comparison *c, infq_buf *to)
{
    int64_t n = c->n_flips < MAX_FLIPS ? c->n_flips : MAX_FLIPS;

    if (n == 0)
        return;
    infq_buf_fmt(to, "<details><summary>%lld items changed</summary>\n\n", (long long)c->n_changed);
    infq_buf_str(to, "| task | item | before | after | answer | second said |\n| --- | ---: | ---: | ---: | --- | --- |\n");
    for (int64_t i = 0; i < n; i++) {
        const infq_flip *f = &c->flips[i];
        infq_buf_char(to, '|');
        cell(to, f->task);
        infq_buf_fmt(to, " %lld | %.4g | %.4g |", (long long)f->doc, f->first, f->second);
        cell(to, f->answer);
        cell(to, f->said_second);
        infq_buf_char(to, '\n');
    }
    if (n < c->n_changed)
        infq_buf_fmt(to, "\nThe first %lld of them.\n", (long long)n);
    infq_buf_str(to, "\n</details>\n\n");
}

static void comparisons(const infq_report *r, infq_buf *to)
{
    for (int i = 0; i < r->n_comparisons; i++) {
        const infq_report_comparison *c = &r->comparisons[i];
        infq_buf_str(to, "## ");
        infq_markdown_text(to, c->second);
        infq_buf_str(to, " against ");
        infq_markdown_text(to, c->first);
        infq_buf_str(to, "\n\n");
        infq_markdown_text(to, c->sentence);
        infq_buf_str(to, "\n\n");
        for (int k = 0; k < c->n_more; k++) {
            infq_buf_str(to, "- ");
            infq_markdown_text(to, c->more[k]);
            infq_buf_str(to, k + 1 < c->n_more ? "\n" : "\n\n");
        }
        if (c->beside) // the figures of the whole are in the sentence
            continue;
        tasks(c, to);
        flips(c, to);
    }
}

static void distances(const infq_report *r, infq_buf *to)
{
    if (r->n_kld > 0) {
        infq_buf_str(to, "## Distance from the original\n\n"
                         "| text | model | positions | KL divergence | median | 99 % | same top token | ln perplexity ratio |\n"
                         "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        for (int i = 0; i < r->n_kld; i++) {
            const infq_report_kld *k = &r->kld[i];
            char a[24], b[24], c[24], d[24];
            infq_buf_char(to, '|');
            cell(to, k->text);
            cell(to, k->model);
            infq_buf_fmt(to, " %lld | %s (%s) | %s | %s | %.2f %% | %+.5f (%.5f) |\n", (long long)k->n, infq_figure(k->mean, a),
                         infq_figure(k->se, b), infq_figure(k->median, c), infq_figure(k->p99, d), 100 * k->same_top, k->ln_ratio,
                         k->ln_ratio_se);
        }
        infq_buf_char(to, '\n');
    }
    for (int i = 0; i < r->n_ppl; i++) {
        const infq_report_ppl *p = &r->ppl[i];
        infq_buf_str(to, "Perplexity of ");
        infq_markdown_text(to, p->file);
        infq_buf_fmt(to, " (%s, window %lld):", p->convention, (long long)p->window);
        for (int m = 0; m < p->n_models; m++) {
            infq_buf_str(to, m ? ", " : " ");
            infq_markdown_text(to, p->names[m]);
            infq_buf_fmt(to, " %.4f", p->ppl[m]);
        }
        infq_buf_str(to, ".\n\n");
    }
}

infq_status infq_report_markdown(const infq_report *r, infq_buf *to, infq_err *err)
{
    infq_buf_str(to, "# ");
    infq_markdown_text(to, r->title);
    infq_buf_str(to, "\n\n");
    if (r->sentence) {
        infq_buf_str(to, "**");
        infq_markdown_text(to, r->sentence);
        infq_buf_str(to, "**\n\n");
    }
    if (r->n_models > 0)
        models(r, to);
    for (int i = 0; i < r->n_checks; i++) {
        if (!r->checks[i].decides) // guards stand among the reasons
            continue;
        infq_buf_fmt(to, "- %s: ", infq_report_verdict_name(r->checks[i].verdict));
        infq_markdown_text(to, r->checks[i].text);
        infq_buf_str(to, "\n");
    }
    if (r->n_checks > 0)
        infq_buf_char(to, '\n');
    comparisons(r, to);
    distances(r, to);
    for (int i = 0; i < r->n_settings; i++) {
        infq_buf_str(to, i ? "; " : "Settings: ");
        infq_markdown_text(to, r->settings[i].key);
        infq_buf_str(to, " ");
        infq_markdown_text(to, r->settings[i].value);
        infq_buf_str(to, i + 1 < r->n_settings ? "" : ".\n");
    }
    return infq_buf_status(to, err);
}
