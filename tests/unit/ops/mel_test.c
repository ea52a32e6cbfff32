/* Weights of the mel scale, against those of ONNX's reference implementation. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

static tenon_status_t weights(const char *bins, const char *length, const char *upper,
                              tenon_tensor_t **out) {
  *out = NULL;
  return call_op("core::mel_weights", NULL,
                 (const char *const[]){bins, length, "i64[] 8192", "f64[] 0", upper}, out);
}

TEST("the triangles are those of ONNX's reference") {
  tenon_tensor_t *out;
  CHECK_STATUS(weights("i64[] 3", "i64[] 16", "f64[] 4096", &out), TENON_OK);
  CHECK_TENSOR(out, "f64[9,3] 1 0 0 0 1 0 0 0.5 0.5 0 0 1 0 0 0.5 0 0 0 0 0 0 0 0 0 0 0 0");
  tenon_tensor_release(out);
}

TEST("edges beyond the transform, and numbers below 1, are errors") {
  tenon_tensor_t *out;
  CHECK_STATUS(weights("i64[] 3", "i64[] 16", "f64[] 40960", &out), TENON_RANGE);
  CHECK_TEXT(CHECK_MESSAGE(), "the upper edge may be at most half of the sample rate");
  CHECK_STATUS(weights("i64[] 3", "i64[] 16", "f64[] -1", &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "expected 0 or more, in ascending order");
  CHECK_STATUS(weights("i64[] 0", "i64[] 16", "f64[] 4096", &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "expected at least 1 each");
}
