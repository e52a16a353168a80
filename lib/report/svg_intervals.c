#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/report/svg.h"
#include "lib/report/words.h"

#define ROW 38.0
#define LINE 15.0
#define LINE_CHARS 42 /* of label and value together, beside each other on a phone */
#define TOP 8.0
#define FOOT 34.0

static void widen(double v, double *lo, double *hi)
{
    if (isfinite(v)) {
        *lo = v < *lo ? v : *lo;
        *hi = v > *hi ? v : *hi;
    }
}

static infq_svg_axis axis_of(const infq_svg_interval *rows, int n, double margin)
{
    double lo = 0, hi = 0;

    for (int i = 0; i < n; i++) {
        widen(rows[i].at, &lo, &hi);
        widen(rows[i].lo, &lo, &hi);
        widen(rows[i].hi, &lo, &hi);
        widen(-rows[i].noise, &lo, &hi);
        widen(rows[i].noise, &lo, &hi);
    }
    widen(-margin, &lo, &hi);
    return infq_svg_axis_over(lo, hi, false);
}

static void grid(const infq_svg_axis *a, double bottom, const char *unit, double margin, infq_buf *to)
{
    double ticks[12];
    int n = infq_svg_ticks(a, 7, ticks);

    for (int i = 0; i < n; i++) {
        double x = infq_svg_share(a, ticks[i]);
        char text[24];
        infq_svg_line(to, ticks[i] == 0 ? "zero" : "grid", x, TOP, x, bottom);
        snprintf(text, sizeof(text), "%+g", ticks[i]);
        infq_svg_text(to, "tick", x, bottom + 14, x < 0.03 ? INFQ_SVG_START : x > 0.97 ? INFQ_SVG_END : INFQ_SVG_MIDDLE,
                      ticks[i] == 0 ? "0" : text);
    }
    infq_svg_text(to, "axis", 1, bottom + 30, INFQ_SVG_END, unit);
    if (isfinite(margin)) {
        double x = infq_svg_share(a, -margin);
        infq_svg_line(to, "margin", x, TOP, x, bottom);
    }
}

// Pixels that a row is higher than others: its value stands below its label.
static double extra_of(const infq_svg_interval *r)
{
    return infq_utf8_count(r->label, strlen(r->label)) + infq_utf8_count(r->value, strlen(r->value)) > LINE_CHARS ? LINE : 0;
}

static void row(const infq_svg_axis *a, const infq_svg_interval *r, double y, infq_buf *to)
{
    double extra = extra_of(r), x = infq_svg_share(a, r->at), mid = y + 27 + extra, lo = infq_svg_share(a, r->lo), hi = infq_svg_share(a, r->hi);
    char cls[40];

    if (isfinite(r->noise)) {
        double from = infq_svg_share(a, -r->noise), end = infq_svg_share(a, r->noise);
        infq_svg_rect(to, "band", from, mid - 8, end - from, 16);
    }
    infq_svg_text(to, r->strong ? "label strong" : "label", 0, y + 14, INFQ_SVG_START, r->label);
    infq_svg_text(to, "value", 1, y + 14 + extra, INFQ_SVG_END, r->value);
    if (isfinite(r->lo) && isfinite(r->hi)) {
        snprintf(cls, sizeof(cls), "span %s", r->cls);
        infq_svg_line(to, cls, lo, mid, hi, mid);
        infq_svg_line(to, cls, lo, mid - 4, lo, mid + 4);
        infq_svg_line(to, cls, hi, mid - 4, hi, mid + 4);
    }
    snprintf(cls, sizeof(cls), "dot %s", r->cls);
    infq_svg_dot(to, cls, x, mid, r->strong ? 5.5 : 4.5, r->label);
}

void infq_svg_intervals(const infq_svg_interval *rows, int n, double margin, const char *unit, infq_buf *to)
{
    infq_svg_axis a = axis_of(rows, n, margin);
    double bottom = TOP + 4, y = TOP;

    for (int i = 0; i < n; i++)
        bottom += ROW + extra_of(&rows[i]);
    infq_svg_open(to, bottom + FOOT, unit);
    grid(&a, bottom, unit, margin, to);
    for (int i = 0; i < n; i++) {
        if (rows[i].strong)
            infq_svg_line(to, "rule", 0, y, 1, y);
        row(&a, &rows[i], y, to);
        y += ROW + extra_of(&rows[i]);
    }
    infq_svg_close(to);
}
