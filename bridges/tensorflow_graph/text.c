/* Writes the text of a group (bridges/tensorflow/group.h), and checks that Tenon compiles it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "group.h"

typedef struct writer_t {
  graph_t *graph;
  graph_group_t *group;
  int32_t index;
  FILE *file;
  const char *word; /* the dtype of the group */
  int32_t value_count;
  int32_t *values; /* of each node of the graph: its value in the text; -1: none yet */
} writer_t;

static bool is_condition(const graph_node_t *node, int32_t input) {
  return !*node->plan->row->types || (input == 0 && bytes_equal(node->op, "SelectV2"));
}

/* Returns the value of a node; adds an input of the group for a node outside; -1: too many. */
static int32_t value_in_group(writer_t *w, const graph_node_t *user, int32_t input) {
  graph_group_t *g = w->group;
  const int32_t from = user->inputs[input];
  if (w->values[from] >= 0) return w->values[from];
  if (g->input_count == GROUP_PORTS_MOST) return -1;
  const bool is_bool = is_condition(user, input);
  g->inputs[g->input_count] = from;
  g->input_types[g->input_count++] = is_bool ? DT_BOOL : g->dtype;
  fprintf(w->file, "i %s\n", is_bool ? "bool" : w->word);
  return w->values[from] = w->value_count++;
}

/* Writes a node of a formula. Returns its value; -1: it cannot be written. */
static int32_t write_plan_node(writer_t *w, const graph_node_t *node, int32_t at, int32_t *made) {
  const node_t *part = &node->plan->nodes[at];
  int32_t operands[PLAN_OPERANDS_MOST];
  int32_t count = 0;
  if (made[at] >= 0) return made[at];
  if (part->kind == NODE_INPUT) return value_in_group(w, node, part->index);
  if (part->kind != NODE_CALL) {
    fprintf(w->file, "n %s %.17g\n", w->word,
            part->kind == NODE_REAL ? part->real : (double)part->number);
    return made[at] = w->value_count++;
  }
  for (; count < part->operand_count && part->operands[count] >= 0; count++) {
    operands[count] = write_plan_node(w, node, part->operands[count], made);
    if (operands[count] < 0) return -1;
  }
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(part->op, &info);
  fprintf(w->file, "c %s", info.name);
  for (int32_t i = 0; i < count; i++)
    fprintf(w->file, " %d", operands[i]);
  fprintf(w->file, "\n");
  return made[at] = w->value_count++;
}

static bool write_group_node(writer_t *w, int32_t index) {
  const graph_node_t *node = &w->graph->nodes[index];
  int32_t made[PLAN_NODES_MOST];
  memset(made, -1, sizeof made);
  if (node->input_count != node->plan->input_count) return false;
  w->values[index] = write_plan_node(w, node, node->plan->results[0], made);
  return w->values[index] >= 0;
}

static bool write_group(writer_t *w) {
  graph_group_t *g = w->group;
  const graph_t *graph = w->graph;
  for (int32_t i = 0; i < graph->node_count; i++) {
    const int32_t index = graph->order[i];
    if (graph->nodes[index].group == w->index && !write_group_node(w, index)) return false;
  }
  for (int32_t i = 0; i < graph->node_count; i++) {
    const graph_node_t *node = &graph->nodes[graph->order[i]];
    if (node->group != w->index || !node->is_used_outside) continue;
    if (g->output_count == GROUP_PORTS_MOST) return false;
    g->outputs[g->output_count++] = graph->order[i];
    fprintf(w->file, "o %d\n", w->values[graph->order[i]]);
  }
  return g->output_count > 0;
}

/* Reads the dtypes of the results, by building and compiling the group once. */
static bool check_group(graph_group_t *g) {
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  bool is_good = tenon_tensorflow_group(g->text, &graph) == TENON_OK &&
                 tenon_executable_create(graph, NULL, &executable) == TENON_OK;
  for (int32_t i = 0; i < g->output_count && is_good; i++) {
    tenon_port_t port = {.size = sizeof port};
    is_good = tenon_graph_output(graph, i, &port) == TENON_OK;
    const bool is_bool = is_good && tenon_dtype_id(port.dtype) == TENON_BOOL;
    g->output_types[i] = is_bool ? DT_BOOL : g->dtype;
  }
  tenon_executable_release(executable);
  tenon_graph_release(graph);
  return is_good;
}

void groups_describe(graph_t *graph, int32_t group) {
  graph_group_t *g = &graph->groups[group];
  size_t size = 0;
  if (g->node_count < 2) return;
  writer_t w = {.graph = graph,
                .group = g,
                .index = group,
                .file = open_memstream(&g->text, &size),
                .word = g->dtype == DT_FLOAT ? "f32" : "f64",
                .values = malloc((size_t)graph->node_count * sizeof(int32_t))};
  bool is_good = w.file && w.values;
  for (int32_t i = 0; is_good && i < graph->node_count; i++)
    w.values[i] = -1;
  if (is_good) is_good = write_group(&w);
  free(w.values);
  if (w.file) is_good = fclose(w.file) == 0 && is_good;
  if (is_good && check_group(g)) return;
  free(g->text);
  g->text = NULL;
}
