/* A model on disk behind one interface: folder (sharded or not), bare .safetensors file. Tensors are mapped.
 *
 * Folder rules (formats.md 1.5 and 2.1, docs/format/folder.md). With model.safetensors.index.json the index decides:
 * missing shards are an error that lists them, index and shards must name the same tensors, a wrong total_size is a
 * warning; a further file is kept when all its tensors are new (MTP heads), left out with a warning when it only
 * repeats indexed ones, an error when it holds both. Without an index: model.safetensors alone if it is there (others
 * are warned of), else every *.safetensors (sorted): numbered shards must be complete, a name in two files is an
 * error. consolidated*.safetensors (Mistral's second copy of the model) beside other shards is left out and warned
 * of. */
#ifndef INFQ_IO_CHECKPOINT_H
#define INFQ_IO_CHECKPOINT_H

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/io/safetensors.h"

typedef struct infq_checkpoint infq_checkpoint;

typedef struct {
    const char *name;     /* borrowed until close */
    infq_dtype dtype;
    int n_dims;
    int64_t shape[INFQ_MAX_DIMS];
    int64_t n_elems;
    uint64_t n_bytes;
    int shard;            /* index of the file */
    uint64_t offset;      /* in that file */
} infq_ck_tensor;

/* Longer tensor names are refused: names of parts ("weight_packed") are made from them in fixed room. The longest of published models
 * have about 120 bytes. */
#define INFQ_CK_NAME_MAX 480

/* NOT_FOUND, FORMAT with file, tensor, rule; UNSUPPORTED for a name above INFQ_CK_NAME_MAX bytes. Warnings go to log. Zero tensors are legal here; the commands that need
 * weights refuse them ("holds 0 tensors"). */
infq_status infq_checkpoint_open(const char *path, const infq_log *log, infq_checkpoint **out, infq_err *err);
void infq_checkpoint_close(infq_checkpoint *ck);

const char *infq_checkpoint_path(const infq_checkpoint *ck);
bool infq_checkpoint_is_bare(const infq_checkpoint *ck);          /* a single file, no folder */
/* Parsed config.json (byte-exact text beside it), NULL if there is none. */
const cJSON *infq_checkpoint_config(const infq_checkpoint *ck);
const infq_buf *infq_checkpoint_config_text(const infq_checkpoint *ck);

size_t infq_checkpoint_count(const infq_checkpoint *ck);
/* Sorted by shard, then offset: reading in this order is sequential. */
const infq_ck_tensor *infq_checkpoint_get(const infq_checkpoint *ck, size_t i);
const infq_ck_tensor *infq_checkpoint_find(const infq_checkpoint *ck, const char *name);
/* Mapped bytes, unaligned; valid until close. */
const void *infq_checkpoint_data(const infq_checkpoint *ck, const infq_ck_tensor *t);
/* Tells the kernel that bytes [begin, end) of a tensor are done with. */
void infq_checkpoint_drop(const infq_checkpoint *ck, const infq_ck_tensor *t, uint64_t begin, uint64_t end);

size_t infq_checkpoint_shard_count(const infq_checkpoint *ck);
const char *infq_checkpoint_shard_name(const infq_checkpoint *ck, size_t i); /* file name without folder */
uint64_t infq_checkpoint_shard_bytes(const infq_checkpoint *ck, size_t i);
/* Side files of the folder, by name: everything that is neither weights (of any container), index, config.json nor
 * infq.json (the receipt of an earlier run), so tokenizer, licence, templates, generation_config.json. Sub-folders and
 * other containers' weights are left out and warned of. */
size_t infq_checkpoint_side_count(const infq_checkpoint *ck);
const char *infq_checkpoint_side_name(const infq_checkpoint *ck, size_t i);
/* Appends what tells these files from any others without reading them: name, size, place (device, inode), times of the last change of
 * content and of state of every shard, and the text of config.json. IO if a file is gone. */
infq_status infq_checkpoint_identity(const infq_checkpoint *ck, infq_buf *to, infq_err *err);
/* SHA-256 over all shard files' names, sizes and contents plus config.json, hex. Reads everything; drops pages. */
infq_status infq_checkpoint_digest(const infq_checkpoint *ck, const infq_log *log, char hex[65], infq_err *err);
/* Metadata pairs of all shards, each key once; where shards differ the first one's value (warned of). */
size_t infq_checkpoint_meta_count(const infq_checkpoint *ck);
void infq_checkpoint_meta_get(const infq_checkpoint *ck, size_t i, const char **key, const char **value);

#endif
