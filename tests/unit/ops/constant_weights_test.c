/* Convolutions and products of a graph with constant weights, which may be packed in another form:
 * joined groups, f16. All numbers are small multiples of powers of two, so the sums computed here
 * are exact. */
#include "check.h"
#include "core/convert.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  SIDE = 9, /* of an image */
  OUT = SIDE - 2,
};

static int32_t number_at(int64_t i) { return (int32_t)(i * 7 % 11 - 5); }

/* Makes a tensor whose element i is number_at(i). */
static tenon_tensor_t *make_tensor(uint32_t dtype, int32_t ndim, const int64_t *shape) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), ndim, shape, &t), TENON_OK);
  for (int64_t i = 0; t && i < tenon_count(t); i++) {
    float number = (float)number_at(i);
    if (dtype == TENON_F16)
      tn_convert(&number, tenon_dtype(TENON_F32), (uint16_t *)t->data + i, t->dtype, 1);
    else
      ((float *)t->data)[i] = number;
  }
  return t;
}

/* The sum for one result of a convolution by 3 x 3 without padding. */
static int32_t sum_of(int64_t group, int64_t channels, int64_t filters, int64_t filter, int64_t row,
                      int64_t column) {
  int64_t each = channels / group;
  int64_t first = filter / (filters / group) * each;
  int32_t sum = 0;
  for (int64_t c = 0; c < each; c++)
    for (int64_t i = 0; i < 3; i++)
      for (int64_t j = 0; j < 3; j++)
        sum += number_at(((first + c) * SIDE + row + i) * SIDE + column + j) *
               number_at(((filter * each + c) * 3 + i) * 3 + j);
  return sum;
}

static void check_convolution(uint32_t dtype, int64_t group, int64_t channels, int64_t filters) {
  char attrs[40];
  const char *name = dtype == TENON_F16 ? "f16" : "f32";
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[16] = {-1, -1, -1, -1};
  tenon_edge_t y;
  inputs[0] = graph_input(b, "x", dtype, 4);
  tenon_tensor_t *w = make_tensor(dtype, 4, (int64_t[]){filters, channels / group, 3, 3});
  CHECK_STATUS(tenon_builder_constant(b, "w", w, &inputs[1]), TENON_OK);
  tenon_tensor_release(w);
  sprintf(attrs, "group=%d", (int)group);
  graph_node(b, NULL, "core::conv", attrs, inputs, &y, 1);
  y = graph_step(b, "core::cast", "to=f32", y);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *x = make_tensor(dtype, 4, (int64_t[]){1, channels, SIDE, SIDE});
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_executable_run(e, &x, &out, NULL), TENON_OK);
  tenon_tensor_t *dense = NULL;
  if (out) CHECK_STATUS(tenon_tensor_copy(out, &dense), TENON_OK);
  int mistakes = dense && tenon_count(dense) == filters * OUT * OUT ? 0 : 1;
  for (int64_t f = 0; f < filters && !mistakes; f++)
    for (int64_t i = 0; i < OUT; i++)
      for (int64_t j = 0; j < OUT; j++)
        mistakes += ((float *)dense->data)[(f * OUT + i) * OUT + j] !=
                    (float)sum_of(group, channels, filters, f, i, j);
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %s, %d groups, %d channels, %d filters\n", name, (int)group, (int)channels,
            (int)filters);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_tensor_release(dense);
  tenon_executable_release(e);
}

TEST("groups of few channels, and weights of f16") {
  static const int64_t cases[][3] = {{1, 3, 5}, {4, 1, 1}, {4, 2, 1}, {4, 4, 3}, {8, 2, 4},
                                     {8, 4, 4}, {8, 6, 2}, {8, 3, 8}, {6, 4, 4}, {2, 8, 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t group = cases[i][0];
    check_convolution(i % 2 ? TENON_F32 : TENON_F16, group, cases[i][1] * group,
                      cases[i][2] * group);
  }
  check_convolution(TENON_F32, 8, 32, 32);
  check_convolution(TENON_F16, 8, 32, 32);
}

static void check_product(uint32_t dtype, int64_t rows, bool transposed) {
  enum { INNER = 80, COLUMNS = 64 };
  const int64_t shape[2] = {transposed ? COLUMNS : INNER, transposed ? INNER : COLUMNS};
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[3] = {-1, -1, -1};
  tenon_edge_t y;
  inputs[0] = graph_input(b, "x", dtype, 2);
  tenon_tensor_t *w = make_tensor(dtype, 2, shape);
  CHECK_STATUS(tenon_builder_constant(b, "w", w, &inputs[1]), TENON_OK);
  tenon_tensor_release(w);
  graph_node(b, NULL, "core::matmul", transposed ? "transpose_b=True" : "", inputs, &y, 1);
  y = graph_step(b, "core::cast", "to=f32", y);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *x = make_tensor(dtype, 2, (int64_t[]){rows, INNER});
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_executable_run(e, &x, &out, NULL), TENON_OK);
  int mistakes = out && tenon_count(out) == rows * COLUMNS ? 0 : 1;
  for (int64_t i = 0; i < rows && !mistakes; i++)
    for (int64_t j = 0; j < COLUMNS; j++) {
      int32_t sum = 0;
      for (int64_t k = 0; k < INNER; k++)
        sum += number_at(i * INNER + k) * number_at(transposed ? j * INNER + k : k * COLUMNS + j);
      mistakes += ((float *)out->data)[i * COLUMNS + j] != (float)sum;
    }
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  dtype %d, %d rows%s\n", (int)dtype, (int)rows,
            transposed ? ", transposed" : "");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_executable_release(e);
}

TEST("products with constant matrices of f16") {
  static const int64_t rows[] = {1, 2, 3, 16, 33};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    check_product(TENON_F16, rows[i], false);
    check_product(TENON_F16, rows[i], true);
    check_product(TENON_F32, rows[i], false);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
