/* conv of f32 with constant weights, dense, in groups and depthwise, compared with sums of integers
 * over the positions under each window, on every instruction set that the processor has. All
 * numbers are small integers, so the sums are exact in f32 in any order. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../ops/conv_tile.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 300,
  RANK = 3, /* spatial axes, at most */
};

static uint64_t seed = 314159;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct convolution_case_t {
  int32_t rank;
  int64_t images, channels, filters, group; /* channels and filters of one group */
  int64_t in[RANK], out[RANK], kernel[RANK], stride[RANK], dilation[RANK];
  int64_t before[RANK], after[RANK];
  bool has_bias, has_residual;
  int activation; /* index of activations */
  char attrs[640];
} convolution_case_t;

static const char *const activations[] = {
    "", "; activation=relu", "; activation=clip; alpha=-9.0; beta=30.0", "; activation=silu"};

static double clamp(double x, double low, double high) { return fmin(fmax(x, low), high); }

static double activate(int activation, double x) {
  if (activation == 1) return fmax(x, 0);
  if (activation == 2) return clamp(x, -9, 30);
  return activation == 3 ? x / (1 + exp(-x)) : x;
}

static void write_list(char *to, const char *name, int32_t count, const int64_t *first,
                       const int64_t *second) {
  to += sprintf(to, "%s=[", name);
  for (int32_t i = 0; i < count; i++)
    to += sprintf(to, "%s%d", i ? "," : "", (int)first[i]);
  for (int32_t i = 0; second && i < count; i++)
    to += sprintf(to, ",%d", (int)second[i]);
  sprintf(to, "]; ");
}

static void write_attributes(convolution_case_t *c) {
  c->attrs[0] = 0;
  write_list(c->attrs, "strides", c->rank, c->stride, NULL);
  write_list(c->attrs + strlen(c->attrs), "dilations", c->rank, c->dilation, NULL);
  write_list(c->attrs + strlen(c->attrs), "pads", c->rank, c->before, c->after);
  sprintf(c->attrs + strlen(c->attrs), "group=%d%s", (int)c->group, activations[c->activation]);
}

static void make_case(convolution_case_t *c) {
  static const int64_t most[RANK] = {150, 17, 6}; /* positions, by the number of axes */
  *c = (convolution_case_t){.rank = (int32_t)(1 + pick(RANK)), .images = 1 + pick(2)};
  c->group = pick(3) ? 1 : 1 + pick(5);
  c->channels = pick(2) ? 1 + pick(12) : 8 + pick(40);
  c->filters = pick(8) ? 1 + pick(50) : 64;
  if (pick(12) == 0) { /* so many that the cache limits the positions of a block */
    c->group = 1;
    c->channels = 500 + pick(800);
    c->filters = 8 + pick(20);
  }
  if (pick(4) == 0) { /* depthwise */
    c->group = 1 + pick(20);
    c->channels = 1;
    c->filters = 1;
  }
  c->has_bias = pick(2);
  c->has_residual = pick(3) == 0;
  c->activation = (int)pick(4);
  for (int32_t i = 0; i < c->rank; i++) {
    c->kernel[i] = pick(2) ? 1 + pick(4) : 1;
    c->stride[i] = 1 + pick(3);
    c->dilation[i] = 1 + pick(3);
    c->before[i] = pick(4);
    c->after[i] = pick(4);
    const int64_t span = (c->kernel[i] - 1) * c->dilation[i] + 1;
    c->in[i] = span + pick(most[c->rank - 1]);
    c->out[i] = (c->in[i] + c->before[i] + c->after[i] - span) / c->stride[i] + 1;
  }
  write_attributes(c);
}

/* A row-major tensor of small integers. */
static tenon_tensor_t *make_numbers(int64_t first, int64_t second, int32_t rank,
                                    const int64_t *extents) {
  int64_t shape[2 + RANK] = {first, second};
  tenon_tensor_t *t = NULL;
  for (int32_t i = 0; i < rank; i++)
    shape[2 + i] = extents[i];
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), rank < 0 ? 1 : 2 + rank, shape, &t),
               TENON_OK);
  for (int64_t i = 0; t && i < tenon_count(t); i++)
    ((float *)t->data)[i] = (float)(pick(9) - 4);
  return t;
}

