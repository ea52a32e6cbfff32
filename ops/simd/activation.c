/* Activation functions of neural networks and their gradients. Formulas are those of ONNX; where
 * they would cancel or overflow, they are rearranged.
 * Invariant: a gradient takes x (or, for relu, the result) and nothing else that forward would have
 * to keep. */
#include "pointwise.h"

#define HELPERS(dtype, T, U, ...)                                                                  \
  /* tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2); 1 beyond 20, where n may overflow */  \
  static inline T gate_##dtype(T x) {                                                              \
    T e = EXP(x);                                                                                  \
    T n = e * (e + 2);                                                                             \
    return x > 20 ? (T)1 : n / (n + 2);                                                            \
  }                                                                                                \
  /* 1 - gate(x), which would cancel */                                                            \
  static inline T rest_##dtype(T x) {                                                              \
    T e = EXP(x);                                                                                  \
    return x > 20 ? (T)0 : 2 / (e * (e + 2) + 2);                                                  \
  }                                                                                                \
  /* gelu's approximation: (1 + tanh(u)) / 2 = sigmoid(2u). steep is 2u, slope its derivative */   \
  static inline T steep_##dtype(T x) {                                                             \
    return x * ((T)1.5957691216057308 + (T)0.07135481627260025 * x * x);                           \
  }                                                                                                \
  static inline T slope_##dtype(T x) {                                                             \
    return (T)1.5957691216057308 + (T)0.21406444881780073 * x * x;                                 \
  }                                                                                                \
  static inline T unit_##dtype(T x) {                                                              \
    T most = x > 1 ? (T)1 : x;                                                                     \
    return x < 0 ? (T)0 : most;                                                                    \
  }                                                                                                \
  static inline T hard_swish_gradient_##dtype(T dy, T x) {                                         \
    T inner = dy * (x * (T)(1 / 3.0) + (T)0.5);                                                    \
    T above = x >= 3 ? dy : inner;                                                                 \
    return x <= -3 ? 0 : above;                                                                    \
  }                                                                                                \
  static inline T shrunk_##dtype(T x, T lambd, T bias) {                                           \
    T above = x > lambd ? x - bias : 0;                                                            \
    return x < -lambd ? x + bias : above;                                                          \
  }
/* clang-format off */
FLOATS(HELPERS, 0)
#define GATE(x) TN_GENERIC(x, gate_f32, gate_f64)(x)
#define REST(x) TN_GENERIC(x, rest_f32, rest_f64)(x)
#define STEEP(x) TN_GENERIC(x, steep_f32, steep_f64)(x)
#define SLOPE(x) TN_GENERIC(x, slope_f32, slope_f64)(x)
#define UNIT(x) TN_GENERIC(x, unit_f32, unit_f64)(x)
#define HARD_SWISH_GRADIENT(dy, x)                                                                 \
  TN_GENERIC(x, hard_swish_gradient_f32, hard_swish_gradient_f64)(dy, x)

/* X(operator, attributes, set-up, expression, doc, gradient) */
#define ACTIVATIONS(X)                                                                             \
  X(softplus, "", NO_SETUP, LOG1P_UNIT(EXP(-ABS(x))) + (x > 0 ? x : 0), "log(1 + e^x)",            \
    "x: core::mul(grad, core::sigmoid(x))")                                                        \
  X(softsign, "", NO_SETUP, x / (1 + ABS(x)), "x / (1 + |x|)",                                     \
    "x: core::softsign_backward(grad, x)")                                                         \
  X(mish, "", NO_SETUP, x * GATE(x), "x tanh(softplus(x))", "x: core::mish_backward(grad, x)")     \
  X(hard_swish, "", NO_SETUP, x * UNIT(x * (T)(1 / 6.0) + (T)0.5),                                 \
    "x times x/6 + 1/2, which is clamped to [0, 1]", "x: core::hard_swish_backward(grad, x)")      \
  X(silu, ", *, float alpha=1.0", ATTR(alpha, 0), x * SIGMOID(alpha * x),                          \
    "x sigmoid(alpha x), also called swish", "x: core::silu_backward(grad, x, alpha=alpha)")       \
  X(elu, ", *, float alpha=1.0", ATTR(alpha, 0), x > 0 ? x : alpha * EXPM1(x),                     \
    "x above 0, alpha (e^x - 1) below", "x: core::elu_backward(grad, x, alpha=alpha)")             \
  X(celu, ", *, float alpha=1.0", ATTR(alpha, 0), x > 0 ? x : alpha * EXPM1(x / alpha),            \
    "x above 0, alpha (e^(x/alpha) - 1) below", "x: core::celu_backward(grad, x, alpha=alpha)")    \
  X(selu, ", *, float alpha=1.67326319217681884765625, float gamma=1.05070102214813232421875",     \
    ATTR(alpha, 0) ATTR(gamma, 1), gamma * (x > 0 ? x : alpha * EXPM1(x)),                         \
    "gamma x above 0, gamma alpha (e^x - 1) below",                                                \
    "x: core::selu_backward(grad, x, alpha=alpha, gamma=gamma)")                                   \
  X(leaky_relu, ", *, float alpha=0.01", ATTR(alpha, 0), x < 0 ? alpha * x : x,                    \
    "x above 0, alpha x below", "x: core::leaky_relu_backward(grad, x, alpha=alpha)")              \
  X(hard_sigmoid, ", *, float alpha=0.2, float beta=0.5", ATTR(alpha, 0) ATTR(beta, 1),            \
    UNIT(alpha * x + beta), "alpha x + beta, clamped to [0, 1]",                                   \
    "x: core::hard_sigmoid_backward(grad, x, alpha=alpha, beta=beta)")                             \
  X(thresholded_relu, ", *, float alpha=1.0", ATTR(alpha, 0), x > alpha ? x : 0,                   \
    "x where x is above alpha, otherwise 0",                                                       \
    "x: core::thresholded_relu_backward(grad, x, alpha=alpha)")

