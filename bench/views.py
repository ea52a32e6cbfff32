#!/usr/bin/env python3
"""Measures what concats by placement, transposed operands and blocks of convolutions cost beside what they replace.

Both ways of each row take turns in one process, and give the same bits. Figures are the median milliseconds of a run.

* concat: operands that are written into the result, beside copies (`without=placed_concat,nested_concat`). With files of
  bench/breadth.py in build/breadth, or --zoo FOLDER, networks with concats as well: those without parts show how much figures vary.
* transpose: a node, or ten, of which the first reads a transposed operand beside another one, and the same behind a copy of it.
* blocks: a convolution with an operator of a library or a chain behind it, on the whole result, beside blocks of rows, of which
  each is computed and followed by the operator while it is in cache; and the convolution alone.

Usage: views.py [--threads N] [--seconds S] [--zoo FOLDER] [--only concat|models|transpose|blocks]
"""
import argparse
import glob
import os
import sys
import time

import numpy as np
import report

sys.path[:0] = [os.path.join(report.BUILD, "python")]
import tenon  # noqa: E402

core = tenon.graph.ops.core
COPIES = "placed_concat,nested_concat"


def draw(number, shape):
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


def build(make, shapes):
    b = tenon.graph.Builder("bench")
    ports = [b.input(f"x{i}", "f32", list(shape)) for i, shape in enumerate(shapes)]
    return b.finish({"y": make(b, *ports)})


