#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/format/formats_int.h"

infq_status infq_dense_read(const infq_checkpoint *ck, const char *module, infq_weight *out, infq_err *err)
{
    char name[512];
    const infq_ck_tensor *t;
    infq_elem elem;

    snprintf(name, sizeof(name), "%s.weight", module);
    t = infq_checkpoint_find(ck, name);
    if (!t)
        return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: no such tensor", name);
    elem = infq_elem_of_dtype(t->dtype);
    if (elem == INFQ_ELEM_NONE || !infq_elem_is_float(elem))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: dtype %s is no plain float weight", name,
                            infq_dtype_name(t->dtype));
    if (t->n_dims != 2)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: a matrix has 2 dimensions, this has %d", name, t->n_dims);
    *out = (infq_weight){.codec = {.elem = elem}, .n_rows = t->shape[0], .n_cols = t->shape[1], .outer = 1.0f};
    out->codes.data = infq_checkpoint_data(ck, t);
    out->codes.row_bytes = infq_codec_row_bytes(&out->codec, out->n_cols);
    return INFQ_E_OK;
}

static bool dense_probe(const infq_checkpoint *ck)
{
    (void)ck;
    return true; // asked last
}

static infq_status dense_open(const infq_checkpoint *ck, void **state, infq_err *err)
{
    (void)ck;
    (void)err;
    *state = NULL;
    return INFQ_E_OK;
}

static void dense_close(void *state)
{
    (void)state;
}

static infq_status dense_read(const void *state, const infq_checkpoint *ck, const char *module, infq_arena *a,
                              infq_weight *out, infq_err *err)
{
    (void)state;
    (void)a;
    return infq_dense_read(ck, module, out, err);
}

static infq_status dense_layout(const infq_codec *c, int64_t n_rows, int64_t n_cols, infq_layout *out, infq_err *err)
{
    if (c->scale != INFQ_ELEM_NONE || !infq_elem_is_float(c->elem))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the dense format cannot hold %s codes", infq_elem_name(c->elem));
    *out = (infq_layout){.n = 1};
    out->t[0] = (infq_layout_tensor){.suffix = "weight", .dtype = infq_dtype_of_elem(c->elem), .n_dims = 2, .shape = {n_rows, n_cols}};
    return INFQ_E_OK;
}

static infq_status dense_write(const infq_weight *w, int64_t row0, int64_t n_rows_total, const char *module,
                               infq_folder *to, infq_err *err)
{
    size_t tight = infq_codec_row_bytes(&w->codec, w->n_cols);
    char name[512];

    (void)n_rows_total;
    snprintf(name, sizeof(name), "%s.weight", module);
    if (w->codes.row_bytes == tight)
        return infq_folder_write(to, name, (uint64_t)row0 * tight, w->codes.data, (size_t)w->n_rows * tight, err);
    for (int64_t r = 0; r < w->n_rows; r++)
        INFQ_TRY(infq_folder_write(to, name, (uint64_t)(row0 + r) * tight,
                                   (const uint8_t *)w->codes.data + (size_t)r * w->codes.row_bytes, tight, err));
    return INFQ_E_OK;
}

static infq_status dense_config(const infq_written *w, size_t n, const infq_scheme *s, infq_jw *to, infq_err *err)
{
    (void)w;
    (void)n;
    (void)s;
    infq_jw_null(to);
    return infq_buf_status(to->to, err);
}

static bool dense_expects(const void *state, const char *module)
{
    (void)state;
    (void)module;
    return false;
}

const infq_format infq_format_dense = {
    .name = "dense",
    .probe = dense_probe,
    .open = dense_open,
    .close = dense_close,
    .read = dense_read,
    .layout = dense_layout,
    .write = dense_write,
    .config = dense_config,
    .expects = dense_expects,
};
