"""Long graphs of several shapes: with ten times the nodes, import, compilation and the first run execute at most twelve times the
instructions and request memory at most twelve times as often, and their results agree with NumPy's.  scale.c runs the models, and valgrind
counts.  TENON_TRUST=whole counts with 10,000 and 100,000 nodes, otherwise with 500 and 5,000."""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters")]
import totals  # noqa: E402

SIZES = (10_000, 100_000) if os.environ.get("TENON_TRUST") == "whole" else (500, 5_000)
MOST = 12
TYPES = {T.FLOAT: np.float32, T.INT64: np.int64, T.BOOL: np.bool_}
MATRIX = np.array([[.5, -.25], [.25, .5]], np.float32)
NUMPY = {
    "Abs": np.abs, "Add": np.add, "Cast": lambda x: x, "Clip": np.clip, "Concat": lambda *x: np.concatenate(x), "Expand": np.broadcast_to,
    "Gather": lambda x, i: x[i], "Identity": lambda x: x, "If": lambda x: x, "MatMul": np.matmul, "Max": np.maximum, "Min": np.minimum,
    "Mul": np.multiply, "Neg": np.negative, "NonZero": lambda x: np.stack(np.nonzero(x)), "Relu": lambda x: np.maximum(x, 0),
    "Reshape": np.reshape, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Split": lambda x: np.split(x, len(x)), "Squeeze": lambda x, axis: x[0],
    "Sub": np.subtract, "Tanh": np.tanh, "Transpose": np.transpose,
}


class Model:
    """A model that grows node by node, and its values by NumPy."""
    def __init__(self):
        self.nodes, self.inputs, self.weights, self.outputs, self.steps = [], {}, {}, [], []

    def input(self, name, shape, dtype=T.FLOAT):
        self.inputs[name] = (shape, dtype)
        return name

    def weight(self, name, value):
        self.weights[name] = np.asarray(value)
        return name

    def add(self, op, *inputs, results=1, compute=None, reads=None, **attributes):
        """Adds a node and returns its result, or a list of results.  `reads`: what NumPy's function reads; else the inputs."""
        at = len(self.nodes)
        names = [f"v{at}"] if results == 1 else [f"v{at}_{i}" for i in range(results)]
        self.nodes.append(h.make_node(op, list(inputs), names, **attributes))
        self.steps.append((compute or NUMPY[op], reads or inputs, names))
        return names[0] if results == 1 else names

    def save(self, path):
        values = [h.make_tensor_value_info(name, dtype, shape) for name, (shape, dtype) in self.inputs.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        graph = h.make_graph(self.nodes, "g", values, outputs, weights)
        Path(path).write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=9).SerializeToString())

    def expected(self):
        values = dict(self.weights)
        for i, (name, (shape, dtype)) in enumerate(self.inputs.items()):
            shape = [extent if isinstance(extent, int) else 2 for extent in shape]
            k = np.arange(np.prod(shape, dtype=int)).reshape(shape)
            values[name] = {T.FLOAT: ((i * 7 + k * 3) % 11 - 5) / 4, T.INT64: k + 1, T.BOOL: k == k}[dtype].astype(TYPES[dtype])
        for compute, inputs, names in self.steps:
            results = compute(*(values[name] for name in inputs))
            values.update(zip(names, results if len(names) > 1 else [results]))
        return np.concatenate([np.ravel(values[name]) for name in self.outputs])


def chain(m, n):
    value = m.input("x", [2])
    for _ in range(n):
        value = m.add("Neg", value)
    m.outputs = [value]


