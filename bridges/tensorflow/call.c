/* Calls of operators, and of their gradients, from TensorFlow: its tensors become views, and the
 * memory of results passes to TensorFlow without a copy. The inputs of a node are
 *
 *     the tensors of all inputs, for gradients those of the results, the seed of random operators
 *
 * and its outputs are the new contents of written inputs, and the results; for gradients one for
 * each requested input. Items of lists count one by one. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "dtype.h"
#include "graph.h"
#include "text.h"

tenon_status_t call_fail(const call_t *c, tenon_status_t status, const char *format, ...) {
  char message[500];
  va_list arguments;
  int size = snprintf(message, sizeof message, "%s: ", c->kernel->self->name);
  va_start(arguments, format);
  (void)vsnprintf(message + size, sizeof message - (size_t)size, format, arguments);
  va_end(arguments);
  return tenon_error_set(status, message);
}

static tenon_status_t check_status(const call_t *c) {
  const int code = tf.TF_GetCode(c->status);
  return code == TF_OK ? TENON_OK : call_fail(c, code, "%s", tf.TF_Message(c->status));
}

/* ---- inputs ---- */

static int64_t *take_extents(call_t *c, int count) {
  if (count < 0 || c->extent_count + 2 * (size_t)count > EXTENTS_MOST) return NULL;
  int64_t *extents = c->extents + c->extent_count;
  c->extent_count += 2 * (size_t)count;
  return extents;
}

/* Makes the elements of a string tensor. */
static tenon_status_t read_texts(call_t *c, uint32_t k, size_t count) {
  const char *from = tf.TF_TensorData(c->handles[k]);
  tenon_string_t *texts = calloc(count + 1, sizeof *texts);
  if (!texts) return call_fail(c, TENON_MEMORY, "out of memory");
  c->texts[k] = texts;
  for (size_t i = 0; i < count; i++)
    texts[i] = text_read(from + i * TEXT_SIZE);
  c->views[k].data = texts;
  return TENON_OK;
}

tenon_status_t call_view(call_t *c, uint32_t k, const char *name) {
  tf_tensor_t *handle = c->handles[k];
  tenon_dtype_t dtype;
  const int code = tf.TF_TensorType(handle);
  const int rank = tf.TF_NumDims(handle);
  int64_t *extents = take_extents(c, rank);
  if (!tf_dtype_from(code, &dtype))
    return call_fail(c, TENON_INVALID,
                     "argument %s: Tenon has no tensors of dtype %s: convert it, or pass its "
                     "integers, its scale and its zero point as tensors of their own",
                     name, dtype_name(code));
  if (!extents || rank > TENON_RANK_MAX)
    return call_fail(c, TENON_UNIMPLEMENTED, "argument %s: it has %d axes, which is too many", name,
                     rank);
  for (int d = 0; d < rank; d++)
    extents[d] = tf.TF_Dim(handle, d);
  const tenon_status_t status = tenon_tensor_view(&c->views[k], tf.TF_TensorData(handle), dtype,
                                                  rank, extents, NULL, extents + rank);
  c->tensors[k] = &c->views[k];
  if (status != TENON_OK || code != TF_STRING) return status;
  return read_texts(c, k, (size_t)tenon_count(&c->views[k]));
}

tenon_status_t call_count_tensor(call_t *c, uint32_t k) {
  const tenon_tensor_t *view = &c->views[k];
  const tenon_status_t status = tenon_tensor_borrow(view->data, view->dtype, view->ndim,
                                                    view->shape, NULL, NULL, NULL, &c->tensors[k]);
  if (status == TENON_OK) c->counted_count = k + 1;
  return status;
}

/* Makes the output that has the new contents of an input that is written to; its handle replaces
 * that of the input. TensorFlow lends the memory of the input if nothing else needs it, and keeps
 * the input itself until the end of the call. */
