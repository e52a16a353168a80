/* Scores of groups: subjects of MMLU, paradigms of BLiMP, entries of a suite.
 *
 * A group's score is sum_k w_k x_k over its tasks: w_k = n_k / N where the manifest says `mean: items` (as the reference harness does for MMLU: every
 * question counts alike, its weight_by_size), 1 / K for `mean: tasks` (BLiMP: the mean of its paradigms). A suite is the mean of its entries, and an entry
 * that is a group counts once, with its own mean.
 *
 * Tasks are strata: they are given, and only their items are samples, independent from task to task. So SE^2 = sum_k w_k^2 SE_k^2 (Cochran, Sampling
 * Techniques, 3rd ed. 1977, theorem 5.3), which keeps each task's own error, clusters and pairing included; for paired gaps SE_k is that of the item
 * differences (specs 2.6, suite). The interval is normal, gap +- z_(1-alpha) SE. Beside it stands what the reference harness prints, its pooled
 * sqrt(sum_k (n_k - 1) n_k SE_k^2 / (N - K) / N) (specs 1.3), which throws the items together: equal up to terms of 1 / n_k for `mean: items`. Neither says
 * how scores would vary over other subjects or paradigms. */
#ifndef INFQ_EVAL_GROUP_H
#define INFQ_EVAL_GROUP_H

#include "lib/eval/gate.h"
#include "lib/eval/manifest.h"

typedef enum { INFQ_GROUP_GROUP, INFQ_GROUP_SUBGROUP, INFQ_GROUP_SUITE } infq_group_kind;

typedef struct {
    char name[128];
    infq_group_kind kind;
    infq_mean mean;        /* TASKS for a suite: of its entries */
    int n, of;             /* tasks at hand, of how many that the group has */
    int n_entries;         /* SUITE: entries with a task at hand; else n */
    int64_t n_items;
    int *task;             /* [n] indices into the list of tasks */
    int64_t *items;        /* [n] */
    double *weight;        /* [n] sum 1 */
} infq_group;

typedef struct {
    int n;
    infq_group *g;
} infq_groups;

/* What infq_groups_find knows of each task. */
typedef struct {
    const char *name;      /* as manifests call it */
    int64_t items;         /* scored */
    int suite, entry;      /* place in `suites` and in its list; -1: in none */
} infq_group_task;

/* Groups that say how they are averaged and suites of two entries or more, of which at least two tasks are at hand: groups in the order of their first
 * task, a group before its subgroups, suites last. suites: names, n_suites of them. infq_groups_free afterwards, also after failure. */
infq_status infq_groups_find(const infq_catalog *c, const infq_group_task *t, int n, const char *const *suites, int n_suites, infq_groups *out,
                             infq_err *err);
void infq_groups_free(infq_groups *s);

/* From the members' means and standard errors, [n of the list of tasks]. */
typedef struct {
    double mean, se, pooled;
} infq_group_score;
infq_group_score infq_group_score_of(const infq_group *g, const double *mean, const double *se);

/* Gap between two models on a group. */
typedef struct {
    const infq_group *group;
    int64_t n, b, c;       /* items, losses, gains */
    double score_a, score_b, gap, se;
    infq_interval ci;      /* confidence 1 - 2 alpha */
} infq_group_gap;
/* t[i]: the comparison of task i of the list, NULL when there is none. false: a member has none. */
bool infq_group_gap_of(const infq_group *g, const infq_gate_task *const *t, const infq_gate_options *o, infq_group_gap *out);

/* "57 tasks, by items"; "8 of 67 tasks, each alike"; "5 entries, each alike" */
void infq_group_words(const infq_group *g, char *out, size_t cap);

#endif
