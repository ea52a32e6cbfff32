"""onnxruntime-extensions from PyPI, loaded unmodified: its operators give ONNX Runtime's results.

The two runtimes are in processes of their own, because the library has one table of functions in static memory.
"""
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np

import onnxruntime_extensions_cases
import onnxruntime_models as models
import totals

try:
    import onnxruntime_extensions
except ImportError:
    onnxruntime_extensions = None

compared = {"operators": 0}
PEER = """
import pickle, sys
import onnxruntime_extensions, onnxruntime_extensions_cases as cases, onnxruntime_models as models
found = {}
for op, (domain, inputs, attributes, outputs) in cases.CASES.items():
    session = models.session(models.model(domain, op, inputs, attributes, outputs, symbolic=True), onnxruntime_extensions.get_library_path())
    found[op] = session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})
pickle.dump(found, open(sys.argv[1], "wb"))
"""


@unittest.skipUnless(onnxruntime_extensions, "onnxruntime-extensions is not installed")
class Extensions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = onnxruntime_extensions.get_library_path()

    def test_operators_equal_onnx_runtime(self):
        import tenon

        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([sys.executable, "-c", PEER, file.name], cwd=os.path.dirname(os.path.abspath(__file__)), check=True)
            wanted = pickle.load(file)
        tenon.load(self.path)
        for op, (domain, inputs, attributes, outputs) in onnxruntime_extensions_cases.CASES.items():
            with self.subTest(operator=op), tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                file.write(models.model(domain, op, inputs, attributes, outputs, symbolic=True))
                file.flush()
                made = tenon.graph.load(file.name).compile()(*inputs)
                made = list(made) if isinstance(made, (tuple, list)) else [made]
                for found, expected in zip(made, wanted[op], strict=True):
                    found = np.asarray(found)
                    found = found.astype(object) if expected.dtype == object else found
                    self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
                    np.testing.assert_array_equal(found, expected)
                compared["operators"] += 1

    def test_operators_are_called_by_name(self):
        import tenon

        tenon.load(self.path)
        self.assertEqual(list(tenon.ops.ai_onnx_contrib.StringUpper(np.array(["abc"], object))), ["ABC"])

    def test_a_process_without_cpython_refuses_the_library(self):
        done = subprocess.run([os.path.join(BUILD, "tenon"), "ops", self.path], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        for words in ("it is an extension module of CPython: load it from Python", "it uses Py", "which neither it nor the libraries that it needs define"):
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    totals.main(lambda: compared["operators"])
