/* Lowers reductions, and softmax, which reduces over an axis. */
#include <string.h>

#include "attribute.h"
#include "lowering.h"

/* Returns the axes of a reduction in the form of core's operators; EDGE_NONE: all axes. `exclude`
 * selects the other axes. */
static tenon_edge_t axes_of(lower_t *lower, tenon_edge_t x) {
  int64_t axes[INTS_MAX], others[INTS_MAX];
  int32_t count = attr_ints(lower, "axis", axes);
  int32_t rank;
  int32_t other_count = 0;
  bool exclude = attr_bool(lower, "exclude", false);
  if (count <= 0) return EDGE_NONE;
  if (!exclude) return lower_ints(lower, axes, (size_t)count);
  rank = lower_rank(lower, x);
  for (int32_t i = 0; i < rank; i++) {
    bool is_there = false;
    for (int32_t k = 0; k < count; k++)
      is_there |= axes[k] == i || axes[k] == i - rank;
    if (!is_there) others[other_count++] = i;
  }
  return lower_ints(lower, others, (size_t)other_count);
}

/* Reductions over all axes keep one axis of extent 1, except in MXNet's NumPy interface. */
static void reduce(lower_t *lower, tenon_edge_t x, const char *core) {
  tenon_edge_t axes = axes_of(lower, x);
  bool keep = attr_bool(lower, "keepdims", false);
  bool is_numpy = strncmp(lower->node->op, "_np", 3) == 0;
  const char *is_noop = axes == EDGE_NONE ? "False" : "True";
  tenon_edge_t y =
      lower_run(lower, EDGES(x, axes), "%s(a, b, keepdims=%s, noop_with_empty_axes=%s)", core,
                keep ? "True" : "False", is_noop);
  if (!lower_stopped(lower) && !keep && !is_numpy && !lower->model->symbol.is_np_shape &&
      lower_rank_of(lower, y) <= 0 && (axes == EDGE_NONE || lower_rank_of(lower, y) == 0))
    y = lower_run(lower, EDGES(y), "reshape(a, [1]:i64)");
  lower_give(lower, y);
}

