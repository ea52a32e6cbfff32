/* Operators with source kernels: each gives on a device what the CPU's own kernels give, from
 * tensors of any layout, at every group size, without a fallback. Each pair of device and group
 * size runs in a process of its own (TENON_GROUP). */
#include "check.h"
#include "sanitizer.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensors.h"

#include "operators.h"

#include "layouts.h"

typedef struct case_t {
  const char *op;
  const char *attrs;
  const char *inputs[5]; /* A text that begins with "@" is in host memory on every device. */
  double tolerance;      /* 0: 2e-6 for floats; relative to 1 + |value| */
} case_t;

#define ONE(name)                                                                                  \
  { name, NULL, {"f32[3, 4, 5] ~1"}, 0 }
#define UNIT_ONE(name)                                                                             \
  { name, NULL, {"f32[2, 7] ~1"}, 1e-5 }
#define TWO(name)                                                                                  \
  {name, NULL, {"f32[3, 4] ~1", "f32[3, 4] ~2"}, 0},                                               \
      {name, NULL, {"f32[2, 3, 1] ~1", "f32[5] ~2"}, 0},                                           \
      {name, NULL, {"f32[] 3", "f32[2, 2] ~2"}, 0}, {name, NULL, {"f32[0, 3] ", "f32[3] ~2"}, 0},  \
  {                                                                                                \
    name, NULL, {"f32[2, 3] 1 -2 nan inf -inf 0", "f32[2, 3] 1 2 3 nan 5 -6"}, 0                   \
  }
#define TWO_INTS(name)                                                                             \
  {name, NULL, {"i32[4] 7 -7 2147483647 5", "i32[4] 2 2 3 0"}, 0}, {                               \
    name, NULL, {"i64[2, 2] 7 -7 -9223372036854775808 5", "i64[2] -1 3"}, 0                        \
  }
#define REDUCE(name)                                                                               \
  {name, NULL, {"f32[3, 70, 2] ~1", "@i64[1] 1"}, 1e-5},                                           \
      {name, "keepdims=False", {"f32[3, 4, 5] ~1", "@i64[2] 0 2"}, 1e-5},                          \
      {name, NULL, {"f32[3, 4] ~1", NULL}, 1e-5}, {                                                \
    name, "noop_with_empty_axes=True", {"f32[3, 4] ~1", NULL}, 1e-5                                \
  }

