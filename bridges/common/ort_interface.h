/* The binary interface between ONNX Runtime and its libraries of custom operators, declared anew
 * from the published order of its structures. ort_functions.h lists the table of functions. Nothing
 * here may change: libraries are compiled against these layouts. */
#ifndef BRIDGES_COMMON_ORT_INTERFACE_H
#define BRIDGES_COMMON_ORT_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

enum { ORT_VERSION_NEWEST = 31 };       /* the newest version that a library may ask for */
#define ORT_VERSION_TEXT "1.31.0"       /* libraries read the second number */
enum { ORT_OP_UNBOUNDED = 0x7fffffff }; /* GetEndVersion of an operator without an end */

/* Versions of OrtCustomOp from which a library may set fields. */
enum {
  SINCE_CHARACTERISTICS = 8,
  SINCE_VARIADIC = 14,
  SINCE_STATUS = 16,
  SINCE_SHAPES = 17,
  SINCE_ALIASES = 18
};

typedef enum ort_code_t {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_RUNTIME_EXCEPTION = 6,
  ORT_NOT_IMPLEMENTED = 9
} ort_code_t;

/* Element types, numbered as in the files of ONNX. */
typedef enum ort_element_t {
  ORT_ELEMENT_UNDEFINED = 0,
  ORT_ELEMENT_STRING = 8,
  ORT_ELEMENT_COUNT = 27
} ort_element_t;

/* Kinds of values. */
typedef enum ort_kind_t { ORT_KIND_UNKNOWN = 0, ORT_KIND_TENSOR = 1 } ort_kind_t;

typedef enum ort_attribute_t {
  ORT_ATTRIBUTE_UNDEFINED = 0,
  ORT_ATTRIBUTE_INT = 1,
  ORT_ATTRIBUTE_INTS = 2,
  ORT_ATTRIBUTE_FLOAT = 3,
  ORT_ATTRIBUTE_FLOATS = 4,
  ORT_ATTRIBUTE_STRING = 5,
  ORT_ATTRIBUTE_STRINGS = 6,
  ORT_ATTRIBUTE_GRAPH = 7,
  ORT_ATTRIBUTE_TENSOR = 8
} ort_attribute_t;

/* Characteristics of an input or an output. */
typedef enum ort_characteristic_t {
  ORT_REQUIRED = 0,
  ORT_OPTIONAL = 1,
  ORT_VARIADIC = 2
} ort_characteristic_t;

typedef struct OrtApi OrtApi;
typedef struct OrtStatus OrtStatus;
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
  /* later versions; NULL in the bridge's own allocator, which has an older version */
  void *(*Reserve)(struct OrtAllocator *self, size_t size);
  OrtStatus *(*GetStats)(const struct OrtAllocator *self, OrtKeyValuePairs **out);
  void *(*AllocOnStream)(struct OrtAllocator *self, size_t size, void *stream);
  OrtStatus *(*Shrink)(struct OrtAllocator *self);
} OrtAllocator;

typedef struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} OrtApiBase;

/* What a library provides for one operator. `version` says up to which field it has set them. */
typedef struct OrtCustomOp {
  uint32_t version;
  void *(*CreateKernel)(const struct OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info);
  const char *(*GetName)(const struct OrtCustomOp *op);
  const char *(*GetExecutionProviderType)(const struct OrtCustomOp *op);
  ort_element_t (*GetInputType)(const struct OrtCustomOp *op, size_t index);
  size_t (*GetInputTypeCount)(const struct OrtCustomOp *op);
  ort_element_t (*GetOutputType)(const struct OrtCustomOp *op, size_t index);
  size_t (*GetOutputTypeCount)(const struct OrtCustomOp *op);
  void (*KernelCompute)(void *kernel, OrtKernelContext *context);
  void (*KernelDestroy)(void *kernel);
  ort_characteristic_t (*GetInputCharacteristic)(const struct OrtCustomOp *op, size_t index);
  ort_characteristic_t (*GetOutputCharacteristic)(const struct OrtCustomOp *op, size_t index);
  int (*GetInputMemoryType)(const struct OrtCustomOp *op, size_t index);
  int (*GetVariadicInputMinArity)(const struct OrtCustomOp *op);
  int (*GetVariadicInputHomogeneity)(const struct OrtCustomOp *op);
  int (*GetVariadicOutputMinArity)(const struct OrtCustomOp *op);
  int (*GetVariadicOutputHomogeneity)(const struct OrtCustomOp *op);
  OrtStatus *(*CreateKernelV2)(const struct OrtCustomOp *op, const OrtApi *api,
                               const OrtKernelInfo *info, void **out_kernel);
  OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *context);
  OrtStatus *(*InferOutputShapeFn)(const struct OrtCustomOp *op, OrtShapeInferContext *context);
  int (*GetStartVersion)(const struct OrtCustomOp *op);
  int (*GetEndVersion)(const struct OrtCustomOp *op);
  size_t (*GetMayInplace)(int **inputs, int **outputs);
  void (*ReleaseMayInplace)(int *inputs, int *outputs);
  size_t (*GetAliasMap)(int **inputs, int **outputs);
  void (*ReleaseAliasMap)(int *inputs, int *outputs);
} OrtCustomOp;

_Static_assert(sizeof(OrtCustomOp) == 208, "libraries are compiled against this layout");

typedef OrtStatus *(*register_fn)(OrtSessionOptions *options, const OrtApiBase *base);

#endif
