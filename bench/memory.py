#!/usr/bin/env python3
"""Measures the peak memory of one model in a fresh process: Tenon and ONNX Runtime, same file, threads and runs.

Both run from a Python that imports no more than the runtime needs; Tenon also runs from C (`tenon run`). `peak` is
VmHWM, the most that the process ever had in memory, mapped files included. `above start` is the peak minus the memory
in use after the runtime was imported and before the model was loaded.

Usage: memory.py [--threads N] [--runs N] [--rounds N] [NAME...]
"""
import argparse
import json
import os
import subprocess
import sys

import report

FILES = {"minilm": "run/minilm_ids.onnx", "minilm_128": "zoo/minilm_128.onnx", "resnet50": "zoo/resnet50.onnx"}
DIMS = {"minilm": {"n": 1, "length": 128}}  # symbolic extents
TEXTS = {"tenon": "tenon", "onnxruntime": "onnxruntime", "command": "tenon, from C"}


# ---- in a process of its own ----------------------------------------------------------------------------------------


def status():
    """KiB by name, from /proc/self/status."""
    rows = (line.split() for line in open("/proc/self/status") if line.startswith(("Vm", "Rss")))
    return {row[0][:-1]: int(row[1]) for row in rows}


def extents(shape):
    """A shape with numbers for symbolic extents: 1 for the first axis, 128 for the others."""
    return [value if isinstance(value, int) and value > 0 else 1 if i == 0 else 128 for i, value in enumerate(shape)]


def run_tenon(path, threads, runs):
    import ctypes

    import binding

    tenon = binding.Tenon(report.BUILD)
    tenon.threads_set(threads)
    before, model, inputs = status()["VmRSS"], tenon.load(path), []
    for _, (code, bits), shape in model.inputs:
        shape, count = extents(shape), 1
        for value in shape:
            count *= value
        kind = ctypes.c_float if code == 2 else ctypes.c_int64
        assert ctypes.sizeof(kind) * 8 == bits, f"an input of {bits} bits"
        memory = (kind * count)(*[1] * count)
        inputs.append((tenon.tensor(ctypes.addressof(memory), (code, bits), shape), memory))
    model.bind([tensor for tensor, _ in inputs], [None] * len(model.outputs))
    for _ in range(runs):
        model.run()
        model.release_outputs()
    return before


def run_onnxruntime(path, threads, runs):
    import numpy as np
    import onnxruntime

    before, options = status()["VmRSS"], onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = {port.name: np.ones(extents(port.shape), np.float32 if "float" in port.type else np.int64) for port in session.get_inputs()}
    for _ in range(runs):
        session.run(None, values)
    return before


def measure_here(which, path, threads, runs):
    before = {"tenon": run_tenon, "onnxruntime": run_onnxruntime}[which](path, threads, runs)
    now = status()
    return {"peak": now["VmHWM"], "above_start": now["VmHWM"] - before, "anonymous": now["RssAnon"], "files": now["RssFile"]}


# ---- all models -----------------------------------------------------------------------------------------------------


def measure_apart(which, name, path, threads, runs):
    if which == "command":
        dims = [word for dim, value in DIMS.get(name, {}).items() for word in ("--dim", f"{dim}={value}")]
        command = [os.path.join(report.BUILD, "tenon"), "run", path, "--threads", str(threads), "--repeat", str(runs), "--input", "ones", *dims]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, ended, usage = os.wait4(child.pid, 0)
        assert ended == 0, f"{' '.join(command)}: status {ended}"
        return {"peak": usage.ru_maxrss}  # equal to VmHWM, since this process is smaller than the command becomes
    command = [sys.executable, os.path.abspath(__file__), "--one", which, "--threads", str(threads), "--runs", str(runs), path]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, f"{which}: status {run.returncode}: {run.stderr.strip()[-500:]}"
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind; the median counts")
    parser.add_argument("--one", choices=("tenon", "onnxruntime"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure_here(options.one, options.names[0], options.threads, options.runs)))
        return 0
    unknown = [name for name in options.names if name not in FILES]
    if unknown:
        sys.exit(f"memory: no model {', '.join(unknown)}; there are {', '.join(FILES)}")
    figures, rows, missing = {}, [], []
    for name in options.names or FILES:
        path = os.path.join(report.BUILD, FILES[name])
        if not os.path.exists(path):
            missing.append(f"{name}: {FILES[name]} is not there ({'make run' if name == 'minilm' else 'make zoo'} makes it)")
            continue
        report.progress(f"memory: {name}")
        found = {which: [] for which in TEXTS}
        for _ in range(options.rounds):
            for which in found:
                found[which].append(measure_apart(which, name, path, options.threads, options.runs))
        figures[name] = {which: {key: report.median([one[key] for one in several]) for key in several[0]} for which, several in found.items()}
        figures[name]["file"] = os.path.getsize(path) >> 10
        mib = lambda which, key: f"{figures[name][which][key] / 1024:.1f}" if key in figures[name][which] else "-"
        for which, text in TEXTS.items():
            ratio = figures[name][which]["peak"] / figures[name]["onnxruntime"]["peak"]
            rows.append([f"{name}, {text}", *(mib(which, key) for key in ("peak", "above_start", "anonymous", "files")), f"{ratio:.2f}"])
        rows.append([f"{name}, size of the file", f"{figures[name]['file'] / 1024:.1f}", "", "", "", ""])
    report.print_table(f"memory, MiB, {options.threads} threads, after {options.runs} runs", ["", "peak", "above start", "anonymous", "mapped files", "peak over ort"], rows)
    print("".join(f"FAIL {line}\n" for line in missing), end="")
    if figures and not options.names and not missing:
        headline = [[f"peak memory over onnxruntime, {name}", f"{f['tenon']['peak'] / f['onnxruntime']['peak']:.2f} ({f['tenon']['peak'] / 1024:.0f} MiB)"]
                    for name, f in figures.items()]
        report.save("memory", figures, headline, "onnxruntime")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
