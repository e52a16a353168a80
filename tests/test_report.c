/* Reports: what goes into them from result documents, and what every output says when it is read back. */
#include <ctype.h>

#include "lib/base/rng.h"
#include "lib/report/report.h"
#include "lib/report/svg.h"
#include "lib/report/words.h"
#include "tests/testlib.h"

#define EVIL "<script>alert(\"1\")</script> & 'x' | y\x01"
#define EVIL_JSON "<script>alert(\\\"1\\\")</script> & 'x' | y\\u0001"

/* One task of a comparison. */
typedef struct {
    const char *name, *verdict;
    double gap, lo, hi;
    int lost, won;
} task_row;
static const task_row two_tasks[] = {{"copy", "pass", 0.005, -0.002, 0.012, 3, 5}, {"sums", "undecided", -0.02, -0.05, 0.01, 9, 4}};

static void add_comparison(infq_buf *b, const char *second, const task_row *t, int n, double gap, const char *verdict)
{
    infq_buf_fmt(b, "{\"first\":\"orig\",\"second\":\"%s\",\"tasks\":[", second);
    for (int i = 0; i < n; i++)
        infq_buf_fmt(b, "%s{\"task\":\"%s\",\"metric\":\"acc\",\"items\":400,\"score_first\":0.5,\"score_second\":%g,\"gap\":%g,"
                        "\"interval\":[%g,%g],\"lost\":%d,\"won\":%d,\"verdict\":\"%s\"}", i ? "," : "", t[i].name, 0.5 + t[i].gap, t[i].gap,
                     t[i].lo, t[i].hi, t[i].lost, t[i].won, t[i].verdict);
    infq_buf_fmt(b, "],\"suite\":{\"gap\":%g,\"interval\":[%g,%g],\"margin\":0.01,\"alpha\":0.05},\"verdict\":\"%s\",\"changed\":2,\"flips\":["
                    "{\"task\":\"sums\",\"doc\":7,\"metric\":\"acc\",\"first\":1,\"second\":0,\"margin_first\":0.2,\"margin_second\":-0.1,"
                    "\"text\":\"1 < 2 & \",\"answer\":\"3\",\"said_first\":\"3\",\"said_second\":\"4|5\"},"
                    "{\"task\":\"copy\",\"doc\":1,\"metric\":\"acc\",\"first\":0,\"second\":1,\"margin_first\":null,\"margin_second\":null}]}",
                 gap, gap - 0.004, gap + 0.006, verdict);
}

/* An eval document of the original and n compressed models called c1, c2, ...; sizes fall, scores fall. */
static void eval_doc(infq_buf *b, int n, const char *verdict, double gap)
{
    infq_buf_str(b, "{\"schema\":\"infq.eval.v1\",\"version\":\"0.1.0\",\"settings\":\"bos=model\",\"models\":[{\"name\":\"orig\",\"path\":\"m/orig\","
                    "\"bytes\":1000000,\"bits_per_weight\":16}");
    for (int i = 1; i <= n; i++)
        infq_buf_fmt(b, ",{\"name\":\"c%d\",\"path\":\"m/c%d\",\"bytes\":%d,\"bits_per_weight\":%g}", i, i, 1000000 / (i + 1), 16.0 / (i + 1));
    infq_buf_str(b, "],\"tasks\":[{\"task\":\"copy\",\"decides\":\"acc\",\"scores\":[{\"acc\":0.5}");
    for (int i = 1; i <= n; i++)
        infq_buf_fmt(b, ",{\"acc\":%g}", 0.5 - 0.01 * i);
    infq_buf_str(b, "]}],\"texts\":[{\"file\":\"wiki.txt\",\"perplexity\":{\"convention\":\"gptq\",\"window\":512,\"tokens_scored\":511,\"models\":["
                    "{\"ppl\":8.5,\"nll_stderr\":0.1}");
    for (int i = 1; i <= n; i++)
        infq_buf_fmt(b, ",{\"ppl\":%g,\"nll_stderr\":0.1,\"ln_ratio\":0.01,\"ln_ratio_stderr\":0.002}", 8.5 + 0.1 * i);
    infq_buf_str(b, "]},\"distance\":[");
    for (int i = 1; i <= n; i++)
        infq_buf_fmt(b, "%s{\"model\":\"c%d\",\"all\":{\"positions\":30,\"kld_mean\":%g,\"kld_stderr\":0.001,\"kld_median\":0.004,\"kld_p99\":0.3,"
                        "\"kld_max\":0.9,\"same_top\":0.95,\"ln_ratio\":0.01,\"ln_ratio_stderr\":0.002},\"histogram\":[[0,5],[0.0001,10],[0.001,12],"
                        "[0.01,2],[0.1,1]]}", i > 1 ? "," : "", i, 0.01 * i);
    infq_buf_str(b, "]}],\"comparisons\":[");
    for (int i = 1; i <= n; i++) {
        char name[16];
        snprintf(name, sizeof(name), "c%d", i);
        infq_buf_str(b, i > 1 ? "," : "");
        add_comparison(b, name, two_tasks, 2, gap * i, verdict);
    }
    infq_buf_fmt(b, "]%s}", n > 1 ? ",\"answer\":\"The smallest that will do is c1\"" : "");
}

