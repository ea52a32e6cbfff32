/* Reads attributes; see attribute.h. The types are those that Tenon's own import of models accepts.
 * ONNX Runtime does not list the attributes of a node, so an unknown one is not noticed. */
#include "attribute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ort_element.h"

/* ---- single values ---- */

/* Reads an attribute in inference. Returns false if it is absent or of another type. */
static bool read_op_attr(const source_t *source, const char *name, ort_attribute_t type, void *data,
                         size_t size, size_t *out_size) {
  const OrtOpAttr *attr = NULL;
  return ort_succeeds(ort.ShapeInferContext_GetAttribute(source->context, name, &attr)) && attr &&
         ort_succeeds(ort.ReadOpAttr(attr, type, data, size, out_size));
}

bool attribute_int(const source_t *source, const char *name, int64_t *out) {
  size_t size = 0;
  return source->info ? ort_succeeds(ort.KernelInfoGetAttribute_int64(source->info, name, out))
                      : read_op_attr(source, name, ORT_ATTRIBUTE_INT, out, sizeof *out, &size);
}

static bool attribute_float(const source_t *source, const char *name, float *out) {
  size_t size = 0;
  return source->info ? ort_succeeds(ort.KernelInfoGetAttribute_float(source->info, name, out))
                      : read_op_attr(source, name, ORT_ATTRIBUTE_FLOAT, out, sizeof *out, &size);
}

/* Reads an attribute of any size in inference: first its size, then its bytes. Returns NULL if it
 * is absent, empty, or of another type. */
static void *read_bytes(const source_t *source, const char *name, ort_attribute_t type,
                        size_t *out_size) {
  const OrtOpAttr *attr = NULL;
  *out_size = 0;
  if (!ort_succeeds(ort.ShapeInferContext_GetAttribute(source->context, name, &attr)) || !attr)
    return NULL;
  (void)ort_succeeds(ort.ReadOpAttr(attr, type, NULL, 0, out_size));
  char *data = *out_size ? calloc(1, *out_size + 1) : NULL;
  if (data && ort_succeeds(ort.ReadOpAttr(attr, type, data, *out_size, out_size))) return data;
  free(data);
  *out_size = 0;
  return NULL;
}

/* Reads a string, which the caller frees. Returns NULL if it is absent or of another type. */
static char *attribute_text(const source_t *source, const char *name, size_t *out_size) {
  size_t size = 0;
  if (!source->info) return read_bytes(source, name, ORT_ATTRIBUTE_STRING, out_size);
  if (!ort_succeeds(ort.KernelInfoGetAttribute_string(source->info, name, NULL, &size)))
    return NULL;
  char *text = calloc(1, size + 1);
  if (text && ort_succeeds(ort.KernelInfoGetAttribute_string(source->info, name, text, &size))) {
    *out_size = size - 1; /* without the zero byte */
    return text;
  }
  free(text);
  return NULL;
}

/* ---- lists ---- */

int64_t *attribute_ints(const source_t *source, const char *name, size_t *out_count) {
  *out_count = 0;
  if (!source->info) {
    int64_t *read = read_bytes(source, name, ORT_ATTRIBUTE_INTS, out_count);
    *out_count /= sizeof *read;
    return read;
  }
  if (!ort_succeeds(ort.KernelInfoGetAttributeArray_int64(source->info, name, NULL, out_count)) ||
      !*out_count)
    return NULL;
  int64_t *items = calloc(*out_count, sizeof *items);
  if (items &&
      ort_succeeds(ort.KernelInfoGetAttributeArray_int64(source->info, name, items, out_count)))
    return items;
  free(items);
  *out_count = 0;
  return NULL;
}

static float *attribute_floats(const source_t *source, const char *name, size_t *out_count) {
  *out_count = 0;
  if (!source->info) {
    float *read = read_bytes(source, name, ORT_ATTRIBUTE_FLOATS, out_count);
    *out_count /= sizeof *read;
    return read;
  }
  if (!ort_succeeds(ort.KernelInfoGetAttributeArray_float(source->info, name, NULL, out_count)) ||
      !*out_count)
    return NULL;
  float *items = calloc(*out_count, sizeof *items);
  if (items &&
      ort_succeeds(ort.KernelInfoGetAttributeArray_float(source->info, name, items, out_count)))
    return items;
  free(items);
  *out_count = 0;
  return NULL;
}

