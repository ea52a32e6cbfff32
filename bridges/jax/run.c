/* Runs prepared calls: XLA's buffers become tensors of the call, and results that the operator
 * allocates are copied to XLA's buffers. The buffers of a custom call are
 *
 *     operands: the tensors of the inputs, gradients of the results, the key of random operators
 *     results:  the inputs that the operator writes to, its results, after a padded one its shape
 *
 * and for gradients the results are one buffer for each requested input. For tangents, those of the
 * requested inputs take the place of the gradients, and the results are the tangents of the given
 * results. Items of lists count one by one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/zeros.h"
#include "device.h"

enum {
  VIEWS_MOST = 2 * CALL_TENSORS_MOST,
  EXTENTS_MOST = 4096 /* extents of all buffers of a call */
};

typedef struct run_t {
  const call_t *call;
  const xla_frame_t *frame;
  const call_device_t *device; /* where the buffers are; NULL: in host memory */
  tenon_value_t values[CALL_MOST];
  tenon_tensor_t *tensors[CALL_TENSORS_MOST]; /* the operands, in order */
  tenon_tensor_t *outputs[CALL_MOST];
  tenon_tensor_t views[VIEWS_MOST];
  tenon_tensor_t *owned[VIEWS_MOST]; /* are released when the call ends */
  int64_t strides[EXTENTS_MOST];
  size_t view_count;
  size_t stride_count;
  size_t owned_count;
  int64_t next_result; /* the next result buffer that has no owner yet */
} run_t;

/* Indexed by XLA's dtype. Those without bits have no counterpart. */
#define DTYPE(id)                                                                                  \
  { (uint8_t)(id), (uint8_t)((id) >> 8), (uint16_t)((id) >> 16) }
static const tenon_dtype_t dtypes[] = {
    [XLA_PRED] = DTYPE(TENON_BOOL),
    [XLA_S8] = DTYPE(TENON_I8),
    [XLA_S16] = DTYPE(TENON_I16),
    [XLA_S32] = DTYPE(TENON_I32),
    [XLA_S64] = DTYPE(TENON_I64),
    [XLA_U8] = DTYPE(TENON_U8),
    [XLA_U16] = DTYPE(TENON_U16),
    [XLA_U32] = DTYPE(TENON_U32),
    [XLA_U64] = DTYPE(TENON_U64),
    [XLA_F16] = DTYPE(TENON_F16),
    [XLA_F32] = DTYPE(TENON_F32),
    [XLA_F64] = DTYPE(TENON_F64),
    [XLA_C64] = DTYPE(TENON_C64),
    [XLA_BF16] = DTYPE(TENON_BF16),
    [XLA_C128] = DTYPE(TENON_C128),
    [XLA_F8E5M2] = DTYPE(TENON_F8E5M2),
    [XLA_F8E4M3FN] = DTYPE(TENON_F8E4M3FN),
    [XLA_F8E4M3B11FNUZ] = DTYPE(TENON_F8E4M3B11FNUZ),
    [XLA_F8E5M2FNUZ] = DTYPE(TENON_F8E5M2FNUZ),
    [XLA_F8E4M3FNUZ] = DTYPE(TENON_F8E4M3FNUZ),
    [XLA_F8E4M3] = DTYPE(TENON_F8E4M3),
    [XLA_F8E3M4] = DTYPE(TENON_F8E3M4),
    [XLA_F8E8M0] = DTYPE(TENON_F8E8M0),
};

tenon_dtype_t call_dtype(int32_t xla_dtype) { return dtypes[xla_dtype]; }

bool call_dtype_of(const xla_buffer_t *buffer, tenon_dtype_t *out_dtype) {
  const size_t known = sizeof dtypes / sizeof *dtypes;
  if (buffer->dtype < 0 || (size_t)buffer->dtype >= known) return false;
  *out_dtype = dtypes[buffer->dtype];
  return out_dtype->bits != 0;
}

const char *call_name(const call_t *call) {
  tenon_op_info_t info = {.size = sizeof info};
  if (!call->op) return "the model";
  tenon_op_info(call->op, &info);
  return info.name;
}