static infq_status add_text(infq_report *r, const char *json, infq_err *err)
{
    cJSON *doc;

    ck_ok(infq_json_parse(json, strlen(json), "test", &doc, err), *err);
    return infq_report_add(r, doc, "test", err);
}

static infq_report *report_of(const char *const *docs, int n, const char *title)
{
    infq_report_options o = infq_report_options_default();
    infq_report *r;
    infq_err err;

    ck_ok(infq_report_new(title, &r, &err), err);
    for (int i = 0; i < n; i++)
        ck_ok(add_text(r, docs[i], &err), err);
    ck_ok(infq_report_finish(r, &o, &err), err);
    return r;
}

static infq_report *eval_report(int n, const char *verdict, double gap)
{
    infq_report *r;
    infq_buf b;

    infq_buf_init(&b);
    eval_doc(&b, n, verdict, gap);
    r = report_of((const char *const[]){b.data}, 1, "Title");
    infq_buf_deinit(&b);
    return r;
}

static char *written(const infq_report *r, const char *format)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_report_format_find(format)->write(r, &b, &err), err);
    return infq_buf_take(&b);
}

static int count(const char *s, const char *what)
{
    int n = 0;

    for (; (s = strstr(s, what)); s += strlen(what))
        n++;
    return n;
}

/* Every element is closed in order, every & begins an entity, attributes are quoted. Void elements of HTML need no end. */
static void check_markup(const char *s)
{
    char stack[64][24];
    int depth = 0;

    while ((s = strpbrk(s, "<&"))) {
        char name[24];
        bool closing = s[1] == '/';
        size_t n = strcspn(s + 1 + closing, " />\n");
        const char *end = s;
        if (*s == '&') {
            size_t len = strcspn(s, ";");
            ck_assert_msg(len >= 3 && len <= 8 && strcspn(s + 1, " <&\"") >= len - 1, "a bare &: %.20s", s);
            s += len;
            continue;
        }
        if (s[1] == '?' || s[1] == '!') {
            s = strchr(s, '>');
            continue;
        }
        for (char quote = 0; quote || *end != '>'; end++) {
            ck_assert_msg(*end, "an element without end");
            quote = *end == '"' ? (quote ? 0 : '"') : quote;
        }
        snprintf(name, sizeof(name), "%.*s", (int)n, s + 1 + closing);
        if (closing) {
            ck_assert_msg(depth > 0 && strcmp(stack[depth - 1], name) == 0, "</%s> closes <%s>", name, depth ? stack[depth - 1] : "nothing");
            depth--;
        } else if (end[-1] != '/' && strcmp(name, "meta") != 0) {
            ck_assert_int_lt(depth, 64);
            strcpy(stack[depth++], name);
        }
        s = end + 1;
    }
    ck_assert_int_eq(depth, 0);
}

START_TEST(points_and_figures_read_well)
{
    static const struct {
        double v;
        bool sign;
        const char *want;
    } p[] = {{0.001, false, "0.1"}, {-0.004, true, "-0.4"}, {0.002, true, "+0.2"}, {0.12, false, "12.0"}, {0, true, "0"}, {-0.0000123, true, "0"},
             {0.00061, true, "+0.06"}, {-0.0061, true, "-0.61"}, {1, false, "100.0"}, {NAN, true, ""}};
    static const struct {
        double v;
        const char *want;
    } f[] = {{0.00238123, "0.00238"}, {152.4, "152"}, {15.24, "15.2"}, {1.524, "1.52"}, {9.996, "10.0"}, {99.96, "100"}, {0, "0"}, {1.3e-7, "1.30e-07"},
             {-0.5, "-0.500"}, {NAN, ""}};
    char out[24];

    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++)
        ck_assert_str_eq(infq_points(p[i].v, p[i].sign, out), p[i].want);
    for (size_t i = 0; i < sizeof(f) / sizeof(f[0]); i++)
        ck_assert_str_eq(infq_figure(f[i].v, out), f[i].want);
}
END_TEST

