/* Reports as JUnit XML, the form that continuous-integration systems show: a suite a comparison, a case a task, one for the whole, one a check.
 *
 * Pass: an empty case. Fail: <failure>. Undecided: <error> for a whole, <skipped> for a task (a suite may pass although one small task does
 * not decide). Refused: <error>. */
#include <math.h>
#include <string.h>

#include "lib/report/words.h"

typedef struct {
    int tests, failures, errors, skipped;
} counts;

static void attribute(infq_buf *to, const char *name, const char *value)
{
    infq_buf_fmt(to, " %s=\"", name);
    infq_markup_text(to, value);
    infq_buf_char(to, '"');
}

static void one_case(infq_buf *to, counts *n, const char *suite, const char *name, infq_report_verdict v, bool whole, const char *text)
{
    const char *element = v == INFQ_REPORT_FAIL ? "failure" : v == INFQ_REPORT_REFUSED || (v == INFQ_REPORT_UNDECIDED && whole) ? "error" : "skipped";

    n->tests++;
    infq_buf_str(to, "    <testcase");
    attribute(to, "classname", suite);
    attribute(to, "name", name);
    if (v == INFQ_REPORT_PASS || v == INFQ_REPORT_NONE) {
        infq_buf_str(to, ">\n      <system-out>");
        infq_markup_text(to, text);
        infq_buf_str(to, "</system-out>\n    </testcase>\n");
        return;
    }
    n->failures += strcmp(element, "failure") == 0;
    n->errors += strcmp(element, "error") == 0;
    n->skipped += strcmp(element, "skipped") == 0;
    infq_buf_fmt(to, ">\n      <%s", element);
    if (strcmp(element, "skipped") != 0)
        attribute(to, "type", infq_report_verdict_name(v));
    attribute(to, "message", text);
    infq_buf_str(to, "/>\n    </testcase>\n");
}

static void task_text(const infq_report_task *t, double confidence, infq_buf *to)
{
    char a[24], b[24], c[24];

    infq_buf_clear(to);
    infq_buf_fmt(to, "%s %s to %s, gap %s points", t->metric, infq_points(t->first, false, a), infq_points(t->second, false, b),
                 infq_points(t->gap, true, c));
    if (!isnan(t->lo)) {
        infq_buf_str(to, " (");
        infq_interval_words(t->lo, t->hi, confidence, to);
        infq_buf_str(to, ")");
    }
    infq_buf_fmt(to, ", %lld items, %lld lost, %lld won", (long long)t->n, (long long)t->lost, (long long)t->won);
}

static void comparison(const infq_report_comparison *c, infq_buf *to, infq_buf *text, counts *n)
{
    for (int i = 0; i < c->n_tasks; i++) {
        task_text(&c->tasks[i], c->confidence, text);
        one_case(to, n, c->second, c->tasks[i].task, c->tasks[i].verdict, false, text->data);
    }
    infq_buf_clear(text);
    infq_buf_str(text, c->sentence);
    for (int i = 0; i < c->n_more; i++)
        infq_buf_fmt(text, "; %s", c->more[i]);
    one_case(to, n, c->second, "verdict", c->verdict, true, text->data);
}

static void suite(infq_buf *to, const char *name, const counts *n, const infq_buf *cases)
{
    infq_buf_str(to, "  <testsuite");
    attribute(to, "name", name);
    infq_buf_fmt(to, " tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\">\n", n->tests, n->failures, n->errors, n->skipped);
    infq_buf_add(to, cases->data, cases->n);
    infq_buf_str(to, "  </testsuite>\n");
}

static void sum(counts *a, const counts *b)
{
    a->tests += b->tests;
    a->failures += b->failures;
    a->errors += b->errors;
    a->skipped += b->skipped;
}

infq_status infq_report_junit(const infq_report *r, infq_buf *to, infq_err *err)
{
    infq_buf suites, cases, text;
    counts all = {0, 0, 0, 0};
    infq_status st;

    infq_buf_init(&suites);
    infq_buf_init(&cases);
    infq_buf_init(&text);
    for (int i = 0; i < r->n_comparisons; i++) {
        const infq_report_comparison *c = &r->comparisons[i];
        counts n = {0, 0, 0, 0};
        if (c->beside && c->verdict == INFQ_REPORT_NONE)
            continue;
        infq_buf_clear(&cases);
        infq_buf_clear(&text);
        comparison(c, &cases, &text, &n);
        infq_buf_clear(&text);
        infq_buf_fmt(&text, "%s against %s", c->second, c->first);
        suite(&suites, text.data, &n, &cases);
        sum(&all, &n);
    }
    if (r->n_checks > 0) {
        counts n = {0, 0, 0, 0};
        infq_buf_clear(&cases);
        for (int i = 0; i < r->n_checks; i++)
            one_case(&cases, &n, r->checks[i].group, r->checks[i].name, r->checks[i].verdict, r->checks[i].decides, r->checks[i].text);
        suite(&suites, "checks", &n, &cases);
        sum(&all, &n);
    }
    infq_buf_str(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
    attribute(to, "name", r->title);
    infq_buf_fmt(to, " tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\">\n", all.tests, all.failures, all.errors, all.skipped);
    infq_buf_add(to, suites.data, suites.n);
    infq_buf_str(to, "</testsuites>\n");
    st = infq_buf_status(&suites, err);
    if (!st)
        st = infq_buf_status(&cases, err);
    if (!st)
        st = infq_buf_status(&text, err);
    infq_buf_deinit(&suites);
    infq_buf_deinit(&cases);
    infq_buf_deinit(&text);
    return st ? st : infq_buf_status(to, err);
}
