"""Compares models that a generator of tests/models_gen has written with ONNX Runtime, at each size of their inputs.

A generator writes NAME.onnx and, beside it, NAME.npz with the inputs of each size as INPUT.SIZE.  The base class runs the generator in the
environment of its framework, or takes a folder where it has been run before."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402

# The table of docs/models.md: the relative tolerance, and the absolute one as a share of the largest element (or of 1).
TOLERANCES = {np.dtype(np.float64): (1e-7, 1e-8), np.dtype(np.float32): (1e-4, 1e-5), np.dtype(np.float16): (1e-2, 5e-3)}


def as_array(value):
    """A list of maps as the matrix of its values, in the order of the keys of the first map."""
    return np.array([list(row.values()) for row in value], np.float32) if isinstance(value, list) else np.asarray(value)


class GeneratedModels(unittest.TestCase):
    """The base of the tests of one generator."""
    FOLDER = ""  # the variable that names a folder with models
    PYTHON = Path()
    GENERATOR = []  # the program in tests/models_gen, with its arguments behind the folder
    REFUSED = {}  # models that this runtime refuses, with the reason in docs/models.md that its message contains

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(os.environ.get(cls.FOLDER, ""))
        if cls.FOLDER in os.environ:
            return
        if not cls.PYTHON.exists():
            raise unittest.SkipTest(f"{cls.PYTHON} is missing (make setup makes it)")
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        program, *options = cls.GENERATOR
        made = subprocess.run([cls.PYTHON, ROOT / "tests/models_gen" / program, cls.folder, *options], capture_output=True, text=True)
        print(made.stdout, end="")
        if made.returncode:
            raise AssertionError(made.stderr)

    def agree(self, path):
        """Compares one model; returns why it was not compared, or None."""
        data = np.load(path.with_suffix(".npz"), allow_pickle=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            return f"ONNX Runtime refuses it: {str(error).splitlines()[0][:120]}"
        if path.stem in self.REFUSED:
            self.assertIn(f"| `{self.REFUSED[path.stem]}` |", (ROOT / "docs/models.md").read_text())
            with self.assertRaisesRegex(Exception, re.escape(self.REFUSED[path.stem])):
                tenon.graph.load(path)
            return f"refused: {self.REFUSED[path.stem]}"
        executable = tenon.graph.load(path).compile()
        names = [port.name for port in session.get_inputs()]
        for size in sorted({key.rsplit(".", 1)[1] for key in data}):
            values = {name: data[f"{name}.{size}"] for name in names}
            try:
                expected = session.run(None, values)
            except Exception as error:
                return f"ONNX Runtime does not run it: {' '.join(str(error).split())[:160]}"
            coarsest = max((TOLERANCES.get(value.dtype, (0, 0)) for value in values.values()), default=(0, 0))
            found = executable(**values)
            for port, got, wanted in zip(session.get_outputs(), found if isinstance(found, tuple) else (found,), expected):
                with self.subTest(model=path.stem, size=size, output=port.name):
                    self.equal(as_array(got), as_array(wanted), coarsest)
        return None

    def equal(self, got, wanted, coarsest):
        """Compares one result; `coarsest` is the tolerance of the inputs, which a float cannot be better than."""
        self.assertEqual(got.shape, wanted.shape)
        if wanted.dtype.kind in "OUS":
            self.assertEqual([str(text) for text in got.ravel()], [str(text) for text in wanted.ravel()])
            return
        self.assertEqual(got.dtype, wanted.dtype)
        relative, absolute = max(TOLERANCES[wanted.dtype], coarsest) if wanted.dtype.kind == "f" else (0, 0)
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
        largest = max(1.0, float(np.max(finite, initial=0)))
        self.assertTrue(np.allclose(got, wanted, relative, absolute * largest, equal_nan=True),
                        f"largest difference {np.max(np.abs(got.astype(np.float64) - wanted), initial=0)} of {largest}")

    def compare_all(self, models, least):
        """Compares all models and asserts that at least so many of them were compared."""
        others = {}
        for path in models:
            with self.subTest(model=path.stem):
                why = self.agree(path)
                if why:
                    others[path.stem] = why
        for name, why in others.items():
            print(f"skip: {name}: {why}")
        self.assertGreaterEqual(len(models) - len(others), least)
