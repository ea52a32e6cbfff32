/* roi_align of random boxes, compared with sums of doubles over the samples of each bin, on every
 * instruction set that the processor has. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 80,
  BOXES = 3,
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct roi_case_t {
  int64_t channels, height, width;
  int64_t bins[2]; /* down and across */
  int64_t samples; /* in a bin, along each axis; 0: as many as pixels */
  bool is_half;    /* coordinates are half a pixel lower */
  bool is_max;
  uint32_t dtype;
} roi_case_t;

static roi_case_t random_case(int round) {
  roi_case_t c = {.channels = 1 + round % 67, .height = 1 + pick(20), .width = 1 + pick(20)};
  c.bins[0] = 1 + pick(5);
  c.bins[1] = 1 + pick(9);
  c.samples = pick(4);
  c.is_half = pick(2) == 0;
  c.is_max = pick(3) == 0;
  c.dtype = pick(3) == 0 ? TENON_F64 : TENON_F32;
  return c;
}

static tenon_tensor_t *random_tensor(uint32_t dtype, int32_t ndim, const int64_t *shape) {
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), ndim, shape, &x), TENON_OK);
  for (int64_t i = 0; i < tenon_count(x); i++) {
    double value = (double)(pick(2001) - 1000) / 1000;
    if (dtype == TENON_F64)
      ((double *)x->data)[i] = value;
    else
      ((float *)x->data)[i] = (float)value;
  }
  return x;
}

static void set_float(tenon_tensor_t *t, int64_t index, double value) {
  if (tensor_has(t, TENON_F64))
    ((double *)t->data)[index] = value;
  else
    ((float *)t->data)[index] = (float)value;
}

/* The four weighted pixels around a point: ONNX's bilinear interpolation. */
static void weigh_pixels(const roi_case_t *c, const tenon_tensor_t *x, int64_t plane, double at_y,
                         double at_x, double out[4]) {
  memset(out, 0, 4 * sizeof *out);
  if (at_y < -1 || at_y > (double)c->height || at_x < -1 || at_x > (double)c->width) return;
  at_y = fmin(fmax(at_y, 0), (double)(c->height - 1));
  at_x = fmin(fmax(at_x, 0), (double)(c->width - 1));
  for (int k = 0; k < 4; k++) {
    int64_t row = (int64_t)at_y + k / 2;
    int64_t column = (int64_t)at_x + k % 2;
    double weight = (1 - fabs(at_y - (double)row)) * (1 - fabs(at_x - (double)column));
    if (row >= c->height || column >= c->width) continue; /* there the weight is 0 */
    out[k] = weight * tensor_float(x, (plane * c->height + row) * c->width + column);
  }
}

/* The mean or the maximum of one bin of a box. */
static double pool_bin(const roi_case_t *c, const tenon_tensor_t *x, int64_t plane,
                       const double box[4], int64_t down, int64_t across) {
  const double shift = c->is_half ? 0.5 : 0;
  double size[2] = {box[3] - box[1], box[2] - box[0]};
  int64_t count[2];
  double sum = 0;
  double most = -INFINITY;
  for (int d = 0; d < 2; d++) {
    if (!c->is_half) size[d] = fmax(size[d], 1);
    size[d] /= (double)c->bins[d];
    count[d] = c->samples ? c->samples : (int64_t)ceil(size[d]);
  }
  for (int64_t i = 0; i < count[0]; i++)
    for (int64_t j = 0; j < count[1]; j++) {
      double parts[4];
      double at_y =
          box[1] - shift + size[0] * ((double)down + ((double)i + 0.5) / (double)count[0]);
      double at_x =
          box[0] - shift + size[1] * ((double)across + ((double)j + 0.5) / (double)count[1]);
      weigh_pixels(c, x, plane, at_y, at_x, parts);
      for (int k = 0; k < 4; k++) {
        sum += parts[k];
        most = fmax(most, parts[k]);
      }
    }
  return c->is_max ? most : sum / (double)(count[0] * count[1]);
}

static void fill_boxes(const roi_case_t *c, tenon_tensor_t *rois) {
  for (int64_t i = 0; i < BOXES; i++) {
    double left = (double)pick(8 * c->width) / 8;
    double top = (double)pick(8 * c->height) / 8;
    set_float(rois, 4 * i, left);
    set_float(rois, 4 * i + 1, top);
    set_float(rois, 4 * i + 2, left + (double)(1 + pick(64)) / 8);
    set_float(rois, 4 * i + 3, top + (double)(1 + pick(64)) / 8);
  }
}

static int count_mistakes(const roi_case_t *c, tenon_tensor_t *const *inputs,
                          const tenon_tensor_t *out) {
  int mistakes = 0;
  const double tolerance = c->dtype == TENON_F64 ? 1e-13 : 1e-5;
  for (int64_t index = 0; index < tenon_count(out); index++) {
    int64_t across = index % c->bins[1];
    int64_t down = index / c->bins[1] % c->bins[0];
    int64_t channel = index / (c->bins[1] * c->bins[0]) % c->channels;
    int64_t number = index / (c->bins[1] * c->bins[0] * c->channels);
    int64_t image = tensor_int(inputs[2], number);
    double box[4];
    for (int k = 0; k < 4; k++)
      box[k] = tensor_float(inputs[1], 4 * number + k);
    double expected = pool_bin(c, inputs[0], image * c->channels + channel, box, down, across);
    mistakes += !(fabs(tensor_float(out, index) - expected) <= tolerance);
  }
  return mistakes;
}

static void compare_case(const roi_case_t *c) {
  char text[200];
  const tenon_op_t *op = op_of("core::roi_align");
  const int64_t boxes = BOXES;
  tenon_tensor_t *outputs[1] = {NULL};
  tenon_tensor_t *inputs[3] = {
      random_tensor(c->dtype, 4, (int64_t[]){2, c->channels, c->height, c->width}),
      random_tensor(c->dtype, 2, (int64_t[]){BOXES, 4}), NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &boxes, &inputs[2]), TENON_OK);
  for (int64_t i = 0; i < BOXES; i++)
    ((int64_t *)inputs[2]->data)[i] = pick(2);
  fill_boxes(c, inputs[1]);
  snprintf(text, sizeof text,
           "mode=%s; coordinates=%s; output_height=%d; output_width=%d; "
           "sampling_ratio=%d",
           c->is_max ? "max" : "avg", c->is_half ? "half_pixel" : "output_half_pixel",
           (int)c->bins[0], (int)c->bins[1], (int)c->samples);
  tenon_attrs_t *attrs = attrs_of(op, text);
  int mistakes = -1;
  if (CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, outputs, 0), TENON_OK))
    mistakes = count_mistakes(c, inputs, outputs[0]);
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d wrong: [2, %d, %d, %d], %s, f%d\n", mistakes, (int)c->channels,
            (int)c->height, (int)c->width, text, c->dtype == TENON_F64 ? 64 : 32);
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(outputs[0]);
  tenon_attrs_release(attrs);
}

TEST("roi_align equals sums of doubles on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      for (int round = 0; round < ROUNDS; round++) {
        const roi_case_t c = random_case(round);
        compare_case(&c);
      }
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
