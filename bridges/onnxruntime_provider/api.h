/* The functions of ONNX Runtime that the provider calls, found by their position in the table.
 *
 * Failures are statuses of Tenon inside the library; at its edge api_status makes one of ONNX
 * Runtime from it. */
#ifndef BRIDGES_ONNXRUNTIME_PROVIDER_API_H
#define BRIDGES_ONNXRUNTIME_PROVIDER_API_H

#include <tenon/tenon.h>

#include "ep_interface.h"

/* clang-format off */
#define API_FUNCTIONS(STATUS, OTHER) \
  OTHER(OrtStatus *, CreateStatus, ort_code_t code, const char *message) \
  OTHER(const char *, GetErrorMessage, const OrtStatus *status) \
  OTHER(void, ReleaseStatus, OrtStatus *status) \
  STATUS(GetTensorMutableData, OrtValue *value, void **out) \
  STATUS(GetTensorSizeInBytes, const OrtValue *value, size_t *out) \
  STATUS(GetTensorElementTypeAndShapeDataReference, const OrtValue *value, int *element, \
         const int64_t **shape, size_t *rank) \
  STATUS(CreateMemoryInfo_V2, const char *name, int kind, uint32_t vendor, int32_t id, int type, \
         size_t alignment, int allocator, OrtMemoryInfo **out) \
  OTHER(void, ReleaseMemoryInfo, OrtMemoryInfo *memory) \
  STATUS(IsTensor, const OrtValue *value, int *out) \
  STATUS(GetStringTensorDataLength, const OrtValue *value, size_t *out) \
  STATUS(GetStringTensorContent, const OrtValue *value, void *text, size_t size, \
         size_t *offsets, size_t count) \
  STATUS(GetResizedStringTensorElementBuffer, OrtValue *value, size_t index, size_t size, \
         char **out) \
  OTHER(void, ReleaseValue, OrtValue *value) \
  STATUS(GetOnnxTypeFromTypeInfo, const OrtTypeInfo *type, int *out) \
  STATUS(CastTypeInfoToTensorInfo, const OrtTypeInfo *type, const OrtTensorTypeAndShapeInfo **out) \
  STATUS(GetTensorElementType, const OrtTensorTypeAndShapeInfo *info, int *out) \
  OTHER(bool, TensorTypeAndShape_HasShape, const OrtTensorTypeAndShapeInfo *info) \
  STATUS(GetDimensionsCount, const OrtTensorTypeAndShapeInfo *info, size_t *out) \
  STATUS(GetDimensions, const OrtTensorTypeAndShapeInfo *info, int64_t *out, size_t count) \
  STATUS(GetSymbolicDimensions, const OrtTensorTypeAndShapeInfo *info, const char **out, \
         size_t count) \
  STATUS(GetValueInfoName, const OrtValueInfo *value, const char **out) \
  STATUS(GetValueInfoTypeInfo, const OrtValueInfo *value, const OrtTypeInfo **out) \
  STATUS(ValueInfo_GetValueProducer, const OrtValueInfo *value, const OrtNode **out, \
         size_t *index) \
  STATUS(ValueInfo_GetValueNumConsumers, const OrtValueInfo *value, size_t *out) \
  STATUS(ValueInfo_GetValueConsumers, const OrtValueInfo *value, const OrtNode **out, \
         int64_t *inputs, size_t count) \
  STATUS(ValueInfo_GetInitializerValue, const OrtValueInfo *value, const OrtValue **out) \
  STATUS(ValueInfo_IsConstantInitializer, const OrtValueInfo *value, bool *out) \
  STATUS(ValueInfo_IsFromOuterScope, const OrtValueInfo *value, bool *out) \
  STATUS(ValueInfo_IsGraphOutput, const OrtValueInfo *value, bool *out) \
  STATUS(Graph_GetName, const OrtGraph *graph, const char **out) \
  STATUS(Graph_GetModelPath, const OrtGraph *graph, const char **out) \
  STATUS(Graph_GetOnnxIRVersion, const OrtGraph *graph, int64_t *out) \
  STATUS(Graph_GetNumOperatorSets, const OrtGraph *graph, size_t *out) \
  STATUS(Graph_GetOperatorSets, const OrtGraph *graph, const char **domains, int64_t *versions, \
         size_t count) \
  STATUS(Graph_GetNumInputs, const OrtGraph *graph, size_t *out) \
  STATUS(Graph_GetInputs, const OrtGraph *graph, const OrtValueInfo **out, size_t count) \
  STATUS(Graph_GetNumOutputs, const OrtGraph *graph, size_t *out) \
  STATUS(Graph_GetOutputs, const OrtGraph *graph, const OrtValueInfo **out, size_t count) \
  STATUS(Graph_GetNumInitializers, const OrtGraph *graph, size_t *out) \
  STATUS(Graph_GetInitializers, const OrtGraph *graph, const OrtValueInfo **out, size_t count) \
  STATUS(Graph_GetNumNodes, const OrtGraph *graph, size_t *out) \
  STATUS(Graph_GetNodes, const OrtGraph *graph, const OrtNode **out, size_t count) \
  STATUS(Graph_GetParentNode, const OrtGraph *graph, const OrtNode **out) \
  STATUS(Node_GetGraph, const OrtNode *node, const OrtGraph **out) \
  STATUS(Node_GetId, const OrtNode *node, size_t *out) \
  STATUS(Node_GetName, const OrtNode *node, const char **out) \
  STATUS(Node_GetOperatorType, const OrtNode *node, const char **out) \
  STATUS(Node_GetDomain, const OrtNode *node, const char **out) \
  STATUS(Node_GetNumInputs, const OrtNode *node, size_t *out) \
  STATUS(Node_GetInputs, const OrtNode *node, const OrtValueInfo **out, size_t count) \
  STATUS(Node_GetNumOutputs, const OrtNode *node, size_t *out) \
  STATUS(Node_GetOutputs, const OrtNode *node, const OrtValueInfo **out, size_t count) \
  STATUS(Node_GetNumImplicitInputs, const OrtNode *node, size_t *out) \
  STATUS(Node_GetImplicitInputs, const OrtNode *node, const OrtValueInfo **out, size_t count) \
  STATUS(Node_GetNumAttributes, const OrtNode *node, size_t *out) \
  STATUS(Node_GetAttributes, const OrtNode *node, const OrtOpAttr **out, size_t count) \
  STATUS(Node_GetAttributeByName, const OrtNode *node, const char *name, const OrtOpAttr **out) \
  STATUS(Node_GetNumSubgraphs, const OrtNode *node, size_t *out) \
  STATUS(Node_GetSubgraphs, const OrtNode *node, const OrtGraph **out, size_t count, \
         const char **names) \
  STATUS(OpAttr_GetType, const OrtOpAttr *attribute, int *out) \
  STATUS(OpAttr_GetName, const OrtOpAttr *attribute, const char **out) \
  STATUS(OpAttr_GetTensorAttributeAsOrtValue, const OrtOpAttr *attribute, OrtValue **out) \
  OTHER(OrtStatus *, ReadOpAttr, const OrtOpAttr *attribute, int type, void *data, size_t size, \
         size_t *out) \
  STATUS(CreateOpAttr, const char *name, const void *data, int size, int type, OrtOpAttr **out) \
  OTHER(void, ReleaseOpAttr, OrtOpAttr *attribute) \
  STATUS(KernelContext_GetInputCount, const OrtKernelContext *context, size_t *out) \
  STATUS(KernelContext_GetInput, const OrtKernelContext *context, size_t index, \
         const OrtValue **out) \
  STATUS(KernelContext_GetOutputCount, const OrtKernelContext *context, size_t *out) \
  STATUS(KernelContext_GetGPUComputeStream, const OrtKernelContext *context, void **out) \
  OTHER(void *, SyncStream_GetHandle, OrtSyncStream *stream) \
  STATUS(KernelContext_ParallelFor, const OrtKernelContext *context, \
         void (*run)(void *data, size_t index), size_t count, size_t batches, void *data) \
  STATUS(KernelContext_GetOutput, OrtKernelContext *context, size_t index, \
         const int64_t *shape, size_t rank, OrtValue **out) \
  STATUS(GetSessionOptionsConfigEntries, const OrtSessionOptions *options, OrtKeyValuePairs **out) \
  OTHER(void, CreateKeyValuePairs, OrtKeyValuePairs **out) \
  OTHER(void, AddKeyValuePair, OrtKeyValuePairs *pairs, const char *key, const char *value) \
  OTHER(const char *, GetKeyValue, const OrtKeyValuePairs *pairs, const char *key) \
  OTHER(void, GetKeyValuePairs, const OrtKeyValuePairs *pairs, const char *const **keys, \
         const char *const **values, size_t *count) \
  OTHER(void, ReleaseKeyValuePairs, OrtKeyValuePairs *pairs) \
  STATUS(Logger_LogMessage, const OrtLogger *logger, int severity, const char *message, \
         const char *file, int line, const char *function) \
  OTHER(int, HardwareDevice_Type, const OrtHardwareDevice *device) \
  OTHER(const OrtEpApi *, GetEpApi, void) \
  OTHER(const OrtModelEditorApi *, GetModelEditorApi, void)
/* clang-format on */

typedef struct api_t {
#define API_STATUS(name, ...) OrtStatus *(*name)(__VA_ARGS__);
#define API_OTHER(result, name, ...) result (*name)(__VA_ARGS__);
  API_FUNCTIONS(API_STATUS, API_OTHER)
#undef API_STATUS
#undef API_OTHER
  const OrtEpApi *ep;
  const OrtModelEditorApi *editor;
} api_t;

extern api_t api; /* set by the first factory, and never changed */

/* Fills in `api`. Returns NULL, or why the runtime cannot be used. */
const char *api_open(const OrtApiBase *base);
/* Turns a failure of ONNX Runtime into one of Tenon, and releases it. */
tenon_status_t api_check(OrtStatus *status);
/* The message of this thread's last failure as a status of ONNX Runtime. */
OrtStatus *api_status(tenon_status_t status, const char *where);
/* Calls a function that returns a status. */
#define API(name, ...) api_check(api.name(__VA_ARGS__))

#endif
