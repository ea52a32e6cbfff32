#!/usr/bin/env python3
"""Debugging across the boundary: recorded calls and their replay, the first NaN, crash reports, a gdb session, comparison of runs,
libraries built with sanitizers, and what `tenon doctor` says of libraries that do not load.

Libraries are written here and built by the system's compilers.  Options: --build DIR (build); the others go to unittest.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
build = ROOT / "build"
scratch = tempfile.TemporaryDirectory()
HERE = pathlib.Path(scratch.name)

TOY = r"""
#include <math.h>
#include <stdlib.h>
#include <tenon/op.h>
#ifndef FACTOR
#define FACTOR 2
#endif
static tenon_status_t twice(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) y[i] = FACTOR * x[i]; /* in twice */
  return TENON_OK;
}
static tenon_status_t around(tenon_call_t *call) {
  tenon_tensor_t *result = call->outputs[0];
  tenon_status_t status = call->host->invoke(call, call->uses[0], 0, call->inputs, &result); /* in around */
  if (status != TENON_OK) return status;
  return TENON_OK; /* back in around */
}
static tenon_status_t limited(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  if (x[0] > call->attrs[0].as.f) return tenon_fail(call, TENON_RANGE, "%g is above %g", (double)x[0], call->attrs[0].as.f);
  for (int64_t i = 0; i < tenon_count(call->outputs[0]); i++) ((float *)call->outputs[0]->data)[i] = x[0];
  return TENON_OK;
}
static tenon_status_t count_up(tenon_call_t *call) { /* writes to its input */
  float *x = call->inputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) x[i] += 1;
  return x[0] < 3 ? TENON_OK : tenon_fail(call, TENON_RANGE, "three");
}
static tenon_status_t make(tenon_node_t *node) { return (node->state = calloc(1, sizeof(int))) ? TENON_OK : TENON_MEMORY; }
static tenon_status_t counter(tenon_call_t *call) {
  int count = ++*(int *)call->state;
  for (int64_t i = 0; i < tenon_count(call->outputs[0]); i++) ((float *)call->outputs[0]->data)[i] = (float)count;
  return TENON_OK;
}
static tenon_status_t logarithm(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((float *)loop->data[1])[i] = logf(((const float *)loop->data[0])[i]);
  return TENON_OK;
}
static tenon_status_t crash(tenon_call_t *call) {
  *(volatile int *)(call->attrs[0].as.i) = 1; /* in crash */
  return TENON_OK;
}
static tenon_status_t divide(tenon_call_t *call) {
  volatile int zero = 0;
  *(float *)call->outputs[0]->data = (float)((int)call->size / zero);
  return TENON_OK;
}
static tenon_status_t give_up(tenon_call_t *call) { return call->op ? (abort(), TENON_OK) : TENON_INVALID; }
static int deep(volatile char *p) {
  volatile char room[4096];
  room[0] = *p;
  return p[0] == 2 ? 0 : deep(room) + room[1];
}
static tenon_status_t overflow(tenon_call_t *call) {
  char one = 1;
  *(float *)call->outputs[0]->data = (float)deep(&one);
  return TENON_OK;
}
static tenon_status_t part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  (void)argument, (void)end;
  *(volatile int *)(16 + call->attrs[0].as.i + begin) = 1; /* in part */
  return TENON_OK;
}
static tenon_status_t crash_apart(tenon_call_t *call) { return call->host->parallel(call, 1 << 20, 1000, part, NULL); }
static tenon_status_t crash_loop(const tenon_loop_t *loop) {
  *(volatile int *)(uintptr_t)(loop->count - loop->count + 40) = 1; /* in crash_loop */
  return TENON_OK;
}
static tenon_status_t crash_infer(tenon_infer_t *infer) {
  *(volatile int *)(uintptr_t)(infer->phase + 36) = 1;
  return TENON_OK;
}
#define OP(schema, kernel) \
  TENON_OP(schema, TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", kernel))
TENON_LIBRARY(toy, "1.0.0",
  OP("twice(Tensor x) -> Tensor", twice),
  TENON_OP("around(Tensor x, *, int[] axes=[1, 2], str['a', 'b'] how='b') -> Tensor", TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("out = x"), TENON_USES("toy::twice"), TENON_KERNEL("cpu", around)),
  OP("limited(Tensor x, *, float most=5.0) -> Tensor", limited),
  TENON_OP("count_up(Tensor(a!) x) -> Tensor(a!)", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_KERNEL("cpu", count_up)),
  TENON_OP("counter(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_STATE(make, free),
    TENON_KERNEL("cpu serial", counter)),
  TENON_OP("logarithm(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32 -> f32", logarithm)),
  OP("crash(Tensor x, *, int at=24) -> Tensor", crash), OP("divide(Tensor x) -> Tensor", divide),
  OP("give_up(Tensor x) -> Tensor", give_up), OP("overflow(Tensor x) -> Tensor", overflow),
  OP("crash_apart(Tensor x, *, int at=24) -> Tensor", crash_apart),
  TENON_OP("crash_around(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_USES("toy::crash"), TENON_KERNEL("cpu", around)),
  TENON_OP("crash_loop(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_LOOP("f32 -> f32", crash_loop)),
  TENON_OP("crash_infer(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_INFER(crash_infer),
    TENON_KERNEL("cpu", twice)))
"""


def run(*command, env=None, code=0, timeout=240):
    """Runs a command; its stdout and stderr.  `code` None: any."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, cwd=HERE,
                          env={**os.environ, "TENON_CACHE": str(HERE / "cache"), **(env or {})})
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def tenon(*words, **named):
    return run(build / "tenon", *words, **named)


def python(program, **named):
    """A program in Python that has `toy`, the library, and `x`, ones."""
    text = "import numpy as np, tenon\ntoy = tenon.load('./toy.so')\nx = np.ones((2, 3), np.float32)\n" + program
    return run(sys.executable, "-c", text, env={"PYTHONPATH": str(build / "python"), **named.pop("env", {})}, **named)


def library(name, source, *flags, compiler="gcc"):
    """A shared object of a text in C, with these flags and nothing else."""
    language = "c++" if "++" in compiler else "c"
    path = HERE / f"{name}.{'cc' if language == 'c++' else 'c'}"
    path.write_text(source)
    run(compiler, "-shared", "-fPIC", "-g", f"-I{ROOT / 'include'}", path, *flags, "-o", HERE / f"{name}.so")
    return HERE / f"{name}.so"


def recordings(folder):
    return sorted(path for path in pathlib.Path(folder).iterdir())


def model(name, *nodes):
    """x [n, 16] -> y, with a matrix w."""
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 16])
    w = numpy_helper.from_array(np.random.RandomState(0).randn(16, 16).astype(np.float32), "w")
    graph = helper.make_graph(list(nodes), name, [port("x")], [port("y")], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("toy", 1)], ir_version=8),
              HERE / f"{name}.onnx")
    return HERE / f"{name}.onnx"


