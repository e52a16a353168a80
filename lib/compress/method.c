#include "lib/compress/method_int.h"

#include <string.h>

static infq_status rtn_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    infq_quant_spec spec = a->spec;

    spec.range = INFQ_RANGE_RTN;
    return infq_quant_rows(&spec, x, n_rows, out, err);
}

static infq_status search_rows(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    infq_quant_spec spec = a->spec;

    spec.range = INFQ_RANGE_SEARCH;
    return infq_quant_rows(&spec, x, n_rows, out, err);
}

static const infq_method methods[] = {
    {"search", "range search weighted by calibration statistics, or by w^2 + mean(w^2) of the group", 0, search_rows, 4e7},
    {"rtn", "round to nearest, range = largest magnitude", 0, rtn_rows, 1e9},
    {"gptq", "range search and error feedback from second moments of the inputs", INFQ_NEEDS_DIAG | INFQ_NEEDS_MOMENT,
     infq_gptq_rows, 2e7},
};

static const infq_method prune_methods[] = {
    {"wanda", "magnitude times the norm of the input channel", INFQ_NEEDS_DIAG, infq_wanda_rows, 2e8},
    {"sparsegpt", "kept weights take up the errors of those removed", INFQ_NEEDS_DIAG | INFQ_NEEDS_MOMENT, infq_sparsegpt_rows, 2e7},
    {"magnitude", "smallest magnitudes, no data", 0, infq_magnitude_rows, 2e8},
};

static const infq_method *find(const infq_method *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, table[i].name) == 0)
            return &table[i];
    return NULL;
}

size_t infq_method_count(void)
{
    return sizeof(methods) / sizeof(methods[0]);
}

const infq_method *infq_method_get(size_t i)
{
    return &methods[i];
}

const infq_method *infq_method_find(const char *name)
{
    return find(methods, infq_method_count(), name);
}

size_t infq_prune_method_count(void)
{
    return sizeof(prune_methods) / sizeof(prune_methods[0]);
}

const infq_method *infq_prune_method_get(size_t i)
{
    return &prune_methods[i];
}

const infq_method *infq_prune_method_find(const char *name)
{
    return find(prune_methods, infq_prune_method_count(), name);
}
