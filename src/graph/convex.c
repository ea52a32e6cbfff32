/* Search for paths that leave a group and return, and the order of nodes by groups; see
 * convex.h. */
#include "graph/convex.h"

#include <string.h>

#include "base/status.h"

/* Marks in `reached`. */
enum {
  OUT = 1, /* outside the nodes, and behind one of them on a path */
  IN = 2,  /* one of the nodes */
};

tenon_status_t tn_groups_create(const tenon_graph_t *graph, tn_arena_t *arena, tn_groups_t *out) {
  *out = (tn_groups_t){
      .graph = graph,
      .producers = tn_arena_array(arena, graph->edge_count + 1, sizeof *out->producers),
      .group_of = tn_arena_array(arena, graph->node_count + 1, sizeof *out->group_of),
      .reached = tn_arena_array(arena, graph->node_count + 1, sizeof *out->reached)};
  if (!out->producers || !out->group_of || !out->reached)
    return tn_no_memory("groups of nodes", graph->node_count);
  for (size_t e = 0; e < graph->edge_count; e++)
    out->producers[e] = -1;
  for (size_t n = 0; n < graph->node_count; n++)
    for (int32_t o = 0; graph->nodes[n].op && o < graph->nodes[n].output_count; o++)
      out->producers[graph->nodes[n].outputs[o]] = (int32_t)n;
  return TENON_OK;
}

static bool reads_marked(const tn_groups_t *g, size_t n, uint8_t mark) {
  const tn_node_t *node = &g->graph->nodes[n];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t producer = g->producers[node->operands[i].edges[k]];
      if (producer >= 0 && g->reached[producer] == mark) return true;
    }
  return false;
}

static void mark_outside(const tn_groups_t *g, size_t n) {
  int32_t group = g->group_of[n];
  g->reached[n] = OUT;
  for (size_t k = 0; group && k < g->graph->node_count; k++)
    if (g->group_of[k] == group) g->reached[k] = OUT;
}

bool tn_groups_return(const tn_groups_t *g, const int32_t *nodes, size_t count, int32_t *out_left,
                      int32_t *out_back) {
  int64_t first = -1;
  memset(g->reached, 0, g->graph->node_count);
  for (size_t i = 0; i < count; i++)
    g->reached[nodes[i]] = IN;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = 0; n < g->graph->node_count; n++) {
      if (!g->graph->nodes[n].op || g->reached[n] ||
          !(reads_marked(g, n, IN) || reads_marked(g, n, OUT)))
        continue;
      if (first < 0) first = (int64_t)n;
      mark_outside(g, n);
      changed = true;
    }
  }
  for (size_t i = 0; i < count; i++)
    if (reads_marked(g, (size_t)nodes[i], OUT)) {
      *out_left = (int32_t)first;
      *out_back = nodes[i];
      return true;
    }
  return false;
}

/* The order of nodes */

static bool is_ready(const tn_groups_t *g, const bool *is_placed, size_t n) {
  const tn_node_t *node = &g->graph->nodes[n];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t producer = g->producers[node->operands[i].edges[k]];
      bool is_own = producer >= 0 && g->group_of[n] && g->group_of[producer] == g->group_of[n];
      if (producer >= 0 && !is_own && !is_placed[producer]) return false;
    }
  return true;
}

/* Appends a node, or all nodes of its group, to the order if every operand is available. Returns
 * whether it did. */
static bool append_group(const tn_groups_t *g, bool *is_placed, size_t n, int32_t *order,
                         size_t *count) {
  int32_t group = g->group_of[n];
  size_t begin = group ? 0 : n;
  size_t end = group ? g->graph->node_count : n + 1;
  for (size_t k = begin; k < end; k++)
    if (g->graph->nodes[k].op && g->group_of[k] == group && !is_ready(g, is_placed, k))
      return false;
  for (size_t k = begin; k < end; k++)
    if (g->graph->nodes[k].op && g->group_of[k] == group) {
      order[(*count)++] = (int32_t)k;
      is_placed[k] = true;
    }
  return true;
}

tenon_status_t tn_groups_order(const tn_groups_t *g, tn_arena_t *arena, int32_t *order,
                               size_t *out_count) {
  size_t total = g->graph->node_count;
  size_t count = 0;
  size_t wanted = 0;
  bool *is_placed = tn_arena_array(arena, total + 1, sizeof *is_placed);
  if (!is_placed) return tn_no_memory("an order of nodes", total);
  for (size_t n = 0; n < total; n++)
    wanted += g->graph->nodes[n].op != NULL;
  /* Each round appends everything that is ready. */
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = 0; n < total; n++)
      if (g->graph->nodes[n].op && !is_placed[n])
        changed |= append_group(g, is_placed, n, order, &count);
  }
  *out_count = count;
  return count == wanted
             ? TENON_OK
             : tn_fail(TENON_INTERNAL, "groups of nodes depend on each other in a cycle");
}
