/* Dead-code elimination: removes pure nodes whose results are not used, and identities, whose
 * readers read the identity's input instead. The remaining nodes keep their order. Called by the
 * compiler after each rewriting pass. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/passes/pass.h"

static bool is_identity(const tenon_graph_t *graph, const tn_node_t *node) {
  return strcmp(node->op->name, "core::identity") == 0 && node->operands[0].count == 1 &&
         node->output_count == 1 && graph->edges[node->operands[0].edges[0]].dtype.bits != 0;
}

/* Removes identities, so that their readers read their inputs. `stands_for` maps each edge to the
 * edge that replaces it, in one walk over the nodes. */
static tenon_status_t remove_identities(tenon_graph_t *graph) {
  tenon_edge_t *stands_for = tn_allocate((graph->edge_count + 1) * sizeof *stands_for);
  if (!stands_for) return tn_no_memory("a rewrite", graph->edge_count * sizeof *stands_for);
  for (size_t i = 0; i < graph->edge_count; i++)
    stands_for[i] = (tenon_edge_t)i;
  for (size_t n = 0; n < graph->node_count; n++) {
    tn_node_t *node = &graph->nodes[n];
    for (uint32_t i = 0; node->op && i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++) {
        tenon_edge_t *edge = (tenon_edge_t *)(uintptr_t)&node->operands[i].edges[k];
        *edge = stands_for[*edge];
      }
    if (!node->op || !is_identity(graph, node)) continue;
    stands_for[node->outputs[0]] = node->operands[0].edges[0];
    node->op = NULL;
  }
  for (size_t i = 0; i < graph->output_count; i++)
    graph->outputs[i] = stands_for[graph->outputs[i]];
  tn_release_memory(stands_for);
  return TENON_OK;
}

static bool is_removable(const tenon_op_t *op) {
  return (op->traits & TENON_PURE) || op->traits & TENON_RANDOM;
}

tenon_status_t tn_pass_dead_code(tenon_graph_t *graph) {
  TN_TRY(remove_identities(graph));
  int32_t *uses;
  TN_TRY(tn_graph_uses(graph, &uses));
  /* Backwards, so that users are removed before what they used. */
  for (size_t i = graph->node_count; i-- > 0;) {
    tn_node_t *node = &graph->nodes[i];
    if (!node->op || !is_removable(node->op)) continue;
    bool used = node->output_count == 0;
    for (int32_t o = 0; o < node->output_count; o++)
      used |= uses[node->outputs[o]] > 0;
    if (used) continue;
    for (uint32_t k = 0; k < node->op->input_count; k++)
      for (int32_t e = 0; e < node->operands[k].count; e++)
        uses[node->operands[k].edges[e]]--;
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
