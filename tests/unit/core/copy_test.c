/* Copies between strided tensors, compared with a copy element by element: random shapes, orders of
 * axes, gaps, directions and sizes. */
#include <stdlib.h>

#include "base/parallel.h"
#include "base/status.h"
#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

static uint64_t seed = 31415;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

/* Makes a tensor with axes in random order, gaps and directions; every byte of its memory is
 * `fill`. */
static tenon_tensor_t *random_tensor(uint32_t id, int32_t ndim, const int64_t *shape, int fill,
                                     char **out_data, size_t *out_size) {
  int64_t strides[TENON_RANK_MAX];
  int64_t room = 1;
  int64_t first = 0;
  int32_t order[TENON_RANK_MAX];
  tenon_tensor_t *t = NULL;
  bool dense = pick(3) == 0;
  for (int32_t i = 0; i < ndim; i++)
    order[i] = i;
  for (int32_t i = ndim - 1; i > 0 && !dense; i--) {
    int32_t j = (int32_t)pick(i + 1);
    int32_t swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int32_t k = ndim - 1; k >= 0; k--) {
    int32_t axis = order[k];
    int64_t gap = !dense && pick(4) == 0 ? 1 + pick(3) : 1;
    strides[axis] = room * gap;
    room *= gap * (shape[axis] > 0 ? shape[axis] : 1);
    if (dense || pick(5) || shape[axis] == 0) continue;
    first += (shape[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  size_t size = tenon_dtype(id).bits / 8;
  *out_size = (size_t)room * size;
  *out_data = malloc(*out_size + 1);
  memset(*out_data, fill, *out_size);
  CHECK_STATUS(tenon_tensor_borrow(*out_data + (size_t)first * size, tenon_dtype(id), ndim, shape,
                                   strides, free, *out_data, &t),
               TENON_OK);
  return t;
}

TEST("a copy has the elements of its source, and leaves the gaps between its own elements alone") {
  static const uint32_t ids[] = {TENON_U8, TENON_F16, TENON_F32, TENON_F64, TENON_C128};
  for (int round = 0; round < 3000; round++) {
    int64_t shape[8];
    int64_t total = 1;
    int32_t ndim = (int32_t)pick(6);
    uint32_t id = ids[pick(5)];
    for (int32_t i = 0; i < ndim; i++) {
      shape[i] = pick(15) == 0 ? pick(2) : 1 + pick(6);
      if (pick(8) == 0) shape[i] = 20 + pick(200);
      if (total * shape[i] > 60000) shape[i] = 1;
      total *= shape[i] ? shape[i] : 1;
    }
    char *from_data, *to_data;
    size_t from_size, to_size;
    size_t bytes = tenon_dtype(id).bits / 8;
    tenon_tensor_t *from = random_tensor(id, ndim, shape, 0, &from_data, &from_size);
    tenon_tensor_t *to = random_tensor(id, ndim, shape, 0xee, &to_data, &to_size);
    tenon_tensor_t *made = NULL;
    int64_t count = tenon_count(from);
    for (int64_t i = 0; i < count; i++)
      for (size_t b = 0; b < bytes; b++)
        tensor_at(from, i)[b] = (char)(i * 7 + (int64_t)b * 31 + 1);
    char *expected = malloc(to_size + 1);
    memcpy(expected, to_data, to_size);
    for (int64_t i = 0; i < count; i++)
      memcpy(expected + (tensor_at(to, i) - to_data), tensor_at(from, i), bytes);
    tn_parallel_set(1 + (int32_t)pick(3));
    CHECK_STATUS(tn_tensor_copy_into(from, to), TENON_OK);
    CHECK_STATUS(tenon_tensor_copy(from, &made), TENON_OK);
    bool same = memcmp(expected, to_data, to_size) == 0 && !(made->keys & TN_KEY_STRIDED);
    for (int64_t i = 0; i < count && same; i++)
      same = memcmp((char *)made->data + (size_t)i * bytes, tensor_at(from, i), bytes) == 0;
    if (!CHECK(same)) {
      fprintf(stderr, "  round %d\n", round);
      round = 1 << 20;
    }
    free(expected);
    tenon_tensor_release(from);
    tenon_tensor_release(to);
    tenon_tensor_release(made);
  }
  tn_parallel_set(0);
}

TEST("a large transpose on several threads is exact") {
  int64_t shape[3] = {3, 700, 501};
  int64_t strides[3] = {700 * 501, 1, 700};
  tenon_tensor_t *from = NULL;
  tenon_tensor_t *made = NULL;
  int32_t *data = malloc(3 * 700 * 501 * sizeof *data);
  int32_t mistakes = 0;
  for (int32_t i = 0; i < 3 * 700 * 501; i++)
    data[i] = i;
  CHECK_STATUS(
      tenon_tensor_borrow(data, tenon_dtype(TENON_I32), 3, shape, strides, free, data, &from),
      TENON_OK);
  tn_parallel_set(4);
  CHECK_STATUS(tenon_tensor_copy(from, &made), TENON_OK);
  for (int64_t i = 0; i < 3; i++)
    for (int64_t j = 0; j < 700; j++)
      for (int64_t k = 0; k < 501; k++)
        mistakes += ((int32_t *)made->data)[(i * 700 + j) * 501 + k] != i * 700 * 501 + j + k * 700;
  CHECK(mistakes == 0);
  tn_parallel_set(0);
  tenon_tensor_release(from);
  tenon_tensor_release(made);
}

TEST("each element of a broadcast source is read as often as needed") {
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {0, 1};
  int32_t data[3] = {1, 2, 3};
  tenon_tensor_t *from = NULL;
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(
      tenon_tensor_borrow(data, tenon_dtype(TENON_I32), 2, shape, strides, NULL, NULL, &from),
      TENON_OK);
  CHECK_STATUS(tenon_tensor_copy(from, &made), TENON_OK);
  CHECK_TENSOR(made, "i32[2,3] 1 2 3 1 2 3");
  tenon_tensor_release(from);
  tenon_tensor_release(made);
}

TEST("strings are copied, not shared") {
  tenon_tensor_t *from = tensor_of("string[2] one two");
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_copy(from, &made), TENON_OK);
  CHECK_STATUS(tenon_tensor_set_string(from, 0, "changed", 7), TENON_OK);
  CHECK_STATUS(tn_tensor_copy_into(made, made), TENON_OK); /* A copy onto itself does nothing. */
  tenon_tensor_release(from);
  CHECK_TENSOR(made, "string[2] one two");
  tenon_tensor_release(made);
}

TEST("lists are copied item by item") {
  tenon_tensor_t *from = tensor_of("{i32[1] 1; i32[2] 2 3}");
  tenon_tensor_t *to = tensor_of("{i32[1] 0; i32[2] 0 0}");
  tenon_tensor_t *none = tensor_of("{i32[1] 0}");
  CHECK_STATUS(tn_tensor_copy_into(from, to), TENON_OK);
  tenon_tensor_release(from);
  CHECK_TENSOR(to, "{i32[1] 1; i32[2] 2 3}");
  CHECK_STATUS(tn_tensor_copy_into(to, none), TENON_INVALID);
  tenon_tensor_release(to);
  tenon_tensor_release(none);
}

TEST("a copy into another shape or dtype is refused with both descriptions") {
  tenon_tensor_t *a = tensor_of("i32[2] 1 2");
  tenon_tensor_t *b = tensor_of("i32[3] 1 2 3");
  tenon_tensor_t *c = tensor_of("f32[2] 1 2");
  CHECK_STATUS(tn_tensor_copy_into(a, b), TENON_INVALID);
  CHECK_TEXT(tn_error(), "cannot copy i32 [2] into i32 [3]");
  CHECK_STATUS(tn_tensor_copy_into(a, c), TENON_INVALID);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(c);
}

TEST("elements smaller than a byte are copied if they are dense, and refused otherwise") {
  int64_t shape[2] = {3, 2};
  int64_t turned[2] = {1, 3};
  uint8_t data[3] = {0x21, 0x43, 0x65};
  tenon_tensor_t *dense = NULL;
  tenon_tensor_t *other = NULL;
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_U4), 2, shape, NULL, NULL, NULL, &dense),
               TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow(data, tenon_dtype(TENON_U4), 2, shape, turned, NULL, NULL, &other),
      TENON_OK);
  CHECK_STATUS(tenon_tensor_copy(dense, &made), TENON_OK);
  CHECK(memcmp(made->data, data, 3) == 0);
  tenon_tensor_release(made);
  CHECK_STATUS(tenon_tensor_copy(other, &made), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "cannot copy a packed u4 tensor that is not dense");
  tenon_tensor_release(dense);
  tenon_tensor_release(other);
}

TEST("nothing is left behind") {
  tn_parallel_shutdown();
  tn_thread_drop();
}
