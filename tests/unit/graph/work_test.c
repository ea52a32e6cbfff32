/* Profiles: the bytes and operations of each node. Expected numbers are worked out in the tables:
 * an operation is a multiplication or an addition. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

typedef struct case_t {
  const char *op;
  const char *attrs; /* NULL: the defaults */
  int32_t ndim[3];   /* of the inputs; 0: there is none */
  int64_t shape[3][4];
  double bytes; /* 4 for each element */
  double operations;
} case_t;

static tenon_span_t first_span(tenon_executable_t *e, tenon_tensor_t **in) {
  tenon_profile_t *profile = NULL;
  tenon_tensor_t *out[4] = {NULL};
  tenon_span_t span = {.size = sizeof span};
  CHECK_STATUS(tenon_profile_create(&profile), TENON_OK);
  CHECK_STATUS(tenon_executable_run(e, in, out, profile), TENON_OK);
  CHECK_STATUS(tenon_profile_span(profile, 0, &span), TENON_OK);
  span.name = span.kind = "";
  tenon_profile_release(profile);
  for (int i = 0; i < 4; i++)
    tenon_tensor_release(out[i]);
  return span;
}

static void check_case(const case_t *c) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t edges[16];
  tenon_edge_t result;
  tenon_tensor_t *in[3] = {NULL};
  for (int i = 0; i < 16; i++)
    edges[i] = -1;
  for (int i = 0; i < 3 && c->ndim[i]; i++) {
    const char *const names[] = {"a", "b", "c"};
    edges[i] = graph_input(b, names[i], TENON_F32, c->ndim[i]);
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), c->ndim[i], c->shape[i], &in[i]),
                 TENON_OK);
    memset(in[i]->data, 0, (size_t)tenon_count(in[i]) * sizeof(float));
  }
  graph_node(b, "node", c->op, c->attrs, edges, &result, 1);
  graph_output(b, "y", result);
  tenon_executable_t *e = graph_compile(b, TENON_COMPILE_PLAIN);
  const tenon_span_t span = first_span(e, in);
  if (!CHECK(span.bytes == c->bytes && span.operations == c->operations))
    fprintf(stderr, "  %s: %g bytes, %g operations\n", c->op, span.bytes, span.operations);
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(in[i]);
  tenon_executable_release(e);
}

TEST("a profile counts the bytes and operations of products, convolutions, attention and layers") {
  static const case_t cases[] = {
      /* 30 sums of 4 products */
      {"core::matmul", NULL, {3, 2}, {{2, 3, 4}, {4, 5}}, 4 * (24 + 20 + 30), 2 * 30 * 4},
      {"core::matmul", NULL, {1, 2}, {{4}, {4, 5}}, 4 * (4 + 20 + 5), 2 * 5 * 4},
      {"core::gemm", "trans_a=True", {2, 2}, {{4, 3}, {4, 5}}, 4 * (12 + 20 + 15), 2 * 15 * 4},
      /* 27 sums of 2 x 3 x 3 products */
      {"core::conv", NULL, {4, 4}, {{1, 2, 5, 5}, {3, 2, 3, 3}}, 4 * (50 + 54 + 27), 2 * 27 * 18},
      /* 18 elements, each times 3 x 2 x 2 weights */
      {"core::conv_transpose",
       NULL,
       {4, 4},
       {{1, 2, 3, 3}, {2, 3, 2, 2}},
       4 * (18 + 24 + 3 * 16),
       2 * 18 * 12},
      /* 2 heads, 3 queries, 5 keys, 4 elements: the scores, and their products with the values */
      {"core::attention",
       NULL,
       {4, 4, 4},
       {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}},
       4 * (24 + 40 + 40 + 24),
       2 * 2 * (2 * 3 * 5 * 4)},
      /* 7 steps of 2 rows, each times 4 x 4 x 3 weights of the input and 4 x 4 x 4 of the state */
      {"core::lstm",
       NULL,
       {3, 3, 3},
       {{7, 2, 3}, {1, 16, 3}, {1, 16, 4}},
       4 * (42 + 48 + 64 + 56),
       2 * 7 * 2 * (48 + 64)},
      {"core::relu", NULL, {2}, {{6, 7}}, 4 * 2 * 42, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_case(&cases[i]);
}

TEST("a lookup reads as many bytes as it returns") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t edges[16] = {graph_input(b, "table", TENON_F32, 2),
                            graph_constant(b, "rows", "i64[2] 7 3"), -1, -1};
  tenon_edge_t result;
  int64_t shape[2] = {100, 4};
  tenon_tensor_t *table = NULL;
  graph_node(b, "node", "core::gather", NULL, edges, &result, 1);
  graph_output(b, "y", result);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &table), TENON_OK);
  memset(table->data, 0, 400 * sizeof(float));
  /* two rows of 4 floats are read and written; two indices of 8 bytes are read */
  CHECK(first_span(e, &table).bytes == 2 * (2 * 4 * 4) + 2 * 8);
  tenon_tensor_release(table);
  tenon_executable_release(e);
}

TEST("the bytes of a region are those of the values outside it, each counted once") {
  enum { COUNT = 20000 }; /* more than a region runs as a whole */
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = graph_input(b, "y", TENON_F32, 1);
  tenon_edge_t sum, product;
  int64_t shape[1] = {COUNT};
  tenon_tensor_t *in[2] = {NULL};
  graph_node(b, "sum", "core::add", NULL, (tenon_edge_t[16]){x, y}, &sum, 1);
  graph_node(b, "product", "core::mul", NULL, (tenon_edge_t[16]){sum, y}, &product, 1);
  graph_output(b, "z", product);
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &in[i]), TENON_OK);
    memset(in[i]->data, 0, COUNT * sizeof(float));
  }
  CHECK(first_span(e, in).bytes == 3.0 * COUNT * sizeof(float)); /* x, y and z, but not the sum */
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(in[i]);
  tenon_executable_release(e);
}
