#!/usr/bin/env python3
"""Measures what regions save on a device: pointwise nodes as one kernel, and each node as a launch of its own (`plain`).

Both take turns in one process, with their input on the device. One element of the result comes back, which waits for
the work. Two of the twelve nodes of the first chain are those of a library, micro/blocks_source.c, built by `tenon build`.

Usage: device_regions.py [--device NAME] [--rounds N]
"""
import argparse
import os
import re
import sys
import time

import numpy as np
import report

sys.path[:0] = os.path.join(report.BUILD, "python"), os.path.join(report.ROOT, "bench/models")
import tenon  # noqa: E402
from region_chains import LARGE, one, twelve  # noqa: E402

core = tenon.graph.ops.core
SHIFT = 0.125


def library_chain(b, x):
    return twelve(core, x, lambda value: tenon.graph.ops.blocks_source.affine(value, scale=1.0, shift=SHIFT))


def built_in_chain(b, x):
    return twelve(core, x)


def biases(b, x):
    bias = b.constant(np.linspace(-1, 1, x.shape[-1], dtype=np.float32))
    for _ in range(3):
        x = core.max(core.mul(core.add(x, bias), 0.9), -1.0)
    return x


def casts(b, x):
    y = core.cast(core.mul(core.cast(core.cast(x, to="f16"), to="f32"), 0.5), to="i32")
    return core.where(core.greater(x, 0.0), core.cast(y, to="f32"), core.clip(x, -1.0, 1.0))


CASES = {  # text: graph, shape, nodes
    "1 node, 8 Mi floats": (lambda b, x: one(core, x), (LARGE,), 1),
    "12 nodes, 2 of a library, 8 Mi floats": (library_chain, (LARGE,), 12),
    "12 nodes, 8 Mi floats": (built_in_chain, (LARGE,), 12),
    "9 nodes with 3 biases, 1 Mi floats": (biases, (1024, 1024), 9),
    "8 nodes with casts and a choice, 1 Mi floats": (casts, (1024, 1024), 8),
    "12 nodes, 2 of a library, 1024 floats": (library_chain, (1024,), 12),
}


def compile_case(build, shape, device, plain):
    b = tenon.graph.Builder("bench")
    y = core.reshape(build(b, b.input("x", "f32", list(shape))), b.constant(np.array([-1])))
    return b.finish({"y": core.slice(y, b.constant(np.array([7])), b.constant(np.array([8])))}).compile(device=device, plain=plain)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    tenon.load(report.build_library("blocks_source.c"))
    report.warn_when_busy()
    figures = {}
    for text, (build, shape, nodes) in CASES.items():
        x = tenon.tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32), device=f"{options.device}:0")
        runs = {plain: compile_case(build, shape, options.device, plain) for plain in (False, True)}
        times = {plain: [] for plain in runs}
        found = {}
        repeats = 50 if np.prod(shape) < 10000 else 1
        for number in range(options.rounds + 1):
            for plain, run in runs.items():
                begin = time.perf_counter()
                for _ in range(repeats):
                    found[plain] = run(x)
                if number:  # the first run compiles kernels
                    times[plain].append(1e3 * (time.perf_counter() - begin) / repeats)
        if np.asarray(found[False]).tobytes() != np.asarray(found[True]).tobytes():
            raise RuntimeError(f"{text}: the results of regions are not those of single launches")
        regions = re.findall(r"launched (\d+) times", runs[False].dump("plan"))
        members = len(re.findall(r"^ +fused  ", runs[False].dump("plan"), re.M))
        figures[text] = {"regions": report.median(times[False]), "plain": report.median(times[True]), "launches": nodes - members + len(regions), "plain_launches": nodes}
    rows = [[text, f"{f['regions']:.3f}", f"{f['plain']:.3f}", f"{f['plain'] / f['regions']:.2f}", f["launches"], f["plain_launches"]] for text, f in figures.items()]
    report.print_table(f"milliseconds on {options.device}", ["", "regions", "node by node", "ratio", "launches", "node by node"], rows)
    report.save("device_regions", figures, [[f"{options.device}: {text}, node by node over regions", f"{f['plain'] / f['regions']:.2f}"] for text, f in figures.items()], "numpy")


if __name__ == "__main__":
    main()
