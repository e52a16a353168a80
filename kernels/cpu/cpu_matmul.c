/* Products of the CPU backend. Four paths:
 *   few rows      kernels that read the weights as stored (memory speed);
 *   W8A8          exact integer sums: our kernels or oneDNN, with equal results;
 *   invariant     one chain of fused products an output (gemm.inc), weights decoded tile by tile;
 * also for 9 to 255 rows; many rows     oneDNN F32 on the same decoded tiles. Every path gives an
 * output element to one thread, in blocks that do not depend on the number of threads. */
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

/* Products of one input that share a region. */
#define FEW_PRODUCTS 4
/* Bytes of weights a part, at least: about a microsecond of reading. */
#define PART_BYTES 24576
/* From this many rows on oneDNN is as fast as the invariant product on AVX-512 (9 to 128 rows: half
 * as fast). */
#define DNNL_ROWS 256
/* Rows of x in one pass of the invariant product: bounds its packed copy; 20 full panels of
 * AVX-512. */
#define PASS_ROWS 960

typedef struct {
    const infq_cpu_kernels *k;
    const infq_pweight *pw;
    const infq_weight *w;
    const infq_matmul_args *a;
    const float *x; /* rows after activation quantization */
    int64_t n_tokens, n_pack, t0;
    uint8_t *prep;
    size_t prep_stride;
    float *x_scale;
    float *panels;
    uint8_t *scratch;
    size_t stride;
    int64_t block; /* weight rows a tile */
    int32_t n_parts, order[INFQ_K_PARTS_MAX]; /* runs of k and the order of their sums; 0: one chain */
    infq_cpu_few_fn few;
    const infq_cpu_prep *how;
    volatile int failed;
} product;

infq_status infq_cpu_scratch_need(infq_cpu_scratch *s, size_t n_bytes, infq_err *err)
{
    void *p;

    if (s->cap >= n_bytes && s->p)
        return INFQ_E_OK;
    INFQ_TRY(infq_mem_new(n_bytes, 1, "scratch of the cpu backend", &p, err));
    infq_mem_free(s->p);
    s->p = p;
    s->cap = n_bytes;
    return INFQ_E_OK;
}

infq_status infq_cpu_threads_need(infq_cpu_state *s, size_t n_bytes, uint8_t **base, size_t *stride,
                                  infq_err *err)
{
    size_t each = (n_bytes + 63) / 64 * 64, all;

    if (!infq_mul_size(each, (size_t)infq_par_threads(), &all))
        return infq_err_set(err, INFQ_E_NOMEM, "scratch of %zu bytes a thread is too large",
                            n_bytes);
    INFQ_TRY(infq_cpu_scratch_need(&s->threads, all, err));
    *base = s->threads.p;
    *stride = each;
    return INFQ_E_OK;
}

static bool group_is_simple(const infq_codec *c)
{
    return c->group_cols == 0 ||
           (c->group_cols >= 32 && (c->group_cols & (c->group_cols - 1)) == 0);
}

// Which kernel reads this weight when rows are few.
static int kind_of(const infq_weight *w)
{
    const infq_codec *c = &w->codec;
    bool plain = !w->order && !c->outer;
    bool scale16 =
        c->scale == INFQ_ELEM_BF16 || c->scale == INFQ_ELEM_F16 || c->scale == INFQ_ELEM_F32;

    if (!plain)
        return INFQ_FEW_ANY;
    switch (c->elem) {
    case INFQ_ELEM_F32:
        return INFQ_FEW_F32;
    case INFQ_ELEM_BF16:
        return INFQ_FEW_BF16;
    case INFQ_ELEM_F16:
        return INFQ_FEW_F16;
    case INFQ_ELEM_E4M3:
        return INFQ_FEW_E4M3;
    case INFQ_ELEM_U4:
        return scale16 && group_is_simple(c) ? INFQ_FEW_U4 : INFQ_FEW_ANY;
    case INFQ_ELEM_U8:
        return scale16 && group_is_simple(c) ? INFQ_FEW_U8 : INFQ_FEW_ANY;
    case INFQ_ELEM_I8:
        return c->scale != INFQ_ELEM_NONE && c->group_cols == 0 && c->zero == INFQ_ZERO_NONE &&
                       c->act == INFQ_ACT_I8_TOKEN
                   ? INFQ_FEW_I8
                   : INFQ_FEW_ANY;
    default:
        return INFQ_FEW_ANY;
    }
}

