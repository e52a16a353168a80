/* How logical weights lie in files: a registry of formats, each a file. Readers and writers of one format share it. */
#ifndef INFQ_FORMAT_FORMAT_H
#define INFQ_FORMAT_FORMAT_H

#include "lib/format/module.h"
#include "lib/io/folder.h"

/* What a quantized module is asked to become; common to all formats. */
typedef struct {
    const char *name;      /* "W4A16", "W4A16_ASYM", "W8A16", "W8A8-INT8", "FP8", "FP8-BLOCK" */
    infq_codec codec;      /* group_cols 0 = channel; the plan fills in the group size */
} infq_scheme;
/* Scheme by name, case-insensitive with the aliases of docs/cli/quantize.md; NULL if unknown. */
const infq_scheme *infq_scheme_find(const char *name);
/* A matrix keeps the source's float type (elem and scale NONE; the plan fills in elem); named "dense", in no table: infq prune's. */
extern const infq_scheme infq_scheme_dense;
size_t infq_scheme_count(void);
const infq_scheme *infq_scheme_get(size_t i);

/* One tensor that a quantized module is stored as. */
typedef struct {
    char suffix[24];       /* "weight_packed"; full name is module + "." + suffix */
    infq_dtype dtype;
    int n_dims;
    int64_t shape[2];
} infq_layout_tensor;
typedef struct {
    infq_layout_tensor t[6];
    int n;
} infq_layout;

/* A checkpoint's quantization, parsed once. */
typedef struct infq_reader infq_reader;

/* One module as written: used for the configuration. */
typedef struct {
    const char *module;
    infq_codec codec;      /* elem NONE: kept as it was (belongs to ignore) */
} infq_written;

typedef struct {
    const char *name;      /* "dense", "compressed-tensors" */
    /* Does config.json (NULL for a bare file) name this format? */
    bool (*probe)(const infq_checkpoint *ck);
    infq_status (*open)(const infq_checkpoint *ck, void **state, infq_err *err);
    void (*close)(void *state);
    /* The weight called `module` (views borrow from ck or a). NOT_FOUND if there is none. */
    infq_status (*read)(const void *state, const infq_checkpoint *ck, const char *module, infq_arena *a, infq_weight *out,
                        infq_err *err);
    /* Tensors, shapes and dtypes for a weight of this codec and shape; UNSUPPORTED when the format cannot hold it. */
    infq_status (*layout)(const infq_codec *c, int64_t n_rows, int64_t n_cols, infq_layout *out, infq_err *err);
    /* Writes rows [row0, row0 + w->n_rows) of the matrix whose layout was declared: called in order of rows. w holds only
     * these rows (views tight or not). row0 is a multiple of 8 and of group_rows, except for the last part. */
    infq_status (*write)(const infq_weight *w, int64_t row0, int64_t n_rows_total, const char *module, infq_folder *to,
                         infq_err *err);
    /* Appends the quantization_config object for config.json. */
    infq_status (*config)(const infq_written *w, size_t n, const infq_scheme *s, infq_jw *to, infq_err *err);
    /* Does the configuration say that this module is stored quantized? */
    bool (*expects)(const void *state, const char *module);
} infq_format;

/* Last parts of the names of tensors that a quantized module may be stored as ("weight_packed", "weight_scale", ...), of all
 * formats; ends with NULL. */
extern const char *const infq_format_parts[];
/* The tensor's name ends in one of them. */
bool infq_format_is_part(const char *tensor);

const infq_format *infq_format_find(const char *name);   /* NULL if unknown */

/* Probes all formats; an unknown quant_method is UNSUPPORTED by name. Dense checkpoints give the dense reader. */
infq_status infq_reader_open(const infq_checkpoint *ck, infq_reader **out, infq_err *err);
void infq_reader_close(infq_reader *r);
const char *infq_reader_format(const infq_reader *r);
bool infq_reader_expects(const infq_reader *r, const char *module);
/* Checked with infq_weight_check. Quantized or dense, whatever is stored for the module. */
infq_status infq_reader_read(const infq_reader *r, const char *module, infq_arena *a, infq_weight *out, infq_err *err);
/* One-dimensional (or any) dense float tensor by full name, decoded to F32 into a. NOT_FOUND. */
infq_status infq_reader_vector(const infq_reader *r, const char *tensor, infq_arena *a, float **out, int64_t *n, infq_err *err);

#endif
