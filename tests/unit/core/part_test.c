/* Parts of tensors (tenon_tensor_part): views of memory with any dtype, shape and strides, on the
 * host and on devices, and parts that are refused. */
#include "core/dtype.h"
#include "core/tensor.h"

#include "base/thread.h"
#include "check.h"
#include "faults.h"
#include "tensors.h"

#include "operators.h"
#include "sparse.h"

#include "device/there.h"

/* A part of up to two axes. */
static tenon_status_t part_of(tenon_tensor_t *of, uint32_t dtype, uint64_t offset, int32_t ndim,
                              int64_t rows, int64_t columns, const int64_t *strides,
                              tenon_tensor_t **out) {
  const int64_t shape[2] = {rows, columns};
  return tenon_tensor_part(of, tenon_dtype(dtype), offset, ndim, shape, strides, out);
}

static void check_part(tenon_tensor_t *of, uint32_t dtype, uint64_t offset, int32_t ndim,
                       int64_t rows, int64_t columns, const int64_t *strides,
                       const char *expected) {
  tenon_tensor_t *part = NULL;
  CHECK_STATUS(part_of(of, dtype, offset, ndim, rows, columns, strides, &part), TENON_OK);
  if (part) CHECK_TENSOR(part, expected);
  tenon_tensor_release(part);
}

/* A part of one axis, which is compared by its place in the memory of `of`. */
static void check_place(tenon_tensor_t *of, uint32_t dtype, uint64_t offset, int64_t count) {
  tenon_tensor_t *part = NULL;
  CHECK_STATUS(part_of(of, dtype, offset, 1, count, 0, NULL, &part), TENON_OK);
  CHECK(part && tn_dtype_is(part->dtype, dtype) && part->shape[0] == count &&
        tn_address(part) == tn_address(of) + offset);
  tenon_tensor_release(part);
}

/* A part of one axis that is refused as invalid, for this reason. */
static void check_refused(tenon_tensor_t *of, uint32_t dtype, uint64_t offset, int64_t count,
                          int64_t stride, const char *why) {
  tenon_tensor_t *part = of;
  CHECK_STATUS(part_of(of, dtype, offset, 1, count, 0, &stride, &part), TENON_INVALID);
  CHECK_TEXT(tn_error(), why);
  CHECK(!part);
}

TEST("a part has any dtype, shape and strides, and shares the memory") {
  tenon_tensor_t *x = tensor_of("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *part = NULL;
  const int64_t columns[2] = {1, 3};
  const int64_t rows[2] = {3, 1};
  const int64_t zero[2] = {0, 0};
  const int64_t back[1] = {-1};
  check_part(x, TENON_F32, 4, 0, 0, 0, NULL, "f32[] 2");
  check_part(x, TENON_F32, 8, 2, 2, 2, NULL, "f32[2,2] 3 4 5 6");
  check_part(x, TENON_F32, 4, 2, 2, 2, rows, "f32[2,2] 2 3 5 6");
  check_part(x, TENON_F32, 0, 2, 3, 2, columns, "f32[3,2] 1 4 2 5 3 6");
  check_part(x, TENON_F32, 20, 1, 6, 0, back, "f32[6] 6 5 4 3 2 1");
  check_part(x, TENON_F32, 8, 2, 2, 2, zero, "f32[2,2] 3 3 3 3");
  check_part(x, TENON_I32, 0, 1, 2, 0, NULL, "i32[2] 1065353216 1073741824");
  check_part(x, TENON_U8, 2, 1, 2, 0, NULL, "u8[2] 128 63");
  check_place(x, TENON_C64, 4, 2);
  CHECK_STATUS(part_of(x, TENON_F32, 4, 2, 2, 2, rows, &part), TENON_OK);
  CHECK(part->keys & TN_KEY_STRIDED && tn_tensor_is_owned(part));
  uint64_t version = tn_tensor_version(x);
  (void)tn_tensor_written(part);
  CHECK(tn_tensor_version(x) == version + 1);
  *(float *)part->data = 20;
  CHECK_TENSOR(x, "f32[2,3] 1 20 3 4 5 6");
  tenon_tensor_release(part);
  tenon_tensor_release(x);
}

static void count_release(void *context) { ++*(int *)context; }

TEST("a part retains the memory, and may reach beyond the tensor that it is made of") {
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[1] = {6};
  int released = 0;
  const int64_t back[1] = {-1};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *part = NULL;
  tenon_tensor_t *next = NULL;
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 1, shape, NULL, count_release,
                                   &released, &x),
               TENON_OK);
  ((tn_tensor_t *)x)->storage->is_read_only = true;
  CHECK_STATUS(part_of(x, TENON_F32, 8, 1, 2, 0, NULL, &part), TENON_OK);
  tenon_tensor_release(x);
  check_part(part, TENON_F32, 0, 1, 4, 0, NULL, "f32[4] 3 4 5 6");
  CHECK_STATUS(part_of(part, TENON_F32, 4, 1, 4, 0, back, &next), TENON_OK);
  tenon_tensor_release(part);
  CHECK_TENSOR(next, "f32[4] 4 3 2 1");
  CHECK(tn_tensor_is_read_only(next) && released == 0);
  check_refused(next, TENON_F32, 4, 3, 1,
                "a part at byte 4 of a tensor needs bytes 4 to 16, counted from its first element: "
                "its memory has bytes -12 to 12");
  tenon_tensor_release(next);
  CHECK(released == 1);
}

