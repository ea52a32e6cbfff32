/* Describes the first node whose results differ; see first_difference.h. */
#include "first_difference.h"

#include <stdlib.h>
#include <string.h>

#include "summary.h"
#include "system.h"

enum { ARGUMENTS_MOST = 64 };

typedef struct node_t {
  tenon_graph_part_t part;
  tenon_op_info_t info;
  tenon_tensor_t *inputs[ARGUMENTS_MOST];
  tenon_tensor_t *expected[ARGUMENTS_MOST];
  tenon_tensor_t *found[ARGUMENTS_MOST];
  tenon_tensor_t *alone[ARGUMENTS_MOST];
} node_t;

static bool find_node(const first_difference_t *c, node_t *node) {
  for (int32_t n = 0; n < tenon_graph_node_count(c->graph); n++) {
    node->part.size = sizeof node->part;
    node->info.size = sizeof node->info;
    if (tenon_graph_node(c->graph, n, &node->part) != TENON_OK) return false;
    if (strcmp(node->part.name, c->node) != 0) continue;
    for (int32_t o = 0; o < node->part.output_count; o++) {
      tenon_graph_edge_t edge = {.size = sizeof edge};
      if (node->part.outputs[o] < 0 ||
          tenon_graph_edge(c->graph, node->part.outputs[o], &edge, NULL) != TENON_OK)
        continue;
      if (strcmp(edge.name, c->value) == 0) {
        tenon_op_info(node->part.op, &node->info);
        return true;
      }
    }
  }
  return false;
}

/* Returns a value from a run, or a constant from the graph. */
static tenon_tensor_t *edge_tensor(const first_difference_t *c, const values_t *values,
                                   tenon_edge_t edge, text_t *why) {
  tenon_graph_edge_t about = {.size = sizeof about};
  tenon_port_t port = {.size = sizeof port};
  if (tenon_graph_edge(c->graph, edge, &about, NULL) != TENON_OK) return NULL;
  if (about.constant) {
    tenon_tensor_retain(about.constant);
    return about.constant;
  }
  const char *kind = about.input >= 0 ? "input" : "value";
  const char *name = about.name;
  if (about.input >= 0 && tenon_graph_input(c->graph, about.input, &port) == TENON_OK)
    name = port.name;
  const values_t *run = about.input >= 0 ? c->a : values;
  const value_t *value = values_find(run, kind, name);
  return value ? values_tensor(run, value, why) : NULL;
}

static bool read_inputs(const first_difference_t *c, node_t *node, text_t *why) {
  for (int32_t i = 0; i < node->info.input_count && i < ARGUMENTS_MOST; i++) {
    const tenon_operand_t *operand = &node->part.operands[i];
    tenon_argument_t argument = {.size = sizeof argument};
    (void)tenon_op_argument(node->part.op, TENON_ARGUMENT_INPUT, i, &argument);
    tenon_tensor_t **items = calloc((size_t)operand->count + 1, sizeof *items);
    bool fine = items != NULL;
    for (int32_t k = 0; fine && k < operand->count; k++) {
      items[k] = edge_tensor(c, c->a, operand->edges[k], why);
      fine = items[k] != NULL;
    }
    if (fine && argument.kind == TENON_KIND_TENSORS)
      fine = tenon_tensor_list(items, operand->count, &node->inputs[i]) == TENON_OK;
    else if (fine && operand->count)
      tenon_tensor_retain(node->inputs[i] = items[0]);
    for (int32_t k = 0; items && k < operand->count; k++)
      tenon_tensor_release(items[k]);
    free(items);
    if (!fine) {
      text_add(why, "input %s of node '%s' is missing among the saved values", argument.name,
               c->node);
      return false;
    }
  }
  return true;
}

/* Reads the results that both runs have, unless they are lists. */
static void read_results(const first_difference_t *c, node_t *node) {
  text_t ignored = {NULL, 0, 0, false};
  for (int32_t o = 0; o < node->info.output_count && o < ARGUMENTS_MOST; o++) {
    tenon_argument_t argument = {.size = sizeof argument};
    (void)tenon_op_argument(node->part.op, TENON_ARGUMENT_OUTPUT, o, &argument);
    /* Then edges and results do not correspond one to one. */
    if (argument.kind == TENON_KIND_TENSORS) break;
    if (o >= node->part.output_count || node->part.outputs[o] < 0) continue;
    node->found[o] = edge_tensor(c, c->a, node->part.outputs[o], &ignored);
    node->expected[o] = edge_tensor(c, c->b, node->part.outputs[o], &ignored);
  }
  text_free(&ignored);
}

