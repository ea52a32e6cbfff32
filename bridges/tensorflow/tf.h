/* TensorFlow's C interface for operators and kernels. The functions are looked up in the process at
 * run time, so Tenon is built without TensorFlow, and one library serves several releases.
 *
 * The names of TensorFlow's types are kept, with a prefix in lower case. Handles are opaque.
 * Functions that a release may lack are in TF_OPTIONAL; their pointers are NULL there.
 * Source: the facts in tensorflow/c/kernels.h, ops.h, tf_tensor.h, tf_status.h, tf_datatype.h and
 * c_api.h, written anew. tests/adapters/tensorflow_abi.cc compares them with the headers. */
#ifndef BRIDGES_TENSORFLOW_TF_H
#define BRIDGES_TENSORFLOW_TF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tf_status_t tf_status_t;
typedef struct tf_tensor_t tf_tensor_t;
typedef struct tf_op_builder_t tf_op_builder_t;         /* TF_OpDefinitionBuilder */
typedef struct tf_kernel_builder_t tf_kernel_builder_t; /* TF_KernelBuilder */
typedef struct tf_construction_t tf_construction_t;     /* TF_OpKernelConstruction */
typedef struct tf_context_t tf_context_t;               /* TF_OpKernelContext */
typedef struct tf_inference_t tf_inference_t;           /* TF_ShapeInferenceContext */
typedef struct tf_shape_t tf_shape_t;                   /* TF_ShapeHandle */
typedef struct tf_dimension_t tf_dimension_t;           /* TF_DimensionHandle */
typedef struct tf_stream_t tf_stream_t; /* SP_Stream_st, the plug-in's own structure */

typedef struct tf_buffer_t {
  const void *data;
  size_t size;
  void (*release)(void *data, size_t size);
} tf_buffer_t;

typedef struct tf_view_t { /* TF_StringView: not terminated by a zero byte */
  const char *data;
  size_t size;
} tf_view_t;

typedef struct tf_input_range_t { /* TF_InputRange_Args: the inputs of a list */
  size_t size;
  void *reserved;
  int32_t start;       /* set by the call */
  int32_t stop;        /* set by the call */
  tf_status_t *status; /* set by the call: NULL, or a status of the caller */
} tf_input_range_t;

typedef struct tf_allocator_t { /* TF_AllocatorAttributes */
  size_t size;
  unsigned char on_host;
} tf_allocator_t;

/* Values of TF_DataType. They are stored in files, so they do not change. */
enum {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_STRING = 7,
  TF_COMPLEX64 = 8,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_QINT8 = 11,
  TF_QUINT8 = 12,
  TF_QINT32 = 13,
  TF_BFLOAT16 = 14,
  TF_QINT16 = 15,
  TF_QUINT16 = 16,
  TF_UINT16 = 17,
  TF_COMPLEX128 = 18,
  TF_HALF = 19,
  TF_RESOURCE = 20,
  TF_VARIANT = 21,
  TF_UINT32 = 22,
  TF_UINT64 = 23,
  TF_FLOAT8_E5M2 = 24,
  TF_FLOAT8_E4M3FN = 25,
  TF_FLOAT8_E4M3FNUZ = 26,
  TF_FLOAT8_E4M3B11FNUZ = 27,
  TF_FLOAT8_E5M2FNUZ = 28,
  TF_INT4 = 29,
  TF_UINT4 = 30,
  TF_INT2 = 31,
  TF_UINT2 = 32,
  TF_FLOAT4_E2M1FN = 33
};

/* Values of TF_Code that Tenon uses; those of tenon_status_t are the same numbers. */
enum {
  TF_OK = 0,
  TF_INVALID_ARGUMENT = 3,
  TF_NOT_FOUND = 5,
  TF_ALREADY_EXISTS = 6,
  TF_RESOURCE_EXHAUSTED = 8,
  TF_FAILED_PRECONDITION = 9,
  TF_OUT_OF_RANGE = 11,
  TF_UNIMPLEMENTED = 12,
  TF_INTERNAL = 13
};

