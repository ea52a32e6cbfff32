/* Prints graphs as text, one node a line: "%y: f32[batch, 128] = core::add(x, w)". Used for dumps
 * and messages. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "core/value.h"
#include "graph/graph.h"

void tn_edge_print(const tenon_graph_t *graph, const tn_edge_t *edge, tn_text_t *text) {
  tn_text_add(text, "%s", edge->dtype.bits ? tn_dtype_name(edge->dtype) : "?");
  if (edge->ndim < 0) {
    tn_text_add(text, "[?]");
    return;
  }
  tn_text_add(text, "[");
  for (int32_t d = 0; d < edge->ndim; d++) {
    if (d) tn_text_add(text, ", ");
    tn_extents_print(graph->extents, tn_extents_resolve(graph->extents, edge->dims[d]), text);
  }
  tn_text_add(text, "]");
  if (edge->strides) tn_text_add(text, " strided");
  if (edge->layout) tn_text_add(text, " %s", tn_layout_name(edge->layout));
}

static void print_attrs(const tn_node_t *node, tn_text_t *text, const char *separator) {
  const tn_schema_t *s = &node->op->schema;
  for (uint32_t i = 0; i < s->attr_count; i++) {
    if (s->attrs[i].has_default && tn_value_equal(&node->attrs[i], &s->defaults[i])) continue;
    if (node->attrs[i].kind == TENON_KIND_NONE) continue;
    tn_text_add(text, "%s%s=", separator, s->attrs[i].name);
    if (node->attrs[i].kind == TENON_KIND_STR && node->attrs[i].count > 60)
      tn_text_add(text, "<%u bytes>", node->attrs[i].count);
    else
      tn_value_print(&s->attrs[i], &node->attrs[i], text);
    separator = ", ";
  }
}

static void print_node(const tenon_graph_t *graph, const tn_node_t *node, tn_text_t *text) {
  tn_text_add(text, "  ");
  for (int32_t o = 0; o < node->output_count; o++) {
    const tn_edge_t *edge = &graph->edges[node->outputs[o]];
    tn_text_add(text, "%s%s: ", o ? ", " : "", edge->name);
    tn_edge_print(graph, edge, text);
  }
  tn_text_add(text, "%s%s(", node->output_count ? " = " : "", node->op->name);
  const char *separator = "";
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    bool list = node->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    tn_text_add(text, "%s", separator);
    if (list)
      tn_text_add(text, "[");
    else if (!operand->count)
      tn_text_add(text, "None");
    for (int32_t k = 0; k < operand->count; k++)
      tn_text_add(text, "%s%s", k ? ", " : "", graph->edges[operand->edges[k]].name);
    if (list) tn_text_add(text, "]");
    separator = ", ";
  }
  print_attrs(node, text, separator);
  tn_text_add(text, ")  # %s", node->name);
  if (node->group) tn_text_add(text, ", offloaded subgraph %d", (int)node->group);
  tn_text_add(text, "\n");
}

tenon_status_t tenon_graph_dump(const tenon_graph_t *graph, char **out_text) {
  tn_text_t text = {0};
  tn_text_add(&text, "graph(");
  for (size_t i = 0; i < graph->input_count; i++) {
    const tn_edge_t *edge = &graph->edges[graph->inputs[i]];
    tn_text_add(&text, "%s%s: ", i ? ", " : "", edge->name);
    tn_edge_print(graph, edge, &text);
  }
  tn_text_add(&text, ") {\n");
  for (size_t i = 0; i < graph->edge_count; i++) {
    if (!graph->edges[i].constant) continue;
    tn_text_add(&text, "  %s: ", graph->edges[i].name);
    tn_edge_print(graph, &graph->edges[i], &text);
    tn_text_add(&text, " = constant\n");
  }
  for (size_t i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].op) print_node(graph, &graph->nodes[i], &text);
  tn_text_add(&text, "  return ");
  for (size_t i = 0; i < graph->output_count; i++) {
    const char *edge = graph->edges[graph->outputs[i]].name;
    tn_text_add(&text, "%s%s", i ? ", " : "", graph->output_names[i]);
    if (strcmp(edge, graph->output_names[i]) != 0) tn_text_add(&text, "=%s", edge);
  }
  tn_text_add(&text, "\n}\n");
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}
