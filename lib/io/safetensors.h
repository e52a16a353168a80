/* safetensors: one file. Format: specs 1.1 to 1.4, docs/format/safetensors.md. */
#ifndef INFQ_IO_SAFETENSORS_H
#define INFQ_IO_SAFETENSORS_H

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/tensor/dtype.h"

#define INFQ_MAX_DIMS 8

/* One tensor of a file. Borrowed from the header until free. */
typedef struct {
    const char *name;
    infq_dtype dtype;
    int n_dims;
    int64_t shape[INFQ_MAX_DIMS];
    int64_t n_elems;
    uint64_t offset;   /* from the start of the file */
    uint64_t n_bytes;
} infq_st_tensor;

typedef struct infq_st infq_st;
/* Parses and checks a whole file image; data must outlive the result. The strict reading of specs 1.3: all
 * errors of the reference reader, and also refused: the same name twice, entries written as arrays, more
 * than INFQ_MAX_DIMS dimensions. FORMAT messages name the tensor and the rule: overlap names both tensors, gaps and
 * trailing bytes the number of bytes not covered, truncation the file's length and the length it should have, a zip or
 * pickle is called so. Bounds are checked before allocation. */
infq_status infq_st_parse(const uint8_t *data, size_t size, infq_st **out, infq_err *err);
void infq_st_free(infq_st *st);
size_t infq_st_count(const infq_st *st);
/* In order of offset. */
const infq_st_tensor *infq_st_get(const infq_st *st, size_t i);
const infq_st_tensor *infq_st_find(const infq_st *st, const char *name);
/* Name of the reference reader's error for the last failed parse ("InvalidOffset", ...), for tests. */
const char *infq_st_reject_name(const infq_err *err);
size_t infq_st_meta_count(const infq_st *st);
void infq_st_meta_get(const infq_st *st, size_t i, const char **key, const char **value);

/* Layout of a file to be written: add all tensors, then seal fixes order (dtype descending, name
 * ascending) and offsets. Same input gives the same bytes. Header padded with spaces to 8. */
typedef struct infq_st_layout infq_st_layout;
infq_status infq_st_layout_new(infq_st_layout **out, infq_err *err);
void infq_st_layout_free(infq_st_layout *l);
infq_status infq_st_layout_add(infq_st_layout *l, const char *name, infq_dtype dtype, int n_dims,
                               const int64_t *shape, infq_err *err);
/* {"format":"pt"} is always written first; more pairs may follow. */
infq_status infq_st_layout_meta(infq_st_layout *l, const char *key, const char *value, infq_err *err);
infq_status infq_st_layout_seal(infq_st_layout *l, infq_err *err);
uint64_t infq_st_layout_file_bytes(const infq_st_layout *l);
const infq_buf *infq_st_layout_header(const infq_st_layout *l); /* first bytes of the file */
/* Offset from the start of the file, and size; NULL if absent. */
const infq_st_tensor *infq_st_layout_find(const infq_st_layout *l, const char *name);
size_t infq_st_layout_count(const infq_st_layout *l);
const infq_st_tensor *infq_st_layout_get(const infq_st_layout *l, size_t i); /* file order */

#endif
