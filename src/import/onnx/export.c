/* Writes a graph as an ONNX file: one node of domain "ns" and type "name" for each operator, its
 * attributes by name, and constants as initialisers. import.c reads the file back to the same
 * graph. Invariant: everything that ONNX cannot express is an error, and the file on disk is
 * replaced only after the model is complete in memory. */
#include "import/onnx/export.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/file_copy.h"
#include "import/onnx/export_control.h"
#include "import/onnx/import.h"
#include "import/onnx/standard.h"

/* IR 10 belongs to ONNX 1.16, the first version with overloads, and operator set 21 belongs to it.
 * Newer sets need IR 11. */
enum {
  IR_VERSION = 10,
  OPERATOR_SET = 21,
  NEWER_IR_VERSION = 11,
  NEWER_OPERATOR_SET = 23,
};

/* A graph that is being written. */
typedef struct tn_written_t {
  const tenon_graph_t *graph;
  char **names; /* names of edges; NULL: not named yet */
  /* of outputs: the name of an additional Identity; NULL: the value's own name is used */
  char **aliases;
  int32_t *uses;
  bool is_body;                /* of an attribute */
  const char *const *captured; /* names of the last inputs, which are values outside of a body */
  size_t captured_count;
} tn_written_t;

/* Names of values */

static tenon_status_t keep_name(tn_export_t *export, tn_map_t *names, const char *name,
                                char **out_name) {
  size_t size = strlen(name);
  *out_name = tn_arena_text(&export->arena, name, size);
  return *out_name && tn_map_put(names, name, size, export) ? TENON_OK
                                                            : tn_no_memory("a name", size);
}

static tenon_status_t take_name(tn_export_t *export, const char *name, char **out_name) {
  return keep_name(export, &export->names, name, out_name);
}

static bool is_name_taken(const tn_export_t *export, const char *name) {
  return tn_map_get(&export->names, name, strlen(name)) != NULL;
}

static tenon_status_t make_name(tn_export_t *export, tn_map_t *names, const char *name,
                                char **out_name) {
  tn_text_t text = {0};
  tn_text_add(&text, "%s", name);
  while (!text.failed && tn_map_get(names, tn_text_get(&text), text.size)) {
    tn_text_clear(&text);
    tn_text_add(&text, "%s_%zu", name, ++export->made);
  }
  tenon_status_t status = text.failed ? tn_no_memory("a name", strlen(name))
                                      : keep_name(export, names, tn_text_get(&text), out_name);
  tn_text_clear(&text);
  return status;
}

tenon_status_t tn_export_name(tn_export_t *export, const char *name, char **out_name) {
  return make_name(export, &export->names, name, out_name);
}

static size_t own_input_count(const tn_written_t *g) {
  return g->graph->input_count - g->captured_count;
}

/* Names the inputs and outputs. In the model's graph they keep their names. A value that is an
 * output twice, or an input under another name, needs an Identity for each further name, which
 * aliases[i] then holds. */
static tenon_status_t name_ports(tn_export_t *export, tn_written_t *g) {
  const tenon_graph_t *graph = g->graph;
  const bool is_body = g->is_body;
  const size_t own = own_input_count(g);
  char **names = g->names;
  for (size_t i = 0; i < graph->input_count; i++) {
    tenon_edge_t edge = graph->inputs[i];
    if (i >= own)
      names[edge] = (char *)(uintptr_t)g->captured[i - own];
    else
      TN_TRY((is_body ? tn_export_name : take_name)(export, graph->edges[edge].name, &names[edge]));
  }
  for (size_t i = 0; i < graph->output_count; i++) {
    tenon_edge_t edge = graph->outputs[i];
    const char *name = graph->output_names[i];
    if (!is_body && names[edge] && strcmp(names[edge], name) == 0)
      /* An input that is returned unchanged. */
      continue;
    if (!is_body && is_name_taken(export, name))
      return tn_fail(
          TENON_INVALID,
          "output '%s' has the name of an input, but is another value: rename one of them", name);
    /* Runtimes expect that a node of a body makes each of its outputs. */
    if (is_body && !names[edge] && graph->edges[edge].constant)
      TN_TRY(tn_export_name(export, graph->edges[edge].name, &names[edge]));
    char **kept = names[edge] ? &g->aliases[i] : &names[edge];
    TN_TRY((is_body ? tn_export_name : take_name)(export, name, kept));
  }
  return TENON_OK;
}

