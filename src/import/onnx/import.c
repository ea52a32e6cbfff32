/* Imports an ONNX model as a graph: checks the model's operator sets, indexes its functions, builds
 * its graph, and reports the operators that are not supported. Called by model_file.c. It connects
 * graph.c, which imports lists of nodes, to node.c, which imports one node. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/onnx/import.h"
#include "import/onnx/lowering_table.h"
#include "import/onnx/node.h"
#include "registry/suggestion.h"

/* Says why an operator is missing. Only the first ones that are not loaded get a suggestion, which
 * takes a look at all operators. */
static void add_reason(const tn_missing_t *missing, size_t index, tn_text_t *text) {
  enum { SUGGESTED_MOST = 16 };
  if (!missing->is_unloaded) {
    tn_text_add(text, "%s", missing->reason);
    return;
  }
  tn_text_add(text, "no operator %s is loaded", missing->reason);
  if (index < SUGGESTED_MOST) tn_registry_suggest_name(missing->reason, text);
}

static void add_advice(bool is_list, tn_text_t *text) {
  static const char how[] = "first (tenon_library_load, --ops LIB)";
  if (is_list)
    tn_text_add(text, "\nload the missing libraries %s", how);
  else if (text->size && text->data[text->size - 1] == '?') /* a suggestion */
    tn_text_add(text, " Otherwise load its library %s", how);
  else
    tn_text_add(text, "; load its library %s", how);
}

/* Several operators are listed in a line each, and the advice to load libraries is given once. */
static tenon_status_t list_missing(const tn_import_t *import) {
  tn_text_t text = {0};
  size_t count = 0;
  bool any_unloaded = false;
  bool is_list = import->missing->next != NULL;
  for (const tn_missing_t *missing = import->missing; missing; missing = missing->next) {
    tn_text_add(&text, "%snode '%.200s'", is_list ? "\n  " : " ", missing->node);
    if (missing->count > 1) tn_text_add(&text, " and %zu more", missing->count - 1);
    tn_text_add(&text, " (%.100s, domain '%.100s', opset %lld): ", missing->type, missing->domain,
                (long long)missing->version);
    add_reason(missing, count++, &text);
    any_unloaded |= missing->is_unloaded;
  }
  if (any_unloaded) add_advice(is_list, &text);
  char *list = tn_text_take(&text);
  if (!list) return TENON_MEMORY;
  tenon_status_t status = tn_fail(TENON_UNIMPLEMENTED, "%zu operator%s not supported:%s", count,
                                  count == 1 ? " is" : "s are", list);
  tn_release_memory(list);
  return status;
}

static tenon_status_t check_opsets(const tn_onnx_model_t *model) {
  if (!model->graph)
    return tn_fail(TENON_INVALID, "the file contains no graph: it is not an ONNX model");
  for (size_t i = 0; i < model->opsets.count; i++) {
    const tn_onnx_opset_t *opset = &model->opsets.items[i];
    bool is_onnx = !*opset->domain || strcmp(opset->domain, "ai.onnx") == 0;
    if (is_onnx && (opset->version < 1 || opset->version > TN_OPSET_NEWEST))
      return tn_fail(TENON_UNIMPLEMENTED,
                     "operator set %lld of ONNX is not supported: expected 1 to %d",
                     (long long)opset->version, TN_OPSET_NEWEST);
  }
  return TENON_OK;
}

static tenon_status_t index_functions(tn_import_t *import) {
  for (size_t i = 0; i < import->model.functions.count; i++) {
    const tn_onnx_function_t *function = &import->model.functions.items[i];
    tn_text_t key = {0};
    tn_text_add(&key, "%s\n%s\n%s", function->domain, function->name, function->overload);
    bool is_double = tn_map_get(&import->functions, tn_text_get(&key), key.size) != NULL;
    bool done = !key.failed &&
                tn_map_put(&import->functions, key.data, key.size, (void *)(uintptr_t)function);
    tn_text_clear(&key);
    if (is_double)
      return tn_fail(TENON_INVALID, "function '%.200s' of domain '%.100s' is defined twice",
                     function->name, function->domain);
    if (!done) return tn_no_memory("a function", 0);
  }
  return TENON_OK;
}

