/* Imports an ONNX model as a graph: checks the model's operator sets, indexes its functions, builds
 * its graph, and reports the operators that are not supported. Called by model_file.c. It connects
 * graph.c, which imports lists of nodes, to node.c, which imports one node. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/onnx/import.h"
#include "import/onnx/lowering_table.h"
#include "import/onnx/node.h"

static tenon_status_t list_missing(const tn_import_t *import) {
  tn_text_t text = {0};
  size_t count = 0;
  for (const tn_missing_t *missing = import->missing; missing; missing = missing->next) {
    tn_text_add(&text, "%snode '%.200s'", count++ ? "; " : "", missing->node);
    if (missing->count > 1) tn_text_add(&text, " and %zu more", missing->count - 1);
    tn_text_add(&text, " (%.100s, domain '%.100s', opset %lld): %s", missing->type, missing->domain,
                (long long)missing->version, missing->reason);
  }
  char *list = tn_text_take(&text);
  if (!list) return TENON_MEMORY;
  tenon_status_t status = tn_fail(TENON_UNIMPLEMENTED, "%zu operator%s not supported: %s", count,
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

static tenon_status_t finish_graph(tn_import_t *import, tn_scope_t *scope,
                                   tenon_graph_t **out_graph) {
  const tn_onnx_graph_t *graph = import->model.graph;
  tn_ref_t *edge;
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const char *name = graph->outputs.items[i].name;
    for (size_t j = 0; j < i; j++)
      if (strcmp(graph->outputs.items[j].name, name) == 0)
        return tn_fail(TENON_INVALID, "output '%.200s' is listed twice", name);
    TN_TRY(tn_graph_find_output(import, scope, name, &edge));
    if (!edge->is_missing) TN_TRY(tenon_builder_output(scope->site->builder, name, edge->id));
  }
  if (import->missing) return list_missing(import);
  TN_TRY(tenon_builder_name(scope->site->builder, graph->name));
  return tenon_builder_finish(scope->site->builder, out_graph);
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