static const case_t cases[] = {
    ONE("core::abs"),
    ONE("core::neg"),
    ONE("core::sign"),
    ONE("core::exp"),
    UNIT_ONE("core::log"),
    UNIT_ONE("core::sqrt"),
    UNIT_ONE("core::rsqrt"),
    ONE("core::reciprocal"),
    ONE("core::floor"),
    ONE("core::ceil"),
    ONE("core::round"),
    {"core::round", NULL, {"f32[6] 0.5 1.5 2.5 -0.5 -1.5 nan"}, 0},
    ONE("core::sin"),
    ONE("core::cos"),
    ONE("core::tan"),
    ONE("core::asin"),
    ONE("core::acos"),
    ONE("core::atan"),
    ONE("core::sinh"),
    ONE("core::cosh"),
    ONE("core::tanh"),
    ONE("core::asinh"),
    {"core::acosh", NULL, {"f32[4] 1 1.5 20 0.5"}, 0},
    ONE("core::atanh"),
    ONE("core::erf"),
    ONE("core::sigmoid"),
    ONE("core::relu"),
    ONE("core::softplus"),
    ONE("core::softsign"),
    ONE("core::mish"),
    ONE("core::hard_swish"),
    ONE("core::silu"),
    ONE("core::elu"),
    ONE("core::celu"),
    ONE("core::leaky_relu"),
    ONE("core::thresholded_relu"),
    ONE("core::selu"),
    ONE("core::hard_sigmoid"),
    ONE("core::shrink"),
    ONE("core::gelu"),
    {"core::gelu", "approximate=tanh", {"f32[50] ~3"}, 0},
    {"core::elu", "alpha=0.5", {"f32[50] ~3"}, 0},
    TWO("core::add"),
    TWO("core::sub"),
    TWO("core::mul"),
    TWO("core::div"),
    TWO("core::min"),
    TWO("core::max"),
    TWO("core::prelu"),
    TWO("core::mod"),
    {"core::mod", "fmod=True", {"f32[3, 4] ~1", "f32[3, 4] ~2"}, 0},
    {"core::pow", NULL, {"f32[5] 0.5 2 3 0 -2", "f32[5] 2 0.5 -1.5 0 3"}, 1e-5},
    TWO("core::equal"),
    TWO("core::not_equal"),
    TWO("core::less"),
    TWO("core::less_equal"),
    TWO("core::greater"),
    TWO("core::greater_equal"),
    {"core::is_nan", NULL, {"f32[3] nan 1 inf"}, 0},
    {"core::is_inf", NULL, {"f32[4] nan 1 inf -inf"}, 0},
    {"core::is_inf", "negative=False", {"f32[4] nan 1 inf -inf"}, 0},
    {"core::clip", NULL, {"f32[3, 4] ~1", "f32[] -0.5", "f32[] 0.25"}, 0},
    {"core::clip", NULL, {"f32[3] nan 7 -7", NULL, "f32[] 6"}, 0},
    {"core::clip", NULL, {"f32[3] nan 7 -7", "f32[] 0", NULL}, 0},
    TWO_INTS("core::add"),
    TWO_INTS("core::sub"),
    TWO_INTS("core::mul"),
    TWO_INTS("core::div"),
    TWO_INTS("core::min"),
    TWO_INTS("core::max"),
    TWO_INTS("core::bitwise_and"),
    TWO_INTS("core::bitwise_or"),
    TWO_INTS("core::bitwise_xor"),
    TWO_INTS("core::equal"),
    TWO_INTS("core::not_equal"),
    TWO_INTS("core::less"),
    TWO_INTS("core::less_equal"),
    TWO_INTS("core::greater"),
    TWO_INTS("core::greater_equal"),
    {"core::abs", NULL, {"i32[3] -5 5 -2147483648"}, 0},
    {"core::neg", NULL, {"i64[3] -5 5 0"}, 0},
    {"core::sign", NULL, {"i64[3] -5 5 0"}, 0},
    {"core::relu", NULL, {"i32[3] -5 5 0"}, 0},
    {"core::bitwise_not", NULL, {"i32[3] -5 5 0"}, 0},
    {"core::and", NULL, {"bool[2, 2] 0 1 0 1", "bool[2] 0 1"}, 0},
    {"core::or", NULL, {"bool[2, 2] 0 1 0 1", "bool[2, 1] 0 1"}, 0},
    {"core::xor", NULL, {"bool[2, 2] 0 1 0 1", "bool[2] 0 1"}, 0},
    {"core::not", NULL, {"bool[2] 0 1"}, 0},
    {"core::equal", NULL, {"bool[2, 2] 0 1 0 1", "bool[2] 0 1"}, 0},
    {"core::where", NULL, {"bool[2, 1] 0 1", "f32[3] 1 2 3", "f32[] 9"}, 0},
    {"core::where", NULL, {"bool[2, 1] 0 1", "i64[3] 1 2 3", "i64[2, 3] 9 8 7 6 5 4"}, 0},
    {"core::where", NULL, {"bool[3] 0 1 1", "bool[3] 1 1 0", "bool[3] 1 0 1"}, 0},
    {"core::where", NULL, {"bool[3] 0 1 1", "f16[3] 1 2 3", "f16[3] 4 5 6"}, 0},
    {"core::cast", "to=i64", {"f32[9] 1.5 -1.5 nan 1e30 -1e30 0 2147483648 -0.5 7"}, 0},
    {"core::cast", "to=i32", {"f32[8] 1.5 -1.5 nan 1e30 -1e30 0 2147483648 -7"}, 0},
    {"core::cast", "to=u8", {"f32[4] 1.5 255 0 200.7"}, 0},
    {"core::cast", "to=i8", {"f32[4] 1.5 -100 0 100.7"}, 0},
    {"core::cast", "to=bool", {"f32[4] 0 -0.1 nan 3"}, 0},
    {"core::cast", "to=f32", {"bool[3] 0 1 1"}, 0},
    {"core::cast", "to=f16", {"f32[10] 1 -1.0009 65504 65520 1e-7 6e-8 nan inf 3.14159 -0.1"}, 0},
    {"core::cast", "to=bf16", {"f32[6] 1 -1.0039 3.4e38 1e-40 nan 3.14159"}, 0},
    {"core::cast", "to=f32", {"f16[6] 1 -0.3125 65504 5.9604644775390625e-8 nan inf"}, 0},
    {"core::cast", "to=f32", {"bf16[3] 1 -0.3125 1.5e2"}, 0},
    {"core::cast", "to=f32", {"i64[4] 1 -7 9223372036854775807 16777217"}, 0},
    {"core::cast", "to=f16", {"i64[4] 2049 2051 -4099 70000"}, 0},
    {"core::cast", "to=bf16", {"i32[3] 257 259 16843009"}, 0},
    {"core::cast", "to=i32", {"i64[3] 4294967297 -1 7"}, 0},
    {"core::cast", "to=i64", {"i32[3] -1 7 0"}, 0},
    {"core::cast", "to=u16", {"i16[3] -1 7 0"}, 0},
    {"core::cast", "to=i64", {"u32[2] 4294967295 7"}, 0},
    {"core::cast_like", NULL, {"f32[3] 1.5 2.5 -1", "i32[1] 0"}, 0},
    {"core::contiguous", NULL, {"f32[3, 4, 5] ~1"}, 0},
    {"core::contiguous", NULL, {"u8[3, 2] 1 2 3 4 5 6"}, 0},
    {"core::contiguous", NULL, {"i64[3, 2] 1 2 3 4 5 6"}, 0},
    {"core::contiguous", NULL, {"bf16[3, 2] 1 2 3 4 5 6"}, 0},
    {"core::concat", "axis=1", {"{f32[2, 3] ~1; f32[2, 1] ~2; f32[2, 0] }"}, 0},
    {"core::concat", "axis=-3", {"{i64[1, 2, 2] 1 2 3 4; i64[2, 2, 2] 1 2 3 4 5 6 7 8}"}, 0},
    {"core::gather", NULL, {"f32[5, 3] ~1", "i64[2, 2] 0 4 -1 2"}, 0},
    {"core::gather", "axis=1", {"f32[2, 5, 3] ~1", "i32[3] 0 -5 2"}, 0},
    {"core::gather", "axis=-1", {"i64[2, 3] 1 2 3 4 5 6", "i64[] 1"}, 0},
    {"core::gather", NULL, {"bool[3] 1 0 1", "i64[4] 2 1 0 1"}, 0},
    {"core::gather_elements", "axis=1", {"f32[2, 4] ~1", "i64[2, 3] 0 3 -1 2 1 0"}, 0},
    {"core::gather_elements",
     "axis=0",
     {"f16[3, 4] 1 2 3 4 5 6 7 8 9 10 11 12", "i32[1, 4] 2 -1 0 1"},
     0},
    {"core::gather_nd", NULL, {"f32[3, 4, 2] ~1", "i64[2, 2] 0 -1 2 3"}, 0},
    {"core::gather_nd", "batch_dims=1", {"i32[2, 3] 1 2 3 4 5 6", "i32[2, 2, 1] 0 2 -1 1"}, 0},
    {"core::scatter_nd", NULL, {"f32[4, 3] ~1", "i64[2, 1] 3 1", "f32[2, 3] ~2"}, 0},
    {"core::scatter_nd", "reduction=add", {"f32[4] ~1", "i64[3, 1] 3 1 -1", "f32[3] ~2"}, 1e-5},
    {"core::scatter_elements",
     "axis=1",
     {"i64[2, 3] 1 2 3 4 5 6", "i64[2, 2] 0 -1 1 0", "i64[2, 2] 7 8 9 10"},
     0},
    {"core::scatter_elements",
     "reduction=add",
     {"i32[3, 2] 1 2 3 4 5 6", "i32[2, 2] 0 2 0 2", "i32[2, 2] 7 8 9 10"},
     0},
    {"core::tile", NULL, {"f32[2, 3] ~1", "@i64[2] 2 3"}, 0},
    {"core::depth_to_space", "block=2", {"f32[1, 8, 2, 3] ~1"}, 0},
    {"core::depth_to_space", "block=2; mode=CRD", {"f32[2, 8, 2, 3] ~1"}, 0},
    {"core::space_to_depth", "block=2", {"f32[2, 2, 4, 6] ~1"}, 0},
    {"core::pad", NULL, {"f32[2, 3] ~1", "@i64[4] 1 0 2 -1", "f32[] 7"}, 0},
    {"core::pad", "mode=reflect", {"f32[2, 5] ~1", "@i64[2] 3 4", NULL, "@i64[1] 1"}, 0},
    {"core::pad", "mode=edge", {"i64[2, 2] 1 2 3 4", "@i64[4] 1 1 0 2"}, 0},
    {"core::pad", "mode=wrap", {"bool[3] 1 0 0", "@i64[2] 4 2"}, 0},
    {"core::trilu", NULL, {"f32[2, 4, 3] ~1"}, 0},
    {"core::trilu", "upper=False", {"i64[3, 3] 1 2 3 4 5 6 7 8 9", "@i64[] -1"}, 0},
    {"core::softmax", NULL, {"f32[3, 100] ~1"}, 0},
    {"core::softmax", "axis=1", {"f32[2, 5, 3] ~1"}, 0},
    {"core::softmax", NULL, {"f32[2, 3] inf 1 nan -inf 0 1"}, 0},
    {"core::log_softmax", "axis=0", {"f32[70, 3] ~1"}, 1e-5},
    {"core::softmax", NULL, {"f32[0, 3] "}, 0},
    {"core::layer_norm", NULL, {"f32[4, 100] ~1", "f32[100] ~2", "f32[100] ~3"}, 1e-5},
    {"core::layer_norm", "axis=1", {"f32[2, 3, 5] ~1", "f32[3, 5] ~2", NULL}, 1e-5},
    {"core::layer_norm", NULL, {"f32[2, 3, 5] ~1", NULL, "f32[1] 3"}, 1e-5},
    {"core::rms_norm", NULL, {"f32[4, 100] ~1", "f32[100] ~2"}, 1e-5},
    {"core::instance_norm", NULL, {"f32[2, 3, 4, 5] ~1", "f32[3] ~2", "f32[3] ~3"}, 1e-5},
    {"core::group_norm", "groups=2", {"f32[2, 4, 5] ~1", "f32[4] ~2", "f32[4] ~3"}, 1e-5},
    {"core::batch_norm",
     NULL,
     {"f32[2, 3, 4, 5] ~1", "f32[3] ~2", "f32[3] ~3", "f32[3] ~4", "f32[3] 1 2 0.5"},
     1e-5},
    REDUCE("core::reduce_sum"),
    REDUCE("core::reduce_mean"),
    REDUCE("core::reduce_max"),
    REDUCE("core::reduce_min"),
    REDUCE("core::reduce_prod"),
    REDUCE("core::reduce_l1"),
    REDUCE("core::reduce_l2"),
    REDUCE("core::reduce_sum_square"),
    REDUCE("core::reduce_log_sum_exp"),
    {"core::reduce_log_sum", NULL, {"f32[2, 3] 1 2 3 4 5 6", "@i64[1] 1"}, 1e-5},
    {"core::reduce_max", NULL, {"f32[2, 3] 1 nan 3 -inf -inf -inf", "@i64[1] 1"}, 0},
    {"core::reduce_sum", NULL, {"f32[2, 0] ", "@i64[1] 1"}, 0},
    {"core::reduce_prod", NULL, {"f32[2, 0] ", "@i64[1] 1"}, 0},
    {"core::matmul", NULL, {"f32[3, 4] ~1", "f32[4, 5] ~2"}, 1e-5},
    {"core::matmul", NULL, {"f32[70, 40] ~1", "f32[40, 130] ~2"}, 1e-5},
    {"core::matmul", NULL, {"f32[4] ~1", "f32[4, 5] ~2"}, 1e-5},
    {"core::matmul", NULL, {"f32[2, 3, 4] ~1", "f32[4] ~2"}, 1e-5},
    {"core::matmul", NULL, {"f32[2, 1, 3, 4] ~1", "f32[5, 4, 2] ~2", "f32[2] ~3"}, 1e-5},
    {"core::matmul",
     "transpose_a=True; transpose_b=True",
     {"f32[2, 4, 3] ~1", "f32[2, 5, 4] ~2"},
     1e-5},
    {"core::matmul", "activation=relu", {"f32[3, 4] ~1", "f32[4, 5] ~2", "f32[3, 1] ~4"}, 1e-5},
    {"core::matmul", "activation=gelu", {"f32[3, 4] ~1", "f32[4, 5] ~2", "f32[5] ~4"}, 1e-5},
    {"core::matmul",
     "activation=clip; alpha=-0.5; beta=0.5",
     {"f32[3, 4] ~1", "f32[4, 5] ~2", "f32[5] ~4"},
     1e-5},
    {"core::matmul", "activation=mish", {"f32[3, 4] ~1", "f32[4, 5] ~2"}, 1e-5},
    {"core::matmul",
     "activation=hard_sigmoid; alpha=0.3; beta=0.4",
     {"f32[3, 4] ~1", "f32[4, 5] ~2"},
     1e-5},
    {"core::matmul", NULL, {"f32[3, 0] ", "f32[0, 5] ", "f32[5] ~1"}, 0},
    {"core::gemm",
     "alpha=0.5; beta=2.0; trans_b=True",
     {"f32[3, 4] ~1", "f32[5, 4] ~2", "f32[3, 1] ~3"},
     1e-5},
    {"core::conv", NULL, {"f32[2, 3, 9, 8] ~1", "f32[10, 3, 3, 3] ~2", "f32[10] ~3"}, 1e-5},
    {"core::conv",
     "pads=[1, 2, 0, 1]; strides=[2, 1]; dilations=[1, 2]; activation=relu",
     {"f32[2, 3, 9, 8] ~1", "f32[10, 3, 3, 3] ~2"},
     1e-5},
    {"core::conv",
     "group=2; auto_pad=same_upper",
     {"f32[1, 4, 7, 7] ~1", "f32[20, 2, 3, 3] ~2", "f32[20] ~3", "f32[1, 20, 7, 7] ~4"},
     1e-5},
    {"core::conv",
     "group=4; pads=[1, 1, 1, 1]; strides=[2, 2]; activation=clip; alpha=0; beta=6",
     {"f32[2, 4, 7, 7] ~1", "f32[4, 1, 3, 3] ~2", "f32[4] ~3"},
     1e-5},
    {"core::conv", "pads=[1, 1]", {"f32[2, 3, 70] ~1", "f32[9, 3, 3] ~2"}, 1e-5},
    {"core::conv", NULL, {"f32[1, 2, 4, 5, 6] ~1", "f32[8, 2, 2, 2, 2] ~2"}, 1e-5},
    {"core::conv",
     "pads=[1, 1, 1, 1]; activation=relu",
     {"f32[2, 4, 9, 8] ~1", "f32[10, 4, 3, 3] ~2", "f32[10] ~3", "f32[2, 10, 9, 8] ~4"},
     1e-5},
    {"core::conv", "activation=elu; alpha=0.5", {"f32[1, 2, 6, 6] ~1", "f32[8, 2, 3, 3] ~2"}, 1e-5},
    {"core::conv",
     "activation=tanh; strides=[2]",
     {"f32[1, 2, 20] ~1", "f32[8, 2, 3] ~2", "f32[8] ~3"},
     1e-5},
    {"core::conv", "activation=sigmoid", {"f32[1, 2, 6, 6] ~1", "f32[8, 2, 1, 1] ~2"}, 1e-5},
    {"core::conv", "activation=silu", {"f32[1, 2, 6, 6] ~1", "f32[8, 2, 3, 3] ~2"}, 1e-5},
    {"core::conv_transpose",
     "strides=[2, 2]; pads=[1, 0, 1, 1]; group=2",
     {"f32[2, 4, 3, 4] ~1", "f32[4, 3, 3, 3] ~2", "f32[6] ~3"},
     1e-5},
    {"core::resize", NULL, {"f32[2, 3, 4, 5] ~1", NULL, "@f32[4] 1 1 2 3"}, 0},
    {"core::resize",
     "coordinates=asymmetric; nearest=floor",
     {"f32[1, 2, 4, 6] ~1", NULL, "@f32[4] 1 1 2 2"},
     0},
    {"core::resize", "nearest=ceil; axes=[2]", {"f32[1, 2, 8] ~1", NULL, "@f32[1] 0.25"}, 0},
    {"core::resize",
     "coordinates=asymmetric; nearest=round_prefer_ceil",
     {"f32[5] ~1", NULL, NULL, "@i64[1] 20"},
     0},
    {"core::resize", "mode=linear", {"f32[2, 3, 4, 5] ~1", NULL, "@f32[4] 1 1 2 3"}, 0},
    {"core::resize",
     "mode=linear; coordinates=align_corners",
     {"f32[2, 1, 4, 5] ~1", NULL, "@f32[4] 1 1 3 2"},
     0},
    {"core::resize",
     "mode=linear; coordinates=pytorch_half_pixel",
     {"f32[1, 2, 4, 6] ~1", NULL, NULL, "@i64[4] 1 2 1 12"},
     0},
    {"core::resize", "mode=linear", {"f32[3, 8, 8] ~1", NULL, "@f32[3] 1 0.5 0.25"}, 0},
    {"core::max_pool",
     "kernel=[3, 2]; strides=[2, 2]; pads=[1, 0, 1, 1]",
     {"f32[2, 3, 7, 8] ~1"},
     0},
    {"core::max_pool", "kernel=[2]; ceil_mode=True; strides=[2]", {"f32[2, 3, 7] ~1"}, 0},
    {"core::average_pool",
     "kernel=[3, 2]; strides=[2, 2]; pads=[1, 0, 1, 1]",
     {"f32[2, 3, 7, 8] ~1"},
     0},
    {"core::average_pool",
     "kernel=[3, 2]; strides=[2, 2]; pads=[1, 0, 1, 1]; count_include_pad=True; ceil_mode=True",
     {"f32[2, 3, 7, 8] ~1"},
     0},
    {"core::lp_pool", "kernel=[3, 2]; p=3.0", {"f32[2, 3, 7, 8] ~1"}, 1e-5},
    {"core::global_average_pool", NULL, {"f32[2, 3, 7, 8] ~1"}, 1e-5},
    {"core::global_max_pool", NULL, {"f32[2, 3, 7, 8] ~1"}, 0},
    {"core::global_lp_pool", NULL, {"f32[2, 3, 7, 8] ~1"}, 1e-5},
};

