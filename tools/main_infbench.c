#include "tools/cmd.h"
#include "tools/commands.h"

int main(int argc, char **argv)
{
    return cmd_single("infbench", cmd_bench, argc, argv);
}
