/* The noise record: how much a model's own scores move from run to run (class R of specs 2.1), measured as specs 2.4 says. `infeval noise` makes it,
 * the gate reads it. One record is one model, one list of runs, any number of tasks.
 *
 * Making one: infq_noise_new(n_runs), labels and the header's fields filled in by the caller, then infq_noise_add_task once a task with the
 * items of every run (same items in the same order, scored under the run's variation); infq_noise_write. All figures of a task
 * follow from its items there, and again from its scores on reading: nothing but scores and flip rate is believed.
 *
 * What the gate takes from it (specs 2.6, T1):
 * - sd_full and n_runs - 1 degrees of freedom as s and nu of the criterion; the suite's by Satterthwaite;
 * - scores, when the compressed model has a record too: D and its standard error come from the runs of both. Runs are paired when both records
 *   have the same labels in the same order, all different; otherwise Welch. With one record, D comes from the items and is exact if
 *   the engine is `reproducible`; if it is not, T1 stays undecided;
 * - flip_rate as psi0 of the flips guard, self-noise of the distribution for the KL guard. */
#ifndef INFQ_EVAL_NOISE_H
#define INFQ_EVAL_NOISE_H

#include "lib/eval/item.h"
#include "lib/eval/stats.h"

#define INFQ_NOISE_MAX_RUNS 1000
#define INFQ_NOISE_MAX_TASKS 256

typedef struct {
    char task[128], task_digest[65], metric[24]; /* as in the items' key */
    int64_t n_items;    /* items of every run */
    int64_t n_full;     /* items of the whole task, n_ref of rule 3: fewer items must not widen the band */
    double *scores;     /* [n_runs] mean of the metric over the items; owned by the record */
    double flip_rate;   /* psi0: share of items whose metric differs, mean over all pairs of runs */
    double rescored;    /* share of items that later runs scored anew (rule 6), 1 = every item; written by the maker after add_task */
    /* derived from the above */
    double mean, sd;    /* over runs, n_runs - 1 */
    infq_interval sd_ci; /* 90 % by chi-square: sd * sqrt(nu / quantile(0.95)) .. sd * sqrt(nu / quantile(0.05)) */
    double limit;       /* repeatability limit z(0.975) sqrt(2) sd of ISO 5725, for n_items */
    double sd_full;     /* sd * sqrt(n_items / n_full): what the margin is made of */
} infq_noise_task;

typedef struct {
    /* of the model that was run; compared with the items' key as infq_item_key_differs does: "" is not known and matches all */
    char model[256], model_digest[65], tokenizer[65];
    char settings[192]; /* of a run without any variation, spelled as in the items' key: engine build, CPU level, BOS rule, ... */
    char source[64];    /* what varies, a word or two for reports: "numerics", "sampling seed", "stored runs" */
    bool reproducible;  /* the engine gives equal bits when a run is repeated as it was: variation was declared, it did not just happen */
    int n_runs;
    char (*labels)[128]; /* [n_runs] the variation of each run: infq_numerics_describe, "seed=7 batch=3 order=11", a file name */
    int n_tasks;
    infq_noise_task *tasks;
    /* self-noise of the distribution between two runs on one text (specs 1.5), NAN when not measured */
    double kld_mean, kld_p99, same_top;
} infq_noise;

/* n_runs >= 2; everything else zero, distribution NAN. */
infq_status infq_noise_new(int n_runs, infq_noise **out, infq_err *err);
void infq_noise_free(infq_noise *r);
/* Appends a task from the items of each run. metric NULL: what the items' key says. n_full 0: as many as there are. Takes task, digest and, if
 * still empty, tokenizer from the first run's key. MISMATCH when the runs do not hold the same items; NUMERIC for scores that are not finite. */
infq_status infq_noise_add_task(infq_noise *r, const infq_items *const *runs, const char *metric, int64_t n_full, infq_err *err);
/* By name of the task; NULL if there is none. */
const infq_noise_task *infq_noise_find(const infq_noise *r, const char *task);
/* true when the runs of both were made under one list of variations (see above). */
bool infq_noise_paired(const infq_noise *a, const infq_noise *b);

/* The suite's repeatability: tasks with equal weights w, sd = sqrt(sum w^2 sd_full^2), nu = (sum v)^2 / sum(v^2 / df). */
typedef struct {
    double sd, nu, limit;
    infq_interval sd_ci;
} infq_noise_suite;
infq_noise_suite infq_noise_suite_of(const infq_noise *r);

/* One JSON object, schema "infq.noise.v1" (docs/design/evaluation.md), newline at the end. */
infq_status infq_noise_write(const infq_noise *r, infq_buf *to, infq_err *err);
/* Reads one and derives its figures again. FORMAT names the key. */
infq_status infq_noise_load(const char *path, infq_noise **out, infq_err *err);

#endif
