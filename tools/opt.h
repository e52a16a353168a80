/* Option tables: one table a command makes parser, help text and the check of ranges. */
#ifndef INFQ_TOOLS_OPT_H
#define INFQ_TOOLS_OPT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

typedef enum {
    OPT_FLAG,  /* bool */
    OPT_STR,   /* const char * */
    OPT_I64,   /* int64_t, lo..hi */
    OPT_F64,   /* double, lo..hi */
    OPT_SIZE,  /* uint64_t bytes above 0: 500MB, 2GiB */
    OPT_LIST,  /* opt_list: may be given several times; --opt a,b is one entry "a,b" */
    OPT_NEED   /* no option but a rule: option `name` does nothing without one of those that `arg` lists ("calib,method") */
} opt_kind;

#define OPT_LIST_MAX 64
typedef struct {
    const char *v[OPT_LIST_MAX];
    int n;
} opt_list;

typedef struct {
    const char *name;   /* long name without dashes */
    char letter;        /* short form or 0 */
    opt_kind kind;
    const char *arg;    /* name of the value in help, NULL for flags; OPT_NEED: option names with commas between them */
    const char *help;   /* one line, or several with \n */
    size_t offset;      /* offsetof(options struct, member) */
    double lo, hi;      /* I64 and F64: lo == hi means no limit */
} opt_row;

/* One command (or subcommand). */
typedef struct {
    const char *name;      /* "infq quantize" */
    const char *usage;     /* "[options] MODEL" */
    const char *summary;   /* one line */
    const char *details;   /* paragraphs after the options, or NULL */
    const opt_row *rows;
    int n_rows;
    int min_args, max_args; /* positional; max_args < 0: any number */
} opt_spec;

/* Fills `options` (defaults are there before) and moves the positional arguments to the front of argv, their number
 * in *n_args. An option that would do nothing (OPT_NEED) is refused. --opt value, --opt=value, -o value, -- ends options; --help prints help and sets *done. USAGE with
 * one sentence otherwise. argv[0] is the command's name. */
infq_status opt_parse(const opt_spec *spec, int argc, char **argv, void *options, int *n_args, bool *done, infq_err *err);
void opt_help(const opt_spec *spec);

#endif
