/* Values: tensors that a kernel reads, writes or creates. */
#ifndef BRIDGES_ONNXRUNTIME_VALUE_H
#define BRIDGES_ONNXRUNTIME_VALUE_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

/* A value of a call lives in the call's frame and ends with it; a value that a library creates owns
 * its tensor and ends with ReleaseValue. */
struct OrtValue {
  tenon_tensor_t *tensor;
  tenon_call_t *call; /* set for a result: its strings are set through the host */
  bool is_owned;
};

/* Creates a value that owns a reference to a tensor. After a failure the reference is released. */
OrtStatus *value_make(tenon_tensor_t *tensor, OrtValue **out);

OrtStatus *ort_CreateTensorAsOrtValue(OrtAllocator *allocator, const int64_t *shape, size_t ndim,
                                      ort_element_t element, OrtValue **out);
OrtStatus *ort_CreateTensorWithDataAsOrtValue(const OrtMemoryInfo *info, void *data, size_t size,
                                              const int64_t *shape, size_t ndim,
                                              ort_element_t element, OrtValue **out);
OrtStatus *ort_CreateTensorWithDataAndDeleterAsOrtValue(OrtAllocator *deleter, void *data,
                                                        size_t size, const int64_t *shape,
                                                        size_t ndim, ort_element_t element,
                                                        OrtValue **out);
void ort_ReleaseValue(OrtValue *value);
OrtStatus *ort_IsTensor(const OrtValue *value, int *out);
OrtStatus *ort_IsSparseTensor(const OrtValue *value, int *out);
OrtStatus *ort_HasValue(const OrtValue *value, int *out);
OrtStatus *ort_GetValueType(const OrtValue *value, ort_kind_t *out);
OrtStatus *ort_GetTypeInfo(const OrtValue *value, OrtTypeInfo **out);
OrtStatus *ort_GetTensorTypeAndShape(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
OrtStatus *ort_GetTensorElementTypeAndShapeDataReference(const OrtValue *value,
                                                         ort_element_t *out_element,
                                                         const int64_t **out_shape,
                                                         size_t *out_ndim);
OrtStatus *ort_GetTensorMutableData(OrtValue *value, void **out);
OrtStatus *ort_GetTensorData(const OrtValue *value, const void **out);
OrtStatus *ort_GetTensorSizeInBytes(const OrtValue *value, size_t *out);
OrtStatus *ort_GetTensorMemoryInfo(const OrtValue *value, const OrtMemoryInfo **out);
OrtStatus *ort_TensorAt(OrtValue *value, const int64_t *place, size_t count, void **out);

#endif
