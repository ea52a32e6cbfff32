/* Pointwise operators of f32, for devices that compile.  Formulas are those of ../simd/, by the device's own functions.
 * Invariant: an element is read before its result is written, so that a result may lie where an operand does. */
#ifndef TENON_ON_DEVICE
#include "launch.h"
#endif

FUNCTION float sigmoid(float x) {
  float e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
/* tanh(softplus(x)): with n = e^x (e^x + 2), n / (n + 2); beyond 20, where n may overflow, 1 */
FUNCTION float gate(float x) {
  float e = exp(x), n = e * (e + 2);
  return x > 20 ? 1 : n / (n + 2);
}
FUNCTION float unit(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
FUNCTION float remainder_of(float a, float b, float of_c) {
  float r = fmod(a, b);
  if (of_c != 0) return r;
  return r == 0 ? fabs(r) * (b < 0 ? -1.0f : 1.0f) : (r < 0) != (b < 0) ? r + b : r;
}

/* clang-format off */
/* X(operator, expression of x): without attributes */
#define PLAIN(X)                                                                                                       \
  X(abs, fabs(x)) X(neg, -x) X(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? 0.0f : x)                                 \
  X(exp, exp(x)) X(log, log(x)) X(sqrt, sqrt(x)) X(rsqrt, 1 / sqrt(x)) X(reciprocal, 1 / x)                            \
  X(floor, floor(x)) X(ceil, ceil(x)) X(round, rint(x))                                                                \
  X(sin, sin(x)) X(cos, cos(x)) X(tan, tan(x)) X(asin, asin(x)) X(acos, acos(x)) X(atan, atan(x))                      \
  X(sinh, sinh(x)) X(cosh, cosh(x)) X(tanh, tanh(x)) X(asinh, asinh(x)) X(acosh, acosh(x)) X(atanh, atanh(x))          \
  X(erf, erf(x)) X(sigmoid, sigmoid(x)) X(relu, x < 0 ? 0 : x)                                                         \
  X(softplus, log1p(exp(-fabs(x))) + (x > 0 ? x : 0)) X(softsign, x / (1 + fabs(x)))                                   \
  X(mish, x * gate(x)) X(hard_swish, x * unit(x * (1.0f / 6) + 0.5f))
/* The same with one attribute or two, which are floats */
#define OF_ALPHA(X)                                                                                                    \
  X(silu, x * sigmoid(alpha * x)) X(elu, x > 0 ? x : alpha * expm1(x))                                                 \
  X(celu, x > 0 ? x : alpha * expm1(x / alpha)) X(leaky_relu, x < 0 ? alpha * x : x)                                   \
  X(thresholded_relu, x > alpha ? x : 0)
#define OF_BOTH(X)                                                                                                     \
  X(selu, beta * (x > 0 ? x : alpha * expm1(x))) X(hard_sigmoid, unit(alpha * x + beta))                               \
  X(shrink, x < -alpha ? x + beta : x > alpha ? x - beta : 0)
#define GELUS(X)                                                                                                       \
  X(gelu, x * (0.5f * (1 + erf(x * 0.70710678118654752f))))                                                            \
  X(gelu_tanh, x * sigmoid(x * (1.5957691216057308f + 0.07135481627260025f * x * x)))
/* X(operator, expression of a and b) */
#define BINARY(X)                                                                                                      \
  X(add, a + b) X(sub, a - b) X(mul, a * b) X(div, a / b)                                                              \
  X(min, a < b || a != a ? a : b) X(max, a > b || a != a ? a : b) X(prelu, a < 0 ? b * a : a)
#define OF_FLOATS(X) X(pow, pow(a, b))
#define TESTS(X)                                                                                                       \
  X(equal, a == b) X(not_equal, a != b) X(less, a < b) X(less_equal, a <= b) X(greater, a > b) X(greater_equal, a >= b)
#define TESTS_OF_ONE(X) X(is_nan, x != x) X(is_inf, (alpha != 0 && x == -INFINITY) || (beta != 0 && x == INFINITY))
/* clang-format on */

/* Names are put together at once: what an operator is called may be a macro of a language. */
#define DEFINE_ONE(name, expression) DEFINE_ONE_OF(f32_##name, float, expression)
#define DEFINE_TEST_OF_ONE(name, expression) DEFINE_ONE_OF(f32_##name, uint8_t, expression)
#define DEFINE_ONE_OF(function, T, expression)                                                                         \
  TENON_SOURCE_5(function, IN, float, x_, OUT, T, out_, VALUE, tenon_walk_t, walk, VALUE, float, alpha, VALUE, float,  \
                 beta) {                                                                                               \
    int64_t at[4];                                                                                                     \
    (void)alpha, (void)beta;                                                                                           \
    TENON_EACH(i, walk.count) {                                                                                        \
      tenon_walk(&walk, i, at);                                                                                        \
      float x = x_[at[0]];                                                                                             \
      out_[at[1]] = (T)(expression);                                                                                   \
    }                                                                                                                  \
  }
#define DEFINE_TWO(name, expression) DEFINE_TWO_OF(f32_##name, float, expression)
#define DEFINE_TEST(name, expression) DEFINE_TWO_OF(f32_##name, uint8_t, expression)
#define DEFINE_TWO_OF(function, T, expression)                                                                         \
  TENON_SOURCE_4(function, IN, float, a_, IN, float, b_, OUT, T, out_, VALUE, tenon_walk_t, walk) {                    \
    int64_t at[4];                                                                                                     \
    TENON_EACH(i, walk.count) {                                                                                        \
      tenon_walk(&walk, i, at);                                                                                        \
      float a = a_[at[0]], b = b_[at[1]];                                                                              \
      out_[at[2]] = (T)(expression);                                                                                   \
    }                                                                                                                  \
  }
PLAIN(DEFINE_ONE)
OF_ALPHA(DEFINE_ONE)
OF_BOTH(DEFINE_ONE)
GELUS(DEFINE_ONE)
TESTS_OF_ONE(DEFINE_TEST_OF_ONE)
BINARY(DEFINE_TWO)
OF_FLOATS(DEFINE_TWO)
TESTS(DEFINE_TEST)
TENON_SOURCE_5(f32_mod, IN, float, a, IN, float, b, OUT, float, out, VALUE, tenon_walk_t, walk, VALUE, float, of_c) {
  int64_t at[4];
  TENON_EACH(i, walk.count) {
    tenon_walk(&walk, i, at);
    out[at[2]] = remainder_of(a[at[0]], b[at[1]], of_c);
  }
}
/* min(max(x, low), high), NaN if one is */
TENON_SOURCE_7(f32_clip, IN, float, x, IN, float, low, IN, float, high, OUT, float, out, VALUE, tenon_walk_t, walk,
               VALUE, int32_t, has_low, VALUE, int32_t, has_high) {
  int64_t at[4];
  TENON_EACH(i, walk.count) {
    tenon_walk(&walk, i, at);
    float y = x[at[0]], limit;
    if (has_low) limit = low[at[1]], y = y > limit || y != y ? y : limit;
    if (has_high) limit = high[at[2]], y = y < limit || y != y ? y : limit;
    out[at[3]] = y;
  }
}

#ifndef TENON_ON_DEVICE
#define NUMBER(name, expression) K_##name,
enum {
  PLAIN(NUMBER) OF_ALPHA(NUMBER) OF_BOTH(NUMBER) GELUS(NUMBER) TESTS_OF_ONE(NUMBER) BINARY(NUMBER) OF_FLOATS(NUMBER)
      TESTS(NUMBER) K_mod,
  K_clip
};
#define KERNEL(name, expression) {"f32_" #name, f32_##name},
/* clang-format off */
TENON_CODE(core_source_pointwise_code, PLAIN(KERNEL) OF_ALPHA(KERNEL) OF_BOTH(KERNEL) GELUS(KERNEL)
           TESTS_OF_ONE(KERNEL) BINARY(KERNEL) OF_FLOATS(KERNEL) TESTS(KERNEL) {"f32_mod", f32_mod}, {"f32_clip", f32_clip})
/* clang-format on */
#define CODE &core_source_pointwise_code

static tenon_status_t one(tenon_call_t *call, uint32_t kernel, double alpha, double beta) {
  const float numbers[2] = {(float)alpha, (float)beta};
  return pointwise_run(call, CODE, kernel, 1, numbers);
}
#define RUN_PLAIN(name, expression)                                                                                    \
  static tenon_status_t name##_run(tenon_call_t *call) { return one(call, K_##name, 0, 0); }
#define RUN_ALPHA(name, expression)                                                                                    \
  static tenon_status_t name##_run(tenon_call_t *call) { return one(call, K_##name, call->attrs[0].as.f, 0); }
#define RUN_BOTH(name, expression)                                                                                     \
  static tenon_status_t name##_run(tenon_call_t *call) {                                                               \
    return one(call, K_##name, call->attrs[0].as.f, call->attrs[1].as.f);                                              \
  }
#define RUN_TWO(name, expression)                                                                                      \
  static tenon_status_t name##_run(tenon_call_t *call) { return pointwise_run(call, CODE, K_##name, 2, NULL); }
PLAIN(RUN_PLAIN)
OF_ALPHA(RUN_ALPHA)
OF_BOTH(RUN_BOTH)
BINARY(RUN_TWO)
TESTS(RUN_TWO)

static tenon_status_t is_nan_run(tenon_call_t *call) { return one(call, K_is_nan, 0, 0); }
static tenon_status_t is_inf_run(tenon_call_t *call) {
  return one(call, K_is_inf, (double)call->attrs[0].as.i, (double)call->attrs[1].as.i);
}
static tenon_status_t gelu_run(tenon_call_t *call) {
  return one(call, call->attrs[0].as.i ? K_gelu_tanh : K_gelu, 0, 0);
}

static tenon_status_t pow_run(tenon_call_t *call) {
  if (tenon_dtype_id(call->inputs[1]->dtype) != TENON_F32) return DECLINE(call, "its source kernel wants an f32 b");
  return pointwise_run(call, CODE, K_pow, 2, NULL);
}

static tenon_status_t mod_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[3] = {call->inputs[0], call->inputs[1], call->outputs[0]};
  float of_c = (float)call->attrs[0].as.i;
  tenon_walk_t walk;
  TENON_TRY(walk_set(call, tensors, 3, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]), tenon_in(tensors[1]), tenon_out(tensors[2]),
                                               TENON_VALUE(walk), TENON_VALUE(of_c)};
  return tenon_each(call, CODE, K_mod, walk.count, arguments, 5);
}

