/* Writes reductions, and what computes along axes: softmax, normalisations, sums up to a position,
 * the position of the greatest element. */
#include <string.h>

#include "write/formula.h"

/* reductions */

typedef struct reduction_t {
  const char *name;   /* of the core operator */
  const char *before; /* a formula of each element; NULL: none */
  const char *op;
  const char *after; /* a formula of the result a and the count b; NULL: none */
} reduction_t;

static const reduction_t reductions[] = {
    {"core::reduce_sum", NULL, "stablehlo.add", NULL},
    {"core::reduce_mean", NULL, "stablehlo.add", "divide(a, b)"},
    {"core::reduce_max", NULL, "stablehlo.maximum", NULL},
    {"core::reduce_min", NULL, "stablehlo.minimum", NULL},
    {"core::reduce_prod", NULL, "stablehlo.multiply", NULL},
    {"core::reduce_l1", "abs(a)", "stablehlo.add", NULL},
    {"core::reduce_l2", "multiply(a, a)", "stablehlo.add", "sqrt(a)"},
    {"core::reduce_log_sum", NULL, "stablehlo.add", "log(a)"},
    {"core::reduce_sum_square", "multiply(a, a)", "stablehlo.add", NULL},
};

static double start_of(const char *op, tenon_dtype_t dtype) {
  if (strcmp(op, "stablehlo.maximum") == 0) return hlo_lowest(dtype);
  if (strcmp(op, "stablehlo.minimum") == 0) return hlo_highest(dtype);
  return strcmp(op, "stablehlo.multiply") == 0;
}

/* Reads the axes of a reduction: all of them if none are stated. Returns their number; -1 if the
 * operator gives its input. */
static int32_t read_axes(hlo_write_t *w, int32_t ndim, int64_t *axes) {
  int32_t count = hlo_known_ints(w, 1, axes, TENON_RANK_MAX);
  for (int32_t i = 0; i < count; i++)
    axes[i] = hlo_axis(w, axes[i], ndim);
  if (count) return count;
  if (hlo_write_int(w, "noop_with_empty_axes")) return -1;
  for (int32_t i = 0; i < ndim; i++)
    axes[i] = i;
  return ndim;
}

static hlo_val_t extent_product(hlo_write_t *w, const hlo_val_t *a, const int64_t *axes,
                                int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; i++)
    product *= a->dims[axes[i]];
  return hlo_number(w, a->dtype, (double)product);
}

static void write_reduction(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t a = hlo_in(w, 0);
  int64_t axes[TENON_RANK_MAX];
  const reduction_t *r = reductions;
  int32_t count = read_axes(w, a.ndim, axes);
  while (strcmp(r->name, w->op.name) != 0)
    r++;
  if (r->before) a = hlo_formula(w, r->before, &a, 1, &a);
  hlo_val_t sum = a;
  if (count >= 0) sum = hlo_reduce_axes(w, r->op, a, start_of(r->op, a.dtype), axes, count);
  if (r->after && !hlo_write_stopped(w)) {
    const hlo_val_t values[] = {sum, extent_product(w, &a, axes, count < 0 ? 0 : count)};
    sum = hlo_formula(w, r->after, values, 2, &sum);
  }
  hlo_give_val(w, 0, hlo_to_shape(w, sum, type.ndim, type.dims));
}

/* log(sum(exp(a - m))) + m, where m is the maximum. */
static void write_log_sum_exp(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t a = hlo_in(w, 0);
  int64_t axes[TENON_RANK_MAX];
  int32_t count = read_axes(w, a.ndim, axes);
  if (count < 0) count = 0;
  hlo_val_t most = hlo_reduce_keep(w, "stablehlo.maximum", a, hlo_lowest(a.dtype), axes, count);
  most = hlo_formula(w, "select(is_finite(a), a, 0)", &most, 1, &most);
  const hlo_val_t values[] = {a, most};
  hlo_val_t exps = hlo_formula(w, "exponential(subtract(a, b))", values, 2, &a);
  hlo_val_t sum = hlo_reduce_keep(w, "stablehlo.add", exps, 0, axes, count);
  const hlo_val_t parts[] = {sum, most};
  sum = hlo_formula(w, "add(log(a), b)", parts, 2, &sum);
  hlo_give_val(w, 0, hlo_to_shape(w, sum, type.ndim, type.dims));
}

/* softmax */

