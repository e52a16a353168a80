/* Generator of our own text and task sets: a small English-like grammar with known answers. The
 * same seed gives the same bytes on every machine. Described in docs/design/demo.md. */
#ifndef INFQ_EVAL_GEN_H
#define INFQ_EVAL_GEN_H

#include <stdint.h>

#include "lib/base/buf.h"

/* What the committed files of evals/ were made with. */
#define INFQ_GEN_TASK_SEED 1
#define INFQ_GEN_TASK_ITEMS 200
#define INFQ_GEN_CALIB_SEED 2
#define INFQ_GEN_CALIB_BYTES 65536

/* Kinds of documents; each is one task set too. name: of the set and its file, "facts". */
int infq_gen_n_kinds(void);
const char *infq_gen_kind_name(int kind);
const char *infq_gen_kind_about(int kind); /* one line for people */

/* Whole documents, one a line, of all kinds mixed, until out holds at least n_bytes more. No
 * document contains a combination that is held out for the task sets. marks: a tab stands before
 * the answer of each document, from where on every word follows from the ones before (for
 * trainers). Appends to out. */
infq_status infq_gen_text(uint64_t seed, size_t n_bytes, bool marks, infq_buf *out, infq_err *err);

/* One task set: n_items lines of {"context", "choices", "gold"}, held-out combinations only, no two
 * items equal, choices distinct and each beginning with a blank. Appends to out. USAGE if the
 * grammar has fewer than n_items of this kind. */
infq_status infq_gen_items(int kind, uint64_t seed, int n_items, infq_buf *out, infq_err *err);

/* Writes every set as dir/<name>.jsonl (dir must exist; files there are replaced). */
infq_status infq_gen_tasks(const char *dir, uint64_t seed, int n_items, infq_err *err);

#endif
