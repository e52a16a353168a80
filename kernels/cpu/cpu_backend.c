/* The CPU backend: kernels by level (table.c), threads over rows. Used from one calling thread. */
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"

static infq_status cpu_open(const char *device, void **state, infq_err *err)
{
    void *p;

    (void)device;
    INFQ_TRY(infq_mem_new(1, sizeof(infq_cpu_state), "the cpu backend", &p, err));
    memset(p, 0, sizeof(infq_cpu_state));
    *state = p;
    return INFQ_E_OK;
}

static void cpu_close(void *state)
{
    infq_cpu_state *s = state;

    if (!s)
        return;
    infq_mem_free(s->x.p);
    infq_mem_free(s->prep.p);
    infq_mem_free(s->panel.p);
    infq_mem_free(s->threads.p);
    infq_mem_free(s);
}

static infq_status cpu_alloc(void *state, size_t n_bytes, void **out, infq_err *err)
{
    (void)state;
    return infq_mem_new(n_bytes, 1, "a device buffer", out, err);
}

static void cpu_free(void *state, void *p)
{
    (void)state;
    infq_mem_free(p);
}

static infq_status cpu_copy(void *state, void *dst, const void *src, size_t n_bytes, infq_err *err)
{
    (void)state;
    (void)err;
    memmove(dst, src, n_bytes);
    return INFQ_E_OK;
}

static bool cpu_supports(void *state, infq_op op, const infq_codec *c, int64_t n_rows,
                         int64_t n_cols)
{
    (void)state;
    (void)n_rows;
    (void)n_cols;
    return (op != INFQ_OP_MATMUL && op != INFQ_OP_EMBED) || (c && c->elem != INFQ_ELEM_NONE);
}

static void cpu_weight_free(void *state, infq_pweight *w)
{
    (void)state;
    infq_mem_free(w);
}

static size_t cpu_weight_bytes(const infq_pweight *w) { return w->n_bytes; }

static void cpu_weight_shape(const infq_pweight *w, int64_t *n_rows, int64_t *n_cols)
{
    *n_rows = w->w.n_rows;
    *n_cols = w->w.n_cols;
}

static void embed_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const infq_embed_args *a = ctx;
    const infq_cpu_kernels *k = infq_cpu_kernels_get();

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        k->decode_row(&a->w->w, a->ids[t], a->y + t * a->w->w.n_cols);
}

static infq_status cpu_embed(void *state, const infq_embed_args *a, infq_err *err)
{
    infq_embed_args args = *a;

    (void)state;
    (void)err;
    infq_par_for(a->n_tokens, 32, embed_part, &args);
    return INFQ_E_OK;
}

/* Rows of an elementwise op that make a part worth a thread: some 32k floats. */
static int64_t row_grain(int64_t n_cols)
{
    return n_cols >= 32768 ? 1 : 32768 / (n_cols > 0 ? n_cols : 1);
}

