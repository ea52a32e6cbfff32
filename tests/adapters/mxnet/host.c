/* A program that uses MXNet libraries through Tenon: calls, gradients, states, threads, and many
 * loads. Its arguments are libraries built from plain.c. It prints what is wrong and exits with 1,
 * or prints "ok". */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define CHECK(truth)                                                                               \
  do {                                                                                             \
    if (!(truth)) {                                                                                \
      fprintf(stderr, "line %d: " #truth ": %s\n", __LINE__, tenon_error());                       \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static tenon_tensor_t *matrix(int64_t rows, int64_t columns, float first) {
  tenon_tensor_t *made;
  CHECK(tenon_tensor_create(tenon_dtype(TENON_F32), 2, (int64_t[]){rows, columns}, &made) ==
        TENON_OK);
  for (int64_t i = 0; i < rows * columns; i++)
    ((float *)made->data)[i] = first + (float)i;
  return made;
}

static const tenon_op_t *find(const tenon_library_t *library, const char *name) {
  char full[200];
  const tenon_op_t *op;
  snprintf(full, sizeof full, "%s::%s", tenon_library_name(library), name);
  CHECK(tenon_op_find(full, &op) == TENON_OK);
  return op;
}

static void check(const tenon_tensor_t *t, const float *expected, int64_t count) {
  CHECK(tenon_count(t) == count);
  for (int64_t i = 0; i < count; i++)
    CHECK(((float *)t->data)[i] == expected[i]);
}

static void gradient(const tenon_library_t *library) {
  tenon_tensor_t *a = matrix(2, 3, 1);
  tenon_tensor_t *b = matrix(3, 1, 7);
  tenon_tensor_t *c = NULL;
  CHECK(tenon_tensor_require_grad(a, 1) == TENON_OK && tenon_tensor_require_grad(b, 1) == TENON_OK);
  CHECK(tenon_op_call(find(library, "t_gemm"), NULL, (tenon_tensor_t *[]){a, b}, &c, 0) ==
        TENON_OK);
  check(c, (float[]){50, 122}, 2);
  tenon_tensor_t *ones = matrix(2, 1, 1);
  ((float *)ones->data)[1] = 1;
  /* The second pass adds to the gradients of the first. */
  for (int pass = 1; pass <= 2; pass++) {
    CHECK(tenon_backward(&c, &ones, 1, TENON_GRAD_KEEP) == TENON_OK);
    const float p = (float)pass;
    check(tenon_tensor_grad(a), (float[]){7 * p, 8 * p, 9 * p, 7 * p, 8 * p, 9 * p}, 6);
    check(tenon_tensor_grad(b), (float[]){5 * p, 7 * p, 9 * p}, 3);
  }
  tenon_tensor_release(ones);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(c);
}

static void states(const tenon_library_t *library) {
  const tenon_op_t *op = find(library, "t_counter");
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  tenon_bound_t *bound[2];
  CHECK(tenon_attrs_create(op, &attrs) == TENON_OK &&
        tenon_attrs_float(attrs, "factor", 2) == TENON_OK);
  CHECK(tenon_attrs_values(attrs, &values) == TENON_OK);
  for (int i = 0; i < 2; i++)
    CHECK(tenon_bound_create(op, values, &bound[i]) == TENON_OK);
  tenon_attrs_release(attrs);
  tenon_tensor_t *x = matrix(1, 2, 10);
  for (int call = 1; call <= 3; call++)
    for (int i = 0; i < 2; i++) { /* Each call has an object of its own. */
      tenon_tensor_t *y = NULL;
      CHECK(tenon_bound_call(bound[i], &x, &y, 0) == TENON_OK);
      check(y, (float[]){20 + (float)call, 22 + (float)call}, 2);
      tenon_tensor_release(y);
    }
  for (int i = 0; i < 2; i++)
    tenon_bound_release(bound[i]);
  tenon_tensor_release(x);
}

static void *calls(void *argument) {
  const tenon_op_t *const *ops = argument;
  for (int i = 0; i < 300; i++) {
    tenon_tensor_t *a = matrix(2, 3, 1);
    tenon_tensor_t *b = matrix(3, 1, 7);
    tenon_tensor_t *made = NULL;
    CHECK(tenon_op_call(ops[0], NULL, (tenon_tensor_t *[]){a, b}, &made, 0) == TENON_OK);
    check(made, (float[]){50, 122}, 2);
    tenon_tensor_release(made);
    made = NULL;
    /* One object serves all threads. */
    CHECK(tenon_op_call(ops[1], NULL, &a, &made, 0) == TENON_OK);
    tenon_tensor_release(made);
    tenon_tensor_release(a);
    tenon_tensor_release(b);
  }
  return NULL;
}

static void threads(const tenon_library_t *library) {
  const tenon_op_t *ops[] = {find(library, "t_gemm"), find(library, "t_counter")};
  pthread_t all[4];
  for (int i = 0; i < 4; i++)
    CHECK(pthread_create(&all[i], NULL, calls, ops) == 0);
  for (int i = 0; i < 4; i++)
    CHECK(pthread_join(all[i], NULL) == 0);
  tenon_tensor_t *a = matrix(2, 3, 0);
  tenon_tensor_t *made = NULL;
  CHECK(tenon_op_call(ops[1], NULL, &a, &made, 0) == TENON_OK);
  CHECK(*(float *)made->data == 1201); /* 4 threads with 300 calls each, and this call */
  tenon_tensor_release(made);
  tenon_tensor_release(a);
}

/* The operators run beside standard nodes, with a number of rows that is known only in a run. */
static void graph(const tenon_library_t *library) {
  const tenon_op_t *relu;
  const tenon_op_t *op = find(library, "t_gemm");
  tenon_builder_t *builder;
  tenon_graph_t *made;
  tenon_executable_t *run;
  tenon_edge_t edges[4];
  const tenon_axis_t axes[] = {{-1, "n"}, {3, NULL}};
  tenon_tensor_t *b = matrix(3, 1, -8);
  tenon_tensor_t *a = matrix(2, 3, 1);
  tenon_tensor_t *out = NULL;
  CHECK(tenon_op_find("core::relu", &relu) == TENON_OK &&
        tenon_builder_create(&builder) == TENON_OK);
  CHECK(tenon_builder_input(builder, "a", tenon_dtype(TENON_F32), 2, axes, &edges[0]) == TENON_OK);
  CHECK(tenon_builder_constant(builder, "b", b, &edges[1]) == TENON_OK);
  CHECK(tenon_builder_node(builder, "product", op, NULL,
                           (tenon_operand_t[]){{1, &edges[0]}, {1, &edges[1]}}, &edges[2],
                           1) == TENON_OK);
  CHECK(tenon_builder_node(builder, "relu", relu, NULL, &(tenon_operand_t){1, &edges[2]}, &edges[3],
                           1) == TENON_OK);
  CHECK(tenon_builder_output(builder, "y", edges[3]) == TENON_OK &&
        tenon_builder_finish(builder, &made) == TENON_OK);
  tenon_builder_release(builder);
  CHECK(tenon_executable_create(made, NULL, &run) == TENON_OK);
  for (int i = 0; i < 3; i++) {
    out = NULL;
    CHECK(tenon_executable_run(run, &a, &out, NULL) == TENON_OK);
    check(out, (float[]){0, 0}, 2);
    tenon_tensor_release(out);
  }
  tenon_executable_release(run);
  tenon_graph_release(made);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
}

static size_t memory(void) { return mallinfo2().uordblks; }

/* The file is read once, and each round frees what Tenon made of it. The test switches off the
 * allocator's caches of free blocks, which mallinfo2 would count as memory in use. */
static void many(const char *path) {
  size_t before = 0;
  for (int i = 0; i <= 1000; i++) {
    tenon_library_t *library;
    CHECK(tenon_library_load(path, TENON_LOAD_UNLOADABLE, &library) == TENON_OK);
    tenon_tensor_t *a = matrix(2, 3, 1);
    tenon_tensor_t *b = matrix(3, 1, 7);
    tenon_tensor_t *c = NULL;
    CHECK(tenon_op_call(find(library, "t_gemm"), NULL, (tenon_tensor_t *[]){a, b}, &c, 0) ==
          TENON_OK);
    tenon_tensor_release(a);
    tenon_tensor_release(b);
    tenon_tensor_release(c);
    tenon_library_release(library);
    const tenon_op_t *op;
    CHECK(tenon_op_find("plain_11::t_gemm", &op) == TENON_NOT_FOUND);
    if (i == 100) before = memory(); /* By now the tables of names no longer grow. */
  }
  if (memory() > before && !getenv("TENON_TEST_SANITIZED")) {
    fprintf(stderr, "900 loads and releases left %zu bytes\n", memory() - before);
    exit(1);
  }
}

int main(int count, char **paths) {
  for (int i = 1; i < count; i++) {
    tenon_library_t *library, *again;
    CHECK(tenon_library_load(paths[i], 0, &library) == TENON_OK &&
          tenon_library_load(paths[i], 0, &again) == TENON_OK);
    CHECK(library == again);
    tenon_library_release(again);
    gradient(library);
    states(library);
    threads(library);
    graph(library);
    tenon_library_release(library);
  }
  tenon_shutdown();
  many(paths[count - 1]);
  tenon_shutdown();
  puts("ok");
  return 0;
}
