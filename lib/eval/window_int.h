/* Between kld.c, reference.c and diagnose.c: a text's first tokens cut into windows, and a model's hidden states on groups of them. */
#ifndef INFQ_EVAL_WINDOW_INT_H
#define INFQ_EVAL_WINDOW_INT_H

#include "lib/eval/token_class.h"
#include "lib/model/model.h"

#define INFQ_WINDOW_DEFAULT 512
#define INFQ_WINDOW_TOKENS 32768 /* of a text when nothing is said */

/* Windows with empty contexts that share nothing; ids without special tokens. */
typedef struct {
    infq_ids ids;           /* at least n_windows * window */
    int64_t window, n_windows;
} infq_windows;
/* window 0: 512, or max_positions if smaller; max_tokens 0: 32768. USAGE for a window that the models cannot have, UNSUPPORTED for a text
 * shorter than one. */
infq_status infq_windows_cut(const infq_tokenizer *tok, const char *text, size_t n, int64_t window, int64_t max_tokens,
                             int64_t max_positions, infq_windows *out, infq_err *err);
void infq_windows_free(infq_windows *w);
const int32_t *infq_windows_get(const infq_windows *w, int64_t i);
/* Token that position i of window w is asked for, 0 <= i < window - 1. */
int32_t infq_windows_target(const infq_windows *w, int64_t window, int64_t i);
/* Class of the true token of each position, [n_windows * (window - 1)], infq_mem_free. NUMERIC for ids outside the vocabulary. */
infq_status infq_windows_classes(const infq_windows *w, const infq_tokenizer *tok, int64_t vocab, uint8_t **out, infq_err *err);
/* SHA-256 over the ids in use, little-endian u32. */
infq_status infq_windows_digest(const infq_windows *w, char hex[65], infq_err *err);

/* Buffers for a model on groups of windows; positions 0 .. window - 2 of each are asked for. */
typedef struct {
    infq_model *m;
    int64_t per, group;     /* positions a window; windows a pass at most */
    int64_t vocab, width;
    float *hidden;          /* [group * per][width] */
    infq_seq **seqs;
    infq_segment *segs;
} infq_window_run;
/* group 0: as many windows as make a pass of 2048 tokens. */
infq_status infq_window_run_init(infq_window_run *r, infq_model *m, const infq_windows *w, int64_t group, infq_err *err);
void infq_window_run_free(infq_window_run *r);
/* Windows first .. first + n - 1 (n <= group) into r->hidden, with the forward pass's options f (invariant is set). */
infq_status infq_window_run_group(infq_window_run *r, const infq_windows *w, int64_t first, int64_t n, const infq_forward_options *f,
                                  infq_err *err);

#endif
