/* From groups of nodes to nodes of the strategy's operator, which have them as a graph.  Invariant:
 * what a library gives is checked before the new graph is made, and the old one is not changed. */
#include "graph/cut.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/convex.h"

typedef struct piece_t { /* a subgraph, and the node that it becomes */
  tenon_graph_t *graph;
  tenon_attrs_t *attrs;
  tenon_edge_t *inputs;
  tenon_edge_t *outputs; /* values of the whole graph */
  int32_t input_count;
  int32_t output_count;
  bool is_taken;
} piece_t;

typedef struct cutting_t {
  tenon_cut_t *cut;
  const tenon_graph_t *graph;
  const tenon_op_t *op;
  tn_arena_t arena;
  tn_groups_t groups;
  piece_t *pieces;
  int32_t count;
  uint8_t *marks;      /* of each value, while one subgraph is made */
  tenon_edge_t *edges; /* the same: where it is in the builder, -1 */
} cutting_t;

enum {
  READ = 1,
  IS_VALUE = 2 /* of the host, where it is read */,
  IS_TENSOR = 4,
  MADE = 8,
  NEEDED = 16,
  /* outside */
};

/* the operator */

static tenon_status_t find_op(cutting_t *c, const tn_library_t *library) {
  char full[512];
  const char *name = c->cut->strategy->op;
  snprintf(full, sizeof full, "%s%s%s", strstr(name, "::") ? "" : library->name,
           strstr(name, "::") ? "" : "::", name);
  TN_TRY(tenon_op_find(full, &c->op));
  if (c->op->body >= 0) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "its operator %s has no BODY: subgraphs go to operators that are made for them",
                 full);
}

static const char *attr_name(const cutting_t *c, int32_t index) {
  return c->op->schema.attrs[index].name;
}

/* what a subgraph takes and gives */

static bool is_host_value(const tenon_op_t *op, uint32_t input) {
  return op->schema.inputs[input].is_host || (op->where && op->where[input] & TN_INPUT_KNOWN);
}

static void mark(cutting_t *c, int32_t group) {
  const tenon_graph_t *g = c->graph;
  memset(c->marks, 0, g->edge_count);
  for (size_t n = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    bool is_in = c->groups.group_of[n] == group;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        c->marks[node->operands[i].edges[k]] |=
            !is_in ? NEEDED : READ | (is_host_value(node->op, i) ? IS_VALUE : IS_TENSOR);
    for (int32_t o = 0; is_in && o < node->output_count; o++)
      c->marks[node->outputs[o]] |= MADE;
  }
  for (size_t i = 0; i < g->output_count; i++)
    c->marks[g->outputs[i]] |= NEEDED;
}

/* Lists its inputs in the order in which its nodes read them, and its outputs as they make them. */
static tenon_status_t list_ports(cutting_t *c, int32_t group, piece_t *piece) {
  const tenon_graph_t *g = c->graph;
  piece->inputs = tn_arena_array(&c->arena, g->edge_count + 1, sizeof *piece->inputs);
  piece->outputs = tn_arena_array(&c->arena, g->edge_count + 1, sizeof *piece->outputs);
  if (!piece->inputs || !piece->outputs) return tn_no_memory("a subgraph", g->edge_count);
  for (size_t n = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    if (c->groups.group_of[n] != group) continue;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++) {
        tenon_edge_t edge = node->operands[i].edges[k];
        bool goes_along = g->edges[edge].constant && !(c->marks[edge] & IS_TENSOR);
        if (c->marks[edge] & MADE || !(c->marks[edge] & READ) || goes_along) continue;
        c->marks[edge] &= (uint8_t)~READ;
        piece->inputs[piece->input_count++] = edge;
      }
    for (int32_t o = 0; o < node->output_count; o++)
      if (c->marks[node->outputs[o]] & NEEDED)
        piece->outputs[piece->output_count++] = node->outputs[o];
  }
  return TENON_OK;
}

