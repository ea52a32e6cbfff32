/* Mathematical functions of one float. f32 uses math.h if it has the function, otherwise libm; f64
 * uses libm.
 * Invariant: a result depends only on its element, not on its position in a run. */
#include "pointwise.h"

/* clang-format off */
/* X(operator, expression, doc, gradient) */
#define FUNCTIONS(X)                                                                               \
  X(exp, EXP(x), "e to the power of x", "x: core::mul(grad, out)")                                 \
  X(log, LOG(x), "The natural logarithm", "x: core::div(grad, x)")                                 \
  X(sqrt, SQRT(x), "The square root", "x: core::div(grad, core::add(out, out))")                   \
  X(rsqrt, 1 / SQRT(x), "1 divided by the square root",                                            \
    "x: core::neg(core::div(core::mul(grad, out), core::add(x, x)))")                              \
  X(reciprocal, 1 / x, "1 divided by x", "x: core::neg(core::mul(grad, core::mul(out, out)))")     \
  X(floor, FLOOR(x), "The greatest integer not above x", "x: none")                                \
  X(ceil, CEIL(x), "The least integer not below x", "x: none")                                     \
  X(round, RINT(x), "The nearest integer; ties round to even", "x: none")                          \
  X(asin, ASIN(x), "The arc sine", "x: core::asin_backward(grad, x)")                              \
  X(acos, ACOS(x), "The arc cosine", "x: core::neg(core::asin_backward(grad, x))")                 \
  X(atan, ATAN(x), "The arc tangent", "x: core::atan_backward(grad, x)")                           \
  X(sinh, SINH(x), "The hyperbolic sine", "x: core::mul(grad, core::cosh(x))")                     \
  X(cosh, COSH(x), "The hyperbolic cosine", "x: core::mul(grad, core::sinh(x))")                   \
  X(tanh, TANH(x), "The hyperbolic tangent",                                                       \
    "x: core::sub(grad, core::mul(grad, core::mul(out, out)))")                                    \
  X(asinh, ASINH(x), "The inverse of sinh", "x: core::div(grad, core::cosh(out))")                 \
  X(acosh, ACOSH(x), "The inverse of cosh", "x: core::div(grad, core::sinh(out))")                 \
  X(atanh, ATANH(x), "The inverse of tanh", "x: core::atanh_backward(grad, x)")                    \
  X(erf, ERF(x), "The error function", "x: core::erf_backward(grad, x)")                           \
  X(erfc, ERFC(x), "1 minus the error function",                                                   \
    "x: core::neg(core::erf_backward(grad, x))")                                                   \
  X(sigmoid, SIGMOID(x), "1 / (1 + e^-x)",                                                         \
    "x: core::mul(grad, core::sub(out, core::mul(out, out)))")
/* X(operator, doc, gradient): beyond TN_TURN_LIMIT they call libm */
#define WAVES(X)                                                                                   \
  X(sin, "The sine of x, in radians", "x: core::mul(grad, core::cos(x))")                          \
  X(cos, "The cosine of x, in radians", "x: core::neg(core::mul(grad, core::sin(x)))")             \
  X(tan, "The tangent of x, in radians",                                                           \
    "x: core::add(grad, core::mul(grad, core::mul(out, out)))")
/* Second derivatives with respect to x: grad times the result times a factor, then multiplied or
 * divided by a term. */
#define OUT_X(op, factor, term) op "(core::mul(core::mul(grad, out), " factor "), " term ")"
#define ASIN_2 OUT_X("core::div", "x", "core::sub(1.0, core::mul(x, x))")
#define ATAN_2 OUT_X("core::div", "core::mul(x, -2.0)", "core::add(1.0, core::mul(x, x))")
#define ATANH_2 OUT_X("core::div", "core::add(x, x)", "core::sub(1.0, core::mul(x, x))")
#define ERF_2 OUT_X("core::mul", "x", "-2.0")
/* X(operator, gradient of x, attributes, how they are passed on, set-up, expression, doc); see
 * DEFINE_BACKWARD */
#define GRADIENTS(X)                                                                               \
  X(asin_backward, ASIN_2, "", "", NO_SETUP, dy / SQRT((1 - x) * (1 + x)), DERIVATIVE("asin"))     \
  X(atan_backward, ATAN_2, "", "", NO_SETUP, dy / (1 + x * x), DERIVATIVE("atan"))                 \
  X(atanh_backward, ATANH_2, "", "", NO_SETUP, dy / ((1 - x) * (1 + x)), DERIVATIVE("atanh"))      \
  X(erf_backward, ERF_2, "", "", NO_SETUP, dy * ((T)1.1283791670955126 * EXP(-x * x)),             \
    DERIVATIVE("erf"))
/* clang-format on */

#define DEFINE_ONE(dtype, T, U, name, expression)                                                  \
  LOOP1(name##_##dtype, T, T, x, NO_SETUP, expression)
#define DEFINE(name, expression, doc, gradient) FLOATS(DEFINE_ONE, name, expression)
FUNCTIONS(DEFINE)
GRADIENTS(DEFINE_BACKWARD)

#define DEFINE_WAVE(name, doc, gradient)                                                           \
  LOOP1(name##_f64, double, double, x, NO_SETUP, name(x))                                          \
  LOOP1(name##_near, float, float, x, NO_SETUP, tn_##name##f(x))                                   \
  LOOP1(name##_far, float, float, x, NO_SETUP,                                                     \
        fabsf(x) > TN_TURN_LIMIT ? name##f(x) : tn_##name##f(x))                                   \
  static tenon_status_t name##_f32(const tenon_loop_t *loop) {                                     \
    const int64_t count = loop->count;                                                             \
    const float *x = (const float *)loop->data[0];                                                 \
    int far = 0;                                                                                   \
    for (int64_t i = 0; i < count; i++)                                                            \
      far |= fabsf(x[i]) > TN_TURN_LIMIT;                                                          \
    return far ? name##_far(loop) : name##_near(loop);                                             \
  }
WAVES(DEFINE_WAVE)

#define ITEM_WAVE(name, doc, gradient)                                                             \
  OPERATOR(name, "(Tensor x) -> Tensor", FACTS(doc, "x: float; out = x", gradient),                \
           FLOATS(ITEM1, name))
#define ITEM(name, expression, doc, gradient) ITEM_WAVE(name, doc, gradient)

/* clang-format off */
FAMILY(core_transcendental, FUNCTIONS(ITEM) WAVES(ITEM_WAVE) GRADIENTS(ITEM_BACKWARD))
/* clang-format on */
