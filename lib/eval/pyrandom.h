/* Python's random.Random(seed).sample over 0..n-1, so that few-shot examples drawn by the reference harness can be drawn again.
 * Generator: MT19937 (Matsumoto and Nishimura 1998), seeded by its init_by_array with the seed's 32-bit words. */
#ifndef INFQ_EVAL_PYRANDOM_H
#define INFQ_EVAL_PYRANDOM_H

#include <stdint.h>

#include "lib/base/err.h"

typedef struct {
    uint32_t state[624];
    int at;
} infq_pyrandom;
void infq_pyrandom_seed(infq_pyrandom *r, uint32_t seed);
uint32_t infq_pyrandom_bits(infq_pyrandom *r, int n); /* getrandbits(n), 1 <= n <= 32 */
/* k different numbers of 0..n-1 in the order of random.sample(range(n), k); 0 <= k <= n < 2^32. */
infq_status infq_pyrandom_sample(infq_pyrandom *r, int64_t n, int64_t k, int64_t *out, infq_err *err);

#endif
