"""Shared code of the debugging tests: a library with many kinds of faults, its build, and functions that run programs. Options of each test:
--build DIR (build); the others go to unittest."""
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
words = sys.argv[1:]
build = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
if "--build" in words:
    build = pathlib.Path(words.pop(words.index("--build") + 1)).resolve()
    words.remove("--build")
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
    """Runs a command and returns its stdout and stderr. With `code` None any exit status is accepted."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, cwd=HERE,
                          env={**os.environ, "TENON_CACHE": str(HERE / "cache"), **(env or {})})
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def tenon(*words, **named):
    return run(build / "tenon", *words, **named)


def python(program, **named):
    """Runs a Python program that has `toy`, the library, and `x`, an array of ones."""
    text = "import numpy as np, tenon\ntoy = tenon.load('./toy.so')\nx = np.ones((2, 3), np.float32)\n" + program
    return run(sys.executable, "-c", text, env={"PYTHONPATH": str(build / "python"), **named.pop("env", {})}, **named)


def library(name, source, *flags, compiler="gcc"):
    """Builds a shared object from C source, with these flags only."""
    language = "c++" if "++" in compiler else "c"
    path = HERE / f"{name}.{'cc' if language == 'c++' else 'c'}"
    path.write_text(source)
    run(compiler, "-shared", "-fPIC", "-g", f"-I{ROOT / 'include'}", path, *flags, "-o", HERE / f"{name}.so")
    return HERE / f"{name}.so"


def recordings(folder):
    return sorted(path for path in pathlib.Path(folder).iterdir())


def model(name, *nodes):
    """Writes a model x [n, 16] -> y with a matrix w."""
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


def build_toy():
    if (HERE / "toy.so").exists():
        return
    (HERE / "toy.c").write_text(TOY)
    tenon("build", "toy.c", "-o", "toy.so", "--", "-g", "-O1", "-fno-omit-frame-pointer")
    tenon("build", "toy.c", "-o", "session.so", "--", "-g", "-O0")
    tenon("build", "toy.c", "-o", "other.so", "--", "-g", "-O1", "-DFACTOR=2.5f")


def has_python():
    return any((build / "python/tenon").glob("_core.*.so"))


def main():
    """Runs the tests of the calling program and prints their total."""
    program = unittest.main(argv=[sys.argv[0], *words], exit=False)
    done = program.result
    bad = len({getattr(test, "test_case", test) for test, _ in done.failures + done.errors})  # several parts of one test may fail
    skipped = len(done.skipped)
    for test, reason in done.skipped:
        print(f"skip: {test}: {reason}")
    print(f"{done.testsRun - bad - skipped} passed, {bad} failed, {skipped} skipped")
    return bad > 0
