/* Bounds-checked reading of bytes we did not write. The first error sticks, with its position. */
#ifndef INFQ_BASE_CURSOR_H
#define INFQ_BASE_CURSOR_H

#include <stdint.h>

#include "lib/base/err.h"

typedef struct {
    const uint8_t *data;
    size_t size, pos;
    bool failed;
    size_t fail_pos, fail_want;  /* where and how many bytes were asked for */
} infq_cursor;

infq_cursor infq_cursor_over(const void *data, size_t size);
/* Borrowed pointer to the next n bytes, NULL (and failed) if they are not there. */
const uint8_t *infq_cursor_take(infq_cursor *c, size_t n);
uint8_t infq_cursor_u8(infq_cursor *c);
uint32_t infq_cursor_u32le(infq_cursor *c);
uint64_t infq_cursor_u64le(infq_cursor *c);
size_t infq_cursor_left(const infq_cursor *c);
infq_status infq_cursor_status(const infq_cursor *c, infq_err *err);  /* FORMAT: truncated at ... */

static inline uint16_t infq_load_u16le(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t infq_load_u32le(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t infq_load_u64le(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)infq_load_u32le(b) | (uint64_t)infq_load_u32le(b + 4) << 32;
}
static inline void infq_store_u16le(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}
static inline void infq_store_u32le(void *p, uint32_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}
static inline void infq_store_u64le(void *p, uint64_t v)
{
    infq_store_u32le(p, (uint32_t)v);
    infq_store_u32le((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
