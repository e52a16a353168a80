/* The release gate on paired items: T2 of specs 2.6 (non-inferiority on random items), one task or a suite of them.
 *
 * Binary scores: Tango's score test on losses b and gains c. Graded scores: paired t. PASS: the hypothesis "worse by the margin or more" is
 * refuted at level alpha. FAIL: "better than that" is refuted. Otherwise undecided, with the number of items that would decide. Pure functions
 * of plain numbers; nothing here runs a model. */
#ifndef INFQ_EVAL_GATE_H
#define INFQ_EVAL_GATE_H

#include "lib/eval/band.h"
#include "lib/eval/item.h"
#include "lib/eval/stats.h"


const char *infq_verdict_name(infq_verdict v); /* "pass", "fail", "undecided" */
int infq_verdict_exit(infq_verdict v);         /* 0, 1, 6 */

typedef struct {
    double margin;   /* of the gap, a positive fraction: 0.01 */
    double alpha;    /* one-sided level: 0.05 */
    double power;    /* of the plan for more items: 0.8 */
} infq_gate_options;
infq_gate_options infq_gate_options_default(void);

/* Comparison of one task's items. */
typedef struct {
    char task[128], metric[24];
    bool binary;
    int64_t n, b, c;               /* items, losses, gains (binary), changed up and down otherwise */
    double score_a, score_b, gap;  /* gap = score_b - score_a, negative = worse */
    double psi;                    /* share of items whose score changed */
    double sd;                     /* of item differences */
    infq_interval ci;              /* of the gap, confidence 1 - 2 alpha: Tango or t */
    double statistic, p_pass;      /* P of data as good as this if the gap were -margin */
    double p_fail;                 /* 1 - p_pass, as a tail of its own */
    infq_mcnemar mcnemar;          /* binary only, else NaN: is there any shift at all */
    infq_verdict verdict;
    int64_t more_items;            /* UNDECIDED: further items for the verdict at the present gap; -1: none would (gap = -margin) */
    int64_t more_items_no_gap;     /* the same if the true gap is 0 */
    bool expect_pass;              /* what they would most likely show */
} infq_gate_task;

/* From counts (binary). */
void infq_gate_binary(int64_t b, int64_t c, int64_t n, const infq_gate_options *o, infq_gate_task *out);
/* From item differences (graded). */
void infq_gate_graded(const double *d, int64_t n, const infq_gate_options *o, infq_gate_task *out);

/* Suite: equal weights, stratified item differences, normal reference. FAIL also when a single task fails after Holm's correction. */
typedef struct {
    int n_tasks;
    int64_t n;
    double gap, se, statistic, p_pass, p_fail;
    infq_interval ci;
    int worst;                     /* task with the smallest Holm-adjusted p_fail */
    double worst_p;
    infq_verdict verdict;
    int64_t more_items;            /* over all tasks, in the present proportions; -1 as above */
    bool expect_pass;
} infq_gate_suite;
infq_status infq_gate_combine(const infq_gate_task *t, int n, const infq_gate_options *o, infq_gate_suite *out, infq_err *err);

/* Pairs two item sets of one task and decides on `metric` (NULL: what the file says). MISMATCH with the first difference when they are not
 * comparable: task, tokenizer, settings, items missing or in other order, other requests. */
infq_status infq_gate_items(const infq_items *a, const infq_items *b, const char *metric, const infq_gate_options *o,
                            infq_gate_task *out, infq_err *err);

#endif
