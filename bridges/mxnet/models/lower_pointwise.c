/* Lowers pointwise operators, and operators that return their input unless the model is trained.
 * Comparisons return numbers of their operands' dtype; those of MXNet's NumPy interface
 * (`_npi_...`) return bools. */
#include <math.h>
#include <string.h>

#include "attribute.h"
#include "lowering.h"

/* An operator of MXNet and the core operator for it; the last row of a table ends it. */
typedef struct pair_t {
  const char *mxnet;
  const char *core;
} pair_t;

static const char *core_name(const lower_t *lower, const pair_t *pairs) {
  while (pairs->mxnet && !strcasestr(lower->node->op, pairs->mxnet))
    pairs++;
  return pairs->core;
}

/* Makes a scalar of x's dtype. A scalar with a fraction is not supported if x has integers. */
static tenon_edge_t scalar_of(lower_t *lower, tenon_edge_t *x) {
  double value = attr_float(lower, "scalar", 0);
  bool is_int = attr_bool(lower, "is_int", true);
  if (!lower_is_float(lower, *x) && !is_int && value != trunc(value))
    lower_missing(lower, "a scalar with a fraction and a tensor of integers");
  return lower_scalar(lower, lower_dtype(lower, *x), value);
}

static const pair_t scalar_pairs[] = {{"plus", "add(a, b)"},
                                      {"rminus", "sub(b, a)"},
                                      {"minus", "sub(a, b)"},
                                      {"mul", "mul(a, b)"},
                                      {"rdiv", "div(b, a)"},
                                      {"div", "div(a, b)"},
                                      {"rmod", "where(equal(a, 0:a), 0:a, mod(b, a))"},
                                      {"mod", "where(equal(b, 0:a), 0:a, mod(a, b))"},
                                      {"rpower", "pow(b, a)"},
                                      {"power", "pow(a, b)"},
                                      {"maximum", "max(a, b)"},
                                      {"minimum", "min(a, b)"},
                                      {"hypot", "sqrt(add(mul(a, a), mul(b, b)))"},
                                      {"not_equal", "not_equal(a, b)"},
                                      {"NotEqual", "not_equal(a, b)"},
                                      {"greater_equal", "greater_equal(a, b)"},
                                      {"GreaterEqual", "greater_equal(a, b)"},
                                      {"lesser_equal", "less_equal(a, b)"},
                                      {"LesserEqual", "less_equal(a, b)"},
                                      {"greater", "greater(a, b)"},
                                      {"lesser", "less(a, b)"},
                                      {"equal", "equal(a, b)"},
                                      {"logical_and", "and(not_equal(a, 0:a), not_equal(b, 0:a))"},
                                      {"LogicalAnd", "and(not_equal(a, 0:a), not_equal(b, 0:a))"},
                                      {"logical_or", "or(not_equal(a, 0:a), not_equal(b, 0:a))"},
                                      {"LogicalOr", "or(not_equal(a, 0:a), not_equal(b, 0:a))"},
                                      {"logical_xor", "xor(not_equal(a, 0:a), not_equal(b, 0:a))"},
                                      {"LogicalXor", "xor(not_equal(a, 0:a), not_equal(b, 0:a))"},
                                      {NULL, NULL}};

static void lower_scalar_arithmetic(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t scalar = scalar_of(lower, &x);
  lower_give(lower, lower_run(lower, EDGES(x, scalar), "%s", core_name(lower, scalar_pairs)));
}

static void lower_scalar_comparison(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t scalar = scalar_of(lower, &x);
  lower_give(lower,
             lower_run(lower, EDGES(x, scalar), "cast(%s, to=:a)", core_name(lower, scalar_pairs)));
}

static void lower_sum(lower_t *lower) {
  tenon_edge_t y = lower_input(lower, 0);
  for (int32_t i = 1; i < lower->input_count; i++)
    y = lower_run(lower, EDGES(y, lower->inputs[i]), "add(a, b)");
  lower_give(lower, y);
}