/* A name of a value as others see it: its own, or that of its node. */
static tenon_status_t name_value(const cutting_t *c, tenon_edge_t edge, char *out_name,
                                 size_t capacity) {
  int32_t n = c->groups.producers[edge];
  const tn_node_t *node = n >= 0 ? &c->graph->nodes[n] : NULL;
  int32_t o = 0;
  while (node && o < node->output_count && node->outputs[o] != edge)
    o++;
  int size = !node ? snprintf(out_name, capacity, "%s", c->graph->edges[edge].name)
             : node->output_count == 1
                 ? snprintf(out_name, capacity, "%s_output", node->name)
                 : snprintf(out_name, capacity, "%s_output%d", node->name, (int)o);
  return size < (int)capacity ? TENON_OK
                              : tn_fail(TENON_RANGE, "a name of more than %zu bytes", capacity);
}

static tenon_status_t fill(cutting_t *c, int32_t group, const piece_t *piece,
                           tenon_builder_t *builder) {
  char name[1024];
  for (size_t e = 0; e < c->graph->edge_count; e++)
    c->edges[e] = -1;
  for (int32_t i = 0; i < piece->input_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    TN_TRY(tenon_graph_value(c->graph, piece->inputs[i], &port));
    TN_TRY(name_value(c, piece->inputs[i], name, sizeof name));
    const tn_edge_t *edge = &c->graph->edges[piece->inputs[i]];
    if (edge->input >= 0 && !edge->is_stated) port.dtype = (tenon_dtype_t){0, 0, 0};
    TN_TRY(tenon_builder_input(builder, name, port.dtype, port.ndim, port.axes,
                               &c->edges[piece->inputs[i]]));
    if (edge->layout)
      TN_TRY(tenon_builder_sparse(builder, c->edges[piece->inputs[i]], edge->layout));
  }
  for (size_t n = 0; n < c->graph->node_count; n++)
    if (c->groups.group_of[n] == group)
      TN_TRY(tenon_builder_copy_node(builder, c->graph, (int32_t)n, c->edges));
  for (int32_t o = 0; o < piece->output_count; o++) {
    TN_TRY(name_value(c, piece->outputs[o], name, sizeof name));
    TN_TRY(tenon_builder_output(builder, name, c->edges[piece->outputs[o]]));
  }
  return TENON_OK;
}

/* a subgraph */

static tenon_status_t make_attrs(cutting_t *c, piece_t *piece) {
  TN_TRY(tenon_attrs_create(c->op, &piece->attrs));
  TN_TRY(tenon_attrs_set(piece->attrs, attr_name(c, c->op->body),
                         &(tenon_value_t){TENON_KIND_GRAPH, 0, {.graph = piece->graph}}));
  return tenon_attrs_int(piece->attrs, attr_name(c, c->op->schema.outputs[0].count_attr),
                         piece->output_count);
}

/* One whose results nobody needs is none. */
static tenon_status_t make_piece(cutting_t *c, int32_t group, piece_t *piece) {
  tenon_builder_t *builder = NULL;
  mark(c, group);
  TN_TRY(list_ports(c, group, piece));
  if (!piece->output_count) return TENON_OK;
  TN_TRY(tenon_builder_create(&builder));
  tenon_status_t status = fill(c, group, piece, builder);
  if (status == TENON_OK) status = tenon_builder_finish(builder, &piece->graph);
  tenon_builder_release(builder);
  if (status == TENON_OK) status = make_attrs(c, piece);
  tenon_review_t review = {sizeof review, group - 1, piece->graph, piece->inputs, piece->attrs, 1};
  if (status == TENON_OK && c->cut->strategy->review)
    status = c->cut->strategy->review(c->cut, &review);
  piece->is_taken = review.is_accepted != 0;
  return status == TENON_OK ? status : tn_prefix(status, "subgraph %d: ", (int)group - 1);
}

/* the new graph */

/* "fused0", or, if a node has that name, "fused0_1" and so on. */
static void name_node(const cutting_t *c, int32_t index, char *out_name, size_t capacity) {
  int used = snprintf(out_name, capacity, "%s%d", c->op->schema.name, (int)index);
  for (int more = 1; used > 0 && (size_t)used + 16 < capacity; more++) {
    size_t n = 0;
    while (n < c->graph->node_count && strcmp(c->graph->nodes[n].name, out_name) != 0)
      n++;
    if (n == c->graph->node_count) return;
    snprintf(out_name + used, capacity - (size_t)used, "_%d", more);
  }
}

