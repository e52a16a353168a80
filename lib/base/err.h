/* Status codes and error messages. A status is 0 for success without exception. */
#ifndef INFQ_BASE_ERR_H
#define INFQ_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* X(name, exit code of the tools, text) */
#define INFQ_ERRNO_MAP(X)                                                                          \
    X(OK, 0, "ok")                                                                                 \
    X(USAGE, 2, "wrong usage")                                                                     \
    X(NOT_FOUND, 3, "not found")                                                                   \
    X(FORMAT, 3, "malformed input")                                                                \
    X(UNSUPPORTED, 3, "unsupported input")                                                         \
    X(NUMERIC, 3, "number out of range or not finite")                                             \
    X(MISMATCH, 3, "inputs do not belong together")                                                \
    X(IO, 4, "read or write failed")                                                               \
    X(EXISTS, 4, "output exists")                                                                  \
    X(NOSPACE, 4, "not enough disk space")                                                         \
    X(NOMEM, 5, "not enough memory")                                                               \
    X(DEVICE, 5, "device not available")                                                           \
    X(BUG, 70, "internal error")                                                                   \
    X(INTERRUPTED, 130, "interrupted")

typedef enum {
#define X(name, exit_code, text) INFQ_E_##name,
    INFQ_ERRNO_MAP(X)
#undef X
        INFQ_E_COUNT_
} infq_status;

/* A code and a fixed message, so that failing needs no memory. Written only on failure. */
typedef struct {
    infq_status code;
    char msg[400];
} infq_err;

/* Sets code and message and returns the code. Lower case, no full stop. Of a longer message the middle is left out: its
 * beginning names the file, its end the rule. Control characters (of names in files) become '?', so that a message is one line. */
infq_status infq_err_set(infq_err *err, infq_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<formatted>: " in front of the message and returns the code that err holds. */
infq_status infq_err_in(infq_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Replaces control characters by '?', in place. */
void infq_text_one_line(char *s);

/* Text of a code ("malformed input"), and the exit code of STYLE.md section 11. */
const char *infq_status_text(infq_status st);
int infq_status_exit(infq_status st);

/* For our own broken invariants only: prints file and line and aborts, in release builds too. */
#define INFQ_BUG_ON(cond)                                                                          \
    do {                                                                                           \
        if (cond)                                                                                  \
            infq_bug(__FILE__, __LINE__, #cond);                                                   \
    } while (0)
void infq_bug(const char *file, int line, const char *cond) __attribute__((noreturn));

/* Returns a failure at once; only where nothing is held. */
#define INFQ_TRY(call)                                                                             \
    do {                                                                                           \
        infq_status try_st_ = (call);                                                              \
        if (try_st_)                                                                               \
            return try_st_;                                                                        \
    } while (0)

#endif
