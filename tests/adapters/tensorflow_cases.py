"""The cases of tensorflow_builtins_test.py: a built-in operator beside a function that computes the same by TensorFlow's own operators, with the tensor
arguments that both take, and the attributes of the operator. The function returns what the operator returns, with None for results that are not compared."""
from typing import Any, Callable, NamedTuple

import numpy as np
import tensorflow as tf


class Case(NamedTuple):
    """args: arrays, lists of arrays, None.  attrs: of the operator alone; the reference knows them.  units: the tolerance, in units of the dtype's
    rounding and of the largest element."""
    name: str
    reference: Callable
    args: list
    attrs: dict
    units: float


CASES: "list[Case]" = []
rng = np.random.default_rng(7)


def away(shape, low=-2.0, high=2.0, kinks=(0.0,), gap=0.02):
    """Uniform numbers that stay away from the kinks."""
    x = np.asarray(rng.uniform(low, high, shape))
    for k in kinks:
        x = np.where(np.abs(x - k) < gap, x + 2 * gap, x)
    return x


def case(name, reference, *args, units=256.0, **attrs):
    CASES.append(Case(name, reference, list(args), attrs, units))


def pulled(function, count=1):
    """The function of a cotangent and the inputs that computes the gradients of the first `count` inputs, by TensorFlow."""
    def backward(dy, *args):
        with tf.GradientTape() as tape:
            tape.watch(args[:count])
            y = function(*args)
        made = tape.gradient(y, args[:count], output_gradients=dy)
        return made[0] if count == 1 else tuple(made)
    return backward


def with_backward(name, function, *args, count=1, **attrs):
    """Adds a case, and one for NAME_backward, which takes the cotangent first."""
    case(name, function, *args, **attrs)
    shape = function(*(tf.constant(a) for a in args)).shape
    case(name + "_backward", pulled(function, count), away(shape), *args, **attrs)


def one(name, function, low=-2.5, high=2.5, kinks=(0.0,), add=case, **attrs):
    for shape in (2, 3), ():
        add(name, function, away(shape, low, high, kinks), **attrs)


def two(name, function, low=-2.5, high=2.5, **attrs):
    for a, b in ((2, 3), (2, 3)), ((4, 1, 3), (2, 1)):
        case(name, function, away(a, low, high), away(b, low, high), **attrs)


def gelu(x):
    """tf.nn.gelu rounds its constants to f32."""
    return 0.5 * x * (1 + tf.math.erf(x / np.sqrt(2.0)))


X34, X234, IMAGE = away((3, 4)), away((2, 3, 4)), away((2, 3, 6, 6))

# ---- pointwise, one input ----
for _name, _function in {"abs": tf.abs, "ceil": tf.math.ceil, "cos": tf.cos, "cosh": tf.cosh, "exp": tf.exp, "floor": tf.floor, "neg": tf.negative, "reciprocal": tf.math.reciprocal,
                         "round": tf.round, "sigmoid": tf.sigmoid, "sign": tf.sign, "sin": tf.sin, "sinh": tf.sinh, "softplus": tf.math.softplus, "tanh": tf.tanh, "identity": tf.identity,
                         "contiguous": tf.identity, "asinh": tf.asinh, "is_nan": tf.math.is_nan, "is_inf": tf.math.is_inf}.items():
    one(_name, _function)
