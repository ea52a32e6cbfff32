/* Types of lists in ONNX files: a graph knows only that a value is a list, and a file states which
 * tensors it holds and whether it is a sequence or an optional value. Called by export_tensor.c.
 * Invariant: what the nodes around a list do not tell stays unstated, which this runtime reads. */
#include <string.h>

#include "core/dtype.h"
#include "import/onnx/export.h"
#include "import/onnx/import.h"

enum { STEPS_MAX = 16 }; /* nodes between a list and the one that tells about its items */

static bool is_op(const tn_node_t *node, const char *name) {
  return strcmp(node->op->name, name) == 0;
}

/* The operand of a node that has the items of its result, or is one of them. -1: none. */
static tenon_edge_t list_source(const tn_node_t *node, bool *out_is_item) {
  static const struct {
    const char *op;
    uint32_t input;
    bool is_item;
  } sources[] = {{"core::list", 0, true},        {"core::optional", 0, true},
                 {"core::list_insert", 1, true}, {"core::list_split", 0, true},
                 {"core::list_erase", 0, false}, {"core::loop", 0, false}};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    if (!is_op(node, sources[i].op)) continue;
    const tenon_operand_t *operand = &node->operands[sources[i].input];
    *out_is_item = sources[i].is_item;
    return operand->count ? operand->edges[0] : -1;
  }
  return -1;
}

static bool reads(const tn_node_t *node, uint32_t input, tenon_edge_t edge) {
  return node->operands[input].count && node->operands[input].edges[0] == edge;
}

/* What a node that reads the list says about its items: the attribute dtype, or another item. */
static tenon_dtype_t dtype_of_reader(const tenon_graph_t *graph, const tn_node_t *node,
                                     tenon_edge_t list) {
  const bool takes = is_op(node, "core::list_at") || is_op(node, "core::optional_get") ||
                     is_op(node, "core::list_concat");
  if (takes && reads(node, 0, list) && node->attrs[0].kind == TENON_KIND_DTYPE)
    return node->attrs[0].as.dtype;
  if (is_op(node, "core::list_insert") && reads(node, 0, list))
    return graph->edges[node->operands[1].edges[0]].dtype;
  return (tenon_dtype_t){0, 0, 0};
}

/* The result of a loop that carries this list on; -1: the node does not. */
static tenon_edge_t carried_list(const tn_node_t *node, tenon_edge_t list) {
  if (!is_op(node, "core::loop")) return -1;
  for (int32_t i = 0; i < node->operands[0].count && i < node->output_count; i++)
    if (node->operands[0].edges[i] == list) return node->outputs[i];
  return -1;
}

static tenon_edge_t find_carried(const tenon_graph_t *graph, tenon_edge_t list) {
  tenon_edge_t found = -1;
  for (size_t n = 0; n < graph->node_count && found < 0; n++)
    found = carried_list(&graph->nodes[n], list);
  return found;
}

/* The dtype of the items of a list; bits == 0: unknown. */
static tenon_dtype_t item_dtype(const tenon_graph_t *graph, tenon_edge_t list) {
  tenon_dtype_t dtype = {0, 0, 0};
  const tenon_edge_t later = find_carried(graph, list);
  for (size_t n = 0; n < graph->node_count && !dtype.bits && later >= 0; n++)
    dtype = dtype_of_reader(graph, &graph->nodes[n], later);
  for (int steps = 0; steps < STEPS_MAX && !dtype.bits && list >= 0; steps++) {
    bool is_item = false;
    for (size_t n = 0; n < graph->node_count && !dtype.bits; n++)
      dtype = dtype_of_reader(graph, &graph->nodes[n], list);
    const int32_t producer = graph->edges[list].producer;
    if (dtype.bits || producer < 0) return dtype;
    list = list_source(&graph->nodes[producer], &is_item);
    if (is_item && list >= 0) dtype = graph->edges[list].dtype;
  }
  return dtype;
}

static bool is_optional_list(const tenon_graph_t *graph, tenon_edge_t list) {
  const int32_t producer = graph->edges[list].producer;
  const tenon_edge_t later = find_carried(graph, list);
  bool found = producer >= 0 && is_op(&graph->nodes[producer], "core::optional");
  for (size_t n = 0; n < graph->node_count && !found; n++) {
    const tn_node_t *node = &graph->nodes[n];
    found = (is_op(node, "core::optional_has") || is_op(node, "core::optional_get")) &&
            (reads(node, 0, list) || (later >= 0 && reads(node, 0, later)));
  }
  return found;
}

/* Wraps the TypeProto that begins at `before` in one of a sequence or an optional value. */
static void wrap_type(tn_writer_t *w, uint32_t field, size_t before) {
  tn_write_message(w, 1, before); /* field elem_type */
  tn_write_message(w, field, before);
}

void tn_export_list_type(tn_export_t *export, const tenon_graph_t *graph, tenon_edge_t list,
                         size_t before) {
  tn_writer_t *w = &export->writer;
  const tenon_dtype_t dtype = item_dtype(graph, list);
  const bool holds_lists = tn_dtype_is(dtype, TENON_LIST);
  const int64_t number = dtype.bits && !holds_lists ? tn_onnx_number(dtype) : 0;
  if (number) tn_write_int(w, 1, number);
  tn_write_message(w, TN_ONNX_TYPE_TENSOR, before);
  if (holds_lists) wrap_type(w, TN_ONNX_TYPE_SEQUENCE, before);
  const bool is_one = holds_lists || is_optional_list(graph, list);
  wrap_type(w, is_one ? TN_ONNX_TYPE_OPTIONAL : TN_ONNX_TYPE_SEQUENCE, before);
}
