/* Computes an operator of TensorFlow by a plan. All memory comes from TensorFlow's allocator, so a
 * result is a tensor of TensorFlow from the start, and is handed over without a copy. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "profiler.h"
#include "variable.h"

/* ---- tensors --------------------------------------------------------------------------------- */

tenon_status_t frame_hold(frame_t *frame, tenon_tensor_t *tensor, value_t *out) {
  if (frame->held_count == FRAME_HELD_MOST) {
    tenon_tensor_release(tensor);
    return tenon_error_set(TENON_INTERNAL, "a formula has too many intermediate tensors");
  }
  frame->held[frame->held_count++] = tensor;
  *out = (value_t){.kind = VALUE_TENSOR, .tensor = tensor};
  return TENON_OK;
}

static tenon_status_t keep_tf_tensor(frame_t *frame, tf_tensor_t *tensor) {
  if (frame->tensor_count == FRAME_TENSORS_MOST) {
    tf.TF_DeleteTensor(tensor);
    return tenon_error_set(TENON_INTERNAL, "a formula has too many tensors");
  }
  frame->tensors[frame->tensor_count++] = tensor;
  return TENON_OK;
}

static tenon_status_t take_status(tf_status_t *status) {
  const int code = tf.TF_GetCode(status);
  if (code == TF_OK) return TENON_OK;
  return tenon_error_set(code, tf.TF_Message(status));
}

/* Views a tensor of TensorFlow on the device. */
static tenon_status_t view_tensor(const frame_t *frame, const tf_tensor_t *tensor,
                                  tenon_tensor_t **out) {
  int64_t shape[TENON_RANK_MAX];
  tenon_dtype_t dtype;
  const int rank = tf.TF_NumDims(tensor);
  if (!dtype_from_tf(tf.TF_TensorType(tensor), &dtype))
    return tenon_error_set(TENON_UNIMPLEMENTED, "Tenon has no dtype for a tensor of TensorFlow");
  if (rank > TENON_RANK_MAX)
    return tenon_error_set(TENON_UNIMPLEMENTED, "tensors of this rank are not supported by Tenon");
  for (int i = 0; i < rank; i++)
    shape[i] = tf.TF_Dim(tensor, i);
  if (tf.TF_TensorByteSize(tensor) == 0)
    return tenon_tensor_create_on(frame->device->device, dtype, rank, shape, out);
  return memory_view(tf.TF_TensorData(tensor), dtype, rank, shape, out);
}

/* Allocates a tensor for Tenon: the `create` of a tenon_allocator_t. */
static tenon_status_t allocate_tensor(void *state, tenon_device_t device, tenon_dtype_t dtype,
                                      int32_t ndim, const int64_t *shape,
                                      tenon_tensor_t **out_tensor, const char **out_why) {
  frame_t *frame = state;
  const int tf_dtype = dtype_to_tf(dtype);
  tf_allocator_t attributes = {.size = sizeof attributes};
  if (device.type != frame->device->device.type || device.id != frame->device->device.id ||
      tf_dtype == 0)
    return TENON_OK; /* Tenon allocates it. */
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *made =
      tf.TF_AllocateTemp(frame->context, tf_dtype, shape, ndim, &attributes, status);
  tenon_status_t result = take_status(status);
  tf.TF_DeleteStatus(status);
  if (result == TENON_OK) result = keep_tf_tensor(frame, made);
  if (result == TENON_OK) result = view_tensor(frame, made, out_tensor);
  if (result != TENON_OK) {
    snprintf(frame->why, sizeof frame->why, "%s", tenon_error());
    *out_why = frame->why;
  }
  return result;
}

tenon_status_t frame_allocate(frame_t *frame, tenon_dtype_t dtype, const int64_t *shape,
                              int32_t ndim, value_t *out) {
  const char *why = NULL;
  const tenon_device_t device = frame->device->device;
  tenon_tensor_t *made = NULL;
  tenon_status_t status = allocate_tensor(frame, device, dtype, ndim, shape, &made, &why);
  if (status == TENON_OK && !made)
    status = tenon_tensor_create_on(device, dtype, ndim, shape, &made);
  return status == TENON_OK ? frame_hold(frame, made, out) : status;
}

