/* Tensor files, .npy, PGM and TensorProto: any bytes give a tensor that can be copied, or a
 * message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "faults.h"
#include "import/npy.h"
#include "import/onnx/tensor.h"
#include "import/pgm.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void keep(void *context) { (void)context; }

static tenon_status_t read_proto(const tn_file_t *file, tenon_tensor_t **out_tensor) {
  tn_arena_t arena = {NULL};
  tn_onnx_tensor_t proto;
  tn_storage_t *storage;
  TN_TRY(tn_storage_create((void *)(uintptr_t)file->data, file->size, keep, NULL, &storage));
  tn_weights_t weights = {storage, MODELS, {0}};
  tenon_status_t status = tn_onnx_read_tensor((tn_bytes_t){file->data, file->size}, &arena, &proto);
  if (status == TENON_OK) status = tn_onnx_tensor(&proto, &weights, out_tensor);
  tn_weights_clear(&weights);
  tn_arena_clear(&arena);
  return status;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  tenon_tensor_t *tensor = NULL;
  tenon_tensor_t *copy = NULL;
  tn_file_t file = {data, size};
  if (tenon_start() != TENON_OK) abort();
  fault_limit((int64_t)256 << 20);
  tenon_status_t status = tn_npy_is(&file)   ? tn_npy_read(&file, &tensor)
                          : tn_pgm_is(&file) ? tn_pgm_read(&file, &tensor)
                                             : read_proto(&file, &tensor);
  fault_limit(0);
  const char *wrong = (status == TENON_OK) != (tensor != NULL)
                          ? "a status that does not fit the result"
                      : status != TENON_OK && !*tenon_error() ? "a failure without a message"
                      : status == TENON_INTERNAL              ? "an internal error"
                                                              : NULL;
  if (tensor && tenon_tensor_copy(tensor, &copy) != TENON_OK)
    wrong = "a tensor that cannot be copied";
  tenon_tensor_release(copy);
  tenon_tensor_release(tensor);
  if (!wrong) return 0;
  fprintf(stderr, "wrong: %s; last message: %s\n", wrong, tenon_error());
  abort();
}