/* Copies the strings of a value. */
static bool copy_strings(const OrtValue *value, tenon_tensor_t *made) {
  const size_t count = (size_t)tenon_count(made);
  size_t size = 0;
  if (!ort_succeeds(ort.GetStringTensorDataLength(value, &size))) return false;
  char *bytes = malloc(size + 1);
  size_t *offsets = calloc(count + 1, sizeof *offsets);
  bool is_fine =
      bytes && offsets &&
      (!count || ort_succeeds(ort.GetStringTensorContent(value, bytes, size, offsets, count)));
  if (is_fine) offsets[count] = size;
  for (size_t i = 0; i < count && is_fine; i++)
    is_fine = host.tenon_tensor_set_string(made, (int64_t)i, bytes + offsets[i],
                                           offsets[i + 1] - offsets[i]) == TENON_OK;
  free(bytes);
  free(offsets);
  return is_fine;
}

static bool copy_numbers(OrtValue *value, tenon_tensor_t *made) {
  const size_t bits = (size_t)tenon_count(made) * made->dtype.bits;
  void *data = NULL;
  if (!ort_succeeds(ort.GetTensorMutableData(value, &data))) return false;
  if (bits) memcpy(made->data, data, (bits + 7) / 8);
  return true;
}

/* Copies a value; NULL: memory is out, or it is no tensor that Tenon has. */
static tenon_tensor_t *copy_value(OrtValue *value) {
  ort_shape_t *info = NULL;
  ort_element_t element = ORT_ELEMENT_UNDEFINED;
  int64_t shape[TENON_RANK_MAX];
  size_t rank = 0;
  tenon_dtype_t dtype;
  tenon_tensor_t *made = NULL;
  if (!ort_succeeds(ort.GetTensorTypeAndShape(value, &info))) return NULL;
  bool is_fine = ort_succeeds(ort.GetTensorElementType(info, &element)) &&
                 ort_succeeds(ort.GetDimensionsCount(info, &rank)) && rank <= TENON_RANK_MAX &&
                 ort_succeeds(ort.GetDimensions(info, shape, rank)) &&
                 element_dtype(element, &dtype) &&
                 host.tenon_tensor_create(dtype, (int32_t)rank, shape, &made) == TENON_OK;
  ort.ReleaseTensorTypeAndShapeInfo(info);
  if (is_fine && element == ORT_ELEMENT_STRING)
    is_fine = copy_strings(value, made);
  else if (is_fine)
    is_fine = copy_numbers(value, made);
  if (is_fine) return made;
  host.tenon_tensor_release(made);
  return NULL;
}

/* A tensor that a kernel's node states, copied; NULL: none. Inference cannot read it. */
static tenon_tensor_t *attribute_tensor(const source_t *source, const char *name) {
  OrtAllocator *allocator = NULL;
  OrtValue *value = NULL;
  if (!source->info || !ort_succeeds(ort.GetAllocatorWithDefaultOptions(&allocator)) ||
      !ort_succeeds(ort.KernelInfoGetAttribute_tensor(source->info, name, allocator, &value)))
    return NULL;
  tenon_tensor_t *made = copy_value(value);
  ort.ReleaseValue(value);
  return made;
}

static double *numbers_of_tensor(const tenon_tensor_t *tensor, size_t *out_count) {
  if (!tensor || tenon_dtype_id(tensor->dtype) != TENON_F64 || tensor->ndim > 1) return NULL;
  *out_count = (size_t)tenon_count(tensor);
  double *numbers = calloc(*out_count + 1, sizeof *numbers);
  if (numbers && *out_count) memcpy(numbers, tensor->data, *out_count * sizeof *numbers);
  return numbers;
}

double *attribute_numbers(const source_t *source, const char *name, size_t *out_count) {
  float real = 0;
  float *floats = NULL;
  int64_t *ints = NULL;
  double *numbers = NULL;
  *out_count = attribute_float(source, name, &real);
  if (!*out_count) floats = attribute_floats(source, name, out_count);
  if (!*out_count) ints = attribute_ints(source, name, out_count);
  if (*out_count) numbers = calloc(*out_count, sizeof *numbers);
  for (size_t i = 0; numbers && i < *out_count; i++) {
    if (ints)
      numbers[i] = (double)ints[i];
    else
      numbers[i] = (double)(floats ? floats[i] : real);
  }
  if (!*out_count) {
    tenon_tensor_t *tensor = attribute_tensor(source, name);
    numbers = numbers_of_tensor(tensor, out_count);
    host.tenon_tensor_release(tensor);
  }
  free(floats);
  free(ints);
  return numbers;
}

