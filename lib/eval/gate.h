/* The release gate (specs 2.6 to 2.10): is the compressed model's score indistinguishable from the original's own run-to-run noise?
 *
 * A task is asked two questions, with a margin each. T1 (band.h), fixed items: is the gap within the noise of the original's runs? T2, random
 * items: is a loss of the margin or more refuted (Tango's score test for 0/1 scores, paired or clustered t otherwise)? Guards (guard.h) may
 * take a pass back. FAIL if T1, T2 or a guard fails, PASS if all pass, otherwise undecided with what would decide. Pure functions of plain numbers;
 * nothing here runs a model. Not-a-number never passes. */
#ifndef INFQ_EVAL_GATE_H
#define INFQ_EVAL_GATE_H

#include "lib/eval/band.h"
#include "lib/eval/guard.h"
#include "lib/eval/item.h"
#include "lib/eval/noise.h"
#include "lib/eval/pair.h"
#include "lib/eval/pooling.h"
#include "lib/eval/stats.h"

const char *infq_verdict_name(infq_verdict v); /* "pass", "fail", "undecided" */
int infq_verdict_exit(infq_verdict v);         /* 0, 1, 6 */

/* What T1 rests on when the noise of the original was not measured. Measured noise (a record, or several runs of it) is always used. */
typedef enum {
    INFQ_NOISE_OPTIONAL,  /* a gap below the floor passes T1; nothing fails it, since one run against a bar would be a fixed bar on a subset */
    INFQ_NOISE_REQUIRED,  /* T1 stays undecided */
    INFQ_NOISE_FLOOR,     /* floor and cap decide, fails included (specs 2.6, "a declared bitwise reproducible engine with one run") */
    INFQ_NOISE_OFF        /* T1 is not asked, measured or not: the margin is policy alone */
} infq_noise_use;

typedef enum { INFQ_WEIGHTS_EQUAL, INFQ_WEIGHTS_SIZE } infq_gate_weights;

typedef struct {
    double margin;   /* T2: of the gap, a positive fraction: 0.01 */
    double alpha;    /* one-sided level: 0.05 */
    double power;    /* of the plan for more items: 0.8 */
    infq_band_options band;
    infq_noise_use noise;
    infq_gate_weights weights;
    bool strict;        /* a suite passes only when every task passes */
    bool strict_detect; /* a shift that is measurable takes a pass back */
    bool reproducible;  /* the engine is declared to be bitwise reproducible; items of infeval are, whatever this says */
    infq_guard_limits guards;
    uint32_t require;   /* bit k: guard of kind k must have been measured */
} infq_gate_options;
infq_gate_options infq_gate_options_default(void);

/* Comparison of one task's items. */
typedef struct {
    char task[128], metric[24];
    bool binary;
    int64_t n, b, c;               /* items, losses, gains (binary), changed down and up otherwise */
    int64_t n_clusters;            /* = n when items stand alone */
    int runs_a, runs_b;            /* runs behind the items' scores */
    double score_a, score_b, gap;  /* gap = score_b - score_a, negative = worse */
    double se_a, se_b;             /* of the scores alone, over items */
    double psi, psi0;              /* share of items whose score changed; of the original against itself, NAN: not known */
    infq_pair_mark invalid, truncated; /* generated answers */
    double sd, se;                 /* of item differences, of the gap over items */
    infq_interval ci;              /* of the gap over items, confidence 1 - 2 alpha: Tango or t */
    double statistic, p_pass;      /* P of data as good as this if the gap were -margin */
    double p_fail;                 /* 1 - p_pass, as a tail of its own */
    double p_exact;                /* of the side that Tango's test was for, by the exact test, where few items changed; NAN otherwise */
    infq_mcnemar mcnemar;          /* binary only, else NAN: is there any shift at all */
    double p_shift;                /* two-sided p of "no shift": over runs, else McNemar, else sign flips */
    double p_degradation;          /* one-sided: McNemar or sign flips */
    double p_labels;               /* two-sided, runs that are not paired with their labels drawn anew; NAN without */
    infq_crossed crossed;          /* items by runs (pair.h) */
    infq_interval bootstrap;       /* of the gap, graded scores whose items stand alone: percentiles of 2,000 resamples; NAN otherwise */
    infq_verdict t2;
    bool band_asked;
    infq_band band;                /* T1; band.limit is the noise limit of the task */
    infq_guards guards;
    infq_verdict verdict;          /* of the task */
    int64_t more_items;            /* T2 undecided: further items for it at the present gap; -1: none would (gap = -margin) */
    int64_t more_items_no_gap;     /* the same if the true gap is 0 */
    bool expect_pass;              /* what they would most likely show */
    int runs_needed;               /* T1 undecided: runs a side that would decide it (band.h), 0: none below 400 or not known */
    infq_verdict runs_expected;
} infq_gate_task;

