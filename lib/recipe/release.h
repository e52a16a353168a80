/* The receipt of a run: what was made from what, by which program and recipe, how it was decided, with the SHA-256 of everything (docs/format/release.md).
 *
 * It is one JSON object whose last member, `digest`, is the SHA-256 of the text with sixty-four zeros in the digest's place, so that a change of any
 * byte shows. That is no signature: who can change the receipt can compute the digest anew. Sign the file if that matters. */
#ifndef INFQ_RECIPE_RELEASE_H
#define INFQ_RECIPE_RELEASE_H

#include "lib/base/arena.h"
#include "lib/recipe/contents.h"

/* From run.json and the journal of a run's folder. model: the folder or file that the receipt is for, NULL: none. Appends the text. */
infq_status infq_release_write(const char *run, const char *model, infq_contents *c, infq_buf *to, infq_err *err);

typedef enum { INFQ_RELEASE_OK, INFQ_RELEASE_DIFFERS, INFQ_RELEASE_ABSENT } infq_release_state;
/* One thing that was looked at. */
typedef struct {
    infq_release_state state;
    const char *what;        /* path, or "receipt", "verdict", ... */
    const char *text;        /* what is wrong; "" when nothing is */
} infq_release_line;

typedef struct {
    infq_release_line *v;
    size_t n, cap, n_differs, n_absent;
    bool required_absent;    /* a file of the model itself is missing */
    char verdict[16];
    infq_arena *texts;
} infq_release_check;
/* path: a receipt, a folder that holds one (infq-release.json, else receipt.json, else infq.json of infq quantize), base: folder that relative paths start
 * from, NULL: the current one. Every file that is named and is here is read again. FORMAT when it is no receipt. */
infq_status infq_release_verify(const char *path, const char *base, infq_contents *c, infq_release_check *out, infq_err *err);
void infq_release_check_deinit(infq_release_check *c);

#endif
