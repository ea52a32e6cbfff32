/* The part of ONNX Runtime's interface that the test libraries use, declared anew with the names of
 * the original header, so that the same sources also compile with that header (ORT_HEADER). */
#ifndef TESTS_ONNXRUNTIME_API_H
#define TESTS_ONNXRUNTIME_API_H

#ifndef API
#define API 16 /* the version of the interface that the library is written for */
#endif

#ifdef ORT_HEADER
#include ORT_HEADER
#else
#include <stddef.h>
#include <stdint.h>

typedef enum ONNXTensorElementDataType {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11
} ONNXTensorElementDataType;

typedef enum OrtErrorCode {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NOT_IMPLEMENTED = 9
} OrtErrorCode;

typedef enum OrtOpAttrType {
  ORT_OP_ATTR_INT = 1,
  ORT_OP_ATTR_INTS = 2,
  ORT_OP_ATTR_FLOAT = 3,
  ORT_OP_ATTR_FLOATS = 4,
  ORT_OP_ATTR_STRING = 5,
  ORT_OP_ATTR_STRINGS = 6
} OrtOpAttrType;

typedef enum OrtLoggingLevel {
  ORT_LOGGING_LEVEL_VERBOSE = 0,
  ORT_LOGGING_LEVEL_WARNING = 2
} OrtLoggingLevel;
typedef enum OrtAllocatorType { OrtDeviceAllocator = 0, OrtArenaAllocator = 1 } OrtAllocatorType;
typedef enum OrtMemType { OrtMemTypeCPU = -1, OrtMemTypeDefault = 0 } OrtMemType;
typedef enum OrtCustomOpInputOutputCharacteristic {
  INPUT_OUTPUT_REQUIRED = 0,
  INPUT_OUTPUT_OPTIONAL = 1,
  INPUT_OUTPUT_VARIADIC = 2
} OrtCustomOpInputOutputCharacteristic;

typedef struct OrtStatus OrtStatus;
typedef OrtStatus *OrtStatusPtr;
typedef struct OrtValue OrtValue;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef struct OrtOp OrtOp;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtLogger OrtLogger;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;

typedef struct OrtAllocator {
  uint32_t version;
  void *(*Alloc)(struct OrtAllocator *self, size_t size);
  void (*Free)(struct OrtAllocator *self, void *block);
  const OrtMemoryInfo *(*Info)(const struct OrtAllocator *self);
} OrtAllocator;

typedef struct OrtApi OrtApi;
typedef struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} OrtApiBase;

typedef struct OrtCustomOp {
  uint32_t version;
  void *(*CreateKernel)(const struct OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info);
  const char *(*GetName)(const struct OrtCustomOp *op);
  const char *(*GetExecutionProviderType)(const struct OrtCustomOp *op);
  ONNXTensorElementDataType (*GetInputType)(const struct OrtCustomOp *op, size_t index);
  size_t (*GetInputTypeCount)(const struct OrtCustomOp *op);
  ONNXTensorElementDataType (*GetOutputType)(const struct OrtCustomOp *op, size_t index);
  size_t (*GetOutputTypeCount)(const struct OrtCustomOp *op);
  void (*KernelCompute)(void *kernel, OrtKernelContext *context);
  void (*KernelDestroy)(void *kernel);
#if API >= 8
  OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const struct OrtCustomOp *op,
                                                                 size_t index);
  OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const struct OrtCustomOp *op,
                                                                  size_t index);
#endif
#if API >= 13
  OrtMemType (*GetInputMemoryType)(const struct OrtCustomOp *op, size_t index);
#endif
#if API >= 14
  int (*GetVariadicInputMinArity)(const struct OrtCustomOp *op);
  int (*GetVariadicInputHomogeneity)(const struct OrtCustomOp *op);
  int (*GetVariadicOutputMinArity)(const struct OrtCustomOp *op);
  int (*GetVariadicOutputHomogeneity)(const struct OrtCustomOp *op);
