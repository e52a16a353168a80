#include "tools/cmd.h"
#include "tools/commands.h"

static const cmd_row rows[] = {
    { "quantize", "store the weights of a model in fewer bits", cmd_quantize },
    { "prune", "set the weights of a model to zero where they matter least", cmd_prune },
    { "verify", "decode a stored model and compare it with its source", cmd_verify },
    { "inspect", "parameters, types, sizes, memory of a model", cmd_inspect },
    { "convert", "shards, element types, GGUF to a folder", cmd_convert },
    { "generate", "text from a model, to look at it", cmd_generate },
    { "run", "a whole pipeline from a recipe", cmd_run },
    { "receipt", "re-check what a receipt says", cmd_receipt },
    { "gen", "our generated text and task sets", cmd_gen },
};

int main(int argc, char **argv)
{
    return cmd_main("infq", "Compresses language models and proves that the result is still good.", rows,
                    (int)(sizeof(rows) / sizeof(rows[0])), argc, argv);
}
