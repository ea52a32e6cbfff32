"""Functions of TensorFlow with inputs, which together have every operation that tenon.tensorflow.convert converts (tensorflow_convert_test.py)."""
import numpy as np
import tensorflow as tf

raw = tf.raw_ops
rng = np.random.default_rng(11)


def f32(*shape):
    return rng.standard_normal(shape, np.float32)


def positive(*shape):
    return np.abs(f32(*shape)) + np.float32(0.1)


def i32(low, high, *shape):
    return rng.integers(low, high, shape).astype(np.int32)


def bools(*shape):
    return rng.integers(0, 2, shape).astype(bool)


UNARY = [raw.Abs, raw.Neg, raw.Sign, raw.Exp, raw.Reciprocal, raw.Inv, raw.Floor, raw.Ceil, raw.Rint, raw.Round, raw.Sin, raw.Cos, raw.Tan, raw.Atan, raw.Sinh, raw.Cosh, raw.Tanh, raw.Asinh,
         raw.Erf, raw.Erfc, raw.Sigmoid, raw.Square, raw.IsNan, raw.IsInf, raw.IsFinite, raw.ZerosLike, raw.OnesLike, raw.Expm1]
OF_POSITIVE = [raw.Log, raw.Sqrt, raw.Rsqrt, raw.Log1p]
OF_FEATURES = [raw.Softplus, raw.Softsign, raw.Relu, raw.Relu6, raw.Elu, raw.Selu, raw.LeakyRelu]
BINARY = [raw.Add, raw.AddV2, raw.Sub, raw.Mul, raw.RealDiv, raw.Div, raw.Maximum, raw.Minimum, raw.SquaredDifference, raw.FloorDiv, raw.FloorMod, raw.TruncateMod, raw.Mod, raw.DivNoNan, raw.Equal,
          raw.NotEqual, raw.Less, raw.LessEqual, raw.Greater, raw.GreaterEqual]
OF_INTEGERS = [raw.FloorDiv, raw.FloorMod, raw.TruncateDiv, raw.TruncateMod, raw.BitwiseAnd, raw.BitwiseOr, raw.BitwiseXor, raw.Mul, raw.Sub]
REDUCTIONS = [raw.Sum, raw.Mean, raw.Max, raw.Min, raw.Prod, raw.EuclideanNorm]


def _pairs():
    x = f32(2, 3)
    for op in UNARY:
        yield op.__name__, lambda x, op=op: op(x=x), [x]
    for op in (raw.Asin, raw.Acos, raw.Atanh):
        yield op.__name__, lambda x, op=op: op(x=x), [np.tanh(x)]
    yield "Acosh", lambda x: raw.Acosh(x=x), [positive(2, 3) + 1]
    for op in OF_POSITIVE:
        yield op.__name__, lambda x, op=op: op(x=x), [positive(2, 3)]
    for op in OF_FEATURES:
        yield op.__name__, lambda x, op=op: op(features=x), [4 * f32(3, 3)]
    for op in BINARY:
        yield op.__name__, lambda x, y, op=op: op(x=x, y=y), [np.round(3 * f32(2, 3)) + np.float32(0.5), np.round(f32(3)) + np.float32(2.5)]
    for op in OF_INTEGERS:
        yield op.__name__ + " of integers", lambda x, y, op=op: op(x=x, y=y), [i32(-9, 9, 4, 5), np.int32([-3, 2, 5, -1, 7])]
    yield "shifts", lambda x, y: (raw.LeftShift(x=x, y=y), raw.RightShift(x=x, y=y), raw.Invert(x=x)), [i32(-99, 99, 6), i32(0, 5, 6)]
    yield "Pow, Xlogy", lambda x, y: (raw.Pow(x=x, y=y), raw.Xlogy(x=tf.nn.relu(y), y=x)), [positive(4), f32(4)]
    yield "logic", lambda x, y: (raw.LogicalAnd(x=x, y=y), raw.LogicalOr(x=x, y=y), raw.LogicalNot(x=x), tf.math.logical_xor(x, y)), [bools(8), bools(8)]
    yield "AddN, ClipByValue", lambda x, y: (raw.AddN(inputs=[x, y, x]), tf.clip_by_value(x, -0.5, 0.5), raw.ClipByValue(t=x, clip_value_min=y, clip_value_max=y + 1)), [x, f32(2, 3)]
    yield "Select", lambda c, x, y: (tf.where(c, x, y[0]), raw.Select(condition=c[:, 0], x=x, y=y), raw.Select(condition=c, x=x, y=y)), [bools(3, 3), f32(3, 3), f32(3, 3)]
    yield "Cast", lambda x: (tf.cast(x, tf.int32), tf.cast(x, tf.float16), tf.cast(x > 0, tf.float32), tf.bitcast(x, tf.int32)), [3 * x]
    yield "BiasAdd", lambda x, b: (raw.BiasAdd(value=x, bias=b), raw.BiasAdd(value=tf.transpose(x, [0, 3, 1, 2]), bias=b, data_format="NCHW")), [f32(2, 3, 4, 5), f32(5)]
    yield "passing", lambda x: (tf.identity(x), tf.stop_gradient(x), tf.ensure_shape(x, [None, 3]), tf.debugging.check_numerics(x, "bad"), *tf.identity_n([x, 2 * x]), raw.PreventGradient(input=x), raw.Snapshot(input=x),
                               raw.PlaceholderWithDefault(input=x, shape=[None, 3])), [x]
    yield from _reductions()
    yield from _shapes()
    yield from _slices()
    yield from _windows()
    yield from _products()


