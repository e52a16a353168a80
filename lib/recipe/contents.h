/* Digests of files and folders, by content. A file whose size, times and inode are those of an earlier reading is not read again, so that a recipe's
 * inputs of many gigabytes cost nothing the second time.
 *
 * A file's digest is its SHA-256. A folder's is the SHA-256 of the lines "<sha256>  <path in it>\n" of all its files, folders in it included, sorted
 * bytewise by path: what (cd DIR; find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum) prints. Links are followed. Left out is the release receipt
 * (INFQ_RELEASE_NAME), which is written about the folder when all else is done. */
#ifndef INFQ_RECIPE_CONTENTS_H
#define INFQ_RECIPE_CONTENTS_H

#include "lib/base/json.h"

#define INFQ_RELEASE_NAME "infq-release.json"

typedef struct infq_contents infq_contents;
/* cache: file of earlier readings, read if it is there and ours; NULL: everything is read anew. */
infq_status infq_contents_open(const char *cache, infq_contents **out, infq_err *err);
void infq_contents_free(infq_contents *c);
/* Writes the cache file, if there is one and something is new. */
infq_status infq_contents_save(infq_contents *c, infq_err *err);
/* NOT_FOUND when nothing is there. INTERRUPTED after a signal. */
infq_status infq_contents_digest(infq_contents *c, const char *path, char hex[65], infq_err *err);
/* Calls fn for every file of a folder, in order, with its path in the folder ("" and the file itself for a file); the release receipt left out. */
typedef infq_status (*infq_contents_fn)(void *ctx, const char *name, uint64_t n_bytes, const char *hex, infq_err *err);
infq_status infq_contents_each(infq_contents *c, const char *path, infq_contents_fn fn, void *ctx, infq_err *err);

#endif