#define ROWS_OP(name, type, count, cols)                                                           \
    static void name##_part(void *ctx, int64_t begin, int64_t end, int thread)                     \
    {                                                                                              \
        (void)thread;                                                                              \
        infq_cpu_kernels_get()->name(ctx, begin, end);                                             \
    }                                                                                              \
    static infq_status cpu_##name(void *state, const type *a, infq_err *err)                       \
    {                                                                                              \
        type args = *a;                                                                            \
                                                                                                   \
        (void)state;                                                                               \
        (void)err;                                                                                 \
        infq_par_for(a->count, row_grain(cols), name##_part, &args);                               \
        return INFQ_E_OK;                                                                          \
    }
ROWS_OP(rmsnorm, infq_norm_args, n_rows, a->n_cols)
ROWS_OP(layernorm, infq_norm_args, n_rows, a->n_cols)
ROWS_OP(rope, infq_rope_args, n_tokens, a->n_heads * a->n_rot)
ROWS_OP(glu, infq_glu_args, n_rows, a->n_cols)
ROWS_OP(add, infq_add_args, n, 1)
ROWS_OP(round, infq_round_args, n_rows, a->n_cols)

// Keys of up to 16 tokens that share a page: the rows stay in the first cache while each line of the page is filled.
static void store_turned(const infq_kv_store_args *a, int64_t t, int64_t n)
{
    int64_t pos = a->pos0 + t;
    float *page = a->pages[pos / INFQ_KV_PAGE] + pos % INFQ_KV_PAGE;

    for (int64_t d = 0; d < a->n_kv_heads * a->head_dim; d++)
        for (int64_t i = 0; i < n; i++)
            page[d * INFQ_KV_PAGE + i] = a->x[(t + i) * a->x_stride + d];
}

static void kv_store_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const infq_kv_store_args *a = ctx;
    size_t n_bytes = (size_t)a->head_dim * sizeof(float);

    (void)thread;
    for (int64_t t = begin, n; a->turned && t < end; t += n) {
        n = 16 - (a->pos0 + t) % 16;
        n = n < end - t ? n : end - t;
        store_turned(a, t, n);
    }
    for (int64_t t = begin; !a->turned && t < end; t++) {
        int64_t pos = a->pos0 + t;
        float *page = a->pages[pos / INFQ_KV_PAGE] + pos % INFQ_KV_PAGE * a->head_dim;
        for (int64_t h = 0; h < a->n_kv_heads; h++)
            memcpy(page + h * INFQ_KV_PAGE * a->head_dim, a->x + t * a->x_stride + h * a->head_dim,
                   n_bytes);
    }
}

static infq_status cpu_kv_store(void *state, const infq_kv_store_args *a, infq_err *err)
{
    infq_kv_store_args args = *a;

    (void)state;
    (void)err;
    infq_par_for(a->n_tokens, row_grain(a->n_kv_heads * a->head_dim), kv_store_part, &args);
    return INFQ_E_OK;
}

typedef struct {
    const infq_cpu_kernels *k;
    const infq_attention_args *a;
    int64_t n_blocks;
    uint8_t *scratch;
    size_t stride;
} attention_job;

/* Items are (block of rows, kv head). Causal rows cost more the later they are, so blocks are taken
 * from both ends in turn and equal shares of items are about equal shares of work. */
static void attention_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const attention_job *j = ctx;

    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / j->a->n_kv_heads, block = b % 2 == 0 ? b / 2 : j->n_blocks - 1 - b / 2;
        j->k->attend(j->a, i % j->a->n_kv_heads, block,
                     (float *)(void *)(j->scratch + (size_t)thread * j->stride));
    }
}

static infq_status cpu_attention(void *state, const infq_attention_args *a, infq_err *err)
{
    infq_cpu_state *s = state;
    attention_job j = { .k = infq_cpu_kernels_get(), .a = a };
    int64_t n_rows = a->n_tokens * (a->n_heads / a->n_kv_heads), work;

    if (a->n_tokens <= 0)
        return INFQ_E_OK;
    j.n_blocks = (n_rows + j.k->attend_rows - 1) / j.k->attend_rows;
    INFQ_TRY(infq_cpu_threads_need(s, (size_t)j.k->attend_floats(a) * sizeof(float), &j.scratch,
                                   &j.stride, err));
    // Short contexts: one head's work is not worth a thread.
    work = (a->pos0 + a->n_tokens) * a->head_dim;
    infq_par_for(j.n_blocks * a->n_kv_heads, work >= 16384 ? 1 : 16384 / (work > 0 ? work : 1),
                 attention_part, &j);
    return INFQ_E_OK;
}

const infq_backend_ops infq_backend_cpu = {
    .abi_version = INFQ_BACKEND_ABI,
    .struct_size = sizeof(infq_backend_ops),
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .supports = cpu_supports,
    .weight_prepare = infq_cpu_weight_prepare,
    .weight_free = cpu_weight_free,
    .weight_bytes = cpu_weight_bytes,
    .weight_shape = cpu_weight_shape,
    .matmul = infq_cpu_matmul,
    .embed = cpu_embed,
    .rmsnorm = cpu_rmsnorm,
    .layernorm = cpu_layernorm,
    .rope = cpu_rope,
    .attention = cpu_attention,
    .kv_store = cpu_kv_store,
    .glu = cpu_glu,
    .add = cpu_add,
    .round = cpu_round,
};
