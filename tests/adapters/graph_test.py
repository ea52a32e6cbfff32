"""Graphs in Python: built, looked at, saved and read again.  Run with a Python that has NumPy and onnx (.venv)."""
import ast
import gc
import inspect
import os
import sys
import unittest

import numpy as np

from python_test import FOLDER, built, leaks, library  # which finds the package

import tenon
from tenon import stubs

core, nodes = tenon.ops.core, tenon.graph.ops.core


def condition_graph(op):
    """A body of an if: one input, and what the operator gives for it."""
    b = tenon.graph.Builder()
    return b.finish({"y": op(b.input("x", "f32", [None]))})


class Building(unittest.TestCase):
    def test_what_is_built_computes(self):
        x, w, c = np.arange(-4, 4, dtype=np.float32).reshape(2, 4), np.arange(12, dtype=np.float32).reshape(4, 3), np.float32([1, 2, 3])
        b = tenon.graph.Builder()
        v = b.input("x", "f32", ["n", 4])
        product = nodes.matmul(v, b.constant(w, "w"))
        y = nodes.add(product, b.constant(c), name="sum")
        graph = b.finish({"y": y, "same": v})
        self.assertEqual(graph.inputs, [("x", "f32", ["n", 4])])
        self.assertEqual(graph.outputs, [("y", "f32", ["n", 3]), ("same", "f32", ["n", 4])])
        self.assertIn("# sum\n", graph.text())
        run = graph.compile()
        for at in x, x[:1], np.concatenate([x, x]):
            found, same = run(at)
            np.testing.assert_array_equal(found, (at @ w + c).astype(np.float32))
            np.testing.assert_array_equal(same, at)

    def test_values_say_what_is_known(self):
        b = tenon.graph.Builder()
        x, unknown = b.input("x", "f16", ["n", 4, None]), b.input("u")
        self.assertEqual((x.name, x.dtype, x.shape[:2], x.builder), ("x", "f16", ["n", 4], b))
        self.assertEqual((unknown.dtype, unknown.shape), (None, None))
        self.assertEqual(repr(b.input("z", "i64", ["n", 2])), "<tenon graph value z: i64[n, 2]>")
        self.assertEqual(repr(unknown), "<tenon graph value u: ?[?]>")
        self.assertEqual(nodes.concat([x, x], axis=1).shape[:2], ["n", 8])
        self.assertEqual(nodes.shape(x).dtype, "i64")

    def test_attributes_are_those_of_calls(self):
        ops, x = library(), np.ones(3, np.float32)
        node = tenon.graph.ops.pytest.weigh
        for given in ({}, {"b": True, "i": -3, "f": 0.25}, {"s": "äb", "c": "two"}, {"ints": [1, 2], "floats": (0.5, 1)}, {"strs": ["abc", "d"], "may": None}, {"d": np.int8}):
            b = tenon.graph.Builder()
            graph = b.finish(node(b.input("x", "f32", [3]), **given))
            self.assertEqual(float(graph.compile()(x)), float(ops.weigh(x, **given)), given)
        b = tenon.graph.Builder()
        v = b.input("x", "f32", [3])
        for given in {"i": 1.5}, {"s": 3}, {"ints": "12"}, {"b": "yes"}, {"i": None}, {"c": "three"}, {"d": "f33"}, {"q": 1}, {"x": v}:
            texts = []
            for call in lambda: ops.weigh(x, **given), lambda: node(v, **given):
                with self.assertRaises((TypeError, tenon.InvalidError)) as caught:
                    call()
                texts.append((type(caught.exception), str(caught.exception)))
            self.assertEqual(*texts)

    def test_lists_optionals_several_results_and_names_of_pythons(self):
        library()
        sum_all = tenon.graph.ops.pytest.sum_all
        b = tenon.graph.Builder()
        x, scale = b.input("x", "f32", [3]), b.input("scale", "f32", [])
        values, indices = nodes.top_k(x, b.constant(np.array([2])))
        first, second = nodes.split(x, b.constant(np.array([1, 2])), axis=0, count=2)
        graph = b.finish({"plain": sum_all([x, x]), "scaled": sum_all((x, x), scale=scale), "values": values, "indices": indices, "first": first, "second": second,
                          "negated": tenon.graph.ops.pytest.negated(x), "either": nodes.or_(nodes.greater(x, 2), nodes.less(x, 1.5))})
        x = np.float32([1, 3, 2])
        expected = 12, 24, [3, 2], [1, 2], [1], [3, 2], -x, [True, True, False]
        for (name, _, _), found, right in zip(graph.outputs, graph.compile()(x, np.float32(2)), expected):
            np.testing.assert_array_equal(found, right, name)

    def test_numbers_take_the_dtype_of_the_first_tensor(self):
        b = tenon.graph.Builder()
        h, i = b.input("h", "f16", [2]), b.input("i", "i64", [2])
        half, less, mixed = nodes.add(h, 2.5), nodes.sub(10, i), nodes.add(True, i)
        self.assertEqual((half.dtype, less.dtype, mixed.dtype), ("f16", "i64", "i64"))
        with self.assertRaisesRegex(tenon.InvalidError, "expected i64"):
            nodes.add(i, 2.5)
        with self.assertRaisesRegex(TypeError, "core::add: argument b: no dtype is known for the number 1"):
            nodes.add(tenon.graph.Builder().input("u"), 1)
        run = b.finish([half, less, mixed]).compile()
        found = run(np.float16([1, 2]), np.array([3, 4]))
        for one, right in zip(found, (np.float16([3.5, 4.5]), [7, 6], [4, 5])):
            np.testing.assert_array_equal(one, right)

    def test_what_is_written_to_is_a_result(self):
        library()
        b = tenon.graph.Builder()
        y, x = b.input("y", "f32", [2]), b.input("x", "f32", [2])
        graph = b.finish({"sum": tenon.graph.ops.pytest.add_to(y, x, alpha=2), "copy": nodes.copy(x, b.input("to", "f32", [2]))})
        given = [np.float32([1, 2]), np.float32([3, 4]), np.float32([0, 0])]
        found = graph.compile()(*given)
        np.testing.assert_array_equal(found[0], [7, 10])
        np.testing.assert_array_equal(found[1], [3, 4])
        np.testing.assert_array_equal(given[0], [1, 2])

    def test_graphs_as_attributes(self):
        b = tenon.graph.Builder()
        x = b.input("x", "f32", ["n"])
        result, = nodes.if_(b.input("yes", "bool", []), [x], then=condition_graph(nodes.neg), else_=condition_graph(nodes.exp), count=1)
        run = b.finish({"y": result}).compile()
        x = np.float32([0, 1])
        np.testing.assert_array_equal(run(x, np.array(True)), -x)
        np.testing.assert_allclose(run(x, np.array(False)), np.exp(x), rtol=1e-6)
        with self.assertRaisesRegex(TypeError, "argument then: expected a graph, found 3"):
            nodes.if_(x, [x], then=3, else_=3, count=1)

    def test_constants_are_copied_unless_said(self):
        for copies, expected in (True, [1, 1]), (False, [2, 2]):
            b, data = tenon.graph.Builder(), np.ones(2, np.float32)
            graph = b.finish(nodes.mul(b.input("x", "f32", [2]), b.constant(data, copy=copies)))
            data[:] = 2
            del b
            gc.collect()
            np.testing.assert_array_equal(graph.compile(plain=True)(np.ones(2, np.float32)), expected)
        b = tenon.graph.Builder()
        texts = b.constant(np.array(["a", "bc"]))
        strided = b.constant(np.arange(6, dtype=np.float32).reshape(2, 3).T)
        number = b.constant(2.5)
        self.assertEqual((texts.dtype, strided.shape, number.dtype, number.shape), ("string", [3, 2], "f32", []))
        found = b.finish([nodes.string_concat(texts, texts), strided]).compile()()
        self.assertEqual((found[0].tolist() if hasattr(found[0], "tolist") else found[0], found[1].tolist()), (["aa", "bcbc"], [[0, 3], [1, 4], [2, 5]]))
        with self.assertRaisesRegex(TypeError, "constant: argument data: expected a tensor"):
            tenon.graph.Builder().constant([1, 2])

    def test_operators_without_tensors_are_told_their_builder(self):
        b = tenon.graph.Builder()
        value = nodes.empty(shape=[2, 3], dtype="f32", builder=b)
        self.assertEqual(value.shape, [2, 3])
        with self.assertRaisesRegex(TypeError, r"core::empty\(\) has no value among its arguments: say builder="):
            nodes.empty(shape=[2, 3])
        with self.assertRaisesRegex(TypeError, "builder: expected a tenon.graph.Builder, found <class 'int'>"):
            nodes.empty(shape=[2, 3], builder=3)

    def test_misuse(self):
        b, other = tenon.graph.Builder(), tenon.graph.Builder()
        x, foreign = b.input("x", "f32", ["n", 4]), other.input("x", "f32", [4])
        for call, error, words in (
                (lambda: nodes.add(x, np.ones(4, np.float32)), TypeError, r"core::add: argument b: expected a value of a graph, found <class 'numpy.ndarray'>: a tensor becomes one by builder.constant\(x\)"),
                (lambda: nodes.add(x, "x"), TypeError, "expected a value of a graph, found <class 'str'>"),
                (lambda: nodes.concat(x, axis=0), TypeError, "core::concat: argument xs: expected a list of values, found <class 'tenon.graph.Value'>"),
                (lambda: nodes.concat([x, 1], axis=0), TypeError, "argument xs: expected a value of a graph, found <class 'int'>"),
                (lambda: core.add(x, x), TypeError, "core::add: argument a: expected a tensor .*, found <class 'tenon.graph.Value'>"),
                (lambda: nodes.add(x, foreign), tenon.InvalidError, "core::add: argument b: a value of another builder than the others"),
                (lambda: nodes.add(x, x, builder=other), tenon.InvalidError, "argument a: a value of another builder"),
                (lambda: nodes.add(x), TypeError, r"core::add\(\) needs argument b, a value of a graph"),
                (lambda: nodes.add(x, x, x), TypeError, "at most 2 positional arguments, 3 were given"),
                (lambda: nodes.add(x, x, out=x), TypeError, "core::add: out: results of a node cannot be given"),
                (lambda: nodes.einsum_backward(x, [x], equation="ij->ij"), TypeError, "how many tensors its result .* is"),
                (lambda: nodes.ad, AttributeError, "no operator 'core::ad'; did you mean"),
                (lambda: tenon.graph.ops.nobody, AttributeError, "no operator whose name begins with nobody"),
                (lambda: b.input("x", "f32"), tenon.ExistsError, "two values named 'x'"), (lambda: b.input("", "f32"), tenon.InvalidError, "an input without a name"),
                (lambda: b.input("q", "f33"), tenon.InvalidError, "'f33' is no dtype"), (lambda: b.input("q", "f32", [-1]), tenon.InvalidError, "input q: extent 0: expected .*, found -1"),
                (lambda: b.input("q", "f32", [1.5]), tenon.InvalidError, "extent 0"), (lambda: b.input("q", "f32", [""]), tenon.InvalidError, "extent 0"),
                (lambda: b.input("q", "f32", "nm"), tenon.InvalidError, "shape: expected a list"), (lambda: b.input("q", "f32", [1] * 65), tenon.InvalidError, "at most 64 extents"),
                (lambda: b.finish({"y": foreign}), tenon.InvalidError, "output y: a value of another builder"), (lambda: b.finish([x, 3]), TypeError, "output output_1: expected a value"),
                (lambda: b.finish({3: x}), TypeError, "names of outputs are texts"), (lambda: b.finish({}), tenon.InvalidError, "without outputs"),
                (lambda: b.finish(3), TypeError, "outputs: expected"), (lambda: tenon.graph.Value(), TypeError, "cannot be made this way"),
                (lambda: tenon.graph.Builder(3), TypeError, "")):
            with self.assertRaisesRegex(error, words):
                call()
        graph = b.finish({"y": nodes.neg(x)})  # none of them left anything behind
        self.assertEqual(graph.text().count("core::"), 1)
        for call in lambda: nodes.neg(x), lambda: b.input("z"), lambda: b.constant(1.0), lambda: b.finish(x), lambda: x.shape:
            with self.assertRaisesRegex(tenon.InvalidError, "the builder has finished its graph"):
                call()
        self.assertEqual(repr(x), "<tenon graph value, its builder has finished>")

    def test_a_node_that_cannot_be_is_an_error_of_its_line_and_is_not_there(self):
        b = tenon.graph.Builder()
        x, w = b.input("x", "f32", [2, 4]), b.constant(np.zeros((3, 4), np.float32))
        with self.assertRaisesRegex(tenon.InvalidError, r"node 'product' \(core::matmul\)"):
            nodes.matmul(x, w, name="product")
        with self.assertRaisesRegex(tenon.InvalidError, "i64"):
            nodes.add(x, b.constant(np.arange(4)))
        graph = b.finish(nodes.matmul(x, nodes.transpose(w)))
        self.assertEqual(graph.outputs, [("output", "f32", [2, 3])])

    def test_the_namespaces_come_and_go_with_their_library(self):
        path, gone = built("examples/01_gelu/gelu.c"), os.path.join(FOLDER, "gone.so")
        with open(path, "rb") as file, open(gone, "wb") as to:
            to.write(file.read())
        self.assertNotIn("demo", dir(tenon.graph.ops))
        demo = tenon.load(gone, unloadable=True)
        self.assertIn("demo", dir(tenon.graph.ops))
        self.assertEqual(dir(tenon.graph.ops.demo), dir(tenon.ops.demo))
        gelu = tenon.graph.ops.demo.gelu
        b = tenon.graph.Builder()
        graph = b.finish(gelu(b.input("x", "f32", [5])))
        x = np.linspace(-2, 2, 5, dtype=np.float32)
        np.testing.assert_array_equal(graph.compile()(x), tenon.ops.demo.gelu(x))
        with self.assertRaises(tenon.Error):
            demo.unload()  # the graph uses it
        del graph
        gc.collect()
        demo.unload()
        self.assertNotIn("demo", dir(tenon.graph.ops))
        b = tenon.graph.Builder()
        with self.assertRaisesRegex(tenon.Error, "demo::gelu: its library was unloaded"):
            gelu(b.input("x", "f32", [5]))

    def test_nothing_grows(self):
        x, ones = np.ones((2, 4), np.float32), np.ones(4, np.float32)

        def build():
            b = tenon.graph.Builder()
            v = b.input("x", "f32", ["n", 4])
            return b.finish(nodes.clip(nodes.add(v, b.constant(ones)), 0, 2, name="limit"))

        def fail():
            b = tenon.graph.Builder()
            try:
                nodes.add(nodes.concat([b.input("x", "f32", [3]), 3], axis=0), 1)
            except TypeError:
                pass
        np.testing.assert_array_equal(build().compile()(x), x + 1)
        self.assertEqual(leaks([build, fail], 20000), [])

    def test_signature_help_and_stubs(self):
        library()
        weigh = tenon.graph.ops.pytest.weigh
        signature = inspect.signature(weigh)
        self.assertEqual(list(signature.parameters), ["x", "b", "i", "f", "s", "c", "ints", "floats", "strs", "may", "d", "name", "builder"])
        self.assertEqual((signature.parameters["x"].annotation, signature.return_annotation, signature.parameters["c"].default), ("Value", "Value", "one"))
        self.assertIn("Adds its attributes up.", weigh.__doc__)
        self.assertEqual((weigh.__name__, weigh.name, repr(tenon.graph.ops["pytest::fails"])), ("weigh", "pytest::weigh", "<tenon graph operator fails(Tensor x) -> Tensor>"))
        tree = ast.parse(stubs.stubs("pytest", {"sum_all": tenon.ops.pytest.sum_all}))
        made = next(c for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "PytestNodes")
        self.assertEqual(ast.unparse(made.body[0].args), "self, x: Sequence[Value], scale: Value | None=None, *, name: str | None=None, builder: Builder | None=None")
        self.assertEqual(ast.unparse(made.body[0].returns), "Value")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    wrong = len(result.failures) + len(result.errors)
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    print(f"{result.testsRun - wrong - len(result.skipped)} passed, {wrong} failed, {len(result.skipped)} skipped")
    sys.exit(wrong > 0)
