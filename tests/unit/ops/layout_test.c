/* Copies between layouts, on every instruction set that the processor has: transposes of elements
 * of every size, rows of every length, channels-last tensors that are joined or normalised, and
 * convolutions by the identity, which copy and convert their input and their result. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

static const int64_t extents[] = {1, 3, 7, 8, 9, 15, 16, 17, 24, 31, 33, 1030};
enum { EXTENTS = sizeof extents / sizeof *extents };

/* Compares byte for byte: `out` [columns, rows] with `from` [rows, columns]. */
static bool is_transposed(const char *out, const char *from, int64_t rows, int64_t columns,
                          size_t size) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      if (memcmp(out + (size_t)(j * rows + i) * size, from + (size_t)(i * columns + j) * size,
                 size) != 0)
        return false;
  return true;
}

static void compare_transposes_of(uint32_t id, int64_t rows, int64_t columns) {
  const size_t size = tenon_dtype(id).bits / 8;
  const int64_t shape[2] = {columns, rows};
  const int64_t strides[2] = {1, columns};
  char *data = malloc((size_t)(rows * columns) * size);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *copy = NULL;
  tenon_tensor_t *outputs[1] = {NULL};
  for (size_t i = 0; i < (size_t)(rows * columns) * size; i++)
    data[i] = (char)(i * 167 + i / 251);
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(id), 2, shape, strides, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::contiguous"), NULL, &x, outputs, 0), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy(x, &copy), TENON_OK);
  if (!CHECK(is_transposed(outputs[0]->data, data, rows, columns, size)) ||
      !CHECK(is_transposed(copy->data, data, rows, columns, size)))
    fprintf(stderr, "  %d rows, %d columns, %d bytes\n", (int)rows, (int)columns, (int)size);
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(copy);
  tenon_tensor_release(x);
  free(data);
}

static void compare_transposes(void) {
  static const uint32_t ids[] = {TENON_U8, TENON_F16, TENON_F32, TENON_F64, TENON_C128};
  for (int d = 0; d < 5; d++)
    for (int r = 0; r < EXTENTS; r++)
      for (int c = 0; c < EXTENTS; c++)
        compare_transposes_of(ids[d], extents[r], extents[c]);
}

/* Copies the middle of rows [rows, columns + 3]. */
static void compare_rows_of(uint32_t id, int64_t rows, int64_t columns) {
  const size_t size = tenon_dtype(id).bits / 8;
  const int64_t shape[2] = {rows, columns};
  const int64_t strides[2] = {columns + 3, 1};
  char *data = malloc((size_t)(rows * (columns + 3)) * size);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *outputs[1] = {NULL};
  for (size_t i = 0; i < (size_t)(rows * (columns + 3)) * size; i++)
    data[i] = (char)(i * 167 + i / 251);
  CHECK_STATUS(
      tenon_tensor_borrow(data + 2 * size, tenon_dtype(id), 2, shape, strides, NULL, NULL, &x),
      TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::contiguous"), NULL, &x, outputs, 0), TENON_OK);
  const char *out = outputs[0]->data;
  int mistakes = 0;
  for (int64_t i = 0; i < rows; i++)
    mistakes += memcmp(out + (size_t)(i * columns) * size,
                       data + (size_t)(i * (columns + 3) + 2) * size, (size_t)columns * size) != 0;
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d rows of %d elements of %d bytes\n", (int)rows, (int)columns, (int)size);
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(x);
  free(data);
}

static void compare_rows(void) {
  static const uint32_t ids[] = {TENON_U8, TENON_F16, TENON_F32, TENON_F64, TENON_C128};
  for (int d = 0; d < 5; d++)
    for (int64_t columns = 1; columns < 70; columns++)
      compare_rows_of(ids[d], 1 + columns % 5, columns);
  compare_rows_of(TENON_U8, 40, 512);
  compare_rows_of(TENON_U8, 40, 513);
  compare_rows_of(TENON_F32, 70000, 5);
}

/* A tensor [2, channels, 3, 4] with the elements first, first + 1, ..., which lies channels-last or
 * row-major in `data`. */
static tenon_tensor_t *counting_tensor(float *data, int64_t channels, bool is_last, int first) {
  const int64_t shape[4] = {2, channels, 3, 4};
  const int64_t last[4] = {channels * 12, 1, channels * 4, channels};
  const int64_t major[4] = {channels * 12, 12, 4, 1};
  const int64_t *strides = is_last ? last : major;
  tenon_tensor_t *x = NULL;
  for (int64_t i = 0; i < 24 * channels; i++) {
    const int64_t at = i / (12 * channels) * strides[0] + i / 12 % channels * strides[1] +
                       i / 4 % 3 * strides[2] + i % 4 * strides[3];
    data[at] = (float)(first + (int)i);
  }
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 4, shape, strides, NULL, NULL, &x),
               TENON_OK);
  return x;
}