infq_status infq_cpu_weight_prepare(void *state, const infq_weight *w, infq_pweight **out,
                                    infq_err *err)
{
    infq_pweight *p;
    void *mem;

    (void)state;
    INFQ_TRY(infq_weight_check(w, err));
    INFQ_TRY(infq_mem_new(1, sizeof(*p), "a prepared weight", &mem, err));
    p = mem;
    p->w = *w;
    p->kind = kind_of(w);
    p->n_bytes = (size_t)(infq_weight_bits(w) / 8.0);
    *out = p;
    return INFQ_E_OK;
}

/* Rows of x after the codec's activation quantization, in the state's buffer (or x itself). */
static void act_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    product *p = ctx;
    int64_t K = p->w->n_cols;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        if (p->pw->kind == INFQ_FEW_I8)
            p->x_scale[t] = p->k->act_i8_row(p->a->x + t * K, K,
                                             (int8_t *)p->prep + (size_t)t * p->prep_stride);
        else
            p->k->act_row(p->w->codec.act, p->w->act_scale, p->a->x + t * K, K,
                          (float *)p->panels + t * K);
    }
}

static void prep_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    product *p = ctx;

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        p->how->make(p->x + t * p->w->n_cols, p->w->n_cols, p->w,
                     p->prep + (size_t)t * p->prep_stride);
}

/* Products of one input, few rows: their weight rows one behind the other. */
typedef struct {
    product p[FEW_PRODUCTS];
    int64_t n, n_rows;
} few_products;

static void few_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    few_products *l = ctx;

    for (int64_t i = 0, at = 0; i < l->n; at += l->p[i++].w->n_rows) {
        product *p = &l->p[i];
        int64_t n = p->w->n_rows, r0 = begin > at ? begin - at : 0, r1 = end - at < n ? end - at : n;
        infq_cpu_few f = { .w = p->w,
                           .x = p->x,
                           .prep = p->prep,
                           .prep_stride = p->prep_stride,
                           .x_scale = p->x_scale,
                           .bias = p->a->bias,
                           .y = p->a->y,
                           .n_tokens = p->n_tokens,
                           .row = p->scratch ? (float *)(void *)(p->scratch + (size_t)thread * p->stride) : NULL };

        if (r0 < r1)
            p->few(&f, r0, r1);
    }
}

// Rows of weights a part: a multiple of 16 with enough bytes to be worth handing out.
static int64_t few_grain(const product *p)
{
    int64_t row_bytes = (int64_t)p->w->codes.row_bytes * p->n_tokens, rows = PART_BYTES / (row_bytes > 0 ? row_bytes : 1);

    return rows < 16 ? 16 : (rows + 15) / 16 * 16;
}

// The kernel for few rows, its form of the activations and its scratch.
static infq_status few_prepare(infq_cpu_state *s, product *p, infq_err *err)
{
    const infq_cpu_kernels *k = p->k;

    p->few = k->few_any;
    switch (p->pw->kind) {
    case INFQ_FEW_F32:
        p->few = k->few_f32;
        break;
    case INFQ_FEW_BF16:
        p->few = k->few_bf16;
        break;
    case INFQ_FEW_F16:
        p->few = k->few_f16;
        break;
    case INFQ_FEW_E4M3:
        p->few = k->few_e4m3;
        break;
    case INFQ_FEW_I8:
        p->few = k->few_i8;
        break;
    case INFQ_FEW_U4:
        if (k->few_u4) {
            p->few = k->few_u4;
            p->how = &k->prep_u4;
        }
        break;
    case INFQ_FEW_U8:
        if (k->few_u8) {
            p->few = k->few_u8;
            p->how = &k->prep_u8;
        }
        break;
    default:
        break;
    }
    if (p->how) {
        p->prep_stride = (p->how->n_bytes(p->w->n_cols) + 63) / 64 * 64;
        INFQ_TRY(infq_cpu_scratch_need(&s->prep, p->prep_stride * (size_t)p->n_tokens, err));
        p->prep = s->prep.p;
        prep_part(p, 0, p->n_tokens, 0);
    }
    // few_e4m3 decodes rows that hold NaN.
    if (p->few == k->few_any || p->few == k->few_e4m3)
        INFQ_TRY(infq_cpu_threads_need(s, (size_t)p->w->n_cols * sizeof(float), &p->scratch,
                                       &p->stride, err));
    return INFQ_E_OK;
}

