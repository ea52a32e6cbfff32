"""The autograd node in C++ (tenon.torch.compile_autograd), beside PyTorch's own operators and beside the recording in Python."""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.join(ROOT, "tests", "adapters")
FOLDER = tempfile.mkdtemp(prefix="tenon-torch-node-")
os.environ.setdefault("TENON_CACHE", os.path.join(BUILD, "cache"))  # which keeps the compiled node
os.environ.pop("TENON_TORCH_AUTOGRAD", None)
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import tenon
import tenon.torch
import totals
from torch_kinds import grown

warnings.simplefilter("ignore")
core = torch.ops.core
BENCH = os.path.join(ROOT, "bench", "micro", "scale.c")
OPERATORS = """#include <tenon/op.h>
static tenon_status_t run(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i] * 3;
  return TENON_OK;
}
static tenon_status_t two(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) {
    ((double *)loop->data[2])[i] = ((const double *)loop->data[0])[i] * ((const double *)loop->data[1])[i];
    ((double *)loop->data[3])[i] = ((const double *)loop->data[0])[i] + ((const double *)loop->data[1])[i];
  }
  return TENON_OK;
}
TENON_LIBRARY(nodes, "1.0.0",
  TENON_OP("refused(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: error"), TENON_LOOP("f64 -> f64", run)),
  TENON_OP("stopped(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: none"), TENON_LOOP("f64 -> f64", run)),
  TENON_OP("passed(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: core::mul(core::identity(grad), 3.0)"), TENON_LOOP("f64 -> f64", run)),
  TENON_OP("two(Tensor x, Tensor y) -> (Tensor product, Tensor sum)", TENON_TYPES("x, y: f64; product, sum = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: core::add(core::mul(grad.product, y), grad.sum); y: core::add(core::mul(grad.product, x), grad.sum)"), TENON_LOOP("f64, f64 -> f64, f64", two)),
  TENON_OP("later(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: nodes_later::back(grad)"), TENON_LOOP("f64 -> f64", run)))
"""
LATER = """#include <tenon/op.h>
static tenon_status_t run(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i] * 3;
  return TENON_OK;
}
TENON_LIBRARY(nodes_later, "1.0.0",
  TENON_OP("back(Tensor grad) -> Tensor", TENON_TYPES("grad: f64; out = grad"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f64 -> f64", run)))
"""


def load(name, text):
    path = os.path.join(FOLDER, name + ".c")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


def leaf(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def program(text, **environment):
    """Runs a program in a process of its own, and returns what it printed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE]), **environment}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)], capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def setUpModule():
    if not shutil.which(shlex.split(os.environ.get("CXX", "c++"))[0]):
        raise unittest.SkipTest("there is no compiler for C++, which the autograd node needs")
    tenon.torch.compile_autograd()


class Choice(unittest.TestCase):
    """When the node records, in processes of their own."""
    SHOW = f"""
        import torch, tenon, tenon.torch
        from tenon.torch import node
        tenon.torch.register(tenon.load({BENCH!r}))
        def shown():
            x = torch.ones(2, requires_grad=True)
            y = torch.ops.bench.scale(x, 3.0)
            name = y.grad_fn.name()
            y.sum().backward()
            assert x.grad.tolist() == [3, 3]
            return "node" if name == "bench::scaleBackward" else "Python"
        print(shown(), end=" ")
    """

    @totals.takes_turns
    def test_registering_uses_the_node_of_the_cache_and_compiles_nothing(self):
        self.assertEqual(program(self.SHOW), "node ")
        text = "import tenon.torch\ntenon.torch.register()\nprint(tenon.torch.node.adopted())"
        self.assertEqual(program(text, TENON_CACHE=os.path.join(FOLDER, "none"), CXX="/nowhere/c++"), "[]\n")
        self.assertFalse(os.path.exists(os.path.join(FOLDER, "none")))
        self.assertEqual(program(self.SHOW, TENON_CACHE=os.path.join(FOLDER, "empty")), "Python ")
        self.assertEqual(program(text, TENON_CACHE="off", CXX="/nowhere/c++"), "[]\n")

    @totals.takes_turns
    def test_operators_that_are_registered_already_change_over(self):
        text = self.SHOW + """
        node._load = whole  # the cache has it from here on
        tenon.torch.compile_autograd()
        print(shown(), end=" ")
        """
        self.assertEqual(program("import tenon.torch.node\nwhole, tenon.torch.node._load = tenon.torch.node._load, lambda compiles: False\n" + textwrap.dedent(text)), "Python node ")

    def test_the_environment_chooses(self):
        self.assertEqual(program(self.SHOW, TENON_TORCH_AUTOGRAD="python"), "Python ")
        self.assertEqual(program(self.SHOW, TENON_TORCH_AUTOGRAD="compile"), "node ")
        with self.assertRaisesRegex(AssertionError, "TENON_TORCH_AUTOGRAD is 'python', 'compile' or not set, found 'on'"):
            program(self.SHOW, TENON_TORCH_AUTOGRAD="on")

    @totals.takes_turns
    def test_compiling_without_a_compiler_is_an_error_that_says_so(self):
        with self.assertRaisesRegex(AssertionError, "Tenon's autograd node for PyTorch needs a C\\+\\+ compiler once"):
            program("import tenon.torch\ntenon.torch.compile_autograd()", TENON_CACHE=os.path.join(FOLDER, "empty"), CXX="/nowhere/c++")


class Existing(unittest.TestCase):
    @totals.takes_turns
    def test_the_tests_of_gradients_pass_with_the_node(self):
        """Those of torch_test.py: every operator that has gradients beside PyTorch's, second gradients, functorch, compile, autocast, and others."""
        text = f"""
            import os, sys, unittest
            sys.path[:0] = [{HERE!r}]
            import torch_test, tenon.torch
            from tenon.torch import node
            tenon.torch.register("core")
            assert len(node.adopted()) == len(node._operators) > 180, set(node._operators) - set(node.adopted())
            result = unittest.main(module=torch_test, argv=["torch_test", *(word for name in sys.argv[1:] for word in ("-k", name))], exit=False).result
            assert result.wasSuccessful()
            print(result.testsRun)
        """
        names = "gradient", "gradcheck", "differentiated", "func", "vmap", "compile", "autocast", "Custom.test_opcheck", "namespace", "torch_library"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE]), "TENON_TORCH_AUTOGRAD": "compile"}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(text), *names], capture_output=True, text=True, env=env, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        self.assertGreater(int(done.stdout.split()[-1]), 10)


