/* Computes an operator of TensorFlow by a plan. */
#include "run.h"

#include <stdio.h>
#include <string.h>

#include "variable.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Reads the integers of a tensor in host memory. More than a list of ints has become a tensor. */
static tenon_status_t read_ints(frame_t *frame, const plan_input_t *input,
                                const tf_tensor_t *tensor, value_t *out) {
  char text[200];
  const int dtype = tf.TF_TensorType(tensor);
  const size_t element = dtype == TF_INT32 ? 4 : 8;
  const size_t count = tf.TF_TensorByteSize(tensor) / element;
  const void *data = tf.TF_TensorData(tensor);
  if (dtype != TF_INT32 && dtype != TF_INT64) {
    snprintf(text, sizeof text, "input %s must have integers of 32 or 64 bits, and has dtype %d",
             input->name, dtype);
    return tenon_error_set(TENON_INVALID, text);
  }
  if (count > PLAN_LIST_MOST) {
    const tenon_status_t status = frame_view(frame, tensor, true, out);
    out->kind = VALUE_HOST;
    return status;
  }
  *out = (value_t){.kind = VALUE_INTS, .count = (int32_t)count};
  for (size_t i = 0; i < count; i++)
    out->ints[i] = dtype == TF_INT32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
  return TENON_OK;
}

static tenon_status_t read_input_list(frame_t *frame, int start, int count, value_t *out) {
  tenon_status_t status = frame_list(frame, count, out);
  for (int i = 0; i < count && status == TENON_OK; i++) {
    value_t item;
    status = frame_read(frame, start + i, false, &item);
    if (status == TENON_OK) out->tensors[i] = item.tensor;
  }
  return status;
}

/* Reads the value of a variable. */
static tenon_status_t read_variable(frame_t *frame, int index, value_t *out) {
  variable_key_t key;
  tf_tensor_t *value = NULL;
  tenon_status_t status = variable_key(frame->context, index, &key);
  if (status == TENON_OK) status = variable_read(&key, &value);
  if (status == TENON_OK) status = frame_keep(frame, value);
  return status == TENON_OK ? frame_view(frame, value, false, out) : status;
}

