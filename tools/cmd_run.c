/* infq run: a whole pipeline from a recipe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "tools/commands.h"
#include "tools/run.h"

typedef struct {
    opt_list sets;
    const char *run;
    bool dry_run, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "set", 's', OPT_LIST, "NAME=VALUE", "value of a variable; may be repeated", AT(sets), 0, 0 },
    { "output", 'o', OPT_STR, "DIR", "folder of the run: results, items, journal (NAME.run)", AT(run), 0, 0 },
    { "dry-run", 'n', OPT_FLAG, NULL, "print what would be done, with the plan of every quantization; write nothing", AT(dry_run), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "the outcome as one JSON object", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    RUN_NAME, "[options] RECIPE.yaml", "Carries out a recipe: quantize, verify, evaluate, decide, bench, report.",
    "Steps that an earlier run has finished are not repeated as long as their options, the contents of what\n"
    "they read, the contents of what they wrote and this program are the same; a killed run goes on where it\n"
    "stopped. Keys of steps are the options of the commands (docs/format/recipes.md).\n"
    "Exit code: 0 done and all verdicts pass, 1 one fails, 6 one is undecided, 2 the recipe is wrong, otherwise\n"
    "that of the step that could not be done (3 not comparable, 4 disk, 5 memory).",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

/* The step before i that makes one of its inputs and has not run; -1: none. */
static int waits_for(const run_state *r, int i)
{
    const infq_recipe_step *s = &r->recipe->steps[i];

    for (int n = 0; n < s->n_inputs; n++)
        for (int k = 0; k < i; k++)
            if ((r->states[k] == INFQ_STEP_SKIPPED || r->states[k] == INFQ_STEP_ERROR || r->states[k] == INFQ_STEP_WAITING) &&
                run_step_makes(r, k, s->inputs[n]))
                return k;
    return -1;
}

/* Exit code of the whole: that of the first step that could not be done, else the worst verdict. */
static int outcome(const run_state *r)
{
    bool failed = false, open = false;

    for (int i = 0; i < r->recipe->n_steps; i++) {
        if (r->states[i] == INFQ_STEP_ERROR)
            return r->code[i];
        failed = failed || (r->recipe->steps[i].decides && r->states[i] == INFQ_STEP_FAIL);
        open = open || (r->recipe->steps[i].decides && r->states[i] == INFQ_STEP_UNDECIDED);
    }
    return failed ? 1 : open ? 6 : 0;
}

static const char *word_of(int code)
{
    return code == 0 ? "pass" : code == 1 ? "fail" : code == 6 ? "undecided" : "refused";
}

static void step_json(const run_state *r, int i, bool full, infq_jw *w)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    infq_buf command;

    infq_buf_init(&command);
    run_step_command(s, &command);
    infq_jw_obj(w);
    infq_jw_key_str(w, "name", s->name);
    infq_jw_key_str(w, "kind", s->kind->name);
    infq_jw_key_str(w, "command", command.data);
    infq_jw_key_str(w, "state", infq_step_state_name(r->states[i]));
    if (r->code[i] >= 0)
        infq_jw_key_i64(w, "exit", r->code[i]);
    if (r->states[i] == INFQ_STEP_ERROR)
        infq_jw_key_str(w, "error", r->errors[i]);
    if (full) {
        infq_jw_key_bool(w, "cached", r->cached[i]);
        infq_jw_key_f64(w, "seconds", r->seconds[i]);
    }
    infq_jw_end_obj(w);
    infq_buf_deinit(&command);
}

