#include "lib/base/par.h"

#include <omp.h>

#include "lib/base/cpu.h"

void infq_par_threads_set(int n)
{
    omp_set_num_threads(n > 0 ? n : infq_cpu_count());
}

int infq_par_threads(void)
{
    return omp_get_max_threads();
}

void infq_par_for(int64_t n, int64_t grain, infq_par_fn fn, void *ctx)
{
    int64_t n_grains, parts;

    if (n <= 0)
        return;
    n_grains = (n + grain - 1) / grain;
    parts = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (parts > n_grains)
        parts = n_grains;
    if (parts <= 1) {
        fn(ctx, 0, n, 0);
        return;
    }
#pragma omp parallel for schedule(static) num_threads((int)parts)
    for (int64_t p = 0; p < parts; p++) {
        int64_t begin = n_grains * p / parts * grain, end = n_grains * (p + 1) / parts * grain;
        fn(ctx, begin, end < n ? end : n, (int)p);
    }
}
