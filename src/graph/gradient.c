/* Differentiates graphs: copies a graph and appends the nodes that compute gradients, from the last
 * node to the first, by the gradient formulas of their operators. The compiler then sees forward
 * and backward as one graph. Called by programs and by executables that record gradients.
 * Invariant: the gradient of a value is complete when the node that makes the value is reached,
 * because every reader stands behind it. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/gradient_source.h"
#include "graph/passes/pass.h"
#include "operator/attrs.h"
#include "operator/gradient_call.h"
#include "operator/names.h"

typedef struct task_t {
  const tenon_graph_t *graph;
  tenon_builder_t *builder; /* of the graph with gradients */
  tenon_edge_t *edges;      /* for each value of `graph` that of the builder; -1: none yet */
  tenon_edge_t *grads;      /* for each value of `graph` its gradient in the builder; -1: none */
  bool *needs;              /* for each value of `graph`: some wanted gradient depends on it */
  tenon_edge_t *wanted;     /* values whose gradients are outputs */
  int32_t wanted_count;
  const tn_node_t *node; /* the node of `graph` whose gradient is being computed */
  tn_arena_t arena;      /* of this node */
} task_t;

typedef struct emitted_t { /* a node that was appended */
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  tenon_edge_t *edges; /* its results */
  int32_t count;
} emitted_t;

/* Results of nodes; the items of a list are results of their own */

static int64_t result_items(const tenon_op_t *op, const tenon_value_t *attrs, uint32_t output,
                            int32_t total) {
  const tn_argument_t *result = &op->schema.outputs[output];
  if (result->kind != TENON_KIND_TENSORS) return 1;
  if (result->count_attr >= 0) return attrs[result->count_attr].as.i;
  if (result->count >= 0) return result->count;
  /* The only list of unknown length has what the other results leave. */
  for (uint32_t o = 0; o < op->output_count; o++)
    if (o != output) total -= (int32_t)result_items(op, attrs, o, 0);
  return total;
}

static int32_t result_start(const tenon_op_t *op, const tenon_value_t *attrs, uint32_t output,
                            int32_t total) {
  int64_t start = 0;
  for (uint32_t o = 0; o < output; o++)
    start += result_items(op, attrs, o, total);
  return (int32_t)start;
}

/* Appending nodes */

static tn_edge_t *made_edge(const task_t *t, tenon_edge_t edge) {
  return &tn_builder_graph(t->builder)->edges[edge];
}

/* Appends a node and names it after the node whose gradient it belongs to. */
static tenon_status_t append(task_t *t, const tenon_op_t *op, const tenon_value_t *attrs,
                             const tenon_operand_t *operands, uint64_t wanted, int32_t count,
                             tenon_edge_t *out_edges) {
  const char *of = t->node ? t->node->name : "";
  const size_t size = strlen(of) + 8;
  char *name = tn_arena_array(&t->arena, size, 1);
  if (!name) return tn_no_memory("a gradient", size);
  snprintf(name, size, "%s.grad", of);
  return tn_builder_node_wanted(t->builder, t->node ? name : NULL, op, attrs, operands, wanted,
                                out_edges, count);
}

/* Appends a core operator with one or two inputs (`second` -1: one) and one result. */
static tenon_status_t append_core(task_t *t, const char *name, tenon_edge_t first,
                                  tenon_edge_t second, tenon_edge_t *out_edge) {
  const tenon_op_t *op = tn_registry_find(name);
  if (!op) return tn_fail(TENON_NOT_FOUND, "%s: the runtime has shut down", name);
  tenon_operand_t operands[8] = {{1, &first}, {second >= 0, &second}};
  return append(t, op, NULL, operands, 0, 1, out_edge);
}

static tenon_status_t append_constant(task_t *t, tenon_tensor_t *tensor, tenon_edge_t *out_edge) {
  tenon_status_t status = tenon_builder_constant(t->builder, NULL, tensor, out_edge);
  tenon_tensor_release(tensor);
  return status;
}

