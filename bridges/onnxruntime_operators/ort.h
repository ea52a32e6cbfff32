/* The functions of ONNX Runtime that operators call, and statuses. */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_ORT_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_ORT_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

enum {
  ORT_VERSION_OLDEST = 18,    /* the version of the interface that the library asks for */
  ORT_VERSION_SMALL = 19,     /* integers of 4 bits */
  ORT_VERSION_OPEN = 22,      /* outputs of any dtype */
  ORT_VERSION_REFERENCE = 24, /* shapes without an object; absent inputs in inference */
  ORT_VERSION_TEXTS = 25      /* lists of strings as attributes */
};

typedef OrtTensorTypeAndShapeInfo ort_shape_t;

/* X: functions that the oldest version has. LATER: functions that are NULL in older ones; the first
 * argument is their version. */
/* clang-format off */
#define ORT_CALLS(X, LATER)                                                                        \
  X(OrtStatus *, CreateStatus, (ort_code_t, const char *))                                         \
  X(const char *, GetErrorMessage, (const OrtStatus *))                                            \
  X(void, ReleaseStatus, (OrtStatus *))                                                            \
  X(OrtStatus *, CreateCustomOpDomain, (const char *, OrtCustomOpDomain **))                       \
  X(OrtStatus *, CustomOpDomain_Add, (OrtCustomOpDomain *, const OrtCustomOp *))                   \
  X(OrtStatus *, AddCustomOpDomain, (OrtSessionOptions *, OrtCustomOpDomain *))                    \
  X(void, ReleaseCustomOpDomain, (OrtCustomOpDomain *))                                            \
  X(OrtStatus *, KernelInfoGetAttribute_float, (const OrtKernelInfo *, const char *, float *))     \
  X(OrtStatus *, KernelInfoGetAttribute_int64, (const OrtKernelInfo *, const char *, int64_t *))   \
  X(OrtStatus *, KernelInfoGetAttribute_string,                                                    \
    (const OrtKernelInfo *, const char *, char *, size_t *))                                       \
  X(OrtStatus *, KernelInfoGetAttributeArray_float,                                                \
    (const OrtKernelInfo *, const char *, float *, size_t *))                                      \
  X(OrtStatus *, KernelInfoGetAttributeArray_int64,                                                \
    (const OrtKernelInfo *, const char *, int64_t *, size_t *))                                    \
  X(OrtStatus *, KernelInfoGetAttribute_tensor,                                                    \
    (const OrtKernelInfo *, const char *, OrtAllocator *, OrtValue **))                            \
  X(OrtStatus *, KernelInfo_GetInputCount, (const OrtKernelInfo *, size_t *))                      \
  X(OrtStatus *, KernelInfo_GetOutputCount, (const OrtKernelInfo *, size_t *))                     \
  X(OrtStatus *, KernelInfo_GetInputName, (const OrtKernelInfo *, size_t, char *, size_t *))       \
  X(OrtStatus *, KernelInfo_GetOutputName, (const OrtKernelInfo *, size_t, char *, size_t *))      \
  X(OrtStatus *, KernelInfo_GetInputTypeInfo, (const OrtKernelInfo *, size_t, OrtTypeInfo **))     \
  X(OrtStatus *, KernelInfo_GetOutputTypeInfo, (const OrtKernelInfo *, size_t, OrtTypeInfo **))    \
  X(OrtStatus *, CastTypeInfoToTensorInfo, (const OrtTypeInfo *, const ort_shape_t **))            \
  X(void, ReleaseTypeInfo, (OrtTypeInfo *))                                                        \
  X(OrtStatus *, GetTensorElementType, (const ort_shape_t *, ort_element_t *))                     \
  X(OrtStatus *, GetDimensionsCount, (const ort_shape_t *, size_t *))                              \
  X(OrtStatus *, GetDimensions, (const ort_shape_t *, int64_t *, size_t))                          \
  X(OrtStatus *, GetSymbolicDimensions, (const ort_shape_t *, const char **, size_t))              \
  X(OrtStatus *, CreateTensorTypeAndShapeInfo, (ort_shape_t **))                                   \
  X(OrtStatus *, SetTensorElementType, (ort_shape_t *, ort_element_t))                             \
  X(OrtStatus *, SetDimensions, (ort_shape_t *, const int64_t *, size_t))                          \
  X(OrtStatus *, SetSymbolicDimensions, (ort_shape_t *, const char **, size_t))                    \
  X(void, ReleaseTensorTypeAndShapeInfo, (ort_shape_t *))                                          \
  X(OrtStatus *, KernelContext_GetInputCount, (const OrtKernelContext *, size_t *))                \
  X(OrtStatus *, KernelContext_GetInput, (const OrtKernelContext *, size_t, const OrtValue **))    \
  X(OrtStatus *, KernelContext_GetOutput,                                                          \
    (OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **))                            \
  X(OrtStatus *, GetTensorTypeAndShape, (const OrtValue *, ort_shape_t **))                        \
  X(OrtStatus *, GetTensorMutableData, (OrtValue *, void **))                                      \
  X(OrtStatus *, GetStringTensorDataLength, (const OrtValue *, size_t *))                          \
  X(OrtStatus *, GetStringTensorContent, (const OrtValue *, void *, size_t, size_t *, size_t))     \
  X(OrtStatus *, GetResizedStringTensorElementBuffer, (OrtValue *, size_t, size_t, char **))       \
  X(void, ReleaseValue, (OrtValue *))                                                              \
  X(OrtStatus *, GetAllocatorWithDefaultOptions, (OrtAllocator **))                                \
  X(OrtStatus *, AllocatorFree, (OrtAllocator *, void *))                                          \
  X(OrtStatus *, ShapeInferContext_GetInputCount, (const OrtShapeInferContext *, size_t *))        \
  X(OrtStatus *, ShapeInferContext_GetInputTypeShape,                                              \
    (const OrtShapeInferContext *, size_t, ort_shape_t **))                                        \
  X(OrtStatus *, ShapeInferContext_GetAttribute,                                                   \
    (const OrtShapeInferContext *, const char *, const OrtOpAttr **))                              \
  X(OrtStatus *, ShapeInferContext_SetOutputTypeShape,                                             \
    (const OrtShapeInferContext *, size_t, const ort_shape_t *))                                   \
  X(OrtStatus *, ReadOpAttr, (const OrtOpAttr *, ort_attribute_t, void *, size_t, size_t *))       \
  LATER(ORT_VERSION_REFERENCE, OrtStatus *, GetTensorElementTypeAndShapeDataReference,             \
        (const OrtValue *, ort_element_t *, const int64_t **, size_t *))                           \
  LATER(ORT_VERSION_TEXTS, OrtStatus *, KernelInfoGetAttributeArray_string,                        \
        (const OrtKernelInfo *, const char *, OrtAllocator *, char ***, size_t *))
