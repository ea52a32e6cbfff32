#!/usr/bin/env python3
"""Measures chains of small nodes on one thread and on two: does a node pay for a loop over threads that it is too small for?

A chain has 20 nodes of one kind over the given number of elements. The two numbers of threads take turns in one process;
a figure is the least of the rounds, in microseconds a node. A kind that is slower on two threads is listed at the end.

Usage: small.py [--rounds N] [KIND...]
"""
import argparse
import os
import sys
import time

import report

sys.path.insert(0, os.path.join(report.BUILD, "python"))
COUNT, RUNS = 20, 8
SIZES = 1024, 4096, 8192, 16384, 32768, 65536, 131072
KINDS = ("tanh", "softmax", "layer_norm", "transpose", "gather", "matmul", "conv", "pool", "cumsum", "concat", "reduce", "topk")
ALLOWED = 1.05


def add_nodes(kind, i, x, y, rows, constant):
    """The nodes of one link of the chain, from the value x to the value y; `constant` makes a constant of an array."""
    import numpy as np
    from onnx import helper as h

    random = np.random.default_rng(i)
    normal = lambda *shape: (random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
    if kind == "layer_norm":
        return [h.make_node("LayerNormalization", [x, constant(np.ones(64, np.float32)), constant(np.zeros(64, np.float32))], [y], axis=-1)]
    if kind == "gather":
        return [h.make_node("Gather", [x, constant(np.arange(rows)[::-1].copy())], [y], axis=0)]
    if kind == "matmul":
        return [h.make_node("MatMul", [x, constant(normal(64, 64))], [y])]
    if kind == "conv":
        return [h.make_node("Conv", [x, constant(normal(16, 16, 3, 3))], [y], pads=[1] * 4)]
    if kind == "concat":
        return [h.make_node("Split", [x], [y + "a", y + "b"], axis=1), h.make_node("Concat", [y + "b", y + "a"], [y], axis=1)]
    if kind == "reduce":
        return [h.make_node("ReduceMean", [x], [y + "m"], axes=[0], keepdims=1), h.make_node("Sub", [x, y + "m"], [y])]
    if kind == "cumsum":
        return [h.make_node("CumSum", [x, constant(np.array(1))], [y])]
    if kind == "topk":
        return [h.make_node("TopK", [x, constant(np.array([64]))], [y, y + "i"], axis=-1)]
    attributes = {"softmax": {"axis": -1}, "transpose": {"perm": [1, 0]}, "pool": {"kernel_shape": [3, 3], "pads": [1] * 4}, "tanh": {}}
    names = {"softmax": "Softmax", "transpose": "Transpose", "pool": "MaxPool", "tanh": "Tanh"}
    return [h.make_node(names[kind], [x], [y], **attributes[kind])]


def make_chain(kind, size):
    """Returns the executable of a chain, and the shape of its input."""
    import tenon
    from onnx import TensorProto, helper as h, numpy_helper

    side = int((size / 16) ** 0.5)
    shape = [1, 16, side, side] if kind in ("conv", "pool") else [size // 64, 64]
    constants, nodes, last = [], [], "x"

    def constant(array):
        constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
        return constants[-1].name

    for i in range(COUNT):
        nodes += add_nodes(kind, i, last, f"y{i}", shape[0], constant)
        last = f"y{i}"
    graph = h.make_graph(nodes, "chain", [h.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [h.make_tensor_value_info(last, TensorProto.FLOAT, None)], constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return tenon.graph.load(model.SerializeToString()).compile(), shape


def measure(kind, size, rounds):
    import numpy as np
    import tenon

    model, shape = make_chain(kind, size)
    x, times = np.random.default_rng(1).standard_normal(shape).astype(np.float32), {1: [], 2: []}
    for _ in range(rounds):
        for threads in times:
            tenon.threads(threads)
            model(x)
            begin = time.perf_counter()
            for _ in range(RUNS):
                model(x)
            times[threads].append((time.perf_counter() - begin) / RUNS / COUNT * 1e6)
    return {threads: round(min(values), 3) for threads, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        sys.exit(f"small: no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    report.warn_when_busy()
    figures, rows, slower = {}, [], []
    for kind in options.kinds or KINDS:
        figures[kind] = {size: measure(kind, size, options.rounds) for size in SIZES}
        ratios = {size: found[2] / found[1] for size, found in figures[kind].items()}
        slower += [f"{kind} of {size} ({ratio:.2f})" for size, ratio in ratios.items() if ratio > ALLOWED]
        rows.append([kind, *(f"{figures[kind][size][1]:.2f} ({ratio:.2f})" for size, ratio in ratios.items())])
    report.print_table("microseconds a node on one thread (two threads over one), by elements", ["", *map(str, SIZES)], rows)
    print(f"  slower on two threads: {', '.join(slower) or 'none'}")
    if not options.kinds:
        report.save("small", figures, [["small nodes that are slower on two threads than on one", f"{len(slower)} of {len(KINDS) * len(SIZES)}"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