static tenon_status_t append_number(task_t *t, tenon_dtype_t dtype, double number,
                                    tenon_edge_t *out_edge) {
  tenon_tensor_t *tensor;
  const tenon_value_t value = {TENON_KIND_FLOAT, 0, {.f = number}};
  TN_TRY(tn_gradient_tensor(&value, dtype, &tensor));
  return append_constant(t, tensor, out_edge);
}

/* Replaces a result that inference knows, such as a shape, by a constant. */
static tenon_status_t settle_known(task_t *t, tenon_edge_t *edge) {
  const tn_edge_t *of = made_edge(t, *edge);
  int64_t numbers[TENON_RANK_MAX];
  tenon_tensor_t *tensor;
  if (!of->values || of->ndim != 1 || of->value_count > TENON_RANK_MAX ||
      !tn_dtype_is(of->dtype, TENON_I64))
    return TENON_OK;
  for (uint32_t i = 0; i < of->value_count; i++) {
    if (!tenon_is_known(of->values[i])) return TENON_OK;
    numbers[i] = of->values[i].value;
  }
  const tenon_value_t value = {TENON_KIND_INTS, of->value_count, {.ints = numbers}};
  TN_TRY(tn_gradient_tensor(&value, of->dtype, &tensor));
  return append_constant(t, tensor, edge);
}

/* Appends the shape of a value. */
static tenon_status_t append_shape(task_t *t, tenon_edge_t of, tenon_edge_t *out_edge) {
  TN_TRY(append_core(t, "core::shape", of, -1, out_edge));
  return settle_known(t, out_edge);
}

/* Appends a number that is repeated to the shape of a value. */
static tenon_status_t append_filled(task_t *t, tenon_edge_t like, double number,
                                    tenon_edge_t *out_edge) {
  tenon_edge_t one, shape;
  const tenon_dtype_t dtype = made_edge(t, like)->dtype;
  TN_TRY(append_number(t, dtype, number, &one));
  if (made_edge(t, like)->ndim == 0) {
    *out_edge = one;
    return TENON_OK;
  }
  TN_TRY(append_shape(t, like, &shape));
  return append_core(t, "core::expand", one, shape, out_edge);
}

/* Calls of formulas */

/* Float literals have the dtype of the gradients that arrived. */
static tenon_dtype_t literal_dtype(const task_t *t) {
  for (int32_t o = 0; o < t->node->output_count; o++)
    if (t->grads[t->node->outputs[o]] >= 0) return t->graph->edges[t->node->outputs[o]].dtype;
  return tenon_dtype(TENON_F64);
}

static tenon_status_t give_edges(task_t *t, const tenon_edge_t *from, int32_t count,
                                 const tenon_edge_t *map, tenon_operand_t *out_operand) {
  tenon_edge_t *edges = tn_arena_array(&t->arena, (size_t)count + 1, sizeof *edges);
  if (!edges) return tn_no_memory("a gradient", (size_t)count * sizeof *edges);
  for (int32_t k = 0; k < count; k++)
    edges[k] = map ? map[from[k]] : from[k];
  *out_operand = (tenon_operand_t){count, edges};
  return TENON_OK;
}

/* Gives the gradient of one result, or zeros if none arrived. */
static tenon_status_t grad_at(task_t *t, tenon_edge_t of, tenon_edge_t *out_edge) {
  const tn_edge_t *edge = &t->graph->edges[of];
  *out_edge = t->grads[of];
  if (*out_edge >= 0) return TENON_OK;
  /* A single zero broadcasts. */
  if (t->node->op->traits & TENON_POINTWISE) return append_number(t, literal_dtype(t), 0, out_edge);
  if (tn_is_differentiable(edge->dtype)) return append_filled(t, t->edges[of], 0, out_edge);
  return tn_fail(TENON_UNIMPLEMENTED,
                 "its gradient formula reads the gradient of a result of dtype %s, which has none",
                 tn_dtype_name(edge->dtype));
}

