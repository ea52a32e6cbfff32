/* Evaluates gradient formulas; see formula.h. A formula is a call whose arguments are saved
 * tensors, attributes, gradients, literals and other calls. Backward calls it for one node at a
 * time. Invariant: temporary tensors are released when their formula is done. */
#include "autograd/formula.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "dispatch/call.h"
#include "dispatch/mixed.h"
#include "operator/attrs.h"
#include "operator/gradient_call.h"
#include "operator/names.h"
#include "storage/device_memory.h"

typedef struct made_t { /* temporary tensors of a formula */
  struct made_t *next;
  tenon_tensor_t *tensor;
} made_t;

typedef struct evaluation_t { /* a formula that is being evaluated */
  const tn_node_t *node;
  tenon_tensor_t *const *grads;
  made_t *made;
  tn_arena_t arena; /* of attribute values */
} evaluation_t;

enum { RESULTS_MAX = 64 };

static tenon_status_t keep_tensor(evaluation_t *r, tenon_tensor_t *tensor) {
  made_t *made = tn_arena_allocate(&r->arena, sizeof *made);
  if (!made) {
    tenon_tensor_release(tensor);
    return tn_no_memory("a gradient", sizeof *made);
  }
  *made = (made_t){r->made, tensor};
  r->made = made;
  return TENON_OK;
}

tenon_status_t tn_extents(int32_t count, const int64_t *numbers, tenon_tensor_t **out_tensor) {
  int64_t extent = count;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &extent, out_tensor));
  if (count) memcpy((*out_tensor)->data, numbers, (size_t)count * sizeof *numbers);
  return TENON_OK;
}

tenon_status_t tn_core_call(const char *name, const tenon_value_t *attrs, tenon_tensor_t *first,
                            tenon_tensor_t *second, tenon_tensor_t **out_tensor) {
  const tenon_op_t *op = tn_registry_find(name);
  if (!op) return tn_fail(TENON_NOT_FOUND, "%s: the runtime has shut down", name);
  *out_tensor = NULL;
  int32_t before;
  TN_TRY(tn_mixed_begin_parts(NULL, &before));
  tenon_status_t status =
      tn_call(op, attrs, (tenon_tensor_t *[]){first, second, NULL, NULL}, out_tensor, 1, NULL);
  tn_mixed_end_parts(before);
  return status;
}

static tenon_status_t fill_on_cpu(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                  int value, tenon_tensor_t **out_tensor) {
  tenon_tensor_t *t;
  char one[16] = {0}; /* the number 1 in this dtype; a complex number starts with its real part */
  TN_TRY(tenon_tensor_create(dtype, ndim, shape, &t));
  int64_t count = tenon_count(t);
  size_t size = (size_t)dtype.bits / 8;
  tenon_dtype_t real = dtype;
  if (tn_dtype_is(dtype, TENON_C128)) real = tenon_dtype(TENON_F64);
  if (tn_dtype_is(dtype, TENON_C64)) real = tenon_dtype(TENON_F32);
  tn_put_float(1, real, one);
  memset(t->data, 0, (size_t)count * size);
  for (int64_t i = 0; i < count && value; i++)
    memcpy((char *)t->data + (size_t)i * size, one, size);
  *out_tensor = t;
  return TENON_OK;
}

tenon_status_t tn_filled(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                         const int64_t *shape, int value, tenon_tensor_t **out_tensor) {
  tenon_tensor_t *here = NULL;
  tenon_tensor_t *there = NULL;
  tenon_tensor_t *extents = NULL;
  if (device.type == 1) return fill_on_cpu(dtype, ndim, shape, value, out_tensor);
  if (device.type == 0)
    return tn_device_tensor_create(device, dtype, ndim, shape, out_tensor); /* meta */
  TN_TRY(fill_on_cpu(dtype, 0, NULL, value, &here));
  tenon_status_t status = tenon_tensor_copy_to(here, device, &there);
  if (status == TENON_OK) status = tn_extents(ndim, shape, &extents);
  if (status == TENON_OK) status = tn_core_call("core::expand", NULL, there, extents, out_tensor);
  tenon_tensor_release(here);
  tenon_tensor_release(there);
  tenon_tensor_release(extents);
  return status;
}

/* Float literals have the dtype of the gradients that arrived. */
static tenon_dtype_t float_of(const evaluation_t *r) {
  for (uint32_t i = 0; i < r->node->result_count; i++)
    if (r->grads[i]) return r->grads[i]->dtype;
  return tenon_dtype(TENON_F64);
}

