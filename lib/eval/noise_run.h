/* A model's runs on a task under class-R variation (specs 2.4): what the noise record (noise.h) is made from.
 *
 * The engine repeats itself bit by bit whatever the batch, the order of items and the threads, so that variation is declared:
 *
 *   orders     what servers do: activations, residual stream and cache in BF16 (or as told), and each run sums the products in another order, as
 *              kernels chosen by batch and prefix lengths do. F32 alone moves log-likelihoods by 1e-6; BF16 makes differences of one rounding out of it.
 *   roundoff   F32, each run with other seeded round-off of every sum into the residual stream (eps 2^-9, the half unit of BF16)
 *   repeat     nothing: the same numbers again with another batch; shows that the engine repeats itself
 *
 * Short cut (rule 6) for choices by log-likelihood: tau = standard deviation, over a pilot scored in runs 1 and 2, of the change of the difference between the two best
 * scores. Items whose difference in run 1 is at least 6 tau and twice the largest change of the pilot hardly ever change their pick; from run 2 on they are carried over
 * from run 1. In run 2 a sample of them is scored all the same: one that changes its metric switches the short cut off. */
#ifndef INFQ_EVAL_NOISE_RUN_H
#define INFQ_EVAL_NOISE_RUN_H

#include "lib/eval/noise.h"
#include "lib/eval/score.h"

typedef enum { INFQ_NOISE_ORDERS, INFQ_NOISE_ROUNDOFF, INFQ_NOISE_REPEAT } infq_noise_source;
const char *infq_noise_source_name(infq_noise_source s); /* "orders", "roundoff", "repeat" */
bool infq_noise_source_find(const char *name, infq_noise_source *out);

typedef struct {
    infq_noise_source source;
    int n_runs;              /* 10 */
    uint64_t seed;           /* runs have seeds seed + 0, 1, 2, ... */
    infq_elem activations;   /* BF16; NONE: F32. Residual stream and all else; not for ROUNDOFF */
    infq_elem kv;            /* BF16 */
    double roundoff;         /* ROUNDOFF: 2^-9 */
    int64_t limit;           /* documents from the first on; 0: all. The record knows the whole number */
    bool every_item;         /* no short cut */
    int64_t pilot, checked;  /* items of the pilot (200), carried-over items scored all the same (100) */
    infq_score_options score;
    const char *folder;      /* NULL, or where items of runs are kept and taken up: FOLDER/run-1.TASK.jsonl */
    const infq_log *log;
} infq_noise_options;
infq_noise_options infq_noise_options_default(void);

/* Numerics of run j (from 0), and its label: what infq_numerics_describe says, for REPEAT the batch. */
infq_numerics infq_noise_numerics(const infq_noise_options *o, int j);
void infq_noise_label(const infq_noise_options *o, int j, char *out, size_t cap);

/* The runs of one task. */
typedef struct {
    int n_runs;
    infq_items **items;      /* [n_runs], every document of every run, in order */
    int64_t n_full;          /* documents of the task without limit */
    double tau, near;        /* of the pilot; difference from which on items are carried over. NaN without a pilot */
    double rescored;         /* share of items that runs 2.. scored */
    int64_t n_checked, n_check_flips; /* carried-over items scored in run 2; of those, metric changed (then all were scored) */
    bool short_cut;
} infq_noise_runs;
void infq_noise_runs_free(infq_noise_runs *r);

/* key: of items without variation; a run's label goes behind its settings. The model's numerics are put back afterwards. */
infq_status infq_noise_run_task(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_noise_options *o,
                                const infq_item_key *key, infq_noise_runs *out, infq_err *err);
/* Whether a run gives equal bits when it is repeated with another batch and another number of threads: run 1 of the first `n` documents. */
infq_status infq_noise_repeats(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_noise_options *o, int64_t n,
                               bool *same, infq_err *err);

#endif
