/* What the machine can do, measured now: read bandwidth of memory and multiply-add rate of the backend. */
#ifndef INFQ_BENCH_ROOFLINE_H
#define INFQ_BENCH_ROOFLINE_H

#include "lib/backend/backend.h"

typedef struct {
    double read_bytes_per_s; /* best of several passes over 512 MiB, all threads */
    double flop_per_s;       /* F32 products [n,1536] x [1536,1536]^T of the backend, the best of n = 128, 256, 512 and of
                              * several passes; products of 8-bit integers can be faster */
} infq_roofline;
infq_status infq_roofline_measure(infq_backend *be, infq_roofline *out, infq_err *err);

#endif
