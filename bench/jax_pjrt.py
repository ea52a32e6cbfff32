#!/usr/bin/env python3
"""Runs a network and its gradient in JAX on devices of Tenon, compares the values with those of JAX's CPU, and measures a call on each platform.

Usage: jax_pjrt.py [--rounds N] [--calls N].  `make pjrt` sets up what it needs: libtenon_pjrt.so, build/pjrt and build/python in PYTHONPATH, and .venv-jax.
The platforms are those of TENON_PJRT and `cpu`, JAX's own.  A call is measured from Python until its results are there.
"""
import argparse
import os
import statistics
import sys
import time

sys.path.pop(0)  # bench/ has a jax.py
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import report

sys.path.append(os.path.join(report.ROOT, "tests", "adapters"))

os.environ.setdefault("TENON_PJRT", "sim,cpu")
BACKENDS = os.environ["TENON_PJRT"].split(",")
os.environ["JAX_PLATFORMS"] = ",".join([f"tenon_{name.strip()}" for name in BACKENDS] + ["cpu"])
import jax
import numpy as np
from jax_network import loss, network


def inputs(*widths):
    draw = np.random.default_rng(2026)
    layers = [(draw.normal(size=(m, n)).astype(np.float32) / m ** 0.5, draw.normal(size=n).astype(np.float32)) for m, n in zip(widths, widths[1:])]
    return layers, draw.normal(size=(32, widths[0])).astype(np.float32), draw.normal(size=(32, widths[-1])).astype(np.float32)


PROGRAMS = {
    "x + 1, 16 elements": (lambda x: x + 1, (np.ones(16, np.float32),)),
    "x + 1, 1,048,576 elements": (lambda x: x + 1, (np.ones(1 << 20, np.float32),)),
    "network 64-128-10": (network, inputs(64, 128, 10)[:2]),
    "its loss and gradient": (jax.value_and_grad(loss), inputs(64, 128, 10)),
}


def microseconds(function, arguments, options):
    """The median of the rounds, of the time of one call."""
    times = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        for _ in range(options.calls):
            jax.block_until_ready(function(*arguments))
        times.append(1e6 * (time.perf_counter() - start) / options.calls)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=50)
    options = parser.parse_args()
    report.warn_when_busy()
    for name, (function, arguments) in PROGRAMS.items():
        values, costs = {}, {}
        for platform in os.environ["JAX_PLATFORMS"].split(","):
            placed = jax.device_put(arguments, jax.devices(platform)[0])
            compiled = jax.jit(function)
            values[platform] = jax.tree.map(np.asarray, compiled(*placed))
            costs[platform] = microseconds(compiled, placed, options)
        print(name)
        for platform, cost in costs.items():
            apart = max(jax.tree.leaves(jax.tree.map(lambda a, b: float(np.abs(a - b).max()), values[platform], values["cpu"])))
            print(f"  {platform:12} {cost:10.1f} us   largest difference to cpu {apart:.1e}")


if __name__ == "__main__":
    main()
