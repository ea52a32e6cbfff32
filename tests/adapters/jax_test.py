"""Tenon's operators as functions of JAX: calls, transformations, partitioning, export, errors, memory and threads."""
import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="tenon-jax-")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import tenon
import tenon.jax
import totals
from tenon.jax.internals import ffi
from torch_kinds import GELU, KINDS

SHARDED = """#include <tenon/op.h>
static tenon_status_t linear_run(tenon_call_t *c) {
  const float *a = c->inputs[0]->data, *b = c->inputs[1]->data;
  float *y = c->outputs[0]->data;
  const int64_t m = c->inputs[0]->shape[0], k = c->inputs[0]->shape[1], n = c->inputs[1]->shape[1];
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      for (int64_t t = 0; t < k; t++) sum += a[i * k + t] * b[t * n + j];
      y[i * n + j] = sum;
    }
  return TENON_OK;
}
static tenon_status_t rows_run(tenon_call_t *c) {
  const float *x = c->inputs[0]->data;
  float *y = c->outputs[0]->data;
  const int64_t n = c->inputs[0]->shape[c->inputs[0]->ndim - 1];
  for (int64_t i = 0; i < tenon_count(c->inputs[0]) / n; i++) {
    float sum = 0;
    for (int64_t j = 0; j < n; j++) sum += x[i * n + j];
    for (int64_t j = 0; j < n; j++) y[i * n + j] = x[i * n + j] / sum;
  }
  return TENON_OK;
}
static tenon_status_t add_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->inputs[0]->data)[i] += ((const float *)c->inputs[1]->data)[i];
  return TENON_OK;
}
static tenon_status_t say_run(tenon_call_t *c) { return c->inputs[0]->ndim ? TENON_OK : TENON_OK; }
static tenon_status_t text_run(tenon_call_t *c) {
  ((float *)c->outputs[0]->data)[0] = (float)c->attrs[0].count;
  for (uint32_t i = 0; i < c->attrs[0].count; i++) ((float *)c->outputs[0]->data)[0] += 1000 * (float)(unsigned char)c->attrs[0].as.s[i];
  return TENON_OK;
}
TENON_LIBRARY(sharded, "1.0.0",
  TENON_OP("linear(Tensor a, Tensor b) -> Tensor", TENON_TYPES("a: f32; b = a; out = a"), TENON_SHAPES("a: [m, k]; b: [k, n]; out: [m, n]"),
    TENON_TRAITS(TENON_PURE), TENON_SHARDING("a: [m, k]; b: [k, n]; out: [m, n]; sum k"), TENON_KERNEL("cpu", linear_run)),
  TENON_OP("rows(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SHARDING("x: [..., _]; out: [..., _]"), TENON_BATCHING("x -> out"), TENON_KERNEL("cpu", rows_run)),
  TENON_OP("opaque(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", rows_run)),
  TENON_OP("add_(Tensor(a!) x, Tensor y) -> ()", TENON_TYPES("x: f32; y = x"), TENON_KERNEL("cpu", add_run)),
  TENON_OP("nothing(Tensor x) -> ()", TENON_TYPES("x: f32"), TENON_KERNEL("cpu", say_run)),
  TENON_OP("text(Tensor x, str s) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", text_run)))
"""