/* T2's verdict from counts: Tango's test, which fewer than 100 changed items must confirm by the exact test (exact.h). Its p goes to *p_exact (NAN where
 * it had no say). */
infq_verdict infq_gate_t2(int64_t b, int64_t c, int64_t n, double margin, double alpha, double *p_exact);
/* T2 from counts (binary). */
void infq_gate_binary(int64_t b, int64_t c, int64_t n, const infq_gate_options *o, infq_gate_task *out);
/* The same without the plan for more items and McNemar's test. For simulations. */
void infq_gate_binary_quick(int64_t b, int64_t c, int64_t n, const infq_gate_options *o, infq_gate_task *out);
/* T2 from item differences (graded); cluster NULL: every item alone. */
infq_status infq_gate_graded(const double *d, const int64_t *cluster, int64_t n, const infq_gate_options *o, infq_gate_task *out,
                             infq_err *err);
/* The same without the permutation test: p_shift and p_degradation are NAN. For simulations. */
infq_status infq_gate_graded_quick(const double *d, const int64_t *cluster, int64_t n, const infq_gate_options *o, infq_gate_task *out,
                                   infq_err *err);
/* A whole task: T2, T1 as runs and records allow, guards. noise_a, noise_b: records of the two models or NULL; MISMATCH when one was made with another
 * model, task file, tokenizer or setting. n_tasks: how many the suite has (level of the flips guard). */
infq_status infq_gate_pair(const infq_pair *p, const infq_noise *noise_a, const infq_noise *noise_b, bool paired_runs, int n_tasks,
                           const infq_gate_options *o, infq_gate_task *out, infq_err *err);

/* Verdict of a task anew from t2, band and guards. */
void infq_gate_conclude(infq_gate_task *t, const infq_gate_options *o);

/* Variance of a task's mean difference. A task without one change has none by the formula; its score variance at the margin stands in, so
 * that few items without change do not count as certainty. */
double infq_gate_task_var(const infq_gate_task *t, const infq_gate_options *o);

/* Why the suite's verdict is what it is: the first of these that holds. */
typedef enum {
    INFQ_GATE_T1,        /* decides by T1: fail, or undecided */
    INFQ_GATE_T2,
    INFQ_GATE_TASK,      /* task `worst` fails after correction (fail), or before it, or is undecided under `strict` (undecided) */
    INFQ_GATE_GUARD,     /* guard `guard` of the suite, or of task `worst` */
    INFQ_GATE_SHIFT,     /* undecided: measurable shift under `strict_detect` */
    INFQ_GATE_MISSING,   /* undecided: something that the policy requires was not measured */
    INFQ_GATE_ALL        /* pass */
} infq_gate_reason;
const char *infq_gate_reason_name(infq_gate_reason r);

/* Suite: stratified item differences with normal reference (T2), T1 on the weighted sum of tasks, guards over all items. FAIL also when a single task
 * fails after Holm's correction. A suite of one is that task. */
typedef struct {
    int n_tasks;
    int64_t n, b, c;
    double score_a, score_b, gap, se, statistic, p_pass, p_fail;
    infq_group_se group_a, group_b; /* errors of the two scores alone */
    infq_interval ci;
    infq_verdict t2;
    bool band_asked;
    infq_band band;
    infq_guards guards;
    int worst;                     /* task with the smallest Holm-adjusted p of failing */
    double worst_p;
    int most_variance;             /* task that contributes most to se^2 */
    double variance_share;
    double p_degradation;          /* over items, Stouffer's sum of the tasks' (mid-)p: is there any loss at all */
    bool shift;                    /* measurable: p_degradation, or band.p_shift over runs, below alpha */
    infq_verdict verdict;
    infq_gate_reason reason;
    int guard;                     /* index in guards (of the suite, or of task worst), -1 */
    const char *missing;           /* MISSING: what, as the policy spells it */
    int64_t more_items;            /* T2 undecided: over all tasks, in the present proportions; -1 as above */
    bool expect_pass;
    int runs_needed;               /* T1 undecided: as for a task */
    infq_verdict runs_expected;
} infq_gate_suite;
/* T2 of the suite as a rule that stopped early decided it (stopping.h); p are those of any time, or NAN. */
typedef struct {
    infq_verdict t2;
    double p_pass, p_fail;
} infq_gate_stopped;
/* distance NULL: not measured. stopped NULL: T2 from the items, of a size that was fixed beforehand. */
infq_status infq_gate_combine(const infq_gate_task *t, int n, const infq_distance *distance, const infq_gate_stopped *stopped,
                              const infq_gate_options *o, infq_gate_suite *out, infq_err *err);

/* Pairs two item sets of one task and decides on `metric` (NULL: what the file says), without noise records. MISMATCH with the first difference when
 * they are not comparable (pair.h). */
infq_status infq_gate_items(const infq_items *a, const infq_items *b, const char *metric, const infq_gate_options *o,
                            infq_gate_task *out, infq_err *err);

#endif
