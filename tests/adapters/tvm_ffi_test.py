"""Libraries of tvm-ffi functions in Tenon, and Tenon's operators as functions of tvm-ffi, with the package of this Python.

Everything is built with the headers of the installed package.  Each library is used with libtvm_ffi in the process and without it,
linked to libtvm_ffi.so and not linked to it.  TVM_FFI_CALLS states how many calls are made with flat memory.
"""
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SOURCES = os.path.join(ROOT, "tests", "adapters", "tvm_ffi_libraries")
CASES = os.path.join(ROOT, "tests", "adapters", "tvm_ffi_cases.py")
FOLDER = tempfile.TemporaryDirectory(prefix="tenon-tvm-ffi-")
CALLS = int(os.environ.get("TVM_FFI_CALLS", 20000))
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import tvm_ffi

import tenon
import tenon.tvm_ffi
import totals

PACKAGE = os.path.dirname(tvm_ffi.__file__)
OLD = not os.path.exists(os.path.join(PACKAGE, "include", "tvm", "ffi", "tvm_ffi.h"))  # 0.1.0 has no metadata
x = np.linspace(-2, 2, 5, dtype=np.float32)


def path(name):
    return os.path.join(FOLDER.name, name)


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def compile_kernels():
    """Builds the kernels without a function that needs the global ones, in two ways, and all of them."""
    include = f"-I{os.path.join(PACKAGE, 'include')}"
    flags = ["-std=c++17", "-O1", "-w", "-fPIC", "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1", include]
    jobs = [subprocess.Popen(["c++", *flags, *more, "-c", os.path.join(SOURCES, "kernels.cc"), "-o", path(name)])
            for name, more in (("kernels.o", []), ("all.o", ["-DWITH_GLOBAL"]))]
    if any(job.wait() for job in jobs):
        raise RuntimeError("the kernels do not compile")
    linked = ["-L" + os.path.join(PACKAGE, "lib"), "-ltvm_ffi"]
    for name, source, more in (("libloose.so", "kernels.o", []), ("liblinked.so", "kernels.o", linked), ("liball.so", "all.o", linked)):
        subprocess.run(["c++", "-shared", path(source), "-o", path(name), *more], check=True)


def faulty(name, *options):
    made = path(f"lib{name}.so")
    subprocess.run(["cc", "-std=c11", "-w", "-O1", "-shared", "-fPIC", *options, os.path.join(SOURCES, "faulty.c"), "-o", made], check=True)
    return made


class Layouts(unittest.TestCase):
    def test_the_layouts_are_those_of_the_installed_headers(self):
        made = run("cc", "-std=c11", "-w", "-fsyntax-only", f"-DHAS_SEQUENCES={int(not OLD)}", f"-I{ROOT}/bridges/tvm_ffi", f"-I{ROOT}/include",
                   f"-I{PACKAGE}/include", os.path.join(SOURCES, "layout.c"))
        self.assertEqual((made.returncode, made.stderr), (0, ""))

    def test_the_stand_in_has_only_names_of_the_real_library(self):
        def names(file):
            return set(re.findall(r" [TW] (TVMFFI\w+)", run("nm", "-D", "--defined-only", file).stdout))
        real, own = names(os.path.join(PACKAGE, "lib", "libtvm_ffi.so")), names(os.path.join(BUILD, "bridges", "tvm_ffi", "libtvm_ffi.so"))
        self.assertGreater(len(own), 25)
        later = {"TVMFFIErrorCreateWithCauseAndExtraContext", "TVMFFIHandleInitOnce", "TVMFFIHandleDeinitOnce", "TVMFFITensorCreateUnsafeView"} if OLD else set()
        self.assertEqual(own - real, later)