/* Joins tensors of 3 and 5 channels, and compares each element with those of the two. */
static void check_join(bool is_first_last, bool is_second_last) {
  enum { CHANNELS = 8, FIRST = 3, SECOND = 5, OTHER = 1000 };
  float first[24 * FIRST], second[24 * SECOND];
  tenon_tensor_t *items[2] = {counting_tensor(first, FIRST, is_first_last, 0),
                              counting_tensor(second, SECOND, is_second_last, OTHER)};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *outputs[1] = {NULL};
  tenon_attrs_t *attrs = attrs_of(op_of("core::concat"), "axis=1");
  CHECK_STATUS(tenon_tensor_list(items, 2, &list), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::concat"), attr_values(attrs), &list, outputs, 0),
               TENON_OK);
  const tenon_tensor_t *out = outputs[0];
  CHECK((out->strides[1] == 1) == (is_first_last && is_second_last));
  int mistakes = 0;
  for (int64_t i = 0; i < 24 * CHANNELS; i++) {
    const int64_t image = i / (12 * CHANNELS);
    const int64_t channel = i / 12 % CHANNELS;
    const int64_t at = image * out->strides[0] + channel * out->strides[1] +
                       i / 4 % 3 * out->strides[2] + i % 4 * out->strides[3];
    int64_t expected = (image * FIRST + channel) * 12 + i % 12;
    if (channel >= FIRST) expected = OTHER + (image * SECOND + channel - FIRST) * 12 + i % 12;
    mistakes += ((const float *)out->data)[at] != (float)expected;
  }
  CHECK(mistakes == 0);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(items[i]);
  tenon_tensor_release(list);
  tenon_tensor_release(outputs[0]);
  tenon_attrs_release(attrs);
}

/* Where element i of a tensor [2, channels, 3, 4] lies, in row-major order of the elements. */
static int64_t place_of(const tenon_tensor_t *t, int64_t i) {
  const int64_t channels = t->shape[1];
  return i / (12 * channels) * t->strides[0] + i / 12 % channels * t->strides[1] +
         i / 4 % 3 * t->strides[2] + i % 4 * t->strides[3];
}

/* Normalises the second and later channels of x, so that there are gaps between its positions, and
 * compares with numbers that are exact. `is_result_last`: how a result lies that is given. */
