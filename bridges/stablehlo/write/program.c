/* Writes a whole program: the inputs, each node in order, and the outputs. Called by bridge.c. */
#include "write/program.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "write/table.h"

static void print_inputs(hlo_write_t *w) {
  for (int32_t i = 0; i < tenon_graph_input_count(w->graph); i++) {
    tenon_port_t port = {.size = sizeof port};
    if (hlo_write_failed(w, tenon_graph_input(w->graph, i, &port))) return;
    w->node = (tenon_graph_part_t){.name = port.name};
    w->op = (tenon_op_info_t){.name = "an input"};
    hlo_val_t value = hlo_edge_type(w, port.edge);
    w->is_missing = false;
    value.id = w->next++;
    hlo_bind(w, port.edge, value);
    fprintf(w->out, "%s%s: ", i ? ", " : "", hlo_val_text(w, &value));
    hlo_print_type(w->out, &value);
    fprintf(w->out, " loc(");
    hlo_print_text(w->out, port.name, strlen(port.name));
    fprintf(w->out, ")");
  }
}

/* The type of an output. Names the output if the type is not fixed. */
static hlo_val_t output_type(hlo_write_t *w, int32_t index, tenon_port_t *out_port) {
  hlo_val_t type = {.id = -1};
  if (hlo_write_failed(w, tenon_graph_output(w->graph, index, out_port))) return type;
  w->node = (tenon_graph_part_t){.name = out_port->name};
  w->op = (tenon_op_info_t){.name = "an output"};
  type = hlo_edge_type(w, out_port->edge);
  w->is_missing = false;
  return type;
}

/* An output that is not fixed is not reported here: the node that makes it may be. */
static void print_output_types(hlo_write_t *w) {
  const int32_t count = w->missing_count;
  for (int32_t i = 0; i < tenon_graph_output_count(w->graph) && w->status == TENON_OK; i++) {
    tenon_port_t port = {.size = sizeof port};
    w->missing_count = HLO_WRITE_MISSING_MAX;
    const hlo_val_t type = output_type(w, i, &port);
    if (w->status != TENON_OK) return;
    fprintf(w->out, "%s", i ? ", " : "");
    hlo_print_type(w->out, &type);
    fprintf(w->out, " {jax.result_info = ");
    hlo_print_text(w->out, port.name, strlen(port.name));
    fprintf(w->out, "}");
  }
  w->missing_count = count;
}

/* Reports outputs that are not fixed, unless a node is to blame. */
static void check_outputs(hlo_write_t *w) {
  for (int32_t i = 0; i < tenon_graph_output_count(w->graph) && !w->missing; i++) {
    tenon_port_t port = {.size = sizeof port};
    (void)output_type(w, i, &port);
  }
}

static void print_return(hlo_write_t *w) {
  const int32_t count = tenon_graph_output_count(w->graph);
  hlo_val_t *values = tn_arena_array(w->arena, (size_t)count + 1, sizeof *values);
  if (!values) (void)hlo_write_failed(w, tn_no_memory("a program", (size_t)count));
  for (int32_t i = 0; i < count && w->status == TENON_OK; i++) {
    tenon_port_t port = {.size = sizeof port};
    (void)hlo_write_failed(w, tenon_graph_output(w->graph, i, &port));
    values[i] = hlo_edge_value(w, port.edge);
  }
  if (w->status != TENON_OK) return;
  fprintf(w->out, "    return");
  for (int32_t i = 0; i < count; i++)
    fprintf(w->out, "%s %s", i ? "," : "", hlo_val_text(w, &values[i]));
  for (int32_t i = 0; i < count; i++) {
    fprintf(w->out, i ? ", " : " : ");
    hlo_print_type(w->out, &values[i]);
  }
  fprintf(w->out, "\n");
}

static void write_nodes(hlo_write_t *w) {
  for (int32_t n = 0; n < tenon_graph_node_count(w->graph) && w->status == TENON_OK; n++) {
    w->node = (tenon_graph_part_t){.size = sizeof w->node};
    w->op = (tenon_op_info_t){.size = sizeof w->op};
    (void)hlo_write_failed(w, tenon_graph_node(w->graph, n, &w->node));
    tenon_op_info(w->node.op, &w->op);
    w->is_missing = false;
    hlo_write_node(w);
    if (w->is_missing) hlo_give_unwritten(w);
    w->is_missing = false;
  }
}

static bool is_symbol(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return *name && strspn(name, letters) == strlen(name) && !(*name >= '0' && *name <= '9');
}

static tenon_status_t write_text(hlo_write_t *w) {
  const char *name = tenon_graph_name(w->graph);
  fprintf(w->out, "module @%s {\n  func.func public @main(", is_symbol(name) ? name : "graph");
  print_inputs(w);
  fprintf(w->out, ") -> (");
  print_output_types(w);
  fprintf(w->out, ") {\n");
  write_nodes(w);
  if (w->status == TENON_OK) check_outputs(w);
  if (w->status != TENON_OK) return w->status;
  if (w->missing)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "nodes that StableHLO cannot express:%s\nstate unknown extents (--dim "
                   "NAME=EXTENT for the command), or write the model without these nodes",
                   w->missing);
  print_return(w);
  fprintf(w->out, "  }\n}\n");
  return w->status;
}

static int32_t count_edges(const tenon_graph_t *graph) {
  int32_t count = 0;
  tenon_graph_edge_t edge = {.size = sizeof edge};
  while (tenon_graph_edge(graph, count, &edge, NULL) == TENON_OK)
    count++;
  return count;
}

static tenon_status_t write_program(FILE *out, const tenon_graph_t *graph) {
  tn_arena_t arena = {NULL};
  hlo_write_t w = {.arena = &arena, .graph = graph, .out = out, .write_nodes = write_nodes};
  w.edge_count = count_edges(graph);
  w.values = tn_arena_array(&arena, (size_t)w.edge_count + 1, sizeof *w.values);
  tenon_status_t status = w.values ? write_text(&w) : tn_no_memory("a program", 0);
  free(w.missing);
  tn_arena_clear(&arena);
  return status;
}

tenon_status_t hlo_program_write(const tenon_graph_t *graph, const char *path) {
  /* Numbers have decimal points. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return tn_no_memory("a locale", 0);
  FILE *out = fopen(path, "wb");
  if (!out) {
    freelocale(plain);
    return tn_fail(TENON_UNAVAILABLE, "cannot create the file %s: %s", path, strerror(errno));
  }
  locale_t before = uselocale(plain);
  tenon_status_t status = write_program(out, graph);
  (void)uselocale(before);
  freelocale(plain);
  bool is_written = !ferror(out);
  if ((fclose(out) != 0 || !is_written) && status == TENON_OK)
    status = tn_fail(TENON_UNAVAILABLE, "cannot write the file %s: %s", path, strerror(errno));
  return status;
}
