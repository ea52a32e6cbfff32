/* Creates views: edges are numbered in the order in which the view's nodes mention them. */
#include "graph/device_view.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* Marks of an edge. */
enum {
  USED = 1,    /* a node of the view reads it */
  MADE = 2,    /* a node of the view makes it */
  OUTSIDE = 4, /* a node outside the view reads it, or it is an output of the graph */
};

typedef struct view_maker_t {
  const tenon_graph_t *graph;
  tn_arena_t *arena;
  tn_view_t *out;
  uint8_t *marks;   /* one for each edge of the graph */
  int32_t *numbers; /* for each edge of the graph: its number in the view; -1: not in it */
} view_maker_t;

static uint32_t view_edge_number(view_maker_t *m, tenon_edge_t edge) {
  if (m->numbers[edge] < 0) {
    m->out->edges[m->out->view.edge_count] = edge;
    m->numbers[edge] = (int32_t)m->out->view.edge_count++;
  }
  return (uint32_t)m->numbers[edge];
}

static void mark_edges(view_maker_t *m, const int32_t *nodes, uint32_t count, uint32_t *out_most) {
  const tenon_graph_t *g = m->graph;
  for (size_t n = 0, next = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    bool is_in = next < count && nodes[next] == (int32_t)n;
    if (!node->op) continue;
    next += is_in;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++) {
        m->marks[node->operands[i].edges[k]] |= is_in ? USED : OUTSIDE;
        *out_most += is_in;
      }
    for (int32_t o = 0; is_in && o < node->output_count; o++) {
      m->marks[node->outputs[o]] |= MADE;
      ++*out_most;
    }
  }
  for (size_t i = 0; i < g->output_count; i++)
    m->marks[g->outputs[i]] |= OUTSIDE;
}

static tenon_dim_t *resolve_dims(view_maker_t *m, const tenon_dim_t *dims, size_t count) {
  tenon_dim_t *own = tn_arena_array(m->arena, count + 1, sizeof *own);
  for (size_t d = 0; own && d < count; d++)
    own[d] = tn_extents_resolve(m->graph->extents, dims[d]);
  return own;
}

static tenon_status_t make_edges(view_maker_t *m) {
  tenon_graph_view_t *view = &m->out->view;
  size_t count = view->edge_count;
  tenon_meta_t *metas = tn_arena_array(m->arena, count + 1, sizeof *metas);
  const tenon_meta_t **edges = tn_arena_array(m->arena, count + 1, sizeof *edges);
  const char **names = tn_arena_array(m->arena, count + 1, sizeof *names);
  uint32_t *inputs = tn_arena_array(m->arena, count + 1, sizeof *inputs);
  uint32_t *outputs = tn_arena_array(m->arena, count + 1, sizeof *outputs);
  if (!metas || !edges || !names || !inputs || !outputs)
    return tn_no_memory("a view of a graph", count);
  for (uint32_t i = 0; i < count; i++) {
    const tn_edge_t *edge = &m->graph->edges[m->out->edges[i]];
    uint8_t marks = m->marks[m->out->edges[i]];
    metas[i] =
        (tenon_meta_t){.size = sizeof *metas,
                       .dtype = edge->dtype,
                       .ndim = edge->ndim,
                       .device = {1, 0},
                       .value = edge->constant,
                       .value_count = edge->value_count,
                       .layout = edge->layout,
                       .detail = edge->constant && !edge->layout ? edge->constant->detail : NULL};
    if (edge->ndim >= 0) metas[i].dims = resolve_dims(m, edge->dims, (size_t)edge->ndim);
    if (edge->value_count) metas[i].values = resolve_dims(m, edge->values, edge->value_count);
    if ((edge->ndim >= 0 && !metas[i].dims) || (edge->value_count && !metas[i].values))
      return tn_no_memory("a view of a graph", count);
    edges[i] = &metas[i];
    names[i] = edge->name;
    if (!(marks & MADE) && !edge->constant) inputs[view->input_count++] = i;
    if (marks & MADE && marks & OUTSIDE) outputs[view->output_count++] = i;
  }
  view->edges = edges;
  view->names = names;
  view->inputs = inputs;
  view->outputs = outputs;
  return TENON_OK;
}

static tenon_status_t make_node(view_maker_t *m, const tn_node_t *node, tenon_graph_node_t *out) {
  size_t count = 0;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    count += (size_t)node->operands[i].count;
  uint32_t *starts = tn_arena_array(m->arena, node->op->input_count + 1, sizeof *starts);
  uint32_t at = 0;
  uint32_t *inputs = tn_arena_array(m->arena, count + 1, sizeof *inputs);
  uint32_t *outputs = tn_arena_array(m->arena, (size_t)node->output_count + 1, sizeof *outputs);
  if (!starts || !inputs || !outputs) return tn_no_memory("a view of a graph", count);
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    starts[i] = at;
    for (int32_t k = 0; k < node->operands[i].count; k++)
      inputs[at++] = view_edge_number(m, node->operands[i].edges[k]);
  }
  starts[node->op->input_count] = at;
  for (int32_t o = 0; o < node->output_count; o++)
    outputs[o] = view_edge_number(m, node->outputs[o]);
  *out = (tenon_graph_node_t){.size = sizeof *out,
                              .attr_count = node->op->schema.attr_count,
                              .op = node->op->name,
                              .name = node->name,
                              .version = node->op->version,
                              .attrs = node->attrs,
                              .argument_count = node->op->input_count,
                              .output_count = (uint32_t)node->output_count,
                              .starts = starts,
                              .inputs = inputs,
                              .outputs = outputs};
  return TENON_OK;
}

static tenon_status_t make_view(view_maker_t *m, const int32_t *nodes, uint32_t count) {
  uint32_t most = 0;
  tn_view_t *out = m->out;
  *out = (tn_view_t){.view = {.size = sizeof out->view, .node_count = count}};
  for (size_t i = 0; i < m->graph->edge_count; i++)
    m->numbers[i] = -1;
  mark_edges(m, nodes, count, &most);
  tenon_graph_node_t *made = tn_arena_array(m->arena, count + 1, sizeof *made);
  const tenon_graph_node_t **list = tn_arena_array(m->arena, count + 1, sizeof *list);
  out->edges = tn_arena_array(m->arena, most + 1, sizeof *out->edges);
  out->nodes = tn_arena_array(m->arena, count + 1, sizeof *out->nodes);
  if (!made || !list || !out->edges || !out->nodes) return tn_no_memory("a view of a graph", most);
  for (uint32_t n = 0; n < count; n++) {
    TN_TRY(make_node(m, &m->graph->nodes[nodes[n]], &made[n]));
    list[n] = &made[n];
    out->nodes[n] = nodes[n];
  }
  out->view.nodes = list;
  return make_edges(m);
}

tenon_status_t tn_view_create(const tenon_graph_t *graph, const int32_t *nodes, uint32_t count,
                              tn_arena_t *arena, tn_view_t *out_view) {
  size_t edges = graph->edge_count + 1;
  view_maker_t m = {graph, arena, out_view, tn_allocate_zero(edges, 1),
                    tn_allocate(edges * sizeof *m.numbers)};
  tenon_status_t status =
      m.marks && m.numbers ? make_view(&m, nodes, count) : tn_no_memory("a view of a graph", edges);
  tn_release_memory(m.marks);
  tn_release_memory(m.numbers);
  return status;
}
