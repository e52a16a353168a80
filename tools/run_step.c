/* One step of a recipe: its key, whether it is done already, carrying it out in a process of its own. */
#include "tools/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/cpu.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"

#define MAX_RESULT ((size_t)1 << 28)

void run_step_path(const run_state *r, int i, const char *suffix, char *out, size_t cap)
{
    snprintf(out, cap, "%s/%s%s", infq_recipe_run(r->recipe), r->recipe->steps[i].name, suffix);
}

static bool plain_word(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%") == strlen(s);
}

void run_step_command(const infq_recipe_step *s, infq_buf *to)
{
    const run_kind *k = run_kind_of(s);

    infq_buf_str(to, k->spec->name);
    for (int i = 1; i < s->argc; i++) {
        const char *a = s->argv[i];
        if (strcmp(a, "--") == 0 && (i + 1 == s->argc || s->argv[i + 1][0] != '-'))
            continue; // needed only before an argument that looks like an option
        infq_buf_char(to, ' ');
        if (plain_word(a)) {
            infq_buf_str(to, a);
            continue;
        }
        infq_buf_char(to, '\'');
        for (; *a; a++) {
            if (*a == '\'')
                infq_buf_str(to, "'\\''");
            else
                infq_buf_char(to, *a);
        }
        infq_buf_char(to, '\'');
    }
}

static infq_status add_text(infq_sha256 *h, const char *s, infq_err *err)
{
    return infq_sha256_add(h, s, strlen(s) + 1, err);
}

bool run_step_makes(const run_state *r, int k, const char *path)
{
    const infq_recipe_step *s = &r->recipe->steps[k];
    char result[2048];

    run_step_path(r, k, ".json", result, sizeof(result));
    if (strcmp(path, result) == 0)
        return true;
    for (int n = 0; n < s->n_outputs; n++) {
        size_t len = strlen(s->outputs[n]);
        if (strncmp(path, s->outputs[n], len) == 0 && (path[len] == '\0' || path[len] == '/'))
            return true;
    }
    return false;
}

bool run_input_there(const run_state *r, int i, const char *path)
{
    for (int k = 0; k < i; k++)
        if (run_step_makes(r, k, path) && r->code[k] != 0 && r->states[k] != INFQ_STEP_FAIL && r->states[k] != INFQ_STEP_UNDECIDED)
            return false;
    return infq_path_exists(path);
}

infq_status run_step_key(run_state *r, int i, char key[65], bool *missing, infq_err *err)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    const run_kind *k = run_kind_of(s);
    infq_sha256 *h = NULL;
    char hex[65];
    infq_status st;

    if (missing)
        *missing = false;
    INFQ_TRY(infq_sha256_new(&h, err));
    st = add_text(h, "infq.step.v1", err);
    if (!st)
        st = add_text(h, r->build, err);
    if (!st)
        st = add_text(h, infq_cpu_level_name(infq_cpu_level_get()), err);
    for (int a = 0; a < s->argc && !st; a++)
        st = add_text(h, s->argv[a], err);
    for (int n = 0; n < s->n_inputs && !st; n++) {
        if (!run_input_there(r, i, s->inputs[n])) {
            if (k->gathers) {
                st = add_text(h, "not there", err);
                continue;
            }
            if (missing)
                *missing = true;
            st = infq_err_set(err, INFQ_E_NOT_FOUND, "%.200s: no such file or folder", s->inputs[n]);
            break;
        }
        st = infq_contents_digest(r->contents, s->inputs[n], hex, err);
        if (!st)
            st = add_text(h, hex, err);
    }
    if (!st && k->depends) {
        st = k->depends(s, hex, err);
        if (!st)
            st = add_text(h, hex, err);
    }
    if (!st)
        st = infq_sha256_end(h, key, err);
    infq_sha256_free(h);
    return st;
}

static bool is_made(const run_state *r, const char *path)
{
    size_t n = strlen(infq_recipe_run(r->recipe));

    return strncmp(path, infq_recipe_run(r->recipe), n) == 0 && path[n] == '/' && !strstr(path, "/../");
}