static tenon_status_t clip_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[4] = {call->inputs[0], call->inputs[1], call->inputs[2], call->outputs[0]};
  int32_t has_low = tensors[1] != NULL, has_high = tensors[2] != NULL;
  tenon_walk_t walk;
  TENON_TRY(walk_set(call, tensors, 4, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]),
                                               tenon_in(tensors[has_low ? 1 : 0]),
                                               tenon_in(tensors[has_high ? 2 : 0]),
                                               tenon_out(tensors[3]),
                                               TENON_VALUE(walk),
                                               TENON_VALUE(has_low),
                                               TENON_VALUE(has_high)};
  return tenon_each(call, CODE, K_clip, walk.count, arguments, 7);
}

#define ITEM(name, expression) TENON_EXTEND("core::" #name, TENON_SOURCE("f32 strided", name##_run)),
/* clang-format off */
TENON_ITEMS(core_source_pointwise,
  PLAIN(ITEM) OF_ALPHA(ITEM) OF_BOTH(ITEM) BINARY(ITEM) OF_FLOATS(ITEM) TESTS(ITEM) TESTS_OF_ONE(ITEM)
  ITEM(gelu,) ITEM(mod,) TENON_EXTEND("core::clip", TENON_SOURCE("f32 strided", clip_run)))
/* clang-format on */
#endif