static void write_softmax(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t axis = hlo_axis(w, hlo_write_int(w, "axis"), a.ndim);
  bool is_log = strcmp(w->op.name, "core::log_softmax") == 0;
  if (hlo_write_stopped(w)) return;
  const hlo_val_t most[] = {
      a, hlo_reduce_keep(w, "stablehlo.maximum", a, hlo_lowest(a.dtype), &axis, 1)};
  hlo_val_t moved = hlo_formula(w, "subtract(a, b)", most, 2, &a);
  hlo_val_t exps = hlo_unary(w, "stablehlo.exponential", moved);
  const hlo_val_t parts[] = {is_log ? moved : exps,
                             hlo_reduce_keep(w, "stablehlo.add", exps, 0, &axis, 1)};
  hlo_give_val(w, 0, hlo_formula(w, is_log ? "subtract(a, log(b))" : "divide(a, b)", parts, 2, &a));
}

/* normalisations */

/* (a - mean) / sqrt(var + epsilon) over axes. Keeps the mean and the reciprocal of the root. */
static hlo_val_t normalise(hlo_write_t *w, hlo_val_t a, const int64_t *axes, int32_t count,
                           bool is_centred, hlo_val_t *out_mean, hlo_val_t *out_scale) {
  hlo_val_t extent = extent_product(w, &a, axes, count);
  if (is_centred) {
    hlo_val_t sum[] = {hlo_reduce_keep(w, "stablehlo.add", a, 0, axes, count), extent};
    *out_mean = hlo_formula(w, "divide(a, b)", sum, 2, &sum[0]);
    hlo_val_t parts[] = {a, *out_mean};
    a = hlo_formula(w, "subtract(a, b)", parts, 2, &a);
  }
  hlo_val_t square = hlo_binary(w, "stablehlo.multiply", a, a);
  const hlo_val_t sum[] = {hlo_reduce_keep(w, "stablehlo.add", square, 0, axes, count), extent};
  *out_scale = hlo_formula(w, "rsqrt(add(divide(a, b), $epsilon))", sum, 2, &sum[0]);
  const hlo_val_t parts[] = {a, *out_scale};
  return hlo_formula(w, "multiply(a, b)", parts, 2, &a);
}

static hlo_val_t scaled(hlo_write_t *w, hlo_val_t a, int32_t scale, int32_t bias) {
  static const char *const texts[] = {"multiply(a, b)", "add(a, b)"};
  const int32_t inputs[] = {scale, bias};
  for (int32_t i = 0; i < 2; i++) {
    if (inputs[i] < 0 || !hlo_operand_count(w, inputs[i])) continue;
    const hlo_val_t values[] = {a, hlo_convert(w, hlo_in(w, inputs[i]), a.dtype)};
    a = hlo_formula(w, texts[i], values, 2, &a);
  }
  return a;
}

/* Reads the axes from `axis` to the last one. */
static int32_t last_axes(hlo_write_t *w, int32_t ndim, int64_t *axes) {
  int32_t count = 0;
  for (int32_t i = hlo_axis(w, hlo_write_int(w, "axis"), ndim); i < ndim; i++)
    axes[count++] = i;
  return count;
}

static void write_layer_norm(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t mean = {.id = -1};
  hlo_val_t scale = {.id = -1};
  int64_t axes[TENON_RANK_MAX];
  bool is_centred = strcmp(w->op.name, "core::layer_norm") == 0;
  int32_t count = last_axes(w, a.ndim, axes);
  hlo_val_t value = normalise(w, a, axes, count, is_centred, &mean, &scale);
  hlo_give_val(w, 0, scaled(w, value, 1, is_centred ? 2 : -1));
  if (w->node.output_count > 1 && hlo_is_wanted(w, 1)) hlo_give_val(w, 1, mean);
  if (w->node.output_count > 2 && hlo_is_wanted(w, 2)) hlo_give_val(w, 2, scale);
}

static void write_batch_norm(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t values[5] = {a};
  for (int32_t i = 1; i < 5 && !hlo_write_stopped(w); i++)
    values[i] = hlo_along(w, hlo_convert(w, hlo_in(w, i), a.dtype), 1, &a);
  hlo_give_val(w, 0,
               hlo_formula(w,
                           "add(multiply(multiply(subtract(a, d), rsqrt(add(e, $epsilon))), b), c)",
                           values, 5, &a));
}

/* Groups of channels are normalised together; an instance norm has one channel in each group. */
static void write_group_norm(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t mean, scale;
  int64_t axes[] = {2};
  int64_t groups = hlo_write_attr(w, "groups") ? hlo_write_int(w, "groups") : a.dims[1];
  if (!hlo_write_stopped(w) && (a.ndim < 2 || groups < 1 || !a.dims[0] || !a.dims[1]))
    hlo_write_missing(w, "expected a batch of channels");
  if (hlo_write_stopped(w)) return;
  int64_t dims[] = {a.dims[0], groups, hlo_val_count(&a) / (a.dims[0] * groups)};
  hlo_val_t parts = hlo_to_shape(w, a, 3, dims);
  hlo_val_t value = normalise(w, parts, axes, 1, true, &mean, &scale);
  value = hlo_to_shape(w, value, a.ndim, a.dims);
  static const char *const texts[] = {"multiply(a, b)", "add(a, b)"};
  for (int32_t i = 1; i <= 2; i++) {
    if (!hlo_operand_count(w, i)) continue;
    const hlo_val_t values[] = {value, hlo_along(w, hlo_convert(w, hlo_in(w, i), a.dtype), 1, &a)};
    value = hlo_formula(w, texts[i - 1], values, 2, &a);
  }
  hlo_give_val(w, 0, value);
}

