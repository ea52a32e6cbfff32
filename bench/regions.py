#!/usr/bin/env python3
"""Measures what regions save, and whether operators of a library cost more in them than built-in ones.

Chains of pointwise nodes and of rows run as compiled, and node by node (`plain`); all of them take turns in one process. A
figure is the median time of a run. The library is micro/blocks.c, built by `tenon build`. Models of the zoo run with its four
operators behind each normalisation (MiniLM) or residual block (ResNet-50), and with built-in ones there that compute the same.

OpenVINO and Modular's MAX run the chains of models/region_chains.py in turns with Tenon, each in a process of its own, with one thread.
They need environments of their own: --max and --openvino name their Pythons (`pip install max`: 1 GB, `pip install openvino`).

Usage: regions.py [--rounds N] [--threads N] [--max PYTHON] [--openvino PYTHON] [--only-chains]
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
from region_chains import CHAINS, LARGE as LARGE_COUNT, one, twelve  # noqa: E402

core = tenon.graph.ops.core
SHIFT = 0.125


def one_node(b, x):
    return one(core, x)


def built_in_chain(b, x):
    return twelve(core, x)


def library_chain(b, x):
    return twelve(core, x, lambda value: tenon.graph.ops.blocks.affine(value, scale=1.0, shift=SHIFT))


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


def clips(b, x):
    for _ in range(4):
        x = core.clip(core.mul(x, 0.9), -1.0, 1.0)
    return x


def choices(b, x):
    for _ in range(2):
        x = core.where(core.greater(x, 0.0), core.mul(x, 0.9), core.add(x, 0.1))
    return x


def activations(b, x):
    for _ in range(2):
        x = core.leaky_relu(core.mul(core.hard_swish(x), 1.01), alpha=0.2)
    return x


def biases(b, x):
    bias = b.constant(np.linspace(-1, 1, x.shape[-1], dtype=np.float32))
    for _ in range(4):
        x = core.mul(core.add(x, bias), 0.9)
    return x


def halves(b, x):
    scale, shift = (b.constant(np.float16(value)) for value in (0.9, 0.1))
    x = core.cast(x, to="f16")
    for _ in range(4):
        x = core.add(core.mul(x, scale), shift)
    return core.cast(x, to="f32")


LARGE, ROWS, MEDIUM, FEW = (LARGE_COUNT,), (4096, 768), (1024, 1024), (2, 1024)
CASES = {  # text: graph, shape
    "one node, 8 Mi floats": (one_node, LARGE),
    "12 nodes, 8 Mi floats": (built_in_chain, LARGE),
    "12 nodes, 2 of a library": (library_chain, LARGE),
    "bias, gelu, layer_norm, residual, 4096 x 768": (norm, ROWS),
    "mean, gate, rms_norm, residual, 4096 x 768": (built_in_rows, ROWS),
    "the same of a library": (library_rows, ROWS),
    **{f"{text}, {size}": (build, shape) for size, shape in (("1 Mi floats", MEDIUM), ("2048 floats", FEW)) for text, build in (
        ("4 mul and clip", clips), ("2 where, with greater, mul and add", choices), ("2 hard_swish, mul and leaky_relu", activations),
        ("4 add of a bias and mul", biases), ("cast to f16, 4 mul and add, cast", halves))},
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


class Peer:
    """Another runtime, which runs the chains in a process of its own when it is asked to."""

    def __init__(self, name, python):
        self.name = name
        self.process = subprocess.Popen([python, os.path.join(report.ROOT, "bench/models/region_peer.py"), name], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})
        for line in self.process.stdout:  # MAX prints while it compiles
            if line.startswith("ready "):
                self.version = line.split()[1]
                return
        raise RuntimeError(f"{name} ended with status {self.process.wait()} before it had compiled the chains")

    def run(self, number, repeats):
        """Seconds of a run of a chain, and the sum of the magnitudes of its result."""
        self.process.stdin.write(f"{number} {repeats}\n")
        self.process.stdin.flush()
        seconds, total = map(float, self.process.stdout.readline().split())
        return seconds, total

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def open_peers(options):
    """The peers that are there; of the others, the reason is printed."""
    peers = []
    for name, python in (("max", options.max), ("openvino", options.openvino)):
        if not python:
            report.progress(f"{name} is skipped, because --{name} names no Python that has it")
            continue
        try:
            peers.append(Peer(name, python))
        except (OSError, RuntimeError) as error:
            report.progress(f"{name} is skipped: {error}")
    return peers


def measure_chains(peers, rounds):
    """Milliseconds of each chain by Tenon and its peers, in turns."""
    times = {}
    for number, (text, (build, count)) in enumerate(CHAINS.items()):
        b = tenon.graph.Builder("chain")
        run = b.finish({"y": build(core, b.input("x", "f32", [count]))}).compile()
        x = np.random.default_rng(1).standard_normal(count).astype(np.float32)
        repeats = max(1, (1 << 18) // count)
        mine = {"tenon": [], **{peer.name: [] for peer in peers}}
        for turn in range(rounds + 1):
            begin = time.perf_counter()
            for _ in range(repeats):
                y = run(x)
            found = [("tenon", (time.perf_counter() - begin) / repeats, np.abs(y).sum(dtype=np.float64))]
            found += [(peer.name, *peer.run(number, repeats)) for peer in peers]
            for name, seconds, total in found:
                if not abs(total - found[0][2]) <= 1e-4 * found[0][2]:
                    raise RuntimeError(f"{text}: the results of {name} add up to {total}, those of Tenon to {found[0][2]}")
                if turn:  # the first run plans
                    mine[name].append(1e3 * seconds)
        times[text] = {name: report.median(values) for name, values in mine.items()}
    return times


def print_chains(times):
    names = list(next(iter(times.values())))
    rows = [[text] + [f"{found[name]:.4f}" for name in names] + [f"{found[name] / found['tenon']:.2f}" for name in names[1:]] for text, found in times.items()]
    report.print_table("milliseconds of a chain, 1 thread", [""] + names + [f"{name} over tenon" for name in names[1:]], rows)
    return [[f"{text}: time of {name} over Tenon's", f"{found[name] / found['tenon']:.2f}"] for text, found in times.items() for name in names[1:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max", help="the Python of an environment that has MAX")
    parser.add_argument("--openvino", help="the Python of an environment that has OpenVINO")
    parser.add_argument("--only-chains", action="store_true", help="measure only the chains that peers run, and store nothing")
    options = parser.parse_args()
    peers = open_peers(options)
    if options.only_chains:
        tenon.threads(1)
        print_chains(measure_chains(peers, options.rounds))
        return
    tenon.load(report.build_library("blocks.c"))
    tenon.threads(options.threads)
    report.warn_when_busy()
    data = {shape: np.random.default_rng(1).standard_normal(shape).astype(np.float32) for shape in (LARGE, ROWS, MEDIUM, FEW)}
    runs = {text: (compile_case(build, shape), data[shape]) for text, (build, shape) in CASES.items()}
    times = {(text, plain): [] for text in CASES for plain in (False, True)}
    for number in range(options.rounds + 1):
        for text, (both, x) in runs.items():
            repeats = 100 if x.size < 10000 else 1
            for plain, run in enumerate(both):
                begin = time.perf_counter()
                for _ in range(repeats):
                    run(x)
                if number:  # the first run plans
                    times[text, bool(plain)].append(1e3 * (time.perf_counter() - begin) / repeats)
    figures = {text: {"regions": report.median(times[text, False]), "plain": report.median(times[text, True])} for text in CASES}
    rows = [[text, f"{f['regions']:.4f}", f"{f['plain']:.4f}", f"{f['plain'] / f['regions']:.2f}"] for text, f in figures.items()]
    report.print_table(f"milliseconds of a run, {options.threads} threads", ["", "in regions", "node by node", "ratio"], rows)
    here = [name for name in MODELS if os.path.exists(os.path.join(report.BUILD, "zoo", f"{name}.onnx"))]
    for name in sorted(set(MODELS) - set(here)):
        report.progress(f"{name} is skipped, because `make zoo` has not written it; figures are not stored")
    models = {name: measure_model(name, options.rounds) for name in here}
    rows = [[name, f"{f['library']:.2f}", f"{f['built-in']:.2f}", f"{f['library'] / f['built-in']:.3f}"] for name, f in models.items()]
    if rows:
        report.print_table("milliseconds of a run with four more operators in each block", ["", "of a library", "built-in", "ratio"], rows)
    chain = figures["12 nodes, 2 of a library"]["regions"]
    headline = [["12 pointwise nodes, 2 of them of a library, over one node", f"{chain / figures['one node, 8 Mi floats']['regions']:.2f}"],
                ["the same over built-in nodes alone", f"{chain / figures['12 nodes, 8 Mi floats']['regions']:.2f}"]]
    headline += [[f"{name} with operators of a library in each block, over built-in ones", rows[i][3]] for i, name in enumerate(models)]
    tenon.threads(1)
    chains = measure_chains(peers, options.rounds)
    headline += print_chains(chains)
    versions = {peer.name: peer.version for peer in peers}
    if len(models) < len(MODELS):
        return
    report.save("regions", {"threads": options.threads, "milliseconds": figures, "models": models, "chains": chains, "peers": versions}, headline)


if __name__ == "__main__":
    main()
