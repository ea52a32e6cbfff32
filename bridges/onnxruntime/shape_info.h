/* Element type and shape of a tensor, as objects that a library creates, reads and releases. */
#ifndef BRIDGES_ONNXRUNTIME_SHAPE_INFO_H
#define BRIDGES_ONNXRUNTIME_SHAPE_INFO_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

struct OrtTensorTypeAndShapeInfo {
  ort_element_t element;
  bool has_shape;
  size_t ndim;
  int64_t dims[TENON_RANK_MAX]; /* -1: unknown */
  char **names;                 /* of unknown extents; NULL: none has a name */
};

struct OrtTypeInfo {
  OrtTensorTypeAndShapeInfo *tensor;
};

/* Creates an object. `ndim` -1: the shape is unknown. Returns NULL if memory is out. */
OrtTensorTypeAndShapeInfo *shape_info_make(ort_element_t element, int32_t ndim,
                                           const int64_t *dims);
/* Creates a type of a tensor, which owns `tensor`. Returns a failure if memory is out. */
OrtStatus *shape_info_type(OrtTensorTypeAndShapeInfo *tensor, OrtTypeInfo **out);

OrtStatus *ort_CreateTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo **out);
OrtStatus *ort_SetTensorElementType(OrtTensorTypeAndShapeInfo *info, ort_element_t element);
OrtStatus *ort_SetDimensions(OrtTensorTypeAndShapeInfo *info, const int64_t *dims, size_t ndim);
OrtStatus *ort_SetSymbolicDimensions(OrtTensorTypeAndShapeInfo *info, const char **names,
                                     size_t count);
OrtStatus *ort_GetTensorElementType(const OrtTensorTypeAndShapeInfo *info, ort_element_t *out);
OrtStatus *ort_GetDimensionsCount(const OrtTensorTypeAndShapeInfo *info, size_t *out);
OrtStatus *ort_GetDimensions(const OrtTensorTypeAndShapeInfo *info, int64_t *dims, size_t count);
OrtStatus *ort_GetSymbolicDimensions(const OrtTensorTypeAndShapeInfo *info, const char **names,
                                     size_t count);
OrtStatus *ort_GetTensorShapeElementCount(const OrtTensorTypeAndShapeInfo *info, size_t *out);
_Bool ort_TensorTypeAndShape_HasShape(const OrtTensorTypeAndShapeInfo *info);
void ort_ReleaseTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo *info);
OrtStatus *ort_CastTypeInfoToTensorInfo(const OrtTypeInfo *type,
                                        const OrtTensorTypeAndShapeInfo **out);
OrtStatus *ort_CastTypeInfoToMapTypeInfo(const OrtTypeInfo *type, const void **out);
OrtStatus *ort_CastTypeInfoToSequenceTypeInfo(const OrtTypeInfo *type, const void **out);
OrtStatus *ort_CastTypeInfoToOptionalTypeInfo(const OrtTypeInfo *type, const void **out);
OrtStatus *ort_GetOnnxTypeFromTypeInfo(const OrtTypeInfo *type, ort_kind_t *out);
OrtStatus *ort_GetDenotationFromTypeInfo(const OrtTypeInfo *type, const char **out, size_t *size);
void ort_ReleaseTypeInfo(OrtTypeInfo *type);

#endif
