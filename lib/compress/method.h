/* Quantization methods as a table of rows: adding one is a file and a row (docs/design/plan.md). */
#ifndef INFQ_COMPRESS_METHOD_H
#define INFQ_COMPRESS_METHOD_H

#include "lib/backend/search.h"

typedef struct {
    const char *name;
    const char *help;      /* one line */
    /* Quantizes rows of one matrix; contract of infq_quant_rows (search.h). */
    infq_status (*rows)(const infq_quant_spec *s, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
    double elems_per_s;    /* one core, measured; for the plan's estimate only */
} infq_method;

const infq_method *infq_method_find(const char *name); /* NULL if unknown */
size_t infq_method_count(void);
const infq_method *infq_method_get(size_t i);

#endif
