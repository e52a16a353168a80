/* Re-reads a quantized model with the reference decoder and compares it with its source. */
#ifndef INFQ_COMPRESS_VERIFY_H
#define INFQ_COMPRESS_VERIFY_H

#include "lib/compress/engine.h"
#include "lib/compress/sparsity.h"

typedef struct {
    const char *source;  /* folder or file; NULL: the one that infq.json names if it still exists, else self-checks only */
    const char *engine;  /* NULL or "vllm" */
    int64_t tp;
    const infq_pruned *pruned; /* what was pruned; NULL: what infq.json says */
} infq_verify_options;
infq_verify_options infq_verify_options_default(void);

typedef struct {
    const char *name;    /* module */
    infq_codec codec;
    int64_t n_rows, n_cols;
    double relative_error; /* sqrt(sum (w - w^)^2 / sum w^2); 0 without a source, or when both are zero */
    double limit;          /* above it the module fails */
    bool pruned;
    int64_t zeros;         /* of a pruned one */
} infq_verify_row;

typedef struct {
    infq_verify_row *rows;   /* quantized and pruned modules, checkpoint order */
    size_t n_rows, n_pruned;
    int64_t zeros, pruned_weights; /* of the pruned modules */
    size_t n_copied;         /* tensors equal to the source's, byte for byte */
    size_t n_side;           /* side files equal to the source's */
    bool with_source;
    char source[1024];
    infq_findings findings;  /* what is wrong (fail), what to know (warning) */
    double worst;            /* largest relative error */
    infq_arena *names;       /* owner of the names */
} infq_verify_report;

/* Checks: the configuration is understood and fits what is stored; codes, scales and zero points in range and finite; padding
 * bits zero; global scales are equal inside fused groups (other scales of whole tensors: a warning); against the source:
 * shapes, relative error below the limit of the codec (0.1 for 8 bits, 0.4 below), other tensors and side files equal, none
 * missing or superfluous; pruned modules: as many zeros as the ledger says and enough of them in each row, the pattern holds, kept
 * values equal to the source's unless the recipe declares them updated (then a relative error below 1); config.json equal but for quantization_config. The answer is in report->findings.n_fail; an error
 * means that it could not be checked. */
infq_status infq_verify_run(const char *path, const infq_verify_options *o, const infq_log *log, infq_verify_report **out,
                            infq_err *err);
void infq_verify_report_free(infq_verify_report *r);
/* Memory that verifying holds at a time, about: windows of model and source, two rows of n_cols (the most of a matrix) a thread, scales of the largest
 * quantized matrix, which has n_bytes in the source, tables of n_tensors. */
uint64_t infq_verify_bytes(size_t n_tensors, uint64_t n_bytes, int64_t n_cols, int threads);
/* The report as an object. */
void infq_verify_report_json(const infq_verify_report *r, infq_jw *to);
/* Limit of the relative error of a codec. */
double infq_verify_limit(const infq_codec *c);

#endif