one("acosh", tf.acosh, 1.2, 3.0)
one("log", tf.math.log, 0.2, 3.0)
one("sqrt", tf.sqrt, 0.2, 3.0)
one("rsqrt", tf.math.rsqrt, 0.2, 3.0)
one("tan", tf.tan, -1.2, 1.2)
one("acos", tf.acos, -0.9, 0.9)
one("asin", tf.asin, -0.9, 0.9, add=with_backward)
one("atanh", tf.atanh, -0.9, 0.9, add=with_backward)
one("atan", tf.atan, add=with_backward)
one("erf", tf.math.erf, add=with_backward)
one("relu", tf.nn.relu, add=with_backward)
one("silu", lambda x: x * tf.sigmoid(1.5 * x), add=with_backward, alpha=1.5)
one("softsign", lambda x: x / (1 + tf.abs(x)), add=with_backward)
one("elu", lambda x: tf.where(x > 0, x, 1.5 * (tf.exp(x) - 1)), add=with_backward, alpha=1.5)
one("celu", lambda x: tf.where(x > 0, x, 1.5 * (tf.exp(x / 1.5) - 1)), add=with_backward, alpha=1.5)
one("selu", lambda x: 1.05 * tf.where(x > 0, x, 1.6 * (tf.exp(x) - 1)), add=with_backward, alpha=1.6, gamma=1.05)
one("gelu", gelu, add=with_backward)
one("gelu", lambda x: 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))), approximate="tanh")
one("mish", lambda x: x * tf.tanh(tf.math.softplus(x)), add=with_backward)
one("leaky_relu", lambda x: tf.where(x > 0, x, 0.1 * x), alpha=0.1)
one("hard_sigmoid", lambda x: tf.clip_by_value(0.3 * x + 0.4, 0, 1), kinks=(-4 / 3, 2.0), add=with_backward, alpha=0.3, beta=0.4)
one("hard_swish", lambda x: x * tf.nn.relu6(x + 3) / 6, -4, 4, kinks=(-3.0, 3.0), add=with_backward)
one("thresholded_relu", lambda x: tf.where(x > 1.2, x, tf.zeros_like(x)), kinks=(1.2,), add=with_backward, alpha=1.2)
one("shrink", lambda x: tf.where(x < -0.7, x + 0.2, tf.where(x > 0.7, x - 0.2, tf.zeros_like(x))), kinks=(-0.7, 0.7), lambd=0.7, bias=0.2)
case("clip", lambda x, a, b: tf.minimum(tf.maximum(x, a), b), away((3, 4), kinks=(-1.0, 1.5)), np.float32(-1.0).astype(np.float64), np.float64(1.5))
case("gelu_second", lambda dy, x: pulled(lambda x: pulled(gelu)(tf.ones_like(x), x))(dy, x), X34, away((3, 4)))
case("shrink_backward", pulled(lambda x: tf.where(x < -0.7, x, tf.where(x > 0.7, x, tf.zeros_like(x)))), X34, away((3, 4), kinks=(-0.7, 0.7)), lambd=0.7)

# ---- pointwise, several inputs ----
for _name, _function in {"add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "div": tf.divide, "max": tf.maximum, "min": tf.minimum, "equal": tf.equal, "not_equal": tf.not_equal,
                         "greater": tf.greater, "greater_equal": tf.greater_equal, "less": tf.less, "less_equal": tf.less_equal}.items():
    two(_name, _function)
two("pow", tf.pow, 0.3, 2.0)
case("mod", tf.math.floormod, X34, away((4,)))
case("prelu", lambda x, s: tf.where(x > 0, x, s * x), X34, away((4,)))
case("where", tf.where, X34 > 0, X34, away((4,)))
case("where_backward", lambda dy, c: (tf.where(c, dy, tf.zeros_like(dy)), tf.where(c, tf.zeros_like(dy), dy)), X34, X34 > 0)
case("max_backward", pulled(tf.maximum, 2), X34, away((3, 4)), away((3, 4)))
case("min_backward", pulled(tf.minimum, 2), X34, away((3, 4)), away((3, 4)))
case("pow_backward", pulled(tf.pow, 2), X34, away((3, 4), 0.3, 2.0), away((3, 4)))
case("prelu_backward", pulled(lambda x, s: tf.where(x > 0, x, s * x), 2), X34, away((3, 4)), away((3, 4)))
BITS, OTHERS = np.array([[1, 0, 1], [0, 0, 1]], bool), np.array([1, 1, 0], bool)
for _name, _function in {"and": tf.logical_and, "or": tf.logical_or, "xor": tf.math.logical_xor}.items():
    case(_name, _function, BITS, OTHERS)
case("not", tf.logical_not, BITS)
WHOLE, SHIFTS = np.array([[1, -7, 30], [0, 5, 12]], np.int32), np.array([1, 0, 3], np.int32)
for _name, _function in {"bitwise_and": tf.bitwise.bitwise_and, "bitwise_or": tf.bitwise.bitwise_or, "bitwise_xor": tf.bitwise.bitwise_xor, "shift_left": tf.bitwise.left_shift, "shift_right": tf.bitwise.right_shift}.items():
    case(_name, _function, WHOLE, SHIFTS)
case("bitwise_not", tf.bitwise.invert, WHOLE)

