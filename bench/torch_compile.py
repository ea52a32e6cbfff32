#!/usr/bin/env python3
"""Measures torch.compile(model, backend="tenon") beside inductor and eager PyTorch: the time of a call, and of the first call.

The compilers take turns in one process; a figure is the smallest of the rounds. "frozen" is Tenon with the option freeze. Models whose
module computes a loss are steps of training: forward and backward. The first call of a compiler is measured in a process of its own, with
an empty cache, after a small model was compiled, so that it contains no imports. On a machine that does other work, --processor-time
measures the time of the processor instead of that of the clock, for calls with one thread.

Usage: torch_compile.py [--threads N,...] [--rounds N] [--no-first] [--processor-time] [NAME...]; the names are those of
tests/acceptance/compile_models.py, and the default are its named models. It needs .venv-compile.
"""
import argparse
import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings

import report

sys.path[:0] = [os.path.join(report.BUILD, "python"), os.path.join(report.ROOT, "tests", "acceptance")]
COMPILERS = "tenon", "frozen", "inductor"


def caller(torch, case, compiler):
    """Returns a function that runs the model once, with inputs that it may change: models write to caches."""
    options = {"frozen": {"backend": "tenon", "options": {"freeze": True}}, "eager": None}.get(compiler, {"backend": compiler})
    compiled = case.module if options is None else torch.compile(case.module, **options)
    if not case.module.training:
        return lambda inputs: compiled(**inputs)

    def step(inputs):
        case.module.zero_grad()
        compiled(**inputs).backward()
    return step


def measure(name, threads, rounds, clock):
    """Milliseconds of a call with each compiler."""
    import torch
    import compile_models
    torch.set_num_threads(threads)
    case = compile_models.MODELS[name]()
    compilers = ["eager", "tenon", "inductor"] + ([] if case.module.training else ["frozen"])
    with torch.set_grad_enabled(case.module.training):
        calls = {}
        for compiler in compilers:
            torch._dynamo.reset()
            calls[compiler] = caller(torch, case, compiler)
        for call in calls.values():
            for _ in range(3):
                call(copy.deepcopy(case.inputs))
        best = dict.fromkeys(calls, math.inf)
        for _ in range(rounds):
            for compiler, call in calls.items():
                inputs = copy.deepcopy(case.inputs)
                begin = clock()
                call(inputs)
                best[compiler] = min(best[compiler], clock() - begin)
    return {compiler: round(1e3 * seconds, 3) for compiler, seconds in best.items()}


def first(name, threads, compiler):
    """Seconds of the first call; "eager" as compiler: what torch.compile itself takes, with a compiler that does nothing."""
    import torch
    import compile_models
    torch.set_num_threads(threads)
    backend = {"frozen": "tenon"}.get(compiler, compiler)
    torch.compile(torch.nn.Linear(2, 2), backend=backend)(torch.ones(1, 2)).sum().backward()
    case = compile_models.MODELS[name]()
    torch._dynamo.reset()
    compiled = torch.compile(case.module, backend=backend)
    with torch.set_grad_enabled(case.module.training):
        begin = time.perf_counter()
        made = compiled(**case.inputs)
        if case.module.training:
            made.backward()
    return round(time.perf_counter() - begin, 3)


def apart(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        threads = arguments[arguments.index("--threads") + 1]
        environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder, TENON_THREADS=threads, OMP_NUM_THREADS=threads)
        done = subprocess.run([sys.executable, "-W", "ignore", __file__, *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-first", action="store_true", help="do not measure first calls")
    parser.add_argument("--processor-time", action="store_true", help="time of the processor; only with --threads 1")
    parser.add_argument("--one", choices=["calls", "first"], help=argparse.SUPPRESS)
    parser.add_argument("--compiler", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one == "calls":
        clock = time.process_time if options.processor_time else time.perf_counter
        print(json.dumps(measure(options.names[0], int(options.threads), options.rounds, clock)))
        return
    if options.one == "first":
        print(json.dumps(first(options.names[0], int(options.threads), options.compiler)))
        return
    import compile_models
    if options.processor_time and options.threads != "1":
        sys.exit("torch_compile: --processor-time adds up the time of all threads: use --threads 1")
    if not options.processor_time:
        report.warn_when_busy()
    figures = {}
    more = ["--processor-time"] if options.processor_time else []
    for name in options.names or compile_models.NAMED:
        report.progress(f"torch_compile: {name}")
        row = figures[name] = {"calls": {}}
        for n in options.threads.split(","):
            row["calls"][n] = apart("--one", "calls", "--threads", n, "--rounds", str(options.rounds), *more, name)
        if not options.no_first:
            row["first"] = {c: apart("--one", "first", "--threads", "2", "--compiler", c, name) for c in ("eager", "tenon", "inductor")}
    show(figures)
    if not options.names and not options.no_first and not options.processor_time:
        report.save("torch_compile", figures, headline(figures), "torch")


def show(figures):
    rows = []
    for name, row in figures.items():
        for threads, t in row["calls"].items():
            best = min(t["tenon"], t.get("frozen", math.inf))
            rows.append([f"{name}, {threads}", *(f"{t[c]:.2f}" if c in t else "" for c in ("eager", "inductor", "tenon", "frozen")),
                         f"{t['inductor'] / t['tenon']:.2f}", f"{t['inductor'] / best:.2f}", f"{t['eager'] / t['tenon']:.2f}"])
    report.print_table("milliseconds of a call", ["model, threads", "eager", "inductor", "tenon", "frozen", "inductor/tenon", "/frozen", "eager/tenon"], rows)
    rows = [[name, *(f"{row['first'][c]:.2f}" for c in ("eager", "inductor", "tenon")), f"{row['first']['inductor'] / row['first']['tenon']:.2f}"]
            for name, row in figures.items() if "first" in row]
    report.print_table("seconds of the first call; eager: torch.compile without a compiler", ["model", "eager", "inductor", "tenon", "ratio"], rows)


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def headline(figures):
    rows = []
    for threads in next(iter(figures.values()))["calls"]:
        for peer in ("inductor", "eager"):
            ratios = [row["calls"][threads][peer] / row["calls"][threads]["tenon"] for row in figures.values()]
            rows.append([f"torch.compile, {peer}'s time over Tenon's, {threads} thread{'s' * (threads != '1')}, mean and smallest of {len(ratios)} models",
                         f"{mean(ratios):.2f}, {min(ratios):.2f}"])
    ratios = [row["first"]["inductor"] / row["first"]["tenon"] for row in figures.values()]
    rows.append([f"torch.compile, first call, inductor's time over Tenon's, mean and smallest of {len(ratios)} models", f"{mean(ratios):.1f}, {min(ratios):.1f}"])
    return rows


if __name__ == "__main__":
    main()
