/* Records calls on the tape: the function of the autograd key in the dispatch table. It passes the
 * call on with recording off, so that calls made by a kernel are not recorded again, and then
 * creates a tape node. Invariant: a call that fails leaves no history, and everything that can be
 * refused is refused before the call runs. */
#include "autograd/tape.h"

#include <string.h>
#include <tenon/tenon.h>

#include "autograd/alias.h"
#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/value.h"
#include "dispatch/bound.h"
#include "dispatch/result.h"
#include "operator/frame.h"
#include "operator/names.h"
#include "operator/state.h"
#include "storage/device_memory.h"

bool tn_tape_is_on(void) { return !(tn_thread()->calls.exclude & TN_KEY(TN_BIT_AUTOGRAD)); }

bool tn_tape_set(bool is_on) {
  uint64_t *exclude = &tn_thread()->calls.exclude;
  bool before = !(*exclude & TN_KEY(TN_BIT_AUTOGRAD));
  if (is_on)
    *exclude &= ~TN_KEY(TN_BIT_AUTOGRAD);
  else
    *exclude |= TN_KEY(TN_BIT_AUTOGRAD);
  return before;
}

tenon_status_t tn_history_share(tenon_tensor_t *from, tenon_tensor_t *copy) {
  tn_history_t *history = tn_history_of(from);
  if (tn_dtype_is(from->dtype, TENON_LIST) && tn_dtype_is(copy->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < from->shape[0]; i++)
      TN_TRY(tn_history_share(tenon_item(from, i), tenon_item(copy, i)));
    copy->keys |= from->keys & TN_KEY(TN_BIT_AUTOGRAD);
    return TENON_OK;
  }
  if (!history || from == copy || !tn_tape_is_on()) return TENON_OK;
  if (!tn_tensor_is_owned(copy))
    return tn_fail(TENON_INVALID, "a result through which gradients flow is a view on the caller's "
                                  "stack: expected a tensor of tenon_tensor_create, or NULL");
  tn_history_set(copy, history);
  return TENON_OK;
}

typedef struct plan_t { /* what must be recorded of one call */
  const tenon_op_t *op;
  uint64_t needed; /* inputs through which gradients flow */
  uint64_t inputs_saved;
  uint64_t outputs_saved;
  uint64_t inputs_shaped;
  uint64_t outputs_shaped;
  int kind;
  bool has_lists;
  tn_node_shape_t shape;
} plan_t;

static bool has_history(const tenon_tensor_t *t) { /* with a dtype that can have a gradient */
  if (!t || !(t->keys & TN_KEY(TN_BIT_AUTOGRAD))) return false;
  if (!tn_dtype_is(t->dtype, TENON_LIST)) return tn_history_of(t) && tn_is_differentiable(t->dtype);
  for (int64_t i = 0; i < t->shape[0]; i++)
    if (has_history(tenon_item(t, i))) return true;
  return false;
}

static uint32_t items_of(const tenon_tensor_t *t) {
  if (!t) return 0;
  return tn_dtype_is(t->dtype, TENON_LIST) ? (uint32_t)t->shape[0] : 1;
}

static void plan_formulas(plan_t *p) {
  const tn_gradient_t *g = &p->op->gradient;
  uint64_t with_formula = 0;
  for (uint32_t r = 0; r < g->formula_count; r++) {
    const tn_gradient_formula_t *formula = &g->formulas[r];
    uint64_t inputs = 0;
    for (uint32_t i = 0; i < formula->input_count; i++)
      inputs |= (uint64_t)1 << formula->inputs[i];
    if (formula->kind == TN_FORMULA_NONE || !(inputs & p->needed)) continue;
    with_formula |= inputs;
    p->inputs_saved |= formula->inputs_used;
    p->outputs_saved |= formula->outputs_used;
    p->inputs_shaped |= formula->inputs_shaped;
    p->outputs_shaped |= formula->outputs_shaped;
  }
  p->needed &= with_formula;
  p->inputs_shaped &= ~p->inputs_saved;
  p->outputs_shaped &= ~p->outputs_saved;
}

/* Space for the shape, and for strides. */
static size_t extents_of(const tenon_tensor_t *t, bool is_saved) {
  return (size_t)t->ndim * (is_saved && t->keys & TN_KEY_STRIDED ? 2 : 1);
}

