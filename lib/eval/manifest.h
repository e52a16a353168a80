/* Task manifests: what a task is made of, as YAML (docs/format/task.md has every key). The files of evals/ are compiled in; users read in their own.
 *
 * A manifest names where a data file lies below the user's data folders, never a machine's path. One document may stand for many tasks: `variants`
 * is a list of variables, and ${name} in any text is replaced by each in turn. */
#ifndef INFQ_EVAL_MANIFEST_H
#define INFQ_EVAL_MANIFEST_H

#include "lib/base/yaml.h"
#include "lib/eval/rows.h"

typedef enum {
    INFQ_TASK_CHOICE,   /* the likeliest of several continuations */
    INFQ_TASK_TARGET,   /* one continuation: log-likelihood, greedy or not */
    INFQ_TASK_TEXT,     /* perplexity of running text */
    INFQ_TASK_GENERATE  /* text from the model, compared with a target */
} infq_task_kind;
extern const char *const infq_task_kind_names[]; /* by kind, NULL at the end */

/* What the score of a group (and subgroup) is: nothing, the mean over all its items ("items"), the mean of its tasks' scores ("tasks"). */
typedef enum { INFQ_MEAN_NONE, INFQ_MEAN_ITEMS, INFQ_MEAN_TASKS } infq_mean;

/* Templates (lib/io/prompt.h) and rules that turn a row into requests. NULL: not given. Borrowed from the manifest. */
typedef struct {
    const char *description;   /* in front of everything, with its own blank lines */
    const char *context;       /* one for all choices ... */
    const cJSON *contexts;     /* ... or one for each: a list of templates, or a template that gives a list */
    const cJSON *options;      /* answers as other templates see them ({{options[0]}}): as contexts */
    const cJSON *choices;      /* what is scored: as contexts; NULL: the options */
    const char *target;        /* TARGET, GENERATE: the answer */
    const char *gold;          /* index (number, text of one, true and false), or a list of 0 and 1, one a choice */
    const char *answer;        /* instead of gold: the entry of `labels` that is right */
    const char *labels;
    const char *delimiter;     /* between context and continuation, scored; a template whose text "auto" means: a blank, unless the context is
                                * empty or ends, or the choice begins, with white space */
    const char *cluster;       /* text that items share which are not independent of each other (a passage), or NULL */
    const char *id;            /* text that two rows may not share; "" is shared freely */
    bool by_context;           /* lengths that acc_norm divides by are those of the contexts */
    int clean;                 /* 0 none, 1 "wikihow": HellaSwag's cleaning of contexts and choices */
} infq_task_prompt;

/* One file of a split; of several the first that is there is taken. */
typedef struct {
    const char *path;          /* below a data folder; ".gz" may stand behind it there */
    const char *url;           /* NULL: not to be fetched */
    const char *sha256;        /* of the content (unpacked); NULL only in users' manifests */
    const char *join_path, *join_url, *join_sha256, *join_field; /* a second file: line i becomes a field of row i. Or NULL */
    int64_t items;             /* rows; 0: unknown */
    int64_t from, to;          /* of these the rows [from, to) belong to the split; to 0: up to the end */
    infq_rows_options rows;
    const cJSON *detect;       /* fields that tell such rows from others (STRS); NULL: cannot be told */
    const cJSON *prompt;       /* keys that replace those of the task, or NULL */
    const char *begin, *end;   /* GENERATE and few-shot texts: the part of the file between these, NULL: all */
    int64_t line;
} infq_task_file;

typedef struct {
    const char *name;          /* "test" */
    infq_task_file *files;
    int n_files;
} infq_task_split;

typedef struct {
    const char *split;         /* rows that examples come from; NULL: none */
    const char *text;          /* split whose text stands in front as it is (fixed examples); NULL: none */
    int64_t count;             /* examples when the user says nothing */
    int order;                 /* 0 "first": the first rows in file order, 1 "random": drawn for each item */
    int64_t seed;              /* of random */
    const char *separator;     /* behind the text and each example */
} infq_task_fewshot;

typedef struct {
    const cJSON *stop;         /* STRS */
    int64_t max_tokens;
    const char *extract;       /* how answers are taken and judged: a row of lib/eval/answer.h */
    const char *pattern;       /* extract "regex": the expression, */
    int pick;                  /* 0 its first, 1 its last match, */
    const cJSON *ignore;       /* STRS: expressions that both sides lose, */
    bool ignore_case, ignore_punctuation;
    bool any;                  /* the target is a JSON list, one of it is enough */
    bool chat;                 /* the context is a user's message, put into the model's chat template */
} infq_task_generate;

