/* Writes models in the standard operators of a format: ONNX by itself, other formats through the
 * bridge that has them. A graph is prepared first, so that writers find the values of shapes as
 * constants. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/status.h"
#include "dispatch/services.h"
#include "graph/passes/pass.h"
#include "import/onnx/export.h"
#include "loader/bridge.h"
#include "loader/locate.h"

static bool ends_with(const char *path, const char *end) {
  const size_t size = strlen(path);
  return size > strlen(end) && strcmp(path + size - strlen(end), end) == 0;
}

/* Notes the extents of the outputs, which copies of a graph do not have. */
static tenon_status_t name_axes(tenon_graph_t *graph) {
  graph->output_axes =
      tn_arena_array(&graph->arena, graph->output_count + 1, sizeof *graph->output_axes);
  if (!graph->output_axes) return tn_no_memory("a graph", graph->output_count);
  for (size_t i = 0; i < graph->output_count; i++)
    TN_TRY(tn_axes_make(graph, graph->outputs[i], &graph->arena, &graph->output_axes[i]));
  return TENON_OK;
}

/* A copy of the graph with inferred types, without dead code, and with constants for everything
 * that does not depend on inputs. */
static tenon_status_t prepare(const tenon_graph_t *graph, tenon_graph_t **out_graph) {
  TN_TRY(tn_graph_copy(graph, out_graph));
  TN_TRY(tn_pass_infer(*out_graph));
  TN_TRY(tn_pass_dead_code(*out_graph));
  TN_TRY(tn_pass_fold(*out_graph));
  TN_TRY(tn_pass_dead_code(*out_graph));
  TN_TRY(tn_pass_infer(*out_graph));
  return name_axes(*out_graph);
}

/* Lets the bridge write a file in a new folder, whose bytes then replace the file at `path`. */
static tenon_status_t write_bridged(const tenon_bridge_table_t *bridge, const tenon_graph_t *graph,
                                    const char *path) {
  char folder[TN_PATH_SIZE];
  char file[2 * TN_PATH_SIZE];
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  tenon_bridge_call_t call = {sizeof call, TENON_PHASE_BRIDGE, &tn_host, file, NULL};
  tn_file_t written = {NULL, 0};
  TN_TRY(tn_folder_make(folder, sizeof folder));
  snprintf(file, sizeof file, "%s/%.255s", folder, name);
  tenon_status_t status = bridge->write(&call, graph);
  if (status != TENON_OK) status = tn_prefix(status, "%.300s: ", name);
  if (status == TENON_OK) status = tn_file_map(file, &written);
  if (status == TENON_OK) status = tn_file_replace(path, written.data, written.size, 0666);
  tn_file_unmap(&written);
  tn_folder_remove(folder);
  return status;
}

static tenon_status_t write_prepared(const tenon_graph_t *graph, const char *path) {
  tn_text_t known = {0};
  if (ends_with(path, ".onnx")) return tn_onnx_save_standard(graph, path);
  const tenon_bridge_table_t *bridge = tn_bridge_that_writes(path);
  if (bridge) return write_bridged(bridge, graph, path);
  tn_bridges_written(&known);
  tenon_status_t status =
      tn_fail(TENON_INVALID, "%.300s: no format has this ending: expected .onnx%s", path,
              tn_text_get(&known));
  tn_text_clear(&known);
  return status;
}

tenon_status_t tenon_graph_export(const tenon_graph_t *graph, const char *path) {
  tenon_graph_t *prepared = NULL;
  TN_TRY(tenon_start());
  tenon_status_t status = prepare(graph, &prepared);
  if (status == TENON_OK) status = write_prepared(prepared, path);
  tenon_graph_release(prepared);
  return status;
}
