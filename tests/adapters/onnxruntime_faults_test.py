"""Faulty libraries for ONNX Runtime: each fault is one error that describes it, nothing stays half done, and the next call works."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-onnxruntime-faults-")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np

import tenon
import totals

SOURCES = os.path.join(ROOT, "tests", "adapters", "onnxruntime_libraries")
x = np.arange(6, dtype=np.float32).reshape(2, 3)
checked = {"faults": 0}

LOADS = {  # what the error says
    "newer": ["registered no operators", "version 99", "versions 1 to 31"],
    "status": ["RegisterCustomOps failed: I want ONNX Runtime 9"],
    "throw": ["RegisterCustomOps failed: it throws an exception: thrown by the library"],
    "throw_number": ["RegisterCustomOps failed: it throws an exception that is no std::exception"],
    "nothing": ["RegisterCustomOps registered no operators"],
    "unserved": ["RegisterCustomOps failed: Tenon does not serve the function CreateSessionOptions"],
    "null_domain": ["CreateCustomOpDomain: the name is NULL"],
    "null_op": ["CustomOpDomain_Add: the operator is NULL"],
    "early_release": ["released a domain that it had registered"],
    "names": ["operators 'a-b' and 'a_b' have one name, faulty_ops::a_b"],
    "null_name": ["has the name 'NULL'"],
    "gpu": ["all 1 operators are for other devices than the CPU"],
    "element": ["faulty_ops::one: input 0 has element type 99"],
    "many_inputs": ["faulty_ops::one: it has 70 inputs and 1 outputs: expected at most 64 inputs"],
    "no_outputs": ["faulty_ops::one: it has 1 inputs and 0 outputs"],
    "count_throws": ["faulty_ops::one: it throws an exception: thrown by the library"],
    "characteristic": ["faulty_ops::one: input 0 has an unknown characteristic"],
    "variadic_first": ["faulty_ops::one: input 0 is variadic, but it is not the last one"],
    "no_create": ["faulty_ops::one: it has no function CreateKernel"],
    "no_compute": ["faulty_ops::one: it has no function KernelCompute"],
    "no_destroy": ["faulty_ops::one: it has no function KernelDestroy"],
    "version_0": ["faulty_ops::one has version 0: expected 1 to 31"],
    "overloads": ["faulty_ops::one: its overloads differ"],
    "aliases": ["faulty_ops::one: its alias map names an input or an output that it lacks"],
}
CALLS = {  # what the error says
    "run_status": ["today I do not run"],
    "run_empty_status": ["it gave no reason"],
    "run_throw": ["it throws an exception: thrown by the library"],
    "run_throw_number": ["it throws an exception that is no std::exception"],
    "run_nothing": ["its kernel returned without output 0"],
    "run_output_5": ["it writes output 5 of a node with 1 outputs"],
    "run_input_5": ["it reads input 5 of a node with 1 inputs"],
    "run_negative": ["output 0 has a negative extent -3"],
    "run_huge": ["a result cannot have the shape that its kernel gives"],
    "run_unserved": ["Tenon does not serve the function CreateSessionOptions of ONNX Runtime's interface"],
    "run_strings": ["FillStringTensorElement: the tensor has dtype f32, not string"],
    "run_loop": ["in a parallel loop it throws an exception: thrown by the library"],
    "run_resource": ["resource 20000 (version 3) does not exist"],
    "inner_shape": ["InvokeOp: result 0 of Relu has another dtype or shape"],
    "inner_unknown": ["Relux"],
    "create_status": ["today I create nothing"],
    "create_throw": ["it throws an exception: thrown by the library"],
    "create_input": ["input 4 does not exist: the node has 1"],
    "create_attribute": ["faulty_ops::create_attribute has no attribute 'count'"],
    "infer_throw": ["InferOutputShapeFn failed: it throws an exception: thrown by the library"],
    "infer_other": ["result output0 has room for 1 dimensions, found 2"],
}


def build():
    """Compiles the library, once; a copy of the file is another library."""
    made, objects = os.path.join(FOLDER, "libfaults.so"), os.path.join(FOLDER, "faults.o")
    if not os.path.exists(made):
        subprocess.run(["cc", "-std=gnu11", "-w", "-O1", "-fPIC", "-fexceptions", "-fvisibility=hidden", "-c", os.path.join(SOURCES, "faults.c"), "-o", objects], check=True)
        subprocess.run(["c++", "-shared", "-fPIC", objects, os.path.join(SOURCES, "thrower.cc"), "-o", made], check=True)
    return made


def copy(name):
    made = os.path.join(FOLDER, f"lib{name}.so")
    shutil.copy(build(), made)
    return made


class Faults(unittest.TestCase):
    def refused(self, words, call):
        with self.assertRaises(tenon.Error) as caught:
            call()
        text = str(caught.exception)
        for word in words:
            self.assertIn(word, text)
        checked["faults"] += 1
        return text

    def test_a_library_that_registers_wrongly_is_refused(self):
        for name, words in LOADS.items():
            with self.subTest(fault=name):
                os.environ["ORT_FAULT"] = name
                try:
                    self.refused(["cannot load", *words], lambda: tenon.load(copy(name)))
                finally:
                    del os.environ["ORT_FAULT"]
                self.assertNotIn("faulty_ops::one", tenon._core.names())

    def test_a_library_that_needs_onnx_runtime_itself_is_refused(self):
        fake, made = os.path.join(FOLDER, "libonnxruntime.so.1"), os.path.join(FOLDER, "liblinked.so")
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libonnxruntime.so.1", "-o", fake], check=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-fexceptions", os.path.join(SOURCES, "faults.c"), "-Wl,--no-as-needed", fake, "-o", made], check=True)
        os.remove(fake)
        self.refused(["libonnxruntime.so.1", "linked against ONNX Runtime itself"], lambda: tenon.load(made))

    def test_a_library_without_the_entry_is_refused(self):
        made = os.path.join(FOLDER, "libhidden.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-fvisibility=hidden", "-DRegisterCustomOps=RegisterOps", os.path.join(SOURCES, "faults.c"), "-o", made], check=True)
        self.refused(["does not export"], lambda: tenon.load(made))

    def test_a_failing_operator_is_an_error_of_its_call(self):
        ops = tenon.load(build())
        for name, words in CALLS.items():
            with self.subTest(fault=name):
                self.refused([name, *words], lambda: getattr(ops, name)(x))
                np.testing.assert_array_equal(ops.good(x), x)

    def test_a_status_of_the_shape_function_leaves_the_shape_to_the_kernel(self):
        ops = tenon.load(build())
        for name in "infer_status", "infer_output_3":
            np.testing.assert_array_equal(getattr(ops, name)(x), x)

    def test_a_crash_in_isolation_is_an_error_of_its_call(self):
        program = f"""
import numpy as np, tenon
ops = tenon.load({copy('isolated')!r}, isolated={{"deadline": 1.0}})
x = np.arange(6, dtype=np.float32)
assert (ops.good(x) == x).all()
for name, word in (("run_crash", "SIGSEGV"), ("run_forever", "deadline"), ("run_status", "today I do not run"), ("run_throw", "thrown by the library")):
    try:
        getattr(ops, name)(x)
    except tenon.Error as error:
        assert word in str(error), error
    else:
        raise SystemExit(f"{{name}} did not fail")
    assert (ops.good(x) == x).all()
print("good")
"""
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}, capture_output=True, text=True)
        self.assertEqual(done.stdout, "good\n", done.stderr)
        checked["faults"] += 4


if __name__ == "__main__":
    totals.main(lambda: checked["faults"])
