/* Values, and the functions by which libraries create and read them. The strings of a value are the
 * subject of text.c. Invariant: the tensor of a value is dense and in host memory. */
#include "value.h"

#include <stdlib.h>
#include <tenon/tenon.h>

#include "common/ort_element.h"
#include "memory.h"
#include "shape_info.h"
#include "status.h"

/* creation */

OrtStatus *value_make(tenon_tensor_t *tensor, OrtValue **out) {
  *out = malloc(sizeof **out);
  if (*out) {
    **out = (OrtValue){.tensor = tensor, .is_owned = true};
    return NULL;
  }
  tenon_tensor_release(tensor);
  return status_make(ORT_FAIL, "out of memory");
}

typedef struct block_t { /* memory of a tensor, and the allocator that frees it, or NULL */
  OrtAllocator *allocator;
  void *data;
} block_t;

static void free_value_block(void *context) {
  block_t *block = context;
  if (block->allocator) block->allocator->Free(block->allocator, block->data);
  free(block);
}

static OrtStatus *find_value_dtype(ort_element_t element, size_t ndim, tenon_dtype_t *out) {
  if (ndim > TENON_RANK_MAX)
    return status_make(ORT_INVALID_ARGUMENT, "a tensor of %zu dimensions: expected at most %d",
                       ndim, TENON_RANK_MAX);
  if (element_dtype(element, out)) return NULL;
  return status_make(ORT_INVALID_ARGUMENT, "a tensor of element type %d, which does not exist",
                     (int)element);
}

/* Returns the bytes of a dense tensor; -1 if an extent is negative or the product too large. */
static int64_t dense_bytes(tenon_dtype_t dtype, size_t ndim, const int64_t *shape) {
  int64_t bits = (int64_t)dtype.bits * dtype.lanes;
  for (size_t d = 0; d < ndim; d++)
    if (shape[d] < 0 || __builtin_mul_overflow(bits, shape[d], &bits)) return -1;
  return bits / 8 + (bits % 8 != 0);
}

/* Creates a value over memory of the library. `deleter` NULL: the library frees the memory. After a
 * failure the memory is still the caller's. */
static OrtStatus *borrow_memory(OrtAllocator *deleter, void *data, size_t size,
                                const int64_t *shape, size_t ndim, tenon_dtype_t dtype,
                                OrtValue **out) {
  tenon_tensor_t *tensor = NULL;
  const int64_t needed = dense_bytes(dtype, ndim, shape);
  if (needed < 0 || (uint64_t)needed > size)
    return status_make(ORT_INVALID_ARGUMENT, "a tensor of %lld bytes over memory of %zu bytes",
                       (long long)needed, size);
  block_t *block = malloc(sizeof *block);
  OrtValue *value = malloc(sizeof *value);
  if (!block || !value ||
      tenon_tensor_borrow(data, dtype, (int32_t)ndim, shape, NULL, free_value_block, block,
                          &tensor) != TENON_OK) {
    OrtStatus *status = block && value ? status_of_tenon("a tensor cannot be created")
                                       : status_make(ORT_FAIL, "out of memory");
    free(block);
    free(value);
    return status;
  }
  *block = (block_t){deleter, data};
  *value = (OrtValue){.tensor = tensor, .is_owned = true};
  *out = value;
  return NULL;
}

OrtStatus *ort_CreateTensorAsOrtValue(OrtAllocator *allocator, const int64_t *shape, size_t ndim,
                                      ort_element_t element, OrtValue **out) {
  tenon_dtype_t dtype;
  tenon_tensor_t *tensor = NULL;
  *out = NULL;
  OrtStatus *status = find_value_dtype(element, ndim, &dtype);
  if (status) return status;
  if (element == ORT_ELEMENT_STRING || !allocator || allocator == memory_allocator()) {
    if (tenon_tensor_create(dtype, (int32_t)ndim, shape, &tensor) != TENON_OK)
      return status_of_tenon("a tensor cannot be created");
    return value_make(tensor, out);
  }
  const int64_t size = dense_bytes(dtype, ndim, shape);
  void *data = size < 0 ? NULL : allocator->Alloc(allocator, (size_t)size + 1);
  if (!data) return status_make(ORT_FAIL, "the allocator has no memory for a tensor");
  status = borrow_memory(allocator, data, (size_t)size, shape, ndim, dtype, out);
  if (status) allocator->Free(allocator, data);
  return status;
}

OrtStatus *ort_CreateTensorWithDataAndDeleterAsOrtValue(OrtAllocator *deleter, void *data,
                                                        size_t size, const int64_t *shape,
                                                        size_t ndim, ort_element_t element,
                                                        OrtValue **out) {
  tenon_dtype_t dtype;
  *out = NULL;
  OrtStatus *status = find_value_dtype(element, ndim, &dtype);
  if (status) return status;
  if (element == ORT_ELEMENT_STRING)
    return status_make(ORT_INVALID_ARGUMENT, "a tensor of strings over memory of the library");
  return borrow_memory(deleter, data, size, shape, ndim, dtype, out);
}

