#include "nnvm_subgraph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nnvm_write.h"
#include "state.h"
#include "writer.h"

/* the JSON text that a subgraph operator receives */

static void add_value(writer_t *w, const tn_json_t *v) {
  switch (v->kind) {
  case TN_JSON_NULL:
    writer_add(w, "null");
    return;
  case TN_JSON_BOOL:
    writer_add(w, "%s", v->count ? "true" : "false");
    return;
  case TN_JSON_NUMBER:
    writer_add(w, "%s", v->text);
    return;
  case TN_JSON_TEXT:
    writer_quote(w, v->text);
    return;
  default:
    break;
  }
  const bool is_object = v->kind == TN_JSON_OBJECT;
  writer_add(w, is_object ? "{" : "[");
  for (size_t i = 0; i < v->count; i++) {
    if (i) writer_add(w, ", ");
    if (is_object) {
      writer_quote(w, v->names[i]);
      writer_add(w, ": ");
    }
    add_value(w, &v->items[i]);
  }
  writer_add(w, is_object ? "}" : "]");
}

static void write_subgraph_node(writer_t *w, const reading_t *r, int32_t index,
                                const int32_t *numbers, bool is_first) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const tn_json_t *subgraphs = tn_json_find(&r->nodes->items[index], "subgraphs");
  writer_add(w, "%s{\"op\": ", is_first ? "" : ",\n");
  writer_quote(w, node->op);
  writer_add(w, ", \"name\": ");
  writer_quote(w, node->name);
  writer_add(w, ", \"attrs\": {");
  for (int32_t i = 0; i < node->attr_count; i++) {
    writer_add(w, "%s", i ? ", " : "");
    writer_quote(w, node->attrs[i].name);
    writer_add(w, ": ");
    writer_quote(w, node->attrs[i].value);
  }
  writer_add(w, "}, \"inputs\": [");
  for (int32_t i = 0; i < node->input_count; i++)
    writer_add(w, "%s[%d, %d, 0]", i ? ", " : "", (int)numbers[node->inputs[i].node],
               (int)node->inputs[i].index);
  writer_add(w, "]");
  if (subgraphs) {
    writer_add(w, ", \"subgraphs\": ");
    add_value(w, subgraphs);
  }
  writer_add(w, "}");
}

/* Libraries take the variables as the inputs, in their order. The variables therefore come first,
 * in the order of the graph's inputs. */
static char *write_text(reading_t *r, const tenon_graph_t *graph) {
  const symbol_t *symbol = &r->model.symbol;
  int32_t *numbers =
      tn_arena_array(&r->model.arena, (size_t)symbol->node_count + 1, sizeof *numbers);
  int32_t number = 0;
  bool *is_done = tn_arena_array(&r->model.arena, (size_t)symbol->node_count + 1, sizeof *is_done);
  writer_t w = {0};
  writer_add(&w, "{\"nodes\": [");
  if (!numbers || !is_done) {
    free(w.text);
    return NULL;
  }
  for (int32_t i = 0; i < tenon_graph_input_count(graph); i++) {
    tenon_port_t port = {.size = sizeof port};
    if (tenon_graph_input(graph, i, &port) != TENON_OK) continue;
    for (int32_t n = 0; n < symbol->node_count; n++)
      if (!is_done[n] && strcmp(symbol->nodes[n].op, "null") == 0 &&
          strcmp(symbol->nodes[n].name, port.name) == 0) {
        numbers[n] = number;
        is_done[n] = true;
        write_subgraph_node(&w, r, n, numbers, number++ == 0);
      }
  }
  for (int32_t n = 0; n < symbol->node_count; n++)
    if (!is_done[n]) {
      numbers[n] = number;
      write_subgraph_node(&w, r, n, numbers, number++ == 0);
    }
  writer_add(&w, "],\n\"arg_nodes\": [");
  for (int32_t n = 0, i = 0; n < symbol->node_count; n++)
    if (strcmp(symbol->nodes[n].op, "null") == 0)
      writer_add(&w, "%s%d", i++ ? ", " : "", (int)numbers[n]);
  writer_add(&w, "],\n\"heads\": [");
  for (int32_t i = 0; i < symbol->head_count; i++)
    writer_add(&w, "%s[%d, %d, 0]", i ? ", " : "", (int)numbers[symbol->heads[i].node],
               (int)symbol->heads[i].index);
  writer_add(&w, "]}");
  if (!w.failed) return w.text;
  free(w.text);
  return NULL;
}