typedef struct {
    int form;                  /* infq_corpus_form by name: "plain", "lines", "wiki" */
    const char *convention;    /* of perplexity: infq_ppl_find */
    int64_t window, tokens;    /* 0: the convention's, all */
    int64_t lines;             /* form "lines": so many lines that are not blank, joined by newlines, are a document */
} infq_task_text;

typedef struct {
    infq_yaml *yaml;           /* owner of all texts */
    const char *name, *group, *subgroup, *about, *language, *source, *home, *licence, *metric, *split;
    const char *called;        /* template of the name when a user's own file is read by this manifest, or NULL */
    infq_task_kind kind;
    int mean;                  /* infq_mean: how the group's score is made from its tasks' */
    infq_task_prompt prompt;
    infq_task_fewshot fewshot;
    infq_task_generate generate;
    infq_task_text text;
    const cJSON *vars;         /* fields that templates see besides the row's: the variant */
    infq_task_split *splits;
    int n_splits;
    char folder[512];          /* of the file that it was read from, "" when compiled in: a data folder too */
} infq_manifest;

/* A named list of tasks with settings. */
typedef struct {
    const char *task;          /* of a manifest or group */
    int64_t limit, tokens;     /* 0: all */
    int64_t shots;             /* -1: the manifest's */
    int64_t line;
} infq_suite_entry;
typedef struct {
    infq_yaml *yaml;
    const char *name, *about;
    infq_suite_entry *entries;
    int n_entries;
} infq_suite;

typedef struct infq_catalog infq_catalog;
/* Holds the compiled-in manifests and suites. */
infq_status infq_catalog_new(infq_catalog **out, infq_err *err);
void infq_catalog_free(infq_catalog *c);
/* Adds what a YAML text says. FORMAT names file, line and key; a name that is there already is refused. folder: where the file lies ("" unknown). */
infq_status infq_catalog_add(infq_catalog *c, const char *text, size_t n, const char *what, const char *folder, infq_err *err);
infq_status infq_catalog_load(infq_catalog *c, const char *path, infq_err *err);
int infq_catalog_count(const infq_catalog *c);
const infq_manifest *infq_catalog_get(const infq_catalog *c, int i);
const infq_manifest *infq_catalog_find(const infq_catalog *c, const char *name);  /* NULL if absent */
int infq_catalog_suite_count(const infq_catalog *c);
const infq_suite *infq_catalog_suite_get(const infq_catalog *c, int i);
const infq_suite *infq_catalog_suite_find(const infq_catalog *c, const char *name);
/* Nearest name of a task, group or suite, or NULL. */
const char *infq_catalog_nearest(const infq_catalog *c, const char *name);

/* k = 0, 1, 2: name, group, subgroup; NULL where there is none. */
const char *infq_manifest_name(const infq_manifest *m, int k);
/* Belongs to a group or subgroup of that name. */
bool infq_manifest_in(const infq_manifest *m, const char *group);
const infq_task_split *infq_manifest_split(const infq_manifest *m, const char *name); /* NULL if absent */
/* The prompt with the keys that a file replaces. FORMAT as above. */
infq_status infq_manifest_prompt(const infq_manifest *m, const infq_task_file *f, infq_task_prompt *out, infq_err *err);

/* Folders in which data files are looked for, in order. */
typedef struct {
    const char *const *v;
    int n;
} infq_data_dirs;
/* Path of the first file of the split that is there, and which; also below the manifest's own folder. infq_mem_free. NOT_FOUND says where it
 * can be had and its hash. */
infq_status infq_manifest_locate(const infq_manifest *m, const infq_task_split *s, const infq_data_dirs *dirs, char **path,
                                 const infq_task_file **file, infq_err *err);

/* MISMATCH when the file's content has another hash than the manifest says. */
infq_status infq_manifest_check(const infq_task_file *f, const char *path, infq_err *err);

/* Generated from evals/ by the Makefile: name and text of each file, NULL name at the end. */
typedef struct {
    const char *name;
    const unsigned char *text;
    size_t n;
} infq_builtin;
extern const infq_builtin infq_builtin_manifests[];

#endif
