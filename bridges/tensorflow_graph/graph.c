/* Reads graphs of TensorFlow; see graph.h. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* Fields of the messages. */
enum { GRAPH_NODE = 1 };
enum { NODE_NAME = 1, NODE_OP = 2, NODE_INPUT_NAME = 3, NODE_DEVICE = 4, NODE_ATTR = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, ATTR_TYPE = 6 };

static bytes_t without_blanks(bytes_t name, bool *is_control, bool *is_first) {
  *is_control = name.size > 0 && *name.data == '^';
  if (*is_control) return (bytes_t){name.data + 1, name.size - 1};
  const char *colon = memchr(name.data, ':', name.size);
  *is_first = !colon;
  return colon ? (bytes_t){name.data, (size_t)(colon - name.data)} : name;
}

/* Reads the attribute T. */
static void read_node_attribute(graph_node_t *node, bytes_t entry, bool *is_damaged) {
  field_t field;
  bool is_type = false;
  while (message_next(&entry, &field, is_damaged)) {
    if (field.number == ENTRY_KEY) is_type = bytes_equal(field.bytes, "T");
    bytes_t value = field.bytes;
    field_t inner;
    while (is_type && field.number == ENTRY_VALUE && message_next(&value, &inner, is_damaged))
      if (inner.number == ATTR_TYPE && !inner.is_bytes) node->dtype = (int32_t)inner.value;
  }
}

static void read_graph_node(graph_node_t *node, bytes_t message, bool *is_damaged) {
  field_t field;
  *node = (graph_node_t){.whole = message, .group = -1, .is_plain = true};
  while (message_next(&message, &field, is_damaged)) {
    if (field.number == NODE_NAME) node->name = field.bytes;
    if (field.number == NODE_OP) node->op = field.bytes;
    if (field.number == NODE_DEVICE) node->device = field.bytes;
    if (field.number == NODE_INPUT_NAME) node->input_count++;
    if (field.number == NODE_ATTR) read_node_attribute(node, field.bytes, is_damaged);
  }
}

/* ---- names ----------------------------------------------------------------------------------- */

static int compare_bytes(bytes_t a, bytes_t b) {
  const size_t size = a.size < b.size ? a.size : b.size;
  const int order = memcmp(a.data, b.data, size);
  if (order != 0) return order;
  return (a.size > b.size) - (a.size < b.size);
}

static int compare_node_names(const void *left, const void *right, void *graph) {
  const graph_node_t *nodes = ((const graph_t *)graph)->nodes;
  return compare_bytes(nodes[*(const int32_t *)left].name, nodes[*(const int32_t *)right].name);
}

