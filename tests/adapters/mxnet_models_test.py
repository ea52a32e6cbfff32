"""MXNet's model files as graphs, against what real MXNet gives for them, in a process of its own (mxnet_models_oracle.py)."""
import atexit
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import tenon
import tenon.graph

import mxnet_oracle
import totals

FOLDER = tempfile.mkdtemp(prefix="tenon-mxnet-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
bridge, core = ctypes.CDLL(os.path.join(BUILD, "libtenon_mxnet.so")), ctypes.CDLL(os.path.join(BUILD, "libtenon.so"))
core.tenon_error.restype = ctypes.c_char_p


def load(path):
    """The graph of a model file, by way of a file of Tenon's own."""
    graph, copy = ctypes.c_void_p(), os.path.join(FOLDER, "copy.onnx")
    if bridge.mxnet_model_read(path.encode(), None, ctypes.byref(graph)):
        raise tenon.Error(core.tenon_error().decode())
    status = core.tenon_graph_save(graph, copy.encode())
    core.tenon_graph_release(graph)
    if status:
        raise tenon.Error(core.tenon_error().decode())
    return tenon.graph.load(copy)


class AgainstMXNet(unittest.TestCase):
    """Every rule and whole nets."""
    parts = 0

    @classmethod
    def setUpClass(cls):
        if not mxnet_oracle.python():
            raise unittest.SkipTest("there is no MXNet 1.9.1: .venv-mxnet-1.9, or TENON_MXNET_1_9=PYTHON")
        cls.folder = os.environ.get("MXO") or FOLDER
        if not os.environ.get("MXO"):
            oracle = [mxnet_oracle.python(), os.path.join(ROOT, "tests", "adapters", "mxnet_models_oracle.py"), FOLDER]
            done = subprocess.run(oracle, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr[-3000:])
        with open(os.path.join(cls.folder, "names.json"), encoding="utf-8") as file:
            cls.names = json.load(file)

    def test_models_give_what_mxnet_gives(self):
        for name in self.names:
            with self.subTest(name):
                self.check(name)
                AgainstMXNet.parts += 1

    def check(self, name):
        stored = np.load(os.path.join(self.folder, name + ".npz"))
        inputs = {key[3:]: stored[key] for key in stored.files if key.startswith("in_")}
        graph = load(os.path.join(self.folder, name + "-symbol.json"))
        self.assertEqual(sorted(port[0] for port in graph.inputs), sorted(inputs))
        self.assertEqual([port[0] for port in graph.outputs], list(stored["names"]))
        found = graph.compile()(**inputs)
        for i, value in enumerate(found if isinstance(found, tuple) else (found,)):
            expected, value = stored[f"out_{i}"], np.asarray(value)
            self.assertEqual((value.dtype, value.shape), (expected.dtype, expected.shape), f"output {i}")
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max(initial=0)), err_msg=f"output {i}")


if __name__ == "__main__":
    totals.main(lambda: max(0, AgainstMXNet.parts - 1))