static tenon_status_t bind_grad(task_t *t, uint32_t output, bool is_optional,
                                tenon_operand_t *out_operand) {
  const tn_node_t *node = t->node;
  const int32_t total = node->output_count;
  const int32_t start = result_start(node->op, node->attrs, output, total);
  const int32_t count = (int32_t)result_items(node->op, node->attrs, output, total);
  const bool is_list = node->op->schema.outputs[output].kind == TENON_KIND_TENSORS;
  *out_operand = (tenon_operand_t){0, NULL};
  if (!is_list && is_optional && t->grads[node->outputs[start]] < 0) return TENON_OK;
  tenon_edge_t *edges = tn_arena_array(&t->arena, (size_t)count + 1, sizeof *edges);
  if (!edges) return tn_no_memory("a gradient", (size_t)count * sizeof *edges);
  for (int32_t i = 0; i < count; i++)
    TN_TRY(grad_at(t, node->outputs[start + i], &edges[i]));
  *out_operand = (tenon_operand_t){count, edges};
  return TENON_OK;
}

static tenon_status_t bind_number(task_t *t, const tenon_value_t *value,
                                  tenon_operand_t *out_operand) {
  tenon_tensor_t *tensor;
  tenon_edge_t edge;
  *out_operand = (tenon_operand_t){0, NULL};
  TN_TRY(tn_gradient_tensor(value, literal_dtype(t), &tensor));
  if (!tensor) return TENON_OK;
  TN_TRY(append_constant(t, tensor, &edge));
  return give_edges(t, &edge, 1, NULL, out_operand);
}

static tenon_status_t append_call(task_t *t, const tn_gradient_value_t *call, uint64_t wanted,
                                  int32_t list_count, emitted_t *out);

/* Gives a result of the node. Inference is asked for it if nothing has read it before. */
static tenon_status_t bind_result(task_t *t, uint32_t output, tenon_operand_t *out_operand) {
  const tn_node_t *node = t->node;
  const int32_t total = node->output_count;
  const int32_t start = result_start(node->op, node->attrs, output, total);
  const int64_t count = result_items(node->op, node->attrs, output, total);
  tenon_graph_t *graph = tn_builder_graph(t->builder);
  const int32_t producer = made_edge(t, t->edges[node->outputs[start]])->producer;
  tn_node_t *copy = &graph->nodes[producer];
  const bool is_asked = !copy->wanted || copy->wanted >> output & 1;
  if (!is_asked) {
    copy->wanted |= (uint64_t)1 << output;
    TN_TRY(tn_node_infer(graph, copy));
  }
  return give_edges(t, node->outputs + start, (int32_t)count, t->edges, out_operand);
}

static tenon_status_t bind_operand(task_t *t, const tn_argument_t *input,
                                   const tn_gradient_value_t *value, tenon_operand_t *out_operand) {
  const tn_node_t *node = t->node;
  const uint32_t index = (uint32_t)value->index;
  emitted_t emitted;
  switch (value->kind) {
  case TN_GRADIENT_CALL:
    TN_TRY(append_call(t, value, 1, 0, &emitted));
    if (emitted.count == 1) TN_TRY(settle_known(t, &emitted.edges[0]));
    return give_edges(t, emitted.edges,
                      (int32_t)result_items(emitted.op, emitted.attrs, 0, emitted.count), NULL,
                      out_operand);
  case TN_GRADIENT_INPUT:
    return give_edges(t, node->operands[index].edges, node->operands[index].count, t->edges,
                      out_operand);
  case TN_GRADIENT_OUTPUT:
    return bind_result(t, index, out_operand);
  case TN_GRADIENT_GRAD:
    return bind_grad(t, index, input->is_optional, out_operand);
  case TN_GRADIENT_ATTR:
    return bind_number(t, &node->attrs[index], out_operand);
  case TN_GRADIENT_LITERAL:
    return bind_number(t, &value->literal, out_operand);
  default:
    return tn_fail(TENON_INVALID, "input %s is given @state, which is not a value", input->name);
  }
}