def node(kind, inputs, output, name, domain="", **attributes):
    return helper.make_node(kind, inputs.split(), [output], name, domain=domain, **attributes)


def line_of(words):
    return next(i for i, line in enumerate(TOY.split("\n"), 1) if words in line)


def setUpModule():
    (HERE / "toy.c").write_text(TOY)
    tenon("build", "toy.c", "-o", "toy.so", "--", "-g", "-O1", "-fno-omit-frame-pointer")
    tenon("build", "toy.c", "-o", "session.so", "--", "-g", "-O0")
    tenon("build", "toy.c", "-o", "other.so", "--", "-g", "-O1", "-DFACTOR=2.5f")


def has_python():
    return any((build / "python/tenon").glob("_core.*.so"))


@unittest.skipUnless(has_python(), "the headers of Python are not installed (python3-dev)")
class Recordings(unittest.TestCase):
    def record(self, program, name, **env):
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        out, err = python(program, env={"TENON_RECORD": str(folder), **env})
        return recordings(folder) if folder.exists() else [], out, err

    def test_a_call_that_fails_is_saved_and_fails_again(self):
        saved, _, err = self.record("try: toy.limited(x * 6, most=4.5)\nexcept tenon.RangeError: pass", "failing")
        self.assertEqual([path.name for path in saved], ["000-toy.limited"])
        self.assertIn(f"`tenon replay {saved[0]}`", err)
        call = json.loads((saved[0] / "call.json").read_text())
        self.assertEqual((call["operator"], call["status"], call["attributes"]), ("toy::limited", "out of range", {"most": "4.5"}))
        self.assertIn("6 is above 4.5", call["error"])
        self.assertEqual(call["library_path"], str((HERE / "toy.so").resolve()))
        np.testing.assert_array_equal(np.load(saved[0] / call["inputs"][0]["file"]), np.full((2, 3), 6, np.float32))
        out, _ = tenon("replay", saved[0])
        self.assertIn("the same failure", out)

    def test_a_call_that_is_refused_is_saved_too(self):
        saved, _, _ = self.record("try: toy.limited(x.astype(np.float64))\nexcept tenon.Error: pass", "refused")
        self.assertIn("expected f32, found f64", json.loads((saved[0] / "call.json").read_text())["error"])
        self.assertIn("the same failure", tenon("replay", saved[0])[0])

    def test_calls_that_work_are_saved_when_asked_for_and_compared_with_another_build(self):
        saved, _, _ = self.record("toy.twice(x.T)\ntoy.logarithm(x)", "working", TENON_RECORD_OP="toy::tw*")
        self.assertEqual([path.name for path in saved], ["000-toy.twice"])
        self.assertIn("the same results", tenon("replay", saved[0])[0])
        out, _ = tenon("replay", saved[0], "--ops", "other.so", code=1)
        self.assertIn("expected 2, found 2.5", out)
        self.assertIn("another outcome", out)
        saved, _, _ = self.record("toy.around(x)", "all", TENON_RECORD_ALL="1")
        self.assertEqual([path.name for path in saved], ["000-toy.twice", "001-toy.around"])  # the inner one ends first
        self.assertIn("2 calls, 0 with another outcome", tenon("replay", HERE / "all")[0])

    def test_inputs_that_a_call_writes_to_are_saved_as_they_were(self):
        saved, _, _ = self.record("toy.count_up(x)\ntry: toy.count_up(x)\nexcept tenon.RangeError: pass", "written", TENON_RECORD_ALL="1")
        first, second = [json.loads((path / "call.json").read_text()) for path in saved]
        self.assertEqual(np.load(saved[0] / first["inputs"][0]["file"])[0, 0], 1)
        self.assertEqual(np.load(saved[0] / first["written"][0]["file"])[0, 0], 2)
        self.assertEqual(np.load(saved[1] / second["inputs"][0]["file"])[0, 0], 2)
        self.assertIn("0 with another outcome", tenon("replay", HERE / "written")[0])

    def test_calls_of_one_state_are_repeated_on_one_state(self):
        saved, _, _ = self.record("toy.counter(x)\ntoy.counter(x)\ntoy.counter(x)", "state", TENON_RECORD_ALL="1")
        calls = [json.loads((path / "call.json").read_text()) for path in saved]
        self.assertEqual(len({call["state"] for call in calls}), 1)
        self.assertEqual([np.load(path / "output_0.npy")[0, 0] for path in saved], [1, 2, 3])
        self.assertIn("3 calls, 0 with another outcome", tenon("replay", HERE / "state")[0])
        tenon("replay", saved[2], code=1)  # alone it is the first

    def test_random_numbers_are_drawn_from_where_they_began(self):
        saved, out, _ = self.record("tenon.seed(7)\ny = [tenon.ops.core.randn(shape=[5]) for _ in range(2)]", "random",
                                    TENON_RECORD_ALL="1")
        calls = [json.loads((path / "call.json").read_text()) for path in saved]
        self.assertEqual(calls[0]["random"], {"seed": "7", "offset": "0"})
        self.assertGreater(int(calls[1]["random"]["offset"]), 0)
        self.assertIn("0 with another outcome", tenon("replay", HERE / "random")[0])

    def test_the_node_of_a_model_is_named(self):
        path = model("limits", node("MatMul", "x w", "h", "mm"), node("limited", "h", "y", "the limit", "toy", most=-1000.0))
        shutil.rmtree(HERE / "node", ignore_errors=True)
        _, err = tenon("run", path, "--ops", "toy.so", "--input", "ramp", env={"TENON_RECORD": str(HERE / "node")}, code=1)
        self.assertIn("node 'the limit' (toy::limited)", err)
        call = json.loads((recordings(HERE / "node")[0] / "call.json").read_text())
        self.assertEqual((call["node"], call["operator"]), ("the limit", "toy::limited"))

    def test_python_gives_the_arguments_and_repeats_the_call(self):
        saved, _, _ = self.record("toy.limited(x[:, ::2], most=9.5)", "python", TENON_RECORD_ALL="1")
        out, _ = python(f"r = tenon.replay({str(saved[0])!r})\nprint(r)\nprint(r.op, r.status, r.attributes, r.inputs[0].shape)\n"
                        "print(r.inputs[0].numpy().strides, r()[0].numpy()[0, 0] == r.outputs[0].numpy()[0, 0])")
        self.assertEqual(out.splitlines(), ["<recorded call of toy::limited(f32[2, 2])>",
                                            "toy::limited ok {'most': '9.5'} (2, 2)", "(12, 8) True"])

    def test_python_switches_recording_on_and_off(self):
        folder = HERE / "switched"
        shutil.rmtree(folder, ignore_errors=True)
        python(f"toy.twice(x)\nwith tenon.record({str(folder)!r}, ops='toy::twice'): toy.twice(x)\ntoy.twice(x)")
        self.assertEqual([path.name for path in recordings(folder)], ["000-toy.twice"])

    def test_so_many_calls_are_saved_and_no_more(self):
        saved, _, err = self.record("for _ in range(9): toy.twice(x)", "most", TENON_RECORD_ALL="1", TENON_RECORD_MOST="4")
        self.assertEqual(len(saved), 4)
        self.assertEqual(err.count("4 calls are recorded"), 1)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_a_call_is_repeated_under_valgrind(self):
        saved, _, _ = self.record("toy.twice(x)", "valgrind", TENON_RECORD_ALL="1")
        out, err = tenon("replay", saved[0], "--valgrind")
        self.assertIn("the same results", out)
        self.assertIn("ERROR SUMMARY: 0 errors", err)

    @unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
    def test_a_call_is_repeated_under_gdb_and_stops_where_the_kernel_begins(self):
        saved, _, _ = self.record("toy.twice(x)", "gdb", TENON_RECORD_ALL="1")
        done = subprocess.run([build / "tenon", "replay", saved[0], "--gdb"], input="tenon call\nkill\nquit\n", capture_output=True,
                              text=True, timeout=240, env={**os.environ, "DEBUGINFOD_URLS": ""})
        self.assertRegex(done.stdout, r"Breakpoint 1.*, twice \(call=")
        self.assertIn("input x = f32[2, 3] {1, 1, 1, 1, 1, 1}", done.stdout)


