/* Reports as one HTML page that needs nothing else: style sheet and charts are inside, there is no script. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/report/html_int.h"
#include "lib/report/svg.h"
#include "lib/report/words.h"

#define MAX_POINTS 64

static void text(infq_buf *to, const char *s)
{
    infq_markup_pretty(to, s ? s : "");
}

static void cell(infq_buf *to, const char *cls, const char *s)
{
    infq_buf_fmt(to, "<td class=\"%s\">", cls);
    text(to, s);
    infq_buf_str(to, "</td>");
}

/* A name that may be broken behind each underscore. */
static void name_cell(infq_buf *to, const char *s)
{
    infq_buf name;

    infq_buf_init(&name);
    infq_markup_text(&name, s);
    infq_buf_str(to, "<td class=\"w\">");
    for (size_t i = 0; i < name.n; i++) {
        infq_buf_add(to, &name.data[i], 1);
        if (name.data[i] == '_')
            infq_buf_str(to, "<wbr>");
    }
    infq_buf_str(to, "</td>");
    to->failed = to->failed || name.failed;
    infq_buf_deinit(&name);
}

static void verdict_cell(infq_buf *to, infq_report_verdict v)
{
    infq_buf_fmt(to, "<td class=\"k\"><span class=\"word %s\">%s</span></td>", infq_report_verdict_name(v), infq_report_verdict_name(v));
}