/* Binds the arguments of a call in a formula. `attrs` holds the defaults. */
static tenon_status_t bind_arguments(task_t *t, const tenon_op_t *op,
                                     const tn_gradient_value_t *call, tenon_value_t *attrs,
                                     tenon_operand_t *operands) {
  const tn_differentiated_t of = {t->node->op, t->node->attrs};
  uint32_t place = 0;
  for (uint32_t i = 0; i < call->argument_count; i++) {
    const tn_gradient_value_t *value = &call->arguments[i];
    const tn_argument_t *target;
    if (value->kind == TN_GRADIENT_STATE)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "its gradient formula reads @state, which only calls have: record the runs "
                     "of the graph instead (TENON_COMPILE_GRADIENTS)");
    TN_TRY(tn_gradient_target(&of, op, value, &place, &target));
    if (target->is_tensor)
      TN_TRY(bind_operand(t, target, value, &operands[target->index]));
    else
      TN_TRY(tn_gradient_attr(&of, op, target, value, &t->arena, &attrs[target->index]));
  }
  return TENON_OK;
}

/* Appends the nodes of a call in a formula, of which the results in `wanted` will be read. A list
 * of gradients has `list_count` items. */
static tenon_status_t append_call(task_t *t, const tn_gradient_value_t *call, uint64_t wanted,
                                  int32_t list_count, emitted_t *out) {
  const tn_differentiated_t of = {t->node->op, t->node->attrs};
  const tenon_op_t *op;
  TN_TRY(tn_gradient_callee(&of, call, &op));
  tenon_value_t *attrs = tn_arena_array(&t->arena, op->schema.attr_count + 1, sizeof *attrs);
  tenon_operand_t *operands = tn_arena_array(&t->arena, op->input_count + 1, sizeof *operands);
  bool *is_given = tn_arena_array(&t->arena, op->input_count + 1, sizeof *is_given);
  if (!attrs || !operands || !is_given)
    return tn_no_memory("a gradient", op->schema.attr_count * sizeof *attrs);
  if (op->schema.attr_count) memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  memset(operands, 0, op->input_count * sizeof *operands);
  TN_TRY(bind_arguments(t, op, call, attrs, operands));
  for (uint32_t i = 0; i < op->input_count; i++)
    is_given[i] = operands[i].count > 0 || op->schema.inputs[i].kind == TENON_KIND_TENSORS;
  TN_TRY(tn_gradient_inputs(&of, op, is_given));
  int32_t count = tn_node_output_count(op, attrs);
  if (count < 0) count = (int32_t)op->output_count - 1 + list_count;
  tenon_edge_t *edges = tn_arena_array(&t->arena, (size_t)count + 1, sizeof *edges);
  if (!edges) return tn_no_memory("a gradient", (size_t)count * sizeof *edges);
  *out = (emitted_t){op, attrs, edges, count};
  return append(t, op, attrs, operands, wanted, count, edges);
}

/* Gradients of values */

/* Whether two values of the builder's graph have different shapes. Extents that are not known count
 * as different if `is_strict` is set. */
static bool have_other_shapes(const task_t *t, tenon_edge_t first, tenon_edge_t second,
                              bool is_strict) {
  const tn_edge_t *a = made_edge(t, first);
  const tn_edge_t *b = made_edge(t, second);
  tn_extents_t *extents = tn_builder_graph(t->builder)->extents;
  if (a->ndim < 0 || b->ndim < 0) return is_strict;
  if (a->ndim != b->ndim) return true;
  for (int32_t d = 0; d < a->ndim; d++) {
    const tenon_dim_t x = tn_extents_resolve(extents, a->dims[d]);
    const tenon_dim_t y = tn_extents_resolve(extents, b->dims[d]);
    const bool are_known = tenon_is_known(x) && tenon_is_known(y);
    if (x.value != y.value && (is_strict || are_known)) return true;
  }
  return false;
}

