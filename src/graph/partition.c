/* Replaces subgraphs by nodes of the strategy's operator, which hold the subgraph as an attribute.
 * Invariant: everything that a library returns is checked before the new graph is made, and the old
 * graph is not changed. */
#include "graph/partition.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/convex.h"

/* A subgraph, and the node that replaces it. */
typedef struct subgraph_t {
  tenon_graph_t *graph;
  tenon_attrs_t *attrs;
  tenon_edge_t *inputs;
  tenon_edge_t *outputs; /* inputs and outputs are values of the whole graph */
  int32_t input_count;
  int32_t output_count;
  bool is_accepted;
} subgraph_t;

typedef struct partition_t {
  tenon_cut_t *cut;
  const tenon_graph_t *graph;
  const tenon_op_t *op;
  tn_arena_t arena;
  tn_groups_t groups;
  subgraph_t *subgraphs;
  int32_t count;
  uint8_t *marks;      /* of each value, while one subgraph is made: the flags below */
  tenon_edge_t *edges; /* of each value: its edge in the current builder; -1: none yet */
} partition_t;

enum {
  READ = 1,      /* a node of the subgraph reads it */
  IS_VALUE = 2,  /* a node of the subgraph reads it as a host value */
  IS_TENSOR = 4, /* a node of the subgraph reads it as a tensor */
  MADE = 8,      /* a node of the subgraph makes it */
  NEEDED = 16,   /* a node outside reads it, or it is an output of the whole graph */
};

/* The strategy's operator */

static tenon_status_t find_op(partition_t *c, const tn_library_t *library) {
  char full[512];
  const char *name = c->cut->strategy->op;
  if (strstr(name, "::"))
    snprintf(full, sizeof full, "%s", name);
  else
    snprintf(full, sizeof full, "%s::%s", library->name, name);
  TN_TRY(tenon_op_find(full, &c->op));
  if (c->op->body >= 0) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "its operator %s has no BODY: a strategy needs an operator that declares which "
                 "attribute takes the subgraph (TENON_BODY)",
                 full);
}

static const char *attr_name(const partition_t *c, int32_t index) {
  return c->op->schema.attrs[index].name;
}

/* Inputs and outputs of a subgraph */

static bool is_host_value(const tenon_op_t *op, uint32_t input) {
  return op->schema.inputs[input].is_host || (op->where && op->where[input] & TN_INPUT_KNOWN);
}

/* What it means for a value that this input of a node, inside or outside the subgraph, reads it. */
static uint8_t marks_of_reader(const tenon_op_t *op, uint32_t input, bool is_inside) {
  if (!is_inside) return NEEDED;
  return READ | (is_host_value(op, input) ? IS_VALUE : IS_TENSOR);
}

static void mark_values(partition_t *c, int32_t group) {
  const tenon_graph_t *g = c->graph;
  memset(c->marks, 0, g->edge_count);
  for (size_t n = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    bool is_in = c->groups.group_of[n] == group;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        c->marks[node->operands[i].edges[k]] |= marks_of_reader(node->op, i, is_in);
    for (int32_t o = 0; is_in && o < node->output_count; o++)
      c->marks[node->outputs[o]] |= MADE;
  }
  for (size_t i = 0; i < g->output_count; i++)
    c->marks[g->outputs[i]] |= NEEDED;
}

/* Lists the subgraph's inputs in the order in which its nodes read them, and its outputs in the
 * order in which the nodes make them. */
static tenon_status_t list_ports(partition_t *c, int32_t group, subgraph_t *subgraph) {
  const tenon_graph_t *g = c->graph;
  subgraph->inputs = tn_arena_array(&c->arena, g->edge_count + 1, sizeof *subgraph->inputs);
  subgraph->outputs = tn_arena_array(&c->arena, g->edge_count + 1, sizeof *subgraph->outputs);
  if (!subgraph->inputs || !subgraph->outputs) return tn_no_memory("a subgraph", g->edge_count);
  for (size_t n = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    if (c->groups.group_of[n] != group) continue;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++) {
        tenon_edge_t edge = node->operands[i].edges[k];
        bool goes_along = g->edges[edge].constant && !(c->marks[edge] & IS_TENSOR);
        if (c->marks[edge] & MADE || !(c->marks[edge] & READ) || goes_along) continue;
        c->marks[edge] &= (uint8_t)~READ;
        subgraph->inputs[subgraph->input_count++] = edge;
      }
    for (int32_t o = 0; o < node->output_count; o++)
      if (c->marks[node->outputs[o]] & NEEDED)
        subgraph->outputs[subgraph->output_count++] = node->outputs[o];
  }
  return TENON_OK;
}

