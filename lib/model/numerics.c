/* Declared numerics as one layer over the table of operations: whatever an architecture's forward pass calls goes through it, and a model
 * without them calls the device directly. */
#include <stdio.h>

#include "lib/model/model_int.h"

infq_numerics infq_numerics_default(void)
{
    return (infq_numerics){ .activations = INFQ_ELEM_NONE };
}

// What the layer passes on: memory and weights belong to the device.

static infq_backend *inner_of(void *state)
{
    return ((infq_rounding *)state)->inner;
}

static infq_status layer_alloc(void *state, size_t n_bytes, void **out, infq_err *err)
{
    infq_backend *b = inner_of(state);

    return b->ops.alloc(b->state, n_bytes, out, err);
}

static void layer_free(void *state, void *p)
{
    infq_backend *b = inner_of(state);

    b->ops.free(b->state, p);
}

static infq_status layer_upload(void *state, void *dst, const void *src, size_t n_bytes, infq_err *err)
{
    infq_backend *b = inner_of(state);

    return b->ops.upload(b->state, dst, src, n_bytes, err);
}

static infq_status layer_download(void *state, void *dst, const void *src, size_t n_bytes, infq_err *err)
{
    infq_backend *b = inner_of(state);

    return b->ops.download(b->state, dst, src, n_bytes, err);
}

static bool layer_supports(void *state, infq_op op, const infq_codec *c, int64_t n_rows, int64_t n_cols)
{
    infq_backend *b = inner_of(state);

    return b->ops.supports(b->state, op, c, n_rows, n_cols);
}

static infq_status layer_weight_prepare(void *state, const infq_weight *w, infq_pweight **out, infq_err *err)
{
    infq_backend *b = inner_of(state);

    return b->ops.weight_prepare(b->state, w, out, err);
}

static void layer_weight_free(void *state, infq_pweight *w)
{
    infq_backend *b = inner_of(state);

    b->ops.weight_free(b->state, w);
}

static infq_status layer_round(void *state, const infq_round_args *a, infq_err *err)
{
    infq_backend *b = inner_of(state);

    return b->ops.round(b->state, a, err);
}

// What it computes: the device's operation, then rounding.

static infq_status settle(const infq_rounding *r, float *x, int64_t n_rows, int64_t n_cols, int64_t stride, infq_elem to, double eps,
                          infq_err *err)
{
    infq_round_args a = { .x = x, .n_rows = n_rows, .n_cols = n_cols, .stride = stride, .to = to, .eps = (float)eps, .seed = r->n.seed };

    if (n_rows <= 0 || (to == INFQ_ELEM_NONE && eps <= 0))
        return INFQ_E_OK;
    return r->inner->ops.round(r->inner->state, &a, err);
}

static infq_status layer_matmul(void *state, const infq_matmul_args *a, int64_t n, infq_err *err)
{
    infq_rounding *r = state;
    int64_t rows, cols;

    for (int64_t i = 0; i < n; i++) {
        infq_matmul_args one = a[i];
        one.k_parts = r->n.k_parts;
        one.k_seed = r->n.seed;
        one.invariant = one.invariant || one.k_parts > 1;
        r->inner->ops.weight_shape(one.w, &rows, &cols);
        INFQ_TRY(r->inner->ops.matmul(r->inner->state, &one, 1, err));
        INFQ_TRY(settle(r, one.y, one.n_tokens, rows, rows, r->n.activations, 0, err));
    }
    return INFQ_E_OK;
}

static infq_status layer_embed(void *state, const infq_embed_args *a, infq_err *err)
{
    infq_rounding *r = state;
    int64_t rows, cols;

    r->inner->ops.weight_shape(a->w, &rows, &cols);
    INFQ_TRY(r->inner->ops.embed(r->inner->state, a, err));
    return settle(r, a->y, a->n_tokens, cols, cols, r->n.residual, 0, err);
}

static infq_status layer_rmsnorm(void *state, const infq_norm_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.rmsnorm(r->inner->state, a, err));
    return settle(r, a->y, a->n_rows, a->n_cols, a->y_stride, r->n.activations, 0, err);
}

static infq_status layer_layernorm(void *state, const infq_norm_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.layernorm(r->inner->state, a, err));
    return settle(r, a->y, a->n_rows, a->n_cols, a->y_stride, r->n.activations, 0, err);
}

static infq_status layer_rope(void *state, const infq_rope_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.rope(r->inner->state, a, err));
    return settle(r, a->x, a->n_tokens, a->n_heads * a->head_dim, a->stride, r->n.activations, 0, err);
}

static infq_status layer_attention(void *state, const infq_attention_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.attention(r->inner->state, a, err));
    return settle(r, a->y, a->n_tokens, a->n_heads * a->head_dim, a->y_stride, r->n.activations, 0, err);
}

