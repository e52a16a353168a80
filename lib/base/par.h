/* Threads: OpenMP only, through here; nothing nested. */
#ifndef INFQ_BASE_PAR_H
#define INFQ_BASE_PAR_H

#include <stdint.h>

/* Number of threads that the next regions use; n <= 0: all processors we may use. Fewer, one at least, when the system (a limit of
 * processes or of address space) does not give so many; 1024 at most. They are started here. */
void infq_par_threads_set(int n);
int infq_par_threads(void);

/* Calls fn(ctx, begin, end, thread) on contiguous parts of [0, n), each a multiple of `grain` but the
 * last; at any time one part a thread, 0 <= thread < infq_par_threads(). Runs on the calling thread when
 * one part is enough. The parts depend on the number of threads and, in a team, on their pace, so each
 * output element must depend on its own index only. */
typedef void (*infq_par_fn)(void *ctx, int64_t begin, int64_t end, int thread);
void infq_par_for(int64_t n, int64_t grain, infq_par_fn fn, void *ctx);

/* Runs fn(ctx) on the calling thread while the other threads stand by: every infq_par_for inside hands
 * out parts of about a microsecond's notice instead of waking threads, which costs more than a small
 * product. A thread that the system has taken away holds up nobody, because who is there takes the parts;
 * one that finds no work for a while sleeps. Inside another team or region: fn is just called. */
typedef void (*infq_team_fn)(void *ctx);
void infq_par_team(infq_team_fn fn, void *ctx);

#endif
