/* Numbers and texts as reports print them. */
#ifndef INFQ_REPORT_WORDS_H
#define INFQ_REPORT_WORDS_H

#include "lib/report/report.h"

/* A fraction in points (hundredths): "-0.4", "+0.25", "12.0"; one digit behind the point, two below 0.95, "0" for zero. */
char *infq_points(double fraction, bool sign, char out[24]);
/* Three significant digits: "0.00238", "152", "1.3e-07"; "" for NAN. */
char *infq_figure(double v, char out[24]);
/* The sentence of a comparison that brings none: "PASS: B loses 0.1 points against A (90 % interval -0.4 to +0.2); ..." */
void infq_comparison_sentence(const infq_report_comparison *c, infq_buf *to);
/* "90 % interval -0.4 to +0.2" */
void infq_interval_words(double lo, double hi, double confidence, infq_buf *to);

/* Text for XML and HTML: & < > " ' as entities; what XML 1.0 forbids (control characters, broken UTF-8) as U+FFFD. */
void infq_markup_text(infq_buf *to, const char *s);
/* The same with typographic signs: a minus before a number that follows a blank or a bracket, plus-minus for "+-". */
void infq_markup_pretty(infq_buf *to, const char *s);
/* One cell of a Markdown table: | < and Markdown's own characters escaped, line breaks and tabs as blanks. */
void infq_markdown_text(infq_buf *to, const char *s);
/* At most max_chars code points of s; cut at the front (with "...") so that the end stays. infq_mem_free. */
char *infq_tail(const char *s, size_t n, size_t max_chars);

#endif
