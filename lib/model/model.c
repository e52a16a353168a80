#include "lib/model/model.h"

#include <stdio.h>
#include <string.h>

#include "lib/model/model_int.h"

#define NAME_CAP 320

infq_model_options infq_model_options_default(void)
{
    return (infq_model_options){ .max_context = 0 };
}

infq_param *infq_model_param(const infq_model *m, int64_t layer, infq_slot s)
{
    return &m->params[layer * INFQ_SLOT_COUNT + s];
}

infq_status infq_model_device(infq_model *m, void **p, int64_t n, size_t n_each, const char *what, infq_err *err)
{
    size_t n_bytes;

    if (!infq_mul_size((size_t)n, n_each, &n_bytes))
        return infq_err_set(err, INFQ_E_NOMEM, "%s is too large", what);
    m->be->ops.free(m->be->state, *p);
    *p = NULL;
    return m->be->ops.alloc(m->be->state, n_bytes, p, err);
}

// What the files hold for one slot, read and checked before anything is prepared.
typedef struct {
    infq_weight w;
    float *gain, *bias;
} loaded;

// Columns become rows: Conv1D matrices are stored [in, out].
static infq_status transpose(infq_arena *a, const char *name, infq_weight *w, infq_err *err)
{
    int64_t rows = w->n_rows, cols = w->n_cols;
    size_t size = (size_t)infq_elem_bits(w->codec.elem) / 8;
    const uint8_t *src = w->codes.data;
    void *p;
    uint8_t *dst;

    if (!infq_elem_is_float(w->codec.elem) || w->codec.scale != INFQ_ELEM_NONE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: a quantized matrix stored [in, out] cannot be run", name);
    INFQ_TRY(infq_arena_alloc(a, (size_t)rows * (size_t)cols, size, name, &p, err));
    dst = p;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            memcpy(dst + (size_t)(c * rows + r) * size, src + (size_t)r * w->codes.row_bytes + (size_t)c * size, size);
    w->n_rows = cols;
    w->n_cols = rows;
    w->codes = (infq_view){ dst, (size_t)rows * size };
    return INFQ_E_OK;
}

static infq_status missing(infq_err *err)
{
    if (err->code != INFQ_E_NOT_FOUND)
        return err->code;
    err->code = INFQ_E_FORMAT;
    return infq_err_in(err, "config.json asks for it");
}

static infq_status load_vector(infq_model *m, const infq_reader *r, const char *name, int64_t want, float **out,
                               infq_err *err)
{
    int64_t n;

    if (infq_reader_vector(r, name, m->arena, out, &n, err))
        return missing(err);
    if (n != want)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %lld elements, config.json asks for %lld", name, (long long)n,
                            (long long)want);
    return INFQ_E_OK;
}

// A bias that the configuration does not know: GPTQ writers store zeros for every layer, anything else is a contradiction.
static infq_status refuse_bias(infq_model *m, const infq_checkpoint *ck, const infq_reader *r, const char *name,
                               infq_err *err)
{
    const infq_ck_tensor *t = infq_checkpoint_find(ck, name);
    float *x;
    int64_t n;

    if (!t)
        return INFQ_E_OK;
    INFQ_TRY(infq_reader_vector(r, name, m->arena, &x, &n, err));
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0.0f)
            return infq_err_set(err, INFQ_E_FORMAT, "%s is stored and not zero, but config.json asks for no bias here",
                                name);
    return INFQ_E_OK;
}