/* Results that the call creates may still change their shape, so the count covers their largest
 * shape. */
static size_t extents_of_result(const tenon_tensor_t *t, bool is_saved) {
  size_t ndim =
      tn_tensor_is_owned(t) ? (size_t)((const tn_tensor_t *)t)->room_ndim : (size_t)t->ndim;
  return ndim * (is_saved ? 3 : 1);
}

static void plan_shape(plan_t *p, const tenon_call_t *call) {
  const tenon_op_t *op = p->op;
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_tensor_t *t = call->inputs[i];
    bool is_list = op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    p->has_lists |= is_list;
    p->shape.edge_count += is_list ? items_of(t) : 1;
    if (t && (p->inputs_shaped | p->inputs_saved) >> i & 1)
      p->shape.extents += extents_of(t, p->inputs_saved >> i & 1);
  }
  for (uint32_t o = 0; o < op->output_count; o++) {
    const tenon_tensor_t *t = call->outputs[o];
    bool is_list = op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    p->has_lists |= is_list;
    p->shape.result_count += is_list ? items_of(t) : 1;
    for (uint32_t i = 0; i < items_of(t); i++)
      p->shape.extents += extents_of_result(is_list ? tenon_item(t, i) : t,
                                            (p->outputs_shaped | p->outputs_saved) >> o & 1);
  }
  p->shape.saved_count = op->input_count + op->output_count;
  if (p->has_lists) p->shape.start_count = op->input_count + op->output_count + 2;
  if (call->attrs != op->defaults) p->shape.attr_count = op->schema.attr_count;
}

static tenon_status_t check_input(const tenon_op_t *op, uint32_t i, const tenon_tensor_t *t) {
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    for (int64_t k = 0; k < t->shape[0]; k++)
      TN_TRY(check_input(op, i, tenon_item(t, k)));
    return TENON_OK;
  }
  if (tn_alias_is_lost(t))
    return tn_fail(TENON_PRECONDITION,
                   "%s: input %s is a view that was created while recording was off, and its "
                   "memory has been written to since while recording was on: create the view "
                   "again, or detach it (tenon_tensor_detach)",
                   op->name, op->schema.inputs[i].name);
  const tn_storage_t *storage = tn_tensor_is_owned(t) ? ((const tn_tensor_t *)t)->storage : NULL;
  if (!storage || !storage->is_inference) return TENON_OK;
  return tn_fail(
      TENON_PRECONDITION,
      "%s: input %s was created in inference mode and cannot be used while gradients are recorded: "
      "copy it outside inference mode (tenon_tensor_copy), or switch recording off",
      op->name, op->schema.inputs[i].name);
}

static tenon_status_t check_written(const tenon_op_t *op, const char *role, const char *name,
                                    const tenon_tensor_t *t) {
  if (!tn_tensor_is_owned(t))
    return tn_fail(
        TENON_INVALID,
        "%s: %s %s is a view on a caller's stack, through which gradients cannot flow: expected "
        "a tensor of tenon_tensor_create; or switch recording off (tenon_grad_mode_set)",
        op->name, role, name);
  const tn_history_t *history = tn_history_of(t);
  if (history && history->node->kind == TN_NODE_LEAF)
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s is a leaf that requires a gradient and would be written to: use an "
                   "operator that returns a new tensor, or switch recording off to update the leaf "
                   "(tenon_grad_mode_set(0))",
                   op->name, role, name);
  return tn_alias_check(t, op->name, role, name);
}

static tn_storage_t *storage_of(const tenon_tensor_t *t) {
  return t && tn_tensor_is_owned(t) ? ((const tn_tensor_t *)t)->storage : NULL;
}

/* Does the call write to the memory of this result? A result that is a view of an input is not
 * written to. */
static bool writes_to(const tenon_call_t *call, uint32_t o) {
  const tn_schema_t *schema = &call->op->schema;
  const tn_storage_t *storage = storage_of(call->outputs[o]);
  if (!call->outputs[o]) return false;
  for (uint32_t i = 0;
       i < schema->input_count && schema->outputs[o].mark && !schema->outputs[o].is_written; i++)
    if (schema->inputs[i].mark == schema->outputs[o].mark && storage &&
        storage_of(call->inputs[i]) == storage)
      return false;
  return true;
}

