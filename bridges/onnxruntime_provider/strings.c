/* Tensors of strings, which ONNX Runtime and Tenon store in different ways. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "provider.h"

static tenon_status_t set_strings(const OrtValue *value, tenon_tensor_t *tensor, char *text,
                                  size_t size, size_t *offsets) {
  const size_t count = (size_t)tenon_count(tensor);
  tenon_status_t status =
      count ? API(GetStringTensorContent, value, text, size, offsets, count) : TENON_OK;
  offsets[count] = size;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status =
        tenon_tensor_set_string(tensor, (int64_t)i, text + offsets[i], offsets[i + 1] - offsets[i]);
  return status;
}

tenon_status_t strings_read(const OrtValue *value, int32_t ndim, const int64_t *shape,
                            tenon_tensor_t **out_tensor) {
  size_t size = 0;
  tenon_status_t status = API(GetStringTensorDataLength, value, &size);
  if (status == TENON_OK)
    status = tenon_tensor_create(tenon_dtype(TENON_STRING), ndim, shape, out_tensor);
  if (status != TENON_OK) return status;
  char *text = malloc(size + 1);
  size_t *offsets = calloc((size_t)tenon_count(*out_tensor) + 1, sizeof *offsets);
  status = text && offsets ? set_strings(value, *out_tensor, text, size, offsets)
                           : tn_no_memory("a tensor of strings", size);
  free(text);
  free(offsets);
  if (status == TENON_OK) return status;
  tenon_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

tenon_status_t strings_write(const tenon_tensor_t *tensor, OrtValue *value) {
  const tenon_string_t *strings =
      (const tenon_string_t *)((const char *)tensor->data + tensor->byte_offset);
  const size_t count = (size_t)tenon_count(tensor);
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count && status == TENON_OK; i++) {
    char *room = NULL;
    status = API(GetResizedStringTensorElementBuffer, value, i, strings[i].size, &room);
    if (status == TENON_OK && strings[i].size) memcpy(room, strings[i].data, strings[i].size);
  }
  return status;
}
