/* Copies of bytes between host memory and devices, and between devices: directly if the plug-ins
 * support it, otherwise through host memory in two alternating pieces. Called where tensors are
 * moved. Devices and tracked host memory are ordered by streams; copies are enqueued on the streams
 * that the thread uses. */
#ifndef TN_DEVICE_TRANSFER_H
#define TN_DEVICE_TRANSFER_H

#include "device/memory.h"

typedef struct tn_end_t { /* one side of a copy */
  tn_ordinal_t *ordinal;  /* NULL: host memory */
  tenon_memory_t at;      /* host: an address and 0 */
  tn_memory_t *memory;    /* memory record of `at`; NULL: untracked host memory */
} tn_end_t;

/* Copies; `name` is the operator to blame, or "copy". The host's side may be changed when the
 * function returns. */
tenon_status_t tn_transfer(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                           const char *name);
/* The same, but the host's side is in use until the stream has performed the copy. */
tenon_status_t tn_transfer_begin(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                                 const char *name);

/* Can the plug-in fill memory? */
bool tn_ordinal_fills(const tn_ordinal_t *ordinal);
/* Fills memory of a device whose plug-in can, in the stream that the thread uses there. `bytes` is
 * a multiple of `pattern_bytes`, which is 1, 2, 4 or 8. */
tenon_status_t tn_fill_begin(const tn_end_t *to, uint64_t bytes, const void *pattern,
                             uint32_t pattern_bytes, const char *name);

#endif
