/* What steps of a recipe have finished: one JSON line each, in the folder of the run, written when the step's outputs are complete.
 *
 * A line: name, kind, key (SHA-256 of all that the step depends on), exit, command [...], inputs and outputs [{path, sha256}], began, seconds. A line that a
 * kill has torn is cut off. A lock keeps a second run out of the folder as long as this one, or a step that it started, lives. */
#ifndef INFQ_RECIPE_JOURNAL_H
#define INFQ_RECIPE_JOURNAL_H

#include "lib/base/json.h"

typedef struct infq_journal infq_journal;
/* Makes the folder if it is not there. EXISTS while another process works in it. */
infq_status infq_journal_open(const char *dir, infq_journal **out, infq_err *err);
void infq_journal_close(infq_journal *j);
/* Reads without lock, for those who only look. */
infq_status infq_journal_read(const char *dir, infq_journal **out, infq_err *err);
/* The last line of a step, NULL if there is none; borrowed. */
const cJSON *infq_journal_find(const infq_journal *j, const char *name);
/* Takes the entry, writes it and syncs. */
infq_status infq_journal_add(infq_journal *j, cJSON *entry, infq_err *err);

#endif
