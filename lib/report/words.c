#include "lib/report/words.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"

char *infq_points(double fraction, bool sign, char out[24])
{
    double v = 100 * fraction;
    int digits = fabs(v) < 0.95 ? 2 : 1;

    if (isnan(v))
        out[0] = '\0';
    else if (fabs(v) < 0.005)
        strcpy(out, "0");
    else
        snprintf(out, 24, sign ? "%+.*f" : "%.*f", digits, v);
    if (digits == 2 && out[0] && out[strlen(out) - 1] == '0' && strchr(out, '.')) // 0.40 as 0.4
        out[strlen(out) - 1] = '\0';
    return out;
}

char *infq_figure(double v, char out[24])
{
    double size = fabs(v);

    if (isnan(v))
        out[0] = '\0';
    else if (size == 0)
        strcpy(out, "0");
    else if (size < 1e-4 || size >= 1e6)
        snprintf(out, 24, "%.2e", v);
    else
        snprintf(out, 24, "%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : (int)ceil(-log10(size)) + 2, v);
    return out;
}

void infq_interval_words(double lo, double hi, double confidence, infq_buf *to)
{
    char a[24], b[24];

    infq_buf_fmt(to, "%.4g %% interval %s to %s", 100 * confidence, infq_points(lo, true, a), infq_points(hi, true, b));
}

void infq_comparison_sentence(const infq_report_comparison *c, infq_buf *to)
{
    static const char *const heads[] = {"", "PASS: ", "FAIL: ", "UNDECIDED: ", "REFUSED: "};
    char a[24];

    infq_buf_str(to, heads[c->verdict]);
    infq_points(fabs(c->gap), false, a);
    if (strcmp(a, "0") == 0)
        infq_buf_fmt(to, "%s scores as %s", c->second, c->first);
    else
        infq_buf_fmt(to, "%s %s %s points against %s", c->second, c->gap < 0 ? "loses" : "gains", a, c->first);
    if (!isnan(c->lo) && !isnan(c->hi)) {
        infq_buf_str(to, " (");
        infq_interval_words(c->lo, c->hi, c->confidence, to);
        infq_buf_char(to, ')');
    }
    if (!isnan(c->noise))
        infq_buf_fmt(to, "; the original's own run-to-run noise is +-%s", infq_points(c->noise, false, a));
    else if (!isnan(c->margin) && !c->beside)
        infq_buf_fmt(to, "; a loss of %s may pass", infq_points(c->margin, false, a));
}

void infq_markup_text(infq_buf *to, const char *s)
{
    size_t n = strlen(s);

    for (size_t at = 0; at < n;) {
        size_t len;
        uint32_t c = infq_utf8_next(s + at, n - at, &len);
        bool bad = (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f || c == 0xfffe || c == 0xffff || (c == 0xfffd && (uint8_t)s[at] != 0xef);
        if (bad)
            infq_buf_str(to, "\xef\xbf\xbd");
        else if (c == '&')
            infq_buf_str(to, "&amp;");
        else if (c == '<')
            infq_buf_str(to, "&lt;");
        else if (c == '>')
            infq_buf_str(to, "&gt;");
        else if (c == '"')
            infq_buf_str(to, "&quot;");
        else if (c == '\'')
            infq_buf_str(to, "&#39;");
        else
            infq_buf_add(to, s + at, len);
        at += len;
    }
}

void infq_markup_pretty(infq_buf *to, const char *s)
{
    infq_buf b;
    char before = ' ';

    infq_buf_init(&b);
    for (; *s; before = *s++) {
        if (s[0] == '+' && s[1] == '-') {
            infq_buf_str(&b, "\xc2\xb1");
            s++;
        } else if (*s == '-' && isdigit((unsigned char)s[1]) && (before == ' ' || before == '(')) {
            infq_buf_str(&b, "\xe2\x88\x92");
        } else {
            infq_buf_char(&b, *s);
        }
    }
    to->failed = to->failed || b.failed;
    infq_markup_text(to, b.data);
    infq_buf_deinit(&b);
}

void infq_markdown_text(infq_buf *to, const char *s)
{
    for (; *s; s++) {
        if (*s == '\n' || *s == '\r' || *s == '\t')
            infq_buf_char(to, ' ');
        else if (*s == '<')
            infq_buf_str(to, "&lt;");
        else if (*s == '&')
            infq_buf_str(to, "&amp;");
        else if (strchr("\\`*[]|", *s))
            infq_buf_fmt(to, "\\%c", *s);
        else
            infq_buf_char(to, *s);
    }
}

char *infq_tail(const char *s, size_t n, size_t max_chars)
{
    size_t chars = infq_utf8_count(s, n), at = 0;
    infq_buf b;

    infq_buf_init(&b);
    if (chars > max_chars) {
        infq_buf_str(&b, "...");
        for (size_t skip = chars - max_chars; skip > 0; skip--) {
            size_t len;
            infq_utf8_next(s + at, n - at, &len);
            at += len;
        }
    }
    infq_buf_add(&b, s + at, n - at);
    return infq_buf_take(&b);
}
