"""Operators of Tenon's as operators of PyTorch's: torch.library.opcheck, values and gradients beside PyTorch's own, tracing, errors."""
import ctypes
import logging
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-torch-")
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "acceptance")]
import numpy as np
import torch

import tenon
import tenon.torch
import gradient_cases, gradient_cases_index, gradient_cases_norms, gradient_cases_sampling, gradient_cases_sequence, gradient_cases_spatial  # noqa: F401, E401
from gradients import CASES, results_of, torch_gradients, torch_of, weights_of

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
core = torch.ops.core
UNTRACED = {"expand": "its gradient sums to a shape, and PyTorch asks whether an extent that only data tells is 1"}
checks = {"passed": 0, "skipped": []}


def attributes(attrs):
    """Of the cases, for PyTorch: dtypes are its own, and texts have no quotes."""
    def value(name, v):
        if name in ("to", "dtype"):
            return tenon.torch.dtypes.DTYPES[v]
        if isinstance(v, str):
            return v.strip("'")
        return list(v) if isinstance(v, tuple) else v
    return {name: value(name, v) for name, v in attrs.items()}


def function_of(name, attrs):
    op, named = tenon.torch.overload("core::" + name), attributes(attrs)
    parameters = [p for p in tenon._core.find("core::" + name).parameters if not p["keyword"]]

    def call(*args):
        args = list(args)
        while args and args[-1] is None and parameters[len(args) - 1]["has_default"]:
            args.pop()
        return op(*args, **named)
    return call


def flat(results):
    return tuple(t for r in results for t in (r if isinstance(r, list) else [r]))


def leaves(arrays, wanted):
    def leaf(value, i):
        if value is None or isinstance(value, list):
            return value if value is None else [leaf(v, i) for v in value]
        t = torch_of(value)
        return t.requires_grad_() if i in wanted and t.is_floating_point() else t
    return [leaf(a, i) for i, a in enumerate(arrays)]


class Builtins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.left_out = tenon.torch.register("core")

    def test_all_but_those_with_graphs_are_there(self):
        self.assertEqual(sorted(self.left_out), ["core::if", "core::loop", "core::scan"])
        for name in tenon._core.names():
            if name not in self.left_out:
                self.assertTrue(callable(tenon.torch.overload(name)))
        self.assertEqual(tenon.torch.register("core"), self.left_out)  # again it does nothing

    def test_opcheck_is_clean(self):
        seen = set()
        for name, _, attrs, arrays, wanted in CASES:
            if name in seen:
                continue
            seen.add(name)
            args = leaves(arrays, wanted)
            parameters = tenon._core.find("core::" + name).parameters
            while args and args[-1] is None and parameters[len(args) - 1]["has_default"]:
                args.pop()
            utilities = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")[:3 if name in UNTRACED else 4]
            if name in UNTRACED:
                checks["skipped"].append(f"opcheck of {name} with traced gradients: {UNTRACED[name]}")
            with self.subTest(op=name):
                self.assertEqual(set(torch.library.opcheck(tenon.torch.overload("core::" + name), tuple(args), attributes(attrs), test_utils=utilities).values()), {"SUCCESS"})
                checks["passed"] += 1
        self.assertGreater(len(seen), 130)

    def test_values_are_those_of_pytorch(self):
        for name, function, attrs, arrays, _ in CASES:
            with self.subTest(op=name, attrs=attrs):
                found = flat(results_of(function_of(name, attrs), [torch_of(a) for a in arrays]))
                for f, e in zip(found, results_of(function, [torch_of(a) for a in arrays])):
                    if e is not None:
                        torch.testing.assert_close(f.to(e.dtype), e, rtol=1e-9, atol=1e-12)

    def agree(self, second):
        for name, function, attrs, arrays, wanted in CASES:
            with self.subTest(op=name, attrs=attrs):
                weights = weights_of(function, arrays)
                found = torch_gradients(lambda *a: flat(results_of(function_of(name, attrs), a)), arrays, wanted, weights, second)
                for f, e in zip(found, torch_gradients(function, arrays, wanted, weights, second)):
                    np.testing.assert_allclose(f, e, rtol=1e-7 if second else 1e-9, atol=1e-9 if second else 1e-12)

    def test_gradients_are_those_of_pytorch(self):
        self.agree(False)


