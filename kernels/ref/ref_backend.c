/* The reference backend: plain C, sums in double, every weight decoded by lib/tensor. Slow and easy
 * to read; the truth that the other backends are tested against, and the source of optional
 * operations that a backend leaves out. */
#include <string.h>

#include "kernels/ref/act_ref.h"
#include "kernels/ref/ref_int.h"
#include "lib/base/mem.h"

struct infq_pweight {
    infq_weight w; /* views borrowed from the caller */
};

static infq_status ref_open(const char *device, void **state, infq_err *err)
{
    (void)device;
    return infq_mem_new(1, 1, "the reference backend", state, err);
}

static void ref_close(void *state) { infq_mem_free(state); }

static infq_status ref_alloc(void *state, size_t n_bytes, void **out, infq_err *err)
{
    (void)state;
    return infq_mem_new(n_bytes, 1, "a device buffer", out, err);
}

static void ref_free(void *state, void *p)
{
    (void)state;
    infq_mem_free(p);
}

static infq_status ref_copy(void *state, void *dst, const void *src, size_t n_bytes, infq_err *err)
{
    (void)state;
    (void)err;
    memmove(dst, src, n_bytes);
    return INFQ_E_OK;
}

static bool ref_supports(void *state, infq_op op, const infq_codec *c, int64_t n_rows,
                         int64_t n_cols)
{
    (void)state;
    (void)n_rows;
    (void)n_cols;
    return (op != INFQ_OP_MATMUL && op != INFQ_OP_EMBED) || (c && c->elem != INFQ_ELEM_NONE);
}

static infq_status ref_weight_prepare(void *state, const infq_weight *w, infq_pweight **out,
                                      infq_err *err)
{
    void *p;

    (void)state;
    INFQ_TRY(infq_weight_check(w, err));
    INFQ_TRY(infq_mem_new(1, sizeof(infq_pweight), "a prepared weight", &p, err));
    *out = p;
    (*out)->w = *w;
    return INFQ_E_OK;
}

static void ref_weight_free(void *state, infq_pweight *w)
{
    (void)state;
    infq_mem_free(w);
}

static size_t ref_weight_bytes(const infq_pweight *w)
{
    return (size_t)(infq_weight_bits(&w->w) / 8.0);
}

static void ref_weight_shape(const infq_pweight *w, int64_t *n_rows, int64_t *n_cols)
{
    *n_rows = w->w.n_rows;
    *n_cols = w->w.n_cols;
}

/* x . w + bias in the order that the arguments ask for. */
static float dot(const infq_matmul_args *a, const int32_t *order, const float *x, const float *w, int64_t K, float bias)
{
    float total = 0.0f;
    double s = bias;

    for (int64_t k = 0; a->k_parts <= 1 && k < K; k++)
        s += (double)x[k] * w[k];
    if (a->k_parts <= 1)
        return (float)s;
    for (int32_t i = 0; i < a->k_parts; i++) {
        s = 0.0;
        for (int64_t k = order[i] * K / a->k_parts; k < (order[i] + 1) * K / a->k_parts; k++)
            s += (double)x[k] * w[k];
        total += (float)s;
    }
    return total + bias;
}

static infq_status product(const infq_matmul_args *a, infq_err *err)
{
    const infq_weight *w = &a->w->w;
    int64_t K = w->n_cols, N = w->n_rows;
    int32_t order[INFQ_K_PARTS_MAX];
    size_t n_bytes, n_x;
    void *mem;
    float *row, *x;

    if (!infq_mul_size((size_t)K, sizeof(float), &n_bytes) ||
        !infq_mul_size(n_bytes, (size_t)a->n_tokens + 1, &n_x))
        return infq_err_set(err, INFQ_E_NOMEM, "a product of %lld rows is too large",
                            (long long)a->n_tokens);
    INFQ_TRY(infq_mem_new(n_x, 1, "rows of a product", &mem, err));
    row = mem;
    x = row + K;
    infq_k_order(a->k_seed, a->k_parts, order);
    for (int64_t t = 0; t < a->n_tokens; t++)
        infq_act_row(w->codec.act, w->act_scale, a->x + t * K, K, x + t * K);
    for (int64_t n = 0; n < N; n++) {
        infq_weight_decode_row(w, n, row);
        for (int64_t t = 0; t < a->n_tokens; t++)
            a->y[t * N + n] = dot(a, order, x + t * K, row, K, a->bias ? a->bias[n] : 0.0f);
    }
    infq_mem_free(mem);
    return INFQ_E_OK;
}

static infq_status ref_matmul(void *state, const infq_matmul_args *a, int64_t n, infq_err *err)
{
    (void)state;
    for (int64_t i = 0; i < n; i++)
        INFQ_TRY(product(&a[i], err));
    return INFQ_E_OK;
}

static infq_status ref_embed(void *state, const infq_embed_args *a, infq_err *err)
{
    const infq_weight *w = &a->w->w;

    (void)state;
    (void)err;
    for (int64_t t = 0; t < a->n_tokens; t++)
        infq_weight_decode_row(w, a->ids[t], a->y + t * w->n_cols);
    return INFQ_E_OK;
}

const infq_backend_ops infq_backend_ref = {
    .abi_version = INFQ_BACKEND_ABI,
    .struct_size = sizeof(infq_backend_ops),
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .alloc = ref_alloc,
    .free = ref_free,
    .upload = ref_copy,
    .download = ref_copy,
    .supports = ref_supports,
    .weight_prepare = ref_weight_prepare,
    .weight_free = ref_weight_free,
    .weight_bytes = ref_weight_bytes,
    .weight_shape = ref_weight_shape,
    .matmul = ref_matmul,
    .embed = ref_embed,
    .rmsnorm = infq_ref_rmsnorm,
    .layernorm = infq_ref_layernorm,
    .rope = infq_ref_rope,
    .attention = infq_ref_attention,
    .kv_store = infq_ref_kv_store,
    .glu = infq_ref_glu,
    .add = infq_ref_add,
    .round = infq_ref_round,
};
