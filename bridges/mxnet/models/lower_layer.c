/* Lowers layers with parameters, windows and normalisations, in their form for inference. */
#include <stdio.h>
#include <string.h>

#include "attribute.h"
#include "lowering.h"

/* windows */

enum { WINDOW_SIZE = 500 };

/* Returns the pads of both ends of each axis, which MXNet states once. */
static const char *both_ends(lower_t *lower, const int64_t *pads, int32_t count) {
  int64_t all[2 * INTS_MAX];
  for (int32_t i = 0; i < count; i++)
    all[i] = all[count + i] = pads[i];
  return attr_list(lower, all, 2 * count);
}

static void check_layout(lower_t *lower) {
  const char *layout = attr_text(lower, "layout", NULL);
  if (layout && strcmp(layout, "NCW") != 0 && strcmp(layout, "NCHW") != 0 &&
      strcmp(layout, "NCDHW") != 0)
    lower_missing(lower, "its attribute layout=%.20s", layout);
}

/* Writes kernel, stride, pad and dilate as attributes of core's operators. `*count` receives the
 * number of axes; -1: there is no kernel. */
static void window(lower_t *lower, char *out, int64_t kernel[INTS_MAX], int32_t *count) {
  int64_t stride[INTS_MAX], pad[INTS_MAX], dilate[INTS_MAX];
  int32_t strides = attr_ints(lower, "stride", stride);
  int32_t pads = attr_ints(lower, "pad", pad);
  int32_t dilates = attr_ints(lower, "dilate", dilate);
  *count = attr_ints(lower, "kernel", kernel);
  *out = 0;
  if ((strides > 0 && strides != *count) || (pads > 0 && pads != *count) ||
      (dilates > 0 && dilates != *count) || *count > 3)
    lower_fail(lower,
               "attributes 'kernel', 'stride', 'pad' and 'dilate': expected the same number of "
               "items, at most 3; found %d, %d, %d and %d",
               (int)*count, (int)strides, (int)pads, (int)dilates);
  for (int32_t i = 0; i < *count; i++)
    if (kernel[i] < 1 || kernel[i] > 1 << 20)
      lower_fail(lower, "attribute 'kernel': an extent of %lld is not possible",
                 (long long)kernel[i]);
  if (lower_stopped(lower)) return;
  int used = 0;
  if (strides > 0)
    used += snprintf(out + used, WINDOW_SIZE - (size_t)used, ", strides=%s",
                     attr_list(lower, stride, strides));
  if (pads > 0)
    used +=
        snprintf(out + used, WINDOW_SIZE - (size_t)used, ", pads=%s", both_ends(lower, pad, pads));
  if (dilates > 0)
    snprintf(out + used, WINDOW_SIZE - (size_t)used, ", dilations=%s",
             attr_list(lower, dilate, dilates));
}

static void lower_convolution(lower_t *lower) {
  char text[WINDOW_SIZE];
  int64_t kernel[INTS_MAX];
  int32_t count;
  check_layout(lower);
  window(lower, text, kernel, &count);
  lower_give(lower,
             lower_run(lower, EDGES(lower->inputs[0], lower->inputs[1], lower_input(lower, 2)),
                       "conv(a, b, c, group=%lld%s)", (long long)attr_int(lower, "num_group", 1),
                       text));
}

static void lower_deconvolution(lower_t *lower) {
  char text[WINDOW_SIZE];
  char more[WINDOW_SIZE] = "";
  int64_t kernel[INTS_MAX], adjust[INTS_MAX], target[INTS_MAX];
  int32_t count;
  check_layout(lower);
  window(lower, text, kernel, &count);
  int32_t adjusts = attr_ints(lower, "adj", adjust);
  int32_t targets = attr_ints(lower, "target_shape", target);
  bool has_target = false;
  for (int32_t i = 0; i < targets; i++)
    has_target |= target[i] != 0;
  /* `pad` and `adj` follow from `target_shape`. */
  if (has_target)
    snprintf(more, sizeof more, ", output_shape=%s", attr_list(lower, target, targets));
  else if (adjusts > 0)
    snprintf(more, sizeof more, ", output_padding=%s", attr_list(lower, adjust, adjusts));
  lower_give(lower,
             lower_run(lower, EDGES(lower->inputs[0], lower->inputs[1], lower_input(lower, 2)),
                       "conv_transpose(a, b, c, group=%lld%s%s)",
                       (long long)attr_int(lower, "num_group", 1), text, more));
}

static void lower_dense(lower_t *lower) {
  bool is_flat = attr_bool(lower, "flatten", true);
  tenon_edge_t operands[] = {lower->inputs[0], lower->inputs[1], lower_input(lower, 2)};
  lower_give(lower, lower_run(lower, operands, 3,
                              is_flat ? "gemm(flatten(a), b, c, trans_b=True)"
                                      : "matmul(a, b, c, transpose_b=True)"));
}