TEST("a part that reaches outside of the memory is refused") {
  tenon_tensor_t *x = tensor_of("f32[2,3] 1 2 3 4 5 6");
  const int64_t two[1] = {2};
  check_refused(x, TENON_F32, 0, 7, 1,
                "a part at byte 0 of a tensor needs bytes 0 to 28, counted from its first element: "
                "its memory has bytes 0 to 24");
  check_refused(x, TENON_F32, 24, 1, 1, "needs bytes 24 to 28");
  check_refused(x, TENON_F32, 4, 3, -1, "needs bytes -4 to 8");
  check_refused(x, TENON_F32, 8, 3, 2, "needs bytes 8 to 28");
  check_refused(x, TENON_F64, 8, 3, 1, "needs bytes 8 to 32");
  check_refused(x, TENON_U8, 24, 1, 1, "needs bytes 24 to 25");
  check_refused(x, TENON_F32, UINT64_MAX - 3, 1, 1, "a part at byte 18446744073709551612");
  check_refused(x, TENON_F32, (uint64_t)1 << 63, 2, -1, "a part at byte 9223372036854775808");
  check_refused(x, TENON_F32, 0, 3, INT64_MAX / 2, "more memory than 62 bits can describe");
  check_part(x, TENON_F32, 4, 1, 3, 0, two, "f32[3] 2 4 6");
  tenon_tensor_release(x);
}

TEST("a part of a view on the stack stays within its elements, and needs its memory") {
  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t shape[1] = {3};
  int64_t strides[1] = {2};
  const int64_t dense[1] = {1};
  tenon_tensor_t view;
  tenon_tensor_t *part = NULL;
  CHECK_STATUS(tenon_tensor_view(&view, data + 1, tenon_dtype(TENON_F32), 1, shape, strides, NULL),
               TENON_OK);
  CHECK_STATUS(part_of(&view, TENON_F32, 4, 1, 4, 0, dense, &part), TENON_OK);
  CHECK_TENSOR(part, "f32[4] 3 4 5 6");
  check_refused(&view, TENON_F32, 4, 5, 1, "its memory has bytes 0 to 20");
  check_refused(part, TENON_F32, 4, 4, 1, "its memory has bytes 0 to 16");
  check_refused(part, TENON_F32, 0, 2, -1, "needs bytes -4 to 4");
  tenon_tensor_release(part);
}

