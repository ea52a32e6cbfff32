/* What nnvm_read.c and nnvm_subgraph.c share: values and constants of the graph that is being read,
 * and the order of its variables. */
#include "nnvm_reading.h"

#include <string.h>

#include "base/status.h"

void reading_clear(reading_t *r) {
  tenon_builder_release(r->model.builder);
  tn_arena_clear(&r->model.arena);
}

tenon_status_t reading_value(const reading_t *r, const symbol_node_t *node, int32_t index,
                             tenon_edge_t *out) {
  const symbol_entry_t *entry = &node->inputs[index];
  const values_t *from = &r->model.values[entry->node];
  if (entry->index < 0 || entry->index >= from->count)
    return tn_fail(TENON_INVALID,
                   "node '%.100s' (%.60s): input %d is result %d of '%.100s', which has only %d",
                   node->name, node->op, (int)index, (int)entry->index,
                   r->model.symbol.nodes[entry->node].name, (int)from->count);
  *out = from->edges[entry->index];
  return TENON_OK;
}

tenon_status_t reading_constant(reading_t *r, tenon_edge_t value) {
  tenon_graph_edge_t edge = {.size = sizeof edge};
  if (r->edges[value] >= 0) return TENON_OK;
  TENON_TRY(tenon_graph_edge(r->old->graph, value, &edge, NULL));
  return tenon_builder_constant(r->model.builder, *edge.name == '%' ? NULL : edge.name,
                                edge.constant, &r->edges[value]);
}

tenon_status_t reading_variables(const symbol_t *symbol, tn_arena_t *arena, int32_t *order,
                                 int32_t *count) {
  const size_t most = (size_t)symbol->node_count + 1;
  int32_t *stack = tn_arena_array(arena, most, sizeof *stack);
  int32_t *next = tn_arena_array(arena, most, sizeof *next);
  int32_t depth = 0;
  bool *seen = tn_arena_array(arena, most, sizeof *seen);
  if (!stack || !next || !seen) return tn_no_memory("a graph", 0);
  *count = 0;
  for (int32_t h = 0; h < symbol->head_count; h++) {
    const int32_t head = symbol->heads[h].node;
    if (seen[head]) continue;
    seen[head] = true;
    stack[depth++] = head;
    while (depth) {
      const int32_t at = stack[depth - 1];
      const symbol_node_t *node = &symbol->nodes[at];
      if (next[at] == node->input_count) {
        if (strcmp(node->op, "null") == 0) order[(*count)++] = at;
        depth--;
        continue;
      }
      const int32_t from = node->inputs[next[at]++].node;
      if (seen[from]) continue;
      seen[from] = true;
      stack[depth++] = from;
    }
  }
  return TENON_OK;
}