static void lower_activation(lower_t *lower) {
  static const char *const names[][2] = {
      {"relu", "relu(a)"},         {"sigmoid", "sigmoid(a)"},
      {"tanh", "tanh(a)"},         {"softrelu", "softplus(a)"},
      {"softsign", "softsign(a)"}, {"log_sigmoid", "neg(softplus(neg(a)))"},
      {"mish", "mish(a)"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (attr_is(lower, "act_type", names[i][0], ""))
      lower_give(lower, lower_run(lower, lower->inputs, 1, "%s", names[i][1]));
  if (!lower->outputs.count)
    lower_missing(lower, "act_type=%.40s", attr_text(lower, "act_type", "None"));
}

/* A slope of several elements has one element for each channel (axis 1). */
static void lower_prelu(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t slope = lower_input(lower, 1);
  if (lower_extent(lower, slope, 0) != 1)
    for (int32_t rank = lower_rank(lower, x), i = 2; i < rank; i++)
      slope = lower_run(lower, EDGES(slope), "unsqueeze(a, [-1]:i64)");
  lower_give(lower, lower_run(lower, EDGES(x, slope), "prelu(a, b)"));
}

static void lower_leaky(lower_t *lower) {
  const char *type = attr_text(lower, "act_type", "leaky");
  double slope = attr_float(lower, "slope", 0.25);
  double low = attr_float(lower, "lower_bound", 0.125);
  double high = attr_float(lower, "upper_bound", 0.334);
  if (strcmp(type, "prelu") == 0)
    lower_prelu(lower);
  else if (strcmp(type, "elu") == 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "elu(a, alpha=%.17g)", slope));
  else if (strcmp(type, "selu") == 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "selu(a)"));
  else if (strcmp(type, "gelu") == 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "gelu(a)"));
  else if (strcmp(type, "leaky") == 0 || strcmp(type, "rrelu") == 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "leaky_relu(a, alpha=%.17g)",
                                *type == 'l' ? slope : (low + high) / 2));
  else
    lower_missing(lower, "act_type=%.40s", type);
}

static void lower_dropout(lower_t *lower) {
  if (!attr_is(lower, "mode", "training", "training"))
    lower_missing(lower, "its attribute mode=always");
  lower_give(lower, lower->inputs[0]);
}

/* Casts 16-bit floats to f32 if one operand is f32; with cast_narrow, f32 is cast to the 16-bit
 * dtype instead. Other dtypes stay. */
static void lower_multicast(lower_t *lower) {
  bool is_narrow = attr_bool(lower, "cast_narrow", false);
  tenon_edge_t half = EDGE_NONE;
  tenon_edge_t single = EDGE_NONE;
  for (int32_t i = 0; i < lower->input_count; i++) {
    uint32_t bits =
        lower_is_float(lower, lower->inputs[i]) ? lower_dtype(lower, lower->inputs[i]).bits : 0;
    if (bits == 16) half = lower->inputs[i];
    if (bits == 32) single = lower->inputs[i];
  }
  for (int32_t i = 0; i < lower->input_count; i++) {
    tenon_edge_t x = lower->inputs[i];
    tenon_edge_t like = is_narrow ? half : single;
    bool is_cast = like != EDGE_NONE && lower_is_float(lower, x) &&
                   lower_dtype(lower, x).bits == (is_narrow ? 32 : 16);
    lower_give(lower, is_cast ? lower_run(lower, EDGES(x, like), "cast(a, to=:b)") : x);
  }
}

