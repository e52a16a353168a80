#include "lib/bench/roofline.h"

#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

#define READ_BYTES ((size_t)512 << 20)
#define MAX_ROWS 512
#define PASSES 24 /* the best counts: on a shared machine a few passes in a row can all be slow */
#define K 1536 /* no power of two: rows 8 KB apart would share the sets of a cache */

typedef struct {
    const uint64_t *p;
    uint64_t sums[256];
} reading;

// 64 bytes a step; the sum keeps the loads alive.
static void read_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    reading *r = ctx;
    uint64_t s[8] = { 0 };

    for (int64_t i = begin; i < end; i++)
        for (int j = 0; j < 8; j++)
            s[j] += r->p[8 * i + j];
    for (int j = 1; j < 8; j++)
        s[0] += s[j];
    r->sums[thread & 255] = s[0];
}

static infq_status read_rate(double *rate, infq_err *err)
{
    reading r;
    int64_t best = INT64_MAX;
    void *p = infq_mem_alloc(READ_BYTES);

    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "the bandwidth measure needs %zu bytes", READ_BYTES);
    memset(p, 1, READ_BYTES);
    r.p = p;
    for (int pass = 0; pass < PASSES; pass++) {
        int64_t t0 = infq_time_ns(), dt;
        infq_par_for((int64_t)(READ_BYTES / 64), 1024, read_part, &r);
        dt = infq_time_ns() - t0;
        if (pass && dt < best)
            best = dt;
    }
    infq_mem_free(p);
    *rate = (double)READ_BYTES / ((double)best * 1e-9);
    return INFQ_E_OK;
}

// A product while all threads stand by, as in a request.
typedef struct {
    infq_backend *be;
    infq_matmul_args a;
    infq_status st;
    infq_err *err;
} product_call;

static void product(void *ctx)
{
    product_call *c = ctx;

    c->st = c->be->ops.matmul(c->be->state, &c->a, 1, c->err);
}

static infq_status time_products(product_call *c, double *rate)
{
    *rate = 0;
    for (int64_t n = MAX_ROWS / 4; n <= MAX_ROWS; n *= 2)
        for (int pass = 0; pass < PASSES; pass++) {
            int64_t t0 = infq_time_ns(), dt;
            c->a.n_tokens = n;
            infq_par_team(product, c);
            if (c->st)
                return c->st;
            dt = infq_time_ns() - t0;
            // The first pass makes the kernel.
            if (pass && 2.0 * (double)n * K * K / ((double)dt * 1e-9) > *rate)
                *rate = 2.0 * (double)n * K * K / ((double)dt * 1e-9);
        }
    return INFQ_E_OK;
}

static infq_status product_rate(infq_backend *be, double *rate, infq_err *err)
{
    infq_weight w = { .codec = { .elem = INFQ_ELEM_F32 }, .n_rows = K, .n_cols = K, .outer = 1.0f };
    infq_pweight *pw = NULL;
    float *data;
    void *x = NULL, *y = NULL, *p;
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)K * K, sizeof(float), "the arithmetic measure", &p, err));
    data = p;
    for (int64_t i = 0; i < (int64_t)K * K; i++)
        data[i] = (float)(i % 13 - 6) * 0.01f;
    w.codes = (infq_view){ data, K * sizeof(float) };
    st = be->ops.weight_prepare(be->state, &w, &pw, err);
    if (!st)
        st = be->ops.alloc(be->state, sizeof(float) * MAX_ROWS * K, &x, err);
    if (!st)
        st = be->ops.alloc(be->state, sizeof(float) * MAX_ROWS * K, &y, err);
    if (!st)
        st = be->ops.upload(be->state, x, data, sizeof(float) * MAX_ROWS * K, err);
    if (!st) {
        product_call c = { be, { .w = pw, .x = x, .y = y }, INFQ_E_OK, err };
        st = time_products(&c, rate);
    }
    be->ops.free(be->state, x);
    be->ops.free(be->state, y);
    if (pw)
        be->ops.weight_free(be->state, pw);
    infq_mem_free(data);
    return st;
}

infq_status infq_roofline_measure(infq_backend *be, infq_roofline *out, infq_err *err)
{
    infq_roofline r = { 0, 0 };

    INFQ_TRY(read_rate(&r.read_bytes_per_s, err));
    INFQ_TRY(product_rate(be, &r.flop_per_s, err));
    *out = r;
    return INFQ_E_OK;
}
