#include "lib/base/buf.h"

#include <stdio.h>
#include <string.h>

static char empty[1] = "";

void infq_buf_init(infq_buf *b)
{
    b->data = empty;
    b->n = b->cap = 0;
    b->failed = false;
}

void infq_buf_deinit(infq_buf *b)
{
    if (b->cap)
        infq_mem_free(b->data);
    infq_buf_init(b);
}

void infq_buf_clear(infq_buf *b)
{
    b->n = 0;
    if (b->cap)
        b->data[0] = '\0';
    b->failed = false;
}

static bool reserve(infq_buf *b, size_t more)
{
    size_t need, cap;
    char *p;

    if (b->failed)
        return false;
    if (!infq_add_size(b->n, more, &need) || !infq_add_size(need, 1, &need)) {
        b->failed = true;
        return false;
    }
    if (need <= b->cap)
        return true;
    cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : 2 * cap;
    p = infq_mem_realloc(b->cap ? b->data : NULL, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void infq_buf_add(infq_buf *b, const void *p, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->n, p, n);
    b->n += n;
    b->data[b->n] = '\0';
}

void infq_buf_str(infq_buf *b, const char *s)
{
    infq_buf_add(b, s, strlen(s));
}

void infq_buf_char(infq_buf *b, char c)
{
    infq_buf_add(b, &c, 1);
}

void infq_buf_fmt(infq_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

infq_status infq_buf_status(const infq_buf *b, infq_err *err)
{
    return b->failed ? infq_err_set(err, INFQ_E_NOMEM, "buffer of %zu bytes cannot grow", b->n) : INFQ_E_OK;
}

char *infq_buf_take(infq_buf *b)
{
    char *p = NULL;

    if (reserve(b, 0)) {
        b->data[b->n] = '\0';
        p = b->data;
        b->cap = 0;
    }
    infq_buf_deinit(b);
    return p;
}

void infq_ids_init(infq_ids *v)
{
    memset(v, 0, sizeof(*v));
}

void infq_ids_deinit(infq_ids *v)
{
    infq_mem_free(v->data);
    infq_ids_init(v);
}

void infq_ids_clear(infq_ids *v)
{
    v->n = 0;
    v->failed = false;
}

void infq_ids_append(infq_ids *v, const int32_t *ids, size_t n)
{
    size_t need, bytes;

    if (v->failed || n == 0)
        return;
    if (!infq_add_size(v->n, n, &need)) {
        v->failed = true;
        return;
    }
    if (need > v->cap) {
        size_t cap = v->cap ? v->cap : 32;
        int32_t *p;
        while (cap < need)
            cap = cap > SIZE_MAX / 2 ? need : 2 * cap;
        p = infq_mul_size(cap, sizeof(int32_t), &bytes) ? infq_mem_realloc(v->data, bytes) : NULL;
        if (!p) {
            v->failed = true;
            return;
        }
        v->data = p;
        v->cap = cap;
    }
    memcpy(v->data + v->n, ids, n * sizeof(int32_t));
    v->n = need;
}

void infq_ids_push(infq_ids *v, int32_t id)
{
    infq_ids_append(v, &id, 1);
}

infq_status infq_ids_status(const infq_ids *v, infq_err *err)
{
    return v->failed ? infq_err_set(err, INFQ_E_NOMEM, "list of %zu token ids cannot grow", v->n) : INFQ_E_OK;
}
