/* Writes the definition of an operator in TensorFlow's language, and registers it. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "operator.h"

enum { SPEC_MOST = 4000 };

/* A text of limited size. */
typedef struct spec_t {
  char text[SPEC_MOST];
  size_t used;
  bool is_full;
} spec_t;

__attribute__((format(printf, 2, 3))) static void append(spec_t *spec, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t left = sizeof spec->text - spec->used;
  const int size = vsnprintf(spec->text + spec->used, left, format, arguments);
  va_end(arguments);
  spec->is_full = spec->is_full || size < 0 || (size_t)size >= left;
  if (!spec->is_full) spec->used += (size_t)size;
}

/* Appends a string in quotes. Other characters than printable ones are octal numbers. */
static void append_text(spec_t *spec, const char *text, size_t size) {
  append(spec, "\"");
  for (size_t i = 0; i < size; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (isprint(c) && c != '"' && c != '\\')
      append(spec, "%c", c);
    else
      append(spec, "\\%03o", c);
  }
  append(spec, "\"");
}

/* ---- literals in the language of schemas ---- */

/* Writes a float with as few digits as tell it from others. */
static void append_float(spec_t *spec, double value) {
  char text[40];
  int digits = 15;
  do
    snprintf(text, sizeof text, "%.*g", digits, value);
  while (strtod(text, NULL) != value && ++digits <= 17 && !isnan(value));
  if (isnan(value))
    snprintf(text, sizeof text, "nan");
  else if (isinf(value))
    snprintf(text, sizeof text, "%s", value < 0 ? "-inf" : "inf");
  const bool is_whole = !strpbrk(text, ".enf");
  append(spec, "%s%s", text, is_whole ? ".0" : "");
}

static int64_t int_of(const tenon_value_t *value, uint32_t i) {
  return value->kind == TENON_KIND_DIMS ? value->as.dims[i].value : value->as.ints[i];
}

static void append_ints(spec_t *spec, const tenon_value_t *value) {
  append(spec, "[");
  for (uint32_t i = 0; i < value->count; i++)
    append(spec, "%s%lld", i ? ", " : "", (long long)int_of(value, i));
  append(spec, "]");
}

static void append_literal(spec_t *spec, const tenon_argument_t *of) {
  const tenon_value_t *value = &of->value;
  switch (value->kind) {
  case TENON_KIND_BOOL:
    append(spec, "%s", value->as.i ? "True" : "False");
    break;
  case TENON_KIND_INT:
    append(spec, "%lld", (long long)value->as.i);
    break;
  case TENON_KIND_DIM:
    append(spec, "%lld", (long long)value->as.dim.value);
    break;
  case TENON_KIND_FLOAT:
    append_float(spec, value->as.f);
    break;
  case TENON_KIND_DTYPE:
    append(spec, "%s", tenon_dtype_name(value->as.dtype));
    break;
  case TENON_KIND_CHOICE:
    append(spec, "'%s'", of->choices[value->as.i]);
    break;
  case TENON_KIND_STR:
    append(spec, "'%s'", value->as.s);
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    append_ints(spec, value);
    break;
  case TENON_KIND_FLOATS:
    append(spec, "[");
    for (uint32_t i = 0; i < value->count; i++) {
      append(spec, "%s", i ? ", " : "");
      append_float(spec, value->as.floats[i]);
    }
    append(spec, "]");
    break;
  default:
    append(spec, "None");
  }
}

/* ---- attributes ---- */

/* Appends the value of an attribute with a dtype, such as DT_FLOAT. */
static void append_dtype(spec_t *spec, const char *word, size_t size) {
  append(spec, "DT_");
  for (size_t i = 0; i < size; i++)
    append(spec, "%c", toupper((unsigned char)word[i]));
}

static void append_device(spec_t *spec, tenon_device_t device) {
  if (device.type == 1)
    append(spec, "\"cpu\"");
  else
    append(spec, "\"%d:%d\"", device.type, device.id);
}

