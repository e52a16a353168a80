#include "lib/format/format.h"

#include <string.h>

#include "lib/base/str.h"
#include "lib/format/formats_int.h"

// Probed in this order; dense takes what is left.
static const infq_format *const formats[] = {&infq_format_compressed_tensors, &infq_format_dense};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

const char *const infq_format_parts[] = {"weight",       "weight_packed", "weight_scale",        "weight_zero_point",
                                         "weight_shape", "weight_g_idx",  "weight_global_scale", "input_scale",
                                         "input_zero_point", "input_global_scale", NULL};

bool infq_format_is_part(const char *tensor)
{
    const char *dot = strrchr(tensor, '.');

    for (size_t i = 0; dot && infq_format_parts[i]; i++)
        if (strcmp(dot + 1, infq_format_parts[i]) == 0)
            return true;
    return false;
}

const infq_format *infq_format_find(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

infq_status infq_format_quant_config(const infq_checkpoint *ck, const cJSON **out, cJSON **own, infq_err *err)
{
    const cJSON *config = infq_checkpoint_config(ck);

    *out = NULL;
    *own = NULL;
    if (config) {
        const cJSON *text = infq_json_get(config, "text_config");
        *out = infq_json_get(config, "quantization_config");
        if (!*out && text)
            *out = infq_json_get(text, "quantization_config");
        return INFQ_E_OK;
    }
    for (size_t i = 0; i < infq_checkpoint_meta_count(ck); i++) {
        const char *key, *value;
        infq_checkpoint_meta_get(ck, i, &key, &value);
        if (strcmp(key, "quantization_config") == 0) {
            INFQ_TRY(infq_json_parse(value, strlen(value), "quantization_config of the metadata", own, err));
            *out = *own;
            return INFQ_E_OK;
        }
    }
    return INFQ_E_OK;
}

struct infq_reader {
    const infq_checkpoint *ck;
    const infq_format *format;
    void *state;
};

infq_status infq_reader_open(const infq_checkpoint *ck, infq_reader **out, infq_err *err)
{
    const cJSON *q;
    cJSON *own;
    const infq_format *f = NULL;
    infq_reader *r;
    infq_status st;
    void *p;

    INFQ_TRY(infq_format_quant_config(ck, &q, &own, err));
    for (size_t i = 0; i < N_FORMATS && !f; i++)
        if (formats[i] != &infq_format_dense && formats[i]->probe(ck))
            f = formats[i];
    if (!f && q) {
        const cJSON *method = infq_json_get(q, "quant_method");
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: quantization method %s is not supported", infq_checkpoint_path(ck),
                          cJSON_IsString(method) ? method->valuestring : "without a name");
        cJSON_Delete(own);
        return st;
    }
    cJSON_Delete(own);
    INFQ_TRY(infq_mem_new(1, sizeof(*r), "weight reader", &p, err));
    r = p;
    *r = (infq_reader){.ck = ck, .format = f ? f : &infq_format_dense};
    st = r->format->open(ck, &r->state, err);
    if (st) {
        infq_mem_free(r);
        return st;
    }
    *out = r;
    return INFQ_E_OK;
}

void infq_reader_close(infq_reader *r)
{
    if (!r)
        return;
    r->format->close(r->state);
    infq_mem_free(r);
}

const char *infq_reader_format(const infq_reader *r)
{
    return r->format->name;
}

bool infq_reader_expects(const infq_reader *r, const char *module)
{
    return r->format->expects(r->state, module);
}

infq_status infq_reader_read(const infq_reader *r, const char *module, infq_arena *a, infq_weight *out, infq_err *err)
{
    infq_weight w;

    INFQ_TRY(r->format->read(r->state, r->ck, module, a, &w, err));
    if (infq_weight_check(&w, err))
        return infq_err_in(err, "%s", module);
    *out = w;
    return INFQ_E_OK;
}

infq_status infq_reader_vector(const infq_reader *r, const char *tensor, infq_arena *a, float **out, int64_t *n, infq_err *err)
{
    const infq_ck_tensor *t = infq_checkpoint_find(r->ck, tensor);
    void *p;

    if (!t)
        return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: no such tensor", tensor);
    INFQ_TRY(infq_arena_alloc(a, (size_t)t->n_elems, sizeof(float), tensor, &p, err));
    if (infq_dtype_to_f32(t->dtype, infq_checkpoint_data(r->ck, t), t->n_elems, p, err))
        return infq_err_in(err, "%s", tensor);
    *out = p;
    *n = t->n_elems;
    return INFQ_E_OK;
}