/* The outputs of a journal entry are there and as they were. */
static infq_status outputs_hold(run_state *r, const cJSON *entry, bool *yes, infq_err *err)
{
    const cJSON *o;

    *yes = true;
    cJSON_ArrayForEach(o, infq_json_get(entry, "outputs")) {
        const char *path, *sha;
        char hex[65];
        INFQ_TRY(infq_json_str(o, "path", "", &path, err));
        INFQ_TRY(infq_json_str(o, "sha256", "", &sha, err));
        if (!infq_path_exists(path)) {
            *yes = false;
            return 0;
        }
        INFQ_TRY(infq_contents_digest(r->contents, path, hex, err));
        if (strcmp(hex, sha) != 0) {
            *yes = false;
            return 0;
        }
    }
    return 0;
}

infq_status run_step_cached(run_state *r, int i, const char *key, bool *yes, infq_err *err)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    const cJSON *entry = infq_journal_find(r->journal, s->name);
    int64_t code;

    *yes = false;
    if (!entry || run_kind_of(s)->fresh || strcmp(infq_json_get(entry, "key")->valuestring, key) != 0)
        return 0;
    INFQ_TRY(infq_json_i64(entry, "exit", 70, &code, err));
    if (infq_step_state_of_exit((int)code) == INFQ_STEP_ERROR)
        return 0;
    INFQ_TRY(outputs_hold(r, entry, yes, err));
    if (!*yes)
        return 0;
    r->code[i] = (int)code;
    r->states[i] = infq_step_state_of_exit((int)code);
    r->cached[i] = true;
    return infq_json_f64(entry, "seconds", 0, &r->seconds[i], err);
}

/* What an earlier run made under another key is taken away when it lies in the folder of the run; elsewhere it is replaced only if it is still what
 * that run made. */
static infq_status clear_outputs(run_state *r, int i, const char *key, bool *force, infq_err *err)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    const cJSON *entry = infq_journal_find(r->journal, s->name);
    char path[2048];
    infq_buf started;
    bool same = false, ours = false;
    infq_status st = 0;

    run_step_path(r, i, ".started", path, sizeof(path));
    infq_buf_init(&started);
    if (infq_path_exists(path))
        st = infq_file_read(path, 100, &started, err);
    same = !st && strcmp(started.data, key) == 0; // stopped half-way under this very key: go on from there
    infq_buf_deinit(&started);
    if (!st && entry)
        st = outputs_hold(r, entry, &ours, err);
    *force = entry && ours;
    for (int n = 0; n < s->n_outputs && !st && !same; n++) {
        if (!is_made(r, s->outputs[n]) || !infq_path_exists(s->outputs[n]))
            continue;
        if (infq_path_is_dir(s->outputs[n]))
            st = infq_dir_remove(s->outputs[n], err);
        else if (unlink(s->outputs[n]))
            st = infq_err_set(err, INFQ_E_IO, "%.180s: %s", s->outputs[n], strerror(errno));
    }
    for (int n = 0; n < s->n_outputs && !st; n++) // so that items of one task go into a folder too
        if (infq_str_ends(s->outputs[n], ".items") && is_made(r, s->outputs[n]) && mkdir(s->outputs[n], 0777) && errno != EEXIST)
            st = infq_err_set(err, INFQ_E_IO, "%.180s: %s", s->outputs[n], strerror(errno));
    return st ? st : infq_file_write_atomic(path, key, 64, true, err);
}

/* An input that is not there, of a step that does with those that are. */
static bool left_out(const run_state *r, int i, const char *arg)
{
    const infq_recipe_step *s = &r->recipe->steps[i];

    if (!run_kind_of(s)->gathers)
        return false;
    for (int n = 0; n < s->n_inputs; n++)
        if (s->inputs[n] == arg)
            return !run_input_there(r, i, arg);
    return false;
}

