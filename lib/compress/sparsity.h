/* Unstructured and N:M pruning: what infq prune adds to a plan. A pruned matrix is a plan entry whose codec is the source's own float type;
 * with a scheme beside it (infq quantize --sparsity) it is pruned and quantized in one pass. */
#ifndef INFQ_COMPRESS_SPARSITY_H
#define INFQ_COMPRESS_SPARSITY_H

#include "lib/compress/method.h"
#include "lib/format/format.h"

/* "2:4": at most 2 values other than zero in 4 consecutive columns. USAGE: not N:M, N >= M, N < 1, M > 64. */
infq_status infq_sparsity_pattern(const char *text, infq_sparsity *s, infq_err *err);
/* From --sparsity (NAN: not given) and --pattern (NULL): neither gives fraction 0. USAGE: not between 0 and 1, both and they differ. */
infq_status infq_sparsity_make(double fraction, const char *pattern, infq_sparsity *s, infq_err *err);
/* "50", "62.5", "2-4": for names; and "50 %, row by row", "2:4" for people. Returns out. */
char *infq_sparsity_name(const infq_sparsity *s, char *out, size_t cap);
char *infq_sparsity_describe(const infq_sparsity *s, char *out, size_t cap);

/* What a matrix must look like afterwards, for one decoded row: enough zeros (unless whole matrices were compared) and the pattern; and, with
 * src and not updated, kept values equal to the source's. NULL when it does, else what is wrong, with the column. *zeros is added to. */
const char *infq_sparsity_check_row(const infq_sparsity *s, bool updated, const float *row, const float *src, int64_t n_cols,
                                    int64_t *bad_col, int64_t *zeros);

/* {"fraction", "pattern": null or "2:4", "compare": "row", "layer" or "group", "updated": kept weights were changed}, and back (FORMAT). */
void infq_sparsity_json(const infq_sparsity *s, bool updated, infq_jw *to);
infq_status infq_sparsity_read(const cJSON *v, infq_sparsity *s, bool *updated, infq_err *err);

/* Which matrices of a model are pruned, and how: from a plan and its ledger, or from what the output tells. */
typedef struct {
    const char *tensor;   /* full name of the source's tensor */
    int64_t zeros;        /* stored values that are zero; -1: not known */
} infq_pruned_row;
typedef struct {
    infq_sparsity s;
    bool updated;
    infq_pruned_row *v;   /* by name; infq_mem_free */
    size_t n;
} infq_pruned;
/* tree: infq.json, or what the metadata of a bare file hold as infq_pruned, {"sparsity": as above, "matrices": [tensors]}; it must outlive out.
 * A receipt of something else gives n 0. */
infq_status infq_pruned_read(const cJSON *tree, infq_pruned *out, infq_err *err);
void infq_pruned_sort(infq_pruned *p);
const infq_pruned_row *infq_pruned_find(const infq_pruned *p, const char *tensor); /* NULL: not pruned */

#endif
