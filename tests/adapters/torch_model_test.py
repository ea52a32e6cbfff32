"""Models that Tenon compiles into one operator of PyTorch, tenon::run: values, gradients, tracing and errors, beside the same net in PyTorch."""
import atexit
import logging
import os
import shutil
import sys
import tempfile
import threading
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-model-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import onnx
import torch

import tenon
import tenon.torch
from onnx import helper, numpy_helper
import totals
from torch_kinds import GELU, KINDS, grown

logging.disable(logging.CRITICAL)
FLOAT, DOUBLE, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64


class Net(torch.nn.Module):
    """Convolution, gelu, normalisation, attention by hand, softmax."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.q, self.k = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.LayerNorm(6), torch.nn.Linear(6, 8), torch.nn.Linear(6, 8)

    def forward(self, x):
        y = torch.nn.functional.gelu(self.conv(x))
        y = self.norm(y + self.conv(x).tanh()).mean(1)
        scores = torch.softmax(self.q(y) @ self.k(y).transpose(1, 2) / 8**0.5, -1)
        return scores @ y, scores


def save(name, nodes, inputs, outputs, constants=()):
    """An ONNX file of (operator, inputs, outputs[, domain, attributes]); ports are (name, type, shape)."""
    made = [helper.make_node(n[0], n[1].split(), n[2].split(), name=f"{n[0]}_of_{n[2].split()[0]}", domain=n[3] if len(n) > 3 else "", **(n[4] if len(n) > 4 else {})) for n in nodes]
    ports = [[helper.make_tensor_value_info(*port) for port in which] for which in (inputs, outputs)]
    graph = helper.make_graph(made, name, *ports, [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()])
    path = os.path.join(FOLDER, name + ".onnx")
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("demo", 1), helper.make_opsetid("kinds", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)
    return path


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        kinds = os.path.join(FOLDER, "kinds.c")
        with open(kinds, "w", encoding="utf-8") as file:
            file.write(KINDS)
        for source in GELU, kinds:
            tenon.load(source)
        torch.manual_seed(5)
        cls.net, cls.x, cls.path = Net().eval().requires_grad_(False), torch.randn(2, 2, 3, 6), os.path.join(FOLDER, "net.onnx")
        torch.onnx.export(cls.net, (cls.x,), cls.path, dynamo=False, input_names=["x"], output_names=["y", "scores"], dynamic_axes={"x": {0: "n"}}, opset_version=18)
        cls.model = tenon.torch.load(cls.path)
        cls.weights = [torch.randn(2, 3, 6), torch.randn(2, 3, 3)]
        nodes = [("gelu", "x", "g", "demo"), ("MatMul", "g w", "p"), ("Add", "p y", "out"), ("Identity", "x", "same"), ("Add", "x half", "more")]
        ports, constants = [("x", FLOAT, ["n", 4]), ("y", FLOAT, [3])], {"w": np.arange(12, dtype=np.float32).reshape(4, 3) / 10, "half": np.float32(0.5)}
        outputs = [(name, FLOAT, shape) for name, shape in (("out", ["n", 3]), ("same", ["n", 4]), ("more", ["n", 4]))]
        cls.plain = save("plain", nodes, ports, outputs, constants)
        counted = [("count", "x", "c", "kinds"), ("Mul", "p c", "counted")]  # kinds::count has no gradient, and returns a new value each time
        cls.custom = save("custom", nodes + counted, ports, outputs + [("counted", FLOAT, ["n", 3])], constants)

    def loss(self, results):
        return sum((r * w).sum() for r, w in zip(results, self.weights))

    def test_values_and_gradients_are_those_of_the_same_net_in_pytorch(self):
        for n in 2, 5:
            x = torch.randn(n, 2, 3, 6, requires_grad=True)
            weights = [torch.randn(n, 3, 6), torch.randn(n, 3, 3)]
            found, expected = self.model(x), self.net(x)
            for f, e in zip(found, expected):
                torch.testing.assert_close(f, e, rtol=1e-5, atol=1e-5)
            for which in (0, 1), (0,), (1,):  # outputs for which a gradient arrives
                f, e = (torch.autograd.grad(sum((r[i] * weights[i]).sum() for i in which), x, retain_graph=True)[0] for r in (found, expected))
                torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-5)
                self.assertGreater(e.abs().max(), 1e-3)
        with torch.no_grad():
            self.assertFalse(self.model(x)[0].requires_grad)

    def test_gradcheck(self):
        path = save("double", [("MatMul", "x w", "p"), ("Tanh", "p", "t"), ("Gather", "t i", "g"), ("Mul", "g y", "out"), ("ReduceSum", "t", "total", "", {"keepdims": 0})],
                    [("x", DOUBLE, ["n", 3]), ("i", INT64, ["k"]), ("y", DOUBLE, ["k", 2])], [("out", DOUBLE, ["k", 2]), ("total", DOUBLE, [])], {"w": np.linspace(-1, 1, 6).reshape(3, 2)})
        model, i = tenon.torch.load(path), torch.tensor([3, 0, 3])
        x, y = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda x, y: model(x, i, y), (x, y)))
        self.assertTrue(torch.autograd.gradcheck(lambda y: model(x.detach(), i, y), (y,)))
        gradient, = torch.autograd.grad(model(x, i, y)[1], y, allow_unused=True)
        self.assertTrue(gradient is None or not gradient.any())

    def test_opcheck(self):
        for requires in False, True:
            x = self.x.clone().requires_grad_(requires)
            self.assertEqual(set(torch.library.opcheck(torch.ops.tenon.run.default, ([x],), {"model": self.path}).values()), {"SUCCESS"})
        x, y = torch.randn(3, 4), torch.randn(3)
        self.assertEqual(set(torch.library.opcheck(torch.ops.tenon.run.default, ([x, y.requires_grad_()],), {"model": self.plain}).values()), {"SUCCESS"})
        grads = [torch.randn(3, 3), torch.randn(3, 4), torch.randn(3, 4)]  # for `same` and `more` it is the gradient of x itself
        for given in [0], [1], [2], [0, 1, 2], []:
            for wanted in [0, 1], [1]:
                args = [x, y.detach()], [grads[i] for i in given], given, wanted
                self.assertEqual(set(torch.library.opcheck(torch.ops.tenon._run_vjp, args, {"model": self.plain}).values()), {"SUCCESS"})

    def test_gradients_have_memory_of_their_own(self):
        x, y, g = torch.randn(3, 4), torch.randn(3), torch.randn(3, 4)
        for at in 1, 2:
            for grad in g, g[1:].expand(3, 2, 4)[:, 0], g.t().contiguous().t():
                made = torch.ops.tenon._run_vjp([x, y], [grad], [at], [0, 1], model=self.plain)
                self.assertTrue(torch.equal(made[0], grad) and not made[1].any())
                kept = made[0].clone()
                g.add_(1)
                self.assertTrue(torch.equal(made[0], kept))

    def test_compiling_exporting_and_transforms(self):
        x = self.x.clone().requires_grad_()
        expected, = torch.autograd.grad(self.loss(self.net(x)), x)
        def f(x):
            return self.loss(self.model(x))
        for function in torch.compile(f, fullgraph=True, backend="aot_eager"), torch.compile(f, fullgraph=True, dynamic=True, backend="aot_eager"):
            torch.testing.assert_close(torch.autograd.grad(function(x), x)[0], expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(torch.func.grad(f)(self.x), expected, rtol=1e-4, atol=1e-5)
        batch = torch.stack([self.x, 2 * self.x])
        for r, *parts in zip(torch.vmap(self.model)(batch), *(self.model(t) for t in batch)):
            self.assertTrue(torch.equal(r, torch.stack(parts)))

        class Module(torch.nn.Module):
            def forward(module, x):
                return self.model(x)[0] * 2
        program = torch.export.export(Module(), (self.x,), dynamic_shapes=({0: torch.export.Dim("n")},))
        file = os.path.join(FOLDER, "net.pt2")
        torch.export.save(program, file)
        torch.testing.assert_close(torch.export.load(file).module()(batch[1]), self.net(batch[1])[0] * 2, rtol=1e-5, atol=1e-5)
        graph = torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(f))(self.x)
        self.assertIn("torch.ops.tenon._run_vjp", graph.code)
        torch.testing.assert_close(graph(self.x), expected, rtol=1e-4, atol=1e-5)

    def test_a_missing_gradient_is_named_and_the_next_call_works(self):
        model, y = tenon.torch.load(self.custom), torch.randn(3)
        x = torch.randn(2, 4, requires_grad=True)
        for _ in range(2):
            results = model(x, y)
            with self.assertRaisesRegex(RuntimeError, "tenon::run.*node 'count_of_c': kinds::count has no gradient"):
                results[3].sum().backward()
            results[0].sum().backward()  # results[0] does not depend on it
        torch.testing.assert_close(x.grad, 2 * torch.autograd.grad((torch.nn.functional.gelu(x) @ (torch.arange(12.0).reshape(4, 3) / 10)).sum(), x)[0])
        with self.assertRaisesRegex(tenon.UnimplementedError, "cannot be differentiated again"):
            torch.autograd.grad(model(x, y)[0].sum(), x, create_graph=True)[0].sum().backward()
        with self.assertRaisesRegex(NotImplementedError, "no forward-mode gradient"):
            torch.func.jvp(lambda t: model(t, y)[0], (torch.ones(2, 4),), (torch.ones(2, 4),))
        run = torch.ops.tenon.run
        for call, text in ((lambda: run([y], model=self.custom), "expected 2 inputs, found 1"), (lambda: run([x, y], model="nowhere.onnx"), "tenon::run: .*nowhere.onnx"), (lambda: run([x, x], model=self.custom), "input 'y'"),
                           (lambda: run([x, y], model=self.custom, device="abacus"), "abacus"), (lambda: torch.ops.tenon._run_vjp([x, y], [], [], [2], model=self.custom), "wanted: the model has no input with this number"),
                           (lambda: torch.ops.tenon._run_vjp([x, y], [y], [7], [0], model=self.custom), "given: the model has no output with this number"), (lambda: torch.ops.tenon._run_vjp([x, y], [y], [], [0], model=self.custom), "expected one gradient for each output in `given`"),
                           (lambda: run([x.detach().double(), y], model=self.custom), "input 'x': expected dtype f32, found f64")):
            with self.subTest(text=text), self.assertRaisesRegex(RuntimeError, text):
                call()
            self.assertEqual(model(torch.zeros(1, 4), y)[0].tolist(), [y.tolist()])
        with self.assertRaises(tenon.NotFoundError):
            tenon.torch.load(os.path.join(FOLDER, "nowhere.onnx"))
        with self.assertRaisesRegex(tenon.NotFoundError, "there is no device 'abacus'"):
            tenon.torch.load(self.custom, device="abacus")

    def test_threads(self):
        x, failures = self.x.clone().requires_grad_(), []
        expected, = torch.autograd.grad(self.loss(self.model(x)), x)
        def work():
            for _ in range(30):
                if not torch.equal(torch.autograd.grad(self.loss(self.model(x)), x)[0], expected):
                    failures.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(failures, [])

    def test_nothing_leaks_over_many_calls(self):
        x, y, grad, small = torch.randn(2, 4, requires_grad=True), torch.randn(3), torch.ones(2, 4), tenon.torch.load(self.custom)
        def forward():
            small(x.detach(), y)
        def back():
            results = small(x, y)
            torch.autograd.grad([results[0], results[1], results[2]], x, [torch.ones(2, 3), grad, grad])
        for call, times in (forward, 1000), (back, 500):
            self.assertLess(grown(call, times), 2 * times)  # bytes


if __name__ == "__main__":
    totals.main()
