"""Values and gradients of operators of TensorFlow on a device of Tenon, compared with TensorFlow's CPU.

Each case names the operators of the table (bridges/tensorflow_device/operators.c) that must have run on the device.  Run with .venv-tensorflow's Python.
"""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path.insert(0, os.path.join(BUILD, "python"))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tenon.tensorflow.device as td

KIND = td.enable("sim")
import numpy as np
import tensorflow as tf

import totals
from tensorflow_device_share import share

nn, raw, math = tf.nn, tf.raw_ops, tf.math


def a(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


def p(*shape):
    return np.abs(a(*shape)) + 0.5


def u(*shape):
    return np.tanh(a(*shape)) * 0.9


X, M = a(2, 3, 4), a(4, 5)
IMAGE, KERNEL, EACH = a(2, 7, 8, 3), a(3, 3, 3, 4), a(3, 3, 3, 2)
LABELS = np.array([1, 0, 3], np.int64)
UNARY = {"Abs": X, "Neg": X, "Exp": X, "Log": p(3, 4), "Sqrt": p(3, 4), "Rsqrt": p(3, 4), "Reciprocal": p(3, 4), "Tanh": X, "Sigmoid": X, "Sin": X, "Cos": X,
         "Tan": u(3, 4), "Asin": u(3, 4), "Acos": u(3, 4), "Atan": X, "Sinh": X, "Cosh": X, "Asinh": X, "Acosh": p(3, 4) + 1, "Atanh": u(3, 4), "Erf": X,
         "Floor": X, "Ceil": X, "Rint": X, "Round": X, "Sign": X, "Square": X, "Erfc": X, "IsFinite": X, "IsNan": X}
ACTIVATIONS = {"Relu": nn.relu, "Relu6": nn.relu6, "LeakyRelu": nn.leaky_relu, "Elu": nn.elu, "Selu": nn.selu, "Softplus": nn.softplus,
               "Softsign": nn.softsign}
BINARY = {"AddV2": tf.add, "Sub": tf.subtract, "Mul": tf.multiply, "RealDiv": tf.divide, "Maximum": tf.maximum, "Minimum": tf.minimum,
          "SquaredDifference": math.squared_difference, "DivNoNan": math.divide_no_nan, "MulNoNan": math.multiply_no_nan, "Equal": tf.equal,
          "NotEqual": tf.not_equal, "Less": tf.less, "LessEqual": tf.less_equal, "Greater": tf.greater, "GreaterEqual": tf.greater_equal}
REDUCTIONS = {"Sum": tf.reduce_sum, "Mean": tf.reduce_mean, "Max": tf.reduce_max, "Min": tf.reduce_min, "Prod": tf.reduce_prod}


def dilated(w):
    """A kernel with zeros between its elements: TensorFlow's CPU has no gradients of dilated convolutions on every processor."""
    spread = tf.reshape(tf.stack([w, 0 * w], 1), [6, 3, 3, 4])[:5]
    return tf.reshape(tf.stack([spread, 0 * spread], 2), [5, 6, 3, 4])[:, :5]


def cases():
    """(name, operators on the device, function, arguments, the function on the CPU if it is another one)"""
    for op, x in UNARY.items():
        yield op, [op], (lambda x, f=getattr(raw, op): f(x=x)), [x]
    for op, f in ACTIVATIONS.items():
        yield op, [op], f, [X * 3]
    for op, f in BINARY.items():
        yield op, [op], f, [X, p(3, 1)]
        yield f"{op} of equal shapes", [op], f, [X, np.where(X > 0, X, 1).astype(np.float32)]
    yield "Pow", ["Pow"], tf.pow, [p(3, 4), a(4)]
    yield "FloorDiv", ["FloorDiv"], math.floordiv, [X, p(3, 1)]
    yield "Xlogy", ["Xlogy"], math.xlogy, [np.float32([0, 1, 2]), np.float32([0, 2, 3])]
    yield "Xdivy", ["Xdivy"], math.xdivy, [np.float32([0, 1, 2]), np.float32([1, 2, 3])]
    for op, f in REDUCTIONS.items():
        yield op, [op], (lambda x, f=f: f(x, axis=[0, 2])), [p(2, 3, 4)]
        yield f"{op} of all, with axes", [op], (lambda x, f=f: f(x, keepdims=True)), [p(2, 3)]
    yield "All", ["All"], (lambda x: tf.reduce_all(x > 0, axis=1)), [X]
    yield "Any", ["Any"], (lambda x: tf.reduce_any(x > 0, axis=1)), [X]
    yield "logic", ["LogicalAnd", "LogicalOr", "LogicalNot"], (lambda x: ((x > 0) & (x < 1)) | ~(x > 2)), [X]
    yield "L2Loss", ["L2Loss"], nn.l2_loss, [X]
    yield "AddN", ["AddN"], (lambda x, y: tf.add_n([x, y, x])), [X, X + 1]
    yield "ClipByValue", ["ClipByValue"], (lambda x: raw.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.5)), [X]
    yield "SelectV2", ["SelectV2"], (lambda x, y: tf.where(x > 0, x, y)), [X, a(4)]
    yield "Cast", ["Cast"], (lambda x: tf.cast(tf.cast(x * 10, tf.int64), tf.float32)), [X]
    for first in (False, True):
        for second in (False, True):
            x, y = a(*((4, 3) if first else (3, 4))), a(*((5, 4) if second else (4, 5)))
            yield f"MatMul {first} {second}", ["MatMul"], (lambda x, y, f=first, s=second: tf.matmul(x, y, transpose_a=f, transpose_b=s)), [x, y]
    yield "BatchMatMulV2", ["BatchMatMulV2"], (lambda x, y: tf.matmul(x, y, adjoint_b=True)), [X, a(2, 5, 4)]
    yield "BatchMatMulV2 broadcasts", ["BatchMatMulV2"], tf.matmul, [X, a(1, 4, 5)]
    yield "BiasAdd", ["BiasAdd"], nn.bias_add, [IMAGE, a(3)]
    yield "BiasAdd NCHW", ["BiasAdd"], (lambda x, y: raw.BiasAdd(value=x, bias=y, data_format="NCHW")), [a(2, 3, 4, 5), a(3)]
    yield "Softmax", ["Softmax"], nn.softmax, [X]
    yield "LogSoftmax", ["LogSoftmax"], nn.log_softmax, [X]
    yield "cross entropy", ["SoftmaxCrossEntropyWithLogits"], (lambda x: nn.softmax_cross_entropy_with_logits(np.eye(4, dtype=np.float32)[:3], x)), [a(3, 4)]
    yield "sparse cross entropy", ["SparseSoftmaxCrossEntropyWithLogits"], (lambda x: nn.sparse_softmax_cross_entropy_with_logits(LABELS, x)), [a(3, 4)]
    for padding in ("SAME", "VALID"):
        for strides in (1, 2, 3):
            yield f"Conv2D {padding} {strides}", ["Conv2D"], (lambda x, w, s=strides, d=padding: nn.conv2d(x, w, s, d)), [IMAGE, KERNEL]
            yield f"depthwise {padding} {strides}", ["DepthwiseConv2dNative"], (
                lambda x, w, s=strides, d=padding: nn.depthwise_conv2d(x, w, [1, s, s, 1], d)), [IMAGE, EACH]
            yield f"MaxPool {padding} {strides}", ["MaxPool"], (lambda x, s=strides, d=padding: nn.max_pool2d(x, 3, s, d)), [IMAGE]
            yield f"AvgPool {padding} {strides}", ["AvgPool"], (lambda x, s=strides, d=padding: nn.avg_pool2d(x, 3, s, d)), [IMAGE]
    yield "Conv2D dilated", ["Conv2D"], (lambda x, w: nn.conv2d(x, w, 1, "SAME", dilations=2)), [IMAGE, KERNEL], (
        lambda x, w: nn.conv2d(x, dilated(w), 1, "SAME"))
    yield "Conv2D explicit", ["Conv2D"], (lambda x, w: nn.conv2d(x, w, 2, [[0, 0], [2, 1], [0, 2], [0, 0]])), [IMAGE, KERNEL]
    yield "Transpose", ["Transpose"], (lambda x: tf.transpose(x, [2, 0, 1])), [X]
    yield "ConcatV2", ["ConcatV2"], (lambda x, y: tf.concat([x, y, x], 1)), [X, a(2, 1, 4)]
    yield "Slice", ["Slice"], (lambda x: tf.slice(x, [0, 1, 1], [2, -1, 2])), [X]
    yield "StridedSlice", ["StridedSlice"], (lambda x: x[..., 1:4:2]), [X]
    yield "StridedSlice backwards", ["StridedSlice"], (lambda x: x[:, ::-2, tf.newaxis, 3::-1]), [X]
    yield "StridedSlice shrinks", ["StridedSlice"], (lambda x: x[1, tf.newaxis, -2, :]), [X]
    yield "Pad", ["Pad"], (lambda x: tf.pad(x, [[1, 0], [0, 2], [1, 1]])), [X]
    yield "PadV2", ["PadV2"], (lambda x: tf.pad(x, [[1, 0], [0, 2], [1, 1]], constant_values=3.0)), [X]
    yield "Tile", ["Tile"], (lambda x: tf.tile(x, [1, 2, 3])), [X]
    yield "Pack", ["Pack"], (lambda x, y: tf.stack([x, y], axis=1)), [X, X + 1]
    yield "Unpack", ["Unpack"], (lambda x: tf.add_n(tf.unstack(x, axis=1))), [X]
    yield "Split", ["Split"], (lambda x: tf.split(x, 2, axis=2)[1]), [X]
    yield "SplitV", ["SplitV"], (lambda x: tf.split(x, [1, 3], axis=2)[1]), [X]
    yield "Fill", ["Fill"], (lambda x: x + tf.fill([3, 4], 2.5)), [X]
    yield "BroadcastTo", ["BroadcastTo"], (lambda x: tf.broadcast_to(x, [2, 3, 4])), [a(3, 1)]
    yield "ZerosLike", ["ZerosLike"], (lambda x: x * raw.ZerosLike(x=x)), [X]
    yield "OnesLike", ["OnesLike"], (lambda x: x * raw.OnesLike(x=x)), [X]
    yield "GatherV2", ["GatherV2"], (lambda x: tf.gather(x, [2, 0, 2], axis=1)), [X]
    yield "UnsortedSegmentSum", ["UnsortedSegmentSum"], (lambda x: math.unsorted_segment_sum(x, [1, -1, 1], 3)), [a(3, 4)]
    yield "OneHot", ["OneHot"], (lambda x: tf.one_hot(LABELS, 4, axis=0) * x), [a(4, 3)]


