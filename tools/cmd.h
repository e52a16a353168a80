/* What every command shares: entry points, errors to exit codes, warnings, progress. */
#ifndef INFQ_TOOLS_CMD_H
#define INFQ_TOOLS_CMD_H

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "tools/opt.h"

typedef struct {
    const char *name;      /* "quantize" */
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
} cmd_row;

/* main of a tool with commands: finds the row, handles --help, --version, signals, flushes stdout (exit 4 if that fails). */
int cmd_main(const char *tool, const char *summary, const cmd_row *rows, int n_rows, int argc, char **argv);
/* main of a tool that is one command. */
int cmd_single(const char *tool, int (*run)(int argc, char **argv), int argc, char **argv);

/* Prints "infq quantize: <message>" to stderr, returns the exit code of the status. */
int cmd_fail(const char *name, const infq_err *err);

/* Sink for warnings and progress. Progress lines with rate and ETA appear only when stderr is a terminal and !quiet. */
typedef struct {
    const char *name;      /* command, in front of warnings */
    bool quiet;
    int64_t started_ns, last_ns;
    bool drawn;
} cmd_sink;
infq_log cmd_log(cmd_sink *sink, const char *name, bool quiet);
void cmd_log_end(cmd_sink *sink);   /* wipes the progress line */

/* USAGE if writing `output` would replace `input`, or a file in the folder `input`. */
infq_status cmd_keep_input(const char *output, const char *input, infq_err *err);
/* Prints a finished document and checks that all of it was written (IO otherwise). */
infq_status cmd_print(const infq_buf *text, infq_err *err);

#endif
