/* Neutral changes of how contexts look. */
#include <string.h>

#include "lib/eval/task_int.h"

const char *const infq_task_format_names[] = {"plain", "blank line", "one line", "two blanks", "parentheses", NULL};

/* Start of the last line, NULL when there is one line only. */
static const char *last_line(const char *s)
{
    const char *at = strrchr(s, '\n');

    return at ? at + 1 : NULL;
}

static void put_paren(const char *s, infq_buf *to)
{
    for (const char *line = s; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        if (n > 2 && line[0] >= 'A' && line[0] <= 'Z' && line[1] == '.' && line[2] == ' ') {
            infq_buf_char(to, '(');
            infq_buf_char(to, line[0]);
            infq_buf_str(to, ")");
            infq_buf_add(to, line + 2, n - 2);
        } else {
            infq_buf_add(to, line, n);
        }
        line += n;
    }
}

void infq_task_reformat(infq_task_format format, const char *context, infq_buf *to)
{
    const char *line = last_line(context), *colon = strstr(context, ": ");

    switch (format) {
    case INFQ_FORMAT_BLANK_LINE:
        infq_buf_add(to, context, line ? (size_t)(line - context) : 0);
        infq_buf_str(to, line ? "\n" : "");
        infq_buf_str(to, line ? line : context);
        break;
    case INFQ_FORMAT_ONE_LINE:
        infq_buf_add(to, context, line ? (size_t)(line - context) - 1 : 0);
        infq_buf_str(to, line ? " " : "");
        infq_buf_str(to, line ? line : context);
        break;
    case INFQ_FORMAT_TWO_BLANKS:
        infq_buf_add(to, context, colon ? (size_t)(colon - context) + 2 : 0);
        infq_buf_str(to, colon ? " " : "");
        infq_buf_str(to, colon ? colon + 2 : context);
        break;
    case INFQ_FORMAT_PAREN:
        put_paren(context, to);
        break;
    default:
        infq_buf_str(to, context);
        break;
    }
}
