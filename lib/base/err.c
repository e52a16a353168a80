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

infq_status infq_err_set(infq_err *err, infq_status code, const char *fmt, ...)
{
    va_list ap;

    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return code;
}

infq_status infq_err_in(infq_err *err, const char *fmt, ...)
{
    char was[sizeof(err->msg)];
    va_list ap;
    int n;

    memcpy(was, err->msg, sizeof(was));
    va_start(ap, fmt);
    n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    if ((size_t)n + 2 < sizeof(err->msg))
        snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", was);
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
