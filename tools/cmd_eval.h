/* Shared by the files of infeval: options, what was measured, reports. */
#ifndef INFQ_TOOLS_CMD_EVAL_H
#define INFQ_TOOLS_CMD_EVAL_H

#include "lib/base/json.h"
#include "lib/eval/decide.h"
#include "lib/eval/generate_task.h"
#include "lib/eval/group.h"
#include "lib/eval/kld.h"
#include "lib/eval/ppl.h"
#include "lib/eval/reference.h"
#include "lib/report/verdict.h"
#include "tools/cmd.h"

#define EVAL_NAME "infeval"
#define EVAL_MAX_MODELS 16
#define EVAL_MAX_TASKS 256
#define EVAL_MAX_TEXTS 16
#define EVAL_MAX_SUITES 16

typedef struct {
    opt_list tasks, data, ppl, metrics, references, benches;
    const char *convention, *bos, *metric, *items, *backend; /* convention NULL: the task's, gptq for files */
    const char *chat, *system, *reasoning, *export, *server, *model, *tokenizer; /* of generation; a server in place of models */
    int64_t max_tokens, top_k, seed, parallel, retries, timeout;
    double temperature, top_p, rate;
    int64_t window, tokens, limit, batch, threads;
    int64_t shots, fewshot_seed, rotate; /* infq_task_options; -1, -1, 0 unless asked */
    infq_task_format format;
    opt_list noise;
    const char *policy, *profile;
    double margin, alpha, power;   /* NAN: the policy's */
    bool sequential, skip_missing, speed, json, quiet;
} eval_options;

/* How a text's file becomes documents: whole, WikiText as the convention reads it, so many lines each. */
typedef enum { EVAL_FORM_PLAIN, EVAL_FORM_WIKI, EVAL_FORM_LINES } eval_form;

/* A text for perplexity or KL divergence. */
typedef struct {
    char name[512], path[4096];     /* name: of the task, or the path */
    eval_form form;
    infq_ppl_convention convention;
    int64_t window, tokens, limit, lines;
    bool ppl, kld;
    infq_reference *reference;      /* a stored original: every model is compared with it */
    infq_ppl_result result[EVAL_MAX_MODELS];
    double ln_ratio[EVAL_MAX_MODELS], ln_ratio_se[EVAL_MAX_MODELS]; /* against model 0 */
    int64_t n_pairs;
    infq_kld_result distance[EVAL_MAX_MODELS];
} eval_text;

typedef struct {
    infq_task *task;
    infq_items *items[EVAL_MAX_MODELS];
    int32_t first_ids[8];                   /* what the first item's input begins with */
    int n_first_ids;
    int suite, entry;                       /* the suite that named it, from 1 (0: none), and its place there */
} eval_task;

/* What a model costs; NAN where nobody measured. */
typedef struct {
    double bytes, bits;                /* of the stored tensors; bits per weight */
    double decode, prefill, ttft_p90;  /* tokens a second, ms */
} eval_cost;

/* Two models next to each other in size, neither of them the first: is the larger one worth it? */
typedef struct {
    int smaller, larger;
    infq_gate_task *tasks;             /* [n_tasks] larger against smaller; owned */
    infq_gate_suite suite;
} eval_neighbours;

typedef struct {
    const eval_options *o;
    const infq_log *log;
    infq_catalog *catalog;
    infq_policy policy;
    int policy_late;                        /* as infq_verdict_view */
    infq_noise *noise[EVAL_MAX_MODELS];     /* records of the models, NULL where there is none */
    int n_models, n_tasks, n_texts;
    const char *paths[EVAL_MAX_MODELS];
    char names[EVAL_MAX_MODELS][128];
    char tokenizer[EVAL_MAX_MODELS][65], digest[EVAL_MAX_MODELS][65];
    eval_task tasks[EVAL_MAX_TASKS];
    eval_text texts[EVAL_MAX_TEXTS];
    infq_decision decision[EVAL_MAX_MODELS]; /* of model i against model 0 */
    char suites[EVAL_MAX_SUITES][128];      /* that --tasks named */
    int n_suites;
    infq_groups groups;
    infq_group_gap *gaps[EVAL_MAX_MODELS];  /* of model i against model 0; owned */
    int n_gaps[EVAL_MAX_MODELS];
    infq_schedule *schedule;                /* of --sequential, with the rule that stopped */
    infq_stopper *stopper;
    eval_cost cost[EVAL_MAX_MODELS];
    bool front[EVAL_MAX_MODELS];
    eval_neighbours near[EVAL_MAX_MODELS];
    int n_near;
    infq_bos bos;
    infq_ppl_convention convention;
    char settings[192];
} eval_run;

