/* Inference of dtypes and shapes. */
#ifndef BRIDGES_ONNXRUNTIME_INFER_H
#define BRIDGES_ONNXRUNTIME_INFER_H

#include "kernel.h"

tenon_status_t infer_results(tenon_infer_t *infer);

OrtStatus *ort_ShapeInferContext_GetInputCount(const OrtShapeInferContext *context, size_t *out);
OrtStatus *ort_ShapeInferContext_GetInputTypeShape(const OrtShapeInferContext *context,
                                                   size_t index, OrtTensorTypeAndShapeInfo **out);
OrtStatus *ort_ShapeInferContext_GetAttribute(const OrtShapeInferContext *context, const char *name,
                                              const OrtOpAttr **out);
OrtStatus *ort_ShapeInferContext_SetOutputTypeShape(const OrtShapeInferContext *context,
                                                    size_t index,
                                                    const OrtTensorTypeAndShapeInfo *info);

#endif
