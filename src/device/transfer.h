/* Copies of bytes between host memory and devices, and between devices: directly where the plug-ins
 * can, else by way of the host's memory, in two pieces that take turns.  Called where tensors move.
 * Devices' sides are ordered by streams, and so is host memory that has a record; copies enqueue on
 * the streams that the thread uses. */
#ifndef TN_DEVICE_TRANSFER_H
#define TN_DEVICE_TRANSFER_H

#include "device/memory.h"

typedef struct tn_end_t { /* one side of a copy */
  tn_ordinal_t *ordinal;  /* NULL: host memory */
  tenon_memory_t at;      /* host: an address and 0 */
  tn_memory_t *memory; /* that `at` is in; NULL: not the host's, and nothing is known of its use */
} tn_end_t;

/* `name` is who is to blame: an operator, or "copy".  The host's side is free to change when it
 * returns. */
tenon_status_t tn_transfer(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                           const char *name);
/* The same, but the host's side is in use until the stream has passed the copy. */
tenon_status_t tn_transfer_begin(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                                 const char *name);

#endif
