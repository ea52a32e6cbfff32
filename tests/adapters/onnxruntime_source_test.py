"""ONNX Runtime's own test libraries, compiled unmodified from its source tree, and their operators beside ONNX Runtime.

ONNXRUNTIME_SOURCE names the source tree; without it these tests are skipped.  `make onnxruntime-source` runs them.
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
import onnx

import onnxruntime_models as models
import tenon
import totals

SOURCE = os.environ.get("ONNXRUNTIME_SOURCE", "")
TESTDATA = os.path.join(SOURCE, "onnxruntime", "test", "testdata")
FOLDER = tempfile.mkdtemp(prefix="tenon-onnxruntime-source-")
compared = {"cases": 0}


def f(*shape, scale=1.0):
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 2) * np.float32(scale)


def i(*items):
    return np.array(items, np.int32)


CASES = [  # the operator, inputs, attributes, the number of results, the version of the domain
    *[("CustomOpOne", [f(*s), f(*s, scale=0.5)], {}, 1, 1) for s in ((3, 5), (2,), (4, 1, 2))],
    *[("CustomOpTwo", [f(*s, scale=0.7)], {}, 1, 1) for s in ((3, 5), (1000,), (1,))],
    *[("MulTop", [f(4, scale=s)], {}, 1, 1) for s in (1.5, -2.0)],
    *[("MulTop", [i(*x)], {}, 1, 1) for x in ((3, 4), (-5, 7, 9))],
    *[("Fuse", [f(*a), f(*b), i(k)], {}, 1, v) for a, b, k, v in (((5,), (5,), 2, 10), ((5,), (3,), 3, 11), ((1,), (4,), -1, 12))],
    *[("Select", [i(*x)], {}, 1, 1) for x in ((1, 2, 3, 4), (1, 3), (8, 6, 4))],
    *[("Filter", [f(*s)], {}, 1, v) for s, v in (((7,), 15), ((3, 4), 16), ((2,), 17))],
    *[("Box", x, {}, n, 1) for x, n in (([f(2), f(3)], 1), ([f(2), f(3), f(4)], 2), ([f(1), f(1), f(1)], 2))],
    *[("CopyTensorArrayAllVariadic", [f(k + 1, 2) for k in range(n)], {}, n, 1) for n in (1, 2, 3, 7)],
    *[("CopyTensorArrayCombined", [f(k + 1, 2) for k in range(n)], {}, n, 1) for n in (2, 3, 9)],
    *[("AttrTesterString", [f(*s)], {"a_string": "iamastring", "strings": ["more", "strings"]}, 1, 1) for s in ((5,), (2, 2))],
]


def compile_library(folder):
    """Compiles the sources of a test library, as they are; common.h stands for headers of ONNX Runtime's own build."""
    made, include = os.path.join(FOLDER, f"lib{folder}.so"), os.path.join(SOURCE, "include", "onnxruntime")
    if not os.path.exists(made):
        base = os.path.join(TESTDATA, folder)
        sources = [os.path.join(where, name) for where, _, names in os.walk(base) for name in names if name.endswith(".cc")]
        common = os.path.join(FOLDER, "common.h")
        with open(common, "w", encoding="utf-8") as file:
            file.write("#pragma once\n#include <iostream>\n#include <stdexcept>\n#include <string>\n#define ORT_UNUSED_PARAMETER(x) (void)(x)\n")
        paths = [os.path.join(include, "core", "session"), include, os.path.join(SOURCE, "onnxruntime"), base, FOLDER]
        subprocess.run(["c++", "-std=c++17", "-w", "-O1", "-fPIC", "-shared", *("-I" + p for p in paths), *sources, "-o", made], check=True)
    return made


def load_graph(data):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(data)
        file.flush()
        return tenon.graph.load(file.name).compile()


