/* Symbolic inference over a graph. Called by builders and by the compiler, before and after
 * rewriting. What only running can tell (a rank, for example) stays unknown; each run infers again
 * with concrete shapes. */
#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "dispatch/infer.h"
#include "graph/passes/pass.h"
#include "operator/state.h"

static void meta_of(tn_edge_t *edge, tenon_meta_t *meta) {
  *meta = (tenon_meta_t){.size = sizeof *meta,
                         .dtype = edge->dtype,
                         .ndim = edge->ndim,
                         .device = {1, 0},
                         .dims = edge->dims,
                         .strides = edge->strides,
                         .value = edge->constant,
                         .values = edge->values,
                         .value_count = edge->value_count,
                         .layout = edge->layout,
                         .detail = edge->constant && !edge->layout ? edge->constant->detail : NULL};
}

/* The metas of a node's operands, in scratch memory. *out_ready becomes false if a type or a rank
 * is unknown. */
static tenon_status_t operand_metas(tenon_graph_t *graph, const tn_node_t *node,
                                    tenon_meta_t ***out_metas, bool *out_ready) {
  const tenon_op_t *op = node->op;
  tenon_meta_t **slots = tn_scratch((op->input_count + 1) * sizeof *slots);
  if (!slots) return tn_no_memory("inference", op->input_count * sizeof *slots);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    bool list = op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    size_t count = (size_t)operand->count;
    slots[i] = NULL;
    if (!count && !list) continue;
    tenon_meta_t *metas = tn_scratch((count + 1) * sizeof *metas);
    tenon_meta_t **items = tn_scratch((count + 1) * sizeof *items);
    if (!metas || !items) return tn_no_memory("inference", count * sizeof *metas);
    for (size_t k = 0; k < count; k++) {
      tn_edge_t *edge = &graph->edges[operand->edges[k]];
      meta_of(edge, &metas[k]);
      if (edge->constant && !edge->values)
        TN_TRY(tn_meta_of_tensor(edge->constant, true, &metas[k]));
      if (edge->constant && op->where && op->where[i] & TN_INPUT_KNOWN)
        TN_TRY(tn_meta_known(edge->constant, &metas[k]));
      bool deduced = op->where && op->where[i] & TN_INPUT_DEDUCED && edge->input >= 0;
      if (deduced && edge->ndim < 0) {
        edge->dims = tn_arena_array(&graph->arena, TENON_RANK_MAX, sizeof *edge->dims);
        metas[k].dims = edge->dims;
      }
      if ((!metas[k].dtype.bits && edge->input < 0) || (metas[k].ndim < 0 && !deduced))
        *out_ready = false;
      if (deduced && !metas[k].dims) return tn_no_memory("inference", 0);
      items[k] = &metas[k];
    }
    slots[i] = metas;
    if (!list) continue;
    tenon_meta_t *whole = &metas[count];
    *whole = (tenon_meta_t){.size = sizeof *whole,
                            .dtype = tenon_dtype(TENON_LIST),
                            .ndim = 1,
                            .count = (uint32_t)count,
                            .device = {1, 0},
                            .items = items};
    slots[i] = whole;
  }
  *out_metas = slots;
  return TENON_OK;
}

static tenon_status_t keep_type(tenon_graph_t *graph, const tenon_meta_t *meta, tn_edge_t *edge) {
  edge->dtype = meta->dtype;
  edge->ndim = meta->ndim;
  edge->strides = NULL;
  edge->values = NULL;
  edge->value_count = 0;
  edge->layout = meta->layout;
  if (meta->ndim < 0) return TENON_OK;
  size_t size = (size_t)meta->ndim * sizeof *meta->dims;
  edge->dims = tn_arena_array(&graph->arena, (size_t)meta->ndim + 1, sizeof *edge->dims);
  if (meta->strided)
    edge->strides = tn_arena_array(&graph->arena, (size_t)meta->ndim + 1, sizeof *edge->dims);
  if (!edge->dims || (meta->strided && !edge->strides)) return tn_no_memory("inference", size);
  memcpy(edge->dims, meta->dims, size);
  if (meta->strided) memcpy(edge->strides, meta->strides, size);
  if (!meta->value_count) return TENON_OK;
  edge->values = tn_arena_array(&graph->arena, meta->value_count, sizeof *edge->values);
  if (!edge->values) return tn_no_memory("inference", size);
  memcpy(edge->values, meta->values, meta->value_count * sizeof *edge->values);
  edge->value_count = meta->value_count;
  return TENON_OK;
}

/* Reports an operator without a kernel for sparse tensors now, so that rewriting passes never see
 * sparse operands of other operators. */
