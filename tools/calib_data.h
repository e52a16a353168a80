/* Where calibration tokens come from: shared by the commands that calibrate. */
#ifndef INFQ_TOOLS_CALIB_DATA_H
#define INFQ_TOOLS_CALIB_DATA_H

#include "lib/compress/calib.h"

/* spec: "self", or a text file (plain, .gz, JSON Lines with "text"). */
infq_status calib_data_load(const infq_checkpoint *ck, const char *spec, int64_t window, int64_t n_windows, uint64_t seed,
                            const infq_log *log, infq_calib *out, infq_err *err);

#endif