PEER = """
import pickle, sys
import onnxruntime_models as models
library, runs = pickle.load(open(sys.argv[1], "rb"))
found = []
for data, fed in runs:
    try:
        session = models.session(data, library)
        found.append(session.run(None, fed) if fed is not None else [(x.name, x.shape) for x in session.get_inputs()])
    except Exception as error:
        found.append(str(error))
pickle.dump(found, open(sys.argv[1], "wb"))
"""


def run_peer(library, runs):
    """Runs models in ONNX Runtime; a failure gives its message, and a model without inputs the names and shapes of its inputs.

    It has a process of its own: ONNX Runtime's classes keep the table of functions in one variable of the whole process.
    """
    with tempfile.NamedTemporaryFile() as file:
        pickle.dump((library, runs), file)
        file.flush()
        subprocess.run([sys.executable, "-c", PEER, file.name], cwd=os.path.dirname(os.path.abspath(__file__)), check=True)
        with open(file.name, "rb") as made:
            return pickle.load(made)


@unittest.skipUnless(SOURCE, "ONNXRUNTIME_SOURCE names no source tree of ONNX Runtime (make onnxruntime-source ONNXRUNTIME_SOURCE=DIR)")
class Source(unittest.TestCase):
    def same(self, library, runs):
        for k, ((data, fed), wanted) in enumerate(zip(runs, run_peer(library, runs), strict=True)):
            with self.subTest(model=k):
                self.assertNotIsInstance(wanted, str)
                made = load_graph(data)(*fed.values())
                for found, expected in zip(made if isinstance(made, (tuple, list)) else [made], wanted, strict=True):
                    self.assertEqual(np.asarray(found).dtype, expected.dtype)
                    np.testing.assert_array_equal(found, expected)
                compared["cases"] += 1

    def test_operators_of_custom_op_library(self):
        library = compile_library("custom_op_library")
        tenon.load(library)
        runs = []
        for domain in "test.customop", "v2":
            for op, inputs, attributes, outputs, version in CASES:
                typed = onnx.TensorProto.FLOAT if op.startswith("Copy") else None
                runs.append((models.model(domain, op, inputs, attributes, outputs, version=version, typed=typed), {f"x{k}": x for k, x in enumerate(inputs)}))
        self.same(library, runs)

    def test_models_of_custom_op_library(self):
        library = compile_library("custom_op_library")
        tenon.load(library)
        files = []
        for name in "copy_2_inputs_2_outputs", "copy_3_inputs_3_outputs":
            with open(os.path.join(TESTDATA, "custom_op_library", name + ".onnx"), "rb") as file:
                files.append(file.read())
        inputs = run_peer(library, [(data, None) for data in files])
        self.same(library, [(data, {name: f(*(d if isinstance(d, int) else 4 for d in shape)) for name, shape in of}) for data, of in zip(files, inputs)])

    def test_operators_of_custom_op_local_function(self):
        library = compile_library("custom_op_local_function")
        tenon.load(library)
        runs = []
        for inputs in [f(3, 4), f(4, 2)], [f(1, 1), f(1, 5), f(5)]:
            runs.append((models.model("onnx_extented.ortops.tutorial.cpu", "CustomGemmFloat", inputs), {f"x{k}": x for k, x in enumerate(inputs)}))
        self.same(library, runs)

    def test_constant_inputs_of_custom_op_get_const_input_test_library(self):
        library = compile_library("custom_op_get_const_input_test_library")
        tenon.load(library)
        right, wrong = np.array([[1, 2], [3, 4]], np.float32), np.array([[1, 2], [3, 5]], np.float32)
        runs = [(models.model("test.customop", "custom op", [f(2, 2), weights], constants=(1,)), None) for weights in (right, wrong)]
        created, failed = run_peer(library, runs)
        self.assertNotIsInstance(created, str)
        self.assertIn("wrong value", failed)
        load_graph(runs[0][0])
        self.assertRaisesRegex(tenon.Error, "wrong value", lambda: load_graph(runs[1][0]))
        compared["cases"] += 2


if __name__ == "__main__":
    totals.main(lambda: compared["cases"])
