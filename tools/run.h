/* infq run: kinds of steps (run_kinds.c), carrying one out (run_step.c), the whole (cmd_run.c). */
#ifndef INFQ_TOOLS_RUN_H
#define INFQ_TOOLS_RUN_H

#include "lib/recipe/contents.h"
#include "lib/recipe/journal.h"
#include "lib/recipe/recipe.h"
#include "tools/cmd.h"

#define RUN_NAME "infq run"
#define RUN_MAX_KEYS 96

/* A kind of step is a command: its option table is the step's schema, its exit code the step's outcome, what it prints with --json its result. */
typedef struct {
    const char *name;
    const opt_spec *spec;
    int (*run)(int argc, char **argv);
    const char *arguments;   /* names of the positional arguments, in order: "model", "models...", "original compressed" */
    const char *inputs;      /* options and arguments that name files or folders to read */
    const char *outputs;     /* those that are written; "items=.items": to RUN/NAME.items unless the recipe says otherwise */
    bool json;               /* has --json */
    bool plans;              /* has --dry-run */
    bool force;              /* has --force */
    bool stops;              /* fail or undecided ends the recipe */
    bool fresh;              /* is never taken from an earlier run: it tells of the run itself */
    bool gathers;            /* does with the inputs that are there */
    infq_status (*depends)(const infq_recipe_step *s, char hex[65], infq_err *err); /* on more than its arguments and inputs; NULL: no */
    void (*tell)(const cJSON *result, infq_buf *to); /* what came out, in a few words */
} run_kind;

int run_kind_count(void);
const run_kind *run_kind_of(const infq_recipe_step *s);
/* The kinds as recipes read them, in the order of the table. */
infq_status run_kinds_new(infq_recipe_kind **out, infq_err *err);
void run_kinds_free(infq_recipe_kind *k);
/* The arguments are what the command would accept: numbers whole and in range, no unknown words. Nothing is run. */
infq_status run_step_check(const infq_recipe_step *s, infq_err *err);
/* run_digest.c: SHA-256 of tasks' names and contents, of the texts among them. */
infq_status run_tasks_digest(const infq_recipe_step *s, char hex[65], infq_err *err);

typedef struct {
    const infq_recipe *recipe;
    infq_contents *contents;
    infq_journal *journal;
    char build[65];          /* SHA-256 of this program */
    bool quiet;
    int code[INFQ_RECIPE_MAX_STEPS];        /* exit code of each step, -1: did not run */
    infq_step_state states[INFQ_RECIPE_MAX_STEPS];
    char errors[INFQ_RECIPE_MAX_STEPS][240]; /* what a step that ended in an error said */
    bool cached[INFQ_RECIPE_MAX_STEPS];
    double seconds[INFQ_RECIPE_MAX_STEPS];
} run_state;

/* SHA-256 of build, CPU level, command line, contents of inputs. NOT_FOUND names an input that is not there; `missing` (may be NULL) then is set. */
infq_status run_step_key(run_state *r, int i, char key[65], bool *missing, infq_err *err);
/* The journal knows the step under this key and its outputs are as they were: takes over its outcome. */
infq_status run_step_cached(run_state *r, int i, const char *key, bool *yes, infq_err *err);
/* Runs it in a process of its own. Its outcome is in r; an error here is one of the runner itself. */
infq_status run_step_do(run_state *r, int i, const char *key, infq_err *err);
/* The command line as a shell would take it. */
void run_step_command(const infq_recipe_step *s, infq_buf *to);
/* Some output of step k is the path, or a folder above it. */
bool run_step_makes(const run_state *r, int k, const char *path);
/* An input of step i is there, and not left over from a run in which the step that makes it ended otherwise. */
bool run_input_there(const run_state *r, int i, const char *path);
/* RUN/NAME.json (or what `suffix` says). */
void run_step_path(const run_state *r, int i, const char *suffix, char *out, size_t cap);

#endif
