#include "lib/base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_texts[] = {
#define X(name, exit_code, text) text,
    INFQ_ERRNO_MAP(X)
#undef X
};

static const int status_exits[] = {
#define X(name, exit_code, text) exit_code,
    INFQ_ERRNO_MAP(X)
#undef X
};

/* Two paths of the system's greatest length and a sentence. */
#define TEXT_MAX 9000
#define GAP " ... "

static bool inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void infq_text_one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

// Puts text into msg; if it is too long, without its middle.
static void put(infq_err *err, char *text)
{
    size_t n = strlen(text), room = sizeof(err->msg) - sizeof(GAP), head = room * 2 / 5, tail = n - (room - head);

    infq_text_one_line(text);
    if (n < sizeof(err->msg)) {
        memcpy(err->msg, text, n + 1);
        return;
    }
    while (head > 0 && inside_character(text[head]))
        head--;
    while (inside_character(text[tail]))
        tail++;
    snprintf(err->msg, sizeof(err->msg), "%.*s" GAP "%s", (int)head, text, text + tail);
}

infq_status infq_err_set(infq_err *err, infq_status code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    err->code = code;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    put(err, text);
    return code;
}

infq_status infq_err_in(infq_err *err, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text) - sizeof(err->msg), fmt, ap);
    va_end(ap);
    n = strlen(text);
    snprintf(text + n, sizeof(text) - n, ": %s", err->msg);
    put(err, text);
    return err->code;
}

const char *infq_status_text(infq_status st)
{
    return (unsigned)st < INFQ_E_COUNT_ ? status_texts[st] : "unknown status";
}

int infq_status_exit(infq_status st)
{
    return (unsigned)st < INFQ_E_COUNT_ ? status_exits[st] : 70;
}

void infq_bug(const char *file, int line, const char *cond)
{
    fprintf(stderr, "infq: bug at %s:%d: %s\n", file, line, cond);
    abort();
}