/* Nodes */

static tenon_status_t edge_name(tn_export_t *export, tn_written_t *g, tenon_edge_t edge,
                                const char **out_name) {
  if (!g->names[edge]) TN_TRY(tn_export_name(export, g->graph->edges[edge].name, &g->names[edge]));
  *out_name = g->names[edge];
  return TENON_OK;
}

/* The number of inputs that are lists of tensors. */
static uint32_t list_count(const tenon_op_t *op) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    count += op->schema.inputs[i].kind == TENON_KIND_TENSORS;
  return count;
}

/* With several lists of inputs the file would not tell where one ends, so an attribute holds the
 * number of inputs of each argument. */
static tenon_status_t write_counts(tn_export_t *export, const tn_node_t *node) {
  tn_writer_t *w = &export->writer;
  size_t before = w->size;
  if (list_count(node->op) < 2) return TENON_OK;
  if (tn_schema_attr(&node->op->schema, TN_OPERAND_COUNTS, strlen(TN_OPERAND_COUNTS)) >= 0)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "the operator has several lists of inputs and an attribute '%s', which the file "
                   "needs for their lengths",
                   TN_OPERAND_COUNTS);
  for (uint32_t i = node->op->input_count; i-- > 0;)
    tn_write_int(w, 8, node->operands[i].count);
  tn_write_int(w, 20, TN_ATTRIBUTE_INTS);
  tn_write_text(w, 1, TN_OPERAND_COUNTS);
  tn_write_message(w, 5, before);
  return w->status;
}

/* Absent inputs at the end are left out, unless a list precedes them. If write_counts tells which
 * inputs are absent, all of them are left out. */
static tenon_status_t write_inputs(tn_export_t *export, tn_written_t *g, const tn_node_t *node) {
  uint32_t lists = list_count(node->op);
  bool is_end = lists == 0;
  const char *name;
  for (uint32_t i = node->op->input_count; i-- > 0;) {
    const tenon_operand_t *operand = &node->operands[i];
    bool is_list = node->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    if (!operand->count && !is_list && !is_end && lists < 2) tn_write_text(&export->writer, 1, "");
    if (operand->count) is_end = false;
    for (int32_t k = operand->count; k-- > 0;) {
      TN_TRY(edge_name(export, g, operand->edges[k], &name));
      tn_write_text(&export->writer, 1, name);
    }
  }
  return TENON_OK;
}

static tenon_status_t check_results(const tenon_op_t *op) {
  uint32_t open = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    const tn_argument_t *result = &op->schema.outputs[o];
    open += result->kind == TENON_KIND_TENSORS && result->count < 0 && result->count_attr < 0;
  }
  return open < 2 ? TENON_OK
                  : tn_fail(TENON_UNIMPLEMENTED,
                            "the operator has several lists of results whose lengths its schema "
                            "does not state, which ONNX cannot express");
}

static tenon_status_t write_node(tn_export_t *export, tn_written_t *g, const tn_node_t *node) {
  tn_writer_t *w = &export->writer;
  const tn_schema_t *schema = &node->op->schema;
  size_t before = w->size;
  const char *name;
  TN_TRY(check_results(node->op));
  if (*schema->overload) tn_write_text(w, 8, schema->overload);
  tn_write_text(w, 7, schema->ns);
  TN_TRY(write_counts(export, node));
  for (uint32_t i = schema->attr_count; i-- > 0;)
    TN_TRY(tn_export_attr(export, &schema->attrs[i], &node->attrs[i]));
  tn_write_text(w, 4, schema->name);
  char *node_name = (char *)(uintptr_t)node->name;
  if (export->is_standard) TN_TRY(make_name(export, &export->node_names, node->name, &node_name));
  tn_write_text(w, 3, node_name);
  for (int32_t o = node->output_count; o-- > 0;) {
    TN_TRY(edge_name(export, g, node->outputs[o], &name));
    tn_write_text(w, 2, name);
  }
  TN_TRY(write_inputs(export, g, node));
  tn_write_message(w, 1, before);
  return w->status;
}

