/* Reshapes of values that are not row-major. Where strides can express the result, the plan makes a
 * view of the value; elsewhere it copies the value first. The results are those of reshaping a
 * row-major copy, which the test makes itself. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum { AXES = 4 };

typedef struct regroup_t {
  int32_t ndim;
  int64_t shape[AXES]; /* of x, which has the elements 0, 1, ... */
  int64_t perm[AXES];  /* of the transpose before the reshape */
  const char *to;      /* the shape of the result, as a constant */
  bool copies;         /* whether the plan copies the transposed value */
} regroup_t;

static const regroup_t cases[] = {
    /* channels-last images and their lists of positions, both ways */
    {4, {2, 3, 4, 5}, {0, 3, 1, 2}, "i64[3] 2 5 12", false},
    {3, {2, 12, 5}, {0, 2, 1}, "i64[4] 2 5 3 4", false},
    {3, {2, 12, 5}, {0, 2, 1}, "i64[5] 2 1 5 12 1", false},
    /* channels in groups, and groups in other groups */
    {4, {1, 3, 4, 6}, {0, 3, 1, 2}, "i64[5] 1 2 3 3 4", false},
    {4, {1, 3, 4, 6}, {0, 3, 1, 2}, "i64[4] 3 2 2 6", false},
    /* extents of 1 have any strides */
    {4, {2, 1, 1, 6}, {0, 3, 1, 2}, "i64[2] 2 6", false},
    {4, {1, 6, 1, 4}, {2, 3, 0, 1}, "i64[3] 2 2 6", false},
    {2, {3, 4}, {1, 0}, "i64[4] 2 2 3 1", false},
    /* axes that lie apart become one, entirely or in part */
    {2, {3, 4}, {1, 0}, "i64[1] 12", true},
    {3, {2, 3, 4}, {0, 2, 1}, "i64[2] 8 3", true},
    {3, {2, 3, 4}, {0, 2, 1}, "i64[2] 2 12", true},
    {3, {2, 3, 4}, {2, 0, 1}, "i64[2] 4 6", false},
    {3, {2, 3, 4}, {2, 0, 1}, "i64[3] 2 2 6", false},
    {3, {2, 3, 4}, {2, 0, 1}, "i64[3] 2 4 3", true},
    {2, {4, 6}, {1, 0}, "i64[2] 8 3", true},
};

/* The element that the transposed value has at place `index` in row-major order. */
static float element_at(const regroup_t *c, int64_t index) {
  int64_t strides[AXES];
  int64_t stride = 1;
  int64_t at = 0;
  for (int32_t i = c->ndim - 1; i >= 0; stride *= c->shape[i--])
    strides[i] = stride;
  for (int32_t i = c->ndim - 1; i >= 0; i--) {
    at += index % c->shape[c->perm[i]] * strides[c->perm[i]];
    index /= c->shape[c->perm[i]];
  }
  return (float)at;
}

static tenon_tensor_t *count_up(const regroup_t *c) {
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), c->ndim, c->shape, &x), TENON_OK);
  for (int64_t i = 0; i < tenon_count(x); i++)
    ((float *)x->data)[i] = (float)i;
  return x;
}

/* reshape(transpose(x)) as the first result; the second one is its negative. */
static tenon_executable_t *compile_case(const regroup_t *c) {
  tenon_builder_t *b = graph_begin();
  char perm[64];
  int size = sprintf(perm, "perm=[");
  for (int32_t i = 0; i < c->ndim; i++)
    size += sprintf(perm + size, "%s%d", i ? ", " : "", (int)c->perm[i]);
  sprintf(perm + size, "]");
  tenon_edge_t y = graph_step(b, "core::transpose", perm, graph_input(b, "x", TENON_F32, c->ndim));
  tenon_edge_t inputs[16] = {y, graph_constant(b, NULL, c->to)};
  graph_node(b, NULL, "core::reshape", NULL, inputs, &y, 1);
  graph_output(b, "y", y);
  graph_output(b, "z", graph_step(b, "core::neg", NULL, y));
  return graph_compile(b, 0);
}

static void check_case(const regroup_t *c) {
  tenon_executable_t *e = compile_case(c);
  tenon_tensor_t *x = count_up(c);
  tenon_tensor_t *shape = tensor_of(c->to);
  tenon_tensor_t *outputs[2] = {NULL};
  char *plan = NULL;
  CHECK_STATUS(tenon_executable_run(e, &x, outputs, NULL), TENON_OK);
  int mistakes = 0;
  for (int o = 0; o < 2 && outputs[o]; o++) {
    const tenon_tensor_t *y = outputs[o];
    CHECK(y->ndim == tenon_count(shape) && !(y->keys & TN_KEY_STRIDED));
    for (int32_t d = 0; d < y->ndim; d++)
      CHECK(y->shape[d] == ((const int64_t *)shape->data)[d]);
    for (int64_t i = 0; i < tenon_count(y); i++)
      mistakes += ((const float *)y->data)[i] != (o ? -element_at(c, i) : element_at(c, i));
  }
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  const bool copies = plan && strstr(plan, "(dense copy)") != NULL;
  if (!CHECK(mistakes == 0) || !CHECK(copies == c->copies))
    fprintf(stderr, "  to %s: %d mistakes\n%s", c->to, mistakes, plan ? plan : "");
  tenon_text_release(plan);
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(outputs[1]);
  tenon_tensor_release(shape);
  tenon_tensor_release(x);
  tenon_executable_release(e);
}

TEST("a reshape of a value that is not row-major is a view where strides can express it") {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_case(&cases[i]);
}

TEST("nothing is left behind") { tenon_shutdown(); }