/* Second derivatives with respect to x: for all x, and for functions whose second derivative is 0
 * above x = 0. */
#define SECOND(derivative) "core::mul(core::mul(grad, dy), " derivative ")"
#define BELOW(derivative) "core::mul(grad, core::where(core::greater(x, 0.0), 0.0, " derivative "))"
#define SOFTSIGN_2                                                                                 \
  "core::div(core::mul(core::mul(grad, out), core::mul(core::sign(x), -2.0)), "                    \
  "core::add(core::abs(x), 1.0))"
#define HARD_SWISH_2                                                                               \
  SECOND("core::where(core::less(core::abs(x), 3.0), core::reciprocal(3.0), 0.0)")
#define S_ "core::sigmoid(x)"
#define T_ "core::tanh(core::softplus(x))"
#define MISH_2                                                                                     \
  SECOND("core::mul(core::mul(core::sub(1.0, core::mul(" T_ ", " T_ ")), " S_                      \
         "), core::add(2.0, core::mul(x, core::sub(core::sub(1.0, " S_                             \
         "), core::mul(2.0, core::mul(" T_ ", " S_ "))))))")
#define A_ "core::sigmoid(core::mul(alpha, x))"
#define SILU_2                                                                                     \
  SECOND("core::mul(core::mul(alpha, core::sub(" A_ ", core::mul(" A_ ", " A_                      \
         "))), core::add(2.0, core::mul(core::mul(alpha, x), core::sub(1.0, core::add(" A_ ", " A_ \
         ")))))")
/* X(operator, gradient of x, attributes, how they are passed on, set-up, expression, doc); see
 * DEFINE_BACKWARD */
#define GRADIENTS(X)                                                                               \
  X(relu_backward, "none", "", "", NO_SETUP, x > 0 ? dy : 0,                                       \
    "dy where x, the result of relu, is above 0, otherwise 0")                                     \
  X(softsign_backward, SOFTSIGN_2, "", "", NO_SETUP, dy / ((1 + ABS(x)) * (1 + ABS(x))),           \
    DERIVATIVE("softsign"))                                                                        \
  X(mish_backward, MISH_2, "", "", NO_SETUP,                                                       \
    dy * (GATE(x) + x * SIGMOID(x) * REST(x) * (1 + GATE(x))), DERIVATIVE("mish"))                 \
  X(hard_swish_backward, HARD_SWISH_2, "", "", NO_SETUP, HARD_SWISH_GRADIENT(dy, x),               \
    DERIVATIVE("hard_swish"))                                                                      \
  X(silu_backward, SILU_2, ", *, float alpha=1.0", ", alpha=alpha", ATTR(alpha, 0),                \
    dy * SIGMOID(alpha * x) * (1 + alpha * x * SIGMOID(-alpha * x)), DERIVATIVE("silu"))           \
  X(elu_backward, BELOW("out"), ", *, float alpha=1.0", ", alpha=alpha", ATTR(alpha, 0),           \
    x > 0 ? dy : dy * alpha * EXP(x), DERIVATIVE("elu"))                                           \
  X(celu_backward, BELOW("core::div(out, alpha)"), ", *, float alpha=1.0", ", alpha=alpha",        \
    ATTR(alpha, 0), x > 0 ? dy : dy * EXP(x / alpha), DERIVATIVE("celu"))                          \
  X(selu_backward, BELOW("out"), ", *, float alpha, float gamma", ", alpha=alpha, gamma=gamma",    \
    ATTR(alpha, 0) ATTR(gamma, 1), dy * gamma * (x > 0 ? 1 : alpha * EXP(x)), DERIVATIVE("selu"))  \
  X(leaky_relu_backward, "none", ", *, float alpha=0.01", ", alpha=alpha", ATTR(alpha, 0),         \
    x < 0 ? alpha * dy : dy, DERIVATIVE("leaky_relu"))                                             \
  X(hard_sigmoid_backward, "none", ", *, float alpha=0.2, float beta=0.5",                         \
    ", alpha=alpha, beta=beta", ATTR(alpha, 0) ATTR(beta, 1),                                      \
    ((alpha * x + beta > 0) & (alpha * x + beta < 1)) ? alpha * dy : 0,                            \
    DERIVATIVE("hard_sigmoid"))                                                                    \
  X(thresholded_relu_backward, "none", ", *, float alpha=1.0", ", alpha=alpha", ATTR(alpha, 0),    \
    x > alpha ? dy : 0, "dy where x is above alpha, otherwise 0")                                  \
  X(shrink_backward, "none", ", *, float lambd=0.5", ", lambd=lambd", ATTR(lambd, 0),              \
    ((x < -lambd) | (x > lambd)) ? dy : 0,                                                         \
    "dy where x is below -lambd or above lambd, otherwise 0")
