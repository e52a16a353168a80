/* Charts as inline SVG: no scripts, no fonts, no files. They keep the size of their text at any width of the page, because x is given in percent of the
 * width and y in pixels; colours are classes (line, band, dot, ...) that the page's style sheet sets, so light and dark need one drawing.
 *
 * x arguments are shares of the drawing area, 0 at its left end and 1 at its right. Numbers that are not finite draw nothing. */
#ifndef INFQ_REPORT_SVG_H
#define INFQ_REPORT_SVG_H

#include <stdint.h>

#include "lib/base/buf.h"

typedef struct {
    double lo, hi;     /* lo < hi; both > 0 on a logarithmic axis */
    bool log;
} infq_svg_axis;
/* From lo to hi, widened to at least half a percent of lo and, when not logarithmic, by a twentieth on both sides. */
infq_svg_axis infq_svg_axis_over(double lo, double hi, bool log);
double infq_svg_share(const infq_svg_axis *a, double v); /* 0 at lo, 1 at hi, cut to that range */
/* Round values within the axis (1, 2, 5 times a power of ten; powers of ten when logarithmic), rising, at most `most` <= 12. Their number. */
int infq_svg_ticks(const infq_svg_axis *a, int most, double *out);

void infq_svg_open(infq_buf *to, double height, const char *label); /* label: for readers that do not see */
void infq_svg_close(infq_buf *to);
void infq_svg_line(infq_buf *to, const char *cls, double x1, double y1, double x2, double y2);
void infq_svg_rect(infq_buf *to, const char *cls, double x, double y, double width, double height);
void infq_svg_dot(infq_buf *to, const char *cls, double x, double y, double r, const char *title);
typedef enum { INFQ_SVG_START, INFQ_SVG_MIDDLE, INFQ_SVG_END } infq_svg_anchor;
void infq_svg_text(infq_buf *to, const char *cls, double x, double y, infq_svg_anchor anchor, const char *text);

/* Differences with their intervals, one row each, over one axis with 0 in it. */
typedef struct {
    const char *label, *value, *cls;   /* value: text at the right end; cls: of the dot, "pass", "fail", ... */
    double at, lo, hi, noise;          /* noise: half width of this row's band, NAN if none */
    bool strong;                       /* the last row, for the whole */
} infq_svg_interval;
void infq_svg_intervals(const infq_svg_interval *rows, int n, double margin, const char *unit, infq_buf *to); /* margin: line at -margin; NAN: none */

/* Counts over bins of a logarithmic axis, with marked values. edge[0] may be 0: all below edge[1]. */
typedef struct {
    const char *label;
    double at;
} infq_svg_mark;
void infq_svg_histogram(const double *edge, const int64_t *count, int n_bins, const infq_svg_mark *marks, int n_marks, const char *label,
                        infq_buf *to);

/* Points and lines over two axes: a front of models, a curve of training. */
typedef struct {
    const char *cls, *label;           /* label: beside the last point of a line; NULL: none */
    const double *x, *y;
    const char *const *names;          /* beside each point; NULL: no names */
    int n;
    bool line, dots;
} infq_svg_series;
void infq_svg_plot(const infq_svg_series *s, int n, bool log_x, bool log_y, const char *x_label, const char *y_label, infq_buf *to);

#endif
