/* The table of operations that a device offers. CPU, reference and (later) CUDA fill in the same table; callers ask
 * supports(), not who it is. All pointers in argument structs are device pointers got from alloc (on CPUs: host
 * memory). Activations are F32. Every op takes one argument struct and no globals. Members marked "optional" may be
 * NULL: infq_backend_open then puts in the one of kernels/ref.
 *
 * Batch invariance: with `invariant` set, every output row of an op is bitwise a function of its own input row and the
 * weights: not of the number of rows, their order, or the number of threads. Evaluation always sets it. */
#ifndef INFQ_BACKEND_BACKEND_H
#define INFQ_BACKEND_BACKEND_H

#include "lib/tensor/weight.h"

#define INFQ_BACKEND_ABI 1

typedef struct infq_backend infq_backend;   /* an open device */
typedef struct infq_pweight infq_pweight;   /* a weight prepared (repacked) for its device */

typedef enum {
    INFQ_OP_MATMUL, INFQ_OP_EMBED, INFQ_OP_RMSNORM, INFQ_OP_LAYERNORM, INFQ_OP_ROPE, INFQ_OP_ATTENTION,
    INFQ_OP_GLU, INFQ_OP_ACT, INFQ_OP_ADD
} infq_op;

typedef enum { INFQ_FN_SILU, INFQ_FN_GELU, INFQ_FN_GELU_TANH, INFQ_FN_RELU } infq_fn;

#define INFQ_K_PARTS_MAX 16

/* y[t][n] = sum_k x'[t][k] * w[n][k] + bias[n], x' = x after the codec's activation quantization.
 * x: [n_tokens][w.n_cols], y: [n_tokens][w.n_rows], rows tight; bias [n_rows] or NULL.
 * k_parts > 1 (needs invariant): another order of the same sum, as kernels choose by shape: k is cut into k_parts equal
 * runs, each summed by itself, and the partial sums are added in an order drawn from k_seed. Products with exact integer
 * sums have no order. */
typedef struct {
    const infq_pweight *w;
    const float *x;
    const float *bias;
    float *y;
    int64_t n_tokens;
    bool invariant;
    int32_t k_parts; /* 0 and 1: one chain; at most INFQ_K_PARTS_MAX */
    uint64_t k_seed;
} infq_matmul_args;

/* y[t] = row ids[t] of w, decoded. 0 <= id < n_rows is the caller's duty. */
typedef struct {
    const infq_pweight *w;
    const int32_t *ids;
    float *y;
    int64_t n_tokens;
} infq_embed_args;

/* RMS: y = x * rsqrt(mean(x^2) + eps) * gain. Layer norm: y = (x - mean) * rsqrt(var + eps) * gain + bias. n_rows rows
 * of n_cols; strides in floats (so that heads inside rows can be normalised in place); y may be x. */
typedef struct {
    const float *x, *gain, *bias; /* bias: layer norm only, may be NULL */
    float *y;
    int64_t n_rows, n_cols, x_stride, y_stride;
    float eps;
} infq_norm_args;

/* In place on x: [n_tokens][n_heads * head_dim], row stride in floats. Half-split pairing inside the first n_rot
 * elements of a head. cos_sin: [n_positions][n_rot] (cos then sin, n_rot/2 each), already scaled. */
typedef struct {
    float *x;
    int64_t n_tokens, n_heads, head_dim, stride, n_rot;
    const int32_t *positions;  /* [n_tokens] */
    const float *cos_sin;
} infq_rope_args;

#define INFQ_KV_PAGE 64 /* positions a page */

/* Causal attention of one sequence's new tokens over its paged cache. k_pages[p]: page p of this layer,
 * [n_kv_heads][head_dim][INFQ_KV_PAGE] F32 (turned: a product with one query reads whole vectors of positions);
 * v_pages[p]: [n_kv_heads][INFQ_KV_PAGE][head_dim]. New keys and values are already stored. Query i sits at position pos0 + i
 * and sees positions max(0, pos0 + i - window + 1) .. pos0 + i (window 0: all). q, y: [n_tokens][n_heads * head_dim].
 * Head h reads kv head h / (n_heads / n_kv_heads). */
typedef struct {
    const float *q;
    float *y;
    const float *const *k_pages, *const *v_pages;
    int64_t n_tokens, pos0, n_heads, n_kv_heads, head_dim, q_stride, y_stride, window;
    float scale;       /* of q . k */
    float softcap;     /* 0: none; s -> c tanh(s/c) before the mask */
} infq_attention_args;