#endif
#if API >= 16
  OrtStatusPtr (*CreateKernelV2)(const struct OrtCustomOp *op, const OrtApi *api,
                                 const OrtKernelInfo *info, void **kernel);
  OrtStatusPtr (*KernelComputeV2)(void *kernel, OrtKernelContext *context);
#endif
#if API >= 17
  OrtStatusPtr (*InferOutputShapeFn)(const struct OrtCustomOp *op, OrtShapeInferContext *context);
  int (*GetStartVersion)(const struct OrtCustomOp *op);
  int (*GetEndVersion)(const struct OrtCustomOp *op);
#endif
#if API >= 18
  size_t (*GetMayInplace)(int **inputs, int **outputs);
  void (*ReleaseMayInplace)(int *inputs, int *outputs);
  size_t (*GetAliasMap)(int **inputs, int **outputs);
  void (*ReleaseAliasMap)(int *inputs, int *outputs);
#endif
} OrtCustomOp;

/* The functions have fixed places; `others_N` are those that the libraries do not use. */
struct OrtApi {
  OrtStatus *(*CreateStatus)(OrtErrorCode code, const char *message);
  OrtErrorCode (*GetErrorCode)(const OrtStatus *status);
  const char *(*GetErrorMessage)(const OrtStatus *status);
  void *others_3[7];
  OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **out);
  void *others_11[15];
  OrtStatus *(*CreateCustomOpDomain)(const char *name, OrtCustomOpDomain **out);
  OrtStatus *(*CustomOpDomain_Add)(OrtCustomOpDomain *domain, const OrtCustomOp *op);
  OrtStatus *(*AddCustomOpDomain)(OrtSessionOptions *options, OrtCustomOpDomain *domain);
  void *others_29[19];
  OrtStatus *(*CreateTensorAsOrtValue)(OrtAllocator *allocator, const int64_t *shape, size_t ndim,
                                       ONNXTensorElementDataType type, OrtValue **out);
  OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *info, void *data, size_t size,
                                               const int64_t *shape, size_t ndim,
                                               ONNXTensorElementDataType type, OrtValue **out);
  OrtStatus *(*IsTensor)(const OrtValue *value, int *out);
  OrtStatus *(*GetTensorMutableData)(OrtValue *value, void **out);
  OrtStatus *(*FillStringTensor)(OrtValue *value, const char *const *texts, size_t count);
  OrtStatus *(*GetStringTensorDataLength)(const OrtValue *value, size_t *out);
  OrtStatus *(*GetStringTensorContent)(const OrtValue *value, void *out, size_t size,
                                       size_t *offsets, size_t count);
  OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *type,
                                         const OrtTensorTypeAndShapeInfo **out);
  void *others_56[1];
  OrtStatus *(*CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo **out);
  OrtStatus *(*SetTensorElementType)(OrtTensorTypeAndShapeInfo *info,
                                     enum ONNXTensorElementDataType type);
  OrtStatus *(*SetDimensions)(OrtTensorTypeAndShapeInfo *info, const int64_t *dims, size_t ndim);
  OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *info,
                                     enum ONNXTensorElementDataType *out);
  OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *info, size_t *out);
  OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *info, int64_t *dims, size_t count);
  OrtStatus *(*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo *info, const char **names,
                                      size_t count);
  OrtStatus *(*GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo *info, size_t *out);
  OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
  OrtStatus *(*GetTypeInfo)(const OrtValue *value, OrtTypeInfo **out);
  void *others_67[2];
  OrtStatus *(*CreateCpuMemoryInfo)(enum OrtAllocatorType type, enum OrtMemType memory,
                                    OrtMemoryInfo **out);
  void *others_70[1];
  OrtStatus *(*MemoryInfoGetName)(const OrtMemoryInfo *info, const char **out);
  void *others_72[3];
  OrtStatus *(*AllocatorAlloc)(OrtAllocator *allocator, size_t size, void **out);
  OrtStatus *(*AllocatorFree)(OrtAllocator *allocator, void *block);
  void *others_77[1];
  OrtStatus *(*GetAllocatorWithDefaultOptions)(OrtAllocator **out);
  void *others_79[6];
  OrtStatus *(*KernelInfoGetAttribute_float)(const OrtKernelInfo *info, const char *name,
                                             float *out);
  OrtStatus *(*KernelInfoGetAttribute_int64)(const OrtKernelInfo *info, const char *name,
                                             int64_t *out);
  OrtStatus *(*KernelInfoGetAttribute_string)(const OrtKernelInfo *info, const char *name,
                                              char *out, size_t *size);
  OrtStatus *(*KernelContext_GetInputCount)(const OrtKernelContext *context, size_t *out);
  OrtStatus *(*KernelContext_GetOutputCount)(const OrtKernelContext *context, size_t *out);
  OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *context, size_t index,
                                       const OrtValue **out);
  OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *context, size_t index,
                                        const int64_t *shape, size_t ndim, OrtValue **out);
  void *others_92[1];
  void (*ReleaseStatus)(OrtStatus *status);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo *info);
  void *others_95[1];
  void (*ReleaseValue)(OrtValue *value);
  void *others_97[1];
  void (*ReleaseTypeInfo)(OrtTypeInfo *type);
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *info);
  void *others_100[1];
  void (*ReleaseCustomOpDomain)(OrtCustomOpDomain *domain);
  void *others_102[25];
  OrtStatus *(*GetStringTensorElementLength)(const OrtValue *value, size_t index, size_t *out);
  OrtStatus *(*GetStringTensorElement)(const OrtValue *value, size_t size, size_t index, void *out);
  OrtStatus *(*FillStringTensorElement)(OrtValue *value, const char *text, size_t index);
  void *others_130[2];
  void (*ReleaseAllocator)(OrtAllocator *allocator);
  void *others_133[10];
  OrtStatus *(*TensorAt)(OrtValue *value, const int64_t *place, size_t count, void **out);
  void *others_144[18];
  OrtStatus *(*KernelInfoGetAttributeArray_float)(const OrtKernelInfo *info, const char *name,
                                                  float *out, size_t *size);
  OrtStatus *(*KernelInfoGetAttributeArray_int64)(const OrtKernelInfo *info, const char *name,
                                                  int64_t *out, size_t *size);
  void *others_164[28];
  OrtStatus *(*HasValue)(const OrtValue *value, int *out);
  void *others_193[1];
  OrtStatus *(*GetTensorMemoryInfo)(const OrtValue *value, const OrtMemoryInfo **out);
  void *others_195[16];
  OrtStatus *(*CreateOpAttr)(const char *name, const void *data, int count, OrtOpAttrType type,
                             OrtOpAttr **out);
  void (*ReleaseOpAttr)(OrtOpAttr *attribute);
  OrtStatus *(*CreateOp)(const OrtKernelInfo *info, const char *name, const char *domain,
                         int version, const char **names, const ONNXTensorElementDataType *types,
                         int count, const OrtOpAttr *const *attributes, int attribute_count,
                         int input_count, int output_count, OrtOp **out);
  OrtStatus *(*InvokeOp)(const OrtKernelContext *context, const OrtOp *op,
                         const OrtValue *const *inputs, int input_count, OrtValue *const *outputs,
                         int output_count);
  void (*ReleaseOp)(OrtOp *op);
  void *others_216[1];
  OrtStatus *(*CopyKernelInfo)(const OrtKernelInfo *info, OrtKernelInfo **out);
  void (*ReleaseKernelInfo)(OrtKernelInfo *info);
  void *others_219[11];
  OrtStatus *(*KernelInfo_GetInputCount)(const OrtKernelInfo *info, size_t *out);
  OrtStatus *(*KernelInfo_GetOutputCount)(const OrtKernelInfo *info, size_t *out);
  void *others_232[2];
  OrtStatus *(*KernelInfo_GetInputTypeInfo)(const OrtKernelInfo *info, size_t index,
                                            OrtTypeInfo **out);
  OrtStatus *(*KernelInfo_GetOutputTypeInfo)(const OrtKernelInfo *info, size_t index,
                                             OrtTypeInfo **out);
  OrtStatus *(*KernelInfoGetAttribute_tensor)(const OrtKernelInfo *info, const char *name,
                                              OrtAllocator *allocator, OrtValue **out);
  void *others_237[8];
  OrtStatus *(*KernelInfo_GetLogger)(const OrtKernelInfo *info, const OrtLogger **out);
  OrtStatus *(*KernelContext_GetLogger)(const OrtKernelContext *context, const OrtLogger **out);
  OrtStatus *(*Logger_LogMessage)(const OrtLogger *logger, OrtLoggingLevel severity,
                                  const char *message, const char *file, int line,
                                  const char *function);
  OrtStatus *(*Logger_GetLoggingSeverityLevel)(const OrtLogger *logger, OrtLoggingLevel *out);
  OrtStatus *(*KernelInfoGetConstantInput_tensor)(const OrtKernelInfo *info, size_t index,
                                                  int *is_constant, const OrtValue **out);
  void *others_250[2];
  OrtStatus *(*GetResizedStringTensorElementBuffer)(OrtValue *value, size_t index, size_t size,
                                                    char **out);
  OrtStatus *(*KernelContext_GetAllocator)(const OrtKernelContext *context,
                                           const OrtMemoryInfo *info, OrtAllocator **out);
  void *others_254[11];
  OrtStatus *(*KernelContext_GetResource)(const OrtKernelContext *context, int version, int id,
                                          void **out);
  void *others_266[1];
  OrtStatus *(*ShapeInferContext_GetInputCount)(const OrtShapeInferContext *context, size_t *out);
  OrtStatus *(*ShapeInferContext_GetInputTypeShape)(const OrtShapeInferContext *context,
                                                    size_t index, OrtTensorTypeAndShapeInfo **out);
  OrtStatus *(*ShapeInferContext_GetAttribute)(const OrtShapeInferContext *context,
                                               const char *name, const OrtOpAttr **out);
  OrtStatus *(*ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext *context,
                                                     size_t index,
                                                     const OrtTensorTypeAndShapeInfo *info);
  OrtStatus *(*SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo *info, const char **names,
                                      size_t count);
  OrtStatus *(*ReadOpAttr)(const OrtOpAttr *attribute, OrtOpAttrType type, void *data, size_t size,
                           size_t *out);
  void *others_273[1];
  OrtStatus *(*KernelContext_ParallelFor)(const OrtKernelContext *context,
                                          void (*function)(void *argument, size_t index),
                                          size_t total, size_t batch_count, void *argument);
  void *others_275[2];
  OrtStatus *(*KernelContext_GetScratchBuffer)(const OrtKernelContext *context,
                                               const OrtMemoryInfo *info, size_t size, void **out);
  OrtStatus *(*KernelInfoGetAllocator)(const OrtKernelInfo *info, OrtMemType memory,
                                       OrtAllocator **out);
  void *others_279[19];
  void (*GetKeyValuePairs)(const OrtKeyValuePairs *pairs, const char *const **keys,
                           const char *const **values, size_t *count);
  void *others_299[1];
  void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *pairs);
  void *others_301[17];
  OrtStatus *(*GetTensorSizeInBytes)(const OrtValue *value, size_t *out);
  void *others_319[59];
  OrtStatus *(*GetTensorData)(const OrtValue *value, const void **out);
  void *others_379[13];
  OrtStatus *(*KernelInfo_GetOperatorDomain)(const OrtKernelInfo *info, char *out, size_t *size);
  OrtStatus *(*KernelInfo_GetOperatorType)(const OrtKernelInfo *info, char *out, size_t *size);
  OrtStatus *(*KernelInfo_GetOperatorSinceVersion)(const OrtKernelInfo *info, int *out);
  void *others_395[19];
  OrtStatus *(*GetTensorElementTypeAndShapeDataReference)(const OrtValue *value,
                                                          ONNXTensorElementDataType *type,
                                                          const int64_t **shape, size_t *ndim);
  void *others_415[2];
  OrtStatus *(*KernelInfoGetAttributeArray_string)(const OrtKernelInfo *info, const char *name,
                                                   OrtAllocator *allocator, char ***out,
                                                   size_t *size);
};
#endif

#endif