def _reductions():
    for op in REDUCTIONS:
        yield op.__name__, lambda x, op=op: (op(input=x, axis=[1], keep_dims=False), op(input=x, axis=[-1, 0], keep_dims=True)), [f32(3, 4, 2)]
    yield "All, Any", lambda x: (tf.reduce_all(x, 1), tf.reduce_any(x, 0, True)), [bools(4, 3)]
    yield "softmax", lambda x: (tf.nn.softmax(x), tf.nn.log_softmax(x)), [f32(3, 5)]
    yield "ArgMax", lambda x: (tf.argmax(x, 1), tf.argmin(x, 0, tf.int32)), [f32(4, 5)]
    yield "running", lambda x: (tf.cumsum(x, 1), tf.cumsum(x, 1, exclusive=True, reverse=True), tf.math.cumprod(x, 1, reverse=True)), [f32(3, 5)]
    yield "L2Loss", lambda x: tf.nn.l2_loss(x), [f32(3, 5)]
    yield "statistics of channels", lambda x: tf.nn.moments(tf.nn.relu(tf.nn.conv2d(x, _KERNEL, 1, "SAME")), [0, 1, 2]), [f32(2, 5, 6, 3)]


def _shapes():
    x = f32(2, 3, 4)
    yield "Shape", lambda x: (tf.shape(x), tf.shape(x, tf.int64), tf.size(x), raw.Rank(input=x), *raw.ShapeN(input=[x, x])), [x]
    yield "Reshape", lambda x: (tf.reshape(x, [-1, 6]), tf.reshape(x, [tf.shape(x)[0], 12]), tf.reshape(x, tf.reverse(tf.shape(x), [0])), tf.reshape(x, [-1])), [x]
    yield "Reshape of two unknown extents", lambda x, n: tf.reshape(x, [n, -1, 4]), [x, np.int32(3)]
    yield "Squeeze", lambda x: (tf.squeeze(x[:, :1], 1), tf.squeeze(x[0, :1, :1]), tf.expand_dims(x, -1), tf.expand_dims(x, 1)), [x]
    yield "BroadcastTo", lambda x, n: (tf.broadcast_to(x, [5, 2, 3, 4]), tf.fill([n, 2], x[0, 0, 0]), tf.zeros([n, 3]), tf.range(n), tf.range(1, n, 2)), [x, np.int32(4)]
    yield "Transpose", lambda x: (tf.transpose(x), tf.transpose(x, [2, 0, 1])), [x]
    yield "Concat", lambda x: (tf.concat([x, 2 * x], -1), tf.stack([x, x + 1], 1), *tf.unstack(x, axis=1), raw.Concat(concat_dim=1, values=[x, x])), [x]
    yield "Split", lambda x: (*tf.split(x, 2, -1), *tf.split(x, [1, -1], 1), *tf.split(x, 1, 1), *tf.unstack(x[:, :1], axis=1)), [x]
    yield "Tile", lambda x, n: (tf.tile(x, [1, 2, 3]), tf.tile(x, [n, 1, 1]), tf.reverse(x, [0, -1])), [x, np.int32(2)]
    yield "Pad", lambda x: (tf.pad(x, [[1, 2], [0, 0], [3, 0]]), tf.pad(x, [[0, 1]] * 3, constant_values=2.5), tf.pad(x, [[0, 0], [1, 2], [2, 1]], "REFLECT"),
                            tf.pad(x, [[1, 0], [0, 2], [3, 1]], "SYMMETRIC")), [x]
    yield "Pad by a computed number", lambda x, n: tf.pad(x, [[n, 1], [0, n], [0, 0]]), [x, np.int32(2)]
    yield "blocks", lambda x: (tf.nn.space_to_depth(x, 2), tf.nn.depth_to_space(x, 2)), [f32(2, 4, 6, 8)]
    yield "batches", lambda x: (tf.space_to_batch(x, [2, 2], [[1, 1], [0, 0]]), tf.batch_to_space(tf.space_to_batch(x, [2, 3], [[0, 0], [0, 0]]), [2, 3], [[0, 1], [1, 0]])), [f32(2, 4, 6, 3)]


