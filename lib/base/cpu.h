/* CPU level, asked of processor and operating system once; INFQ_CPU=scalar|avx2|avx512|vnni lowers it. */
#ifndef INFQ_BASE_CPU_H
#define INFQ_BASE_CPU_H

#include <stdint.h>

#include "lib/base/err.h"

typedef enum {
    INFQ_CPU_SCALAR, /* plain C */
    INFQ_CPU_AVX2,   /* AVX2, FMA, F16C */
    INFQ_CPU_AVX512, /* F, BW, DQ, VL */
    INFQ_CPU_VNNI    /* AVX512 + AVX512-VNNI */
} infq_cpu_level;

infq_cpu_level infq_cpu_level_get(void);        /* in use */
infq_cpu_level infq_cpu_level_max(void);        /* of the machine */
/* For tests: use a lower level from now on. USAGE if the machine lacks it. */
infq_status infq_cpu_level_set(infq_cpu_level level, infq_err *err);
const char *infq_cpu_level_name(infq_cpu_level level);
/* "AMD EPYC ..." from /proc/cpuinfo into out, "" if unknown. */
char *infq_cpu_model(char *out, size_t cap);
int infq_cpu_count(void);                       /* processors we may use (affinity) */

/* Nanoseconds of the monotonic clock. */
int64_t infq_time_ns(void);

#endif