static void check_norm(bool is_last, bool has_gaps, bool is_given, bool is_result_last) {
  enum { CHANNELS = 5 };
  float data[24 * (CHANNELS + 1)], result[24 * CHANNELS];
  const int64_t whole = CHANNELS + has_gaps;
  tenon_tensor_t *x = counting_tensor(data, whole, is_last, 0);
  tenon_tensor_t *part = NULL;
  const int64_t shape[4] = {2, CHANNELS, 3, 4};
  CHECK_STATUS(tenon_tensor_borrow(data + (has_gaps ? x->strides[1] : 0), tenon_dtype(TENON_F32), 4,
                                   shape, x->strides, NULL, NULL, &part),
               TENON_OK);
  tenon_tensor_t *inputs[5] = {part};
  tenon_tensor_t *outputs[1] = {is_given ? counting_tensor(result, CHANNELS, is_result_last, 0)
                                         : NULL};
  static const char *const parameters[] = {"f32[5] 1 2 3 4 5", "f32[5] 5 4 3 2 1",
                                           "f32[5] 1 0 2 0 3", "f32[5] 1 4 0.25 1 4"};
  for (int i = 0; i < 4; i++)
    inputs[1 + i] = tensor_of(parameters[i]);
  tenon_attrs_t *attrs = attrs_of(op_of("core::batch_norm"), "epsilon=0.0");
  CHECK_STATUS(tenon_op_call(op_of("core::batch_norm"), attr_values(attrs), inputs, outputs, 0),
               TENON_OK);
  const tenon_tensor_t *out = outputs[0];
  static const float mean[] = {1, 0, 2, 0, 3};
  static const float root[] = {1, 2, 0.5f, 1, 2};
  int mistakes = 0;
  for (int64_t i = 0; i < 24 * CHANNELS; i++) {
    const int64_t c = i / 12 % CHANNELS;
    const float value = ((const float *)part->data)[place_of(part, i)];
    const float expected = (value - mean[c]) * (float)(1 + c) / root[c] + (float)(5 - c);
    mistakes += ((const float *)out->data)[place_of(out, i)] != expected;
  }
  CHECK(mistakes == 0);
  CHECK((out->strides[1] == 1) == (is_given ? is_result_last : is_last));
  for (int i = 0; i < 5; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(x);
  tenon_tensor_release(outputs[0]);
  tenon_attrs_release(attrs);
}

/* The code of a small whole number, which f16 and bf16 represent. */
static uint16_t narrow_of(uint32_t id, int number) {
  float value = (float)number;
  uint16_t code;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (id == TENON_BF16) return (uint16_t)(bits >> 16);
  if (number == 0) return 0;
  code = (uint16_t)((((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
  return (uint16_t)(code | (bits >> 16 & 0x8000));
}

/* x [1, channels, height, width] by the identity. */
static void compare_identity(uint32_t id, int64_t channels, int64_t height, int64_t width) {
  const int64_t shape[4] = {1, channels, height, width};
  const int64_t kernel[4] = {channels, channels, 1, 1};
  const tenon_op_t *op = op_of("core::conv");
  tenon_attrs_t *attrs = attrs_of(op, "group=1");
  tenon_tensor_t *inputs[4] = {NULL};
  tenon_tensor_t *outputs[1] = {NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(id), 4, shape, &inputs[0]), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(id), 4, kernel, &inputs[1]), TENON_OK);
  uint16_t *x = inputs[0]->data;
  uint16_t *w = inputs[1]->data;
  for (int64_t i = 0; i < tenon_count(inputs[0]); i++)
    x[i] = narrow_of(id, (int)(i * 37 % 255) - 127);
  for (int64_t i = 0; i < channels * channels; i++)
    w[i] = narrow_of(id, i / channels == i % channels);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, outputs, 0), TENON_OK);
  const tenon_tensor_t *out = outputs[0];
  bool same = out != NULL;
  for (int64_t i = 0; same && i < tenon_count(out); i++) {
    const int64_t plane = height * width;
    const int64_t at = i / plane * out->strides[1] + i % plane / width * out->strides[2] +
                       i % width * out->strides[3];
    same = ((const uint16_t *)out->data)[at] == x[i];
  }
  if (!CHECK(same))
    fprintf(stderr, "  dtype %d, %d channels, %d x %d\n", (int)id, (int)channels, (int)height,
            (int)width);
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(outputs[0]);
  tenon_attrs_release(attrs);
}

static void compare_identities(void) {
  static const uint32_t ids[] = {TENON_F16, TENON_BF16};
  for (int d = 0; d < 2; d++)
    for (int c = 0; c < EXTENTS - 1; c++)
      for (int width = 1; width <= 17; width++)
        compare_identity(ids[d], extents[c], 1 + width % 5, width);
}

/* Adds 3 channels of a tensor of 8 to a tensor of 3 channels, and compares each element. The parts
 * are views with gaps between positions. */
static void check_parts(bool is_first_last, bool is_second_last) {
  enum { CHANNELS = 8, FIRST = 2, PART = 3, OTHER = 1000 };
  float whole[24 * CHANNELS], second[24 * PART];
  tenon_tensor_t *x = counting_tensor(whole, CHANNELS, is_first_last, 0);
  tenon_tensor_t *inputs[2] = {NULL, counting_tensor(second, PART, is_second_last, OTHER)};
  const int64_t shape[4] = {2, PART, 3, 4};
  CHECK_STATUS(tenon_tensor_borrow(whole + FIRST * x->strides[1], tenon_dtype(TENON_F32), 4, shape,
                                   x->strides, NULL, NULL, &inputs[0]),
               TENON_OK);
  tenon_tensor_t *outputs[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, inputs, outputs, 0), TENON_OK);
  const tenon_tensor_t *out = outputs[0];
  const bool is_last = is_first_last && is_second_last;
  CHECK(out->strides[1] == (is_last ? 1 : 12));
  CHECK(out->strides[0] == 12 * PART && out->strides[2] == (is_last ? 4 * PART : 4));
  int mistakes = 0;
  for (int64_t i = 0; i < 24 * PART; i++) {
    const int64_t channel = i / 12 % PART + FIRST;
    const int64_t expected = (i / (12 * PART) * CHANNELS + channel) * 12 + i % 12 + OTHER + i;
    mistakes += ((const float *)out->data)[place_of(out, i)] != (float)expected;
  }
  CHECK(mistakes == 0);
  tenon_tensor_release(x);
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(outputs[0]);
}