START_TEST(tails_keep_whole_characters)
{
    static const char s[] = "z\xc3\xa9ro \xe2\x82\xac 5"; // 8 code points
    char *t = infq_tail(s, strlen(s), 3);

    ck_assert_str_eq(t, "...\xe2\x82\xac 5");
    infq_mem_free(t);
    t = infq_tail(s, strlen(s), 8);
    ck_assert_str_eq(t, s);
    infq_mem_free(t);
}
END_TEST

START_TEST(markup_keeps_nothing_that_acts)
{
    infq_buf b;

    infq_buf_init(&b);
    infq_markup_text(&b, EVIL "\xff");
    ck_assert_str_eq(b.data, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39; | y\xef\xbf\xbd\xef\xbf\xbd");
    infq_buf_clear(&b);
    infq_markup_pretty(&b, "-3 and (-2 to +1), +-0.5, a-1");
    ck_assert_str_eq(b.data, "\xe2\x88\x92""3 and (\xe2\x88\x92""2 to +1), \xc2\xb1""0.5, a-1");
    infq_buf_clear(&b);
    infq_markdown_text(&b, "a|b\n<i>*c*</i>");
    ck_assert_str_eq(b.data, "a\\|b &lt;i>\\*c\\*&lt;/i>");
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(front_is_what_nothing_beats)
{
    infq_rng rng = infq_rng_seed(5);

    for (int round = 0; round < 200; round++) {
        double cost[12], worth[12];
        bool on[12];
        int n = 1 + (int)infq_rng_below(&rng, 12);
        for (int i = 0; i < n; i++) {
            cost[i] = (double)infq_rng_below(&rng, 6);
            worth[i] = infq_rng_below(&rng, 9) ? (double)infq_rng_below(&rng, 6) : NAN;
        }
        infq_front(cost, worth, n, on);
        for (int i = 0; i < n; i++) {
            bool beaten_by_front = false;
            for (int j = 0; j < n; j++) {
                bool beats = cost[j] <= cost[i] && worth[j] >= worth[i] && (cost[j] < cost[i] || worth[j] > worth[i]);
                ck_assert(!(on[i] && beats));
                beaten_by_front = beaten_by_front || (beats && on[j]);
            }
            ck_assert_int_eq(on[i], !isnan(worth[i]) && !beaten_by_front);
        }
    }
}
END_TEST

START_TEST(ticks_are_round_and_inside)
{
    static const infq_svg_axis axes[] = {{0, 1, false}, {-4.9, 2.1, false}, {77.91, 78.13, false}, {-1e-7, 1e-7, false}, {1e5, 3e9, false},
                                         {1e-6, 10, true}, {0.7, 2.4, true}, {1e-9, 1e9, true}};

    for (size_t k = 0; k < sizeof(axes) / sizeof(axes[0]); k++) {
        double ticks[12], span = axes[k].hi - axes[k].lo;
        int n = infq_svg_ticks(&axes[k], 7, ticks);
        ck_assert_int_ge(n, 2);
        ck_assert_int_le(n, 7);
        for (int i = 0; i < n; i++) {
            double digits = ticks[i] == 0 ? 1 : fabs(ticks[i]) / pow(10, floor(log10(fabs(ticks[i]) * (1 + 1e-12))));
            ck_assert_double_ge(ticks[i], axes[k].lo - 1e-9 * span);
            ck_assert_double_le(ticks[i], axes[k].hi + 1e-9 * span);
            ck_assert(i == 0 || ticks[i] > ticks[i - 1]);
            if (axes[k].log)
                ck_assert_msg(fabs(digits - round(digits)) < 1e-6, "tick %g", ticks[i]);
        }
        if (!axes[k].log && n > 2) // equal steps
            ck_assert_double_lt(fabs((ticks[2] - ticks[1]) - (ticks[1] - ticks[0])), 1e-6 * span);
    }
}
END_TEST

START_TEST(shares_rise_with_values)
{
    infq_svg_axis lin = infq_svg_axis_over(-3, 5, false), lg = infq_svg_axis_over(1e-3, 10, true), point = infq_svg_axis_over(2, 2, false);

    ck_assert_double_lt(lin.lo, -3);
    ck_assert_double_gt(lin.hi, 5);
    ck_assert_double_eq(infq_svg_share(&lg, 1e-3), 0);
    ck_assert_double_eq(infq_svg_share(&lg, 10), 1);
    ck_assert_double_eq_tol(infq_svg_share(&lg, 0.1), 0.5, 1e-12);
    ck_assert_double_eq(infq_svg_share(&lg, 0), 0);
    ck_assert_double_eq(infq_svg_share(&lin, 99), 1);
    ck_assert_double_lt(infq_svg_share(&lin, 0), infq_svg_share(&lin, 0.1));
    ck_assert_double_lt(point.lo, point.hi);
}
END_TEST

START_TEST(charts_draw_every_row_inside_the_page)
{
    infq_svg_interval rows[] = {{"a", "v", "pass", 0, -1, 1, 0.5, false}, {"b", "w", "fail", -7, -9, -5, NAN, true}};
    infq_buf b;
    const char *at;
    int n = 0;

    infq_buf_init(&b);
    infq_svg_intervals(rows, 2, 1, "points", &b);
    check_markup(b.data);
    ck_assert_int_eq(count(b.data, "<circle"), 2);
    ck_assert_int_eq(count(b.data, "class=\"band\""), 1);
    ck_assert_int_eq(count(b.data, "class=\"margin\""), 1);
    for (at = b.data; (at = strstr(at, "x=\"")); at += 3, n++) { // x, cx and the ends of lines
        double x = atof(at + 3);
        ck_assert_double_ge(x, 0);
        ck_assert_double_le(x, 100);
    }
    ck_assert_int_gt(n, 5);
    ck_assert_ptr_null(strstr(b.data, "nan"));
    infq_buf_deinit(&b);
}
END_TEST

// The place of a text in a drawing: y, and x in percent.
static void place_of(const char *svg, const char *text, double *x, double *y)
{
    char shown[64];
    const char *at = svg, *p = svg;

    snprintf(shown, sizeof(shown), ">%s<", text);
    do { // not the title of a dot
        at = strstr(at + 1, shown);
        ck_assert_msg(at != NULL, "%s is not drawn", text);
        for (p = at; *p != '<'; p--)
            ;
    } while (strncmp(p, "<text", 5) != 0);
    *x = atof(strstr(p, " x=\"") + 4);
    *y = atof(strstr(p, " y=\"") + 4);
}

/* Numbers of the upright axis stand inside the drawing, at its left end, up to six digits: a ninth of a phone's width. */
START_TEST(names_of_points_stay_clear_of_the_axis)
{
    static const double x[] = {0.8, 2.2}, y[] = {77.7, 78.1};
    static const char *const names[] = {"left", "right"};
    infq_svg_series s = {"front", NULL, x, y, names, 2, true, true};
    double at, height;
    infq_buf b;

    infq_buf_init(&b);
    infq_svg_plot(&s, 1, true, false, "size", "score", &b);
    check_markup(b.data);
    place_of(b.data, "left", &at, &height);
    ck_assert_double_gt(at, 11);
    place_of(b.data, "right", &at, &height);
    ck_assert_double_lt(at, 100);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(a_long_label_has_its_value_below_it)
{
    infq_svg_interval rows[] = {{"short", "1.0 (0.5 to 1.5)", "pass", 0, -1, 1, NAN, false},
                                {"a_name_of_more_than_thirty_letters", "2.0 (1.5 to 2.5)", "pass", 0, -1, 1, NAN, false},
                                {"all", "3.0 (2.5 to 3.5)", "pass", 0, -1, 1, NAN, true}};
    double x, label, value, short_label, last;
    infq_buf b;

    infq_buf_init(&b);
    infq_svg_intervals(rows, 3, 1, "points", &b);
    place_of(b.data, rows[0].label, &x, &short_label);
    place_of(b.data, rows[0].value, &x, &value);
    ck_assert_double_eq(short_label, value);
    place_of(b.data, rows[1].label, &x, &label);
    place_of(b.data, rows[1].value, &x, &value);
    ck_assert_double_gt(value, label + 12);
    place_of(b.data, rows[2].label, &x, &last);
    ck_assert_double_gt(last - label, label - short_label);
    infq_buf_deinit(&b);
}
END_TEST

/* Marks at any places: no mark passes through the label of another one, no two labels of one line meet, none leaves the drawing. */
START_TEST(labels_of_a_histogram_stay_clear_of_other_marks)
{
    static const double edge[] = {0, 0.001, 0.01, 0.1, 1, 10};
    static const int64_t full[] = {10, 5, 4, 20, 3, 1};
    static const double at[] = {0.0001, 0.0004, 0.002, 0.05, 0.06, 0.5, 9, 60, 99};
    static const char *const names[] = {"first", "second", "third"};
    int n = (int)(sizeof(at) / sizeof(at[0]));

    for (int k = 0; k < n * n * n; k++) {
        infq_svg_mark marks[3] = {{names[0], at[k % n]}, {names[1], at[k / n % n]}, {names[2], at[k / n / n]}};
        double x[3], y[3], from[3], end[3];
        infq_buf b;

        infq_buf_init(&b);
        infq_svg_histogram(edge, full, 6, marks, 3, "x", &b);
        for (int i = 0; i < 3; i++) {
            char shown[32];
            const char *p;
            place_of(b.data, names[i], &x[i], &y[i]);
            snprintf(shown, sizeof(shown), ">%s<", names[i]);
            for (p = strstr(b.data, shown); strncmp(p, "<text", 5) != 0; p--)
                ;
            from[i] = strstr(p, "\"end\"") && strstr(p, "\"end\"") < strstr(b.data, shown) ? x[i] - 20 : x[i];
            end[i] = from[i] + 20;
            ck_assert_double_ge(from[i], -1e-9); // per cent, printed and read back
            ck_assert_double_le(end[i], 100 + 1e-9);
        }
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) {
                if (i == j)
                    continue;
                ck_assert_double_ge(fabs(y[i] - y[j]), 12);
                if (x[j] > from[i] + 0.01 && x[j] < end[i] - 0.01)
                    ck_assert_double_gt(y[j], y[i]); // the mark begins below its own label
            }
        }
        infq_buf_deinit(&b);
    }
}
END_TEST

START_TEST(histogram_areas_follow_counts)
{
    static const double edge[] = {0, 0.001, 0.01, 0.1, 1};
    static const int64_t full[] = {10, 5, 0, 20, 0}, none[] = {0, 0, 0, 0, 0};
    infq_buf b;
    const char *at;
    double heights[5];
    int n = 0;

    infq_buf_init(&b);
    infq_svg_histogram(edge, none, 5, NULL, 0, "x", &b);
    ck_assert_uint_eq(b.n, 0);
    infq_svg_histogram(edge, full, 5, NULL, 0, "x", &b);
    check_markup(b.data);
    for (at = b.data; (at = strstr(at, "class=\"bar\"")); at++)
        heights[n++] = atof(strstr(at, "height=\"") + 8);
    ck_assert_int_eq(n, 4); // the last bin is empty and left out
    ck_assert_double_eq_tol(heights[0], 2 * heights[1], 0.11);
    ck_assert_double_eq_tol(heights[2], 0, 0.01);
    ck_assert_double_eq_tol(heights[3], 2 * heights[0], 0.11);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(figures_come_together_by_model)
{
    infq_report *r;
    infq_buf b;

    infq_buf_init(&b);
    eval_doc(&b, 2, "pass", -0.001);
    r = report_of((const char *const[]){b.data, "{\"schema\":\"infq.bench.v1\",\"model\":\"m/c2\",\"cpu\":\"X\",\"decode_tokens_per_s\":150,"
                  "\"prefill_tokens_per_s\":900,\"weight_bytes\":5,\"latency_ms\":{\"ttft\":{\"p90\":12.5}},\"targets\":[{\"target\":\"p90 ttft < 10ms\","
                  "\"verdict\":\"not met\",\"value_ms\":12.5}]}"}, 2, "T");
    ck_assert_int_eq(r->n_models, 3);
    ck_assert_str_eq(r->models[2].name, "c2");
    ck_assert_double_eq(r->models[2].decode, 150);
    ck_assert_double_eq(r->models[2].ttft_p90, 12.5);
    ck_assert_double_eq(r->models[2].bytes, 1000000 / 3);
    ck_assert(isnan(r->models[1].decode));
    ck_assert_double_eq_tol(r->models[2].score, 0.48, 1e-12);
    ck_assert_double_eq(r->models[1].kld, 0.01);
    ck_assert_double_eq_tol(r->models[2].gap, -0.002, 1e-12);
    ck_assert(r->models[0].front && r->models[1].front && r->models[2].front); // smaller and worse throughout
    ck_assert_int_eq(r->n_checks, 1);
    ck_assert_int_eq(r->verdict, INFQ_REPORT_FAIL); // of the target; three models have no verdict of their own
    ck_assert_str_eq(r->sentence, r->checks[0].text);
    infq_report_free(r);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(verdict_is_the_worst_and_speaks_first)
{
    static const struct {
        const char *verdict;
        double gap;
        infq_report_verdict want;
        const char *words;
    } v[] = {{"pass", -0.001, INFQ_REPORT_PASS, "PASS: c1 loses 0.1 points against orig (90 % interval -0.5 to +0.5)"},
             {"fail", -0.03, INFQ_REPORT_FAIL, "FAIL: c1 loses 3.0 points"},
             {"undecided", 0.02, INFQ_REPORT_UNDECIDED, "UNDECIDED: c1 gains 2.0 points"},
             {"pass", 0, INFQ_REPORT_PASS, "PASS: c1 scores as orig"}};

    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        infq_report *r = eval_report(1, v[i].verdict, v[i].gap);
        char *md = written(r, "md"), *html = written(r, "html");
        ck_assert_int_eq(r->verdict, v[i].want);
        ck_assert_msg(strncmp(r->sentence, v[i].words, strlen(v[i].words)) == 0, "%s", r->sentence);
        ck_assert_ptr_nonnull(strstr(md, v[i].words));
        ck_assert(strstr(md, v[i].words) < strstr(md, "| --- |")); // before any table
        ck_assert_ptr_nonnull(strstr(html, "<section class=\"verdict "));
        infq_mem_free(md);
        infq_mem_free(html);
        infq_report_free(r);
    }
}
END_TEST

/* Elements and counts of each suite agree with each other and with the document. */
static void check_junit(const char *verdict, int failures, int errors, int skipped)
{
    infq_report *r = eval_report(1, verdict, -0.001);
    char *xml = written(r, "xml"), head[120];

    check_markup(xml);
    ck_assert_int_eq(count(xml, "<testcase"), 3); // two tasks and the verdict
    ck_assert_int_eq(count(xml, "<failure"), failures);
    ck_assert_int_eq(count(xml, "<error"), errors);
    ck_assert_int_eq(count(xml, "<skipped"), skipped);
    snprintf(head, sizeof(head), "tests=\"3\" failures=\"%d\" errors=\"%d\" skipped=\"%d\"", failures, errors, skipped);
    ck_assert_int_eq(count(xml, head), 2); // of the whole and of the only suite
    infq_mem_free(xml);
    infq_report_free(r);
}

START_TEST(junit_counts_what_it_holds)
{
    check_junit("pass", 0, 0, 1);
    check_junit("fail", 1, 0, 1);
    check_junit("undecided", 0, 1, 1);
}
END_TEST

START_TEST(page_needs_nothing_and_says_all)
{
    infq_report *r = eval_report(3, "pass", -0.001);
    char *html = written(r, "html");

    check_markup(html);
    ck_assert_ptr_null(strstr(html, "<script"));
    ck_assert_ptr_null(strstr(html, "src="));
    ck_assert_ptr_null(strstr(html, "<link"));
    ck_assert_ptr_null(strstr(html, "url("));
    ck_assert_int_eq(count(html, "http"), count(html, "xmlns=\"http://www.w3.org/2000/svg\""));
    ck_assert_int_eq(count(html, "<svg"), 3 + 3 + 2); // intervals, histograms, two fronts
    ck_assert_ptr_nonnull(strstr(html, "prefers-color-scheme:dark"));
    ck_assert_ptr_nonnull(strstr(html, "width=device-width"));
    ck_assert_ptr_nonnull(strstr(html, "1 &lt; 2 &amp; "));
    ck_assert_ptr_nonnull(strstr(html, "The smallest that will do is c1"));
    ck_assert_int_eq(count(html, "Items that changed: 2"), 3);
    ck_assert_ptr_null(strstr(html, "nan"));
    infq_mem_free(html);
    infq_report_free(r);
}
END_TEST

START_TEST(json_reads_back_with_the_same_figures)
{
    infq_report *r = eval_report(2, "pass", -0.001);
    char *text = written(r, "json");
    const cJSON *c, *t;
    cJSON *doc;
    infq_err err;

    ck_ok(infq_json_parse(text, strlen(text), "report", &doc, &err), err);
    ck_assert_str_eq(infq_json_get(doc, "schema")->valuestring, "infq.report.v1");
    ck_assert_int_eq(cJSON_GetArraySize(infq_json_get(doc, "models")), 3);
    c = cJSON_GetArrayItem(infq_json_get(doc, "comparisons"), 1);
    ck_assert_double_eq(infq_json_get(c, "gap")->valuedouble, -0.002);
    ck_assert_int_eq(cJSON_GetArraySize(infq_json_get(c, "flips")), 2);
    t = cJSON_GetArrayItem(infq_json_get(c, "tasks"), 1);
    ck_assert_double_eq(infq_json_get(t, "gap")->valuedouble, two_tasks[1].gap);
    ck_assert_double_eq(cJSON_GetArrayItem(infq_json_get(t, "interval"), 0)->valuedouble, two_tasks[1].lo);
    ck_assert_ptr_null(infq_json_get(t, "noise_limit")); // nobody measured it
    cJSON_Delete(doc);
    infq_mem_free(text);
    infq_report_free(r);
}
END_TEST

START_TEST(markdown_tables_are_rectangular)
{
    infq_report *r = eval_report(2, "pass", -0.001);
    char *md = written(r, "md");
    int columns = 0, rows = 0;

    for (char *line = strtok(md, "\n"); line; line = strtok(NULL, "\n")) {
        int n = 0;
        for (char *c = line; *c; c++)
            n += *c == '|' && (c == line || c[-1] != '\\');
        if (line[0] != '|') {
            columns = 0;
            continue;
        }
        ck_assert_msg(columns == 0 || n == columns, "%s", line);
        columns = n;
        rows++;
    }
    ck_assert_int_gt(rows, 15);
    infq_mem_free(md);
    infq_report_free(r);
}
END_TEST

START_TEST(names_from_files_cannot_act)
{
    static const char doc[] = "{\"schema\":\"infq.gate.v1\",\"first\":\"a\",\"second\":\"" EVIL_JSON "\",\"tasks\":[{\"task\":\"" EVIL_JSON "\","
                              "\"metric\":\"" EVIL_JSON "\",\"items\":1,\"gap\":0,\"verdict\":\"fail\"}],\"suite\":{\"gap\":0},"
                              "\"reasons\":[\"" EVIL_JSON "\"],\"verdict\":\"fail\"}";
    infq_report *r = report_of((const char *const[]){doc}, 1, EVIL);
    char *html = written(r, "html"), *xml = written(r, "xml"), *md = written(r, "md"), *json = written(r, "json");
    cJSON *tree;
    infq_err err;

    check_markup(html);
    check_markup(xml);
    ck_assert_ptr_null(strstr(html, "<script"));
    ck_assert_ptr_null(strstr(xml, "<script"));
    ck_assert_ptr_null(strstr(md, "<script"));
    ck_assert_int_ge(count(html, "&lt;script&gt;"), 5);
    ck_ok(infq_json_parse(json, strlen(json), "report", &tree, &err), err);
    cJSON_Delete(tree);
    infq_mem_free(html);
    infq_mem_free(xml);
    infq_mem_free(md);
    infq_mem_free(json);
    infq_report_free(r);
}
END_TEST

/* Items of one task: which are right, by a bit of `right`. */
static void write_items(const char *dir, const char *model, unsigned right, int n)
{
    infq_item_key key = {.task = "t", .task_digest = "d", .tokenizer = "k", .metric = "acc", .settings = "s"};
    infq_items *s;
    infq_item_log *log;
    infq_err err;
    char path[700];

    snprintf(path, sizeof(path), "%s/%s.jsonl", dir, model);
    ck_ok(infq_items_new(&key, &s, &err), err);
    ck_ok(infq_item_log_open(path, s, &log, &err), err);
    for (int i = 0; i < n; i++) {
        infq_item *it;
        bool yes = right >> i & 1;
        ck_ok(infq_items_add(s, 2, &it, &err), err);
        it->doc = i;
        it->gold = 0;
        it->ll[0] = yes ? -1 : -2 - i;
        it->ll[1] = -1.5;
        infq_item_finish(it);
        ck_ok(infq_item_log_add(log, it, &err), err);
    }
    ck_ok(infq_item_log_close(log, &err), err);
    infq_items_free(s);
}

static void gate_doc(const char *dir, int n, char *out, size_t cap)
{
    snprintf(out, cap, "{\"schema\":\"infq.gate.v1\",\"first\":\"%s/a.jsonl\",\"second\":\"%s/b.jsonl\",\"tasks\":[{\"task\":\"t\",\"metric\":\"acc\","
                       "\"items\":%d,\"lost\":2,\"won\":1,\"gap\":-0.125,\"verdict\":\"undecided\"}],\"suite\":{\"gap\":-0.125},"
                       "\"verdict\":\"undecided\"}", dir, dir, n);
}

START_TEST(changed_items_are_found_worst_first)
{
    const char *dir = test_tmpdir();
    char doc[2048];
    infq_report *r;
    const infq_flip *f;

    write_items(dir, "a", 0x0f, 8); // right: 0 1 2 3
    write_items(dir, "b", 0x15, 8); // right: 0 2 4: lost 1 and 3, won 4
    gate_doc(dir, 8, doc, sizeof(doc));
    r = report_of((const char *const[]){doc}, 1, "T");
    ck_assert_int_eq(r->comparisons[0].n_changed, 3);
    f = r->comparisons[0].flips;
    ck_assert_int_eq(f[0].doc, 3); // margin from 0.5 to -3.5
    ck_assert_int_eq(f[1].doc, 1);
    ck_assert_int_eq(f[2].doc, 4);
    ck_assert_double_eq(f[0].margin_first, 0.5);
    ck_assert_double_eq(f[0].margin_second, -3.5);
    infq_report_free(r);
}
END_TEST

START_TEST(items_of_another_run_are_refused)
{
    const char *dir = test_tmpdir();
    infq_report_options o = infq_report_options_default();
    char doc[2048];
    infq_report *r;
    infq_err err;

    write_items(dir, "a", 0x0f, 8);
    write_items(dir, "b", 0x15, 8);
    gate_doc(dir, 9, doc, sizeof(doc));
    ck_ok(infq_report_new("T", &r, &err), err);
    ck_ok(add_text(r, doc, &err), err);
    ck_assert_int_eq(infq_report_finish(r, &o, &err), INFQ_E_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.msg, "8 items"));
    infq_report_free(r);
}
END_TEST

START_TEST(bad_documents_are_named)
{
    static const struct {
        const char *doc, *says;
        infq_status code;
    } bad[] = {
        {"[1]", "schema", INFQ_E_FORMAT},
        {"{\"schema\":7}", "schema", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.quantize.v1\"}", "infq.quantize.v1", INFQ_E_UNSUPPORTED},
        {"{\"schema\":\"infq.eval.v1\",\"models\":[{}]}", "name", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.eval.v1\",\"comparisons\":[{\"first\":\"a\"}]}", "suite", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.gate.v1\",\"first\":\"a\",\"second\":\"b\",\"tasks\":[{\"items\":\"x\"}],\"suite\":{}}", "items", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.gate.v1\",\"first\":\"a\",\"second\":\"b\",\"tasks\":[{\"interval\":[1]}],\"suite\":{}}", "interval", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.eval.v1\",\"texts\":[{\"file\":\"f\",\"distance\":[{\"model\":\"m\",\"all\":{},\"histogram\":[[1,2],[1,3]]}]}]}",
         "histogram", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.bench.v1\"}", "model", INFQ_E_FORMAT},
        {"{\"schema\":\"infq.verify.v1\",\"model\":\"m\"}", "result", INFQ_E_FORMAT},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_report *r;
        infq_err err;
        ck_ok(infq_report_new("T", &r, &err), err);
        ck_assert_msg(add_text(r, bad[i].doc, &err) == bad[i].code, "%s", bad[i].doc);
        ck_assert_msg(strstr(err.msg, bad[i].says) && strstr(err.msg, "test"), "%s", err.msg);
        infq_report_free(r);
    }
}
END_TEST

START_TEST(running_out_of_memory_is_clean)
{
    size_t live = infq_mem_stats_get().n_live;
    bool done = false;
    infq_buf doc;

    infq_buf_init(&doc);
    eval_doc(&doc, 2, "fail", -0.02);
    live = infq_mem_stats_get().n_live;
    for (size_t n = 1; !done; n++) {
        infq_report_options o = infq_report_options_default();
        infq_report *r = NULL;
        infq_buf out;
        cJSON *tree;
        infq_err err;
        infq_status st;
        ck_ok(infq_json_parse(doc.data, doc.n, "test", &tree, &err), err);
        infq_buf_init(&out);
        infq_mem_fail_at(n);
        st = infq_report_new("T", &r, &err);
        if (st)
            cJSON_Delete(tree);
        else
            st = infq_report_add(r, tree, "test", &err);
        if (!st)
            st = infq_report_finish(r, &o, &err);
        for (int i = 0; !st && i < 4; i++)
            st = infq_report_format_find((const char *const[]){"html", "md", "xml", "json"}[i])->write(r, &out, &err);
        infq_mem_fail_at(0);
        ck_assert_msg(!st || st == INFQ_E_NOMEM, "%s", err.msg);
        done = !st;
        infq_buf_deinit(&out);
        infq_report_free(r);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
        ck_assert_uint_lt(n, 5000);
    }
    infq_buf_deinit(&doc);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("report");
    TCase *t = tcase_create("report");

    suite_add_tcase(s, t);
    tcase_add_test(t, points_and_figures_read_well);
    tcase_add_test(t, tails_keep_whole_characters);
    tcase_add_test(t, markup_keeps_nothing_that_acts);
    tcase_add_test(t, front_is_what_nothing_beats);
    tcase_add_test(t, ticks_are_round_and_inside);
    tcase_add_test(t, shares_rise_with_values);
    tcase_add_test(t, charts_draw_every_row_inside_the_page);
    tcase_add_test(t, names_of_points_stay_clear_of_the_axis);
    tcase_add_test(t, a_long_label_has_its_value_below_it);
    tcase_add_test(t, labels_of_a_histogram_stay_clear_of_other_marks);
    tcase_add_test(t, histogram_areas_follow_counts);
    tcase_add_test(t, figures_come_together_by_model);
    tcase_add_test(t, verdict_is_the_worst_and_speaks_first);
    tcase_add_test(t, junit_counts_what_it_holds);
    tcase_add_test(t, page_needs_nothing_and_says_all);
    tcase_add_test(t, json_reads_back_with_the_same_figures);
    tcase_add_test(t, markdown_tables_are_rectangular);
    tcase_add_test(t, names_from_files_cannot_act);
    tcase_add_test(t, changed_items_are_found_worst_first);
    tcase_add_test(t, items_of_another_run_are_refused);
    tcase_add_test(t, bad_documents_are_named);
    tcase_add_test(t, running_out_of_memory_is_clean);
    return test_main(s);
}
