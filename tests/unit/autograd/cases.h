/* Cases of operators with a gradient: inputs as text, f64 where a gradient goes through.  Three
 * shapes each where the operator has shapes: plain, broadcast or of another rank, and empty; the
 * first is tried with other strides too.  Kinks (where the derivative jumps) are avoided: abs, relu
 * and its kin at 0, ceil and floor at integers, max and min of equals, clip at its bounds, shrink
 * and thresholded_relu at their thresholds, hard_sigmoid and hard_swish at their corners. */
#ifndef TENON_TESTS_AUTOGRAD_CASES_H
#define TENON_TESTS_AUTOGRAD_CASES_H

enum { CASE_INPUTS = 8 };

typedef struct case_t {
  const char *op;
  /* The attributes, as in "axis=1". A prefix such as "@7" is a bit mask of the results that the
   * test differentiates; without a prefix the test differentiates the first result. */
  const char *attrs;
  /* The inputs. The test wants no gradient of an input whose text begins with "=". */
  const char *inputs[CASE_INPUTS];
} case_t;

#define X1 "f64[2, 3] 0.4 -0.7 1.3 -1.6 0.9 -0.2"
#define X2 "f64[4] 0.35 -0.55 1.75 -2.2"
#define X0 "f64[2, 0, 3]"
#define P1 "f64[2, 3] 0.4 0.7 1.3 1.6 0.9 0.2"
#define Q1 "f64[2, 3] 0.3 0.8 1.2 1.7 0.8 0.1"
#define P2 "f64[4] 0.35 2.5 1.75 0.8"
#define U1 "f64[2, 3] 0.4 -0.7 0.3 -0.6 0.9 -0.2"
#define U2 "f64[4] 0.35 -0.5 0.75 -0.8"
#define G1 "f64[2, 3] 1.4 1.7 1.3 2.6 1.9 3.2"
#define G2 "f64[4] 1.35 2.5 1.75 3.8"
#define B1 "f64[3] 0.8 -1.2 0.6"
#define C1 "f64[2, 1] 1.25 -0.85"
#define UNARY(op, a, b)                                                                            \
  {op, NULL, {a}}, {op, NULL, {b}}, {                                                              \
    op, NULL, { X0 }                                                                               \
  }
#define UNARY_WITH(op, attrs, a, b)                                                                \
  UNARY(op, a, b), {                                                                               \
    op, attrs, { a }                                                                               \
  }
#define BINARY(op)                                                                                 \
  {op, NULL, {X1, Q1}}, {op, NULL, {X1, B1}}, {op, NULL, {B1, C1}}, {op, NULL, {X0, B1}}, {        \
    op, NULL, { "f64[] 0.7", P1 }                                                                  \
  }
#define REDUCE(op, a)                                                                              \
  {op, NULL, {a, NULL}}, {op, "keepdims=False", {a, "i64[1] 1"}},                                  \
      {op, "keepdims=False", {a, "i64[1] 0"}}, {op, NULL, {a, "i64[1] -1"}},                       \
      {op, "noop_with_empty_axes=True", {a, NULL}}, {                                              \
    op, NULL, { P2, "i64[1] 0" }                                                                   \
  }
#define BACKWARD_WITHIN(op)                                                                        \
  {op, NULL, {P1, "=" U1}}, {op, NULL, {P2, "=" U2}}, {                                            \
    op, NULL, { X0, "=" X0 }                                                                       \
  }
#define BACKWARD(op)                                                                               \
  {op, NULL, {P1, X1}}, {op, NULL, {P2, "=" X2}}, {                                                \
    op, NULL, { X0, "=" X0 }                                                                       \
  }