class Nan(unittest.TestCase):
    def setUp(self):
        self.model = model("logs", node("MatMul", "x w", "h", "mm"), node("logarithm", "h", "r", "the log", "toy"), node("Relu", "r", "y", "relu"))
        self.options = "run", self.model, "--ops", "toy.so", "--input", "random:1"

    def test_the_first_node_that_makes_one_is_named_with_its_place(self):
        x = tenon(*self.options, "--values", "nan-values")[0]
        rows = [line.split("\t") for line in (HERE / "nan-values/values.txt").read_text().splitlines()]
        h = np.load(HERE / "nan-values" / next(row[1] for row in rows if row[3] == "h"))
        place = tuple(int(i[0]) for i in np.nonzero(h < 0))
        for command in (self.options + ("--nan", "stop"), self.options):
            _, err = tenon(*command, env={} if "--nan" in command else {"TENON_NAN": "stop"}, code=1)
            self.assertIn(f"node 'the log' (toy::logarithm): toy::logarithm: result out[{place[0]}, {place[1]}] is NaN", err)
            self.assertIn("its inputs have none: it begins here", err)

    def test_reported_is_only_where_it_begins(self):
        out, err = tenon(*self.options, "--nan", "report")
        self.assertEqual(len(re.findall("^tenon: ", err, re.M)), 1)
        self.assertIn("nan", out)

    def test_an_infinity_is_one_too_unless_it_is_said_not_to_be(self):
        path = model("zeros", node("Sub", "x x", "z", "zero"), node("logarithm", "z", "y", "the log", "toy"))
        _, err = tenon("run", path, "--ops", "toy.so", "--input", "ones", "--nan", "stop", code=1)
        self.assertIn("is infinite (the first of 16 among 16 numbers)", err)
        tenon("run", path, "--ops", "toy.so", "--input", "ones", "--nan", "stop,nan")

    def test_one_that_was_there_already_is_told_apart(self):
        np.save(HERE / "bad.npy", np.array([[np.nan] + [1] * 15], np.float32))
        _, err = tenon("run", model("one", node("twice", "x", "y", "twice", "toy")), "--ops", "toy.so", "--input", "x=@bad.npy", "--nan",
                       "stop", code=1)
        self.assertIn("result out[0, 0] is NaN; before the call: input x[0, 0] is NaN", err)

    @unittest.skipUnless(has_python(), "the headers of Python are not installed (python3-dev)")
    def test_in_python_the_call_raises(self):
        out, _ = python("with tenon.nan():\n  try: toy.logarithm(-x)\n  except tenon.Error as error: print(error)\nprint(toy.logarithm(-x)[0, 0])")
        self.assertIn("toy::logarithm: result out[0, 0] is NaN (the first of 6 among 6 numbers)", out)
        self.assertIn("nan", out.splitlines()[-1])


