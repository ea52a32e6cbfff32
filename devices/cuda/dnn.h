/* Convolutions by cuDNN, if it is installed: a kernel for core::conv. Convolutions that cuDNN does
 * not take go to the source kernel: convolution.c decides which, dnn.c calls cuDNN. The parts of
 * cuDNN in use are declared here; tests/unit/devices/cuda_api_test.c compares them with its
 * header. */
#ifndef TENON_CUDA_DNN_H
#define TENON_CUDA_DNN_H

#include "ordinal.h"

typedef struct cudnnContext *dnn_handle_t;
typedef struct cudnnTensorStruct *dnn_tensor_t;
typedef struct cudnnFilterStruct *dnn_filter_t;
typedef struct cudnnConvolutionStruct *dnn_convolution_t;
typedef struct cudnnActivationStruct *dnn_activation_t;

typedef struct
    dnn_found_t { /* cudnnConvolutionFwdAlgoPerf_t: an algorithm that the heuristics propose */
  cu_enum_t algo;
  cu_enum_t status;
  float time;
  size_t memory;
  cu_enum_t determinism;
  cu_enum_t mathType;
  int reserved[3];
} dnn_found_t;
struct cudnnConvolutionFwdAlgoPerfStruct; /* its name there */

/* clang-format off */
#define DNN_CONSTANTS(X) /* names without "CUDNN_" */ \
  X(DATA_FLOAT, 0) X(DATA_DOUBLE, 1) X(DATA_HALF, 2) X(DATA_BFLOAT16, 9) X(TENSOR_NCHW, 0) \
    X(TENSOR_NHWC, 1) \
  X(CROSS_CORRELATION, 1) X(DEFAULT_MATH, 0) X(TENSOR_OP_MATH, 1) X(FMA_MATH, 3) \
    X(PROPAGATE_NAN, 1) X(NOT_PROPAGATE_NAN, 0) \
  X(CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, 1) X(CONVOLUTION_FWD_ALGO_FFT, 4) \
    X(CONVOLUTION_FWD_ALGO_COUNT, 8) \
  X(ACTIVATION_SIGMOID, 0) X(ACTIVATION_RELU, 1) X(ACTIVATION_TANH, 2) \
    X(ACTIVATION_CLIPPED_RELU, 3) \
  X(ACTIVATION_ELU, 4) X(ACTIVATION_IDENTITY, 5) X(ACTIVATION_SWISH, 6)

#define DNN_FUNCTIONS(X) /* name after "cudnn"; all but the first two give a cudnnStatus_t */ \
  X(size_t, GetVersion, (void)) \
  X(const char *, GetErrorString, (cu_result_t)) \
  X(cu_result_t, Create, (dnn_handle_t *)) \
  X(cu_result_t, Destroy, (dnn_handle_t)) \
  X(cu_result_t, SetStream, (dnn_handle_t, cu_native_stream_t)) \
  X(cu_result_t, CreateTensorDescriptor, (dnn_tensor_t *)) \
  X(cu_result_t, SetTensorNdDescriptor, (dnn_tensor_t, cu_enum_t, int, const int *, const int *)) \
  X(cu_result_t, DestroyTensorDescriptor, (dnn_tensor_t)) \
  X(cu_result_t, CreateFilterDescriptor, (dnn_filter_t *)) \
  X(cu_result_t, SetFilterNdDescriptor, (dnn_filter_t, cu_enum_t, cu_enum_t, int, const int *)) \
  X(cu_result_t, DestroyFilterDescriptor, (dnn_filter_t)) \
  X(cu_result_t, CreateConvolutionDescriptor, (dnn_convolution_t *)) \
  X(cu_result_t, SetConvolutionNdDescriptor, \
    (dnn_convolution_t, int, const int *, const int *, const int *, cu_enum_t, cu_enum_t)) \
  X(cu_result_t, SetConvolutionMathType, (dnn_convolution_t, cu_enum_t)) \
  X(cu_result_t, SetConvolutionGroupCount, (dnn_convolution_t, int)) \
  X(cu_result_t, DestroyConvolutionDescriptor, (dnn_convolution_t)) \
  X(cu_result_t, CreateActivationDescriptor, (dnn_activation_t *)) \
  X(cu_result_t, SetActivationDescriptor, (dnn_activation_t, cu_enum_t, cu_enum_t, double)) \
  X(cu_result_t, SetActivationDescriptorSwishBeta, (dnn_activation_t, double)) \
  X(cu_result_t, DestroyActivationDescriptor, (dnn_activation_t)) \
  X(cu_result_t, GetConvolutionForwardAlgorithm_v7, \
    (dnn_handle_t, dnn_tensor_t, dnn_filter_t, dnn_convolution_t, dnn_tensor_t, int, int *, \
    struct cudnnConvolutionFwdAlgoPerfStruct *)) \
  X(cu_result_t, GetConvolutionForwardWorkspaceSize, \
    (dnn_handle_t, dnn_tensor_t, dnn_filter_t, dnn_convolution_t, dnn_tensor_t, cu_enum_t, \
    size_t *)) \
  X(cu_result_t, ConvolutionForward, (dnn_handle_t, const void *, dnn_tensor_t, const void *, \
    dnn_filter_t, const void *, dnn_convolution_t, cu_enum_t, void *, size_t, const void *, \
    dnn_tensor_t, void *)) \
  X(cu_result_t, ConvolutionBiasActivationForward, \
    (dnn_handle_t, const void *, dnn_tensor_t, const void *, dnn_filter_t, const void *, \
    dnn_convolution_t, cu_enum_t, void *, size_t, const void *, dnn_tensor_t, const void *, \
    dnn_tensor_t, const void *, dnn_activation_t, dnn_tensor_t, void *)) \
  X(cu_result_t, AddTensor, (dnn_handle_t, const void *, dnn_tensor_t, const void *, const void *, \
    dnn_tensor_t, void *)) \
  X(cu_result_t, ActivationForward, (dnn_handle_t, dnn_activation_t, const void *, dnn_tensor_t, \
    const void *, const void *, dnn_tensor_t, void *)) \
  X(cu_result_t, TransformTensor, (dnn_handle_t, const void *, dnn_tensor_t, const void *, \
    const void *, dnn_tensor_t, void *))

#define DNN_MEMBER_(name, value) DNN_##name = (value),
#define DNN_POINTER_(result, name, parameters) result (*name) parameters;
enum { DNN_CONSTANTS(DNN_MEMBER_) };
typedef struct dnn_api_t { DNN_FUNCTIONS(DNN_POINTER_) } dnn_api_t;
/* clang-format on */

tenon_status_t cu_conv_run(tenon_call_t *call); /* the kernel for core::conv */
void cu_dnn_close(cu_device_t *device);

#endif