/* Writes an Identity of ONNX, which gives a value another name. */
static void write_alias(tn_writer_t *w, const char *from, const char *to) {
  size_t before = w->size;
  tn_write_text(w, 4, "Identity");
  tn_write_text(w, 2, to);
  tn_write_text(w, 1, from);
  tn_write_message(w, 1, before);
}

/* Standard operators */

static bool is_core(const tenon_op_t *op) { return strcmp(op->schema.ns, "core") == 0; }

/* Notes the operator set that a node of a core operator needs, or why ONNX cannot express it. */
static void check_node(tn_export_t *export, const tn_node_t *node, tn_text_t *missing) {
  tn_standard_match_t match = {.since = OPERATOR_SET};
  tn_text_t why = {0};
  const bool fits =
      tn_control_is(node->op) ? tn_control_fits(node, &why) : tn_standard_match(node, &match, &why);
  if (!fits)
    tn_text_add(missing, "\n  node '%.100s' (%s): %s", node->name, node->op->name,
                tn_text_get(&why));
  else if (match.since > export->operator_set)
    export->operator_set = match.since;
  tn_text_clear(&why);
}

/* Lists the nodes of core operators that ONNX cannot express, also those of bodies. */
static void check_graph(tn_export_t *export, const tenon_graph_t *graph, int depth,
                        tn_text_t *missing) {
  for (size_t n = 0; n < graph->node_count && depth < TN_IMPORT_DEPTH; n++) {
    const tn_node_t *node = &graph->nodes[n];
    if (is_core(node->op)) check_node(export, node, missing);
    for (uint32_t i = 0; i < node->op->schema.attr_count; i++)
      if (node->attrs[i].kind == TENON_KIND_GRAPH)
        check_graph(export, node->attrs[i].as.graph, depth + 1, missing);
  }
}

/* Reports all nodes of core operators that ONNX cannot express. */
static tenon_status_t check_standard(tn_export_t *export, const tenon_graph_t *graph) {
  tn_text_t missing = {0};
  check_graph(export, graph, 0, &missing);
  if (!missing.size && !missing.failed) return TENON_OK;
  tenon_status_t status =
      tn_fail(TENON_UNIMPLEMENTED,
              "nodes that ONNX's operators cannot express:%s\nsave the graph with tenon_graph_save "
              "(Graph.save in Python), which keeps Tenon's operators, or write the model without "
              "these nodes",
              tn_text_get(&missing));
  tn_text_clear(&missing);
  return status;
}

/* Writes a node of a core operator as nodes of ONNX's own operators. */
static tenon_status_t write_standard(tn_export_t *export, tn_written_t *g, const tn_node_t *node) {
  tn_standard_match_t match;
  char *node_name = NULL;
  tn_text_t why = {0};
  size_t count = 0;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    count += (size_t)node->operands[i].count;
  const char **inputs = tn_arena_array(&export->arena, count + 1, sizeof *inputs);
  const char **next = inputs;
  const char **outputs =
      tn_arena_array(&export->arena, (size_t)node->output_count + 1, sizeof *outputs);
  if (!inputs || !outputs) return tn_no_memory("a node", count);
  TN_TRY(make_name(export, &export->node_names, node->name, &node_name));
  const tn_standard_t site = {export, g->graph, node, &match, node_name, inputs, outputs};
  const bool is_control = tn_control_is(node->op);
  if (!is_control && !tn_standard_match(node, &match, &why)) {
    tenon_status_t status = tn_fail(TENON_UNIMPLEMENTED, "%s", tn_text_get(&why));
    tn_text_clear(&why);
    return status;
  }
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      TN_TRY(edge_name(export, g, node->operands[i].edges[k], next++));
  for (int32_t o = 0; o < node->output_count; o++) {
    outputs[o] = "";
    if (o == 0 || is_control || g->uses[node->outputs[o]])
      TN_TRY(edge_name(export, g, node->outputs[o], &outputs[o]));
  }
  return is_control ? tn_control_write(&site) : tn_standard_write(&site);
}