static int child(const run_state *r, int i, bool force, const char *out_path, int err_fd)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    const run_kind *k = run_kind_of(s);
    char **argv = NULL;
    int n = 0, fd = open(out_path, O_WRONLY | O_CREAT | O_TRUNC, 0666), code;
    infq_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL); // a killed run leaves no step behind that works on
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(err_fd, 2) < 0) {
        fprintf(stderr, "%s: %s: %s\n", RUN_NAME, out_path, strerror(errno));
        return 4;
    }
    if (infq_mem_new((size_t)s->argc + 5, sizeof(*argv), "arguments", (void **)&argv, &err))
        return cmd_fail(RUN_NAME, &err);
    argv[n++] = s->argv[0];
    if (k->json)
        argv[n++] = (char *)"--json";
    if (r->quiet && k->json)
        argv[n++] = (char *)"--quiet";
    if (force && k->force)
        argv[n++] = (char *)"--force";
    for (int a = 1; a < s->argc; a++)
        if (!left_out(r, i, s->argv[a]))
            argv[n++] = s->argv[a];
    argv[n] = NULL;
    code = k->run(n, argv);
    return fflush(stdout) ? 4 : code;
}

/* Copies what the step says to our standard error and keeps the end of it. A signal that only we got is passed on. */
static void listen_to(int fd, pid_t pid, infq_buf *said)
{
    char part[4096];

    for (;;) {
        ssize_t n = read(fd, part, sizeof(part));
        if (n < 0 && errno == EINTR) {
            if (infq_interrupted)
                kill(pid, SIGTERM);
            continue;
        }
        if (n <= 0)
            return;
        if (fwrite(part, 1, (size_t)n, stderr) == (size_t)n)
            fflush(stderr);
        infq_buf_add(said, part, (size_t)n);
        if (said->n > 65536) { // long progress; the last words count
            memmove(said->data, said->data + said->n - 8192, 8192);
            said->n = 8192;
            said->data[said->n] = '\0';
        }
    }
}

/* The last line without the traces of a progress display and without the command's name in front. */
static void last_line(const infq_buf *said, const char *command, char *out, size_t cap)
{
    size_t end = said->n, at, n = strlen(command);
    const char *s;

    while (end > 0 && (said->data[end - 1] == '\n' || said->data[end - 1] == ' '))
        end--;
    for (at = end; at > 0 && said->data[at - 1] != '\n' && said->data[at - 1] != '\r'; at--)
        ;
    s = said->data + at;
    if (strncmp(s, "\033[K", 3) == 0)
        s += 3;
    if (strncmp(s, command, n) == 0 && s[n] == ':')
        s += n + 2;
    snprintf(out, cap, "%.*s", (int)(said->data + end > s ? said->data + end - s : 0), s);
}

static int code_of(int status, const char *name)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "%s: %s was ended by signal %d\n", RUN_NAME, name, WTERMSIG(status));
    return WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM ? 130 : 70;
}

static infq_status start(run_state *r, int i, bool force, const char *out_path, int *code, infq_err *err)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    int ends[2], status = 0;
    infq_buf said;
    pid_t pid;

    if (pipe(ends))
        return infq_err_set(err, INFQ_E_IO, "no pipe: %s", strerror(errno));
    fflush(stdout);
    fflush(stderr);
    if (!r->quiet && isatty(2))
        setenv("INFQ_PROGRESS", "1", 1); // its standard error is our pipe, which ends at a terminal
    pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return infq_err_set(err, INFQ_E_IO, "no process for %s: %s", s->name, strerror(errno));
    }
    if (pid == 0) {
        close(ends[0]);
        _exit(child(r, i, force, out_path, ends[1]));
    }
    close(ends[1]);
    infq_buf_init(&said);
    listen_to(ends[0], pid, &said);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        if (infq_interrupted)
            kill(pid, SIGTERM);
    }
    *code = code_of(status, s->name);
    if (infq_step_state_of_exit(*code) == INFQ_STEP_ERROR)
        last_line(&said, run_kind_of(s)->spec->name, r->errors[i], sizeof(r->errors[i]));
    infq_buf_deinit(&said);
    return 0;
}