/* Stores keys (turned) or values (not) of new tokens: x [n_tokens][n_kv_heads * head_dim] at positions pos0.. into pages. */
typedef struct {
    const float *x;
    float *const *pages;
    int64_t n_tokens, pos0, n_kv_heads, head_dim, x_stride;
    bool turned;
} infq_kv_store_args;

/* GLU: y = fn(gate) * up. ACT: y = fn(x) (up NULL). Rows of n_cols, strides in floats. */
typedef struct {
    const float *gate, *up;
    float *y;
    int64_t n_rows, n_cols, gate_stride, up_stride, y_stride;
    infq_fn fn;
} infq_glu_args;

/* y += x, n elements. */
typedef struct {
    const float *x;
    float *y;
    int64_t n;
} infq_add_args;

/* In place on n_rows rows of n_cols, row stride in floats: x <- round(x * (1 + eps * z)). z is close to standard normal (the
 * standardised sum of eight uniform bytes) and a function of seed, column and the bits of x alone, so that a row's result
 * does not depend on the rest of the batch. eps 0: no noise. to: BF16, F16 (nearest, ties to even) or E4M3 (the same,
 * clamped to 448); NONE: not rounded. */
typedef struct {
    float *x;
    int64_t n_rows, n_cols, stride;
    infq_elem to;
    float eps;
    uint64_t seed;
} infq_round_args;

typedef struct {
    uint32_t abi_version, struct_size;
    const char *name;          /* "cpu", "ref" */

    infq_status (*open)(const char *device, void **state, infq_err *err);
    void (*close)(void *state);
    infq_status (*alloc)(void *state, size_t n_bytes, void **out, infq_err *err);
    void (*free)(void *state, void *p);
    infq_status (*upload)(void *state, void *dst, const void *src, size_t n_bytes, infq_err *err);
    infq_status (*download)(void *state, void *dst, const void *src, size_t n_bytes, infq_err *err);

    bool (*supports)(void *state, infq_op op, const infq_codec *c, int64_t n_rows, int64_t n_cols);
    /* Repacks once. The views of w may be borrowed for the life of the result (mapped files). */
    infq_status (*weight_prepare)(void *state, const infq_weight *w, infq_pweight **out, infq_err *err);
    void (*weight_free)(void *state, infq_pweight *w);
    size_t (*weight_bytes)(const infq_pweight *w); /* read by one product with few rows */
    void (*weight_shape)(const infq_pweight *w, int64_t *n_rows, int64_t *n_cols);

    /* n products that do not depend on each other. Those next to each other with the same x (q, k, v; gate, up) may run
     * as one; the result is that of n calls. */
    infq_status (*matmul)(void *state, const infq_matmul_args *a, int64_t n, infq_err *err);
    infq_status (*embed)(void *state, const infq_embed_args *a, infq_err *err);
    infq_status (*rmsnorm)(void *state, const infq_norm_args *a, infq_err *err);      /* optional from here on */
    infq_status (*layernorm)(void *state, const infq_norm_args *a, infq_err *err);
    infq_status (*rope)(void *state, const infq_rope_args *a, infq_err *err);
    infq_status (*attention)(void *state, const infq_attention_args *a, infq_err *err);
    infq_status (*kv_store)(void *state, const infq_kv_store_args *a, infq_err *err);
    infq_status (*glu)(void *state, const infq_glu_args *a, infq_err *err);
    infq_status (*add)(void *state, const infq_add_args *a, infq_err *err);
    infq_status (*round)(void *state, const infq_round_args *a, infq_err *err);
} infq_backend_ops;

/* Order in which the partial sums of k_parts runs are added: a permutation of 0 .. n - 1. */
void infq_k_order(uint64_t k_seed, int32_t n, int32_t order[INFQ_K_PARTS_MAX]);

struct infq_backend {
    infq_backend_ops ops;      /* complete: no member is NULL */
    void *state;
};

/* "auto" (cpu today), "cpu", "ref", "cuda". DEVICE with the reason when it cannot be had. */
infq_status infq_backend_open(const char *name, infq_backend **out, infq_err *err);
void infq_backend_close(infq_backend *b);

/* Filled by kernels/; lib/backend/registry.c lists them. */
extern const infq_backend_ops infq_backend_ref;
extern const infq_backend_ops infq_backend_cpu;

#endif
