#!/usr/bin/env python3
"""Measures what a parallel loop costs, and whether many executables share two processors fairly.

* A loop of eight empty parts on Tenon's pool, beside OpenMP's loop in the same process; they take turns.
* Throughput: runs of a model in a second by 2 and by 16 threads at once, each with an executable of its own that may use
  as many threads as there are processors. All of them share one pool.

Usage: parallel.py [--rounds N] [--seconds S] [--model NAME]. micro/parallel.c does the timing.
"""
import argparse
import os
import subprocess

import models
import report

FEW, MANY = 2, 16


def compile_program():
    os.makedirs(report.SCRATCH, exist_ok=True)
    program = os.path.join(report.SCRATCH, "parallel")
    subprocess.run([report.CC, "-std=gnu11", "-O2", "-fopenmp", f"-I{report.ROOT}/include", f"{report.ROOT}/bench/micro/parallel.c", "-o", program, *report.LINK_TENON],
                   check=True)
    return program


def lines_of(program, *arguments):
    run = subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True)
    return [line.split()[1:] for line in run.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--model", default="lstm")
    options = parser.parse_args()
    threads = max(2, len(os.sched_getaffinity(0)))
    report.warn_when_busy()
    program = compile_program()

    columns = list(zip(*(map(float, line) for line in lines_of(program, "regions", options.rounds, threads))))
    regions = {name: {"median": report.median(values), "p90": report.quantile(values, 0.9)} for name, values in zip(("tenon", "openmp", "alone"), columns)}
    rows = [[text, *(f"{regions[name][key]:.0f}" for key in ("median", "p90"))]
            for name, text in (("tenon", f"Tenon, {threads} threads"), ("openmp", f"OpenMP, {threads} threads"), ("alone", "Tenon, one part on the calling thread"))]
    report.print_table("a loop of eight empty parts, nanoseconds", ["", "median", "p90"], rows)

    path = models.paths_of([options.model], True)[options.model]
    counts = [FEW, MANY] * 3
    found = {FEW: [], MANY: []}
    for count, runs in lines_of(program, "throughput", path, threads, options.seconds, *counts):
        found[int(count)].append(float(runs))
    throughput = {count: report.median(values) for count, values in found.items()}
    ratio = throughput[MANY] / throughput[FEW]
    rows = [[f"{count} threads, an executable each", f"{throughput[count]:.1f}", f"{throughput[count] / throughput[FEW]:.2f}"] for count in found]
    report.print_table(f"{options.model}: runs in a second", ["", "all", "ratio"], rows)
    headline = [["a parallel loop of empty parts", f"{regions['tenon']['median']:.0f} ns, OpenMP's {regions['openmp']['median']:.0f}"],
                [f"{MANY} executables at once instead of {FEW}: throughput", f"{ratio:.2f}"]]
    report.save("parallel", {"threads": threads, "regions": regions, "model": options.model, "throughput": throughput}, headline)


if __name__ == "__main__":
    main()
