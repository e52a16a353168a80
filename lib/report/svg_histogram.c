#include <math.h>
#include <stdio.h>

#include "lib/report/svg.h"
#include "lib/report/words.h"

#define HEIGHT 150.0
#define TOP 46.0
#define MAX_MARKS 3
#define LABEL_SHARE 0.24 /* of the width of a phone, for a label */

/* First and last bin that hold something, so that the axis shows what there is. */
static bool used(const int64_t *count, int n, int *first, int *last)
{
    *first = *last = -1;
    for (int i = 0; i < n; i++) {
        if (count[i] > 0) {
            *first = *first < 0 ? i : *first;
            *last = i;
        }
    }
    return *first >= 0;
}

static void axis(const infq_svg_axis *a, double bottom, const char *label, infq_buf *to)
{
    double ticks[12];
    int n = infq_svg_ticks(a, 7, ticks);

    infq_svg_line(to, "zero", 0, bottom, 1, bottom);
    for (int i = 0; i < n; i++) {
        double x = infq_svg_share(a, ticks[i]);
        char text[24];
        snprintf(text, sizeof(text), "%g", ticks[i]);
        infq_svg_line(to, "zero", x, bottom, x, bottom + 4);
        infq_svg_text(to, "tick", x, bottom + 17, x < 0.03 ? INFQ_SVG_START : x > 0.97 ? INFQ_SVG_END : INFQ_SVG_MIDDLE, text);
    }
    infq_svg_text(to, "axis", 1, bottom + 33, INFQ_SVG_END, label);
}

/* Labels stand on lines of their own, beside the upper end of their mark and where no other mark passes: those at the right of their
 * marks go down from left to right, those at the left of them (where the drawing ends) go down from right to left. */
static void draw_marks(const infq_svg_axis *a, const infq_svg_mark *marks, int n, double bottom, infq_buf *to)
{
    int order[MAX_MARKS], n_used = 0, level[MAX_MARKS];
    double x[MAX_MARKS], limit;

    for (int i = 0; i < n && n_used < MAX_MARKS; i++) {
        int at = n_used;
        if (!isfinite(marks[i].at))
            continue;
        for (; at > 0 && marks[order[at - 1]].at > marks[i].at; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n_used++;
    }
    for (int i = 0; i < n_used; i++)
        x[i] = infq_svg_share(a, marks[order[i]].at);
    // all at the right where the last has room; all at the left where the first has; otherwise by halves
    limit = n_used == 0 || x[n_used - 1] <= 1 - LABEL_SHARE ? 1 : x[0] >= LABEL_SHARE ? 0 : 0.5;
    for (int i = 0, up = 0, down = n_used - 1; i < n_used; i++)
        level[i] = x[i] < limit ? up++ : down--;
    for (int i = 0; i < n_used; i++) {
        double y = 12 + 13 * level[i];
        infq_svg_line(to, "mark", x[i], y + 3, x[i], bottom);
        infq_svg_text(to, "tick", x[i], y, x[i] < limit ? INFQ_SVG_START : INFQ_SVG_END, marks[order[i]].label);
    }
}

void infq_svg_histogram(const double *edge, const int64_t *count, int n_bins, const infq_svg_mark *marks, int n_marks, const char *label,
                        infq_buf *to)
{
    int first, last;
    int64_t most = 1;
    double lo, hi, bottom = TOP + HEIGHT;
    infq_svg_axis a;

    if (n_bins < 3 || !used(count, n_bins, &first, &last))
        return;
    // bins 0 and the last are open; they are drawn as wide as their neighbours
    lo = first > 0 ? edge[first] : edge[1] * edge[1] / edge[2];
    hi = last + 1 < n_bins ? edge[last + 1] : edge[last] * edge[last] / edge[last - 1];
    a = infq_svg_axis_over(lo, hi, true);
    for (int i = 0; i < n_bins; i++)
        most = count[i] > most ? count[i] : most;
    infq_svg_open(to, bottom + 38, label);
    for (int i = first; i <= last; i++) {
        double from = infq_svg_share(&a, i > 0 ? edge[i] : lo), end = infq_svg_share(&a, i + 1 < n_bins ? edge[i + 1] : hi);
        double h = HEIGHT * (double)count[i] / (double)most, gap = (end - from) * 0.06;
        infq_svg_rect(to, "bar", from + gap, bottom - h, end - from - 2 * gap, h);
    }
    axis(&a, bottom, label, to);
    draw_marks(&a, marks, n_marks, bottom, to);
    infq_svg_close(to);
}