/* Gives a gradient the shape of its value `of`. Inputs of pointwise operators were broadcast, which
 * is reversed here. */
static tenon_status_t fit_gradient(task_t *t, tenon_edge_t of, tenon_edge_t *grad) {
  const tenon_edge_t value = t->edges[of];
  const tn_edge_t *expected = made_edge(t, value);
  const tn_edge_t *found = made_edge(t, *grad);
  const bool is_pointwise = t->node->op->traits & TENON_POINTWISE;
  tenon_edge_t shape;
  if (found->dtype.bits && expected->dtype.bits && !tn_dtype_same(found->dtype, expected->dtype))
    return tn_fail(TENON_INVALID, "its gradient for an input of dtype %s has dtype %s",
                   tn_dtype_name(expected->dtype), tn_dtype_name(found->dtype));
  if (!have_other_shapes(t, value, *grad, is_pointwise)) return TENON_OK;
  if (is_pointwise) {
    TN_TRY(append_shape(t, value, &shape));
    return append_core(t, "core::sum_to", *grad, shape, grad);
  }
  tn_text_t text = {0};
  tn_edge_print(tn_builder_graph(t->builder), expected, &text);
  tn_text_add(&text, ", found ");
  tn_edge_print(tn_builder_graph(t->builder), found, &text);
  tenon_status_t status =
      tn_fail(TENON_INVALID, "its gradient for an input has another shape: expected %s", text.data);
  tn_text_clear(&text);
  return status;
}

static tenon_status_t add_gradient(task_t *t, tenon_edge_t of, tenon_edge_t grad) {
  if (made_edge(t, grad)->layout) TN_TRY(append_core(t, "core::to_dense", grad, -1, &grad));
  if (t->grads[of] >= 0) return append_core(t, "core::add", t->grads[of], grad, &t->grads[of]);
  t->grads[of] = grad;
  return TENON_OK;
}

/* Assigns the gradient of an input, the k-th result of the formula, to its values. */
static tenon_status_t give_gradient(task_t *t, uint32_t input, const emitted_t *from, uint32_t k) {
  const tenon_operand_t *operand = &t->node->operands[input];
  const int32_t start = result_start(from->op, from->attrs, k, from->count);
  if (operand->count > 1 && result_items(from->op, from->attrs, k, from->count) != operand->count)
    return tn_fail(TENON_INVALID, "expected a list of %d gradients for input %s",
                   (int)operand->count, t->node->op->schema.inputs[input].name);
  for (int32_t i = 0; i < operand->count; i++) {
    const tenon_edge_t of = operand->edges[i];
    tenon_edge_t grad = from->edges[start + i];
    if (!t->needs[of]) continue;
    TN_TRY(fit_gradient(t, of, &grad));
    TN_TRY(add_gradient(t, of, grad));
  }
  return TENON_OK;
}

static bool is_needed(const task_t *t, const tn_node_t *node, uint32_t input) {
  for (int32_t k = 0; k < node->operands[input].count; k++)
    if (t->needs[node->operands[input].edges[k]]) return true;
  return false;
}

