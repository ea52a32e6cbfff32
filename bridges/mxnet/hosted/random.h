/* Generators of random numbers in the form that libraries expect: 1,024 objects std::mt19937 of the
 * GNU C++ library, shared by the process as in MXNet. Calls that draw numbers run one at a time. */
#ifndef BRIDGES_MXNET_RANDOM_H
#define BRIDGES_MXNET_RANDOM_H

#include <tenon/op.h>

/* The states, for a call that has the number `of` of Tenon's generator for its own; random_end
 * follows.  At the start of a seed they are as mx.random.seed(seed, ctx) leaves them, and go on
 * from call to call; after other calls have drawn from the same generator, or from another, they
 * are what seed and position say.  of NULL: for a library that draws nothing. */
void *random_begin(const tenon_random_t *of);
void random_end(const tenon_random_t *of);

#endif
