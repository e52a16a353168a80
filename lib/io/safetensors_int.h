/* Between the safetensors reader, its writer, and the folders built on them. */
#ifndef INFQ_IO_SAFETENSORS_INT_H
#define INFQ_IO_SAFETENSORS_INT_H

#include "lib/io/safetensors.h"

#define INFQ_ST_HEADER_MAX 100000000ull

/* Name in quotes for a message: cut to 64 bytes at a character, control characters as '?'. Returns out. */
#define INFQ_ST_QUOTED 72
char *infq_st_quote(const char *name, char out[INFQ_ST_QUOTED]);

/* Fills n_elems and n_bytes from dtype and shape; FORMAT (ValidationOverflow, MisalignedSlice). */
infq_status infq_st_measure(infq_st_tensor *t, infq_err *err);

#endif