static tenon_status_t check_layouts(const tenon_graph_t *graph, const tn_node_t *node) {
  const tenon_op_t *op = node->op;
  bool is_taken = false;
  for (const tn_kernel_t *k = __atomic_load_n(&op->kernels, __ATOMIC_ACQUIRE); k; k = k->next)
    is_taken |= (k->words.flags & TN_KERNEL_SPARSE) != 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      uint32_t layout = graph->edges[node->operands[i].edges[k]].layout;
      if (layout && (!is_taken || op->schema.inputs[i].is_written))
        return tn_fail(
            TENON_UNIMPLEMENTED,
            "input %s is sparse (%s)%s: convert it to a dense tensor first (core::to_dense)",
            op->schema.inputs[i].name, tn_layout_name(layout),
            is_taken ? ", but the operator writes to it"
                     : ", but no kernel of the operator is declared \"sparse\"");
    }
  return TENON_OK;
}

/* Keeps the dtypes that the type declaration tells about results whose shapes cannot be inferred
 * yet. */
static void keep_declared_dtypes(tenon_graph_t *graph, const tn_node_t *node,
                                 tenon_meta_t *const *inputs) {
  const tenon_op_t *op = node->op;
  tenon_dtype_t dtype;
  int32_t at = 0;
  for (uint32_t o = 0; o < op->output_count && tn_op_written(op, 0) < 0; o++) {
    bool is_list = op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    int32_t end = at + (is_list ? node->output_count - (int32_t)op->output_count + 1 : 1);
    bool is_known = tn_types_output(&op->types, &op->schema, node->attrs, inputs, o, &dtype);
    for (; at < end && at < node->output_count; at++)
      if (is_known) graph->edges[node->outputs[at]].dtype = dtype;
  }
}

static tenon_status_t infer_node(tenon_graph_t *graph, const tn_node_t *node) {
  const tenon_op_t *op = node->op;
  tn_inference_t inference = {.extents = graph->extents};
  tenon_meta_t **inputs = NULL;
  tenon_meta_t **outputs = NULL;
  bool ready = true;
  TN_TRY(check_layouts(graph, node));
  TN_TRY(operand_metas(graph, node, &inputs, &ready));
  if (!tn_types_fill(&op->types, &op->schema, node->attrs, inputs)) ready = false;
  for (uint32_t i = 0; i < op->input_count; i++)
    /* A graph input whose dtype was not stated gets the inferred one. */
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      tn_edge_t *edge = &graph->edges[node->operands[i].edges[k]];
      if (edge->input >= 0 && !edge->dtype.bits)
        edge->dtype = inputs[i]->items ? inputs[i]->items[k]->dtype : inputs[i]->dtype;
    }
  if (!ready) {
    keep_declared_dtypes(graph, node, inputs);
    return TENON_OK;
  }
  TN_TRY(tn_metas_of_results(op, node->attrs, node->wanted, &outputs));
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS && outputs[o] && !outputs[o]->items)
      /* The number of items is known only after running. */
      return TENON_OK;
  void *state = NULL;
  if (op->create && op->infer) TN_TRY(tn_state_get(op, node->attrs, &state));
  TN_TRY(tn_infer(&inference, op, node->attrs, state, inputs, outputs));
  ((tn_node_t *)(uintptr_t)node)->is_bounded = inference.is_bounded;
  int32_t at = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    const tenon_meta_t *meta = outputs[o];
    uint32_t count = meta && meta->items ? meta->count : 1;
    for (uint32_t k = 0; k < count && at < node->output_count; k++, at++)
      if (meta)
        TN_TRY(keep_type(graph, meta->items ? meta->items[k] : meta,
                         &graph->edges[node->outputs[at]]));
  }
  for (int32_t k = 0, i; (i = tn_op_written(op, k)) >= 0 && at < node->output_count; k++, at++)
    if (inputs[i]) TN_TRY(keep_type(graph, inputs[i], &graph->edges[node->outputs[at]]));
  /* A graph input without a rank gets the one that infer deduced. */
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (!inputs[i] || inputs[i]->items || !op->where || !(op->where[i] & TN_INPUT_DEDUCED))
      continue;
    tn_edge_t *edge = &graph->edges[node->operands[i].edges[0]];
    if (edge->input >= 0 && edge->ndim < 0 && inputs[i]->ndim >= 0) edge->ndim = inputs[i]->ndim;
  }
  return TENON_OK;
}

tenon_status_t tn_node_infer(tenon_graph_t *graph, const tn_node_t *node) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = infer_node(graph, node);
  tn_scratch_reset(mark);
  return status == TENON_OK ? status
                            : tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name);
}

tenon_status_t tn_pass_infer(tenon_graph_t *graph) {
  int32_t *uses;
  TN_TRY(tn_graph_uses(graph, &uses));
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < graph->node_count && status == TENON_OK; i++) {
    tn_node_t *node = &graph->nodes[i];
    if (!node->op) continue;
    node->wanted = tn_node_wanted(node, uses);
    status = tn_node_infer(graph, node);
  }
  tn_release_memory(uses);
  return status;
}
