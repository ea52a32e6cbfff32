/* devices/null/null.h: what was asked of the device null: table->native(on, "null", NULL) is a
 * null_counts_t of the ordinal, which grows from the start of the library on. */
#ifndef TENON_NULL_H
#define TENON_NULL_H

#include <stdatomic.h>
#include <tenon/device.h>

typedef struct null_counts_t {
  _Atomic uint64_t allocations;
  _Atomic uint64_t frees;
  _Atomic uint64_t bytes; /* bytes: in all, of allocations */
  _Atomic uint64_t copies;
  _Atomic uint64_t fills;
  _Atomic uint64_t launches;
  _Atomic uint64_t replays;
  _Atomic uint64_t ticket; /* the last one */
} null_counts_t;

#endif
