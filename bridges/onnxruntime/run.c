/* Calls a kernel of a library. The frame of a call is on the stack unless it has many tensors, and
 * an existing kernel is found without a lock. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/ort_element.h"
#include "context.h"
#include "status.h"

enum { FEW = 8 }; /* up to this number of inputs and of results, the frame is on the stack */

/* the frame */

/* The number of items of a list; NULL: there is none. */
static size_t count_items(const tenon_tensor_t *list) { return list ? (size_t)list->shape[0] : 0; }

static void list_call_inputs(OrtKernelContext *context) {
  const operator_t *op = context->op;
  tenon_tensor_t *const *inputs = context->call->inputs;
  const size_t single = op->in_count - op->has_input_list;
  uint32_t count = 0;
  for (size_t i = 0; i < single; i++)
    context->inputs[count++] = (OrtValue){.tensor = inputs[i]};
  const tenon_tensor_t *list = single < op->in_count ? inputs[single] : NULL;
  for (int64_t k = 0; list && k < list->shape[0]; k++)
    context->inputs[count++] = (OrtValue){.tensor = tenon_item(list, k)};
  while (count && !context->inputs[count - 1].tensor)
    count--;
  context->in_count = count;
}

static void list_call_results(OrtKernelContext *context) {
  const operator_t *op = context->op;
  tenon_call_t *call = context->call;
  const size_t single = op->out_count - op->has_output_list;
  uint32_t count = 0;
  for (size_t i = 0; i < single; i++)
    context->results[count++] =
        (result_t){.value.call = call, .target = call->outputs[i], .output = (uint32_t)i};
  const tenon_tensor_t *list = single < op->out_count ? call->outputs[single] : NULL;
  for (int64_t k = 0; list && k < list->shape[0]; k++)
    context->results[count++] = (result_t){.value.call = call,
                                           .target = tenon_item(list, k),
                                           .output = (uint32_t)single,
                                           .is_item = true};
  while (count && !context->results[count - 1].target)
    count--;
  context->out_count = count;
}

/* the kernel */

static const kernel_t *find_call_kernel(OrtKernelContext *context, uint8_t *elements, char *why) {
  if (context->call->plan) return context->call->plan;
  signature_t signature = {
      .elements = elements, .in_count = context->in_count, .out_count = context->out_count};
  for (uint32_t i = 0; i < context->in_count; i++) {
    const tenon_tensor_t *tensor = context->inputs[i].tensor;
    elements[i] = tensor ? (uint8_t)element_of(tensor->dtype) : 0;
  }
  for (uint32_t i = 0; i < context->out_count && i < 64; i++)
    if (context->results[i].target) signature.wanted |= (uint64_t)1 << i;
  return state_kernel(context->call->state, &signature, why, WHY);
}

typedef struct compute_t {
  OrtKernelContext *context;
  OrtStatus *status;
} compute_t;

static int compute_kernel(void *argument) {
  compute_t *c = argument;
  const kernel_t *kernel = c->context->kernel;
  const OrtCustomOp *op = kernel->overload->op;
  if (kernel->overload->version >= SINCE_STATUS && op->KernelComputeV2)
    c->status = op->KernelComputeV2(kernel->object, c->context);
  else
    op->KernelCompute(kernel->object, c->context);
  return 1;
}

/* Joins the items of the list of results, some of which are temporaries. */
static tenon_status_t assign_list(OrtKernelContext *context) {
  tenon_call_t *call = context->call;
  const size_t first = context->op->out_count - 1;
  const int64_t count = call->outputs[first]->shape[0];
  bool is_moved = false;
  for (int64_t k = 0; k < count; k++) {
    const result_t *result = &context->results[first + (size_t)k];
    is_moved |= result->value.tensor != result->target;
  }
  if (!is_moved) return TENON_OK;
  tenon_tensor_t **items = call->host->allocate(call, (uint64_t)count * sizeof(tenon_tensor_t *));
  if (!items) return TENON_MEMORY;
  for (int64_t k = 0; k < count; k++)
    items[k] = context->results[first + (size_t)k].value.tensor;
  tenon_tensor_t list = *call->outputs[first];
  list.data = items;
  return call->host->assign(call, (uint32_t)first, &list);
}

static tenon_status_t check_call_results(OrtKernelContext *context) {
  for (uint32_t i = 0; i < context->out_count; i++)
    if (context->results[i].target && !context->results[i].value.tensor)
      return tenon_fail(context->call, TENON_UNKNOWN, "its kernel returned without output %u", i);
  if (!context->op->has_output_list) return TENON_OK;
  return assign_list(context);
}

static tenon_status_t run_context(OrtKernelContext *context, uint8_t *elements) {
  char why[WHY];
  compute_t c = {.context = context};
  why[0] = 0;
  list_call_inputs(context);
  list_call_results(context);
  context->kernel = find_call_kernel(context, elements, why);
  if (!context->kernel) return tenon_fail(context->call, TENON_UNKNOWN, "%s", why);
  if (guard_call(compute_kernel, &c, why, sizeof why) < 0 || c.status) {
    if (c.status) (void)status_take(c.status, why, sizeof why);
    return tenon_fail(context->call, TENON_UNKNOWN, "%s", why);
  }
  return check_call_results(context);
}

static tenon_status_t run_large(OrtKernelContext *context, size_t in_most, size_t out_most) {
  context->inputs = malloc((in_most + 1) * sizeof *context->inputs);
  context->results = malloc((out_most + 1) * sizeof *context->results);
  uint8_t *elements = malloc(in_most + 1);
  tenon_status_t status = context->inputs && context->results && elements
                              ? run_context(context, elements)
                              : tenon_fail(context->call, TENON_MEMORY, "out of memory");
  free(context->inputs);
  free(context->results);
  free(elements);
  return status;
}

tenon_status_t run_kernel(tenon_call_t *call) {
  const state_t *state = call->state;
  OrtKernelContext context = {.call = call, .op = state->op};
  const operator_t *op = state->op;
  size_t in_most = op->in_count;
  size_t out_most = op->out_count;
  if (op->has_input_list) in_most += count_items(call->inputs[op->in_count - 1]);
  if (op->has_output_list) out_most += count_items(call->outputs[op->out_count - 1]);
  if (in_most > FEW || out_most > FEW) return run_large(&context, in_most, out_most);
  OrtValue inputs[FEW];
  result_t results[FEW];
  uint8_t elements[FEW];
  context.inputs = inputs;
  context.results = results;
  return run_context(&context, elements);
}