def as_list(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def measure(runs, inputs, seconds, tolerance=0):
    """Median milliseconds of each run, which take turns; their results must be equal."""
    found = [as_list(run(*inputs)) for run in runs]
    for other in found[1:]:
        for a, b in zip(found[0], other):
            if not np.allclose(a, b, rtol=0, atol=tolerance):
                raise RuntimeError("two ways of the same graph have different results")
    begin = time.perf_counter()
    runs[0](*inputs)
    repeats = max(1, int(2e-4 / (time.perf_counter() - begin)))
    times = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for run, mine in zip(runs, times):
            begin = time.perf_counter()
            for _ in range(repeats):
                run(*inputs)
            mine.append(1e3 * (time.perf_counter() - begin) / repeats)
    return [report.median(mine) for mine in times]


def chain(x):
    return core.relu(core.add(core.mul(x, 0.5), 0.25))


def long_chain(x):
    return chain(core.mul(chain(core.mul(chain(x), 1.5)), 1.5))


def joined_chains(axis):
    return lambda b, x, y: core.neg(core.concat([chain(x), chain(y)], axis=axis))


def joined_loops(axis):
    return lambda b, x, y: core.exp(core.concat([core.relu(x), core.neg(y)], axis=axis))


def joined_softmax(b, x, y):
    return core.concat([core.softmax(x), core.softmax(y)], axis=0)


def joined_again(b, x, y):
    """As DenseNet: each concat joins everything before it."""
    values = [x]
    for _ in range(12):
        all_of_them = core.concat(values, axis=0) if len(values) > 1 else x
        values.append(core.reduce_max(core.relu(all_of_them), b.constant(np.array([0]))))
    return core.concat(values, axis=0)


CONCATS = {
    "2 chains of 1 Mi floats, axis 0": (joined_chains(0), [(1024, 1024)] * 2),
    "2 chains of 32 Ki floats, axis 0": (joined_chains(0), [(64, 512)] * 2),
    "2 chains of 1 Ki floats, axis 0": (joined_chains(0), [(2, 512)] * 2),
    "2 nodes of 32 Ki floats, axis 0": (joined_loops(0), [(64, 512)] * 2),
    "2 nodes of 32 Ki floats, axis 1": (joined_loops(1), [(64, 512)] * 2),
    "2 nodes of 1 Mi floats, axis 1": (joined_loops(1), [(4096, 256)] * 2),
    "2 softmax of 384 Ki floats, axis 0": (joined_softmax, [(512, 768)] * 2),
    "13 concats, each of all values before": (joined_again, [(64, 4096), (1,)]),
}
NETWORKS = "densenet*", "googlenet", "inception_v3", "shufflenet_v2*", "squeezenet*", "unet*", "vovnet*", "cspdarknet*", "ghostnet_100", "res2net*", "vit_tiny*"


def measure_concats(options):
    rows = []
    for text, (make, shapes) in CONCATS.items():
        graph = build(make, shapes)
        runs = graph.compile(), graph.compile(without=COPIES)
        placed, copied = measure(runs, [draw(i, shape) for i, shape in enumerate(shapes)], options.seconds)
        rows.append([text, f"{placed:.4f}", f"{copied:.4f}", f"{copied / placed:.2f}"])
    return ["concat", "placed", "copied", "ratio"], rows


def measure_models(options):
    rows = []
    folder = options.zoo or os.path.join(report.BUILD, "breadth")
    for path in sorted({path for name in NETWORKS for path in glob.glob(os.path.join(folder, f"*-{name}.onnx"))}):
        inputs = dict(np.load(path[:-5] + ".npz"))
        graph = tenon.graph.load(path)
        runs = graph.compile(), graph.compile(without=COPIES)
        placed, copied = measure(runs, [inputs[name] for name, _, _ in graph.inputs], 4 * options.seconds)
        parts = runs[0].dump("plan").count(" part ")
        rows.append([os.path.basename(path)[:-5], str(parts), f"{placed:.3f}", f"{copied:.3f}", f"{copied / placed:.3f}"])
    return ["network", "parts", "placed", "copied", "ratio"], rows


TRANSPOSES = (
    ((64, 64), [1, 0]), ((512, 512), [1, 0]), ((1000, 1000), [1, 0]), ((2048, 2048), [1, 0]), ((1, 128, 12, 64), [0, 2, 1, 3]),
    ((4, 512, 16, 64), [0, 2, 1, 3]), ((2, 56, 56, 64), [0, 3, 1, 2]), ((1, 64, 56, 56), [0, 2, 3, 1]), ((8, 196, 192), [0, 2, 1]))


def measure_transposes(options):
    rows = []
    for shape, perm in TRANSPOSES:
        shapes = shape, tuple(shape[axis] for axis in perm)
        inputs = [draw(i, of) for i, of in enumerate(shapes)]
        row = [f"{'x'.join(map(str, shape))} {perm}"]
        for behind in (lambda y: y, long_chain):
            turned = lambda b, x, y: behind(core.add(core.transpose(x, perm=perm), y))
            copied = lambda b, x, y: behind(core.add(core.contiguous(core.transpose(x, perm=perm)), y))
            found = measure([build(make, shapes).compile() for make in (turned, copied)], inputs, options.seconds)
            row += [f"{found[0]:.4f}", f"{found[1]:.4f}", f"{found[1] / found[0]:.2f}"]
        rows.append(row)
    return ["transpose", "1 node", "copied", "ratio", "10 nodes", "copied", "ratio"], rows


CONVOLUTIONS = {  # channels, filters, extent, kernel, groups, blocks
    "ResNet-50 1x1 64 to 256, 56x56": (64, 256, 56, 1, 1, 7), "ResNet-50 3x3 64, 56x56": (64, 64, 56, 3, 1, 4),
    "ResNet-50 1x1 128 to 512, 28x28": (128, 512, 28, 1, 1, 4), "ResNet-50 3x3 256, 14x14": (256, 256, 14, 3, 1, 2),
    "ResNet-50 1x1 256 to 1024, 14x14": (256, 1024, 14, 1, 1, 2), "MobileNet 1x1 16 to 96, 112x112": (16, 96, 112, 1, 1, 4),
    "MobileNet 1x1 24 to 144, 56x56": (24, 144, 56, 1, 1, 4), "MobileNet depthwise 144, 56x56": (144, 144, 56, 3, 144, 4)}


def convolve(b, x, w, pads):
    group = x.shape[1] // w.shape[1]
    return core.conv(x, b.constant(w), pads=pads, group=group)


def in_blocks(b, x, w, extent, blocks, behind):
    half, step, parts = w.shape[2] // 2, -(-extent // blocks), []
    for begin in range(0, extent, step):
        low, high = begin - half, min(begin + step, extent) + half
        rows = core.slice(x, b.constant(np.array([max(low, 0)])), b.constant(np.array([min(high, extent)])), b.constant(np.array([2])), None)
        parts.append(behind(convolve(b, rows, w, [max(0, -low), half, max(0, high - extent), half])))
    return core.concat(parts, axis=2)


def measure_blocks(options):
    affine = lambda y: tenon.graph.ops.blocks.affine(y, scale=0.9, shift=0.1)
    spelled = lambda y: core.add(core.mul(core.clip(core.add(core.mul(y, 0.21), 0.49), 0.0, 1.0), y), core.mul(y, 0.01))
    rows = []
    for text, (channels, filters, extent, kernel, groups, blocks) in CONVOLUTIONS.items():
        w = (draw(1, (filters, channels // groups, kernel, kernel)) / np.float32(np.sqrt(channels // groups * kernel * kernel))).astype(np.float32)
        last = lambda make: lambda b, x: core.transpose(make(b, core.transpose(x, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1])
        pads, shape, row = [kernel // 2] * 4, (1, extent, extent, channels), [text]
        alone = measure([build(last(lambda b, x: convolve(b, x, w, pads)), [shape]).compile()], [draw(2, shape)], options.seconds)[0]
        row.append(f"{alone:.4f}")
        for behind in (affine, spelled):
            whole = last(lambda b, x: behind(convolve(b, x, w, pads)))
            cut = last(lambda b, x: in_blocks(b, x, w, extent, blocks, behind))
            found = measure([build(make, [shape]).compile() for make in (whole, cut)], [draw(2, shape)], options.seconds, 1e-3)
            row += [f"{found[0]:.4f}", f"{found[1]:.4f}", f"{found[0] / found[1]:.3f}"]
        rows.append(row)
    return ["convolution", "alone", "library's operator", "in blocks", "ratio", "chain", "in blocks", "ratio"], rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row; networks take four times as long")
    parser.add_argument("--zoo", help="the folder with the networks")
    parser.add_argument("--only", choices=("concat", "models", "transpose", "blocks"))
    options = parser.parse_args()
    tenon.load(report.build_library("blocks.c"))
    tenon.threads(options.threads)
    report.warn_when_busy()
    parts = {"concat": measure_concats, "models": measure_models, "transpose": measure_transposes, "blocks": measure_blocks}
    for name, part in parts.items():
        if options.only not in (None, name):
            continue
        header, rows = part(options)
        if rows:
            report.print_table(f"milliseconds of a run, {options.threads} thread(s)", header, rows)
        else:
            report.progress("no network is measured, because bench/breadth.py has written none")


if __name__ == "__main__":
    main()
