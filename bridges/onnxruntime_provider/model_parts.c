/* Writes tensors and attributes; see model_parts.h. */
#include "model_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

int model_element(int element) {
  static const int last[] = {25, 26, 24}; /* u2, i2, f8e8m0 */
  return element < 24 || element > 26 ? element : last[element - 24];
}

/* ---- tensors --------------------------------------------------------------------------------- */

static tenon_status_t write_strings(message_t *m, const OrtValue *value, size_t count) {
  enum { STRING = 6 };
  size_t size = 0;
  tenon_status_t status = API(GetStringTensorDataLength, value, &size);
  if (status != TENON_OK) return status;
  char *text = malloc(size + 1);
  size_t *offsets = calloc(count + 1, sizeof *offsets);
  if (!text || !offsets) status = tn_no_memory("the strings of a constant", size);
  if (status == TENON_OK && count)
    status = API(GetStringTensorContent, value, text, size, offsets, count);
  if (status == TENON_OK) offsets[count] = size;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    message_bytes(m, STRING, (bytes_t){text + offsets[i], offsets[i + 1] - offsets[i]});
  free(text);
  free(offsets);
  return status;
}

static tenon_status_t write_numbers(message_t *m, const OrtValue *value) {
  enum { RAW = 9, DOCUMENTATION = 12, ALIGNMENT = 16, FROM = 1024, LENGTHS = 2 + 5 };
  static const char spaces[ALIGNMENT + 1] = "                ";
  size_t size = 0;
  void *data = NULL;
  tenon_status_t status = API(GetTensorSizeInBytes, value, &size);
  if (status == TENON_OK) status = API(GetTensorMutableData, (OrtValue *)(uintptr_t)value, &data);
  if (status != TENON_OK) return status;
  /* Spaces in a field that nobody reads move the bytes to a multiple of 16. They need one byte for
   * the key and one for the length; those of the bytes need one and five. */
  const size_t over = (m->size + LENGTHS + 1) % ALIGNMENT;
  if (size >= FROM) message_bytes(m, DOCUMENTATION, (bytes_t){spaces, over ? ALIGNMENT - over : 0});
  const size_t raw = message_open(m, RAW);
  message_append(m, (bytes_t){data, size});
  message_close(m, raw);
  return TENON_OK;
}

tenon_status_t model_write_tensor(message_t *m, uint32_t field, const char *name,
                                  const OrtValue *value) {
  enum { DIM = 1, TYPE = 2, NAME = 8 };
  const int64_t *shape = NULL;
  size_t rank = 0;
  size_t count = 1;
  int element = 0;
  int is_tensor = 0;
  tenon_status_t status = API(IsTensor, value, &is_tensor);
  if (status == TENON_OK && !is_tensor)
    status = tn_fail(TENON_UNIMPLEMENTED, "the constant '%s' is not a dense tensor", name);
  if (status == TENON_OK)
    status = API(GetTensorElementTypeAndShapeDataReference, value, &element, &shape, &rank);
  if (status != TENON_OK) return status;
  const size_t whole = message_open(m, field);
  for (size_t d = 0; d < rank; d++) {
    message_number(m, DIM, (uint64_t)shape[d]);
    count *= (size_t)shape[d];
  }
  message_number(m, TYPE, (uint64_t)model_element(element));
  message_text(m, NAME, name);
  status = element == ORT_ELEMENT_STRING ? write_strings(m, value, count) : write_numbers(m, value);
  message_close(m, whole);
  return status;
}

/* ---- attributes ------------------------------------------------------------------------------ */

tenon_status_t model_read_attribute(const OrtOpAttr *attribute, int type, void **out_data,
                                    size_t *out_size) {
  size_t size = 0;
  *out_data = NULL;
  if (type == ORT_ATTRIBUTE_INT) { /* ONNX Runtime writes eight bytes and states four */
    *out_data = calloc(1, sizeof(int64_t));
    if (!*out_data) return tn_no_memory("an attribute", 0);
    *out_size = sizeof(int64_t);
    return api_check(api.ReadOpAttr(attribute, type, *out_data, sizeof(int64_t), &size));
  }
  OrtStatus *refused = api.ReadOpAttr(attribute, type, NULL, 0, &size); /* gives the size */
  if (refused) api.ReleaseStatus(refused);
  *out_data = calloc(1, size + sizeof(int64_t));
  if (!*out_data) return tn_no_memory("an attribute", size);
  *out_size = size;
  if (refused && size) return api_check(api.ReadOpAttr(attribute, type, *out_data, size, out_size));
  return TENON_OK;
}

