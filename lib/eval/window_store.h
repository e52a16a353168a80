/* Windows of a text in an item file (kind "window"), so that perplexity and KL divergence go on after a stop. A window's line holds its number as
 * doc, the digest of the ids it was fed, and a row of numbers a scored position; what the columns are, ppl.h, kld.h and reference.h say. Windows are
 * written in their order, so what is there is always the beginning. */
#ifndef INFQ_EVAL_WINDOW_STORE_H
#define INFQ_EVAL_WINDOW_STORE_H

#include "lib/eval/item.h"

/* Where windows are kept; a NULL pointer to one: nowhere. */
typedef struct {
    infq_items *items;   /* what the file held when it was opened */
    infq_item_log *log;
} infq_window_store;

/* First 16 hex digits of SHA-256 over a window's ids, little-endian u32. */
infq_status infq_window_digest(const int32_t *ids, int64_t n, char hex[17], infq_err *err);
/* *rows: the n_rows * width numbers of window w (borrowed from the items), NULL when it is not there yet. EXISTS when what is there is not this window. */
infq_status infq_window_store_find(const infq_window_store *s, int64_t w, const char *digest, int64_t n_rows, int64_t width, const double **rows,
                                   infq_err *err);
/* Appends window w. */
infq_status infq_window_store_add(const infq_window_store *s, int64_t w, const char *digest, const double *rows, int64_t n_rows, int64_t width,
                                  infq_err *err);

#endif
