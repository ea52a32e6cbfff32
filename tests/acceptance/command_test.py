#!/usr/bin/env python3
"""The `tenon` command from outside: its output, the files that it writes, and its exit status. Drives build/tenon on libraries that it builds
itself and on small models that are written here. Reference values are NumPy's. Options: --build DIR (build); the others go to unittest."""
import hashlib
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIGHT = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
build = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
cache = tempfile.TemporaryDirectory()

TWICE = r"""
#include <math.h>
#include <tenon/op.h>
static tenon_status_t twice_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++) y[i] = floorf(x[i]) + x[i];
  return TENON_OK;
}
int not_exported(void);
int not_exported(void) { return 1; }
TENON_LIBRARY(toy, "1.2.3",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_DOC("The number and its floor.\nMore about it."),
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: none"),
    TENON_LOOP("f32 -> f32", twice_f32)))
"""

CPLUSPLUS = r"""
#include <stdexcept>
#include <string>
#include <vector>
#include <tenon/op.h>
inline std::vector<std::string> &seen() { static std::vector<std::string> names; return names; }
static tenon_status_t run(tenon_call_t *call) {
  seen().push_back("call");
  if (tenon_count(call->inputs[0]) > 3) throw std::runtime_error("more than three");
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    static_cast<float *>(call->outputs[0]->data)[i] = 7;
  return TENON_OK;
}
TENON_LIBRARY(toy, "1.0.0",
  TENON_OP("seven(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
           TENON_TRAITS(TENON_PURE), TENON_GRADIENT("x: none"), TENON_KERNEL("cpu", run)))
"""

# Operators that end the process, or never end.
BAD = r"""
#include <stdlib.h>
#include <tenon/op.h>
static tenon_status_t die(tenon_call_t *call) { (void)call; abort(); }
static tenon_status_t hang(tenon_call_t *call) { volatile int on = 1; (void)call; while (on) {} return TENON_OK; }
#define BODY TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_GRADIENT("x: none")
TENON_LIBRARY(bad, "1.0.0",
  TENON_OP("die(Tensor x) -> Tensor", BODY, TENON_KERNEL("cpu", die)),
  TENON_OP("hang(Tensor x) -> Tensor", BODY, TENON_KERNEL("cpu", hang)))
"""

# Operators that call each other: a model's plan calls the first one, and dispatch calls the others.
NESTED = r"""
#include <stdlib.h>
#include <tenon/op.h>
static tenon_status_t inner(tenon_call_t *call) {
  *(float *)call->outputs[0]->data = 1;
  return TENON_OK; /* inner */
}
static tenon_status_t outer(tenon_call_t *call) {
  tenon_tensor_t *outputs[1] = {NULL};
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, call->inputs, outputs));
  return call->host->assign(call, 0, outputs[0]);
}
#define BODY TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_GRADIENT("x: none")
TENON_LIBRARY(nest, "1.0.0",
  TENON_OP("inner(Tensor x) -> Tensor", BODY, TENON_KERNEL("cpu", inner)),
  TENON_OP("middle(Tensor x) -> Tensor", BODY, TENON_USES("nest::inner"), TENON_COMPOSITE(outer)),
  TENON_OP("outer(Tensor x) -> Tensor", BODY, TENON_USES("nest::middle"), TENON_COMPOSITE(outer)))
"""