static void write_attribute_values(message_t *m, int type, const char *data, size_t size) {
  enum { F = 2, I = 3, S = 4, FLOATS = 7, INTS = 8, STRINGS = 9 };
  const bool is_one = type == ORT_ATTRIBUTE_INT || type == ORT_ATTRIBUTE_FLOAT;
  if (type == ORT_ATTRIBUTE_STRING) message_bytes(m, S, (bytes_t){data, size});
  if (type == ORT_ATTRIBUTE_INT || type == ORT_ATTRIBUTE_INTS)
    for (size_t at = 0; at + sizeof(int64_t) <= size; at += sizeof(int64_t)) {
      int64_t number = 0;
      memcpy(&number, data + at, sizeof number);
      message_number(m, is_one ? I : INTS, (uint64_t)number);
    }
  if (type == ORT_ATTRIBUTE_FLOAT || type == ORT_ATTRIBUTE_FLOATS)
    for (size_t at = 0; at + sizeof(float) <= size; at += sizeof(float)) {
      float number = 0;
      memcpy(&number, data + at, sizeof number);
      message_float(m, is_one ? F : FLOATS, number);
    }
  if (type == ORT_ATTRIBUTE_STRINGS) /* each ends in a zero byte */
    for (size_t at = 0; at < size; at += strlen(data + at) + 1)
      message_text(m, STRINGS, data + at);
}

static tenon_status_t write_tensor_attribute(message_t *m, const OrtOpAttr *attribute) {
  enum { TENSOR = 5 };
  OrtValue *value = NULL;
  tenon_status_t status = API(OpAttr_GetTensorAttributeAsOrtValue, attribute, &value);
  if (status == TENON_OK) status = model_write_tensor(m, TENSOR, "", value);
  if (value) api.ReleaseValue(value);
  return status;
}

static tenon_status_t write_attribute(message_t *m, const OrtOpAttr *attribute) {
  enum { ATTRIBUTE = 5, NAME = 1, TYPE = 20 };
  static const uint8_t types[] = {0, 2, 7, 1, 6, 3, 8, 5, 4}; /* of ort_attribute_t */
  const char *name = NULL;
  int type = 0;
  void *data = NULL;
  size_t size = 0;
  tenon_status_t status = API(OpAttr_GetName, attribute, &name);
  if (status == TENON_OK) status = API(OpAttr_GetType, attribute, &type);
  if (status != TENON_OK || type == ORT_ATTRIBUTE_GRAPH) return status;
  if (type <= 0 || type > ORT_ATTRIBUTE_TENSOR)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "attribute '%s' has a type that ONNX Runtime does not pass to providers", name);
  const size_t whole = message_open(m, ATTRIBUTE);
  message_text(m, NAME, name);
  message_number(m, TYPE, types[type]);
  if (type == ORT_ATTRIBUTE_TENSOR)
    status = write_tensor_attribute(m, attribute);
  else
    status = model_read_attribute(attribute, type, &data, &size);
  if (status == TENON_OK && data) write_attribute_values(m, type, data, size);
  free(data);
  message_close(m, whole);
  return status;
}

tenon_status_t model_write_attributes(message_t *m, const OrtNode *node) {
  size_t count = 0;
  tenon_status_t status = API(Node_GetNumAttributes, node, &count);
  if (status != TENON_OK || !count) return status;
  const OrtOpAttr **attributes = calloc(count, sizeof *attributes);
  if (!attributes) return tn_no_memory("the attributes of a node", 0);
  status = API(Node_GetAttributes, node, attributes, count);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = write_attribute(m, attributes[i]);
  free(attributes);
  return status;
}
