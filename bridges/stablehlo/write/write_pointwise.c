/* Writes element-wise operators, most of them as formulas. */
#include <string.h>

#include "write/formula.h"

#define GELU_TANH                                                                                  \
  "multiply(multiply(a, 0.5), add(1, tanh(multiply(0.7978845608028654, add(a, "                    \
  "multiply(0.044715, multiply(a, multiply(a, a))))))))"
#define GELU "multiply(multiply(a, 0.5), add(1, chlo.erf(multiply(a, 0.7071067811865476))))"

static void give_formula(hlo_write_t *w, const char *text) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_give_val(w, 0, hlo_formula(w, text, &a, 1, &a));
}

static void write_gelu(hlo_write_t *w) {
  bool is_tanh = strcmp(hlo_write_choice(w, "approximate"), "tanh") == 0;
  give_formula(w, is_tanh ? GELU_TANH : GELU);
}

static void write_cast(hlo_write_t *w) {
  hlo_give_val(w, 0, hlo_convert(w, hlo_in(w, 0), hlo_result(w, 0).dtype));
}

static void write_same(hlo_write_t *w) { hlo_give_val(w, 0, hlo_in(w, 0)); }

static void write_bit_cast(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t type = hlo_result(w, 0);
  /* A truth value has one bit in StableHLO, and is a byte here. */
  if (hlo_dtype_is_bool(type.dtype) && !hlo_dtype_is_bool(a.dtype))
    hlo_write_missing(w, "the bits of truth values");
  if (hlo_dtype_is_bool(a.dtype)) a = hlo_convert(w, a, tenon_dtype(TENON_U8));
  hlo_give_val(w, 0, hlo_emit(w, "stablehlo.bitcast_convert", type, "", NULL, &a, 1));
}

/* The exponent of a power may have another dtype than the base. */
static void write_pow(hlo_write_t *w) {
  hlo_val_t like = hlo_result(w, 0);
  const hlo_val_t values[] = {hlo_in(w, 0), hlo_convert(w, hlo_in(w, 1), like.dtype)};
  hlo_give_val(w, 0, hlo_formula(w, "power(a, b)", values, 2, &like));
}

/* The sign of the result is that of the divisor, unless fmod is set. */
static void write_mod(hlo_write_t *w) {
  hlo_val_t like = hlo_result(w, 0);
  const hlo_val_t values[] = {hlo_in(w, 0), hlo_in(w, 1)};
  hlo_val_t rest = hlo_formula(w, "remainder(a, b)", values, 2, &like);
  const hlo_val_t parts[] = {rest, values[1]};
  if (!hlo_write_int(w, "fmod") && !hlo_dtype_is_unsigned(like.dtype))
    rest = hlo_formula(w, "select(and(NE(a, 0), NE(LT(a, 0), LT(b, 0))), add(a, b), a)", parts, 2,
                       &like);
  hlo_give_val(w, 0, rest);
}

static void write_shift_right(hlo_write_t *w) {
  hlo_val_t like = hlo_result(w, 0);
  const hlo_val_t values[] = {hlo_in(w, 0), hlo_in(w, 1)};
  bool is_unsigned = hlo_dtype_is_unsigned(like.dtype);
  hlo_give_val(
      w, 0,
      hlo_formula(w, is_unsigned ? "shift_right_logical(a, b)" : "shift_right_arithmetic(a, b)",
                  values, 2, &like));
}

static void write_clip(hlo_write_t *w) {
  hlo_val_t value = hlo_in(w, 0);
  static const char *const texts[] = {"", "maximum(a, b)", "minimum(a, b)"};
  for (int32_t i = 1; i <= 2; i++) {
    if (!hlo_operand_count(w, i)) continue;
    const hlo_val_t values[] = {value, hlo_in(w, i)};
    value = hlo_formula(w, texts[i], values, 2, &values[0]);
  }
  hlo_give_val(w, 0, value);
}

static void write_is_inf(hlo_write_t *w) {
  bool negative = hlo_write_int(w, "negative") != 0;
  bool positive = hlo_write_int(w, "positive") != 0;
  const char *text = "LT(a, a)";
  if (negative && positive) text = "and(not(is_finite(a)), EQ(a, a))";
  if (negative && !positive) text = "and(not(is_finite(a)), LT(a, 0))";
  if (!negative && positive) text = "and(not(is_finite(a)), GT(a, 0))";
  hlo_val_t a = hlo_in(w, 0);
  hlo_give_val(w, 0, hlo_formula(w, text, &a, 1, &a));
}

