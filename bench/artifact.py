#!/usr/bin/env python3
"""Measures what an artifact saves: the time from its file to an executable beside importing and compiling the model, the time to the first
result, also in a new process, and the memory of two processes that run it.

Each model and number of threads has a process of its own, in which artifact and model take turns. Files are read once before, so that they
are in the page cache. A new process is `tenon run`, from its start to its end. The memory is that of two processes which have run the
artifact, by /proc/PID/smaps: what is mapped of the file, and the share of it that counts for each of them. Models that are
missing are made first.

Usage: artifact.py [--threads N,...] [--rounds N] [--seconds S] [NAME...]
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

import compile
import models
import report

LEAST = 3  # rounds, however long they take
TENON = os.path.join(report.BUILD, "tenon")


# ---- one model, in a process of its own -----------------------------------------------------------------------------


def open_tenon(threads):
    import binding

    tenon = binding.Tenon(report.BUILD)
    tenon.threads_set(threads)
    for name in ("tenon_graph_release", "tenon_executable_release", "tenon_tensor_release"):
        getattr(tenon.library, name).argtypes = [ctypes.c_void_p]
    tenon.library.tenon_executable_create.argtypes = [ctypes.c_void_p] * 3
    tenon.library.tenon_graph_save.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return tenon


def save(tenon, model, artifact):
    graph = ctypes.c_void_p()
    tenon.check(tenon.library.tenon_graph_load(model.encode(), None, ctypes.byref(graph)))
    tenon.check(tenon.library.tenon_graph_save(graph, artifact.encode()))
    tenon.library.tenon_graph_release(graph)


def values_of(path):
    import onnxruntime

    return models.make_inputs(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]))


def seconds_of_process(path):
    begin = time.perf_counter()
    subprocess.run([TENON, "run", path, "-i", "zeros"], check=True, capture_output=True)
    return time.perf_counter() - begin


def measure_here(path, artifact, threads, rounds, seconds):
    tenon, values = open_tenon(threads), values_of(path)
    save(tenon, path, artifact)
    files = {"model": path, "artifact": artifact}
    for file in files.values():
        compile.round_of_tenon(tenon, file, values)  # loads the operators, and reads the file
    found, begin = {who: [] for who in files}, time.perf_counter()
    while len(found["model"]) < LEAST or (len(found["model"]) < rounds and time.perf_counter() - begin < seconds):
        for who, file in files.items():
            found[who].append(compile.round_of_tenon(tenon, file, values))
    for turn in range(LEAST):
        for who, file in files.items():
            found[who][turn]["process"] = seconds_of_process(file)
    middle = lambda several, key: round(report.median([one[key] for one in several if key in one]) * 1e3, 3)
    return {who: {key: middle(several, key) for key in several[0]} for who, several in found.items()}


def hold_here(artifact, inputs):
    """Runs the artifact, says so, and ends when its standard input does."""
    import numpy as np

    tenon, stored = open_tenon(1), np.load(inputs)
    executable, _, _ = compile.create_tenon(tenon, artifact)
    compile.run_tenon(tenon, executable, {name: stored[name] for name in stored.files})
    print("ready", flush=True)
    sys.stdin.read()


def mapped(pid, artifact):
    """What is in memory of the file, and the share of it that counts for the process, in MiB."""
    sizes, inside = {"Rss:": 0, "Pss:": 0}, False
    with open(f"/proc/{pid}/smaps") as lines:
        for line in lines:
            words = line.split()
            if "-" in words[0]:
                inside = line.rstrip().endswith(artifact)
            elif inside and words[0] in sizes:
                sizes[words[0]] += int(words[1])
    return [round(size / 1024, 1) for size in sizes.values()]


def measure_memory(path, artifact, folder):
    import numpy as np

    inputs = os.path.join(folder, "inputs.npz")
    np.savez(inputs, **values_of(path))
    command = [sys.executable, os.path.abspath(__file__), "--hold", artifact, inputs]
    held = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert all(process.stdout.readline() == "ready\n" for process in held), "a process did not run the artifact"
        return [mapped(process.pid, artifact) for process in held]
    finally:
        for process in held:
            process.communicate(timeout=models.PATIENCE)


def measure_one(path, threads, rounds, seconds):
    with tempfile.TemporaryDirectory() as folder:
        artifact = os.path.join(folder, "model.tenon")
        found = measure_here(path, artifact, threads, rounds, seconds)
        memory = measure_memory(path, artifact, folder)
        return dict(found, memory=memory, size=round(os.path.getsize(artifact) / 2**20, 1), model_size=round(os.path.getsize(path) / 2**20, 1))


# ---- all models -----------------------------------------------------------------------------------------------------


def gain_of(found):
    return found["model"]["create"] / found["artifact"]["create"]


def row_of(name, threads, found):
    model, artifact = found["model"], found["artifact"]
    resident, share = found["memory"][0]
    return [f"{name}, {threads} thread{'s' if threads > 1 else ''}", f"{model['create']:.2f}", f"{artifact['create']:.2f}", f"{gain_of(found):.0f}",
            f"{model['first_run']:.1f}", f"{artifact['first_run']:.1f}", f"{model['process']:.0f}", f"{artifact['process']:.0f}", f"{resident:.0f}", f"{share:.0f}",
            f"{found['size']:.1f}", f"{found['model_size']:.1f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10, help="for one process; it has at least three rounds")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold:
        return hold_here(*options.names)
    if options.one:
        print(json.dumps(measure_one(options.names[0], int(options.threads), options.rounds, options.seconds)))
        return 0
    figures, rows = {}, []
    for name, path in models.paths_of(options.names).items():
        report.progress(f"artifact: {name}")
        figures[name] = {threads: models.measure_rounds_apart(__file__, path, threads, options) for threads in options.threads.split(",")}
        rows += [row_of(name, int(threads), found) for threads, found in figures[name].items()]
    report.print_table("milliseconds; MiB of memory and of files",
                       ["", "import + compile", "load", "times", "first run", "loaded", "process", "loaded", "mapped", "share of 2", "artifact", "model"], rows)
    if not options.names:
        gains = {name: min(gain_of(found) for found in row.values()) for name, row in figures.items()}
        headline = [["artifacts that load at least 10 times faster than import and compilation", f"{sum(gain >= 10 for gain in gains.values())} of {len(gains)}"],
                    ["first result of MiniLM, 128 tokens, from an artifact in a new process", f"{figures['minilm_128'][options.threads.split(',')[-1]]['artifact']['process']:.0f} ms"]]
        report.save("artifact", figures, headline, "onnxruntime")
    return 0


if __name__ == "__main__":
    sys.exit(main())
