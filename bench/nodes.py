#!/usr/bin/env python3
"""Measures models of one operator (or of a short loop) beside ONNX Runtime: what a kernel and the copies around it cost.

The runtimes take turns in short blocks, in one process for each number of threads. A ratio is ONNX Runtime's time over
Tenon's: the median over rounds of the ratio in a round. Exit status 1: something failed, or outputs differ.

Usage: nodes.py [--threads N,...] [--seconds S] [NAME...]
"""
import argparse
import json
import os
import subprocess
import sys
import time

import models
import numpy as np
import report
from onnx import TensorProto, helper, numpy_helper, save

F32, F16, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
DTYPES = {F32: np.float32, F16: np.float16, I64: np.int64}
RTOL = {F32: 1e-3, F16: 2e-2}  # of the largest output
OPSET = 18


def constants(*shapes, dtype=F32, scale=0.1):
    random = np.random.default_rng(11)
    return [(scale * random.standard_normal(shape)).astype(DTYPES[dtype]) for shape in shapes]


def node_model(op, inputs, constant=(), outputs=1, dtype=F32, kept=None, **attributes):
    """A model of one node. Its inputs are those of the given shapes, then the constants (None: an absent one)."""
    names = [f"x{i}" for i in range(len(inputs))] + [f"c{i}" if value is not None else "" for i, value in enumerate(constant)]
    results = [f"y{i}" if kept is None or i in kept else "" for i in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    ports = [helper.make_tensor_value_info(f"x{i}", dtype, shape) for i, shape in enumerate(inputs)]
    return model_of([node], ports, [name for name in results if name], dtype, [(f"c{i}", value) for i, value in enumerate(constant) if value is not None])


def model_of(nodes, ports, results, dtype, initial):
    outputs = [helper.make_tensor_value_info(name, dtype, None) for name in results]
    graph = helper.make_graph(nodes, "node", ports, outputs, [numpy_helper.from_array(value, name) for name, value in initial])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def conv(channels, filters, side, kernel=3, dtype=F32, group=1, stride=1):
    weights, bias = constants((filters, channels // group, kernel, kernel), (filters,), dtype=dtype)
    pad = [kernel // 2] * 4
    return node_model("Conv", [(1, channels, side, side)], [weights, bias], dtype=dtype, group=group, pads=pad, strides=[stride] * 2, kernel_shape=[kernel] * 2)


def pool(op, channels, side, kernel, stride=1):
    return node_model(op, [(1, channels, side, side)], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4 if kernel % 2 else [0] * 4)


def matmul(a, b, constant=True, dtype=F32):
    return node_model("MatMul", [a], constants(b, dtype=dtype), dtype=dtype) if constant else node_model("MatMul", [a, b], dtype=dtype)


def recurrent(op, gates, length, width, hidden):
    weights = constants((1, gates * hidden, width), (1, gates * hidden, hidden), (1, 2 * gates * hidden))
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    return node_model(op, [(length, 1, width)], weights, outputs=2, hidden_size=hidden, **more)


def roi_align(channels, side, boxes, size):
    random = np.random.default_rng(5)
    corner, extent = random.uniform(0, 0.6 * side, (boxes, 2)), random.uniform(0.05 * side, 0.4 * side, (boxes, 2))
    rois = np.concatenate([corner, corner + extent], 1).astype(np.float32)
    return node_model("RoiAlign", [(1, channels, side, side)], [rois, np.zeros(boxes, np.int64)], output_height=size, output_width=size, sampling_ratio=2)


def scan(steps, rows, width):
    """A recurrence whose body is a product, a sum and a tanh."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["p"]), helper.make_node("Add", ["p", "item"], ["s"]), helper.make_node("Tanh", ["s"], ["next"]),
         helper.make_node("Identity", ["next"], ["result"])],
        "body", [helper.make_tensor_value_info(name, F32, (rows, width)) for name in ("state", "item")],
        [helper.make_tensor_value_info(name, F32, (rows, width)) for name in ("next", "result")])
    node = helper.make_node("Scan", ["x0", "x1"], ["y0", "y1"], body=body, num_scan_inputs=1)
    ports = [helper.make_tensor_value_info("x0", F32, (rows, width)), helper.make_tensor_value_info("x1", F32, (steps, rows, width))]
    return model_of([node], ports, ["y0", "y1"], F32, list(zip("w", constants((width, width)))))


NODES = {
    "conv 1x1 64->256 56x56": lambda: conv(64, 256, 56, 1),
    "conv 3x3 64->64 56x56": lambda: conv(64, 64, 56),
    "conv 3x3 64->64 56x56 f16": lambda: conv(64, 64, 56, dtype=F16),
    "conv 1x1 64->256 56x56 f16": lambda: conv(64, 256, 56, 1, dtype=F16),
    "depthwise 3x3 96x112x112": lambda: conv(96, 96, 112, group=96),
    "depthwise 3x3 96x32x32": lambda: conv(96, 96, 32, group=96),
    "depthwise 3x3 144x56x56 f16": lambda: conv(144, 144, 56, group=144, dtype=F16),
    "group 32 3x3 128 56x56": lambda: conv(128, 128, 56, group=32),
    "max_pool 3x3/2 64x112x112": lambda: pool("MaxPool", 64, 112, 3, 2),
    "max_pool 2x2/2 64x112x112": lambda: pool("MaxPool", 64, 112, 2, 2),
    "max_pool 3x3 480x14x14": lambda: pool("MaxPool", 480, 14, 3),
    "average_pool 3x3 64x56x56": lambda: pool("AveragePool", 64, 56, 3),
    "global_average_pool 512x14x14": lambda: node_model("GlobalAveragePool", [(1, 512, 14, 14)]),
    "softmax 12x128x128": lambda: node_model("Softmax", [(12, 128, 128)], axis=-1),
    "softmax 12x197x197": lambda: node_model("Softmax", [(12, 197, 197)], axis=-1),
    "softmax 12x128x128 f16": lambda: node_model("Softmax", [(12, 128, 128)], dtype=F16, axis=-1),
    "roi_align 256x50x50 200 boxes": lambda: roi_align(256, 50, 200, 7),
    "lstm 64x128 hidden 128": lambda: recurrent("LSTM", 4, 64, 128, 128),
    "gru 64x128 hidden 128": lambda: recurrent("GRU", 3, 64, 128, 128),
    "matmul 128x768x768 f16": lambda: matmul((128, 768), (768, 768), dtype=F16),
    "matmul 197x384x1536": lambda: matmul((197, 384), (384, 1536)),
    "matmul 197x384x384": lambda: matmul((197, 384), (384, 384)),
    "matmul 135x768x768": lambda: matmul((135, 768), (768, 768)),
    "matmul 196x196 by 4x196x256": lambda: node_model("MatMul", [(196, 196), (4, 196, 256)]),
    "matmul 96x64x32x64": lambda: matmul((96, 64, 32), (96, 32, 64), False),
    "matmul 12x128x64x128": lambda: matmul((12, 128, 64), (12, 64, 128), False),
    "einsum ibnd,jbnd->bnij": lambda: node_model("Einsum", [(64, 2, 12, 64), (64, 2, 12, 64)], equation="ibnd,jbnd->bnij"),
    "gemm 1000x12544x1024": lambda: node_model("Gemm", [(1000, 12544)], constants((1024, 12544), (1024,)), transB=1),
    "transpose 96x112x112 to last": lambda: node_model("Transpose", [(1, 96, 112, 112)], perm=[0, 2, 3, 1]),
    "scan 300 steps of 20x16": lambda: scan(300, 20, 16),
}


def inputs_of(model):
    random = np.random.default_rng(7)
    shapes = [(port.name, port.type.tensor_type) for port in model.graph.input]
    return {name: random.standard_normal([axis.dim_value for axis in kind.shape.dim]).astype(DTYPES[kind.elem_type]) for name, kind in shapes}


def measure(name, threads, seconds):
    """Times of both runtimes in milliseconds, their ratio, and how far the outputs are apart."""
    model = NODES[name]()
    dtype = model.graph.output[0].type.tensor_type.elem_type
    path = os.path.join(report.SCRATCH, "node.onnx")
    os.makedirs(report.SCRATCH, exist_ok=True)
    save(model, path)
    theirs, found, values, _ = models.start_onnxruntime(path, threads, inputs_of(model))
    theirs()
    reference = [array.copy() for array in found()]
    ours, outputs = models.start_tenon(path, threads, values, reference)
    ours()
    rounds, begin = [], time.perf_counter()
    while len(rounds) < 5 or time.perf_counter() - begin < seconds:
        rounds.append([report.median(models.time_block(run)) * 1e3 for run in (ours, theirs)])
    apart = max(float(np.max(np.abs(a.astype(float) - b)) / max(np.max(np.abs(b.astype(float))), 1e-30)) for a, b in zip(outputs(), reference))
    tenon_ms, peer_ms = (report.median([times[i] for times in rounds]) for i in (0, 1))
    ratio = report.median([times[1] / times[0] for times in rounds])
    return {"tenon_ms": round(tenon_ms, 4), "onnxruntime_ms": round(peer_ms, 4), "ratio": round(ratio, 3), "difference": apart, "same": apart < RTOL[dtype]}


def measure_apart(names, threads, seconds):
    """Measures in a process of its own, since a process sets its number of threads once."""
    command = [sys.executable, os.path.abspath(__file__), "--one", "--threads", str(threads), "--seconds", str(seconds), *names]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


def geometric_mean(figures, threads):
    return float(np.exp(np.mean([np.log(result[threads]["ratio"]) for result in figures.values()])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of the name of a node")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=1, help="time for each node and number of threads")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [name for name in NODES if not options.names or any(part in name for part in options.names)]
    if not names:
        sys.exit(f"nodes: no node is named {', '.join(options.names)}; there are {', '.join(NODES)}")
    counts = [int(count) for count in options.threads.split(",")]
    if options.one:
        print(json.dumps({name: measure(name, counts[0], options.seconds) for name in names}))
        return 0
    report.warn_when_busy()
    figures = {name: {} for name in names}
    for threads in counts:
        for name, result in measure_apart(names, threads, options.seconds).items():
            figures[name][threads] = result
        rows = [[name, f"{result[threads]['tenon_ms']:.3f}", f"{result[threads]['onnxruntime_ms']:.3f}", f"{result[threads]['ratio']:.2f}",
                 f"{result[threads]['difference']:.0e}"] for name, result in figures.items()]
        report.print_table(f"{threads} threads: milliseconds of a run, and ONNX Runtime's time over Tenon's", ["", "tenon", "onnxruntime", "ratio", "difference"], rows)
        print(f"  geometric mean of the ratios: {geometric_mean(figures, threads):.2f}", flush=True)
    bad = [f"{name}, {threads} threads" for name, result in figures.items() for threads in counts if not result[threads]["same"]]
    print("".join(f"\nFAIL {line}: the outputs differ from ONNX Runtime's" for line in bad))
    if not options.names and counts == [1, 2]:
        report.save("nodes", figures, [[f"single nodes, speed over onnxruntime, {threads} threads, geometric mean", f"{geometric_mean(figures, threads):.2f}"]
                                       for threads in counts], "numpy", "onnx", "onnxruntime")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