/* Resizes a tensor that lies channels-last and the same in row-major order, with every layout of
 * the result, and compares each element. */
static void compare_resize(const char *attributes, float height, float width) {
  enum { CHANNELS = 19 };
  float x[2][24 * CHANNELS], scale[4] = {1, 1, height, width};
  float room[24 * CHANNELS * 16];
  const int64_t four[1] = {4};
  tenon_attrs_t *attrs = attrs_of(op_of("core::resize"), attributes);
  tenon_tensor_t *scales = NULL;
  tenon_tensor_t *results[3] = {NULL, NULL, NULL}; /* the last one is given, row-major */
  CHECK_STATUS(
      tenon_tensor_borrow(scale, tenon_dtype(TENON_F32), 1, four, NULL, NULL, NULL, &scales),
      TENON_OK);
  for (int r = 0; r < 3; r++) {
    tenon_tensor_t *inputs[4] = {counting_tensor(x[r > 0], CHANNELS, r > 0, 0), NULL, scales, NULL};
    if (r == 2)
      CHECK_STATUS(tenon_tensor_borrow(room, tenon_dtype(TENON_F32), 4, results[0]->shape, NULL,
                                       NULL, NULL, &results[2]),
                   TENON_OK);
    CHECK_STATUS(tenon_op_call(op_of("core::resize"), attr_values(attrs), inputs, &results[r], 0),
                 TENON_OK);
    tenon_tensor_release(inputs[0]);
  }
  CHECK(results[0]->strides[1] != 1 && results[1]->strides[1] == 1);
  const int64_t plane = results[0]->shape[2] * results[0]->shape[3];
  const float *expected = results[0]->data;
  int mistakes = 0;
  for (int64_t i = 0; i < tenon_count(results[0]); i++) {
    const int64_t at =
        i / plane / CHANNELS * results[1]->strides[0] + i / plane % CHANNELS + i % plane * CHANNELS;
    mistakes += fabsf(((const float *)results[1]->data)[at] - expected[i]) > 1e-4f;
    mistakes += fabsf(room[i] - expected[i]) > 1e-4f;
  }
  if (!CHECK(mistakes == 0)) fprintf(stderr, "  %s by %g and %g\n", attributes, height, width);
  for (int r = 0; r < 3; r++)
    tenon_tensor_release(results[r]);
  tenon_tensor_release(scales);
  tenon_attrs_release(attrs);
}

