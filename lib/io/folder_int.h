/* The stage of a folder writer: OUT.partial/ with
 *   .lock      held with flock while a process writes
 *   .journal   fingerprint and the finished shards
 *   .old       an OUT that is just being replaced
 *   model/     what becomes OUT (a bare output: model/FILE)
 * so that publishing is one rename and nothing of ours is left in OUT. */
#ifndef INFQ_IO_FOLDER_INT_H
#define INFQ_IO_FOLDER_INT_H

#include "lib/io/folder.h"

typedef struct {
    char *out, *partial, *lock, *journal, *old, *model;
    char *source; /* NULL: none */
    bool bare, force;
    char fingerprint[65];
    int lock_fd; /* -1: none */
    char **done; /* names of finished shards, owned */
    size_t n_done, cap_done;
} infq_stage;

/* Locks OUT.partial, undoes a replacement that was cut short, keeps what a run with the same fingerprint finished
 * (and its ledgers) and removes the rest. EXISTS, IO, NOT_FOUND (no parent folder). Deinit in any case. */
infq_status infq_stage_init(infq_stage *g, const infq_folder_options *o, infq_err *err);
bool infq_stage_is_done(const infq_stage *g, const char *shard);
/* fsyncs model/, then notes the shard. */
infq_status infq_stage_mark_done(infq_stage *g, const char *shard, infq_err *err);
/* Forgets done[i], which turned out not to fit, and removes the file; the last of done takes its place. */
infq_status infq_stage_forget(infq_stage *g, size_t i, infq_err *err);
/* Removes ledgers, fsyncs, renames. */
infq_status infq_stage_publish(infq_stage *g, infq_err *err);
/* Removes OUT.partial; what is not ours stays. */
void infq_stage_remove(infq_stage *g);
/* Unlocks and frees; the files stay. */
void infq_stage_deinit(infq_stage *g);

#endif