static tenon_status_t fail_call(const call_t *call, tenon_status_t status, const char *message) {
  char text[400];
  snprintf(text, sizeof text, "%s: %s", call_name(call), message);
  return tenon_error_set(status, text);
}

static tenon_status_t check_buffer(const run_t *r, const xla_buffer_t *buffer, int32_t type) {
  tenon_dtype_t dtype;
  char message[120];
  if (type != XLA_ARGUMENT_BUFFER)
    return fail_call(r->call, TENON_UNIMPLEMENTED, "an argument of the custom call is no buffer");
  if (buffer->rank < 0 || buffer->rank > TENON_RANK_MAX)
    return fail_call(r->call, TENON_UNIMPLEMENTED, "a tensor has more than 64 axes");
  if (call_dtype_of(buffer, &dtype)) return TENON_OK;
  snprintf(message, sizeof message, "XLA's dtype %d has no counterpart in Tenon",
           (int)buffer->dtype);
  return fail_call(r->call, TENON_UNIMPLEMENTED, message);
}

static tenon_status_t fail_too_many(const run_t *r) {
  return fail_call(r->call, TENON_UNIMPLEMENTED,
                   "the call has more than 512 tensors, or they have more than 4096 axes in all");
}

/* Takes over a tensor until the call ends. After an error the tensor is released. */
static tenon_status_t own_tensor(run_t *r, tenon_tensor_t *tensor) {
  if (r->owned_count == VIEWS_MOST) {
    tenon_tensor_release(tensor);
    return fail_too_many(r);
  }
  r->owned[r->owned_count++] = tensor;
  return TENON_OK;
}

/* Makes a tensor over a buffer on the device. */
static tenon_status_t import_buffer(run_t *r, const xla_buffer_t *buffer,
                                    tenon_tensor_t **out_tensor) {
  const tenon_status_t status = call_import(r->device, buffer->data, dtypes[buffer->dtype],
                                            (int32_t)buffer->rank, buffer->dims, NULL, out_tensor);
  return status == TENON_OK ? own_tensor(r, *out_tensor) : status;
}

/* Makes a tensor over a buffer: on the stack, or, on a device, of the host. */
static tenon_status_t view_buffer(run_t *r, const xla_buffer_t *buffer, int32_t type,
                                  tenon_tensor_t **out_view) {
  tenon_status_t status = check_buffer(r, buffer, type);
  if (status != TENON_OK) return status;
  if (r->device) return import_buffer(r, buffer, out_view);
  if (r->stride_count + (size_t)buffer->rank > EXTENTS_MOST || r->view_count == VIEWS_MOST)
    return fail_too_many(r);
  tenon_tensor_t *view = &r->views[r->view_count];
  status = tenon_tensor_view(view, call_data(buffer), dtypes[buffer->dtype], (int32_t)buffer->rank,
                             buffer->dims, NULL, r->strides + r->stride_count);
  if (status != TENON_OK) return status;
  r->view_count++;
  r->stride_count += (size_t)buffer->rank;
  *out_view = view;
  return TENON_OK;
}

/* Makes a view of the next result buffer. */
static tenon_status_t view_result(run_t *r, tenon_tensor_t **out_view) {
  const xla_buffers_t *results = &r->frame->results;
  if (r->next_result >= results->count)
    return fail_call(r->call, TENON_INVALID, "the custom call has fewer results than the operator");
  const int64_t k = r->next_result++;
  return view_buffer(r, results->items[k], results->types[k], out_view);
}

/* Copies a written operand to the buffer of its result, on the device. */
static tenon_status_t copy_operand(run_t *r, const xla_buffer_t *operand, tenon_tensor_t *result) {
  tenon_tensor_t *from = NULL;
  const tenon_status_t status = import_buffer(r, operand, &from);
  return status == TENON_OK ? tenon_tensor_copy_async(from, result) : status;
}

/* The buffer of a written operand is that of its result: XLA has copied the operand there, unless
 * they share memory already. */
