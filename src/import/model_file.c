/* Loads models: ONNX files, graphs as text and artifacts, all of them in memory too, and files of
 * other systems for which a bridge is loaded. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "dispatch/services.h"
#include "import/artifact/artifact.h"
#include "import/onnx/import.h"
#include "import/text/text.h"
#include "loader/bridge.h"
#include "loader/locate.h"

static bool ends_with(const char *path, const char *end) {
  const size_t size = strlen(path);
  return size >= strlen(end) && strcmp(path + size - strlen(end), end) == 0;
}

static tenon_status_t read_bridged(const tenon_bridge_table_t *bridge, const char *path,
                                   const char *folder, tenon_graph_t **out_graph) {
  char real[TN_PATH_SIZE];
  const tenon_graph_t *graph = NULL;
  tenon_bridge_call_t call = {sizeof call, TENON_PHASE_BRIDGE, &tn_host, real, folder};
  TN_TRY(tn_file_real_path(path, real, sizeof real));
  TN_TRY(bridge->read(&call, &graph));
  *out_graph = (tenon_graph_t *)(uintptr_t)graph;
  return TENON_OK;
}

static tenon_status_t read_text_file(const char *path, const char *folder,
                                     tenon_graph_t **out_graph) {
  char own[TN_PATH_SIZE] = ".";
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  tn_storage_t *file;
  tenon_status_t status = TENON_OK;
  TN_TRY(tn_weights_map(path, &file));
  if (slash) snprintf(own, sizeof own, "%.*s", (int)(slash - path), path);
  if (!tn_text_is(file->data, (size_t)file->size))
    status =
        tn_fail(TENON_INVALID, "expected a graph as text, which begins with '%s'", TN_TEXT_HEADING);
  if (status == TENON_OK) status = tn_text_read(file, folder ? folder : own, out_graph);
  tn_storage_release(file);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.300s: ", name);
}

/* Reads an artifact or, if `report` is given, prints what it is. */
static tenon_status_t open_artifact_file(const char *path, tn_text_t *report,
                                         tenon_graph_t **out_graph) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  char real[TN_PATH_SIZE];
  tn_storage_t *file;
  TN_TRY(tn_file_real_path(path, real, sizeof real));
  TN_TRY(tn_weights_map(real, &file));
  const tenon_status_t status =
      report ? tn_artifact_report(file, real, report) : tn_artifact_read(file, real, out_graph);
  tn_storage_release(file);
  if (status == TENON_OK || strncmp(tn_error(), name, strlen(name)) == 0) return status;
  return tn_prefix(status, "%.300s: ", name);
}

tenon_status_t tenon_artifact_inspect(const char *path, char **out_text) {
  tn_text_t report = {0};
  *out_text = NULL;
  TN_TRY(tenon_start());
  const tenon_status_t status = open_artifact_file(path, &report, NULL);
  if (status == TENON_OK) *out_text = tn_text_take(&report);
  tn_text_clear(&report);
  return status == TENON_OK && !*out_text ? TENON_MEMORY : status;
}

/* The folder of external weights that the caller set; NULL: none. */
static const char *options_folder(const tenon_import_t *options) {
  const size_t end = offsetof(tenon_import_t, folder) + sizeof options->folder;
  return options && options->size >= end ? options->folder : NULL;
}

tenon_status_t tenon_graph_load(const char *path, const tenon_import_t *options,
                                tenon_graph_t **out_graph) {
  const char *folder = options_folder(options);
  *out_graph = NULL;
  TN_TRY(tenon_start());
  if (ends_with(path, TN_TEXT_ENDING)) return read_text_file(path, folder, out_graph);
  if (ends_with(path, TN_ARTIFACT_ENDING)) return open_artifact_file(path, NULL, out_graph);
  const tenon_bridge_table_t *bridge = ends_with(path, ".onnx") ? NULL : tn_bridge_of_model(path);
  return bridge ? read_bridged(bridge, path, folder, out_graph)
                : tn_onnx_load(path, folder, out_graph);
}

static void keep_memory(void *context) { (void)context; }

/* The bytes of an artifact in memory, at an address that suits it: a copy if need be. */
static tenon_status_t align_artifact(const void *data, uint64_t size, tn_storage_t **out_storage) {
  void *bytes = (void *)(uintptr_t)data;
  if ((uintptr_t)data % TN_ARTIFACT_ALIGNED == 0)
    return tn_storage_create(bytes, size, keep_memory, NULL, out_storage);
  bytes = tn_allocate_aligned((size_t)size);
  if (!bytes) return tn_no_memory("an artifact", (size_t)size);
  memcpy(bytes, data, (size_t)size);
  const tenon_status_t status =
      tn_storage_create(bytes, size, tn_release_aligned, bytes, out_storage);
  if (status != TENON_OK) tn_release_aligned(bytes);
  return status;
}

static tenon_status_t read_artifact(const void *data, uint64_t size, tenon_graph_t **out_graph) {
  tn_storage_t *file;
  TN_TRY(align_artifact(data, size, &file));
  const tenon_status_t status = tn_artifact_read(file, "", out_graph);
  tn_storage_release(file);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "artifact in memory: ");
}

tenon_status_t tenon_graph_read(const void *data, uint64_t size, const tenon_import_t *options,
                                tenon_graph_t **out_graph) {
  tn_storage_t *file;
  *out_graph = NULL;
  TN_TRY(tenon_start());
  if (!data || size > SIZE_MAX / 2)
    return tn_fail(TENON_INVALID, "no model data: expected a pointer to the bytes of a model");
  if (tn_artifact_is(data, size)) return read_artifact(data, size, out_graph);
  TN_TRY(tn_storage_create((void *)(uintptr_t)data, size, keep_memory, NULL, &file));
  if (tn_text_is(data, (size_t)size)) {
    const tenon_status_t read = tn_text_read(file, options_folder(options), out_graph);
    tn_storage_release(file);
    return read == TENON_OK ? TENON_OK : tn_prefix(read, "text in memory: ");
  }
  tenon_status_t status = tn_onnx_read(file, options_folder(options), out_graph);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "model in memory: ");
}
