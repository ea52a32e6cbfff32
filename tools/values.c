/* Writes the values of a graph to a folder, and reads them; see values.h. */
#include "values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "system.h"

typedef struct saving_t {
  const values_request_t *request;
  int32_t edge_count;
  int32_t node_count;
  int32_t file_count;
  bool *is_used;       /* for each edge: whether anything reads it */
  tenon_edge_t *edges; /* results to be saved, in the order of nodes */
  int32_t *nodes;      /* the node of each result */
  int32_t count;
  text_t list;
} saving_t;

static void add_field(text_t *list, const char *text, char end) {
  for (; *text; text++)
    text_bytes(list, *text == '\t' || *text == '\n' ? " " : text, 1);
  text_bytes(list, &end, 1);
}

static bool save_tensor(saving_t *s, const char *kind, const char *name, const char *node,
                        const char *op, const tenon_tensor_t *tensor, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  char file[32];
  if (!tensor || element_class(tensor->dtype) == ELEMENT_LIST || tensor->detail)
    return true; /* such a tensor has no file format */
  snprintf(file, sizeof file, "%05d.npy", (int)s->file_count++);
  text_add(&path, "%s/%s", s->request->folder, file);
  bool fine = tenon_tensor_save(tensor, text_get(&path)) == TENON_OK;
  if (!fine) text_add(why, "%s", tenon_error());
  add_field(&s->list, kind, '\t');
  add_field(&s->list, file, '\t');
  add_field(&s->list, tenon_dtype_name(tensor->dtype), '\t');
  add_field(&s->list, name, '\t');
  add_field(&s->list, node, '\t');
  add_field(&s->list, op, '\n');
  text_free(&path);
  return fine;
}

/* Lists the results of nodes that are read by something. */
static bool list_edges(saving_t *s, text_t *why) {
  const tenon_graph_t *graph = s->request->graph;
  tenon_graph_edge_t edge = {.size = sizeof edge};
  tenon_graph_part_t node = {.size = sizeof node};
  tenon_port_t port = {.size = sizeof port};
  while (tenon_graph_edge(graph, s->edge_count, &edge, NULL) == TENON_OK)
    s->edge_count++;
  s->node_count = tenon_graph_node_count(graph);
  s->is_used = calloc((size_t)s->edge_count + 1, sizeof *s->is_used);
  s->edges = calloc((size_t)s->edge_count + 1, sizeof *s->edges);
  s->nodes = calloc((size_t)s->edge_count + 1, sizeof *s->nodes);
  if (!s->is_used || !s->edges || !s->nodes) {
    text_add(why, "out of memory");
    return false;
  }
  for (int32_t n = 0; n < s->node_count && tenon_graph_node(graph, n, &node) == TENON_OK; n++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(node.op, &info);
    for (int32_t i = 0; i < info.input_count; i++)
      for (int32_t k = 0; k < node.operands[i].count; k++)
        s->is_used[node.operands[i].edges[k]] = true;
  }
  for (int32_t o = 0;
       o < tenon_graph_output_count(graph) && tenon_graph_output(graph, o, &port) == TENON_OK; o++)
    s->is_used[port.edge] = true;
  for (int32_t n = 0; n < s->node_count && tenon_graph_node(graph, n, &node) == TENON_OK; n++)
    for (int32_t o = 0; o < node.output_count; o++)
      if (node.outputs[o] >= 0 && s->is_used[node.outputs[o]]) {
        s->edges[s->count] = node.outputs[o];
        s->nodes[s->count++] = n;
      }
  return true;
}

/* Creates an executable whose outputs are these values. Nodes that they do not depend on are not
 * run. */
static tenon_status_t create_observed(const saving_t *s, int32_t first, int32_t count,
                                      tenon_executable_t **out_executable) {
  const tenon_graph_t *graph = s->request->graph;
  tenon_builder_t *builder = NULL;
  tenon_graph_t *observed = NULL;
  tenon_edge_t *map = malloc(((size_t)s->edge_count + 1) * sizeof *map);
  if (!map) return TENON_MEMORY;
  for (int32_t i = 0; i < s->edge_count; i++)
    map[i] = -1;
  tenon_status_t status = tenon_builder_create(&builder);
  if (status == TENON_OK) status = tenon_builder_copy_inputs(builder, graph, map);
  for (int32_t n = 0; n < s->node_count && status == TENON_OK; n++)
    status = tenon_builder_copy_node(builder, graph, n, map);
  for (int32_t i = first; i < first + count && status == TENON_OK; i++) {
    char name[32];
    snprintf(name, sizeof name, "value %d", (int)i);
    status = tenon_builder_output(builder, name, map[s->edges[i]]);
  }
  if (status == TENON_OK) status = tenon_builder_finish(builder, &observed);
  if (status == TENON_OK)
    status = tenon_executable_create(observed, s->request->options, out_executable);
  tenon_graph_release(observed);
  tenon_builder_release(builder);
  free(map);
  return status;
}

