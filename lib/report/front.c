#include <math.h>

#include "lib/report/report.h"

void infq_front(const double *cost, const double *worth, int n, bool *on)
{
    for (int i = 0; i < n; i++) {
        on[i] = !isnan(cost[i]) && !isnan(worth[i]);
        for (int j = 0; j < n && on[i]; j++) // comparisons with NAN are false
            if (cost[j] <= cost[i] && worth[j] >= worth[i] && (cost[j] < cost[i] || worth[j] > worth[i]))
                on[i] = false;
    }
}
