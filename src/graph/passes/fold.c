/* Constant folding: a pure node whose inputs are all constants is computed by its own kernel, which
 * may be a library's. A result that would enlarge the graph (much larger than the inputs) remains a
 * node. Weights of 8 bits that are turned into f32 are no such result: kernels pack constants once,
 * and other weights at every call. */
#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "dispatch/call.h"
#include "graph/passes/pass.h"

enum {
  SMALL_RESULT = 1 << 20, /* bytes; results up to this size are always folded */
  GROWTH = 4,             /* so many times the bytes of the inputs are folded as well */
};

static uint64_t tensor_bytes(const tenon_tensor_t *tensor) {
  uint64_t size = 0;
  return tn_dtype_bytes(tensor->dtype, tenon_count(tensor), &size) ? size : UINT64_MAX;
}

static bool may_fold(const tenon_graph_t *graph, const tn_node_t *node, uint64_t *out_bytes) {
  const tenon_op_t *op = node->op;
  if (!(op->traits & TENON_PURE) || op->traits & TENON_RANDOM || op->create) return false;
  *out_bytes = 0;
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (node->attrs[i].kind == TENON_KIND_GRAPH) return false;
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->schema.inputs[i].is_written) return false;
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      const tenon_tensor_t *constant = graph->edges[node->operands[i].edges[k]].constant;
      if (!constant) return false;
      *out_bytes += tensor_bytes(constant);
    }
  }
  return true;
}

static bool stays_small(const tenon_graph_t *graph, const tn_node_t *node, uint64_t input_bytes) {
  for (int32_t o = 0; o < node->output_count; o++) {
    const tn_edge_t *edge = &graph->edges[node->outputs[o]];
    int64_t count = 1;
    uint64_t size;
    if (tn_dtype_is(edge->dtype, TENON_LIST)) return false; /* a constant is one tensor */
    for (int32_t d = 0; d < edge->ndim; d++) {
      if (!tenon_is_known(edge->dims[d]))
        /* The shape depends on data: in practice the inputs bound it. */
        return true;
      if (!tn_mul(count, edge->dims[d].value, &count)) return false;
    }
    if (!tn_dtype_bytes(edge->dtype, count, &size)) return false;
    if (size > SMALL_RESULT && size / GROWTH > input_bytes) return false;
  }
  return true;
}

void tn_edge_bind_constant(tenon_graph_t *graph, tenon_edge_t index, tenon_tensor_t *tensor) {
  tn_edge_t *edge = &graph->edges[index];
  edge->constant = tensor;
  tenon_tensor_retain(edge->constant);
  edge->dtype = tensor->dtype;
  edge->ndim = tensor->ndim;
  edge->layout = tn_layout(tensor);
  edge->producer = -1;
  edge->dims = (tenon_dim_t *)(void *)tensor->shape;
  edge->strides = tensor->keys & TN_KEY_STRIDED ? (tenon_dim_t *)(void *)tensor->strides : NULL;
  edge->values = NULL;
  edge->value_count = 0;
}

/* Makes constants of a node's results. A result that nothing reads was not computed. */
static void bind_results(tenon_graph_t *graph, const tn_node_t *node,
                         tenon_tensor_t *const *outputs) {
  int32_t at = 0;
  for (uint32_t o = 0; o < node->op->output_count; o++) {
    const bool is_list = node->op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    const int64_t count = is_list && outputs[o] ? outputs[o]->shape[0] : 1;
    for (int64_t k = 0; k < count && at < node->output_count; k++, at++)
      if (outputs[o])
        tn_edge_bind_constant(graph, node->outputs[at],
                              is_list ? tenon_item(outputs[o], k) : outputs[o]);
  }
}

