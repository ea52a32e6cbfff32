/* Operator libraries of artifacts: which a graph needs, which are in the file, for one or several
 * processors, and loading them. Called by write.c and read.c. Invariant: a library is loaded under
 * the rules of the process (docs/policy.md), whether it is inside of the artifact or not. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/artifact/artifact.h"
#include "loader/binary.h"
#include "loader/library.h"
#include "loader/locate.h"
#include "operator/library.h"
#include "operator/names.h"
#include "registry/registry.h"

/* Writing */

/* Copies a text into a field. Returns false if the field is too small. */
static bool set_field(char *field, size_t capacity, const char *text) {
  return (size_t)snprintf(field, capacity, "%s", text) < capacity;
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static tenon_status_t add_library(tn_artifact_libraries_t *list, const tn_artifact_library_t *item,
                                  tn_file_t file) {
  size_t capacity = list->capacity;
  if (!tn_grow((void **)&list->items, &list->capacity, list->count, sizeof *list->items))
    return tn_no_memory("an artifact", sizeof *item);
  if (list->capacity != capacity) {
    tn_file_t *files = tn_reallocate(list->files, list->capacity * sizeof *files);
    if (!files) return tn_no_memory("an artifact", sizeof *files);
    list->files = files;
  }
  list->files[list->count] = file;
  list->items[list->count++] = *item;
  list->inside_count += file.size > 0;
  return TENON_OK;
}

/* Adds a library that a graph needs. */
static tenon_status_t need_library(tn_artifact_libraries_t *list, const tn_library_t *library) {
  tn_artifact_library_t item = {.blob = TN_NOT_INSIDE};
  if (strcmp(library->name, "core") == 0) return TENON_OK;
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i].name, library->name) == 0) return TENON_OK;
  /* within an artifact its file has a name behind the last '!' */
  const char *inside = strrchr(library->path, '!');
  const char *file = inside ? inside + 1 : file_name(library->path);
  if (!set_field(item.name, sizeof item.name, library->name) ||
      !set_field(item.version, sizeof item.version, library->version) ||
      !set_field(item.file, sizeof item.file, file))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "library %.100s: its name, version or file name is too long for an artifact",
                   library->name);
  return add_library(list, &item, (tn_file_t){NULL, 0});
}

tenon_status_t tn_artifact_need(tn_artifact_libraries_t *list, const tenon_graph_t *graph) {
  for (size_t i = 0; i < graph->library_count; i++)
    TN_TRY(need_library(list, graph->libraries[i]));
  for (size_t i = 0; i < graph->subgraph_count; i++)
    TN_TRY(tn_artifact_need(list, graph->subgraphs[i]));
  return TENON_OK;
}

/* Fills in the name and version: those of the library that was loaded from the file or, for another
 * processor, those of an enclosed library with the same file name. */
static tenon_status_t name_enclosed(const tn_artifact_libraries_t *list, const char *path,
                                    bool is_own, tn_artifact_library_t *item) {
  char real[TN_PATH_SIZE];
  for (size_t i = 0; i < list->count && !is_own; i++) {
    if (strcmp(list->items[i].file, item->file) != 0) continue;
    memcpy(item->name, list->items[i].name, sizeof item->name);
    memcpy(item->version, list->items[i].version, sizeof item->version);
  }
  if (!is_own) return TENON_OK;
  TN_TRY(tn_file_real_path(path, real, sizeof real));
  TN_TRY(tenon_library_load(real, 0, NULL));
  tn_library_t *library = tn_registry_library(real);
  if (!library) return tn_fail(TENON_INTERNAL, "%s: the library is not registered", path);
  const bool fits = set_field(item->name, sizeof item->name, library->name) &&
                    set_field(item->version, sizeof item->version, library->version);
  tn_registry_release(library);
  return fits ? TENON_OK
              : tn_fail(TENON_UNIMPLEMENTED, "%s: its name is too long for an artifact", path);
}

static tenon_status_t describe_enclosed(const tn_artifact_libraries_t *list, const char *path,
                                        const tn_file_t *file, tn_artifact_library_t *item) {
  tn_binary_t binary;
  tn_text_t offences = {0};
  tn_binary_read(file, &binary, &offences);
  tn_text_clear(&offences);
  if (!*binary.format || strcmp(binary.kind, "shared object") != 0)
    return tn_fail(TENON_INVALID,
                   "%.300s: expected a library of operators, found %s: build it "
                   "with tenon build",
                   path, binary.kind);
  if (!set_field(item->file, sizeof item->file, file_name(path)) ||
      !set_field(item->machine, sizeof item->machine, binary.machine))
    return tn_fail(TENON_UNIMPLEMENTED, "%.300s: its file name is too long for an artifact", path);
  for (size_t i = 0; i < list->count; i++)
    if (list->files[i].size && strcmp(list->items[i].file, item->file) == 0 &&
        strcmp(list->items[i].machine, item->machine) == 0)
      return tn_fail(TENON_EXISTS, "%.300s: the artifact has two libraries %s for %s", path,
                     item->file, item->machine);
  return name_enclosed(list, path, binary.is_of_this_machine, item);
}