def _slices():
    x = f32(3, 4, 5)
    yield "StridedSlice", lambda x, i: (x[:, i, None, ..., ::-1], x[-1], x[..., 1:-1], x[i:, ::2], x[:, -1, 2:i + 4], x[tf.newaxis, ..., i]), [x, np.int32(-1)]
    yield "Slice", lambda x, i: (tf.slice(x, [0, 1, 0], [-1, 2, 3]), tf.slice(x, [i, 0, i], [1, -1, 2]), tf.slice(x, [0, 0, 1], [i, 2, i])), [x, np.int32(1)]
    yield "Gather", lambda x, i: (tf.gather(x, i, axis=1), tf.gather(x, i), tf.gather_nd(x, i), tf.gather(x, i, axis=1, batch_dims=1), raw.Gather(params=x, indices=i)), [x, i32(0, 3, 3, 2)]
    yield "scatter", lambda x, i: (tf.tensor_scatter_nd_update(x, [[2], [0]], x[:2] + 1), tf.tensor_scatter_nd_add(x, i, x), tf.tensor_scatter_nd_sub(x, i, x), tf.tensor_scatter_nd_max(x, i, -x),
                                   tf.tensor_scatter_nd_min(x, i, -x), tf.scatter_nd(i, x, [4, 4, 5])), [x, np.int32([[1], [1], [0]])]
    yield "OneHot", lambda i: (tf.one_hot(i, 5), tf.one_hot(i, 5, 2.0, -1.0, axis=0)), [i32(0, 5, 4)]
    yield "MatrixBandPart", lambda x: (tf.linalg.band_part(x, 1, 0), tf.linalg.band_part(x, -1, 1), tf.linalg.band_part(x, 0, -1)), [x]
    yield "TopK", lambda x: (*tf.math.top_k(x, 3), *raw.TopKV2(input=x, k=2, index_type=tf.int64)), [x]


_KERNEL = f32(3, 3, 3, 4)


