/* Converts a graph to JSON. A variable is written before the first node that reads it; nodes keep
 * the order of the graph. */
#include "nnvm_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nnvm_op.h"
#include "writer.h"

typedef struct writing_t {
  nnvm_t *out;
  /* the graph that contains the subgraph `out->graph`; NULL: `out->graph` is not a subgraph */
  const tenon_graph_t *whole;
  const tenon_edge_t *inputs;
  writer_t text;
  int32_t edge_count;
  int32_t *json_nodes;
  int32_t *indices; /* the result of the JSON node that produces each value */
} writing_t;

static tenon_status_t failed(const writing_t *w) {
  return w->text.failed ? tn_no_memory("a graph as JSON", 0) : TENON_OK;
}

/* attributes that MXNet adds */

static tenon_status_t add_types(writing_t *w, const tenon_edge_t *edges, int32_t count,
                                const char *comma) {
  writer_t *t = &w->text;
  writer_add(t, "%s\"__ext_shape__\": \"[", comma);
  for (int32_t o = 0; o < count; o++) {
    tenon_port_t port = {.size = sizeof port};
    TENON_TRY(tenon_graph_value(w->out->graph, edges[o], &port));
    writer_add(t, "%s[", o ? "," : "");
    if (port.ndim < 0) writer_add(t, "None");
    for (int32_t d = 0; d < port.ndim; d++) {
      const int64_t extent = port.axes[d].extent;
      if (d) writer_add(t, ",");
      writer_add(t, "%lld", extent >= 0 ? (long long)extent : -1LL);
    }
    writer_add(t, "]");
  }
  writer_add(t, "]\", \"__ext_dtype__\": \"[");
  for (int32_t o = 0; o < count; o++) {
    tenon_port_t port = {.size = sizeof port};
    TENON_TRY(tenon_graph_value(w->out->graph, edges[o], &port));
    writer_add(t, "%s%d", o ? "," : "", nnvm_dtype(port.dtype));
  }
  writer_add(t, "]\"");
  return TENON_OK;
}

bool nnvm_is_aux(const tenon_graph_t *graph, tenon_edge_t edge) {
  for (int32_t n = 0; n < tenon_graph_node_count(graph); n++) {
    tenon_graph_part_t node = {.size = sizeof node};
    tenon_op_info_t info = {.size = sizeof info};
    if (tenon_graph_node(graph, n, &node) != TENON_OK) return false;
    tenon_op_info(node.op, &info);
    const bool is_norm = strcmp(info.name, "core::batch_norm") == 0;
    for (int32_t i = 0; i < info.input_count; i++) {
      tenon_argument_t about = {.size = sizeof about};
      bool reads = false;
      for (int32_t k = 0; k < node.operands[i].count; k++)
        reads |= node.operands[i].edges[k] == edge;
      if (!reads) continue;
      (void)tenon_op_argument(node.op, TENON_ARGUMENT_INPUT, i, &about);
      if (about.is_written || (is_norm && i >= 3)) return true;
    }
  }
  return false;
}

/* Adds the attributes that tell a variable of a subgraph what it is in the containing graph. */
static tenon_status_t add_origin(writing_t *w, tenon_edge_t edge) {
  for (int32_t i = 0; i < tenon_graph_input_count(w->out->graph); i++) {
    tenon_port_t port = {.size = sizeof port};
    tenon_graph_edge_t outer = {.size = sizeof outer};
    TENON_TRY(tenon_graph_input(w->out->graph, i, &port));
    if (port.edge != edge) continue;
    TENON_TRY(tenon_graph_edge(w->whole, w->inputs[i], &outer, NULL));
    const bool is_arg = outer.node < 0;
    writer_add(&w->text, "\"isArg\": \"%s\", ", is_arg ? "True" : "False");
    if (is_arg) {
      writer_add(&w->text, "\"argName\": ");
      writer_quote(&w->text, outer.name);
      writer_add(&w->text, ", ");
    }
    writer_add(&w->text, "\"isAux\": \"%s\", ",
               nnvm_is_aux(w->whole, w->inputs[i]) ? "True" : "False");
    return TENON_OK;
  }
  /* The variable is a constant that was moved into the subgraph. */
  writer_add(&w->text, "\"isArg\": \"False\", \"isAux\": \"False\", ");
  return TENON_OK;
}

