/* What the machine can do, measured now: read bandwidth of memory and multiply-add rate of the backend. */
#ifndef INFQ_BENCH_ROOFLINE_H
#define INFQ_BENCH_ROOFLINE_H

#include "lib/backend/backend.h"

typedef struct {
    double read_bytes_per_s; /* best of several passes over 512 MiB, all threads */
    double flop_per_s;       /* best of several F32 products [256,2048] x [2048,2048]^T of the backend */
} infq_roofline;
infq_status infq_roofline_measure(infq_backend *be, infq_roofline *out, infq_err *err);

#endif
