"""Programs of StableHLO as graphs: the text that JAX prints, run by Tenon, against the values that JAX computes.

Each function of `Operations` is a case: it returns a function of arrays and the arrays. The text comes from
jax.jit(...).lower(...).as_text(), so the test follows the version of JAX that is installed.
"""
import atexit
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import tenon
import tenon.graph

import totals

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
    import stablehlo_cases
except ImportError as error:
    jax, missing = None, str(error)

FOLDER = tempfile.mkdtemp(prefix="tenon-stablehlo-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def load(text, name="program.mlir"):
    """Returns the graph of a program."""
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.graph.load(path)


def run(text, inputs):
    """Runs a program and returns the list of its results."""
    found = load(text).compile()(*[np.asarray(x) for x in inputs])
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def forms_of(function, *arguments):
    """Returns the forms in which JAX and MLIR print a program."""
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    generic = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return {"short": lowered.as_text(), "with locations": lowered.as_text(debug_info=True), "generic": generic}


@unittest.skipUnless(jax, "there is no JAX")
class AgainstJax(unittest.TestCase):
    """Results of programs."""
    parts = 0

    def check(self, function, arguments, tolerance=1e-5, reference=None):
        expected = [np.asarray(x) for x in jax.tree.leaves(jax.jit(reference or function)(*arguments))]
        for form, text in forms_of(function, *arguments).items():
            self.compare(run(text, jax.tree.leaves(arguments)), expected, tolerance, form)

    def compare(self, found, expected, tolerance=1e-5, form=""):
        self.assertEqual(len(found), len(expected), form)
        for i, (value, right) in enumerate(zip(found, expected)):
            self.assertEqual((value.dtype, value.shape), (right.dtype, right.shape), f"{form}, output {i}")
            scale = 0  # integers are equal
            if right.dtype.kind == "f":
                scale = max(1.0, np.abs(right[np.isfinite(right)].astype(np.float64)).max(initial=0))
            np.testing.assert_allclose(value.astype(np.float64), right.astype(np.float64), rtol=tolerance if scale else 0,
                                       atol=tolerance * scale, err_msg=f"{form}, output {i}")

    def test_each_operation_gives_what_jax_gives(self):
        for name, case in stablehlo_cases.operations().items():
            with self.subTest(name):
                self.check(*case)
                AgainstJax.parts += 1

    def test_models_give_what_jax_gives(self):
        for name, case in stablehlo_cases.models().items():
            with self.subTest(name):
                self.check(*case)
                AgainstJax.parts += 1


    def test_programs_with_symbolic_shapes_run_with_any_shape(self):
        from jax import export
        for name, (function, shapes, runs) in stablehlo_cases.symbolic().items():
            with self.subTest(name):
                scope = export.SymbolicScope()
                types = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), dtype) for shape, dtype in shapes]
                model = load(export.export(jax.jit(function))(*types).mlir_module()).compile()
                for arguments in runs:
                    expected = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*arguments))]
                    found = model(*arguments)
                    self.compare([np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))], expected)
                AgainstJax.parts += 1

    def test_programs_of_64_bit_numbers_give_what_jax_gives(self):
        with jax.enable_x64(True):
            for name, case in stablehlo_cases.doubles().items():
                with self.subTest(name):
                    self.check(*case)
                    AgainstJax.parts += 1

    def test_programs_for_other_platforms_give_what_jax_gives(self):
        from jax import export
        square = np.eye(4, dtype=np.float32) * 3 + 0.5
        for name, function in {"cholesky": jnp.linalg.cholesky, "triangular_solve": lambda a: jax.scipy.linalg.solve_triangular(a, a[:, :2], lower=True),
                               "the right side": lambda a: lax.linalg.triangular_solve(a, a[:2], lower=False, transpose_a=True)}.items():
            with self.subTest(name):
                text = export.export(jax.jit(function), platforms=["tpu"])(square).mlir_module()
                self.assertIn("stablehlo." + ("cholesky" if name == "cholesky" else "triangular_solve"), text)
                self.compare(run(text, [square]), [np.asarray(function(square))])


if __name__ == "__main__":
    totals.main(lambda: AgainstJax.parts)
