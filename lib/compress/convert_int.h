/* Shared by the converters: a stream of F32 pieces into a declared tensor. */
#ifndef INFQ_COMPRESS_CONVERT_INT_H
#define INFQ_COMPRESS_CONVERT_INT_H

#include "lib/compress/convert.h"

#define INFQ_CONVERT_STEP 1048576 /* elements a piece */

/* torch's name of an element type that convert writes, for config.json. */
const char *infq_convert_torch_name(infq_dtype t);

/* Rounds n finite-checked values x (elements first.. of the tensor) to dtype and writes them. buf: n * 4 bytes of scratch. */
infq_status infq_convert_put(infq_folder *to, const char *name, infq_dtype dtype, const float *x, int64_t first, int64_t n,
                             void *buf, infq_err *err);
/* NOSPACE when the folder's bytes and `extra` do not fit on the disk of path. */
infq_status infq_convert_check_space(const infq_folder *f, const char *path, uint64_t extra, infq_err *err);

#endif
