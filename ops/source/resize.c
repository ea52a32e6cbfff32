/* Resize of f32, nearest and linear, for devices that compile, with scales that are whole numbers
 * or 1/2, 1/4, ... Positions in the input are then fractions of integers, which are exact without
 * doubles and equal to those of ../interpolation.c. Other scales are declined.
 * Invariant: a result is a sum over the corners of a cell; corners outside take the value of the
 * edge. */
#ifndef TENON_ON_DEVICE
#include "../dtype_scalar.h"
#include "../interpolation.h"
#include "launch.h"
#include <math.h>
#endif

#define AXES 8
typedef struct grid_t {
  int64_t rank;
  int64_t count;
  int64_t x_first;
  int64_t y_first;
  int64_t out[AXES];
  int64_t in[AXES];
  int64_t x_stride[AXES];
  int64_t y_stride[AXES];
  int64_t times[AXES];
  int64_t plus[AXES];
  int64_t over[AXES]; /* result i is at (i times + plus) / over */
  int32_t resized;
  int32_t rounding; /* bit a: axis a is resized */
} grid_t;

FUNCTION int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); } /* b > 0 */
FUNCTION int64_t inside(int64_t at, int64_t in) {
  if (at < 0) return 0;
  return at >= in ? in - 1 : at;
}
/* Does a position with the fractional part part / (2 * over) round up? */
FUNCTION int64_t rounds_up(int64_t part, int64_t over, int32_t rounding) {
  if (part <= 0) return 0;
  if (rounding == 0) return part > over;
  return rounding == 1 ? part >= over : rounding == 3;
}

TENON_SOURCE_3(resize_nearest, IN, float, x, OUT, float, y, VALUE, grid_t, g) {
  TENON_EACH(e, g.count) {
    int64_t rest = e;
    int64_t from = g.x_first;
    int64_t to = g.y_first;
    for (int64_t a = g.rank - 1; a >= 0; a--) {
      int64_t i = rest % g.out[a];
      int64_t n = i * g.times[a] + g.plus[a];
      int64_t below = floor_of(n, g.over[a]);
      int64_t part = 2 * (n - below * g.over[a]); /* numerator of a fraction over 2 over[a] */
      int64_t up = rounds_up(part, g.over[a], g.rounding);
      from += inside(below + up, g.in[a]) * g.x_stride[a];
      to += i * g.y_stride[a];
      rest /= g.out[a];
    }
    y[to] = x[from];
  }
}

TENON_SOURCE_3(resize_linear, IN, float, x, OUT, float, y, VALUE, grid_t, g) {
  TENON_EACH(e, g.count) {
    int64_t rest = e;
    int64_t to = g.y_first;
    int64_t base = g.x_first;
    int64_t low[AXES], high[AXES];
    float share[AXES];
    float sum = 0;
    for (int64_t a = g.rank - 1; a >= 0; a--) {
      int64_t i = rest % g.out[a];
      int64_t n = i * g.times[a] + g.plus[a];
      int64_t below = floor_of(n, g.over[a]);
      low[a] = inside(below, g.in[a]) * g.x_stride[a];
      high[a] = inside(below + 1, g.in[a]) * g.x_stride[a];
      share[a] = (float)(n - below * g.over[a]) / (float)g.over[a];
      if (!(g.resized >> a & 1)) base += low[a];
      to += i * g.y_stride[a];
      rest /= g.out[a];
    }
    for (int32_t corner = 0; corner < 1 << g.rank; corner++) {
      int64_t from = base;
      float weight = 1;
      if (corner & ~g.resized) continue;
      for (int64_t a = 0; a < g.rank; a++) {
        if (!(g.resized >> a & 1)) continue;
        from += corner >> a & 1 ? high[a] : low[a];
        weight *= corner >> a & 1 ? share[a] : 1 - share[a];
      }
      if (weight != 0) sum += weight * x[from];
    }
    y[to] = sum;
  }
}