static tenon_status_t run_formula(task_t *t, const tn_gradient_formula_t *formula) {
  uint64_t wanted = 0;
  int32_t list_count = 0;
  emitted_t emitted;
  for (uint32_t k = 0; k < formula->input_count; k++) {
    const uint32_t input = (uint32_t)formula->inputs[k];
    if (is_needed(t, t->node, input)) wanted |= (uint64_t)1 << k;
    if (t->node->op->schema.inputs[input].kind == TENON_KIND_TENSORS)
      list_count = t->node->operands[input].count;
  }
  if (!wanted || formula->kind == TN_FORMULA_NONE) return TENON_OK;
  if (formula->kind == TN_FORMULA_ERROR)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "its gradient formula says that input %s has no gradient yet",
                   t->node->op->schema.inputs[formula->inputs[__builtin_ctzll(wanted)]].name);
  TN_TRY(append_call(t, &formula->call, wanted, list_count, &emitted));
  for (uint32_t k = 0; k < formula->input_count; k++)
    if (wanted >> k & 1) TN_TRY(give_gradient(t, (uint32_t)formula->inputs[k], &emitted, k));
  return TENON_OK;
}

/* Reports a gradient that no formula reads, which would otherwise be lost silently. */
static tenon_status_t check_used(const task_t *t) {
  const tn_node_t *node = t->node;
  uint64_t used = 0;
  for (uint32_t i = 0; i < node->op->gradient.formula_count; i++)
    used |= node->op->gradient.formulas[i].grads_used;
  for (uint32_t o = 0; o < node->op->output_count && used; o++) {
    const int32_t start = result_start(node->op, node->attrs, o, node->output_count);
    const int64_t count = result_items(node->op, node->attrs, o, node->output_count);
    for (int64_t i = 0; i < count; i++)
      if (t->grads[node->outputs[start + i]] >= 0 && !(used >> o & 1))
        return tn_fail(TENON_UNIMPLEMENTED,
                       "a gradient arrived for result %s, which its gradient formulas do not read",
                       node->op->schema.outputs[o].name);
  }
  return TENON_OK;
}

static tenon_status_t differentiate_node(task_t *t) {
  const tn_node_t *node = t->node;
  bool has_grad = false;
  bool any = false;
  for (int32_t o = 0; o < node->output_count; o++)
    has_grad |= t->grads[node->outputs[o]] >= 0;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    any |= is_needed(t, node, i);
  if (!has_grad || !any) return TENON_OK;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    if (node->op->schema.inputs[i].is_written)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "it writes to its input %s: record the runs of the graph instead "
                     "(TENON_COMPILE_GRADIENTS)",
                     node->op->schema.inputs[i].name);
  if (!node->op->gradient.text)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "it has no gradient formulas: give it some (TENON_GRADIENT), or record the runs "
                   "of the graph instead (TENON_COMPILE_GRADIENTS)");
  TN_TRY(check_used(t));
  for (uint32_t i = 0; i < node->op->gradient.formula_count; i++)
    TN_TRY(run_formula(t, &node->op->gradient.formulas[i]));
  return TENON_OK;
}

static tenon_status_t differentiate_nodes(task_t *t) {
  for (size_t n = t->graph->node_count; n-- > 0;) {
    t->node = &t->graph->nodes[n];
    tenon_status_t status = differentiate_node(t);
    tn_arena_clear(&t->arena);
    if (status != TENON_OK)
      return tn_prefix(status, "node '%s' (%s): ", t->node->name, t->node->op->name);
  }
  t->node = NULL;
  return TENON_OK;
}

/* The beginning: what is differentiated */

/* Lists the values whose gradients are wanted: inputs of the graph. */
static tenon_status_t list_wanted(task_t *t, const tenon_graph_gradients_t *options) {
  const tenon_graph_t *graph = t->graph;
  const size_t most = options->value_count ? (size_t)options->value_count : graph->input_count;
  if (!(t->wanted = tn_allocate((most + 1) * sizeof *t->wanted)))
    return tn_no_memory("a gradient", most * sizeof *t->wanted);
  for (int32_t i = 0; i < options->value_count; i++) {
    size_t k = 0;
    while (strcmp(graph->edges[graph->inputs[k]].name, options->values[i]) != 0)
      k++; /* tn_gradient_source has found them all */
    t->wanted[t->wanted_count++] = graph->inputs[k];
  }
  for (size_t i = 0; i < graph->input_count && !options->value_count; i++)
    if (tn_is_differentiable(graph->edges[graph->inputs[i]].dtype))
      t->wanted[t->wanted_count++] = graph->inputs[i];
  if (t->wanted_count) return TENON_OK;
  return tn_fail(TENON_INVALID, "the graph has no input of a float dtype: name the constants whose "
                                "gradients are wanted");
}

