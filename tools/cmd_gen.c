#include <stdio.h>
#include <string.h>

#include "lib/eval/gen.h"
#include "tools/cmd.h"
#include "tools/commands.h"

typedef struct {
    int64_t seed, n_items;
    uint64_t n_bytes;
    bool marks;
} options;

#define AT(member) offsetof(options, member)
static const opt_row text_rows[] = {
    {"seed", 0, OPT_I64, "N", "other seeds give other texts (1)", AT(seed), 0, 9e15},
    {"bytes", 0, OPT_SIZE, "SIZE", "stop after the document that reaches it (64KiB)", AT(n_bytes),
     0, 0},
    {"marks", 0, OPT_FLAG, NULL, "put a tab before the answer of each document", AT(marks), 0, 0},
};
static const opt_spec text_spec = {
    "infq gen text",
    "[options]",
    "Writes generated documents, one a line, to standard output.",
    "The same seed gives the same bytes on every machine. No document contains a combination that "
    "is\n"
    "held out for the task sets.",
    text_rows,
    sizeof(text_rows) / sizeof(text_rows[0]),
    0,
    0,
};

static const opt_row tasks_rows[] = {
    {"seed", 0, OPT_I64, "N", "other seeds give other items (1)", AT(seed), 0, 9e15},
    {"items", 0, OPT_I64, "N", "items of each set (200)", AT(n_items), 1, 100000},
};
static const opt_spec tasks_spec = {
    "infq gen tasks",
    "[options] DIR",
    "Writes one JSON Lines file for each generated task set into DIR.",
    "Each line is {\"context\", \"choices\", \"gold\"}. Files of the same names are replaced.",
    tasks_rows,
    sizeof(tasks_rows) / sizeof(tasks_rows[0]),
    1,
    1,
};

static int gen_text(int argc, char **argv)
{
    options o = {1, 0, 64 * 1024, false};
    infq_buf text;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    if (opt_parse(&text_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail("infq gen", &err);
    if (done)
        return 0;
    infq_buf_init(&text);
    st = infq_gen_text((uint64_t)o.seed, (size_t)o.n_bytes, o.marks, &text, &err);
    if (!st)
        st = cmd_print(&text, &err);
    infq_buf_deinit(&text);
    return st ? cmd_fail("infq gen", &err) : 0;
}

static int gen_tasks(int argc, char **argv)
{
    options o = {INFQ_GEN_TASK_SEED, INFQ_GEN_TASK_ITEMS, 0, false};
    infq_err err;
    int n_args;
    bool done;

    if (opt_parse(&tasks_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail("infq gen", &err);
    if (done)
        return 0;
    if (infq_gen_tasks(argv[0], (uint64_t)o.seed, (int)o.n_items, &err))
        return cmd_fail("infq gen", &err);
    return 0;
}

static void help(void)
{
    printf("usage: infq gen text [options]\n"
           "       infq gen tasks [options] DIR\n\n"
           "Our own generated text, and task sets with known answers made by the same grammar.\n"
           "`infq gen text --help` and `infq gen tasks --help` list the options.\n\n"
           "task sets:\n");
    for (int k = 0; k < infq_gen_n_kinds(); k++)
        printf("  %-12s%s\n", infq_gen_kind_name(k), infq_gen_kind_about(k));
}

int cmd_gen(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    infq_err err;

    if (!strcmp(what, "--help") || !strcmp(what, "-h")) {
        help();
        return 0;
    }
    if (!strcmp(what, "text"))
        return gen_text(argc - 1, argv + 1);
    if (!strcmp(what, "tasks"))
        return gen_tasks(argc - 1, argv + 1);
    infq_err_set(&err, INFQ_E_USAGE, "usage: infq gen text | tasks (see infq gen --help)");
    return cmd_fail("infq gen", &err);
}
