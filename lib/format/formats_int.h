/* Rows of the format registry; between the files of lib/format only. */
#ifndef INFQ_FORMAT_FORMATS_INT_H
#define INFQ_FORMAT_FORMATS_INT_H

#include "lib/format/format.h"

extern const infq_format infq_format_dense;
extern const infq_format infq_format_compressed_tensors;

/* config.json's quantization_config, or for a bare file the one in its metadata, parsed into *own (to be deleted by the
 * caller; NULL when borrowed from the checkpoint). *out NULL when there is none. */
infq_status infq_format_quant_config(const infq_checkpoint *ck, const cJSON **out, cJSON **own, infq_err *err);
/* Reads module.weight as a plain float matrix; NOT_FOUND, UNSUPPORTED by dtype. */
infq_status infq_dense_read(const infq_checkpoint *ck, const char *module, infq_weight *out, infq_err *err);

#endif