/* The name by which a port of the subgraph is known: that of the value, or one made from the name
 * of its node. */
static tenon_status_t name_value(const partition_t *c, tenon_edge_t edge, char *out_name,
                                 size_t capacity) {
  int32_t n = c->groups.producers[edge];
  const tn_node_t *node = n >= 0 ? &c->graph->nodes[n] : NULL;
  int32_t o = 0;
  while (node && o < node->output_count && node->outputs[o] != edge)
    o++;
  int size;
  if (!node)
    size = snprintf(out_name, capacity, "%s", c->graph->edges[edge].name);
  else if (node->output_count == 1)
    size = snprintf(out_name, capacity, "%s_output", node->name);
  else
    size = snprintf(out_name, capacity, "%s_output%d", node->name, (int)o);
  if (size < (int)capacity) return TENON_OK;
  return tn_fail(TENON_RANGE, "the name of value '%s' is too long: expected less than %zu bytes",
                 c->graph->edges[edge].name, capacity);
}

static tenon_status_t build_subgraph(partition_t *c, int32_t group, const subgraph_t *subgraph,
                                     tenon_builder_t *builder) {
  char name[1024];
  for (size_t e = 0; e < c->graph->edge_count; e++)
    c->edges[e] = -1;
  for (int32_t i = 0; i < subgraph->input_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    TN_TRY(tenon_graph_value(c->graph, subgraph->inputs[i], &port));
    TN_TRY(name_value(c, subgraph->inputs[i], name, sizeof name));
    const tn_edge_t *edge = &c->graph->edges[subgraph->inputs[i]];
    if (edge->input >= 0 && !edge->is_stated) port.dtype = (tenon_dtype_t){0, 0, 0};
    TN_TRY(tenon_builder_input(builder, name, port.dtype, port.ndim, port.axes,
                               &c->edges[subgraph->inputs[i]]));
    if (edge->layout)
      TN_TRY(tenon_builder_sparse(builder, c->edges[subgraph->inputs[i]], edge->layout));
  }
  for (size_t n = 0; n < c->graph->node_count; n++)
    if (c->groups.group_of[n] == group)
      TN_TRY(tenon_builder_copy_node(builder, c->graph, (int32_t)n, c->edges));
  for (int32_t o = 0; o < subgraph->output_count; o++) {
    TN_TRY(name_value(c, subgraph->outputs[o], name, sizeof name));
    TN_TRY(tenon_builder_output(builder, name, c->edges[subgraph->outputs[o]]));
  }
  return TENON_OK;
}

/* Subgraphs */

static tenon_status_t make_attrs(partition_t *c, subgraph_t *subgraph) {
  TN_TRY(tenon_attrs_create(c->op, &subgraph->attrs));
  TN_TRY(tenon_attrs_set(subgraph->attrs, attr_name(c, c->op->body),
                         &(tenon_value_t){TENON_KIND_GRAPH, 0, {.graph = subgraph->graph}}));
  return tenon_attrs_int(subgraph->attrs, attr_name(c, c->op->schema.outputs[0].count_attr),
                         subgraph->output_count);
}

/* Makes the subgraph's graph. A subgraph without used results is dropped. */
static tenon_status_t make_subgraph(partition_t *c, int32_t group, subgraph_t *subgraph) {
  tenon_builder_t *builder = NULL;
  mark_values(c, group);
  TN_TRY(list_ports(c, group, subgraph));
  if (!subgraph->output_count) return TENON_OK;
  TN_TRY(tenon_builder_create(&builder));
  tenon_status_t status = build_subgraph(c, group, subgraph, builder);
  if (status == TENON_OK) status = tenon_builder_finish(builder, &subgraph->graph);
  tenon_builder_release(builder);
  if (status == TENON_OK) status = make_attrs(c, subgraph);
  tenon_review_t review = {sizeof review,    group - 1,       subgraph->graph,
                           subgraph->inputs, subgraph->attrs, 1};
  if (status == TENON_OK && c->cut->strategy->review)
    status = c->cut->strategy->review(c->cut, &review);
  subgraph->is_accepted = review.is_accepted != 0;
  return status == TENON_OK ? status : tn_prefix(status, "subgraph %d: ", (int)group - 1);
}

/* The new graph */