static void append_default_text(spec_t *spec, const tenon_argument_t *of) {
  const tenon_value_t *value = &of->value;
  if (of->kind == TENON_KIND_DEVICE)
    append_device(spec, value->as.device);
  else if (of->kind == TENON_KIND_CHOICE)
    append_text(spec, of->choices[value->as.i], strlen(of->choices[value->as.i]));
  else
    append_text(spec, value->as.s, value->count);
}

static void append_texts(spec_t *spec, const tenon_value_t *value) {
  append(spec, "[");
  for (uint32_t i = 0; i < value->count; i++) {
    append(spec, "%s", i ? ", " : "");
    append_text(spec, value->as.strs[i].data, value->as.strs[i].size);
  }
  append(spec, "]");
}

static void append_dtype_default(spec_t *spec, tenon_dtype_t dtype) {
  const char *word = dtype_word(tf_dtype_to(dtype));
  append_dtype(spec, word, strlen(word));
}

static void append_default(spec_t *spec, const attribute_t *attribute) {
  const tenon_argument_t *of = &attribute->of;
  spec_t *literal = NULL;
  append(spec, " = ");
  switch (attribute->encoding) {
  case ENCODING_BOOL:
    append(spec, "%s", of->value.as.i ? "true" : "false");
    break;
  case ENCODING_INT:
    append(spec, "%lld",
           (long long)(of->kind == TENON_KIND_DIM ? of->value.as.dim.value : of->value.as.i));
    break;
  case ENCODING_TEXT:
    append_default_text(spec, of);
    break;
  case ENCODING_TYPE:
    append_dtype_default(spec, of->value.as.dtype);
    break;
  case ENCODING_INTS:
    append_ints(spec, &of->value);
    break;
  case ENCODING_TEXTS:
    append_texts(spec, &of->value);
    break;
  default:
    literal = calloc(1, sizeof *literal);
    spec->is_full = spec->is_full || !literal;
    if (!literal) return;
    append_literal(literal, of);
    append_text(spec, literal->text, literal->used);
    spec->is_full = spec->is_full || literal->is_full;
    free(literal);
  }
}

static void write_attribute(spec_t *spec, const attribute_t *attribute, bool has_default) {
  static const char *const kinds[] = {
      [ENCODING_BOOL] = "bool",      [ENCODING_INT] = "int",
      [ENCODING_TEXT] = "string",    [ENCODING_TYPE] = "type",
      [ENCODING_INTS] = "list(int)", [ENCODING_TEXTS] = "list(string)",
      [ENCODING_LITERAL] = "string"};
  const tenon_argument_t *of = &attribute->of;
  append(spec, "%s: ", attribute->name);
  if (attribute->encoding == ENCODING_TEXT && of->kind == TENON_KIND_CHOICE) {
    for (uint32_t c = 0; c < of->choice_count; c++) {
      append(spec, "%s", c ? ", " : "{");
      append_text(spec, of->choices[c], strlen(of->choices[c]));
    }
    append(spec, "}");
  } else {
    append(spec, "%s", kinds[attribute->encoding]);
  }
  if (has_default) append_default(spec, attribute);
}

/* The attribute with the dtypes of a side. It has a default if the side may have no tensors, from
 * which TensorFlow could take the dtype. */
static void write_type(spec_t *spec, const side_t *side, bool has_default) {
  append(spec, "%s: ", side->type);
  if (side->is_types) {
    append(spec, "list(type) >= 0");
    return;
  }
  append(spec, "%s", *side->set ? side->set : "type");
  if (!has_default) return;
  append(spec, " = ");
  if (*side->set)
    append_dtype(spec, side->set + 1, strcspn(side->set + 1, ",}"));
  else
    append_dtype(spec, "float", strlen("float"));
}

static void write_side(spec_t *spec, const side_t *side, const char *suffix) {
  append(spec, "%s%s: ", side->name, suffix);
  if (*side->count) append(spec, "%s * ", side->count);
  append(spec, "%s", *side->type ? side->type : dtype_word(side->dtype));
}

/* ---- registration ---- */

