/* Stored items of the two sides of a gate: files, folders, several runs. */
#ifndef INFQ_TOOLS_GATE_ITEMS_H
#define INFQ_TOOLS_GATE_ITEMS_H

#include "lib/eval/decide.h"
#include "tools/cmd_eval.h"

#define GATE_MAX_RUNS 64

/* One task of one side: its runs in the order given. */
typedef struct {
    char task[128];
    int n_runs;
    infq_items *runs[GATE_MAX_RUNS];
} gate_task_items;

typedef struct {
    int n;
    gate_task_items *tasks;      /* [EVAL_MAX_TASKS] */
    int n_paths;
    char **paths;                /* files read */
} gate_side;

/* Takes a file or every item file (*.jsonl, *.jsonl.gz) of a folder. Items of one task in several files are several runs of it, in order of the names: so
 * does a folder of sample logs of the reference harness, where the time stands in the name. May be called again for further runs. */
infq_status gate_side_add(gate_side *s, const char *path, const infq_items_options *o, infq_err *err);
void gate_side_free(gate_side *s);

/* Joins the sides task by task. MISMATCH names a task that one side lacks. Two sides of one task each are joined whatever they are called. */
infq_status gate_sides_pair(const gate_side *a, const gate_side *b, const infq_policy *p, infq_pair **pairs, int *n, infq_err *err);

#endif