typedef void *(*tf_create_fn)(tf_construction_t *construction);
typedef void (*tf_compute_fn)(void *kernel, tf_context_t *context);
typedef void (*tf_delete_fn)(void *kernel);
typedef void (*tf_shape_fn)(tf_inference_t *inference, tf_status_t *status);
/* X(result, name, parameters): statuses and tensors */
#define TF_TENSOR_FUNCTIONS(X)                                                                     \
  X(tf_status_t *, TF_NewStatus, (void))                                                           \
  X(void, TF_DeleteStatus, (tf_status_t *))                                                        \
  X(void, TF_SetStatus, (tf_status_t *, int code, const char *message))                            \
  X(int, TF_GetCode, (const tf_status_t *))                                                        \
  X(const char *, TF_Message, (const tf_status_t *))                                               \
  X(void, TF_DeleteTensor, (tf_tensor_t *))                                                        \
  X(int, TF_TensorType, (const tf_tensor_t *))                                                     \
  X(int, TF_NumDims, (const tf_tensor_t *))                                                        \
  X(int64_t, TF_Dim, (const tf_tensor_t *, int axis))                                              \
  X(size_t, TF_TensorByteSize, (const tf_tensor_t *))                                              \
  X(void *, TF_TensorData, (const tf_tensor_t *))                                                  \
  X(bool, TF_TensorIsAligned, (const tf_tensor_t *))                                               \
  X(tf_tensor_t *, TF_NewTensor,                                                                   \
    (int dtype, const int64_t *dims, int rank, void *data, size_t size,                            \
     void (*release)(void *data, size_t size, void *argument), void *argument))                    \
  X(tf_tensor_t *, TF_AllocateTensor, (int dtype, const int64_t *dims, int rank, size_t size))     \
  X(void, TF_TensorBitcastFrom,                                                                    \
    (const tf_tensor_t *from, int dtype, tf_tensor_t *to, const int64_t *dims, int rank,           \
     tf_status_t *))                                                                               \
  X(void, TF_DeleteBuffer, (tf_buffer_t *))

/* Operators and their shape functions. TF_RegisterOpDefinition frees the builder. */
#define TF_OP_FUNCTIONS(X)                                                                         \
  X(tf_op_builder_t *, TF_NewOpDefinitionBuilder, (const char *name))                              \
  X(void, TF_DeleteOpDefinitionBuilder, (tf_op_builder_t *))                                       \
  X(void, TF_OpDefinitionBuilderAddAttr, (tf_op_builder_t *, const char *spec))                    \
  X(void, TF_OpDefinitionBuilderAddInput, (tf_op_builder_t *, const char *spec))                   \
  X(void, TF_OpDefinitionBuilderAddOutput, (tf_op_builder_t *, const char *spec))                  \
  X(void, TF_OpDefinitionBuilderSetIsStateful, (tf_op_builder_t *, bool))                          \
  X(void, TF_OpDefinitionBuilderSetShapeInferenceFunction, (tf_op_builder_t *, tf_shape_fn))       \
  X(void, TF_RegisterOpDefinition, (tf_op_builder_t *, tf_status_t *))                             \
  X(int64_t, TF_ShapeInferenceContextNumInputs, (tf_inference_t *))                                \
  X(tf_shape_t *, TF_NewShapeHandle, (void))                                                       \
  X(void, TF_DeleteShapeHandle, (tf_shape_t *))                                                    \
  X(tf_dimension_t *, TF_NewDimensionHandle, (void))                                               \
  X(void, TF_DeleteDimensionHandle, (tf_dimension_t *))                                            \
  X(void, TF_ShapeInferenceContextGetInput,                                                        \
    (tf_inference_t *, int input, tf_shape_t *out_shape, tf_status_t *))                           \
  X(void, TF_ShapeInferenceContextSetOutput,                                                       \
    (tf_inference_t *, int output, tf_shape_t *, tf_status_t *))                                   \
  X(tf_shape_t *, TF_ShapeInferenceContextScalar, (tf_inference_t *))                              \
  X(tf_shape_t *, TF_ShapeInferenceContextVectorFromSize, (tf_inference_t *, size_t extent))       \
  X(void, TF_ShapeInferenceContext_GetAttrType,                                                    \
    (tf_inference_t *, const char *name, int *out_dtype, tf_status_t *))                           \
  X(int64_t, TF_ShapeInferenceContextRank, (tf_inference_t *, tf_shape_t *))                       \
  X(int, TF_ShapeInferenceContextRankKnown, (tf_inference_t *, tf_shape_t *))                      \
  X(void, TF_ShapeInferenceContextDim,                                                             \
    (tf_inference_t *, tf_shape_t *, int64_t axis, tf_dimension_t * out_dimension))                \
  X(void, TF_ShapeInferenceContextSubshape,                                                        \
    (tf_inference_t *, tf_shape_t *, int64_t start, int64_t end, tf_shape_t * out_shape,           \
     tf_status_t *))                                                                               \
  X(void, TF_ShapeInferenceContextSetUnknownShape, (tf_inference_t *, tf_status_t *))              \
  X(int, TF_DimensionHandleValueKnown, (tf_dimension_t *))                                         \
  X(int64_t, TF_DimensionHandleValue, (tf_dimension_t *))                                          \
  X(void, TF_ShapeInferenceContextConcatenateShapes,                                               \
    (tf_inference_t *, tf_shape_t * first, tf_shape_t * second, tf_shape_t * out_shape,            \
     tf_status_t *))