static tenon_status_t check_call(const tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  for (uint32_t i = 0; i < op->input_count; i++) {
    tenon_tensor_t *t = call->inputs[i];
    if (!t) continue;
    TN_TRY(check_input(op, i, t));
    if (op->schema.inputs[i].is_written && tn_is_differentiable(t->dtype))
      TN_TRY(check_written(op, "input", op->schema.inputs[i].name, t));
  }
  for (uint32_t o = 0; o < op->output_count; o++) {
    const tenon_tensor_t *t = call->outputs[o];
    if (t && !op->schema.outputs[o].is_written && tn_is_differentiable(t->dtype) &&
        writes_to(call, o))
      TN_TRY(check_written(op, "result", op->schema.outputs[o].name, t));
  }
  return TENON_OK;
}

/* Results with an alias that the call writes to. All tensors that share their memory get new
 * histories. */
static bool has_alias(const tenon_call_t *call, uint32_t o) {
  const tenon_tensor_t *t = call->outputs[o];
  return t && tn_tensor_is_owned(t) && ((const tn_tensor_t *)t)->alias && writes_to(call, o);
}

static tenon_status_t begin_writes(const tenon_call_t *call, uint64_t *out_begun) {
  for (uint32_t o = 0; o < call->op->output_count; o++) {
    if (!has_alias(call, o)) continue;
    TN_TRY(tn_alias_begin_write(call->outputs[o]));
    *out_begun |= (uint64_t)1 << o;
  }
  return TENON_OK;
}

/* Every such result already has the history that the call gave it. */
static void finish_writes(const tenon_call_t *call, uint64_t begun, bool is_written) {
  for (uint32_t o = 0; o < call->op->output_count && begun >> o; o++) {
    if (!(begun >> o & 1)) continue;
    if (is_written)
      tn_alias_finish_write(call->outputs[o], tn_history_of(call->outputs[o]));
    else
      tn_alias_cancel_write(call->outputs[o]);
  }
}

typedef struct extras_t { /* results that only backward needs, not the caller */
  tenon_tensor_t **all;   /* the call's results with these added; NULL: none was missing */
  uint64_t made;
} extras_t;

static tenon_status_t make_extras(tenon_call_t *call, uint64_t missing, extras_t *out) {
  const tenon_op_t *op = call->op;
  tn_inference_t inference = {0};
  tenon_meta_t **in, **metas;
  tenon_tensor_t **all = tn_scratch(op->output_count * sizeof *all + 1);
  if (!all) return tn_no_memory("results for a gradient", op->output_count * sizeof *all);
  TN_TRY(tn_metas_of_inputs(op, call->inputs, &in));
  TN_TRY(tn_metas_of_results(op, call->attrs, 0, &metas));
  TN_TRY(tn_infer(&inference, op, call->attrs, call->state, in, metas));
  tenon_device_t device = tn_call_device(call);
  if (device.type != 1) inference.device = &device;
  memcpy(all, call->outputs, op->output_count * sizeof *all);
  out->all = all;
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!(missing >> o & 1) || !metas[o]) continue;
    TN_TRY(tn_result_create(&inference, metas[o], call->inputs, &all[o]));
    out->made |= (uint64_t)1 << o;
  }
  return TENON_OK;
}

static void release_extras(const tenon_op_t *op, const extras_t *extras) {
  for (uint32_t o = 0; o < op->output_count; o++)
    if (extras->made >> o & 1) tenon_tensor_release(extras->all[o]);
}

static tenon_status_t copy_attrs(tn_node_t *node, const tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  if (call->attrs == op->defaults) {
    node->attrs = op->defaults;
    return TENON_OK;
  }
  tenon_value_t *to = (tenon_value_t *)(uintptr_t)node->attrs;
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (!tn_value_copy(&call->attrs[i], &node->arena, &to[i]))
      return tn_no_memory(op->name, sizeof *to);
  tn_values_retain(to, op->schema.attr_count);
  node->owns_attrs = 1;
  return TENON_OK;
}

