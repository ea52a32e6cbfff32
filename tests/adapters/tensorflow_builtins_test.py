"""The built-in operators beside TensorFlow's own: values and gradients, outside of graphs, in tf.function with unknown extents, and compiled by XLA. The cases are in
tensorflow_cases.py."""
import functools
import os
import sys
import unittest

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
from tenon._calls import traits_of
from tensorflow_cases import CASES

core = tenon.tensorflow.register("core")
covered = {"values": set(), "gradients": set()}
# Operators without a gradient, here or in TensorFlow.
NOT_SMOOTH = {"as_strided", "bit_cast", "cast", "ceil", "dequantize_linear", "eye_like", "floor", "gelu_second", "hardmax", "mod", "one_hot", "quantize_linear", "range", "round", "sign",
              "squared_distance"}
# Operators whose shapes need extents that are known in a graph.
KNOWN = {"as_strided"}


def flat(made):
    return [t for m in made for t in flat(m)] if isinstance(made, (list, tuple)) else [made]


def arrays_of(case):
    return [a for arg in case.args for a in (arg if isinstance(arg, list) else [arg]) if a is not None]


def arranged(case, tensors):
    rest = iter(tensors)
    return [[next(rest) for _ in arg] if isinstance(arg, list) else None if arg is None else next(rest) for arg in case.args]


def operator(case):
    function = getattr(core, case.name + "_" if case.name in ("and", "or", "not") else case.name)
    return lambda *args: function(*args, **case.attrs)


def weighted(result):
    """A weighted sum, to be differentiated."""
    weights = tf.sin(1 + tf.range(tf.cast(tf.size(result), tf.float64)))
    return tf.reduce_sum(tf.reshape(result, [-1]) * tf.cast(weights, result.dtype))


def compared(case, function):
    """Returns a function of the case's tensors that computes its results, and the gradients of their weighted sum."""
    def results(*tensors):
        floats = [t for t in tensors if t.dtype.is_floating] if case.name not in NOT_SMOOTH else []
        with tf.GradientTape() as tape:
            tape.watch(floats)
            made = flat(function(*arranged(case, tensors)))
            total = sum(weighted(r) for r in made if r is not None and r.dtype.is_floating)
        grads = tape.gradient(total, floats, unconnected_gradients=tf.UnconnectedGradients.ZERO) if floats and isinstance(total, tf.Tensor) else []
        return made, grads
    return results


def close(found, expected, units, what):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype}, expected {expected.dtype}"
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, what)
        return
    tolerance = units * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1e-3, np.abs(expected).max(initial=0)), err_msg=what)


# Operators that XLA cannot have when their integers are no constants, and strings.
COMPILED_ALONE = {"cum_prod", "cum_sum", "compress", "constant_of_shape", "expand", "gather_backward", "gather_nd_backward", "nonzero", "one_hot", "pad", "range", "reduce_log_sum", "reshape", "resize",
                  "slice", "slice_backward", "split", "squeeze", "string_concat", "string_normalizer", "sum_to", "tile", "top_k", "trilu", "unique", "unsqueeze"}


class Builtins(unittest.TestCase):
    def compare(self, mode, cases=CASES):
        for case in cases:
            with self.subTest(op=case.name, attrs=case.attrs):
                tensors = [tf.constant(a) for a in arrays_of(case)]
                expected, slopes = compared(case, case.reference)(*tensors)
                found, grads = mode(case, compared(case, operator(case)), tensors)
                for k, e in enumerate(expected):
                    if e is not None:
                        close(found[k], e, case.units, f"result {k}")
                self.assertEqual(len(grads), len(slopes))
                for k, (f, e) in enumerate(zip(grads, slopes)):
                    close(f, e, 4 * case.units, f"gradient {k}")
                covered["values"].add(case.name)
                if len(slopes):
                    covered["gradients"].add(case.name)

    def test_values_and_gradients_are_those_of_tensorflow(self):
        self.compare(lambda case, function, tensors: function(*tensors))

    def test_values_and_gradients_in_functions_with_unknown_extents(self):
        def mode(case, function, tensors):
            spec = [tf.TensorSpec([None] * t.shape.rank if t.dtype.is_floating else t.shape, t.dtype) for t in tensors]
            return tf.function(function, input_signature=spec, autograph=False)(*tensors)
        self.compare(mode, [c for c in CASES if c.name not in KNOWN])

    def test_values_and_gradients_in_functions_compiled_by_xla(self):
        """Many cases in one function, since each is compiled on its own."""
        cases = {c.name: c for c in CASES if c.name not in COMPILED_ALONE}.values()
        made = {}

        @tf.function(jit_compile=compiles(), autograph=False)
        def all_of_them(tensors):
            return [compared(case, operator(case))(*some) for case, some in zip(cases, tensors)]
        for case, found in zip(cases, all_of_them([[tf.constant(a) for a in arrays_of(c)] for c in cases])):
            made[case.name] = found
        self.compare(lambda case, function, tensors: made[case.name], cases)

    def test_pointwise_operators_become_one_call_in_vectorized_map(self):
        cases = {c.name: c for c in CASES if "pointwise" in traits_of("core::" + c.name) and any(a.dtype.kind == "f" for a in arrays_of(c))}.values()

        def of(case, items):
            rest = iter(items)
            made = operator(case)(*arranged(case, [next(rest) if a.dtype.kind == "f" else tf.constant(a) for a in arrays_of(case)]))
            return [tf.cast(t, tf.float64) for t in flat(made)]

        @tf.function(autograph=False)
        def all_of_them(items):
            return [tf.vectorized_map(functools.partial(of, case), some) for case, some in zip(cases, items)]
        items = [[np.stack([a, np.roll(a.ravel(), 1).reshape(a.shape)]) for a in arrays_of(c) if a.dtype.kind == "f"] for c in cases]
        tensors = [[tf.constant(a) for a in some] for some in items]
        for case, some, found in zip(cases, items, all_of_them(tensors)):
            with self.subTest(op=case.name):
                for k, t in enumerate(found):
                    close(t, [of(case, [a[i] for a in some])[k] for i in range(2)], case.units, f"result {k}")
        graph = all_of_them.get_concrete_function(tensors).graph.as_graph_def()
        names = {n.op for n in graph.node} | {n.op for f in graph.library.function for n in f.node_def}
        self.assertEqual({n for n in names if "While" in n}, set())
        self.assertGreaterEqual(len(cases), 80)

    def test_with_these_cases_enough_operators_are_compared(self):
        if not covered["values"]:
            self.skipTest("the tests before it did not run")
        print(f"compared: {len(covered['values'])} operators, the gradients of {len(covered['gradients'])}")
        self.assertGreaterEqual(len(covered["values"]), 150, sorted(covered["values"]))
        self.assertGreaterEqual(len(covered["gradients"]), 125, sorted(covered["gradients"]))

if __name__ == "__main__":
    totals.main()
