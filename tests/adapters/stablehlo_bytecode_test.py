"""Programs of StableHLO in the form of MLIR bytecode: hand-written ones, names, symbolic shapes, what a plug-in of PJRT gets, and
damaged files. stablehlo_test.py reads each program of stablehlo_cases.py as bytecode as well as text.

The bytecode comes from MLIR through jaxlib, so the test follows the version of JAX that is installed.
"""
import io
import os
import re
import subprocess
import sys
import unittest

import numpy as np

import stablehlo_test as texts
from stablehlo_test import BUILD, FOLDER, TEXTS, X, bytecode_of, jax, load, module, run, tenon
import totals

if jax:
    import jax.numpy as jnp
    import stablehlo_cases
    from jax import export
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

ONLY_NATIVE = "chlo", "mulhi", "ragged products", "resources"  # VHLO has none of these
ONLY_TEXT = {"bytes and bits of bools",  # constants as JAX prints them, which MLIR itself does not read back
             "quantised types",  # refused in bytecode
             "scan"}  # the attributes of chlo.scan are refused in bytecode
MESHES = {"sharding": 'sdy.mesh @mesh = <["x"=1]>\n'}  # what MLIR wants beside the program, but Tenon does not


def native_bytecode(text, version=None):
    """Returns a program as MLIR writes it, in a version of the format; None: the newest one."""
    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        file = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(file, desired_version=version)
    return file.getvalue()


def mixed_bytecode(text, version):
    """Returns a program for a version of StableHLO, with operations of other dialects as they are."""
    with mlir.make_ir_context():
        return stablehlo.serialize_portable_artifact(ir.Module.parse(text), version, True)


def resized(data, old, new):
    """Returns the bytecode with other bytes in one place."""
    assert data.count(old) == 1, data.count(old)
    return data.replace(old, new)


