"""The same executable, input and number of threads give the same bits in the first and in each later run. 100 small models of random extents, some with
lengths that change between runs and come back, run 50 times each, with 1 thread and with 2. Not promised: equal bits for different numbers of threads,
for other processors, or for other builds. TENON_TRUST=whole also runs the models of build/zoo."""
import hashlib
import os
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
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import totals  # noqa: E402

RUNS = 50
LENGTH = "length"  # the name of the extent that changes between runs


class Model:
    """A model that is being written: inputs, constants and nodes with names of their own."""
    def __init__(self, random):
        self.random, self.nodes, self.inputs, self.constants, self.count = random, [], [], [], 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def input(self, shape, dtype=T.FLOAT):
        name = self.name()
        self.inputs.append(h.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, *shape, values=None):
        name = self.name()
        array = self.random.standard_normal(shape).astype(np.float32) if values is None else np.asarray(values)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(h.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def extent(self, low, high):
        return int(self.random.integers(low, high))

    def finish(self, *outputs):
        infos = [h.make_tensor_value_info(name, T.FLOAT, None) for name in outputs]
        graph = h.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


def product(m):
    rows, inner, columns = m.extent(3, 70), m.extent(3, 200), m.extent(3, 130)
    return m.finish(m.node("MatMul", m.input([rows, inner]), m.input([inner, columns])))


def layers(m):
    inner, width = m.extent(8, 300), m.extent(8, 300)
    x = m.node("Relu", m.node("Gemm", m.input([m.extent(1, 40), inner]), m.constant(width, inner), m.constant(width), transB=1))
    return m.finish(m.node("Softmax", m.node("Gemm", x, m.constant(width, 33), m.constant(33))))


def attention(m, length=None):
    heads, depth, length = m.extent(1, 5), m.extent(4, 70), length or m.extent(2, 90)
    q, k, v = (m.input([1, length, heads, depth]) for _ in range(3))
    q, v = (m.node("Transpose", x, perm=[0, 2, 1, 3]) for x in (q, v))
    scores = m.node("Softmax", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 2, 3, 1])), axis=-1)
    return m.finish(m.node("MatMul", scores, v))


def attention_of_lengths(m):
    return attention(m, LENGTH)


def encoder_of_lengths(m):
    width = 8 * m.extent(2, 17)
    x = m.input([1, LENGTH, width])
    q, k, v = (m.node("Add", m.node("MatMul", x, m.constant(width, width)), m.constant(width)) for _ in range(3))
    seen = m.node("MatMul", m.node("Softmax", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 2, 1])), axis=-1), v)
    y = m.node("LayerNormalization", m.node("Add", x, seen), m.constant(width), m.constant(width))
    z = m.node("Tanh", m.node("MatMul", y, m.constant(width, 2 * width)))
    return m.finish(m.node("Add", y, m.node("MatMul", z, m.constant(2 * width, width))))


def convolutions(m):
    channels, more, size = m.extent(1, 9), m.extent(4, 40), m.extent(9, 40)
    x = m.node("Conv", m.input([m.extent(1, 3), channels, size, size]), m.constant(more, channels, 3, 3), m.constant(more), pads=[1, 1, 1, 1])
    x = m.node("Relu", m.node("BatchNormalization", x, m.constant(more), m.constant(more), m.constant(more), m.constant(values=np.ones(more, np.float32))))
    x = m.node("MaxPool", m.node("Conv", x, m.constant(more, 1, 3, 3), group=more, pads=[1, 1, 1, 1]), kernel_shape=[2, 2], strides=[2, 2])
    return m.finish(m.node("GlobalAveragePool", x), m.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))


def convolution_of_inputs(m):
    channels, more, size = m.extent(1, 9), m.extent(2, 20), m.extent(5, 30)
    return m.finish(m.node("Conv", m.input([1, channels, size, size]), m.input([more, channels, 3, 3])))


def transposed_convolution(m):
    channels, more, size = m.extent(2, 12), m.extent(2, 20), m.extent(4, 20)
    return m.finish(m.node("ConvTranspose", m.input([1, channels, size, size]), m.constant(channels, more, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]))


def recurrent(m):
    length, batch, inner, width = m.extent(2, 12), m.extent(1, 4), m.extent(3, 60), m.extent(3, 60)
    x = m.input([length, batch, inner])
    x = m.node("Squeeze", m.node("LSTM", x, m.constant(1, 4 * width, inner), m.constant(1, 4 * width, width), hidden_size=width), m.constant(values=[1]))
    _, last = m.node("GRU", x, m.constant(1, 3 * width, width), m.constant(1, 3 * width, width), outputs=2, hidden_size=width)
    return m.finish(last)


def reductions(m):
    shape = [m.extent(1, 30), m.extent(1, 300), m.extent(1, 300)]
    x = m.input(shape)
    axes = m.constant(values=[m.extent(0, 3)])
    y = m.node("Sub", x, m.node("ReduceMean", x, axes))
    return m.finish(m.node("ReduceSum", y, axes), m.node("ReduceL2", y, axes), m.node("ReduceLogSumExp", y, axes), m.node("CumSum", y, m.constant(values=1)))