class InTenon(unittest.TestCase):
    """tests/adapters/tvm_ffi_cases.py in processes of its own."""

    def cases(self, library, part, real, **environment):
        done = run(sys.executable, CASES, path(library), part, TEST_REAL="1" if real else "", TEST_CALLS=str(CALLS), **environment)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "fine\n", ""))

    def test_declared_functions_with_libtvm_ffi(self):
        self.cases("liblinked.so", "declared", True)

    def test_declared_functions_without_libtvm_ffi_of_a_linked_library(self):
        self.cases("liblinked.so", "declared", False)

    def test_declared_functions_without_libtvm_ffi_of_a_library_that_is_not_linked(self):
        self.cases("libloose.so", "declared", False)

    @unittest.skipIf(OLD, "tvm-ffi 0.1.0 has no metadata")
    def test_metadata_with_libtvm_ffi(self):
        self.cases("libloose.so", "metadata", True)

    @unittest.skipIf(OLD, "tvm-ffi 0.1.0 has no metadata")
    def test_metadata_without_libtvm_ffi(self):
        self.cases("liblinked.so", "metadata", False)

    def test_a_function_that_calls_python(self):
        self.cases("liball.so", "python", True)

    def test_functions_on_a_device(self):
        flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", *(f"-I{os.path.join(ROOT, folder)}" for folder in ("include", "devices", "bridges/tvm_ffi")), os.path.join(SOURCES, "device.c")]
        subprocess.run(["cc", *flags, "-DPROBE", "-o", path("probe.so")], check=True)
        subprocess.run(["cc", *flags, "-o", path("libdevice.so"), "-L" + os.path.join(PACKAGE, "lib"), "-ltvm_ffi"], check=True)
        for real in True, False:
            with self.subTest(real=real):
                self.cases("libdevice.so", "device", real, TEST_PROBE=path("probe.so"), TENON_SIM="delay=200")

    def script(self, text):
        return run(sys.executable, "-c", f"import sys; sys.path[:0] = [{os.path.join(BUILD, 'python')!r}]\nimport numpy as np, tenon, tenon.tvm_ffi\n"
                                         f"one = {{'schema': 'add_one(Tensor x) -> Tensor', 'shapes': 'out = x'}}\nx = np.float32([1, 2])\n" + text)

    def test_the_real_library_comes_after_the_stand_in(self):
        done = self.script(f"""
ops = tenon.tvm_ffi.load({path('liblinked.so')!r}, add_one=one)
import tvm_ffi
y = np.zeros(2, 'f4')
tvm_ffi.load_module({path('liball.so')!r}).add_one(x, y)
print(y.tolist(), ops.add_one(x).tolist())""")
        self.assertEqual((done.stdout, done.stderr), ("[2.0, 3.0] [2.0, 3.0]\n", ""))

    def test_a_global_stand_in_keeps_the_real_library_out(self):
        done = self.script(f"tenon.tvm_ffi.load({path('libloose.so')!r}, add_one=one)\nimport tvm_ffi")
        self.assertIn("ImportError: tvm_ffi cannot be imported any more", done.stderr)

    def test_a_file_states_the_real_library(self):
        text = f"print(tenon.tvm_ffi.load({path('libloose.so')!r}, add_one=one).add_one(x).tolist())"
        os.environ["TENON_TVM_FFI"] = os.path.join(PACKAGE, "lib", "libtvm_ffi.so")
        try:
            self.assertEqual(self.script(text + "\nimport tvm_ffi").stdout, "[2.0, 3.0]\n")
            os.environ["TENON_TVM_FFI"] = "/nothing.so"
            self.assertIn("TENON_TVM_FFI='/nothing.so': expected the file of libtvm_ffi.so", self.script(text).stderr)
        finally:
            del os.environ["TENON_TVM_FFI"]