static bool are_dtypes_equal(tenon_dtype_t a, tenon_dtype_t b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Says on stderr that the file contradicts itself. As in other runtimes, the inferred shape
 * counts. */
static void warn_of_shape(const char *name, const tn_ref_t *stated, const tenon_port_t *found) {
  tn_text_t text = {0};
  tn_text_add(&text, "tenon: warning: output '%.200s' is declared with the shape [", name);
  for (int32_t i = 0; i < stated->ndim; i++) {
    tn_text_add(&text, i ? ", " : "");
    if (stated->extents[i] < 0)
      tn_text_add(&text, "?");
    else
      tn_text_add(&text, "%lld", (long long)stated->extents[i]);
  }
  tn_text_add(&text, "], but its node gives [");
  for (int32_t i = 0; i < found->ndim; i++) {
    tn_text_add(&text, i ? ", " : "");
    if (found->axes[i].extent < 0)
      tn_text_add(&text, "%s", found->axes[i].name ? found->axes[i].name : "?");
    else
      tn_text_add(&text, "%lld", (long long)found->axes[i].extent);
  }
  fprintf(stderr, "%s]: the declaration is ignored\n", tn_text_get(&text));
  tn_text_clear(&text);
}

/* Compares an output with what the file declares of it. */
static tenon_status_t compare_output(tn_import_t *import, const tn_onnx_value_t *value,
                                     const tenon_graph_t *graph, int32_t index) {
  tn_ref_t stated = {.ndim = -1};
  tenon_port_t found = {.size = sizeof found};
  TN_TRY(tenon_graph_output(graph, index, &found));
  TN_TRY(tn_type_read(import, value, &stated));
  if (stated.dtype.bits && found.dtype.bits && !are_dtypes_equal(stated.dtype, found.dtype))
    return tn_fail(TENON_INVALID,
                   "output '%.200s' is declared as %s, but its node gives %s: correct the "
                   "declaration, or add a Cast",
                   value->name, tenon_dtype_name(stated.dtype), tenon_dtype_name(found.dtype));
  if (!stated.extents || found.ndim < 0) return TENON_OK;
  bool is_same = stated.ndim == found.ndim;
  for (int32_t i = 0; is_same && i < found.ndim; i++)
    is_same = stated.extents[i] < 0 || found.axes[i].extent < 0 ||
              stated.extents[i] == found.axes[i].extent;
  if (!is_same) warn_of_shape(value->name, &stated, &found);
  return TENON_OK;
}

static tenon_status_t compare_outputs(tn_import_t *import, tn_scope_t *scope,
                                      tenon_graph_t *graph) {
  const tn_onnx_graph_t *stated = import->model.graph;
  tn_ref_t *edge;
  for (size_t i = 0; i < stated->outputs.count; i++) {
    TN_TRY(tn_graph_find_output(import, scope, stated->outputs.items[i].name, &edge));
    if (!edge->is_map) TN_TRY(compare_output(import, &stated->outputs.items[i], graph, (int32_t)i));
  }
  return TENON_OK;
}

static tenon_status_t add_model_outputs(tn_import_t *import, tn_scope_t *scope, tn_map_t *listed) {
  const tn_onnx_graph_t *graph = import->model.graph;
  tn_ref_t *edge;
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const char *name = graph->outputs.items[i].name;
    if (tn_map_get(listed, name, strlen(name)))
      return tn_fail(TENON_INVALID, "output '%.200s' is listed twice", name);
    if (!tn_map_put(listed, name, strlen(name), import)) return tn_no_memory("a name", 0);
    TN_TRY(tn_graph_find_output(import, scope, name, &edge));
    if (!edge->is_missing) TN_TRY(tenon_builder_output(scope->site->builder, name, edge->id));
  }
  return TENON_OK;
}

static tenon_status_t finish_graph(tn_import_t *import, tn_scope_t *scope,
                                   tenon_graph_t **out_graph) {
  const tn_onnx_graph_t *graph = import->model.graph;
  tn_map_t listed = {0};
  tenon_status_t status = add_model_outputs(import, scope, &listed);
  tn_map_clear(&listed);
  TN_TRY(status);
  if (import->missing) return list_missing(import);
  TN_TRY(tenon_builder_name(scope->site->builder, graph->name));
  TN_TRY(tenon_builder_finish(scope->site->builder, out_graph));
  status = compare_outputs(import, scope, *out_graph);
  if (status == TENON_OK) return TENON_OK;
  tenon_graph_release(*out_graph);
  *out_graph = NULL;
  return status;
}

static tenon_status_t build_model(tn_import_t *import, tenon_graph_t **out_graph) {
  const tn_onnx_graph_t *graph = import->model.graph;
  tn_site_t site = {0};
  tn_scope_t scope = {NULL, &site, {0}, {0}, &import->model.opsets, NULL, "", 0};
  TN_TRY(index_functions(import));
  TN_TRY(tn_lowerings_index(import));
  TN_TRY(tenon_builder_create(&site.builder));
  tenon_status_t status = tn_graph_declare(import, &scope, graph, NULL);
  if (status == TENON_OK)
    status = tn_import_nodes(import, &scope, graph->nodes.items, graph->nodes.count);
  if (status == TENON_OK) status = finish_graph(import, &scope, out_graph);
  tn_scope_clear(&scope);
  tn_site_clear(&site);
  return status;
}

tenon_status_t tn_onnx_read(tn_storage_t *file, const char *folder, tenon_graph_t **out_graph) {
  tn_import_t import = {.import_node = tn_node_import};
  import.weights = (tn_weights_t){file, folder, { 0 }};
  tenon_status_t status = tn_onnx_read_model((tn_bytes_t){file->data, (size_t)file->size},
                                             &import.arena, &import.model);
  if (status == TENON_OK) status = check_opsets(&import.model);
  if (status == TENON_OK) status = build_model(&import, out_graph);
  for (size_t i = 0; i < import.tensor_count; i++)
    tenon_tensor_release(import.tensors[i]);
  tn_release_memory(import.tensors);
  tn_map_clear(&import.functions);
  tn_map_clear(&import.lowerings);
  tn_weights_clear(&import.weights);
  tn_arena_clear(&import.arena);
  return status;
}

tenon_status_t tn_onnx_load(const char *path, const char *folder, tenon_graph_t **out_graph) {
  tn_storage_t *file;
  const char *slash = strrchr(path, '/');
  char *own = NULL;
  if (!folder) {
    own = slash ? tn_copy_text(path, (size_t)(slash - path)) : tn_copy_text(".", 1);
    folder = own;
  }
  if (!folder) return tn_no_memory("a path", strlen(path));
  tenon_status_t status = tn_weights_map(path, &file);
  if (status == TENON_OK) {
    status = tn_onnx_read(file, folder, out_graph);
    if (status != TENON_OK) status = tn_prefix(status, "%.300s: ", slash ? slash + 1 : path);
  }
  tn_release_memory(own);
  return status;
}
