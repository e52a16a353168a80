/* Warnings and progress leave the library through a sink; the library never prints. */
#ifndef INFQ_BASE_LOG_H
#define INFQ_BASE_LOG_H

#include <stdint.h>

/* Set by the caller of an operation; members may be NULL. */
typedef struct {
    void (*warn)(void *ctx, const char *line);  /* one sentence, no newline */
    /* done of total (unit of the operation: bytes, tokens); what: present object, borrowed */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *ctx;
} infq_log;
void infq_warn(const infq_log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void infq_progress(const infq_log *log, const char *what, uint64_t done, uint64_t total);
/* True once SIGINT or SIGTERM came in (the tools set it); long loops stop with INTERRUPTED. */
extern volatile int infq_interrupted;

#endif