OrtStatus *ort_CreateTensorWithDataAsOrtValue(const OrtMemoryInfo *info, void *data, size_t size,
                                              const int64_t *shape, size_t ndim,
                                              ort_element_t element, OrtValue **out) {
  (void)info;
  return ort_CreateTensorWithDataAndDeleterAsOrtValue(NULL, data, size, shape, ndim, element, out);
}

/* Values of a call are left alone, because they end with the call. */
void ort_ReleaseValue(OrtValue *value) {
  if (!value || !value->is_owned) return;
  tenon_tensor_release(value->tensor);
  free(value);
}

/* questions */

OrtStatus *ort_IsTensor(const OrtValue *value, int *out) {
  (void)value;
  *out = 1;
  return NULL;
}

OrtStatus *ort_IsSparseTensor(const OrtValue *value, int *out) {
  (void)value;
  *out = 0;
  return NULL;
}

OrtStatus *ort_HasValue(const OrtValue *value, int *out) {
  *out = value && value->tensor;
  return NULL;
}

OrtStatus *ort_GetValueType(const OrtValue *value, ort_kind_t *out) {
  (void)value;
  *out = ORT_KIND_TENSOR;
  return NULL;
}

OrtStatus *ort_GetTensorTypeAndShape(const OrtValue *value, OrtTensorTypeAndShapeInfo **out) {
  const tenon_tensor_t *tensor = value->tensor;
  *out = shape_info_make(element_of(tensor->dtype), tensor->ndim, tensor->shape);
  return *out ? NULL : status_make(ORT_FAIL, "out of memory");
}

OrtStatus *ort_GetTypeInfo(const OrtValue *value, OrtTypeInfo **out) {
  OrtTensorTypeAndShapeInfo *tensor;
  OrtStatus *status = ort_GetTensorTypeAndShape(value, &tensor);
  return status ? status : shape_info_type(tensor, out);
}

OrtStatus *ort_GetTensorElementTypeAndShapeDataReference(const OrtValue *value,
                                                         ort_element_t *out_element,
                                                         const int64_t **out_shape,
                                                         size_t *out_ndim) {
  *out_element = element_of(value->tensor->dtype);
  *out_shape = value->tensor->ndim ? value->tensor->shape : NULL;
  *out_ndim = (size_t)value->tensor->ndim;
  return NULL;
}

OrtStatus *ort_GetTensorMutableData(OrtValue *value, void **out) {
  const tenon_tensor_t *tensor = value->tensor;
  *out = (char *)tensor->data + tensor->byte_offset;
  return NULL;
}

OrtStatus *ort_GetTensorData(const OrtValue *value, const void **out) {
  const tenon_tensor_t *tensor = value->tensor;
  *out = (const char *)tensor->data + tensor->byte_offset;
  return NULL;
}

OrtStatus *ort_GetTensorSizeInBytes(const OrtValue *value, size_t *out) {
  const tenon_tensor_t *tensor = value->tensor;
  if (tenon_dtype_id(tensor->dtype) == TENON_STRING)
    return status_make(ORT_INVALID_ARGUMENT, "a tensor of strings has no size in bytes");
  *out = (size_t)dense_bytes(tensor->dtype, (size_t)tensor->ndim, tensor->shape);
  return NULL;
}

OrtStatus *ort_GetTensorMemoryInfo(const OrtValue *value, const OrtMemoryInfo **out) {
  (void)value;
  *out = memory_host();
  return NULL;
}

OrtStatus *ort_TensorAt(OrtValue *value, const int64_t *place, size_t count, void **out) {
  const tenon_tensor_t *tensor = value->tensor;
  int64_t at = 0;
  if (count != (size_t)tensor->ndim || tenon_dtype_id(tensor->dtype) == TENON_STRING ||
      tensor->dtype.bits % 8)
    return status_make(ORT_INVALID_ARGUMENT,
                       "TensorAt: %zu indices of a tensor of %s with %d "
                       "dimensions",
                       count, tenon_dtype_name(tensor->dtype), (int)tensor->ndim);
  for (size_t d = 0; d < count; d++) {
    if (place[d] < 0 || place[d] >= tensor->shape[d])
      return status_make(ORT_INVALID_ARGUMENT, "TensorAt: index %lld of axis %zu is out of range",
                         (long long)place[d], d);
    at = at * tensor->shape[d] + place[d];
  }
  *out = (char *)tensor->data + tensor->byte_offset + at * tensor->dtype.bits / 8;
  return NULL;
}
