/* Describes operators of Tenon for ONNX Runtime; see operator.h. */
#include "operator.h"
#include "common/lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ---- */

static tenon_status_t read_role(const operator_t *self, uint32_t role, int32_t count,
                                tenon_argument_t *out) {
  for (int32_t i = 0; i < count; i++) {
    out[i] = (tenon_argument_t){.size = sizeof *out};
    TENON_TRY(host.tenon_op_argument(self->op, role, i, &out[i]));
  }
  return TENON_OK;
}

static const char *check_attributes(operator_t *self) {
  for (int32_t i = 0; i < self->attr_count; i++) {
    const tenon_argument_t *of = &self->attrs[i];
    self->has_own_counts |= strcmp(of->name, COUNTS_ATTRIBUTE) == 0;
    self->has_own_seed |= strcmp(of->name, "seed") == 0;
    if (of->has_default || of->is_optional) continue;
    if (of->kind == TENON_KIND_GRAPH)
      return "it has a graph as an attribute, which ONNX Runtime does not pass to custom operators";
    if (of->kind == TENON_KIND_TENSORS)
      return "it has a list of tensors as an attribute, which ONNX Runtime does not pass to custom "
             "operators";
  }
  return NULL;
}

/* The input that a result is, because the operator writes to it; -1: none. */
static int32_t find_written(const operator_t *self, const tenon_argument_t *result) {
  for (int32_t i = 0; i < self->input_count && result->mark; i++)
    if (self->inputs[i].is_written && self->inputs[i].mark == result->mark) return i;
  return -1;
}

static const char *read_sides(operator_t *self) {
  bool is_returned[SIDE_MOST] = {false};
  int32_t lists = 0;
  int32_t input_lists = 0;
  for (int32_t o = 0; o < self->output_count; o++) {
    self->written[o] = find_written(self, &self->outputs[o]);
    if (self->written[o] >= 0) is_returned[self->written[o]] = true;
    lists += self->outputs[o].kind == TENON_KIND_TENSORS;
  }
  self->side_count = self->output_count;
  for (int32_t i = 0; i < self->input_count; i++) {
    const tenon_argument_t *of = &self->inputs[i];
    input_lists += of->kind == TENON_KIND_TENSORS;
    if (!of->is_written) continue;
    if (of->kind == TENON_KIND_TENSORS || of->is_optional)
      return "it writes to a list, or to an optional tensor";
    if (!is_returned[i]) self->written[self->side_count++] = i;
  }
  if (lists > 1) return "it has several lists of results, whose lengths no node states";
  if (input_lists > LISTS_MOST) return "it has too many lists of tensors";
  if (!self->side_count) return "it has no results";
  return NULL;
}

/* ---- construction ---- */

static bool allocate_arguments(operator_t *self, const tenon_op_info_t *info) {
  const char *colons = strstr(info->name, "::");
  self->name = info->name;
  self->input_count = info->input_count;
  self->attr_count = info->attr_count;
  self->output_count = info->output_count;
  self->version = info->version > 0 && info->version < ORT_OP_UNBOUNDED ? (int)info->version : 1;
  self->is_random = (info->traits & TENON_RANDOM) != 0;
  self->inputs = calloc((size_t)self->input_count + 1, sizeof *self->inputs);
  self->attrs = calloc((size_t)self->attr_count + 1, sizeof *self->attrs);
  self->outputs = calloc((size_t)self->output_count + 1, sizeof *self->outputs);
  self->domain = colons ? strndup(info->name, (size_t)(colons - info->name)) : strdup("");
  self->type = colons ? colons + 2 : info->name;
  return self->inputs && self->attrs && self->outputs && self->domain;
}

