#!/usr/bin/env python3
"""Measures a Tenon operator that was exported to MXNet, beside the same kernel written against MXNet's lib_api.h.

Both run in one process of MXNet 1.9.1 and take turns; each kernel has one thread.

Usage: mxnet_export.py [--rounds N] [--seconds S]. It needs MXNet's virtual environment
(tests/adapters/mxnet_oracle.py) and a C++ compiler.
"""
import argparse
import os
import subprocess
import sys
import time

import report

COUNTS = 64, 4096, 1 << 20  # elements
MICRO = os.path.join(report.ROOT, "bench", "micro")


def libraries():
    """Builds both libraries, against the header that comes with MXNet."""
    import mxnet
    root = os.path.dirname(mxnet.__file__)
    os.makedirs(report.SCRATCH, exist_ok=True)
    tenon, direct = os.path.join(report.BUILD, "tenon"), os.path.join(report.SCRATCH, "scale_direct.so")
    own, exported = os.path.join(report.SCRATCH, "scale.so"), os.path.join(report.SCRATCH, "scale_mxnet.so")
    sources = os.path.join(MICRO, "scale_mxnet.cc"), os.path.join(root, "src", "lib_api.cc")
    subprocess.run(["c++", "-std=c++11", "-O3", "-fPIC", "-shared", "-w", f"-I{root}/include", *sources, "-o", direct], check=True)
    subprocess.run([tenon, "build", os.path.join(MICRO, "scale.c"), "-o", own], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tenon, "export", "--mxnet", own, "-o", exported], check=True, stdout=subprocess.DEVNULL)
    for path in (exported, direct):
        mxnet.library.load(path, verbose=False)


def cases(mx, count):
    """By name: a function that makes, for the name of an operator, the function that is timed."""
    x, w = mx.nd.random.normal(shape=(count,)), mx.nd.random.normal(shape=(count,))
    w.attach_grad()

    def imperative(name):
        op = getattr(mx.nd, name)
        return lambda: op(x, by=1.5).wait_to_read()

    def symbolic(name):
        bound = getattr(mx.sym, name)(mx.sym.Variable("x"), by=1.5).bind(mx.cpu(), {"x": x})
        return lambda: bound.forward()[0].wait_to_read()

    def there_and_back(name):
        op = getattr(mx.nd, name)

        def call():
            with mx.autograd.record():
                y = op(w, by=1.5)
            y.backward()
            w.grad.wait_to_read()
        return call
    return {"imperative": imperative, "bound symbol": symbolic, "forward and backward": there_and_back}


def measure(mx, count, make, rounds, seconds):
    """Nanoseconds of a call, as a list for each operator. The operators take turns, with many calls in each round."""
    calls = {who: make(name) for who, name in (("tenon", "bench_scale"), ("direct", "direct_scale"))}
    times = {who: [] for who in calls}
    begin = time.perf_counter()
    for call in calls.values():
        for _ in range(20):
            call()
    number = max(5, int(seconds / rounds / ((time.perf_counter() - begin) / 40) / 2))
    for turn in range(rounds):
        for who, call in list(calls.items())[::1 if turn % 2 else -1]:
            begin = time.perf_counter()
            for _ in range(number):
                call()
            times[who].append((time.perf_counter() - begin) / number * 1e9)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=8, help="for each case")
    options = parser.parse_args()
    try:
        import mxnet as mx
    except ImportError:
        sys.path.insert(0, os.path.join(report.ROOT, "tests", "adapters"))
        import mxnet_oracle
        python = mxnet_oracle.python()
        if not python or sys.executable == python:
            sys.exit("bench: mxnet_export: MXNet 1.9.1 is not installed (make test-mxnet makes .venv-mxnet-1.9)")
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])
    report.warn_when_busy()
    os.environ["TENON_THREADS"] = "1"  # libtenon reads it when MXNet loads the library
    libraries()
    figures, rows, headline = {}, [], []
    for count in COUNTS:
        for name, make in cases(mx, count).items():
            times = measure(mx, count, make, options.rounds, options.seconds)
            ratio = report.median([a / b for a, b in zip(times["tenon"], times["direct"])])
            figure = {"nanoseconds": {who: report.median(values) for who, values in times.items()}, "ratio": ratio}
            figures.setdefault(name, {})[count] = figure
            rows.append([f"{name}, {count} elements", *(f"{figure['nanoseconds'][who] / 1e3:.1f}" for who in ("tenon", "direct")), f"{ratio:.3f}"])
            headline.append([f"MXNet, {name}, {count} elements: times a direct operator's", f"{ratio:.2f}"])
    report.print_table("y = x * by in MXNet, microseconds for a call", ["", "Tenon's", "direct", "ratio"], rows)
    report.save("mxnet_export", figures, headline, "mxnet")


if __name__ == "__main__":
    main()
