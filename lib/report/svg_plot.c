#include <math.h>
#include <stdio.h>

#include "lib/report/svg.h"
#include "lib/report/words.h"

#define TOP 26.0
#define HEIGHT 240.0

static infq_svg_axis axis_over(const infq_svg_series *s, int n, bool y, bool log)
{
    double lo = INFINITY, hi = -INFINITY, room;
    infq_svg_axis a;

    for (int i = 0; i < n; i++) {
        for (int k = 0; k < s[i].n; k++) {
            double v = y ? s[i].y[k] : s[i].x[k];
            if (!isfinite(v) || (log && v <= 0) || !isfinite(y ? s[i].x[k] : s[i].y[k]))
                continue;
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
    }
    if (!(lo <= hi))
        return (infq_svg_axis){log ? 0.1 : 0, 1, log};
    a = infq_svg_axis_over(lo, hi, log);
    room = log ? pow(a.hi / a.lo, y ? 0.08 : 0.16) : 1; // names need room beside the outermost points, and at the left the numbers of the other axis
    a.lo /= room;
    a.hi *= room;
    return a;
}

static void grid(const infq_svg_axis *x, const infq_svg_axis *y, const char *x_label, const char *y_label, infq_buf *to)
{
    double ticks[12];
    char text[24];
    int n = infq_svg_ticks(y, 6, ticks);

    for (int i = 0; i < n; i++) {
        double at = TOP + HEIGHT * (1 - infq_svg_share(y, ticks[i]));
        snprintf(text, sizeof(text), "%g", ticks[i]);
        infq_svg_line(to, "grid", 0, at, 1, at);
        infq_svg_text(to, "tick", 0, at - 3, INFQ_SVG_START, text);
    }
    infq_svg_line(to, "zero", 0, TOP + HEIGHT, 1, TOP + HEIGHT);
    n = infq_svg_ticks(x, 7, ticks);
    for (int i = 0; i < n; i++) {
        double at = infq_svg_share(x, ticks[i]);
        snprintf(text, sizeof(text), "%g", ticks[i]);
        infq_svg_line(to, "zero", at, TOP + HEIGHT, at, TOP + HEIGHT + 4);
        infq_svg_text(to, "tick", at, TOP + HEIGHT + 17, at < 0.03 ? INFQ_SVG_START : at > 0.97 ? INFQ_SVG_END : INFQ_SVG_MIDDLE, text);
    }
    infq_svg_text(to, "axis", 1, TOP + HEIGHT + 33, INFQ_SVG_END, x_label);
    infq_svg_text(to, "axis", 0, 12, INFQ_SVG_START, y_label);
}

static void series(const infq_svg_series *s, const infq_svg_axis *ax, const infq_svg_axis *ay, infq_buf *to)
{
    char cls[40];
    double last_x = NAN, last_y = NAN;

    for (int k = 0; k < s->n; k++) {
        double x = infq_svg_share(ax, s->x[k]), y = TOP + HEIGHT * (1 - infq_svg_share(ay, s->y[k]));
        if (!isfinite(s->x[k]) || !isfinite(s->y[k]))
            continue;
        if (s->line && isfinite(last_x)) {
            snprintf(cls, sizeof(cls), "path %s", s->cls);
            infq_svg_line(to, cls, last_x, last_y, x, y);
        }
        if (s->dots) {
            snprintf(cls, sizeof(cls), "dot %s", s->cls);
            infq_svg_dot(to, cls, x, y, 5, s->names ? s->names[k] : NULL);
        }
        if (s->names)
            infq_svg_text(to, "label", x, y - 10, x < 0.25 ? INFQ_SVG_START : x > 0.75 ? INFQ_SVG_END : INFQ_SVG_MIDDLE, s->names[k]);
        last_x = x;
        last_y = y;
    }
    if (s->label)
        infq_svg_text(to, "label", last_x, last_y - 8, INFQ_SVG_END, s->label);
}

void infq_svg_plot(const infq_svg_series *s, int n, bool log_x, bool log_y, const char *x_label, const char *y_label, infq_buf *to)
{
    infq_svg_axis ax = axis_over(s, n, false, log_x), ay = axis_over(s, n, true, log_y);

    infq_svg_open(to, TOP + HEIGHT + 38, y_label);
    grid(&ax, &ay, x_label, y_label, to);
    for (int i = 0; i < n; i++)
        series(&s[i], &ax, &ay, to);
    infq_svg_close(to);
}
