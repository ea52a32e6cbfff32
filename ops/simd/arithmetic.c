/* Arithmetic on numbers with one or two operands. Integers wrap. Cases that C leaves undefined are
 * defined here: division by zero and its remainder give 0, and the least integer divided by -1 is
 * itself. min and max give NaN if an operand is NaN. Results on integers whose values are known
 * during inference are computed there too.
 * Invariant: a value that infer states is the value that the loop computes. */
#define LOOP_UNROLL _Pragma("GCC unroll 4")
#include "pointwise.h"

#define SIGN_FUNCTION(dtype, T, U, ...)                                                            \
  static inline T sign_of_##dtype(T x) {                                                           \
    T zero = x == 0 ? (T)0 : x;                                                                    \
    T least = x < 0 ? (T)-1 : zero;                                                                \
    return x > 0 ? (T)1 : least;                                                                   \
  }
FLOATS(SIGN_FUNCTION, 0)
#define SIGN(x) TN_GENERIC(x, sign_of_f32, sign_of_f64)(x)

/* clang-format off */
/* X(operator, expression for floats, for signed, for unsigned integers, doc, gradient) */
#define UNARY(X)                                                                                   \
  X(abs, ABS(x), x < 0 ? (T)(0 - (U)x) : x, x, "The absolute value",                               \
    "x: core::mul(grad, core::sign(x))")                                                           \
  X(neg, -x, 0 - (U)x, 0 - (U)x, "The number with the opposite sign", "x: core::neg(grad)")        \
  X(sign, SIGN(x), (x > 0) - (x < 0), x > 0, "1, 0 or -1 by the sign of x; NaN for NaN",           \
    "x: none")
/* X(operator, expression for floats, for signed, for unsigned integers, doc, gradient) */
#define BINARY(X)                                                                                  \
  X(add, a + b, (U)a + (U)b, (U)a + (U)b, "The sum of a and b",                                    \
    "a: core::identity(grad); b: core::identity(grad)")                                            \
  X(sub, a - b, (U)a - (U)b, (U)a - (U)b, "a minus b",                                             \
    "a: core::identity(grad); b: core::neg(grad)")                                                 \
  X(mul, a * b, (U)a * (U)b, (U)a * (U)b, "The product of a and b",                                \
    "a: core::mul(grad, b); b: core::mul(grad, a)")                                                \
  X(div, a / b, b == 0 ? (T)0 : b == -1 ? (T)(0 - (U)a) : (T)(a / b), b == 0 ? (T)0 : (T)(a / b),  \
    "a divided by b; integers are rounded towards zero, and give 0 where b is 0",                  \
    "a: core::div(grad, b); b: core::neg(core::div(core::mul(grad, out), b))")                     \
  X(min, LEAST(a, b), a < b ? a : b, a < b ? a : b, "The smaller of a and b; NaN if one is NaN",   \
    "a, b: core::min_backward(grad, a, b)")                                                        \
  X(max, GREATEST(a, b), a > b ? a : b, a > b ? a : b, "The larger of a and b; NaN if one is NaN", \
    "a, b: core::max_backward(grad, a, b)")
/* clang-format on */

#define DEFINE_ONE(dtype, T, W, name, expression)                                                  \
  LOOP1(name##_##dtype, T, T, x, WRAPPING(W), expression)
#define DEFINE_TWO(dtype, T, W, name, expression)                                                  \
  LOOP2(name##_##dtype, T, T, a, T, b, WRAPPING(W), expression)
#define DEFINE_UNARY(name, of_float, of_signed, of_unsigned, doc, gradient)                        \
  FLOATS(DEFINE_ONE, name, of_float)                                                               \
  SIGNED(DEFINE_ONE, name, of_signed) UNSIGNED(DEFINE_ONE, name, of_unsigned)
#define DEFINE_BINARY(name, of_float, of_signed, of_unsigned, doc, gradient)                       \
  FLOATS(DEFINE_TWO, name, of_float)                                                               \
  SIGNED(DEFINE_TWO, name, of_signed) UNSIGNED(DEFINE_TWO, name, of_unsigned)
UNARY(DEFINE_UNARY)
BINARY(DEFINE_BINARY)

/* remainder: with the sign of the divisor as in Python, or of the dividend as in C */

#define REMAINDER_FLOAT(dtype, T, W, ...)                                                          \
  static inline T remainder_##dtype(T a, T b, int of_c) {                                          \
    T r = FMOD(a, b);                                                                              \
    if (of_c) return r;                                                                            \
    T zero = b < 0 ? -ABS(r) : ABS(r);                                                             \
    T moved = (r < 0) != (b < 0) ? r + b : r;                                                      \
    return r == 0 ? zero : moved;                                                                  \
  }
#define REMAINDER_SIGNED(dtype, T, W, ...)                                                         \
  static inline T remainder_##dtype(T a, T b, int of_c) {                                          \
    T r = 0;                                                                                       \
    if (b != 0 && b != -1) r = (T)(a % b);                                                         \
    return !of_c && r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                 \
  }