static infq_status load_matrix(infq_model *m, const infq_reader *r, infq_slot s, const infq_slot_shape *sh,
                               const char *module, infq_weight *w, infq_err *err)
{
    infq_op op = s == INFQ_SLOT_EMBED || s == INFQ_SLOT_POSITIONS ? INFQ_OP_EMBED : INFQ_OP_MATMUL;
    bool both = s == INFQ_SLOT_EMBED && m->c.tied;
    char text[64];

    if (infq_reader_read(r, module, m->arena, w, err))
        return missing(err);
    if (sh->conv1d)
        INFQ_TRY(transpose(m->arena, module, w, err));
    if (w->n_rows != sh->rows || w->n_cols != sh->cols)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %lld x %lld stored, config.json asks for %lld x %lld", module,
                            (long long)w->n_rows, (long long)w->n_cols, (long long)sh->rows, (long long)sh->cols);
    if (!m->be->ops.supports(m->be->state, op, &w->codec, w->n_rows, w->n_cols) ||
        (both && !m->be->ops.supports(m->be->state, INFQ_OP_MATMUL, &w->codec, w->n_rows, w->n_cols)))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: backend %s cannot run %s", module, m->be->ops.name,
                            infq_codec_describe(&w->codec, text, sizeof(text)));
    return INFQ_E_OK;
}

static infq_status load_slot(infq_model *m, const infq_checkpoint *ck, const infq_reader *r, infq_slot s, int64_t layer,
                             loaded *out, infq_err *err)
{
    char module[NAME_CAP - 16], name[NAME_CAP];
    infq_slot_shape sh;

    if (!infq_arch_slot(&m->c, s, &sh))
        return INFQ_E_OK;
    infq_arch_name(&m->c, s, layer, module, sizeof(module));
    if (sh.vector) {
        snprintf(name, sizeof(name), "%s.weight", module);
        INFQ_TRY(load_vector(m, r, name, sh.rows, &out->gain, err));
    } else {
        INFQ_TRY(load_matrix(m, r, s, &sh, module, &out->w, err));
    }
    snprintf(name, sizeof(name), "%s.bias", module);
    if (sh.bias)
        return load_vector(m, r, name, sh.rows, &out->bias, err);
    return refuse_bias(m, ck, r, name, err);
}

static infq_status upload(infq_model *m, const float *x, int64_t n, float **out, infq_err *err)
{
    void *p = NULL;

    if (!x)
        return INFQ_E_OK;
    INFQ_TRY(infq_model_device(m, &p, n, sizeof(float), "a vector", err));
    *out = p;
    return m->be->ops.upload(m->be->state, p, x, (size_t)n * sizeof(float), err);
}

static infq_status prepare(infq_model *m, infq_slot s, const loaded *l, infq_param *p, infq_err *err)
{
    infq_slot_shape sh;
    bool reads_all; // a lookup reads single rows

    if (!infq_arch_slot(&m->c, s, &sh))
        return INFQ_E_OK;
    p->rows = sh.rows;
    p->cols = sh.cols;
    INFQ_TRY(upload(m, l->gain, sh.rows, &p->gain, err));
    INFQ_TRY(upload(m, l->bias, sh.rows, &p->bias, err));
    if (sh.vector)
        return INFQ_E_OK;
    INFQ_TRY(m->be->ops.weight_prepare(m->be->state, &l->w, &p->w, err));
    reads_all = s != INFQ_SLOT_POSITIONS && (s != INFQ_SLOT_EMBED || m->c.tied);
    if (reads_all) {
        p->n_read = m->be->ops.weight_bytes(p->w);
        m->weight_bytes += p->n_read;
        *(s == INFQ_SLOT_EMBED || s == INFQ_SLOT_HEAD ? &m->flop_per_logits : &m->flop_per_token) +=
            2.0 * (double)sh.rows * (double)sh.cols;
    }
    return INFQ_E_OK;
}