/* Kernels. TF_RegisterKernelBuilder frees the builder. */
#define TF_KERNEL_FUNCTIONS(X)                                                                     \
  X(tf_kernel_builder_t *, TF_NewKernelBuilder,                                                    \
    (const char *op, const char *device, tf_create_fn, tf_compute_fn, tf_delete_fn))               \
  X(void, TF_DeleteKernelBuilder, (tf_kernel_builder_t *))                                         \
  X(void, TF_KernelBuilder_TypeConstraint,                                                         \
    (tf_kernel_builder_t *, const char *attribute, int dtype, tf_status_t *))                      \
  X(void, TF_KernelBuilder_HostMemory, (tf_kernel_builder_t *, const char *argument))              \
  X(void, TF_KernelBuilder_Priority, (tf_kernel_builder_t *, int32_t priority))                    \
  X(void, TF_RegisterKernelBuilder, (const char *name, tf_kernel_builder_t *, tf_status_t *))      \
  X(void, TF_OpKernelConstruction_Failure, (tf_construction_t *, tf_status_t *))                   \
  X(tf_view_t, TF_OpKernelConstruction_GetName, (tf_construction_t *))                             \
  X(tf_buffer_t *, TF_OpKernelConstruction_GetNodeDef, (tf_construction_t *, tf_status_t *))       \
  X(bool, TF_OpKernelConstruction_HasAttr, (tf_construction_t *, const char *name, tf_status_t *)) \
  X(void, TF_OpKernelConstruction_GetAttrSize,                                                     \
    (tf_construction_t *, const char *name, int32_t *out_count, int32_t *out_size, tf_status_t *)) \
  X(void, TF_OpKernelConstruction_GetAttrType,                                                     \
    (tf_construction_t *, const char *name, int *out_dtype, tf_status_t *))                        \
  X(void, TF_OpKernelConstruction_GetAttrTypeList,                                                 \
    (tf_construction_t *, const char *name, int *out_dtypes, int count, tf_status_t *))            \
  X(void, TF_OpKernelConstruction_GetAttrInt64,                                                    \
    (tf_construction_t *, const char *name, int64_t *out_value, tf_status_t *))                    \
  X(void, TF_OpKernelConstruction_GetAttrInt64List,                                                \
    (tf_construction_t *, const char *name, int64_t *out_values, int count, tf_status_t *))        \
  X(void, TF_OpKernelConstruction_GetAttrFloat,                                                    \
    (tf_construction_t *, const char *name, float *out_value, tf_status_t *))                      \
  X(void, TF_OpKernelConstruction_GetAttrFloatList,                                                \
    (tf_construction_t *, const char *name, float *out_values, int count, tf_status_t *))          \
  X(void, TF_OpKernelConstruction_GetAttrBool,                                                     \
    (tf_construction_t *, const char *name, unsigned char *out_value, tf_status_t *))              \
  X(void, TF_OpKernelConstruction_GetAttrString,                                                   \
    (tf_construction_t *, const char *name, char *out_text, size_t capacity, tf_status_t *))       \
  X(void, TF_OpKernelConstruction_GetAttrStringList,                                               \
    (tf_construction_t *, const char *name, char **out_texts, size_t *out_sizes, int count,        \
     void *storage, size_t storage_size, tf_status_t *))                                           \
  X(void, TF_OpKernelConstruction_GetAttrTensor,                                                   \
    (tf_construction_t *, const char *name, tf_tensor_t **out_tensor, tf_status_t *))              \
  X(void, TF_OpKernelContext_Failure, (tf_context_t *, tf_status_t *))                             \
  X(int, TF_NumInputs, (tf_context_t *))                                                           \
  X(int, TF_NumOutputs, (tf_context_t *))                                                          \
  X(void, TF_GetInput, (tf_context_t *, int input, tf_tensor_t **out_tensor, tf_status_t *))       \
  X(int, TF_ExpectedOutputDataType, (tf_context_t *, int output))                                  \
  X(int64_t, TF_StepId, (tf_context_t *))                                                          \
  X(void, TF_SetOutput, (tf_context_t *, int output, const tf_tensor_t *, tf_status_t *))          \
  X(tf_tensor_t *, TF_AllocateOutput,                                                              \
    (tf_context_t *, int output, int dtype, const int64_t *dims, int rank, size_t size,            \
     tf_status_t *))                                                                               \
  X(tf_tensor_t *, TF_ForwardInputOrAllocateOutput,                                                \
    (tf_context_t *, const int *inputs, int input_count, int output, const int64_t *dims,          \
     int rank, int *out_input, tf_status_t *))                                                     \
  X(tf_tensor_t *, TF_AllocateTemp,                                                                \
    (tf_context_t *, int dtype, const int64_t *dims, int rank, tf_allocator_t *, tf_status_t *))

