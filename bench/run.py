#!/usr/bin/env python3
"""Runs benchmarks one after another and prints the headline figures of each.

Usage: run.py [NAME...] (default: all of them). The exit status is 1 if a benchmark failed. TENON_BUILD names the
build folder (default: build). Each benchmark is a script in this folder; its help describes it and its options.
Complete runs are stored in bench/results/NAME.json.
"""
import json
import os
import subprocess
import sys
import time

import readme
import report

NAMES = ("calls", "autograd", "trace", "load", "isolated", "build", "scaffold", "check", "memory", "compile", "artifact", "devices", "opencl", "transfers", "gemm", "python", "pytorch", "torch_compile", "torch_device", "models", "quantised", "parallel", "regions", "device_regions", "rewrites", "training", "contention", "trees", "nodes", "small", "onnxruntime_ops", "tvm_ffi_calls")
NAMED = ("mxnet", "mxnet_export", "views")  # run only when named: two need MXNet's virtual environment, one compares ways of running views
VENVS = {name: ".venv-zoo" for name in ("python", "pytorch", "torch_device", "training")}  # these need PyTorch
VENVS["torch_compile"] = ".venv-compile"
VENVS["tvm_ffi_calls"] = ".venv-tvm-ffi-0.1.15"


def python_of(name):
    return os.path.join(report.ROOT, VENVS[name], "bin", "python") if name in VENVS else sys.executable


def main():
    wanted = sys.argv[1:] or NAMES
    unknown = [name for name in wanted if name not in NAMES + NAMED]
    if unknown:
        sys.exit(f"bench: no benchmark {', '.join(unknown)}; there are {', '.join(NAMES + NAMED)}")
    failed, rows = [], []
    for index, name in enumerate(wanted):
        print(f"== {name} ({index + 1} of {len(wanted)})", flush=True)
        begin, path = time.time(), os.path.join(report.RESULTS, f"{name}.json")
        run = subprocess.run([python_of(name), os.path.join(report.ROOT, "bench", f"{name}.py")])
        if run.returncode != 0:
            failed.append(f"{name}: status {run.returncode}")
        if os.path.exists(path) and os.path.getmtime(path) >= begin - 1:
            rows += json.load(open(path))["headline"]
    info = report.machine()
    report.print_table(f"{info['cpu']}, {info['cores']} cores, {' '.join(info['instruction_sets'])}", ["", ""], rows)
    if not failed and len(wanted) == len(NAMES):
        readme.write()
        print("README.md is updated with these figures")
    for line in failed:
        print(f"FAIL {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