static tenon_status_t write_input(call_t *c, uint32_t k, const char *name) {
  const tenon_tensor_t *view = &c->views[k];
  const int input = (int)k;
  const int output = c->next_output++;
  int forwarded = -1;
  const size_t size = tf.TF_TensorByteSize(c->handles[k]);
  const void *before = view->data;
  if (c->texts[k])
    return call_fail(c, TENON_UNIMPLEMENTED,
                     "argument %s: strings of TensorFlow cannot be written to", name);
  tf.TF_DeleteTensor(c->handles[k]);
  c->handles[k] = tf.TF_ForwardInputOrAllocateOutput(c->context, &input, 1, output, view->shape,
                                                     view->ndim, &forwarded, c->status);
  const tenon_status_t status = check_status(c);
  if (status != TENON_OK) return status;
  c->views[k].data = tf.TF_TensorData(c->handles[k]);
  if (c->views[k].data != before && size) memcpy(c->views[k].data, before, size);
  return TENON_OK;
}

/* Makes the tensors of one argument, beginning with tensor `first`. */
static tenon_status_t make_input(call_t *c, uint32_t i, uint32_t first) {
  const kernel_t *kernel = c->kernel;
  const side_t *side = &kernel->self->inputs[i];
  const int32_t count = kernel->counts[i];
  tenon_value_t *value = &c->values[i];
  *value = (tenon_value_t){.kind = TENON_KIND_NONE};
  if (count < 0) return TENON_OK;
  for (uint32_t k = first; k < first + (uint32_t)count; k++) {
    tenon_status_t status = call_view(c, k, side->of.name);
    if (status == TENON_OK && side->of.is_written && !kernel->given)
      status = write_input(c, k, side->of.name);
    if (status == TENON_OK && kernel->keeps) status = call_count_tensor(c, k);
    if (status != TENON_OK) return status;
  }
  value->kind = side->of.kind;
  value->count = (uint32_t)count;
  if (value->kind == TENON_KIND_TENSORS)
    value->as.tensors = c->tensors + first;
  else
    value->as.tensor = c->tensors[first];
  return TENON_OK;
}

static tenon_status_t convert_inputs(call_t *c) {
  const kernel_t *kernel = c->kernel;
  const operator_t *self = kernel->self;
  uint32_t first = 0;
  for (uint32_t i = 0; i < self->input_count; i++) {
    const tenon_status_t status = make_input(c, i, first);
    if (status != TENON_OK) return status;
    if (kernel->counts[i] > 0) first += (uint32_t)kernel->counts[i];
  }
  if (self->attr_count)
    memcpy(c->values + self->input_count, kernel->attr_values,
           self->attr_count * sizeof *kernel->attr_values);
  return TENON_OK;
}

/* ---- results ---- */

static bool is_row_major(const tenon_tensor_t *t) {
  int64_t next = 1;
  for (int32_t d = t->ndim - 1; d >= 0; next *= t->shape[d--])
    if (t->shape[d] != 1 && t->strides[d] != next) return tenon_count(t) == 0;
  return true;
}

static void release_result(void *data, size_t size, void *tensor) {
  (void)data;
  (void)size;
  tenon_tensor_release(tensor);
}

static bool is_within(const tenon_tensor_t *t, const tf_tensor_t *handle) {
  const uintptr_t begin = (uintptr_t)tf.TF_TensorData(handle);
  const uintptr_t at = (uintptr_t)t->data + t->byte_offset;
  return at >= begin && at < begin + tf.TF_TensorByteSize(handle);
}

/* Returns the input whose memory a result shares, or NULL. TensorFlow writes to the memory of
 * tensors that nothing else needs, so it must know about such sharing. */
static const tf_tensor_t *find_owner(const call_t *c, const tenon_tensor_t *t) {
  for (uint32_t k = 0; k < c->handle_count; k++)
    if (is_within(t, c->handles[k])) return c->handles[k];
  return NULL;
}

static tf_tensor_t *allocate_output(call_t *c, int code, const tenon_tensor_t *t) {
  return tf.TF_AllocateOutput(c->context, c->next_output, code, t->shape, t->ndim, 0, c->status);
}

static tenon_status_t copy_texts(call_t *c, const tenon_tensor_t *t, char *to) {
  const int64_t count = tenon_count(t);
  const tenon_string_t *texts = t->data;
  for (int64_t i = 0; i < count; i++)
    if (!text_write(to + i * TEXT_SIZE, texts[i].data, texts[i].size))
      return call_fail(c, TENON_MEMORY, "out of memory");
  return TENON_OK;
}