static bool outputs_agree(const first_difference_t *c, const node_t *node,
                          tenon_tensor_t *const *with) {
  bool same = true;
  text_t ignored = {NULL, 0, 0, false};
  for (int32_t o = 0; o < node->info.output_count && o < ARGUMENTS_MOST && same; o++)
    if (with[o] && node->alone[o])
      same = compare_tensors(with[o], node->alone[o], &c->tolerance, &ignored);
  text_free(&ignored);
  return same;
}

/* Calls the operator again with the inputs of the first run, to tell whether the node or its inputs
 * cause the difference. */
static void add_alone(const first_difference_t *c, node_t *node, text_t *out) {
  if (node->info.traits & TENON_RANDOM) return;
  if (tenon_op_call(node->part.op, node->part.attrs, node->inputs, node->alone, 0) != TENON_OK) {
    text_add(out, "  alone  with these inputs the operator fails: %s\n", tenon_error());
    return;
  }
  bool first = outputs_agree(c, node, node->found);
  bool second = outputs_agree(c, node, node->expected);
  const char *whose = "neither run";
  const char *cause = "";
  if (first && second) {
    whose = "both runs";
  } else if (first) {
    whose = "the first run";
    cause =
        ": the runs gave it different inputs, within the tolerance, or called a different operator";
  } else if (second) {
    whose = "the second run";
  }
  if (second) cause = ": the first run computed this node differently";
  text_add(out,
           "  alone  on the CPU with the inputs of the first run, the operator returns the result "
           "of %s%s\n",
           whose, cause);
}

static bool save_dump(const first_difference_t *c, const node_t *node, text_t *out_dump,
                      text_t *why) {
  tenon_recording_info_t info = {.size = sizeof info,
                                 .node = node->part.name,
                                 .inputs = node->inputs,
                                 .outputs = node->expected};
  for (int number = 0; number < 1000; number++) {
    text_clear(out_dump);
    text_add(out_dump, "%s/%03d-", c->folder, number);
    for (const char *at = node->info.name; *at; at++) {
      if (at[0] == ':' && at[1] == ':') at++;
      text_bytes(out_dump, *at == ':' ? "." : at, 1);
    }
    if (system_is_folder(text_get(out_dump))) continue;
    if (tenon_recording_save(text_get(out_dump), node->part.op, node->part.attrs, &info) ==
        TENON_OK)
      return true;
    text_add(why, "%s", tenon_error());
    return false;
  }
  text_add(why, "%s already contains 1000 saved calls: choose another folder by --record DIR",
           c->folder);
  return false;
}

bool first_difference_describe(const first_difference_t *c, text_t *out, text_t *out_dump,
                               text_t *why) {
  node_t *node = calloc(1, sizeof *node);
  if (!node) {
    text_add(why, "out of memory");
    return false;
  }
  bool fine = find_node(c, node) && read_inputs(c, node, why);
  if (!fine && !why->size) text_add(why, "node '%s' does not exist in the graph", c->node);
  for (int32_t i = 0; fine && i < node->info.input_count; i++) {
    tenon_argument_t argument = {.size = sizeof argument};
    text_t name = {NULL, 0, 0, false};
    if (!node->inputs[i]) continue;
    (void)tenon_op_argument(node->part.op, TENON_ARGUMENT_INPUT, i, &argument);
    text_add(&name, "  input  %s", argument.name);
    summary_add_tensor(out, text_get(&name), node->inputs[i]);
    text_free(&name);
  }
  if (fine) {
    read_results(c, node);
    add_alone(c, node, out);
    fine = save_dump(c, node, out_dump, why);
  }
  for (int32_t i = 0; i < ARGUMENTS_MOST; i++) {
    tenon_tensor_release(node->inputs[i]);
    tenon_tensor_release(node->expected[i]);
    tenon_tensor_release(node->found[i]);
    tenon_tensor_release(node->alone[i]);
  }
  free(node);
  return fine;
}