/* A model with all it stands on (cmd_eval_model.c). */
typedef struct {
    infq_checkpoint *ck;
    infq_model *model;
    infq_tokenizer *tok;
    char digest[65];        /* "" unless asked for */
} eval_model;
infq_status eval_model_open(const char *path, infq_backend *be, const infq_log *log, bool digest, eval_model *out, infq_err *err);
void eval_model_close(eval_model *l);
/* Last part of a path without trailing slashes. */
void eval_model_name(const char *path, char *out, size_t cap);

/* Everything but the model that a score depends on, as it stands in item files: files with another text are not compared. */
void eval_settings(const infq_backend *be, const char *bos, char *out, size_t cap);
infq_status eval_bos_find(const char *name, infq_bos *out, infq_err *err);

/* cmd_eval_tasks.c: opens what --tasks names into r (its o, log, convention are set), r->o->limit documents each; texts too. */
infq_status eval_tasks_add(eval_run *r, const opt_list *list, bool kld, infq_err *err);
infq_status eval_text_add(eval_run *r, const char *item, bool ppl, bool kld, infq_err *err);
infq_status eval_catalog_need(eval_run *r, infq_err *err);
/* Data folders: --data, then INFQ_DATA, then ./data and ./evals. The parts of INFQ_DATA live in env. */
#define EVAL_MAX_DIRS 80
typedef struct {
    const char *v[EVAL_MAX_DIRS];
    char env[4096];
    infq_data_dirs dirs;
} eval_dirs;
void eval_dirs_of(const opt_list *given, eval_dirs *out);
/* fn on every task that a name means: a task, group or suite, or a manifest file, which is read in. */
typedef infq_status (*eval_manifest_fn)(void *ctx, const infq_manifest *m, infq_err *err);
infq_status eval_catalog_each(infq_catalog *c, const char *name, eval_manifest_fn fn, void *ctx, infq_err *err);
/* cmd_eval_write.c: a generation task's text by a model (l), or by a server if that is not NULL. open appends what its items depend on to
 * settings. */
typedef struct {
    infq_writer by;
    infq_chat *chat;
    infq_generate_task_options o;
} eval_writing;
infq_status eval_writing_open(const eval_run *r, int m, const eval_model *l, infq_server *server, const infq_task *task, eval_writing *out,
                              char *settings, size_t cap, infq_err *err);
void eval_writing_close(eval_writing *w);
/* Completions of --export, when all is scored. */
infq_status eval_export(const eval_run *r, infq_err *err);
/* Scores the tasks of r on the server that the options name, as model 0. */
infq_status eval_server_measure(eval_run *r, infq_err *err);

/* cmd_eval.c: the items of model m and task t, what is stored taken over, the rest scored by l or the server; frees r too. */
infq_status eval_score_one(eval_run *r, int m, const eval_model *l, infq_server *server, eval_task *t, infq_err *err);
void eval_run_free(eval_run *r);

/* cmd_eval_report.c */
infq_status eval_report_text(const eval_run *r, infq_buf *to, infq_err *err);
infq_status eval_report_json(const eval_run *r, infq_buf *to, infq_err *err);
/* Model m against the first, as reports want it. */
infq_verdict_view eval_verdict_view(const eval_run *r, int m);

/* gate_args.c: what `infeval A B` and `infeval gate` share.
 * Policy of --policy FILE, or of --profile NAME (NULL: default) with the numbers that are not NAN in place of its own. USAGE for both. */