tenon_status_t frame_host_ints(frame_t *frame, const value_t *ints, tenon_tensor_t **out) {
  const int64_t count = ints->count;
  value_t held;
  tenon_tensor_t *made = NULL;
  tenon_status_t status = tenon_tensor_create(tenon_dtype(TENON_I64), 1, &count, &made);
  if (status != TENON_OK) return status;
  if (count > 0) memcpy(made->data, ints->ints, (size_t)count * sizeof *ints->ints);
  status = frame_hold(frame, made, &held);
  *out = made;
  return status;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Reads the integers of a tensor in host memory. */
static tenon_status_t read_ints(const plan_input_t *input, const tf_tensor_t *tensor,
                                value_t *out) {
  char text[200];
  const int dtype = tf.TF_TensorType(tensor);
  const size_t element = dtype == TF_INT32 ? 4 : 8;
  const size_t count = tf.TF_TensorByteSize(tensor) / element;
  const void *data = tf.TF_TensorData(tensor);
  if ((dtype != TF_INT32 && dtype != TF_INT64) || count > PLAN_LIST_MOST) {
    snprintf(text, sizeof text, "input %s must have at most %d integers of 32 or 64 bits",
             input->name, PLAN_LIST_MOST);
    return tenon_error_set(TENON_UNIMPLEMENTED, text);
  }
  *out = (value_t){.kind = VALUE_INTS, .count = (int32_t)count};
  for (size_t i = 0; i < count; i++)
    out->ints[i] = dtype == TF_INT32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
  return TENON_OK;
}

static tenon_status_t get_input(frame_t *frame, int index, tf_tensor_t **out) {
  tf_status_t *status = tf.TF_NewStatus();
  tf.TF_GetInput(frame->context, index, out, status);
  const tenon_status_t result = take_status(status);
  tf.TF_DeleteStatus(status);
  return result == TENON_OK ? keep_tf_tensor(frame, *out) : result;
}

static tenon_status_t read_tensor(frame_t *frame, int index, value_t *out) {
  tf_tensor_t *tensor = NULL;
  tenon_tensor_t *view = NULL;
  tenon_status_t status = get_input(frame, index, &tensor);
  if (status == TENON_OK) status = view_tensor(frame, tensor, &view);
  return status == TENON_OK ? frame_hold(frame, view, out) : status;
}

static tenon_status_t read_input_list(frame_t *frame, int start, int count, value_t *out) {
  value_t list = {.kind = VALUE_LIST, .count = count, .tensors = &frame->lists[frame->list_count]};
  if (count > FRAME_TENSORS_MOST / 2 || count > FRAME_TENSORS_MOST - frame->list_count)
    return tenon_error_set(TENON_UNIMPLEMENTED, "a list of inputs has too many tensors");
  for (int i = 0; i < count; i++) {
    value_t item;
    const tenon_status_t status = read_tensor(frame, start + i, &item);
    if (status != TENON_OK) return status;
    list.tensors[i] = item.tensor;
  }
  frame->list_count += count;
  *out = list;
  return TENON_OK;
}

/* Reads the value of a variable. */
static tenon_status_t read_variable(frame_t *frame, int index, value_t *out) {
  variable_key_t key;
  tf_tensor_t *value = NULL;
  tenon_tensor_t *view = NULL;
  tenon_status_t status = variable_key(frame->context, index, &key);
  if (status == TENON_OK) status = variable_read(&key, &value);
  if (status == TENON_OK) status = keep_tf_tensor(frame, value);
  if (status == TENON_OK) status = view_tensor(frame, value, &view);
  return status == TENON_OK ? frame_hold(frame, view, out) : status;
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
  if (!input->is_host) return read_tensor(frame, at, out);
  const tenon_status_t status = get_input(frame, at, &tensor);
  return status == TENON_OK ? read_ints(input, tensor, out) : status;
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

static tenon_status_t compute_function(frame_t *frame, const node_t *node, value_t *out) {
  value_t operands[PLAN_OPERANDS_MOST];
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
    memcpy(out->text, node->text, sizeof out->text);
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

static bool has_dense_layout(const tenon_tensor_t *t) {
  int64_t next = 1;
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->strides[i] != next) return false;
    next *= t->shape[i];
  }
  return true;
}

/* Is this tensor of TensorFlow the memory of a result, with its dtype and shape? */
static bool is_same(const tf_tensor_t *tensor, const tenon_tensor_t *result) {
  if (tf.TF_TensorType(tensor) != dtype_to_tf(result->dtype) ||
      tf.TF_NumDims(tensor) != result->ndim || !has_dense_layout(result))
    return false;
  for (int32_t i = 0; i < result->ndim; i++)
    if (tf.TF_Dim(tensor, i) != result->shape[i]) return false;
  return memory_is_whole(tf.TF_TensorData(tensor), result);
}

static tenon_status_t copy_result(frame_t *frame, int32_t index, const tenon_tensor_t *result,
                                  tf_status_t *status) {
  tenon_tensor_t *view = NULL;
  const size_t bytes = (size_t)tenon_count(result) * result->dtype.bits / 8;
  tf_tensor_t *made = tf.TF_AllocateOutput(frame->context, index, dtype_to_tf(result->dtype),
                                           result->shape, result->ndim, bytes, status);
  tenon_status_t done = take_status(status);
  if (done == TENON_OK) done = keep_tf_tensor(frame, made);
  if (done == TENON_OK && bytes > 0) done = view_tensor(frame, made, &view);
  if (done == TENON_OK && bytes > 0) done = tenon_tensor_copy_async(result, view);
  tenon_tensor_release(view);
  return done;
}

static tenon_status_t set_result(frame_t *frame, int32_t index, const tenon_tensor_t *result) {
  char text[200];
  const int wanted = tf.TF_ExpectedOutputDataType(frame->context, index);
  if (dtype_to_tf(result->dtype) != wanted) {
    snprintf(text, sizeof text, "result %d has dtype %s, and TensorFlow expects its dtype %d",
             index, tenon_dtype_name(result->dtype), wanted);
    return tenon_error_set(TENON_INTERNAL, text);
  }
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *whole = NULL;
  const bool is_empty = tenon_count(result) == 0;
  for (int32_t i = 0; i < frame->tensor_count && !is_empty && !whole; i++)
    if (is_same(frame->tensors[i], result)) whole = frame->tensors[i];
  tenon_status_t done = TENON_OK;
  if (whole) {
    tf.TF_SetOutput(frame->context, index, whole, status);
    done = take_status(status);
  } else {
    done = copy_result(frame, index, result, status);
  }
  tf.TF_DeleteStatus(status);
  return done;
}

/* Makes a result the value of the variable in this input. */
static tenon_status_t assign_result(frame_t *frame, int32_t input, const tenon_tensor_t *result) {
  value_t copy = {.kind = VALUE_NONE};
  int32_t at = -1;
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < frame->tensor_count; i++)
    if (is_same(frame->tensors[i], result)) at = i;
  if (status == TENON_OK && at < 0) {
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
    status = set_result(frame, first + i, list->tensors[i]);
  return status;
}

static tenon_status_t compute_results(frame_t *frame) {
  const plan_t *plan = frame->kernel->plan;
  tenon_status_t status = TENON_OK;
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
      status = set_result(frame, i, result.tensor);
  }
  return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void end_frame(frame_t *frame) {
  for (int32_t i = 0; i < frame->held_count; i++)
    tenon_tensor_release(frame->held[i]);
  for (int32_t i = 0; i < frame->tensor_count; i++)
    tf.TF_DeleteTensor(frame->tensors[i]);
  free(frame);
}

static void report_failure(const kernel_t *kernel, tf_context_t *context, tenon_status_t failure) {
  char text[1200];
  tf_status_t *status = tf.TF_NewStatus();
  snprintf(text, sizeof text, "%s: %s", kernel->plan->row->op, tenon_error());
  tf.TF_SetStatus(status, failure, text);
  tf.TF_OpKernelContext_Failure(context, status);
  tf.TF_DeleteStatus(status);
}

static tenon_status_t run_in_stream(frame_t *frame, stream_t *stream) {
  const tenon_allocator_t allocator = {allocate_tensor, frame};
  tenon_stream_t *before = NULL;
  tenon_status_t status = enter_stream(stream, &before);
  if (status != TENON_OK) return status;
  const tenon_allocator_t *allocator_before = tenon_allocator_use(&allocator);
  if (frame->is_update) variable_lock_updates();
  span_t *span = span_begin(stream, frame->kernel->plan->row->op);
  status = compute_results(frame);
  span_end(span);
  if (frame->is_update) variable_unlock_updates();
  (void)tenon_allocator_use(allocator_before);
  leave_stream(stream, before);
  if (status == TENON_OK) return status;
  char text[1000];
  snprintf(text, sizeof text, "%s", tenon_error());
  const tenon_status_t failure = renew_streams(stream->device);
  return failure != TENON_OK ? failure : tenon_error_set(status, text);
}

void run_kernel(const kernel_t *kernel, tf_context_t *context) {
  tf_status_t *status = tf.TF_NewStatus();
  stream_t *stream = (stream_t *)tf.TF_GetStream(context, status);
  tenon_status_t result = take_status(status);
  tf.TF_DeleteStatus(status);
  frame_t *frame = result == TENON_OK ? malloc(sizeof *frame) : NULL;
  if (!frame && result == TENON_OK)
    result = tenon_error_set(TENON_MEMORY, "out of memory: the frame of a kernel");
  if (frame) {
    frame->kernel = kernel;
    frame->context = context;
    frame->is_update = tf.TF_NumOutputs(context) == 0;
    frame->device = stream->device;
    frame->held_count = 0;
    frame->list_count = 0;
    frame->tensor_count = 0;
    memset(frame->is_done, 0, sizeof frame->is_done);
    count_run(stream->device->platform, kernel->plan);
    result = run_in_stream(frame, stream);
    if (result != TENON_OK) report_failure(kernel, context, result);
    end_frame(frame);
    return;
  }
  report_failure(kernel, context, result);
}