static void global_pool(lower_t *lower, const char *type, int64_t p) {
  static const char *const names[][2] = {{"max", "global_max_pool(a)"},
                                         {"avg", "global_average_pool(a)"}};
  for (size_t i = 0; i < 2; i++)
    if (strcmp(type, names[i][0]) == 0)
      lower_give(lower, lower_run(lower, lower->inputs, 1, "%s", names[i][1]));
  if (strcmp(type, "lp") == 0)
    lower_give(lower,
               lower_run(lower, lower->inputs, 1, "global_lp_pool(a, p=%lld)", (long long)p));
  if (!lower->outputs.count)
    lower_missing(lower, "its attribute pool_type=%.20s with global_pool", type);
}

static void lower_pooling(lower_t *lower) {
  char text[WINDOW_SIZE];
  int64_t kernel[INTS_MAX];
  int64_t p = attr_int(lower, "p_value", 2);
  int64_t area = 1;
  int32_t count;
  const char *type = attr_text(lower, "pool_type", "max");
  const char *convention = attr_text(lower, "pooling_convention", "valid");
  bool with_pad = attr_bool(lower, "count_include_pad", true);
  bool is_global = attr_bool(lower, "global_pool", false);
  check_layout(lower);
  window(lower, text, kernel, &count);
  const char *ceil = strcmp(convention, "full") == 0 ? "True" : "False";
  if (lower_stopped(lower)) return;
  if (is_global) {
    global_pool(lower, type, p);
    return;
  }
  const char *size = attr_list(lower, kernel, count);
  for (int32_t i = 0; i < count; i++)
    area *= kernel[i];
  if (strcmp(convention, "same") == 0)
    lower_missing(lower, "its attribute pooling_convention=same");
  if (strcmp(type, "max") == 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "max_pool(a, kernel=%s%s, ceil_mode=%s)",
                                size, text, ceil));
  else if (strcmp(type, "avg") == 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1,
                                "average_pool(a, kernel=%s%s, ceil_mode=%s, count_include_pad=%s)",
                                size, text, ceil, with_pad ? "True" : "False"));
  else if (strcmp(type, "lp") == 0)
    lower_give(lower,
               lower_run(lower, lower->inputs, 1, "lp_pool(a, kernel=%s%s, ceil_mode=%s, p=%lld)",
                         size, text, ceil, (long long)p));
  else if (strcmp(type, "sum") == 0 && *ceil == 'F')
    lower_give(lower, lower_run(lower, lower->inputs, 1,
                                "mul(average_pool(a, kernel=%s%s, count_include_pad=True), %lld:a)",
                                size, text, (long long)area));
  else
    lower_missing(lower, "its attributes pool_type=%.20s, pooling_convention=%.20s", type,
                  convention);
}

/* Averages over a grid of bins. If all bins have the same size, this is average pooling. */
static void lower_adaptive_pool(lower_t *lower) {
  int64_t size[INTS_MAX] = {1, 1};
  int64_t kernel[2];
  int32_t count = attr_ints(lower, "output_size", size);
  if (count == 1) size[1] = size[0];
  if (size[0] == 1 && size[1] == 1) {
    lower_give(lower, lower_run(lower, lower->inputs, 1, "global_average_pool(a)"));
    return;
  }
  for (int32_t i = 0; i < 2 && !lower_stopped(lower); i++) {
    int64_t extent = lower_extent(lower, lower->inputs[0], 2 + i);
    if (extent < 1 || size[i] < 1 || extent % size[i])
      lower_missing(lower, "bins of different or unknown sizes");
    else
      kernel[i] = extent / size[i];
  }
  if (lower_stopped(lower)) return;
  const char *text = attr_list(lower, kernel, 2);
  lower_give(lower, lower_run(lower, lower->inputs, 1, "average_pool(a, kernel=%s, strides=%s)",
                              text, text));
}

/* resizing */

static tenon_edge_t larger(lower_t *lower, tenon_edge_t x, tenon_edge_t like, long long scale) {
  return lower_run(lower, EDGES(x, like),
                   "resize(a, _, _, concat([shape(a, end=2), mul(shape(b, start=2), [%lld]:i64)], "
                   "axis=0), mode='nearest', coordinates='asymmetric', nearest='floor')",
                   scale);
}