static void lower_reduction(lower_t *lower) {
  static const char *const names[][2] = {{"sum", "reduce_sum"},
                                         {"mean", "reduce_mean"},
                                         {"max", "reduce_max"},
                                         {"min", "reduce_min"},
                                         {"prod", "reduce_prod"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(lower->node->op, names[i][0])) {
      reduce(lower, lower->inputs[0], names[i][1]);
      return;
    }
}

/* Reductions that ignore NaN. */
static void lower_nan_reduction(lower_t *lower) {
  bool is_sum = strcmp(lower->node->op, "nansum") == 0;
  tenon_edge_t x = lower_run(lower, lower->inputs, 1, "where(is_nan(a), %d:a, a)", is_sum ? 0 : 1);
  reduce(lower, x, is_sum ? "reduce_sum" : "reduce_prod");
}

static void lower_norm(lower_t *lower) {
  int64_t order = attr_int(lower, "ord", 2);
  if (order != 1 && order != 2) lower_missing(lower, "its attribute ord=%lld", (long long)order);
  reduce(lower, lower->inputs[0], order == 1 ? "reduce_l1" : "reduce_l2");
}

static void lower_square_sum(lower_t *lower) {
  reduce(lower, lower->inputs[0], "reduce_sum_square");
}

static void lower_moments(lower_t *lower) {
  int64_t axes[INTS_MAX];
  int32_t count = attr_ints(lower, "axes", axes);
  const char *keep = attr_bool(lower, "keepdims", false) ? "True" : "False";
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t over = count > 0 ? lower_ints(lower, axes, (size_t)count) : EDGE_NONE;
  lower->outputs = lower_run_all(lower, EDGES(x, over),
                                 "d = sub(a, reduce_mean(a, b)); (reduce_mean(a, b, keepdims=%s), "
                                 "reduce_mean(mul(d, d), b, keepdims=%s))",
                                 keep, keep);
}

static void lower_variance(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t axes = axes_of(lower, x);
  const char *keep = attr_bool(lower, "keepdims", false) ? "True" : "False";
  if (attr_int(lower, "ddof", 0) != 0) lower_missing(lower, "its attribute ddof");
  tenon_edge_t y =
      lower_run(lower, EDGES(x, axes),
                "d = sub(a, reduce_mean(a, b)); reduce_mean(mul(d, d), b, keepdims=%s)", keep);
  lower_give(lower, strstr(lower->node->op, "std") ? lower_run(lower, EDGES(y), "sqrt(a)") : y);
}

static void lower_softmax(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  const char *op = lower->node->op;
  const char *core = strstr(op, "log_softmax") ? "log_softmax" : "softmax";
  double temperature = attr_float(lower, "temperature", 1);
  tenon_dtype_t dtype = attr_dtype(lower, "dtype", lower_dtype(lower, x));
  if (strcmp(op, "softmin") == 0) x = lower_run(lower, EDGES(x), "neg(a)");
  if (temperature != 1) x = lower_run(lower, EDGES(x), "div(a, %.17g:a)", temperature);
  if (!lower_stopped(lower) && tenon_dtype_id(dtype) != tenon_dtype_id(lower_dtype(lower, x)))
    x = lower_run(lower, EDGES(x), "cast(a, to='%s')", tenon_dtype_name(dtype));
  long long axis = attr_int(lower, "axis", -1);
  if (!attr_bool(lower, "use_length", false)) {
    lower_give(lower, lower_run(lower, EDGES(x), "%s(a, axis=%lld)", core, axis));
    return;
  }
  if (axis != -1 || strcmp(core, "softmax") != 0)
    lower_missing(lower, "its attribute use_length=True but for the last axis");
  tenon_edge_t length =
      lower_run(lower, EDGES(lower_input(lower, 1)), "unsqueeze(cast(a, to='i64'), [-1]:i64)");
  tenon_edge_t inside =
      lower_run(lower, EDGES(x, length), "less(range(0:i64, gather(shape(a), -1:i64), 1:i64), b)");
  lower_give(lower,
             lower_run(lower, EDGES(x, inside), "where(b, softmax(where(b, a, -3e38:a)), 0:a)"));
}

/* The output of this loss of a classifier is the probabilities: of each row or, with multi_output,
 * along axis 1. */
static void lower_softmax_output(lower_t *lower) {
  bool multi = attr_bool(lower, "multi_output", false);
  bool preserve = attr_bool(lower, "preserve_shape", false);
  bool is_flat = !preserve && !multi && lower_rank_of(lower, lower->inputs[0]) != 2;
  if (is_flat)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "reshape(softmax(flatten(a)), shape(a))"));
  else
    lower_give(lower, lower_run(lower, lower->inputs, 1, "softmax(a, axis=%d)", multi ? 1 : -1));
}

static void lower_softmax_activation(lower_t *lower) {
  bool is_channel = attr_is(lower, "mode", "channel", "instance");
  if (is_channel)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "softmax(a, axis=1)"));
  else
    lower_give(lower, lower_run(lower, lower->inputs, 1, "reshape(softmax(flatten(a)), shape(a))"));
}

static void lower_cumsum(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_dtype_t dtype = attr_dtype(lower, "dtype", lower_dtype(lower, x));
  int64_t axis = attr_int(lower, "axis", INT64_MIN);
  if (axis == INT64_MIN) {
    x = lower_run(lower, EDGES(x), "reshape(a, [-1]:i64)");
    axis = 0;
  }
  lower_give(lower, lower_run(lower, EDGES(x), "cum_sum(cast(a, to='%s'), %lld:i64)",
                              tenon_dtype_name(dtype), (long long)axis));
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"sum|sum_axis|_np_sum|mean|_npi_mean|max|max_axis|_np_max|min|min_axis|_np_min|prod|_np_prod(x, -dtype)", lower_reduction},
  {"nansum|nanprod(x)", lower_nan_reduction},
  {"norm(x, -out_dtype)", lower_norm},
  {"_square_sum(x)", lower_square_sum},
  {"moments(x)", lower_moments},
  {"_npi_std|_npi_var(x)", lower_variance},
  {"cumsum|_np_cumsum(x)", lower_cumsum},
  {"softmax|_npx_softmax|log_softmax|_npx_log_softmax|softmin(x=, length?#)", lower_softmax},
  {"SoftmaxOutput|Softmax(x=, label?~, -grad_scale, -ignore_label, -use_ignore, -normalization, -out_grad, -smooth_alpha)",
   lower_softmax_output},
  {"SoftmaxActivation(x=)", lower_softmax_activation},
};
/* clang-format on */

LOWERINGS(lowerings_reduce);
