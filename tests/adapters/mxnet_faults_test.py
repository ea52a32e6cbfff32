"""Faulty MXNet libraries: each fault is one error with a message that describes it, nothing stays half done, and the next call works."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-mxnet-faults-")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np

import tenon
import totals

SOURCES = os.path.join(ROOT, "tests", "adapters", "mxnet")
x = np.arange(6, dtype=np.float32).reshape(2, 3)
checked = {"faults": 0}


def build(name, *options, operators="faulty.h", throws=False):
    made, objects = os.path.join(FOLDER, f"lib{name}.so"), os.path.join(FOLDER, f"{name}.o")
    flags = ["-std=c11", "-w", "-O1", "-fPIC", "-fexceptions", *([f'-DOPERATORS="{operators}"'] if operators else []), *(["-DTHROWS"] if throws else []), *options]
    subprocess.run(["cc", *flags, "-c", os.path.join(SOURCES, "plain.c"), "-o", objects], check=True)
    subprocess.run(["c++", "-shared", "-fPIC", objects, *([os.path.join(SOURCES, "thrower.cc")] if throws else []), "-o", made, "-lm"], check=True)
    return made


ONE = '{"a_scale", scale_parse, floats, NULL, same_shape, NULL, scale, scale, NULL}'
LOADS = {  # options, what the error says
    "version_9": (["-DVERSION=9"], ["version 9", "expected 7 (MXNet 1.7), 10 (1.8) or 11"]),
    "version_12": (["-DVERSION=12"], ["version 12", "expected 7"]),
    "no_shapes_function": (["-D_opCallInferShape=gone"], ["version 11", "lacks _opCallInferShape"]),
    "no_messages": (["-D_msgGet=gone", "-D_msgSize=gone_too"], ["lacks _msgSize, _msgGet"]),
    "refuses": (["-DINITIALIZE=fail(\"I want MXNet 3\")"], ["initialize(10901) rejected", "I want MXNet 3", "TENON_MXNET_VERSION"]),
    "refuses_silently": (["-DINITIALIZE=0"], ["initialize(10901) rejected"]),
    "wants_2": (["-DINITIALIZE=version>=20000"], ["initialize(10901) rejected"]),
    "no_parse": (['-DFAULT={"a", NULL, floats, NULL, same_shape, NULL, scale, NULL, NULL}'], ["operator a has no function parseAttrs"]),
    "no_dtypes": (['-DFAULT={"a", one_one, NULL, NULL, same_shape, NULL, scale, NULL, NULL}'], ["operator a has no function inferType"]),
    "no_shapes": (['-DFAULT={"a", one_one, floats, NULL, NULL, NULL, scale, NULL, NULL}'], ["operator a has no function inferShape"]),
    "no_forward": (['-DFAULT={"a", one_one, floats, NULL, same_shape, NULL, NULL, NULL, NULL}'], ["operator a has neither forward nor createOpState"]),
    "device": (["-DDEVICE=\"tpu\"", "-DFAULT=" + ONE], ["a_scale", "device 'tpu': expected cpu or gpu"]),
    "name": (['-DFAULT={"a-b", one_one, floats, NULL, same_shape, NULL, scale, NULL, NULL}'], ["operator 'a-b': expected a name of letters, digits and '_'"]),
    "no_name": (['-DFAULT={"", one_one, floats, NULL, same_shape, NULL, scale, NULL, NULL}'], ["an operator has no name"]),
    "twice": ([f"-DFAULT={ONE}, {ONE}"], ["a_scale"]),
}
CALLS = {  # attributes, what the error says
    "shapes_silent": ({}, ["inferShape failed"]), "shapes_say": ({}, ["inferShape failed: this shape I do not like"]),
    "shapes_negative": ({}, ["inferShape returned -3 dimensions for output 0"]), "shapes_many": ({}, ["inferShape returned 1000 dimensions for output 0"]),
    "shapes_huge": ({}, ["4000000000"]), "dtypes_wrong": ({}, ["inferType returned dtype 7 for output 0: expected 0 to 6"]), "dtypes_say": ({}, ["inferType failed: this dtype I do not like"]),
    "storages_wrong": ({}, ["inferSType returned 9 for output 0: expected 0 (dense)"]), "run_silent": ({}, ["forward failed"]), "run_say": ({}, ["forward failed: today I do not run"]),
    "csr_wrong": ({}, ["sparse output 0", "1000"]), "csr_none": ({}, ["did not make sparse result"]), "csr_of_dense": ({}, ["output 0, which is not a sparse output"]),
    "csr_of_other": ({}, ["output 5, which is not a sparse output"]), "writes_other": ({"which": 3}, ["mutateInputs returned input 3, but the operator has 1 inputs"]), "writes_silent": ({"bad": 1}, ["mutateInputs failed"]),
    "parse_negative": ({"bad": 1}, ["parseAttrs returned -4 inputs and 1 outputs"]), "parse_more": ({"more": 1}, ["the operator has 3 inputs and 1 outputs", "parse_more.list"]),
    "create_nothing": ({}, ["createOpState returned no state"]), "create_silent": ({}, ["createOpState failed"]), "huge_memory": ({}, ["forward failed: no memory of -5 bytes"]),
    "run_throws": ({}, ["forward failed: it throws an exception: thrown by the library"]), "run_throws_number": ({}, ["forward failed: it throws an exception that is no std::exception"]),
    "shapes_throw": ({}, ["inferShape failed: it throws an exception: thrown by the library"]), "parse_throws": ({"bad": 1}, ["parseAttrs failed: it throws an exception: thrown by the library"]),
    "good": ({"factor": "much"}, ["parseAttrs failed: factor is no number"]),
}


class Faults(unittest.TestCase):
    def test_libraries_that_do_not_load(self):
        for name, (options, words) in LOADS.items():
            with self.subTest(fault=name):
                path = build(name, *options)
                for _ in range(2):  # and again
                    with self.assertRaises(tenon.Error) as caught:
                        tenon.load(path)
                    for word in [path, *words]:
                        self.assertIn(word, str(caught.exception))
                self.assertNotIn(name, dir(tenon.ops))
                checked["faults"] += 1

    def test_a_library_that_is_told_another_version_loads(self):
        program = f"import sys; sys.path.insert(0, {os.path.join(BUILD, 'python')!r}); import tenon; print(tenon.load({build('wants_two', '-DINITIALIZE=version>=20000', operators=None)!r}).name)"
        run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TENON_MXNET_VERSION": "20000"}, capture_output=True, text=True)
        self.assertEqual(run.stdout.strip(), "wants_two", run.stderr)
        run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TENON_MXNET_VERSION": "two"}, capture_output=True, text=True)
        self.assertIn("TENON_MXNET_VERSION='two': expected a number", run.stderr)

    def test_a_library_that_needs_mxnets_internals_is_explained(self):
        inside = os.path.join(FOLDER, "libmxnet.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", inside, "-Wl,-soname,libmxnet.so"], check=True)
        path = os.path.join(FOLDER, "libinside.so")
        subprocess.run(["cc", "-std=c11", "-w", "-fPIC", "-shared", os.path.join(SOURCES, "plain.c"), "-o", path, "-L" + FOLDER, "-Wl,--no-as-needed", "-lmxnet", "-lm"], check=True)
        os.remove(inside)
        with self.assertRaisesRegex(tenon.Error, "libmxnet.*linked against MXNet itself"):
            tenon.load(path)

    def test_the_doctor_explains_a_version_that_nobody_reads(self):
        told = subprocess.run([os.path.join(BUILD, "tenon"), "doctor", "--load", build("version_8", "-DVERSION=8")], capture_output=True, text=True)
        self.assertEqual(told.returncode, 1)
        self.assertIn("version 8 of MXNet's library interface: expected 7 (MXNet 1.7), 10 (1.8) or 11 (1.9, 2.0)", told.stderr)
        self.assertRegex(told.stdout, "bridge: +mxnet")

    def test_faulty_operators_are_reported(self):
        ops = tenon.load(build("faulty", throws=True))
        for name, (attributes, words) in CALLS.items():
            with self.subTest(fault=name):
                with self.assertRaises(tenon.Error) as caught:
                    getattr(ops, name)(x, **attributes)
                for word in [f"faulty::{name}", *words]:
                    self.assertIn(word, str(caught.exception))
                np.testing.assert_array_equal(ops.good(x, factor=3), 3 * x)
                checked["faults"] += 1

    def test_a_message_is_not_repeated_within_an_error(self):
        ops = tenon.load(build("faulty_again", throws=True))
        for text in ("this shape I do not like", "today I do not run"):
            with self.assertRaises(tenon.Error) as caught:
                (ops.shapes_say if "shape" in text else ops.run_say)(x)
            self.assertEqual(str(caught.exception).count("I do not"), 1)

    def test_version_7_says_why_on_the_standard_output(self):
        with self.assertRaisesRegex(tenon.Error, "inferShape failed.*version 7 print the reason on standard output"):
            tenon.load(build("faulty_7", "-DVERSION=7", throws=True)).shapes_say(x)

    def test_dtypes_and_extents_that_libraries_do_not_know(self):
        ops = tenon.load(build("plain", operators=None))
        for dtype in (np.bool_, np.int16, np.uint16, np.uint32, np.uint64, np.complex64):
            with self.assertRaisesRegex(tenon.InvalidError, "expected f32, f64, f16, u8, i32, i8 or i64, the dtypes of MXNet libraries"):
                ops.t_bytes(np.zeros(3, dtype))
        with self.assertRaisesRegex(tenon.InvalidError, "name=value"):
            ops.t_scale(x, attributes=["factor"])
        with self.assertRaisesRegex(tenon.InvalidError, "2 inputs.*found 1|it has 1 inputs"):
            getattr(ops, "t_gemm.list")([x])
        with self.assertRaisesRegex(tenon.InvalidError, "join needs num_args"):
            ops.t_join([x[0]])
        np.testing.assert_array_equal(ops.t_scale(np.zeros((0, 3), np.float32)), np.zeros((0, 3)))
        np.testing.assert_array_equal(ops.t_scale(np.float32(4)), 8)


if __name__ == "__main__":
    try:
        totals.main(lambda: checked["faults"])
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