/* The device of the node is the device of its gradients. */
static tenon_device_t device_of(const evaluation_t *r) {
  for (uint32_t i = 0; i < r->node->result_count; i++)
    if (r->grads[i]) return r->grads[i]->device;
  return (tenon_device_t){1, 0};
}

/* Creates a tensor for an input that is given by a literal or an attribute. */
static tenon_status_t tensor_of(evaluation_t *r, const tenon_value_t *value,
                                tenon_tensor_t **out_tensor) {
  TN_TRY(tn_gradient_tensor(value, float_of(r), out_tensor));
  return *out_tensor ? keep_tensor(r, *out_tensor) : TENON_OK;
}

/* The first edge of input i, or the first result of output i. */
static uint32_t start_of(const tn_node_t *node, bool is_result, uint32_t i) {
  if (!node->starts) return i;
  return node->starts[is_result ? i + node->op->input_count + 1 : i];
}
static uint32_t end_of(const tn_node_t *node, bool is_result, uint32_t i) {
  return start_of(node, is_result, i + 1);
}

/* Returns the gradient of one result, or zeros if none arrived. */
static tenon_status_t grad_at(evaluation_t *r, uint32_t at, tenon_tensor_t **out_tensor) {
  const tn_history_t *result = &r->node->results[at];
  *out_tensor = r->grads[at];
  if (*out_tensor) return TENON_OK;
  bool is_plain = result->node && result->is_float;
  if (!is_plain && !(r->node->op->traits & TENON_POINTWISE))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: its gradient formula reads the gradient of a result that was not wanted",
                   r->node->op->name);
  /* Without its shape the gradient is a scalar, which broadcasts. */
  TN_TRY(is_plain
             ? tn_filled(device_of(r), result->dtype, result->ndim, result->shape, 0, out_tensor)
             : tn_filled(device_of(r), float_of(r), 0, NULL, 0, out_tensor));
  return keep_tensor(r, *out_tensor);
}

static tenon_status_t grad_of(evaluation_t *r, uint32_t output, bool is_optional,
                              tenon_tensor_t **out_tensor) {
  uint32_t at = start_of(r->node, true, output);
  uint32_t end = end_of(r->node, true, output);
  if (r->node->op->schema.outputs[output].kind != TENON_KIND_TENSORS) {
    if (is_optional && !r->grads[at]) {
      *out_tensor = NULL;
      return TENON_OK;
    }
    return grad_at(r, at, out_tensor);
  }
  tenon_tensor_t **items = tn_arena_array(&r->arena, end - at + 1, sizeof *items);
  if (!items) return tn_no_memory("a gradient", (end - at) * sizeof *items);
  for (uint32_t i = at; i < end; i++)
    TN_TRY(grad_at(r, i, &items[i - at]));
  TN_TRY(tenon_tensor_list(items, (int32_t)(end - at), out_tensor));
  return keep_tensor(r, *out_tensor);
}

/* Creates a tensor of which only shape and dtype are read. On the CPU it has no memory. Otherwise
 * it is a tensor of the device with arbitrary elements, or a scalar if only its dtype is read. */
static tenon_status_t shape_of(evaluation_t *r, const tenon_op_t *reader, const tn_saved_t *saved,
                               tenon_tensor_t **out_tensor) {
  static const char *const of_host[] = {"core::shape", "core::size", "core::size_ratio"};
  bool is_here = saved->device.type == 1;
  for (size_t i = 0; i < sizeof of_host / sizeof *of_host; i++)
    is_here |= strcmp(reader->name, of_host[i]) == 0;
  bool is_dtype = strcmp(reader->name, "core::cast_like") == 0;
  if (is_here)
    TN_TRY(tenon_tensor_borrow((void *)(uintptr_t)saved, saved->dtype, saved->ndim, saved->shape,
                               NULL, NULL, NULL, out_tensor));
  else
    TN_TRY(tn_device_tensor_create(saved->device, saved->dtype, is_dtype ? 0 : saved->ndim,
                                   saved->shape, out_tensor));
  return keep_tensor(r, *out_tensor);
}