static void compare_resizes(void) {
  static const char *const modes[] = {"mode='nearest'", "mode='linear'", "mode='cubic'",
                                      "mode='linear'; coordinates='align_corners'"};
  for (int m = 0; m < 4; m++) {
    compare_resize(modes[m], 2, 2);
    compare_resize(modes[m], 3, 0.5f);
    compare_resize(modes[m], 1, 1.7f);
  }
}

/* Runs the comparison in a process for each instruction set, because a process chooses once. */
static void compare_on_each_set(void (*compare)(void)) {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork();
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("transposed copies have the elements of their source on every instruction set") {
  compare_on_each_set(compare_transposes);
}

TEST("copies of rows have the elements of their source on every instruction set") {
  compare_on_each_set(compare_rows);
}

TEST("a result of concat lies channels-last if all tensors do, and has their elements") {
  for (int i = 0; i < 4; i++)
    check_join(i & 1, i & 2);
}

TEST("a sum lies channels-last if both tensors or the tensors that they are parts of do") {
  for (int i = 0; i < 4; i++)
    check_parts(i & 1, i & 2);
}

TEST("resize keeps x channels-last, and computes from and to every layout") {
  compare_on_each_set(compare_resizes);
}

TEST("batch_norm keeps x channels-last, and computes from and to every layout") {
  for (int i = 0; i < 16; i++)
    check_norm(i & 1, i & 2, i & 4, i & 8);
}

TEST("convolutions of f16 and bf16 by the identity keep every element on every instruction set") {
  compare_on_each_set(compare_identities);
}

/* Runs the kernel of a dtype with two channels, of which the second counts ten times, of an image
 * of 3 rows and 4 columns. Strides of 0 expand it. */
static void check_expanded(const char *dtype, int64_t row, int64_t column, const char *expected) {
  const tenon_op_t *op = op_of("core::conv");
  const int64_t shape[4] = {1, 2, 3, 4};
  const int64_t strides[4] = {16, 8, row, column};
  char text[100];
  tenon_tensor_t *inputs[4] = {NULL};
  tenon_tensor_t *y = NULL;
  tenon_attrs_t *attrs = attrs_of(op, NULL);
  snprintf(text, sizeof text, "%s[16] 1 2 3 4 9 9 9 9 5 6 7 8 9 9 9 9", dtype);
  tenon_tensor_t *numbers = tensor_of(text);
  snprintf(text, sizeof text, "%s[1, 2, 1, 1] 1 10", dtype);
  inputs[1] = tensor_of(text);
  CHECK_STATUS(
      tenon_tensor_borrow(numbers->data, numbers->dtype, 4, shape, strides, NULL, NULL, &inputs[0]),
      TENON_OK);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, &y, 0), TENON_OK);
  snprintf(text, sizeof text, "%s[1, 1, 3, 4] %s", dtype, expected);
  if (y) check_tensor(y, text, 0, __FILE__, __LINE__);
  tenon_attrs_release(attrs);
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(numbers);
  tenon_tensor_release(y);
}

static void compare_expanded(void) {
  static const char *const dtypes[] = {"f32", "f64"};
  for (int i = 0; i < 2; i++) {
    check_expanded(dtypes[i], 1, 0, "51 51 51 51 62 62 62 62 73 73 73 73");
    check_expanded(dtypes[i], 0, 1, "51 62 73 84 51 62 73 84 51 62 73 84");
    check_expanded(dtypes[i], 0, 0, "51 51 51 51 51 51 51 51 51 51 51 51");
  }
}

TEST("a convolution reads an image whose rows or columns are expanded, on every instruction set") {
  compare_on_each_set(compare_expanded);
}

TEST("nothing is left behind") { tenon_shutdown(); }
