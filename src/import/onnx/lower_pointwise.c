/* Lowerings of pointwise operators, casts, and operators with any number of inputs (Sum, Max, ...),
 * which become chains. Before operator set 7, operands were broadcast only if an attribute
 * requested it, along an axis that another attribute named. */
#include <string.h>

#include "import/onnx/lower.h"

/* clang-format off */
#define UNARY(X)                                                                                   \
  X(Abs, abs) X(Neg, neg) X(Sign, sign) X(Exp, exp) X(Log, log) X(Sqrt, sqrt)                      \
  X(Reciprocal, reciprocal) X(Floor, floor) X(Ceil, ceil) X(Round, round) X(Sin, sin)              \
  X(Cos, cos) X(Tan, tan) X(Asin, asin) X(Acos, acos) X(Atan, atan) X(Sinh, sinh) X(Cosh, cosh)    \
  X(Tanh, tanh) X(Asinh, asinh) X(Acosh, acosh) X(Atanh, atanh) X(Erf, erf) X(Sigmoid, sigmoid)    \
  X(Softplus, softplus) X(Softsign, softsign) X(Relu, relu) X(Mish, mish) X(Not, not)              \
  X(HardSwish, hard_swish) X(BitwiseNot, bitwise_not) X(IsNaN, is_nan)
#define BINARY(X)                                                                                  \
  X(Add, add) X(Sub, sub) X(Mul, mul) X(Div, div) X(Pow, pow) X(And, and) X(Or, or) X(Xor, xor)    \
  X(Equal, equal) X(Greater, greater) X(Less, less)
#define CHAIN(X) X(Sum, add) X(Max, max) X(Min, min) X(Mean, add)
/* clang-format on */

/* The name of the core operator. */
static const char *core_name(const tn_lower_t *lower) {
#define NAME(onnx, core)                                                                           \
  if (strcmp(lower->node->type, #onnx) == 0) return #core;
  BINARY(NAME)
  CHAIN(NAME)
#undef NAME
  return "prelu";
}

/* Adds axes of extent 1 at the end of `b`, so that its first axis corresponds to `axis` of `a`. */
static tn_ref_t *align_axes(tn_lower_t *lower, tn_ref_t *a, tn_ref_t *b, int64_t axis) {
  int64_t axes[TENON_RANK_MAX];
  int32_t rank = tn_lower_rank(lower, a);
  int32_t own = tn_lower_rank(lower, b);
  int32_t count = 0;
  if (axis < 0) axis += rank;
  if (axis + own > rank)
    tn_lower_fail(lower, "axis %lld is out of range for operands of rank %d and %d",
                  (long long)axis, rank, own);
  for (int64_t i = own; i < rank - axis && count < TENON_RANK_MAX; i++)
    axes[count++] = i;
  if (count == 0) return b;
  return tn_lower_run(lower, TN_REFS(b, tn_lower_ints(lower, axes, (size_t)count)),
                      "unsqueeze(a, b)");
}

static void lower_old_binary(tn_lower_t *lower) {
  tn_ref_t *a = lower->inputs[0];
  tn_ref_t *b = lower->inputs[1];
  bool broadcast = tn_lower_int(lower, "broadcast", 0) != 0;
  tn_attr_t *axis = tn_lower_attr(lower, "axis");
  if (broadcast && axis) b = align_axes(lower, a, b, tn_lower_int(lower, "axis", 0));
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(a, b), "%s(a, b)", core_name(lower));
}

/* A slope with several elements belongs to the channels, axis 1. */
static void lower_old_prelu(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *slope = lower->inputs[1];
  const tenon_tensor_t *tensor = NULL;
  if (tn_ref_value(lower->import, slope, &tensor) != TENON_OK) tensor = NULL;
  if (!tensor || tenon_count(tensor) != 1) slope = align_axes(lower, x, slope, 1);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x, slope), "prelu(a, b)");
}

