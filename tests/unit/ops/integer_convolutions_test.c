/* conv_integer and qlinear_conv of random tensors, compared with sums of 64 bits over the positions
 * under each window, called alone and in a graph with constant filters, on every instruction set
 * that the processor has. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 200,
  MOST = 1 << 18,
  RANK = 2, /* spatial axes, at most */
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct numbers_t {
  char text[1 << 21]; /* as for tensor_of */
  int32_t at[MOST];
} numbers_t;

/* Fills in numbers, often the extreme ones of `range` numbers around the middle. */
static void fill_numbers(numbers_t *n, const char *dtype, int64_t range, int32_t rank,
                         const int64_t *shape) {
  int64_t count = 1;
  int64_t low = (strcmp(dtype, "i8") ? 128 : 0) - range / 2;
  int at = sprintf(n->text, "%s[", dtype);
  for (int32_t i = 0; i < rank; i++) {
    count *= shape[i];
    at += sprintf(n->text + at, "%s%d", i ? "," : "", (int)shape[i]);
  }
  at += sprintf(n->text + at, "]");
  for (int64_t i = 0; i < count; i++) {
    n->at[i] = (int32_t)(low + (pick(3) ? pick(range) : pick(2) * (range - 1)));
    at += sprintf(n->text + at, " %d", (int)n->at[i]);
  }
}

typedef struct convolution_case_t {
  int32_t rank;
  int64_t images, channels, filters, group; /* channels and filters of one group */
  int64_t in[RANK], out[RANK], kernel[RANK], stride[RANK], dilation[RANK], before[RANK];
  bool is_signed[2];
  bool has_vector; /* the filters have a zero point and a scale each */
  numbers_t x, w, zeros[2];
  char attrs[512];
} convolution_case_t;

static int64_t product_of(const int64_t *extents, int32_t rank) {
  int64_t product = 1;
  for (int32_t i = 0; i < rank; i++)
    product *= extents[i];
  return product;
}

static void make_attributes(convolution_case_t *c, const int64_t *after) {
  static const char *const names[] = {"strides", "dilations", "pads"};
  const int64_t *lists[] = {c->stride, c->dilation, c->before};
  int at = sprintf(c->attrs, "group=%d", (int)c->group);
  for (int n = 0; n < 3; n++) {
    at += sprintf(c->attrs + at, "; %s=[", names[n]);
    for (int32_t i = 0; i < c->rank; i++)
      at += sprintf(c->attrs + at, "%s%d", i ? ", " : "", (int)lists[n][i]);
    for (int32_t i = 0; n == 2 && i < c->rank; i++)
      at += sprintf(c->attrs + at, ", %d", (int)after[i]);
    at += sprintf(c->attrs + at, "]");
  }
}

static void make_case(convolution_case_t *c) {
  int64_t after[RANK];
  bool is_depthwise = pick(3) == 0;
  c->rank = pick(4) ? 2 : 1;
  c->images = 1 + pick(2);
  c->channels = is_depthwise ? 1 : 1 + pick(9);
  c->filters = is_depthwise ? 1 + pick(2) : 1 + pick(20);
  c->group = is_depthwise || pick(4) == 0 ? 1 + pick(4) : 1;
  bool is_pointwise = pick(4) == 0;
  bool is_dense = pick(2) == 0; /* moves by 1 */
  for (int32_t i = 0; i < c->rank; i++) {
    const int64_t most = pick(4) ? 4 : 7;
    c->kernel[i] = is_pointwise ? 1 : 1 + pick(most);
    c->stride[i] = is_dense ? 1 : 1 + pick(3);
    c->dilation[i] = 1 + (pick(4) == 0);
    c->before[i] = is_pointwise ? 0 : pick(3);
    after[i] = is_pointwise ? 0 : pick(3);
    int64_t span = (c->kernel[i] - 1) * c->dilation[i] + 1;
    c->in[i] = span + pick(pick(3) ? 12 : 40);
    c->out[i] = (c->in[i] + c->before[i] + after[i] - span) / c->stride[i] + 1;
  }
  make_attributes(c, after);
  int64_t x_shape[2 + RANK] = {c->images, c->channels * c->group};
  int64_t w_shape[2 + RANK] = {c->filters * c->group, c->channels};
  memcpy(x_shape + 2, c->in, sizeof c->in);
  memcpy(w_shape + 2, c->kernel, sizeof c->kernel);
  c->has_vector = pick(2) == 0;
  int64_t range = pick(2) ? 256 : 2 << pick(7); /* of weights */
  for (int side = 0; side < 2; side++)
    c->is_signed[side] = pick(2) == 0;
  fill_numbers(&c->x, c->is_signed[0] ? "i8" : "u8", 256, 2 + c->rank, x_shape);
  fill_numbers(&c->w, c->is_signed[1] ? "i8" : "u8", range, 2 + c->rank, w_shape);
  fill_numbers(&c->zeros[0], c->is_signed[0] ? "i8" : "u8", 256, 0, NULL);
  fill_numbers(&c->zeros[1], c->is_signed[1] ? "i8" : "u8", range, c->has_vector, w_shape);
}