static tenon_status_t fold_node(tenon_graph_t *graph, tn_node_t *node) {
  const tenon_op_t *op = node->op;
  tenon_tensor_t **inputs = tn_scratch((op->input_count + op->output_count + 1) * sizeof *inputs);
  if (!inputs) return tn_no_memory("folding", 0);
  tenon_tensor_t **outputs = inputs + op->input_count;
  tenon_status_t status = TENON_OK;
  uint32_t made = 0;
  memset(outputs, 0, op->output_count * sizeof *outputs);
  for (; made < op->input_count && status == TENON_OK; made++) {
    const tenon_operand_t *operand = &node->operands[made];
    bool list = op->schema.inputs[made].kind == TENON_KIND_TENSORS;
    inputs[made] = NULL;
    if (!list) {
      if (operand->count) {
        inputs[made] = graph->edges[operand->edges[0]].constant;
        tenon_tensor_retain(inputs[made]);
      }
      continue;
    }
    tenon_tensor_t **items = tn_scratch(((size_t)operand->count + 1) * sizeof *items);
    if (!items) status = tn_no_memory("folding", 0);
    for (int32_t k = 0; items && k < operand->count; k++)
      items[k] = graph->edges[operand->edges[k]].constant;
    if (items) status = tenon_tensor_list(items, operand->count, &inputs[made]);
  }
  if (status == TENON_OK) status = tn_call(op, node->attrs, inputs, outputs, node->wanted, NULL);
  for (uint32_t i = 0; i < made; i++)
    tenon_tensor_release(inputs[i]);
  if (status == TENON_OK) bind_results(graph, node, outputs);
  for (uint32_t o = 0; o < op->output_count; o++)
    tenon_tensor_release(outputs[o]);
  if (status == TENON_OK) node->op = NULL;
  return status;
}

/* Turns values that inference found (as for shape and size, and what is computed from these) into a
 * constant once all of them are known numbers. */
static tenon_status_t bind_known_values(tenon_graph_t *graph, tn_node_t *node) {
  if (!(node->op->traits & TENON_PURE) || node->output_count != 1) return TENON_OK;
  tn_edge_t *edge = &graph->edges[node->outputs[0]];
  bool wide = tn_dtype_is(edge->dtype, TENON_I64);
  if (!edge->values || edge->ndim > 1 || !(wide || tn_dtype_is(edge->dtype, TENON_I32)))
    return TENON_OK;
  for (uint32_t i = 0; i < edge->value_count; i++) {
    edge->values[i] = tn_extents_resolve(graph->extents, edge->values[i]);
    if (!tenon_is_known(edge->values[i]) || edge->values[i].value == TENON_DIM_LEAST)
      return TENON_OK;
  }
  int64_t shape[1] = {edge->value_count};
  tenon_tensor_t *tensor;
  TN_TRY(tenon_tensor_create(edge->dtype, edge->ndim, shape, &tensor));
  for (uint32_t i = 0; i < edge->value_count; i++) {
    if (wide)
      ((int64_t *)tensor->data)[i] = edge->values[i].value;
    else
      ((int32_t *)tensor->data)[i] = (int32_t)edge->values[i].value;
  }
  tn_edge_bind_constant(graph, node->outputs[0], tensor);
  tenon_tensor_release(tensor);
  node->op = NULL;
  return TENON_OK;
}

tenon_status_t tn_node_fold(tenon_graph_t *graph, tn_node_t *node) {
  uint64_t bytes;
  /* inputs that have become constants may tell more about types */
  TN_TRY(tn_node_infer(graph, node));
  TN_TRY(bind_known_values(graph, node));
  if (!node->op || !may_fold(graph, node, &bytes) || !stays_small(graph, node, bytes))
    return TENON_OK;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = fold_node(graph, node);
  tn_scratch_reset(mark);
  if (status == TENON_OK) return TENON_OK;
  return tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name);
}

tenon_status_t tn_pass_fold(tenon_graph_t *graph) {
  for (size_t i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].op) TN_TRY(tn_node_fold(graph, &graph->nodes[i]));
  return TENON_OK;
}