static bool put_paths(run_state *r, int i, cJSON *entry, const char *key, char *const *paths, int n, infq_err *err, infq_status *st)
{
    cJSON *list = cJSON_AddArrayToObject(entry, key);

    for (int k = 0; k < n && list && !*st; k++) {
        cJSON *o = cJSON_CreateObject();
        char hex[65];
        if (!run_input_there(r, i, paths[k])) {
            cJSON_Delete(o);
            continue;
        }
        *st = infq_contents_digest(r->contents, paths[k], hex, err);
        if (!o || !cJSON_AddStringToObject(o, "path", paths[k]) || !cJSON_AddStringToObject(o, "sha256", *st ? "" : hex) ||
            !cJSON_AddItemToArray(list, o))
            return false;
    }
    return list != NULL;
}

static infq_status make_entry(run_state *r, int i, const char *key, const char *began, cJSON **out, infq_err *err)
{
    const infq_recipe_step *s = &r->recipe->steps[i];
    cJSON *e = cJSON_CreateObject();
    char *outputs[INFQ_RECIPE_MAX_STEPS + 1], result[2048];
    int n = 0;
    infq_status st = 0;
    infq_buf command;
    bool ok;

    infq_buf_init(&command);
    run_step_command(s, &command);
    run_step_path(r, i, ".json", result, sizeof(result));
    for (; n < s->n_outputs && n < INFQ_RECIPE_MAX_STEPS; n++)
        outputs[n] = s->outputs[n];
    if (run_kind_of(s)->json)
        outputs[n++] = result;
    ok = e && cJSON_AddStringToObject(e, "name", s->name) && cJSON_AddStringToObject(e, "kind", s->kind->name) &&
         cJSON_AddStringToObject(e, "key", key) && cJSON_AddNumberToObject(e, "exit", r->code[i]) &&
         cJSON_AddStringToObject(e, "verdict", infq_step_state_name(r->states[i])) && cJSON_AddStringToObject(e, "command", command.data) &&
         put_paths(r, i, e, "inputs", s->inputs, s->n_inputs, err, &st) && put_paths(r, i, e, "outputs", outputs, n, err, &st) &&
         cJSON_AddStringToObject(e, "began", began) && cJSON_AddNumberToObject(e, "seconds", r->seconds[i]);
    infq_buf_deinit(&command);
    if (!ok || st) {
        cJSON_Delete(e);
        return st ? st : infq_err_set(err, INFQ_E_NOMEM, "no memory for the journal");
    }
    *out = e;
    return 0;
}

infq_status run_step_do(run_state *r, int i, const char *key, infq_err *err)
{
    char partial[2048], result[2048], began[40], started[2048];
    int64_t t0 = infq_time_ns();
    time_t now = time(NULL);
    cJSON *entry = NULL;
    bool force;
    struct tm utc;

    strftime(began, sizeof(began), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    INFQ_TRY(clear_outputs(r, i, key, &force, err));
    run_step_path(r, i, ".json.partial", partial, sizeof(partial));
    run_step_path(r, i, ".json", result, sizeof(result));
    run_step_path(r, i, ".started", started, sizeof(started));
    INFQ_TRY(start(r, i, force, partial, &r->code[i], err));
    r->states[i] = infq_step_state_of_exit(r->code[i]);
    r->seconds[i] = (double)(infq_time_ns() - t0) * 1e-9;
    if (r->states[i] == INFQ_STEP_ERROR || !run_kind_of(&r->recipe->steps[i])->json)
        unlink(partial);
    else
        INFQ_TRY(infq_file_rename(partial, result, true, err));
    if (r->states[i] == INFQ_STEP_ERROR)
        return 0; // nothing to keep: the next run tries again
    INFQ_TRY(make_entry(r, i, key, began, &entry, err));
    INFQ_TRY(infq_journal_add(r->journal, entry, err));
    unlink(started);
    return infq_contents_save(r->contents, err);
}
