/* Writes convolutions and pools. */
#include <string.h>

#include "write/formula.h"

typedef struct spatial_t { /* One entry for each spatial axis. */
  int32_t count;
  int64_t strides[TENON_RANK_MAX];
  int64_t dilations[TENON_RANK_MAX];
  int64_t low[TENON_RANK_MAX];
  int64_t high[TENON_RANK_MAX];
} spatial_t;

/* Reads strides, dilations and padding; SAME computes the padding from the extents. */
static spatial_t read_spatial(hlo_write_t *w, const hlo_val_t *x, const int64_t *kernel) {
  spatial_t s = {.count = x->ndim > 2 ? x->ndim - 2 : 0};
  int64_t pads[2 * TENON_RANK_MAX];
  const char *automatic = hlo_write_choice(w, "auto_pad");
  if (hlo_write_stopped(w)) return s;
  if (s.count < 1) hlo_write_missing(w, "expected a batch of channels with spatial axes");
  hlo_write_ints(w, "strides", 1, s.strides, s.count);
  hlo_write_ints(w, "dilations", 1, s.dilations, s.count);
  hlo_write_ints(w, "pads", 0, pads, 2 * s.count);
  hlo_check_window(w, s.strides, s.count, 1);
  hlo_check_window(w, s.dilations, s.count, 1);
  hlo_check_window(w, kernel, s.count, 1);
  hlo_check_window(w, pads, 2 * s.count, -HLO_WINDOW_MOST);
  for (int32_t i = 0; i < s.count && !hlo_write_stopped(w); i++) {
    int64_t span = (kernel[i] - 1) * s.dilations[i] + 1;
    int64_t extent = x->dims[i + 2];
    int64_t steps = (extent + s.strides[i] - 1) / s.strides[i];
    int64_t all = (steps - 1) * s.strides[i] + span - extent;
    bool is_same = strncmp(automatic, "same", 4) == 0;
    if (all < 0) all = 0;
    s.low[i] = strcmp(automatic, "explicit") == 0 ? pads[i] : 0;
    s.high[i] = strcmp(automatic, "explicit") == 0 ? pads[i + s.count] : 0;
    if (is_same) s.low[i] = strcmp(automatic, "same_lower") == 0 ? all - all / 2 : all / 2;
    if (is_same) s.high[i] = all - s.low[i];
  }
  hlo_check_window(w, s.low, s.count, -HLO_WINDOW_MOST);
  hlo_check_window(w, s.high, s.count, -HLO_WINDOW_MOST);
  return s;
}

static const char *spatial_text(hlo_write_t *w, int32_t count) {
  const char *text = "0";
  for (int32_t i = 1; i < count; i++)
    text = hlo_format(w, "%s, %d", text, (int)i);
  return text;
}

/* Prints a convolution; `lhs` dilates the input. */
static hlo_val_t convolve(hlo_write_t *w, hlo_val_t x, hlo_val_t kernel, hlo_val_t type,
                          const spatial_t *s, const int64_t *lhs, int64_t groups) {
  const hlo_val_t operands[] = {x, kernel};
  const char *axes = spatial_text(w, s->count);
  return hlo_emit(
      w, "stablehlo.convolution", type,
      hlo_format(w,
                 "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, "
                 "%s]x[o, i, %s]->[b, f, %s]>, feature_group_count = %lld : i64, lhs_dilation = "
                 "%s, padding = %s, rhs_dilation = %s, window_strides = %s",
                 axes, axes, axes, (long long)groups, hlo_array_text(w, lhs, s->count),
                 hlo_padding_text(w, s->low, s->high, s->count),
                 hlo_array_text(w, s->dilations, s->count),
                 hlo_array_text(w, s->strides, s->count)),
      NULL, operands, 2);
}

static hlo_val_t with_bias(hlo_write_t *w, hlo_val_t value) {
  if (!hlo_operand_count(w, 2)) return value;
  const hlo_val_t values[] = {value, hlo_along(w, hlo_in(w, 2), 1, &value)};
  return hlo_formula(w, "add(a, b)", values, 2, &value);
}