#ifndef TENON_ON_DEVICE
enum {
  K_NEAREST,
  K_LINEAR,
};
TENON_CODE(core_source_resize_code, {"resize_nearest", resize_nearest},
           {"resize_linear", resize_linear})

/* Sets (i times + plus) / over for an axis with an exact fraction as scale. Returns 0 if the scale
 * is not exact. */
static int set_fraction(grid_t *g, int32_t at, const axis_t *axis, int64_t mode) {
  double whole = axis->scale >= 1 ? axis->scale : 1 / axis->scale;
  int is_exact = whole == floor(whole) && whole < 1 << 20 &&
                 (double)axis->in * axis->scale == (double)axis->out;
  if (axis->scale < 1)
    is_exact = is_exact && ((int64_t)whole & ((int64_t)whole - 1)) == 0 && 1 / whole == axis->scale;
  if (!is_exact) return 0;
  /* in / out */
  int64_t in = axis->scale >= 1 ? 1 : (int64_t)whole;
  int64_t out = axis->scale >= 1 ? (int64_t)whole : 1;
  g->times[at] = in;
  g->plus[at] = 0;
  g->over[at] = out;
  if (mode == ALIGN_CORNERS) {
    g->times[at] = axis->out > 1 ? axis->in - 1 : 0;
    g->over[at] = axis->out > 1 ? axis->out - 1 : 1;
  } else if (mode == PYTORCH_HALF_PIXEL && axis->out == 1) {
    g->times[at] = 0;
    g->plus[at] = -1;
    g->over[at] = 2;
  } else if (mode != ASYMMETRIC) {
    g->times[at] = 2 * in;
    g->plus[at] = in - out;
    g->over[at] = 2 * out;
  }
  return 1;
}

static tenon_status_t resize_run(tenon_call_t *call) {
  enum {
    ROI = 1,
    SCALES,
    SIZES,
  };
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *y = call->outputs[0];
  const tenon_value_t *attrs = call->attrs;
  resize_t r = {call->host,         call, attrs, x->ndim, call->inputs[ROI], call->inputs[SCALES],
                call->inputs[SIZES]};
  int64_t mode = attrs[RESIZE_MODE].as.i;
  int64_t coordinates = attrs[RESIZE_COORDINATES].as.i;
  axis_t axes[AXES] = {{0}};
  grid_t g = {.rank = x->ndim,
              .count = tenon_count(y),
              .x_first = below(x),
              .y_first = below(y),
              .rounding = (int32_t)attrs[RESIZE_NEAREST].as.i};
  if (x->ndim > AXES) return DECLINE(call, "the source kernel supports at most eight axes");
  if (mode == CUBIC || coordinates == TF_CROP_AND_RESIZE || attrs[RESIZE_ANTIALIAS].as.i)
    return DECLINE(
        call, "the source kernel supports nearest and linear, without a region or antialiasing");
  for (int32_t i = 0; i < x->ndim; i++)
    axes[i].in = x->shape[i];
  TENON_TRY(core_resize_axes(&r, axes));
  for (int32_t i = 0; i < x->ndim; i++) {
    g.out[i] = axes[i].out;
    g.in[i] = axes[i].in;
    g.x_stride[i] = x->strides[i];
    g.y_stride[i] = y->strides[i];
    g.times[i] = g.over[i] = 1;
    if (!axes[i].resized || axes[i].scale == 1) continue;
    g.resized |= 1 << i;
    if (!set_fraction(&g, i, &axes[i], coordinates))
      return DECLINE(
          call,
          "the source kernel scales by whole numbers or 1/2, 1/4, ..., but axis %d is scaled by %g",
          (int)i, axes[i].scale);
  }
  const tenon_kernel_argument_t arguments[] = {tenon_in(x), tenon_out(y), TENON_VALUE(g)};
  return tenon_each(call, &core_source_resize_code, mode == NEAREST ? K_NEAREST : K_LINEAR, g.count,
                    arguments, 3);
}

/* clang-format off */
TENON_ITEMS(core_source_resize,
  TENON_EXTEND("core::resize", TENON_SOURCE("f32 strided", resize_run)))
/* clang-format on */
#endif