static tenon_status_t view_written(run_t *r, const xla_buffer_t *operand,
                                   tenon_tensor_t **out_view) {
  const tenon_status_t status = view_result(r, out_view);
  if (status != TENON_OK) return status;
  const tenon_tensor_t *view = *out_view;
  const size_t size = (size_t)tenon_count(view) * (view->dtype.bits / 8);
  const xla_buffer_t *result = r->frame->results.items[r->next_result - 1];
  const size_t extents = (size_t)operand->rank * sizeof *operand->dims;
  if (operand->dtype != result->dtype || operand->rank != result->rank ||
      (extents && memcmp(operand->dims, result->dims, extents) != 0))
    return fail_call(r->call, TENON_INVALID,
                     "the result of an input that is written to has another shape or dtype");
  if (operand->data == result->data || !size) return TENON_OK;
  if (r->device) return copy_operand(r, operand, *out_view);
  memcpy(result->data, operand->data, size);
  return TENON_OK;
}

/* Replaces a view by a tensor that the call may keep. */
static tenon_status_t keep_view(run_t *r, const tenon_tensor_t *view, tenon_tensor_t **out) {
  const tenon_status_t status =
      tenon_tensor_borrow(view->data, view->dtype, view->ndim, view->shape, NULL, NULL, NULL, out);
  return status == TENON_OK ? own_tensor(r, *out) : status;
}

/* Copies a tensor of the device to the host, and waits for it. */
static tenon_status_t bring_to_host(run_t *r, const tenon_tensor_t *tensor, tenon_tensor_t **out) {
  const tenon_device_t host = {1, 0};
  const tenon_status_t status = tenon_tensor_copy_to(tensor, host, out);
  return status == TENON_OK ? own_tensor(r, *out) : status;
}

/* Makes the tensor of operand k. `is_host`: the host reads it. */
static tenon_status_t make_operand(run_t *r, size_t k, bool is_written, bool is_host) {
  const xla_buffers_t *operands = &r->frame->operands;
  const xla_buffer_t *buffer = operands->items[k];
  tenon_tensor_t *view = NULL;
  tenon_status_t status = check_buffer(r, buffer, operands->types[k]);
  if (status == TENON_OK)
    status = is_written ? view_written(r, buffer, &view)
                        : view_buffer(r, buffer, operands->types[k], &view);
  if (status != TENON_OK) return status;
  r->tensors[k] = view;
  if (r->device) /* Models run on the CPU. */
    return is_host || !r->call->op ? bring_to_host(r, view, &r->tensors[k]) : TENON_OK;
  return r->call->keeps ? keep_view(r, view, &r->tensors[k]) : TENON_OK;
}

/* Makes the tensors of the inputs, and the values that stand for them. */
static tenon_status_t make_inputs(run_t *r) {
  const call_t *call = r->call;
  size_t k = 0;
  for (uint32_t i = 0; i < call->input_count; i++) {
    const size_t first = k;
    for (int32_t n = 0; n < call->counts[i]; n++, k++) {
      const tenon_status_t status = make_operand(r, k, call->written >> i & 1, call->host >> i & 1);
      if (status != TENON_OK) return status;
    }
    tenon_value_t *value = &r->values[i];
    *value = (tenon_value_t){.kind = TENON_KIND_NONE};
    if (call->counts[i] < 0) continue;
    value->kind = call->is_list[i] ? TENON_KIND_TENSORS : TENON_KIND_TENSOR;
    value->count = (uint32_t)call->counts[i];
    if (call->is_list[i])
      value->as.tensors = r->tensors + first;
    else
      value->as.tensor = r->tensors[first];
  }
  memcpy(r->values + call->input_count, call->values + call->input_count,
         (call->value_count - call->input_count) * sizeof *r->values);
  return TENON_OK;
}

