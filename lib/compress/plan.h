/* What a quantization will do, decided before the first weight is read: one entry a source tensor. The ledger of the
 * receipt is the plan after the fact. docs/design/plan.md. */
#ifndef INFQ_COMPRESS_PLAN_H
#define INFQ_COMPRESS_PLAN_H

#include "lib/compress/calib.h"
#include "lib/compress/engine.h"
#include "lib/compress/sparsity.h"

#define INFQ_GROUP_CHANNEL (-1)

/* What becomes of the matrices that a pattern matches, among those that are quantized at all; the first rule that matches counts. */
typedef struct {
    const char *pattern;
    const infq_scheme *scheme;   /* NULL: they stay as they are */
    int64_t group_size;          /* 0: the plan's, else the largest of 128, 64, 32 that divides the row; INFQ_GROUP_CHANNEL */
} infq_plan_rule;

typedef struct {
    const infq_scheme *scheme;
    const infq_format *format;
    const infq_method *method;
    int64_t group_size;          /* 0: largest of 128, 64, 32 that divides every quantized row; INFQ_GROUP_CHANNEL */
    const char *const *ignore;   /* patterns of modules that stay as they are */
    size_t n_ignore;
    const char *const *include;  /* patterns of modules that are quantized although they are no default targets */
    size_t n_include;
    const infq_plan_rule *rules;
    size_t n_rules;
    bool allow_fallback;         /* rows that the group size does not divide are copied instead of refused */
    const char *out;             /* NULL: infq_plan's default name beside the input */
    uint64_t mem_limit;          /* bytes of peak memory, 0: none */
    bool verified;               /* the result will be verified: its memory counts, too */
    uint64_t shard_bytes;        /* 0: 5e9 */
    const char *engine;          /* NULL or "vllm" */
    int64_t tp;
    int threads;                 /* 0: all */
    const infq_calib *calib;     /* tokens that statistics come from; NULL: data-free. Borrowed */
    infq_sparsity sparsity;      /* fraction 0: nothing is pruned. Methods of infq prune want it and scheme dense; of quantize: gptq */
    bool force_pruned;           /* prune although the source is full of zeros */
    double damping;              /* of second moments, a fraction of their mean diagonal: 0.01 */
} infq_plan_options;
/* W4A16, compressed-tensors, search. */
infq_plan_options infq_plan_options_default(void);
/* Wanda, dense; sparsity is to be set. */
infq_plan_options infq_plan_options_prune(void);

typedef enum { INFQ_FATE_QUANTIZE, INFQ_FATE_COPY, INFQ_FATE_TIE } infq_fate;

typedef struct {
    const infq_ck_tensor *tensor;
    const infq_module *module;   /* NULL: no matrix */
    infq_fate fate;
    const infq_plan_rule *rule;  /* that decides instead of the options; NULL: none */
    infq_codec codec;            /* QUANTIZE only */
    infq_layout layout;          /* QUANTIZE only */
    const char *reason;          /* why it is not quantized; static or the plan's */
    bool fallback;               /* wanted, but the group size does not divide its rows */
    uint64_t bytes_out;
} infq_plan_entry;
/* quantize, prune (the codec is a plain float), copy, tie. */
const char *infq_fate_name(const infq_plan_entry *e);

typedef struct {
    const infq_checkpoint *ck;   /* borrowed */
    infq_plan_options o;         /* strings borrowed from the caller */
    infq_modules *modules;
    infq_plan_entry *v;          /* checkpoint order */
    size_t n;
    char *out;                   /* final name */
    char *config_text;           /* quantization_config, one line; also kept in the metadata of bare outputs */
    char *sparsity_text;         /* what bare outputs tell of their pruning in the metadata: infq_pruned_json; NULL: nothing */
    char fingerprint[65];        /* of everything that decides the bytes */
    int64_t group_size;          /* chosen; 0 channel */
    int64_t *ignore_hits, *include_hits; /* modules a pattern matched */
    int64_t *rule_hits;          /* matrices a rule decided, whatever later rules would say */
    infq_findings findings;
    size_t n_quantized, n_copied, n_tied, n_fallback;
    int64_t weights, weights_quantized;  /* elements: of all float tensors, of the quantized matrices */
    uint64_t bytes_in, bytes_out;        /* shard files with headers; side files apart */
    uint64_t bytes_quantized_out;        /* tensor bytes of the quantized matrices */
    uint64_t bytes_side, disk_needed, disk_free;
    double bits_per_weight, bits_per_weight_quantized;
    size_t chunk_bytes;          /* source bytes worked on at a time */
    size_t scratch_bytes, quant_bytes; /* one thread's: ours, the quantizer's */
    size_t batch_out_bytes, batch_src_bytes, batch_blocks; /* largest of all batches */
    uint64_t peak_bytes;         /* resident memory of the process at its highest */
    double seconds;
    int threads;
} infq_plan;

/* Refusals, all before any weight is read or anything is written: no tensors, already quantized, 3-D experts, Conv1D,
 * patterns that match nothing (USAGE), a group size that does not divide (USAGE), rules of --for (UNSUPPORTED), memory
 * (NOMEM), disk (NOSPACE), tied head that differs (FORMAT: this one compares the two matrices).
 * Pruning: a fraction outside (0, 1) or a pattern that does not divide the rows (USAGE), a method that does not prune (USAGE), a source that is
 * pruned already (UNSUPPORTED; some rows of each matrix are read). */
infq_status infq_plan_make(const infq_checkpoint *ck, const infq_plan_options *o, infq_plan **out, infq_err *err);
void infq_plan_free(infq_plan *p);
/* Nothing is quantized: matrices are pruned and keep their float type. */
bool infq_plan_is_dense(const infq_plan *p);
/* Weights that are kept are changed, too. */
bool infq_plan_updates(const infq_plan *p);
/* How the entry is pruned; NULL: it is not. */
const infq_sparsity *infq_plan_entry_sparsity(const infq_plan *p, const infq_plan_entry *e);
/* Name of the scheme with its group and sparsity ("W4A16-G64", "SPARSE-50", "W4A16-G64-SPARSE-2-4"); out at least 64. */
void infq_plan_scheme_name(const infq_plan *p, char *out, size_t cap);

/* A piece of work: rows [row0, row0 + n_rows) of a quantized tensor, or bytes [row0, row0 + n_rows) of another. */
typedef struct {
    size_t entry;
    int64_t row0, n_rows;
    size_t codes, scales, zeros; /* offsets into the batch's output buffer */
} infq_block;
typedef struct {
    size_t entry;
    int64_t row;
} infq_batch_pos;
typedef struct {
    size_t n_blocks, src_bytes, out_bytes;
    int shard;                   /* of the source: a batch never spans two */
} infq_batch;
/* The next batch from pos on, at most plan->chunk_bytes of source (one block at least), in checkpoint order; false at the
 * end. blocks: room for INFQ_BATCH_BLOCKS, or NULL to measure. The same for every number of threads. */
#define INFQ_BATCH_BLOCKS 2048
bool infq_plan_batch(const infq_plan *p, infq_batch_pos *pos, infq_block *blocks, infq_batch *out);

#endif
