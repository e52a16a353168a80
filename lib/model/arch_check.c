/* Stored tensors against the configuration. Only plainly stored tensors are looked at here; packed ones are checked when
 * the model is opened, after their reader has told their logical shape. */
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/model/arch_int.h"

#define NAME_CAP 320

static infq_status shape_error(const infq_ck_tensor *t, const infq_config *c, infq_slot s, int64_t want0, int64_t want1,
                               infq_err *err)
{
    char found[96] = "", want[64], why[96] = "";
    size_t n = 0;

    for (int i = 0; i < t->n_dims && n < sizeof(found); i++)
        n += (size_t)snprintf(found + n, sizeof(found) - n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (want1 > 0)
        snprintf(want, sizeof(want), "%lld, %lld", (long long)want0, (long long)want1);
    else
        snprintf(want, sizeof(want), "%lld", (long long)want0);
    if (s == INFQ_SLOT_Q || s == INFQ_SLOT_O || s == INFQ_SLOT_K || s == INFQ_SLOT_V)
        snprintf(why, sizeof(why), " (%lld heads, %lld key/value heads, head_dim %lld)", (long long)c->n_heads,
                 (long long)c->n_kv_heads, (long long)c->head_dim);
    return infq_err_set(err, INFQ_E_FORMAT, "%s: shape [%s], config.json asks for [%s]%s", t->name, found, want, why);
}

// A bias or vector of n elements, when it is there.
static infq_status check_vector(const infq_ck_tensor *t, const infq_config *c, infq_slot s, int64_t n, infq_err *err)
{
    if (t && (t->n_dims != 1 || t->shape[0] != n))
        return shape_error(t, c, s, n, 0, err);
    return INFQ_E_OK;
}

static infq_status check_slot(const infq_checkpoint *ck, const infq_config *c, infq_slot s, int64_t layer, infq_err *err)
{
    char base[NAME_CAP - 16], name[NAME_CAP];
    const infq_ck_tensor *t;
    infq_slot_shape sh;
    int64_t want0, want1;

    if (!infq_arch_slot(c, s, &sh))
        return INFQ_E_OK;
    infq_arch_name(c, s, layer, base, sizeof(base));
    if (sh.bias) {
        snprintf(name, sizeof(name), "%s.bias", base);
        INFQ_TRY(check_vector(infq_checkpoint_find(ck, name), c, s, sh.rows, err));
    }
    snprintf(name, sizeof(name), "%s.weight", base);
    t = infq_checkpoint_find(ck, name);
    if (sh.vector)
        return check_vector(t, c, s, sh.rows, err);
    // U8 holds two elements a byte in some formats: its reader knows.
    if (!t || !(infq_dtype_is_float(t->dtype) || t->dtype == INFQ_DTYPE_I8))
        return INFQ_E_OK;
    want0 = sh.conv1d ? sh.cols : sh.rows;
    want1 = sh.conv1d ? sh.rows : sh.cols;
    if (t->n_dims != 2 || t->shape[0] != want0 || t->shape[1] != want1)
        return shape_error(t, c, s, want0, want1, err);
    return INFQ_E_OK;
}

// Equal values, whatever their float types.
static infq_status same_values(const infq_checkpoint *ck, const infq_ck_tensor *a, const infq_ck_tensor *b, bool *same,
                               infq_err *err)
{
    const char *pa = infq_checkpoint_data(ck, a), *pb = infq_checkpoint_data(ck, b);
    float xa[256], xb[256];
    size_t size_a, size_b;

    *same = false;
    if (a->n_elems != b->n_elems)
        return INFQ_E_OK;
    if (a->dtype == b->dtype) {
        *same = memcmp(pa, pb, (size_t)a->n_bytes) == 0;
        return INFQ_E_OK;
    }
    size_a = (size_t)infq_dtype_bits(a->dtype) / 8;
    size_b = (size_t)infq_dtype_bits(b->dtype) / 8;
    for (int64_t i = 0; i < a->n_elems; i += 256) {
        int64_t n = a->n_elems - i < 256 ? a->n_elems - i : 256;
        INFQ_TRY(infq_dtype_to_f32(a->dtype, pa + (size_t)i * size_a, n, xa, err));
        INFQ_TRY(infq_dtype_to_f32(b->dtype, pb + (size_t)i * size_b, n, xb, err));
        if (memcmp(xa, xb, (size_t)n * sizeof(float)) != 0)
            return INFQ_E_OK;
    }
    *same = true;
    return INFQ_E_OK;
}

// A stored head beside tied embeddings must be the same matrix; without ties there must be one (case B40).
static infq_status check_head(const infq_checkpoint *ck, const infq_config *c, infq_err *err)
{
    char embed[NAME_CAP], prefix[NAME_CAP];
    const infq_ck_tensor *head = NULL, *table;
    bool same;

    snprintf(prefix, sizeof(prefix), "%s.", c->arch->names[INFQ_SLOT_HEAD]);
    for (size_t i = 0; i < infq_checkpoint_count(ck); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(ck, i);
        if (!infq_str_starts(t->name, prefix) || infq_str_ends(t->name, ".bias"))
            continue;
        head = t;
        if (c->tied && !(infq_str_ends(t->name, ".weight") && infq_dtype_is_float(t->dtype)))
            return infq_err_set(err, INFQ_E_FORMAT, "%s is a head of its own, but tie_word_embeddings is true", t->name);
    }
    if (!head && !c->tied)
        return infq_err_set(err, INFQ_E_FORMAT, "%sweight is missing and tie_word_embeddings is false", prefix);
    if (!head || !c->tied)
        return INFQ_E_OK;
    infq_arch_name(c, INFQ_SLOT_EMBED, 0, embed, sizeof(embed) - 8);
    strcat(embed, ".weight");
    table = infq_checkpoint_find(ck, embed);
    if (!table || !infq_dtype_is_float(table->dtype))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is stored, %s is not, but tie_word_embeddings is true", head->name,
                            embed);
    INFQ_TRY(same_values(ck, head, table, &same, err));
    if (!same)
        return infq_err_set(err, INFQ_E_FORMAT, "%s differs from %s, but tie_word_embeddings is true", head->name, embed);
    return INFQ_E_OK;
}

infq_status infq_arch_check(const infq_checkpoint *ck, const infq_config *c, infq_err *err)
{
    char name[NAME_CAP];

    for (int s = 0; s < INFQ_SLOT_BLOCK; s++)
        INFQ_TRY(check_slot(ck, c, (infq_slot)s, 0, err));
    for (int64_t l = 0; l < c->n_layers; l++)
        for (int s = INFQ_SLOT_BLOCK; s < INFQ_SLOT_COUNT; s++)
            INFQ_TRY(check_slot(ck, c, (infq_slot)s, l, err));
    infq_arch_name(c, INFQ_SLOT_ATTN_NORM, c->n_layers, name, sizeof(name) - 8);
    strcat(name, ".weight");
    if (infq_checkpoint_find(ck, name))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is stored, but config.json has only %lld layers", name,
                            (long long)c->n_layers);
    return check_head(ck, c, err);
}