/* one case */

static int close_to(const case_t *k, const tenon_tensor_t *found, const tenon_tensor_t *expected,
                    const char *how) {
  char what[600], a[2000], b[1200];
  tenon_tensor_t *host = NULL;
  if (!found || !CHECK_STATUS(tenon_tensor_copy_to(found, (tenon_device_t){1, 0}, &host), TENON_OK))
    return 0;
  tensor_print(host, a, sizeof a);
  tensor_print(expected, b, sizeof b);
  snprintf(what, sizeof what, "%s(%s) %s, %s", k->op, k->attrs ? k->attrs : "", k->inputs[0], how);
  int good = tensor_equal(host, expected, k->tolerance ? k->tolerance : 2e-6);
  if (!good) fprintf(stderr, "  expected: %s\n", b);
  check_report(good, __FILE__, __LINE__, what, a);
  tenon_tensor_release(host);
  return good;
}

static void run_case(const case_t *k, tenon_device_t device) {
  const tenon_op_t *op = op_of(k->op);
  tenon_tensor_t *host[8] = {NULL};
  tenon_tensor_t *expected[8] = {NULL};
  tenon_tensor_t *inputs[8], *outputs[8], *into;
  tenon_attrs_t *attrs = attrs_of(op, k->attrs);
  if (!op) return;
  tenon_op_info_t info = op_info(op);
  for (int32_t i = 0; i < info.input_count && i < 5; i++)
    host[i] = k->inputs[i] ? tensor_of(k->inputs[i] + (*k->inputs[i] == '@')) : NULL;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), host, expected, 0), TENON_OK);
  for (int layout = 0; layout < LAYOUTS; layout++) {
    for (int32_t i = 0; i < info.input_count; i++) {
      int stays = !host[i] || (k->inputs[i] && *k->inputs[i] == '@');
      inputs[i] = stays ? host[i] : layout_place(host[i], device, layout);
    }
    memset(outputs, 0, sizeof outputs);
    CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, outputs, 0), TENON_OK);
    for (int32_t o = 0; o < info.output_count; o++)
      if (expected[o]) close_to(k, outputs[o], expected[o], layouts[layout]);
    if (expected[0] && info.output_count == 1 &&
        expected[0]->ndim) { /* Also writes into a result with that layout. */
      into = layout_place(expected[0], device, layout);
      CHECK_STATUS(tenon_op_call_into(op, attr_values(attrs), inputs, &into), TENON_OK);
      close_to(k, into, expected[0], "into a given result");
      tenon_tensor_release(into);
    }
    for (int32_t o = 0; o < info.output_count; o++)
      tenon_tensor_release(outputs[o]);
    for (int32_t i = 0; i < info.input_count; i++)
      if (inputs[i] != host[i]) tenon_tensor_release(inputs[i]);
  }
  for (int32_t i = 0; i < 8; i++) {
    tenon_tensor_release(host[i]);
    tenon_tensor_release(expected[i]);
  }
  tenon_attrs_release(attrs);
}