static void add_edge(tn_node_t *node, uint32_t at, const tenon_tensor_t *t) {
  tn_history_t *history = t && tn_is_differentiable(t->dtype) ? tn_history_of(t) : NULL;
  if (!history) return;
  node->edges[at].to = history;
  tn_node_retain(history->node);
  if (node->sequence <= history->node->sequence) node->sequence = history->node->sequence + 1;
}

static void add_edges(tn_node_t *node, const plan_t *p, const tenon_call_t *call) {
  uint32_t *starts = (uint32_t *)(uintptr_t)node->starts;
  uint32_t at = 0;
  for (uint32_t i = 0; i < p->op->input_count; i++) {
    const tenon_tensor_t *t = call->inputs[i];
    bool is_list = p->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    bool is_needed = p->needed >> i & 1;
    uint32_t count = is_list ? items_of(t) : 1;
    if (starts) starts[i] = at;
    for (uint32_t k = 0; k < count && is_needed; k++)
      add_edge(node, at + k, is_list ? tenon_item(t, k) : t);
    at += count;
  }
  if (starts) starts[p->op->input_count] = at;
}

static void save_shape(tn_saved_t *saved, const tenon_tensor_t *t, int64_t **extents) {
  saved->is_shape = 1;
  saved->ndim = t->ndim;
  saved->dtype = t->dtype;
  saved->device = t->device;
  saved->shape = *extents;
  if (t->ndim) memcpy(*extents, t->shape, (size_t)t->ndim * sizeof **extents);
  *extents += t->ndim;
}

/* Saves the inputs. An input that the call writes to is copied before the call. */
static tenon_status_t save_inputs(tn_node_t *node, const plan_t *p, const tenon_call_t *call,
                                  int64_t **extents) {
  for (uint32_t i = 0; i < p->op->input_count; i++) {
    tenon_tensor_t *t = call->inputs[i];
    tn_saved_t *saved = &node->saved[i];
    if (!t) continue;
    if (p->inputs_shaped >> i & 1) save_shape(saved, t, extents);
    if (!(p->inputs_saved >> i & 1)) continue;
    if (p->op->schema.inputs[i].is_written) {
      TN_TRY(tenon_tensor_copy_to(t, t->device, &saved->tensor));
      if ((saved->history = tn_history_of(t))) tn_node_retain(saved->history->node);
      continue;
    }
    TN_TRY(tn_saved_set(saved, t, NULL, extents));
    for (uint32_t o = 0; o < p->op->output_count;
         /* A result given in place of the input: this write was counted already. */
         o++)
      if (saved->storage && saved->storage == storage_of(call->outputs[o]) && writes_to(call, o))
        saved->version--;
  }
  return TENON_OK;
}

static void add_result(tn_node_t *node, uint32_t at, tenon_tensor_t *t, int64_t **extents) {
  tn_history_describe(&node->results[at], node, t, extents);
  if (node->results[at].is_float) tn_history_set(t, &node->results[at]);
}

static tenon_status_t finish_node(tn_node_t *node, const plan_t *p, const tenon_call_t *call,
                                  int64_t *extents) {
  const tenon_op_t *op = p->op;
  uint32_t *starts =
      node->starts ? (uint32_t *)(uintptr_t)node->starts + op->input_count + 1 : NULL;
  uint32_t at = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    tenon_tensor_t *t = call->outputs[o];
    bool is_list = op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    uint32_t count = is_list ? items_of(t) : 1;
    if (starts) starts[o] = at;
    for (uint32_t k = 0; k < count && t; k++)
      add_result(node, at + k, is_list ? tenon_item(t, k) : t, &extents);
    if (is_list && t) t->keys |= TN_KEY(TN_BIT_AUTOGRAD);
    tn_saved_t *saved = &node->saved[op->input_count + o];
    if (t && p->outputs_shaped >> o & 1) save_shape(saved, t, &extents);
    if (t && p->outputs_saved >> o & 1 && is_list)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "%s: its gradient reads result %s, which is a list: lists of results are not "
                     "supported in gradient formulas",
                     op->name, op->schema.outputs[o].name);
    if (t && p->outputs_saved >> o & 1)
      TN_TRY(tn_saved_set(saved, t, &node->results[at], &extents));
    at += count;
  }
  if (starts) starts[op->output_count] = at;
  return TENON_OK;
}