/* ---- what a node states under a name ---- */

/* The attribute's type, for messages; NULL: it is absent, or a list that is empty. */
static const char *found_type(const source_t *source, const char *name) {
  int64_t number;
  float real;
  size_t count = 0;
  if (attribute_int(source, name, &number)) return "an int";
  if (attribute_float(source, name, &real)) return "a float";
  char *text = attribute_text(source, name, &count);
  free(text);
  if (text) return "a string";
  int64_t *ints = attribute_ints(source, name, &count);
  free(ints);
  if (ints) return "a list of ints";
  float *floats = attribute_floats(source, name, &count);
  free(floats);
  if (floats) return "a list of floats";
  tenon_tensor_t *tensor = attribute_tensor(source, name);
  host.tenon_tensor_release(tensor);
  if (tensor) return "a tensor";
  return NULL;
}

/* Whether the node has the attribute, of whatever type. */
static bool is_present(const source_t *source, const char *name) {
  const OrtOpAttr *attr = NULL;
  size_t count = 0;
  if (source->info)
    return found_type(source, name) ||
           ort_succeeds(ort.KernelInfoGetAttributeArray_int64(source->info, name, NULL, &count));
  return ort_succeeds(ort.ShapeInferContext_GetAttribute(source->context, name, &attr)) && attr;
}

static tenon_status_t refuse_type(const operator_t *self, const char *name, const char *expected,
                                  const source_t *source) {
  const char *found = found_type(source, name);
  char text[500];
  snprintf(text, sizeof text, "%s: attribute '%s': expected %s, found %s", self->name, name,
           expected, found ? found : "another type");
  return host.tenon_error_set(TENON_INVALID, text);
}

/* ---- setting ---- */

typedef struct setting_t {
  const operator_t *self;
  const source_t *source;
  const tenon_argument_t *of;
  tenon_attrs_t *attrs;
} setting_t;

static tenon_status_t set_value(const setting_t *s, tenon_value_t value) {
  return host.tenon_attrs_set(s->attrs, s->of->name, &value);
}

/* If nothing is known under the name, the default applies. */
static tenon_status_t leave(const setting_t *s, const char *expected) {
  if (!is_present(s->source, s->of->name)) return TENON_OK;
  return refuse_type(s->self, s->of->name, expected, s->source);
}

static tenon_status_t set_int(const setting_t *s) {
  const uint32_t kind = s->of->kind == TENON_KIND_BOOL ? TENON_KIND_BOOL : TENON_KIND_INT;
  int64_t number;
  if (!attribute_int(s->source, s->of->name, &number)) return leave(s, "an int");
  return set_value(s, (tenon_value_t){.kind = kind, .as.i = number});
}

/* A number as a tensor of one element has 64 bits. Returns false if it is none. */
static bool read_exact(const tenon_tensor_t *tensor, double *out) {
  if (!tensor || tenon_dtype_id(tensor->dtype) != TENON_F64 || tenon_count(tensor) != 1)
    return false;
  memcpy(out, tensor->data, sizeof *out);
  return true;
}

static tenon_status_t set_float(const setting_t *s) {
  float real;
  double exact;
  int64_t number;
  if (attribute_float(s->source, s->of->name, &real))
    return set_value(s, (tenon_value_t){.kind = TENON_KIND_FLOAT, .as.f = (double)real});
  if (attribute_int(s->source, s->of->name, &number))
    return set_value(s, (tenon_value_t){.kind = TENON_KIND_INT, .as.i = number});
  tenon_tensor_t *tensor = attribute_tensor(s->source, s->of->name);
  const bool is_exact = read_exact(tensor, &exact);
  host.tenon_tensor_release(tensor);
  if (is_exact) return set_value(s, (tenon_value_t){.kind = TENON_KIND_FLOAT, .as.f = exact});
  return leave(s, "a float");
}

