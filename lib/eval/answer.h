/* How the answer of a generation task is taken from the text and judged: rows by name, as manifests name them
 * (generate.extract).
 *
 *   gsm8k   number behind "#### " (exact_strict), last number (exact_flexible); commas, $, working and a final dot ignored
 *   mgsm    last number (exact_flexible), whole text (exact_whole); case and punctuation ignored
 *   cot     number behind "The answer is" (exact_strict), last number (exact_flexible), as gsm8k
 *   exact   whole text, trimmed (exact)
 *   words   whole text against any of a JSON list of answers; case, punctuation, articles and white space ignored (exact)
 *   regex   first or last match of the task's own expression (exact), compared as it says
 *   ifeval  instructions of the row (prompt_strict, prompt_loose, inst_strict, inst_loose)
 *   code    completions to be run elsewhere: nothing is judged
 *   judge   answers to be judged elsewhere: nothing is judged
 *
 * Every item also has truncated (1: the text ended at its length) and length (tokens); where something is extracted, invalid
 * (1: nothing was found for the first metric); where nothing is judged, empty. */
#ifndef INFQ_EVAL_ANSWER_H
#define INFQ_EVAL_ANSWER_H

#include "lib/eval/item.h"

/* What "regex" needs (lib/eval/extract.h). */
typedef struct {
    const char *pattern;
    bool last;                 /* the last match, else the first */
    const char *const *ignore; /* [n_ignore] expressions that both sides lose */
    int n_ignore;
    bool ignore_case, ignore_punctuation;
    bool any;                  /* the target is a JSON list, one of it is enough */
} infq_answer_regex;

typedef struct infq_answers infq_answers;
/* regex: NULL for every row but "regex"; borrowed. USAGE lists the names when there is no such row, FORMAT names a broken
 * expression. */
infq_status infq_answers_open(const char *name, const infq_answer_regex *regex, infq_answers **out, infq_err *err);
void infq_answers_close(infq_answers *a);
/* Whether the row judges here; code and judge do not. */
bool infq_answers_judges(const char *name);
/* Metric k of the row's items, those of extraction or instructions first; NULL behind the last. */
const char *infq_answers_metric(const char *name, int k);
int infq_answers_count(void);
const char *infq_answers_name(int i);

/* Fills answer, target, parts and metrics of a GENERATE item whose stop and n_tokens are set. text: what was written,
 * reasoning taken off. row: the data set's row as JSON, read by ifeval; may be NULL otherwise. */
infq_status infq_answers_judge(infq_answers *a, infq_items *s, infq_item *it, const char *text, size_t n, const char *target,
                               const char *row, infq_err *err);

#endif