/* processes */

/* A call that the source kernel declines falls back: here the exponent has another dtype. */
static void run_declined(const char *backend, tenon_device_t device) {
  static const case_t k = {"core::pow", NULL, {"f32[3] 2 3 -2", "i64[3] 2 -1 3"}, 1e-5};
  char *report = NULL;
  tenon_registration_t *fallback = NULL;
  CHECK_STATUS(tenon_fallback_add(backend, tenon_fallback_cpu, NULL, NULL, 0, &fallback), TENON_OK);
  run_case(&k, device);
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  CHECK_TEXT(report, "core::pow");
  tenon_text_release(report);
  tenon_registration_release(fallback);
}

static long copied_out(void) {
  char *text = NULL;
  CHECK_STATUS(tenon_devices(&text), TENON_OK);
  const char *at = text;
  long sum = 0;
  while (at && (at = strstr(at, "copied out")))
    sum += atol(at += strlen("copied out"));
  tenon_text_release(text);
  return sum;
}

/* The dense copy of a strided tensor is made on its device. */
static void run_dense(tenon_device_t device) {
  tenon_tensor_t *x = tensor_of("f32[3, 4, 5] ~1");
  tenon_tensor_t *turned = layout_place(x, device, TURNED);
  tenon_tensor_t *dense = NULL;
  tenon_tensor_t *host = NULL;
  long before = copied_out();
  CHECK_STATUS(tenon_tensor_copy_to(turned, device, &dense), TENON_OK);
  CHECK(copied_out() == before);
  CHECK_STATUS(tenon_tensor_copy_to(dense, (tenon_device_t){1, 0}, &host), TENON_OK);
  CHECK(copied_out() == before + 1 && tensor_equal(host, x, 0));
  tenon_tensor_release(x);
  tenon_tensor_release(turned);
  tenon_tensor_release(dense);
  tenon_tensor_release(host);
}