/* subgraphs */

/* Returns the subgraph that the node of this name had in the old graph; NULL: the node had none. */
static const tenon_graph_t *old_subgraph(const reading_t *r, const char *name) {
  for (int32_t i = 0; i < r->old->count; i++) {
    tenon_graph_part_t node = {.size = sizeof node};
    tenon_argument_t about = {.size = sizeof about};
    if (r->old->nodes[i] < 0 || strcmp(r->old->names[i], name) != 0 ||
        tenon_graph_node(r->old->graph, r->old->nodes[i], &node) != TENON_OK)
      continue;
    if (tenon_op_argument(node.op, TENON_ARGUMENT_ATTR, 0, &about) == TENON_OK &&
        about.kind == TENON_KIND_GRAPH)
      return node.attrs[0].as.graph;
  }
  return NULL;
}

static tenon_status_t read_subgraph(const reading_t *outer, const symbol_node_t *node,
                                    const tn_json_t *root, tenon_graph_t **out_graph,
                                    char **out_text) {
  nnvm_t old = {0};
  reading_t r = {.library = outer->library, .old = &old, .read_graph = outer->read_graph};
  const tenon_graph_t *graph = old_subgraph(outer, node->name);
  tenon_status_t status = graph ? nnvm_write(graph, NULL, NULL, &old) : TENON_OK;
  if (status == TENON_OK) status = r.read_graph(&r, root, out_graph);
  if (status == TENON_OK && !(*out_text = write_text(&r, *out_graph))) {
    tenon_graph_release(*out_graph);
    *out_graph = NULL;
    status = tn_no_memory("a subgraph", 0);
  }
  reading_clear(&r);
  nnvm_clear(&old);
  return status == TENON_OK ? status : tn_prefix(status, "subgraph of '%.100s': ", node->name);
}

static tenon_status_t set_subgraph(const reading_t *r, int32_t index, tenon_attrs_t *attrs,
                                   int32_t *out_in, int32_t *out_count) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const tn_json_t *list = tn_json_find(&r->nodes->items[index], "subgraphs");
  tenon_graph_t *graph = NULL;
  char *text = NULL;
  if (!list || list->kind != TN_JSON_LIST || list->count != 1)
    return tn_fail(TENON_INVALID, "node '%.100s' (%.60s): expected one subgraph", node->name,
                   node->op);
  TENON_TRY(read_subgraph(r, node, &list->items[0], &graph, &text));
  *out_in = tenon_graph_input_count(graph);
  *out_count = tenon_graph_output_count(graph);
  tenon_status_t status = tenon_attrs_set(attrs, HOSTED_ATTR_GRAPH,
                                          &(tenon_value_t){TENON_KIND_GRAPH, 0, {.graph = graph}});
  if (status == TENON_OK) status = tenon_attrs_int(attrs, HOSTED_ATTR_COUNT, *out_count);
  if (status == TENON_OK) status = tenon_attrs_parse(attrs, HOSTED_SUBGRAPH, text);
  tenon_graph_release(graph);
  free(text);
  return status;
}

/* nodes */

