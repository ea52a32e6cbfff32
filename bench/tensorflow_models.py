#!/usr/bin/env python3
"""Measures the models of tests/adapters/tensorflow_models.py in Tenon, converted, beside TensorFlow on the CPU (tf.function).

Each model and number of threads has a process of its own, which may use as many processors and in which both take turns.
A ratio is TensorFlow's time over Tenon's: the median over rounds of the ratio in a round, so above 1 Tenon is faster.

Usage: tensorflow_models.py [--threads N,...] [--rounds N] [--seconds S] [--batch N] [--xla] [NAME...].  It needs .venv-tensorflow.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time

import report

sys.path.pop(0)  # the folder of this file has a tensorflow.py and a jax.py, which are not TensorFlow and JAX

ADAPTERS = os.path.join(report.ROOT, "tests", "adapters")


def seconds_of(call, budget):
    """Returns the mean time of a call over about `budget` seconds, and of at least one call."""
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < budget:
        call()
        count += 1
    return (time.perf_counter() - start) / count


def measure(name, options):
    """Measures one model in this process and prints the figures as JSON."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(os.environ["TENON_THREADS"])])
    sys.path[:0] = [os.path.join(report.BUILD, "python"), ADAPTERS]
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ["TENON_THREADS"]))
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import tenon.tensorflow
    import tensorflow_convert_large_test as large
    import tensorflow_models
    model = tensorflow_models.MODELS[name]()
    start = time.perf_counter()
    compiled = tenon.tensorflow.convert(model.keras).compile()
    converted = time.perf_counter() - start
    program = tensorflow_models.function_of(model, **({"jit_compile": True} if options.xla else {}))
    inputs = model.inputs(options.batch)
    tensors = [tf.constant(x) for x in inputs]
    found, right = large.listed(compiled(*inputs)), large.listed(program(*tensors))
    error = max(large.distance(a, b) for a, b in zip(found, right))
    concrete = program.get_concrete_function()
    calls = {"tenon": lambda: compiled(*inputs), "tensorflow": lambda: [y.numpy() for y in tf.nest.flatten(concrete(*tensors))]}
    rounds = []
    for call in calls.values():
        call()
    for _ in range(options.rounds):
        rounds.append({who: seconds_of(call, options.seconds) for who, call in calls.items()})
    best = {who: min(times[who] for times in rounds) for who in calls}
    ratio = report.median([times["tensorflow"] / times["tenon"] for times in rounds])
    print(json.dumps({"name": name, "ratio": ratio, "error": error, "convert": converted, **best}))


def run_process(name, threads, options):
    """Measures one model in a new process that may use `threads` processors. Returns its figures; None: it failed."""
    environment = {**os.environ, "TENON_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, os.path.abspath(__file__), "--worker", name, "--rounds", str(options.rounds), "--seconds", str(options.seconds), "--batch", str(options.batch)]
    command += ["--xla"] if options.xla else []
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: status {done.returncode}: {done.stderr[-500:]}")
        return None
    return json.loads(done.stdout.strip().split("\n")[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each side in a round")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--xla", action="store_true", help="let TensorFlow compile its functions with XLA")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.worker:
        measure(options.worker, options)
        return 0
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.path[:0] = [os.path.join(report.BUILD, "python"), ADAPTERS]
    import tensorflow_models
    report.warn_when_busy()
    available, failed = len(os.sched_getaffinity(0)), 0
    for threads in map(int, options.threads.split(",")):
        if threads > available:
            print(f"{threads} threads are left out: this process may use {available} processors")
            continue
        figures = [run_process(name, threads, options) for name in options.names or tensorflow_models.MODELS]
        failed += figures.count(None)
        figures = [f for f in figures if f]
        rows = [[f["name"], f"{1e3 * f['tenon']:.2f}", f"{1e3 * f['tensorflow']:.2f}", f"{f['ratio']:.2f}", f"{f['error']:.1e}", f"{f['convert']:.1f}"] for f in figures]
        if figures:
            mean = math.exp(sum(math.log(f["ratio"]) for f in figures) / len(figures))
            rows.append(["geometric mean", "", "", f"{mean:.2f}", "", ""])
        report.print_table(f"{threads} threads, batch {options.batch}: milliseconds, and TensorFlow's time over Tenon's{' (XLA)' if options.xla else ''}",
                           ["model", "Tenon", "TensorFlow", "ratio", "difference", "s to convert"], rows)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
