"""Tenon's operators as operators of PyTorch: torch.library.opcheck, values and gradients beside PyTorch's own, tracing, errors."""
import copy
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
if os.environ.get("TENON_TORCH_AUTOGRAD") != "compile":  # torch_autograd_node_test.py runs these tests with the compiled node, which the cache has
    os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "acceptance")]
import numpy as np
import torch

import tenon
import tenon.torch
import gradient_cases, gradient_cases_index, gradient_cases_norms, gradient_cases_sampling, gradient_cases_sequence, gradient_cases_spatial  # noqa: F401, E401
import torch_samples
from gradients import CASES, results_of, torch_gradients, torch_of, weights_of
import totals
from torch_kinds import GELU, KINDS, grown

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
core = torch.ops.core
ONCE = {"attention", "causal_conv", "gru", "linear_attention", "lstm", "rnn", "rotary_embedding",  # their gradients are those of the operators that they call
        "deform_conv", "deform_patches", "grid_sample"}  # docs/autograd.md
checks = {"passed": 0}


def attributes(attrs):
    """The attributes of a case for PyTorch: dtypes are PyTorch's own, and strings have no quotes."""
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

    def test_all_operators_without_graph_attributes_are_registered(self):
        lists = sorted(name for name, why in self.left_out.items() if "lists of tensors" in why)
        self.assertEqual(sorted(self.left_out), sorted(["core::if", "core::list_map", "core::loop", "core::scan", *lists]))
        self.assertEqual(lists, ["core::" + name for name in ("list", "list_at", "list_concat", "list_erase", "list_insert", "list_length", "list_split", "optional", "optional_get", "optional_has")])
        for name in tenon._core.names():
            if name not in self.left_out:
                self.assertTrue(callable(tenon.torch.overload(name)))
        self.assertEqual(tenon.torch.register("core"), self.left_out)  # a second registration does nothing

    @totals.takes_turns
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
            with self.subTest(op=name):
                self.assertEqual(set(torch.library.opcheck(tenon.torch.overload("core::" + name), tuple(args), attributes(attrs)).values()), {"SUCCESS"})
                checks["passed"] += 1
        self.assertGreater(len(seen), 130)

    @totals.takes_turns
    def test_opcheck_is_clean_for_the_others(self):
        """Operators without cases: those that compute gradients with the arguments that gradients pass, others with any arguments that they
        accept."""
        cased, left = {name for name, *_ in CASES}, set()
        with torch_samples.Recorder() as recorder:
            for name, function, attrs, arrays, wanted in CASES:
                torch_gradients(lambda *a: flat(results_of(function_of(name, attrs), a)), arrays, wanted, weights_of(function, arrays), False)
        for name in torch_samples.operators():
            if name in cased or name in torch_samples.UNSERVED:
                continue
            overload = tenon.torch.overload("core::" + name)
            call = recorder.calls.get(overload) or torch_samples.sample(name)
            with self.subTest(op=name):
                if call is None:
                    left.add(name)
                    continue
                self.assertEqual(set(torch.library.opcheck(overload, tuple(call[0]), call[1]).values()), {"SUCCESS"})
                checks["passed"] += 1
        self.assertEqual(left, set())

    def test_values_are_those_of_pytorch(self):
        for name, function, attrs, arrays, _ in CASES:
            with self.subTest(op=name, attrs=attrs):
                found = flat(results_of(function_of(name, attrs), [torch_of(a) for a in arrays]))
                for f, e in zip(found, results_of(function, [torch_of(a) for a in arrays])):
                    if e is not None:
                        torch.testing.assert_close(f.to(e.dtype), e, rtol=1e-9, atol=1e-12)

    def agree(self, name, function, attrs, arrays, wanted, second):
        weights = weights_of(function, arrays)
        found = torch_gradients(lambda *a: flat(results_of(function_of(name, attrs), a)), arrays, wanted, weights, second)
        for f, e in zip(found, torch_gradients(function, arrays, wanted, weights, second)):
            np.testing.assert_allclose(f, e, rtol=1e-7 if second else 1e-9, atol=1e-9 if second else 1e-12)

    def test_gradients_are_those_of_pytorch(self):
        for case in CASES:
            with self.subTest(op=case[0], attrs=case[2]):
                self.agree(*case, second=False)

    def test_second_gradients_are_those_of_pytorch(self):
        for case in CASES:
            with self.subTest(op=case[0], attrs=case[2]):
                if case[0] not in ONCE:
                    self.agree(*case, second=True)
                    continue
                with self.assertRaisesRegex(Exception, "has no gradient|cannot be differentiated again"):  # not a gradient of 0
                    self.agree(*case, second=True)


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

    def test_operators_of_the_examples(self):
        """Operators that have tensors and a kernel for the CPU; softcap can be built only with its .cu file."""
        examples = os.path.join(ROOT, "examples")
        for options, *sources in (["-lutf8proc"], "02_search/text_ops.c", "02_search/wordpiece.c"), ([], "10_line_reader/ctc.c", "10_line_reader/decode.c"):
            tenon.torch.register(tenon.load(*(os.path.join(examples, s) for s in sources), options=options))
        x, logits = torch.randn(3, 4, requires_grad=True), torch.randn(6, 2, 5, dtype=torch.float64, requires_grad=True)
        targets, frames, lengths = torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([6, 5]), torch.tensor([3, 2])
        self.check(torch.ops.demo.gelu_backward, (x.detach(), x.detach()))
        self.check(torch.ops.text.mean_pool, (torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.int64)))
        log_probs = logits.detach().log_softmax(-1).requires_grad_()
        self.check(torch.ops.reader.ctc_loss, (log_probs, targets, frames, lengths))
        loss = lambda t: torch.ops.reader.ctc_loss(t.log_softmax(-1), targets, frames, lengths)[0]  # noqa: E731
        torch.testing.assert_close(loss(logits), torch.nn.functional.ctc_loss(logits.log_softmax(-1), targets, frames, lengths, reduction="none"))
        self.assertTrue(torch.autograd.gradcheck(loss, (logits,)))
        loss, alpha = torch.ops.reader.ctc_loss(log_probs.detach(), targets, frames, lengths)
        self.check(torch.ops.reader.ctc_loss_backward, (torch.ones(2, dtype=torch.float64), log_probs.detach(), targets, frames, lengths, loss, alpha))

    def test_every_kind_of_operator_runs_in_every_way_of_pytorch(self):
        """An operator that mutates, one with lists and optionals, one whose result's size depends on data, one with state, and one with random
        numbers, in each way that PyTorch has to run a function."""
        def mutates(x):
            y = x.clone()
            self.kinds.scale_(y, by=2.0)
            return y
        functions = {"scale_": (mutates, ()), "total": (lambda x: self.kinds.total([x, x * 2], x[:1], choice="two"), ([torch.ones(3)],)), "positive": (lambda x: self.kinds.positive(x - 1), ()),
                     "powers": (lambda x: self.kinds.powers(x, n=3) + 1, ()), "noise": (lambda x: self.kinds.noise(x) * 2, ())}
        x, named = torch.tensor([0.0, 1.0, 2.0, 3.0]), {"scale_": {"by": 2.0}, "powers": {"n": 3}}
        expected = {"scale_": [0, 2, 4, 6], "total": 20.5, "positive": [1, 2], "powers": [1, 2, 9, 28]}

        class Model(torch.nn.Module):
            def __init__(self, function):
                super().__init__()
                self.function = function

            def forward(self, x):
                return self.function(x)
        for name, (function, given) in functions.items():
            def run(f, value=x):
                torch.manual_seed(5)
                return f(value)
            with self.subTest(op=name), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                eager = run(function)
                if name in expected:
                    self.assertEqual(eager.tolist(), expected[name])
                self.check(getattr(self.kinds, name), given or (x.clone(),), named.get(name))
                program = torch.export.export(Model(function), (x,))
                path = os.path.join(FOLDER, f"{name}.pt2")
                torch.export.save(program, path)
                graph = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="symbolic")(x)
                self.assertIn(f"torch.ops.kinds.{name}", graph.code)
                ways = {"inductor": torch.compile(function, fullgraph=True), "export": torch.export.load(path).module(), "make_fx": graph, "deepcopy": copy.deepcopy(Model(function)), "a copied graph": copy.deepcopy(graph)}
                for way, f in ways.items():
                    with self.subTest(way=way):
                        self.assertTrue(torch.equal(run(f), eager), (run(f), eager))
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    self.assertTrue(torch.equal(run(function), eager))
                if name == "positive":
                    self.assertEqual(torch.vmap(function)(torch.stack([x, x.flip(0)])).tolist(), [[1, 2], [2, 1]])
                    with self.assertRaisesRegex(RuntimeError, "size"):
                        torch.vmap(function)(torch.stack([x, x + 1]))
                else:
                    batch = torch.vmap(function, randomness="same" if name == "noise" else "error")(torch.stack([x, x + 1]))
                    self.assertEqual(batch.shape, (2, *eager.shape))
                    if name in expected:
                        self.assertTrue(torch.equal(batch, torch.stack([eager, function(x + 1)])))
                wrong = []
                threads = [threading.Thread(target=lambda: [wrong.append(1) for _ in range(100) if name in expected and not torch.equal(function(x), eager) or function(x).shape != eager.shape]) for _ in range(4)]
                [t.start() for t in threads], [t.join() for t in threads]
                self.assertEqual(wrong, [])

    def test_arguments_of_every_kind(self):
        xs = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
        self.assertEqual(self.kinds.total(xs).item(), 6.5)
        self.assertEqual(self.kinds.total(xs, torch.tensor([2.0]), choice="two", extra=0.25).item(), 208.25)
        x = torch.ones(3)
        self.assertIsNone(self.kinds.scale_(x, by=3.0))  # in PyTorch, operators that write return nothing
        self.assertEqual(x.tolist(), [3, 3, 3])
        self.assertEqual(core.and_(torch.tensor([True, False]), torch.tensor([True, True])).tolist(), [True, False])
        self.assertEqual([t.tolist() for t in core.split(torch.arange(4.0), count=2)], [[0, 1], [2, 3]])
        turned = torch.arange(6.0).reshape(2, 3).t()
        self.assertTrue(torch.equal(core.add(turned, turned), 2 * turned))
        self.assertEqual(core.add(torch.empty(0, 3), torch.ones(3)).shape, (0, 3))
        for dtype in torch.float16, torch.bfloat16, torch.float64, torch.int64:
            self.assertEqual(core.add(torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype)).dtype, dtype)
        self.assertEqual(core.cast(torch.ones(2), to=torch.int64).dtype, torch.int64)

    def test_quantised_tensors_come_with_scale_and_zero_point(self):
        x = torch.randn(3, 4)
        scales, zeros = torch.tensor([0.1, 0.02, 0.5, 0.3]), torch.tensor([3, -1, 0, 7])
        for dtype in torch.qint8, torch.quint8, torch.qint32:
            offset = 10 if dtype == torch.quint8 else -2
            for q in (torch.quantize_per_tensor(x, 0.1, offset, dtype), torch.quantize_per_tensor(x, 0.07, 0, dtype).t(), torch.quantize_per_tensor(x[:0], 0.1, 0, dtype),
                      torch.quantize_per_channel(x, scales, zeros + 2, 1, dtype), torch.quantize_per_channel(x, scales[:3].double(), zeros[:3] + 2, 0, dtype)):
                torch.testing.assert_close(self.kinds.real(q), q.dequantize().contiguous(), rtol=1e-6, atol=0)
        floats = torch.quantize_per_channel(x, scales, torch.tensor([0.5, 1.5, 2.0, 0.25]), 1, torch.quint8)
        torch.testing.assert_close(self.kinds.real(floats), floats.dequantize())
        plain = torch.arange(4, dtype=torch.int8)
        self.assertEqual(self.kinds.real(plain).tolist(), [0, 1, 2, 3])  # after quantised ones

    def test_operators_that_do_not_look_at_quantised_tensors_refuse_them(self):
        q = torch.quantize_per_tensor(torch.randn(3), 0.1, 3, torch.quint8)
        rows = torch.quantize_per_channel(torch.randn(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8)
        for call, text in ((lambda: core.sign(rows), "core::sign: input x is quantised, and no kernel says \"quantised\": dequantise it first"), (lambda: core.add(q, q), "core::add: input a is quantised"),
                           (lambda: core.add(torch.ones(3, dtype=torch.uint8), q), "core::add: input b is quantised"), (lambda: core.concat([q, q], axis=0), "core::concat: input xs is quantised"),
                           (lambda: core.identity(q), "core::identity: a result is quantised"), (lambda: core.flatten(q), "core::flatten: a result is quantised"), (lambda: tenon.ops.kinds.real(q), "kinds::real: argument x: QUInt/QInt types are not supported by dlpack: call quantised tensors through torch.ops")):
            with self.subTest(text=text), self.assertRaisesRegex((RuntimeError, NotImplementedError, BufferError), text):
                call()
            self.assertEqual(self.gelu(torch.zeros(1)).item(), 0)

    def test_an_operator_with_state_keeps_it_between_calls(self):
        x = torch.ones(1)
        self.assertEqual([self.kinds.count(x).item() for _ in range(3)], [1, 2, 3])

    def test_nothing_leaks_over_many_calls(self):
        x, xs, w = torch.ones(4), [torch.ones(2), torch.ones(3)], torch.ones(4, requires_grad=True)
        def failing():
            try:
                self.kinds.fails(x)
            except RuntimeError:
                pass
        one, rows = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8), torch.quantize_per_channel(x.reshape(2, 2), torch.ones(2), torch.zeros(2, dtype=torch.int64), 0, torch.qint8)
        calls = [lambda: self.kinds.real(one), lambda: self.kinds.real(rows), lambda: core.add(x, x), lambda: self.kinds.total(xs, x, choice="two", extra=0.5), lambda: self.kinds.scale_(x, by=1.0), lambda: core.split(x, count=2),
                 lambda: core.reshape(x, torch.tensor([2, 2])), failing, lambda: core.cast(x, to=torch.float64), lambda: core.mul(w, x).sum().backward()]
        for call in calls:
            times = 300 if call is failing else 3000  # PyTorch takes 10 ms to raise an exception
            self.assertLess(grown(call, times), 2 * times, calls.index(call))  # bytes: less than a block of two for each call

    def test_results_live_as_long_as_they_are_held(self):
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
        torch.testing.assert_close(torch.vmap(core.add, in_dims=(0, 0))(x, x[:, 0]), x + x[:, 0].unsqueeze(1))  # tensors of different ranks
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
        with self.assertRaisesRegex(RuntimeError, "demo::gelu has no forward-mode gradient"):
            torch.func.jvp(self.gelu, (v,), (torch.ones(4),))
        graph = torch.fx.experimental.proxy_tensor.make_fx(lambda t: self.gelu(t) + 1, tracing_mode="symbolic")(v)
        self.assertIn("torch.ops.demo.gelu.default", graph.code)
        self.assertTrue(torch.equal(graph(torch.zeros(7)), torch.ones(7)))

    def test_gradients_through_the_parts_of_a_composite_for_one_input(self):
        q, k = torch.randn(3, 1, 2, 3, 4), torch.randn(1, 2, 3, 4)
        def grad(t):
            return torch.func.grad(lambda t: core.attention(t, k, k)[0].square().sum())(t)
        expected = torch.stack([torch.func.grad(lambda t: (torch.softmax(t @ k.mT / 2, -1) @ k).square().sum())(t) for t in q])
        torch.testing.assert_close(torch.stack([grad(t) for t in q]), expected)
        torch.testing.assert_close(torch.vmap(grad)(q), expected)
        w = q.requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(core.attention(w[0], k, k)[0].square().sum(), w)[0][0], expected[0])

    def test_vmap_equals_a_call_for_each_item(self):
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

    def test_vmap_by_declared_batching_is_one_call(self):
        calls = []

        @tenon.op("ruled::scaled(Tensor x, Tensor w, Tensor? more=None, *, int axis=0, int[] axes=[0]) -> (Tensor out, Tensor rank)", types="x: f64; w, more, out = x; rank = i64", shapes="out = x; rank: []",
                  batching="x, w, more -> out; shift axis, axes")
        def scaled(x, w, more, *, axis, axes):
            calls.append(x.shape)
            y = x - x.max(axis, keepdims=True) + x.sum(tuple(axes), keepdims=True)
            return y * w + (0 if more is None else more), np.array(x.ndim)
        tenon.torch.register("ruled")
        x, w, more = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
        for in_dims, args in (((0, None, None), (x, w, more)), ((2, 0, None), (x.permute(1, 2, 0), torch.stack([w, 2 * w, -w]), None)), ((0, None, 1), (x, w, torch.stack([more, w, -more], 1)))):
            for axis, axes in ((0, [0]), (1, [0, 1]), (-1, [-2]), (-2, [1, -2])):
                with self.subTest(in_dims=in_dims, axis=axis, axes=axes):
                    f = lambda *t: torch.ops.ruled.scaled(*t, axis=axis, axes=axes)[0]  # noqa: E731
                    one = lambda i: [t if d is None else t.select(d, i) for t, d in zip(args, in_dims)]  # noqa: E731
                    expected = torch.stack([f(*one(i)) for i in range(3)])
                    del calls[:]
                    torch.testing.assert_close(torch.vmap(f, in_dims=in_dims)(*args), expected, rtol=1e-12, atol=1e-12)
                    self.assertEqual(len(calls), 1)  # one call for the whole batch

    def test_vmap_of_a_pointwise_operator_with_several_results(self):
        calls = []

        @tenon.op("pair::both(Tensor a, Tensor b) -> (Tensor sum, Tensor product)", types="a: f32; b, sum, product = a", traits=("pure", "pointwise"))
        def both(a, b):
            calls.append(a.shape)
            return a + b, a * b
        tenon.torch.register("pair")
        a, b = torch.randn(3, 2, 4), torch.randn(4)
        for found, expected in zip(torch.vmap(torch.ops.pair.both, in_dims=(0, None))(a, b), (a + b, a * b)):
            torch.testing.assert_close(found, expected)
        self.assertEqual(len(calls), 1)
        sums, products = torch.vmap(torch.ops.pair.both, in_dims=(2, 0))(a, torch.arange(4.0))
        torch.testing.assert_close(products, (a * torch.arange(4.0)).movedim(2, 0))
        self.assertEqual(sums.shape, (4, 3, 2))

    def test_autocast(self):
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = core.matmul(x, w)
            self.assertEqual((product.dtype, core.softmax(x.bfloat16()).dtype, core.add(x, x).dtype), (torch.bfloat16, torch.float32, torch.float32))
        product.float().sum().backward()
        self.assertEqual(w.grad.dtype, torch.float32)
        torch.testing.assert_close(product.float(), (x @ w).detach(), rtol=2e-2, atol=2e-2)

    def test_autocast_casts_inputs_that_must_agree_to_the_widest_dtype(self):
        x, y = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for left, right, dtype in ((x.bfloat16(), y, torch.float32), (x.bfloat16(), y.half(), torch.float32), (x.bfloat16(), y.bfloat16(), torch.bfloat16)):
                total = core.add(left, right)
                self.assertEqual(total.dtype, dtype)
                torch.testing.assert_close(total, left.to(dtype) + right.to(dtype))
            self.assertEqual(core.concat([x.bfloat16(), y], axis=0).dtype, torch.float32)
            self.assertTrue(torch.equal(core.gather(x, torch.tensor([2, 0])), x[[2, 0]]))  # an index keeps its dtype
            core.add(x.bfloat16(), y).sum().backward()
        self.assertTrue(torch.equal(y.grad, torch.ones(3, 4)))
        with self.assertRaisesRegex(RuntimeError, "expected bf16"):
            core.add(x.bfloat16(), y.detach())

    def test_random_numbers_follow_pytorchs_seed(self):
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

    def test_calls_from_pytorch_run_on_its_threads_and_in_a_child_on_tenons_own(self):
        """So does oneDNN's work in these calls, whichever package is imported first."""
        code = """
import os, sys
sys.path[:0] = sys.argv[1:]
FIRST
import torch, tenon.torch
tenon.torch.register("core")
w = torch.randn(500, 500, requires_grad=True)

def call_in_child():  # which lacks PyTorch's threads
    process = os.fork()
    if not process:
        y, tasks = torch.ops.core.softmax(w.detach(), axis=1), len(os.listdir("/proc/self/task"))
        os._exit(0 if tasks == 3 and abs(y.numpy().sum() - 500) < 0.01 else 1)
    assert os.waitpid(process, 0) == (process, 0)

torch.relu(w @ w)  # PyTorch has its threads, and no operator of Tenon's was called yet
call_in_child()

def ran():  # the threads, and how long each has been running
    return {t: open("/proc/self/task/" + t + "/schedstat").read().split()[0] for t in os.listdir("/proc/self/task")}

def work():
    for _ in range(5):
        x = torch.relu(torch.randn(500, 500) @ w)
        y = torch.ops.core.softmax(torch.ops.core.matmul(x, w) + x, axis=1)
        y.sum().backward()

for count in 2, 1, 2:
    torch.set_num_threads(count)
    work()
    before = ran()
    work()
    after = ran()
    busy = [t for t in after if after[t] != before.get(t)]
    assert len(busy) == count, (count, before, after)
    assert tenon._core.threads_get() == 3  # of Tenon's other calls
call_in_child()

"""
        for first in "import torch", "import tenon; tenon.ops.core.softmax(tenon.tensor([[0.0] * 1000] * 1000))":
            subprocess.run([sys.executable, "-c", code.replace("FIRST", first), os.path.dirname(os.path.dirname(tenon.__file__))], check=True,
                           timeout=300, env={**os.environ, "TENON_THREADS": "3", "OMP_NUM_THREADS": "2"})

    def test_errors_name_operator_and_argument_and_the_next_call_works(self):
        x = torch.ones(3)
        for call, text in ((lambda: self.kinds.fails(x), "kinds::fails: this is all that it does"), (lambda: core.matmul(torch.ones(2, 3), torch.ones(4, 5)), "core::matmul"),
                           (lambda: self.gelu(x.to(torch.int32)), "demo::gelu"), (lambda: self.kinds.total([x], choice="three"), "kinds::total: choice: expected one of 'none', 'one', 'two'; found 'three'"),
                           (lambda: self.gelu(), "missing value for argument 'x'"), (lambda: core.softmax(x, other=1), "Unknown keyword argument 'other'"),
                           (lambda: core.add(torch.ones(3, dtype=torch.complex32), x), "core::add: a: the dtype of the tensor has no counterpart in Tenon")):
            with self.subTest(text=text), self.assertRaisesRegex(RuntimeError, text.replace("(", r"\(")):
                call()
            self.assertEqual(self.gelu(torch.zeros(1)).item(), 0)
        with self.assertRaisesRegex(tenon.Error, "no loaded library has operators in the namespace 'nobody'"):
            tenon.torch.register("nobody")
        with self.assertRaises((RuntimeError, NotImplementedError)):
            self.gelu(torch.ones(3).to_sparse())

    def test_errors_of_pytorch_list_no_inner_operators(self):
        for op in torch.ops.core.gelu, torch.ops.core.attention, torch.ops.core.matmul:
            self.assertEqual(op.overloads(), ["default"])
            with self.assertRaises(RuntimeError) as refused:
                op("text")
            self.assertNotRegex(str(refused.exception), "vjp|autograd")

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
        with self.assertRaisesRegex(TypeError, "expected the inputs x, y; found 1 by position and none by name"):
            model(y)
        with self.assertRaisesRegex((RuntimeError, tenon.Error), "x"):
            model(torch.randn(2, 5), y)

    def test_an_operator_in_python_is_an_operator_of_pytorch_too(self):
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

    def test_models_are_exported_to_onnx_with_tenons_nodes(self):
        tenon.torch.register(tenon.load(os.path.join(ROOT, "tests/adapters/libraries/python.c")))

        class Model(torch.nn.Module):
            def forward(self, x, y):
                weighed = torch.ops.pytest.weigh(x, i=2, f=0.5, c="two", ints=[1, 2], floats=[0.25], strs=["a", "bc"], may=1, d=torch.float16)
                return torch.ops.demo.gelu(x) + 1, core.concat([y, x[0], y], axis=0), core.concat([y], axis=-1), core.clip(y, None, x[0, 0]), core.clip(y, x[0, 0]), core.clip(y), torch.ops.pytest.sum_all([y, x]), torch.ops.pytest.sum_all([y], x[0, :1]), torch.ops.pytest.sum_all([y]), weighed
        x, y, path = torch.randn(2, 3), torch.randn(4), os.path.join(FOLDER, "nodes.onnx")
        functions = {overload: function for namespace in ("core", "demo", "pytest") for overload, function in tenon.torch.onnx_functions(namespace).items()}
        torch.onnx.export(Model(), (x, y), path, dynamo=True, verbose=False, custom_translation_table=functions, dynamic_shapes={"x": {0: torch.export.Dim("n", min=2)}, "y": {0: torch.export.Dim("m", min=2)}})
        run = tenon.graph.load(path).compile()
        for n, m in ((2, 4), (5, 7)):
            x, y = torch.randn(n, 3), torch.randn(m)
            for a, b in zip(run(x.numpy(), y.numpy()), Model()(x, y)):
                np.testing.assert_allclose(a, b.numpy(), rtol=1e-6, atol=1e-6)

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
        for shapes in ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (4, 1, 3)), ((), (2,)):  # the gradient of a broadcast input is a sum
            self.assertTrue(torch.autograd.gradcheck(f, tuple(torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)))
        a, b = torch.randn(2, 3, dtype=torch.float64)
        self.assertTrue(torch.equal(torch.func.jacrev(f)(a, b), torch.diag(b)))
        self.assertTrue(torch.equal(torch.vmap(torch.func.grad(lambda a: f(a, b).sum()), in_dims=1)(a.expand(2, 3).t()), b.expand(2, 3)))
        with self.assertRaisesRegex(tenon.UnimplementedError, "mine3::product: its gradient cannot be differentiated again"):
            torch.func.jacrev(torch.func.jacrev(f))(a, b)
        x = torch.randn(3, dtype=torch.float64, requires_grad=True)
        with self.assertRaisesRegex(tenon.UnimplementedError, "mine3::product: its gradient cannot be differentiated again"):  # not 0
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
        path = os.path.join(FOLDER, "unloads.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(KINDS.replace("TENON_LIBRARY(kinds", "TENON_LIBRARY(unloads"))
        library = tenon.load(path, unloadable=True)
        tenon.torch.register(library)
        with self.assertRaisesRegex(tenon.Error, "cannot unload library unloads: it is held"):
            library.unload()

    def test_without_pytorch_the_bridge_says_so(self):
        code = ("import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); report, error = ctypes.c_void_p(), ctypes.c_char_p(); "
                "status = lib.tenon_torch_register(b'core', 0, ctypes.byref(report), ctypes.byref(error)); print(status, error.value.decode())")
        done = subprocess.run([sys.executable, "-c", code, os.path.join(BUILD, "libtenon_torch.so")], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "14 PyTorch is not loaded in this process: import torch, or link the program to libtorch, first\n")
        source, old = os.path.join(FOLDER, "old.c"), os.path.join(FOLDER, "libtorch_cpu.so")
        with open(source, "w", encoding="utf-8") as file:  # the bridge takes this for PyTorch 2.9
            file.write("unsigned long aoti_torch_abi_version(void) { return 2ul << 56 | 9ul << 48; }\nint aoti_torch_get_dim(void *t, long *d) { return 1; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", source, "-o", old], check=True)
        done = subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[2]); " + code, os.path.join(BUILD, "libtenon_torch.so"), old], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"^14 PyTorch 2\.9 lacks functions of the C interface \(aoti_torch_device_type_cpu, .*torch_from_blob.*\): use PyTorch 2\.11 or newer\n$")
        self.assertNotIn("aoti_torch_get_dim,", done.stdout)


if __name__ == "__main__":
    totals.main(lambda: checks["passed"])
