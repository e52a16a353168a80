/* Methods of quantization and of pruning, each a table of rows: adding one is a file and a row (docs/design/plan.md). */
#ifndef INFQ_COMPRESS_METHOD_H
#define INFQ_COMPRESS_METHOD_H

#include "lib/backend/prune.h"

/* What a method asks of the driver before it can run. Data-free methods need nothing. */
#define INFQ_NEEDS_DIAG 1u   /* mean square of each input channel */
#define INFQ_NEEDS_MOMENT 2u /* second moments of the inputs, factored */

/* What a method is given beside the rows. */
typedef struct {
    infq_quant_spec spec;      /* weight: importance of the columns, NULL without statistics */
    const infq_factor *factor; /* NULL when there is none, or it could not be made */
    const infq_sparsity *sparsity; /* NULL: nothing is pruned */
} infq_method_args;

typedef struct {
    const char *name;
    const char *help;      /* one line */
    unsigned needs;
    /* Quantizes rows of one matrix; contract of infq_quant_rows (search.h). */
    infq_status (*rows)(const infq_method_args *a, const float *x, int64_t n_rows, infq_quant_out *out, infq_err *err);
    double elems_per_s;    /* one core, measured; for the plan's estimate only */
} infq_method;

const infq_method *infq_method_find(const char *name); /* NULL if unknown */
size_t infq_method_count(void);
const infq_method *infq_method_get(size_t i);
/* The same of infq prune. */
const infq_method *infq_prune_method_find(const char *name);
size_t infq_prune_method_count(void);
const infq_method *infq_prune_method_get(size_t i);

#endif