TEST("the first element of a part is aligned for its dtype, and half of a complex element is "
     "enough") {
  tenon_tensor_t *x = tensor_of("u8[24] 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0");
  tenon_tensor_t *odd = NULL;
  check_refused(x, TENON_F32, 2, 1, 1, "expected a multiple of 4");
  check_refused(x, TENON_F64, 4, 1, 1, "expected a multiple of 8");
  check_refused(x, TENON_F16, 1, 1, 1, "a part of a tensor as f16 begins at address ");
  check_refused(x, TENON_C64, 2, 1, 1, "expected a multiple of 4");
  check_refused(x, TENON_C128, 4, 1, 1, "expected a multiple of 8");
  check_place(x, TENON_C64, 4, 1);
  check_place(x, TENON_C128, 8, 1);
  check_part(x, TENON_BOOL, 1, 1, 1, 0, NULL, "bool[1] 0");
  CHECK_STATUS(part_of(x, TENON_U8, 3, 1, 9, 0, NULL, &odd), TENON_OK);
  check_refused(odd, TENON_F32, 0, 1, 1, "expected a multiple of 4");
  check_part(odd, TENON_F32, 1, 1, 2, 0, NULL, "f32[2] 0 0");
  tenon_tensor_release(odd);
  tenon_tensor_release(x);
}

TEST("elements that share bytes are parts only if they are dense") {
  tenon_tensor_t *x = tensor_of("u8[2] 33 67");
  check_place(x, TENON_U4, 0, 4);
  check_place(x, TENON_U4, 1, 1);
  check_refused(x, TENON_U4, 0, 5, 1, "needs bytes 0 to 3");
  check_refused(x, TENON_U4, 0, 2, 2,
                "a part as u4, whose elements share bytes, has strides: expected a dense part");
  tenon_tensor_release(x);
}

TEST("lists, strings, sparse and quantised tensors have no parts, and no part has such elements") {
  static const tenon_dtype_t unknown = {2, 24, 1};
  static const int64_t shape[1] = {1};
  tenon_tensor_t *x = tensor_of("u8[4] 1 2 3 4");
  tenon_tensor_t *words = tensor_of("string[1] one");
  tenon_tensor_t *scale = tensor_of("f32[1] 1");
  tenon_tensor_t *csr = sparse_of((int64_t[]){2, 2}, "f32[1] 1", "i64[1] 0", "i64[3] 0 1 1");
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *part = NULL;
  CHECK_STATUS(tenon_tensor_list(&x, 1, &list), TENON_OK);
  check_refused(list, TENON_U8, 0, 1, 1, "of a dense tensor of list: expected a dense tensor of ");
  check_refused(words, TENON_U8, 0, 1, 1, "a part as u8 of a dense tensor of string");
  check_refused(csr, TENON_U8, 0, 1, 1, "a part as u8 of a csr tensor of f32");
  check_refused(x, TENON_STRING, 0, 0, 1, "a part as string of a dense tensor of u8");
  check_refused(x, TENON_LIST, 0, 0, 1, "a part as list of a dense tensor of u8");
  const tenon_detail_t whole = {
      .size = sizeof whole, .kind = TENON_DETAIL_QUANTISED, .axis = -1, .scale = scale};
  CHECK_STATUS(tenon_tensor_detail_set(x, &whole), TENON_OK);
  check_refused(x, TENON_U8, 0, 1, 1, "a part as u8 of a quantised tensor of u8");
  CHECK_STATUS(tenon_tensor_detail_set(x, NULL), TENON_OK);
  check_refused(x, TENON_U8, 0, -1, 1, "shape [-1] of u8: extents must not be negative");
  CHECK_STATUS(part_of(x, TENON_U8, 0, 65, 1, 1, NULL, &part), TENON_INVALID);
  CHECK_TEXT(tn_error(), "a tensor has 0 to 64 dimensions, found 65");
  CHECK_STATUS(part_of(x, TENON_U8, 0, -1, 1, 1, NULL, &part), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_part(x, unknown, 0, 1, shape, NULL, &part), TENON_INVALID);
  CHECK_TEXT(tn_error(), "dtype (code 2, bits 24, lanes 1) is not one of contract 1");
  tenon_tensor_release(list);
  tenon_tensor_release(words);
  tenon_tensor_release(csr);
  tenon_tensor_release(scale);
  tenon_tensor_release(x);
}