def built(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


demo = tenon.jax.register(tenon.load(GELU))
kinds = tenon.jax.register(built("kinds.c", KINDS))
sharded = tenon.jax.register(built("sharded.c", SHARDED))
core = tenon.jax.register("core")
rng = np.random.default_rng(1)
Failure = getattr(jax.errors, "JaxRuntimeError", RuntimeError)  # before JAX 0.4.36 it had no public name
VERSION = tuple(int(part) for part in jax.__version__.split(".")[:3])
NAMED = VERSION >= (0, 5, 0)  # earlier releases report every failure of a custom call as INTERNAL


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(found, expected, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def raw(text, shape=(2, 3), dtype="float32"):
    """A program with one custom call, which no function of tenon.jax wrote."""
    result = jax.ShapeDtypeStruct(shape, dtype)
    if NAMED:
        return jax.jit(lambda x: ffi.ffi_call("tenon_cpu", result)(x, call=text))
    return jax.jit(lambda x: ffi.ffi_call("tenon_cpu", result, x, call=text))


def run(body, *names, **environment):
    """Runs a program in a process of its own, and returns what it wrote."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE]), "FOLDER": FOLDER, **environment}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(body), *names], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Calls(unittest.TestCase):
    def test_operators_are_listed_and_those_that_cannot_be_called_are_named_with_a_reason(self):
        self.assertIn("softmax", dir(core))
        self.assertEqual(core.left_out["core::if"], "it has a graph as an attribute")
        self.assertEqual(sharded.left_out, {"sharded::nothing": "it has no results"})
        self.assertIs(tenon.jax.register("core"), core)
        self.assertIn("approximate", str(core.gelu.__signature__))
        self.assertIn("Schema: gelu", core.gelu.__doc__)

    def test_results_are_those_of_the_kernel(self):
        x = floats(5, 7)
        np.testing.assert_array_equal(np.asarray(jax.jit(demo.gelu)(x)), tenon.ops.demo.gelu(x))
        np.testing.assert_array_equal(np.asarray(demo.gelu(x.astype(jnp.bfloat16))).view(np.uint16), np.asarray(jnp.asarray(demo.gelu(x.astype(jnp.bfloat16)))).view(np.uint16))
        self.assertEqual(demo.gelu(jnp.zeros((0, 3))).shape, (0, 3))
        self.assertEqual(demo.gelu(jnp.float32(1)).shape, ())

    def test_lists_optional_arguments_and_several_results(self):
        a, b = floats(3), floats(4)
        close(kinds.total([a, b]), a.sum() + b.sum() + 0.5)
        close(jax.jit(lambda a, b: kinds.total([a, b], b, choice="two", extra=2.5))(a, b), a.sum() + b.sum() + 100 * b[0] + 2 + 2.5, 1e-5)
        parts = core.split(jnp.arange(6.0), np.array([2, 4]), count=2)
        self.assertEqual([p.shape for p in parts], [(2,), (4,)])
        values, index = core.top_k(a, k=2)
        close(values, np.sort(a)[::-1][:2])
        self.assertEqual(index.dtype, np.int64)

    def test_numbers_take_the_dtype_of_the_arrays(self):
        self.assertEqual(core.add(jnp.ones(2, jnp.bfloat16), 1.5).dtype, jnp.bfloat16)

    def test_texts_of_attributes_arrive_unchanged(self):
        for text in ("", "a", "it's", "back\\slash", 'quote"', "line\nend", "tab\t;", "; @wanted=1", "é€", "%s{}<>|&"):
            data = text.encode()
            close(jax.jit(lambda x: sharded.text(x, text))(jnp.ones(1)), len(data) + 1000 * sum(data), 1e-7)

    def test_attributes_may_be_any_python_value_of_the_kind(self):
        x = floats(4)
        for by in (2, 2.5, np.float32(2.5), np.int64(3), 1e300 * 1e10):
            np.testing.assert_array_equal(np.asarray(kinds.scale_(x, by=by)), x * np.float32(by))
        self.assertEqual(core.cast(x, to="f16").dtype, jnp.float16)
        self.assertEqual(core.cast(x, to=jnp.bfloat16).dtype, jnp.bfloat16)
        self.assertEqual(core.cast(x, to="int32").dtype, jnp.int32)

    def test_shapes_may_depend_on_integers_that_are_known(self):
        x = floats(2, 6)
        self.assertEqual(jax.jit(lambda x: core.reshape(x, (3, -1)))(x).shape, (3, 4))
        self.assertEqual(jax.jit(lambda x: core.expand(x[:1], np.array([4, 6])))(x).shape, (4, 6))
        with self.assertRaisesRegex(TypeError, "size="):
            jax.jit(core.expand)(x[:1], jnp.array([2, 6]))

    def test_arguments_that_are_written_to_are_returned_and_donated_memory_is_reused(self):
        x, y = jnp.asarray(floats(1000)), jnp.asarray(floats(1000))
        before = np.asarray(x).copy()
        close(sharded.add_(x, y), before + np.asarray(y))
        np.testing.assert_array_equal(np.asarray(x), before)
        step = jax.jit(sharded.add_, donate_argnums=0)
        address = x.unsafe_buffer_pointer()
        made = step(x, y)
        if VERSION >= (0, 5, 0):  # earlier releases copy
            self.assertEqual(made.unsafe_buffer_pointer(), address)
        close(made, before + np.asarray(y))
        self.assertTrue(x.is_deleted())
        close(jax.jit(lambda x: kinds.scale_(x, by=2.0) + x)(y), 3 * np.asarray(y))

    def test_calls_with_effects_are_neither_dropped_nor_merged(self):
        x = jnp.ones(2)
        first = float(kinds.count(x))

        @jax.jit
        def program(x):
            kinds.count(x)
            return kinds.count(x), kinds.count(x)
        a, b = program(x)
        self.assertEqual(sorted([float(a), float(b), float(kinds.count(x))])[-1], first + 4)
        self.assertNotEqual(float(a), float(b))

    def test_states_are_made_of_attributes(self):
        close(jax.jit(lambda x: kinds.powers(x, n=3))(jnp.arange(4.0)), [0, 1, 8, 27])

    def test_random_operators_follow_their_key(self):
        x = jnp.zeros(1000)
        for key in (jax.random.key(7), jax.random.PRNGKey(7)):
            a, b = kinds.noise(x, key=key), jax.jit(lambda k: kinds.noise(x, key=k))(key)
            np.testing.assert_array_equal(a, b)
        self.assertFalse(np.array_equal(a, kinds.noise(x, key=jax.random.key(8))))
        self.assertTrue(0.45 < float(a.mean()) < 0.55)
        batch = jax.vmap(lambda k: kinds.noise(x, key=k))(jax.random.split(jax.random.key(7), 3))
        self.assertEqual(len({float(row[0]) for row in batch}), 3)
        np.testing.assert_array_equal(batch[1], kinds.noise(x, key=jax.random.split(jax.random.key(7), 3)[1]))

    def test_results_whose_size_depends_on_data_are_padded_and_counted(self):
        x = jnp.asarray([1.0, -2, 3, -4, 5])
        values, count = jax.jit(kinds.positive)(x)
        np.testing.assert_array_equal(values, [1, 3, 5, 0, 0])
        self.assertEqual((int(count), count.dtype), (3, np.int32))
        values, count = jax.jit(lambda x: kinds.positive(x, size=4))(x)
        np.testing.assert_array_equal(values, [1, 3, 5, 0])
        index, count = core.nonzero(x > 0, size=5)
        np.testing.assert_array_equal(np.asarray(index)[:, :int(count)], [[0, 2, 4]])
        with self.assertRaisesRegex(Failure, (r"OUT_OF_RANGE.*" if NAMED else "") + r"kinds::positive: a result has dtype f32 and shape \[3\]; the program was compiled for f32 and \[2\]"):
            jax.block_until_ready(kinds.positive(x, size=2))

    def test_arrays_of_jax_are_arguments_of_tenon_ops_without_copies(self):
        x = jnp.asarray(floats(64))
        self.assertEqual(tenon.from_dlpack(x).data_ptr, x.unsafe_buffer_pointer())
        close(np.asarray(tenon.ops.demo.gelu(x)), gelu(x))


class Transformations(unittest.TestCase):
    def test_gradients_equal_those_of_jax(self):
        x, w = jnp.asarray(floats(3, 5)), jnp.asarray(floats(5))

        def ours(x, w):
            return (core.mul(demo.gelu(x), w) ** 2).sum()

        def theirs(x, w):
            return ((gelu(x) * w) ** 2).sum()
        for k in range(2):
            close(jax.jit(jax.grad(ours, k))(x, w), jax.grad(theirs, k)(x, w), 1e-5)
        value, grad = jax.value_and_grad(ours)(x, w)
        close(value, theirs(x, w), 1e-5)
        close(grad, jax.grad(theirs)(x, w), 1e-5)
        close(jax.jacrev(lambda w: core.mul(core.gelu(x), w))(w), jax.jacrev(lambda w: gelu(x) * w)(w), 1e-5)

    def test_second_derivatives_in_every_combination_of_modes(self):
        x = jnp.asarray(floats(4))

        def ours(x):
            return core.reduce_sum(core.mul(core.sigmoid(x), core.gelu(x)), keepdims=False)

        def theirs(x):
            return (jax.nn.sigmoid(x) * gelu(x)).sum()
        expected = jax.hessian(theirs)(x)
        for second in (jax.jacfwd, jax.jacrev):
            for first in (jax.jacfwd, jax.jacrev):
                close(jax.jit(second(first(ours)))(x), expected, 2e-5)
        tangent = jax.jvp(ours, (x,), (x,))[1]
        close(tangent, jax.jvp(theirs, (x,), (x,))[1], 1e-5)

    def test_gradients_without_a_formula_are_those_of_the_parts(self):
        q, k, v = (jnp.asarray(floats(2, 3, 4, 8)) for _ in range(3))

        def ours(q, k, v):
            return (core.attention(q, k, v)[0] ** 2).sum()

        def theirs(q, k, v):
            p = jax.nn.softmax(jnp.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(8), -1)
            return (jnp.einsum("bhij,bhjd->bhid", p, v) ** 2).sum()
        for i in range(3):
            close(jax.jit(jax.grad(ours, i))(q, k, v), jax.grad(theirs, i)(q, k, v), 1e-4)
        with self.assertRaisesRegex(tenon.UnimplementedError, "core::attention: its gradient cannot be differentiated again"):
            jax.hessian(ours)(q, k, v)

    def test_operators_without_a_gradient_say_so_when_the_program_is_traced(self):
        x = jnp.ones(3)
        with self.assertRaisesRegex(tenon.UnimplementedError, "kinds::powers has no gradient: declare one"):
            jax.jit(jax.grad(lambda x: kinds.powers(x, n=2).sum())).lower(x)
        with self.assertRaisesRegex(tenon.UnimplementedError, "sharded::add_ writes to its inputs"):
            jax.grad(lambda x: sharded.add_(x, x).sum())(x)
        with self.assertRaisesRegex(tenon.UnimplementedError, "kinds::positive: the size of its result depends on data"):
            jax.grad(lambda x: kinds.positive(x)[0].sum())(x)
        close(jax.grad(lambda x: (kinds.powers(jax.lax.stop_gradient(x), n=2) * x).sum())(x), np.ones(3))

    def test_vmap_of_pointwise_declared_and_other_operators(self):
        x, w = floats(4, 3, 5), floats(5, 4)
        close(jax.vmap(demo.gelu, 1, 1)(x), gelu(x))
        close(jax.vmap(core.mul, (0, 1))(x, w), x * w.T[:, None, :])
        close(jax.vmap(core.mul, (0, None))(x, w[:, 0]), x * w[:, 0])
        close(jax.vmap(sharded.rows, 1, 1)(x), x / x.sum(-1, keepdims=True), 1e-4)
        text = jax.jit(jax.vmap(sharded.rows)).lower(x).as_text()
        self.assertEqual((text.count("@tenon_cpu"), text.count("stablehlo.while")), (1, 0))
        close(jax.jit(jax.vmap(core.softmax))(x), jax.nn.softmax(x, -1))
        close(jax.vmap(jax.grad(lambda x: core.softmax(x)[0, 0]))(x), jax.vmap(jax.grad(lambda x: jax.nn.softmax(x, -1)[0, 0]))(x), 1e-5)
        close(jax.grad(lambda x: jax.vmap(demo.gelu)(x).sum())(x), jax.grad(lambda x: gelu(x).sum())(x), 1e-5)
        self.assertEqual(jax.vmap(lambda x: kinds.total([x, x]))(x[:, 0]).shape, (4,))

    def test_control_flow_checkpoints_and_shapes_alone(self):
        x = jnp.asarray(floats(6))
        close(jax.jit(lambda x: jax.lax.scan(lambda c, _: (demo.gelu(c), c.sum()), x, None, length=3)[0])(x), gelu(gelu(gelu(x))), 1e-5)
        close(jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, demo.gelu(c[1])), (0, x))[1], gelu(gelu(gelu(x))), 1e-5)
        for flag in True, False:
            close(jax.jit(lambda f, x: jax.lax.cond(f, demo.gelu, core.relu, x))(flag, x), gelu(x) if flag else jax.nn.relu(x), 1e-5)
        close(jax.grad(lambda x: jax.checkpoint(lambda x: demo.gelu(demo.gelu(x)))(x).sum())(x), jax.grad(lambda x: gelu(gelu(x)).sum())(x), 1e-5)
        close(jax.grad(lambda x: jax.lax.scan(lambda c, _: (demo.gelu(c), None), x, None, length=3)[0].sum())(x), jax.grad(lambda x: gelu(gelu(gelu(x))).sum())(x), 1e-5)
        self.assertEqual(jax.eval_shape(lambda x: core.top_k(x, k=2), jax.ShapeDtypeStruct((3, 8), "float32"))[1].shape, (3, 2))


class Models(unittest.TestCase):
    def test_a_graph_that_tenon_compiles_is_a_function_with_gradients(self):
        from tenon.graph import ops
        builder = tenon.graph.Builder()
        x, w = builder.input("x", "f32", ["n", 4]), builder.input("w", "f32", [4, 3])
        f = tenon.jax.run(builder.finish([ops.core.gelu(ops.core.matmul(x, w)), ops.core.arg_max(x)]))
        x, w = floats(5, 4), floats(4, 3)

        def theirs(x, w):
            return gelu(x @ w)
        y, index = jax.jit(f)(x, w)
        close(y, theirs(x, w), 1e-5)
        self.assertEqual(np.asarray(index).ravel().tolist(), x.argmax(0).tolist())
        for k in range(2):
            close(jax.jit(jax.grad(lambda x, w: (f(x, w)[0] ** 2).sum(), k))(x, w), jax.grad(lambda x, w: (theirs(x, w) ** 2).sum(), k)(x, w), 1e-5)
        close(jax.vmap(lambda x, w: f(x, w)[0], (0, None))(np.stack([x, 2 * x]), w)[1], theirs(2 * x, w), 1e-5)
        with self.assertRaisesRegex(tenon.InvalidError, r"expected 2 inputs \(x, w\), found 1"):
            f(x)
        with self.assertRaisesRegex(tenon.InvalidError, "input w: expected dtype float32, found int32"):
            f(x, jnp.ones((4, 3), int))

    def test_a_model_in_a_file_with_an_operator_of_a_library(self):
        from tenon.graph import ops
        path = os.path.join(FOLDER, "it's a model.onnx")
        builder = tenon.graph.Builder()
        builder.finish([ops.demo.gelu(builder.input("x", "f32", ["a", "b"]))]).save(path)
        x = floats(3, 2)
        f = jax.jit(tenon.jax.run(path))
        close(f(x), gelu(x))
        close(jax.lax.map(f, np.stack([x, x]))[1], gelu(x))
        os.rename(path, path + ".away")
        close(f(x), gelu(x))
        with self.assertRaises(tenon.Error):
            tenon.jax.run(path)
        with self.assertRaisesRegex(Failure, "it's a model.onnx"):
            jax.block_until_ready(raw(f"@model(1); @path='{path}.not'; @end")(x.T))
        for text, message in (("@model(1)", "@path"), ("@model(1); @path='x", "the end of the path"), ("@model(2); @path='x'; @end", "x"), (f"@model(0); @path='{path}.away'; @end", "the model has 1 inputs, and the call has 0"),
                              (f"@model(1); @path='{path}.away'; @end; @given=1; @inputs=2", "inputs or outputs that the model does not have")):
            with self.assertRaisesRegex(Failure, message):
                jax.block_until_ready(raw(text)(x.T))


class Programs(unittest.TestCase):
    """Programs of JAX as graphs of Tenon: calls of operators become nodes."""

    def load(self, f, *args):
        path = os.path.join(FOLDER, "program.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(jax.jit(f).lower(*args).as_text())
        return tenon.graph.load(path)

    def test_calls_of_operators_become_nodes(self):
        def program(x, w):
            h = demo.gelu(x @ w)
            values, _ = core.top_k(h, k=2)
            return core.concat([h, values], axis=1) * 2, kinds.total([x, w], None, choice="two"), core.clip(h, None, 0.5)
        x, w = floats(3, 4), floats(4, 5)
        graph = self.load(program, x, w)
        for name in ("demo::gelu", "core::top_k", "core::concat", "kinds::total"):
            self.assertIn(name, graph.text())
        for found, expected in zip(graph.compile()(x, w), jax.jit(program)(x, w)):
            close(found, expected, 1e-5)

    def test_calls_that_a_graph_cannot_have_are_named_with_the_reason(self):
        x = jnp.ones((1, 2, 4, 8))
        for f, reason in ((jax.grad(lambda x: core.attention(x, x, x)[0].sum()), "it is a gradient of core::attention that is computed by its parts"),
                          (lambda x: kinds.noise(x, key=jax.random.key(1)), "kinds::noise draws random numbers by a key of JAX"),
                          (lambda x: sharded.add_(x, x), "sharded::add_ writes to its inputs"),
                          (lambda x: kinds.positive(x[0, 0, 0])[0], "the size of a result of kinds::positive depends on data")):
            with self.assertRaisesRegex(tenon.UnimplementedError, reason):
                self.load(f, x)

    def test_damaged_calls_are_refused_by_line(self):
        x = np.ones(3, np.float32)
        for text, message in (("demo::gelu(1, 1)", "'\\)'"), ("demo::gelu(-)", "the call states 0 operands, found 1"), ("demo::gelu", "a name"), ("demo::gelu(1); @what=1", "@wanted"),
                              ("core::top_k(1, -)", "."), ("demo::gelu(1); a=1", "a"), ("core::split(1, -); count=3", "has 3 results, but the call states 1")):
            with self.subTest(text), self.assertRaisesRegex(tenon.Error, f"line \\d+, column \\d+: stablehlo.custom_call: .*{message}"):
                self.load(raw(text, (3,)), x)
        with self.assertRaisesRegex(tenon.UnimplementedError, "no loaded library has the operator demo::nowhere"):
            self.load(raw("demo::nowhere(1)", (3,)), x)


class Export(unittest.TestCase):
    def test_a_program_with_a_symbolic_batch_runs_in_another_process(self):
        b, = jax.export.symbolic_shape("b")

        def program(x):
            return core.softmax(demo.gelu(x)), core.concat([x, x], axis=0)
        exported = jax.export.export(jax.jit(program), disabled_checks=tenon.jax.disabled_checks())(jax.ShapeDtypeStruct((b, 7), "float32"))
        self.assertEqual(str(exported.out_avals[1].shape), "(2*b, 7)")
        path = os.path.join(FOLDER, "program")
        with open(path, "wb") as file:
            file.write(exported.serialize())
        x = floats(5, 7)
        np.save(os.path.join(FOLDER, "x.npy"), x)
        run("""
            import sys
            import jax.export, numpy as np, tenon, tenon.jax
            tenon.jax.register(tenon.load(sys.argv[1]))
            with open("program", "rb") as file:
                y, z = jax.export.deserialize(file.read()).call(np.load("x.npy"))
            np.savez("y.npz", y=y, z=z)
        """, GELU)
        found = np.load(os.path.join(FOLDER, "y.npz"))
        close(found["y"], jax.nn.softmax(gelu(x), -1))
        self.assertEqual(found["z"].shape, (10, 7))

    def test_a_process_without_the_library_is_told_so(self):
        x = floats(2)
        exported = jax.export.export(jax.jit(demo.gelu), disabled_checks=tenon.jax.disabled_checks())(x)
        with open(os.path.join(FOLDER, "gelu"), "wb") as file:
            file.write(exported.serialize())
        said = run("""
            import jax.export, numpy as np, tenon, tenon.jax
            tenon.jax.register("core")
            with open("gelu", "rb") as file:
                program = jax.export.deserialize(file.read())
            try:
                print(program.call(np.ones(2, np.float32)))
            except Exception as error:
                print(error)
        """)
        self.assertIn("NOT_FOUND" if NAMED else "INTERNAL", said)
        self.assertIn("demo::gelu", said)

    def test_jax_exports_such_programs_only_with_the_disabled_checks(self):
        with self.assertRaisesRegex(ValueError, "tenon_cpu"):
            jax.export.export(jax.jit(demo.gelu))(floats(2))

    def test_the_persistent_compilation_cache_serves_another_process(self):
        body = """
            import sys
            import jax, numpy as np, tenon, tenon.jax
            jax.config.update("jax_compilation_cache_dir", "cache")
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
            events = []
            jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
            demo = tenon.jax.register(tenon.load(sys.argv[1]))
            print(float(jax.jit(lambda x: demo.gelu(x) * 3)(np.ones(4, np.float32))[0]), events.count("/jax/compilation_cache/cache_hits"))
        """
        first, second = run(body, GELU).split(), run(body, GELU).split()
        self.assertEqual((first[0], int(first[1])), (second[0], 0))
        self.assertGreater(int(second[1]), 0)


@unittest.skipIf(VERSION < (0, 7, 0), "the programs use AxisType and jax.shard_map")
class Partitioning(unittest.TestCase):
    def test_calls_on_four_devices_gather_nothing_that_the_declaration_allows_to_be_split(self):
        said = run(PARTITIONED, os.path.join(FOLDER, "sharded.c"), XLA_FLAGS="--xla_force_host_platform_device_count=4")
        self.assertIn("all equal", said)

    def test_two_processes(self):
        port = 20000 + os.getpid() % 20000
        programs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(DISTRIBUTED), GELU, str(port), str(i)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=FOLDER,
                                     env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}) for i in range(2)]
        for program in programs:
            said = program.communicate(timeout=200)[0]
            self.assertEqual(program.returncode, 0, said[-3000:])
            self.assertIn("all equal", said)


PARTITIONED = """
    import sys
    import jax, jax.numpy as jnp, numpy as np, tenon, tenon.jax
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    ops, core = tenon.jax.register(tenon.load(sys.argv[1])), tenon.jax.register("core")
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
    rng = np.random.default_rng(2)
    a, b = rng.random((8, 12), np.float32), rng.random((12, 6), np.float32)
    def put(value, *spec):
        return jax.device_put(value, NamedSharding(mesh, P(*spec)))
    def check(f, expected, spec, gathers, sums, *args):
        program = jax.jit(f)
        y, text = program(*args), program.lower(*args).compile().as_text()
        np.testing.assert_allclose(np.asarray(y), expected, rtol=2e-5, atol=1e-6)
        found = y.sharding.spec, text.count("all-gather("), text.count("all-reduce("), text.count("custom-call(")
        assert found == (P(*spec), gathers, sums, 1), found
    rows = a / a.sum(-1, keepdims=True)
    check(ops.linear, a @ b, ("x", "y"), 0, 0, put(a, "x", None), put(b, None, "y"))
    check(ops.linear, a @ b, (), 0, 1, put(a, None, "x"), put(b, "x", None))
    check(ops.linear, a @ b, ("y",), 0, 1, put(a, "y", "x"), put(b, "x", None))
    check(ops.rows, rows, ("x",), 0, 0, put(a, "x", None))
    check(ops.rows, rows, ("x",), 1, 0, put(a, "x", "y"))
    check(ops.opaque, rows, (), 1, 0, put(a, "x", None))
    check(core.matmul, a @ b, ("x", "y"), 0, 0, put(a, "x", None), put(b, None, "y"))
    check(core.matmul, a @ b, (), 0, 1, put(a, None, "x"), put(b, "x", None))
    check(lambda a, b: core.matmul(a, b, transpose_b=True), a @ b, ("x", "y"), 0, 0, put(a, "x", None), put(b.T, "y", None))
    check(lambda a, b: core.matmul(a, b, activation="relu"), a @ b, (), 2, 0, put(a, None, "x"), put(b, "x", None))
    check(core.softmax, jax.nn.softmax(a, -1), ("x",), 0, 0, put(a, "x", None))
    check(lambda x: core.softmax(x, axis=0), jax.nn.softmax(a, 0), (), 1, 0, put(a, "x", None))
    check(core.gelu, jax.nn.gelu(a, approximate=False), ("x", "y"), 0, 0, put(a, "x", "y"))
    check(core.mul, a * a[0], ("x", "y"), 0, 0, put(a, "x", "y"), put(a[0], "y"))
    check(lambda x: core.add(x, 1.0), a + 1, ("x", "y"), 0, 0, put(a, "x", "y"))
    expected = jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum())(a)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: core.gelu(x).sum()))(put(a, "x", "y")), expected, rtol=1e-5, atol=1e-6)
    w = a[0]
    for options in {}, {"check_vma": False}:
        part = jax.shard_map(lambda x, w: core.mul(core.gelu(x), w), mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), **options)
        np.testing.assert_allclose(jax.jit(part)(a, w), jax.nn.gelu(a, approximate=False) * w, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.jit(jax.grad(lambda x: part(x, w).sum()))(a), expected * w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.pmap(core.softmax)(a.reshape(4, 2, 12)).reshape(8, 12), jax.nn.softmax(a, -1), rtol=1e-5)
    jax.set_mesh(jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Explicit)))
    split = jax.device_put(a, P("x", "y"))
    for f, spec in (core.gelu, ("x", "y")), (lambda x: core.mul(x, x), ("x", "y")), (ops.rows, ("x", None)), (core.softmax, ("x", None)), (core.hardmax, (None, None)):
        y = jax.jit(f)(split)
        assert jax.typeof(y).sharding.spec == P(*spec), jax.typeof(y)
        np.testing.assert_allclose(y, f(a), rtol=1e-5, atol=1e-6)
    grad = jax.jit(jax.grad(lambda x: core.mul(core.gelu(x), x).sum()))(split)
    assert jax.typeof(grad).sharding.spec == P("x", "y")
    np.testing.assert_allclose(grad, jax.grad(lambda x: (jax.nn.gelu(x, approximate=False) * x).sum())(a), rtol=1e-5, atol=1e-6)
    grad = jax.grad(lambda x: (core.softmax(x) * 2).max())(split)
    np.testing.assert_allclose(grad, jax.grad(lambda x: (jax.nn.softmax(x, -1) * 2).max())(a), rtol=1e-4, atol=1e-6)
    print("all equal")