/* Reads an input. A list of inputs takes the place of all inputs that the others leave. */
static tenon_status_t read_input(frame_t *frame, int32_t index, value_t *out) {
  const plan_t *plan = frame->kernel->plan;
  const plan_input_t *input = &plan->inputs[index];
  const int extra = tf.TF_NumInputs(frame->context) - plan->input_count;
  int at = index;
  tf_tensor_t *tensor = NULL;
  for (int32_t i = 0; i < index; i++)
    if (plan->inputs[i].is_list) at += extra;
  if (input->is_variable) return read_variable(frame, at, out);
  if (input->is_list) return read_input_list(frame, at, extra + 1, out);
  if (!input->is_host) return frame_read(frame, at, false, out);
  const tenon_status_t status = frame_input(frame, at, &tensor);
  return status == TENON_OK ? read_ints(frame, input, tensor, out) : status;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static tenon_status_t compute_node(frame_t *frame, int32_t index, value_t *out);

/* Makes a tensor on the device of a number. */
static tenon_status_t make_constant(frame_t *frame, double real, int64_t number, value_t *out) {
  value_t host;
  tenon_tensor_t *wide = NULL;
  tenon_tensor_t *made = NULL;
  const tenon_dtype_t to = frame->kernel->dtype;
  const bool is_integer = real == (double)number;
  tenon_status_t status =
      tenon_tensor_create(tenon_dtype(is_integer ? TENON_I64 : TENON_F64), 0, NULL, &wide);
  if (status != TENON_OK) return status;
  if (is_integer)
    *(int64_t *)wide->data = number;
  else
    *(double *)wide->data = real;
  status = frame_hold(frame, wide, &host);
  const tenon_value_t values[] = {{.kind = TENON_KIND_TENSOR, .as.tensor = wide},
                                  {.kind = TENON_KIND_DTYPE, .as.dtype = to}};
  if (status == TENON_OK) status = frame_call(frame, "core::cast", values, 2, &host);
  if (status == TENON_OK)
    status = tenon_tensor_create_on(frame->device->device, to, 0, NULL, &made);
  if (status == TENON_OK) status = frame_hold(frame, made, out);
  return status == TENON_OK ? tenon_tensor_fill(made, host.tensor->data) : status;
}

static tenon_status_t set_input(frame_t *frame, value_t *value, const tenon_argument_t *to,
                                tenon_value_t *out) {
  tenon_status_t status = TENON_OK;
  value_t one = {.kind = VALUE_INTS, .count = 1, .ints = {value->number}};
  out->kind = TENON_KIND_TENSOR;
  if (value->kind == VALUE_LIST) {
    out->kind = TENON_KIND_TENSORS;
    out->count = (uint32_t)value->count;
    out->as.tensors = value->tensors;
    return TENON_OK;
  }
  if (to->is_host && value->kind != VALUE_TENSOR)
    return frame_host_ints(frame, value->kind == VALUE_INTS ? value : &one, &out->as.tensor);
  if (value->kind == VALUE_NUMBER)
    status = make_constant(frame, (double)value->number, value->number, value);
  else if (value->kind == VALUE_REAL)
    status = make_constant(frame, value->real, 0, value);
  if (status == TENON_OK && value->kind != VALUE_TENSOR)
    status = tenon_error_set(TENON_INTERNAL, "a formula passes a host value for a tensor");
  out->as.tensor = value->tensor;
  return status;
}

static void set_choice(const char *text, const tenon_argument_t *to, tenon_value_t *out) {
  for (uint32_t i = 0; i < to->choice_count; i++)
    if (!strcmp(text, to->choices[i])) out->as.i = i;
}

static tenon_status_t set_call_attribute(const value_t *value, const tenon_argument_t *to,
                                         tenon_value_t *out) {
  tenon_status_t status = TENON_OK;
  out->kind = to->kind;
  if (to->kind == TENON_KIND_FLOAT)
    out->as.f = value->kind == VALUE_REAL ? value->real : (double)value->number;
  else if (to->kind == TENON_KIND_INT || to->kind == TENON_KIND_BOOL)
    out->as.i = value->kind == VALUE_INTS ? value->ints[0] : value->number;
  else if (to->kind == TENON_KIND_CHOICE)
    set_choice(value->text, to, out);
  else if (to->kind == TENON_KIND_DTYPE && value->kind == VALUE_TEXT)
    status = tenon_dtype_parse(value->text, &out->as.dtype);
  else if (to->kind == TENON_KIND_DTYPE)
    out->as.dtype = value->dtype;
  else if (to->kind == TENON_KIND_INTS) {
    out->count = (uint32_t)value->count;
    out->as.ints = value->ints;
  } else
    status = tenon_error_set(TENON_INTERNAL, "a formula sets an argument of another kind");
  return status;
}

static tenon_status_t call_op(frame_t *frame, const tenon_op_t *op, const tenon_value_t *values,
                              uint32_t count, int32_t index, value_t *out) {
  tenon_tensor_t *results[PLAN_RESULTS_MOST * 2] = {NULL};
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  if (info.output_count > PLAN_RESULTS_MOST * 2)
    return tenon_error_set(TENON_INTERNAL, "an operator in a formula has too many results");
  tenon_status_t status = tenon_op_call_values(op, values, count, results, index > 0 ? 3u : 1u);
  for (int32_t i = 0; i < info.output_count; i++) {
    value_t held;
    if (!results[i]) continue;
    const tenon_status_t kept = frame_hold(frame, results[i], i == index ? out : &held);
    if (status == TENON_OK) status = kept;
  }
  return status;
}

tenon_status_t frame_call(frame_t *frame, const char *op, const tenon_value_t *values,
                          uint32_t count, value_t *out) {
  const tenon_op_t *found = NULL;
  const tenon_status_t status = tenon_op_find(op, &found);
  return status == TENON_OK ? call_op(frame, found, values, count, 0, out) : status;
}

static tenon_status_t compute_call(frame_t *frame, const node_t *node, value_t *out) {
  value_t operands[PLAN_OPERANDS_MOST];
  tenon_value_t values[PLAN_OPERANDS_MOST] = {{.kind = TENON_KIND_NONE}};
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < node->operand_count && status == TENON_OK; i++) {
    const tenon_argument_t *to = &node->parameters[i];
    if (node->operands[i] < 0) continue;
    status = compute_node(frame, node->operands[i], &operands[i]);
    if (status != TENON_OK || operands[i].kind == VALUE_NONE) continue;
    status = to->role == TENON_ARGUMENT_INPUT ? set_input(frame, &operands[i], to, &values[i])
                                              : set_call_attribute(&operands[i], to, &values[i]);
  }
  if (status != TENON_OK) return status;
  return call_op(frame, node->op, values, (uint32_t)node->operand_count, node->index, out);
}

/* Computes the operand that the first one chooses. */
static tenon_status_t compute_choice(frame_t *frame, const node_t *node, value_t *out) {
  value_t flag;
  const tenon_status_t status = compute_node(frame, node->operands[0], &flag);
  if (status != TENON_OK) return status;
  return compute_node(frame, node->operands[flag.number ? 1 : 2], out);
}