/* Removes the history that the results just got, because the call fails after all. */
static void undo_results(const tenon_op_t *op, const tn_node_t *node, const tenon_call_t *call) {
  for (uint32_t o = 0; o < op->output_count; o++)
    for (uint32_t k = 0; k < items_of(call->outputs[o]); k++) {
      tenon_tensor_t *t = call->outputs[o];
      if (tn_dtype_is(t->dtype, TENON_LIST)) t = tenon_item(t, k);
      if (tn_history_of(t) && tn_history_of(t)->node == node) tn_history_set(t, NULL);
    }
}

static tenon_status_t run_below(tenon_call_t *call) {
  tn_tape_set(false);
  tenon_status_t status = tenon_call_next(call);
  tn_tape_set(true);
  return status;
}

/* Creates the node with everything that is known before the call. */
static tenon_status_t begin_node(tenon_call_t *call, plan_t *p, tn_node_t **out_node,
                                 int64_t **out_extents) {
  const tenon_op_t *op = p->op;
  plan_shape(p, call);
  if (op->gradient.reads_state && op->create && !call->state)
    TN_TRY(tn_state_get(op, call->attrs, &call->state));
  TN_TRY(tn_node_create(p->kind, &p->shape, out_node, out_extents));
  tn_node_t *node = *out_node;
  node->op = op;
  node->state = call->state;
  node->attr_count = p->shape.attr_count;
  if (__atomic_load_n(&op->library->is_unloadable, __ATOMIC_RELAXED)) {
    tn_registry_use(op->library);
    node->uses_library = 1;
  }
  if (op->gradient.reads_state) node->bound = tn_bound_retain(call->state);
  const char *label = tn_thread()->graph_node;
  if (label) node->label = tn_arena_text(&node->arena, label, strlen(label));
  TN_TRY(copy_attrs(node, call));
  add_edges(node, p, call);
  return save_inputs(node, p, call, out_extents);
}

static tenon_status_t record_node(tenon_call_t *call, plan_t *p) {
  const tenon_op_t *op = p->op;
  extras_t extras = {NULL, 0};
  tenon_tensor_t *const *given = call->outputs;
  tn_node_t *node = NULL;
  int64_t *extents;
  uint64_t missing = 0;
  uint64_t begun = 0;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (!given[o] && (p->outputs_saved | p->outputs_shaped) >> o & 1) missing |= (uint64_t)1 << o;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = missing ? make_extras(call, missing, &extras) : TENON_OK;
  if (extras.all) call->outputs = extras.all;
  if (status == TENON_OK) status = begin_node(call, p, &node, &extents);
  if (status == TENON_OK) status = begin_writes(call, &begun);
  if (status == TENON_OK) {
    bool has_run = (status = run_below(call)) == TENON_OK;
    if (has_run && (status = finish_node(node, p, call, extents)) != TENON_OK)
      undo_results(op, node, call);
    finish_writes(call, begun, has_run);
  } else {
    finish_writes(call, begun, false);
  }
  call->outputs = given;
  release_extras(op, &extras);
  tn_scratch_reset(mark);
  tn_node_release(node); /* the results hold the node now */
  return status;
}

/* True also for a result whose dtype is known only after the call. */
static bool gives_floats(const tenon_call_t *call) {
  for (uint32_t o = 0; o < call->op->output_count; o++) {
    const tenon_tensor_t *t = call->outputs[o];
    for (uint32_t i = 0; i < items_of(t); i++) {
      tenon_dtype_t dtype = tn_dtype_is(t->dtype, TENON_LIST) ? tenon_item(t, i)->dtype : t->dtype;
      if (!dtype.bits || tn_is_differentiable(dtype)) return true;
    }
  }
  return false;
}

/* Names a result that is written to; an input's name if the result is that input. */
static const char *name_of_result(const tn_schema_t *schema, uint32_t o) {
  for (uint32_t i = 0; i < schema->input_count && schema->outputs[o].is_written; i++)
    if (schema->inputs[i].mark == schema->outputs[o].mark) return schema->inputs[i].name;
  return schema->outputs[o].name;
}

