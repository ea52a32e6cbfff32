"""Models that change their format: programs of JAX become models of ONNX, and models of ONNX become programs of StableHLO.

Each result is compared with what the other side computes: ONNX Runtime runs what was JAX's, and XLA compiles what was ONNX's. ONNX Runtime and
the helpers of ONNX are in another Python than JAX (convert_oracle.py), so models and values pass through files.

Usage: convert_test.py [--write]. With --write the table of operators in docs/convert.md is written anew.
"""
import atexit
import os
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

import convert_control
import totals

try:
    import jax
    import jax.numpy as jnp
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    jax.config.update("jax_enable_x64", True)  # models of ONNX have 64-bit integers
except ImportError as error:
    jax, missing = None, str(error)

FOLDER = tempfile.mkdtemp(prefix="tenon-convert-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
COMMAND = os.path.join(BUILD, "tenon")
ORACLE = [os.path.join(ROOT, ".venv", "bin", "python"), os.path.join(ROOT, "tests", "adapters", "convert_oracle.py")]


def in_folder(name):
    return os.path.join(FOLDER, name)


def convert(source, target, *options):
    """Runs the command and returns what it printed as an error; "": it succeeded."""
    done = subprocess.run([COMMAND, "convert", in_folder(source), in_folder(target), *options], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def compile_xla(path):
    """Compiles a program as JAX does; returns a function of arrays that gives the list of results."""
    device = jax.devices()[0]
    with open(path, encoding="utf-8") as file, mlir.make_ir_context():
        module = ir.Module.parse(file.read())
        module.operation.verify()
        executable = device.client.compile_and_load(mlir.module_to_bytecode(module), xla_client.DeviceList((device,)), xla_client.CompileOptions())

    def run(*arguments):
        results = executable.execute_sharded([jax.device_put(x, device) for x in arguments])
        return [np.asarray(each[0]) for each in results.disassemble_into_single_device_arrays()]
    return run


def run_ort(runs):
    """Runs [(model, inputs)] with ONNX Runtime; returns the results by name, or the message of a failure, for each."""
    arguments = []
    for i, (model, inputs) in enumerate(runs):
        np.savez(in_folder(f"ort{i}.in.npz"), **inputs)
        arguments += [model, in_folder(f"ort{i}.in.npz"), in_folder(f"ort{i}.out.npz")]
        if os.path.exists(arguments[-1]):
            os.remove(arguments[-1])
    done = subprocess.run([*ORACLE, "run", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [dict(np.load(path)) if os.path.exists(path) else done.stderr for path in arguments[2::3]]


def write_program(name, function, arguments, **named):
    with open(in_folder(name), "w", encoding="utf-8") as file:
        file.write(jax.jit(function, keep_unused=True).lower(*arguments).as_text(**named))


def floats(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


def mlp(w, v, b, x):
    return jax.nn.softmax(jax.nn.relu(x @ w + b) @ v)


def cnn(kernel, w, x):
    y = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return y.mean((2, 3)) @ w


def attention(wq, wk, wv, scale, x):
    def heads(w):
        return (x @ w).reshape(2, 5, 4, 2).transpose(0, 2, 1, 3)
    weights = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", heads(wq), heads(wk)) / np.float32(np.sqrt(2)))
    y = x + jnp.einsum("bhqk,bhkd->bhqd", weights, heads(wv)).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    mean = y.mean(-1, keepdims=True)
    return jax.nn.gelu((y - mean) * jax.lax.rsqrt(((y - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale)


PROGRAMS = {
    "mlp": (mlp, (floats(4, 8), floats(8, 3), floats(8), floats(2, 4))),
    "cnn": (cnn, (floats(6, 3, 3, 3), floats(6, 5), floats(2, 3, 8, 8))),
    "attention block": (attention, (floats(8, 8), floats(8, 8, seed=1), floats(8, 8, seed=2), floats(8), floats(2, 5, 8))),
}


@unittest.skipUnless(jax, "there is no JAX")
@unittest.skipUnless(os.path.exists(ORACLE[0]), ".venv is missing (make test makes it)")
class Values(unittest.TestCase):
    """What the models compute."""
    parts = 0

    def compare(self, found, expected):
        self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)

    def test_programs_of_jax_give_the_same_values_in_onnx_runtime_and_back_in_xla(self):
        runs, programs = [], {**PROGRAMS, **convert_control.programs(jax)}
        for name, (function, arguments) in programs.items():
            write_program(name + ".mlir", function, arguments)
            self.assertEqual(convert(name + ".mlir", name + ".onnx"), "")
            self.assertEqual(convert(name + ".onnx", name + ".again.mlir"), "")
            runs.append((in_folder(name + ".onnx"), {f"arg{i}": x for i, x in enumerate(arguments)}))
        for (name, (function, arguments)), found in zip(programs.items(), run_ort(runs)):
            expected = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*arguments))]
            with self.subTest(name):
                self.assertIsInstance(found, dict, found)
                ports = [port[0] for port in tenon.graph.load(in_folder(name + ".onnx")).outputs]
                again = compile_xla(in_folder(name + ".again.mlir"))(*arguments)
                for port, value, right in zip(ports, again, expected, strict=True):
                    self.compare(found[port], right)
                    self.compare(value, right)
                Values.parts += 1

    def test_each_operator_of_onnx_gives_the_same_values_in_xla_and_in_tenon(self):
        names = make_cases()
        for name in names:
            graph = tenon.graph.load(in_folder(name + ".onnx"))
            given, expected = np.load(in_folder(name + ".in.npz")), np.load(in_folder(name + ".out.npz"))
            inputs = [given[port[0]] for port in graph.inputs]
            with self.subTest(name):
                graph.export(in_folder("case.mlir"))
                for found, port in zip(compile_xla(in_folder("case.mlir"))(*inputs), graph.outputs):
                    self.compare(found, expected[port[0]])
                again = tenon.graph.load(in_folder("case.mlir"))
                self.assertEqual([port[0] for port in again.inputs + again.outputs], [port[0] for port in graph.inputs + graph.outputs])
                results = again.compile()(*inputs)
                for found, port in zip(results if isinstance(results, tuple) else (results,), graph.outputs):
                    self.compare(np.asarray(found), expected[port[0]])
                Values.parts += 1
        self.assertGreater(len(names), 130)

    def test_each_operator_of_onnx_is_written_as_an_operator_of_onnx(self):
        runs, names = [], make_cases()
        for name in names:
            tenon.graph.load(in_folder(name + ".onnx")).export(in_folder(name + ".standard.onnx"))
            runs.append((in_folder(name + ".standard.onnx"), dict(np.load(in_folder(name + ".in.npz")))))
        for name, found in zip(names, run_ort(runs)):
            with self.subTest(name):
                self.assertIsInstance(found, dict, found)
                for key, value in np.load(in_folder(name + ".out.npz")).items():
                    self.compare(found[key], value)
                Values.parts += 1

    def test_models_of_the_repository_give_the_same_values_in_onnx_runtime(self):
        models = {"convolution": {"x": floats(2, 3, 12, 12)}, "transformer": {"ids": np.arange(10).reshape(2, 5)}}
        runs = []
        for name, inputs in models.items():
            model = os.path.join(ROOT, "tests", "data", "models", name + ".onnx")
            self.assertEqual(convert(model, name + ".standard.onnx"), "")
            runs += [(model, inputs), (in_folder(name + ".standard.onnx"), inputs)]
        results = run_ort(runs)
        for name, expected, found in zip(models, results[::2], results[1::2]):
            with self.subTest(name):
                self.assertIsInstance(found, dict, found)
                self.assertEqual(sorted(found), sorted(expected))
                for key, value in expected.items():
                    self.compare(found[key], value)
                Values.parts += 1

def make_cases():
    """Writes the models of convert_oracle.py once, and returns their names."""
    if not os.path.exists(in_folder("cases")):
        subprocess.run([*ORACLE, "make", FOLDER], check=True)
        with open(in_folder("cases"), "w", encoding="utf-8"):
            pass
    return sorted(name[:-7] for name in os.listdir(FOLDER) if name.endswith(".in.npz") and not name.startswith("ort"))


LIBRARY = r"""
#include <tenon/op.h>
static tenon_status_t scale(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = x[i] * (float)loop->attrs[0].as.f;
  return TENON_OK;
}
TENON_LIBRARY(ours, "1.0.0",
  TENON_OP("scale(Tensor x, *, float factor=1.0, str['up', 'down'] mode='up', int[] axes=[], str note='') -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", scale)))
"""


class Forms(unittest.TestCase):
    """What is written, and what is refused."""

    @classmethod
    def setUpClass(cls):
        os.makedirs(in_folder("library"), exist_ok=True)
        with open(in_folder("library/ours.c"), "w", encoding="utf-8") as file:
            file.write(LIBRARY)
        tenon.load(in_folder("library/ours.c"))
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", [2, 3])
        y = tenon.graph.ops.ours.scale(tenon.graph.ops.core.relu(x), factor=0.1, mode="down", axes=[1, 0], note='a "b"')
        cls.graph = builder.finish({"y": y})

    def test_an_operator_of_a_library_keeps_its_attributes_in_both_forms(self):
        graph, x = self.graph, floats(2, 3)
        for name in "one.mlir", "two.onnx", "three.mlir", "four.onnx":
            graph.export(in_folder(name))
            graph = tenon.graph.load(in_folder(name))
            node = [node for node in graph.nodes if node.op == "ours::scale"][0]
            self.assertEqual(node.attributes, {"factor": 0.1, "mode": "down", "axes": [1, 0], "note": 'a "b"'})
            np.testing.assert_array_equal(graph.compile()(x), np.maximum(x, 0) * np.float32(0.1))
        with open(in_folder("one.mlir"), encoding="utf-8") as file:
            self.assertIn('call_target_name = "ours.scale"', file.read())

    def test_nodes_that_a_format_lacks_are_all_named(self):
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", [4, 4])
        first = tenon.graph.ops.core.det(x, name="first")
        second = tenon.graph.ops.core.strided_copy(x, builder.constant(np.array([2, 2])), strides=[1, 1], name="second")
        graph = builder.finish({"y": first, "z": second})
        with self.assertRaisesRegex(tenon.Error, r"(?s)a.mlir: nodes that StableHLO cannot express:.*'first' \(core::det\).*'second' \(core::strided_copy\)"):
            graph.export(in_folder("a.mlir"))
        with self.assertRaisesRegex(tenon.Error, r"(?s)a.onnx: nodes that ONNX's operators cannot express:\n  node 'second' \(core::strided_copy\): no ONNX"):
            graph.export(in_folder("a.onnx"))
        self.assertFalse(os.path.exists(in_folder("a.mlir")) or os.path.exists(in_folder("a.onnx")))

    def test_attributes_that_onnx_lacks_are_named(self):
        builder = tenon.graph.Builder()
        a = builder.input("a", "f32", [2, 2])
        graph = builder.finish({"y": tenon.graph.ops.core.matmul(a, a, activation="mish", name="product")})
        with self.assertRaisesRegex(tenon.Error, r"node 'product' \(core::matmul\): .*activation"):
            graph.export(in_folder("b.onnx"))

    def refused(self, build, target, state="x"):
        """Returns the message about a loop whose body `build` makes of the iteration, the condition and a state; it runs `trips` times."""
        inner = tenon.graph.Builder()
        iteration, condition = inner.input("i", "i64", []), inner.input("c", "bool", [])
        outputs = build(iteration, condition, inner.input("v", "f32", [2] if state == "x" else [None]))
        body = inner.finish({f"out{i}": x for i, x in enumerate(outputs)})
        builder = tenon.graph.Builder()
        x, trips = builder.input("x", "f32", [2]), builder.input("trips", "i64", [])
        results = tenon.graph.ops.core.loop([x], [], trips, body=body, count=len(outputs) - 1, dtypes=[0] * (len(outputs) - 1),
                                            ranks=[-1] * (len(outputs) - 1), name="again")
        graph = builder.finish({f"y{i}": y for i, y in enumerate(results)})
        with self.assertRaises(tenon.Error) as caught:
            graph.export(in_folder(target))
        return str(caught.exception)

    def test_stacked_results_of_an_unknown_number_of_iterations_are_refused(self):
        message = self.refused(lambda i, c, v: [c, v, tenon.graph.ops.core.relu(v)], "loop.mlir")
        self.assertRegex(message, r"node 'again' \(core::loop\): it stacks results of a number of iterations that depends on data: give the loop a constant")
        self.assertEqual(message.count("\n  node "), 1)

    def test_states_that_change_their_shape_are_refused(self):
        message = self.refused(lambda i, c, v: [c, tenon.graph.ops.core.concat([v, v], axis=0)], "loop.mlir", "grows")
        self.assertRegex(message, r"node 'again' \(core::loop\): iterations change the shape|node 'again' \(core::loop\): axis 0 of value")

    def test_nodes_of_bodies_that_a_format_lacks_are_named(self):
        inner = tenon.graph.Builder()
        inner.input("i", "i64", [])
        condition, v = inner.input("c", "bool", []), inner.input("v", "f32", [2])
        lacking = tenon.graph.ops.core.strided_copy(v, inner.constant(np.array([2])), strides=[1], name="inside")
        body = inner.finish({"c": tenon.graph.ops.core.identity(condition), "v": lacking})
        builder = tenon.graph.Builder()
        x, trips = builder.input("x", "f32", [2]), builder.input("trips", "i64", [])
        y = tenon.graph.ops.core.loop([x], [], trips, body=body, count=1, dtypes=[0], ranks=[-1])
        graph = builder.finish({"y": y[0]})
        for name in "body.mlir", "body.onnx":
            with self.assertRaisesRegex(tenon.Error, r"node 'inside' \(core::strided_copy\): "):
                graph.export(in_folder(name))

    def test_a_condition_of_several_elements_is_refused(self):
        inner = tenon.graph.Builder()
        body = inner.finish({"y": tenon.graph.ops.core.relu(inner.input("x", "f32", [2]))})
        builder = tenon.graph.Builder()
        x, c = builder.input("x", "f32", [2]), builder.input("c", "bool", [3])
        y = getattr(tenon.graph.ops.core, "if")(c, [x], then=body, count=1, dtypes=[0], ranks=[1], name="choice", **{"else": body})
        with self.assertRaisesRegex(tenon.Error, r"node 'choice' \(core::if\): its condition or its number of iterations is not one element"):
            builder.finish({"y": y[0]}).export(in_folder("choice.mlir"))

    def test_numbers_that_readers_refuse_are_not_written(self):
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", [1, 1, 8])
        pool = tenon.graph.ops.core.max_pool(x, kernel=[1], strides=[2 ** 31 - 1], name="pool")
        with self.assertRaisesRegex(tenon.Error, r"node 'pool' \(core::max_pool\): a window or padding has the number 2147483647, expected 1 to 1073741824"):
            builder.finish({"y": pool[0]}).export(in_folder("pool.mlir"))
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", [2 ** 30, 2 ** 30])
        with self.assertRaisesRegex(tenon.Error, r"value 'x' has more than 2\^59 elements"):
            builder.finish({"y": tenon.graph.ops.core.relu(x)}).export(in_folder("large.mlir"))

    @unittest.skipUnless(jax, "there is no JAX")
    def test_the_bits_of_truth_values_are_those_of_a_byte(self):
        builder = tenon.graph.Builder()
        x = builder.input("x", "bool", [3])
        builder.finish({"y": tenon.graph.ops.core.bit_cast(x, to="u8")}).export(in_folder("bits.mlir"))
        found, = compile_xla(in_folder("bits.mlir"))(np.array([True, False, True]))
        np.testing.assert_array_equal(found, np.array([1, 0, 1], np.uint8))

    def symbolic(self):
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", ["batch", 3])
        builder.finish({"y": tenon.graph.ops.core.relu(x)}).export(in_folder("symbolic.onnx"))

    def test_unknown_extents_are_named_and_can_be_stated(self):
        self.symbolic()
        self.assertRegex(convert("symbolic.onnx", "symbolic.mlir"), r"(?s)axis 0 of value 'x' has the extent batch, expected a number.*--dim")
        self.assertEqual(convert("symbolic.onnx", "symbolic.mlir", "--dim", "batch=5"), "")
        self.assertEqual(tenon.graph.load(in_folder("symbolic.mlir")).inputs, [("x", "f32", [5, 3])])
        self.assertRegex(convert("symbolic.onnx", "symbolic.mlir", "--dim", "batch=many"), "--dim batch=many: expected the name of an extent and a number")

    def test_nodes_behind_one_that_is_missing_are_not_named(self):
        message = convert(os.path.join(ROOT, "tests", "data", "models", "transformer.onnx"), "never.mlir", "--dim", "batch=2", "--dim", "length=5")
        self.assertEqual(re.findall(r"node '([^']*)' \(", message), ["nonzero_where", "einsum_z"])

    def test_a_dimension_that_no_input_has_is_named(self):
        self.symbolic()
        self.assertRegex(convert("symbolic.onnx", "symbolic.mlir", "--dim", "bach=5"), "--dim bach=5: no input has an extent of this name; they have: batch")
        convert("symbolic.onnx", "fixed.onnx", "--dim", "batch=5")
        self.assertRegex(convert("fixed.onnx", "fixed.mlir", "--dim", "batch=5"), "no input has an extent of this name: all are numbers")

    def test_the_names_of_extents_are_listed_once(self):
        builder = tenon.graph.Builder()
        x, y = builder.input("x", "f32", ["batch", "n"]), builder.input("y", "f32", ["batch", "batch_n"])
        builder.finish({"a": tenon.graph.ops.core.relu(x), "b": tenon.graph.ops.core.relu(y)}).export(in_folder("twice.onnx"))
        self.assertRegex(convert("twice.onnx", "twice.mlir", "--dim", "m=5"), r"they have: batch, n, batch_n\n?$")

    def test_lists_of_inputs_have_any_length(self):
        builder = tenon.graph.Builder()
        parts = [builder.input(f"x{i}", "f32", [2]) for i in range(50)]
        builder.finish({"y": tenon.graph.ops.core.concat(parts, axis=0)}).export(in_folder("list.onnx"))
        inputs = {f"x{i}": floats(2, seed=i) for i in range(50)}
        found, = run_ort([(in_folder("list.onnx"), inputs)])
        np.testing.assert_array_equal(found["y"], np.concatenate(list(inputs.values())))

    def test_a_model_of_onnx_keeps_its_symbolic_extents(self):
        self.symbolic()
        self.assertEqual(convert("symbolic.onnx", "again.onnx"), "")
        self.assertEqual(tenon.graph.load(in_folder("again.onnx")).inputs, [("x", "f32", ["batch", 3])])

    def test_an_unknown_ending_lists_the_known_ones(self):
        self.symbolic()
        self.assertRegex(convert("symbolic.onnx", "model.pb"), r"model.pb: no format has this ending: expected .onnx.*\.mlir")
        self.assertFalse(os.path.exists(in_folder("model.pb")))

    def test_an_existing_file_stays_after_an_error_and_is_replaced_otherwise(self):
        self.symbolic()
        with open(in_folder("kept.mlir"), "w", encoding="utf-8") as file:
            file.write("old")
        self.assertNotEqual(convert("symbolic.onnx", "kept.mlir"), "")
        with open(in_folder("kept.mlir"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(convert("symbolic.onnx", "kept.mlir", "--dim", "batch=2"), "")
        with open(in_folder("kept.mlir"), encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("module @"))

    def test_the_help_describes_the_verb(self):
        done = subprocess.run([COMMAND, "convert", "--help"], capture_output=True, text=True)
        self.assertRegex(done.stdout, r"(?s)usage: tenon convert MODEL NEW-MODEL.*--ops.*--dim")


PAGE = os.path.join(ROOT, "docs", "convert.md")
BEGIN, END = "<!-- operators: written by convert_test.py --write -->\n", "<!-- end of operators -->\n"


def sources(*folder):
    folder = os.path.join(ROOT, *folder)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".c"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield name, file.read()


def stablehlo_rows():
    """Returns {operator: how StableHLO expresses it} of the C tables."""
    rows = {}
    for name, source in sources("bridges", "stablehlo", "write"):
        start = source.find("static const hlo_write_row_t rows[] = {")
        body = source[start:source.find("\n};", start)] if start >= 0 else ""
        for operator, text in re.findall(r'\{"(\w+)",\s*(NULL|(?:"[^"]*"\s*)+),', body):
            formula = "".join(re.findall(r'"([^"]*)"', text))
            rows[operator] = f"`{formula}`" if formula else f"[`{name}`](../bridges/stablehlo/write/{name})"
    return rows


def onnx_rows():
    """Returns {operator: the first row that writes it in ONNX}, found by trying: the table is that of the import, read backwards."""
    rows = {}
    with open(os.path.join(ROOT, "src", "import", "onnx", "standard_table.c"), encoding="utf-8") as file:
        own = file.read()
    texts = ["".join(re.findall(r'"([^"]*)"', row)) for row in re.findall(r'\{((?:"[^"]*"\s*)+), \d+, NULL\}', own)]
    for left, operator in (re.match(r"(.*\)) = (\w+)\(", text).groups() for text in texts):
        rows.setdefault(operator, left)
    with open(os.path.join(ROOT, "src", "import", "onnx", "export_control.c"), encoding="utf-8") as file:
        rows.update(re.findall(r'\{"core::(\w+)", "(\w+)", \{', file.read()))
    for name, source in sources("src", "import", "onnx"):
        if not name.startswith("lower_") or name.startswith("lower_contrib") or name in ("lower_ml.c", "lower_svm.c", "lower_trees.c", "lower_training.c", "lower_preview.c"):
            continue
        for onnx, operator, flat, since in re.findall(r'\{"(\w+)\([^"]*?\) = (?:"\s*")?(\w+)\(((?:[^{}]|\{[^}]*\})*?)\", *(\d+), NULL\}', source):
            is_backwards = "(" not in flat and "@" not in flat and int(since) <= 23
            if is_backwards and operator in dir(tenon.ops.core) and onnx not in ("Upsample", "Scatter", "OptionalGetElement"):
                rows.setdefault(operator, onnx)
        for pair in re.findall(r"\bX\((\w+), (\w+)\)", source):
            rows.setdefault(pair[1], pair[0])
        for onnx, operator in re.findall(r"REDUCTION\((\w+), (\w+), \d+\)", source):
            rows.setdefault(operator, onnx)
    return rows


def table_text():
    """Returns the table of operators for the documentation."""
    hlo, onnx = stablehlo_rows(), onnx_rows()
    lines = ["| operator of core | in ONNX | in StableHLO |", "|---|---|---|"]
    for operator in sorted(hlo.keys() | onnx.keys()):
        in_onnx = f"`{onnx[operator]}`" if operator in onnx else "—"
        lines.append(f"| `{operator}` | {in_onnx} | {hlo.get(operator, '—')} |")
    return "\n".join(lines) + "\n"


class Documentation(unittest.TestCase):
    def test_the_page_has_the_table_of_operators(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(page[page.index(BEGIN) + len(BEGIN):page.index(END)], table_text(), "run tests/adapters/convert_test.py --write")

    def test_each_operator_of_the_table_exists(self):
        names = {operator for operator in dir(tenon.ops.core)}
        self.assertEqual(sorted((stablehlo_rows().keys() | onnx_rows().keys()) - names), [])


def write_table():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page[:page.index(BEGIN) + len(BEGIN)] + table_text() + page[page.index(END):])


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_table()
        sys.exit()
    totals.main(lambda: Values.parts)
