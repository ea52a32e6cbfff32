#!/usr/bin/env python3
"""Measures what each rewriting rule gains: every model of the zoo runs with all rules, and without each rule that applies to it.

Both executables take turns in one process. A gain is the time without the rule over the time with all rules: the median
over rounds of the ratio in a round. A rule that other rules replace in part gains little by itself.

Usage: rewrites.py [--rounds N] [--seconds S] [--threads N] [--update] [MODEL...]
"""
import argparse
import math
import os
import sys
import time

import numpy as np
import report

sys.path.insert(0, os.path.join(report.BUILD, "python"))
import tenon  # noqa: E402

ZOO = os.path.join(report.BUILD, "zoo")
DTYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32}


def inputs_of(graph):
    random = np.random.default_rng(3)
    shapes = [(DTYPES[str(dtype)], [extent if isinstance(extent, int) else 1 for extent in shape]) for _, dtype, shape in graph.inputs]
    return [random.standard_normal(shape).astype(dtype) if dtype == np.float32 else np.ones(shape, dtype) for dtype, shape in shapes]


def counts_of(executable):
    return {name: int(count) for name, count in (line.split() for line in executable.dump("rewrites").splitlines())}


def time_run(executable, inputs):
    begin = time.perf_counter()
    executable(*inputs)
    return time.perf_counter() - begin


def gain_of(full, without, inputs, rounds, seconds):
    """The median ratio of `rounds` rounds, or of at least three if these take `seconds`."""
    ratios, begin = [], time.perf_counter()
    while len(ratios) < rounds and (len(ratios) < 3 or time.perf_counter() - begin < seconds):
        with_rule, without_rule = (min(time_run(executable, inputs) for _ in range(3)) for executable in (full, without))
        ratios.append(without_rule / with_rule)
    return round(report.median(ratios), 3)


def measure(name, rounds, seconds):
    """{rule: {"count": how often it applies, "gain": the ratio of times}} of a model."""
    graph = tenon.graph.load(os.path.join(ZOO, f"{name}.onnx"))
    full, inputs, found = graph.compile(), inputs_of(graph), {}
    for rule, count in counts_of(full).items():
        without = graph.compile(without=rule)
        for executable in full, without:
            time_run(executable, inputs)  # the first run plans
        found[rule] = {"count": count, "gain": gain_of(full, without, inputs, rounds, seconds)}
        report.progress(f"{name} without {rule}: {found[rule]['gain']}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4, help="time for a model and rule, after which three rounds suffice")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--update", action="store_true", help="replace these models in bench/results/rewrites.json, and print all that are there")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    report.warn_when_busy()
    tenon.threads(options.threads)
    names = options.models or sorted(file[:-5] for file in os.listdir(ZOO) if file.endswith(".onnx"))
    figures = report.saved_figures("rewrites") if options.update else {}
    figures.update((name, measure(name, options.rounds, options.seconds)) for name in names)
    print_and_save(figures)


def print_and_save(figures):
    rules = [rule.name for rule in tenon.graph.rewrites()]
    rows, headline = [], []
    for rule in rules:
        gains = [(name, models[rule]) for name, models in figures.items() if rule in models]
        if not gains:
            continue
        mean = math.exp(sum(math.log(each["gain"]) for _, each in gains) / len(gains))
        best = max(gains, key=lambda item: item[1]["gain"])
        rows.append([rule, sum(each["count"] for _, each in gains), f"{mean:.2f}", f"{best[1]['gain']:.2f} ({best[0]})", len(gains), " ".join(name for name, _ in gains)])
        headline.append([f"rewriting rule {rule}, time without it over time with it, geometric mean of {len(gains)} models", f"{mean:.2f}"])
    report.print_table("What each rewriting rule gains", ["rule", "times applied", "gain", "most", "models", "where it applies"], rows)
    print("rules that apply to no model: " + ", ".join(rule for rule in rules if rule not in {row[0] for row in rows}))
    report.save("rewrites", figures, headline, "numpy")


if __name__ == "__main__":
    main()
