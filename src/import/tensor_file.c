/* Loads and saves tensors: reads .npy, PGM, and ONNX's TensorProto, SequenceProto and
 * OptionalProto, and writes .npy. The first bytes of a file decide which format it has. */
#include <errno.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/tensor.h"
#include "import/npy.h"
#include "import/onnx/tensor.h"
#include "import/pgm.h"

/* Replaces a value whose elements lie in the mapping, which is read-only, by a copy: the caller may
 * write to it. */
static tenon_status_t leave_mapping(tenon_tensor_t **value) {
  tenon_tensor_t *borrowed = *value;
  tenon_status_t status = tenon_tensor_copy(borrowed, value);
  tenon_tensor_release(borrowed);
  if (status != TENON_OK) *value = NULL;
  return status;
}

static tenon_status_t load_tensor_proto(tn_bytes_t bytes, tn_weights_t *weights, tn_arena_t *arena,
                                        tenon_tensor_t **out_tensor) {
  tn_onnx_tensor_t proto;
  tenon_status_t status = tn_onnx_read_tensor(bytes, arena, &proto);
  if (status != TENON_OK)
    return tn_prefix(status, "not a .npy or PGM file, and not a valid ONNX TensorProto: ");
  TN_TRY(tn_onnx_tensor(&proto, weights, out_tensor));
  return TN_HAS(&proto, TN_TENSOR_RAW) || proto.location ? leave_mapping(out_tensor) : TENON_OK;
}

static tenon_status_t load_list_proto(tn_bytes_t bytes, tn_weights_t *weights, tn_arena_t *arena,
                                      tenon_tensor_t **out_list) {
  tn_onnx_list_t proto;
  TN_TRY(tn_onnx_read_list(bytes, arena, &proto));
  TN_TRY(tn_onnx_list(&proto, weights, out_list));
  return leave_mapping(out_list);
}

/* Nothing in a file tells which message it is. A sequence is never a valid tensor, because its data
 * are missing; what is neither is reported as a tensor. */
static tenon_status_t load_proto(const char *path, const tn_file_t *file_bytes, tn_storage_t *file,
                                 tn_arena_t *arena, tenon_tensor_t **out_tensor) {
  const tn_bytes_t bytes = {file_bytes->data, file_bytes->size};
  const char *slash = strrchr(path, '/');
  char *folder =
      slash ? tn_arena_text(arena, path, (size_t)(slash - path)) : tn_arena_text(arena, ".", 1);
  if (!folder) return tn_no_memory("a path", strlen(path));
  tn_storage_retain(file);
  tn_weights_t weights = {file, folder, {0}};
  tenon_status_t status = load_tensor_proto(bytes, &weights, arena, out_tensor);
  if ((status == TENON_INVALID || status == TENON_UNIMPLEMENTED) &&
      (status = load_list_proto(bytes, &weights, arena, out_tensor)) != TENON_OK)
    status = load_tensor_proto(bytes, &weights, arena, out_tensor);
  tn_weights_clear(&weights);
  return status;
}

tenon_status_t tenon_tensor_load(const char *path, tenon_tensor_t **out_tensor) {
  tn_storage_t *file = NULL;
  tn_arena_t arena = {NULL};
  *out_tensor = NULL;
  TN_TRY(tenon_start());
  TN_TRY(tn_weights_map(path, &file));
  tn_file_t bytes = {file->data, (size_t)file->size};
  tenon_status_t status;
  if (tn_npy_is(&bytes))
    status = tn_npy_read(&bytes, out_tensor);
  else if (tn_pgm_is(&bytes))
    status = tn_pgm_read(&bytes, out_tensor);
  else
    status = load_proto(path, &bytes, file, &arena, out_tensor);
  tn_arena_clear(&arena);
  tn_storage_release(file);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.300s: ", path);
}

static tenon_status_t fail_write(int reason) {
  return tn_fail(tn_file_status(reason), "cannot write the file: %s", strerror(reason));
}

static tenon_status_t write_npy(const tenon_tensor_t *dense, const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return fail_write(errno);
  tenon_status_t status = tn_npy_write(dense, file);
  int problem = ferror(file) ? errno : 0;
  if (fclose(file) != 0 && !problem) problem = errno;
  return problem && status == TENON_OK ? fail_write(problem) : status;
}

tenon_status_t tenon_tensor_save(const tenon_tensor_t *tensor, const char *path) {
  tenon_tensor_t *dense = NULL;
  TN_TRY(tenon_start());
  TN_TRY(tenon_tensor_copy(tensor, &dense));
  tenon_status_t status = write_npy(dense, path);
  tenon_tensor_release(dense);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.300s: ", path);
}
