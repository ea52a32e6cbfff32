/* Integers that overflow their dtype: where C leaves the result undefined, the operators give one
 * result on every machine. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

TEST("integer sums of col2im wrap around") {
  tenon_tensor_t *columns = tensor_of("i8[1,2,2] 1 100 100 1");
  tenon_tensor_t *image = tensor_of("i64[1] 3");
  tenon_tensor_t *block = tensor_of("i64[1] 2");
  tenon_tensor_t *inputs[3] = {columns, image, block};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::col2im"), NULL, inputs, &out, 0), TENON_OK);
  const int8_t expected[3] = {1, (int8_t)(200 - 256), 1};
  CHECK(out && memcmp(out->data, expected, sizeof expected) == 0);
  tenon_tensor_release(columns);
  tenon_tensor_release(image);
  tenon_tensor_release(block);
  tenon_tensor_release(out);
}

TEST("nothing is left behind") { tenon_shutdown(); }
