#!/usr/bin/env python3
"""Measures models of the zoo in ONNX Runtime: with the execution provider tenon first, beside ONNX Runtime's CPU provider.

Each model and number of threads has a process of its own, which may use as many processors and in which both take turns.
A ratio is the CPU provider's time over Tenon's: the median over rounds of the ratio in a round, so above 1 Tenon is faster.

Usage: onnxruntime_provider.py [--threads N,...] [--rounds N] [--seconds S] [--processor] [NAME...].  The names are those of files in build/zoo.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

import report

ZOO = os.path.join(report.BUILD, "zoo")


def seconds_of(call, budget, clock):
    """Returns the mean time of a call over about `budget` seconds, and of at least one call."""
    count, start = 0, clock()
    while not count or clock() - start < budget:
        call()
        count += 1
    return (clock() - start) / count


def feed_of(session):
    """Numbers for the inputs; unknown extents are 1."""
    import numpy as np
    rng, feed = np.random.default_rng(1), {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        whole = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}.get(value.type)
        feed[value.name] = np.ones(shape, whole) if whole else rng.standard_normal(shape).astype(np.float32)
    return feed


def measure(name, options):
    """Measures one model in this process and prints the figures as JSON."""
    threads = int(os.environ["TENON_THREADS"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    sys.path[:0] = [os.path.join(report.BUILD, "python")]
    import numpy as np
    import onnxruntime
    import tenon.onnxruntime.execution_provider as provider
    path = os.path.join(ZOO, name + ".onnx")

    def settings():
        made = onnxruntime.SessionOptions()
        made.intra_op_num_threads = threads
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the threads of one would slow the other down
        return made

    alone = onnxruntime.InferenceSession(path, settings(), providers=["CPUExecutionProvider"])
    start = time.perf_counter()
    first = onnxruntime.InferenceSession(path, provider.options(settings()))
    loaded, feed = time.perf_counter() - start, feed_of(alone)
    found, right = first.run(None, feed), alone.run(None, feed)
    error = max(float(np.abs(f - r).max() / max(1.0, np.abs(r).max())) for f, r in zip(found, right))
    clock = time.process_time if options.processor else time.perf_counter
    times = [[seconds_of(lambda session=session: session.run(None, feed), options.seconds, clock) for session in (first, alone)] for _ in range(options.rounds)]
    print(json.dumps({"name": name, "tenon": min(t for t, _ in times), "cpu": min(c for _, c in times), "ratio": statistics.median(c / t for t, c in times),
                      "error": error, "load": loaded, "took": provider.report()[-1].split(": ", 1)[1]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--processor", action="store_true", help="measure the time of the processors that the process took, on a machine with other work")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        return measure(options.names[0], options)
    names = options.names or sorted(file[:-5] for file in os.listdir(ZOO) if file.endswith(".onnx"))
    for threads in options.threads.split(","):
        rows, ratios = [], []
        for name in names:
            command = [sys.executable, os.path.abspath(__file__), "--here", "--rounds", str(options.rounds), "--seconds", str(options.seconds), *["--processor"] * options.processor, name]
            done = subprocess.run(command, env={**os.environ, "TENON_THREADS": threads}, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            f = json.loads(done.stdout.splitlines()[-1])
            ratios.append(f["ratio"])
            rows.append([name, f"{1e3 * f['tenon']:.2f}", f"{1e3 * f['cpu']:.2f}", f"{f['ratio']:.2f}", f"{f['error']:.1e}", f"{f['load']:.1f}", f["took"]])
        rows.append(["geometric mean", "", "", f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}", "", "", ""])
        report.print_table(f"{threads} threads: milliseconds, and the CPU provider's time over Tenon's", ["model", "Tenon", "CPU provider", "ratio", "difference", "s to load", "taken"], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
