#include <stdio.h>
#include <string.h>

#include "tools/cmd.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

/* First words that are commands; anything else is a model to score. */
static const cmd_row rows[] = {
    { "fetch", "data of tasks by their published addresses", cmd_eval_fetch },
    { "gate", "the verdict on stored items", cmd_eval_gate },
    { "import", "scores given elsewhere into an item file", cmd_eval_import },
    { "diagnose", "where a compressed model loses", cmd_eval_diagnose },
    { "noise", "run-to-run noise of a model's own scores", cmd_eval_noise },
    { "plan", "items and runs that a verdict needs", cmd_eval_plan },
    { "perturb", "whether the gap depends on how tasks are asked", cmd_eval_perturb },
    { "simulate", "how often the gate is wrong, by simulation", cmd_eval_simulate },
    { "report", "results as a page, Markdown, JUnit XML, JSON", cmd_eval_report_page },
    { "reference", "an original's distributions, stored small", cmd_eval_reference },
    { "tasks", "what can be evaluated, and whether its data is there", cmd_eval_list },
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static int run(int argc, char **argv)
{
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    int code;

    for (size_t i = 0; argc >= 2 && i < N_ROWS; i++)
        if (strcmp(argv[1], rows[i].name) == 0)
            return rows[i].run(argc - 1, argv + 1);
    code = cmd_eval(argc, argv);
    if (help) {
        printf("\ncommands (infeval COMMAND --help tells their options; a model of such a name is ./NAME):\n");
        for (size_t i = 0; i < N_ROWS; i++)
            printf("  %-10s %s\n", rows[i].name, rows[i].summary);
    }
    return code;
}

int main(int argc, char **argv)
{
    return cmd_single("infeval", run, argc, argv); // the whole argv: the process may start itself anew with it
}