static void lower_upsampling(lower_t *lower) {
  long long scale = attr_int(lower, "scale", 1);
  if (scale < 1 || scale > 1 << 10)
    lower_fail(lower, "attribute 'scale': expected 1 to 1024, found %lld", scale);
  bool is_sum = attr_is(lower, "multi_input_mode", "sum", "concat");
  /* Bilinear upsampling is a transposed convolution with one filter for each channel. */
  if (attr_is(lower, "sample_type", "bilinear", "")) {
    long long kernel = 2 * scale - scale % 2;
    long long pad = scale / 2;
    lower_give(
        lower,
        lower_run(
            lower, lower->inputs, 2,
            "conv_transpose(a, b, group=%lld, strides=[%lld, %lld], pads=[%lld, %lld, %lld, %lld])",
            (long long)attr_int(lower, "num_filter", 1), scale, scale, pad, pad,
            kernel - scale - pad, kernel - scale - pad));
    return;
  }
  (void)attr_int(lower, "num_filter", 0);
  tenon_edge_t y = larger(lower, lower->inputs[0], lower->inputs[0], scale);
  for (int32_t i = 1; i < lower->input_count; i++)
    y = lower_run(lower, EDGES(y, larger(lower, lower->inputs[i], lower->inputs[0], scale)),
                  is_sum ? "add(a, b)" : "concat([a, b], axis=1)");
  lower_give(lower, y);
}

static void lower_bilinear(lower_t *lower) {
  long long height = attr_int(lower, "height", 1);
  long long width = attr_int(lower, "width", 1);
  const char *mode = attr_text(lower, "mode", "size");
  const char *where = attr_bool(lower, "align_corners", true) ? "align_corners" : "half_pixel";
  tenon_edge_t size = EDGE_NONE;
  if (strcmp(mode, "like") == 0)
    size = lower_run(lower, EDGES(lower_input(lower, 1)), "shape(a, start=2)");
  else if (strcmp(mode, "size") == 0 && !attr_text(lower, "scale_height", NULL))
    size = lower_run(lower, NULL, 0, "[%lld, %lld]:i64", height, width);
  else
    lower_missing(lower, "sizes by scale or mode=%.20s", mode);
  lower_give(
      lower,
      lower_run(
          lower, EDGES(lower->inputs[0], size),
          "resize(a, _, _, concat([shape(a, end=2), b], axis=0), mode='linear', coordinates='%s')",
          where));
}

static void lower_roi_align(lower_t *lower) {
  int64_t size[INTS_MAX] = {1, 1};
  long long samples = attr_int(lower, "sample_ratio", -1);
  const char *coordinates = attr_bool(lower, "aligned", false) ? "half_pixel" : "output_half_pixel";
  (void)attr_ints(lower, "pooled_size", size);
  if (attr_bool(lower, "position_sensitive", false))
    lower_missing(lower, "its attribute position_sensitive=True");
  lower_give(
      lower,
      lower_run(lower, lower->inputs, 2,
                "roi_align(a, slice(b, [1]:i64, [5]:i64, [1]:i64), cast(gather(b, 0:i64, axis=1), "
                "to='i64'), output_height=%lld, "
                "output_width=%lld, spatial_scale=%.17g, sampling_ratio=%lld, coordinates='%s')",
                (long long)size[0], (long long)size[1], attr_float(lower, "spatial_scale", 1),
                samples < 0 ? 0 : samples, coordinates));
}

/* normalisations */

static int64_t exchanged_axis(int64_t axis, int64_t a, int64_t b) {
  if (axis == a) return b;
  return axis == b ? a : axis;
}

/* Returns x with two axes exchanged; a second exchange undoes the first. */
static tenon_edge_t exchange(lower_t *lower, tenon_edge_t x, int64_t a, int64_t b) {
  int64_t perm[TENON_RANK_MAX];
  if (a == b) return x;
  int32_t rank = lower_rank(lower, x);
  for (int32_t i = 0; i < rank; i++)
    perm[i] = exchanged_axis(i, a, b);
  return lower_run(lower, EDGES(x), "transpose(a, perm=%s)", attr_list(lower, perm, rank));
}

static void lower_batch_norm(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t gamma = lower->inputs[1];
  bool is_fixed = attr_bool(lower, "fix_gamma", true);
  bool with_relu = strstr(lower->node->op, "WithReLU") != NULL;
  double epsilon = attr_float(lower, "eps", 1e-3);
  int64_t axis = lower_axis(lower, x, attr_int(lower, "axis", 1));
  if (attr_bool(lower, "output_mean_var", false))
    lower_missing(lower, "its attribute output_mean_var=True");
  if (is_fixed) gamma = lower_run(lower, EDGES(gamma), "expand(1:a, shape(a))");
  tenon_edge_t y = lower_run(lower,
                             EDGES(exchange(lower, x, axis, 1), gamma, lower->inputs[2],
                                   lower->inputs[3], lower->inputs[4]),
                             "batch_norm(a, cast(b, to=:a), cast(c, to=:a), cast(d, to=:a), "
                             "cast(e, to=:a), epsilon=%.17g)",
                             epsilon);
  y = exchange(lower, y, axis, 1);
  lower_give(lower, with_relu ? lower_run(lower, EDGES(y), "relu(a)") : y);
}

