/* Sites: where the linear layers of a block read; and matrices by role. */
#include "lib/model/model_int.h"

static const struct {
    infq_role role;
    infq_slot slot;
    infq_site site;
} rows[] = {
    { INFQ_ROLE_Q, INFQ_SLOT_Q, INFQ_SITE_ATTN },       { INFQ_ROLE_K, INFQ_SLOT_K, INFQ_SITE_ATTN },
    { INFQ_ROLE_V, INFQ_SLOT_V, INFQ_SITE_ATTN },       { INFQ_ROLE_QKV, INFQ_SLOT_QKV, INFQ_SITE_ATTN },
    { INFQ_ROLE_O, INFQ_SLOT_O, INFQ_SITE_O },          { INFQ_ROLE_GATE, INFQ_SLOT_GATE, INFQ_SITE_MLP },
    { INFQ_ROLE_UP, INFQ_SLOT_UP, INFQ_SITE_MLP },      { INFQ_ROLE_FC, INFQ_SLOT_UP, INFQ_SITE_MLP },
    { INFQ_ROLE_DOWN, INFQ_SLOT_DOWN, INFQ_SITE_DOWN },
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

infq_site infq_site_of(infq_role r)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].role == r)
            return rows[i].site;
    return INFQ_SITE_COUNT;
}

const char *infq_site_name(infq_site s)
{
    static const char *const names[] = { "attention", "o", "mlp", "down" };

    return names[s];
}

int64_t infq_site_width(const infq_config *c, infq_site s)
{
    switch (s) {
    case INFQ_SITE_O:
        return c->n_heads * c->head_dim;
    case INFQ_SITE_DOWN:
        return c->ffn;
    default:
        return c->hidden;
    }
}

infq_status infq_model_set_weight(infq_model *m, int64_t layer, infq_role role, const infq_weight *w, infq_err *err)
{
    infq_pweight *prepared;
    infq_param *p = NULL;

    for (size_t i = 0; i < N_ROWS && !p; i++)
        if (rows[i].role == role && infq_model_param(m, layer, rows[i].slot)->w)
            p = infq_model_param(m, layer, rows[i].slot);
    if (!p)
        return infq_err_set(err, INFQ_E_NOT_FOUND, "layer %lld has no matrix of role %s", (long long)layer, infq_role_name(role));
    if (w->n_rows != p->rows || w->n_cols != p->cols)
        return infq_err_set(err, INFQ_E_FORMAT, "layer %lld, %s: %lld x %lld given for %lld x %lld", (long long)layer,
                            infq_role_name(role), (long long)w->n_rows, (long long)w->n_cols, (long long)p->rows,
                            (long long)p->cols);
    INFQ_TRY(m->be->ops.weight_prepare(m->be->state, w, &prepared, err));
    m->weight_bytes -= p->n_read;
    p->n_read = m->be->ops.weight_bytes(prepared);
    m->weight_bytes += p->n_read;
    m->be->ops.weight_free(m->be->state, p->w);
    p->w = prepared;
    return INFQ_E_OK;
}