/* The sum over a window that begins at `start`, for one filter and image. */
static double sum_of(const convolution_case_t *c, const float *x, const float *w,
                     const int64_t *start) {
  int64_t taps = 1;
  int64_t plane = 1;
  double sum = 0;
  for (int32_t i = 0; i < c->rank; i++) {
    taps *= c->kernel[i];
    plane *= c->in[i];
  }
  for (int64_t t = 0; t < taps; t++) {
    int64_t rest = t;
    int64_t offset = 0;
    int64_t stride = 1;
    bool is_inside = true;
    for (int32_t i = c->rank - 1; i >= 0; i--) {
      const int64_t at = start[i] + rest % c->kernel[i] * c->dilation[i];
      rest /= c->kernel[i];
      is_inside = is_inside && at >= 0 && at < c->in[i];
      offset += at * stride;
      stride *= c->in[i];
    }
    for (int64_t ch = 0; is_inside && ch < c->channels; ch++)
      sum += (double)x[ch * plane + offset] * (double)w[ch * taps + t];
  }
  return sum;
}

/* The result with this number in row-major order. */
static double result_of(const convolution_case_t *c, tenon_tensor_t *const *t, int64_t number) {
  const int64_t filters = c->filters * c->group;
  int64_t start[RANK];
  int64_t rest = number;
  for (int32_t i = c->rank - 1; i >= 0; i--) {
    start[i] = rest % c->out[i] * c->stride[i] - c->before[i];
    rest /= c->out[i];
  }
  const int64_t filter = rest % filters;
  const int64_t image = rest / filters;
  const int64_t group = image * c->group + filter / c->filters;
  const int64_t each = tenon_count(t[0]) / (c->images * c->group);
  double sum = sum_of(c, (const float *)t[0]->data + group * each,
                      (const float *)t[1]->data + filter * (tenon_count(t[1]) / filters), start);
  if (t[2]) sum += (double)((const float *)t[2]->data)[filter];
  if (t[3]) sum += (double)((const float *)t[3]->data)[number];
  return activate(c->activation, sum);
}

static void check_case(const convolution_case_t *c) {
  const int64_t filters = c->filters * c->group;
  tenon_tensor_t *t[4] = {make_numbers(c->images, c->channels * c->group, c->rank, c->in),
                          make_numbers(filters, c->channels, c->rank, c->kernel)};
  if (c->has_bias) t[2] = make_numbers(filters, 1, -1, NULL);
  if (c->has_residual) t[3] = make_numbers(c->images, filters, c->rank, c->out);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t edges[16] = {-1, -1, -1, -1};
  tenon_edge_t y;
  tenon_axis_t axes[2 + RANK];
  const bool is_known = pick(4) > 0; /* depthwise kernels keep row-major memory only then */
  for (int32_t i = 0; i < t[0]->ndim; i++)
    axes[i] = (tenon_axis_t){is_known ? t[0]->shape[i] : -1, NULL};
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2 + c->rank, axes, &edges[0]),
               TENON_OK);
  CHECK_STATUS(tenon_builder_constant(b, "w", t[1], &edges[1]), TENON_OK);
  if (t[2]) CHECK_STATUS(tenon_builder_constant(b, "bias", t[2], &edges[2]), TENON_OK);
  if (t[3]) edges[3] = graph_input(b, "residual", TENON_F32, 2 + c->rank);
  graph_node(b, NULL, "core::conv", c->attrs, edges, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *given[2] = {t[0], t[3]};
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *dense = NULL;
  CHECK_STATUS(tenon_executable_run(e, given, &out, NULL), TENON_OK);
  if (out) CHECK_STATUS(tenon_tensor_copy(out, &dense), TENON_OK);
  int64_t mistakes = dense ? 0 : 1;
  for (int64_t i = 0; dense && i < tenon_count(dense); i++) {
    const double expected = result_of(c, t, i);
    const double most = c->activation == 3 ? 2e-6 * (1 + fabs(expected)) : 0;
    mistakes += !(fabs((double)((const float *)dense->data)[i] - expected) <= most);
  }
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d mistakes: %d images of %d channels, %d filters, %s\n", (int)mistakes,
            (int)c->images, (int)c->channels, (int)c->filters, c->attrs);
  for (int i = 0; i < 4; i++)
    tenon_tensor_release(t[i]);
  tenon_tensor_release(out);
  tenon_tensor_release(dense);
  tenon_executable_release(e);
}

