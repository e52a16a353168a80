#include "lib/base/cursor.h"

infq_cursor infq_cursor_over(const void *data, size_t size)
{
    infq_cursor c = { data, size, 0, false, 0, 0 };

    return c;
}

const uint8_t *infq_cursor_take(infq_cursor *c, size_t n)
{
    const uint8_t *p;

    if (c->failed)
        return NULL;
    if (n > c->size - c->pos) {
        c->failed = true;
        c->fail_pos = c->pos;
        c->fail_want = n;
        return NULL;
    }
    p = c->data + c->pos;
    c->pos += n;
    return p;
}

uint8_t infq_cursor_u8(infq_cursor *c)
{
    const uint8_t *p = infq_cursor_take(c, 1);

    return p ? p[0] : 0;
}

uint32_t infq_cursor_u32le(infq_cursor *c)
{
    const uint8_t *p = infq_cursor_take(c, 4);

    return p ? infq_load_u32le(p) : 0;
}

uint64_t infq_cursor_u64le(infq_cursor *c)
{
    const uint8_t *p = infq_cursor_take(c, 8);

    return p ? infq_load_u64le(p) : 0;
}

size_t infq_cursor_left(const infq_cursor *c)
{
    return c->size - c->pos;
}

infq_status infq_cursor_status(const infq_cursor *c, infq_err *err)
{
    if (!c->failed)
        return INFQ_E_OK;
    return infq_err_set(err, INFQ_E_FORMAT, "truncated: %zu bytes wanted at byte %zu, %zu there", c->fail_want,
                        c->fail_pos, c->size - c->fail_pos);
}
