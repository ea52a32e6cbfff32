/* Describes operators of Tenon for TensorFlow; see operator.h. */
#include "operator.h"
#include "common/lists.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "name.h"
#include "types.h"

static encoding_t encoding_of(const tenon_argument_t *of) {
  if (of->kind == TENON_KIND_GRAPH || of->kind == TENON_KIND_TENSOR ||
      of->kind == TENON_KIND_TENSORS)
    return ENCODING_LEFT_OUT;
  if (of->is_optional) return ENCODING_LITERAL;
  switch (of->kind) {
  case TENON_KIND_BOOL:
    return ENCODING_BOOL;
  case TENON_KIND_INT:
  case TENON_KIND_DIM:
    return ENCODING_INT;
  case TENON_KIND_STR:
  case TENON_KIND_CHOICE:
  case TENON_KIND_DEVICE:
    return ENCODING_TEXT;
  case TENON_KIND_DTYPE:
    return ENCODING_TYPE;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    return ENCODING_INTS;
  case TENON_KIND_STRS:
    return ENCODING_TEXTS;
  default:
    return ENCODING_LITERAL;
  }
}

static const char *read_attribute(const tenon_op_t *op, int32_t index, attribute_t *out) {
  out->of.size = sizeof out->of;
  if (tenon_op_argument(op, TENON_ARGUMENT_ATTR, index, &out->of) != TENON_OK) return tenon_error();
  out->encoding = encoding_of(&out->of);
  if (out->encoding == ENCODING_LEFT_OUT && !out->of.is_optional && !out->of.has_default)
    return out->of.kind == TENON_KIND_GRAPH ? "it has a graph as an attribute"
                                            : "it has a tensor as an attribute";
  if (out->encoding == ENCODING_TYPE && out->of.has_default && !tf_dtype_to(out->of.value.as.dtype))
    return "the default of an attribute is a dtype that TensorFlow does not have";
  if (!name_argument(out->of.name, out->name))
    return "TensorFlow does not allow the name of an attribute";
  return NULL;
}

/* Reads an input or a result. Optional tensors, and lists, have an attribute with their number. */
static const char *read_side(const operator_t *self, uint32_t role, int32_t index, side_t *out) {
  out->of.size = sizeof out->of;
  if (tenon_op_argument(self->op, role, index, &out->of) != TENON_OK) return tenon_error();
  if (!name_argument(out->of.name, out->name))
    return "TensorFlow does not allow the name of an argument";
  const bool is_list = out->of.kind == TENON_KIND_TENSORS;
  if (is_list && out->of.count_attr >= 0)
    memcpy(out->count, self->attrs[out->of.count_attr].name, sizeof out->count);
  else if (is_list || out->of.is_optional)
    snprintf(out->count, sizeof out->count, "N_%.*s", NAME_MOST - 3, out->name);
  if (is_list && out->of.is_optional) return "an optional list of tensors has no encoding";
  return NULL;
}

static const char *read_schema_arguments(operator_t *self) {
  const char *why = NULL;
  for (uint32_t i = 0; i < self->attr_count && !why; i++)
    why = read_attribute(self->op, (int32_t)i, &self->attrs[i]);
  for (uint32_t i = 0; i < self->input_count && !why; i++) {
    why = read_side(self, TENON_ARGUMENT_INPUT, (int32_t)i, &self->inputs[i]);
    if (self->inputs[i].of.is_host) self->has_fixed_shapes = false;
    if (self->inputs[i].of.is_written) self->written |= (uint64_t)1 << i;
    if (self->inputs[i].of.is_written && *self->inputs[i].count)
      why = "it writes to a list, or to an optional tensor";
  }
  for (uint32_t o = 0; o < self->output_count && !why; o++)
    why = read_side(self, TENON_ARGUMENT_OUTPUT, (int32_t)o, &self->outputs[o]);
  return why;
}

bool operator_has_output(const operator_t *self, uint32_t output) {
  const uint32_t mark = self->outputs[output].of.mark;
  for (uint32_t i = 0; i < self->input_count && mark; i++)
    if (self->inputs[i].of.is_written && self->inputs[i].of.mark == mark) return false;
  return true;
}

/* ---- which arguments determine the shapes of results ---- */

