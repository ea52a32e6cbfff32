/* Writes models: as they are, to ONNX files and as text, and in the standard operators of a
 * format: ONNX by itself, other formats through the bridge that has them. For the latter a graph is
 * prepared first (prepare.c), so that writers find the values of shapes as constants. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/status.h"
#include "dispatch/services.h"
#include "import/artifact/artifact.h"
#include "import/onnx/export.h"
#include "import/prepare.h"
#include "import/text/text.h"
#include "loader/bridge.h"
#include "loader/locate.h"

static bool ends_with(const char *path, const char *end) {
  const size_t size = strlen(path);
  return size > strlen(end) && strcmp(path + size - strlen(end), end) == 0;
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
      tn_fail(TENON_INVALID, "%.300s: no format has this ending: expected .onnx, .graph%s", path,
              tn_text_get(&known));
  tn_text_clear(&known);
  return status;
}

static tenon_status_t save_text(const tenon_graph_t *graph, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const tenon_status_t status = tn_text_save(graph, path);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.300s: ", name);
}

static tenon_status_t save_artifact(const tenon_graph_t *graph, const char *const *libraries,
                                    size_t library_count, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const tenon_status_t status = tn_artifact_save(graph, libraries, library_count, path);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.300s: ", name);
}

tenon_status_t tenon_graph_save(const tenon_graph_t *graph, const char *path) {
  TN_TRY(tenon_start());
  if (ends_with(path, TN_ARTIFACT_ENDING)) return save_artifact(graph, NULL, 0, path);
  if (graph->prepared) TN_TRY(graph->prepared->original(graph->prepared, &graph));
  if (ends_with(path, TN_TEXT_ENDING)) return save_text(graph, path);
  return tn_onnx_save(graph, path);
}

tenon_status_t tenon_graph_pack(const tenon_graph_t *graph, const char *path,
                                const char *const *libraries, int32_t library_count) {
  TN_TRY(tenon_start());
  if (!ends_with(path, TN_ARTIFACT_ENDING))
    return tn_fail(TENON_INVALID, "%.300s: the name of an artifact ends with %s", path,
                   TN_ARTIFACT_ENDING);
  if (library_count < 0)
    return tn_fail(TENON_INVALID, "%d libraries: expected a number from 0 on", (int)library_count);
  return save_artifact(graph, libraries, (size_t)library_count, path);
}

tenon_status_t tenon_graph_export(const tenon_graph_t *graph, const char *path) {
  tenon_graph_t *prepared = NULL;
  TN_TRY(tenon_start());
  if (ends_with(path, TN_ARTIFACT_ENDING)) return save_artifact(graph, NULL, 0, path);
  if (graph->prepared) TN_TRY(graph->prepared->original(graph->prepared, &graph));
  if (ends_with(path, TN_TEXT_ENDING)) return save_text(graph, path);
  tenon_status_t status = tn_export_prepare(graph, &prepared);
  if (status == TENON_OK) status = write_prepared(prepared, path);
  tenon_graph_release(prepared);
  return status;
}