/* nodes */

static tenon_status_t begin_node(writing_t *w, const char *op, const char *name, int32_t node,
                                 tenon_edge_t value) {
  nnvm_t *o = w->out;
  o->names[o->count] = name;
  o->nodes[o->count] = node;
  o->values[o->count] = value;
  writer_add(&w->text, "%s{\"op\": ", o->count ? ",\n" : "");
  writer_quote(&w->text, op);
  writer_add(&w->text, ", \"name\": ");
  writer_quote(&w->text, name);
  o->count++;
  return failed(w);
}

/* Writes the variable for an input or a constant, under its own name, unless it is written
 * already. */
static tenon_status_t need(writing_t *w, tenon_edge_t value) {
  tenon_graph_edge_t edge = {.size = sizeof edge};
  if (w->json_nodes[value] >= 0) return TENON_OK;
  TENON_TRY(tenon_graph_edge(w->out->graph, value, &edge, NULL));
  w->json_nodes[value] = w->out->count;
  w->indices[value] = 0;
  TENON_TRY(begin_node(w, "null", edge.name, -1, value));
  writer_add(&w->text, ", \"attrs\": {");
  if (w->whole) TENON_TRY(add_origin(w, value));
  TENON_TRY(add_types(w, &value, 1, ""));
  writer_add(&w->text, "}, \"inputs\": []}");
  return TENON_OK;
}

/* Returns a name that no variable and no earlier node has. */
static const char *name_node(writing_t *w, const char *name) {
  char text[512];
  for (int more = 0;; more++) {
    bool is_taken = false;
    const int size = more ? snprintf(text, sizeof text, "%.480s_%d", name, more)
                          : snprintf(text, sizeof text, "%s", name);
    if (size >= (int)sizeof text) return NULL;
    for (int32_t i = 0; i < w->out->count && !is_taken; i++)
      is_taken = strcmp(w->out->names[i], text) == 0;
    for (tenon_edge_t e = 0; e < w->edge_count && !is_taken; e++) {
      tenon_graph_edge_t edge = {.size = sizeof edge};
      is_taken = tenon_graph_edge(w->out->graph, e, &edge, NULL) == TENON_OK && edge.node < 0 &&
                 strcmp(edge.name, text) == 0;
    }
    if (!is_taken) return tn_arena_text(&w->out->arena, text, strlen(text));
  }
}

static tenon_status_t write_node(writing_t *w, int32_t n) {
  tenon_graph_part_t node = {.size = sizeof node};
  tenon_op_info_t info = {.size = sizeof info};
  nnvm_op_t op;
  TENON_TRY(tenon_graph_node(w->out->graph, n, &node));
  tenon_op_info(node.op, &info);
  TENON_TRY(nnvm_op(w->out->graph, &node, &w->out->arena, &op));
  for (int32_t i = 0; i < info.input_count; i++)
    for (int32_t k = 0; k < node.operands[i].count && !(op.left_out >> i & 1); k++)
      TENON_TRY(need(w, node.operands[i].edges[k]));
  const char *name = name_node(w, node.name);
  if (!name)
    return tn_fail(TENON_INVALID, "node '%.100s...': its name is too long for a library of MXNet",
                   node.name);
  w->out->ids[n] = w->out->count;
  for (int32_t o = 0; o < node.output_count; o++) {
    w->json_nodes[node.outputs[o]] = w->out->count;
    w->indices[node.outputs[o]] = o;
  }
  TENON_TRY(begin_node(w, op.op, name, n, node.output_count ? node.outputs[0] : -1));
  writer_add(&w->text, ", \"attrs\": {");
  for (int i = 0; i < op.attr_count; i++) {
    writer_quote(&w->text, op.names[i]);
    writer_add(&w->text, ": ");
    writer_quote(&w->text, op.values[i]);
    writer_add(&w->text, ", ");
  }
  TENON_TRY(add_types(w, node.outputs, node.output_count, ""));
  writer_add(&w->text, "}, \"inputs\": [");
  const char *comma = "";
  for (int32_t i = 0; i < info.input_count; i++)
    for (int32_t k = 0; k < node.operands[i].count && !(op.left_out >> i & 1); k++, comma = ", ") {
      const tenon_edge_t value = node.operands[i].edges[k];
      writer_add(&w->text, "%s[%d, %d, 0]", comma, (int)w->json_nodes[value],
                 (int)w->indices[value]);
    }
  if (op.subgraph)
    writer_add(&w->text, "], \"subgraphs\": [%s]}", op.subgraph);
  else
    writer_add(&w->text, "]}");
  return failed(w);
}

