/* Writes attributes of operators as attributes of ONNX nodes; attribute.c reads them back. Called
 * by export.c. */
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "import/onnx/export.h"
#include "import/onnx/tensor.h"

/* Writes numbers as a tensor: those that a 32-bit float cannot represent exactly, truth values of
 * an attribute that also takes numbers, and lists of such values. */
static tenon_status_t write_numbers(tn_export_t *export, uint32_t dtype, int32_t ndim,
                                    int64_t count, const void *data) {
  tenon_tensor_t view;
  int64_t stride = 1;
  TN_TRY(tenon_tensor_view(&view, (void *)(uintptr_t)data, tenon_dtype(dtype), ndim, &count,
                           &stride, NULL));
  return tn_export_tensor(export, 5, NULL, &view);
}

static bool is_float(double number) {
  double back = (double)(float)number;
  return memcmp(&back, &number, sizeof back) == 0;
}

/* A model of standard operators states numbers with 32 bits, as ONNX does. */
static bool is_written_as_float(const tn_export_t *export, double number) {
  return export->has_short_floats || is_float(number);
}

static tenon_status_t write_floats(tn_export_t *export, const tenon_value_t *value,
                                   int64_t *out_type) {
  bool fit = true;
  for (uint32_t i = 0; i < value->count; i++)
    fit = fit && is_written_as_float(export, value->as.floats[i]);
  *out_type = fit ? TN_ATTRIBUTE_FLOATS : TN_ATTRIBUTE_TENSOR;
  if (!fit) return write_numbers(export, TENON_F64, 1, value->count, value->as.floats);
  for (uint32_t i = value->count; i-- > 0;)
    tn_write_float(&export->writer, 7, (float)value->as.floats[i]);
  return TENON_OK;
}

static void write_dtype(tn_writer_t *w, tenon_dtype_t dtype, int64_t *out_type) {
  int64_t number = tn_onnx_number(dtype);
  *out_type = number ? TN_ATTRIBUTE_INT : TN_ATTRIBUTE_STRING;
  if (number)
    tn_write_int(w, 3, number);
  else
    tn_write_text(w, 4, tn_dtype_name(dtype)); /* attribute.c reads these names */
}

static tenon_status_t write_device(tn_writer_t *w, tenon_device_t device) {
  tn_text_t text = {0};
  const char *key = device.type == 1 ? "cpu" : tenon_key_for_device(device);
  if (!key)
    return tn_fail(TENON_INVALID, "the device of type %d and id %d does not exist",
                   (int)device.type, (int)device.id);
  if (device.type == 1)
    tn_text_add(&text, "cpu");
  else
    tn_text_add(&text, "%s:%d", key, (int)(device.id & 255));
  bool failed = text.failed;
  tn_write_text(w, 4, tn_text_get(&text));
  tn_text_clear(&text);
  return failed ? tn_no_memory("a device's name", 0) : TENON_OK;
}

static tenon_status_t write_float(tn_export_t *export, const tenon_value_t *value,
                                  int64_t *out_type) {
  *out_type = TN_ATTRIBUTE_TENSOR;
  if (is_written_as_float(export, value->as.f)) *out_type = TN_ATTRIBUTE_FLOAT;
  if (*out_type == TN_ATTRIBUTE_TENSOR) return write_numbers(export, TENON_F64, 0, 1, &value->as.f);
  tn_write_float(&export->writer, 2, (float)value->as.f);
  return TENON_OK;
}