GELU = os.path.join(ROOT, "examples", "01_gelu", "gelu.c")
KINDS = """#include <stdlib.h>
#include <tenon/op.h>
static tenon_status_t scale_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->inputs[0]->data)[i] *= (float)c->attrs[0].as.f;
  return TENON_OK;
}
static tenon_status_t total_run(tenon_call_t *c) { /* of all of a list, and of one that may be absent */
  float sum = 0;
  for (int64_t k = 0; k < c->inputs[0]->shape[0]; k++) {
    const tenon_tensor_t *t = ((tenon_tensor_t **)c->inputs[0]->data)[k];
    for (int64_t i = 0; i < tenon_count(t); i++) sum += ((float *)t->data)[i];
  }
  if (c->inputs[1]) sum += 100 * ((float *)c->inputs[1]->data)[0];
  ((float *)c->outputs[0]->data)[0] = sum + (float)c->attrs[0].as.i + (c->attrs[1].kind ? (float)c->attrs[1].as.f : 0.5f);
  return TENON_OK;
}
static tenon_status_t count_create(tenon_node_t *node) { return (node->state = calloc(1, sizeof(float))) ? TENON_OK : TENON_MEMORY; }
static tenon_status_t count_run(tenon_call_t *c) { /* how often it was called */
  ((float *)c->outputs[0]->data)[0] = ++*(float *)c->state;
  return TENON_OK;
}
static tenon_status_t fails_run(tenon_call_t *c) { return tenon_fail(c, TENON_INVALID, "this is all that it does"); }
TENON_LIBRARY(kinds, "1.0.0",
  TENON_OP("scale_(Tensor(a!) x, *, float by) -> Tensor(a!)", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", scale_run)),
  TENON_OP("total(Tensor[] xs, Tensor? more=None, *, str['none', 'one', 'two'] choice='none', float? extra=None) -> Tensor",
    TENON_TYPES("xs: f32; more = xs; out = xs"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", total_run)),
  TENON_OP("count(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_STATE(count_create, free), TENON_KERNEL("cpu serial", count_run)),
  TENON_OP("fails(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fails_run)))
"""


