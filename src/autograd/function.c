/* Functions of a program with a backward of their own; see tenon.h. Invariant: the context of each
 * call is destroyed exactly once, together with the call's tape node, or at once if there is
 * none. */
#include "autograd/function.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"

typedef struct saving_t { /* a function whose forward is running */
  tn_function_t *function;
  size_t capacity;
} saving_t;

void tn_function_clear(tn_function_t *function) {
  for (uint32_t i = 0; i < function->saved_count; i++)
    tn_saved_clear(&function->saved[i]);
}

void tn_function_free(tn_function_t *function) {
  if (!function) return;
  tn_function_clear(function);
  if (function->destroy) function->destroy(function->context);
  tn_release_memory(function->saved);
  tn_release_memory(function);
}

static tenon_status_t create_function(const tenon_function_t *from, tn_function_t **out) {
  size_t size = strlen(from->name ? from->name : "a function") + 1;
  tn_function_t *function = tn_allocate_zero(1, sizeof *function + size);
  if (!function) {
    if (from->destroy) from->destroy(from->context);
    return tn_no_memory("a function", sizeof *function + size);
  }
  memcpy(function + 1, from->name ? from->name : "a function", size);
  function->name = (const char *)(function + 1);
  function->backward = from->backward;
  function->context = from->context;
  function->destroy = from->destroy;
  *out = function;
  return TENON_OK;
}

tenon_status_t tenon_function_save(tenon_function_call_t *call, tenon_tensor_t *tensor) {
  if (call->grads || !call->host)
    return tn_fail(TENON_PRECONDITION, "tenon_function_save can only be called in forward");
  saving_t *saving = call->host;
  tn_function_t *f = saving->function;
  if (!tn_grow((void **)&f->saved, &saving->capacity, f->saved_count, sizeof *f->saved))
    return tn_no_memory("a saved tensor", sizeof *f->saved);
  tn_saved_t *saved = &f->saved[f->saved_count];
  *saved = (tn_saved_t){0};
  if (tensor && !tn_tensor_is_owned(tensor))
    TN_TRY(tenon_tensor_copy(tensor, &saved->tensor));
  else if (tensor) {
    tenon_tensor_retain(saved->tensor = tensor);
    saved->version = tn_tensor_version(tensor);
  }
  f->saved_count++;
  return TENON_OK;
}

tenon_status_t tenon_function_saved(tenon_function_call_t *call, int32_t index,
                                    tenon_tensor_t **out_tensor) {
  const tn_function_t *f = call->host;
  char name[40];
  if (!call->grads)
    return tn_fail(TENON_PRECONDITION, "tenon_function_saved can only be called in backward");
  if (index < 0 || (uint32_t)index >= f->saved_count)
    return tn_fail(TENON_RANGE, "%s: saved tensor %d does not exist: forward saved %u", f->name,
                   (int)index, f->saved_count);
  *out_tensor = NULL;
  if (!tn_saved_is_set(&f->saved[index])) return TENON_OK;
  snprintf(name, sizeof name, "saved tensor %d", (int)index);
  return tn_saved_get(&f->saved[index], f->name, name, out_tensor);
}

/* An output that is one of the inputs is replaced by a new tensor on the same memory. */
static tenon_status_t separate_output(tenon_tensor_t *const *inputs, int32_t input_count,
                                      tenon_tensor_t **output) {
  for (int32_t i = 0; i < input_count; i++) {
    tenon_tensor_t *own;
    if (*output != inputs[i]) continue;
    TN_TRY(tenon_tensor_detach(*output, &own));
    tenon_tensor_release(*output);
    *output = own;
  }
  return TENON_OK;
}

static tenon_status_t check_outputs(const tn_function_t *f, const tenon_function_call_t *call) {
  for (int32_t o = 0; o < call->output_count; o++) {
    if (!call->outputs[o])
      return tn_fail(TENON_INVALID, "%s: forward returned no output %d", f->name, (int)o);
    if (!tn_tensor_is_owned(call->outputs[o]) || tn_dtype_is(call->outputs[o]->dtype, TENON_LIST))
      return tn_fail(TENON_INVALID,
                     "%s: output %d is a list or a view on a caller's stack: expected a tensor "
                     "of tenon_tensor_create",
                     f->name, (int)o);
    TN_TRY(separate_output(call->inputs, call->input_count, &call->outputs[o]));
  }
  return TENON_OK;
}

