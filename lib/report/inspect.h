/* What a model is: parameters, element types, stored bits, memory for inference. Reads headers only, unless zeros are counted. */
#ifndef INFQ_REPORT_INSPECT_H
#define INFQ_REPORT_INSPECT_H

#include "lib/format/format.h"
#include "lib/model/config.h"

#define INFQ_INSPECT_CONTEXTS 4
#define INFQ_INSPECT_BATCHES 3

/* All matrices of one role. */
typedef struct {
    int64_t n_matrices, weights, zeros;
    bool two_of_four;          /* at most 2 values other than zero in each 4 consecutive columns, in all of them */
} infq_zeros_row;

typedef struct {
    char format[32];           /* "dense", "compressed-tensors" */
    bool has_config, runnable; /* configuration readable; architecture known to the engine */
    char not_runnable[240];    /* why, when !runnable and has_config */
    infq_config config;        /* when runnable */
    int64_t n_tensors, n_params /* logical elements, quantized ones counted once */, n_quantized_params;
    uint64_t tensor_bytes;
    int64_t dtype_tensors[INFQ_DTYPE_COUNT];
    uint64_t dtype_bytes[INFQ_DTYPE_COUNT];
    double bits_per_weight;            /* tensor_bytes * 8 / n_params */
    double bits_per_quantized_weight;  /* of quantized modules, with scales and zeros; 0 if none */
    char codec[96];            /* most frequent codec of quantized modules */
    int64_t contexts[INFQ_INSPECT_CONTEXTS];
    int64_t batches[INFQ_INSPECT_BATCHES];
    uint64_t kv_bytes[INFQ_INSPECT_CONTEXTS][INFQ_INSPECT_BATCHES]; /* F32 pages, as the engine allocates */
    bool zeros_counted;
    infq_zeros_row zeros[INFQ_ROLE_OTHER + 1];
} infq_inspect;

infq_status infq_inspect_run(const infq_checkpoint *ck, infq_inspect *out, infq_err *err);
/* Decodes every matrix and counts zeros by role. */
infq_status infq_inspect_zeros(const infq_checkpoint *ck, infq_inspect *out, infq_err *err);
/* Parts of the two documents below. */
void infq_inspect_zeros_text(const infq_inspect *in, infq_buf *to);
void infq_inspect_zeros_json(const infq_inspect *in, infq_jw *w);
void infq_inspect_text(const infq_checkpoint *ck, const infq_inspect *in, bool tensors, infq_buf *to);
void infq_inspect_json(const infq_checkpoint *ck, const infq_inspect *in, bool tensors, infq_buf *to);

#endif