/* Functions that a release may lack; they are in libtensorflow_cc.so.2. The functions of
 * kernels_experimental.h for variables (TF_AssignVariable and its relatives) are not here, because
 * no library of TensorFlow 2.21 exports them. */
#define TF_OPTIONAL(X)                                                                             \
  X(tf_stream_t *, TF_GetStream, (tf_context_t *, tf_status_t *))                                  \
  X(int, TF_GetDeviceId, (tf_context_t *))                                                         \
  X(int, TF_InputDatatype, (tf_context_t *, int input))                                            \
  X(void, TF_InputRange, (tf_context_t *, const char *name, tf_input_range_t *))                   \
  X(const char *, TF_Version, (void))                                                              \
  X(int, TF_OpIsStateful, (const char *op, tf_status_t *))                                         \
  X(tf_buffer_t *, TF_NewBuffer, (void))

#define TF_FUNCTIONS(X)                                                                            \
  TF_TENSOR_FUNCTIONS(X)                                                                           \
  TF_OP_FUNCTIONS(X)                                                                               \
  TF_KERNEL_FUNCTIONS(X)

typedef struct tf_api_t {
#define TF_FIELD(result, name, parameters) result(*name) parameters;
  TF_FUNCTIONS(TF_FIELD)
  TF_OPTIONAL(TF_FIELD)
#undef TF_FIELD
} tf_api_t;

/* The functions of the TensorFlow in this process. Valid after tf_open has returned true. */
extern tf_api_t tf;

/* Looks the functions up.
 *
 * Returns: false with a message in `out_error` if TensorFlow is not loaded, or lacks functions.
 * Threads: any; the first call that succeeds fills in `tf`. */
bool tf_open(char *out_error, size_t capacity);
/* Returns a function of TensorFlow's libraries by its symbol, or NULL. */
void *tf_find(const char *symbol);

#endif