class Node(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tenon.torch.register("core")
        for library in load("nodes", OPERATORS), tenon.load(BENCH):
            tenon.torch.register(library)
        cls.own = torch.ops.nodes

    def test_the_node_and_python_give_the_same_gradients(self):
        x, y = leaf(3, 4), leaf(3, 1)
        calls = {"tanh": (x,), "mul": (x, y), "div": (x, y), "matmul": (x, leaf(4, 2)), "softmax": (x,), "exp": (x,), "sum_to": (x, torch.tensor([3, 1])), "where": (x > 0, x, y)}
        for name, args in calls.items():
            in_python = getattr(core, f"_{name}_autograd", None)  # where the bridge in C sends calls, whose kernel is in Python
            if in_python is None:
                continue
            with self.subTest(op=name):
                inputs = [a for a in args if a.requires_grad]
                here, there = getattr(core, name)(*args), in_python(*args)
                self.assertIn("CppFunction", type(here.grad_fn).__name__)
                self.assertNotIn("CppFunction", type(there.grad_fn).__name__)
                grad = torch.randn_like(here)
                for a, b in zip(torch.autograd.grad(here, inputs, grad, create_graph=True), torch.autograd.grad(there, inputs, grad, create_graph=True)):
                    self.assertTrue(torch.equal(a, b))
                    self.assertEqual(a.requires_grad, b.requires_grad)

    def test_first_and_second_derivatives(self):
        x, y, image, kernel = leaf(3, 4), leaf(3, 1), leaf(1, 2, 5, 5), leaf(3, 2, 3, 3)
        cases = [(core.mul, (x, y)), (core.softmax, (x,)), (core.matmul, (x, leaf(4, 2))), (lambda a, b: core.concat([a, b, a], axis=1), (x, y)), (core.conv, (image, kernel)),
                 (lambda a, b, c: core.conv(a, b, c), (image, kernel, leaf(3))), (lambda a: core.expand(a, torch.tensor([2, 3, 4])), (y,)), (lambda a: core.split(a, torch.tensor([1, 3]), axis=1, count=2), (x,)),
                 (lambda a: core.reduce_mean(a, torch.tensor([0])), (x,)), (self.own.two, (x, y)), (lambda a: self.own.two(a, a)[1], (x,)), (self.own.passed, (x,))]
        for i, (function, args) in enumerate(cases):
            with self.subTest(case=i):
                self.assertTrue(torch.autograd.gradcheck(function, args))
                self.assertTrue(torch.autograd.gradgradcheck(function, args))

    def test_what_the_node_saves_is_what_backward_needs(self):
        x, y = leaf(3), leaf(3)
        constant, changed = torch.ones(3, dtype=torch.float64), y * 2
        product = core.mul(constant, changed)
        changed.add_(1)  # the gradient of `changed` does not read it
        product.sum().backward()
        self.assertEqual(y.grad.tolist(), [2, 2, 2])
        for function, change in ((lambda a: core.mul(a, a), 0), (core.exp, 1)):
            value = x * 1
            result = function(value)
            (value, result)[change].add_(1)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                result.sum().backward()
        base = torch.ones(6, dtype=torch.float64, requires_grad=True) * 1
        result = core.mul(base[:3], base[3:])
        base.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            result.sum().backward()

    def test_backward_twice(self):
        x = leaf(3)
        result = core.tanh(x)
        result.sum().backward(retain_graph=True)
        result.sum().backward()
        with self.assertRaisesRegex(RuntimeError, "Trying to backward through the graph a second time"):
            result.sum().backward()
        result = torch.ops.bench.scale(torch.ones(2, requires_grad=True), 2.0)  # saves no tensor, like PyTorch's multiplication by a number
        result.backward(torch.ones(2))
        result.backward(torch.ones(2))

    def test_results_and_gradients_that_are_not_there(self):
        x, y = leaf(3), leaf(3)
        product, total = self.own.two(x, y)
        del product
        self.assertTrue(torch.equal(torch.autograd.grad(total.sum(), x)[0], torch.ones(3, dtype=torch.float64)))
        product, total = self.own.two(x, y)
        self.assertTrue(torch.equal(torch.autograd.grad(product.sum(), x)[0], y))
        pooled, indices = core.max_pool(leaf(1, 1, 4, 4), kernel=[2, 2])
        self.assertEqual([pooled.requires_grad, indices.requires_grad, indices.grad_fn], [True, False, None])
        result = core.conv(leaf(1, 1, 3, 3), leaf(1, 1, 2, 2).detach(), None)
        result.sum().backward()
        values = self.own.stopped(x)
        self.assertIsNone(torch.autograd.grad(values.sum(), x, allow_unused=True)[0])
        with self.assertRaisesRegex(NotImplementedError, "nodes::refused declares that it has no gradient for x: detach this input"):
            self.own.refused(x).sum().backward()
        self.assertFalse(self.own.refused(x.detach()).requires_grad)

    def test_calls_that_need_no_gradient(self):
        x = leaf(3)
        with torch.no_grad():
            self.assertFalse(core.tanh(x).requires_grad)
        with torch.inference_mode():
            self.assertTrue(core.tanh(x).is_inference())
        self.assertIsNone(core.tanh(x.detach()).grad_fn)
        only_x = core.mul(x, torch.ones(3, dtype=torch.float64)).grad_fn.next_functions
        self.assertEqual([f is None for f, _ in only_x], [False, True])

    def test_hooks_names_and_anomaly_mode(self):
        x, seen = leaf(3), []
        result = core.tanh(x)
        result.register_hook(lambda grad: seen.append("tensor"))
        result.grad_fn.register_prehook(lambda grads: seen.append("before"))
        result.grad_fn.register_hook(lambda made, given: seen.append((len(made), len(given))))
        result.retain_grad()
        result.sum().backward()
        self.assertEqual(seen, ["tensor", "before", (1, 1)])
        self.assertEqual(result.grad.tolist(), [1, 1, 1])
        self.assertEqual(result.grad_fn.name(), "core::tanhBackward")
        with self.assertRaisesRegex(RuntimeError, "Function 'core::sqrtBackward' returned nan values in its 0th output"), torch.autograd.detect_anomaly():
            core.mul(core.sqrt(x * 0), torch.zeros(3, dtype=torch.float64)).sum().backward()

    def test_saved_tensors_hooks_and_checkpoints(self):
        x, seen = leaf(3), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append("packed"), t)[1], lambda t: (seen.append("unpacked"), t)[1]):
            result = core.tanh(x)
        result.sum().backward()
        self.assertEqual(seen, ["packed", "unpacked"])
        found = torch.autograd.grad(checkpoint(lambda t: core.tanh(core.tanh(t)), x, use_reentrant=False).sum(), x)[0]
        torch.testing.assert_close(found, torch.autograd.grad(torch.tanh(torch.tanh(x)).sum(), x)[0])

    def test_transforms(self):
        x = torch.randn(5, 3, dtype=torch.float64)
        f = lambda t: core.mul(core.tanh(t), t).sum()  # noqa: E731
        g = lambda t: (torch.tanh(t) * t).sum()  # noqa: E731
        for transform in (torch.func.grad, lambda h: torch.vmap(torch.func.grad(h)), torch.func.jacrev, lambda h: torch.func.jacrev(torch.func.grad(h)), lambda h: torch.func.grad(lambda t: torch.func.grad(h)(t).sum())):
            torch.testing.assert_close(transform(f)(x), transform(g)(x))
        with self.assertRaisesRegex(RuntimeError, "core::tanh has no forward-mode gradient"):
            torch.func.jvp(core.tanh, (x,), (x,))
        y = x.clone().requires_grad_()
        batch = torch.randn(7, 5, 3, dtype=torch.float64)
        torch.testing.assert_close(*(torch.autograd.grad(h(y), y, batch, is_grads_batched=True)[0] for h in (core.tanh, torch.tanh)))

    def test_traces_and_compilers(self):
        def back(function):
            return lambda t: torch.autograd.grad(function(t).square().sum(), t)[0]
        f = lambda t: core.mul(core.tanh(t), core.reduce_sum(t, torch.tensor([1]))) * core.tanh(t)  # noqa: E731
        g = lambda t: torch.tanh(t) * t.sum(1, keepdim=True) * torch.tanh(t)  # noqa: E731
        x = leaf(4, 3)
        expected = back(g)(x)
        traced = make_fx(back(f), tracing_mode="symbolic")(leaf(5, 3))
        self.assertNotIn("_autograd", traced.code)
        torch.testing.assert_close(traced(x), expected)
        for backend in "eager", "aot_eager":
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for t in x, leaf(6, 3):
                torch.testing.assert_close(back(compiled)(t), back(g)(t))

    def test_compiled_autograd(self):
        one, two = torch.tensor([1]), leaf(2, 3).detach()
        pairs = [(lambda t: core.mul(core.tanh(t), core.reduce_sum(t, one)), lambda t: torch.tanh(t) * t.sum(1, keepdim=True)), (lambda t: core.concat([t, two, core.exp(t)], axis=0), lambda t: torch.cat([t, two, t.exp()])),
                 (lambda t: self.own.two(t, t)[1], lambda t: t + t), (lambda t: core.softmax(t, axis=0), lambda t: t.softmax(0)), (lambda t: core.softmax(t, axis=1), lambda t: t.softmax(1)),
                 (lambda t: core.matmul(t, two, transpose_b=True), lambda t: t @ two.T), (lambda t: core.mul(t, two[:1]), lambda t: t * two[:1])]
        for backend in "eager", "aot_eager":
            for i, (f, g) in enumerate(pairs):
                for rows in 4, 4, 6, 7:
                    with self.subTest(backend=backend, case=i, rows=rows):
                        t = leaf(rows, 3)
                        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
                            f(t).square().sum().backward()
                        torch.testing.assert_close(t.grad, torch.autograd.grad(g(t).square().sum(), t)[0])

    def test_subclasses_see_the_calls_of_backward(self):
        seen = []

        class Wrapped(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            def __init__(self, inner):
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                seen.append(str(function))
                strip = lambda t: t.inner if isinstance(t, Wrapped) else t  # noqa: E731
                made = function(*map(strip, args), **{k: strip(v) for k, v in (kwargs or {}).items()})
                return Wrapped(made) if isinstance(made, torch.Tensor) else made
        x = Wrapped(torch.ones(3, dtype=torch.float64)).requires_grad_()
        core.exp(x).sum().backward()
        self.assertIsInstance(x.grad, Wrapped)
        self.assertEqual([name for name in seen if name.startswith("core")], ["core.exp.default", "core.mul.default"])

    def test_autocast(self):
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = core.matmul(x, w)
        self.assertEqual(result.dtype, torch.bfloat16)
        result.sum().backward()
        self.assertEqual(w.grad.dtype, torch.float32)

    def test_a_library_that_a_formula_calls_may_be_loaded_later(self):
        x = leaf(3)
        result = self.own.later(x)
        with self.assertRaisesRegex(RuntimeError, "nodes_later"):
            result.sum().backward(retain_graph=True)
        load("nodes_later", LATER)
        result.sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 3, 3])

    def test_threads_share_a_graph(self):
        x, wrong = leaf(100), []
        result = core.sigmoid(x).sum()
        expected = torch.autograd.grad(torch.sigmoid(x).sum(), x)[0]

        def work():
            for _ in range(50):
                if not torch.allclose(torch.autograd.grad(result, x, retain_graph=True)[0], expected):
                    wrong.append(threading.get_ident())
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_nothing_is_left_over(self):
        x, w, half = leaf(10, 10), leaf(10, 10), torch.tensor(0.5, dtype=torch.float64)

        def step():
            result = core.mul(core.concat([core.matmul(x, w), core.softmax(x)], axis=0), half)
            torch.autograd.grad(result.sum(), (x, w))
            core.tanh(x)  # a graph that is dropped
        self.assertLess(grown(step, 1000), 20000)
        result = torch.ones(1, requires_grad=True)
        for _ in range(100000):
            result = torch.ops.bench.scale(result, 1.0)
        del result  # a deep graph is freed without recursion


if __name__ == "__main__":
    totals.main()
