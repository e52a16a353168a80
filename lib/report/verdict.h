/* A gate's verdict as people and programs read it: plain words first, then the numbers that decided. */
#ifndef INFQ_REPORT_VERDICT_H
#define INFQ_REPORT_VERDICT_H

#include "lib/base/json.h"
#include "lib/eval/group.h"
#include "lib/eval/policy.h"
#include "lib/eval/stopping.h"

typedef struct {
    const char *original, *compressed;   /* names or paths, for the JSON */
    const infq_gate_task *tasks;         /* [suite->n_tasks] */
    const infq_gate_suite *suite;
    const infq_policy *policy;
    const char *policy_path;             /* NULL: built in */
    int policy_late;                     /* 1: written after the run began, 0: before, -1: not known */
    const char *noise_source;            /* what varied in the noise record, NULL without one */
    const infq_stop *stop;               /* early stopping, NULL: fixed size */
    char (*left_out)[128];               /* tasks that the policy does not list */
    int n_left_out;
    const infq_group_gap *groups;        /* [n_groups] of groups among the tasks; they decide nothing */
    int n_groups;
} infq_verdict_view;

/* One line: "PASS: the compressed model loses 0.1 points (90 % interval -0.4 to +0.2); the original's own run-to-run noise is +-0.6". */
void infq_verdict_sentence(const infq_verdict_view *v, infq_buf *to);
/* The sentence and below it what decided, indented. */
void infq_verdict_text(const infq_verdict_view *v, infq_buf *to);
/* Table of tasks: head, one line each; then groups. */
void infq_verdict_table(const infq_verdict_view *v, infq_buf *to);
/* Members "tasks", "suite", "groups" (if any), "policy", "stop", "summary" (the sentence), "reasons" (what decided, a line each), "verdict" of an open object. */
void infq_verdict_json(const infq_verdict_view *v, infq_jw *w);
/* Members "tasks" and "suite" alone. */
void infq_verdict_numbers_json(const infq_verdict_view *v, infq_jw *w);

#endif
