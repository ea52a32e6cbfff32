/* Lowerings of the quantised operators of com.microsoft. Products of 8-bit integers become core's
 * integer products. Operators that ONNX Runtime computes in floats are dequantised, computed and
 * quantised again. */
#include <stdio.h>
#include <string.h>

#include "import/onnx/lower_contrib.h"

#define WINDOW                                                                                     \
  "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad{NOTSET: explicit, "          \
  "SAME_UPPER: same_upper, SAME_LOWER: same_lower, VALID: valid}"
/* Texts that rows put together: x and its scale and zero point, as floats; and back. */
#define FLOATS(x) "dequantize_linear(" x ", " x "_scale, " x "_zero)"
#define QUANTISED(value, y, like)                                                                  \
  "quantize_linear(" value ", " y "_scale, " y "_zero, output_dtype=:" like ")"

static tn_ref_t *dequantise(tn_lower_t *lower, tn_ref_t *x, tn_ref_t *scale, tn_ref_t *zero) {
  return tn_lower_run(lower, TN_REFS(x, scale, zero), "dequantize_linear(a, b, c)");
}

/* `like` has the dtype of the result if there is no zero point. */
static tn_ref_t *quantise(tn_lower_t *lower, tn_ref_t *x, tn_ref_t *scale, tn_ref_t *zero,
                          tn_ref_t *like) {
  return tn_lower_run(lower, TN_REFS(x, scale, zero, like),
                      "quantize_linear(a, b, c, output_dtype=:d)");
}

/* Products */

tn_ref_t *tn_contrib_integer_matmul(tn_lower_t *lower, tn_ref_t *a, tn_ref_t *b, tn_ref_t *a_scale,
                                    tn_ref_t *b_scale, tn_ref_t *a_zero, tn_ref_t *b_zero) {
  return tn_lower_run(lower, TN_REFS(a, b, a_zero, b_zero, a_scale, b_scale),
                      "mul(cast(matmul_integer(a, b, c, d), to=:e), mul(e, f))");
}

static void lower_integer_to_float(tn_lower_t *lower) {
  tn_ref_t *y = tn_contrib_integer_matmul(lower, lower->inputs[0], lower->inputs[1],
                                          lower->inputs[2], lower->inputs[3],
                                          tn_lower_input(lower, 4), tn_lower_input(lower, 5));
  tn_ref_t *bias = tn_lower_input(lower, 6);
  lower->outputs[0] = bias ? tn_lower_run(lower, TN_REFS(y, bias), "add(a, b)") : y;
}

static void lower_dynamic_matmul(tn_lower_t *lower) {
  tn_ref_t *bias = tn_lower_input(lower, 4);
  int32_t count = 0;
  tn_ref_t *const *a =
      tn_lower_run_all(lower, TN_REFS(lower->inputs[0]), &count, "dynamic_quantize_linear(a)");
  if (count != 3) return;
  tn_ref_t *y = tn_contrib_integer_matmul(lower, a[0], lower->inputs[1], a[1], lower->inputs[2],
                                          a[2], tn_lower_input(lower, 3));
  lower->outputs[0] = bias ? tn_lower_run(lower, TN_REFS(y, bias), "add(a, b)") : y;
}

/* C has the scale a_scale * b_scale * alpha, so it is added to the sums. Without y_scale the result
 * is a float. */
static void lower_gemm(tn_lower_t *lower) {
  tn_ref_t *const *in = lower->inputs;
  tn_ref_t *c = tn_lower_input(lower, 6);
  tn_ref_t *y_scale = tn_lower_input(lower, 7);
  const tn_onnx_attribute_t *alpha = tn_lower_typed(lower, "alpha", TN_ATTRIBUTE_FLOAT);
  tn_ref_t *a = in[0];
  tn_ref_t *b = in[3];
  if (tn_lower_int(lower, "transA", 0))
    a = tn_lower_run(lower, TN_REFS(a), "transpose(a, perm=[1, 0])");
  if (tn_lower_int(lower, "transB", 0))
    b = tn_lower_run(lower, TN_REFS(b), "transpose(a, perm=[1, 0])");
  tn_ref_t *sums = tn_lower_run(lower, TN_REFS(a, b, in[2], in[5]), "matmul_integer(a, b, c, d)");
  if (c) sums = tn_lower_run(lower, TN_REFS(sums, c), "add(a, b)");
  tn_ref_t *scale =
      tn_lower_run(lower, TN_REFS(in[1], in[4]), "mul(mul(a, b), %.9g:a)", alpha ? alpha->f : 1.0);
  if (y_scale) scale = tn_lower_run(lower, TN_REFS(scale, y_scale), "div(a, b)");
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(sums, scale), "mul(cast(a, to=:b), b)");
  if (y_scale)
    y = tn_lower_run(lower, TN_REFS(y, scale, tn_lower_input(lower, 8), a),
                     "quantize_linear(a, 1:b, c, output_dtype=:d)");
  lower->outputs[0] = y;
}