typedef void (*add_fn)(tf_op_builder_t *builder, const char *spec);

typedef struct definition_t {
  const operator_t *self;
  tf_op_builder_t *builder;
  spec_t spec;
  bool failed;
} definition_t;

/* Passes the specification on, and begins a new one. */
static void add(definition_t *d, add_fn function) {
  d->failed = d->failed || d->spec.is_full;
  if (!d->spec.is_full) function(d->builder, d->spec.text);
  memset(&d->spec, 0, sizeof d->spec);
}

static bool is_count_of_schema(const side_t *side) {
  return side->of.kind == TENON_KIND_TENSORS && side->of.count_attr >= 0;
}

/* Whether a list of results has as many items as an attribute says. Such attributes have no
 * default: a SavedModel leaves defaults out, and TensorFlow for Python takes a missing number for 0
 * when it loads the node. */
static bool is_count_of_results(const operator_t *self, uint32_t attr) {
  for (uint32_t o = 0; o < self->output_count; o++) {
    const side_t *side = &self->outputs[o];
    if (is_count_of_schema(side) && side->of.count_attr == (int32_t)attr) return true;
  }
  return false;
}

/* Whether an input that always has a tensor states the dtype of an attribute. */
static bool is_bound(const operator_t *self, const char *type) {
  for (uint32_t i = 0; i < self->input_count; i++)
    if (strcmp(self->inputs[i].type, type) == 0 && !*self->inputs[i].count) return true;
  return false;
}

static void define_inputs(definition_t *d) {
  const operator_t *self = d->self;
  for (uint32_t i = 0; i < self->input_count; i++) {
    const side_t *side = &self->inputs[i];
    write_side(&d->spec, side, "");
    add(d, tf.TF_OpDefinitionBuilderAddInput);
    if (*side->count && !is_count_of_schema(side)) {
      append(&d->spec, "%s: int >= 0", side->count);
      add(d, tf.TF_OpDefinitionBuilderAddAttr);
    }
    if (!side->defines_type) continue;
    write_type(&d->spec, side, !is_bound(self, side->type));
    add(d, tf.TF_OpDefinitionBuilderAddAttr);
  }
  if (!self->is_random) return;
  append(&d->spec, "tenon_seed: int64");
  add(d, tf.TF_OpDefinitionBuilderAddInput);
}

static void define_outputs(definition_t *d) {
  const operator_t *self = d->self;
  for (uint32_t i = 0; i < self->input_count; i++) {
    if (!self->inputs[i].of.is_written) continue;
    write_side(&d->spec, &self->inputs[i], "_new");
    add(d, tf.TF_OpDefinitionBuilderAddOutput);
  }
  for (uint32_t o = 0; o < self->output_count; o++) {
    const side_t *side = &self->outputs[o];
    if (!operator_has_output(self, o)) continue;
    write_side(&d->spec, side, "");
    add(d, tf.TF_OpDefinitionBuilderAddOutput);
    if (*side->count && !is_count_of_schema(side)) {
      append(&d->spec, "%s: int >= 0", side->count);
      add(d, tf.TF_OpDefinitionBuilderAddAttr);
    }
    if (!side->defines_type) continue;
    write_type(&d->spec, side, false);
    add(d, tf.TF_OpDefinitionBuilderAddAttr);
  }
}

static void define_attributes(definition_t *d) {
  for (uint32_t i = 0; i < d->self->attr_count; i++) {
    const attribute_t *attribute = &d->self->attrs[i];
    const bool is_omissible = attribute->of.has_default || attribute->of.is_optional;
    if (attribute->encoding == ENCODING_LEFT_OUT) continue;
    write_attribute(&d->spec, attribute, is_omissible && !is_count_of_results(d->self, i));
    add(d, tf.TF_OpDefinitionBuilderAddAttr);
  }
}

static bool fail_with(const tf_status_t *status, char *why, size_t capacity) {
  snprintf(why, capacity, "TensorFlow refuses it: %s", tf.TF_Message(status));
  return false;
}

