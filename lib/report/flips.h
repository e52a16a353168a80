/* Items that changed between two models: right for one side only, or with another score. */
#ifndef INFQ_REPORT_FLIPS_H
#define INFQ_REPORT_FLIPS_H

#include "lib/base/arena.h"
#include "lib/base/json.h"
#include "lib/eval/item.h"
#include "lib/eval/task.h"

typedef struct {
    const char *task, *metric;
    const char *text, *answer, *said_first, *said_second; /* ends of the context and of choices; NULL where not known */
    int64_t doc;
    double first, second;               /* metric of the item */
    double margin_first, margin_second; /* log-likelihood of the answer less that of the best other choice; NAN for one continuation */
} infq_flip;

/* Appends to *list (room doubles in the arena, *n entries) the items of one task that changed; strings live in the arena. task NULL: no texts. MISMATCH
 * when a and b do not hold the same items. */
infq_status infq_flips_find(infq_arena *arena, const infq_items *a, const infq_items *b, const infq_task *task, const char *name,
                            const char *metric, infq_flip **list, int64_t *n, infq_err *err);
/* Losses before gains, then the largest fall of the margin first; the rest by task and document. */
void infq_flips_sort(infq_flip *list, int64_t n);
/* The first `most` as members "changed" and "flips" of an open object; and such a list read back, strings borrowed from the tree. */
void infq_flips_write(const infq_flip *list, int64_t n, int64_t most, infq_jw *w);
infq_status infq_flips_read(infq_arena *arena, const cJSON *o, infq_flip **list, int64_t *n, int64_t *n_changed, infq_err *err);

#endif