static bool is_attribute(const operator_t *self, const char *name, size_t size) {
  for (uint32_t i = 0; i < self->attr_count; i++)
    if (strlen(self->attrs[i].of.name) == size && memcmp(self->attrs[i].of.name, name, size) == 0)
      return true;
  return false;
}

/* Whether a text of TENON_SHAPES names an attribute. */
static bool names_attributes(const operator_t *self, const char *shapes) {
  static const char separators[] = " \t\n,;:=[]";
  for (const char *at = shapes; *at;) {
    at += strspn(at, separators);
    const size_t size = strcspn(at, separators);
    if (size && is_attribute(self, at, size)) return true;
    at += size;
  }
  return false;
}

/* Whether a text of TENON_SHAPES has a rule for an argument. */
static bool declares_shape(const char *shapes, const char *name) {
  const size_t size = strlen(name);
  for (const char *at = shapes; at; at = strchr(at, ';')) {
    at += *at == ';';
    const char *end = at + strcspn(at, ":=;");
    while (at < end) {
      at += strspn(at, " \t\n,");
      const size_t word = strcspn(at, " \t\n,:=;");
      if (word == size && memcmp(at, name, size) == 0) return true;
      at += word + (at + word < end);
    }
  }
  return false;
}

/* Whether TENON_SHAPES determine the shapes of all results, without attributes. */
static bool declares_results(const operator_t *self, const char *shapes) {
  for (uint32_t o = 0; o < self->output_count; o++)
    if (!declares_shape(shapes, self->outputs[o].of.name)) return false;
  return !names_attributes(self, shapes);
}

static bool has_plain_shapes(const operator_t *self, const tenon_op_info_t *info) {
  uint32_t group_count = 0; /* inputs that have any number of tensors */
  if (!self->has_fixed_shapes) return false;
  for (uint32_t i = 0; i < self->attr_count; i++)
    if (!self->attrs[i].of.has_default && !self->attrs[i].of.is_optional) return false;
  for (uint32_t i = 0; i < self->input_count; i++)
    group_count += *self->inputs[i].count || self->inputs[i].is_types;
  for (uint32_t o = 0; o < self->output_count; o++)
    if (*self->outputs[o].count || self->outputs[o].is_types) return false;
  if (group_count > 1) return false;
  if (info->traits & TENON_POINTWISE) return true;
  return self->attr_count == 0 || (info->shapes && declares_results(self, info->shapes));
}

/* ---- construction ---- */

static const char *read_operator(operator_t *self, const tenon_op_info_t *info) {
  if (!operator_name(info->name, self->own, sizeof self->own))
    return "TensorFlow does not allow its name";
  const char *why = read_schema_arguments(self);
  if (!why) why = types_read(self, info->types);
  if (!why && !self->output_count && !self->written) why = "it has no results";
  if (why) return why;
  self->has_plain_shapes = has_plain_shapes(self, info);
  return NULL;
}

static void free_operator(operator_t *self) {
  if (!self) return;
  free(self->inputs);
  free(self->attrs);
  free(self->outputs);
  free(self);
}

static atomic_uint described; /* operators, each of which has a number */

const operator_t *operator_describe(const tenon_op_t *op, char *why, size_t capacity) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  operator_t *self = calloc(1, sizeof *self);
  if (self) {
    self->op = op;
    self->name = info.name;
    self->input_count = (uint32_t)info.input_count;
    self->attr_count = (uint32_t)info.attr_count;
    self->output_count = (uint32_t)info.output_count;
    self->inputs = calloc(self->input_count + 1, sizeof *self->inputs);
    self->attrs = calloc(self->attr_count + 1, sizeof *self->attrs);
    self->outputs = calloc(self->output_count + 1, sizeof *self->outputs);
    self->is_random = (info.traits & TENON_RANDOM) != 0;
    self->is_stateful = !(info.traits & (TENON_PURE | TENON_RANDOM));
    self->has_fixed_shapes = !self->is_random;
  }
  const bool has_memory = self && self->inputs && self->attrs && self->outputs;
  const char *reason = has_memory ? read_operator(self, &info) : "out of memory";
  if (!reason && lists_are_values(&info)) reason = LISTS_REASON;
  if (!reason) self->index = atomic_fetch_add(&described, 1);
  if (!reason) return self;
  snprintf(why, capacity, "%s", reason);
  free_operator(self);
  return NULL;
}
