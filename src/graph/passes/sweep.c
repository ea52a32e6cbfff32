/* Dead code: pure nodes without users go, identities are passed by, and the order of what stays is kept. */
#include <string.h>

#include "base/memory.h"
#include "graph/passes/pass.h"

static bool is_identity(const tenon_graph_t *graph, const tn_node_t *node) {
  return strcmp(node->op->name, "core::identity") == 0 && node->operands[0].count == 1 && node->output_count == 1 &&
         graph->edges[node->operands[0].edges[0]].dtype.bits != 0;
}

static void redirect(tenon_graph_t *graph, tenon_edge_t from, tenon_edge_t to) {
  for (size_t n = 0; n < graph->node_count; n++) {
    const tn_node_t *node = &graph->nodes[n];
    for (uint32_t i = 0; node->op && i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        if (node->operands[i].edges[k] == from) ((tenon_edge_t *)(uintptr_t)node->operands[i].edges)[k] = to;
  }
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i] == from) graph->outputs[i] = to;
}

static bool is_pure(const tenon_op_t *op) { return (op->traits & TENON_PURE) || op->traits & TENON_RANDOM; }

tenon_status_t tn_pass_sweep(tenon_graph_t *graph) {
  for (size_t i = 0; i < graph->node_count; i++) {
    tn_node_t *node = &graph->nodes[i];
    if (!node->op || !is_identity(graph, node)) continue;
    redirect(graph, node->outputs[0], node->operands[0].edges[0]);
    node->op = NULL;
  }
  int32_t *uses;
  tenon_status_t status = tn_graph_uses(graph, &uses);
  if (status != TENON_OK) return status;
  for (size_t i = graph->node_count; i-- > 0;) { /* backwards: users go before what they used */
    tn_node_t *node = &graph->nodes[i];
    if (!node->op || !is_pure(node->op)) continue;
    bool used = node->output_count == 0;
    for (int32_t o = 0; o < node->output_count; o++) used |= uses[node->outputs[o]] > 0;
    if (used) continue;
    for (uint32_t k = 0; k < node->op->input_count; k++)
      for (int32_t e = 0; e < node->operands[k].count; e++) uses[node->operands[k].edges[e]]--;
    node->op = NULL;
  }
  tn_release_memory(uses);
  size_t kept = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (!graph->nodes[i].op) continue;
    if (kept != i) graph->nodes[kept] = graph->nodes[i];
    for (int32_t o = 0; o < graph->nodes[kept].output_count; o++)
      graph->edges[graph->nodes[kept].outputs[o]].producer = (int32_t)kept;
    kept++;
  }
  graph->node_count = kept;
  return TENON_OK;
}
