/* Between html.c (the page) and html_style.c (its style sheet). */
#ifndef INFQ_REPORT_HTML_INT_H
#define INFQ_REPORT_HTML_INT_H

extern const char infq_html_style[];

#endif