@unittest.skipUnless(has_python(), "the headers of Python are not installed (python3-dev)")
class Crashes(unittest.TestCase):
    def crash(self, call, number=signal.SIGSEGV, prepare="", **env):
        _, err = python(f"{prepare}\n{call}", env={"TENON_CRASH": "1", **env}, code=-number)
        return err

    def test_the_report_has_operator_arguments_library_and_source_line(self):
        err = self.crash("toy.crash(x, at=24)")
        self.assertIn("tenon: SIGSEGV in toy::crash: there is no memory at 0x18", err)
        self.assertRegex(err, r"input x: f32\[2, 3\] at 0x")
        self.assertIn("attribute at: 24", err)
        self.assertIn(f"library toy 1.0.0 {(HERE / 'toy.so').resolve()}", err)
        self.assertRegex(err, rf"#0  crash at {re.escape(str(HERE / 'toy.c'))}:{line_of('/* in crash */')} in ")

    def test_each_way_to_crash_has_its_words(self):
        cases = [("toy.divide(x)", signal.SIGFPE, "SIGFPE in toy::divide: an integer was divided by 0"),
                 ("toy.give_up(x)", signal.SIGABRT, "SIGABRT in toy::give_up: abort() was called"),
                 ("toy.overflow(x)", signal.SIGSEGV, "SIGSEGV in toy::overflow: the stack is full"),
                 ("toy.crash_loop(x)", signal.SIGSEGV, "SIGSEGV in toy::crash_loop: there is no memory at 0x28"),
                 ("toy.crash_infer(x)", signal.SIGSEGV, "SIGSEGV in toy::crash_infer (infer): there is no memory at 0x28")]
        for call, number, words in cases:
            with self.subTest(call):
                self.assertIn(words, self.crash(call, number))

    def test_another_thread_and_a_thread_of_the_pool_report_the_call_too(self):
        self.assertIn("SIGSEGV in toy::crash_apart", self.crash("toy.crash_apart(x)"))
        self.assertIn("SIGSEGV in toy::overflow: the stack is full",
                      self.crash("import threading\nt = threading.Thread(target=toy.overflow, args=(x,))\nt.start()\nt.join()"))

    def test_calls_around_it_are_named(self):
        err = self.crash("toy.crash_around(x)")
        self.assertIn("SIGSEGV in toy::crash: ", err)
        self.assertIn("called by toy::crash_around", err)
        self.assertNotIn("called by toy::crash\n", err)

    def test_old_calls_on_the_stack_are_not_taken_for_it(self):
        err = self.crash("for _ in range(50): toy.around(x), toy.twice(x), toy.logarithm(x)\ntoy.crash(x)")
        self.assertIn("SIGSEGV in toy::crash: ", err)
        self.assertNotIn("called by", err)

    def test_in_a_model_it_is_the_node_that_runs(self):
        path = model("crashing", node("MatMul", "x w", "h", "mm"), node("twice", "h", "t", "before", "toy"),
                     node("crash", "t", "c", "the crash", "toy"), node("twice", "c", "y", "after", "toy"))
        _, err = tenon("run", path, "--ops", "toy.so", "--input", "ones", code=-signal.SIGSEGV)  # the command has it on
        self.assertIn("tenon: SIGSEGV in toy::crash: there is no memory at 0x18\n  input x: f32[1, 16]", err)

    def test_the_handler_that_was_there_runs_afterwards(self):
        err = self.crash("toy.crash(x)", prepare="pass", PYTHONFAULTHANDLER="1")
        self.assertLess(err.index("SIGSEGV in toy::crash"), err.index("Fatal Python error: Segmentation fault"))

    def test_a_crash_that_is_none_of_an_operators_is_left_alone(self):
        self.assertNotIn("tenon:", self.crash("toy.twice(x)\nimport ctypes\nctypes.string_at(8)"))

    def test_the_call_is_recorded_and_crashes_again(self):
        folder = HERE / "crashed"
        shutil.rmtree(folder, ignore_errors=True)
        err = self.crash("toy.crash(x * 3, at=32)", TENON_RECORD=str(folder))
        saved = recordings(folder)[0]
        self.assertIn(f"recorded; to repeat it: tenon replay --gdb {saved}", err)
        call = json.loads((saved / "call.json").read_text())
        self.assertEqual((call["attributes"], call["error"]), ({"at": "32"}, "SIGSEGV"))
        np.testing.assert_array_equal(np.load(saved / "input_0.npy"), np.full((2, 3), 3, np.float32))
        _, err = tenon("replay", saved, code=-signal.SIGSEGV)
        self.assertIn("there is no memory at 0x20", err)

    def test_it_is_off_unless_it_is_asked_for(self):
        _, err = python("toy.crash(x)", code=-signal.SIGSEGV)
        self.assertNotIn("toy::crash", err)
        _, err = python("tenon.crash_report()\ntoy.crash(x)", code=-signal.SIGSEGV)
        self.assertIn("toy::crash", err)
        _, err = python("tenon.crash_report()\ntenon.crash_report(False)\ntoy.crash(x)", code=-signal.SIGSEGV)
        self.assertNotIn("toy::crash", err)


@unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
class Gdb(unittest.TestCase):
    def gdb(self, *commands, program):
        script = ["set confirm off", "set pagination off", "set debuginfod enabled off", f"source {ROOT / 'tools/gdb/tenon-gdb.py'}"]
        words = [word for command in script + list(commands) for word in ("-ex", command)]
        out, _ = run("gdb", "-q", "-nx", "-batch", *words, "--args", *program, code=None)
        return out

    def test_a_breakpoint_from_before_the_library_is_loaded_and_a_step_into_a_called_operator_and_back(self):
        path = model("session", node("MatMul", "x w", "h", "mm"), node("around", "h", "y", "node", "toy", axes=[3, 4]))
        x = np.linspace(0, 1, 16, dtype=np.float32)[None]
        np.save(HERE / "session.npy", x)
        tenon("run", path, "--ops", "session.so", "--input", "x=@session.npy", "--values", "session-values", "--optimize", "plain")
        rows = [line.split("\t") for line in (HERE / "session-values/values.txt").read_text().splitlines()]
        h = np.load(HERE / "session-values" / next(row[1] for row in rows if row[3] == "h")).reshape(-1)
        shown = ", ".join(f"{number:.7g}" for number in h[:8].tolist())
        double = ", ".join(f"{number:.7g}" for number in (2 * h[:8]).tolist())
        out = self.gdb("set breakpoint pending on", f"break toy.c:{line_of('/* in around */')}", "run", "print *call->inputs[0]",
                       "print call->inputs[0]->dtype", "print call->op", "print call->attrs[0]", "tenon call", "tenon step", "tenon call",
                       "tenon tensor call->inputs[0]", f"tbreak toy.c:{line_of('/* back in around */')}", "continue", "print status",
                       "print *result", "tenon ops ^toy::t", "kill",
                       program=(build / "tenon", "run", path, "--ops", "session.so", "--input", "x=@session.npy"))
        self.assertRegex(out, r"Breakpoint 1 \(toy.c:\d+\) pending")
        self.assertRegex(out, r"Breakpoint 1.*, around \(call=")
        self.assertIn(f"$1 = f32[1, 16] {{{shown}, ...}}", out)
        self.assertIn("$2 = f32\n$3 = operator toy::around\n$4 = [3, 4]\n", out)
        self.assertIn(f"toy::around (run)\n  input x = f32[1, 16] {{{shown}, ...}}\n  attribute axes = [3, 4]\n  attribute how = 'b'\n", out)
        stepped = out.index("twice (call=")
        self.assertIn("toy::twice (run)\n  input x = f32[1, 16]", out[stepped:])
        self.assertIn("toy::around (run)", out[stepped:])
        back = out.index("Temporary breakpoint", out.index("continue") if "continue" in out else stepped)
        self.assertIn(f"$5 = TENON_OK\n$6 = f32[1, 16] {{{double}, ...}}", out[back:])
        self.assertIn("toy::twice  twice(Tensor x) -> Tensor", out)

    def test_the_call_is_found_in_code_without_debug_information_too(self):
        run("strip", "-g", HERE / "session.so", "-o", HERE / "stripped.so")
        path = model("stripped", node("around", "x", "y", "node", "toy"))
        np.save(HERE / "ones.npy", np.ones((1, 16), np.float32))
        out = self.gdb("set breakpoint pending on", "break twice", "run", "tenon call", "kill",
                       program=(build / "tenon", "run", path, "--ops", "stripped.so", "--input", "x=@ones.npy"))
        self.assertRegex(out, r"toy::twice \(run\)\n  input x = f32\[1, 16\] \{1, 1, 1, 1, 1, 1, 1, 1, ...\}")
        self.assertIn("toy::around (run)", out)

    def test_tensors_of_every_kind_are_printed(self):
        source = r"""
#include <tenon/tenon.h>
#include <string.h>
static int stop(const tenon_tensor_t **t) { return t[0] != 0; }
int main(void) {
  tenon_tensor_t *t[5], view, *list;
  static int64_t shape[2] = {2, 2}, strides[2] = {1, 2};
  static float numbers[4] = {1, 2, 3, 4};
  tenon_dim_t dim = {-(1LL << 62) - (1LL << 62) + 7};
  tenon_string_t text = {"abc", 3};
  tenon_tensor_create(tenon_dtype(TENON_BF16), 1, (int64_t[]){2}, &t[0]);
  memcpy(t[0]->data, (uint16_t[]){0x3fc0, 0xc000}, 4);
  tenon_tensor_create(tenon_dtype(TENON_I4), 1, (int64_t[]){3}, &t[1]);
  memcpy(t[1]->data, (uint8_t[]){0xf1, 0x07}, 2);
  tenon_tensor_create(tenon_dtype(TENON_STRING), 1, (int64_t[]){2}, &t[2]);
  tenon_tensor_set_string(t[2], 0, "one", 3);
  tenon_tensor_create(tenon_dtype(TENON_C64), 0, 0, &t[3]);
  memcpy(t[3]->data, (float[]){1, -2}, 8);
  tenon_tensor_view(&view, numbers, tenon_dtype(TENON_F32), 2, shape, strides, 0);
  tenon_tensor_list(t, 2, &list);
  t[4] = list;
  tenon_status_t status = TENON_RANGE;
  return stop((const tenon_tensor_t **)t) + (int)dim.value + (int)text.size + status + view.ndim; /* here */
}
"""
        (HERE / "kinds.c").write_text(source)
        run("gcc", "-g", "-O0", f"-I{ROOT / 'include'}", "kinds.c", "-o", "kinds", f"-L{build}", "-ltenon", f"-Wl,-rpath,{build}")
        line = next(i for i, text in enumerate(source.split("\n"), 1) if "/* here */" in text)
        out = self.gdb(f"break kinds.c:{line}", "run", "print *t[0]", "print t[1]", "print t[2]", "print t[3]", "print t[4]", "print view",
                       "print dim", "print text", "print status", "print view.dtype", "kill", program=(HERE / "kinds",))
        found = dict(re.findall(r"^\$(\d+) = (.*)$", out, re.M))
        self.assertEqual([found.get(str(i)) for i in range(1, 11)],
                         ["bf16[2] {1.5, -2}", "i4[3] {1, -1, 7}", "string[2] {'one', ''}", "c64[] {1-2i}",
                          "list[2] {bf16[2] {1.5, -2}, i4[3] {1, -1, 7}}", "f32[2, 2] strides [1, 2] {1, 3, 2, 4}", "s7", "'abc'",
                          "TENON_RANGE", "f32"])


