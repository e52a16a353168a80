/* Carries out a plan: one pass over the source, a few megabytes at a time. */
#ifndef INFQ_COMPRESS_QUANTIZE_H
#define INFQ_COMPRESS_QUANTIZE_H

#include "lib/compress/plan.h"
#include "lib/compress/verify.h"

/* What became of one tensor; zeros for copies. */
typedef struct {
    double sq_err, sq_sum;          /* sum (w - w^)^2, sum w^2 */
    int64_t zero_groups, clipped;   /* groups that hold only zeros; codes cut off at the range's end */
    int64_t zeros;                  /* values that are zero; counted where the plan prunes */
} infq_ledger_row;
/* sqrt(sq_err / sq_sum), 0 for a zero matrix. */
double infq_ledger_error(const infq_ledger_row *r);

typedef struct {
    bool force;        /* replace an existing output */
    bool verify;       /* decode and compare before publishing */
} infq_quantize_options;

typedef struct {
    infq_ledger_row *rows;          /* one a plan entry */
    char (*shard_sha256)[65];       /* source files */
    infq_verify_report *verified;   /* NULL when not asked for */
    bool published;                 /* false: verification failed, nothing has the final name */
    uint64_t bytes_written;         /* shard files */
    size_t n_resumed;               /* tensors taken over from an interrupted run */
    int64_t zero_groups, clipped, zeros;
    double seconds, seconds_verify;
} infq_quantize_result;

/* Streams the source once: every byte is hashed, matrices are converted, checked, quantized and written, the rest is
 * copied. Same bytes for every number of threads and CPU level. NUMERIC names tensor and [row, column] of a value that is
 * not finite. INTERRUPTED leaves a partial output that the next run takes up. */
infq_status infq_quantize_run(const infq_plan *p, const infq_quantize_options *o, const infq_log *log,
                              infq_quantize_result **out, infq_err *err);
void infq_quantize_result_free(infq_quantize_result *r);

/* infq.json: docs/format/infq-json.md. The same bytes for the same inputs: no times, no machine. */
infq_status infq_receipt_write(const infq_plan *p, const infq_quantize_result *r, infq_buf *to, infq_err *err);
/* config.json with quantization_config (JSON text) as its last member, every other byte as it was; on several lines when the
 * text has several. FORMAT when text is no object or has such a member already. */
infq_status infq_config_insert(const char *text, size_t n, const char *quantization_config, infq_buf *to, infq_err *err);

#endif