static tenon_status_t set_text_value(const setting_t *s) {
  size_t size = 0;
  char *text = attribute_text(s->source, s->of->name, &size);
  if (!text && s->source->context && s->of->kind == TENON_KIND_STR &&
      is_present(s->source, s->of->name) && !found_type(s->source, s->of->name))
    return set_value(s, (tenon_value_t){.kind = TENON_KIND_STR, .as.s = ""});
  if (!text) return leave(s, "a string");
  tenon_status_t status =
      s->of->kind == TENON_KIND_DEVICE
          ? host.tenon_attrs_parse(s->attrs, s->of->name, text)
          : set_value(
                s, (tenon_value_t){.kind = TENON_KIND_STR, .count = (uint32_t)size, .as.s = text});
  free(text);
  return status;
}

/* The numbers of ONNX from 24 on are not those of element types. */
static tenon_dtype_t dtype_of_number(int64_t number) {
  static const uint32_t later[] = {TENON_F8E8M0, TENON_U2, TENON_I2};
  tenon_dtype_t dtype = {0, 0, 0};
  if (number >= 24 && number < 27) return tenon_dtype(later[number - 24]);
  if (number > 0 && number < 24) (void)element_dtype((ort_element_t)number, &dtype);
  return dtype;
}

static tenon_status_t set_dtype(const setting_t *s) {
  static const char *const expected = "the number of an element type in ONNX, or a name as \"f32\"";
  tenon_value_t value = {.kind = TENON_KIND_DTYPE};
  int64_t number;
  size_t size = 0;
  if (attribute_int(s->source, s->of->name, &number)) {
    value.as.dtype = dtype_of_number(number);
    return value.as.dtype.bits ? set_value(s, value) : leave(s, expected);
  }
  char *text = attribute_text(s->source, s->of->name, &size);
  if (!text) return leave(s, expected);
  tenon_status_t status = host.tenon_dtype_parse(text, &value.as.dtype);
  status = status == TENON_OK ? set_value(s, value) : leave(s, expected);
  free(text);
  return status;
}

static tenon_status_t set_ints(const setting_t *s) {
  size_t count = 0;
  int64_t *ints = attribute_ints(s->source, s->of->name, &count);
  const char *found = ints ? NULL : found_type(s->source, s->of->name);
  if (found) return refuse_type(s->self, s->of->name, "a list of ints", s->source);
  if (!ints && !is_present(s->source, s->of->name)) return TENON_OK;
  const tenon_status_t status = set_value(
      s, (tenon_value_t){.kind = TENON_KIND_INTS, .count = (uint32_t)count, .as.ints = ints});
  free(ints);
  return status;
}

static tenon_status_t set_floats(const setting_t *s) {
  float real;
  size_t count = 0;
  const bool is_single = attribute_float(s->source, s->of->name, &real);
  double *numbers = is_single ? NULL : attribute_numbers(s->source, s->of->name, &count);
  if (!numbers && found_type(s->source, s->of->name))
    return refuse_type(s->self, s->of->name, "a list of floats", s->source);
  if (!numbers && !is_present(s->source, s->of->name)) return TENON_OK;
  const tenon_status_t status = set_value(
      s,
      (tenon_value_t){.kind = TENON_KIND_FLOATS, .count = (uint32_t)count, .as.floats = numbers});
  free(numbers);
  return status;
}

static tenon_status_t set_strings(const setting_t *s, char **texts, size_t count) {
  tenon_string_t *strings = calloc(count + 1, sizeof *strings);
  if (!strings) return host.tenon_error_set(TENON_MEMORY, "out of memory: an attribute");
  for (size_t i = 0; i < count; i++)
    strings[i] = (tenon_string_t){texts[i], strlen(texts[i])};
  const tenon_status_t status = set_value(
      s, (tenon_value_t){.kind = TENON_KIND_STRS, .count = (uint32_t)count, .as.strs = strings});
  free(strings);
  return status;
}