// l->p[0] has its activations; the other products of the list read the same.
static infq_status few_rows(infq_cpu_state *s, few_products *l, infq_err *err)
{
    INFQ_TRY(few_prepare(s, &l->p[0], err));
    l->n_rows = l->p[0].w->n_rows;
    for (int64_t i = 1; i < l->n; i++) {
        const infq_matmul_args *a = l->p[i].a;
        l->p[i] = l->p[0];
        l->p[i].a = a;
        l->p[i].pw = a->w;
        l->p[i].w = &a->w->w;
        l->n_rows += a->w->w.n_rows;
    }
    infq_par_for(l->n_rows, few_grain(&l->p[0]), few_part, l);
    return INFQ_E_OK;
}

/* Weight rows n0.. of a block as F32 rows of n_cols: mapped ones as they are when dense, F32, tight
 * and aligned. */
static const float *tile_rows_of(const product *p, int64_t n0, int64_t n, float *into)
{
    const infq_weight *w = p->w;
    const uint8_t *at = (const uint8_t *)w->codes.data + (size_t)n0 * w->codes.row_bytes;

    if (p->pw->kind == INFQ_FEW_F32 && w->codec.scale == INFQ_ELEM_NONE &&
        w->codes.row_bytes == (size_t)w->n_cols * sizeof(float) &&
        (uintptr_t)at % sizeof(float) == 0)
        return (const float *)(const void *)at;
    for (int64_t i = 0; i < n; i++)
        p->k->decode_row(w, n0 + i, into + i * w->n_cols);
    return into;
}

static int64_t panel_width(const product *p, int64_t n_rows)
{
    int64_t lanes = p->k->gemm.lanes, full = p->k->gemm.panel;

    return n_rows >= full ? full : (n_rows + lanes - 1) / lanes * lanes;
}

static void pack_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    product *p = ctx;
    int64_t K = p->w->n_cols, full = p->k->gemm.panel;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = p->n_pack - i * full < full ? p->n_pack - i * full : full;
        p->k->gemm.pack(p->x + (p->t0 + i * full) * K, K, n, panel_width(p, n),
                        p->panels + i * full * K);
    }
}

/* out = sum of the runs of k, each by itself in `part`, added in the order asked for. */
static void tile_parts(const product *p, const float *panel, int64_t pw, const float *tile, int64_t n, float *out, float *part)
{
    int64_t K = p->w->n_cols;

    for (int32_t i = 0; i < p->n_parts; i++) {
        int64_t k0 = p->order[i] * K / p->n_parts, k1 = (p->order[i] + 1) * K / p->n_parts;
        p->k->gemm.tile(panel + k0 * pw, pw, tile + k0, K, n, k1 - k0, i ? part : out);
        for (int64_t j = 0; i && j < n * pw; j++)
            out[j] += part[j];
    }
}

static void invariant_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    product *p = ctx;
    int64_t K = p->w->n_cols, N = p->w->n_rows, full = p->k->gemm.panel;
    float *mem = (float *)(void *)(p->scratch + (size_t)thread * p->stride),
          *out = mem + p->block * K, *part = out + p->block * full;

    for (int64_t b = begin; b < end; b++) {
        int64_t n0 = b * p->block, n = N - n0 < p->block ? N - n0 : p->block;
        const float *tile = tile_rows_of(p, n0, n, mem);
        for (int64_t m0 = 0; m0 < p->n_pack; m0 += full) {
            int64_t m = p->n_pack - m0 < full ? p->n_pack - m0 : full, pw = panel_width(p, m);
            float *y = p->a->y + (p->t0 + m0) * N + n0;
            if (p->n_parts > 1)
                tile_parts(p, p->panels + m0 * K, pw, tile, n, out, part);
            else
                p->k->gemm.tile(p->panels + m0 * K, pw, tile, K, n, K, out);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++)
                    y[i * N + j] = out[j * pw + i] + (p->a->bias ? p->a->bias[n0 + j] : 0.0f);
        }
    }
}