/* Copies a result to an output that TensorFlow allocates. */
static tenon_status_t copy_result(call_t *c, int code, const tenon_tensor_t *t) {
  tf_tensor_t *made = allocate_output(c, code, t);
  tenon_status_t status = check_status(c);
  if (status != TENON_OK) return status;
  tenon_tensor_t view;
  int64_t strides[TENON_RANK_MAX];
  status =
      tenon_tensor_view(&view, tf.TF_TensorData(made), t->dtype, t->ndim, t->shape, NULL, strides);
  if (status == TENON_OK && code == TF_STRING)
    status = copy_texts(c, t, view.data);
  else if (status == TENON_OK && tenon_count(t))
    status = tenon_tensor_copy_async(t, &view);
  tf.TF_DeleteTensor(made);
  return status;
}

static tenon_status_t set_output(call_t *c, tf_tensor_t *made) {
  if (!made) return call_fail(c, TENON_MEMORY, "out of memory");
  tf.TF_SetOutput(c->context, c->next_output, made, c->status);
  tf.TF_DeleteTensor(made);
  return check_status(c);
}

/* Makes an output of the memory of an input. */
static tenon_status_t share_input(call_t *c, int code, const tenon_tensor_t *t,
                                  const tf_tensor_t *owner) {
  tf_tensor_t *made = tf.TF_AllocateTensor(code, NULL, 0, t->dtype.bits / 8);
  if (!made) return call_fail(c, TENON_MEMORY, "out of memory");
  tf.TF_TensorBitcastFrom(owner, code, made, t->shape, t->ndim, c->status);
  const tenon_status_t status = check_status(c);
  if (status == TENON_OK) return set_output(c, made);
  tf.TF_DeleteTensor(made);
  return status;
}

static tenon_status_t verify_output(const call_t *c, const tenon_tensor_t *t, int *out_code) {
  if (t->detail)
    return call_fail(c, TENON_UNIMPLEMENTED,
                     "a result is sparse or quantised, which TensorFlow cannot hold in one tensor");
  if (t->device.type != 1)
    return call_fail(c, TENON_UNIMPLEMENTED, "a result is not in host memory");
  *out_code = tf_dtype_to(t->dtype);
  const int expected = tf.TF_ExpectedOutputDataType(c->context, c->next_output);
  if (*out_code == expected) return TENON_OK;
  return call_fail(c, TENON_INVALID,
                   "output %d of the node: the operator computes %s, and the node was made for %s",
                   c->next_output, tenon_dtype_name(t->dtype), dtype_name(expected));
}

tenon_status_t call_set_result(call_t *c, tenon_tensor_t *t) {
  int code = 0;
  tenon_status_t status = verify_output(c, t, &code);
  const size_t size = (size_t)tenon_count(t) * (t->dtype.bits / 8);
  const tf_tensor_t *owner = status == TENON_OK && size ? find_owner(c, t) : NULL;
  bool is_passed = false;
  if (status != TENON_OK) {
    /* The message is set. */
  } else if (owner && is_row_major(t) && size == tf.TF_TensorByteSize(owner)) {
    status = share_input(c, code, t, owner);
  } else if (owner || !size || code == TF_STRING || !is_row_major(t)) {
    status = copy_result(c, code, t);
  } else {
    is_passed = true;
    status =
        set_output(c, tf.TF_NewTensor(code, t->shape, t->ndim, (char *)t->data + t->byte_offset,
                                      size, release_result, t));
  }
  if (!is_passed) tenon_tensor_release(t);
  c->next_output++;
  return status;
}

/* Sets an output for each item. Takes the reference to the list over. */
static tenon_status_t set_item_outputs(call_t *c, tenon_tensor_t *list, const side_t *side,
                                       int32_t count) {
  tenon_status_t status = TENON_OK;
  if (list->shape[0] != count)
    status = call_fail(c, TENON_INVALID,
                       "result %s: the operator makes %lld tensors, and the node was made for %d",
                       side->of.name, (long long)list->shape[0], count);
  for (int64_t i = 0; i < count && status == TENON_OK; i++) {
    tenon_tensor_retain(tenon_item(list, i));
    status = call_set_result(c, tenon_item(list, i));
  }
  tenon_tensor_release(list);
  return status;
}

