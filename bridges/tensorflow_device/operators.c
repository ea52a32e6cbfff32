/* The operators of TensorFlow that operators of Tenon compute on a device. plan.h says how a row
 * reads. A row is registered for those of its dtypes for which the device has all kernels. */
#include "plan.h"

/* clang-format off */
#define UNARY(op, core) {op, "x | T:t", "T=FDHBL", "core::" core "(x)"}
#define UNARY_OF(op, input, core) {op, input " | T:t", "T=FDHBL", "core::" core "(" input ")"}
#define BINARY(op, core) {op, "x y | T:t", "T=FDHBL", "core::" core "(x, y)"}
#define COMPARISON(op, core) {op, "x y | T:t", "T=FDHBL", "core::" core "(x, y)"}
#define EQUALITY(op, core) {op, "x y | T:t", "T=FDHBLO", "core::" core "(x, y)"}
#define REDUCTION(op, core)                                                                        \
  {op, "input @reduction_indices | keep_dims:b T:t Tidx:t", "T=FDHB",                              \
   "core::" core "(input, reduction_indices, keepdims=keep_dims, noop_with_empty_axes=true)"}
#define CONV "strides:l padding:s explicit_paddings:l data_format:s dilations:l T:t"
#define POOL "ksize:l strides:l padding:s data_format:s T:t"
#define SLICING                                                                                    \
  "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i T:t Index:t"