def normalisations(m):
    channels, size = 4 * m.extent(1, 9), m.extent(4, 40)
    x = m.input([2, channels, size, size])
    x = m.node("InstanceNormalization", x, m.constant(channels), m.constant(channels))
    x = m.node("Resize", x, "", m.constant(values=np.array([1, 1, 1.5, 1.5], np.float32)), mode="linear")
    return m.finish(m.node("Sigmoid", x))


def quantised(m):
    rows, inner, width = m.extent(2, 40), m.extent(4, 300), m.extent(4, 200)
    value, scale, zero = m.node("DynamicQuantizeLinear", m.input([rows, inner]), outputs=3)
    weights = m.random.integers(-127, 128, (inner, width)).astype(np.int8)
    product_ = m.node("MatMulInteger", value, m.constant(values=weights), zero)
    return m.finish(m.node("Mul", m.node("Cast", product_, to=T.FLOAT), scale))


def einsum(m):
    a, b, c, d = (m.extent(2, 20) for _ in range(4))
    return m.finish(m.node("Einsum", m.input([a, b, c]), m.input([c, d, a]), equation="abc,cda->bd"))


def shapes_of_data(m):
    """The first run stops where an extent depends on data, and later ones do not have to."""
    inner, width = m.extent(4, 60), m.extent(8, 80)
    x = m.input([m.extent(4, 40), inner])
    rows = m.node("Squeeze", m.node("NonZero", m.node("Greater", m.node("ReduceSum", x, m.constant(values=[1]), keepdims=0), m.constant(values=np.float32(-3)))),
                  m.constant(values=[0]))
    return m.finish(m.node("MatMul", m.node("Gather", x, rows), m.node("Transpose", m.input([width, inner]))))


KINDS = [product, layers, attention, attention_of_lengths, encoder_of_lengths, convolutions, convolution_of_inputs, transposed_convolution, recurrent, reductions,
         normalisations, quantised, einsum, shapes_of_data]
COUNT = 100


def make_models(folder):
    for index in range(COUNT):
        kind = KINDS[index % len(KINDS)]
        onnx.save(kind(Model(np.random.default_rng(index))), Path(folder, f"{index:03}_{kind.__name__}.onnx"))


def inputs_of(proto, length, random):
    values = {}
    constants = {c.name for c in proto.graph.initializer}
    for info in proto.graph.input:
        if info.name in constants:
            continue
        shape = [d.dim_value or length for d in info.type.tensor_type.shape.dim]
        dtype = h.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        values[info.name] = random.standard_normal(shape).astype(dtype) if dtype.kind == "f" else random.integers(0, 9, shape).astype(dtype)
    return values


def run_models(paths):
    """Prints a line for each model: its name, how many runs it had, and in which of them bits differed from the first run of that length."""
    import tenon
    for path in paths:
        proto = onnx.load(path, load_external_data=False)
        executable = tenon.graph.load(path).compile()
        lengths = [17, 40, 23] if any(d.dim_param for info in proto.graph.input for d in info.type.tensor_type.shape.dim) else [1]
        inputs = [inputs_of(proto, length, np.random.default_rng(length)) for length in lengths]
        first, differing = {}, []
        for run in range(RUNS):
            which = run % len(lengths)
            found = executable(**inputs[which])
            found = found if isinstance(found, tuple) else (found,)
            assert all(np.isfinite(result).all() for result in found if result.dtype.kind == "f"), path
            digest = hashlib.sha256(b"".join(result.tobytes() for result in found)).digest()
            if first.setdefault(which, digest) != digest:
                differing.append(run)
        print(Path(path).stem, RUNS, differing, flush=True)


class Determinism(unittest.TestCase):
    def check(self, paths, threads):
        environment = {**os.environ, "TENON_THREADS": str(threads)}
        environment.pop("OMP_NUM_THREADS", None)
        run = subprocess.run([sys.executable, __file__, "--run", *map(str, paths)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])
        lines = run.stdout.splitlines()
        self.assertEqual(len(lines), len(paths))
        self.assertEqual([line for line in lines if not line.endswith(f" {RUNS} []")], [])

    def test_TENON_THREADS_is_the_number_of_threads(self):
        program = """
import os, sys, numpy as np, tenon
def count(): return len(os.listdir("/proc/self/task"))
before = count()
x, y = (np.ones((4, 300, 300), np.float32) for _ in range(2))
tenon.ops.core.matmul(x, y)
tenon.ops.core.softmax(x)
print(count() - before)
"""
        for threads in 1, 2, 3:
            environment = {**os.environ, "TENON_THREADS": str(threads), "PYTHONPATH": str(BUILD / "python")}
            environment.pop("OMP_NUM_THREADS", None)
            run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (0, f"{threads - 1}\n"), run.stderr)

    def test_every_run_gives_the_bits_of_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            make_models(folder)
            paths = sorted(Path(folder).iterdir())
            self.assertEqual(len(paths), COUNT)
            for threads in 1, 2:
                with self.subTest(threads=threads):
                    self.check(paths, threads)

    def test_the_models_of_the_zoo_do_so_too(self):
        paths = sorted((BUILD / "zoo").rglob("*.onnx"))
        if os.environ.get("TENON_TRUST") != "whole":
            self.skipTest("the models of build/zoo: TENON_TRUST=whole runs them")
        for threads in 1, 2:
            with self.subTest(threads=threads):
                self.check(paths, threads)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_models(sys.argv[2:])
    else:
        totals.main()