static tenon_status_t saved_of(evaluation_t *r, const tenon_op_t *reader,
                               const tn_gradient_value_t *value, tenon_tensor_t **out_tensor) {
  const tenon_op_t *op = r->node->op;
  bool is_result = value->kind == TN_GRADIENT_OUTPUT;
  const tn_saved_t *saved =
      &r->node->saved[(is_result ? op->input_count : 0) + (uint32_t)value->index];
  char name[300];
  *out_tensor = NULL;
  if (saved->is_shape) return shape_of(r, reader, saved, out_tensor);
  if (!tn_saved_is_set(saved)) return TENON_OK; /* optional, and was absent */
  if (is_result)
    snprintf(name, sizeof name, "result %s", op->schema.outputs[value->index].name);
  else
    snprintf(name, sizeof name, "input %s", op->schema.inputs[value->index].name);
  TN_TRY(tn_saved_get(saved, op->name, name, out_tensor));
  return keep_tensor(r, *out_tensor);
}

static tenon_status_t run_call(evaluation_t *r, const tn_gradient_value_t *call, uint64_t wanted,
                               tenon_tensor_t **out);

static tenon_status_t bind_input(evaluation_t *r, const tenon_op_t *op, const tn_argument_t *input,
                                 const tn_gradient_value_t *value, tenon_tensor_t **out_tensor) {
  tenon_tensor_t *results[RESULTS_MAX] = {NULL};
  switch (value->kind) {
  case TN_GRADIENT_CALL:
    TN_TRY(run_call(r, value, 1, results));
    *out_tensor = results[0];
    return keep_tensor(r, results[0]);
  case TN_GRADIENT_INPUT:
  case TN_GRADIENT_OUTPUT:
    return saved_of(r, op, value, out_tensor);
  case TN_GRADIENT_GRAD:
    return grad_of(r, (uint32_t)value->index, input->is_optional, out_tensor);
  case TN_GRADIENT_ATTR:
    return tensor_of(r, &r->node->attrs[value->index], out_tensor);
  case TN_GRADIENT_LITERAL:
    return tensor_of(r, &value->literal, out_tensor);
  default:
    return tn_fail(TENON_INVALID, "input %s is given @state, which is not a value", input->name);
  }
}

/* A called operator gets the state of the call whose gradient it computes, in place of a state of
 * its own. */
static tenon_status_t check_state(const tn_node_t *node, const tenon_op_t *op) {
  if (op->library->first != node->op->library->first)
    return tn_fail(TENON_INVALID,
                   "the gradient of %s passes its @state to %s, which belongs to another library",
                   node->op->name, op->name);
  if (!node->state)
    return tn_fail(TENON_INVALID,
                   "the gradient of %s reads @state, but its call had no state: the operator has "
                   "no create function",
                   node->op->name);
  return TENON_OK;
}

static tenon_status_t run_call(evaluation_t *r, const tn_gradient_value_t *call, uint64_t wanted,
                               tenon_tensor_t **out) {
  const tn_differentiated_t of = {r->node->op, r->node->attrs};
  const tenon_op_t *op;
  TN_TRY(tn_gradient_callee(&of, call, &op));
  tenon_value_t *attrs = tn_arena_array(&r->arena, op->schema.attr_count + 1, sizeof *attrs);
  tenon_tensor_t **inputs = tn_arena_array(&r->arena, op->input_count + 1, sizeof *inputs);
  bool *is_given = tn_arena_array(&r->arena, op->input_count + 1, sizeof *is_given);
  if (!attrs || !inputs || !is_given)
    return tn_no_memory("a gradient", op->schema.attr_count * sizeof *attrs);
  if (op->schema.attr_count) memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  memset(inputs, 0, op->input_count * sizeof *inputs);
  void *state = NULL;
  uint32_t place = 0;
  for (uint32_t i = 0; i < call->argument_count; i++) {
    const tn_gradient_value_t *value = &call->arguments[i];
    const tn_argument_t *target;
    if (value->kind == TN_GRADIENT_STATE) {
      TN_TRY(check_state(r->node, op));
      state = r->node->state;
      continue;
    }
    TN_TRY(tn_gradient_target(&of, op, value, &place, &target));
    if (target->is_tensor)
      TN_TRY(bind_input(r, op, target, value, &inputs[target->index]));
    else
      TN_TRY(tn_gradient_attr(&of, op, target, value, &r->arena, &attrs[target->index]));
  }
  TN_TRY(tn_attrs_check(op, attrs));
  for (uint32_t i = 0; i < op->input_count; i++)
    is_given[i] = inputs[i];
  TN_TRY(tn_gradient_inputs(&of, op, is_given));
  int32_t before;
  TN_TRY(tn_mixed_begin_parts(NULL, &before));
  tenon_status_t status = state ? tn_call_request(&(tn_request_t){op, attrs, state, inputs, out,
                                                                  wanted, true, NULL, false})
                                : tn_call(op, attrs, inputs, out, wanted, NULL);
  tn_mixed_end_parts(before);
  return status;
}