static infq_status load_all(infq_model *m, const infq_checkpoint *ck, const infq_reader *r, loaded *l, infq_err *err)
{
    for (int64_t layer = 0; layer <= m->c.n_layers; layer++)
        for (int s = 0; s < INFQ_SLOT_COUNT; s++)
            if ((layer == m->c.n_layers) == (s < INFQ_SLOT_BLOCK))
                INFQ_TRY(load_slot(m, ck, r, (infq_slot)s, layer, &l[layer * INFQ_SLOT_COUNT + s], err));
    for (int64_t layer = 0; layer <= m->c.n_layers; layer++)
        for (int s = 0; s < INFQ_SLOT_COUNT; s++)
            if ((layer == m->c.n_layers) == (s < INFQ_SLOT_BLOCK) &&
                prepare(m, (infq_slot)s, &l[layer * INFQ_SLOT_COUNT + s], infq_model_param(m, layer, (infq_slot)s), err)) {
                char name[NAME_CAP];
                return infq_err_in(err, "%s", infq_arch_name(&m->c, (infq_slot)s, layer, name, sizeof(name)));
            }
    return INFQ_E_OK;
}

static int64_t widest_input(const infq_config *c)
{
    int64_t q = c->n_heads * c->head_dim, n = c->hidden > q ? c->hidden : q;

    return n > c->ffn ? n : c->ffn;
}

static infq_status list_parts(infq_model *m, infq_err *err)
{
    infq_slot_shape sh;
    void *p;

    INFQ_TRY(infq_arena_alloc(m->arena, (size_t)(m->c.n_layers + 1) * INFQ_SLOT_COUNT, sizeof(*m->parts), "parts", &p, err));
    m->parts = p;
    for (int64_t layer = 0; layer <= m->c.n_layers; layer++)
        for (int s = 0; s < INFQ_SLOT_COUNT; s++) {
            if ((layer == m->c.n_layers) != (s < INFQ_SLOT_BLOCK) || !infq_arch_slot(&m->c, (infq_slot)s, &sh))
                continue;
            infq_model_param(m, layer, (infq_slot)s)->part = m->n_parts;
            m->parts[m->n_parts++] = (int32_t)(layer * INFQ_SLOT_COUNT + s);
        }
    return INFQ_E_OK;
}

static infq_status fill(infq_model *m, const infq_checkpoint *ck, const infq_model_options *o, infq_err *err)
{
    size_t n;
    infq_reader *r = NULL;
    void *p, *l = NULL;
    infq_status st;

    INFQ_TRY(infq_config_read(ck, &m->c, err));
    infq_rounding_init(&m->rounding, m->device, m->c.hidden);
    m->max_context = o->max_context ? o->max_context : m->c.max_positions;
    if (m->max_context < 1 || m->max_context > INT32_MAX)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "a context of %lld positions is out of range",
                            (long long)m->max_context);
    if (m->c.rope.type == INFQ_ROPE_NONE && m->max_context > m->c.max_positions)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the model has learned positions for %lld tokens, not for %lld",
                            (long long)m->c.max_positions, (long long)m->max_context);
    n = (size_t)(m->c.n_layers + 1) * INFQ_SLOT_COUNT;
    INFQ_TRY(infq_arena_new((size_t)1 << 16, &m->arena, err));
    INFQ_TRY(infq_arena_calloc(m->arena, n, sizeof(infq_param), "layers", &p, err));
    m->params = p;
    INFQ_TRY(infq_mem_new((size_t)INFQ_CHUNK * (size_t)widest_input(&m->c), sizeof(float), "rows for a stage", &p, err));
    m->host_x = p;
    INFQ_TRY(list_parts(m, err));
    INFQ_TRY(infq_reader_open(ck, &r, err));
    l = infq_mem_calloc(n, sizeof(loaded));
    st = l ? load_all(m, ck, r, l, err) : infq_err_set(err, INFQ_E_NOMEM, "a list of weights needs memory");
    infq_mem_free(l);
    infq_reader_close(r);
    return st;
}

infq_status infq_model_open(const infq_checkpoint *ck, infq_backend *be, const infq_model_options *o, infq_model **out,
                            infq_err *err)
{
    infq_model *m = infq_mem_calloc(1, sizeof(*m));
    infq_status st;

    if (!m)
        return infq_err_set(err, INFQ_E_NOMEM, "a model needs memory");
    m->be = m->device = be;
    st = fill(m, ck, o, err);
    if (st) {
        infq_model_close(m);
        return st;
    }
    *out = m;
    return INFQ_E_OK;
}

