/* Strings in and out. ONNX Runtime copies them as one block with offsets, or one by one; nothing is
 * terminated by a zero byte on the way out. */
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "status.h"
#include "value.h"

static OrtStatus *check_strings(const OrtValue *value, size_t index, const char *function) {
  const tenon_tensor_t *tensor = value->tensor;
  if (tenon_dtype_id(tensor->dtype) != TENON_STRING)
    return status_make(ORT_INVALID_ARGUMENT, "%s: the tensor has dtype %s, not string", function,
                       tenon_dtype_name(tensor->dtype));
  if (index >= (size_t)tenon_count(tensor))
    return status_make(ORT_INVALID_ARGUMENT, "%s: element %zu of a tensor of %lld strings",
                       function, index, (long long)tenon_count(tensor));
  return NULL;
}

static const tenon_string_t *strings_of(const OrtValue *value) {
  const tenon_tensor_t *tensor = value->tensor;
  return (const tenon_string_t *)(const void *)((const char *)tensor->data + tensor->byte_offset);
}

static OrtStatus *set_string(OrtValue *value, size_t index, const char *text, size_t size) {
  tenon_tensor_t *tensor = value->tensor;
  tenon_call_t *call = value->call;
  tenon_status_t status = call ? call->host->set_string(call, tensor, (int64_t)index, text, size)
                               : tenon_tensor_set_string(tensor, (int64_t)index, text, size);
  return status == TENON_OK ? NULL : status_of_tenon("a string cannot be set");
}

OrtStatus *ort_FillStringTensorElement(OrtValue *value, const char *text, size_t index) {
  OrtStatus *status = check_strings(value, index, "FillStringTensorElement");
  return status ? status : set_string(value, index, text, strlen(text));
}

OrtStatus *ort_FillStringTensor(OrtValue *value, const char *const *texts, size_t count) {
  OrtStatus *status = count ? check_strings(value, 0, "FillStringTensor") : NULL;
  if (!status && count != (size_t)tenon_count(value->tensor))
    status = status_make(ORT_INVALID_ARGUMENT,
                         "FillStringTensor: %zu strings for a tensor of %lld elements", count,
                         (long long)tenon_count(value->tensor));
  for (size_t i = 0; !status && i < count; i++)
    status = set_string(value, i, texts[i], strlen(texts[i]));
  return status;
}

OrtStatus *ort_GetResizedStringTensorElementBuffer(OrtValue *value, size_t index, size_t size,
                                                   char **out) {
  OrtStatus *status = check_strings(value, index, "GetResizedStringTensorElementBuffer");
  char *zeros = status ? NULL : calloc(size + 1, 1);
  if (!status && !zeros) status = status_make(ORT_FAIL, "out of memory");
  if (!status) status = set_string(value, index, zeros, size);
  free(zeros);
  /* The host has copied the zeros into memory of its own, which the library now writes to. */
  if (!status) *out = (char *)(uintptr_t)strings_of(value)[index].data;
  return status;
}

OrtStatus *ort_GetStringTensorDataLength(const OrtValue *value, size_t *out) {
  const int64_t count = tenon_count(value->tensor);
  OrtStatus *status = count ? check_strings(value, 0, "GetStringTensorDataLength") : NULL;
  *out = 0;
  for (int64_t i = 0; !status && i < count; i++)
    *out += strings_of(value)[i].size;
  return status;
}

OrtStatus *ort_GetStringTensorContent(const OrtValue *value, void *out, size_t size,
                                      size_t *offsets, size_t count) {
  const int64_t all = tenon_count(value->tensor);
  size_t at = 0;
  OrtStatus *status = all ? check_strings(value, 0, "GetStringTensorContent") : NULL;
  if (status) return status;
  if (count != (size_t)all)
    return status_make(ORT_INVALID_ARGUMENT,
                       "GetStringTensorContent: %zu offsets for a tensor of %lld strings", count,
                       (long long)all);
  for (int64_t i = 0; i < all; i++) {
    const tenon_string_t *text = &strings_of(value)[i];
    if (text->size > size - at)
      return status_make(ORT_INVALID_ARGUMENT,
                         "GetStringTensorContent: the strings do not fit into %zu bytes", size);
    offsets[i] = at;
    if (text->size) memcpy((char *)out + at, text->data, text->size);
    at += text->size;
  }
  return NULL;
}

OrtStatus *ort_GetStringTensorElementLength(const OrtValue *value, size_t index, size_t *out) {
  OrtStatus *status = check_strings(value, index, "GetStringTensorElementLength");
  if (!status) *out = strings_of(value)[index].size;
  return status;
}

OrtStatus *ort_GetStringTensorElement(const OrtValue *value, size_t size, size_t index, void *out) {
  OrtStatus *status = check_strings(value, index, "GetStringTensorElement");
  if (status) return status;
  const tenon_string_t *text = &strings_of(value)[index];
  if (size < text->size)
    return status_make(ORT_INVALID_ARGUMENT,
                       "GetStringTensorElement: %llu bytes do not fit into %zu",
                       (unsigned long long)text->size, size);
  if (text->size) memcpy(out, text->data, text->size);
  return NULL;
}