/* the whole graph */

static tenon_status_t add_heads(writing_t *w) {
  const nnvm_t *o = w->out;
  const int32_t count = tenon_graph_output_count(o->graph);
  tenon_port_t port = {.size = sizeof port};
  for (int32_t i = 0; i < count; i++) {
    TENON_TRY(tenon_graph_output(o->graph, i, &port));
    TENON_TRY(need(w, port.edge));
  }
  writer_add(&w->text, "],\n\"arg_nodes\": [");
  const char *comma = "";
  for (int32_t i = 0; i < o->count; i++)
    if (o->nodes[i] < 0) {
      writer_add(&w->text, "%s%d", comma, (int)i);
      comma = ", ";
    }
  writer_add(&w->text, "],\n\"node_row_ptr\": [");
  int32_t row = 0;
  for (int32_t i = 0; i < o->count; i++) {
    tenon_graph_part_t node = {.size = sizeof node, .output_count = 1};
    if (o->nodes[i] >= 0) TENON_TRY(tenon_graph_node(o->graph, o->nodes[i], &node));
    writer_add(&w->text, "%d, ", (int)row);
    row += node.output_count;
  }
  writer_add(&w->text, "%d],\n\"heads\": [", (int)row);
  for (int32_t i = 0; i < count; i++) {
    TENON_TRY(tenon_graph_output(o->graph, i, &port));
    writer_add(&w->text, "%s[%d, %d, 0]", i ? ", " : "", (int)w->json_nodes[port.edge],
               (int)w->indices[port.edge]);
  }
  writer_add(&w->text, "]}");
  return failed(w);
}

static int32_t count_edges(const tenon_graph_t *graph) {
  tenon_graph_edge_t edge = {.size = sizeof edge};
  int32_t low = 0;
  int32_t high = 1;
  while (tenon_graph_edge(graph, high - 1, &edge, NULL) == TENON_OK && high < 1 << 29) {
    low = high;
    high *= 2;
  }
  /* All values below `low` exist; `high` is not known to exist. */
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (tenon_graph_edge(graph, middle, &edge, NULL) == TENON_OK)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static tenon_status_t write_nodes(writing_t *w) {
  nnvm_t *o = w->out;
  const int32_t nodes = tenon_graph_node_count(o->graph);
  w->edge_count = count_edges(o->graph);
  const size_t most = (size_t)nodes + (size_t)w->edge_count + 1;
  o->names = tn_arena_array(&o->arena, most, sizeof *o->names);
  o->nodes = tn_arena_array(&o->arena, most, sizeof *o->nodes);
  o->values = tn_arena_array(&o->arena, most, sizeof *o->values);
  o->ids = tn_arena_array(&o->arena, most, sizeof *o->ids);
  w->json_nodes = tn_arena_array(&o->arena, most, sizeof *w->json_nodes);
  w->indices = tn_arena_array(&o->arena, most, sizeof *w->indices);
  if (!o->names || !o->nodes || !o->values || !o->ids || !w->json_nodes || !w->indices)
    return tn_no_memory("a graph", 0);
  for (int32_t e = 0; e < w->edge_count; e++)
    w->json_nodes[e] = -1;
  writer_add(&w->text, "{\"nodes\": [");
  for (int32_t n = 0; n < nodes; n++)
    TENON_TRY(write_node(w, n));
  TENON_TRY(add_heads(w));
  o->json = tn_arena_text(&o->arena, w->text.text, w->text.size);
  return o->json ? TENON_OK : tn_no_memory("a graph", 0);
}

tenon_status_t nnvm_write(const tenon_graph_t *graph, const tenon_graph_t *whole,
                          const tenon_edge_t *inputs, nnvm_t *out) {
  *out = (nnvm_t){.graph = graph};
  writing_t w = {.out = out, .whole = whole, .inputs = inputs};
  tenon_status_t status = write_nodes(&w);
  free(w.text.text);
  return status;
}

void nnvm_clear(nnvm_t *nnvm) { tn_arena_clear(&nnvm->arena); }