static tenon_status_t copy_forward(task_t *t) {
  TN_TRY(tenon_builder_name(t->builder, t->graph->name));
  TN_TRY(tenon_builder_copy_inputs(t->builder, t->graph, t->edges));
  for (int32_t n = 0; n < (int32_t)t->graph->node_count; n++)
    TN_TRY(tenon_builder_copy_node(t->builder, t->graph, n, t->edges));
  for (size_t i = 0; i < t->graph->output_count; i++)
    TN_TRY(tn_builder_copy_constant(t->builder, t->graph, t->graph->outputs[i], t->edges));
  return tn_builder_infer(t->builder);
}

/* Marks the values on which the wanted gradients depend. */
static void mark_needed(task_t *t) {
  for (int32_t i = 0; i < t->wanted_count; i++)
    t->needs[t->wanted[i]] = true;
  for (size_t n = 0; n < t->graph->node_count; n++) {
    const tn_node_t *node = &t->graph->nodes[n];
    bool any = false;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      any |= is_needed(t, node, i);
    for (int32_t o = 0; o < node->output_count && any; o++)
      t->needs[node->outputs[o]] = tn_is_differentiable(t->graph->edges[node->outputs[o]].dtype);
  }
}

static bool is_one_number(const tn_edge_t *edge) {
  for (int32_t d = 0; d < edge->ndim; d++)
    if (edge->dims[d].value != 1) return false;
  return edge->ndim >= 0;
}

/* Gives an output its gradient: 1 if it is a single number, otherwise an input of the new graph. */
static tenon_status_t begin_output(task_t *t, size_t index, uint32_t flags) {
  const tenon_edge_t of = t->graph->outputs[index];
  const tn_edge_t *edge = &t->graph->edges[of];
  const char *name = t->graph->output_names[index];
  tn_text_t text = {0};
  tenon_edge_t grad;
  tenon_status_t status;
  if (!tn_is_differentiable(edge->dtype))
    return tn_fail(TENON_INVALID, "output '%s' has dtype %s: expected a float", name,
                   edge->dtype.bits ? tn_dtype_name(edge->dtype) : "unknown");
  if (is_one_number(edge) && !(flags & TENON_GRADIENTS_GIVEN)) {
    status = append_filled(t, t->edges[of], 1, &grad);
  } else {
    tn_text_add(&text, "%s.grad", name);
    status = text.data ? tenon_builder_input(t->builder, text.data, edge->dtype, edge->ndim,
                                             t->graph->output_axes[index], &grad)
                       : tn_no_memory("a name", strlen(name));
    tn_text_clear(&text);
  }
  return status == TENON_OK ? add_gradient(t, of, grad) : status;
}

static tenon_status_t begin_outputs(task_t *t, const tenon_graph_gradients_t *options) {
  const tenon_graph_t *graph = t->graph;
  for (int32_t i = 0; i < options->output_count; i++) {
    size_t o = 0;
    while (o < graph->output_count && strcmp(graph->output_names[o], options->outputs[i]) != 0)
      o++;
    if (o == graph->output_count)
      return tn_fail(TENON_NOT_FOUND, "the graph has no output named '%s'", options->outputs[i]);
    TN_TRY(begin_output(t, o, options->flags));
  }
  for (size_t o = 0; o < graph->output_count && !options->output_count; o++)
    if (tn_is_differentiable(graph->edges[graph->outputs[o]].dtype))
      TN_TRY(begin_output(t, o, options->flags));
  return TENON_OK;
}

