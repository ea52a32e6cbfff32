/* Files that hold the elements of a model's tensors: which files a model may read, mapping them,
 * and tensors that share them. Called by the readers of ONNX and of graphs as text. Invariant: no
 * size from a file is used before it has been compared with the bytes that exist. */
#include "import/weights.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "core/file_copy.h"
#include "loader/locate.h"

/* Mapped files */

static void unmap_file(void *context) {
  tn_file_t *file = context;
  tn_file_unmap(file);
  tn_release_memory(file);
}

tenon_status_t tn_weights_map(const char *path, tn_storage_t **out_storage) {
  tn_file_t *file = tn_allocate(sizeof *file);
  if (!file) return tn_no_memory("a mapped file", sizeof *file);
  tenon_status_t status = tn_file_map(path, file);
  if (status == TENON_OK)
    status =
        tn_storage_create((void *)(uintptr_t)file->data, file->size, unmap_file, file, out_storage);
  else
    *file = (tn_file_t){NULL, 0};
  if (status == TENON_OK)
    (*out_storage)->is_file = true;
  else
    unmap_file(file);
  return status;
}

void tn_weights_clear(tn_weights_t *weights) {
  size_t position = 0;
  const char *path;
  for (tn_storage_t *storage; (storage = tn_map_next(&weights->external, &position, &path));)
    tn_storage_release(storage);
  tn_map_clear(&weights->external);
  tn_storage_release(weights->file);
  weights->file = NULL;
}

/* Whether a model may name this file: only files in its own folder or below. */
static bool is_inside(const char *location) {
  if (!*location || *location == '/' || strchr(location, '\\') || strchr(location, ':'))
    return false;
  for (const char *part = location; part; part = strchr(part, '/')) {
    part += *part == '/';
    if (strncmp(part, "..", 2) == 0 && (part[2] == 0 || part[2] == '/')) return false;
  }
  return true;
}

/* Whether a path is a folder or lies below it. */
static bool is_within(const char *path, const char *folder, size_t size) {
  if (size == 1 && *folder == '/') return true;
  return strncmp(path, folder, size) == 0 && (path[size] == '/' || !path[size]);
}

/* Whether a file is one that the cache of Hugging Face links to: the folder of the model is
 * CACHE/snapshots/REVISION or below, and the file lies in CACHE/blobs. */
static bool is_blob_of_cache(const char *path, const char *folder) {
  static const char snapshots[] = "/snapshots/";
  for (const char *at = strstr(folder, snapshots); at; at = strstr(at + 1, snapshots)) {
    size_t size = (size_t)(at - folder);
    const char *rest = path + size;
    if (strncmp(path, folder, size) == 0 && strncmp(rest, "/blobs/", 7) == 0 &&
        !strchr(rest + 7, '/'))
      return true;
  }
  return false;
}

/* Resolves the links of a path, and checks that the file lies where a model may read. */
static tenon_status_t resolve_external(const tn_weights_t *weights, const char *location,
                                       const char *path, char *out_real) {
  char folder[TN_PATH_SIZE];
  const char *any = tn_environment("TENON_EXTERNAL_LINKS");
  TN_TRY(tn_file_real_path(path, out_real, TN_PATH_SIZE));
  TN_TRY(tn_file_real_path(*weights->folder ? weights->folder : "/", folder, sizeof folder));
  if (any && strcmp(any, "any") == 0) return TENON_OK;
  if (is_within(out_real, folder, strlen(folder)) || is_blob_of_cache(out_real, folder))
    return TENON_OK;
  return tn_fail(
      TENON_DENIED,
      "external data in '%s': a symbolic link leads to %s, but only files in the model's "
      "folder or below are read, and those of a cache of Hugging Face: copy the file "
      "there, or set TENON_EXTERNAL_LINKS=any if you trust the model",
      location, out_real);
}

static tenon_status_t map_external(tn_weights_t *weights, const char *location,
                                   tn_storage_t **out_storage) {
  tn_text_t path = {0};
  *out_storage = tn_map_get(&weights->external, location, strlen(location));
  if (*out_storage) return TENON_OK;
  tn_text_add(&path, "%s/%s", weights->folder, location);
  char *text = tn_text_take(&path);
  if (!text) return TENON_MEMORY;
  char real[TN_PATH_SIZE];
  tenon_status_t status = resolve_external(weights, location, text, real);
  if (status == TENON_OK) status = tn_weights_map(real, out_storage);
  tn_release_memory(text);
  if (status != TENON_OK) return status;
  if (tn_map_put(&weights->external, location, strlen(location), *out_storage)) return TENON_OK;
  tn_storage_release(*out_storage);
  return tn_no_memory("a mapped file", 0);
}

tenon_status_t tn_weights_find(tn_weights_t *weights, const char *location, uint64_t offset,
                               uint64_t length, tn_storage_t **out_storage, const void **out_data) {
  if (!weights->folder)
    return tn_fail(
        TENON_INVALID,
        "external data in '%s', but a model in memory has no folder: set tenon_import_t.folder",
        location);
  if (!is_inside(location))
    return tn_fail(TENON_DENIED,
                   "external data in '%s': only files in the model's folder or below are read",
                   location);
  TN_TRY(map_external(weights, location, out_storage));
  const uint64_t size = (*out_storage)->size;
  const uint64_t left = offset > size ? 0 : size - offset;
  if (left < length)
    return tn_fail(
        TENON_INVALID, "external data in '%s': expected %llu bytes at offset %llu, found %llu",
        location, (unsigned long long)length, (unsigned long long)offset, (unsigned long long)left);
  *out_data = length ? (const unsigned char *)(*out_storage)->data + offset : NULL;
  return TENON_OK;
}

/* Elements */

tenon_status_t tn_weights_tensor(tn_storage_t *storage, const void *data, uint64_t size,
                                 tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                 tenon_tensor_t **out_tensor) {
  const bool is_bool = tn_dtype_is(dtype, TENON_BOOL);
  const unsigned char *bytes = data;
  bool as_is = (uintptr_t)data % tn_dtype_alignment(dtype) == 0 && size > 0;
  uint64_t expected = 0;
  if (tn_dtype_is(dtype, TENON_STRING))
    return tn_fail(TENON_INVALID, "strings cannot be stored as raw bytes");
  if (!tn_dtype_bytes(dtype, tn_shape_count(ndim, shape), &expected) || size != expected)
    return tn_fail(TENON_INVALID, "expected %llu bytes, found %llu", (unsigned long long)expected,
                   (unsigned long long)size);
  for (uint64_t i = 0; is_bool && as_is && i < size; i++)
    as_is = bytes[i] <= 1;
  if (as_is)
    return tn_tensor_over(storage, (void *)(uintptr_t)data, dtype, ndim, shape, NULL, out_tensor);
  if (storage->is_file && !is_bool && size)
    return tn_file_copy_create(storage, data, size, dtype, ndim, shape, out_tensor);
  TN_TRY(tenon_tensor_create(dtype, ndim, shape, out_tensor));
  unsigned char *own = (*out_tensor)->data;
  if (size) memcpy(own, data, (size_t)size);
  for (uint64_t i = 0; is_bool && i < size; i++)
    own[i] = own[i] != 0;
  return TENON_OK;
}