/* schema infq.run.v1. Without `full` it holds no times, so that what is made from it can be kept. */
static void run_json(const run_state *r, bool full, infq_jw *w)
{
    const infq_recipe *c = r->recipe;

    infq_jw_obj(w);
    infq_jw_key_str(w, "schema", "infq.run.v1");
    infq_jw_key_str(w, "recipe", c->name);
    infq_jw_key_str(w, "recipe_path", c->path);
    infq_jw_key_str(w, "recipe_sha256", c->sha256);
    infq_jw_key_str(w, "version", INFQ_VERSION);
    infq_jw_key_str(w, "build_sha256", r->build);
    infq_jw_key(w, "variables");
    infq_jw_obj(w);
    for (int i = 0; i < c->n_vars; i++) {
        cJSON *v = cJSON_Parse(c->vars[i].value);
        infq_jw_key(w, c->vars[i].name);
        infq_jw_tree(w, v);
        cJSON_Delete(v);
    }
    infq_jw_end_obj(w);
    infq_jw_key(w, "steps");
    infq_jw_arr(w);
    for (int i = 0; i < c->n_steps; i++)
        if (full || r->states[i] != INFQ_STEP_WAITING)
            step_json(r, i, full, w);
    infq_jw_end_arr(w);
    infq_jw_key_str(w, "verdict", word_of(outcome(r)));
    infq_jw_key_i64(w, "exit", outcome(r));
    infq_jw_end_obj(w);
}

static infq_status write_state_to(const run_state *r, const char *path, infq_err *err)
{
    infq_buf b;
    infq_jw w;
    infq_status st;

    infq_buf_init(&b);
    w = infq_jw_over(&b, 1);
    run_json(r, false, &w);
    infq_buf_char(&b, '\n');
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_file_write_atomic(path, b.data, b.n, true, err);
    infq_buf_deinit(&b);
    return st;
}

static infq_status write_state(const run_state *r, infq_err *err)
{
    char *path = NULL;
    infq_status st = infq_path_join(infq_recipe_run(r->recipe), "run.json", &path, err);

    if (!st)
        st = write_state_to(r, path, err);
    infq_mem_free(path);
    return st;
}

static bool reads_state(const infq_recipe_step *s)
{
    for (int n = 0; n < s->n_inputs; n++)
        if (strcmp(s->inputs[n], s->state) == 0)
            return true;
    return false;
}

static void say(const run_state *r, const char *line)
{
    if (r->quiet)
        return;
    fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

static void tell(const run_state *r, int i, const char *more)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    const run_kind *k = run_kind_of(s);
    char path[2048];
    cJSON *doc = NULL;
    infq_err ignored;
    infq_buf b;

    infq_buf_init(&b);
    infq_buf_fmt(&b, "[%d/%d] %s: ", i + 1, r->recipe->n_steps, s->name);
    if (r->states[i] == INFQ_STEP_PASS && (!k->stops || strcmp(s->kind->name, "verify") != 0) && strcmp(s->kind->name, "gate") != 0)
        infq_buf_str(&b, "done");
    else
        infq_buf_str(&b, infq_step_state_name(r->states[i]));
    if (r->cached[i])
        infq_buf_str(&b, ", kept from an earlier run");
    else if (r->code[i] >= 0)
        infq_buf_fmt(&b, ", %.1f s", r->seconds[i]);
    infq_buf_str(&b, more);
    run_step_path(r, i, ".json", path, sizeof(path));
    if (k->tell && r->code[i] >= 0 && r->states[i] != INFQ_STEP_ERROR && !infq_json_load(path, (size_t)1 << 28, &doc, &ignored)) {
        infq_buf_str(&b, "\n      ");
        k->tell(doc, &b);
    }
    cJSON_Delete(doc);
    say(r, b.data);
    infq_buf_deinit(&b);
}