TEST("a part without elements can be made of any tensor, at any offset") {
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *none = tensor_of("f32[0]");
  check_part(x, TENON_F64, 8, 1, 0, 0, NULL, "f64[0]");
  check_part(x, TENON_F64, UINT64_MAX, 2, 3, 0, NULL, "f64[3,0]");
  check_part(none, TENON_F64, 0, 1, 0, 0, NULL, "f64[0]");
  check_refused(none, TENON_U8, 0, 1, 1, "its memory has bytes 0 to 0");
  tenon_tensor_release(x);
  tenon_tensor_release(none);
}

TEST("a part is one allocation, and there is no part without memory") {
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *part = NULL;
  fault_memory(1, false);
  CHECK_STATUS(part_of(x, TENON_F32, 0, 1, 2, 0, NULL, &part), TENON_MEMORY);
  CHECK(!part);
  fault_memory(2, false);
  CHECK_STATUS(part_of(x, TENON_F32, 0, 1, 2, 0, NULL, &part), TENON_OK);
  fault_end();
  CHECK(((tn_tensor_t *)x)->storage->references == 2);
  tenon_tensor_release(part);
  CHECK(((tn_tensor_t *)x)->storage->references == 1);
  tenon_tensor_release(x);
}

TEST("parts of memory on devices work with addresses and with handles, and share the memory") {
  static const char *const settings[] = {"", "handles=1"};
  for (int h = 0; h < 2; h++) {
    tenon_shutdown();
    setenv("TENON_SIM", settings[h], 1);
    tenon_device_t device = sim_open(0, "check=fail");
    tenon_tensor_t *x = tensor_there(device, "f32[4,2] 1 2 3 4 5 6 7 8");
    tenon_tensor_t *part = NULL;
    tenon_tensor_t *turned = NULL;
    const int64_t columns[2] = {1, 2};
    CHECK_STATUS(part_of(x, TENON_F32, 8, 2, 2, 3, NULL, &part), TENON_OK);
    CHECK(part->device.type == device.type && part->device.id == device.id);
    CHECK((part->data == x->data) == (h == 1));
    CHECK(part->byte_offset - x->byte_offset == (h ? 8 : 0));
    check_there(part, "f32[2,3] 3 4 5 6 7 8");
    CHECK_STATUS(part_of(part, TENON_F32, 8, 2, 2, 2, columns, &turned), TENON_OK);
    check_there(turned, "f32[2,2] 5 7 6 8");
    check_refused(part, TENON_F32, 8, 5, 1, "its memory has bytes -8 to 24");
    check_refused(part, TENON_F32, 0, 4, -1, "needs bytes -12 to 4");
    check_refused(part, TENON_F64, 4, 1, 1,
                  h ? "a part of a tensor as f64 begins at offset " : "expected a multiple of 8");
    CHECK_STATUS(
        tenon_op_call_into(op_of("core::mul"), NULL, (tenon_tensor_t *[]){part, part}, &part),
        TENON_OK);
    check_there(x, "f32[4,2] 1 2 9 16 25 36 49 64");
    tenon_tensor_release(x);
    check_there(turned, "f32[2,2] 25 49 36 64");
    tenon_tensor_release(part);
    tenon_tensor_release(turned);
    CHECK(stats_of(device).live == 0);
  }
  unsetenv("TENON_SIM");
}

TEST("parts of a meta tensor have no memory, and stay within its elements") {
  const int64_t shape[2] = {2, 3};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *part = NULL;
  CHECK_STATUS(tenon_tensor_create_on((tenon_device_t){0, 0}, tenon_dtype(TENON_F32), 2, shape, &x),
               TENON_OK);
  CHECK_STATUS(part_of(x, TENON_F16, 4, 1, 10, 0, NULL, &part), TENON_OK);
  CHECK(!part->data && part->device.type == 0 && part->shape[0] == 10);
  check_refused(x, TENON_F16, 4, 11, 1, "its memory has bytes 0 to 24");
  tenon_tensor_release(part);
  tenon_tensor_release(x);
}

TEST("nothing is left behind") {
  tenon_shutdown();
  tn_thread_drop();
}
