/* Lines of generated items, beside those that item.c writes and reads itself. */
#ifndef INFQ_EVAL_ITEM_INT_H
#define INFQ_EVAL_ITEM_INT_H

#include "lib/base/json.h"
#include "lib/eval/item.h"

/* Members of the open object: text, tokens, stop, answer, target, parts, cut. */
void infq_item_generate_write(const infq_item *it, infq_jw *w);
infq_status infq_item_generate_read(infq_items *s, const cJSON *o, infq_item *it, infq_err *err);

#endif