/* Channels */

/* Reads the attribute channels_last. Returns x with its channels in axis 1; *out_rank is 0 if they
 * are there already. */
static tn_ref_t *channels_first(tn_lower_t *lower, tn_ref_t *x, int32_t *out_rank) {
  *out_rank = tn_lower_int(lower, "channels_last", 0) ? tn_lower_rank(lower, x) : 0;
  if (!*out_rank) return x;
  if (*out_rank < 3) tn_lower_fail(lower, "x has %d axes: expected at least 3", (int)*out_rank);
  return tn_contrib_move_channels(lower, x, *out_rank, false);
}

static void lower_conv(tn_lower_t *lower) {
  tn_ref_t *const *in = lower->inputs;
  int32_t rank;
  (void)tn_lower_attr(lower, "kernel_shape");
  tn_ref_t *x = channels_first(lower, in[0], &rank);
  tn_ref_t *y = tn_lower_run(
      lower, TN_REFS(x, in[1], in[2], in[3], in[4], in[5], in[6], in[7], tn_lower_input(lower, 8)),
      "qlinear_conv(a, b, c, d, e, f, g, h, i, group=group?1, " WINDOW ")");
  lower->outputs[0] = rank ? tn_contrib_move_channels(lower, y, rank, true) : y;
}

static void lower_average_pool(tn_lower_t *lower) {
  bool is_global = strcmp(lower->node->type, "QLinearGlobalAveragePool") == 0;
  tn_ref_t *const *in = lower->inputs;
  int32_t rank;
  tn_ref_t *x = channels_first(lower, in[0], &rank);
  x = dequantise(lower, x, in[1], in[2]);
  if (is_global)
    x = tn_lower_run(lower, TN_REFS(x), "global_average_pool(a)");
  else
    x = tn_lower_run(lower, TN_REFS(x),
                     "average_pool(a, kernel=kernel_shape, ceil_mode=ceil_mode, "
                     "count_include_pad=count_include_pad, " WINDOW ")");
  x = quantise(lower, x, in[3], tn_lower_input(lower, 4), in[0]);
  lower->outputs[0] = rank ? tn_contrib_move_channels(lower, x, rank, true) : x;
}

/* Others */

/* The inputs are the scale and zero point of the result, then x, scale and zero point of each
 * part. */
static void lower_concat(tn_lower_t *lower) {
  enum { PARTS_MOST = 16 };
  tn_ref_t *const *in = lower->inputs;
  int32_t count = (lower->input_count - 2) / 3;
  tn_ref_t *all = NULL;
  if (lower->input_count < 5 || (lower->input_count - 2) % 3)
    tn_lower_fail(lower,
                  "the node has %d inputs: expected a scale, a zero point, and three inputs "
                  "for each tensor",
                  (int)lower->input_count);
  long long axis = tn_lower_int(lower, "axis", 0);
  if (!tn_lower_attr(lower, "axis")) tn_lower_fail(lower, "attribute 'axis' is missing");
  for (int32_t i = 0; i < count && lower->status == TENON_OK; i++) {
    tn_ref_t *part = dequantise(lower, in[2 + 3 * i], in[3 + 3 * i], in[4 + 3 * i]);
    all = all ? tn_lower_run(lower, TN_REFS(all, part), "concat([a, b], axis=%lld)", axis) : part;
  }
  if (lower->status == TENON_OK) lower->outputs[0] = quantise(lower, all, in[0], in[1], in[2]);
}

/* Before operator set 13, softmax takes all axes from `axis` on as one. */
static void lower_softmax(tn_lower_t *lower) {
  tn_ref_t *const *in = lower->inputs;
  bool is_new = tn_lower_int(lower, "opset", 13) >= 13;
  long long axis = tn_lower_int(lower, "axis", is_new ? -1 : 1);
  tn_ref_t *x = dequantise(lower, in[0], in[1], in[2]);
  if (is_new)
    x = tn_lower_run(lower, TN_REFS(x), "softmax(a, axis=%lld)", axis);
  else
    x = tn_lower_run(lower, TN_REFS(x), "reshape(softmax(flatten(a, axis=%lld)), shape(a))", axis);
  lower->outputs[0] = quantise(lower, x, in[3], tn_lower_input(lower, 4), in[0]);
}