/* positions */

/* The least index, or the greatest one, whose element is the extreme of its axis. */
static void write_arg(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t a = hlo_in(w, 0);
  int64_t axis = hlo_axis(w, hlo_write_int(w, "axis"), a.ndim);
  bool is_max = strcmp(w->op.name, "core::arg_max") == 0;
  bool is_last = hlo_write_int(w, "select_last_index") != 0;
  if (hlo_write_stopped(w)) return;
  double start = is_max ? hlo_lowest(a.dtype) : hlo_highest(a.dtype);
  hlo_val_t best =
      hlo_reduce_keep(w, is_max ? "stablehlo.maximum" : "stablehlo.minimum", a, start, &axis, 1);
  const hlo_val_t values[] = {a, best};
  hlo_val_t is_best = hlo_formula(w, "or(EQ(a, b), NE(a, a))", values, 2, &a);
  hlo_val_t count = a;
  count.dtype = tenon_dtype(TENON_I64);
  hlo_val_t other = hlo_fill(w, &count, is_last ? -1 : (double)a.dims[axis]);
  hlo_val_t index = hlo_select(w, is_best, hlo_count_along(w, count, (int32_t)axis), other);
  const char *op = is_last ? "stablehlo.maximum" : "stablehlo.minimum";
  index = hlo_reduce_axes(w, op, index, is_last ? -1 : (double)a.dims[axis], &axis, 1);
  hlo_give_val(w, 0, hlo_to_shape(w, index, type.ndim, type.dims));
}

static void write_cumulative(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_window_t window;
  int64_t axis = 0;
  bool is_product = strcmp(w->op.name, "core::cum_prod") == 0;
  bool is_reverse = hlo_write_int(w, "reverse") != 0;
  if (hlo_known_ints(w, 1, &axis, 1) != 1) hlo_write_missing(w, "no axis");
  axis = hlo_axis(w, axis, a.ndim);
  if (hlo_write_stopped(w)) return;
  if (is_reverse) a = hlo_turn(w, a, &axis, 1);
  if (hlo_write_int(w, "exclusive")) {
    int64_t low[TENON_RANK_MAX] = {0};
    int64_t high[TENON_RANK_MAX] = {0};
    low[axis] = 1;
    high[axis] = -1;
    a = hlo_pad_with(w, a, hlo_number(w, a.dtype, is_product), low, high);
  }
  memset(&window, 0, sizeof window);
  for (int32_t i = 0; i < a.ndim; i++) {
    window.extents[i] = 1;
    window.strides[i] = 1;
    window.dilations[i] = 1;
  }
  window.extents[axis] = a.dims[axis] ? a.dims[axis] : 1;
  window.low[axis] = window.extents[axis] - 1;
  a = hlo_reduce_windows(w, is_product ? "stablehlo.multiply" : "stablehlo.add", a, is_product,
                         &window);
  if (is_reverse) a = hlo_turn(w, a, &axis, 1);
  hlo_give_val(w, 0, a);
}

static const hlo_write_row_t rows[] = {
    {"reduce_sum", NULL, write_reduction},
    {"reduce_mean", NULL, write_reduction},
    {"reduce_max", NULL, write_reduction},
    {"reduce_min", NULL, write_reduction},
    {"reduce_prod", NULL, write_reduction},
    {"reduce_l1", NULL, write_reduction},
    {"reduce_l2", NULL, write_reduction},
    {"reduce_log_sum", NULL, write_reduction},
    {"reduce_sum_square", NULL, write_reduction},
    {"reduce_log_sum_exp", NULL, write_log_sum_exp},
    {"softmax", NULL, write_softmax},
    {"log_softmax", NULL, write_softmax},
    {"layer_norm", NULL, write_layer_norm},
    {"rms_norm", NULL, write_layer_norm},
    {"batch_norm", NULL, write_batch_norm},
    {"instance_norm", NULL, write_group_norm},
    {"group_norm", NULL, write_group_norm},
    {"arg_max", NULL, write_arg},
    {"arg_min", NULL, write_arg},
    {"cum_sum", NULL, write_cumulative},
    {"cum_prod", NULL, write_cumulative},
};

HLO_WRITE_ROWS(hlo_write_rows_reduce);