def _windows():
    x, w = f32(2, 7, 8, 3), _KERNEL
    b = f32(4)
    yield "Conv2D", lambda x: (tf.nn.conv2d(x, w, 2, "SAME"), tf.nn.conv2d(x, w, 1, [[0, 0], [1, 0], [2, 1], [0, 0]]), tf.nn.conv2d(x, w, 1, "VALID", dilations=2)), [x]
    yield "Conv2D of a computed kernel", lambda x, w: (tf.nn.conv2d(x, w, 1, "SAME"), tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")), [x, w]
    yield "groups", lambda x: tf.nn.conv2d(tf.concat([x, x], -1), w, 1, "SAME"), [x]
    yield "factors of channels", lambda x: (tf.nn.relu6((tf.nn.conv2d(x, w, 1, "SAME") * b + b) * [1.5, 2, 3, 4]), b * (tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b) + 2 * b)), [x]
    yield "factors of rows, not of channels", lambda x: tf.nn.conv2d(x, w, 1, "SAME") * tf.reshape(b, [4, 1]), [x[:, :4, :4]]
    yield "a convolution that is read twice", lambda x: ((y := tf.nn.conv2d(x, w, 1, "SAME")) * b, y + b, y), [x]
    yield "Conv3D", lambda x: tf.nn.conv3d(x[:, None], f32(1, 3, 3, 3, 2), [1, 1, 2, 2, 1], "SAME"), [x]
    yield "Conv2DBackpropInput", lambda x: (tf.nn.conv2d_transpose(x, f32(3, 3, 4, 3), [tf.shape(x)[0], 14, 16, 4], 2, "SAME"), tf.nn.conv2d_transpose(x, f32(3, 2, 4, 3), [tf.shape(x)[0], 15, 16, 4], 2, "VALID")), [x]
    yield "pools", lambda x: (tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, [3, 2], 2, "SAME"), tf.nn.max_pool2d(x, 2, 2, "VALID"), tf.nn.max_pool3d(x[:, None], [1, 2, 2], 1, "SAME"),
                              tf.nn.avg_pool3d(x[:, None], [1, 2, 2], 1, "VALID")), [x]
    for fold in (True, False):
        yield f"FusedBatchNormV3 {fold}", lambda x, fold=fold: tf.compat.v1.nn.fused_batch_norm(tf.nn.conv2d(x, w, 1, "SAME") if fold else tf.concat([x, x[..., :1]], -1), b, b + 1, b - 1, b * b, is_training=False)[0], [x]
    yield "FusedBatchNorm of computed parameters", lambda x, b: tuple(op(x=x, scale=b, offset=b, mean=b, variance=b * b, is_training=False)[0] for op in (raw.FusedBatchNorm,)), [x, f32(3)]
    yield "FusedBatchNormV2", lambda x, b: raw.FusedBatchNormV2(x=x, scale=b, offset=b, mean=b, variance=b * b, is_training=False)[0], [x, f32(3)]
    yield "resizing", lambda x, n: (tf.image.resize(x, (9, 7)), tf.image.resize(x, (9, 7), "nearest"), raw.ResizeBilinear(images=x, size=[14, n]), raw.ResizeNearestNeighbor(images=x, size=[n, 16]),
                                    raw.ResizeBilinear(images=x, size=[5, 12], align_corners=True), raw.ResizeNearestNeighbor(images=x, size=[5, 12], align_corners=True)), [x, np.int32(13)]
    yield "between convolutions", lambda x: _residual(x), [x]


def _residual(x):
    """A block in whose middle the channels are split, padded, joined, averaged and reshaped."""
    y = tf.nn.conv2d(x, _KERNEL, 1, "SAME")
    a, c = tf.split(tf.nn.silu(y), 2, -1)
    y = tf.concat([a, c * tf.reduce_mean(y, [1, 2], keepdims=True)[..., 2:]], -1) + y
    y = tf.pad(y, [[0, 0], [1, 0], [0, 1], [0, 0]])
    return tf.transpose(y, [0, 3, 1, 2]), tf.reduce_max(y, [1, 2]), tf.reduce_sum(y, [2, 3]), tf.reduce_sum(y, 3), tf.reshape(y, [tf.shape(y)[0], -1])


def _products():
    a, b = f32(2, 3, 4), f32(2, 4, 5)
    yield "MatMul", lambda a, b: (a[0] @ b[0], tf.matmul(b[0], a[0], True, True), a @ b, tf.matmul(b, a, transpose_a=True, transpose_b=True), raw.BatchMatMul(x=a, y=b), raw.BatchMatMulV3(x=a, y=b, Tout=tf.float32)), [a, b]
    equations = {"abc,acd->abd": (a, b), "abc,cde->abde": (a, f32(4, 2, 3)), "abcd,cde->abe": (f32(2, 3, 4, 5), f32(4, 5, 6)), "aecd,abcd->acbe": (f32(2, 3, 4, 5), f32(2, 6, 4, 5)),
                 "acbe,aecd->abcd": (f32(2, 4, 6, 3), f32(2, 3, 4, 5)), "ab,ac->abc": (f32(2, 3), f32(2, 4)), "abc,abc->ab": (a, a), "ab,c->cab": (f32(2, 3), f32(4)), "abc,bd->dac": (a, f32(3, 5)),
                 "ab,bc->c": (f32(2, 3), f32(3, 4)), "aab,bc->ac": (f32(2, 2, 3), f32(3, 4)), "abc->ca": (a,), "a...c,cd->a...d": (a, f32(4, 5))}
    for equation, operands in equations.items():
        yield f"Einsum {equation}", lambda *xs, equation=equation: tf.einsum(equation, *xs), list(operands)
    yield "SplitV, Einsum of constants", lambda x: tf.einsum("ab,bc->ac", x, tf.constant(f32(3, 4))), [f32(2, 3)]


CASES = list(_pairs())
