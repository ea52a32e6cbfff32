"""Programs of StableHLO as graphs: the text that JAX prints, run by Tenon, against the values that JAX computes.

stablehlo_cases.py has the functions; their text comes from jax.jit(...).lower(...).as_text() and jax.export, so the test follows the version of
JAX that is installed. Other programs are written by hand: operations that JAX does not print, errors, and damaged texts.

Usage: stablehlo_test.py [--write]. With --write the table of operations in docs/stablehlo.md is written anew.
"""
import atexit
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
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


seen = set()  # the operations of all programs that were loaded


def load(text, name="program.mlir"):
    """Returns the graph of a program."""
    path = os.path.join(FOLDER, name)
    if isinstance(text, str):
        seen.update(re.findall(r"\b(?:stablehlo|chlo|func|sdy)\.[a-z_0-9-]+", text))
    with open(path, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return tenon.graph.load(path)


def run(text, inputs):
    """Runs a program and returns the list of its results."""
    found = load(text).compile()(*[np.asarray(x) for x in inputs])
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def forms_of(function, *arguments):
    """Returns the forms in which JAX and MLIR write a program: text, and bytecode for several versions of StableHLO."""
    from jax import export
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    generic = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    native = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(native)
    calls = [export.DisabledSafetyCheck.custom_call(name) for name in set(re.findall(r"custom_call @(\w+)", lowered.as_text()))]
    exported = export.export(jax.jit(function, keep_unused=True), disabled_checks=calls)(*arguments).mlir_module_serialized
    return {"short": lowered.as_text(), "with locations": lowered.as_text(debug_info=True), "generic": generic,
            "exported": exported, "native bytecode": native.getvalue(), **bytecode_of(generic)}


def bytecode_of(text):
    """Returns the bytecode of a program for each target version that StableHLO can write it for."""
    from jaxlib.mlir.dialects import stablehlo
    found = {}
    for version in TARGETS + (stablehlo.get_current_version(),):
        try:
            found[f"bytecode of {version}"] = stablehlo.serialize_portable_artifact_str(text, version)
        except Exception:  # the program has operations that are younger, or of CHLO
            continue
    return found


TARGETS = "0.9.0", "0.14.0", "1.0.0", "1.4.0", "1.8.0"  # versions 0, 4 and 6 of the format; JAX 0.4.32 wrote 1.x


def module(*lines, arguments="%a: tensor<2x3xf32>", results="tensor<2x3xf32>"):
    """Returns a program whose main function has these lines."""
    return f"func.func @main({arguments}) -> ({results}) {{\n  " + "\n  ".join(lines) + "\n}\n"


def table_rows():
    """Returns (operation, text, function, reason) for each row of the C tables."""
    rows = []
    for name in sorted(os.listdir(os.path.join(ROOT, "bridges", "stablehlo", "lower"))):
        with open(os.path.join(ROOT, "bridges", "stablehlo", "lower", name), encoding="utf-8") as file:
            source = file.read()
        macros = {key: "".join(re.findall(r'"([^"]*)"', value)) for key, value in re.findall(r"#define (\w+)((?:[^\n]*\\\n)*[^\n]*)", source)}
        start = source.find("static const hlo_row_t rows[] = {")
        body = source[start:source.find("\n};", start)] if start >= 0 else ""
        for row in re.findall(r"\{((?=\"[a-z]+\.)(?:[^{}\"]|\"[^\"]*\")*)\}", body):
            parts = [part.strip() for part in re.split(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", row)]
            parts = ["".join(re.findall(r'"([^"]*)"', part)) if '"' in part else macros.get(part, part) for part in parts]
            rows.append((parts[0], parts[1], parts[4], parts[6] if len(parts) > 6 and parts[6] != "NULL" else "", name))
    return sorted(rows)


def table_text():
    """Returns the table of operations for the documentation."""
    lines = ["| operation | becomes |", "|---|---|"]
    for operation, text, function, reason, file in table_rows():
        becomes = f"`{text}`" if text != "NULL" else f"[`{file}`](../bridges/stablehlo/lower/{file})"
        lines.append(f"| `{operation}` | {'refused: ' + reason if reason else becomes} |")
    return "\n".join(lines) + "\n"


PAGE = os.path.join(ROOT, "docs", "stablehlo.md")
BEGIN, END = "<!-- operations: written by stablehlo_test.py --write -->\n", "<!-- end of operations -->\n"


class Documentation(unittest.TestCase):
    def test_the_page_has_the_table_of_operations(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(page[page.index(BEGIN) + len(BEGIN):page.index(END)], table_text(), "run tests/adapters/stablehlo_test.py --write")

    @unittest.skipUnless(jax, "there is no JAX")
    def test_the_examples_of_the_page_run(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", file.read(), re.S)]
        w, b, x = stablehlo_cases.floats(4, 3), stablehlo_cases.floats(3), stablehlo_cases.floats(2, 4)
        names = {"params": [(w, b)], "x": x, "w": w, "b": b, "f": jnp.sin, "np": np, "jax": jax}
        before = os.getcwd()
        os.chdir(FOLDER)
        self.addCleanup(os.chdir, before)
        for block in blocks:
            exec(block, names)
        np.testing.assert_allclose(names["y"], names["model"](names["params"], x), rtol=1e-5)
        self.assertEqual(run(names["text"], [x])[0].shape, (2, 4))

    def test_the_table_has_each_operation_of_the_specification(self):
        rows = {row[0] for row in table_rows()}
        self.assertGreater(len(rows), 140)
        self.assertEqual(sorted({"stablehlo." + name for name in SPECIFICATION.split()} - rows), [])


SPECIFICATION = """abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 batch_norm_grad batch_norm_inference
batch_norm_training bitcast_convert broadcast_in_dim case cbrt ceil cholesky clamp collective_broadcast collective_permute compare complex composite
concatenate constant convert convolution cosine count_leading_zeros custom_call divide dot_general dynamic_broadcast_in_dim dynamic_conv
dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice exponential exponential_minus_one fft floor gather
get_dimension_size get_tuple_element if imag infeed iota is_finite log log_plus_one logistic map maximum minimum multiply negate not
optimization_barrier or outfeed pad partition_id popcnt power real real_dynamic_slice recv reduce reduce_precision reduce_scatter reduce_window
remainder replica_id reshape reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter send
shift_left shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose triangular_solve tuple
uniform_dequantize uniform_quantize while xor"""

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
ROWS, MATRICES = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(24, dtype=np.float32).reshape(3, 2, 4)
Q, R, AXIS = "!quant.uniform<i8:f32, 0.25:-30>", "!quant.uniform<i8<-100:100>:f32, 0.5:3>", "!quant.uniform<u8:f32:0, {0.125:7, 2.0}>"
A8, B8, C8 = np.array([-128, -29, 127], np.int8), np.array([-100, 4, 99], np.int8), np.array([[0, 8, 255], [0, 3, 40]], np.uint8)
WIDE = {"i8": (np.array([64, -64, -128], np.int8), np.array([4, 4, -128], np.int8)), "ui32": (np.array([2**31, 7, 2**32 - 1], np.uint32),) * 2,
        "i64": (np.array([2**62, -2**63, -5]), np.array([9, -2**63, 3])), "ui64": (np.array([2**64 - 1, 2**33, 5], np.uint64), np.array([2**64 - 1, 2**40, 6], np.uint64))}


def quantised(floats, scale, zero, least, most):
    return np.round(np.clip(np.float32(floats) / np.float32(scale) + np.float32(zero), least, most)).astype(np.int8)


def floats_of(integers, scale, zero):
    return (integers.astype(np.float32) - np.float32(zero)) * np.float32(scale)


C_FLOATS = np.stack([floats_of(C8[0], 0.125, 7), floats_of(C8[1], 2, 0)])


def upper_half(a, b):
    return np.array([int(x) * int(y) >> 8 * a.itemsize for x, y in zip(a, b)], a.dtype)


TEXTS = {  # what JAX does not print: a program, its inputs, and its results
    "if": (module('%r = "stablehlo.if"(%p) ({', "  %s = stablehlo.add %a, %a : tensor<2x3xf32>", "  stablehlo.return %s : tensor<2x3xf32>", "}, {",
                  "  stablehlo.return %a : tensor<2x3xf32>", "}) : (tensor<i1>) -> tensor<2x3xf32>", "return %r : tensor<2x3xf32>",
                  arguments="%p: tensor<i1>, %a: tensor<2x3xf32>"), [np.bool_(True), X], [2 * X]),
    "tuples and tokens": (module("%t = stablehlo.tuple %a, %a : tuple<tensor<2x3xf32>, tensor<2x3xf32>>", "%k = stablehlo.create_token : !stablehlo.token",
                                 "%l = stablehlo.after_all %k, %k : !stablehlo.token",
                                 "%r = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2x3xf32>, tensor<2x3xf32>>) -> tensor<2x3xf32>",
                                 "return %r : tensor<2x3xf32>"), [X], [X]),
    "map": (module('%r = "stablehlo.map"(%a, %a) <{dimensions = array<i64: 0, 1>}> ({', "^bb0(%x: tensor<f32>, %y: tensor<f32>):",
                   "  %z = stablehlo.multiply %x, %y : tensor<f32>", "  stablehlo.return %z : tensor<f32>",
                   "}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>", "return %r : tensor<2x3xf32>"), [X], [X * X]),
    "several windows": (module("%c = stablehlo.constant dense<0.0> : tensor<f32>", '%r:2 = "stablehlo.reduce_window"(%a, %a, %c, %c) <{window_dimensions = array<i64: 1, 3>}> ({',
                               "^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):", "  %s = stablehlo.add %x, %z : tensor<f32>",
                               "  %t = stablehlo.maximum %y, %w : tensor<f32>", "  stablehlo.return %s, %t : tensor<f32>, tensor<f32>",
                               "}) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)",
                               "return %r#0, %r#1 : tensor<2x1xf32>, tensor<2x1xf32>", results="tensor<2x1xf32>, tensor<2x1xf32>"),
                        [X], [X.sum(1, keepdims=True), np.maximum(X.max(1, keepdims=True), 0)]),
    "batch_norm_inference": (module('%r = "stablehlo.batch_norm_inference"(%a, %s, %s, %s, %s) <{epsilon = 0.5 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, '
                                    "tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>", "return %r : tensor<2x3xf32>",
                                    arguments="%a: tensor<2x3xf32>, %s: tensor<3xf32>"),
                             [X, np.array([1, 2, 3], np.float32)], [(X - [1, 2, 3]) / np.sqrt(np.array([1.5, 2.5, 3.5])) * [1, 2, 3] + [1, 2, 3]]),
    "batch_norm_training": (module('%r:3 = "stablehlo.batch_norm_training"(%a, %s, %s) <{epsilon = 0.5 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, '
                                   "tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)",
                                   "return %r#1, %r#2 : tensor<3xf32>, tensor<3xf32>", arguments="%a: tensor<2x3xf32>, %s: tensor<3xf32>",
                                   results="tensor<3xf32>, tensor<3xf32>"), [X, np.ones(3, np.float32)], [X.mean(0), X.var(0)]),
    "batch_norm_grad": (module('%r:3 = "stablehlo.batch_norm_grad"(%a, %s, %s, %s, %a) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, '
                               "tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)",
                               "return %r#1, %r#2 : tensor<3xf32>, tensor<3xf32>", arguments="%a: tensor<2x3xf32>, %s: tensor<3xf32>",
                               results="tensor<3xf32>, tensor<3xf32>"), [X, np.ones(3, np.float32)], [(X * (X - 1)).sum(0), X.sum(0)]),
    "real_dynamic_slice": (module("%r = stablehlo.real_dynamic_slice %a, %b, %e, %s : (tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>",
                                  "return %r : tensor<?x?xf32>", arguments="%a: tensor<2x3xf32>, %b: tensor<2xi32>, %e: tensor<2xi32>, %s: tensor<2xi32>",
                                  results="tensor<?x?xf32>"),
                           [X, np.array([0, 1], np.int32), np.array([2, 3], np.int32), np.array([1, 2], np.int32)], [X[:, 1::2]]),
    "dot": (module("%r = stablehlo.dot %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>", "return %r : tensor<2xf32>",
                   arguments="%a: tensor<2x3xf32>, %b: tensor<3xf32>", results="tensor<2xf32>"), [X, np.ones(3, np.float32)], [X.sum(1)]),
    "logistic": (module("%b = stablehlo.logistic %a : tensor<2x3xf32>", "return %b : tensor<2x3xf32>"), [X], [1 / (1 + np.exp(-X))]),
    "sharding": (module("%b = sdy.sharding_constraint %a <@mesh, [{\"x\"}, {}]> : tensor<2x3xf32>", "return %b : tensor<2x3xf32>"), [X], [X]),
    "chlo": (module("%i = chlo.is_inf %a : tensor<2x3xf32> -> tensor<2x3xi1>", "%p = chlo.is_pos_inf %a : tensor<2x3xf32> -> tensor<2x3xi1>",
                    "%n = chlo.is_neg_inf %a : tensor<2x3xf32> -> tensor<2x3xi1>", "%t = chlo.tan %a : tensor<2x3xf32> -> tensor<2x3xf32>",
                    "%z = stablehlo.complex %a, %a : tensor<2x3xcomplex<f32>>", "%c = chlo.conj %z : tensor<2x3xcomplex<f32>> -> tensor<2x3xcomplex<f32>>",
                    "%r = stablehlo.imag %c : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>",
                    "return %i, %p, %n, %t, %r : tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>",
                    results="tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>"),
             [X], [np.isinf(X), np.isposinf(X), np.isneginf(X), np.tan(X), -X]),
    "a composite": (module('%r = stablehlo.composite "our.twice" %a {composite_attributes = {n = 2 : i64}, decomposition = @twice} : (tensor<2x3xf32>) -> tensor<2x3xf32>',
                           "return %r : tensor<2x3xf32>") + "func.func private @twice(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
                    "  %r = stablehlo.add %a, %a : tensor<2x3xf32>\n  return %r : tensor<2x3xf32>\n}\n", [X], [2 * X]),
    "a comparator of another form": (module('%r = "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({', "^bb0(%x: tensor<f32>, %y: tensor<f32>):",
                                            "  %s = stablehlo.multiply %x, %x : tensor<f32>", "  %c = stablehlo.compare LE, %y, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>",
                                            "  %n = stablehlo.not %c : tensor<i1>", "  stablehlo.return %n : tensor<i1>",
                                            "}) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %r : tensor<2x3xf32>"), [-X], [np.sort(-X, 1)]),
    "resources": (module("%c = stablehlo.constant dense_resource<weights> : tensor<3xf32>", "return %c : tensor<3xf32>", arguments="", results="tensor<3xf32>")
                  + '{-#\n  dialect_resources: {\n    builtin: {\n      weights: "0x040000000000803F0000004000004040"\n    }\n  }\n#-}\n', [], [np.array([1, 2, 3], np.float32)]),
    "bytes": (module('%c = stablehlo.constant dense<"0x0000803F0000004000004040"> : tensor<3xf32>', 'return %c : tensor<3xf32>', arguments="", results="tensor<3xf32>"),
              [], [np.array([1, 2, 3], np.float32)]),
    "bytes and bits of bools": (module(f'%c = stablehlo.constant dense<"0x{"0100FF" * 3}00"> : tensor<10xi1>', '%d = stablehlo.constant dense<"0x6D03"> : tensor<10xi1>',
                                       '%e = stablehlo.constant dense<"0xFF"> : tensor<10xi1>', "return %c, %d, %e : tensor<10xi1>, tensor<10xi1>, tensor<10xi1>",
                                       arguments="", results="tensor<10xi1>, tensor<10xi1>, tensor<10xi1>"),
                                [], [np.array([1, 0, 1] * 3 + [0], bool), np.array([1, 0, 1, 1, 0, 1, 1, 0, 1, 1], bool), np.ones(10, bool)]),
    "aliases": ("#axes = array<i64: 1, 0>\n!matrix = tensor<2x3xf32>\n" + module(
        '%r = "stablehlo.transpose"(%a) <{permutation = #axes}> : (!matrix) -> tensor<3x2xf32>', "return %r : tensor<3x2xf32>",
        arguments="%a: !matrix", results="tensor<3x2xf32>"), [X], [X.T]),
    "mulhi": (module(*(f'%{t} = "chlo.mulhi"(%a{t}, %b{t}) : (tensor<3x{t}>, tensor<3x{t}>) -> tensor<3x{t}>' for t in WIDE),
                     f"return {', '.join('%' + t for t in WIDE)} : {', '.join(f'tensor<3x{t}>' for t in WIDE)}",
                     arguments=", ".join(f"%{side}{t}: tensor<3x{t}>" for t in WIDE for side in "ab"), results=", ".join(f"tensor<3x{t}>" for t in WIDE)),
              [x for pair in WIDE.values() for x in pair], [upper_half(*pair) for pair in WIDE.values()]),
    "dynamic_conv": (module("%p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi64>", '%r = "stablehlo.dynamic_conv"(%a, %w, %p) <{dimension_numbers = '
                            "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : "
                            "(tensor<1x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi64>) -> tensor<1x3x1xf32>", "return %r : tensor<1x3x1xf32>",
                            arguments="%a: tensor<1x3x1xf32>, %w: tensor<2x1x1xf32>", results="tensor<1x3x1xf32>"),
                     [np.array([1, 2, 3], np.float32).reshape(1, 3, 1), np.array([10, 1], np.float32).reshape(2, 1, 1)],
                     [np.array([1, 12, 23], np.float32).reshape(1, 3, 1)]),
    "dynamic_pad between": (module("%v = stablehlo.constant dense<7.0> : tensor<f32>", "%i = stablehlo.constant dense<[0, 1]> : tensor<2xi64>",
                                   "%r = stablehlo.dynamic_pad %a, %v, %l, %h, %i : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>",
                                   "return %r : tensor<?x?xf32>", arguments="%a: tensor<2x3xf32>, %l: tensor<2xi64>, %h: tensor<2xi64>", results="tensor<?x?xf32>"),
                            [X, np.array([1, -1]), np.array([0, 1])],
                            [np.array([[7] * 5, [7, X[0, 1], 7, X[0, 2], 7], [7, X[1, 1], 7, X[1, 2], 7]], np.float32)]),
    "powers of unsigned integers": (module("%r = stablehlo.power %a, %b : tensor<3xui64>", "%s = stablehlo.power %c, %c : tensor<3xui8>",
                                           "return %r, %s : tensor<3xui64>, tensor<3xui8>", arguments="%a: tensor<3xui64>, %b: tensor<3xui64>, %c: tensor<3xui8>",
                                           results="tensor<3xui64>, tensor<3xui8>"),
                                    [np.array([0, 3, 2**63 + 1], np.uint64), np.array([0, 40, 2], np.uint64), np.array([0, 3, 5], np.uint8)],
                                    [np.array([1, 3**40, 1], np.uint64), np.array([1, 27, 5**5 % 256], np.uint8)]),
    "bits": (module("%b = stablehlo.bitcast_convert %a : (tensor<2xi16>) -> tensor<2x16xi1>", "%c = stablehlo.bitcast_convert %b : (tensor<2x16xi1>) -> tensor<2xui16>",
                    "return %b, %c : tensor<2x16xi1>, tensor<2xui16>", arguments="%a: tensor<2xi16>", results="tensor<2x16xi1>, tensor<2xui16>"),
             [np.array([5, -2], np.int16)], [np.array([[1, 0, 1] + 13 * [0], [0] + 15 * [1]], bool), np.array([5, 0xFFFE], np.uint16)]),
    "4 bits": (module("%p = stablehlo.popcnt %a : tensor<4xi4>", "%z = stablehlo.count_leading_zeros %a : tensor<4xi4>", "%q = stablehlo.popcnt %b : tensor<3xui2>",
                      "%s = stablehlo.add %b, %b : tensor<3xui2>", '%c = stablehlo.constant dense<"0x0F08F907"> : tensor<4xi4>', '%d = stablehlo.constant dense<"0x0E"> : tensor<4xi4>',
                      "return %a, %p, %z, %q, %s, %c, %d : tensor<4xi4>, tensor<4xi4>, tensor<4xi4>, tensor<3xui2>, tensor<3xui2>, tensor<4xi4>, tensor<4xi4>",
                      arguments="%a: tensor<4xi4>, %b: tensor<3xui2>", results="tensor<4xi4>, tensor<4xi4>, tensor<4xi4>, tensor<3xui2>, tensor<3xui2>, tensor<4xi4>, tensor<4xi4>"),
               [np.array([-1, 2, 0, 31], np.int8), np.array([3, 2, 7], np.uint8)],  # of 31 and 7 the lowest bits count
               [np.array(x, np.int8) for x in ([-1, 2, 0, -1], [4, 1, 0, 4], [0, 2, 4, 0])] + [np.array(x, np.uint8) for x in ([2, 1, 2], [2, 0, 2])]
               + [np.array(x, np.int8) for x in ([-1, -8, -7, 7], [-2] * 4)]),
    "complex bits": (module("%z = stablehlo.complex %a, %a : tensor<2x3xcomplex<f32>>",
                            "%w = stablehlo.reshape %z : (tensor<2x3xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>",
                            "%d = stablehlo.bitcast_convert %w : (tensor<3x2xcomplex<f32>>) -> tensor<3xcomplex<f64>>",
                            "%e = stablehlo.bitcast_convert %d : (tensor<3xcomplex<f64>>) -> tensor<3x2xcomplex<f32>>",
                            "%r = stablehlo.real %e : (tensor<3x2xcomplex<f32>>) -> tensor<3x2xf32>", "%i = stablehlo.imag %d : (tensor<3xcomplex<f64>>) -> tensor<3xf64>",
                            "return %r, %i : tensor<3x2xf32>, tensor<3xf64>", results="tensor<3x2xf32>, tensor<3xf64>"),
                     [X], [X.reshape(3, 2), np.repeat(X.reshape(3, 2)[:, 1:], 2, 1).view(np.float64)[:, 0]]),
    "complex order": (module("%z = stablehlo.complex %a, %b : tensor<2x3xcomplex<f32>>", "%w = stablehlo.complex %a, %c : tensor<2x3xcomplex<f32>>",
                             "%m = stablehlo.maximum %z, %w : tensor<2x3xcomplex<f32>>", "%n = stablehlo.minimum %z, %w : tensor<2x3xcomplex<f32>>",
                             "%i = stablehlo.imag %m : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>", "%j = stablehlo.imag %n : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>",
                             "return %i, %j : tensor<2x3xf32>, tensor<2x3xf32>", arguments="%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xf32>",
                             results="tensor<2x3xf32>, tensor<2x3xf32>"), [X, X, -X], [np.abs(X), -np.abs(X)]),
    "complex roots and angles": (module("%z = stablehlo.complex %a, %b : tensor<2x3xcomplex<f32>>", "%w = stablehlo.complex %b, %c : tensor<2x3xcomplex<f32>>",
                                        "%r = stablehlo.cbrt %z : tensor<2x3xcomplex<f32>>", "%t = stablehlo.atan2 %z, %w : tensor<2x3xcomplex<f32>>",
                                        *(f"%{name}{i} = stablehlo.{part} %{name} : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>"
                                          for name in "rt" for i, part in enumerate(("real", "imag"))),
                                        "return %r0, %r1, %t0, %t1 : " + ", ".join(["tensor<2x3xf32>"] * 4),
                                        arguments="%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xf32>", results=", ".join(["tensor<2x3xf32>"] * 4)),
                                 [X, X + 5, X + 2.5], [part(value) for value in ((X + 1j * (X + 5)) ** (1 / 3), np.arctan((X + 1j * (X + 5)) / (X + 5 + 1j * (X + 2.5))))
                                                       for part in (np.real, np.imag)]),
    "ragged products": (module("%r = \"chlo.ragged_dot\"(%a, %b, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
                               "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : "
                               "(tensor<6x2xf32>, tensor<3x2x4xf32>, tensor<3xi32>) -> tensor<6x4xf32>", "return %r : tensor<6x4xf32>",
                               arguments="%a: tensor<6x2xf32>, %b: tensor<3x2x4xf32>, %g: tensor<3xi32>", results="tensor<6x4xf32>"),
                        [ROWS, MATRICES, np.array([2, 0, 3], np.int32)], [np.concatenate([ROWS[:2] @ MATRICES[0], ROWS[2:5] @ MATRICES[2], np.zeros((1, 4))])]),
    "scan": (module("%z = stablehlo.constant dense<1.0> : tensor<2xf32>", "%r:3 = chlo.scan(%a, %i) inits(%z) dimension=1 attributes {is_reverse = true} {",
                    "^bb0(%x: tensor<2xf32>, %k: tensor<1xi32>, %c: tensor<2xf32>):", "  %s = stablehlo.add %x, %c : tensor<2xf32>",
                    "  %t = stablehlo.add %k, %k : tensor<1xi32>", "  stablehlo.return %c, %t, %s : tensor<2xf32>, tensor<1xi32>, tensor<2xf32>",
                    "} : (tensor<2x3xf32>, tensor<1x3xi32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<1x3xi32>, tensor<2xf32>)",
                    "return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<1x3xi32>, tensor<2xf32>", arguments="%a: tensor<2x3xf32>, %i: tensor<1x3xi32>",
                    results="tensor<2x3xf32>, tensor<1x3xi32>, tensor<2xf32>"), [X, np.array([[3, 4, 5]], np.int32)],
             [1 + np.stack([X[:, 1] + X[:, 2], X[:, 2], 0 * X[:, 0]], 1), np.array([[6, 8, 10]], np.int32), 1 + X.sum(1)]),
    "quantised types": (module(
        f"%s = stablehlo.add %a, %b : (tensor<3x{Q}>, tensor<3x{R}>) -> tensor<3x{R}>", f"%m = stablehlo.multiply %a, %a : (tensor<3x{Q}>, tensor<3x{Q}>) -> tensor<3x{Q}>",
        f"%t = stablehlo.tanh %b : (tensor<3x{R}>) -> tensor<3x{R}>", f"%d = stablehlo.uniform_dequantize %c : (tensor<2x3x{AXIS}>) -> tensor<2x3xf32>",
        f"%u = stablehlo.uniform_quantize %d : (tensor<2x3xf32>) -> tensor<2x3x{R}>", f"%v = stablehlo.transpose %u, dims = [1, 0] : (tensor<2x3x{R}>) -> tensor<3x2x{R}>",
        f"return %s, %m, %t, %d, %v : tensor<3x{R}>, tensor<3x{Q}>, tensor<3x{R}>, tensor<2x3xf32>, tensor<3x2x{R}>",
        arguments=f"%a: tensor<3x{Q}>, %b: tensor<3x{R}>, %c: tensor<2x3x{AXIS}>", results=f"tensor<3x{R}>, tensor<3x{Q}>, tensor<3x{R}>, tensor<2x3xf32>, tensor<3x2x{R}>"),
        [A8, B8, C8], [quantised(floats_of(A8, 0.25, -30) + floats_of(B8, 0.5, 3), 0.5, 3, -100, 100), quantised(floats_of(A8, 0.25, -30) ** 2, 0.25, -30, -128, 127),
                       quantised(np.tanh(floats_of(B8, 0.5, 3)), 0.5, 3, -100, 100), C_FLOATS, quantised(C_FLOATS, 0.5, 3, -100, 100).T]),
    "an initial value of another type": (module("%c = stablehlo.constant dense<-128> : tensor<i8>", "%i = stablehlo.convert %c : (tensor<i8>) -> tensor<i32>",
                                                "%r = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>",
                                                "return %r : tensor<i32>", arguments="%a: tensor<2xi32>", results="tensor<i32>"),
                                         [np.array([-300, -200], np.int32)], [np.array(-128, np.int32)]),
    "scatter with a region": (module('%r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], '
                                     "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({",
                                     "^bb0(%x: tensor<f32>, %y: tensor<f32>):", "  %s = stablehlo.subtract %y, %x : tensor<f32>", "  stablehlo.return %s : tensor<f32>",
                                     "}) : (tensor<2x3xf32>, tensor<1x1xi32>, tensor<1x3xf32>) -> tensor<2x3xf32>", "return %r : tensor<2x3xf32>",
                                     arguments="%a: tensor<2x3xf32>, %i: tensor<1x1xi32>, %u: tensor<1x3xf32>"),
                              [X, np.array([[1]], np.int32), np.ones((1, 3), np.float32)], [np.stack([X[0], 1 - X[1]])]),
}

MESSAGES = {  # a program, and what the message about it says
    "no file end": ("module {", r"line 1, column 9: expected .*found the end of the file"),
    "no function": ("module {}", r"expected a module with a function @main"),
    "nothing": ("", r"line 1, column 1: expected a module with a function"),
    "neither form": ("ML\0\0", r"neither text nor MLIR bytecode"),
    "an unknown value": (module("return %b : tensor<2x3xf32>"), r"line 2, column 10: %b is used, but no operation before defines it"),
    "a value twice": (module("%a = stablehlo.abs %a : tensor<2x3xf32>", "return %a : tensor<2x3xf32>"), r"%a is defined twice"),
    "no return": (module("%b = stablehlo.abs %a : tensor<2x3xf32>"), r"does not end with a return"),
    "another type": (module("%b = stablehlo.abs %a : (tensor<3xf32>) -> tensor<3xf32>", "return %b : tensor<3xf32>"),
                     r"line 2, column 3: stablehlo.abs: operand %a is a tensor<2x3xf32>, but the operation states tensor<3xf32>"),
    "another result": (module("%b = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %b : tensor<2x3xf32>"),
                       r"line 2, column 3: stablehlo.transpose: the operation states the result tensor<2x3xf32>, but its operands give f32\[3, 2\]"),
    "an axis that does not exist": (module("%b = stablehlo.transpose %a, dims = [1, 7] : (tensor<2x3xf32>) -> tensor<3x2xf32>", "return %b : tensor<3x2xf32>"),
                                    r"axis 7 does not exist, the tensor has 2"),
    "too few elements": (module("%b = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>", "return %b : tensor<3xf32>"), r"line 2, column 42: expected ',', found '\]'"),
    "a word for a number": (module("%b = stablehlo.constant dense<[one]> : tensor<1xf32>", "return %b : tensor<1xf32>"), r"expected a number, found 'one\]'|expected a number, found 'one'"),
    "huge extents": (module("return %a : tensor<9999999999x9999999999xf32>", arguments="%a: tensor<9999999999x9999999999xf32>"), r"more than 2\^59 elements"),
    "an element type": (module("return %a : tensor<3xf4E2M1FN>", arguments="%a: tensor<3xf4E2M1FN>"), r"the element type f4E2M1FN is not supported"),
    "an element of more bits": (module("%b = stablehlo.constant dense<[1, 16]> : tensor<2xi4>", "return %b : tensor<2xi4>"), r"needs more than the 4 bits of its type"),
    "negative without a sign": (module("%b = stablehlo.constant dense<[1, -1]> : tensor<2xui2>", "return %b : tensor<2xui2>"), r"needs more than the 2 bits of its type"),
    "powers of 4 bits": (module("%b = stablehlo.power %a, %a : tensor<3xi4>", "return %b : tensor<3xi4>", arguments="%a: tensor<3xi4>", results="tensor<3xi4>"),
                         r"stablehlo.power: elements of fewer than 8 bits"),
    "parts of 4 bits": (module("%b = stablehlo.bitcast_convert %a : (tensor<3xi8>) -> tensor<3x2xi4>", "return %b : tensor<3x2xi4>", arguments="%a: tensor<3xi8>",
                               results="tensor<3x2xi4>"), r"stablehlo.bitcast_convert: elements of fewer than 8 bits and those of another width"),
    "a scan of other slices": (module("%r:2 = chlo.scan(%a) inits(%c) dimension=0 {", "^bb0(%x: tensor<2xf32>, %s: tensor<3xf32>):",
                                      "  stablehlo.return %x, %s : tensor<2xf32>, tensor<3xf32>", "} : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x2xf32>, tensor<3xf32>)",
                                      "return %r#1 : tensor<3xf32>", arguments="%a: tensor<2x3xf32>, %c: tensor<3xf32>", results="tensor<3xf32>"),
                               r"chlo.scan: argument 0 of the body is no slice of the input along axis 0"),
    "ragged sizes": (TEXTS["ragged products"][0].replace("tensor<3xi32>", "tensor<2xi32>"), r"chlo.ragged_dot: expected a size for each group"),
    "products of quantised numbers": (module(f"%b = stablehlo.dot %a, %a : (tensor<3x{Q}>, tensor<3x{Q}>) -> tensor<{Q}>", f"return %b : tensor<{Q}>",
                                             arguments=f"%a: tensor<3x{Q}>", results=f"tensor<{Q}>"), r"stablehlo.dot: quantised types: write it without quantisation"),
    "a scale of 0": (module("return %a : tensor<3xf32>", arguments="%a: tensor<3x!quant.uniform<i8:f32, 0.0>>"), r"expected a scale above 0"),
    "a zero point out of range": (module("return %a : tensor<3xf32>", arguments="%a: tensor<3x!quant.uniform<u8:f32, 1.0:-1>>"), r"a zero point is out of the range"),
    "a range out of range": (module("return %a : tensor<3xf32>", arguments="%a: tensor<3x!quant.uniform<i8<-129:3>:f32, 1.0>>"), r"the range of a quantised type"),
    "scales that are missing": (module("return %a : tensor<3xf32>", arguments="%a: tensor<3x!quant.uniform<u8:f32:0, {1.0, 2.0}>>"), r"needs a scale for each index of its axis"),
    "quantised integers of 32 bits": (module("return %a : tensor<3xf32>", arguments="%a: tensor<3x!quant.uniform<i32:f32, 1.0>>"), r"must be i8, u8, i16 or u16, found i32"),
    "a quantisation of floats": (module("%b = stablehlo.uniform_quantize %a : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %b : tensor<2x3xf32>"), r"expected a quantised type"),
    "no rank": (module("return %a : tensor<*xf32>", arguments="%a: tensor<*xf32>"), r"a tensor without a rank is not supported"),
    "narrow floats in another precision": (module("%b = stablehlo.reduce_precision %a, format = e3m2 : tensor<2xf8E4M3>", "return %b : tensor<2xf8E4M3>",
                                                  arguments="%a: tensor<2xf8E4M3>", results="tensor<2xf8E4M3>"), r"expected an operand of f16, bf16, f32 or f64, found f8e4m3"),
    "a format without bits": (module("%b = stablehlo.reduce_precision %a, format = e0m2 : tensor<2x3xf32>", "return %b : tensor<2x3xf32>"),
                              r"expected a format from e1m0 to e11m52, found e0m2"),
    "a token for a matrix": (module("%k = stablehlo.create_token : !stablehlo.token", '%b = "stablehlo.triangular_solve"(%k, %a) <{left_side = true, lower = true, '
                                    "unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (!stablehlo.token, tensor<2x3xf32>) -> tensor<2x3xf32>",
                                    "return %b : tensor<2x3xf32>"), r"stablehlo.triangular_solve: expected tensors"),
    "a padding that is not known": (module('%r = "stablehlo.dynamic_conv"(%a, %w, %p) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, '
                                           "feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi64>) -> "
                                           "tensor<1x?x1xf32>", "return %r : tensor<1x?x1xf32>", arguments="%a: tensor<1x3x1xf32>, %w: tensor<2x1x1xf32>, %p: tensor<1x2xi64>",
                                           results="tensor<1x?x1xf32>"), r"stablehlo.dynamic_conv: padding that is known only when the program runs"),
    "recursion": (module("%b = call @main(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %b : tensor<2x3xf32>"), r"recursion is not supported"),
    "an absent function": (module("%b = call @f(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %b : tensor<2x3xf32>"), r"the function @f does not exist"),
    "an operation of no library": (module('%b = "our.gelu"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>', "return %b : tensor<2x3xf32>"),
                                   r"our.gelu: no loaded library has the operator our::gelu \(line 2\)"),
    "a target of no library": (module("%b = stablehlo.custom_call @our.gelu(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %b : tensor<2x3xf32>"),
                               r"stablehlo.custom_call: the target our.gelu, which is no operator of a loaded library"),
    "a target of Tenon": (module('%b = stablehlo.custom_call @tenon_cpu(%a) {text = "our::gelu"} : (tensor<2x3xf32>) -> tensor<2x3xf32>', "return %b : tensor<2x3xf32>"),
                          r"a call with the target tenon_cpu has no text `call`"),
    "all operations that are missing": (module('%b = "stablehlo.replica_id"() : () -> tensor<ui32>', '%c = "our.f"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
                                               "return %c : tensor<2x3xf32>"), r"(?s)stablehlo.replica_id: it communicates.*our.f: no loaded library"),
    "a complex input": (module("return %a : tensor<3xcomplex<f32>>", arguments="%a: tensor<3xcomplex<f32>>", results="tensor<3xcomplex<f32>>"),
                        r"input 0 is a tensor<3xcomplex<f32>>: pass real and imaginary parts"),
    "deep nesting": (module("%b = stablehlo.abs %a {x = " + "[" * 100 + "]" * 100 + "} : tensor<2x3xf32>", "return %b : tensor<2x3xf32>"), r"more than 64 levels of nesting"),
    "a resource that is missing": (module("%b = stablehlo.constant dense_resource<w> : tensor<3xf32>", "return %b : tensor<3xf32>"), r"the resource 'w' is not in the file"),
}


LONG_LOOP = """func.func @main(%x: tensor<1000000xf32>) -> tensor<1000000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<1000000xf32>
  cond {
    %most = stablehlo.constant dense<500> : tensor<i32>
    %c = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.sine %s : tensor<1000000xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<1000000xf32>
  }
  return %r#1 : tensor<1000000xf32>
}
"""

MEASURE_LOOP = """
import resource, sys
import numpy as np
import tenon.graph
run = tenon.graph.load(sys.argv[1]).compile()
x = np.ones(1000000, np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


class Texts(unittest.TestCase):
    """Programs written by hand."""
    parts = 0

    def test_programs_give_the_values_of_the_specification(self):
        for name, (text, inputs, expected) in TEXTS.items():
            with self.subTest(name):
                for value, right in zip(run(text, inputs), expected, strict=True):
                    np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5)
                Texts.parts += 1

    def test_decimal_constants_of_narrow_floats_are_rounded_to_the_nearest(self):
        import ml_dtypes
        numbers = [0.0, -0.0, 0.1, -3.1415, 0.4375, 1e-6, 1e-9, 0.0009765625, 0.00146484375, 13.0, -14.5, 240.0, 1e9]
        for element in "bf16", "f16", "f8E3M4", "f8E4M3", "f8E4M3FN", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU":
            with self.subTest(element):
                name = {"bf16": "bfloat16", "f16": "float16"}.get(element) or re.sub(r"f8E(\d)M(\d)(\w*)", lambda m: f"float8_e{m[1]}m{m[2]}{m[3].lower()}", element)
                dtype = np.dtype(getattr(ml_dtypes, name, name))
                values = [x for x in numbers if x > 0] if "E8M0" in element else numbers
                kind, bits = f"{len(values)}x{element}", f"{len(values)}xui{8 * dtype.itemsize}"
                text = module(f"%c = stablehlo.constant dense<{values}> : tensor<{kind}>", f"%b = stablehlo.bitcast_convert %c : (tensor<{kind}>) -> tensor<{bits}>",
                              f"return %b : tensor<{bits}>", arguments="", results=f"tensor<{bits}>")
                with np.errstate(over="ignore"):
                    found, right = run(text, [])[0].view(dtype), np.array(values).astype(dtype)
                np.testing.assert_array_equal(found.astype(np.float64), right.astype(np.float64))
                np.testing.assert_array_equal(np.signbit(found.astype(np.float64)), np.signbit(right.astype(np.float64)))
                Texts.parts += 1

    def test_products_of_narrow_floats_are_summed_in_wider_ones(self):
        text = module("%c = stablehlo.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf8E4M3>",
                      "%d = stablehlo.dot_general %c, %c, contracting_dims = [0] x [0] : (tensor<4xf8E4M3>, tensor<4xf8E4M3>) -> tensor<f8E4M3>",
                      "%r = stablehlo.convert %d : (tensor<f8E4M3>) -> tensor<f32>", "return %r : tensor<f32>", arguments="", results="tensor<f32>")
        self.assertEqual(run(text, [])[0], 14)

    def test_a_loop_keeps_no_states_of_earlier_iterations(self):
        path = os.path.join(FOLDER, "long.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(LONG_LOOP)
        grown = subprocess.run([sys.executable, "-c", MEASURE_LOOP, path], env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")},
                               capture_output=True, text=True, check=True).stdout
        self.assertLess(int(grown), 100)  # MiB; the states of all iterations have 2000

    def test_random_numbers_have_the_stated_distribution(self):
        text = module("%a = stablehlo.constant dense<2.0> : tensor<f32>", "%b = stablehlo.constant dense<3.0> : tensor<f32>",
                      "%s = stablehlo.constant dense<[100, 100]> : tensor<2xi64>",
                      "%u = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<100x100xf32>",
                      "%n = stablehlo.rng %a, %b, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<100x100xf32>",
                      "return %u, %n : tensor<100x100xf32>, tensor<100x100xf32>", arguments="", results="tensor<100x100xf32>, tensor<100x100xf32>")
        uniform, normal = run(text, [])
        self.assertTrue(2 <= uniform.min() < 2.01 and 2.99 < uniform.max() < 3)
        self.assertTrue(abs(normal.mean() - 2) < 0.15 and abs(normal.std() - 3) < 0.15)

    def test_messages_say_where_what_and_why(self):
        for name, (text, pattern) in MESSAGES.items():
            with self.subTest(name), self.assertRaisesRegex(tenon.Error, pattern):
                load(text)
            Texts.parts += 1

    def test_programs_that_would_take_long_are_refused_soon(self):
        doubled = "".join(f"  %{side}{i + 1} = stablehlo.add %{side}{i}, %{side}{i} : tensor<f32>\n" for i in range(40) for side in "xy")
        text = module('%r = "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({', "^bb0(%x0: tensor<f32>, %y0: tensor<f32>):", doubled,
                      "  %c = stablehlo.compare LT, %x40, %y40 : (tensor<f32>, tensor<f32>) -> tensor<i1>", "  stablehlo.return %c : tensor<i1>",
                      "}) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "return %r : tensor<2x3xf32>")
        np.testing.assert_array_equal(run(text, [-X])[0], np.sort(-X, 1))
        calls = "".join(f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{\n  %b = call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>\n"
                        f"  %c = call @f{i + 1}(%b) : (tensor<f32>) -> tensor<f32>\n  return %c : tensor<f32>\n}}\n" for i in range(50))
        text = calls + "func.func private @f50(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n"
        main = module("%b = call @f0(%a) : (tensor<f32>) -> tensor<f32>", "return %b : tensor<f32>", arguments="%a: tensor<f32>", results="tensor<f32>")
        with self.assertRaisesRegex(tenon.Error, "more than 1048576 operations"):
            load(main + text)

    def test_refused_operations_are_named_with_their_reasons(self):
        for operation, _, _, reason, _ in table_rows():
            if reason:
                with self.subTest(operation), self.assertRaisesRegex(tenon.UnimplementedError, re.escape(f"{operation}: {reason}")):
                    load(module(f'%b = "{operation}"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>', "return %b : tensor<2x3xf32>"))
                Texts.parts += 1

    def test_operations_of_loaded_libraries_become_their_operators(self):
        folder = os.path.join(FOLDER, "library")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "ours.c"), "w", encoding="utf-8") as file:
            file.write(LIBRARY)
        tenon.load(os.path.join(folder, "ours.c"))
        generic = module('%b = "ours.scale"(%a) {factor = 3.0 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>', "return %b : tensor<2x3xf32>")
        call = module("%b = stablehlo.custom_call @ours.scale(%a) {mhlo.backend_config = {factor = 3.0 : f32}} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
                      "return %b : tensor<2x3xf32>")
        for text in generic, call, call.replace("ours.scale", '"ours::scale"'):
            np.testing.assert_array_equal(run(text, [X])[0], 3 * X)
        with self.assertRaisesRegex(tenon.Error, "line 2, column 3: ours.scale: .*colour"):
            load(generic.replace("factor =", "colour ="))

    def test_the_command_runs_a_program_whose_name_ends_in_stablehlo(self):
        path = os.path.join(FOLDER, "program.stablehlo")
        with open(path, "w", encoding="utf-8") as file:
            file.write(module("%b = stablehlo.abs %a : tensor<2x3xf32>", "return %b : tensor<2x3xf32>"))
        done = subprocess.run([os.path.join(BUILD, "tenon"), "run", path, "--input", "arg0=random:0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


LIBRARY = """
#include <tenon/op.h>
static tenon_status_t scale(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) y[i] = x[i] * (float)call->attrs[0].as.f;
  return TENON_OK;
}
TENON_LIBRARY(ours, "1.0", TENON_OP("scale(Tensor x, *, float factor=1.0) -> Tensor", TENON_TYPES("x: f32; out = x"),
  TENON_SHAPES("x: [...]; out: [...]"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", scale)))
"""

MUTATIONS = r"""
import os, random, sys
sys.path[:0] = [sys.argv[1]]
import tenon, tenon.graph
folder, count = sys.argv[2], int(sys.argv[3])
texts = [open(os.path.join(folder, name)).read() for name in sorted(os.listdir(folder)) if name.endswith(".base")]
path = os.path.join(folder, "damaged.mlir")
numbers = ["-1", "0", "1", "7", "99999999", "9223372036854775807", "18446744073709551616", "?", "0x7FC00000", "f32", "i1", "complex<f32>"]
loaded = refused = 0
for seed in range(count):
    pick = random.Random(seed)
    text = list(pick.choice(texts))
    for _ in range(pick.choice([1, 1, 2, 5])):
        at, other = pick.randrange(len(text)), pick.randrange(len(text))
        size = pick.choice([1, 1, 2, 5, 30])
        digits = [i for i, c in enumerate(text) if c.isdigit()] or [at]
        kind = pick.randrange(7)
        if kind == 0: text[at] = pick.choice("()<>[]{}%:,=-x?#@\"0123456789 \n")
        elif kind == 1: del text[at:at + size]
        elif kind == 2: text[at:at] = text[other:other + size]
        elif kind == 3: text[at:at + size], text[other:other + size] = text[other:other + size], text[at:at + size]
        elif kind == 4: text[pick.choice(digits)] = pick.choice(numbers)
        elif kind == 5: text = text[:at] if pick.random() < 0.2 else text
        else:
            lines = "".join(text).split("\n")
            i, k = pick.randrange(len(lines)), pick.randrange(len(lines))
            lines[i], lines[k] = lines[k], lines[i]
            text = list("\n".join(lines))
        if not text: break
    with open(path, "w") as file: file.write("".join(text))
    with open(os.path.join(folder, "seed"), "w") as file: file.write(str(seed))
    try:
        tenon.graph.load(path)
        loaded += 1
    except tenon.Error as error:
        refused += 1
        assert str(error).count("damaged.mlir") >= 1, error
print(loaded, refused)
"""


@unittest.skipUnless(jax, "there is no JAX")
class Damage(unittest.TestCase):
    def test_damaged_programs_are_refused_or_loaded_but_never_crash(self):
        folder = os.path.join(FOLDER, "damage")
        os.makedirs(folder)
        cases = {**stablehlo_cases.operations(), **stablehlo_cases.models()}
        for i, name in enumerate(DAMAGED):
            with open(os.path.join(folder, f"{i}.base"), "w", encoding="utf-8") as file:
                file.write(forms_of(cases[name][0], *cases[name][1])["generic" if i % 3 == 2 else "short"])
        for i, (text, _, _) in enumerate(TEXTS.values()):
            with open(os.path.join(folder, f"text{i}.base"), "w", encoding="utf-8") as file:
                file.write(text)
        script = os.path.join(FOLDER, "mutations.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(MUTATIONS)
        count = os.environ.get("TENON_MUTATIONS", "4000")
        done = subprocess.run([sys.executable, script, os.path.join(BUILD, "python"), folder, count], capture_output=True, text=True)
        with open(os.path.join(folder, "seed"), encoding="utf-8") as file:
            seed = file.read()
        self.assertEqual(done.returncode, 0, f"seed {seed}: {done.stderr[-2000:]}")
        loaded, refused = map(int, done.stdout.split())
        self.assertGreater(refused, 0.4 * int(count))


DAMAGED = ("training step", "convolution transposed", "gradient of max pooling", "scan", "switch", "argmax", "argsort", "sort of several operands",
           "gather of windows", "scatter of windows", "dynamic_update_slice", "pad between", "complex", "rfft2", "normal", "cumsum", "fori", "top_k", "constant lists",
           "dot_general with several axes", "solve_triangular", "bitcast to narrower")


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

    def test_composites_of_known_operations_become_these_operations(self):
        from jax import export
        x = np.linspace(-0.9, 0.9, 8, dtype=np.float32).reshape(2, 4)
        functions = {"acos": jnp.arccos, "acosh": lambda x: jnp.arccosh(x + 2), "asin": jnp.arcsin, "asinh": jnp.arcsinh, "atanh": jnp.arctanh,
                     "cosh": jnp.cosh, "erf": lax.erf, "sinh": jnp.sinh, "top_k": lambda x: lax.top_k(x, 3)}
        for name, function in functions.items():
            with self.subTest(name):
                exported = export.export(jax.jit(function))(x)
                text = exported.mlir_module()
                expected = [np.asarray(y) for y in jax.tree.leaves(jax.jit(function)(x))]
                self.assertIn(f'composite "chlo.{name}"', text)
                counts = []
                # Without a known version, or with an attribute that is not known, the decomposition runs.
                unknown = text.replace("version = 1 : i32", "version = 2 : i32")
                more = re.sub(r"composite_attributes = {", "composite_attributes = {other = 3 : i64, ", text)
                for form in text, exported.mlir_module_serialized, unknown, *[more] * (more != text):
                    self.compare(run(form, [x]), expected)
                    counts.append(len(load(form).nodes))
                self.assertEqual(counts[0], counts[1])
                self.assertLess(counts[0], 4)
                self.assertGreater(min(counts[2:]), counts[0] + 3)
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

    def test_inputs_and_outputs_have_the_names_that_jax_states(self):
        from jax import export
        def function(params, x):
            return {"y": x @ params["w"], "z": x}
        arguments = {"w": stablehlo_cases.floats(4, 3)}, stablehlo_cases.floats(2, 4)
        lowered = jax.jit(function).lower(*arguments)
        outputs = ["result['y']", "result['z']"]
        for text, inputs in ((lowered.as_text(), ["arg0", "arg1"]), (lowered.as_text(debug_info=True), ["params['w']", "x"])):
            graph = load(text)
            self.assertEqual(([port[0] for port in graph.inputs], [port[0] for port in graph.outputs]), (inputs, outputs))
        shapes = {"w": jax.ShapeDtypeStruct((4, 3), np.float32)}, jax.ShapeDtypeStruct(export.symbolic_shape("b, 4"), np.float32)
        graph = load(export.export(jax.jit(function))(*shapes).mlir_module())
        self.assertEqual([port[0] for port in graph.inputs], ["params['w']", "x"])

    def test_programs_of_64_bit_numbers_give_what_jax_gives(self):
        with jax.enable_x64(True):
            for name, case in stablehlo_cases.doubles().items():
                with self.subTest(name):
                    self.check(*case)
                    AgainstJax.parts += 1

    @staticmethod
    def solved(a, b):
        found = [jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=trans) for trans in range(3)]
        return jnp.stack([part(x) for x in found for part in (jnp.real, jnp.imag)])

    def test_programs_for_other_platforms_give_what_jax_gives(self):
        from jax import export
        square = np.eye(4, dtype=np.float32) * 3 + 0.5
        for name, function in {"cholesky": jnp.linalg.cholesky, "triangular_solve": lambda a: jax.scipy.linalg.solve_triangular(a, a[:, :2], lower=True),
                               "complex matrices": lambda a: self.solved(a + 1j * a.T, a[:, :2] - 2j * a[:, 1:3]),
                               "the right side": lambda a: lax.linalg.triangular_solve(a, a[:2], lower=False, transpose_a=True)}.items():
            with self.subTest(name):
                text = export.export(jax.jit(function), platforms=["tpu"])(square).mlir_module()
                self.assertIn("stablehlo." + ("cholesky" if name == "cholesky" else "triangular_solve"), text)
                self.compare(run(text, [square]), [np.asarray(function(square))])


class WhatRan(unittest.TestCase):  # unittest runs classes in the order of their names
    def test_each_operation_of_the_table_occurs_in_a_program(self):
        if not AgainstJax.parts or not Texts.parts:
            self.skipTest("only some of the tests ran")
        self.assertEqual(sorted({operation for operation, _, _, reason, _ in table_rows() if not reason} - seen), [])


def write_table():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page[:page.index(BEGIN) + len(BEGIN)] + table_text() + page[page.index(END):])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_table()
    else:
        totals.main(lambda: AgainstJax.parts + Texts.parts)
