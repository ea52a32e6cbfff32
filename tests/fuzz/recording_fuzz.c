/* Failure dumps: any call.json, beside a few tensor files, gives a call that can be inspected, or a
 * message with the place of the error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "faults.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static char folder[4096], path[4200];

static void remove_all(void) { tn_folder_remove(folder); }

static void save(uint32_t dtype, int32_t ndim, const int64_t *shape, const char *name) {
  tenon_tensor_t *tensor = NULL;
  char file[4200];
  snprintf(file, sizeof file, "%s/%s", folder, name);
  if (tenon_tensor_create(tenon_dtype(dtype), ndim, shape, &tensor) != TENON_OK) abort();
  memset(tensor->data, 1, (size_t)tenon_count(tensor) * (tensor->dtype.bits / 8u));
  if (tenon_tensor_save(tensor, file) != TENON_OK) abort();
  tenon_tensor_release(tensor);
}

static void begin(void) {
  if (*folder) return;
  if (tenon_start() != TENON_OK || tn_folder_make(folder, sizeof folder) != TENON_OK) abort();
  (void)atexit(remove_all);
  snprintf(path, sizeof path, "%s/call.json", folder);
  save(TENON_F32, 2, (int64_t[]){2, 3}, "f.npy");
  save(TENON_U8, 1, (int64_t[]){5}, "b.npy");
  save(TENON_I64, 1, (int64_t[]){3}, "i.npy");
}

static const char *look(const tenon_tensor_t *tensor) {
  tenon_tensor_t *copy = NULL;
  const char *wrong = NULL;
  if (tensor && tenon_dtype_id(tensor->dtype) == TENON_LIST) {
    for (int64_t i = 0; i < tensor->shape[0] && !wrong; i++)
      wrong = look(tenon_item(tensor, i));
    return wrong;
  }
  if (!tensor || tenon_count(tensor) > 1 << 20) return NULL; /* of one number, without strides */
  tenon_status_t status = tenon_tensor_copy(tensor, &copy);
  tenon_tensor_release(copy);
  return status == TENON_OK ? NULL : "a tensor that cannot be copied";
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  tenon_recording_t *recording = NULL;
  tenon_recording_info_t info = {.size = sizeof info};
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  begin();
  if (tn_file_replace(path, data, size, 0600) != TENON_OK) abort();
  fault_limit((int64_t)64 << 20);
  tenon_status_t status = tenon_recording_load(folder, &recording);
  const char *wrong = (status == TENON_OK) != (recording != NULL)
                          ? "a status that does not fit the result"
                      : status != TENON_OK && !*tenon_error() ? "a failure without a message"
                      : status == TENON_INTERNAL              ? "an internal error"
                                                              : NULL;
  if (recording) tenon_recording_info(recording, &info);
  for (int32_t i = 0; i < info.input_count && !wrong; i++)
    wrong = look(info.inputs[i]);
  for (int32_t i = 0; i < info.output_count && !wrong; i++)
    wrong = look(info.outputs[i]);
  if (recording && tenon_op_find("core::softmax", &op) == TENON_OK &&
      tenon_recording_attrs(recording, op, &attrs) == TENON_OK)
    tenon_attrs_release(attrs);
  fault_limit(0);
  tenon_recording_release(recording);
  if (!wrong) return 0;
  fprintf(stderr, "wrong: %s; last message: %s\n", wrong, tenon_error());
  abort();
}
