#!/usr/bin/env python3
"""Measures the peak memory of each model in a fresh process: Tenon and ONNX Runtime, same file, threads and runs.

Both run from a Python that imports NumPy and the runtime (for Tenon its package); Tenon also runs from C (`tenon run`).
`peak` is VmHWM, the most that the process ever had in memory, mapped files included. `above start` is the peak minus
the memory in use after the runtime was imported and before the model was loaded.

Usage: memory.py [--threads N] [--runs N] [--rounds N] [NAME...]
"""
import argparse
import json
import os
import subprocess
import sys

import models
import report

HEADLINES = "minilm_128", "bert_base_128", "resnet50"
TEXTS = {"tenon": "tenon", "onnxruntime": "onnxruntime", "command": "tenon, from C"}


# ---- all models -----------------------------------------------------------------------------------------------------


def measure_apart(which, path, threads, runs):
    if which == "command":
        command = [os.path.join(report.BUILD, "tenon"), "run", path, "--threads", str(threads), "--repeat", str(runs), "--input", "ones"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, ended, usage = os.wait4(child.pid, 0)
        assert ended == 0, f"{' '.join(command)}: status {ended}"
        return {"peak": usage.ru_maxrss}  # equal to VmHWM, since this process is smaller than the command becomes
    command = [sys.executable, os.path.join(report.ROOT, "bench", "peak.py"), which, str(threads), str(runs), path]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TENON_BUILD": report.BUILD})
    assert run.returncode == 0, f"{which}: status {run.returncode}: {run.stderr.strip()[-500:]}"
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind; the median counts")
    options = parser.parse_args()
    figures, rows = {}, []
    for name, path in models.paths_of(options.names).items():
        report.progress(f"memory: {name}")
        found = {which: [] for which in TEXTS}
        for _ in range(options.rounds):
            for which in found:
                found[which].append(measure_apart(which, path, options.threads, options.runs))
        figures[name] = {which: {key: report.median([one[key] for one in several]) for key in several[0]} for which, several in found.items()}
        figures[name]["file"] = os.path.getsize(path) >> 10
        mib = lambda which, key: f"{figures[name][which][key] / 1024:.1f}" if key in figures[name][which] else "-"
        for which, text in TEXTS.items():
            ratio = figures[name][which]["peak"] / figures[name]["onnxruntime"]["peak"]
            rows.append([f"{name}, {text}", *(mib(which, key) for key in ("peak", "above_start", "anonymous", "files")), f"{ratio:.2f}"])
        rows.append([f"{name}, size of the file", f"{figures[name]['file'] / 1024:.1f}", "", "", "", ""])
    report.print_table(f"memory, MiB, {options.threads} threads, after {options.runs} runs", ["", "peak", "above start", "anonymous", "mapped files", "peak over ort"], rows)
    above = [f"{name} ({f['tenon']['peak'] / f['onnxruntime']['peak']:.2f})" for name, f in figures.items() if f["tenon"]["peak"] > f["onnxruntime"]["peak"]]
    print(f"  peak above ONNX Runtime's, both from Python: {', '.join(above) or 'none'}")
    if not options.names:
        headline = [[f"peak memory over onnxruntime, {name}", f"{f['tenon']['peak'] / f['onnxruntime']['peak']:.2f} ({f['tenon']['peak'] / 1024:.0f} MiB)"]
                    for name, f in figures.items() if name in HEADLINES]
        headline.append(["models with a higher peak than onnxruntime", f"{len(above)} of {len(figures)}"])
        report.save("memory", figures, headline, "onnxruntime")
    return 0


if __name__ == "__main__":
    sys.exit(main())
