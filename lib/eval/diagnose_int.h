/* Between diagnose.c (trials on a text) and diagnose_weights.c (what changed in the stored weights). */
#ifndef INFQ_EVAL_DIAGNOSE_INT_H
#define INFQ_EVAL_DIAGNOSE_INT_H

#include "lib/eval/diagnose.h"

/* One part of both models. */
typedef struct {
    infq_model_part id;
    bool changed;            /* values or activation quantization differ */
    int64_t params;
    double bits_p, bits_q;
    double err2, ref2;       /* sum (w - w^)^2, sum w^2 */
    int64_t n_clipped;       /* -1: the codec has no range */
    float act_limit;         /* 0, or largest |input| of a static activation scale */
    double *column_err2;     /* [cols] of changed matrices, NULL otherwise */
    /* of the original's inputs, filled while the text runs */
    double *input2;          /* [cols] sum of squares */
    int64_t n_inputs, n_beyond;
} infq_diagnose_part;

/* Reads both checkpoints' weights. parts: [infq_model_part_count(p)], zeroed by the caller, freed with infq_diagnose_parts_free. */
infq_status infq_diagnose_parts(const infq_model *p, const infq_checkpoint *ck_p, const infq_checkpoint *ck_q, infq_diagnose_part *parts,
                                infq_err *err);
void infq_diagnose_parts_free(infq_diagnose_part *parts, int64_t n);

#endif
