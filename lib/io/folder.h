/* Writing a model folder (or one bare file) so that it appears under its final name only when complete.
 *
 * While running, everything lies in OUT.partial/model/ (a bare file: OUT.partial/model/FILE), beside a journal and a
 * lock; commit fsyncs and renames it to OUT. A killed run leaves OUT.partial; the next run with the same fingerprint
 * reuses finished shards, any other fingerprint starts anew. Not thread-safe: one thread writes a folder.
 * docs/format/folder.md. */
#ifndef INFQ_IO_FOLDER_H
#define INFQ_IO_FOLDER_H

#include "lib/base/log.h"
#include "lib/io/safetensors.h"

typedef struct infq_folder infq_folder;

typedef struct {
    const char *path;          /* final name */
    const char *source;        /* folder or file that is read, never replaced; NULL: none */
    bool bare;                 /* OUT is one .safetensors file */
    bool force;                /* replace an existing OUT (at commit, after everything is written) */
    uint64_t shard_bytes;      /* greedy limit of tensor bytes a shard; 0 = 5e9 */
    char fingerprint[65];      /* of everything that decides the bytes */
} infq_folder_options;

/* EXISTS if path is there and !force, if another process is writing it (lock in OUT.partial), or if what force would
 * replace is not a model (a folder that holds other things, a file for a folder). USAGE if force would replace the
 * source, a folder around it or one of its files. NOT_FOUND without a parent folder. */
infq_status infq_folder_begin(const infq_folder_options *o, infq_folder **out, infq_err *err);
/* Abandons: removes OUT.partial, unless keep_partial is set and finished shards are in it. NULL is fine. */
void infq_folder_abort(infq_folder *f, bool keep_partial);

/* Declares every tensor in the order in which they will be written (dictionary order of the source); shards are filled
 * greedily in that order. Then seal: names, layouts, total bytes. */
infq_status infq_folder_declare(infq_folder *f, const char *name, infq_dtype dtype, int n_dims, const int64_t *shape,
                                infq_err *err);
infq_status infq_folder_meta(infq_folder *f, const char *key, const char *value, infq_err *err);
infq_status infq_folder_seal(infq_folder *f, infq_err *err);
uint64_t infq_folder_total_bytes(const infq_folder *f);       /* all shard files with headers */
size_t infq_folder_shard_count(const infq_folder *f);
/* Shard that holds the tensor; *done: it was finished by an earlier run and needs no writing. */
infq_status infq_folder_where(const infq_folder *f, const char *name, size_t *shard, bool *done, infq_err *err);

/* Writes part of a declared tensor's bytes. Any order; each byte once (checked by count when the shard is done: BUG). What is for a
 * shard that an earlier run finished is dropped: the same bytes are there. */
infq_status infq_folder_write(infq_folder *f, const char *name, uint64_t offset, const void *p, size_t n, infq_err *err);
/* Says that a shard has all its bytes: fsync, journal. Nothing to do for a shard that is done already. */
infq_status infq_folder_shard_done(infq_folder *f, size_t shard, infq_err *err);
/* Side files (not for bare outputs: USAGE); a name once. */
infq_status infq_folder_put(infq_folder *f, const char *name, const void *p, size_t n, infq_err *err);
infq_status infq_folder_copy(infq_folder *f, const char *from_path, const char *name, infq_err *err);
/* Folder inside OUT.partial that holds the files (a bare output under its final name), borrowed; for verification
 * before commit. Files called infq.ledger-* there are the caller's: kept for a resumed run, removed by commit. */
const char *infq_folder_partial_path(const infq_folder *f);
/* Writes the index, fsyncs, renames, removes OUT.partial. Frees f, also on failure: then OUT is as it was and
 * OUT.partial is removed (EXISTS, when OUT appeared meanwhile: kept). If only the last fsync of the parent folder
 * fails (IO), OUT is in place and complete. */
infq_status infq_folder_commit(infq_folder *f, infq_err *err);

#endif
