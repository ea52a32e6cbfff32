"""One library in four hosts: tests/libraries/hosts/ten.c, which has ten kinds of operators, is built once and called from C, NumPy, PyTorch and JAX.

The hosts must give the same numbers. In JAX every transform is tested on every kind of operator, beside the same functions in jax.numpy. Run with
.venv-jax's Python; the process with PyTorch is one of .venv-zoo's.
"""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HOSTS = os.path.join(ROOT, "tests", "libraries", "hosts")
TORCH_PYTHON = os.path.join(ROOT, ".venv-zoo", "bin", "python")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
sys.path[:0] = [os.path.join(BUILD, "python")]
import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.test_util import check_grads

import tenon
import tenon.jax
import totals

jax.config.update("jax_enable_x64", True)
SEED = 2026
FOLDER = tempfile.mkdtemp(prefix="tenon-hosts-")
atexit.register(shutil.rmtree, FOLDER)
LIBRARY = os.path.join(FOLDER, "ten.so")


subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(HOSTS, "ten.c"), "-o", LIBRARY], check=True, stdout=subprocess.DEVNULL)
numpy_ops = tenon.load(LIBRARY)
ops = tenon.jax.register(numpy_ops)


class Case(NamedTuple):
    """A call: the operator, its inputs (arrays, lists of arrays, None) and its attributes."""
    op: str
    inputs: tuple
    attributes: dict = {}


def numbers(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)


X, ROW, COLUMN = numbers(3, 4), numbers(4), numbers(3, 1)
CASES = {
    "pointwise": Case("wave", (X, ROW), {"frequency": 1.5}),
    "pointwise, broadcast": Case("wave", (ROW, COLUMN)),
    "row": Case("softmax", (X,)),
    "reduction": Case("dot", (X, X[::-1].copy())),
    "reduction along an axis": Case("dot", (X, X[::-1].copy()), {"axis": 0}),
    "optional arguments": Case("affine", (X, ROW, COLUMN), {"extra": 0.25}),
    "optional arguments, one absent": Case("affine", (X, None, COLUMN)),
    "optional arguments, all absent": Case("affine", (X, None, None)),
    "mutating": Case("accumulate_", (X, X[::-1].copy()), {"decay": 0.75}),
    "stateful": Case("smooth", (X,), {"width": 5}),
    "random": Case("jitter", (X,), {"by": 2.0}),
    "data-dependent": Case("above", (X.ravel(),), {"threshold": 0.25}),
    "composite": Case("layer", (X, numbers(4, 2), numbers(2))),
    "composite, one absent": Case("layer", (X, numbers(4, 2), None)),
}


def cast(value, dtype):
    return value if value is None else [v.astype(dtype) for v in value] if isinstance(value, list) else value.astype(dtype)


def all_cases():
    """[(name, case)] in f64 and f32."""
    return [(f"{name}, {np.dtype(dtype).name}", Case(case.op, tuple(cast(v, dtype) for v in case.inputs), case.attributes))
            for name, case in CASES.items() for dtype in (np.float64, np.float32)]


def key_of(seed):
    return jnp.array([seed >> 32, seed & 0xffffffff], jnp.uint32)


def call_jax(case, *inputs, seed=SEED):
    """Calls an operator with JAX arrays; a result whose size depends on data has no padding."""
    more = {"key": key_of(seed)} if case.op == "jitter" else {}
    made = getattr(ops, case.op)(*inputs, **case.attributes, **more)
    return made[0][:int(made[1])] if case.op == "above" else made


def in_jax(case, seed=SEED):
    return np.asarray(call_jax(case, *(jax.tree.map(jnp.asarray, v) for v in case.inputs), seed=seed))


TORCH = """
import json, sys
sys.path[:0] = [sys.argv[1]]
import numpy as np, torch, tenon, tenon.torch
assert not tenon.torch.register(tenon.load(sys.argv[2]))
cases, seed, folder = json.load(open(sys.argv[3])), int(sys.argv[4]), sys.argv[5] + "/"
load = lambda v: v if v is None else [load(item) for item in v] if isinstance(v, list) else torch.from_numpy(np.load(v))
for k, (op, inputs, attributes, is_smooth) in enumerate(cases):
    args = [load(v) for v in inputs]
    torch.manual_seed(seed)
    made = getattr(torch.ops.ten, op)(*args, **attributes)
    np.save(f"{folder}{k}.npy", (args[0] if made is None else made).numpy())
    if is_smooth:
        leaves = [t.requires_grad_() for a in args for t in (a if isinstance(a, list) else [a]) if t is not None]
        torch.manual_seed(seed)
        y = getattr(torch.ops.ten, op)(*args, **attributes)
        for i, g in enumerate(torch.autograd.grad((y * y).sum(), leaves)):
            np.save(f"{folder}{k}.{i}.npy", g.numpy())
torch.manual_seed(seed)
print(torch.randint(0, 2 ** 63 - 1, (1,)).item())  # the seed that a random operator takes
"""
NOT_SMOOTH = "accumulate_", "above"


