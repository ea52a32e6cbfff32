/* Calls of kernels; see frame.h. All memory comes from TensorFlow's allocator, so a result is a
 * tensor of TensorFlow from the start, and is handed over without a copy. */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler.h"
#include "variable.h"

enum {
  FRAME_LEAST = 96,       /* entries of each list, for a node with few tensors */
  FRAME_FOR_EACH = 8,     /* further entries for each input and output */
  FRAME_INTERMEDIATE = 64 /* of the entries: intermediate tensors of formulas */
};

/* ---- tensors --------------------------------------------------------------------------------- */

tenon_status_t frame_hold(frame_t *frame, tenon_tensor_t *tensor, value_t *out) {
  if (frame->held_count == frame->capacity) {
    tenon_tensor_release(tensor);
    return tenon_error_set(TENON_INTERNAL, "a formula has too many intermediate tensors");
  }
  frame->held[frame->held_count++] = tensor;
  *out = (value_t){.kind = VALUE_TENSOR, .tensor = tensor};
  return TENON_OK;
}

tenon_status_t frame_keep(frame_t *frame, tf_tensor_t *tensor) {
  if (frame->tensor_count == frame->capacity) {
    tf.TF_DeleteTensor(tensor);
    return tenon_error_set(TENON_INTERNAL, "a formula has too many tensors");
  }
  frame->tensors[frame->tensor_count++] = tensor;
  return TENON_OK;
}

tenon_status_t frame_list(frame_t *frame, int32_t count, value_t *out) {
  if (count < 0 || count > frame->capacity - frame->list_count)
    return tenon_error_set(TENON_INTERNAL, "a formula has too many items of lists");
  *out = (value_t){.kind = VALUE_LIST, .count = count, .tensors = &frame->lists[frame->list_count]};
  frame->list_count += count;
  return TENON_OK;
}

static tenon_status_t take_status(tf_status_t *status) {
  const int code = tf.TF_GetCode(status);
  if (code == TF_OK) return TENON_OK;
  return tenon_error_set(code, tf.TF_Message(status));
}

/* Views a tensor of TensorFlow; the caller releases the view. */
static tenon_status_t view_tensor(const frame_t *frame, const tf_tensor_t *tensor, bool is_host,
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
  if (is_host)
    return tenon_tensor_borrow(tf.TF_TensorData(tensor), dtype, rank, shape, NULL, NULL, NULL, out);
  if (tf.TF_TensorByteSize(tensor) == 0)
    return tenon_tensor_create_on(frame->device->device, dtype, rank, shape, out);
  return memory_view(tf.TF_TensorData(tensor), dtype, rank, shape, out);
}