class Custom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = os.path.join(FOLDER, "kinds.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(KINDS)
        cls.library = os.path.join(FOLDER, "gelu.so")
        subprocess.run([os.path.join(BUILD, "tenon"), "build", GELU, "-o", cls.library], check=True, stdout=subprocess.DEVNULL)
        cls.numpy = tenon.load(cls.library)
        warnings.simplefilter("ignore")
        for made in cls.numpy, tenon.load(path), "core":
            tenon.torch.register(made)
        cls.gelu, cls.kinds = staticmethod(torch.ops.demo.gelu), torch.ops.kinds

    def check(self, op, args, named=None):
        self.assertEqual(set(torch.library.opcheck(op.default, args, named or {}).values()), {"SUCCESS"})

    def test_one_file_serves_c_numpy_and_pytorch_with_the_same_numbers(self):
        x = torch.linspace(-3, 3, 101)
        y = self.gelu(x)
        program, source = os.path.join(FOLDER, "program"), os.path.join(FOLDER, "program.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("""#include <stdio.h>
#include <tenon/tenon.h>
int main(int argc, char **argv) { /* the library; numbers come and go as bytes */
  float numbers[101];
  const int64_t shape[] = {101};
  const tenon_op_t *gelu;
  tenon_tensor_t *x, *y = NULL;
  if (argc != 2 || fread(numbers, 4, 101, stdin) != 101 || tenon_library_load(argv[1], 0, NULL) || tenon_op_find("demo::gelu", &gelu) ||
      tenon_tensor_borrow(numbers, tenon_dtype(TENON_F32), 1, shape, NULL, NULL, NULL, &x) || tenon_op_call(gelu, NULL, &x, &y, 0))
    return fprintf(stderr, "%s\\n", tenon_error()), 1;
  return fwrite(y->data, 4, 101, stdout) != 101;
}
""")
        subprocess.run(["cc", source, "-I" + os.path.join(ROOT, "include"), "-L" + BUILD, "-ltenon", "-Wl,-rpath," + BUILD, "-o", program], check=True)
        done = subprocess.run([program, self.library], input=x.numpy().tobytes(), capture_output=True, check=True)
        self.assertTrue(np.array_equal(np.frombuffer(done.stdout, np.float32), y.numpy()))
        self.assertTrue(np.array_equal(y.numpy(), self.numpy.gelu(x.numpy())))
        torch.testing.assert_close(y, torch.nn.functional.gelu(x), rtol=1e-6, atol=1e-6)

    def test_opcheck(self):
        self.check(torch.ops.demo.gelu, (torch.randn(3, 4, requires_grad=True),))
        self.check(self.kinds.scale_, (torch.randn(3),), {"by": 2.0})
        self.check(self.kinds.total, ([torch.randn(2), torch.randn(3)],))
        self.check(self.kinds.total, ([torch.randn(2)], torch.randn(1)), {"choice": "two", "extra": 0.25})
        self.check(torch.ops.core.nonzero, (torch.randn(5),))

    def test_arguments_of_every_kind(self):
        xs = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
        self.assertEqual(self.kinds.total(xs).item(), 6.5)
        self.assertEqual(self.kinds.total(xs, torch.tensor([2.0]), choice="two", extra=0.25).item(), 208.25)
        x = torch.ones(3)
        self.assertIsNone(self.kinds.scale_(x, by=3.0))  # PyTorch lets operators that write give nothing back
        self.assertEqual(x.tolist(), [3, 3, 3])
        self.assertEqual(core.and_(torch.tensor([True, False]), torch.tensor([True, True])).tolist(), [True, False])
        self.assertEqual([t.tolist() for t in core.split(torch.arange(4.0), count=2)], [[0, 1], [2, 3]])
        turned = torch.arange(6.0).reshape(2, 3).t()
        self.assertTrue(torch.equal(core.add(turned, turned), 2 * turned))
        self.assertEqual(core.add(torch.empty(0, 3), torch.ones(3)).shape, (0, 3))
        for dtype in torch.float16, torch.bfloat16, torch.float64, torch.int64:
            self.assertEqual(core.add(torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype)).dtype, dtype)
        self.assertEqual(core.cast(torch.ones(2), to=torch.int64).dtype, torch.int64)

    def test_an_operator_with_state_keeps_it_between_calls(self):
        x = torch.ones(1)
        self.assertEqual([self.kinds.count(x).item() for _ in range(3)], [1, 2, 3])

    def test_nothing_is_lost_over_many_calls(self):
        x, xs, w = torch.ones(4), [torch.ones(2), torch.ones(3)], torch.ones(4, requires_grad=True)
        def failing():
            try:
                self.kinds.fails(x)
            except RuntimeError:
                pass
        calls = [lambda: core.add(x, x), lambda: self.kinds.total(xs, x, choice="two", extra=0.5), lambda: self.kinds.scale_(x, by=1.0), lambda: core.split(x, count=2),
                 lambda: core.reshape(x, torch.tensor([2, 2])), failing, lambda: core.cast(x, to=torch.float64), lambda: core.mul(w, x).sum().backward()]
        class Info(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]
        mallinfo = ctypes.CDLL(None).mallinfo2
        mallinfo.restype = Info
        for call in calls:
            grown = []
            for times in 300, 3000, 3000, 3000:
                before = mallinfo().uordblks
                for _ in range(times):
                    call()
                grown.append(mallinfo().uordblks - before)
            self.assertLess(min(grown[1:]), 6000, (calls.index(call), grown))  # bytes: less than a block of two for each call

    def test_results_live_as_long_as_they_are_wanted(self):
        kept = [core.add(torch.full((1000,), float(i)), torch.ones(1000)) for i in range(200)]
        self.assertEqual([t[999].item() for t in kept], [i + 1.0 for i in range(200)])

    def test_compiling_and_exporting(self):
        def f(x, w):
            y = core.softmax(core.matmul(self.gelu(x), w), axis=-1)
            self.kinds.scale_(y, by=2.0)
            return y.sum(0), core.nonzero(x[0] > 0).shape
        w = torch.randn(4, 5)
        compiled = torch.compile(f, fullgraph=True, dynamic=True, backend="inductor")
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            for n in 6, 9, 3:
                x = torch.randn(n, 4)
                a, b = compiled(x, w), f(x, w)
                torch.testing.assert_close(a[0], b[0])
                self.assertEqual(a[1], b[1])

        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.ops.demo.gelu(x) + 1
        program = torch.export.export(Model(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
        path = os.path.join(FOLDER, "gelu.pt2")
        torch.export.save(program, path)
        x = torch.randn(7, 4)
        torch.testing.assert_close(torch.export.load(path).module()(x), self.gelu(x) + 1)

    def test_training_through_a_compiled_function(self):
        x, w = torch.randn(6, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True)
        def f(x, w):
            return core.matmul(self.gelu(x), w).square().sum()
        expected = torch.autograd.grad((torch.nn.functional.gelu(x) @ w).square().sum(), (x, w))
        for function in f, torch.compile(f, fullgraph=True, backend="aot_eager"):
            for a, b in zip(torch.autograd.grad(function(x, w), (x, w)), expected):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_gradcheck(self):
        x, w = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (4, 2)))
        self.assertTrue(torch.autograd.gradcheck(core.matmul, (x, w)) and torch.autograd.gradgradcheck(core.matmul, (x, w)))
        self.assertTrue(torch.autograd.gradcheck(core.tanh, (x,)) and torch.autograd.gradgradcheck(core.tanh, (x,)))

    def test_transforms(self):
        x, w = torch.randn(5, 3, 4), torch.randn(4, 2)
        reference = torch.nn.functional.gelu
        torch.testing.assert_close(torch.vmap(core.add, in_dims=(0, None))(x, torch.ones(4)), x + 1)
        torch.testing.assert_close(torch.vmap(core.add, in_dims=(0, 0))(x, x[:, 0]), x + x[:, 0].unsqueeze(1))  # of different ranks
        torch.testing.assert_close(torch.vmap(core.matmul, in_dims=(2, None), out_dims=1)(x, torch.ones(3, 2)), torch.vmap(torch.matmul, in_dims=(2, None), out_dims=1)(x, torch.ones(3, 2)))
        halves = torch.vmap(lambda t: core.split(t, count=2, axis=0))(torch.arange(12.0).reshape(3, 4))
        self.assertEqual([h.tolist() for h in halves], [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]])
        y = x.clone()
        def twice(t):
            self.kinds.scale_(t, by=2.0)
            return t
        self.assertTrue(torch.equal(torch.vmap(twice)(y), 2 * x) and torch.equal(y, 2 * x))
        v = torch.randn(4)
        torch.testing.assert_close(torch.func.jacrev(self.gelu)(v), torch.func.jacrev(reference)(v))
        torch.testing.assert_close(torch.func.grad(lambda t: self.gelu(t).sum())(v), torch.func.grad(lambda t: reference(t).sum())(v))
        torch.testing.assert_close(torch.vmap(torch.func.grad(lambda t: self.gelu(t @ w).sum()))(x[:, 0]), torch.vmap(torch.func.grad(lambda t: reference(t @ w).sum()))(x[:, 0]))
        d = v.double()
        torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(lambda t: core.tanh(t).sum()))(d), torch.func.jacrev(torch.func.jacrev(lambda t: torch.tanh(t).sum()))(d))
        with self.assertRaisesRegex(RuntimeError, "demo::gelu has no gradient in forward mode"):
            torch.func.jvp(self.gelu, (v,), (torch.ones(4),))
        graph = torch.fx.experimental.proxy_tensor.make_fx(lambda t: self.gelu(t) + 1, tracing_mode="symbolic")(v)
        self.assertIn("torch.ops.demo.gelu.default", graph.code)
        self.assertTrue(torch.equal(graph(torch.zeros(7)), torch.ones(7)))

    def test_gradients_by_parts_for_one_input_of_several(self):
        q, k = torch.randn(3, 1, 2, 3, 4), torch.randn(1, 2, 3, 4)
        def grad(t):
            return torch.func.grad(lambda t: core.attention(t, k, k)[0].square().sum())(t)
        expected = torch.stack([torch.func.grad(lambda t: (torch.softmax(t @ k.mT / 2, -1) @ k).square().sum())(t) for t in q])
        torch.testing.assert_close(torch.stack([grad(t) for t in q]), expected)
        torch.testing.assert_close(torch.vmap(grad)(q), expected)
        w = q.requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(core.attention(w[0], k, k)[0].square().sum(), w)[0][0], expected[0])

    def test_vmap_is_one_call_after_the_other(self):
        for name, _, attrs, arrays, wanted in CASES:
            if wanted != [0] or isinstance(arrays[0], list) or 0 in arrays[0].shape:
                continue
            with self.subTest(op=name, attrs=attrs):
                function, rest = function_of(name, attrs), [torch_of(a) for a in arrays[1:]]
                batch = torch.stack([torch_of(arrays[0]), torch_of(arrays[0])[...].flip(0) if arrays[0].ndim else torch_of(arrays[0])])
                found = flat(results_of(torch.vmap(lambda t: function(t, *rest)), [batch]))
                parts = [flat(results_of(function, [t, *rest])) for t in batch]
                for f, *e in zip(found, *parts):
                    torch.testing.assert_close(f, torch.stack(e), rtol=1e-12, atol=1e-12)

    def test_autocast(self):
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = core.matmul(x, w)
            self.assertEqual((product.dtype, core.softmax(x.bfloat16()).dtype, core.add(x, x).dtype), (torch.bfloat16, torch.float32, torch.float32))
        product.float().sum().backward()
        self.assertEqual(w.grad.dtype, torch.float32)
        torch.testing.assert_close(product.float(), (x @ w).detach(), rtol=2e-2, atol=2e-2)

    def test_random_numbers_are_those_of_pytorchs_seed(self):
        p = torch.full((1000,), 0.3)
        drawn = []
        for _ in range(2):
            torch.manual_seed(3)
            drawn += [core.bernoulli(p), core.bernoulli(p)]
        self.assertTrue(torch.equal(drawn[0], drawn[2]) and torch.equal(drawn[1], drawn[3]) and not torch.equal(drawn[0], drawn[1]))
        self.assertTrue(250 < drawn[0].sum() < 350)
        self.check(core.dropout, (torch.randn(5, requires_grad=True),))
        with self.assertRaisesRegex(RuntimeError, "draws random numbers"):
            torch.vmap(core.bernoulli)(p.reshape(2, 500))
        self.assertEqual(torch.vmap(core.bernoulli, randomness="different")(p.reshape(2, 500)).shape, (2, 500))

    def test_modes_and_subclasses_see_the_operators(self):
        seen = []

        class Mode(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))
        with Mode():
            self.gelu(torch.ones(2))
            core.matmul(torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)).sum().backward()
        self.assertIn(torch.ops.demo.gelu.default, seen)
        self.assertIn(core.matmul.default, seen)
        self.assertIn(core.matmul_backward.default, seen)

    def test_torchscript(self):
        @torch.jit.script
        def f(x: torch.Tensor):
            return torch.ops.demo.gelu(x)
        x = torch.randn(5)
        self.assertTrue(torch.equal(f(x), self.gelu(x)))
        self.assertTrue(torch.equal(torch.jit.trace(lambda t: self.gelu(t), (x,))(x), self.gelu(x)))

    def test_threads(self):
        x, failures = torch.randn(64, 64), []
        expected = core.matmul(x, x)
        def work():
            for _ in range(200):
                if not torch.equal(core.matmul(x, x), expected):
                    failures.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(failures, [])

    def test_one_pool_of_threads(self):
        """No more threads run than PyTorch was told to use, whichever is imported first: its loops, ours, and oneDNN's are theirs."""
        code = """
import os, sys
sys.path[:0] = sys.argv[1:]
FIRST
import torch, tenon.torch
tenon.torch.register("core")
w = torch.randn(500, 500, requires_grad=True)

def ran():  # threads, and for how long they have been running
    return {t: open("/proc/self/task/" + t + "/schedstat").read().split()[0] for t in os.listdir("/proc/self/task")}

def work():
    for _ in range(5):
        x = torch.relu(torch.randn(500, 500) @ w)
        y = torch.ops.core.softmax(torch.ops.core.matmul(x, w) + tenon.ops.core.add(x.detach(), w.detach()), axis=1)
        y.sum().backward()

for count in 2, 1, 2:
    torch.set_num_threads(count)
    work()
    before = ran()
    work()
    after = ran()
    busy = [t for t in after if after[t] != before.get(t)]
    assert len(busy) == count == tenon._core.threads_get(), (count, before, after)
"""
        for first in "import torch", "import tenon; tenon.ops.core.softmax(tenon.tensor([[0.0] * 1000] * 1000))":
            subprocess.run([sys.executable, "-c", code.replace("FIRST", first), os.path.dirname(os.path.dirname(tenon.__file__))], check=True,
                           env={**os.environ, "TENON_THREADS": "2", "OMP_NUM_THREADS": "2"})

    def test_errors_name_operator_and_argument_and_the_next_call_works(self):
        x = torch.ones(3)
        for call, text in ((lambda: self.kinds.fails(x), "kinds::fails: this is all that it does"), (lambda: core.matmul(torch.ones(2, 3), torch.ones(4, 5)), "core::matmul"),
                           (lambda: self.gelu(x.to(torch.int32)), "demo::gelu"), (lambda: self.kinds.total([x], choice="three"), "kinds::total: choice: expected one of 'none', 'one', 'two'; found 'three'"),
                           (lambda: self.gelu(), "missing value for argument 'x'"), (lambda: core.softmax(x, other=1), "Unknown keyword argument 'other'"),
                           (lambda: core.add(torch.ones(3, dtype=torch.complex32), x), "core::add: a: its dtype has no counterpart in Tenon")):
            with self.subTest(text=text), self.assertRaisesRegex(RuntimeError, text.replace("(", r"\(")):
                call()
            self.assertEqual(self.gelu(torch.zeros(1)).item(), 0)
        with self.assertRaisesRegex(tenon.Error, "no library 'nobody' with operators is loaded"):
            tenon.torch.register("nobody")
        with self.assertRaises((RuntimeError, NotImplementedError)):
            self.gelu(torch.ones(3).to_sparse())

    def test_a_model_is_one_operator(self):
        import onnx
        helper, w = onnx.helper, np.arange(12, dtype=np.float32).reshape(4, 3) / 10
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", ["n", 4]), ("y", [3]))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Add", ["product", "y"], ["sum"]), helper.make_node("Identity", ["x"], ["same"]),
                 helper.make_node("gelu", ["sum"], ["out"], domain="demo")]
        outputs = [helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["n", 3]), helper.make_tensor_value_info("same", onnx.TensorProto.FLOAT, ["n", 4])]
        made = helper.make_graph(nodes, "test", values, outputs, [onnx.numpy_helper.from_array(w, "w")])
        path = os.path.join(FOLDER, "model.onnx")
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("demo", 1)], ir_version=9), path)
        model, y = tenon.torch.load(path), torch.tensor([1.0, 2.0, 3.0])
        compiled = torch.compile(lambda x: model(x, y=y)[0] * 2, fullgraph=True, dynamic=True, backend="aot_eager")
        for n in 2, 5:
            x = torch.randn(n, 4)
            out, same = model(x, y)
            torch.testing.assert_close(out, torch.nn.functional.gelu(x @ torch.from_numpy(w) + y))
            self.assertTrue(torch.equal(same, x) and same.data_ptr() != x.data_ptr())
            self.assertTrue(torch.equal(compiled(x), out * 2))
        self.assertEqual(set(torch.library.opcheck(torch.ops.tenon.run.default, ([torch.randn(3, 4), y],), {"model": path}).values()), {"SUCCESS"})
        with self.assertRaisesRegex(tenon.Error, "has no gradient"):
            model(torch.randn(2, 4, requires_grad=True), y)[0].sum().backward()
        with self.assertRaisesRegex(TypeError, "expected the inputs x, y; found 1 by place and none by name"):
            model(y)
        with self.assertRaisesRegex((RuntimeError, tenon.Error), "x"):
            model(torch.randn(2, 5), y)

    def test_an_operator_in_python_is_pytorchs_too(self):
        @tenon.op("inpython::twice(Tensor x, *, float by=2.0) -> Tensor", types="x: f32|f64; out = x", shapes="out = x", gradient="x: inpython::twice(grad, by=by)")
        def twice(x, *, by):
            if by == 13:
                raise ValueError("not by thirteen")
            return x * x.dtype.type(by)
        tenon.torch.register("inpython")
        x = torch.randn(3, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.equal(torch.ops.inpython.twice(x, by=3.0), 3 * x))
        self.check(torch.ops.inpython.twice, (x,))
        self.assertTrue(torch.autograd.gradcheck(torch.ops.inpython.twice, (x,)))
        with self.assertRaisesRegex((ValueError, RuntimeError), "not by thirteen"):
            torch.ops.inpython.twice(x, by=13.0)
        self.assertTrue(torch.equal(torch.ops.inpython.twice(x), 2 * x))

    def test_gradients_in_python(self):
        @tenon.op("mine2::cube(Tensor x, *, float by=1.0) -> Tensor y", types="x: f64; y = x")
        def cube(x, *, by):
            return by * x ** 3

        @tenon.meta(cube)
        def cube_shape(x, *, by):
            return x.shape

        @tenon.gradient(cube)
        def cube_gradient(grad, x, y, by):
            assert np.array_equal(y, by * x ** 3)
            return 3 * grad * by * x ** 2

        @tenon.op("mine2::ratio(Tensor a, Tensor? b=None) -> (Tensor q, Tensor r)", types="a: f64; b, q, r = a", shapes="a, b, q, r: [n]")
        def ratio(a, b):
            return (a, a) if b is None else (a / b, 2 * a)

        @tenon.gradient(ratio)
        def ratio_gradient(grad_q, grad_r, a, b):
            q, r = (np.zeros_like(a) if g is None else g for g in (grad_q, grad_r))
            return (q + r, None) if b is None else (q / b + 2 * r, -q * a / b ** 2)
        tenon.torch.register("mine2")
        x, a, b = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in (4, 3, 3))
        self.assertTrue(torch.autograd.gradcheck(lambda x: torch.ops.mine2.cube(x, by=0.5), (x,)))
        self.assertTrue(torch.autograd.gradcheck(torch.ops.mine2.ratio, (a, b)))
        self.assertTrue(torch.autograd.gradcheck(lambda a, b: torch.ops.mine2.ratio(a, b)[1], (a, b)))
        self.assertTrue(torch.autograd.gradcheck(torch.ops.mine2.ratio, (a,)))
        compiled = torch.compile(lambda x: torch.ops.mine2.cube(x, by=2.0).sum(), fullgraph=True, dynamic=True, backend="aot_eager")
        for n in 3, 5:
            x = torch.randn(n, dtype=torch.float64, requires_grad=True)
            compiled(x).backward()
            torch.testing.assert_close(x.grad, 6 * x.detach() ** 2)
        self.assertEqual(set(torch.library.opcheck(torch.ops.mine2.cube.default, (x,)).values()), {"SUCCESS"})
        cube_gradient.registration.undo()
        for wrong, message in ((lambda grad: (grad, grad), "a tuple of 1"), (lambda grad: 1 / 0, "its gradient in Python raised: division by zero"), (lambda grad: "no", "expected a tensor")):
            registration = tenon.gradient(cube)(wrong).registration
            with self.assertRaisesRegex(Exception, message):
                torch.ops.mine2.cube(x).sum().backward()
            registration.undo()
        tenon.gradient(cube)(cube_gradient)

        def round_trip():
            torch.ops.mine2.cube(x).sum().backward()
        before = [sys.getrefcount(cube_gradient), sys.getrefcount(None) // 1000]
        for _ in range(200):
            round_trip()
        self.assertEqual([sys.getrefcount(cube_gradient), sys.getrefcount(None) // 1000], before)

    def test_gradients_in_python_of_pointwise_operators(self):
        @tenon.op("mine3::product(Tensor a, Tensor b) -> Tensor", types="a, b: f64; out = a", traits=["pure", "pointwise"])
        def product(a, b):
            return a * b

        @tenon.gradient(product)
        def product_gradient(grad, a, b):
            return grad * b, grad * a
        tenon.torch.register("mine3")
        f = torch.ops.mine3.product
        for shapes in ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (4, 1, 3)), ((), (2,)):  # what was broadcast is summed
            self.assertTrue(torch.autograd.gradcheck(f, tuple(torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)))
        a, b = torch.randn(2, 3, dtype=torch.float64)
        self.assertTrue(torch.equal(torch.func.jacrev(f)(a, b), torch.diag(b)))
        self.assertTrue(torch.equal(torch.vmap(torch.func.grad(lambda a: f(a, b).sum()), in_dims=1)(a.expand(2, 3).t()), b.expand(2, 3)))
        with self.assertRaisesRegex(tenon.UnimplementedError, "mine3::product: its gradient has no gradient itself"):
            torch.func.jacrev(torch.func.jacrev(f))(a, b)
        x = torch.randn(3, dtype=torch.float64, requires_grad=True)
        with self.assertRaisesRegex(tenon.UnimplementedError, "mine3::product: its gradient has no gradient itself"):  # not 0
            torch.autograd.gradgradcheck(f, (x, x))
        product_gradient.registration.undo()
        wrong = tenon.gradient(product)(lambda grad, a, b: (grad[:1], grad))
        with self.assertRaisesRegex(RuntimeError, r"an input of shape \[3\] has shape \[1\]"):
            f(x, x).sum().backward()
        wrong.registration.undo()

    def test_a_gradient_may_leave_out_the_namespace(self):
        path = os.path.join(FOLDER, "short.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write("""#include <tenon/op.h>
static tenon_status_t run(const tenon_loop_t *l) {
  for (int64_t i = 0; i < l->count; i++) ((double *)l->data[1])[i] = 3 * ((const double *)l->data[0])[i];
  return TENON_OK;
}
TENON_LIBRARY(shortly, "1.0.0",
  TENON_OP("thrice(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: thrice.back(core::identity(grad))"), TENON_LOOP("f64 -> f64", run)),
  TENON_OP("thrice.back(Tensor grad) -> Tensor", TENON_TYPES("grad: f64; out = grad"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("grad: shortly::thrice(grad.out)"), TENON_LOOP("f64 -> f64", run)))
""")
        tenon.torch.register(tenon.load(path))
        x = torch.randn(3, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(torch.ops.shortly.thrice, (x,)) and torch.autograd.gradgradcheck(torch.ops.shortly.thrice, (x,)))

    def test_a_library_that_pytorch_calls_is_not_unloaded(self):
        with self.assertRaises(tenon.Error):
            self.numpy.unload()

    def test_without_pytorch_the_bridge_says_so(self):
        code = ("import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); report, error = ctypes.c_void_p(), ctypes.c_char_p(); "
                "status = lib.tenon_torch_register(b'core', 0, ctypes.byref(report), ctypes.byref(error)); print(status, error.value.decode())")
        done = subprocess.run([sys.executable, "-c", code, os.path.join(BUILD, "libtenon_torch.so")], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "14 PyTorch is not loaded in this process: import torch first\n")
        source, old = os.path.join(FOLDER, "old.c"), os.path.join(FOLDER, "libtorch_cpu.so")
        with open(source, "w", encoding="utf-8") as file:  # as far as the bridge can see: PyTorch 2.9
            file.write("unsigned long aoti_torch_abi_version(void) { return 2ul << 56 | 9ul << 48; }\nint aoti_torch_get_dim(void *t, long *d) { return 1; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", source, "-o", old], check=True)
        done = subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[2]); " + code, os.path.join(BUILD, "libtenon_torch.so"), old], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"^14 PyTorch 2\.9 lacks functions of its C interface \(aoti_torch_device_type_cpu, .*torch_from_blob.*\): 2\.11 or newer is needed\n$")
        self.assertNotIn("aoti_torch_get_dim,", done.stdout)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=0)
    result = program.result
    bad = len(result.failures) + len(result.errors)
    for line in sorted(set(checks["skipped"])):
        print("skip:", line)
    print(f"{result.testsRun - len({str(t) for t, _ in result.failures + result.errors}) + checks['passed']} passed, {bad} failed, {len(set(checks['skipped'])) + len(result.skipped)} skipped")
    sys.exit(bool(bad))