static infq_status one_step(run_state *r, int i, infq_err *err)
{
    char key[65];
    bool cached = false;

    if (reads_state(&r->recipe->steps[i]))
        INFQ_TRY(write_state_to(r, r->recipe->steps[i].state, err));
    if (run_step_key(r, i, key, NULL, err)) {
        if (err->code == INFQ_E_INTERRUPTED || err->code == INFQ_E_NOMEM)
            return err->code;
        r->code[i] = infq_status_exit(err->code); // an input that is not there is this step's error
        r->states[i] = INFQ_STEP_ERROR;
        snprintf(r->errors[i], sizeof(r->errors[i]), "%s", err->msg);
        fprintf(stderr, "%s: %s: %s\n", RUN_NAME, r->recipe->steps[i].name, err->msg);
        return 0;
    }
    INFQ_TRY(run_step_cached(r, i, key, &cached, err));
    return cached ? 0 : run_step_do(r, i, key, err);
}

/* Why step i does not run now; NULL: it does. */
static const char *reason_to_skip(const run_state *r, int i, bool ended, char *out, size_t cap)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    int k;

    if (ended && !s->always)
        return ": the recipe has ended";
    if (!infq_recipe_holds(s, r->states)) {
        snprintf(out, cap, ": not the case that %.120s", s->when);
        return out;
    }
    if (!run_kind_of(s)->gathers && (k = waits_for(r, i)) >= 0) {
        snprintf(out, cap, ": needs what %.60s makes", r->recipe->steps[k].name);
        return out;
    }
    return NULL;
}

static infq_status run_all(run_state *r, infq_err *err)
{
    bool ended = false;

    INFQ_TRY(write_state(r, err));
    for (int i = 0; i < r->recipe->n_steps; i++) {
        const infq_recipe_step *s = &r->recipe->steps[i];
        char why[200];
        const char *skip = reason_to_skip(r, i, ended, why, sizeof(why));
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted before %s; the same command goes on from there", s->name);
        if (skip) {
            r->states[i] = INFQ_STEP_SKIPPED;
            tell(r, i, skip);
        } else {
            INFQ_TRY(one_step(r, i, err));
            tell(r, i, "");
        }
        if (r->code[i] == 130)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted in %s; the same command goes on from there", s->name);
        ended = ended || r->states[i] == INFQ_STEP_ERROR ||
                (s->stops && (r->states[i] == INFQ_STEP_FAIL || r->states[i] == INFQ_STEP_UNDECIDED));
        INFQ_TRY(write_state(r, err));
    }
    return 0;
}

/* The command itself with --dry-run, for steps that have it and whose inputs are there. */
static int plan_step(const run_state *r, int i)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    const run_kind *k = run_kind_of(s);
    int status = 0;
    pid_t pid;

    fflush(stdout);
    fflush(stderr);
    pid = fork();
    if (pid < 0)
        return 5;
    if (pid == 0) {
        char **argv = NULL;
        infq_err err;
        if (infq_mem_new((size_t)s->argc + 3, sizeof(*argv), "arguments", (void **)&argv, &err))
            _exit(5);
        argv[0] = s->argv[0];
        argv[1] = (char *)"--dry-run";
        memcpy(argv + 2, s->argv + 1, (size_t)s->argc * sizeof(*argv));
        status = k->run(s->argc + 1, argv);
        fflush(stdout);
        _exit(status);
    }
    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}

/* Prints every step; *code: of the first plan that cannot succeed. */
static infq_status plan_all(run_state *r, int *code, infq_err *err)
{
    for (int i = 0; i < r->recipe->n_steps; i++) {
        const infq_recipe_step *s = &r->recipe->steps[i];
        char key[65];
        bool cached = false, missing = false;
        int from = waits_for(r, i), plan = 0;
        infq_buf b;
        infq_buf_init(&b);
        infq_buf_fmt(&b, "[%d/%d] %s", i + 1, r->recipe->n_steps, s->name);
        if (s->when)
            infq_buf_fmt(&b, " (when: %s)", s->when);
        if (from < 0 || run_kind_of(s)->gathers) {
            if (run_step_key(r, i, key, &missing, err)) {
                if (err->code == INFQ_E_INTERRUPTED || !(missing && run_kind_of(s)->gathers)) {
                    infq_buf_deinit(&b);
                    return infq_recipe_err_in(r->recipe, s, err);
                }
            } else if (run_step_cached(r, i, key, &cached, err)) {
                infq_buf_deinit(&b);
                return err->code;
            }
        }
        if (cached)
            infq_buf_fmt(&b, ": finished in an earlier run, %s", infq_step_state_name(r->states[i]));
        else if (from >= 0)
            infq_buf_fmt(&b, ": after %s", r->recipe->steps[from].name);
        infq_buf_str(&b, "\n      ");
        run_step_command(s, &b);
        infq_buf_char(&b, '\n');
        if (cmd_print(&b, err)) {
            infq_buf_deinit(&b);
            return err->code;
        }
        infq_buf_deinit(&b);
        if (!cached && from < 0 && run_kind_of(s)->plans)
            plan = plan_step(r, i);
        if (plan && !*code)
            *code = plan;
    }
    return 0;
}