static tenon_status_t compute_function(frame_t *frame, const node_t *node, value_t *out) {
  value_t operands[PLAN_OPERANDS_MOST];
  if (function_is_choice(node->function)) return compute_choice(frame, node, out);
  for (int32_t i = 0; i < node->operand_count; i++) {
    const tenon_status_t status = compute_node(frame, node->operands[i], &operands[i]);
    if (status != TENON_OK) return status;
  }
  return node->function(frame, operands, node->operand_count, out);
}

static tenon_status_t compute_list(frame_t *frame, const node_t *node, value_t *out) {
  value_t list = {.kind = VALUE_INTS, .count = node->operand_count};
  for (int32_t i = 0; i < node->operand_count; i++) {
    value_t item;
    const tenon_status_t status = compute_node(frame, node->operands[i], &item);
    if (status != TENON_OK) return status;
    list.ints[i] = item.number;
  }
  *out = list;
  return TENON_OK;
}

static tenon_status_t compute_new(frame_t *frame, const node_t *node, value_t *out) {
  *out = (value_t){.kind = VALUE_NUMBER, .number = node->number};
  switch (node->kind) {
  case NODE_INPUT:
    return read_input(frame, node->index, out);
  case NODE_ATTRIBUTE:
    *out = frame->kernel->attributes[node->index];
    return TENON_OK;
  case NODE_REAL:
    out->kind = VALUE_REAL;
    out->real = node->real;
    return TENON_OK;
  case NODE_TEXT:
    out->kind = VALUE_TEXT;
    memcpy(out->text, node->text, sizeof node->text);
    return TENON_OK;
  case NODE_LIST:
    return compute_list(frame, node, out);
  case NODE_CALL:
    return compute_call(frame, node, out);
  case NODE_FUNCTION:
    return compute_function(frame, node, out);
  default:
    return TENON_OK;
  }
}

/* Computes a node once; a statement may be used several times. */
static tenon_status_t compute_node(frame_t *frame, int32_t index, value_t *out) {
  tenon_status_t status = TENON_OK;
  if (!frame->is_done[index]) {
    status = compute_new(frame, &frame->kernel->plan->nodes[index], &frame->values[index]);
    frame->is_done[index] = status == TENON_OK;
  }
  if (status == TENON_OK) *out = frame->values[index];
  return status;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Makes a result the value of the variable in this input. */
static tenon_status_t assign_result(frame_t *frame, int32_t input, const tenon_tensor_t *result) {
  value_t copy = {.kind = VALUE_NONE};
  int32_t at = frame_find(frame, result);
  tenon_status_t status = TENON_OK;
  if (at < 0) {
    at = frame->tensor_count;
    status = frame_allocate(frame, result->dtype, result->shape, result->ndim, &copy);
    if (status == TENON_OK && tenon_count(result) > 0)
      status = tenon_tensor_copy_async(result, copy.tensor);
  }
  if (status != TENON_OK) return status;
  tf_tensor_t *value = frame->tensors[at];
  frame->tensors[at] = frame->tensors[--frame->tensor_count];
  return variable_assign(frame->context, input, value);
}

static tenon_status_t set_result_list(frame_t *frame, int32_t first, const value_t *list) {
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < list->count && status == TENON_OK; i++)
    status = frame_set_result(frame, first + i, list->tensors[i]);
  return status;
}

static tenon_status_t compute_results(frame_t *frame, void *kernel) {
  frame->kernel = kernel;
  const plan_t *plan = frame->kernel->plan;
  tenon_status_t status = TENON_OK;
  atomic_fetch_add_explicit(&frame->device->platform->runs[plan->index], 1, memory_order_relaxed);
  for (int32_t i = 0; i < plan->result_count && status == TENON_OK; i++) {
    value_t result;
    tenon_value_t made = {.kind = TENON_KIND_NONE};
    const tenon_argument_t tensor = {.role = TENON_ARGUMENT_INPUT};
    status = compute_node(frame, plan->results[i], &result);
    if (status == TENON_OK) status = set_input(frame, &result, &tensor, &made);
    if (status != TENON_OK) break;
    if (frame->is_update)
      status = assign_result(frame, i, result.tensor);
    else if (result.kind == VALUE_LIST)
      status = set_result_list(frame, i, &result);
    else
      status = frame_set_result(frame, i, result.tensor);
  }
  return status;
}

void run_kernel(const kernel_t *kernel, tf_context_t *context) {
  const bool is_update = tf.TF_NumOutputs(context) == 0;
  frame_run(context, kernel->plan->row->op, is_update, compute_results, (void *)(uintptr_t)kernel);
}
