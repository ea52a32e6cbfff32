/* `tenon convert` writes a model in the standard operators of another format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "print_error.h"

/* Returns the extent that --dim states for a symbol; -1: none. */
static int64_t stated_extent(const texts_t *dims, const char *name) {
  size_t size = name ? strlen(name) : 0;
  for (int32_t i = 0; size && i < dims->count; i++)
    if (strncmp(dims->items[i], name, size) == 0 && dims->items[i][size] == '=')
      return strtoll(dims->items[i] + size + 1, NULL, 10);
  return -1;
}

static bool check_dims(const texts_t *dims, text_t *why) {
  for (int32_t i = 0; i < dims->count; i++) {
    const char *equals = strchr(dims->items[i], '=');
    char *end = NULL;
    long long extent = equals ? strtoll(equals + 1, &end, 10) : -1;
    if (equals && equals != dims->items[i] && end != equals + 1 && !*end && extent >= 0) continue;
    text_add(why, "--dim %s: expected the name of an extent and a number, such as batch=8",
             dims->items[i]);
    return false;
  }
  return true;
}

static tenon_status_t add_fixed_input(tenon_builder_t *builder, const tenon_graph_t *graph,
                                      int32_t index, const texts_t *dims, tenon_edge_t *edges) {
  tenon_port_t port = {.size = sizeof port};
  tenon_axis_t axes[TENON_RANK_MAX];
  TENON_TRY(tenon_graph_input(graph, index, &port));
  for (int32_t d = 0; d < port.ndim; d++) {
    int64_t extent = port.axes[d].extent < 0 ? stated_extent(dims, port.axes[d].name) : -1;
    axes[d] = port.axes[d];
    if (extent >= 0) axes[d] = (tenon_axis_t){extent, NULL};
  }
  return tenon_builder_input(builder, port.name, port.dtype, port.ndim, axes, &edges[port.edge]);
}

static tenon_status_t build_fixed(tenon_builder_t *builder, const tenon_graph_t *graph,
                                  const texts_t *dims, tenon_edge_t *edges,
                                  tenon_graph_t **out_graph) {
  TENON_TRY(tenon_builder_name(builder, tenon_graph_name(graph)));
  for (int32_t i = 0; i < tenon_graph_input_count(graph); i++)
    TENON_TRY(add_fixed_input(builder, graph, i, dims, edges));
  for (int32_t n = 0; n < tenon_graph_node_count(graph); n++)
    TENON_TRY(tenon_builder_copy_node(builder, graph, n, edges));
  TENON_TRY(tenon_builder_copy_outputs(builder, graph, edges));
  return tenon_builder_finish(builder, out_graph);
}

static int32_t edge_count(const tenon_graph_t *graph) {
  int32_t count = 0;
  tenon_graph_edge_t edge = {.size = sizeof edge};
  while (tenon_graph_edge(graph, count, &edge, NULL) == TENON_OK)
    count++;
  return count;
}

/* Whether a list such as "; they have: a, b" has the symbol. */
static bool lists_symbol(const char *names, const char *symbol) {
  const size_t size = strlen(symbol);
  for (const char *at = names; (at = strstr(at, symbol)); at++)
    if (at > names && at[-1] == ' ' && (at[size] == ',' || !at[size])) return true;
  return false;
}

/* Whether an input has an extent of this name. Otherwise lists the names that there are. */
static bool has_symbol(const tenon_graph_t *graph, const char *name, size_t size, text_t *names) {
  for (int32_t i = 0; i < tenon_graph_input_count(graph); i++) {
    tenon_port_t port = {.size = sizeof port};
    if (tenon_graph_input(graph, i, &port) != TENON_OK) continue;
    for (int32_t d = 0; d < port.ndim; d++) {
      const char *symbol = port.axes[d].extent < 0 ? port.axes[d].name : NULL;
      if (!symbol) continue;
      if (strlen(symbol) == size && memcmp(symbol, name, size) == 0) return true;
      if (!lists_symbol(text_get(names), symbol))
        text_add(names, "%s%s", text_get(names)[0] ? ", " : "; they have: ", symbol);
    }
  }
  return false;
}

