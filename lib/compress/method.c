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
    for (size_t i = 0; i < infq_method_count(); i++)
        if (strcmp(name, methods[i].name) == 0)
            return &methods[i];
    return NULL;
}
