/* matmul_integer of random matrices, compared with sums of 64 bits, called alone and in a graph
 * with a constant b, on every instruction set that the processor has. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 200,
  MOST = 70 * 70,
  TEXT = 40000,
};

static uint64_t seed = 1618;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct matrix_case_t {
  char text[TEXT]; /* as for tensor_of */
  int32_t numbers[MOST];
} matrix_case_t;

/* Fills in numbers of u8 or i8, often the extreme ones of `range` numbers around the middle. shape
 * has `rank` extents. */
static void fill_matrix(matrix_case_t *m, bool is_signed, int64_t range, int32_t rank,
                        const int64_t *shape) {
  int64_t count = 1;
  int at = sprintf(m->text, "%s[", is_signed ? "i8" : "u8");
  for (int32_t i = 0; i < rank; i++) {
    count *= shape[i];
    at += sprintf(m->text + at, "%s%d", i ? "," : "", (int)shape[i]);
  }
  at += sprintf(m->text + at, "]");
  for (int64_t i = 0; i < count; i++) {
    int64_t number = 128 - range / 2 + (pick(3) ? pick(range) : pick(2) * (range - 1));
    m->numbers[i] = (int32_t)(is_signed ? number - 128 : number);
    at += sprintf(m->text + at, " %d", (int)m->numbers[i]);
  }
}

typedef struct product_case_t {
  int64_t m;
  int64_t n;
  int64_t k;
  matrix_case_t a;
  matrix_case_t b;
  matrix_case_t zeros[2];
  bool has_zero[2];
  bool is_vector[2]; /* a zero point for each row of a, or each column of b */
} product_case_t;

static void check_sums(const product_case_t *c, const tenon_tensor_t *out, const char *what) {
  int mistakes = out ? 0 : 1;
  for (int64_t i = 0; out && i < c->m; i++)
    for (int64_t j = 0; j < c->n; j++) {
      int64_t sum = 0;
      int64_t a_zero = c->has_zero[0] ? c->zeros[0].numbers[c->is_vector[0] ? i : 0] : 0;
      int64_t b_zero = c->has_zero[1] ? c->zeros[1].numbers[c->is_vector[1] ? j : 0] : 0;
      for (int64_t e = 0; e < c->k; e++)
        sum += (c->a.numbers[i * c->k + e] - a_zero) * (c->b.numbers[e * c->n + j] - b_zero);
      mistakes += ((const int32_t *)out->data)[i * c->n + j] != sum;
    }
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d mistakes, %s: %d x %d x %d\n", mistakes, what, (int)c->m, (int)c->k,
            (int)c->n);
}

static void call_product(const product_case_t *c) {
  const char *texts[4] = {c->a.text, c->b.text, c->has_zero[0] ? c->zeros[0].text : NULL,
                          c->has_zero[1] ? c->zeros[1].text : NULL};
  tenon_tensor_t *inputs[4] = {NULL};
  tenon_tensor_t *out = NULL;
  for (int i = 0; i < 4; i++)
    if (texts[i]) inputs[i] = tensor_of(texts[i]);
  CHECK_STATUS(tenon_op_call(op_of("core::matmul_integer"), NULL, inputs, &out, 0), TENON_OK);
  check_sums(c, out, "called");
  for (int i = 0; i < 4; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(out);
}

/* Adds the constant b, as it is or as a transposed view of a constant. */
static tenon_edge_t add_b(tenon_builder_t *b, const product_case_t *c, bool is_transposed) {
  static char text[TEXT];
  if (!is_transposed) return graph_constant(b, "b", c->b.text);
  int at = sprintf(text, "%.2s[%d,%d]", c->b.text, (int)c->n, (int)c->k);
  for (int64_t j = 0; j < c->n; j++)
    for (int64_t e = 0; e < c->k; e++)
      at += sprintf(text + at, " %d", (int)c->b.numbers[e * c->n + j]);
  return graph_step(b, "core::transpose", "perm=[1, 0]", graph_constant(b, "b", text));
}

static void run_product(const product_case_t *c, bool is_signed, bool is_transposed) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[16] = {-1, -1, -1, -1};
  tenon_edge_t y;
  inputs[0] = graph_input(b, "a", is_signed ? TENON_I8 : TENON_U8, 2);
  inputs[1] = add_b(b, c, is_transposed);
  if (c->has_zero[0]) inputs[2] = graph_constant(b, "a_zero", c->zeros[0].text);
  if (c->has_zero[1]) inputs[3] = graph_constant(b, "b_zero", c->zeros[1].text);
  graph_node(b, NULL, "core::matmul_integer", NULL, inputs, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *a = tensor_of(c->a.text);
  for (int round = 0; round < 2; round++) {
    tenon_tensor_t *out = NULL;
    CHECK_STATUS(tenon_executable_run(e, &a, &out, NULL), TENON_OK);
    check_sums(c, out, "compiled");
    tenon_tensor_release(out);
  }
  tenon_tensor_release(a);
  tenon_executable_release(e);
}

static void compare_random_products(void) {
  static product_case_t c;
  for (int round = 0; round < ROUNDS; round++) {
    bool is_signed[2] = {pick(2) == 0, pick(2) == 0};
    c.m = 1 + pick(pick(3) ? 20 : 3);
    c.k = 1 + pick(pick(3) ? 40 : 4);
    c.n = 1 + pick(pick(3) ? 69 : 3);
    int64_t ranges[] = {256, pick(2) ? 256 : 2 << pick(7)};
    fill_matrix(&c.a, is_signed[0], 256, 2, (int64_t[]){c.m, c.k});
    fill_matrix(&c.b, is_signed[1], ranges[1], 2, (int64_t[]){c.k, c.n});
    for (int side = 0; side < 2; side++) {
      int64_t each = side ? c.n : c.m;
      c.has_zero[side] = pick(3) != 0;
      c.is_vector[side] = pick(2) == 0;
      fill_matrix(&c.zeros[side], is_signed[side], ranges[side], c.is_vector[side], &each);
    }
    call_product(&c);
    run_product(&c, is_signed[0], pick(2) == 0);
  }
}

TEST("products of 8-bit numbers are exact on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512", "avx512vnni"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare_random_products();
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("vectors and batches") {
  tenon_tensor_t *a = tensor_of("u8[2,1,3] 1 2 3 4 5 255");
  tenon_tensor_t *b = tensor_of("i8[3] -128 2 1");
  tenon_tensor_t *inputs[4] = {a, b, NULL, NULL};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::matmul_integer"), NULL, inputs, &out, 0), TENON_OK);
  CHECK(out && out->ndim == 2 && ((int32_t *)out->data)[0] == -121 &&
        ((int32_t *)out->data)[1] == -247);
  tenon_tensor_release(out);
  out = NULL;
  tenon_tensor_release(b);
  inputs[1] = b = tensor_of("i8[2,3,2] 1 2 3 4 5 6 -1 -2 -3 -4 -5 -128");
  CHECK_STATUS(tenon_op_call(op_of("core::matmul_integer"), NULL, inputs, &out, 0), TENON_OK);
  static const int32_t expected[4] = {22, 28, -4 - 15 - 1275, -8 - 20 - 128 * 255};
  CHECK(out && tenon_count(out) == 4 && memcmp(out->data, expected, sizeof expected) == 0);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(out);
}

TEST("nothing is left behind") { tenon_shutdown(); }