# ---- reductions ----
AXES = np.array([0, 2])
for _name, _function in {"sum": tf.reduce_sum, "mean": tf.reduce_mean, "max": tf.reduce_max, "min": tf.reduce_min, "prod": tf.reduce_prod, "log_sum_exp": tf.reduce_logsumexp,
                         "l1": lambda x, *a: tf.reduce_sum(tf.abs(x), *a), "l2": lambda x, *a: tf.sqrt(tf.reduce_sum(x * x, *a)), "sum_square": lambda x, *a: tf.reduce_sum(x * x, *a)}.items():
    case("reduce_" + _name, lambda x, axes, f=_function: f(x, tf.cast(axes, tf.int32), True), X234, AXES)  # TensorFlow 2.16 has no gradient for 64 bits
    case("reduce_" + _name, lambda x, f=_function: f(x), X234, keepdims=False)
case("reduce_log_sum", lambda x, axes: tf.math.log(tf.reduce_sum(x, axes, True)), away((2, 3, 4), 0.3, 2.0), AXES)
case("arg_max", lambda x: tf.argmax(x, 1), X234, axis=1, keepdims=False)
case("arg_min", lambda x: tf.argmin(x, 2), X234, axis=2, keepdims=False)
case("cum_sum", lambda x, axis: tf.cumsum(x, 1, exclusive=True, reverse=True), X234, np.int64(1), exclusive=True, reverse=True)
case("cum_prod", lambda x, axis: tf.math.cumprod(x, 2), X234, np.int64(2))
case("softmax", lambda x: tf.nn.softmax(x, 1), X234, axis=1)
case("log_softmax", lambda x: tf.nn.log_softmax(x, 1), X234, axis=1)
case("softmax_backward", lambda dy, y: y * (dy - tf.reduce_sum(dy * y, -1, True)), X34, np.asarray(tf.nn.softmax(X34)))
case("log_softmax_backward", lambda dy, y: dy - tf.exp(y) * tf.reduce_sum(dy, -1, True), X34, np.asarray(tf.nn.log_softmax(X34)))
case("hardmax", lambda x: tf.one_hot(tf.argmax(x, -1), 4, dtype=x.dtype), X34)
case("lp_norm", lambda x: tf.linalg.l2_normalize(x, 1), X234, axis=1)
case("top_k", lambda x, k: tuple(tf.math.top_k(x, 2))[:1] + (tf.cast(tf.math.top_k(x, 2).indices, tf.int64),), X34, np.int64(2))
case("sum_to", lambda x, shape: tf.reduce_sum(x, [0, 2], True)[0], X234, np.array([3, 1]))