static infq_status invariant_rows(infq_cpu_state *s, product *p, infq_err *err)
{
    int64_t K = p->w->n_cols, N = p->w->n_rows, full = p->k->gemm.panel, most;
    size_t n;

    p->block = K <= 2048 ? 32 : K <= 8192 ? 16 : 8;
    p->n_parts = p->a->k_parts;
    infq_k_order(p->a->k_seed, p->n_parts, p->order);
    most = p->n_tokens < PASS_ROWS ? p->n_tokens : PASS_ROWS;
    if (!infq_mul_size((size_t)((most + full - 1) / full * full), (size_t)K * sizeof(float), &n))
        return infq_err_set(err, INFQ_E_NOMEM, "a product of %lld rows is too large",
                            (long long)p->n_tokens);
    INFQ_TRY(infq_cpu_scratch_need(&s->panel, n, err));
    p->panels = s->panel.p;
    INFQ_TRY(infq_cpu_threads_need(s, (size_t)(p->block * (K + (p->n_parts > 1 ? 2 : 1) * full)) * sizeof(float), &p->scratch,
                                   &p->stride, err));
    for (p->t0 = 0; p->t0 < p->n_tokens; p->t0 += PASS_ROWS) {
        p->n_pack = p->n_tokens - p->t0 < PASS_ROWS ? p->n_tokens - p->t0 : PASS_ROWS;
        infq_par_for((p->n_pack + full - 1) / full, 1, pack_part, p);
        infq_par_for((N + p->block - 1) / p->block, 1, invariant_part, p);
    }
    return INFQ_E_OK;
}

static void many_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    product *p = ctx;
    int64_t K = p->w->n_cols, N = p->w->n_rows;
    float *mem = (float *)(void *)(p->scratch + (size_t)thread * p->stride);

    for (int64_t b = begin; b < end; b++) {
        int64_t n0 = b * p->block, n = N - n0 < p->block ? N - n0 : p->block;
        const float *tile = tile_rows_of(p, n0, n, mem);
        float *y = p->a->y + n0;
        if (!infq_dnnl_f32(p->n_tokens, n, K, p->x, tile, y, N))
            p->failed = 1;
        for (int64_t i = 0; p->a->bias && i < p->n_tokens; i++)
            for (int64_t j = 0; j < n; j++)
                y[i * N + j] += p->a->bias[n0 + j];
    }
}

static void many_i8_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    product *p = ctx;
    const infq_weight *w = p->w;
    int64_t K = w->n_cols, N = w->n_rows;
    float *scale = (float *)(void *)(p->scratch + (size_t)thread * p->stride);
    int32_t *sums = (int32_t *)(void *)(scale + p->block);

    for (int64_t b = begin; b < end; b++) {
        int64_t n0 = b * p->block, n = N - n0 < p->block ? N - n0 : p->block;
        const int8_t *rows = (const int8_t *)w->codes.data + (size_t)n0 * w->codes.row_bytes;
        if (!infq_dnnl_i8(p->n_tokens, n, K, (const int8_t *)p->prep, rows,
                          (int64_t)w->codes.row_bytes, sums))
            p->failed = 1;
        for (int64_t j = 0; j < n; j++)
            scale[j] = infq_cpu_scale(w, n0 + j, 0);
        for (int64_t i = 0; i < p->n_tokens; i++)
            for (int64_t j = 0; j < n; j++)
                p->a->y[i * N + n0 + j] =
                    infq_cpu_i8_out(sums[i * n + j], p->x_scale[i], scale[j], p->a->bias, n0 + j);
    }
}

static infq_status many_rows(infq_cpu_state *s, product *p, infq_err *err)
{
    int64_t K = p->w->n_cols, N = p->w->n_rows;
    bool i8 = p->pw->kind == INFQ_FEW_I8;

    p->block = 96;
    INFQ_TRY(infq_cpu_threads_need(s,
                                   (size_t)(p->block * (i8 ? p->n_tokens + 1 : K)) * sizeof(float),
                                   &p->scratch, &p->stride, err));
    infq_par_for((N + p->block - 1) / p->block, 1, i8 ? many_i8_part : many_part, p);
    if (p->failed)
        return infq_err_set(err, INFQ_E_DEVICE, "oneDNN refused a product of %lld x %lld by %lld",
                            (long long)p->n_tokens, (long long)K, (long long)N);
    return INFQ_E_OK;
}

