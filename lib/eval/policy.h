/* The policy of a gate: every number that a verdict depends on, in one small document that is written before the run.
 *
 * YAML or JSON (docs/cli/gate.md has every key). Whatever the spelling, the effective values, defaults and profile filled in, are written as one canonical
 * JSON object, and its SHA-256 is the policy's name in every report: two verdicts were made under one policy exactly when the hashes are equal. */
#ifndef INFQ_EVAL_POLICY_H
#define INFQ_EVAL_POLICY_H

#include "lib/base/json.h"
#include "lib/eval/gate.h"
#include "lib/eval/sequential.h"

#define INFQ_POLICY_MAX_TASKS 256

typedef enum { INFQ_STOP_BETTING, INFQ_STOP_OBRIEN_FLEMING, INFQ_STOP_POCOCK } infq_stop_rule;
const char *infq_stop_rule_name(infq_stop_rule r); /* "betting", "obrien-fleming", "pocock" */

typedef struct {
    char task[128], metric[24]; /* metric "": the items' own */
    double margin;              /* NAN: the policy's */
} infq_policy_task;

typedef struct {
    char name[64];              /* free text */
    char profile[16];           /* built-in one that it starts from */
    infq_gate_options gate;
    char metric[24];            /* for every task that names none; "": the items' own */
    int run_looks;              /* T1 may be looked at so often, each time at alpha / run_looks (specs 2.9) */
    infq_stop_rule stop;        /* of --sequential */
    int n_looks;                /* fractions of the items at which error spending looks */
    double looks[INFQ_MAX_LOOKS];
    uint64_t seed;              /* of the order of items */
    int n_tasks;                /* 0: whatever there is. Otherwise exactly these decide */
    infq_policy_task tasks[INFQ_POLICY_MAX_TASKS];
    char sha256[65];            /* of the canonical text; call infq_policy_seal after a change */
} infq_policy;

/* "default", "strict", "8-bit", "6-bit", "4-bit", "3-bit"; USAGE names them. The policy is too large for the stack: the caller's storage. */
infq_status infq_policy_builtin(const char *profile, infq_policy *out, infq_err *err);
/* FORMAT as "<path>:<line>: <key>: <rule>". */
infq_status infq_policy_load(const char *path, infq_policy *out, infq_err *err);
/* Checks values against each other (floor < cap, looks ascend, ...) and fills sha256. USAGE if they do not fit. */
infq_status infq_policy_seal(infq_policy *p, infq_err *err);
/* The canonical object. */
void infq_policy_write(const infq_policy *p, infq_jw *w);
/* The entry of a task, NULL if the policy lists tasks and this is none of them; a static entry with the policy's margin if it lists none. */
const infq_policy_task *infq_policy_find(const infq_policy *p, const char *task);
/* Metric that decides a task, NULL: what its items say. */
const char *infq_policy_metric(const infq_policy *p, const infq_policy_task *t);
/* Options for one task: its own margin. */
infq_gate_options infq_policy_options(const infq_policy *p, const infq_policy_task *t);

/* When a file came to be: its birth where the file system knows it and the content has not changed since, otherwise the last change; ns since 1970. */
infq_status infq_policy_written_ns(const char *path, int64_t *ns, infq_err *err);
/* The other end: birth of an items file where known, else last change (too late, so a policy is never called late without reason). */
infq_status infq_policy_run_began_ns(const char *path, int64_t *ns, infq_err *err);

#endif