static void compare_random_convolutions(void) {
  static convolution_case_t c;
  for (int round = 0; round < ROUNDS; round++) {
    make_case(&c);
    check_case(&c);
  }
}

TEST("convolutions with constant weights are exact on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
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

/* one tile after another */

enum {
  TAPS = 3,
  CHANNELS = 19,
  POSITIONS = 26,
  PANEL = 32, /* filters, at most */
  PITCH = POSITIONS + CONV_TILE_HALF_ROWS,
};

static float tile_x[TAPS * POSITIONS][CHANNELS + 2];
static float tile_panel[TAPS * CHANNELS * PANEL];
static float tile_bias[PANEL];
static float tile_more[POSITIONS][PANEL + 1];

static void fill_numbers(void *numbers, size_t size) {
  float *to = numbers;
  for (size_t i = 0; i < size / sizeof *to; i++)
    to[i] = (float)(pick(9) - 4);
}

/* The sum for a position and a filter of a panel of `width` filters. */
static float tile_sum(int64_t position, int64_t filter, int64_t width, bool has_more) {
  float sum = tile_bias[filter];
  for (int64_t k = 0; k < TAPS * CHANNELS; k++)
    sum += tile_x[k / CHANNELS * POSITIONS + position][2 + k % CHANNELS] *
           tile_panel[k * width + filter];
  if (has_more) sum += tile_more[position][1 + filter];
  return (float)clamp(sum, -20, 50);
}

static void check_tile(const conv_tiles_t *tiles, bool is_half, int64_t first, int64_t end,
                       int64_t filters) {
  const int64_t width = is_half ? tiles->filters / 2 : tiles->filters;
  static float result[POSITIONS][PANEL + 2];
  const float *x[TAPS * PITCH];
  const float *more[POSITIONS];
  float *out[POSITIONS];
  const bool has_more = filters % 2 == 0;
  for (int64_t i = 0; i < TAPS * PITCH; i++)
    x[i] = tile_x[i / PITCH * POSITIONS + (i % PITCH < POSITIONS ? i % PITCH : 0)];
  for (int64_t i = 0; i < POSITIONS; i++) {
    out[i] = result[i];
    more[i] = tile_more[i];
    for (int64_t f = 0; f < PANEL + 2; f++)
      result[i][f] = 1e9f;
  }
  const conv_tile_t tile = {.x = x,
                            .pitch = PITCH,
                            .taps = TAPS,
                            .channels = CHANNELS,
                            .first = 2,
                            .panel = tile_panel,
                            .bias = tile_bias,
                            .out = out,
                            .next = end % 2 ? tile_panel : NULL,
                            .residual = has_more ? more : NULL,
                            .filter = 1,
                            .filters = filters,
                            .is_clamped = 1,
                            .low = -20,
                            .high = 50};
  (is_half ? tiles->half : tiles->whole)(&tile, first, end);
  int mistakes = 0;
  for (int64_t i = 0; i < POSITIONS; i++)
    for (int64_t f = -1; f <= PANEL; f++) {
      const bool is_written = i >= first && i < end && f >= 0 && f < filters;
      const float expected = is_written ? tile_sum(i, f, width, has_more) : 1e9f;
      mistakes += result[i][1 + f] != expected;
    }
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %s panel, positions %d to %d, %d filters\n", is_half ? "half" : "whole",
            (int)first, (int)end, (int)filters);
}

TEST("tiles of every size are exact and write nothing else") {
  const conv_tiles_t *all[3] = {&core_conv_tiles, NULL, NULL};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    all[1] = &core_conv_tiles_avx2;
  if (__builtin_cpu_supports("avx512f")) all[2] = &core_conv_tiles_avx512;
#endif
  fill_numbers(tile_x, sizeof tile_x);
  fill_numbers(tile_panel, sizeof tile_panel);
  fill_numbers(tile_bias, sizeof tile_bias);
  fill_numbers(tile_more, sizeof tile_more);
  for (int t = 0; t < 3; t++)
    for (int is_half = 0; all[t] && is_half < 2; is_half++)
      for (int64_t filters = 1; filters <= all[t]->filters / (1 + is_half); filters++)
        for (int64_t end = 1; end <= POSITIONS; end++)
          check_tile(all[t], is_half, filters % 3 % end, end, filters);
}

TEST("nothing is left behind") { tenon_shutdown(); }