tenon_status_t tn_artifact_enclose(tn_artifact_libraries_t *list, const char *path) {
  tn_artifact_library_t item = {.blob = 0};
  tn_file_t file;
  TN_TRY(tn_file_map(path, &file));
  tenon_status_t status = describe_enclosed(list, path, &file, &item);
  if (status == TENON_OK) status = add_library(list, &item, file);
  if (status != TENON_OK) tn_file_unmap(&file);
  return status;
}

void tn_artifact_libraries_clear(tn_artifact_libraries_t *list) {
  for (size_t i = 0; i < list->count; i++)
    tn_file_unmap(&list->files[i]);
  tn_release_memory(list->items);
  tn_release_memory(list->files);
  *list = (tn_artifact_libraries_t){0};
}

/* Loading */

typedef struct wanted_t {
  const char *name;
  bool is_loaded;
} wanted_t;

static bool compare_name(void *context, tn_library_t *library) {
  wanted_t *wanted = context;
  wanted->is_loaded |= strcmp(library->name, wanted->name) == 0;
  return !wanted->is_loaded;
}

static bool has_library(const char *name) {
  wanted_t wanted = {name, false};
  tn_registry_walk(compare_name, &wanted);
  return wanted.is_loaded;
}

/* Whether a library in the artifact is for this processor. */
static bool is_own_library(const tn_artifact_library_t *library, const tn_artifact_blob_t *blobs,
                           const unsigned char *bytes) {
  const tn_artifact_blob_t *blob = &blobs[library->blob];
  const tn_file_t file = {bytes + blob->offset, (size_t)blob->size};
  tn_binary_t binary;
  tn_text_t offences = {0};
  tn_binary_read(&file, &binary, &offences);
  tn_text_clear(&offences);
  return binary.is_of_this_machine;
}

/* Says where a library was looked for. */
static tenon_status_t fail_missing(const tn_artifact_library_t *libraries, size_t count,
                                   const tn_artifact_library_t *wanted) {
  tn_text_t inside = {0};
  const char *searched = tn_reason(wanted->file);
  for (size_t i = 0; i < count; i++)
    if (libraries[i].blob != TN_NOT_INSIDE && strcmp(libraries[i].file, wanted->file) == 0)
      tn_text_add(&inside, "%s%s", inside.size ? ", " : "", libraries[i].machine);
  const tenon_status_t status =
      tn_fail(TENON_NOT_FOUND,
              "the model needs library %s %s (%s), which is not loaded: inside of the artifact: "
              "%s%s; along "
              "the search path: %s: load it first, or put it into the artifact with tenon pack",
              wanted->name, wanted->version, wanted->file,
              inside.size ? "for other processors only: " : "no", tn_text_get(&inside), searched);
  tn_text_clear(&inside);
  return status;
}

tenon_status_t tn_artifact_load(const tn_artifact_library_t *libraries, size_t count,
                                const tn_artifact_blob_t *blobs, const unsigned char *bytes,
                                const char *path) {
  char real[TN_PATH_SIZE];
  for (size_t i = 0; i < count; i++) {
    const tn_artifact_library_t *l = &libraries[i];
    if (l->blob == TN_NOT_INSIDE || (*l->name && has_library(l->name))) continue;
    if (!is_own_library(l, blobs, bytes)) continue;
    TN_TRY(tn_library_load_inside(path, l->file, bytes + blobs[l->blob].offset,
                                  (size_t)blobs[l->blob].size));
  }
  for (size_t i = 0; i < count; i++) {
    const tn_artifact_library_t *l = &libraries[i];
    if (l->blob != TN_NOT_INSIDE || has_library(l->name)) continue;
    if (!*l->file || strchr(l->file, '/'))
      return tn_fail(TENON_INVALID, "the model needs library %s: load it first", l->name);
    if (tn_locate(l->file, real, sizeof real) != TENON_OK) return fail_missing(libraries, count, l);
    TN_TRY(tenon_library_load(real, 0, NULL));
  }
  return TENON_OK;
}
