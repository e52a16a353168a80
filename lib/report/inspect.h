/* What a model is: parameters, element types, stored bits, memory for inference. Reads headers only. */
#ifndef INFQ_REPORT_INSPECT_H
#define INFQ_REPORT_INSPECT_H

#include "lib/format/format.h"
#include "lib/model/config.h"

#define INFQ_INSPECT_CONTEXTS 4
#define INFQ_INSPECT_BATCHES 3

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
} infq_inspect;

infq_status infq_inspect_run(const infq_checkpoint *ck, infq_inspect *out, infq_err *err);
void infq_inspect_text(const infq_checkpoint *ck, const infq_inspect *in, bool tensors, infq_buf *to);
void infq_inspect_json(const infq_checkpoint *ck, const infq_inspect *in, bool tensors, infq_buf *to);

#endif
