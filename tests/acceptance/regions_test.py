#!/usr/bin/env python3
"""Operators of a library that `tenon build` makes, in the middle of pointwise nodes, of a block of a transformer, of MiniLM and of ResNet-50: loops and kernels of rows run in
one region with the built-in nodes around them, tile by tile, and give the bits of the plain run. Reference values are NumPy's. Options: --build DIR
(build); the others go to unittest."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "bench/micro/blocks.c"
sys.path.insert(0, str(ROOT / "bench/models"))
from put_blocks import put_blocks  # noqa: E402

build = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
folder = tempfile.TemporaryDirectory()
DTYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16}


def tenon(*arguments):
    result = subprocess.run([build / "tenon", *map(str, arguments)], capture_output=True, text=True, cwd=folder.name, timeout=120,
                            env={**os.environ, "TENON_CACHE": folder.name})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


class Model:
    """A graph of ONNX nodes; those of the library are written as blocks.NAME."""

    def __init__(self, **inputs):
        self.inputs, self.constants, self.nodes = inputs, {}, []

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, op, *inputs, count=1, **attributes):
        domain, _, name = op.rpartition(".")
        names = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(name, inputs, names, name=f"n{len(self.nodes)}", domain=domain, **attributes))
        return names[0] if count == 1 else names

    def save(self, outputs, dtype):
        ports = [helper.make_tensor_value_info(name, DTYPES[value.dtype], value.shape) for name, value in self.inputs.items()]
        results = [helper.make_tensor_value_info(name, dtype, None) for name in outputs]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "test", ports, results, constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("blocks", 1)]
        path = pathlib.Path(folder.name) / "model.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
        return path


class Regions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tenon("build", SOURCE, "-o", "blocks.so")

    def run_both(self, model, outputs, dtype=TensorProto.FLOAT):
        """Runs the model in regions and plainly. Returns the dump of the plan and the outputs, which have the same bits both times."""
        path, inputs = model.save(outputs, dtype), []
        for name, value in model.inputs.items():
            np.save(f"{folder.name}/{name}.npy", value)
            inputs += ["-i", f"{name}=@{name}.npy"]
        dump = tenon("run", path, "--ops", "./blocks.so", *inputs, "--dump", "plan", "-o", "full")
        plain = tenon("run", path, "--ops", "./blocks.so", *inputs, "--dump", "plan", "-o", "plain", "--optimize", "plain")
        self.assertNotIn("region of", plain)
        found = [np.load(f"{folder.name}/full/{name}.npy") for name in outputs]
        for name, value in zip(outputs, found):
            self.assertEqual(value.tobytes(), np.load(f"{folder.name}/plain/{name}.npy").tobytes(), name)
        return dump, found

    def regions(self, dump):
        """The operators of the members of each region, in their order."""
        parts = re.split(r"(?m)^  action \d+: region of \d+:", dump)[1:]
        return [re.findall(r"(?m)^    (?:loop|link|call)  \S+  (\S+) \[", part) for part in parts]

    def chain(self, dtype):
        random = np.random.default_rng(1)
        x = random.standard_normal((50, 7, 96)).astype(dtype)
        per_row = random.standard_normal((50, 7, 1)).astype(dtype)
        bias, gain = (random.standard_normal(96).astype(dtype) for _ in range(2))
        m = Model(x=x, per_row=per_row)
        a = m.add("Add", "x", m.constant(bias))
        a = m.add("blocks.affine", a, scale=0.5, shift=0.25)
        a = m.add("blocks.gate", "x", m.add("Mul", a, "per_row"))
        centred, mean = m.add("blocks.centre", m.add("Tanh", a), count=2)
        a = m.add("blocks.rms", m.add("Add", centred, "x"), m.constant(gain))
        y = m.add("Sub", m.add("Mul", a, mean), "x")
        return m, (x, per_row, bias, gain), y, mean

    def check_chain(self, dtype, tolerance):
        m, (x, per_row, bias, gain), y, mean = self.chain(dtype)
        dump, (found, found_mean) = self.run_both(m, [y, mean], DTYPES[np.dtype(dtype)])
        self.assertEqual(self.regions(dump), [["core::add", "blocks::affine", "core::mul", "blocks::gate", "core::tanh", "blocks::centre", "core::add",
                                               "blocks::rms", "core::mul", "core::sub"]])
        self.assertRegex(dump, r"tile: \d+ of 350 rows of 96 elements")
        self.assertIn("ends here: no other node of this stage reads its values", dump)
        wide, rows, shift, scale = (value.astype(np.float64) for value in (x, per_row, bias, gain))
        t = np.tanh(wide * np.maximum(((wide + shift) * 0.5 + 0.25) * rows, 0))
        expected_mean = t.mean(-1, keepdims=True)
        r = t - expected_mean + wide
        expected = r / np.sqrt((r * r).mean(-1, keepdims=True) + 1e-5) * scale * expected_mean - wide
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found_mean, expected_mean, rtol=tolerance, atol=tolerance)

    def test_a_chain_with_two_loops_and_two_kernels_of_rows_of_a_library_is_one_region(self):
        self.check_chain(np.float32, 1e-5)

    def test_so_is_the_chain_in_f16_whose_values_the_kernels_get_as_f32(self):
        self.check_chain(np.float16, 2e-2)

    def test_a_block_of_a_transformer_has_them_in_the_regions_between_its_products(self):
        random = np.random.default_rng(2)
        width, heads = 128, 4

        def weight(*shape):
            return m.constant((random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

        m = Model(x=random.standard_normal((2, 64, width)).astype(np.float32))
        split = m.constant(np.array([0, 0, heads, width // heads]))
        q, k, v = (m.add("Transpose", m.add("Reshape", m.add("Add", m.add("MatMul", "x", weight(width, width)), weight(width)), split),
                         perm=[0, 2, 3, 1] if part == 1 else [0, 2, 1, 3]) for part in range(3))
        scores = m.add("blocks.affine", m.add("MatMul", q, k), scale=(width // heads) ** -0.5)
        mixed = m.add("Transpose", m.add("MatMul", m.add("Softmax", scores), v), perm=[0, 2, 1, 3])
        mixed = m.add("MatMul", m.add("Reshape", mixed, m.constant(np.array([0, 0, width]))), weight(width, width))
        a = m.add("Add", m.add("Add", mixed, weight(width)), "x")
        centred, _ = m.add("blocks.centre", a, count=2)
        a = m.add("Add", m.add("blocks.rms", centred, weight(width)), weight(width))
        b = m.add("MatMul", a, weight(width, width))
        b = m.add("blocks.affine", m.add("blocks.gate", b, m.add("Sigmoid", b)), scale=0.5)
        b = m.add("blocks.rms", m.add("Add", m.add("blocks.centre", b, count=2)[0], a), weight(width))
        y = m.add("Softmax", b)
        dump, _ = self.run_both(m, [y])
        regions = self.regions(dump)
        self.assertIn(["blocks::affine", "core::softmax"], regions)
        whole = [region for region in regions if {"blocks::gate", "blocks::affine", "blocks::centre", "blocks::rms"} <= set(region)]
        self.assertEqual(whole, [["core::sigmoid", "blocks::gate", "blocks::affine", "blocks::centre", "core::add", "blocks::rms", "core::softmax"]])
        self.assertRegex(dump, r"ends here: \S+ \(core::\w*matmul\w*\) reads a value of it, but is neither a loop nor a kernel of rows")

    def run_model(self, name, *inputs):
        """Puts the library's operators into a model of the zoo. Returns in how many places, and its regions. Built-in operators in the same places give
        the same numbers."""
        source, found = pathlib.Path(os.environ.get("TENON_ZOO", build / "zoo")) / f"{name}.onnx", []
        if not source.exists():
            self.skipTest(f"{source} is missing (scripts/zoo.sh makes it)")
        for is_library in True, False:
            path = f"{folder.name}/{name}.onnx"
            count = put_blocks(source, path, is_library)
            dump = tenon("run", path, "--ops", "./blocks.so", *(word for value in inputs for word in ("-i", value)), "--dump", "plan", "-o", "model")
            found.append((self.regions(dump), np.load(next(pathlib.Path(folder.name, "model").glob("*.npy")))))
        (regions, result), (_, expected) = found
        self.assertLess(np.abs(result - expected).max(), 1e-3 * np.abs(expected).max())
        return count, regions

    def test_minilm_has_the_four_operators_in_the_regions_behind_its_normalisations(self):
        count, regions = self.run_model("minilm_16", "input_ids=ramp", "attention_mask=ones")
        four = ["blocks::affine", "blocks::gate", "blocks::centre", "blocks::rms"]
        self.assertEqual(count, 12)
        self.assertEqual(sum(four == [op for op in region if op.startswith("blocks::")] for region in regions), count)
        self.assertEqual(sum(["core::add", "core::layer_norm", *four, "core::add"] == region for region in regions), count - 1)

    def test_resnet_has_the_loops_in_regions_of_channels_and_the_kernels_of_rows_in_those_of_rows(self):
        count, regions = self.run_model("resnet50", "random:0")
        self.assertEqual(count, 15)
        self.assertEqual(regions.count(["blocks::affine", "blocks::gate"]), count)
        self.assertEqual(regions.count(["blocks::centre", "blocks::rms", "core::add"]), count)


if __name__ == "__main__":
    if "--build" in sys.argv:
        at = sys.argv.index("--build")
        build = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at:at + 2]
    unittest.main()