/* The sum of one result; `pixel` counts its positions in row-major order. */
static int64_t sum_of(const convolution_case_t *c, int64_t image, int64_t filter, int64_t pixel) {
  int64_t taps = product_of(c->kernel, c->rank);
  int64_t in_pixels = product_of(c->in, c->rank);
  int64_t w_zero = c->zeros[1].at[c->has_vector ? filter : 0];
  int64_t sum = 0;
  for (int64_t e = 0; e < c->channels * taps; e++) {
    int64_t tap = e % taps;
    int64_t at = pixel;
    int64_t offset = 0;
    int64_t step = 1;
    bool is_inside = true;
    for (int32_t i = c->rank - 1; i >= 0; i--) {
      int64_t position =
          at % c->out[i] * c->stride[i] - c->before[i] + tap % c->kernel[i] * c->dilation[i];
      is_inside &= position >= 0 && position < c->in[i];
      offset += position * step;
      step *= c->in[i];
      at /= c->out[i];
      tap /= c->kernel[i];
    }
    if (!is_inside) continue;
    int64_t channel = filter / c->filters * c->channels + e / taps;
    int64_t x = c->x.at[(image * c->channels * c->group + channel) * in_pixels + offset];
    sum += (x - c->zeros[0].at[0]) * (c->w.at[filter * c->channels * taps + e] - w_zero);
  }
  return sum;
}

/* The scales are powers of two, so that products with them are exact. */
enum { Y_ZERO = 3 };
static float w_scale_of(const convolution_case_t *c, int64_t filter) {
  return c->has_vector && filter % 2 ? 0x1p-11f : 0x1p-9f;
}

static int64_t narrowed(const convolution_case_t *c, int64_t filter, int64_t sum) {
  double value = rint((double)(sum + filter) * w_scale_of(c, filter)) + Y_ZERO;
  if (value < 0) return 0;
  return value > 255 ? 255 : (int64_t)value;
}

static void check_results(const convolution_case_t *c, const tenon_tensor_t *out, bool is_narrow,
                          const char *what) {
  int64_t pixels = product_of(c->out, c->rank);
  int64_t filters = c->filters * c->group;
  int mistakes = out && tenon_count(out) == c->images * filters * pixels ? 0 : 1;
  for (int64_t i = 0; !mistakes && i < tenon_count(out); i++) {
    int64_t filter = i / pixels % filters;
    int64_t expected = sum_of(c, i / pixels / filters, filter, i % pixels);
    int64_t found = is_narrow ? ((const uint8_t *)out->data)[i] : ((const int32_t *)out->data)[i];
    if (is_narrow) expected = narrowed(c, filter, expected);
    mistakes += found != expected;
  }
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %s: x of %.24s..., w of %.24s..., %s\n", what, c->x.text, c->w.text,
            c->attrs);
}

