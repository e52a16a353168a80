#include <math.h>
#include <string.h>

#include "kernels/ref/ref_int.h"
#include "kernels/ref/round_ref.h"
#include "lib/base/mem.h"

infq_status infq_ref_rmsnorm(void *state, const infq_norm_args *a, infq_err *err)
{
    (void)state;
    (void)err;
    for (int64_t r = 0; r < a->n_rows; r++) {
        const float *x = a->x + r * a->x_stride;
        float *y = a->y + r * a->y_stride;
        double s = 0.0;

        for (int64_t c = 0; c < a->n_cols; c++)
            s += (double)x[c] * x[c];
        s = 1.0 / sqrt(s / (double)a->n_cols + (double)a->eps);
        for (int64_t c = 0; c < a->n_cols; c++)
            y[c] = (float)(x[c] * s * a->gain[c]);
    }
    return INFQ_E_OK;
}

infq_status infq_ref_layernorm(void *state, const infq_norm_args *a, infq_err *err)
{
    (void)state;
    (void)err;
    for (int64_t r = 0; r < a->n_rows; r++) {
        const float *x = a->x + r * a->x_stride;
        float *y = a->y + r * a->y_stride;
        double mean = 0.0, var = 0.0;

        for (int64_t c = 0; c < a->n_cols; c++)
            mean += x[c];
        mean /= (double)a->n_cols;
        for (int64_t c = 0; c < a->n_cols; c++)
            var += (x[c] - mean) * (x[c] - mean);
        var = 1.0 / sqrt(var / (double)a->n_cols + (double)a->eps);
        for (int64_t c = 0; c < a->n_cols; c++)
            y[c] = (float)((x[c] - mean) * var * a->gain[c] + (a->bias ? a->bias[c] : 0.0f));
    }
    return INFQ_E_OK;
}

infq_status infq_ref_rope(void *state, const infq_rope_args *a, infq_err *err)
{
    int64_t half = a->n_rot / 2;

    (void)state;
    (void)err;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *cs = a->cos_sin + (int64_t)a->positions[t] * a->n_rot;
        for (int64_t h = 0; h < a->n_heads; h++) {
            float *x = a->x + t * a->stride + h * a->head_dim;
            for (int64_t i = 0; i < half; i++) {
                double c = cs[i], s = cs[half + i], u = x[i], v = x[half + i];
                x[i] = (float)(u * c - v * s);
                x[half + i] = (float)(v * c + u * s);
            }
        }
    }
    return INFQ_E_OK;
}

/* One query row of one head; p: room for one weight a visible position. */
static void attend(const infq_attention_args *a, int64_t t, int64_t h, double *p, double *acc)
{
    int64_t kvh = h / (a->n_heads / a->n_kv_heads), D = a->head_dim, end = a->pos0 + t + 1;
    int64_t begin = a->window > 0 && end > a->window ? end - a->window : 0;
    const float *q = a->q + t * a->q_stride + h * D;
    float *y = a->y + t * a->y_stride + h * D;
    double top = -INFINITY, sum = 0.0;

    for (int64_t j = begin; j < end; j++) {
        const float *k = a->k_pages[j / INFQ_KV_PAGE] + kvh * D * INFQ_KV_PAGE + j % INFQ_KV_PAGE;
        double s = 0.0;
        for (int64_t d = 0; d < D; d++)
            s += (double)q[d] * k[d * INFQ_KV_PAGE];
        s *= a->scale;
        if (a->softcap > 0.0f)
            s = a->softcap * tanh(s / a->softcap);
        p[j - begin] = s;
        top = s > top ? s : top;
    }
    memset(acc, 0, (size_t)D * sizeof(*acc));
    for (int64_t j = begin; j < end; j++) {
        const float *v = a->v_pages[j / INFQ_KV_PAGE] + (kvh * INFQ_KV_PAGE + j % INFQ_KV_PAGE) * D;
        double e = exp(p[j - begin] - top);
        sum += e;
        for (int64_t d = 0; d < D; d++)
            acc[d] += e * v[d];
    }
    for (int64_t d = 0; d < D; d++)
        y[d] = (float)(acc[d] / sum);
}

infq_status infq_ref_attention(void *state, const infq_attention_args *a, infq_err *err)
{
    void *mem;
    double *p;

    (void)state;
    INFQ_TRY(infq_mem_new((size_t)(a->pos0 + a->n_tokens + a->head_dim), sizeof(double),
                          "attention weights", &mem, err));
    p = mem;
    for (int64_t t = 0; t < a->n_tokens; t++)
        for (int64_t h = 0; h < a->n_heads; h++)
            attend(a, t, h, p + a->head_dim, p);
    infq_mem_free(mem);
    return INFQ_E_OK;
}

infq_status infq_ref_kv_store(void *state, const infq_kv_store_args *a, infq_err *err)
{
    (void)state;
    (void)err;
    for (int64_t t = 0; t < a->n_tokens; t++)
        for (int64_t h = 0; h < a->n_kv_heads; h++) {
            int64_t pos = a->pos0 + t, slot = pos % INFQ_KV_PAGE, D = a->head_dim;
            float *head = a->pages[pos / INFQ_KV_PAGE] + h * INFQ_KV_PAGE * D;
            const float *x = a->x + t * a->x_stride + h * D;
            for (int64_t d = 0; d < D; d++)
                head[a->turned ? d * INFQ_KV_PAGE + slot : slot * D + d] = x[d];
        }
    return INFQ_E_OK;
}

static double apply(infq_fn fn, double x)
{
    switch (fn) {
    case INFQ_FN_SILU:
        return x / (1.0 + exp(-x));
    case INFQ_FN_GELU:
        return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
    case INFQ_FN_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case INFQ_FN_RELU:
        return x > 0.0 ? x : 0.0;
    }
    return x;
}

infq_status infq_ref_glu(void *state, const infq_glu_args *a, infq_err *err)
{
    (void)state;
    (void)err;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < a->n_cols; c++) {
            double g = apply(a->fn, a->gate[r * a->gate_stride + c]);
            a->y[r * a->y_stride + c] = (float)(a->up ? g * a->up[r * a->up_stride + c] : g);
        }
    return INFQ_E_OK;
}

infq_status infq_ref_add(void *state, const infq_add_args *a, infq_err *err)
{
    (void)state;
    (void)err;
    for (int64_t i = 0; i < a->n; i++)
        a->y[i] += a->x[i];
    return INFQ_E_OK;
}

infq_status infq_ref_round(void *state, const infq_round_args *a, infq_err *err)
{
    (void)state;
    (void)err;
    for (int64_t r = 0; r < a->n_rows; r++)
        infq_round_row(a, a->x + r * a->stride);
    return INFQ_E_OK;
}