/* Asks the library how many inputs and results the operator has with these attributes. */
static tenon_status_t count_arguments(const symbol_node_t *node, const hosted_op_t *op, int *out_in,
                                      int *out_count) {
  char why[WHY] = "";
  const size_t count = (size_t)node->attr_count + 1;
  const char **keys = calloc(2 * count, sizeof *keys);
  const char **values = keys ? keys + count : NULL;
  if (!keys) return tn_no_memory("a graph", 0);
  for (int32_t i = 0; i < node->attr_count; i++) {
    keys[i] = node->attrs[i].name;
    values[i] = node->attrs[i].value;
  }
  const bool good =
      state_counts(op, keys, values, node->attr_count, out_in, out_count, why, sizeof why);
  free(keys);
  return good ? TENON_OK
              : tn_fail(TENON_INVALID, "node '%.100s' (%.60s): %s", node->name, node->op, why);
}

static tenon_status_t set_attrs(const symbol_node_t *node, tenon_attrs_t *attrs) {
  for (int32_t i = 0; i < node->attr_count; i++) {
    const char *name = node->attrs[i].name;
    if (strcmp(name, "__ext_shape__") == 0 || strcmp(name, "__ext_dtype__") == 0 ||
        strcmp(name, HOSTED_SUBGRAPH) == 0)
      continue;
    TENON_TRY(tenon_attrs_parse(attrs, name, node->attrs[i].value));
  }
  return TENON_OK;
}

static tenon_status_t build(reading_t *r, int32_t index, const hosted_op_t *hosted,
                            const tenon_op_t *op, bool is_list, tenon_attrs_t *attrs, int32_t in,
                            int32_t count) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const tenon_value_t *values;
  tenon_edge_t *inputs =
      tn_arena_array(&r->model.arena, (size_t)node->input_count + 1, sizeof *inputs);
  tenon_edge_t *results = tn_arena_array(&r->model.arena, (size_t)count + 1, sizeof *results);
  tenon_operand_t *operands =
      tn_arena_array(&r->model.arena, (size_t)node->input_count + 1, sizeof *operands);
  const char *extra = symbol_attr(node, HOSTED_EXTRA);
  if (!inputs || !results || !operands) return tn_no_memory("a graph", 0);
  const int extra_count = extra ? atoi(extra) : 0;
  if (node->input_count != in + extra_count) {
    char more[32] = "";
    if (extra) snprintf(more, sizeof more, " and extra %d", extra_count);
    return tn_fail(TENON_INVALID, "node '%.100s' (%s): expected %d inputs%s, found %d", node->name,
                   hosted->name, (int)in, more, (int)node->input_count);
  }
  for (int32_t i = 0; i < node->input_count; i++) {
    TENON_TRY(reading_value(r, node, i, &inputs[i]));
    operands[i] = (tenon_operand_t){1, &inputs[i]};
  }
  if (is_list) operands[0] = (tenon_operand_t){node->input_count, inputs};
  TENON_TRY(set_attrs(node, attrs));
  TENON_TRY(tenon_attrs_values(attrs, &values));
  r->model.values[index] = (values_t){results, count, false};
  return tenon_builder_node(r->model.builder, node->name, op, values, operands, results, count);
}

tenon_status_t reading_hosted(reading_t *r, int32_t index, const hosted_op_t *hosted) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const tenon_op_t *op;
  tenon_attrs_t *attrs = NULL;
  int in = 0;
  int count = 0;
  char name[512];
  if (!hosted->is_subgraph) TENON_TRY(count_arguments(node, hosted, &in, &count));
  const bool is_plain = !hosted->is_subgraph && hosted->in_count == in &&
                        hosted->out_count == count && !symbol_attr(node, HOSTED_EXTRA);
  /* The list form has the plain name if it is the only form. */
  const bool is_only = hosted->is_subgraph || hosted->in_count < 0;
  snprintf(name, sizeof name, "%s::%s%s", hosted->library->ns, hosted->name,
           is_plain || is_only ? "" : ".list");
  TENON_TRY(tenon_op_find(name, &op));
  TENON_TRY(tenon_attrs_create(op, &attrs));
  tenon_status_t status =
      hosted->is_subgraph ? set_subgraph(r, index, attrs, &in, &count) : TENON_OK;
  if (status == TENON_OK) status = build(r, index, hosted, op, !is_plain, attrs, in, count);
  tenon_attrs_release(attrs);
  return status;
}
