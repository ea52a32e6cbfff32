/* Builds graphs from the texts of groups; see group.h. */
#include "group.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 2048, OPERANDS_MOST = 32, LINE_MOST = 200 };

typedef struct group_t {
  tenon_builder_t *builder;
  int32_t value_count;
  tenon_edge_t values[VALUES_MOST];
} group_t;

static tenon_status_t fail_group_line(const char *line) {
  char text[LINE_MOST + 100];
  snprintf(text, sizeof text, "a group of nodes has a line that is not valid: '%s'", line);
  return tenon_error_set(TENON_INVALID, text);
}

static tenon_status_t add_group_value(group_t *g, tenon_edge_t edge) {
  if (g->value_count == VALUES_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED, "a group of nodes has more than 2048 values");
  g->values[g->value_count++] = edge;
  return TENON_OK;
}

static tenon_status_t add_group_input(group_t *g, const char *line) {
  char name[40];
  tenon_dtype_t dtype;
  tenon_edge_t edge = 0;
  snprintf(name, sizeof name, "input%d", g->value_count);
  tenon_status_t status = tenon_dtype_parse(line + 2, &dtype);
  if (status == TENON_OK) status = tenon_builder_input(g->builder, name, dtype, -1, NULL, &edge);
  return status == TENON_OK ? add_group_value(g, edge) : status;
}

static tenon_status_t add_group_number(group_t *g, const char *line) {
  char word[20];
  double number = 0;
  tenon_dtype_t dtype;
  tenon_edge_t edge = 0;
  tenon_tensor_t *tensor = NULL;
  if (sscanf(line, "n %19s %lf", word, &number) != 2) return fail_group_line(line);
  tenon_status_t status = tenon_dtype_parse(word, &dtype);
  if (status == TENON_OK) status = tenon_tensor_create(dtype, 0, NULL, &tensor);
  if (status != TENON_OK) return status;
  if (tenon_dtype_id(dtype) == TENON_F32)
    *(float *)tensor->data = (float)number;
  else if (tenon_dtype_id(dtype) == TENON_F64)
    *(double *)tensor->data = number;
  else
    status = fail_group_line(line);
  if (status == TENON_OK) status = tenon_builder_constant(g->builder, NULL, tensor, &edge);
  tenon_tensor_release(tensor);
  return status == TENON_OK ? add_group_value(g, edge) : status;
}

/* Reads the next number of a value. Returns false at the end of the line, or if there is no such
 * value. */
static bool read_group_value(const group_t *g, char **at, tenon_edge_t *out) {
  char *end = *at;
  const long index = strtol(*at, &end, 10);
  if (end == *at || index < 0 || index >= g->value_count) return false;
  *at = end;
  *out = g->values[index];
  return true;
}

static tenon_status_t add_group_node(group_t *g, const tenon_op_t *op, const tenon_edge_t *edges,
                                     int32_t count) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_operand_t operands[OPERANDS_MOST] = {{0, NULL}};
  tenon_edge_t out = 0;
  tenon_op_info(op, &info);
  if (info.input_count > OPERANDS_MOST || info.output_count != 1 || count > info.input_count)
    return tenon_error_set(TENON_INVALID, "an operator in a group of nodes has other arguments");
  for (int32_t i = 0; i < info.input_count; i++)
    if (i < count) operands[i] = (tenon_operand_t){1, &edges[i]};
  const tenon_status_t status = tenon_builder_node(g->builder, NULL, op, NULL, operands, &out, 1);
  return status == TENON_OK ? add_group_value(g, out) : status;
}

static tenon_status_t add_group_call(group_t *g, char *line) {
  tenon_edge_t edges[OPERANDS_MOST];
  const tenon_op_t *op = NULL;
  int32_t count = 0;
  char *name = line + 2;
  char *at = name + strcspn(name, " ");
  if (*at) *at++ = 0;
  const tenon_status_t status = tenon_op_find(name, &op);
  if (status != TENON_OK) return status;
  while (count < OPERANDS_MOST && read_group_value(g, &at, &edges[count]))
    count++;
  return *at ? fail_group_line(line) : add_group_node(g, op, edges, count);
}

static tenon_status_t add_group_output(group_t *g, char *line) {
  char *at = line + 1;
  tenon_edge_t edge = 0;
  char name[40];
  if (!read_group_value(g, &at, &edge)) return fail_group_line(line);
  snprintf(name, sizeof name, "output%ld", (long)(strtol(line + 1, NULL, 10)));
  return tenon_builder_output(g->builder, name, edge);
}

static tenon_status_t add_group_line(group_t *g, char *line) {
  if (line[0] && line[1] != ' ') return fail_group_line(line);
  switch (line[0]) {
  case 'i':
    return add_group_input(g, line);
  case 'n':
    return add_group_number(g, line);
  case 'c':
    return add_group_call(g, line);
  case 'o':
    return add_group_output(g, line);
  default:
    return fail_group_line(line);
  }
}

static tenon_status_t read_group_lines(group_t *g, const char *text) {
  char line[LINE_MOST];
  tenon_status_t status = TENON_OK;
  while (*text && status == TENON_OK) {
    const size_t size = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)(size < LINE_MOST ? size : LINE_MOST - 1), text);
    status = size < LINE_MOST ? add_group_line(g, line) : fail_group_line(line);
    text += size + (text[size] == '\n');
  }
  return status;
}

tenon_status_t tenon_tensorflow_group(const char *text, tenon_graph_t **out_graph) {
  group_t *g = calloc(1, sizeof *g);
  *out_graph = NULL;
  if (!g) return tenon_error_set(TENON_MEMORY, "out of memory: a group of nodes");
  tenon_status_t status = tenon_builder_create(&g->builder);
  if (status == TENON_OK) status = read_group_lines(g, text);
  if (status == TENON_OK) status = tenon_builder_finish(g->builder, out_graph);
  tenon_builder_release(g->builder);
  free(g);
  return status;
}
