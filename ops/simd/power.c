/* Powers: every base that ONNX allows to the power of any number; the result has the dtype of the
 * base. Integers wrap; to a negative power they are 0, except 1 and -1; to a real power they are
 * computed in double and rounded towards zero.
 * Invariant: a result does not depend on neighbouring exponents, although runs of squares, cubes
 * and square roots have their own loops. */
#include "pointwise.h"

static inline double real_power(double x, double y) {
  if (y == 2) return x * x;
  return y == 3 ? x * x * x : pow(x, y);
}

static inline uint64_t whole_power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}
/* `negative` is the sign of the exponent, `odd` its lowest bit. */
static inline uint64_t integer_power(int64_t base, uint64_t exponent, int negative) {
  if (!negative) return whole_power((uint64_t)base, exponent);
  if (base == 1) return 1;
  if (base != -1) return 0;
  return exponent & 1 ? UINT64_MAX : 1;
}

/* clang-format off */
#define DEFINE_INT_OF_SIGNED(dtype, E, U, base, T)                                                 \
  LOOP2(pow_##base##_##dtype, T, T, a, E, b, NO_SETUP,                                             \
        integer_power(a, (uint64_t)(int64_t)b, b < 0))
#define DEFINE_INT_OF_UNSIGNED(dtype, E, U, base, T)                                               \
  LOOP2(pow_##base##_##dtype, T, T, a, E, b, NO_SETUP,                                             \
        whole_power((uint64_t)(int64_t)a, (uint64_t)b))
#define DEFINE_INT_OF_FLOAT(dtype, E, U, base, T)                                                  \
  LOOP2(pow_##base##_##dtype, T, T, a, E, b, NO_SETUP, tn_int64(real_power((double)a, (double)b)))
#define DEFINE_DOUBLE(dtype, E, U, ...)                                                            \
  LOOP2(pow_f64_##dtype, double, double, a, E, b, NO_SETUP, real_power(a, (double)b))
#define DEFINE_FLOAT(dtype, E, U, ...)                                                             \
  LOOP2(pow_f32_##dtype, float, float, a, E, b, NO_SETUP, tn_power(a, (double)b, 1, (int)(b & 1)))
#define DEFINE_INT(base, T)                                                                        \
  SIGNED(DEFINE_INT_OF_SIGNED, base, T)                                                            \
  UNSIGNED(DEFINE_INT_OF_UNSIGNED, base, T)                                                        \
  FLOATS(DEFINE_INT_OF_FLOAT, base, T)
DEFINE_INT(i32, int32_t)
DEFINE_INT(i64, int64_t)
NUMBERS(DEFINE_DOUBLE, 0)
INTS(DEFINE_FLOAT, 0)
LOOP2(pow_f32_f64, float, float, a, double, b, NO_SETUP, real_power((double)a, b))

LOOP2(power_any, float, float, a, float, b, NO_SETUP, tn_powf(a, b))
LOOP2(power_two, float, float, a, float, b, NO_SETUP, ((void)b, a * a))
LOOP2(power_three, float, float, a, float, b, NO_SETUP, ((void)b, (double)a * a * a))
LOOP2(power_half, float, float, a, float, b, NO_SETUP, ((void)b, tn_rootf(a)))
/* clang-format on */

static tenon_status_t pow_f32_f32(const tenon_loop_t *loop) {
  const int64_t count = loop->count;
  const float *b = (const float *)loop->data[1];
  const float first = count ? b[0] : 1;
  int differ = 0;
  for (int64_t i = 0; i < count; i++)
    differ |= b[i] != first;
  if (differ) return power_any(loop);
  if (first == 2) return power_two(loop);
  if (first == 3) return power_three(loop);
  return first == .5 ? power_half(loop) : power_any(loop);
}

/* 0 to the power of b has no logarithm, but for b >= 0 it does not change with b either. */
#define POWER(x, y) TN_GENERIC(x, tn_powf, real_power)(x, y)
#define DEFINE_BACKWARD_OF(dtype, E, U, base, T)                                                   \
  LOOP_BOTH(pow_backward_##base##_##dtype, T, E, const T e = (T)b;                                 \
            , e == 0 ? 0 : dy * e * POWER(a, e - 1),                                               \
            ((a == 0) & (e >= 0)) ? 0 : dy * POWER(a, e) * LOG(a))
/* An integer has no gradient. */
#define DEFINE_BACKWARD_OF_INT(dtype, E, U, base, T)                                               \
  LOOP_BOTH(pow_backward_##base##_##dtype, T, E, const T e = (T)b;                                 \
            , e == 0 ? 0 : dy * e * POWER(a, e - 1), 0)
/* clang-format off */
FLOATS(DEFINE_BACKWARD_OF, f32, float)
FLOATS(DEFINE_BACKWARD_OF, f64, double)
INTS(DEFINE_BACKWARD_OF_INT, f32, float)
INTS(DEFINE_BACKWARD_OF_INT, f64, double)
/* clang-format on */

#define ITEM(dtype, T, U, base) LOOP(#base ", " #dtype " -> " #base, pow_##base##_##dtype)
#define ITEM_BACKWARD_OF(dtype, T, U, base)                                                        \
  LOOP(#base ", " #base ", " #dtype " -> " #base ", " #dtype, pow_backward_##base##_##dtype)

/* clang-format off */
/* Derivatives with the logarithm of a are computed above 0 only; a^(b - 1) (1 + b log a) is the
 * mixed second derivative. */
#define B_ "core::cast_like(b, a)"
#define ABOVE_0(text) "core::where(core::greater(a, 0.0), " text ", 0.0)"
#define MIXED                                                                                      \
  ABOVE_0("core::mul(core::pow(a, core::sub(" B_ ", 1.0)), core::add(1.0, core::mul(" B_           \
          ", core::log(a))))")
FAMILY(core_power,
  OPERATOR(pow, "(Tensor a, Tensor b) -> Tensor",
    FACTS("a to the power of b, in the dtype of a", "a: float|i32|i64; b: number; out = a",
          "a, b: core::pow_backward(grad, a, b)"),
    NUMBERS(ITEM, f32) NUMBERS(ITEM, f64) NUMBERS(ITEM, i32) NUMBERS(ITEM, i64))
  OPERATOR(pow_backward, "(Tensor dy, Tensor a, Tensor b) -> (Tensor? da, Tensor? db)",
    FACTS("dy times the derivatives of pow with respect to a and b",
          "dy, a: float; b: number; da = dy; db = b",
          "dy: core::add(core::pow_backward(grad.da, a, b), core::mul(grad.db, "
          ABOVE_0("core::mul(core::pow(a, b), core::log(a))")
          ")); a: core::add(core::pow_backward(core::mul(core::mul(grad.da, dy), " B_
          "), a, core::sub(" B_ ", 1.0)), core::mul(grad.db, core::mul(dy, " MIXED
          "))); b: core::cast_like(core::mul(dy, core::add(core::mul(grad.da, " MIXED
          "), core::mul(grad.db, "
          ABOVE_0("core::mul(core::pow(a, b), core::mul(core::log(a), core::log(a)))") "))), b)"),
    NUMBERS(ITEM_BACKWARD_OF, f32) NUMBERS(ITEM_BACKWARD_OF, f64)))
/* clang-format on */
