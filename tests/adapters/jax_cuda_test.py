"""Programs of JAX with Tenon's operators for the platform cuda, as far as they can be compiled without a GPU: the targets and operands of the custom calls.

tests/unit/bridges/jax_device_test.c runs the handlers on the simulated device.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="tenon-jax-cuda-")
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

# Kernels that never run here: what counts is what they declare.
DECLARED = """#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *c) { return tenon_fail(c, TENON_UNIMPLEMENTED, "this kernel never runs"); }
static tenon_status_t make(tenon_node_t *c) { (void)c; return TENON_OK; }
static void drop(void *state) { (void)state; }
#define UNARY TENON_TYPES("x: f32|f16; out = x"), TENON_SHAPES("out = x")
TENON_LIBRARY(declared, "1.0.0",
  TENON_OP("captured(Tensor x) -> Tensor", UNARY, TENON_TRAITS(TENON_PURE), TENON_KERNEL("cuda f32 capturable", run)),
  TENON_OP("direct(Tensor x) -> Tensor", UNARY, TENON_TRAITS(TENON_PURE), TENON_KERNEL("cuda f32", run)),
  TENON_OP("both(Tensor x) -> Tensor", UNARY, TENON_TRAITS(TENON_PURE), TENON_KERNEL("cuda f16", run), TENON_KERNEL("cuda f32 capturable", run)),
  TENON_OP("nowhere(Tensor x) -> Tensor", UNARY, TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", run)),
  TENON_OP("elsewhere(Tensor x) -> Tensor", UNARY, TENON_TRAITS(TENON_PURE), TENON_KERNEL("npu capturable", run)),
  TENON_OP("effect(Tensor x) -> Tensor", UNARY, TENON_KERNEL("cuda capturable", run)),
  TENON_OP("stated(Tensor x) -> Tensor", UNARY, TENON_TRAITS(TENON_PURE), TENON_STATE(make, drop), TENON_KERNEL("cuda capturable", run)),
  TENON_OP("write_(Tensor(a!) x) -> ()", TENON_TYPES("x: f32"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cuda capturable", run)),
  TENON_OP("list(Tensor[] x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_SHAPES("x: [n]; out: [n]"), TENON_KERNEL("cuda capturable", run)))
"""


def built(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


core = tenon.jax.register("core")
declared = tenon.jax.register(built("declared.c", DECLARED))
CALL = re.compile(r'custom_call @(tenon_\w+)\(([^)]*)\).*?call = "((?:[^"\\]|\\.)*)"')


def calls_of(text):
    """The custom calls of a program: (target, number of operands, the operator)."""
    return [(target, operands.count("%"), call.split("(")[0]) for target, operands, call in CALL.findall(text)]


def lowered(function, *arguments, platforms=("cuda",)):
    """The custom calls of a function that is compiled for platforms which are not here."""
    exported = jax.export.export(jax.jit(function), platforms=platforms, disabled_checks=tenon.jax.disabled_checks())(*arguments)
    return calls_of(exported.mlir_module())


class Targets(unittest.TestCase):
    def check(self, expected, function, *arguments):
        self.assertEqual(lowered(function, *arguments), expected)

    def test_a_call_that_only_launches_a_kernel_may_be_captured(self):
        x = jnp.ones((4, 8))
        self.check([("tenon_cuda_graph", 1, "core::gelu"), ("tenon_cuda_graph", 1, "core::softmax")], lambda x: core.softmax(core.gelu(x)), x)
        self.check([("tenon_cuda_graph", 2, "core::add")], core.add, x, x)
        self.check([("tenon_cuda_graph", 3, "core::layer_norm")], lambda x: core.layer_norm(x, jnp.ones(8), jnp.zeros(8), axis=-1), x)
        self.check([("tenon_cuda_graph", 1, "declared::captured")], declared.captured, x)

    def test_kernels_dtypes_and_tensors_that_rule_out_a_capture(self):
        x, half = jnp.ones((4, 8)), jnp.ones((4, 8), jnp.float16)
        for name, argument in (("captured", half), ("direct", x), ("both", half), ("nowhere", x), ("elsewhere", x), ("effect", x), ("stated", x)):
            with self.subTest(name):
                self.check([("tenon_cuda", 1, f"declared::{name}")], getattr(declared, name), argument)
        self.check([("tenon_cuda_graph", 1, "declared::both")], declared.both, x)
        self.check([("tenon_cuda", 1, "declared::write_")], declared.write_, x)
        self.check([("tenon_cuda", 2, "declared::list")], lambda x: declared.list([x[0], x[1]]), x)
        self.check([("tenon_cuda", 2, "core::matmul")], lambda x: core.matmul(x, jnp.ones((8, 2))), x)
        self.check([("tenon_cuda", 1, "core::exp")], core.exp, half)
        self.check([("tenon_cuda", 1, "core::exp")], core.exp, jnp.ones((0, 3)))
        self.check([("tenon_cuda", 1, "core::exp")], core.exp, jnp.ones((2,) + (1,) * 8))

    def test_host_values_sizes_by_data_random_numbers_and_tapes_rule_out_a_capture(self):
        x = jnp.ones((4, 8))
        self.check([("tenon_cuda", 2, "core::tile")], lambda x: core.tile(x, [2, 1]), x)
        self.check([("tenon_cuda", 1, "core::nonzero")], lambda x: core.nonzero(x, size=5), x)
        self.check([("tenon_cuda", 2, "core::dropout")], lambda x: core.dropout(x, key=jnp.zeros(2, jnp.uint32)), x)
        q = jnp.ones((1, 2, 4, 8))
        found = lowered(jax.grad(lambda q: core.attention(q, q, q)[0].sum()), q)
        self.assertEqual({target for target, _, _ in found}, {"tenon_cuda"})

    def test_a_symbolic_extent_rules_out_a_capture(self):
        shape = jax.export.symbolic_shape("n, 8")
        self.check([("tenon_cuda", 2, "core::exp")], core.exp, jax.ShapeDtypeStruct(shape, jnp.float32))  # JAX adds the shape of the result

    def test_one_program_has_the_targets_of_both_platforms(self):
        found = lowered(lambda x: core.matmul(core.exp(x), x), jnp.ones((4, 4)), platforms=("cpu", "cuda"))
        self.assertEqual(sorted(found), [("tenon_cpu", 1, "core::exp"), ("tenon_cpu", 2, "core::matmul"), ("tenon_cuda", 2, "core::matmul"),
                                         ("tenon_cuda_graph", 1, "core::exp")])

    def test_jit_compiles_for_cuda_what_export_does(self):
        traced = jax.jit(core.exp).trace(jnp.ones(3)) if hasattr(jax.jit(core.exp), "trace") else self.skipTest("this release of JAX has no jit(f).trace")
        self.assertEqual(calls_of(traced.lower(lowering_platforms=("cuda",)).as_text()), [("tenon_cuda_graph", 1, "core::exp")])

    def test_written_operands_share_their_memory_with_results(self):
        exported = jax.export.export(jax.jit(declared.write_), platforms=("cuda",), disabled_checks=tenon.jax.disabled_checks())(jnp.ones(4))
        self.assertRegex(exported.mlir_module(), r"tenon_cuda.*output_operand_alias.*operand_index = 0")

    def test_graphs_have_one_target_on_all_platforms(self):
        builder = graph.Builder()
        model = tenon.jax.run(builder.finish([graph.ops.core.neg(builder.input("x", "f32", [3]))]))
        self.assertEqual([target for target, _, _ in lowered(model, jnp.ones(3))], ["tenon_cpu"])


    def test_a_program_for_cuda_becomes_a_graph_of_tenon(self):
        x = jnp.array([[0.5, -1], [2, 3]])
        exported = jax.export.export(jax.jit(lambda x: core.matmul(core.exp(x), x)), platforms=("cuda",), disabled_checks=tenon.jax.disabled_checks())(x)
        path = os.path.join(FOLDER, "program.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(exported.mlir_module())
        np.testing.assert_allclose(graph.load(path).compile()(np.asarray(x)), np.exp(x) @ x, rtol=1e-5)


class Platforms(unittest.TestCase):
    def test_another_platform_is_named_with_those_that_are_there(self):
        with self.assertRaisesRegex(tenon.UnimplementedError, "core::exp: Tenon's operators run in JAX on the platforms cpu, cuda, and this program is compiled for tpu"):
            lowered(core.exp, jnp.ones(3), platforms=("tpu",))

    def test_a_program_for_both_platforms_runs_here(self):
        exported = jax.export.export(jax.jit(core.exp), platforms=("cpu", "cuda"), disabled_checks=tenon.jax.disabled_checks())(jnp.arange(3.0))
        loaded = jax.export.deserialize(bytearray(exported.serialize()))
        np.testing.assert_allclose(loaded.call(jnp.arange(3.0)), np.exp(np.arange(3.0)), rtol=1e-6)

    def test_registering_the_handlers_neither_needs_nor_opens_a_gpu(self):
        made = subprocess.run([sys.executable, "-c", """if True:
            import sys
            sys.path.insert(0, sys.argv[1])
            import jax, jax.numpy as jnp, tenon, tenon.jax
            ops = tenon.jax.register("core")
            print(ops.exp(jnp.zeros(2)), [d.platform for d in jax.devices()])
            print("cuda" in open("/proc/self/maps").read())
            """, os.path.join(BUILD, "python")], capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": ""}, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("[1. 1.]", made.stdout)
        if "'cuda'" not in made.stdout and "'gpu'" not in made.stdout:
            self.assertIn("False", made.stdout)


if __name__ == "__main__":
    totals.main()