/* Writes the value, and returns the type of ONNX attribute that it becomes. */
static tenon_status_t write_value(tn_export_t *export, const tn_argument_t *attr,
                                  const tenon_value_t *value, int64_t *out_type) {
  tn_writer_t *w = &export->writer;
  switch (value->kind) {
  case TENON_KIND_BOOL:
    /* A scalar attribute, for which 1 and true are different values. */
    if (attr->kind != TENON_KIND_BOOL) {
      *out_type = TN_ATTRIBUTE_TENSOR;
      return write_numbers(export, TENON_BOOL, 0, 1, &(unsigned char){value->as.i != 0});
    } /* fallthrough */
  case TENON_KIND_INT:
  case TENON_KIND_DIM:
    *out_type = TN_ATTRIBUTE_INT;
    tn_write_int(w, 3, value->as.i);
    return TENON_OK;
  case TENON_KIND_FLOAT:
    return write_float(export, value, out_type);
  case TENON_KIND_STR:
    *out_type = TN_ATTRIBUTE_STRING;
    tn_write_bytes(w, 4, value->as.s, value->count);
    return TENON_OK;
  case TENON_KIND_CHOICE:
    *out_type = TN_ATTRIBUTE_STRING;
    tn_write_text(w, 4, attr->choices[value->as.i]);
    return TENON_OK;
  case TENON_KIND_DTYPE:
    write_dtype(w, value->as.dtype, out_type);
    return TENON_OK;
  case TENON_KIND_DEVICE:
    *out_type = TN_ATTRIBUTE_STRING;
    return write_device(w, value->as.device);
  case TENON_KIND_TENSOR:
    *out_type = TN_ATTRIBUTE_TENSOR;
    return tn_export_tensor(export, 5, NULL, value->as.tensor);
  case TENON_KIND_GRAPH:
    *out_type = TN_ATTRIBUTE_GRAPH;
    return tn_export_graph(export, 6, attr->name, value->as.graph);
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    *out_type = TN_ATTRIBUTE_INTS;
    for (uint32_t i = value->count; i-- > 0;)
      tn_write_int(w, 8, value->as.ints[i]);
    return TENON_OK;
  case TENON_KIND_FLOATS:
    return write_floats(export, value, out_type);
  case TENON_KIND_STRS:
    *out_type = TN_ATTRIBUTE_STRINGS;
    for (uint32_t i = value->count; i-- > 0;)
      tn_write_bytes(w, 9, value->as.strs[i].data, value->as.strs[i].size);
    return TENON_OK;
  case TENON_KIND_TENSORS:
    *out_type = TN_ATTRIBUTE_TENSORS;
    for (uint32_t i = value->count; i-- > 0;)
      TN_TRY(tn_export_tensor(export, 10, NULL, value->as.tensors[i]));
    return TENON_OK;
  default:
    return tn_fail(TENON_UNIMPLEMENTED, "ONNX has no attribute type for values of this kind");
  }
}

tenon_status_t tn_export_attr(tn_export_t *export, const tn_argument_t *attr,
                              const tenon_value_t *value) {
  tn_writer_t *w = &export->writer;
  size_t before = w->size;
  int64_t type = 0;
  if (value->kind == TENON_KIND_NONE) {
    if (!attr->has_default || attr->value.kind == TENON_KIND_NONE) return TENON_OK;
    return tn_fail(TENON_UNIMPLEMENTED,
                   "attribute '%s' is None, but its default is not: a file cannot express this",
                   attr->name);
  }
  tenon_status_t status = write_value(export, attr, value, &type);
  if (status != TENON_OK) return tn_prefix(status, "attribute '%s': ", attr->name);
  tn_write_int(w, 20, type);
  tn_write_text(w, 1, attr->name);
  tn_write_message(w, 5, before);
  return w->status;
}

tenon_status_t tn_export_standard_attr(tn_export_t *export, const char *name, const char *choice,
                                       const tn_argument_t *attr, const tenon_value_t *value) {
  tn_writer_t *w = &export->writer;
  size_t before = w->size;
  int64_t type = TN_ATTRIBUTE_STRING;
  tenon_status_t status = TENON_OK;
  export->has_short_floats = true;
  if (*choice)
    tn_write_text(w, 4, choice);
  else
    status = write_value(export, attr, value, &type);
  export->has_short_floats = false;
  if (status != TENON_OK) return tn_prefix(status, "attribute '%s': ", attr->name);
  tn_write_int(w, 20, type);
  tn_write_text(w, 1, name);
  tn_write_message(w, 5, before);
  return w->status;
}