// The heads of one value lie a page's rows apart, the elements of one key a page's positions.
static infq_status layer_kv_store(void *state, const infq_kv_store_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.kv_store(r->inner->state, a, err));
    for (int64_t t = 0; r->n.kv != INFQ_ELEM_NONE && t < a->n_tokens; t++) {
        int64_t pos = a->pos0 + t;
        float *page = a->pages[pos / INFQ_KV_PAGE];
        int64_t slot = pos % INFQ_KV_PAGE, D = a->head_dim;
        if (a->turned)
            INFQ_TRY(settle(r, page + slot, a->n_kv_heads * D, 1, INFQ_KV_PAGE, r->n.kv, 0, err));
        else
            INFQ_TRY(settle(r, page + slot * D, a->n_kv_heads, D, INFQ_KV_PAGE * D, r->n.kv, 0, err));
    }
    return INFQ_E_OK;
}

static infq_status layer_glu(void *state, const infq_glu_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.glu(r->inner->state, a, err));
    return settle(r, a->y, a->n_rows, a->n_cols, a->y_stride, r->n.activations, 0, err);
}

// Only the residual stream is summed into.
static infq_status layer_add(void *state, const infq_add_args *a, infq_err *err)
{
    infq_rounding *r = state;

    INFQ_TRY(r->inner->ops.add(r->inner->state, a, err));
    return settle(r, a->y, a->n / r->hidden, r->hidden, r->hidden, r->n.residual, r->n.roundoff, err);
}

void infq_rounding_init(infq_rounding *r, infq_backend *inner, int64_t hidden)
{
    *r = (infq_rounding){ .inner = inner, .hidden = hidden };
    r->be.state = r;
    r->be.ops = inner->ops; // what takes no state stays the device's
    r->be.ops.alloc = layer_alloc;
    r->be.ops.free = layer_free;
    r->be.ops.upload = layer_upload;
    r->be.ops.download = layer_download;
    r->be.ops.supports = layer_supports;
    r->be.ops.weight_prepare = layer_weight_prepare;
    r->be.ops.weight_free = layer_weight_free;
    r->be.ops.matmul = layer_matmul;
    r->be.ops.embed = layer_embed;
    r->be.ops.rmsnorm = layer_rmsnorm;
    r->be.ops.layernorm = layer_layernorm;
    r->be.ops.rope = layer_rope;
    r->be.ops.attention = layer_attention;
    r->be.ops.kv_store = layer_kv_store;
    r->be.ops.glu = layer_glu;
    r->be.ops.add = layer_add;
    r->be.ops.round = layer_round;
}

static bool is_off(const infq_numerics *n)
{
    return n->activations == INFQ_ELEM_NONE && n->residual == INFQ_ELEM_NONE && n->kv == INFQ_ELEM_NONE && n->k_parts <= 1 && n->roundoff <= 0;
}

char *infq_numerics_describe(const infq_numerics *n, char *out, size_t cap)
{
    const struct {
        const char *name;
        infq_elem e;
    } to[] = { { "activations", n->activations }, { "residual", n->residual }, { "kv", n->kv } };
    size_t at = 0;

    snprintf(out, cap, "f32");
    if (is_off(n))
        return out;
    for (int i = 0; i < 3; i++)
        if (to[i].e != INFQ_ELEM_NONE && at < cap)
            at += (size_t)snprintf(out + at, cap - at, "%s=%s ", to[i].name, infq_elem_name(to[i].e));
    if (n->k_parts > 1 && at < cap)
        at += (size_t)snprintf(out + at, cap - at, "k_parts=%d ", (int)n->k_parts);
    if (n->roundoff > 0 && at < cap)
        at += (size_t)snprintf(out + at, cap - at, "roundoff=%g ", n->roundoff);
    if (at < cap)
        snprintf(out + at, cap - at, "seed=%llu", (unsigned long long)n->seed);
    return out;
}

static bool is_half(infq_elem e)
{
    return e == INFQ_ELEM_NONE || e == INFQ_ELEM_BF16 || e == INFQ_ELEM_F16;
}

infq_status infq_model_set_numerics(infq_model *m, const infq_numerics *n, infq_err *err)
{
    if (!is_half(n->activations) || !is_half(n->residual) || (!is_half(n->kv) && n->kv != INFQ_ELEM_E4M3))
        return infq_err_set(err, INFQ_E_USAGE, "activations can be rounded to BF16 or F16, a cache to BF16, F16 or F8_E4M3");
    if (n->k_parts < 0 || n->k_parts > INFQ_K_PARTS_MAX)
        return infq_err_set(err, INFQ_E_USAGE, "sums in %d parts: 0 to %d are possible", (int)n->k_parts, INFQ_K_PARTS_MAX);
    if (!(n->roundoff >= 0 && n->roundoff < 0.125)) // z stays under 5 in size
        return infq_err_set(err, INFQ_E_USAGE, "a round-off of %g: 0 to 0.125 are possible", n->roundoff);
    m->rounding.n = *n;
    m->be = is_off(n) ? m->device : &m->rounding.be;
    return INFQ_E_OK;
}

const infq_numerics *infq_model_numerics(const infq_model *m)
{
    return &m->rounding.n;
}