static tenon_status_t set_results(call_t *c, tenon_tensor_t **outputs) {
  const operator_t *self = c->kernel->self;
  tenon_status_t status = TENON_OK;
  for (uint32_t o = 0; o < self->output_count; o++) {
    tenon_tensor_t *t = outputs[o];
    const int32_t count = c->kernel->output_counts[o];
    const bool is_list = t && tenon_dtype_id(t->dtype) == TENON_LIST;
    if (status != TENON_OK || !operator_has_output(self, o) || (!count && !is_list))
      tenon_tensor_release(t);
    else if (!t)
      status = call_fail(c, TENON_INTERNAL, "result %s is missing", self->outputs[o].of.name);
    else if (is_list)
      status = set_item_outputs(c, t, &self->outputs[o], count);
    else
      status = call_set_result(c, t);
  }
  return status;
}

/* ---- calls ---- */

/* Keeps the shapes of a plain call. */
static void remember(call_t *c, tenon_tensor_t *const *outputs) {
  kernel_t *kernel = c->kernel;
  const operator_t *self = kernel->self;
  tenon_tensor_t *inputs[OPERATOR_MOST];
  if (!kernel->is_plain) return;
  for (uint32_t i = 0; i < self->input_count; i++) {
    const bool is_present = c->values[i].kind == TENON_KIND_TENSOR;
    inputs[i] = is_present ? c->values[i].as.tensor : NULL;
    if (is_present && tenon_dtype_id(inputs[i]->dtype) == TENON_STRING) return;
  }
  for (uint32_t o = 0; o < self->output_count; o++) {
    if (outputs[o]->detail || tenon_dtype_id(outputs[o]->dtype) == TENON_STRING) return;
    if (tf_dtype_to(outputs[o]->dtype) != tf.TF_ExpectedOutputDataType(c->context, (int)o)) return;
  }
  site_remember(kernel, inputs, outputs);
}

static tenon_status_t invoke_operator(call_t *c) {
  const operator_t *self = c->kernel->self;
  tenon_tensor_t *outputs[OPERATOR_MOST] = {NULL};
  const tenon_status_t status = tenon_op_call_values(
      self->op, c->values, self->input_count + self->attr_count, outputs, c->kernel->wanted);
  if (status != TENON_OK) return status;
  remember(c, outputs);
  return set_results(c, outputs);
}

tenon_status_t call_set_gradients(call_t *c, tenon_tensor_t **grads, int32_t count) {
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < count; i++) {
    if (status == TENON_OK)
      status = call_set_result(c, grads[i]);
    else
      tenon_tensor_release(grads[i]);
  }
  return status;
}

tenon_status_t call_view_gradients(call_t *c, uint32_t count) {
  const uint32_t first = c->kernel->tensor_count;
  tenon_status_t status = TENON_OK;
  for (uint32_t k = first; k < first + count && status == TENON_OK; k++) {
    status = call_view(c, k, "grad");
    if (status == TENON_OK) status = call_count_tensor(c, k);
  }
  return status;
}

static tenon_status_t call_gradient(call_t *c, uint32_t grad_count) {
  const kernel_t *kernel = c->kernel;
  const operator_t *self = kernel->self;
  tenon_tensor_t *made[OPERATOR_TENSORS_MOST] = {NULL};
  const int count = tf.TF_NumOutputs(c->context);
  if (count > OPERATOR_TENSORS_MOST)
    return call_fail(c, TENON_UNIMPLEMENTED, "more than 256 gradients are requested");
  tenon_status_t status = call_view_gradients(c, grad_count);
  if (status != TENON_OK) return status;
  status = tenon_op_gradients(self->op, c->values, self->input_count + self->attr_count,
                              kernel->given, c->tensors + kernel->tensor_count, (int32_t)grad_count,
                              kernel->requested, made, count);
  return status == TENON_OK ? call_set_gradients(c, made, count) : status;
}

