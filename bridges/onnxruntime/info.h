/* What a kernel learns about its node when it is created. */
#ifndef BRIDGES_ONNXRUNTIME_INFO_H
#define BRIDGES_ONNXRUNTIME_INFO_H

#include "common/ort_interface.h"
#include "operator.h"

typedef struct argument_t {       /* what is known about an input or an output */
  ort_element_t element;          /* UNDEFINED: the argument is absent, or its dtype is unknown */
  int32_t ndim;                   /* -1: unknown */
  int64_t *dims;                  /* -1: unknown */
  const tenon_tensor_t *constant; /* valid until the kernel is created; NULL: none */
  OrtValue *kept;                 /* a copy of the constant for the library; NULL: none yet */
} argument_t;

/* Kernels and copies that libraries make share one object. */
struct OrtKernelInfo {
  int references;
  const operator_t *op;
  const overload_t *overload;
  const tenon_value_t *attributes;
  uint32_t in_count;
  uint32_t out_count;
  argument_t *arguments; /* the inputs, then the outputs */
};

/* Creates an object in which no dtype and no shape is known. Returns NULL if memory is out. */
OrtKernelInfo *info_make(const operator_t *op, const overload_t *overload,
                         const tenon_value_t *attributes, uint32_t in_count, uint32_t out_count);
/* Forgets the constants of which the library has no copy. */
void info_finish(OrtKernelInfo *info);

OrtStatus *ort_CopyKernelInfo(const OrtKernelInfo *info, OrtKernelInfo **out);
void ort_ReleaseKernelInfo(OrtKernelInfo *info);
OrtStatus *ort_KernelInfo_GetInputCount(const OrtKernelInfo *info, size_t *out);
OrtStatus *ort_KernelInfo_GetOutputCount(const OrtKernelInfo *info, size_t *out);
OrtStatus *ort_KernelInfo_GetInputName(const OrtKernelInfo *info, size_t index, char *out,
                                       size_t *size);
OrtStatus *ort_KernelInfo_GetOutputName(const OrtKernelInfo *info, size_t index, char *out,
                                        size_t *size);
OrtStatus *ort_KernelInfo_GetInputTypeInfo(const OrtKernelInfo *info, size_t index,
                                           OrtTypeInfo **out);
OrtStatus *ort_KernelInfo_GetOutputTypeInfo(const OrtKernelInfo *info, size_t index,
                                            OrtTypeInfo **out);
OrtStatus *ort_KernelInfo_GetNodeName(const OrtKernelInfo *info, char *out, size_t *size);
OrtStatus *ort_KernelInfo_GetOperatorDomain(const OrtKernelInfo *info, char *out, size_t *size);
OrtStatus *ort_KernelInfo_GetOperatorType(const OrtKernelInfo *info, char *out, size_t *size);
OrtStatus *ort_KernelInfo_GetOperatorSinceVersion(const OrtKernelInfo *info, int *out);
OrtStatus *ort_KernelInfoGetConstantInput_tensor(const OrtKernelInfo *info, size_t index,
                                                 int *out_is_constant, const OrtValue **out);
OrtStatus *ort_KernelInfoGetAllocator(const OrtKernelInfo *info, int memory, OrtAllocator **out);

#endif
