/* Loops that read a transposed operand beside one in another order: by whole rows of planes, by
 * bands of rows that share cache lines, and converted. The results are compared with numbers that
 * the test finds by their indices. */
#include "check.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

typedef struct turned_t {
  int32_t ndim;
  int64_t shape[4]; /* of the result */
  int perm[4];      /* its axes are these of the transposed operand */
} turned_t;

static const turned_t cases[] = {
    {2, {7, 5}, {1, 0}},
    {2, {64, 64}, {1, 0}},
    {2, {33, 129}, {1, 0}},
    {2, {40, 1100}, {1, 0}},
    {2, {19, 5000}, {1, 0}},
    {2, {1, 3000}, {1, 0}},
    {2, {3000, 3}, {1, 0}},
    {3, {3, 37, 300}, {0, 2, 1}},
    {3, {5, 9, 65}, {2, 1, 0}},
    {4, {2, 40, 9, 11}, {0, 2, 3, 1}},
    {4, {2, 6, 7, 40}, {0, 3, 1, 2}},
    {4, {2, 9, 16, 64}, {0, 2, 1, 3}},
};

static const uint32_t dtypes[] = {TENON_F32, TENON_F64, TENON_F16, TENON_I8};

/* Small numbers, which all dtypes have. */
static int number_at(int64_t index, int of) { return (int)((index * 7 + of * 5) % 31) - 15; }

static tenon_tensor_t *make_operand(const turned_t *c, bool is_turned, uint32_t dtype) {
  int64_t shape[4];
  tenon_tensor_t *t = NULL, *as = NULL;
  for (int32_t i = 0; i < c->ndim; i++)
    shape[is_turned ? c->perm[i] : i] = c->shape[i];
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), c->ndim, shape, &t), TENON_OK);
  for (int64_t i = 0; i < tenon_count(t); i++)
    ((float *)t->data)[i] = (float)number_at(i, is_turned);
  tenon_attrs_t *attrs = NULL;
  char text[32];
  snprintf(text, sizeof text, "to=%s", tn_dtype_name(tenon_dtype(dtype)));
  attrs = attrs_of(op_of("core::cast"), text);
  CHECK_STATUS(tenon_op_call(op_of("core::cast"), attr_values(attrs), &t, &as, 0), TENON_OK);
  tenon_attrs_release(attrs);
  tenon_tensor_release(t);
  return as;
}

static void write_perm(const turned_t *c, char *perm) {
  int size = sprintf(perm, "perm=[");
  for (int32_t i = 0; i < c->ndim; i++)
    size += sprintf(perm + size, "%s%d", i ? "," : "", c->perm[i]);
  sprintf(perm + size, "]");
}

static tenon_executable_t *compile_turned(const turned_t *c, uint32_t dtype) {
  char perm[64];
  write_perm(c, perm);
  tenon_builder_t *b = graph_begin();
  graph_output(b, "y", graph_step(b, "core::transpose", perm, graph_input(b, "x", dtype, c->ndim)));
  return graph_compile(b, 0);
}

static double value_at(const tenon_tensor_t *t, int64_t i, uint32_t dtype) {
  return dtype == TENON_I8 ? (double)tensor_int(t, i) : tensor_float(t, i);
}

/* transpose(x) - y, and three more nodes behind it: a loop alone, and a region. */
static tenon_executable_t *compile_case(const turned_t *c, uint32_t dtype, bool is_region) {
  char perm[64];
  write_perm(c, perm);
  tenon_builder_t *b = graph_begin();
  const tenon_edge_t x =
      graph_step(b, "core::transpose", perm, graph_input(b, "x", dtype, c->ndim));
  const tenon_edge_t inputs[16] = {x, graph_input(b, "y", dtype, c->ndim)};
  tenon_edge_t z;
  graph_node(b, NULL, "core::sub", NULL, inputs, &z, 1);
  for (int i = 0; i < 3 && is_region; i++)
    z = graph_step(b, i == 1 ? "core::abs" : "core::neg", NULL, z);
  graph_output(b, "z", z);
  return graph_compile(b, 0);
}

static double expected_at(const turned_t *c, int64_t index, bool is_region) {
  int64_t strides[4];
  int64_t stride = 1;
  int64_t at = 0;
  int64_t shape[4];
  for (int32_t i = 0; i < c->ndim; i++)
    shape[c->perm[i]] = c->shape[i];
  for (int32_t i = c->ndim - 1; i >= 0; stride *= shape[i--])
    strides[i] = stride;
  int64_t rest = index;
  for (int32_t i = c->ndim - 1; i >= 0; i--) {
    at += rest % c->shape[i] * strides[c->perm[i]];
    rest /= c->shape[i];
  }
  const int found = number_at(at, 1) - number_at(index, 0);
  if (!is_region) return found;
  return found < 0 ? found : -found;
}

static void check_case(const turned_t *c, uint32_t dtype, bool is_region) {
  tenon_executable_t *e = compile_case(c, dtype, is_region);
  tenon_tensor_t *in[2] = {make_operand(c, true, dtype), make_operand(c, false, dtype)};
  tenon_tensor_t *out = NULL;
  int mistakes = 0;
  if (CHECK_STATUS(tenon_executable_run(e, in, &out, NULL), TENON_OK))
    for (int64_t i = 0; i < tenon_count(out); i++)
      mistakes += value_at(out, i, dtype) != expected_at(c, i, is_region);
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d mistakes: %dx%d..., dtype %u, %s\n", mistakes, (int)c->shape[0],
            (int)c->shape[1], (unsigned)dtype, is_region ? "region" : "loop");
  tenon_tensor_release(in[0]);
  tenon_tensor_release(in[1]);
  tenon_tensor_release(out);
  tenon_executable_release(e);
}

TEST("loops and regions read transposed operands beside others") {
  for (int threads = 1; threads <= 2; threads++) {
    tenon_threads_set(threads);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
        for (int is_region = 0; is_region < 2; is_region++)
          check_case(&cases[i], dtypes[k], is_region);
  }
}

TEST("copies of transposed tensors that leave a graph, in parts of whole cache lines") {
  static const turned_t large[] = {{2, {100, 1000}, {1, 0}},
                                   {2, {17, 5000}, {1, 0}},
                                   {2, {3000, 50}, {1, 0}},
                                   {4, {2, 65, 30, 31}, {0, 2, 3, 1}},
                                   {4, {1, 40, 56, 56}, {0, 2, 3, 1}}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
      const turned_t *c = &large[i];
      tenon_tensor_t *x = make_operand(c, true, dtypes[k]);
      tenon_executable_t *e = compile_turned(c, dtypes[k]);
      tenon_tensor_t *out = NULL;
      int mistakes = 0;
      if (CHECK_STATUS(tenon_executable_run(e, &x, &out, NULL), TENON_OK))
        for (int64_t at = 0; at < tenon_count(out); at++)
          mistakes += value_at(out, at, dtypes[k]) != expected_at(c, at, false) + number_at(at, 0);
      if (!CHECK(mistakes == 0)) fprintf(stderr, "  %d mistakes in case %d\n", mistakes, (int)i);
      tenon_tensor_release(x);
      tenon_tensor_release(out);
      tenon_executable_release(e);
    }
}

TEST("nothing is left behind") { tenon_shutdown(); }
