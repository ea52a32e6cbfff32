/* Devices of PyTorch other than the CPU: which Tenon device each of them is, and the stream that
 * PyTorch uses there. A mapping of a device type, and a device that was found, stay until the
 * process ends. */
#ifndef BRIDGES_TORCH_DEVICE_H
#define BRIDGES_TORCH_DEVICE_H

#include <tenon/torch.h>

#include "shim.h"

/* Returns PyTorch's current stream; a result other than 0 is a failure. */
typedef int32_t (*torch_device_stream_fn)(int32_t index, void **out_native);

typedef struct torch_device_t { /* one device */
  struct torch_device_t *next;
  int32_t type;
  int32_t index; /* as PyTorch numbers them */
  tenon_device_t device;
  const tenon_torch_backend_t *own; /* NULL: its memory and streams are not Tenon's */
  /* NULL: PyTorch reports no stream, and work is ordered with the Tenon stream that the thread
   * uses */
  torch_device_stream_fn current;
} torch_device_t;

/* Maps a device type ("cuda", ...) to a Tenon backend from now on. After a failure `why` has the
 * reason. */
tenon_status_t torch_device_map(const char *type, const char *backend, char *why, size_t capacity);
/* Maps PrivateUse1 to a backend whose memory and streams are Tenon's. */
tenon_status_t torch_device_own(const tenon_torch_backend_t *own, char *why, size_t capacity);
/* Finds a PyTorch device (index -1: the current one). Returns NULL with the reason in `why` if it
 * is not mapped or does not work. */
const torch_device_t *torch_device_find(int32_t type, int32_t index, char *why, size_t capacity);
/* Finds the PyTorch device for a Tenon device; NULL: there is none. */
const torch_device_t *torch_device_of(tenon_device_t device, char *why, size_t capacity);
/* Returns "cuda:1", or "a device of type 13, index 0" for an unknown type. */
const char *torch_device_name(int32_t type, int32_t index, char *out, size_t capacity);
/* Returns the stream that PyTorch currently uses on the device, borrowed; NULL: it cannot be
 * used. */
tenon_stream_t *torch_device_stream(const torch_device_t *torch_device, char *why, size_t capacity);

#endif