def fan_out(m, n):
    """One value that n / 2 nodes read, whose results are joined in pairs."""
    m.input("x", [2])
    level = [m.add("Neg", "x") for _ in range(n // 2)]
    while len(level) > 1:
        level = [m.add("Max", *level[i:i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    m.outputs = level


def wide_join(m, n):
    """A node with n operands, each a result of a node that does nothing."""
    m.input("x", [2])
    m.weight("shape", np.array([2]))
    m.outputs = [m.add("Concat", *(m.add("Reshape", "x", "shape") for _ in range(n)), axis=0)]


def ladder(m, n):
    value = m.input("x", [2])
    for _ in range(n // 3):
        value = m.add("Min", m.add("Neg", value), m.add("Abs", value))
    m.outputs = [value]


def weights(m, n):
    value = m.input("x", [2])
    for i in range(n):
        value = m.add("Add", value, m.weight(f"w{i}", np.array([i % 7 - 3, i % 5 - 2], np.float32)))
    m.outputs = [value]


def ends(m, n):
    """n inputs and n outputs, with a symbolic axis that all inputs share."""
    for i in range(n):
        m.input(f"x{i}", ["batch", 2])
    m.outputs = [m.add("Sub", f"x{i}", f"x{(i * 7 + 1) % n}") for i in range(n)]


def symbols(m, n):
    """n inputs, each with an axis of its own name."""
    value = m.input("x0", ["n0", 2])
    for i in range(1, n):
        value = m.add("Max", value, m.input(f"x{i}", [f"n{i}", 2]))
    m.outputs = [value]


def residual(m, n):
    old = value = m.input("x", [2])
    m.weight("low", np.float32(-3))
    m.weight("high", np.float32(3))
    for _ in range(n // 4):
        added = m.add("Sub", m.add("Neg", m.add("Abs", value)), old)
        old, value = value, m.add("Clip", added, "low", "high")
    m.outputs = [value]


def long_residuals(m, n):
    """Values that are read in the reverse order, so that half of them are alive at once."""
    values = [m.input("x", [2])]
    for _ in range(n // 2):
        values.append(m.add("Neg", values[-1]))
    value = values[-1]
    for other in reversed(values):
        value = m.add("Max", value, other)
    m.outputs = [value]


def fused(m, n):
    value = m.input("x", [1, 2])
    m.weight("w", MATRIX)
    m.weight("b", np.array([.125, .25], np.float32))
    for _ in range(n // 3):
        value = m.add("Relu", m.add("Add", m.add("MatMul", value, "w"), "b"))
    m.outputs = [value]


def mixed(m, n):
    """Several operators, and nodes that do nothing between them."""
    value = m.input("x", [2])
    m.weight("half", np.float32(.5))
    m.weight("shape", np.array([2]))
    for _ in range(n // 9):
        value = m.add("Reshape", m.add("Identity", m.add("Cast", m.add("Neg", value), to=T.FLOAT)), "shape")
        value = m.add("Tanh", m.add("Sub", "x", m.add("Mul", m.add("Sigmoid", value), value)))
        value = m.add("Mul", value, "half")
    m.outputs = [value]


def views(m, n):
    value = m.input("x", [2, 3])
    m.weight("s0", np.array([3, 2]))
    m.weight("s1", np.array([2, 3]))
    for i in range(n):
        value = m.add("Reshape", value, f"s{i % 2}") if i % 4 < 2 else m.add("Transpose", value, perm=[1, 0])
    m.outputs = [m.add("Neg", value)]


def recurrent(m, n):
    steps = n // 4
    m.input("x", [steps, 2])
    m.weight("w", MATRIX)
    m.weight("u", MATRIX.T / 2)
    value, values = m.weight("h", np.zeros((1, 2), np.float32)), []
    for part in m.add("Split", "x", results=steps, num_outputs=steps, axis=0):
        value = m.add("Tanh", m.add("Add", m.add("MatMul", part, "w"), m.add("MatMul", value, "u")))
        values.append(value)
    m.outputs = [m.add("Concat", *values, axis=0)]


def shuffled(m, n):
    residual(m, n)
    random.Random(7).shuffle(m.nodes)


def stages(m, n):
    """Shapes that only running tells, so that a run is planned in n / 3 stages."""
    value = m.input("x", [3], T.INT64)
    m.weight("axis", np.array([0]))
    m.weight("one", np.array([1]))
    for _ in range(n // 3):
        value = m.add("Add", m.add("Squeeze", m.add("NonZero", value), "axis"), "one")
    m.outputs = [value]


def branches(m, n):
    value = m.input("x", [2])
    m.input("c", [], T.BOOL)
    for i in range(n // 10):
        bodies = [h.make_graph([h.make_node(op, [value], [f"{op}{i}"])], op, [], [onnx.ValueInfoProto(name=f"{op}{i}")]) for op in ("Neg", "Abs")]
        value = m.add("If", "c", compute=np.negative, reads=[value], then_branch=bodies[0], else_branch=bodies[1])
    m.outputs = [value]


SHAPES = (chain, fan_out, wide_join, ladder, weights, ends, symbols, residual, long_residuals, fused, mixed, views, recurrent, stages, branches)


def work_of(path):
    """The instructions, and the requests for memory, that one part of valgrind's output counts."""
    text, names, requests = Path(path).read_text(), {}, 0
    for line, more in re.findall(r"^cfn=(\(\d+\)(?: .*)?)\n(calls=\d+)", text, re.M):
        number, _, name = line.partition(" ")
        names[number] = name or names.get(number) or re.search(rf"^c?fn={re.escape(number)} (.*)$", text, re.M)[1]
        if names[number] in ("malloc", "calloc", "realloc"):
            requests += int(more[6:])
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M)[1]), requests


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
class Scale(unittest.TestCase):
    SHAPES = SHAPES

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.program = Path(cls.folder.name, "scale")
        subprocess.run(["cc", "-O1", "-g", f"-I{ROOT / 'include'}", Path(__file__).with_name("scale.c"), "-o", cls.program, f"-L{BUILD}", "-ltenon",
                        f"-Wl,-rpath,{BUILD}"], check=True)
        cls.counts = {size: cls.count(size) for size in SIZES}

    @classmethod
    def count(cls, size):
        """Runs all shapes in one process.  Returns the work for each of them, for the graph of the builder, and the outputs."""
        folder = Path(cls.folder.name, str(size))
        folder.mkdir()
        models, paths, work = [], [], {}
        for shape in (chain, *cls.SHAPES):  # the first one warms up: its part is left out
            model, path = Model(), folder / f"{shape.__name__}.onnx"
            shape(model, size)
            model.save(path)
            models.append(model)
            paths.append(path)
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/part", "--collect-atstart=no", "--toggle-collect=measured_*",
                              "--dump-before=save_outputs", cls.program, str(size), *paths], capture_output=True, text=True)
        if run.returncode:
            raise AssertionError(run.stderr[-3000:])
        for part, shape in enumerate((*cls.SHAPES, "builder"), 2):
            work[shape] = work_of(f"{folder}/part.{part}")
        for model, path in zip(models, paths):
            work[path] = np.fromfile(f"{path}.out", np.int64 if path.stem == "stages" else np.float32), model.expected()
        work["built"] = np.fromfile(f"{paths[-1]}.built", np.float32)
        return work

    def test_work_grows_with_the_nodes(self):
        small, large = SIZES
        for shape in (*self.SHAPES, "builder"):
            for what, before, after in zip(("instructions", "requests for memory"), self.counts[small][shape], self.counts[large][shape]):
                name = getattr(shape, "__name__", shape)
                print(f"{name}: {what} with {small} nodes {before:,}, with {large} nodes {after:,}: {after / before:.1f} times")
                with self.subTest(shape=name, what=what):
                    self.assertGreater(before, small / 1000)
                    self.assertLessEqual(after, MOST * before)

    def test_the_results_are_those_of_numpy(self):
        for size in SIZES:
            for path, values in self.counts[size].items():
                if not isinstance(path, Path):
                    continue
                found, expected = values
                with self.subTest(shape=path.stem, size=size):
                    self.assertEqual(found.shape, expected.shape)
                    self.assertLessEqual(float(np.max(np.abs(found - expected))), 1e-5)

    def test_a_built_graph_gives_the_results_of_numpy(self):
        for size in SIZES:
            i, k = np.arange(size // 2)[:, None], np.arange(2)
            expected = -np.maximum.accumulate(((i * 7 + k * 3) % 11 - 5) / 4)
            self.assertTrue(np.array_equal(self.counts[size]["built"], expected.ravel().astype(np.float32)))


class Unsorted(Scale):
    """Nodes in any order, by themselves, so that what is read without sorting is counted where this is refused."""
    SHAPES = (shuffled,)


if __name__ == "__main__":
    totals.main()
