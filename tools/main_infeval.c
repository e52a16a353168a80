#include <string.h>

#include "tools/cmd.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

static int run(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "gate") == 0)
        return cmd_eval_gate(argc - 1, argv + 1);
    return cmd_eval(argc, argv);
}

int main(int argc, char **argv)
{
    return cmd_single("infeval", run, argc, argv); // the whole argv: the process may start itself anew with it
}