"""
DISTRIBUTED = """
    import sys
    import jax
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", 2, int(sys.argv[3]))
    import numpy as np, tenon, tenon.jax
    from jax.sharding import NamedSharding, PartitionSpec as P
    demo = tenon.jax.register(tenon.load(sys.argv[1]))
    assert len(jax.devices()) == 4
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    x = np.arange(32, dtype=np.float32).reshape(8, 4) / 16 - 1
    there = jax.make_array_from_callback(x.shape, NamedSharding(mesh, P("x")), lambda index: x[index])
    program = jax.jit(lambda x: (demo.gelu(x), demo.gelu(x).sum()))
    y, total = program(there)
    text = program.lower(there).compile().as_text()
    assert text.count("all-gather(") == 0, text
    expected = np.asarray(jax.nn.gelu(x, approximate=False))
    for shard in y.addressable_shards:
        np.testing.assert_allclose(shard.data, expected[shard.index], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-5)
    print("all equal")
"""


class Errors(unittest.TestCase):
    def test_mistakes_are_named_when_the_program_is_traced(self):
        x = jnp.ones((2, 3))
        for message, kind, call in (
                ("demo::gelu: missing a required argument: 'x'", TypeError, demo.gelu),
                ("demo::gelu: got an unexpected keyword argument 'aproximate'", TypeError, lambda: demo.gelu(x, aproximate="tanh")),
                ("approximate", tenon.InvalidError, lambda: core.gelu(x, approximate="none of these")),
                ("demo::gelu", tenon.InvalidError, lambda: demo.gelu(jnp.ones(2, jnp.int32))),
                ("sharded::linear", tenon.InvalidError, lambda: sharded.linear(x, x)),
                ("sharded::linear", tenon.InvalidError, lambda: sharded.linear(x, x[0])),
                ("axis", tenon.Error, lambda: core.softmax(x, axis=5)),
                ("argument xs: expected a list of arrays, found", TypeError, lambda: kinds.total(x)),
                ("argument x: expected an array, found None", TypeError, lambda: demo.gelu(None)),
                ("JAX has no arrays of strings: call the operator as tenon.ops.core.string_concat", TypeError, lambda: core.string_concat("a", "b")),
                ("kinds::noise draws random numbers: pass a key, as in key=jax.random.key", TypeError, lambda: kinds.noise(x)),
                ("key: expected a JAX key or two numbers of type uint32, found float32\\[2, 3\\]", TypeError, lambda: kinds.noise(x, key=x)),
                ("size: expected integers that are not negative, found -1", TypeError, lambda: kinds.positive(x[0], size=-1)),
                ("it takes no size", TypeError, lambda: demo.gelu(x, size=3)),
                ("expected a Python value, which is known when the program is traced; found .*static_argnames", TypeError, lambda: jax.jit(lambda x, by: kinds.scale_(x, by=by))(x, 2.0)),
                ("no loaded library has operators in the namespace 'nowhere'", tenon.NotFoundError, lambda: tenon.jax.register("nowhere")),
                ("core::if cannot be called in JAX: it has a graph as an attribute", AttributeError, lambda: core.if_)):
            with self.subTest(message):
                with self.assertRaisesRegex(kind, message):
                    call()
        with self.assertRaisesRegex(AttributeError, "softmax"):
            core.softmx  # noqa: B018
        close(demo.gelu(x), gelu(x))

    def test_an_operator_that_fails_raises_its_message_and_the_next_call_works(self):
        x = jnp.ones(3)
        for _ in range(2):
            with self.assertRaisesRegex(Failure, ("INVALID_ARGUMENT.*" if NAMED else "") + "kinds::fails.*this is all that it does"):
                jax.block_until_ready(jax.jit(kinds.fails)(x))
            close(demo.gelu(x), gelu(x))

    def test_a_buffer_that_was_donated_twice_is_refused_by_jax(self):
        x, y = jnp.ones(4), jnp.ones(4)
        step = jax.jit(sharded.add_, donate_argnums=0)
        step(x, y)
        with self.assertRaisesRegex(RuntimeError, "deleted"):
            step(x, y)

    def test_a_library_that_jax_may_call_is_not_unloaded(self):
        source = os.path.join(FOLDER, "unloads.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(KINDS.replace("TENON_LIBRARY(kinds", "TENON_LIBRARY(unloads"))
        library = tenon.load(source, unloadable=True)
        ops = tenon.jax.register(library)
        with self.assertRaisesRegex(tenon.Error, "cannot unload library unloads: it is held"):
            library.unload()
        close(ops.powers(jnp.arange(3.0), n=2), [0, 1, 4])

    def test_another_handler_of_the_same_name_and_an_old_jax_are_named(self):
        said = run("""
            import ctypes, sys
            import jax, tenon
            jax.devices()
            library = ctypes.CDLL(sys.argv[1])
            import importlib
            ffi = jax.ffi if hasattr(jax, "ffi") else importlib.import_module("jax.extend.ffi")
            ffi.register_ffi_target("tenon_cpu", ffi.pycapsule(library.tenon_jax_other), platform="cpu")
            import tenon.jax
            try:
                tenon.jax.register("core")
            except tenon.Error as error:
                print(error)
        """, self.other_handler())
        self.assertIn("does not accept the handler tenon_cpu", said)
        self.assertIn("another copy of Tenon may be registered", said)
        said = run("""
            import jax, tenon
            jax.__version_info__ = (0, 4, 31)
            try:
                import tenon.jax
            except ImportError as error:
                print(error)
        """)
        self.assertIn("tenon.jax needs JAX 0.4.32 or later", said)

    @staticmethod
    def other_handler():
        """Builds a library with a handler at another address, which answers XLA's query."""
        source, path = os.path.join(FOLDER, "other.c"), os.path.join(FOLDER, "other.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write("""#include "xla.h"
void *tenon_jax_other(xla_frame_t *frame) {
  xla_metadata_t *metadata = ((xla_metadata_extension_t *)frame->extension)->metadata;
  metadata->version.major = 0;
  metadata->version.minor = 1;
  return 0;
}
""")
        subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.join(ROOT, "bridges", "jax"), source, "-o", path], check=True)
        return path

    def test_damaged_custom_calls_are_refused(self):
        x = jnp.ones((2, 3))
        for text, message in (
                ("", "damaged"), ("demo::gelu", "expected a name"), ("demo::gelu(", "a number of operands|a number"), ("demo::gelu(1", "'\\)'"), ("demo::gelu(2)", "a smaller number"),
                ("demo::gelu(1) ", "'; '"), ("demo::gelu(1); a", "a name"), ("demo::gelu(1); a=1", "a"), ("demo::gelu(1); @what=1", "@wanted"), ("demo::gelu(1); @wanted=x", "a number"),
                ("demo::nowhere(1)", "demo::nowhere"), ("core::softmax(1); axis=x", "axis"), ("core::softmax(1); axis=9", "axis"), ("core::concat(300); axis=0", "a smaller number"),
                ("core::concat(2); axis=0", "another number of operands"), ("core::mul(1, 1)", "another number of operands"), ("core::identity(1); @padded=1", "fewer results"),
                ("core::top_k(1, -); axis=0", "."), ("core::reduce_sum(1, -)", "shape"), ("kinds::noise(1)", "another number of operands"),
                ("core::mul(0, 1)", "1 or -"), ("x" * 100000, "damaged"), ("demo::gelu(99999999999999999999)", "a smaller number")):
            with self.subTest(text[:40]):
                with self.assertRaisesRegex(Failure, message):
                    jax.block_until_ready(raw(text)(x))
        with self.assertRaisesRegex(Failure, "no string attribute `call`"):
            jax.block_until_ready(raw(3)(x))
        for shape, dtype in ((3, 2), "float32"), ((2, 3), "int32"), ((6,), "float32"), ((2, 3, 1), "float32"):
            with self.assertRaisesRegex(Failure, "demo::gelu"):
                jax.block_until_ready(raw("demo::gelu(1)", shape, dtype)(x))


class Resources(unittest.TestCase):
    def test_a_million_calls_leave_memory_flat(self):
        program, x = jax.jit(lambda x: demo.gelu(x)), jnp.ones(8)

        def resident():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def call(count):
            for _ in range(count):
                y = program(x)
            return y.block_until_ready()
        call(100000)
        before = resident()
        call(1000000)
        self.assertLess(resident() - before, 4 << 20)

    def test_two_threads_call_at_once(self):
        x, wrong = floats(50000), []
        expected = np.asarray(gelu(x))
        program = jax.jit(lambda x: demo.gelu(x))

        def work():
            for _ in range(200):
                if not np.allclose(program(x), expected, rtol=1e-5, atol=1e-6):
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_the_interpreter_ends_while_calls_are_in_flight(self):
        run("""
            import sys
            import jax, jax.numpy as jnp, tenon, tenon.jax
            demo = tenon.jax.register(tenon.load(sys.argv[1]))
            program = jax.jit(lambda x: demo.gelu(x))
            x = jnp.ones(1 << 20)
            for _ in range(8):
                x = program(x)
        """, GELU)


if __name__ == "__main__":
    totals.main()