tenon_status_t tn_export_domain(tn_export_t *export, const char *name, int64_t version) {
  tn_domain_t *domain = export->domains;
  while (domain && strcmp(domain->name, name) != 0)
    domain = domain->next;
  if (!domain) {
    domain = tn_arena_allocate(&export->arena, sizeof *domain);
    if (!domain) return tn_no_memory("a domain", sizeof *domain);
    *domain = (tn_domain_t){export->domains, name, 1};
    export->domains = domain;
  }
  if (version > domain->version) domain->version = version;
  return TENON_OK;
}

/* Graphs */

static tenon_status_t write_ports(tn_export_t *export, tn_written_t *g) {
  const tenon_graph_t *graph = g->graph;
  const char *name;
  for (size_t n = graph->node_count; n-- > 0 && !g->is_body;)
    /* Inferred types of results, for other programs that read the file. */
    for (int32_t o = graph->nodes[n].output_count; o-- > 0;) {
      const tn_edge_t *edge = &graph->edges[graph->nodes[n].outputs[o]];
      if (!edge->dtype.bits || !tn_onnx_number(edge->dtype) || edge->ndim < 0 || edge->layout)
        continue;
      TN_TRY(edge_name(export, g, graph->nodes[n].outputs[o], &name));
      bool is_output = false;
      for (size_t i = 0; i < graph->output_count; i++)
        is_output =
            is_output || (graph->outputs[i] == graph->nodes[n].outputs[o] && !g->aliases[i]);
      if (!is_output)
        TN_TRY(tn_export_value(export, 13, graph, graph->nodes[n].outputs[o], name, NULL));
    }
  for (size_t i = graph->output_count; i-- > 0;) {
    TN_TRY(edge_name(export, g, graph->outputs[i], &name));
    if (g->aliases[i]) name = g->aliases[i];
    TN_TRY(tn_export_value(export, 12, graph, graph->outputs[i], name, graph->output_axes[i]));
  }
  for (size_t i = own_input_count(g); i-- > 0;)
    TN_TRY(tn_export_value(export, 11, graph, graph->inputs[i], g->names[graph->inputs[i]],
                           graph->input_axes[i]));
  return TENON_OK;
}

static tenon_status_t write_constants(tn_export_t *export, tn_written_t *g) {
  const char *name;
  for (size_t e = g->graph->edge_count; e-- > 0;) {
    if (!g->graph->edges[e].constant || !g->uses[e]) continue;
    tn_file_copy_recall(g->graph->edges[e].constant);
    TN_TRY(edge_name(export, g, (tenon_edge_t)e, &name));
    tenon_status_t status = tn_export_tensor(export, 5, name, g->graph->edges[e].constant);
    if (status != TENON_OK) return tn_prefix(status, "constant '%.200s': ", name);
  }
  return TENON_OK;
}

static tenon_status_t write_graph(tn_export_t *export, tn_written_t *g, const char *name) {
  tn_writer_t *w = &export->writer;
  TN_TRY(name_ports(export, g));
  TN_TRY(write_ports(export, g));
  TN_TRY(write_constants(export, g));
  tn_write_text(w, 2, name);
  for (size_t i = g->graph->output_count; i-- > 0;)
    if (g->aliases[i]) write_alias(w, g->names[g->graph->outputs[i]], g->aliases[i]);
  for (size_t n = g->graph->node_count; n-- > 0;) {
    const tn_node_t *node = &g->graph->nodes[n];
    bool is_standard = export->is_standard && is_core(node->op);
    if (!is_standard) TN_TRY(tn_export_domain(export, node->op->schema.ns, node->op->version));
    tenon_status_t status =
        is_standard ? write_standard(export, g, node) : write_node(export, g, node);
    if (status != TENON_OK)
      return tn_prefix(status, "node '%.200s' (%s): ", node->name, node->op->name);
  }
  return w->status;
}

