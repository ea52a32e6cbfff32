"""Tensors as attributes of operators in JAX: values beside NumPy's and Tenon's own calls, transformations, export, the compilation cache, and refusals."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="tenon-jax-constants-")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import tenon
import tenon.jax
import totals
from tenon import graph
from tenon.jax.constants import Constant
from tenon.jax.dtypes import DTYPES
from tenon.jax.internals import ffi

SCALED = """#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *c) {
  const tenon_tensor_t *by = c->attrs[0].as.tensor;
  const float *x = c->inputs[0]->data, *factors = by->data;
  float *y = c->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) y[i] = x[i] * factors[i % tenon_count(by)];
  return TENON_OK;
}
static tenon_status_t sum_run(tenon_call_t *c) {  /* of the bytes of the elements, with their places */
  const tenon_tensor_t *t = c->attrs[0].as.tensor;
  const int64_t size = tenon_count(t) * t->dtype.bits / 8;
  double sum = 1000 * t->ndim;
  for (int64_t i = 0; i < size; i++) sum += (double)(i % 7 + 1) * ((const unsigned char *)t->data)[i];
  ((float *)c->outputs[0]->data)[0] = (float)sum;
  return TENON_OK;
}
TENON_LIBRARY(fixed, "1.0.0",
  TENON_OP("scaled(Tensor x, *, tensor by) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: fixed::scaled(grad, by=by)"), TENON_KERNEL("cpu", run)),
  TENON_OP("sum(Tensor x, *, tensor t) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: [1]"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", sum_run)))
"""
SOURCE = os.path.join(FOLDER, "fixed.c")
with open(SOURCE, "w", encoding="utf-8") as source:
    source.write(SCALED)
core, fixed = tenon.jax.register("core"), tenon.jax.register(tenon.load(SOURCE))
NAMED = jax.__version_info__ >= (0, 5, 0)
Failure = jax.errors.JaxRuntimeError if hasattr(jax.errors, "JaxRuntimeError") else Exception
KEYS, VALUES, OTHERWISE = np.array([1, 3, 9], np.int32), np.array([0.5, -1.5, 9], np.float32), np.array([-1], np.float32)


def encode(x, keys=KEYS, values=VALUES):
    return core.label_encode(x, keys=keys, values=values, otherwise=OTHERWISE)


def raw(text):
    """A program with one custom call, which no function of tenon.jax wrote."""
    result = jax.ShapeDtypeStruct((2,), "float32")
    if NAMED:
        return jax.jit(lambda x: ffi.ffi_call("tenon_cpu", result)(x, call=text))
    return jax.jit(lambda x: ffi.ffi_call("tenon_cpu", result, x, call=text))


def run(body, *names):
    """Runs a program in a process of its own, and returns what it wrote."""
    env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(body), *names], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Values(unittest.TestCase):
    def test_labels_and_categories(self):
        x = np.array([[3, 1], [2, 9]], np.int32)
        expected = np.array([[-1.5, 0.5], [-1, 9]], np.float32)
        for function in encode, jax.jit(encode), jax.vmap(encode):
            np.testing.assert_array_equal(function(x), expected)
        np.testing.assert_array_equal(core.category_one_hot(x, categories=KEYS), (x[..., None] == KEYS).astype(np.float32))

    def test_counts_of_n_grams(self):
        x = np.array([[1, 2, 1, 2], [2, 2, 2, 1]], np.int32)
        pool = np.array([1, 2, 1, 2], np.int32)  # the words 1 and 2, then the pair (1, 2)
        made = core.ngram_counts(x, pool=pool, ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], min_gram_length=1, max_gram_length=2, max_skip_count=0, mode="TF")
        pairs = [sum((row[i], row[i + 1]) == (1, 2) for i in range(3)) for row in x.tolist()]
        expected = np.array([[list(row).count(1), list(row).count(2), n] for row, n in zip(x.tolist(), pairs)], np.float32)
        np.testing.assert_array_equal(made, expected)

    def test_a_forest(self):
        rng = np.random.default_rng(3)
        x = rng.normal(size=(50, 3)).astype(np.float32)
        attributes = {"roots": np.array([0, 1], np.int32), "nodes": np.array([[0, 0, -1, -2], [2, 1, -3, -4]], np.int32), "splits": np.array([0.1, -0.2], np.float32),
                      "leaves": np.arange(5, dtype=np.int32), "targets": np.zeros(4, np.int32), "weights": np.array([0.5, -0.25, 1.5, 2], np.float32)}
        expected = np.where(x[:, 0] <= np.float32(0.1), 0.5, -0.25) + np.where(x[:, 2] < np.float32(-0.2), 1.5, 2)
        np.testing.assert_allclose(jax.jit(lambda x: core.tree_ensemble(x, **attributes))(x), expected[:, None], rtol=1e-6)
        np.testing.assert_array_equal(core.tree_ensemble(x, **attributes), tenon.ops.core.tree_ensemble(x, **attributes))

    @totals.takes_turns
    def test_every_dtype_shape_and_order_arrives_byte_by_byte(self):
        rng = np.random.default_rng(4)
        for name, dtype in DTYPES.items():
            for shape in (), (1,), (3, 5), (0, 4), (2, 1, 3):
                with self.subTest(dtype=name, shape=shape):
                    t = rng.integers(0, 2, shape).astype(dtype) if name == "bool" else rng.integers(0, 100, shape).astype(dtype)
                    data = np.frombuffer(np.ascontiguousarray(t).tobytes(), np.uint8)
                    expected = 1000 * len(shape) + np.sum((np.arange(data.size) % 7 + 1) * data.astype(np.float64))
                    self.assertEqual(float(fixed.sum(np.zeros(1, np.float32), t=t)[0]), np.float32(expected))
        t = np.arange(12, dtype=np.float32).reshape(3, 4)
        dense = float(fixed.sum(np.zeros(1, np.float32), t=np.ascontiguousarray(t.T))[0])
        for other in t.T, np.asfortranarray(t.T), t.T.astype(">f4"), jnp.asarray(t.T):
            self.assertEqual(float(fixed.sum(np.zeros(1, np.float32), t=other)[0]), dense)

    def test_an_optional_tensor_may_be_given(self):
        made = jax.jit(lambda: core.constant_of_shape((2, 3), value=np.array([7], np.int16)))()
        np.testing.assert_array_equal(made, np.full((2, 3), 7, np.int16))
        self.assertEqual(made.dtype, np.int16)

    def test_gradients_pass_the_tensor_on(self):
        by, x = np.array([2, -3, 0.5], np.float32), np.array([1, 2, 3], np.float32)
        np.testing.assert_array_equal(jax.grad(lambda x: fixed.scaled(x, by=by).sum())(x), by)
        np.testing.assert_array_equal(jax.jvp(lambda x: fixed.scaled(x, by=by), (x,), (x,))[1], x * by)


class Programs(unittest.TestCase):
    def test_equal_contents_are_one_constant_and_others_are_others(self):
        a = np.arange(6, dtype=np.int32)
        same = Constant.of(a), Constant.of(a.copy()), Constant.of(np.repeat(a, 2)[::2])
        self.assertEqual(len(set(same)), 1)
        others = {Constant.of(a), Constant.of(a.reshape(2, 3)), Constant.of(a.astype(np.int64)), Constant.of(a + 1), Constant.of(a.astype(np.uint32))}
        self.assertEqual(len(others), 5)

    def test_a_changed_array_is_another_program(self):
        keys = KEYS.copy()
        x = np.array([1, 3, 4], np.int32)
        np.testing.assert_array_equal(encode(x, keys), [0.5, -1.5, -1])
        keys[1] = 4
        np.testing.assert_array_equal(encode(x, keys), [0.5, -1, -1.5])

    def test_an_exported_program_contains_its_tensors(self):
        exported = jax.export.export(jax.jit(encode), disabled_checks=tenon.jax.disabled_checks())(jax.ShapeDtypeStruct((4,), jnp.int32))
        path = os.path.join(FOLDER, "program")
        with open(path, "wb") as file:
            file.write(exported.serialize())
        said = run("""
            import jax, jax.export, numpy as np, tenon.jax
            tenon.jax.register("core")
            program = jax.export.deserialize(bytearray(open("program", "rb").read()))
            print(*np.asarray(program.call(np.array([9, 1, 0, 3], np.int32))))
        """)
        self.assertEqual(said.split(), ["9.0", "0.5", "-1.0", "-1.5"])

    @totals.takes_turns
    def test_the_persistent_compilation_cache_tells_tensors_apart(self):
        body = """
            import sys
            import jax, numpy as np, tenon, tenon.jax
            jax.config.update("jax_compilation_cache_dir", "cache")
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
            events = []
            jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
            core = tenon.jax.register("core")
            keys, values = np.array([1, 2], np.int32), np.array([0.5, float(sys.argv[1])], np.float32)
            program = jax.jit(lambda x: core.label_encode(x, keys=keys, values=values, otherwise=values[:1]))
            print(float(program(np.array([2], np.int32))[0]), events.count("/jax/compilation_cache/cache_hits"))
        """
        first, other, again = (run(body, value).split() for value in ("7", "8", "7"))
        self.assertEqual((first, other[0], again[0]), (["7.0", "0"], "8.0", "7.0"))
        self.assertGreater(int(again[1]), int(other[1]))

    def test_a_program_becomes_a_graph_of_tenon_with_its_tensors(self):
        path = os.path.join(FOLDER, "program.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(jax.jit(encode).lower(jax.ShapeDtypeStruct((3,), jnp.int32)).as_text())
        np.testing.assert_array_equal(graph.load(path).compile()(np.array([9, 1, 0], np.int32)), [9, 0.5, -1])


class Refusals(unittest.TestCase):
    def test_values_that_are_no_arrays_of_numbers_are_refused_by_name(self):
        x = np.array([1], np.int32)
        for keys, message in (([1, 2], "core::label_encode: attribute keys: expected a NumPy array, found list"), ("a", "expected a NumPy array, found str"),
                              (np.array(["a"]), "attribute keys: the dtype <U1 has no counterpart in JAX: call the operator as tenon.ops.core.label_encode"),
                              (np.zeros(1 << 20), "attribute keys: the array has 8388608 bytes: expected at most 4194304")):
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                encode(x, keys)
        with self.assertRaisesRegex(TypeError, "label_encode.*keys"):
            core.label_encode(x, values=VALUES, otherwise=OTHERWISE)
        with self.assertRaisesRegex(tenon.Error, "core::label_encode"):
            encode(x, KEYS.astype(np.float32))

    def test_traced_values_are_refused_with_the_attribute_and_the_remedy(self):
        message = r"core::label_encode: attribute keys: expected a NumPy array.*found .*int32\[3\].*from outside"
        for what, function in (("jit", jax.jit(encode)), ("scan", lambda x, keys: jax.lax.map(lambda k: encode(x, k), jnp.stack([keys, keys]))),
                               ("vmap", lambda x, keys: jax.vmap(lambda k: encode(x, k))(jnp.stack([keys, keys])))):
            with self.subTest(what), self.assertRaisesRegex(TypeError, message):
                function(np.ones(3, np.int32), KEYS)

    def test_damaged_tensors_in_custom_calls_are_refused(self):
        x = np.ones(2, np.float32)
        np.testing.assert_array_equal(raw("fixed::scaled(1); by=f32[2] 0000004000004040")(x), [2, 3])
        for literal, message in (("f32[2] 00000040000040", "two digits for each byte"), ("f32[2] 000000400000404", "two digits for each byte"), ("f32[2] 00000040000040gg", "hexadecimal digits"),
                                 ("f32[2] 00000040000040AA", "hexadecimal digits"), ("f32[2", "', ' or '\\]'"), ("f32[2]0000", "', ' or '\\]'"), ("f32[-1] ", "a number"),
                                 ("f32[9223372036854775807, 9223372036854775807] ", "a smaller shape"), ("f32[99999999999999999999] ", "a smaller number"),
                                 ("f32[" + ", ".join(["1"] * 65) + "] 00000000", "at most 64 axes"), ("string[1] 00", "."), ("f33[1] 00", "by"), ("i4[2] 00", "a tensor of numbers"), ("[1.0]", "by")):
            with self.subTest(literal[:30]), self.assertRaisesRegex(Failure, message):
                jax.block_until_ready(raw(f"fixed::scaled(1); by={literal}")(x))


if __name__ == "__main__":
    totals.main()
