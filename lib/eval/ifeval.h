/* IFEval: instructions that a program can check (Zhou et al. 2023, arXiv 2311.07911; specs 6.3). The 25 kinds that the
 * published prompts use are rows of one table. Where the original relies on trained models we decide by rules of our own,
 * stated in docs/methods/ifeval.md: the language of a text, ends of sentences. */
#ifndef INFQ_EVAL_IFEVAL_H
#define INFQ_EVAL_IFEVAL_H

#include "lib/base/json.h"

/* The instructions of one prompt. */
typedef struct infq_ifeval infq_ifeval;
/* doc: {"instruction_id_list": [..], "kwargs": [{..}, ..]}. UNSUPPORTED names an unknown kind, FORMAT a missing or wrong
 * argument. */
infq_status infq_ifeval_new(const cJSON *doc, infq_ifeval **out, infq_err *err);
void infq_ifeval_free(infq_ifeval *e);
int64_t infq_ifeval_count(const infq_ifeval *e);
/* strict[i], loose[i]: whether the answer follows instruction i; loose when it, or it without "*", without its first line,
 * its last, both, or two of these together, does. An empty answer follows nothing. */
infq_status infq_ifeval_check(infq_ifeval *e, const char *answer, size_t n, bool *strict, bool *loose, infq_err *err);

int infq_ifeval_n_kinds(void);
const char *infq_ifeval_kind_name(int i); /* "keywords:existence" */

#endif
