#include "lib/report/svg.h"

#include <math.h>
#include <stdio.h>

#include "lib/report/words.h"

#define PAD 1.5 /* percent on either side, so that what lies at an end is not cut */

infq_svg_axis infq_svg_axis_over(double lo, double hi, bool log)
{
    double least = log ? lo * 1.2 : lo + 1e-9 + fabs(lo) * 5e-3;

    if (hi < least) {
        hi = least;
        lo = log ? lo / 1.2 : lo - (least - lo);
    }
    if (!log) {
        double more = (hi - lo) / 20;
        lo -= more;
        hi += more;
    }
    return (infq_svg_axis){lo, hi, log};
}

double infq_svg_share(const infq_svg_axis *a, double v)
{
    double s = a->log ? (v > 0 ? log(v / a->lo) / log(a->hi / a->lo) : 0) : (v - a->lo) / (a->hi - a->lo);

    return s < 0 ? 0 : s > 1 ? 1 : s;
}

static int log_ticks(const infq_svg_axis *a, int most, double *out)
{
    static const double parts[] = {1, 2, 5};
    int first = (int)floor(log10(a->lo)), last = (int)ceil(log10(a->hi)), every = 1, n = 0;
    bool fine = log10(a->hi / a->lo) < 2; // few decades: 2 and 5 too

    while ((last - first) / every >= most)
        every++;
    for (int d = first; d <= last; d += every)
        for (int k = 0; k < (fine ? 3 : 1); k++) {
            double v = parts[k] * pow(10, d);
            if (v >= a->lo * (1 - 1e-9) && v <= a->hi * (1 + 1e-9) && n < most)
                out[n++] = v;
        }
    return n;
}

int infq_svg_ticks(const infq_svg_axis *a, int most, double *out)
{
    static const double steps[] = {1, 2, 5, 10};
    double raw, unit, step = 0;
    int n = 0;

    if (most > 12)
        most = 12;
    if (a->log)
        return log_ticks(a, most, out);
    raw = (a->hi - a->lo) / most;
    unit = pow(10, floor(log10(raw)));
    for (int i = 0; i < 4 && step < raw; i++)
        step = steps[i] * unit;
    for (double k = ceil(a->lo / step - 1e-9); k * step <= a->hi + step * 1e-9 && n < most; k++)
        out[n++] = k == 0 ? 0 : k * step;
    return n;
}

static double percent(double share)
{
    return PAD + share * (100 - 2 * PAD);
}

void infq_svg_open(infq_buf *to, double height, const char *label)
{
    infq_buf_fmt(to, "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" height=\"%.0f\" role=\"img\" aria-label=\"", height);
    infq_markup_text(to, label);
    infq_buf_str(to, "\">\n");
}

void infq_svg_close(infq_buf *to)
{
    infq_buf_str(to, "</svg>\n");
}

void infq_svg_line(infq_buf *to, const char *cls, double x1, double y1, double x2, double y2)
{
    if (isfinite(x1) && isfinite(x2) && isfinite(y1) && isfinite(y2))
        infq_buf_fmt(to, "<line class=\"%s\" x1=\"%.3f%%\" y1=\"%.1f\" x2=\"%.3f%%\" y2=\"%.1f\"/>\n", cls, percent(x1), y1, percent(x2), y2);
}

void infq_svg_rect(infq_buf *to, const char *cls, double x, double y, double width, double height)
{
    if (isfinite(x) && isfinite(y) && width >= 0 && height >= 0)
        infq_buf_fmt(to, "<rect class=\"%s\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" height=\"%.1f\"/>\n", cls, percent(x), y,
                     width * (100 - 2 * PAD), height);
}

void infq_svg_dot(infq_buf *to, const char *cls, double x, double y, double r, const char *title)
{
    if (!isfinite(x) || !isfinite(y))
        return;
    infq_buf_fmt(to, "<circle class=\"%s\" cx=\"%.3f%%\" cy=\"%.1f\" r=\"%.1f\">", cls, percent(x), y, r);
    if (title) {
        infq_buf_str(to, "<title>");
        infq_markup_text(to, title);
        infq_buf_str(to, "</title>");
    }
    infq_buf_str(to, "</circle>\n");
}

void infq_svg_text(infq_buf *to, const char *cls, double x, double y, infq_svg_anchor anchor, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};

    if (!isfinite(x) || !isfinite(y))
        return;
    infq_buf_fmt(to, "<text class=\"%s\" x=\"%.3f%%\" y=\"%.1f\" text-anchor=\"%s\">", cls, percent(x), y, anchors[anchor]);
    infq_markup_pretty(to, text);
    infq_buf_str(to, "</text>\n");
}