static tenon_status_t end_outputs(task_t *t, const tenon_graph_gradients_t *options) {
  TN_TRY(tenon_builder_copy_outputs(t->builder, t->graph, t->edges));
  for (int32_t i = 0; i < t->wanted_count; i++) {
    const tenon_edge_t of = t->wanted[i];
    const char *name = t->graph->edges[of].name;
    tenon_edge_t grad = t->grads[of];
    if (grad < 0 && !(options->flags & TENON_GRADIENTS_UNUSED))
      return tn_fail(TENON_INVALID,
                     "the outputs do not depend on '%s': pass TENON_GRADIENTS_UNUSED to get zeros "
                     "for such values",
                     name);
    if (grad < 0) TN_TRY(append_filled(t, t->edges[of], 0, &grad));
    tn_text_t text = {0};
    tn_text_add(&text, "%s.grad", name);
    tenon_status_t status = text.data ? tenon_builder_output(t->builder, text.data, grad)
                                      : tn_no_memory("a name", strlen(name));
    tn_text_clear(&text);
    TN_TRY(status);
  }
  return TENON_OK;
}

static tenon_status_t build_gradients(task_t *t, const tenon_graph_gradients_t *options,
                                      tenon_graph_t **out_graph) {
  TN_TRY(list_wanted(t, options));
  TN_TRY(copy_forward(t));
  mark_needed(t);
  TN_TRY(begin_outputs(t, options));
  TN_TRY(differentiate_nodes(t));
  TN_TRY(end_outputs(t, options));
  return tenon_builder_finish(t->builder, out_graph);
}

static tenon_status_t differentiate_graph(const tenon_graph_t *graph,
                                          const tenon_graph_gradients_t *options,
                                          tenon_graph_t **out_graph) {
  const size_t count = graph->edge_count + 1;
  task_t t = {.graph = graph};
  TN_TRY(tenon_builder_create(&t.builder));
  t.edges = tn_allocate(count * sizeof *t.edges);
  t.grads = tn_allocate(count * sizeof *t.grads);
  t.needs = tn_allocate_zero(count, sizeof *t.needs);
  tenon_status_t status = TENON_OK;
  if (!t.edges || !t.grads || !t.needs) {
    status = tn_no_memory("a gradient", count * sizeof *t.edges);
  } else {
    memset(t.edges, -1, count * sizeof *t.edges);
    memset(t.grads, -1, count * sizeof *t.grads);
    status = build_gradients(&t, options, out_graph);
  }
  tenon_builder_release(t.builder);
  tn_release_memory(t.edges);
  tn_release_memory(t.grads);
  tn_release_memory(t.needs);
  tn_release_memory(t.wanted);
  tn_arena_clear(&t.arena);
  return status;
}

tenon_status_t tenon_graph_gradients(const tenon_graph_t *graph,
                                     const tenon_graph_gradients_t *options,
                                     tenon_graph_t **out_graph) {
  const uint32_t known = TENON_GRADIENTS_GIVEN | TENON_GRADIENTS_UNUSED | TENON_GRADIENTS_PLAIN;
  tenon_graph_gradients_t wanted = {.size = sizeof wanted};
  tenon_graph_t *source = NULL;
  if (options)
    memcpy(&wanted, options, options->size < sizeof wanted ? options->size : sizeof wanted);
  if (wanted.flags & ~known)
    return tn_fail(TENON_INVALID,
                   "gradients of a graph: unknown flags %#x: expected TENON_GRADIENTS_...",
                   wanted.flags);
  if (graph->prepared) TN_TRY(graph->prepared->original(graph->prepared, &graph));
  TN_TRY(tn_gradient_source(graph, &wanted, &source));
  tenon_status_t status = differentiate_graph(source, &wanted, out_graph);
  tenon_graph_release(source);
  return status;
}
