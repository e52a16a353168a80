#include <string.h>

#include "lib/report/inspect.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define NAME "infq inspect"

typedef struct {
    bool json, tensors, zeros, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "tensors", 't', OPT_FLAG, NULL, "list every tensor", AT(tensors), 0, 0 },
    { "zeros", 'z', OPT_FLAG, NULL, "count zeros by kind of matrix: reads all weights", AT(zeros), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
static const opt_spec spec = {
    NAME, "[options] MODEL", "Tells what a model is: parameters, element types, bits per weight, memory by context and batch.",
    "MODEL is a model folder or a .safetensors file. Only headers are read, but for --zeros.", rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

int cmd_inspect(int argc, char **argv)
{
    options o;
    infq_checkpoint *ck = NULL;
    infq_inspect in;
    cmd_sink sink;
    infq_log log;
    infq_buf doc;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    memset(&o, 0, sizeof(o));
    if (opt_parse(&spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    log = cmd_log(&sink, NAME, o.quiet);
    st = infq_checkpoint_open(argv[0], &log, &ck, &err);
    if (!st)
        st = infq_inspect_run(ck, &in, &err);
    if (!st && o.zeros)
        st = infq_inspect_zeros(ck, &in, &err);
    if (!st) {
        infq_buf_init(&doc);
        if (o.json)
            infq_inspect_json(ck, &in, o.tensors, &doc);
        else
            infq_inspect_text(ck, &in, o.tensors, &doc);
        st = cmd_print(&doc, &err);
        infq_buf_deinit(&doc);
    }
    infq_checkpoint_close(ck);
    return st ? cmd_fail(NAME, &err) : 0;
}