static void lower_layer_norm(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  double epsilon = attr_float(lower, "eps", 1e-5);
  int64_t axis = attr_int(lower, "axis", -1);
  int64_t last = 0;
  if (attr_bool(lower, "output_mean_var", false))
    lower_missing(lower, "its attribute output_mean_var=True");
  if (axis != -1) {
    axis = lower_axis(lower, x, axis);
    last = lower_rank(lower, x) - 1;
  } else
    last = axis;
  tenon_edge_t operands[] = {exchange(lower, x, axis, last), lower->inputs[1], lower->inputs[2]};
  tenon_edge_t y =
      lower_run(lower, operands, 3, "layer_norm(a, b, c, axis=-1, epsilon=%.17g)", epsilon);
  lower_give(lower, exchange(lower, y, axis, last));
}

static void lower_instance_norm(lower_t *lower) {
  lower_give(lower, lower_run(lower, lower->inputs, 3, "instance_norm(a, b, c, epsilon=%.17g)",
                              attr_float(lower, "eps", 1e-3)));
}

/* Scale and bias have one element for each channel or, in old files, one for each group. */
static void lower_group_norm(lower_t *lower) {
  long long groups = attr_int(lower, "num_groups", 1);
  double epsilon = attr_float(lower, "eps", 1e-5);
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t operands[3] = {x, lower->inputs[1], lower->inputs[2]};
  if (attr_bool(lower, "output_mean_var", false))
    lower_missing(lower, "its attribute output_mean_var=True");
  for (int i = 1; i < 3; i++)
    if (lower_extent(lower, operands[i], 0) == groups)
      operands[i] = lower_run(
          lower, EDGES(operands[i], x),
          "reshape(expand(unsqueeze(a, [1]:i64), concat([[1]:i64, div(shape(b, start=1, end=2), "
          "[%lld]:i64)], axis=0)), "
          "[-1]:i64)",
          groups);
  lower_give(lower, lower_run(lower, operands, 3, "group_norm(a, b, c, groups=%lld, epsilon=%.17g)",
                              groups, epsilon));
}

static void lower_l2_norm(lower_t *lower) {
  const char *mode = attr_text(lower, "mode", "instance");
  double epsilon = attr_float(lower, "eps", 1e-10);
  const char *flat = "identity(a)";
  const char *axis = "1";
  if (strcmp(mode, "instance") == 0) {
    flat = "flatten(a)";
    axis = "-1";
  } else if (strcmp(mode, "spatial") == 0) {
    flat = "reshape(a, [0, 0, -1]:i64)";
    axis = "-1";
  }
  lower_give(
      lower,
      lower_run(
          lower, lower->inputs, 1,
          "f = %s; reshape(div(f, sqrt(add(reduce_sum_square(f, [%s]:i64), %.17g:a))), shape(a))",
          flat, axis, epsilon));
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"Convolution|Convolution_v1(x=^, w!, b?!, -num_filter, -no_bias)", lower_convolution},
  {"Deconvolution(x=^, w!, b?!, -num_filter, -no_bias)", lower_deconvolution},
  {"FullyConnected(x, w!, b?!, -num_hidden, -no_bias)", lower_dense},
  {"Pooling|Pooling_v1(x=^)", lower_pooling},
  {"_contrib_AdaptiveAvgPooling2D(x)", lower_adaptive_pool},
  {"UpSampling(x, *more)", lower_upsampling},
  {"_contrib_BilinearResize2D(x, like?)", lower_bilinear},
  {"_contrib_ROIAlign(x, rois)", lower_roi_align},
  {"BatchNorm|BatchNorm_v1|CuDNNBatchNorm|_contrib_SyncBatchNorm|_contrib_BatchNormWithReLU(x=, gamma!, beta!, mean!, var!, "
   "-momentum, -use_global_stats, -key, -ndev, -min_calib_range, -max_calib_range)", lower_batch_norm},
  {"LayerNorm(x=, gamma!, beta!)", lower_layer_norm},
  {"InstanceNorm(x=, gamma!, beta!)", lower_instance_norm},
  {"GroupNorm(x=, gamma!, beta!)", lower_group_norm},
  {"L2Normalization(x=)", lower_l2_norm},
  {"LRN(x=) = lrn(x, size=nsize, alpha=alpha?0.0001, beta=beta?0.75, bias=knorm?2.0)", NULL},
};
/* clang-format on */

LOWERINGS(lowerings_layer);