static tenon_status_t fail_result(const run_t *r, const tenon_tensor_t *t,
                                  const tenon_tensor_t *buffer, const char *advice) {
  char message[300];
  size_t at = (size_t)snprintf(message, sizeof message, "a result has dtype %s and shape [",
                               tenon_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->ndim && at < 100; d++)
    at += (size_t)snprintf(message + at, sizeof message - at, "%s%" PRId64, d ? ", " : "",
                           t->shape[d]);
  at +=
      (size_t)snprintf(message + at, sizeof message - at,
                       "]; the program was compiled for %s and [", tenon_dtype_name(buffer->dtype));
  for (int32_t d = 0; d < buffer->ndim && at < 250; d++)
    at += (size_t)snprintf(message + at, sizeof message - at, "%s%" PRId64, d ? ", " : "",
                           buffer->shape[d]);
  snprintf(message + at, sizeof message - at, "]%s", advice);
  return fail_call(r->call, TENON_RANGE, message);
}

/* Copies a shape to a buffer of integers. */
static tenon_status_t copy_shape(const tenon_tensor_t *t, tenon_tensor_t *to) {
  const int64_t count = t->ndim;
  tenon_tensor_t *shape = NULL; /* of the host, which keeps it until a device has read it */
  tenon_status_t status = tenon_tensor_create(tenon_dtype(TENON_I32), 1, &count, &shape);
  if (status != TENON_OK) return status;
  for (int32_t d = 0; d < t->ndim; d++)
    ((int32_t *)shape->data)[d] = (int32_t)t->shape[d];
  status = tenon_tensor_copy_async(shape, to);
  tenon_tensor_release(shape);
  return status;
}

/* Copies a result to the first elements of a buffer along each axis. */
static tenon_status_t copy_part(run_t *r, const tenon_tensor_t *t, const tenon_tensor_t *buffer) {
  tenon_tensor_t view = *buffer;
  tenon_tensor_t *part = &view;
  view.shape = t->shape;
  if (!tenon_count(t)) return TENON_OK;
  if (r->device) {
    const xla_buffer_t *whole = r->frame->results.items[r->next_result - 1];
    tenon_status_t status = call_import(r->device, whole->data, buffer->dtype, t->ndim, t->shape,
                                        buffer->strides, &part);
    if (status == TENON_OK) status = own_tensor(r, part);
    if (status != TENON_OK) return status;
  }
  return tenon_tensor_copy_async(t, part);
}

/* Copies a result to a larger buffer, whose other elements become 0, and its shape to the next
 * buffer. */
static tenon_status_t copy_padded(run_t *r, const tenon_tensor_t *t, tenon_tensor_t *buffer) {
  bool fits = t->ndim == buffer->ndim && tenon_dtype_id(t->dtype) == tenon_dtype_id(buffer->dtype);
  for (int32_t d = 0; d < t->ndim && fits; d++)
    fits = t->shape[d] <= buffer->shape[d];
  if (!fits) return fail_result(r, t, buffer, ": pass a larger bound with size=");
  tenon_tensor_t *shape = NULL;
  tenon_status_t status = zeros_fill(buffer);
  if (status == TENON_OK) status = copy_part(r, t, buffer);
  if (status == TENON_OK) status = view_result(r, &shape);
  if (status != TENON_OK) return status;
  if (tenon_dtype_id(shape->dtype) != TENON_I32 || shape->ndim != 1 ||
      tenon_count(shape) != t->ndim)
    return fail_call(r->call, TENON_INVALID, "the buffer of a shape has another shape or dtype");
  return copy_shape(t, shape);
}

/* Copies a result to the next buffer. */
static tenon_status_t copy_result(run_t *r, const tenon_tensor_t *t, bool is_padded) {
  tenon_tensor_t *buffer = NULL;
  const tenon_status_t status = view_result(r, &buffer);
  if (status != TENON_OK) return status;
  if (!r->device && t->device.type != 1)
    return fail_call(r->call, TENON_UNIMPLEMENTED,
                     "a result is not in host memory: JAX runs the operator on the CPU");
  if (is_padded) return copy_padded(r, t, buffer);
  bool fits = t->ndim == buffer->ndim && tenon_dtype_id(t->dtype) == tenon_dtype_id(buffer->dtype);
  for (int32_t d = 0; d < t->ndim && fits; d++)
    fits = t->shape[d] == buffer->shape[d];
  if (!fits) return fail_result(r, t, buffer, "");
  return tenon_count(t) ? tenon_tensor_copy_async(t, buffer) : TENON_OK;
}

