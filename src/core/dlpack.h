/* The structures of DLPack 1.x as we write and read them; equal to the public dlpack.h, which
 * programs may include beside tenon.h. */
#ifndef TN_CORE_DLPACK_H
#define TN_CORE_DLPACK_H

#include <tenon/op.h>

typedef struct tn_dl_tensor_t {
  void *data;
  tenon_device_t device;
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} tn_dl_tensor_t;

struct DLManagedTensor {
  tn_dl_tensor_t dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags; /* bit 0: read-only; bit 1: copied */
  tn_dl_tensor_t dl_tensor;
};

#endif