# ---- shapes and indices ----
case("reshape", lambda x, shape: tf.reshape(x, [4, -1]), X234, np.array([4, -1]))
case("view", lambda x: tf.reshape(x, [4, 6]), X234, shape=[4, 6])
case("transpose", lambda x: tf.transpose(x, [2, 0, 1]), X234, perm=[2, 0, 1])
case("untranspose", lambda x: tf.transpose(x, [1, 2, 0]), X234, perm=[2, 0, 1])
case("squeeze", lambda x, axes: tf.squeeze(x, [1]), X34[:, None], np.array([1]))
case("unsqueeze", lambda x, axes: tf.expand_dims(x, 1), X34, np.array([1]))
case("flatten", lambda x: tf.reshape(x, [2, 12]), X234)
case("expand", lambda x, shape: tf.broadcast_to(x, [2, 3, 4]), X34, np.array([2, 3, 4]))
case("concat", lambda xs: tf.concat(xs, 1), [X34, away((3, 2))], axis=1)
case("split", lambda x, sizes: tf.split(x, [1, 3], 1), X34, np.array([1, 3]), axis=1, count=2)
case("slice", lambda x, *_: x[:, 1:3, ::2], X234, np.array([1, 0]), np.array([3, 4]), np.array([1, 2]), np.array([1, 2]))
case("slice_backward", lambda dy, *_: tf.pad(dy, [(0, 0), (1, 0)]), away((3, 3)), np.array([3, 4]), np.array([1]), np.array([4]), np.array([1]))
case("pad", lambda x, pads: tf.pad(x, [(1, 0), (2, 1)]), X34, np.array([1, 2, 0, 1]))
case("pad", lambda x, pads: tf.pad(x, [(1, 0), (2, 1)], "REFLECT"), X34, np.array([1, 2, 0, 1]), mode="reflect")
case("tile", lambda x, times: tf.tile(x, [2, 3]), X34, np.array([2, 3]))
case("gather", lambda x, i: tf.gather(x, i, axis=1), X34, np.array([[3, 0], [1, 1]]), axis=1)
case("gather_backward", lambda dy, i, shape: tf.scatter_nd(i[:, None], dy, [3, 4]), away((4, 4)), np.array([0, 2, 2, 1]), np.array([3, 4]))
case("gather_elements", lambda x, i: tf.gather(x, i, axis=1, batch_dims=1), X34, np.array([[3, 0], [1, 1], [2, 0]]), axis=1)
case("gather_nd", tf.gather_nd, X34, np.array([[0, 1], [2, 3]]))
case("gather_nd_backward", lambda dy, i, shape: tf.scatter_nd(i, dy, [3, 4]), away((2,)), np.array([[0, 1], [2, 3]]), np.array([3, 4]))
case("scatter_nd", tf.tensor_scatter_nd_update, X34, np.array([[0, 1], [2, 3]]), away((2,)))
case("scatter_nd", tf.tensor_scatter_nd_add, X34, np.array([[0, 1], [0, 1]]), away((2,)), reduction="add")
case("scatter_elements", lambda x, i, u: tf.tensor_scatter_nd_update(x, [[0, 0], [2, 1]], u[0, :2]), X34, np.array([[0, 2]]), away((1, 2)))
case("one_hot", lambda i, depth, values: tf.one_hot(i, 5, values[1], values[0]), np.array([[0, 4], [2, 1]]), np.int64(5), np.array([0.5, 2.5]))
case("eye_like", lambda x: tf.eye(3, 4, dtype=x.dtype), X34)
case("range", lambda a, b, d: tf.range(1.0, 7.0, 1.5, tf.float64), np.float64(1), np.float64(7), np.float64(1.5))
case("shape", lambda x: tf.shape(x, tf.int64), X234)
case("size", lambda x: tf.size(x, tf.int64), X234)
case("trilu", lambda x: tf.linalg.band_part(x, 0, -1), X34)
case("trilu", lambda x: tf.linalg.band_part(x, -1, 0), X34, upper=False)
case("depth_to_space", lambda x: tf.transpose(tf.nn.depth_to_space(tf.transpose(x, [0, 2, 3, 1]), 2), [0, 3, 1, 2]), away((1, 8, 2, 3)), block=2)
case("space_to_depth", lambda x: tf.transpose(tf.nn.space_to_depth(tf.transpose(x, [0, 2, 3, 1]), 2), [0, 3, 1, 2]), IMAGE, block=2)
case("reverse_sequence", lambda x, n: tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0), X34, np.array([2, 4, 1]), batch_axis=0, time_axis=1)
case("compress", lambda x, c: tf.boolean_mask(x, c, axis=0), X34, np.array([True, False, True]), axis=0)
case("nonzero", lambda x: tf.transpose(tf.where(x)), BITS)
case("unique", lambda x: (tf.sort(tf.unique(x).y), None, None, None), np.array([3, 1, 3, 2, 1]))
case("constant_of_shape", lambda shape: tf.zeros([2, 3], tf.float32), np.array([2, 3]))
case("cast", lambda x: tf.cast(x, tf.int32), 10 * X34, to="i32")
case("cast_like", lambda x, y: tf.cast(x, tf.float32), X34, np.float32([1]))
case("bit_cast", lambda x: tf.bitcast(x, tf.int64), X34, to="i64")
case("string_concat", lambda a, b: tf.strings.join([a, b]), np.array([b"ab", b"c"]), np.array([b"de", b""]))
case("string_normalizer", tf.strings.upper, np.array([b"ab", b"c"]), case="UPPER")
case("as_strided", lambda x: tf.stack([tf.reshape(x, [-1])[k:k + 3] for k in range(4)]), X34, shape=[4, 3], strides=[1, 1])

# ---- matrices, convolutions, normalisations ----
case("matmul", tf.matmul, X234, away((2, 4, 5)))
case("matmul", tf.matmul, X234, away((4, 5)))
case("gemm", lambda a, b, c: 0.5 * tf.matmul(a, b, transpose_a=True) + 2 * c, X34, away((3, 5)), away((5,)), alpha=0.5, beta=2.0, trans_a=True)
case("einsum", lambda xs: tf.einsum("bij,jk->bik", *xs), [X234, away((4, 5))], equation="bij,jk->bik")
case("det", tf.linalg.det, away((2, 3, 3)), units=4096.0)
case("matmul_integer", lambda a, b: tf.matmul(tf.cast(a, tf.int32), tf.cast(b, tf.int32)), rng.integers(0, 255, (3, 4)).astype(np.uint8), rng.integers(-128, 127, (4, 2)).astype(np.int8))