infq_status gate_policy(const char *file, const char *profile, double margin, double alpha, double power, const char *metric,
                        bool reproducible, infq_policy *out, infq_err *err);
/* *late: 1 when the policy file was written after the first of the runs' item files came to be, 0 if not; untouched without a file. */
infq_status gate_policy_late(const char *policy, const char *const *items, int n_items, int *late, infq_err *err);
/* Records of --noise: one by the digest of its model, or in the order original, compressed where digests are not known. */
infq_status gate_noise_load(const opt_list *files, const char *digest_a, const char *digest_b, infq_noise **a, infq_noise **b,
                            infq_err *err);

/* cmd_eval_many.c: sizes of model m and, with --speed, its speed; speeds of --bench files; after all models are scored the front and the
 * neighbours in size. eval_many_text: one table of all models. */
infq_status eval_cost_measure(eval_run *r, int m, const eval_model *l, infq_backend *be, const infq_log *log, infq_err *err);
infq_status eval_many_compare(eval_run *r, infq_err *err);
void eval_many_free(eval_run *r);
void eval_many_text(const eval_run *r, infq_buf *to);
infq_status eval_many_json(const eval_run *r, infq_jw *w, infq_err *err);
void eval_cost_json(const eval_cost *c, infq_jw *w);
/* Mean of the metrics that decide, NAN without tasks. */
double eval_mean_score(const eval_run *r, int m);

/* cmd_eval_groups.c: groups and suites among the tasks, when all is scored; gaps on them, when all is decided; their lines and the JSON's "groups". */
infq_status eval_groups_find(eval_run *r, infq_err *err);
infq_status eval_groups_compare(eval_run *r, infq_err *err);
infq_status eval_groups_text(const eval_run *r, infq_buf *to, infq_err *err);
infq_status eval_groups_json(const eval_run *r, infq_jw *w, infq_err *err);

/* cmd_eval_import.c */
int cmd_eval_import(int argc, char **argv);

/* cmd_eval_report_page.c */
int cmd_eval_report_page(int argc, char **argv);

/* cmd_eval_gate.c */
int cmd_eval_gate(int argc, char **argv);
/* cmd_eval_plan.c */
int cmd_eval_plan(int argc, char **argv);
/* cmd_eval_simulate.c */
int cmd_eval_simulate(int argc, char **argv);

/* cmd_eval_sequential.c: all tasks of model 0 and model 1, in turn, until the policy's rule stops; items are then in r, in the order of the schedule. */
infq_status eval_sequential(eval_run *r, const eval_model *a, const eval_model *b, const infq_log *log, infq_err *err);
/* cmd_eval.c: opens the items (and their file) of model m and task t; then scores it with `so`'s order and hook. */
infq_status eval_items_open(eval_run *r, int m, const eval_model *l, eval_task *t, const char *settings, infq_item_log **out,
                            infq_err *err);

/* cmd_eval_texts.c: perplexity of model m on the texts of r, its distance from base or from a stored original. With --items every window is kept in
 * an item file NAME.ppl or NAME.kld, and what is there is not measured again. */
infq_status eval_texts_measure(eval_run *r, int m, const eval_model *base, const eval_model *l, const infq_log *log, infq_err *err);
/* cmd_eval.c: path of the item file called name (a task's) of model m; makes the folders. */
infq_status eval_items_path(const eval_run *r, int m, const char *name, char *out, size_t cap, infq_err *err);

/* cmd_eval_reference.c */
int cmd_eval_reference(int argc, char **argv);
/* cmd_eval_diagnose.c */
int cmd_eval_diagnose(int argc, char **argv);
/* cmd_eval_noise.c */
int cmd_eval_noise(int argc, char **argv);
/* cmd_eval_perturb.c */
int cmd_eval_perturb(int argc, char **argv);
/* cmd_eval_list.c */
int cmd_eval_list(int argc, char **argv);
/* cmd_eval_fetch.c */
int cmd_eval_fetch(int argc, char **argv);

#endif