@unittest.skipUnless(jax, "there is no JAX")
class Forms(unittest.TestCase):
    parts = 0

    def test_programs_written_by_hand_give_the_values_of_the_specification(self):
        self.assertLessEqual(ONLY_TEXT, TEXTS.keys())
        for name, (text, inputs, expected) in TEXTS.items():
            if name in ONLY_TEXT:
                continue
            text = MESHES.get(name, "") + text
            forms = {"native": native_bytecode(text), **bytecode_of(text)}
            if name == "sharding":
                forms["mixed"] = mixed_bytecode(text, "1.4.0")
            self.assertTrue(len(forms) > 1 or name in ONLY_NATIVE, name)
            for form, data in forms.items():
                with self.subTest(name, form=form):
                    for value, right in zip(run(data, inputs), expected, strict=True):
                        np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5)
                    Forms.parts += 1

    def test_each_version_of_the_format_gives_the_same_values(self):
        versions = range(7)
        for name in sorted(TEXTS.keys() - ONLY_TEXT):
            text, inputs, expected = TEXTS[name]
            for version in versions:
                with self.subTest(name, version=version):
                    data = native_bytecode(MESHES.get(name, "") + text, version)
                    self.assertEqual(data[4], 2 * version + 1)  # a number of one byte, whose lowest bit is set
                    for value, right in zip(run(data, inputs), expected, strict=True):
                        np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5)
                    Forms.parts += 1

    def test_inputs_and_outputs_have_the_names_that_jax_states(self):
        def function(params, x):
            return {"y": x @ params["w"], "z": x}
        for first in 2, export.symbolic_shape("b")[0]:
            shapes = {"w": jax.ShapeDtypeStruct((4, 3), np.float32)}, jax.ShapeDtypeStruct((first, 4), np.float32)
            graph = load(export.export(jax.jit(function))(*shapes).mlir_module_serialized)
            self.assertEqual([port[0] for port in graph.inputs], ["params['w']", "x"])
            self.assertEqual([port[0] for port in graph.outputs], ["result['y']", "result['z']"])

    def test_programs_with_symbolic_shapes_run_with_any_shape(self):
        for name, (function, shapes, runs) in stablehlo_cases.symbolic().items():
            with self.subTest(name):
                scope = export.SymbolicScope()
                types = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), dtype) for shape, dtype in shapes]
                model = load(export.export(jax.jit(function))(*types).mlir_module_serialized).compile()
                for arguments in runs:
                    found = model(*arguments)
                    found = found if isinstance(found, tuple) else (found,)
                    for value, right in zip(found, jax.tree.leaves(jax.jit(function)(*arguments)), strict=True):
                        np.testing.assert_allclose(np.asarray(value), np.asarray(right), rtol=1e-5, atol=1e-5)
                Forms.parts += 1

    def test_a_program_for_several_devices_of_one_mesh_runs_on_one(self):
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        sharding = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("x",)), PartitionSpec("x"))
        function = jax.jit(lambda a: jnp.sin(jax.lax.with_sharding_constraint(a * 2, sharding)), in_shardings=sharding)
        forms = [mixed_bytecode(function.lower(X).as_text(), version) for version in ("1.4.0", stablehlo.get_current_version())]
        for data in forms + [export.export(function)(X).mlir_module_serialized]:
            np.testing.assert_allclose(run(data, [X])[0], np.sin(2 * X), rtol=1e-5, atol=1e-6)

    def test_operations_of_loaded_libraries_become_their_operators(self):
        path = os.path.join(FOLDER, "bytecode.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(texts.LIBRARY.replace("ours", "theirs"))
        tenon.load(path)
        text = module('%b = "theirs.scale"(%a) {factor = 3.0 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>', "return %b : tensor<2x3xf32>")
        call = module('%b = stablehlo.custom_call @theirs.scale(%a) {mhlo.backend_config = {factor = 3.0 : f32}} : (tensor<2x3xf32>) -> tensor<2x3xf32>',
                      "return %b : tensor<2x3xf32>")
        for data in (native_bytecode(text), native_bytecode(call), *bytecode_of(call).values()):
            np.testing.assert_array_equal(run(data, [X])[0], 3 * X)
        with self.assertRaisesRegex(tenon.Error, r"byte \d+ of the operation section: theirs.scale: .*colour"):
            load(native_bytecode(text.replace("factor =", "colour =")))

    def test_numbers_of_all_types_have_their_values(self):
        types = [("i1", [True, False, True], np.bool_), ("i8", [-128, 0, 127], np.int8), ("ui8", [0, 1, 255], np.uint8), ("i16", [-5, 0, 9], np.int16),
                 ("ui16", [0, 7, 65535], np.uint16), ("ui32", [0, 7, 4294967295], np.uint32), ("i64", [-2**63, 0, 2**63 - 1], np.int64),
                 ("ui64", [0, 1, 2**64 - 1], np.uint64), ("i4", [-8, 0, 7], np.int8), ("ui4", [0, 9, 15], np.uint8),
                 ("i2", [-2, 0, 1], np.int8), ("ui2", [0, 1, 3], np.uint8), ("f16", [0.5, -65504.0, 1.0], np.float16), ("f64", [0.1, -1e300, 3.0], np.float64)]
        for name, values, dtype in types:
            words = [str(value).lower() if dtype is np.bool_ else str(value).replace("-1e", "-1.0e") for value in values]
            for count in (1, 3, 9, 17):  # 1: a splat of nine, too
                shown = [words[i % 3] for i in range(count)]
                literal = f"dense<[{', '.join(shown)}]>" if count > 1 else f"dense<{words[0]}>"
                size = count if count > 1 else 9
                text = module(f"%c = stablehlo.constant {literal} : tensor<{size}x{name}>", f"return %c : tensor<{size}x{name}>", arguments="",
                              results=f"tensor<{size}x{name}>")
                expected = np.array([values[i % 3] if count > 1 else values[0] for i in range(size)], dtype)
                for form, data in {"native": native_bytecode(text), **bytecode_of(text)}.items():
                    with self.subTest(name, count=count, form=form):
                        np.testing.assert_array_equal(run(data, [])[0], expected)


@unittest.skipUnless(jax, "there is no JAX")
class Damage(unittest.TestCase):
    """Damaged files."""

    def setUp(self):
        text = module("%b = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>", "return %b : tensor<3x2xf32>", results="tensor<3x2xf32>")
        self.data = bytecode_of(text)["bytecode of 1.0.0"]

    def refuses(self, data, pattern):
        with self.assertRaisesRegex(tenon.Error, pattern):
            load(data)

    def test_messages_name_the_section_the_offset_and_the_remedy(self):
        self.refuses(self.data[:4], r"byte 4 of the file: expected 1 bytes, found 0")
        self.refuses(self.data[:4] + b"\x0f" + self.data[5:], r"version 7 of MLIR bytecode is not supported, at most 6 is: write the program with a lower target version")
        self.refuses(self.data[:-3], r"byte \d+ of the file: expected \d+ bytes, found \d+: the file is damaged or its end is missing")
        self.refuses(resized(self.data, b"transpose_v1", b"transpose_v7"), r"byte \d+ of the property section: the attributes of vhlo.transpose_v7 are not known: "
                     "write the program with a lower target version")
        self.refuses(resized(self.data, b"transpose_v1", b"trampoline_v"), r"of the property section: the attributes of vhlo.trampoline_v are not known")
        self.refuses(resized(self.data, b"func_v1", b"fund_v1"), r"the attributes of vhlo.fund_v1 are not known")
        self.refuses(self.data + b"\x00\x01", r"byte \d+ of the file: the string section occurs twice")

    def test_operations_that_are_not_supported_have_a_place(self):
        text = module('%b = "our.gelu"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>', "return %b : tensor<2x3xf32>")
        self.refuses(native_bytecode(text), r"our.gelu: no loaded library has the operator our::gelu \(byte \d+ of the operation section\)")
        for kind in "tensor<3xf4E2M1FN>", "tensor<3x!quant.uniform<i8:f32, 0.5>>":
            text = module(f"return %a : {kind}", arguments=f"%a: {kind}", results=kind)
            for data in (native_bytecode(text), *bytecode_of(text).values()):
                self.refuses(data, r"byte \d+ of the operation section: a value has a type of .*, which is not supported")

    def test_every_beginning_and_every_changed_byte_of_a_file_is_refused_or_loaded(self):
        script = os.path.join(FOLDER, "every.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(EVERY)
        path = os.path.join(FOLDER, "every.bc")
        with open(path, "wb") as file:
            file.write(self.data)
        done = subprocess.run([sys.executable, script, os.path.join(BUILD, "python"), path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr[-2000:])
        loaded, refused = map(int, done.stdout.split())
        self.assertEqual(loaded + refused, 4 * len(self.data))
        self.assertGreater(refused, 2 * len(self.data))


EVERY = r"""
import os, sys
sys.path[:0] = [sys.argv[1]]
import tenon, tenon.graph
data = open(sys.argv[2], "rb").read()
path = sys.argv[2] + ".mlir"
loaded = refused = 0
for at in range(len(data)):
    for other in (data[:at], data[:at] + b"\xff" + data[at + 1:], data[:at] + b"\0" + data[at:], data[:at] + bytes([data[at] ^ 4]) + data[at + 1:]):
        with open(path, "wb") as file: file.write(other)
        try:
            tenon.graph.load(path)
            loaded += 1
        except tenon.Error as error:
            refused += 1
            assert "every.bc.mlir" in str(error), error
print(loaded, refused)
"""


if __name__ == "__main__":
    totals.main(lambda: Forms.parts)