static bool register_kernel(const operator_t *self, tf_create_fn create, tf_status_t *status) {
  tf_kernel_builder_t *kernel =
      tf.TF_NewKernelBuilder(self->own, "CPU", create, kernel_compute, kernel_delete);
  tf.TF_RegisterKernelBuilder(self->own, kernel, status);
  return tf.TF_GetCode(status) == TF_OK;
}

static bool define(definition_t *d, tf_status_t *status, char *why, size_t capacity) {
  const operator_t *self = d->self;
  thunk_t thunk;
  define_inputs(d);
  define_outputs(d);
  define_attributes(d);
  if (d->failed || !thunk_new(self, &thunk)) {
    tf.TF_DeleteOpDefinitionBuilder(d->builder);
    snprintf(why, capacity, "%s",
             d->failed ? "its definition is longer than 4000 characters"
                       : "more than 4096 operators are registered with TensorFlow");
    return false;
  }
  if (self->is_stateful) tf.TF_OpDefinitionBuilderSetIsStateful(d->builder, true);
  tf.TF_OpDefinitionBuilderSetShapeInferenceFunction(d->builder, thunk.shape);
  tf.TF_RegisterOpDefinition(d->builder, status);
  if (tf.TF_GetCode(status) != TF_OK) return fail_with(status, why, capacity);
  if (!register_kernel(self, thunk.create, status)) return fail_with(status, why, capacity);
  place_operator_everywhere(self, thunk.create);
  return true;
}

/* Whether TensorFlow has an operator of this name, of another library or of another copy of Tenon:
 * registering it again would end the process. */
static bool is_taken(const char *own, tf_status_t *status) {
  if (!tf.TF_OpIsStateful) return false;
  (void)tf.TF_OpIsStateful(own, status);
  const bool found = tf.TF_GetCode(status) == TF_OK;
  tf.TF_SetStatus(status, TF_OK, "");
  return found;
}

bool operator_define(const operator_t *self, char *why, size_t capacity) {
  definition_t *d = calloc(1, sizeof *d);
  tf_status_t *status = tf.TF_NewStatus();
  bool good = false;
  if (!d) {
    snprintf(why, capacity, "out of memory");
  } else if (thunk_has(self->own)) {
    snprintf(why, capacity,
             "TensorFlow has an operator %s already: the names of two operators differ only in "
             "underscores",
             self->own);
  } else if (is_taken(self->own, status)) {
    snprintf(why, capacity,
             "TensorFlow has an operator %s already, from another library of this process",
             self->own);
  } else {
    d->self = self;
    d->builder = tf.TF_NewOpDefinitionBuilder(self->own);
    good = define(d, status, why, capacity);
  }
  tf.TF_DeleteStatus(status);
  free(d);
  return good;
}

static void infer_nothing(tf_inference_t *inference, tf_status_t *status) {
  tf.TF_ShapeInferenceContextSetUnknownShape(inference, status);
}

bool operator_define_own(const char *own, void (*add_parts)(tf_op_builder_t *builder),
                         tf_create_fn create, char *why, size_t capacity) {
  tf_status_t *status = tf.TF_NewStatus();
  const bool has_other = is_taken(own, status);
  if (!has_other) {
    tf_op_builder_t *builder = tf.TF_NewOpDefinitionBuilder(own);
    add_parts(builder);
    tf.TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, infer_nothing);
    tf.TF_RegisterOpDefinition(builder, status);
  }
  if (!has_other && tf.TF_GetCode(status) == TF_OK)
    tf.TF_RegisterKernelBuilder(
        own, tf.TF_NewKernelBuilder(own, "CPU", create, kernel_compute, kernel_delete), status);
  const bool is_good = !has_other && tf.TF_GetCode(status) == TF_OK;
  if (has_other)
    snprintf(why, capacity,
             "TensorFlow has an operator %s already, from another library of this process: only "
             "one copy of Tenon can register operators",
             own);
  else if (!is_good)
    snprintf(why, capacity, "%s: %s", own, tf.TF_Message(status));
  tf.TF_DeleteStatus(status);
  return is_good;
}
