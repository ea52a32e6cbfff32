/* Devices of PyTorch's other than the CPU: which of Tenon's each is, and the stream that PyTorch's
 * work goes to there. Invariant: what was said of a type of device, and a place that was found,
 * stay as long as the process. */
#ifndef BRIDGES_TORCH_PLACE_H
#define BRIDGES_TORCH_PLACE_H

#include "shim.h"

typedef int32_t (*place_stream_fn)(
    int32_t index, void **out_native); /* PyTorch's current stream; not 0: a failure */

typedef struct place_t { /* one device */
  struct place_t *next;
  int32_t type;
  int32_t index; /* as PyTorch has them */
  tenon_device_t device;
  place_stream_fn
      /* NULL: PyTorch tells none, and work is in order with the stream that the thread uses of
       * Tenon's */
      current;
  struct place_stream_t *streams; /* atomic */
} place_t;

/* Tensors of that type ("cuda", ...) are on Tenon's backend from here on; the text in `why` says
 * why not. */
tenon_status_t place_map(const char *type, const char *backend, char *why, size_t capacity);
/* The place of a device of PyTorch's (index -1: the current one); NULL: it is none of Tenon's, or
 * does not work. */
const place_t *place_find(int32_t type, int32_t index, char *why, size_t capacity);
/* Of one of Tenon's; NULL: PyTorch has no name for it. */
const place_t *place_of(tenon_device_t device, char *why, size_t capacity);
/* "cuda:1", or "a device of type 13, index 0" */
const char *place_name(int32_t type, int32_t index, char *out, size_t capacity);
/* The stream that PyTorch uses there now, lent; NULL: it cannot be used. */
tenon_stream_t *place_stream(const place_t *place, char *why, size_t capacity);

#endif
