/* matmul_nbits of random numbers whose sums are exact in f32, compared with sums of doubles, called
 * alone and in a graph with constant weights, on every instruction set that the processor has. */
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 4,
  ROWS_MOST = 100,
  COLUMNS_MOST = 70,
  BLOCKS_MOST = 3,
  SIZE_MOST = 256,
  K_MOST = 8192,
  TEXT = 1 << 21,
};
enum {
  NO_ZEROS,
  PACKED_ZEROS,
  FLOAT_ZEROS,
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct text_t { /* a tensor, as for tensor_of */
  size_t length;
  char text[TEXT];
} text_t;

__attribute__((format(printf, 2, 3))) static void add_text(text_t *t, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  t->length += (size_t)vsnprintf(t->text + t->length, TEXT - t->length, format, arguments);
  va_end(arguments);
}

typedef struct nbits_case_t {
  int64_t m, n, k, blocks, size;
  int bits;
  int zeros;
  bool has_bias;
  double x[ROWS_MOST][K_MOST];
  double weights[COLUMNS_MOST][K_MOST]; /* unpacked */
  double bias[COLUMNS_MOST];
  text_t texts[5];
} nbits_case_t;

static void start_text(text_t *t, const char *format, long long a, long long b, long long c) {
  t->length = 0;
  add_text(t, format, a, b, c);
}
/* Calls start_text with a format whose last numbers may be unused. */
#define START(t, format, a, b, c)                                                                  \
  start_text(t, format, (long long)(a), (long long)(b), (long long)(c))

/* Writes the codes of one column, packed, and keeps them in the weights. */
static void fill_codes(nbits_case_t *c, int64_t column) {
  const int64_t most = (int64_t)1 << c->bits;
  for (int64_t i = 0; i < c->blocks * c->size; i += 8 / c->bits) {
    int64_t byte = 0;
    for (int64_t at = i; at < i + 8 / c->bits; at++) {
      const int64_t code = pick(3) ? pick(most) : pick(2) * (most - 1);
      byte |= code << (at - i) * c->bits;
      c->weights[column][at] = (double)code;
    }
    add_text(&c->texts[1], " %d", (int)byte);
  }
}

/* Applies a scale and a zero point to each block of a column. */
static void fill_blocks(nbits_case_t *c, int64_t column) {
  const int64_t most = (int64_t)1 << c->bits;
  int64_t byte = 0;
  int filled = 0; /* bits of the byte */
  for (int64_t block = 0; block < c->blocks; block++) {
    const double scale = (double)(1 << pick(4)) / 4;
    double zero = (double)(most / 2);
    add_text(&c->texts[2], " %g", scale);
    if (c->zeros != NO_ZEROS) zero = (double)pick(most);
    if (c->zeros == FLOAT_ZEROS) {
      add_text(&c->texts[3], " %g", zero);
    } else if (c->zeros == PACKED_ZEROS) {
      byte |= (int64_t)zero << filled;
      filled += c->bits;
      if (filled == 8 || block == c->blocks - 1) {
        add_text(&c->texts[3], " %d", (int)byte);
        byte = 0;
        filled = 0;
      }
    }
    for (int64_t i = 0; i < c->size; i++) {
      double *weight = &c->weights[column][block * c->size + i];
      *weight = (*weight - zero) * scale;
    }
  }
}

static void fill_case(nbits_case_t *c) {
  const int64_t zero_bytes = (c->blocks * c->bits + 7) / 8;
  START(&c->texts[0], "f32[%lld,%lld]", c->m, c->k, 0);
  for (int64_t i = 0; i < c->m; i++)
    for (int64_t k = 0; k < c->k; k++) {
      c->x[i][k] = (double)(pick(17) - 8);
      add_text(&c->texts[0], " %g", c->x[i][k]);
    }
  START(&c->texts[1], "u8[%lld,%lld,%lld]", c->n, c->blocks, c->size * c->bits / 8);
  START(&c->texts[2], "f32[%lld,%lld]", c->n, c->blocks, 0);
  if (c->zeros == FLOAT_ZEROS)
    START(&c->texts[3], "f32[%lld,%lld]", c->n, c->blocks, 0);
  else
    START(&c->texts[3], "u8[%lld,%lld]", c->n, zero_bytes, 0);
  START(&c->texts[4], "f32[%lld]", c->n, 0, 0);
  for (int64_t column = 0; column < c->n; column++) {
    fill_codes(c, column);
    fill_blocks(c, column);
    c->bias[column] = (double)pick(100);
    add_text(&c->texts[4], " %g", c->bias[column]);
  }
}

static bool is_present(const nbits_case_t *c, int input) {
  return input < 3 || (input == 3 ? c->zeros != NO_ZEROS : c->has_bias);
}

static void check_product(const nbits_case_t *c, const tenon_tensor_t *out, const char *what) {
  int mistakes = !out || tenon_count(out) != c->m * c->n;
  for (int64_t i = 0; !mistakes && i < c->m; i++)
    for (int64_t j = 0; j < c->n; j++) {
      double sum = c->has_bias ? c->bias[j] : 0;
      for (int64_t k = 0; k < c->k; k++)
        sum += c->x[i][k] * c->weights[j][k];
      mistakes += (double)((const float *)out->data)[i * c->n + j] != sum;
    }
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d mistakes, %s: %d x %d x %d, %d bits, blocks of %d, zero points %d\n",
            mistakes, what, (int)c->m, (int)c->k, (int)c->n, c->bits, (int)c->size, c->zeros);
}

static void write_attributes(const nbits_case_t *c, char out[64]) {
  snprintf(out, 64, "bits=%d; block_size=%d", c->bits, (int)c->size);
}

