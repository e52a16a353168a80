/* Seeded random numbers: xoshiro256** from splitmix64. Same stream on every machine. */
#ifndef INFQ_BASE_RNG_H
#define INFQ_BASE_RNG_H

#include <stdint.h>

typedef struct {
    uint64_t s[4];
} infq_rng;
infq_rng infq_rng_seed(uint64_t seed);
uint64_t infq_rng_u64(infq_rng *r);
uint64_t infq_rng_below(infq_rng *r, uint64_t n); /* uniform 0..n-1, no bias; n >= 1 */
double infq_rng_f64(infq_rng *r);                 /* [0, 1), 53 bits */
double infq_rng_normal(infq_rng *r);              /* mean 0, variance 1 */

#endif
