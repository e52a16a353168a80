/* GGUF v2/v3 container, read only (specs 5.1). */
#ifndef INFQ_IO_GGUF_H
#define INFQ_IO_GGUF_H

#include "lib/base/file.h"
#include "lib/tensor/ggml.h"

typedef struct {
    const char *name;
    uint32_t type;      /* ggml id */
    int n_dims;
    int64_t shape[4];   /* logical order, outermost first (reversed from the file) */
    int64_t n_elems;
    uint64_t offset;    /* from the start of the file */
    uint64_t n_bytes;
} infq_gguf_tensor;

typedef enum {
    INFQ_GGUF_U8, INFQ_GGUF_I8, INFQ_GGUF_U16, INFQ_GGUF_I16, INFQ_GGUF_U32, INFQ_GGUF_I32,
    INFQ_GGUF_F32, INFQ_GGUF_BOOL, INFQ_GGUF_STRING, INFQ_GGUF_ARRAY, INFQ_GGUF_U64, INFQ_GGUF_I64, INFQ_GGUF_F64
} infq_gguf_kind;

typedef struct {
    const char *key;
    infq_gguf_kind kind;      /* of the value, or of the elements when is_array */
    bool is_array;
    uint64_t n;               /* elements; 1 when not an array */
    const uint8_t *data;      /* first element's bytes, unaligned (bounds were checked) */
    size_t n_data;            /* bytes of all elements, string lengths included */
} infq_gguf_value;

typedef struct infq_gguf infq_gguf;
/* Verdicts of specs/vectors/gguf_cases.json, and also refused: shapes whose product overflows, keys and names with a
 * zero byte. FORMAT names key or tensor and the rule; UNSUPPORTED for other versions. data must outlive the result. */
infq_status infq_gguf_parse(const uint8_t *data, size_t size, infq_gguf **out, infq_err *err);
void infq_gguf_free(infq_gguf *g);
size_t infq_gguf_count(const infq_gguf *g);
const infq_gguf_tensor *infq_gguf_get(const infq_gguf *g, size_t i);
const infq_gguf_tensor *infq_gguf_find(const infq_gguf *g, const char *name);
const infq_gguf_value *infq_gguf_value_find(const infq_gguf *g, const char *key);
size_t infq_gguf_value_count(const infq_gguf *g);
const infq_gguf_value *infq_gguf_value_get(const infq_gguf *g, size_t i);
/* Number of a scalar value or of element i; strings: borrowed bytes (not NUL-terminated). */
bool infq_gguf_number(const infq_gguf_value *v, uint64_t i, double *out);
/* Strings of an array are walked in order: *pos starts at 0 and is moved on. */
bool infq_gguf_string(const infq_gguf_value *v, uint64_t *pos, const char **s, uint64_t *n);

#endif