static tenon_status_t check_inputs(const tn_function_t *f, tenon_tensor_t *const *inputs,
                                   int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const tn_storage_t *storage = inputs[i] && tn_tensor_is_owned(inputs[i])
                                      ? ((const tn_tensor_t *)inputs[i])->storage
                                      : NULL;
    if (storage && storage->is_inference)
      return tn_fail(TENON_PRECONDITION,
                     "%s: input %d was created in inference mode and cannot be used while "
                     "gradients are recorded: copy it outside inference mode",
                     f->name, (int)i);
  }
  return TENON_OK;
}

/* Replaces the saved tensors themselves, which a node must not hold (see node.h), by saved copies
 * of their headers. */
static tenon_status_t settle_saved(tn_function_t *f, tn_node_t *node,
                                   tenon_tensor_t *const *outputs) {
  for (uint32_t i = 0; i < f->saved_count; i++) {
    tenon_tensor_t *tensor = f->saved[i].tensor;
    uint64_t version = f->saved[i].version;
    tn_history_t *own = NULL;
    if (!tensor) continue;
    for (uint32_t o = 0; o < node->result_count; o++)
      if (tensor == outputs[o]) own = &node->results[o];
    f->saved[i] = (tn_saved_t){0};
    tenon_status_t status = tn_saved_set(&f->saved[i], tensor, own, NULL);
    tenon_tensor_release(tensor);
    if (status != TENON_OK) return status;
    f->saved[i].version = version;
  }
  return TENON_OK;
}

static tenon_status_t record_function(tn_function_t **function, const tenon_function_call_t *call) {
  tn_node_t *node;
  int64_t *extents;
  tn_node_shape_t shape = {.edge_count = (uint32_t)call->input_count,
                           .result_count = (uint32_t)call->output_count};
  for (int32_t o = 0; o < call->output_count; o++)
    shape.extents += (size_t)call->outputs[o]->ndim;
  TN_TRY(tn_node_create(TN_NODE_FUNCTION, &shape, &node, &extents));
  node->function = *function;
  *function = NULL;
  for (int32_t i = 0; i < call->input_count; i++) {
    tn_history_t *history = tn_history_of(call->inputs[i]);
    if (!history) continue;
    node->edges[i].to = history;
    tn_node_retain(history->node);
    if (node->sequence <= history->node->sequence) node->sequence = history->node->sequence + 1;
  }
  for (int32_t o = 0; o < call->output_count; o++) {
    tn_history_describe(&node->results[o], node, call->outputs[o], &extents);
    if (node->results[o].is_float) tn_history_set(call->outputs[o], &node->results[o]);
  }
  tenon_status_t status = settle_saved(node->function, node, call->outputs);
  tn_node_release(node);
  return status;
}

tenon_status_t tenon_function_call(const tenon_function_t *function, tenon_tensor_t *const *inputs,
                                   int32_t input_count, tenon_tensor_t **outputs,
                                   int32_t output_count) {
  TN_TRY(tenon_start());
  tn_function_t *own = NULL;
  bool before = tn_tape_is_on();
  bool any = false;
  for (int32_t i = 0; i < input_count && before; i++)
    any |= tn_history_of(inputs[i]) != NULL;
  TN_TRY(create_function(function, &own));
  saving_t saving = {own, 0};
  tenon_function_call_t call = {.size = sizeof call,
                                .input_count = input_count,
                                .output_count = output_count,
                                .context = function->context,
                                .inputs = inputs,
                                .outputs = outputs,
                                .host = &saving};
  for (int32_t o = 0; o < output_count; o++)
    outputs[o] = NULL;
  tenon_status_t status = any ? check_inputs(own, inputs, input_count) : TENON_OK;
  if (status == TENON_OK) {
    tn_tape_set(false);
    status = function->forward(&call);
    tn_tape_set(before);
  }
  if (status == TENON_OK) status = check_outputs(own, &call);
  if (status == TENON_OK && any) status = record_function(&own, &call);
  tn_function_free(own);
  for (int32_t o = 0; o < output_count && status != TENON_OK; o++) {
    tenon_tensor_release(outputs[o]);
    outputs[o] = NULL;
  }
  return status;
}

tenon_status_t tn_function_backward(const tn_node_t *node, tenon_tensor_t *const *grads,
                                    const bool *needs, tenon_tensor_t **out_grads) {
  tenon_function_call_t call = {.size = sizeof call,
                                .input_count = (int32_t)node->edge_count,
                                .output_count = (int32_t)node->result_count,
                                .context = node->function->context,
                                .grads = grads,
                                .out_grads = out_grads,
                                .host = node->function};
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (needs[i]) call.needs |= (uint64_t)1 << (i < 63 ? i : 63);
  tenon_status_t status = node->function->backward(&call);
  return status == TENON_OK ? status : tn_prefix(status, "backward of %s: ", node->function->name);
}
