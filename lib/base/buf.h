/* Growable byte buffer, also used as string builder: data is always NUL-terminated past n. */
#ifndef INFQ_BASE_BUF_H
#define INFQ_BASE_BUF_H

#include <stdint.h>

#include "lib/base/mem.h"

typedef struct {
    char *data;    /* "" when empty; owned */
    size_t n, cap;
    bool failed;   /* an append ran out of memory; later appends do nothing */
} infq_buf;

void infq_buf_init(infq_buf *b);
void infq_buf_deinit(infq_buf *b);
void infq_buf_clear(infq_buf *b);
/* Appends never return: they set `failed`. Check once with infq_buf_status. */
void infq_buf_add(infq_buf *b, const void *p, size_t n);
void infq_buf_str(infq_buf *b, const char *s);
void infq_buf_char(infq_buf *b, char c);
void infq_buf_fmt(infq_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
infq_status infq_buf_status(const infq_buf *b, infq_err *err);
/* Hands the NUL-terminated storage to the caller (infq_mem_free) and empties b. NULL if failed. */
char *infq_buf_take(infq_buf *b);

/* Growable list of int32 (token ids). */
typedef struct {
    int32_t *data;
    size_t n, cap;
    bool failed;
} infq_ids;
void infq_ids_init(infq_ids *v);
void infq_ids_deinit(infq_ids *v);
void infq_ids_clear(infq_ids *v);
void infq_ids_push(infq_ids *v, int32_t id);
void infq_ids_append(infq_ids *v, const int32_t *ids, size_t n);
infq_status infq_ids_status(const infq_ids *v, infq_err *err);

#endif
