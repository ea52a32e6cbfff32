/* Devices of calls and tensors, and memory on devices. */
#ifndef TN_STORAGE_DEVICE_MEMORY_H
#define TN_STORAGE_DEVICE_MEMORY_H

#include "operator/op.h"

/* Returns where a call runs: the device of the first input that is not on the CPU and not
 * declared @host, else the device of an attribute. Else an operator without inputs runs on the
 * thread's default device, and any other on the CPU. */
tenon_device_t tn_call_device(const tenon_call_t *call);
tenon_device_t tn_device_of(const tenon_op_t *op, const tenon_value_t *attrs,
                            tenon_tensor_t *const *inputs);
/* Returns the keys of a call that has no tensor arguments: the key of its device attribute, else of
 * the thread's default device. */
uint64_t tn_keys_without_tensors(const tenon_op_t *op, const tenon_value_t *attrs);
/* Describes where that key comes from. *out_argument: the name of the device argument, or "". */
const char *tn_key_origin(const tenon_op_t *op, const tenon_value_t *attrs,
                          const char **out_argument);
/* States where a tensor's memory is, and sets its keys accordingly. */
void tn_tensor_set_device(tenon_tensor_t *tensor, tenon_device_t device);
/* Finds the bytes from the first element to the end of the last one; false: the tensor has no
 * elements. */
bool tn_tensor_span(const tenon_tensor_t *tensor, char **out_begin, char **out_end);
/* Returns whether these ranges of bytes overlap for two tensors. Handles are not addresses: two
 * allocations of a device with handles never overlap. */
bool tn_tensors_overlap(const tenon_tensor_t *a, const tenon_tensor_t *b);
/* Creates a dense tensor with memory of that device and undefined contents. */
tenon_status_t tn_device_tensor_create(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                       const int64_t *shape, tenon_tensor_t **out_tensor);
/* Does the same with strides, none of which is negative; the memory reaches to the last element. */
tenon_status_t tn_device_tensor_create_strided(tenon_device_t device, tenon_dtype_t dtype,
                                               int32_t ndim, const int64_t *shape,
                                               const int64_t *strides, tenon_tensor_t **out_tensor);
/* Creates a dense tensor of the same dtype and shape on the same device, with a copy of the
 * elements or with undefined contents. */
tenon_status_t tn_device_tensor_create_like(const tenon_tensor_t *tensor, bool with_elements,
                                            tenon_tensor_t **out_tensor);
/* Does what tn_tensor_copy_into does, wherever the two tensors are. Meta tensors have nothing to
 * copy. */
tenon_status_t tn_device_tensor_copy(const tenon_tensor_t *from, tenon_tensor_t *to);
/* Creates a meta tensor: a shape without memory. */
tenon_status_t tn_meta_tensor_create(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                     const int64_t *strides, tenon_tensor_t **out_tensor);
/* Disables layers and modes for calls of this thread, and returns the previous settings, which the
 * caller restores. */
tn_thread_calls_t tn_calls_without_layers(void);
/* The beginning of some bytes. */
typedef struct tn_bytes_t {
  tenon_device_t device;
  void *data; /* an address, or a handle that `offset` belongs to */
  uint64_t offset;
  /* The plug-in's memory that contains them; NULL: they are the host's, or nothing is known. */
  struct tn_memory_t *memory;
} tn_bytes_t;
/* Returns the bytes of a tensor's memory at an address that the caller computed from
 * tn_address(tensor). */
tn_bytes_t tn_bytes_of(const tenon_tensor_t *tensor, char *address);
tn_bytes_t tn_bytes_of_host(void *data);
/* Returns the plug-in's memory that contains a tensor; NULL: none. */
struct tn_memory_t *tn_memory_of(const tenon_tensor_t *tensor);
/* Copies bytes between devices or within one device; the two ranges must not overlap. */
tenon_status_t tn_bytes_copy(tn_bytes_t from, tn_bytes_t to, uint64_t size);

/* Calls of core::allocate and core::copy, by which a backend without a plug-in creates and copies
 * memory, and of core::contiguous, which copies strided tensors on a device. dispatch sets them
 * when the process starts. */
typedef struct tn_device_calls_t {
  tenon_status_t (*run)(const tenon_op_t *op, const tenon_value_t *attrs,
                        tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
  tenon_status_t (*call)(const tenon_op_t *op, const tenon_value_t *attrs,
                         tenon_tensor_t *const *inputs, tenon_tensor_t **outputs);
} tn_device_calls_t;
extern tn_device_calls_t tn_device_calls;

#endif
