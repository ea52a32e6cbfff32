/* Writes a graph in which groups have become nodes; see graph.h. The new node of a group has the
 * name of its last node. */
#include <stdio.h>
#include <string.h>

#include "graph.h"

/* Fields of the messages. */
enum { GRAPH_NODE = 1 };
enum { NODE_NAME = 1, NODE_OP = 2, NODE_INPUT_NAME = 3, NODE_DEVICE = 4, NODE_ATTR = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { ATTR_LIST = 1, ATTR_TEXT = 2, LIST_TYPE = 6 };

/* The group in which a node has vanished; NULL: it stays. */
static const graph_group_t *taken_by(const graph_t *graph, int32_t node) {
  const int32_t group = graph->nodes[node].group;
  return group >= 0 && graph->groups[group].text ? &graph->groups[group] : NULL;
}

/* Writes an input that names the value of a node, which a group may compute. */
static void write_node_input(const graph_t *graph, int32_t from, message_t *out) {
  const graph_group_t *g = taken_by(graph, from);
  char text[24] = "";
  int32_t output = 0;
  message_t name = {NULL, 0, 0, false};
  while (g && output < g->output_count && g->outputs[output] != from)
    output++;
  message_append(&name, graph->nodes[g ? g->last : from].name);
  if (output > 0) snprintf(text, sizeof text, ":%d", output);
  message_append(&name, (bytes_t){text, strlen(text)});
  message_bytes(out, NODE_INPUT_NAME, (bytes_t){name.data, name.size});
  out->is_failed = out->is_failed || name.is_failed;
  message_free(&name);
}

/* Copies a node that stays. */
static void write_kept_node(const graph_t *graph, const graph_node_t *node, message_t *out) {
  message_t body = {NULL, 0, 0, false};
  bytes_t rest = node->whole;
  field_t field;
  bool is_damaged = false;
  int32_t k = 0;
  while (message_next(&rest, &field, &is_damaged)) {
    const bool is_input = field.number == NODE_INPUT_NAME;
    const int32_t from = is_input ? node->inputs[k++] : -1;
    if (is_input && taken_by(graph, from))
      write_node_input(graph, from, &body);
    else
      message_append(&body, field.whole);
  }
  message_bytes(out, GRAPH_NODE, (bytes_t){body.data, body.size});
  out->is_failed = out->is_failed || body.is_failed;
  message_free(&body);
}

/* ---- nodes of groups ------------------------------------------------------------------------- */

static void write_node_attribute(message_t *node, const char *name, const message_t *value) {
  message_t entry = {NULL, 0, 0, false};
  message_text(&entry, ENTRY_KEY, name);
  message_bytes(&entry, ENTRY_VALUE, (bytes_t){value->data, value->size});
  message_bytes(node, NODE_ATTR, (bytes_t){entry.data, entry.size});
  node->is_failed = node->is_failed || entry.is_failed || value->is_failed;
  message_free(&entry);
}

static void write_types_attribute(message_t *node, const char *name, const int32_t *types,
                                  int32_t count) {
  message_t list = {NULL, 0, 0, false};
  message_t value = {NULL, 0, 0, false};
  for (int32_t i = 0; i < count; i++)
    message_number(&list, LIST_TYPE, (uint64_t)types[i]);
  message_bytes(&value, ATTR_LIST, (bytes_t){list.data, list.size});
  value.is_failed = value.is_failed || list.is_failed;
  write_node_attribute(node, name, &value);
  message_free(&list);
  message_free(&value);
}

static void write_text_attribute(message_t *node, const char *name, const char *text) {
  message_t value = {NULL, 0, 0, false};
  message_text(&value, ATTR_TEXT, text);
  write_node_attribute(node, name, &value);
  message_free(&value);
}

static void write_number_attribute(message_t *node, const char *name, uint64_t number) {
  enum { ATTR_INT = 3 };
  message_t value = {NULL, 0, 0, false};
  message_number(&value, ATTR_INT, number);
  write_node_attribute(node, name, &value);
  message_free(&value);
}

static void write_group_node_message(const graph_t *graph, const graph_group_t *g, message_t *out) {
  const graph_node_t *last = &graph->nodes[g->last];
  message_t body = {NULL, 0, 0, false};
  message_bytes(&body, NODE_NAME, last->name);
  message_text(&body, NODE_OP, "Tenon>Graph");
  for (int32_t i = 0; i < g->input_count; i++)
    write_node_input(graph, g->inputs[i], &body);
  message_bytes(&body, NODE_DEVICE, last->device);
  write_types_attribute(&body, "Tin", g->input_types, g->input_count);
  write_types_attribute(&body, "Tgrads", NULL, 0);
  write_types_attribute(&body, "Tout", g->output_types, g->output_count);
  write_text_attribute(&body, "path", "");
  write_text_attribute(&body, "group", g->text);
  write_number_attribute(&body, "given", 0);
  write_number_attribute(&body, "requested", 0);
  message_bytes(out, GRAPH_NODE, (bytes_t){body.data, body.size});
  out->is_failed = out->is_failed || body.is_failed;
  message_free(&body);
}

void graph_write(const graph_t *graph, message_t *out) {
  bytes_t rest = graph->message;
  field_t field;
  bool is_damaged = false;
  int32_t index = 0;
  while (message_next(&rest, &field, &is_damaged)) {
    if (field.number != GRAPH_NODE) {
      message_append(out, field.whole);
      continue;
    }
    const graph_group_t *g = taken_by(graph, index);
    if (!g)
      write_kept_node(graph, &graph->nodes[index], out);
    else if (g->last == index)
      write_group_node_message(graph, g, out);
    index++;
  }
}
