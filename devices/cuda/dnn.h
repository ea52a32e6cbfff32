/* Convolutions by cuDNN, if it is installed: a kernel for core::conv. Convolutions that cuDNN does
 * not take go to the source kernel: convolution.c decides which, dnn.c calls cuDNN. The parts of
 * cuDNN in use are declared here; tests/unit/devices/cuda_api_test.c compares them with its
 * header. */
#ifndef TENON_CUDA_DNN_H
#define TENON_CUDA_DNN_H

#include "device.h"

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

enum { CU_RANK = 5 /* images, channels, three of space */ };
typedef struct cu_layout_t { /* the layout of a tensor; rank 0: there is no tensor */
  int rank;
  int dims[CU_RANK];
  int strides[CU_RANK];
} cu_layout_t;

/* The tensors of a convolution. A tensor that is not packed and aligned in the layout of `out` is
 * copied: from FROM_X, FROM_W or FROM_RESIDUAL to the layout of X, W or OUT. */
enum {
  CU_X,
  CU_W,
  CU_OUT,
  CU_BIAS,
  CU_FROM_X,
  CU_FROM_W,
  CU_FROM_RESIDUAL,
  CU_TENSORS,
};

typedef struct cu_shape_t { /* numbers only, padding zeroed: equal bytes mean equal work */
  double coefficient;       /* of the activation */
  cu_enum_t type;
  cu_enum_t format; /* of the filter */
  int activation;   /* the activation of cuDNN; -1: none */
  int rank;         /* number of spatial axes: 2 or 3 */
  int group;
  int pad[3];
  int stride[3];
  int dilation[3];
  cu_layout_t tensors[CU_TENSORS]; /* CU_W: the layout of the filter */
} cu_shape_t;

/* The operands of a convolution as cuDNN computes it: out = activation(x * w + bias + residual). */
typedef struct cu_convolution_t {
  cu_shape_t shape;
  const void *x;
  const void *w;
  const void *bias;
  const void *residual; /* bias and residual may be NULL */
  void *out;
} cu_convolution_t;

/* Tells whether cuDNN takes this convolution. It does not take more than three spatial axes, an
 * empty computation, padding after an axis that differs from that before it (where this matters),
 * negative padding, a result that is not packed, strides that are not positive, a bias with gaps,
 * activations that cuDNN lacks, or any number above 2^31 - 1. */
bool cu_convolution_of(const tenon_call_t *call, cu_convolution_t *out);
tenon_status_t cu_conv_run(tenon_call_t *call);
void cu_dnn_close(cu_device_t *device);

#endif
