"""ONNX Runtime's libraries of custom operators, loaded unmodified: beside real ONNX Runtime, by name, in models and in isolation."""
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

import onnxruntime_cases
import onnxruntime_models as models
import tenon
import totals

SOURCES = os.path.join(ROOT, "tests", "adapters", "onnxruntime_libraries")
HEADERS = os.environ.get("ONNXRUNTIME_SOURCE")  # a source tree of ONNX Runtime: the libraries are also built against its header
FOLDER = tempfile.mkdtemp(prefix="tenon-onnxruntime-")
VERSIONS = 10, 18, 25
compared = {"cases": 0}


def build(source, name, *flags, compiler="cc"):
    """Compiles a test library, once."""
    made = os.path.join(FOLDER, f"lib{name}.so")
    if not os.path.exists(made):
        standard = "-std=gnu11" if compiler == "cc" else "-std=c++17"
        subprocess.run([compiler, standard, "-Wall", "-Wextra", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", *flags, os.path.join(SOURCES, source), "-o", made], check=True)
    return made


def library(version):
    return build("ops.c", f"ops_{version}", f"-DAPI={version}")


def peer(path):
    """Returns a copy of a library for ONNX Runtime: a library keeps the table of functions of one runtime in static memory."""
    copy = os.path.join(FOLDER, "peer-" + os.path.basename(path))
    if not os.path.exists(copy):
        shutil.copy(path, copy)
    return copy


def session_folder():
    return os.path.join(HEADERS, "include", "onnxruntime", "core", "session")


def same(test, found, wanted):
    found = np.asarray(found)
    if wanted.dtype == object:
        found = found.astype(object)
    test.assertEqual(found.dtype, wanted.dtype)
    test.assertEqual(found.shape, wanted.shape)
    np.testing.assert_array_equal(found, wanted)


def listed(made):
    return list(made) if isinstance(made, (tuple, list)) else [made]


def load_graph(data):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(data)
        file.flush()
        return tenon.graph.load(file.name).compile()


class Cases(unittest.TestCase):
    """Every case in ONNX Runtime and in Tenon: as a model with known and with symbolic extents, and by name."""

    def one(self, path, domain, case):
        data, fed = case.model(domain), case.feeds()
        if case.fails:
            with self.assertRaises(Exception):
                models.session(data, peer(path)).run(None, fed)
            with self.assertRaises(tenon.Error) as caught:
                load_graph(data)(*fed.values())
            self.assertIn(case.fails, str(caught.exception))
            return
        wanted = models.session(data, peer(path)).run(None, fed)
        for symbolic in False, True:
            run = load_graph(case.model(domain, symbolic))
            for _ in range(2):
                for found, expected in zip(listed(run(*fed.values())), wanted, strict=True):
                    same(self, found, expected)
        if case.constants or case.tail:
            return
        op = getattr(getattr(tenon.ops, domain.replace(".", "_")), case.op)
        attributes = dict(case.attributes)
        if any(isinstance(v, np.ndarray) for v in attributes.values()):
            return  # a tensor as an attribute needs a model
        is_list = any(p["kind"] == "Tensor[]" for p in op.parameters)
        if is_list and case.outputs > 1:
            attributes["_count"] = case.outputs
        made = listed(op(list(case.inputs), **attributes) if is_list else op(*case.inputs, **attributes))
        made = listed(made[0]) if is_list and case.op == "CopyAll" else made
        for found, expected in zip(made, wanted):
            same(self, found, expected)

    def all(self, version, path):
        tenon.load(path)
        for name, case in onnxruntime_cases.CASES.items():
            if case.since > version:
                continue
            with self.subTest(case=name, version=version):
                self.one(path, f"test.api{version}", case)
                compared["cases"] += 1

    def test_libraries_written_for_1_10_equal_onnx_runtime(self):
        self.all(10, library(10))

    def test_libraries_written_for_1_18_equal_onnx_runtime(self):
        self.all(18, library(18))

    def test_libraries_written_for_1_25_equal_onnx_runtime(self):
        self.all(25, library(25))

    def test_a_library_in_cpp_whose_failures_are_exceptions(self):
        path = build("plain.cc", "plain", "-DAPI=10", compiler="c++")
        tenon.load(path)
        words = np.array(["a", "", "Grüße"], object)
        for attributes, inputs, fails in ({"separator": ", "}, words, None), ({"separator": ""}, words[:1], None), ({"separator": "-"}, words[:0], "there is nothing to join"), ({}, words, "separator"):
            with self.subTest(attributes=attributes, count=len(inputs)):
                self.one(path, "test.plain", onnxruntime_cases.Case("Join", [inputs], attributes, fails=fails))
                compared["cases"] += 1

    def test_the_command_runs_models_and_describes_libraries(self):
        path, x = library(18), np.array([1, -2, 3], np.float32)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "m.onnx"), "wb") as file:
                file.write(models.model("test.api18", "Scale", [x], {"factor": 0.5}))
            np.save(os.path.join(folder, "x.npy"), x)
            command = [os.path.join(BUILD, "tenon"), "run", "m.onnx", "--ops", path, "--input", "x0=@x.npy", "--output-dir", "."]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(np.load(os.path.join(folder, "y0.npy")), x / 2)
        said = subprocess.run([os.path.join(BUILD, "tenon"), "doctor", path], capture_output=True, text=True).stdout
        self.assertIn("a library of custom operators for ONNX Runtime", said)

    @unittest.skipUnless(HEADERS, "ONNXRUNTIME_SOURCE names no source tree of ONNX Runtime")
    def test_libraries_built_against_the_original_header_equal_onnx_runtime(self):
        for version in 16, 22:
            header = f"-DORT_HEADER=<onnxruntime_c_api.h>"
            self.all(version, build("ops.c", f"original_{version}", f"-DAPI={version}", header, "-I" + session_folder()))


if __name__ == "__main__":
    totals.main(lambda: compared["cases"])
