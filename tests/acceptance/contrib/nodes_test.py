"""Single nodes of ONNX Runtime's own operators in Tenon and in ONNX Runtime. Run with a Python that has NumPy, onnx and onnxruntime (.venv)."""
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests/acceptance/contrib"), str(ROOT / "tests/adapters")]

import nodes  # noqa: E402
import tenon  # noqa: E402
import totals  # noqa: E402


def reference(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)


def results(model, feed):
    graph = tenon.graph.load(model)
    found = graph.compile()(**feed)
    return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]


def difference(case, found, expected):
    """What is wrong with a result; None: nothing."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"found {found.dtype} {found.shape}, expected {expected.dtype} {expected.shape}"
    if not expected.size:
        return None
    finite = np.isfinite(expected)
    if not np.array_equal(np.isfinite(found), finite) or not np.array_equal(found[~finite], expected[~finite], equal_nan=expected.dtype.kind in "fc"):
        return "other elements are finite, or infinite"
    found, expected = found[finite], expected[finite]
    if not expected.size:
        return None
    if expected.dtype.kind in "iub":
        gap = np.abs(found.astype(np.int64) - expected.astype(np.int64))
        wrong = gap.max() > case.near or np.mean(gap > 0) > (case.share if case.near else 0)
        return f"differs by up to {gap.max()} in {np.mean(gap > 0):.2%} of the elements" if wrong else None
    gap = np.max(np.abs(found.astype(np.float64) - expected.astype(np.float64)))
    largest = max(1.0, np.max(np.abs(expected.astype(np.float64))))
    return f"differs by {gap:.3g}, the largest element is {largest:.3g}" if gap > case.near * largest else None


class Nodes(unittest.TestCase):
    def check(self, case):
        model, feed = case.model().SerializeToString(), case.feed()
        expected = reference(case.instead.model().SerializeToString(), case.instead.feed()) if case.instead else reference(model, feed)
        for i, (y, wish) in enumerate(zip(results(model, feed), expected, strict=True)):
            for output, index in case.undefined:
                if output == i:
                    y, wish = y.copy(), wish.copy()
                    y[index] = wish[index] = 0
            wrong = difference(case, y, wish)
            self.assertIsNone(wrong, f"output {i}: {wrong}")


class Forms(unittest.TestCase):
    """What nodes become, which decides their speed."""
    def operators(self, name):
        case = next(case for case in nodes.cases() if case.name == name)
        return [node.op for node in tenon.graph.load(case.model().SerializeToString()).nodes]

    def test_attention_becomes_the_fused_operator(self):
        for name in ("Attention mask, causal 1", "MultiHeadAttention all masks", "GroupQueryAttention rotary", "QAttention int8"):
            with self.subTest(name=name):
                self.assertEqual(self.operators(name).count("core::attention"), 1)
                self.assertNotIn("core::softmax", self.operators(name))

    def test_packed_weights_stay_packed_unless_they_are_permuted(self):
        self.assertIn("core::matmul_nbits", self.operators("MatMulNBits 4 bits, blocks of 32, k 96, zero points u8, float32, bias"))
        self.assertEqual(self.operators("MatMulNBits groups"), ["core::matmul"])

    def test_packed_weights_stay_packed_when_a_model_is_written(self):
        cases = [case for case in nodes.cases() if case.name.startswith("MatMulNBits") and "groups" not in case.name]
        self.assertGreaterEqual(len(cases), 10)
        for case in cases:
            with self.subTest(case.name), tempfile.TemporaryDirectory() as folder:
                graph = tenon.graph.load(case.model().SerializeToString())
                graph.export(folder + "/again.onnx")
                again = tenon.graph.load(folder + "/again.onnx")
                self.assertEqual([(node.op, node.attributes) for node in again.nodes if node.op == "core::matmul_nbits"],
                                 [(node.op, node.attributes) for node in graph.nodes if node.op == "core::matmul_nbits"])
                self.assertEqual(again.inputs, graph.inputs)
                feed = case.feed()
                np.testing.assert_array_equal(again.compile()(**feed), graph.compile()(**feed))

    def test_packed_weights_of_an_unknown_size_are_refused(self):
        builder = tenon.graph.Builder()
        x, weights = builder.input("x", "f32", [2, None]), builder.constant(np.zeros((3, 2, 8), np.uint8))
        y = tenon.graph.ops.core.matmul_nbits(x, weights, builder.constant(np.ones((3, 2), np.float32)), block_size=16, name="product")
        with self.assertRaisesRegex(tenon.Error, r"node 'product' \(core::matmul_nbits\): the extents of its weights are not known"):
            builder.finish({"y": y}).export("/nowhere/model.onnx")

    def test_quantised_products_are_of_integers(self):
        for name in ("QGemm columns", "DynamicQuantizeMatMul uint8", "MatMulIntegerToFloat int8"):
            with self.subTest(name=name):
                self.assertIn("core::matmul_integer", self.operators(name))


class Device(unittest.TestCase):
    """What devices compute by other operators."""
    def test_packed_products(self):
        compared = 0
        for case in nodes.cases():
            if case.kind != "MatMulNBits" or case.inputs[0].dtype != np.float32:
                continue
            with self.subTest(case.name):
                model, feed = case.model().SerializeToString(), case.feed()
                expected = reference(case.instead.model().SerializeToString(), case.instead.feed()) if case.instead else reference(model, feed)
                found = tenon.graph.load(model).compile("sim")(**{name: tenon.tensor(x, device="sim") for name, x in feed.items()})
                self.assertIsNone(difference(case, np.asarray(found.to("cpu")), expected[0]))
                compared += 1
        self.assertGreaterEqual(compared, 10)


def add_tests():
    for case in nodes.cases():
        name = "test_" + "".join(c if c.isalnum() else "_" for c in case.name)
        assert not hasattr(Nodes, name), f"two cases are named {case.name}"
        setattr(Nodes, name, lambda self, case=case: self.check(case))


add_tests()

if __name__ == "__main__":
    totals.main()