/* Weights of a recurrent layer [directions, inputs, 4 hidden] as floats [directions, 4 hidden,
 * inputs]. A scale serves a direction or one of its columns. */
static tn_ref_t *recurrent_weights(tn_lower_t *lower, tn_ref_t *w, tn_ref_t *scale,
                                   tn_ref_t *zero) {
  return tn_lower_run(lower, TN_REFS(w, scale, zero),
                      "transpose(mul(sub(cast(a, to=:b), reshape(cast(c, to=:b), "
                      "[0, 1, -1]:i64)), reshape(b, [0, 1, -1]:i64)), perm=[0, 2, 1])");
}

static void lower_dynamic_lstm(tn_lower_t *lower) {
  tn_ref_t *const *in = lower->inputs;
  int32_t count = 0;
  tn_ref_t *w = recurrent_weights(lower, in[1], in[8], in[9]);
  tn_ref_t *r = recurrent_weights(lower, in[2], in[10], in[11]);
  (void)tn_lower_attr(lower, "hidden_size");
  tn_ref_t *const *all = tn_lower_run_all(
      lower, TN_REFS(in[0], w, r, in[3], in[4], in[5], in[6], in[7]), &count,
      "lstm(a, b, c, d, e, f, g, h, input_forget=input_forget, direction=direction, "
      "activations=activations, activation_alpha=activation_alpha, "
      "activation_beta=activation_beta, clip=clip)");
  for (int32_t i = 0; i < lower->output_count && i < count; i++)
    lower->outputs[i] = all[i];
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"QuantizeLinear(x, scale, zero?) = quantize_linear(x, scale, zero, axis=axis?1)", 1, NULL},
  {"DequantizeLinear(x, scale, zero?) = dequantize_linear(x, scale, zero, axis=axis?1)", 1, NULL},
  {"MatMulIntegerToFloat(a, b, a_scale, b_scale, a_zero?, b_zero?, bias?)", 1,
   lower_integer_to_float},
  {"DynamicQuantizeMatMul(a, b, b_scale, b_zero?, bias?)", 1, lower_dynamic_matmul},
  {"DynamicQuantizeLSTM(x, w, r, b?, lens?, h?, c?, p?, w_scale, w_zero, r_scale, r_zero)", 1,
   lower_dynamic_lstm},
  {"QGemm(a, a_scale, a_zero, b, b_scale, b_zero, c?, y_scale?, y_zero?)", 1, lower_gemm},
  {"QLinearAdd(a, a_scale, a_zero?, b, b_scale, b_zero?, y_scale, y_zero?) = "
   QUANTISED("add(" FLOATS("a") ", " FLOATS("b") ")", "y", "a"), 1, NULL},
  {"QLinearMul(a, a_scale, a_zero?, b, b_scale, b_zero?, y_scale, y_zero?) = "
   QUANTISED("mul(" FLOATS("a") ", " FLOATS("b") ")", "y", "a"), 1, NULL},
  {"QLinearLeakyRelu(x, x_scale, x_zero?, y_scale, y_zero?) = "
   QUANTISED("leaky_relu(" FLOATS("x") ", alpha=alpha?0.01)", "y", "x"), 1, NULL},
  {"QLinearSigmoid(x, x_scale, x_zero?, y_scale, y_zero?) = "
   QUANTISED("sigmoid(" FLOATS("x") ")", "y", "x"), 1, NULL},
  {"QLinearReduceMean(x, x_scale, x_zero?, y_scale, y_zero?) = "
   QUANTISED("reduce_mean(" FLOATS("x") ", @axes, keepdims=keepdims?True)", "y", "x"), 1, NULL},
  {"QLinearWhere(condition, x, x_scale, x_zero, z, z_scale, z_zero, y_scale, y_zero) = "
   QUANTISED("where(condition, " FLOATS("x") ", " FLOATS("z") ")", "y", "x"), 1, NULL},
  {"QLinearSoftmax(x, x_scale, x_zero?, y_scale, y_zero)", 1, lower_softmax},
  {"QLinearConcat(*xs)", 1, lower_concat},
  {"QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b?)", 1, lower_conv},
  {"QLinearAveragePool(x, x_scale, x_zero?, y_scale, y_zero?)", 1, lower_average_pool},
  {"QLinearGlobalAveragePool(x, x_scale, x_zero, y_scale, y_zero)", 1, lower_average_pool},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_quantised, "com.microsoft");