class Comparisons(unittest.TestCase):
    def setUp(self):
        self.model = model("compared", node("MatMul", "x w", "h", "mm"), node("twice", "h", "t", "the twice", "toy"),
                           node("MatMul", "t w", "z", "mm2"), node("Softmax", "z", "y", "softmax", axis=-1))

    def compare(self, *words, code=1):
        shutil.rmtree(HERE / "recordings", ignore_errors=True)
        return tenon("compare", self.model, "--dim", "n=3", "--ops", "toy.so", *words, code=code)[0]

    def test_the_first_node_that_another_build_of_a_library_computes_otherwise_is_named_and_recorded(self):
        out = self.compare("--against", "ops=other.so")
        self.assertIn("first: node 'the twice' (toy::twice), value 't'", out)
        self.assertIn("48 of 48 elements differ, most at [", out)
        self.assertIn("it gives what the first run gave", out)
        saved = recordings(HERE / "recordings")[0]
        self.assertIn(f"tenon replay recordings/{saved.name}", out)
        self.assertIn("another outcome", tenon("replay", saved, "--ops", "toy.so", code=1)[0])
        self.assertIn("the same results", tenon("replay", saved, "--ops", "other.so")[0])

    def test_ways_that_agree_agree(self):
        for words in (["--against", "threads=1"], ["--optimize", "plain", "--against", "optimize=full", "--each"],
                      ["--against", "capability=default"], ["--device", "sim", "--against", "cpu"]):
            with self.subTest(words):
                self.assertIn("4 of 4 values compared, 0 differ; of 1 outputs 0", self.compare(*words, code=0))

    def test_it_is_json_and_a_picture_too(self):
        result = json.loads(self.compare("--against", "ops=other.so", "--json", "--svg", "picture.svg"))
        self.assertEqual((result["node"], result["first"], result["compared"], result["outputs_differ"]), ("the twice", "t", 4, 1))
        self.assertEqual([value["differs"] for value in result["values"]], [False, True, True, True])
        picture = (HERE / "picture.svg").read_text()
        self.assertEqual(picture.count("<title>"), 4)
        self.assertIn("the twice (toy::twice) t", picture)

    def test_all_values_are_listed_in_the_order_of_nodes(self):
        out = self.compare("--against", "ops=other.so", "--all")
        self.assertEqual(re.findall(r"[#.]+  (\w+)  ", out), ["h", "t", "z", "y"])
        self.assertRegex(out, r"(?m)^> .*  t  the twice")

    def test_onnx_runtime_is_one_of_the_ways(self):
        try:
            import onnxruntime  # noqa: F401
        except ImportError:
            self.skipTest("onnxruntime is not installed")
        plain = model("plain", node("MatMul", "x w", "h", "mm"), node("Relu", "h", "r", "relu"), node("Softmax", "r", "y", "softmax", axis=-1))
        out, _ = tenon("compare", plain, "--against", "onnxruntime", "--python", sys.executable)
        self.assertIn("3 of 3 values compared, 0 differ; of 1 outputs 0", out)
        _, err = tenon("compare", self.model, "--ops", "toy.so", "--against", "onnxruntime", "--python", sys.executable, code=1)
        self.assertIn("ONNX Runtime", err)

    def test_what_is_no_way_is_refused(self):
        _, err = tenon("compare", self.model, "--against", "speed=1", code=1)
        self.assertIn("expected onnxruntime, a device, or device=", err)