static bool save_results(saving_t *s, int32_t first, int32_t count, bool must, text_t *why) {
  tenon_executable_t *executable = NULL;
  tenon_tensor_t **outputs = calloc((size_t)count + 1, sizeof *outputs);
  bool fine = outputs != NULL;
  tenon_random_seed(s->request->seed);
  tenon_status_t status = fine ? create_observed(s, first, count, &executable) : TENON_MEMORY;
  if (status == TENON_OK)
    status = tenon_executable_run(executable, s->request->inputs, outputs, NULL);
  if (status != TENON_OK && must) text_add(why, "%s", tenon_error());
  for (int32_t i = 0; i < count && status == TENON_OK && fine; i++) {
    tenon_graph_part_t node = {.size = sizeof node};
    tenon_graph_edge_t edge = {.size = sizeof edge};
    tenon_op_info_t info = {.size = sizeof info};
    (void)tenon_graph_node(s->request->graph, s->nodes[first + i], &node);
    (void)tenon_graph_edge(s->request->graph, s->edges[first + i], &edge, NULL);
    tenon_op_info(node.op, &info);
    fine = save_tensor(s, "value", edge.name, node.name, info.name, outputs[i], why);
  }
  for (int32_t i = 0; outputs && i < count; i++)
    tenon_tensor_release(outputs[i]);
  free(outputs);
  tenon_executable_release(executable);
  return fine && (status == TENON_OK || !must);
}

static bool save_ports(saving_t *s, text_t *why) {
  const values_request_t *r = s->request;
  tenon_port_t port = {.size = sizeof port};
  bool fine = true;
  for (int32_t i = 0; fine && tenon_graph_input(r->graph, i, &port) == TENON_OK; i++)
    fine = save_tensor(s, "input", port.name, "", "", r->inputs[i], why);
  for (int32_t o = 0; fine && tenon_graph_output(r->graph, o, &port) == TENON_OK; o++)
    fine = save_tensor(s, "output", port.name, "", "", r->outputs[o], why);
  return fine;
}

bool values_save(const values_request_t *request, text_t *why) {
  enum { AT_ONCE = 256 };
  saving_t s = {.request = request};
  text_t path = {NULL, 0, 0, false};
  bool fine =
      system_make_folder(request->folder, why) && list_edges(&s, why) && save_ports(&s, why);
  int32_t each = request->each ? 1 : AT_ONCE;
  for (int32_t i = 0; i < s.count && fine; i += each)
    fine = save_results(&s, i, s.count - i < each ? s.count - i : each, !request->each, why);
  text_add(&path, "%s/values.txt", request->folder);
  FILE *file = fine ? fopen(text_get(&path), "w") : NULL;
  if (fine && (!file || fputs(text_get(&s.list), file) < 0))
    text_add(why, "cannot write %s", text_get(&path));
  if (file && fclose(file) != 0) fine = false;
  text_free(&path);
  text_free(&s.list);
  free(s.is_used);
  free(s.edges);
  free(s.nodes);
  return fine && !why->size;
}

static bool add_value_line(values_t *values, char *line) {
  const char *fields[6];
  for (int i = 0; i < 6; i++) {
    fields[i] = line;
    line += strcspn(line, "\t");
    if (*line)
      *line++ = 0;
    else if (i < 5)
      return false;
  }
  if (values->count == values->capacity) {
    int32_t capacity = values->capacity ? 2 * values->capacity : 64;
    value_t *items = realloc(values->items, (size_t)capacity * sizeof *items);
    if (!items) return false;
    values->items = items;
    values->capacity = capacity;
  }
  values->items[values->count++] =
      (value_t){fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]};
  return true;
}

bool values_load(const char *folder, values_t *values, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  char *line = NULL;
  size_t room = 0;
  bool fine = true;
  text_add(&path, "%s/values.txt", folder);
  FILE *file = fopen(text_get(&path), "r");
  values->folder = strdup(folder);
  if (!file || !values->folder) {
    text_add(why, "cannot read %s", text_get(&path));
    fine = false;
  }
  while (fine && getline(&line, &room, file) > 0) {
    line[strcspn(line, "\n")] = 0;
    fine = texts_add(&values->lines, line) &&
           add_value_line(values, values->lines.items[values->lines.count - 1]);
    if (!fine)
      text_add(why, "%s: line %d: expected six fields separated by tabs", text_get(&path),
               (int)values->count + 1);
  }
  if (file) fclose(file);
  free(line);
  text_free(&path);
  return fine;
}

void values_free(values_t *values) {
  free(values->items);
  free(values->folder);
  texts_free(&values->lines);
  *values = (values_t){0};
}

const value_t *values_find(const values_t *values, const char *kind, const char *name) {
  for (int32_t i = 0; i < values->count; i++)
    if (strcmp(values->items[i].kind, kind) == 0 && strcmp(values->items[i].name, name) == 0)
      return &values->items[i];
  return NULL;
}

tenon_tensor_t *values_tensor(const values_t *values, const value_t *value, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  tenon_tensor_t *tensor = NULL;
  tenon_dtype_t dtype;
  text_add(&path, "%s/%s", values->folder, value->file);
  if (tenon_tensor_load(text_get(&path), &tensor) != TENON_OK)
    text_add(why, "%s", tenon_error());
  else if (tenon_dtype_parse(value->dtype, &dtype) == TENON_OK && dtype.bits == tensor->dtype.bits)
    tensor->dtype = dtype; /* for a dtype that NumPy lacks, the file stores only the bits */
  text_free(&path);
  return tensor;
}
