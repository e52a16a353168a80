/* Threads: OpenMP only, through here. schedule(static), nothing nested. */
#ifndef INFQ_BASE_PAR_H
#define INFQ_BASE_PAR_H

#include <stdint.h>

/* Number of threads that the next regions use; n <= 0: all processors we may use. */
void infq_par_threads_set(int n);
int infq_par_threads(void);

/* Calls fn(ctx, begin, end, thread) on contiguous parts of [0, n), each a multiple of `grain` but the
 * last; one part a thread at most. Runs on the calling thread when one part is enough. The parts depend
 * on the number of threads, so each output element must depend on its own index only. */
typedef void (*infq_par_fn)(void *ctx, int64_t begin, int64_t end, int thread);
void infq_par_for(int64_t n, int64_t grain, infq_par_fn fn, void *ctx);

#endif
