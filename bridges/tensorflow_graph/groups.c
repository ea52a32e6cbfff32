/* Finds groups of connected pointwise nodes; see graph.h. A node joins the group of one of its
 * inputs unless a path would then leave the group and come back. */
#include <string.h>

#include "graph.h"

/* Can the node be in a group? */
static bool is_candidate(const graph_node_t *node) {
  const bool is_logical = node->plan && !*node->plan->row->types;
  if (!node->plan || !node->is_plain || node->is_kept) return false;
  if (node->device.size > 0 && !memmem(node->device.data, node->device.size, "CPU", 3))
    return false;
  return is_logical || node->dtype == DT_FLOAT || node->dtype == DT_DOUBLE;
}

static uint64_t bit_of(int32_t group) { return (uint64_t)1 << group; }

/* All groups that a mask stands for, with those that they depend on. */
static uint64_t reach(const graph_t *graph, uint64_t mask) {
  uint64_t before = 0;
  while (mask != before) {
    before = mask;
    for (int32_t g = 0; g < graph->group_count; g++)
      if (mask >> g & 1) mask |= graph->groups[g].depends;
  }
  return mask;
}

/* The groups that a node depends on without being in `group`. */
static uint64_t depends_beside(const graph_t *graph, const graph_node_t *node, int32_t group) {
  uint64_t mask = 0;
  for (int32_t k = 0; k < node->input_count; k++) {
    const graph_node_t *from = &graph->nodes[node->inputs[k]];
    if (from->group >= 0 && from->group == group) continue;
    mask |= from->depends | (from->group >= 0 ? bit_of(from->group) : 0);
  }
  return mask;
}

static bool can_join(const graph_t *graph, const graph_node_t *node, int32_t group) {
  const graph_group_t *g = &graph->groups[group];
  const bool is_logical = !*node->plan->row->types;
  if (!is_logical && node->dtype != g->dtype) return false;
  if (g->node_count == GROUP_NODES_MOST) return false;
  return !(reach(graph, depends_beside(graph, node, group)) & bit_of(group));
}

static void join_group(graph_t *graph, int32_t index, int32_t group) {
  graph_node_t *node = &graph->nodes[index];
  graph_group_t *g = &graph->groups[group];
  g->depends |= depends_beside(graph, node, group);
  g->node_count++;
  g->last = index;
  node->group = group;
}

static void place_in_group(graph_t *graph, int32_t index) {
  graph_node_t *node = &graph->nodes[index];
  node->depends = depends_beside(graph, node, -1);
  if (!is_candidate(node)) return;
  for (int32_t k = 0; k < node->input_count && node->group < 0; k++) {
    const int32_t group = graph->nodes[node->inputs[k]].group;
    if (group >= 0 && can_join(graph, node, group)) join_group(graph, index, group);
  }
  const bool is_logical = !*node->plan->row->types;
  if (node->group >= 0 || is_logical || graph->group_count == GROUPS_MOST) return;
  graph->groups[graph->group_count] = (graph_group_t){.dtype = node->dtype};
  join_group(graph, index, graph->group_count++);
}

void groups_find(graph_t *graph) {
  for (int32_t i = 0; i < graph->node_count; i++)
    graph->nodes[i].plan = rows_find(graph->nodes[i].op);
  for (int32_t i = 0; i < graph->node_count; i++)
    place_in_group(graph, graph->order[i]);
  for (int32_t i = 0; i < graph->node_count; i++)
    for (int32_t k = 0; k < graph->nodes[i].input_count; k++) {
      graph_node_t *from = &graph->nodes[graph->nodes[i].inputs[k]];
      if (from->group >= 0 && from->group != graph->nodes[i].group) from->is_used_outside = true;
    }
  for (int32_t g = 0; g < graph->group_count; g++)
    groups_describe(graph, g);
}