tenon_status_t frame_view(frame_t *frame, const tf_tensor_t *tensor, bool is_host, value_t *out) {
  tenon_tensor_t *view = NULL;
  const tenon_status_t status = view_tensor(frame, tensor, is_host, &view);
  return status == TENON_OK ? frame_hold(frame, view, out) : status;
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
  if (result == TENON_OK) result = frame_keep(frame, made);
  if (result == TENON_OK) result = view_tensor(frame, made, false, out_tensor);
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

tenon_status_t frame_input(frame_t *frame, int index, tf_tensor_t **out) {
  tf_status_t *status = tf.TF_NewStatus();
  tf.TF_GetInput(frame->context, index, out, status);
  const tenon_status_t result = take_status(status);
  tf.TF_DeleteStatus(status);
  return result == TENON_OK ? frame_keep(frame, *out) : result;
}

tenon_status_t frame_read(frame_t *frame, int index, bool is_host, value_t *out) {
  tf_tensor_t *tensor = NULL;
  const tenon_status_t status = frame_input(frame, index, &tensor);
  return status == TENON_OK ? frame_view(frame, tensor, is_host, out) : status;
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

int32_t frame_find(const frame_t *frame, const tenon_tensor_t *result) {
  for (int32_t i = 0; i < frame->tensor_count; i++)
    if (is_same(frame->tensors[i], result)) return i;
  return -1;
}

static tenon_status_t copy_result(frame_t *frame, int32_t index, const tenon_tensor_t *result,
                                  tf_status_t *status) {
  tenon_tensor_t *view = NULL;
  const bool is_host = result->device.type == 1;
  const size_t bytes = (size_t)tenon_count(result) * result->dtype.bits / 8;
  tf_tensor_t *made = tf.TF_AllocateOutput(frame->context, index, dtype_to_tf(result->dtype),
                                           result->shape, result->ndim, bytes, status);
  tenon_status_t done = take_status(status);
  if (done == TENON_OK) done = frame_keep(frame, made);
  if (done == TENON_OK && bytes > 0) done = view_tensor(frame, made, is_host, &view);
  if (done == TENON_OK && bytes > 0) done = tenon_tensor_copy_async(result, view);
  tenon_tensor_release(view);
  return done;
}

tenon_status_t frame_set_result(frame_t *frame, int32_t index, const tenon_tensor_t *result) {
  char text[200];
  const int wanted = tf.TF_ExpectedOutputDataType(frame->context, index);
  if (dtype_to_tf(result->dtype) != wanted) {
    snprintf(text, sizeof text, "result %d has dtype %s, and TensorFlow expects its dtype %d",
             index, tenon_dtype_name(result->dtype), wanted);
    return tenon_error_set(TENON_INTERNAL, text);
  }
  tf_status_t *status = tf.TF_NewStatus();
  const bool is_on_device = result->device.type != 1 && tenon_count(result) > 0;
  const int32_t whole = is_on_device ? frame_find(frame, result) : -1;
  tenon_status_t done = TENON_OK;
  if (whole >= 0) {
    tf.TF_SetOutput(frame->context, index, frame->tensors[whole], status);
    done = take_status(status);
  } else {
    done = copy_result(frame, index, result, status);
  }
  tf.TF_DeleteStatus(status);
  return done;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Makes a frame with room for the tensors of the node. NULL: out of memory. */
static frame_t *make_frame(tf_context_t *context, const char *name) {
  const int32_t tensors = tf.TF_NumInputs(context) + tf.TF_NumOutputs(context);
  const int32_t capacity = FRAME_LEAST + FRAME_INTERMEDIATE + FRAME_FOR_EACH * tensors;
  frame_t *frame = malloc(sizeof *frame + 3 * (size_t)capacity * sizeof(void *));
  if (!frame) return NULL;
  frame->name = name;
  frame->context = context;
  frame->kernel = NULL;
  frame->capacity = capacity;
  frame->held = (tenon_tensor_t **)(frame + 1);
  frame->lists = frame->held + capacity;
  frame->tensors = (tf_tensor_t **)(frame->lists + capacity);
  frame->held_count = 0;
  frame->list_count = 0;
  frame->tensor_count = 0;
  memset(frame->is_done, 0, sizeof frame->is_done);
  return frame;
}

static void end_frame(frame_t *frame) {
  if (!frame) return;
  for (int32_t i = 0; i < frame->held_count; i++)
    tenon_tensor_release(frame->held[i]);
  for (int32_t i = 0; i < frame->tensor_count; i++)
    tf.TF_DeleteTensor(frame->tensors[i]);
  free(frame);
}

static void report_failure(const char *name, tf_context_t *context, tenon_status_t failure) {
  char text[1200];
  tf_status_t *status = tf.TF_NewStatus();
  snprintf(text, sizeof text, "%s: %s", name, tenon_error());
  tf.TF_SetStatus(status, failure, text);
  tf.TF_OpKernelContext_Failure(context, status);
  tf.TF_DeleteStatus(status);
}

static tenon_status_t run_in_stream(frame_t *frame, stream_t *stream,
                                    tenon_status_t (*work)(frame_t *frame, void *argument),
                                    void *argument) {
  const tenon_allocator_t allocator = {allocate_tensor, frame};
  tenon_stream_t *before = NULL;
  tenon_status_t status = enter_stream(stream, &before);
  if (status != TENON_OK) return status;
  const tenon_allocator_t *allocator_before = tenon_allocator_use(&allocator);
  if (frame->is_update) variable_lock_updates();
  span_t *span = span_begin(stream, frame->name);
  status = work(frame, argument);
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

void frame_run(tf_context_t *context, const char *name, bool is_update,
               tenon_status_t (*work)(frame_t *frame, void *argument), void *argument) {
  tf_status_t *status = tf.TF_NewStatus();
  stream_t *stream = (stream_t *)tf.TF_GetStream(context, status);
  tenon_status_t result = take_status(status);
  tf.TF_DeleteStatus(status);
  frame_t *frame = result == TENON_OK ? make_frame(context, name) : NULL;
  if (!frame && result == TENON_OK)
    result = tenon_error_set(TENON_MEMORY, "out of memory: the frame of a kernel");
  if (frame) {
    frame->device = stream->device;
    frame->is_update = is_update;
    result = run_in_stream(frame, stream, work, argument);
  }
  if (result != TENON_OK) report_failure(name, context, result);
  end_frame(frame);
}
