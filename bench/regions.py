#!/usr/bin/env python3
"""Measures what regions save, and whether operators of a library cost more in them than built-in ones.

Chains of pointwise nodes and of rows run as compiled, and node by node (`plain`); all of them take turns in one process. A
figure is the median time of a run. The library is micro/blocks.c, built by `tenon build`. Models of the zoo run with its four
operators behind each normalisation (MiniLM) or residual block (ResNet-50), and with built-in ones there that compute the same.

Usage: regions.py [--rounds N] [--threads N]
"""
import argparse
import os
import subprocess
import sys
import time

import numpy as np
import report

sys.path[:0] = os.path.join(report.BUILD, "python"), os.path.join(report.ROOT, "bench/models")
import tenon  # noqa: E402
from put_blocks import put_blocks  # noqa: E402

core = tenon.graph.ops.core
SCALE, SHIFT = 0.75, 0.125


def pointwise(x, affines):
    """Twelve nodes; two of them, which may be a library's, scale and shift."""
    for node in range(5):
        x = core.add(core.mul(x, 0.5), 0.25) if node % 2 else core.neg(core.max(x, -2.0))
        if node % 3 == 1:
            x = affines(x)
    return x


def one_node(b, x):
    return core.neg(x)


def built_in_chain(b, x):
    return pointwise(x, lambda value: core.add(value, SHIFT))


def library_chain(b, x):
    return pointwise(x, lambda value: tenon.graph.ops.blocks.affine(value, scale=1.0, shift=SHIFT))


def norm(b, x):
    """What follows a product in a transformer."""
    width = x.shape[-1]
    bias, scale, shift = (b.constant(np.linspace(-1, 1, width, dtype=np.float32) + i) for i in range(3))
    return core.add(core.layer_norm(core.gelu(core.add(x, bias)), scale, shift)[0], x)


def built_in_rows(b, x):
    gain = b.constant(np.linspace(-1, 1, x.shape[-1], dtype=np.float32))
    y = core.sub(x, core.reduce_mean(x, b.constant(np.array([-1]))))
    return core.add(core.rms_norm(core.mul(y, core.relu(x)), gain), x)


def library_rows(b, x):
    gain = b.constant(np.linspace(-1, 1, x.shape[-1], dtype=np.float32))
    blocks = tenon.graph.ops.blocks
    return core.add(blocks.rms(blocks.gate(blocks.centre(x)[0], x), gain), x)


LARGE, ROWS = (8 << 20,), (4096, 768)
CASES = {  # text: graph, shape
    "one node, 8 Mi floats": (one_node, LARGE),
    "12 nodes, 8 Mi floats": (built_in_chain, LARGE),
    "12 nodes, 2 of a library": (library_chain, LARGE),
    "bias, gelu, layer_norm, residual, 4096 x 768": (norm, ROWS),
    "mean, gate, rms_norm, residual, 4096 x 768": (built_in_rows, ROWS),
    "the same of a library": (library_rows, ROWS),
}
MODELS = "minilm_128", "resnet50"


def compile_case(build, shape):
    runs = []
    for plain in (False, True):
        b = tenon.graph.Builder("bench")
        x = b.input("x", "f32", list(shape))
        runs.append(b.finish({"y": build(b, x)}).compile(plain=plain))
    return runs


def measure_model(name, rounds):
    """Milliseconds of a model with operators of the library, and with built-in ones, in turns."""
    runs, times = {}, {"library": [], "built-in": []}
    for kind in times:
        path = os.path.join(report.SCRATCH, f"{name}_blocks.onnx")
        put_blocks(os.path.join(report.BUILD, "zoo", f"{name}.onnx"), path, kind == "library")
        graph = tenon.graph.load(path)
        random = np.random.default_rng(2)
        inputs = [random.standard_normal(shape).astype(np.float32) if str(dtype) == "f32" else np.ones(shape, np.int64) for _, dtype, shape in graph.inputs]
        runs[kind] = graph.compile(), inputs
    for number in range(rounds + 1):
        for kind, (run, inputs) in runs.items():
            begin = time.perf_counter()
            run(*inputs)
            if number:
                times[kind].append(1e3 * (time.perf_counter() - begin))
    return {kind: report.median(values) for kind, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.makedirs(report.SCRATCH, exist_ok=True)
    library = os.path.join(report.SCRATCH, "blocks.so")
    subprocess.run([os.path.join(report.BUILD, "tenon"), "build", f"{report.ROOT}/bench/micro/blocks.c", "-o", library], check=True, stdout=subprocess.DEVNULL)
    tenon.load(library)
    tenon.threads(options.threads)
    report.warn_when_busy()
    data = {shape: np.random.default_rng(1).standard_normal(shape).astype(np.float32) for shape in (LARGE, ROWS)}
    runs = {text: (compile_case(build, shape), data[shape]) for text, (build, shape) in CASES.items()}
    times = {(text, plain): [] for text in CASES for plain in (False, True)}
    for number in range(options.rounds + 1):
        for text, (both, x) in runs.items():
            for plain, run in enumerate(both):
                begin = time.perf_counter()
                run(x)
                if number:  # the first run plans
                    times[text, bool(plain)].append(1e3 * (time.perf_counter() - begin))
    figures = {text: {"regions": report.median(times[text, False]), "plain": report.median(times[text, True])} for text in CASES}
    rows = [[text, f"{f['regions']:.2f}", f"{f['plain']:.2f}", f"{f['plain'] / f['regions']:.2f}"] for text, f in figures.items()]
    report.print_table(f"milliseconds of a run, {options.threads} threads", ["", "in regions", "node by node", "ratio"], rows)
    models = {name: measure_model(name, options.rounds) for name in MODELS}
    rows = [[name, f"{f['library']:.2f}", f"{f['built-in']:.2f}", f"{f['library'] / f['built-in']:.3f}"] for name, f in models.items()]
    report.print_table("milliseconds of a run with four more operators in each block", ["", "of a library", "built-in", "ratio"], rows)
    chain = figures["12 nodes, 2 of a library"]["regions"]
    headline = [["12 pointwise nodes, 2 of them of a library, over one node", f"{chain / figures['one node, 8 Mi floats']['regions']:.2f}"],
                ["the same over built-in nodes alone", f"{chain / figures['12 nodes, 8 Mi floats']['regions']:.2f}"]]
    headline += [[f"{name} with operators of a library in each block, over built-in ones", rows[i][3]] for i, name in enumerate(MODELS)]
    report.save("regions", {"threads": options.threads, "milliseconds": figures, "models": models}, headline)


if __name__ == "__main__":
    main()
