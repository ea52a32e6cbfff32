"""ONNX Runtime's own test libraries, compiled unmodified from its source tree, and their operators beside ONNX Runtime.

ONNXRUNTIME_SOURCE names the source tree; without it these tests are skipped.  `make onnxruntime-source` runs them.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np

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
    """Compiles the sources of a test library, without those for GPUs, into one file for each runtime."""
    made, include = os.path.join(FOLDER, f"lib{folder}.so"), os.path.join(SOURCE, "include", "onnxruntime")
    if not os.path.exists(made):
        base = os.path.join(TESTDATA, folder)
        sources = [os.path.join(where, name) for where, _, names in os.walk(base) for name in names if name.endswith(".cc")]
        common = os.path.join(FOLDER, "common.h")
        with open(common, "w", encoding="utf-8") as file:
            file.write("#pragma once\n#include <iostream>\n#include <stdexcept>\n#include <string>\n#define ORT_UNUSED_PARAMETER(x) (void)(x)\n")
        paths = [os.path.join(include, "core", "session"), include, os.path.join(SOURCE, "onnxruntime"), base, FOLDER]
        subprocess.run(["c++", "-std=c++17", "-w", "-O1", "-fPIC", "-shared", *("-I" + p for p in paths), *sources, "-o", made], check=True)
        shutil.copy(made, made.replace("/lib", "/peer-"))
    return made, made.replace("/lib", "/peer-")


def load_graph(data):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(data)
        file.flush()
        return tenon.graph.load(file.name).compile()


@unittest.skipUnless(SOURCE, "ONNXRUNTIME_SOURCE names no source tree of ONNX Runtime (make onnxruntime-source ONNXRUNTIME_SOURCE=DIR)")
class Source(unittest.TestCase):
    def same(self, data, fed, peer):
        wanted = models.session(data, peer).run(None, fed)
        made = load_graph(data)(*fed.values())
        for found, expected in zip(made if isinstance(made, (tuple, list)) else [made], wanted, strict=True):
            self.assertEqual(np.asarray(found).dtype, expected.dtype)
            np.testing.assert_array_equal(found, expected)
        compared["cases"] += 1

    def test_operators_of_custom_op_library(self):
        path, peer = compile_library("custom_op_library")
        tenon.load(path)
        for domain in "test.customop", "v2":
            for op, inputs, attributes, outputs, version in CASES:
                with self.subTest(op=op, domain=domain, shapes=[x.shape for x in inputs]):
                    self.same(models.model(domain, op, inputs, attributes, outputs, version=version), {f"x{k}": x for k, x in enumerate(inputs)}, peer)

    def test_models_of_custom_op_library(self):
        path, peer = compile_library("custom_op_library")
        tenon.load(path)
        for name in "copy_2_inputs_2_outputs", "copy_3_inputs_3_outputs":
            with self.subTest(model=name), open(os.path.join(TESTDATA, "custom_op_library", name + ".onnx"), "rb") as file:
                data = file.read()
                session = models.session(data, peer)
                self.same(data, {x.name: f(*(d if isinstance(d, int) else 4 for d in x.shape)) for x in session.get_inputs()}, peer)

    def test_operators_of_custom_op_local_function(self):
        path, peer = compile_library("custom_op_local_function")
        tenon.load(path)
        for inputs in [f(3, 4), f(4, 2)], [f(1, 1), f(1, 5), f(5)]:
            with self.subTest(inputs=len(inputs)):
                self.same(models.model("onnx_extented.ortops.tutorial.cpu", "CustomGemmFloat", inputs), {f"x{k}": x for k, x in enumerate(inputs)}, peer)

    def test_constant_inputs_of_custom_op_get_const_input_test_library(self):
        path, peer = compile_library("custom_op_get_const_input_test_library")
        tenon.load(path)
        right, wrong = np.array([[1, 2], [3, 4]], np.float32), np.array([[1, 2], [3, 5]], np.float32)
        for weights, fits in (right, True), (wrong, False):
            data = models.model("test.customop", "custom op", [f(2, 2), weights], constants=(1,))
            with self.subTest(fits=fits):
                for load in lambda: models.session(data, peer), lambda: load_graph(data):
                    if fits:
                        load()
                    else:
                        self.assertRaisesRegex(Exception, "wrong value", load)
                compared["cases"] += 1


if __name__ == "__main__":
    totals.main(lambda: compared["cases"])
