/* The functions by which a kernel reads the attributes of its node. */
#ifndef BRIDGES_ONNXRUNTIME_INFO_ATTRIBUTE_H
#define BRIDGES_ONNXRUNTIME_INFO_ATTRIBUTE_H

#include "common/ort_interface.h"

OrtStatus *ort_KernelInfoGetAttribute_float(const OrtKernelInfo *info, const char *name,
                                            float *out);
OrtStatus *ort_KernelInfoGetAttribute_int64(const OrtKernelInfo *info, const char *name,
                                            int64_t *out);
OrtStatus *ort_KernelInfoGetAttribute_string(const OrtKernelInfo *info, const char *name, char *out,
                                             size_t *size);
OrtStatus *ort_KernelInfoGetAttributeArray_float(const OrtKernelInfo *info, const char *name,
                                                 float *out, size_t *size);
OrtStatus *ort_KernelInfoGetAttributeArray_int64(const OrtKernelInfo *info, const char *name,
                                                 int64_t *out, size_t *size);
OrtStatus *ort_KernelInfoGetAttributeArray_string(const OrtKernelInfo *info, const char *name,
                                                  OrtAllocator *allocator, char ***out,
                                                  size_t *size);
OrtStatus *ort_KernelInfoGetAttribute_tensor(const OrtKernelInfo *info, const char *name,
                                             OrtAllocator *allocator, OrtValue **out);

#endif