static tenon_status_t set_texts(const setting_t *s) {
  OrtAllocator *allocator = NULL;
  char **texts = NULL;
  size_t count = 0;
  if (!is_present(s->source, s->of->name)) return TENON_OK;
  if (found_type(s->source, s->of->name))
    return refuse_type(s->self, s->of->name, "a list of strings", s->source);
  if (s->source->context || !ort.KernelInfoGetAttributeArray_string) {
    char text[300];
    snprintf(
        text, sizeof text,
        "%s: attribute '%s' is a list of strings, which ONNX Runtime before 1.%d does not pass",
        s->self->name, s->of->name, ORT_VERSION_TEXTS);
    return host.tenon_error_set(TENON_UNIMPLEMENTED, text);
  }
  if (!ort_succeeds(ort.GetAllocatorWithDefaultOptions(&allocator)) ||
      !ort_succeeds(ort.KernelInfoGetAttributeArray_string(s->source->info, s->of->name, allocator,
                                                           &texts, &count)))
    return refuse_type(s->self, s->of->name, "a list of strings", s->source);
  const tenon_status_t status = set_strings(s, texts, count);
  for (size_t i = 0; i < count; i++)
    (void)ort_succeeds(ort.AllocatorFree(allocator, texts[i]));
  if (texts) (void)ort_succeeds(ort.AllocatorFree(allocator, texts));
  return status;
}

static tenon_status_t set_tensor(const setting_t *s) {
  if (!is_present(s->source, s->of->name)) return TENON_OK;
  if (s->source->context)
    return host.tenon_error_set(TENON_UNIMPLEMENTED, "inference cannot read a tensor");
  tenon_tensor_t *tensor = attribute_tensor(s->source, s->of->name);
  if (!tensor) return refuse_type(s->self, s->of->name, "a tensor", s->source);
  const tenon_status_t status =
      set_value(s, (tenon_value_t){.kind = TENON_KIND_TENSOR, .as.tensor = tensor});
  host.tenon_tensor_release(tensor);
  return status;
}

static tenon_status_t set_by_kind(const setting_t *s) {
  switch (s->of->kind) {
  case TENON_KIND_BOOL:
  case TENON_KIND_INT:
  case TENON_KIND_DIM:
    return set_int(s);
  case TENON_KIND_FLOAT:
    return set_float(s);
  case TENON_KIND_STR:
  case TENON_KIND_CHOICE:
  case TENON_KIND_DEVICE:
    return set_text_value(s);
  case TENON_KIND_DTYPE:
    return set_dtype(s);
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    return set_ints(s);
  case TENON_KIND_FLOATS:
    return set_floats(s);
  case TENON_KIND_STRS:
    return set_texts(s);
  case TENON_KIND_TENSOR:
    return set_tensor(s);
  default: /* graphs and lists of tensors keep their defaults */
    return is_present(s->source, s->of->name)
               ? refuse_type(s->self, s->of->name, "nothing, for ONNX Runtime does not pass it",
                             s->source)
               : TENON_OK;
  }
}

/* The number of outputs states the length of a list of results. */
static tenon_status_t set_lengths(const operator_t *self, const source_t *source,
                                  const int32_t *out_counts, tenon_attrs_t *attrs) {
  for (int32_t o = 0; o < self->output_count && out_counts; o++) {
    const int32_t attr = self->outputs[o].count_attr;
    if (self->outputs[o].kind != TENON_KIND_TENSORS || attr < 0) continue;
    if (is_present(source, self->attrs[attr].name)) continue;
    const tenon_value_t value = {.kind = TENON_KIND_INT, .as.i = out_counts[o]};
    TENON_TRY(host.tenon_attrs_set(attrs, self->attrs[attr].name, &value));
  }
  return TENON_OK;
}

tenon_status_t attributes_read(const operator_t *self, const source_t *source,
                               const int32_t *out_counts, tenon_attrs_t **out_attrs,
                               const tenon_value_t **out_values) {
  *out_attrs = NULL;
  TENON_TRY(host.tenon_attrs_create(self->op, out_attrs));
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < self->attr_count && status == TENON_OK; i++)
    status = set_by_kind(&(setting_t){self, source, &self->attrs[i], *out_attrs});
  if (status == TENON_OK) status = set_lengths(self, source, out_counts, *out_attrs);
  if (status == TENON_OK) status = host.tenon_attrs_values(*out_attrs, out_values);
  if (status == TENON_OK) return TENON_OK;
  host.tenon_attrs_release(*out_attrs);
  *out_attrs = NULL;
  return status;
}
