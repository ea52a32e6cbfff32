/* Describes Tenon's operators for MXNet; see operator.h. */
#include "operator.h"
#include "common/lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

/* dtypes */

static const struct {
  int number;
  uint32_t id;
  const char *name;
  const char *mxnet;
} dtypes[] = {{0, TENON_F32, "f32", "float32"},    {1, TENON_F64, "f64", "float64"},
              {2, TENON_F16, "f16", "float16"},    {3, TENON_U8, "u8", "uint8"},
              {4, TENON_I32, "i32", "int32"},      {5, TENON_I8, "i8", "int8"},
              {6, TENON_I64, "i64", "int64"},      {7, TENON_BOOL, "bool", "bool"},
              {12, TENON_BF16, "bf16", "bfloat16"}};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

int dtype_to(tenon_dtype_t dtype) {
  for (size_t i = 0; i < DTYPE_COUNT; i++)
    if (dtypes[i].id == tenon_dtype_id(dtype)) return dtypes[i].number;
  return -1;
}

bool dtype_from(int number, tenon_dtype_t *out_dtype) {
  *out_dtype = (tenon_dtype_t){0, 0, 0};
  for (size_t i = 0; i < DTYPE_COUNT; i++)
    if (dtypes[i].number == number) {
      *out_dtype = tenon_dtype(dtypes[i].id);
      return true;
    }
  return number == -1;
}

const char *dtype_parse(const char *name, size_t size) {
  for (size_t i = 0; i < DTYPE_COUNT; i++)
    if (strlen(dtypes[i].mxnet) == size && memcmp(dtypes[i].mxnet, name, size) == 0)
      return dtypes[i].name;
  return NULL;
}

/* properties of an operator */

static tenon_argument_t *arguments_of(const tenon_op_t *op, uint32_t role, int32_t count) {
  tenon_argument_t *arguments = calloc((size_t)count + 1, sizeof *arguments);
  for (int32_t i = 0; arguments && i < count; i++) {
    arguments[i].size = sizeof *arguments;
    host.tenon_op_argument(op, role, i, &arguments[i]);
  }
  return arguments;
}

/* Makes the name in MXNet: "demo::gelu.fast" becomes demo_gelu_fast. */
static char *operator_name(const char *full, const char *prefix) {
  const char *own = strstr(full, "::");
  size_t before = own ? (size_t)(own - full) : 0;
  size_t size = strlen(full) + (prefix ? strlen(prefix) : 0) + 2;
  char *name = malloc(size);
  if (!name) return NULL;
  if (prefix)
    snprintf(name, size, "%s%s", prefix, own ? own + 2 : full);
  else
    snprintf(name, size, "%.*s_%s", (int)before, full, own ? own + 2 : full);
  for (char *dot = name; (dot = strchr(dot, '.'));)
    *dot = '_';
  return name;
}

static const char *why_not(const operator_t *self) {
  if (self->input_count > OPERATOR_MOST || self->output_count > OPERATOR_MOST)
    return "it has more than 64 arguments";
  if (self->output_count == 0)
    return "it has no result, but MXNet supports only operators with results";
  for (int32_t i = 0; i < self->attr_count; i++) {
    const uint32_t kind = self->attrs[i].kind;
    bool is_big =
        kind == TENON_KIND_TENSOR || kind == TENON_KIND_TENSORS || kind == TENON_KIND_GRAPH;
    if (is_big && !self->attrs[i].is_optional && !self->attrs[i].has_default)
      return kind == TENON_KIND_GRAPH
                 ? "it has a graph as an attribute, but attributes of MXNet are strings"
                 : "it has a tensor as an attribute, but attributes of MXNet are strings";
  }
  return NULL;
}

/* Determines the gradient from the kernel for the autograd key: a gradient formula, a kernel of the
 * library, or nothing. */
static void gradient_set(operator_t *self, const char *text) {
  tenon_slot_info_t entry = {.size = sizeof entry};
  const bool is_there = host.tenon_op_slot(self->op, "autograd cpu", &entry) == TENON_OK &&
                        !entry.is_missing && entry.rule;
  self->has_formula = is_there && strcmp(entry.rule, "gradient") == 0;
  const bool has_gradient =
      self->has_formula ? text != NULL : is_there && strcmp(entry.rule, "fallthrough") != 0;
  if (!has_gradient)
    snprintf(self->why, sizeof self->why, "%s has no gradient", self->full);
  else if (self->has_formula)
    operator_formulas(self, text);
  else if (self->writes || self->traits & TENON_RANDOM)
    snprintf(self->why, sizeof self->why,
             "%s declares no gradient, and it %s: MXNet cannot run it again to compute one",
             self->full, self->writes ? "writes to its arguments" : "draws random numbers");
}

operator_t *operator_new(const tenon_op_t *op, const char *prefix) {
  tenon_op_info_t info = {.size = sizeof info};
  host.tenon_op_info(op, &info);
  operator_t *self = calloc(1, sizeof *self);
  if (!self) {
    message_set("out of memory");
    return NULL;
  }
  self->op = op;
  self->full = info.name;
  self->traits = info.traits;
  self->is_stateful = info.is_stateful != 0;
  self->input_count = info.input_count;
  self->attr_count = info.attr_count;
  self->output_count = info.output_count;
  self->name = operator_name(info.name, prefix);
  self->inputs = arguments_of(op, TENON_ARGUMENT_INPUT, info.input_count);
  self->attrs = arguments_of(op, TENON_ARGUMENT_ATTR, info.attr_count);
  self->outputs = arguments_of(op, TENON_ARGUMENT_OUTPUT, info.output_count);
  self->has_open = info.types && strchr(info.types, '?');
  self->forward.self = self->backward.self = self;
  self->forwards[0] = &self->forward;
  self->backwards[0] = &self->backward;
  bool is_fine = self->name && self->inputs && self->attrs && self->outputs;
  const char *reason = is_fine ? why_not(self) : "out of memory";
  if (!reason && lists_are_values(&info)) reason = LISTS_REASON;
  if (reason) {
    message_set("%s: %s", info.name, reason);
    operator_free(self);
    return NULL;
  }
  for (int32_t o = 0; o < self->output_count; o++) {
    self->same[o] = -1;
    for (int32_t i = 0; i < self->input_count && self->outputs[o].is_written; i++)
      if (self->inputs[i].mark == self->outputs[o].mark) self->same[o] = i;
  }
  for (int32_t i = 0; i < self->input_count; i++)
    self->writes = self->writes || self->inputs[i].is_written;
  gradient_set(self, info.gradient);
  return self;
}

void operator_free(operator_t *self) {
  if (!self) return;
  free(self->name);
  free(self->inputs);
  free(self->attrs);
  free(self->outputs);
  free(self->directs);
  free(self);
}
