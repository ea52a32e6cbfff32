/* core::resize_ of borrowed memory: the elements that the strides reach are kept, and nothing
 * beyond them is read (the sanitizers' build checks that). */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

static void resize(tenon_tensor_t *x, int64_t extent) {
  const tenon_op_t *op = op_of("core::resize_");
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  tenon_tensor_t *inputs[] = {x};
  CHECK_STATUS(tenon_attrs_create(op, &attrs), TENON_OK);
  CHECK_STATUS(tenon_attrs_ints(attrs, "shape", &extent, 1), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, values, inputs, NULL, 0), TENON_OK);
  tenon_attrs_release(attrs);
}

TEST("a tensor over borrowed memory keeps its elements when it grows, with any strides") {
  static const int64_t strides[] = {1, -1, 0, 2};
  static const int64_t firsts[] = {0, 3, 0, 0};
  static const int64_t extents[] = {4, 4, 4, 2};
  for (int k = 0; k < 4; k++) {
    float *memory = malloc(4 * sizeof *memory);
    const float numbers[] = {1, 2, 3, 4};
    memcpy(memory, numbers, sizeof numbers);
    tenon_tensor_t *x;
    CHECK_STATUS(tenon_tensor_borrow(memory + firsts[k], tenon_dtype(TENON_F32), 1, &extents[k],
                                     &strides[k], free, memory, &x),
                 TENON_OK);
    resize(x, 9);
    CHECK(x->shape[0] == 9 && x->strides[0] == 1 && ((float *)x->data)[0] == numbers[firsts[k]]);
    /* All of that memory is its own. */
    memset(x->data, 0, 9 * sizeof *memory);
    tenon_tensor_release(x);
  }
}

TEST("strides that reach beyond all memory are refused") {
  const int64_t shape[] = {3};
  const int64_t strides[] = {INT64_MAX / 2};
  float memory = 0;
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(
      tenon_tensor_borrow(&memory, tenon_dtype(TENON_F32), 1, shape, strides, NULL, NULL, &x),
      TENON_INVALID);
  CHECK_TEXT(tenon_error(), "62 bits");
}
