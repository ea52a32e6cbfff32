/* Pointwise operators of f32, for devices that compile. The formulas are those of ../simd/, with
 * the device's own functions.
 * Invariant: an element is read before its result is written, so that a result may share the memory
 * of an operand. */
#ifndef TENON_ON_DEVICE
#include "launch.h"
#endif

FUNCTION float sigmoid(float x) {
  float e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
/* tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2); 1 beyond 20, where n may overflow */
FUNCTION float gate(float x) {
  float e = exp(x);
  float n = e * (e + 2);
  return x > 20 ? 1 : n / (n + 2);
}
FUNCTION float unit(float x) {
  if (x < 0) return 0;
  return x > 1 ? 1 : x;
}
FUNCTION float sign_of(float x) {
  if (x > 0) return 1;
  if (x < 0) return -1;
  return x == 0 ? 0 : x;
}
FUNCTION float shrunk(float x, float lambd, float bias) {
  if (x < -lambd) return x + bias;
  return x > lambd ? x - bias : 0;
}

/* clang-format off */
/* X(operator, expression of x): no attributes */
#define PLAIN(X)                                                                                   \
  X(abs, fabs(x))                                                                                  \
  X(neg, -x)                                                                                       \
  X(sign, sign_of(x))                                                                              \
  X(exp, exp(x))                                                                                   \
  X(log, log(x))                                                                                   \
  X(sqrt, sqrt(x))                                                                                 \
  X(rsqrt, 1 / sqrt(x))                                                                            \
  X(reciprocal, 1 / x)                                                                             \
  X(floor, floor(x))                                                                               \
  X(ceil, ceil(x))                                                                                 \
  X(round, rint(x))                                                                                \
  X(sin, sin(x))                                                                                   \
  X(cos, cos(x))                                                                                   \
  X(tan, tan(x))                                                                                   \
  X(asin, asin(x))                                                                                 \
  X(acos, acos(x))                                                                                 \
  X(atan, atan(x))                                                                                 \
  X(sinh, sinh(x))                                                                                 \
  X(cosh, cosh(x))                                                                                 \
  X(tanh, tanh(x))                                                                                 \
  X(asinh, asinh(x))                                                                               \
  X(acosh, acosh(x))                                                                               \
  X(atanh, atanh(x))                                                                               \
  X(erf, erf(x))                                                                                   \
  X(sigmoid, sigmoid(x))                                                                           \
  X(relu, x < 0 ? 0 : x)                                                                           \
  X(softplus, log1p(exp(-fabs(x))) + (x > 0 ? x : 0))                                              \
  X(softsign, x / (1 + fabs(x)))                                                                   \
  X(mish, x * gate(x))                                                                             \
  X(hard_swish, x * unit(x * (1.0f / 6) + 0.5f))
/* The same with one attribute, and with two */
#define OF_ALPHA(X)                                                                                \
  X(silu, x * sigmoid(alpha * x))                                                                  \
  X(elu, x > 0 ? x : alpha * expm1(x))                                                             \
  X(celu, x > 0 ? x : alpha * expm1(x / alpha))                                                    \
  X(leaky_relu, x < 0 ? alpha * x : x)                                                             \
  X(thresholded_relu, x > alpha ? x : 0)
#define OF_BOTH(X)                                                                                 \
  X(selu, beta * (x > 0 ? x : alpha * expm1(x)))                                                   \
  X(hard_sigmoid, unit(alpha * x + beta))                                                          \
  X(shrink, shrunk(x, alpha, beta))
/* X(operator, expression of a and b) */
#define BINARY(X)                                                                                  \
  X(add, a + b)                                                                                    \
  X(sub, a - b)                                                                                    \
  X(mul, a * b)                                                                                    \
  X(div, a / b)                                                                                    \
  X(min, a < b || a != a ? a : b)                                                                  \
  X(max, a > b || a != a ? a : b)                                                                  \
  X(prelu, a < 0 ? b * a : a)
#define TESTS(X)                                                                                   \
  X(equal, a == b)                                                                                 \
  X(not_equal, a != b)                                                                             \
  X(less, a < b)                                                                                   \
  X(less_equal, a <= b)                                                                            \
  X(greater, a > b)                                                                                \
  X(greater_equal, a >= b)
/* clang-format on */

/* Names are pasted immediately, because the name of an operator may be a macro of the device
 * language. */
#define DEFINE_PLAIN(name, expression)                                                             \
  TENON_POINTWISE_1(f32_##name, float, IN, float, x) { return expression; }
#define DEFINE_ALPHA(name, expression)                                                             \
  TENON_POINTWISE_2(f32_##name, float, IN, float, x, VALUE, float, alpha) { return expression; }
#define DEFINE_BOTH(name, expression)                                                              \
  TENON_POINTWISE_3(f32_##name, float, IN, float, x, VALUE, float, alpha, VALUE, float, beta) {    \
    return expression;                                                                             \
  }
#define DEFINE_TWO(name, expression)                                                               \
  TENON_POINTWISE_2(f32_##name, float, IN, float, a, IN, float, b) { return expression; }
#define DEFINE_TEST(name, expression)                                                              \
  TENON_POINTWISE_2(f32_##name, uint8_t, IN, float, a, IN, float, b) { return expression; }
PLAIN(DEFINE_PLAIN)
OF_ALPHA(DEFINE_ALPHA)
OF_BOTH(DEFINE_BOTH)
BINARY(DEFINE_TWO)
TESTS(DEFINE_TEST)
DEFINE_TWO(pow, pow(a, b))
TENON_POINTWISE_2(f32_gelu, float, IN, float, x, VALUE, int32_t, by_tanh) {
  if (by_tanh) return x * sigmoid(x * (1.5957691216057308f + 0.07135481627260025f * x * x));
  return x * (0.5f * (1 + erf(x * 0.70710678118654752f)));
}
TENON_POINTWISE_1(f32_is_nan, uint8_t, IN, float, x) { return x != x; }
TENON_POINTWISE_3(f32_is_inf, uint8_t, IN, float, x, VALUE, int32_t, negative, VALUE, int32_t,
                  positive) {
  return (negative && x == -INFINITY) || (positive && x == INFINITY);
}
TENON_POINTWISE_3(f32_mod, float, IN, float, a, IN, float, b, VALUE, int32_t, of_c) {
  float r = fmod(a, b);
  if (of_c) return r;
  if (r == 0) return b < 0 ? -fabs(r) : fabs(r);
  return (r < 0) != (b < 0) ? r + b : r;
}
/* min(max(x, low), high), NaN if an operand is NaN */
TENON_SOURCE_7(f32_clip, IN, float, x, IN, float, low, IN, float, high, OUT, float, out, VALUE,
               tenon_walk_t, walk, VALUE, int32_t, has_low, VALUE, int32_t, has_high) {
  int64_t at[4];
  TENON_EACH(i, walk.count) {
    tenon_walk(&walk, i, at);
    float y = x[at[0]];
    float limit;
    if (has_low) {
      limit = low[at[1]];
      y = y > limit || y != y ? y : limit;
    }
    if (has_high) {
      limit = high[at[2]];
      y = y < limit || y != y ? y : limit;
    }
    out[at[3]] = y;
  }
}

#ifndef TENON_ON_DEVICE
/* clang-format off */
#define OTHERS(X)                                                                                  \
  X(gelu, )                                                                                        \
  X(is_nan, )                                                                                      \
  X(is_inf, )                                                                                      \
  X(mod, )
/* clang-format on */
#define MOST(X) PLAIN(X) OF_ALPHA(X) OF_BOTH(X) BINARY(X) TESTS(X) OTHERS(X)
#define NUMBER(name, expression) K_##name,
enum { MOST(NUMBER) K_pow, K_clip };
/* clang-format off */
#define KERNEL(name, expression) {"f32_" #name, f32_##name},
TENON_CODE(core_source_pointwise_code, MOST(KERNEL) {"f32_pow", f32_pow}, {"f32_clip", f32_clip})
/* clang-format on */
#define RUN(name, expression) TENON_POINTWISE_RUN(core_source_pointwise_code, K_##name, f32_##name)
MOST(RUN)

static tenon_status_t f32_pow_run(tenon_call_t *call) {
  if (tenon_dtype_id(call->inputs[1]->dtype) != TENON_F32)
    return DECLINE(call, "the source kernel requires an f32 exponent b");
  return f32_pow_launch(call, &core_source_pointwise_code, K_pow, NULL);
}

static tenon_status_t f32_clip_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[4] = {call->inputs[0], call->inputs[1], call->inputs[2],
                                      call->outputs[0]};
  int32_t has_low = tensors[1] != NULL;
  int32_t has_high = tensors[2] != NULL;
  tenon_walk_t walk;
  TENON_TRY(walk_set(call, tensors, 4, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]),
                                               tenon_in(tensors[has_low ? 1 : 0]),
                                               tenon_in(tensors[has_high ? 2 : 0]),
                                               tenon_out(tensors[3]),
                                               TENON_VALUE(walk),
                                               TENON_VALUE(has_low),
                                               TENON_VALUE(has_high)};
  return tenon_each(call, &core_source_pointwise_code, K_clip, walk.count, arguments, 7);
}

#define ITEM(name, expression)                                                                     \
  TENON_EXTEND("core::" #name, TENON_SOURCE("f32 strided capturable", f32_##name##_run)),
/* clang-format off */
TENON_ITEMS(core_source_pointwise,
  MOST(ITEM)
  ITEM(pow, )
  TENON_EXTEND("core::clip", TENON_SOURCE("f32 strided capturable", f32_clip_run)))
/* clang-format on */
#endif