static void write_conv(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t x = hlo_in(w, 0);
  hlo_val_t kernel = hlo_in(w, 1);
  int64_t ones[TENON_RANK_MAX];
  if (strcmp(hlo_write_choice(w, "activation"), "none") != 0 || hlo_operand_count(w, 3))
    hlo_write_missing(w, "an activation or a residual inside of a convolution");
  spatial_t s = read_spatial(w, &x, kernel.dims + 2);
  for (int32_t i = 0; i < TENON_RANK_MAX; i++)
    ones[i] = 1;
  if (hlo_write_stopped(w)) return;
  hlo_give_val(w, 0,
               with_bias(w, convolve(w, x, kernel, type, &s, ones, hlo_write_int(w, "group"))));
}

/* The kernel of a transposed convolution as that of a convolution: turned, and with the channels
 * of its input and output exchanged within each group. */
static hlo_val_t transposed_kernel(hlo_write_t *w, hlo_val_t kernel, int64_t groups) {
  int64_t turned[TENON_RANK_MAX];
  int64_t dims[TENON_RANK_MAX];
  int64_t perm[TENON_RANK_MAX];
  for (int32_t i = 2; i < kernel.ndim; i++) {
    turned[i - 2] = i;
    dims[i + 1] = kernel.dims[i];
    perm[i + 1] = i + 1;
  }
  hlo_val_t value = hlo_turn(w, kernel, turned, kernel.ndim - 2);
  dims[0] = groups;
  dims[1] = kernel.dims[0] / groups;
  dims[2] = kernel.dims[1];
  perm[0] = 0;
  perm[1] = 2;
  perm[2] = 1;
  value = hlo_permute(w, hlo_to_shape(w, value, kernel.ndim + 1, dims), perm);
  memcpy(dims, kernel.dims, sizeof dims);
  dims[0] = groups * kernel.dims[1];
  dims[1] = kernel.dims[0] / groups;
  return hlo_to_shape(w, value, kernel.ndim, dims);
}

static void write_conv_transpose(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t x = hlo_in(w, 0);
  hlo_val_t kernel = hlo_in(w, 1);
  int64_t lhs[TENON_RANK_MAX];
  int64_t groups = hlo_write_int(w, "group");
  const tenon_value_t *shape = hlo_write_attr(w, "output_shape");
  if (strcmp(hlo_write_choice(w, "auto_pad"), "explicit") != 0 || (shape && shape->count))
    hlo_write_missing(w, "padding that follows from the shape of the result");
  spatial_t s = read_spatial(w, &x, kernel.dims + 2);
  if (hlo_write_stopped(w) || groups < 1 || kernel.ndim >= TENON_RANK_MAX) return;
  for (int32_t i = 0; i < s.count; i++) {
    int64_t span = (kernel.dims[i + 2] - 1) * s.dilations[i];
    int64_t low = span - s.low[i];
    lhs[i] = s.strides[i];
    s.strides[i] = 1;
    /* The end takes what the result needs, including output_padding. */
    s.high[i] = type.dims[i + 2] - 1 + span - (x.dims[i + 2] - 1) * lhs[i] - low;
    s.low[i] = low;
  }
  kernel = transposed_kernel(w, kernel, groups);
  hlo_give_val(w, 0, with_bias(w, convolve(w, x, kernel, type, &s, lhs, groups)));
}

/* pools */

