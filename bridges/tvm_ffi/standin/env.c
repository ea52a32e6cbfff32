/* The environment of a thread: its streams, and the allocator of tensors. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "object.h"

enum {
  STREAMS_MOST = 32, /* devices whose stream a thread has set */
};

typedef struct device_stream_t {
  tenon_device_t device;
  void *stream;
} device_stream_t;

static _Thread_local device_stream_t streams[STREAMS_MOST];
static _Thread_local int stream_count;
static _Thread_local ffi_allocator_fn thread_allocator;
static _Atomic(ffi_allocator_fn) process_allocator;

static device_stream_t *find_stream(int32_t type, int32_t id) {
  for (int i = 0; i < stream_count; i++)
    if (streams[i].device.type == type && streams[i].device.id == id) return &streams[i];
  return NULL;
}

EXPORT(int, TVMFFIEnvSetStream, int32_t type, int32_t id, void *stream, void **out_before) {
  device_stream_t *found = find_stream(type, id);
  if (out_before) *out_before = found ? found->stream : NULL;
  if (!found && stream_count == STREAMS_MOST)
    return raise_error("RuntimeError", "a thread uses streams of more than %d devices",
                       STREAMS_MOST);
  if (!found) found = &streams[stream_count++];
  *found = (device_stream_t){{type, id}, stream};
  return 0;
}

EXPORT(void *, TVMFFIEnvGetStream, int32_t type, int32_t id) {
  const device_stream_t *found = find_stream(type, id);
  return found ? found->stream : NULL;
}

EXPORT(int, TVMFFIEnvSetDLPackManagedTensorAllocator, ffi_allocator_fn allocator, int is_global,
       ffi_allocator_fn *out_before) {
  if (out_before) *out_before = thread_allocator;
  if (is_global) atomic_store(&process_allocator, allocator);
  thread_allocator = allocator;
  return 0;
}

EXPORT(ffi_allocator_fn, TVMFFIEnvGetDLPackManagedTensorAllocator, void) {
  return thread_allocator ? thread_allocator : atomic_load(&process_allocator);
}

EXPORT(int, TVMFFIEnvCheckSignals, void) { return 0; }

/* Tensor objects */

typedef struct tensor_t {
  ffi_tensor_t base;
  ffi_managed_t *managed; /* what owns the memory: a tensor of DLPack, */
  ffi_object_t *source;   /* or an object */
} tensor_t;

static void end_tensor(void *self) {
  tensor_t *tensor = self;
  if (tensor->managed && tensor->managed->deleter) tensor->managed->deleter(tensor->managed);
  ffi_release(tensor->source);
}

/* Creates an object with a shape and strides of its own. */
static tensor_t *create_tensor_object(const ffi_dltensor_t *like) {
  const size_t axes = (size_t)like->ndim * sizeof *like->shape;
  tensor_t *made = ffi_create(sizeof *made + 2 * axes, FFI_TENSOR, end_tensor);
  if (!made) return NULL;
  made->base.tensor = *like;
  made->base.tensor.shape = (int64_t *)(void *)(made + 1);
  made->base.tensor.strides = made->base.tensor.shape + like->ndim;
  int64_t stride = 1;
  for (int32_t i = like->ndim - 1; i >= 0; i--) {
    made->base.tensor.shape[i] = like->shape[i];
    made->base.tensor.strides[i] = like->strides ? like->strides[i] : stride;
    stride *= like->shape[i];
  }
  return made;
}

static void raise_from_allocator(void *context, const char *kind, const char *text) {
  (void)context;
  (void)raise_error(kind, "%s", text);
}

EXPORT(int, TVMFFIEnvTensorAlloc, ffi_dltensor_t *prototype, ffi_object_t **out) {
  ffi_allocator_fn allocator = TVMFFIEnvGetDLPackManagedTensorAllocator();
  ffi_managed_t *managed = NULL;
  if (!allocator) return raise_error("RuntimeError", "no allocator of tensors is set");
  if (allocator(prototype, &managed, NULL, raise_from_allocator) != 0) return -1;
  if (!managed) return raise_error("RuntimeError", "the allocator returned no tensor");
  tensor_t *made = create_tensor_object(&managed->tensor);
  if (!made) {
    if (managed->deleter) managed->deleter(managed);
    return raise_error("MemoryError", "out of memory: a tensor");
  }
  made->managed = managed;
  *out = &made->base.head;
  return 0;
}

EXPORT(int, TVMFFITensorCreateUnsafeView, ffi_object_t *source, const ffi_dltensor_t *prototype,
       ffi_object_t **out) {
  tensor_t *made = create_tensor_object(prototype);
  if (!made) return raise_error("MemoryError", "out of memory: a tensor");
  ffi_retain(source);
  made->source = source;
  *out = &made->base.head;
  return 0;
}
