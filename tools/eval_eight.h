/* The 8-bit version of an original that infeval diagnose takes prices from. */
#ifndef INFQ_TOOLS_EVAL_EIGHT_H
#define INFQ_TOOLS_EVAL_EIGHT_H

#include "tools/cmd_eval.h"

typedef struct {
    eval_model m;
    char folder[512];       /* made here, removed by close; "" when it is the user's */
    char type[32];          /* as infq quantize --type takes it, "W8A16:64" */
} eval_eight;

/* path: the user's, or NULL: made from `original` in $TMPDIR (/tmp), when `compressed` holds fewer than 8 bits anywhere. Where it is not wanted or cannot be
 * made (a warning says why) out->m.model is NULL. An error for a path that is no 8-bit weight-only model, and after a signal. */
infq_status eval_eight_open(const char *path, const char *original, const eval_model *compressed, infq_backend *be, const infq_log *log, eval_eight *out,
                            infq_err *err);
void eval_eight_close(eval_eight *e);

#endif
