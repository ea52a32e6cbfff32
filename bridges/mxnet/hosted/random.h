/* Generators of random numbers in the form that libraries expect: 1,024 objects std::mt19937 of the
 * GNU C++ library, shared by the process as in MXNet. Calls that draw numbers run one at a time. */
#ifndef BRIDGES_MXNET_RANDOM_H
#define BRIDGES_MXNET_RANDOM_H

#include <tenon/op.h>

/* Returns the states for one call, to which the number `of` of Tenon's generator belongs. The
 * caller must call random_end afterwards. If `of` follows the number of the last call, the states
 * continue from there. Otherwise all states are seeded: as mx.random.seed(seed, ctx) does it if
 * `of` is the first number of its seed, else from the value of `of`. NULL: the library draws no
 * numbers. */
void *random_begin(const tenon_random_t *of);
void random_end(const tenon_random_t *of);

#endif