def channels_last(x):
    return tf.transpose(x, [0, 2, 3, 1])


def channels_first(x):
    return tf.transpose(x, [0, 3, 1, 2])


def convolved(x, w, b, strides=1, padding="VALID"):
    return channels_first(tf.nn.conv2d(channels_last(x), tf.transpose(w, [2, 3, 1, 0]), strides, padding) + b)


case("conv", convolved, IMAGE, away((4, 3, 3, 3)), away((4,)), units=1024.0)
case("conv", lambda x, w, b: convolved(x, w, b, 2, "SAME"), IMAGE, away((4, 3, 3, 3)), away((4,)), strides=[2, 2], auto_pad="same_upper", units=1024.0)
case("conv_transpose", lambda x, w: channels_first(tf.nn.conv2d_transpose(channels_last(x), tf.transpose(w, [2, 3, 1, 0]), [2, 13, 13, 2], 2, "VALID")), IMAGE, away((3, 2, 3, 3)), strides=[2, 2], units=1024.0)
case("max_pool", lambda x: (channels_first(tf.nn.max_pool2d(channels_last(x), 2, 2, "VALID")), None), IMAGE, kernel=[2, 2], strides=[2, 2])
case("average_pool", lambda x: channels_first(tf.nn.avg_pool2d(channels_last(x), 3, 2, "VALID")), IMAGE, kernel=[3, 3], strides=[2, 2])
case("lp_pool", lambda x: channels_first(tf.sqrt(9 * tf.nn.avg_pool2d(channels_last(x * x), 3, 1, "VALID"))), IMAGE, kernel=[3, 3])
case("global_average_pool", lambda x: tf.reduce_mean(x, [2, 3], True), IMAGE)
case("global_max_pool", lambda x: tf.reduce_max(x, [2, 3], True), IMAGE)
case("global_lp_pool", lambda x: tf.sqrt(tf.reduce_sum(x * x, [2, 3], True)), IMAGE)
case("batch_norm", lambda x, s, b, m, v: tf.nn.batch_normalization(x, m[:, None, None], v[:, None, None], b[:, None, None], s[:, None, None], 1e-3), IMAGE, away((3,)), away((3,)), away((3,)), away((3,), 0.5, 2.0), epsilon=1e-3)


def normalised(x, axes, epsilon=1e-5):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return (x - mean) / tf.sqrt(variance + epsilon)


def layer_norm(x, scale, bias):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return normalised(x, [-1]) * scale + bias, mean, 1 / tf.sqrt(variance + 1e-5)


case("layer_norm", layer_norm, X234, away((4,)), away((4,)))
case("group_norm", lambda x: tf.reshape(normalised(tf.reshape(x, [2, 2, 2, 36]), [2, 3]), [2, 4, 6, 6]), away((2, 4, 6, 6)), groups=2, units=1024.0)
case("instance_norm", lambda x, s, b: normalised(x, [2, 3]) * s[:, None, None] + b[:, None, None], IMAGE, away((3,)), away((3,)), units=1024.0)
case("mean_variance_norm", lambda x: normalised(x, [0, 2, 3], 0.0), IMAGE, units=2.0**40)
case("rms_norm", lambda x, s: x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, True) + 1e-5) * s, X234, away((4,)))
case("resize", lambda x, roi, scales, sizes: channels_first(tf.cast(tf.image.resize(channels_last(x), [9, 12], "nearest"), x.dtype)), IMAGE, None, None, np.array([2, 3, 9, 12]), nearest="round_prefer_ceil")
case("dequantize_linear", lambda x, s, z: (tf.cast(x, tf.float32) - tf.cast(z, tf.float32)) * s, rng.integers(0, 255, (3, 4)).astype(np.uint8), np.float32(0.5), np.uint8(7))
case("quantize_linear", lambda x, s, z: tf.cast(tf.clip_by_value(tf.round(x / s) + 7, 0, 255), tf.uint8), away((3, 4)).astype(np.float32), np.float32(0.5), np.uint8(7))
case("squared_distance", lambda a, b: tf.reduce_sum((a[:, None] - b) ** 2, -1), X34.astype(np.float32), away((5, 4)).astype(np.float32), units=1024.0)