static const hlo_write_row_t rows[] = {
    {"abs", "abs(a)", NULL},
    {"neg", "negate(a)", NULL},
    {"sign", "sign(a)", NULL},
    {"exp", "exponential(a)", NULL},
    {"log", "log(a)", NULL},
    {"sqrt", "sqrt(a)", NULL},
    {"rsqrt", "rsqrt(a)", NULL},
    {"reciprocal", "divide(1, a)", NULL},
    {"floor", "floor(a)", NULL},
    {"ceil", "ceil(a)", NULL},
    {"round", "round_nearest_even(a)", NULL},
    {"sin", "sine(a)", NULL},
    {"cos", "cosine(a)", NULL},
    {"tan", "tan(a)", NULL},
    {"asin", "chlo.asin(a)", NULL},
    {"acos", "chlo.acos(a)", NULL},
    {"atan", "chlo.atan(a)", NULL},
    {"sinh", "chlo.sinh(a)", NULL},
    {"cosh", "chlo.cosh(a)", NULL},
    {"asinh", "chlo.asinh(a)", NULL},
    {"acosh", "chlo.acosh(a)", NULL},
    {"atanh", "chlo.atanh(a)", NULL},
    {"tanh", "tanh(a)", NULL},
    {"erf", "chlo.erf(a)", NULL},
    {"erfc", "chlo.erfc(a)", NULL},
    {"sigmoid", "logistic(a)", NULL},
    {"relu", "maximum(a, 0)", NULL},
    {"softplus", "add(maximum(a, 0), log_plus_one(exponential(negate(abs(a)))))", NULL},
    {"softsign", "divide(a, add(1, abs(a)))", NULL},
    {"mish", "multiply(a, tanh(add(maximum(a, 0), log_plus_one(exponential(negate(abs(a)))))))",
     NULL},
    {"hard_sigmoid", "minimum(maximum(add(multiply(a, $alpha), $beta), 0), 1)", NULL},
    {"hard_swish",
     "multiply(a, minimum(maximum(add(multiply(a, 0.16666666666666666), 0.5), 0), 1))", NULL},
    {"silu", "multiply(a, logistic(multiply(a, $alpha)))", NULL},
    {"elu", "select(GT(a, 0), a, multiply($alpha, exponential_minus_one(a)))", NULL},
    {"celu",
     "add(maximum(a, 0), minimum(multiply($alpha, exponential_minus_one(divide(a, $alpha))), 0))",
     NULL},
    {"selu", "multiply($gamma, select(GT(a, 0), a, multiply($alpha, exponential_minus_one(a))))",
     NULL},
    {"leaky_relu", "select(LT(a, 0), multiply(a, $alpha), a)", NULL},
    {"thresholded_relu", "select(GT(a, $alpha), a, 0)", NULL},
    {"shrink",
     "select(LT(a, negate($lambd)), add(a, $bias), select(GT(a, $lambd), subtract(a, $bias), 0))",
     NULL},
    {"prelu", "select(LT(a, 0), multiply(a, b), a)", NULL},
    {"add", "add(a, b)", NULL},
    {"sub", "subtract(a, b)", NULL},
    {"mul", "multiply(a, b)", NULL},
    {"div", "divide(a, b)", NULL},
    {"max", "maximum(a, b)", NULL},
    {"min", "minimum(a, b)", NULL},
    {"and", "and(a, b)", NULL},
    {"or", "or(a, b)", NULL},
    {"xor", "xor(a, b)", NULL},
    {"not", "not(a)", NULL},
    {"bitwise_and", "and(a, b)", NULL},
    {"bitwise_or", "or(a, b)", NULL},
    {"bitwise_xor", "xor(a, b)", NULL},
    {"bitwise_not", "not(a)", NULL},
    {"shift_left", "shift_left(a, b)", NULL},
    {"shift_right", NULL, write_shift_right},
    {"equal", "EQ(a, b)", NULL},
    {"not_equal", "NE(a, b)", NULL},
    {"less", "LT(a, b)", NULL},
    {"less_equal", "LE(a, b)", NULL},
    {"greater", "GT(a, b)", NULL},
    {"greater_equal", "GE(a, b)", NULL},
    {"where", "select(a, b, c)", NULL},
    {"is_nan", "NE(a, a)", NULL},
    {"is_inf", NULL, write_is_inf},
    {"pow", NULL, write_pow},
    {"mod", NULL, write_mod},
    {"clip", NULL, write_clip},
    {"gelu", NULL, write_gelu},
    {"cast", NULL, write_cast},
    {"cast_like", NULL, write_cast},
    {"bit_cast", NULL, write_bit_cast},
    {"identity", NULL, write_same},
    {"contiguous", NULL, write_same},
};

HLO_WRITE_ROWS(hlo_write_rows_pointwise);