static const char *read_operator(operator_t *self, const tenon_op_info_t *info) {
  if (!allocate_arguments(self, info)) return "memory is out";
  if (read_role(self, TENON_ARGUMENT_INPUT, self->input_count, self->inputs) != TENON_OK ||
      read_role(self, TENON_ARGUMENT_ATTR, self->attr_count, self->attrs) != TENON_OK ||
      read_role(self, TENON_ARGUMENT_OUTPUT, self->output_count, self->outputs) != TENON_OK)
    return host.tenon_error();
  const char *why = check_attributes(self);
  if (!why) why = read_sides(self);
  return why ? why : types_find(self);
}

static void free_operator(operator_t *self) {
  if (!self) return;
  free(self->inputs);
  free(self->attrs);
  free(self->outputs);
  free(self->overloads);
  free(self->domain);
  free(self);
}

static operator_t *make_operator(const tenon_op_t *op, char *why, size_t capacity) {
  tenon_op_info_t info = {.size = sizeof info};
  host.tenon_op_info(op, &info);
  operator_t *self = calloc(1, sizeof *self);
  if (self) self->op = op;
  const char *reason = self ? read_operator(self, &info) : "memory is out";
  if (!reason && lists_are_values(&info)) reason = LISTS_REASON;
  if (!reason) return self;
  snprintf(why, capacity, "%s", reason);
  free_operator(self);
  return NULL;
}

const operator_t *operator_describe(const tenon_op_t *op, char *why, size_t capacity) {
  return make_operator(op, why, capacity);
}

void operator_explain(const tenon_op_t *op, char *why, size_t capacity) {
  *why = 0;
  free_operator(make_operator(op, why, capacity));
}

/* ---- the tensors of a node ---- */

static tenon_status_t fail_counts(const operator_t *self, const char *what, int32_t found,
                                  int32_t taken) {
  char text[1000];
  tenon_op_info_t info = {.size = sizeof info};
  host.tenon_op_info(self->op, &info);
  snprintf(text, sizeof text, "%s: the node has %d %s, but %.700s takes %d", self->name, (int)found,
           what, info.schema, (int)taken);
  return host.tenon_error_set(TENON_INVALID, text);
}

static tenon_status_t check_stated(const operator_t *self, const int64_t *stated, int32_t count) {
  bool is_fine = count == self->input_count;
  for (int32_t i = 0; i < count && is_fine; i++) {
    const int64_t most = self->inputs[i].kind == TENON_KIND_TENSORS ? TENSORS_MOST : 1;
    is_fine = stated[i] >= 0 && stated[i] <= most;
  }
  if (is_fine) return TENON_OK;
  char text[300];
  snprintf(text, sizeof text,
           "%s: attribute '" COUNTS_ATTRIBUTE "': expected %d numbers of tensors, one for each "
           "input of the schema: 0 or 1, or the length of a list",
           self->name, (int)self->input_count);
  return host.tenon_error_set(TENON_INVALID, text);
}

tenon_status_t operator_count_inputs(const operator_t *self, int32_t total, const int64_t *stated,
                                     int32_t stated_count, int32_t *out_counts) {
  int32_t next = 0;
  if (stated) TENON_TRY(check_stated(self, stated, stated_count));
  for (int32_t i = 0; i < self->input_count; i++) {
    const int32_t left = total - next;
    const int32_t after = self->input_count - 1 - i;
    out_counts[i] = left > 0;
    if (self->inputs[i].kind == TENON_KIND_TENSORS) out_counts[i] = left > after ? left - after : 0;
    if (stated) out_counts[i] = (int32_t)stated[i];
    next += out_counts[i];
  }
  return next == total ? TENON_OK : fail_counts(self, "inputs", total, next);
}

tenon_status_t operator_count_outputs(const operator_t *self, int32_t total, int32_t *out_counts) {
  int32_t next = 0;
  for (int32_t o = 0; o < self->side_count; o++) {
    const int32_t others = self->side_count - 1;
    out_counts[o] = total > next;
    if (o < self->output_count && self->outputs[o].kind == TENON_KIND_TENSORS)
      out_counts[o] = total > others ? total - others : 0;
    next += out_counts[o];
  }
  return next == total ? TENON_OK : fail_counts(self, "outputs", total, next);
}