/* Checks that each --dim names an extent of an input. */
static tenon_status_t check_symbols(const tenon_graph_t *graph, const texts_t *dims) {
  for (int32_t i = 0; i < dims->count; i++) {
    text_t names = {NULL, 0, 0, false};
    text_t message = {NULL, 0, 0, false};
    const char *dim = dims->items[i];
    const bool is_known = has_symbol(graph, dim, strcspn(dim, "="), &names);
    const char *known = text_get(&names)[0] ? text_get(&names) : ": all are numbers";
    text_add(&message, "--dim %s: no input has an extent of this name%s", dim, known);
    const tenon_status_t status =
        is_known ? TENON_OK : tenon_error_set(TENON_INVALID, text_get(&message));
    text_free(&names);
    text_free(&message);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

/* Replaces the graph by one whose inputs have the extents that --dim states. */
static tenon_status_t fix_dims(tenon_graph_t **graph, const texts_t *dims) {
  tenon_builder_t *builder = NULL;
  tenon_graph_t *fixed = NULL;
  if (!dims->count) return TENON_OK;
  TENON_TRY(check_symbols(*graph, dims));
  int32_t count = edge_count(*graph);
  tenon_edge_t *edges = malloc(((size_t)count + 1) * sizeof *edges);
  if (!edges) return tenon_error_set(TENON_MEMORY, "out of memory: a graph");
  for (int32_t i = 0; i < count; i++)
    edges[i] = -1;
  tenon_status_t status = tenon_builder_create(&builder);
  if (status == TENON_OK) status = build_fixed(builder, *graph, dims, edges, &fixed);
  tenon_builder_release(builder);
  free(edges);
  if (status != TENON_OK) return status;
  tenon_graph_release(*graph);
  *graph = fixed;
  return TENON_OK;
}

static bool convert_model(const char *from, const char *to, const texts_t *dims, text_t *why) {
  tenon_graph_t *graph = NULL;
  tenon_status_t status = tenon_graph_load(from, NULL, &graph);
  if (status == TENON_OK) status = fix_dims(&graph, dims);
  if (status == TENON_OK) status = tenon_graph_export(graph, to);
  if (status != TENON_OK) text_add(why, "%s", tenon_error());
  tenon_graph_release(graph);
  return status == TENON_OK;
}

static int run_convert_verb(const verb_t *verb, int argc, char **argv) {
  texts_t libraries = {NULL, 0, 0};
  texts_t dims = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB", "load this operator library first; may be repeated",
       &libraries},
      {"dim", 'd', OPTION_TEXTS, "NAME=EXTENT",
       "the extent of a symbolic dimension of the inputs, such as batch=8; may be repeated", &dims},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 2, 2, "MODEL", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    library_supervise();
    bool fine = check_dims(&dims, &why) && library_load_all(&libraries, false, &why) &&
                convert_model(line.operands.items[0], line.operands.items[1], &dims, &why);
    code = EXIT_FINE;
    if (fine)
      printf("wrote %s\n", line.operands.items[1]);
    else
      code = print_failure("%s", text_get(&why));
  }
  texts_free(&libraries);
  texts_free(&dims);
  texts_free(&line.operands);
  text_free(&why);
  return code;
}

const verb_t verb_convert = {
    "convert", "MODEL NEW-MODEL [option]...", "write a model in another format",
    "Reads a model and writes it in the standard operators of the format that the end of the new "
    "name states: .onnx, .mlir or\n.stablehlo. Operators of libraries stay custom operators. If "
    "the format cannot express an operator, nothing is written,\nand the message lists all such "
    "nodes. NAME.graph becomes the text of the graph as it is, with its weights\nin "
    "NAME.safetensors. An existing file is replaced.",
    run_convert_verb};
