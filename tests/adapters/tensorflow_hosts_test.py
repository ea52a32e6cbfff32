"""The library of ten kinds of operators, tests/libraries/hosts/ten.c, in TensorFlow: the same numbers as in NumPy, in each mode in which TensorFlow runs
functions, and gradients beside the same functions in TensorFlow's own operators and beside finite differences."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__))]
import numpy as np
import tensorflow as tf

import tenon
import tenon.tensorflow
import totals
from tensorflow_xla import compiles

SEED = 2026
FOLDER = tempfile.mkdtemp(prefix="tenon-tensorflow-")
atexit.register(shutil.rmtree, FOLDER)
LIBRARY = os.path.join(FOLDER, "ten.so")
subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "tests", "libraries", "hosts", "ten.c"), "-o", LIBRARY], check=True, stdout=subprocess.DEVNULL)
numpy_ops = tenon.load(LIBRARY)
ops = tenon.tensorflow.register(numpy_ops)


class Case(NamedTuple):
    """A call: the operator, its inputs (arrays, None) and its attributes."""
    op: str
    inputs: tuple
    attributes: dict = {}


def numbers(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)


X, ROW, COLUMN = numbers(3, 4), numbers(4), numbers(3, 1)
CASES = {
    "pointwise": Case("wave", (X, ROW), {"frequency": 1.5}),
    "pointwise, broadcast": Case("wave", (ROW, COLUMN)),
    "row": Case("softmax", (X,)),
    "reduction": Case("dot", (X, X[::-1].copy())),
    "reduction along an axis": Case("dot", (X, X[::-1].copy()), {"axis": 0}),
    "list": Case("blend", ([X, 2 * X], np.array([0.25, 0.5]))),
    "optional arguments": Case("affine", (X, ROW, COLUMN), {"extra": 0.25}),
    "optional arguments, one absent": Case("affine", (X, None, COLUMN)),
    "optional arguments, all absent": Case("affine", (X, None, None)),
    "mutating": Case("accumulate_", (X, X[::-1].copy()), {"decay": 0.75}),
    "stateful": Case("smooth", (X,), {"width": 5}),
    "random": Case("jitter", (X,), {"by": 2.0}),
    "data-dependent": Case("above", (X.ravel(),), {"threshold": 0.25}),
    "composite": Case("layer", (X, numbers(4, 2), numbers(2))),
    "composite, one absent": Case("layer", (X, numbers(4, 2), None)),
}


def mapped(function, value):
    return None if value is None else [function(v) for v in value] if isinstance(value, list) else function(value)


def all_cases():
    """[(name, case)] in f64 and f32."""
    return [(f"{name}, {dtype}", Case(case.op, tuple(mapped(lambda v, d=dtype: v.astype(d), v) for v in case.inputs), case.attributes))
            for name, case in CASES.items() for dtype in ("float64", "float32")]


def call(case, *inputs):
    more = {"seed": [SEED, 0]} if case.op == "jitter" else {}
    return getattr(ops, case.op)(*inputs, **case.attributes, **more)


def expected(case):
    inputs = [mapped(np.copy, v) for v in case.inputs]
    tenon.seed(SEED)
    return np.asarray(getattr(numpy_ops, case.op)(*inputs, **case.attributes))


def unknown(value):
    """The signature of an argument whose extents are not known."""
    return mapped(lambda v: tf.TensorSpec([None] * v.ndim, v.dtype), value)


class Hosts(unittest.TestCase):
    """The same numbers as in NumPy."""

    def agree(self, found_of, without=()):
        for name, case in all_cases():
            if case.op in without:
                continue
            with self.subTest(case=name):
                found, wanted = found_of(case).numpy(), expected(case)
                self.assertEqual(found.dtype, wanted.dtype)
                np.testing.assert_array_equal(found, wanted)

    def test_calls_outside_of_graphs(self):
        self.agree(lambda case: call(case, *(mapped(tf.constant, v) for v in case.inputs)))

    def test_calls_are_the_same_when_their_shapes_are_known_from_earlier_calls(self):
        for _ in range(3):
            self.agree(lambda case: call(case, *(mapped(tf.constant, v) for v in case.inputs)))

    def test_arrays_are_converted(self):
        self.agree(lambda case: call(case, *case.inputs))

    def test_functions(self):
        self.agree(lambda case: tf.function(lambda *inputs: call(case, *inputs))(*(mapped(tf.constant, v) for v in case.inputs)))

    def test_functions_with_unknown_extents(self):
        def found(case):
            function = tf.function(lambda *inputs: call(case, *inputs)).get_concrete_function(*map(unknown, case.inputs))
            return function(*(tf.constant(v) for value in case.inputs if value is not None for v in (value if isinstance(value, list) else [value])))
        self.agree(found)

    def test_functions_compiled_by_xla(self):
        self.agree(lambda case: tf.function(lambda *inputs: call(case, *inputs), jit_compile=compiles())(*(mapped(tf.constant, v) for v in case.inputs)), without={"above"})

    def test_functions_compiled_by_xla_with_unknown_extents(self):
        def found(case):
            inputs = [tf.constant(v) for value in case.inputs if value is not None for v in (value if isinstance(value, list) else [value])]

            def arranged(*tensors):
                rest = iter(tensors)
                return call(case, *(mapped(lambda _: next(rest), value) for value in case.inputs))
            return tf.function(arranged, jit_compile=compiles(), input_signature=[tf.TensorSpec([None] * t.shape.rank, t.dtype) for t in inputs])(*inputs)
        self.agree(found, without={"above"})

    def test_a_result_whose_size_depends_on_data_has_that_size(self):
        count = tf.function(lambda x: ops.above(x, threshold=0.0), input_signature=[tf.TensorSpec([None], tf.float32)])
        for x in ([1.0, -1.0, 2.0], [-1.0, -1.0, -1.0], [1.0, 2.0, 3.0]):
            self.assertEqual(count(x).numpy().tolist(), [v for v in x if v > 0])
            self.assertEqual(ops.above(x).numpy().tolist(), [v for v in x if v > 0])
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "ten::above: the shape of its result depends on values that are not known"):
            tf.function(ops.above, jit_compile=compiles())(tf.constant([1.0]))


def smooth(x, width=5):
    weights = np.array([1.0])
    for _ in range(width - 1):
        weights = np.convolve(weights, [0.5, 0.5])
    padded = tf.pad(x, [(0, 0), (width // 2, width // 2)])
    return sum(w * padded[:, k:k + x.shape[-1]] for k, w in enumerate(weights))


def jitter(x):
    return ops.jitter(x, by=2.0, seed=[3, 5])


# For each kind: the function in Tenon, the same in TensorFlow's own operators, and the arguments.
SMOOTH = {
    "pointwise": (lambda x, a: ops.wave(x, a, frequency=1.5), lambda x, a: a * tf.sin(1.5 * x), (X, ROW)),
    "pointwise, broadcast": (lambda x, a: ops.wave(x, a), lambda x, a: a * tf.sin(x), (ROW, COLUMN)),
    "row": (lambda x: ops.softmax(x), tf.nn.softmax, (X,)),
    "reduction": (lambda a, b: ops.dot(a, b), lambda a, b: tf.reduce_sum(a * b, -1), (X, X[::-1])),
    "reduction along an axis": (lambda a, b: ops.dot(a, b, axis=0), lambda a, b: tf.reduce_sum(a * b, 0), (X, X[::-1])),
    "list": (lambda a, b, w: ops.blend([a, b], w), lambda a, b, w: a * w[0] + b * w[1], (X, X[::-1], np.array([0.25, 0.5]))),
    "optional arguments": (lambda x, g, b: ops.affine(x, g, b, extra=0.25), lambda x, g, b: x * g + b + 0.25, (X, ROW, COLUMN)),
    "optional arguments, one absent": (lambda x, b: ops.affine(x, bias=b), lambda x, b: x + b, (X, COLUMN)),
    "stateful": (lambda x: ops.smooth(x, width=5), smooth, (X,)),
    "random": (jitter, lambda x: x + tf.stop_gradient(jitter(tf.zeros_like(x))), (X,)),
    "composite": (lambda x, w, b: ops.layer(x, w, b), lambda x, w, b: tf.tanh(x @ w + b), (X, numbers(4, 2), numbers(2))),
}


def loss(function):
    """A number, with a second derivative."""
    return lambda *inputs: tf.reduce_sum(function(*inputs) ** 3)


def gradients(function, *inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(*inputs)
    return tape.gradient(value, inputs)


def second_gradients(function, *inputs):
    def weighted(*inputs):
        return sum(tf.reduce_sum(tf.sin(g)) for g in gradients(function, *inputs))
    return gradients(weighted, *inputs)


class Gradients(unittest.TestCase):
    def each(self, check, without=()):
        """Calls check(function, the same in TensorFlow, tensors) for each kind."""
        for name, (function, own, inputs) in SMOOTH.items():
            if name not in without:
                with self.subTest(kind=name):
                    check(function, own, tuple(map(tf.constant, inputs)))

    def close(self, found, wanted):
        self.assertEqual(len(found), len(wanted))
        for f, w in zip(found, wanted):
            np.testing.assert_allclose(f, w, rtol=1e-12, atol=1e-12)

    def test_gradients_are_those_of_tensorflow(self):
        self.each(lambda function, own, inputs: self.close(gradients(loss(function), *inputs), gradients(loss(own), *inputs)))

    def test_gradients_in_functions_with_unknown_extents(self):
        def check(function, own, inputs):
            @tf.function(input_signature=[tf.TensorSpec([None] * t.shape.rank, t.dtype) for t in inputs])
            def compiled(*tensors):
                return gradients(loss(function), *tensors)
            self.close(compiled(*inputs), gradients(loss(own), *inputs))
        self.each(check, without={"list"})

    def test_the_number_of_results_must_be_known(self):
        """The gradient of `blend` has one tensor for each weight."""
        function, own, inputs = SMOOTH["list"]
        inputs = tuple(map(tf.constant, inputs))
        for extent in None, 2:
            compiled = tf.function(lambda *x: gradients(loss(function), *x), input_signature=[*[tf.TensorSpec([None, None], tf.float64)] * 2, tf.TensorSpec([extent], tf.float64)])
            if extent:
                self.close(compiled(*inputs), gradients(loss(own), *inputs))
            else:
                with self.assertRaisesRegex(tf.errors.UnimplementedError, "ten::parts: the number of weights must be known"):
                    compiled(*inputs)

    def test_gradients_in_functions_compiled_by_xla(self):
        def check(function, own, inputs):
            compiled = tf.function(lambda *x: gradients(loss(function), *x), jit_compile=compiles())
            self.close(compiled(*inputs), gradients(loss(own), *inputs))
        self.each(check)

    def test_second_gradients_are_those_of_tensorflow(self):
        def check(function, own, inputs):
            expected = second_gradients(loss(own), *inputs)
            self.close(second_gradients(loss(function), *inputs), expected)
            self.close(tf.function(lambda *x: second_gradients(loss(function), *x))(*inputs), expected)
        self.each(check, without={"composite"})

    def test_gradients_agree_with_finite_differences(self):
        def check(function, _, inputs):
            theoretical, numerical = tf.test.compute_gradient(function, inputs)
            for t, n in zip(theoretical, numerical):
                np.testing.assert_allclose(t, n, rtol=1e-6, atol=1e-6)
        self.each(check)

    def test_a_gradient_without_a_gradient_says_so(self):
        function, _, inputs = SMOOTH["composite"]
        with self.assertRaisesRegex(tf.errors.UnimplementedError, "ten::layer: its gradient cannot be differentiated again.*declare a gradient formula"):
            second_gradients(loss(function), *map(tf.constant, inputs))

    def test_operators_without_a_gradient_say_so(self):
        x = tf.constant(X.ravel())
        with self.assertRaisesRegex(tf.errors.UnimplementedError, "ten::above has no gradient: declare one"):
            gradients(lambda x: ops.above(x), x)
        with self.assertRaisesRegex(tf.errors.UnimplementedError, "ten::accumulate_ writes to its inputs and has no gradient"):
            gradients(lambda x: ops.accumulate_(x, x), x)


def operators_of(function, *tensors):
    """The names of the operators in the graph of a function."""
    graph = tf.function(function, autograph=False).get_concrete_function(*tensors).graph.as_graph_def()
    return {n.op for n in graph.node} | {n.op for f in graph.library.function for n in f.node_def}


class Batching(unittest.TestCase):
    """tf.vectorized_map, beside one call for each item."""

    def mapped_and_looped(self, case, moving):
        """Checks the values of a case whose inputs `moving` differ from item to item; returns the operators in the graph."""
        arrays = [v for value in case.inputs if value is not None for v in (value if isinstance(value, list) else [value])]
        items = [tf.stack([arrays[i], 1.5 * arrays[i] - 0.25, arrays[i][::-1]]) for i in moving]

        def one(moved):
            found = dict(zip(moving, moved))
            rest = iter(tf.constant(v) if i not in found else found[i] for i, v in enumerate(arrays))
            return call(case, *(mapped(lambda _: next(rest), value) for value in case.inputs))
        wanted = np.stack([one([x[k] for x in items]) for k in range(3)])
        np.testing.assert_allclose(tf.vectorized_map(one, items), wanted, rtol=1e-14, atol=1e-14)
        compiled = tf.function(lambda *x: tf.vectorized_map(one, list(x)), jit_compile=compiles())
        if case.op != "above":
            np.testing.assert_allclose(compiled(*items), wanted, rtol=1e-14, atol=1e-14)
        return operators_of(lambda *x: tf.vectorized_map(one, list(x)), *items)

    def test_calls_of_all_items_become_one_call_where_the_operator_declares_how(self):
        for kind, moving in [("pointwise", (0, 1)), ("pointwise", (0,)), ("pointwise, broadcast", (0, 1)), ("pointwise, broadcast", (0,)), ("pointwise, broadcast", (1,)),
                             ("optional arguments", (0, 1, 2)), ("optional arguments", (1,)), ("optional arguments, one absent", (1,)), ("row", (0,)), ("reduction", (0, 1)),
                             ("reduction", (1,)), ("reduction along an axis", (0, 1)), ("stateful", (0,)), ("composite", (0,))]:
            with self.subTest(kind=kind, moving=moving):
                names = self.mapped_and_looped(CASES[kind], moving)
                self.assertEqual({n for n in names if "While" in n}, set())

    def test_other_operators_are_called_in_a_loop(self):
        for kind, moving in [("list", (0, 1)), ("list", (2,)), ("mutating", (0, 1)), ("composite", (0, 1))]:
            with self.subTest(kind=kind, moving=moving):
                names = self.mapped_and_looped(CASES[kind], moving)
                self.assertNotEqual({n for n in names if "While" in n}, set())

    def test_random_operators_draw_other_numbers_for_each_item(self):
        x = tf.zeros([4, 5])
        drawn = tf.vectorized_map(lambda x: ops.jitter(x, by=1.0), x).numpy()
        self.assertEqual(len({row.tobytes() for row in drawn}), 4)
        same = tf.vectorized_map(lambda x: ops.jitter(x, by=1.0, seed=[1, 2]), x).numpy()
        np.testing.assert_array_equal(same, np.tile(ops.jitter(x[0], by=1.0, seed=[1, 2]), (4, 1)))

    def test_jacobians_are_computed_without_a_loop(self):
        x = tf.constant(X)

        def jacobian(function):
            def of(x):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = function(x)
                return tape.jacobian(y, x)
            return of
        found = jacobian(lambda x: ops.softmax(ops.wave(x, x)))
        np.testing.assert_allclose(found(x), jacobian(lambda x: tf.nn.softmax(x * tf.sin(x)))(x), rtol=1e-12, atol=1e-12)
        self.assertEqual({n for n in operators_of(found, x) if "While" in n}, set())


if __name__ == "__main__":
    totals.main()