class Sanitizers(unittest.TestCase):
    BAD = r"""
#include <tenon/op.h>
#include <stdlib.h>
static tenon_status_t past(tenon_call_t *call) {
  char *room = malloc(10);
  room[call->size - call->size + 10] = 1;
  *(float *)call->outputs[0]->data = room[3];
  free(room);
  return TENON_OK;
}
static tenon_status_t fine(tenon_call_t *call) { return *(float *)call->outputs[0]->data = 1, TENON_OK; }
TENON_LIBRARY(toy, "1.0.0",
  TENON_OP("past(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", past)),
  TENON_OP("fine(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fine)))
"""

    def check(self, compiler):
        if not shutil.which(compiler):
            self.skipTest(f"{compiler} is not installed")
        path = library(f"sanitized_{compiler}", self.BAD, "-fsanitize=address", compiler=compiler)
        for command in (("ops", path), ("doctor", path)):
            out, err = tenon(*command, code=1)
            found = re.search(r"built with -fsanitize=address.*LD_PRELOAD=(\S+) in its environment", out + err)
            self.assertTrue(found, out + err)
        self.assertIn("toy::past", tenon("ops", path, env={"LD_PRELOAD": found[1], "ASAN_OPTIONS": "detect_leaks=0"})[0])
        one = lambda kind: model(f"sanitized_{kind}", node(kind, "x", "y", "node", "toy"))
        quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
        tenon("run", one("fine"), "--ops", path, "--input", "ones", "--sanitizer", env=quiet)
        _, err = tenon("run", one("past"), "--ops", path, "--input", "ones", "--sanitizer", env=quiet, code=None)
        self.assertIn("AddressSanitizer: heap-buffer-overflow", err)
        self.assertRegex(err, rf"in past .*sanitized_{compiler}\.c:6")

    def test_a_library_of_gcc_says_what_to_preload_and_works_so(self):
        self.check("gcc")

    def test_a_library_of_clang_says_what_to_preload_and_works_so(self):
        self.check("clang")


