/* Class P of specs 2.1 and 2.5: the same task asked otherwise (order of choices, examples, format), of both models alike. Perturbations are averaged
 * over and never widen a margin; a pass that depends on them is called fragile. */
#ifndef INFQ_EVAL_PERTURB_H
#define INFQ_EVAL_PERTURB_H

#include "lib/eval/gate.h"
#include "lib/eval/pooling.h"

typedef struct {
    char label[64];              /* "as it is", "order 2", "examples 7", "format: blank line" */
    double score_a, score_b, gap;
    infq_interval ci;            /* of the gap, confidence 1 - 2 alpha, this perturbation's items alone */
} infq_perturb_row;

typedef struct {
    char task[128], metric[24];
    int64_t n_items;
    int n_rows;
    infq_perturb_row *rows;      /* owned; the first is the task as it is */
    double gap, gap_min, gap_max, largest; /* mean over rows, range, largest |gap| */
    infq_crossed crossed;        /* item differences by perturbations */
    double f, p;                 /* MS_run / MS_resid and P(F as large): do the gaps differ between perturbations by more than chance; NAN for one row */
    infq_verdict verdict;        /* of the task as it is (test T2) */
    bool fragile;                /* pass, and largest > margin: its sign or size depends on how it is asked */
} infq_perturb_task;

/* a, b: [n] item sets of both models, perturbation by perturbation; a[0], b[0]: as it is. MISMATCH when a pair is not comparable or documents
 * differ between perturbations. */
infq_status infq_perturb_compare(const infq_items *const *a, const infq_items *const *b, const char *const *labels, int n, const char *metric,
                                 const infq_gate_options *o, infq_perturb_task *out, infq_err *err);
void infq_perturb_free(infq_perturb_task *t);

#endif