def joined(tensors):
    return tf.concat([tf.reshape(t, [-1]) for t in tensors], 0)


def in_groups(x, w, count, strides):
    """A grouped convolution by convolutions of its groups."""
    return tf.concat([nn.conv2d(x, w, strides, "SAME") for x, w in zip(tf.split(x, count, 3), tf.split(w, count, 3))], 3)


def further_cases():
    """What a formula alone cannot say: cases that were left to the CPU, or were errors, at first."""
    for equation, shapes in {"abc,cde->abde": [(2, 3, 4), (4, 2, 3)], "aecd,abcd->acbe": [(2, 3, 2, 4), (2, 5, 2, 4)], "abc,cd->abd": [(2, 3, 4), (4, 5)],
                             "acbe,aecd->abcd": [(2, 2, 5, 3), (2, 3, 2, 4)], "ij,jk->ki": [(3, 4), (4, 2)], "ab,ab->": [(3, 4), (3, 4)], "i,j->ij": [(3,), (4,)],
                             "abc->ca": [(2, 3, 4)], "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 5)], "abd,cb->ac": [(2, 3, 4), (5, 3)]}.items():
        yield f"Einsum {equation}", ["Einsum"], (lambda *xs, e=equation: tf.einsum(e, *xs)), [a(*shape) for shape in shapes]
    yield "Einsum that core::einsum computes", ["Einsum"], (lambda x, y: tf.einsum("...ij,...jk->...ik", x, y)), [X, a(1, 4, 5)]
    for axis in (0, 1, -1):
        yield f"ArgMax {axis}", ["ArgMax"], (lambda x, k=axis: tf.argmax(x, k)), [np.round(X)]
        yield f"ArgMin {axis}", ["ArgMin"], (lambda x, k=axis: tf.argmin(x, k, tf.int32)), [np.round(X)]
        for exclusive in (False, True):
            for reverse in (False, True):
                yield f"Cumsum {axis} {exclusive} {reverse}", ["Cumsum"], (
                    lambda x, k=axis, e=exclusive, r=reverse: math.cumsum(x, k, e, r)), [a(5, 6, 7)]
    for padding in ("SAME", "VALID"):
        for strides in (1, 2, 3):
            yield f"AvgPoolGrad {padding} {strides}", ["AvgPool", "AvgPoolGrad"], (lambda x, s=strides, d=padding: nn.avg_pool2d(x, 3, s, d)), [IMAGE]
    for training in (True, False):
        mean = [] if training else [a(3), p(3)]
        yield f"FusedBatchNormV3 {training}", ["FusedBatchNormV3", "FusedBatchNormGradV3"], (
            lambda x, s, o, *m, t=training: joined(tf.compat.v1.nn.fused_batch_norm(x, s, o, *m, epsilon=1e-3, is_training=t))), [IMAGE, p(3), a(3), *mean]
    yield "FusedBatchNormV3 with running averages", ["FusedBatchNormV3"], (lambda x, s, o, m, v: joined(tf.compat.v1.nn.fused_batch_norm(
        x, s, o, m, v, is_training=True, exponential_avg_factor=0.25)[1:])), [IMAGE, p(3), a(3), a(3), p(3)]
    yield "GatherV2 batch", ["GatherV2"], (lambda x: tf.gather(x, [[2, 0], [1, 1]], axis=1, batch_dims=1)), [X]
    yield "GatherV2 batch, another axis", ["GatherV2"], (lambda x: tf.gather(x, [[3, 0, 1], [1, 1, 2]], axis=2, batch_dims=1)), [X]
    yield "GatherV2 two batch axes", ["GatherV2"], (lambda x: tf.gather(x, np.int64([[[1], [0], [3]], [[2], [2], [0]]]), batch_dims=2)), [X]
    yield "MaxPool explicit", ["MaxPool", "MaxPoolGrad"], (lambda x: nn.max_pool2d(x, 3, 2, [[0, 0], [2, 1], [0, 2], [0, 0]])), [IMAGE], (
        lambda x: nn.max_pool2d(tf.pad(x, [[0, 0], [2, 1], [0, 2], [0, 0]], constant_values=-1e30), 3, 2, "VALID"))
    for strides in (1, 2):
        yield f"Conv2D in groups {strides}", ["Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"], (
            lambda x, w, s=strides: nn.conv2d(x, w, s, "SAME")), [a(2, 5, 6, 4), a(3, 3, 2, 6)], (lambda x, w, s=strides: in_groups(x, w, 2, s))
    yield "ConcatV2 of 100", ["ConcatV2"], (lambda x: tf.concat([x * k for k in np.arange(100, dtype=np.float32)], 1)), [X]
    yield "Pack of 300", ["Pack"], (lambda x: tf.stack([x] * 300)), [a(3)]
    yield "Unpack of 200", ["Unpack"], (lambda x: tf.add_n(tf.unstack(x))), [a(200, 3)]
    yield "SplitV of 60", ["SplitV"], (lambda x: tf.split(x, [1] * 40 + [2] * 20)[50]), [a(80, 3)]
    yield "AddN of 100", ["AddN"], (lambda x: tf.add_n([x] * 100)), [a(4)]


def compute(device, function, arguments):
    """Returns the value and the gradients of its sum of squares."""
    with tf.device(device):
        tensors = [tf.constant(x) for x in arguments]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
            loss = tf.reduce_sum(value * value) if value.dtype == tf.float32 else None
        gradients = tape.gradient(loss, tensors) if loss is not None else []
        return [value.numpy(), *(None if g is None else tf.convert_to_tensor(g).numpy() for g in gradients)]


class Values(unittest.TestCase):
    parts = 0

    def test_values_and_gradients_are_those_of_the_cpu(self):
        for name, ops, function, arguments, *reference in share([*cases(), *further_cases()]):
            with self.subTest(name):
                expected = compute("CPU:0", *(reference or [function]), arguments)
                with td.counting() as counts:
                    found = compute(f"{KIND}:0", function, arguments)
                for e, f in zip(expected, found, strict=True):
                    self.assertEqual(e is None, f is None)
                    if e is not None:
                        np.testing.assert_allclose(f, e, rtol=2e-5, atol=2e-5)
                for op in ops:
                    self.assertGreater(counts[KIND][op], 0, f"{op} did not run on the device")
                Values.parts += 1


if __name__ == "__main__":
    totals.main(lambda: Values.parts)
