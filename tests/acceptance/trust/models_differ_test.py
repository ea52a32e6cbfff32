"""Models that ONNX Runtime runs: nodes out of order, samples beyond a border, averages of windows larger than their input,
transforms of signals without an axis of parts.  The numbers agree with ONNX Runtime's, or with exact ones where ONNX Runtime's sums lose digits."""
import itertools
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402
import totals  # noqa: E402


def model(nodes, inputs, outputs, opset=20, weights=()):
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(name, T.FLOAT, shape) for name, shape in inputs.items()],
                         [h.make_tensor_value_info(name, T.FLOAT, None) for name in outputs], list(weights))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=9)


def by_runtime(proto, values):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, values)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "m.onnx")

    def by_tenon(self, proto, values):
        onnx.save(proto, self.path)
        found = tenon.graph.load(self.path).compile()(**values)
        return found if isinstance(found, tuple) else (found,)

    def agree(self, proto, values, tolerance=1e-5):
        for found, expected in zip(self.by_tenon(proto, values), by_runtime(proto, values)):
            self.assertEqual(found.shape, expected.shape)
            self.assertLessEqual(float(np.max(np.abs(found - expected), initial=0)), tolerance * max(1, float(np.max(np.abs(expected), initial=0))))


class Order(Case):
    """Nodes in any order."""
    def chain(self):
        nodes = [h.make_node("Neg", ["x"], ["v0"])]
        for i in range(1, 30):
            nodes.append(h.make_node("Add" if i % 3 else "Mul", [f"v{i - 1}", f"v{i // 2}"], [f"v{i}"], name=f"n{i}"))
        return nodes

    def test_shuffled_nodes(self):
        for seed in range(6):
            nodes = self.chain()
            random.Random(seed).shuffle(nodes)
            proto = model(nodes, {"x": [5]}, ["v29"])
            with self.subTest(seed=seed):
                self.agree(proto, {"x": np.linspace(-1, 1, 5, dtype=np.float32)})

    def test_values_that_only_a_body_uses(self):
        then = h.make_graph([h.make_node("Add", ["late", "x"], ["t"])], "then", [], [h.make_tensor_value_info("t", T.FLOAT, None)])
        otherwise = h.make_graph([h.make_node("Neg", ["x"], ["e"])], "else", [], [h.make_tensor_value_info("e", T.FLOAT, None)])
        nodes = [h.make_node("If", ["condition"], ["y"], then_branch=then, else_branch=otherwise),
                 h.make_node("Abs", ["x"], ["late"]), h.make_node("Greater", ["total", "zero"], ["condition"]),
                 h.make_node("ReduceSum", ["x"], ["total"], keepdims=0)]
        proto = model(nodes, {"x": [3]}, ["y"], weights=[h.make_tensor("zero", T.FLOAT, [], [0.0])])
        ordered = model([nodes[3], nodes[2], nodes[1], nodes[0]], {"x": [3]}, ["y"], weights=[h.make_tensor("zero", T.FLOAT, [], [0.0])])
        for x in (np.ones(3, np.float32), -np.ones(3, np.float32)):
            self.assertTrue(np.array_equal(self.by_tenon(proto, {"x": x})[0], by_runtime(ordered, {"x": x})[0]))

    def test_the_command_notes_it(self):
        onnx.save(model([h.make_node("Neg", ["late"], ["y"], name="first"), h.make_node("Abs", ["x"], ["late"])], {"x": [2]}, ["y"]), self.path)
        run = subprocess.run([BUILD / "tenon", "run", self.path, "-i", "ones"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("tenon: note: node 'first' (Neg) uses 'late' before", run.stderr)
        self.assertEqual(run.stderr.count("note:"), 1)

    def test_ten_thousand_nodes_backwards(self):
        nodes = [h.make_node("Add", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(10000)]
        nodes[0].input[0] = "x"
        found, = self.by_tenon(model(nodes[::-1], {"x": [1]}, ["v10000"]), {"x": np.ones(1, np.float32)})
        self.assertEqual(float(found[0]), 10001)


class Sampling(Case):
    """GridSample where ONNX Runtime and PyTorch agree."""
    def test_every_mode(self):
        rng = np.random.default_rng(3)
        values = {"x": rng.standard_normal((2, 3, 7, 9)).astype(np.float32), "grid": (rng.uniform(-2, 2, (2, 6, 5, 2))).astype(np.float32)}
        for mode, padding, align in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
            with self.subTest(mode=mode, padding=padding, align=align):
                node = h.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=align)
                self.agree(model([node], {"x": [2, 3, 7, 9], "grid": [2, 6, 5, 2]}, ["y"]), values)


class Averages(Case):
    """AveragePool of windows that are large, or larger than their input."""
    def pool(self, shape, exact=False, **attributes):
        x = (np.random.default_rng(1).standard_normal(shape) + 10).astype(np.float32)
        proto = model([h.make_node("AveragePool", ["x"], ["y"], **attributes)], {"x": shape}, ["y"], opset=19)
        if not exact:
            return self.agree(proto, {"x": x})
        found, = self.by_tenon(proto, {"x": x})
        expected = x.astype(np.float64).mean((2, 3), keepdims=True)
        self.assertLessEqual(float(np.max(np.abs(found - expected))), 1e-6)

    def test_windows_larger_than_the_input(self):
        for kernel, stride in ((640, 640), (7, 6), (3, 2)):
            for include in (0, 1):
                with self.subTest(kernel=kernel, include=include):
                    self.pool([2, 5, 2, 2], kernel_shape=[kernel] * 2, strides=[stride] * 2, ceil_mode=1, count_include_pad=include)

    def test_large_windows(self):
        for shape, attributes in (([1, 3, 64, 300], dict(kernel_shape=[9, 40], pads=[2, 3, 4, 5], count_include_pad=1)),
                                  ([2, 5, 40, 40], dict(kernel_shape=[31, 31], pads=[5] * 4)),
                                  ([2, 4, 50, 70], dict(kernel_shape=[20, 33], strides=[7, 9], dilations=[2, 1], ceil_mode=1, pads=[3, 4, 2, 1])),
                                  ([2, 4, 50, 70], dict(kernel_shape=[20, 33], strides=[7, 9], dilations=[1, 2], pads=[3, 4, 2, 1]))):
            with self.subTest(shape=shape, **attributes):
                self.pool(shape, **attributes)

    def test_sums_of_a_quarter_million_numbers_keep_their_digits(self):
        self.pool([1, 3, 512, 512], exact=True, kernel_shape=[512, 512])
        self.pool([1, 3, 700, 9], exact=True, kernel_shape=[700, 9])

    def test_a_window_that_no_ceil_mode_fits_is_refused(self):
        with self.assertRaisesRegex(Exception, "window spans 7 elements"):
            self.by_tenon(model([h.make_node("AveragePool", ["x"], ["y"], kernel_shape=[7, 7])], {"x": [1, 1, 2, 2]}, ["y"], opset=19),
                          {"x": np.ones((1, 1, 2, 2), np.float32)})


class Transforms(Case):
    """STFT of real signals [batch, length], as PyTorch's TorchScript exporter writes them."""
    def test_signals_without_an_axis_of_parts(self):
        rng = np.random.default_rng(2)
        weights = [h.make_tensor("step", T.INT64, [], [5]), h.make_tensor("window", T.FLOAT, [16], np.hanning(16).astype(np.float32))]
        for onesided in (0, 1):
            node = h.make_node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)
            for axes in ([], [1]):
                with self.subTest(onesided=onesided, axes=axes):
                    x = rng.standard_normal([2, 40] + axes).astype(np.float32)
                    self.agree(model([node], {"x": ["batch", "length"] + axes}, ["y"], weights=weights), {"x": x})


if __name__ == "__main__":
    totals.main()
