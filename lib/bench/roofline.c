#include "lib/bench/roofline.h"

#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

#define READ_BYTES ((size_t)512 << 20)
#define M 256
#define K 2048

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
    for (int pass = 0; pass < 6; pass++) {
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

static infq_status product_rate(infq_backend *be, double *rate, infq_err *err)
{
    infq_weight w;
    infq_pweight *pw = NULL;
    infq_matmul_args a;
    float *data = NULL;
    void *x = NULL, *y = NULL;
    int64_t best = INT64_MAX;
    infq_status st;
    void *p;

    INFQ_TRY(infq_mem_new((size_t)K * K, sizeof(float), "the arithmetic measure", &p, err));
    data = p;
    for (int64_t i = 0; i < (int64_t)K * K; i++)
        data[i] = (float)(i % 13 - 6) * 0.01f;
    memset(&w, 0, sizeof(w));
    w.codec.elem = INFQ_ELEM_F32;
    w.n_rows = w.n_cols = K;
    w.codes.data = data;
    w.codes.row_bytes = K * sizeof(float);
    w.outer = 1;
    st = be->ops.weight_prepare(be->state, &w, &pw, err);
    if (!st)
        st = be->ops.alloc(be->state, sizeof(float) * M * K, &x, err);
    if (!st)
        st = be->ops.alloc(be->state, sizeof(float) * M * K, &y, err);
    if (!st)
        st = be->ops.upload(be->state, x, data, sizeof(float) * M * K, err);
    memset(&a, 0, sizeof(a));
    a.w = pw;
    a.x = x;
    a.y = y;
    a.n_tokens = M;
    for (int pass = 0; !st && pass < 6; pass++) {
        int64_t t0 = infq_time_ns(), dt;
        st = be->ops.matmul(be->state, &a, 1, err);
        dt = infq_time_ns() - t0;
        if (pass && dt < best)
            best = dt;
    }
    if (!st)
        *rate = 2.0 * M * K * K / ((double)best * 1e-9);
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