/* Passes on a call that is not recorded. Results that it overwrites lose their history. */
static tenon_status_t pass_call(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  uint64_t written = 0;
  uint64_t begun = 0;
  for (uint32_t o = 0; o < op->output_count && tn_tape_is_on(); o++)
    if (call->outputs[o] && call->outputs[o]->keys & TN_KEY(TN_BIT_AUTOGRAD) &&
        writes_to(call, o)) {
      bool is_input = op->schema.outputs[o].is_written;
      TN_TRY(check_written(op, is_input ? "input" : "result", name_of_result(&op->schema, o),
                           call->outputs[o]));
      written |= (uint64_t)1 << o;
    }
  tenon_status_t status = written ? begin_writes(call, &begun) : TENON_OK;
  if (status == TENON_OK) status = tenon_call_next(call);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    if (written >> o & 1) tn_history_set(call->outputs[o], NULL);
  finish_writes(call, begun, status == TENON_OK);
  return status;
}

static int kind_of_missing(int32_t policy) {
  if (policy == TENON_GRAD_MISSING_ERROR) return TN_NODE_ERROR;
  if (policy == TENON_GRAD_MISSING_WARN) return TN_NODE_WARN;
  return -1;
}

/* `policy` says what a missing gradient means. */
static tenon_status_t record_call(tenon_call_t *call, int32_t policy) {
  plan_t p = {.op = call->op, .kind = TN_NODE_FORMULAS};
  uint64_t written = 0;
  for (uint32_t i = 0; i < p.op->input_count; i++) {
    if (has_history(call->inputs[i]))
      p.needed |= (uint64_t)1 << i;
    else if (call->inputs[i] && tn_alias_is_lost(call->inputs[i]))
      TN_TRY(check_input(p.op, i, call->inputs[i]));
    if (p.op->schema.inputs[i].is_written && call->inputs[i]) written |= (uint64_t)1 << i;
  }
  if (p.needed && p.op->gradient.text)
    plan_formulas(&p);
  else if (p.needed)
    p.kind = kind_of_missing(policy ? policy : tenon_grad_missing_get());
  for (uint32_t o = 0; o < p.op->output_count;
       /* Inputs that are also results are not counted as written. */
       o++)
    for (uint32_t i = 0; i < p.op->input_count; i++)
      if (p.op->schema.outputs[o].is_written &&
          p.op->schema.outputs[o].mark == p.op->schema.inputs[i].mark)
        written &= ~((uint64_t)1 << i);
  bool through = !p.needed || p.kind < 0 || !tn_tape_is_on() || !gives_floats(call);
  if (written && p.needed && p.kind >= 0 && tn_tape_is_on()) {
    for (uint32_t i = 0; i < p.op->input_count; i++)
      if (written >> i & 1 && tn_is_differentiable(call->inputs[i]->dtype))
        return tn_fail(
            TENON_UNIMPLEMENTED,
            "%s: input %s is written to but is not a result, so gradients cannot flow through it: "
            "declare it as a result, `-> Tensor(%c!)`, or switch recording off",
            p.op->name, p.op->schema.inputs[i].name, p.op->schema.inputs[i].mark);
  }
  if (through) return p.kind < 0 ? tenon_call_next(call) : pass_call(call);
  TN_TRY(check_call(call));
  return record_node(call, &p);
}

tenon_status_t tn_tape_call(tenon_call_t *call) { return record_call(call, 0); }
tenon_status_t tenon_grad_missing_error(tenon_call_t *call) {
  return record_call(call, TENON_GRAD_MISSING_ERROR);
}
tenon_status_t tenon_grad_missing_warn(tenon_call_t *call) {
  return record_call(call, TENON_GRAD_MISSING_WARN);
}
tenon_status_t tenon_grad_missing_pass(tenon_call_t *call) {
  return record_call(call, TENON_GRAD_MISSING_PASS);
}

static void release_history(tn_history_t *history) { tn_node_release(history->node); }

void tn_tape_start(void) {
  tn_history_release = release_history;
  tn_alias_start();
  tn_autograd = (tn_autograd_t){tn_tape_call, tn_history_share, tn_alias_add};
}