static void lower_chain(tn_lower_t *lower) {
  tn_ref_t *y = lower->inputs[0];
  for (int32_t i = 1; i < lower->input_count; i++)
    y = tn_lower_run(lower, TN_REFS(y, lower->inputs[i]), "%s(a, b)", core_name(lower));
  if (strcmp(lower->node->type, "Mean") == 0 && lower->input_count > 1)
    y = tn_lower_run(lower, TN_REFS(y), "div(a, %d:a)", (int)lower->input_count);
  else if (lower->input_count == 1)
    y = tn_lower_run(lower, TN_REFS(y), "identity(a)");
  lower->outputs[0] = y;
}

static void lower_shift(tn_lower_t *lower) {
  const char *direction = tn_lower_text(lower, "direction", "");
  bool left = strcmp(direction, "LEFT") == 0;
  if (!left && strcmp(direction, "RIGHT") != 0)
    tn_lower_fail(lower, "attribute 'direction': expected LEFT or RIGHT, found '%.40s'", direction);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1]), "%s(a, b)",
                                   left ? "shift_left" : "shift_right");
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
#define ROW(onnx, core) {#onnx "(x) = " #core "(x)", 1, NULL},
  UNARY(ROW)
#undef ROW
#define ROW(onnx, core)                                                                            \
  {#onnx "(a, b)", 1, lower_old_binary},                                                           \
  {#onnx "(a, b) = " #core "(a, b)", 7, NULL},
  BINARY(ROW)
#undef ROW
#define ROW(onnx, core) {#onnx "(x, *more)", 1, lower_chain},
  CHAIN(ROW)
#undef ROW
  {"PRelu(a, slope)", 1, lower_old_prelu},
  {"PRelu(a, slope) = prelu(a, slope)", 7, NULL},
  {"GreaterOrEqual(a, b) = greater_equal(a, b)", 12, NULL},
  {"LessOrEqual(a, b) = less_equal(a, b)", 12, NULL},
  {"Mod(a, b) = mod(a, b, fmod=fmod)", 10, NULL},
  {"BitwiseAnd(a, b) = bitwise_and(a, b)", 18, NULL},
  {"BitwiseOr(a, b) = bitwise_or(a, b)", 18, NULL},
  {"BitwiseXor(a, b) = bitwise_xor(a, b)", 18, NULL},
  {"BitShift(a, b)", 11, lower_shift},
  {"Where(condition, a, b) = where(condition, a, b)", 9, NULL},
  {"IsInf(x) = is_inf(x, negative=detect_negative, positive=detect_positive)", 10, NULL},
  {"Clip(x) = clip(x, @min:x, @max:x)", 1, NULL},
  {"Clip(x, min?, max?) = clip(x, min, max)", 11, NULL},
  {"Gelu(x) = gelu(x, approximate=approximate)", 20, NULL},
  {"Swish(x) = silu(x, alpha=alpha?1.0)", 24, NULL},
  {"Elu(x) = elu(x, alpha=alpha?1.0)", 1, NULL},
  {"Celu(x) = celu(x, alpha=alpha?1.0)", 12, NULL},
  {"Selu(x) = selu(x, alpha=alpha?1.6732, gamma=gamma?1.0507)", 1, NULL},
  {"Selu(x) = selu(x, alpha=alpha, gamma=gamma)", 6, NULL},
  {"LeakyRelu(x) = leaky_relu(x, alpha=alpha?0.01)", 1, NULL},
  {"HardSigmoid(x) = hard_sigmoid(x, alpha=alpha?0.2, beta=beta?0.5)", 1, NULL},
  {"ThresholdedRelu(x) = thresholded_relu(x, alpha=alpha?1.0)", 10, NULL},
  {"Shrink(x) = shrink(x, lambd=lambd?0.5, bias=bias?0.0)", 9, NULL},
  {"Cast(x) = cast(x, to=to, saturate=saturate, round_mode=round_mode)", 1, NULL},
  {"CastLike(x, like) = cast_like(x, like, saturate=saturate, round_mode=round_mode)", 15, NULL},
  {"BitCast(x) = bit_cast(x, to=to)", 26, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_pointwise, "");