#define ORT_MEMBER_(type, name, parameters) type(*name) parameters;
#define ORT_LATER_(version, type, name, parameters) type(*name) parameters;
typedef struct ort_t {
  uint32_t version; /* of the process's ONNX Runtime: 31 for 1.31 */
  ORT_CALLS(ORT_MEMBER_, ORT_LATER_)
} ort_t;
/* clang-format on */

extern ort_t ort;

/* Finds the functions. A process has one ONNX Runtime, so later calls only check that.
 *
 * Returns: a failure for a version that is too old, and for a second ONNX Runtime.
 * Threads: one at a time. */
OrtStatus *ort_open(const OrtApiBase *base);

/* Makes a status with a message. */
OrtStatus *ort_fail(ort_code_t code, const char *format, ...) TENON_FORMAT(2, 3);
/* Makes a status with the last error of Tenon on this thread. */
OrtStatus *ort_fail_tenon(tenon_status_t status);
/* Makes the status an error of Tenon on this thread, after `what`, and releases it. */
tenon_status_t ort_take(OrtStatus *status, const char *what);
/* Releases a status. Returns whether it is a success. */
bool ort_succeeds(OrtStatus *status);

#define ORT_TRY(call)                                                                              \
  do {                                                                                             \
    OrtStatus *ort_status_ = (call);                                                               \
    if (ort_status_) return ort_status_;                                                           \
  } while (0)

#endif
