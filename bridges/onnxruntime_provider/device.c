/* Devices of Tenon as devices of ONNX Runtime: their memory, and copies to and from it. ONNX
 * Runtime knows memory by its address, so each block is found by the addresses that it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "common/ort_element.h"
#include "provider.h"

/* ---- devices --------------------------------------------------------------------------------- */

/* Lets operators for which the device has no kernel run on the CPU, with copies. The registration
 * stays until the process ends. */
static tenon_status_t allow_fallback(const char *backend) {
  tenon_registration_t *registration = NULL;
  const tenon_status_t status =
      tenon_fallback_add(backend, tenon_fallback_cpu, NULL, NULL, 0, &registration);
  return status == TENON_EXISTS ? TENON_OK : status; /* the program has registered one */
}

tenon_status_t device_open(const char *name, tenon_device_t *out_device) {
  char backend[48];
  char *end = NULL;
  int32_t count = 0;
  const size_t size = strcspn(name, ":");
  const long ordinal = name[size] ? strtol(name + size + 1, &end, 10) : 0;
  if (size == 0 || size >= sizeof backend || (end && (*end || end == name + size + 1)))
    return tn_fail(TENON_INVALID, "expected a name such as cpu or sim:0; found '%s'", name);
  snprintf(backend, sizeof backend, "%.*s", (int)size, name);
  *out_device = (tenon_device_t){0};
  if (strcmp(backend, "cpu") == 0 && ordinal == 0) return TENON_OK;
  tenon_status_t status = tenon_device_count(backend, &count);
  if (status == TENON_OK && (ordinal < 0 || ordinal >= count))
    status = tn_fail(TENON_NOT_FOUND, "'%s' has %d devices here", backend, count);
  if (status == TENON_OK) status = tenon_device_find(backend, (int32_t)ordinal, out_device);
  return status == TENON_OK ? allow_fallback(backend) : status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct block_t {
  struct block_t *next;
  tenon_tensor_t *tensor;
  const char *data;
  size_t size;
} block_t;

typedef struct allocator_t {
  OrtAllocator allocator; /* first, as ONNX Runtime knows only this */
  const factory_t *factory;
} allocator_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block_t *blocks; /* of all devices */

static void *allocate_block(OrtAllocator *self, size_t size) {
  const factory_t *factory = ((allocator_t *)self)->factory;
  const int64_t extent = size ? (int64_t)size : 1;
  block_t *block = calloc(1, sizeof *block);
  if (!block) return NULL;
  if (tenon_tensor_create_on(factory->device, tenon_dtype(TENON_U8), 1, &extent, &block->tensor) !=
      TENON_OK) {
    free(block);
    return NULL;
  }
  block->data = block->tensor->data;
  block->size = (size_t)extent;
  pthread_mutex_lock(&lock);
  block->next = blocks;
  blocks = block;
  pthread_mutex_unlock(&lock);
  return block->tensor->data;
}

static void free_block(OrtAllocator *self, void *data) {
  (void)self;
  if (!data) return;
  pthread_mutex_lock(&lock);
  block_t **at = &blocks;
  while (*at && (*at)->data != data)
    at = &(*at)->next;
  block_t *block = *at;
  if (block) *at = block->next;
  pthread_mutex_unlock(&lock);
  if (block) tenon_tensor_release(block->tensor);
  free(block);
}

static const OrtMemoryInfo *describe_allocator(const OrtAllocator *self) {
  return ((const allocator_t *)self)->factory->memory;
}

static OrtStatus *create_allocator(OrtEpFactory *self, const OrtMemoryInfo *memory,
                                   const OrtKeyValuePairs *options, OrtAllocator **out) {
  (void)memory;
  (void)options;
  *out = NULL;
  if (!((factory_t *)self)->memory) return NULL; /* ONNX Runtime's own */
  allocator_t *allocator = calloc(1, sizeof *allocator);
  if (!allocator) return api_status(tn_no_memory("an allocator", 0), PROVIDER_NAME);
  allocator->factory = (factory_t *)self;
  allocator->allocator = (OrtAllocator){.version = EP_VERSION,
                                        .Alloc = allocate_block,
                                        .Free = free_block,
                                        .Info = describe_allocator,
                                        .Reserve = allocate_block};
  *out = &allocator->allocator;
  return NULL;
}

static void release_allocator(OrtEpFactory *self, OrtAllocator *allocator) {
  (void)self;
  free(allocator);
}

tenon_status_t device_view(const void *data, tenon_dtype_t dtype, int32_t ndim,
                           const int64_t *shape, tenon_tensor_t **out_tensor) {
  tenon_status_t status = TENON_OK;
  *out_tensor = NULL;
  pthread_mutex_lock(&lock);
  const block_t *block = blocks;
  while (block &&
         ((const char *)data < block->data || (const char *)data >= block->data + block->size))
    block = block->next;
  if (block)
    status = tenon_tensor_part(block->tensor, dtype, (uint64_t)((const char *)data - block->data),
                               ndim, shape, NULL, out_tensor);
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static tenon_status_t view_tensor(const OrtValue *value, tenon_tensor_t **out_tensor) {
  const int64_t *shape = NULL;
  size_t rank = 0;
  int element = 0;
  void *data = NULL;
  tenon_dtype_t dtype;
  tenon_status_t status =
      API(GetTensorElementTypeAndShapeDataReference, value, &element, &shape, &rank);
  if (status == TENON_OK) status = API(GetTensorMutableData, (OrtValue *)(uintptr_t)value, &data);
  if (status == TENON_OK && !element_dtype((ort_element_t)element, &dtype))
    status = tn_fail(TENON_UNIMPLEMENTED, "a value has the element type %d", element);
  if (status != TENON_OK) return status;
  status = device_view(data, dtype, (int32_t)rank, shape, out_tensor);
  if (status != TENON_OK || *out_tensor) return status;
  return tenon_tensor_borrow(data, dtype, (int32_t)rank, shape, NULL, NULL, NULL, out_tensor);
}

tenon_status_t device_stage(const factory_t *factory, const tenon_tensor_t *tensor,
                            tenon_tensor_t **out_staged) {
  tenon_tensor_t *staged = NULL;
  tenon_status_t status = tenon_tensor_create_pinned(factory->device, tensor->dtype, tensor->ndim,
                                                     tensor->shape, &staged);
  if (status == TENON_OK) status = tenon_tensor_copy_async(tensor, staged);
  if (status == TENON_OK)
    *out_staged = staged;
  else
    tenon_tensor_release(staged);
  return status;
}

/* Copies that end on the host are done when the function returns: if the run fails elsewhere, ONNX
 * Runtime frees the memory without waiting for the stream. */
static tenon_status_t copy_tensor(const factory_t *factory, const tenon_tensor_t *source,
                                  tenon_tensor_t *target, OrtSyncStream *stream) {
  stream_use_t use;
  tenon_tensor_t *staged = NULL;
  if (!tenon_count(target)) return TENON_OK;
  tenon_status_t status =
      stream_begin(factory, stream ? api.SyncStream_GetHandle(stream) : NULL, &use);
  if (status == TENON_OK && use.owner && source->device.type <= 1)
    status = device_stage(factory, source, &staged);
  if (status == TENON_OK) status = tenon_tensor_copy_async(staged ? staged : source, target);
  tenon_tensor_release(staged);
  return stream_end(&use, status, target->device.type <= 1);
}

static tenon_status_t copy_value(const factory_t *factory, const OrtValue *from, OrtValue *to,
                                 OrtSyncStream *stream) {
  tenon_tensor_t *source = NULL;
  tenon_tensor_t *target = NULL;
  tenon_status_t status = view_tensor(from, &source);
  if (status == TENON_OK) status = view_tensor(to, &target);
  if (status == TENON_OK) status = copy_tensor(factory, source, target, stream);
  tenon_tensor_release(source);
  tenon_tensor_release(target);
  return status;
}

typedef struct transfer_t {
  OrtDataTransferImpl transfer; /* first, as ONNX Runtime knows only this */
  const factory_t *factory;
} transfer_t;

static void release_transfer(OrtDataTransferImpl *self) { free(self); }

static bool can_copy(const OrtDataTransferImpl *self, const OrtMemoryDevice *from,
                     const OrtMemoryDevice *to) {
  const factory_t *factory = ((const transfer_t *)self)->factory;
  const OrtMemoryDevice *own = api.ep->MemoryInfo_GetMemoryDevice(factory->memory);
  const bool is_from = api.ep->MemoryDevice_AreEqual(from, own);
  const bool is_to = api.ep->MemoryDevice_AreEqual(to, own);
  const bool from_host = api.ep->MemoryDevice_GetDeviceType(from) == EP_MEMORY_CPU;
  const bool to_host = api.ep->MemoryDevice_GetDeviceType(to) == EP_MEMORY_CPU;
  return (is_from && (is_to || to_host)) || (is_to && from_host);
}

static OrtStatus *copy_tensors(OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to,
                               OrtSyncStream **streams, size_t count) {
  const factory_t *factory = ((const transfer_t *)self)->factory;
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = copy_value(factory, from[i], to[i], streams ? streams[i] : NULL);
  return api_status(status, "a copy");
}

static OrtStatus *create_transfer(OrtEpFactory *self, OrtDataTransferImpl **out) {
  *out = NULL;
  if (!((factory_t *)self)->memory) return NULL;
  transfer_t *transfer = calloc(1, sizeof *transfer);
  if (!transfer) return api_status(tn_no_memory("copies", 0), PROVIDER_NAME);
  transfer->factory = (factory_t *)self;
  transfer->transfer = (OrtDataTransferImpl){.version = EP_VERSION,
                                             .Release = release_transfer,
                                             .CanCopy = can_copy,
                                             .CopyTensors = copy_tensors};
  *out = &transfer->transfer;
  return NULL;
}

void device_serve(factory_t *factory) {
  factory->factory.CreateAllocator = create_allocator;
  factory->factory.ReleaseAllocator = release_allocator;
  factory->factory.CreateDataTransfer = create_transfer;
}