class Faults(unittest.TestCase):
    def refused(self, words, name, *options, functions=None):
        with self.assertRaises(tenon.Error) as caught:
            file = faulty(name, *options)
            tenon.tvm_ffi.load(file, functions) if functions else tenon.load(file)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_declarations(self):
        bad = {
            "": (["no function can become an operator", "twice: it has no metadata", "tenon.tvm_ffi.load"], None),
            "schema": (["function twice: schema 'twice(Tensor x': column 15"], {"twice": "twice(Tensor x"}),
            "absent": (["function thrice: the library does not export __tvm_ffi_thrice"], {"thrice": "thrice(Tensor x) -> ()"}),
            "argument": (["arguments 'x, z', column 4"], {"twice": {"schema": "twice(Tensor x) -> Tensor", "arguments": "x, z"}}),
            "comma": (["arguments 'x out', column 3: expected ','"], {"twice": {"schema": "twice(Tensor x) -> Tensor", "arguments": "x out"}}),
            "result": (["result 'out' is passed 2 times"], {"twice": {"schema": "twice(Tensor x) -> Tensor", "arguments": "x, out, out"}}),
            "choice": (["attribute 'm': expected bool, int"], {"twice": "twice(Tensor x, str['a', 'b'] m='a') -> ()"}),
            "list": (["result 'out': expected a plain tensor"], {"twice": "twice(Tensor x) -> Tensor[]"}),
            "types": (["the dtype of result 'out' follows from nothing"], {"twice": "twice(int n) -> Tensor"}),
            "shapes": (["SHAPES"], {"twice": {"schema": "twice(Tensor x) -> Tensor", "shapes": "out = z"}}),
            "backend": (["nosuch device"], {"twice": {"schema": "twice(Tensor x) -> ()", "backends": "cpu 1x"}}),
        }
        del bad["backend"]
        for name, (words, functions) in bad.items():
            with self.subTest(name):
                self.refused(words, f"bad_{name}", functions=functions)
        with self.assertRaisesRegex(TypeError, "no field 'shape'"):
            tenon.tvm_ffi.load("x.so", twice={"schema": "", "shape": ""})

    def test_missing_functions_of_libtvm_ffi_are_named(self):
        self.refused(["TVMFFISomethingOfTheFuture", "TENON_TVM_FFI"], "missing", "-DMISSING", functions={"twice": "twice(Tensor x) -> ()"})

    def metadata(self, name, text, words, kind=65, code=0):
        self.refused(words, f"metadata_{name}", "-DMETADATA=" + json.dumps(text), f"-DKIND={kind}", f"-DCODE={code}")

    def test_metadata(self):
        def schema(inner):
            return json.dumps({"type_schema": inner})

        def function(params, result='{"type":"None"}'):
            return schema('{"type":"ffi.Function","named_args":{"return":[%s],"params":[%s]}}' % (result, params))
        bad = {
            "empty": ("", ["twice: its metadata: "]), "truncated": (function('{"type":"int"}')[:-20], ["its metadata: "]), "list": ("[1]", ['expected a string "type_schema"']),
            "number": ('{"type_schema": 7}', ['expected a string "type_schema", found a number']), "inner": (schema("{"), ["type_schema: "]),
            "other": (schema('{"type":"int"}'), ["expected the type 'ffi.Function', found 'int'"]), "no_names": (schema('{"type":"ffi.Function"}'), ['"named_args"']),
            "no_type": (function('{"kind":"int"}'), ['expected a string "type"']), "text": (function('"int"'), ['expected a string "type"']),
            "bare_list": (function('{"type":"ffi.Array"}'), ['expected a list "args"']), "two": (function('{"type":"Optional","args":[{"type":"int"},{"type":"int"}]}'), ["expected one type, found 2"]),
            "deep": (schema('{"a":' * 70 + "1" + "}" * 70), ["64 levels"]), "long": (function(",".join(['{"type":"int"}'] * 200)), ["at most 128 types"]),
            "unknown": (function('{"type":"my.Type"}'), ["argument 0 is a my.Type"]), "nested": (function('{"type":"ffi.Array","args":[{"type":"ffi.Array","args":[{"type":"int"}]}]}'), ["argument 0 is a ffi.Array"]),
            "returns": (function('{"type":"int"}', '{"type":"ffi.Function"}'), ["it returns a ffi.Function"]), "two_results": (schema('{"type":"ffi.Function","named_args":{"return":[],"params":[]}}'), ["expected one type of"]),
        }
        for name, (text, words) in bad.items():
            with self.subTest(name):
                self.metadata(name, text, words)
        self.metadata("kind", "{}", ["expected a string, found a value of kind 1"], kind=1)
        self.metadata("fails", "{}", ["its metadata cannot be read"], code=-1)

    def test_metadata_and_a_declaration_that_does_not_fit(self):
        text = json.dumps({"type_schema": '{"type":"ffi.Function","named_args":{"return":[{"type":"None"}],"params":[{"type":"DLTensor*"},{"type":"DLTensor*"}]}}'})
        options = ["-DMETADATA=" + json.dumps(text), "-DKIND=65", "-DCODE=0"]
        self.refused(["expected 2 arguments, as its metadata say, found 1"], "fit_1", *options, functions={"twice": "twice(Tensor x) -> ()"})
        self.refused(["'n' is argument 1, which is a DLTensor*"], "fit_2", *options, functions={"twice": "twice(Tensor x, int n) -> ()"})
        ops = tenon.tvm_ffi.load(faulty("fit_4", *options), twice={"schema": "twice(Tensor x) -> Tensor", "shapes": "out = x"})
        np.testing.assert_array_equal(ops.twice(x), 2 * x)

    def test_returned_values(self):
        bad = {
            "result->kind = 0": ["expected a tensor or a number"], "result->kind = 68": ["found a value of kind 68"], "object.tensor.ndim = 1000": ["an impossible shape"],
            "object.tensor.shape = shape": ["an impossible shape"], "object.tensor.dtype[0] = 1": ["expected f32, found dtype code 1"], "object.tensor.device[0] = 2": ["is on device 2:0"],
            "object.tensor.data = 0": ["has no memory"], "object.tensor.ndim = -1": ["an impossible shape"],
            "shape[0] = shape[1] = (int64_t)1 << 40; object.tensor.ndim = 2; object.tensor.shape = shape": ["an impossible shape"],
        }
        for k, (code, words) in enumerate(bad.items()):
            with self.subTest(code):
                ops = tenon.tvm_ffi.load(faulty(f"returned_{k}", f"-DRESULT={code}"), returns="returns(Tensor x) -> Tensor")
                with self.assertRaises(tenon.Error) as caught:
                    ops.returns(x)
                for word in words:
                    self.assertIn(word, str(caught.exception))
        ops = tenon.tvm_ffi.load(faulty("returned_fine", "-DRESULT="), returns="returns(Tensor x) -> Tensor")
        for _ in range(3):  # the object is static and counted
            np.testing.assert_array_equal(ops.returns(x), np.float32([1, 2]))


