/* What quantize.c, resume.c share with the plan. */
#ifndef INFQ_COMPRESS_QUANTIZE_INT_H
#define INFQ_COMPRESS_QUANTIZE_INT_H

#include "lib/compress/plan_int.h"
#include "lib/compress/quantize.h"

/* Which entries an interrupted run has finished, and which output shards still wait for tensors. The ledger of a finished
 * shard lies beside it in the partial folder (the folder removes it when it publishes), so that a resumed run ends with the
 * same receipt. */
typedef struct {
    bool *done;            /* entry: all its tensors are in finished shards and its ledger row is known */
    size_t n_done;
    int64_t *left;         /* shard: tensors not yet written */
    bool *finished;        /* shard: finished by an earlier run */
    size_t n_shards;
} infq_quantize_resume;

infq_status infq_resume_load(infq_quantize_resume *s, const infq_plan *p, const infq_folder *f, infq_ledger_row *rows,
                             infq_err *err);
void infq_resume_deinit(infq_quantize_resume *s);
/* All tensors of an entry are written: completes the shards that waited for it last. */
infq_status infq_resume_entry_written(infq_quantize_resume *s, const infq_plan *p, size_t entry, const infq_ledger_row *rows,
                                      infq_folder *f, infq_err *err);

/* Quantizes every matrix of the blocks from statistics of p->o.calib and writes it; what it wrote is done in resume. */
infq_status infq_calibrate(const infq_plan *p, const infq_log *log, infq_folder *f, infq_quantize_resume *resume,
                           infq_quantize_result *r, infq_err *err);

#endif
