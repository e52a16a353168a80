/* What pruning asks of a plan. */
#include "lib/base/mem.h"
#include "lib/compress/plan_int.h"

#define SAMPLE_ROWS 16       /* rows of each matrix that are looked at for zeros */
#define PRUNED_ALREADY 0.1   /* share of zeros that no trained matrix has by chance */

const infq_sparsity *infq_plan_entry_sparsity(const infq_plan *p, const infq_plan_entry *e)
{
    return e->fate == INFQ_FATE_QUANTIZE && p->o.sparsity.fraction > 0.0 ? &p->o.sparsity : NULL;
}

bool infq_plan_is_dense(const infq_plan *p)
{
    return p->o.scheme == &infq_scheme_dense;
}

bool infq_plan_updates(const infq_plan *p)
{
    return !infq_plan_is_dense(p) || (p->o.method->needs & INFQ_NEEDS_MOMENT) != 0;
}

infq_status infq_plan_sparsity_text(infq_plan *p, infq_err *err)
{
    infq_buf text;
    infq_jw w;
    infq_status st;

    if (p->o.sparsity.fraction == 0.0 || !infq_checkpoint_is_bare(p->ck))
        return INFQ_E_OK;
    infq_buf_init(&text);
    w = infq_jw_over(&text, 0);
    infq_jw_obj(&w);
    infq_jw_key(&w, "sparsity");
    infq_sparsity_json(&p->o.sparsity, infq_plan_updates(p), &w);
    infq_jw_key(&w, "matrices");
    infq_jw_arr(&w);
    for (size_t i = 0; i < p->n; i++)
        if (infq_plan_entry_sparsity(p, &p->v[i]))
            infq_jw_str(&w, p->v[i].tensor->name);
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    st = infq_buf_status(&text, err);
    p->sparsity_text = st ? NULL : infq_buf_take(&text);
    if (!st && !p->sparsity_text)
        st = infq_err_set(err, INFQ_E_NOMEM, "sparsity");
    infq_buf_deinit(&text);
    return st;
}

infq_status infq_plan_sparsity(const infq_plan *p, infq_err *err)
{
    const infq_sparsity *s = &p->o.sparsity;
    bool prunes = infq_prune_method_find(p->o.method->name) == p->o.method;

    if (prunes != (infq_plan_is_dense(p)))
        return infq_err_set(err, INFQ_E_USAGE, "method %s does not go with scheme %s", p->o.method->name, p->o.scheme->name);
    if (!prunes && s->fraction == 0.0)
        return INFQ_E_OK;
    if (!(s->fraction > 0.0 && s->fraction < 1.0))
        return infq_err_set(err, INFQ_E_USAGE, "sparsity %g: a share of zeros between 0 and 1 is wanted", s->fraction);
    if (!prunes && !(p->o.method->needs & INFQ_NEEDS_MOMENT))
        return infq_err_set(err, INFQ_E_USAGE, "method %s does not prune: sparse and quantized in one pass is method gptq", p->o.method->name);
    if (s->whole && (s->m || (p->o.method->needs & INFQ_NEEDS_MOMENT)))
        return infq_err_set(err, INFQ_E_USAGE, "comparing the whole matrix does not go with %s", s->m ? "a pattern" : p->o.method->name);
    return INFQ_E_OK;
}

static infq_status check_shape(const infq_plan *p, const infq_plan_entry *e, infq_err *err)
{
    const infq_sparsity *s = &p->o.sparsity;
    int64_t cols = e->tensor->shape[1];

    if (s->m && cols % s->m)
        return infq_err_set(err, INFQ_E_USAGE, "pattern %d:%d does not divide the rows of %.60s (%lld); keep it with --ignore", (int)s->n, (int)s->m,
                            e->module->name, (long long)cols);
    if (infq_prune_count(s, cols) < 1 || infq_prune_count(s, cols) >= cols)
        return infq_err_set(err, INFQ_E_USAGE, "sparsity %g leaves %s of the %lld columns of %.60s", s->fraction,
                            infq_prune_count(s, cols) < 1 ? "all" : "none", (long long)cols, e->module->name);
    if (e->tensor->dtype == INFQ_DTYPE_F64)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: dtype F64 is worked on in single floats, so kept weights would change; infq convert first",
                            e->tensor->name);
    return INFQ_E_OK;
}

// Zeros among some rows, evenly spread.
static infq_status count_zeros(const infq_plan *p, const infq_plan_entry *e, float *x, int64_t *zeros, int64_t *seen, infq_err *err)
{
    int64_t rows = e->tensor->shape[0], cols = e->tensor->shape[1], n = rows < SAMPLE_ROWS ? rows : SAMPLE_ROWS;
    uint64_t row_bytes = e->tensor->n_bytes / (uint64_t)rows;
    const uint8_t *src = infq_checkpoint_data(p->ck, e->tensor);

    *zeros = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)(i * rows / n) * row_bytes;
        INFQ_TRY(infq_convert_to_f32(e->tensor->dtype, src + at, cols, x, err));
        for (int64_t c = 0; c < cols; c++)
            *zeros += x[c] == 0.0f;
        infq_checkpoint_drop(p->ck, e->tensor, at, at + row_bytes);
    }
    *seen = n * cols;
    return INFQ_E_OK;
}

static infq_status refuse_pruned(const infq_plan *p, float *x, infq_err *err)
{
    int64_t all_zeros = 0, all_seen = 0, zeros, seen, n = 0;
    const infq_plan_entry *first = NULL;
    double worst = 0.0;

    for (size_t i = 0; i < p->n; i++) {
        const infq_plan_entry *e = &p->v[i];
        if (e->fate != INFQ_FATE_QUANTIZE)
            continue;
        INFQ_TRY(count_zeros(p, e, x, &zeros, &seen, err));
        all_zeros += zeros;
        all_seen += seen;
        if ((double)zeros < PRUNED_ALREADY * (double)seen)
            continue;
        if (!n++) {
            first = e;
            worst = (double)zeros / (double)seen;
        }
    }
    // One matrix of zeros is no pruned model: a share of all of them is.
    if ((double)all_zeros < PRUNED_ALREADY * (double)all_seen)
        return INFQ_E_OK;
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "%.50s: %.1f %% of its weights are zero already (%lld matrices like it), so the model was pruned "
                        "before; --force-pruned prunes it again", first->module->name, 100.0 * worst, (long long)n);
}

infq_status infq_plan_prunable(const infq_plan *p, infq_err *err)
{
    int64_t widest = 1;
    infq_status st;
    void *x;

    if (p->o.sparsity.fraction == 0.0)
        return INFQ_E_OK;
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].fate == INFQ_FATE_QUANTIZE) {
            INFQ_TRY(check_shape(p, &p->v[i], err));
            widest = p->v[i].tensor->shape[1] > widest ? p->v[i].tensor->shape[1] : widest;
        }
    if (p->o.force_pruned)
        return INFQ_E_OK;
    INFQ_TRY(infq_mem_new((size_t)widest, sizeof(float), "a row", &x, err));
    st = refuse_pruned(p, x, err);
    infq_mem_free(x);
    return st;
}