/* Texts of the scale of w and of the bias, which is the number of the filter. */
static void make_scales(const convolution_case_t *c, char *scale, char *bias) {
  int64_t filters = c->filters * c->group;
  int at = sprintf(bias, "i32[%d]", (int)filters);
  for (int64_t f = 0; f < filters; f++)
    at += sprintf(bias + at, " %d", (int)f);
  at = c->has_vector ? sprintf(scale, "f32[%d]", (int)filters) : sprintf(scale, "f32[]");
  for (int64_t f = 0; f < (c->has_vector ? filters : 1); f++)
    at += sprintf(scale + at, " %.10g", (double)w_scale_of(c, f) * 4);
}

static void run_convolution(const convolution_case_t *c, bool is_narrow, bool is_compiled) {
  char scale[4096], bias[4096];
  make_scales(c, scale, bias);
  const char *plain[16] = {c->x.text, c->w.text, c->zeros[0].text, c->zeros[1].text};
  const char *narrow[16] = {c->x.text,        "f32[] 0.5", c->zeros[0].text, c->w.text, scale,
                            c->zeros[1].text, "f32[] 2",   "u8[] 3",         bias};
  const char *const *texts = is_narrow ? narrow : plain;
  const char *name = is_narrow ? "core::qlinear_conv" : "core::conv_integer";
  tenon_tensor_t *out = NULL;
  if (!is_compiled) {
    CHECK_STATUS(call_op(name, c->attrs, texts, &out), TENON_OK);
    check_results(c, out, is_narrow, "called");
    tenon_tensor_release(out);
    return;
  }
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[16] = {-1};
  tenon_edge_t y;
  inputs[0] = graph_input(b, "x", c->is_signed[0] ? TENON_I8 : TENON_U8, 2 + c->rank);
  for (int i = 1; i < (is_narrow ? 9 : 4); i++)
    inputs[i] = graph_constant(b, (char[]){'c', (char)('0' + i), 0}, texts[i]);
  graph_node(b, NULL, name, c->attrs, inputs, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *x = tensor_of(c->x.text);
  for (int round = 0; round < 2; round++) {
    CHECK_STATUS(tenon_executable_run(e, &x, &out, NULL), TENON_OK);
    check_results(c, out, is_narrow, "compiled");
    tenon_tensor_release(out);
    out = NULL;
  }
  tenon_tensor_release(x);
  tenon_executable_release(e);
}

static void compare_random_convolutions(void) {
  static convolution_case_t c;
  for (int round = 0; round < ROUNDS; round++) {
    make_case(&c);
    run_convolution(&c, false, round % 2);
    run_convolution(&c, true, round % 2);
  }
}

TEST("convolutions of 8-bit numbers are exact on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512", "avx512vnni"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare_random_convolutions();
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

/* A convolution of rows of 700 or 3000 numbers, with one channel for each filter or with six. */
static void compare_wide(int64_t channels, int64_t width, int64_t stride, const char *dtype) {
  static convolution_case_t c;
  c = (convolution_case_t){.rank = 2, .images = 1, .channels = channels, .filters = 1, .group = 1};
  c.is_signed[0] = strcmp(dtype, "i8") == 0;
  c.in[0] = 9;
  c.in[1] = width;
  for (int32_t i = 0; i < 2; i++) {
    c.kernel[i] = 3;
    c.stride[i] = stride;
    c.dilation[i] = 1;
    c.before[i] = 1;
    c.out[i] = (c.in[i] - 1) / stride + 1;
  }
  make_attributes(&c, c.before);
  fill_numbers(&c.x, dtype, 256, 4, (int64_t[]){1, channels, 9, width});
  fill_numbers(&c.w, "u8", 256, 4, (int64_t[]){1, channels, 3, 3});
  fill_numbers(&c.zeros[0], dtype, 256, 0, NULL);
  fill_numbers(&c.zeros[1], "u8", 256, 0, NULL);
  run_convolution(&c, false, false);
  run_convolution(&c, true, true);
}

TEST("a wide depthwise row and a large image are computed in parts") {
  compare_wide(1, 3000, 1, "u8");
  compare_wide(1, 3000, 2, "u8");
  compare_wide(1, 3000, 3, "u8");
  compare_wide(6, 700, 1, "u8");
  compare_wide(6, 700, 1, "i8");
}

TEST("nothing is left behind") { tenon_shutdown(); }
