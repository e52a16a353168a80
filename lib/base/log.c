#include "lib/base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/base/err.h"

volatile int infq_interrupted;

void infq_warn(const infq_log *log, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    if (!log || !log->warn)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    infq_text_one_line(line);
    log->warn(log->ctx, line);
}

void infq_progress(const infq_log *log, const char *what, uint64_t done, uint64_t total)
{
    if (log && log->progress)
        log->progress(log->ctx, what, done, total);
}