#define REMAINDER_UNSIGNED(dtype, T, W, ...)                                                       \
  static inline T remainder_##dtype(T a, T b, int of_c) {                                          \
    (void)of_c;                                                                                    \
    if (b == 0) return 0;                                                                          \
    return (T)(a % b);                                                                             \
  }
FLOATS(REMAINDER_FLOAT, 0)
SIGNED(REMAINDER_SIGNED, 0)
UNSIGNED(REMAINDER_UNSIGNED, 0)
#define DEFINE_MOD(dtype, T, W, name)                                                              \
  LOOP2(name##_##dtype, T, T, a, T, b, const int of_c = loop->attrs[0].as.i != 0;                  \
        , remainder_##dtype(a, b, of_c))
NUMBERS(DEFINE_MOD, mod)

/* gradients of min and max go to the operand that was chosen; each gets half if both are equal */

#define DEFINE_CHOSEN(dtype, T, W, name, sign)                                                     \
  LOOP_BOTH(name##_##dtype, T, T, const T share = a == b ? dy * (T)0.5 : dy;                       \
            , a sign b ? (T)0 : share, b sign a ? (T)0 : share)
/* clang-format off */
FLOATS(DEFINE_CHOSEN, min_backward, >)
FLOATS(DEFINE_CHOSEN, max_backward, <)
/* clang-format on */

/* integers known during inference */

#ifndef TENON_SIMD
#define INTEGER_LIMIT                                                                              \
  ((int64_t)1 << 62) /* Larger numbers are not stated, because they might be taken for symbols. */

static int is_small(int64_t x) { return x > -INTEGER_LIMIT && x < INTEGER_LIMIT; }

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Applies an operation to two numbers. Returns 0 if the result is too large to state. */
static int compute_integer(uint32_t operation, int of_c, int64_t a, int64_t b, int64_t *out) {
  switch (operation) {
  case TENON_DIM_ADD:
    *out = a + b;
    break;
  case TENON_DIM_SUB:
    *out = a - b;
    break;
  case TENON_DIM_MUL:
    if (a != 0 && magnitude(b) > INTEGER_LIMIT / magnitude(a)) return 0;
    *out = a * b;
    break;
  case TENON_DIM_DIV:
    *out = b == 0 ? 0 : a / b;
    break;
  case TENON_DIM_MOD:
    *out = remainder_i64(a, b, of_c);
    break;
  case TENON_DIM_MIN:
    *out = a < b ? a : b;
    break;
  default:
    *out = a > b ? a : b;
    break;
  }
  return is_small(*out);
}

/* The same if an operand may be a symbol. tenon_dim() rounds quotients down, which is right where
 * nothing is negative. */
static int compute_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b,
                       tenon_dim_t *out) {
  int of_c = operation == TENON_DIM_MOD && infer->attrs[0].as.i != 0;
  int truncates = operation == TENON_DIM_DIV || of_c;
  if (tenon_is_known(a) && tenon_is_known(b))
    return is_small(a.value) && is_small(b.value) &&
           compute_integer(operation, of_c, a.value, b.value, &out->value);
  if (truncates || operation == TENON_DIM_MOD) {
    if (!tenon_is_known(b) || b.value <= 0) return 0;
    if (truncates && tenon_dim(infer, TENON_DIM_TEST_LESS, a, tenon_extent(0)).value != 0) return 0;
  }
  *out = tenon_dim(infer, operation, a, b);
  return 1;
}

