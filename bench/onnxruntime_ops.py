#!/usr/bin/env python3
"""Measures a call of an operator in a library for ONNX Runtime through Tenon, beside the same loop called directly.

Usage: onnxruntime_ops.py [--rounds N]. micro/onnxruntime.c does the timing, in one process. The kernel reads the shape of
its input, asks for its result and runs the loop, as all kernels do, so the figures contain what that costs. If
valgrind is installed, the instructions of a call are counted as well.
"""
import argparse
import os
import re
import shutil
import subprocess

import report

SOURCES = os.path.join(report.ROOT, "tests", "adapters", "onnxruntime_libraries")
TEXTS = {"direct": "the loop, called directly", "run": "tenon_op_run", "bound": "tenon_bound_run", "call_into": "tenon_op_call_into", "call": "tenon_op_call and release"}
OPERATOR = "test_api18::Twice"


def instructions(program, path):
    """Counts the instructions of a call of each way, as the mean of 1,000 calls."""
    if not shutil.which("valgrind"):
        return {}
    out, counts = os.path.join(report.SCRATCH, "onnxruntime.callgrind"), {}
    for way, function in {"direct": "direct", "run": "run", "bound": "run_bound", "call_into": "call_into", "call": "call"}.items():
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", f"--toggle-collect={function}", program, path, OPERATOR, "0"], check=True, capture_output=True)
        with open(out, encoding="utf-8") as file:
            counts[way] = round(int(re.search(r"^totals: (\d+)", file.read(), re.M)[1]) / 1000)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1001)
    options = parser.parse_args()
    report.warn_when_busy()
    program = report.compile_c("onnxruntime.c", *report.LINK_TENON)
    path = os.path.join(report.SCRATCH, "libonnxruntime_bench.so")
    subprocess.run(["cc", "-std=gnu11", "-w", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DAPI=18", os.path.join(SOURCES, "ops.c"), "-o", path], check=True)
    lines = subprocess.run([program, path, OPERATOR, str(options.rounds)], check=True, capture_output=True, text=True).stdout.splitlines()
    times = {words[0]: float(words[1]) for words in (line.split() for line in lines)}
    counts = instructions(program, path)
    rows = [[text, f"{times[way]:.0f}", f"{times[way] - times['direct']:.0f}", str(counts.get(way, "-"))] for way, text in TEXTS.items()]
    report.print_table("An operator of a library for ONNX Runtime: a call", ["", "ns", "above the loop", "instructions"], rows)
    report.save("onnxruntime_ops", {"times": times, "instructions": counts}, [["an operator of a library for ONNX Runtime, tenon_op_run: ns above its loop", f"{times['run'] - times['direct']:.0f}"]])


if __name__ == "__main__":
    main()