static tenon_status_t add_piece(cutting_t *c, int32_t index, tenon_builder_t *builder) {
  piece_t *piece = &c->pieces[index];
  const tenon_value_t *values;
  char name[512];
  tenon_edge_t *inputs = tn_arena_array(&c->arena, (size_t)piece->input_count + 1, sizeof *inputs);
  tenon_edge_t *outputs =
      tn_arena_array(&c->arena, (size_t)piece->output_count + 1, sizeof *outputs);
  if (!inputs || !outputs) return tn_no_memory("a node", 0);
  for (int32_t i = 0; i < piece->input_count; i++) {
    tenon_edge_t from = piece->inputs[i];
    TN_TRY(tn_builder_place(builder, c->graph, from, c->edges));
    inputs[i] = c->edges[from];
  }
  name_node(c, index, name, sizeof name);
  TN_TRY(tenon_attrs_values(piece->attrs, &values));
  TN_TRY(tenon_builder_node(builder, name, c->op, values,
                            &(tenon_operand_t){piece->input_count, inputs}, outputs,
                            piece->output_count));
  for (int32_t o = 0; o < piece->output_count; o++)
    c->edges[piece->outputs[o]] = outputs[o];
  return TENON_OK;
}

static tenon_status_t rebuild(cutting_t *c, tenon_builder_t *builder) {
  size_t count;
  int32_t *order = tn_arena_array(&c->arena, c->graph->node_count + 1, sizeof *order);
  int32_t last = 0;
  if (!order) return tn_no_memory("an order of nodes", c->graph->node_count);
  TN_TRY(tn_groups_order(&c->groups, &c->arena, order, &count));
  for (size_t e = 0; e < c->graph->edge_count; e++)
    c->edges[e] = -1;
  TN_TRY(tenon_builder_name(builder, c->graph->name));
  TN_TRY(tenon_builder_copy_inputs(builder, c->graph, c->edges));
  for (size_t i = 0; i < count; i++) {
    int32_t group = c->groups.group_of[order[i]];
    if (!group)
      TN_TRY(tenon_builder_copy_node(builder, c->graph, order[i], c->edges));
    else if (group != last)
      TN_TRY(add_piece(c, group - 1, builder));
    last = group;
  }
  return tenon_builder_copy_outputs(builder, c->graph, c->edges);
}

static tenon_status_t apply(cutting_t *c, const tn_library_t *library, tenon_graph_t **out_graph) {
  tenon_builder_t *builder = NULL;
  TN_TRY(find_op(c, library));
  TN_TRY(tn_groups_create(c->graph, &c->arena, &c->groups));
  TN_TRY(tn_cut_select(c->cut, &c->groups, &c->count));
  c->pieces = tn_arena_array(&c->arena, (size_t)c->count + 1, sizeof *c->pieces);
  c->marks = tn_arena_array(&c->arena, c->graph->edge_count + 1, sizeof *c->marks);
  c->edges = tn_arena_array(&c->arena, c->graph->edge_count + 1, sizeof *c->edges);
  if (!c->pieces || !c->marks || !c->edges) return tn_no_memory("subgraphs", (size_t)c->count);
  for (int32_t i = 0; i < c->count; i++)
    TN_TRY(make_piece(c, i + 1, &c->pieces[i]));
  for (size_t n = 0; n < c->graph->node_count; n++) /* those that are not taken stay as they are */
    if (c->groups.group_of[n] && !c->pieces[c->groups.group_of[n] - 1].is_taken)
      c->groups.group_of[n] = 0;
  TN_TRY(tenon_builder_create(&builder));
  tenon_status_t status = rebuild(c, builder);
  if (status == TENON_OK) status = tenon_builder_finish(builder, out_graph);
  tenon_builder_release(builder);
  return status;
}

tenon_status_t tn_cut_apply(tenon_cut_t *cut, const tn_library_t *library,
                            tenon_graph_t **out_graph) {
  cutting_t c = {.cut = cut, .graph = cut->graph};
  if (cut->strategy->begin) TN_TRY(cut->strategy->begin(cut));
  tenon_status_t status = apply(&c, library, out_graph);
  if (cut->strategy->end) cut->strategy->end(cut);
  for (int32_t i = 0; i < c.count && c.pieces; i++) {
    tenon_attrs_release(c.pieces[i].attrs);
    tenon_graph_release(c.pieces[i].graph);
  }
  tn_arena_clear(&c.arena);
  return status;
}
