/* Calibration: tokens that a model is run on before its weights are changed, and the driver that every calibrated method is a client of. */
#ifndef INFQ_COMPRESS_CALIB_H
#define INFQ_COMPRESS_CALIB_H

#include "lib/base/log.h"
#include "lib/io/tokenizer.h"
#include "lib/model/model.h"

/* Windows of equal length, each a sequence of its own from position 0. */
typedef struct {
    int32_t *ids;          /* [n_windows][window] */
    int64_t n_windows, window;
    char source[64];       /* "self" or the name of a file */
    char digest[65];       /* SHA-256 of the ids */
    uint64_t seed;         /* of "self"; 0 for a text */
} infq_calib;

/* The first n_windows whole windows of a text's ids; what is left over is dropped. FORMAT when there is not one whole window (then the text is
 * one shorter window if it has at least 2 tokens). Fewer windows than asked for: warned of. */
infq_status infq_calib_from_ids(const int32_t *ids, int64_t n, int64_t window, int64_t n_windows, const char *source,
                                const infq_log *log, infq_calib *out, infq_err *err);
/* The model writes its own data: sampled from `prefix` (the BOS token; < 0: token 0), temperatures 0.8 to 1.2 in turn over the windows (1.5 for the first words), 8 windows
 * at a time. The same tokens for any number of threads; the CPU level may change them. */
infq_status infq_calib_self(infq_model *m, int32_t prefix, int64_t window, int64_t n_windows, uint64_t seed, const infq_log *log,
                            infq_calib *out, infq_err *err);
void infq_calib_free(infq_calib *c);

#endif
