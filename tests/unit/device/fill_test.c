/* Fills (tenon_tensor_fill): by the plug-in, by copies on the device, and by way of the host. */
#include "check.h"
#include "core/tensor.h"
#include "device/stream.h"
#include "storage/device_memory.h"
#include "tensors.h"

#include "faults.h"
#include "operators.h"
#include "sparse.h"
#include "there.h"

static const tenon_device_t cpu = {1, 0};

static tenon_tensor_t *made_on(tenon_device_t device, uint32_t dtype, int64_t rows,
                               int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(dtype), 2, shape, &made), TENON_OK);
  return made;
}

/* Fills a tensor of two rows and three columns. */
static void check_fill(tenon_device_t device, uint32_t dtype, const void *element,
                       const char *expected) {
  tenon_tensor_t *x = made_on(device, dtype, 2, 3);
  CHECK_STATUS(tenon_tensor_fill(x, element), TENON_OK);
  check_there(x, expected);
  tenon_tensor_release(x);
}

static void check_dtypes(tenon_device_t device) {
  check_fill(device, TENON_U8, &(uint8_t){7}, "u8[2,3] 7 7 7 7 7 7");
  check_fill(device, TENON_I16, &(int16_t){-300}, "i16[2,3] -300 -300 -300 -300 -300 -300");
  check_fill(device, TENON_F32, &(float){1.5f}, "f32[2,3] 1.5 1.5 1.5 1.5 1.5 1.5");
  check_fill(device, TENON_I64, &(int64_t){-1}, "i64[2,3] -1 -1 -1 -1 -1 -1");
  check_fill(device, TENON_BOOL, &(uint8_t){1}, "bool[2,3] 1 1 1 1 1 1");
}

/* Fills the second column, and checks that the others keep their elements. */
static void check_column(tenon_device_t device) {
  tenon_tensor_t *x = tensor_there(device, "f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *column = NULL;
  const int64_t shape[1] = {2};
  const int64_t strides[1] = {3};
  CHECK_STATUS(tenon_tensor_part(x, tenon_dtype(TENON_F32), 4, 1, shape, strides, &column),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_fill(column, &(float){9}), TENON_OK);
  check_there(x, "f32[2,3] 1 9 3 4 9 6");
  tenon_tensor_release(column);
  tenon_tensor_release(x);
}

/* Compares the real and imaginary parts of a tensor of c128. */
static void check_numbers(const tenon_tensor_t *x, const double *expected, size_t count) {
  tenon_tensor_t *back = tensor_back(x);
  CHECK(back && memcmp(back->data, expected, count * sizeof *expected) == 0);
  tenon_tensor_release(back);
}

TEST("tensors of the host are filled") {
  check_dtypes(cpu);
  check_column(cpu);
}

TEST("the plug-in fills dense tensors, without a copy") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_tensor_t *x = made_on(device, TENON_F32, 1000, 1000);
  const uint64_t in = copies_made(device, TENON_COPY_IN);
  const uint64_t out = copies_made(device, TENON_COPY_OUT);
  CHECK_STATUS(tenon_tensor_fill(x, &(float){2}), TENON_OK);
  CHECK(copies_made(device, TENON_COPY_IN) == in && copies_made(device, TENON_COPY_OUT) == out);
  tenon_tensor_release(x);
  check_dtypes(device);
  check_column(device);
}

TEST("a fill follows earlier work on the memory, in whatever stream") {
  tenon_device_t device = sim_open(0, "delay=2000,seed=3");
  tenon_stream_t *stream = NULL;
  tenon_stream_t *before = NULL;
  tenon_tensor_t *x = tensor_there(device, "f32[4] 1 2 3 4");
  tenon_tensor_t *y = tensor_there(device, "f32[4] 0 0 0 0");
  CHECK_STATUS(tenon_stream_create(device, &stream), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(x, y), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, stream, &before), TENON_OK);
  CHECK_STATUS(tenon_tensor_fill(x, &(float){5}), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, before, NULL), TENON_OK);
  check_there(y, "f32[4] 1 2 3 4");
  check_there(x, "f32[4] 5 5 5 5");
  tenon_stream_release(stream);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  sim_set(device, "delay=0");
}

TEST("a device that cannot fill gets a copy, and its memory is not read") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_tensor_t *x = made_on(device, TENON_C128, 2, 1);
  const double element[2] = {1, -2};
  const uint64_t out = copies_made(device, TENON_COPY_OUT);
  CHECK_STATUS(tenon_tensor_fill(x, element), TENON_OK); /* 16 bytes: no pattern is so long */
  CHECK(copies_made(device, TENON_COPY_OUT) == out);
  check_numbers(x, (const double[]){1, -2, 1, -2}, 4);
  tenon_tensor_release(x);
}

TEST("strided copies of elements of 16 bytes go by way of the host") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_tensor_t *numbers = tensor_there(device, "f64[8] 1 2 3 4 5 6 7 8");
  tenon_tensor_t *columns = NULL;
  tenon_tensor_t *dense = NULL;
  const int64_t shape[2] = {2, 2};
  const int64_t strides[2] = {1, 2};
  CHECK_STATUS(tenon_tensor_part(numbers, tenon_dtype(TENON_C128), 0, 2, shape, strides, &columns),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(columns, device, &dense), TENON_OK);
  check_numbers(dense, (const double[]){1, 2, 5, 6, 3, 4, 7, 8}, 8);
  tenon_tensor_release(dense);
  tenon_tensor_release(columns);
  tenon_tensor_release(numbers);
}

TEST("a failed fill is the failure of its stream, and the next one works") {
  tenon_device_t device = sim_open(0, "delay=0,fail=fill:1");
  tenon_tensor_t *x = made_on(device, TENON_F32, 2, 2);
  CHECK(tenon_tensor_fill(x, &(float){2}) != TENON_OK);
  CHECK_TEXT(tn_error(), "fill");
  CHECK_STATUS(tenon_tensor_fill(x, &(float){2}), TENON_OK);
  check_there(x, "f32[2,2] 2 2 2 2");
  tenon_tensor_release(x);
  sim_set(device, "delay=0");
}

TEST("a copy of another shape to a device is refused, and changes nothing") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_tensor_t *from = tensor_of("f32[3] 1 2 3");
  tenon_tensor_t *to = tensor_there(device, "f32[2] 7 8");
  CHECK(tn_device_tensor_copy(from, to) != TENON_OK);
  check_there(to, "f32[2] 7 8");
  tenon_tensor_release(to);
  tenon_tensor_release(from);
}

TEST("tensors that cannot be filled are refused") {
  tenon_tensor_t *list = tensor_of("string[1] one");
  tenon_tensor_t *none = made_on(cpu, TENON_F32, 0, 3);
  const float element = 1;
  CHECK_STATUS(tenon_tensor_fill(list, &element), TENON_INVALID);
  CHECK_TEXT(tn_error(), "found string");
  CHECK_STATUS(tenon_tensor_fill(none, &element), TENON_OK);
  tenon_tensor_release(none);
  tenon_tensor_release(list);
}

TEST("nothing is left behind") { tenon_shutdown(); }
