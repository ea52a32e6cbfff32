#!/usr/bin/env python3
"""Measures how long a model takes from its file to an executable: Tenon beside ONNX Runtime's session of the same file.

Each model and number of threads has a process of its own, in which the two take turns. The file is read once before, so
that it is in the page cache. Tenon's time is the import and the compilation; `first run` is the time from the file to the
first results, because Tenon plans memory then. ONNX Runtime has its default level of optimisation. What was made is
released outside of the timed part. Models that are missing are made first.

Usage: compile.py [--threads N,...] [--rounds N] [--seconds S] [NAME...]
"""
import argparse
import ctypes
import json
import sys
import time

import models
import report

LEAST = 3  # rounds, however long they take


# ---- one model, in a process of its own -----------------------------------------------------------------------------


def create_tenon(tenon, path):
    """Returns the executable, and the moments at which the graph and the executable were there."""
    library, graph, executable = tenon.library, ctypes.c_void_p(), ctypes.c_void_p()
    tenon.check(library.tenon_graph_load(path.encode(), None, ctypes.byref(graph)))
    imported = time.perf_counter()
    tenon.check(library.tenon_executable_create(graph, None, ctypes.byref(executable)))
    compiled = time.perf_counter()
    library.tenon_graph_release(graph)
    return executable, imported, compiled


def run_tenon(tenon, executable, values):
    import numpy as np

    codes = {np.dtype("float32"): (2, 32), np.dtype("int64"): (0, 64)}
    tensors = [tenon.tensor(array.ctypes.data, codes[array.dtype], array.shape) for array in values.values()]
    inputs, outputs = (ctypes.c_void_p * len(tensors))(*tensors), (ctypes.c_void_p * 64)()
    tenon.check(tenon.library.tenon_executable_run(executable, inputs, outputs, None))
    ended = time.perf_counter()
    for tensor in [*tensors, *(ctypes.c_void_p(output) for output in outputs if output)]:
        tenon.library.tenon_tensor_release(tensor)
    return ended


def round_of_tenon(tenon, path, values):
    begin = time.perf_counter()
    executable, imported, compiled = create_tenon(tenon, path)
    ended = run_tenon(tenon, executable, values)
    tenon.library.tenon_executable_release(executable)
    return {"import": imported - begin, "compile": compiled - imported, "create": compiled - begin, "first_run": ended - begin}


def round_of_onnxruntime(path, options, values):
    import onnxruntime

    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    created = time.perf_counter()
    session.run(None, values)
    return {"create": created - begin, "first_run": time.perf_counter() - begin}


def measure_here(path, threads, rounds, seconds):
    import binding
    import onnxruntime

    tenon, options = binding.Tenon(report.BUILD), onnxruntime.SessionOptions()
    tenon.threads_set(threads)
    for name in ("tenon_graph_release", "tenon_executable_release", "tenon_tensor_release"):
        getattr(tenon.library, name).argtypes = [ctypes.c_void_p]
    tenon.library.tenon_executable_create.argtypes = [ctypes.c_void_p] * 3
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass
    values = models.make_inputs(onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]))
    round_of_tenon(tenon, path, values)  # loads the operators
    found, begin = {"tenon": [], "onnxruntime": []}, time.perf_counter()
    while len(found["tenon"]) < LEAST or (len(found["tenon"]) < rounds and time.perf_counter() - begin < seconds):
        found["tenon"].append(round_of_tenon(tenon, path, values))
        found["onnxruntime"].append(round_of_onnxruntime(path, options, values))
    figures = {who: {key: round(report.median([one[key] for one in several]) * 1e3, 3) for key in several[0]} for who, several in found.items()}
    return {"rounds": len(found["tenon"]), **figures}


# ---- all models -----------------------------------------------------------------------------------------------------


def row_of(name, threads, found):
    tenon, peer = found["tenon"], found["onnxruntime"]
    ratio = lambda key: f"{tenon[key] / peer[key]:.2f}"
    return [f"{name}, {threads} threads" if threads > 1 else f"{name}, 1 thread", *(f"{tenon[key]:.2f}" for key in ("import", "compile", "create")), f"{peer['create']:.2f}", ratio("create"),
            f"{tenon['first_run']:.2f}", f"{peer['first_run']:.2f}", ratio("first_run")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=20, help="for one process; it has at least three rounds")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure_here(options.names[0], int(options.threads), options.rounds, options.seconds)))
        return 0
    figures, rows = {}, []
    for name, path in models.paths_of(options.names).items():
        report.progress(f"compile: {name}")
        figures[name] = {threads: models.measure_rounds_apart(__file__, path, threads, options) for threads in options.threads.split(",")}
        rows += [row_of(name, int(threads), found) for threads, found in figures[name].items()]
    report.print_table("from the file to an executable, milliseconds", ["", "import", "compile", "both", "ort", "over ort", "first run", "ort", "over ort"], rows)
    slower = [f"{name} ({threads})" for name, row in figures.items() for threads, found in row.items() if found["tenon"]["create"] > found["onnxruntime"]["create"]]
    print(f"  slower than ONNX Runtime: {', '.join(slower) or 'none'}")
    if not options.names:
        bert = figures["bert_base_128"]
        headline = [[f"import and compilation over onnxruntime's session, BERT base, {threads} threads",
                     f"{found['tenon']['create'] / found['onnxruntime']['create']:.2f} ({found['tenon']['create']:.0f} ms)"] for threads, found in bert.items()]
        headline.append(["models that take longer than onnxruntime's session", f"{len(slower)} of {2 * len(models.NAMES)}"])
        report.save("compile", figures, headline, "onnxruntime")
    return 0


if __name__ == "__main__":
    sys.exit(main())
