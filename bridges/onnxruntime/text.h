/* Elements of tensors of strings. */
#ifndef BRIDGES_ONNXRUNTIME_TEXT_H
#define BRIDGES_ONNXRUNTIME_TEXT_H

#include "common/ort_interface.h"

OrtStatus *ort_FillStringTensor(OrtValue *value, const char *const *texts, size_t count);
OrtStatus *ort_FillStringTensorElement(OrtValue *value, const char *text, size_t index);
OrtStatus *ort_GetStringTensorDataLength(const OrtValue *value, size_t *out);
OrtStatus *ort_GetStringTensorContent(const OrtValue *value, void *out, size_t size,
                                      size_t *offsets, size_t count);
OrtStatus *ort_GetStringTensorElementLength(const OrtValue *value, size_t index, size_t *out);
OrtStatus *ort_GetStringTensorElement(const OrtValue *value, size_t size, size_t index, void *out);
OrtStatus *ort_GetResizedStringTensorElementBuffer(OrtValue *value, size_t index, size_t size,
                                                   char **out);

#endif