static void table(infq_buf *to, const char *const *heads, int n, const char *numeric)
{
    infq_buf_str(to, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for (int i = 0; i < n; i++) {
        infq_buf_fmt(to, "<th%s>", numeric[i] == 'n' ? " class=\"n\"" : "");
        text(to, heads[i]);
        infq_buf_str(to, "</th>");
    }
    infq_buf_str(to, "</tr></thead><tbody>\n");
}

static void end_table(infq_buf *to)
{
    infq_buf_str(to, "</tbody></table></div>\n");
}

static void heading(infq_buf *to, int level, const char *s)
{
    infq_buf_fmt(to, "<h%d>", level);
    text(to, s);
    infq_buf_fmt(to, "</h%d>\n", level);
}

static void gap_text(double gap, double lo, double hi, char *out, size_t cap)
{
    char a[24], b[24], c[24];

    infq_points(gap, true, a);
    if (isnan(lo))
        snprintf(out, cap, "%s", a);
    else
        snprintf(out, cap, "%s (%s to %s)", a, infq_points(lo, true, b), infq_points(hi, true, c));
}

static void banner(const infq_report *r, infq_buf *to)
{
    const infq_report_comparison *c = r->n_comparisons == 1 ? &r->comparisons[0] : NULL;

    if (!r->sentence)
        return;
    infq_buf_fmt(to, "<section class=\"verdict %s\"><p>", infq_report_verdict_name(r->verdict));
    text(to, r->sentence);
    infq_buf_str(to, "</p>");
    if (c && c->n_more > 0) {
        infq_buf_str(to, "<ul>");
        for (int i = 0; i < c->n_more; i++) {
            infq_buf_str(to, "<li>");
            text(to, c->more[i]);
            infq_buf_str(to, "</li>");
        }
        infq_buf_str(to, "</ul>");
    }
    infq_buf_str(to, "</section>\n");
}

typedef struct {
    const char *head, *cls;            /* cls: of the cells */
    void (*put)(const infq_report_model *m, char *out, size_t cap); /* "": not known */
} model_column;

static void put_name(const infq_report_model *m, char *out, size_t cap) { snprintf(out, cap, "%s", m->name); }
static void put_bits(const infq_report_model *m, char *out, size_t cap) { (void)cap; infq_figure(m->bits, out); }
static void put_score(const infq_report_model *m, char *out, size_t cap) { (void)cap; infq_points(m->score, false, out); }
static void put_gap(const infq_report_model *m, char *out, size_t cap) { gap_text(m->gap, m->lo, m->hi, out, cap); }
static void put_kld(const infq_report_model *m, char *out, size_t cap) { (void)cap; infq_figure(m->kld, out); }
static void put_decode(const infq_report_model *m, char *out, size_t cap) { (void)cap; infq_figure(m->decode, out); }
static void put_prefill(const infq_report_model *m, char *out, size_t cap) { (void)cap; infq_figure(m->prefill, out); }
static void put_ttft(const infq_report_model *m, char *out, size_t cap) { (void)cap; infq_figure(m->ttft_p90, out); }
static void put_front(const infq_report_model *m, char *out, size_t cap) { snprintf(out, cap, "%s", m->front ? "yes" : ""); }
static void put_size(const infq_report_model *m, char *out, size_t cap)
{
    if (isnan(m->bytes))
        out[0] = '\0';
    else
        infq_format_bytes(m->bytes, out, cap);
}

static const model_column model_columns[] = {
    {"model", "t", put_name},          {"size", "n", put_size},         {"bits a weight", "n", put_bits},
    {"score", "n", put_score},         {"gap in points", "n", put_gap}, {"KL divergence", "n", put_kld},
    {"decode tokens/s", "n", put_decode}, {"prefill tokens/s", "n", put_prefill}, {"TTFT P90 ms", "n", put_ttft},
    {"on the front", "k", put_front},
};
#define N_COLUMNS (int)(sizeof(model_columns) / sizeof(model_columns[0]))

/* Columns that hold nothing are left out. */
static void model_table(const infq_report *r, infq_buf *to)
{
    const model_column *used[N_COLUMNS];
    const char *heads[N_COLUMNS];
    char numeric[N_COLUMNS], s[256];
    int n = 0;

    for (int k = 0; k < N_COLUMNS; k++) {
        bool any = false;
        for (int i = 0; i < r->n_models && !any; i++) {
            model_columns[k].put(&r->models[i], s, sizeof(s));
            any = s[0] != '\0';
        }
        if (!any)
            continue;
        used[n] = &model_columns[k];
        heads[n] = used[n]->head;
        numeric[n] = used[n]->cls[0];
        n++;
    }
    table(to, heads, n, numeric);
    for (int i = 0; i < r->n_models; i++) {
        infq_buf_str(to, "<tr>");
        for (int k = 0; k < n; k++) {
            used[k]->put(&r->models[i], s, sizeof(s));
            cell(to, used[k]->cls, s);
        }
        infq_buf_str(to, "</tr>\n");
    }
    end_table(to);
}

/* Size against `worth`, the front as a line through its models. */
static void front_chart(const infq_report *r, bool by_score, infq_buf *to)
{
    double x[MAX_POINTS], y[MAX_POINTS], fx[MAX_POINTS], fy[MAX_POINTS], values[MAX_POINTS];
    const char *names[MAX_POINTS], *front_names[MAX_POINTS];
    bool on[MAX_POINTS];
    int n = 0, n_front = 0, n_off = 0;

    for (int i = 0; i < r->n_models && n < MAX_POINTS; i++) {
        const infq_report_model *m = &r->models[i];
        double v = by_score ? 100 * m->score : m->kld;
        if (isnan(m->bytes) || isnan(v))
            continue;
        x[n] = m->bytes / 1e6;
        y[n] = v;
        values[n] = by_score ? v : -v;
        names[n++] = m->name;
    }
    if (n < 2)
        return;
    infq_front(x, values, n, on);
    for (int i = 0; i < n; i++) { // the front by size; the others move up
        int at = n_front;
        if (!on[i]) {
            x[n_off] = x[i];
            y[n_off] = y[i];
            names[n_off++] = names[i];
            continue;
        }
        for (; at > 0 && fx[at - 1] > x[i]; at--) {
            fx[at] = fx[at - 1];
            fy[at] = fy[at - 1];
            front_names[at] = front_names[at - 1];
        }
        fx[at] = x[i];
        fy[at] = y[i];
        front_names[at] = names[i];
        n_front++;
    }
    infq_svg_series s[2] = {
        {"front", NULL, fx, fy, front_names, n_front, true, true},
        {"off", NULL, x, y, names, n_off, false, true},
    };
    infq_svg_plot(s, 2, true, !by_score, "size in MB", by_score ? "mean score in points, more is better" : "KL divergence, less is better", to);
}

/* Neighbours in size: sentences only, their tasks are in the comparisons with the first model. */
static void neighbours(const infq_report *r, infq_buf *to)
{
    bool any = false;

    for (int i = 0; i < r->n_comparisons; i++) {
        if (!r->comparisons[i].beside)
            continue;
        infq_buf_str(to, any ? "" : "<h3>Neighbours in size</h3>\n<ul>\n");
        infq_buf_str(to, "<li>");
        text(to, r->comparisons[i].sentence);
        infq_buf_str(to, "</li>\n");
        any = true;
    }
    infq_buf_str(to, any ? "</ul>\n" : "");
}

static void models(const infq_report *r, infq_buf *to)
{
    if (r->n_models == 0)
        return;
    heading(to, 2, "Models");
    model_table(r, to);
    if (r->n_models > 2) {
        infq_buf_str(to, "<p class=\"note\">The line joins the models that no other beats in both size and quality (the front). Gaps are against the first "
                         "model, with their intervals; differences smaller than those are not differences.</p>\n");
        front_chart(r, true, to);
        front_chart(r, false, to);
        neighbours(r, to);
    }
}

static void interval_chart(const infq_report_comparison *c, infq_buf *to)
{
    infq_svg_interval rows[257];
    char values[257][64];
    int n = 0;

    for (int i = 0; i < c->n_tasks && n < 256; i++) {
        const infq_report_task *t = &c->tasks[i];
        gap_text(t->gap, t->lo, t->hi, values[n], sizeof(values[n]));
        rows[n] = (infq_svg_interval){t->task, values[n], infq_report_verdict_name(t->verdict), 100 * t->gap, 100 * t->lo, 100 * t->hi,
                                      100 * t->noise, false};
        n++;
    }
    gap_text(c->gap, c->lo, c->hi, values[n], sizeof(values[n]));
    rows[n] = (infq_svg_interval){c->n_tasks > 1 ? "all tasks" : "decided on", values[n], infq_report_verdict_name(c->verdict), 100 * c->gap,
                                  100 * c->lo, 100 * c->hi, 100 * c->noise, true};
    infq_svg_intervals(rows, n + 1, 100 * c->margin, "change of score in points", to);
    infq_buf_str(to, "<ul class=\"key\">");
    if (!isnan(c->noise))
        infq_buf_str(to, "<li><i class=\"band\"></i>run-to-run noise of the original</li>");
    if (!isnan(c->margin))
        infq_buf_str(to, "<li><i class=\"margin\"></i>largest loss that may pass</li>");
    infq_buf_fmt(to, "<li>lines: %.4g %% intervals of the paired difference</li></ul>\n", 100 * c->confidence);
}

static void task_table(const infq_report_comparison *c, infq_buf *to)
{
    static const char *const heads[] = {"task", "verdict", "gap (interval)", "first", "second", "lost", "won", "items", "metric", "reason"};
    bool reasons = false;

    for (int i = 0; i < c->n_tasks; i++)
        reasons = reasons || c->tasks[i].reason;
    table(to, heads, reasons ? 10 : 9, "ttnnnnnntt");
    for (int i = 0; i < c->n_tasks; i++) {
        const infq_report_task *t = &c->tasks[i];
        char a[64];
        infq_buf_str(to, "<tr>");
        name_cell(to, t->task);
        verdict_cell(to, t->verdict);
        gap_text(t->gap, t->lo, t->hi, a, sizeof(a));
        cell(to, "n", a);
        cell(to, "n", infq_points(t->first, false, a));
        cell(to, "n", infq_points(t->second, false, a));
        infq_buf_fmt(to, "<td class=\"n\">%lld</td><td class=\"n\">%lld</td><td class=\"n\">%lld</td>", (long long)t->lost, (long long)t->won,
                     (long long)t->n);
        cell(to, "k", t->metric);
        if (reasons)
            cell(to, "t", t->reason);
        infq_buf_str(to, "</tr>\n");
    }
    end_table(to);
}

static void quote(infq_buf *to, const char *cls, const char *s)
{
    infq_buf_fmt(to, "<td class=\"%s\">", cls);
    if (s && *s) {
        infq_buf_str(to, "<q>");
        infq_markup_text(to, s);
        infq_buf_str(to, "</q>");
    }
    infq_buf_str(to, "</td>");
}

static void flip_table(const infq_report_comparison *c, infq_buf *to)
{
    static const char *const heads[] = {"task", "item", "before", "after", "margin before", "margin after", "text", "answer", "first said", "second said"};
    bool texts = false;

    if (c->n_flips == 0)
        return;
    for (int64_t i = 0; i < c->n_flips; i++)
        texts = texts || c->flips[i].text;
    infq_buf_fmt(to, "<details><summary>Items that changed: %lld</summary>\n<p class=\"note\">Losses first, the largest fall of the margin on top. "
                     "Margin: log-likelihood of the answer less that of the best other choice.%s</p>\n", (long long)c->n_changed,
                 c->n_flips < c->n_changed ? " Only the first of them are shown." : "");
    table(to, heads, texts ? 10 : 6, "tnnnnntttt");
    for (int64_t i = 0; i < c->n_flips; i++) {
        const infq_flip *f = &c->flips[i];
        char a[24];
        infq_buf_str(to, "<tr>");
        name_cell(to, f->task);
        infq_buf_fmt(to, "<td class=\"n\">%lld</td>", (long long)f->doc);
        infq_buf_fmt(to, "<td class=\"n\">%.4g</td><td class=\"n\">%.4g</td>", f->first, f->second);
        cell(to, "n", infq_figure(f->margin_first, a));
        cell(to, "n", infq_figure(f->margin_second, a));
        if (texts) {
            quote(to, "q", f->text);
            quote(to, "q", f->answer);
            quote(to, "q", f->said_first);
            quote(to, "q", f->said_second);
        }
        infq_buf_str(to, "</tr>\n");
    }
    end_table(to);
    infq_buf_str(to, "</details>\n");
}

static void comparison(const infq_report_comparison *c, bool alone, infq_buf *to)
{
    infq_buf_str(to, "<section>\n<h2>");
    text(to, c->second);
    infq_buf_str(to, " against ");
    text(to, c->first);
    infq_buf_str(to, "</h2>\n");
    if (!alone) { // the banner says it otherwise
        infq_buf_str(to, "<p>");
        text(to, c->sentence);
        infq_buf_str(to, ".</p>\n");
        for (int k = 0; k < c->n_more; k++) {
            infq_buf_str(to, "<p class=\"note\">");
            text(to, c->more[k]);
            infq_buf_str(to, ".</p>\n");
        }
    }
    interval_chart(c, to);
    task_table(c, to);
    flip_table(c, to);
    infq_buf_str(to, "</section>\n");
}

static void comparisons(const infq_report *r, infq_buf *to)
{
    for (int i = 0; i < r->n_comparisons; i++)
        if (!r->comparisons[i].beside)
            comparison(&r->comparisons[i], r->n_comparisons == 1, to);
}

static void distance(const infq_report_kld *k, infq_buf *to)
{
    char a[24], b[24], labels[3][40];
    infq_svg_mark marks[3] = {{labels[0], k->median}, {labels[1], k->mean}, {labels[2], k->p99}};
    static const char *const names[] = {"median", "mean", "99 %"};

    heading(to, 3, k->model);
    infq_buf_str(to, "<p class=\"note\">");
    text(to, k->text);
    infq_buf_fmt(to, ": %lld positions, mean %s", (long long)k->n, infq_figure(k->mean, a));
    if (!isnan(k->se))
        infq_buf_fmt(to, " \xc2\xb1 %s", infq_figure(k->se, b));
    infq_buf_fmt(to, ", same most likely token at %.2f %%, perplexity times %.4f</p>\n", 100 * k->same_top, exp(k->ln_ratio));
    for (int i = 0; i < 3; i++)
        snprintf(labels[i], sizeof(labels[i]), "%s %s", names[i], infq_figure(marks[i].at, a));
    infq_svg_histogram(k->edge, k->count, k->n_bins, marks, 3, "KL divergence of a position in nats", to);
}

static void distances(const infq_report *r, infq_buf *to)
{
    static const char *const heads[] = {"text", "convention", "window", "model", "perplexity", "ln ratio (error)"};

    if (r->n_kld > 0) {
        infq_buf_str(to, "<section>\n");
        heading(to, 2, "Distance from the original");
        for (int i = 0; i < r->n_kld; i++)
            distance(&r->kld[i], to);
        infq_buf_str(to, "</section>\n");
    }
    if (r->n_ppl == 0)
        return;
    infq_buf_str(to, "<section>\n");
    heading(to, 2, "Perplexity");
    table(to, heads, 6, "ttntnn");
    for (int i = 0; i < r->n_ppl; i++) {
        const infq_report_ppl *p = &r->ppl[i];
        for (int m = 0; m < p->n_models; m++) {
            char a[64] = "";
            infq_buf_str(to, "<tr>");
            cell(to, "t", p->file);
            cell(to, "k", p->convention);
            infq_buf_fmt(to, "<td class=\"n\">%lld</td>", (long long)p->window);
            cell(to, "t", p->names[m]);
            infq_buf_fmt(to, "<td class=\"n\">%.4f</td>", p->ppl[m]);
            if (!isnan(p->ln_ratio[m]))
                snprintf(a, sizeof(a), "%+.5f (%.5f)", p->ln_ratio[m], p->ln_ratio_se[m]);
            cell(to, "n", a);
            infq_buf_str(to, "</tr>\n");
        }
    }
    end_table(to);
    infq_buf_str(to, "</section>\n");
}

static void checks(const infq_report *r, infq_buf *to)
{
    static const char *const heads[] = {"check", "verdict", "what was found"};

    if (r->n_checks == 0)
        return;
    heading(to, 2, "Checks");
    table(to, heads, 3, "ttt");
    for (int i = 0; i < r->n_checks; i++) {
        infq_buf_str(to, "<tr>");
        cell(to, "k", r->checks[i].name);
        verdict_cell(to, r->checks[i].verdict);
        cell(to, "t", r->checks[i].text);
        infq_buf_str(to, "</tr>\n");
    }
    end_table(to);
}

static void settings(const infq_report *r, infq_buf *to)
{
    static const char *const heads[] = {"setting", "value"};

    if (r->n_settings == 0)
        return;
    heading(to, 2, "Settings");
    table(to, heads, 2, "tt");
    for (int i = 0; i < r->n_settings; i++) {
        infq_buf_str(to, "<tr>");
        cell(to, "k", r->settings[i].key);
        cell(to, "t", r->settings[i].value);
        infq_buf_str(to, "</tr>\n");
    }
    end_table(to);
}

infq_status infq_report_html(const infq_report *r, infq_buf *to, infq_err *err)
{
    infq_buf_str(to, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    infq_markup_text(to, r->title);
    infq_buf_str(to, "</title>\n<style>\n");
    infq_buf_str(to, infq_html_style);
    infq_buf_str(to, "</style>\n</head>\n<body>\n<main>\n");
    heading(to, 1, r->title);
    banner(r, to);
    models(r, to);
    checks(r, to);
    comparisons(r, to);
    distances(r, to);
    settings(r, to);
    infq_buf_str(to, "</main>\n</body>\n</html>\n");
    return infq_buf_status(to, err);
}