/* A condition with one axis selects whole rows. */
static void lower_where(lower_t *lower) {
  tenon_edge_t condition = lower->inputs[0];
  tenon_edge_t a = lower->inputs[1];
  tenon_edge_t b = lower->inputs[2];
  int32_t rank = lower_rank_of(lower, a);
  if (lower_rank_of(lower, condition) == 1)
    for (int32_t i = 1; i < rank; i++)
      condition = lower_run(lower, EDGES(condition), "unsqueeze(a, [-1]:i64)");
  if (!lower_stopped(lower) && tenon_dtype_id(lower_dtype(lower, condition)) != TENON_BOOL)
    condition = lower_run(lower, EDGES(condition), "not_equal(a, 0:a)");
  lower_give(lower, lower_run(lower, EDGES(condition, a, b), "where(a, b, c)"));
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
#define UNARY(X)                                                                                                       \
  X(abs, abs) X(negative, neg) X(sign, sign) X(exp, exp) X(log, log) X(sqrt, sqrt) X(rsqrt, rsqrt)                     \
  X(reciprocal, reciprocal) X(floor, floor) X(ceil, ceil) X(sin, sin) X(cos, cos) X(tan, tan) X(arcsin, asin)          \
  X(arccos, acos) X(arctan, atan) X(sinh, sinh) X(cosh, cosh) X(tanh, tanh) X(arcsinh, asinh) X(arccosh, acosh)        \
  X(arctanh, atanh)
#define COMPARISON(X) X(equal, Equal, equal) X(not_equal, Not_Equal, not_equal) X(greater, Greater, greater)           \
  X(greater_equal, Greater_Equal, greater_equal) X(lesser, Lesser, less) X(lesser_equal, Lesser_Equal, less_equal)
#define LOGIC(X) X(and, And) X(or, Or) X(xor, Xor)

static const lowering_t lowerings[] = {
#define ROW(mxnet, core) {#mxnet "|_npi_" #mxnet "(x=) = " #core "(x)", NULL},
  UNARY(ROW)
#undef ROW
  {"_npi_absolute(x=) = abs(x)", NULL},
  {"erf|_npx_erf(x=) = erf(x)", NULL},
  {"sigmoid|_npx_sigmoid(x=) = sigmoid(x)", NULL},
  {"relu|_npx_relu(x=) = relu(x)", NULL},
  {"softsign(x=) = softsign(x)", NULL},
  {"square|_npi_square(x=) = mul(x, x)", NULL},
  {"cbrt|_npi_cbrt(x=) = mul(sign(x), pow(abs(x), 0.33333333333333333:x))", NULL},
  {"rcbrt(x=) = mul(sign(x), pow(abs(x), -0.33333333333333333:x))", NULL},
  {"expm1|_npi_expm1(x=) = where(less(x, 0:x), elu(x), sub(exp(x), 1:x))", NULL},
  {"log1p|_npi_log1p(x=) = log(add(x, 1:x))", NULL},
  {"log2|_npi_log2(x=) = mul(log(x), 1.4426950408889634:x)", NULL},
  {"log10|_npi_log10(x=) = mul(log(x), 0.43429448190325183:x)", NULL},
  {"degrees|_npi_degrees|_npi_rad2deg(x=) = mul(x, 57.295779513082321:x)", NULL},
  {"radians|_npi_radians|_npi_deg2rad(x=) = mul(x, 0.017453292519943296:x)", NULL},
  {"fix|trunc|_npi_fix|_npi_trunc(x=) = mul(sign(x), floor(abs(x)))", NULL},
  {"round(x=) = where(greater_equal(sub(abs(x), floor(abs(x))), 0.5:x), mul(sign(x), ceil(abs(x))), "
   "mul(sign(x), floor(abs(x))))", NULL},
  {"rint(x=) = where(less_equal(sub(x, floor(x)), sub(ceil(x), x)), floor(x), ceil(x))", NULL},
  {"_npi_rint(x=) = round(x)", NULL},
  {"logical_not(x=) = cast(equal(x, 0:x), to=:x)", NULL},
  {"smooth_l1(x=)  = s = mul(@scalar?1:x, @scalar?1:x); where(less(mul(abs(x), s), 1:x), mul(mul(x, x), mul(s, 0.5:x)), "
   "sub(abs(x), div(0.5:x, s)))", NULL},
  {"hard_sigmoid(x=) = hard_sigmoid(x, alpha=alpha?0.2, beta=beta?0.5)", NULL},
  {"clip|_npi_clip(x=) = clip(x, @a_min:x, @a_max:x)", NULL},
  {"_contrib_quadratic(x=) = add(mul(add(mul(x, @a?0:x), @b?0:x), x), @c?0:x)", NULL},
  {"Cast|cast|amp_cast(x=) = cast(x, to=dtype)", NULL},
  {"amp_multicast(*xs, -num_outputs)", lower_multicast},
  {"BlockGrad|stop_gradient|identity|_copy|_copyto|_CrossDeviceCopy|_np_copy(x=) = x", NULL},
  {"MakeLoss|make_loss(x=, -grad_scale, -valid_thresh, -normalization) = x", NULL},
  {"_contrib_gradientmultiplier(x=, -scalar, -is_int) = x", NULL},
  {"IdentityAttachKLSparseReg(x=, -sparseness_target, -penalty, -momentum) = x", NULL},
  {"_identity_with_attr_like_rhs(x=, like~) = x", NULL},
  {"LinearRegressionOutput|MAERegressionOutput(x=, label?~, -grad_scale) = x", NULL},
  {"SVMOutput(x=, label?~, -margin, -regularization_coefficient, -use_linear) = x", NULL},
  {"LogisticRegressionOutput(x=, label?~, -grad_scale) = sigmoid(x)", NULL},
  {"Dropout(x=, -p, -axes)", lower_dropout},
  {"Activation(x=)", lower_activation},
  {"LeakyReLU(x=, gamma?!)", lower_leaky},
  {"where|_npi_where(condition#, a, b)", lower_where},
  {"add_n|ElementWiseSum(*xs=)", lower_sum},
  {"elemwise_add|_add|_plus|_Plus|_grad_add|broadcast_add|broadcast_plus|_npi_add(a, b) = add(a, b)", NULL},
  {"elemwise_sub|_sub|_minus|_Minus|broadcast_sub|broadcast_minus|_npi_subtract(a, b) = sub(a, b)", NULL},
  {"elemwise_mul|_mul|_Mul|broadcast_mul|_npi_multiply(a, b) = mul(a, b)", NULL},
  {"elemwise_div|_div|_Div|broadcast_div|_scatter_elemwise_div|_npi_true_divide(a, b) = div(a, b)", NULL},
  {"_mod|_Mod|broadcast_mod|_npi_mod(a, b) = where(equal(b, 0:b), 0:b, mod(a, b))", NULL},
  {"_power|_Power|broadcast_power|_npi_power(a, b) = pow(a, b)", NULL},
  {"_maximum|_Maximum|broadcast_maximum|_npi_maximum(a, b) = max(a, b)", NULL},
  {"_minimum|_Minimum|broadcast_minimum|_npi_minimum(a, b) = min(a, b)", NULL},
  {"_hypot|_Hypot|broadcast_hypot|_npi_hypot(a, b) = sqrt(add(mul(a, a), mul(b, b)))", NULL},
#define ROW(mxnet, old, core) {"_" #mxnet "|_" #old "|broadcast_" #mxnet "(a, b) = cast(" #core "(a, b), to=:a)", NULL},
  COMPARISON(ROW)
#undef ROW
#define ROW(core, old)                                                                                                 \
  {"_logical_" #core "|_Logical_" #old "|broadcast_logical_" #core "(a, b) = "                                         \
   "cast(" #core "(not_equal(a, 0:a), not_equal(b, 0:b)), to=:a)", NULL},
  LOGIC(ROW)
#undef ROW
  {"_plus_scalar|_PlusScalar|_scatter_plus_scalar|_minus_scalar|_MinusScalar|_scatter_minus_scalar|_rminus_scalar|"
   "_RMinusScalar|_mul_scalar|_MulScalar|_div_scalar|_DivScalar|_rdiv_scalar|_RDivScalar|_mod_scalar|_ModScalar|"
   "_rmod_scalar|_RModScalar|_power_scalar|_PowerScalar|_rpower_scalar|_RPowerScalar|_maximum_scalar|_MaximumScalar|"
   "_minimum_scalar|_MinimumScalar|_hypot_scalar|_HypotScalar(x=)", lower_scalar_arithmetic},
  {"_equal_scalar|_EqualScalar|_not_equal_scalar|_NotEqualScalar|_greater_scalar|_GreaterScalar|_greater_equal_scalar|"
   "_GreaterEqualScalar|_lesser_scalar|_LesserScalar|_lesser_equal_scalar|_LesserEqualScalar|_logical_and_scalar|"
   "_LogicalAndScalar|_logical_or_scalar|_LogicalOrScalar|_logical_xor_scalar|_LogicalXorScalar(x=)",
   lower_scalar_comparison},
};
/* clang-format on */

LOWERINGS(lowerings_pointwise);