static void call_case(const nbits_case_t *c) {
  const char *texts[5];
  char attributes[64];
  tenon_tensor_t *out = NULL;
  write_attributes(c, attributes);
  for (int i = 0; i < 5; i++)
    texts[i] = is_present(c, i) ? c->texts[i].text : NULL;
  CHECK_STATUS(call_op("core::matmul_nbits", attributes, texts, &out), TENON_OK);
  check_product(c, out, "called");
  tenon_tensor_release(out);
}

static void run_case(const nbits_case_t *c) {
  static const char *const names[5] = {"x", "weights", "scales", "zero_points", "bias"};
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[16] = {-1, -1, -1, -1, -1};
  tenon_edge_t y;
  char attributes[64];
  write_attributes(c, attributes);
  inputs[0] = graph_input(b, "x", TENON_F32, 2);
  for (int i = 1; i < 5; i++)
    if (is_present(c, i)) inputs[i] = graph_constant(b, names[i], c->texts[i].text);
  graph_node(b, NULL, "core::matmul_nbits", attributes, inputs, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  for (int round = 0; round < 2; round++) {
    tenon_tensor_t *out = NULL;
    CHECK_STATUS(graph_run(e, TEXTS(c->texts[0].text), &out), TENON_OK);
    check_product(c, out, "compiled");
    tenon_tensor_release(out);
  }
  tenon_executable_release(e);
}

static void check_case(nbits_case_t *c) {
  fill_case(c);
  call_case(c);
  run_case(c);
}

static void compare_nbits_products(void) {
  static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, ROWS_MOST};
  static nbits_case_t c;
  for (c.bits = 2; c.bits <= 8; c.bits *= 2)
    for (c.size = 16; c.size <= SIZE_MOST; c.size *= 2)
      for (int round = 0; round < ROUNDS; round++) {
        c.m = rows[pick(sizeof rows / sizeof *rows)];
        c.blocks = 1 + pick(BLOCKS_MOST);
        c.k = c.blocks * c.size - pick(2) * pick(c.size);
        c.n = 1 + pick(COLUMNS_MOST);
        c.zeros = (int)pick(3);
        c.has_bias = pick(2) == 0;
        check_case(&c);
      }
  /* so many weights in a column that 70 columns are two panels */
  c.m = 17;
  c.n = COLUMNS_MOST;
  c.k = K_MOST;
  c.bits = 4;
  c.size = SIZE_MOST;
  c.blocks = K_MOST / SIZE_MOST;
  c.zeros = PACKED_ZEROS;
  c.has_bias = true;
  check_case(&c);
}

TEST("products with packed weights are exact on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare_nbits_products();
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

static void check_gradient(const nbits_case_t *c, const tenon_tensor_t *dy,
                           const tenon_tensor_t *dx) {
  int mistakes = !dx || tenon_count(dx) != c->m * c->k;
  for (int64_t i = 0; !mistakes && i < c->m; i++)
    for (int64_t k = 0; k < c->k; k++) {
      double sum = 0;
      for (int64_t j = 0; j < c->n; j++)
        sum += (double)((const float *)dy->data)[i * c->n + j] * c->weights[j][k];
      mistakes += (double)((const float *)dx->data)[i * c->k + k] != sum;
    }
  CHECK(mistakes == 0);
}

TEST("the gradient of x is that of the unpacked weights") {
  static nbits_case_t c = {
      .m = 3, .n = 5, .k = 40, .blocks = 3, .size = 16, .bits = 4, .zeros = PACKED_ZEROS};
  tenon_tensor_t *inputs[5] = {NULL};
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *dx = NULL;
  fill_case(&c);
  for (int i = 0; i < 5; i++)
    if (is_present(&c, i)) inputs[i] = tensor_of(c.texts[i].text);
  tenon_tensor_t *dy = tensor_of("f32[3,5] 1 2 3 4 5 -1 -2 -3 -4 -5 7 0 1 0 -7");
  const tenon_op_t *op = op_of("core::matmul_nbits");
  tenon_attrs_t *attrs = attrs_of(op, "bits=4; block_size=16");
  CHECK_STATUS(tenon_tensor_require_grad(inputs[0], 1), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, &out, 0), TENON_OK);
  check_product(&c, out, "recorded");
  CHECK_STATUS(tenon_gradients(&out, &dy, 1, inputs, 1, 0, &dx), TENON_OK);
  check_gradient(&c, dy, dx);
  for (int i = 0; i < 5; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(out);
  tenon_tensor_release(dy);
  tenon_tensor_release(dx);
  tenon_attrs_release(attrs);
}

TEST("rows with leading axes, and a result without rows") {
  tenon_tensor_t *out = NULL;
  /* Two blocks of 16 weights of 8 bits: 128 stands for 0. */
#define SIXTEEN(x)                                                                                 \
  x " " x " " x " " x " " x " " x " " x " " x " " x " " x " " x " " x " " x " " x " " x " " x
  const char *texts[5] = {"f32[2,1,17] " SIXTEEN("1") " 2 " SIXTEEN("-1") " 3",
                          "u8[1,2,16] " SIXTEEN("129") " " SIXTEEN("130"), "f32[1,2] 0.5 4", NULL,
                          NULL};
  CHECK_STATUS(call_op("core::matmul_nbits", "bits=8; block_size=16", texts, &out), TENON_OK);
  check_tensor(out, "f32[2,1,1] 24 16", 0, __FILE__, __LINE__);
  tenon_tensor_release(out);
  out = NULL;
  texts[0] = "f32[0,17]";
  CHECK_STATUS(call_op("core::matmul_nbits", "bits=8; block_size=16", texts, &out), TENON_OK);
  CHECK(out && out->ndim == 2 && tenon_count(out) == 0);
  tenon_tensor_release(out);
}

TEST("nothing is left behind") { tenon_shutdown(); }