SOURCE = r"""
#include <tenon/op.h>
static tenon_status_t affine(const tenon_loop_t *loop) {
  const float *x = loop->data[0];
  float *y = loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = (float)(loop->attrs[0].as.f * x[i] + (loop->attrs[1].kind ? (double)loop->attrs[1].as.i : 0));
  return TENON_OK;
}
static tenon_status_t fail(const tenon_loop_t *loop) { return tenon_fail(loop, TENON_RANGE, "too far: %d", 7); }
TENON_LIBRARY(ours, "1.0",
  TENON_OP("affine(Tensor x, float by=2.0, int? plus=None) -> Tensor", TENON_DOC("by * x + plus"), TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", affine)),
  TENON_OP("fail.now(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", fail)))
"""


class Ours(unittest.TestCase):
    """Operators of Tenon as functions of tvm-ffi."""

    @classmethod
    def setUpClass(cls):
        with open(path("ours.c"), "w", encoding="ascii") as file:
            file.write(SOURCE)
        cls.tenon = os.path.join(BUILD, "tenon")
        made = run(cls.tenon, "build", path("ours.c"), "-o", path("ours.so"))
        assert made.returncode == 0, made.stderr
        made = run(cls.tenon, "export", "--to", "tvm_ffi", path("ours.so"), "-o", path("exported.so"))
        assert (made.returncode, made.stdout) == (0, f"exported {path('exported.so')}: 2 functions\n"), made.stderr
        cls.module = tvm_ffi.load_module(path("exported.so"))

    def test_values(self):
        for affine in self.module.affine, tenon.tvm_ffi.function(tenon.load(path("ours.so")).affine):
            np.testing.assert_array_equal(np.from_dlpack(affine(x)), 2 * x)
            np.testing.assert_array_equal(np.from_dlpack(affine(x, 3.0)), 3 * x)
            np.testing.assert_array_equal(np.from_dlpack(affine(x, 1, 5)), x + 5)
            np.testing.assert_array_equal(np.from_dlpack(affine(x, None, None)), 2 * x)
            out = np.empty_like(x)
            self.assertIsNone(affine(x, 0.5, None, out))
            np.testing.assert_array_equal(out, x / 2)
            square = np.arange(9, dtype=np.float32).reshape(3, 3)
            np.testing.assert_array_equal(np.from_dlpack(affine(square.T)), 2 * square.T)

    def test_metadata(self):
        expected = {"type": "ffi.Function", "named_args": {"return": [{"type": "ffi.Tensor"}], "params": [
            {"type": "DLTensor*"}, {"type": "Optional", "args": [{"type": "float"}]}, {"type": "Optional", "args": [{"type": "int"}]}]}}
        self.assertEqual(json.loads(tenon.tvm_ffi.metadata(tenon.load(path("ours.so")).affine)["type_schema"]), expected)
        if not OLD:
            self.assertEqual(json.loads(self.module.get_function_metadata("affine")["type_schema"]), expected)
            self.assertIn("by * x + plus", self.module.get_function_doc("affine"))

    def test_errors(self):
        for error, words, arguments in ((TypeError, "argument 'x': expected a tensor", (1,)), (TypeError, "expected 1 to 3 arguments, or 4", ()), (TypeError, "argument 'by': expected a float", (x, "a")),
                                        (ValueError, "expected f32", (x.astype(np.int32),)), (ValueError, "", (x, 1.0, None, np.empty(3, np.float32)))):
            with self.assertRaisesRegex(error, words):
                self.module.affine(*arguments)
        with self.assertRaisesRegex(IndexError, "too far: 7"):
            self.module.fail_now(x)
        with self.assertRaisesRegex(KeyError, "no operator 'core::nothing'"):
            tenon.tvm_ffi.function("core::nothing")
        np.testing.assert_array_equal(np.from_dlpack(self.module.affine(x)), 2 * x)

    def test_every_kind_of_argument(self):
        function = tenon.tvm_ffi.function
        square = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(np.from_dlpack(function("core::transpose")(square, [1, 0])), square.T)
        np.testing.assert_array_equal(np.from_dlpack(function("core::concat")([square, square], 1)), np.concatenate([square, square], 1))
        np.testing.assert_array_equal(np.from_dlpack(function("core::cast")(square, tvm_ffi.dtype("int64"))), square.astype(np.int64))
        np.testing.assert_array_equal(np.from_dlpack(function("core::cast")(square, "int64")), square.astype(np.int64))
        tensor = tvm_ffi.from_dlpack(square.copy())
        view = function("core::reshape")(tensor, np.int64([3, 2]))
        del tensor
        gc.collect()
        np.testing.assert_array_equal(np.from_dlpack(view), square.reshape(3, 2))

    def test_threads_and_flat_memory(self):
        wrong = []

        def call(k):
            for i in range(CALLS // 8):
                by = float(k * 100 + i % 40)  # more sets of attributes than a thread keeps
                if i % 50 == 0 and not np.array_equal(np.from_dlpack(self.module.affine(x, by)), np.float32(by) * x):
                    wrong.append(by)
                self.module.affine(x, by)

        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096

        def all_threads():
            threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        all_threads()
        before = resident()
        all_threads()
        self.assertEqual(wrong, [])
        self.assertLess(resident() - before, 2 << 20)

    def test_the_exported_library_moves_with_its_files(self):
        import shutil
        os.makedirs(path("moved"), exist_ok=True)
        for file in "exported.so", "ours.so":
            shutil.copy(path(file), path("moved"))
        shutil.copy(os.path.join(BUILD, "libtenon.so.1"), path("moved"))
        text = f"import tvm_ffi, numpy as np\nprint(np.from_dlpack(tvm_ffi.load_module({path('moved/exported.so')!r}).affine(np.float32([1, 2]))).tolist())"
        os.rename(path("ours.so"), path("gone.so"))
        try:
            self.assertEqual(run(sys.executable, "-c", text).stdout, "[2.0, 4.0]\n")
            os.remove(path("moved/ours.so"))
            self.assertIn("ours.so", run(sys.executable, "-c", text).stderr)
        finally:
            os.rename(path("gone.so"), path("ours.so"))

    def test_the_command(self):
        for arguments, words in ((["--to", "mx", "a.so"], "--to: expected mxnet, tvm_ffi or onnxruntime"), (["--to", "tvm_ffi"], "expected one library"),
                                 (["--to", "tvm_ffi", path("ours.so"), "core::nothing"], "core::nothing"), (["--to", "tvm_ffi", path("ours.so"), "--prefix", "a" * 90], "names of at most 80 bytes"),
                                 (["--to", "tvm_ffi", path("ours.so"), "core::if"], "")):
            with self.subTest(arguments):
                done = run(self.tenon, "export", *arguments, "-o", path("refused.so"))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
                self.assertFalse(os.path.exists(path("refused.so")))
        self.assertEqual(run(self.tenon, "export", "--to", "tvm_ffi", path("ours.so"), "--prefix", "my_", "-o", path("some.so"), "core::relu").returncode, 0)
        np.testing.assert_array_equal(np.from_dlpack(tvm_ffi.load_module(path("some.so")).my_relu(x)), np.maximum(x, 0))


if __name__ == "__main__":
    compile_kernels()
    totals.main()
