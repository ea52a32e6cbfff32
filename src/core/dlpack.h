/* The structures of DLPack 1.x that Tenon reads and writes. They are binary compatible with the
 * public dlpack.h, which a program may include together with tenon.h. */
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
