/* Devices of calls and tensors, and memory on devices. */
#ifndef TN_STORAGE_PLACE_H
#define TN_STORAGE_PLACE_H

#include "operator/op.h"

/* Where a call runs: the device of the first argument that is not on the CPU, else of a device
 * attribute, else the thread's. */
tenon_device_t tn_call_device(const tenon_call_t *call);
tenon_device_t tn_device_of(const tenon_op_t *op, const tenon_value_t *attrs,
                            tenon_tensor_t *const *inputs);
/* Keys of a call that has no tensor arguments: of its device attribute, else of the thread's
 * default device. */
uint64_t tn_keys_without_tensors(const tenon_op_t *op, const tenon_value_t *attrs);
/* Where that key is from, in words; out_argument: the name of the argument, or "". */
const char *tn_key_origin(const tenon_op_t *op, const tenon_value_t *attrs,
                          const char **out_argument);
/* States where a tensor's memory is; its keys follow. */
void tn_tensor_place(tenon_tensor_t *tensor, tenon_device_t device);
/* The bytes from the first to behind the last of its elements; false: it has none. */
bool tn_place_span(const tenon_tensor_t *tensor, char **out_begin, char **out_end);
/* Do the bytes from first to last overlap?  Handles are no addresses: of two allocations, never. */
bool tn_place_overlap(const tenon_tensor_t *a, const tenon_tensor_t *b);
/* A dense tensor with memory of that device, contents undefined. */
tenon_status_t tn_place_create(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                               const int64_t *shape, tenon_tensor_t **out_tensor);
/* The same with strides, none below 0; memory reaches to the last element. */
tenon_status_t tn_place_strided(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                const int64_t *shape, const int64_t *strides,
                                tenon_tensor_t **out_tensor);
/* A dense tensor of the same dtype and shape on the same device, with a copy of the elements or
 * with any. */
tenon_status_t tn_place_dense(const tenon_tensor_t *tensor, bool with_elements,
                              tenon_tensor_t **out_tensor);
/* As tn_tensor_copy_into, wherever the two are; on meta there is nothing to copy. */
tenon_status_t tn_place_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to);
/* A tensor of meta: a shape over no memory. */
tenon_status_t tn_place_shape(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                              const int64_t *strides, tenon_tensor_t **out_tensor);
/* Switches layers and modes of the thread off, and gives what its calls saw before, to put back. */
tn_thread_calls_t tn_calls_without_layers(void);
typedef struct tn_bytes_t { /* where some bytes begin */
  tenon_device_t device;
  void *data; /* an address, or a handle and its offset */
  uint64_t offset;
  struct tn_memory_t *memory; /* that they are in; NULL: the host's, or nothing is known of it */
} tn_bytes_t;
/* Bytes of a tensor's memory at an address that is reckoned from tn_address() of it. */
tn_bytes_t tn_bytes_of(const tenon_tensor_t *tensor, char *address);
tn_bytes_t tn_bytes_of_host(void *data);
/* The memory of a device's plug-in that a tensor is in; NULL: none. */
struct tn_memory_t *tn_memory_of(const tenon_tensor_t *tensor);
/* Copies bytes between devices, or within one; they do not overlap. */
tenon_status_t tn_place_copy(tn_bytes_t from, tn_bytes_t to, uint64_t size);

/* Calls of core::allocate, core::copy and core::contiguous, by which a backend without a plug-in
 * makes and copies memory: dispatch sets them when the process starts. */
typedef struct tn_place_calls_t {
  tenon_status_t (*run)(const tenon_op_t *op, const tenon_value_t *attrs,
                        tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
  tenon_status_t (*call)(const tenon_op_t *op, const tenon_value_t *attrs,
                         tenon_tensor_t *const *inputs, tenon_tensor_t **outputs);
} tn_place_calls_t;
extern tn_place_calls_t tn_place_calls;

#endif