static tenon_status_t copy_list(run_t *r, const tenon_tensor_t *list) {
  for (int64_t i = 0; i < list->shape[0]; i++) {
    const tenon_status_t status = copy_result(r, tenon_item(list, i), false);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

static tenon_status_t check_end(const run_t *r) {
  if (r->next_result == r->frame->results.count) return TENON_OK;
  return fail_call(r->call, TENON_INVALID, "the custom call has more results than the operator");
}

/* Views the buffers of the results that the operator writes to itself. */
static tenon_status_t make_outputs(run_t *r) {
  const call_t *call = r->call;
  memset(r->outputs, 0, call->output_count * sizeof *r->outputs);
  const bool is_given = call->op ? call->is_plain : !r->device;
  if (!is_given) return TENON_OK; /* They are copied. */
  for (uint32_t o = 0; o < call->output_count; o++) {
    const tenon_status_t status = view_result(r, &r->outputs[o]);
    if (status != TENON_OK) return status;
  }
  return check_end(r);
}

static tenon_status_t copy_outputs(run_t *r) {
  const call_t *call = r->call;
  tenon_status_t status = TENON_OK;
  for (uint32_t o = 0; o < call->output_count && status == TENON_OK; o++) {
    const tenon_tensor_t *t = r->outputs[o];
    if (call->results[o] == RESULT_WRITTEN || call->results[o] == RESULT_UNWANTED) continue;
    if (!t)
      status = fail_call(call, TENON_INTERNAL, "a result is missing");
    else if (tenon_dtype_id(t->dtype) == TENON_LIST)
      status = copy_list(r, t);
    else
      status = copy_result(r, t, call->results[o] == RESULT_PADDED);
  }
  return status == TENON_OK ? check_end(r) : status;
}

/* Calls the operator. In a plain call it writes to XLA's buffers. In other calls it allocates its
 * results, which are copied. */
static tenon_status_t run_forward(run_t *r) {
  const call_t *call = r->call;
  tenon_status_t status = make_outputs(r);
  if (status != TENON_OK) return status;
  if (call->op)
    status = tenon_op_call_values(call->op, r->values, call->value_count, r->outputs, call->wanted);
  else
    status = tenon_executable_run(call->model.executable, r->tensors, r->outputs, NULL);
  if (call->is_plain || (!call->op && !r->device)) return status;
  if (status == TENON_OK) status = copy_outputs(r);
  for (uint32_t o = 0; o < call->output_count; o++)
    tenon_tensor_release(r->outputs[o]);
  return status;
}

/* Copies a tangent to the next buffer; NULL stands for zeros. */
static tenon_status_t copy_tangent(run_t *r, const tenon_tensor_t *t) {
  tenon_tensor_t *buffer = NULL;
  if (t) return copy_result(r, t, false);
  const tenon_status_t status = view_result(r, &buffer);
  return status == TENON_OK ? zeros_fill(buffer) : status;
}

/* Computes tangents of the given results, whose shapes are those of the result buffers. */
static tenon_status_t compute_tangents(run_t *r, tenon_tensor_t **tangents, int32_t tangent_count,
                                       tenon_tensor_t **out, int32_t count) {
  tenon_tensor_t *zeros[CALL_TENSORS_MOST] = {NULL};
  tenon_status_t status = TENON_OK;
  for (int32_t k = 0; k < count && status == TENON_OK; k++) {
    tenon_tensor_t *buffer = NULL;
    status = view_result(r, &buffer);
    if (status == TENON_OK) status = zeros_like(buffer, &zeros[k]);
    if (status == TENON_OK) status = own_tensor(r, zeros[k]);
  }
  r->next_result = 0;
  if (status != TENON_OK) return status;
  return call_tangents(r->call, r->values, tangents, tangent_count, zeros, out, count);
}

/* Computes gradients of the requested inputs, or tangents of the given results. */
static tenon_status_t differentiate(run_t *r, tenon_tensor_t **grads, int32_t grad_count,
                                    tenon_tensor_t **out, int32_t count) {
  const call_t *call = r->call;
  if (!call->op) return model_gradients(&call->model, r->tensors, grads, grad_count, out, count);
  if (call->is_forward) return compute_tangents(r, grads, grad_count, out, count);
  return tenon_op_gradients(call->op, r->values, call->value_count, call->given, grads, grad_count,
                            call->requested, out, count);
}

/* Runs the call with a tape, and copies the gradients of the requested inputs, or the tangents of
 * the given results. */
static tenon_status_t run_gradient(run_t *r, size_t grad_count) {
  const call_t *call = r->call;
  tenon_tensor_t *made[CALL_TENSORS_MOST] = {NULL};
  const size_t first = call->operand_count;
  for (size_t k = first; k < first + grad_count; k++) {
    const tenon_status_t status = make_operand(r, k, false, false);
    if (status != TENON_OK) return status;
  }
  const int64_t count = r->frame->results.count;
  if (count > CALL_TENSORS_MOST)
    return fail_call(call, TENON_UNIMPLEMENTED, "more than 256 gradients are requested");
  tenon_status_t status =
      differentiate(r, r->tensors + first, (int32_t)grad_count, made, (int32_t)count);
  for (int64_t i = 0; i < count; i++) {
    if (status == TENON_OK) status = copy_tangent(r, made[i]);
    tenon_tensor_release(made[i]);
  }
  return status;
}

/* Makes the thread draw random numbers from a generator that the key seeds. */
static tenon_status_t use_key(run_t *r, tenon_generator_t **out_generator) {
  const xla_buffers_t *operands = &r->frame->operands;
  const xla_buffer_t *buffer = operands->items[operands->count - 1];
  tenon_tensor_t *key = NULL;
  if (buffer->dtype != XLA_U32 || buffer->rank != 1 || buffer->dims[0] != 2)
    return fail_call(r->call, TENON_INVALID,
                     "the key of a random operator has to be two numbers of type u32");
  tenon_status_t status = view_buffer(r, buffer, XLA_ARGUMENT_BUFFER, &key);
  if (status == TENON_OK && r->device) status = bring_to_host(r, key, &key);
  if (status != TENON_OK) return status;
  const uint32_t *words = key->data;
  return tenon_generator_create((uint64_t)words[0] << 32 | words[1], out_generator);
}

static tenon_status_t run_prepared(run_t *r, size_t grad_count) {
  const tenon_status_t status = make_inputs(r);
  if (status != TENON_OK) return status;
  return r->call->given ? run_gradient(r, grad_count) : run_forward(r);
}

static tenon_status_t run_random(run_t *r, size_t grad_count) {
  tenon_generator_t *generator = NULL;
  tenon_status_t status = use_key(r, &generator);
  if (status != TENON_OK) return status;
  tenon_generator_t *before = tenon_generator_use(generator);
  status = run_prepared(r, grad_count);
  (void)tenon_generator_use(before);
  tenon_generator_release(generator);
  return status;
}

tenon_status_t call_run(const call_t *call, const xla_frame_t *frame, const call_device_t *device) {
  run_t r;
  r.call = call;
  r.frame = frame;
  r.device = device;
  r.view_count = 0;
  r.stride_count = 0;
  r.owned_count = 0;
  r.next_result = 0;
  const int64_t least = (int64_t)call->operand_count + call->is_random;
  const int64_t grad_count = frame->operands.count - least;
  if (grad_count < 0 || (grad_count && !call->given) || frame->operands.count > CALL_TENSORS_MOST)
    return fail_call(
        call, TENON_INVALID,
        "the custom call has another number of operands than its attribute `call` states");
  const tenon_status_t status =
      call->is_random ? run_random(&r, (size_t)grad_count) : run_prepared(&r, (size_t)grad_count);
  for (size_t k = 0; k < r.owned_count; k++)
    tenon_tensor_release(r.owned[k]);
  return status;
}