int32_t graph_find(const graph_t *graph, bytes_t name) {
  int32_t low = 0;
  int32_t high = graph->node_count;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    const int order = compare_bytes(graph->nodes[graph->sorted[middle]].name, name);
    if (order == 0) return graph->sorted[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* Finds the nodes that the inputs name. */
static void link_graph_node(graph_t *graph, graph_node_t *node) {
  bytes_t rest = node->whole;
  field_t field;
  bool is_damaged = false;
  int32_t count = 0;
  while (message_next(&rest, &field, &is_damaged)) {
    bool is_control = false;
    bool is_first = true;
    if (field.number != NODE_INPUT_NAME || count == node->input_count) continue;
    const int32_t from = graph_find(graph, without_blanks(field.bytes, &is_control, &is_first));
    if (from < 0) graph->why = "a node has an input that does not exist";
    if (is_control || !is_first) node->is_plain = false;
    if (is_control && from >= 0) graph->nodes[from].is_kept = true;
    node->inputs[count++] = from;
  }
}

enum { STATE_NEW = 0, STATE_OPEN = 1, STATE_DONE = 2 };

/* Returns an input that is not done; -1: all are. Sets `has_cycle` if it is open. */
static int32_t next_open_input(const graph_node_t *node, const int32_t *states, bool *has_cycle) {
  for (int32_t k = 0; k < node->input_count; k++) {
    const int32_t state = states[node->inputs[k]];
    if (state == STATE_OPEN) *has_cycle = true;
    if (state != STATE_DONE) return node->inputs[k];
  }
  return -1;
}

/* Sorts the nodes: inputs first. `room` has two entries for each node. Returns false if the graph
 * has a cycle. */
static bool sort_graph_nodes(graph_t *graph, int32_t *room) {
  int32_t *states = room;
  int32_t *stack = room + graph->node_count;
  int32_t count = 0;
  bool has_cycle = false;
  for (int32_t i = 0; i < graph->node_count; i++)
    states[i] = STATE_NEW;
  for (int32_t root = 0; root < graph->node_count && !has_cycle; root++) {
    int32_t depth = 0;
    if (states[root] == STATE_NEW) stack[depth++] = root;
    while (depth > 0 && !has_cycle) {
      const int32_t at = stack[depth - 1];
      states[at] = STATE_OPEN;
      const int32_t next = next_open_input(&graph->nodes[at], states, &has_cycle);
      if (next >= 0 && !has_cycle) {
        stack[depth++] = next;
        continue;
      }
      states[at] = STATE_DONE;
      graph->order[count++] = at;
      depth--;
    }
  }
  return !has_cycle;
}

static bool is_control_flow(bytes_t op) {
  static const char *const names[] = {"Switch",    "Merge",    "Enter",         "Exit",
                                      "RefSwitch", "LoopCond", "NextIteration", "_SwitchN"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (bytes_equal(op, names[i])) return true;
  return false;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool read_graph_nodes(graph_t *graph) {
  bytes_t rest = graph->message;
  field_t field;
  bool is_damaged = false;
  int32_t count = 0;
  int32_t inputs = 0;
  while (message_next(&rest, &field, &is_damaged))
    if (field.number == GRAPH_NODE) graph->node_count++;
  const size_t nodes = (size_t)graph->node_count + 1;
  graph->nodes = calloc(nodes, sizeof *graph->nodes);
  graph->order = calloc(3 * nodes, sizeof *graph->order);
  graph->sorted = calloc(nodes, sizeof *graph->sorted);
  graph->groups = calloc(GROUPS_MOST, sizeof *graph->groups);
  if (!graph->nodes || !graph->order || !graph->sorted || !graph->groups) return false;
  rest = graph->message;
  while (message_next(&rest, &field, &is_damaged)) {
    if (field.number != GRAPH_NODE || count == graph->node_count) continue;
    read_graph_node(&graph->nodes[count], field.bytes, &is_damaged);
    graph->sorted[count] = count;
    inputs += graph->nodes[count].input_count;
    if (is_control_flow(graph->nodes[count].op)) graph->why = "it has loops or branches";
    count++;
  }
  if (is_damaged) graph->why = "the message is damaged";
  graph->inputs = calloc((size_t)inputs + 1, sizeof *graph->inputs);
  return graph->inputs != NULL;
}

bool graph_read(graph_t *graph, bytes_t message) {
  *graph = (graph_t){.message = message};
  if (!read_graph_nodes(graph)) return false;
  int32_t *next = graph->inputs;
  qsort_r(graph->sorted, (size_t)graph->node_count, sizeof *graph->sorted, compare_node_names,
          graph);
  for (int32_t i = 0; i < graph->node_count; i++) {
    graph->nodes[i].inputs = next;
    next += graph->nodes[i].input_count;
  }
  for (int32_t i = 0; i < graph->node_count && !graph->why; i++)
    link_graph_node(graph, &graph->nodes[i]);
  if (!graph->why && !sort_graph_nodes(graph, graph->order + graph->node_count))
    graph->why = "it has cycles";
  return true;
}

void graph_free(graph_t *graph) {
  for (int32_t i = 0; graph->groups && i < graph->group_count; i++)
    free(graph->groups[i].text);
  free(graph->nodes);
  free(graph->order);
  free(graph->sorted);
  free(graph->inputs);
  free(graph->groups);
}
