/* What MXNet passes with a call: arrays, memory functions and random states. */
#ifndef BRIDGES_MXNET_EXPORTED_BLOCK_H
#define BRIDGES_MXNET_EXPORTED_BLOCK_H

#include <stdint.h>

typedef struct arrays_t {
  const int64_t *const *shapes;
  const int *ranks;
  const int *dtypes;
  void *const *data;
  const char *const *devices;
  int count;
} arrays_t;

typedef struct block_t {
  arrays_t in;
  arrays_t out;
  void *random; /* 1,024 states of the C++ library's mt19937; NULL: MXNet passed none */
} block_t;

#endif