#define DEFINE_ONE(dtype, T, U, name, setup, expression)                                           \
  LOOP1(name##_##dtype, T, T, x, ISA_LIST setup, expression)
#define DEFINE(name, attributes, setup, expression, doc, gradient)                                 \
  FLOATS(DEFINE_ONE, name, (setup), expression)
ACTIVATIONS(DEFINE)
GRADIENTS(DEFINE_BACKWARD)

/* relu, shrink and prelu, which also exist for integers */

FLOATS(DEFINE_ONE, relu, (NO_SETUP), x < 0 ? 0 : x)
SIGNED(DEFINE_ONE, relu, (NO_SETUP), x < 0 ? 0 : x)
UNSIGNED(DEFINE_ONE, relu, (NO_SETUP), x)
/* clang-format on */

#define LIMITS(R)                                                                                  \
  const R lambd = (R)loop->attrs[0].as.f;                                                          \
  const R bias = (R)loop->attrs[1].as.f;
/* clang-format off */
#define SHRUNK(x) TN_GENERIC(x, shrunk_f32, shrunk_f64)(x, lambd, bias)
FLOATS(DEFINE_ONE, shrink, (LIMITS(T)), SHRUNK(x))
SIGNED(DEFINE_ONE, shrink, (LIMITS(double)), tn_int64(SHRUNK((double)x)))
UNSIGNED(DEFINE_ONE, shrink, (LIMITS(double)), tn_uint64(SHRUNK((double)x)))

#define PRELUS(X)                                                                                  \
  FLOATS(X, x < 0 ? slope * x : x)                                                                 \
  X(i32, int32_t, uint32_t, x < 0 ? (T)((uint32_t)slope * (uint32_t)x) : x)                        \
  X(i64, int64_t, uint64_t, x < 0 ? (T)((uint64_t)slope * (uint64_t)x) : x)                        \
  X(u32, uint32_t, uint32_t, x + 0 * slope)                                                        \
  X(u64, uint64_t, uint64_t, x + 0 * slope)
#define DEFINE_PRELU(dtype, T, U, expression)                                                      \
  LOOP2(prelu_##dtype, T, T, x, T, slope, NO_SETUP, expression)
#define DEFINE_PRELU_BACKWARD(dtype, T, U, name)                                                   \
  LOOP_BOTH(name##_##dtype, T, T, NO_SETUP, a < 0 ? dy * b : dy, a < 0 ? dy * a : 0)
PRELUS(DEFINE_PRELU)
FLOATS(DEFINE_PRELU_BACKWARD, prelu_backward)
/* clang-format on */

/* gelu: exact, or the approximation by tanh */

#define NORMAL_PDF(x) ((T)0.39894228040143268 * EXP((T)-0.5 * x * x))
#define EITHER(name, dtype)                                                                        \
  static tenon_status_t name##_##dtype(const tenon_loop_t *loop) {                                 \
    return loop->attrs[0].as.i == 0 ? name##_exact_##dtype(loop) : name##_tanh_##dtype(loop);      \
  }
/* clang-format off */
#define DEFINE_GELU(dtype, T, U, ...)                                                              \
  LOOP1(gelu_exact_##dtype, T, T, x, NO_SETUP, x * NORMAL_CDF(x))                                  \
  LOOP1(gelu_tanh_##dtype, T, T, x, NO_SETUP, x * SIGMOID(STEEP(x)))                               \
  LOOP2(gelu_backward_exact_##dtype, T, T, dy, T, x, NO_SETUP,                                     \
        dy * (NORMAL_CDF(x) + x * NORMAL_PDF(x)))                                                  \
  LOOP2(gelu_backward_tanh_##dtype, T, T, dy, T, x, NO_SETUP,                                      \
        dy * SIGMOID(STEEP(x)) * (1 + x * SLOPE(x) * SIGMOID(-STEEP(x))))                          \
  LOOP2(gelu_second_exact_##dtype, T, T, dy, T, x, NO_SETUP, dy * NORMAL_PDF(x) * (2 - x * x))     \
  LOOP2(gelu_second_tanh_##dtype, T, T, dy, T, x, NO_SETUP,                                        \
        dy * SIGMOID(STEEP(x)) * SIGMOID(-STEEP(x)) *                                              \
        (2 * SLOPE(x) + x *                                                                        \
         ((1 - 2 * SIGMOID(STEEP(x))) * SLOPE(x) * SLOPE(x) + (T)0.42812889763560147 * x)))        \
  EITHER(gelu, dtype)                                                                              \
  EITHER(gelu_backward, dtype)                                                                     \
  EITHER(gelu_second, dtype)
FLOATS(DEFINE_GELU, 0)

/* operators */

#define ITEM(name, attributes, setup, expression, doc, gradient)                                   \
  OPERATOR(name, "(Tensor x" attributes ") -> Tensor",                                             \
    FACTS(doc, "x: float; out = x", gradient),                                                     \
    FLOATS(ITEM1, name))
#define ITEM_PRELU(dtype, T, U, expression) ITEM2(dtype, T, U, prelu)
#define APPROXIMATE ", *, str['none', 'tanh'] approximate='none'"

FAMILY(core_activation,
  OPERATOR(relu, "(Tensor x) -> Tensor",
    FACTS("The larger of x and 0", "x: number; out = x", "x: core::relu_backward(grad, out)"),
    NUMBERS(ITEM1, relu))
  ACTIVATIONS(ITEM)
  OPERATOR(gelu, "(Tensor x" APPROXIMATE ") -> Tensor",
    FACTS("x times the probability that a normally distributed number is below x; "
          "'tanh' uses an approximation", "x: float; out = x",
          "x: core::gelu_backward(grad, x, approximate=approximate)"),
    FLOATS(ITEM1, gelu))
  OPERATOR(shrink, "(Tensor x, *, float lambd=0.5, float bias=0.0) -> Tensor",
    FACTS("x + bias below -lambd, x - bias above lambd, otherwise 0", "x: number; out = x",
          "x: core::shrink_backward(grad, x, lambd=lambd)"),
    NUMBERS(ITEM1, shrink))
  OPERATOR(prelu, "(Tensor a, Tensor slope) -> Tensor",
    FACTS("a above 0, a times slope below", "a, slope: float|i32|i64|u32|u64; out = a",
          "a, slope: core::prelu_backward(grad, a, slope)"),
    PRELUS(ITEM_PRELU))
  GRADIENTS(ITEM_BACKWARD)
  OPERATOR(gelu_backward, "(Tensor dy, Tensor x" APPROXIMATE ") -> Tensor",
    FACTS(DERIVATIVE("gelu"), "dy, x: float; out = x",
          "dy: core::gelu_backward(grad, x, approximate=approximate); "
          "x: core::gelu_second(core::mul(grad, dy), x, approximate=approximate)"),
    FLOATS(ITEM2, gelu_backward))
  OPERATOR(gelu_second, "(Tensor dy, Tensor x" APPROXIMATE ") -> Tensor",
    FACTS("dy times the second derivative of gelu at x", "dy, x: float; out = x",
          "dy: core::gelu_second(grad, x, approximate=approximate); x: error"),
    FLOATS(ITEM2, gelu_second))
  OPERATOR(prelu_backward, "(Tensor dy, Tensor a, Tensor slope) -> (Tensor? da, Tensor? dslope)",
    FACTS("dy times the derivatives of prelu with respect to a and slope",
          "dy, a, slope: float; da, dslope = a",
          "dy: core::where(core::less(a, 0.0), core::add(core::mul(grad.da, slope), "
          "core::mul(grad.dslope, a)), grad.da); "
          "a: core::where(core::less(a, 0.0), core::mul(grad.dslope, dy), 0.0); "
          "slope: core::where(core::less(a, 0.0), core::mul(grad.da, dy), 0.0)"),
    FLOATS(ITEM_BOTH, prelu_backward)))
/* clang-format on */
