#!/usr/bin/env python3
"""Operators that write to their inputs, through torch.ops, beside equal operators of torch.library.custom_op: random programs of views, writes
and gradients give the same values and the same errors.  One exception is stated: Tenon refuses to write to a leaf that requires a gradient, or
to a view of one, as PyTorch's own operators do; custom_op lets this pass."""
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
PROGRAMS = int(os.environ.get("TENON_PROGRAMS", "200"))
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "adapters")]

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import tenon  # noqa: E402
import tenon.torch  # noqa: E402
import totals  # noqa: E402

SOURCE = """#include <tenon/op.h>
static tenon_status_t scale(tenon_call_t *c) {
  float *x = c->inputs[0]->data;
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) x[i] *= (float)c->attrs[0].as.f;
  return TENON_OK;
}
static tenon_status_t axpy(tenon_call_t *c) {
  float *x = c->inputs[0]->data;
  const float *y = c->inputs[1]->data;
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) x[i] += (float)c->attrs[0].as.f * y[i];
  return TENON_OK;
}
static tenon_status_t drain(tenon_call_t *c) { /* moves the elements of x to the result */
  float *x = c->inputs[0]->data, *y = c->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) y[i] = x[i], x[i] = 0;
  return TENON_OK;
}
TENON_LIBRARY(writes, "1.0.0",
  TENON_OP("scale_(Tensor(a!) x, float by) -> Tensor(a!)", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", scale)),
  TENON_OP("axpy_(Tensor(a!) x, Tensor y, float by) -> Tensor(a!)", TENON_TYPES("x: f32; y = x; out = x"), TENON_SHAPES("x: [a, b]; y: [a, b]; out: [a, b]"), TENON_KERNEL("cpu", axpy)),
  TENON_OP("drain_(Tensor(a!) x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", drain)))
"""


@torch.library.custom_op("like::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, by: float) -> None:
    x.copy_(x * by)


@torch.library.custom_op("like::axpy_", mutates_args=("x",))
def axpy_(x: torch.Tensor, y: torch.Tensor, by: float) -> None:
    x.copy_(x + by * y)


@torch.library.custom_op("like::drain_", mutates_args=("x",))
def drain_(x: torch.Tensor) -> torch.Tensor:
    made = x.clone(memory_format=torch.contiguous_format)
    x.zero_()
    return made


@drain_.register_fake
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


LEAF = "leaf Variable that requires grad is being used in an in-place operation"
VIEWS = [lambda t: t, lambda t: t.t(), lambda t: t[:2], lambda t: t[:, 1:], lambda t: t[::2], lambda t: t.t()[1:], lambda t: t.detach(), lambda t: t.view_as(t)]
STEPS = [lambda t: t.exp(), lambda t: t * 2, lambda t: t.tanh(), lambda t: t * t]


def run(program, ops):
    """Returns the values, gradients and relative versions, or the error, of a program of numbers drawn before."""
    numbers = iter(program)

    def draw(count):
        return next(numbers) % count
    torch.manual_seed(draw(1000))
    leaf, other = torch.randn(4, 3, requires_grad=draw(4) > 0), torch.randn(4, 3, requires_grad=draw(2) > 0)
    values = [leaf, other]
    fresh = leaf * 1 if draw(5) else leaf
    values.append(fresh)
    try:
        for _ in range(draw(5) + 1):
            kind = draw(6)
            at = VIEWS[draw(len(VIEWS))](values[draw(len(values))] if draw(3) == 0 else values[-1])
            if kind == 0:
                values.append(STEPS[draw(len(STEPS))](at))
            elif kind == 1:
                values.append(at)
            elif kind == 2:
                ops.scale_(at, 0.5 + draw(3))
            elif kind == 3:
                values.append(ops.drain_(at))
            else:
                with_ = values[draw(len(values))]
                rows, columns = min(at.shape[0], with_.shape[0]), min(at.shape[1], with_.shape[1])
                ops.axpy_(at[:rows, :columns], with_[-rows:, -columns:], 0.25)
        loss = sum(v.sum() for v in values[2:])
        if loss.requires_grad:
            loss.backward()
    except RuntimeError as error:
        text = str(error).split("\n")[0].replace("writes", "like").replace("aten", "like")
        return "error", text.split("[")[0].split(": ")[0][:60], text
    return "values", [v.detach().clone() for v in values] + [t.grad for t in (leaf, other)], None


def same(a, b):
    return (a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))


