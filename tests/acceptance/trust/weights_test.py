"""Weights at any address of their file: exporters align nothing, so most weights are copied when the model is read, and the copy is given up when a
kernel has packed them. Whoever reads them afterwards (another executable, a saved model, a failure dump, the program) finds the values of the file.
Reference values are NumPy's."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402
import totals  # noqa: E402

COUNT, SIDE = 8, 1024
BYTES = COUNT * SIDE * SIDE * 4
LATER = r"""
#include <stdio.h>
#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0], *b = call->inputs[1];
  const float *x = (const float *)a->data, *w = (const float *)b->data;
  float *y = (float *)call->outputs[0]->data;
  const int64_t k = b->shape[0], n = b->shape[1];
  fputs("later\n", stderr);
  for (int64_t i = 0; i < a->shape[0]; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t t = 0; t < k; t++) sum += (double)x[i * k + t] * w[t * n + j];
      y[i * n + j] = (float)sum;
    }
  return TENON_OK;
}
TENON_LIBRARY(later, "1.0.0", TENON_EXTEND("core::matmul", TENON_KERNEL("cpu f32", run)))
"""
LATE_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tenon
model = tenon.graph.load(sys.argv[2]).compile(plain=True)
tenon.load(sys.argv[3])
np.save(sys.argv[5], np.asarray(model(np.load(sys.argv[4]))))
"""
PEAK = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tenon

def kib(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

before = kib("VmRSS")
model = tenon.graph.load(sys.argv[2]).compile()
x = np.ones((4, 1024), np.float32)
for _ in range(3):
    model(x)
print((kib("VmHWM") - before) << 10)
"""


def write(path):
    """A chain of products and tanh, whose weights lie at all remainders of four. Returns the weights."""
    random = np.random.default_rng(0)
    weights = [(random.standard_normal((SIDE, SIDE)) / 32).astype(np.float32) for _ in range(COUNT)]
    nodes = []
    for i in range(COUNT):
        nodes.append(h.make_node("MatMul", [f"t{i}" if i else "x", "w" * (i + 1)], [f"p{i}"]))
        nodes.append(h.make_node("Tanh", [f"p{i}"], [f"t{i + 1}" if i < COUNT - 1 else "y"]))
    constants = [numpy_helper.from_array(weight, "w" * (i + 1)) for i, weight in enumerate(weights)]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [4, SIDE])], [h.make_tensor_value_info("y", T.FLOAT, [4, SIDE])], constants)
    data = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()
    path.write_bytes(data)
    places = {data.index(weight.tobytes()) % 4 for weight in weights}
    assert len(places) > 2, f"the weights lie at the remainders {places} only"
    return weights


class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls.folder.name) / "chain.onnx"
        cls.weights = write(cls.path)
        cls.x = np.random.default_rng(1).standard_normal((4, SIDE)).astype(np.float32)
        y = cls.x.astype(np.float64)
        for weight in cls.weights:
            y = np.tanh(y @ weight.astype(np.float64))
        cls.y = y

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, model):
        np.testing.assert_allclose(np.asarray(model(self.x)), self.y, rtol=1e-4, atol=1e-5)

    def test_a_run_has_the_weights_in_memory_once(self):
        said = subprocess.run([sys.executable, "-c", PEAK, BUILD / "python", self.path], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertLess(int(said.stdout), 1.6 * BYTES)

    def test_executables_of_one_graph_have_all_weights(self):
        graph = tenon.graph.load(self.path)
        first = graph.compile()
        self.check(first)
        second = graph.compile()
        self.check(second)
        del first
        self.check(second)
        del second
        self.check(graph.compile(plain=True))

    def test_a_saved_graph_has_all_weights_after_a_run(self):
        graph = tenon.graph.load(self.path)
        self.check(graph.compile())
        saved = Path(self.folder.name) / "saved.onnx"
        graph.save(saved)
        found = [numpy_helper.to_array(tensor) for tensor in onnx.load(saved).graph.initializer]
        self.assertEqual(len(found), COUNT)
        for weight in self.weights:
            self.assertTrue(any(np.array_equal(weight, other) for other in found))

    def test_a_kernel_that_is_loaded_after_the_compilation_has_the_weights(self):
        folder = Path(self.folder.name)
        (folder / "later.c").write_text(LATER)
        subprocess.run([BUILD / "tenon", "build", "later.c"], cwd=folder, check=True, capture_output=True)
        np.save(folder / "x.npy", self.x)
        run = subprocess.run([sys.executable, "-c", LATE_RUN, BUILD / "python", self.path, folder / "later.so", folder / "x.npy", folder / "y.npy"],
                             capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, "later\n" * COUNT))
        np.testing.assert_allclose(np.load(folder / "y.npy"), self.y, rtol=1e-4, atol=1e-5)

    def test_a_recorded_call_has_the_weights(self):
        graph = tenon.graph.load(self.path)
        model = graph.compile()
        self.check(model)
        with tempfile.TemporaryDirectory() as dumps:
            with tenon.record(dumps, all=True):
                model(self.x)
            found = [np.load(path) for path in Path(dumps).rglob("*.npy")]
        for weight in self.weights:
            self.assertTrue(any(array.shape == weight.shape and np.array_equal(weight, array) for array in found))


if __name__ == "__main__":
    totals.main()
