#!/usr/bin/env python3
"""Measures the models of tests/adapters/stablehlo_models.py in Tenon, as programs of StableHLO, beside XLA on the CPU.

Each model and number of threads has a process of its own, which may use as many processors and in which both take turns.
Weights are arguments on both sides, and lie in memory of their own before the clock starts.  A ratio is XLA's time over
Tenon's: the median over rounds of the ratio in a round, so above 1 Tenon is faster.

Usage: stablehlo.py [--threads N,...] [--rounds N] [--seconds S] [--batch N] [NAME...].  It needs .venv-jax.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time

sys.path.pop(0)  # the folder of this file has a jax.py, which is not JAX
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import report

ADAPTERS = os.path.join(report.ROOT, "tests", "adapters")
TRAINING_BATCH = 32


def seconds_of(call, budget):
    """Returns the mean time of a call over about `budget` seconds, and of at least one call."""
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < budget:
        call()
        count += 1
    return (time.perf_counter() - start) / count


def measure(name, options):
    """Measures one model in this process and prints the figures as JSON."""
    sys.path[:0] = [os.path.join(report.BUILD, "python"), ADAPTERS]
    import jax
    import stablehlo_large_test as large
    import stablehlo_models
    model = stablehlo_models.MODELS[name]()
    arguments = model.arguments(TRAINING_BATCH if model.is_training else options.batch)
    start = time.perf_counter()
    compiled = large.load(jax.jit(model.function, keep_unused=True).lower(*arguments).as_text())
    loaded = time.perf_counter()
    placed = jax.tree.map(jax.device_put, arguments)
    program = jax.jit(model.function).lower(*placed).compile()
    ready = time.perf_counter()
    leaves = jax.tree.leaves(arguments)
    calls = {"tenon": lambda: compiled(*leaves), "xla": lambda: jax.block_until_ready(program(*placed))}
    error = max(map(large.distance, large.run(compiled, arguments), large.in_jax(model, arguments)))
    rounds = []
    for call in calls.values():
        call()
    for _ in range(options.rounds):
        rounds.append({who: seconds_of(call, options.seconds) for who, call in calls.items()})
    best = {who: min(times[who] for times in rounds) for who in calls}
    ratio = report.median([times["xla"] / times["tenon"] for times in rounds])
    print(json.dumps({"name": name, "ratio": ratio, "error": error, "load": loaded - start, "compile": ready - loaded, **best}))


def run_process(name, threads, options):
    """Measures one model in a new process that may use `threads` processors. Returns its figures; None: it failed."""
    processors = sorted(os.sched_getaffinity(0))[:threads]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TENON_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, os.path.abspath(__file__), "--worker", name, "--rounds", str(options.rounds), "--seconds", str(options.seconds), "--batch", str(options.batch)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, processors))
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
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.worker:
        measure(options.worker, options)
        return 0
    sys.path.append(ADAPTERS)
    import stablehlo_models
    report.warn_when_busy()
    available, failed = len(os.sched_getaffinity(0)), 0
    for threads in map(int, options.threads.split(",")):
        if threads > available:
            print(f"{threads} threads are left out: this process may use {available} processors")
            continue
        figures = [run_process(name, threads, options) for name in options.names or stablehlo_models.MODELS]
        failed += figures.count(None)
        figures = [f for f in figures if f]
        rows = [[f["name"], f"{1e3 * f['tenon']:.2f}", f"{1e3 * f['xla']:.2f}", f"{f['ratio']:.2f}", f"{f['error']:.1e}", f"{f['load']:.2f}", f"{f['compile']:.2f}"]
                for f in figures]
        if figures:
            mean = math.exp(sum(math.log(f["ratio"]) for f in figures) / len(figures))
            rows.append(["geometric mean", "", "", f"{mean:.2f}", "", "", ""])
        report.print_table(f"{threads} threads, batch {options.batch}, training {TRAINING_BATCH}: milliseconds, and XLA's time over Tenon's",
                           ["model", "Tenon", "XLA", "ratio", "difference", "s to load", "s to compile in XLA"], rows)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
