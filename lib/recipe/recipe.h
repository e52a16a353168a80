/* A recipe: a pipeline in one YAML file, read into command lines (docs/format/recipes.md).
 *
 * Nothing here knows what a step does. The caller gives the kinds of steps with their keys (the tools make them from the option tables of their
 * commands), and gets for each step a command line, the files and folders it reads and writes, and its condition. Variables are put in when a
 * recipe is read, step by step in order, so that a step can use what earlier ones write and nothing else. */
#ifndef INFQ_RECIPE_RECIPE_H
#define INFQ_RECIPE_RECIPE_H

#include "lib/base/yaml.h"

#define INFQ_RECIPE_MAX_STEPS 64

typedef enum {
    INFQ_RECIPE_FLAG,   /* true or false: --key or nothing */
    INFQ_RECIPE_VALUE,  /* one text or number: --key=value */
    INFQ_RECIPE_LIST,   /* several: --key=value for each */
    INFQ_RECIPE_RULES   /* quantize's rules: --key=PATTERN=WHAT for each pattern, in order */
} infq_recipe_form;

/* A key of a step. Underscores in the file stand for dashes in the option. */
typedef struct {
    const char *name;        /* the option's: "group-size" */
    infq_recipe_form form;
    bool position;           /* no option but an argument; in the order of the table */
    bool required;
    bool input, output;      /* names files or folders that the step reads, or writes */
    bool fixed;              /* the runner sets it: a recipe may not */
    const char *made;        /* output that is written to "<run>/<step name><made>" unless the recipe says where; NULL: only on request */
} infq_recipe_key;

typedef struct {
    const char *name;        /* "quantize" */
    const infq_recipe_key *keys;
    int n_keys;
    bool stops;              /* a verdict of fail or undecided ends the recipe, unless on_fail says otherwise */
} infq_recipe_kind;

/* How a step ended. DONE and PASS are exit code 0. */
typedef enum {
    INFQ_STEP_WAITING, INFQ_STEP_PASS, INFQ_STEP_FAIL, INFQ_STEP_UNDECIDED, INFQ_STEP_ERROR, INFQ_STEP_SKIPPED
} infq_step_state;
const char *infq_step_state_name(infq_step_state s); /* "waiting", "pass", "fail", "undecided", "error", "skipped" */
infq_step_state infq_step_state_of_exit(int code);   /* 0 PASS, 1 FAIL, 6 UNDECIDED, else ERROR */

/* "STEP is [not] STATE[ or STATE...]", several joined by "and". */
typedef struct {
    int step;                /* index */
    bool not;
    unsigned states;         /* bit s: state s */
} infq_recipe_test;

typedef struct {
    const char *name;
    const infq_recipe_kind *kind;
    int64_t line;            /* in the file */
    int argc;
    char **argv;             /* [argc], argv[0] = the kind's name; options, then arguments; NULL behind */
    char **inputs, **outputs;
    int n_inputs, n_outputs;
    const char *state;       /* file that ${state} means in this step: how the steps before it ended */
    const char *when;        /* text of the condition, NULL if none */
    bool always;             /* "when: always": runs although the recipe was ended */
    infq_recipe_test tests[8];
    int n_tests;
    bool stops, decides;     /* decides: its verdict is part of the recipe's */
} infq_recipe_step;

typedef struct {
    const char *name, *value; /* value: as JSON text */
} infq_recipe_var;

typedef struct {
    const char *path, *name, *about;
    char sha256[65];         /* of the file */
    infq_recipe_var *vars;   /* in order, with their final values */
    infq_recipe_step *steps;
    int n_vars, n_steps;
    struct infq_recipe_store *store;
} infq_recipe;

/* sets: "NAME=VALUE" of --set. run: folder of the run; NULL: "<recipe's name>.run". FORMAT as "<path>:<line>: <key>: <rule>" with the key that was
 * probably meant; USAGE for sets. */
infq_status infq_recipe_load(const char *path, const infq_recipe_kind *kinds, int n_kinds, const char *const *sets, int n_sets, const char *run,
                             infq_recipe **out, infq_err *err);
void infq_recipe_free(infq_recipe *r);
const char *infq_recipe_run(const infq_recipe *r);           /* folder of the run */
/* FORMAT or the status of err, "<path>:<line>: <step>: " in front. */
infq_status infq_recipe_err_in(const infq_recipe *r, const infq_recipe_step *s, infq_err *err);
/* Whether all tests of a step hold; states[] of the steps so far. */
bool infq_recipe_holds(const infq_recipe_step *s, const infq_step_state *states);

#endif