/* Writes "fused0" or, if a node has that name already, "fused0_1" and so on. */
static void name_node(const partition_t *c, int32_t index, char *out_name, size_t capacity) {
  int used = snprintf(out_name, capacity, "%s%d", c->op->schema.name, (int)index);
  for (int more = 1; used > 0 && (size_t)used + 16 < capacity; more++) {
    size_t n = 0;
    while (n < c->graph->node_count && strcmp(c->graph->nodes[n].name, out_name) != 0)
      n++;
    if (n == c->graph->node_count) return;
    snprintf(out_name + used, capacity - (size_t)used, "_%d", more);
  }
}

static tenon_status_t add_subgraph(partition_t *c, int32_t index, tenon_builder_t *builder) {
  subgraph_t *subgraph = &c->subgraphs[index];
  const tenon_value_t *values;
  char name[512];
  tenon_edge_t *inputs =
      tn_arena_array(&c->arena, (size_t)subgraph->input_count + 1, sizeof *inputs);
  tenon_edge_t *outputs =
      tn_arena_array(&c->arena, (size_t)subgraph->output_count + 1, sizeof *outputs);
  if (!inputs || !outputs) return tn_no_memory("a node", 0);
  for (int32_t i = 0; i < subgraph->input_count; i++) {
    tenon_edge_t from = subgraph->inputs[i];
    TN_TRY(tn_builder_copy_constant(builder, c->graph, from, c->edges));
    inputs[i] = c->edges[from];
  }
  name_node(c, index, name, sizeof name);
  TN_TRY(tenon_attrs_values(subgraph->attrs, &values));
  TN_TRY(tenon_builder_node(builder, name, c->op, values,
                            &(tenon_operand_t){subgraph->input_count, inputs}, outputs,
                            subgraph->output_count));
  for (int32_t o = 0; o < subgraph->output_count; o++)
    c->edges[subgraph->outputs[o]] = outputs[o];
  return TENON_OK;
}

static tenon_status_t rebuild_graph(partition_t *c, tenon_builder_t *builder) {
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
      TN_TRY(add_subgraph(c, group - 1, builder));
    last = group;
  }
  return tenon_builder_copy_outputs(builder, c->graph, c->edges);
}

static tenon_status_t apply_strategy(partition_t *c, const tn_library_t *library,
                                     tenon_graph_t **out_graph) {
  tenon_builder_t *builder = NULL;
  TN_TRY(find_op(c, library));
  TN_TRY(tn_groups_create(c->graph, &c->arena, &c->groups));
  TN_TRY(tn_partition_select(c->cut, &c->groups, &c->count));
  c->subgraphs = tn_arena_array(&c->arena, (size_t)c->count + 1, sizeof *c->subgraphs);
  c->marks = tn_arena_array(&c->arena, c->graph->edge_count + 1, sizeof *c->marks);
  c->edges = tn_arena_array(&c->arena, c->graph->edge_count + 1, sizeof *c->edges);
  if (!c->subgraphs || !c->marks || !c->edges) return tn_no_memory("subgraphs", (size_t)c->count);
  for (int32_t i = 0; i < c->count; i++)
    TN_TRY(make_subgraph(c, i + 1, &c->subgraphs[i]));
  /* Subgraphs that the strategy did not accept remain as they were. */
  for (size_t n = 0; n < c->graph->node_count; n++)
    if (c->groups.group_of[n] && !c->subgraphs[c->groups.group_of[n] - 1].is_accepted)
      c->groups.group_of[n] = 0;
  TN_TRY(tenon_builder_create(&builder));
  tenon_status_t status = rebuild_graph(c, builder);
  if (status == TENON_OK) status = tenon_builder_finish(builder, out_graph);
  tenon_builder_release(builder);
  return status;
}

tenon_status_t tn_partition_apply(tenon_cut_t *cut, const tn_library_t *library,
                                  tenon_graph_t **out_graph) {
  partition_t c = {.cut = cut, .graph = cut->graph};
  if (cut->strategy->begin) TN_TRY(cut->strategy->begin(cut));
  tenon_status_t status = apply_strategy(&c, library, out_graph);
  if (cut->strategy->end) cut->strategy->end(cut);
  for (int32_t i = 0; i < c.count && c.subgraphs; i++) {
    tenon_attrs_release(c.subgraphs[i].attrs);
    tenon_graph_release(c.subgraphs[i].graph);
  }
  tn_arena_clear(&c.arena);
  return status;
}