/* clang-format off */
static const case_t cases[] = {
  UNARY("core::abs", X1, X2), UNARY("core::acos", U1, U2), UNARY("core::acosh", G1, G2),
  BINARY("core::add"), UNARY("core::asin", U1, U2),
  BACKWARD_WITHIN("core::asin_backward"), UNARY("core::asinh", X1, X2), UNARY("core::atan", X1, X2),
  BACKWARD("core::atan_backward"),
  UNARY("core::atanh", U1, U2), BACKWARD_WITHIN("core::atanh_backward"),
  UNARY_WITH("core::celu", "alpha=1.3", X1, X2), BACKWARD("core::celu_backward"),
  {"core::cast", "to=f64", {X1}}, {"core::cast_like", NULL, {X1, "=f64[1] 0"}},
  {"core::clip", NULL, {X1, "f64[] -0.5", "f64[] 1.1"}},
  {"core::clip", NULL, {X2, "f64[] -0.5", NULL}},
  {"core::clip", NULL, {X0, NULL, "f64[] 1.1"}},
  UNARY("core::contiguous", X1, X2), UNARY("core::to_dense", X1, X2),
  {"core::to_sparse", NULL, {"f64[2,3] 1 0 -2 0 0.5 3"}},
  {"core::to_sparse", "layout='row_sparse'", {"f64[3,2] 1 0 0 0 0.5 3"}},
  UNARY("core::cos", X1, X2), UNARY("core::cosh", X1, X2),
  {"core::depth_to_space", "block=2", {"f64[1, 4, 1, 2] 1 2 3 4 5 6 7 8"}},
  {"core::depth_to_space", "block=2; mode=CRD", {"f64[1, 4, 1, 2] 1 2 3 4 5 6 7 8"}},
  {"core::depth_to_space", "block=1", {"f64[1, 2, 0, 2]"}},
  {"core::div", NULL, {X1, P1}},
  {"core::div", NULL, {X1, B1}},
  {"core::div", NULL, {B1, C1}},
  {"core::div", NULL, {X0, B1}},
  {"core::dropout", NULL, {X1}},
  {"core::dropout", "ratio=0.3", {X2}},
  {"core::dropout", NULL, {X0}},
  {"core::dropout_backward", "ratio=0.3", {X1, "bool[2, 3] 1 0 1 1 0 1"}},
  UNARY_WITH("core::elu", "alpha=1.3", X1, X2), BACKWARD("core::elu_backward"),
  UNARY("core::erf", X1, X2), BACKWARD("core::erf_backward"),
  UNARY("core::erfc", X1, X2),
  UNARY("core::exp", X1, X2),
  {"core::expand", NULL, {B1, "i64[2] 2 3"}},
  {"core::expand", NULL, {C1, "i64[3] 2 2 3"}},
  {"core::expand", NULL, {"f64[1, 3] 1 2 3", "i64[2] 0 3"}},
  UNARY("core::flatten", X1, "f64[2, 1, 2] 1 2 3 4"),
  {"core::gather", NULL, {X1, "i64[3] 1 0 1"}},
  {"core::gather", "axis=1", {X1, "i64[2, 2] 2 0 0 -1"}},
  {"core::gather", NULL, {X2, "i64[0]"}},
  {"core::gather_backward", NULL, {"f64[3, 2] 1 2 3 4 5 6", "i64[3] 1 0 1", "i64[2] 2 2"}},
  UNARY_WITH("core::gelu", "approximate=tanh", X1, X2),
  {"core::gelu_backward", NULL, {P1, X1}},
  {"core::gelu_backward", "approximate=tanh", {P2, X2}},
  {"core::gelu_backward", NULL, {X0, X0}},
  {"core::gelu_second", NULL, {P1, "=" X1}},
  {"core::gelu_second", "approximate=tanh", {P2, "=" X2}},
  {"core::gelu_second", NULL, {X0, "=" X0}},
  UNARY_WITH("core::hard_sigmoid", "alpha=0.3; beta=0.4", X1, X2),
  BACKWARD("core::hard_sigmoid_backward"),
  UNARY("core::hard_swish", X1, X2), BACKWARD("core::hard_swish_backward"),
  UNARY("core::identity", X1, X2),
  UNARY_WITH("core::leaky_relu", "alpha=0.2", X1, X2), BACKWARD("core::leaky_relu_backward"),
  UNARY("core::log", P1, P2),
  UNARY_WITH("core::log_softmax", "axis=0", X1, X2),
  BINARY("core::max"), BINARY("core::min"),
  {"core::max_backward", NULL, {B1, X1, Q1}},
  {"core::max_backward", NULL, {X1, "=" B1, "=" Q1}},
  {"core::max_backward", NULL, {X0, X0, "=" B1}},
  {"core::min_backward", NULL, {B1, X1, Q1}},
  {"core::min_backward", NULL, {X1, "=" B1, "=" Q1}},
  {"core::min_backward", NULL, {X0, X0, "=" B1}},
  UNARY("core::mish", X1, X2), BACKWARD("core::mish_backward"),
  {"core::mod", "fmod=True", {X1, "f64[2, 3] 0.35 0.5 0.3 0.7 2.5 0.15"}},
  {"core::mod", "fmod=True", {X1, "f64[3] 0.35 0.5 0.33"}},
  {"core::mod", "fmod=True", {X0, "f64[] 1"}},
  {"core::matmul", NULL, {X1, "f64[3, 2] 1 2 3 4 5 6", NULL}},
  {"core::matmul", "transpose_a=True", {X1, "f64[2, 4] 1 2 3 4 5 6 7 8", "f64[4] 1 2 3 4"}},
  {"core::matmul", "transpose_b=True", {X1, P1, "f64[2, 1] 1 2"}},
  {"core::matmul", "transpose_a=True; transpose_b=True", {X1, "f64[4, 2] 1 2 3 4 5 6 7 8", NULL}},
  {"core::matmul", NULL, {"f64[3, 1, 2] 1 2 3 4 5 6", "f64[3, 2, 1] 1 2 3 4 5 6"}},
  {"core::matmul", NULL, {"f64[2, 1, 1, 2] 1 2 3 4", "f64[3, 2, 1] 1 2 3 4 5 6"}},
  {"core::matmul", NULL, {B1, "f64[3] 1 2 3"}},
  {"core::matmul", NULL, {X1, B1, "f64[2] 1 2"}},
  {"core::matmul", NULL, {B1, "f64[2, 3, 2] 1 2 3 4 5 6 7 8 9 1 2 3"}},
  {"core::matmul", NULL, {"f64[0, 3]", "f64[3, 2] 1 2 3 4 5 6"}},
  {"core::matmul", NULL, {"f64[2, 0]", "f64[0, 3]", "f64[3] 1 2 3"}},
  {"core::gemm", "alpha=0.5; beta=2", {X1, "f64[3, 2] 1 2 3 4 5 6", "f64[2] 1 2"}},
  {"core::gemm", "trans_a=True; trans_b=True", {X1, "f64[4, 2] 1 2 3 4 5 6 7 8", NULL}},
  {"core::gemm", "trans_a=True; beta=0.5", {X1, "f64[2, 4] 1 2 3 4 5 6 7 8", "f64[3, 1] 1 2 3"}},
  {"core::gemm", "trans_b=True", {"f64[0, 3]", P1, "f64[] 3"}},
  {"core::layer_norm", NULL, {X1, B1, "f64[3] 1 2 3"}},
  {"core::layer_norm", "axis=0", {X1, NULL, NULL}},
  {"core::layer_norm", "@7", {X1, B1, "f64[3] 1 2 3"}},
  {"core::layer_norm", "@2 axis=0", {X1, NULL, NULL}},
  {"core::layer_norm", "@4 axis=-1; epsilon=0.1", {X1, B1, NULL}},
  {"core::layer_norm", "axis=-2; epsilon=0.1",
   {"f64[2, 2, 2] 1 2 3 5 4 -1 0 2", "f64[2, 2] 1 2 3 4", NULL}},
  {"core::layer_norm", NULL, {"f64[0, 3]", B1, NULL}},
  {"core::rms_norm", NULL, {X1, B1}},
  {"core::rms_norm", "axis=0", {X1, NULL}},
  {"core::rms_norm", NULL, {"f64[0, 3]", B1}},
  {"core::gather_elements", NULL, {X1, "i64[3, 3] 0 1 1 1 0 0 -1 0 1"}},
  {"core::gather_elements", "axis=1", {X1, "i64[2, 2] 2 2 0 -1"}},
  {"core::gather_elements", NULL, {X2, "i64[0]"}},
  {"core::top_k", NULL, {X1, "i64[1] 2"}},
  {"core::top_k", "axis=0; largest=False", {X1, "i64[1] 1"}},
  {"core::top_k", NULL, {X0, "i64[1] 2"}},
  {"core::reverse_sequence", NULL, {"f64[3, 2] 1 2 3 4 5 6", "i64[2] 3 2"}},
  {"core::reverse_sequence", "batch_axis=0; time_axis=1", {X1, "i64[2] 1 3"}},
  {"core::reverse_sequence", NULL, {"f64[0, 2]", "i64[2] 0 0"}},
  {"core::cum_sum", NULL, {X1, "i64[] 1"}},
  {"core::cum_sum", "exclusive=True", {X1, "i64[] 0"}},
  {"core::cum_sum", "reverse=True", {X2, "i64[] -1"}},
  {"core::cum_sum", "exclusive=True; reverse=True", {X0, "i64[] 2"}},
  {"core::cum_sum", "exclusive=True; reverse=True", {X1, "i64[] 1"}},
  {"core::global_average_pool", NULL, {"f64[1, 2, 2, 2] 1 2 3 4 5 6 7 8"}},
  {"core::global_average_pool", NULL, {"f64[2, 1, 3] 1 2 3 4 5 6"}},
  {"core::global_average_pool", NULL, {"f64[0, 2, 3]"}},
  BINARY("core::mul"), UNARY("core::neg", X1, X2),
  {"core::pow", NULL, {P1, X1}},
  {"core::pow", NULL, {P1, B1}},
  {"core::pow", NULL, {"f64[3] 1.5 0.5 2", C1}},
  {"core::pow", NULL, {X0, B1}},
  {"core::pow", NULL, {X1, "i64[] 3"}},
  {"core::pow_backward", NULL, {X1, P1, "f64[2, 3] 2 0.5 -1.5 3 1.2 0.7"}},
  {"core::pow_backward", NULL, {X1, P1, B1}},
  {"core::pow_backward", NULL, {X0, B1, "f64[] 2"}},
  BINARY("core::prelu"),
  {"core::prelu_backward", NULL, {P1, X1, B1}},
  {"core::prelu_backward", NULL, {P2, X2, "f64[] 0.3"}},
  {"core::prelu_backward", NULL, {X0, X0, B1}},
  UNARY("core::reciprocal", X1, X2),
  REDUCE("core::reduce_l1", X1), REDUCE("core::reduce_l2", X1), REDUCE("core::reduce_log_sum", P1),
  REDUCE("core::reduce_log_sum_exp", X1),
  REDUCE("core::reduce_mean", X1), REDUCE("core::reduce_max", X1), REDUCE("core::reduce_min", X1),
  REDUCE("core::reduce_sum", X1), REDUCE("core::reduce_sum_square", X1),
  {"core::reduce_sum", NULL, {X0, NULL}},
  UNARY("core::relu", X1, X2), BACKWARD("core::relu_backward"),
  {"core::view", "shape=[2, 1, -1]", {X1}},
  {"core::view", "shape=[1, 2, 3, 1]", {X1}},
  {"core::view", "shape=[5, 0]", {X0}},
  {"core::reshape", NULL, {X1, "i64[2] 3 2"}},
  {"core::reshape", NULL, {X2, "i64[3] 2 1 -1"}},
  {"core::reshape", "allow_zero=True", {X0, "i64[2] 0 5"}},
  UNARY("core::rsqrt", P1, P2), UNARY_WITH("core::selu", "alpha=1.2; gamma=0.9", X1, X2),
  {"core::selu_backward", "alpha=1.2; gamma=0.9", {P1, X1}},
  UNARY_WITH("core::shrink", "lambd=0.6; bias=0.1", X1, X2), BACKWARD("core::shrink_backward"),
  UNARY("core::sigmoid", X1, X2), UNARY_WITH("core::silu", "alpha=1.7", X1, X2),
  BACKWARD("core::silu_backward"), UNARY("core::sin", X1, X2), UNARY("core::sinh", X1, X2),
  UNARY_WITH("core::softmax", "axis=0", X1, X2),
  {"core::softmax_backward", "axis=0", {X1, P1}},
  {"core::softmax_backward", NULL, {X2, P2}},
  {"core::softmax_backward", NULL, {X0, X0}},
  {"core::log_softmax_backward", "axis=0", {X1, P1}},
  {"core::log_softmax_backward", NULL, {X2, P2}},
  {"core::log_softmax_backward", NULL, {X0, X0}},
  {"core::spread", NULL, {"f64[2, 1] 1 2", "i64[2] 2 3", "i64[1] 1"}},
  {"core::spread", "keepdims=False", {"f64[3] 1 2 3", "i64[2] 2 3", "i64[1] 0"}},
  {"core::spread", NULL, {"f64[1, 1] 3", "i64[2] 0 3", NULL}},
  UNARY("core::softplus", X1, X2), UNARY("core::softsign", X1, X2),
  BACKWARD("core::softsign_backward"),
  {"core::slice", NULL, {X1, "i64[1] 1", "i64[1] 3", "i64[1] 1", NULL}},
  {"core::slice", NULL, {X1, "i64[2] -1 2", "i64[2] -9 0", "i64[2] 0 1", "i64[2] -1 -1"}},
  {"core::slice", NULL, {X0, "i64[1] 0", "i64[1] 1", "i64[1] 0", NULL}},
  {"core::slice_backward", NULL,
   {"f64[2, 2] 1 2 3 4", "i64[2] 2 5", "i64[1] 0", "i64[1] 4", "i64[1] 1", "i64[1] 2"}},
  {"core::slice_backward", NULL, {"f64[1] 1", "i64[1] 3", "i64[1] 1", "i64[1] 2"}},
  {"core::slice_backward", NULL, {"f64[0]", "i64[1] 3", "i64[1] 1", "i64[1] 1"}},
  {"core::split", "axis=1; count=3", {X1, NULL}},
  {"core::split", "count=2", {X2, "i64[2] 1 3"}},
  {"core::split", "axis=2; count=2", {X0, NULL}},
  {"core::concat", "axis=1", {"{" X1 "; f64[2, 1] 7 8}"}},
  {"core::concat", "axis=0", {"{" B1 "; " B1 "}"}},
  {"core::concat", "axis=1", {"{f64[2, 0]; f64[2, 1] 3 4}"}},
  {"core::space_to_depth", "block=2", {"f64[1, 1, 2, 4] 1 2 3 4 5 6 7 8"}},
  {"core::space_to_depth", "block=2", {"f64[1, 1, 0, 4]"}},
  UNARY("core::sqrt", P1, P2),
  {"core::squeeze", NULL, {C1, "i64[1] 1"}},
  {"core::squeeze", NULL, {"f64[1, 2, 1] 1 2", NULL}},
  {"core::squeeze", NULL, {"f64[1, 0]", "i64[1] 0"}},
  BINARY("core::sub"),
  {"core::sum_to", NULL, {X1, "i64[1] 3"}},
  {"core::sum_to", NULL, {X1, "i64[2] 2 1"}},
  {"core::sum_to", NULL, {X0, "i64[1] 3"}},
  {"core::sum_to", NULL, {X1, "i64[0]"}},
  UNARY("core::tan", U1, U2), UNARY("core::tanh", X1, X2),
  UNARY_WITH("core::thresholded_relu", "alpha=0.3", X1, X2),
  {"core::thresholded_relu_backward", "alpha=0.3", {P1, X1}},
  UNARY("core::transpose", X1, "f64[2, 1, 2] 1 2 3 4"),
  {"core::transpose", "perm=[1, 2, 0]", {"f64[2, 1, 3] 1 2 3 4 5 6"}},
  {"core::strided_copy", "strides=[1, 2]; offset=1", {X1, "i64[2] 2 2"}},
  {"core::strided_copy", "strides=[0, -2]; offset=3", {X2, "i64[2] 3 2"}},
  {"core::strided_copy", "strides=[1]", {X0, "i64[1] 0"}},
  {"core::strided_sum", "strides=[3, 1]; offset=1", {X1, "i64[1] 9"}},
  {"core::strided_sum", "strides=[1, 1]", {X1, "i64[2] 2 2"}},
  {"core::strided_sum", "strides=[1]", {X2, "i64[1] 4"}},
  {"core::strided_sum", "strides=[1, 1, 1]", {X0, "i64[1] 3"}},
  {"core::strided_zero", "strides=[3]; offset=1", {X1, "i64[1] 2"}},
  {"core::strided_zero", "strides=[-1, 0]; offset=3", {X2, "i64[2] 2 2"}},
  {"core::strided_zero", "strides=[1]", {X0, "i64[1] 0"}},
  {"core::trilu", NULL, {"f64[3, 3] 1 2 3 4 5 6 7 8 9", NULL}},
  {"core::trilu", "upper=False", {X1, "i64[] 1"}},
  {"core::trilu", NULL, {X0, NULL}},
  {"core::unsqueeze", NULL, {X1, "i64[1] 1"}},
  {"core::unsqueeze", NULL, {X2, "i64[2] 0 2"}},
  {"core::unsqueeze", NULL, {X0, "i64[1] 0"}},
  UNARY("core::untranspose", X1, "f64[2, 1, 2] 1 2 3 4"),
  {"core::untranspose", "perm=[1, 2, 0]", {"f64[2, 1, 3] 1 2 3 4 5 6"}},
  {"core::where", NULL, {"bool[2, 3] 1 0 1 0 0 1", X1, P1}},
  {"core::where", NULL, {"bool[2, 1] 1 0", B1, C1}},
  {"core::where", NULL, {"bool[] 1", X0, B1}},
  {"core::where_backward", NULL, {X1, "bool[2, 3] 1 0 1 0 0 1"}},
  {"core::where_backward", NULL, {X1, "bool[3] 1 0 1"}},
  {"core::where_backward", NULL, {X0, "bool[] 1"}},
#include "spatial_cases.h"
#include "norm_cases.h"
#include "index_cases.h"
#include "sampling_cases.h"
#include "sequence_cases.h"
};
/* clang-format on */

/* Operators without a case: their gradient texts say none or error for every input, so there is
 * nothing to check. matmul_nbits takes no f64, which differences need; ops/matmul_nbits_test.c
 * compares its gradient with sums of doubles. */
static const char *const without[] = {
    "core::as_strided",   "core::bernoulli",   "core::bit_cast",      "core::ceil",
    "core::empty_like",   "core::eye_like",    "core::floor",         "core::hardmax",
    "core::local_scalar", "core::normal_",     "core::reshape_alias", "core::round",
    "core::shape",        "core::sign",        "core::size",          "core::size_ratio",
    "core::uniform_",     "core::matmul_nbits"};

#endif