class Hosts(unittest.TestCase):
    """The same numbers in C, NumPy, PyTorch and JAX."""

    @classmethod
    def setUpClass(cls):
        cls.files = []  # for each case the files of its inputs
        for k, (_, case) in enumerate(all_cases()):
            cls.files.append([cls.save(f"in{k}.{i}", v) for i, v in enumerate(case.inputs)])

    @staticmethod
    def save(name, value):
        if value is None:
            return None
        if isinstance(value, list):
            return [Hosts.save(f"{name}.{i}", v) for i, v in enumerate(value)]
        path = os.path.join(FOLDER, name + ".npy")
        np.save(path, value)
        return path

    def agree(self, found_of):
        for k, (name, case) in enumerate(all_cases()):
            with self.subTest(case=name):
                expected, found = in_jax(case), found_of(k, case)
                self.assertEqual(found.dtype, expected.dtype)
                np.testing.assert_array_equal(found, expected)

    def test_numpy(self):
        def call(_, case):
            inputs = [[v.copy() for v in x] if isinstance(x, list) else x if x is None else x.copy() for x in case.inputs]
            tenon.seed(SEED)
            return getattr(numpy_ops, case.op)(*inputs, **case.attributes)
        self.agree(call)

    def test_c(self):
        lines, results = [], [os.path.join(FOLDER, f"c{k}.npy") for k in range(len(self.files))]
        for (_, case), files, result in zip(all_cases(), self.files, results):
            lines += [f"op ten::{case.op}", f"seed {SEED}", *(f"attr {name} {value}" for name, value in case.attributes.items())]
            for file in files:
                lines += [f"input {f}" for f in file] + [f"list {len(file)}"] if isinstance(file, list) else [f"input {file}" if file else "absent"]
            lines.append(f"run {result}")
        script, program = os.path.join(FOLDER, "script"), os.path.join(FOLDER, "call")
        with open(script, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", os.path.join(HOSTS, "call.c"), "-I" + os.path.join(ROOT, "include"), "-L" + BUILD, "-ltenon",
                        "-Wl,-rpath," + BUILD, "-o", program], check=True)
        done = subprocess.run([program, LIBRARY, script], capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.agree(lambda k, _: np.load(results[k]))

    def test_pytorch(self):
        if not os.path.exists(TORCH_PYTHON):
            self.skipTest(".venv-zoo is missing: make test makes it")
        folder, cases = os.path.join(FOLDER, "torch"), os.path.join(FOLDER, "cases.json")
        os.mkdir(folder)
        with open(cases, "w", encoding="utf-8") as file:
            json.dump([(case.op, files, case.attributes, case.op not in NOT_SMOOTH) for (_, case), files in zip(all_cases(), self.files)], file)
        done = subprocess.run([TORCH_PYTHON, "-W", "ignore", "-c", TORCH, os.path.join(BUILD, "python"), LIBRARY, cases, str(SEED), folder],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        seed = int(done.stdout)
        for k, (name, case) in enumerate(all_cases()):
            with self.subTest(case=name):
                np.testing.assert_array_equal(np.load(f"{folder}/{k}.npy"), in_jax(case, seed))
            if case.op in NOT_SMOOTH:
                continue
            with self.subTest(gradients_of=name):
                grads = jax.tree.leaves(jax.grad(lambda inputs: (call_jax(case, *inputs, seed=seed) ** 2).sum())(list(case.inputs)))
                for i, g in enumerate(grads):
                    np.testing.assert_allclose(np.load(f"{folder}/{k}.{i}.npy"), g, rtol=1e-5 if g.dtype == np.float32 else 1e-13, atol=1e-13)

    def test_random_numbers_depend_on_the_key_alone(self):
        x = jnp.zeros((50, 20))
        made = {seed: ops.jitter(x, by=2.0, key=key_of(seed)) for seed in (1, 2, 1 << 40)}
        for seed, y in made.items():
            self.assertTrue(bool(((y >= 0) & (y < 2)).all()))
            self.assertAlmostEqual(float(y.mean()), 1, delta=0.1)
            np.testing.assert_array_equal(jax.jit(lambda k: ops.jitter(x, by=2.0, key=k))(key_of(seed)), y)
        self.assertEqual(len({float(y[0, 0]) for y in made.values()}), 3)

    def test_numpy_interface_takes_jax_arrays_without_copies(self):
        x = jnp.asarray(numbers(40, 30))
        flat = tenon.ops.core.reshape(x, np.array([-1]))  # a view of its argument
        self.assertIsInstance(flat, jax.Array)
        self.assertEqual(flat.unsafe_buffer_pointer(), x.unsafe_buffer_pointer())
        borrowed = tenon.from_dlpack(x)
        self.assertEqual(borrowed.numpy().ctypes.data, x.unsafe_buffer_pointer())
        made = numpy_ops.softmax(x)
        self.assertIsInstance(made, jax.Array)
        np.testing.assert_array_equal(made, ops.softmax(x))

    def test_numpy_interface_does_not_write_to_jax_arrays(self):
        x = jnp.asarray(X)
        for name, call in {"total": lambda: numpy_ops.accumulate_(x, x), "out": lambda: numpy_ops.softmax(x, out=x)}.items():
            with self.assertRaisesRegex(ValueError, f"argument {name}: an array of JAX is read-only, but the operator writes to it"):
                call()
        np.testing.assert_array_equal(x, X)
        total = X.copy()
        numpy_ops.accumulate_(total, x)
        np.testing.assert_array_equal(total, 1.5 * X)


KEY = (3, 5)


def jitter(x):
    return ops.jitter(x, by=2.0, key=jnp.array(KEY, jnp.uint32))


def smooth(x, width=5):
    weights = np.array([1.0])
    for _ in range(width - 1):
        weights = np.convolve(weights, [0.5, 0.5])
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(width // 2, width // 2)])
    return sum(w * padded[..., k:k + x.shape[-1]] for k, w in enumerate(weights))


# For each kind: the function in Tenon, the same in jax.numpy, and the arguments.
SMOOTH = {
    "pointwise": (lambda x, a: ops.wave(x, a, frequency=1.5), lambda x, a: a * jnp.sin(1.5 * x), (X, ROW)),
    "pointwise, broadcast": (lambda x, a: ops.wave(x, a), lambda x, a: a * jnp.sin(x), (ROW, COLUMN)),
    "row": (lambda x: ops.softmax(x), lambda x: jax.nn.softmax(x, axis=-1), (X,)),
    "reduction": (lambda a, b: ops.dot(a, b), lambda a, b: (a * b).sum(-1), (X, X[::-1])),
    "reduction along an axis": (lambda a, b: ops.dot(a, b, axis=0), lambda a, b: (a * b).sum(0), (X, X[::-1])),
    "optional arguments": (lambda x, g, b: ops.affine(x, g, b, extra=0.25), lambda x, g, b: x * g + b + 0.25, (X, ROW, COLUMN)),
    "optional arguments, one absent": (lambda x, b: ops.affine(x, bias=b), lambda x, b: x + b, (X, COLUMN)),
    "stateful": (lambda x: ops.smooth(x, width=5), smooth, (X,)),
    "random": (jitter, lambda x: x + jax.lax.stop_gradient(jitter(jnp.zeros_like(x))), (X,)),
    "composite": (lambda x, w, b: ops.layer(x, w, b), lambda x, w, b: jnp.tanh(x @ w + b), (X, numbers(4, 2), numbers(2))),
}
ONCE = {"composite"}  # its gradient is computed from its parts, which JAX does not differentiate again


def kinds(without=()):
    """[(name, function, the same in jax.numpy, arguments)]"""
    return [(name, f, g, tuple(jnp.asarray(a) for a in args)) for name, (f, g, args) in SMOOTH.items() if name not in without]


def loss(f):
    """A function with a number as its result, and a second derivative."""
    return lambda *args: (f(*args) ** 3).sum()


class Beside(unittest.TestCase):
    """Compares with the same functions in jax.numpy."""

    def close(self, found, expected, rtol=1e-11):
        self.assertEqual(jax.tree.structure(found), jax.tree.structure(expected))
        for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
            self.assertEqual((f.shape, f.dtype), (e.shape, e.dtype))
            np.testing.assert_allclose(f, e, rtol=rtol, atol=1e-12)

    def each(self, check, without=()):
        for name, f, g, args in kinds(without):
            with self.subTest(kind=name):
                check(f, g, args, tuple(range(len(args))))


class Transforms(Beside):
    """jit, gradients and what JAX traces without running."""

    def test_jit(self):
        def check(f, g, args, _):
            self.close(f(*args), g(*args))
            np.testing.assert_array_equal(jax.jit(f)(*args), f(*args))
        self.each(check)
        self.assertEqual(float(jax.jit(lambda x: ops.above(x, size=7))(jnp.asarray(X.ravel()))[1]), min(7, (X > 0).sum()))

    def test_grad_and_value_and_grad(self):
        def check(f, g, args, argnums):
            self.close(jax.grad(loss(f), argnums)(*args), jax.grad(loss(g), argnums)(*args))
            self.close(jax.jit(jax.value_and_grad(loss(f), argnums))(*args), jax.value_and_grad(loss(g), argnums)(*args))
        self.each(check)

    def test_gradients_against_finite_differences(self):
        def check(f, _, args, argnums):
            check_grads(f, args, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)
            if f is not SMOOTH["composite"][0]:
                check_grads(f, args, order=1, modes=["fwd"], atol=1e-6, rtol=1e-6)
        self.each(check)

    def test_second_gradients_against_finite_differences(self):
        self.each(lambda f, g, args, _: check_grads(f, args, order=2, modes=["rev"], atol=1e-5, rtol=1e-5), ONCE)

    def test_jacrev_and_jacfwd(self):
        def check(f, g, args, argnums):
            self.close(jax.jacrev(f, argnums)(*args), jax.jacrev(g, argnums)(*args))
            self.close(jax.jacfwd(f, argnums)(*args), jax.jacrev(g, argnums)(*args))
        self.each(check, ONCE)
        _, f, g, args = kinds(set(SMOOTH) - ONCE)[0]
        self.close(jax.jacrev(f, (0, 1, 2))(*args), jax.jacrev(g, (0, 1, 2))(*args))

    def test_hessian(self):
        def check(f, g, args, argnums):
            self.close(jax.jit(jax.hessian(loss(f), argnums))(*args), jax.hessian(loss(g), argnums)(*args))
        self.each(check, ONCE)

    def test_tangents_of_composites_and_gradients_that_have_none(self):
        _, f, g, args = kinds(set(SMOOTH) - ONCE)[0]
        for way in lambda f: jax.jvp(f, args, args), lambda f: jax.jacfwd(f)(*args), lambda f: jax.linearize(f, *args)[1](*args), \
                lambda f: jax.jacrev(lambda c: jax.vjp(f, *args)[1](c)[0])(g(*args)):
            self.close(way(f), way(g))
        with self.assertRaisesRegex(NotImplementedError, "ten::layer.*declare a gradient formula"):
            jax.hessian(loss(f))(*args)

    def test_operators_without_a_gradient_say_so(self):
        x = jnp.asarray(X)
        with self.assertRaisesRegex(NotImplementedError, "ten::accumulate_ writes to its inputs"):
            jax.grad(lambda x: ops.accumulate_(x, x).sum())(x)
        with self.assertRaisesRegex(NotImplementedError, "ten::above.*depends on data"):
            jax.grad(lambda x: ops.above(x.ravel(), size=12)[0].sum())(x)
        stopped = jax.grad(lambda x: (x * ops.accumulate_(jax.lax.stop_gradient(x), jnp.ones_like(x))).sum())(x)
        self.close(stopped, 0.5 * x + 1)

    def test_gradients_with_respect_to_a_number(self):
        """JAX passes 2.0 to the rules of operators as a number, not as an array."""
        def total(wave):
            return lambda a: (wave(jnp.asarray(X), a) ** 2).sum()
        f, g = total(ops.wave), total(lambda x, a: a * jnp.sin(x))
        for transform in jax.grad, jax.value_and_grad, jax.jacrev, jax.hessian, lambda f: jax.grad(jax.checkpoint(f)), \
                lambda f: lambda a: jax.jvp(f, (a,), (1.0,)), lambda f: lambda a: jax.linearize(f, a)[1](1.0), lambda f: jax.jit(jax.grad(f)):
            self.close(transform(f)(2.0), transform(g)(2.0))

    def test_numbers_beside_arrays(self):
        x, whole = jnp.asarray(X), jnp.arange(3)
        self.close(ops.wave(x.astype(jnp.float32), 2.0), 2 * jnp.sin(x.astype(jnp.float32)), rtol=1e-6)
        core = tenon.jax.register("core")
        self.close(core.add(whole, 2), whole + 2)
        self.close(core.add(x, True), x + 1)
        with self.assertRaisesRegex(ValueError, "core::add.*expected i64.*found f32"):  # it is not rounded
            core.add(whole, 2.5)
        with jax.enable_x64(False), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(ops.wave(X, 2.0).dtype, jnp.float32)

    def test_checkpoint(self):
        def check(f, _, args, argnums):
            self.close(jax.grad(loss(jax.checkpoint(f)), argnums)(*args), jax.grad(loss(f), argnums)(*args))
            self.assertIn("remat", str(jax.make_jaxpr(jax.grad(loss(jax.checkpoint(f)), argnums))(*args)))
        self.each(check)

    def test_eval_shape(self):
        huge = jax.ShapeDtypeStruct((1 << 20, 1 << 20), jnp.float32)  # nothing is allocated
        for made in jax.eval_shape(ops.softmax, huge), jax.eval_shape(lambda x: ops.affine(x, None, x), huge), jax.eval_shape(ops.accumulate_, huge, huge):
            self.assertEqual((made.shape, made.dtype), (huge.shape, huge.dtype))
        self.assertEqual(jax.eval_shape(lambda x: ops.dot(x, x, axis=0), huge).shape, (1 << 20,))
        values, count = jax.eval_shape(lambda x: ops.above(x), jax.ShapeDtypeStruct((9,), jnp.float32))
        self.assertEqual((values.shape, count.shape, count.dtype), ((9,), (), jnp.int32))
        with self.assertRaisesRegex(ValueError, "ten::dot.*axis is 2: expected -2 to 1"):
            jax.eval_shape(lambda x: ops.dot(x, x, axis=2), huge)
        with self.assertRaisesRegex(ValueError, "ten::smooth.*width is 4: expected an odd number"):
            jax.eval_shape(lambda x: ops.smooth(x, width=4), huge)


def primitives_of(f, *args):
    """The names of all primitives of a traced function."""
    names = set()

    def visit(jaxpr):
        for equation in jaxpr.eqns:
            names.add(equation.primitive.name)
            for inner in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    visit(getattr(inner, "jaxpr", inner))
    visit(jax.make_jaxpr(f)(*args).jaxpr)
    return names


class Batches(Beside):
    """vmap, by the declared batching, by broadcasting, and one call after the other."""
    DECLARED = {  # no loop is traced
        "pointwise": (lambda x: ops.wave(x, ROW, frequency=1.5), 0), "row": (ops.softmax, 0), "reduction": (lambda x: ops.dot(x, x), 0),
        "shifted axis": (lambda x: ops.dot(x, x, axis=0), 0), "shared argument": (lambda x: ops.dot(x, jnp.asarray(X)), 0),
        "last axis": (ops.softmax, 2), "middle axis": (lambda x: ops.dot(x, x, axis=0), 1), "stateful": (lambda x: ops.smooth(x, width=5), -1),
        "optional arguments": (lambda x: ops.affine(x, None, ROW), 1), "composite": (lambda x: ops.layer(x, numbers(4, 2), numbers(2)), 0)}
    REPEATED = {
        "mutating": (lambda x: ops.accumulate_(x, x), 1),
        "data-dependent": (lambda x: ops.above(x.ravel(), size=12), 0), "random": (jitter, 0), "weights": (lambda x: ops.layer(jnp.asarray(X), x.T), 0)}

    def setUp(self):
        self.stack = jnp.asarray(np.stack([X, X[::-1], -X, 2 * X, X * X]))

    def check_batch(self, f, axis, is_declared):
        x = jnp.moveaxis(self.stack, 0, axis)
        batched = jax.vmap(f, axis)
        self.assertEqual("scan" in primitives_of(batched, x), not is_declared)
        expected = [f(item) for item in self.stack]
        self.close(jax.jit(batched)(x), jax.tree.map(lambda *items: jnp.stack(items), *expected), rtol=1e-14)

    def test_declared_batching_makes_one_call(self):
        for name, (f, axis) in self.DECLARED.items():
            with self.subTest(kind=name):
                self.check_batch(f, axis, True)

    def test_other_operators_are_called_for_each_element(self):
        for name, (f, axis) in self.REPEATED.items():
            with self.subTest(kind=name):
                self.check_batch(f, axis, False)

    def test_keys_of_a_batch(self):
        keys, x = jax.random.split(jax.random.key(1), 3), jnp.asarray(X)
        made = jax.vmap(lambda x, key: ops.jitter(x, key=key))(x, keys)
        np.testing.assert_array_equal(made, jnp.stack([ops.jitter(row, key=key) for row, key in zip(x, keys)]))
        self.assertEqual(len(set(np.asarray(made - x)[:, 0])), 3)

    def test_nested_vmap(self):
        for f in ops.softmax, lambda x: ops.dot(x, x, axis=0), lambda x: ops.smooth(x), lambda x: ops.wave(x, 2.0):
            made = jax.vmap(jax.vmap(f))(self.stack)
            self.close(made, jnp.stack([jnp.stack([f(row) for row in item]) for item in self.stack]), rtol=1e-14)

    def test_vmap_of_grad(self):
        def check(f, g, args, argnums):
            args = [jnp.stack([a, -a, a * 2]) for a in args]
            self.close(jax.jit(jax.vmap(jax.grad(loss(f), argnums)))(*args), jax.vmap(jax.grad(loss(g), argnums))(*args))
            self.close(jax.vmap(jax.grad(loss(f)), (0, *[None] * (len(args) - 1)))(args[0], *(a[0] for a in args[1:])),
                       jax.vmap(jax.grad(loss(g)), (0, *[None] * (len(args) - 1)))(args[0], *(a[0] for a in args[1:])))
        self.each(check)

    def test_grad_of_vmap(self):
        self.each(lambda f, g, args, _: self.close(jax.grad(loss(jax.vmap(f)))(*(jnp.stack([a, 2 * a]) for a in args)),
                                                   jax.grad(loss(jax.vmap(g)))(*(jnp.stack([a, 2 * a]) for a in args))))

    def test_vmap_of_grad_of_checkpoint_and_of_scan(self):
        def check(f, g, args, _):
            def over(f, wrapped):
                scanned = lambda x, *more: jax.lax.scan(lambda c, _: (c + wrapped(f)(x, *more).sum(), None), 0.0, None, length=3)[0]  # noqa: E731
                return jax.vmap(jax.grad(lambda *a: (scanned(*a) ** 2).sum()))(*(jnp.stack([a, -a, a * 2]) for a in args))
            expected = over(g, lambda f: f)
            self.close(over(f, lambda f: f), expected)
            self.close(over(f, jax.checkpoint), expected)
        self.each(check)

    def test_vmap_of_hessian(self):
        x = self.stack[:, 0]
        self.close(jax.vmap(jax.hessian(loss(ops.softmax)))(x), jax.vmap(jax.hessian(loss(lambda x: jax.nn.softmax(x))))(x))


class Control(Beside):
    """Operators in scan, while_loop and cond, and their gradients through these."""

    def test_scan(self):
        def run(smooth, accumulate):
            def step(total, x):
                total = accumulate(total, smooth(x))
                return total, total.sum()
            return jax.lax.scan(step, jnp.zeros_like(xs[0]), xs)
        xs = jnp.asarray(numbers(6, 3, 4))
        found = jax.jit(lambda: run(lambda x: ops.smooth(x, width=5), ops.accumulate_))()
        self.close(found, run(smooth, lambda total, x: 0.5 * total + x))
        np.testing.assert_array_equal(xs, numbers(6, 3, 4))

    def test_grad_of_scan(self):
        def total(x, w, b, layer, wave):
            def step(x, _):
                x = wave(layer(x, w, b), b)
                return x, x
            return (jax.lax.scan(step, x, None, length=5)[1] ** 2).sum()
        args = jnp.asarray(X), jnp.asarray(numbers(4, 4)), jnp.asarray(ROW)
        found = jax.jit(jax.grad(lambda *a: total(*a, ops.layer, ops.wave), (0, 1, 2)))(*args)
        self.close(found, jax.grad(lambda *a: total(*a, lambda x, w, b: jnp.tanh(x @ w + b), lambda x, a: a * jnp.sin(x)), (0, 1, 2))(*args))

    def test_random_numbers_in_scan(self):
        keys = jax.random.split(jax.random.key(3), 4)
        _, made = jax.lax.scan(lambda c, key: (c, ops.jitter(jnp.zeros(3), key=key)), 0, keys)
        np.testing.assert_array_equal(made, jnp.stack([ops.jitter(jnp.zeros(3), key=key) for key in keys]))

    def test_while_loop(self):
        def run(smooth, dot):  # smooths until little is left
            return jax.lax.while_loop(lambda s: (dot(s[0], s[0]) > 0.5).any(), lambda s: (smooth(s[0]), s[1] + 1), (jnp.asarray(X) * 9, 0))
        x, count = jax.jit(lambda: run(lambda x: ops.smooth(x, width=5), lambda a, b: ops.dot(a, b)))()
        self.assertGreater(int(count), 3)
        self.close((x, count), run(smooth, lambda a, b: (a * b).sum(-1)))

    def test_cond(self):
        def run(x, softmax, wave):
            return jax.lax.cond(x[0, 0] > 0, softmax, lambda x: wave(x, x), x)
        for x in jnp.asarray(X), -jnp.asarray(X):
            found = jax.jit(jax.value_and_grad(loss(lambda x: run(x, ops.softmax, ops.wave))))(x)
            self.close(found, jax.value_and_grad(loss(lambda x: run(x, jax.nn.softmax, lambda x, a: a * jnp.sin(x))))(x))

    def test_branches_of_a_batch(self):
        x = jnp.asarray(X)
        made = jax.vmap(lambda x: jax.lax.cond(x[0] > 0, ops.softmax, lambda x: ops.smooth(x), x))(x)
        self.close(made, jnp.stack([ops.softmax(row) if row[0] > 0 else ops.smooth(row) for row in x]))


class Programs(Beside):
    """Compiled programs: donated buffers, sharding, and export to another process."""

    def test_donated_memory_is_reused(self):
        x = jnp.asarray(numbers(64, 33))
        for shape in (64, 33), (5,), ():
            total = jnp.asarray(np.full(shape, 3.0))
            pointer = total.unsafe_buffer_pointer()
            made = jax.jit(ops.accumulate_, donate_argnums=0)(total, jnp.ones(shape))
            self.assertTrue(total.is_deleted())
            self.assertEqual(made.unsafe_buffer_pointer(), pointer)
            np.testing.assert_array_equal(made, np.full(shape, 2.5))
        kept = jax.jit(ops.accumulate_)(x, x)
        self.assertNotEqual(kept.unsafe_buffer_pointer(), x.unsafe_buffer_pointer())
        np.testing.assert_array_equal(x, numbers(64, 33))

    def test_donated_memory_is_reused_in_a_loop(self):
        total, xs = jnp.asarray(np.zeros((64, 33))), jnp.ones((10, 64, 33))
        pointer = total.unsafe_buffer_pointer()
        made = jax.jit(lambda total, xs: jax.lax.scan(lambda t, x: (ops.accumulate_(t, x), None), total, xs)[0], donate_argnums=0)(total, xs)
        self.assertEqual(made.unsafe_buffer_pointer(), pointer)
        np.testing.assert_array_equal(made, np.full((64, 33), 2 - 2.0 ** -9))

    def test_declared_sharding_needs_no_gathering(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
        by_rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i", None))
        x = jnp.asarray(numbers(8, 4))
        w, b = jnp.asarray(numbers(4, 2)), jnp.asarray(numbers(2))
        for name, f in {"pointwise": lambda x: ops.wave(x, ROW), "row": ops.softmax, "stateful": lambda x: ops.smooth(x), "composite": lambda x: ops.layer(x, w, b)}.items():
            with self.subTest(kind=name):
                compiled = jax.jit(f).lower(jax.device_put(x, by_rows)).compile()
                self.assertNotIn("all-gather", compiled.as_text())
                made = compiled(jax.device_put(x, by_rows))
                self.assertEqual(made.sharding.spec[0], "i")
                np.testing.assert_array_equal(made, f(x))

    def test_export_to_another_process_with_a_symbolic_batch(self):
        """One process saves the program with its gradient, another one loads it and runs it with two sizes of the batch."""
        w, b = numbers(4, 3), numbers(3)

        def model(x, key):
            x = ops.smooth(ops.softmax(ops.wave(x, jnp.asarray(ROW))), width=5)
            x = ops.layer(x * x, jnp.asarray(w), jnp.asarray(b))
            return ops.dot(ops.jitter(ops.affine(x, None, jnp.asarray(b)), key=key), x)
        batch, = export.symbolic_shape("batch")
        exported = export.export(jax.jit(model), disabled_checks=tenon.jax.disabled_checks())(
            jax.ShapeDtypeStruct((batch, 4), jnp.float64), jax.ShapeDtypeStruct((2,), jnp.uint32))
        self.assertEqual(str(exported.out_avals[0].shape), "(batch,)")
        with open(os.path.join(FOLDER, "model.bin"), "wb") as file:
            file.write(exported.serialize(vjp_order=1))
        for n in 1, 5:
            np.save(os.path.join(FOLDER, f"x{n}.npy"), numbers(n, 4))
        done = self.run_elsewhere("""
import numpy as np
jax.config.update("jax_enable_x64", True)
tenon.jax.register(tenon.load(folder + "/ten.so"))
loaded = export.deserialize(bytearray(open(folder + "/model.bin", "rb").read()))
for n in 1, 5:
    x = jnp.asarray(np.load(f"{folder}/x{n}.npy"))
    key = jnp.array([1, n], jnp.uint32)
    np.save(f"{folder}/y{n}.npy", loaded.call(x, key))
    np.save(f"{folder}/g{n}.npy", jax.grad(lambda x: loaded.call(x, key).sum())(x))
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        for n in 1, 5:
            x, key = jnp.asarray(numbers(n, 4)), jnp.array([1, n], jnp.uint32)
            np.testing.assert_array_equal(np.load(os.path.join(FOLDER, f"y{n}.npy")), model(x, key))
            self.close(np.load(os.path.join(FOLDER, f"g{n}.npy")), jax.grad(lambda x: model(x, key).sum())(x))

    @staticmethod
    def run_elsewhere(code):
        """Runs code in another process, which knows the folders of the package and of this test."""
        opening = """
import sys
sys.path[:0] = [sys.argv[1]]
folder = sys.argv[2]
import jax, jax.numpy as jnp
from jax import export
import tenon, tenon.jax
"""
        return subprocess.run([sys.executable, "-c", opening + code, os.path.join(BUILD, "python"), FOLDER], capture_output=True, text=True, timeout=200)

    def test_an_exported_program_without_its_library_says_which_operator_is_missing(self):
        exported = export.export(jax.jit(ops.softmax), disabled_checks=tenon.jax.disabled_checks())(jax.ShapeDtypeStruct((2, 3), jnp.float32))
        with open(os.path.join(FOLDER, "alone.bin"), "wb") as file:
            file.write(exported.serialize())
        done = self.run_elsewhere("""
tenon.jax.register("core")
export.deserialize(bytearray(open(folder + "/alone.bin", "rb").read())).call(jnp.ones((2, 3)))
""")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "no operator 'ten::softmax'")

    def test_a_compiled_program_in_the_cache_serves_another_process(self):
        for _ in range(2):
            done = self.run_elsewhere("""
import glob
jax.config.update("jax_compilation_cache_dir", folder + "/cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
ops = tenon.jax.register(tenon.load(folder + "/ten.so"))
before = len(glob.glob(folder + "/cache/jit_in_cache*-cache"))
def in_cache(x):
    return ops.blend([ops.softmax(x), ops.accumulate_(x, x)], jnp.ones(2))
print(before, float(jax.jit(in_cache)(jnp.ones((2, 4)))[1, 1]), len(glob.glob(folder + "/cache/jit_in_cache*-cache")))
""")
            self.assertEqual(done.returncode, 0, done.stderr)
            said = done.stdout.split()
        self.assertEqual(said, ["1", "1.75", "1"])  # the second process compiled nothing

    def test_a_bound_that_is_too_small_is_an_error(self):
        for call in lambda x: ops.above(x, size=3), jax.jit(lambda x: ops.above(x, size=3)):
            with self.assertRaisesRegex(jax.errors.JaxRuntimeError, r"ten::above: a result has dtype f64 and shape \[8\].*\[3\]: pass a larger bound with size="):
                jax.block_until_ready(call(jnp.ones(8)))


class Debugging(Beside):
    """What JAX offers to find errors."""

    def test_disable_jit(self):
        def all_of(f, args):
            return f(*args), jax.grad(loss(f))(*args), jax.vmap(f)(*(jnp.stack([a, -a]) for a in args))

        def check(f, _, args, argnums):
            expected = all_of(f, args)
            with jax.disable_jit():
                self.close(all_of(f, args), expected)
        self.each(check)

    def test_debug_nans_names_the_operator(self):
        infinite = jnp.array(np.inf)
        with jax.debug_nans(True):
            for f in lambda x: ops.wave(x, 1.0), jax.jit(lambda x: 1 + ops.wave(x, 1.0)), jax.grad(lambda x: 1 + ops.wave(x, 1.0)):
                with self.assertRaisesRegex(FloatingPointError, r"invalid value \(nan\) encountered in ten::wave"):
                    f(infinite)
            self.close(ops.wave(jnp.zeros(2), 1.0), jnp.zeros(2))

    def test_attributes_may_be_numbers_of_numpy_and_of_jax(self):
        x = jnp.asarray(X)
        for axis in np.int64(0), np.array(0), jnp.int32(0):
            self.close(ops.dot(x, x, axis=axis), (x * x).sum(0))

    def test_an_operator_in_python_raises(self):
        @tenon.op("hosts::halve(Tensor x) -> Tensor", types="x: f64; out = x", traits=["pure", "pointwise"], gradient="x: halve(grad)")
        def halve(x):
            if x.max() > 100:
                raise ArithmeticError("more than 100")
            return x / 2
        in_jax = tenon.jax.register("hosts")
        x = jnp.asarray(X)
        for f in in_jax.halve, jax.jit(in_jax.halve), jax.vmap(in_jax.halve), jax.grad(lambda x: (x * in_jax.halve(x)).sum() / 2):
            self.close(f(x), x / 2)
            with self.assertRaisesRegex((jax.errors.JaxRuntimeError, ValueError), "hosts::halve: its kernel in Python raised: more than 100"):
                jax.block_until_ready(f(1000 * x))
        with self.assertRaisesRegex(ArithmeticError, "^more than 100"):  # the exception itself
            halve(1000 * X)

    def test_checkpoint_says_what_is_wrong_with_an_operator_that_is_not_pure(self):
        @tenon.op("impure::twice(Tensor x) -> Tensor", types="x: f64; out = x", traits=["pointwise"], gradient="x: twice(grad)")
        def twice(x):
            return 2 * x
        f, x = tenon.jax.register("impure").twice, jnp.asarray(X)
        self.close(jax.grad(loss(f))(x), 24 * x ** 2)
        with self.assertRaisesRegex(NotImplementedError, "remat.*an operator of Tenon that is not declared as pure"):
            jax.grad(loss(jax.checkpoint(f)))(x)


if __name__ == "__main__":
    totals.main()