/* Assigns the gradient of an input to its edges. Consumes `tensor`. */
static tenon_status_t give_gradient(const tn_node_t *node, uint32_t input, tenon_tensor_t *tensor,
                                    const bool *needs, tenon_tensor_t **out_grads) {
  uint32_t at = start_of(node, false, input);
  uint32_t end = end_of(node, false, input);
  if (node->op->schema.inputs[input].kind != TENON_KIND_TENSORS) {
    out_grads[at] = tensor;
    return TENON_OK;
  }
  tenon_status_t status = TENON_OK;
  if (!tn_dtype_is(tensor->dtype, TENON_LIST) || tensor->shape[0] != end - at)
    status = tn_fail(TENON_INVALID, "expected a list of %u gradients for input %s", end - at,
                     node->op->schema.inputs[input].name);
  for (uint32_t i = at; i < end && status == TENON_OK; i++)
    if (needs[i]) tenon_tensor_retain(out_grads[i] = tenon_item(tensor, i - at));
  tenon_tensor_release(tensor);
  return status;
}

static bool is_needed(const tn_node_t *node, uint32_t input, const bool *needs) {
  bool any = false;
  for (uint32_t i = start_of(node, false, input); i < end_of(node, false, input); i++)
    any |= needs[i];
  return any;
}

static tenon_status_t run_formula(const tn_node_t *node, const tn_gradient_formula_t *formula,
                                  tenon_tensor_t *const *grads, const bool *needs,
                                  tenon_tensor_t **out_grads) {
  tenon_tensor_t *results[RESULTS_MAX] = {NULL};
  uint64_t wanted = 0;
  for (uint32_t k = 0; k < formula->input_count; k++)
    if (is_needed(node, (uint32_t)formula->inputs[k], needs)) wanted |= (uint64_t)1 << k;
  if (!wanted || formula->kind == TN_FORMULA_NONE) return TENON_OK;
  const char *input = node->op->schema.inputs[formula->inputs[__builtin_ctzll(wanted)]].name;
  if (formula->kind == TN_FORMULA_ERROR)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: its gradient formula says that input %s has no gradient yet",
                   node->op->name, input);
  evaluation_t r = {.node = node, .grads = grads};
  tenon_status_t status = run_call(&r, &formula->call, wanted, results);
  if (status != TENON_OK) tn_prefix(status, "gradient of %s for %s: ", node->op->name, input);
  for (made_t *m = r.made; m; m = m->next)
    tenon_tensor_release(m->tensor);
  tn_arena_clear(&r.arena);
  for (uint32_t k = 0; k < formula->input_count; k++) {
    if (!results[k]) continue;
    if (status == TENON_OK && wanted >> k & 1)
      status = give_gradient(node, (uint32_t)formula->inputs[k], results[k], needs, out_grads);
    else
      tenon_tensor_release(results[k]);
  }
  return status;
}

/* Reports a gradient that no formula reads, which would otherwise be lost silently. */
static tenon_status_t check_used(const tn_node_t *node, tenon_tensor_t *const *grads) {
  const tenon_op_t *op = node->op;
  uint64_t used = 0;
  for (uint32_t i = 0; i < op->gradient.formula_count; i++)
    used |= op->gradient.formulas[i].grads_used;
  for (uint32_t o = 0; o < op->output_count && used; o++)
    for (uint32_t i = start_of(node, true, o); i < end_of(node, true, o); i++)
      if (grads[i] && !(used >> o & 1))
        return tn_fail(
            TENON_UNIMPLEMENTED,
            "%s: a gradient arrived for result %s, which its gradient formulas do not read",
            op->name, op->schema.outputs[o].name);
  return TENON_OK;
}

tenon_status_t tn_formulas_run(const tn_node_t *node, tenon_tensor_t *const *grads,
                               const bool *needs, tenon_tensor_t **out_grads) {
  TN_TRY(check_used(node, grads));
  for (uint32_t i = 0; i < node->op->gradient.formula_count; i++)
    TN_TRY(run_formula(node, &node->op->gradient.formulas[i], grads, needs, out_grads));
  return TENON_OK;
}