static infq_status open_state(const options *o, run_state *r, infq_err *err)
{
    const char *dir = infq_recipe_run(r->recipe);
    char cache[2048];

    r->quiet = o->quiet || o->json;
    for (int i = 0; i < INFQ_RECIPE_MAX_STEPS; i++)
        r->code[i] = -1;
    for (int i = 0; i < r->recipe->n_steps; i++)
        if (run_step_check(&r->recipe->steps[i], err))
            return infq_recipe_err_in(r->recipe, &r->recipe->steps[i], err);
    INFQ_TRY(infq_sha256_file("/proc/self/exe", r->build, err));
    INFQ_TRY(o->dry_run ? infq_journal_read(dir, &r->journal, err) : infq_journal_open(dir, &r->journal, err));
    snprintf(cache, sizeof(cache), "%s/digests.json", dir);
    return infq_contents_open(o->dry_run && !infq_path_exists(cache) ? NULL : cache, &r->contents, err);
}

static infq_status print_outcome(const options *o, const run_state *r, infq_err *err)
{
    infq_buf b;
    infq_status st;

    infq_buf_init(&b);
    if (o->json) {
        infq_jw w = infq_jw_over(&b, 0);
        run_json(r, true, &w);
        infq_buf_char(&b, '\n');
    } else {
        infq_buf_fmt(&b, "%s: %s\n", r->recipe->name, word_of(outcome(r)));
    }
    st = cmd_print(&b, err);
    infq_buf_deinit(&b);
    return st;
}

static infq_status run(const options *o, const char *path, int *code, infq_err *err)
{
    infq_recipe_kind *kinds = NULL;
    infq_recipe *recipe = NULL;
    run_state *r = NULL;
    infq_err other;
    infq_status st = run_kinds_new(&kinds, err);

    if (!st)
        st = infq_mem_new(1, sizeof(*r), "run", (void **)&r, err);
    if (!st) {
        memset(r, 0, sizeof(*r));
        st = infq_recipe_load(path, kinds, run_kind_count(), o->sets.v, o->sets.n, o->run, &recipe, err);
    }
    if (!st) {
        r->recipe = recipe;
        st = open_state(o, r, err);
    }
    if (!st && o->dry_run) {
        st = plan_all(r, code, err);
    } else if (!st) {
        st = run_all(r, err);
        if (infq_contents_save(r->contents, st ? &other : err) && !st)
            st = err->code;
        if (!st)
            st = print_outcome(o, r, err);
        *code = outcome(r);
    }
    if (r) {
        infq_journal_close(r->journal);
        infq_contents_free(r->contents);
    }
    infq_mem_free(r);
    infq_recipe_free(recipe);
    run_kinds_free(kinds);
    return st;
}

int cmd_run(int argc, char **argv)
{
    options o;
    infq_err err;
    int n_args, code = 0;
    bool done;

    memset(&o, 0, sizeof(o));
    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(RUN_NAME, &err);
    if (done)
        return 0;
    return run(&o, argv[0], &code, &err) ? cmd_fail(RUN_NAME, &err) : code;
}