void infq_model_close(infq_model *m)
{
    const infq_backend_ops *ops;
    void *state;

    if (!m)
        return;
    ops = &m->be->ops;
    state = m->be->state;
    for (int64_t i = 0; m->params && i < (m->c.n_layers + 1) * INFQ_SLOT_COUNT; i++) {
        if (m->params[i].w)
            ops->weight_free(state, m->params[i].w);
        ops->free(state, m->params[i].gain);
        ops->free(state, m->params[i].bias);
    }
    infq_page_pool_end(m, &m->pages);
    infq_page_pool_end(m, &m->layer_pages);
    infq_mem_free(m->host_page);
    ops->free(state, m->work.x);
    ops->free(state, m->work.h);
    ops->free(state, m->work.qkv);
    ops->free(state, m->work.att);
    ops->free(state, m->work.gate);
    ops->free(state, m->work.up);
    ops->free(state, m->work.ids);
    ops->free(state, m->work.positions);
    ops->free(state, m->work.rows);
    ops->free(state, m->work.logits);
    ops->free(state, m->cos_sin);
    infq_mem_free(m->host_x);
    infq_arena_free(m->arena);
    infq_mem_free(m);
}

const infq_config *infq_model_config(const infq_model *m)
{
    return &m->c;
}

size_t infq_model_weight_bytes(const infq_model *m)
{
    return m->weight_bytes;
}

double infq_model_flop(const infq_model *m, int64_t n_tokens, int64_t n_logits)
{
    return m->flop_per_token * (double)n_tokens + m->flop_per_logits * (double)n_logits;
}

int64_t infq_model_part_count(const infq_model *m)
{
    return m->n_parts;
}

infq_model_part infq_model_part_get(const infq_model *m, int64_t i)
{
    int64_t at = m->parts[i], layer = at / INFQ_SLOT_COUNT;
    const infq_param *p = &m->params[at];
    infq_slot s = (infq_slot)(at % INFQ_SLOT_COUNT);
    bool front = s == INFQ_SLOT_EMBED || s == INFQ_SLOT_POSITIONS;
    infq_model_part out = { .layer = front ? -1 : layer, .rows = p->rows, .cols = p->cols };
    infq_slot_shape sh;

    out.conv1d = infq_arch_slot(&m->c, s, &sh) && sh.conv1d;
    infq_arch_name(&m->c, s, layer, out.module, sizeof(out.module));
    return out;
}

infq_status infq_model_same_parts(const infq_model *a, const infq_model *b, infq_err *err)
{
    if (a->device != b->device)
        return infq_err_set(err, INFQ_E_USAGE, "the models were opened on two devices");
    for (int64_t i = 0; i < a->n_parts || i < b->n_parts; i++) {
        infq_model_part p = infq_model_part_get(a, i < a->n_parts ? i : 0), q = infq_model_part_get(b, i < b->n_parts ? i : 0);
        if (i >= a->n_parts || i >= b->n_parts || strcmp(p.module, q.module) != 0)
            return infq_err_set(err, INFQ_E_MISMATCH, "one model has %.80s where the other has %.80s", i < a->n_parts ? p.module : "nothing",
                                i < b->n_parts ? q.module : "nothing");
        if (p.rows != q.rows || p.cols != q.cols)
            return infq_err_set(err, INFQ_E_MISMATCH, "%s: %lld x %lld in one model, %lld x %lld in the other", p.module, (long long)p.rows,
                                (long long)p.cols, (long long)q.rows, (long long)q.cols);
    }
    return INFQ_E_OK;
}

void infq_model_swap(infq_model *a, infq_model *b, int64_t i)
{
    infq_param *p = &a->params[a->parts[i]], *q = &b->params[b->parts[i]], t = *p;

    a->weight_bytes += q->n_read - p->n_read;
    b->weight_bytes += p->n_read - q->n_read;
    *p = *q;
    *q = t;
}
