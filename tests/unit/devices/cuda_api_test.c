/* Compares what the device "cuda" declares of the driver, NVRTC, cuBLAS and cuDNN with their
 * headers, where these are installed; the comparison happens when this file is compiled. */
#include "devices/host.h"

#ifdef HAS_CUDA_H
#define TENON_CUDA_HEADERS
#include <cuda.h>
#endif
#ifdef HAS_NVRTC_H
#include <nvrtc.h>
#endif
#ifdef HAS_CUBLAS_H
#include <cublas_v2.h>
#endif
#ifdef HAS_CUDNN_H
#include <cudnn.h>
#endif

#include "cuda/api.h"
#include "cuda/blas.h"
#include "cuda/dnn.h"

/* clang-format off */
#define SAME(ours, function) \
  _Static_assert(__builtin_types_compatible_p(ours, __typeof__(&function)), #function);
#define NUMBER(name, value) _Static_assert((int)(name) == (value), #name);
#ifdef HAS_CUDA_H
#define CU_SAME(name, symbol, parameters) SAME(cu_result_t (*) parameters, symbol)
#define CU_NUMBER(name, value) NUMBER(CU_##name, value)
#define CU_CODE(name, value, status) NUMBER(name, value)
CU_FUNCTIONS(CU_SAME) CU_OPTIONAL(CU_SAME) CU_CONSTANTS(CU_NUMBER) CU_ERRORS(CU_CODE)
_Static_assert(sizeof(CUdeviceptr) == sizeof(cu_address_t), "size of an address");
_Static_assert(sizeof(CUdevice) == sizeof(cu_id_t), "size of a device id");
#endif
#ifdef HAS_NVRTC_H
#define RTC_SAME(result, name, parameters) SAME(result (*) parameters, nvrtc##name)
RTC_FUNCTIONS(RTC_SAME)
NUMBER(NVRTC_ERROR_COMPILATION, RTC_ERROR_COMPILATION)
NUMBER(NVRTC_ERROR_OUT_OF_MEMORY, RTC_ERROR_OUT_OF_MEMORY)
#endif
#ifdef HAS_CUBLAS_H
#define BLAS_SAME(name, symbol, parameters) SAME(cu_result_t (*) parameters, symbol)
BLAS_FUNCTIONS(BLAS_SAME) BLAS_CONSTANTS(NUMBER)
#endif
#ifdef HAS_CUDNN_H
#define DNN_SAME(result, name, parameters) SAME(result (*) parameters, cudnn##name)
#define DNN_NUMBER(name, value) NUMBER(CUDNN_##name, value)
#define DNN_FIELD(name) \
  _Static_assert(offsetof(cudnnConvolutionFwdAlgoPerf_t, name) == offsetof(dnn_found_t, name), \
                 #name); \
  _Static_assert(sizeof(((cudnnConvolutionFwdAlgoPerf_t *)0)->name) == \
                     sizeof(((dnn_found_t *)0)->name), #name);
DNN_FUNCTIONS(DNN_SAME) DNN_CONSTANTS(DNN_NUMBER)
DNN_FIELD(algo) DNN_FIELD(status) DNN_FIELD(time) DNN_FIELD(memory)
DNN_FIELD(determinism) DNN_FIELD(mathType) DNN_FIELD(reserved)
_Static_assert(sizeof(cudnnConvolutionFwdAlgoPerf_t) == sizeof(dnn_found_t), "sizes");
NUMBER(CUDNN_STATUS_SUCCESS, 0)
#if CUDNN_MAJOR >= 9
NUMBER(CUDNN_STATUS_NOT_SUPPORTED, 3000) NUMBER(CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM, 3012)
#else
NUMBER(CUDNN_STATUS_NOT_SUPPORTED, 9)
#endif
#endif
    /* clang-format on */

    TEST("the driver's functions and numbers are those of cuda.h") {
#ifdef HAS_CUDA_H
  CHECK(CU_STREAM_LEGACY == CU_LEGACY && CU_STREAM_PER_THREAD == CU_PER_THREAD);
#else
  SKIP("there is no cuda.h, under CUDA_HOME or /usr/local/cuda");
#endif
}
TEST("the declarations of NVRTC match nvrtc.h") {
#ifndef HAS_NVRTC_H
  SKIP("there is no nvrtc.h, under CUDA_HOME or /usr/local/cuda");
#endif
}
TEST("the declarations of cuBLAS match cublas_v2.h") {
#ifndef HAS_CUBLAS_H
  SKIP("there is no cublas_v2.h, under CUDA_HOME or /usr/local/cuda");
#endif
}
TEST("the declarations of cuDNN match cudnn.h") {
#ifndef HAS_CUDNN_H
  SKIP("there is no cudnn.h with cuda_runtime_api.h, under CUDA_HOME, /usr/local/cuda or "
       "VIRTUAL_ENV");
#endif
}