/* Makes a generator from the two numbers of the seed. */
static tenon_status_t make_generator(const call_t *c, tenon_generator_t **out_generator) {
  const tf_tensor_t *seed = c->handles[c->handle_count - 1];
  if (tf.TF_TensorType(seed) != TF_INT64 || tf.TF_NumDims(seed) != 1 || tf.TF_Dim(seed, 0) != 2)
    return call_fail(c, TENON_INVALID,
                     "argument seed: expected two numbers of type int64, as tf.constant([1, 2])");
  const uint64_t *words = tf.TF_TensorData(seed);
  /* The odd factor keeps different pairs apart. */
  return tenon_generator_create(words[0] + 0x9E3779B97F4A7C15u * words[1], out_generator);
}

static tenon_status_t run_checked(call_t *c) {
  const kernel_t *kernel = c->kernel;
  const uint32_t least = kernel->tensor_count + kernel->self->is_random;
  if (c->handle_count < least || (c->handle_count > least && !kernel->given))
    return call_fail(c, TENON_INVALID, "the node has %u inputs, and its attributes state %u",
                     c->handle_count, least);
  if (kernel->model.executable) return graph_run(c, c->handle_count - least);
  const tenon_status_t status = convert_inputs(c);
  if (status != TENON_OK) return status;
  return kernel->given ? call_gradient(c, c->handle_count - least) : invoke_operator(c);
}

static tenon_status_t run_seeded(call_t *c) {
  tenon_generator_t *generator = NULL;
  if (!c->kernel->self->is_random || !c->handle_count) return run_checked(c);
  tenon_status_t status = make_generator(c, &generator);
  if (status != TENON_OK) return status;
  tenon_generator_t *before = tenon_generator_use(generator);
  status = run_checked(c);
  (void)tenon_generator_use(before);
  tenon_generator_release(generator);
  return status;
}

/* Runs a call whose shapes are new, or that is not plain. */
static void run_general(kernel_t *kernel, tf_context_t *context, tf_tensor_t **handles,
                        uint32_t count, tf_status_t *status) {
  call_t c;
  c.kernel = kernel;
  c.context = context;
  c.status = status;
  c.handles = handles;
  c.handle_count = count;
  c.counted_count = 0;
  c.next_output = 0;
  c.extent_count = 0;
  memset(c.texts, 0, count * sizeof *c.texts);
  const tenon_status_t code = run_seeded(&c);
  if (code != TENON_OK) tf.TF_SetStatus(status, code, tenon_error());
  for (uint32_t k = 0; k < c.counted_count && kernel->keeps; k++)
    tenon_tensor_release(c.tensors[k]);
  for (uint32_t k = 0; k < count; k++)
    free(c.texts[k]);
}

/* Takes the inputs. Returns how many; after a failure the status is set. */
static int take_inputs(tf_context_t *context, int count, tf_tensor_t **handles,
                       tf_status_t *status) {
  for (int k = 0; k < count; k++) {
    handles[k] = NULL;
    tf.TF_GetInput(context, k, &handles[k], status);
    if (!handles[k]) return k;
  }
  return count;
}

void kernel_compute(void *of, tf_context_t *context) {
  kernel_t *kernel = of;
  tf_tensor_t *handles[OPERATOR_TENSORS_MOST];
  tf_status_t *status = status_of_thread();
  const int count = tf.TF_NumInputs(context);
  int taken = 0;
  if (count > OPERATOR_TENSORS_MOST)
    tf.TF_SetStatus(status, TF_UNIMPLEMENTED, "a node of Tenon has more than 256 inputs");
  else
    taken = take_inputs(context, count, handles, status);
  if (taken == count && !(kernel->is_plain && (uint32_t)count == kernel->tensor_count &&
                          site_run(kernel, context, handles, status)))
    run_general(kernel, context, handles, (uint32_t)count, status);
  if (tf.TF_GetCode(status) != TF_OK) tf.TF_OpKernelContext_Failure(context, status);
  for (int k = 0; k < taken; k++)
    tf.TF_DeleteTensor(handles[k]);
}