// Rows to int8 with a scale each, or through the codec's FP8 format and back.
static infq_status activations(infq_cpu_state *s, product *p, infq_err *err)
{
    size_t T = (size_t)p->n_tokens, n;
    bool i8 = p->pw->kind == INFQ_FEW_I8, fits;

    if (!i8 && p->w->codec.act == INFQ_ACT_NONE)
        return INFQ_E_OK;
    p->prep_stride = i8 ? (size_t)p->w->n_cols : 0; // tight: oneDNN reads them as a matrix
    fits = i8 ? infq_mul_size(T, p->prep_stride + sizeof(float), &n) && infq_add_size(n, 64, &n)
              : infq_mul_size(T, (size_t)p->w->n_cols * sizeof(float), &n);
    if (!fits)
        return infq_err_set(err, INFQ_E_NOMEM, "a product of %lld rows is too large", (long long)p->n_tokens);
    if (i8) {
        INFQ_TRY(infq_cpu_scratch_need(&s->prep, n, err));
        p->x_scale = s->prep.p;
        p->prep = (uint8_t *)s->prep.p + (T * sizeof(float) + 63) / 64 * 64;
    } else {
        INFQ_TRY(infq_cpu_scratch_need(&s->x, n, err));
        p->panels = s->x.p;
        p->x = s->x.p;
    }
    infq_par_for(p->n_tokens, 16, act_part, p);
    return INFQ_E_OK;
}

static bool is_few(const infq_matmul_args *a)
{
    const infq_cpu_kernels *k = infq_cpu_kernels_get();

    if (a->w->kind == INFQ_FEW_I8)
        return a->n_tokens <= INFQ_CPU_FEW || k->level != INFQ_CPU_VNNI; // exact sums: invariant on any path
    return !a->invariant && a->n_tokens <= INFQ_CPU_FEW;
}

// Both read the same activations in the same form with the same kernel.
static bool same_input(const infq_matmul_args *a, const infq_matmul_args *b)
{
    const infq_codec *c = &a->w->w.codec, *d = &b->w->w.codec;

    return a->x == b->x && a->n_tokens == b->n_tokens && a->invariant == b->invariant && a->w->kind == b->w->kind &&
           a->w->w.n_cols == b->w->w.n_cols && c->act == d->act && a->w->w.act_scale == b->w->w.act_scale;
}

// The first products of the list that can go together; *n_done: how many.
static infq_status first_products(infq_cpu_state *s, const infq_matmul_args *a, int64_t n, int64_t *n_done, infq_err *err)
{
    few_products l = { .p[0] = { .k = infq_cpu_kernels_get(),
                                 .pw = a->w,
                                 .w = &a->w->w,
                                 .a = a,
                                 .x = a->x,
                                 .n_tokens = a->n_tokens },
                       .n = 1 };
    product *p = &l.p[0];

    *n_done = 1;
    if (a->n_tokens <= 0)
        return INFQ_E_OK;
    INFQ_TRY(activations(s, p, err));
    if (is_few(a)) {
        for (; l.n < n && l.n < FEW_PRODUCTS && same_input(a, &a[l.n]); l.n++)
            l.p[l.n].a = &a[l.n];
        *n_done = l.n;
        return few_rows(s, &l, err);
    }
    if (p->pw->kind == INFQ_FEW_I8 ||
        (!a->invariant && (a->n_tokens >= DNNL_ROWS || p->k->level == INFQ_CPU_SCALAR)))
        return many_rows(s, p, err);
    return invariant_rows(s, p, err);
}

infq_status infq_cpu_matmul(void *state, const infq_matmul_args *a, int64_t n, infq_err *err)
{
    for (int64_t i = 0, done; i < n; i += done)
        INFQ_TRY(first_products(state, a + i, n - i, &done, err));
    return INFQ_E_OK;
}
