/* Standard operators that kernels call. */
#ifndef BRIDGES_ONNXRUNTIME_INVOKE_H
#define BRIDGES_ONNXRUNTIME_INVOKE_H

#include "common/ort_interface.h"

OrtStatus *ort_CreateOp(const OrtKernelInfo *info, const char *name, const char *domain,
                        int version, const char **constraint_names,
                        const ort_element_t *constraints, int constraint_count,
                        const OrtOpAttr *const *attributes, int attribute_count, int in_count,
                        int out_count, OrtOp **out);
OrtStatus *ort_InvokeOp(const OrtKernelContext *context, const OrtOp *op,
                        const OrtValue *const *inputs, int in_count, OrtValue *const *outputs,
                        int out_count);
void ort_ReleaseOp(OrtOp *op);

#endif