enum { ABSENT = 77 };

/* Runs all cases on a device in a process of its own; returns 0 if all are right. */
static int run_all(const char *backend) {
  tenon_device_t device;
  int32_t count = 0;
  char *report = NULL;
  if (tenon_device_find(backend, 0, &device) != TENON_OK ||
      tenon_device_count(backend, &count) != TENON_OK || !count) {
    fprintf(stderr, "%s\n", tenon_error());
    return ABSENT;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    run_case(&cases[i], device);
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  check_report(report && !*report, __FILE__, __LINE__, "nothing falls back", report);
  tenon_text_release(report);
  run_declined(backend, device);
  run_dense(device);
  return check_failures != 0;
}

static int in_child(const char *backend, const char *group, const char *settings) {
  int state = 0;
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    setenv("TENON_GROUP", group, 1);
    setenv("TENON_SIM", settings, 1);
    check_failures = 0;
    int code = run_all(backend);
    fflush(NULL);
    _exit(code);
  }
  CHECK(child > 0 && waitpid(child, &state, 0) == child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 255;
}

#define CHECK_ALL(backend, group, settings)                                                        \
  do {                                                                                             \
    int code_ = in_child(backend, group, settings);                                                \
    if (code_ == ABSENT) SKIP("there is no such device here");                                     \
    CHECK(code_ == 0);                                                                             \
  } while (0)

#ifdef HAS_TSAN
#define SLOW                                                                                       \
  SKIP("compiling takes minutes under the thread sanitizer; test_device_source runs there")
#else
#define SLOW (void)0
#endif
#ifdef IS_INSTRUMENTED
#define FEW SKIP("under sanitizers groups of 64 stand for all")
#else
#define FEW (void)0
#endif

TEST("on opencl every operator gives the CPU's results in groups of 64") {
  SLOW;
  CHECK_ALL("opencl", "64", "");
}
TEST("on opencl every operator gives the CPU's results in groups of 1") {
  FEW;
  CHECK_ALL("opencl", "1", "");
}
TEST("on opencl every operator gives the CPU's results in groups of 3") {
  FEW;
  CHECK_ALL("opencl", "3", "");
}
TEST("on opencl every operator gives the CPU's results in groups of 256") {
  FEW;
  CHECK_ALL("opencl", "256", "");
}
TEST("on sim every operator gives the CPU's results in groups of 64") {
  SLOW;
  CHECK_ALL("sim", "64", "");
}
TEST("on sim every operator gives the CPU's results in groups of 1") {
  FEW;
  CHECK_ALL("sim", "1", "");
}
TEST("on sim every operator gives the CPU's results in groups of 3") {
  FEW;
  CHECK_ALL("sim", "3", "");
}
TEST("on sim every operator gives the CPU's results in groups of 256") {
  FEW;
  CHECK_ALL("sim", "256", "");
}
TEST("on sim every operator gives the CPU's results with handles in place of addresses") {
  SLOW;
  CHECK_ALL("sim", "3", "handles=1");
}
TEST("on cuda every operator gives the CPU's results in groups of 64") {
  SLOW;
  CHECK_ALL("cuda", "64", "");
}
TEST("on cuda every operator gives the CPU's results in groups of 1") {
  FEW;
  CHECK_ALL("cuda", "1", "");
}
TEST("on cuda every operator gives the CPU's results in groups of 3") {
  FEW;
  CHECK_ALL("cuda", "3", "");
}
TEST("on cuda every operator gives the CPU's results in groups of 256") {
  FEW;
  CHECK_ALL("cuda", "256", "");
}