static const row_t rows[] = {
    UNARY("Abs", "abs"), UNARY("Neg", "neg"), UNARY("Exp", "exp"), UNARY("Log", "log"),
    UNARY("Sqrt", "sqrt"), UNARY("Rsqrt", "rsqrt"), UNARY("Reciprocal", "reciprocal"),
    UNARY("Inv", "reciprocal"), UNARY("Tanh", "tanh"), UNARY("Sigmoid", "sigmoid"),
    UNARY("Sin", "sin"), UNARY("Cos", "cos"), UNARY("Tan", "tan"), UNARY("Asin", "asin"),
    UNARY("Acos", "acos"), UNARY("Atan", "atan"), UNARY("Sinh", "sinh"), UNARY("Cosh", "cosh"),
    UNARY("Asinh", "asinh"), UNARY("Acosh", "acosh"), UNARY("Atanh", "atanh"),
    UNARY("Erf", "erf"), UNARY("Floor", "floor"), UNARY("Ceil", "ceil"), UNARY("Rint", "round"),
    UNARY("Round", "round"), UNARY("Sign", "sign"),
    {"Erfc", "x | T:t", "T=FDHB", "core::sub(1, core::erf(x))"},
    {"Square", "x | T:t", "T=FDHBL", "core::mul(x, x)"},
    UNARY_OF("Relu", "features", "relu"), UNARY_OF("Softplus", "features", "softplus"),
    UNARY_OF("Softsign", "features", "softsign"), UNARY_OF("Selu", "features", "selu"),
    UNARY_OF("Elu", "features", "elu"),
    {"Relu6", "features | T:t", "T=FDHB", "core::clip(features, 0, 6)"},
    {"LeakyRelu", "features | alpha:f T:t", "T=FDHB", "core::leaky_relu(features, alpha=alpha)"},
    {"ReluGrad", "gradients features | T:t", "T=FDHB",
     "core::where(core::greater(features, 0), gradients, 0)"},
    {"Relu6Grad", "gradients features | T:t", "T=FDHB",
     "core::where(core::and(core::greater(features, 0), core::less(features, 6)), gradients, 0)"},
    {"LeakyReluGrad", "gradients features | alpha:f T:t", "T=FDHB",
     "core::where(core::greater(features, 0), gradients, core::mul(gradients, alpha))"},
    {"EluGrad", "gradients outputs | T:t", "T=FDHB",
     "core::where(core::less(outputs, 0), core::mul(core::add(outputs, 1), gradients), gradients)"},
    {"SoftplusGrad", "gradients features | T:t", "T=FDHB",
     "core::mul(gradients, core::sigmoid(features))"},
    {"SoftsignGrad", "gradients features | T:t", "T=FDHB",
     "s = core::add(core::abs(features), 1); core::div(gradients, core::mul(s, s))"},
    {"TanhGrad", "y dy | T:t", "T=FDHB", "core::mul(dy, core::sub(1, core::mul(y, y)))"},
    {"SigmoidGrad", "y dy | T:t", "T=FDHB", "core::mul(dy, core::mul(y, core::sub(1, y)))"},
    {"SqrtGrad", "y dy | T:t", "T=FDHB", "core::div(core::mul(dy, 0.5), y)"},
    {"RsqrtGrad", "y dy | T:t", "T=FDHB",
     "core::mul(core::mul(dy, -0.5), core::mul(y, core::mul(y, y)))"},
    {"ReciprocalGrad", "y dy | T:t", "T=FDHB", "core::neg(core::mul(dy, core::mul(y, y)))"},
    {"InvGrad", "y dy | T:t", "T=FDHB", "core::neg(core::mul(dy, core::mul(y, y)))"},

    BINARY("AddV2", "add"), BINARY("Add", "add"), BINARY("Sub", "sub"), BINARY("Mul", "mul"),
    BINARY("Maximum", "max"), BINARY("Minimum", "min"),
    {"RealDiv", "x y | T:t", "T=FDHB", "core::div(x, y)"},
    {"Div", "x y | T:t", "T=FDHB", "core::div(x, y)"},
    {"Pow", "x y | T:t", "T=FDHB", "core::pow(x, y)"},
    {"FloorDiv", "x y | T:t", "T=FDHB", "core::floor(core::div(x, y))"},
    {"SquaredDifference", "x y | T:t", "T=FDHBL", "d = core::sub(x, y); core::mul(d, d)"},
    {"DivNoNan", "x y | T:t", "T=FDHB",
     "zero = core::equal(y, 0); core::where(zero, 0, core::div(x, core::where(zero, 1, y)))"},
    {"MulNoNan", "x y | T:t", "T=FDHB", "core::where(core::equal(y, 0), 0, core::mul(x, y))"},
    {"Xlogy", "x y | T:t", "T=FDHB",
     "core::where(core::equal(x, 0), 0, core::mul(x, core::log(y)))"},
    {"Xdivy", "x y | T:t", "T=FDHB",
     "core::where(core::equal(x, 0), 0, core::div(x, y))"},
    EQUALITY("Equal", "equal"), EQUALITY("NotEqual", "not_equal"), COMPARISON("Less", "less"),
    COMPARISON("LessEqual", "less_equal"), COMPARISON("Greater", "greater"),
    COMPARISON("GreaterEqual", "greater_equal"),
    {"LogicalAnd", "x y", "", "core::and(x, y)"},
    {"LogicalOr", "x y", "", "core::or(x, y)"},
    {"LogicalNot", "x", "", "core::not(x)"},
    {"IsFinite", "x | T:t", "T=FDHB", "core::equal(core::sub(x, x), 0)"},
    {"IsNan", "x | T:t", "T=FDHB", "core::not_equal(x, x)"},
    {"SelectV2", "condition t e | T:t", "T=FDHBLIO", "core::where(condition, t, e)"},
    {"ClipByValue", "t clip_value_min clip_value_max | T:t", "T=FDHB",
     "core::min(core::max(t, clip_value_min), clip_value_max)"},
    {"AddN", "inputs* | T:t", "T=FDHBL", "sum(inputs)"},
    {"Cast", "x | SrcT:t DstT:t", "SrcT=FDHBLIO DstT=FDHBLIO", "core::cast(x, to=DstT)"},

    REDUCTION("Sum", "reduce_sum"), REDUCTION("Mean", "reduce_mean"),
    REDUCTION("Max", "reduce_max"), REDUCTION("Min", "reduce_min"),
    REDUCTION("Prod", "reduce_prod"),
    {"All", "input @reduction_indices | keep_dims:b", "",
     "core::cast(core::reduce_min(core::cast(input, to='f32'), reduction_indices, "
     "keepdims=keep_dims, noop_with_empty_axes=true), to='bool')"},
    {"Any", "input @reduction_indices | keep_dims:b", "",
     "core::cast(core::reduce_max(core::cast(input, to='f32'), reduction_indices, "
     "keepdims=keep_dims, noop_with_empty_axes=true), to='bool')"},
    {"L2Loss", "t | T:t", "T=FDHB",
     "core::mul(core::reduce_sum(core::mul(t, t), keepdims=false), 0.5)"},

    {"MatMul", "a b | transpose_a:b transpose_b:b T:t", "T=FDHB",
     "core::matmul(swap(a, transpose_a), swap(b, transpose_b))"},
    {"BatchMatMul", "x y | adj_x:b adj_y:b T:t", "T=FDHB",
     "core::matmul(swap(x, adj_x), swap(y, adj_y))"},
    {"BatchMatMulV2", "x y | adj_x:b adj_y:b T:t", "T=FDHB",
     "core::matmul(swap(x, adj_x), swap(y, adj_y))"},
    {"BiasAdd", "value bias | data_format:s T:t", "T=FDHB",
     "core::add(value, channel(bias, value, data_format))"},
    {"BiasAddGrad", "out_backprop | data_format:s T:t", "T=FDHB",
     "core::reduce_sum(out_backprop, other_axes(out_backprop, data_format), keepdims=false)"},
    {"Softmax", "logits | T:t", "T=FDHB", "core::softmax(logits)"},
    {"LogSoftmax", "logits | T:t", "T=FDHB", "core::log_softmax(logits)"},
    {"SoftmaxCrossEntropyWithLogits", "features labels | T:t", "T=FDHB",
     "f = spread(features, labels); l = spread(labels, features);"
     "core::neg(core::reduce_sum(core::mul(l, core::log_softmax(f)), [1], keepdims=false)), "
     "core::sub(core::softmax(f), l)"},
    {"SparseSoftmaxCrossEntropyWithLogits", "features labels | T:t Tlabels:t", "T=FDHB",
     "hit = core::where(core::equal(column(labels, features), counting(features, labels)), 1, 0);"
     "valid = core::greater(core::reduce_sum(hit, [1]), 0);"
     "loss = core::neg(core::reduce_sum(core::where(core::greater(hit, 0), "
     "core::log_softmax(features), 0), [1]));"
     "core::reshape(core::where(valid, loss, nan()), dims(labels)), "
     "core::where(valid, core::sub(core::softmax(features), hit), nan())"},

    {"Conv2D", "input filter | " CONV, "T=FDHB",
     "x = nchw(input, data_format);"
     "from_nchw(convolve(x, core::transpose(filter, perm=[3, 2, 0, 1]), "
     "spatial(strides, data_format), spatial(dilations, data_format), padding, "
     "explicit_paddings, data_format), data_format)"},
    {"Conv2DBackpropInput", "@input_sizes filter out_backprop | " CONV, "T=FDHB",
     "from_nchw(convolve_back(input_sizes, core::transpose(filter, perm=[3, 2, 0, 1]), "
     "nchw(out_backprop, data_format), spatial(strides, data_format), "
     "spatial(dilations, data_format), padding, explicit_paddings, data_format), data_format)"},
    {"Conv2DBackpropFilter", "input @filter_sizes out_backprop | " CONV, "T=FDHB",
     "core::transpose(convolve_filter(nchw(input, data_format), filter_sizes, "
     "nchw(out_backprop, data_format), spatial(strides, data_format), "
     "spatial(dilations, data_format), padding, explicit_paddings, data_format), "
     "perm=[2, 3, 1, 0])"},
    {"DepthwiseConv2dNative", "input filter | " CONV, "T=FDHB",
     "from_nchw(convolve(nchw(input, data_format), depthwise(filter), "
     "spatial(strides, data_format), spatial(dilations, data_format), padding, "
     "explicit_paddings, data_format), data_format)"},
    {"DepthwiseConv2dNativeBackpropInput", "@input_sizes filter out_backprop | " CONV, "T=FDHB",
     "from_nchw(convolve_back(input_sizes, depthwise(filter), "
     "nchw(out_backprop, data_format), spatial(strides, data_format), "
     "spatial(dilations, data_format), padding, explicit_paddings, data_format), data_format)"},
    {"DepthwiseConv2dNativeBackpropFilter", "input @filter_sizes out_backprop | " CONV, "T=FDHB",
     "core::reshape(core::transpose(convolve_filter_each(nchw(input, data_format), filter_sizes, "
     "nchw(out_backprop, data_format), spatial(strides, data_format), "
     "spatial(dilations, data_format), padding, explicit_paddings, data_format), "
     "perm=[2, 3, 1, 0]), filter_sizes)"},
    {"MaxPool", "input | " POOL " explicit_paddings:l", "T=FDHB",
     "from_nchw(core::max_pool(nchw(input, data_format), kernel=spatial(ksize, data_format), "
     "strides=spatial(strides, data_format), auto_pad=pad_mode(padding), "
     "pads=pool_pads(padding, explicit_paddings, data_format)), data_format)"},
    {"MaxPoolGrad", "orig_input orig_output grad | " POOL " explicit_paddings:l", "T=FDHB",
     "x = nchw(orig_input, data_format);"
     "at = core::max_pool(x, kernel=spatial(ksize, data_format), "
     "strides=spatial(strides, data_format), auto_pad=pad_mode(padding), "
     "pads=pool_pads(padding, explicit_paddings, data_format))[1];"
     "from_nchw(core::reshape(core::scatter_elements(zeros([-1], x), core::reshape(at, [-1]), "
     "core::reshape(nchw(grad, data_format), [-1]), reduction='add'), dims(x)), data_format)"},
    {"AvgPool", "value | " POOL, "T=FDHB",
     "from_nchw(core::average_pool(nchw(value, data_format), kernel=spatial(ksize, data_format), "
     "strides=spatial(strides, data_format), auto_pad=pad_mode(padding)), data_format)"},

    {"AvgPoolGrad", "@orig_input_shape grad | " POOL, "T=FDHB",
     "from_nchw(average_back(orig_input_shape, nchw(grad, data_format), "
     "spatial(ksize, data_format), spatial(strides, data_format), padding, data_format, "
     "core::reshape(1, [1, 1, 1, 1])), data_format)"},
    {"FusedBatchNormV3",
     "x scale offset mean variance | epsilon:f exponential_avg_factor:f data_format:s "
     "is_training:b T:t U:t",
     "T=F U=F",
     "axes = other_axes(x, data_format);"
     "m = choose(is_training, core::reduce_mean(x, axes, keepdims=false), mean);"
     "d = core::sub(x, channel(m, x, data_format));"
     "v = choose(is_training, core::reduce_mean(core::mul(d, d), axes, keepdims=false), variance);"
     "a = core::mul(core::rsqrt(core::add(v, epsilon)), scale);"
     "f = exponential_avg_factor; rest = core::sub(1, f);"
     "u = core::mul(v, unbiased(x, data_format));"
     "core::add(core::mul(d, channel(a, x, data_format)), channel(offset, x, data_format)), "
     "choose(is_training, choose(is_one(f), m, "
     "core::add(core::mul(m, f), core::mul(mean, rest))), mean), "
     "choose(is_training, choose(is_one(f), u, "
     "core::add(core::mul(u, f), core::mul(variance, rest))), variance), m, v, 0"},
    {"FusedBatchNormGradV3",
     "y_backprop x scale reserve_space_1 reserve_space_2 reserve_space_3 | epsilon:f "
     "data_format:s is_training:b T:t U:t",
     "T=F U=F",
     "axes = other_axes(x, data_format); dy = y_backprop; one = inverse_count(x, data_format);"
     "r = core::rsqrt(core::add(reserve_space_2, epsilon));"
     "d = core::sub(x, channel(reserve_space_1, x, data_format));"
     "sum_dy = core::reduce_sum(dy, axes, keepdims=false);"
     "dg = core::mul(core::reduce_sum(core::mul(dy, d), axes, keepdims=false), r);"
     "slope = channel(core::mul(scale, r), x, data_format);"
     "hat = core::mul(d, channel(core::mul(core::mul(dg, r), one), x, data_format));"
     "inner = core::sub(core::sub(dy, channel(core::mul(sum_dy, one), x, data_format)), hat);"
     "core::mul(slope, choose(is_training, inner, dy)), dg, sum_dy, 0, 0"},
    {"Einsum", "inputs* | equation:s T:t", "T=FDHB", "einsum(inputs, equation)"},
    {"ArgMax", "input @dimension | T:t output_type:t", "T=FDHB output_type=LI",
     "core::cast(first_hit(core::equal(input, core::reduce_max(input, dimension, keepdims=true)), "
     "dimension), to=output_type)"},
    {"ArgMin", "input @dimension | T:t output_type:t", "T=FDHB output_type=LI",
     "core::cast(first_hit(core::equal(input, core::reduce_min(input, dimension, keepdims=true)), "
     "dimension), to=output_type)"},
    {"Cumsum", "x @axis | exclusive:b reverse:b T:t", "T=FDHBL",
     "running_sum(x, axis, exclusive, reverse)"},

    {"Transpose", "x @perm | T:t", "T=FDHBLIO", "core::transpose(x, perm=perm)"},
    {"ConcatV2", "values* @axis | T:t", "T=FDHBLO", "core::concat(values, axis=axis)"},
    {"Slice", "input @begin @size | T:t Index:t", "T=FDHBLO",
     "core::slice(input, begin, ends(input, begin, size))"},
    {"StridedSlice", "input @begin @end @strides | " SLICING, "T=FDHBLO",
     "strided(input, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, "
     "shrink_axis_mask)"},
    {"StridedSliceGrad", "@shape @begin @end @strides dy | " SLICING, "T=FDHBLO",
     "strided_back(shape, dy, begin, end, strides, begin_mask, end_mask, ellipsis_mask, "
     "new_axis_mask, shrink_axis_mask)"},
    {"Pad", "input @paddings | T:t", "T=FDHBLO", "core::pad(input, pad_list(paddings))"},
    {"PadV2", "input @paddings constant_values | T:t", "T=FDHBLO",
     "core::pad(input, pad_list(paddings), constant_values)"},
    {"Tile", "input @multiples | T:t", "T=FDHBLO", "core::tile(input, multiples)"},
    {"Pack", "values* | axis:i T:t", "T=FDHBLO", "stack(values, axis)"},
    {"Unpack", "value | num:i axis:i T:t", "T=FDHBLO", "unstack(value, axis)"},
    {"Split", "@split_dim value | num_split:i T:t", "T=FDHBLO",
     "split(value, split_dim, num_split)"},
    {"SplitV", "value @size_splits @split_dim | T:t Tlen:t", "T=FDHBLO",
     "split(value, split_dim, size_splits)"},
    {"Fill", "@dims value | T:t", "T=FDHBLO", "core::contiguous(core::expand(value, dims))"},
    {"BroadcastTo", "input @shape | T:t", "T=FDHBLO",
     "core::contiguous(core::expand(input, shape))"},
    {"ZerosLike", "x | T:t", "T=FDHBLIO", "zeros(dims(x), x)"},
    {"OnesLike", "x | T:t", "T=FDHBLIO", "core::contiguous(core::expand(1, dims(x)))"},
    {"GatherV2", "params indices @axis | batch_dims:i Tparams:t Tindices:t",
     "Tparams=FDHBLIO Tindices=IL",
     "gather(params, indices, axis, batch_dims)"},
    {"UnsortedSegmentSum", "data segment_ids @num_segments | T:t Tindices:t",
     "T=FDHB Tindices=IL", "segment_sum(data, segment_ids, num_segments)"},
    {"OneHot", "indices @depth on_value off_value | axis:i T:t TI:t", "T=FDHBL TI=IL",
     "one_hot(indices, depth, on_value, off_value, axis)"},

    {"AssignAddVariableOp", "^resource value | dtype:t", "dtype=FDHBLI",
     "core::add(resource, value)"},
    {"AssignSubVariableOp", "^resource value | dtype:t", "dtype=FDHBLI",
     "core::sub(resource, value)"},
    {"ResourceGather", "^resource indices | batch_dims:i dtype:t Tindices:t",
     "dtype=FDHBLIO Tindices=IL", "gather(resource, indices, 0, batch_dims)"},
    {"ResourceScatterAdd", "^resource indices updates | dtype:t Tindices:t",
     "dtype=FDHB Tindices=IL",
     "core::add(resource, segment_sum(updates, indices, rows(resource)))"},
    {"ResourceScatterSub", "^resource indices updates | dtype:t Tindices:t",
     "dtype=FDHB Tindices=IL",
     "core::sub(resource, segment_sum(updates, indices, rows(resource)))"},
    {"ResourceApplyGradientDescent", "^var alpha delta | T:t", "T=FDHB",
     "core::sub(var, core::mul(alpha, delta))"},
    {"ResourceApplyMomentum", "^var ^accum lr grad momentum | use_nesterov:b T:t", "T=FDHB",
     "a = core::add(core::mul(accum, momentum), grad);"
     "core::sub(var, core::mul(lr, choose(use_nesterov, core::add(grad, core::mul(a, momentum)), "
     "a))), a"},
    {"ResourceApplyAdam",
     "^var ^m ^v beta1_power beta2_power lr beta1 beta2 epsilon grad | use_nesterov:b T:t",
     "T=FDHB",
     "alpha = core::div(core::mul(lr, core::sqrt(core::sub(1, beta2_power))), "
     "core::sub(1, beta1_power));"
     "a = core::add(m, core::mul(core::sub(grad, m), core::sub(1, beta1)));"
     "b = core::add(v, core::mul(core::sub(core::mul(grad, grad), v), core::sub(1, beta2)));"
     "step = choose(use_nesterov, core::add(core::mul(grad, core::sub(1, beta1)), "
     "core::mul(a, beta1)), a);"
     "core::sub(var, core::div(core::mul(step, alpha), core::add(core::sqrt(b), epsilon))), a, b"},
};
/* clang-format on */

__attribute__((visibility("default"))) const row_t *tenon_tensorflow_rows(int32_t *out_count);

/* The table, for scripts/tensorflow_operators.py. */
const row_t *tenon_tensorflow_rows(int32_t *out_count) { return plan_rows(out_count); }

const row_t *plan_rows(int32_t *out_count) {
  *out_count = sizeof rows / sizeof *rows;
  return rows;
}