/* The window of a pool. The end of an axis is extended if ceil_mode adds a step there. */
static hlo_window_t pool_window(hlo_write_t *w, const hlo_val_t *x, const hlo_val_t *type) {
  hlo_window_t window;
  int64_t kernel[TENON_RANK_MAX] = {0};
  memset(&window, 0, sizeof window);
  hlo_write_ints(w, "kernel", 1, kernel, x->ndim > 2 ? x->ndim - 2 : 0);
  spatial_t s = read_spatial(w, x, kernel);
  for (int32_t i = 0; i < x->ndim; i++) {
    window.extents[i] = i < 2 ? 1 : kernel[i - 2];
    window.strides[i] = i < 2 ? 1 : s.strides[i - 2];
    window.dilations[i] = i < 2 ? 1 : s.dilations[i - 2];
    window.low[i] = i < 2 ? 0 : s.low[i - 2];
    window.high[i] = i < 2 ? 0 : s.high[i - 2];
    int64_t span = (window.extents[i] - 1) * window.dilations[i] + 1;
    int64_t needed = (type->dims[i] - 1) * window.strides[i] + span - x->dims[i] - window.low[i];
    if (needed > window.high[i]) window.high[i] = needed;
  }
  return window;
}

static void write_max_pool(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t x = hlo_in(w, 0);
  if (w->node.output_count > 1 && hlo_is_wanted(w, 1))
    hlo_write_missing(w, "the positions of the maxima");
  if (hlo_write_stopped(w)) return;
  hlo_window_t window = pool_window(w, &x, &type);
  hlo_give_val(w, 0, hlo_reduce_windows(w, "stablehlo.maximum", x, hlo_lowest(x.dtype), &window));
}

/* Sums, divided by the number of elements: padding counts only if count_include_pad is set, and
 * what ceil_mode adds never. */
static void write_average_pool(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t x = hlo_in(w, 0);
  if (hlo_write_stopped(w)) return;
  hlo_window_t window = pool_window(w, &x, &type);
  hlo_val_t sum = hlo_reduce_windows(w, "stablehlo.add", x, 0, &window);
  hlo_val_t ones = hlo_fill(w, &x, 1);
  if (hlo_write_int(w, "count_include_pad") && !hlo_write_stopped(w)) {
    int64_t kernel[TENON_RANK_MAX] = {0};
    int64_t low[TENON_RANK_MAX] = {0};
    int64_t high[TENON_RANK_MAX] = {0};
    hlo_write_ints(w, "kernel", 1, kernel, x.ndim - 2);
    spatial_t s = read_spatial(w, &x, kernel);
    for (int32_t i = 2; i < x.ndim; i++) {
      low[i] = s.low[i - 2];
      high[i] = s.high[i - 2];
      window.low[i] = 0;
      window.high[i] -= s.high[i - 2];
    }
    ones = hlo_pad_with(w, ones, hlo_number(w, x.dtype, 1), low, high);
  }
  const hlo_val_t parts[] = {sum, hlo_reduce_windows(w, "stablehlo.add", ones, 0, &window)};
  hlo_give_val(w, 0, hlo_formula(w, "divide(a, b)", parts, 2, &sum));
}

static void write_global_pool(hlo_write_t *w) {
  hlo_val_t x = hlo_in(w, 0);
  int64_t axes[TENON_RANK_MAX];
  int64_t count = 1;
  bool is_max = strcmp(w->op.name, "core::global_max_pool") == 0;
  for (int32_t i = 2; i < x.ndim; i++) {
    axes[i - 2] = i;
    count *= x.dims[i];
  }
  const char *op = is_max ? "stablehlo.maximum" : "stablehlo.add";
  double start = is_max ? hlo_lowest(x.dtype) : 0;
  hlo_val_t value = hlo_reduce_keep(w, op, x, start, axes, x.ndim - 2);
  const hlo_val_t parts[] = {value, hlo_number(w, x.dtype, (double)count)};
  if (!is_max) value = hlo_formula(w, "divide(a, b)", parts, 2, &parts[0]);
  hlo_give_val(w, 0, value);
}

static const hlo_write_row_t rows[] = {
    {"conv", NULL, write_conv},
    {"conv_transpose", NULL, write_conv_transpose},
    {"max_pool", NULL, write_max_pool},
    {"average_pool", NULL, write_average_pool},
    {"global_average_pool", NULL, write_global_pool},
    {"global_max_pool", NULL, write_global_pool},
};

HLO_WRITE_ROWS(hlo_write_rows_window);