class Writes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "writes.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        subprocess.run([os.path.join(BUILD, "tenon"), "build", path, "-o", path[:-1] + "so"], check=True, capture_output=True)
        tenon.load(path[:-1] + "so")
        tenon.torch.register("writes")
        tenon.torch.register("core")
        cls.ops = torch.ops.writes
        warnings.simplefilter("ignore")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_random_programs_have_the_values_and_errors_of_custom_op(self):
        kinds = {"values": 0, "error": 0, "stricter": 0}
        for seed in range(PROGRAMS):
            program = [random.Random(seed * 1000 + i).randrange(10**6) for i in range(100)]
            ours, theirs = run(program, self.ops), run(program, torch.ops.like)
            if ours[0] == "error" and LEAF in ours[2]:
                kinds["stricter"] += 1
                continue
            self.assertEqual(ours[0], theirs[0], f"program {seed}: {ours}, {theirs}")
            if ours[0] == "error":
                self.assertEqual(ours[1], theirs[1], f"program {seed}")
            else:
                for k, (a, b) in enumerate(zip(ours[1], theirs[1])):
                    self.assertTrue(same(a, b), f"program {seed}: value {k}: {a}, {b}")
            kinds[ours[0]] += 1
        self.assertGreater(kinds["values"], PROGRAMS // 5, kinds)
        self.assertGreater(kinds["error"], 0, kinds)
        self.assertGreater(kinds["stricter"], 0, kinds)

    def test_a_value_that_backward_needs_must_not_have_been_written(self):
        for write in lambda t: self.ops.scale_(t, 2.0), lambda t: torch.ops.core.normal_(t):
            x = torch.ones(3, requires_grad=True)
            y = x.exp()
            write(y)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()

    def test_versions_of_all_views_rise(self):
        x = torch.ones(4, 3)
        view, before = x[1:], x._version
        self.ops.scale_(view, 2.0)
        self.assertGreater(x._version, before)

    def test_an_input_that_overlaps_what_is_written_is_read_as_it_was(self):
        x = torch.ones(4, 3)
        self.ops.axpy_(x[1:], x[:-1], 1.0)
        self.assertEqual(x.tolist(), [[1] * 3] + [[2] * 3] * 3)

    def test_a_leaf_and_its_views_are_refused_unless_recording_is_off(self):
        x = torch.ones(4, 3, requires_grad=True)
        for at in x, x[1:]:
            with self.assertRaisesRegex(RuntimeError, LEAF):
                self.ops.scale_(at, 2.0)
        with torch.no_grad():
            self.ops.scale_(x, 2.0)
        self.assertEqual(x.tolist(), [[2] * 3] * 4)

    def test_compiled_programs_write_as_eager_ones(self):
        def program(x, y):
            z = x * 1
            self.ops.axpy_(z[1:], y[:-1], 0.5)
            self.ops.scale_(z.t(), 2.0)
            return z + 1
        x, y = torch.randn(4, 3), torch.randn(4, 3)
        expected = program(x, y)
        self.assertTrue(same(torch.compile(program, backend="aot_eager", fullgraph=True)(x, y), expected))

    def test_lazily_negated_and_conjugated_tensors_have_the_values_that_they_show(self):
        v = torch.view_as_complex(torch.randn(2, 3, 2)).conj().imag
        self.assertTrue(v.is_neg())
        plain = v.clone()
        self.assertTrue(torch.equal(tenon.ops.core.neg(v), -plain))
        self.assertTrue(torch.equal(torch.ops.core.neg(v), -plain))
        self.assertTrue(torch.equal(tenon.ops.core.concat([v, v], axis=0), torch.cat([plain, plain])))
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", [2, 3])
        graph = builder.finish({"y": tenon.graph.ops.core.add(x, builder.constant(v))})
        self.assertTrue(torch.equal(graph.compile()(v), 2 * plain))
        conjugated = torch.view_as_complex(torch.randn(2, 3, 2)).conj()
        self.assertTrue(torch.equal(tenon.ops.core.transpose(conjugated), conjugated.t().resolve_conj()))
        for tensor in v, conjugated:
            with self.assertRaises(BufferError):
                tenon.from_dlpack(tensor)
        with self.assertRaisesRegex(BufferError, "stores it negated"):
            tenon.ops.writes.scale_(v, 2.0)
        self.ops.scale_(v, 2.0)
        self.assertTrue(torch.equal(v, plain * 2))

    def test_tenon_ops_refuses_a_gradient_that_it_would_lose(self):
        x = torch.ones(3, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "argument x requires a gradient, which a call of tenon.ops does not record"):
            tenon.ops.core.neg(x)
        with self.assertRaisesRegex(RuntimeError, "argument out requires a gradient"):
            tenon.ops.core.neg(torch.ones(3), out=x)
        with torch.no_grad():
            self.assertEqual(tenon.ops.core.neg(x).tolist(), [-1] * 3)
        self.assertEqual(tenon.ops.core.neg(x.detach()).tolist(), [-1] * 3)


if __name__ == "__main__":
    totals.main()