static tenon_status_t write_message(tn_export_t *export, uint32_t field, const char *name,
                                    tn_written_t g) {
  const tenon_graph_t *graph = g.graph;
  size_t before = export->writer.size;
  if (export->depth >= TN_IMPORT_DEPTH)
    return tn_fail(TENON_INVALID, "graphs are nested more than %d deep", TN_IMPORT_DEPTH);
  export->depth++;
  g.names = tn_arena_array(&export->arena, graph->edge_count + 1, sizeof *g.names);
  g.aliases = tn_arena_array(&export->arena, graph->output_count + 1, sizeof *g.aliases);
  if (!g.names || !g.aliases) return tn_no_memory("names", graph->edge_count);
  tenon_status_t status = tn_graph_uses(graph, &g.uses);
  if (status == TENON_OK) status = write_graph(export, &g, name);
  tn_release_memory(g.uses);
  export->depth--;
  tn_write_message(&export->writer, field, before);
  return status == TENON_OK ? export->writer.status : status;
}

tenon_status_t tn_export_graph(tn_export_t *export, uint32_t field, const char *name,
                               const tenon_graph_t *graph) {
  return write_message(export, field, name, (tn_written_t){.graph = graph, .is_body = true});
}

tenon_status_t tn_export_body(tn_export_t *export, uint32_t field, const char *name,
                              const tenon_graph_t *graph, const char *const *captured,
                              size_t captured_count) {
  const tn_written_t g = {
      .graph = graph, .is_body = true, .captured = captured, .captured_count = captured_count};
  return write_message(export, field, name, g);
}

/* The model */

static void write_opset(tn_writer_t *w, const char *domain, int64_t version) {
  size_t before = w->size;
  tn_write_int(w, 2, version);
  tn_write_text(w, 1, domain);
  tn_write_message(w, 8, before);
}

static uint64_t size_of_constants(const tenon_graph_t *graph) {
  uint64_t sum = 0;
  uint64_t size;
  for (size_t e = 0; e < graph->edge_count; e++) {
    const tenon_tensor_t *constant = graph->edges[e].constant;
    if (constant && tn_dtype_bytes(constant->dtype, tenon_count(constant), &size) &&
        size < TN_WRITER_MOST)
      sum += size;
  }
  return sum;
}

static tenon_status_t write_model(tn_export_t *export, const tenon_graph_t *graph) {
  tn_writer_t *w = &export->writer;
  uint64_t size = size_of_constants(graph);
  tn_write_reserve(w, size + size / 64 + 4096);
  TN_TRY(w->status);
  /* ONNX requires a name. */
  TN_TRY(write_message(export, 7, *graph->name ? graph->name : "graph",
                       (tn_written_t){.graph = graph}));
  for (tn_domain_t *domain = export->domains; domain; domain = domain->next)
    write_opset(w, domain->name, domain->version);
  write_opset(w, "", export->operator_set);
  tn_write_text(w, 3, tenon_version());
  tn_write_text(w, 2, "tenon");
  tn_write_int(w, 1, export->operator_set < NEWER_OPERATOR_SET ? IR_VERSION : NEWER_IR_VERSION);
  if (export->is_aligned)
    /* Field 6 is doc_string. The alignment counts from the end of the file. */
    tn_write_padding(w, 6, 0, TN_EXPORT_ALIGNMENT);
  return w->status;
}

static tenon_status_t save_model(const tenon_graph_t *graph, const char *path, bool is_standard) {
  tn_export_t export = {.is_standard = is_standard, .operator_set = OPERATOR_SET};
  const char *slash = strrchr(path, '/');
  tenon_status_t status = TENON_OK;
  if (is_standard) status = check_standard(&export, graph);
  if (status == TENON_OK) status = write_model(&export, graph);
  if (status != TENON_OK)
    status = tn_prefix(status, "%.300s: ", slash ? slash + 1 : path);
  else
    status = tn_file_replace(path, tn_writer_get(&export.writer), export.writer.size, 0666);
  tn_writer_clear(&export.writer);
  tn_map_clear(&export.names);
  tn_map_clear(&export.node_names);
  tn_arena_clear(&export.arena);
  return status;
}

tenon_status_t tn_onnx_save(const tenon_graph_t *graph, const char *path) {
  return save_model(graph, path, false);
}

tenon_status_t tn_onnx_save_standard(const tenon_graph_t *graph, const char *path) {
  return save_model(graph, path, true);
}