static tenon_status_t propagate_values(tenon_infer_t *infer, uint32_t operation) {
  const tenon_meta_t *a = infer->inputs[0];
  const tenon_meta_t *b = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  uint32_t dtype = tenon_dtype_id(out->dtype);
  uint32_t count;
  if (!a->values || !b->values || a->ndim > 1 || b->ndim > 1) return TENON_OK;
  if (dtype != TENON_I64 && dtype != TENON_I32) return TENON_OK;
  if (a->value_count != b->value_count && a->value_count != 1 && b->value_count != 1)
    return TENON_OK;
  count = a->value_count == 1 ? b->value_count : a->value_count;
  for (uint32_t i = 0; i < count; i++) {
    tenon_dim_t *value = &out->values[i];
    tenon_dim_t left = a->values[a->value_count == 1 ? 0 : i];
    tenon_dim_t right = b->values[b->value_count == 1 ? 0 : i];
    if (!compute_dim(infer, operation, left, right, value)) return TENON_OK;
    if (dtype == TENON_I32 && tenon_is_known(*value) &&
        (value->value < INT32_MIN || value->value > INT32_MAX))
      return TENON_OK; /* the loop wraps, so no value can be stated */
  }
  out->value_count = count;
  return TENON_OK;
}

#define INFER(name, operation)                                                                     \
  static tenon_status_t name##_infer(tenon_infer_t *infer) {                                       \
    return propagate_values(infer, TENON_DIM_##operation);                                         \
  }
/* clang-format off */
INFER(add, ADD)
INFER(sub, SUB)
INFER(mul, MUL)
INFER(div, DIV)
INFER(min, MIN)
INFER(max, MAX)
INFER(mod, MOD)
/* clang-format on */
#endif

/* operators */

/* clang-format off */
#define ITEM_UNARY(name, of_float, of_signed, of_unsigned, doc, gradient)                          \
  OPERATOR(name, "(Tensor x) -> Tensor",                                                           \
    FACTS(doc, "x: number; out = x", gradient),                                                    \
    NUMBERS(ITEM1, name))
#define BINARY_FACTS(name, doc, gradient)                                                          \
  (TENON_DOC(doc "."),                                                                             \
   TENON_TYPES("a, b: number; out = a"),                                                           \
   POINTWISE,                                                                                      \
   TENON_INFER(name##_infer),                                                                      \
   TENON_GRADIENT(gradient))
#define ITEM_BINARY(name, of_float, of_signed, of_unsigned, doc, gradient)                         \
  OPERATOR(name, "(Tensor a, Tensor b) -> Tensor",                                                 \
    BINARY_FACTS(name, doc, gradient),                                                             \
    NUMBERS(ITEM2, name))
#define ITEM_CHOSEN(name, doc)                                                                     \
  OPERATOR(name, "(Tensor dy, Tensor a, Tensor b) -> (Tensor? da, Tensor? db)",                    \
    FACTS(doc, "dy, a, b: float; da, db = a",                                                      \
          "dy: core::add(core::" #name "(grad.da, a, b), core::" #name                             \
          "(grad.db, b, a)); a, b: none"),                                                         \
    FLOATS(ITEM_BOTH, name))

FAMILY(core_arithmetic,
  UNARY(ITEM_UNARY)
  BINARY(ITEM_BINARY)
  OPERATOR(mod, "(Tensor a, Tensor b, *, bool fmod=False) -> Tensor",
    BINARY_FACTS(mod,
                 "The remainder of a divided by b, with the sign of b or, if fmod, "
                 "with the sign of a as in C; 0 for integers where b is 0",
                 "a: core::identity(grad); "
                 "b: core::neg(core::mul(grad, core::round(core::div(core::sub(a, out), b))))"),
    NUMBERS(ITEM2, mod))
  ITEM_CHOSEN(min_backward,
              "dy where a or b is the smaller one; half of dy for each where they are equal")
  ITEM_CHOSEN(max_backward,
              "dy where a or b is the larger one; half of dy for each where they are equal"))
/* clang-format on */
