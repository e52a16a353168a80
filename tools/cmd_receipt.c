/* infq receipt: writes the receipt of a run, re-checks all that a receipt says. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "lib/recipe/release.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define WRITE "infq receipt write"
#define VERIFY "infq receipt verify"

typedef struct {
    const char *model, *base;
    opt_list outputs;
    bool all, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row write_rows[] = {
    { "model", 0, OPT_STR, "MODEL", "that the receipt is for: the hash of each of its files; the receipt is also put\n"
      "into MODEL as " INFQ_RELEASE_NAME " (for a file: beside it)", AT(model), 0, 0 },
    { "output", 'o', OPT_LIST, "FILE", "write it there (standard output)", AT(outputs), 0, 0 },
};
const opt_spec cmd_receipt_write_spec = {
    WRITE, "[options] RUN", "Writes the receipt of a run of infq run.",
    "RUN is the folder of the run. The receipt names recipe, program, every step with its command line, the\n"
    "SHA-256 of all that was read and written, verdicts and figures (docs/format/release.md).",
    write_rows, sizeof(write_rows) / sizeof(write_rows[0]), 1, 1,
};

static const opt_row verify_rows[] = {
    { "base", 0, OPT_STR, "DIR", "folder that the receipt's relative paths start from (the current one)", AT(base), 0, 0 },
    { "all", 0, OPT_FLAG, NULL, "what is not here counts as a difference", AT(all), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "only what differs or is missing", AT(quiet), 0, 0 },
};
static const opt_spec verify_spec = {
    VERIFY, "[options] FILE|FOLDER", "Reads everything again that a receipt names and compares the hashes.",
    "FILE is a receipt; a FOLDER is looked into for " INFQ_RELEASE_NAME ", receipt.json or infq.json. The files of\n"
    "the model must be there; other files are checked if they are. Exit code: 0 everything here agrees, 1 something\n"
    "differs, is missing from the model or was added to it, 3 no receipt.",
    verify_rows, sizeof(verify_rows) / sizeof(verify_rows[0]), 1, 1,
};

static infq_status beside(const char *model, char *out, size_t cap, infq_err *err)
{
    int n = infq_path_is_dir(model) ? snprintf(out, cap, "%s/%s", model, INFQ_RELEASE_NAME) : snprintf(out, cap, "%s.%s", model, INFQ_RELEASE_NAME);

    return n < (int)cap ? 0 : infq_err_set(err, INFQ_E_IO, "%.80s...: the path is too long", model);
}

static infq_status write_receipt(const options *o, const char *run, infq_err *err)
{
    infq_contents *c = NULL;
    char path[4096];
    infq_buf text;
    infq_status st;

    snprintf(path, sizeof(path), "%s/digests.json", run);
    for (int i = 0; i < o->outputs.n; i++) {
        INFQ_TRY(cmd_keep_input(o->outputs.v[i], path, err));
        if (o->model && !infq_path_is_dir(o->model)) // a folder's own receipt lies in it
            INFQ_TRY(cmd_keep_input(o->outputs.v[i], o->model, err));
    }
    INFQ_TRY(infq_contents_open(path, &c, err));
    infq_buf_init(&text);
    st = infq_release_write(run, o->model, c, &text, err);
    for (int i = 0; i < o->outputs.n && !st; i++)
        st = infq_file_write_atomic(o->outputs.v[i], text.data, text.n, true, err);
    if (!st && o->model)
        st = beside(o->model, path, sizeof(path), err);
    if (!st && o->model)
        st = infq_file_write_atomic(path, text.data, text.n, true, err);
    if (!st && o->outputs.n == 0)
        st = cmd_print(&text, err);
    infq_buf_deinit(&text);
    infq_contents_free(c);
    return st;
}

int cmd_receipt_write(int argc, char **argv)
{
    options o;
    infq_err err;
    int n_args;
    bool done;

    memset(&o, 0, sizeof(o));
    if (opt_parse(&cmd_receipt_write_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(WRITE, &err);
    if (done)
        return 0;
    return write_receipt(&o, argv[0], &err) ? cmd_fail(WRITE, &err) : 0;
}

static const char *const state_words[] = {"ok", "DIFFERS", "not here"};

static bool good(const options *o, const infq_release_check *c)
{
    return c->n_differs == 0 && !c->required_absent && !(o->all && c->n_absent > 0);
}

static void verify_text(const options *o, const infq_release_check *c, infq_buf *to)
{
    for (size_t i = 0; i < c->n; i++) {
        const infq_release_line *l = &c->v[i];
        if (o->quiet && l->state == INFQ_RELEASE_OK)
            continue;
        infq_buf_fmt(to, "%-8s  %s", state_words[l->state], l->what);
        if (l->text[0] && l->state == INFQ_RELEASE_DIFFERS)
            infq_buf_fmt(to, ": %s", l->text);
        infq_buf_char(to, '\n');
    }
    infq_buf_fmt(to, "%zu checked, %zu differ, %zu not here", c->n - c->n_absent, c->n_differs, c->n_absent);
    if (c->verdict[0])
        infq_buf_fmt(to, "; the receipt's verdict: %s", c->verdict);
    infq_buf_fmt(to, "\nresult: %s\n", good(o, c) ? "pass" : "FAIL");
}

static void verify_json(const options *o, const infq_release_check *c, infq_buf *to)
{
    static const char *const words[] = {"ok", "differs", "absent"};
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.receipt-check.v1");
    infq_jw_key_bool(&w, "passed", good(o, c));
    infq_jw_key_str(&w, "verdict", c->verdict);
    infq_jw_key(&w, "checks");
    infq_jw_arr(&w);
    for (size_t i = 0; i < c->n; i++) {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "what", c->v[i].what);
        infq_jw_key_str(&w, "state", words[c->v[i].state]);
        infq_jw_key_str(&w, "text", c->v[i].text);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}

static int verify(int argc, char **argv)
{
    infq_contents *c = NULL;
    infq_release_check check;
    infq_buf text;
    options o;
    infq_err err;
    infq_status st;
    int n_args, code = 0;
    bool done;

    memset(&o, 0, sizeof(o));
    if (opt_parse(&verify_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(VERIFY, &err);
    if (done)
        return 0;
    st = infq_contents_open(NULL, &c, &err); // everything is read anew: that is the point
    if (!st)
        st = infq_release_verify(argv[0], o.base, c, &check, &err);
    if (!st) {
        infq_buf_init(&text);
        if (o.json)
            verify_json(&o, &check, &text);
        else
            verify_text(&o, &check, &text);
        st = cmd_print(&text, &err);
        code = good(&o, &check) ? 0 : 1;
        infq_buf_deinit(&text);
        infq_release_check_deinit(&check);
    }
    infq_contents_free(c);
    return st ? cmd_fail(VERIFY, &err) : code;
}

int cmd_receipt(int argc, char **argv)
{
    static const cmd_row commands[] = {
        { "verify", "re-check all hashes of a receipt", verify },
        { "write", "the receipt of a run", cmd_receipt_write },
    };

    for (int i = 0; argc >= 2 && i < 2; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) {
        fprintf(stderr, "infq receipt: unknown command %s: verify or write is wanted\n", argv[1]);
        return 2;
    }
    fprintf(argc >= 2 ? stdout : stderr, "usage: infq receipt COMMAND [options]\n\n");
    for (int i = 0; i < 2; i++)
        fprintf(argc >= 2 ? stdout : stderr, "  %-8s %s\n", commands[i].name, commands[i].summary);
    return argc >= 2 ? 0 : 2;
}