class Doctor(unittest.TestCase):
    OP = '#include <tenon/op.h>\n%s\nstatic tenon_status_t f(tenon_call_t *call) { %s; return TENON_OK; }\nTENON_LIBRARY(toy, "1.0.0", ' \
         'TENON_OP("f(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", f)))\n'

    def doctor(self, path, loads=False):
        out, _ = tenon("doctor", path, code=0 if loads else 1)
        if not loads:
            _, err = tenon("ops", path, code=1)  # it does not
            self.assertIn("cannot load", err)
        return out

    def stub(self, name, versions, source):
        """A library of that name with symbols of these versions, to link with, which is not there when the other is loaded."""
        (HERE / "stub.c").write_text(source)
        (HERE / "stub.map").write_text(versions)
        run("gcc", "-shared", "-fPIC", "-nostdlib", "stub.c", f"-Wl,-soname,{name}", "-Wl,--version-script=stub.map", "-o", name)
        return HERE / name

    def test_a_dependency_that_is_nowhere(self):
        self.stub("libvanished2.so.3", "{ global: *; };", "int vanished(void) { return 1; }")
        path = library("needs", self.OP % ("int vanished(void);", "(void)vanished()"), HERE / "libvanished2.so.3", "-Wl,-rpath,/nowhere/lib")
        (HERE / "libvanished2.so.3").unlink()
        out = self.doctor(path)
        self.assertIn("it needs libvanished2.so.3, which is nowhere", out)
        self.assertIn("looked in its own run path /nowhere/lib, the system's folders", out)
        self.assertIn("on Debian the package may be libvanished2-3", out)
        self.assertNotIn("which neither it", out)  # it would define the symbol

    def test_symbols_that_nothing_defines_are_named_for_people(self):
        path = library("undefined", self.OP % ("namespace linear { float solve(const float *x, int n); }\nextern \"C\" void cudaFree(void *);\n"
                                               "extern \"C\" void other(void);", "linear::solve(nullptr, 1); cudaFree(nullptr); other()"), compiler="g++")
        out = self.doctor(path)
        self.assertIn("it uses linear::solve(float const*, int) (_ZN6linear5solveEPKfi)", out)
        self.assertIn("other, which neither it nor what it needs defines; link the library that defines it", out)
        self.assertIn("it uses cudaFree, which neither it nor what it needs defines; CUDA's runtime", out)

    def test_a_glibc_that_is_too_new(self):
        stub = self.stub("libc.so.6", "GLIBC_2.99 { global: *; };", "int of_tomorrow(void) { return 1; }")
        path = library("tomorrow", self.OP % ("int of_tomorrow(void);", "(void)of_tomorrow()"), "-nostdlib", stub)
        stub.unlink()
        out = self.doctor(path)
        self.assertRegex(out, r"it was built with glibc 2.99 or newer \(libc.so.6 asks for GLIBC_2.99\), this system has 2\.\d+: build it here")

    def test_a_cplusplus_library_that_is_too_new(self):
        stub = self.stub("libstdc++.so.6", "GLIBCXX_3.4.99 { global: *; };", "int of_tomorrow(void) { return 1; }")
        path = library("modern", self.OP % ("int of_tomorrow(void);", "(void)of_tomorrow()"), stub)
        stub.unlink()
        self.assertRegex(self.doctor(path), r"it was built with the C\+\+ library of a newer gcc \(it asks for GLIBCXX_3.4.99\), \S+ is older")

    def test_the_wrong_linker_for_cplusplus(self):
        (HERE / "linker.cc").write_text('#include <stdexcept>\n' + self.OP % ("", 'throw std::runtime_error("no")'))
        run("g++", "-c", "-fPIC", f"-I{ROOT / 'include'}", "linker.cc", "-o", "linker.o")
        run("gcc", "-shared", "linker.o", "-o", "linker.so", "-nodefaultlibs", "-lc")
        out, _ = tenon("doctor", "linker.so", code=None)  # where this process has it already, it loads
        if "problems: none" not in out:
            self.assertIn("the C++ library: link it by g++, not gcc", out)

    def test_the_other_abi_of_cplusplus(self):
        other = library("old_abi", "#include <string>\nint measure(const std::string &text) { return (int)text.size(); }\n",
                        "-D_GLIBCXX_USE_CXX11_ABI=0", compiler="g++")
        path = library("new_abi", self.OP % ("#include <string>\nint measure(const std::string &text);", 'measure("a")'), other, compiler="g++")
        out = tenon("doctor", path, env={"LD_LIBRARY_PATH": str(HERE)}, code=1)[0]
        self.assertRegex(out, r"it uses measure\(std::__cxx11::basic_string.*for the other ABI of C\+\+, build both with the same")

    def test_the_run_time_of_a_compiler_that_is_not_linked(self):
        path = library("covered", self.OP % ("void __gcov_init(void *p);", "__gcov_init(0)"))
        self.assertIn("it uses __gcov_init, which neither it nor what it needs defines; it was built with --coverage", self.doctor(path))

    def test_another_machine(self):
        if not shutil.which("clang"):
            self.skipTest("clang is not installed")
        (HERE / "arm.c").write_text("void *tenon_library(void) { return 0; }\n")
        try:
            run("clang", "--target=aarch64-linux-gnu", "-c", "-fPIC", "arm.c", "-o", "arm.o")
        except AssertionError:
            self.skipTest("clang has no aarch64")
        linker = shutil.which("ld.lld") or shutil.which("ld.lld-14") or shutil.which("aarch64-linux-gnu-ld")
        if linker:
            run(linker, "-shared", "arm.o", "-o", "arm.so")
            self.assertIn("built for aarch64, this process is x86-64", self.doctor(HERE / "arm.so"))
        out, _ = tenon("doctor", "arm.o", code=1)
        self.assertIn("built for aarch64, this process is x86-64", out)
        self.assertNotIn("which neither it", out)

    def test_another_libc(self):
        stub = self.stub("libc.musl-x86_64.so.1", "{ global: *; };", "int of_musl(void) { return 1; }")
        path = library("musl", self.OP % ("int of_musl(void);", "(void)of_musl()"), stub)
        stub.unlink()
        self.assertIn("it needs libc.musl-x86_64.so.1: it was built for musl", self.doctor(path))

    def test_a_stack_of_code_and_code_that_is_changed_are_noted(self):
        path = library("stack", self.OP % ("", "call->phase++"), "-Wl,-z,execstack")
        self.assertIn("it asks for a stack that can be run as code", self.doctor(path, loads=True))
        (HERE / "text.s").write_text(".globl here\n.text\nhere: .quad here\n.section .note.GNU-stack,\"\",@progbits\n")
        run("gcc", "-c", "text.s", "-o", "text.o")
        path = library("text", self.OP % ("", "call->phase++"), HERE / "text.o", "-Wl,-z,notext")
        self.assertIn("its code is changed when it is loaded (text relocations)", self.doctor(path, loads=True))

    def test_a_good_library_has_no_problem(self):
        out = self.doctor(HERE / "toy.so", loads=True)
        self.assertIn("problems: none", out)
        self.assertNotIn("note:", out)


if __name__ == "__main__":
    if "--build" in sys.argv:
        at = sys.argv.index("--build")
        build = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at:at + 2]
    elif "TENON_BUILD" in os.environ:
        build = pathlib.Path(os.environ["TENON_BUILD"]).resolve()
    unittest.main()
