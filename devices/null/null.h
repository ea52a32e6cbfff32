/* devices/null/null.h: counters of what the null device was asked to do. table->native(on, "null",
 * NULL) returns the null_counts_t of the ordinal. The counters only grow, from the start of the
 * library on. */
#ifndef TENON_NULL_H
#define TENON_NULL_H

#include <stdatomic.h>
#include <tenon/device.h>

typedef struct null_counts_t {
  _Atomic uint64_t allocations;
  _Atomic uint64_t frees;
  _Atomic uint64_t bytes; /* `bytes`: the sum of all allocations */
  _Atomic uint64_t copies;
  _Atomic uint64_t fills;
  _Atomic uint64_t launches;
  _Atomic uint64_t replays;
  _Atomic uint64_t ticket; /* the last ticket */
} null_counts_t;

#endif