def model(nodes, inputs, outputs, initializers=(), **domains):
    """Returns the bytes of a model file. Inputs and outputs are (name, dtype, shape)."""
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(value, name) for name, value in dict(initializers).items()])
    opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(d, v) for d, v in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def one(op_type, count=1, dtype=TensorProto.FLOAT, shape=(2, 3), result=None, domain="", **attributes):
    """Returns a model of one node with the inputs x0, x1, ... and the result y."""
    names = [f"x{i}" for i in range(count)]
    node = helper.make_node(op_type, names, ["y"], domain=domain, **attributes)
    return model([node], [(n, dtype, shape) for n in names], [("y", result or dtype, None)],
                 **({domain: 1} if domain else {}))


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, np.ndarray):
            np.save(path, content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        return path

    def call(self, *arguments, **environment):
        return subprocess.run([build / "tenon", *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.folder, env={**os.environ, "TENON_CACHE": cache.name, **environment}, timeout=120)

    def fine(self, *arguments, **environment):
        result = self.call(*arguments, **environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def fails(self, code, *arguments, **environment):
        """Runs a command that must fail and returns its stderr; every failure begins with `tenon: `."""
        result = self.call(*arguments, **environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, "(?m)^tenon: ")
        return result.stderr


class Usage(Command):
    VERBS = ["build", "ops", "show", "run", "verify", "export", "doctor"]

    def test_help_lists_every_verb(self):
        for arguments in (["--help"], ["-h"], ["help"]):
            text = self.fine(*arguments)
            for verb in self.VERBS:
                self.assertRegex(text, rf"(?m)^  {verb} ")

    def test_each_verb_has_help_that_opens_with_its_usage(self):
        for verb in self.VERBS:
            self.assertTrue(self.fine(verb, "--help").startswith(f"usage: tenon {verb}"))
            self.assertEqual(self.fine(verb, "-h"), self.fine("help", verb))

    def test_version_is_three_numbers(self):
        self.assertRegex(self.fine("--version"), r"^tenon \d+\.\d+\.\d+\n$")

    def test_help_says_how_many_threads_there_are_by_default(self):
        for verb in ("run", "bench", "replay"):
            text = " ".join(self.fine(verb, "--help").split())
            self.assertIn("number of threads (default: TENON_THREADS, else the processors that the process may use)", text, verb)

    def test_an_unknown_verb_is_wrong_usage_and_the_nearest_is_named(self):
        self.assertIn("did you mean 'build'?", self.fails(2, "biuld"))
        self.assertIn("expected one of", self.fails(2, "xyzzy"))

    def test_an_unknown_option_is_wrong_usage_and_the_nearest_is_named(self):
        self.assertIn("did you mean '--input'?", self.fails(2, "run", "--imput=x", "m.onnx"))
        self.assertIn("'-Z'", self.fails(2, "build", "-Z", "a.c"))

    def test_a_missing_operand_or_value_is_wrong_usage(self):
        self.fails(2)
        self.assertIn("MODEL", self.fails(2, "run"))
        self.assertIn("--threads", self.fails(2, "run", "m.onnx", "--threads"))
        self.assertIn("'many'", self.fails(2, "run", "m.onnx", "--threads", "many"))
        self.assertIn("plan|graph|shapes|rewrites|claims|placement|devices", self.fails(2, "run", "m.onnx", "--dump=trees"))

    def test_an_option_may_be_shortened_while_it_is_clear(self):
        path = self.write("m.onnx", one("Relu"))
        self.assertIn("y  f32 [2, 3]", self.fine("run", path, "--inp", "ones"))


    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([build / "tenon", "ops"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr)


class Export(Command):
    NAMES = """_msgGet _msgSize _opCallCreateOpState _opCallDestroyOpState _opCallFCompute _opCallFStatefulCompute _opCallFree _opCallInferSType
        _opCallInferShape _opCallInferType _opCallMutateInputs _opCallParseAttrs _opRegGet _opRegSize _opVersion _partCallCreateSelector _partCallFilter
        _partCallReset _partCallReviewSubgraph _partCallSelect _partCallSelectInput _partCallSelectOutput _partCallSupportedOps _partRegGet _partRegGetCount
        _partRegSize _passCallGraphPass _passRegGet _passRegSize initialize tenon_export_report""".split()

    def setUp(self):
        super().setUp()
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")

    def exported(self, path):
        """The names that MXNet finds in an exported library, or the message when it is opened; by ctypes, as MXNet opens it."""
        program = """import ctypes, sys
library, text = ctypes.CDLL(sys.argv[1]), ctypes.c_char_p()
if not library.initialize(int(sys.argv[2])):
    library._msgGet(0, ctypes.byref(text))
    sys.exit(text.value.decode())
for i in range(library._opRegSize()):
    out = [ctypes.c_void_p() for _ in range(16)]
    library._opRegGet(i, *map(ctypes.byref, out))
    print(ctypes.string_at(out[0].value).decode())
"""
        return lambda version=10901, **environment: subprocess.run([sys.executable, "-c", program, path, str(version)], capture_output=True, text=True,
                                                                   env={**os.environ, **environment})

    def test_an_exported_library_has_the_names_that_mxnet_looks_up(self):
        self.assertEqual(self.fine("export", "--mxnet", "toy.so"), "exported toy_mxnet.so: 1 operator\n")
        lines = subprocess.run(["nm", "-D", "--defined-only", self.folder / "toy_mxnet.so"], capture_output=True, text=True, check=True)
        self.assertEqual(sorted(line.split()[-1] for line in lines.stdout.splitlines()), sorted(self.NAMES))
        self.assertEqual(self.exported(self.folder / "toy_mxnet.so")().stdout, "toy_twice\n")

    def test_operators_are_chosen_and_renamed(self):
        self.fine("export", "--mxnet", "toy.so", "--prefix", "my_", "-o", "mine.so", "toy::twice", "core::relu")
        self.assertEqual(self.exported(self.folder / "mine.so")().stdout, "my_twice\nmy_relu\n")

    def test_an_impossible_export_is_reported_and_leaves_no_file(self):
        self.assertIn("no operator 'toy::thrice'", self.fails(1, "export", "--mxnet", "toy.so", "toy::thrice"))
        self.assertIn("core::if: it has a graph as an attribute", self.fails(1, "export", "--mxnet", "toy.so", "core::if"))
        self.assertIn("gone.so", self.fails(1, "export", "--mxnet", "gone.so"))
        self.assertIn("--mxnet LIB", self.fails(2, "export"))
        self.assertIn("cannot write", self.fails(1, "export", "--mxnet", "toy.so", "-o", "nowhere/toy.so"))
        self.assertFalse([name for name in os.listdir(self.folder) if "mxnet" in name or name.endswith(".part")])

    def test_too_many_names_are_refused(self):
        self.assertIn("no space for", self.fails(1, "export", "--mxnet", "toy.so", *["toy::twice"] * 8000))

    def test_a_missing_library_is_searched_beside_the_exported_library(self):
        self.fine("export", "--mxnet", "toy.so")
        there = self.folder / "there"
        there.mkdir()
        os.rename(self.folder / "toy_mxnet.so", there / "toy_mxnet.so")
        call = self.exported(there / "toy_mxnet.so")
        os.rename(self.folder / "toy.so", self.folder / "other.so")
        self.assertRegex(call().stderr, "the operator library was not found: expected it at .*/toy.so, .* or as a file of the same name beside this library")
        os.rename(self.folder / "other.so", there / "toy.so")
        self.assertEqual(call().stdout, "toy_twice\n")
        self.assertIn("MXNet 1.8 is not supported: expected 1.9", call(10800).stderr)

    def test_libtenon_is_searched_at_its_path_then_beside_then_by_the_system(self):
        self.fine("export", "--mxnet", "toy.so")
        made = self.folder / "toy_mxnet.so"
        bytes_ = made.read_bytes()
        where = re.search(rb"tenon=([^\n]*)/libtenon.so.1\n", bytes_)[1]
        made.write_bytes(bytes_.replace(b"tenon=" + where, b"tenon=" + b"/x" + where[2:]))  # the path now names a missing file
        self.assertRegex(self.exported(made)().stderr, "cannot load libtenon: .*LD_LIBRARY_PATH, or export the library again")
        self.assertEqual(self.exported(made)(LD_LIBRARY_PATH=where.decode()).stdout, "toy_twice\n")
        os.symlink(where.decode() + "/libtenon.so.1", self.folder / "libtenon.so.1")
        self.assertEqual(self.exported(made)().stdout, "toy_twice\n")

    def test_the_template_of_exported_libraries_exports_nothing_and_says_so(self):
        self.assertIn("this library exports no operators: use a copy made by", self.exported(build / "exports" / "mxnet.so")().stderr)


class Build(Command):
    def exported(self, path):
        lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
        return [line.split()[-1] for line in lines.stdout.splitlines()]

    def test_a_c_source_becomes_a_library_that_exports_one_name(self):
        self.write("toy.c", TWICE)
        self.assertEqual(self.fine("build", "toy.c"), "built toy.so: 1 operator\n")
        self.assertEqual(self.exported(self.folder / "toy.so"), ["tenon_library"])

    def test_a_library_of_kernels_for_others_says_how_many_operators_it_extends(self):
        kernel = "#include <tenon/op.h>\nstatic tenon_status_t run(tenon_call_t *call) { (void)call; return TENON_OK; }\n"
        extend = 'TENON_EXTEND("{}", TENON_KERNEL("npu", run))'
        for items, said in ([extend.format("core::sub")], "kernels for 1 operator from other libraries"), (
                [extend.format("core::sub"), extend.format("core::neg")], "kernels for 2 operators from other libraries"), (
                [extend.format("core::sub"), extend.format("later::op")],
                "kernels for 2 operators from other libraries (1 of them are not loaded)"):
            self.write("more.c", kernel + f'TENON_LIBRARY(more, "1.0.0", {", ".join(items)})\n')
            self.assertEqual(self.fine("build", "more.c"), f"built more.so: {said}\n")
        self.write("both.c", TWICE.rstrip().rstrip(")") + ")), TENON_EXTEND(\"core::sub\", TENON_LOOP(\"f32, f32 -> f32\", twice_f32)))\n")
        self.assertEqual(self.fine("build", "both.c"), "built both.so: 1 operator, kernels for 1 operator from other libraries\n")

    def test_a_cplusplus_library_exports_one_name_and_its_exceptions_are_failures(self):
        self.write("toy.cpp", CPLUSPLUS)
        self.write("m.onnx", one("seven", shape=("n",), domain="toy"))
        self.assertEqual(self.fine("build", "toy.cpp", "-o", "seven.so"), "built seven.so: 1 operator\n")
        self.assertEqual(self.exported(self.folder / "seven.so"), ["tenon_library"])
        self.assertIn("[7, 7]", self.fine("run", "m.onnx", "--ops", "seven.so", "-i", "ones", "-d", "n=2"))
        self.assertIn("more than three", self.fails(1, "run", "m.onnx", "--ops", "seven.so", "-i", "ones", "-d", "n=4"))

    def test_passes_of_a_library_are_listed_shown_and_applied(self):
        document = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
        source = re.search(r"```c\n(static tenon_status_t calm.*?)```", document, re.S).group(1)
        self.write("surgery.c", "#include <stdlib.h>\n#include <string.h>\n#include <tenon/graph.h>\n" + source)
        self.fine("build", "surgery.c")
        self.assertRegex(self.fine("ops", "surgery.so"), "surgery::calm +pass +tanh in place of sigmoid")
        shown = self.fine("show", "--ops", "surgery.so", "surgery::calm")
        self.assertRegex(shown, "(?s)kind +pass.*about +tanh in place.*library +surgery")
        self.write("m.onnx", one("Sigmoid", shape=(2,)))
        self.assertIn("[0, 0]", self.fine("run", "m.onnx", "--ops", "surgery.so", "--apply", "surgery::calm", "-i", "zeros"))
        self.assertIn("[0.5, 0.5]", self.fine("run", "m.onnx", "-i", "zeros"))
        self.assertIn("no pass or partitioner 'surgery::other' (there are: surgery::calm", self.fails(1, "run", "m.onnx", "--ops", "surgery.so", "--apply", "surgery::other"))
        self.assertIn("expected KEY=VALUE", self.fails(1, "run", "m.onnx", "--ops", "surgery.so", "--apply", "surgery::calm,quick"))

    def test_sources_of_several_languages_and_objects_make_one_library(self):
        self.write("toy.c", TWICE.replace("floorf(x[i])", "more(x[i])").replace(
            "static tenon_status_t", "float more(float x);\nstatic tenon_status_t", 1))
        self.write("more.cc", '#include <cmath>\nextern "C" float part(float);\n'
                   'extern "C" float more(float x) { return std::floor(part(x)); }\n')
        self.write("part.c", "float part(float x);\nfloat part(float x) { return x * FACTOR; }\n")
        self.write("note.S", '.section .note.GNU-stack,"",%progbits\n')
        subprocess.run(["cc", "-fPIC", "-DFACTOR=3", "-c", "part.c"], cwd=self.folder, check=True)
        self.fine("build", "toy.c", "more.cc", "note.S", "part.o", "-o", "all.so")
        self.assertEqual(self.exported(self.folder / "all.so"), ["tenon_library"])
        self.write("m.onnx", one("twice", domain="toy", shape=(2,)))
        self.assertIn("[5.5, 8]", self.fine("run", "m.onnx", "--ops", "./all.so", "-i", "x0=1.5,2"))

    def test_the_commands_are_shown_on_demand_and_flags_reach_them(self):
        self.write("toy.c", TWICE)
        text = self.fine("build", "-v", "toy.c", "-O1", "-g", "-DA=b c", "-I", "inc", "--", "-fno-math-errno")
        for flag in ("-O1", "-g", "'-DA=b c'", "-Iinc", "-fno-math-errno", "-fPIC", "-std=gnu11", "toy.c"):
            self.assertIn(f" {flag} ", text)

    def test_a_function_of_another_type_does_not_compile(self):
        self.write("toy.c", TWICE.replace("const tenon_loop_t *loop", "const tenon_dim_t *loop").replace(
            "loop->data", "((float **)0)").replace("loop->count", "3"))
        text = self.fails(1, "build", "toy.c")
        self.assertIn("incompatible", text)
        self.assertIn("toy.c does not compile", text)
        self.assertFalse((self.folder / "toy.so").exists())

    def test_a_name_that_nobody_defines_is_found_when_linking(self):
        self.write("toy.c", TWICE.replace("floorf(x[i])", "missing(x[i])").replace(
            "static tenon_status_t", "float missing(float x);\nstatic tenon_status_t", 1))
        text = self.fails(1, "build", "toy.c")
        self.assertIn("missing", text)
        self.assertIn("toy.so does not link", text)

    def test_a_library_that_cannot_be_loaded_is_a_failure_with_the_loaders_message(self):
        self.write("none.c", "int nothing;\n")
        self.assertIn("tenon_library", self.fails(1, "build", "none.c"))
        self.assertIn("built", self.fine("build", "--no-check", "none.c"))
        self.write("wrong.c", TWICE.replace("x: f32; out = x", "x: f33; out = x"))
        text = self.fails(1, "build", "wrong.c")
        self.assertIn("cannot be loaded", text)
        self.assertIn("f33", text)

    def test_all_sources_that_are_missing_or_of_an_unknown_kind_are_named(self):
        text = self.fails(1, "build", "gone.c", "page.html")
        self.assertIn("gone.c", text)
        self.assertIn("page.html", text)

    def test_the_environment_chooses_the_compiler(self):
        self.write("toy.c", TWICE)
        self.assertIn("nonesuch", self.fails(1, "build", "toy.c", CC="nonesuch"))
        self.assertTrue(self.fine("build", "-v", "toy.c", CC="gcc -m64").startswith("gcc -m64 "))

    def test_without_nvcc_cuda_sources_say_what_to_install(self):
        self.write("k.cu", "")
        self.assertIn("CUDA", self.fails(1, "build", "k.cu", NVCC="nonesuch"))

    def test_the_header_is_found_beside_an_installed_command(self):
        self.write("toy.c", TWICE)
        (self.folder / "bin").mkdir()
        shutil.copy(build / "tenon", self.folder / "bin/tenon")
        shutil.copytree(build, self.folder / "lib", ignore=lambda _, names: [n for n in names if not n.startswith("libtenon.so")])
        shutil.copytree(ROOT / "include", self.folder / "include")
        result = subprocess.run(["bin/tenon", "build", "-v", "toy.c"], capture_output=True, text=True, cwd=self.folder,
                                env={**os.environ, "LD_LIBRARY_PATH": str(self.folder / "lib")})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f" -I{self.folder.resolve()}/lib/../include ", result.stdout)

    def test_an_unchanged_build_comes_from_the_cache_with_its_warnings(self):
        self.write("toy.c", TWICE + "static int nobody;\n")
        cache = {"TENON_CACHE": str(self.folder / "cache")}
        runs = [self.call("build", *arguments, "toy.c", **cache) for arguments in ([], ["-v"], ["-v", "--fresh"])]
        for run in runs:
            self.assertEqual((run.returncode, run.stdout.splitlines()[-1]), (0, "built toy.so: 1 operator"))
            self.assertIn("nobody", run.stderr)
        self.assertRegex(runs[1].stdout, rf"(?m)\Areused from the cache: {self.folder.resolve()}/cache/.*\.so$")
        self.assertTrue(runs[2].stdout.startswith("cc "))

    def test_no_temporary_file_is_left(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        self.write("toy.c", TWICE)
        self.write("wrong.c", "this is no C\n")
        self.fine("build", "toy.c", TMPDIR=str(temporary))
        self.fails(1, "build", "wrong.c", TMPDIR=str(temporary))
        self.assertEqual(list(temporary.iterdir()), [])


class Operators(Command):
    def test_the_built_in_operators_are_listed_with_kernels_and_schema(self):
        text = self.fine("ops")
        self.assertRegex(text, r"(?m)^core::add +[1-9]\d* +\(Tensor a, Tensor b")

    def test_a_librarys_operators_are_listed_with_the_first_line_of_their_documentation(self):
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        rows = self.fine("ops", "toy.so").splitlines()
        self.assertEqual(len(rows), 2)
        self.assertRegex(rows[1], r"^toy::twice +1 +\(Tensor x\) -> Tensor.* The number and its floor\.$")
        self.assertIn("core::add", self.fine("ops", "--all", "toy.so"))

    def test_json_has_everything_that_a_library_declares(self):
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        (row,) = json.loads(self.fine("ops", "--json", "./toy.so"))
        self.assertEqual(row["name"], "toy::twice")
        self.assertEqual(row["doc"], "The number and its floor.\nMore about it.")
        self.assertEqual((row["library"], row["library_version"]), ("toy", "1.2.3"))
        self.assertEqual((row["pure"], row["pointwise"], row["random"]), (True, True, False))
        self.assertEqual(len(row["kernels"]), 1)
        rows = json.loads(self.fine("ops", "--json"))
        names = [row["name"] for row in rows]
        self.assertEqual(names, sorted(names))
        self.assertIn("core::matmul", names)

    def test_stubs_are_listed_with_signatures_and_the_kernels_that_fill_them(self):
        self.write("fill.c", "#include <tenon/iterator.h>\nstatic tenon_status_t f(const tenon_iterator_t *it) { return tenon_fail(it, TENON_INTERNAL, \"f\"); }\n"
                             "TENON_LIBRARY(fill, \"1\", TENON_EXTEND(\"core::sub\", TENON_STUB(\"npu f32\", f)), "
                             "TENON_EXTEND(\"core::reduce_max\", TENON_STUB(\"npu\", f), TENON_STUB(\"cpu avx2 f32\", f)))\n")
        self.fine("build", "fill.c")
        text = self.fine("ops", "--stubs")
        self.assertRegex(text, r"(?m)^stub +iteration +kernels +arguments$")
        self.assertRegex(text, r"(?m)^core::add +pointwise .*\bcpu\b +\(Tensor a, Tensor b\) -> Tensor$")
        self.assertRegex(text, r"(?m)^core::reduce_max +x over axes .*\bcpu\b +\(Tensor x, Tensor\? @host axes=None,")
        self.assertNotIn("core::matmul", text)
        self.assertIn("no key is called 'npu'", self.fails(1, "ops", "--stubs", "--for", "npu"))
        header, biggest, less = self.fine("ops", "--stubs", "--for", "npu", "fill.so").splitlines()
        self.assertRegex(biggest, r"^core::reduce_max +x over axes +npu from fill +\(Tensor x")
        self.assertRegex(less, r"^core::sub +pointwise +npu from fill +\(Tensor a, Tensor b\) -> Tensor$")
        (row,) = [row for row in self.fine("ops", "--stubs", "fill.so").splitlines() if row.startswith("core::reduce_max")]
        self.assertRegex(row, r"cpu avx2 from fill( \(not supported by this processor\))?, npu from fill, ")
        slots = [row["slots"] for row in json.loads(self.fine("ops", "--stubs", "--for", "npu", "--json", "fill.so"))]
        self.assertEqual(slots[1][0], {"backend": "npu", "capability": "", "kernel": "npu stub f32", "library": "fill"})
        self.assertRegex(self.fine("show", "core::sub", "--ops", "fill.so"), r"(?m)^  npu +kernel: npu stub f32 \[fill, number \d+\]")

    def test_a_library_that_is_not_there_is_a_failure(self):
        self.assertIn("gone.so", self.fails(1, "ops", "gone.so"))

    def test_show_says_what_an_operator_is(self):
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        text = self.fine("show", "toy::twice", "--ops", "toy.so")
        for words in ("twice(Tensor x) -> Tensor", "More about it.", "x: f32; out = x", "pure pointwise", "toy 1.2.3",
                      "toy.so", "f32 -> f32", "(chosen)"):
            self.assertIn(words, text)

    def test_show_says_in_which_line_of_which_file_each_kernel_of_the_table_is(self):
        self.write("toy.c", TWICE)
        self.write("toy.cpp", CPLUSPLUS.replace('seen().push_back("call");', "const char *data = static_cast<char *>(call->outputs[0]->data);"
                                                '\n  if (!data) throw std::runtime_error("none");'))
        twice = 1 + TWICE.splitlines().index("static tenon_status_t twice_f32(const tenon_loop_t *loop) {")
        seven = 1 + CPLUSPLUS.splitlines().index("static tenon_status_t run(tenon_call_t *call) {")
        for compilers in (dict(CC="gcc", CXX="g++"), dict(CC="clang", CXX="clang++")):
            if not all(map(shutil.which, compilers.values())):
                continue
            self.fine("build", "toy.c", "-o", "c.so", **compilers)
            self.assertRegex(self.fine("show", "toy::twice", "--ops", "c.so"),
                             rf"(?m)^  cpu +kernel: cpu loop f32 -> f32 \[toy, number \d+\] for f32, at {self.folder}/toy.c:{twice}$")
            self.fine("build", "toy.cpp", "-o", "cpp.so", **compilers)
            found = re.search(rf"(?m)^  cpu +kernel: cpu \[toy, number \d+\], at {self.folder}/toy.cpp:(\d+)$",
                              self.fine("show", "toy::seven", "--ops", "cpp.so"))
            self.assertTrue(found and seven <= int(found[1]) <= seven + 7, found)  # inlined into tenon_guard
        subprocess.run(["strip", "c.so"], cwd=self.folder, check=True)
        self.assertIn("for f32, source unknown\n", self.fine("show", "toy::twice", "--ops", "c.so"))

    def test_show_lists_arguments_with_choices_and_defaults(self):
        text = self.fine("show", "core::gelu")
        self.assertRegex(text, r"(?m)^  attribute +choice +approximate .*one of 'none', 'tanh', default 'none'$")

    def test_an_operator_that_is_not_there_is_a_failure_with_the_nearest_names(self):
        self.assertIn("core::matmul", self.fails(1, "show", "core::matmull"))

    def test_doctor_reports_on_the_machine_and_on_a_library(self):
        self.assertGreater(len(self.fine("doctor").splitlines()), 3)
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        self.assertIn("tenon_library", self.fine("doctor", "toy.so"))

    def test_a_library_that_was_just_built_is_found_by_its_name(self):
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        self.assertIn("toy::twice", self.fine("ops", "toy.so"))
        self.assertIn("toy::twice", self.fine("show", "toy::twice", "--ops", "toy.so"))
        self.assertIn("TENON_LIBRARY_PATH, which is not set", self.fails(1, "ops", "toy", TENON_LIBRARY_PATH=""))  # there is no file `toy` here
        self.assertIn("toy::twice", self.fine("ops", "toy", TENON_LIBRARY_PATH=str(self.folder)))

    def test_a_policy_file_applies_and_doctor_says_whether_a_library_obeys_it(self):
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        library = self.folder / "toy.so"
        digest = hashlib.sha256(library.read_bytes()).hexdigest()
        self.assertRegex(self.fine("doctor", "toy.so"), rf"(?m)^sha256: +{digest}\npolicy: +none$")
        rules = self.write("rules", f"private\ninert\nfolder {self.folder}\n{digest}  toy.so\n")
        rules.chmod(0o644)
        said = self.fine("doctor", "toy.so", TENON_POLICY=str(rules))
        self.assertRegex(said, rf"(?m)^policy: +folders {self.folder}; private; inert; 1 SHA-256 \(TENON_POLICY={rules}\)$")
        self.assertIn("toy::twice", self.fine("ops", "toy.so", TENON_POLICY=str(rules)))
        self.assertRegex(self.fine("doctor", TENON_POLICY=str(rules)), r"(?m)^policy +folders /")
        library.chmod(0o775)
        result = self.call("doctor", "toy.so", TENON_POLICY=str(rules))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"  - rule private (TENON_POLICY={rules}): file {library.resolve()} is writable by its group (mode 0775): run chmod go-w on it", result.stdout)
        self.assertIn("rule private", self.fails(1, "ops", "toy.so", TENON_POLICY=str(rules)))
        rules.chmod(0o666)
        self.assertIn("the rules for loading cannot be read", self.fails(1, "ops", "toy.so", TENON_POLICY=str(rules)))

    def test_doctor_says_what_is_wrong_with_a_file_that_is_no_library(self):
        self.write("page.txt", "hello\n")
        result = self.call("doctor", "page.txt")
        self.assertIn("page.txt", result.stdout + result.stderr)
        self.assertEqual(1, result.returncode)
        self.fails(1, "doctor", "gone.so")


class Run(Command):
    def outputs(self, *arguments):
        text = self.fine("run", *arguments, "-o", "out/deep")
        return text, {p.stem: np.load(p) for p in (self.folder / "out/deep").iterdir()}

    def test_inputs_come_from_files_of_numpy_and_onnx(self):
        a = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
        b = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
        node = helper.make_node("MatMul", ["a", "b"], ["c"])
        graph = model([node], [("a", 1, (2, 3)), ("b", 1, (3, 4))], [("c", 1, (2, 4))])
        self.write("m.onnx", graph)
        self.write("a.npy", a)
        self.write("b.pb", numpy_helper.from_array(b).SerializeToString())
        text, results = self.outputs("m.onnx", "-i", "a=@a.npy", "--input=b=@b.pb")
        np.testing.assert_allclose(results["c"], a @ b, rtol=1e-5)
        self.assertIn("c  f32 [2, 4]  min ", text)
        self.assertIn(f"max {(a @ b).max():.4g}"[:8], text)

    def test_an_input_comes_from_a_grey_picture(self):
        grey = np.random.default_rng(3).integers(0, 256, (32, 7), np.uint8)
        self.write("m.onnx", one("Identity", 1, TensorProto.UINT8, (32, "width")))
        self.write("line.pgm", b"P5\n# of a test\n7 32\n255\n" + grey.tobytes())
        text, results = self.outputs("m.onnx", "-i", "x0=@line.pgm")
        np.testing.assert_array_equal(results["y"], grey)
        self.assertIn("y  u8 [32, 7]  min ", text)
        self.write("short.pgm", b"P5 7 32 255\n" + grey.tobytes()[1:])
        message = self.fails(1, "run", "m.onnx", "-i", "x0=@short.pgm")
        self.assertIn("input 'x0': short.pgm: a PGM picture of 7 columns and 32 rows has 223 bytes of pixels: expected one byte for each pixel", message)
        self.write("low.pgm", b"P5 7 31 255\n" + grey.tobytes()[7:])
        self.assertRegex(self.fails(1, "run", "m.onnx", "-i", "x0=@low.pgm"), r"x0.*\[31, 7\]")

    def test_texts_are_shown_whole_up_to_200_bytes_and_cut_between_characters(self):
        self.write("m.onnx", one("Identity", 1, TensorProto.STRING, ("n",)))
        for text, shown in (("a" * 200, "a" * 200 + "'"), ("a" * 201, "a" * 200 + "...'"), ("a" * 199 + "ä", "a" * 199 + "...'"), ("a" * 198 + "ä", "a" * 198 + "ä'")):
            self.assertIn(f"y  string [1]  ['{shown}]\n", self.fine("run", "m.onnx", "-i", f"x0={text}") + "\n")

    def test_inputs_are_made_of_words_and_numbers(self):
        self.write("m.onnx", one("Add", 2, TensorProto.INT64))
        for value, expected in (("zeros", 0), ("ones", 1), ("5", 5)):
            _, results = self.outputs("m.onnx", "-i", f"x0={value}", "-i", "x1=ones")
            np.testing.assert_array_equal(results["y"], np.full((2, 3), expected + 1, np.int64))
        _, results = self.outputs("m.onnx", "-i", "x0=[[1, 2, 3], [4, 5, -6]]", "-i", "zeros")
        np.testing.assert_array_equal(results["y"], [[1, 2, 3], [4, 5, -6]])

    def test_random_inputs_repeat_with_their_seed_and_differ_from_each_other(self):
        self.write("m.onnx", one("Sub", 2, shape=(100, 100)))
        results = [self.outputs("m.onnx", "-i", f"random:{seed}")[1]["y"] for seed in (3, 3, 4)]
        np.testing.assert_array_equal(results[0], results[1])
        self.assertGreater(np.abs(results[0] - results[2]).min(initial=1, where=results[0] != results[2]), 0)
        self.assertAlmostEqual(float(results[0].std()), 2**0.5, delta=0.03)  # the deviation of the difference of two normal numbers
        self.assertAlmostEqual(float(results[0].mean()), 0, delta=0.05)

    def test_random_inputs_exist_for_every_dtype_and_integers_are_small(self):
        for dtype in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32",
                      "INT64", "UINT64", "BOOL", "STRING", "COMPLEX64", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4"):
            with self.subTest(dtype):
                self.write("m.onnx", one("Identity", 1, getattr(TensorProto, dtype), (50,)))
                words = self.fine("run", "m.onnx", "-i", "random").splitlines()[-1]
                if "INT" in dtype:
                    self.assertRegex(words, rf"min 0  max {7 if dtype == 'INT4' else 9}  ")

    def test_symbolic_extents_are_one_unless_given(self):
        self.write("m.onnx", one("Relu", shape=("batch", 3)))
        self.assertIn("y  f32 [1, 3]", self.fine("run", "m.onnx", "-i", "ones"))
        self.assertIn("y  f32 [5, 3]", self.fine("run", "m.onnx", "-i", "ones", "--dim", "batch=5"))
        self.assertIn("batch", self.fails(1, "run", "m.onnx", "-i", "ones", "--dim", "bach=5"))

    def test_inputs_that_are_not_given_are_listed_with_type_and_shape(self):
        self.write("m.onnx", one("Add", 2, shape=("batch", 3)))
        text = self.fails(1, "run", "m.onnx")
        self.assertIn("x0  f32 [batch, 3]", text)
        self.assertIn("x1  f32 [batch, 3]", text)
        self.assertIn("--input random:0", text)
        self.assertNotIn("x0", self.fails(1, "run", "m.onnx", "-i", "x0=ones"))

    def test_an_input_that_the_model_does_not_have_is_a_failure(self):
        self.write("m.onnx", one("Relu"))
        self.assertIn("x0  f32 [2, 3]", self.fails(1, "run", "m.onnx", "-i", "image=ones"))
        self.assertIn("input 'x0'", self.fails(1, "run", "m.onnx", "-i", "x0=@gone.npy"))

    def test_names_with_colons_slashes_and_equals_signs_work_and_become_safe_file_names(self):
        node = helper.make_node("Relu", ["in=put:0"], ["../out/put:0"])
        self.write("m.onnx", model([node], [("in=put:0", 1, (2,))], [("../out/put:0", 1, (2,))]))
        _, results = self.outputs("m.onnx", "-i", "in=put:0=-1,2")
        self.assertEqual(list(results), ["_._out_put_0"])
        np.testing.assert_array_equal(results["_._out_put_0"], [0, 2])

    def test_strings_are_given_as_text_repeated_or_by_lines_of_a_file(self):
        self.write("m.onnx", one("Identity", 1, TensorProto.STRING, ("n",)))
        self.write("lines.txt", "one line\nand ünother\n")
        text, results = self.outputs("m.onnx", "-i", "x0=a b=c")
        self.assertEqual(results["y"].tolist(), ["a b=c"])
        self.assertIn("['a b=c']", text)
        self.assertEqual(self.outputs("m.onnx", "-i", "x0=one", "-i", "x0=two")[1]["y"].tolist(), ["one", "two"])
        self.assertEqual(self.outputs("m.onnx", "-i", "x0=@lines.txt")[1]["y"].tolist(), ["one line", "and ünother"])

    def test_a_repeated_run_prints_least_median_and_mean_time(self):
        self.write("m.onnx", one("Relu"))
        self.assertRegex(self.fine("run", "m.onnx", "-i", "ones", "--repeat", "5"),
                         r"time of 5 runs  min [\d.]+ ms  median [\d.]+ ms  mean [\d.]+ ms")

    def test_a_crash_in_an_isolated_library_is_a_failure_with_its_operator_and_reason(self):
        self.write("crash.c", TWICE.replace("y[i] = floorf(x[i])", "*(volatile float *)(loop->count < 0 ? y : 0) = x[i]"))
        self.fine("build", "crash.c", "-o", "crash.so")
        self.write("crash.onnx", one("twice", domain="toy"))
        said = self.fails(1, "run", "crash.onnx", "--ops", "crash.so", "--isolate-ops", "-i", "x0=random:0")
        self.assertIn("toy::twice: its isolated process crashed: SIGSEGV at address 0x0", said)

    def test_a_profile_is_a_trace_and_a_table_of_operators(self):
        self.write("m.onnx", one("MatMul", 2, shape=(64, 64)))
        text = self.fine("run", "m.onnx", "-i", "random", "--profile", "trace.json")
        self.assertRegex(text, r"(?m)^core::matmul +1 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +\d+ % +#+$")
        self.assertRegex(text, r"whole: [\d.]+ ms; at its peak \([\d.]+ GB/s, [\d.]+ GFLOP/s with \w+\) this machine needs [\d.]+ ms")
        work = [event["args"] for event in json.loads((self.folder / "trace.json").read_text())["traceEvents"] if event.get("cat") == "core::matmul"]
        self.assertEqual(work, [{"bytes": 3 * 64 * 64 * 4, "operations": 2 * 64**3}])

    def test_a_profile_has_the_memory_in_use_over_time(self):
        add = [helper.make_node("Add", ["x0", "x0"], ["y0"]), helper.make_node("Mul", ["y0", "x0"], ["y1"]),
               helper.make_node("Add", ["y1", "y0"], ["y"])]
        self.write("m.onnx", model(add, [("x0", 1, (1000,))], [("y", 1, (1000,))]))
        most = 12000  # y0, y1 and y; on null also x0, y0 and y1. Regions would keep y0 and y1 in tiles.
        for device, name in ("cpu", "cpu"), ("null", "null:0"):
            text = self.fine("run", "m.onnx", "-i", "ones", "--device", device, "--optimize", "plain", "--profile", "trace.json")
            self.assertRegex(text, rf"(?m)^memory of {name} +peak +{most / 1e3:.1f} kB  \|[ .:=+*%#-]{{60}}\|$")
            events = [e for e in json.loads((self.folder / "trace.json").read_text())["traceEvents"] if e["ph"] == "C"]
            self.assertEqual({e["name"] for e in events}, {f"memory of {name}"})
            self.assertEqual(max(e["args"]["bytes"] for e in events), most)

    def test_dumps_of_graph_and_shapes_need_no_inputs(self):
        self.write("m.onnx", one("Relu", shape=("batch", 3)))
        for what in ("graph", "shapes"):
            text = self.fine("run", "m.onnx", "--dump", what)
            self.assertIn("x0", text)
            self.assertNotIn("time", text)
        self.assertIn("time", self.fine("run", "m.onnx", "--dump", "plan", "-i", "ones"))

    def test_random_operators_repeat_with_the_seed(self):
        node = helper.make_node("RandomNormal", [], ["y"], shape=[4])
        self.write("m.onnx", model([node], [], [("y", 1, (4,))]))
        a, b, c = (self.outputs("m.onnx", "--seed", seed)[1]["y"] for seed in (1, 1, 2))
        np.testing.assert_array_equal(a, b)
        self.assertFalse((a == c).any())

    def test_a_model_that_is_not_there_or_no_model_is_a_failure(self):
        self.write("m.onnx", "this is no model")
        self.assertIn("gone.onnx", self.fails(1, "run", "gone.onnx"))
        self.assertIn("m.onnx", self.fails(1, "run", "m.onnx"))


class Pictures(Command):
    """Pictures of the graph, the plan and its memory. Graphviz, which lays graphs out, reads them as well where it is installed."""

    HOSTILE = 'a"><B>&\\N\n}; evil [label="x"] \u20ac'

    def hostile_model(self):
        """x -> twice -> Mul -> y, each with a name that DOT, HTML and XML could take for their own words."""
        self.write("toy.c", TWICE)
        self.fine("build", "toy.c")
        name = self.HOSTILE
        nodes = [helper.make_node("twice", ["x" + name], ["t" + name], name="n0" + name, domain="toy"),
                 helper.make_node("Softmax", ["t" + name], ["s" + name], name="n1" + name, axis=1),
                 helper.make_node("Mul", ["s" + name, "w"], ["y" + name], name="n2" + name)]
        self.write("m.onnx", model(nodes, [("x" + name, 1, (2, 3))], [("y" + name, 1, (2, 3))], {"w": np.ones((2, 3), np.float32)}, toy=1))

    def draw(self, *pictures, arguments=("m.onnx", "--ops", "./toy.so", "-i", "ones")):
        return self.fine("run", *arguments, *(word for picture in pictures for word in ("--picture", picture)))

    def read_dot(self, name):
        """Returns the labels of the nodes as text by id, the attributes of the nodes, and the edges as pairs of ids, of a file in DOT."""
        text = (self.folder / name).read_text()
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tsvg", "-o", os.devnull, self.folder / name], check=True)
        self.assertEqual(text.count("\n}\n"), 1)  # no name ends the graph
        nodes = dict(re.findall(r"(?m)^ *((?:node|input|output|repeat)\d+) \[(.*)\];$", text))
        labels = {key: re.sub("<[^>]*>", "|", re.search("label=<(.*?)>(?:, (?:tooltip|shape)|$)", value)[1]) for key, value in nodes.items()}
        return labels, nodes, re.findall(r"(?m)^ *(\w+) -> (\w+) \[label=<(.*?)>", text), text

    def test_a_graph_has_its_nodes_edges_types_and_constants(self):
        self.hostile_model()
        self.assertNotIn("time", self.draw("graph=g.dot", arguments=("m.onnx", "--ops", "./toy.so")))  # needs no run
        labels, nodes, edges, text = self.read_dot("g.dot")
        self.assertEqual({key: label.split("|")[1] if key[0] == "n" else key for key, label in labels.items()},
                         {"node0": "toy::twice", "node1": "softmax", "node2": "mul", "input0": "input0", "output0": "output0"})
        self.assertEqual(edges, [("input0", "node0", "f32[2, 3]"), ("node0", "node1", "f32[2, 3]"), ("node1", "node2", "f32[2, 3]"),
                                 ("node2", "output0", "f32[2, 3]")])
        self.assertIn("constants f32[2, 3]", labels["node2"])
        self.assertIn("#ea580c", nodes["node0"])  # of a library
        self.assertNotIn("#ea580c", nodes["node1"])

    def test_names_are_escaped(self):
        self.hostile_model()
        self.draw("graph=g.dot", "memory=m.svg", arguments=("m.onnx", "--ops", "./toy.so", "-i", "ones", "--optimize", "plain"))
        labels, _, _, text = self.read_dot("g.dot")
        self.assertIn("x" + self.HOSTILE.replace("\n", "\ufffd"), html.unescape(labels["input0"].replace("&#39;", "'")))
        self.assertNotIn(self.HOSTILE, text)
        root = ElementTree.parse(self.folder / "m.svg").getroot()
        titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(title.startswith("t" + self.HOSTILE.replace("\n", "\ufffd")) for title in titles), titles)

    def test_a_plan_has_a_box_around_the_nodes_of_a_region(self):
        self.hostile_model()
        self.assertIn("time", self.draw("plan=p.dot"))
        _, nodes, _, text = self.read_dot("p.dot")
        box = re.search(r'subgraph cluster_unit1 \{ label="region of 3 nodes, (?:.|\n)*?\n  \}', text)[0]
        self.assertEqual(re.findall(r"node\d", box), ["node0", "node1", "node2"])
        self.assertTrue(all("action 0" in nodes[key] for key in ("node0", "node1", "node2")))

    def test_changed_nodes_say_what_they_were(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="first", kernel_shape=[1, 1]), helper.make_node("Relu", ["c"], ["y"], name="second")]
        self.write("c.onnx", model(nodes, [("x", 1, (1, 3, 4, 4))], [("y", 1, None)], {"w": np.ones((5, 3, 1, 1), np.float32)}))
        for optimize, words in (("full", "now activation='relu'"), ("plain", None)):
            self.draw("graph=g.dot", arguments=("c.onnx", "--optimize", optimize))
            labels, nodes, _, _ = self.read_dot("g.dot")
            self.assertEqual(len([key for key in nodes if key.startswith("node")]), 1 if words else 2)
            self.assertEqual("#fef08a" in nodes["node0"], words is not None)
            if words:
                self.assertIn(words, html.unescape(labels["node0"]))

    def test_blocks_that_repeat_are_drawn_once(self):
        nodes, last = [], "x"
        for i in range(5):
            nodes += [helper.make_node("MatMul", [last, "w"], [f"a{i}"], name=f"a{i}"), helper.make_node("Softmax", [f"a{i}"], [f"b{i}"], name=f"b{i}"),
                      helper.make_node("Add", [f"b{i}", last], [f"c{i}"], name=f"c{i}")]
            last = f"c{i}"
        self.write("r.onnx", model(nodes, [("x", 1, (4, 4))], [(last, 1, None)], {"w": np.ones((4, 4), np.float32)}))
        self.draw("graph=g.dot", "graph-whole=w.dot", arguments=("r.onnx", "--optimize", "plain"))
        labels, nodes, edges, text = self.read_dot("g.dot")
        count = int(re.search(r'label="block 1 of (\d)"', text)[1])
        self.assertIn(count, (4, 5))  # the first node of all reads an input, where the others read a node
        self.assertEqual(len([key for key in nodes if key.startswith("node")]), 15 - 3 * (count - 1))
        self.assertRegex(labels["repeat1"], f"blocks 2 to {count}.*the same 3 nodes, {count - 1} times")
        self.assertEqual(len([1 for _, to, _ in edges if to == "repeat1"]), len({(a, b) for a, b, _ in edges if b == "repeat1"}))
        _, nodes, edges, text = self.read_dot("w.dot")
        self.assertEqual((len([key for key in nodes if key.startswith("node")]), len(edges)), (15, 5 * 4 + 1))
        self.assertNotIn("repeat", text)

    def test_devices_have_colours(self):
        self.write("m.onnx", model([helper.make_node("Relu", ["x"], ["a"], name="first"), helper.make_node("Exp", ["a"], ["y"], name="second")],
                                   [("x", 1, (2, 3))], [("y", 1, None)]))
        self.draw("graph=g.dot", arguments=("m.onnx", "--device", "sim,cpu", "--pin", "first=sim", "--pin", "second=cpu"))
        _, nodes, _, text = self.read_dot("g.dot")
        fill = lambda key: re.search('fillcolor="(#[0-9a-f]+)"', nodes[key])[1]
        self.assertNotEqual(fill("node0"), fill("node1"))
        self.assertRegex(text, f'BGCOLOR="{fill("node0")}"[^/]*sim')
        self.assertIn("without a plan", self.fails(1, "run", "m.onnx", "--device", "sim,cpu", "--pin", "first=sim", "-i", "ones", "--picture", "plan=p.dot"))

    @unittest.skipUnless(shutil.which("dot"), "needs Graphviz (Debian package graphviz)")
    def test_graphviz_draws_svg(self):
        self.hostile_model()
        self.assertIn("picture  g.svg\npicture  p.svg", self.draw("graph=g.svg", "plan=p.svg"))
        for name in ("g.svg", "p.svg"):
            words = "".join(ElementTree.parse(self.folder / name).getroot().itertext())
            self.assertIn("softmax", words)
            self.assertIn("toy::twice", words)

    def test_what_cannot_be_drawn_is_an_error_before_the_run(self):
        self.write("m.onnx", one("Relu"))
        for given, words in (("graph", "expected graph, graph-whole, plan, plan-whole or memory, and a file"), ("tree=a.svg", "expected graph, "),
                             ("graph=a.png", "expected a file that ends with .svg or .dot"), ("memory=a.dot", "expected a file that ends with .svg"),
                             ("plan=", "and a file: graph=FILE.svg")):
            self.assertIn(words, self.fails(1, "run", "m.onnx", "-i", "ones", "--picture", given))
        said = self.fails(1, "run", "m.onnx", "-i", "ones", "--picture", "graph=a.svg", PATH=str(self.folder))
        self.assertIn("install the Debian package graphviz, or write a file that ends with .dot", said)
        self.assertIn("picture  a.dot", self.fine("run", "m.onnx", "--picture", "graph=a.dot", PATH=str(self.folder)))
        self.assertIn("a.dot", self.fails(1, "run", "m.onnx", "--picture", "graph=none/a.dot"))


class Trace(Command):
    def slices(self, path):
        """Slices of each track, nested as Perfetto nests them (name, category, depth), and the slices that have no end."""
        events, tracks, found = json.loads(path.read_text()), {}, []
        for event in events:
            self.assertLessEqual({"ph", "pid", "tid", "ts"}, set(event))
            stack = tracks.setdefault((event["pid"], event["tid"]), [])
            if event["ph"] == "B":
                found.append((event["name"], event["cat"], len(stack)))
                stack.append(event)
            else:
                self.assertEqual(event["ph"], "E")
                self.assertGreaterEqual(event["ts"], stack.pop()["ts"])
        return found, [event["name"] for stack in tracks.values() for event in stack]

    def test_a_trace_file_has_nested_slices_that_all_end(self):
        path = self.folder / "t.json"
        self.write("norm.c", NESTED)
        self.fine("build", "norm.c")
        self.write("m.onnx", one("outer", domain="nest", shape=(2,)))
        self.fine("run", "m.onnx", "--ops", "norm.so", "-i", "ones", TENON_TRACE=f"dispatch,args,file={path}")
        found, open_ones = self.slices(path)
        self.assertEqual(open_ones, [])
        self.assertEqual(found, [("nest::outer", "node", 0), ("nest::middle", "call", 1), ("nest::inner", "call", 2)])

    def test_a_trace_file_is_valid_when_the_process_dies_and_shows_what_was_running(self):
        path = self.folder / "t.json"
        self.write("norm.c", NESTED.replace("return TENON_OK; /* inner */", "abort();"))
        self.fine("build", "norm.c")
        self.write("m.onnx", one("outer", domain="nest", shape=(2,)))
        result = self.call("run", "m.onnx", "--ops", "norm.so", "-i", "ones", TENON_TRACE=f"file={path}")
        self.assertLess(result.returncode, 0)
        self.assertEqual(self.slices(path)[1], ["nest::outer", "nest::middle", "nest::inner"])

    def test_explain_and_show_give_the_same_reasons(self):
        self.write("norm.c", NESTED)
        self.fine("build", "norm.c")
        self.write("m.onnx", one("outer", domain="nest", shape=(2,)))
        said = self.call("run", "m.onnx", "--ops", "norm.so", "-i", "ones", TENON_EXPLAIN="1").stderr
        self.assertEqual(said, "explain nest::middle for cpu: takes composite [nest], resolved by 'composite'\n"
                         "explain nest::inner for cpu: takes cpu [nest], resolved by 'kernel'\n")
        shown = self.fine("show", "core::neg", "--explain", "cpu", "--dtype", "f32")
        self.assertRegex(shown, r"^explain core::neg for cpu, f32: takes cpu loop f32 -> f32.* \[core\], resolved by 'kernel'\n")
        self.assertRegex(shown, r"(?m)^  declined, not for f32: .*'cpu loop i32 -> i32")
        self.assertIn("'nowhere'", self.fails(1, "show", "core::neg", "--explain", "nowhere"))
        self.assertIn("f33", self.fails(1, "show", "core::neg", "--explain", "cpu", "--dtype", "f33"))


class Verify(Command):
    X = np.array([[-1, 0, 2], [3, -4, 5]], np.float32)

    def case(self, name, content, inputs, outputs, data=None):
        self.write(f"{name}/model.onnx", content)
        for kind, values in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(values):
                self.write(f"{name}/test_data_set_0/{kind}_{i}.pb", numpy_helper.from_array(value).SerializeToString())
        if data:
            self.write(f"{name}/data.json", json.dumps(data))

    def last(self, text):
        return text.splitlines()[-1]

    def test_cases_that_agree_pass_alone_or_by_their_folder(self):
        self.case("all/a", one("Relu"), [self.X], [np.maximum(self.X, 0)])
        self.case("all/more/b", one("Neg"), [self.X], [-self.X])
        self.assertEqual(self.fine("verify", "all/a"), "1 passed, 0 failed, 0 skipped\n")
        self.assertEqual(self.fine("verify", "all/"), "2 passed, 0 failed, 0 skipped\n")
        self.assertIn("ok    b\n", self.fine("verify", "-v", "all"))

    def test_a_wrong_value_is_a_failure_that_says_where_and_how_large(self):
        wrong = np.maximum(self.X, 0)
        wrong[1, 2] += 1
        wrong[0, 0] += 0.25
        self.case("a", one("Relu"), [self.X], [wrong])
        result = self.call("verify", "a")
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAIL  a  output 0 'y': 2 of 6 elements differ, most at [1, 2]: expected 6, found 5 (off by 1)",
                      result.stdout)
        self.assertEqual(self.last(result.stdout), "0 passed, 1 failed, 0 skipped")

    def test_another_dtype_or_shape_is_a_failure(self):
        self.case("a", one("Relu"), [self.X], [np.maximum(self.X, 0).astype(np.float64)])
        self.case("b", one("Relu"), [self.X], [np.maximum(self.X, 0)[:1]])
        self.assertIn("expected dtype f64, found f32", self.call("verify", "a").stdout)
        self.assertIn("expected shape [1, 3], found [2, 3]", self.call("verify", "b").stdout)

    def test_tolerances_are_onnx_s_unless_the_case_or_the_command_line_says_otherwise(self):
        off = np.maximum(self.X, 0) * np.float32(1.005)
        self.case("a", one("Relu"), [self.X], [off])
        self.case("b", one("Relu"), [self.X], [off], {"rtol": 0.01, "atol": 1e-7})
        self.assertEqual(self.call("verify", "a").returncode, 1)
        self.fine("verify", "--rtol", "0.01", "a")
        self.fine("verify", "b")
        self.assertEqual(self.call("verify", "--rtol=0.001", "b").returncode, 1)

    def test_nan_equals_nan_and_infinity_itself_only(self):
        x = np.array([np.nan, np.inf, 1], np.float32)
        self.case("a", one("Neg", shape=(3,)), [x], [-x])
        self.case("b", one("Neg", shape=(3,)), [x], [x * np.float32([1, 1, -1])])
        self.fine("verify", "a")
        self.assertIn("1 of 3 elements differ, most at [1]: expected inf, found -inf", self.call("verify", "b").stdout)

    def test_integers_and_strings_are_compared_exactly(self):
        large = np.full((2, 3), 10**9, np.int64)
        words = np.array(["a", "bc"], object)
        self.case("a", one("Add", 2, TensorProto.INT64), [large, large], [large * 2 + 1])
        self.case("b", one("Identity", 1, TensorProto.STRING, (2,)), [words], [words])
        self.case("c", one("Identity", 1, TensorProto.STRING, (2,)), [words], [words[::-1].copy()])
        self.assertEqual(self.call("verify", "a").returncode, 1)
        self.fine("verify", "b")
        self.assertIn("expected 'bc', found 'a'", self.call("verify", "c").stdout)

    def test_narrow_types_are_compared_by_their_values(self):
        for dtype, shown in (("BFLOAT16", ("1.5", "-2")), ("FLOAT16", ("1.5", "-2")), ("FLOAT8E4M3FN", ("1.5", "-2")),
                             ("INT4", ("1", "-2")), ("UINT4", ("1", "14")), ("BOOL", ("True", "False"))):
            with self.subTest(dtype):
                kind = getattr(TensorProto, dtype)
                numbers = {"UINT4": [1, 14, 1], "BOOL": [1, 0, 1]}.get(dtype, [1.5, -2, 1.5])
                x = np.array(numbers).astype(helper.tensor_dtype_to_np_dtype(kind))
                self.case("same", one("Identity", 1, kind, (3,)), [x], [x])
                self.case("other", one("Identity", 1, kind, (3,)), [x], [x[[0, 1, 1]]])
                self.fine("verify", "same")
                self.assertIn(f"1 of 3 elements differ, most at [2]: expected {shown[1]}, found {shown[0]} ",
                              self.call("verify", "other").stdout)

    def test_what_is_not_supported_is_skipped_and_counted_by_reason(self):
        for name in "abc":
            self.case(name, one("NoSuchOperator" + ("X" if name == "c" else "")), [self.X], [self.X])
        text = self.fine("verify", "a", "b", "c")
        self.assertRegex(text, r"(?m)^ +2  .*NoSuchOperator\b")
        self.assertRegex(text, r"(?m)^ +1  .*NoSuchOperatorX\b")
        self.assertEqual(self.last(text), "0 passed, 0 failed, 3 skipped")
        self.assertRegex(self.fine("verify", "-v", "a"), r"(?m)^skip  a  .*NoSuchOperator")

    def test_random_results_are_compared_by_their_distribution_and_by_shape_on_demand(self):
        node = helper.make_node("RandomNormal", [], ["y"], shape=[1000])
        draw = np.random.default_rng(3)
        samples = {"right": draw.normal(size=1000), "shifted": draw.normal(0.5, size=1000), "uniform": draw.uniform(0, 1, 1000), "short": draw.normal(size=999)}
        for name, sample in samples.items():
            self.case("random_" + name, model([node], [], [("y", 1, (1000,))]), [], [sample.astype(np.float32)])
        self.fine("verify", "random_right")
        for name in "shifted", "uniform":
            found = self.call("verify", "random_" + name)
            self.assertEqual(found.returncode, 1)
            self.assertIn("the numbers have another distribution", found.stdout + found.stderr)
            self.fine("verify", "random_" + name, "--shape-only", "rand*_" + name[:-1] + "?")
            self.assertEqual(self.call("verify", "random_" + name, "--shape-only", "rand").returncode, 1)
        self.assertEqual(self.call("verify", "random_short").returncode, 1)
        exact = model([helper.make_node("Identity", ["x"], ["y"])], [("x", 1, (1000,))], [("y", 1, (1000,))])  # nothing is random here
        self.case("exact", exact, [samples["right"].astype(np.float32)], [draw.normal(size=1000).astype(np.float32)])
        self.assertEqual(self.call("verify", "exact").returncode, 1)

    def transform_case(self, name, opset, axis, x, expected):
        """A case of the inverse transform along an axis, which is an attribute before opset 20 and then an input."""
        shapes = [("x", 1, x.shape)] + [("axis", 7, ())] * (opset >= 20)
        node = helper.make_node("DFT", *((["x", "", "axis"], ["y"]) if opset >= 20 else (["x"], ["y"])), inverse=1, **({} if opset >= 20 else {"axis": axis}))
        graph = helper.make_graph([node], "test", [helper.make_tensor_value_info(*s) for s in shapes], [helper.make_tensor_value_info("y", 1, None)])
        content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()
        self.case(name, content, [x] + [np.array(axis)] * (opset >= 20), [expected])

    def test_results_of_a_transform_may_have_its_rounding_in_each_line(self):
        lines = np.zeros((2, 8), complex)
        lines[0, :2] = 1000, 1000  # an impulse at 0 and one at 1: element 4 of the transform is 0
        lines[1, :2] = 1e-3, 1e-3
        right = np.fft.ifft(lines)
        limit = 2.0 ** -24 * 3 * np.linalg.norm(right, axis=1)  # the bound for 8 numbers, of each line
        self.assertGreater(limit[0], 2e-5)
        for opset, axis in ((17, 2), (20, 2), (20, -2), (17, 1)):
            for name, line, error, is_fine in (("same", 0, 0, True), ("rounding", 0, 0.9, True), ("more", 0, 1.1, False), ("other line", 1, 0.9, False)):
                with self.subTest(name, opset=opset, axis=axis):
                    noisy = right.copy()
                    noisy[line, 4] += 1j * error * limit[0]
                    x, y = (np.stack([z.real, z.imag], -1).astype(np.float32)[None] for z in (lines, noisy))
                    if axis == 1:
                        x, y = (np.ascontiguousarray(v.transpose(0, 2, 1, 3)) for v in (x, y))
                    self.transform_case(f"opset{opset}", opset, axis, x, y)
                    self.assertEqual(self.call("verify", f"opset{opset}").returncode, 0 if is_fine else 1)
        x, y = (np.stack([z.real, z.imag], -1).astype(np.float32)[None, :1] for z in (lines, right))
        off = y.copy()
        off[0, 0, 4] += np.float32(2e-7)
        self.transform_case("off", 17, 2, x, off)
        self.fine("verify", "off")
        self.case("plain", one("Identity", shape=y.shape), [y], [off])  # no transform: nothing is permitted
        self.assertEqual(self.call("verify", "plain").returncode, 1)
        off[0, 0, 4, 1] = np.inf
        self.transform_case("infinite", 17, 2, x, off)
        self.assertIn("expected inf", self.call("verify", "infinite").stdout)

    def test_a_light_model_gets_the_inputs_of_onnx_s_runner(self):
        x = (np.arange(6).reshape(2, 3) / 6).astype(np.float32)
        self.write("light/light_exp.onnx", one("Exp"))
        self.write("light/light_exp_output_0.pb", numpy_helper.from_array(np.exp(x)).SerializeToString())
        self.write("real/test_exp/data.json", json.dumps({"url": "onnx/backend/test/data/light/light_exp.onnx"}))
        self.fine("verify", "light/light_exp.onnx")
        self.assertEqual(self.fine("verify", "-v", "light", "real"),
                         "ok    light_exp\nok    test_exp\n2 passed, 0 failed, 0 skipped\n")

    @unittest.skipUnless(LIGHT.exists(), f"{LIGHT} is not there")
    def test_a_light_model_of_onnx_s_own_agrees(self):
        self.assertEqual(self.fine("verify", LIGHT / "light_squeezenet.onnx"), "1 passed, 0 failed, 0 skipped\n")

    def bad_cases(self):
        self.write("bad.c", BAD)
        self.fine("build", "bad.c")
        self.case("cases/a", one("die", domain="bad"), [self.X], [self.X])
        self.case("cases/b", one("Neg"), [self.X], [-self.X])
        self.case("cases/c", one("hang", domain="bad"), [self.X], [self.X])
        self.case("cases/d", one("Relu"), [self.X], [np.maximum(self.X, 0)])

    def test_isolated_cases_that_crash_or_hang_are_failures_and_the_others_go_on(self):
        self.bad_cases()
        for jobs in ([], ["-j2"], ["-j9"]):
            result = self.call("verify", "cases", "--ops", "bad.so", "--isolate", "--timeout", "2", *jobs)
            self.assertEqual(result.returncode, 1)
            self.assertIn("FAIL  a  crashed with signal 6\n", result.stdout)
            self.assertIn("FAIL  c  no result after 2 s\n", result.stdout)
            self.assertEqual(self.last(result.stdout), "2 passed, 2 failed, 0 skipped")

    def test_a_library_that_cannot_be_loaded_ends_the_verification(self):
        self.case("a", one("Neg"), [self.X], [-self.X])
        for options in ([], ["--isolate"], ["-j3"]):
            self.assertIn("gone.so", self.fails(1, "verify", "a", "--ops", "gone.so", *options))

    def test_a_folder_without_cases_is_a_failure(self):
        (self.folder / "empty").mkdir()
        self.assertIn("empty", self.fails(1, "verify", "empty"))
        self.assertIn("gone", self.fails(1, "verify", "gone"))

    def test_missing_inputs_are_a_failure_and_not_a_skip(self):
        self.case("a", one("Add", 2), [self.X], [self.X])
        result = self.call("verify", "a")
        self.assertEqual(result.returncode, 1)
        self.assertIn("contains 1 inputs, expected 2 as in the model", result.stdout)


if __name__ == "__main__":
    if "--build" in sys.argv:
        at = sys.argv.index("--build")
        build = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at : at + 2]
    unittest.main()
